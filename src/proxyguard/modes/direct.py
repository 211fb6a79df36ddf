"""Direct shared-target inference: published (Theorem 6), rescaled and sharp (theory section 2).

Counts releases that score favorably, and charges for how often an invalid one could (Eqs. 10-11).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from proxyguard.exact import contamination
from proxyguard.exact.binomial import clopper_pearson_lower
from proxyguard.exact.contamination import markov_allowance
from proxyguard.exact.planning import least_releases_direct
from proxyguard.exact.rounding import weaken_lower
from proxyguard.exact.sharp import (
    critical_count,
    default_threshold,
    largest_threshold,
    sharp_lower,
    sharp_pvalue,
)
from proxyguard.modes import planning
from proxyguard.modes.claim import Levels, Tests, choice, level, optional_level
from proxyguard.modes.evidence import DirectEvidence, MechanismEvidence, ReliabilityBound, rescale
from proxyguard.modes.planning import Asked, AuditNeeds, AuditPlan, Choice, Planned, Settings, Way
from proxyguard.modes.violation import ScoredViolations
from proxyguard.plan.law import Law
from proxyguard.plan.targets import Targets, most_accepted
from proxyguard.registry import budget as budgets
from proxyguard.registry.budget import Budget
from proxyguard.registry.design import (
    Design,
    Sampling,
    Stratified,
    has_weights,
    sees_losses,
    tests_excess,
)
from proxyguard.registry.requirement import Form, Requirement
from proxyguard.registry.test import Bound, ComponentTest, Requirements, Score, slack_scores


def score_by_pvalue(evidence: MechanismEvidence, *, threshold: float) -> DirectEvidence:
    """Score a release favorably when ``p_r <= t`` (theory section 2).

    Guarantee
    ---------
    An invalid release scores with probability at most ``kappa``, by super-uniformity:
    ``kappa = t``, or the largest attainable p-value not above ``t`` where every test is a
    binomial one on a sample of fixed size.
    """
    return DirectEvidence(
        favorable=int(np.count_nonzero(evidence.release_pvalues <= threshold)),
        n_releases=evidence.n_releases,
        kappa=_threshold_ceiling(
            threshold, evidence.requirements, evidence.tests, evidence.n_records
        ),
        score=f"release p-value <= {threshold:.6g}",
        level=threshold,
    )


def _threshold_ceiling(
    threshold: float,
    requirements: Sequence[Requirement],
    tests: Sequence[ComponentTest],
    sizes: Sequence[int],
) -> float:
    """Return how often an invalid release's p-value is at most a threshold, at the most."""
    if any(r.group is not None or r.indicator or r.form is Form.QUERY for r in requirements):
        return threshold  # the binomial's size, or its limit, is not the same for every release
    counted = (ComponentTest.BINOMIAL, ComponentTest.RANDOMIZED_BINOMIAL)
    # Only a count's p-values leave gaps below the threshold that an invalid release cannot hit.
    if any(test not in counted for test in tests):
        return threshold
    return max(
        contamination.threshold_ceiling(threshold, two_valued=(n, r.unit_limit))
        for n, r in zip(sizes, requirements, strict=True)
    )


def score_by_slack(evidence: MechanismEvidence, *, bound: Bound) -> DirectEvidence:
    """Score a release favorably when every mean is at most its cutoff (Eq. (10)).

    The ceiling is Eq. (11) for the paper's bound and the Bentkus or exact binomial one,
    never larger, for the others; Eq. (17) for strata with other weights.
    """
    columns, requirements = evidence.columns, evidence.requirements
    # Nothing was seen of some requirement: at kappa = 1 no bound claims anything.
    if min(evidence.n_records) == 0:
        return DirectEvidence(
            favorable=0, n_releases=evidence.n_releases, kappa=1.0, score="no record counts"
        )
    means = np.stack([column.mean for column in columns], axis=1)
    return DirectEvidence(
        favorable=int(np.count_nonzero(slack_scores(requirements, means))),
        n_releases=evidence.n_releases,
        # An invalid release fails one requirement, and nobody knows which: the largest ceiling
        # covers it, whichever it is.
        kappa=max(
            slack_ceiling(
                requirement,
                evidence.reading.design,
                column.n,
                bound=bound,
                counted=column.count is not None,
            )
            for column, requirement in zip(columns, requirements, strict=True)
        ),
        score="every mean <= limit - slack",
    )


def slack_ceiling(
    requirement: Requirement, design: Design, n: int, *, bound: Bound, counted: bool = True
) -> float:
    """Return how often an invalid release's slack score is 1 at the most, for one requirement.

    Certificates and plans ask here. ``counted``: two-valued losses came as counts.
    """
    cutoff, v = requirement.unit_cutoff, requirement.unit_limit
    if isinstance(design, Stratified) and not design.proportional:
        # A weighted mean is that of fewer records.
        return contamination.stratified_ceiling(cutoff, v, float(design.effective_size))
    return contamination.slack_ceiling(
        cutoff,
        v,
        n,
        paper=bound is Bound.PAPER,
        two_valued=requirement.two_valued and counted,
        identical=design.sampling is Sampling.IID,
    )


def certify_direct(evidence: DirectEvidence, budget: Budget) -> ReliabilityBound:
    """Lower-bound reliability by the favorable-score rate minus a false-pass allowance.

    Guarantee
    ---------
    Paper Theorem 6 through Eqs. (12)-(13). With probability at least ``1 - alpha_Q -
    alpha_Z`` over the target and the draws, the bound does not exceed the reliability.

    Rests on Assumption 1 (the target was sealed first), on independent draws, and on
    ``kappa`` having been computed for the very score that was counted.

    Notes
    -----
    The allowance ``kappa / alpha_Z`` is Markov's inequality, as published (Proposition
    7). The rescaled and sharp certificates never fall below this one.
    """
    score_rate, allowance = _parts(evidence, budget)
    return ReliabilityBound(
        value=float(weaken_lower(max(0.0, score_rate - allowance))),
        budget=budget,
        rests_on="Theorem 6, Eq. (13)",
        steps=_steps(evidence, score_rate, allowance),
        level=evidence.level,
    )


def certify_rescaled(evidence: DirectEvidence, budget: Budget) -> ReliabilityBound:
    """Lower-bound reliability, charging contamination to invalid releases only.

    Guarantee
    ---------
    Theory section 2: ``pi(Z) <= eta + (1 - eta) B(Z)`` and ``B <= c = kappa/alpha_Z``
    outside ``alpha_Z``, so ``[(pi - c)/(1 - c)]_+`` covers like Theorem 6 and is never
    below it.
    """
    score_rate, allowance = _parts(evidence, budget)
    return ReliabilityBound(
        value=rescale(score_rate, allowance),
        budget=budget,
        rests_on="theory section 2, rescaled bound",
        steps=_steps(evidence, score_rate, allowance),
        level=evidence.level,
    )


def _parts(evidence: DirectEvidence, budget: Budget) -> tuple[float, float]:
    # Two events: draws that flatter the score rate, given the target (alpha_Q), and a target that
    # flatters invalid releases (alpha_Z). Their errors add up, under any dependence.
    score_rate = clopper_pearson_lower(
        evidence.favorable, evidence.n_releases, alpha=float(budget.draws)
    )
    return float(score_rate), markov_allowance(evidence.kappa, float(budget.target))


def _steps(
    evidence: DirectEvidence, score_rate: float, allowance: float
) -> tuple[tuple[str, float], ...]:
    return (
        (f"favorable scores ({evidence.score})", evidence.favorable),
        ("releases", evidence.n_releases),
        ("score rate at least", score_rate),
        ("kappa", evidence.kappa),
        ("allowance kappa/alpha_Z", allowance),
    )


def certify_sharp(
    evidence: DirectEvidence, budget: Budget, *, reliability_target: float
) -> ReliabilityBound:
    """Lower-bound reliability from favorable scores, with no split of the error budget.

    Guarantee
    ---------
    Theory section 2: with probability at least ``1 - alpha`` over the target and the
    draws, the bound does not exceed the reliability, whatever dependence the shared
    target creates. Never below the rescaled or the paper's bound, at any split.

    Rests on iid draws that are jointly independent of the target, one fixed score for all
    releases, and ``kappa`` for that very score.
    """
    alpha = float(budget.total)
    return ReliabilityBound(
        value=sharp_lower(
            evidence.favorable, evidence.n_releases, kappa=evidence.kappa, alpha=alpha
        ),
        budget=budget,
        rests_on="theory section 2, sharp p-value",
        steps=(
            (f"favorable scores ({evidence.score})", evidence.favorable),
            ("releases", evidence.n_releases),
            ("kappa", evidence.kappa),
        ),
        pvalue=float(
            sharp_pvalue(
                evidence.favorable,
                evidence.n_releases,
                target=reliability_target,
                kappa=evidence.kappa,
            )
        ),
        outer="alpha",
        level=evidence.level,
    )


def slack_objections(
    design: Design, requirements: Sequence[Requirement], *, random_size: bool
) -> list[str]:
    """Return what a slack score does not cover; ``random_size``: subgroups it does."""
    excess = tests_excess(design)
    reasons = [
        f"{r.name!r} is about exposure, which is judged by a p-value and has no slack: use the "
        'p-value score, in mode "direct", "named" or "count"'
        if r.form is Form.EXPOSURE
        else f"{r.name!r} needs a slack for this score"
        for r in requirements
        if r.slack is None and (r.form is Form.EXPOSURE or not excess)
    ]
    if excess:
        units = "weighted records" if has_weights(design) else "record-weighted clusters"
        reasons.append(
            f"{units} are tested through their excess over the limit, to "
            "which a slack does not apply: use the p-value score"
        )
    if any(r.group is not None for r in requirements) and not random_size:
        reasons.append(
            "a slack score on a subgroup of random size has a ceiling that depends on the "
            'data: use the p-value score, or bound="paper" or "rescaled"'
        )
    return reasons


def bound_budget(bound: Bound, alpha: Fraction, target_share: Fraction) -> Budget:
    """Return the budget of a bound: undivided for the sharp one."""
    if bound is Bound.SHARP:
        return budgets.sharp_budget(alpha)
    return budgets.direct_budget(alpha, target_share=target_share)


@lru_cache(maxsize=4096)
def least_favorable(
    releases: int, bound: Bound, budget: Budget, *, kappa: float, target: float
) -> int:
    """Return the least favorable count that validates out of R, ``R + 1`` if none does."""
    if bound is Bound.SHARP:
        return int(critical_count(releases, target=target, kappa=kappa, alpha=float(budget.total)))
    allowance = markov_allowance(kappa, float(budget.target))
    # L > eta_0 either way: paper's pi - c, rescaled (pi - c)/(1 - c).
    rate = target + allowance * (1.0 if bound is Bound.PAPER else 1.0 - target)
    if allowance >= 1.0 or rate >= 1.0:
        return releases + 1
    return planning.least_recognized(releases, target=rate, alpha=float(budget.draws))


def largest_useful_threshold(releases: int, *, target: float, alpha: float) -> float:
    """Return the largest ``t`` at which R favorable scores out of R validate; 0 if none does.

    ``(alpha - eta_0^R)/(1 - eta_0^R)``, theory section 2, "Choosing t".

    >>> round(largest_useful_threshold(30, target=0.8, alpha=0.05), 4)
    0.0488
    """
    return largest_threshold(releases, releases, target=target, alpha=alpha)


@dataclass(frozen=True, kw_only=True)
class Direct(ScoredViolations, Planned):
    """Favorable scores are counted, by p-values or by slacks."""

    mode: ClassVar[str] = "direct"

    bound: Bound = choice(Bound, Bound.SHARP)
    score: Score = choice(Score, Score.PVALUE)
    threshold: Fraction | None = optional_level()  # t of the score; None: the default rule
    target_share: Fraction = level("1/2")  # alpha_Z / alpha, where the bound divides it

    @property
    def sequential(self) -> bool:
        """Whether a sequential audit may go by this score: sharp, by p-values."""
        return self.bound is Bound.SHARP and self.score is Score.PVALUE

    def objections(self, design: Design, requirements: Requirements, tests: Tests) -> list[str]:
        """Return what a slack score does not cover."""
        # A p-value holds given the size of a subgroup, so its threshold is a ceiling for every
        # size; the ceiling of a slack changes with it.
        if self.score is Score.PVALUE:
            return []
        return slack_objections(design, requirements, random_size=self.bound is not Bound.SHARP)

    def stated(self) -> dict[str, str | None]:
        """Return the mode and the bound."""
        return {**super().stated(), "bound": self.bound.value}

    def lower_budget(self) -> Budget:
        """Return ``alpha_Q + alpha_Z = alpha``, undivided for the sharp bound."""
        return bound_budget(self.bound, self.alpha, self.target_share)

    def score_threshold(self, local: Budget, n_releases: int) -> tuple[Fraction, tuple[str, ...]]:
        """Return the registered level ``t``, or that of the bound's default rule."""
        if self.threshold is not None:
            return self.threshold, ()
        if self.bound is not Bound.SHARP:
            assert self.reliability_target is not None  # a claim about a mechanism
            # Spends a quarter of the room above the target on the allowance t/alpha_Z.
            return local.target * (1 - self.reliability_target) / 4, ()
        chosen = default_threshold(n_releases, target=self.target, alpha=float(local.total))
        if chosen is not None:
            return Fraction(chosen), ()
        # No threshold lets so few draws validate. Any one below alpha serves, and the note says so.
        return local.total / 10, (
            f"{n_releases} release(s) cannot validate a reliability above {self.target:g} at error "
            f"{float(local.total):g}, whatever they score; an audit on a fresh target needs more",
        )

    def lower_bound(self, evidence: MechanismEvidence, levels: Levels) -> ReliabilityBound:
        """Return the bound of the registered kind from the registered score."""
        if self.score is Score.SLACK:
            scores = score_by_slack(evidence, bound=self.bound)
        else:
            scores = score_by_pvalue(evidence, threshold=float(levels.threshold))
        if self.bound is Bound.SHARP:
            return certify_sharp(scores, levels.lower, reliability_target=self.target)
        certify = certify_direct if self.bound is Bound.PAPER else certify_rescaled
        return certify(scores, levels.lower)

    @classmethod
    def ways(cls, question: Asked, tests: Sequence[ComponentTest | None]) -> list[Way]:
        """Return the sharp bound by every test, and every bound by slacks."""
        return [
            *(Way(kind=cls, bound="sharp", score="pvalue", test=test) for test in tests),
            *(Way(kind=cls, bound=bound, score="slack") for bound in planning.BOUNDS),
        ]

    @classmethod
    def settings(cls, way: Way, question: Asked, law: Law, n: int, releases: int) -> Settings:
        """Yield several thresholds, or slacks and shares of the error."""
        if way.score == "pvalue":
            for threshold in planning.thresholds(releases, question.target, question.level):
                yield way.plan(question, n, releases, threshold=threshold), law.requirements
            return
        for requirements in planning.slack_settings(law):
            for share in planning.TARGET_SHARES if way.split else (None,):
                choices = {} if share is None else {"target_share": share}
                yield way.plan(question, n, releases, **choices), requirements

    @classmethod
    def searched(cls, way: Way) -> bool:
        """Return whether the way is a sharp or a tested one; the others are never ahead."""
        return way.score == "pvalue" or way.bound == "sharp"

    def registered(self) -> dict[str, Choice]:
        """Return bound and score, and what was tuned for them."""
        found: dict[str, Choice] = {"bound": self.bound}
        if self.score is Score.SLACK:
            found["score"] = self.score
        if self.threshold is not None:
            found["threshold"] = self.threshold
        if self.bound is not Bound.SHARP:
            found["target_share"] = self.target_share
        return found

    def kappa(self, plan: AuditPlan, requirements: Requirements, levels: Levels) -> float:
        """Return how often an invalid release scores at the most, over the target."""
        if self.score is Score.SLACK:
            counted = sees_losses(plan.design)  # a cluster's mean is no count
            design = plan.strata or plan.design
            return max(
                slack_ceiling(r, design, plan.n, bound=self.bound, counted=counted)
                for r in requirements
            )
        sizes = [plan.n] * len(requirements)
        return _threshold_ceiling(
            float(levels.threshold), requirements, plan.tests(requirements), sizes
        )

    def least_count(self, plan: AuditPlan, requirements: Requirements, levels: Levels) -> int:
        """Return the least number of favorable scores that validates."""
        kappa = self.kappa(plan, requirements, levels)
        return least_favorable(
            plan.releases, self.bound, levels.lower, kappa=kappa, target=self.target
        )

    def needs(self, plan: AuditPlan, requirements: Requirements, levels: Levels) -> AuditNeeds:
        """Return what the registered score and bound need."""
        budget, target, releases = levels.lower, self.target, plan.releases
        alpha = float(budget.total)
        kappa = self.kappa(plan, requirements, levels)
        count = self.least_count(plan, requirements, levels)
        if self.bound is Bound.SHARP:
            least = planning.least_releases_sharp(target=target, alpha=alpha, kappa=kappa)
        else:
            least = least_releases_direct(
                # Rescaled, pi > eta_0 + c (1 - eta_0): the paper's need at a smaller c.
                kappa if self.bound is Bound.PAPER else kappa * (1.0 - target),
                target=target,
                budget=(float(budget.draws), float(budget.target)),
            )
        oracle = planning.oracle_releases(target=target, alpha=alpha)
        obstacles = list(planning.few_draws(releases, oracle, target, alpha))
        threshold = None
        if self.score is Score.SLACK:
            records = None
            if not obstacles:
                records = self._least_records(plan, requirements, levels)
            if count > releases and not obstacles:
                obstacles.append(_steep(plan, kappa, records))
        else:
            t = float(levels.threshold)
            if self.bound is Bound.SHARP and not obstacles:
                threshold = largest_useful_threshold(releases, target=target, alpha=alpha)
            records = planning.records_for(requirements, plan, t)
            if count > releases and not obstacles:
                useful = "" if threshold is None else f"; at most {threshold:.4g} can work"
                obstacles.append(
                    f"the score's threshold {t:.4g} leaves no room: not even {releases} favorable "
                    f"scores out of {releases} would validate{useful}"
                )
            obstacles += planning.few_records(plan.n, records, f"the score's threshold {t:.2g}")
        return AuditNeeds(
            least_count=count if count <= releases else None,
            least_releases=least,
            least_records=records,
            largest_threshold=threshold,
            obstacles=tuple(obstacles),
        )

    def _least_records(self, plan: AuditPlan, requirements: Requirements, levels: Levels) -> int:
        """Return the least ``n`` at which the registered slacks leave room above the target."""

        def room(n: int) -> bool:
            return self.least_count(replace(plan, n=n), requirements, levels) <= plan.releases

        return planning.least_size(room, 1, 10**6)

    def scores(self, targets: Targets, plan: AuditPlan, levels: Levels) -> NDArray[np.bool_]:
        """Return which kinds of release score, by slacks or by p-values."""
        if self.score is Score.SLACK:
            return slack_scores(targets.law.requirements, targets.means)
        return super().scores(targets, plan, levels)

    def most_errors(self, plan: AuditPlan, requirement: Requirement, levels: Levels) -> int | None:
        """Return the most errors with which a release scores."""
        if self.score is Score.SLACK:
            return most_accepted(requirement.unit_cutoff, plan.n, plan.digits)
        return planning.most_errors_tested(plan, requirement, levels)


def _steep(plan: AuditPlan, kappa: float, records: int | None) -> str:
    more = "more records" if records is None else f"at least {records:,} records"
    return (
        f"the registered slacks let an invalid release score with probability {kappa:.2g} on "
        f"{plan.n:,} records, and not even {plan.releases} favorable scores out of "
        f"{plan.releases} would then validate; {more}, larger slacks or the p-value score are "
        "needed"
    )
