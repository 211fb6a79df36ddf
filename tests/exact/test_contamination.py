"""Ceilings on a false favorable score: never below the exact chance, and close to it."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from math import comb
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxyguard.exact.contamination import (
    bentkus_ceiling,
    binomial_ceiling,
    block_radius,
    chernoff_ceiling,
    markov_allowance,
    ramp_ceiling,
    ramp_radius,
    ramp_score,
    ramp_sensitivity,
    stratified_ceiling,
    threshold_ceiling,
)
from proxyguard.exact.mean import binomial_pvalue
from proxyguard.exact.rounding import TINY

Reference = Callable[[str, str], list[dict[str, Any]]]


def binomial_law(n: int, v: float) -> list[Fraction]:
    rate = Fraction(v)
    return [comb(n, k) * rate**k * (1 - rate) ** (n - k) for k in range(n + 1)]


def test_the_ramp_ceiling_is_an_upper_riemann_sum_of_the_integral(reference: Reference) -> None:
    rows = [row for row in reference("ramp", "kappa") if row["c"] != row["tau"]]
    for row in rows:
        a, width = float(row["a"]), float(row["b"]) - float(row["a"])
        cutoff, v = (float(row["c"]) - a) / width, (float(row["tau"]) - a) / width
        kappa = ramp_ceiling(cutoff, float(row["h"]) / width, v, row["n"])
        assert Decimal(kappa) >= Decimal(row["value"]), row
        # A right sum of 4096 bins of a rising function errs by at most its top over 4096.
        slack = chernoff_ceiling(cutoff, v, row["n"]) / 4096
        assert kappa <= float(row["value"]) * (1.0 + 1e-6) + slack, row
        if row["n"] <= 500:
            assert kappa <= float(row["value"]) * 1.0055, row


def test_more_bins_come_closer_to_the_ramp_integral(reference: Reference) -> None:
    row = reference("ramp", "kappa")[0]
    exact = float(row["value"])
    assert (row["a"], row["b"]) == ("0", "1")
    excess = [
        ramp_ceiling(float(row["c"]), float(row["h"]), float(row["tau"]), row["n"], bins=b) - exact
        for b in (512, 4096, 32768)
    ]
    # First order in the width: eight times the bins leave an eighth of the excess.
    assert excess[0] / excess[1] == pytest.approx(8.0, rel=0.05, abs=0.0)
    assert excess[1] / excess[2] == pytest.approx(8.0, rel=0.05, abs=0.0)


def test_ramp_sensitivity_and_radius_agree_with_50_digits(reference: Reference) -> None:
    for row in reference("ramp", "radius"):
        ramps = np.array(
            [
                float(h) / (float(b) - float(a))
                for a, b, h in zip(row["a"], row["b"], row["h"], strict=True)
            ]
        )
        rho = ramp_sensitivity(ramps, row["n"])
        assert rho == pytest.approx(float(row["rho"]), rel=2e-12, abs=0.0), row
        assert Decimal(rho) >= Decimal(row["rho"]), row
        radius = ramp_radius(rho, row["n"], alpha=float(row["alpha"]))
        assert radius == pytest.approx(float(row["value"]), rel=3e-12, abs=0.0), row
        assert Decimal(radius) >= Decimal(row["value"]), row


@pytest.mark.parametrize(("n", "v"), [(2, 0.5), (10, 0.3), (20, 0.8), (25, 0.04)])
def test_ceilings_are_never_below_the_exact_chance_of_a_favorable_mean(n: int, v: float) -> None:
    law = binomial_law(n, v)
    for cutoff in (0.01 * v, 0.3 * v, 0.5 * v, 0.9 * v, 0.999 * v):
        chance = sum(p for k, p in enumerate(law) if k / n <= cutoff)
        exact = Fraction(binomial_ceiling(cutoff, v, n))
        bentkus, chernoff = bentkus_ceiling(cutoff, v, n), chernoff_ceiling(cutoff, v, n)
        assert chance <= exact <= chance * (1 + Fraction(3, 10**12)) + Fraction(TINY)
        assert exact <= Fraction(binomial_ceiling(cutoff, v, n, identical=False))
        # Both are rounded up by guards of at most 1e-10.
        assert float(exact) <= bentkus * (1.0 + 1e-10)
        assert bentkus <= chernoff * (1.0 + 1e-10)
        assert chernoff <= stratified_ceiling(cutoff, v, n) * (1.0 + 1e-10)


@pytest.mark.parametrize("n", [10, 49, 98, 107])
def test_a_cutoff_on_a_possible_mean_counts_that_mean(n: int) -> None:
    # Rounding can lose a tie: 49 * (1/49) is 0.9999999999999999 in doubles.
    for k in range(1, n):
        assert binomial_ceiling(k / n, 0.999, n) == float(binomial_pvalue(k, n, 0.999))


@pytest.mark.parametrize(("cutoff", "ramp", "v", "n"), [
    (0.5, 0.5, 0.6, 12), (0.25, 0.1, 0.3, 20), (0.7, 0.2, 0.9, 8), (0.02, 0.01, 0.05, 25),
])  # fmt: skip
def test_the_expected_ramp_score_of_an_invalid_release_is_below_its_ceiling(
    cutoff: float, ramp: float, v: float, n: int
) -> None:
    # Two-valued losses with mean exactly v, by enumeration.
    means = np.arange(n + 1) / n
    scores = ramp_score(means[:, None], np.array([cutoff]), np.array([ramp]))
    expected = sum(p * Fraction(float(s)) for p, s in zip(binomial_law(n, v), scores, strict=True))
    assert 0 < expected <= Fraction(ramp_ceiling(cutoff, ramp, v, n))


def test_the_ramp_score_is_a_product_of_clipped_ramps() -> None:
    means = np.array([[0.1, 0.2], [0.2, 0.35], [0.05, 0.5]])
    cutoff, ramp = np.array([0.3, 0.4]), np.array([0.2, 0.1])
    # By hand: (1)(1), (1/2)(1/2), (1)(0).
    np.testing.assert_allclose(ramp_score(means, cutoff, ramp), [1.0, 0.25, 0.0], atol=1e-14)


@given(st.integers(1, 40), st.floats(0.01, 0.99), st.floats(0.001, 0.999))
def test_the_ceiling_of_the_exact_score_is_the_chance_of_scoring(
    n: int, v: float, threshold: float
) -> None:
    kappa = threshold_ceiling(threshold, two_valued=(n, v))
    chance = sum(
        p
        for p, pvalue in zip(
            binomial_law(n, v), binomial_pvalue(np.arange(n + 1), n, v), strict=True
        )
        if pvalue <= threshold
    )
    # 0 when no count can score, else the chance itself up to the guard.
    assert chance <= Fraction(kappa) <= chance * (1 + Fraction(3, 10**12))
    assert kappa <= threshold == threshold_ceiling(threshold)


def test_block_radius_and_allowance_agree_with_their_formulas_by_hand() -> None:
    # sqrt((1/100 + 1/25) log(20)/2) = sqrt(.05 * 1.497866...) = .2736664...
    radius = block_radius(100, 25, alpha=0.05)
    assert radius == pytest.approx((0.05 * np.log(20.0) / 2.0) ** 0.5, rel=3e-12, abs=0.0)
    assert radius == pytest.approx(0.27367, abs=1e-5)
    assert 0.2 <= markov_allowance(0.01, 0.05) == pytest.approx(0.2, rel=2e-12, abs=0.0)
    assert markov_allowance(0.06, 0.05) == 1.0
    assert markov_allowance(1.0, 0.999) == 1.0
    assert 0.0 < markov_allowance(0.0, 0.05) <= 1e-15
    assert 0.0 < markov_allowance(5e-324, 0.05) <= 1e-15


def test_a_tiny_ceiling_is_the_smallest_normal_double_and_not_zero() -> None:
    for ceiling in (chernoff_ceiling, bentkus_ceiling, binomial_ceiling, stratified_ceiling):
        assert ceiling(0.1, 0.9, 4000) == TINY
    assert 0.0 < ramp_ceiling(0.1, 0.05, 0.9, 4000) <= TINY * 1.01


@pytest.mark.parametrize(
    ("call", "seen"),
    [
        (lambda: chernoff_ceiling(0.5, 0.5, 10), "0.5, 0.5"),
        (lambda: chernoff_ceiling(0.6, 0.5, 10), "0.6, 0.5"),
        (lambda: bentkus_ceiling(0.0, 0.5, 10), "0.0, 0.5"),
        (lambda: binomial_ceiling(0.3, 1.0, 10), "0.3, 1.0"),
        (lambda: stratified_ceiling(float("nan"), 0.5, 10), "nan"),
        (lambda: ramp_ceiling(0.3, 0.31, 0.5, 10), "0.31"),
        (lambda: ramp_ceiling(0.3, 0.0, 0.5, 10), "0.0"),
        (lambda: threshold_ceiling(0.0), "0.0"),
        (lambda: threshold_ceiling(1.0, two_valued=(3, 0.5)), "1.0"),
        (lambda: markov_allowance(-0.1, 0.05), "-0.1"),
        (lambda: markov_allowance(0.1, 1.0), "1.0"),
    ],
)
def test_impossible_input_is_refused_and_named(call: Callable[[], Any], seen: str) -> None:
    with pytest.raises(ValueError, match=seen):
        call()
