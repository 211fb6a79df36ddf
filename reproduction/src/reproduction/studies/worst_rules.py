"""Decisions of every certificate that two numbers make: valid releases, and errors of the others.

All invalid releases have one and the same two-valued loss on the shared target; valid ones
never err. A certificate is then a table over the number of errors, and how many valid releases
it takes to validate.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from math import ceil, floor

import numpy as np
from numpy.typing import NDArray

from proxyguard.exact.contamination import (
    binomial_ceiling,
    chernoff_ceiling,
    most_at_cutoff,
    ramp_ceiling,
    ramp_score,
    ramp_sensitivity,
    threshold_ceiling,
)
from proxyguard.exact.evalues import Number, mixture_evalues
from proxyguard.exact.sharp import critical_count
from proxyguard.modes.block import BlockEvidence, certify_block
from proxyguard.modes.count import ValidCount, certify_count
from proxyguard.modes.direct import least_favorable
from proxyguard.modes.evidence import ReliabilityBound, from_count
from proxyguard.modes.smooth import (
    SmoothEvidence,
    certify_ramp_markov,
    certify_smooth,
    certify_smooth_rescaled,
    certify_smooth_sharp,
)
from proxyguard.registry.budget import Budget, direct_budget, named_budget, sharp_budget
from proxyguard.registry.test import Bound
from reproduction.studies import violation
from reproduction.studies.count_tests import COUNT_TESTS, count_pvalues
from reproduction.studies.counts import Array, sharp_threshold
from reproduction.studies.passing import COUNT_THRESHOLD

ALPHA, TARGET = 0.05, 0.8
MIXTURE = (Fraction(1, 1000), COUNT_THRESHOLD)
LARGEST_CEILING = 0.0013  # of the slack score: an allowance of .03 at 90 % of the budget
TARGET_SHARE = "0.9"
BLOCK_SIZE = 50

Flags = NDArray[np.bool_]
Integers = NDArray[np.int64]
Rule = Callable[[Integers, Integers], Flags]
"""From valid releases and errors of an invalid one to decisions, one a repetition."""


@dataclass(frozen=True, slots=True)
class Audit:
    """The sizes of one audit and the limit of its one requirement."""

    releases: int
    n: int
    limit: float

    @property
    def cutoff(self) -> float:
        """The largest share of errors whose ceiling leaves the paper's bound something to say."""
        below = range(1, ceil(self.limit * self.n))
        first = bisect_left(below, True, key=lambda k: self._ceiling(k) > LARGEST_CEILING)
        return below[first - 1] / self.n

    def _ceiling(self, errors: int) -> float:
        return chernoff_ceiling(errors / self.n, self.limit, self.n)

    def pvalues(self, test: str) -> Array:
        """Return the release p-value of every number of errors."""
        return count_pvalues(test, self.n, self.limit)


def holm_of_two(
    first: float, n_first: Integers, second: Array, n_second: Integers, level: float
) -> Integers:
    """Return how many Holm recognizes of two groups with one p-value each, the smaller first.

    Holm's levels rise, so a group passes as a whole or not at all.
    """
    starts = (first <= level / (n_first + n_second)) | (n_first == 0)
    goes_on = starts & (second <= level / np.maximum(n_second, 1))
    return np.where(starts, n_first, 0) + np.where(goes_on, n_second, 0)


@cache
def count_needed(releases: int, budget: Budget, outer: str) -> int:
    """Return how many valid releases have to be shown, ``R + 1`` if not even all suffice."""

    def validates(shown: int) -> bool:
        bound = from_count(
            shown, releases, budget, reliability_target=TARGET, outer=outer, label="", rests_on=""
        )
        return bound.value > TARGET

    return bisect_left(range(releases + 1), True, key=validates)


def named_flags(valid: Integers, good: float, bad: Array, audit: Audit, alpha: float) -> Flags:
    """Return the named decision when valid releases have one p-value and invalid ones another."""
    budget = named_budget(alpha)
    level = float(budget["alpha_R"])
    recognized = holm_of_two(good, valid, bad, audit.releases - valid, level)
    return np.asarray(recognized >= count_needed(audit.releases, budget, "alpha_M"))


def named_rule(audit: Audit, test: str, alpha: float) -> Rule:
    """Return the named decision with a test that reads the number of errors."""
    table = audit.pvalues(test)
    return lambda valid, errors: named_flags(valid, float(table[0]), table[errors], audit, alpha)


def scored(valid: Integers, scores: Flags, errors: Integers, audit: Audit) -> Integers:
    """Return the favorable scores, where ``scores`` says which numbers of errors score."""
    return np.where(scores[0], valid, 0) + np.where(scores[errors], audit.releases - valid, 0)


def sharp_rule(audit: Audit, test: str, alpha: float) -> Rule:
    """Return the sharp decision with a test that reads the number of errors."""
    threshold = sharp_threshold(audit.releases, TARGET, alpha)
    kappa = threshold
    if test == "binomial":
        kappa = threshold_ceiling(threshold, two_valued=(audit.n, audit.limit))
    needed = critical_count(audit.releases, target=TARGET, kappa=kappa, alpha=alpha)
    scores = audit.pvalues(test) <= threshold
    return lambda valid, errors: scored(valid, scores, errors, audit) >= needed


def slack_rule(audit: Audit, bound: Bound, alpha: float) -> Rule:
    """Return the decision from the slack score, with the ceiling that belongs to the bound."""
    ceiling = chernoff_ceiling if bound is Bound.PAPER else binomial_ceiling
    kappa = ceiling(audit.cutoff, audit.limit, audit.n)
    budget = sharp_budget(alpha)
    if bound is not Bound.SHARP:
        budget = direct_budget(alpha, target_share=TARGET_SHARE)
    needed = least_favorable(audit.releases, bound, budget, kappa=kappa, target=TARGET)
    scores = np.arange(audit.n + 1) <= most_at_cutoff(audit.cutoff, audit.n)
    return lambda valid, errors: scored(valid, scores, errors, audit) >= needed


def either(first: Rule, second: Rule) -> Rule:
    """Return the decision of a hybrid: by one part or by the other."""
    return lambda valid, errors: first(valid, errors) | second(valid, errors)


def count_rule(audit: Audit, test: str, thresholds: Sequence[Fraction]) -> Rule:
    """Return the decision by the e-value count with the mixture calibrator."""
    evalues = mixture_evalues(audit.pvalues(test), thresholds=thresholds)
    least = {one: _least_valid(audit.releases, evalues[0], one) for one in set(evalues)}
    needed = np.array([least[one] for one in evalues])
    return lambda valid, errors: valid >= needed[errors]


@cache
def _least_valid(releases: int, good: Number, bad: Number) -> int:
    """Return how many releases with the better e-value validate, ``R + 1`` if none do."""
    budget = direct_budget(ALPHA, target_share=TARGET_SHARE)
    names = tuple(str(r) for r in range(releases))

    def validates(valid: int) -> bool:
        evalues = [good] * valid + [bad] * (releases - valid)
        count = ValidCount(releases=names, evalues=evalues, alpha=budget["alpha_Z"])
        return certify_count(count, budget, reliability_target=TARGET).value > TARGET

    return bisect_left(range(releases + 1), True, key=validates)


def ramp_scores(audit: Audit) -> Array:
    """Return the ramp score of every number of errors; no error at all scores 1."""
    cutoff, ramp = _ramp(audit)
    share = np.arange(audit.n + 1) / audit.n
    return ramp_score(share[:, None], np.array([cutoff]), np.array([ramp]))


def _ramp(audit: Audit) -> tuple[float, float]:
    return 0.9 * audit.limit, 0.8 * audit.limit


def _ramp_evidence(audit: Audit, mean_score: float, rounded: int) -> SmoothEvidence:
    kappa, sensitivity = _ramp_ceilings(audit)
    return SmoothEvidence(
        n_releases=audit.releases,
        n_records=audit.n,
        mean_score=mean_score,
        rounded=rounded,
        kappa=kappa,
        sensitivity=sensitivity,
    )


@cache
def _ramp_ceilings(audit: Audit) -> tuple[float, float]:
    cutoff, ramp = _ramp(audit)
    return (
        ramp_ceiling(cutoff, ramp, audit.limit, audit.n),
        ramp_sensitivity(np.array([ramp]), audit.n),
    )


def _least_mean(validates: Callable[[float], bool]) -> float:
    """Return the least mean score that validates, above 1 if none does."""
    steps = 2**20
    return bisect_left(range(steps + 1), True, key=lambda i: validates(i / steps)) / steps


def smooth_rule(
    audit: Audit, certify: Callable[[SmoothEvidence, Budget], ReliabilityBound]
) -> Rule:
    """Return the decision by the mean ramp score."""
    budget = direct_budget(ALPHA)
    least = _least_mean(lambda x: certify(_ramp_evidence(audit, x, 0), budget).value > TARGET)
    scores, releases = ramp_scores(audit), audit.releases
    return lambda valid, errors: (valid + (releases - valid) * scores[errors]) / releases >= least


@cache
def rounded_needed(audit: Audit) -> int:
    """Return how many ramp scores, rounded to 0 or 1, validate by the sharp smooth bound."""
    budget = sharp_budget(ALPHA)

    def validates(rounded: int) -> bool:
        evidence = _ramp_evidence(audit, 0.0, rounded)
        return certify_smooth_sharp(evidence, budget, reliability_target=TARGET).value > TARGET

    return bisect_left(range(audit.releases + 1), True, key=validates)


def passes_block(audit: Audit) -> int:
    """Return the most errors with which a release passes one block: two fifths of the limit."""
    return floor(0.4 * audit.limit * BLOCK_SIZE)


@cache
def block_rule(audit: Audit) -> Rule:
    """Return the block decision; in the place of errors, the blocks that an invalid one passes."""
    blocks = audit.n // BLOCK_SIZE
    kappa = chernoff_ceiling(passes_block(audit) / BLOCK_SIZE, audit.limit, BLOCK_SIZE)

    def validates(witness: float) -> bool:
        evidence = BlockEvidence(
            n_releases=audit.releases, n_blocks=blocks, block_size=BLOCK_SIZE,
            mean_witness=witness, kappa=kappa,
        )  # fmt: skip
        return certify_block(evidence, sharp_budget(ALPHA)).value > TARGET

    least, releases = _least_mean(validates), audit.releases
    return lambda valid, passed: (valid + (releases - valid) * passed / blocks) / releases >= least


def violation_rule(audit: Audit, rule: tuple[float, int]) -> Rule:
    """Return the mirror image: valid releases err as often as drawn, invalid ones always."""
    threshold, needed = rule
    scores = violation.violation_pvalues(audit.n, audit.limit) <= threshold

    def decide(valid: Integers, errors: Integers) -> Flags:
        shown = np.where(scores[audit.n], audit.releases - valid, 0)
        return np.asarray(shown + np.where(scores[errors], valid, 0) >= needed)

    return decide


def violation_holm_rule(audit: Audit) -> Rule:
    """Return the mirror image of the named certificate, the paper's Theorem 8."""
    table = violation.violation_pvalues(audit.n, audit.limit)
    level = float(violation.HOLM["beta_R"])
    needed = violation.holm_needed(audit.releases)

    def decide(valid: Integers, errors: Integers) -> Flags:
        shown = holm_of_two(float(table[-1]), audit.releases - valid, table[errors], valid, level)
        return np.asarray(shown >= needed)

    return decide


@cache
def rules(audit: Audit) -> Mapping[str, Rule]:
    """Return the certificates that two numbers decide."""
    half = ALPHA / 2
    count = (float(violation.COUNT_THRESHOLD), violation.count_needed(audit.releases))
    found = {
        "direct": slack_rule(audit, Bound.PAPER, ALPHA),
        "hybrid": either(named_rule(audit, "binomial", half), slack_rule(audit, Bound.PAPER, half)),
        "smooth": smooth_rule(audit, certify_smooth),
        "violation, Holm": violation_holm_rule(audit),
        "direct, slack, rescaled": slack_rule(audit, Bound.RESCALED, ALPHA),
        "direct, slack, sharp": slack_rule(audit, Bound.SHARP, ALPHA),
        "count by mixture": count_rule(audit, "binomial", MIXTURE),
        "smooth, rescaled": smooth_rule(audit, certify_smooth_rescaled),
        "ramp, Markov": smooth_rule(audit, certify_ramp_markov),
        "violation, direct": violation_rule(audit, violation.direct_rule(audit.releases)),
        "violation, count": violation_rule(audit, count),
    }
    for test in COUNT_TESTS:
        found |= {
            f"named, {test}": named_rule(audit, test, ALPHA),
            f"sharp, {test}": sharp_rule(audit, test, ALPHA),
            f"count, {test}": count_rule(audit, test, [COUNT_THRESHOLD]),
            f"hybrid, {test}": either(named_rule(audit, test, half), sharp_rule(audit, test, half)),
        }
    return found
