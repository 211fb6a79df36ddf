"""Mistakes that people make, each typed as they would, and what they are told.

`mistakes.txt` has every mistake with its message, read by a person. Write it anew with

    PYTHONPATH=src:tests python tests/cli/mistakes.py

and read what has changed before it is kept. A mistake starts from one small good audit, is made by
a change of a file or by what is typed, and is met in this process as the command line meets it.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import shutil
import sys
import tempfile
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pandas as pd
import pytest

import proxyguard as pg
from cli.mistakes_made import MISTAKES, Mistake
from conformance.draws import draw_here, draw_here_with
from conformance.warm import STARTERS, started_by
from proxyguard.cli import main, show
from proxyguard.draw.job import DrawJob
from proxyguard.draw.pool import draw_all

GOLDEN = Path(__file__).with_name("mistakes.txt")
CHECK = "check audit"
STAGES = ("new", "seal", "register", "draw", "open")
ROWS, RESERVED = 240, 80
"""Of the table, and of the target that is set aside from it."""
MARK = "zqxjkvbw"
"""What begins every text of a target record, and stands nowhere else."""
DIGITS = "739152846"
"""Digits of every number of a target record, which stand nowhere else."""
DECLARATION = f"""\
format = 1
name = "small"
purpose = "May bootstrap tables stand in for the patients?"

[target]
table = "patients.csv"
reserve = {{ rows = {RESERVED}, seed = 11 }}
outcome = "ill"
positive = "yes"
exclude = ["patient", "ward"]

[development]
validation = {{ fraction = "0.25", seed = 12 }}

[procedure]
library = ["fixed_logistic"]

[[requirement]]
name = "risk"
loss = "brier"
form = "absolute"
limit = "0.30"

[[mechanism]]
name = "copies"
generator = "bootstrap"
draws = 6
seeds = {{ first = 100 }}

[claim]
reliability_target = "0.3"
"""
GENERATORS = '''\
"""Generators of somebody, good and not."""

import numpy as np


class Good:
    def describe(self):
        return {"mechanism": "rows at random"}

    def prepare(self, source, rng):
        self.source = source

    def draw(self, seed):
        rows = seed.rng("rows").integers(len(self.source), size=len(self.source))
        return self.source.iloc[rows].reset_index(drop=True)


class Wants(Good):
    def __init__(self, strength):
        self.strength = strength


class NoDraw:
    def describe(self):
        return {}

    def prepare(self, source, rng):
        pass


class NoDescribe:
    def prepare(self, source, rng):
        pass

    def draw(self, seed):
        pass


class FitsAndSamples:
    def fit(self, table):
        self.table = table

    def sample(self, rows, seed):
        return self.table.sample(rows, replace=True, random_state=seed)


class SaysAList(Good):
    def describe(self):
        return ["rows at random"]


class SaysAnArray(Good):
    def describe(self):
        return {"weights": np.arange(3), "rate": float("nan")}


class Raises(Good):
    def draw(self, seed):
        raise RuntimeError("the network did not converge")


class FailsToStart(Good):
    def __init__(self):
        raise OSError("weights.bin is not there")


class OtherColumns(Good):
    def draw(self, seed):
        return super().draw(seed).rename(columns={"age": "Age"})


class AnArray(Good):
    def draw(self, seed):
        return super().draw(seed).to_numpy()


class NoRows(Good):
    def draw(self, seed):
        return super().draw(seed).head(0)


class NoSeed(Good):
    def draw(self, seed):
        return self.source


def sample(source, rng):
    return source.sample(len(source), replace=True, random_state=rng)


NUMBER = 3


def far_loss(outcome, prediction):
    return np.abs(outcome - prediction) * 5


def short_loss(outcome, prediction):
    return np.zeros(3)


def odd_loss(outcome, prediction):
    raise ValueError(f"cannot score {outcome[0]} {prediction[0]}")
'''
# What a slow machine is told on the way.
PROGRESS = re.compile(r"\S+: \d+ of \d+( \(\d+ %\).*|, after .*)$")
BROKEN = "def draw(source, rng)\n    return source\n"


@dataclass(frozen=True)
class Met:
    """What a mistake met: what was printed, and the code at the end."""

    printed: str
    code: int


def patients(rows: int, seed: int, *, reserved: bool = True) -> list[str]:
    """Return the lines of a table whose target records are marked in every value."""
    rng = np.random.default_rng(seed)
    age = rng.normal(50, 10, rows).round(1)
    dose = rng.integers(1, 9, rows)
    ill = np.where(age + rng.normal(0, 8, rows) > 50, "yes", "no")
    ward = rng.choice(["north", "south"], rows)
    chosen = set(np.random.default_rng(11).choice(rows, size=RESERVED, replace=False).tolist())
    lines = ["patient,age,dose,ward,ill"]
    for k in range(rows):
        marked = reserved and k in chosen
        mark, digits = (MARK, DIGITS) if marked else ("id", "")
        values = (f"{mark}{seed}{k:04d}", f"{age[k]}{digits}", dose[k], ward[k], ill[k])
        lines.append(",".join(map(str, values)))
    return lines


def lay_out(root: Path) -> None:
    """Write the files of one small good audit, and of others that a mistake may name."""
    (root / "patients.csv").write_text("\n".join(patients(ROWS, 1)) + "\n")
    (root / "releases").mkdir()
    for k in range(6):
        text = "\n".join(patients(150, 10 + k, reserved=False)) + "\n"
        (root / "releases" / f"r{k}.csv").write_text(text)
    losses = np.random.default_rng(2).uniform(0.0, 0.2, size=(6, 90, 1))
    names = {"releases": np.array([f"r{k}" for k in range(6)]), "requirements": np.array(["risk"])}
    np.savez(root / "losses.npz", losses=losses, **names)
    (root / "mygen.py").write_text(GENERATORS)
    (root / "broken.py").write_text(BROKEN)
    (root / "good.toml").write_text(DECLARATION)


@contextmanager
def at_home(root: Path) -> Iterator[None]:
    """Let a person sit in a folder, whose modules can be imported, with a home of their own."""
    with pytest.MonkeyPatch.context() as patch, contextlib.ExitStack() as stack:
        patch.chdir(root)
        patch.syspath_prepend(str(root))
        patch.setenv("PROXYGUARD_HOME", "home")
        patch.setenv("COLUMNS", "100")
        patch.delenv("PROXYGUARD_DATA", raising=False)
        known: dict[str, ModuleType] = dict(sys.modules)
        stack.callback(lambda: [sys.modules.pop(name) for name in set(sys.modules) - set(known)
                                if name in ("mygen", "broken")])  # fmt: skip
        yield


def typed(command: str) -> Met:
    """Type one command, and return what it printed on both streams."""
    out = io.StringIO()
    words = [os.path.expanduser(word) for word in shlex.split(command)]
    with (
        pytest.MonkeyPatch.context() as patch,
        redirect_stdout(out),
        redirect_stderr(out),
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("always")  # as in a process of its own, which has told nobody yet
        patch.setattr(sys, "argv", ["proxyguard", *words])
        patch.setattr(show, "audits", [])
        try:
            main.run(main.app, ["proxyguard"])
        except SystemExit as ended:
            return Met(out.getvalue(), int(ended.code or 0))


def called(code: str) -> Met:
    """Call the library as a script or a notebook would, and return its error."""
    rng = np.random.default_rng(3)
    names: dict[str, object] = {
        "pg": pg, "np": np, "pd": pd, "Path": Path,
        "losses": (rng.random((20, 200, 1)) < 0.05).astype(float),
        "error": pg.Requirement(name="error", low=0, high=1, limit=0.1),
    }  # fmt: skip
    try:
        exec(code, names)
    except pg.errors.ProxyGuardError as error:
        return Met(f"{type(error).__name__}: {error}\n", 1)
    return Met("nothing was found wrong\n", 0)


class Walk:
    """The mistakes, each made in a copy of one audit at the step that it takes."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._count = 0
        self.untold: list[str] = []
        """Mistakes that `check` lets pass and a later step refuses, or that no step does."""

    def stage(self) -> None:
        """Make the good audit, and keep a copy of it after each step."""
        work = self.root / "work"
        work.mkdir()
        lay_out(work)
        with at_home(work):
            for stage in STAGES:
                words = "init audit --declaration good.toml" if stage == "new" else f"{stage} audit"
                met = typed(words)
                assert met.code == 0, met.printed
                shutil.copytree(work, self.root / stage)

    def copy(self, mistake: Mistake) -> Path:
        """Return a fresh copy in which the mistake is made."""
        self._count += 1
        root = self.root / f"mistake{self._count}"
        shutil.copytree(self.root / mistake.at, root)
        mistake.change(root)
        return root

    def meet(self, mistake: Mistake, root: Path) -> Met:
        """Return what is met where the mistake was made."""
        with at_home(root):
            if mistake.call is not None:
                return called(mistake.call)
            return typed(mistake.typed)

    def told(self, number: int, mistake: Mistake) -> str:
        """Return the entry of a mistake."""
        root = self.copy(mistake)
        met = self.meet(mistake, root)
        said = [f"[{number}] {mistake.did}"]
        if mistake.call is not None:
            said += [f">>> {line}" for line in mistake.call.splitlines()] + [met.printed.rstrip()]
        else:
            said += [f"$ proxyguard {mistake.typed}", *self.seen(met.printed), f"exit {met.code}"]
        # What check lets pass, a later step may refuse where nobody could know it before.
        if mistake.typed == CHECK and met.code == 0:
            with at_home(root):
                ran = typed("run audit --workers 1")
            mistake_found = ran.code not in (0, 3, 4, 7)
            if mistake_found:
                said += ["$ proxyguard run audit", *self.seen(ran.printed), f"exit {ran.code}"]
            if mistake_found is not mistake.later:
                self.untold.append(mistake.did)
        return "\n".join(said).replace(str(root), "ROOT") + "\n"

    @staticmethod
    def seen(printed: str) -> list[str]:
        """Return lines without facts, columns and notes, and without what differs by run."""
        lines = [
            line
            for line in printed.splitlines()
            if not line.startswith(("fact: ", "note ", "    ")) and not PROGRESS.match(line)
        ]
        return [re.sub(r"[0-9a-f]{16,}", "DIGEST", line) for line in lines if line]


def draw(job: DrawJob, seeds: Sequence[int], **settings: Any) -> None:
    """Draw here where no draw can fail, which starts no process."""
    (draw_here if job.generator == "bootstrap" else draw_all)(job, seeds, **settings)


@contextmanager
def walking(root: Path) -> Iterator[Walk]:
    """Give a walk in this folder, whose processes start warm."""
    with started_by(*STARTERS), pytest.MonkeyPatch.context() as patch:
        draw_here_with(patch)
        # Others in processes of their own, where what is raised is the failure of a draw.
        patch.setattr("proxyguard.audit.draw.draw_all", draw)
        walk = Walk(root)
        walk.stage()
        yield walk


def entries(walk: Walk) -> list[str]:
    """Return the entry of every mistake."""
    return [walk.told(k, mistake) for k, mistake in enumerate(MISTAKES, start=1)]


def main_() -> None:
    """Write the golden file anew."""
    with tempfile.TemporaryDirectory() as folder, walking(Path(folder)) as walk:
        GOLDEN.write_text("\n".join(entries(walk)), encoding="utf-8")


if __name__ == "__main__":
    main_()
