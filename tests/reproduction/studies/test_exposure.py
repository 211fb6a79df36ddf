"""The study of exposure: its sums by enumeration, and what the paper's design can decide."""

from __future__ import annotations

from itertools import product
from math import comb, exp

import numpy as np
import pytest

from proxyguard.exact.exposure import advantage_pvalues
from reproduction.studies import exposure
from reproduction.studies.exposure import CELLS, DESIGN, EVERY, METHODS_OF


def test_no_test_decides_wrongly_more_often_than_its_level_by_sums() -> None:
    wrong = [cell for cell in CELLS if exposure.metric_of(cell).startswith("false")]
    assert {cell["claim"] for cell in wrong} == {"one threshold", "violation", EVERY}
    for cell in wrong:
        for (method, _), rate in exposure.exact_rates(cell).items():
            assert rate <= exposure.level_of(method), (cell, method)


@pytest.mark.parametrize("pairs", [27, 100, 250])
def test_the_papers_design_validates_nothing_whatever_the_release(pairs: int) -> None:
    # The best release there is: no member is flagged at all, so that the mean difference is minus
    # the false alarms, about -.05. More than .15 of its fresh records would have to be flagged.
    table = exposure.paired_table(pairs, 0.05, 0.05 / 12, False)
    counts = np.arange(pairs + 1)
    passing = table[pairs - counts]
    chance = sum(
        comb(pairs, int(k)) * 0.05**k * 0.95 ** (pairs - k) for k in counts[passing].tolist()
    )
    assert counts[passing].min() / pairs > 0.15
    assert chance < 1e-8
    exact = exposure.chance({"claim": DESIGN, "n": pairs, "advantage": 0.0, "ceiling": 0.05},
                            "exact, .05/12")  # fmt: skip
    assert exact > 0.74


@pytest.mark.parametrize("against", [False, True])
def test_the_paired_test_is_hoeffdings_on_differences(against: bool) -> None:
    n, level = 40, 0.3
    for total, decided in zip(
        range(-n, n + 1), exposure.paired_table(n, 0.05, level, against), strict=True
    ):
        gap = total / n - 0.05 if against else 0.05 - total / n
        pvalue = exp(-n * max(gap, 0.0) ** 2 / 2)
        assert decided == (pvalue <= level) or pvalue == pytest.approx(level, rel=1e-6)


def test_the_chance_to_stay_above_is_that_of_all_outcomes() -> None:
    rates, least, n = np.array([0.2, 0.5, 0.9]), np.array([1, 1, 3]), 4
    steps, expected = np.diff(rates, prepend=0.0, append=1.0), 0.0
    for outcome in product(range(4), repeat=n):
        counts = np.cumsum(np.bincount(outcome, minlength=4))[:3]
        expected += float(np.prod(steps[list(outcome)])) * bool((counts >= least).all())
    assert exposure.never_below(rates, least, n) == pytest.approx(expected, rel=1e-12)


def test_the_counts_that_validate_are_found_by_trying_all() -> None:
    n, ceiling, level = 60, 0.1, 0.05
    p, _ = advantage_pvalues(np.arange(n + 1), n, exposure.RANKS[:, None], ceiling)
    tried = np.count_nonzero(p > level, axis=1)
    assert exposure.needed(n, ceiling, level).tolist() == tried.tolist()


def test_every_cell_has_the_methods_of_its_claim() -> None:
    for cell in CELLS:
        found = exposure.exposure(
            cell, np.random.default_rng(1), 20, frozenset(METHODS_OF[cell["claim"]])
        )
        assert {method for method, _ in found} == set(METHODS_OF[cell["claim"]])
