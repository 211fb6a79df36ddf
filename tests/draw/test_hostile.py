"""A generator that writes where it should not is stopped, and reaches nothing by it."""

from __future__ import annotations

import contextlib
import io
import json
import os
import pty
import subprocess
import sys
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from proxyguard.documents.canonical import canonical_bytes
from proxyguard.draw import confine as landlock
from proxyguard.draw import pool
from proxyguard.draw.confine import reach_of
from proxyguard.draw.job import DrawJob
from proxyguard.draw.messages import Killed, Ready, Told, drawn_answers, readiness, receive
from proxyguard.draw.pool import DrawingPool, Draws, draw_groups
from proxyguard.errors import DrawError
from proxyguard.tables.files import Schema, read_table_bytes, table_bytes

pytestmark = pytest.mark.usefixtures("starts_warm")

MODULE = """
import fcntl
import json
import os
import signal
import stat
import tempfile
import termios
import threading


def pipes():
    '''Return which pipes this process has, apart from where it prints, with their numbers.'''
    found = {}
    for number in sorted(int(name) for name in os.listdir("/dev/fd")):
        if number in (1, 2):
            continue
        try:
            facts = os.fstat(number)
        except OSError:
            continue
        if stat.S_ISFIFO(facts.st_mode):
            found[number] = facts.st_ino
    return found


def writable():
    return [number for number in pipes()
            if fcntl.fcntl(number, fcntl.F_GETFL) & os.O_ACCMODE == os.O_WRONLY]


class Base:
    def describe(self):
        return {}

    def prepare(self, source, rng):
        self.source = source


class Counting(Base):
    def prepare(self, source, rng):
        self.source = source
        self.copy = os.dup(writable()[0])
        self.before = pipes()

    def draw(self, seed):
        now = pipes()
        shared = set(self.before.values()) & set(now.values())
        numbers = [len(set(self.before.values())), len(set(now.values())), len(shared), int(seed)]
        return self.source.head(4).assign(x=[float(n) for n in numbers])


class Typist(Base):
    '''Types into the terminal, and writes over what stands there.'''

    def draw(self, seed):
        for stream in (1, 2):
            os.write(stream, b"\\x1b[2J\\x1b[HEverything holds.\\x1b[8m " + b"x" * 300 + b"\\n")
            try:
                fcntl.ioctl(stream, termios.TIOCSTI, b"!")
            except OSError:
                continue
        return self.source.sample(3, random_state=seed.take("rows"))


class Deep(Base):
    '''Leaves folders within folders, and errors without words.'''

    def draw(self, seed):
        if int(seed) == 6:
            raise Speechless
        os.chdir(tempfile.gettempdir())
        for _ in range(1500):
            os.mkdir("d")
            os.chdir("d")
        return self.source.sample(3, random_state=seed.take("rows"))


class Speechless(Exception):
    def __str__(self):
        raise KeyboardInterrupt


class Stopper(Base):
    '''Stops the process that would end it, by a child of that process or by itself.'''

    def __init__(self, beforehand):
        self.beforehand = beforehand

    def prepare(self, source, rng):
        self.source = source
        if self.beforehand:
            threading.Timer(1.0, os.kill, [os.getpid(), signal.SIGSTOP]).start()

    def draw(self, seed):
        os.kill(os.getppid(), signal.SIGSTOP)
        return self.source.sample(3, random_state=seed.take("rows"))


class Escape(Base):
    '''Hands a job of its own, which forbids nothing, to every pipe but the first.'''

    def __init__(self, job):
        self.job = job

    def prepare(self, source, rng):
        first, *others = writable()
        ready = {"status": "ready", "prepared": {}, "sizes": [10**7, 0]}
        os.write(first, json.dumps(ready).encode() + b"\\n")
        for number in others:
            os.write(number, json.dumps(self.job).encode() + b"\\n")
        os._exit(0)


class Loot(Base):
    def __init__(self, table, goal):
        with open(goal, "w") as file:
            file.write(open(table).read())


class Forger(Base):
    def __init__(self, said, late=False):
        self.said = said

    def draw(self, seed):
        said = self.said.encode()
        os.write(writable()[0], len(said).to_bytes(8, "big") + said)
        os._exit(0)


class Boaster(Base):
    '''Says while it prepares what it is held by.'''

    def prepare(self, source, rng):
        ready = {"status": "ready", "prepared": {"prepared_at_random": False, "guard": "nothing"},
                 "sizes": [0, 0]}
        said = json.dumps(ready).encode() + b"\\n"
        os.write(writable()[0], len(said).to_bytes(8, "big") + said)
        self.source = source

    def draw(self, seed):
        return self.source.sample(3, random_state=seed.take("rows"))
"""


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("code", "data", "goal"):
        (tmp_path / name).mkdir()
    (tmp_path / "code" / "pg_hostile.py").write_text(MODULE)
    (tmp_path / "data" / "table.csv").write_text("x\n1\n2\n")
    source = pd.DataFrame({"x": [float(i) for i in range(30)]})
    (tmp_path / "source").write_bytes(table_bytes(source))
    monkeypatch.syspath_prepend(str(tmp_path / "code"))
    return tmp_path


def job(root: Path, generator: str, many: int = 1, **options: Any) -> DrawJob:
    return DrawJob(
        name="hostile",
        generator=f"pg_hostile:{generator}",
        options=options,
        schema_of_releases=Schema(kinds={"x": "number"}),
        many=many,
        source=str(root / "source"),
        root=str(root),
        forbidden=(str(root / "data"),),
    )


def draw(
    one: DrawJob, seeds: tuple[int, ...] = (5, 6), timeout: float | None = None
) -> list[tuple[Any, bytes]]:
    kept: list[tuple[Any, bytes]] = []
    draws = Draws(job=one, seeds=seeds, keep=lambda made: kept.append((made.said, made.release)))
    draw_groups([draws], pool=DrawingPool(), workers=1, timeout=timeout)
    return kept


def test_a_generator_has_the_pipes_of_its_job_and_a_draw_has_its_own_alone(root: Path) -> None:
    kept = draw(job(root, "Counting"))
    found = [read_table_bytes(release, "it")["x"].tolist() for _, release in kept]
    # Requests and answers where it prepares, and one that no other process has where it draws,
    # also where the generator copied the pipe of the answers.
    assert found == [[2.0, 1.0, 0.0, 5.0], [2.0, 1.0, 0.0, 6.0]]


DRAWN = {"seed": 5, "status": "drawn", "rows": 3, "content": "0" * 64, "stages": [],
         "selected": None, "threshold": None, "temperature": None, "sizes": [0, 0]}  # fmt: skip
FAILED = {"seed": 5, "status": "failed", "error": "x", "sizes": [0, 0]}


def said(*records: dict[str, Any]) -> str:
    return "".join(json.dumps(record) + "\n" for record in records)


def test_no_depth_of_folders_and_no_error_without_words_stops_the_other_draws(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(root / "goal"))
    (_, release), (failed, _) = draw(job(root, "Deep"))
    assert len(read_table_bytes(release, "it")) == 3
    assert failed.status == "failed"
    assert "Speechless: (no words: its __str__ raised KeyboardInterrupt)" in failed.error
    assert list((root / "goal").iterdir()) == []


@pytest.mark.skipif(landlock.version() < 6, reason="this kernel does not hold signals back")
def test_a_draw_cannot_stop_the_process_that_ends_it(root: Path) -> None:
    ((failed, _),) = draw(job(root, "Stopper", beforehand=False), seeds=(5,), timeout=100.0)
    assert failed.status == "failed"
    assert "PermissionError" in failed.error


def test_a_generator_that_stops_its_own_process_is_ended_when_its_time_is_up(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool, "GRACE", 1.0)
    with pytest.raises(DrawError, match="neither answered nor ended"):
        draw(job(root, "Stopper", beforehand=True), seeds=tuple(range(5, 5000)), timeout=0.5)


SURROGATE = "\ud800"


@pytest.mark.parametrize(
    ("record", "why"),
    [
        ({**DRAWN, "files": {SURROGATE: "0" * 64}}, ""),
        ({**DRAWN, "files": {"x": "no digest"}}, "wrong files"),
        ({**DRAWN, "stages": ["x"] * 2001}, "wrong stages"),
    ],
)
def test_what_a_draw_says_in_words_can_be_sealed(
    root: Path, record: dict[str, Any], why: str
) -> None:
    answers = drawn_answers(said(record).encode(), job(root, "Forger"), [5])
    if why:
        with pytest.raises(DrawError, match=why):
            list(answers)
    else:
        (answer,) = answers
        assert not isinstance(answer, Killed)
        canonical_bytes(answer.said.model_dump())


@pytest.mark.parametrize(
    ("record", "kind"),
    [
        ({"status": "ready", "prepared": {"prepared_at_random": False,
          "prepared_from": {SURROGATE: "0" * 64}}, "sizes": [0, 0]}, Ready),
        ({"status": "told", "describe": {}, "batch": 1, "code": [SURROGATE], "sizes": [0, 0],
          "files": [{"name": SURROGATE, "seed": 5, "sha256": "0" * 64}]}, Told),
    ],
)  # fmt: skip
def test_what_a_generator_says_in_words_can_be_sealed(
    root: Path, record: dict[str, Any], kind: Any
) -> None:
    told = readiness(said(record).encode(), job(root, "Forger"), kind)
    canonical_bytes(told.model_dump())


TERMINAL = """
import sys
from draw.test_hostile import draw, job
from pathlib import Path

sys.path.insert(0, sys.argv[1] + "/code")
draw(job(Path(sys.argv[1]), "Typist"), seeds=(5,))
print("DRAWN")
"""


def test_a_generator_neither_steers_the_terminal_nor_types_into_it(root: Path) -> None:
    pid, terminal = pty.fork()
    if pid == 0:
        os.environ.update(PYTHONPATH=str(Path(__file__).parents[1]), COLUMNS="80")
        os.execv(sys.executable, [sys.executable, "-c", TERMINAL, str(root)])
    seen = b""
    with contextlib.suppress(OSError):  # the terminal of a process that has ended
        while part := os.read(terminal, 4096):
            seen += part
    os.waitpid(pid, 0)
    lines = seen.decode().splitlines()
    assert lines[-1] == "DRAWN"
    assert len(lines) > 3
    assert all(line.startswith("| ") for line in lines[:-1]), lines  # a key that was typed echoes
    assert "\x1b" not in seen.decode()


UNHEARD = """
import sys
from draw.test_hostile import draw, job
from pathlib import Path

sys.path.insert(0, sys.argv[1] + "/code")
kept = draw(job(Path(sys.argv[1]), "Typist"), seeds=(5, 6, 7))
print(*[record.status for record, _ in kept])
"""


@pytest.mark.whole
def test_draws_print_on_where_nobody_reads_their_words(root: Path) -> None:
    read, write = os.pipe()
    os.close(read)
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])}
    done = subprocess.run(
        [sys.executable, "-c", UNHEARD, str(root)],
        stdout=subprocess.PIPE,
        stderr=write,
        env=environment,
        check=False,
    )
    os.close(write)
    assert done.stdout.decode().split() == ["drawn"] * 3


def test_a_job_that_a_generator_writes_itself_is_not_served(root: Path) -> None:
    if landlock.version() == 0:
        pytest.skip("this kernel has no Landlock: nothing holds such a generator anyway")
    goal = root / "goal" / "loot"
    own = job(root, "Loot", table=str(root / "data" / "table.csv"), goal=str(goal)).model_copy(
        update={
            "forbidden": (),
            "reads": (str(root / "data"),),
            "allow": (f"/dev/..{root}/goal",),
        }
    )
    with pytest.raises(DrawError):
        draw(job(root, "Escape", job=own.model_dump(mode="json")))
    assert not goal.exists()


def test_what_is_registered_by_a_way_through_dev_is_no_device(root: Path) -> None:
    goal = str(root / "goal")
    asked = job(root, "Counting").model_copy(update={"allow": (f"/dev/..{goal}", "/dev/tty*")})
    reach = reach_of(asked.needs(), str(root))
    assert not any("goal" in path for path in reach.changed)
    assert any("goal" in path for path in reach.read)


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (said({**FAILED, "seed": "../../planted"}), "wrong seed"),
        (said({**FAILED, "seed": 7}), "seed 7, which was not to be drawn"),
        (said({**FAILED, "seed": True}), "wrong seed"),
        (said(FAILED, FAILED), "seed 5, which was not to be drawn"),
        (said({**FAILED, "planted": "anything"}), "wrong planted"),
        (said({**FAILED, "status": "given"}), "the status 'given'"),
        (said({**FAILED, "status": ["failed"]}), "the status"),
        (said({**FAILED, "sizes": [-1, 0]}), "the sizes"),
        (said({**FAILED, "sizes": [10**15, 0]}), "which did not come"),
        (said({**FAILED, "sizes": [2, 0]}) + "ab", "a release of seed 5, which failed"),
        (said({"seed": 5, "status": "failed", "sizes": [0, 0]}), "wrong error"),
        (said({"seed": 5, "status": "failed", "error": "x"}), "without the sizes"),
        (said({**DRAWN, "content": "../planted"}), "wrong content"),
        (said({**DRAWN, "rows": 0}), "wrong rows"),
        (said({**DRAWN, "predictions": True}), "predictions of seed 5"),
        (said({"status": "ready", "prepared": {"prepared_at_random": False}, "sizes": [0, 0]}),
         "else than a draw"),
        ("[]\n", "no record"),
        ("{\n", "no record"),
        ("no end", "without an end"),
        ("", "nothing of 1 seeds"),
    ],
)  # fmt: skip
def test_an_answer_that_was_not_asked_for_is_refused(root: Path, words: str, why: str) -> None:
    answers = drawn_answers(words.encode(), job(root, "Forger"), [5])
    with pytest.raises(DrawError, match=why):
        list(answers)


def test_a_draw_that_answers_for_another_seed_stops_the_drawing(root: Path) -> None:
    forged = said({**FAILED, "seed": "../../planted"})
    with pytest.raises(DrawError, match="wrong seed"):
        draw(job(root, "Forger", said=forged))
    with pytest.raises(DrawError, match="nothing of 1 seeds"):
        draw(job(root, "Forger", said=""))


def test_a_generator_does_not_say_itself_what_it_was_held_by(root: Path) -> None:
    with pytest.raises(DrawError, match=r"wrong prepared\.guard"):
        draw(job(root, "Boaster"))


def test_a_message_longer_than_any_batch_is_refused_unread() -> None:
    with pytest.raises(DrawError, match="bytes, where"):
        receive(io.BytesIO((1 << 62).to_bytes(8, "big")))
