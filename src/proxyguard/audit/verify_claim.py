"""Verify a registered claim: steps 3 to 9 of `verify`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import isclose
from typing import TYPE_CHECKING, Any

from proxyguard.audit.decide import groups_of, readings_of
from proxyguard.audit.envelope import open_envelope, statement
from proxyguard.audit.folder import (
    CERTIFICATE,
    DECLARATION,
    EVIDENCE,
    GRANT,
    RELEASES,
    AuditFolder,
    Registry,
    registry_name,
    snapshot_name,
)
from proxyguard.audit.grant import read_grant, release_set
from proxyguard.audit.open import predicate_of, subjects_of
from proxyguard.audit.report import report_bytes
from proxyguard.audit.sequential import check_sequential, sequential_predicate
from proxyguard.audit.verify import Verification, step
from proxyguard.errors import SealError
from proxyguard.evidence.record import derived_record, read_evidence
from proxyguard.registry.declaration import read_declaration
from proxyguard.seal.canonical import digest
from proxyguard.seal.journal import Journal
from proxyguard.seal.ledger import Path as LedgerPath
from proxyguard.seal.ledger import Stage

if TYPE_CHECKING:
    from proxyguard.audit.verify import Rescore

CLOSE = 1e-9
"""Relative difference that another machine's arithmetic may make in a derived number."""


def verify_claim(
    result: Verification,
    folder: AuditFolder,
    journal: Journal,
    rescore: Rescore | None,
) -> None:
    """Check what was registered, drawn, granted, scored, decided and reported."""
    registry = step(
        result, "registry", "declaration: sealed and registered as it reads",
        lambda: _check_registry(folder, journal),
    )  # fmt: skip
    if registry is None:
        return
    ledger = journal.ledger
    sequential = ledger.path is LedgerPath.SEQUENTIAL
    if ledger.has(Stage.DRAWN) and not sequential:
        step(result, RELEASES, "releases: the registered seeds, each once",
              lambda: check_manifest(folder, registry, journal))  # fmt: skip
    if not ledger.has(Stage.OPENED):
        return
    grant = None
    if ledger.find(Stage.SEALED)[0].body["steward"] is not None:
        grant = step(result, GRANT, "grant: the steward's signature",
                      lambda: read_grant(folder, journal))  # fmt: skip
    if not ledger.has(Stage.CERTIFIED) or not result.good:
        return  # what is derived from changed files says nothing
    evidence = folder.read_json(EVIDENCE)
    if sequential:
        step(result, EVIDENCE, "evidence: scores derived anew from the statistics",
              lambda: check_sequential(folder, journal, registry, evidence))  # fmt: skip
    else:
        step(result, EVIDENCE, "evidence: p-values and bounds derived anew",
              lambda: _check_evidence(folder, journal, registry, evidence))  # fmt: skip
    step(
        result, CERTIFICATE, "certificate: signature, subjects, decided anew",
        lambda: _check_certificate(result, folder, journal, registry, evidence, grant),
    )  # fmt: skip
    step(result, "report", "report: built anew, byte by byte",
          lambda: _check_report(folder, journal))  # fmt: skip
    if rescore is not None:
        step(result, EVIDENCE, "losses: computed again from the target",
              lambda: _check_rescored(evidence, rescore(journal, registry)))  # fmt: skip


def _check_registry(folder: AuditFolder, journal: Journal) -> Registry:
    """See that each registry is what its declaration's text says, and fits the seal."""
    ledger = journal.ledger
    steps = [*ledger.find(Stage.REGISTERED), *ledger.find(Stage.AMENDED)]
    sealed = ledger.find(Stage.SEALED)[0].body
    for index, entry in enumerate(steps):
        value = folder.read_json(registry_name(index))
        if digest(value) != entry.body["declaration"]:
            raise SealError(f"{registry_name(index)} is not the one that was recorded")
        text = (folder / snapshot_name(index)).read_text(encoding="utf-8")
        declared = read_declaration(text)
        if declared.to_dict() != value["declaration"]:
            raise SealError(f"{registry_name(index)} is about another declaration than its text")
        if digest(declared.sealed_part()) != sealed["declaration"]:
            raise SealError("target or development differ from what was sealed")
        for name, member in value["members"].items():
            if member["commitment"] != sealed["members"][name]["commitment"]:
                raise SealError(f"the registry is about another sealed target for {name!r}")
    if (folder / DECLARATION).read_text(encoding="utf-8") != text:
        raise SealError(f"{DECLARATION} is not the declaration that is in force")
    return folder.registry(journal)


def check_manifest(folder: AuditFolder, registry: Registry, journal: Journal) -> None:
    """See that every registered seed was drawn once, and nothing else was."""
    manifest = folder.read_json(RELEASES)
    drawn = journal.ledger.find(Stage.DRAWN)[0].body
    known = {registry.digest, *(e.body["supersedes"] for e in journal.ledger.find(Stage.AMENDED))}
    if manifest["registry"] not in known or drawn["registry"] != manifest["registry"]:
        raise SealError("the releases were drawn for another registry")
    for member in registry.declaration.members:
        found = manifest["members"].get(member.name, {})
        expected = {m.name: list(m.seed_list) for m in member.mechanism}
        seed = 0 if member.procedure is None else member.procedure.seed
        expected |= {r.name: [seed] for r in member.release}
        if set(found) != set(expected):
            raise SealError(f"drawn were {sorted(found)}, registered {sorted(expected)}")
        for name, seeds in expected.items():
            have = [d["seed"] for d in found[name]["draws"]]
            if have != seeds:
                raise SealError(
                    f"{name}: the draws have seeds {have[:5]}..., registered were {seeds[:5]}..."
                )
            contents = [d["content"] for d in found[name]["draws"] if "content" in d]
            if len(set(contents)) < len(contents) and not found[name]["deterministic"]:
                raise SealError(f"{name}: two draws are the same release")


def _check_evidence(
    folder: AuditFolder, journal: Journal, registry: Registry, evidence: Mapping[str, Any]
) -> None:
    if evidence["registry"] != registry.digest or evidence["releases"] != release_set(journal):
        raise SealError("the evidence is about another registry or other releases")
    groups = groups_of(registry, folder.read_json(RELEASES))
    readings = readings_of(registry, groups, int(evidence["seed"]))
    if set(evidence["groups"]) != {g.name for g in groups}:
        raise SealError("the evidence is about other mechanisms")
    for group in groups:
        record = evidence["groups"][group.name]
        names = [str(d.get("name", d["seed"])) for d in group.draws]
        if record["releases"] != names:
            raise SealError(f"{group.name}: the evidence is about other releases")
        again = derived_record(read_evidence(record, readings[group.name][0]))
        _agree(record["derived"], again, f"{group.name}, derived values")


def _check_certificate(
    result: Verification,
    folder: AuditFolder,
    journal: Journal,
    registry: Registry,
    evidence: Mapping[str, Any],
    grant: dict[str, Any] | None,
) -> None:
    value, signer = open_envelope((folder / CERTIFICATE).read_bytes())
    if signer != journal.signer:
        raise SealError("the certificate was signed by another key than the ledger")
    make = sequential_predicate if journal.ledger.path is LedgerPath.SEQUENTIAL else predicate_of
    predicate = make(folder, journal, registry, evidence, grant)
    expected = statement(subjects_of(journal, registry, folder.sha256(EVIDENCE)), predicate)
    _agree(value, expected, "the certificate")
    result.attestation = predicate["attestation"]["words"]


def _check_report(folder: AuditFolder, journal: Journal) -> None:
    for name, content in report_bytes(folder, journal).items():
        place = folder / name
        if not place.exists():
            continue  # a report can be written at any time; one that is there must be this one
        if place.read_bytes() != content:
            raise SealError(f"{name} is not the report of this audit; write it anew with report")


def _check_rescored(evidence: Mapping[str, Any], again: Mapping[str, Any]) -> None:
    _agree(evidence, again, "the evidence")


def _agree(first: Any, second: Any, where: str) -> None:
    """Raise where two plain values differ by more than arithmetic explains."""
    for place in _differences(first, second, where):
        raise SealError(f"{place} does not follow from the record")


def _differences(first: Any, second: Any, where: str) -> Iterator[str]:
    if isinstance(first, Mapping) and isinstance(second, Mapping):
        if set(first) != set(second):
            yield where
            return
        for key in first:
            yield from _differences(first[key], second[key], f"{where}, {key}")
    elif isinstance(first, list | tuple) and isinstance(second, list | tuple):
        if len(first) != len(second):
            yield where
            return
        for i, (a, b) in enumerate(zip(first, second, strict=True)):
            yield from _differences(a, b, f"{where}, {i}")
    elif _is_number(first) and _is_number(second):
        if not isclose(first, second, rel_tol=CLOSE, abs_tol=1e-300):
            yield where
    elif first != second:
        yield where


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
