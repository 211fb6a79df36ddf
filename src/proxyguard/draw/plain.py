"""The pipelines of our own learners, built from their numbers and taken apart into them.

These are few and small, so a stored one needs no general reader of objects: its numbers are
stored, and the scikit-learn pipeline is built around them. An estimator is stored this way
only where what would be built equals it in every attribute.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from proxyguard.draw.alike import alike
from proxyguard.draw.container import Array, Parts, parts_bytes, read_parts
from proxyguard.errors import SealError

if TYPE_CHECKING:
    from sklearn.compose import ColumnTransformer
    from sklearn.linear_model import LogisticRegression
    from sklearn.naive_bayes import MultinomialNB
    from sklearn.pipeline import Pipeline
    from sklearn.preprocessing import OneHotEncoder, StandardScaler


Build = Callable[[Mapping[str, Any], Mapping[str, Array]], Any]


class Kind(NamedTuple):
    """One shape of pipeline: its steps, how it is taken apart, and how it is built."""

    steps: tuple[str, ...]
    take: Callable[[Any], tuple[dict[str, Any], dict[str, Array]]]
    build: Build
    alone: Build | None = None  # builds without a part that models share; else as `build`


def plain_bytes(estimator: Any) -> bytes | None:
    """Return the file of a pipeline of ours; of any other estimator nothing."""
    steps = getattr(estimator, "steps", None)
    if not isinstance(steps, list):
        return None
    types = tuple(type(step).__name__ for _, step in steps)
    for name, kind in KINDS.items():
        if types == kind.steps:
            try:
                content = parts_bytes(Parts(name, *kind.take(estimator)))
                parts = read_parts(content)
                again = (kind.alone or kind.build)(parts.values, parts.arrays)
            except (AttributeError, TypeError, ValueError, KeyError, IndexError, SealError):
                return None  # of these steps, and not as our learners leave them
            return content if alike(estimator, again) else None
    return None


def plain_model(content: bytes) -> Any:
    """Return the pipeline of a file; a kind that is not ours or does not fit is refused."""
    parts = read_parts(content)
    if parts.kind not in KINDS:
        raise SealError(f"there is no kind of model called {parts.kind[:80]!r}")
    return KINDS[parts.kind].build(parts.values, parts.arrays)


def logistic(
    coefficients: Array, intercept: Array, *, max_iter: int, random_state: int | None = None,
    iterations: int | None = None,
) -> LogisticRegression:  # fmt: skip
    """Return scikit-learn's liblinear regression of the classes 0 and 1, already fitted."""
    from sklearn.linear_model import LogisticRegression

    model = LogisticRegression(solver="liblinear", max_iter=max_iter, random_state=random_state)
    model.classes_ = np.array([0.0, 1.0])
    model.coef_, model.intercept_ = coefficients[None, :], intercept
    model.n_features_in_ = coefficients.size
    if iterations is not None:
        model.n_iter_ = np.array([iterations], dtype=np.int32)
    return model


def scaler(mean: Array, variance: Array, scale: Array, rows: Any) -> StandardScaler:
    """Return scikit-learn's scaler, already fitted; ``rows`` is how many it was fitted on."""
    from sklearn.preprocessing import StandardScaler

    made = StandardScaler()
    made.mean_, made.var_, made.scale_ = mean, variance, scale
    made.n_features_in_, made.n_samples_seen_ = mean.size, rows
    return made


def onehot(names: Sequence[str], categories: Sequence[Sequence[str]]) -> OneHotEncoder:
    """Return scikit-learn's encoder of these categories, in order, already fitted.

    One is fitted on one value, and the categories are put in place of its own: fitting one on
    all categories takes longer than all else in reading a model.
    """
    from sklearn.preprocessing import OneHotEncoder

    made = OneHotEncoder(handle_unknown="ignore")
    vars(made).update(_fitted_onehot())
    made.n_features_in_ = len(names)
    made.feature_names_in_ = np.array(names, dtype=object)
    made.categories_ = [np.array(known, dtype=object) for known in categories]
    made._n_features_outs = [len(known) for known in categories]
    return made


@lru_cache(maxsize=1)
def _fitted_onehot() -> dict[str, Any]:
    """Return the attributes of an encoder that do not depend on the categories."""
    from sklearn.preprocessing import OneHotEncoder

    return dict(vars(OneHotEncoder(handle_unknown="ignore").fit(np.array([["a"]], dtype=object))))


def counter(terms: Sequence[str], column: str) -> ColumnTransformer:
    """Return scikit-learn's counter of these terms in this column, already fitted."""
    import pandas as pd
    from sklearn.compose import ColumnTransformer
    from sklearn.feature_extraction.text import CountVectorizer

    made = ColumnTransformer([("words", CountVectorizer(vocabulary=list(terms)), column)])
    made.fit(pd.DataFrame({column: pd.Series([terms[0]], dtype=object)}))
    return made


_shared_counter = lru_cache(maxsize=4)(counter)
"""Stored models of the same words share one counter, as the fits of one procedure do."""
_own_counter = lru_cache(maxsize=4)(counter)
"""The counter that a model to be stored is compared with: no model has it, so none changed it."""


def bayes(
    counts: Array, sizes: Array, classes: Array, term_logs: Array, class_logs: Array
) -> MultinomialNB:
    """Return scikit-learn's naive Bayes with alpha = 1, already fitted."""
    from sklearn.naive_bayes import MultinomialNB

    model = MultinomialNB(alpha=1.0)
    model.n_features_in_, model.classes_ = counts.shape[1], classes
    model.class_count_, model.feature_count_ = sizes, counts
    model.feature_log_prob_, model.class_log_prior_ = term_logs, class_logs
    return model


def _take_scaled(pipeline: Any) -> tuple[dict[str, Any], dict[str, Array]]:
    first, last = (step for _, step in pipeline.steps)
    rows = first.n_samples_seen_
    values = {"rows": rows.item(), **_regression(last)}
    arrays = {"mean": first.mean_, "variance": first.var_, "scale": first.scale_}
    return values, {**arrays, **_line(last)}


def _build_scaled(values: Mapping[str, Any], arrays: Mapping[str, Array]) -> Pipeline:
    from sklearn.pipeline import make_pipeline

    _names(values, arrays, ("rows", *_REGRESSION), ("mean", "variance", "scale", *_LINE))
    p = arrays["mean"].size
    _shapes(arrays, mean=(p,), variance=(p,), scale=(p,), coefficients=(p,), intercept=(1,))
    rows = values["rows"]
    # scikit-learn counts the rows in integers or in doubles, as its versions go.
    if type(rows) not in (int, float) or not 1 <= rows < 2**62:
        raise SealError("rows is no number of rows")
    seen = np.int64(rows) if type(rows) is int else np.float64(rows)
    first = scaler(arrays["mean"], arrays["variance"], arrays["scale"], seen)
    return make_pipeline(first, _built_logistic(values, arrays))


def _take_onehot(pipeline: Any) -> tuple[dict[str, Any], dict[str, Array]]:
    first, last = (step for _, step in pipeline.steps)
    values = {
        "features": first.feature_names_in_.tolist(),
        "categories": [known.tolist() for known in first.categories_],
        **_regression(last),
    }
    return values, _line(last)


def _build_onehot(values: Mapping[str, Any], arrays: Mapping[str, Array]) -> Pipeline:
    from sklearn.pipeline import make_pipeline

    _names(values, arrays, ("features", "categories", *_REGRESSION), _LINE)
    names, categories = _texts(values["features"], "features"), values["categories"]
    if not isinstance(categories, list) or len(categories) != len(names):
        raise SealError("there is not one list of categories for each feature")
    for name, known in zip(names, categories, strict=True):
        if sorted(_texts(known, "categories")) != known:
            raise SealError(f"the categories of {name[:40]!r} are not in order")
    _shapes(arrays, coefficients=(sum(len(known) for known in categories),), intercept=(1,))
    return make_pipeline(onehot(names, categories), _built_logistic(values, arrays))


def _take_counted(pipeline: Any) -> tuple[dict[str, Any], dict[str, Array]]:
    first, last = (step for _, step in pipeline.steps)
    ((_, words, column),) = first.transformers
    arrays = {
        "classes": last.classes_, "sizes": last.class_count_, "counts": last.feature_count_,
        "term_logs": last.feature_log_prob_, "class_logs": last.class_log_prior_,
    }  # fmt: skip
    return {"column": column, "terms": list(words.vocabulary)}, arrays


def _build_counted(
    values: Mapping[str, Any], arrays: Mapping[str, Array],
    make: Callable[[tuple[str, ...], str], ColumnTransformer] = _shared_counter,
) -> Pipeline:  # fmt: skip
    from sklearn.pipeline import make_pipeline

    wanted = ("classes", "sizes", "counts", "term_logs", "class_logs")
    _names(values, arrays, ("column", "terms"), wanted)
    terms, (column,) = _texts(values["terms"], "terms"), _texts([values["column"]], "column")
    k, p = arrays["classes"].size, len(terms)
    _shapes(arrays, classes=(k,), sizes=(k,), counts=(k, p), term_logs=(k, p), class_logs=(k,))
    return make_pipeline(make(tuple(terms), column), bayes(**arrays))


_REGRESSION = ("max_iter", "random_state", "iterations")
_LINE = ("coefficients", "intercept")


def _regression(model: Any) -> dict[str, Any]:
    """Return the plain values of a logistic regression."""
    iterations = getattr(model, "n_iter_", None)
    return {
        "max_iter": model.max_iter,
        "random_state": model.random_state,
        "iterations": None if iterations is None else int(iterations[0]),
    }


def _line(model: Any) -> dict[str, Array]:
    """Return the coefficients of a logistic regression of two classes."""
    return {"coefficients": model.coef_[0], "intercept": model.intercept_}


def _built_logistic(values: Mapping[str, Any], arrays: Mapping[str, Array]) -> LogisticRegression:
    for name in _REGRESSION:
        value = values[name]
        if name != "max_iter" and value is None:
            continue
        if type(value) is not int or not 0 <= value < 2**32:
            raise SealError(f"{name} is no number from 0 to {2**32 - 1}")
    return logistic(
        arrays["coefficients"], arrays["intercept"], **{name: values[name] for name in _REGRESSION}
    )


def _names(
    values: Mapping[str, Any], arrays: Mapping[str, Array], wanted: Sequence[str],
    held: Sequence[str],
) -> None:  # fmt: skip
    """Refuse other values, or other arrays or another order of them, than a kind has."""
    if set(values) != set(wanted) or tuple(arrays) != tuple(held):
        raise SealError(
            f"its values are {sorted(values)[:9]} and its arrays {list(arrays)[:9]}; expected "
            f"are {sorted(wanted)} and {list(held)}"
        )


def _shapes(arrays: Mapping[str, NDArray[Any]], **wanted: tuple[int, ...]) -> None:
    """Refuse arrays of other shapes."""
    for name, shape in wanted.items():
        if arrays[name].shape != shape:
            raise SealError(f"{name} has shape {arrays[name].shape}, expected {shape}")


def _texts(values: Any, what: str) -> list[str]:
    """Return a list after checking that it holds texts, at least one and each once."""
    if not isinstance(values, list) or set(map(type, values)) != {str}:
        raise SealError(f"{what} must be a list of texts")
    if len(set(values)) != len(values):
        raise SealError(f"{what} has a text twice")
    return values


KINDS: Mapping[str, Kind] = {
    "scaled logistic": Kind(("StandardScaler", "LogisticRegression"), _take_scaled, _build_scaled),
    "one-hot logistic": Kind(("OneHotEncoder", "LogisticRegression"), _take_onehot, _build_onehot),
    "counted naive Bayes": Kind(
        ("ColumnTransformer", "MultinomialNB"),
        _take_counted,
        _build_counted,
        alone=partial(_build_counted, make=_own_counter),
    ),
}
"""All that is ever built from a file of this form."""
