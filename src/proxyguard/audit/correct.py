"""After opening: deviations are recorded, one correction is added, nothing is replaced.

Whoever has opened the target knows what each test and each design would say. So a correction is
for a sampling design that turned out to be another one, once; everything else about it follows
from the registration, and what it says has no confidence level of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from proxyguard.audit.decide import decide
from proxyguard.audit.folder import CORRECTION, RELEASES, AuditFolder
from proxyguard.audit.home import Home
from proxyguard.audit.open import Opener
from proxyguard.audit.outcome import CorrectiveCertificate
from proxyguard.audit.register import check_claim, check_sizes
from proxyguard.audit.rules import measures_of
from proxyguard.certificate.wording import corrective_sentence
from proxyguard.documents.canonical import digest
from proxyguard.documents.certificate import Correction
from proxyguard.documents.document import FORMAT
from proxyguard.documents.evidence import FixedEvidence
from proxyguard.documents.ledger import Corrected, DesignText, Deviated
from proxyguard.documents.registry import Registry
from proxyguard.documents.releases import ReleaseManifest
from proxyguard.errors import RegistryError, StageError
from proxyguard.registry.declaration import Declaration
from proxyguard.seal.journal import Journal, writing
from proxyguard.seal.ledger import Schedule, Stage
from proxyguard.seal.storage import now

BASIS = (
    "a corrective certificate under a corrected sampling design, chosen after the target was "
    "opened; it has no confidence level of its own and does not replace the registered one"
)


def deviate(folder: AuditFolder, home: Home, reason: str) -> None:
    """Record that something was not done as registered."""
    if not reason.strip():
        raise RegistryError("a deviation says what happened; give a reason")
    with writing(folder.path) as journal:
        journal.record(Deviated(reason=reason, time=now()), home.signing_key())


def correct(
    folder: AuditFolder, home: Home, reason: str, design: DesignText, opener: Opener
) -> CorrectiveCertificate:
    """Score again under a changed design and record the result as the correction.

    Where there is one already, the wish for another is recorded as a deviation, nothing is
    scored, and what is returned has no verdict; the same design gives the recorded one.
    """
    if not reason.strip():
        raise RegistryError("a correction says why; give a reason")
    with writing(folder.path) as journal:
        if not journal.ledger.has(Stage.CERTIFIED):
            raise StageError("corrected: there is no certificate to correct")
        registry = folder.registry(journal)
        corrected = corrected_registry(registry, design, journal)
        before = journal.ledger.find(Corrected)
        if before:
            if before[0].body.design == design:
                return CorrectiveCertificate(document=folder.document(Correction, CORRECTION))
            again = Deviated(
                reason=f"a second correction was asked for and decides nothing: {reason}",
                design=design,
                time=now(),
            )
            journal.record(again, home.signing_key())
            return CorrectiveCertificate(document=None, deviation=again.reason, design=design)
        evidence = opener.rescore(journal, corrected)
        assert isinstance(evidence, FixedEvidence)  # other audits have no correction
        value = correction_of(folder, registry, corrected, design, reason, evidence)
        corrected_entry = Corrected.of(
            {
                "reason": reason,
                "design": design,
                "decisions": decisions_of(value),
                "correction": digest(value),
                "files": {CORRECTION: folder.write_json(CORRECTION, value)},
                "time": now(),
            },
            "the correction",
        )
        journal.record(corrected_entry, home.signing_key())
    return CorrectiveCertificate(document=Correction.of(value, CORRECTION))


def correction_of(
    folder: AuditFolder,
    registry: Registry,
    corrected: Registry,
    design: Mapping[str, Any] | str,
    reason: str,
    evidence: FixedEvidence,
) -> dict[str, Any]:
    """Return the corrective certificate that follows from its evidence; verify makes it anew."""
    decided = decide(corrected, folder.document(ReleaseManifest, RELEASES), evidence, BASIS)
    # A budget for choosing releases after looking was registered for the registered design.
    decided.pop("picks", None)
    decided["verdicts"] = [
        {**verdict, "sentence": corrective_sentence(verdict), "joint_coverage": None}
        for verdict in decided["verdicts"]
    ]
    decided["text"] = "\n".join(
        f"{verdict['mechanism']}: {verdict['sentence']}" for verdict in decided["verdicts"]
    )
    return {
        "format": FORMAT,
        "reason": reason,
        "design": design,
        "label": BASIS,
        "corrects": registry.digest,
        "evidence": evidence.to_dict(),
        **decided,
    }


def decisions_of(correction: Mapping[str, Any]) -> dict[str, str]:
    """Return what a corrective certificate says of each mechanism or named release."""
    return {verdict["mechanism"]: verdict["decision"] for verdict in correction["verdicts"]}


def corrected_registry(
    registry: Registry, design: Mapping[str, Any] | str, journal: Journal
) -> Registry:
    """Return the registry with the changed design; raise where that is no correction.

    The test stays the registered one where that covers the changed design, and is the default
    for it otherwise: after the opening nobody may choose among tests.
    """
    if journal.ledger.schedule is Schedule.SEQUENTIAL:
        raise StageError("corrected: audits that draw after opening have no correction here")
    corrected = _declaring(registry, registry.declaration.redesigned(design))
    if _designs(corrected.declaration) == _designs(registry.declaration):
        raise RegistryError(
            "a correction is for a sampling design that turned out to be another one, and this is "
            "the registered design: that is not a correction"
        )
    (member,) = corrected.declaration.members
    requirements = [
        m.requirement for m in measures_of(member, corrected.members[member.name].requirements)
    ]
    claim = corrected.declaration.claim.to_claim()
    if not claim.covers(member.target.sampling_design, requirements):
        declared = registry.declaration.redesigned(design, default_test=True)
        corrected = _declaring(registry, declared)
    sealed = journal.ledger.sealed.members[member.name]
    check_sizes(member, sealed.records)
    check_claim(corrected.declaration, requirements, member.name)
    return corrected


def _declaring(registry: Registry, declaration: Declaration) -> Registry:
    """Return a registry with a changed declaration."""
    return registry.model_copy(update={"declaration": declaration})


def _designs(declaration: Declaration) -> list[Any]:
    """Return the designs as the tests see them, with the column that tells units apart."""
    return [(m.target.sampling_design, m.target.design_column) for m in declaration.members]
