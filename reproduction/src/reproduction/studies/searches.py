"""B4, B6, B7: rare groups, candidates one after the other, how many releases are needed."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from proxyguard.exact.binomial import lower_tail
from proxyguard.exact.multiplicity import spending_level
from proxyguard.exact.planning import least_releases_named
from proxyguard.modes.planning import least_releases_sharp
from reproduction.studies.counts import (
    Array,
    Counts,
    any_of,
    largest_counts,
    pvalue_table,
    share_of,
    validated,
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
    grid,
    tally,
)

ALPHA, TOLERANCE, CANDIDATES = 0.05, 0.10, 6
ROUNDS = (1, 5, 10, 25, 50)
RARE_RECORDS = "records of the group"
RARE_RISKS = (0.10, 0.04)
"""Risks of candidates in the group: at the limit, and valid."""
STREAM_RISKS = ((0.10, 0.02, 0.02), (0.02, 0.02, 0.02))
"""Risks of the candidates of a stream: invalid, and valid."""


def rare_group(cell: Cell, rng: np.random.Generator, repetitions: int, wanted: Wanted) -> Outcome:
    """Return false validation and power when the rare group's size is random, or fixed.

    The group's records are counted as well: the paper prints the mean of the random ones.
    """
    simple = rng.binomial(cell["n"], 0.02, repetitions)

    def design(sizes: Counts) -> Metrics:
        shape = (repetitions, CANDIDATES)
        return in_group(sizes, *(rng.binomial(sizes[:, None], risk, shape) for risk in RARE_RISKS))

    return tally(
        {
            "simple random": lambda: design(simple),
            "stratified": lambda: design(np.full(repetitions, cell["rare"])),
        },
        wanted,
    )


def in_group(sizes: Counts, at_limit: Counts, valid: Counts) -> Metrics:
    """Return the metrics of the counts of all candidates (repetitions, candidates)."""

    def decided(counts: Counts) -> NDArray[np.bool_]:
        p = np.where(
            sizes[:, None] > 0,
            lower_tail(counts, np.maximum(sizes, 1)[:, None], TOLERANCE),
            1.0,
        )
        return validated(p, ALPHA)

    return {
        "false validation": any_of(decided(at_limit)),
        "power": share_of(decided(valid)),
        RARE_RECORDS: sizes.astype(np.float64),
    }


def adaptive(cell: Cell, rng: np.random.Generator, repetitions: int, wanted: Wanted) -> Outcome:
    """Return false validation over rounds, and the power of a valid candidate in each."""
    shapes = ((repetitions, max(ROUNDS)), (repetitions, len(ROUNDS)))
    invalid, valid = (
        largest_counts(rng, cell["n"], risks, shape)
        for risks, shape in zip(STREAM_RISKS, shapes, strict=True)
    )
    return tally(spent(cell, invalid, valid), wanted)


def spent(cell: Cell, invalid: Counts, valid: Counts) -> Methods:
    """Return what each method makes of counts in every round, and in those that are shown."""
    table = pvalue_table(cell["n"], TOLERANCE)
    p, good = table[invalid], table[valid]
    levels = np.array([spending_level(t, alpha=ALPHA) for t in range(1, max(ROUNDS) + 1)])

    def wrong(level: Array) -> dict[str, Array]:
        return {
            f"false validation by round {rounds}": any_of(p[:, :rounds] <= level[:rounds])
            for rounds in ROUNDS
        }

    def right() -> dict[str, Array]:
        return {
            f"power in round {rounds}": good[:, k] <= levels[rounds - 1]
            for k, rounds in enumerate(ROUNDS)
        }

    return {
        "fixed": lambda: wrong(np.full(max(ROUNDS), ALPHA)),
        "spending": lambda: {**wrong(levels), **right()},
    }


def planning(cell: Cell, rng: np.random.Generator, repetitions: int, wanted: Wanted) -> Outcome:
    """Return the least number of releases that can validate (Proposition 18).

    The sharp certificate does not split its error, and with a threshold small enough it needs
    no more than an oracle does (theory section 2).
    """
    least = least_releases_named(
        target=cell["eta_0"], alpha_mechanism=0.025, n_mechanisms=cell["H"]
    )
    sharp = least_releases_sharp(target=cell["eta_0"], alpha=ALPHA / cell["H"])
    assert sharp is not None  # at a threshold of 0 some number is enough
    return tally(
        {
            "named": lambda: {"least releases": [least]},
            "sharp": lambda: {"least releases": [sharp]},
        },
        wanted,
    )


RARE_GROUP = Study(
    name="rare-group",
    paper="Table stratified_subgroup",
    seed=280726,
    repetitions=5000,
    cells=({"n": 500, "rare": 250}, {"n": 1000, "rare": 500}, {"n": 2500, "rare": 1000}),
    simulate=rare_group,
    methods={"simple random": Status.REGISTERED, "stratified": Status.REGISTERED},
    published={
        (i, method, metric): Published(
            value=value, digits=3, repetitions=5000, rate=metric != "power"
        )
        for i, four in enumerate(
            ((0.0, 0.0, 0.029, 0.969), (0.0, 0.0, 0.049, 1.0), (0.018, 0.090, 0.047, 1.0))
        )
        for (method, metric), value in zip(
            (
                ("simple random", "false validation"), ("simple random", "power"),
                ("stratified", "false validation"), ("stratified", "power"),
            ),
            four,
            strict=True,
        )
    }
    | {
        (i, "simple random", RARE_RECORDS): Published(
            value=value, digits=1, repetitions=5000, rate=False
        )
        for i, value in enumerate((10.0, 20.0, 50.0))
    },
)  # fmt: skip

ADAPTIVE_STREAM = Study(
    name="adaptive-stream",
    paper="Table adaptive_search",
    seed=260727,
    repetitions=5000,
    cells=({"n": 250},),
    simulate=adaptive,
    methods={"fixed": Status.INVALID, "spending": Status.REGISTERED},
    published={
        (0, method, f"{metric} {rounds}"): Published(value=value, digits=3, repetitions=5000)
        for rounds, three in zip(
            (1, 10, 25, 50),
            (
                (0.034, 0.020, 1.000), (0.271, 0.030, 0.914),
                (0.549, 0.031, 0.813), (0.798, 0.032, 0.651),
            ),
            strict=True,
        )
        for (method, metric), value in zip(
            (
                ("fixed", "false validation by round"),
                ("spending", "false validation by round"),
                ("spending", "power in round"),
            ),
            three,
            strict=True,
        )
    },
)  # fmt: skip

_PLAN = grid(eta_0=(0.8, 0.9), H=(1, 5, 9))
RELEASE_PLANNING = Study(
    name="release-planning",
    paper="Table mechanism_planning",
    seed=0,
    repetitions=1,
    cells=_PLAN,
    simulate=planning,
    methods={"named": Status.REGISTERED, "sharp": Status.OURS},
    published={
        (i, "named", "least releases"): Published(value=value, digits=0)
        for i, value in enumerate((17, 24, 27, 36, 51, 56))
    },
)
