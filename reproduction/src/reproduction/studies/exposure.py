"""Exact claims about exposure, beside the paper's paired Hoeffding test (theory section 6, App. V).

An attack flags fresh records at a rate and members at that rate plus its advantage. Ours reads how
many of ``n`` fresh records are flagged, against the share of all members; the paper pairs each of
them with a member and tests the mean of ``n`` differences in [-1, 1] by Hoeffding's inequality.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from math import log, sqrt

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binom, poisson

from proxyguard.exact.exposure import advantage_pvalues
from proxyguard.exact.mean import hoeffding_pvalue
from reproduction.studies.study import (
    Array,
    Cell,
    Methods,
    Metrics,
    Outcome,
    Published,
    Status,
    Study,
    Wanted,
    computed,
    tally,
)

FALSE_ALARMS = 0.05
LEVELS = {"": 0.05, ", .05/12": 0.05 / 12, ", .05/48": 0.05 / 48}
"""By the end of a method's name: alone, and Holm's first step over 12 releases and 48 attacks."""
RANKS = np.arange(1, 401) / 400
"""The share of 400 members that each of their scores flags."""
PEAK = 0.5
"""Where an advantage that has one peak has it: at the median member."""
ONE, AGAINST, EVERY, DESIGN = "one threshold", "violation", "every threshold", "the paper's design"
EXACT, PAIRED = "exact", "paired Hoeffding"
SUM = "chance, by sums"
HIGHEST, LOWEST = "largest mean that validates", "least mean that violates, .05/48"

Counts = NDArray[np.int64]


def threshold_rate(cell: Cell) -> float:
    """Return ``phi`` at the one threshold that single tests look at."""
    peaked = cell["claim"] == EVERY and cell["advantage"] > 0
    return PEAK - cell["advantage"] if peaked else FALSE_ALARMS


def rates_of(cell: Cell) -> Array:
    """Return ``phi`` at every member's score: no leak, or an advantage with one peak."""
    return np.asarray(RANKS - 2.0 * cell["advantage"] * np.minimum(RANKS, 1.0 - RANKS))


def level_of(method: str) -> float:
    """Return the level of a method, by the end of its name."""
    return LEVELS[method.removeprefix(EXACT).removeprefix(PAIRED).removeprefix(EVERY)]


@cache
def exact_table(n: int, share: float, ceiling: float, level: float, against: bool) -> Array:
    """Return for every number of flagged records whether the exact test decides."""
    return np.asarray(advantage_pvalues(np.arange(n + 1), n, share, ceiling)[int(against)] <= level)


@cache
def paired_table(n: int, ceiling: float, level: float, against: bool) -> Array:
    """Return for every sum of differences, ``-n`` to ``n``, whether the paper's test decides."""
    mean, limit = (np.arange(-n, n + 1) / n + 1.0) / 2.0, (ceiling + 1.0) / 2.0
    pvalues = (
        hoeffding_pvalue(1.0 - mean, n, 1.0 - limit) if against
        else hoeffding_pvalue(mean, n, limit)
    )  # fmt: skip
    return np.asarray(pvalues <= level)


@cache
def needed(n: int, ceiling: float, level: float) -> Counts:
    """Return the fewest flagged records that validate at every member's score, by bisection."""
    low, high = np.full(RANKS.size, -1), np.full(RANKS.size, n)
    while (high - low > 1).any():
        middle = (low + high + 1) // 2
        passes = advantage_pvalues(middle, n, RANKS, ceiling)[0] <= level
        low, high = np.where(passes, low, middle), np.where(passes, middle, high)
    return high


def exposure(cell: Cell, rng: np.random.Generator, repetitions: int, wanted: Wanted) -> Outcome:
    """Return how often each test decides, and what its decision takes."""
    n, rate = cell["n"], threshold_rate(cell)
    paired = rng.binomial(n, rate + cell["advantage"], repetitions)
    curve: Counts | None = None
    if cell["claim"] == EVERY:
        steps = np.diff(rates_of(cell), prepend=0.0, append=1.0)
        curve = np.cumsum(rng.multinomial(n, np.maximum(steps, 0.0), repetitions), axis=1)[:, :-1]
        flagged = curve[:, place_of(cell)]
    else:
        flagged = rng.binomial(n, rate, repetitions)
    return tally(
        {
            name: partial(_with_sums, cell, name, metrics, repetitions)
            for name, metrics in decided(cell, flagged, paired, curve).items()
        },
        wanted,
    )


def place_of(cell: Cell) -> int:
    """Return the member's score at which single tests look, among all of them."""
    return int(np.argmin(np.abs(RANKS - threshold_rate(cell) - cell["advantage"])))


def decided(cell: Cell, flagged: Counts, paired: Counts, curve: Counts | None) -> Methods:
    """Return which repetitions each test decides.

    Parameters
    ----------
    cell
        The cell.
    flagged, paired
        Flagged records, and flagged members of the pairs, of each repetition.
    curve
        Flagged records at every member's score.
    """
    n, ceiling, metric = cell["n"], cell["ceiling"], metric_of(cell)
    share, against = threshold_rate(cell) + cell["advantage"], cell["claim"] == AGAINST

    def by(method: str) -> Metrics:
        level = level_of(method)
        if method.startswith(EXACT):
            return {metric: exact_table(n, share, ceiling, level, against)[flagged]}
        if method.startswith(PAIRED):
            return {metric: paired_table(n, ceiling, level, against)[paired - flagged + n]}
        if curve is None:
            raise ValueError(f"{method} needs the counts at every score")
        return {metric: np.all(curve >= needed(n, ceiling, level), axis=1)}

    return {method: partial(by, method) for method in METHODS_OF[cell["claim"]]}


METHODS_OF = {
    ONE: (EXACT, f"{EXACT}, .05/12", PAIRED, f"{PAIRED}, .05/12"),
    AGAINST: (f"{EXACT}, .05/48", f"{PAIRED}, .05/48"),
    EVERY: (EXACT, EVERY, PAIRED),
    DESIGN: (f"{EXACT}, .05/12", f"{PAIRED}, .05/12"),
}


def metric_of(cell: Cell) -> str:
    """Return what a decision is in this cell: right or wrong."""
    if cell["claim"] == AGAINST:
        return "violation" if cell["advantage"] > cell["ceiling"] else "false violation"
    return "power" if cell["advantage"] < cell["ceiling"] else "false validation"


def _with_sums(cell: Cell, name: str, metrics: Callable[[], Metrics], repetitions: int) -> Metrics:
    """Return the decisions, and what is computed: their chance, and what the paper's test asks."""
    found = dict(metrics())
    if cell["claim"] != EVERY:
        found[SUM] = computed(chance(cell, name), repetitions)
    if cell["claim"] == DESIGN and name.startswith(PAIRED):
        n, ceiling = cell["n"], cell["ceiling"]
        found[HIGHEST] = computed(ceiling - sqrt(-2 * log(LEVELS[", .05/12"]) / n), repetitions)
        found[LOWEST] = computed(ceiling + sqrt(-2 * log(LEVELS[", .05/48"]) / n), repetitions)
    return found


def chance(cell: Cell, method: str) -> float:
    """Return the exact chance that a test decides, as a sum over counts."""
    n, ceiling, rate = cell["n"], cell["ceiling"], threshold_rate(cell)
    share, against, level = rate + cell["advantage"], cell["claim"] == AGAINST, level_of(method)
    counts = np.arange(n + 1)
    if method.startswith(EXACT):
        table = exact_table(n, share, ceiling, level, against)
        return float(binom.pmf(counts, n, rate)[table].sum())
    if method.startswith(PAIRED):
        table = paired_table(n, ceiling, level, against)
        differences = np.convolve(binom.pmf(counts, n, share), binom.pmf(counts, n, rate)[::-1])
        return float(differences[table].sum())
    return never_below(rates_of(cell), needed(n, ceiling, level), n)


def never_below(rates: Array, counts: Counts, n: int) -> float:
    """Return the chance that at every threshold at least so many of ``n`` records are flagged.

    Between thresholds the counts are independent Poisson counts, given that all are ``n``.
    """
    mass = np.zeros(n + 1)
    mass[0] = 1.0
    for step, least in zip(np.diff(rates, prepend=0.0), counts, strict=True):
        mean = n * max(step, 0.0)
        few = np.arange(int(mean + 20 * sqrt(mean) + 40))
        mass = np.convolve(mass, poisson.pmf(few, mean))[: n + 1]
        mass[:least] = 0.0
    rest = poisson.pmf(n - np.arange(n + 1), n * max(0.0, 1.0 - rates[-1]))
    return float(mass @ rest / poisson.pmf(n, n))


def exact_rates(cell: Cell) -> dict[tuple[str, str], float]:
    """Return the exact rate of every method."""
    return {
        (method, metric_of(cell)): min(1.0, chance(cell, method))
        for method in METHODS_OF[cell["claim"]]
    }


# By n: at .05, then at .05/12, for the advantages 0, .01, .02 and .03.
_VALIDATED = {
    54: ((0.94, 0.51, 0.28, 0.13), (0.94, 0.28, 0.05, 0.02)),
    250: ((1, 0.99, 0.81, 0.48), (1, 0.94, 0.48, 0.19)),
    500: ((1, 1, 0.98, 0.69), (1, 1, 0.87, 0.37)),
    1000: ((1, 1, 1, 0.94), (1, 1, 0.99, 0.74)),
    2000: ((1, 1, 1, 1.00), (1, 1, 1, 0.97)),
}
_ADVANTAGES = (0.0, 0.01, 0.02, 0.03)
# By n: at .05/48, for the advantages .10, .15, .20 and .30.
_VIOLATED = {
    54: (0, 0.06, 0.49, 0.98),
    100: (0.04, 0.44, 0.94, 1),
    250: (0.40, 0.99, 1, 1),
    500: (0.87, 1, 1, 1),
}
_LEAKS = (0.10, 0.15, 0.20, 0.30)
_EVERY = {0.05: (0.09, 0.29, 0.75, 0.98), 0.10: (0.73, 0.99, 1.0, 1.0)}
_SIZES = (250, 500, 1000, 2000)
# By pairs: the largest mean difference that passes Holm's first step, and the least that fails.
_DESIGNS = {27: (-0.587, 0.763), 100: (-0.281, 0.421), 250: (-0.159, 0.284)}


def _cell(claim: str, n: int, advantage: float, ceiling: float = 0.05) -> Cell:
    return {"claim": claim, "n": n, "advantage": advantage, "ceiling": ceiling}


CELLS: tuple[Cell, ...] = (
    *(_cell(ONE, n, advantage) for n in _VALIDATED for advantage in (*_ADVANTAGES, 0.05)),
    *(_cell(AGAINST, n, advantage) for n in _VIOLATED for advantage in (0.05, *_LEAKS)),
    *(_cell(EVERY, n, 0.0, ceiling) for ceiling in _EVERY for n in _SIZES),
    _cell(EVERY, 500, 0.10, 0.10),
    *(_cell(DESIGN, n, 0.0) for n in _DESIGNS),
)


def _published() -> dict[tuple[int, str, str], Published]:
    found = {}

    def put(cell: Cell, method: str, metric: str, printed: Published) -> None:
        found[CELLS.index(cell), method, metric] = printed

    for n, rows in _VALIDATED.items():
        for end, row in zip(("", ", .05/12"), rows, strict=True):
            for advantage, value in zip(_ADVANTAGES, row, strict=True):
                printed = Published(value=value, digits=2, rate=False)
                put(_cell(ONE, n, advantage), EXACT + end, SUM, printed)
        for advantage in _ADVANTAGES if n <= 500 else ():
            put(_cell(ONE, n, advantage), PAIRED, SUM, Published(value=0, digits=2, rate=False))
    put(_cell(ONE, 1000, 0.0), PAIRED, SUM, Published(value=0.002, digits=3, rate=False))
    for n, row in _VIOLATED.items():
        for advantage, value in zip(_LEAKS, row, strict=True):
            printed = Published(value=value, digits=2, rate=False)
            put(_cell(AGAINST, n, advantage), f"{EXACT}, .05/48", SUM, printed)
    for ceiling, row in _EVERY.items():
        for n, value in zip(_SIZES, row, strict=True):
            printed = Published(value=value, digits=2, repetitions=400)
            put(_cell(EVERY, n, 0.0, ceiling), EVERY, "power", printed)
    for n, limits in _DESIGNS.items():
        for metric, value in zip((HIGHEST, LOWEST), limits, strict=True):
            printed = Published(value=value, digits=3, rate=False)
            put(_cell(DESIGN, n, 0.0), f"{PAIRED}, .05/12", metric, printed)
    return found


EXPOSURE = Study(
    name="exposure",
    own=True,
    paper="theory section 6; App. V",
    seed=8206,
    repetitions=2000,
    cells=CELLS,
    simulate=exposure,
    exact=exact_rates,
    methods={
        EXACT: Status.OURS,
        f"{EXACT}, .05/12": Status.OURS,
        f"{EXACT}, .05/48": Status.OURS,
        EVERY: Status.OURS,
        PAIRED: Status.REGISTERED,
        f"{PAIRED}, .05/12": Status.REGISTERED,
        f"{PAIRED}, .05/48": Status.REGISTERED,
    },
    published=_published(),
    differs=(
        "Chances by sums are compared to the last printed digit. Those for every threshold came "
        "from a simulation of unknown size, taken as 400. The size that was printed for a law with "
        "one peak, .026, is not compared: the height of its peak is not known."
    ),
)
