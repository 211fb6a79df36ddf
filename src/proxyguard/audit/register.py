"""Resolve every rule, check that the claim is covered, and freeze it (the audit's second step)."""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt
from typing import Any

from proxyguard.audit.folder import (
    DECLARATION,
    AuditFolder,
    Registry,
    registry_name,
    snapshot_name,
)
from proxyguard.audit.home import Home
from proxyguard.audit.resolve import (
    MemberDevelopment,
    Workplace,
    design_of,
    measures_of,
    resolve_mechanisms,
    resolve_requirements,
)
from proxyguard.audit.seal import check_sealed_part
from proxyguard.errors import RegistryError, StageError, TargetReused, UnsupportedDesign
from proxyguard.registry.claim import Claim
from proxyguard.registry.declaration import Declaration
from proxyguard.registry.requirement import Requirement
from proxyguard.seal.canonical import digest
from proxyguard.seal.entropy import now
from proxyguard.seal.journal import Journal, writing
from proxyguard.seal.ledger import Path as LedgerPath
from proxyguard.seal.ledger import Stage
from proxyguard.seal.lineage import Overlap


def register(place: Workplace, home: Home, software: dict[str, str]) -> dict[str, Any]:
    """Register the declaration; after this only an amendment can change it."""
    folder = place.folder
    text = folder.declaration_text()
    declaration = folder.declaration()
    key = home.signing_key()
    with writing(folder.path) as journal:
        if not journal.ledger.has(Stage.SEALED):
            raise StageError("registered: the target must be sealed first, run proxyguard seal")
        if journal.ledger.has(Stage.REGISTERED):
            raise StageError("registered: recorded already; change it with proxyguard amend")
        overlaps = check_lineage(folder, journal, home)
        value, facts = build_registry(place, declaration, journal, software)
        developed = {"members": facts, "files": _model_files(folder, facts)}
        steps = journal.ledger.find(Stage.DEVELOPED)
        if not steps or {k: v for k, v in steps[-1].body.items() if k != "time"} != developed:
            journal.record(Stage.DEVELOPED, {**developed, "time": now()}, key)
        body = {
            "declaration": digest(value),
            "path": path_of(declaration).value,
            "lineage": [overlap.to_dict() for overlap in overlaps],
            "files": write_registry(folder, 0, value, text),
            "time": now(),
        }
        journal.record(Stage.REGISTERED, body, key)
    return value


def build_registry(
    place: Workplace, declaration: Declaration, journal: Journal, software: dict[str, str]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the registry that a declaration resolves to, and the facts of development."""
    sealed = journal.ledger.find(Stage.SEALED)[0].body
    check_sealed_part(declaration, dict(sealed))
    members, facts = {}, {}
    for member in declaration.members:
        development = MemberDevelopment(place, member, sealed["members"][member.name])
        if member.target.losses is not None:
            requirements = _given_requirements(development)
            fact: dict[str, Any] = {}
        else:
            requirements, fact = resolve_requirements(development, declaration)
        learner = None if member.target.losses is not None else development.learner()
        mechanisms = resolve_mechanisms(declaration, development, requirements, fact)
        members[member.name] = {
            "requirements": requirements,
            "mechanisms": mechanisms,
            "procedure": None if learner is None else dict(learner.describe()),
            "features": [] if learner is None else development.features,
            "source": fact.get("source"),
            "commitment": development.sealed["commitment"],
        }
        facts[member.name] = fact
        check_claim(declaration, [m.requirement for m in measures_of(member, requirements)],
                    member.name)  # fmt: skip
    value = {
        "format": 1,
        "declaration": declaration.to_dict(),
        "members": members,
        "software": software,
    }
    Registry(value)  # what cannot be read back is refused before it is recorded
    return value, facts


def check_claim(declaration: Declaration, requirements: Sequence[Requirement], name: str) -> None:
    """Raise with every reason why the claim is not covered on this member's design."""
    member = next(m for m in declaration.members if m.name == name)
    reasons = claim_reasons(declaration, design_of(member), requirements)
    if reasons:
        raise UnsupportedDesign("; ".join(dict.fromkeys(reasons)))


def claim_reasons(
    declaration: Declaration, design: Any, requirements: Sequence[Requirement]
) -> list[str]:
    """Return every reason why a claim is not covered; empty if it is."""
    claim = declaration.claim
    if claim.after_opening:
        plain = Claim.of({"mode": "releases", "beta": None, "test": claim.test})
        return plain.supports(design, requirements)
    return claim.to_claim().supports(design, requirements)


def path_of(declaration: Declaration) -> LedgerPath:
    """Return whether all releases are drawn before the target is opened."""
    return LedgerPath.SEQUENTIAL if declaration.claim.after_opening else LedgerPath.FIXED


def write_registry(
    folder: AuditFolder, index: int, value: dict[str, Any], text: str
) -> dict[str, str]:
    """Write a registry and the declaration's own text; return the files and their digests."""
    content = text.encode()
    return {
        registry_name(index): folder.write_json(registry_name(index), value),
        snapshot_name(index): folder.write(snapshot_name(index), content),
        DECLARATION: folder.sha256(DECLARATION),
    }


def check_lineage(folder: AuditFolder, journal: Journal, home: Home) -> list[Overlap]:
    """Return where target records were met before; a leak into development is an error."""
    sealed = journal.ledger.find(Stage.SEALED)[0].body
    audit = str(sealed["audit"])
    store = home.lineage
    store.confirm(audit)
    expected = {
        (name, role): float(number)
        for name, member in sealed["members"].items()
        for role, number in member["expected_twins"].items()
    }
    overlaps = store.overlaps(audit, expected)
    declaration = folder.declaration()
    targets = {m.name: m.target for m in declaration.members}
    for overlap in overlaps:
        if not overlap.same_audit or overlap.role == "target":
            continue
        if overlap.shared:
            raise TargetReused(
                f"{overlap.shared} records of the target are also in {overlap.role} of this audit"
            )
        many = overlap.expected_twins + 5.0 * sqrt(overlap.expected_twins) + 10.0
        if (
            not overlap.same_table
            and overlap.twins > many
            and targets[overlap.member].coincidence is None
        ):
            raise TargetReused(
                f"{overlap.twins} records of the target have the values of a {overlap.role} "
                f"record, about {overlap.expected_twins:.0f} would by coincidence; take them out "
                "of development, or say in target.coincidence why they are other records"
            )
    return overlaps


def _given_requirements(development: MemberDevelopment) -> list[dict[str, Any]]:
    """Return the requirements of losses that were computed elsewhere; names must agree."""
    member = development.member
    names = [part.name for part in member.requirement]
    if names != list(development.sealed["requirements"]):
        raise RegistryError(
            f"the losses are about {list(development.sealed['requirements'])}, declared are {names}"
        )
    declared = sum(m.draws for m in member.mechanism)
    if declared != len(development.sealed["releases"]):
        raise RegistryError(
            f"the losses have {len(development.sealed['releases'])} releases, declared are "
            f"{declared} draws"
        )
    return [
        {
            "part": part.model_dump(mode="json"),
            "limit": {"value": part.limit, "rule": "as declared", "inputs": {}},
            "slack": (
                None
                if part.slack is None
                else {"value": part.slack, "rule": "as declared", "inputs": {}}
            ),
            "queries": [],
        }
        for part in member.requirement
    ]


def _model_files(folder: AuditFolder, facts: dict[str, Any]) -> dict[str, str]:
    """Return the stored source procedures, which are named by their digest."""
    found = {}
    for fact in facts.values():
        if fact.get("source"):
            address = fact["source"]["model"]
            found[folder.store.path(address).relative_to(folder.path).as_posix()] = address
    return found
