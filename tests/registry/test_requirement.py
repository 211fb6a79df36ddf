"""A requirement cannot exist in a bad state, and its cutoff is decimal."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import proxyguard as pg
from proxyguard.errors import RegistryError
from proxyguard.registry.requirement import Form, Requirement


def requirement(**changes: object) -> Requirement:
    values: dict[str, object] = {"name": "error", "low": 0, "high": 1, "limit": 0.2}
    return Requirement(**(values | changes))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "changes",
    [
        {"low": 0.2},
        {"low": 0.3},
        {"high": 0.2},
        {"limit": 0.0},
        {"limit": 1.0},
        {"limit": float("nan")},
        {"low": float("nan")},
        {"high": float("nan")},
        {"low": float("-inf")},
        {"high": float("inf")},
        {"slack": 0.0},
        {"slack": -0.01},
        {"slack": 0.2},
        {"slack": float("nan")},
        {"slack": 0.04, "ramp": 0.0},
        {"slack": 0.04, "ramp": -0.1},
        {"slack": 0.04, "ramp": 0.1600001},
        {"ramp": 0.1},
        {"name": ""},
    ],
    ids=str,
)
def test_a_requirement_outside_its_order_is_refused(changes: dict[str, object]) -> None:
    with pytest.raises(RegistryError):
        requirement(**changes)


HUGE, FAR = 1.7e308, 1e15

# Each validated losses at the limit, or ended in a warning or a foreign error.
UNHELD: dict[str, dict[str, Any]] = {
    "width overflows": {"low": -HUGE, "high": HUGE, "limit": 0.0},
    "squares overflow": {"low": -1e160, "high": 1e160, "limit": 0.0},
    "squares vanish": {"low": 0.0, "high": 1e-160, "limit": 1e-161},
    "subnormal": {"low": 0.0, "high": 1e-323, "limit": 5e-324},
    "eighths": {"low": FAR, "high": FAR + 1, "limit": FAR + 0.375},
    "eighths below": {"low": -FAR - 1, "high": -FAR, "limit": -FAR - 0.375},
    "millionths": {"low": 1e9, "high": 1e9 + 1, "limit": 1e9 + 0.25},
    "limit at low": {"low": -1.0, "high": 1.0, "limit": -0.9999999999999999},
    "limit at high": {"low": -1e20, "high": 1.0, "limit": 0.5},
    "limit above nothing": {"limit": 1e-320},
    "cutoff at limit": {"low": -1e6, "high": 1e6, "limit": 0.0, "slack": 1e-15},
    "cutoff at low": {"low": -1e300, "high": 1.0, "limit": 0.5, "slack": 0.1},
    "whole numbers beyond doubles": {"low": -(10**400), "high": 1, "limit": 0.5},
    "decimals beyond doubles": {"high": Decimal("1e400")},
}


@pytest.mark.parametrize("case", UNHELD)
def test_a_range_that_doubles_cannot_hold_is_refused(case: str) -> None:
    with pytest.raises(RegistryError, match=r"error: .*(double|width)"):
        requirement(**UNHELD[case])


def test_the_refusal_of_a_far_range_says_how_coarse_it_is() -> None:
    with pytest.raises(RegistryError, match=r"0\.125 apart, 0\.1 of its width.*starts near 0"):
        requirement(**UNHELD["eighths"])


@pytest.mark.parametrize("low", [0.0, 1e6, -3e6])
def test_a_range_that_doubles_hold_is_taken(low: float) -> None:
    made = requirement(low=low, high=low + 1, limit=low + 0.25)
    assert made.unit_limit == pytest.approx(0.25, abs=1e-9)


BOUNDS = st.floats(allow_nan=False, allow_infinity=False)


@given(BOUNDS, BOUNDS, BOUNDS)
def test_what_is_taken_is_held_to_a_billionth_of_its_width(a: float, b: float, c: float) -> None:
    low, limit, high = sorted((a, b, c))
    try:
        made = requirement(low=low, high=high, limit=limit)
    except RegistryError:
        return
    # The numbers as they are and not as they are written: exact fractions of the doubles.
    width = Fraction(high) - Fraction(low)
    assert abs(Fraction(made.width) - width) <= width / 10**9
    held = Fraction(made.unit_limit)
    assert 0 < held < 1
    assert abs(held - (Fraction(limit) - Fraction(low)) / width) <= Fraction(1, 10**9)
    assert np.nextafter(low, high) - low <= 1e-9 * made.width  # so are the losses


@settings(max_examples=40, deadline=None)
@given(st.floats(1, 10), st.integers(0, 16), st.floats(1e-2, 1e2), st.floats(0.01, 0.99))
def test_losses_at_the_limit_of_any_range_are_never_validated(
    digits: float, power: int, width: float, at: float
) -> None:
    low = digits * 10.0**power
    try:
        made = requirement(low=low, high=low + width, limit=low + at * width)
    except RegistryError:
        return
    losses = np.full((30, 1000, 1), made.limit)
    for test in ("betting", "bentkus", "empirical_bernstein", "betting_fixed"):
        certificate = pg.certify(losses, [made], reliability_target=0.5, test=test, beta=None)
        assert certificate.decision is pg.Decision.UNRESOLVED


def test_bounds_may_be_fractions_decimals_and_numbers_of_numpy() -> None:
    plain = requirement(low=0, high=1, limit=0.25, slack=0.125)
    for number in (Fraction, Decimal, np.float32, np.float64):
        made = requirement(low=number(0), high=number(1), limit=number(0.25), slack=number(0.125))
        assert made == plain
        assert all(type(getattr(made, name)) is float for name in ("low", "high", "limit", "slack"))
    assert requirement(low=np.int64(0), high=np.uint8(1)) == requirement()


@pytest.mark.parametrize(
    "changes",
    [{"limit": "0.1"}, {"low": True}, {"high": None}, {"limit": 1j}, {"two_valued": "yes"},
     {"group": 3}, {"group": ""}, {"limit": Decimal("nan")}, {"limit": Decimal("sNaN")}],
    ids=str,
)  # fmt: skip
def test_what_is_no_number_flag_or_name_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(RegistryError, match="error: "):
        requirement(**changes)


def test_the_refusal_names_the_requirement_and_the_numbers_seen() -> None:
    with pytest.raises(RegistryError, match=r"error: need finite low < limit < high.*1\.5"):
        requirement(limit=1.5)


@pytest.mark.parametrize(
    ("limit", "slack", "cutoff"),
    # Doubles give 0.19999999999999998 and 0.09999999999999998 in the last two.
    [(0.2, 0.042, 0.158), (0.3, 0.1, 0.2), (0.7, 0.6, 0.1)],
)
def test_the_cutoff_is_subtracted_in_decimals(limit: float, slack: float, cutoff: float) -> None:
    made = requirement(limit=limit, slack=slack)
    assert made.cutoff == cutoff
    assert made.unit_cutoff == cutoff


def test_a_missing_slack_or_ramp_is_an_error_and_not_zero() -> None:
    with pytest.raises(RegistryError, match="needs a slack"):
        _ = requirement().cutoff
    with pytest.raises(RegistryError, match="needs a ramp"):
        _ = requirement(slack=0.04).unit_ramp


def test_the_ramp_may_reach_down_to_the_lower_bound_exactly() -> None:
    assert requirement(slack=0.042, ramp=0.158).unit_ramp == 0.158


def test_scales_are_mapped_in_decimals() -> None:
    made = requirement(low=-0.1, high=0.3, limit=0.1, slack=0.05, ramp=0.02)
    assert (made.unit_limit, made.unit_cutoff, made.unit_ramp) == (0.5, 0.375, 0.05)
    np.testing.assert_allclose(
        made.from_unit(np.array([0.0, 0.25, 1.0])), [-0.1, 0.0, 0.3], atol=1e-16
    )


def test_the_form_may_be_written_as_a_string() -> None:
    assert requirement(form="relative").form is Form.RELATIVE
    assert requirement(form=Form.RELATIVE) == requirement(form="relative")
    assert requirement().form is Form.ABSOLUTE


def test_an_unknown_form_is_refused() -> None:
    with pytest.raises(ValueError, match="relativ"):
        requirement(form="relativ")


def test_a_misspelt_field_is_refused() -> None:
    with pytest.raises(TypeError, match="slakc"):
        requirement(slakc=0.1)


def test_a_requirement_is_frozen() -> None:
    with pytest.raises(AttributeError):
        requirement().limit = 0.5  # type: ignore[misc]
