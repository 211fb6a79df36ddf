"""B5, B8, B9, B10: validating mechanisms whose releases each have a batch of their own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache

import numpy as np
from numpy.typing import NDArray

from proxyguard.exact.contamination import most_at_cutoff
from reproduction.studies.counts import (
    UNRELIABLE,
    Array,
    CodeLaw,
    Integers,
    bar,
    below,
    fisher_count,
    holm_bars,
    holm_count,
    labelled,
    mixed_law,
    pvalue_table,
    reliability_pvalues,
    simes_count,
    unlabelled_law,
    validated_mechanisms,
)
from reproduction.studies.mechanism_modes import (
    ALPHA,
    OURS,
    TARGET,
    TOLERANCE,
    H,
    both,
    exact_any,
    exact_ours,
    least_passing,
    our_methods,
    pass_rate,
    risks,
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
    place,
    tally,
)

Recognize = Callable[[Integers, Array, float], Integers]
Blocks = Mapping[str, Integers]
"""Largest counts of boundary mechanisms and of valid ones."""
Labels = Mapping[str, NDArray[np.bool_]]
"""Which of their releases are valid."""
Draw = Callable[[], Integers]
"""Draws the counts of mechanisms that are less reliable than the target."""


def _laws(cell: Cell, law: Callable[..., CodeLaw]) -> dict[str, CodeLaw]:
    """Return the laws of boundary mechanisms and of valid ones."""
    etas = {"boundary": TARGET, "valid": cell["eta"]}
    return {name: law(cell["n"], TOLERANCE, eta, risks(cell)) for name, eta in etas.items()}


def _labelled_blocks(
    rng: np.random.Generator, cell: Cell, repetitions: int
) -> tuple[dict[str, Integers], dict[str, NDArray[np.bool_]]]:
    """Draw the counts of all releases, boundary mechanisms first, and which are valid."""
    counts: dict[str, Integers] = {}
    valid: dict[str, NDArray[np.bool_]] = {}
    for name, law in _laws(cell, mixed_law).items():
        codes = law.draw(rng, (cell["R"], H, repetitions))
        counts[name], valid[name] = labelled(codes, cell["n"], TOLERANCE)
    return counts, valid


def _blocks(rng: np.random.Generator, cell: Cell, repetitions: int) -> dict[str, Integers]:
    """Draw the counts of all releases, boundary mechanisms first."""
    return {
        name: law.draw(rng, (cell["R"], H, repetitions))
        for name, law in _laws(cell, unlabelled_law).items()
    }


def _unreliable(rng: np.random.Generator, cell: Cell, repetitions: int) -> Callable[[], Integers]:
    """Return how to draw the counts of unreliable mechanisms, from a stream of their own."""
    (own,) = rng.spawn(1)
    shape = (cell["R"], H, repetitions)
    return lambda: unlabelled_law(cell["n"], TOLERANCE, UNRELIABLE, risks(cell)).draw(own, shape)


def validated_by_tests(recognized: Integers, releases: int, level: float) -> Integers:
    """Return how many mechanisms the binomial test of recognized releases validates, by Holm."""
    return validated_mechanisms(recognized, reliability_pvalues(releases, TARGET), level)


def _oracle(valid: Mapping[str, NDArray[np.bool_]], level: float) -> Metrics:
    """Return the metrics of a test that knows which releases are valid."""
    return both(valid, lambda v: validated_by_tests(np.count_nonzero(v, axis=0), len(v), level))


def calibrate(cell: Cell, rng: np.random.Generator, repetitions: int, wanted: Wanted) -> Outcome:
    """Return false validation and power of every way to recognize releases (B5, B9)."""
    counts, valid = _labelled_blocks(rng, cell, repetitions)
    return tally(calibrated(cell, counts, valid, _unreliable(rng, cell, repetitions)), wanted)


def calibrated(cell: Cell, counts: Blocks, valid: Labels, unreliable: Draw) -> Methods:
    """Return what each method makes of the largest counts, (releases, mechanisms, repetitions)."""
    n, releases, share = cell["n"], cell["R"], cell["share"]
    table, passes = pvalue_table(n, TOLERANCE), most_at_cutoff(TOLERANCE, n) + 1
    inner, outer = ALPHA * share, ALPHA * (1 - share)

    def plug_in() -> Metrics:
        return both(
            counts, lambda c: np.count_nonzero(below(c, passes) / releases >= TARGET, axis=0)
        )

    def tested(recognize: Callable[[Integers], Integers], level: float) -> Metrics:
        return both(counts, lambda c: validated_by_tests(recognize(c), releases, level))

    def named(pvalues: Array) -> Metrics:
        return tested(lambda c: holm_count(c, pvalues, inner / H), outer)

    return {
        "plug-in": plug_in,
        "point rule + binomial": lambda: tested(lambda c: below(c, passes), ALPHA),
        "per-release IUT": lambda: tested(lambda c: below(c, bar(table, inner)), outer),
        "two-level": lambda: named(table),
        "collective": lambda: tested(lambda c: simes_count(c, table, inner / H), outer),
        "oracle": lambda: _oracle(valid, ALPHA),
        **our_methods(counts, n, named, unreliable),
    }


def near_boundary(
    cell: Cell, rng: np.random.Generator, repetitions: int, wanted: Wanted
) -> Outcome:
    """Return false release labels and false mechanism validation near the limit (B8)."""
    counts, valid = _labelled_blocks(rng, cell, repetitions)
    return tally(marked_near(cell, counts, valid, _unreliable(rng, cell, repetitions)), wanted)


def marked_near(cell: Cell, counts: Blocks, valid: Labels, unreliable: Draw) -> Methods:
    """Return what each method makes of the largest counts, (releases, mechanisms, repetitions)."""
    n, releases = cell["n"], cell["R"]
    table, level = pvalue_table(n, TOLERANCE), ALPHA / 2
    boundary = counts["boundary"]

    @cache
    def least_invalid() -> Integers:
        # Some invalid release is recognized exactly when the one with the least count is.
        largest = np.iinfo(boundary.dtype).max
        return np.asarray(np.where(valid["boundary"], largest, boundary).min(axis=(0, 1)))

    def marked(bars: Callable[[Integers], Integers | int]) -> Metrics:
        return {
            "any false label": least_invalid() < bars(boundary),
            **both(counts, lambda c: validated_by_tests(below(c, bars(c)), releases, level)),
        }

    def by_holm(pvalues: Array) -> Metrics:
        # One family over all releases of all mechanisms.
        return marked(lambda c: holm_bars(c, pvalues, level, (0, 1)))

    return {
        "uncorrected": lambda: marked(lambda c: bar(table, level)),
        "inner Holm": lambda: by_holm(table),
        "oracle": lambda: {
            "any false label": np.zeros(boundary.shape[-1]), **_oracle(valid, level)
        },
        **our_methods(counts, n, by_holm, unreliable),
    }  # fmt: skip


def collective(cell: Cell, rng: np.random.Generator, repetitions: int, wanted: Wanted) -> Outcome:
    """Return power and recognized counts of Holm, tail-Simes and tail-Fisher (B10)."""
    counts = _blocks(rng, cell, repetitions)
    return tally(combined(cell, counts, _unreliable(rng, cell, repetitions)), wanted)


def combined(cell: Cell, counts: Blocks, unreliable: Draw) -> Methods:
    """Return what each method makes of the largest counts, (releases, mechanisms, repetitions)."""
    n, releases = cell["n"], cell["R"]
    table, level = pvalue_table(n, TOLERANCE), ALPHA / 2

    @cache
    def by_holm(block: str) -> Integers:
        return holm_count(counts[block], table, level / H)

    def tested(recognize: Callable[[str], Integers]) -> dict[str, Array]:
        recognized = {block: recognize(block) for block in counts}
        outer = {
            block: validated_by_tests(found, releases, level) for block, found in recognized.items()
        }
        return {
            "false validation": np.asarray(outer["boundary"] > 0),
            "power": outer["valid"] / H,
            "recognized": recognized["valid"].mean(axis=0),
        }

    def gaining(recognize: Recognize) -> dict[str, Array]:
        found = tested(lambda block: recognize(counts[block], table, level / H))
        gain = found["recognized"] - by_holm("valid").mean(axis=0)
        return {**found, "gain over Holm": gain}

    def named(pvalues: Array) -> Metrics:
        return tested(lambda block: holm_count(counts[block], pvalues, level / H))

    return {
        "Holm": lambda: tested(by_holm),
        "tail-Simes": lambda: gaining(simes_count),
        "tail-Fisher": lambda: gaining(fisher_count),
        **our_methods(counts, n, named, unreliable),
    }


def exact_calibration(cell: Cell) -> dict[tuple[str, str], float]:
    """Return exact false validation where releases are recognized one by one (B5, B9).

    Holm over mechanisms validates some exactly when Bonferroni does.
    """
    n, releases, share = cell["n"], cell["R"], cell["share"]
    table, outer = pvalue_table(n, TOLERANCE), reliability_pvalues(releases, TARGET)
    point = pass_rate(cell, TARGET, most_at_cutoff(TOLERANCE, n) + 1)
    single = pass_rate(cell, TARGET, bar(table, ALPHA * share))
    plenty = int(np.argmax(np.arange(releases + 1) / releases >= TARGET))
    whole, part = ALPHA / H, ALPHA * (1 - share) / H
    rates = {
        "plug-in": (point, plenty),
        "point rule + binomial": (point, least_passing(outer, whole)),
        "per-release IUT": (single, least_passing(outer, part)),
        "oracle": (TARGET, least_passing(outer, whole)),
    }
    return {
        **{
            (method, "false validation"): exact_any(releases, rate, least)
            for method, (rate, least) in rates.items()
        },
        **exact_ours(cell),
    }


def exact_near_boundary(cell: Cell) -> dict[tuple[str, str], float]:
    """Return the exact rates of the methods that label releases one by one (B8)."""
    n, releases, level = cell["n"], cell["R"], ALPHA / 2
    least = bar(pvalue_table(n, TOLERANCE), level)
    enough = least_passing(reliability_pvalues(releases, TARGET), level / H)
    wrong = (1.0 - TARGET) * pass_rate(cell, 0.0, least)
    return {
        ("uncorrected", "any false label"): 1.0 - (1.0 - wrong) ** (H * releases),
        ("uncorrected", "false validation"): exact_any(
            releases, pass_rate(cell, TARGET, least), enough
        ),
        ("oracle", "false validation"): exact_any(releases, TARGET, enough),
        **exact_ours(cell),
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
    **OURS,
}
MECHANISM_CALIBRATION = Study(
    name="mechanism-calibration",
    also={"two-level": "named, binomial"},
    paper="Table mechanism_calibration, Figure mechanism_control",
    seed=260726,
    repetitions=5000,
    cells=_CALIBRATION_CELLS,
    simulate=calibrate,
    exact=exact_calibration,
    block=1000,
    methods=_METHODS,
    published={
        (_AT, method, metric): Published(
            value=value, digits=digits, repetitions=5000, rate=metric != "power"
        )
        # Four digits where the text has more than the table.
        for method, *pair in (
            ("plug-in", (0.9970, 4), (1.000, 3)),
            ("point rule + binomial", (0.059, 3), (1.000, 3)),
            ("per-release IUT", (0.006, 3), (0.996, 3)),
            ("two-level", (0.0056, 4), (0.9957, 4)),
            ("collective", (0.006, 3), (0.996, 3)),
            ("oracle", (0.025, 3), (1.000, 3)),
        )
        for metric, (value, digits) in zip(("false validation", "power"), pair, strict=True)
    },
)

_SHARES = (0.1, 0.25, 0.5, 0.75, 0.9)
ERROR_SPLIT = Study(
    name="error-split",
    cross=False,  # the share of named mode differs from cell to cell, and sharp has none
    also={"two-level": "named, binomial"},
    paper="Table alpha_allocation",
    seed=2607282,
    repetitions=10_000,
    cells=tuple(
        {"n": 500, "R": 25, "safe": 0.02, "bad": 0.102, "eta": 0.98, "share": share}
        for share in _SHARES
    ),
    simulate=calibrate,
    exact=exact_calibration,
    block=1000,
    methods={name: _METHODS[name] for name in ("two-level", "oracle", *OURS)},
    published={
        (i, "two-level", metric): Published(
            value=value, digits=digits, repetitions=10_000, rate=metric != "power"
        )
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
    also={"inner Holm": "named, binomial"},
    paper="Table near_boundary_inner_correction",
    seed=2607281,
    repetitions=10_000,
    cells=tuple({"n": 500, "R": 200, "safe": 0.02, "bad": bad, "eta": 0.98} for bad in _RISKS),
    simulate=near_boundary,
    exact=exact_near_boundary,
    block=500,
    methods={
        "uncorrected": Status.INVALID,
        "inner Holm": Status.REGISTERED,
        "oracle": Status.ORACLE,
        **OURS,
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
    also={"Holm": "named, binomial"},
    paper="Figure collective_power, Table collective_benchmarks",
    seed=260728,
    repetitions=2000,
    cells=_GRID,
    simulate=collective,
    exact=exact_ours,
    block=1000,
    methods={
        "Holm": Status.REGISTERED,
        "tail-Simes": Status.REGISTERED,
        "tail-Fisher": Status.POST_HOC,
        **OURS,
    },
    published={
        (_SHOWN, method, metric): Published(
            value=value,
            digits=digits,
            repetitions=2000,
            standard_error=error,
            rate=metric == "false validation",
        )
        for method, metric, value, digits, error in (
            ("Holm", "false validation", 0.0, 4, None),
            ("Holm", "power", 0.1266, 4, 0.0039),
            ("Holm", "recognized", 83.29, 2, None),
            ("tail-Simes", "false validation", 0.0005, 4, None),
            ("tail-Simes", "power", 0.6501, 4, 0.0055),
            ("tail-Simes", "recognized", 90.69, 2, None),
            ("tail-Simes", "gain over Holm", 7.40, 2, None),
            ("tail-Fisher", "false validation", 0.0005, 4, None),
            ("tail-Fisher", "power", 0.9035, 4, 0.0036),
            ("tail-Fisher", "recognized", 92.71, 2, None),
            ("tail-Fisher", "gain over Holm", 9.42, 2, None),
        )
    },
)
