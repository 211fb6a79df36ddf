"""Several jobs are drawn by the same processes, and none of them sees another."""

from __future__ import annotations

import gc
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from proxyguard.draw import pool
from proxyguard.draw.messages import DrawJob, DrawResult
from proxyguard.draw.pool import DrawingPool, Draws, draw_groups
from proxyguard.errors import DrawError
from proxyguard.tables.files import read_table_bytes, table_bytes

pytestmark = pytest.mark.usefixtures("starts_warm")

MODULE = """
import os

made = []


class Marked:
    '''Writes into every release which process made it and how many of its kind came before.'''

    def __init__(self, mark, broken=False):
        if broken:
            raise ValueError("no such generator")
        self.mark = mark

    def describe(self):
        return {}

    def prepare(self, source, rng):
        made.append(self.mark)
        self.source = source.assign(mark=float(self.mark), before=float(len(made)),
                                    process=float(os.getpid()))

    def draw(self, seed):
        return self.source.sample(3, random_state=seed.take("rows"))
"""
KINDS = {"x": "number", "mark": "number", "before": "number", "process": "number"}


@pytest.fixture
def started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Return the processes that drawing starts, and let them find the generator."""
    (tmp_path / "pg_marked.py").write_text(MODULE)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=":")
    source = pd.DataFrame({"x": [float(i) for i in range(30)]})
    (tmp_path / "source").write_bytes(table_bytes(source))
    found: list[Any] = []
    real = pool.subprocess.Popen

    class Noted(real):  # type: ignore[name-defined,misc]
        def __init__(self, *arguments: Any, **options: Any) -> None:
            super().__init__(*arguments, **options)
            found.append(self)

    monkeypatch.setattr(pool.subprocess, "Popen", Noted)
    return found


def job(folder: Path, mark: int, **options: Any) -> DrawJob:
    return DrawJob(
        name=f"job {mark}",
        generator="pg_marked:Marked",
        options={"mark": mark, **options},
        kinds=KINDS,
        source=str(folder / "source"),
        root=str(folder),
    )


def groups(folder: Path, *jobs: DrawJob) -> tuple[list[Draws], dict[str, Any]]:
    """Return two draws of each job, and where their releases are put."""
    releases: dict[str, Any] = {}

    def keeper(name: str) -> Any:
        def keep(result: DrawResult) -> None:
            assert result.said.status == "drawn", result.said
            assert result.prepared.prepared_at_random is False
            releases[f"{name}/{result.said.seed}"] = read_table_bytes(result.release, name)

        return keep

    made = [Draws(job=one, seeds=(5, 6), keep=keeper(one.name)) for one in jobs]
    return made, releases


def test_one_process_draws_job_after_job_and_no_job_sees_another(
    tmp_path: Path, started: list[Any]
) -> None:
    draws, releases = groups(tmp_path, job(tmp_path, 1), job(tmp_path, 2), job(tmp_path, 3))
    with DrawingPool() as processes:
        draw_groups(draws, pool=processes, workers=1, timeout=None)
    assert len(started) == 1
    assert started[0].wait() == 0
    names = [f"job {mark}/{seed}" for mark in (1, 2, 3) for seed in (5, 6)]
    assert list(releases) == names
    assert [float(r["mark"].iloc[0]) for r in releases.values()] == [1, 1, 2, 2, 3, 3]
    # The module's list starts anew for each job: what a job prepared is gone with its process.
    assert {float(r["before"].iloc[0]) for r in releases.values()} == {1.0}
    assert len({float(r["process"].iloc[0]) for r in releases.values()}) == 3
    # The same seed takes the same rows, whichever job it is drawn for.
    assert releases["job 1/5"]["x"].tolist() == releases["job 3/5"]["x"].tolist()


@pytest.mark.parametrize("look", [1, 2, 3, 4])
def test_no_draw_is_kept_unless_the_looks_before_and_after_it_saw_no_change(
    tmp_path: Path, started: list[Any], look: int
) -> None:
    (draws,), releases = groups(tmp_path, job(tmp_path, 1))
    looks = 0

    def check() -> None:
        nonlocal looks
        looks += 1
        if looks == look:
            raise DrawError("a file has changed")

    with pytest.raises(DrawError, match="a file has changed"):
        draw_groups([replace(draws, check=check)], pool=DrawingPool(), workers=1, timeout=None)
    assert list(releases) == (["job 1/5"] if look > 2 else [])
    assert started[0].wait() != 0


def test_a_job_that_cannot_start_ends_the_drawing_with_its_name(
    tmp_path: Path, started: list[Any]
) -> None:
    draws, releases = groups(tmp_path, job(tmp_path, 1), job(tmp_path, 2, broken=True))
    with pytest.raises(DrawError, match=r"job 2: .*no such generator"):
        draw_groups(draws, pool=DrawingPool(), workers=1, timeout=None)
    assert list(releases) == ["job 1/5", "job 1/6"]


def test_all_drawings_of_one_pool_are_forked_from_one_process(
    tmp_path: Path, started: list[Any]
) -> None:
    first, releases = groups(tmp_path, job(tmp_path, 1))
    second, more = groups(tmp_path, job(tmp_path, 2))
    with DrawingPool() as processes:
        draw_groups(first, pool=processes, workers=2, timeout=None)
        draw_groups(second, pool=processes, workers=2, timeout=None)
        assert started[0].poll() is None
    assert (len(releases), len(more), len(started)) == (2, 2, 1)
    assert started[0].wait() == 0


def test_a_pool_draws_on_after_its_processes_were_ended_and_ends_with_whoever_had_it(
    tmp_path: Path, started: list[Any]
) -> None:
    processes = DrawingPool()
    broken, _ = groups(tmp_path, job(tmp_path, 1, broken=True))
    with pytest.raises(DrawError, match="no such generator"):
        draw_groups(broken, pool=processes, workers=1, timeout=None)
    assert started[0].returncode != 0  # ended with all that it forked, and waited for
    draws, releases = groups(tmp_path, job(tmp_path, 2))
    draw_groups(draws, pool=processes, workers=1, timeout=None)
    assert (len(releases), len(started)) == (2, 2)
    del processes
    gc.collect()  # the error above holds the frame that it was raised in
    assert started[1].returncode == 0
