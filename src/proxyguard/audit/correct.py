"""After opening: deviations are recorded, corrections are added, nothing is replaced."""

from __future__ import annotations

from typing import Any

from proxyguard.audit.decide import decide
from proxyguard.audit.folder import RELEASES, AuditFolder, Registry
from proxyguard.audit.home import Home
from proxyguard.audit.measures import measures_of
from proxyguard.audit.open import Opener
from proxyguard.audit.register import check_claim, check_sizes
from proxyguard.audit.resolve import Workplace
from proxyguard.errors import RegistryError, StageError
from proxyguard.seal.canonical import digest
from proxyguard.seal.entropy import now
from proxyguard.seal.journal import writing
from proxyguard.seal.ledger import Path as LedgerPath
from proxyguard.seal.ledger import Stage

BASIS = (
    "a corrective certificate under a corrected sampling design, added after the target was "
    "opened; it does not replace the registered one"
)


def deviate(folder: AuditFolder, home: Home, reason: str) -> None:
    """Record that something was not done as registered."""
    if not reason.strip():
        raise RegistryError("a deviation says what happened; give a reason")
    with writing(folder.path) as journal:
        journal.record(Stage.DEVIATED, {"reason": reason, "time": now()}, home.signing_key())


def correct(
    place: Workplace,
    home: Home,
    reason: str,
    design: dict[str, Any],
    opener: Opener,
    test: str | None = None,
) -> dict[str, Any]:
    """Score again under a corrected design and record the result as a correction."""
    folder = place.folder
    if not reason.strip():
        raise RegistryError("a correction says why; give a reason")
    with writing(folder.path) as journal:
        if not journal.ledger.has(Stage.CERTIFIED):
            raise StageError("corrected: there is no certificate to correct")
        if journal.ledger.path is LedgerPath.SEQUENTIAL:
            raise StageError("corrected: audits that draw after opening have no correction here")
        registry = folder.registry(journal)
        corrected = corrected_registry(registry, design, test)
        for member in corrected.declaration.members:
            measures = measures_of(member, corrected.member(member.name)["requirements"])
            check_sizes(member, journal.ledger.find(Stage.SEALED)[0].body["members"][member.name])
            check_claim(corrected.declaration, [m.requirement for m in measures], member.name)
        evidence = opener.rescore(journal, corrected)
        decided = decide(corrected, folder.read_json(RELEASES), evidence, BASIS)
        index = len(journal.ledger.find(Stage.CORRECTED))
        value = {
            "format": 1,
            "reason": reason,
            "design": design,
            "test": test,
            "label": BASIS,
            "corrects": registry.digest,
            "evidence": evidence,
            **decided,
        }
        name = correction_name(index)
        body = {
            "reason": reason,
            "design": design,
            "decisions": {v["mechanism"]: v["decision"] for v in decided["verdicts"]},
            "correction": digest(value),
            "files": {name: folder.write_json(name, value)},
            "time": now(),
        }
        journal.record(Stage.CORRECTED, body, home.signing_key())
    return value


def correction_name(index: int) -> str:
    """Return the file of a correction."""
    return f"corrections/{index}.json"


def corrected_registry(
    registry: Registry, design: dict[str, Any], test: str | None = None
) -> Registry:
    """Return the registry with another sampling design, and a test that it allows."""
    declaration = {**registry.value["declaration"]}
    if declaration["target"] is None:
        raise RegistryError("a family of candidates has a design for each; correct them apart")
    declaration["target"] = {**declaration["target"], "design": design}
    if test is not None:
        declaration["claim"] = {**declaration["claim"], "test": test}
    return Registry({**registry.value, "declaration": declaration})
