"""Every certificate where it errs most: reliability at the target, invalid releases at the limit.

All invalid releases have one and the same two-valued loss on the shared target, with mean at the
limit; valid ones never err. So an audit is decided by two numbers, how many releases are valid
and how often an invalid one errs, and most error rates are exact sums. The mirror image, for
evidence of unreliability: valid releases at the limit, invalid ones that always err.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cache, partial
from math import ceil, floor

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binom

from proxyguard.certificate.block import certify_block
from proxyguard.certificate.count import ValidCount, certify_count
from proxyguard.certificate.decision import ReliabilityBound
from proxyguard.certificate.direct import certify_direct, certify_rescaled
from proxyguard.certificate.named import from_count
from proxyguard.certificate.smooth import (
    certify_smooth,
    certify_smooth_rescaled,
    certify_smooth_sharp,
)
from proxyguard.evidence.direct import DirectEvidence
from proxyguard.evidence.smooth import BlockEvidence, SmoothEvidence
from proxyguard.exact.betting import betting_pvalue
from proxyguard.exact.contamination import (
    chernoff_ceiling,
    ramp_ceiling,
    ramp_score,
    ramp_sensitivity,
    threshold_ceiling,
)
from proxyguard.exact.evalues import mixture_evalues
from proxyguard.exact.mean import bentkus_pvalue, empirical_bernstein_pvalue
from proxyguard.exact.multiplicity import Dependence, tail_fisher_count, tail_simes_count
from proxyguard.exact.sequential import sharp_boundary
from proxyguard.exact.sharp import critical_count
from proxyguard.registry.budget import Budget, direct_budget, named_budget, sharp_budget
from proxyguard.studies import violation
from proxyguard.studies.counts import Array, pvalue_table
from proxyguard.studies.sequential_draws import least_rescaled
from proxyguard.studies.sharp_tables import by_default, least_count
from proxyguard.studies.study import Cell, Metrics, Outcome, Status, Study, Wanted, grid, tally

ALPHA, TARGET = 0.05, 0.8
RELIABILITY = TARGET  # of the law that is drawn
SEQUENTIAL_THRESHOLD, COUNT_THRESHOLD = 0.01, Fraction(1, 100)
LARGEST_CEILING = 0.0013  # of the slack score: an allowance of .03 at 90 % of the budget
BLOCK_SIZE = 50
COLLECTIVE_REPETITIONS = 30  # of each block: one batch of records a release

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
    def threshold(self) -> float:
        """The default threshold of the sharp certificate."""
        return by_default(self.releases)

    @property
    def cutoff(self) -> float:
        """The largest share of errors whose ceiling leaves the paper's bound something to say."""
        below = range(1, ceil(self.limit * self.n))
        first = bisect_left(below, True, key=lambda k: self._ceiling(k) > LARGEST_CEILING)
        return below[first - 1] / self.n

    def _ceiling(self, errors: int) -> float:
        return chernoff_ceiling(errors / self.n, self.limit, self.n)


def pvalues(audit: Audit, test: str) -> Array:
    """Return the release p-value of every number of errors."""
    n, limit = audit.n, audit.limit
    share = np.arange(n + 1) / n
    if test == "binomial":
        return pvalue_table(n, limit)
    if test == "bentkus":
        return bentkus_pvalue(share, n, limit)
    return empirical_bernstein_pvalue(share, share * (1 - share) * n / (n - 1), n, limit)


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
def named_needed(releases: int, budget: Budget) -> int:
    """Return how many recognized releases validate, ``R + 1`` if not even all do."""

    def validates(recognized: int) -> bool:
        bound = from_count(
            recognized, releases, budget, reliability_target=TARGET, outer="alpha_M", label="",
            rests_on="",
        )  # fmt: skip
        return bound.value > TARGET

    return bisect_left(range(releases + 1), True, key=validates)


def named_flags(valid: Integers, good: float, bad: Array, audit: Audit, budget: Budget) -> Flags:
    """Return the named decision when valid releases have one p-value and invalid ones another."""
    level = float(budget["alpha_R"])
    recognized = holm_of_two(good, valid, bad, audit.releases - valid, level)
    return np.asarray(recognized >= named_needed(audit.releases, budget))


def scored(valid: Integers, scores: Flags, errors: Integers, audit: Audit) -> Integers:
    """Return the favorable scores, where ``scores`` says which numbers of errors score."""
    return np.where(scores[0], valid, 0) + np.where(scores[errors], audit.releases - valid, 0)


def sharp_rule(audit: Audit, test: str) -> Rule:
    """Return the sharp decision with a test that reads the number of errors."""
    threshold = audit.threshold
    kappa = threshold
    if test == "binomial":
        kappa = threshold_ceiling(threshold, two_valued=(audit.n, audit.limit))
    needed = critical_count(audit.releases, target=TARGET, kappa=kappa, alpha=ALPHA)
    scores = pvalues(audit, test) <= threshold
    return lambda valid, errors: scored(valid, scores, errors, audit) >= needed


def direct_rule(
    audit: Audit, certify: Callable[[DirectEvidence, Budget], ReliabilityBound], alpha: str
) -> Rule:
    """Return the decision from slack scores by the paper's or the rescaled bound."""
    kappa = chernoff_ceiling(audit.cutoff, audit.limit, audit.n)
    budget = direct_budget(alpha, target_share="0.9")
    needed = least_count(certify, budget, audit.releases, kappa)
    scores = np.arange(audit.n + 1) / audit.n <= audit.cutoff
    return lambda valid, errors: scored(valid, scores, errors, audit) >= needed


def named_rule(audit: Audit, test: str, alpha: str = "0.05") -> Rule:
    """Return the named decision with a test that reads the number of errors."""
    table, budget = pvalues(audit, test), named_budget(alpha)
    return lambda valid, errors: named_flags(valid, float(table[0]), table[errors], audit, budget)


def hybrid_rule(audit: Audit) -> Rule:
    """Return the hybrid decision: either part at half of the budget."""
    named = named_rule(audit, "binomial", "0.025")
    direct = direct_rule(audit, certify_direct, "0.025")
    return lambda valid, errors: named(valid, errors) | direct(valid, errors)


def count_rule(audit: Audit) -> Rule:
    """Return the decision by the e-value count."""
    budget = direct_budget("0.05", target_share="0.9")
    names = tuple(str(r) for r in range(audit.releases))

    def validates(scores: int) -> bool:
        evalues = mixture_evalues(np.arange(audit.releases) >= scores, thresholds=[COUNT_THRESHOLD])
        count = ValidCount(releases=names, evalues=evalues, alpha=budget["alpha_Z"])
        return certify_count(count, budget, reliability_target=TARGET).value > TARGET

    needed = bisect_left(range(audit.releases + 1), True, key=validates)
    scores = pvalues(audit, "binomial") <= float(COUNT_THRESHOLD)
    return lambda valid, errors: scored(valid, scores, errors, audit) >= needed


def ramp_scores(audit: Audit) -> Array:
    """Return the ramp score of every number of errors; no error at all scores 1."""
    cutoff, ramp = _ramp(audit)
    share = np.arange(audit.n + 1) / audit.n
    return ramp_score(share[:, None], np.array([cutoff]), np.array([ramp]))


def _ramp(audit: Audit) -> tuple[float, float]:
    return 0.9 * audit.limit, 0.8 * audit.limit


def ramp_evidence(audit: Audit, mean_score: float, rounded: int) -> SmoothEvidence:
    """Return what the smooth certificates read."""
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


def least_mean(validates: Callable[[float], bool]) -> float:
    """Return the least mean score that validates, above 1 if none does."""
    steps = 2**20
    return bisect_left(range(steps + 1), True, key=lambda i: validates(i / steps)) / steps


def smooth_rule(
    audit: Audit, certify: Callable[[SmoothEvidence, Budget], ReliabilityBound]
) -> Rule:
    """Return the decision by the mean ramp score."""
    budget = direct_budget("0.05")
    least = least_mean(lambda x: certify(ramp_evidence(audit, x, 0), budget).value > TARGET)
    scores, releases = ramp_scores(audit), audit.releases
    return lambda valid, errors: (valid + (releases - valid) * scores[errors]) / releases >= least


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
    releases = audit.releases
    count = (float(violation.COUNT_THRESHOLD), violation.count_needed(releases))
    return {
        "named, empirical Bernstein": named_rule(audit, "empirical Bernstein"),
        "named, binomial": named_rule(audit, "binomial"),
        "direct": direct_rule(audit, certify_direct, "0.05"),
        "hybrid": hybrid_rule(audit),
        "smooth": smooth_rule(audit, certify_smooth),
        "violation, Holm": violation_holm_rule(audit),
        "named, bentkus": named_rule(audit, "bentkus"),
        "rescaled": direct_rule(audit, certify_rescaled, "0.05"),
        "sharp, empirical Bernstein": sharp_rule(audit, "empirical Bernstein"),
        "sharp, binomial": sharp_rule(audit, "binomial"),
        "sharp, bentkus": sharp_rule(audit, "bentkus"),
        "count, binomial": count_rule(audit),
        "smooth, rescaled": smooth_rule(audit, certify_smooth_rescaled),
        "violation, direct": violation_rule(audit, violation.direct_rule(releases)),
        "violation, count": violation_rule(audit, count),
    }


def metric_of(method: str) -> str:
    """Return what an error of the method is called."""
    return "false violation" if method.startswith("violation") else "false validation"


def worst_case(cell: Cell, rng: np.random.Generator, repetitions: int, wanted: Wanted) -> Outcome:
    """Return how often each certificate errs."""
    audit = Audit(cell["R"], cell["n"], cell["limit"])
    draws = rng.random((repetitions, audit.releases)) < RELIABILITY
    valid = draws.sum(axis=1)
    errors = rng.binomial(audit.n, audit.limit, repetitions)
    # One stream for each that needs more, so that none depends on which others are asked for.
    names = ("betting", "rounding", "blocks", "batches", "indicators")
    streams = dict(zip(names, rng.spawn(len(names)), strict=True))

    def by_rule(method: str) -> Metrics:
        return {metric_of(method): rules(audit)[method](valid, errors)}

    def one(flags: Flags) -> Metrics:
        return {"false validation": flags}

    records = cache(
        lambda: (streams["betting"].random((repetitions, audit.n)) < audit.limit).astype(float)
    )

    batches = cache(lambda: batch_errors(audit, draws, streams["batches"]))

    def indicators() -> Flags:
        # Losses of exactly the limit on every record: all that varies are the uniforms.
        drawn = streams["indicators"].binomial(audit.n, audit.limit, repetitions)
        return rules(audit)["sharp, binomial"](valid, drawn)

    methods: dict[str, Callable[[], Metrics]] = {
        name: partial(by_rule, name) for name in rules(audit)
    }
    methods |= {
        "block": lambda: one(block_flags(audit, valid, streams["blocks"])),
        "collective, tail-Simes": lambda: one(collective_flags(audit, batches(), tail_simes_count)),
        "collective, tail-Fisher": lambda: one(
            collective_flags(audit, batches(), tail_fisher_count)
        ),
        "named, betting": lambda: one(betting_named(audit, valid, records())),
        "sharp, betting": lambda: one(betting_sharp(audit, valid, records())),
        "sharp, randomized binomial": lambda: one(indicators()),
        "smooth, sharp": lambda: one(smooth_sharp(audit, valid, errors, streams["rounding"])),
        "sequential, sharp": lambda: one(sequential_flags(audit, draws, errors, "sharp")),
        "sequential, rescaled": lambda: one(sequential_flags(audit, draws, errors, "rescaled")),
    }
    return tally(methods, wanted)


def betting_named(audit: Audit, valid: Integers, records: Array) -> Flags:
    """Return the named decisions with p-values by betting, at the level of Holm's first step."""
    budget = named_budget("0.05")
    level = float(budget["alpha_R"]) / audit.releases
    good = float(betting_pvalue(np.zeros((1, audit.n)), audit.limit, level=level)[0])
    bad = betting_pvalue(records, audit.limit, level=level)
    return named_flags(valid, good, bad, audit, budget)


def betting_sharp(audit: Audit, valid: Integers, records: Array) -> Flags:
    """Return the sharp decisions with p-values by betting."""
    threshold = audit.threshold
    needed = critical_count(audit.releases, target=TARGET, kappa=threshold, alpha=ALPHA)
    good = betting_pvalue(np.zeros((1, audit.n)), audit.limit, level=threshold)[0] <= threshold
    bad = betting_pvalue(records, audit.limit, level=threshold) <= threshold
    scores = np.where(good, valid, 0) + np.where(bad, audit.releases - valid, 0)
    return np.asarray(scores >= needed)


@cache
def _smooth_needed(audit: Audit) -> int:
    budget = sharp_budget("0.05")

    def validates(rounded: int) -> bool:
        evidence = ramp_evidence(audit, 0.0, rounded)
        return certify_smooth_sharp(evidence, budget, reliability_target=TARGET).value > TARGET

    return bisect_left(range(audit.releases + 1), True, key=validates)


def smooth_sharp(
    audit: Audit, valid: Integers, errors: Integers, rng: np.random.Generator
) -> Flags:
    """Return the sharp decisions from ramp scores rounded to 0 or 1."""
    rounded = valid + rng.binomial(audit.releases - valid, ramp_scores(audit)[errors])
    return np.asarray(rounded >= _smooth_needed(audit))


@cache
def _block_needed(audit: Audit) -> float:
    errors = floor(0.4 * audit.limit * BLOCK_SIZE)
    kappa = chernoff_ceiling(errors / BLOCK_SIZE, audit.limit, BLOCK_SIZE)

    def validates(witness: float) -> bool:
        evidence = BlockEvidence(
            n_releases=audit.releases, n_blocks=audit.n // BLOCK_SIZE, block_size=BLOCK_SIZE,
            mean_witness=witness, kappa=kappa,
        )  # fmt: skip
        return certify_block(evidence, sharp_budget("0.05")).value > TARGET

    return least_mean(validates)


def block_flags(audit: Audit, valid: Integers, rng: np.random.Generator) -> Flags:
    """Return the block decisions, with a cutoff of two fifths of the limit in every block."""
    blocks = rng.binomial(BLOCK_SIZE, audit.limit, (valid.size, audit.n // BLOCK_SIZE))
    passed = (blocks <= floor(0.4 * audit.limit * BLOCK_SIZE)).mean(axis=1)
    witness = (valid + (audit.releases - valid) * passed) / audit.releases
    return np.asarray(witness >= _block_needed(audit))


def batch_errors(audit: Audit, draws: Flags, rng: np.random.Generator) -> Integers:
    """Return the errors of every release on its own batch of records."""
    some = draws[:COLLECTIVE_REPETITIONS]
    return np.where(some, 0, rng.binomial(audit.n, audit.limit, some.shape))


def collective_flags(audit: Audit, errors: Integers, count_of: Callable[..., int]) -> Flags:
    """Return the collective decisions."""
    table, budget = pvalues(audit, "binomial"), named_budget("0.05")
    level = float(budget["alpha_R"])
    counts = [
        count_of(table[row], alpha=level, dependence=Dependence.INDEPENDENT) for row in errors
    ]
    return np.array(counts) >= named_needed(audit.releases, budget)


@cache
def _boundary(audit: Audit, form: str) -> tuple[Integers, Integers]:
    looks = np.arange(1, 6) * (audit.releases // 5)
    kappa = threshold_ceiling(SEQUENTIAL_THRESHOLD, two_valued=(audit.n, audit.limit))
    if form == "rescaled":
        return looks, np.array([least_rescaled(int(look), kappa) for look in looks])
    found = sharp_boundary(looks.tolist(), target=TARGET, kappa=kappa, alpha=ALPHA)
    return looks, looks + 1 if found is None else found.counts


def sequential_flags(audit: Audit, draws: Flags, errors: Integers, form: str) -> Flags:
    """Return whether the scores reach the boundary at one of five looks."""
    looks, counts = _boundary(audit, form)
    table = pvalues(audit, "binomial")
    scores = draws | (table[errors] <= SEQUENTIAL_THRESHOLD)[:, None]
    reached = np.cumsum(scores, axis=1)[:, looks - 1]
    return np.asarray((reached >= counts).any(axis=1))


def exact_rates(cell: Cell) -> dict[tuple[str, str], float]:
    """Return the exact error rates at reliability ``TARGET``: sums over both numbers."""
    audit = Audit(cell["R"], cell["n"], cell["limit"])
    laws = [binom.pmf(np.arange(audit.releases + 1), audit.releases, TARGET),
            binom.pmf(np.arange(audit.n + 1), audit.n, audit.limit)]  # fmt: skip
    numbers = [np.flatnonzero(law > 1e-13) for law in laws]
    valid, errors = (axis.ravel() for axis in np.meshgrid(*numbers, indexing="ij"))
    weights = laws[0][valid] * laws[1][errors]
    found = {
        (name, metric_of(name)): min(1.0, float(weights @ rule(valid, errors)))
        for name, rule in rules(audit).items()
    }
    key = "false validation"
    found["sharp, randomized binomial", key] = found["sharp, binomial", key]
    return found


WORST_CASE = Study(
    name="worst-case",
    own=True,
    paper="ours",
    seed=8204,
    repetitions=5000,
    cells=grid(R=(30, 250), n=(200, 1000), limit=(0.1, 0.2, 0.5)),
    simulate=worst_case,
    exact=exact_rates,
    methods={
        "named, empirical Bernstein": Status.REGISTERED,
        "named, binomial": Status.REGISTERED,
        "direct": Status.REGISTERED,
        "hybrid": Status.REGISTERED,
        "smooth": Status.REGISTERED,
        "block": Status.REGISTERED,
        "collective, tail-Simes": Status.REGISTERED,
        "collective, tail-Fisher": Status.POST_HOC,
        "violation, Holm": Status.REGISTERED,
        "named, bentkus": Status.OURS,
        "named, betting": Status.OURS,
        "rescaled": Status.OURS,
        "sharp, empirical Bernstein": Status.OURS,
        "sharp, binomial": Status.OURS,
        "sharp, bentkus": Status.OURS,
        "sharp, betting": Status.OURS,
        "sharp, randomized binomial": Status.OURS,
        "count, binomial": Status.OURS,
        "smooth, rescaled": Status.OURS,
        "smooth, sharp": Status.OURS,
        "sequential, sharp": Status.OURS,
        "sequential, rescaled": Status.OURS,
        "violation, direct": Status.OURS,
        "violation, count": Status.OURS,
    },
    differs="Ours; every rate has to stay within the total error .05.",
)
