"""The learner `default` takes any table, learns from each kind of column, and is stored whole."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray

from conformance.messy import labelled, messy
from proxyguard.adapters.any_table import TEXTS, Additive
from proxyguard.adapters.library import Library
from proxyguard.draw.protocol import Seed, features, predict
from proxyguard.errors import DrawError
from proxyguard.models.stored import load_model, model_bytes
from proxyguard.registry.parts import Procedure
from proxyguard.registry.target import Outcome
from proxyguard.tables.columns import kinds_of, typed

BINARY = Outcome(column="y", positive="1")
OUTCOMES = {
    "binary": BINARY,
    "multiclass": Outcome(column="y", classes=("0", "1", "2")),
    "regression": Outcome(column="y", range=("-50", "50")),
}


def fitted(table: pd.DataFrame, outcome: Outcome = BINARY) -> Any:
    names = [name for name in table if name != "y"]
    learner = Library(Procedure(library=("default",), seed=1), outcome, names)
    return learner.fit(table, None, Seed(1))


def rows(table: pd.DataFrame) -> Any:
    return features(table, [name for name in table if name != "y"])


def ranked(p: NDArray[np.float64], y: NDArray[np.bool_]) -> float:
    """Return the chance that a positive record has the larger score."""
    places = np.argsort(np.argsort(p)) + 1.0
    return float((places[y].sum() - y.sum() * (y.sum() + 1) / 2) / (y.sum() * (~y).sum()))


@pytest.mark.parametrize("kind", OUTCOMES)
def test_a_messy_table_is_learned_from_stored_and_predicted_on(kind: str) -> None:
    outcome, fresh = OUTCOMES[kind], labelled(2000, 9, kind)
    learned = fitted(labelled(3000, 1, kind), outcome)
    content = model_bytes(learned.estimator)
    p = predict(learned, rows(fresh), outcome)
    again = type(learned)(estimator=load_model(content, "a model"), selected="default")
    np.testing.assert_array_equal(predict(again, rows(fresh), outcome), p)
    assert model_bytes(fitted(labelled(3000, 1, kind), outcome).estimator) == content
    if kind == "binary":
        y = fresh["y"].to_numpy() == "1"
        # Nothing ranks better than the score that the outcomes were drawn from.
        assert ranked(p, y) > ranked(messy(2000, 9)["score"].to_numpy(), y) - 0.02
        assert abs(p.mean() - y.mean()) < 0.03
    elif kind == "multiclass":
        np.testing.assert_allclose(p.sum(axis=1), 1.0, rtol=1e-12)
        hits = p[np.arange(2000), fresh["y"].astype(int)]
        assert np.mean(hits) > 0.5
    else:
        noise = np.var(fresh["y"] - messy(2000, 9)["score"])
        assert np.var(fresh["y"] - p) < 1.1 * noise


@pytest.mark.parametrize("column", ["admitted", "amount", "ward", "lab"])
def test_each_kind_of_column_tells_something(column: str) -> None:
    table = labelled(3000, 1)
    learned = fitted(table[[column, "y"]])
    p = predict(learned, rows(labelled(2000, 9)[[column, "y"]]), BINARY)
    y = (labelled(2000, 9)["y"] == "1").to_numpy(dtype=float)
    assert np.mean((p - y) ** 2) < 0.97 * np.var(y)


def test_what_training_did_not_have_adds_nothing() -> None:
    table = pd.DataFrame({"t": ["a"] * 30 + ["b"] * 30, "x": np.arange(60.0), "y": 30 * ["0", "1"]})
    model = fitted(table.astype({"t": object})).estimator
    ends = pd.DataFrame({"t": ["new", "", "new"], "x": [59.0, 1e308, np.inf]}, dtype=object)
    ends["x"] = ends["x"].astype(float)
    first, second, third = model.predict_proba(ends)[:, 1]
    assert first == second == third  # beyond the last record a curve is level
    (middle,) = model.predict_proba(pd.DataFrame({"t": ["new"], "x": [np.nan]}))[:, 1]
    assert middle == pytest.approx(0.5, abs=0.02)


def test_a_table_of_ids_and_constants_predicts_the_prevalence() -> None:
    table = pd.DataFrame(
        {"id": [f"{k}-x" for k in range(80)], "one": "c", "y": ["0", "0", "0", "1"] * 20}
    )
    p = predict(fitted(table.astype(object)), rows(table.astype(object)), BINARY)
    np.testing.assert_allclose(p, 0.25, atol=1e-4)


def test_few_texts_of_a_column_have_a_weight() -> None:
    rng = np.random.default_rng(1)
    texts = [f"t{int(k)}" for k in rng.integers(0, 100, 2000)]
    model = fitted(
        pd.DataFrame({"t": texts, "y": np.where(rng.random(2000) < 0.5, "0", "1")}, dtype=object)
    )
    assert len(model.estimator.columns.categories[0]) == TEXTS + 1  # and what is missing


def test_a_release_with_one_class_says_so_and_a_table_without_columns_too() -> None:
    with pytest.raises(DrawError, match="one class only"):
        fitted(labelled(50, 1).assign(y="1"))
    with pytest.raises(DrawError, match="no column to predict from"):
        fitted(labelled(50, 1)[["y"]])


def test_a_model_of_a_number_has_no_classes() -> None:
    model = Additive(classes=False).fit(np.arange(20.0)[:, None], np.arange(20.0))
    with pytest.raises(ValueError, match="no classes"):
        model.predict_proba(np.zeros((1, 1)))
    classes = Additive(classes=True).fit(np.arange(20.0)[:, None], np.arange(20) % 2 * 1.0)
    assert set(classes.predict(np.arange(20.0)[:, None])) <= {0.0, 1.0}


def test_a_regression_has_the_unit_of_its_outcome() -> None:
    x, rng = np.linspace(0.0, 1.0, 500)[:, None], np.random.default_rng(3)
    y = np.sin(6.0 * x[:, 0]) + 0.1 * rng.normal(size=500)
    plain = Additive(classes=False).fit(x, y).predict(x)
    # A curve follows a sine, which a straight line does not.
    assert np.var(plain - np.sin(6.0 * x[:, 0])) < 0.02 * np.var(y)
    scaled = Additive(classes=False).fit(x, 1e6 * y + 1e9).predict(x)
    np.testing.assert_allclose(scaled, 1e6 * plain + 1e9, rtol=1e-9)


ODD = [
    None, "", " ", "NA", "a", "a", "\n", "\u2028", "\x00", "\U0001f600", "0", "-0.0", "1,000",
    "1e400", "01.02.2024", "2024-02-01", 0.0, -0.0, 1e-320, 1e308, -1e308, np.inf, -np.inf,
    np.nan, 7, 7, 2**70, True, False,
]  # fmt: skip


@pytest.mark.parametrize("seed", range(30))
def test_any_columns_at_all_are_taken(seed: int) -> None:
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({"other": rng.normal(size=24)})
    for k in range(4):
        few = rng.choice(len(ODD), rng.integers(1, len(ODD)))
        frame[f"c{k}"] = pd.Series([ODD[j] for j in rng.choice(few, 24)], dtype=object)
    table = typed(frame, kinds_of(frame, ["", "NA"], []), ["", "NA"])
    table["y"] = pd.Series(["0", "1"] * 12, dtype=object)
    learned = fitted(table)
    p = predict(learned, rows(table.iloc[rng.permutation(24)]), BINARY)
    assert np.all((p >= 0.0) & (p <= 1.0))
    load_model(model_bytes(learned.estimator), "a model")


def test_ten_thousand_rows_of_twenty_columns_are_fitted_in_well_under_a_second() -> None:
    table = pd.concat(
        [rows(labelled(10_000, 1)), rows(labelled(10_000, 2)).add_suffix("2")], axis=1
    )
    table = table.iloc[:, :20].assign(y=labelled(10_000, 1)["y"])
    began = time.process_time()
    fitted(table)
    assert time.process_time() - began < 1.5
