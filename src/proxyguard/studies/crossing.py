"""Modes against component tests: a study's power as one table, the same cells in every entry."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from proxyguard.studies.count_tests import COUNT_TESTS
from proxyguard.studies.rows import Row
from proxyguard.studies.study import Study

MODES = ("named", "count", "sharp", "hybrid")
ALL_TESTS = (*COUNT_TESTS, "randomized binomial", "betting")
POWERS = ("power", "validated")


def crossed_power(
    study: Study, rows: Sequence[Row], is_error: Callable[[Row], bool]
) -> tuple[int, dict[tuple[str, str], float]]:
    """Return the mean power of every mode with every test, and over how many cells it is.

    Only cells in which all of them were run are averaged, so that no entry has easier ones.
    """
    powers: dict[tuple[str, str], dict[str, float]] = {}
    for row in rows:
        mode, _, test = study.also.get(row.method, row.method).partition(", ")
        if mode in MODES and test and row.metric in POWERS and not is_error(row):
            cell = repr(sorted(row.cell.items()))
            powers.setdefault((mode, test), {})[cell] = row.value
    full = {test for _, test in powers if all((mode, test) in powers for mode in _modes(powers))}
    kept = {pair: cells for pair, cells in powers.items() if pair[1] in full}
    common = set.intersection(*(set(cells) for cells in kept.values())) if kept else set()
    if not common:
        return 0, {}
    means = {pair: float(np.mean([cells[c] for c in common])) for pair, cells in kept.items()}
    return len(common), means


def _modes(powers: dict[tuple[str, str], dict[str, float]]) -> list[str]:
    """Return the modes that a study has, in order."""
    return [mode for mode in MODES if any(mode == found for found, _ in powers)]


def cross_table(study: Study, rows: Sequence[Row], is_error: Callable[[Row], bool]) -> str:
    """Return the table in Markdown, nothing for a study that does not cross modes and tests."""
    cells, means = crossed_power(study, rows, is_error)
    tests = sorted(
        {test for _, test in means},
        key=lambda test: -max(value for (_, one), value in means.items() if one == test),
    )
    modes = [mode for mode in MODES if any(mode == one for one, _ in means)]
    if len(tests) < 2 or len(modes) < 2:
        return ""
    top = f"| mode | {' | '.join(tests)} |"
    rule = f"| --- |{' ---: |' * len(tests)}"
    lines = [
        f"| {mode} | {' | '.join(f'{100 * means[mode, test]:.1f} %' for test in tests)} |"
        for mode in modes
    ]
    where = f"the {cells} cells" if cells > 1 else "the one cell"
    return "\n".join(
        [
            f"Mode against test, mean power over {where} in which all were run:",
            "",
            top,
            rule,
            *lines,
        ]
    )


def with_tests(rows: Sequence[Row], tests: Sequence[str]) -> list[Row]:
    """Return the rows without those of a mode crossed with any other test."""

    def kept(row: Row) -> bool:
        mode, _, test = row.method.partition(", ")
        return mode not in MODES or not test or test in tests or test not in ALL_TESTS

    return [row for row in rows if kept(row)]
