"""Power under assumed margins as a sum: what a page with sliders computes while they move.

Two-valued losses are tested by the exact binomial test, and their power is `exact_power` under
`assumed_law`. Other losses are tested by betting or by Chernoff's bound, and what their records sum
up to, log capital or loss, is taken as normal: an approximation, and the page says so. Of named
releases those are counted that pass Holm's first level, which is less than Holm recognizes.
The page's script, `report/templates/plan.js`, does the same step by step.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from proxyguard.exact.betting import TRUNCATION
from proxyguard.exact.binomial import lower_tail
from proxyguard.exact.contamination import threshold_ceiling
from proxyguard.exact.mean import log_chernoff
from proxyguard.exact.rounding import Array, bracket_switch
from proxyguard.exact.sharp import critical_count
from proxyguard.exact.special import special
from proxyguard.modes.planning import SHARES, at_least, least_recognized, thresholds
from proxyguard.plan.law import SPREAD, Law, assumed_kinds
from proxyguard.plan.question import Question
from proxyguard.plan.search import rates_of_nested
from proxyguard.registry.numbers import Level
from proxyguard.registry.requirement import Requirement
from proxyguard.registry.test import ComponentTest


@dataclass(frozen=True, slots=True, kw_only=True)
class SizedPower:
    """The power of one mode at one size, and what was tuned for it: a threshold, or a share."""

    mode: str
    n: int
    releases: int
    power: float
    tuned: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Assumptions:
    """What the sliders say about a mechanism and the claim.

    Parameters
    ----------
    requirements
        What a release must satisfy.
    margins
        How far valid releases stay below each limit, on the registered scale.
    deviations
        The standard deviation of each loss; None of a two-valued one, where it follows.
    reliability, spread, excess
        As of `assumed_law`.
    reliability_target, alpha
        The claim; ``alpha`` is what one mechanism has.
    """

    requirements: tuple[Requirement, ...]
    margins: tuple[float, ...]
    deviations: tuple[float | None, ...]
    reliability: float
    spread: float
    excess: float
    reliability_target: Level
    alpha: Level
    test: ComponentTest = ComponentTest.BETTING  # of losses that are not two-valued

    @classmethod
    def of(cls, law: Law, question: Question) -> Assumptions:
        """Return what margins, deviations and spread are left of a law, for a question."""
        requirements, valid = law.requirements, law.valid
        width = np.array([r.width for r in requirements])
        share = law.releases[valid] / law.releases[valid].sum()
        each = law.limits - law.means[valid]
        mean = share @ each
        # Of margins spread evenly by s times their mean; pilots are read as if theirs were.
        even = np.sqrt((1.0 - SPREAD**-2.0) / 3.0)
        spread = np.sqrt(np.maximum(share @ (each - mean) ** 2, 0.0)) / mean / even
        others = (law.means - law.limits)[~valid & (law.releases > 0.0)]
        excess = float(np.min(np.max(others / mean, axis=1))) if len(others) else 0.0
        return cls(
            requirements=requirements,
            margins=tuple(float(m) for m in mean * width),
            deviations=tuple(
                None if r.two_valued else float(deviation)
                for r, deviation in zip(
                    requirements, share @ law.deviations[valid] * width, strict=True
                )
            ),
            reliability=law.reliability,
            spread=min(0.9, float(spread.max())),
            excess=max(0.0, excess),
            reliability_target=question.reliability_target,
            alpha=Fraction(question.alpha) / question.mechanisms,
        )

    def direct(self, n: int, releases: int) -> SizedPower:
        """Return the power of the sharp direct certificate with the best of its thresholds."""
        target, alpha = float(Fraction(self.reliability_target)), float(Fraction(self.alpha))
        best = SizedPower(mode="direct", n=n, releases=releases, power=0.0, tuned="")
        for threshold in thresholds(releases, target, alpha):
            level = float(threshold)
            kappa = level
            if all(r.two_valued for r in self.requirements):
                # Only counts leave gaps below the threshold that an invalid release cannot hit.
                kappa = max(
                    threshold_ceiling(level, two_valued=(n, r.unit_limit))
                    for r in self.requirements
                )
            least = int(critical_count(releases, target=target, kappa=kappa, alpha=alpha))
            power = self._power(n, releases, level, least)
            if power > best.power:
                best = SizedPower(
                    mode="direct", n=n, releases=releases, power=power, tuned=threshold
                )
        return best

    def named(self, n: int, releases: int) -> SizedPower:
        """Return the power of the named certificate with the best share for its releases."""
        target, alpha = float(Fraction(self.reliability_target)), Fraction(self.alpha)
        best = SizedPower(mode="named", n=n, releases=releases, power=0.0, tuned="")
        for share in SHARES:
            level = float(alpha * Fraction(share) / releases)
            least = least_recognized(
                releases, target=target, alpha=float(alpha * (1 - Fraction(share)))
            )
            power = self._power(n, releases, level, least)
            if power > best.power:
                best = SizedPower(mode="named", n=n, releases=releases, power=power, tuned=share)
        return best

    def best(self, n: int, releases: int) -> SizedPower:
        """Return the more powerful of both modes, the direct one of equals."""
        direct, named = self.direct(n, releases), self.named(n, releases)
        return named if named.power > direct.power else direct

    def _power(self, n: int, releases: int, level: float, least: int) -> float:
        """Return the chance of ``least`` releases or more with every p-value at most a level."""
        if least > releases:
            return 0.0
        means, chances = assumed_kinds(
            self.requirements, self.margins, reliability=self.reliability, spread=self.spread,
            excess=self.excess,
        )  # fmt: skip
        tails = [
            self._passing(requirement, deviation, n, level, kinds)
            for requirement, deviation, kinds in zip(
                self.requirements, self.deviations, means.T, strict=True
            )
        ]
        summed = rates_of_nested(chances, means, tails)
        assert summed is not None  # kinds that share their order have few sets
        rates, sets = summed
        return float(np.clip(sets @ at_least(least, releases, rates), 0.0, 1.0))

    def _passing(
        self, requirement: Requirement, deviation: float | None, n: int, level: float, means: Array
    ) -> Array:
        """Return the chance with which each kind of release passes one requirement's test."""
        v = requirement.unit_limit
        if requirement.two_valued:
            most = _most_errors(n, v, level)
            counted = lower_tail(np.full(means.size, max(most, 0)), n, means)
            return counted if most >= 0 else np.zeros(means.size)
        spread = 0.5 * np.sqrt(means * (1.0 - means))
        sd = spread if deviation is None else np.full(means.size, deviation / requirement.width)
        tail = _chernoff_tail if self.test is ComponentTest.CHERNOFF else _betting_tail
        return tail(n, v, level, means, sd)


def _most_errors(n: int, v: float, level: float) -> int:
    """Return the most errors whose binomial p-value is at most a level; -1 if none is."""
    low, high = -1, n
    while high - low > 1:
        middle = (low + high) // 2
        if lower_tail(middle, n, v) <= level:
            low = middle
        else:
            high = middle
    return low


def _betting_tail(n: int, v: float, level: float, means: Array, sd: Array) -> Array:
    """Return the chance that the capital of a bet reaches ``1/level``, its logarithm normal."""
    needed = -np.log(level)
    stake = np.minimum(np.sqrt(2.0 * needed / n) / sd, TRUNCATION / (1.0 - v))
    gap = v - means
    # log(1 + x) is about x - x^2/2; a record moves the logarithm by the stake times its deviation.
    growth = n * (stake * gap - stake**2 * (sd**2 + gap**2) / 2.0)
    return np.asarray(special.ndtr((growth - needed) / (stake * sd * np.sqrt(n))))


def _chernoff_tail(n: int, v: float, level: float, means: Array, sd: Array) -> Array:
    """Return the chance that Chernoff's p-value is at most a level, the sample mean normal."""
    # The p-value of a mean of 0 is the least there is.
    if n * np.log1p(-v) > np.log(level):
        return np.zeros(means.size)
    cutoff, _ = bracket_switch(
        lambda mean: log_chernoff(mean, n, v) > np.log(level), np.asarray(0.0), np.asarray(v)
    )
    return np.asarray(special.ndtr((float(cutoff) - means) * np.sqrt(n) / sd))
