"""Losses of a prediction on one record, each with the bounds it keeps (paper, prediction losses).

Every loss maps outcomes and predictions of many records to values in ``[low, high]``; a
relative requirement subtracts the source's values from the release's (Eq. (1)), which lie
in ``[low - high, high - low]``. A prediction that leaves its own domain is refused here,
so that no loss can leave its bounds.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import log

import numpy as np
from numpy.typing import ArrayLike, NDArray

from proxyguard.errors import LossMismatch, RegistryError
from proxyguard.registry.requirement import check_range

Array = NDArray[np.float64]
FLOOR = 1e-6
"""Probabilities below this count as this in a log loss, as in the paper."""


@dataclass(frozen=True, slots=True)
class Loss:
    """A bounded loss: its name, its range, and whether it takes only the two ends."""

    name: str
    high: float
    two_valued: bool
    values: Callable[[ArrayLike, ArrayLike], Array]
    low: float = 0.0

    def __post_init__(self) -> None:
        # A difference of two such losses has a range around 0, which would hide where they lie.
        check_range(self.name, self.low, self.high)

    def __call__(self, outcome: ArrayLike, prediction: ArrayLike) -> Array:
        """Return the loss of every record."""
        return self.values(outcome, prediction)

    def regret(self, outcome: ArrayLike, release: ArrayLike, source: ArrayLike) -> Array:
        """Return the paired difference of Eq. (1), release minus source."""
        return self(outcome, release) - self(outcome, source)


def binary_error(threshold: float = 0.5) -> Loss:
    """Return ``1{(p >= threshold) != y}``: a probability on the threshold is positive."""
    _inside("threshold", threshold, 0.0, 1.0)

    def values(outcome: ArrayLike, prediction: ArrayLike) -> Array:
        y, p = _binary(outcome, prediction)
        return np.where((p >= threshold) != (y > 0.5), 1.0, 0.0)

    return Loss("error", 1.0, True, values)


def brier() -> Loss:
    """Return ``(p - y)^2``."""

    def values(outcome: ArrayLike, prediction: ArrayLike) -> Array:
        y, p = _binary(outcome, prediction)
        return (p - y) ** 2

    return Loss("brier", 1.0, False, values)


def log_loss() -> Loss:
    """Return the clipped log loss divided by ``-log(1e-6)``, in [0, 1]."""

    def values(outcome: ArrayLike, prediction: ArrayLike) -> Array:
        y, p = _binary(outcome, prediction)
        return _scaled_log(np.where(y > 0.5, p, 1.0 - p))

    return Loss("log", 1.0, False, values)


def decision_cost(*, false_negative: float, threshold: float) -> Loss:
    """Return ``(c 1{missed} + 1{false alarm})/max(c, 1)``, ``c`` the cost of a missed positive."""
    if not 0.0 < false_negative < np.inf:
        raise RegistryError(f"the cost of a missed positive must be positive, got {false_negative}")
    _inside("threshold", threshold, 0.0, 1.0)
    scale = max(false_negative, 1.0)

    def values(outcome: ArrayLike, prediction: ArrayLike) -> Array:
        y, p = _binary(outcome, prediction)
        missed, alarm = (y > 0.5) & (p < threshold), (y < 0.5) & (p >= threshold)
        return missed * (false_negative / scale) + alarm * (1.0 / scale)

    return Loss("cost", 1.0, false_negative == 1.0, values)


def multiclass_error() -> Loss:
    """Return whether the most probable class, the first on ties, is not the outcome."""

    def values(outcome: ArrayLike, prediction: ArrayLike) -> Array:
        y, p = _classes(outcome, prediction)
        return np.where(np.argmax(p, axis=1) != y, 1.0, 0.0)

    return Loss("multiclass error", 1.0, True, values)


def multiclass_brier() -> Loss:
    """Return half the squared distance between the probabilities and the outcome, in [0, 1]."""

    def values(outcome: ArrayLike, prediction: ArrayLike) -> Array:
        y, p = _classes(outcome, prediction)
        right = p[np.arange(y.size), y]
        half = 0.5 * ((p**2).sum(axis=1) - 2.0 * right + 1.0)
        return np.asarray(np.clip(half, 0.0, 1.0))  # rounding alone can leave [0, 1]

    return Loss("multiclass brier", 1.0, False, values)


def multiclass_log() -> Loss:
    """Return the clipped log loss of the outcome's probability, divided by ``-log(1e-6)``."""

    def values(outcome: ArrayLike, prediction: ArrayLike) -> Array:
        y, p = _classes(outcome, prediction)
        return _scaled_log(p[np.arange(y.size), y])

    return Loss("multiclass log", 1.0, False, values)


def squared_error(*, low: float, high: float) -> Loss:
    """Return ``((prediction - y)/(high - low))^2`` for outcomes in a registered range."""
    return _regression("squared", low, high, lambda gap: gap**2)


def absolute_error(*, low: float, high: float) -> Loss:
    """Return ``|prediction - y|/(high - low)`` for outcomes in a registered range."""
    return _regression("absolute", low, high, np.abs)


def pinball(*, low: float, high: float, quantile: float) -> Loss:
    """Return the pinball loss of a quantile, scaled by the registered range."""
    _inside("quantile", quantile, 0.0, 1.0)
    return _regression(
        "pinball",
        low,
        high,
        lambda gap: np.where(gap < 0.0, -gap * quantile, gap * (1.0 - quantile)),
    )


def _regression(name: str, low: float, high: float, shape: Callable[[Array], Array]) -> Loss:
    check_range(name, low, high)

    def values(outcome: ArrayLike, prediction: ArrayLike) -> Array:
        y = _column("outcome", outcome, low, high)
        p = _column("prediction", prediction, low, high)
        _same_length(y, p)
        scaled = shape((p - y) / (high - low))
        return np.asarray(np.clip(scaled, 0.0, 1.0))  # rounding alone can leave [0, 1]

    return Loss(name, 1.0, False, values)


def _scaled_log(probability: Array) -> Array:
    clipped = np.clip(probability, FLOOR, 1.0 - FLOOR)
    return np.clip(np.log(clipped) / log(FLOOR), 0.0, 1.0)


def _binary(outcome: ArrayLike, prediction: ArrayLike) -> tuple[Array, Array]:
    y = _column("outcome", outcome, 0.0, 1.0)
    if not np.all((y == 0.0) | (y == 1.0)):
        raise LossMismatch("outcomes of a binary loss are 0 and 1")
    p = _column("probability", prediction, 0.0, 1.0)
    _same_length(y, p)
    return y, p


def _classes(outcome: ArrayLike, prediction: ArrayLike) -> tuple[NDArray[np.intp], Array]:
    p = np.asarray(prediction, dtype=np.float64)
    if p.ndim != 2 or p.shape[1] < 2:
        raise LossMismatch(f"probabilities are records x classes, got shape {p.shape}")
    if not np.all((p >= 0.0) & (p <= 1.0)) or not np.allclose(p.sum(axis=1), 1.0, atol=1e-6):
        raise LossMismatch(
            "probabilities of the classes lie in [0, 1] and sum to 1 in every record"
        )
    y = _column("outcome", outcome, 0.0, p.shape[1] - 1.0)
    if not np.all(y == np.floor(y)):
        raise LossMismatch("outcomes of a multiclass loss are class numbers from 0")
    _same_length(y, p)
    return y.astype(np.intp), p


def _column(name: str, values: ArrayLike, low: float, high: float) -> Array:
    column = np.asarray(values, dtype=np.float64)
    if column.ndim != 1:
        raise LossMismatch(f"{name} has shape {column.shape}, expected one value a record")
    wrong = np.flatnonzero(~((column >= low) & (column <= high)))
    if wrong.size:
        raise LossMismatch(
            f"{name} of record {wrong[0]} is {column[wrong[0]]}, registered range "
            f"[{low:g}, {high:g}]"
        )
    return column


def _same_length(first: Array, second: Array) -> None:
    if first.shape[0] != second.shape[0]:
        raise LossMismatch(f"{first.shape[0]} outcomes for {second.shape[0]} predictions")


def _inside(name: str, value: float, low: float, high: float) -> None:
    if not low <= value <= high:
        raise RegistryError(f"{name} must lie in [{low:g}, {high:g}], got {value}")
