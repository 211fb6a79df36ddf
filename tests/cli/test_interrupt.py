"""A command that is told to end leaves no process behind, and says what is kept."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

import proxyguard as pg
from proxyguard.audit.audit import Audit
from proxyguard.cli import main

pytestmark = pytest.mark.skipif(
    not Path("/proc/self/environ").exists(), reason="processes are found through /proc"
)

SOURCE = Path(pg.__file__).parent.parent
MARK = "PROXYGUARD_TEST_MARK"
# It draws two releases, and then never another: in the third it has started one process that
# stays in its group and one that leaves it, as some servers do.
GENERATOR = """
import subprocess
import time


class Endless:
    def __init__(self, quick=2):
        self.quick = quick

    def describe(self):
        return {}

    def prepare(self, source, rng):
        self.source = source

    def draw(self, seed):
        if int(seed) % 100 >= self.quick:
            subprocess.Popen(["sleep", "301"])
            subprocess.Popen(["sleep", "302"], start_new_session=True)
            time.sleep(300)
        return self.source.sample(60, replace=True, random_state=seed.take("rows"))
"""
DECLARATION = """\
format = 1
name = "endless"
purpose = "Does a command end when it is told to?"

[target]
table = "table.csv"
reserve = { rows = 100, seed = 11 }
outcome = "label"
positive = "yes"

[development]
validation = { fraction = "0.25", stratify = true, seed = 12 }

[procedure]
library = ["fixed_logistic"]

[[requirement]]
name = "risk"
loss = "brier"
form = "absolute"
limit = "0.30"

[[mechanism]]
name = "endless"
generator = "pg_endless:Endless"
draws = 4
seeds = { first = 100 }

"""
FIXED = DECLARATION + '[claim]\nreliability_target = "0.3"\n'
PILOTS = (
    FIXED
    + """
[[pilot]]
name = "p"
generator = "pg_endless:Endless"
draws = 4
seeds = { first = 1 }
"""
)
SEQUENTIAL = (
    DECLARATION.replace("draws = 4", "options = { quick = 0 }\ndraws = 4")
    + """
[claim]
mode = "sequential"
reliability_target = "0.3"
threshold = "0.01"
looks = [3, 4]
"""
)


@dataclass(frozen=True)
class Running:
    """A command at work, and the mark that it and all its descendants carry."""

    process: subprocess.Popen[str]
    mark: str
    audit: Path

    def commands(self) -> dict[int, str]:
        """Return the command line of every process alive that carries the mark."""
        alive = {}
        for folder in Path("/proc").iterdir():
            try:
                if f"{MARK}={self.mark}".encode() in (folder / "environ").read_bytes():
                    words = (folder / "cmdline").read_bytes().split(b"\0")
                    alive[int(folder.name)] = b" ".join(words).decode()
            except (OSError, ValueError):
                continue  # it has just ended, or is no process
        return alive

    def wait_for(self, word: str) -> None:
        """Wait until a process with this word in its command line is at work."""
        self._until(lambda: any(word in command for command in self.commands().values()), word)

    def wait_for_draws(self, number: int) -> None:
        """Wait until so many draws are kept, and the next one is at work."""
        self.wait_for("sleep 302")
        self._until(
            lambda: len(list(self.audit.glob("draws/*/*.json"))) == number, f"{number} draws"
        )

    def assert_nothing_left(self) -> None:
        self._until(lambda: not self.commands(), "the end of all processes", 10.0)

    def _until(self, reached: Callable[[], bool], what: str, patience: float = 120.0) -> None:
        end = time.monotonic() + patience
        while not reached():
            assert time.monotonic() < end, f"waited for {what}: {self.commands()}"
            time.sleep(0.05)


def write_table(path: Path) -> None:
    rng = np.random.default_rng(1)
    x = rng.normal(size=(300, 2)).round(4)
    label = np.where(x[:, 0] + 0.7 * rng.normal(size=300) > 0, "yes", "no")
    rows = [f"{a},{b},{c}" for (a, b), c in zip(x.tolist(), label.tolist(), strict=True)]
    path.parent.mkdir(parents=True)
    path.write_text("\n".join(["first,second,label", *rows]) + "\n")


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, tuple[str, ...]], Path]:
    """Return the folder of an audit with these words and steps; each is made once."""
    made: dict[tuple[str, tuple[str, ...]], Path] = {}

    def prepare(words: str, steps: tuple[str, ...]) -> Path:
        if (words, steps) not in made:
            root = made[words, steps] = tmp_path_factory.mktemp("endless")
            write_table(root / "data" / "table.csv")
            (root / "code").mkdir()
            (root / "code" / "pg_endless.py").write_text(GENERATOR)
            audit = Audit(root / "audit", home=root / "home", data=[root / "data"])
            audit.init(words)
            with pytest.MonkeyPatch.context() as patch:
                patch.syspath_prepend(root / "code")
                for step in steps:
                    getattr(audit, step)()
        return made[words, steps]

    return prepare


def listen() -> None:
    """Hear what ends a command, also where tests run in the background or without a terminal."""
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)


@pytest.fixture
def start(
    tmp_path: Path, prepared: Callable[[str, tuple[str, ...]], Path]
) -> Iterator[Callable[..., Running]]:
    """Start a command on a fresh copy of an audit; whatever it leaves is ended afterwards."""
    started: list[Running] = []

    def begin(verb: str, words: str, *steps: str) -> Running:
        shutil.copytree(prepared(words, steps), tmp_path, dirs_exist_ok=True)
        mark = uuid.uuid4().hex
        environment = {
            **os.environ,
            "PYTHONPATH": f"{SOURCE}{os.pathsep}{tmp_path / 'code'}",
            "PROXYGUARD_HOME": str(tmp_path / "home"),
            MARK: mark,
        }
        command = [sys.executable, "-m", "proxyguard.cli.main", verb, "audit", "--data", "data",
                   "--workers", "1"]  # fmt: skip
        process = subprocess.Popen(
            command,
            cwd=tmp_path,
            env=environment,
            stderr=subprocess.PIPE,
            text=True,
            # Tests that run in the background may ignore it, and would hand that on.
            preexec_fn=listen,
        )
        started.append(Running(process, mark, tmp_path / "audit"))
        return started[-1]

    yield begin
    for running in started:
        for pid in running.commands():
            os.kill(pid, signal.SIGKILL)
        running.process.wait()
        assert running.process.stderr is not None
        running.process.stderr.close()


def ended(running: Running, number: signal.Signals) -> str:
    """Send a signal, and return what the command says when it has ended."""
    running.process.send_signal(number)
    _, said = running.process.communicate(timeout=120)
    running.assert_nothing_left()
    assert running.process.returncode == 128 + number, said
    assert "Traceback" not in said
    return said


def test_a_draw_that_is_interrupted_while_workers_start_leaves_none(
    start: Callable[..., Running],
) -> None:
    running = start("draw", FIXED, "seal", "register")
    running.wait_for("proxyguard.adapters.worker")
    said = ended(running, signal.SIGINT)
    assert "ended by SIGINT" in said
    assert "recorded and kept: sealed, developed, registered;" in said
    assert "no draw had finished" in said
    assert "proxyguard draw audit --data data --workers 1" in said


def test_a_draw_that_is_terminated_at_work_ends_its_descendants_and_says_what_is_kept(
    start: Callable[..., Running],
) -> None:
    running = start("draw", FIXED, "seal", "register")
    running.wait_for_draws(2)
    said = ended(running, signal.SIGTERM)
    assert "ended by SIGTERM" in said
    assert "2 finished draws are kept" in said


@pytest.mark.whole
def test_a_draw_that_is_killed_leaves_no_descendant(start: Callable[..., Running]) -> None:
    running = start("draw", FIXED, "seal", "register")
    running.wait_for("sleep 302")
    running.process.kill()
    running.process.wait()
    running.assert_nothing_left()


@pytest.mark.whole
def test_a_registration_that_is_interrupted_leaves_no_pilot_behind(
    start: Callable[..., Running],
) -> None:
    running = start("register", PILOTS, "seal")
    running.wait_for("sleep 302")
    said = ended(running, signal.SIGINT)
    assert "recorded and kept: sealed. To go on" in said
    assert "proxyguard register audit" in said


def test_an_opening_that_is_terminated_says_that_the_target_counts_as_opened(
    start: Callable[..., Running],
) -> None:
    running = start("open", SEQUENTIAL, "seal", "register")
    running.wait_for("sleep 302")
    said = ended(running, signal.SIGTERM)
    assert "the target counts as opened" in said
    assert "proxyguard open audit" in said


@pytest.mark.whole
def test_a_run_that_loses_its_terminal_ends_as_one_that_is_interrupted(
    start: Callable[..., Running],
) -> None:
    running = start("run", FIXED)
    running.wait_for_draws(2)
    said = ended(running, signal.SIGHUP)
    assert "2 finished draws are kept" in said
    assert "proxyguard run audit" in said


def test_an_interruption_in_a_moment_in_which_python_drops_it_is_raised_again() -> None:
    class Freed:
        def __del__(self) -> None:
            signal.raise_signal(signal.SIGTERM)

    def work() -> None:
        Freed()
        time.sleep(10)

    with pytest.raises(main.Interrupted), main._listening():
        work()
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL
