"""The pipelines of our own learners are stored as their numbers, and nothing else is."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from proxyguard.adapters.count_nb import VocabularyBayes
from proxyguard.adapters.newton import FastLogistic
from proxyguard.adapters.onehot_newton import FastOnehotLogistic
from proxyguard.adapters.pipelines import fixed_logistic
from proxyguard.draw.alike import alike
from proxyguard.draw.container import MAGIC, Parts, parts_bytes, read_parts
from proxyguard.draw.models import load_model, model_bytes, skops_bytes
from proxyguard.draw.protocol import Seed
from proxyguard.errors import SealError

WORDS = ["blue", "green", "grey", "red"]
TEXTS = st.text(st.characters(), max_size=4)
TERMS = st.text(st.characters(), min_size=1, max_size=5).filter(
    lambda term: not any(map(str.isupper, term))  # scikit-learn warns of these
)


def numbers(seed: int, n: int = 40, p: int = 3) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, p)) * 10.0 ** rng.integers(-2, 3, p), np.arange(n) % 2.0


def categories(seed: int, n: int = 40) -> tuple[pd.DataFrame, np.ndarray]:
    rng = np.random.default_rng(seed)
    columns = {name: rng.choice(["a", "b", "c"], size=n) for name in ("first", "second")}
    return pd.DataFrame({k: pd.Series(v, dtype=object) for k, v in columns.items()}), labels(n)


def texts(seed: int, n: int = 40) -> tuple[pd.DataFrame, np.ndarray]:
    rng = np.random.default_rng(seed)
    made = [" ".join(rng.choice([*WORDS, "other"], 5)) for _ in range(n)]
    return pd.DataFrame({"text": pd.Series(made, dtype=object)}), labels(n)


def labels(n: int) -> np.ndarray:
    return np.arange(n) % 2.0


LEARNERS: dict[str, tuple[Callable[[], Any], Callable[[int], tuple[Any, Any]]]] = {
    "fast_logistic": (FastLogistic, numbers),
    "fixed_logistic": (lambda: fixed_logistic(Seed(2**32 - 1)), numbers),
    "fast_onehot_logistic": (FastOnehotLogistic, categories),
    "count_nb": (lambda: VocabularyBayes(WORDS, "text"), texts),
}


def fitted(name: str, seed: int = 1) -> tuple[Pipeline, Any]:
    """Return a fitted pipeline, and other records of its kind."""
    make, table = LEARNERS[name]
    return make().fit(*table(seed)), table(seed + 100)[0]


@pytest.mark.parametrize("name", LEARNERS)
def test_a_learner_of_ours_is_stored_as_its_numbers_and_comes_back_whole(name: str) -> None:
    model, x = fitted(name)
    content = model_bytes(model)
    assert content.startswith(MAGIC)
    again = load_model(content, "a model")
    assert type(again) is Pipeline
    assert alike(again, model)
    np.testing.assert_array_equal(again.predict_proba(x), model.predict_proba(x))
    assert model_bytes(again) == content
    assert model_bytes(fitted(name)[0]) == content
    assert model_bytes(fitted(name, seed=2)[0]) != content


@pytest.mark.parametrize("name", LEARNERS)
def test_a_model_that_skops_stored_is_still_read_and_is_the_same(name: str) -> None:
    model, x = fitted(name)
    older = skops_bytes(model)
    assert older.startswith(b"PK")
    again = load_model(older, "a model")
    np.testing.assert_array_equal(again.predict_proba(x), model.predict_proba(x))
    assert model_bytes(again) == model_bytes(model)


@pytest.mark.parametrize("name", LEARNERS)
def test_a_model_predicts_after_it_was_stored_without_a_trace_in_the_bytes(name: str) -> None:
    model, x = fitted(name)
    content = model_bytes(model)
    model.predict_proba(x)  # a vectorizer notes where its stop words are
    assert model_bytes(model) == content


@settings(max_examples=40)
@given(
    st.lists(st.lists(TEXTS, min_size=2, max_size=5, unique=True), min_size=1, max_size=4),
    st.integers(0, 2**32),
)
def test_categories_of_any_text_come_back(known: list[list[str]], seed: int) -> None:
    rng = np.random.default_rng(seed)
    n = 12
    columns = {}
    for k, values in enumerate(known):
        all_of_them = np.array(values, dtype=object)
        columns[f"x{k}"] = np.concatenate([all_of_them, rng.choice(all_of_them, n)])[:n]
    table = pd.DataFrame({k: pd.Series(v, dtype=object) for k, v in columns.items()})
    model = FastOnehotLogistic().fit(table, labels(n))
    content = model_bytes(model)
    assert content.startswith(MAGIC)
    assert alike(load_model(content, "a model"), model)


@settings(max_examples=40)
@given(st.integers(1, 6), st.integers(2, 30), st.integers(0, 2**32))
def test_numbers_of_any_size_come_back(p: int, n: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, p)) * 10.0 ** rng.integers(-100, 100, p)
    model = FastLogistic().fit(x, labels(n))
    content = model_bytes(model)
    assert content.startswith(MAGIC)
    assert alike(load_model(content, "a model"), model)


@settings(max_examples=40)
@given(
    st.lists(TERMS, min_size=1, max_size=8, unique=True),
    st.integers(2, 4),
)
def test_terms_of_any_text_and_any_number_of_classes_come_back(terms: list[str], k: int) -> None:
    table, _ = texts(1)
    model = VocabularyBayes(terms, "text").fit(table, np.arange(40.0) % k)
    content = model_bytes(model)
    assert content.startswith(MAGIC)
    assert alike(load_model(content, "a model"), model)


def changed(name: str, change: Callable[[Pipeline], Any]) -> Pipeline:
    """Return a pipeline of ours that somebody changed afterwards."""
    model, _ = fitted(name)
    change(model)
    return model


def with_names(model: Pipeline) -> None:
    model[0].feature_names_in_ = np.array(["a", "b", "c"], dtype=object)


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("fast_logistic", lambda m: m[-1].set_params(C=2.0)),
        ("fast_logistic", lambda m: m[-1].set_params(class_weight="balanced")),
        ("fast_logistic", lambda m: m[0].set_params(with_mean=False)),
        ("fast_logistic", lambda m: m.set_params(verbose=True)),
        ("fast_logistic", lambda m: setattr(m[-1], "classes_", np.array([0, 1]))),
        ("fast_logistic", lambda m: setattr(m[-1], "classes_", np.array(["no", "yes"]))),
        ("fast_logistic", lambda m: setattr(m[-1], "coef_", m[-1].coef_.astype(np.float32))),
        ("fast_logistic", lambda m: setattr(m[-1], "note", 1)),
        ("fast_logistic", with_names),
        ("fast_onehot_logistic", lambda m: m[0].set_params(handle_unknown="error")),
        ("fast_onehot_logistic", lambda m: m[0].set_params(dtype=np.float32)),
        ("count_nb", lambda m: m[-1].set_params(alpha=0.5)),
        ("count_nb", lambda m: m[0].transformers_[0][1].set_params(lowercase=False)),
        ("count_nb", lambda m: m[0].set_params(sparse_threshold=1.0)),
    ],
)
def test_a_pipeline_that_differs_in_anything_is_left_to_skops(
    name: str, change: Callable[[Pipeline], Any]
) -> None:
    content = model_bytes(changed(name, change))
    assert content.startswith(b"PK")
    assert load_model(content, "a model", ["numpy.float32"]) is not None


def test_other_estimators_of_the_same_steps_are_left_to_skops() -> None:
    x, y = numbers(1)
    table, outcome = categories(1)
    for other in (
        make_pipeline(StandardScaler(), LogisticRegression()).fit(x, y),
        make_pipeline(OneHotEncoder(), LogisticRegression()).fit(table, outcome),
        make_pipeline(StandardScaler(), LogisticRegression(solver="liblinear")),  # not fitted
        LogisticRegression().fit(x, y),
        {"steps": []},
    ):
        assert model_bytes(other).startswith(b"PK")


def test_a_loaded_model_that_was_changed_is_not_stored_as_if_it_were_not() -> None:
    # Loaded models of the same words share their counter.
    content = model_bytes(fitted("count_nb")[0])
    one = load_model(content, "a model")
    words = one[0].transformers_[0][1]
    words.set_params(lowercase=False)
    try:
        assert model_bytes(one).startswith(b"PK")
    finally:
        words.set_params(lowercase=True)
    assert model_bytes(one) == content


def forged(name: str, change: Callable[[dict[str, Any], dict[str, Any]], Any]) -> bytes:
    """Return a stored model whose parts were changed and put together again."""
    parts = read_parts(model_bytes(fitted(name)[0]))
    values, held = dict(parts.values), dict(parts.arrays)
    change(values, held)
    return parts_bytes(Parts(parts.kind, values, held))


def put(**changes: Any) -> Callable[[dict[str, Any], dict[str, Any]], Any]:
    """Return a change of values, or of arrays by an array."""

    def change(values: dict[str, Any], held: dict[str, Any]) -> None:
        for name, value in changes.items():
            (held if isinstance(value, np.ndarray) else values)[name] = value

    return change


@pytest.mark.parametrize(
    ("name", "change", "reason"),
    [
        ("fast_logistic", put(mean=np.ones(2)), "variance has shape (3,), expected (2,)"),
        ("fast_logistic", put(intercept=np.ones(2)), "intercept has shape"),
        ("fast_logistic", put(coefficients=np.ones((1, 3))), "coefficients has shape"),
        ("fast_logistic", put(more=np.ones(1)), "its values are"),
        ("fast_logistic", put(more=1), "its values are"),
        ("fast_logistic", lambda v, _: v.pop("rows"), "its values are"),
        ("fast_logistic", lambda _, a: a.update(mean=a.pop("mean")), "its values are"),
        ("fast_logistic", put(rows=True), "rows is no number"),
        ("fast_logistic", put(rows=2**62), "rows is no number"),
        ("fast_logistic", put(rows="40"), "rows is no number"),
        ("fast_logistic", put(max_iter=None), "max_iter is no number"),
        ("fast_logistic", put(max_iter=-1), "max_iter is no number"),
        ("fast_logistic", put(random_state=2**32), "random_state is no number"),
        ("fast_logistic", put(iterations=1.0), "iterations is no number"),
        ("fast_onehot_logistic", put(categories=[["a"]]), "one list of categories for each"),
        ("fast_onehot_logistic", put(categories="ab"), "one list of categories for each"),
        ("fast_onehot_logistic", put(categories=[["a", "b", "c"], ["c", "b", "a"]]), "in order"),
        ("fast_onehot_logistic", put(categories=[["a"], ["b"]]), "coefficients has shape"),
        ("fast_onehot_logistic", put(categories=[["a", 1], ["b"]]), "a list of texts"),
        ("fast_onehot_logistic", put(categories=[["a"], []]), "a list of texts"),
        ("fast_onehot_logistic", put(features=["same", "same"]), "a text twice"),
        ("count_nb", put(terms=[*WORDS[:3], "blue"]), "a text twice"),
        ("count_nb", put(terms=WORDS[:3]), "counts has shape (2, 4), expected (2, 3)"),
        ("count_nb", put(terms=[]), "a list of texts"),
        ("count_nb", put(terms={"blue": 0}), "a list of texts"),
        ("count_nb", put(column=None), "a list of texts"),
        ("count_nb", put(classes=np.ones(3)), "sizes has shape"),
    ],
)  # fmt: skip
def test_parts_that_do_not_fit_together_are_refused_with_the_reason(
    name: str, change: Callable[[dict[str, Any], dict[str, Any]], Any], reason: str
) -> None:
    with pytest.raises(SealError, match="seed 4 is no stored model: ") as refusal:
        load_model(forged(name, change), "seed 4")
    assert reason in str(refusal.value)


@pytest.mark.parametrize("kind", ["", "scaled", "os.system", "sklearn.svm.SVC", "x" * 1000])
def test_a_kind_that_is_not_ours_is_refused_and_nothing_is_imported(kind: str) -> None:
    before = set(sys.modules)
    with pytest.raises(SealError, match="no kind of model called") as refusal:
        load_model(parts_bytes(Parts(kind, {}, {})), "model")
    assert len(str(refusal.value)) < 200
    assert set(sys.modules) == before


@pytest.mark.parametrize("name", LEARNERS)
def test_a_stored_model_with_any_byte_changed_or_cut_anywhere_is_refused(name: str) -> None:
    content = model_bytes(fitted(name)[0])
    for place in range(len(content)):
        other = bytearray(content)
        other[place] ^= 1 << (place % 8)
        for wrong in (bytes(other), content[:place]):
            with pytest.raises(SealError, match="is no stored model"):
                load_model(wrong, "model")


@settings(max_examples=200)
@given(st.sampled_from(sorted(LEARNERS)), st.data())
def test_a_forged_file_is_refused_or_is_the_file_of_the_model_that_it_gives(
    name: str, data: st.DataObject
) -> None:
    content = bytearray(CONTENTS[name][:-32])
    for _ in range(data.draw(st.integers(1, 3))):
        place = data.draw(st.integers(len(MAGIC), len(content) - 1))
        content[place] = data.draw(st.integers(0, 255))
    whole = bytes(content) + hashlib.sha256(content).digest()
    try:
        model = load_model(whole, "model")
    except SealError:
        return
    assert model_bytes(model) == whole


CONTENTS: Mapping[str, bytes] = {name: model_bytes(fitted(name)[0]) for name in LEARNERS}


@pytest.mark.parametrize(
    ("one", "two"),
    [
        (1, True), (1, 1.0), (0.0, -0.0), ("a", b"a"), ([1], (1,)), ([1], [1, 1]),
        ({"a": 1}, {"a": True}), ({"a": 1}, {"b": 1}), ({1: 1}, {1: 2}),
        (np.float64(0.0), np.float64(-0.0)), (np.ones(2), np.ones(2, dtype=np.float32)),
        (np.ones(2), np.ones((2, 1))), (np.zeros(1), -np.zeros(1)),
        (np.array(["a"], dtype=object), np.array([1], dtype=object)),
        (np.array(["a"], dtype=object), np.array(["b"], dtype=object)),
        (slice(0, 1), slice(0, 2)), (float, int), (CountVectorizer(), StandardScaler()),
        (StandardScaler(), StandardScaler(with_std=False)),
        (object, "object"), (len, len),  # a function is unknown, so never alike
    ],
)  # fmt: skip
def test_values_that_differ_in_type_or_content_are_not_alike(one: Any, two: Any) -> None:
    assert not alike(one, two)
    assert not alike([one], [two])
    assert not alike({"a": one}, {"a": two})


def test_equal_values_at_two_places_are_alike() -> None:
    def made() -> Any:
        steps = [CountVectorizer(vocabulary=["a"]), np.array(["a", None], dtype=object)]
        nested = {"b": (1, 2.5, None), "c": slice(0, 3), "d": float, "e": {"word": 1}}
        return [*steps, nested, np.float64(np.nan), np.array([np.nan])]

    assert alike(made(), made())


def test_the_order_in_memory_counts() -> None:
    # A sum over an array in another order may end in another bit.
    rows = np.arange(6.0).reshape(2, 3)
    assert not alike(rows, np.asfortranarray(rows))
