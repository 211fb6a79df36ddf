"""Logistic regression by Newton's method: liblinear's objective, its minimiser, less time.

liblinear minimises ``|w|^2 / 2 + sum log(1 + exp(-s z))`` with the intercept inside ``w``, so
that the intercept is penalised too; ``s`` is the outcome as -1 or 1 and ``z`` the score. What
comes out is a scikit-learn pipeline with these coefficients.
"""

from __future__ import annotations

import math
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.lapack import dpotrf, dpotrs
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler

from proxyguard.draw.plain import logistic, scaler
from proxyguard.draw.protocol import Seed

Array = NDArray[np.float64]

GRADIENT = 1e-9
"""The penalty makes the objective 1-strongly convex, so a gradient of this length means
coefficients within this distance of the minimiser."""
STEPS = 200
STALE = 0.1
"""A Hessian is kept while each step with it leaves at most this share of the gradient."""
ROUNDING = 1e-13
"""Close to the minimum the objective may rise by this share of itself, from rounding alone."""


class Design(Protocol):
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


def minimise(design: Design, y: Array, size: int) -> Array:
    """Return the coefficients that minimise liblinear's objective with C = 1.

    ``y`` is 0 or 1. A Hessian serves several steps, since a step costs far less than a
    Hessian; a step that does not lower the objective is tried again with a new one, and then
    halved, which ends because the objective is convex.
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


def _evaluate(design: Design, y: Array, w: Array) -> tuple[float, Array, Array]:
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


def standardised(x: Array) -> tuple[Array, StandardScaler]:
    """Return standardised columns as rows, a last row of ones, and scikit-learn's scaler.

    The scaler is set rather than fitted: scikit-learn's own pass, which allows for missing
    values and sparse tables, costs as much as several Newton steps.
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
    return design, scaler(mean, variance, scale, np.int64(n))


def with_coefficients(w: Array, max_iter: int) -> LogisticRegression:
    """Return scikit-learn's logistic regression with these coefficients, intercept last."""
    return logistic(w[:-1].copy(), w[-1:].copy(), max_iter=max_iter)


def binary(y: Any) -> Array:
    """Return outcomes as an array after checking that they are 0 and 1, both of them."""
    values = np.asarray(y, dtype=np.float64)
    ones = int(np.count_nonzero(values == 1.0))
    if ones in (0, values.size) or np.count_nonzero(values == 0.0) + ones != values.size:
        found = np.unique(values)[:5].tolist()
        raise ValueError(f"the outcomes must be 0 and 1, both of them present; found {found}")
    return values


class FastLogistic:
    """What `pipelines.fixed_logistic` fits, by Newton's method."""

    def fit(self, x: Any, y: Any) -> Pipeline:
        """Return the fitted pipeline: scikit-learn's scaler and logistic regression."""
        outcomes = binary(y)
        rows, first = standardised(np.asarray(x, dtype=np.float64))
        w = minimise(DenseDesign(rows), outcomes, rows.shape[0])
        return make_pipeline(first, with_coefficients(w, max_iter=500))


def fast_logistic(seed: Seed) -> FastLogistic:
    """Standardisation and logistic regression with C = 1; takes no seed."""
    return FastLogistic()
