"""Every certificate where it errs most: reliability at the target, invalid releases at the limit.

All invalid releases have one and the same two-valued loss on the shared target, with mean at the
limit; valid ones never err. So an audit is decided by two numbers, how many releases are valid
and how often an invalid one errs, and most error rates are exact sums. The mirror image, for
evidence of unreliability: valid releases at the limit, invalid ones that always err.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, cached_property, partial

import numpy as np
from scipy.stats import binom

from proxyguard.exact.betting import BettingCapital, betting_pvalue
from proxyguard.exact.contamination import threshold_ceiling
from proxyguard.exact.multiplicity import Dependence, tail_fisher_count, tail_simes_count
from proxyguard.exact.sequential import Boundary, sharp_boundary, stopping
from proxyguard.exact.sharp import critical_count
from proxyguard.modes.count import LARGEST
from proxyguard.registry.budget import direct_budget, named_budget
from reproduction.studies.counts import Array, sharp_threshold
from reproduction.studies.crossing import ALL_TESTS, MODES
from reproduction.studies.passing import COUNT_THRESHOLD, count_validates
from reproduction.studies.sequential_draws import SPLIT, least_rescaled
from reproduction.studies.study import Cell, Metrics, Outcome, Status, Study, Wanted, grid, tally
from reproduction.studies.worst_rules import (
    ALPHA,
    BLOCK_SIZE,
    TARGET,
    TARGET_SHARE,
    Audit,
    Flags,
    Integers,
    block_rule,
    count_needed,
    named_flags,
    passes_block,
    ramp_scores,
    rounded_needed,
    rules,
)

RELIABILITY = TARGET  # of the law that is drawn
SEQUENTIAL_THRESHOLD = 0.01
COLLECTIVE_REPETITIONS = 30  # of each block: one batch of records a release


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
    batches = cache(lambda: batch_errors(audit, draws, streams["batches"]))
    # Losses of exactly the limit on every record: all that varies are the uniforms.
    indicators = cache(lambda: streams["indicators"].binomial(audit.n, audit.limit, repetitions))
    bets = Bets(audit, valid, streams["betting"])

    def by_uniforms(name: str) -> Flags:
        return rules(audit)[name](valid, indicators())

    def smooth_sharp() -> Flags:
        chance = ramp_scores(audit)[errors]
        rounded = valid + streams["rounding"].binomial(audit.releases - valid, chance)
        return np.asarray(rounded >= rounded_needed(audit))

    decided: dict[str, Callable[[], Flags]] = {
        name: partial(rule, valid, errors) for name, rule in rules(audit).items()
    }
    decided |= {
        f"{mode}, randomized binomial": partial(by_uniforms, f"{mode}, binomial") for mode in MODES
    }
    decided |= {
        "block": lambda: block_rule(audit)(
            valid, streams["blocks"].binomial(*_block_law(audit), repetitions)
        ),
        "collective, tail-Simes": lambda: collective_flags(audit, batches(), tail_simes_count),
        "collective, tail-Fisher": lambda: collective_flags(audit, batches(), tail_fisher_count),
        "named, betting": lambda: bets.named(ALPHA),
        "sharp, betting": lambda: bets.sharp(ALPHA),
        "count, betting": bets.count,
        "hybrid, betting": lambda: bets.named(ALPHA / 2) | bets.sharp(ALPHA / 2),
        "count by capital": bets.capital,
        "smooth, sharp": smooth_sharp,
        **{
            f"sequential, {form}": partial(sequential_flags, audit, draws, errors, form)
            for form in ("sharp", "rescaled")
        },
    }

    def evaluate(method: str) -> Metrics:
        return {metric_of(method): decided[method]()}

    return tally({name: partial(evaluate, name) for name in decided}, wanted)


class Bets:
    """Decisions by betting, which reads the records in order.

    P-values are tuned to Holm's first step or to the sharp threshold at the whole error and
    are valid whatever they are tuned to, so the hybrid and the count share them.
    """

    def __init__(self, audit: Audit, valid: Integers, rng: np.random.Generator) -> None:
        self._audit, self._valid, self._rng = audit, valid, rng
        self._pvalues = cache(self._bet)

    @cached_property
    def _records(self) -> Array:
        """The losses of a valid release first, then of an invalid one of each repetition."""
        audit = self._audit
        losses = np.zeros((1 + self._valid.size, audit.n))
        losses[1:] = self._rng.random((self._valid.size, audit.n)) < audit.limit
        return losses

    def _bet(self, level: float) -> Array:
        return betting_pvalue(self._records, self._audit.limit, level=level)

    def named(self, alpha: float) -> Flags:
        """Return the named decisions."""
        first = float(named_budget(ALPHA)["alpha_R"]) / self._audit.releases
        good, *_ = pvalues = self._pvalues(first)
        return named_flags(self._valid, float(good), pvalues[1:], self._audit, alpha)

    def _scores(self, threshold: float) -> Integers:
        pvalues = self._pvalues(sharp_threshold(self._audit.releases, TARGET, ALPHA))
        good, bad = pvalues[0] <= threshold, pvalues[1:] <= threshold
        invalid = self._audit.releases - self._valid
        return np.where(good, self._valid, 0) + np.where(bad, invalid, 0)

    def sharp(self, alpha: float) -> Flags:
        """Return the sharp decisions."""
        releases = self._audit.releases
        threshold = sharp_threshold(releases, TARGET, alpha)
        needed = critical_count(releases, target=TARGET, kappa=threshold, alpha=alpha)
        return np.asarray(self._scores(threshold) >= needed)

    def count(self) -> Flags:
        """Return the decisions by the e-value count of p-values at most one in a hundred."""
        scores = self._scores(float(COUNT_THRESHOLD))
        return count_validates(scores, self._audit.releases, target=TARGET)

    def capital(self) -> Flags:
        """Return the decisions by the count of e-values that are the final capital."""
        budget = direct_budget(ALPHA, target_share=TARGET_SHARE)
        level = float(budget["alpha_Z"])
        records = self._records
        capital = BettingCapital(
            columns=len(records), n=self._audit.n, v=self._audit.limit, level=level,
            violation_level=level,
        )  # fmt: skip
        capital.update(records)
        with np.errstate(under="ignore"):
            evalues = np.exp(np.minimum(capital.log_final()[0], LARGEST))
        releases = self._audit.releases
        invalid = most_invalid_of_two(
            float(evalues[0]), self._valid, evalues[1:], releases - self._valid, level
        )
        return np.asarray(releases - invalid >= count_needed(releases, budget, "alpha_Q"))


def most_invalid_of_two(
    good: float, n_good: Integers, bad: Array, n_bad: Integers, alpha: float
) -> Integers:
    """Return ``m*`` of two groups with one e-value each, ``good`` the largest of all.

    Sorted e-values have means that only rise: the bad ones alone have to stay below
    ``1/alpha``, then ``n_bad bad + (m - n_bad) good < m/alpha`` limits ``m``.
    """
    total = n_good + n_bad
    if good * alpha <= 1.0:
        return np.where(np.where(n_bad > 0, bad, good) * alpha < 1.0, total, 0)
    limit = n_bad * (good - bad) / (good - 1.0 / alpha)
    most = np.minimum(np.ceil(limit) - 1.0, total).astype(np.int64)
    return np.where((n_bad > 0) & (bad * alpha < 1.0), most, 0)


def _block_law(audit: Audit) -> tuple[int, float]:
    """Return the blocks, and the chance that an invalid release passes one."""
    chance = float(binom.cdf(passes_block(audit), BLOCK_SIZE, audit.limit))
    return audit.n // BLOCK_SIZE, chance


def batch_errors(audit: Audit, draws: Flags, rng: np.random.Generator) -> Integers:
    """Return the errors of every release on its own batch of records."""
    some = draws[:COLLECTIVE_REPETITIONS]
    return np.where(some, 0, rng.binomial(audit.n, audit.limit, some.shape))


def collective_flags(audit: Audit, errors: Integers, count_of: Callable[..., int]) -> Flags:
    """Return the collective decisions."""
    table, budget = audit.pvalues("binomial"), named_budget(ALPHA)
    level = float(budget["alpha_R"])
    counts = [
        count_of(table[row], alpha=level, dependence=Dependence.INDEPENDENT) for row in errors
    ]
    return np.array(counts) >= count_needed(audit.releases, budget, "alpha_M")


@cache
def boundary_of(audit: Audit, form: str) -> Boundary:
    """Return the favorable counts that validate at each of five looks."""
    looks = np.arange(1, 6) * (audit.releases // 5)
    kappa = threshold_ceiling(SEQUENTIAL_THRESHOLD, two_valued=(audit.n, audit.limit))
    if form == "rescaled":
        counts = np.array([least_rescaled(int(look), kappa) for look in looks])
        return Boundary(looks, counts, float(SPLIT["alpha_Q"]), ALPHA)
    found = sharp_boundary(looks.tolist(), target=TARGET, kappa=kappa, alpha=ALPHA)
    if found is None:
        raise ValueError(f"no look of {looks} can validate {TARGET:g}")
    return found


def sequential_flags(audit: Audit, draws: Flags, errors: Integers, form: str) -> Flags:
    """Return whether the scores reach the boundary at one of the looks."""
    boundary = boundary_of(audit, form)
    scores = draws | _scores_at(audit, SEQUENTIAL_THRESHOLD)[errors][:, None]
    reached = np.cumsum(scores, axis=1)[:, boundary.looks - 1]
    return np.asarray((reached >= boundary.counts).any(axis=1))


def _scores_at(audit: Audit, threshold: float) -> Flags:
    """Return which numbers of errors score; none at all always does in this study."""
    return np.asarray(audit.pvalues("binomial") <= threshold)


def sequential_rate(audit: Audit, form: str) -> float:
    """Return the exact chance of ever crossing: invalid releases all score, or none does."""
    lucky = float(binom.pmf(np.flatnonzero(_scores_at(audit, SEQUENTIAL_THRESHOLD)),
                            audit.n, audit.limit).sum())  # fmt: skip
    usual, all_score = stopping(boundary_of(audit, form), [TARGET, 1.0], futility=False).validation
    return float((1.0 - lucky) * usual + lucky * all_score)


def exact_rates(cell: Cell) -> dict[tuple[str, str], float]:
    """Return the exact error rates at reliability ``TARGET``: sums over both numbers."""
    audit = Audit(cell["R"], cell["n"], cell["limit"])
    valid, errors, weights = _pairs(audit, audit.n, audit.limit)
    found = {name: float(weights @ rule(valid, errors)) for name, rule in rules(audit).items()}
    found |= {f"{mode}, randomized binomial": found[f"{mode}, binomial"] for mode in MODES}
    found |= {f"sequential, {form}": sequential_rate(audit, form) for form in ("sharp", "rescaled")}
    rounded = binom.sf(
        rounded_needed(audit) - 1 - valid, audit.releases - valid, ramp_scores(audit)[errors]
    )
    found["smooth, sharp"] = float(weights @ rounded)
    valid, passed, weights = _pairs(audit, *_block_law(audit))
    found["block"] = float(weights @ block_rule(audit)(valid, passed))
    return {(name, metric_of(name)): min(1.0, rate) for name, rate in found.items()}


def _pairs(audit: Audit, trials: int, chance: float) -> tuple[Integers, Integers, Array]:
    """Return valid releases and a binomial count in every combination, and their weights."""
    laws = [binom.pmf(np.arange(audit.releases + 1), audit.releases, TARGET),
            binom.pmf(np.arange(trials + 1), trials, chance)]  # fmt: skip
    numbers = [np.flatnonzero(law > 1e-13) for law in laws]
    valid, other = (axis.ravel() for axis in np.meshgrid(*numbers, indexing="ij"))
    return valid, other, laws[0][valid] * laws[1][other]


_CROSSED = {f"{mode}, {test}": Status.OURS for mode in MODES for test in ALL_TESTS}
WORST_CASE = Study(
    name="worst-case",
    own=True,
    paper="ours",
    seed=8204,
    repetitions=5000,
    cells=grid(R=(30, 250), n=(200, 1000), limit=(0.1, 0.2, 0.5)),
    simulate=worst_case,
    exact=exact_rates,
    methods=_CROSSED
    | {
        "named, empirical Bernstein": Status.REGISTERED,
        "named, binomial": Status.REGISTERED,
        "direct": Status.REGISTERED,
        "hybrid": Status.REGISTERED,
        "smooth": Status.REGISTERED,
        "block": Status.REGISTERED,
        "collective, tail-Simes": Status.REGISTERED,
        "collective, tail-Fisher": Status.POST_HOC,
        "violation, Holm": Status.REGISTERED,
        "direct, slack, rescaled": Status.OURS,
        "direct, slack, sharp": Status.OURS,
        "count by mixture": Status.OURS,
        "count by capital": Status.OURS,
        "smooth, rescaled": Status.OURS,
        "smooth, sharp": Status.OURS,
        "ramp, Markov": Status.OURS,
        "sequential, sharp": Status.OURS,
        "sequential, rescaled": Status.OURS,
        "violation, direct": Status.OURS,
        "violation, count": Status.OURS,
    },
    differs=(
        "Ours; every rate has to stay within the total error .05. Collective rows have a batch of "
        "records for each release instead of one shared target, since that mode leans on "
        "independent batches. Hybrids with a test have the sharp certificate as their direct part."
    ),
)
