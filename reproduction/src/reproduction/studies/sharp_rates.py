"""Validation rates of the sharp certificate at registered thresholds (theory section 2).

The paper's primary comparison with moderate evidence: its law, its modes and its oracle, and the
sharp certificate with one threshold for each number of releases.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from reproduction.studies import modes
from reproduction.studies.mode_targets import MODERATE, SmoothedTarget, Target
from reproduction.studies.passing import Decisions, Passing, passing_at, sharp_validates
from reproduction.studies.shared_target import exact_oracle
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

PAPERS = ("named", "direct", "oracle")
RANDOMIZED = "sharp, randomized binomial"
ALPHA, TARGET = modes.ALPHA, modes.TARGET


def sharp_rates(cell: Cell, rng: np.random.Generator, repetitions: int, wanted: Wanted) -> Outcome:
    """Return how often each method validates."""
    return tally(
        rates_of(cell, modes.simulate(SmoothedTarget, MODERATE, cell, rng, repetitions)), wanted
    )


def rates_of(cell: Cell, target: Target) -> Methods:
    """Return what each method makes of a block of targets."""

    def sharp(passing: Passing) -> Decisions:
        scores = passing_at(passing, target.releases.shape[0], cell["t"])
        return sharp_validates(scores, cell["R"], kappa=cell["t"], alpha=ALPHA, target=TARGET)

    papers = modes.published_methods(target, MODERATE)
    decided: dict[str, Callable[[], Decisions]] = {name: papers[name] for name in PAPERS}
    decided |= {
        "sharp, bentkus": partial(sharp, target.bentkus),
        RANDOMIZED: partial(sharp, target.randomized),
    }

    def evaluate(method: str) -> Metrics:
        return {"validated": decided[method]()}

    return {name: partial(evaluate, name) for name in decided}


_METHODS = {
    "named": Status.REGISTERED,
    "direct": Status.REGISTERED,
    "oracle": Status.ORACLE,
    "sharp, bentkus": Status.OURS,
    RANDOMIZED: Status.OURS,
}
# R, n, eta, t; then named, direct, oracle and the sharp form by randomized binomial, in %.
_ROWS: tuple[tuple[tuple[int, int, float, float], tuple[float, ...]], ...] = (
    ((1000, 1000, 0.80, 0.02), (0, 0, 4, 0.2)),
    ((1000, 1000, 0.90, 0.02), (4, 56, 100, 97.0)),
    ((1000, 1000, 0.95, 0.02), (6, 64, 100, 98.2)),
    ((250, 1000, 0.90, 0.02), (12, 17, 100, 95.2)),
    ((250, 1000, 0.95, 0.02), (11, 61, 100, 97.2)),
    ((100, 1000, 0.90, 0.01), (12, 4, 90, 76.8)),
    ((100, 1000, 0.95, 0.01), (26, 38, 100, 96.0)),
    ((30, 1000, 0.95, 0.003), (9, 0, 84, 71.5)),
    ((1000, 500, 0.90, 0.02), (0, 0, 100, 69.5)),
    ((1000, 500, 0.95, 0.02), (0, 0, 100, 71.8)),
)
SHARP_RATES = Study(
    name="sharp-rates",
    own=True,
    paper="theory section 2, validation rates",
    seed=8205,
    repetitions=1500,
    cells=tuple(dict(zip(("R", "n", "eta", "t"), cell, strict=True)) for cell, _ in _ROWS),
    simulate=sharp_rates,
    exact=exact_oracle,
    block=50,
    methods=_METHODS,
    published={
        (i, method, "validated"): Published(
            value=rate / 100, digits=3 if method == RANDOMIZED else 2, repetitions=400
        )
        for i, (_, rates) in enumerate(_ROWS)
        for method, rate in zip((*PAPERS, RANDOMIZED), rates, strict=True)
    },
    differs=(
        "Independent seeds, and the 1,500 repetitions with which theory ran its table again. Its "
        "rates for bentkus belong to an older, weaker form and are a floor for ours."
    ),
)
