"""What an author can sign and verify still finds: every lie here has a valid chain.

The forger of `forge` writes each digest and each signature anew, so the bytes agree with one
another. What gives a lie away is that it does not follow from the declaration, the recorded
facts, the stored releases or the statistics.
"""

from __future__ import annotations

import io
import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from proxyguard.audit.audit import Audit
from proxyguard.audit.decide import (
    EXCLUDED,
    corrected_registry,
    correction_of,
    groups_of,
    readings_of,
)
from proxyguard.audit.folder import CERTIFICATE, CORRECTION, DECLARATION, EVIDENCE, RELEASES
from proxyguard.audit.open import Opener
from proxyguard.documents.canonical import canonical_bytes, digest
from proxyguard.documents.evidence import FixedEvidence, GroupEvidence
from proxyguard.documents.registry import Registry
from proxyguard.documents.releases import ReleaseManifest
from proxyguard.draw.catalog import GENERATORS, SEEDED
from proxyguard.errors import DrawError, RegistryError, SealError, StageError
from proxyguard.evidence.record import derived_record, read_evidence
from proxyguard.seal.journal import NAME
from proxyguard.seal.ledger import Stage
from proxyguard.tables.files import read_table_bytes

At = Callable[[str], Audit]
Value = dict[str, Any]
Chain = list[tuple[Stage, Value]]


def snapshot(audit: Audit) -> dict[Path, bytes]:
    return {p: p.read_bytes() for p in audit.folder.path.rglob("*") if p.is_file()}


# The ledger


def test_a_digit_of_a_signature_in_capitals_is_a_changed_byte(at: At, forge: Any) -> None:
    audit = at("certified")
    place = audit.folder / NAME
    content = bytearray(place.read_bytes())
    start = content.index(b'"signature":"') + len(b'"signature":"')
    where = next(i for i in range(start, start + 128) if chr(content[i]) in "abcdef")
    content[where] ^= 0x20
    place.write_bytes(bytes(content))
    assert f"{NAME}: " in forge.found_by(audit)


@pytest.mark.parametrize("stage", ["sealed", "registered", "drawn", "certified"])
@pytest.mark.parametrize("content", [None, b""], ids=["removed", "emptied"])
def test_a_folder_without_its_ledger_does_not_hold(
    at: At, forge: Any, stage: str, content: bytes | None
) -> None:
    audit = at(stage)
    (audit.folder / NAME).unlink()
    if content is not None:
        (audit.folder / NAME).write_bytes(content)
    problems = forge.found_by(audit)
    assert f"{NAME}: is missing or empty" in problems
    assert (f"{CERTIFICATE}: is here" in problems) is (stage == "certified")


def test_a_declaration_alone_needs_no_ledger_yet(at: At) -> None:
    assert at("new").verify().good


def test_a_certificate_that_the_ledger_does_not_record_does_not_hold(at: At, forge: Any) -> None:
    audit = at("certified")
    lines = (audit.folder / NAME).read_bytes().splitlines(keepends=True)
    (audit.folder / NAME).write_bytes(b"".join(lines[:-1]))
    (audit.folder / CERTIFICATE).write_bytes(b"VALIDATED: everything")
    assert f"{CERTIFICATE}: is here, and the ledger records no certificate" in forge.found_by(audit)


def test_a_certificate_written_before_anything_was_opened_is_found(at: At, forge: Any) -> None:
    audit = at("drawn")
    (audit.folder / CERTIFICATE).write_bytes(b"VALIDATED: everything")
    assert f"{CERTIFICATE}: is here, and the ledger records no certificate" in forge.found_by(audit)


def test_a_registered_path_that_the_claim_does_not_have_is_a_finding(at: At, forge: Any) -> None:
    audit = at("certified")
    chain = [step for step in forge.steps(audit) if step[0] is not Stage.DRAWN]
    chain[2][1]["path"] = "sequential"
    forge.write_chain(audit, chain, forge.author(audit))
    assert "the ledger's path is not that of the registered claim" in forge.found_by(audit)


def test_a_ledger_signed_with_a_key_for_which_anybody_signs_does_not_hold(
    at: At, forge: Any
) -> None:
    class Nobody:
        """The neutral element of the curve: one signature of it fits every message."""

        public = "01" + "00" * 31
        identity = public + "ab" * 32

        def sign(self, _: bytes) -> str:
            return self.public + "00" * 32

    audit = at("certified")
    chain = forge.steps(audit)
    chain[0][1]["author"] = Nobody.identity
    forge.write_chain(audit, chain, Nobody())
    assert f"{NAME}: " in forge.found_by(audit)


@pytest.mark.parametrize("entry", ["sealed", 7, None, [], {}])
def test_an_entry_that_is_no_mapping_is_a_finding(at: At, forge: Any, entry: object) -> None:
    audit = at("certified")
    lines = (audit.folder / NAME).read_bytes().splitlines(keepends=True)
    value = {**json.loads(lines[0]), "entry": entry}
    lines[0] = json.dumps(value, separators=(",", ":"), sort_keys=True).encode() + b"\n"
    (audit.folder / NAME).write_bytes(b"".join(lines))
    assert f"{NAME}: " in forge.found_by(audit)


@pytest.mark.parametrize("what", ["registry", "releases"])
def test_an_opening_recorded_for_something_else_is_found(at: At, forge: Any, what: str) -> None:
    audit = at("certified")
    forge.rewrite(audit, opened=lambda body: body.update({what: "f" * 64}))
    forge.certificate(audit)
    assert "registry: the target was opened for" in forge.found_by(audit)


# What is refused changes nothing


def test_an_amendment_refused_after_opening_changes_nothing(at: At) -> None:
    audit = at("certified")
    before = snapshot(audit)
    with pytest.raises(StageError, match="record a deviation instead"):
        audit.amend("too late")
    assert snapshot(audit) == before


def test_an_amendment_that_excludes_every_draw_is_refused(at: At) -> None:
    audit = at("drawn")
    before = snapshot(audit)
    with pytest.raises(RegistryError, match="no draw of bootstrap would be left"):
        audit.amend("none is good", exclude=[("bootstrap", seed) for seed in range(100, 108)])
    assert snapshot(audit) == before


def test_opening_again_with_other_arithmetic_leaves_the_certified_evidence(
    at: At, monkeypatch: pytest.MonkeyPatch
) -> None:
    audit = at("certified")
    before = snapshot(audit)
    score = Opener._evidence

    def elsewhere(self: Any, *args: Any) -> FixedEvidence:
        evidence = score(self, *args).to_dict()
        evidence["groups"]["bootstrap"]["derived"]["estimates"][0][0] += 1e-15
        return FixedEvidence.of(evidence, EVIDENCE)

    monkeypatch.setattr(Opener, "_evidence", elsewhere)
    with pytest.raises(SealError, match="the recorded certificate stands"):
        audit.open()
    assert snapshot(audit) == before
    assert audit.verify().good


def test_a_pool_smaller_than_the_target_is_refused(apart: At) -> None:
    audit = apart("certified")
    before = snapshot(audit)
    with pytest.raises(RegistryError, match="300 records cannot come from a pool of 100"):
        audit.correct("the target was a sample from a pool", {"pool": 100})
    assert snapshot(audit) == before


# Releases


def same_release(forge: Any, manifest: Value) -> Value:
    """Let the sixth draw be the first one under its own seed, and return its record."""
    draws: list[Value] = forge.draws_of(manifest)
    draws[5] = {**draws[0], "seed": draws[5]["seed"]}
    return draws[5]


@pytest.mark.parametrize(
    ("what", "lie"),
    [
        ("release", lambda forge, m: same_release(forge, m).update(content="f" * 64)),
        (
            "fitted procedure",
            lambda forge, m: forge.draws_of(m)[5].update(model=forge.draws_of(m)[0]["model"]),
        ),
    ],
    ids=["an invented content digest", "a copied model"],
)
def test_a_copy_under_two_seeds_is_refused_and_found(
    at: At, forge: Any, what: str, lie: Callable[[Any, Value], object]
) -> None:
    audit = at("drawn")
    forge.manifest(audit, lambda manifest: lie(forge, manifest))
    before = (audit.folder / NAME).read_bytes()
    with pytest.raises(SealError, match=f"seeds 100 and 105 have the same {what}"):
        audit.open()
    assert (audit.folder / NAME).read_bytes() == before
    assert f"seeds 100 and 105 have the same {what}" in forge.found_by(audit)


@pytest.mark.parametrize(
    ("lie", "words"),
    [
        (lambda forge, m: m.update(note=777), "releases.json: note: is nothing that"),
        (
            lambda forge, m: m["members"].update(ghost={"bootstrap": {"draws": []}}),
            "['ghost'] are no members that draws are of",
        ),
        (
            lambda forge, m: m["members"]["target"]["bootstrap"].update(deterministic=True),
            "members.target.bootstrap.deterministic: is nothing that",
        ),
        (
            lambda forge, m: forge.draws_of(m)[3].update(remark="lucky"),
            "members.target.bootstrap.draws.3.remark: is nothing that",
        ),
        (
            lambda forge, m: forge.draws_of(m)[3].update(error="in a draw that did not fail"),
            "members.target.bootstrap.draws.3.error: is nothing that",
        ),
        (
            lambda forge, m: m["sources"].update(target=forge.draws_of(m)[0]["release"]),
            "predictions of the source are frozen for ['target'], registered are []",
        ),
    ],
    ids=["a note", "a member", "a mechanism's key", "a draw's key", "another status", "sources"],
)
def test_releases_hold_nothing_to_try_the_seed_of_the_opening_with(
    at: At, forge: Any, lie: Callable[[Any, Value], object], words: str
) -> None:
    audit = at("drawn")
    forge.manifest(audit, lambda manifest: lie(forge, manifest))
    with pytest.raises(SealError, match=re.escape(words)):
        audit.open()
    assert not audit.journal().ledger.has(Stage.OPENED)
    assert words in forge.found_by(audit)


@pytest.mark.parametrize("stage", ["sealed", "registered", "drawn", "opened", "certified"])
def test_a_step_vouches_for_no_page_of_the_authors_own(at: At, forge: Any, stage: str) -> None:
    audit = at("certified")
    (audit.folder / "summary.html").write_text("<h1>Validated at 99.9 %</h1>")
    page = {"summary.html": audit.folder.sha256("summary.html")}
    forge.rewrite(audit, **{stage: lambda body: body["files"].update(page)})
    words = f"{stage}: it vouches for summary.html, which this step does not write"
    assert words in forge.found_by(audit)


def test_a_step_vouches_for_every_file_that_it_writes(at: At, forge: Any) -> None:
    audit = at("certified")
    forge.rewrite(audit, certified=lambda body: body["files"].pop(EVIDENCE))
    words = f"certified: it does not vouch for {EVIDENCE}, which this step writes"
    assert words in forge.found_by(audit)


def test_an_opening_names_no_grant_that_it_does_not_list(at: At, forge: Any) -> None:
    audit = at("certified")
    forge.rewrite(audit, opened=lambda body: body.update(grant="f" * 64))
    assert "opened: it does not vouch for grant.json" in forge.found_by(audit)


def declare(audit: Audit, old: str, new: str) -> None:
    place = audit.folder / DECLARATION
    assert old in place.read_text()
    place.write_text(place.read_text().replace(old, new))


@pytest.mark.parametrize("generator", ["bootstrap", GENERATORS["bootstrap"]])
def test_a_random_generator_of_ours_is_not_declared_without_randomness(
    at: At, generator: str
) -> None:
    audit = at("sealed")
    declare(audit, 'generator = "bootstrap"', f'generator = "{generator}"\ndeterministic = true')
    words = "takes its seed and is random"
    assert any(words in problem for problem in audit.check().problems)
    with pytest.raises(RegistryError, match=words):
        audit.register()


def test_every_generator_of_ours_is_random_or_known_to_be_none() -> None:
    assert set(GENERATORS) - SEEDED == {
        "files", "callable", "code", "predictions", "coarsen",
    }  # fmt: skip


def test_eight_copies_of_a_random_draw_are_no_mechanism_without_randomness(
    at: At, forge: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    audit = at("sealed")
    declare(audit, "draws = 8", "draws = 8\ndeterministic = true")
    with monkeypatch.context() as lie:  # the author's own package lets it be registered and drawn
        for module in ("register", "manifest"):
            lie.setattr(f"proxyguard.audit.{module}.is_random", lambda _: False)
        lie.setattr("proxyguard.audit.draw.randomness", lambda *_: None)
        audit.register()
        audit.draw()

    def copy(manifest: Value) -> None:
        draws = forge.draws_of(manifest)
        for record in draws[1:]:
            record.update({**draws[0], "seed": record["seed"]})

    assert "deterministic = true, and bootstrap takes its seed" in forge.found_by(audit)
    forge.manifest(audit, copy)
    assert "deterministic = true, and bootstrap takes its seed" in forge.found_by(audit)
    with pytest.raises(SealError, match="takes its seed and is random"):
        audit.open()
    assert not audit.journal().ledger.has(Stage.OPENED)


def with_files(audit: Audit, tables: int) -> None:
    """Deliver eight files, of so many different tables, as a mechanism without randomness."""
    data = audit.home.root.parent / "data"
    table = pd.read_csv(data / "table.csv")
    (data / "releases").mkdir()
    for i in range(8):
        release = table.sample(200, replace=True, random_state=i % tables)
        release.to_csv(data / "releases" / f"{i}.csv", index=False)
    declare(
        audit,
        'generator = "bootstrap"',
        'generator = "files"\noptions = { folder = "releases", first = 100 }\ndeterministic = true',
    )


def test_releases_that_differ_show_randomness_that_was_declared_away(at: At) -> None:
    audit = at("sealed")
    with_files(audit, 2)
    audit.register()
    with pytest.raises(DrawError, match="and seeds 100 and 101 gave different releases"):
        audit.draw()


def test_a_certificate_is_conditional_on_a_mechanism_being_without_randomness(at: At) -> None:
    audit = at("sealed")
    with_files(audit, 1)
    audit.register()
    audit.draw()
    audit.open()
    assert audit.verify().good
    certificate = audit.certificate().to_dict()
    condition = "the declaration that the mechanism has no randomness"
    assert condition in certificate["conditional_on"]["bootstrap"]
    listed = {one["about"]: one["words"] for one in certificate["stated_not_checked"]}
    assert "not copies of one draw" in listed["bootstrap without randomness"]


def test_a_copy_in_another_file_with_an_invented_content_digest_is_found(
    at: At, forge: Any
) -> None:
    audit = at("drawn")
    first, sixth = (forge.draws_of(json.loads(audit.folder.read(RELEASES)))[i] for i in (0, 5))
    target = io.BytesIO()
    source = pq.read_table(io.BytesIO(audit.folder.store.get(first["release"])))
    pq.write_table(source, target, compression="gzip")
    copied = audit.folder.store.put(target.getvalue())
    assert copied != first["release"]

    def edit(manifest: Value) -> None:
        forge.draws_of(manifest)[5].update(release=copied, content=sixth["content"])

    forge.manifest(audit, edit)
    assert "bootstrap, seed 105: the release is another" in forge.found_by(audit)


def written(frame: pd.DataFrame, **options: Any) -> bytes:
    """Return a table as Parquet, written in some other way than ours."""
    sink = io.BytesIO()
    pq.write_table(pa.Table.from_pandas(frame, preserve_index=False), sink, **options)
    return sink.getvalue()


ENCODINGS: dict[str, Callable[[pd.DataFrame], bytes]] = {
    "as it is": written,
    "other compression": lambda f: written(f, compression="gzip"),
    "small row groups": lambda f: written(f, row_group_size=7),
    "other order of rows": lambda f: written(f.iloc[::-1]),
    "other order of columns": lambda f: written(f[f.columns[::-1]]),
    "numbers as text": lambda f: written(f.assign(first=[f"{v:.17e}" for v in f["first"]])),
    "text as categories": lambda f: written(f.assign(label=f["label"].astype("category"))),
    "a column more": lambda f: written(f.assign(extra=np.arange(len(f)))),
}


@pytest.mark.parametrize("stated", ["left out", "null", "invented"])
def test_eight_encodings_of_one_table_are_copies_whatever_the_manifest_says(
    at: At, forge: Any, stated: str
) -> None:
    audit = at("drawn")
    first = forge.draws_of(json.loads(audit.folder.read(RELEASES)))[0]
    frame = read_table_bytes(audit.folder.store.get(first["release"]), "the first release")
    stored = [audit.folder.store.put(encode(frame)) for encode in ENCODINGS.values()]
    assert len(set(stored)) == 8

    def lie(manifest: Value) -> None:
        for i, (record, address) in enumerate(zip(forge.draws_of(manifest), stored, strict=True)):
            record["release"], record["rows"] = address, len(frame)
            if stated == "left out":
                del record["content"]
            else:
                record["content"] = None if stated == "null" else f"{i:064x}"

    forge.manifest(audit, lie)
    words = "bootstrap, seed 100: " if stated == "invented" else "bootstrap.draws.0.content"
    with pytest.raises(SealError, match=rf"{re.escape(words)}.*"):
        audit.open()
    assert not audit.journal().ledger.has(Stage.OPENED)
    assert words in forge.found_by(audit)


def test_eight_encodings_of_one_table_have_one_content(at: At, forge: Any) -> None:
    audit = at("drawn")
    first = forge.draws_of(json.loads(audit.folder.read(RELEASES)))[0]
    frame = read_table_bytes(audit.folder.store.get(first["release"]), "the first release")
    stored = [audit.folder.store.put(encode(frame)) for encode in ENCODINGS.values()]

    def lie(manifest: Value) -> None:
        for record, address in zip(forge.draws_of(manifest), stored, strict=True):
            record.update(release=address, rows=len(frame), content=first["content"])

    forge.manifest(audit, lie)
    assert "seeds 100 and 101 have the same release" in forge.found_by(audit)


@pytest.mark.parametrize(
    ("lie", "words"),
    [
        (lambda record: record.update(rows=3), "seed 100: 3 rows"),
        (lambda record: record.update(status="given"), "bootstrap.draws.0.name: is missing"),
        (lambda record: record.update(status="skipped"), "bootstrap.draws.0: input tag 'skipped'"),
    ],
    ids=["rows", "given", "skipped"],
)
def test_a_record_that_its_release_does_not_bear_out_is_found(
    at: At, forge: Any, lie: Callable[[Value], None], words: str
) -> None:
    audit = at("drawn")
    forge.manifest(audit, lambda manifest: lie(forge.draws_of(manifest)[0]))
    assert words in forge.found_by(audit)


@pytest.mark.parametrize("guard", [None, "landlock", "landlock ABI 0", "a steward looked on"])
def test_a_draw_that_nothing_known_held_is_found(at: At, forge: Any, guard: str | None) -> None:
    audit = at("drawn")

    def lie(manifest: Value) -> None:
        draw = forge.draws_of(manifest)[0]
        draw.pop("guard") if guard is None else draw.update(guard=guard)

    forge.manifest(audit, lie)
    words = f"seed 100: {guard!r} is no guard" if guard else "bootstrap.draws.0.guard: is missing"
    assert words in forge.found_by(audit)


# The registry


@pytest.mark.parametrize(
    "lie",
    [
        lambda requirements: requirements[0]["limit"].update(value="0.90"),
        lambda requirements: requirements.pop(0),
        lambda requirements: requirements[1]["limit"].update(value="0.900"),
    ],
    ids=["another number", "one requirement less", "another result of the rule"],
)
def test_a_resolved_requirement_that_does_not_follow_is_found(
    at: At,
    forge: Any,
    monkeypatch: pytest.MonkeyPatch,
    draw_here: Callable[..., None],
    lie: Callable[[list[Value]], object],
) -> None:
    monkeypatch.setattr("proxyguard.audit.draw.draw_all", draw_here)
    audit = at("registered")
    forge.registry(audit, lambda value: lie(value["members"]["target"]["requirements"]))
    audit.draw()
    with pytest.raises(SealError, match="not opened: the folder does not hold, registry"):
        audit.open()
    assert "limits do not follow from the declaration and its facts" in forge.found_by(audit)


def test_a_rule_that_rests_on_another_risk_is_found(at: At, forge: Any) -> None:
    audit = at("registered")

    def lie(value: Value) -> None:
        value["members"]["target"]["facts"]["risks"]["Brier risk"] = "0.9"

    forge.registry(audit, lie)
    assert "rests on other facts than development recorded" in forge.found_by(audit)


def test_a_risk_that_development_did_not_have_is_found(at: At, forge: Any) -> None:
    audit = at("registered")

    def lie(facts: Value) -> None:
        facts["risks"]["Brier transfer"] = repr(float(facts["risks"]["Brier transfer"]) + 0.01)

    forge.rewrite(audit, developed=lambda body: lie(body["members"]["target"]))
    forge.registry(audit, lambda value: lie(value["members"]["target"]["facts"]))
    assert "validation risks, Brier transfer does not follow" in forge.found_by(audit)


def test_another_generator_than_the_declared_one_is_found(at: At, forge: Any) -> None:
    audit = at("registered")

    def lie(value: Value) -> None:
        value["members"]["target"]["mechanisms"]["bootstrap"]["generator"] = "files"

    forge.registry(audit, lie)
    assert "'bootstrap' has another generator than was declared" in forge.found_by(audit)


def test_an_amendment_after_the_draws_that_changes_a_generator_is_found(at: At, forge: Any) -> None:
    audit = at("drawn")
    value = json.loads(audit.folder.read("registry/0.json"))
    before = digest(value)
    value["members"]["target"]["mechanisms"]["bootstrap"]["generator"] = "gaussian_copula"
    value["declaration"]["mechanism"][0]["generator"] = "gaussian_copula"
    text = (audit.folder / DECLARATION).read_text()
    text = text.replace('generator = "bootstrap"', 'generator = "gaussian_copula"')
    for name in (DECLARATION, "registry/1.toml"):
        (audit.folder / name).write_text(text)
    audit.folder.write("registry/1.json", canonical_bytes(value))
    names = (DECLARATION, "registry/1.toml", "registry/1.json")
    body = {
        "declaration": digest(value), "supersedes": before, "reason": "a better name",
        "files": {name: audit.folder.sha256(name) for name in names}, "time": "",
        "void": [], "pending": 0,
    }  # fmt: skip
    chain = [*forge.steps(audit), (Stage.AMENDED, body)]
    forge.write_chain(audit, chain, forge.author(audit))
    assert "changes what the releases, drawn before it, depend on" in forge.found_by(audit)


@pytest.mark.parametrize("excluded", [[], [{"mechanism": "bootstrap", "seed": 103}]])
def test_a_registration_that_excludes_draws_is_found(
    at: At, forge: Any, excluded: list[Value]
) -> None:
    audit = at("registered")
    forge.registry(audit, lambda value: value.update(excluded=excluded))
    assert "registry/0.json excludes draws, which takes an amendment" in forge.found_by(audit)


@pytest.mark.parametrize(
    ("excluded", "words"),
    [
        ([{"mechanism": "bootstrap", "seed": 7}], "no registered draws"),
        ([{"mechanism": "bootstrap", "seed": 103}] * 2, "lists the draws that it excludes"),
        (
            [{"mechanism": "bootstrap", "seed": seed} for seed in range(100, 108)],
            "no draw of bootstrap would be left",
        ),
    ],
    ids=["unknown", "twice", "all"],
)
def test_an_amendment_that_excludes_what_it_cannot_is_found(
    at: At, forge: Any, excluded: list[Value], words: str
) -> None:
    audit = at("registered")
    audit.amend("a disk error", exclude=[("bootstrap", 103)])
    value = forge.edit_json(audit, "registry/1.json", lambda v: v.update(excluded=excluded))
    forge.rewrite(audit, amended=lambda body: body.update(declaration=digest(value)))
    assert words in forge.found_by(audit)


def test_an_amendment_that_is_recorded_before_the_draws_it_came_after_is_found(
    at: At, forge: Any
) -> None:
    audit = at("drawn")
    audit.amend("what looked bad", exclude=[("bootstrap", 103)])
    assert audit.verify().good
    chain = forge.steps(audit)
    assert [stage for stage, _ in chain[-2:]] == [Stage.DRAWN, Stage.AMENDED]
    chain[-2:] = chain[:-3:-1]
    forge.write_chain(audit, chain, forge.author(audit))
    assert "the releases were drawn for another registry: they name" in forge.found_by(audit)
    with pytest.raises(SealError, match="drawn for another registry"):
        audit.open()


# Evidence and corrections


def test_a_number_of_records_that_was_not_sealed_is_found(at: At, forge: Any) -> None:
    audit = at("certified")

    def edit(evidence: Value) -> None:
        for column in evidence["groups"]["bootstrap"]["columns"]:
            column["n"] = 30000
        forge.derive(audit, evidence)

    forge.certificate(audit, evidence=edit)
    assert f"{EVIDENCE}: " in forge.found_by(audit)


def test_a_derived_number_of_a_secondary_specification_follows(at: At, forge: Any) -> None:
    audit = at("certified")

    def edit(evidence: Value) -> None:
        evidence["secondary"]["strict"]["bootstrap"]["derived"]["pvalues"][0][0] = 0.0

    forge.certificate(audit, evidence=edit)
    assert "pvalues, 0, 0 does not follow from the record" in forge.found_by(audit)


def test_a_derived_number_of_an_excluded_draw_follows(at: At, forge: Any) -> None:
    audit = at("drawn")
    audit.amend("a disk error", exclude=[("bootstrap", 103)])
    audit.open()

    def edit(evidence: Value) -> None:
        evidence["excluded"]["bootstrap"]["derived"]["estimates"][0][0] += 0.01

    forge.certificate(audit, evidence=edit)
    assert "estimates, 0, 0 does not follow from the record" in forge.found_by(audit)


def an_excluded_draw(evidence: Value) -> None:
    releases = ["3", "a bad one that never was"]
    group = evidence["groups"]["bootstrap"]
    evidence["excluded"]["bootstrap"] = {**group, "label": EXCLUDED, "releases": releases}


def another_specification(evidence: Value) -> None:
    evidence["secondary"]["lenient"] = evidence["secondary"]["strict"]


@pytest.mark.parametrize(
    ("lie", "words"),
    [
        (an_excluded_draw, "the evidence has excluded draws of ['bootstrap']"),
        (another_specification, "the evidence is about other secondary specifications"),
    ],
)
def test_evidence_of_more_than_there_was_is_found(
    at: At, forge: Any, lie: Callable[[Value], None], words: str
) -> None:
    audit = at("certified")
    forge.certificate(audit, evidence=lie)
    assert words in forge.found_by(audit)


def much_variance(column: Value) -> None:
    column["variance"] = [9.0] * 8


def both_win(column: Value) -> None:
    column.update(
        mean=[1.0] * 8, variance=[0.0] * 8, log_peak=[[80.0] * 8] * 2, log_final=[[80.0] * 8] * 2
    )


def boundless_capital(column: Value) -> None:
    column.update(log_peak=[["inf"] * 8, [0.0] * 8], log_final=[["inf"] * 8, [0.0] * 8])


def statistics_of_one(column: Value) -> None:
    column["variance"] = column["variance"][:1]


@pytest.mark.parametrize(
    ("lie", "words"),
    [
        (much_variance, "variance is not between 0 and 0.25"),
        (both_win, "log_peak is more than any bet gains on 300 losses of this mean"),
        (boundless_capital, "log_peak is more than any bet gains"),
        (statistics_of_one, "variance is not of 8 releases"),
    ],
)
def test_statistics_that_no_losses_have_are_found(
    at: At, forge: Any, lie: Callable[[Value], None], words: str
) -> None:
    audit = at("certified")

    def edit(evidence: Value) -> None:
        for column in evidence["groups"]["bootstrap"]["columns"]:
            lie(column)
        forge.derive(audit, evidence)

    forge.certificate(audit, evidence=edit)
    assert words in forge.found_by(audit)


def large_area(diagnostics: Value) -> None:
    diagnostics["auc"]["bootstrap"]["100"] = 7.5


def outside_review(diagnostics: Value) -> None:
    diagnostics["external review"] = "passed by the regulator"


def area_of_another(diagnostics: Value) -> None:
    diagnostics["auc"]["bootstrap"]["777"] = 0.9


def many_unscored(diagnostics: Value) -> None:
    diagnostics["unscored"]["bootstrap"] = {"100": 301}


@pytest.mark.parametrize(
    ("lie", "words"),
    [
        (large_area, "an AUC of 7.5"),
        (outside_review, "diagnostics.external review: is nothing that"),
        (area_of_another, "AUCs of other draws"),
        (many_unscored, "records without a prediction do not fit"),
    ],
)
def test_diagnostics_that_cannot_be_are_found(
    at: At, forge: Any, lie: Callable[[Value], None], words: str
) -> None:
    audit = at("certified")
    forge.certificate(audit, evidence=lambda evidence: lie(evidence["diagnostics"]))
    assert words in forge.found_by(audit)


@pytest.mark.parametrize("what", ["registry", "releases"])
def test_evidence_about_something_else_is_found(at: At, forge: Any, what: str) -> None:
    audit = at("certified")
    forge.certificate(audit, evidence=lambda evidence: evidence.update({what: "f" * 64}))
    assert "about another registry or other releases" in forge.found_by(audit)


def test_two_corrective_certificates_are_found(apart: At, forge: Any) -> None:
    audit = apart("certified")
    audit.correct("a pool of 700", {"pool": 700})
    chain = forge.steps(audit)
    value = json.loads(audit.folder.read("corrections/0.json"))
    other = {**value, "design": {"pool": 900}}
    body = {
        **chain[-1][1],
        "design": {"pool": 900},
        "correction": digest(other),
        "files": {
            "corrections/1.json": audit.folder.write("corrections/1.json", canonical_bytes(other))
        },
    }
    forge.write_chain(audit, [*chain, (Stage.CORRECTED, body)], forge.author(audit))
    assert "there is one correction already" in forge.found_by(audit)


def test_a_deviation_that_brings_a_decision_is_found(apart: At, forge: Any) -> None:
    audit = apart("certified")
    audit.correct("a pool of 700", {"pool": 700})
    audit.correct("a pool of 900", {"pool": 900})
    forge.rewrite(audit, deviated=lambda body: body.update(decisions={"bootstrap": "validated"}))
    assert "(deviated): decisions: is nothing that this document says" in forge.found_by(audit)


@pytest.mark.parametrize(
    ("design", "test", "problem"),
    [
        ({"pool": 700}, "hoeffding", "by ['hoeffding', 'hoeffding'], registered were"),
        ("iid", "bentkus", "that is not a correction"),
    ],
    ids=["another test", "the registered design"],
)
def test_a_correction_by_another_test_or_under_the_registered_design_is_found(
    apart: At,
    forge: Any,
    monkeypatch: pytest.MonkeyPatch,
    design: Value | str,
    test: str,
    problem: str,
) -> None:
    audit = apart("certified")

    def chosen(registry: Registry, _: Any, journal: Any) -> Registry:
        declared = registry.declaration.to_dict()
        declared["target"] = {**declared["target"], "design": design}
        declared["claim"] = {**declared["claim"], "test": test}
        return Registry.of({**registry.to_dict(), "declaration": declared}, "chosen")

    with monkeypatch.context() as patch:
        patch.setattr("proxyguard.audit.open.corrected_registry", chosen)
        audit.correct("what comes out best", design)
    if design != "iid":  # the evidence names the registry that it should be about
        journal = audit.journal()
        honest = corrected_registry(audit.folder.registry(journal), design, journal).digest
        value = forge.edit_json(
            audit, "corrections/0.json", lambda v: v["evidence"].update(registry=honest)
        )
        forge.rewrite(audit, corrected=lambda body: body.update(correction=digest(value)))
        audit.report()
    assert problem in forge.found_by(audit)


def decided_otherwise(correction: Value) -> None:
    for verdict in correction["verdicts"]:
        verdict["decision"] = "violation"


def derived_otherwise(correction: Value) -> None:
    correction["evidence"]["groups"]["bootstrap"]["derived"]["pvalues"][0][0] += 0.01


@pytest.mark.parametrize("lie", [decided_otherwise, derived_otherwise])
def test_a_corrective_certificate_that_does_not_follow_is_found(
    apart: At, forge: Any, lie: Callable[[Value], None]
) -> None:
    audit = apart("certified")
    audit.correct("the target was a sample from a pool", {"pool": 700})
    assert audit.verify().good
    value = forge.edit_json(audit, "corrections/0.json", lie)
    decisions = {v["mechanism"]: v["decision"] for v in value["verdicts"]}
    forge.rewrite(
        audit, corrected=lambda body: body.update(decisions=decisions, correction=digest(value))
    )
    audit.report()
    assert "corrections/0.json: " in forge.found_by(audit)


def test_a_correction_with_invented_statistics_is_found_by_whoever_has_the_target(
    apart: At, forge: Any
) -> None:
    audit = apart("certified")
    design = {"pool": 700}
    audit.correct("the target was a sample from a pool", design)
    assert audit.verify(with_target=True).good
    journal = audit.journal()
    registry = audit.folder.registry(journal)
    corrected = corrected_registry(registry, design, journal)
    evidence = json.loads(audit.folder.read(CORRECTION))["evidence"]
    group = evidence["groups"]["bootstrap"]
    group["columns"][0]["mean"][0] -= 0.001
    groups = groups_of(corrected, audit.folder.document(ReleaseManifest, RELEASES))
    reading = readings_of(corrected, groups, int(evidence["seed"]))["bootstrap"][0]
    stated = GroupEvidence.of(group, EVIDENCE)
    group["derived"] = derived_record(read_evidence(stated, reading)).to_dict()
    reason = "the target was a sample from a pool"
    stated_evidence = FixedEvidence.of(evidence, CORRECTION)
    lie = correction_of(audit.folder, registry, corrected, design, reason, stated_evidence)
    audit.folder.put(CORRECTION, lie)
    told = {"correction": lie.digest, "decisions": lie.decisions}
    forge.rewrite(audit, corrected=lambda body: body.update(told))
    audit.report()
    assert audit.verify().good  # nobody can tell without the target
    assert f"{CORRECTION}: " in forge.found_by(audit, with_target=True)


# Sequential audits


def audit_of(root: Path) -> Audit:
    return Audit(root / "audit", home=root / "home", data=[root / "data"], workers=1)


@pytest.fixture(scope="module")
def in_turn_once(
    stages: Path, tmp_path_factory: pytest.TempPathFactory, draw_here: Callable[..., None]
) -> Path:
    """The small audit with draws after the opening, certified."""
    root = tmp_path_factory.mktemp("in_turn") / "work"
    shutil.copytree(stages / "new", root)
    audit = audit_of(root)
    place = audit.folder / DECLARATION
    text = place.read_text().replace(
        'reliability_target = "0.6"',
        'reliability_target = "0.5"\nmode = "sequential"\nthreshold = "0.01"\nlooks = [8]',
    )
    start, end = text.index("[[secondary]]"), text.index("[claim]")
    place.write_text(text[:start] + text[end:])
    audit.seal()
    audit.register()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("proxyguard.audit.sequential.draw_all", draw_here)
        audit.open()
    return root


@pytest.fixture
def in_turn(in_turn_once: Path, tmp_path: Path) -> Audit:
    shutil.copytree(in_turn_once, tmp_path / "in_turn")
    return audit_of(tmp_path / "in_turn")


def test_a_sequential_audit_signed_anew_without_a_lie_holds(in_turn: Audit, forge: Any) -> None:
    before = snapshot(in_turn)
    forge.certificate(in_turn)
    assert snapshot(in_turn) == before  # so what is caught below is the lie
    assert in_turn.verify().good


def test_a_sequential_audit_verifies_with_its_target(in_turn: Audit) -> None:
    found = in_turn.verify(with_target=True)
    assert found.good, found.findings
    assert "losses: computed again from the target" in found.checked


def no_statistics(evidence: Value) -> None:
    for one in evidence["scores"]:
        one["statistics"] = {}


def zero_estimates(evidence: Value) -> None:
    derived = evidence["groups"]["bootstrap"]["derived"]
    derived["estimates"] = [[0.0] * len(row) for row in derived["estimates"]]


def another_registry(evidence: Value) -> None:
    evidence.update(registry="f" * 64)


def other_releases(evidence: Value) -> None:
    evidence.update(releases="f" * 64)


@pytest.mark.parametrize("lie", [no_statistics, zero_estimates, another_registry, other_releases])
def test_sequential_evidence_that_does_not_follow_is_found(
    in_turn: Audit, forge: Any, lie: Callable[[Value], None]
) -> None:
    forge.certificate(in_turn, evidence=lie)
    assert f"{EVIDENCE}: " in forge.found_by(in_turn)


def one_release(chain: Chain) -> None:
    drawn = [body for stage, body in chain if stage is Stage.DRAWN]
    for body in drawn[1:]:
        body["record"] = {**drawn[0]["record"], "seed": body["record"]["seed"]}


def one_release_with_its_digests(chain: Chain) -> None:
    one_release(chain)
    for stage, body in chain:
        if stage is Stage.DRAWN:
            body["release"] = committed = digest(body["record"])
        elif stage is Stage.SCORED:
            body["release"] = committed


def other_records(chain: Chain) -> None:
    for stage, body in chain:
        if stage is Stage.DRAWN:
            body["record"]["rows"] = 1  # the committed digest is still that of the old record


def other_derived(chain: Chain) -> None:
    for stage, body in chain:
        if stage is Stage.SCORED:
            body["statistics"]["derived"]["pvalues"] = [[0.0, 0.0]]


@pytest.mark.parametrize(
    "lie", [one_release, one_release_with_its_digests, other_records, other_derived]
)
def test_a_sequential_ledger_that_does_not_follow_is_found(
    in_turn: Audit, forge: Any, lie: Callable[[Chain], None]
) -> None:
    chain = forge.steps(in_turn)
    lie(chain)
    forge.write_chain(in_turn, chain, forge.author(in_turn))

    def recorded(evidence: Value) -> None:
        scored = [body for stage, body in chain if stage is Stage.SCORED]
        evidence["scores"] = [
            {"release": body["release"], "statistics": body["statistics"]} for body in scored
        ]

    forge.certificate(in_turn, evidence=recorded)
    assert f"{EVIDENCE}: " in forge.found_by(in_turn)


@pytest.mark.parametrize(
    "stage", ["sealed", "developed", "registered", "drawn", "opened", "certified"]
)
def test_an_entry_says_nothing_that_its_step_does_not_say(at: At, forge: Any, stage: str) -> None:
    """A key that nobody reads is signed all the same, and would seem to be vouched for."""
    audit = at("certified")
    forge.rewrite(audit, **{stage: lambda body: body.update(approved="by the regulator")})
    assert f"({stage}): approved: is nothing that this document says" in forge.found_by(audit)


def test_a_sealed_target_is_said_to_be_nothing_else(at: At, forge: Any) -> None:
    audit = at("sealed")
    forge.rewrite(audit, sealed=lambda body: body["members"]["target"].update(sampled="at random"))
    assert "(sealed): members.target.sampled: is nothing that" in forge.found_by(audit)
