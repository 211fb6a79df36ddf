"""B5, B8, B9, B10: validating mechanisms whose releases each have a batch of their own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fractions import Fraction
from functools import cache, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binom

from proxyguard.exact.binomial import upper_tail
from proxyguard.studies.counts import (
    Array,
    CodeLaw,
    Integers,
    bar,
    below,
    fisher_count,
    holm_bars,
    holm_count,
    labelled,
    largest_count_law,
    least_count_score,
    mixed_law,
    point_passes,
    pvalue_table,
    reliability_pvalues,
    sharp_pvalues,
    sharp_threshold,
    simes_count,
    unlabelled_law,
    validated_mechanisms,
)
from proxyguard.studies.study import (
    Cell,
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

H, TOLERANCE, TARGET, ALPHA = 5, 0.10, 0.8, 0.05
REQUIREMENTS = 3
COUNT_SHARE = Fraction(9, 10)
"""Share of the e-value count's error that pays for the target; draws have the rest."""


Recognize = Callable[[Integers, Array, float], Integers]
Decide = Callable[[NDArray[Any]], Integers]
"""From the releases of mechanisms, (releases, mechanisms, repetitions), to how many validate."""


def _laws(cell: Cell, law: Callable[..., CodeLaw]) -> dict[str, CodeLaw]:
    """Return the laws of boundary mechanisms and of valid ones."""
    etas = {"boundary": TARGET, "valid": cell["eta"]}
    return {name: law(cell["n"], TOLERANCE, eta, _risks(cell)) for name, eta in etas.items()}


def _risks(cell: Cell) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return the risks of a valid release's requirements, and of an invalid one's."""
    safe = cell["safe"]
    return (safe, safe, safe), (cell["bad"], safe, safe)


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


def _outer(recognized: Integers, releases: int, level: float) -> Integers:
    """Return how many mechanisms the binomial test validates, Holm over the mechanisms."""
    return validated_mechanisms(recognized, reliability_pvalues(releases, TARGET), level)


def _sharp(counts: Integers, table: Array) -> Integers:
    """Return how many mechanisms the sharp certificate validates, Holm over the mechanisms."""
    releases = len(counts)
    threshold = sharp_threshold(releases, TARGET, ALPHA / H)
    if threshold == 0.0:
        return np.zeros(counts.shape[-1], dtype=np.int64)
    scores = below(counts, bar(table, threshold))
    return validated_mechanisms(scores, sharp_pvalues(releases, TARGET, threshold), ALPHA)


def _count(counts: Integers, table: Array) -> Integers:
    """Return how many mechanisms the e-value count validates, at local levels ``alpha/H``."""
    releases = len(counts)
    threshold = sharp_threshold(releases, TARGET, ALPHA / H)
    local = Fraction(str(ALPHA)) / H
    least = least_count_score(
        releases, TARGET, threshold, COUNT_SHARE * local, (1 - COUNT_SHARE) * local
    )
    scores = below(counts, bar(table, threshold))
    return np.asarray(np.count_nonzero(scores >= least, axis=0))


@cache
def violation_bars(
    n: int, releases: int, tolerance: float, target: float, beta: float
) -> tuple[int, int] | None:
    """Return the least violating count, and how many of them show unreliability, if any can.

    Theory section 4: a release violates when ``J`` times the least violation p-value is at most
    ``t``, and that p-value belongs to the largest count.
    """
    threshold = sharp_threshold(releases, 1.0 - target, beta)
    if threshold == 0.0:
        return None
    violating = upper_tail(np.arange(n + 1), n, tolerance) <= threshold / REQUIREMENTS
    shows = sharp_pvalues(releases, 1.0 - target, threshold) <= beta
    return int(np.argmax(violating)), int(np.argmax(shows))


def _violation(counts: Integers, n: int) -> Integers:
    """Return how many mechanisms the sharp violation certificate says are unreliable.

    Each spends ``beta/H``.
    """
    bars = violation_bars(n, len(counts), TOLERANCE, TARGET, ALPHA / H)
    if bars is None:
        return np.zeros(counts.shape[-1], dtype=np.int64)
    least, enough = bars
    violating = len(counts) - below(counts, least).astype(np.int64)
    return np.asarray(np.count_nonzero(violating >= enough, axis=0))


def _both(blocks: Mapping[str, NDArray[Any]], decide: Decide) -> Metrics:
    """Return false validation of boundary mechanisms and power for valid ones."""
    return {
        "false validation": decide(blocks["boundary"]) > 0,
        "power": decide(blocks["valid"]) / H,
    }


def _oracle(valid: Mapping[str, NDArray[np.bool_]], level: float) -> Metrics:
    """Return the metrics of a test that knows which releases are valid."""
    return _both(valid, lambda v: _outer(np.count_nonzero(v, axis=0), len(v), level))


def _ours(blocks: Mapping[str, Integers], n: int) -> dict[str, Callable[[], Metrics]]:
    """Return the methods that the paper lacks, the same in every study of mechanisms."""
    table = pvalue_table(n, TOLERANCE)
    return {
        "sharp, binomial": lambda: _both(blocks, partial(_sharp, table=table)),
        "count, binomial": lambda: _both(blocks, partial(_count, table=table)),
        "sharp violation": lambda: {"false violation": _violation(blocks["valid"], n) > 0},
    }


def calibrate(cell: Cell, rng: np.random.Generator, repetitions: int, wanted: Wanted) -> Outcome:
    """Return false validation and power of every way to recognize releases (B5, B9)."""
    n, releases, share = cell["n"], cell["R"], cell["share"]
    table, passes = pvalue_table(n, TOLERANCE), point_passes(n, TOLERANCE) + 1
    inner, outer = ALPHA * share, ALPHA * (1 - share)
    counts, valid = _labelled_blocks(rng, cell, repetitions)

    def plug_in() -> Metrics:
        return _both(
            counts, lambda c: np.count_nonzero(below(c, passes) / releases >= TARGET, axis=0)
        )

    def tested(recognize: Callable[[Integers], Integers], level: float) -> Metrics:
        return _both(counts, lambda c: _outer(recognize(c), releases, level))

    return tally(
        {
            "plug-in": plug_in,
            "point rule + binomial": lambda: tested(lambda c: below(c, passes), ALPHA),
            "per-release IUT": lambda: tested(lambda c: below(c, bar(table, inner)), outer),
            "two-level": lambda: tested(lambda c: holm_count(c, table, inner / H), outer),
            "collective": lambda: tested(lambda c: simes_count(c, table, inner / H), outer),
            "oracle": lambda: _oracle(valid, ALPHA),
            **_ours(counts, n),
        },
        wanted,
    )


def near_boundary(
    cell: Cell, rng: np.random.Generator, repetitions: int, wanted: Wanted
) -> Outcome:
    """Return false release labels and false mechanism validation near the limit (B8)."""
    n, releases = cell["n"], cell["R"]
    table, level = pvalue_table(n, TOLERANCE), ALPHA / 2
    counts, valid = _labelled_blocks(rng, cell, repetitions)
    boundary = counts["boundary"]

    @cache
    def least_invalid() -> Integers:
        # Some invalid release is recognized exactly when the one with the least count is.
        largest = np.iinfo(boundary.dtype).max
        return np.asarray(np.where(valid["boundary"], largest, boundary).min(axis=(0, 1)))

    def marked(bars: Callable[[Integers], Integers | int]) -> Metrics:
        return {
            "any false label": least_invalid() < bars(boundary),
            **_both(counts, lambda c: _outer(below(c, bars(c)), releases, level)),
        }

    def by_holm(c: Integers) -> Integers:
        # One family over all releases of all mechanisms.
        return holm_bars(c, table, level, (0, 1))

    return tally(
        {
            "uncorrected": lambda: marked(lambda c: bar(table, level)),
            "inner Holm": lambda: marked(by_holm),
            "oracle": lambda: {"any false label": np.zeros(repetitions), **_oracle(valid, level)},
            **_ours(counts, n),
        },
        wanted,
    )


def collective(cell: Cell, rng: np.random.Generator, repetitions: int, wanted: Wanted) -> Outcome:
    """Return power and recognized counts of Holm, tail-Simes and tail-Fisher (B10)."""
    n, releases = cell["n"], cell["R"]
    table, level = pvalue_table(n, TOLERANCE), ALPHA / 2
    counts = _blocks(rng, cell, repetitions)

    @cache
    def recognized(recognize: Recognize, block: str) -> Integers:
        return recognize(counts[block], table, level / H)

    def combined(recognize: Recognize) -> dict[str, Array]:
        outer = {block: _outer(recognized(recognize, block), releases, level) for block in counts}
        return {
            "false validation": np.asarray(outer["boundary"] > 0),
            "power": outer["valid"] / H,
            "recognized": recognized(recognize, "valid").mean(axis=0),
        }

    def gaining(recognize: Recognize) -> dict[str, Array]:
        found = combined(recognize)
        by_holm = recognized(holm_count, "valid").mean(axis=0)
        return {**found, "gain over Holm": found["recognized"] - by_holm}

    return tally(
        {
            "Holm": lambda: combined(holm_count),
            "tail-Simes": lambda: gaining(simes_count),
            "tail-Fisher": lambda: gaining(fisher_count),
            **_ours(counts, n),
        },
        wanted,
    )


def _pass_rate(cell: Cell, eta: float, least: int) -> float:
    """Return the chance that the largest count of a release lies below a bar."""
    good, bad = (largest_count_law(cell["n"], one) for one in _risks(cell))
    return float(eta * good[least - 1] + (1.0 - eta) * bad[least - 1]) if least > 0 else 0.0


def _exact_any(releases: int, rate: float, least: int) -> float:
    """Return the chance that one of ``H`` independent mechanisms reaches a count."""
    one = float(binom.sf(least - 1, releases, rate))
    return -float(np.expm1(H * np.log1p(-one))) if one < 1.0 else 1.0


def _least_passing(pvalues: Array, level: float) -> int:
    """Return the least count whose p-value is at most a level, one too many if there is none."""
    passes = pvalues <= level
    return int(np.argmax(passes)) if passes.any() else pvalues.size


def _exact_ours(cell: Cell) -> dict[tuple[str, str], float]:
    """Return the exact rates of our methods: each is a binomial tail of one score."""
    n, releases = cell["n"], cell["R"]
    table, found = pvalue_table(n, TOLERANCE), {}
    threshold = sharp_threshold(releases, TARGET, ALPHA / H)
    if threshold > 0.0:
        least = _least_passing(sharp_pvalues(releases, TARGET, threshold), ALPHA / H)
        rate = _pass_rate(cell, TARGET, bar(table, threshold))
        found["sharp, binomial", "false validation"] = _exact_any(releases, rate, least)
    bars = violation_bars(n, releases, TOLERANCE, TARGET, ALPHA / H)
    if bars is not None:
        rate = 1.0 - _pass_rate(cell, cell["eta"], bars[0])
        found["sharp violation", "false violation"] = _exact_any(releases, rate, bars[1])
    return found


def exact_calibration(cell: Cell) -> dict[tuple[str, str], float]:
    """Return exact false validation where releases are recognized one by one (B5, B9).

    Holm over mechanisms validates some exactly when Bonferroni does.
    """
    n, releases, share = cell["n"], cell["R"], cell["share"]
    table, outer = pvalue_table(n, TOLERANCE), reliability_pvalues(releases, TARGET)
    point = _pass_rate(cell, TARGET, point_passes(n, TOLERANCE) + 1)
    single = _pass_rate(cell, TARGET, bar(table, ALPHA * share))
    plenty = int(np.argmax(np.arange(releases + 1) / releases >= TARGET))
    whole, part = ALPHA / H, ALPHA * (1 - share) / H
    rates = {
        "plug-in": (point, plenty),
        "point rule + binomial": (point, _least_passing(outer, whole)),
        "per-release IUT": (single, _least_passing(outer, part)),
        "oracle": (TARGET, _least_passing(outer, whole)),
    }
    return {
        **{
            (method, "false validation"): _exact_any(releases, rate, least)
            for method, (rate, least) in rates.items()
        },
        **_exact_ours(cell),
    }


def exact_near_boundary(cell: Cell) -> dict[tuple[str, str], float]:
    """Return the exact rates of the methods that label releases one by one (B8)."""
    n, releases, level = cell["n"], cell["R"], ALPHA / 2
    least = bar(pvalue_table(n, TOLERANCE), level)
    enough = _least_passing(reliability_pvalues(releases, TARGET), level / H)
    wrong = (1.0 - TARGET) * _pass_rate(cell, 0.0, least)
    return {
        ("uncorrected", "any false label"): 1.0 - (1.0 - wrong) ** (H * releases),
        ("uncorrected", "false validation"): _exact_any(
            releases, _pass_rate(cell, TARGET, least), enough
        ),
        ("oracle", "false validation"): _exact_any(releases, TARGET, enough),
        **_exact_ours(cell),
    }


_CALIBRATION_CELLS = tuple(
    {**cell, "safe": 0.02, "bad": 0.12, "eta": 0.98, "share": 0.5}
    for cell in grid(n=(100, 250, 500), R=(10, 25, 50, 75))
)
_AT = place(_CALIBRATION_CELLS, n=500, R=50)
_OURS = {
    "sharp, binomial": Status.OURS,
    "count, binomial": Status.OURS,
    "sharp violation": Status.OURS,
}
_METHODS = {
    "plug-in": Status.INVALID,
    "point rule + binomial": Status.INVALID,
    "per-release IUT": Status.INVALID,
    "two-level": Status.REGISTERED,
    "collective": Status.REGISTERED,
    "oracle": Status.ORACLE,
    **_OURS,
}
MECHANISM_CALIBRATION = Study(
    name="mechanism-calibration",
    paper="Table mechanism_calibration, Figure mechanism_control",
    seed=260726,
    repetitions=5000,
    cells=_CALIBRATION_CELLS,
    simulate=calibrate,
    exact=exact_calibration,
    block=1000,
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
    exact=exact_calibration,
    block=1000,
    methods={name: _METHODS[name] for name in ("two-level", "oracle", *_OURS)},
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
    exact=exact_near_boundary,
    block=500,
    methods={
        "uncorrected": Status.INVALID,
        "inner Holm": Status.REGISTERED,
        "oracle": Status.ORACLE,
        **_OURS,
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
    exact=_exact_ours,
    block=1000,
    methods={
        "Holm": Status.REGISTERED,
        "tail-Simes": Status.REGISTERED,
        "tail-Fisher": Status.POST_HOC,
        **_OURS,
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
