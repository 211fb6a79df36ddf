"""How many favorable scores validate, and the default threshold (theory section 2)."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from functools import partial

import numpy as np

from proxyguard.exact.sharp import critical_count
from proxyguard.modes.bound import ReliabilityBound
from proxyguard.modes.direct import certify_direct, certify_rescaled
from proxyguard.modes.evidence import DirectEvidence
from proxyguard.registry.budget import Budget, direct_budget
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


def least_count(
    certify: Callable[[DirectEvidence, Budget], ReliabilityBound],
    budget: Budget,
    releases: int,
    kappa: float,
) -> int:
    """Return the least number of favorable scores that validates, ``R + 1`` if none does."""

    def validates(count: int) -> bool:
        evidence = DirectEvidence(favorable=count, n_releases=releases, kappa=kappa, score="")
        return certify(evidence, budget).value > TARGET

    return bisect_left(range(releases + 1), True, key=validates)


def sharp_counts(cell: Cell, rng: np.random.Generator, repetitions: int, wanted: Wanted) -> Outcome:
    """Return the favorable scores that each certificate needs, and the default threshold."""
    releases, kappa = cell["R"], cell["kappa"]
    rule: dict[str, list[float]] = {}
    if kappa == "default":
        kappa = sharp_threshold(releases, TARGET, ALPHA)
        rule["default threshold"] = [kappa]

    def sharp(ceiling: float) -> Metrics:
        needed = critical_count(releases, target=TARGET, kappa=ceiling, alpha=ALPHA)
        return {"needed": [int(needed)]}

    def direct(
        certify: Callable[[DirectEvidence, Budget], ReliabilityBound], share: str
    ) -> Metrics:
        budget = direct_budget(ALPHA, target_share=share)
        return {"needed": [least_count(certify, budget, releases, kappa)]}

    return tally(
        {
            "direct, .5/.5": partial(direct, certify_direct, "0.5"),
            "direct, .9/.1": partial(direct, certify_direct, "0.9"),
            "rescaled, .5/.5": partial(direct, certify_rescaled, "0.5"),
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
