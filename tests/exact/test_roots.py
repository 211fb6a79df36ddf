"""The bracket of a switch point, and which end is which."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from proxyguard.exact.roots import bracket_switch


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


def test_fewer_steps_give_a_wider_bracket_that_still_holds_the_point() -> None:
    last, first = bracket_switch(lambda x: x >= 0.3, np.array(0.0), np.array(1.0), steps=3)
    assert (float(last), float(first)) == (0.25, 0.375)  # by hand: 1/2, 1/4, 3/8


def test_an_empty_interval_is_returned_without_a_question() -> None:
    def holds(x: np.ndarray) -> np.ndarray:
        raise AssertionError(x)

    last, first = bracket_switch(holds, np.array([0.5]), np.array([0.5]))
    assert last.tolist() == first.tolist() == [0.5]
