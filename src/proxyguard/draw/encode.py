"""What fitted pipelines make of the same records, with the work they share done once.

Pipelines fitted to many releases often share all steps but the last: a vocabulary, a set of
categories. What those steps make of the records is then made once, and is what each pipeline
itself would make, entry by entry. Of the scaled logistic regression, which shares no step,
it is the check of the records.
"""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

KEPT = 4
"""Encodings of the same records that are held at once; releases rarely have more."""


class Encodings:
    """The features of some records, and what the first steps of pipelines make of them.

    ``positions`` are the records' own numbers: a record that was drawn several times is
    encoded once.
    """

    def __init__(self, x: Any, positions: NDArray[np.int64]) -> None:
        self._x = x
        self._kept: dict[bytes, Any] = {}
        _, first, self._again = np.unique(positions, return_index=True, return_inverse=True)
        self._first = first if first.size < positions.size else None

    def last_step(self, estimator: Any) -> tuple[Any, Any]:
        """Return what predicts, and the features as it takes them."""
        steps = _first_steps(estimator, self._x)
        key = _key(steps) if steps else None
        if key is None:
            return last_step(estimator, self._x)
        if key not in self._kept:
            if len(self._kept) == KEPT:
                self._kept.pop(next(iter(self._kept)))
            self._kept[key] = self._encoded(steps)
        return estimator.steps[-1][1], self._kept[key]

    def positive(self, estimator: Any) -> NDArray[np.float64] | None:
        """Return the probabilities of class 1 by a scaled logistic regression; of others nothing.

        The same steps as scikit-learn's, bit for bit, without the checks of the table that it
        makes in each of them: those take longer than all else, and one is enough for all.
        """
        if not self._finite or not _scaled_logistic(estimator, self._x.shape[1]):
            return None
        scaler, model = (step for _, step in estimator.steps)
        scaled = self._x.copy(order="K")  # the order of a sum follows the order in memory
        scaled -= scaler.mean_
        scaled /= scaler.scale_
        scores = np.ravel(scaled @ model.coef_.T + model.intercept_)
        return np.asarray(expit(scores))

    @cached_property
    def _finite(self) -> bool:
        """Whether the features are an array of finite numbers."""
        return isinstance(self._x, np.ndarray) and bool(np.isfinite(self._x).all())

    def _encoded(self, steps: Sequence[Any]) -> Any:
        """Return what these steps make of the records."""
        from scipy.sparse import issparse

        if self._first is not None:
            few = _apply(steps, self._x.iloc[self._first])
            sparse: bool = issparse(few)
            if sparse:  # rows of counts or ones; in others a bit may depend on the company
                return few[self._again]
        return _apply(steps, self._x)


def last_step(estimator: Any, x: Any) -> tuple[Any, Any]:
    """Return what predicts in an estimator, and the features as it takes them."""
    steps = _first_steps(estimator, x)
    return (estimator.steps[-1][1], _apply(steps, x)) if steps else (estimator, x)


def _scaled_logistic(estimator: Any, width: int) -> bool:
    """Return whether an estimator is a plain scaler and liblinear's regression of two classes."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import Pipeline
    from sklearn.preprocessing import StandardScaler

    if type(estimator) is not Pipeline or len(estimator.steps) != 2:
        return False
    scaler, model = (step for _, step in estimator.steps)
    return (
        type(scaler) is StandardScaler
        and bool(scaler.with_mean and scaler.with_std)
        and type(model) is LogisticRegression
        and model.solver == "liblinear"
        and model.classes_.tolist() == [0.0, 1.0]
        and scaler.mean_.shape == (width,)
    )


def _first_steps(estimator: Any, x: Any) -> list[Any]:
    """Return the steps before the last of a pipeline that reads a frame; none of others.

    An array of numbers is scaled as fast as it is looked up.
    """
    if not hasattr(x, "iloc"):
        return []
    from sklearn.pipeline import Pipeline

    if type(estimator) is not Pipeline:
        return []
    return [step for _, step in estimator.steps[:-1] if step not in (None, "passthrough")]


def _key(steps: Sequence[Any]) -> bytes | None:
    """Return what is equal for equal steps, or nothing for steps that cannot be compared."""
    try:
        return pickle.dumps(steps)
    except (pickle.PicklingError, AttributeError, TypeError):
        return None  # a function without a name, say; such steps are applied each time


def _apply(steps: Sequence[Any], x: Any) -> Any:
    for step in steps:
        found = _onehot(step, x)
        x = step.transform(x) if found is None else found
    return x


def _onehot(encoder: Any, frame: Any) -> Any:
    """Return a plain one-hot table of text, or nothing where scikit-learn should make it.

    scikit-learn checks a frame column by column, which takes longer than all else in a fit.
    """
    from scipy.sparse import csr_matrix
    from sklearn.preprocessing import OneHotEncoder

    if type(encoder) is not OneHotEncoder or not hasattr(frame, "iloc"):
        return None
    if not _plain(encoder, frame):
        return None
    columns = []
    start = 0
    for name, categories in zip(frame.columns, encoder.categories_, strict=True):
        codes = _codes(frame[name].to_numpy(dtype=object), categories)
        if codes is None:
            return None
        columns.append(np.where(codes < 0, -1, codes + start))
        start += len(categories)
    places = np.stack(columns, axis=1)
    known = places >= 0
    ends = np.concatenate([[0], np.cumsum(known.sum(axis=1))])
    indices = places[known]
    return csr_matrix((np.ones(indices.size), indices, ends), shape=(len(frame), start))


def _plain(encoder: Any, frame: Any) -> bool:
    """Return whether an encoder makes one column of ones for each category, and no more."""
    if list(frame.columns) != list(getattr(encoder, "feature_names_in_", ())):
        return False
    expected = {
        "handle_unknown": "ignore", "drop": None, "min_frequency": None, "max_categories": None,
        "sparse_output": True, "dtype": np.float64,
    }  # fmt: skip
    return all(getattr(encoder, name) == value for name, value in expected.items())


def _codes(values: NDArray[Any], categories: NDArray[Any]) -> NDArray[np.intp] | None:
    """Return the number of each text among the categories, -1 for others; nothing if not text."""
    import pandas as pd

    places, distinct = pd.factorize(values, use_na_sentinel=False)
    if not all(type(value) is str for value in (*distinct, *categories)):
        return None
    known = {category: k for k, category in enumerate(categories)}
    return np.array([known.get(value, -1) for value in distinct], dtype=np.intp)[places]
