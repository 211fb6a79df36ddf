"""The probabilities of class 1 by our own learners, for records that many of them predict.

Each is scikit-learn's arithmetic in scikit-learn's order, without what it does again for every
model: it checks the table and codes its texts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

if TYPE_CHECKING:
    import pandas as pd

Array = NDArray[np.float64]


class Learned(Enum):
    """The pipelines that are predicted here."""

    SCALED = "a scaler and a logistic regression"
    CODED = "a one-hot encoder and a logistic regression"
    COUNTED = "a counter of words and naive Bayes"


@dataclass(frozen=True, slots=True, eq=False)
class CodedTexts:
    """A frame of texts: of each column the different texts, and which of them each record has."""

    names: tuple[str, ...]
    distinct: tuple[tuple[str, ...], ...]
    places: tuple[NDArray[np.intp], ...]
    n_records: int


def coded_texts(frame: pd.DataFrame) -> CodedTexts | None:
    """Return the codes of a frame whose values are all texts; of another one nothing."""
    import pandas as pd

    distinct, places = [], []
    for k in range(frame.shape[1]):
        column = frame.iloc[:, k].to_numpy(dtype=object)
        codes, known = pd.factorize(column, use_na_sentinel=False)
        if not all(type(value) is str for value in known):
            return None
        distinct.append(tuple(known))
        places.append(np.asarray(codes))
    return CodedTexts(tuple(frame.columns), tuple(distinct), tuple(places), len(frame))


def learned_as(estimator: Any) -> Learned | None:
    """Return which of our learners made a pipeline of the classes 0 and 1, if one did."""
    from sklearn.compose import ColumnTransformer
    from sklearn.linear_model import LogisticRegression
    from sklearn.naive_bayes import MultinomialNB
    from sklearn.pipeline import Pipeline
    from sklearn.preprocessing import OneHotEncoder, StandardScaler

    if type(estimator) is not Pipeline or len(estimator.steps) != 2:
        return None
    first, last = (step for _, step in estimator.steps)
    if getattr(last, "classes_", np.empty(0)).tolist() != [0.0, 1.0]:
        return None
    if type(first) is ColumnTransformer and type(last) is MultinomialNB:
        return Learned.COUNTED
    if type(last) is not LogisticRegression or last.solver != "liblinear":
        return None
    if type(first) is StandardScaler and first.with_mean and first.with_std:
        return Learned.SCALED
    return Learned.CODED if type(first) is OneHotEncoder else None


def scaled_logistic(pipeline: Any, x: Array) -> Array | None:
    """Return the probabilities by a scaled logistic regression.

    Nothing for another width, and where scaling overflows: scikit-learn refuses that.
    """
    scaler, model = (step for _, step in pipeline.steps)
    if scaler.mean_.shape != (x.shape[1],):
        return None
    scaled = x.copy(order="K")  # the order of a sum follows the order in memory
    with np.errstate(over="ignore"):
        scaled -= scaler.mean_
        scaled /= scaler.scale_
    if not np.isfinite(scaled).all():
        return None
    scores = np.ravel(scaled @ model.coef_.T + model.intercept_)
    return np.asarray(expit(scores))


def plain_onehot(encoder: Any, names: Sequence[str]) -> bool:
    """Return whether an encoder makes one column of ones for each category, and no more."""
    if list(names) != list(getattr(encoder, "feature_names_in_", ())):
        return False
    expected = {
        "handle_unknown": "ignore", "drop": None, "min_frequency": None, "max_categories": None,
        "sparse_output": True, "dtype": np.float64,
    }  # fmt: skip
    return all(getattr(encoder, name) == value for name, value in expected.items())


def coded_logistic(pipeline: Any, texts: CodedTexts) -> Array | None:
    """Return the probabilities by a one-hot logistic regression; nothing for other columns.

    A record's score is the sum of one coefficient a column, added up in the order of the
    columns as in a product with the one-hot table. An unknown text adds nothing.
    """
    encoder, model = (step for _, step in pipeline.steps)
    if not plain_onehot(encoder, texts.names):
        return None
    weights = model.coef_[0].tolist()
    scores = np.zeros(texts.n_records)
    start = 0
    for categories, distinct, places in zip(
        encoder.categories_, texts.distinct, texts.places, strict=True
    ):
        known = categories.tolist()
        if not all(type(value) is str for value in known):
            return None
        weight = dict(zip(known, weights[start : start + len(known)], strict=True))
        scores += np.array([weight.get(value, 0.0) for value in distinct])[places]
        start += len(known)
    scores += model.intercept_
    return np.asarray(expit(scores))


def counted_bayes(pipeline: Any, counts: Any) -> Array | None:
    """Return the probabilities by naive Bayes of a sparse table of counts, in doubles.

    Nothing for a table of another width, or where a logarithm is not finite.
    """
    model = pipeline.steps[-1][1]
    if model.feature_log_prob_.shape[1] != counts.shape[1]:
        return None
    joint = counts @ model.feature_log_prob_.T + model.class_log_prior_
    negative, positive = joint.T.copy()
    if not np.isfinite(joint).all():
        return None
    # log(exp(a) + exp(b)) as scikit-learn and SciPy have it, for two classes alone.
    larger = np.maximum(negative, positive)
    rest = np.log1p(np.exp(np.minimum(negative, positive) - larger))
    return np.asarray(np.exp(positive - (rest + larger)))
