"""A Gaussian copula of mixed columns: the margins of the source, tied by normal correlations.

Every column is a monotone function of a standard normal variable, its latent one: a number by its
quantiles, a category by the interval that its share cuts out of the line. All latent variables are
jointly normal. What the copula has of a table is each column's own law, and of every pair one
number, its correlation; an interaction of three columns it has not, nor a dependence that is not
monotone.

How correlations are found
 * A value's score is the mean of its latent variable, given the value: ``(phi(a) - phi(b)) / p``
   for an interval ``(a, b)`` of probability ``p``. Each pair's mean product of scores is compared
   with what a latent correlation ``rho`` would give, ``sum_l a_l b_l rho^l``, where ``a`` and ``b``
   are the coefficients of the two columns' score functions in normalised Hermite polynomials
   (Mehler's formula). So the attenuation of categories is undone, and not by an approximation for
   normal variables only.
 * Where a number is missing the row is left out of that column's pairs.
 * The matrix of these pairs need not be one of correlations. Eigenvalues below `FLOOR` are raised
   to it, and the diagonal is scaled to 1 again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from proxyguard.adapters.settings import Mechanism, one_of, option
from proxyguard.adapters.tabular import CategoryCodes, FittedGenerator, Slot, Tabular
from proxyguard.exact.rounding import Array
from proxyguard.exact.special import special

# Terms of a Hermite series. Two equal halves are reached up to a correlation of about 0.97; above
# it the estimate is a little too high, and at most `LIMIT`.
TERMS = 40
# A column of more different values has a score function that is nearly the identity, so that the
# first term alone is taken.
FEW = 200
LIMIT = 1.0 - 1e-8
FLOOR = 1e-8
# Over the columns of categories: the order in one changes the scores that order another.
PASSES = 4
# Of the interval of correlations, which is then shorter than 2e-9.
HALVINGS = 30


@dataclass(frozen=True, slots=True, eq=False)
class _SourceColumn:
    """One column of the whole source: its values as positions among the different ones."""

    slot: Slot
    distinct: Array  # in rising order; empty for categories
    size: int


@dataclass(frozen=True, slots=True, eq=False)
class _Margin:
    """One column's law in the training rows."""

    counts: Array  # of the categories or different values, in their latent order
    order: NDArray[np.int64]  # the category at each position of the latent order
    ends: Array  # the latent variable at the end of each interval but the last
    values: Array  # the training numbers in rising order; empty for categories

    @property
    def shares(self) -> Array:
        """The share of each, in latent order."""
        return np.asarray(self.counts / self.counts.sum())


@dataclass(frozen=True, slots=True, eq=False)
class CopulaFit:
    """Margins, and the Cholesky factor of the latent correlations."""

    margins: tuple[_Margin, ...]
    correlations: Array  # (d, d), of columns in the order of `Copula`

    def factor(self, first: int | None) -> tuple[NDArray[np.int64], Array]:
        """Return an order of columns that begins with ``first``, and the factor in that order."""
        order = np.arange(len(self.margins))
        if first is not None:
            order = np.concatenate([[first], np.delete(order, first)])
        factor = np.linalg.cholesky(self.correlations[np.ix_(order, order)])
        return order.astype(np.int64), np.asarray(factor, dtype=np.float64)


@dataclass(frozen=True, slots=True, kw_only=True)
class CopulaSettings(Mechanism):
    """What is chosen about a copula."""

    name: ClassVar[str] = "copula"
    mechanism: ClassVar[str] = (
        "Gaussian copula of mixed columns, correlations of latent normal variables"
    )
    fixed: ClassVar[Mapping[str, str]] = {
        "chosen here": "correlations from mean products of interval means, by Hermite series "
        f"of {TERMS} terms (one term where a column has more than {FEW} different values); "
        f"categories are ordered in {PASSES} passes; "
        "rows with a missing number are left out of the pairs of its column; eigenvalues of "
        f"the matrix are at least {FLOOR:g} before its diagonal is scaled to 1",
    }

    margins: Literal["interpolated", "empirical"] = option(
        "interpolated", one_of("interpolated", "empirical")
    )
    """How a number follows from its latent variable: "interpolated" between training numbers that
    are neighbours, or always one of them ("empirical")."""
    ordering: Literal["dependence", "labels"] = option("dependence", one_of("dependence", "labels"))
    """In which order categories lie on the line: as they depend on the other columns ("dependence":
    by the first singular vector of the categories' mean scores there), or as their "labels" are
    sorted. Truth values and two categories have but one order."""


class Copula(FittedGenerator[CopulaSettings, CopulaFit]):
    """A Gaussian copula with the margins of its training rows.

    A condition is exact, by the conditional normal law.

    Examples
    --------
    >>> import pandas as pd
    >>> from proxyguard.draw.protocol import Seed
    >>> source = pd.DataFrame({"x": [1.0, 2.0, 3.0, 4.0], "y": ["a", "a", "b", "b"]})
    >>> generator = Copula(rows=3, condition={"column": "y", "value": "b"})
    >>> generator.prepare(source, np.random.default_rng(0))
    >>> list(generator.draw(Seed(1))["y"])
    ['b', 'b', 'b']
    """

    _kind = CopulaSettings
    _columns: tuple[_SourceColumn, ...] = ()

    def _read(self, table: Tabular) -> None:
        """Put every column's values in rising order, once: no fit has to sort."""
        columns = []
        for slot in table.order:
            distinct = np.empty(0)
            if slot.kind == "number":
                distinct = np.unique(table.numbers[:, slot.index])
            size = distinct.size if slot.kind == "number" else table.sizes[slot.index]
            columns.append(_SourceColumn(slot, distinct, size))
        self._columns = tuple(columns)
        # Which column of codes says where the numbers of a column are missing.
        self._gaps = {
            column.number: column.code
            for column in table.columns
            if column.number is not None and column.code is not None
        }

    def _fit(self, trained: Tabular) -> CopulaFit:
        n, d = len(trained), len(self._columns)
        places = np.empty((d, n), dtype=np.int64)
        known = np.ones((d, n))
        for j, column in enumerate(self._columns):
            k = column.slot.index
            if column.slot.kind == "code":
                places[j] = trained.codes[:, k]
                continue
            places[j] = np.searchsorted(column.distinct, trained.numbers[:, k])
            if k in self._gaps:
                known[j] = trained.codes[:, self._gaps[k]] == 0
        margins = [
            self._margin(column, places[j][known[j] > 0.0])
            for j, column in enumerate(self._columns)
        ]
        scores = np.empty((d, n))
        for j, margin in enumerate(margins):
            scores[j] = _scores(margin)[places[j]] * known[j]
        for _ in range(PASSES if self._settings.ordering == "dependence" else 0):
            self._order(margins, scores, places)
        return CopulaFit(tuple(margins), _correlations(margins, scores, known))

    def _margin(self, column: _SourceColumn, places: NDArray[np.int64]) -> _Margin:
        if not places.size:  # every number is missing in these rows, and so in the release
            places = np.zeros(1, dtype=np.int64)
        counts = np.bincount(places, minlength=column.size)
        values = np.empty(0)
        if column.slot.kind == "number":
            values = np.repeat(column.distinct, counts)
        return _margin_of(counts.astype(np.float64), np.arange(column.size), values)

    def _order(self, margins: list[_Margin], scores: Array, places: NDArray[np.int64]) -> None:
        """Order the categories of each column by their mean scores in the others, in place."""
        for j, column in enumerate(self._columns):
            if column.slot.kind == "number" or column.size < 3 or len(margins) < 2:
                continue
            others = np.delete(scores, j, axis=0)
            sums = np.stack([np.bincount(places[j], row, column.size) for row in others], axis=1)
            counts = np.bincount(places[j], minlength=column.size)
            # Means times the root of the counts: the direction in which categories differ most,
            # each as often as it occurs.
            left, strength, _ = np.linalg.svd(
                sums / np.sqrt(np.maximum(counts, 1))[:, np.newaxis], full_matrices=False
            )
            position = left[:, 0] * strength[0] / np.sqrt(np.maximum(counts, 1))
            if position[np.argmax(np.abs(position))] < 0:
                position = -position  # a singular vector has no sign of its own
            order = np.argsort(position, kind="stable")
            margins[j] = _margin_of(counts[order].astype(np.float64), order, margins[j].values)
            scores[j] = _scores(margins[j])[places[j]]

    def _sample(
        self,
        model: CopulaFit,
        rng: np.random.Generator,
        rows: int,
        wanted: tuple[int, CategoryCodes] | None,
    ) -> tuple[Array, CategoryCodes]:
        first = None
        if wanted is not None:
            first = [column.slot for column in self._columns].index(Slot("code", wanted[0]))
        order, factor = model.factor(first)
        latent = rng.standard_normal((len(order), rows))
        if wanted is not None and first is not None:
            latent[0] = _within(model.margins[first], wanted[1], rng)
        latent = factor @ latent  # its first row is that of the first column as it is
        p = sum(column.slot.kind == "number" for column in self._columns)
        numbers = np.empty((rows, p))
        codes = np.empty((rows, len(order) - p), dtype=np.int64)
        for row, j in zip(latent, order, strict=True):
            column, margin = self._columns[j], model.margins[j]
            if column.slot.kind == "number":
                numbers[:, column.slot.index] = self._quantiles(margin.values, special.ndtr(row))
            else:
                k = np.searchsorted(margin.ends, row, side="right")
                codes[:, column.slot.index] = margin.order[k]
        if wanted is not None:
            codes[:, wanted[0]] = wanted[1]  # rounding at the end of an interval is no other one
        return numbers, codes

    def _quantiles(self, values: Array, chances: Array) -> Array:
        """Return training numbers by their ranks, or what lies between two of them."""
        m = values.size
        if self._settings.margins == "empirical":
            return np.asarray(values[np.minimum((chances * m).astype(np.int64), m - 1)])
        if m == 1:
            return np.full(chances.size, values[0])
        ranks = chances * (m - 1)
        lower = np.minimum(ranks.astype(np.int64), m - 2)
        below = values[lower]
        return np.asarray(below + (ranks - lower) * (values[lower + 1] - below))


def _margin_of(counts: Array, order: NDArray[np.int64], values: Array) -> _Margin:
    # Summed as counts, which are whole: a category without a training row has no width at all.
    ends = special.ndtri(np.cumsum(counts)[:-1] / counts.sum())
    return _Margin(counts, order, np.asarray(ends), values)


def _within(margin: _Margin, codes: CategoryCodes, rng: np.random.Generator) -> Array:
    """Return latent variables in the intervals of these categories."""
    position = np.empty(margin.order.size, dtype=np.int64)
    position[margin.order] = np.arange(margin.order.size)
    ends = np.cumsum(margin.counts) / margin.counts.sum()
    starts = np.concatenate([[0.0], ends[:-1]])
    k = position[codes]
    chances = starts[k] + (ends[k] - starts[k]) * rng.random(codes.size)
    # At 0 or 1 the variable would be infinite.
    return np.asarray(special.ndtri(np.clip(chances, 2.0**-54, 1.0 - 2.0**-53)))


def _densities(margin: _Margin) -> Array:
    """Return the normal density at the start of every interval and at the end of the last."""
    inner = np.exp(-0.5 * margin.ends**2) / np.sqrt(2.0 * np.pi)
    return np.concatenate([[0.0], inner, [0.0]])


def _interval_means(margin: _Margin) -> Array:
    """Return the mean of the latent variable in each interval, in latent order; 0 if empty."""
    density = _densities(margin)
    shares = margin.shares
    empty = shares <= 0.0
    means = (density[:-1] - density[1:]) / np.where(empty, 1.0, shares)
    return np.where(empty, 0.0, means)


def _scores(margin: _Margin) -> Array:
    """Return the score of each category or different value, by its code."""
    scores = np.empty(margin.order.size)
    scores[margin.order] = _interval_means(margin)
    return scores


def hermite_coefficients(margin: _Margin) -> Array:
    """Return the coefficients 1 to `TERMS` of a column's score function.

    In normalised Hermite polynomials ``h_l``; the one of 0 is the mean score, 0. Over an
    interval the integral of ``h_l phi`` is that of ``-(h_{l-1} phi / sqrt(l))'``.
    """
    means = _interval_means(margin)
    coefficients = np.zeros(TERMS)
    coefficients[0] = np.sum(margin.shares * means**2)  # the first, exactly
    if margin.counts.size > FEW:
        return coefficients
    inside = np.isfinite(margin.ends)  # at an infinite end the density is 0
    ends = margin.ends[inside]
    jumps = (np.diff(means) * np.exp(-0.5 * margin.ends**2) / np.sqrt(2.0 * np.pi))[inside]
    before, now = np.zeros(ends.size), np.ones(ends.size)
    for term in range(1, TERMS + 1):
        coefficients[term - 1] = np.sum(jumps * now) / np.sqrt(term)
        before, now = now, (ends * now - np.sqrt(term - 1.0) * before) / np.sqrt(term)
    return coefficients


def _correlations(margins: Sequence[_Margin], scores: Array, known: Array) -> Array:
    """Return the latent correlations, made positive definite."""
    pairs = np.maximum(known @ known.T, 1.0)  # no row in common: no product either
    products = (scores @ scores.T) / pairs
    series = np.stack([hermite_coefficients(margin) for margin in margins])
    d = len(margins)
    upper = np.triu_indices(d, 1)
    terms = series[upper[0]] * series[upper[1]]
    matrix = np.eye(d)
    matrix[upper] = _solved(terms, products[upper])
    matrix = matrix + matrix.T - np.eye(d)
    return _repaired(matrix)


def _solved(terms: Array, products: Array) -> Array:
    """Return for each pair the correlation at which its series is its mean product."""
    low, high = np.full(products.size, -LIMIT), np.full(products.size, LIMIT)
    for _ in range(HALVINGS):
        middle = 0.5 * (low + high)
        total = np.zeros(products.size)
        for column in terms.T[::-1]:
            total = (total + column) * middle
        below = total < products
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    # A constant column has no series, and no correlation.
    return np.where(terms[:, 0] > 0.0, 0.5 * (low + high), 0.0)


def _repaired(matrix: Array) -> Array:
    """Return the nearest thing that is a matrix of correlations, itself if it is one."""
    strengths, vectors = np.linalg.eigh(matrix)
    if strengths[0] >= FLOOR:
        return matrix
    raised = (vectors * np.maximum(strengths, FLOOR)) @ vectors.T
    scale = 1.0 / np.sqrt(np.diag(raised))
    repaired = raised * scale * scale[:, np.newaxis]
    np.fill_diagonal(repaired, 1.0)
    return np.asarray(0.5 * (repaired + repaired.T))
