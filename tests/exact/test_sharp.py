"""The sharp p-value: references, a brute-force hull, the worst law, and the printed tables."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import optimize, stats

from proxyguard.exact.rounding import TINY
from proxyguard.exact.sharp import (
    critical_count,
    default_threshold,
    largest_rejected,
    largest_threshold,
    score_tail,
    sharp_lower,
    sharp_pvalue,
    smooth_lower,
    smooth_pvalue,
)

Reference = Callable[[str, str], list[dict[str, Any]]]
Array = np.ndarray

# Random cases with every ratio of count to reliability, some of them far in a tail.
cases = st.tuples(
    st.sampled_from([1, 2, 3, 7, 30, 100, 400]),
    st.floats(0.0, 1.0),
    st.sampled_from([0.05, 0.29, 0.5, 0.8, 0.95, 0.999]),
    st.sampled_from([1e-9, 1e-4, 0.003, 0.02, 0.1, 0.5, 0.97]),
).map(lambda c: (c[0], max(1, round(c[0] * (1 - c[1] ** 2))), c[2], c[3]))


def tail(k: int, n: int, eta: float, b: Array | float) -> Array:
    """Return ``g(b)`` by scipy's own binomial distribution."""
    return stats.binom.sf(k - 1, n, 1.0 - (1.0 - eta) * (1.0 - np.asarray(b)))


def concave_hull_at(x: Array, y: Array, at: float) -> float:
    """Return the least concave majorant of points, by a monotone chain."""
    hull: list[tuple[float, float]] = []
    for px, py in zip(x, y, strict=True):
        while len(hull) > 1:
            (ax, ay), (bx, by) = hull[-2:]
            if (by - ay) * (px - ax) > (py - ay) * (bx - ax):
                break
            hull.pop()
        hull.append((float(px), float(py)))
    hx, hy = zip(*hull, strict=True)
    return float(np.interp(at, hx, hy))


def test_pvalues_agree_with_50_digits_and_are_never_below(reference: Reference) -> None:
    for row in reference("sharp", "p_value"):
        p = float(
            sharp_pvalue(row["N"], row["R"], target=float(row["eta0"]), kappa=float(row["kappa"]))
        )
        # An upper bound on a bracketed chord, tight to about 1e-10.
        assert p == pytest.approx(max(float(row["value"]), TINY), rel=2e-10, abs=0.0), row
        assert Decimal(p) >= Decimal(row["value"]), row


def test_lower_limits_agree_with_50_digits_and_are_never_above(reference: Reference) -> None:
    for row in reference("sharp", "lower_limit"):
        limit = sharp_lower(
            row["N"], row["R"], kappa=float(row["kappa"]), alpha=float(row["alpha"])
        )
        # The search stops at 1e-9 at the latest; the p-value's own slack adds less.
        assert limit == pytest.approx(float(row["value"]), abs=2e-9), row
        assert Decimal(limit) <= Decimal(row["value"]), row


def test_smooth_pvalues_bound_the_integral_from_above(reference: Reference) -> None:
    for row in reference("ramp", "smooth_p_value"):
        p = smooth_pvalue(
            row["N"],
            row["R"],
            target=float(row["eta0"]),
            kappa=float(row["kappa"]),
            sensitivity=float(row["rho"]),
            n_records=row["n"],
        )
        assert Decimal(p) >= Decimal(row["value"]), row
        # Right ends of 1000 slices: a few percent at the most.
        assert p <= float(row["value"]) * 1.03, row


@given(cases)
def test_the_pvalue_is_the_concave_hull_by_brute_force(case: tuple[int, int, float, float]) -> None:
    n, k, eta, kappa = case
    b = np.unique(np.concatenate([np.linspace(0, 1, 1501), np.linspace(0, 1, 801) ** 4, [kappa]]))
    hull = concave_hull_at(b, tail(k, n, eta, b), kappa)
    p = float(sharp_pvalue(k, n, target=eta, kappa=kappa))
    # A hull of finitely many points lies below the envelope; 1e-12 is scipy's error, and
    # below 1e-300 the points underflow.
    assert p >= hull * (1.0 - 1e-12)
    assert p <= hull * 1.005 + 1e-290


@given(cases)
def test_a_law_on_two_points_attains_the_pvalue(case: tuple[int, int, float, float]) -> None:
    n, k, eta, kappa = case
    base = float(tail(k, n, eta, 0.0))
    # The best second point, found by a grid and a local search, independently of src.
    b = np.concatenate([[kappa], kappa + (1 - kappa) * np.linspace(0, 1, 401)[1:] ** 2])
    slopes = (tail(k, n, eta, b) - base) / b
    best = int(np.argmax(slopes))
    found = optimize.minimize_scalar(
        lambda x: -(float(tail(k, n, eta, x)) - base) / x,
        bounds=(b[max(best - 1, 0)], b[min(best + 1, b.size - 1)]),
        method="bounded",
        options={"xatol": 1e-12},
    )
    star = float(found.x) if -found.fun > slopes[best] else float(b[best])
    mass = kappa / star
    chance = (1.0 - mass) * base + mass * float(tail(k, n, eta, star))
    p = float(sharp_pvalue(k, n, target=eta, kappa=kappa))
    assert p >= chance * (1.0 - 1e-12)  # scipy's error; the law is one the theorem allows
    # The touching point is found to about 1e-6, where the chord is flat to second order.
    assert p <= chance * (1.0 + 1e-5) + 1e-290


@given(cases, st.integers(0, 2**32 - 1))
def test_size_is_exact_at_random_laws_of_contamination(
    case: tuple[int, int, float, float], seed: int
) -> None:
    n, _, eta, kappa = case
    rng = np.random.default_rng(seed)
    atoms = rng.random(4) ** rng.integers(1, 12)
    mass = rng.dirichlet(np.full(4, 0.5))
    atoms *= min(1.0, kappa / float(mass @ atoms))  # now E B <= kappa, up to rounding
    truth = eta * rng.choice([1.0, 1.0, 0.97])
    counts = np.arange(n + 1)
    pvalues = sharp_pvalue(counts, n, target=eta, kappa=kappa)
    law = mass @ stats.binom.pmf(counts, n, (truth + (1 - truth) * atoms)[:, None])
    at_least = np.cumsum(law[::-1])[::-1]
    # P(p <= p(k)) = P(N >= k); sums of floats carry errors of 1e-12 of their size.
    assert np.all(at_least <= pvalues * (1.0 + 1e-10) + 1e-300)


def test_the_counts_of_the_table_are_reproduced() -> None:
    # theory section 2: eta_0 = .8, total error .05, column "sharp".
    table = {
        (1000, 0.001): 822, (1000, 0.005): 825, (1000, 0.01): 830, (1000, 0.02): 860,
        (100, 0.003): 88, (100, 0.01): 88, (30, 0.003): 28,
    }  # fmt: skip
    for (n, kappa), expected in table.items():
        assert int(critical_count(n, target=0.8, kappa=kappa, alpha=0.05)) == expected
    # Oracle labels: 822 of 1000, 87 of 100.
    assert critical_count([1000, 100], target=0.8, kappa=0.0, alpha=0.05).tolist() == [822, 87]


def test_the_default_thresholds_of_the_text_are_reproduced() -> None:
    # theory section 2, "Choosing t": eta_0 = .8, alpha = .05.
    printed = {30: 0.0055, 100: 0.0157, 250: 0.0194, 1000: 0.0151}
    for n, expected in printed.items():
        threshold = default_threshold(n, target=0.8, alpha=0.05)
        assert threshold is not None
        assert round(threshold, 4) == expected


@given(
    st.sampled_from([1, 5, 30, 100, 317]),
    st.sampled_from([0.5, 0.8, 0.95]),
    st.sampled_from([0.05, 0.01, 0.001]),
    st.data(),
)
def test_the_largest_threshold_is_the_last_one_that_validates(
    n: int, eta: float, alpha: float, data: st.DataObject
) -> None:
    oracle = int(critical_count(n, target=eta, kappa=0.0, alpha=alpha))
    if oracle > n:
        assert default_threshold(n, target=eta, alpha=alpha) is None
        assert largest_threshold(n, n, target=eta, alpha=alpha) == 0.0
        return
    k = data.draw(st.integers(oracle, n))
    threshold = largest_threshold(k, n, target=eta, alpha=alpha)
    if threshold > 0.0:
        assert float(sharp_pvalue(k, n, target=eta, kappa=threshold)) <= alpha
        assert sharp_lower(k, n, kappa=threshold, alpha=alpha) > eta
    # The envelope is concave and ends at 1, so it rises by at least .95 of any step here: twice
    # the margin that the threshold keeps no longer validates.
    beyond = threshold + 2.2e-5 * alpha
    assert float(sharp_pvalue(k, n, target=eta, kappa=beyond)) > alpha


@given(cases)
def test_no_pvalue_is_below_the_threshold_and_the_chance_of_a_clean_sweep(
    case: tuple[int, int, float, float],
) -> None:
    n, k, eta, kappa = case
    # theory section 2: p_sharp >= t + (1 - t) eta_0^R, with equality at N = R.
    floor = kappa + (1.0 - kappa) * eta**n
    assert float(sharp_pvalue(k, n, target=eta, kappa=kappa)) >= floor * (1.0 - 1e-15)
    sweep = float(sharp_pvalue(n, n, target=eta, kappa=kappa))
    assert sweep == pytest.approx(floor, rel=3e-12, abs=0.0)


def test_underflow_of_the_tail_does_not_hide_the_contamination() -> None:
    # theory section 2: g and g' underflow at kappa, yet p is kappa to many digits.
    p = float(sharp_pvalue(999, 1000, target=0.29, kappa=0.024))
    assert 0.024 <= p == pytest.approx(0.024, rel=1e-2, abs=0.0)
    # Half-way down as well: the worst law puts mass kappa/b on a b where g is nearly 1.
    assert float(sharp_pvalue(600, 1000, target=0.1, kappa=1e-6)) > 1e-6


@given(cases, st.data())
def test_pvalues_are_monotone_in_every_argument(
    case: tuple[int, int, float, float], data: st.DataObject
) -> None:
    n, k, eta, kappa = case
    more = data.draw(st.integers(k, n))
    higher = data.draw(st.floats(eta, 1.0))
    dirtier = data.draw(st.floats(kappa, 1.0))
    p = float(sharp_pvalue(k, n, target=eta, kappa=kappa))
    # The chord is bracketed anew each time, tight to 1e-10; hence the 1e-9.
    assert float(sharp_pvalue(more, n, target=eta, kappa=kappa)) <= p * (1.0 + 1e-9)
    assert float(sharp_pvalue(k, n, target=higher, kappa=kappa)) >= p * (1.0 - 1e-9)
    assert float(sharp_pvalue(k, n, target=eta, kappa=dirtier)) >= p * (1.0 - 1e-9)


@given(
    st.sampled_from([1, 2, 10, 60, 300]),
    st.floats(0.0, 1.0),
    st.sampled_from([0.0, 1e-6, 0.004, 0.03]),
    st.sampled_from([0.005, 0.05, 0.2]),
)
def test_the_lower_limit_is_where_the_pvalue_passes_alpha(
    n: int, share: float, kappa: float, alpha: float
) -> None:
    k = round(n * (1.0 - share**2))
    limit = sharp_lower(k, n, kappa=kappa, alpha=alpha)
    assert 0.0 <= limit < 1.0
    above = limit + 1e-8
    if k > 0:
        assert float(sharp_pvalue(k, n, target=above, kappa=kappa)) > alpha
    if limit > 0.0:
        # The p-value is raised by 1e-12 as the limit is lowered, so they may meet in between.
        assert float(sharp_pvalue(k, n, target=limit, kappa=kappa)) <= alpha * (1.0 + 2e-12)


def test_lower_limits_rise_with_the_count_and_fall_with_contamination_and_confidence() -> None:
    counts = [0, 1, 15, 40, 55, 59, 60]
    by_count = [sharp_lower(k, 60, kappa=0.01, alpha=0.05) for k in counts]
    assert np.all(np.diff(by_count) >= 0.0)
    assert by_count[0] == 0.0 < by_count[-1]
    by_kappa = [sharp_lower(57, 60, kappa=x, alpha=0.05) for x in (0.0, 1e-9, 1e-3, 0.02, 0.049)]
    assert np.all(np.diff(by_kappa) <= 2e-9)  # the tolerance of the search
    by_alpha = [sharp_lower(57, 60, kappa=0.004, alpha=x) for x in (0.005, 0.01, 0.05, 0.3, 0.9)]
    assert np.all(np.diff(by_alpha) > 0.0)


def test_one_draw_can_be_solved_by_hand() -> None:
    # R = N = 1: p = eta_0 + kappa (1 - eta_0), so L = (alpha - kappa)/(1 - kappa).
    assert sharp_lower(1, 1, kappa=0.02, alpha=0.05) == pytest.approx(
        0.03 / 0.98, rel=1e-8, abs=0.0
    )
    assert sharp_lower(1, 1, kappa=0.05, alpha=0.05) == 0.0
    assert sharp_lower(0, 1, kappa=0.0, alpha=0.05) == 0.0


@pytest.mark.parametrize("kappa", [0.0, 5e-324, 1e-310, 1e-15])
def test_no_or_hardly_any_contamination_is_the_exact_binomial_test(kappa: float) -> None:
    for k, n in ((1, 1), (9, 10), (10, 10), (95, 100)):
        p = float(sharp_pvalue(k, n, target=0.8, kappa=kappa))
        exact = float(stats.binom.sf(k - 1, n, 0.8))
        # The derivative of g is at most R (1 - eta_0) = 20, so kappa adds at most 20 kappa.
        assert exact * (1.0 - 1e-14) <= p <= exact * (1.0 + 3e-12) + 20.0 * kappa


def test_no_score_certain_contamination_and_certain_reliability_prove_nothing() -> None:
    assert float(sharp_pvalue(0, 9, target=0.0, kappa=0.0)) == 1.0
    assert float(sharp_pvalue(9, 9, target=0.5, kappa=1.0)) == 1.0
    assert float(sharp_pvalue(9, 9, target=1.0, kappa=0.0)) == 1.0
    assert sharp_lower(9, 9, kappa=1.0, alpha=0.05) == 0.0
    assert int(critical_count(9, target=0.8, kappa=0.5, alpha=0.05)) == 10
    assert int(critical_count(3, target=0.8, kappa=0.0, alpha=0.05)) == 4
    # The target 0 is refuted by one score among releases that never score by chance.
    assert float(sharp_pvalue(1, 9, target=0.0, kappa=0.0)) == TINY


def test_score_tail_is_the_binomial_tail_at_the_contaminated_rate() -> None:
    # P(Bin(2, 1/2) >= 1) = 3/4 at b = 0; rate 1 - .5 * .5 = 3/4 and 15/16 at b = 1/2.
    tails = score_tail(1, 2, target=0.5, b=np.array([0.0, 0.5, 1.0]))
    np.testing.assert_allclose(tails, [0.75, 0.9375, 1.0], rtol=1e-15)


def test_smooth_pvalue_without_sensitivity_is_the_tail_at_kappa() -> None:
    p = smooth_pvalue(95, 100, target=0.8, kappa=0.01, sensitivity=0.0, n_records=50)
    exact = float(tail(95, 100, 0.8, 0.01))
    # All of exp(-25) = 1.4e-11 beyond the grid is counted as certain.
    assert exact <= p <= exact + 2e-11


def test_smooth_lower_inverts_the_smooth_pvalue() -> None:
    setting = {"kappa": 0.01, "sensitivity": 0.002, "n_records": 400}
    limit = smooth_lower(97, 100, alpha=0.05, **setting)
    assert 0.0 < limit < sharp_lower(97, 100, kappa=0.0, alpha=0.05)
    assert smooth_pvalue(97, 100, target=limit, **setting) <= 0.05
    assert smooth_pvalue(97, 100, target=limit + 1e-8, **setting) > 0.05
    assert smooth_lower(0, 100, alpha=0.05, **setting) == 0.0


@given(st.floats(1e-6, 1.0 - 1e-6), st.sampled_from([0.5, 1.0, 4.0, 30.0]))
def test_the_largest_rejected_value_is_found_from_below(root: float, power: float) -> None:
    def smooth(eta: float) -> float:
        return 1.0 if eta == 1.0 else min(1.0, max(TINY, (eta / root) ** power * 0.05))

    def step(eta: float) -> float:  # no logarithm to follow
        return 1.0 if eta > root else 0.01

    for pvalue in (smooth, step):
        # Rounding moves the crossing of the smooth one by a few units in the last place.
        assert root - 1e-9 <= largest_rejected(pvalue, alpha=0.05) <= root


def test_a_value_that_is_never_rejected_gives_zero() -> None:
    assert largest_rejected(lambda eta: 0.2 + 0.8 * eta, alpha=0.05) == 0.0


def test_critical_counts_broadcast_and_are_the_least_that_pass() -> None:
    looks = np.arange(1, 61)
    counts = critical_count(looks, target=0.7, kappa=0.004, alpha=0.05)
    possible = counts <= looks
    assert np.any(possible)
    assert not np.all(possible)
    at = sharp_pvalue(counts[possible], looks[possible], target=0.7, kappa=0.004)
    below = sharp_pvalue(counts[possible] - 1, looks[possible], target=0.7, kappa=0.004)
    assert np.all(at <= 0.05)
    assert np.all(below > 0.05)
    assert np.all(sharp_pvalue(looks, looks, target=0.7, kappa=0.004)[~possible] > 0.05)


@pytest.mark.parametrize(
    ("call", "seen"),
    [
        (lambda: sharp_pvalue(5, 4, target=0.8, kappa=0.01), "5"),
        (lambda: sharp_pvalue(-1, 4, target=0.8, kappa=0.01), "-1"),
        (lambda: sharp_pvalue(0, 0, target=0.8, kappa=0.01), "0"),
        (lambda: sharp_pvalue(1, 4, target=1.5, kappa=0.01), "1.5"),
        (lambda: sharp_pvalue(1, 4, target=0.8, kappa=-0.25), "-0.25"),
        (lambda: sharp_pvalue(1, 4, target=0.8, kappa=np.nan), "nan"),
        (lambda: sharp_pvalue(np.nan, 4, target=0.8, kappa=0.01), "nan"),
        (lambda: sharp_lower(5, 4, kappa=0.01, alpha=0.05), "5"),
        (lambda: sharp_lower(3, 4, kappa=0.01, alpha=0.0), "0"),
        (lambda: sharp_lower(4, 4, kappa=0.01, alpha=1.5), "1.5"),
        (lambda: sharp_lower(4, 4, kappa=-0.25, alpha=0.05), "-0.25"),
        (lambda: sharp_lower(0, 0, kappa=0.01, alpha=0.05), "0"),
        (lambda: largest_rejected(lambda eta: eta, alpha=1.0), "1.0"),
    ],
)
def test_impossible_input_is_refused_and_named(call: Callable[[], Any], seen: str) -> None:
    with pytest.raises(ValueError, match=seen):
        call()
