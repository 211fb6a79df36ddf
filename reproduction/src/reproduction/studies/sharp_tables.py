"""How many favorable scores validate, and the default threshold (theory section 2)."""

from __future__ import annotations

from functools import partial

import numpy as np

from proxyguard.modes.direct import least_favorable
from proxyguard.registry.budget import Budget, direct_budget, sharp_budget
from proxyguard.registry.test import Bound
from reproduction.studies.counts import sharp_threshold
from reproduction.studies.study import (
    Cell,
    Metrics,
    Outcome,
    Published,
    Status,
    Study,
    Wanted,
    tally,
)

ALPHA, TARGET = 0.05, 0.8


def sharp_counts(cell: Cell, rng: np.random.Generator, repetitions: int, wanted: Wanted) -> Outcome:
    """Return the favorable scores that each certificate needs, and the default threshold."""
    releases, kappa = cell["R"], cell["kappa"]
    rule: dict[str, list[float]] = {}
    if kappa == "default":
        kappa = sharp_threshold(releases, TARGET, ALPHA)
        rule["default threshold"] = [kappa]

    def needed(bound: Bound, budget: Budget, ceiling: float) -> Metrics:
        count = least_favorable(releases, bound, budget, kappa=ceiling, target=TARGET)
        return {"needed": [count]}

    def direct(bound: Bound, share: str) -> Metrics:
        return needed(bound, direct_budget(ALPHA, target_share=share), kappa)

    def sharp(ceiling: float) -> Metrics:
        return needed(Bound.SHARP, sharp_budget(ALPHA), ceiling)

    return tally(
        {
            "direct, .5/.5": partial(direct, Bound.PAPER, "0.5"),
            "direct, .9/.1": partial(direct, Bound.PAPER, "0.9"),
            "rescaled, .5/.5": partial(direct, Bound.RESCALED, "0.5"),
            "sharp": lambda: {**sharp(kappa), **rule},
            "oracle": lambda: sharp(0.0),
        },
        wanted,
    )


_METHODS = {
    "direct, .5/.5": Status.REGISTERED,
    "direct, .9/.1": Status.REGISTERED,
    "rescaled, .5/.5": Status.OURS,
    "sharp": Status.OURS,
    "oracle": Status.ORACLE,
}
_ROWS: tuple[tuple[int, float, tuple[int | None, ...]], ...] = (
    (1000, 0.001, (863, 854, 833, 822, 822)),
    (1000, 0.005, (None, 934, 863, 825, 822)),
    (1000, 0.01, (None, None, 901, 830, 822)),
    (1000, 0.02, (None, None, 973, 860, 822)),
    (100, 0.003, (98, 96, 91, 88, 87)),
    (100, 0.01, (None, None, 95, 88, 87)),
    (30, 0.003, (None, None, 29, 28)),
)
_THRESHOLDS = ((30, 0.0055), (100, 0.0157), (250, 0.0194), (1000, 0.0151))
SHARP_COUNTS = Study(
    name="sharp-counts",
    own=True,
    paper="theory section 2, favorable scores needed",
    seed=0,
    repetitions=1,
    cells=(
        *({"R": releases, "kappa": kappa} for releases, kappa, _ in _ROWS),
        *({"R": releases, "kappa": "default"} for releases, _ in _THRESHOLDS),
    ),
    simulate=sharp_counts,
    methods=_METHODS,
    published={
        (i, method, "needed"): Published(value=releases + 1 if needed is None else needed, digits=0)
        for i, (releases, _, counts) in enumerate(_ROWS)
        for method, needed in zip(_METHODS, counts, strict=False)
    }
    | {
        (len(_ROWS) + i, "sharp", "default threshold"): Published(value=threshold, digits=4)
        for i, (_, threshold) in enumerate(_THRESHOLDS)
    },
    differs="Computed, so equal to the last printed digit; R + 1 stands for 'impossible'.",
)
