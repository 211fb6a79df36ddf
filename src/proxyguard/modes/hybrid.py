"""The preregistered hybrid of named and direct inference (Proposition 16)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import ClassVar

import numpy as np

from proxyguard.exact.rounding import Array
from proxyguard.modes import planning
from proxyguard.modes.claim import Levels, Tests, choice, component, level, optional_level
from proxyguard.modes.direct import Direct
from proxyguard.modes.evidence import MechanismEvidence, ReliabilityBound
from proxyguard.modes.named import Named
from proxyguard.modes.planning import (
    Asked,
    AuditNeeds,
    AuditPlan,
    Choice,
    Planned,
    Rng,
    Settings,
    Way,
)
from proxyguard.modes.violation import HolmViolations
from proxyguard.plan.law import Law
from proxyguard.plan.targets import Targets
from proxyguard.registry.budget import Budget, hybrid_budget
from proxyguard.registry.design import Design
from proxyguard.registry.numbers import Level
from proxyguard.registry.test import Bound, ComponentTest, Requirements, Score


def certify_hybrid(
    named: ReliabilityBound, direct: ReliabilityBound, *, alpha: Level
) -> ReliabilityBound:
    """Return the larger of two lower bounds whose budgets were split beforehand.

    Guarantee
    ---------
    Paper Proposition 16: covers with probability at least ``1 - alpha_N - alpha_D``. The
    larger of two bounds at full budget would choose the mode after looking, and does not.
    """
    # The larger may be taken because both hold at once: each has its own share of the error.
    larger = max(named, direct, key=lambda bound: bound.value)
    return ReliabilityBound(
        value=larger.value,
        budget=hybrid_budget(named.budget, direct.budget, alpha=alpha),
        rests_on=f"Proposition 16 ({named.rests_on}; {direct.rests_on})",
        steps=(
            ("named bound", named.value),
            *((f"named: {label}", value) for label, value in named.steps),
            ("direct bound", direct.value),
            *((f"direct: {label}", value) for label, value in direct.steps),
        ),
    )


@dataclass(frozen=True, kw_only=True)
class Hybrid(HolmViolations, Planned):
    """A named and a direct claim, each with its share of the error fixed beforehand."""

    mode: ClassVar[str] = "hybrid"

    named_share: Fraction = level("1/2")  # alpha_N / alpha
    bound: Bound = choice(Bound, Bound.SHARP)
    score: Score = choice(Score, Score.PVALUE)
    threshold: Fraction | None = optional_level()  # t of the score; None: the default rule
    target_share: Fraction = level("1/2")  # alpha_Z / alpha_D, where the bound divides it

    @property
    def named(self) -> Named:
        """The named component."""
        return component(
            Named,
            alpha=self.alpha * self.named_share,
            release_share=self.release_share,
            reliability_target=self.reliability_target,
            test=self.test,
        )

    @property
    def direct(self) -> Direct:
        """The direct component."""
        return component(
            Direct,
            alpha=self.alpha * (1 - self.named_share),
            bound=self.bound,
            score=self.score,
            threshold=self.threshold,
            target_share=self.target_share,
            reliability_target=self.reliability_target,
            test=self.test,
        )

    def objections(self, design: Design, requirements: Requirements, tests: Tests) -> list[str]:
        """Return what the direct component does not cover."""
        return self.direct.objections(design, requirements, tests)

    def stated(self) -> dict[str, str | None]:
        """Return the mode and the bound of the direct component."""
        return {**super().stated(), "bound": self.bound.value}

    def lower_budget(self) -> Budget:
        """Return the budget of the named component; that of the direct one is in the levels."""
        return self.named.lower_budget()

    def levels(
        self, *, n_releases: int, n_requirements: int, share: Fraction = Fraction(1)
    ) -> Levels:
        """Return the levels of both components; stakes aim at the direct threshold."""
        made = super().levels(n_releases=n_releases, n_requirements=n_requirements, share=share)
        component = self.direct
        budget = component.lower_budget().scaled(share)
        threshold, notes = component.score_threshold(budget, n_releases)
        # Both components read the same p-values, one test a requirement, so stakes aim only once.
        return replace(
            made, direct=budget, threshold=threshold, betting=float(threshold), notes=notes
        )

    def lower_bound(self, evidence: MechanismEvidence, levels: Levels) -> ReliabilityBound:
        """Return the larger of the two bounds."""
        return certify_hybrid(
            self.named.lower_bound(evidence, levels),
            self.direct.lower_bound(evidence, _direct_levels(levels)),
            alpha=self.alpha * levels.share,
        )

    @classmethod
    def ways(cls, question: Asked, tests: Sequence[ComponentTest | None]) -> list[Way]:
        """Return the sharp bound by every test."""
        return [Way(kind=cls, bound="sharp", score="pvalue", test=test) for test in tests]

    @classmethod
    def settings(cls, way: Way, question: Asked, law: Law, n: int, releases: int) -> Settings:
        """Yield several thresholds of the direct component, which has half of the error."""
        for threshold in planning.thresholds(releases, question.target, question.level / 2):
            yield way.plan(question, n, releases, threshold=threshold), law.requirements

    def registered(self) -> dict[str, Choice]:
        """Return what the direct component registers."""
        return self.direct.registered()

    def least_count(
        self, plan: AuditPlan, requirements: Requirements, levels: Levels
    ) -> int | None:
        """Return None: either component may decide, by a count of its own."""
        return None

    def needs(self, plan: AuditPlan, requirements: Requirements, levels: Levels) -> AuditNeeds:
        """Return what both components lack: the hybrid fails only where both of them do."""
        first = self.named.needs(plan, requirements, levels)
        second = self.direct.needs(plan, requirements, _direct_levels(levels))
        # Either component may validate alone, so that one obstacle stops nothing.
        both = first.obstacles and second.obstacles
        return AuditNeeds(
            largest_threshold=second.largest_threshold,
            obstacles=(*first.obstacles, *second.obstacles) if both else (),
        )

    def chance(self, targets: Targets, plan: AuditPlan, levels: Levels, rng: Rng) -> Array:
        """Return the share of redraws that either component validates."""
        named = self.named.decider(targets, plan, levels)
        component, own = self.direct, _direct_levels(levels)
        scores = component.scores(targets, plan, own)
        least = component.least_count(plan, targets.law.every, own)
        return planning.drawn(
            targets,
            plan,
            # Both see the same draws: adding their chances would count twice what both validate.
            lambda times: named(times) | np.asarray((times * scores).sum(axis=1) >= least),
            rng,
        )


def _direct_levels(levels: Levels) -> Levels:
    """Return the levels of a hybrid as its direct component reads them."""
    assert levels.direct is not None  # the hybrid has a direct budget
    return replace(levels, lower=levels.direct)
