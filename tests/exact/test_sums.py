"""Sums that do not depend on the order of their terms, against exact fractions."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from proxyguard.exact import sums
from proxyguard.exact.contamination import (
    bentkus_ceiling,
    binomial_ceiling,
    chernoff_ceiling,
    most_at_cutoff,
    slack_score,
    stratified_ceiling,
)
from proxyguard.exact.rounding import MEAN_GUARD, TIE_GUARD, at_most
from proxyguard.exact.sums import ExactSums, run_sums, split

Array = NDArray[np.float64]
UNIT = st.one_of(
    st.floats(0.0, 1.0),
    st.sampled_from([0.0, 0.1, 0.2, 0.3, 1 / 3, 2 / 3, 1.0, 5e-324, 1e-300, 2.0**-27, 1 - 2**-53]),
)


def total(values: Array) -> float:
    running = ExactSums(1)
    running.add(values[None])
    return float(running.totals()[0, 0])


@given(st.lists(UNIT, min_size=1, max_size=60), st.randoms(), st.integers(1, 9))
def test_no_order_and_no_grouping_changes_a_sum(terms: list[float], random, chunk: int) -> None:
    whole = total(np.array(terms))
    random.shuffle(terms)
    running = ExactSums(1)
    for start in range(0, len(terms), chunk):
        running.add(np.array([terms[start : start + chunk]]))
    assert running.totals()[0, 0] == whole


@given(st.lists(UNIT, min_size=1, max_size=60))
def test_a_mean_is_the_exact_one_to_half_a_thousandth_of_the_tie_guard(terms: list[float]) -> None:
    exact = sum(map(Fraction, terms), Fraction(0)) / len(terms)
    error = abs(Fraction(total(np.array(terms)) / len(terms)) - exact)
    assert error <= Fraction(5, 10**16) < Fraction(TIE_GUARD) / 50


@given(UNIT)
def test_the_parts_are_whole_numbers_of_units_and_leave_half_a_fine_one(value: float) -> None:
    coarse, fine = (float(part[0]) for part in split(np.array([value])))
    assert Fraction(coarse) % Fraction(sums.COARSE) == 0
    assert Fraction(fine) % Fraction(sums.FINE) == 0
    assert abs(Fraction(fine)) <= Fraction(2) ** -27
    assert abs(Fraction(value) - Fraction(coarse) - Fraction(fine)) <= Fraction(sums.FINE) / 2


@pytest.mark.parametrize("span", [1, 7, 1 << 26])
def test_slots_and_runs_are_summed_like_everything_else(
    span: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sums, "SPAN", span)
    rng = np.random.default_rng(3)
    values, slots = rng.random((4, 500)), rng.integers(0, 6, 500)
    running = ExactSums(4, 6)
    for part in np.array_split(np.arange(500), 13):
        running.add_by_slot(values[:, part], slots[part])
    for slot in range(6):
        apart = ExactSums(4)
        apart.add(values[:, slots == slot])
        np.testing.assert_array_equal(running.totals()[:, slot], apart.totals()[:, 0])
    order = np.argsort(slots, kind="stable")
    starts = np.searchsorted(slots[order], np.arange(6))
    np.testing.assert_array_equal(run_sums(values[:, order], starts), running.totals())


def test_whole_numbers_of_losses_stay_whole() -> None:
    assert total(np.ones(100_000)) == 100_000.0
    assert total(np.full(3, 1 / 3)) == 1.0  # as many units as the nearest double to a third has


@given(st.integers(1, 400), st.data())
def test_every_share_at_or_below_a_cutoff_scores_and_the_ceiling_pays_for_it(
    n: int, data: st.DataObject
) -> None:
    digits = data.draw(st.integers(1, 4))
    whole = data.draw(st.integers(1, 10**digits - 2))
    cutoff = whole / 10**digits
    most = most_at_cutoff(cutoff, n)
    assert most == n * whole // 10**digits  # in whole numbers, ties included
    v = data.draw(st.floats(cutoff + 1e-3, 1.0 - 1e-4)) if cutoff < 0.998 else (cutoff + 1.0) / 2
    # The ceiling's count is never below the score's.
    assert binomial_ceiling(cutoff, v, n) >= binomial_ceiling(max((most - 0.5) / n, 1e-9), v, n)


@pytest.mark.parametrize("cutoff", [0.1, 0.2, 1 / 3, 0.5, 0.8])
def test_what_scores_lies_below_the_cutoff_that_the_ceilings_are_made_for(cutoff: float) -> None:
    # A computed mean that errs by the whole tie guard and still scores.
    farthest = Fraction(cutoff) + 2 * Fraction(TIE_GUARD)
    assert at_most(float(Fraction(cutoff) + Fraction(TIE_GUARD)), cutoff)
    assert not at_most(float(Fraction(cutoff) + Fraction(TIE_GUARD) + Fraction(1, 10**15)), cutoff)
    moved = Fraction(cutoff) + Fraction(MEAN_GUARD)
    assert farthest + Fraction(1, 10**15) < moved
    for ceiling in (chernoff_ceiling, bentkus_ceiling, stratified_ceiling):
        # The ceiling at the cutoff is at least the chance bound at the farthest mean, which the
        # same function gives there with its own guard on top taken off.
        assert ceiling(cutoff, 0.9, 1000) >= ceiling(float(farthest) - MEAN_GUARD, 0.9, 1000)


def test_a_score_needs_every_mean_below_its_own_cutoff() -> None:
    means = np.array([[0.1 + 0.2, 0.5], [0.3, 0.5 + 1e-12], [0.3, 0.4]])
    assert slack_score(means, np.array([0.3, 0.5])).tolist() == [True, False, True]
