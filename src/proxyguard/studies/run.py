"""Run studies: seeds for each cell and block, several processes, one verdict."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from zlib import crc32

import numpy as np

from proxyguard.studies.catalog import STUDIES
from proxyguard.studies.rows import Row, merge, rows_of
from proxyguard.studies.study import Outcome, Study, Wanted

Progress = Callable[[str, int, int], None]
Task = tuple[str, int, int, int, int, Wanted]
"""Study, cell, block, repetitions, seed and the methods to evaluate."""


def run_study(
    study: Study,
    *,
    repetitions: int | None = None,
    seed: int | None = None,
    jobs: int = 1,
    methods: Sequence[str] | None = None,
    cells: Sequence[int] | None = None,
    progress: Progress | None = None,
) -> list[Row]:
    """Run a study and return its rows.

    Every cell and block has a seed of its own, so one cell can be run alone and the rows do
    not depend on ``jobs``.
    """
    chosen = range(len(study.cells)) if cells is None else cells
    wanted = study.repetitions if repetitions is None else repetitions
    if wanted < 1:
        raise ValueError(f"a study needs at least one repetition, got {wanted}")
    base = study.seed if seed is None else seed
    tasks = [
        (study.name, index, block, size, base, frozenset(methods or study.methods))
        for index in chosen
        for block, size in enumerate(_blocks(wanted, study.block))
    ]
    outcomes: dict[int, Outcome] = {}
    for done, (index, outcome) in enumerate(_results(tasks, jobs), start=1):
        outcomes[index] = outcome if index not in outcomes else merge(outcomes[index], outcome)
        if progress is not None:
            progress(study.name, done, len(tasks))
    return [row for index in chosen for row in rows_of(study, index, outcomes[index])]


def _results(tasks: Sequence[Task], jobs: int) -> Sequence[tuple[int, Outcome]]:
    if jobs == 1:
        return [_block(task) for task in tasks]
    # Spawned, not forked: a fork after threads were started may hang.
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        return list(pool.map(_block, tasks))  # in order, so that sums add up alike


def _block(task: Task) -> tuple[int, Outcome]:
    name, index, block, size, seed, wanted = task
    study = STUDIES[name]
    stream = np.random.SeedSequence([seed, crc32(name.encode()), index, block])
    rng = np.random.Generator(np.random.SFC64(stream))
    return index, study.simulate(study.cells[index], rng, size, wanted)


def _blocks(repetitions: int, size: int) -> list[int]:
    full, rest = divmod(repetitions, size)
    return [size] * full + ([rest] if rest else [])
