"""Smooth shared-target concentration: published, rescaled and sharp (Theorem 12)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np

from proxyguard.exact.contamination import markov_allowance, ramp_radius
from proxyguard.exact.mean import kl_mean_lower
from proxyguard.exact.rounding import Array, weaken_lower
from proxyguard.exact.sharp import smooth_lower, smooth_pvalue
from proxyguard.modes import planning
from proxyguard.modes.claim import Levels, Tests, choice, level
from proxyguard.modes.direct import direct_budget, slack_objections
from proxyguard.modes.evidence import MechanismEvidence, ReliabilityBound, rescale
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
from proxyguard.modes.violation import ScoredViolations
from proxyguard.plan.law import Law
from proxyguard.plan.targets import Targets
from proxyguard.registry.budget import Budget
from proxyguard.registry.design import Design, Sampling
from proxyguard.registry.requirement import Form
from proxyguard.registry.test import (
    Bound,
    ComponentTest,
    Requirements,
    ramp_ceiling,
    ramp_scores,
    ramp_sensitivity,
)

RAMPS = (0.3, 0.6, 1.0)
"""Ramp widths that are tried, as shares of the cutoff's distance to the lower bound."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SmoothEvidence:
    """Ramp scores ``S_h`` of all releases, reduced to what the certificates use."""

    n_releases: int
    n_records: int
    mean_score: float
    rounded: int  # scores rounded to 0/1 by one uniform each: Bin(R, pi_h) given the target
    kappa: float  # kappa_h, Eq. (18)
    sensitivity: float  # rho_h, Eq. (19)


def score_by_ramp(evidence: MechanismEvidence) -> SmoothEvidence:
    """Return the ramp scores' mean and rounded count with their ceilings."""
    requirements, columns = evidence.requirements, evidence.columns
    n = min(evidence.n_records)  # the fewest: one record then moves a score the furthest
    if n == 0:
        return SmoothEvidence(
            n_releases=evidence.n_releases,
            n_records=0,
            mean_score=0.0,
            rounded=0,
            kappa=1.0,
            sensitivity=1.0,
        )
    scores = ramp_scores(requirements, np.stack([column.mean for column in columns], axis=1))
    return SmoothEvidence(
        n_releases=evidence.n_releases,
        n_records=n,
        mean_score=float(scores.mean()),
        # Uniforms lie in [0, 1): strictly below, a score of 0 never counts and 1 always does.
        rounded=int(np.count_nonzero(evidence.uniforms < scores)),
        kappa=ramp_ceiling(requirements, n),
        sensitivity=ramp_sensitivity(requirements, n),
    )


def certify_smooth(evidence: SmoothEvidence, budget: Budget) -> ReliabilityBound:
    """Lower-bound reliability by the mean ramp score minus an additive allowance.

    Guarantee
    ---------
    Paper Theorem 12 through Eqs. (14), (18) and (19): covers with probability at least
    ``1 - alpha_Q - alpha_Z`` for iid targets.
    """
    score_rate, allowance, steps = _parts(evidence, budget)
    return ReliabilityBound(
        value=float(weaken_lower(max(0.0, score_rate - allowance))),
        budget=budget,
        rests_on="Theorem 12, Eq. (14)",
        steps=steps,
    )


def certify_smooth_rescaled(evidence: SmoothEvidence, budget: Budget) -> ReliabilityBound:
    """Lower-bound reliability, charging the allowance to invalid releases only.

    Guarantee
    ---------
    Theory section 2: the mean ramp score of invalid releases has bounded differences
    ``rho_h``, so it is at most ``c = kappa_h + r_h`` outside ``alpha_Z``, and ``[(pi_h -
    c)/(1 - c)]_+`` covers like Theorem 12.
    """
    score_rate, allowance, steps = _parts(evidence, budget)
    return ReliabilityBound(
        value=rescale(score_rate, allowance),
        budget=budget,
        rests_on="theory section 2, rescaled smooth bound",
        steps=steps,
    )


def certify_ramp_markov(evidence: SmoothEvidence, budget: Budget) -> ReliabilityBound:
    """Lower-bound reliability by the mean ramp score under Markov's allowance, rescaled.

    Guarantee
    ---------
    Theory section 2: as `certify_smooth_rescaled`, with ``c = kappa_h/alpha_Z``, the
    expectation-only allowance that Theorem 12 is compared with.
    """
    score_rate, _, steps = _parts(evidence, budget)
    allowance = markov_allowance(evidence.kappa, float(budget.target))
    return ReliabilityBound(
        value=rescale(score_rate, allowance),
        budget=budget,
        rests_on="theory section 2, ramp score under Markov",
        steps=(*steps[:4], ("allowance kappa_h/alpha_Z", allowance)),
    )


def certify_smooth_sharp(
    evidence: SmoothEvidence, budget: Budget, *, reliability_target: float
) -> ReliabilityBound:
    """Lower-bound reliability from rounded ramp scores, with no split of the budget.

    Guarantee
    ---------
    Theory section 2, "Ramp scores": covers with probability at least ``1 - alpha`` over
    target, draws and the rounding uniforms, for iid targets.
    """
    return ReliabilityBound(
        value=smooth_lower(
            evidence.rounded,
            evidence.n_releases,
            kappa=evidence.kappa,
            sensitivity=evidence.sensitivity,
            n_records=evidence.n_records,
            alpha=float(budget.total),
        ),
        budget=budget,
        rests_on="theory section 2, sharp smooth p-value",
        steps=(
            ("ramp scores rounded to 1", evidence.rounded),
            ("releases", evidence.n_releases),
            ("kappa_h", evidence.kappa),
            ("rho_h", evidence.sensitivity),
        ),
        pvalue=smooth_pvalue(
            evidence.rounded,
            evidence.n_releases,
            target=reliability_target,
            kappa=evidence.kappa,
            sensitivity=evidence.sensitivity,
            n_records=evidence.n_records,
        ),
        outer="alpha",
    )


def _parts(
    evidence: SmoothEvidence, budget: Budget
) -> tuple[float, float, tuple[tuple[str, float], ...]]:
    # Ramp scores are no counts, so that Clopper-Pearson does not cover their mean; the Bernoulli
    # divergence bounds the mean of any scores in [0, 1].
    score_rate = float(
        kl_mean_lower(evidence.mean_score, evidence.n_releases, alpha=float(budget.draws))
    )
    radius = ramp_radius(evidence.sensitivity, evidence.n_records, alpha=float(budget.target))
    allowance = min(1.0, evidence.kappa + radius)
    steps = (
        ("mean ramp score", evidence.mean_score),
        ("releases", evidence.n_releases),
        ("score mean at least", score_rate),
        ("kappa_h", evidence.kappa),
        ("radius r_h", radius),
    )
    return score_rate, allowance, steps


def least_rounded(
    releases: int, n: int, *, target: float, kappa: float, sensitivity: float, alpha: float
) -> int:
    """Return the least number of rounded ramp scores that validates, ``R + 1`` if none does."""

    def validates(count: int) -> bool:
        p = smooth_pvalue(
            count, releases, target=target, kappa=kappa, sensitivity=sensitivity, n_records=n
        )
        return p <= alpha

    # The p-value falls as the count grows, so that the first count that validates is the least.
    return planning.least_size(validates, 1, releases)


def iid_objections(mode: str, design: Design) -> list[str]:
    """Return why a design is not covered where Theorems 12 and 13 need iid records."""
    if design.sampling is Sampling.IID:
        return []
    return [
        f"{mode} mode needs iid records (Theorems 12 and 13), and the design is "
        f"{type(design).__name__}"
    ]


@dataclass(frozen=True, kw_only=True)
class Smooth(ScoredViolations, Planned):
    """Scores rise along a ramp, so that no single record can move one far."""

    mode: ClassVar[str] = "smooth"
    tested: ClassVar[bool] = False

    bound: Bound = choice(Bound, Bound.SHARP)
    target_share: Fraction = level("1/2")  # alpha_Z / alpha, where the bound divides it

    def objections(self, design: Design, requirements: Requirements, tests: Tests) -> list[str]:
        """Return what Theorem 12 does not cover."""
        return [
            *(
                f"{r.name!r} needs a ramp"
                for r in requirements
                if r.ramp is None and r.form is not Form.EXPOSURE
            ),
            *iid_objections(self.mode, design),
            *slack_objections(design, requirements, random_size=False),
        ]

    def stated(self) -> dict[str, str | None]:
        """Return the mode and the bound."""
        return {**super().stated(), "bound": self.bound.value}

    def lower_budget(self) -> Budget:
        """Return ``alpha_Q + alpha_Z = alpha``, undivided for the sharp bound."""
        return direct_budget(self.bound, self.alpha, self.target_share)

    def lower_bound(self, evidence: MechanismEvidence, levels: Levels) -> ReliabilityBound:
        """Return the bound of the registered kind."""
        scores = score_by_ramp(evidence)
        if self.bound is Bound.SHARP:
            return certify_smooth_sharp(scores, levels.lower, reliability_target=self.target)
        certify = certify_smooth if self.bound is Bound.PAPER else certify_smooth_rescaled
        return certify(scores, levels.lower)

    @classmethod
    def ways(cls, question: Asked, tests: Sequence[ComponentTest | None]) -> list[Way]:
        """Return one way a bound, on iid records."""
        return [Way(kind=cls, bound=bound) for bound in planning.BOUNDS] if question.iid else []

    @classmethod
    def settings(cls, way: Way, question: Asked, law: Law, n: int, releases: int) -> Settings:
        """Yield several slacks, ramps and shares of the error."""
        for requirements in planning.slack_settings(law, RAMPS):
            for share in planning.TARGET_SHARES if way.split else (None,):
                choices = {} if share is None else {"target_share": share}
                yield way.plan(question, n, releases, **choices), requirements

    def registered(self) -> dict[str, Choice]:
        """Return the bound, and the share of the target where it has one."""
        if self.bound is Bound.SHARP:
            return {"bound": self.bound}
        return {"bound": self.bound, "target_share": self.target_share}

    def least_count(
        self, plan: AuditPlan, requirements: Requirements, levels: Levels
    ) -> int | None:
        """Return the least number of rounded scores that validates, for the sharp bound."""
        if self.bound is not Bound.SHARP:
            return None
        return least_rounded(
            plan.releases,
            plan.n,
            target=self.target,
            kappa=ramp_ceiling(requirements, plan.n),
            sensitivity=ramp_sensitivity(requirements, plan.n),
            alpha=float(levels.lower.total),
        )

    def least_mean(self, plan: AuditPlan, requirements: Requirements, levels: Levels) -> float:
        """Return the least mean score that validates by the divided bounds; 2 if none does."""
        budget, target = levels.lower, self.target
        sensitivity = ramp_sensitivity(requirements, plan.n)
        radius = ramp_radius(sensitivity, plan.n, alpha=float(budget.target))
        allowance = ramp_ceiling(requirements, plan.n) + radius
        rate = target + allowance * (1.0 if self.bound is Bound.PAPER else 1.0 - target)
        if allowance >= 1.0:
            return 2.0
        return planning.least_mean_score(plan.releases, rate, alpha=float(budget.draws))

    def needs(self, plan: AuditPlan, requirements: Requirements, levels: Levels) -> AuditNeeds:
        """Return whether perfect scores would validate."""
        releases, alpha = plan.releases, float(levels.lower.total)
        least = planning.oracle_releases(target=self.target, alpha=alpha)
        obstacles = list(planning.few_draws(releases, least, self.target, alpha))
        count = self.least_count(plan, requirements, levels)
        if count is None:
            fails = self.least_mean(plan, requirements, levels) > 1.0
        else:
            fails = count > releases
        if fails and not obstacles:
            obstacles.append(
                f"the ramps are too steep or the slacks too small for {plan.n:,} records: perfect "
                f"scores of all {releases} releases would not validate (kappa_h "
                f"{ramp_ceiling(requirements, plan.n):.2g}, rho_h "
                f"{ramp_sensitivity(requirements, plan.n):.2g})"
            )
        return AuditNeeds(
            least_count=None if fails else count,
            least_releases=least,
            obstacles=tuple(obstacles),
        )

    def chance(self, targets: Targets, plan: AuditPlan, levels: Levels, rng: Rng) -> Array:
        """Return a binomial tail of rounded scores, or the share of redraws with a good mean."""
        requirements = targets.law.requirements
        scores = ramp_scores(requirements, targets.means)
        count = self.least_count(plan, requirements, levels)
        if count is not None:
            # Rounding by one uniform a release makes scores Bernoulli with the mean ramp score.
            return planning.tail(
                count, plan.releases, lambda: scores @ targets.law.releases, targets
            )
        least = self.least_mean(plan, requirements, levels)
        return planning.drawn(
            targets, plan, lambda times: (times * scores).sum(axis=1) / plan.releases >= least, rng
        )
