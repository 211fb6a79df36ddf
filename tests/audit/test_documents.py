"""Every file of every kind of audit is a document: it parses and is written back byte by byte."""

from __future__ import annotations

import base64
import json
import shutil
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from conformance.draws import DrawHere
from proxyguard.audit.audit import Audit
from proxyguard.audit.demo import demo_declaration, write_digits
from proxyguard.audit.folder import open_envelope, sign_statement
from proxyguard.cli.main import main
from proxyguard.documents.canonical import canonical_bytes
from proxyguard.documents.certificate import Advice, Correction, Envelope, ReportDocument, Statement
from proxyguard.documents.document import Document
from proxyguard.documents.evidence import Evidence
from proxyguard.documents.ledger import Grant, SealedHeader, SignedEntry, Stage, read_body
from proxyguard.documents.registry import Registry
from proxyguard.documents.releases import DrawnRelease, FailedDraw, ReleaseManifest
from proxyguard.draw.messages import Failed
from proxyguard.seal.crypto import SigningKey

At = Callable[[str], Audit]
KINDS: dict[str, type[Document]] = {
    "releases.json": ReleaseManifest,
    "evidence.json": Evidence,
    "certificate.json": Envelope,
    "advice.json": Advice,
    "grant.json": Grant,
    "corrections/0.json": Correction,
    "report.json": ReportDocument,
}
WRITTEN = {"audit.toml", "report.md", "report.html", "report.csv"}
"""Files that are no documents of values, beside tables, models and sealed records."""

SEQUENTIAL = """
[claim]
mode = "sequential"
reliability_target = "0.3"
threshold = "0.01"
looks = [3, 8]
"""
STREAM = """
[claim]
level = "releases"
mode = "stream"
batch = 100
"""


@pytest.fixture(autouse=True)
def _draws_here(monkeypatch: pytest.MonkeyPatch, draw_here: Callable[..., None]) -> None:
    monkeypatch.setattr("proxyguard.audit.draw.draw_all", draw_here)
    monkeypatch.setattr("proxyguard.audit.sequential.draw_all", draw_here)


def written_back(kind: type[Document], content: bytes, name: str) -> None:
    assert kind.read(content, name).to_bytes() == content, name


def documents_in(folder: Path) -> set[str]:
    """Read every document of a folder and write it back; return the names of what was read."""
    read = set()
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if path.is_dir() or name in WRITTEN or path.suffix in (".toml", ".parquet"):
            continue
        if name.startswith("store/"):
            continue
        content = path.read_bytes()
        if name == "ledger.jsonl":
            for line in content.splitlines():
                written_back(SignedEntry, line, name)
                entry = json.loads(line)["entry"]
                body = read_body(Stage(entry["stage"]), entry["body"], name)
                assert body.to_dict() == entry["body"]
                read.add(entry["stage"])
        elif path.suffix == ".sealed":
            written_back(SealedHeader, content.split(b"\n", 1)[0], name)
        elif name.startswith("registry/"):
            written_back(Registry, content, name)
        else:
            written_back(KINDS[name], content, name)
        if name == "certificate.json":
            payload = base64.b64decode(json.loads(content)["payload"])
            written_back(Statement, payload, "the certificate's payload")
        read.add(name)
    return read


def edit(audit: Audit, *changes: tuple[str, str]) -> None:
    place = audit.folder / "audit.toml"
    text = place.read_text()
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    place.write_text(text)


def test_of_a_fixed_audit_and_its_correction(apart: At) -> None:
    audit = apart("certified")
    audit.correct("the records are a sample from a pool", {"pool": 700})
    audit.correct("another pool", {"pool": 5000})
    audit.deviate("the clock was wrong")
    read = documents_in(audit.folder.path)
    assert {"sealed", "developed", "registered", "drawn", "opened", "certified"} <= read
    assert {"corrected", "deviated", "corrections/0.json", "evidence.json"} <= read


def test_of_an_amended_audit_with_failed_dropped_and_excluded_draws(
    at: At, monkeypatch: pytest.MonkeyPatch
) -> None:
    draw_again = True

    def draw_here(job: Any, seeds: Sequence[int], *, keep: Any, **_: Any) -> None:
        """Draw as the drawing process does; one seed fails, and the last is not reached at once."""
        nonlocal draw_again
        drawing = DrawHere(job)
        for seed in seeds:
            if seed == 107 and draw_again:
                draw_again = False
                raise KeyboardInterrupt
            result = drawing.draw(seed)
            if seed == 103:
                result = replace(result, said=Failed(seed=103, error="?"), release=b"", model=b"")
            keep(result)

    monkeypatch.setattr("proxyguard.audit.draw.draw_all", draw_here)
    audit = at("registered")
    with pytest.raises(KeyboardInterrupt):
        audit.draw()
    audit.draw(again=[("bootstrap", 100)])
    audit.amend("one draw is left out", exclude=[("bootstrap", 107)])
    audit.open()
    read = documents_in(audit.folder.path)
    assert {"amended", "registry/1.json"} <= read
    manifest = ReleaseManifest.read(audit.folder / "releases.json")
    dropped, *_, failed, _, _, _, _ = manifest.members["target"]["bootstrap"].draws
    assert isinstance(dropped, DrawnRelease)
    assert dropped.again
    assert isinstance(failed, FailedDraw)


def test_of_named_releases_and_their_correction(apart: At) -> None:
    audit = apart("new")
    edit(audit, ('reliability_target = "0.6"', 'level = "releases"'))
    audit.run()
    audit.correct("a pool of 700", {"pool": 700})
    assert "corrections/0.json" in documents_in(audit.folder.path)


def test_of_rounded_statistics_picks_and_several_mechanisms(at: At) -> None:
    audit = at("new")
    second = (
        '[[mechanism]]\nname = "few"\ngenerator = "bootstrap"\noptions = { rows = 20 }\n'
        "draws = 5\nseeds = { first = 200 }\n\n[[secondary]]"
    )
    edit(audit, ("[[secondary]]", second))
    place = audit.folder / "audit.toml"
    place.write_text(place.read_text() + '\n[picks]\nalpha = "0.05"\n\n[disclosure]\ndigits = 3\n')
    audit.run()
    assert {"releases.json", "report.json"} <= documents_in(audit.folder.path)


@pytest.mark.parametrize("claim", [SEQUENTIAL, STREAM], ids=["sequential", "stream"])
def test_of_an_audit_that_draws_after_opening(at: At, claim: str) -> None:
    audit = at("new")
    place = audit.folder / "audit.toml"
    text = place.read_text().split("[[secondary]]")[0]
    if claim is STREAM:
        text = text.split("[[mechanism]]")[0]
    place.write_text(text + claim)
    audit.seal()
    audit.register()
    if claim is STREAM:
        data = audit.folder.path.parent / "data"
        header, *rows = (data / "table.csv").read_text().splitlines()
        for k in range(2):
            (data / f"{k}.csv").write_text("\n".join([header, *rows[k::2]]) + "\n")
            audit.submit(data / f"{k}.csv")
        audit.close()
    else:
        audit.open()
    read = documents_in(audit.folder.path)
    assert {"drawn", "scored", "certified", "evidence.json"} <= read
    assert "releases.json" not in read


def test_of_a_granted_audit_whose_key_was_rotated(stages: Path, tmp_path: Path) -> None:
    shutil.copytree(stages / "new", tmp_path / "work")
    audit = Audit(
        tmp_path / "work" / "audit", home=tmp_path / "work" / "home",
        data=[tmp_path / "work" / "data"], workers=1,
    )  # fmt: skip
    key = tmp_path / "steward.pem"
    steward = SigningKey.create()
    steward.save(key)
    audit.seal(steward=steward.identity)
    audit.register()
    audit.draw()
    audit.grant(key)
    audit.open()
    audit.rotate_key()
    assert {"rotated", "grant.json", "target/0.sealed"} <= documents_in(audit.folder.path)


def test_of_losses_that_were_given(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    losses = np.random.default_rng(1).random((6, 200, 1)) < 0.05
    np.savez(
        data / "losses.npz", losses=losses.astype(float), releases=[f"r{k}" for k in range(6)],
        requirements=["error"],
    )  # fmt: skip
    audit = Audit(tmp_path / "audit", home=tmp_path / "home", data=[data], workers=1)
    audit.init(
        'format = 1\nname = "given"\npurpose = "Is it?"\n[target]\nlosses = "losses.npz"\n'
        '[[requirement]]\nname = "error"\nloss = "error"\nform = "absolute"\nlimit = "0.2"\n'
        'low = "0"\nhigh = "1"\ntwo_valued = true\n[[mechanism]]\nname = "theirs"\n'
        'generator = "losses"\ndraws = 6\nseeds = { first = 1 }\n[claim]\n'
        'reliability_target = "0.3"\n'
    )
    audit.run()
    assert {"releases.json", "evidence.json"} <= documents_in(audit.folder.path)


@pytest.mark.whole
def test_of_the_demonstration(tmp_path: Path) -> None:
    data = tmp_path / "data"
    write_digits(data)
    audit = Audit(tmp_path / "audit", home=tmp_path / "home", data=[data], workers=1)
    audit.init(demo_declaration().replace("draws = 30", "draws = 6"))
    audit.run()
    assert {"advice.json", "report.json"} <= documents_in(audit.folder.path)


LIES: dict[str, tuple[str, str]] = {
    "releases.json": ("members.target.bootstrap.draws.0.luck", "is nothing that this document"),
    "evidence.json": ("groups.bootstrap.columns.0.n", "valid integer"),
    "registry/0.json": ("declaration.claim.slakc", "is nothing that this document says"),
    "certificate.json": ("predicate.verdicts.0.decision", "found 'certain'"),
}


def lie_in(value: Any, path: str) -> None:
    *way, last = path.split(".")
    for step in way:
        value = value[int(step)] if isinstance(value, list) else value[step]
    value[last] = {"n": "300", "decision": "certain"}.get(last, "x")


@pytest.mark.parametrize("name", LIES)
def test_a_document_that_has_not_its_form_is_a_finding_that_names_file_and_field(
    at: At, forge: Any, name: str
) -> None:
    audit = at("certified")
    field, words = LIES[name]
    if name == "certificate.json":
        statement = open_envelope((audit.folder / name).read_bytes())[0].to_dict()
        lie_in(statement, field)
        audit.folder.write(name, sign_statement(canonical_bytes(statement), forge.author(audit)))
    else:
        forge.edit_json(audit, name, lambda value: lie_in(value, field))
    forge.rewrite(audit)
    found = audit.verify()
    (finding,) = [one for one in found.findings if one.place == name]
    assert finding.problem.startswith(f"{name}: {field}: ")
    assert words in finding.problem
    assert "documents: every one in its form" not in found.checked


def test_a_fault_of_ours_is_told_as_one_and_condemns_no_honest_folder(
    at: At, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    audit = at("certified")
    assert audit.verify().good

    def broken(*_: object) -> None:
        raise KeyError("a table of ours has a bug")

    monkeypatch.setattr("proxyguard.report.record.times_table", broken)
    with pytest.raises(KeyError, match="has a bug"):
        audit.verify()
    monkeypatch.setattr(sys, "argv", ["proxyguard", "verify", str(audit.folder.path)])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 1
    said = capsys.readouterr()
    assert "a fault of ours, please report it: KeyError" in said.err
    assert "does not hold" not in said.out + said.err


def no_development(chain: list[Any]) -> None:
    chain[:] = [step for step in chain if step[0] is not Stage.DEVELOPED]


def development_of_another(chain: list[Any]) -> None:
    for stage, body in chain:
        if stage is Stage.DEVELOPED:
            body["members"] = {"another": body["members"]["target"]}


@pytest.mark.parametrize("lie", [no_development, development_of_another])
def test_documents_that_do_not_fit_each_other_are_findings_and_no_faults_of_ours(
    at: At, forge: Any, lie: Callable[[list[Any]], None]
) -> None:
    audit = at("certified")
    chain = forge.steps(audit)
    lie(chain)
    forge.write_chain(audit, chain, forge.author(audit))
    assert "the ledger records no development of the members" in forge.found_by(audit)


def without_its_mechanism(value: Any) -> None:
    value["members"]["target"]["mechanisms"] = {}


def without_its_procedure(value: Any) -> None:
    value["members"]["target"]["procedure"] = None


def without_its_member(value: Any) -> None:
    value["members"] = {}


@pytest.mark.parametrize(
    ("lie", "words"),
    [
        (without_its_mechanism, "has other mechanisms or releases than declared"),
        (without_its_procedure, "a procedure is declared, and none registered"),
        (without_its_member, "has other members than its declaration"),
    ],
)
def test_a_registry_that_lacks_what_is_declared_is_found(
    at: At, forge: Any, lie: Callable[[Any], None], words: str
) -> None:
    audit = at("drawn")
    forge.registry(audit, lie)
    assert words in forge.found_by(audit)


def test_advice_for_other_mechanisms_is_found(at: At, forge: Any) -> None:
    audit = at("new")
    edit(audit, ('reliability_target = "0.6"', 'reliability_target = "0.95"'))
    audit.run()  # eight draws cannot show that much
    forge.edit_json(audit, "advice.json", lambda value: value.update(sizes={"another": None}))
    forge.rewrite(audit)
    assert "advice.json is about ['another']" in forge.found_by(audit)


def another_name(body: Any) -> None:
    body["members"] = {"another": body["members"]["target"]}


def another_column(body: Any) -> None:
    body["members"]["target"]["kinds"][0][0] = "zeroth"


@pytest.mark.parametrize(
    ("lie", "words"),
    [
        (another_name, "sealed were targets of ['another']"),
        (another_column, "has the columns ['first', 'second', 'label'], the seal says ['zeroth'"),
    ],
)
def test_a_seal_that_does_not_fit_what_it_sealed_is_found(
    at: At, forge: Any, lie: Callable[[Any], None], words: str
) -> None:
    audit = at("drawn")
    forge.rewrite(audit, sealed=lie)
    assert words in forge.found_by(audit)


@pytest.mark.parametrize("name", ["mean", "variance", "log_peak"])
@pytest.mark.parametrize("length", [0, 3])
def test_statistics_of_fewer_releases_than_there_are_are_found(
    at: At, forge: Any, name: str, length: int
) -> None:
    audit = at("certified")

    def cut(evidence: Any) -> None:
        column = evidence["groups"]["bootstrap"]["columns"][0]
        column[name] = column["mean"][:length]
        if name == "log_peak":
            column[name] = [column[name], column[name]]

    forge.edit_json(audit, "evidence.json", cut)
    forge.rewrite(audit)
    assert f"{name} is not of 8 releases" in forge.found_by(audit)
