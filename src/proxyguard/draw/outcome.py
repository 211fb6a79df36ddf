"""From a table to features and outcomes, and from an estimator to predictions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from proxyguard.draw.protocol import Fitted
from proxyguard.errors import TableError
from proxyguard.registry.target import Outcome
from proxyguard.seal.fingerprint import canonical_value
from proxyguard.seal.table import as_text

if TYPE_CHECKING:
    import pandas as pd

Array = NDArray[np.float64]
TINY = 1e-12
"""Probabilities are kept this far from 0 and 1 before a logit is taken."""


def outcomes(values: Sequence[Any] | pd.Series[Any], outcome: Outcome, where: str) -> Array:
    """Return outcomes as numbers: 0 or 1, the number of a class, or the value itself."""
    texts = [canonical_value(as_text(value)) for value in values]
    if outcome.kind == "regression":
        return _numbers(texts, outcome, where)
    if outcome.kind == "binary" and outcome.positive is not None:
        missing = next((i for i, text in enumerate(texts) if text == ""), None)
        if missing is not None:
            raise TableError(f"{where}, row {missing}: {outcome.column!r} is empty")
        positive = canonical_value(as_text(outcome.positive))
        found = sorted(set(texts))
        if len(found) > 2:
            raise TableError(
                f"{where}: {outcome.column!r} is declared with positive = {outcome.positive!r}, so "
                f"it has two values; found {found[:5]}"
            )
        return np.array([float(text == positive) for text in texts])
    classes = {canonical_value(as_text(c)): float(k) for k, c in enumerate(outcome.classes or ())}
    wrong = next((i for i, text in enumerate(texts) if text not in classes), None)
    if wrong is not None:
        raise TableError(
            f"{where}, row {wrong}: {outcome.column!r} is {texts[wrong]!r}, declared were "
            f"{list(outcome.classes or ())}"
        )
    return np.array([classes[text] for text in texts])


def _numbers(texts: Sequence[str], outcome: Outcome, where: str) -> Array:
    low, high = (float(end) for end in outcome.range or ("0", "1"))
    for i, text in enumerate(texts):
        try:
            inside = low <= float(text) <= high
        except ValueError:
            inside = False
        if not inside:
            raise TableError(
                f"{where}, row {i}: {outcome.column!r} is {text!r}, declared range [{low:g}, "
                f"{high:g}]"
            )
    return np.array([float(text) for text in texts])


def negative_label(values: Sequence[Any] | pd.Series[Any], outcome: Outcome) -> str | None:
    """Return the other label of a binary outcome, as development has it."""
    positive = canonical_value(as_text(outcome.positive))
    others = {canonical_value(as_text(v)) for v in values} - {positive}
    return others.pop() if len(others) == 1 else None


def features(frame: pd.DataFrame, names: Sequence[str]) -> Any:
    """Return the feature columns: an array where all are numbers, else a frame."""
    missing = [name for name in names if name not in frame.columns]
    if missing:
        raise TableError(f"columns {missing} are missing; found {list(frame.columns)}")
    part = frame[list(names)]
    if all(dtype.kind in "fiub" for dtype in part.dtypes):
        return part.to_numpy(dtype=np.float64)
    return part


def predict(fitted: Fitted, x: Any, outcome: Outcome) -> Array:
    """Return probabilities of the positive class, of every class, or predicted numbers."""
    if outcome.kind == "regression":
        low, high = (float(end) for end in outcome.range or ("0", "1"))
        return np.clip(np.asarray(fitted.estimator.predict(x), dtype=np.float64), low, high)
    raw = np.asarray(fitted.estimator.predict_proba(x), dtype=np.float64)
    known = [int(c) for c in fitted.estimator.classes_]
    if outcome.kind == "multiclass":
        full = np.zeros((raw.shape[0], len(outcome.classes or ())))
        full[:, known] = raw
        return full
    p = raw[:, known.index(1)]
    return p if fitted.temperature is None else temper(p, fitted.temperature)


def temper(p: Array, temperature: float) -> Array:
    """Return probabilities whose logits were divided by the temperature."""
    inside = np.clip(p, TINY, 1.0 - TINY)
    logit = np.log(inside) - np.log1p(-inside)
    return np.asarray(1.0 / (1.0 + np.exp(-logit / temperature)))
