"""A kill at any write loses nothing: the resumed audit is the same audit, byte for byte."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import sqlite3
import stat
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial
from operator import itemgetter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from conformance.draws import draw_here as draw_in_this_process
from proxyguard.audit import draw as drawing
from proxyguard.audit import stated
from proxyguard.audit.audit import Audit
from proxyguard.draw import pool
from proxyguard.draw.job import DrawJob
from proxyguard.draw.messages import DrawResult
from proxyguard.seal import lineage, storage
from proxyguard.seal import storage as entropy
from proxyguard.seal.ledger import Stage
from proxyguard.seal.storage import LEFTOVER
from proxyguard.tables.files import read_table_bytes

DECLARATION = """\
format = 1
name = "tiny"
purpose = "Does this audit survive?"

[target]
table = "table.csv"
reserve = { rows = 60, seed = 11 }
outcome = "label"
positive = "yes"

[development]
validation = { fraction = "0.25", stratify = true, seed = 12 }

[procedure]
library = ["fixed_logistic"]

[[requirement]]
name = "Brier risk"
loss = "brier"
form = "absolute"
limit = { source_validation_plus = "0.10", round_up = "0.001" }

[[mechanism]]
name = "bootstrap"
generator = "bootstrap"
draws = 3
seeds = { first = 100 }

[claim]
reliability_target = "0.6"
"""

STEPS = ("init", "seal", "register", "draw", "open")


def write_table(path: Path, *, rows: int = 160) -> None:
    rng = np.random.default_rng(1)
    x = rng.normal(size=(rows, 2)).round(4)
    label = np.where(x[:, 0] + 0.5 * x[:, 1] + 0.7 * rng.normal(size=rows) > 0, "yes", "no")
    lines = ["first,second,label"]
    lines += [f"{a},{b},{c}" for (a, b), c in zip(x.tolist(), label.tolist(), strict=True)]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(lines) + "\n")


def audit_in(root: Path) -> Audit:
    return Audit(root / "audit", home=root / "home", data=[root / "data"], workers=1)


def contents(folder: Path) -> dict[str, bytes]:
    """Return every file by its name."""
    return {
        place.relative_to(folder).as_posix(): place.read_bytes()
        for place in sorted(folder.rglob("*"))
        if place.is_file()
    }


def remembered(root: Path) -> dict[str, Any]:
    """Return the home: every key, and every row of the lineage store."""
    found: dict[str, Any] = {
        name: content
        for name, content in contents(root / "home").items()
        if not name.startswith("lineage.sqlite")
    }
    base = sqlite3.connect(root / "home" / "lineage.sqlite")
    try:
        for table in ("store", "audits", "roles", "openings"):
            found[table] = sorted(base.execute(f"select * from {table}").fetchall())
    finally:
        base.close()
    return found


class Killed(BaseException):
    """Stands for the end of the process: nothing below the test may catch it."""


class Trap:
    """Counts what reaches the disk; at one of these calls the process ends."""

    def __init__(self) -> None:
        self.seen: list[str] = []
        self._at: int | None = None

    def set(self, at: int | None) -> None:
        """Start counting anew, and end at call number ``at``, if there is one."""
        self.seen, self._at = [], at

    @property
    def dead(self) -> bool:
        """Whether the process has ended; whoever tidies up on the way out no longer does."""
        return self._at is not None and self._at < len(self.seen)

    def due(self, what: str) -> bool:
        """Count a call; return whether the process ends here, or has ended."""
        self.seen.append(what)
        return self.dead


class HalfWritten:
    """A file that a kill leaves with half of its bytes."""

    def __init__(self, file: Any, trap: Trap) -> None:
        self._file, self._trap = file, trap

    def __enter__(self) -> HalfWritten:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)

    def write(self, content: bytes) -> None:
        if self._trap.due("write"):
            self._file.write(content[: len(content) // 2])
            self._file.flush()
            raise Killed
        self._file.write(content)


def watch_storage(patch: pytest.MonkeyPatch, trap: Trap) -> None:
    """Count writes, renames, links, and the flush of the folder that comes after a rename."""

    def fdopen(*args: Any) -> HalfWritten:
        return HalfWritten(os.fdopen(*args), trap)

    def replace(*args: Any) -> None:
        if trap.due("rename"):
            raise Killed
        os.replace(*args)

    def fsync(handle: int) -> None:
        # The bytes stay in the cache of a system that goes on, so nothing is flushed here.
        if stat.S_ISDIR(os.fstat(handle).st_mode) and trap.due("renamed"):
            raise Killed

    def link(*args: Any) -> None:
        if trap.due("link"):
            raise Killed
        os.link(*args)
        if trap.due("linked"):
            raise Killed

    fake = type("os", (), {name: staticmethod(value) for name, value in vars(os).items()
                           if callable(value)})  # fmt: skip
    for name in (name for name in vars(os) if name.startswith("O_")):
        setattr(fake, name, getattr(os, name))
    for own in (fdopen, replace, fsync, link):
        setattr(fake, own.__name__, staticmethod(own))
    fake.supports_dir_fd = {fake.open}  # type: ignore[attr-defined] # as the real one has it
    patch.setattr(storage, "os", fake)


def watch_lineage(patch: pytest.MonkeyPatch, trap: Trap) -> None:
    """Count the transactions of the lineage store; a kill comes before the commit."""

    class Base(sqlite3.Connection):
        def __exit__(self, *why: Any) -> Any:
            if why[0] is None and self.in_transaction and trap.due("commit"):
                self.rollback()
                raise Killed
            return super().__exit__(*why)

    def connect(path: Path, *, timeout: float) -> sqlite3.Connection:
        base = sqlite3.connect(path, timeout=timeout, factory=Base)
        base.execute("pragma synchronous = off")
        return base

    fake = SimpleNamespace(
        connect=connect,
        DatabaseError=sqlite3.DatabaseError,
        OperationalError=sqlite3.OperationalError,
    )
    patch.setattr(lineage, "sqlite3", fake)


def watch_removals(patch: pytest.MonkeyPatch, trap: Trap) -> None:
    """Let the dead remove nothing on their way out."""
    remove = Path.unlink

    def unlink(path: Path, missing_ok: bool = False) -> None:
        if not trap.dead:
            remove(path, missing_ok)

    patch.setattr(Path, "unlink", unlink)


def watch_pending(patch: pytest.MonkeyPatch, trap: Trap) -> None:
    """Count the removal of pending draws; a kill comes in the middle of it."""

    def rmtree(place: Path, **options: Any) -> None:
        files = sorted(path for path in place.rglob("*") if path.is_file())
        if files and trap.due("remove"):
            for path in files[: len(files) // 2]:
                os.unlink(path)
            raise Killed
        shutil.rmtree(place, **options)

    patch.setattr(drawing, "shutil", SimpleNamespace(rmtree=rmtree))


def draw_here(
    job: DrawJob,
    seeds: Sequence[int],
    *,
    pool: pool.DrawingPool,
    workers: int,
    timeout: float | None,
    keep: Callable[[DrawResult], None],
    check: Callable[[], None],
) -> None:
    """Draw as `draw_all` does, in this process.

    Starting a process takes two seconds, and this file draws in two hundred audits. That
    processes draw the same bytes is tested below.
    """
    draw_in_this_process(job, seeds, keep=keep, check=check)


def constant_bytes(size: int) -> bytes:
    """Return the same bytes each time, so that what a killed run consumed makes no difference."""
    return hashlib.shake_256(b"fixed").digest(size)


@pytest.fixture(scope="module")
def trap() -> Iterator[Trap]:
    """Hold clock, keys, salts and nonces still, draw in this process, and count writes."""
    found = Trap()
    with pytest.MonkeyPatch.context() as patch:
        still = {
            entropy.random_bytes: constant_bytes,
            entropy.now: lambda: "2026-08-01T00:00:00Z",
        }
        for name, module in list(sys.modules.items()):
            if name.startswith("proxyguard."):
                for own in ("random_bytes", "now"):
                    if getattr(module, own, None) in still:
                        patch.setattr(module, own, still[getattr(module, own)])
        patch.setattr(drawing, "draw_all", draw_here)
        # This reads the metadata of a dozen installed packages, each time.
        patch.setattr(stated, "installed_version", cache(stated.installed_version))
        watch_storage(patch, found)
        watch_removals(patch, found)
        watch_lineage(patch, found)
        watch_pending(patch, found)
        yield found


def take(audit: Audit, step: str) -> None:
    audit.init(DECLARATION) if step == "init" else getattr(audit, step)()


def resume(audit: Audit) -> None:
    """Go on as a person would: init again where it did not get that far, then run."""
    if not (audit.folder / "audit.toml").exists():
        audit.init(DECLARATION)
    audit.run()


def until(root: Path, step: str, declaration: str = DECLARATION) -> Audit:
    """Return a new audit that has taken every step before this one."""
    write_table(root / "data" / "table.csv")
    audit = audit_in(root)
    audit.init(declaration)
    for one in STEPS[1 : STEPS.index(step)]:
        take(audit, one)
    return audit


def kill(trap: Trap, at: int, step: Callable[[], object]) -> None:
    """Take a step and die in it."""
    trap.set(at)
    with pytest.raises(Killed):
        step()
    trap.set(None)


@pytest.fixture(scope="module")
def whole(trap: Trap, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An uninterrupted audit: a copy from before each step, and what it is in the end."""
    root = tmp_path_factory.mktemp("survival")
    work = root / "work"
    write_table(work / "data" / "table.csv")
    (work / "home").mkdir(mode=0o700)
    for step in STEPS:
        shutil.copytree(work, root / step)
        take(audit_in(work), step)
    return root


def calls_of(step: str, whole: Path, trap: Trap, scratch: Path) -> list[str]:
    """Return what one uninterrupted step does to the disk."""
    shutil.copytree(whole / step, scratch)
    trap.set(None)
    take(audit_in(scratch), step)
    return trap.seen


def test_every_step_has_its_writes_to_die_at(whole: Path, trap: Trap, tmp_path: Path) -> None:
    steps = {step: Counter(calls_of(step, whole, trap, tmp_path / step)) for step in STEPS}
    seen = sum(steps.values(), Counter[str]())
    assert min(counted["write"] for counted in steps.values()) >= 2
    assert seen["write"] == seen["rename"] >= 29
    assert seen["renamed"] == seen["rename"] + seen["link"]
    assert seen["link"] == seen["linked"] == 2  # the signing key, and that of the lineage store
    assert seen["remove"] == 1
    assert seen["commit"] >= 12
    assert seen.total() >= 103


@pytest.mark.parametrize("step", STEPS)
def test_a_kill_at_every_write_ends_in_the_same_audit(
    whole: Path, trap: Trap, tmp_path: Path, step: str, effort: Any
) -> None:
    expected, home = contents(whole / "work" / "audit"), remembered(whole / "work")
    calls = list(enumerate(calls_of(step, whole, trap, tmp_path / "scratch")))
    for at, call in effort.some(calls, reduced=1, kind=itemgetter(1)):
        root = tmp_path / str(at)
        # A run that is killed in this step has done the steps before it; they left these bytes.
        shutil.copytree(whole / step, root)
        audit = audit_in(root)
        kill(trap, at, partial(take, audit, step))
        assert audit.status().next in (*STEPS[STEPS.index(step) :][:2], "verify")
        resume(audit)
        assert contents(root / "audit") == expected, (at, call)
        found = remembered(root)
        if call == "linked":  # the key's first name is left, and both name the same file
            found = {name: one for name, one in found.items() if not name.endswith(LEFTOVER)}
        assert found == home, (at, call)
        shutil.rmtree(root)


def test_that_audit_is_a_good_one_and_opened_its_target_once(whole: Path) -> None:
    audit = audit_in(whole / "work")
    result = audit.verify(with_target=True)
    assert (result.findings, result.unknown) == ([], [])
    assert len(audit.journal().ledger.find(Stage.OPENED)) == 1
    assert len(remembered(whole / "work")["openings"]) == 1
    assert not list((whole / "work").rglob(f"*{LEFTOVER}"))


AMENDED = DECLARATION.replace(
    'generator = "bootstrap"', 'generator = "bootstrap"\noptions = { rows = 20 }'
)
KEPT = ("100.json", "101.json", "102.json")


def pending(audit: Audit) -> list[str]:
    return sorted(path.name for path in (audit.folder / "draws").rglob("*.json"))


def kill_after(draws: int, audit: Audit, trap: Trap) -> None:
    """Draw, and die once so many draws are kept."""
    # The mark of a step, then release, model and record: written, renamed, the folder flushed.
    calls = 3 + 3 * 3 * draws
    kill(trap, calls, audit.draw)
    assert pending(audit) == list(KEPT[:draws])


@pytest.mark.reduced(cases=2)
@pytest.mark.parametrize("draws", [1, 2, 3])
def test_draws_of_a_superseded_mechanism_are_not_taken_for_the_amended_one(
    whole: Path, trap: Trap, tmp_path: Path, draws: int
) -> None:
    root = tmp_path / "amended"
    shutil.copytree(whole / "draw", root)
    audit = audit_in(root)
    before = set(audit.folder.store.addresses())
    kill_after(draws, audit, trap)
    discarded = set(audit.folder.store.addresses()) - before
    (audit.folder / "audit.toml").write_text(AMENDED)
    audit.amend("smaller releases")
    drawn = audit.draw().to_dict()["members"]["target"]["bootstrap"]["draws"]
    assert [(one["seed"], one["rows"]) for one in drawn] == [(100, 20), (101, 20), (102, 20)]
    for one in drawn:
        assert len(read_table_bytes(audit.folder.store.get(one["release"]), "a release")) == 20
    assert not (audit.folder / "draws").exists()
    audit.open()
    result = audit.verify()
    assert result.good, result.findings
    # What was drawn for the superseded claim stays in the store, and nothing vouches for it.
    assert {Path(name).name for name in result.unknown} == discarded
    assert len(discarded) == 2 * draws


def test_draws_outlive_an_amendment_that_leaves_their_mechanism_alone(
    whole: Path, trap: Trap, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path / "amended"
    shutil.copytree(whole / "draw", root)
    audit = audit_in(root)
    kill_after(1, audit, trap)
    (audit.folder / "audit.toml").write_text(DECLARATION.replace('"0.10"', '"0.15"'))
    audit.amend("a wider limit")
    asked: list[int] = []

    def noted(job: DrawJob, seeds: Sequence[int], **rest: Any) -> None:
        asked.extend(seeds)
        draw_here(job, seeds, **rest)

    monkeypatch.setattr(drawing, "draw_all", noted)
    audit.draw()
    assert asked == [101, 102]
    audit.open()
    result = audit.verify()
    assert (result.findings, result.unknown) == ([], [])


def test_a_kill_in_an_amendment_ends_in_the_same_amendment(
    whole: Path, trap: Trap, tmp_path: Path, effort: Any
) -> None:
    def fresh(name: str) -> Audit:
        shutil.copytree(whole / "draw", tmp_path / name)
        audit = audit_in(tmp_path / name)
        (audit.folder / "audit.toml").write_text(AMENDED)
        return audit

    undisturbed = fresh("undisturbed")
    trap.set(None)
    undisturbed.amend("smaller releases")
    calls = list(trap.seen)
    expected = contents(undisturbed.folder.path)
    for at, call in effort.some(list(enumerate(calls)), reduced=1, kind=itemgetter(1)):
        audit = fresh(str(at))
        kill(trap, at, partial(audit.amend, "smaller releases"))
        if not audit.journal().ledger.has(Stage.AMENDED):
            audit.amend("smaller releases")
        assert contents(audit.folder.path) == expected, (at, call)
    assert undisturbed.verify().good
    assert len(undisturbed.journal().ledger.find(Stage.AMENDED)) == 1
    assert Counter(calls)["write"] == 3  # two files of the registry, and the ledger


# Prepares itself with randomness, once for all draws.
JITTER = """\
class Jitter:
    def describe(self):
        return {"mechanism": "rows with replacement and one shift for all"}

    def prepare(self, source, rng):
        self._source = source.copy()
        self._source["first"] += round(rng.normal(), 4)

    def draw(self, seed):
        rng = seed.rng("rows of the release")
        return self._source.iloc[rng.integers(0, len(self._source), size=len(self._source))]
"""
PREPARED = "one preparation of the generator, random and made once from seed 7"


def test_a_kill_anywhere_in_draw_keeps_that_preparation_was_random(
    trap: Trap, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, effort: Any
) -> None:
    (tmp_path / "jittering.py").write_text(JITTER)
    monkeypatch.syspath_prepend(str(tmp_path))
    declaration = DECLARATION.replace(
        'generator = "bootstrap"', 'generator = "jittering:Jitter"\nprepare_seed = 7'
    )
    trap.set(None)
    until(tmp_path / "registered", "draw", declaration)
    shutil.copytree(tmp_path / "registered", tmp_path / "whole")
    trap.set(None)
    manifest = audit_in(tmp_path / "whole").draw()
    calls = list(trap.seen)
    draws = manifest.to_dict()["members"]["target"]["bootstrap"]["draws"]
    assert all(record["prepared_at_random"] for record in draws)
    expected = contents(tmp_path / "whole" / "audit")
    for at, call in effort.some(list(enumerate(calls)), reduced=1, kind=itemgetter(1)):
        root = tmp_path / str(at)
        shutil.copytree(tmp_path / "registered", root)
        audit = audit_in(root)
        kill(trap, at, audit.draw)
        for path in (audit.folder / "draws").rglob("*.json"):
            assert json.loads(path.read_bytes())["prepared_at_random"] is True
        audit.draw()
        assert contents(root / "audit") == expected, (at, call)
        shutil.rmtree(root)
    audit = audit_in(tmp_path / "whole")
    certificate = audit.open().to_dict()
    assert certificate is not None
    assert PREPARED in certificate["conditional_on"]["bootstrap"]
    assert audit.verify().good
    assert PREPARED in (audit.folder / "report.md").read_text()


@pytest.mark.usefixtures("starts_cold")
def test_processes_draw_the_same_bytes_as_this_one(
    whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(drawing, "draw_all", pool.draw_all)
    root = tmp_path / "drawn"
    shutil.copytree(whole / "draw", root)
    audit_in(root).draw()
    ours = contents(whole / "work" / "audit")
    drawn = contents(root / "audit")
    assert {name: ours[name] for name in drawn if name != "ledger.jsonl"} == {
        name: drawn[name] for name in drawn if name != "ledger.jsonl"
    }
    assert ours["ledger.jsonl"].startswith(drawn["ledger.jsonl"])
