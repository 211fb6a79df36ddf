"""What `templates/plan.js` computes, in Python: power under assumed margins as a sum.

The planner's own pieces where it has them: critical counts, thresholds, tails, kinds of release.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from scipy.stats import binom

from proxyguard.exact.betting import TRUNCATION
from proxyguard.exact.binomial import lower_tail
from proxyguard.exact.contamination import threshold_ceiling
from proxyguard.exact.mean import log_chernoff
from proxyguard.exact.rounding import Array, Integers, bracket_switch
from proxyguard.exact.sharp import critical_count
from proxyguard.exact.special import special
from proxyguard.modes.planning import SHARES, at_least, least_recognized, thresholds
from proxyguard.plan.assumed import Assumptions, Kinds
from proxyguard.plan.law import assumed_kinds
from proxyguard.plan.search import rates_of_nested
from proxyguard.registry.requirement import Requirement
from proxyguard.registry.test import ComponentTest

NONE = 1e-9  # what is moved is no nearer to 0 or 1
NARROW = 1e-18  # the least variance of a loss
WIDE, NODES = 9.0, 64
"""How many deviations of a subgroup's size count, and how many sizes stand for all where the
passing chance is smooth in them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SizedPower:
    """The power of one mode at one size, and what was tuned for it: a threshold, or a share."""

    mode: str
    n: int
    releases: int
    power: float
    tuned: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Simulated:
    """Sizes that `proxyguard plan` has simulated, and by how much the sums of a page are off there.

    ``offsets`` are in probits, (numbers of draws, numbers of records) for each mode.
    """

    records: list[int]
    draws: list[int]
    offsets: dict[str, Array]

    @classmethod
    def of(cls, assumed: Assumptions, simulated: dict[str, Any]) -> Simulated:
        """Return what a page makes of the numbers that it was given."""
        records, draws = simulated["records"], simulated["draws"]
        offsets = {}
        for mode, summed in (("direct", direct), ("named", named)):
            own = np.array([[summed(assumed, n, R).power for n in records] for R in draws])
            there = np.array(simulated["power"][mode])
            offsets[mode] = _clear(there) - _clear(own)
        return cls(records=records, draws=draws, offsets=offsets)

    def told(self, found: SizedPower, *, width: float = 1.0, moved: bool = False) -> float:
        """Return the chance that is shown for a sum, with margins so many times as wide."""
        i, k, down = _between(self.draws, found.releases)
        j, m, right = _between(self.records, found.n * width**2)
        table = self.offsets[found.mode]
        by = (1 - down) * ((1 - right) * table[i, j] + right * table[i, m]) + down * (
            (1 - right) * table[k, j] + right * table[k, m]
        )
        by = min(0.0, by) if moved else by
        if found.power <= 0.0 or by == 0.0:
            return found.power
        return float(special.ndtr(special.ndtri(np.clip(found.power, NONE, 1.0 - NONE)) + by))


def _clear(chances: Array) -> Array:
    return np.asarray(special.ndtri(np.clip(chances, 1e-3, 1.0 - 1e-3)))


def _between(sizes: list[int], size: float) -> tuple[int, int, float]:
    """Return which two sizes another one lies between, and how far from the first, by ratios."""
    last = max(i for i in range(len(sizes) - 1) if i == 0 or sizes[i] < size)
    share = np.log(size / sizes[last]) / np.log(sizes[last + 1] / sizes[last])
    return last, last + 1, float(np.clip(share, 0.0, 1.0))


def direct(assumed: Assumptions, n: int, releases: int) -> SizedPower:
    """Return the power of the sharp direct certificate with the best of its thresholds."""
    target, alpha = float(Fraction(assumed.reliability_target)), float(Fraction(assumed.alpha))
    best = SizedPower(mode="direct", n=n, releases=releases, power=0.0, tuned="")
    for threshold in thresholds(releases, target, alpha):
        level = float(threshold)
        kappa = level
        if all(r.two_valued for r in assumed.requirements) and min(assumed.shares or [1.0]) == 1.0:
            # Only counts leave gaps below the threshold that an invalid release cannot hit.
            kappa = max(
                threshold_ceiling(level, two_valued=(n, r.unit_limit)) for r in assumed.requirements
            )
        least = int(critical_count(releases, target=target, kappa=kappa, alpha=alpha))
        power = _power(assumed, n, releases, level, least)
        if power > best.power:
            best = SizedPower(mode="direct", n=n, releases=releases, power=power, tuned=threshold)
    return best


def named(assumed: Assumptions, n: int, releases: int) -> SizedPower:
    """Return the power of the named certificate with the best share for its releases."""
    target, alpha = float(Fraction(assumed.reliability_target)), Fraction(assumed.alpha)
    best = SizedPower(mode="named", n=n, releases=releases, power=0.0, tuned="")
    for share in SHARES:
        level = float(alpha * Fraction(share) / releases)
        least = least_recognized(
            releases, target=target, alpha=float(alpha * (1 - Fraction(share)))
        )
        power = _power(assumed, n, releases, level, least)
        if power > best.power:
            best = SizedPower(mode="named", n=n, releases=releases, power=power, tuned=share)
    return best


def _power(assumed: Assumptions, n: int, releases: int, level: float, least: int) -> float:
    """Return the chance of ``least`` releases or more with every p-value at most a level."""
    if least > releases:
        return 0.0
    if assumed.kinds is not None:
        return _power_of_pilots(assumed, assumed.kinds, n, releases, level, least)
    means, chances = assumed_kinds(
        assumed.requirements, assumed.margins, reliability=assumed.reliability,
        spread=assumed.spread, excess=assumed.excess,
    )  # fmt: skip
    shares = assumed.shares or (1.0,) * len(assumed.requirements)
    tails = []
    for requirement, deviation, share, kinds in zip(
        assumed.requirements, assumed.deviations, shares, means.T, strict=True
    ):
        sd = 0.5 * np.sqrt(np.maximum(0.0, kinds * (1.0 - kinds)))
        if deviation is not None:
            sd = np.full(kinds.size, deviation / requirement.width)
        tails.append(_passing(assumed, requirement, sd, share, n, level, kinds))
    summed = rates_of_nested(chances, means, tails)
    assert summed is not None  # kinds that share their order have few sets
    rates, sets = summed
    return float(np.clip(sets @ at_least(least, releases, rates), 0.0, 1.0))


def _power_of_pilots(
    assumed: Assumptions, kinds: Kinds, n: int, releases: int, level: float, least: int
) -> float:
    """Return it where releases are like pilots, whose means have a target's effects in common."""
    shares = assumed.shares or (1.0,) * len(assumed.requirements)
    passes = np.ones((len(kinds.points), kinds.chances.size))
    for j, requirement in enumerate(assumed.requirements):
        margins = kinds.ratios[j] * assumed.margins[j] / requirement.width
        means = np.clip(requirement.unit_limit - margins, 0.0, 1.0)
        inside = max(1, int(np.floor(n * shares[j] + 0.5)))
        scores = _scores_of(assumed, requirement, kinds.deviations[j], inside, level, means)
        scores = scores / np.sqrt(1 + n * kinds.unsure[j])
        own = np.sqrt(1.0 - np.sum(kinds.loadings[j] ** 2, axis=1))
        passes *= special.ndtr((scores - kinds.points @ kinds.loadings[j].T) / own)
    rates = passes @ kinds.at(assumed.reliability)
    return float(np.clip(np.mean(at_least(least, releases, rates)), 0.0, 1.0))


def _passing(
    assumed: Assumptions, requirement: Requirement, sd: Array, share: float, n: int, level: float,
    means: Array,
) -> Array:  # fmt: skip
    """Return the chance with which each kind of release passes one requirement's test."""
    if share >= 1.0:
        return _passing_of(assumed, requirement, sd, n, level, means)
    # Of a subgroup a target has as many records as chance gives it.
    far = WIDE * np.sqrt(n * share * (1.0 - share))
    low, high = max(0, int(n * share - far)), min(n, int(np.ceil(n * share + far)))
    step = 1 if requirement.two_valued else max(1, (high - low) // NODES)
    sizes = np.arange(low, high + 1, step)
    weights = binom.pmf(sizes, n, share)
    weights /= weights.sum()
    sizes, weights = sizes[sizes > 0], weights[sizes > 0]  # of no record nothing is known
    if requirement.two_valued:
        most = _most_errors(sizes, requirement.unit_limit, level)
        counted = lower_tail(np.maximum(most, 0)[:, None], sizes[:, None], means)
        return np.asarray(weights @ np.where(most[:, None] >= 0, counted, 0.0))
    passed = [_passing_of(assumed, requirement, sd, int(m), level, means) for m in sizes]
    return np.asarray(weights @ np.stack(passed))


def _passing_of(
    assumed: Assumptions, requirement: Requirement, sd: Array, n: int, level: float, means: Array
) -> Array:
    """Return it where ``n`` records count."""
    v = requirement.unit_limit
    if requirement.two_valued:
        most = int(_most_errors(np.array([n]), v, level)[0])
        counted = lower_tail(np.full(means.size, max(most, 0)), n, means)
        return counted if most >= 0 else np.zeros(means.size)
    return np.asarray(special.ndtr(_scores_of(assumed, requirement, sd, n, level, means)))


def _scores_of(
    assumed: Assumptions, requirement: Requirement, sd: Array, n: int, level: float, means: Array
) -> Array:
    """Return the same as normal scores; counts are nearly normal too."""
    v = requirement.unit_limit
    if requirement.two_valued:
        most = int(_most_errors(np.array([n]), v, level)[0])
        if most < 0:
            return np.full(means.size, -np.inf)
        deviations = np.sqrt(n * np.maximum(means * (1.0 - means), NARROW))
        return np.asarray((most + 0.5 - n * means) / deviations)
    scores = _chernoff_scores if assumed.test is ComponentTest.CHERNOFF else _betting_scores
    return scores(n, v, level, means, sd)


def _most_errors(sizes: Integers, v: float, level: float) -> Integers:
    """Return the most errors whose binomial p-value is at most a level; -1 where none is."""
    low, high = np.full(sizes.size, -1), sizes.copy()
    while np.any(high - low > 1):
        middle = (low + high) // 2
        fits = lower_tail(np.maximum(middle, 0), sizes, v) <= level
        fits &= middle >= 0
        narrow = high - low > 1
        low, high = np.where(narrow & fits, middle, low), np.where(narrow & ~fits, middle, high)
    return low


def _betting_scores(n: int, v: float, level: float, means: Array, sd: Array) -> Array:
    """Return how surely the capital of a bet reaches ``1/level``, its logarithm normal."""
    needed = -np.log(level)
    stake = np.minimum(np.sqrt(2.0 * needed / n) / sd, TRUNCATION / (1.0 - v))
    gap = v - means
    # log(1 + x) is about x - x^2/2; a record moves the logarithm by the stake times its deviation.
    growth = n * (stake * gap - stake**2 * (sd**2 + gap**2) / 2.0)
    return np.asarray((growth - needed) / (stake * sd * np.sqrt(n)))


def _chernoff_scores(n: int, v: float, level: float, means: Array, sd: Array) -> Array:
    """Return how surely Chernoff's p-value is at most a level, the sample mean normal."""
    # The p-value of a mean of 0 is the least there is.
    if n * np.log1p(-v) > np.log(level):
        return np.full(means.size, -np.inf)
    cutoff, _ = bracket_switch(
        lambda mean: log_chernoff(mean, n, v) > np.log(level), np.asarray(0.0), np.asarray(v)
    )
    return np.asarray((float(cutoff) - means) * np.sqrt(n) / sd)
