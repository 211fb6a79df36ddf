"""Not collected: forgeries and accidents that are not caught yet (run this file by name)."""

from __future__ import annotations

import importlib.util
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from proxyguard.audit.audit import Audit
from proxyguard.audit.folder import CERTIFICATE, DECLARATION, EVIDENCE, RELEASES
from proxyguard.errors import ProxyGuardError, SealError, StageError
from proxyguard.seal.canonical import digest
from proxyguard.seal.journal import NAME
from proxyguard.seal.ledger import Stage

_spec = importlib.util.spec_from_file_location("forged", Path(__file__).with_name("test_forged.py"))
assert _spec is not None
assert _spec.loader is not None
forged = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(forged)

At = Callable[[str], Audit]
Value = dict[str, Any]


def snapshot(audit: Audit) -> dict[Path, bytes]:
    return {p: p.read_bytes() for p in audit.folder.path.rglob("*") if p.is_file()}


def test_1_a_hex_digit_of_a_signature_in_capitals_is_a_changed_byte(at: At) -> None:
    audit = at("certified")
    place = audit.folder / NAME
    content = bytearray(place.read_bytes())
    start = content.index(b'"signature":"') + len(b'"signature":"')
    where = next(i for i in range(start, start + 128) if chr(content[i]) in "abcdef")
    content[where] ^= 0x20
    place.write_bytes(bytes(content))
    assert not audit.verify().good


@pytest.mark.parametrize("content", [None, b""])
def test_2_a_certified_folder_without_its_ledger_does_not_hold(
    at: At, content: bytes | None
) -> None:
    audit = at("certified")
    (audit.folder / NAME).unlink()
    if content is not None:
        (audit.folder / NAME).write_bytes(content)
    assert not audit.verify().good


def test_3_a_certificate_that_the_ledger_does_not_record_does_not_hold(at: At) -> None:
    audit = at("certified")
    lines = (audit.folder / NAME).read_bytes().splitlines(keepends=True)
    (audit.folder / NAME).write_bytes(b"".join(lines[:-1]))
    (audit.folder / CERTIFICATE).write_bytes(b"VALIDATED: everything")
    found = audit.verify()
    assert not found.good or CERTIFICATE in found.unknown


def test_4_an_amendment_refused_after_opening_changes_nothing(at: At) -> None:
    audit = at("certified")
    before = snapshot(audit)
    with pytest.raises(StageError, match="record a deviation instead"):
        audit.amend("too late")
    assert snapshot(audit) == before


def test_5_an_amendment_that_excludes_every_draw_is_refused(at: At) -> None:
    audit = at("drawn")
    with pytest.raises(ProxyGuardError):
        audit.amend("none is good", exclude=[("bootstrap", seed) for seed in range(100, 108)])


def test_6_opening_again_with_other_arithmetic_leaves_the_certified_evidence(
    at: At, monkeypatch: pytest.MonkeyPatch
) -> None:
    from proxyguard.audit.open import Opener

    audit = at("certified")
    before = snapshot(audit)
    score = Opener._evidence

    def elsewhere(self: Any, *args: Any) -> Value:
        evidence = score(self, *args)
        evidence["groups"]["bootstrap"]["derived"]["estimates"][0][0] += 1e-15
        return evidence

    monkeypatch.setattr(Opener, "_evidence", elsewhere)
    with pytest.raises(SealError, match="the recorded certificate stands"):
        audit.open()
    assert snapshot(audit) == before
    assert audit.verify().good


def copy_first(manifest: Value) -> list[Value]:
    draws: list[Value] = forged.draws_of(manifest)
    draws[5] = {**draws[0], "seed": draws[5]["seed"]}
    return draws


def test_7_a_copied_release_with_an_invented_content_digest_is_found(at: At) -> None:
    audit = at("drawn")

    def edit(manifest: Value) -> None:
        copy_first(manifest)[5]["content"] = "f" * 64

    forged.forge_manifest(audit, edit)
    audit.open()
    assert not audit.verify().good


def test_8_a_mechanism_called_deterministic_in_the_manifest_alone_is_found(at: At) -> None:
    audit = at("drawn")

    def edit(manifest: Value) -> None:
        copy_first(manifest)
        manifest["members"]["target"]["bootstrap"]["deterministic"] = True

    forged.forge_manifest(audit, edit)
    audit.open()
    assert not audit.verify().good


def test_9_a_copied_model_under_two_seeds_is_found(at: At) -> None:
    audit = at("drawn")

    def edit(manifest: Value) -> None:
        draws = forged.draws_of(manifest)
        draws[5]["model"] = draws[0]["model"]

    forged.forge_manifest(audit, edit)
    audit.open()
    assert not audit.verify().good


def test_10_a_resolved_limit_that_is_not_the_declared_one_is_found(at: At) -> None:
    audit = at("registered")

    def edit(value: Value) -> None:
        value["members"]["target"]["requirements"][0]["limit"]["value"] = "0.90"

    value = forged.edit_json(audit, forged.REGISTRY, edit)
    forged.rewrite(audit, registered=lambda body: body.update(declaration=digest(value)))
    audit.draw()
    audit.open()
    assert not audit.verify().good


def test_11_a_resolved_requirement_that_is_not_the_declared_one_is_found(at: At) -> None:
    audit = at("registered")

    def edit(value: Value) -> None:
        value["members"]["target"]["requirements"].pop(0)

    value = forged.edit_json(audit, forged.REGISTRY, edit)
    forged.rewrite(audit, registered=lambda body: body.update(declaration=digest(value)))
    audit.draw()
    (audit.folder / EVIDENCE).unlink(missing_ok=True)
    audit.open()
    assert not audit.verify().good


def test_12_a_resolved_rule_that_does_not_follow_from_the_recorded_risk_is_found(at: At) -> None:
    audit = at("registered")

    def edit(value: Value) -> None:
        value["members"]["target"]["requirements"][1]["limit"]["value"] = "0.900"

    value = forged.edit_json(audit, forged.REGISTRY, edit)
    forged.rewrite(audit, registered=lambda body: body.update(declaration=digest(value)))
    audit.draw()
    audit.open()
    assert not audit.verify().good


def test_13_an_amendment_after_the_draws_that_changes_a_generator_is_found(at: At) -> None:
    audit = at("drawn")
    value = audit.folder.read_json(forged.REGISTRY)
    before = digest(value)
    value["members"]["target"]["mechanisms"]["bootstrap"]["generator"] = "gaussian_copula"
    value["declaration"]["mechanism"][0]["generator"] = "gaussian_copula"
    text = (audit.folder / DECLARATION).read_text()
    text = text.replace('generator = "bootstrap"', 'generator = "gaussian_copula"')
    for name in (DECLARATION, "registry/1.toml"):
        (audit.folder / name).write_text(text)
    audit.folder.write_json("registry/1.json", value)
    names = (DECLARATION, "registry/1.toml", "registry/1.json")
    body = {
        "declaration": digest(value), "supersedes": before, "reason": "a better name",
        "files": {name: audit.folder.sha256(name) for name in names}, "time": "",
    }  # fmt: skip
    chain = [*forged.steps(audit), (Stage.AMENDED, body)]
    forged.write_chain(audit, chain, forged.author(audit))
    audit.open()
    assert not audit.verify().good


def test_14_another_level_of_the_bounds_is_found(at: At) -> None:
    audit = at("certified")

    def edit(evidence: Value) -> None:
        from proxyguard.audit.decide import groups_of, readings_of
        from proxyguard.evidence.record import derived_record, read_evidence

        record = evidence["groups"]["bootstrap"]
        record["bounds_level"] = "0.49"
        registry = audit.folder.registry(audit.journal())
        groups = groups_of(registry, audit.folder.read_json(RELEASES))
        reading = readings_of(registry, groups, int(evidence["seed"]))["bootstrap"][0]
        record["derived"] = derived_record(read_evidence(record, reading))

    forged.forge_certificate(audit, evidence=edit)
    assert not audit.verify().good


def test_15_a_derived_number_of_a_secondary_specification_follows(at: At) -> None:
    audit = at("certified")

    def edit(evidence: Value) -> None:
        evidence["secondary"]["strict"]["bootstrap"]["derived"]["pvalues"][0][0] = 0.0

    forged.forge_certificate(audit, evidence=edit)
    assert not audit.verify().good


def test_16_a_number_of_records_that_was_not_sealed_is_found(at: At) -> None:
    audit = at("certified")

    def edit(evidence: Value) -> None:
        from proxyguard.audit.decide import groups_of, readings_of
        from proxyguard.evidence.record import derived_record, read_evidence

        record = evidence["groups"]["bootstrap"]
        for column in record["columns"]:
            column["n"] = 30000
        registry = audit.folder.registry(audit.journal())
        groups = groups_of(registry, audit.folder.read_json(RELEASES))
        reading = readings_of(registry, groups, int(evidence["seed"]))["bootstrap"][0]
        record["derived"] = derived_record(read_evidence(record, reading))

    forged.forge_certificate(audit, evidence=edit)
    assert not audit.verify().good


def test_17_a_corrective_certificate_that_does_not_follow_is_found(at: At) -> None:
    audit = at("certified")
    audit.correct("the target was a sample from a pool", {"pool": 700})
    name = "corrections/0.json"

    def edit(value: Value) -> None:
        for verdict in value["verdicts"]:
            verdict["decision"] = "validated"

    forged.edit_json(audit, name, edit)
    forged.rewrite(audit, corrected=lambda body: body.update(decisions={"bootstrap": "validated"}))
    audit.report()
    assert not audit.verify().good


def test_18_a_pool_smaller_than_the_target_is_refused(at: At) -> None:
    audit = at("certified")
    with pytest.raises(ProxyGuardError):
        audit.correct("the target was a sample from a pool", {"pool": 100})


def test_19_a_registered_path_that_the_claim_does_not_have_is_a_finding(at: At) -> None:
    audit = at("certified")
    chain = [step for step in forged.steps(audit) if step[0] is not Stage.DRAWN]
    chain[2][1]["path"] = "sequential"
    forged.write_chain(audit, chain, forged.author(audit))
    assert not audit.verify().good  # and no traceback


def test_20_an_entry_that_is_no_mapping_is_a_finding(at: At) -> None:
    audit = at("certified")
    lines = (audit.folder / NAME).read_bytes().splitlines(keepends=True)
    value = json.loads(lines[0])
    value["entry"] = "sealed"
    lines[0] = json.dumps(value, separators=(",", ":"), sort_keys=True).encode() + b"\n"
    (audit.folder / NAME).write_bytes(b"".join(lines))
    assert not audit.verify().good  # and no traceback


def test_21_an_opening_recorded_for_another_registry_is_found(at: At) -> None:
    audit = at("certified")
    forged.rewrite(audit, opened=lambda body: body.update(registry="f" * 64, releases="f" * 64))
    forged.forge_certificate(audit)
    assert not audit.verify().good


# Sequential audits


@pytest.fixture(scope="module")
def in_turn_once(stages: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("in_turn") / "work"
    shutil.copytree(stages / "new", root)
    audit = forged.audit_of(root)
    place = audit.folder / DECLARATION
    text = place.read_text().replace(
        'reliability = "0.6"',
        'reliability = "0.5"\nmode = "sequential"\nthreshold = "0.01"\nlooks = [8]',
    )
    start, end = text.index("[[secondary]]"), text.index("[claim]")
    place.write_text(text[:start] + text[end:])
    audit.seal()
    audit.register()
    audit.open()
    return root


@pytest.fixture
def in_turn(in_turn_once: Path, tmp_path: Path) -> Audit:
    shutil.copytree(in_turn_once, tmp_path / "in_turn")
    audit: Audit = forged.audit_of(tmp_path / "in_turn")
    return audit


def certify(
    audit: Audit,
    *,
    evidence: Callable[[Value], None] = lambda _: None,
    chain: Callable[[list[Any]], None] = lambda _: None,
) -> None:
    from proxyguard.audit.envelope import sign_statement, statement
    from proxyguard.audit.open import subjects_of
    from proxyguard.audit.sequential import sequential_predicate

    steps = forged.steps(audit)
    chain(steps)
    forged.write_chain(audit, steps, forged.author(audit))
    changed = forged.edit_json(audit, EVIDENCE, evidence)
    journal = audit.journal()
    registry = audit.folder.registry(journal)
    predicate = sequential_predicate(audit.folder, journal, registry, changed, None)
    subjects = subjects_of(journal, registry, audit.folder.sha256(EVIDENCE))
    content = sign_statement(statement(subjects, predicate), forged.author(audit))
    audit.folder.write(CERTIFICATE, content)
    forged.rewrite(audit)
    audit.report()


def test_control_a_sequential_audit_signed_anew_holds(in_turn: Audit) -> None:
    certify(in_turn)
    assert in_turn.verify().good


def test_22_a_sequential_audit_verifies_with_its_target(in_turn: Audit) -> None:
    found = in_turn.verify(with_target=True)
    assert found.good, found.findings


def no_statistics(evidence: Value) -> None:
    for one in evidence["scores"]:
        one["statistics"] = {}


def zero_estimates(evidence: Value) -> None:
    derived = evidence["groups"]["bootstrap"]["derived"]
    derived["estimates"] = [[0.0] * len(row) for row in derived["estimates"]]


def another_registry(evidence: Value) -> None:
    evidence.update(registry="f" * 64, releases="f" * 64)


@pytest.mark.parametrize("lie", [no_statistics, zero_estimates, another_registry])
def test_23_sequential_evidence_that_does_not_follow_is_found(
    in_turn: Audit, lie: Callable[[Value], None]
) -> None:
    certify(in_turn, evidence=lie)
    assert not in_turn.verify().good


def one_release(chain: list[Any]) -> None:
    drawn = [body for stage, body in chain if stage is Stage.DRAWN]
    for body in drawn[1:]:
        body["record"] = {**drawn[0]["record"], "seed": body["record"]["seed"]}


def other_records(chain: list[Any]) -> None:
    for stage, body in chain:
        if stage is Stage.DRAWN:
            body["record"]["rows"] = 1  # body["release"] is still the digest of the old record


def other_derived(chain: list[Any]) -> None:
    for stage, body in chain:
        if stage is Stage.SCORED:
            body["statistics"]["derived"]["pvalues"] = [[0.0, 0.0]]


@pytest.mark.parametrize("lie", [one_release, other_records, other_derived])
def test_24_a_sequential_ledger_that_does_not_follow_is_found(
    in_turn: Audit, lie: Callable[[list[Any]], None]
) -> None:
    certify(in_turn, chain=lie)
    assert not in_turn.verify().good
