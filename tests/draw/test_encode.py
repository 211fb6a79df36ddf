"""What pipelines share is made once for the same records, and is what they make themselves."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import MultinomialNB
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler

from proxyguard.adapters.count_nb import VocabularyBayes
from proxyguard.adapters.newton import FastLogistic
from proxyguard.adapters.onehot_newton import FastOnehotLogistic
from proxyguard.draw import encode
from proxyguard.draw.encode import Encodings, last_step
from proxyguard.draw.outcome import predict, temper
from proxyguard.draw.protocol import Fitted
from proxyguard.registry.target import Outcome

OUTCOME = Outcome(column="y", positive="1")


def categories(n: int = 60, seed: int = 1) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    columns = {name: rng.choice(["a", "b", "c"], size=n) for name in ("first", "second")}
    return pd.DataFrame({k: pd.Series(v, dtype=object) for k, v in columns.items()})


def texts(n: int = 40, seed: int = 2) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    made = [" ".join(rng.choice(["red", "blue", "green", "grey"], 5)) for _ in range(n)]
    return pd.DataFrame({"text": pd.Series(made, dtype=object)})


def labels(n: int, seed: int = 3) -> np.ndarray:
    return (np.random.default_rng(seed).random(n) < 0.5) * 1.0


def text_pipeline(seed: int) -> Pipeline:
    words = CountVectorizer(vocabulary=["blue", "red"])
    counter = ColumnTransformer([("words", words, "text")], sparse_threshold=1.0)
    return make_pipeline(counter, MultinomialNB()).fit(texts(), labels(40, seed))


def assert_same(found: Any, expected: Any) -> None:
    """See that two sparse tables have the same entries in the same order."""
    assert found.shape == expected.shape
    for part in ("indptr", "indices", "data"):
        np.testing.assert_array_equal(getattr(found, part), getattr(expected, part))
    assert found.dtype == expected.dtype


def test_a_one_hot_table_is_scikit_learns_entry_by_entry() -> None:
    fitted = FastOnehotLogistic().fit(categories(), labels(60))
    x = categories(seed=7)
    x.iloc[3, 0], x.iloc[5, 1], x.iloc[6] = "never seen", "", ["z", "z"]
    last, encoded = last_step(fitted, x)
    assert last is fitted.steps[-1][1]
    assert_same(encoded, fitted[:-1].transform(x))


@pytest.mark.parametrize(
    "change",
    [
        {"handle_unknown": "infrequent_if_exist", "min_frequency": 15},
        {"drop": "first", "handle_unknown": "ignore"},
        {"sparse_output": False, "handle_unknown": "ignore"},
        {"dtype": np.float32, "handle_unknown": "ignore"},
    ],
)
def test_another_one_hot_encoder_is_left_to_scikit_learn(change: dict[str, Any]) -> None:
    x = categories()
    fitted = make_pipeline(OneHotEncoder(**change), LogisticRegression()).fit(x, labels(60))
    assert encode._onehot(fitted.steps[0][1], x) is None
    encoded = last_step(fitted, x)[1]
    expected = fitted[:-1].transform(x)
    assert (encoded != expected).sum() == 0


def test_values_that_are_no_text_are_left_to_scikit_learn() -> None:
    x = categories()
    fitted = FastOnehotLogistic().fit(x, labels(60))
    odd = x.astype(object)
    odd.iloc[0, 0] = None
    assert encode._onehot(fitted.steps[0][1], odd) is None
    assert encode._onehot(fitted.steps[0][1], x[["second", "first"]]) is None


def test_pipelines_with_equal_first_steps_read_the_records_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    read: list[int] = []
    real = ColumnTransformer.transform

    def noted(self: Any, x: Any, **options: Any) -> Any:
        read.append(len(x))
        return real(self, x, **options)

    x = texts(30, seed=9)
    own = [Fitted(estimator=text_pipeline(seed), selected="text") for seed in (1, 2, 3)]
    expected = [one.estimator.predict_proba(x)[:, 1] for one in own]
    monkeypatch.setattr(ColumnTransformer, "transform", noted)
    shared = Encodings(x, np.arange(30))
    for one, p in zip(own, expected, strict=True):
        np.testing.assert_array_equal(predict(one, shared, OUTCOME), p)
    assert read == [30]
    assert not np.array_equal(expected[0], expected[1])


def test_a_record_that_was_drawn_several_times_is_read_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    drawn = np.array([4, 0, 4, 4, 2, 0])
    x = texts(5, seed=9).iloc[drawn].reset_index(drop=True)
    fitted = Fitted(estimator=text_pipeline(1), selected="text")
    expected = fitted.estimator.predict_proba(x)[:, 1]
    whole = fitted.estimator[:-1].transform(x)
    read: list[int] = []
    real = ColumnTransformer.transform

    def noted(self: Any, records: Any, **options: Any) -> Any:
        read.append(len(records))
        return real(self, records, **options)

    monkeypatch.setattr(ColumnTransformer, "transform", noted)
    shared = Encodings(x, drawn)
    np.testing.assert_array_equal(predict(fitted, shared, OUTCOME), expected)
    assert read == [3]
    assert_same(shared.last_step(fitted.estimator)[1], whole)


def test_first_steps_that_differ_are_told_apart_and_few_are_held() -> None:
    x = texts(30, seed=9)
    shared = Encodings(x, np.arange(30))
    words = ["blue", "red", "green", "grey", "none"]
    for k in range(1, 6):
        counter = ColumnTransformer([("words", CountVectorizer(vocabulary=words[:k]), "text")])
        fitted = make_pipeline(counter, MultinomialNB()).fit(texts(), labels(40))
        assert shared.last_step(fitted)[1].shape == (30, k)
    assert len(shared._kept) == encode.KEPT


def test_steps_that_cannot_be_compared_are_applied_each_time() -> None:
    x = categories()
    length = FunctionTransformer(lambda frame: frame.map(ord).to_numpy(dtype=float))
    fitted = make_pipeline(length, LogisticRegression()).fit(x, labels(60))
    shared = Encodings(x, np.arange(60))
    last, encoded = shared.last_step(fitted)
    np.testing.assert_array_equal(last.predict_proba(encoded), fitted.predict_proba(x))
    assert shared._kept == {}


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("temperature", [None, 1.7])
def test_a_scaled_logistic_regression_predicts_bit_for_bit_as_scikit_learn(
    order: Any, temperature: float | None
) -> None:
    rng = np.random.default_rng(1)
    for n, p in ((1, 1), (7, 3), (501, 54)):
        table = rng.normal(3.0, 5.0, size=(200, p))
        y = (table[:, 0] + rng.normal(size=200) > 3.0) * 1.0
        fresh = np.array(rng.normal(3.0, 5.0, size=(n, p)), order=order)
        for made in (
            FastLogistic().fit(table, y),
            make_pipeline(StandardScaler(), LogisticRegression(solver="liblinear")).fit(table, y),
        ):
            fitted = Fitted(estimator=made, selected="logistic", temperature=temperature)
            shared = Encodings(fresh, np.arange(n))
            assert shared.positive(made) is not None
            found = predict(fitted, shared, OUTCOME)
            np.testing.assert_array_equal(found, predict(fitted, fresh, OUTCOME))


def test_numbers_that_overflow_when_scaled_are_left_to_scikit_learn() -> None:
    x = np.random.default_rng(1).normal(scale=0.01, size=(60, 2))
    plain = FastLogistic().fit(x, labels(60))
    huge = x.copy()
    huge[3, 1] = 1e308  # finite, and not once it is divided by .01
    shared = Encodings(huge, np.arange(60))
    assert shared.positive(plain) is None
    fitted = Fitted(estimator=plain, selected="logistic")
    for features in (shared, huge):
        with np.errstate(over="ignore"), pytest.raises(ValueError, match="infinity"):
            predict(fitted, features, OUTCOME)


def test_other_regressions_and_missing_numbers_are_left_to_scikit_learn() -> None:
    x = np.random.default_rng(1).normal(size=(60, 2))
    others = [
        make_pipeline(StandardScaler(), LogisticRegression()),
        make_pipeline(StandardScaler(with_mean=False), LogisticRegression(solver="liblinear")),
        make_pipeline(OneHotEncoder(handle_unknown="ignore"), LogisticRegression()),
        LogisticRegression(solver="liblinear"),
    ]
    for other in others:
        assert Encodings(x, np.arange(60)).positive(other.fit(x, labels(60))) is None
    plain = FastLogistic().fit(x, labels(60))
    gap = x.copy()
    gap[3, 1] = np.nan
    shared = Encodings(gap, np.arange(60))
    assert shared.positive(plain) is None
    with pytest.raises(ValueError, match="contains NaN"):
        predict(Fitted(estimator=plain, selected="logistic"), shared, OUTCOME)
    narrow = Encodings(x[:, :1], np.arange(60))
    with pytest.raises(ValueError, match="features"):
        predict(Fitted(estimator=plain, selected="logistic"), narrow, OUTCOME)


def test_numbers_and_other_estimators_are_predicted_as_they_are() -> None:
    x = np.random.default_rng(1).normal(size=(60, 2))
    scaled = make_pipeline(StandardScaler(), LogisticRegression()).fit(x, labels(60))
    assert Encodings(x, np.arange(60)).last_step(scaled) == (scaled, x)
    bare = LogisticRegression().fit(x, labels(60))
    assert last_step(bare, x)[0] is bare


def binary(estimator: Any, temperature: float | None = None) -> Fitted:
    return Fitted(estimator=estimator, selected="ours", temperature=temperature)


@pytest.mark.parametrize("temperature", [None, 1.7])
def test_a_one_hot_regression_predicts_bit_for_bit_as_scikit_learn(
    temperature: float | None,
) -> None:
    x = categories(200, seed=7)
    x.iloc[3, 0], x.iloc[5, 1], x.iloc[6] = "never seen", "", ["z", "z"]
    shared = Encodings(x, np.arange(200))
    for seed in range(5):
        table = categories(60, seed)
        if seed % 2:  # releases lack categories, and not the same ones
            table["second"] = np.where(table["second"] == "c", "a", table["second"])
        made = FastOnehotLogistic().fit(table, labels(60, seed))
        assert shared.positive(made) is not None
        p = made.predict_proba(x)[:, 1]
        expected = p if temperature is None else temper(p, temperature)
        for records in (shared, x):
            found = predict(binary(made, temperature), records, OUTCOME)
            np.testing.assert_array_equal(found, expected)


def test_one_hot_records_that_are_no_texts_or_have_other_columns_are_left_to_scikit_learn() -> None:
    x = categories()
    made = FastOnehotLogistic().fit(x, labels(60))
    odd = x.astype(object)
    odd.iloc[0, 0] = None
    turned = x[["second", "first"]]
    assert Encodings(odd, np.arange(60)).positive(made) is None
    assert Encodings(turned, np.arange(60)).positive(made) is None
    assert Encodings(x.to_numpy(), np.arange(60)).positive(made) is None
    with pytest.raises(ValueError, match="feature names"):
        predict(binary(made), turned, OUTCOME)
    made[0].set_params(drop="first")
    assert Encodings(x, np.arange(60)).positive(made) is None


@pytest.mark.parametrize("drawn", [np.arange(50), np.random.default_rng(1).integers(0, 50, 120)])
def test_naive_bayes_predicts_as_scikit_learn_and_the_same_however_records_are_read(
    drawn: np.ndarray,
) -> None:
    x = texts(50, seed=9).iloc[drawn].reset_index(drop=True)
    x.iloc[0, 0] = "no word of the vocabulary"
    drawn[0] = 50
    shared = Encodings(x, drawn)
    for seed in range(4):
        made = VocabularyBayes(["blue", "green", "grey", "red"], "text")
        fitted = made.fit(texts(40, seed), labels(40, seed))
        found = predict(binary(fitted), shared, OUTCOME)
        np.testing.assert_array_equal(found, predict(binary(fitted), x, OUTCOME))
        # Logarithms around -30, each within a few units of the last of 53 bits.
        np.testing.assert_allclose(found, fitted.predict_proba(x)[:, 1], rtol=1e-12)


def test_two_classes_that_are_equally_likely_have_probability_one_half() -> None:
    table = pd.DataFrame({"text": pd.Series(["red blue", "red blue"], dtype=object)})
    fitted = VocabularyBayes(["blue", "grey", "red", "green"], "text").fit(table, [0.0, 1.0])
    found = predict(binary(fitted), table, OUTCOME)
    np.testing.assert_allclose(found, [0.5, 0.5], rtol=1e-15)  # log 2 is rounded
    np.testing.assert_allclose(found, fitted.predict_proba(table)[:, 1], rtol=1e-15)


def test_counts_of_another_width_and_infinite_logarithms_are_left_to_scikit_learn() -> None:
    x = texts(30, seed=9)
    fitted = VocabularyBayes(["blue", "green", "grey", "red"], "text").fit(x, labels(30))
    shared = Encodings(x, np.arange(30))
    assert shared.positive(fitted) is not None
    logs = fitted[-1].feature_log_prob_
    fitted[-1].feature_log_prob_ = logs[:, :3]
    assert shared.positive(fitted) is None
    fitted[-1].feature_log_prob_ = np.where(logs == logs.min(), -np.inf, logs)
    assert shared.positive(fitted) is None
    three = VocabularyBayes(["blue", "green", "grey", "red"], "text").fit(x, np.arange(30.0) % 3)
    assert shared.positive(three) is None


def test_a_dense_table_of_counts_is_left_to_scikit_learn() -> None:
    x = texts(30, seed=9)
    fitted = VocabularyBayes(["blue"], "text").fit(x, labels(30))
    assert isinstance(fitted[0].transform(x), np.ndarray)
    assert Encodings(x, np.arange(30)).positive(fitted) is None
    np.testing.assert_array_equal(
        predict(binary(fitted), x, OUTCOME), fitted.predict_proba(x)[:, 1]
    )
