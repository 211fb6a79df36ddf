"""Smooth shared-target concentration: published, rescaled and sharp (Theorem 12)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from math import floor
from typing import ClassVar

import numpy as np

from proxyguard.errors import RegistryError
from proxyguard.exact.contamination import markov_allowance, ramp_radius
from proxyguard.exact.mean import kl_mean_lower
from proxyguard.exact.rounding import GUARD, Array, weaken_lower
from proxyguard.exact.sharp import smooth_lower, smooth_pvalue
from proxyguard.modes import planning
from proxyguard.modes.claim import Claim, Levels, Tests, choice, level
from proxyguard.modes.direct import bound_budget, slack_objections
from proxyguard.modes.evidence import MechanismEvidence, ReliabilityBound, rescale
from proxyguard.modes.planning import (
    Asked,
    AuditNeeds,
    AuditPlan,
    Choice,
    Planned,
    RampCost,
    Rng,
    Settings,
    Way,
)
from proxyguard.modes.violation import ScoredViolations
from proxyguard.plan.law import Law
from proxyguard.plan.targets import Targets
from proxyguard.registry.budget import Budget
from proxyguard.registry.design import Design, Sampling
from proxyguard.registry.numbers import MOST_DRAWS, MOST_RECORDS, Level, whole
from proxyguard.registry.requirement import Form, Requirement
from proxyguard.registry.test import (
    Bound,
    ComponentTest,
    Requirements,
    ramp_ceiling,
    ramp_scores,
    ramp_sensitivity,
)

# Ramp widths that are tried, as shares of the pilots' distance to the cutoff, widest first.
#
# Registered widths rest on these: other shares would be another rule, under another name.
WIDTHS = (
    "2", "1.5", "1.2", "1", "0.9", "0.8", "0.7", "0.6", "0.5", "0.4", "0.3", "0.25", "0.2", "0.15",
    "0.1",
)  # fmt: skip

# How much larger a predicted bound must be to be preferred: machines differ in the last digit.
APART = 1e-9


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


def _pvalue(scores: SmoothEvidence, reliability: float) -> float:
    """Return the sharp p-value of a reliability of at most so much."""
    return smooth_pvalue(
        scores.rounded, scores.n_releases, target=reliability, kappa=scores.kappa,
        sensitivity=scores.sensitivity, n_records=scores.n_records,
    )  # fmt: skip


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Pilots:
    """Mean losses of releases that are not audited: what ramp widths are chosen on."""

    means: Array  # (A, J), unit scale
    chances: Array  # (A,), summing to at most 1: the rest never scores

    @classmethod
    def of(cls, law: Law) -> Pilots:
        """Return the releases of a law."""
        return cls(means=law.means, chances=law.releases)

    def middle_below(self, requirement: Requirement, j: int) -> float:
        """Return the median of the ``j``-th means below the cutoff, the lower of two middle ones.

        Raises
        ------
        RegistryError
            None lies below it.
        """
        below = self.means[:, j] < requirement.unit_cutoff
        order = np.argsort(self.means[below, j], kind="stable")
        reached = np.cumsum(self.chances[below][order])
        if not reached.size or reached[-1] == 0.0:
            raise RegistryError(
                f"{requirement.name}: a ramp falls from the cutoff {requirement.cutoff:g} towards "
                "the pilots, and none has its mean below it; a higher limit, a smaller slack or a "
                "better generator is needed"
            )
        # A half is reached by a rounded sum.
        middle = order[np.argmax(reached >= (0.5 - GUARD) * reached[-1])]
        return float(self.means[below, j][middle])


@dataclass(frozen=True, slots=True, kw_only=True)
class Ramps:
    """Ramps of one share of the pilots' distances, and what they cost at one size."""

    share: str
    requirements: tuple[Requirement, ...]
    scores: SmoothEvidence  # if fresh releases score as the pilots do
    bound: float  # on the reliability, predicted from these scores

    def records(self, plan: AuditPlan, *, most: int = 10**7) -> int | None:
        """Return the least records with which such scores would validate; None if none do."""

        def validates(n: int) -> bool:
            sized = replace(plan, n=n)
            again = _sized(self.requirements, sized, self.scores.mean_score)
            claim = _smooth(sized)
            return claim.exceeds(again, sized.levels(self.requirements).lower, claim.target)

        least = planning.least_size(validates, 1, most)
        return None if least > most else least


def ramps_tried(plan: AuditPlan, requirements: Requirements, pilots: Pilots) -> list[Ramps]:
    """Return what ramps of every share in `WIDTHS` cost; a requirement's own ramp stays.

    Each open ramp is the share times the distance to the cutoff from the middle one of the pilot
    means below it, rounded down to four digits, and at most what there is down to the lower bound.

    Raises
    ------
    RegistryError
        No pilot mean of a requirement lies below its cutoff.
    """
    claim, budget = _smooth(plan), plan.levels(requirements).lower
    return [
        Ramps(
            share=share, requirements=ramped, scores=scores,
            bound=claim.bounded(scores, budget).value,
        )
        for share, ramped, scores in _ramped(plan, requirements, pilots)
    ]  # fmt: skip


def best_ramps(plan: AuditPlan, requirements: Requirements, pilots: Pilots) -> Ramps:
    """Return the ramps of `ramps_tried` with the largest predicted bound, of equal ones the widest.

    Guarantee
    ---------
    Theory section 2, "Widths from development": every bound of smooth mode holds as it stands,
    as long as the pilots are neither the draws that are scored nor judged on the target.
    """
    return _best_of(plan, requirements, _ramped(plan, requirements, pilots))


def _best_of(plan: AuditPlan, requirements: Requirements, ramped: Sequence[Tried]) -> Ramps:
    """Return the ramps with the largest bound that a plan predicts, of equal ones the widest."""
    claim, budget = _smooth(plan), plan.levels(requirements).lower
    widest, *others = ramped
    # Promising ones early, so that few bounds are computed in full.
    others.sort(key=lambda one: claim.promise(one[2], budget), reverse=True)
    best: Ramps | None = None
    for share, widened, scores in (widest, *others):
        if best is not None and not claim.exceeds(scores, budget, best.bound + APART):
            continue
        value = claim.bounded(scores, budget).value
        best = Ramps(share=share, requirements=widened, scores=scores, bound=value)
    assert best is not None  # there are widths
    return best


def choose_ramps(
    law: Law, *, n: int, releases: int, reliability_target: Level, alpha: Level = "0.05",
    mechanisms: int = 1, bound: str = "sharp",
) -> tuple[Requirement, ...]:  # fmt: skip
    """Return the requirements of a law with the ramps that its releases predict the best bound for.

    Parameters
    ----------
    law
        Of pilots, `pilot_law`, or assumed; its requirements have a slack. A ramp of theirs stays.
    n, releases
        Target records and draws of the audit.
    reliability_target
        The reliability to show.
    alpha
        The error of the validation direction.
    mechanisms
        How many mechanisms share ``alpha``.
    bound
        ``"sharp"``, ``"rescaled"`` or ``"paper"``.

    Returns
    -------
    tuple of Requirement
        For `certify` in smooth mode. The bounds hold as long as neither the draws that are scored
        nor the target are among the pilots (theory section 2, "Widths from development").

    Raises
    ------
    RegistryError
        A requirement has no slack, or no release of the law lies below its cutoff.

    Examples
    --------
    >>> from proxyguard import pilot_law
    >>> error = Requirement(name="error", low=0, high=1, limit=0.3, slack=0.03)
    >>> pilots = pilot_law([[[0.1], [0.2]], [[0.2], [0.2]]], [error])
    >>> (chosen,) = choose_ramps(pilots, n=10_000, releases=100, reliability_target="0.8")
    >>> chosen.ramp
    0.06
    """
    if not isinstance(law, Law):
        raise RegistryError(f"choose_ramps takes a Law, such as of pilot_law, got {law!r}")
    choices = {
        "mode": Smooth.mode, "reliability_target": reliability_target, "alpha": alpha,
        "bound": bound,
    }  # fmt: skip
    plan = AuditPlan(
        claim=planning.planned(Claim.of(choices)),
        n=whole(n, "n", most=MOST_RECORDS),
        releases=whole(releases, "releases", most=MOST_DRAWS),
        mechanisms=whole(mechanisms, "mechanisms", most=MOST_DRAWS),
    )
    return best_ramps(plan, law.requirements, Pilots.of(law)).requirements


def _smooth(plan: AuditPlan) -> Smooth:
    if not isinstance(plan.claim, Smooth):
        raise RegistryError(f"ramps are chosen for smooth mode, and the mode is {plan.claim.mode}")
    return plan.claim


# A share of the pilots' distances, the requirements with its ramps, and how pilots score by them.
Tried = tuple[str, tuple[Requirement, ...], SmoothEvidence]


def _ramped(plan: AuditPlan, requirements: Requirements, pilots: Pilots) -> list[Tried]:
    """Return the requirements with ramps of every share, and how pilots would score by them."""
    distances = [
        r.cutoff - (r.low + pilots.middle_below(r, j) * r.width) if r.ramp is None else 0.0
        for j, r in enumerate(requirements)
    ]
    tried: dict[tuple[Requirement, ...], str] = {}
    for share in WIDTHS:
        ramped = tuple(
            r if r.ramp is not None else replace(
                r, ramp=float(planning.decimal_down(min(float(share) * distance, _room(r))))
            )
            for r, distance in zip(requirements, distances, strict=True)
        )  # fmt: skip
        tried.setdefault(ramped, share)  # wide ones are cut to the same
    means = [
        float(np.minimum(1.0, ramp_scores(ramped, pilots.means) @ pilots.chances))
        for ramped in tried
    ]
    return [
        (share, ramped, _sized(ramped, plan, mean))
        for (ramped, share), mean in zip(tried.items(), means, strict=True)
    ]


def _room(requirement: Requirement) -> float:
    """Return the widest ramp that there is: from the cutoff to the lower bound, in decimals."""
    return float(Decimal(repr(requirement.cutoff)) - Decimal(repr(requirement.low)))


def _sized(requirements: Requirements, plan: AuditPlan, mean: float) -> SmoothEvidence:
    """Return the evidence of an audit whose releases have this mean ramp score."""
    return SmoothEvidence(
        n_releases=plan.releases,
        n_records=plan.n,
        mean_score=mean,
        rounded=floor(plan.releases * mean + APART),
        kappa=ramp_ceiling(requirements, plan.n),
        sensitivity=ramp_sensitivity(requirements, plan.n),
    )


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
    chooses_ramps: ClassVar[bool] = True

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
        return bound_budget(self.bound, self.alpha, self.target_share)

    def lower_bound(self, evidence: MechanismEvidence, levels: Levels) -> ReliabilityBound:
        """Return the bound of the registered kind."""
        return self.bounded(score_by_ramp(evidence), levels.lower)

    def bounded(self, scores: SmoothEvidence, budget: Budget) -> ReliabilityBound:
        """Return the bound of the registered kind on given scores."""
        if self.bound is Bound.SHARP:
            return certify_smooth_sharp(scores, budget, reliability_target=self.target)
        certify = certify_smooth if self.bound is Bound.PAPER else certify_smooth_rescaled
        return certify(scores, budget)

    def exceeds(self, scores: SmoothEvidence, budget: Budget, reliability: float) -> bool:
        """Return whether the bound lies above a reliability, mostly without computing it."""
        if self.bound is Bound.SHARP and 0.0 < reliability < 1.0:
            return _pvalue(scores, reliability) <= float(budget.total)
        # A mean has no limit above itself, so that scores without this room have no such bound.
        if reliability > 0.0 and self.promise(scores, budget) <= reliability:
            return False
        return self.bounded(scores, budget).value > reliability

    def promise(self, scores: SmoothEvidence, budget: Budget) -> float:
        """Return what is cheap and large where the bound is; of a divided one never below it."""
        if self.bound is Bound.SHARP:
            return -_pvalue(scores, self.target)
        radius = ramp_radius(scores.sensitivity, scores.n_records, alpha=float(budget.target))
        allowance = min(1.0, scores.kappa + radius)
        if self.bound is Bound.PAPER:
            return scores.mean_score - allowance
        return rescale(scores.mean_score, allowance)

    @classmethod
    def ways(cls, question: Asked, tests: Sequence[ComponentTest | None]) -> list[Way]:
        """Return one way a bound, on iid records."""
        return [Way(kind=cls, bound=bound) for bound in planning.BOUNDS] if question.iid else []

    @classmethod
    def settings(cls, way: Way, question: Asked, law: Law, n: int, releases: int) -> Settings:
        """Yield several slacks and shares of the error, with the ramps that are best by the law."""
        pilots = Pilots.of(law)
        for requirements in planning.slack_settings(law):
            ramped: list[Tried] | None = None  # as the pilots score, whatever the error's shares
            for share in planning.TARGET_SHARES if way.split else (None,):
                plan = way.plan(
                    question, n, releases, **({} if share is None else {"target_share": share})
                )
                ramped = ramped or _ramped(plan, requirements, pilots)
                yield plan, _best_of(plan, requirements, ramped).requirements

    def ramp_costs(
        self, plan: AuditPlan, requirements: Requirements, law: Law
    ) -> tuple[RampCost, ...]:
        """Return what ramps of every share in `WIDTHS` cost with these slacks."""
        open_ramps = tuple(replace(r, ramp=None) for r in requirements)
        return tuple(
            RampCost(
                share=tried.share, ramps=tuple(float(r.ramp or 0.0) for r in tried.requirements),
                score=tried.scores.mean_score, kappa=tried.scores.kappa,
                sensitivity=tried.scores.sensitivity, bound=tried.bound,
                records=tried.records(plan),
            )
            for tried in ramps_tried(plan, open_ramps, Pilots.of(law))
        )  # fmt: skip

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
            return planning.tail(count, plan.releases, lambda: targets.rates(scores), targets)
        least = self.least_mean(plan, requirements, levels)
        return planning.drawn(
            targets, plan, lambda times: (times * scores).sum(axis=1) / plan.releases >= least, rng
        )
