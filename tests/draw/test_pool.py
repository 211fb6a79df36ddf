"""Several jobs are drawn by the same processes, and none of them sees another."""

from __future__ import annotations

import gc
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from proxyguard.draw import confine, pool
from proxyguard.draw.job import DrawJob
from proxyguard.draw.messages import DrawResult
from proxyguard.draw.pool import DrawingPool, Draws, batches, draw_groups
from proxyguard.errors import DrawError, UnansweredDraw
from proxyguard.tables.files import Schema, read_table_bytes, table_bytes

pytestmark = pytest.mark.usefixtures("starts_warm")

MODULE = """
import os
import signal
import time

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


class Together(Marked):
    '''Draws a batch at once, in which one seed can be the end of all, or take for ever.'''

    def __init__(self, mark, deadly=None, hangs=None):
        super().__init__(mark)
        self.deadly, self.hangs = deadly, hangs

    def prepare(self, source, rng):
        super().prepare(source, rng)
        self.source = self.source.assign(process=0.0)

    def draw(self, seed):
        return self.draw_many([seed])[0]

    def draw_many(self, seeds):
        if self.deadly in seeds:
            os.kill(os.getpid(), signal.SIGKILL)
        while self.hangs in seeds:
            time.sleep(1.0)
        for seed in seeds:
            seed.computed(together=len(seeds))
        return [super(Together, self).draw(seed) for seed in seeds]
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
        schema_of_releases=Schema(kinds=KINDS),
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


def batched(folder: Path, many: int, **options: Any) -> DrawJob:
    """Return a job of draws that are made so many at once."""
    one = job(folder, 1, **options)
    return one.model_copy(update={"generator": "pg_marked:Together", "many": many})


def drawn_together(one: DrawJob, seeds: range, **settings: Any) -> dict[int, Any]:
    """Return what is said of each seed that was kept, also where drawing then ended."""
    kept: dict[int, Any] = {}
    draws = Draws(
        job=one, seeds=seeds, keep=lambda result: kept.update({result.said.seed: result.said})
    )
    plain = {"workers": 1, "timeout": None}
    try:
        draw_groups([draws], pool=DrawingPool(), **{**plain, **settings})
    except UnansweredDraw as error:
        kept[-1] = error
    return kept


def test_a_kill_while_a_batch_of_fifty_runs_loses_that_batch_and_the_rest_is_drawn_later(
    tmp_path: Path, started: list[Any]
) -> None:
    kept = drawn_together(batched(tmp_path, 50, deadly=77), range(150))
    error = kept.pop(-1)
    assert error.seed == 50
    assert "seed 50 or one of the 49 after it was killed by signal 9" in str(error)
    assert list(kept) == list(range(50))
    # Whoever draws again draws what is not kept, and gets what an unbroken run gives.
    rest = drawn_together(batched(tmp_path, 50), range(50, 150))
    whole = drawn_together(batched(tmp_path, 50), range(150))
    assert {**kept, **rest} == whole
    assert {said.computed["together"] for said in whole.values()} == {"50"}


def test_a_batch_that_takes_too_long_is_drawn_one_by_one_and_only_the_slow_seed_fails(
    tmp_path: Path, started: list[Any]
) -> None:
    kept = drawn_together(batched(tmp_path, 4, hangs=6), range(4, 12), timeout=0.75)
    assert {seed: said.status for seed, said in kept.items() if said.status != "drawn"} == {
        6: "timeout"
    }
    # Each draw says with how many others it was made in the end.
    company = {seed: said.computed.get("together") for seed, said in kept.items() if seed != 6}
    assert company == {4: "1", 5: "1", 7: "1", 8: "4", 9: "4", 10: "4", 11: "4"}


@pytest.mark.parametrize("workers", [1, 2, 3, 16])
@pytest.mark.parametrize("most", [1, 7, 50])
@pytest.mark.parametrize("number", [0, 1, 2, 49, 50, 51, 120, 1000])
def test_batches_have_every_seed_once_and_none_is_too_large(
    number: int, most: int, workers: int
) -> None:
    made = batches(range(number), most, workers)
    assert [seed for batch in made for seed in batch] == list(range(number))
    assert all(0 < len(batch) <= most for batch in made)
    # Whoever draws most draws hardly more than an even share.
    if workers > 1 and made:
        rounds = -(-len(made) // workers)
        assert rounds * len(made[0]) <= number / workers + rounds


@pytest.mark.parametrize(
    ("device", "there", "company"),
    [("cuda", True, [5, 30]), ("auto", False, [1, 2]), ("cpu", True, [1, 2])],
)
def test_a_gpu_has_one_worker_and_full_batches_and_on_a_cpu_draws_are_kept_sooner(
    tmp_path: Path, started: list[Any], monkeypatch: pytest.MonkeyPatch,
    device: str, there: bool, company: list[int],
) -> None:  # fmt: skip
    # As if it were one of ours that computes with torch; it takes no device itself.
    monkeypatch.setattr(DrawJob, "neural", property(lambda self: True))
    monkeypatch.setattr(DrawJob, "gpu", property(lambda self: device != "cpu"))
    monkeypatch.setattr(confine, "GPU_DEVICES", (str(tmp_path / "nvidia*"),))
    monkeypatch.setattr(pool, "KEPT_ON_CPU", 2)
    if there:
        (tmp_path / "nvidia0").write_text("")
    kept = drawn_together(batched(tmp_path, 30), range(35), workers=2)
    assert sorted({int(said.computed["together"]) for said in kept.values()}) == company
