"""A law says what it was told: means, validity, reliability, and what shifting does to them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxyguard import Requirement
from proxyguard.errors import RegistryError
from proxyguard.plan.law import SPREAD, Law, assumed_law, pilot_law
from proxyguard.plan.question import Question
from proxyguard.plan.recommend import recommend

Array = np.ndarray

ERROR = Requirement(name="error", low=0, high=1, limit=0.3, two_valued=True)
COST = Requirement(name="cost", low=-1, high=3, limit=1.0)  # unit limit 1/2


def pilots(means: list[float], n: int = 10) -> Array:
    """Return two-valued losses (R, n, 1) with these means, whole tenths."""
    return np.stack([np.arange(n) < round(m * n) for m in means]).astype(float)[:, :, None]


def test_means_of_pilots_are_their_sample_means_on_the_unit_scale() -> None:
    losses = np.array([[[0.0, -1.0], [1.0, 3.0]], [[0.0, 0.0], [0.0, 1.0]]])  # (R 2, n 2, J 2)
    law = pilot_law(losses, [ERROR, COST])
    # Unit scale of [-1, 3]: (x + 1)/4, so -1, 3, 0, 1 become 0, 1, .25, .5.
    np.testing.assert_allclose(law.means, [[0.5, 0.5], [0.0, 0.375]], rtol=1e-15)
    np.testing.assert_allclose(law.limits, [0.3, 0.5], rtol=1e-15)
    assert law.joint
    assert law.origin == "2 pilot releases on 2 records, 1 of 2 valid, counted as 1.5 of 3"


def test_pilots_that_are_all_valid_are_one_half_short_of_all_releases() -> None:
    law = pilot_law(pilots([0.1] * 20), [ERROR])
    assert law.reliability == pytest.approx(20.5 / 21, rel=1e-12)
    assert law.origin.endswith("20 of 20 valid, counted as 20.5 of 21")
    assert pilot_law(pilots([0.5] * 4), [ERROR]).reliability == 0.0


def test_chances_that_sum_to_a_last_digit_more_than_one_are_a_reliability_of_one() -> None:
    losses = np.random.default_rng(0).beta(2, 30, size=(20, 240, 1))
    law = pilot_law(losses, [Requirement(name="e", low=0, high=1, limit=0.12)], reliability=1)
    assert law.releases.sum() >= 1.0
    assert law.reliability == 1.0
    question = Question(reliability_target="0.8", power=0.9, modes=["direct"])
    assert recommend(law, question, effort=1e4, repetitions=60, compare=False).reaches


@pytest.mark.parametrize("limit", [0.1, 0.3, 0.7])
def test_a_mean_exactly_at_the_limit_is_invalid(limit: float) -> None:
    requirement = replace(ERROR, limit=limit)
    at, below = limit, round(limit - 0.1, 1)
    law = pilot_law(pilots([at, below]), [requirement])
    assert law.valid.tolist() == [False, below < limit]
    assert law.reliability == 0.5


def test_assumed_invalid_releases_at_the_limit_are_invalid_in_every_requirement() -> None:
    law = assumed_law([ERROR, COST], margins=[0.07, 0.33], reliability=0.9, spread=0.3)
    assert law.valid.tolist() == [True] * SPREAD + [False, False]
    assert law.reliability == pytest.approx(0.9, rel=1e-12)
    # Each of the two fails one requirement, exactly at its limit, and meets the other.
    np.testing.assert_allclose(law.means[SPREAD:], [[0.3, 0.5 - 0.33 / 4], [0.23, 0.5]], rtol=1e-9)


def test_an_excess_moves_invalid_releases_that_many_margins_above_the_limit() -> None:
    law = assumed_law([ERROR], margins=[0.1], reliability=0.9, excess=1.5)
    assert law.means[-1, 0] == pytest.approx(0.3 + 1.5 * 0.1, rel=1e-12)


def test_margins_are_averages_over_valid_releases_on_the_registered_scale() -> None:
    law = assumed_law([ERROR, COST], margins=[0.07, 0.33], reliability=0.9, spread=0.4)
    # The spread is symmetric, so it does not move the average.
    np.testing.assert_allclose(law.margins, [0.07, 0.33], rtol=1e-9)
    with pytest.raises(RegistryError, match="no margin"):
        _ = law.with_reliability(0.0).margins


def test_spread_releases_lie_evenly_around_the_margin() -> None:
    law = assumed_law([ERROR], margins=[0.1], reliability=1.0, spread=0.4)
    margins = np.sort(0.3 - law.means[:, 0])
    # SPREAD cells of equal width over [.06, .14], each at its middle.
    middles = 0.06 + 0.08 * (np.arange(SPREAD) + 0.5) / SPREAD
    np.testing.assert_allclose(margins, middles, rtol=1e-12)


@given(st.lists(st.integers(0, 10), min_size=2, max_size=6), st.floats(0.01, 1.0))
def test_another_reliability_changes_chances_and_nothing_else(
    tenths: list[int], reliability: float
) -> None:
    law = pilot_law(pilots([t / 10 for t in tenths]), [ERROR])
    if not law.valid.any():
        with pytest.raises(RegistryError, match="no kind of release in this law is valid"):
            law.with_reliability(reliability)
        return
    other = law.with_reliability(reliability)
    assert other.reliability == pytest.approx(reliability, rel=1e-12)
    np.testing.assert_array_equal(other.means, law.means)
    # Without an invalid kind the rest of the chances is missing: releases that never score.
    invalid = 1.0 - reliability if not law.valid.all() else 0.0
    assert other.releases.sum() == pytest.approx(reliability + invalid, rel=1e-12)
    np.testing.assert_allclose(
        other.releases[law.valid] / other.reliability, 1.0 / law.valid.sum(), rtol=1e-12
    )


@pytest.mark.parametrize("worse", [0.02, 0.05, -0.04])
@pytest.mark.parametrize("two_valued", [True, False])
def test_shifting_moves_the_average_valid_mean_by_what_was_said(
    worse: float, two_valued: bool
) -> None:
    requirement = replace(ERROR, two_valued=two_valued)
    law = assumed_law([requirement], margins=[0.1], reliability=0.9, spread=0.4)
    other = law.shifted(worse)
    weight = np.where(law.valid, law.releases, 0.0) / law.reliability
    moved = weight @ (other.means[:, 0] - law.means[:, 0])
    assert moved == pytest.approx(worse, rel=1e-9)
    assert other.records[0].sum() == pytest.approx(1.0, rel=1e-12)
    if two_valued:
        assert set(np.unique(other.losses[0])) == {0.0, 1.0}


@pytest.mark.parametrize("worse", [0.09, 0.02, -0.02, -0.15])
def test_invalid_releases_stay_invalid_and_two_valued_losses_two_valued(worse: float) -> None:
    law = assumed_law([ERROR, COST], margins=[0.1, 0.5], reliability=0.9, spread=0.2)
    other = law.shifted(worse)
    assert not np.any(other.valid & ~law.valid)
    assert set(np.unique(other.losses[0])) == {0.0, 1.0}
    tables = zip(other.losses, (ERROR, COST), strict=True)
    assert all(np.all((table >= 0.0) & (table <= 1.0)) for table, _ in tables)


def test_a_joint_law_is_shifted_by_one_share_of_the_records() -> None:
    rng = np.random.default_rng(5)
    law = pilot_law(rng.uniform(-1, 1, size=(6, 40, 1)), [COST])
    other = law.shifted(0.03)
    weight = np.where(law.valid, law.releases, 0.0) / law.reliability
    assert weight @ (other.means - law.means)[:, 0] == pytest.approx(0.03, rel=1e-9)
    two = pilot_law(rng.uniform(-1, 1, size=(6, 40, 2)), [COST, replace(COST, name="c2")])
    moved = two.shifted(0.03)
    np.testing.assert_array_equal(moved.records[0], moved.records[1])


def test_no_shift_is_the_law_itself() -> None:
    law = assumed_law([ERROR], margins=[0.1], reliability=0.9)
    assert law.shifted(0.0) is law


def test_nested_two_valued_losses_grow_with_the_risk() -> None:
    law = assumed_law([ERROR], margins=[0.1], reliability=0.9, spread=0.4, excess=0.5)
    table, chance = law.losses[0], law.records[0]
    assert chance.sum() == pytest.approx(1.0, rel=1e-12)
    means = law.means[:, 0]
    stretch = 1.0 + 0.4 * (2 * (np.arange(SPREAD) + 0.5) / SPREAD - 1)
    np.testing.assert_allclose(means, [*(0.3 - 0.1 * stretch), 0.35], rtol=1e-12)
    for low, high in zip(np.argsort(means)[:-1], np.argsort(means)[1:], strict=True):
        assert np.all(table[low] <= table[high])  # lost at a risk, lost at every larger one


@pytest.mark.parametrize("deviation", [0.05, 0.12, 0.3])
@pytest.mark.parametrize("mean", [0.05, 0.2, 0.6])
def test_beta_losses_have_the_stated_mean_and_deviation(mean: float, deviation: float) -> None:
    requirement = Requirement(name="Brier", low=0, high=2, limit=2 * (mean + 0.1))
    if deviation >= np.sqrt(mean * (1 - mean)):
        with pytest.raises(RegistryError, match="two_valued"):
            assumed_law(
                [requirement], margins=[0.2], deviations=[2 * deviation], reliability=1.0
            )  # fmt: skip
        return
    law = assumed_law([requirement], margins=[0.2], deviations=[2 * deviation], reliability=1.0)
    assert law.means[0, 0] == pytest.approx(mean, rel=1e-12)  # moved into place
    table = law.losses[0][0]
    # 400 mid-quantiles miss the tails: the deviation falls short by at most 1.5 % here.
    assert 0.985 * deviation <= table.std() <= 1.001 * deviation
    assert np.all((table >= 0.0) & (table <= 1.0))


def test_without_a_stated_deviation_it_is_half_of_a_two_valued_loss() -> None:
    law = assumed_law([COST], margins=[0.8], reliability=1.0)
    mean = 0.5 - 0.2
    # 400 mid-quantiles of the beta law; the tolerance is theirs.
    assert law.losses[0][0].std() == pytest.approx(0.5 * np.sqrt(mean * (1 - mean)), rel=0.01)


@pytest.mark.parametrize(
    ("shape", "words"),
    [((4, 10), "three axes"), ((4, 10, 2), "three axes"), ((0, 10, 1), "three axes"),
     ((4, 0, 1), "three axes")],
)  # fmt: skip
def test_pilot_losses_of_another_shape_are_refused(shape: tuple[int, ...], words: str) -> None:
    with pytest.raises(RegistryError, match=words):
        pilot_law(np.zeros(shape), [ERROR])


@pytest.mark.parametrize("wrong", [-0.001, 1.0000001, np.nan, np.inf])
def test_pilot_losses_outside_their_bounds_are_refused(wrong: float) -> None:
    losses = np.zeros((3, 4, 1))
    losses[1, 2, 0] = wrong
    with pytest.raises(RegistryError, match=r"error: pilot losses leave the bounds \[0, 1\]"):
        pilot_law(losses, [ERROR])


def test_pilots_take_the_reliability_that_is_given_with_them() -> None:
    law = pilot_law(pilots([0.1, 0.1, 0.5]), [ERROR], reliability=0.97)
    assert law.reliability == pytest.approx(0.97, rel=1e-12)


def _law(**changes: Any) -> Law:
    parts: dict[str, Any] = {
        "requirements": (ERROR,), "losses": (np.zeros((2, 1)),), "records": (np.ones(1),),
        "releases": np.array([0.5, 0.5]), "joint": True, "origin": "by hand",
    }  # fmt: skip
    return Law(**{**parts, **changes})


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: _law(losses=()), "every requirement"),
        (lambda: _law(releases=np.array([0.5])), "kinds of release"),
        (lambda: _law(releases=np.array([0.7, 0.5])), "at most 1"),
        (lambda: _law(releases=np.array([-0.1, 0.5])), "nonnegative"),
        (lambda: _law().with_reliability(1.1), "reliability must be in"),
        (lambda: _law().with_margins(float("nan")), "factor of the margins must be a number"),
        (lambda: _law().with_margins(cast(Any, "x")), "factor of the margins must be a number"),
        (lambda: _law().shifted(float("nan")), "shift of the means must be a number"),
        (lambda: _law().shifted(cast(Any, "x")), "shift of the means must be a number"),
        (lambda: assumed_law([ERROR], margins=[], reliability=0.9), "as many margins"),
        (lambda: assumed_law([ERROR], margins=[0.3], reliability=0.9), "a margin lies above 0"),
        (lambda: assumed_law([ERROR], margins=[0.0], reliability=0.9), "a margin lies above 0"),
        (lambda: assumed_law([ERROR], margins=[0.1], reliability=1.1), "reliability must be in"),
        (
            lambda: assumed_law([ERROR], margins=[0.1], reliability=0.9, spread=1.0),
            "spread is a share",
        ),
        (
            lambda: assumed_law([ERROR], margins=[0.1], reliability=0.9, excess=-1.0),
            "excess must be",
        ),
        (
            lambda: assumed_law([ERROR], margins=[0.25], reliability=0.9, spread=0.9),
            "out of its bounds",
        ),
        (lambda: assumed_law([ERROR], margins=[0.2], reliability=0.9, excess=5.0), "out of its"),
        (
            lambda: assumed_law([ERROR], margins=[0.1], deviations=[], reliability=0.9),
            "as many deviations",
        ),
    ],
)
def test_impossible_laws_are_refused(call: Callable[[], Any], words: str) -> None:
    with pytest.raises(RegistryError, match=words):
        call()


def test_a_thinned_law_keeps_reliability_and_nearly_its_score_rates() -> None:
    rng = np.random.default_rng(5)
    risk = np.clip(rng.normal(0.2, 0.03, 1000), 0.01, 0.99)
    losses = (rng.random((1000, 400)) < risk[:, None]).astype(float)[:, :, None]
    law = pilot_law(losses, [ERROR], reliability="0.9")
    small = law.thinned()
    assert small.releases.size == 48
    assert small.reliability == pytest.approx(0.9, abs=1e-12)
    assert small.releases.sum() == pytest.approx(1.0, abs=1e-12)
    # Every quantile of the risks is met within a place of it, of valid and of invalid ones.
    for side in (True, False):
        many = np.sort(law.means[law.valid == side, 0])
        few = np.sort(small.means[small.valid == side, 0])
        middles = (np.arange(few.size) + 0.5) / few.size
        np.testing.assert_array_equal(few, np.quantile(many, middles, method="inverted_cdf"))
    # Few kinds are all kept, and what is thinned is not thinned again.
    assert small.thinned() is small
