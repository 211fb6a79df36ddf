"""Are these other records with the same values, or the same records once more?

Two sets of records that were sampled independently, from one population or from two, may
have values in common. Two things explain that, and only what neither explains is an excess.

1. *Repeats.* Values that two samples have in common, a sample also has twice. Given that a
   value occurs ``c`` times in both together, the number in the second is binomial with some
   chance that differs from value to value and from population to population. So the chance
   of the split ``(a, b)`` is at most ``C(c, b) (b/c)^b (a/c)^a``, whatever the populations;
   for exactly one in the second at most 1/2. And by Cauchy and Schwarz the values that occur
   once in each are at most ``2 sqrt(A B)`` on average, of which A and B occur twice in one.
2. *Few values.* Shop and day are a key: they never repeat, and come again in every table of
   these shops and days. If columns were independent, ``2 sqrt(P Q)`` pairs across would be
   equal, where P and Q are the equal pairs to be expected within, from how many distinct
   values each column has.

Sampling is taken as Poisson; at a fixed size counts are negatively dependent, which only
makes the tails lighter. A copy is found from about 22 records on, whatever the populations;
duplicates that somebody adds on one side to make it look like chance do not help.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import comb, expm1, sqrt

import numpy as np
from numpy.typing import NDArray

LEVEL = 1e-6
"""Chance that records that were sampled apart are taken for the same ones, for two sets."""
SPLITS = 6
"""Values that occur so often in both sets together are judged split by split."""
TRIED = 12
"""Pairs of views with the most values in common, which are judged."""
JOINED = 4_000_000

Values = NDArray[np.uint64]


@dataclass(frozen=True, slots=True, eq=False)
class View:
    """The fingerprints of a set of records over some of their columns, sorted, with counts."""

    values: Values  # (k,) distinct
    counts: NDArray[np.int64]  # (k,)
    size: int  # records
    chance: float  # equal pairs among the records, if columns were independent
    words: str  # over which columns
    thin: int = 1  # of the values, those that this power of two divides are kept

    def thinned(self, thin: int) -> View:
        """Return the view with the values that a larger power of two divides."""
        kept = self.values & np.uint64(thin - 1) == 0
        return View(self.values[kept], self.counts[kept], self.size, self.chance, self.words, thin)

    def repeated(self) -> float:
        """Return the share of records that have a twin in this set."""
        return float(self.counts[self.counts > 1].sum() / max(1, self.counts.sum()))


def view_of(prints: Values, *, chance: float, words: str, thin: int = 1) -> View:
    """Return the view of records with these fingerprints."""
    kept = prints[prints & np.uint64(thin - 1) == 0]
    values, counts = np.unique(kept, return_counts=True)
    return View(values, counts.astype(np.int64), int(prints.size), chance, words, thin)


@dataclass(frozen=True, slots=True, kw_only=True)
class Meeting:
    """How many records of one set have the values of records of another."""

    twins: int
    expected: float  # about, by coincidence
    excess: bool  # more than coincidence explains
    columns: str  # over which columns they agree


def meet(target: Sequence[View], other: Sequence[View]) -> Meeting:
    """Compare two sets of records over all views; the first view is the whole record."""
    if not target or not other:
        return Meeting(twins=0, expected=0.0, excess=False, columns="")
    meeting = compare(target[0], other[0], LEVEL / 2.0)
    if meeting.excess:
        return meeting
    level = LEVEL / 2.0 / (len(target) * len(other))
    further = [compare(target[i], other[j], level) for i, j in _in_common(target, other)]
    return max((one for one in further if one.excess), key=lambda one: one.twins, default=meeting)


def compare(target: View, other: View, level: float) -> Meeting:
    """Compare two sets of records over one set of columns."""
    thin = max(target.thin, other.thin)
    mine, theirs = target.thinned(thin), other.thinned(thin)
    values = np.union1d(mine.values, theirs.values)
    a, b = _aligned(values, theirs), _aligned(values, mine)
    both = (a > 0) & (b > 0)
    twins = min(target.size, int(b[both].sum()) * thin)
    chance = 2.0 * sqrt(target.chance * other.chance) / thin
    excess = (
        bool(both.any())
        and _poisson_tail(int(both.sum()), chance) < level
        and _more_than_repeats(a, b, level)
    )
    seen = mine.repeated() * max(1.0, other.size / max(1, target.size))
    expected = target.size * min(1.0, seen, theirs.repeated())
    return Meeting(
        twins=twins,
        # So many pairs, dealt out at random, have so many different records of the target.
        expected=max(expected, -target.size * expm1(-chance * thin / max(1, target.size))),
        excess=excess,
        columns=target.words,
    )


def _aligned(values: Values, view: View) -> NDArray[np.int64]:
    counts = np.zeros(values.size, dtype=np.int64)
    counts[np.searchsorted(values, view.values)] = view.counts
    return counts


def _more_than_repeats(a: NDArray[np.int64], b: NDArray[np.int64], level: float) -> bool:
    """Return whether values are split between two sets as no two samples would split them."""
    total = a + b
    several = int((total > 1).sum())
    # Half of the level where a copy shows most often: each record once in the target.
    if _binomial_tail(int(((a > 0) & (b == 1)).sum()), several, 0.5) < level / 2.0:
        return True
    kinds = [(c - k, k) for c in range(2, SPLITS + 1) for k in range(1, c)]
    level /= 2.0 * (len(kinds) + 2)
    if _binomial_tail(int(((b > 0) & (a == 1)).sum()), several, 0.5) < level:
        return True
    for theirs, mine in kinds:
        c = theirs + mine
        most = comb(c, mine) * (mine / c) ** mine * (theirs / c) ** theirs
        count = int(((a == theirs) & (b == mine)).sum())
        if _binomial_tail(count, int((total == c).sum()), most) < level:
            return True
    within = (int(((a == 2) & (b == 0)).sum()), int(((a == 0) & (b == 2)).sum()))
    most = 2.0 * sqrt(_poisson_upper(within[0], level / 3) * _poisson_upper(within[1], level / 3))
    return _poisson_tail(int(((a == 1) & (b == 1)).sum()), most) < level / 3


def _binomial_tail(count: int, trials: int, chance: float) -> float:
    from scipy.stats import binom

    return 1.0 if count <= trials * chance else float(binom.sf(count - 1, trials, chance))


def _poisson_tail(count: int, mean: float) -> float:
    from scipy.stats import poisson

    return 1.0 if count <= mean else float(poisson.sf(count - 1, mean))


def _poisson_upper(count: int, level: float) -> float:
    """Return the mean above which so small a count has less than this chance (Garwood)."""
    from scipy.stats import chi2

    return float(chi2.isf(level, 2 * (count + 1)) / 2.0)


def _in_common(target: Sequence[View], other: Sequence[View]) -> list[tuple[int, int]]:
    """Return the pairs of views that have the most values in common, besides the first two."""
    mine, theirs = _flat(target), _flat(other)
    hits = np.isin(mine[0], theirs[0])
    mine = (mine[0][hits], mine[1][hits])
    for step in range(64):  # records of a few values agree in many views: look at fewer of them
        left = np.searchsorted(theirs[0], mine[0], "left")
        times = np.searchsorted(theirs[0], mine[0], "right") - left
        if int(times.sum()) <= JOINED:
            break
        kept = [values & np.uint64((2 << step) - 1) == 0 for values, _ in (mine, theirs)]
        mine = (mine[0][kept[0]], mine[1][kept[0]])
        theirs = (theirs[0][kept[1]], theirs[1][kept[1]])
    starts = np.repeat(left - np.concatenate([[0], np.cumsum(times)[:-1]]), times)
    partner = theirs[1][starts + np.arange(int(times.sum()))]
    pairs = np.repeat(mine[1], times) * len(other) + partner
    numbers, counts = np.unique(pairs, return_counts=True)
    views = [(int(n) // len(other), int(n) % len(other)) for n in numbers]
    weights = [
        int(count) * max(target[i].thin, other[j].thin)
        for (i, j), count in zip(views, counts, strict=True)
    ]
    order = sorted(range(len(views)), key=lambda k: (-weights[k], views[k]))
    return [views[k] for k in order if views[k] != (0, 0)][:TRIED]


def _flat(views: Sequence[View]) -> tuple[Values, NDArray[np.int64]]:
    """Return all values of all views, sorted, and the view that each belongs to."""
    values = np.concatenate([view.values for view in views])
    labels = np.repeat(np.arange(len(views)), [view.values.size for view in views])
    order = np.argsort(values, kind="stable")
    return values[order], labels[order]
