"""Sequential looks: exact crossing chances, exact time-uniform error, and the naive twins."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from itertools import product
from math import comb
from typing import Any

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proxyguard.exact.binomial import clopper_pearson_lower
from proxyguard.exact.sequential import (
    Boundary,
    bernoulli_lower,
    crossing_paths,
    crossing_probability,
    hull_at,
    sharp_boundary,
    worst_size,
)
from proxyguard.exact.sharp import critical_count, sharp_pvalue

Reference = Callable[[str, str], list[dict[str, Any]]]
Array = np.ndarray

LOOKS = np.arange(20, 301, 20)


def test_limits_agree_with_50_digits_and_are_never_above(reference: Reference) -> None:
    for row in reference("sequence", "lower_limit"):
        limit = float(bernoulli_lower(row["S"], row["n"], alpha=float(row["alpha"])))
        # Guards of 1e-12 on the logarithm of the mixture and on the limit.
        assert limit == pytest.approx(float(row["value"]), rel=5e-12, abs=0.0), row
        assert Decimal(limit) <= Decimal(row["value"]), row


@pytest.mark.parametrize(
    ("s", "n", "alpha"),
    [(11, 5000, 0.05), (2, 20000, 0.24), (37, 20000, 0.295), (6, 20000, 5.6e-11)],
)
def test_few_successes_among_many_draws_are_not_overstated(s: int, n: int, alpha: float) -> None:
    limit = float(bernoulli_lower(s, n, alpha=alpha))
    with mpmath.workdps(50):
        p = mpmath.mpf(limit)
        # 1 - I_p(1 + s, 1 + n - s) = P(Bin(n + 1, p) <= s), a sum of s + 1 terms.
        tail = mpmath.fsum(
            mpmath.binomial(n + 1, i) * p**i * (1 - p) ** (n + 1 - i) for i in range(s + 1)
        )
        whole = 1 / ((n + 1) * mpmath.binomial(n, s))
        ratio = whole * tail / (1 - p) / (p**s * (1 - p) ** (n - s))
        # Up to the limit every rate is refuted: M is at least 1/alpha. No tolerance.
        assert ratio >= 1 / mpmath.mpf(alpha)
    assert ratio <= (1 + 1e-9) / alpha


def error_over_time(lower: Array, rate: float) -> float:
    """Return the chance that ``lower[n - 1, s] > rate`` at some n, by counting paths exactly.

    ``lower`` holds a limit for each number of draws (rows) and of successes (columns).
    """
    alive, crossed = np.array([1.0]), 0.0
    for row in lower:
        step = np.zeros(alive.size + 1)
        step[:-1] += alive * (1.0 - rate)
        step[1:] += alive * rate
        over = row[: step.size] > rate
        crossed += float(step[over].sum())
        step[over] = 0.0
        alive = step
    return crossed


def table_of(limit: Callable[[Array, int], Array], horizon: int) -> Array:
    table = np.zeros((horizon, horizon + 1))
    for n in range(1, horizon + 1):
        table[n - 1, : n + 1] = limit(np.arange(n + 1), n)
    return table


@pytest.mark.parametrize("alpha", [0.05, 0.2])
def test_the_confidence_sequence_errs_with_probability_at_most_alpha_over_all_looks(
    alpha: float,
) -> None:
    table = table_of(lambda s, n: bernoulli_lower(s, n, alpha=alpha), 200)
    errors = [error_over_time(table, rate) for rate in (0.02, 0.3, 0.5, 0.8, 0.9, 0.99)]
    assert max(errors) <= alpha
    assert max(errors) > alpha / 10  # not so wide as to make the test empty


def test_a_fixed_limit_looked_at_repeatedly_errs_more_often_than_alpha() -> None:
    table = table_of(lambda s, n: clopper_pearson_lower(s, n, alpha=0.05), 200)
    assert error_over_time(table, 0.8) > 0.15
    # The same limit looked at once keeps its level: only the last row counts.
    once = np.zeros_like(table)
    once[-1] = table[-1]
    assert 0.0 < error_over_time(once, 0.8) <= 0.05


def test_the_confidence_sequence_lies_below_the_fixed_limit() -> None:
    s, n = np.arange(1, 101), 100
    sequence, fixed = bernoulli_lower(s, n, alpha=0.05), clopper_pearson_lower(s, n, alpha=0.05)
    assert np.all(sequence < fixed)
    assert np.all(np.diff(sequence) > 0.0)
    assert float(bernoulli_lower(0, 1, alpha=0.05)) == 0.0
    assert bernoulli_lower([0, 1], [1, 1], alpha=0.5).shape == (2,)


def brute_force(looks: list[int], counts: list[int], rate: float) -> float:
    total = 0.0
    for scores in product([0, 1], repeat=looks[-1]):
        sums = np.cumsum(scores)
        if any(sums[look - 1] >= count for look, count in zip(looks, counts, strict=True)):
            total += rate ** sums[-1] * (1 - rate) ** (looks[-1] - sums[-1])
    return total


@settings(max_examples=25)
@given(st.sets(st.integers(1, 10), min_size=1, max_size=5), st.data())
def test_crossing_chances_agree_with_all_score_sequences(
    looks: set[int], data: st.DataObject
) -> None:
    grid = sorted(looks)
    counts = [data.draw(st.integers(0, look + 1)) for look in grid]
    paths = crossing_paths(grid, counts)
    for rate in (0.0, 0.3, 0.85, 1.0):
        ours = float(crossing_probability(paths, rate)[0])
        assert ours == pytest.approx(brute_force(grid, counts, rate), rel=1e-12, abs=0.0)


def test_crossing_chances_agree_with_whole_numbers_over_a_thousand_draws() -> None:
    looks = np.arange(50, 1001, 50)
    counts = critical_count(looks, target=0.8, kappa=0.01, alpha=0.02)
    alive, crossed, drawn = [1], {}, 0
    for look, count in zip(looks.tolist(), counts.tolist(), strict=True):
        for _ in range(look - drawn):
            alive = [a + b for a, b in zip([*alive, 0], [0, *alive], strict=True)]
        drawn = look
        crossed |= {(look, s): paths for s, paths in enumerate(alive) if s >= count and paths}
        alive = [paths if s < count else 0 for s, paths in enumerate(alive)]
    for numerator in (13, 14, 15):  # rates in sixteenths, so that all is a whole number
        total = sum(
            paths * numerator**s * (16 - numerator) ** (look - s) * 16 ** (1000 - look)
            for (look, s), paths in crossed.items()
        )
        ours = float(crossing_probability(crossing_paths(looks, counts), numerator / 16)[0])
        # A thousand additions of logarithms of size 700, each rounded.
        assert ours == pytest.approx(total / 16**1000, rel=1e-11, abs=0.0)


def test_one_look_is_the_binomial_tail() -> None:
    paths = crossing_paths([9], [7])
    exact = sum(comb(9, k) * 0.6**k * 0.4 ** (9 - k) for k in (7, 8, 9))
    assert float(crossing_probability(paths, 0.6)[0]) == pytest.approx(exact, rel=1e-13, abs=0.0)


def test_a_boundary_beyond_reach_is_never_crossed() -> None:
    paths = crossing_paths([3, 5], [4, 6])
    assert crossing_probability(paths, [0.2, 1.0]).tolist() == [0.0, 0.0]


@given(st.integers(0, 2**32 - 1), st.sampled_from([0.002, 0.01, 0.2]))
def test_the_worst_size_is_never_below_the_chance_at_a_law_on_two_points(
    seed: int, kappa: float
) -> None:
    rng = np.random.default_rng(seed)
    looks = np.sort(rng.choice(np.arange(1, 41), size=4, replace=False))
    counts = np.array([rng.integers(look // 2, look + 2) for look in looks])
    target = float(rng.choice([0.3, 0.8, 0.95]))
    paths = crossing_paths(looks, counts)
    size = worst_size(paths, target=target, kappa=kappa)
    low, high = kappa * rng.random(20), kappa + (1 - kappa) * rng.random(20)
    mass = (kappa - low) / (high - low)  # on the upper point, so that the mean is kappa
    chance = (1 - mass) * crossing_probability(paths, 1 - (1 - target) * (1 - low))
    chance += mass * crossing_probability(paths, 1 - (1 - target) * (1 - high))
    # No tolerance: the hull is taken on points shifted to the safe side.
    assert size >= float(chance.max())
    # Nor is it far above: a finer grid brings it down by little.
    finer = worst_size(paths, target=target, kappa=kappa, points=3000)
    assert finer <= size <= finer * 1.25 + 1e-12


def test_at_one_look_the_worst_size_is_the_sharp_pvalue() -> None:
    for n, k, kappa in ((30, 28, 0.003), (100, 88, 0.01), (250, 222, 0.02)):
        size = worst_size(crossing_paths([n], [k]), target=0.8, kappa=kappa, points=4000)
        exact = float(sharp_pvalue(k, n, target=0.8, kappa=kappa))
        # Never below, up to 1e-12 of rounding; the shifted grid costs a few percent.
        assert exact * (1.0 - 1e-11) <= size <= exact * 1.05


@pytest.mark.parametrize("kappa", [0.0, 0.003, 0.01])
def test_the_registered_boundary_keeps_its_level_at_every_look(kappa: float) -> None:
    boundary = sharp_boundary(LOOKS.tolist(), target=0.8, kappa=kappa, alpha=0.05)
    assert boundary is not None
    paths = crossing_paths(boundary.looks, boundary.counts)
    assert boundary.size == worst_size(paths, target=0.8, kappa=kappa)
    # Bisection of a step function: most of the level is used.
    assert 0.035 <= boundary.size <= 0.05
    assert boundary.level < 0.05
    np.testing.assert_array_equal(
        boundary.counts, critical_count(LOOKS, target=0.8, kappa=kappa, alpha=boundary.level)
    )


def test_the_critical_count_at_every_look_exceeds_its_level() -> None:
    counts = critical_count(LOOKS, target=0.8, kappa=0.01, alpha=0.05)
    assert worst_size(crossing_paths(LOOKS, counts), target=0.8, kappa=0.01) > 0.06
    # Not an artefact of the upper bound: one allowed law already exceeds it.
    paths = crossing_paths(LOOKS, counts)
    b = np.linspace(0.01, 1.0, 400)
    chance = crossing_probability(paths, 1 - 0.2 * (1 - b))
    base = float(crossing_probability(paths, 0.8)[0])
    assert float(np.max(base + 0.01 / b * (chance - base))) > 0.06


def test_a_boundary_reads_cumulative_counts_look_by_look() -> None:
    boundary = Boundary(np.array([5, 10, 15]), np.array([6, 9, 12]), 0.05, 0.04)
    assert boundary.crossed([5, 9, 11]).tolist() == [False, True, False]
    assert boundary.crossed([5]).tolist() == [False]


def test_no_boundary_is_returned_when_no_look_can_cross() -> None:
    assert sharp_boundary([3, 6], target=0.8, kappa=0.0, alpha=0.05) is None
    assert sharp_boundary([100], target=0.8, kappa=0.05, alpha=0.05) is None
    assert sharp_boundary([100], target=0.8, kappa=0.5, alpha=0.05) is None


@given(
    st.lists(
        st.tuples(st.integers(0, 40), st.integers(0, 40)),
        min_size=1,
        max_size=9,
        unique_by=lambda p: p[0],
    ),
    st.data(),
)
def test_the_hull_is_the_highest_chord_over_the_point(
    points: list[tuple[int, int]], data: st.DataObject
) -> None:
    points.sort()
    x, y = (np.array(part, dtype=float) for part in zip(*points, strict=True))
    at = data.draw(st.floats(float(x[0]), float(x[-1])))
    # Pair by pair, as the definition reads.
    best = max(
        y[i] if x[i] == x[j] else y[i] + (y[j] - y[i]) * (at - x[i]) / (x[j] - x[i])
        for i in range(x.size)
        for j in range(i, x.size)
        if x[i] <= at <= x[j]
    )
    assert hull_at(x, y, at) == pytest.approx(float(best), rel=1e-12, abs=1e-12)


@pytest.mark.parametrize(
    ("call", "seen"),
    [
        (lambda: bernoulli_lower(3, 2, alpha=0.05), "3"),
        (lambda: bernoulli_lower(-1, 2, alpha=0.05), "-1"),
        (lambda: bernoulli_lower(0, 0, alpha=0.05), "0"),
        (lambda: bernoulli_lower(np.nan, 2, alpha=0.05), "nan"),
        (lambda: bernoulli_lower(1, 2, alpha=1.0), "1.0"),
        (lambda: crossing_paths([], []), "increasing"),
        (lambda: crossing_paths([5, 5], [1, 1]), "increasing"),
        (lambda: crossing_paths([0, 5], [1, 1]), "increasing"),
        (lambda: crossing_paths([5, 6], [1]), "one count for each"),
    ],
)
def test_impossible_input_is_refused(call: Callable[[], Any], seen: str) -> None:
    with pytest.raises(ValueError, match=seen):
        call()
