"""A kill at any write loses nothing: the resumed audit is the same audit, byte for byte."""

from __future__ import annotations

import hashlib
import os
import shutil
import sqlite3
import stat
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from proxyguard.adapters.worker import make_learner
from proxyguard.audit import audit as whole_audit
from proxyguard.audit import draw as drawing
from proxyguard.audit.audit import Audit
from proxyguard.draw import catalog, pool
from proxyguard.draw.protocol import Seed
from proxyguard.draw.worker import Worker
from proxyguard.seal import entropy, lineage, storage
from proxyguard.seal.ledger import Stage

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
reliability = "0.6"
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


def openings(root: Path) -> int:
    """Return how often targets were opened, as the lineage store remembers it."""
    base = sqlite3.connect(root / "home" / "lineage.sqlite")
    try:
        return int(base.execute("select count(*) from openings").fetchone()[0])
    finally:
        base.close()


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

    def due(self, what: str) -> bool:
        """Count a call; return whether it is the last one."""
        self.seen.append(what)
        return self._at == len(self.seen) - 1


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
    """Count writes, renames, and the flush of the folder that comes after a rename."""

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

    fake = type("os", (), {name: staticmethod(value) for name, value in vars(os).items()
                           if callable(value)})  # fmt: skip
    for name, value in (("O_WRONLY", os.O_WRONLY), ("O_CREAT", os.O_CREAT),
                        ("O_TRUNC", os.O_TRUNC), ("O_RDONLY", os.O_RDONLY)):  # fmt: skip
        setattr(fake, name, value)
    for own in (fdopen, replace, fsync):
        setattr(fake, own.__name__, staticmethod(own))
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

    fake = SimpleNamespace(connect=connect, DatabaseError=sqlite3.DatabaseError)
    patch.setattr(lineage, "sqlite3", fake)


def watch_pending(patch: pytest.MonkeyPatch, trap: Trap) -> None:
    """Count the removal of pending draws; a kill comes in the middle of it."""

    def rmtree(place: Path, **options: Any) -> None:
        files = sorted(path for path in place.rglob("*") if path.is_file())
        if files and trap.due("remove"):
            for path in files[: len(files) // 2]:
                path.unlink()
            raise Killed
        shutil.rmtree(place, **options)

    patch.setattr(drawing, "shutil", SimpleNamespace(rmtree=rmtree))


def draw_here(
    job: dict[str, Any],
    seeds: Sequence[int],
    *,
    module: str,
    workers: int,
    timeout: float | None,
    keep: Callable[[dict[str, Any], bytes, bytes], None],
) -> bool:
    """Draw as `draw_all` does, in this process.

    Starting a process takes two seconds, and this file draws in a hundred audits. That
    processes draw the same bytes is tested below.
    """
    if not seeds:
        return False
    worker = Worker(job, make_learner(job))
    for seed in seeds:
        keep(*worker.draw(Seed(seed)))
    return worker.prepared_at_random


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
        # These two read the metadata of every installed package, each time.
        patch.setattr(whole_audit, "version", cache(whole_audit.version))
        patch.setattr(catalog, "packages_distributions", cache(catalog.packages_distributions))
        watch_storage(patch, found)
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


@pytest.fixture(scope="module")
def whole(trap: Trap, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An uninterrupted audit: a copy from before each step, and what it is in the end."""
    root = tmp_path_factory.mktemp("survival")
    work = root / "work"
    write_table(work / "data" / "table.csv")
    (work / "home").mkdir()
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


def test_there_are_at_least_fifty_writes_to_die_at(whole: Path, trap: Trap, tmp_path: Path) -> None:
    seen = Counter(call for step in STEPS for call in calls_of(step, whole, trap, tmp_path / step))
    assert seen["write"] == seen["rename"] == seen["renamed"]
    assert seen["write"] + seen["rename"] >= 50
    assert seen["commit"] >= 10
    assert seen["remove"] == 1


@pytest.mark.parametrize("step", STEPS)
def test_a_kill_at_every_write_ends_in_the_same_audit(
    whole: Path, trap: Trap, tmp_path: Path, step: str
) -> None:
    expected = contents(whole / "work" / "audit")
    verdicts = audit_in(whole / "work").certificate()["verdicts"]
    # The opened entry repeats what the lineage store says then, and an opening that was killed
    # has told it already; this entry's digest is in the certificate and in the report.
    aside = {"ledger.jsonl", "certificate.json", "report.md", "report.html"}
    for at, call in enumerate(calls_of(step, whole, trap, tmp_path / "scratch")):
        root = tmp_path / str(at)
        # A run that is killed in this step has done the steps before it; they left these bytes.
        shutil.copytree(whole / step, root)
        audit = audit_in(root)
        trap.set(at)
        with pytest.raises(Killed):
            take(audit, step)
        trap.set(None)
        resume(audit)
        found = contents(root / "audit")
        assert set(found) == set(expected), (at, call)
        differ = {name for name in found if found[name] != expected[name]}
        assert differ <= (aside if step == "open" else set()), (at, call)
        assert audit.certificate()["verdicts"] == verdicts
        result = audit.verify()
        assert result.good, (at, call, result.findings)
        assert result.unknown == []
        assert not list(root.rglob(f"*{storage.LEFTOVER}"))
        assert len(audit.journal().ledger.find(Stage.OPENED)) == 1
        assert openings(root) == 1
        shutil.rmtree(root)


def test_processes_draw_the_same_bytes_as_this_one(
    whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(drawing, "draw_all", pool.draw_all)
    root = tmp_path / "drawn"
    shutil.copytree(whole / "draw", root)
    audit_in(root).draw()
    ours = contents(whole / "work" / "audit" / "store")
    assert contents(root / "audit" / "store") == ours
