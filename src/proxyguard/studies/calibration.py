"""B1 and B2: false validation of named releases, and what reuse of one target does."""

from __future__ import annotations

import numpy as np

from proxyguard.studies.counts import (
    any_of,
    holm_recognized,
    largest_count_law,
    largest_counts,
    point_passes,
    pvalue_table,
    share_of,
)
from proxyguard.studies.study import Cell, Metrics, Outcome, Published, Status, Study, Wanted, tally

CANDIDATES, TOLERANCE = 20, 0.10
INVALID, VALID = (0.102, 0.02, 0.02), (0.02, 0.02, 0.02)
CELLS = (
    *({"alpha": alpha, "n": 500} for alpha in (0.01, 0.025, 0.05, 0.10)),
    *({"alpha": 0.05, "n": n} for n in (50, 100, 250, 1000)),
)


def calibrate(cell: Cell, rng: np.random.Generator, repetitions: int, wanted: Wanted) -> Outcome:
    """Return false acceptance among invalid candidates, and power among valid ones."""
    n, alpha = cell["n"], cell["alpha"]
    shape = (repetitions, CANDIDATES)
    invalid = largest_counts(rng, n, INVALID, shape)
    valid = largest_counts(rng, n, VALID, shape)
    table = pvalue_table(n, TOLERANCE)

    def at_most(most: int) -> Metrics:
        return {"false acceptance": any_of(invalid <= most), "power": share_of(valid <= most)}

    def by_holm() -> Metrics:
        accepted = [holm_recognized(counts, table, alpha) for counts in (invalid, valid)]
        return {"false acceptance": accepted[0] > 0, "power": accepted[1] / CANDIDATES}

    return tally(
        {
            "point threshold": lambda: at_most(point_passes(n, TOLERANCE)),
            "per-proxy IUT": lambda: at_most(_most(table, alpha)),
            "Bonferroni": lambda: at_most(_most(table, alpha / CANDIDATES)),
            "Holm": by_holm,
        },
        wanted,
    )


def reuse(cell: Cell, rng: np.random.Generator, repetitions: int, wanted: Wanted) -> Outcome:
    """Return false validation when the best screened candidate is judged on used records."""
    n, alpha = cell["n"], cell["alpha"]
    table = pvalue_table(n, TOLERANCE)
    screening = largest_counts(rng, n, INVALID, (repetitions, CANDIDATES))
    fresh = largest_counts(rng, n, INVALID, (repetitions,))
    best = screening.min(axis=1)  # the candidates share one law, so which one is best says nothing
    metric = "false validation"
    return tally(
        {
            "reuse": lambda: {metric: table[best] <= alpha},
            "sealed": lambda: {metric: table[fresh] <= alpha},
            "Holm": lambda: {metric: holm_recognized(screening, table, alpha) > 0},
        },
        wanted,
    )


def exact_calibration(cell: Cell) -> dict[tuple[str, str], float]:
    """Return the exact rates: candidates are independent, so each is one power of a tail."""
    n, alpha = cell["n"], cell["alpha"]
    table = pvalue_table(n, TOLERANCE)
    bad, good = largest_count_law(n, INVALID), largest_count_law(n, VALID)
    found = {}
    for name, most in (
        ("point threshold", point_passes(n, TOLERANCE)),
        ("per-proxy IUT", _most(table, alpha)),
        ("Bonferroni", _most(table, alpha / CANDIDATES)),
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
    single = float(law[_most(table, cell["alpha"])])
    step = float(law[_most(table, cell["alpha"] / CANDIDATES)])
    return {
        ("reuse", "false validation"): 1.0 - (1.0 - single) ** CANDIDATES,
        ("sealed", "false validation"): single,
        ("Holm", "false validation"): 1.0 - (1.0 - step) ** CANDIDATES,
    }


def _most(table: np.ndarray, level: float) -> int:
    """Return the largest count whose p-value is at most the level, -1 if there is none."""
    return int(np.searchsorted(table, level, side="right")) - 1


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
