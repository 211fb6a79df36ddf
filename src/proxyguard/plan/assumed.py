"""What a law says in as few numbers as a page has sliders: what the page of a plan computes from.

Two-valued losses are tested by the exact binomial test, and their power is a sum. Other losses are
tested by betting or by Chernoff's bound, and what their records sum up to, log capital or loss, is
taken as normal: an approximation, and the page says so. Of named releases those are counted that
pass Holm's first level, which is less than Holm recognizes. How many records a subgroup has is
binomial. `report/templates/plan.js` computes all this, and `tests/plan/page_twin.py` the same.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from proxyguard.plan.law import SPREAD, Law
from proxyguard.plan.question import Question
from proxyguard.registry.numbers import Level
from proxyguard.registry.requirement import Requirement
from proxyguard.registry.test import ComponentTest


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
        )
