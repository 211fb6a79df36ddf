"""What a sequential audit would need: expected and worst number of draws."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from proxyguard.errors import RegistryError
from proxyguard.exact.sequential import Boundary, sharp_boundary, stopping
from proxyguard.modes.planning import AuditPlan
from proxyguard.plan.law import Law
from proxyguard.plan.power import exact_score_rates, score_rates
from proxyguard.plan.targets import Targets
from proxyguard.registry.numbers import MOST_REPETITIONS, look_numbers, whole

Array = NDArray[np.float64]

LOOKS = 40
"""Looks of a default schedule."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SequentialForecast:
    """Draws and validation of a sequential audit under a law.

    Given a target, and so a rate of favorable scores, both are exact (dynamic programming over
    the looks): ``at_rates`` has some. So is their average where a sum gives the law of the score
    rate; else it is over simulated targets, with its standard error.
    """

    boundary: Boundary
    validation: float
    expected_draws: float
    standard_error: float  # of the expected draws; 0: exact
    worst_draws: int
    at_rates: tuple[tuple[float, float, float], ...]  # score rate, expected draws, validation

    def to_dict(self) -> dict[str, Any]:
        """Return plain values."""
        return {
            "looks": [int(look) for look in self.boundary.looks],
            "counts": [int(count) for count in self.boundary.counts],
            "validation": self.validation,
            "expected_draws": self.expected_draws,
            "standard_error": self.standard_error,
            "worst_draws": self.worst_draws,
            "at_rates": [
                {"score_rate": rate, "expected_draws": draws, "validation": validation}
                for rate, draws, validation in self.at_rates
            ],
        }


def default_looks(releases: int, least: int) -> tuple[int, ...]:
    """Return looks from the fewest draws that could validate up to all of them.

    >>> default_looks(100, 14)[:3], default_looks(100, 14)[-1]
    ((14, 17, 20), 100)
    """
    step = max(1, -(-(releases - least) // LOOKS))
    return (*range(least, releases, step), releases)


def _simulated_rates(law: Law, plan: AuditPlan, repetitions: int, seed: int) -> tuple[Array, Array]:
    """Return the score rates of simulated targets and how often each occurred."""
    targets = Targets(law, plan.n, repetitions=repetitions, seed=seed, digits=plan.digits)
    rates, number = np.unique(score_rates(targets, plan), return_counts=True)
    return rates, number / number.sum()


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
    repetitions, seed = (
        whole(repetitions, "repetitions", most=MOST_REPETITIONS),
        whole(seed, "seed", least=0),
    )
    looks = look_numbers(looks)
    claim = plan.claim
    if not claim.sequential:
        raise RegistryError("a sequential audit scores by p-values under the sharp bound")
    kappa = float(plan.levels(law.requirements).threshold)
    boundary = sharp_boundary(
        looks, target=claim.target, kappa=kappa, alpha=float(claim.alpha) / plan.mechanisms
    )
    if boundary is None:
        return None
    exact = exact_score_rates(law, plan)
    rates, share = _simulated_rates(law, plan, repetitions, seed) if exact is None else exact
    law_of_draws = stopping(boundary, np.minimum(rates, 1.0), futility=futility)
    draws: Array = law_of_draws.expected_draws
    mean = float(share @ draws)
    spread = float(np.sqrt(max(0.0, float(share @ (draws - mean) ** 2))))
    return SequentialForecast(
        boundary=boundary,
        validation=float(share @ law_of_draws.validation),
        expected_draws=mean,
        standard_error=0.0 if exact is not None else spread / float(np.sqrt(repetitions)),
        worst_draws=int(boundary.looks[-1]),
        at_rates=_at_rates(boundary, claim.target, futility),
    )


def _at_rates(
    boundary: Boundary, target: float, futility: bool
) -> tuple[tuple[float, float, float], ...]:
    """Return expected draws and validation at the target and between it and certainty."""
    rates = target + (1.0 - target) * np.array([0.0, 0.25, 0.5, 0.75, 0.95, 1.0])
    found = stopping(boundary, rates, futility=futility)
    columns = (rates, found.expected_draws, found.validation)
    return tuple((float(a), float(b), float(c)) for a, b, c in zip(*columns, strict=True))
