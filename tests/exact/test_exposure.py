"""Exposure from counts: reference values and power by exact sums, and what must hold always.

Every reference here is a sum of fractions of whole numbers, without scipy.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import cache
from itertools import accumulate, product
from math import comb, exp, log

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxyguard.evidence.component import component_pvalues
from proxyguard.exact.exposure import (
    advantage_pvalues,
    epsilon_lower,
    epsilon_pvalue,
    everywhere_pvalue,
    everywhere_violation_pvalue,
    hypergeometric_lower,
    hypergeometric_upper,
    tpr_pvalues,
)
from proxyguard.exact.rounding import TINY
from proxyguard.losses.cell import share_column
from proxyguard.registry.design import Iid
from proxyguard.registry.requirement import Form, Requirement
from proxyguard.registry.test import ComponentTest


@cache
def ways(n: int, rate: Fraction) -> tuple[list[int], int]:
    """Return ``P(Bin(n, rate) = k)`` for every k in whole numbers, and what to divide them by."""
    a, b = rate.numerator, rate.denominator
    return [comb(n, k) * a**k * (b - a) ** (n - k) for k in range(n + 1)], b**n


def masses(n: int, rate: Fraction) -> list[Fraction]:
    numbers, whole = ways(n, rate)
    return [Fraction(number, whole) for number in numbers]


def at_least(n: int, k: int, rate: Fraction) -> Fraction:
    numbers, whole = ways(n, rate)
    return Fraction(sum(numbers[k:]), whole)


def at_most(n: int, k: int, rate: Fraction) -> Fraction:
    numbers, whole = ways(n, rate)
    return Fraction(sum(numbers[: k + 1]), whole)


CASES = [
    (n, k, Fraction(a, members), Fraction(tau))
    for n, ks in ((1, (0, 1)), (54, (0, 3, 9, 54)), (200, (0, 12, 31, 200)))
    for k in ks
    for a, members in ((5, 100), (37, 162), (162, 162), (1, 3), (0, 7))
    for tau in ("0.05", "0.1", "0.3")
]


@pytest.mark.parametrize(("n", "k", "share", "tau"), CASES)
def test_advantage_pvalues_agree_with_exact_sums_and_are_never_below_them(
    n: int, k: int, share: Fraction, tau: Fraction
) -> None:
    p, q = (float(x) for x in advantage_pvalues(k, n, float(share), float(tau)))
    rate = share - tau
    exact_p = at_least(n, k, rate) if rate >= 0 else Fraction(0)
    exact_q = at_most(n, k, rate) if rate > 0 else Fraction(1)
    # The rate is moved by 1e-13 and a last place: by 2e-13 n in all where the tail is not small.
    for found, value in ((p, exact_p), (q, exact_q)):
        assert Fraction(found) >= value
        assert found == pytest.approx(float(value), rel=1e-9, abs=3e-13 * n)


def test_a_share_below_the_ceiling_needs_no_record_to_be_valid_and_none_can_violate_it() -> None:
    p, q = advantage_pvalues([0, 5], 10, 0.04, 0.05)
    assert p.tolist() == [TINY, TINY]
    assert q.tolist() == [1.0, 1.0]


def test_pvalues_of_a_column_are_these_to_the_last_bit() -> None:
    requirement = Requirement(name="x", low=-1, high=1, limit=0.05, form=Form.QUERY, indicator=True)
    share = np.array([0.05, 0.1, 1 / 3, 0.9999])
    flagged = np.array([3, 0, 17, 40])
    column = share_column(54, 54 - flagged, 1.0 - share)
    pair = component_pvalues(column, requirement, ComponentTest.BINOMIAL, Iid())
    for ours, theirs in zip(advantage_pvalues(flagged, 54, share, 0.05), pair, strict=True):
        assert ours.tolist() == theirs.tolist()


# Printed with two digits: chance of validation at false alarms of .05 and a ceiling of .05, by true
# advantage 0, .01, .02, .03, at level .05 and at .05/12.
VALIDATION = {
    54: ((0.94, 0.51, 0.28, 0.13), (0.94, 0.28, 0.05, 0.02)),
    250: ((1, 0.99, 0.81, 0.48), (1, 0.94, 0.48, 0.19)),
    500: ((1, 1, 0.98, 0.69), (1, 1, 0.87, 0.37)),
    1000: ((1, 1, 1, 0.94), (1, 1, 0.99, 0.74)),
    2000: ((1, 1, 1, 1.00), (1, 1, 1, 0.97)),
}
# The same of violation, by true advantage .10, .15, .20, .30, at level .05/48.
VIOLATION = {
    54: (0, 0.06, 0.49, 0.98),
    100: (0.04, 0.44, 0.94, 1),
    250: (0.40, 0.99, 1, 1),
    500: (0.87, 1, 1, 1),
}
FALSE_ALARMS = Fraction("0.05")


def chance(n: int, decided: np.ndarray) -> float:
    """Return the exact chance that the count of flagged nonmembers is one of those decided."""
    numbers, whole = ways(n, FALSE_ALARMS)
    return float(Fraction(sum(numbers[k] for k in np.flatnonzero(decided)), whole))


@pytest.mark.parametrize("n", VALIDATION)
def test_the_power_of_validation_at_a_threshold_is_that_of_the_table(n: int) -> None:
    for level, row in zip((0.05, 0.05 / 12), VALIDATION[n], strict=True):
        for advantage, printed in zip(("0", "0.01", "0.02", "0.03"), row, strict=True):
            share = float(FALSE_ALARMS + Fraction(advantage))
            p, _ = advantage_pvalues(np.arange(n + 1), n, share, 0.05)
            assert round(chance(n, p <= level), 2) == printed, (n, level, advantage)


@pytest.mark.parametrize("n", VIOLATION)
def test_the_power_of_violation_at_a_threshold_is_that_of_the_table(n: int) -> None:
    for advantage, printed in zip(("0.1", "0.15", "0.2", "0.3"), VIOLATION[n], strict=True):
        share = float(FALSE_ALARMS + Fraction(advantage))
        _, q = advantage_pvalues(np.arange(n + 1), n, share, 0.05)
        assert round(chance(n, q <= 0.05 / 48), 2) == printed, (n, advantage)


@pytest.mark.parametrize("n", [1, 7, 40])
def test_a_threshold_at_its_ceiling_is_decided_wrongly_within_the_level_by_exact_sums(
    n: int,
) -> None:
    # Sums of fractions, at every level that the counts can attain.
    for share, tau in product((Fraction(1, 5), Fraction(9, 10)), (Fraction(1, 20), Fraction(1, 5))):
        mass = masses(n, share - tau)
        for pvalues in advantage_pvalues(np.arange(n + 1), n, float(share), float(tau)):
            for level in pvalues:
                size = sum(
                    (m for m, p in zip(mass, pvalues, strict=True) if p <= level), Fraction(0)
                )
                assert size <= Fraction(float(level))


@given(
    st.integers(1, 300).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n))),
    st.floats(0.0, 1.0),
    st.floats(0.001, 0.999),
)
def test_more_flagged_nonmembers_speak_for_a_release(
    counts: tuple[int, int], share: float, limit: float
) -> None:
    n, k = counts
    p, q = advantage_pvalues(np.arange(n + 1), n, share, limit)
    assert (np.diff(p) <= 0.0).all()
    assert (np.diff(q) >= 0.0).all()
    # One of the two tails holds the count itself, so that both cannot be small.
    assert p[k] + q[k] >= 1.0 or p[k] == TINY
    assert ((p > 0.0) & (p <= 1.0) & (q > 0.0) & (q <= 1.0)).all()


def test_a_null_that_is_larger_off_iid_designs_has_larger_pvalues() -> None:
    counts = np.arange(101)
    iid = advantage_pvalues(counts, 100, 0.3, 0.1)
    other = advantage_pvalues(counts, 100, 0.3, 0.1, identical=False)
    for a, b in zip(iid, other, strict=True):
        assert (b >= a).all()
        assert (b > a).any()


def test_shares_outside_the_unit_interval_are_refused() -> None:
    with pytest.raises(ValueError, match="shares of members"):
        advantage_pvalues(1, 10, 1.2, 0.1)
    with pytest.raises(ValueError, match="shares of members"):
        advantage_pvalues(1, 10, float("nan"), 0.1)


@given(st.lists(st.tuples(st.integers(0, 40), st.integers(0, 10)), min_size=1, max_size=8))
def test_everywhere_is_the_worst_threshold_and_a_violation_pays_for_each(
    points: list[tuple[int, int]],
) -> None:
    flagged, share = np.array([k for k, _ in points]), np.array([a for _, a in points]) / 10
    p, q = advantage_pvalues(flagged, 40, share, 0.1)
    assert everywhere_pvalue(flagged, 40, share, 0.1) == p.max()
    paid = float(everywhere_violation_pvalue(flagged, 40, share, 0.1))
    assert paid >= min(1.0, len(points) * q.min())
    assert paid == pytest.approx(min(1.0, len(points) * q.min()), rel=1e-11)


@pytest.mark.parametrize(("n", "k"), [(30, 0), (30, 2), (150, 4), (150, 150)])
@pytest.mark.parametrize("f", ["0.01", "0.05", "0.001"])
def test_found_members_at_false_alarms_agree_with_exact_sums(n: int, k: int, f: str) -> None:
    p, q = tpr_pvalues(k, n, float(f))
    for found, value in ((p, at_least(n, k, Fraction(f))), (q, at_most(n, k, Fraction(f)))):
        assert Fraction(float(found)) >= value
        assert float(found) == pytest.approx(float(value), rel=1e-7, abs=TINY)


def sampled(count: int, sample: int, members: int, flagged: int) -> Fraction:
    """Return ``P(H <= count)`` by counting samples."""
    samples = [comb(flagged, h) * comb(members - flagged, sample - h) for h in range(count + 1)]
    return Fraction(sum(samples), comb(members, sample))


@pytest.mark.parametrize(("sample", "members"), [(1, 1), (1, 9), (5, 12), (12, 12), (20, 61)])
@pytest.mark.parametrize("alpha", [0.001, 0.05, 0.3])
def test_limits_of_a_sampled_census_are_those_of_counting_samples(
    sample: int, members: int, alpha: float
) -> None:
    for count in range(sample + 1):
        possible = [
            flagged for flagged in range(count, members - sample + count + 1)
            if sampled(count, sample, members, flagged) > Fraction(alpha)
        ]  # fmt: skip
        assert hypergeometric_upper(count, sample, members, alpha=alpha) == max(possible)
        mirror = hypergeometric_upper(sample - count, sample, members, alpha=alpha)
        assert hypergeometric_lower(count, sample, members, alpha=alpha) == members - mirror


@pytest.mark.parametrize(
    ("count", "sample", "members", "alpha"),
    [(60, 1200, 40_000, 0.001), (0, 2000, 1_000_000, 0.01), (795, 800, 30_000, 0.05)],
)
def test_a_large_sample_has_the_limit_of_whole_numbers(
    count: int, sample: int, members: int, alpha: float
) -> None:
    limit = hypergeometric_upper(count, sample, members, alpha=alpha)
    assert sampled(count, sample, members, limit) > Fraction(alpha)
    if limit < members - sample + count:
        # One more would be refuted, but for what rounding may hide.
        assert sampled(count, sample, members, limit + 1) <= Fraction(alpha) * Fraction(1.000001)


@pytest.mark.parametrize(("sample", "members", "flagged"), [(5, 14, 3), (9, 30, 30), (8, 40, 17)])
def test_a_sampled_census_fails_within_its_error_by_counting_samples(
    sample: int, members: int, flagged: int
) -> None:
    for alpha in (0.01, 0.05, 0.25):
        miss_above = miss_below = Fraction(0)
        for h in range(max(0, sample - members + flagged), min(sample, flagged) + 1):
            mass = Fraction(
                comb(flagged, h) * comb(members - flagged, sample - h), comb(members, sample)
            )
            miss_above += mass * (hypergeometric_upper(h, sample, members, alpha=alpha) < flagged)
            miss_below += mass * (hypergeometric_lower(h, sample, members, alpha=alpha) > flagged)
        assert max(miss_above, miss_below) <= Fraction(alpha)


def test_a_sample_that_cannot_be_is_refused() -> None:
    for count, sample, members in ((3, 2, 9), (1, 10, 9), (-1, 2, 9), (0, 0, 9)):
        with pytest.raises(ValueError, match="count <= sample <= members"):
            hypergeometric_upper(count, sample, members, alpha=0.05)


def guessing(w: int, r: int, rate: Fraction, weight: Fraction) -> Fraction:
    """Return the bound of Steinke, Nasr and Jagielski as a sum of fractions."""
    mass = masses(r, rate)
    below = list(accumulate(mass[w - i] for i in range(1, w + 1)))
    extra = max((Fraction(b, 1) / i for i, b in enumerate(below, start=1)), default=Fraction(0))
    return min(Fraction(1), sum(mass[w:], Fraction(0)) + weight * extra)


@pytest.mark.parametrize(("right", "guesses"), [(0, 3), (3, 3), (60, 100), (88, 100), (100, 100)])
@pytest.mark.parametrize("delta", [0.0, 1e-6, 1e-3])
def test_pvalues_of_epsilon_agree_with_exact_sums_and_are_never_below_them(
    right: int, guesses: int, delta: float
) -> None:
    # e^epsilon = 3: the rate is 3/4, a fraction.
    exact = guessing(right, guesses, Fraction(3, 4), 400 * Fraction(delta))
    found = epsilon_pvalue(right, guesses, log(3.0), delta=delta, coins=200)
    assert Fraction(found) >= exact
    assert found == pytest.approx(float(exact), rel=1e-9)


@pytest.mark.parametrize(("right", "guesses"), [(60, 100), (88, 100), (100, 100), (999, 1000)])
def test_the_limit_of_epsilon_is_where_its_pvalue_meets_the_level(right: int, guesses: int) -> None:
    for delta in (0.0, 1e-9, 1e-5):
        limit = epsilon_lower(right, guesses, alpha=0.05, delta=delta, coins=1000)
        if limit == 0.0:
            assert epsilon_pvalue(right, guesses, 1e-6, delta=delta, coins=1000) > 0.05
            continue
        below = epsilon_pvalue(right, guesses, limit * (1 - 1e-6), delta=delta, coins=1000)
        above = epsilon_pvalue(right, guesses, limit * (1 + 1e-6), delta=delta, coins=1000)
        assert below <= 0.05 < above
    # Without delta it is one root of a sum: rate^guesses = alpha where all guesses are right.
    if right == guesses:
        rate = 0.05 ** (1 / guesses)
        assert epsilon_lower(right, guesses, alpha=0.05) == pytest.approx(log(rate / (1 - rate)))


@pytest.mark.parametrize("delta", [0.0, 1e-3, 4e-3])
def test_a_limit_of_epsilon_exceeds_the_truth_within_its_level_by_exact_sums(delta: float) -> None:
    # Randomised response of 60 coins is epsilon-private, and private with any delta.
    r, epsilon = 60, log(3.0)
    mass = masses(r, Fraction(3, 4))
    wrong = sum(
        (m for w, m in enumerate(mass)
         if epsilon_lower(w, r, alpha=0.05, delta=delta, coins=r) > epsilon),
        Fraction(0),
    )  # fmt: skip
    assert wrong <= Fraction(0.05)


def test_a_delta_that_publishes_rows_is_refuted_by_nothing() -> None:
    # With 2 delta coins > 1 the p-value need not rise with epsilon.
    assert epsilon_lower(100, 100, alpha=0.05, delta=0.01, coins=100) == 0.0
    assert epsilon_lower(100, 100, alpha=0.05, delta=0.001, coins=100) > 2.0


@pytest.mark.parametrize(
    "call",
    [
        lambda: epsilon_pvalue(5, 4, 1.0),
        lambda: epsilon_pvalue(0, 0, 1.0),
        lambda: epsilon_pvalue(1, 4, -1.0),
        lambda: epsilon_pvalue(1, 4, float("nan")),
        lambda: epsilon_pvalue(1, 4, 1.0, delta=1e-5),
        lambda: epsilon_lower(1, 4, alpha=0.0),
        lambda: epsilon_lower(1, 4, alpha=0.05, delta=1e-5, coins=3),
    ],
)
def test_guesses_that_cannot_be_are_refused(call: Callable[[], float]) -> None:
    with pytest.raises(ValueError, match=r"need|with delta|alpha"):
        call()


def test_a_huge_epsilon_is_never_refuted() -> None:
    assert epsilon_pvalue(1000, 1000, 40.0) == 1.0
    assert epsilon_pvalue(1000, 1000, 0.0) < 1e-300
    assert exp(epsilon_lower(1000, 1000, alpha=0.05)) == pytest.approx(1000 / -log(0.05), rel=0.01)
