"""Betting: reference capitals, exact expectations by enumeration, tiles, and the order rule."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from itertools import combinations, pairwise, product
from math import fsum
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxyguard.exact.betting import (
    STAKES,
    TRUNCATION,
    BettingCapital,
    FixedCapital,
    betting_fixed_pvalue,
    betting_fixed_upper,
    betting_pvalue,
    betting_upper,
)
from proxyguard.exact.rounding import TINY

Reference = Callable[[str, str], list[dict[str, Any]]]
Array = np.ndarray

# The guard on a capital's logarithm is 1e-12 + 4 n eps, at most 1.04e-12 for n = 40.
REL = 4e-12


def capital_of(
    u: Array, v: float | Array, *, level: float, violation_level: float = 0.05
) -> BettingCapital:
    capital = BettingCapital(
        columns=u.shape[0], n=u.shape[1], v=v, level=level, violation_level=violation_level
    )
    capital.update(u)
    return capital


def all_sequences(n: int) -> Array:
    """Return all 0/1 sequences of length ``n``, one a row."""
    return np.array(list(product([0.0, 1.0], repeat=n)))


def chance_of(sequences: Array, rates: Array | float) -> Array:
    """Return the probability of each row when record ``s`` is Bernoulli(rates[s])."""
    return np.prod(np.where(sequences == 1.0, rates, 1.0 - np.asarray(rates)), axis=1)


def no_level_is_exceeded(pvalues: Array, chance: Array) -> bool:
    """Return whether ``P(p <= delta) <= delta`` at the attained p-values, the worst levels."""
    below_one = np.unique(pvalues[pvalues < 1.0])
    return all(fsum(chance[pvalues <= delta]) <= delta for delta in below_one)


def test_capital_agrees_with_50_digits_and_is_never_above(reference: Reference) -> None:
    for row in reference("betting", "p_value"):
        u = np.array([[float(x) for x in row["u"]]])
        capital = capital_of(u, float(row["v"]), level=float(row["t"]))
        final, peak = float(capital.log_final()[0, 0]), float(capital.log_peak()[0, 0])
        assert final == pytest.approx(float(row["log_K_n"]), rel=REL, abs=REL), row
        assert Decimal(final) <= Decimal(row["log_K_n"]), row
        # K_0 = 1 counts, so the peak's logarithm is at least 0.
        highest = max(Decimal(0), Decimal(row["log_max_K"]))
        assert peak == pytest.approx(float(highest), rel=REL, abs=REL), row
        assert Decimal(peak) <= highest, row


def test_betting_pvalues_agree_with_50_digits_and_are_never_below(reference: Reference) -> None:
    for row in reference("betting", "p_value"):
        u = np.array([[float(x) for x in row["u"]]])
        p = float(betting_pvalue(u, float(row["v"]), level=float(row["t"]))[0])
        assert p == pytest.approx(float(row["value"]), rel=REL, abs=0.0), row
        assert Decimal(p) >= Decimal(row["value"]), row


def test_fixed_stakes_agree_with_50_digits_and_are_never_below(reference: Reference) -> None:
    rows = reference("betting_fixed", "p_value")
    # A stake of the whole capital is refused: one record at its bound would end the game.
    for row in (row for row in rows if "1" not in row["fractions"]):
        u = np.array([float(x) for x in row["u"]])
        sizes = [row["groups"].count(g) for g in row["groups"]]
        shares = [float(row["group_weights"][g]) for g in row["groups"]]
        omega = np.array(shares) / np.array(sizes)
        p = float(
            betting_fixed_pvalue(
                u, float(row["v"]), omega, stakes=[float(f) for f in row["fractions"]]
            )[0]
        )
        assert p == pytest.approx(float(row["value"]), rel=REL, abs=0.0), row
        assert Decimal(p) >= Decimal(row["value"]), row


@pytest.mark.parametrize(("v", "level"), [(0.5, 0.05), (0.1, 0.01), (0.85, 0.001), (0.3, 0.9)])
@pytest.mark.parametrize("n", [1, 2, 6, 10])
def test_expected_capital_at_the_limit_is_one_and_never_more(
    n: int, v: float, level: float
) -> None:
    sequences = all_sequences(n)
    chance = chance_of(sequences, v)
    capital = np.exp(capital_of(sequences, v, level=level, violation_level=level).log_final())
    for direction in (0, 1):  # at mean = v both nulls hold
        expected = fsum(chance * capital[direction])
        # A martingale, so exactly 1, less the guard of 1e-12 on its logarithm.
        assert 1.0 - 1e-11 <= expected <= 1.0


@pytest.mark.parametrize(("v", "mean"), [(0.3, 0.3), (0.3, 0.55), (0.7, 0.7), (0.05, 0.06)])
@pytest.mark.parametrize("level", [0.05, 0.001])
def test_size_of_betting_is_exact_over_all_sequences(v: float, mean: float, level: float) -> None:
    sequences = all_sequences(10)
    chance = chance_of(sequences, mean)
    pvalues = betting_pvalue(sequences, v, level=level)
    assert no_level_is_exceeded(pvalues, chance)


def test_size_of_the_violation_direction_is_exact_over_all_sequences() -> None:
    sequences = all_sequences(10)
    chance = chance_of(sequences, 0.4)
    pvalues = capital_of(sequences, 0.45, level=0.05, violation_level=0.02).pvalues()[1]
    assert no_level_is_exceeded(pvalues, chance)


def test_sorted_records_make_the_running_maximum_lie() -> None:
    # The order rule has a reason: with the small losses first, fair records of mean v
    # are rejected at level .05 in more than a third of all cases.
    sequences = all_sequences(10)
    chance = chance_of(sequences, 0.5)
    pvalues = betting_pvalue(np.sort(sequences, axis=1), 0.5, level=0.05)
    assert fsum(chance[pvalues <= 0.05]) > 1.0 / 3.0
    in_order = betting_pvalue(sequences, 0.5, level=0.05)
    assert fsum(chance[in_order <= 0.05]) <= 0.05


@pytest.mark.parametrize("means", [(0.5, 0.5), (0.1, 0.7), (0.9, 0.3), (0.0, 0.75)])
def test_expected_fixed_capital_is_at_most_one_for_unequal_weights(
    means: tuple[float, float],
) -> None:
    # Strata of 3 and 6 records, each with half the weight; v is their weighted mean.
    omega = np.array([1 / 6] * 3 + [1 / 12] * 6)
    rates = np.array([means[0]] * 3 + [means[1]] * 6)
    sequences = all_sequences(9)
    chance = chance_of(sequences, rates)
    capital = FixedCapital(columns=len(sequences), v=fsum(means) / 2, largest_weight=1 / 6)
    capital.update(sequences, omega)
    for evalues, pvalues in zip(np.exp(capital.log_evalue()), capital.pvalues(), strict=True):
        assert fsum(chance * evalues) <= 1.0
        assert no_level_is_exceeded(pvalues, chance)


def test_expected_fixed_capital_is_one_for_equal_weights_and_rates() -> None:
    sequences = all_sequences(8)
    capital = FixedCapital(columns=len(sequences), v=0.3, largest_weight=1 / 8)
    capital.update(sequences, np.full(8, 1 / 8))
    expected = fsum(chance_of(sequences, 0.3) * np.exp(capital.log_evalue()[0]))
    assert 1.0 - 1e-11 <= expected <= 1.0


def test_expected_fixed_capital_is_at_most_one_without_replacement() -> None:
    # Every sample of 3 out of 6 and 2 out of 5 is equally likely: 20 * 10 columns.
    first, second = [0.0, 0.1, 0.4, 0.45, 0.9, 1.0], [0.0, 0.0, 0.2, 0.7, 1.0]
    samples = np.array(
        [a + b for a in combinations(first, 3) for b in combinations(second, 2)], dtype=float
    )
    weights = (0.7, 0.3)
    omega = np.array([weights[0] / 3] * 3 + [weights[1] / 2] * 2)
    mean = weights[0] * fsum(first) / 6 + weights[1] * fsum(second) / 5
    for direction, v in ((0, mean), (0, mean - 0.1), (1, mean), (1, mean + 0.1)):
        capital = FixedCapital(columns=len(samples), v=v, largest_weight=float(omega.max()))
        capital.update(samples, omega)
        assert fsum(np.exp(capital.log_evalue()[direction])) / len(samples) <= 1.0
    # Where the mean lies .3 below its limit the capital does grow on average.
    capital = FixedCapital(columns=len(samples), v=mean + 0.3, largest_weight=float(omega.max()))
    capital.update(samples, omega)
    assert fsum(np.exp(capital.log_evalue()[0])) / len(samples) > 1.0


@given(
    st.lists(st.floats(0.0, 1.0), min_size=1, max_size=30),
    st.lists(st.floats(0.01, 0.99), min_size=2, max_size=8),
    st.sampled_from([0.5, 0.05, 1e-6]),
)
def test_capital_grows_with_the_limit(u: list[float], limits: list[float], level: float) -> None:
    v = np.sort(limits)
    rows = np.tile(u, (v.size, 1))
    capital = capital_of(rows, v, level=level, violation_level=level)
    # Equal limits give equal capital; the sums of logarithms carry errors of 1e-14.
    assert np.all(np.diff(capital.log_final()[0]) >= -1e-13)
    assert np.all(np.diff(capital.log_peak()[0]) >= -1e-13)
    assert np.all(np.diff(capital.log_final()[1]) <= 1e-13)


@given(
    st.lists(st.floats(0.0, 1.0), min_size=1, max_size=40),
    st.floats(0.01, 0.99),
    st.sampled_from([0.5, 0.05, 1e-6]),
)
def test_the_violation_direction_is_the_reflected_bet(
    u: list[float], v: float, level: float
) -> None:
    rows = np.array([u])
    both = capital_of(rows, v, level=0.3, violation_level=level)
    reflected = capital_of(1.0 - rows, 1.0 - v, level=level)
    # The running variance of 1 - u equals that of u only up to rounding.
    np.testing.assert_allclose(both.log_final()[1], reflected.log_final()[0], atol=1e-11)
    np.testing.assert_allclose(both.pvalues()[1], reflected.pvalues()[0], rtol=1e-10)


@given(st.lists(st.floats(0.0, 1.0), min_size=3, max_size=40), st.floats(0.01, 0.99))
def test_fixed_stakes_reflect_as_well(u: list[float], v: float) -> None:
    rows = np.array([u])
    omega = np.linspace(1.0, 2.0, rows.size)
    both = FixedCapital(columns=1, v=v, largest_weight=2.0)
    both.update(rows, omega)
    reflected = betting_fixed_pvalue(1.0 - rows, 1.0 - v, omega)
    np.testing.assert_allclose(both.pvalues()[1], reflected, rtol=1e-10)


@given(st.integers(1, 30), st.data())
def test_records_may_arrive_in_tiles_of_any_size(n: int, data: st.DataObject) -> None:
    rng = np.random.default_rng(n)
    u = rng.random((3, n))
    cuts = sorted(data.draw(st.lists(st.integers(0, n), max_size=4)))
    tiles = np.split(u, cuts, axis=1)
    whole = capital_of(u, 0.6, level=0.05)
    tiled = BettingCapital(columns=3, n=n, v=0.6, level=0.05, violation_level=0.05)
    fixed = FixedCapital(columns=3, v=0.6, largest_weight=1.0 / n)
    for tile in tiles:
        tiled.update(tile)
        fixed.update(tile, np.full(tile.shape[1], 1.0 / n))
    # Only the order of summation differs.
    np.testing.assert_allclose(tiled.log_final(), whole.log_final(), rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(tiled.log_peak(), whole.log_peak(), rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(fixed.pvalues()[0], betting_fixed_pvalue(u, 0.6), rtol=1e-12)


def test_fixed_stakes_do_not_read_the_order() -> None:
    rng = np.random.default_rng(8)
    u, omega = rng.random(25), rng.random(25) + 0.1
    order = rng.permutation(25)
    straight = betting_fixed_pvalue(u, 0.8, omega)
    shuffled = betting_fixed_pvalue(u[order], 0.8, omega[order])
    np.testing.assert_allclose(straight, shuffled, rtol=1e-13)
    # The adaptive bet does read it, which is why the order is sealed.
    assert betting_pvalue(u, 0.8, level=0.05) != betting_pvalue(u[order], 0.8, level=0.05)


def test_one_record_and_records_at_a_bound() -> None:
    # One record of 0 against 1/2: the stake is capped at .9/(1 - v), the capital is 1.9.
    assert TRUNCATION == 0.9
    p = float(betting_pvalue([[0.0]], 0.5, level=1e-6)[0])
    assert p == pytest.approx(1.0 / 1.9, rel=REL, abs=0.0)
    # All at the upper bound: only losses, whose largest share is .9, and no evidence.
    assert float(betting_pvalue([[1.0] * 50], 0.5, level=0.05)[0]) == 1.0
    assert float(betting_upper([[1.0] * 50], level=0.05, delta=0.05)[0]) == 1.0
    assert float(betting_fixed_upper([[1.0] * 50], delta=0.05)[0]) == 1.0
    # All at the lower bound: 3000 records against .9 leave the range of doubles.
    assert float(betting_pvalue([[0.0] * 3000], 0.9, level=0.05)[0]) < 1e-20
    assert float(betting_fixed_pvalue([[0.0] * 3000], 0.9)[0]) == TINY


def test_the_default_stakes_are_sixteen_fractions_up_to_the_truncation() -> None:
    assert len(STAKES) == 16
    assert STAKES[0] == pytest.approx(0.9 / 64, rel=1e-14, abs=0.0)
    assert STAKES[-1] == pytest.approx(0.9, rel=1e-14, abs=0.0)
    assert all(a < b for a, b in pairwise(STAKES))


def test_a_record_count_other_than_declared_is_refused() -> None:
    capital = BettingCapital(columns=1, n=3, v=0.5, level=0.05, violation_level=0.05)
    capital.update(np.zeros((1, 2)))
    for read in (capital.log_peak, capital.log_final, capital.pvalues):
        with pytest.raises(ValueError, match="declared 3 records, got 2"):
            read()
    with pytest.raises(ValueError, match="declared 3 records, got at least 4"):
        capital.update(np.zeros((1, 2)))


@pytest.mark.parametrize(
    ("call", "seen"),
    [
        (lambda: betting_pvalue(np.zeros((1, 0)), 0.5, level=0.05), "n = 0"),
        (lambda: betting_pvalue([[0.5]], 1.0, level=0.05), "1."),
        (lambda: betting_pvalue([[0.5]], np.nan, level=0.05), "nan"),
        (lambda: betting_pvalue([[0.5]], 0.5, level=0.0), "level must lie in .* got 0.0"),
        (lambda: capital_of(np.zeros((1, 1)), 0.5, level=0.1, violation_level=1.0), "got 1.0"),
        (lambda: betting_fixed_pvalue([[0.5]], 0.0), "got 0.0"),
        (lambda: betting_fixed_pvalue([[0.5]], 0.5, stakes=()), r"\(\)"),
        (lambda: betting_fixed_pvalue([[0.5]], 0.5, stakes=(0.5, 1.0)), "1.0"),
        (lambda: betting_fixed_pvalue([[0.5]], 0.5, [0.0]), "got 0.0"),
        (lambda: betting_fixed_pvalue([[0.5, 0.5]], 0.5, [1.0, -1.0]), "1.0"),
        (lambda: betting_upper([[1.5]], level=0.05, delta=0.05), r"\[0, 1\]"),
        (lambda: betting_fixed_upper([[-0.5]], delta=0.05), r"\[0, 1\]"),
    ],
)
def test_impossible_input_is_refused(call: Callable[[], Any], seen: str) -> None:
    with pytest.raises(ValueError, match=seen):
        call()


def test_a_weight_above_the_registered_largest_is_refused() -> None:
    capital = FixedCapital(columns=1, v=0.5, largest_weight=0.25)
    with pytest.raises(ValueError, match=r"\(0, 0.25\]"):
        capital.update(np.zeros((1, 1)), np.array([0.3]))
