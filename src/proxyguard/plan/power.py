"""The chance that an audit validates, under a law of releases and records.

Given the target, favorable scores of R draws are binomial, so only the target is simulated
and the rest is a sum. Where one two-valued requirement orders all releases, the target has a
sum of its own and nothing is simulated. Counts after Holm, and means of ramp scores, draw
the kinds of release as well.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from proxyguard.exact import contamination
from proxyguard.exact.binomial import lower_tail, upper_tail
from proxyguard.plan import counts
from proxyguard.plan.law import Law
from proxyguard.plan.targets import Targets
from proxyguard.plan.two_valued import count_pvalues, most_accepted
from proxyguard.registry.claim import Bound, Claim, Mode, Score
from proxyguard.registry.design import Design, Iid
from proxyguard.registry.levels import Levels, local_levels
from proxyguard.registry.requirement import Requirement
from proxyguard.registry.scores import (
    block_ceiling,
    block_witnesses,
    ramp_ceiling,
    ramp_scores,
    ramp_sensitivity,
    slack_scores,
)
from proxyguard.registry.test import ComponentTest

Array = NDArray[np.float64]

REDRAWS = 4
"""How often the kinds of release are drawn for one target, where a sum does not do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Power:
    """A predicted chance of validation; ``standard_error`` is 0 where a sum gave it."""

    value: float
    standard_error: float
    repetitions: int  # 0: exact

    @property
    def exact(self) -> bool:
        """Whether nothing was simulated."""
        return self.repetitions == 0

    def to_dict(self) -> dict[str, Any]:
        """Return plain values."""
        return {
            "value": self.value,
            "standard_error": self.standard_error,
            "repetitions": self.repetitions,
            "exact": self.exact,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditPlan:
    """One way to audit: a claim with its sizes; ``mechanisms`` share the error budgets.

    ``digits`` are those of a registered disclosure, by which statistics are rounded before they
    decide: a plan that left them out would promise power that the audit does not have.
    """

    claim: Claim
    n: int
    releases: int
    mechanisms: int = 1
    design: Design = field(default_factory=Iid)
    digits: int | None = None

    def levels(self, requirements: Sequence[Requirement]) -> Levels:
        """Return the local levels that the claim fixes."""
        return local_levels(
            self.claim,
            n_releases=self.releases,
            n_requirements=len(requirements),
            share=Fraction(1, self.mechanisms),
        )

    def tests(self, requirements: Sequence[Requirement]) -> tuple[ComponentTest, ...]:
        """Return the component test of each requirement, as it is planned.

        The exact test of a share has a limit of its own for every release, which a law of
        losses does not know; betting, whose power is nearly the same, stands in for it.
        """
        tests = self.claim.tests(self.design, requirements)
        return tuple(
            ComponentTest.BETTING if r.indicator and test is ComponentTest.BINOMIAL else test
            for r, test in zip(requirements, tests, strict=True)
        )


def power(law: Law, audit: AuditPlan, *, repetitions: int = 1000, seed: int = 0) -> Power:
    """Return the chance that an audit validates: exact where a sum gives it, else simulated."""
    exact = exact_power(law, audit)
    if exact is not None:
        return Power(value=exact, standard_error=0.0, repetitions=0)
    targets = Targets(law, audit.n, repetitions=repetitions, seed=seed, digits=audit.digits)
    return power_on(targets, audit, seed=seed)


def power_on(targets: Targets, audit: AuditPlan, *, seed: int = 0) -> Power:
    """Return the chance that an audit validates, over targets that were simulated already."""
    chance = conditional_power(targets, audit, seed=seed)
    # One target more that fails and one that validates: what was not seen is not impossible.
    error = float(np.append(chance, [0.0, 1.0]).std(ddof=1) / np.sqrt(chance.size))
    return Power(value=float(chance.mean()), standard_error=error, repetitions=chance.size)


def score_rates(targets: Targets, audit: AuditPlan) -> Array:
    """Return ``pi(Z)`` of every target: the chance that a fresh draw scores favorably on it."""
    law = targets.law
    levels, tests = audit.levels(law.requirements), audit.tests(law.requirements)
    if audit.claim.mode in (Mode.DIRECT, Mode.HYBRID) and audit.claim.score is Score.SLACK:
        scores = slack_scores(law.requirements, targets.means)
    else:
        pvalues = targets.release_pvalues(tests, level=levels.betting)
        scores = pvalues <= float(levels.threshold)
    return np.asarray(scores @ law.releases)


def conditional_power(targets: Targets, audit: AuditPlan, *, seed: int = 0) -> Array:
    """Return the chance of validation given each target, over the draws."""
    if targets.digits != audit.digits:
        raise ValueError(f"targets read with {targets.digits} digits, a plan with {audit.digits}")
    claim, mode = audit.claim, audit.claim.mode
    levels = audit.levels(targets.law.requirements)
    if mode is Mode.DIRECT:
        least = counts.least_favorable(claim, levels.lower, _kappa(targets, audit), audit.releases)
        return _tail(least, audit.releases, lambda: score_rates(targets, audit), targets)
    if mode is Mode.COUNT:
        least = counts.least_counted(
            levels.lower, levels.threshold, audit.releases, target=claim.target
        )
        return _tail(least, audit.releases, lambda: score_rates(targets, audit), targets)
    if mode is Mode.SMOOTH and claim.bound is Bound.SHARP:
        return _smooth_sharp(targets, audit, levels)
    return _drawn(targets, audit, levels, np.random.default_rng([seed, audit.n, audit.releases]))


def _tail(least: int, releases: int, rates: Callable[[], Array], targets: Targets) -> Array:
    """Return the chance of at least so many favorable scores; none where R do not suffice."""
    if least > releases:
        return np.zeros(targets.repetitions)
    return _at_least(least, releases, rates())


def _at_least(least: int, releases: int, rates: Array) -> Array:
    """Return the binomial tail; 0 at a rate of 0, where the guarded tail is merely tiny."""
    return np.where(rates > 0.0, upper_tail(least, releases, np.minimum(rates, 1.0)), 0.0)


def _kappa(targets: Targets, audit: AuditPlan) -> float:
    law = targets.law
    return counts.score_ceiling(
        audit.claim,
        audit.levels(law.requirements),
        law.requirements,
        audit.tests(law.requirements),
        targets.n,
    )


def _ramp_parts(targets: Targets) -> tuple[Array, float, float]:
    """Return ramp scores (repetitions, A), their ceiling and their sensitivity."""
    requirements, n = targets.law.requirements, targets.n
    return (
        ramp_scores(requirements, targets.means),
        ramp_ceiling(requirements, n),
        ramp_sensitivity(requirements, n),
    )


def _smooth_sharp(targets: Targets, audit: AuditPlan, levels: Levels) -> Array:
    scores, kappa, sensitivity = _ramp_parts(targets)
    least = counts.least_smooth(
        audit.releases, targets.n, target=audit.claim.target, kappa=kappa,
        sensitivity=sensitivity, alpha=float(levels.lower.total),
    )  # fmt: skip
    # Rounding by one uniform a release makes the scores Bernoulli with the mean ramp score.
    return _tail(least, audit.releases, lambda: scores @ targets.law.releases, targets)


def _drawn(targets: Targets, audit: AuditPlan, levels: Levels, rng: np.random.Generator) -> Array:
    """Return the share of redraws that validate, where the draws themselves must be drawn."""
    chances = targets.law.releases
    rest = max(0.0, 1.0 - float(chances.sum()))  # invalid releases that never score
    kinds = np.append(chances, rest) / (chances.sum() + rest)
    decide = _decider(targets, audit, levels)
    drawn = rng.multinomial(audit.releases, kinds, size=(REDRAWS, targets.repetitions))
    return np.asarray(np.mean([decide(one[:, :-1]) for one in drawn], axis=0), dtype=np.float64)


Decider = Callable[[NDArray[np.int64]], NDArray[np.bool_]]


def _decider(targets: Targets, audit: AuditPlan, levels: Levels) -> Decider:
    """Return whether each target validates, from how often each kind was drawn on it."""
    claim, releases = audit.claim, audit.releases
    if claim.mode is Mode.NAMED:
        return _named(targets, audit, levels)
    if claim.mode is Mode.HYBRID:
        named = _named(targets, audit, levels)
        direct = _hybrid_direct(targets, audit, levels)
        return lambda drawn: named(drawn) | direct(drawn)
    if claim.mode is Mode.SMOOTH:
        scores, kappa, sensitivity = _ramp_parts(targets)
        allowance = kappa + contamination.ramp_radius(
            sensitivity, targets.n, alpha=float(levels.lower["alpha_Z"])
        )
        rescaled = claim.bound is Bound.RESCALED
        rate = claim.target + allowance * (1.0 - claim.target if rescaled else 1.0)
        least = counts.least_mean_score(releases, rate, alpha=float(levels.lower["alpha_Q"]))
        if allowance >= 1.0:
            least = 2.0
        return lambda drawn: (drawn * scores).sum(axis=1) / releases >= least
    if claim.mode is Mode.BLOCK:
        return _block(targets, audit, levels)
    raise ValueError(f"mode {claim.mode.value} has no power here: {claim}")


def _named(targets: Targets, audit: AuditPlan, levels: Levels) -> Decider:
    """Holm over the draws: all draws of a kind share one p-value, so kinds pass as a whole."""
    pvalues = targets.release_pvalues(audit.tests(targets.law.requirements), level=levels.betting)
    order = np.argsort(pvalues, axis=1, kind="stable")
    ordered = np.take_along_axis(pvalues, order, axis=1)
    alpha = float(levels.lower["alpha_R"])
    least = counts.least_recognized(
        audit.releases, target=audit.claim.target, alpha=float(levels.lower["alpha_M"])
    )

    def decide(drawn: NDArray[np.int64]) -> NDArray[np.bool_]:
        number = np.take_along_axis(drawn, order, axis=1)
        before = np.cumsum(number, axis=1) - number
        # The first draw of a kind meets the strictest level; a kind without draws stops nothing.
        passes = (number == 0) | (ordered <= alpha / np.maximum(1, audit.releases - before))
        recognized = (number * np.logical_and.accumulate(passes, axis=1)).sum(axis=1)
        return np.asarray(recognized >= least)

    return decide


def _hybrid_direct(targets: Targets, audit: AuditPlan, levels: Levels) -> Decider:
    law, claim = targets.law, audit.claim
    assert levels.direct is not None  # the hybrid has a direct budget
    if claim.score is Score.SLACK:
        scores = slack_scores(law.requirements, targets.means)
    else:
        pvalues = targets.release_pvalues(audit.tests(law.requirements), level=levels.betting)
        scores = pvalues <= float(levels.threshold)
    least = counts.least_favorable(claim, levels.direct, _kappa(targets, audit), audit.releases)
    return lambda drawn: np.asarray((drawn * scores).sum(axis=1) >= least)


def _block(targets: Targets, audit: AuditPlan, levels: Levels) -> Decider:
    requirements, size = targets.law.requirements, audit.claim.block_size
    assert size is not None  # a claim in block mode has one
    blocks = targets.n // size
    if blocks == 0:
        return lambda drawn: np.zeros(len(drawn), dtype=bool)
    radius = contamination.block_radius(audit.releases, blocks, alpha=float(levels.lower.total))
    if radius >= 1.0 - audit.claim.target:  # no witness can reach so far
        return lambda drawn: np.zeros(len(drawn), dtype=bool)
    witness = block_witnesses(requirements, targets.block_means(size))
    kappa = block_ceiling(requirements, size)
    least = audit.claim.target + kappa * (1.0 - audit.claim.target) + radius
    score = witness.mean(axis=1)  # (repetitions, A)
    return lambda drawn: np.asarray((drawn * score).sum(axis=1) / audit.releases > least)


def exact_power(law: Law, audit: AuditPlan) -> float | None:
    """Return the power as a sum where one two-valued requirement orders all releases.

    A release with risk ``r`` then scores exactly when at most ``c`` records are lost at
    ``r``, and a release with a smaller risk loses no more. With risks sorted, the score rate
    takes one value between any two of them, and the chance of each is a difference of two
    binomial tails. ``None`` where this does not apply.
    """
    found = exact_score_rates(law, audit)
    if found is None:
        return None
    rates, chance = found
    claim = audit.claim
    levels, tests = audit.levels(law.requirements), audit.tests(law.requirements)
    if claim.mode is Mode.COUNT:
        least = counts.least_counted(
            levels.lower, levels.threshold, audit.releases, target=claim.target
        )
    else:
        kappa = counts.score_ceiling(claim, levels, law.requirements, tests, audit.n)
        least = counts.least_favorable(claim, levels.lower, kappa, audit.releases)
    if least > audit.releases:
        return 0.0
    return float(np.clip(chance @ _at_least(least, audit.releases, rates), 0.0, 1.0))


def exact_score_rates(law: Law, audit: AuditPlan) -> tuple[Array, Array] | None:
    """Return the values that ``pi(Z)`` takes over targets and their chances, where a sum does."""
    claim = audit.claim
    if claim.mode not in (Mode.DIRECT, Mode.COUNT) or not _nested(law):
        return None
    requirement = law.requirements[0]
    if claim.score is Score.SLACK and claim.mode is Mode.DIRECT:
        accepted = most_accepted(requirement.unit_cutoff, audit.n, audit.digits)
    else:
        test = audit.tests(law.requirements)[0]
        table = count_pvalues(test, audit.n, requirement.unit_limit, audit.digits)
        if table is None:
            return None
        threshold = float(audit.levels(law.requirements).threshold)
        accepted = int(np.searchsorted(table, threshold, side="right")) - 1
    if accepted < 0:
        return np.zeros(1), np.ones(1)
    risks = law.means[:, 0]
    order = np.argsort(risks)
    scores = lower_tail(np.full(risks.size, accepted), audit.n, risks[order])
    rates = np.concatenate([[0.0], np.cumsum(law.releases[order])])
    # Kinds up to the i-th score and the next does not.
    chance = np.concatenate([[1.0], scores]) - np.concatenate([scores, [0.0]])
    return rates, chance


def _nested(law: Law) -> bool:
    """Whether there is one two-valued requirement, lost on records that contain each other."""
    if len(law.requirements) != 1 or not law.requirements[0].two_valued:
        return False
    table = law.losses[0][np.argsort(law.means[:, 0])]
    return bool(np.all((table == 0.0) | (table == 1.0)) and np.all(np.diff(table, axis=0) >= 0.0))
