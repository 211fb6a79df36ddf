"""How a plan fares if the pilot was wrong: its power and its regret over misspecified laws."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

from proxyguard.errors import RegistryError
from proxyguard.plan.law import Law
from proxyguard.plan.power import exact_power, power_on
from proxyguard.plan.recommend import Recommendation
from proxyguard.plan.search import Option, Progress
from proxyguard.plan.targets import Targets
from proxyguard.registry.numbers import MOST_REPETITIONS, callback, reals, whole

RELIABILITY_ERRORS = (-0.10, -0.05, -0.02, 0.0, 0.02, 0.05)
MARGIN_FACTORS = (0.7, 0.85, 1.0, 1.15)
REPETITIONS = 200
RIVALS = 6
"""Sizes, and ways at the chosen size, that a misspecified law may prefer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stress:
    """One misspecified law: the plan's power there, and the best that was on offer."""

    reliability: float
    margin_factor: float
    power: float
    best: float
    best_way: str

    @property
    def regret(self) -> float:
        """What a planner who had known this law would have gained."""
        return max(0.0, self.best - self.power)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values."""
        return {
            "reliability": self.reliability,
            "margin_factor": self.margin_factor,
            "power": self.power,
            "best": self.best,
            "best_way": self.best_way,
            "regret": self.regret,
        }


def stress(
    found: Recommendation,
    *,
    reliability_errors: Sequence[float] = RELIABILITY_ERRORS,
    margin_factors: Sequence[float] = MARGIN_FACTORS,
    repetitions: int = REPETITIONS,
    seed: int = 0,
    progress: Progress = lambda what, done, total: None,
) -> list[Stress]:
    """Return power and regret of the chosen plan over a grid of other laws.

    The rivals are what the search had on offer: the best way at every affordable size and
    every tuned way at the chosen one. Laws that are no longer reliable enough are left out:
    there a validation would be false.
    """
    if not isinstance(found, Recommendation):
        raise RegistryError(f"stress takes what recommend returned, got {found!r}")
    errors, factors = (
        reals(reliability_errors, "reliability_errors"),
        reals(margin_factors, "margin_factors"),
    )
    repetitions, seed = (
        whole(repetitions, "repetitions", most=MOST_REPETITIONS),
        whole(seed, "seed", least=0),
    )
    callback(progress, "progress")
    law, question = found.law, found.question
    rivals = _rivals(found)
    cells = list(product(errors, factors))
    results = []
    for done, factor in enumerate(factors, start=1):
        other = law.with_margins(factor)
        targets: dict[int, Targets] = {}
        for error in errors:
            reliability = round(law.reliability + error, 10)
            if not question.target < reliability <= 1.0 or not np.any(other.valid):
                continue
            truth = other.with_reliability(reliability)
            powers = [_power(truth, option, targets, repetitions, seed) for option in rivals]
            best = int(np.argmax(powers))
            results.append(
                Stress(
                    reliability=reliability, margin_factor=factor, power=powers[0],
                    best=powers[best],
                    best_way=f"{rivals[best].way.label}, n {rivals[best].plan.n}, "
                    f"R {rivals[best].plan.releases}",
                )
            )  # fmt: skip
        progress("stress", done * len(errors), len(cells))
    return results


def _rivals(found: Recommendation) -> list[Option]:
    """Return the chosen plan, then what else could have been had for its price."""
    most = found.chosen.cost if found.question.power is not None else None
    sizes = [o for o in found.sizes if most is None or o.cost <= most + 1e-9]
    strongest = sorted(sizes, key=lambda o: -o.power.value)[:RIVALS]
    return [found.chosen, *strongest, *found.alternatives[:RIVALS]]


def _power(
    truth: Law, option: Option, kept: dict[int, Targets], repetitions: int, seed: int
) -> float:
    own = truth.requiring(option.requirements)
    exact = exact_power(own, option.plan)
    if exact is not None:
        return exact
    n = option.plan.n
    if n not in kept:
        kept[n] = Targets(truth, n, repetitions=repetitions, seed=seed, digits=option.plan.digits)
    # The records do not depend on how often releases are valid, so targets serve all of these.
    return power_on(kept[n].under(own), option.plan, seed=seed).value
