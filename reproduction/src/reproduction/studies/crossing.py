"""Modes against component tests: a study's power as one table, the same cells in every entry."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from proxyguard.modes.catalog import planned_modes
from proxyguard.modes.direct import Direct
from proxyguard.modes.named import Named
from proxyguard.registry.test import Bound
from reproduction.studies.count_tests import COUNT_TESTS
from reproduction.studies.rows import Row
from reproduction.studies.study import Study

SHARP = Bound.SHARP.value
MODES = tuple(
    SHARP if kind is Direct else kind.mode
    for kind in sorted(planned_modes(), key=lambda kind: kind is not Named)  # the paper's first
    if kind.tested
)
"""The modes whose releases pass by a test, as methods call them: the direct one by its bound."""
ALL_TESTS = (*COUNT_TESTS, "randomized binomial", "betting")
POWERS = ("power", "validated")


@dataclass(frozen=True, slots=True, kw_only=True)
class Mean:
    """A mean power over cells, with its Monte Carlo error and the repetitions of each cell."""

    value: float
    standard_error: float
    repetitions: int


def crossed_power(
    study: Study, rows: Sequence[Row], is_error: Callable[[Row], bool]
) -> tuple[int, dict[tuple[str, str], Mean]]:
    """Return the mean power of every mode with every test, and over how many cells it is.

    Only cells in which all of them were run are averaged, so that no entry has easier ones.
    """
    powers: dict[tuple[str, str], dict[str, Row]] = {}
    for row in rows if study.cross else ():
        mode, _, test = study.also.get(row.method, row.method).partition(", ")
        if mode in MODES and test and row.metric in POWERS and not is_error(row):
            powers.setdefault((mode, test), {})[repr(sorted(row.cell.items()))] = row
    modes = {mode for mode, _ in powers}
    full = {test for _, test in powers if all((mode, test) in powers for mode in modes)}
    kept = {pair: cells for pair, cells in powers.items() if pair[1] in full}
    common = set.intersection(*(set(cells) for cells in kept.values())) if kept else set()
    # In order: a sum of floats in the order of a set could differ from run to run.
    means = {
        pair: _mean([cells[c] for c in sorted(common)]) for pair, cells in kept.items() if common
    }
    return len(common), means


def _mean(rows: Sequence[Row]) -> Mean:
    errors = [row.standard_error or 0.0 for row in rows]
    return Mean(
        value=float(np.mean([row.value for row in rows])),
        standard_error=float(np.sqrt(np.sum(np.square(errors)))) / len(rows),
        repetitions=rows[0].repetitions,
    )


def cross_table(study: Study, rows: Sequence[Row], is_error: Callable[[Row], bool]) -> str:
    """Return the table in Markdown, nothing for a study that does not cross modes and tests."""
    cells, means = crossed_power(study, rows, is_error)
    tests = [test for test in ALL_TESTS if any(test == one for _, one in means)]
    modes = [mode for mode in MODES if any(mode == one for one, _ in means)]
    if len(tests) < 2 or len(modes) < 2:
        return ""
    runs = {test: next(m.repetitions for (_, one), m in means.items() if one == test)
            for test in tests}  # fmt: skip
    heads = [f"{test}<br>{runs[test]:,} runs a cell" for test in tests]
    lines = [
        f"| {mode} | "
        + " | ".join(
            f"{100 * means[mode, test].value:.1f} ± {100 * means[mode, test].standard_error:.1f} %"
            for test in tests
        )
        + " |"
        for mode in modes
    ]
    where = f"the {cells} cells" if cells > 1 else "the one cell"
    fewer = (
        " Tests with fewer runs saw a part of the targets that the others saw: a difference of "
        "two errors says nothing."
        if len(set(runs.values())) > 1
        else ""
    )
    return "\n".join(
        [
            f"Mode against test, mean power over {where} in which all were run.{fewer}",
            "",
            f"| mode | {' | '.join(heads)} |",
            f"| --- |{' ---: |' * len(tests)}",
            *lines,
        ]
    )


def with_tests(rows: Sequence[Row], tests: Sequence[str]) -> list[Row]:
    """Return the rows without those of a mode crossed with any other test."""

    def kept(row: Row) -> bool:
        mode, _, test = row.method.partition(", ")
        return mode not in MODES or not test or test in tests or test not in ALL_TESTS

    return [row for row in rows if kept(row)]
