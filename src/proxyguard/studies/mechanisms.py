"""B5, B8, B9, B10: validating mechanisms whose releases each have a batch of their own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

import numpy as np
from numpy.typing import NDArray

from proxyguard.studies.counts import (
    Array,
    Counts,
    any_of,
    favorable,
    fisher_recognized,
    holm_recognized,
    mixed_counts,
    point_passes,
    pvalue_table,
    reliability_pvalues,
    share_of,
    sharp_pvalues,
    sharp_threshold,
    simes_recognized,
    validated,
)
from proxyguard.studies.study import (
    Cell,
    Outcome,
    Published,
    Status,
    Study,
    Sums,
    Wanted,
    grid,
    place,
    tally,
)

H, TOLERANCE, TARGET, ALPHA = 5, 0.10, 0.8, 0.05
Decide = Callable[[Counts, NDArray[np.bool_]], NDArray[np.bool_]]


def _blocks(
    rng: np.random.Generator, cell: Cell, repetitions: int
) -> dict[str, tuple[Counts, NDArray[np.bool_]]]:
    """Return counts and validity of boundary mechanisms, then of valid ones."""
    shape = (repetitions, H, cell["R"])
    safe, bad = cell["safe"], cell["bad"]
    risks = ((safe, safe, safe), (bad, safe, safe))
    found = {}
    for block, eta in (("boundary", TARGET), ("valid", cell["eta"])):
        valid = rng.random(shape) < eta
        found[block] = mixed_counts(rng, cell["n"], valid, risks), valid
    return found


def _outer(recognized: Counts, releases: int, level: float) -> NDArray[np.bool_]:
    """Return which mechanisms the binomial test validates, Holm over the mechanisms."""
    return validated(reliability_pvalues(releases, TARGET)[recognized], level)


def _sharp(counts: Counts, table: Array, releases: int) -> NDArray[np.bool_]:
    """Return which mechanisms the sharp certificate validates, Holm over the mechanisms."""
    threshold = sharp_threshold(releases, TARGET, ALPHA / H)
    if threshold == 0.0:
        return np.zeros(counts.shape[:-1], dtype=bool)
    scores = favorable(counts, table, threshold)
    return validated(sharp_pvalues(releases, TARGET, threshold)[scores], ALPHA)


def _summarise(
    blocks: Mapping[str, tuple[Counts, NDArray[np.bool_]]],
    methods: Mapping[str, Decide],
    wanted: Wanted,
) -> dict[tuple[str, str], Sums]:
    def both(decide: Decide) -> dict[str, Array]:
        return {
            "false validation": any_of(decide(*blocks["boundary"])),
            "power": share_of(decide(*blocks["valid"])),
        }

    return tally({name: partial(both, decide) for name, decide in methods.items()}, wanted)


def calibrate(cell: Cell, rng: np.random.Generator, repetitions: int, wanted: Wanted) -> Outcome:
    """Return false validation and power of every way to recognize releases (B5, B9)."""
    n, releases, share = cell["n"], cell["R"], cell["share"]
    table, passes = pvalue_table(n, TOLERANCE), point_passes(n, TOLERANCE)
    inner, outer = ALPHA * share, ALPHA * (1 - share)
    single = int(np.searchsorted(table, inner, side="right")) - 1
    methods: dict[str, Decide] = {
        "plug-in": lambda c, v: (c <= passes).mean(axis=-1) >= TARGET,
        "point rule + binomial": lambda c, v: _outer((c <= passes).sum(axis=-1), releases, ALPHA),
        "per-release IUT": lambda c, v: _outer((c <= single).sum(axis=-1), releases, outer),
        "two-level": lambda c, v: _outer(holm_recognized(c, table, inner / H), releases, outer),
        "collective": lambda c, v: _outer(simes_recognized(c, table, inner / H), releases, outer),
        "oracle": lambda c, v: _outer(v.sum(axis=-1), releases, ALPHA),
        "sharp, binomial": lambda c, v: _sharp(c, table, releases),
    }
    return _summarise(_blocks(rng, cell, repetitions), methods, wanted)


def near_boundary(
    cell: Cell, rng: np.random.Generator, repetitions: int, wanted: Wanted
) -> Outcome:
    """Return false release labels and false mechanism validation near the limit (B8)."""
    n, releases = cell["n"], cell["R"]
    table = pvalue_table(n, TOLERANCE)
    level = ALPHA / 2
    single = int(np.searchsorted(table, level, side="right")) - 1
    blocks = _blocks(rng, cell, repetitions)
    counts, valid = blocks["boundary"]

    def uncorrected(c: Counts, v: NDArray[np.bool_]) -> NDArray[np.bool_]:
        return np.asarray(c <= single)

    def inner_holm(c: Counts, v: NDArray[np.bool_]) -> NDArray[np.bool_]:
        # One family over all releases of all mechanisms. Holm's levels rise, so releases with
        # one count pass together, and the largest count that passes says all.
        flat = c.reshape(c.shape[0], -1)
        ordered = np.sort(flat, axis=-1)
        recognized = holm_recognized(flat, table, level)[:, None]
        last = np.take_along_axis(ordered, np.maximum(recognized - 1, 0), axis=-1)
        return np.asarray(flat <= np.where(recognized > 0, last, -1)).reshape(c.shape)

    labels: dict[str, Decide] = {
        "uncorrected": uncorrected,
        "inner Holm": inner_holm,
        "oracle": lambda c, v: v,
    }

    def labelled(label: Decide) -> dict[str, Array]:
        marked, good = label(counts, valid), label(*blocks["valid"])
        return {
            "any false label": any_of(marked & ~valid),
            "false validation": any_of(_outer(marked.sum(axis=-1), releases, level)),
            "power": share_of(_outer(good.sum(axis=-1), releases, level)),
        }

    ours: dict[str, Decide] = {"sharp, binomial": lambda c, v: _sharp(c, table, releases)}
    return {
        **tally({name: partial(labelled, label) for name, label in labels.items()}, wanted),
        **_summarise(blocks, ours, wanted),
    }


def collective(cell: Cell, rng: np.random.Generator, repetitions: int, wanted: Wanted) -> Outcome:
    """Return power and recognized counts of Holm, tail-Simes and tail-Fisher (B10)."""
    n, releases = cell["n"], cell["R"]
    table, level = pvalue_table(n, TOLERANCE), ALPHA / 2
    blocks = _blocks(rng, cell, repetitions)
    by_holm = holm_recognized(blocks["valid"][0], table, level / H)

    def combined(recognize: Callable[[Counts, Array, float], Counts]) -> dict[str, Array]:
        boundary = recognize(blocks["boundary"][0], table, level / H)
        if recognize is holm_recognized:
            valid, gain = by_holm, {}
        else:
            valid = recognize(blocks["valid"][0], table, level / H)
            gain = {"gain over Holm": (valid - by_holm).mean(axis=-1)}
        return {
            "false validation": any_of(_outer(boundary, releases, level)),
            "power": share_of(_outer(valid, releases, level)),
            "recognized": valid.mean(axis=-1),
            **gain,
        }

    ours: dict[str, Decide] = {"sharp, binomial": lambda c, v: _sharp(c, table, releases)}
    return {
        **tally(
            {
                "Holm": lambda: combined(holm_recognized),
                "tail-Simes": lambda: combined(simes_recognized),
                "tail-Fisher": lambda: combined(fisher_recognized),
            },
            wanted,
        ),
        **_summarise(blocks, ours, wanted),
    }


_CALIBRATION_CELLS = tuple(
    {**cell, "safe": 0.02, "bad": 0.12, "eta": 0.98, "share": 0.5}
    for cell in grid(n=(100, 250, 500), R=(10, 25, 50, 75))
)
_AT = place(_CALIBRATION_CELLS, n=500, R=50)
_METHODS = {
    "plug-in": Status.INVALID,
    "point rule + binomial": Status.INVALID,
    "per-release IUT": Status.INVALID,
    "two-level": Status.REGISTERED,
    "collective": Status.REGISTERED,
    "oracle": Status.ORACLE,
    "sharp, binomial": Status.OURS,
}
MECHANISM_CALIBRATION = Study(
    name="mechanism-calibration",
    paper="Table mechanism_calibration, Figure mechanism_control",
    seed=260726,
    repetitions=5000,
    cells=_CALIBRATION_CELLS,
    simulate=calibrate,
    methods=_METHODS,
    published={
        (_AT, method, metric): Published(value=value, digits=3, repetitions=5000)
        for method, pair in (
            ("plug-in", (0.997, 1.000)),
            ("point rule + binomial", (0.059, 1.000)),
            ("per-release IUT", (0.006, 0.996)),
            ("two-level", (0.006, 0.996)),
            ("collective", (0.006, 0.996)),
            ("oracle", (0.025, 1.000)),
        )
        for metric, value in zip(("false validation", "power"), pair, strict=True)
    },
)

_SHARES = (0.1, 0.25, 0.5, 0.75, 0.9)
ERROR_SPLIT = Study(
    name="error-split",
    paper="Table alpha_allocation",
    seed=2607282,
    repetitions=10_000,
    cells=tuple(
        {"n": 500, "R": 25, "safe": 0.02, "bad": 0.102, "eta": 0.98, "share": share}
        for share in _SHARES
    ),
    simulate=calibrate,
    methods={name: _METHODS[name] for name in ("two-level", "oracle", "sharp, binomial")},
    published={
        (i, "two-level", metric): Published(value=value, digits=digits, repetitions=10_000)
        for i, pair in enumerate(
            ((0.020, 0.6451), (0.019, 0.6434), (0.021, 0.602), (0.0, 0.0), (0.0, 0.0))
        )
        for metric, value, digits in (
            ("false validation", pair[0], 3), ("power", pair[1], 4 if i < 2 else 3),
        )
    },
)  # fmt: skip

_RISKS = (0.100, 0.101, 0.102, 0.120)
NEAR_BOUNDARY = Study(
    name="near-boundary",
    paper="Table near_boundary_inner_correction",
    seed=2607281,
    repetitions=10_000,
    cells=tuple({"n": 500, "R": 200, "safe": 0.02, "bad": bad, "eta": 0.98} for bad in _RISKS),
    simulate=near_boundary,
    block=250,
    methods={
        "uncorrected": Status.INVALID,
        "inner Holm": Status.REGISTERED,
        "oracle": Status.ORACLE,
        "sharp, binomial": Status.OURS,
    },
    published={
        (i, method, metric): Published(value=value, digits=4, repetitions=10_000)
        for i, four in enumerate(
            (
                (0.9765, 0.0237, 0.0131, 0.0170),
                (0.9520, 0.0233, 0.0113, 0.0171),
                (0.9325, 0.0237, 0.0079, 0.0188),
                (0.0600, 0.0169, 0.0001, 0.0169),
            )
        )
        for (method, metric), value in zip(
            (
                ("uncorrected", "any false label"), ("uncorrected", "false validation"),
                ("inner Holm", "any false label"), ("inner Holm", "false validation"),
            ),
            four,
            strict=True,
        )
    },
)  # fmt: skip

_GRID = tuple(
    {**cell, "bad": 0.12}
    for cell in grid(safe=(0.04, 0.06, 0.08), eta=(0.90, 0.95, 0.98), n=(100, 250, 500, 1000),
                     R=(25, 50, 100))
)  # fmt: skip
_SHOWN = place(_GRID, safe=0.04, n=500, R=100, eta=0.95)
COLLECTIVE_GRID = Study(
    name="collective-grid",
    paper="Figure collective_power, Table collective_benchmarks",
    seed=260728,
    repetitions=2000,
    cells=_GRID,
    simulate=collective,
    methods={
        "Holm": Status.REGISTERED,
        "tail-Simes": Status.REGISTERED,
        "tail-Fisher": Status.REGISTERED,
        "sharp, binomial": Status.OURS,
    },
    published={
        (_SHOWN, "Holm", "false validation"): Published(value=0.0, digits=4, repetitions=2000),
        (_SHOWN, "Holm", "power"): Published(
            value=0.1266, digits=4, repetitions=2000, standard_error=0.0039
        ),
        (_SHOWN, "Holm", "recognized"): Published(value=83.29, digits=2, repetitions=2000),
        (_SHOWN, "tail-Simes", "false validation"): Published(
            value=0.0005, digits=4, repetitions=2000
        ),
        (_SHOWN, "tail-Simes", "power"): Published(
            value=0.6501, digits=4, repetitions=2000, standard_error=0.0055
        ),
        (_SHOWN, "tail-Simes", "recognized"): Published(value=90.69, digits=2, repetitions=2000),
        (_SHOWN, "tail-Simes", "gain over Holm"): Published(value=7.40, digits=2, repetitions=2000),
        (_SHOWN, "tail-Fisher", "false validation"): Published(
            value=0.0005, digits=4, repetitions=2000
        ),
        (_SHOWN, "tail-Fisher", "power"): Published(
            value=0.9035, digits=4, repetitions=2000, standard_error=0.0036
        ),
        (_SHOWN, "tail-Fisher", "recognized"): Published(value=92.71, digits=2, repetitions=2000),
        (_SHOWN, "tail-Fisher", "gain over Holm"): Published(
            value=9.42, digits=2, repetitions=2000
        ),
    },
)
