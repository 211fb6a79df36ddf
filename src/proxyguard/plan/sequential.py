"""What a sequential audit would need: expected and worst number of draws."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from proxyguard.exact.sequential import Boundary, sharp_boundary, stopping
from proxyguard.plan.law import Law
from proxyguard.plan.power import AuditPlan, score_rates
from proxyguard.plan.targets import Targets
from proxyguard.registry.claim import Bound, Mode, Score

LOOKS = 40
"""Looks of a default schedule."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SequentialForecast:
    """Draws and validation of a sequential audit under a law.

    Given a target, both are exact (dynamic programming over the looks); they are averaged
    over simulated targets.
    """

    boundary: Boundary
    validation: float
    expected_draws: float
    standard_error: float  # of the expected draws
    worst_draws: int

    def to_dict(self) -> dict[str, Any]:
        """Return plain values."""
        return {
            "looks": [int(look) for look in self.boundary.looks],
            "counts": [int(count) for count in self.boundary.counts],
            "validation": self.validation,
            "expected_draws": self.expected_draws,
            "standard_error": self.standard_error,
            "worst_draws": self.worst_draws,
        }


def default_looks(releases: int, least: int) -> tuple[int, ...]:
    """Return looks from the fewest draws that could validate up to all of them.

    >>> default_looks(100, 14)[:3], default_looks(100, 14)[-1]
    ((14, 17, 20), 100)
    """
    step = max(1, -(-(releases - least) // LOOKS))
    return (*range(least, releases, step), releases)


def forecast(
    law: Law,
    plan: AuditPlan,
    looks: Sequence[int],
    *,
    futility: bool = True,
    repetitions: int = 400,
    seed: int = 0,
) -> SequentialForecast | None:
    """Return what a sequential audit by the plan's score would need; ``None`` if it cannot pass.

    The plan is a sharp direct one with a p-value score; its threshold is the ceiling.
    """
    claim = plan.claim
    if (claim.mode, claim.bound, claim.score) != (Mode.DIRECT, Bound.SHARP, Score.PVALUE):
        raise ValueError("a sequential audit scores by p-values under the sharp bound")
    kappa = float(plan.levels(law.requirements).threshold)
    boundary = sharp_boundary(
        looks, target=claim.target, kappa=kappa, alpha=float(claim.alpha) / plan.mechanisms
    )
    if boundary is None:
        return None
    targets = Targets(law, plan.n, repetitions=repetitions, seed=seed)
    rates, number = np.unique(score_rates(targets, plan), return_counts=True)
    law_of_draws = stopping(boundary, rates, futility=futility)
    share = number / number.sum()
    draws = law_of_draws.expected_draws
    mean = float(share @ draws)
    spread = float(np.sqrt(max(0.0, share @ (draws - mean) ** 2)))
    return SequentialForecast(
        boundary=boundary,
        validation=float(share @ law_of_draws.validation),
        expected_draws=mean,
        standard_error=spread / float(np.sqrt(repetitions)),
        worst_draws=int(boundary.looks[-1]),
    )
