"""Newton's logistic regressions have liblinear's minimiser."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

from proxyguard.adapters.library import Library
from proxyguard.adapters.newton import (
    CodedDesign,
    DenseDesign,
    FastLogistic,
    FastOnehotLogistic,
    minimise,
    standardised,
)
from proxyguard.adapters.pipelines import Learned, fixed_logistic, onehot_logistic
from proxyguard.draw.protocol import Seed, predict
from proxyguard.errors import DrawError
from proxyguard.models.learned import LinearModel
from proxyguard.models.stored import load_model, model_bytes
from proxyguard.registry.parts import Procedure
from proxyguard.registry.target import Outcome

Array = NDArray[np.float64]
BINARY = Outcome(column="y", positive="yes")


def exact(learned: Learned) -> Learned:
    """Let liblinear run on: it stops at a tolerance of 1e-4 by itself."""
    learned.model.set_params(tol=1e-10, max_iter=100_000)
    return learned


def records(n: int, p: int, seed: int, spread: float = 1.0) -> tuple[Array, Array]:
    """Features on very different scales, one of them constant and one rarely not zero."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, p)) * 10.0 ** rng.integers(-3, 4, p) + rng.normal(size=p)
    x[:, -1] = 3.1
    x[:, -2] = rng.random(n) < 0.01
    z = spread * (x[:, 0] - x[:, 0].mean()) / x[:, 0].std()
    y = (rng.random(n) < 1.0 / (1.0 + np.exp(-z))).astype(np.float64)
    y[:2] = [0.0, 1.0]
    return x, y


@pytest.mark.parametrize("n", [40, 1000, 5000])
@pytest.mark.parametrize("spread", [0.0, 1.0, 30.0])  # 30: the classes hardly overlap
def test_probabilities_are_those_of_liblinear_run_to_the_end(n: int, spread: float) -> None:
    x, y = records(n + 500, 8, seed=n, spread=spread)
    x, fresh, y = x[:n], x[n:], y[:n]
    ours = FastLogistic().fit(x, y)
    theirs = exact(fixed_logistic(Seed(1))).fit(x, y)
    for rows in (x, fresh):
        np.testing.assert_allclose(
            ours.predict_proba(rows), theirs.predict_proba(rows), rtol=0, atol=1e-6
        )


def test_liblinear_itself_stops_farther_from_its_minimum() -> None:
    # So agreement with the default tolerance can only be as good as that tolerance.
    x, y = records(1000, 8, seed=1000)
    ours = FastLogistic().fit(x, y).predict_proba(x)
    default = fixed_logistic(Seed(1)).fit(x, y).predict_proba(x)
    assert 1e-9 < np.abs(ours - default).max() < 1e-3


def test_the_intercept_is_penalised_as_liblinear_does() -> None:
    # All positive but one: without a penalty the intercept would be log 19 = 2.944 for a
    # feature that says nothing, and liblinear's own is smaller.
    x, y = np.tile([[-1.0], [1.0]], (10, 1)), np.ones(20)
    y[0] = 0.0
    ours = FastLogistic().fit(x, y)
    theirs = exact(fixed_logistic(Seed(1))).fit(x, y)
    free = LogisticRegression(tol=1e-10).fit(StandardScaler().fit_transform(x), y)
    assert ours.intercept[0] == pytest.approx(theirs.intercept[0], abs=1e-6)
    assert free.intercept_[0] - ours.intercept[0] > 0.3


@given(st.integers(0, 2**32 - 1), st.integers(2, 60), st.integers(1, 6))
def test_the_gradient_vanishes_wherever_the_search_ends(seed: int, n: int, p: int) -> None:
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(p, n)) * 10.0 ** rng.integers(-2, 3)
    y = rng.integers(0, 2, n).astype(np.float64)
    w = minimise(DenseDesign(rows), y, p)
    # The gradient written out once more; 1e-8 allows for another order of summation.
    q = 0.5 * (1.0 + np.tanh(0.5 * (w @ rows)))
    assert np.linalg.norm(rows @ (q - y) + w) < 1e-8


def test_the_scaler_is_that_of_scikit_learn() -> None:
    x, _ = records(300, 6, seed=2)
    rows, mean, scale = standardised(x)
    theirs = StandardScaler().fit(x)
    np.testing.assert_allclose(mean, theirs.mean_, rtol=1e-12)
    np.testing.assert_allclose(scale, theirs.scale_, rtol=1e-12)
    assert scale[-1] == 1.0  # a constant is not divided by its rounding errors
    np.testing.assert_allclose(rows[:-1].T, theirs.transform(x), atol=1e-9)
    assert (rows[-1] == 1.0).all()


def categories(n: int, seed: int) -> tuple[pd.DataFrame, Array]:
    """Three features of text; one category is rare, and one feature says the outcome often."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 2, n).astype(np.float64)
    shape = np.where(rng.random(n) < 0.8, np.where(y > 0.5, "bell", "cone"), "flat")
    color = np.array(["red", "", "white", "?"])[rng.integers(0, 4, n)]
    ring = np.where(np.arange(n) == 3, "grooved", np.where(rng.random(n) < 0.5, "no", "yes"))
    table = {"shape": shape, "color": color, "ring": ring}
    return pd.DataFrame({k: pd.Series(v, dtype=object) for k, v in table.items()}), y


@pytest.mark.parametrize("n", [30, 3000])
def test_one_hot_probabilities_are_those_of_liblinear_run_to_the_end(n: int) -> None:
    x, y = categories(n, seed=n)
    ours, theirs = FastOnehotLogistic().fit(x, y), exact(onehot_logistic(Seed(1))).fit(x, y)
    unseen = x.assign(color="green")  # unknown to both, and ignored by both
    for table in (x, unseen, x.iloc[::-1]):
        np.testing.assert_allclose(
            ours.predict_proba(table), theirs.predict_proba(table), rtol=0, atol=1e-6
        )
    assert np.ptp(ours.predict_proba(unseen)[:, 1]) > 0.3  # the other features still count


def test_counts_of_codes_are_the_sums_over_a_one_hot_table() -> None:
    rng = np.random.default_rng(5)
    sizes = [3, 1, 4]
    codes = np.stack([rng.integers(0, k, 50) for k in sizes], axis=1).astype(np.int32)
    dense = np.column_stack([np.eye(k)[codes[:, j]] for j, k in enumerate(sizes)] + [np.ones(50)])
    design, weights, w = CodedDesign(codes, sizes), rng.random(50), rng.normal(size=9)
    assert design.size == 9
    np.testing.assert_allclose(design.scores(w), dense @ w, rtol=1e-12)
    np.testing.assert_allclose(design.sums(weights), dense.T @ weights, rtol=1e-12)
    np.testing.assert_allclose(design.gram(weights), dense.T @ (weights[:, None] * dense))


def test_what_is_stored_is_the_same_bytes_each_time() -> None:
    x, y = records(100, 4, seed=3)
    table, outcome = categories(100, seed=3)
    cases: list[tuple[Any, Any, Array]] = [
        (FastLogistic(), x, y),
        (FastOnehotLogistic(), table, outcome),
    ]
    for fast, rows, labels in cases:
        fitted = fast.fit(rows, labels)
        content = model_bytes(fitted)
        again = load_model(content, "a model")  # nothing beyond our allow-list
        np.testing.assert_array_equal(again.predict_proba(rows), fitted.predict_proba(rows))
        assert model_bytes(fast.fit(rows, labels)) == content


@pytest.mark.parametrize(
    ("name", "table"),
    [("fast_logistic", "numbers"), ("fast_onehot_logistic", "categories")],
)
def test_a_procedure_of_this_name_gives_a_linear_model_and_takes_no_seed(
    name: str, table: str
) -> None:
    if table == "numbers":
        x, y = records(200, 3, seed=6)
        frame = pd.DataFrame(x, columns=["a", "b", "c"])
    else:
        frame, y = categories(200, seed=6)
    frame = frame.assign(y=pd.Series(np.where(y > 0.5, "yes", "no"), dtype=object))
    names = [str(c) for c in frame.columns if c != "y"]
    seed = Seed(9)
    fitted = Library(Procedure(library=(name,)), BINARY, names).fit(frame, None, seed)
    assert seed.taken == []
    assert isinstance(fitted.estimator, LinearModel)
    x_part: Any = frame[names] if table == "categories" else frame[names].to_numpy()
    p = predict(fitted, x_part, BINARY)
    np.testing.assert_array_equal(p, fitted.estimator.predict_proba(x_part)[:, 1])


def fit_frame(name: str, **columns: Any) -> None:
    frame = pd.DataFrame({k: pd.Series(v) for k, v in columns.items()})
    names = [k for k in columns if k != "y"]
    Library(Procedure(library=(name,)), BINARY, names).fit(frame, None, Seed(1))


def test_a_table_that_a_fast_procedure_cannot_take_is_a_failed_draw() -> None:
    y = ["yes", "no", "yes", "no"]
    with pytest.raises(DrawError, match=r"'a' has missing values.*'fast_logistic'"):
        fit_frame("fast_logistic", a=[1.0, np.nan, 2.0, 3.0], y=y)
    with pytest.raises(DrawError, match=r"'a' has text, which the learner 'fast_logistic'"):
        fit_frame("fast_logistic", a=["u", "v", "u", "v"], y=y)
    with pytest.raises(DrawError, match=r"'b' has numbers, which the learner"):
        fit_frame("fast_onehot_logistic", a=["u", "v", "u", "v"], b=[1.0, 2.0, 3.0, 4.0], y=y)
    with pytest.raises(DrawError, match=r"'b' has numbers, which the learner"):
        fit_frame("fast_onehot_logistic", b=[1.0, 2.0, 3.0, 4.0], y=y)
    with pytest.raises(DrawError, match="some features hold text, missing or infinite"):
        fit_frame("fast_onehot_logistic", a=["u", None, "u", "v"], y=y)


@pytest.mark.parametrize("y", [[0.0, 0.0, 0.0], [1.0, 1.0, 1.0], [0.0, 1.0, 2.0]])
def test_outcomes_other_than_0_and_1_are_refused(y: list[float]) -> None:
    with pytest.raises(ValueError, match="must be 0 and 1, both of them present"):
        FastLogistic().fit(np.arange(6.0).reshape(3, 2), y)
