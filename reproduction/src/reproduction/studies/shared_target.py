"""B11, B13: releases that are all scored on one shared target.

Every loss is ``1{U_i < risk}`` for one uniform a record, so a release's count is the rank of
its risk among the sorted uniforms: one sort a repetition, and no array of losses. Releases of
one count have the very same losses, so tests that read them are evaluated once a count.

The paper's named mode is the one with the exact binomial test; named, sharp and counting
certificates are crossed with every test, so that no mode is credited with a test's gain.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, cached_property, partial
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from proxyguard.exact.betting import betting_pvalue
from proxyguard.exact.binomial import upper_tail
from proxyguard.exact.contamination import (
    binomial_ceiling,
    chernoff_ceiling,
    markov_allowance,
    most_at_cutoff,
)
from proxyguard.exact.sharp import default_violation_threshold
from proxyguard.modes.planning import least_recognized, lower_limits
from reproduction.studies.count_tests import COUNT_TESTS, count_pvalues
from reproduction.studies.counts import UNRELIABLE, VIOLATION, Array, sharp_threshold
from reproduction.studies.passing import (
    COUNT_THRESHOLD,
    Ceiling,
    Counts,
    Decisions,
    Passing,
    attainable,
    count_true,
    count_validates,
    named_validates,
    passing_at,
    pvalue_passing,
    rescaled_validates,
    sharp_by_test,
    sharp_validates,
    slack_validates,
    threshold_itself,
)
from reproduction.studies.study import (
    Cell,
    Methods,
    Metrics,
    Outcome,
    Published,
    Status,
    Study,
    Wanted,
    computed,
    grid,
    tally,
)

ALPHA, TARGET = 0.05, 0.8
PAPERS_TEST = "binomial"
SLACK_TARGET, SLACK_DRAWS = 0.045, 0.005  # alpha_Z and alpha_Q of the slack score


def ranks(risks: Array, uniforms: Array, *, side: Literal["left", "right"]) -> Counts:
    """Return, row by row, how many uniforms lie below each risk (or at it, from the right)."""
    rows = np.arange(len(risks), dtype=np.float64)[:, None]
    # Row k is moved to [2k, 2k + 1), so that one search over all rows serves.
    targets = (np.sort(uniforms, axis=1) + 2.0 * rows).ravel()
    found = np.searchsorted(targets, (risks + 2.0 * rows).ravel(), side=side)
    before = np.arange(len(risks))[:, None] * uniforms.shape[1]
    return np.asarray(found.reshape(risks.shape) - before, dtype=np.int64)


def oracle_power(releases: int, eta: float) -> float:
    """Return the exact chance that the oracle's limit lies above the target."""
    return float(upper_tail(least_recognized(releases, target=TARGET, alpha=ALPHA), releases, eta))


def exact_oracle(cell: Cell) -> dict[tuple[str, str], float]:
    """Return the oracle's exact rate in a cell."""
    return {("oracle", "validated"): oracle_power(cell["R"], cell["eta"])}


@dataclass(frozen=True, kw_only=True)
class Slack:
    """One two-valued requirement and the slack score's largest favorable count."""

    n: int
    tolerance: float
    cutoff: float  # tolerance less slack, in decimals

    @cached_property
    def most(self) -> int:
        """The largest count whose mean is at most the cutoff."""
        return most_at_cutoff(self.cutoff, self.n)

    @property
    def kappa(self) -> float:
        """The Chernoff ceiling of the score."""
        return chernoff_ceiling(self.cutoff, self.tolerance, self.n)

    @property
    def exact_kappa(self) -> float:
        """The exact binomial ceiling of the score, which our bounds take."""
        return binomial_ceiling(self.cutoff, self.tolerance, self.n)

    @property
    def allowance(self) -> float:
        """The paper's target-side allowance."""
        return markov_allowance(self.kappa, SLACK_TARGET)

    def scores(self, counts: Counts) -> Counts:
        """Return how many releases of each row score."""
        return count_true(counts <= self.most)


class Block:
    """The counts of a block of repetitions, (reps, R), on targets of ``n`` uniforms each."""

    def __init__(self, counts: Counts, valid: NDArray[np.bool_], slack: Slack) -> None:
        self.counts, self.valid, self.slack = counts, valid, slack
        self.shape: tuple[int, int] = (counts.shape[0], counts.shape[1])

    @cached_property
    def scores(self) -> Counts:
        """Slack scores of each repetition."""
        return self.slack.scores(self.counts)

    @property
    def releases(self) -> int:
        """Releases of a mechanism."""
        return self.shape[1]

    def by_table(self, table: Array) -> Passing:
        """Return the count of passing releases for p-values that rise with a release's count."""

        def passing(levels: Array, rows: Counts) -> Counts:
            most = np.searchsorted(table, levels, side="right") - 1
            return count_true(self.counts[rows] <= most[:, None])

        return passing

    def by_test(self, test: str) -> Passing:
        """Return the count of releases that pass a component test."""
        return self.by_table(count_pvalues(test, self.slack.n, self.slack.tolerance))

    def named(self, passing: Passing) -> Decisions:
        """Return which repetitions named mode validates, with the error split evenly."""
        return named_validates(passing, self.shape, levels=(ALPHA / 2, ALPHA / 2), target=TARGET)

    def sharp(self, passing: Passing, test: str) -> Decisions:
        """Return which repetitions the sharp certificate validates."""
        return sharp_by_test(
            passing, self.shape, alpha=ALPHA, target=TARGET, ceiling=self.ceiling(test)
        )

    def ceiling(self, test: str) -> Ceiling:
        """Return how often an invalid release scores by a test, at the most."""
        exact = test == PAPERS_TEST
        return attainable(self.slack.n, self.slack.tolerance) if exact else threshold_itself

    def direct(self) -> Decisions:
        """Return which repetitions the paper's direct bound validates."""
        return slack_validates(
            self.scores, self.releases, allowance=self.slack.allowance, level=SLACK_DRAWS,
            target=TARGET,
        )  # fmt: skip

    def direct_figures(self) -> Metrics:
        """Return what is computed for the direct bound: its ceiling and its allowance."""
        figures = {"kappa": self.slack.kappa, "allowance": self.slack.allowance}
        return {name: computed(value, self.shape[0]) for name, value in figures.items()}

    def rescaled(self) -> Decisions:
        """Return which repetitions the rescaled bound of the same score validates."""
        allowance = markov_allowance(self.slack.exact_kappa, SLACK_TARGET)
        return rescaled_validates(
            self.scores, self.releases, allowance=allowance, level=SLACK_DRAWS, target=TARGET
        )

    def slack_sharp(self) -> Decisions:
        """Return which repetitions the sharp certificate of the same score validates."""
        return sharp_validates(
            self.scores, self.releases, kappa=self.slack.exact_kappa, alpha=ALPHA, target=TARGET
        )

    def below_threshold(self, passing: Passing) -> Counts:
        """Return how many p-values are at most the calibrator's threshold."""
        return passing_at(passing, self.shape[0], float(COUNT_THRESHOLD))

    def counted(self, passing: Passing) -> Decisions:
        """Return which repetitions the e-value count validates."""
        return count_validates(self.below_threshold(passing), self.releases, target=TARGET)

    def oracle(self) -> Decisions:
        """Return which repetitions would validate if validity were known."""
        valid = count_true(self.valid)
        return np.asarray((lower_limits(self.releases, ALPHA) > TARGET)[valid])


def betting_pvalues(counts: Counts, uniforms: Array, tolerance: float, *, level: float) -> Array:
    """Return betting p-values of every release, records in the order of the uniforms."""
    return np.stack(
        [_bet(row, target, tolerance, level) for row, target in zip(counts, uniforms, strict=True)]
    )


def _bet(counts: Counts, uniforms: Array, tolerance: float, level: float) -> Array:
    distinct, which = np.unique(counts, return_inverse=True)
    places = np.argsort(np.argsort(uniforms))
    losses = (places < distinct[:, None]).astype(np.float64)
    return betting_pvalue(losses, tolerance, level=level)[which]


def validated(decide: Callable[[], Decisions]) -> Callable[[], Metrics]:
    """Return a method whose one metric is whether it validated."""
    return lambda: {"validated": decide()}


def draw_shared(
    rng: np.random.Generator, eta: float, shape: tuple[int, int], n: int
) -> tuple[NDArray[np.bool_], Counts, Array]:
    """Draw validity and counts of B11, and the uniforms they are ranks among."""
    valid, risk = shared_risks(rng, eta, shape)
    uniforms = rng.random((shape[0], n))
    return valid, ranks(risk, uniforms, side="left"), uniforms


def shared_risks(
    rng: np.random.Generator, eta: float, shape: tuple[int, int]
) -> tuple[NDArray[np.bool_], Array]:
    """Draw which releases of B11 are valid, and their risks."""
    valid = rng.random(shape) < eta
    risk = np.where(valid, rng.uniform(0.135, 0.145, shape), rng.uniform(0.205, 0.220, shape))
    return valid, risk


def shared_slack(n: int) -> Slack:
    """Return the registered score of B11 for ``n`` records."""
    return Slack(n=n, tolerance=0.2, cutoff=0.158)


def crossed(
    block: Block, uniforms: Array, some: int, unreliable: Callable[[], Block] | None
) -> dict[str, Callable[[], Metrics]]:
    """Return every mode with every test, and the slack score's other bounds.

    ``unreliable`` draws releases of mechanisms that are less reliable than the target, for
    the chance to show it; that is asked once, in the cell at the target.
    Betting reads every loss, of the first ``some`` repetitions. Its p-values are tuned to
    Holm's first step for named mode and to the threshold of the scores for the others.
    """
    found = {
        "direct, slack, rescaled": validated(block.rescaled),
        "direct, slack, sharp": validated(block.slack_sharp),
        # Reliability is at the target or above it in every cell, so a violation is false.
        "sharp violation, binomial": lambda: {
            "false violation": violations(block),
            **({} if unreliable is None else {VIOLATION: violations(unreliable())}),
        },
    }
    few = Block(block.counts[:some], block.valid[:some], block.slack)

    @cache
    def bets(level: float) -> Passing:
        tolerance = block.slack.tolerance
        return pvalue_passing(betting_pvalues(few.counts, uniforms[:some], tolerance, level=level))

    first, threshold = ALPHA / 2 / block.releases, sharp_threshold(block.releases, TARGET, ALPHA)
    readings: dict[str, tuple[Block, Passing, Passing]] = {
        test: (block, block.by_test(test), block.by_test(test)) for test in COUNT_TESTS
    }
    readings["betting"] = (
        few,
        lambda levels, rows: bets(first)(levels, rows),
        lambda levels, rows: bets(threshold)(levels, rows),
    )
    for test, (rows, by_holm, by_score) in readings.items():
        if test != PAPERS_TEST:
            found[f"named, {test}"] = validated(partial(rows.named, by_holm))
        found[f"sharp, {test}"] = validated(partial(rows.sharp, by_score, test))
        found[f"count, {test}"] = validated(partial(rows.counted, by_score))
    return found


def shared_target(
    cell: Cell, rng: np.random.Generator, repetitions: int, wanted: Wanted
) -> Outcome:
    """Return how often each mode with each test validates, or finds a violation (B11)."""
    releases, n = cell["R"], cell["n"]
    valid, counts, uniforms = draw_shared(rng, cell["eta"], (repetitions, releases), n)
    block = Block(counts, valid, shared_slack(n))
    (own,) = rng.spawn(1)

    def unreliable() -> Block:
        low, below, _ = draw_shared(own, UNRELIABLE, (repetitions, releases), n)
        return Block(below, low, shared_slack(n))

    return tally(
        shared_methods(block, uniforms, unreliable if cell["eta"] <= TARGET else None), wanted
    )


def shared_methods(
    block: Block, uniforms: Array, unreliable: Callable[[], Block] | None
) -> Methods:
    """Return what each method of B11 makes of a block and its uniforms."""

    def at_the_threshold() -> Decisions:
        scores = block.below_threshold(block.by_test(PAPERS_TEST))
        kappa = block.ceiling(PAPERS_TEST)(float(COUNT_THRESHOLD))
        return sharp_validates(scores, block.releases, kappa=kappa, alpha=ALPHA, target=TARGET)

    return {
        "named": validated(lambda: block.named(block.by_test(PAPERS_TEST))),
        "direct": lambda: {"validated": block.direct(), **block.direct_figures()},
        "oracle": validated(block.oracle),
        "sharp, binomial, t = .01": validated(at_the_threshold),
        **crossed(block, uniforms, block.shape[0], unreliable),
    }


def violations(block: Block) -> Decisions:
    """Return which repetitions show that reliability is below the target (theory section 4).

    A release scores when its violation p-value is at most ``t``; with one requirement there is
    nothing to correct for. Validity and invalidity swap roles, and so do the reliabilities.
    """
    n, tolerance = block.slack.n, block.slack.tolerance
    threshold = default_violation_threshold(block.releases, target=TARGET, beta=ALPHA)
    if threshold is None:
        return np.zeros(block.shape[0], dtype=bool)
    passes = upper_tail(np.arange(n + 1), n, tolerance) <= threshold
    scores = count_true(passes[block.counts])
    return sharp_validates(
        scores, block.releases, kappa=threshold, alpha=ALPHA, target=1.0 - TARGET
    )


def draw_false_pass(
    rng: np.random.Generator, shape: tuple[int, int], n: int, slack: Slack, eta: float | None = None
) -> tuple[Block, Array]:
    """Draw a block of B13, reliability at its target if not given, risks beside the tolerance.

    The uniforms are returned as well; the ranks count those at most a risk, which betting's
    losses do too, for the k smallest uniforms are the ones with loss 1 either way.
    """
    valid, risk = false_pass_risks(rng, TARGET if eta is None else eta, shape)
    uniforms = rng.random((shape[0], n))
    return Block(ranks(risk, uniforms, side="right"), valid, slack), uniforms


def false_pass_risks(
    rng: np.random.Generator, eta: float, shape: tuple[int, int]
) -> tuple[NDArray[np.bool_], Array]:
    """Draw which releases of B13 are valid, and their risks beside the tolerance."""
    valid = rng.random(shape) < eta
    risk = np.where(valid, rng.uniform(0.30, 0.40, shape), rng.uniform(0.5005, 0.54, shape))
    return valid, risk


def false_pass_slack(n: int, slack: float) -> Slack:
    """Return the score of B13 for ``n`` records and a slack of whole thousandths."""
    cutoff = 500 - round(1000 * slack)
    return Slack(n=n, tolerance=0.5, cutoff=cutoff / 1000)


def false_pass(cell: Cell, rng: np.random.Generator, repetitions: int, wanted: Wanted) -> Outcome:
    """Return what the target-side allowance is for: bounds with it and without it (B13)."""
    shape, n = (repetitions, cell["R"]), cell["n"]
    slack = false_pass_slack(n, cell["slack"])
    block, uniforms = draw_false_pass(rng, shape, n, slack)
    (own,) = rng.spawn(1)

    def unreliable() -> Block:
        return draw_false_pass(own, shape, n, slack, UNRELIABLE)[0]

    return tally(false_pass_methods(block, uniforms, unreliable), wanted)


def false_pass_methods(block: Block, uniforms: Array, unreliable: Callable[[], Block]) -> Methods:
    """Return what each method of B13 makes of a block; betting of a fifth of its repetitions."""
    score_only = lower_limits(block.releases, SLACK_DRAWS)[block.scores]

    def both(bound: Array) -> Metrics:
        return {"validated": bound > TARGET, "mean bound": bound}

    return {
        "score only": lambda: {
            **both(score_only), "invalid score mass": invalid_score_mass(block)
        },
        "direct": lambda: {
            **both(np.maximum(0.0, score_only - block.slack.allowance)),
            **block.direct_figures(),
        },
        "oracle": lambda: both(lower_limits(block.releases, ALPHA)[block.valid.sum(axis=1)]),
        "named, binomial": validated(lambda: block.named(block.by_test(PAPERS_TEST))),
        **crossed(block, uniforms, -(-block.shape[0] // 5), unreliable),
    }  # fmt: skip


def invalid_score_mass(block: Block) -> Array:
    """Return the share of releases that score and are invalid, in each repetition."""
    return np.asarray(((block.counts <= block.slack.most) & ~block.valid).mean(axis=1))


_OURS = {
    **{
        f"{mode}, {test}": Status.OURS
        for mode in ("named", "sharp", "count")
        for test in (*COUNT_TESTS, "betting")
        if (mode, test) != ("named", PAPERS_TEST)
    },
    "direct, slack, rescaled": Status.OURS,
    "direct, slack, sharp": Status.OURS,
    "sharp violation, binomial": Status.OURS,
}
SHARED_TARGET = Study(
    name="shared-target",
    also={"named": "named, binomial"},
    paper="Table conditional_shared_target",
    seed=7296103,
    repetitions=1000,
    cells=grid(R=(1000,), n=(1000,), eta=(0.80, 0.90, 0.95)),
    simulate=shared_target,
    exact=exact_oracle,
    block=100,
    methods={
        "named": Status.REGISTERED,
        "direct": Status.REGISTERED,
        "oracle": Status.ORACLE,
        **_OURS,
        "sharp, binomial, t = .01": Status.OURS,
    },
    published={
        (i, method, "validated"): Published(value=value, digits=3, repetitions=1000)
        for i, three in enumerate(((0.022, 0.0, 0.046), (0.799, 0.690, 1.0), (0.801, 0.892, 1.0)))
        for method, value in zip(("named", "direct", "oracle"), three, strict=True)
    }
    | {
        (0, "direct", "kappa"): Published(value=0.00291, digits=5),
        (0, "direct", "allowance"): Published(value=0.0647, digits=4),
    },
)


def _mean(value: float, digits: int) -> Published:
    """Return a published mean of B13 that is no rate."""
    return Published(value=value, digits=digits, repetitions=2000, rate=False)


FALSE_PASS = Study(
    name="false-pass",
    paper="Table false_pass_diagnostic",
    seed=9932801,
    repetitions=2000,
    cells=({"R": 250, "n": 1000, "slack": 0.01, "eta": TARGET},),
    simulate=false_pass,
    exact=exact_oracle,
    block=400,
    methods={
        "score only": Status.INVALID,
        "direct": Status.REGISTERED,
        "oracle": Status.ORACLE,
        "named, binomial": Status.OURS,
        **_OURS,
    },
    published={
        (0, "score only", "validated"): Published(value=0.0805, digits=4, repetitions=2000),
        (0, "direct", "validated"): Published(value=0.0, digits=4, repetitions=2000),
        (0, "oracle", "validated"): Published(value=0.0400, digits=4, repetitions=2000),
        (0, "score only", "mean bound"): _mean(0.741, 3),
        (0, "direct", "mean bound"): _mean(0.0, 3),
        (0, "oracle", "mean bound"): _mean(0.754, 3),
        (0, "score only", "invalid score mass"): _mean(0.01205, 5),
        (0, "direct", "kappa"): Published(value=0.819, digits=3),
    },
    differs=(
        "Independent seeds. Betting reads every loss and is run on a fifth of the repetitions."
    ),
)
