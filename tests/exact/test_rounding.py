"""The guards push every number to the safe side, and by no more than they say."""

from __future__ import annotations

from decimal import Decimal, localcontext

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxyguard.exact.rounding import (
    GUARD,
    TINY,
    bracket_switch,
    pvalue_from_log,
    weaken_lower,
    weaken_pvalue,
    weaken_upper,
)

unit = st.floats(0.0, 1.0)


@given(unit)
def test_a_lower_limit_moves_down_by_the_guard(limit: float) -> None:
    weak = float(weaken_lower(limit))
    assert 0.0 <= weak <= limit
    # Twice the guard: the product itself is rounded, also below the normal range.
    assert limit - weak <= 2.0 * GUARD * limit + 5e-324
    assert weak < limit or limit < 1e-300


@given(unit)
def test_an_upper_limit_moves_up_by_the_guard_and_by_1e_minus_15_at_least(limit: float) -> None:
    weak = float(weaken_upper(limit))
    assert weak <= 1.0
    assert weak == 1.0 or Decimal(weak) - Decimal(limit) >= Decimal("0.99e-15")
    assert weak - limit <= 2.0 * GUARD


@given(unit)
def test_a_pvalue_moves_up_by_the_guard_and_never_reaches_zero(pvalue: float) -> None:
    weak = float(weaken_pvalue(pvalue))
    assert max(pvalue, TINY) <= weak <= 1.0
    assert weak <= max(TINY, pvalue * (1.0 + 2.0 * GUARD))


@given(st.floats(-2000.0, 0.0))
def test_a_pvalue_from_its_logarithm_is_never_below_the_exponential(log_pvalue: float) -> None:
    weak = float(pvalue_from_log(log_pvalue))
    with localcontext() as context:
        context.prec = 40  # an exponential correct to 40 digits, independent of libm
        exact = Decimal(log_pvalue).exp()
        assert Decimal(weak) >= exact
        # The guard, and 8 eps for each unit of the logarithm: 2000 of them are 4e-12.
        assert weak == TINY or Decimal(weak) <= exact * Decimal("1.000000000006")


@pytest.mark.parametrize("log_pvalue", [-708.5, -745.0, -746.0, -1e6, -1e300])
def test_a_logarithm_below_the_normal_range_gives_the_smallest_normal_double(
    log_pvalue: float,
) -> None:
    # log(2.2250738585072014e-308) = -708.396...
    assert float(pvalue_from_log(log_pvalue)) == TINY == 2.2250738585072014e-308


def test_a_positive_logarithm_is_a_pvalue_of_one() -> None:
    assert float(pvalue_from_log(0.3)) == 1.0
    assert float(pvalue_from_log(0.0)) == 1.0


def test_the_guards_work_elementwise_and_keep_the_shape() -> None:
    values = np.array([[0.0, 0.25], [0.5, 1.0]])
    for weaken in (weaken_lower, weaken_upper, weaken_pvalue):
        np.testing.assert_array_equal(
            weaken(values), [[float(weaken(x)) for x in row] for row in values]
        )


@given(st.lists(st.floats(0.001, 0.999), min_size=1, max_size=6))
def test_the_bracket_ends_on_both_sides_of_every_switch_point(switch: list[float]) -> None:
    at = np.array(switch)
    last, first = bracket_switch(lambda x: x >= at, np.zeros(at.size), np.ones(at.size))
    assert np.all(last < at)
    assert np.all(at <= first)
    # Sixty halvings of [0, 1], or neighbouring doubles where these are coarser.
    assert np.all(first - last <= np.maximum(2.0**-60, np.spacing(first)))


def test_a_switch_that_never_comes_leaves_the_high_end() -> None:
    last, first = bracket_switch(lambda x: x > 9.0, np.array(0.25), np.array(0.5))
    assert float(first) == 0.5
    assert 0.5 - 1e-15 < float(last) < 0.5


def test_a_switch_already_past_leaves_the_low_end() -> None:
    last, first = bracket_switch(lambda x: x > 0.0, np.array(0.25), np.array(0.5))
    assert float(last) == 0.25
    assert 0.25 < float(first) < 0.25 + 1e-15


def test_the_ends_are_never_evaluated() -> None:
    seen = []

    def holds(x: np.ndarray) -> np.ndarray:
        seen.append(float(x))
        return x > 0.7

    bracket_switch(holds, np.array(0.0), np.array(1.0), steps=100)
    assert seen
    assert all(0.0 < x < 1.0 for x in seen)


def test_no_end_is_evaluated_where_another_switch_takes_longer() -> None:
    # Two doubles below 1 the first is found at once; the second takes all sixty steps.
    low = np.array([1.0 - 2.0**-52, 0.0])

    def holds(x: np.ndarray) -> np.ndarray:
        assert np.all((low < x) & (x < 1.0)), x
        return x > np.array([9.0, 0.7])

    last, first = bracket_switch(holds, low, np.ones(2))
    assert last[0] == 1.0 - 2.0**-53
    assert first[0] == 1.0


def test_fewer_steps_give_a_wider_bracket_that_still_holds_the_point() -> None:
    last, first = bracket_switch(lambda x: x >= 0.3, np.array(0.0), np.array(1.0), steps=3)
    assert (float(last), float(first)) == (0.25, 0.375)  # by hand: 1/2, 1/4, 3/8


def test_an_empty_interval_is_returned_without_a_question() -> None:
    def holds(x: np.ndarray) -> np.ndarray:
        raise AssertionError(x)

    last, first = bracket_switch(holds, np.array([0.5]), np.array([0.5]))
    assert last.tolist() == first.tolist() == [0.5]
