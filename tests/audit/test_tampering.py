"""Any single changed byte in any file of the folder: verify finds it and names the file."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from conformance import warm
from proxyguard.audit.audit import Audit
from proxyguard.audit.folder import CERTIFICATE, EVIDENCE, REPORTS
from proxyguard.audit.verify import Scope, Verification, agree, refuse_unsound
from proxyguard.cli.main import app
from proxyguard.errors import RegistryError, SealError

At = Callable[[str], Audit]

LEDGER = "ledger.jsonl"
POSITIONS = 6
KINDS = {  # how many files of each kind the small audit has; 8 draws, each with its model
    "audit.toml": 1, "ledger.jsonl": 1, "target": 1, "development": 2, "registry": 2,
    "releases.json": 1, "store": 17, "evidence.json": 1, "certificate.json": 1,
    "report.md": 1, "report.html": 1, "report.json": 1, "report.csv": 1,
}  # fmt: skip


def files_of(audit: Audit) -> list[str]:
    places = (p for p in audit.folder.path.rglob("*") if p.is_file())
    return sorted(p.relative_to(audit.folder.path).as_posix() for p in places)


def positions(size: int, seed: int) -> list[int]:
    """Return the first byte, the last, and some between them."""
    rng = np.random.default_rng(seed)
    between = rng.choice(np.arange(1, size - 1), size=POSITIONS - 2, replace=False)
    return [0, *sorted(between.tolist()), size - 1]


@contextmanager
def changed(place: Path, content: bytes) -> Iterator[None]:
    """Let a file have other bytes for a while."""
    before = place.read_bytes()
    place.write_bytes(content)
    try:
        yield
    finally:
        place.write_bytes(before)


def flipped(content: bytes, position: int, bits: int) -> bytes:
    return content[:position] + bytes([content[position] ^ bits]) + content[position + 1 :]


def names(found: Verification, name: str) -> bool:
    """Return whether a finding names a file, by its path or by its last part."""
    last = name.rsplit("/", 1)[-1]
    return any(last in f"{one.place} {one.problem}" for one in found.findings)


def test_the_small_audit_has_a_file_of_every_kind(at: At) -> None:
    audit = at("certified")
    kinds = [name.split("/")[0] for name in files_of(audit)]
    assert {kind: kinds.count(kind) for kind in kinds} == KINDS


@pytest.mark.reduced(cases=1)
@pytest.mark.parametrize("bits", [0x01, 0x20, 0xFF])
def test_a_changed_byte_in_any_file_is_found_and_its_file_named(
    at: At, bits: int, effort: Any
) -> None:
    audit = at("certified")
    missed = []
    for number, name in enumerate(files_of(audit)):
        place = audit.folder / name
        content = place.read_bytes()
        chosen = positions(len(content), seed=1000 * bits + number)
        if name.startswith("store/"):  # many files of one kind, each checked by its digest
            chosen = chosen[number % 2 :: 4]
        for position in chosen[:: effort.times(whole=1, reduced=2)]:
            with changed(place, flipped(content, position, bits)):
                found = audit.verify()
            if found.good or not names(found, name):
                missed.append((name, position))
    assert missed == []
    assert audit.verify().good


@pytest.mark.parametrize("stage", ["sealed", "registered", "drawn"])
def test_a_changed_byte_is_found_at_every_stage(at: At, stage: str) -> None:
    audit = at(stage)
    free = {"audit.toml"} if stage == "sealed" else set()  # still to be registered
    missed = []
    for number, name in enumerate(sorted(set(files_of(audit)) - free)):
        place = audit.folder / name
        content = place.read_bytes()
        position = int(np.random.default_rng(number).integers(len(content)))
        with changed(place, flipped(content, position, 0x01)):
            found = audit.verify()
        if found.good or not names(found, name):
            missed.append((name, position))
    assert missed == []


@pytest.mark.reduced(cases=1)
@pytest.mark.parametrize("extra", [b"\n", b"\0"])
def test_an_appended_byte_in_any_file_is_found(at: At, extra: bytes) -> None:
    audit = at("certified")
    missed = []
    for name in files_of(audit):
        place = audit.folder / name
        with changed(place, place.read_bytes() + extra):
            found = audit.verify()
        if found.good or not names(found, name):
            missed.append(name)
    assert missed == []


def test_a_file_cut_short_or_emptied_is_found(at: At) -> None:
    audit = at("certified")
    missed = []
    for number, name in enumerate(files_of(audit)):
        place = audit.folder / name
        content = place.read_bytes()
        cuts = [content[:-1], content[: len(content) // 2], b""]
        if name.startswith("store/"):
            cuts = [cuts[number % 3]]
        for cut in cuts:
            with changed(place, cut):
                found = audit.verify()
            if found.good or not names(found, name):
                missed.append((name, len(cut)))
    assert missed == []


def test_a_ledger_cut_at_any_line_is_found(at: At) -> None:
    audit = at("certified")
    place = audit.folder / LEDGER
    lines = place.read_bytes().splitlines(keepends=True)
    for kept in range(len(lines)):
        with changed(place, b"".join(lines[:kept])):
            found = audit.verify()
        places = {f.place for f in found.findings}
        assert {"certificate.json", "evidence.json"} <= places
        assert (LEDGER in places) is (kept == 0)
    assert audit.verify().good


def test_a_removed_file_is_found_missing(at: At) -> None:
    audit = at("certified")
    missed = []
    for name in files_of(audit):
        if name in REPORTS:  # written anew from the rest
            continue
        place = audit.folder / name
        content = place.read_bytes()
        place.unlink()
        found = audit.verify()
        place.write_bytes(content)
        told = {(f.place, f.problem[:10]) for f in found.findings} | {
            (name, "is missing") for name in found.withheld
        }
        if (name, "is missing") not in told or name.startswith("development/") is not found.good:
            missed.append(name)
    assert missed == []


DEVELOPMENT = ["development/0.training.parquet", "development/0.validation.parquet"]


def without_development(audit: Audit, *names: str) -> Audit:
    for name in names or DEVELOPMENT:
        (audit.folder / name).unlink()
    return audit


def test_a_folder_without_development_holds_as_far_as_it_can_be_seen(at: At) -> None:
    audit = at("certified")
    before = set(audit.verify().checked)
    found = without_development(audit).verify(with_target=True)
    assert found.good
    assert not found.complete
    assert found.withheld == DEVELOPMENT
    assert found.to_dict()["withheld"] == DEVELOPMENT
    # What does not rest on it is checked as ever, the losses too; the rest is told, by its name.
    assert before - set(found.checked) == {
        "files: every recorded byte",
        "references: policies of target on validation", "risks: the source of target on validation",
    }  # fmt: skip
    assert "losses: computed again from the target" in found.checked
    told = "\n".join(found.not_checked)
    for words in (
        "development/0.training.parquet, development/0.validation.parquet: not here",
        "how it was divided, and what its columns hold",
        "the limits and ramps by a rule, of Brier risk",
        "what its source and the policies that learn nothing lose, of Brier transfer, Brier risk",
        "that the releases are drawn from it, of bootstrap",
        "references: policies of target", "risks: the source of target",
    ):  # fmt: skip
        assert words in told
    assert "redraw: releases are drawn from development" in audit.verify(redraw=1).not_checked[-1]


def test_the_command_line_tells_what_was_withheld_and_validates_nothing_by_it(
    at: At, tmp_path: Path
) -> None:
    audit = without_development(at("certified"))
    folder, cases = str(audit.folder.path), tmp_path / "cases.xml"
    shown = CliRunner().invoke(app, ["verify", folder])
    assert shown.exit_code == 6
    assert "? VALIDATED: bootstrap (rests on rows not seen)" in shown.output
    assert "✓" not in shown.output
    assert "what rests on it is its author's word" in shown.output.splitlines()[-1]
    arguments = ["verify", folder, "--require-validated", "--junit", str(cases)]
    assert CliRunner().invoke(app, arguments).exit_code == 6
    assert 'failures="1"' in cases.read_text()
    assert 'type="withheld"' in cases.read_text()
    status = CliRunner().invoke(app, ["status", folder])
    assert status.exit_code == 0
    assert f"Not here: {', '.join(DEVELOPMENT)}; proxyguard verify" in status.output
    assert CliRunner().invoke(app, ["report", folder]).exit_code == 0


def test_a_part_of_development_that_is_withheld_is_told_by_its_file(at: At) -> None:
    audit = without_development(at("certified"), DEVELOPMENT[1])
    found = audit.verify()
    assert found.good
    assert found.withheld == [DEVELOPMENT[1]]
    # Made whole by bytes of another's choice it does not hold.
    (audit.folder / DEVELOPMENT[1]).write_bytes((audit.folder / DEVELOPMENT[0]).read_bytes())
    assert [finding.place for finding in audit.verify().findings][:1] == [DEVELOPMENT[1]]


def test_who_removes_development_hides_a_lie_and_gains_no_more(at: At, forge: Any) -> None:
    audit = at("registered")

    def lie(facts: dict[str, Any]) -> None:
        facts["risks"]["Brier transfer"] = repr(float(facts["risks"]["Brier transfer"]) + 0.01)

    forge.rewrite(audit, developed=lambda body: lie(body["members"]["target"]))
    forge.registry(audit, lambda value: lie(value["members"]["target"]["facts"]))
    assert "validation risks, Brier transfer" in forge.found_by(audit)
    without_development(audit)
    found = audit.verify()
    lied_about = "risks: the source of target on validation"
    assert any(line.startswith(lied_about) for line in found.not_checked)
    assert lied_about not in found.checked
    assert not found.complete
    # Nobody opens, or lets open, what they cannot see whole.
    with pytest.raises(SealError, match=r"not granted: .*development/0.training.parquet"):
        refuse_unsound(audit.folder, "not granted")
    with pytest.raises(SealError, match=r"development/0.training.parquet: is missing"):
        without_development(at("drawn")).open()


def test_other_lies_are_found_without_development(at: At, forge: Any) -> None:
    audit = at("certified")
    forge.certificate(
        audit, predicate=lambda said: said["verdicts"][0].update(reliability_lower=0.9)
    )
    without_development(audit)
    assert "reliability_lower does not follow" in forge.found_by(audit)


def test_two_files_that_changed_places_are_both_named(at: At) -> None:
    audit = at("certified")
    first, second = [n for n in files_of(audit) if n.startswith("store/")][:2]
    one, other = ((audit.folder / name).read_bytes() for name in (first, second))
    (audit.folder / first).write_bytes(other)
    (audit.folder / second).write_bytes(one)
    found = audit.verify()
    changed_ones = {f.place for f in found.findings if f.problem.startswith("was changed")}
    assert changed_ones == {first, second}
    assert {f.place for f in found.findings} <= {first, second, "releases.json", "registry"}


def test_a_report_can_be_deleted_and_written_again(at: At) -> None:
    audit = at("certified")
    before = {name: (audit.folder / name).read_bytes() for name in REPORTS}
    for name in REPORTS:
        (audit.folder / name).unlink()
        assert audit.verify().good
    audit.report()
    assert {name: (audit.folder / name).read_bytes() for name in REPORTS} == before


@pytest.mark.parametrize(
    "name", ["notes.txt", "store/ab/cd", "registry/1.json", "target/1.sealed", "grant.json"]
)
def test_an_added_file_is_reported_as_unknown(at: At, name: str) -> None:
    audit = at("certified")
    (audit.folder / name).parent.mkdir(parents=True, exist_ok=True)
    (audit.folder / name).write_bytes(b"nobody vouches for this")
    assert audit.verify().unknown == [name]


@pytest.mark.parametrize("name", ["releases.json", "target/0.sealed", "registry/0.json"])
def test_a_changed_folder_is_not_opened(at: At, name: str) -> None:
    audit = at("drawn")
    place = audit.folder / name
    content = place.read_bytes()
    place.write_bytes(flipped(content, len(content) // 2, 0x01))
    before = {p: p.read_bytes() for p in audit.folder.path.rglob("*") if p.is_file()}
    with pytest.raises(SealError, match=name):
        audit.open()
    assert {p: p.read_bytes() for p in audit.folder.path.rglob("*") if p.is_file()} == before


def test_changed_development_is_not_drawn_from(at: At) -> None:
    audit = at("registered")
    place = audit.folder / "development" / "0.training.parquet"
    content = place.read_bytes()
    place.write_bytes(flipped(content, len(content) // 2, 0x01))
    with pytest.raises(SealError, match=r"0\.training\.parquet"):
        audit.draw()


# The command line, as a stranger runs it: no home, no key, no data


def run_verify(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    source = Path(__file__).parents[2] / "src"
    environment = {**os.environ, "PYTHONPATH": str(source), "PROXYGUARD_HOME": "/nonexistent"}
    command = [sys.executable, "-m", "proxyguard.cli.main", "verify", str(folder), *options]
    return warm.run(command, env=environment)


def test_the_command_line_verifies_a_whole_folder(at: At) -> None:
    done = run_verify(at("certified").folder.path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Everything holds." in done.stdout


@pytest.mark.reduced(cases=3)
@pytest.mark.parametrize(
    "name", ["certificate.json", LEDGER, "report.html", "target/0.sealed", "audit.toml"]
)
def test_the_command_line_names_a_changed_file_and_exits_with_5(at: At, name: str) -> None:
    audit = at("certified")
    place = audit.folder / name
    content = place.read_bytes()
    place.write_bytes(flipped(content, len(content) // 2, 0x01))
    done = run_verify(audit.folder.path)
    assert done.returncode == 5, done.stdout + done.stderr
    bad = [line for line in done.stdout.splitlines() if line.startswith("BAD")]
    assert any(name in line for line in bad), done.stdout
    assert "Traceback" not in done.stderr


def test_the_command_line_gives_its_findings_as_json(at: At) -> None:
    audit = at("certified")
    (audit.folder / "evidence.json").unlink()
    (audit.folder / "notes.txt").write_text("mine")
    done = run_verify(audit.folder.path, "--json")
    assert done.returncode == 5
    found = json.loads(done.stdout)
    assert found["good"] is False
    assert {"place": "evidence.json", "problem": "is missing"} in found["findings"]
    assert found["unknown"] == ["notes.txt"]


def cut(audit: Audit, entries: int) -> None:
    """Do what anybody can: cut the last entries, and delete what they vouched for."""
    place = audit.folder / LEDGER
    place.write_bytes(b"".join(place.read_bytes().splitlines(keepends=True)[:-entries]))
    gone = REPORTS if entries == 1 else (*REPORTS, EVIDENCE, CERTIFICATE)
    for name in gone:
        (audit.folder / name).unlink()


def test_a_cut_ledger_is_found_by_a_head_that_was_noted(at: At) -> None:
    audit = at("certified")
    arguments = ["verify", str(audit.folder.path)]
    certified = audit.journal().ledger.head
    shown = CliRunner().invoke(app, [*arguments, "--head", certified])
    assert shown.exit_code == 0, shown.output
    assert f"Ledger head {certified}, 6 entries" in shown.output
    assert "The noted head is the head." in shown.output
    told = CliRunner().invoke(
        app, ["deviate", *arguments[1:], "--home", str(audit.home.root), "--reason", "we looked"]
    )
    noted = audit.journal().ledger.head
    assert f"Ledger head {noted}\n" in told.output
    shown = CliRunner().invoke(app, [*arguments, "--head", certified])
    assert shown.exit_code == 0, shown.output
    assert "The noted head is entry 6 of 7; 1 entry was added since." in shown.output
    cut(audit, 1)
    assert audit.verify().good  # the folder alone cannot tell
    shown = CliRunner().invoke(app, [*arguments, "--head", noted])
    assert shown.exit_code == 5
    assert f"BAD  {LEDGER}: the noted head {noted[:16]}... is none of its 6 entries" in shown.output
    assert "note report.md: is missing, and the audit is certified" in shown.output


def test_all_that_followed_the_opening_can_be_cut_and_the_head_shows_it(at: At) -> None:
    audit = at("certified")
    noted = audit.journal().ledger.head
    cut(audit, 2)
    assert audit.verify().good
    found = audit.verify(head=noted)
    assert [finding.place for finding in found.findings] == [LEDGER]
    assert found.to_dict()["noted_head"] is None


@pytest.mark.parametrize("head", ["", "0" * 63, "G" * 64])
def test_a_head_that_is_no_digest_is_no_head(head: str) -> None:
    with pytest.raises(RegistryError, match="64 hexadecimal digits"):
        Scope(head=head)


def test_reports_that_are_missing_are_said_and_not_said_to_be_built_anew(at: At) -> None:
    audit = at("certified")
    assert audit.verify().absent == []
    for name in REPORTS[1:]:
        (audit.folder / name).unlink()
    found = audit.verify()
    assert found.absent == list(REPORTS[1:])
    assert "report: built anew, byte by byte" in found.checked  # the one that is there
    (audit.folder / REPORTS[0]).unlink()
    found = audit.verify()
    assert found.good
    assert found.absent == list(REPORTS)
    assert "report: built anew, byte by byte" not in found.checked


def test_files_are_not_ok_where_one_was_changed(at: At) -> None:
    audit = at("sealed")
    assert "files: every recorded byte" in audit.verify().checked
    place = audit.folder / "development" / "0.training.parquet"
    place.write_bytes(place.read_bytes() + b".")
    found = audit.verify()
    assert [finding.place for finding in found.findings] == ["development/0.training.parquet"]
    assert "files: every recorded byte" not in found.checked


@pytest.mark.parametrize(
    ("recorded", "follows"),
    [(True, 1), (1, True), (0.0, False), (False, 0), ("1", 1), (None, False)],
)
def test_a_record_agrees_only_with_what_json_writes_alike(
    recorded: object, follows: object
) -> None:
    with pytest.raises(SealError, match="the record, holds, 0 does not follow"):
        agree({"holds": [recorded]}, {"holds": [follows]}, "the record")
    agree({"holds": [recorded]}, {"holds": (recorded,)}, "the record")
    agree(1, 1.0, "one number, which JSON writes in one way")
