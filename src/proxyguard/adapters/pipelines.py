"""The estimators of the paper's learning procedures, unfitted, each from its seed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from proxyguard.draw.catalog import find_pipeline, load_attribute
from proxyguard.draw.protocol import Seed


def logistic(seed: Seed) -> Any:
    """Median imputation, standardisation, logistic regression with C = 1; takes no seed."""
    return make_pipeline(
        SimpleImputer(strategy="median"), StandardScaler(), LogisticRegression(max_iter=2000)
    )


def forest(seed: Seed) -> Any:
    """Median imputation and 300 trees with at least three records a leaf."""
    return make_pipeline(
        SimpleImputer(strategy="median"),
        RandomForestClassifier(300, min_samples_leaf=3, random_state=seed.take("forest fit")),
    )


def boosting(seed: Seed) -> Any:
    """Median imputation and histogram gradient boosting, 200 rounds of 31 leaves."""
    return make_pipeline(
        SimpleImputer(strategy="median"),
        HistGradientBoostingClassifier(
            learning_rate=0.05,
            max_iter=200,
            max_leaf_nodes=31,
            random_state=seed.take("boosting fit"),
        ),
    )


def fixed_logistic(seed: Seed) -> Any:
    """Standardisation and liblinear logistic regression with C = 1."""
    return make_pipeline(
        StandardScaler(),
        LogisticRegression(
            solver="liblinear", max_iter=500, random_state=seed.take("logistic fit")
        ),
    )


def onehot_logistic(seed: Seed) -> Any:
    """One column a category, standardised numbers, liblinear logistic regression with C = 1."""
    encode = make_column_transformer(
        (
            OneHotEncoder(handle_unknown="ignore"),
            make_column_selector(dtype_exclude="number"),
        ),
        (StandardScaler(), make_column_selector(dtype_include="number")),
    )
    return make_pipeline(
        encode,
        LogisticRegression(
            solver="liblinear", max_iter=2000, random_state=seed.take("logistic fit")
        ),
    )


class Encoded:
    """A model on one column a category of text, and on numbers with medians for missing ones."""

    def __init__(self, model: Any, *scaling: Any) -> None:
        self._model, self._scaling = model, scaling

    def fit(self, x: Any, y: Any) -> Pipeline:
        """Return the fitted pipeline, which holds nothing of ours."""
        encode = make_pipeline(SimpleImputer(strategy="median"), *self._scaling)
        if not isinstance(x, np.ndarray):  # a table of numbers alone comes as an array
            encode = make_column_transformer(
                (
                    OneHotEncoder(handle_unknown="ignore", sparse_output=False),
                    make_column_selector(dtype_exclude="number"),
                ),
                (encode, make_column_selector(dtype_include="number")),
            )
        return make_pipeline(encode, self._model).fit(x, y)


def balanced_logistic(seed: Seed) -> Encoded:
    """Logistic regression with C = 1 and classes of equal weight; takes no seed."""
    model = LogisticRegression(class_weight="balanced", max_iter=2000)
    return Encoded(model, StandardScaler())


def balanced_boosting(seed: Seed) -> Encoded:
    """Histogram gradient boosting, 150 rounds with l2 = 1, classes of equal weight."""
    return Encoded(
        HistGradientBoostingClassifier(
            max_iter=150,
            l2_regularization=1.0,
            class_weight="balanced",
            random_state=seed.take("boosting fit"),
        )
    )


def make_estimator(name: str, options: Mapping[str, Any], seed: Seed) -> Any:
    """Return an unfitted estimator by our name, or any scikit-learn one by import path."""
    if ":" not in name:
        return find_pipeline(name)(seed)
    estimator = load_attribute(name)(**options)
    names = [key for key in estimator.get_params() if key.split("__")[-1] == "random_state"]
    if names:
        estimator.set_params(**dict.fromkeys(names, seed.take(f"{name.split(':')[1]} fit")))
    return estimator
