"""What a recommended plan would do in other worlds: under wrong laws, or drawn look by look.

`stress` gives power and regret where the pilot misjudged reliability or margins; `forecast` the
expected and the largest number of draws of a sequential audit by the same score.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import product
from typing import TYPE_CHECKING

import numpy as np

from proxyguard.errors import RegistryError
from proxyguard.exact.rounding import Array
from proxyguard.exact.sequential import Boundary, sharp_boundary, stopping
from proxyguard.modes.planning import AuditPlan
from proxyguard.plan.law import Law
from proxyguard.plan.recommend import Recommendation
from proxyguard.plan.search import (
    EFFORT,
    Option,
    Power,
    Progress,
    affordable,
    bets_on,
    exact_power,
    exact_score_rates,
    power_on,
    score_rates,
)
from proxyguard.plan.targets import Targets
from proxyguard.registry.design import Stratified
from proxyguard.registry.numbers import MOST_REPETITIONS, callback, look_numbers, reals, whole

if TYPE_CHECKING:
    from proxyguard.documents.canonical import Plain

RELIABILITY_ERRORS = (-0.10, -0.05, -0.02, 0.0, 0.02, 0.05)
MARGIN_FACTORS = (0.7, 0.85, 1.0, 1.15)
REPETITIONS = 200
# Sizes, and ways at the chosen size, that a misspecified law may prefer.
RIVALS = 6
# How many times the losses of one evaluation of a search are bet on for one of the other laws.
WORLDS = 4
NOTHING = Power(value=0.0, standard_error=0.0, repetitions=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Stress:
    """One misspecified law: the plan's power there, and the best that was on offer."""

    reliability: float
    margin_factor: float
    power: float
    standard_error: float  # of the simulation, which all of these laws share; 0: exact
    best: float
    best_way: str

    @property
    def regret(self) -> float:
        """What a planner who had known this law would have gained."""
        return max(0.0, self.best - self.power)

    def to_dict(self) -> dict[str, Plain]:
        """Return plain values."""
        return {**asdict(self), "regret": self.regret}


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
    law, question = found.law.thinned(), found.question
    rivals = _rivals(found)
    truths = {}
    for factor, error in product(factors, errors):
        # Rounded, so that a step onto the target itself is left out whatever its last digit is.
        reliability = round(law.reliability + error, 10)
        if question.target < reliability <= 1.0:
            # A release that a smaller margin makes invalid stays invalid.
            truth = law.with_reliability(reliability).with_margins(factor)
            if round(truth.reliability, 10) > question.target:
                truths[factor, error] = truth
    # Size by size, so that the targets of one size alone are held.
    sizes = sorted({option.plan.n for option in rivals})
    powers = {cell: [NOTHING] * len(rivals) for cell in truths}
    beside: dict[tuple[tuple[float, float], int], float] = {}
    planned = NOTHING
    for done, n in enumerate(sizes, start=1):
        worlds = _Worlds(law, n, factors, repetitions, seed, question.strata(n))
        most = worlds.affordable(found.chosen)
        if n == found.chosen.plan.n:
            planned = worlds.power(found.chosen, law, 1.0, most)
        for place, option in enumerate(rivals):
            if option.plan.n != n:
                continue
            few = worlds.affordable(option)
            for cell, truth in truths.items():
                powers[cell][place] = worlds.power(option, truth, cell[0], few)
                # A rival that bets is seen on fewer targets: the plan then too, on the same ones.
                if n == found.chosen.plan.n and few < most:
                    again = worlds.power(found.chosen, truth, cell[0], few)
                    beside[cell, place] = again.value
        progress("stress", done, len(sizes))
    # A plan has one power: what a wrong law changes is added to it, seen on the same targets.
    offset = found.chosen.power.value - planned.value
    results = []
    for cell, truth in truths.items():
        every = powers[cell]
        first = every[0]
        # The first of equals, and the chosen plan is the first: a tie names no rival.
        gains = [
            one.value - beside.get((cell, place), first.value) for place, one in enumerate(every)
        ]
        best = int(np.argmax(gains))
        own = float(np.clip(first.value + offset, 0.0, 1.0))
        results.append(
            Stress(
                reliability=round(truth.reliability, 10), margin_factor=cell[0], power=own,
                standard_error=first.standard_error,
                best=min(1.0, own + gains[best]),
                best_way=f"{rivals[best].way.label}, n {rivals[best].plan.n}, "
                f"R {rivals[best].plan.releases}",
            )
        )  # fmt: skip
    return results


def _rivals(found: Recommendation) -> list[Option]:
    """Return the chosen plan, then what else could have been had for its price."""
    most = found.chosen.cost if found.question.power is not None else None
    sizes = [o for o in found.sizes if most is None or o.cost <= most + 1e-9]
    strongest = sorted(sizes, key=lambda o: -o.power.value)[:RIVALS]
    return [found.chosen, *strongest, *found.alternatives[:RIVALS]]


class _Worlds:
    """Targets of laws with other margins, the same records but for those that the margins move.

    The laws differ by few records then, and the difference of two powers has little error.
    """

    def __init__(
        self, law: Law, n: int, factors: Sequence[float], repetitions: int, seed: int,
        strata: Stratified | None,
    ) -> None:  # fmt: skip
        self._law, self._n, self._repetitions, self._seed = law, n, repetitions, seed
        self._strata = strata
        self._factors = sorted({1.0, *factors})
        self._kinds = [chance.size for chance in law.records]
        self._kept: dict[tuple[float, int], Targets] = {}

    def affordable(self, option: Option) -> int:
        """Return on how many targets an option is judged: fewer where records are bet on."""
        each = bets_on(self._law, self._n, option.way)
        return affordable(each, WORLDS * EFFORT, self._repetitions)

    def power(self, option: Option, truth: Law, factor: float, repetitions: int) -> Power:
        """Return the power of an option under a law with so many times the margins."""
        own = truth.requiring(option.requirements)
        exact = exact_power(own, option.plan)
        if exact is not None:
            return Power(value=exact, standard_error=0.0, repetitions=0)
        # The records do not depend on how often releases are valid, so targets serve all of these.
        targets = self._targets(factor, option.plan.digits, repetitions)
        return power_on(targets.under(own), option.plan, seed=self._seed)

    def _targets(self, factor: float, digits: int | None, repetitions: int) -> Targets:
        if (factor, repetitions) not in self._kept:
            law = self._law.with_margins(factor)
            if factor == 1.0:
                made = Targets(
                    law, self._n, repetitions=repetitions, seed=self._seed, digits=digits,
                    strata=self._strata,
                )  # fmt: skip
            else:  # one step further from 1 than the factor before it
                place = self._factors.index(factor)
                nearer = self._factors[place + (1 if factor < 1.0 else -1)]
                made = self._targets(nearer, digits, repetitions).moved(law, self._kinds)
            self._kept[factor, repetitions] = made
        return self._kept[factor, repetitions]


# Looks of a default schedule.
LOOKS = 40


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

    def to_dict(self) -> dict[str, Plain]:
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
    law = law.thinned()
    targets = Targets(
        law, plan.n, repetitions=repetitions, seed=seed, digits=plan.digits, strata=plan.strata
    )
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
    # The threshold itself: `FavorableScore` has no lower ceiling, not even where p-values of counts
    # leave a gap below it.
    kappa = float(plan.levels(law.requirements).threshold)
    boundary = sharp_boundary(
        looks, target=claim.target, kappa=kappa, alpha=float(claim.alpha) / plan.mechanisms
    )
    if boundary is None:
        return None
    exact = exact_score_rates(law, plan)
    rates, share = _simulated_rates(law, plan, repetitions, seed) if exact is None else exact
    # A rate is a rounded sum of chances, and may be a last digit above 1.
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
