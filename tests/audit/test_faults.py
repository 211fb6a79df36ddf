"""Each fault is one clear message and its exit code, and the audit goes on once it is mended."""

from __future__ import annotations

import errno
import json
import os
import sqlite3
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from proxyguard.audit.audit import Audit
from proxyguard.audit.jobs import forbidden_paths
from proxyguard.audit.status import DRAWING
from proxyguard.cli import main, show
from proxyguard.documents.canonical import canonical_bytes, digest
from proxyguard.documents.ledger import Amended, read_body
from proxyguard.documents.releases import ReleaseManifest
from proxyguard.errors import (
    DiskError,
    DrawError,
    KeyMissing,
    RegistryError,
    SealError,
    TableError,
    UnansweredDraw,
)
from proxyguard.seal import lineage, storage
from proxyguard.seal.journal import NAME, writing
from proxyguard.seal.ledger import Stage
from proxyguard.seal.sealed_file import SealedFile

At = Callable[[str], Audit]
Make = Callable[..., Audit]

DECLARATION = """\
format = 1
name = "faulty"
purpose = "What happens when something breaks?"

[target]
table = "{table}"
reserve = {{ rows = 60, seed = 11 }}
outcome = "label"
positive = "yes"

[development]
validation = {{ fraction = "0.25", stratify = true, seed = 12 }}

[procedure]
library = ["fixed_logistic"]

[[requirement]]
name = "Brier risk"
loss = "brier"
form = "absolute"
limit = {{ source_validation_plus = "0.10", round_up = "0.001" }}

[[mechanism]]
name = "odd"
draws = 3
seeds = {{ first = 100 }}
{mechanism}

[claim]
reliability_target = "0.6"
"""

# A generator of a user's own, which misbehaves for seed 101 as long as its flag is there.
ODD = """\
import os
import signal
import time


class Odd:
    def __init__(self, fault, flag=None, paths=()):
        self._fault, self._flag, self._paths = fault, flag, paths

    def describe(self):
        return {"fault": self._fault}

    def prepare(self, source, rng):
        self._source = source

    def draw(self, seed):
        if int(seed) == 101 and (self._flag is None or os.path.exists(self._flag)):
            if self._fault == "dies":
                os.kill(os.getpid(), signal.SIGKILL)
            if self._fault == "raises":
                raise RuntimeError("no luck today")
            if self._fault == "sleeps":
                time.sleep(600)
        if self._fault == "dies" and self._flag and os.path.exists(self._flag + "s"):
            raise RuntimeError("no luck anywhere")
        if self._fault == "reads":
            with open(self._paths[int(seed) - 100], "rb") as file:
                file.read()
        number = 0 if self._fault == "ignores" else int(seed)
        return self._source.sample(frac=1.0, replace=True, random_state=number)
"""


def small_table(*, rows: int = 160) -> pd.DataFrame:
    rng = np.random.default_rng(1)
    x = rng.normal(size=(rows, 2)).round(4)
    label = np.where(x[:, 0] + 0.5 * x[:, 1] + 0.7 * rng.normal(size=rows) > 0, "yes", "no")
    return pd.DataFrame({"first": x[:, 0], "second": x[:, 1], "label": label})


@pytest.fixture
def make(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Make:
    """Return a new audit of a small table whose mechanism has these lines."""
    code = tmp_path / "code"
    code.mkdir()
    (code / "odd_generators.py").write_text(ODD)
    monkeypatch.syspath_prepend(str(code))
    # Drawing processes find it through the environment.
    known = os.environ.get("PYTHONPATH")
    paths = [str(code)] if known is None else [str(code), known]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(paths))

    def new(mechanism: str, *, table: str = "table.csv") -> Audit:
        data = tmp_path / "data"
        data.mkdir(exist_ok=True)
        if table.endswith(".csv"):
            small_table().to_csv(data / table, index=False)
        else:
            small_table().to_parquet(data / table)
        audit = Audit(tmp_path / "audit", home=tmp_path / "home", data=[data], workers=1)
        audit.init(DECLARATION.format(mechanism=mechanism, table=table))
        return audit

    return new


def odd(fault: str, *rest: str, **options: object) -> str:
    given = ", ".join(f'{k} = "{v}"' for k, v in {"fault": fault, **options}.items())
    return "\n".join(['generator = "odd_generators:Odd"', f"options = {{ {given} }}", *rest])


@pytest.fixture
def command(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., tuple[int, str]]:
    """Return a verb's exit code and what it said to a person who has no use for a traceback."""

    def run(verb: str, audit: Audit, *rest: str) -> tuple[int, str]:
        arguments = ["proxyguard", verb, str(audit.folder.path)]
        if verb not in ("verify", "status", "log"):
            root = audit.folder.path.parent
            arguments += ["--home", str(root / "home"), "--data", str(root / "data")]
        if verb in ("draw", "open", "run"):
            arguments += ["--workers", "1"]
        monkeypatch.setattr(sys, "argv", [*arguments, *rest])
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            main.main()
        said = capsys.readouterr()
        code = ended.value.code
        assert isinstance(code, int)
        assert "Traceback" not in said.err
        return code, said.err + (said.out if verb == "verify" else "")

    return run


Command = Callable[..., tuple[int, str]]


def contents(audit: Audit) -> dict[Path, bytes]:
    return {p: p.read_bytes() for p in audit.folder.path.rglob("*") if p.is_file()}


def finish(audit: Audit) -> dict[str, Any]:
    """Go on to the end; everything holds then."""
    certificate = audit.run().to_dict()
    assert certificate is not None
    found = audit.verify()
    assert found.good, found.findings
    assert found.unknown == []
    return certificate


def breaking(name: str, number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a system call of `storage` fail, as a broken disk does."""

    def fail(*args: Any, **options: Any) -> Any:
        if name == "open" and not args[1] & os.O_WRONLY:
            return os.open(*args, **options)  # reading still works
        raise OSError(number, os.strerror(number))

    fake = type("os", (), {key: getattr(os, key) for key in dir(os)})
    setattr(fake, name, staticmethod(fail))
    monkeypatch.setattr(storage, "os", fake)


STEPS = [("new", "seal"), ("sealed", "register"), ("registered", "draw"), ("drawn", "open")]
RECORDED = {
    "seal": Stage.SEALED, "register": Stage.REGISTERED, "draw": Stage.DRAWN,
    "open": Stage.CERTIFIED,
}  # fmt: skip


# Folders without write permission do not stop root, who runs tests in containers.
FULL = ("fsync", errno.ENOSPC, "No space left on device")
READ_ONLY = ("open", errno.EROFS, "Read-only file system")
BROKEN_DISK = ("replace", errno.EIO, "Input/output error")


@pytest.mark.reduced(cases=5)
@pytest.mark.parametrize(
    ("step", "fault"),
    [
        *((step, fault) for step in STEPS for fault in (FULL, READ_ONLY) if step[1] != "draw"),
        (("registered", "draw"), FULL),  # starts processes, so one fault is enough
        (("drawn", "open"), BROKEN_DISK),
    ],
    ids=lambda one: str(one[1] if len(one) == 2 else one[2]),
)
def test_a_disk_that_fails_is_said_and_nothing_is_recorded(
    at: At,
    command: Command,
    monkeypatch: pytest.MonkeyPatch,
    step: tuple[str, str],
    fault: tuple[str, int, str],
) -> None:
    (stage, verb), (call, number, words) = step, fault
    audit = at(stage)
    before = (audit.folder / NAME).read_bytes() if stage != "new" else b""
    with monkeypatch.context() as broken:
        breaking(call, number, broken)
        code, said = command(verb, audit)
    assert code == show.Exit.ERROR
    assert words in said
    assert "mend the disk and run the step again" in said
    found = audit.folder / NAME
    assert (found.read_bytes() if found.exists() else b"") == before
    getattr(audit, verb)()
    assert audit.journal().ledger.entries[-1].stage is RECORDED[verb]
    assert not list(audit.folder.path.rglob(f"*{storage.LEFTOVER}"))
    assert audit.verify().good


def test_a_disk_that_fills_while_evidence_is_written_opens_the_target_once(
    at: At, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    audit = at("drawn")
    real = storage.write_inside

    def full(folder: Path, name: str, content: bytes) -> None:
        if name == "evidence.json":
            breaking("fsync", errno.ENOSPC, monkeypatch)
        real(folder, name, content)

    with monkeypatch.context() as broken:
        broken.setattr("proxyguard.seal.storage.write_inside", full)
        code, said = command("open", audit)
    assert (code, "evidence.json could not be written" in said) == (show.Exit.ERROR, True)
    assert audit.journal().ledger.has(Stage.OPENED)
    assert audit.status().next == "open"
    monkeypatch.setattr(storage, "os", os)
    finish(audit)
    assert len(audit.journal().ledger.find(Stage.OPENED)) == 1


def test_a_key_file_that_is_away_is_missed_before_the_target_is_opened(
    at: At, command: Command
) -> None:
    audit = at("drawn")
    (key,) = (audit.home.root / "targets").glob("*.key")
    away = key.rename(key.with_suffix(".away"))
    with pytest.raises(KeyMissing, match="there is no key at"):
        audit.open()
    assert command("open", audit)[0] == show.Exit.ERROR
    assert not audit.journal().ledger.has(Stage.OPENED)
    away.rename(key)
    finish(audit)


def test_a_key_file_that_was_moved_can_be_named(at: At, tmp_path: Path, command: Command) -> None:
    audit = at("drawn")
    (key,) = (audit.home.root / "targets").glob("*.key")
    moved = key.rename(tmp_path / "mine.key")
    code, _ = command("open", audit, "--key-file", str(moved))
    assert code == show.verdict_code(audit.certificate().decisions.values())


@pytest.mark.reduced(cases=2)
@pytest.mark.parametrize("content", ["00" * 32 + "\n", "00" * 31 + "\n", "no key at all\n", ""])
def test_a_wrong_key_file_opens_nothing_and_the_right_one_still_does(
    at: At, command: Command, content: str
) -> None:
    audit = at("drawn")
    (key,) = (audit.home.root / "targets").glob("*.key")
    right = key.read_text()
    key.write_text(content)
    with pytest.raises(KeyMissing, match=r"does not open the target|is no key file"):
        audit.open()
    assert command("open", audit)[0] == show.Exit.ERROR
    assert not (audit.folder / "evidence.json").exists()
    key.write_text(right)
    finish(audit)
    assert len(audit.journal().ledger.find(Stage.OPENED)) == 1


@pytest.mark.parametrize(("stage", "verb"), STEPS[1:])
def test_a_signing_key_that_is_away_or_another_stops_every_step(
    at: At, command: Command, stage: str, verb: str
) -> None:
    audit = at(stage)
    before = contents(audit)
    away = audit.home.signing_path.rename(audit.home.root / "signing.away")
    code, said = command(verb, audit)
    assert (code, "there is no key at" in said) == (show.Exit.ERROR, True)
    assert contents(audit) == before
    audit.home.make_signing_key()
    with pytest.raises(KeyMissing, match=r"this audit is signed by .*; use the key made at init"):
        getattr(audit, verb)()
    code, said = command(verb, audit)
    assert (code, "use the key made at init" in said) == (show.Exit.ERROR, True)
    assert (audit.folder / NAME).read_bytes() == before[audit.folder / NAME]
    away.replace(audit.home.signing_path)
    getattr(audit, verb)()
    assert audit.verify().good


def test_a_table_that_was_cut_is_refused_at_seal(make: Make, command: Command) -> None:
    audit = make('generator = "bootstrap"', table="table.parquet")
    place = audit.folder.path.parent / "data" / "table.parquet"
    whole = place.read_bytes()
    place.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(TableError, match=r"table\.parquet"):
        audit.seal()
    assert command("seal", audit)[0] == show.Exit.ERROR
    assert not (audit.folder / NAME).exists()
    place.write_bytes(whole)
    audit.seal()
    assert audit.verify().good


@pytest.mark.parametrize("part", ["target", "development"])
def test_a_label_outside_the_domain_is_refused_at_seal(
    make: Make, command: Command, part: str
) -> None:
    audit = make('generator = "bootstrap"')
    place = audit.folder.path.parent / "data" / "table.csv"
    whole = place.read_text()
    lines = whole.splitlines()
    # The rows that a registered seed sets aside, as `reserve_rows` draws them.
    chosen = np.random.default_rng(11).choice(160, size=60, replace=False)
    row = int(chosen[0]) if part == "target" else int(np.setdiff1d(np.arange(160), chosen)[0])
    lines[1 + row] = lines[1 + row].rpartition(",")[0] + ",perhaps"
    place.write_text("\n".join(lines) + "\n")
    # A label of development is shown, and of a target record the row alone.
    words = f"target, row {row + 1}" if part == "target" else "development: 'label'.*perhaps"
    with pytest.raises(TableError, match=words) as refused:
        audit.seal()
    assert ("perhaps" in str(refused.value)) is (part == "development")
    assert command("seal", audit)[0] == show.Exit.ERROR
    assert not (audit.folder / NAME).exists()
    place.write_text(whole)
    audit.seal()
    assert audit.verify().good


FILES = 'generator = "files"\noptions = { folder = "releases", first = 100 }'


def write_releases(audit: Audit) -> list[Path]:
    """Write three releases as files; return them."""
    folder = audit.folder.path.parent / "data" / "releases"
    folder.mkdir()
    for i in range(3):
        sample = small_table().sample(n=100, random_state=i, replace=True)
        sample.to_parquet(folder / f"{i}.parquet", index=False)
    return sorted(folder.iterdir())


def spoil(place: Path, fault: str) -> str:
    """Spoil a release's file; return the words that say so."""
    whole, frame = place.read_bytes(), pd.read_parquet(place)
    if fault == "cut":
        place.write_bytes(whole[: len(whole) // 2])
        return "1.parquet"
    if fault == "column":
        frame.drop(columns="second").to_parquet(place, index=False)
        return '1.parquet lacks the columns "second" of the source'
    frame["first"] = frame["first"].astype(str)
    frame.loc[3, "first"] = "much"
    frame.to_parquet(place, index=False)
    return "column 'first' holds numbers, and releases/1.parquet, row 4 has none that can be read"


@pytest.mark.whole
def test_one_bad_file_among_releases_stops_the_draw_and_names_it(
    make: Make, command: Command
) -> None:
    audit = make(f'{FILES}\non_failure = "stop"')
    bad = write_releases(audit)[1]
    whole = bad.read_bytes()
    audit.seal()
    audit.register()
    for fault in ("cut", "column", "value"):
        words = spoil(bad, fault)
        code, said = command("draw", audit)
        assert (code, "1.parquet has digest" in said) == (show.Exit.ERROR, True), said
        audit.amend("the file as it is now")
        code, said = command("draw", audit)
        assert (code, words in said) == (show.Exit.ERROR, True), said
        assert not audit.journal().ledger.has(Stage.DRAWN)
        bad.write_bytes(whole)
    audit.amend("the file as it was")
    assert finish(audit)["failed"] == {}


def test_a_draw_whose_process_is_killed_loses_nothing(
    make: Make, command: Command, tmp_path: Path
) -> None:
    flag = tmp_path / "deadly"
    flag.touch()
    audit = make(odd("dies", flag=flag))
    audit.seal()
    audit.register()
    with pytest.raises(DrawError, match=r"drew seed 101 was killed by signal 9.*run draw again"):
        audit.draw()
    kept = {p.name: p.read_bytes() for p in (audit.folder / "draws").rglob("*.json")}
    assert list(kept) == ["100.json"]
    stored = {p: p.stat().st_mtime_ns for p in (audit.folder / "store").rglob("*") if p.is_file()}
    flag.unlink()
    code, _ = command("draw", audit)
    assert code == show.Exit.DONE
    manifest = json.loads((audit.folder / "releases.json").read_bytes())
    first = manifest["members"]["target"]["odd"]["draws"][0]
    assert canonical_bytes(first) == kept["100.json"]
    assert {p: p.stat().st_mtime_ns for p in stored} == stored  # nothing was drawn twice
    assert finish(audit)["failed"] == {}


def statuses(audit: Audit) -> list[str]:
    manifest = json.loads((audit.folder / "releases.json").read_bytes())
    draws = manifest["members"]["target"]["odd"]["draws"]
    # Nothing in the preparation was random, and draws that failed say so too.
    assert [draw["prepared_at_random"] for draw in draws] == [False] * len(draws)
    return [draw["status"] for draw in draws]


def assert_worst(audit: Audit, failed: int) -> None:
    """See that a failed draw counts with every loss at its upper bound, which is 1."""
    evidence = json.loads((audit.folder / "evidence.json").read_bytes())["groups"]["odd"]
    (column,) = evidence["columns"]
    assert column["mean"][failed] == 1.0
    assert column["variance"][failed] == 0.0
    assert all(mean < 0.5 for i, mean in enumerate(column["mean"]) if i != failed)
    assert evidence["derived"]["pvalues"][failed] == [1.0]


def test_a_draw_that_raises_counts_as_the_worst_release(make: Make) -> None:
    audit = make(odd("raises", 'on_failure = "worst_loss"'))
    certificate = finish(audit)
    assert statuses(audit) == ["drawn", "failed", "drawn"]
    (failure,) = certificate["failed"]["odd"]
    assert (failure["seed"], failure["status"]) == (101, "failed")
    assert failure["error"].startswith("RuntimeError: no luck today (in odd_generators.py, line ")
    assert_worst(audit, 1)
    assert "no luck today" in (audit.folder / "report.md").read_text()


@pytest.mark.whole
def test_a_draw_that_raises_stops_an_audit_that_says_so(
    make: Make, command: Command, tmp_path: Path
) -> None:
    flag = tmp_path / "unlucky"
    flag.touch()
    audit = make(odd("raises", 'on_failure = "stop"', flag=flag))
    audit.seal()
    audit.register()
    code, said = command("draw", audit)
    assert (code, "odd, seed 101: RuntimeError: no luck today" in said) == (
        show.Exit.ERROR,
        True,
    ), said
    assert not audit.journal().ledger.has(Stage.DRAWN)
    flag.unlink()
    assert finish(audit)["failed"] == {}


@pytest.mark.reduced(cases=1)
@pytest.mark.parametrize(("fault", "line"), [("raises", 'on_failure = "stop"'), ("dies", "")])
def test_a_draw_that_gave_nothing_is_remembered_when_other_seeds_are_registered(
    make: Make, tmp_path: Path, fault: str, line: str
) -> None:
    flag = tmp_path / "unlucky"
    flag.touch()
    audit = make(odd(fault, line, flag=flag))
    audit.seal()
    audit.register()
    with pytest.raises(UnansweredDraw):
        audit.draw()
    kept = len(list(audit.folder.path.glob("draws/*/*.json")))
    audit.amend("other seeds")
    (amended,) = audit.journal().ledger.find(Amended)
    assert amended.body.pending == kept + 1  # which costs the guarantee, as draws that are kept do


def remembered(audit: Audit) -> list[str]:
    kept = (path.name for path in (audit.folder / "draws").glob("*/*"))
    return sorted(name for name in kept if name != DRAWING)  # which tells how far it is


@pytest.mark.parametrize("killed", [False, True])
def test_draws_that_all_fail_forget_no_draw_that_was_dropped(
    make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, killed: bool
) -> None:
    flag = tmp_path / "flag"
    flag.touch()
    audit = make(odd("dies", 'on_failure = "worst_loss"', flag=flag))
    audit.seal()
    audit.register()
    with pytest.raises(UnansweredDraw):
        audit.draw()
    assert remembered(audit) == ["100.json", "101.ended"]
    flag = flag.rename(tmp_path / "flags")
    real = Path.unlink

    def unlink(path: Path, missing_ok: bool = False) -> None:
        if killed and path.name == "101.json":
            raise KeyboardInterrupt
        real(path, missing_ok)

    with monkeypatch.context() as patched:
        patched.setattr(Path, "unlink", unlink)
        with pytest.raises(KeyboardInterrupt if killed else DrawError):
            audit.draw(again=[("odd", 100)])
    left = ["101.json", "102.json", "anew"] if killed else []
    assert remembered(audit) == sorted(["100.dropped", "101.ended", *left])
    flag.unlink()
    audit.draw()
    assert statuses(audit) == ["drawn"] * 3  # and not the failures that the kill left
    manifest = audit.folder.document(ReleaseManifest, "releases.json")
    assert [(again.seed, again.same) for again in manifest.again] == [(100, True)]


def test_a_draw_that_takes_too_long_counts_as_the_worst_release(make: Make) -> None:
    audit = make(odd("sleeps", "timeout = 2"))
    certificate = finish(audit)
    assert statuses(audit) == ["drawn", "timeout", "drawn"]
    assert certificate["failed"] == {
        "odd": [{"seed": 101, "status": "timeout", "error": "more than 2 s"}]
    }
    assert_worst(audit, 1)


def test_a_generator_that_ignores_its_seed_is_noticed_unless_it_says_so(
    make: Make, command: Command
) -> None:
    audit = make(odd("ignores"))
    audit.seal()
    audit.register()
    with pytest.raises(DrawError, match="seeds 100 and 101 gave the same release"):
        audit.draw()
    code, said = command("run", audit)  # the draws are kept, and are refused again
    assert (code, "Does the generator use its seed?" in said) == (show.Exit.ERROR, True)
    assert not audit.journal().ledger.has(Stage.DRAWN)
    place = audit.folder / "audit.toml"
    place.write_text(place.read_text().replace("draws = 3\n", "draws = 3\ndeterministic = true\n"))
    audit.amend("the mechanism has no randomness")
    finish(audit)
    assert statuses(audit) == ["drawn"] * 3


def test_a_draw_cannot_read_what_it_must_not_know(make: Make, tmp_path: Path) -> None:
    places = {
        100: tmp_path / "data" / "table.csv",
        101: tmp_path / "audit" / "target" / "0.sealed",
        102: tmp_path / "home" / "signing.pem",
    }
    named = ", ".join(f'"{place}"' for place in places.values())
    audit = make(odd("reads").replace("}", f", paths = [{named}] }}"))
    with pytest.raises(DrawError, match=r"all 3 draws failed, .*a draw may not read"):
        finish(audit)
    assert not audit.journal().ledger.has(Stage.DRAWN)


def test_both_spellings_of_a_declared_table_are_kept_from_draws(make: Make, tmp_path: Path) -> None:
    audit = make(odd("ignores"))
    (tmp_path / "data" / "table.csv.gz").write_bytes(b"")
    (member,) = audit.folder.declaration().members
    names = {Path(path).name for path in forbidden_paths(audit.place, member)}
    assert {"table.csv", "table.csv.gz"} <= names


def rewrite(audit: Audit, change: Callable[[Stage, dict[str, Any]], None]) -> None:
    """Write the ledger anew with changed bodies, signed by the audit's own key."""
    entries = audit.journal().ledger.entries
    (audit.folder / NAME).unlink()
    with writing(audit.folder.path) as journal:
        for entry in entries:
            body = entry.body.to_dict()
            change(entry.stage, body)
            journal.record(read_body(entry.stage, body, "changed"), audit.home.signing_key())


def test_a_ledger_of_another_format_is_refused(at: At, command: Command) -> None:
    audit = at("sealed")
    value = json.loads((audit.folder / NAME).read_bytes())
    value["entry"]["format"] = 3
    value["signature"] = audit.home.signing_key().sign(canonical_bytes(value["entry"]))
    (audit.folder / NAME).write_bytes(canonical_bytes(value) + b"\n")
    with pytest.raises(SealError, match="has format 3; this version reads 1"):
        audit.register()
    assert command("register", audit)[0] == show.Exit.BROKEN
    code, said = command("verify", audit)
    assert (code, "format: has format 3" in said) == (show.Exit.BROKEN, True)


def test_a_registry_of_another_format_is_refused(at: At, command: Command) -> None:
    audit = at("registered")
    place = audit.folder / "registry" / "0.json"
    value = {**json.loads(place.read_bytes()), "format": 2}
    place.write_bytes(canonical_bytes(value))

    def change(stage: Stage, body: dict[str, Any]) -> None:
        if stage is Stage.REGISTERED:
            body["declaration"] = digest(value)
            body["files"]["registry/0.json"] = audit.folder.sha256("registry/0.json")

    rewrite(audit, change)
    with pytest.raises(SealError, match=r"registry/0\.json: format: has format 2; this version"):
        audit.draw()
    assert command("draw", audit)[0] == show.Exit.BROKEN
    code, said = command("verify", audit)
    assert (code, "registry/0.json: format: has format 2" in said) == (show.Exit.BROKEN, True)


def test_releases_of_another_format_are_refused(at: At, command: Command) -> None:
    audit = at("drawn")
    place = audit.folder / "releases.json"
    place.write_bytes(canonical_bytes({**json.loads(place.read_bytes()), "format": 2}))

    def change(stage: Stage, body: dict[str, Any]) -> None:
        if stage is Stage.DRAWN:
            body["releases"] = body["files"]["releases.json"] = audit.folder.sha256(place.name)

    rewrite(audit, change)
    with pytest.raises(SealError, match=r"releases\.json: format: has format 2; this version"):
        audit.open()
    assert command("open", audit)[0] == show.Exit.BROKEN
    assert not audit.journal().ledger.has(Stage.OPENED)


def test_a_sealed_file_of_another_format_is_refused(at: At, command: Command) -> None:
    audit = at("drawn")
    place = audit.folder / "target" / "0.sealed"
    header, _, rest = place.read_bytes().partition(b"\n")
    place.write_bytes(canonical_bytes({**json.loads(header), "format": 2}) + b"\n" + rest)
    with pytest.raises(SealError, match=r"0\.sealed: format: has format 2; this version reads 1"):
        SealedFile(place)

    def change(stage: Stage, body: dict[str, Any]) -> None:
        if stage is Stage.SEALED:
            body["files"]["target/0.sealed"] = audit.folder.sha256("target/0.sealed")

    rewrite(audit, change)
    with pytest.raises(SealError, match=r"0\.sealed: format: has format 2"):
        audit.open()
    assert command("open", audit)[0] == show.Exit.BROKEN


def test_a_declaration_of_another_format_is_refused(at: At, command: Command) -> None:
    audit = at("new")
    place = audit.folder / "audit.toml"
    text = place.read_text()
    place.write_text(text.replace("format = 1", "format = 2"))
    with pytest.raises(RegistryError, match="this version reads format = 1, found 2"):
        audit.seal()
    code, said = command("seal", audit)
    assert (code, "found 2" in said) == (show.Exit.ERROR, True)
    place.write_text(text)
    audit.seal()


def test_a_lineage_store_of_another_format_is_refused(at: At, command: Command) -> None:
    audit = at("drawn")
    path = audit.home.root / "lineage.sqlite"

    def say_format(number: int) -> None:
        base = sqlite3.connect(path)
        with base:
            base.execute("update store set format = ?", (number,))
        base.close()

    say_format(1)
    with pytest.raises(SealError, match=r"lineage\.sqlite has format 1; this version reads 2"):
        audit.open()
    code, said = command("open", audit)
    assert (code, "has format 1" in said) == (show.Exit.ERROR, True)
    assert not audit.journal().ledger.has(Stage.OPENED)
    say_format(lineage.STORE_FORMAT)
    finish(audit)


@pytest.mark.reduced(cases=3)
@pytest.mark.parametrize("fault", ["database is locked", "attempt to write a readonly database"])
@pytest.mark.parametrize(("stage", "verb"), [STEPS[0], STEPS[1], STEPS[3]])
def test_a_lineage_store_that_cannot_be_written_is_a_fault_of_the_disk(
    at: At, command: Command, monkeypatch: pytest.MonkeyPatch, stage: str, verb: str, fault: str
) -> None:
    audit = at(stage)
    _ = audit.home.lineage  # the store is there
    before = audit.journal().ledger.head

    def connect(path: Path, *, timeout: float) -> sqlite3.Connection:
        assert timeout >= 10.0  # another audit may be at its store for a while
        base = sqlite3.connect(path, timeout=0.0)
        base.execute(f"pragma query_only = {int('readonly' in fault)}")
        return base

    errors = {"DatabaseError": sqlite3.DatabaseError, "OperationalError": sqlite3.OperationalError}
    with (
        monkeypatch.context() as broken,
        closing(sqlite3.connect(audit.home.root / "lineage.sqlite")) as other,
    ):
        other.execute("pragma user_version")
        if "locked" in fault:
            other.execute("begin exclusive")
        broken.setattr(lineage, "sqlite3", SimpleNamespace(connect=connect, **errors))
        with pytest.raises(DiskError, match=f"lineage.sqlite is not usable: {fault}"):
            getattr(audit, verb)()
        code, said = command(verb, audit)
    assert (code, fault in said) == (show.Exit.ERROR, True)
    assert audit.journal().ledger.head == before
    getattr(audit, verb)()
    assert audit.journal().ledger.entries[-1].stage is RECORDED[verb]
    found = audit.verify()
    assert (found.findings, found.unknown) == ([], [])


def test_a_lineage_store_that_is_none_is_said_so(at: At, command: Command) -> None:
    audit = at("drawn")
    path = audit.home.root / "lineage.sqlite"
    whole = path.read_bytes()
    path.write_bytes(b"no database" * 100)
    code, said = command("open", audit)
    assert (code, "cannot be used: file is not a database" in said) == (show.Exit.ERROR, True)
    assert not audit.journal().ledger.has(Stage.OPENED)
    path.write_bytes(whole)
    finish(audit)
