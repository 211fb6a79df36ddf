"""Logistic regression by Newton's method: liblinear's objective, its minimiser, less time.

liblinear minimises ``|w|^2 / 2 + sum log(1 + exp(-s z))`` with the intercept inside ``w``, so
that the intercept is penalised too; ``s`` is the outcome as -1 or 1 and ``z`` the score.

scikit-learn's ``newton-cholesky`` on a column of ones has the same minimum. Run to the same
accuracy it takes 5.6, 3.3, 2.9 and 3.0 times as long on the tables of the paper's audits
(`benchmarks/bench_solvers.py`): it checks the table again, makes a new Hessian at every step, and
of a one-hot table does not know that two categories of one feature never meet. A draw of the
smallest audit, 3 ms, would take 5, so this solver stays.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg.lapack import dpotrf, dpotrs
from scipy.sparse import csr_array

from proxyguard.draw.protocol import Inputs, Seed
from proxyguard.exact.rounding import Array
from proxyguard.models.features import FeatureColumns, TermCounts
from proxyguard.models.learned import LinearModel

CodeMatrix = NDArray[np.int32]

# The penalty makes the objective 1-strongly convex, so a gradient of this length means coefficients
# within this distance of the minimiser.
GRADIENT = 1e-9
STEPS = 200
# A Hessian is kept while each step with it leaves at most this share of the gradient.
STALE = 0.1
# Close to the minimum the objective may rise by this share of itself, from rounding alone.
ROUNDING = 1e-13


class DesignMatrix(Protocol):
    """The features of the records, one row a coefficient, as the solver uses them."""

    def scores(self, coefficients: Array) -> Array:
        """Return the score of every record."""

    def sums(self, residuals: Array) -> Array:
        """Return the residuals summed over the records, weighted by each feature."""

    def gram(self, weights: Array) -> Array:
        """Return the weighted sums of products of features."""


class DenseDesign:
    """Features as one array, ``(p, n)``."""

    def __init__(self, rows: Array) -> None:
        self._rows = rows
        self._scaled = np.empty_like(rows)

    def scores(self, coefficients: Array) -> Array:
        """Return the score of every record."""
        return coefficients @ self._rows

    def sums(self, residuals: Array) -> Array:
        """Return the residuals summed over the records, weighted by each feature."""
        return self._rows @ residuals

    def gram(self, weights: Array) -> Array:
        """Return the weighted sums of products of features."""
        np.multiply(self._rows, np.sqrt(weights), out=self._scaled)
        return self._scaled @ self._scaled.T  # one operand twice: BLAS does half the work


def minimise(design: DesignMatrix, y: Array, size: int) -> Array:
    """Return the coefficients that minimise liblinear's objective with C = 1.

    ``y`` is 0 or 1. A Hessian serves several steps, since a step costs far less than a
    Hessian; a step that does not lower the objective is tried again with a new one, and then
    halved, which ends because the objective is convex.

    Parameters
    ----------
    design
        The features, a constant among them for the intercept.
    y
        Outcomes, 0 or 1.
    size
        The number of coefficients.

    Raises
    ------
    ValueError
        If it does not converge, or a Hessian is not positive definite: rescale the features.
    """
    w = np.zeros(size)
    value, gradient, p = _evaluate(design, y, w)
    factor: Array | None = None
    fresh, length = False, 1.0
    for _ in range(STEPS):
        distance = _length(gradient)
        if distance <= GRADIENT:
            return w
        if factor is None:
            hessian = design.gram(p * (1.0 - p))
            # The penalty, on the whole diagonal: liblinear penalises the intercept too.
            hessian.flat[:: size + 1] += 1.0
            factor, fresh, length = _cholesky(hessian), True, 1.0
        trial = w - length * dpotrs(factor, gradient)[0]
        found = _evaluate(design, y, trial)
        if found[0] > value + ROUNDING * abs(value):
            factor, length = (factor, length / 2.0) if fresh else (None, 1.0)
            continue
        w, (value, gradient, p) = trial, found
        if _length(gradient) > STALE * distance:
            factor = None
        fresh, length = False, 1.0
    # An error and no warning: coefficients short of the minimum are those of another procedure than
    # the registered one.
    raise ValueError(
        f"the logistic regression did not converge: its gradient was to fall to {GRADIENT:g} and "
        f"is {_length(gradient):g} after {STEPS} steps; rescale the features"
    )


def _length(vector: Array) -> float:
    return math.sqrt(vector @ vector)


def _cholesky(hessian: Array) -> Array:
    """Return the factor that solves with a Hessian; LAPACK itself, as `scipy.linalg` is slow."""
    factor, failed = dpotrf(hessian)
    if failed:
        raise ValueError(
            "the logistic regression has a Hessian that is not positive definite, which features "
            "of finite and moderate size cannot give; rescale the features"
        )
    return np.asarray(factor)


def _evaluate(design: DesignMatrix, y: Array, w: Array) -> tuple[float, Array, Array]:
    """Return the objective, its gradient, and the probabilities."""
    z = design.scores(w)
    small = np.abs(z)
    np.negative(small, out=small)
    np.exp(small, out=small)  # never overflows, and serves the logarithm and the probability
    p = np.where(z >= 0.0, 1.0, small)
    p /= 1.0 + small
    np.log1p(small, out=small)
    loss = np.add.reduce(small) + np.add.reduce(np.maximum(z, 0.0)) - float(y @ z)
    return float(loss + 0.5 * (w @ w)), design.sums(p - y) + w, p


def standardised(x: Array) -> tuple[Array, Array, Array]:
    """Return standardised columns as rows with a last row of ones, their means and scales.

    Not by scikit-learn's scaler, whose pass allows for missing values and sparse tables and
    costs as much as several Newton steps.
    """
    n, p = x.shape
    design = np.ones((p + 1, n))
    rows = design[:p]
    rows[:] = x.T
    mean = rows.mean(axis=1)
    rows -= mean[:, None]
    variance = np.einsum("ij,ij->i", rows, rows) / n
    if not np.all(np.isfinite(variance)):
        raise ValueError("a feature is missing or infinite; give every feature a finite number")
    # A column of one value has a variance of rounding errors; it is left as it is. The bound
    # is that of scikit-learn, whose scaler this one has to agree with.
    eps = np.finfo(np.float64).eps
    constant = variance <= n * eps * variance + (n * mean * eps) ** 2
    scale = np.where(constant, 1.0, np.sqrt(variance))
    rows /= scale[:, None]
    return design, mean, scale


def binary(y: ArrayLike) -> Array:
    """Return outcomes as an array after checking that they are 0 and 1, both of them."""
    values = np.asarray(y, dtype=np.float64)
    ones = int(np.count_nonzero(values == 1.0))
    if ones in (0, values.size) or np.count_nonzero(values == 0.0) + ones != values.size:
        found = np.unique(values)[:5].tolist()
        raise ValueError(f"the outcomes must be 0 and 1, both of them present; found {found}")
    return values


class FastLogistic:
    """What `pipelines.fixed_logistic` fits, by Newton's method."""

    def fit(self, x: Inputs, y: ArrayLike) -> LinearModel:
        """Return the fitted model of an array of numbers."""
        outcomes = binary(y)
        rows, mean, scale = standardised(np.asarray(x, dtype=np.float64))
        w = minimise(DenseDesign(rows), outcomes, rows.shape[0])
        return _model(FeatureColumns.numeric(mean.size), w, mean, scale)


class CodedDesign:
    """One-hot columns of coded features, ``(n, features)``, and a last column of ones.

    A category is a code, so sums over a one-hot table are counts of codes, and its Hessian
    holds weighted counts of pairs of codes.
    """

    def __init__(self, codes: CodeMatrix, sizes: Sequence[int]) -> None:
        widths = np.array(sizes, dtype=np.int32)
        starts = np.cumsum(widths, dtype=np.int32) - widths
        self._width = int(widths.sum())
        last = np.full((codes.shape[0], 1), self._width, dtype=np.int32)
        self._onehot = _ones_at(np.hstack([codes + starts, last]), self._width + 1)
        # One column for each pair of categories of two features, and where it stands in the
        # Hessian: there every pair is needed at once, for new weights each time.
        left, right = np.tril_indices(widths.size, -1)
        cells = widths[left] * widths[right]
        ends = np.cumsum(cells, dtype=np.int32)
        pairs = codes.take(left, axis=1)
        pairs *= widths[right]
        pairs += codes.take(right, axis=1)
        pairs += ends - cells
        self._pairs = _ones_at(pairs, int(cells.sum()))
        within = np.arange(self._pairs.shape[1]) - np.repeat(ends - cells, cells)
        across = np.repeat(widths[right], cells)
        self._rows = np.repeat(starts[left], cells) + within // across
        self._columns = np.repeat(starts[right], cells) + within % across

    @property
    def size(self) -> int:
        """The number of coefficients, the intercept among them."""
        return self._width + 1

    def scores(self, coefficients: Array) -> Array:
        """Return the score of every record."""
        return np.asarray(self._onehot @ coefficients)

    def sums(self, residuals: Array) -> Array:
        """Return the residuals summed over the records of each category."""
        return np.asarray(self._onehot.T @ residuals)

    def gram(self, weights: Array) -> Array:
        """Return the weighted counts of every two categories together."""
        found = np.zeros((self.size, self.size))
        counts = self.sums(weights)
        np.fill_diagonal(found, counts)  # two categories of one feature never meet
        found[-1], found[:, -1] = counts, counts
        found[self._rows, self._columns] = np.asarray(self._pairs.T @ weights)
        found[self._columns, self._rows] = found[self._rows, self._columns]
        return found


def _ones_at(columns: CodeMatrix, width: int) -> TermCounts:
    """Return a sparse table with ones in these columns of each row, and zeros elsewhere."""
    n, count = columns.shape
    ends = np.arange(n + 1, dtype=np.int32) * np.int32(count)
    return csr_array((np.ones(columns.size), columns.ravel(), ends), shape=(n, width))


class FastOnehotLogistic:
    """What `pipelines.onehot_logistic` fits to categories alone, by Newton's method."""

    def fit(self, x: Inputs, y: ArrayLike) -> LinearModel:
        """Return the fitted model of a frame of texts."""
        outcomes = binary(y)
        codes, categories = _encoded(x)
        design = CodedDesign(codes, [len(known) for known in categories])
        w = minimise(design, outcomes, design.size)
        return _model(FeatureColumns(tuple(map(str, x)), categories), w, np.empty(0), np.empty(0))


def _model(columns: FeatureColumns, w: Array, mean: Array, scale: Array) -> LinearModel:
    """Return the model of these coefficients, the intercept last; it fills in nothing."""
    fill, classes = np.full(mean.size, np.nan), np.array([0.0, 1.0])
    return LinearModel(columns, fill, mean, scale, w[None, :-1].copy(), w[-1:].copy(), classes)


def _encoded(table: Inputs) -> tuple[CodeMatrix, tuple[tuple[str, ...], ...]]:
    """Return the code of every value, and the categories of each feature in order."""
    import pandas as pd

    if not isinstance(table, pd.DataFrame) or table.select_dtypes("number").shape[1]:
        raise ValueError(
            "fast_onehot_logistic takes categorical features only, and some are numbers; use "
            "onehot_logistic, or fast_logistic where all are numbers"
        )
    codes = np.empty(table.shape, dtype=np.int32)
    categories = []
    for k, name in enumerate(table):
        codes[:, k], known = pd.factorize(table[name].to_numpy(dtype=object), sort=True)
        categories.append(tuple(map(str, known)))
    if codes.min() < 0:
        raise ValueError("a categorical feature has missing values; give them a text of their own")
    return codes, tuple(categories)


def fast_logistic(seed: Seed) -> FastLogistic:
    """Standardisation and logistic regression with C = 1; takes no seed."""
    return FastLogistic()


def fast_onehot_logistic(seed: Seed) -> FastOnehotLogistic:
    """One column a category and logistic regression with C = 1; takes no seed."""
    return FastOnehotLogistic()
