"""Figures that the paper prints about a whole grid: a largest rate, how many cells tie.

No cell of theirs was printed, so nothing is compared cell by cell. Each figure has a test that
needs no cell: it holds whatever the rates of the cells are, and sees only large differences.
A row says between which values it would agree.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, floor
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binom, hypergeom

from reproduction.studies.rows import Row
from reproduction.studies.study import Array, Published, Status

Counts = NDArray[np.int64]

OVER, AGREES = "over", "agrees"
"""What a row about a whole grid has for a cell: which cells, and the values that agree."""
ALONE = 0.05
"""Level at which a figure by itself would differ."""


class GridFigure(Protocol):
    """A published figure about the cells of one study or of several."""

    @property
    def studies(self) -> tuple[str, ...]:
        """The studies whose cells it is about; it is shown with the last."""

    def row(self, rows: Sequence[Row]) -> Row | None:
        """Return the figure of these rows, ``None`` if some of its rows are not there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LargestRate:
    """The largest error rate of some methods over all cells."""

    studies: tuple[str, ...]
    cells: int
    methods: tuple[str, ...]
    metric: str
    published: Published
    at_most: float = 1.0  # reliability of the cells in which validating is an error

    def row(self, rows: Sequence[Row]) -> Row | None:
        """Return the largest rate, and the chance that it goes with the printed one."""
        own = [
            row
            for row in rows
            if row.study in self.studies
            and row.method in self.methods
            and row.metric == self.metric
            and row.cell.get("eta", 0.0) <= self.at_most
        ]
        n = {row.repetitions for row in own}
        if len(own) < self.cells * len(self.methods) or len(n) > 1:
            return None
        (repetitions,) = n
        value = max(row.value for row in own)
        counts = np.arange(repetitions + 1)
        each = self.p_agree(counts, repetitions, len(own))
        return _row(
            self, method=", ".join(self.methods), own=own, value=value, published=self.published,
            metric=f"largest rate of {self.metric}", p=float(each[round(value * repetitions)]),
            agrees=_range(counts[each > ALONE] / repetitions),
        )  # fmt: skip

    def p_agree(self, largest: Counts, n: int, rates: int) -> Array:
        """Return the chance of a difference as large, for every largest count of ours.

        Where ours is largest, theirs is at most the printed count, and where theirs is, ours is
        at most the largest: so the exact test of the two maxima, each way, has a p-value no
        smaller than the least one over all cells, which Bonferroni bounds.
        """
        m = self.published.repetitions
        assert m is not None  # a rate is simulated
        half = 0.5 * 10.0**-self.published.digits * (1 + 1e-9)
        high = floor((self.published.value + half) * m + 1e-9)
        low = max(0, ceil((self.published.value - half) * m - 1e-9))
        above = hypergeom.sf(largest - 1, n + m, largest + high, n) * rates
        below = hypergeom.cdf(largest, n + m, largest + low, n) * rates
        return np.asarray(np.minimum(1.0, 2.0 * np.minimum(above, below)))


@dataclass(frozen=True, slots=True, kw_only=True)
class CellsWithSign:
    """In how many cells a difference of two methods is 0, or below it."""

    studies: tuple[str, ...]
    cells: int
    method: str
    metric: str
    words: str
    sign: int
    published: Published
    compared: bool = True  # False: it follows from a figure that is

    def row(self, rows: Sequence[Row]) -> Row | None:
        """Return the number of cells, and the chance that it goes with the printed one."""
        own = [
            row
            for row in rows
            if row.study in self.studies and (row.method, row.metric) == (self.method, self.metric)
        ]
        if len(own) < self.cells:
            return None
        found = sum(int(np.sign(row.value)) == self.sign for row in own)
        # Ties are likelier with fewer repetitions: runs of another length are not compared.
        alike = all(row.repetitions == self.published.repetitions for row in own)
        compared = self.compared and alike
        agree = [k for k in range(self.cells + 1) if self.p_agree(k) > ALONE]
        return _row(
            self, method=self.method, own=own, metric=self.words, value=float(found),
            p=self.p_agree(found) if compared else None,
            agrees=_range(np.array(agree)) if compared else "", published=self.published,
        )  # fmt: skip

    def p_agree(self, found: int) -> float:
        """Return the chance of a difference as large between two runs of one law.

        A cell that goes one way in one run and another way in the other is as likely to do it
        either way round, so the difference is that of so many fair coins; the number of coins
        that makes it likeliest is taken.
        """
        gap = abs(found - round(self.published.value))
        coins = np.arange(gap, self.cells + 1)
        # heads - tails >= gap: at least (coins + gap)/2 heads.
        one_side = binom.sf(np.ceil((coins + gap) / 2) - 1, coins, 0.5)
        return float(min(1.0, 2.0 * np.max(one_side)))


def _range(values: Array | Counts) -> str:
    """Return the least and the largest of these values."""
    return f"{values.min():g} to {values.max():g}"


def _row(
    figure: GridFigure, *, method: str, own: Sequence[Row], metric: str, agrees: str,
    value: float, p: float | None, published: Published,
) -> Row:  # fmt: skip
    cells = len({(row.study, repr(sorted(row.cell.items()))) for row in own})
    over = f"{cells} cells of {' and '.join(figure.studies)}"
    return Row(
        study=figure.studies[-1],
        cell={OVER: over, **({AGREES: agrees} if agrees else {})},
        method=method,
        status=Status.REGISTERED.value,
        metric=metric,
        value=value,
        standard_error=None,
        wilson=None,
        upper95=None,
        repetitions=own[0].repetitions,
        published=published.value,
        exact=None,
        p_agree=p,
    )


FIGURES: tuple[GridFigure, ...] = (
    LargestRate(
        studies=("collective-grid",), cells=108, methods=("Holm", "tail-Simes"),
        metric="false validation", published=Published(value=0.018, digits=3, repetitions=2000),
    ),
    LargestRate(
        studies=("mode-comparison", "mode-comparison-high-signal"), cells=27,
        methods=("named", "direct", "hybrid"), metric="validated", at_most=0.8,
        published=Published(value=0.050, digits=3, repetitions=500),
    ),
    *(
        CellsWithSign(
            studies=("mode-comparison-high-signal",), cells=45, method="direct",
            metric="gain over named", words=words, sign=sign, compared=sign == 0,
            published=Published(value=value, digits=0, repetitions=500),
        )
        for words, sign, value in (
            ("cells in which it ties with named", 0, 9),
            ("cells in which it loses to named, the others", -1, 36),
        )
    ),
)  # fmt: skip


def grid_rows(rows: Sequence[Row]) -> list[Row]:
    """Return a row for every figure about a whole grid whose cells are all there."""
    return [row for figure in FIGURES if (row := figure.row(rows)) is not None]


def about_grid(row: Row) -> bool:
    """Whether a row is about a whole grid and not about one cell."""
    return OVER in row.cell
