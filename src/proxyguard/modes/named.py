"""Named-release mechanism inference (Theorem 5)."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from proxyguard.exact.multiplicity import holm, holm_level
from proxyguard.exact.planning import least_releases_named
from proxyguard.exact.rounding import Array
from proxyguard.modes import planning
from proxyguard.modes.claim import Levels
from proxyguard.modes.evidence import MechanismEvidence, ReliabilityBound, from_count
from proxyguard.modes.planning import (
    Asked,
    AuditNeeds,
    AuditPlan,
    Choice,
    Decider,
    Planned,
    Rng,
    Settings,
    Way,
)
from proxyguard.modes.violation import HolmViolations
from proxyguard.plan.law import Law
from proxyguard.plan.targets import Targets
from proxyguard.registry import budget as budgets
from proxyguard.registry.budget import Budget
from proxyguard.registry.test import Requirements


def certify_named(
    evidence: MechanismEvidence, budget: Budget, *, reliability_target: float
) -> ReliabilityBound:
    """Lower-bound reliability by the number of individually recognized releases.

    Guarantee
    ---------
    Paper Theorem 5 through Eqs. (8)-(9). Outside probability ``alpha_R`` every recognized
    release is valid; then, outside ``alpha_M``, the bound does not exceed the reliability.
    Releases may share the target in any way.
    """
    # Counting p_r <= alpha_R instead would let invalid releases in, and on a shared target many of
    # them at once; the binomial step that follows charges nothing for those.
    pvalues, alpha = evidence.release_pvalues, float(budget.release)
    return from_count(
        int(holm(pvalues, alpha=alpha).sum()),
        evidence.n_releases,
        budget,
        reliability_target=reliability_target,
        outer="alpha_M",
        label="recognized releases (Holm)",
        rests_on="Theorem 5, Eqs. (8)-(9)",
        level=holm_level(pvalues, alpha=alpha),
    )


@dataclass(frozen=True, kw_only=True)
class Named(HolmViolations, Planned):
    """Releases are recognized one by one, and the recognized ones are counted."""

    mode: ClassVar[str] = "named"
    recognizes: ClassVar[bool] = True

    def lower_budget(self) -> Budget:
        """Return ``alpha_R + alpha_M = alpha``."""
        return budgets.named_budget(self.alpha, release_share=self.release_share)

    def betting_level(self, lower: Budget, threshold: Fraction, n_releases: int) -> float:
        """Return Holm's first level."""
        return float(lower.release) / n_releases

    def lower_bound(self, evidence: MechanismEvidence, levels: Levels) -> ReliabilityBound:
        """Return the bound of Theorem 5."""
        return certify_named(evidence, levels.lower, reliability_target=self.target)

    @classmethod
    def settings(cls, way: Way, question: Asked, law: Law, n: int, releases: int) -> Settings:
        """Yield several shares of the error for the releases."""
        for share in planning.SHARES:
            yield way.plan(question, n, releases, release_share=share), law.requirements

    @classmethod
    def searched(cls, way: Way) -> bool:
        """Return True: where records are cheap and draws dear, this mode needs the fewest."""
        return True

    @classmethod
    def aim(cls, question: Asked, releases: int) -> float | None:
        """Return Holm's first level."""
        return question.level / releases

    def registered(self) -> dict[str, Choice]:
        """Return the share of the releases."""
        return {"release_share": self.release_share}

    def least_count(self, plan: AuditPlan, requirements: Requirements, levels: Levels) -> int:
        """Return the least number of recognized releases that validates."""
        return planning.least_recognized(
            plan.releases, target=self.target, alpha=float(levels.lower.mechanism)
        )

    def needs(self, plan: AuditPlan, requirements: Requirements, levels: Levels) -> AuditNeeds:
        """Return the draws of Proposition 18 and the records of Holm's first level."""
        outer = float(levels.lower.mechanism)
        count = self.least_count(plan, requirements, levels)
        least = least_releases_named(target=self.target, alpha_mechanism=outer)
        first = float(levels.lower.release) / plan.releases
        records = planning.records_for(requirements, plan, first)
        return AuditNeeds(
            least_count=count if count <= plan.releases else None,
            least_releases=least,
            least_records=records,
            obstacles=(
                *planning.few_draws(plan.releases, least, self.target, outer),
                *planning.few_records(plan.n, records, f"Holm's first level {first:.2g}"),
            ),
        )

    def chance(self, targets: Targets, plan: AuditPlan, levels: Levels, rng: Rng) -> Array:
        """Return the share of redraws with enough recognized releases."""
        return planning.drawn(targets, plan, self.decider(targets, plan, levels), rng)

    def decider(self, targets: Targets, plan: AuditPlan, levels: Levels) -> Decider:
        """Return Holm over the draws: those of a kind share one p-value, so kinds pass as a whole.

        ``levels`` may be those of a hybrid, whose stakes aim elsewhere.
        """
        requirements, releases = targets.law.every, plan.releases
        pvalues = targets.release_pvalues(plan.tests(requirements), level=levels.betting)
        order = np.argsort(pvalues, axis=1, kind="stable")
        ordered = np.take_along_axis(pvalues, order, axis=1)
        alpha = float(levels.lower.release)
        least = self.least_count(plan, requirements, levels)

        def decide(times: NDArray[np.int64]) -> NDArray[np.bool_]:
            number = np.take_along_axis(times, order, axis=1)
            before = np.cumsum(number, axis=1) - number
            # The first draw of a kind meets the strictest level; no draws stop nothing.
            passes = (number == 0) | (ordered <= alpha / np.maximum(1, releases - before))
            recognized = (number * np.logical_and.accumulate(passes, axis=1)).sum(axis=1)
            return np.asarray(recognized >= least)

        return decide
