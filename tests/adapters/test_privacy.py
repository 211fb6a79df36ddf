"""What releases cost together, against closed forms that share no code with the accountant."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import mpmath
import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom, norm

from proxyguard.adapters.categorical import CategoricalSampler
from proxyguard.adapters.privacy import (
    PrivacyStatement,
    composed,
    cost_of,
    epsilon_at,
    privacy_lines,
    privacy_of,
    rho_within,
    shown_delta,
)
from proxyguard.adapters.transforms import RowBootstrap
from proxyguard.documents.canonical import canonical_bytes
from proxyguard.draw.protocol import Seed
from proxyguard.errors import RegistryError


def delta_of_pure(fits: int, epsilon: float, total: float) -> float:
    """Delta at ``total`` of the worst ``fits`` pure-epsilon steps: a binomial sum.

    Kairouz, Oh and Viswanath (2015), Theorem 3.3: the loss is (fits - 2 i) epsilon with the
    chance that i of ``fits`` randomised responses lie.
    """
    i = np.arange(fits + 1)
    loss = (fits - 2 * i) * epsilon
    chance = binom.pmf(i, fits, 1.0 / (1.0 + math.exp(epsilon)))
    return float(np.sum(chance * -np.expm1(np.minimum(total - loss, 0.0))))


@pytest.mark.parametrize(
    ("fits", "epsilon"), [(2, "1"), (10, "1"), (30, "0.1"), (100, "0.01"), (250, "0.05")]
)
@pytest.mark.parametrize("at_delta", ["1e-6", "0.001"])
def test_optimal_composition_is_that_of_the_binomial_sum(
    fits: int, epsilon: str, at_delta: str
) -> None:
    cost = composed(fits, epsilon, at_delta=at_delta)
    step, limit = float(epsilon), float(at_delta)
    # Never below the exact answer, and not above it by more than 1e-4 of it.
    assert delta_of_pure(fits, step, cost.epsilon_upper) <= limit * (1 + 1e-6)
    assert delta_of_pure(fits, step, cost.epsilon_upper * (1 - 1e-4)) > limit
    assert cost.basic_epsilon == fits * Fraction(epsilon)
    assert cost.epsilon_upper <= float(cost.basic_epsilon)


def exact_delta_of_pure(fits: int, epsilon: Fraction, total: float) -> mpmath.mpf:
    """The sum of `delta_of_pure` with 60 digits: what no rounding may come out below."""
    with mpmath.workdps(60):
        step, bound = mpmath.mpf(epsilon.numerator) / epsilon.denominator, mpmath.mpf(total)
        lie = 1 / (1 + mpmath.exp(step))
        losses = ((i, (fits - 2 * i) * step) for i in range(fits + 1))
        return mpmath.fsum(
            mpmath.binomial(fits, i)
            * lie**i
            * (1 - lie) ** (fits - i)
            * -mpmath.expm1(bound - loss)
            for i, loss in losses
            if loss > bound
        )


@pytest.mark.parametrize(
    ("fits", "epsilon", "at_delta"),
    # Where the nearest doubles gave an epsilon that does not hold, by up to 1e-5 of the delta.
    [(2, "1", "0.1"), (10, "10", "1e-9"), (250, "1/3", "1e-6"), (1000, "1/3", "1e-9")],
)
def test_a_composed_epsilon_holds_to_the_last_digit(fits: int, epsilon: str, at_delta: str) -> None:
    cost = composed(fits, epsilon, at_delta=at_delta)
    exact = exact_delta_of_pure(fits, Fraction(epsilon), cost.epsilon_upper)
    assert exact <= mpmath.mpf(at_delta)
    # And a ten-thousandth less does not.
    less = cost.epsilon_upper * (1 - 1e-4)
    assert exact_delta_of_pure(fits, Fraction(epsilon), less) > mpmath.mpf(at_delta)


def test_the_sum_of_costs_is_no_less_as_a_double() -> None:
    # The double nearest to 3/10 lies below it, and at so small a delta only the sum holds.
    cost = composed(3, "0.1", at_delta="1e-30")
    assert Fraction(cost.epsilon_upper) >= cost.basic_epsilon == Fraction(3, 10)
    assert cost.epsilon_upper == math.nextafter(0.3, 1.0)


def test_costs_in_words_are_rounded_up() -> None:
    stated = PrivacyStatement(
        epsilon=Fraction(1, 3), delta=Fraction(1, 3 * 10**9), unit="a row", fits="each draw"
    )
    (line,) = privacy_lines(stated, 31)
    assert "a private fit of its own (epsilon 0.333334, delta 3.33334e-10;" in line
    # 31/3 = 10.33333..., 31/3 e-9.
    assert "costs epsilon 10.3334, delta 1.03334e-08 by basic composition" in line
    once = PrivacyStatement(epsilon=Fraction(4, 3), delta=Fraction(0), unit="a row", fits="once")
    assert "all releases together cost the same epsilon 1.33334." in privacy_lines(once, 5)[0]


def test_many_small_fits_cost_less_together_than_their_sum() -> None:
    cost = composed(100, "0.01", at_delta="1e-6")
    assert cost.basic_epsilon == 1
    # 0.392264: bisection of the binomial sum above at 1e-6 (0.39226394309).
    assert cost.epsilon_upper == pytest.approx(0.392264, abs=1e-6)


def test_delta_of_the_fits_is_added_and_must_have_room() -> None:
    cost = composed(10, "0.5", "1e-8", at_delta="1e-6")
    assert (cost.basic_epsilon, cost.basic_delta) == (5, Fraction("1e-7"))
    assert cost.epsilon_upper <= 5.0
    assert cost.epsilon_upper >= composed(10, "0.5", at_delta="1e-6").epsilon_upper
    with pytest.raises(RegistryError, match=r"10 fits with delta .* at_delta"):
        composed(10, "0.5", "1e-6", at_delta="1e-6")


def test_laplace_noise_costs_no_more_than_the_worst_noise() -> None:
    worst = composed(10, "1", at_delta="1e-6")
    laplace = composed(10, "1", at_delta="1e-6", noise="laplace")
    assert laplace.epsilon_upper < worst.epsilon_upper
    # One step has a closed form: for shift 1 and scale 1 / epsilon,
    # delta(e) = 1 - exp((e - epsilon) / 2), so e = epsilon + 2 log(1 - delta).
    one = composed(1, "1", at_delta="0.01", noise="laplace")
    assert one.epsilon_upper == pytest.approx(1 + 2 * math.log1p(-0.01), rel=1e-3)
    assert one.epsilon_upper >= 1 + 2 * math.log1p(-0.01)


def test_a_fit_of_many_parts_is_accounted_part_by_part() -> None:
    whole = composed(100, "20", at_delta="1e-6")
    parts = composed(100, "20", at_delta="1e-6", parts=18)
    assert whole.epsilon_upper == pytest.approx(2000.0, rel=1e-6)
    # 1197.525: bisection of the binomial sum with 1800 steps of 10/9 at 1e-6.
    assert 1197.5 < parts.epsilon_upper < 1198.5
    assert parts.basic_epsilon == whole.basic_epsilon == 2000


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((0, "1"), "fits is a whole number"),
        ((True, "1"), "fits is a whole number"),
        ((2, "0"), "epsilon above 0"),
        ((2, "x"), "epsilon is a number"),
        ((2, "1", "1"), "delta of at least 0 and below 1"),
    ],
)
def test_numbers_that_are_no_cost_are_refused(arguments: Any, message: str) -> None:
    with pytest.raises(RegistryError, match=message):
        composed(*arguments)


@pytest.mark.parametrize("at_delta", ["0", "1", "-1"])
def test_a_cost_is_stated_at_a_delta_above_0_and_below_1(at_delta: str) -> None:
    with pytest.raises(RegistryError, match="at_delta is above 0"):
        composed(2, "1", at_delta=at_delta)


def test_other_mixtures_than_are_accounted_for_are_refused() -> None:
    with pytest.raises(RegistryError, match='noise is "any", or "laplace"'):
        composed(2, "1", noise="gauss")  # type: ignore[arg-type]
    with pytest.raises(RegistryError, match='noise is "any", or "laplace"'):
        composed(2, "1", "1e-9", noise="laplace")
    with pytest.raises(RegistryError, match="divided into parts"):
        composed(2, "1", "1e-9", parts=3)


class Refitting:
    """A generator of a user's own that fits in every draw."""

    def __init__(self, **privacy: Any) -> None:
        self._privacy = privacy

    def describe(self) -> Mapping[str, Any]:
        return {"privacy": self._privacy}

    def prepare(self, source: pd.DataFrame, rng: np.random.Generator) -> None:
        raise NotImplementedError

    def draw(self, seed: Seed) -> pd.DataFrame:
        raise NotImplementedError


def sampled_many_times(**options: Any) -> CategoricalSampler:
    return CategoricalSampler(
        outcome="y", domains={"y": ["0", "1"], "a": ["u", "v"]}, rows=10, epsilon="2", **options
    )


def test_a_generator_that_says_nothing_promises_nothing() -> None:
    assert privacy_of(RowBootstrap()) is None
    assert privacy_of({"mechanism": "recorded"}) is None


def test_a_recorded_description_serves_as_well_as_the_generator() -> None:
    generator = sampled_many_times(noise="opendp", folder="fits")
    stated = privacy_of(generator)
    assert stated is not None
    assert stated == privacy_of(dict(generator.describe()))
    found = stated.to_dict()
    canonical_bytes(found)
    assert {k: found[k] for k in ("epsilon", "delta", "unit", "fits")} == {
        "epsilon": "2",
        "delta": "0",
        "unit": "one row of the source, added or removed",
        "fits": "once",
    }


@pytest.mark.parametrize(
    "privacy",
    [
        {"epsilon": "1", "delta": "0", "unit": "a row"},
        {"epsilon": "much", "delta": "0", "unit": "a row", "fits": "once"},
        {"epsilon": "1", "delta": "0", "unit": "a row", "fits": "twice"},
        {"epsilon": "-1", "delta": "0", "unit": "a row", "fits": "once"},
    ],
)
def test_a_statement_that_is_none_is_refused(privacy: dict[str, str]) -> None:
    with pytest.raises(RegistryError, match="privacy"):
        privacy_of(Refitting(**privacy))


def test_one_fit_sampled_many_times_costs_epsilon_once() -> None:
    stated = privacy_of(sampled_many_times(noise="opendp", folder="fits"))
    assert stated is not None
    assert cost_of(stated, 100) is None
    first = privacy_lines(stated, 100)[0]
    assert "is sampled 100 times" in first
    assert "all releases together cost the same epsilon 2" in first


def test_refits_cost_their_composition() -> None:
    stated = privacy_of(Refitting(epsilon="0.1", delta="1e-9", unit="a row", fits="each draw"))
    assert stated is not None
    cost = cost_of(stated, 30, at_delta="1e-6")
    assert cost is not None
    assert cost == composed(30, "0.1", "1e-9", at_delta="1e-6")
    canonical_bytes(cost.to_dict())
    (line,) = privacy_lines(stated, 30, at_delta="1e-6")
    assert "Each of 30 draws is a private fit of its own (epsilon 0.1, delta 1e-09;" in line
    assert "To release all 30 costs epsilon 3, delta 3e-08 by basic composition" in line
    shown = float(line.split("or epsilon ")[1].split(",")[0])
    assert cost.epsilon_upper <= shown < cost.epsilon_upper + 0.0011  # rounded up
    assert "dp-accounting" in line


def test_refits_whose_deltas_sum_up_are_shown_at_twice_their_sum() -> None:
    stated = privacy_of(Refitting(epsilon="5", delta="1e-6", unit="a row", fits="each draw"))
    assert stated is not None
    # 30 fits of 1e-6 sum up to 3e-5, above the usual 1e-6.
    assert shown_delta(stated, 30) == Fraction("6e-5")
    assert cost_of(stated, 30) == composed(30, "5", "1e-6", at_delta="6e-5")
    (line,) = privacy_lines(stated, 30)
    assert "epsilon 150, delta 3e-05 by basic composition" in line
    assert "delta 6e-05 (twice that of basic composition) by optimal composition" in line
    small = privacy_of(Refitting(epsilon="5", delta="1e-9", unit="a row", fits="each draw"))
    assert small is not None
    assert shown_delta(small, 30) == Fraction("1e-6")


def test_refits_whose_deltas_sum_up_to_nearly_one_promise_nothing_together() -> None:
    stated = privacy_of(Refitting(epsilon="1", delta="0.02", unit="a row", fits="each draw"))
    assert stated is not None
    (line,) = privacy_lines(stated, 30)
    assert "To release all 30 is not private in any useful sense" in line
    assert "sum up to 0.6." in line  # 30 x 0.02


def test_one_refit_is_no_composition() -> None:
    stated = PrivacyStatement(
        epsilon=Fraction(1), delta=Fraction(0), unit="a row", fits="each draw"
    )
    assert cost_of(stated, 1) is None
    assert privacy_lines(stated, 1) == ["One draw is one private fit (epsilon 1; unit: a row)."]


def test_noise_from_a_recorded_seed_is_said_to_be_no_protection() -> None:
    stated = privacy_of(sampled_many_times(noise="seeded"))
    assert stated is not None
    lines = privacy_lines(stated, 5)
    assert lines[0].startswith("Not private against whoever knows the seed")
    assert lines[1].startswith("One private fit")
    assert sum("seed" in line for line in lines) == 1  # said once
    assert any("Laplace noise is made in floating point" in line for line in lines)
    assert sum(line.startswith("Not covered: ") for line in lines) == 4


def test_without_dp_accounting_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "dp_accounting.pld", None)
    with pytest.raises(RegistryError, match=r'pip install "proxyguard\[dp\]"'):
        composed(2, "1")


# rho + 2 sqrt(rho log(1/delta)) = epsilon, of Bun and Steinke (2016), gives .38533 for
# (5, 1e-6); what is used here holds with more.
def test_rho_is_more_than_by_the_simple_formula() -> None:
    rho = rho_within(Fraction(5), Fraction(1, 10**6))
    assert 0.38533 < float(rho) < 0.47


@given(st.floats(0.05, 20.0), st.floats(1e-12, 0.01))
def test_the_rho_of_an_epsilon_never_costs_more(epsilon: float, delta: float) -> None:
    limit, room = Fraction(repr(epsilon)), Fraction(repr(delta))
    rho = rho_within(limit, room)
    assert rho > 0
    assert epsilon_at(rho, room) <= limit
    assert epsilon_at(rho * Fraction(101, 100), room) > limit  # and little is left over


@given(st.floats(1e-3, 5.0), st.floats(1e-10, 1e-2))
def test_the_epsilon_of_a_rho_covers_the_gaussian_mechanism(rho: float, delta: float) -> None:
    epsilon = epsilon_at(Fraction(repr(rho)), Fraction(repr(delta)))
    # Balle and Wang (2018), Theorem 8: the exact delta of Gaussian noise with this rho.
    mu = math.sqrt(2.0 * rho)
    log_tail = norm.logcdf(-mu / 2 - epsilon / mu) + epsilon
    assert norm.cdf(mu / 2 - epsilon / mu) - math.exp(min(log_tail, 0.0)) <= delta


def test_refits_with_a_rho_cost_the_sum_of_their_rhos_and_need_no_accountant(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "dp_accounting", None)
    stated = PrivacyStatement(
        epsilon=Fraction(5), delta=Fraction(1, 10**6), unit="one row", fits="each draw",
        rho=rho_within(Fraction(5), Fraction(1, 10**6)),
    )  # fmt: skip
    cost = cost_of(stated, 30)
    assert cost is not None
    assert stated.rho is not None
    assert cost.epsilon_upper == epsilon_at(30 * stated.rho, Fraction(1, 10**6))
    assert cost.epsilon_upper < 0.3 * cost.basic_epsilon


@pytest.mark.parametrize(
    ("epsilon", "delta", "rho"), [("4.9", "1e-6", "0.463"), ("5", "0", "0.1"), ("5", "1e-6", "0")]
)
def test_a_rho_that_understates_its_epsilon_is_refused(epsilon: str, delta: str, rho: str) -> None:
    with pytest.raises(RegistryError, match="promises the epsilon that it gives"):
        PrivacyStatement(
            epsilon=Fraction(epsilon), delta=Fraction(delta), unit="", fits="each draw",
            rho=Fraction(rho),
        )  # fmt: skip
