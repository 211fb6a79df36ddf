"""What fitted pipelines make of the same records, with the work they share done once.

Pipelines fitted to many releases often share all steps but the last: a vocabulary, a set of
categories. What those steps make of the records is then made once, and is what each pipeline
itself would make, entry by entry. Of the logistic regressions, whose scalers and categories
differ from release to release, it is the check of the records and the look at their texts.
"""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from proxyguard.draw.positive import (
    CodedTexts,
    Learned,
    coded_logistic,
    coded_texts,
    counted_bayes,
    learned_as,
    plain_onehot,
    scaled_logistic,
)

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
        self._counts: tuple[Any, Any, NDArray[np.intp] | None] | None = None
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
        """Return the probabilities of class 1 by one of our own learners; of others nothing.

        The same steps as scikit-learn's, without the checks of the table that it makes in each
        of them: those take longer than all else, and one is enough for all.
        """
        learned = learned_as(estimator)
        if learned is Learned.SCALED and self._finite:
            return scaled_logistic(estimator, self._x)
        if learned is Learned.CODED and self._texts is not None:
            return coded_logistic(estimator, self._texts)
        if learned is Learned.COUNTED and hasattr(self._x, "iloc"):
            return self._counted(estimator)
        return None

    @cached_property
    def _finite(self) -> bool:
        """Whether the features are an array of finite numbers."""
        return isinstance(self._x, np.ndarray) and bool(np.isfinite(self._x).all())

    @cached_property
    def _texts(self) -> CodedTexts | None:
        """The codes of the features, where they are a frame of texts."""
        return coded_texts(self._x) if hasattr(self._x, "iloc") else None

    def _counted(self, estimator: Any) -> NDArray[np.float64] | None:
        """Return the probabilities by naive Bayes, each different record's once."""
        from scipy.sparse import issparse

        step = estimator.steps[0][1]
        if self._counts is None or self._counts[0] is not step:
            counts = self.last_step(estimator)[1]
            sparse: bool = issparse(counts)
            if not sparse:
                return None
            again = None
            if self._first is not None:
                counts, again = counts[self._first], self._again
            self._counts = step, counts.astype(np.float64), again
        _, counts, again = self._counts
        found = counted_bayes(estimator, counts)
        return found if found is None or again is None else found[again]

    def _encoded(self, steps: Sequence[Any]) -> Any:
        """Return what these steps make of the records."""
        from scipy.sparse import issparse

        if self._first is not None:
            few = _apply(steps, self._x.iloc[self._first])
            sparse: bool = issparse(few)
            if sparse:  # rows of counts or ones; in others a bit may depend on the company
                return few[self._again]
        return _apply(steps, self._x)


def positive(estimator: Any, x: Any) -> NDArray[np.float64] | None:
    """Return the probabilities of class 1 by one of our own learners; of others nothing.

    One computation for records read once and for records that many procedures predict, so
    that the two can never differ.
    """
    if isinstance(x, Encodings):
        return x.positive(estimator)
    if learned_as(estimator) is None:
        return None
    return Encodings(x, np.arange(len(x))).positive(estimator)


def last_step(estimator: Any, x: Any) -> tuple[Any, Any]:
    """Return what predicts in an estimator, and the features as it takes them."""
    steps = _first_steps(estimator, x)
    return (estimator.steps[-1][1], _apply(steps, x)) if steps else (estimator, x)


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
    if not plain_onehot(encoder, list(frame.columns)):
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


def _codes(values: NDArray[Any], categories: NDArray[Any]) -> NDArray[np.intp] | None:
    """Return the number of each text among the categories, -1 for others; nothing if not text."""
    import pandas as pd

    places, distinct = pd.factorize(values, use_na_sentinel=False)
    if not all(type(value) is str for value in (*distinct, *categories)):
        return None
    known = {category: k for k, category in enumerate(categories)}
    return np.array([known.get(value, -1) for value in distinct], dtype=np.intp)[places]
