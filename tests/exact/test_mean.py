"""Tests of a bounded mean: reference values, exact size by enumeration, extremes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import Decimal, localcontext
from fractions import Fraction
from math import comb
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxyguard.exact.mean import (
    bentkus_pvalue,
    bentkus_upper,
    binomial_pvalue,
    binomial_upper,
    chernoff_pvalue,
    chernoff_upper,
    empirical_bernstein_pvalue,
    empirical_bernstein_upper,
    hoeffding_pvalue,
    hoeffding_upper,
    kl_mean_lower,
)
from proxyguard.exact.rounding import TINY

Reference = Callable[[str, str], list[dict[str, Any]]]
Array = np.ndarray
# A p-value for each possible count of the larger value; low and high are the two values.
Test = Callable[[int, float, float, float], Array]


def test_chernoff_pvalues_agree_with_50_digits_and_are_never_below_them(
    reference: Reference,
) -> None:
    for row in reference("chernoff", "log_bound"):
        p = float(chernoff_pvalue(float(row["m"]), row["n"], float(row["v"])))
        with localcontext() as context:
            context.prec = 40
            exact = Decimal(row["value"]).exp()
            assert Decimal(p) >= exact, row
        # The mean is raised by 1e-13, where d_B has a slope of at most log(1e13) + log odds,
        # about 40: the logarithm rises by at most 5e-12 a record.
        assert np.log(p) <= max(float(row["value"]), np.log(TINY)) + 5e-12 * row["n"] + 2e-12, row


def test_chernoff_limits_agree_with_50_digits_and_are_never_below_them(
    reference: Reference,
) -> None:
    for row in reference("chernoff", "upper_limit"):
        limit = float(chernoff_upper(float(row["m"]), row["n"], delta=float(row["delta"])))
        # Raising the mean by 1e-13 raises the limit by at most 40 times that.
        assert limit == pytest.approx(float(row["value"]), rel=0.0, abs=4e-12), row
        assert Decimal(limit) >= Decimal(row["value"]), row


def test_kl_lower_limits_agree_with_50_digits_and_are_never_above_them(
    reference: Reference,
) -> None:
    for row in reference("chernoff", "lower_limit"):
        limit = float(kl_mean_lower(float(row["m"]), row["n"], alpha=float(row["delta"])))
        assert limit == pytest.approx(float(row["value"]), rel=0.0, abs=4e-12), row
        assert Decimal(limit) <= Decimal(row["value"]), row


def test_bentkus_pvalues_agree_with_50_digit_sums_and_are_never_below_them(
    reference: Reference,
) -> None:
    for row in reference("bentkus", "p_value"):
        p = float(bentkus_pvalue(float(row["s"]) / row["n"], row["n"], float(row["v"])))
        # The table's stated log error, below 1e-9, dominates for n up to 1000.
        assert p == pytest.approx(max(float(row["value"]), TINY), rel=1e-9, abs=0.0), row
        assert Decimal(p) >= Decimal(row["value"]), row


def test_bentkus_limits_agree_with_50_digit_roots_and_are_never_below_them(
    reference: Reference,
) -> None:
    for row in reference("bentkus", "upper_limit"):
        limit = float(
            bentkus_upper(float(row["s"]) / row["n"], row["n"], delta=float(row["delta"]))
        )
        # 48 halvings of a unit interval, and the guards of the p-value.
        assert limit == pytest.approx(float(row["value"]), abs=2e-11), row
        assert Decimal(limit) >= Decimal(row["value"]), row


def test_empirical_bernstein_pvalues_agree_with_50_digit_roots_and_are_never_below_them(
    reference: Reference,
) -> None:
    # A limit at the very end of the scale is refused, so the row with v = 1 does not apply.
    rows = [row for row in reference("empirical_bernstein", "p_value") if row["v"] != "1"]
    for row in rows:
        p = float(
            empirical_bernstein_pvalue(
                float(row["m"]), float(row["variance"]), row["n"], float(row["v"])
            )
        )
        # log p is at most quadratic in the gap with curvature n, and the gap shrinks by 1e-13.
        exact = max(float(row["value"]), TINY)
        assert p == pytest.approx(exact, rel=1e-11 + 4e-13 * row["n"], abs=0.0), row
        assert Decimal(p) >= Decimal(row["value"]), row


def test_empirical_bernstein_limits_agree_with_50_digits_up_to_the_cap_at_one(
    reference: Reference,
) -> None:
    for row in reference("empirical_bernstein", "limit"):
        limit = float(
            empirical_bernstein_upper(
                float(row["m"]), float(row["variance"]), row["n"], delta=float(row["delta"])
            )
        )
        exact = min(Decimal(1), Decimal(row["value"]))
        assert limit == pytest.approx(float(exact), rel=3e-12, abs=0.0), row
        assert Decimal(limit) >= exact, row


def test_hoeffding_agrees_with_its_formula_by_hand() -> None:
    # exp(-2 * 100 * .1^2) = exp(-2); sqrt(log(20)/200) = 0.12238734153404082.
    assert float(hoeffding_pvalue(0.4, 100, 0.5)) == pytest.approx(
        0.1353352832366127, rel=1e-10, abs=0.0
    )
    upper = float(hoeffding_upper(0.4, 100, delta=0.05))
    assert upper == pytest.approx(0.52238734153404082, rel=3e-12, abs=0.0)
    # Strata of 30 and 10 with weights 1/2: 1/(1/120 + 1/40) = 30.
    assert float(hoeffding_pvalue(0.25, 30.0, 0.5)) == pytest.approx(
        np.exp(-3.75), rel=1e-10, abs=0.0
    )


def test_the_exact_binomial_test_is_the_lower_tail() -> None:
    # P(Bin(3, 1/2) <= 0, 1, 2, 3) = 1/8, 1/2, 7/8, 1.
    tails = binomial_pvalue(np.arange(4), 3, 0.5)
    np.testing.assert_allclose(tails, [0.125, 0.5, 0.875, 1.0], rtol=2e-12)
    # n v - 1 = 1/2, so only the count 0 may be used when records differ in law.
    tails = binomial_pvalue(np.arange(4), 3, 0.5, identical=False)
    np.testing.assert_allclose(tails, [0.125, 1.0, 1.0, 1.0], rtol=2e-12)


def test_the_clause_for_different_laws_refuses_only_counts_near_the_mean() -> None:
    for n, v in ((10, 0.5), (50, 0.1), (25, 0.2), (100, 0.05)):
        mean = round(n * v)
        # Usable up to n v - 1; that tie itself may be lost to the guard.
        used = binomial_pvalue([mean - 2, mean, mean + 1], n, v, identical=False)
        assert used[0] == binomial_pvalue(mean - 2, n, v) < 1.0
        assert used[1:].tolist() == [1.0, 1.0]


def on_moments(pvalue: Callable[..., Array]) -> Test:
    def test(n: int, v: float, low: float, high: float) -> Array:
        return pvalue(low + (high - low) * np.arange(n + 1) / n, n, v)

    return test


def empirical_bernstein(n: int, v: float, low: float, high: float) -> Array:
    k = np.arange(n + 1)
    variance = (high - low) ** 2 * k * (n - k) / (n * (n - 1))
    return empirical_bernstein_pvalue(low + (high - low) * k / n, variance, n, v)


def binomial(n: int, v: float, low: float, high: float) -> Array:
    return binomial_pvalue(np.arange(n + 1), n, v)


def binomial_not_identical(n: int, v: float, low: float, high: float) -> Array:
    return binomial_pvalue(np.arange(n + 1), n, v, identical=False)


ANY_TWO_VALUES = {
    "empirical_bernstein": empirical_bernstein,
    "hoeffding": on_moments(hoeffding_pvalue),
    "chernoff": on_moments(chernoff_pvalue),
    "bentkus": on_moments(bentkus_pvalue),
}
AT_THE_BOUNDS = ANY_TWO_VALUES | {
    "binomial": binomial,
    "binomial, not identical": binomial_not_identical,
}
NOT_IDENTICAL = {
    "hoeffding": on_moments(hoeffding_pvalue),
    "chernoff": on_moments(chernoff_pvalue),
    "bentkus": on_moments(bentkus_pvalue),
    "binomial": binomial_not_identical,
}


def excess_size(pvalues: Array, law: Sequence[Fraction]) -> Fraction:
    """Return the largest ``P(p <= delta) - delta``; the attained p-values are the worst deltas."""
    assert sum(law) == 1
    order = np.argsort(pvalues, kind="stable")
    worst, mass = Fraction(-1), Fraction(0)
    for place, k in enumerate(order):
        mass += law[k]
        last = place + 1 == len(order) or pvalues[order[place + 1]] > pvalues[k]
        if last:
            worst = max(worst, mass - Fraction(float(pvalues[k])))
    return worst


def binomial_law(n: int, rate: Fraction) -> list[Fraction]:
    return [comb(n, k) * rate**k * (1 - rate) ** (n - k) for k in range(n + 1)]


def poisson_binomial_law(rates: Sequence[Fraction]) -> list[Fraction]:
    law = [Fraction(1)]
    for rate in rates:
        stay = [x * (1 - rate) for x in law] + [Fraction(0)]
        move = [Fraction(0)] + [x * rate for x in law]
        law = [a + b for a, b in zip(stay, move, strict=True)]
    return law


def hypergeometric_law(pool: int, ones: int, n: int) -> list[Fraction]:
    return [Fraction(comb(ones, k) * comb(pool - ones, n - k), comb(pool, n)) for k in range(n + 1)]


def records_with_average(v: Fraction, n: int, rng: np.random.Generator) -> list[Fraction]:
    """Return random rates in sixteenths whose average is exactly ``v``."""
    units = int(v * n * 16)
    assert Fraction(units, 16 * n) == v
    rates = np.zeros(n, dtype=int)
    while units > 0:
        i = rng.integers(n)
        step = min(int(rng.integers(1, 17)), units, 16 - rates[i])
        rates[i] += step
        units -= step
    return [Fraction(int(x), 16) for x in rates]


@pytest.mark.parametrize("v", [0.03, 0.25, 0.5, 0.8, 0.99])
@pytest.mark.parametrize("n", [2, 3, 10, 24])
@pytest.mark.parametrize("name", AT_THE_BOUNDS)
def test_size_at_the_boundary_is_exact_for_two_valued_losses(name: str, n: int, v: float) -> None:
    # Exact rationals, every delta at once, no tolerance.
    pvalues = AT_THE_BOUNDS[name](n, v, 0.0, 1.0)
    assert excess_size(pvalues, binomial_law(n, Fraction(v))) <= 0


@pytest.mark.parametrize(("low", "high"), [(0.125, 0.875), (0.0, 0.625), (0.4375, 1.0)])
@pytest.mark.parametrize("name", ANY_TWO_VALUES)
def test_size_is_exact_for_losses_between_their_bounds(name: str, low: float, high: float) -> None:
    for n in (2, 9, 20):
        for share in (Fraction(1, 16), Fraction(1, 2), Fraction(15, 16)):
            v = Fraction(low) + share * (Fraction(high) - Fraction(low))
            assert Fraction(float(v)) == v  # dyadic, so the null holds exactly
            pvalues = ANY_TWO_VALUES[name](n, float(v), low, high)
            assert excess_size(pvalues, binomial_law(n, share)) <= 0, (n, share)


@pytest.mark.parametrize("name", NOT_IDENTICAL)
def test_size_is_exact_for_records_of_different_laws(name: str) -> None:
    rng = np.random.default_rng(5)
    for n in (4, 8, 16):  # powers of two keep the average a double
        for v in (Fraction(1, 8), Fraction(1, 2), Fraction(3, 4)):
            pvalues = NOT_IDENTICAL[name](n, float(v), 0.0, 1.0)
            for _ in range(12):
                law = poisson_binomial_law(records_with_average(v, n, rng))
                assert excess_size(pvalues, law) <= 0


def test_without_the_clause_the_binomial_test_fails_for_records_of_different_laws() -> None:
    # Half the records always fail and half never do: the count is 4 of 8 for certain, and the
    # plain test calls that a p-value of P(Bin(8, 1/2) <= 4) = 163/256.
    law = poisson_binomial_law([Fraction(0)] * 4 + [Fraction(1)] * 4)
    assert excess_size(binomial(8, 0.5, 0.0, 1.0), law) > Fraction(1, 3)
    assert excess_size(binomial_not_identical(8, 0.5, 0.0, 1.0), law) <= 0


@pytest.mark.parametrize("name", NOT_IDENTICAL)
def test_size_is_exact_for_sampling_without_replacement(name: str) -> None:
    for pool, ones in ((16, 4), (32, 16), (64, 60)):
        for n in (2, 7, 15):
            pvalues = NOT_IDENTICAL[name](n, ones / pool, 0.0, 1.0)
            law = hypergeometric_law(pool, ones, n)
            assert excess_size(pvalues, law) <= 0, (pool, ones, n)


def test_without_the_clause_the_binomial_test_fails_for_sampling_without_replacement() -> None:
    # The whole pool but one: the count is 7 or 8 of 15, the plain test gives .50 to 8 and .30 to 7.
    law = hypergeometric_law(16, 8, 15)
    assert excess_size(binomial(15, 0.5, 0.0, 1.0), law) > Fraction(1, 10)


def test_all_losses_at_a_bound() -> None:
    for n in (2, 1000):
        # All at the lower bound: chernoff is (1 - v)^n, and bentkus and binomial equal it.
        exact = 0.75**n
        for p in (chernoff_pvalue(0.0, n, 0.25), bentkus_pvalue(0.0, n, 0.25)):
            assert float(p) == pytest.approx(exact, rel=1e-8, abs=0.0)
        assert float(binomial_pvalue(0, n, 0.25)) == pytest.approx(exact, rel=2e-12, abs=0.0)
        # All at the upper bound: nothing to claim, the limit is 1.
        for p in (
            chernoff_pvalue(1.0, n, 0.25),
            bentkus_pvalue(1.0, n, 0.25),
            hoeffding_pvalue(1.0, n, 0.25),
            empirical_bernstein_pvalue(1.0, 0.0, n, 0.25),
            binomial_pvalue(n, n, 0.25),
            chernoff_upper(1.0, n, delta=0.05),
            bentkus_upper(1.0, n, delta=0.05),
            hoeffding_upper(1.0, n, delta=0.05),
            empirical_bernstein_upper(1.0, 0.0, n, delta=0.05),
            binomial_upper(n, n, delta=0.05),
            binomial_upper(n, n, delta=0.05, identical=False),
        ):
            assert float(p) == 1.0
        assert float(kl_mean_lower(0.0, n, alpha=0.05)) == 0.0


def test_a_mean_at_its_limit_is_never_evidence() -> None:
    for v in (1e-12, 0.1, 0.5, 1.0 - 1e-12):
        assert float(chernoff_pvalue(v, 10**6, v)) == 1.0
        assert float(hoeffding_pvalue(v, 10**6, v)) == 1.0
        assert float(empirical_bernstein_pvalue(v, 0.0, 10**6, v)) == 1.0
        assert float(bentkus_pvalue(v, 1000, v)) == 1.0


def test_overwhelming_evidence_is_the_smallest_normal_double_and_not_zero() -> None:
    assert float(chernoff_pvalue(0.0, 10**6, 0.5)) == TINY
    assert float(hoeffding_pvalue(0.0, 10**6, 0.5)) == TINY
    assert float(bentkus_pvalue(0.0, 2000, 0.5)) == TINY
    assert float(empirical_bernstein_pvalue(0.0, 0.0, 10**6, 0.5)) == TINY
    assert float(binomial_pvalue(0, 10**6, 0.5)) == TINY


@given(
    st.integers(1, 300),
    st.floats(0.001, 0.999),
    st.lists(st.floats(0.0, 1.0), min_size=2, max_size=8),
)
def test_more_loss_is_never_more_evidence(n: int, v: float, means: list[float]) -> None:
    ordered = np.sort(means)
    for pvalue in (chernoff_pvalue, bentkus_pvalue, hoeffding_pvalue):
        # One part in 1e12 is the guard: neighbouring means may round the other way within it.
        p = pvalue(ordered, n, v)
        assert np.all(p[1:] >= p[:-1] * (1.0 - 1e-12))


def test_limits_and_pvalues_broadcast_over_requirements() -> None:
    means, n, v = np.array([[0.1], [0.3]]), np.array([50, 80]), np.array([0.2, 0.5])
    for p in (
        chernoff_pvalue(means, n, v),
        hoeffding_pvalue(means, n, v),
        empirical_bernstein_pvalue(means, 0.01, n, v),
    ):
        assert p.shape == (2, 2)
    assert chernoff_upper(means, n, delta=0.1)[1, 0] == chernoff_upper(0.3, 50, delta=0.1)
    assert bentkus_upper(means, 50, delta=0.1).shape == (2, 1)


@pytest.mark.parametrize(
    ("call", "seen"),
    [
        (lambda: chernoff_pvalue(1.2, 10, 0.5), "1.2"),
        (lambda: chernoff_pvalue(-0.1, 10, 0.5), "-0.1"),
        (lambda: chernoff_pvalue(np.nan, 10, 0.5), "nan"),
        (lambda: hoeffding_pvalue(0.1, 10, 1.0), "1.0"),
        (lambda: hoeffding_pvalue(0.1, 0.0, 0.5), "0.0"),
        (lambda: hoeffding_upper(0.1, -3.0, delta=0.5), "-3.0"),
        (lambda: bentkus_pvalue(0.1, 0, 0.5), "0"),
        (lambda: bentkus_pvalue(0.1, 5, 0.0), "0.0"),
        (lambda: bentkus_upper(0.1, 5, delta=1.5), "1.5"),
        (lambda: bentkus_upper(1.5, 5, delta=0.5), "1.5"),
        (lambda: empirical_bernstein_pvalue(0.1, 0.0, 1, 0.5), "at least 2 records, got 1"),
        (lambda: empirical_bernstein_pvalue(0.1, -0.5, 9, 0.5), "-0.5"),
        (lambda: empirical_bernstein_upper(0.1, np.nan, 9, delta=0.5), "nan"),
        (lambda: empirical_bernstein_upper(0.1, 0.0, 9, delta=0.0), "0.0"),
        (lambda: chernoff_upper(0.1, 9, delta=1.0), "1.0"),
        (lambda: kl_mean_lower(0.1, 9, alpha=-0.1), "-0.1"),
        (lambda: kl_mean_lower(3.0, 9, alpha=0.1), "3.0"),
        (lambda: binomial_pvalue(0.5, 9, 0.5), "0.5"),
        (lambda: binomial_pvalue(10, 9, 0.5), "10"),
        (lambda: binomial_upper(1, 9, delta=2.0), "2.0"),
    ],
)
def test_impossible_input_is_refused_and_named(call: Callable[[], Any], seen: str) -> None:
    with pytest.raises(ValueError, match=seen):
        call()
