"""Corrections for many looks: closed testing by full enumeration, R, and the stated orders."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from itertools import product
from typing import Any

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxyguard.exact.multiplicity import (
    Dependence,
    bonferroni,
    holm,
    holm_adjusted,
    intersection_union,
    spending_level,
    tail_fisher_count,
    tail_simes_count,
)
from proxyguard.exact.rounding import TINY

Reference = Callable[[str, str], list[dict[str, Any]]]

# Coarse values force ties, also with Holm's own levels.
coarse = st.lists(
    st.sampled_from([0.0, TINY, 0.001, 0.05 / 4, 0.05 / 3, 0.025, 0.05, 0.3, 1.0]),
    min_size=1,
    max_size=12,
)
levels = st.sampled_from([0.01, 0.05, 0.1, 0.5])


def numbers(row: dict[str, Any]) -> tuple[list[float], float]:
    return [float(Fraction(x)) for x in row["p"]], float(Fraction(row["alpha"]))


def test_holm_rejects_what_closed_bonferroni_testing_rejects(reference: Reference) -> None:
    for row in reference("multiplicity", "holm"):
        pvalues, alpha = numbers(row)
        assert np.flatnonzero(holm(pvalues, alpha=alpha)).tolist() == row["value"], row


def test_tail_simes_counts_what_closed_simes_testing_counts(reference: Reference) -> None:
    for row in reference("multiplicity", "simes_count"):
        pvalues, alpha = numbers(row)
        count = tail_simes_count(pvalues, alpha=alpha, dependence=Dependence.PRDS)
        assert count == row["value"], row


def test_adjusted_pvalues_agree_with_r(reference: Reference) -> None:
    for row in reference("r", "holm_adjusted"):
        ours = holm_adjusted([float(x) for x in row["p"]])
        # Both multiply a double by a whole number: one rounding.
        np.testing.assert_allclose(ours, [float(x) for x in row["value"]], rtol=4e-16)


@given(coarse, levels)
def test_bonferroni_rejects_no_more_than_holm_and_holm_no_more_than_tail_simes(
    pvalues: list[float], alpha: float
) -> None:
    single, step = bonferroni(pvalues, alpha=alpha), holm(pvalues, alpha=alpha)
    assert np.all(step[single])
    count = tail_simes_count(pvalues, alpha=alpha, dependence=Dependence.INDEPENDENT)
    assert count >= np.count_nonzero(step)  # Proposition 10, to the last bit


@given(
    st.integers(2, 40), st.integers(0, 2**32 - 1), st.sampled_from([0.05, 0.1, 0.01, 0.07, 1 / 3])
)
def test_tail_simes_is_at_least_holm_when_pvalues_sit_on_the_levels(
    size: int, seed: int, alpha: float
) -> None:
    rng = np.random.default_rng(seed)
    # Exactly Holm's doubles and their neighbours, where one rounding decides.
    ladder = alpha / np.arange(size, 0, -1)
    pvalues = np.where(rng.random(size) < 0.7, ladder, np.nextafter(ladder, 1.0))
    pvalues = rng.permutation(np.minimum(pvalues, 1.0))
    count = tail_simes_count(pvalues, alpha=alpha, dependence=Dependence.PRDS)
    assert count >= np.count_nonzero(holm(pvalues, alpha=alpha))


@given(coarse, levels)
def test_tail_simes_agrees_with_its_definition_in_exact_rationals(
    pvalues: list[float], alpha: float
) -> None:
    p = sorted(Fraction(x) for x in pvalues)
    size = len(p)

    def tail(k: int) -> Fraction:  # paper Eq. (15), k counted from 1
        return min((size - k + 1) * p[j - 1] / (j - k + 1) for j in range(k, size + 1))

    def exact_count(level: Fraction) -> int:
        running = Fraction(0)
        for k in range(1, size + 1):
            running = max(running, tail(k))
            if running > level:
                return k - 1
        return size

    count = tail_simes_count(pvalues, alpha=alpha, dependence=Dependence.PRDS)
    # The levels are rounded to doubles, so a tie within 4 eps may fall either way.
    slack = Fraction(1, 2**50)
    level = Fraction(alpha)
    assert exact_count(level * (1 - slack)) <= count <= exact_count(level * (1 + slack))


def test_a_rejection_by_holm_does_not_depend_on_the_order_given() -> None:
    rng = np.random.default_rng(3)
    pvalues = rng.choice([0.001, 0.01, 0.0125, 0.02, 0.5], size=9)
    order = rng.permutation(9)
    np.testing.assert_array_equal(holm(pvalues, alpha=0.1)[order], holm(pvalues[order], alpha=0.1))


@given(coarse)
def test_adjusted_pvalues_decide_as_holm_does_away_from_ties(pvalues: list[float]) -> None:
    adjusted = holm_adjusted(pvalues)
    alpha = 0.0499  # no multiple of a value in the pool
    np.testing.assert_array_equal(adjusted <= alpha, holm(pvalues, alpha=alpha))


@given(st.lists(st.floats(1e-300, 1.0), min_size=1, max_size=8), levels)
def test_tail_fisher_agrees_with_the_chi_square_tail_in_closed_form(
    pvalues: list[float], alpha: float
) -> None:
    ordered = sorted(pvalues)
    count = len(ordered)
    with mpmath.workdps(40):
        for k in range(len(ordered)):
            x = -mpmath.fsum(mpmath.log(p) for p in ordered[k:])
            # P(chi2_{2m} > 2x) = e^{-x} sum_{i<m} x^i/i!
            terms = [x**i / mpmath.factorial(i) for i in range(len(ordered) - k)]
            tail = mpmath.exp(-x) * mpmath.fsum(terms)
            if abs(tail / alpha - 1) < 1e-9:
                return  # within the guard of a tie either answer is right
            if tail > alpha:
                count = k
                break
    ours = tail_fisher_count(pvalues, alpha=alpha, dependence=Dependence.INDEPENDENT)
    assert ours == count


def test_size_of_holm_and_tail_simes_is_exact_for_discrete_null_pvalues() -> None:
    # Three independent nulls uniform on {1/15, 2/15, ..., 1}: 15^3 equally likely cases.
    alpha, cells = 0.25, 15
    grid = [(i + 1) / cells for i in range(cells)]
    false_holm = false_simes = 0
    for case in product(grid, repeat=3):
        false_holm += bool(np.any(holm(case, alpha=alpha)))
        false_simes += tail_simes_count(case, alpha=alpha, dependence=Dependence.INDEPENDENT) > 0
    assert 0 < false_holm < false_simes <= alpha * cells**3


def test_the_release_pvalue_is_the_largest_of_its_requirements() -> None:
    table = np.array([[[0.1, 0.3], [0.2, 0.05]], [[1.0, 0.0], [0.4, 0.4]]])
    assert intersection_union(table).tolist() == [[0.3, 0.2], [1.0, 0.4]]


def test_one_pvalue_is_compared_with_the_whole_level() -> None:
    for p, rejected in ((0.05, True), (np.nextafter(0.05, 1.0), False), (0.0, True)):
        assert bonferroni([p], alpha=0.05).tolist() == [rejected]
        assert holm([p], alpha=0.05).tolist() == [rejected]
        count = tail_simes_count([p], alpha=0.05, dependence=Dependence.PRDS)
        assert count == int(rejected)


def test_all_pvalues_zero_reject_everything_and_all_one_nothing() -> None:
    for value, expected in ((0.0, 7), (TINY, 7), (1.0, 0)):
        pvalues = [value] * 7
        assert np.count_nonzero(holm(pvalues, alpha=0.05)) == expected
        for count in (tail_simes_count, tail_fisher_count):
            assert count(pvalues, alpha=0.05, dependence=Dependence.INDEPENDENT) == expected


def test_the_levels_of_all_rounds_spend_less_than_alpha() -> None:
    spent = np.cumsum([spending_level(t, alpha=0.05) for t in range(1, 2001)])
    assert spent[-1] < 0.05
    # sum_{t > T} 1/t^2 is about 1/T: .05 * 6/pi^2/2000 = 1.5e-5 is left.
    assert 0.05 - spent[-1] == pytest.approx(0.05 * 6 / np.pi**2 / 2000, rel=1e-3, abs=0.0)
    assert spending_level(1, alpha=0.05) == pytest.approx(0.3 / np.pi**2, rel=2e-12, abs=0.0)


@pytest.mark.parametrize("dependence", [Dependence.ARBITRARY])
def test_tail_simes_refuses_one_shared_target(dependence: Dependence) -> None:
    with pytest.raises(ValueError, match="arbitrary"):
        tail_simes_count([0.1], alpha=0.05, dependence=dependence)


@pytest.mark.parametrize("dependence", [Dependence.ARBITRARY, Dependence.PRDS])
def test_tail_fisher_refuses_anything_but_independence(dependence: Dependence) -> None:
    with pytest.raises(ValueError, match=dependence.value):
        tail_fisher_count([0.1], alpha=0.05, dependence=dependence)


@pytest.mark.parametrize("bad", [[], [-0.1], [1.1], [0.5, np.nan]])
def test_no_pvalues_and_impossible_pvalues_are_refused(bad: list[float]) -> None:
    for call in (
        lambda: holm(bad, alpha=0.05),
        lambda: bonferroni(bad, alpha=0.05),
        lambda: holm_adjusted(bad),
        lambda: intersection_union(bad),
        lambda: tail_simes_count(bad, alpha=0.05, dependence=Dependence.PRDS),
        lambda: tail_fisher_count(bad, alpha=0.05, dependence=Dependence.INDEPENDENT),
    ):
        with pytest.raises(ValueError, match=r"at least one|\[0, 1\]"):
            call()


def test_rounds_are_counted_from_one() -> None:
    with pytest.raises(ValueError, match="got 0"):
        spending_level(0, alpha=0.05)
