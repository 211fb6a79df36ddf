"""A requirement cannot exist in a bad state, and its cutoff is decimal."""

from __future__ import annotations

import numpy as np
import pytest

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
