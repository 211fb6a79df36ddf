"""The paper's learning procedures: scikit-learn fits them, and what it learned becomes a model.

The only place that knows both scikit-learn's attributes and this package's models. What is read
off a fitted pipeline is compared with the pipeline's own predictions on rows that it was fitted
on, so that a scikit-learn that keeps its numbers otherwise is noticed at the first fit.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.compose import ColumnTransformer, make_column_selector, make_column_transformer
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from proxyguard.draw.catalog import find_pipeline, load_callable
from proxyguard.draw.protocol import Inputs, Seed
from proxyguard.errors import DrawError
from proxyguard.exact.rounding import Array
from proxyguard.models.features import FeatureColumns
from proxyguard.models.learned import LinearModel, Sum, TreeModel
from proxyguard.models.stored import Model

if TYPE_CHECKING:
    from proxyguard.adapters.library import Unfitted

# Rows of the table on which a model is compared with the pipeline that it was read from.
COMPARED = 64
# How far two probabilities of the same pipeline may lie apart: sums in another order.
CLOSE = 1e-12


class Learned:
    """A pipeline of scikit-learn whose fit returns a model of this package.

    Parameters
    ----------
    model
        What predicts, unfitted.
    numbers
        The steps for numbers, unfitted: an imputer, a scaler, both or none.
    texts
        The encoder of texts, unfitted; nothing where a table of numbers alone is taken.
    """

    def __init__(
        self, model: BaseEstimator, *numbers: BaseEstimator, texts: OneHotEncoder | None = None
    ) -> None:
        self.model, self._numbers, self._texts = model, numbers, texts

    def fit(self, x: Inputs, y: Array) -> Model:
        """Return the fitted model.

        Raises
        ------
        DrawError
            If scikit-learn predicts otherwise than what was read from it: use another version.
        """
        pipeline = self.pipeline(x).fit(x, y)
        model = model_of(pipeline, x)
        few = x[:COMPARED]
        if not np.allclose(
            model.predict_proba(few), pipeline.predict_proba(few), rtol=0.0, atol=CLOSE
        ):
            import sklearn

            raise DrawError(
                f"scikit-learn {sklearn.__version__} predicts otherwise than the numbers that "
                f"were read from its {type(self.model).__name__}; fit with another version of it"
            )
        return model

    def pipeline(self, x: Inputs) -> Pipeline:
        """Return the unfitted pipeline for a table: an array of numbers, or a frame."""
        if self._texts is None or isinstance(x, np.ndarray):
            return make_pipeline(*self._numbers, self.model)
        encode = make_column_transformer(
            (self._texts, make_column_selector(dtype_exclude="number")),
            (make_pipeline(*self._numbers), make_column_selector(dtype_include="number")),
        )
        return make_pipeline(encode, self.model)


def logistic(seed: Seed) -> Learned:
    """Median imputation, standardisation, logistic regression with C = 1; takes no seed."""
    return Learned(LogisticRegression(max_iter=2000), _medians(), StandardScaler())


def forest(seed: Seed) -> Learned:
    """Median imputation and 300 trees with at least three records a leaf."""
    model = RandomForestClassifier(300, min_samples_leaf=3, random_state=seed.take("forest fit"))
    return Learned(model, _medians())


def boosting(seed: Seed) -> Learned:
    """Median imputation and histogram gradient boosting, 200 rounds of 31 leaves."""
    model = HistGradientBoostingClassifier(
        learning_rate=0.05,
        max_iter=200,
        max_leaf_nodes=31,
        random_state=seed.take("boosting fit"),
    )
    return Learned(model, _medians())


def fixed_logistic(seed: Seed) -> Learned:
    """Standardisation and liblinear logistic regression with C = 1."""
    return Learned(_liblinear(500, seed), StandardScaler())


def onehot_logistic(seed: Seed) -> Learned:
    """One column a category, standardised numbers, liblinear logistic regression with C = 1."""
    # A release may lack a category that the target has: it then has no column, and weighs nothing.
    texts = OneHotEncoder(handle_unknown="ignore")
    return Learned(_liblinear(2000, seed), StandardScaler(), texts=texts)


def balanced_logistic(seed: Seed) -> Learned:
    """Logistic regression with C = 1 and classes of equal weight; takes no seed.

    One column a category of text; numbers are standardised, with medians for missing ones.
    """
    model = LogisticRegression(class_weight="balanced", max_iter=2000)
    return Learned(model, _medians(), StandardScaler(), texts=_dense_onehot())


def balanced_boosting(seed: Seed) -> Learned:
    """Histogram gradient boosting, 150 rounds with l2 = 1, classes of equal weight.

    One column a category of text; numbers with medians for missing ones.
    """
    model = HistGradientBoostingClassifier(
        max_iter=150,
        l2_regularization=1.0,
        class_weight="balanced",
        random_state=seed.take("boosting fit"),
    )
    return Learned(model, _medians(), texts=_dense_onehot())


def _medians() -> SimpleImputer:
    return SimpleImputer(strategy="median")


def _liblinear(max_iter: int, seed: Seed) -> LogisticRegression:
    return LogisticRegression(
        solver="liblinear", max_iter=max_iter, random_state=seed.take("logistic fit")
    )


def _dense_onehot() -> OneHotEncoder:
    # Histogram boosting takes no sparse table.
    return OneHotEncoder(handle_unknown="ignore", sparse_output=False)


def model_of(pipeline: Pipeline, x: Inputs) -> Model:
    """Return the model that a fitted pipeline of `Learned` is."""
    encoding = _encoding(pipeline[:-1], x)
    model = pipeline[-1]
    if isinstance(model, LogisticRegression):
        return _linear(model, encoding)
    if isinstance(model, RandomForestClassifier):
        return _forest(model, encoding)
    return _boosted(model, encoding)


@dataclass(frozen=True, slots=True, eq=False)
class _Encoding:
    """What the first steps of a pipeline learned.

    ``places`` are the numbers of the columns that the last step sees among all encoded ones:
    an imputer drops a column that it saw no number in, whatever its other rows hold. Such a
    column is read, filled with 0, and has no weight.
    """

    columns: FeatureColumns
    fill: Array
    mean: Array
    scale: Array
    places: NDArray[np.int32]


def _encoding(steps: Pipeline, x: Inputs) -> _Encoding:
    first = steps[0]
    if isinstance(first, ColumnTransformer):
        (_, onehot, texts), (_, numeric, _) = first.transformers_[:2]
        known = {}
        if len(texts):
            known = {
                name: tuple(_text(value, name) for value in values)
                for name, values in zip(texts, onehot.categories_, strict=True)
            }
        columns = FeatureColumns(tuple(map(str, x)), tuple(known.get(name) for name in x))
        steps = numeric
    else:
        columns = FeatureColumns.numeric(x.shape[1])
    count, codes = len(columns.numbers), columns.n_codes
    fill, mean, scale = np.full(count, np.nan), np.zeros(count), np.ones(count)
    kept = np.ones(count, dtype=bool)
    for _, step in steps.steps if count else ():
        if isinstance(step, SimpleImputer):
            kept = ~np.isnan(step.statistics_)
            fill = np.where(kept, step.statistics_, 0.0)
        else:
            # The scaler stands behind the imputer, which has dropped columns: it knows the others
            # alone.
            mean[kept], scale[kept] = step.mean_, step.scale_
    places = np.concatenate([np.arange(codes), codes + np.flatnonzero(kept)])
    return _Encoding(columns, fill, mean, scale, places.astype(np.int32))


def _text(value: object, name: str) -> str:
    if not isinstance(value, str):
        raise DrawError(
            f"the column {name!r} has the value {value!r}, which is neither number nor text"
        )
    return value


def _linear(model: LogisticRegression, encoding: _Encoding) -> LinearModel:
    columns, fill = encoding.columns, encoding.fill
    coefficients = np.zeros((len(model.coef_), columns.n_codes + fill.size))
    coefficients[:, encoding.places] = model.coef_
    classes = model.classes_.astype(np.float64)
    return LinearModel(
        columns, fill, encoding.mean, encoding.scale, coefficients, model.intercept_, classes
    )


class _Tree(NamedTuple):
    """One tree as scikit-learn keeps it: every node a row, the root first."""

    left: NDArray[np.intp]
    right: NDArray[np.intp]
    leaf: NDArray[np.bool_]
    feature: NDArray[np.intp]
    threshold: Array
    value: Array  # (nodes, shares or logits)


def _forest(model: RandomForestClassifier, encoding: _Encoding) -> TreeModel:
    trees = [
        _Tree(t.children_left, t.children_right, t.children_left < 0, t.feature, t.threshold,
              t.value[:, 0, :])
        for t in (estimator.tree_ for estimator in model.estimators_)
    ]  # fmt: skip
    return _tree_model(trees, encoding, Sum.SHARES, np.zeros(len(model.classes_)), model.classes_)


def _boosted(model: HistGradientBoostingClassifier, encoding: _Encoding) -> TreeModel:
    # scikit-learn has no public name for what follows; `Learned.fit` compares the predictions.
    start = np.asarray(model._baseline_prediction, dtype=np.float64).ravel()
    trees = []
    for of_round in model._predictors:
        for k, nodes in enumerate(predictor.nodes for predictor in of_round):
            value = nodes["value"][:, None] * np.eye(start.size)[k]
            left, right, feature = (nodes[f].astype(np.intp) for f in NODES)
            leaf = nodes["is_leaf"] > 0
            trees.append(_Tree(left, right, leaf, feature, nodes["num_threshold"], value))
    return _tree_model(trees, encoding, Sum.LOGITS, start, model.classes_)


# Where a node of boosted trees leads, and what it asks for.
NODES = ("left", "right", "feature_idx")


def _tree_model(
    trees: list[_Tree], encoding: _Encoding, total: Sum, start: Array, classes: Array
) -> TreeModel:
    """Put all trees into one sequence of inner nodes and one of leaves, as `TreeModel` has it."""
    roots, children = [], []
    inner = leaves = 0
    for tree in trees:
        asks = ~tree.leaf
        # Inner nodes are numbered from 0 up over all trees, leaves from -1 down.
        number = np.where(asks, inner + np.cumsum(asks) - 1, -leaves - np.cumsum(tree.leaf))
        roots.append(number[0])
        children.append(np.stack([number[tree.left[asks]], number[tree.right[asks]]], axis=1))
        inner, leaves = inner + int(asks.sum()), leaves + int(tree.leaf.sum())
    return TreeModel(
        columns=encoding.columns, fill=encoding.fill, total=total,
        roots=np.array(roots, dtype=np.int32),
        feature=encoding.places[np.concatenate([tree.feature[~tree.leaf] for tree in trees])],
        threshold=np.concatenate([tree.threshold[~tree.leaf] for tree in trees]),
        children=np.concatenate(children).astype(np.int32),
        leaves=np.concatenate([tree.value[tree.leaf] for tree in trees]),
        start=start, classes_=np.asarray(classes, dtype=np.float64),
    )  # fmt: skip


def make_estimator(name: str, options: Mapping[str, object], seed: Seed) -> Unfitted:
    """Return an unfitted estimator by our name, or any scikit-learn one by import path.

    Parameters
    ----------
    name
        A name of ours, or an import path.
    options
        What an estimator by import path is made with; ours take none.
    seed
        What every ``random_state`` is set to, and noted as taken for this fit.

    Raises
    ------
    RegistryError
        If there is nothing of this name, or it cannot be loaded.
    """
    if ":" not in name:
        return cast("Unfitted", find_pipeline(name)(seed))
    estimator = cast("BaseEstimator", load_callable(name)(**options))
    # Of the steps inside a pipeline too: one that is left out would draw from the global state of
    # its process, and no seed would repeat the fit.
    names = [key for key in estimator.get_params() if key.split("__")[-1] == "random_state"]
    if names:
        estimator.set_params(**dict.fromkeys(names, seed.take(f"{name.split(':')[1]} fit")))
    return cast("Unfitted", estimator)
