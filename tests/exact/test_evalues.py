"""Counts from e-values: full closed testing, exact ties, and the guarantee over any joint law."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from itertools import pairwise, product
from math import inf
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxyguard.exact.evalues import (
    e_bh,
    largest_invalid_count,
    mixture_evalues,
    subset_invalid_count,
)
from proxyguard.exact.multiplicity import bonferroni
from proxyguard.exact.rounding import TINY

Reference = Callable[[str, str], list[dict[str, Any]]]

TWENTIETH = Fraction(1, 20)
rationals = st.fractions(min_value=0, max_value=60, max_denominator=8)


def test_counts_agree_with_full_enumeration(reference: Reference) -> None:
    for row in reference("multiplicity", "e_count"):
        evalues = [Fraction(x) for x in row["e"]]
        most = largest_invalid_count(evalues, alpha=Fraction(row["alpha"]))
        assert most == row["m_star"], row


def test_subset_counts_agree_with_full_closed_testing(reference: Reference) -> None:
    for row in reference("multiplicity", "e_subset"):
        evalues = [Fraction(x) for x in row["e"]]
        inside = [r in row["S"] for r in range(len(evalues))]
        most = subset_invalid_count(evalues, inside, alpha=Fraction(row["alpha"]))
        assert most == row["value"], row


@given(st.lists(rationals, min_size=1, max_size=7), st.data())
def test_subset_counts_agree_with_closed_testing_on_random_subsets(
    evalues: list[Fraction], data: st.DataObject
) -> None:
    size = len(evalues)
    inside = data.draw(st.lists(st.booleans(), min_size=size, max_size=size))
    worst = 0
    for marks in product([False, True], repeat=size):
        chosen = [r for r in range(size) if marks[r]]
        if chosen and sum(evalues[r] for r in chosen) < 20 * len(chosen):
            worst = max(worst, sum(inside[r] for r in chosen))
    assert subset_invalid_count(evalues, inside, alpha=TWENTIETH) == worst


@given(st.lists(rationals, min_size=1, max_size=12))
def test_the_subset_of_all_releases_gives_the_overall_count(evalues: list[Fraction]) -> None:
    everyone = [True] * len(evalues)
    overall = largest_invalid_count(evalues, alpha=TWENTIETH)
    assert subset_invalid_count(evalues, everyone, alpha=TWENTIETH) == overall
    assert subset_invalid_count(evalues, [False] * len(evalues), alpha=TWENTIETH) == 0


@given(
    st.integers(1, 60),
    st.data(),
    st.fractions(min_value=Fraction(1, 400), max_value=Fraction(1, 4), max_denominator=400),
)
def test_the_threshold_count_depends_on_the_favorable_scores_alone(
    size: int, data: st.DataObject, threshold: Fraction
) -> None:
    favorable = data.draw(st.integers(0, size))
    alpha = data.draw(st.sampled_from([threshold, TWENTIETH, Fraction(1, 7), Fraction(9, 10)]))
    pvalues = [0.0] * favorable + [1.0] * (size - favorable)
    evalues = mixture_evalues(pvalues, thresholds=[threshold])
    # Theory section 3: the m smallest hold max(0, m - (R - N)) favorable scores, 1/t each.
    most = max(
        (m for m in range(1, size + 1) if max(0, m - size + favorable) * alpha < m * threshold),
        default=0,
    )
    assert largest_invalid_count(evalues, alpha=alpha) == most


@given(
    st.lists(st.sampled_from([0.0, TINY, 1e-4, 0.001, 0.002, 0.01, 0.05, 1.0]), min_size=1,
             max_size=50),
    st.sampled_from([0.05, 0.01, 0.1, 0.045]),
    st.data(),
)  # fmt: skip
def test_the_threshold_alpha_over_r_gives_the_bonferroni_count(
    pvalues: list[float], alpha: float, data: st.DataObject
) -> None:
    size = len(pvalues)
    # Values exactly on the Bonferroni level and its two neighbours decide ties.
    level = alpha / size
    ties = [level, float(np.nextafter(level, 0.0)), float(np.nextafter(level, 1.0))]
    for place in data.draw(st.lists(st.integers(0, size - 1), max_size=6)):
        pvalues[place] = data.draw(st.sampled_from(ties))
    exact = Fraction(alpha)
    evalues = mixture_evalues(pvalues, thresholds=[exact / size])
    count = size - largest_invalid_count(evalues, alpha=exact)
    assert count == np.count_nonzero(bonferroni(pvalues, alpha=alpha))


@given(
    st.lists(st.floats(0.0, 1.0), min_size=1, max_size=15),
    st.data(),
    st.sampled_from([[Fraction(1, 100)], [Fraction(1, 1000), Fraction(1, 50), Fraction(1, 2)]]),
)
def test_a_larger_pvalue_never_raises_the_count_of_valid_releases(
    pvalues: list[float], data: st.DataObject, thresholds: list[Fraction]
) -> None:
    place = data.draw(st.integers(0, len(pvalues) - 1))
    pvalues = [p**3 for p in pvalues]  # more of them near the thresholds
    raised = list(pvalues)
    raised[place] = data.draw(st.floats(pvalues[place], 1.0))
    before, after = (
        largest_invalid_count(mixture_evalues(p, thresholds=thresholds), alpha=TWENTIETH)
        for p in (pvalues, raised)
    )
    assert after >= before


def test_at_most_alpha_of_any_joint_law_counts_an_invalid_release_as_valid() -> None:
    # Four invalid releases with any dependence: a random law on the 16 score patterns, the
    # threshold its largest marginal. Exact rationals, so no tolerance.
    rng = np.random.default_rng(11)
    patterns = list(product([0, 1], repeat=4))
    exceeded = 0
    for case in range(200):
        weights = rng.integers(0, 50, size=16) if case % 2 else rng.integers(0, 3, size=16) ** 2
        weights[0] += 400 + rng.integers(0, 400)
        law = [Fraction(int(w), int(weights.sum())) for w in weights]
        threshold = max(
            sum(p for p, x in zip(law, patterns, strict=True) if x[r]) for r in range(4)
        )
        for alpha in (Fraction(1, 20), Fraction(1, 5), Fraction(3, 5)):
            wrong = sum(
                p
                for p, x in zip(law, patterns, strict=True)
                if largest_invalid_count([s / threshold for s in x], alpha=alpha) < 4
            )
            assert wrong <= alpha
            exceeded += wrong > 0
    assert exceeded > 50  # the event happens, so the bound was put to work


def test_the_markov_step_is_attained() -> None:
    # All invalid releases score together with probability t = alpha: exactly alpha is spent.
    together = mixture_evalues([0.0] * 5, thresholds=[TWENTIETH])
    one_short = mixture_evalues([0.0] * 4 + [1.0], thresholds=[TWENTIETH])
    assert largest_invalid_count(together, alpha=TWENTIETH) == 0
    assert largest_invalid_count(one_short, alpha=TWENTIETH) == 5


def test_the_mixture_calibrator_is_the_average_of_thresholds() -> None:
    # By hand: 1/t is 1000, 50, 2; a p-value meets every threshold at or above it.
    thresholds = [Fraction(1, 50), Fraction(1, 2), Fraction(1, 1000)]
    evalues = mixture_evalues([0.0, 0.001, 0.0011, 0.02, 0.3, 0.5, 0.6], thresholds=thresholds)
    third = Fraction(1, 3)
    assert evalues == [third * x for x in (1052, 1052, 52, 52, 2, 2, 0)]


@given(st.lists(st.sampled_from([2**-k for k in range(12)]), min_size=1, max_size=6, unique=True))
def test_the_mixture_calibrator_integrates_to_one(cuts: list[float]) -> None:
    thresholds = [Fraction(cut) for cut in cuts]
    edges = sorted({Fraction(0), Fraction(1), *thresholds})
    values = mixture_evalues([float(edge) for edge in edges[1:]], thresholds=thresholds)
    widths = [b - a for a, b in pairwise(edges)]
    assert sum(w * e for w, e in zip(widths, values, strict=True)) == 1


def test_floats_infinity_and_empty_lists_are_counted() -> None:
    assert largest_invalid_count([], alpha=TWENTIETH) == 0
    assert largest_invalid_count([inf, inf], alpha=TWENTIETH) == 0
    # One infinite e-value never joins a set of finite mean; the other two have mean 19.5.
    assert largest_invalid_count([inf, 19.0, 20.0], alpha=TWENTIETH) == 2
    # In doubles .1 + .2 exceeds .3; compared exactly with a bar just above their mean.
    mean = (Fraction(0.1) + Fraction(0.2)) / 2
    above = mean + Fraction(1, 10**30)
    assert largest_invalid_count([0.1 + 10, 0.2 + 10], alpha=1 / (10 + above)) == 2


def test_ties_at_the_bar_count_as_evidence() -> None:
    # A mean of exactly 1/alpha is no longer below it.
    assert largest_invalid_count([Fraction(20)], alpha=TWENTIETH) == 0
    assert largest_invalid_count([Fraction(20) - Fraction(1, 10**40)], alpha=TWENTIETH) == 1
    assert largest_invalid_count([20.0] * 3, alpha=TWENTIETH) == 0
    assert largest_invalid_count([float(np.nextafter(20.0, 0.0))] * 3, alpha=TWENTIETH) == 3


@given(st.lists(st.sampled_from([0.0, 0.5, 10.0, 20.0, 40.0, 80.0, inf]), min_size=1, max_size=8))
def test_the_e_bh_list_is_the_largest_self_consistent_one(evalues: list[float]) -> None:
    chosen = e_bh(evalues, alpha=0.05)
    size = len(evalues)
    ordered = sorted(evalues, reverse=True)
    # The definition: the largest k with E_[k] >= R/(alpha k), in exact rationals.
    largest = max(
        (k for k in range(1, size + 1)
         if ordered[k - 1] == inf or Fraction(ordered[k - 1]) * k >= Fraction(size) * 20),
        default=0,
    )  # fmt: skip
    assert np.count_nonzero(chosen) == largest
    if largest:
        assert min(np.array(evalues)[chosen]) >= ordered[largest - 1]


@pytest.mark.parametrize(
    ("call", "seen"),
    [
        (lambda: mixture_evalues([0.1], thresholds=[]), r"\(\)"),
        (lambda: mixture_evalues([0.1], thresholds=[Fraction(0)]), r"Fraction\(0, 1\)"),
        (lambda: mixture_evalues([0.1], thresholds=[Fraction(3, 2)]), r"Fraction\(3, 2\)"),
        (lambda: largest_invalid_count([1.0], alpha=Fraction(1)), "got 1"),
        (lambda: largest_invalid_count([1.0], alpha=Fraction(0)), "got 0"),
        (lambda: largest_invalid_count([-1.0], alpha=TWENTIETH), "nonnegative"),
        (lambda: largest_invalid_count([float("nan")], alpha=TWENTIETH), "NaN|nonnegative"),
        (lambda: subset_invalid_count([1.0, 2.0], [True], alpha=TWENTIETH), "1 .* 2"),
        (lambda: e_bh([], alpha=0.05), "at least one"),
        (lambda: e_bh([-1.0], alpha=0.05), "nonnegative"),
    ],
)
def test_impossible_input_is_refused(call: Callable[[], Any], seen: str) -> None:
    with pytest.raises(ValueError, match=seen):
        call()
