"""What a law says in as few numbers as a page has sliders: what the page of a plan computes from.

Two-valued losses are tested by the exact binomial test, and their power is a sum. Other losses are
tested by betting or by Chernoff's bound, and what their records sum up to, log capital or loss, is
taken as normal: an approximation, and the page says so. Of named releases those are counted that
pass Holm's first level, which is less than Holm recognizes. How many records a subgroup has is
binomial. Pilots stay as different as they are, `Kinds`: what one number for their spread leaves out
made 0.44 look like 0.79. `report/templates/plan.js` computes all this, and
`tests/plan/page_twin.py` the same.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from proxyguard.exact.rounding import Array
from proxyguard.exact.special import special
from proxyguard.plan.law import SPREAD, Law
from proxyguard.plan.question import Question
from proxyguard.registry.numbers import Level
from proxyguard.registry.requirement import Requirement
from proxyguard.registry.test import ComponentTest

# Pilots that stand for all on a page, and points at which what they share is averaged over.
PAGE_KINDS, POINTS = 24, 64

# The largest share of a mean that releases have in common, so that some of it is always their own.
COMMON = 0.9999


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Kinds:
    """Pilots as a page has them: each with its margins, and what their means have in common.

    The mean of a target's records is taken as normal. What moves the means of all pilots and
    requirements together, a hard target, are a few independent effects; the rest is each one's own.

    Attributes
    ----------
    chances, valid
        Of every pilot: its chance, and whether it is valid, (A,).
    ratios
        Its margins in mean margins of the valid ones, below 0 where it misses a limit, (J, A).
    deviations
        Those of its losses, unit scale, (J, A).
    loadings
        How far the effects move its mean, in deviations of it, (J, A, F).
    points
        Values of the effects that stand for all targets, (`POINTS`, F).
    unsure
        One over the records on which the mean of each requirement is known, 0 where it is, (J,).
    """

    chances: Array
    valid: NDArray[np.bool_]
    ratios: Array
    deviations: Array
    loadings: Array
    points: Array
    unsure: Array

    @classmethod
    def of(cls, law: Law) -> Kinds:
        """Return the pilots of a joint law, few that stand for many."""
        mean = (law.limits - law.means)[law.valid]
        weights = law.releases[law.valid] / law.releases[law.valid].sum()
        law = law.thinned(PAGE_KINDS)
        loadings = _loadings(law)
        known = [np.inf] * len(law.requirements) if law.luck is None else law.luck.records
        return cls(
            chances=law.releases, valid=law.valid,
            ratios=((law.limits - law.means) / (weights @ mean)).T, deviations=law.deviations.T,
            loadings=loadings, points=_points(loadings.shape[2]),
            unsure=1.0 / np.array(known),
        )  # fmt: skip

    def at(self, reliability: float) -> Array:
        """Return the chances where valid ones have so much together, as `Law.with_reliability`."""
        valid, lost = self.chances[self.valid].sum(), self.chances[~self.valid].sum()
        rest = (1.0 - reliability) / lost if lost > 0.0 else 0.0
        return self.chances * np.where(self.valid, reliability / valid, rest)


def _loadings(law: Law) -> Array:
    """Return how effects that all records have in common move the means of pilots, (J, A, F)."""
    counts, kinds = len(law.requirements), law.releases.size
    masks = law.counting or (np.ones(law.records[0].size, dtype=bool),) * counts
    apart = [
        np.where(mask, table - means[:, None], 0.0)
        for table, means, mask in zip(law.losses, law.means.T, masks, strict=True)
    ]
    every = np.concatenate(apart)
    covariance = (every * law.records[0]) @ every.T
    deviations = np.sqrt(np.maximum(np.diag(covariance), 1e-18))
    values, vectors = np.linalg.eigh(covariance / np.outer(deviations, deviations))
    effects = min(counts + 1, values.size)  # one of all records, and one of each requirement's
    found = vectors[:, -effects:] * np.sqrt(np.maximum(values[-effects:], 0.0))
    common = np.sum(found**2, axis=1, keepdims=True)
    found = found * np.sqrt(COMMON / np.maximum(common, COMMON))
    # Largest first, where the points are most even; few digits, which both sides then read.
    return np.asarray(np.round(found[:, ::-1], 5).reshape(counts, kinds, effects))


def _points(effects: int) -> Array:
    """Return points that are spread evenly over the law of so many normal effects."""
    ratio = 2.0
    for _ in range(60):  # of x^(d+1) = x + 1, whose powers are the evenest steps (Roberts 2018)
        ratio = (1.0 + ratio) ** (1.0 / (effects + 1))
    steps = ratio ** -np.arange(1.0, effects + 1)
    even = (0.5 + np.arange(1, POINTS + 1)[:, None] * steps) % 1.0
    return np.asarray(np.round(special.ndtri(even), 5))


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
    shares
        The part of the records that count for each requirement, below 1 of a subgroup.
    chance_spread
        Of the spread, what the chance of a pilot's few records alone would give.
    kinds
        The pilots themselves, in place of spread, excess and deviations; None of assumed margins.
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
    shares: tuple[float, ...] = ()  # all records where there are none
    chance_spread: float = 0.0
    kinds: Kinds | None = None

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
        spread, by_chance = law.spread / mean / even, law.chance_spread / mean / even
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
            shares=tuple(float(part) for part in law.shares),
            chance_spread=min(0.9, float(by_chance.max())),
            kinds=Kinds.of(law) if law.joint else None,
        )
