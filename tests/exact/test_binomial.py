"""Binomial tails and limits against 50-digit sums, R, and each other."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from math import comb, exp
from typing import Any

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxyguard.exact.binomial import (
    clopper_pearson_lower,
    clopper_pearson_upper,
    lower_tail,
    lower_tail_table,
    upper_tail,
    wilson_interval,
)
from proxyguard.exact.rounding import TINY

Reference = Callable[[str, str], list[dict[str, Any]]]

# The guard on limits is 1e-12; scipy's beta functions add about 1e-14.
REL = 1.1e-12


def tail_guard(n: int) -> float:
    """Return how far a tail may lie above the exact one: 1e-12, and 4 eps for each trial."""
    return REL + 4.1 * n * float(np.finfo(np.float64).eps)


def exact_lower_tail(k: int, n: int, rate: float) -> Fraction:
    p = Fraction(rate)
    return sum((comb(n, i) * p**i * (1 - p) ** (n - i) for i in range(k + 1)), Fraction(0))


@pytest.mark.parametrize(("kind", "tail"), [("lower_tail", lower_tail), ("upper_tail", upper_tail)])
def test_tails_agree_with_50_digit_sums_and_are_never_below_them(
    kind: str, tail: Callable[..., Any], reference: Reference
) -> None:
    for row in reference("binomial", kind):
        p = float(tail(row["k"], row["n"], float(row["p"])))
        assert p == pytest.approx(
            max(float(row["value"]), TINY), rel=tail_guard(row["n"]), abs=0.0
        ), row
        assert Decimal(p) >= Decimal(row["value"]), row


def test_tails_below_the_normal_range_are_the_smallest_normal_double(reference: Reference) -> None:
    rows = [
        (tail, row)
        for kind, tail in (("lower_tail", lower_tail), ("upper_tail", upper_tail))
        for row in reference("binomial", kind)
        if Decimal(row["value"]) < Decimal(TINY)
    ]
    assert len(rows) >= 4
    for tail, row in rows:
        assert float(tail(row["k"], row["n"], float(row["p"]))) == TINY, row


def test_lower_limits_agree_with_50_digit_roots_and_are_never_above_them(
    reference: Reference,
) -> None:
    for row in reference("binomial", "lower_limit"):
        limit = float(clopper_pearson_lower(row["k"], row["n"], alpha=float(row["alpha"])))
        assert limit == pytest.approx(float(row["value"]), rel=REL, abs=0.0), row
        assert Decimal(limit) <= Decimal(row["value"]), row


def test_upper_limits_agree_with_50_digit_roots_and_are_never_below_them(
    reference: Reference,
) -> None:
    for row in reference("binomial", "upper_limit"):
        limit = float(clopper_pearson_upper(row["k"], row["n"], alpha=float(row["alpha"])))
        # The guard on an upper limit is 1e-15 at the least, also near 0.
        assert limit == pytest.approx(float(row["value"]), rel=REL, abs=1.1e-15), row
        assert Decimal(limit) >= Decimal(row["value"]), row


@pytest.mark.parametrize(
    ("kind", "limit"),
    [("lower_limit", clopper_pearson_lower), ("upper_limit", clopper_pearson_upper)],
)
def test_limits_agree_with_r(kind: str, limit: Callable[..., Any], reference: Reference) -> None:
    for row in reference("r", kind):
        ours = float(limit(row["k"], row["n"], alpha=float(row["alpha"])))
        # binom.test forms alpha as 1 - conf.level, which costs R digits at a small alpha.
        assert ours == pytest.approx(float(row["value"]), rel=1e-10, abs=0.0), row


@pytest.mark.parametrize(
    ("kind", "tail"), [("log_lower_tail", lower_tail), ("log_upper_tail", upper_tail)]
)
def test_tails_agree_with_r(kind: str, tail: Callable[..., Any], reference: Reference) -> None:
    for row in reference("r", kind):
        ours = float(tail(row["k"], row["n"], float(row["p"])))
        # R gives the logarithm in doubles: 1e-11 is its rounding at -700 and our guard.
        assert ours == pytest.approx(
            max(exp(float(row["value"])), TINY), rel=1e-11 + tail_guard(row["n"]), abs=0.0
        ), row


def test_wilson_intervals_agree_with_50_digits_and_with_r(reference: Reference) -> None:
    for side, kind in enumerate(("lower", "upper")):
        for row in reference("wilson", kind):
            limit = wilson_interval(row["k"], row["n"], z=float(row["z"]))[side]
            # Near 0 the centre and the half-width cancel: absolute error of doubles.
            assert limit == pytest.approx(float(row["value"]), rel=1e-13, abs=1e-16), row
        for row in reference("r", f"wilson_{kind}"):
            limit = wilson_interval(row["k"], row["n"])[side]
            assert limit == pytest.approx(float(row["value"]), rel=1e-12, abs=0.0), row


@given(st.integers(1, 60), st.data(), st.floats(1e-9, 0.999))
def test_clopper_pearson_limits_never_overshoot(n: int, data: st.DataObject, alpha: float) -> None:
    k = data.draw(st.integers(0, n))
    lower = float(clopper_pearson_lower(k, n, alpha=alpha))
    upper = float(clopper_pearson_upper(k, n, alpha=alpha))
    # At the limit the chance of the count or beyond is at most alpha, in exact rationals.
    if k > 0:
        assert 1 - exact_lower_tail(k - 1, n, lower) <= Fraction(alpha)
    if k < n:
        assert exact_lower_tail(k, n, upper) <= Fraction(alpha)


@given(st.integers(1, 60), st.data(), st.floats(1e-6, 1.0 - 1e-6))
def test_tails_are_never_below_exact_rationals(n: int, data: st.DataObject, rate: float) -> None:
    k = data.draw(st.integers(0, n))
    assert Fraction(float(lower_tail(k, n, rate))) >= exact_lower_tail(k, n, rate)
    above = 1 - exact_lower_tail(k - 1, n, rate) if k else Fraction(1)
    assert Fraction(float(upper_tail(k, n, rate))) >= above


@pytest.mark.parametrize(
    ("k", "n", "rate"),
    [
        (1352, 1376, 0.5728868772220973),  # 3.2e-285, where betainc(k, n - k + 1, p) gives 0
        (1974, 2012, 0.7025656566821449),  # 1.1e-242
        (9129, 19284, 0.35153514532670366),  # 1.7e-264
        (31579, 84893, 0.3368976266911904),  # 2.0e-102
        (346379, 818768, 0.40464960077871237),  # 2.4e-251
    ],
)
def test_deep_tails_of_many_draws_are_not_understated(k: int, n: int, rate: float) -> None:
    with mpmath.workdps(50):
        p = mpmath.mpf(rate)
        term = mpmath.binomial(n, k) * p**k * (1 - p) ** (n - k)
        exact = term
        for j in range(k, n):  # positive terms, falling: summed until they no longer count
            term = term * p / (1 - p) * (n - j) / (j + 1)
            exact += term
            if term < exact * mpmath.mpf("1e-40"):
                break
        for tail in (upper_tail(k, n, rate), lower_tail(n - k, n, 1.0 - rate)):
            # 1 - rate rounds, which moves the second tail by about n eps; hence the 1e-9.
            assert float(tail) == pytest.approx(float(exact), rel=1e-9, abs=0.0)
        assert mpmath.mpf(float(upper_tail(k, n, rate))) >= exact


@given(st.integers(1, 200), st.data())
def test_upper_limit_is_the_lower_limit_of_the_failures(n: int, data: st.DataObject) -> None:
    k = data.draw(st.integers(0, n))
    reflected = 1.0 - float(clopper_pearson_lower(n - k, n, alpha=0.03))
    # Both guards are at most 1e-12, in opposite directions.
    assert float(clopper_pearson_upper(k, n, alpha=0.03)) == pytest.approx(reflected, abs=3e-12)


def test_no_success_and_no_failure_give_the_trivial_limits() -> None:
    for n in (1, 2, 10**6):
        assert float(clopper_pearson_lower(0, n, alpha=0.05)) == 0.0
        assert float(clopper_pearson_upper(n, n, alpha=0.05)) == 1.0
    # alpha^(1/n) by hand: one success in one draw has the limit alpha.
    assert float(clopper_pearson_lower(1, 1, alpha=0.05)) == pytest.approx(0.05, rel=REL, abs=0.0)
    assert float(clopper_pearson_upper(0, 1, alpha=0.05)) == pytest.approx(0.95, rel=REL, abs=0.0)


def test_a_certain_rate_gives_certain_tails() -> None:
    assert lower_tail([0, 4, 5], 5, 0.0).tolist() == [1.0, 1.0, 1.0]
    assert lower_tail([0, 4, 5], 5, 1.0).tolist() == [TINY, TINY, 1.0]
    assert upper_tail([0, 1, 5], 5, 0.0).tolist() == [1.0, TINY, TINY]
    assert upper_tail([0, 1, 5], 5, 1.0).tolist() == [1.0, 1.0, 1.0]


def test_counts_trials_and_rates_broadcast() -> None:
    counts, trials = np.arange(4)[:, None], np.array([3, 7])
    table = lower_tail(counts, trials, 0.3)
    assert table.shape == (4, 2)
    assert table[2, 1] == lower_tail(2, 7, 0.3)


@pytest.mark.parametrize(("n", "v"), [(1, 0.5), (2, 0.01), (7, 0.3), (40, 0.97), (60, 1e-6)])
def test_the_table_of_lower_tails_agrees_with_exact_rationals(n: int, v: float) -> None:
    table = lower_tail_table(n, v)
    tails = [exact_lower_tail(k, n, v) for k in range(n + 1)]
    sums = np.cumsum(tails)
    for k, (tail, total) in enumerate(zip(tails, sums, strict=True)):
        for ours, exact in ((table.log_cdf[k], tail), (table.log_sum_cdf[k], total)):
            log = mpmath.log(mpmath.mpf(exact.numerator)) - mpmath.log(exact.denominator)
            assert abs(ours - float(log)) <= table.log_error, k
        below = sum(i * Fraction(1) * (tails[i] - (tails[i - 1] if i else 0)) for i in range(k + 1))
        # The mean below k is k minus a sum of ratios, so its error is that of the logarithms.
        assert table.mean_below[k] == pytest.approx(float(below / tail), abs=1e-9 * n), k


@pytest.mark.parametrize(("n", "v"), [(1000, 0.02), (5000, 0.5), (20000, 0.9)])
def test_the_table_keeps_its_stated_error_at_large_n(n: int, v: float) -> None:
    table = lower_tail_table(n, v)
    assert table.log_error < 1e-8  # else the p-value is no longer good to eight digits
    with mpmath.workdps(40):
        p = mpmath.mpf(v)
        term = (1 - p) ** n
        total, sums = mpmath.mpf(0), mpmath.mpf(0)
        for k in range(n + 1):
            total, sums = total + term, sums + total + term
            if k % (n // 50) == 0 and total > mpmath.mpf("1e-300"):
                assert abs(table.log_cdf[k] - float(mpmath.log(total))) <= table.log_error, k
                assert abs(table.log_sum_cdf[k] - float(mpmath.log(sums))) <= table.log_error, k
            term = term * p / (1 - p) * (n - k) / (k + 1)


def test_the_table_is_monotone_for_the_sorted_search() -> None:
    table = lower_tail_table(3000, 0.37)
    for row in (table.log_cdf, table.log_sum_cdf, table.mean_below):
        assert np.all(np.diff(row) >= 0.0)
    assert table.log_cdf[-1] == pytest.approx(0.0, abs=table.log_error)
    assert np.all(table.log_cdf <= 0.0)


@pytest.mark.parametrize(
    ("call", "seen"),
    [
        (lambda: lower_tail(4, 3, 0.5), "4"),
        (lambda: upper_tail(-1, 3, 0.5), "-1"),
        (lambda: lower_tail(1.5, 3, 0.5), "1.5"),
        (lambda: lower_tail(np.nan, 3, 0.5), "nan"),
        (lambda: lower_tail(0, 0, 0.5), "0"),
        (lambda: lower_tail(0, 2.5, 0.5), "2.5"),
        (lambda: lower_tail(0, 3, 1.25), "1.25"),
        (lambda: upper_tail(0, 3, np.nan), "nan"),
        (lambda: clopper_pearson_lower(5, 4, alpha=0.05), "5"),
        (lambda: clopper_pearson_lower(1, 2, alpha=0.0), "0.0"),
        (lambda: clopper_pearson_upper(1, 2, alpha=1.0), "1.0"),
        (lambda: clopper_pearson_upper(1, 2, alpha=float("nan")), "nan"),
        (lambda: lower_tail_table(0, 0.5), "n = 0"),
        (lambda: lower_tail_table(20_000_001, 0.5), "n = 20000001"),
        (lambda: lower_tail_table(4, 1.0), "v = 1.0"),
        (lambda: wilson_interval(7, 6), "7 of 6"),
        (lambda: wilson_interval(0, 0), "0 of 0"),
    ],
)
def test_impossible_input_is_refused_and_named(call: Callable[[], Any], seen: str) -> None:
    with pytest.raises(ValueError, match=seen):
        call()
