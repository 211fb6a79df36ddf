"""What a claim fixes before any loss is read."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

from proxyguard.exact.sharp import default_threshold, sharp_pvalue
from proxyguard.modes.claim import Claim, Levels


def levels(n_releases: int = 100, share: str = "1", **choices: Any) -> Levels:
    made = Claim.of({"reliability_target": 0.8} | choices)  # type: ignore[arg-type]
    return made.levels(n_releases=n_releases, n_requirements=3, share=Fraction(share))


def test_the_sharp_threshold_is_the_default_rule_at_the_local_level() -> None:
    assert levels().threshold == default_threshold(100, target=0.8, alpha=0.05)
    assert levels(share="1/5").threshold == default_threshold(100, target=0.8, alpha=0.01)


def test_thresholds_are_exact_and_the_share_is_kept() -> None:
    made = levels(threshold="0.01", violation_threshold="0.03", share="1/5")
    assert (made.threshold, made.violation_threshold) == (Fraction(1, 100), Fraction(3, 100))
    assert isinstance(levels().threshold, Fraction)
    assert isinstance(levels().violation_threshold, Fraction)
    assert made.share == Fraction(1, 5)


def test_the_default_threshold_can_validate_at_the_local_level() -> None:
    for share in ("1", "1/5"):
        made = levels(share=share)
        best = sharp_pvalue(100, 100, target=0.8, kappa=float(made.threshold))
        assert best <= float(made.lower.total)


def test_too_few_releases_are_said_beforehand() -> None:
    # .8^13 = .055 > .05 = alpha, .8^14 = .044: with 13 releases nothing can validate.
    assert "cannot validate" in levels(n_releases=13).notes[0]
    assert levels(n_releases=14).notes == ()


@pytest.mark.parametrize(
    ("choices", "validation", "violation"),
    [
        # theory 1: direct t, violation t/J; named alpha_R/R; Holm violations beta_R/(R J).
        ({"threshold": "0.01", "violation_threshold": "0.03"}, 0.01, 0.01),
        ({"mode": "named"}, 0.025 / 100, 0.025 / 300),
        ({"mode": "releases", "reliability_target": None}, 0.05 / 100, 0.05 / 300),
        ({"mode": "collective"}, 0.025, 0.025 / 300),
    ],
    ids=str,
)
def test_betting_stakes_aim_at_the_level_that_decides(
    choices: dict[str, Any], validation: float, violation: float
) -> None:
    made = levels(**choices)
    assert made.betting == pytest.approx(validation, rel=1e-12)
    assert made.betting_violation == pytest.approx(violation, rel=1e-12)


@pytest.mark.parametrize(
    ("choices", "symbols"),
    [
        ({}, ["alpha"]),
        ({"bound": "paper"}, ["alpha_Q", "alpha_Z"]),
        ({"bound": "rescaled"}, ["alpha_Q", "alpha_Z"]),
        ({"mode": "named"}, ["alpha_R", "alpha_M"]),
        ({"mode": "collective"}, ["alpha_R", "alpha_M"]),
        ({"mode": "smooth"}, ["alpha"]),
        ({"mode": "smooth", "bound": "paper"}, ["alpha_Q", "alpha_Z"]),
        ({"mode": "block", "block_size": 5}, ["alpha"]),
        ({"mode": "count"}, ["alpha_Q", "alpha_Z"]),
    ],
    ids=str,
)
def test_each_mode_has_its_budget(choices: dict[str, Any], symbols: list[str]) -> None:
    made = levels(share="1/4", **choices)
    assert [p.symbol for p in made.lower.parts] == symbols
    assert made.lower.total == Fraction(1, 80)


def test_the_hybrid_splits_and_does_not_overspend() -> None:
    made = levels(mode="hybrid", named_share="0.4")
    assert made.direct is not None
    assert made.lower.total == Fraction(1, 50)
    assert made.direct.total == Fraction(3, 100)


def test_validation_and_violation_have_separate_budgets() -> None:
    made = levels(alpha="0.05", beta="0.1")
    assert made.upper is not None
    assert (made.lower.total, made.upper.total) == (Fraction(1, 20), Fraction(1, 10))
    assert levels(beta=None).upper is None
