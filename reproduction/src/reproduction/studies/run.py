"""Run studies: seeds for each cell and block, several processes, one verdict."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from functools import reduce
from multiprocessing import active_children, get_context
from pathlib import Path
from typing import NamedTuple
from zlib import crc32

import numpy as np

from proxyguard.draw.processes import end_with_parent
from reproduction.studies.cache import BlockCache, block_key
from reproduction.studies.catalog import STUDIES
from reproduction.studies.report import Rows
from reproduction.studies.rows import Row, merge, rows_of
from reproduction.studies.study import Outcome, Study, Wanted

Progress = Callable[[str, int, int], None]


class Task(NamedTuple):
    """One block of repetitions of one cell."""

    study: str
    cell: int
    block: int
    repetitions: int
    seed: int
    wanted: Wanted


def run_study(
    study: Study,
    *,
    repetitions: int | None = None,
    seed: int | None = None,
    jobs: int = 1,
    methods: Sequence[str] | None = None,
    cells: Sequence[int] | None = None,
    progress: Progress | None = None,
    cache: Path | None = None,
    pool: Executor | None = None,
) -> list[Row]:
    """Run a study and return its rows, which a notebook shows as tables.

    Every cell and block has a seed of its own, so one cell can be run alone and the rows do
    not depend on ``jobs``; no methods give no rows. Blocks found in the ``cache`` are not
    simulated again, and each other one is kept there as soon as it is done. Several studies
    may share the processes of one ``pool``, made by `workers`; otherwise ``jobs`` are started
    for this one.
    """
    chosen = tuple(dict.fromkeys(range(len(study.cells)) if cells is None else cells))
    wanted = study.repetitions if repetitions is None else repetitions
    if wanted < 1:
        raise ValueError(f"a study needs at least one repetition, got {wanted}")
    base = study.seed if seed is None else seed
    evaluated = frozenset(study.methods if methods is None else methods)
    unknown = sorted(evaluated - set(study.methods))
    if unknown:
        raise ValueError(f"{study.name} has no method {unknown[0]!r}")
    if not evaluated:
        return Rows()
    tasks = [
        Task(study.name, index, block, size, base, evaluated)
        for index in chosen
        for block, size in enumerate(_blocks(wanted, study.block))
    ]
    kept = None if cache is None else BlockCache(cache)
    outcomes: dict[Task, Outcome] = {}
    for task, outcome in _finished(study, tasks, jobs, pool, kept):
        outcomes[task] = outcome
        if progress is not None:
            progress(study.name, len(outcomes), len(tasks))
    rows = Rows()
    for index in chosen:
        # In the order of the blocks, not of their ends, so that sums add up alike.
        parts = [outcomes[task] for task in tasks if task.cell == index]
        rows += rows_of(study, index, reduce(merge, parts))
    return rows


@contextmanager
def workers(jobs: int) -> Iterator[Executor | None]:
    """Give processes that several studies can share, none for one job."""
    if jobs == 1:
        yield None
        return
    others = set(active_children())
    # Spawned, not forked: a fork after threads were started may hang.
    pool = ProcessPoolExecutor(
        jobs, mp_context=get_context("spawn"), initializer=_start_worker, initargs=(os.getpid(),)
    )
    try:
        yield pool
    except BaseException:  # an interruption too: nobody waits for what is under way
        for worker in set(active_children()) - others:
            worker.terminate()
        raise
    finally:
        pool.shutdown(cancel_futures=True)  # after an error, start nothing more


def _start_worker(parent: int) -> None:
    """End with the command; what a terminal sends is for the command alone, which ends this."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    end_with_parent(parent, signal.SIGKILL)


def _finished(
    study: Study,
    tasks: Sequence[Task],
    jobs: int,
    pool: Executor | None,
    kept: BlockCache | None,
) -> Iterator[tuple[Task, Outcome]]:
    """Yield every block as it is found or done."""
    missing = []
    for task in tasks:
        outcome = None if kept is None else kept.get(_key(study, task))
        if outcome is None:
            missing.append(task)
        else:
            yield task, outcome
    for task, outcome in _simulated(study, missing, jobs, pool):
        if kept is not None:
            kept.put(_key(study, task), outcome)
        yield task, outcome


def _simulated(
    study: Study, tasks: Sequence[Task], jobs: int, pool: Executor | None
) -> Iterator[tuple[Task, Outcome]]:
    """Yield every block as it is done."""
    if pool is None and (jobs == 1 or len(tasks) < 2):
        for task in tasks:
            yield task, _block(study, task)
        return
    if STUDIES.get(study.name) is not study:
        raise ValueError(f"{study.name} is not in the catalog, where other processes look it up")
    if pool is None:
        with workers(jobs) as own:
            yield from _simulated(study, tasks, jobs, own)
        return
    futures = {pool.submit(_block_by_name, task): task for task in tasks}
    for future in as_completed(futures):
        yield futures[future], future.result()


def _block_by_name(task: Task) -> Outcome:
    return _block(STUDIES[task.study], task)


def _block(study: Study, task: Task) -> Outcome:
    stream = np.random.SeedSequence([task.seed, crc32(task.study.encode()), task.cell, task.block])
    rng = np.random.Generator(np.random.SFC64(stream))
    return study.simulate(study.cells[task.cell], rng, task.repetitions, task.wanted)


def _key(study: Study, task: Task) -> str:
    return block_key(
        study=task.study,
        cell=study.cells[task.cell],
        place=task.cell,
        block=task.block,
        repetitions=task.repetitions,
        seed=task.seed,
        methods=task.wanted,
    )


def _blocks(repetitions: int, size: int) -> list[int]:
    full, rest = divmod(repetitions, size)
    return [size] * full + ([rest] if rest else [])
