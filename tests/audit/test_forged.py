"""One test for each way to cheat; what has a valid chain and valid signatures is caught too.

A forger without the author's key is caught by the bytes. The author can sign anything, so
`forge` makes ledgers that are flawless as ledgers, and only what they say can give them away.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from proxyguard.audit.audit import Audit
from proxyguard.audit.folder import (
    CERTIFICATE,
    DECLARATION,
    EVIDENCE,
    RECORDS,
    RELEASES,
    open_envelope,
    sign_statement,
)
from proxyguard.audit.home import load_key_file
from proxyguard.documents.canonical import canonical_bytes, digest
from proxyguard.documents.ledger import Amended
from proxyguard.errors import (
    DigestMismatch,
    SealError,
    StageError,
    TargetReused,
)
from proxyguard.seal.crypto import SigningKey
from proxyguard.seal.journal import NAME
from proxyguard.seal.ledger import Stage
from proxyguard.seal.sealed_file import SealedFile, seal_table

pytestmark = pytest.mark.usefixtures("module_draws_here")

At = Callable[[str], Audit]
Value = dict[str, Any]
Step = tuple[Stage, Value]
Edit = Callable[[Value], None]

REGISTRY = "registry/0.json"
TARGET = "target/0.sealed"


def resealed(audit: Audit, order: Callable[[int], Any]) -> Any:
    """Seal the target's own records again for the same key file, in another order."""
    key_file = load_key_file(next((audit.home.root / "targets").iterdir()))
    file = SealedFile(audit.folder / TARGET)
    records = pa.concat_tables(list(file.tables(file.unwrap(key_file))))
    sealed = seal_table(records.take(pa.array(order(records.num_rows))), [key_file])
    (audit.folder / TARGET).write_bytes(sealed.content)
    return sealed


def test_a_chain_that_the_author_signs_anew_without_a_lie_still_holds(at: At, forge: Any) -> None:
    audit = at("certified")
    before = (audit.folder / NAME).read_bytes()
    forge.rewrite(audit)
    forge.certificate(audit)
    assert (audit.folder / NAME).read_bytes() == before  # so what is caught below is the lie
    assert audit.verify(with_target=True).good


def refused(audit: Audit, words: str) -> None:
    """See that opening is refused before anything is recorded."""
    before = (audit.folder / NAME).read_bytes()
    with pytest.raises(SealError, match=words):
        audit.open()
    assert (audit.folder / NAME).read_bytes() == before


# Registry and declaration


def test_a_registry_swapped_after_opening_is_found(at: At, forge: Any) -> None:
    audit = at("certified")
    forge.edit_json(audit, REGISTRY, lambda v: v["declaration"].update(purpose="Another purpose."))
    assert f"{REGISTRY}: was changed" in forge.found_by(audit)


def test_a_swapped_registry_that_is_signed_anew_does_not_fit_its_text(at: At, forge: Any) -> None:
    audit = at("certified")
    value = forge.edit_json(
        audit, REGISTRY, lambda v: v["declaration"]["claim"].update(reliability_target="0.5")
    )
    forge.rewrite(audit, registered=lambda body: body.update(declaration=digest(value)))
    assert "another declaration than its text" in forge.found_by(audit)


def loosen(forge: Any, audit: Audit) -> Value:
    """Write a looser limit into audit.toml and everything that was registered from it."""
    text = (audit.folder / DECLARATION).read_text().replace('limit = "0.10"', 'limit = "0.50"')
    for name in (DECLARATION, "registry/0.toml"):
        (audit.folder / name).write_text(text)

    def edit(value: Value) -> None:
        value["declaration"]["requirement"][0]["limit"] = "0.50"
        resolved = value["members"]["target"]["requirements"][0]
        resolved["part"]["limit"] = resolved["limit"]["value"] = "0.50"

    return forge.edit_json(audit, REGISTRY, edit)


def test_a_limit_loosened_in_registry_and_declaration_is_found_in_both(at: At, forge: Any) -> None:
    audit = at("certified")
    loosen(forge, audit)
    problems = forge.found_by(audit)
    for name in (DECLARATION, REGISTRY, "registry/0.toml"):
        assert f"{name}: was changed" in problems


def test_a_limit_loosened_and_signed_anew_does_not_fit_what_was_drawn(at: At, forge: Any) -> None:
    audit = at("certified")
    value = loosen(forge, audit)
    forge.rewrite(audit, registered=lambda body: body.update(declaration=digest(value)))
    assert "opened for another registry" in forge.found_by(audit)


def test_a_limit_loosened_before_the_draws_does_not_fit_the_evidence(at: At, forge: Any) -> None:
    audit = at("certified")
    loose = digest(loosen(forge, audit))
    forge.edit_json(audit, RELEASES, lambda manifest: manifest.update(registry=loose))
    releases = audit.folder.sha256(RELEASES)
    forge.rewrite(
        audit,
        registered=lambda body: body.update(declaration=loose),
        drawn=lambda body: body.update(registry=loose, releases=releases),
        opened=lambda body: body.update(registry=loose, releases=releases),
    )
    assert "evidence is about another registry" in forge.found_by(audit)


def test_a_target_is_not_opened_again_for_a_looser_limit(at: At, forge: Any) -> None:
    audit = at("certified")
    loose = digest(loosen(forge, audit))
    forge.edit_json(audit, RELEASES, lambda manifest: manifest.update(registry=loose))
    for name in (EVIDENCE, CERTIFICATE):
        (audit.folder / name).unlink()
    chain = [(s, b) for s, b in forge.steps(audit) if s not in (Stage.OPENED, Stage.CERTIFIED)]
    forge.write_chain(audit, chain, forge.author(audit))
    forge.rewrite(
        audit,
        registered=lambda body: body.update(declaration=loose),
        drawn=lambda body: body.update(registry=loose, releases=audit.folder.sha256(RELEASES)),
    )
    with pytest.raises(TargetReused, match="opened before"):
        audit.open()
    assert not audit.journal().ledger.has(Stage.OPENED)


# Releases


def test_a_draw_replaced_by_another_object_is_found(at: At, forge: Any) -> None:
    audit = at("certified")
    other = audit.folder.store.put(b"a release that somebody likes better")
    forge.edit_json(audit, RELEASES, lambda m: forge.draws_of(m)[3].update(release=other))
    assert f"{RELEASES}: was changed" in forge.found_by(audit)


def test_a_stored_release_overwritten_in_place_is_found(at: At, forge: Any) -> None:
    audit = at("certified")
    first, second = (
        d["release"] for d in forge.draws_of(json.loads(audit.folder.read(RELEASES)))[:2]
    )
    place = audit.folder.store.path(first)
    place.write_bytes(audit.folder.store.path(second).read_bytes())
    assert f"{first}: was changed" in forge.found_by(audit)


def test_a_seed_used_twice_is_found_though_the_author_signed_it(at: At, forge: Any) -> None:
    audit = at("drawn")
    forge.manifest(audit, lambda m: forge.draws_of(m)[1].update(seed=100))
    assert "the draws have seeds [100, 100, 102" in forge.found_by(audit)
    refused(audit, "the draws have seeds")


def test_a_draw_under_an_unregistered_seed_is_found(at: At, forge: Any) -> None:
    audit = at("drawn")
    forge.manifest(audit, lambda m: forge.draws_of(m)[7].update(seed=999))
    refused(audit, "bootstrap: the draws have seeds")
    assert "bootstrap: the draws have seeds" in forge.found_by(audit)


def test_a_copy_of_one_release_under_two_seeds_is_found(at: At, forge: Any) -> None:
    audit = at("drawn")

    def copy_the_first(manifest: Value) -> None:
        draws = forge.draws_of(manifest)
        draws[5] = {**draws[0], "seed": draws[5]["seed"]}

    forge.manifest(audit, copy_the_first)
    refused(audit, "seeds 100 and 105 have the same release")
    assert "target/bootstrap: seeds 100 and 105 have the same release" in forge.found_by(audit)


def test_a_release_dropped_because_it_scored_badly_is_found(at: At, forge: Any) -> None:
    audit = at("drawn")
    forge.manifest(audit, lambda m: forge.draws_of(m).pop(2))
    refused(audit, "the draws have seeds")
    assert "bootstrap: the draws have seeds [100, 101, 103" in forge.found_by(audit)


def test_a_mechanism_dropped_from_the_manifest_is_found(at: At, forge: Any) -> None:
    audit = at("drawn")
    forge.manifest(audit, lambda m: m["members"]["target"].clear())
    refused(audit, "drawn were")
    assert "drawn were [], registered ['bootstrap']" in forge.found_by(audit)


def test_evidence_that_gives_one_release_the_scores_of_another_is_found(at: At, forge: Any) -> None:
    audit = at("certified")
    forge.certificate(audit, evidence=lambda e: e["groups"]["bootstrap"]["releases"].reverse())
    assert "the evidence is about ['107', '106', '105']" in forge.found_by(audit)


# The sealed target


def test_a_target_swapped_with_another_sealed_file_is_found(at: At, forge: Any) -> None:
    audit = at("certified")
    key_file = load_key_file(next((audit.home.root / "targets").iterdir()))
    other = seal_table(pa.table({"first": ["1"], "label": ["yes"]}), [key_file])
    (audit.folder / TARGET).write_bytes(other.content)
    assert f"{TARGET}: was changed" in forge.found_by(audit)


def test_a_swapped_target_that_is_signed_anew_is_refused_by_its_size_before_opening(
    at: At, forge: Any
) -> None:
    audit = at("drawn")
    key_file = load_key_file(next((audit.home.root / "targets").iterdir()))
    easy = pa.table({"first": ["1"], "second": ["1"], "label": ["yes"], "__position__": [0]})
    (audit.folder / TARGET).write_bytes(seal_table(easy, [key_file]).content)
    forge.rewrite(audit)
    refused(audit, "not opened: .*300 records are recorded, the sealed file has 1")


def test_a_swapped_target_with_its_commitment_does_not_fit_the_registry(at: At, forge: Any) -> None:
    audit = at("certified")
    sealed = resealed(audit, np.arange)
    forge.rewrite(
        audit,
        sealed=lambda body: body["members"]["target"].update(commitment=sealed.commitment),
    )
    assert "another sealed target" in forge.found_by(audit)


ORDERS: dict[str, Callable[[int], Any]] = {
    "another salt": np.arange,
    "another order": lambda n: np.random.default_rng(5).permutation(n),
}


@pytest.mark.parametrize("change", ORDERS)
def test_the_same_records_sealed_again_break_the_commitment(
    at: At, forge: Any, change: str
) -> None:
    audit = at("drawn")
    resealed(audit, ORDERS[change])
    assert f"{TARGET}: was changed" in forge.found_by(audit)
    forge.rewrite(audit)  # vouches for the new bytes; the commitment is still the old one
    with pytest.raises(DigestMismatch, match=r"0\.sealed"):
        audit.open()


@pytest.mark.parametrize("change", ORDERS)
def test_records_sealed_again_after_certification_are_found_with_the_key(
    at: At, forge: Any, change: str
) -> None:
    audit = at("certified")
    resealed(audit, ORDERS[change])
    forge.rewrite(audit)
    forge.certificate(audit)
    assert "0.sealed was sealed with digest" in forge.found_by(audit, with_target=True)


# Records that an opening kept


def test_records_that_an_opening_keeps_are_sealed_recorded_and_opened_by_its_key(
    at: At, forge: Any
) -> None:
    audit = at("drawn")
    audit.open(write_records=True)
    (entry,) = audit.journal().ledger.find(Stage.CERTIFIED)
    assert entry.body.files[RECORDS] == audit.folder.sha256(RECORDS)
    assert audit.verify().good
    file = audit.folder.sealed_records()
    table = pa.concat_tables(
        list(file.tables(file.unwrap(load_key_file(next((audit.home.root / "targets").iterdir())))))
    )
    sealed = audit.journal().ledger.sealed.members["target"].records
    assert table.num_rows == file.rows == sealed * len(set(table["release"].to_pylist()))


@pytest.mark.parametrize("content", [b"notes of mine\n", b"", b"{}\n"])
def test_records_that_are_none_are_found_though_the_ledger_vouches_for_them(
    at: At, forge: Any, content: bytes
) -> None:
    audit = at("drawn")
    audit.open(write_records=True)
    (audit.folder / RECORDS).write_bytes(content)
    assert f"{RECORDS}: was changed" in forge.found_by(audit)
    forge.rewrite(audit)
    forge.certificate(audit)
    assert RECORDS in forge.found_by(audit)


def test_records_beside_a_certificate_that_does_not_name_them_are_found(at: At, forge: Any) -> None:
    audit = at("certified")
    shutil.copyfile(audit.folder / TARGET, audit.folder / RECORDS)
    assert f"{RECORDS}: is here, and the ledger does not record it" in forge.found_by(audit)


def test_a_target_is_not_opened_beside_records_that_nothing_kept(at: At) -> None:
    audit = at("drawn")
    (audit.folder / RECORDS).write_bytes(b"notes of mine\n")
    with pytest.raises(SealError, match=rf"not opened.*{RECORDS}"):
        audit.open()


# Evidence and certificate


def test_edited_evidence_is_found(at: At, forge: Any) -> None:
    audit = at("certified")
    forge.edit_json(audit, EVIDENCE, lambda e: e.update(seed=str(int(e["seed"]) + 1)))
    assert f"{EVIDENCE}: was changed" in forge.found_by(audit)


@pytest.mark.parametrize("what", ["pvalues", "estimates", "violation_pvalues"])
def test_a_derived_number_edited_and_signed_anew_does_not_follow(
    at: At, forge: Any, what: str
) -> None:
    audit = at("certified")

    def shift(evidence: Value) -> None:
        evidence["groups"]["bootstrap"]["derived"][what][4][1] += 1e-6

    forge.certificate(audit, evidence=shift)
    assert f"derived values, {what}, 4, 1 does not follow" in forge.found_by(audit)


def test_invented_statistics_are_found_with_the_target_s_key(at: At, forge: Any) -> None:
    audit = at("certified")

    def invent(evidence: Value) -> None:
        for column in evidence["groups"]["bootstrap"]["columns"]:
            for name, value in column.items():
                if isinstance(value, list) and isinstance(value[0], float):
                    column[name] = [v * 0.999 for v in value]
        forge.derive(audit, evidence)

    forge.certificate(audit, evidence=invent)
    assert audit.verify().good  # it is consistent in itself: only the target can tell
    assert "does not follow from the record" in forge.found_by(audit, with_target=True)


def test_a_predicate_edited_and_signed_by_somebody_else_is_found(at: At, forge: Any) -> None:
    audit = at("certified")
    value = open_envelope((audit.folder / CERTIFICATE).read_bytes())[0].to_dict()
    value["predicate"]["verdicts"][0]["decision"] = "violation"
    content = sign_statement(canonical_bytes(value), SigningKey.create())
    (audit.folder / CERTIFICATE).write_bytes(content)
    assert f"{CERTIFICATE}: was changed" in forge.found_by(audit)
    forge.rewrite(audit)
    assert "signed by another key than the ledger" in forge.found_by(audit)


def test_a_ledger_signed_anew_by_somebody_else_does_not_fit_the_certificate(
    at: At, forge: Any
) -> None:
    audit = at("certified")
    outsider = SigningKey.create()
    chain = forge.steps(audit)
    forge.write_chain(audit, chain, outsider)
    assert "sealed: its author is" in forge.found_by(audit)
    chain[0][1].update(author=outsider.identity)
    forge.write_chain(audit, chain, outsider)
    assert "signed by another key than the ledger" in forge.found_by(audit)


def test_a_ledger_with_one_entry_of_another_signer_is_refused(at: At, forge: Any) -> None:
    audit = at("certified")
    lines = (audit.folder / NAME).read_bytes().splitlines(keepends=True)
    last, outsider = audit.journal().ledger.entries[-1], SigningKey.create()
    theirs = replace(last, signer=outsider.public)  # rightly chained, and nobody handed over
    signed = {"entry": theirs.to_dict(), "signature": outsider.sign(theirs.content)}
    (audit.folder / NAME).write_bytes(b"".join([*lines[:-1], canonical_bytes(signed), b"\n"]))
    assert f"{NAME}: certified: it is signed by {outsider.public[:16]}" in forge.found_by(audit)


@pytest.mark.parametrize(
    ("words", "lie"),
    [
        ("verdicts, 0, decision", lambda p: p["verdicts"][0].update(decision="violation")),
        ("verdicts, 0, lower", lambda p: p["verdicts"][0]["lower"].update(value=0.99)),
        ("text", lambda p: p.update(text="VALIDATED: everything")),
        ("claim_status", lambda p: p["claim_status"].update(guarantee="yes, really")),
        ("attestation", lambda p: p["attestation"].update(kind="granted")),
        ("not_claimed", lambda p: p["not_claimed"].pop()),
        ("secondary", lambda p: p["secondary"].clear()),
        ("estimand", lambda p: p["estimand"].update(target="all of mankind")),
        ("software", lambda p: p["software"].update(numpy="0.1")),
    ],
)
def test_a_lie_in_the_certificate_signed_by_the_author_is_found(
    at: At, forge: Any, words: str, lie: Edit
) -> None:
    audit = at("certified")
    forge.certificate(audit, predicate=lie)
    problems = forge.found_by(audit)
    assert "does not follow from the record" in problems
    assert words in problems


def test_a_certificate_about_other_evidence_is_found(at: At, forge: Any) -> None:
    audit = at("certified")
    value = open_envelope((audit.folder / CERTIFICATE).read_bytes())[0].to_dict()
    value["subject"][0]["digest"]["sha256"] = hashlib.sha256(b"other evidence").hexdigest()
    audit.folder.write(CERTIFICATE, sign_statement(canonical_bytes(value), forge.author(audit)))
    forge.rewrite(audit)
    assert "the certificate, subject" in forge.found_by(audit)


# The ledger


def test_a_ledger_cut_after_certification_has_another_head_and_certifies_nothing(at: At) -> None:
    audit = at("certified")
    published = audit.verify().head
    certificate = (audit.folder / CERTIFICATE).read_bytes()
    lines = (audit.folder / NAME).read_bytes().splitlines(keepends=True)
    (audit.folder / NAME).write_bytes(b"".join(lines[:-1]))
    found = audit.verify()
    assert found.head != published
    assert found.attestation is None
    assert not any("certificate" in step for step in found.checked)
    assert {f.place for f in found.findings} == {CERTIFICATE, EVIDENCE}
    assert "the ledger records no certificate" in found.findings[0].problem
    audit.open()  # the target can only give the same certificate again
    assert (audit.folder / CERTIFICATE).read_bytes() == certificate
    assert audit.verify().good


@pytest.mark.parametrize("index", range(5))
def test_a_step_taken_out_of_the_middle_breaks_the_chain(at: At, forge: Any, index: int) -> None:
    audit = at("certified")
    lines = (audit.folder / NAME).read_bytes().splitlines(keepends=True)
    del lines[index]
    (audit.folder / NAME).write_bytes(b"".join(lines))
    assert f"{NAME}: " in forge.found_by(audit)
    with pytest.raises(SealError):
        audit.open()


def late_amendment(forge: Any, audit: Audit) -> Value:
    registered = next(body for stage, body in forge.steps(audit) if stage is Stage.REGISTERED)
    return {
        "declaration": registered["declaration"],
        "supersedes": registered["declaration"],
        "reason": "the limit was a little strict",
        "void": [],
        "pending": 0,
        "files": {},
        "time": registered["time"],
    }


def test_the_ledger_takes_no_amendment_after_opening(at: At, forge: Any) -> None:
    audit = at("certified")
    before = (audit.folder / NAME).read_bytes()
    amended = Amended.of(late_amendment(forge, audit), "late")
    with pytest.raises(StageError, match="record a deviation instead"):
        audit.journal().record(amended, forge.author(audit))
    assert (audit.folder / NAME).read_bytes() == before


@pytest.mark.parametrize("place", [5, 6], ids=["after opening", "after certifying"])
def test_a_hand_made_chain_with_a_late_amendment_is_refused(at: At, forge: Any, place: int) -> None:
    audit = at("certified")
    chain = forge.steps(audit)
    chain.insert(place, (Stage.AMENDED, late_amendment(forge, audit)))
    forge.write_chain(audit, chain, forge.author(audit))
    assert f"{NAME}: amended: the target has been opened" in forge.found_by(audit)


def test_a_hand_made_amendment_that_supersedes_nothing_is_refused(at: At, forge: Any) -> None:
    audit = at("certified")
    chain = forge.steps(audit)
    chain.insert(4, (Stage.AMENDED, {**late_amendment(forge, audit), "supersedes": "f" * 64}))
    forge.write_chain(audit, chain, forge.author(audit))
    assert "it must name the declaration it supersedes" in forge.found_by(audit)


@pytest.mark.parametrize("stage", [Stage.SEALED, Stage.OPENED, Stage.DRAWN, Stage.CERTIFIED])
def test_a_hand_made_chain_with_a_step_twice_is_refused(at: At, forge: Any, stage: Stage) -> None:
    audit = at("certified")
    chain = forge.steps(audit)
    index = [s for s, _ in chain].index(stage)
    forge.write_chain(audit, [*chain[: index + 1], *chain[index:]], forge.author(audit))
    problems = forge.found_by(audit)
    assert NAME in problems
    assert "once" in problems or "certified" in problems


def test_a_hand_made_chain_that_opens_before_drawing_is_refused(at: At, forge: Any) -> None:
    audit = at("certified")
    chain = forge.steps(audit)
    chain[3], chain[4] = chain[4], chain[3]
    assert chain[3][0] is Stage.OPENED
    forge.write_chain(audit, chain, forge.author(audit))
    assert "all releases must be drawn first" in forge.found_by(audit)


# A grant is for one registry, one set of releases and one ledger


def audit_of(root: Path) -> Audit:
    return Audit(root / "audit", home=root / "home", data=[root / "data"], workers=1)


@pytest.fixture(scope="module")
def granted_once(stages: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The small audit with a target sealed for a steward, who has granted its opening."""
    root = tmp_path_factory.mktemp("granted") / "work"
    shutil.copytree(stages / "new", root)
    audit = audit_of(root)
    steward = root / "steward.pem"
    SigningKey.create().save(steward)
    audit.seal(steward=SigningKey.load(steward).identity)
    audit.register()
    audit.draw()
    audit.grant(steward)
    return root


@pytest.fixture
def granted(granted_once: Path, tmp_path: Path) -> Audit:
    shutil.copytree(granted_once, tmp_path / "granted")
    return audit_of(tmp_path / "granted")


def test_a_grant_is_not_for_another_registry(granted: Audit) -> None:
    place = granted.folder / DECLARATION
    place.write_text(place.read_text().replace('limit = "0.10"', 'limit = "0.50"'))
    granted.amend("a looser limit, now that the steward has agreed")
    with pytest.raises(SealError, match="the grant does not cover the registry of this audit"):
        granted.open()
    assert not granted.journal().ledger.has(Stage.OPENED)


def test_an_opening_names_the_grant_that_it_was_given(granted: Audit, forge: Any) -> None:
    granted.open()
    forge.rewrite(granted, opened=lambda body: body.update(grant="f" * 64))
    assert "opened: it was opened with the grant 'ffff" in forge.found_by(granted)


def test_a_grant_is_not_for_other_releases(granted: Audit, forge: Any) -> None:
    def elsewhere(manifest: dict[str, Any]) -> None:
        for record in forge.draws_of(manifest):
            record["guard"] = "audit hook" if record["guard"] != "audit hook" else "landlock ABI 1"

    forge.manifest(granted, elsewhere)
    with pytest.raises(SealError, match="the grant does not cover the releases of this audit"):
        granted.open()
    assert not granted.journal().ledger.has(Stage.OPENED)


def test_a_steward_grants_nothing_for_releases_that_were_not_registered(
    granted: Audit, forge: Any
) -> None:
    (granted.folder / "grant.json").unlink()
    forge.manifest(granted, lambda m: forge.draws_of(m).pop())
    with pytest.raises(SealError, match="bootstrap: the draws have seeds"):
        granted.grant(granted.home.root.parent / "steward.pem")
    assert not (granted.folder / "grant.json").exists()


def test_a_ledger_rolled_back_behind_its_grant_is_refused(granted: Audit, forge: Any) -> None:
    forge.rewrite(granted, drawn=lambda body: body.update(time="2001-01-01T00:00:00+00:00"))
    with pytest.raises(SealError, match="rolled back behind the grant"):
        granted.open()
    assert not granted.journal().ledger.has(Stage.OPENED)


def test_a_ledger_rolled_back_behind_its_grant_after_opening_is_found(
    granted: Audit, forge: Any
) -> None:
    granted.open()
    forge.rewrite(granted, drawn=lambda body: body.update(time="2001-01-01T00:00:00+00:00"))
    assert "rolled back behind the grant" in forge.found_by(granted)


def turned_by_an_outsider(granted: Audit, forge: Any) -> SigningKey:
    """Open as granted; then somebody with a key of their own turns the verdict and signs all."""
    granted.open()
    outsider = SigningKey.create()

    def worsen(evidence: Value) -> None:
        for column in evidence["groups"]["bootstrap"]["columns"]:
            for name, value in column.items():
                if isinstance(value, list) and isinstance(value[0], float):
                    column[name] = [v * 0.9 for v in value]
        forge.derive(granted, evidence)

    forge.certificate(granted, evidence=worsen, key=outsider)
    return outsider


def test_an_outsider_who_signs_a_granted_folder_anew_is_found(granted: Audit, forge: Any) -> None:
    outsider = turned_by_an_outsider(granted, forge)
    forge.write_chain(granted, forge.steps(granted), outsider)
    assert "sealed: its author is" in forge.found_by(granted)


def test_an_outsider_who_also_says_to_be_the_author_has_no_grant(
    granted: Audit, forge: Any
) -> None:
    outsider = turned_by_an_outsider(granted, forge)
    chain = forge.steps(granted)
    chain[0][1].update(author=outsider.identity)
    forge.write_chain(granted, chain, outsider)
    assert "rolled back behind the grant, or is another one" in forge.found_by(granted)


def test_a_grant_that_the_author_signs_himself_is_refused(granted: Audit, forge: Any) -> None:
    def sign(value: Value) -> None:
        value["signature"] = forge.author(granted).sign(canonical_bytes(value["grant"]))

    forge.edit_json(granted, "grant.json", sign)
    with pytest.raises(SealError, match="does not carry the steward's signature"):
        granted.open()
    assert not granted.journal().ledger.has(Stage.OPENED)


def test_a_grant_where_no_steward_was_named_is_refused(at: At) -> None:
    audit = at("drawn")
    (audit.folder / "grant.json").write_bytes(b"{}")
    with pytest.raises(SealError, match="no steward was named"):
        audit.open()
