"""Registered rules give the numbers that the paper's audits froze."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxyguard.errors import RegistryError
from proxyguard.registry.requirement import (
    Requirement,
    choose_roles,
    cutoff_from_pilot,
    limit_from_source,
    next_multiple,
    slack_from_plan,
)


@pytest.mark.parametrize(
    ("risk", "limit"),
    # MAGIC: validation risks of the source and the limits frozen from them.
    [("0.09079", "0.141"), ("0.02170", "0.072"), ("0.05790", "0.108")],
)
def test_magic_limits_are_risk_plus_five_points_rounded_up(risk: str, limit: str) -> None:
    assert limit_from_source(risk, plus="0.05", step="0.001").value == limit


@pytest.mark.parametrize(
    ("risk", "plus", "ceiling", "limit"),
    # CDC, Covertype and Online Shoppers: source planning risk, budget, ceiling, frozen limit.
    [
        ("0.2524", "0.08", "0.40", "0.3324"),
        ("0.16943", "0.08", "0.30", "0.24943"),
        ("0.07632", "0.08", "0.20", "0.15632"),
        ("0.2489", "0.06", "0.42", "0.3089"),
        ("0.1675", "0.09", "0.45", "0.2575"),
        ("0.39", "0.08", "0.40", "0.40"),  # the ceiling binds
    ],
)
def test_neural_limits_are_risk_plus_budget_at_most_the_ceiling(
    risk: str, plus: str, ceiling: str, limit: str
) -> None:
    assert limit_from_source(risk, plus=plus, at_most=ceiling).value == limit


def requirements(*limits: float) -> list[Requirement]:
    return [Requirement(name=str(i), low=0, high=1, limit=limit) for i, limit in enumerate(limits)]


@pytest.mark.parametrize(
    ("limits", "n", "grid", "slack"),
    # Frozen slacks of the three neural audits: alpha_Z = .05 (.8)/3, allowance at most .04.
    [
        ((0.3324, 0.24943, 0.15632), 2000, ("0.03", "0.035", "0.04", "0.045", "0.05"), "0.045"),
        ((0.3089, 0.23362, 0.14332), 2000, ("0.035", "0.04", "0.045", "0.05"), "0.04"),
        ((0.2575, 0.21001, 0.15925), 1000, ("0.05", "0.055", "0.06", "0.065"), "0.055"),
    ],
)
def test_slacks_are_those_the_neural_audits_froze(
    limits: tuple[float, ...], n: int, grid: tuple[str, ...], slack: str
) -> None:
    resolved = slack_from_plan(
        grid, requirements(*limits), n_records=n, alpha_target=0.05 * 0.8 / 3, allowance="0.04"
    )
    assert resolved.value == slack
    assert resolved.inputs["n_records"] == str(n)


def test_a_grid_without_a_sufficient_slack_is_refused() -> None:
    with pytest.raises(RegistryError, match="no slack"):
        slack_from_plan(
            ["0.01"], requirements(0.3), n_records=100, alpha_target=0.01, allowance="0.04"
        )


def test_a_cutoff_lies_above_every_pilot() -> None:
    assert cutoff_from_pilot("0.05519", margin="0.005", step="0.001").value == "0.061"
    assert cutoff_from_pilot("0.055", margin="0.005", step="0.001").value == "0.060"


@given(st.decimals(0, 1, places=6), st.sampled_from(["0.001", "0.005", "0.01"]))
def test_rounding_up_gives_the_next_multiple(value: Decimal, step: str) -> None:
    rounded = next_multiple(value, Decimal(step))
    assert value <= rounded < value + Decimal(step)
    assert rounded % Decimal(step) == 0


def test_roles_follow_the_pilots_percentiles() -> None:
    rng = np.random.default_rng(0)
    centres = {"a": 0.10, "b": 0.06, "c": 0.02, "d": -0.05}
    margins = {name: centre + 0.005 * rng.standard_normal(50) for name, centre in centres.items()}
    assert choose_roles(margins, moderate=0.06) == {
        "high": "a",
        "moderate": "b",
        "degraded": "d",
    }
    assert choose_roles(margins, moderate=0.0)["moderate"] == "c"


def test_a_moderate_configuration_is_likely_to_pass_if_one_is_unless_all_may_play() -> None:
    margins = {"a": [0.1, 0.1], "b": [0.05, 0.05], "c": [-0.01, 0.03], "d": [-0.2, -0.2]}
    assert choose_roles(margins, moderate=0.01)["moderate"] == "b"
    assert choose_roles(margins, moderate=0.01, among="all")["moderate"] == "c"
    del margins["b"]
    assert choose_roles(margins, moderate=0.01)["moderate"] == "c"


@pytest.mark.parametrize(
    "call",
    [
        lambda: limit_from_source("four", plus="0.05"),
        lambda: limit_from_source("0.1", plus="nan"),
        lambda: limit_from_source("0.1", plus="0.05", step="0"),
        lambda: choose_roles({"a": [1.0], "b": [1.0]}, moderate=0.0),
        lambda: choose_roles({"a": [1.0], "b": [1.0], "c": [np.nan]}, moderate=0.0),
    ],
)
def test_a_rule_without_usable_inputs_is_refused(call: Any) -> None:
    with pytest.raises(RegistryError):
        call()
