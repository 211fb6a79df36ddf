"""B1 and B2: false validation of named releases, and what reuse of one target does."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from proxyguard.exact.contamination import most_at_cutoff
from reproduction.studies.counts import (
    Integers,
    bar,
    below,
    holm_count,
    largest_count_law,
    largest_counts,
    pvalue_table,
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
    tally,
)

CANDIDATES, TOLERANCE = 20, 0.10
INVALID, VALID = (0.102, 0.02, 0.02), (0.02, 0.02, 0.02)
CELLS = (
    *({"alpha": alpha, "n": 500} for alpha in (0.01, 0.025, 0.05, 0.10)),
    *({"alpha": 0.05, "n": n} for n in (50, 100, 250, 1000)),
)


def calibrate(cell: Cell, rng: np.random.Generator, repetitions: int, wanted: Wanted) -> Outcome:
    """Return false acceptance among invalid candidates, and power among valid ones."""
    shape = (CANDIDATES, repetitions)
    invalid = largest_counts(rng, cell["n"], INVALID, shape)
    valid = largest_counts(rng, cell["n"], VALID, shape)
    return tally(calibrated(cell, invalid, valid), wanted)


def calibrated(cell: Cell, invalid: Integers, valid: Integers) -> Methods:
    """Return what each method makes of the largest counts (candidates, repetitions)."""
    n, alpha = cell["n"], cell["alpha"]
    table = pvalue_table(n, TOLERANCE)

    def accepted(count: Callable[[Integers], Integers]) -> Metrics:
        return {"false acceptance": count(invalid) > 0, "power": count(valid) / CANDIDATES}

    def under(least: int) -> Metrics:
        return accepted(lambda counts: below(counts, least))

    return {
        "point threshold": lambda: under(most_at_cutoff(TOLERANCE, n) + 1),
        "per-proxy IUT": lambda: under(bar(table, alpha)),
        "Bonferroni": lambda: under(bar(table, alpha / CANDIDATES)),
        "Holm": lambda: accepted(lambda counts: holm_count(counts, table, alpha)),
    }


def reuse(cell: Cell, rng: np.random.Generator, repetitions: int, wanted: Wanted) -> Outcome:
    """Return false validation when the best screened candidate is judged on used records."""
    screening = largest_counts(rng, cell["n"], INVALID, (CANDIDATES, repetitions))
    fresh = largest_counts(rng, cell["n"], INVALID, (repetitions,))
    return tally(reused(cell, screening, fresh), wanted)


def reused(cell: Cell, screening: Integers, fresh: Integers) -> Methods:
    """Return what each method makes of the counts of all candidates, and of one on new records."""
    alpha, table = cell["alpha"], pvalue_table(cell["n"], TOLERANCE)
    best = screening.min(axis=0)  # the candidates share one law, so which one is best says nothing
    metric = "false validation"
    return {
        "reuse": lambda: {metric: table[best] <= alpha},
        "sealed": lambda: {metric: table[fresh] <= alpha},
        "Holm": lambda: {metric: holm_count(screening, table, alpha) > 0},
    }


def exact_calibration(cell: Cell) -> dict[tuple[str, str], float]:
    """Return the exact rates: candidates are independent, so each is one power of a tail."""
    n, alpha = cell["n"], cell["alpha"]
    table = pvalue_table(n, TOLERANCE)
    bad, good = largest_count_law(n, INVALID), largest_count_law(n, VALID)
    found = {}
    for name, most in (
        ("point threshold", most_at_cutoff(TOLERANCE, n)),
        ("per-proxy IUT", bar(table, alpha) - 1),
        ("Bonferroni", bar(table, alpha / CANDIDATES) - 1),
    ):
        one = float(bad[most]) if most >= 0 else 0.0
        found[name, "false acceptance"] = 1.0 - (1.0 - one) ** CANDIDATES
        found[name, "power"] = float(good[most]) if most >= 0 else 0.0
    # Holm rejects something exactly when Bonferroni does.
    found["Holm", "false acceptance"] = found["Bonferroni", "false acceptance"]
    return found


def exact_reuse(cell: Cell) -> dict[tuple[str, str], float]:
    """Return the exact rates of the reuse study."""
    table = pvalue_table(cell["n"], TOLERANCE)
    law = largest_count_law(cell["n"], INVALID)
    single = float(law[bar(table, cell["alpha"]) - 1])
    step = float(law[bar(table, cell["alpha"] / CANDIDATES) - 1])
    return {
        ("reuse", "false validation"): 1.0 - (1.0 - single) ** CANDIDATES,
        ("sealed", "false validation"): single,
        ("Holm", "false validation"): 1.0 - (1.0 - step) ** CANDIDATES,
    }


CALIBRATION = Study(
    name="calibration",
    paper="Figure risk_control_calibration",
    seed=3407,
    repetitions=5000,
    cells=CELLS,
    simulate=calibrate,
    exact=exact_calibration,
    methods={
        "point threshold": Status.INVALID,
        "per-proxy IUT": Status.INVALID,
        "Bonferroni": Status.REGISTERED,
        "Holm": Status.REGISTERED,
    },
    published={
        (2, "point threshold", "false acceptance"): Published(
            value=1.0, digits=3, repetitions=5000
        ),
        (2, "per-proxy IUT", "false acceptance"): Published(
            value=0.4400, digits=4, repetitions=5000
        ),
        (2, "Bonferroni", "false acceptance"): Published(value=0.0194, digits=4, repetitions=5000),
        (2, "Holm", "false acceptance"): Published(value=0.0194, digits=4, repetitions=5000),
        **{
            (2, method, "power"): Published(value=1.0, digits=1, repetitions=5000, rate=False)
            for method in ("point threshold", "per-proxy IUT", "Bonferroni", "Holm")
        },
    },
)

TARGET_REUSE = Study(
    name="target-reuse",
    paper="Table target_reuse",
    seed=4821,
    repetitions=5000,
    cells=({"alpha": 0.05, "n": 500},),
    simulate=reuse,
    exact=exact_reuse,
    methods={
        "reuse": Status.INVALID,
        "sealed": Status.REGISTERED,
        "Holm": Status.REGISTERED,
    },
    published={
        (0, "reuse", "false validation"): Published(value=0.4346, digits=4, repetitions=5000),
        (0, "sealed", "false validation"): Published(value=0.0308, digits=4, repetitions=5000),
        (0, "Holm", "false validation"): Published(value=0.0236, digits=4, repetitions=5000),
    },
)
