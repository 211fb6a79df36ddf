"""From a table to features and outcomes, and from an estimator to predictions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from proxyguard.draw.protocol import Fitted
from proxyguard.errors import TableError
from proxyguard.models.features import Features
from proxyguard.models.stored import Model
from proxyguard.registry.fields import number
from proxyguard.registry.target import Outcome
from proxyguard.seal.fingerprint import canonical_value
from proxyguard.tables.columns import as_text

if TYPE_CHECKING:
    import pandas as pd

Array = NDArray[np.float64]
TINY = 1e-12
"""Probabilities are kept this far from 0 and 1 before a logit is taken."""


def outcomes(values: Sequence[Any] | pd.Series[Any], outcome: Outcome, where: str) -> Array:
    """Return outcomes as numbers: 0 or 1, the number of a class, or the value itself."""
    places, texts = _distinct(values)
    if outcome.kind == "binary":
        numbers = _binary(texts, outcome, where)
    elif outcome.kind == "multiclass":
        numbers = _classes(texts, outcome)
    else:
        numbers = _inside(texts, outcome)
    found = numbers[places]
    wrong = np.flatnonzero(np.isnan(found))
    if wrong.size:
        row = int(wrong[0])
        raise TableError(
            f"{where}, row {row}: {outcome.column!r} is {texts[places[row]]!r}, declared "
            f"{_declared(outcome)}"
        )
    return found


def _distinct(values: Sequence[Any] | pd.Series[Any]) -> tuple[NDArray[np.intp], list[str]]:
    """Return where each value stands among the different ones, and those in canonical form."""
    import pandas as pd

    codes, distinct = pd.factorize(np.asarray(values, dtype=object), use_na_sentinel=False)
    return np.asarray(codes), [canonical_value(as_text(value)) for value in distinct]


def _binary(texts: Sequence[str], outcome: Outcome, where: str) -> Array:
    positive = canonical_value(as_text(outcome.positive))
    found = sorted(set(texts) - {""})
    if len(found) > 2 or (len(found) == 2 and positive not in found):
        raise TableError(
            f"{where}: {outcome.column!r} is declared with positive = {outcome.positive!r}, so it "
            f"has that value and one other; found {found[:5]}"
        )
    return np.array([np.nan if text == "" else float(text == positive) for text in texts])


def _classes(texts: Sequence[str], outcome: Outcome) -> Array:
    classes = {canonical_value(as_text(c)): float(k) for k, c in enumerate(outcome.classes or ())}
    return np.array([classes.get(text, np.nan) for text in texts])


def _inside(texts: Sequence[str], outcome: Outcome) -> Array:
    low, high = (number(end) for end in outcome.range or ("0", "1"))
    found = []
    for text in texts:
        try:
            value = float(text)
        except ValueError:
            value = np.nan
        found.append(value if low <= value <= high else np.nan)
    return np.array(found)


def _declared(outcome: Outcome) -> str:
    if outcome.kind == "binary":
        return f"positive = {outcome.positive!r}"
    if outcome.kind == "multiclass":
        return f"classes {list(outcome.classes or ())}"
    return f"range {list(outcome.range or ())}"


def negative_label(values: Sequence[Any] | pd.Series[Any], outcome: Outcome) -> str | None:
    """Return the other label of a binary outcome, as development has it."""
    positive = canonical_value(as_text(outcome.positive))
    others = set(_distinct(values)[1]) - {positive}
    return others.pop() if len(others) == 1 else None


def features(frame: pd.DataFrame, names: Sequence[str]) -> Any:
    """Return the feature columns: an array where all are numbers, else a frame."""
    places = {name: k for k, name in enumerate(frame.columns.tolist())}
    missing = [name for name in names if name not in places]
    if missing:
        raise TableError(f"columns {missing} are missing; found {list(frame.columns)}")
    wanted = [places[name] for name in names]
    # By number: pandas would look every name up, which for a small release takes as long as
    # its regression.
    part = frame.set_axis(range(len(places)), axis=1).take(wanted, axis=1)
    if all(dtype.kind in "fiub" for dtype in part.dtypes):
        return part.to_numpy(dtype=np.float64)
    return part.set_axis(frame.columns.take(wanted), axis=1)


def predict(fitted: Fitted, x: Any, outcome: Outcome) -> Array:
    """Return probabilities of the positive class, of every class, or predicted numbers.

    ``x`` is what `features` returned, or `Features` of it where many procedures predict the
    same records.
    """
    estimator = fitted.estimator
    if isinstance(x, Features) and not isinstance(estimator, Model):
        x = x.table
    if outcome.kind == "regression":
        low, high = (number(end) for end in outcome.range or ("0", "1"))
        return np.clip(np.asarray(estimator.predict(x), dtype=np.float64), low, high)
    raw = np.asarray(estimator.predict_proba(x), dtype=np.float64)
    known = [int(c) for c in estimator.classes_]
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
    return np.asarray(0.5 * (1.0 + np.tanh(0.5 * logit / temperature)))  # exp would overflow
