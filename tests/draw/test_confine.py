"""A draw reads code, development data and what is registered; of the target it reads nothing."""

from __future__ import annotations

import os
import re
import runpy
import sqlite3
import struct
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from proxyguard.documents.releases import is_guard
from proxyguard.draw import confine
from proxyguard.draw.catalog import EXTRAS, GENERATORS, TORCH
from proxyguard.draw.confine import HardLinks, Reach, reach_of
from proxyguard.draw.job import DrawJob
from proxyguard.draw.messages import DrawResult
from proxyguard.draw.pool import DrawingPool, Draws, draw_groups
from proxyguard.errors import DrawError
from proxyguard.tables.files import Schema, read_table_bytes, table_bytes

# Each way reads a secret, or leaves a word for the next draw; a release that is returned tells
# what was read.
THIEF = """
import gzip
import os
import sqlite3
import subprocess
import tempfile

import pandas as pd
import pyarrow.parquet as pq


def parquet(root):
    return pq.read_table(f"{root}/data/table.parquet").num_rows


def pandas_parquet(root):
    return len(pd.read_parquet(f"{root}/data/table.parquet"))


def open_folder(root):
    folder = os.open(f"{root}/data", os.O_RDONLY | os.O_DIRECTORY)
    return len(os.read(os.open("table.csv", os.O_RDONLY, dir_fd=folder), 1000))


def renamed(root):
    os.rename(f"{root}/data/moving.csv", f"{root}/data/other.csv")
    return len(open(f"{root}/data/other.csv").read())


def renamed_folder(root):
    os.rename(f"{root}/moving", f"{root}/moved")
    return len(open(f"{root}/moved/table.csv").read())


def linked_by_the_draw(root):
    link = f"{tempfile.mkdtemp()}/mine.csv"
    os.link(f"{root}/data/table.csv", link)
    return len(open(link).read())


def twin(root):
    return len(gzip.open(f"{root}/data/table.csv.gz").read())


def database(root):
    base = sqlite3.connect(f"file:{root}/home/lineage.sqlite?mode=ro", uri=True)
    return base.execute("select count(*) from records").fetchone()[0]


def other_program(root):
    return len(subprocess.run(["cat", f"{root}/data/table.csv"], capture_output=True,
                              check=True).stdout)


def root_of_another_process(root):
    return len(open(f"/proc/{os.getppid()}/root{root}/data/table.csv").read())


def memory_of_the_command(root):
    process = f"/proc/{os.environ['THE_COMMAND']}"
    start = int(open(f"{process}/maps").read().split("-")[0], 16)
    memory = open(f"{process}/mem", "rb", buffering=0)
    memory.seek(start)
    return len(memory.read(10))


def a_file_that_is_not_the_target(root):
    return len(open(f"{root}/notes/key.txt").read())


def left_for_the_next(root):
    place = f"{root}/code/left.txt"
    with open(place, "a") as file:
        file.write("here I was")
    return 1


class Thief:
    def __init__(self, way, where):
        self.way, self.root = way, where

    def describe(self):
        return {}

    def prepare(self, source, rng):
        self.source = source

    def draw(self, seed):
        seed.take("nothing of it")  # one that leaves its seed alone would fail for that
        return self.source.assign(x=float(globals()[self.way](self.root)))


class Honest:
    '''Uses what a generator may use.'''

    def __init__(self, model=None):
        self.model = model

    def describe(self):
        return {}

    def prepare(self, source, rng):
        import colorsys  # a module that nothing has imported yet
        import pg_beside

        self.source, self.kept = source, f"{tempfile.mkdtemp()}/kept"
        with open(self.kept, "w") as file:
            file.write(pg_beside.WORD)

    def draw(self, seed):
        assert open(self.kept).read() == "beside"
        assert os.listdir(tempfile.gettempdir()) == []  # nothing of the draw before
        pd.DataFrame({"x": [1.0]}).to_parquet(f"{tempfile.gettempdir()}/mine.parquet")
        os.mkdir(f"{tempfile.gettempdir()}/a")
        os.rename(f"{tempfile.gettempdir()}/mine.parquet", f"{tempfile.gettempdir()}/a/b.parquet")
        with open(os.devnull, "w") as nothing:
            nothing.write("x")
        assert len(os.urandom(3)) == 3
        assert subprocess.run(["true"], check=True).returncode == 0
        if self.model:
            assert open(self.model).read() == "weights"
        return self.source.sample(3, random_state=seed.take("rows"))
"""
WAYS = (
    "parquet", "pandas_parquet", "open_folder", "renamed", "renamed_folder", "linked_by_the_draw",
    "twin", "database", "other_program", "root_of_another_process", "memory_of_the_command",
    "a_file_that_is_not_the_target", "left_for_the_next",
)  # fmt: skip


def lay_out(root: Path) -> None:
    """Write the secrets, the development part and the generators."""
    for name in ("data", "moving", "home", "code", "notes", "models"):
        (root / name).mkdir()
    for place in ("data/table.csv", "data/moving.csv", "moving/table.csv"):
        (root / place).write_text("x\n1\n2\n")
    pd.DataFrame({"x": [1.0, 2.0]}).to_parquet(root / "data" / "table.parquet")
    pd.DataFrame({"x": [1.0, 2.0]}).to_csv(root / "data" / "table.csv.gz")
    (root / "notes" / "key.txt").write_text("a key")
    (root / "models" / "weights").write_text("weights")
    base = sqlite3.connect(root / "home" / "lineage.sqlite")
    base.execute("create table records (label)")
    base.commit()
    base.close()
    (root / "code" / "pg_thief.py").write_text(THIEF)
    (root / "code" / "pg_beside.py").write_text("WORD = 'beside'\n")
    (root / "source").write_bytes(table_bytes(pd.DataFrame({"x": np.arange(30.0)})))


def job(root: Path, generator: str, name: str, allow: tuple[str, ...] = (),
        **options: Any) -> DrawJob:  # fmt: skip
    secrets = ("data/table.csv", "data/table.parquet", "data/moving.csv", "moving", "home")
    return DrawJob(
        name=name,
        generator=f"pg_thief:{generator}",
        options=options,
        schema_of_releases=Schema(kinds={"x": "number"}),
        source=str(root / "source"),
        root=str(root),
        allow=allow,
        forbidden=tuple(str(root / secret) for secret in secrets),
    )


@pytest.fixture(scope="module")
def records(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Any]]:
    """Two draws of every way and of an honest generator, in one worker."""
    root = tmp_path_factory.mktemp("confined")
    lay_out(root)
    found: dict[str, list[Any]] = {}

    def keeper(name: str) -> Callable[[DrawResult], None]:
        return lambda result: found.setdefault(name, []).append((result, result.release))

    model = str(root / "models" / "weights")
    jobs = [job(root, "Thief", way, way=way, where=str(root)) for way in WAYS]
    jobs += [
        job(root, "Honest", "honest"),
        job(root, "Honest", "without its model", model=model),
        job(root, "Honest", "with its model", model=model, allow=(f"{root}/models/w*",)),
    ]
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(root / "code")
        patch.setenv("THE_COMMAND", str(os.getpid()))
        draws = [Draws(job=one, seeds=(5, 6), keep=keeper(one.name)) for one in jobs]
        draw_groups(draws, pool=DrawingPool(), workers=1, timeout=None)
    return found


def needs_landlock() -> None:
    if confine.version() == 0:
        pytest.skip("this kernel has no Landlock: an audit hook sees what Python opens alone")


@pytest.mark.parametrize("way", WAYS)
def test_a_draw_cannot_read_what_is_not_on_its_list(
    records: dict[str, list[Any]], way: str
) -> None:
    needs_landlock()
    for record, release in records[way]:
        read = read_table_bytes(release, way)["x"].iloc[0] if release else None
        assert record.said.status == "failed", f"{way} read {read}"


def test_an_honest_generator_has_code_temporary_files_and_the_usual_devices(
    records: dict[str, list[Any]],
) -> None:
    assert [record.said.status for record, _ in records["honest"]] == ["drawn", "drawn"], records[
        "honest"
    ]


def test_a_draw_says_what_it_was_held_by(records: dict[str, list[Any]]) -> None:
    known = confine.version()
    expected = f"landlock ABI {known}" if known else "audit hook"
    assert {r.guard for draws in records.values() for r, _ in draws} == {expected}


def test_what_a_mechanism_registers_can_be_read_and_else_the_error_says_what_to_register(
    records: dict[str, list[Any]],
) -> None:
    assert records["with its model"][0][0].said.status == "drawn", records["with its model"]
    needs_landlock()
    refused = records["without its model"][0][0].said
    assert refused.status == "failed"
    assert "weights" in refused.error
    assert re.search(r"""allow = \["[^"]*/models/weights"\]""", refused.error)


@pytest.mark.usefixtures("starts_warm")
def test_a_hard_link_to_the_table_where_draws_may_read_stops_the_drawing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lay_out(tmp_path)
    (tmp_path / "code" / "package").mkdir()
    (tmp_path / "code" / "package" / "__init__.py").write_text("")
    os.link(tmp_path / "data" / "table.csv", tmp_path / "code" / "package" / "mine.csv")
    monkeypatch.syspath_prepend(tmp_path / "code")
    draws = Draws(
        job=job(tmp_path, "Honest", "linked"), seeds=(5,), keep=lambda *kept: pytest.fail("drawn")
    )
    with pytest.raises(DrawError, match=r"mine.csv is a hard link to .*table.csv"):
        draw_groups([draws], pool=DrawingPool(), workers=1, timeout=None)


def test_a_link_that_appears_or_moves_between_two_batches_is_noticed(tmp_path: Path) -> None:
    secret, folder = tmp_path / "table.csv", tmp_path / "releases"
    secret.write_text("x\n")
    folder.mkdir()
    links = HardLinks([str(secret)], [str(folder)])
    links.check()
    os.link(secret, tmp_path / "backup.csv")  # a second name where no draw may read
    links.check()
    os.rename(tmp_path / "backup.csv", folder / "release.csv")
    with pytest.raises(DrawError, match=r"release\.csv is a hard link to"):
        links.check()


def test_a_table_that_lies_where_draws_may_read_is_refused_with_what_to_do(tmp_path: Path) -> None:
    reach = Reach(read=(str(tmp_path),), listed=(), changed=())
    with pytest.raises(DrawError, match=r"draws may read .* lies there; move it"):
        reach.check_apart([str(tmp_path / "data" / "table.csv")])


def test_beside_the_modules_of_a_folder_its_data_are_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lay_out(tmp_path)
    (tmp_path / "code" / "table.csv").write_text("x\n")
    (tmp_path / "code" / "package").mkdir()
    (tmp_path / "code" / "package" / "__init__.py").write_text("")
    monkeypatch.syspath_prepend(tmp_path / "code")
    reach = reach_of(job(tmp_path, "Honest", "honest").needs(), str(tmp_path / "scratch"))
    own = sorted(path for path in reach.read if path.startswith(str(tmp_path)))
    assert own == sorted(
        str(tmp_path / name)
        for name in ("code/package", "code/pg_beside.py", "code/pg_thief.py", "source")
    )
    assert str(tmp_path / "code") in reach.listed


def test_a_registered_path_that_is_not_here_is_said(tmp_path: Path) -> None:
    lay_out(tmp_path)
    needs = job(tmp_path, "Honest", "honest", allow=("/dev/nothing*",)).needs()
    with pytest.raises(DrawError, match=r"'/dev/nothing\*'.* nothing is there"):
        reach_of(needs, "scratch")


@pytest.fixture
def toy_gpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file that stands for the device of a GPU, and a generator that stands for a neural one."""
    monkeypatch.setattr(confine, "GPU_DEVICES", (str(tmp_path / "nvidia*"),))
    monkeypatch.setitem(EXTRAS, "bootstrap", TORCH)
    device = tmp_path / "nvidia0"
    device.write_text("a device")
    return device


@pytest.mark.parametrize(
    ("generator", "options", "opened"),
    [
        ("bootstrap", {}, True),
        ("bootstrap", {"device": "auto"}, True),
        ("bootstrap", {"device": "cuda"}, True),
        (GENERATORS["bootstrap"], {"device": "cuda"}, True),
        ("bootstrap", {"device": "cpu"}, False),
        ("noise", {"device": "cuda"}, False),
        ("pg_thief:Honest", {"device": "cuda"}, False),
    ],
)
def test_a_draw_of_ours_that_computes_on_a_gpu_reaches_its_device_and_no_other_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, toy_gpu: Path,
    generator: str, options: dict[str, Any], opened: bool,
) -> None:  # fmt: skip
    lay_out(tmp_path)
    monkeypatch.syspath_prepend(tmp_path / "code")
    plain = job(tmp_path, "Honest", "gpu")
    needs = plain.model_copy(update={"generator": generator, "options": options}).needs()
    assert needs.gpu is opened
    assert (str(toy_gpu) in reach_of(needs, str(tmp_path / "scratch")).changed) is opened
    needs_landlock()
    (tmp_path / "scratch").mkdir()

    def act() -> object:
        confined = confine.confine(needs, str(tmp_path / "scratch"))
        confine.confine_draw(confined, str(tmp_path / "scratch"))  # as every draw is held besides
        with toy_gpu.open("r+") as file:
            return file.read()

    assert in_a_fork(act).startswith("read a device" if opened else "PermissionError")


def test_a_draw_on_a_gpu_names_its_own_threads_and_no_other_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, toy_gpu: Path
) -> None:
    needs_landlock()
    needs = confine.Needs(forbidden=(), reads=(), gpu=True)

    def act() -> object:
        confined = confine.confine(needs, str(tmp_path))
        job = os.getpid()

        def draw() -> object:
            confine.confine_draw(confined, str(tmp_path))
            Path("/proc/self/comm").write_text("named")  # as CUDA does, or it does not start
            try:
                Path(f"/proc/{job}/comm").write_text("taken")
            except PermissionError:
                return Path("/proc/self/comm").read_text()
            return "it named another process"

        return in_a_fork(draw)

    assert in_a_fork(act).strip() == "read read named"


def in_a_fork(act: Callable[[], object]) -> str:
    """Return what an act in a process of its own says: a hook cannot be taken back."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            words = f"read {act()}"
        except BaseException as error:
            words = f"{type(error).__name__}: {error}"
        os.write(write, words.encode())
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as pipe:
        words = pipe.read()
    os.waitpid(child, 0)
    return words


SEEN_BY_PYTHON = (
    "open_folder", "renamed", "renamed_folder", "linked_by_the_draw", "twin", "database",
    "other_program", "hard_link",
)  # fmt: skip


@pytest.mark.parametrize("way", SEEN_BY_PYTHON)
def test_without_landlock_the_hook_stops_what_python_can_see(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    lay_out(tmp_path)
    os.link(tmp_path / "data" / "table.csv", tmp_path / "notes" / "mine.csv")
    monkeypatch.setattr(confine, "version", lambda: 0)
    monkeypatch.syspath_prepend(tmp_path / "code")
    thief = runpy.run_path(str(tmp_path / "code" / "pg_thief.py"))
    thief["hard_link"] = lambda root: len((Path(root) / "notes" / "mine.csv").read_text())
    needs = job(tmp_path, "Honest", "honest").needs()
    secrets = (*needs.forbidden, str(tmp_path / "data" / "table.csv.gz"))

    def act() -> object:
        assert (
            confine.confine(replace(needs, forbidden=secrets), str(tmp_path / "code")).guard
            == "audit hook"
        )
        return thief[way](str(tmp_path))

    assert "a draw may not read" in in_a_fork(act)


@pytest.mark.parametrize(
    ("known", "handled"), [(1, (1 << 13) - 1), (2, (1 << 14) - 1), (4, (1 << 15) - 1),
                           (5, (1 << 16) - 1), (7, (1 << 16) - 1)],
)  # fmt: skip
def test_every_version_of_landlock_is_asked_for_what_it_knows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, known: int, handled: int
) -> None:
    calls: list[tuple[int, Any]] = []

    def call(number: int, *arguments: Any) -> int:
        if number == 444 and arguments[0] is None:
            return known
        calls.append((number, arguments))
        return os.open(os.devnull, os.O_RDONLY) if number == 444 else 0

    monkeypatch.setattr(confine, "LINUX", True)
    monkeypatch.setattr(confine, "_call", call)
    monkeypatch.setattr(confine, "prctl", lambda option, value: None)
    (tmp_path / "file").write_text("")
    confine.restrict(
        [
            confine.Rule(str(tmp_path), confine.Use.CHANGE),
            confine.Rule(str(tmp_path / "file"), confine.Use.READ),
            confine.Rule(str(tmp_path / "absent"), confine.Use.READ),
        ]
    )
    assert [number for number, _ in calls] == [444, 445, 445, 446]
    attributes = calls[0][1][0]
    assert struct.unpack_from("=Q", attributes)[0] == handled
    assert len(attributes) == (24 if known >= 6 else 8)
    assert struct.unpack_from("=Q", calls[1][1][2])[0] == handled
    read_and_execute = confine.Access.READ_FILE | confine.Access.EXECUTE  # no rights of folders
    assert struct.unpack_from("=Q", calls[2][1][2])[0] == read_and_execute


@pytest.mark.parametrize("number", [38, 95, 1])  # ENOSYS, EOPNOTSUPP, EPERM
def test_a_kernel_without_landlock_says_so(monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    def refuse(*_: object) -> int:
        raise OSError(number, "no")

    monkeypatch.setattr(confine, "_call", refuse)
    assert confine.version() == 0


def test_what_a_record_says_of_its_guard_is_one_of_two_things() -> None:
    assert all(map(is_guard, ("landlock ABI 1", "landlock ABI 12", "audit hook")))
    assert not any(
        map(is_guard, ("landlock ABI 0", "landlock", "none", "", None, 7, "audit hook "))
    )
