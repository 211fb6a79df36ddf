"""Predictions on target records: those that were stored elsewhere, and the AUC of any."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from proxyguard.errors import LossMismatch
from proxyguard.registry.fields import number
from proxyguard.registry.target import Outcome

Array = NDArray[np.float64]

BINS = 1 << 14
"""Bins of the probability histograms behind the AUC diagnostic."""


@dataclass(frozen=True, slots=True, eq=False)
class StoredPredictions:
    """Predictions made elsewhere, sorted by record position."""

    positions: NDArray[np.int64]
    values: Array

    def at(self, wanted: NDArray[np.int64]) -> Array:
        """Return the predictions of these records, NaN where there is none."""
        place = np.minimum(np.searchsorted(self.positions, wanted), self.positions.size - 1)
        known = self.positions[place] == wanted
        found = self.values[place].astype(np.float64)
        found[~known] = np.nan
        return found


def stored_predictions(frame: Any, name: str) -> StoredPredictions:
    """Return stored predictions by record position; every position once."""
    if "prediction" in frame.columns:
        values = frame["prediction"].to_numpy(dtype=np.float64)
    else:
        classes = sorted(
            (c for c in frame.columns if str(c).startswith("class ")),
            key=lambda c: int(str(c).split()[1]),
        )
        values = frame[classes].to_numpy(dtype=np.float64)
    positions = frame["position"].to_numpy(dtype=np.int64)
    order = np.argsort(positions, kind="stable")
    if positions.size == 0 or np.any(np.diff(positions[order]) == 0):
        raise LossMismatch(f"{name}: there is no prediction, or a record has two")
    return StoredPredictions(positions[order], values[order])


def check_predictions(frame: Any, name: str, outcome: Outcome) -> None:
    """Refuse stored predictions that are no probabilities, or no numbers in the range."""
    values = stored_predictions(frame, name).values
    low, high = (0.0, 1.0)
    if outcome.kind == "regression":
        low, high = (number(end) for end in outcome.range or ("0", "1"))
    if (values.ndim == 2) != (outcome.kind == "multiclass"):
        raise LossMismatch(f"{name}: predictions do not fit a {outcome.kind} outcome")
    if not np.all((values >= low) & (values <= high)):
        raise LossMismatch(f"{name}: predictions must lie in [{low:g}, {high:g}]")


@dataclass(slots=True, kw_only=True, eq=False)
class Diagnostics:
    """Histograms of predicted probabilities by outcome, for the AUC, which never decides."""

    counts: NDArray[np.int64]  # (2, BINS)

    @classmethod
    def empty(cls) -> Diagnostics:
        """Return histograms of nothing."""
        return cls(counts=np.zeros((2, BINS), dtype=np.int64))

    def add(self, y: Array, p: Array) -> None:
        """Count some predictions."""
        known = np.isfinite(p)
        y, p = y[known], p[known]
        place = np.minimum((p * BINS).astype(np.int64), BINS - 1)
        for label in (0, 1):
            self.counts[label] += np.bincount(place[(y > 0.5) == bool(label)], minlength=BINS)

    def auc(self) -> float | None:
        """Return the area under the ROC curve, ties in a bin counting one half."""
        negative, positive = self.counts
        total = int(negative.sum()) * int(positive.sum())
        if total == 0:
            return None
        below = np.cumsum(negative) - negative
        return float((positive * (below + 0.5 * negative)).sum() / total)
