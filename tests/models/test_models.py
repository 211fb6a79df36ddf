"""Models of ours store themselves, come back whole, and predict as scikit-learn does."""

from __future__ import annotations

import subprocess
import sys
import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.naive_bayes import MultinomialNB
from sklearn.pipeline import make_pipeline

from proxyguard.adapters import pipelines
from proxyguard.adapters.any_table import Additive
from proxyguard.adapters.newton import FastLogistic, FastOnehotLogistic
from proxyguard.adapters.pipelines import Learned
from proxyguard.adapters.text import VocabularyBayes
from proxyguard.draw.protocol import Fitted, Seed, predict, temper
from proxyguard.errors import DrawError, SealError
from proxyguard.models import features
from proxyguard.models import learned as trees
from proxyguard.models.features import FeatureColumns, Features, words_of
from proxyguard.models.learned import AdditiveModel, BayesModel, LinearModel, TreeModel
from proxyguard.models.npy import MAGIC, Content, read_content
from proxyguard.models.stored import load_model, model_bytes
from proxyguard.registry.target import Outcome

OUTCOME = Outcome(column="y", positive="1")
WORDS = ["blue", "green", "grey", "red"]
TEXTS = st.text(st.characters(), max_size=4)
TERMS = st.text(st.characters(), min_size=1, max_size=5)


def numbers(seed: int, n: int = 40, p: int = 3) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, p)) * 10.0 ** rng.integers(-2, 3, p)
    return x, (x[:, 0] / np.abs(x[:, 0]).max() + 0.3 * rng.normal(size=n) > 0) * 1.0


def gaps(seed: int, n: int = 40) -> tuple[np.ndarray, np.ndarray]:
    x, y = numbers(seed, n)
    x[::7, 1] = np.nan
    return x, y


def categories(seed: int, n: int = 40) -> tuple[pd.DataFrame, np.ndarray]:
    rng = np.random.default_rng(seed)
    columns = {name: rng.choice(["a", "b", "c"], size=n) for name in ("first", "second")}
    y = (columns["first"] == "a") ^ (rng.random(n) < 0.2)
    return pd.DataFrame({k: pd.Series(v, dtype=object) for k, v in columns.items()}), y * 1.0


def mixed(seed: int, n: int = 40) -> tuple[pd.DataFrame, np.ndarray]:
    """Numbers and texts in turn, so that the order of columns counts."""
    table, y = categories(seed, n)
    x, _ = numbers(seed, n)
    table.insert(1, "middle", x[:, 0])
    return table.assign(last=x[:, 1]), y


def mixed_gaps(seed: int, n: int = 40) -> tuple[pd.DataFrame, np.ndarray]:
    table, y = mixed(seed, n)
    table.loc[::7, "middle"] = np.nan
    return table, y


def written(seed: int, n: int = 40) -> tuple[pd.DataFrame, np.ndarray]:
    """Numbers with gaps, texts, and dates as texts."""
    table, y = mixed_gaps(seed, n)
    rng = np.random.default_rng(seed)
    days = pd.Timestamp("2024-01-31") + pd.to_timedelta(rng.integers(0, 900, n), unit="D")
    return table.assign(day=days.strftime("%d.%m.%Y").astype(object)), y


def texts(seed: int, n: int = 40) -> tuple[pd.DataFrame, np.ndarray]:
    rng = np.random.default_rng(seed)
    made = [" ".join(rng.choice([*WORDS, "other"], 5)) for _ in range(n)]
    return pd.DataFrame({"text": pd.Series(made, dtype=object)}), np.arange(n) % 2.0


def small(make: Callable[[Seed], Learned], **settings: int) -> Callable[[], Learned]:
    """Return the maker of a procedure of trees with few of them."""

    def made() -> Learned:
        learned = make(Seed(3))
        learned.model.set_params(**settings)
        return learned

    return made


LEARNERS: dict[str, tuple[Callable[[], Any], Callable[..., tuple[Any, Any]]]] = {
    "fast_logistic": (FastLogistic, numbers),
    "fast_onehot_logistic": (FastOnehotLogistic, categories),
    "count_nb": (lambda: VocabularyBayes(WORDS, "text"), texts),
    "logistic": (lambda: pipelines.logistic(Seed(3)), gaps),
    "fixed_logistic": (lambda: pipelines.fixed_logistic(Seed(3)), numbers),
    "onehot_logistic": (lambda: pipelines.onehot_logistic(Seed(3)), mixed),
    "balanced_logistic": (lambda: pipelines.balanced_logistic(Seed(3)), mixed_gaps),
    "forest": (small(pipelines.forest, n_estimators=5), gaps),
    "boosting": (small(pipelines.boosting, max_iter=5), gaps),
    "balanced_boosting": (small(pipelines.balanced_boosting, max_iter=5), mixed_gaps),
    "default": (lambda: Additive(classes=True), written),
}
OF_SCIKIT_LEARN = [name for name in LEARNERS if name[:4] not in ("fast", "coun", "defa")]
# liblinear takes two classes.
MULTICLASS = ["logistic", "balanced_logistic", "forest", "boosting", "balanced_boosting"]


def fitted(name: str, seed: int = 1) -> tuple[Any, Any]:
    """Return a fitted model, and other records of its kind."""
    make, table = LEARNERS[name]
    return make().fit(*table(seed)), table(seed + 100)[0]


@pytest.mark.parametrize("name", LEARNERS)
def test_a_model_is_stored_as_its_numbers_and_comes_back_whole(name: str) -> None:
    model, x = fitted(name)
    content = model_bytes(model)
    assert content.startswith(MAGIC)
    again = load_model(content, "a model")
    assert type(again) is type(model)
    np.testing.assert_array_equal(again.predict_proba(x), model.predict_proba(x))
    np.testing.assert_array_equal(again.classes_, [0.0, 1.0])
    assert model_bytes(again) == content
    assert model_bytes(fitted(name)[0]) == content
    assert model_bytes(fitted(name, seed=2)[0]) != content


@pytest.mark.parametrize("name", LEARNERS)
def test_a_stored_model_is_a_file_that_numpy_opens_by_itself(name: str, tmp_path: Any) -> None:
    path = tmp_path / "model.npy"
    path.write_bytes(model_bytes(fitted(name)[0]))
    record = np.load(path, allow_pickle=False)
    np.testing.assert_array_equal(record["classes_"], [0.0, 1.0])
    assert b'"kind":"' in record["words"].item()


def test_every_procedure_of_ours_can_be_stored_without_skops_and_read_without_scikit_learn(
    tmp_path: Any,
) -> None:
    from proxyguard.draw.catalog import PROCEDURES

    assert set(LEARNERS) == set(PROCEDURES)
    for name in LEARNERS:
        model, x = fitted(name)
        assert isinstance(model, LinearModel | TreeModel | BayesModel | AdditiveModel)
        (tmp_path / f"{name}.npy").write_bytes(model_bytes(model))
        (pd.DataFrame(x)).to_pickle(tmp_path / f"{name}.pkl")
        np.save(tmp_path / f"{name}.p.npy", model.predict_proba(x))
    code = (
        "import sys; sys.modules['sklearn'] = sys.modules['skops'] = None\n"
        "from pathlib import Path; import numpy as np, pandas as pd\n"
        "from proxyguard.models.stored import load_model\n"
        "for name in sys.argv[2:]:\n"
        "    place = Path(sys.argv[1])\n"
        "    x = pd.read_pickle(place / f'{name}.pkl')\n"
        "    model = load_model((place / f'{name}.npy').read_bytes(), name)\n"
        "    x = np.ascontiguousarray(x) if x.columns[0] == 0 else x\n"
        "    expected = np.load(place / f'{name}.p.npy')\n"
        "    np.testing.assert_array_equal(model.predict_proba(x), expected)\n"
        "print('all')\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path), *LEARNERS], capture_output=True, text=True
    )
    assert done.stdout == "all\n", done.stderr


@pytest.mark.parametrize(
    ("name", "classes"), [*((n, 2) for n in OF_SCIKIT_LEARN), *((n, 3) for n in MULTICLASS)]
)
def test_a_model_predicts_as_the_pipeline_that_it_was_read_from(name: str, classes: int) -> None:
    make, table = LEARNERS[name]
    x, y = table(1, n=200)
    y = y + (np.arange(200) % 3 == 0) * (classes - 2)
    fresh = table(7, n=150)[0]
    model = make().fit(x, y)
    pipeline = make().pipeline(x).fit(x, y)
    found, expected = model.predict_proba(fresh), pipeline.predict_proba(fresh)
    assert found.shape == (150, classes)
    if isinstance(x, np.ndarray) or isinstance(model, TreeModel):
        np.testing.assert_array_equal(found, expected)
    else:  # numbers and categories are added up in another order
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-15)
    np.testing.assert_array_equal(model.classes_, pipeline.classes_)


@pytest.mark.parametrize("name", OF_SCIKIT_LEARN)
def test_numbers_of_scikit_learn_that_are_read_wrongly_are_noticed_at_the_fit(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    make, table = LEARNERS[name]
    real = pipelines.model_of

    def wrong(pipeline: Any, x: Any) -> Any:
        content = real(pipeline, x).content()
        arrays = dict(content.arrays)
        changed = "intercept" if "intercept" in arrays else "leaves"
        arrays[changed] = arrays[changed] + 1e-9
        return load_model(Content(content.kind, content.words, arrays).to_bytes(), "wrong")

    monkeypatch.setattr(pipelines, "model_of", wrong)
    with pytest.raises(DrawError, match=r"scikit-learn .* predicts otherwise"):
        make().fit(*table(1))


@pytest.mark.filterwarnings("ignore:Skipping features without any observed values")
@pytest.mark.parametrize("name", ["logistic", "forest", "boosting", "balanced_logistic"])
def test_a_column_without_any_number_in_training_has_no_weight(name: str) -> None:
    make, table = LEARNERS[name]
    x, y = table(1)
    fresh = table(101)[0]
    for rows in (x, fresh):
        if isinstance(rows, np.ndarray):
            rows[:, 1] = np.nan if rows is x else 5.0
        else:
            rows["last"] = np.nan if rows is x else 5.0
    model, pipeline = make().fit(x, y), make().pipeline(x).fit(x, y)
    np.testing.assert_allclose(
        model.predict_proba(fresh), pipeline.predict_proba(fresh), rtol=0, atol=1e-15
    )


def binary(estimator: Any, temperature: float | None = None) -> Fitted:
    return Fitted(estimator=estimator, selected="ours", temperature=temperature)


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
        made = pipelines.fixed_logistic(Seed(1))
        expected = made.pipeline(table).fit(table, y).predict_proba(fresh)[:, 1]
        if temperature is not None:
            expected = temper(expected, temperature)
        model = binary(pipelines.fixed_logistic(Seed(1)).fit(table, y), temperature)
        for given_as in (fresh, Features(fresh)):
            np.testing.assert_array_equal(predict(model, given_as, OUTCOME), expected)


@pytest.mark.parametrize("temperature", [None, 1.7])
def test_a_one_hot_regression_predicts_bit_for_bit_as_scikit_learn(
    temperature: float | None,
) -> None:
    x, _ = categories(7, n=200)
    x.iloc[3, 0], x.iloc[5, 1], x.iloc[6] = "never seen", "", ["z", "z"]
    shared = Features(x)
    for seed in range(5):
        table, y = categories(seed, n=60)
        if seed % 2:  # releases lack categories, and not the same ones
            table["second"] = np.where(table["second"] == "c", "a", table["second"])
        p = pipelines.onehot_logistic(Seed(1)).pipeline(table).fit(table, y).predict_proba(x)[:, 1]
        expected = p if temperature is None else temper(p, temperature)
        made = pipelines.onehot_logistic(Seed(1)).fit(table, y)
        for records in (shared, x):
            found = predict(binary(made, temperature), records, OUTCOME)
            np.testing.assert_array_equal(found, expected)


def by_scikit_learn(table: pd.DataFrame, y: np.ndarray, fresh: pd.DataFrame) -> np.ndarray:
    words = CountVectorizer(vocabulary=WORDS)
    pipeline = make_pipeline(words, MultinomialNB(alpha=1.0)).fit(table["text"], y)
    return np.asarray(pipeline.predict_proba(fresh["text"]))


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("drawn", [np.arange(50), np.random.default_rng(1).integers(0, 50, 120)])
def test_naive_bayes_predicts_as_scikit_learn_and_the_same_however_records_are_read(
    drawn: np.ndarray, classes: int
) -> None:
    x = texts(9, 50)[0].iloc[drawn].reset_index(drop=True)
    x.iloc[0, 0] = "no word of the vocabulary"
    shared = Features(x)
    for seed in range(4):
        table, _ = texts(seed)
        y = np.arange(40) % classes * 1.0
        model = VocabularyBayes(WORDS, "text").fit(table, y)
        found = model.predict_proba(shared)
        np.testing.assert_array_equal(found, model.predict_proba(x))
        # Logarithms around -30, each within a few units of the last of 53 bits.
        np.testing.assert_allclose(found, by_scikit_learn(table, y, x), rtol=1e-12)


def test_two_classes_that_are_equally_likely_have_probability_one_half() -> None:
    table = pd.DataFrame({"text": pd.Series(["red blue", "red blue"], dtype=object)})
    model = VocabularyBayes(["blue", "grey", "red", "green"], "text").fit(table, [0.0, 1.0])
    found = predict(binary(model), table, OUTCOME)
    np.testing.assert_allclose(found, [0.5, 0.5], rtol=1e-15)  # log 2 is rounded


def test_words_are_those_of_scikit_learns_vectorizer() -> None:
    rng = np.random.default_rng(3)
    alphabet = list("abAB 01_-.,'\n\t\u00a0\u2003\u03a3\u0130\u00e9\u4e2d\x1c")
    analyze = CountVectorizer().build_analyzer()
    for _ in range(300):
        text = "".join(rng.choice(alphabet, 60))
        assert words_of(text) == analyze(text)


def test_different_texts_are_counted_once_for_all_models_of_one_vocabulary(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    read: list[str] = []

    def noted(text: str) -> list[str]:
        read.append(text)
        return words_of(text)

    x = texts(9, 5)[0].iloc[[4, 0, 4, 4, 2, 0]].reset_index(drop=True)
    models = [VocabularyBayes(WORDS, "text").fit(*texts(seed)) for seed in (1, 2, 3)]
    expected = [model.predict_proba(x) for model in models]
    monkeypatch.setattr(features, "words_of", noted)
    shared = Features(x)
    for model, p in zip(models, expected, strict=True):
        np.testing.assert_array_equal(model.predict_proba(shared), p)
    assert sorted(read) == sorted(set(x["text"]))
    assert not np.array_equal(expected[0], expected[1])
    other = VocabularyBayes(WORDS[:2], "text").fit(*texts(1))
    np.testing.assert_array_equal(other.predict_proba(shared), other.predict_proba(x))
    np.testing.assert_array_equal(models[0].predict_proba(shared), expected[0])  # counted anew


def test_records_that_a_model_cannot_predict_are_refused_with_the_reason() -> None:
    x, y = numbers(1)
    model = FastLogistic().fit(x, y)
    gap, huge = x.copy(), x.copy()
    gap[3, 1] = np.nan
    with pytest.raises(ValueError, match="contains NaN"):
        model.predict_proba(gap)
    huge[3, 1] = np.inf
    with pytest.raises(ValueError, match="infinity"):
        model.predict_proba(huge)
    with pytest.raises(ValueError, match=r"reads 3 features"):
        model.predict_proba(x[:, :1])
    with pytest.raises(ValueError, match="feature names"):
        model.predict_proba(pd.DataFrame(x, columns=["a", "b", "c"]))
    small, _ = numbers(1)
    tiny = FastLogistic().fit(small * 1e-5, y)
    small[3, 1] = 1e308  # finite, and not once it is divided by so little
    with pytest.raises(ValueError, match="infinity once it is scaled"):
        tiny.predict_proba(small)
    table, outcome = categories(1)
    coded = FastOnehotLogistic().fit(table, outcome)
    for other in (table[["second", "first"]], table[["first"]], table.to_numpy() == "a"):
        with pytest.raises(ValueError, match="feature names"):
            coded.predict_proba(other)
    words = VocabularyBayes(WORDS, "text").fit(*texts(1))
    for wrong in (texts(1)[0].rename(columns={"text": "body"}), table):
        with pytest.raises(ValueError, match="feature names"):
            words.predict_proba(wrong)
    absent = pd.DataFrame({"text": pd.Series(["red", None], dtype=object)})
    with pytest.raises(ValueError, match="a text is missing"):
        words.predict_proba(absent)


def test_a_value_that_is_no_text_is_an_unknown_category() -> None:
    table, y = categories(1)
    model = FastOnehotLogistic().fit(table, y)
    odd = table.iloc[:3].astype(object)
    odd.iloc[0, 0], odd.iloc[1, 0], odd.iloc[2, 0] = None, np.nan, "unknown"
    same = table.iloc[:3].assign(first="also unknown")
    np.testing.assert_array_equal(model.predict_proba(odd), model.predict_proba(same))


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
    model = FastOnehotLogistic().fit(table, np.arange(n) % 2.0)
    again = load_model(model_bytes(model), "a model")
    assert again.columns == model.columns
    np.testing.assert_array_equal(again.predict_proba(table), model.predict_proba(table))


@settings(max_examples=40)
@given(st.integers(1, 6), st.integers(2, 30), st.integers(0, 2**32))
def test_numbers_of_any_size_come_back(p: int, n: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, p)) * 10.0 ** rng.integers(-100, 100, p)
    model = FastLogistic().fit(x, np.arange(n) % 2.0)
    again = load_model(model_bytes(model), "a model")
    for name in ("fill", "mean", "scale", "coefficients", "intercept"):
        assert getattr(again, name).tobytes() == getattr(model, name).tobytes()


@settings(max_examples=40)
@given(st.lists(TERMS, min_size=1, max_size=8, unique=True), st.integers(2, 4))
def test_terms_of_any_text_and_any_number_of_classes_come_back(terms: list[str], k: int) -> None:
    model = VocabularyBayes(terms, "text").fit(texts(1)[0], np.arange(40.0) % k)
    again = load_model(model_bytes(model), "a model")
    assert again.terms == model.terms
    assert again.term_logs.tobytes() == model.term_logs.tobytes()


Change = Callable[[dict[str, Any], dict[str, Any]], Any]


def forged(name: str, change: Change) -> bytes:
    """Return a stored model whose content was changed and put together again."""
    content = read_content(model_bytes(fitted(name)[0]))
    words, arrays = dict(content.words), dict(content.arrays)
    change(words, arrays)
    return Content(str(words.pop("kind", content.kind)), words, arrays).to_bytes()


def put(**changes: Any) -> Change:
    """Return a change of texts, or of arrays by an array."""

    def change(words: dict[str, Any], arrays: dict[str, Any]) -> None:
        for name, value in changes.items():
            (arrays if isinstance(value, np.ndarray) else words)[name] = value

    return change


def shifted(name: str, place: Any, value: float) -> Change:
    def change(_: dict[str, Any], arrays: dict[str, Any]) -> None:
        arrays[name][place] = value

    return change


@pytest.mark.parametrize(
    ("name", "change", "reason"),
    [
        ("fast_logistic", put(mean=np.ones(2)), "mean has shape (2,), expected (3,)"),
        ("fast_logistic", put(intercept=np.ones(2)), "intercept has shape"),
        ("fast_logistic", put(coefficients=np.ones(3)), "coefficients has shape"),
        ("fast_logistic", put(coefficients=np.ones((2, 3))), "coefficients has shape"),
        ("fast_logistic", put(more=np.ones(1)), "holds more than that"),
        ("fast_logistic", put(more=1), "holds more than that"),
        ("fast_logistic", lambda _, a: a.pop("scale"), "its array scale is missing"),
        ("fast_logistic", lambda _, a: a.update(mean=a.pop("mean")), "not written as its model is"),
        ("fast_logistic", put(scale=np.ones(3, dtype=np.int32)), "its array scale is of type"),
        ("fast_logistic", put(classes_=np.array([0.0, 1.5])), "whole numbers in order"),
        ("fast_logistic", put(classes_=np.array([1.0, 0.0])), "whole numbers in order"),
        ("fast_logistic", put(classes_=np.array([0.0, np.inf])), "whole numbers in order"),
        ("fast_logistic", put(classes_=np.array([1.0])), "whole numbers in order"),
        ("fast_logistic", put(categories=[]), "at least one column"),
        ("fast_logistic", put(categories=[["a"], None, None]), "columns with names"),
        ("fast_logistic", put(features=["a", "b"]), "one list of categories for each"),
        ("fast_logistic", lambda w, _: w.pop("features"), "does not say its features"),
        ("fast_onehot_logistic", put(categories=[["a"]]), "one list of categories for each"),
        ("fast_onehot_logistic", put(categories="ab"), "one list of categories for each"),
        ("fast_onehot_logistic", put(categories=[["a", "b", "c"], ["c", "b", "a"]]), "in order"),
        ("fast_onehot_logistic", put(categories=[["a"], ["b"]]), "coefficients has shape"),
        ("fast_onehot_logistic", put(categories=[["a", 1], ["b"]]), "a list of texts"),
        ("fast_onehot_logistic", put(categories=[["a"], []]), "a list of texts"),
        ("fast_onehot_logistic", put(features=["same", "same"]), "a text twice"),
        ("count_nb", put(terms=[*WORDS[:3], "blue"]), "a text twice"),
        ("count_nb", put(terms=WORDS[:3]), "term_logs has shape (2, 4), expected (2, 3)"),
        ("count_nb", put(terms=[]), "a list of texts"),
        ("count_nb", put(terms={"blue": 0}), "a list of texts"),
        ("count_nb", put(column=None), "a list of texts"),
        ("count_nb", put(classes_=np.arange(3.0)), "term_logs has shape"),
        ("count_nb", put(class_logs=np.array([0.0, -np.inf])), "is not finite"),
        ("forest", put(total="votes"), "add up to 'votes'"),
        ("forest", put(total=["shares"]), "add up to"),
        ("forest", put(total="logits"), "start has shape"),
        ("forest", put(roots=np.array([], dtype=np.int32)), "there is no tree"),
        ("forest", shifted("feature", 0, 3), "a feature that is none of the 3"),
        ("forest", shifted("feature", 0, -1), "a feature that is none of the 3"),
        ("forest", shifted("children", (0, 0), 0), "has no end"),
        ("forest", shifted("children", (1, 0), 0), "has no end"),
        ("forest", shifted("children", (0, 0), 10_000), "a leaf that is not there"),
        ("forest", shifted("children", (0, 1), -10_000), "a leaf that is not there"),
        ("forest", shifted("roots", 0, 10_000), "a leaf that is not there"),
        ("boosting", shifted("roots", 0, -10_000), "a leaf that is not there"),
        ("boosting", put(start=np.zeros(2)), "start has shape"),
        ("default", put(notations=["os.system"] * 5), "names among 1234.5, 1,234.5"),
        ("default", put(notations=None), "notations must be a list"),
        ("default", put(notations=[None] * 4), "one notation and one curve for each"),
        ("default", put(notations=["1234.5", *[None] * 4]), "column of texts that are no numbers"),
        ("default", put(notations=[None] * 5), "texts that are no numbers has a curve"),
        ("default", shifted("counts", 1, 10_000), "one notation and one curve for each"),
        ("default", shifted("counts", 1, -1), "one notation and one curve for each"),
        ("default", shifted("knots", 1, np.inf), "do not increase"),
        ("default", shifted("knots", 1, -1e9), "do not increase"),
        ("default", put(heights=np.ones((2, 3))), "heights has shape"),
        ("default", put(classes_=np.zeros(1)), "whole numbers in order"),
        ("default", put(intercept=np.zeros(2)), "intercept has shape"),
    ],
)  # fmt: skip
def test_parts_that_do_not_fit_together_are_refused_with_the_reason(
    name: str, change: Change, reason: str
) -> None:
    with pytest.raises(SealError, match="seed 4 is no stored model: ") as refusal:
        load_model(forged(name, change), "seed 4")
    assert reason in str(refusal.value)
    assert len(str(refusal.value)) < 400


@pytest.mark.parametrize("kind", ["", "line", "os.system", "sklearn.svm.SVC", "x" * 1000])
def test_a_kind_that_is_not_ours_is_refused_and_nothing_is_imported(kind: str) -> None:
    before = set(sys.modules)
    with pytest.raises(SealError, match="no kind of model called") as refusal:
        load_model(Content(kind, {}, {}).to_bytes(), "model")
    assert len(str(refusal.value)) < 200
    assert set(sys.modules) == before


def test_a_tree_that_asks_without_end_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    n = 50
    chain = np.stack([-1 - np.arange(n), np.r_[np.arange(1, n), -1 - n]], axis=1)
    model = TreeModel(
        columns=FeatureColumns.numeric(1), fill=np.zeros(1), total=trees.Sum.LOGITS,
        roots=np.zeros(1, dtype=np.int32), feature=np.zeros(n, dtype=np.int32),
        threshold=np.arange(n) * 1.0, children=chain.astype(np.int32),
        leaves=np.arange(n + 1.0)[:, None] / n, start=np.zeros(1), classes_=np.array([0.0, 1.0]),
    )  # fmt: skip
    load_model(model_bytes(model), "a model")
    assert model.predict_proba([[100.0], [3.5]])[:, 1] == pytest.approx(
        1.0 / (1.0 + np.exp([-1.0, -4.0 / n]))
    )
    monkeypatch.setattr(trees, "DEEPEST", n - 1)
    with pytest.raises(ValueError, match="asks more than 49 questions"):
        model.predict_proba([[100.0]])


@pytest.mark.parametrize("name", LEARNERS)
def test_a_stored_model_cut_anywhere_or_longer_is_refused(name: str) -> None:
    content = model_bytes(fitted(name)[0])
    for size in range(0, len(content), max(1, len(content) // 200)):
        with pytest.raises(SealError, match="is no stored model"):
            load_model(content[:size], "model")
    with pytest.raises(SealError, match="is no stored model"):
        load_model(content + b"\0", "model")


CONTENTS = {name: model_bytes(fitted(name)[0]) for name in LEARNERS}


@settings(max_examples=400)
@given(st.sampled_from(sorted(LEARNERS)), st.data())
def test_a_forged_file_is_refused_or_is_the_file_of_the_model_that_it_gives(
    name: str, data: st.DataObject
) -> None:
    content = bytearray(CONTENTS[name])
    # Half of the changes fall into the header and the first numbers, half anywhere.
    ends = (min(600, len(content)), len(content))
    for _ in range(data.draw(st.integers(1, 3))):
        place = data.draw(st.integers(len(MAGIC), data.draw(st.sampled_from(ends)) - 1))
        content[place] = data.draw(st.integers(0, 255))
    try:
        model = load_model(bytes(content), "model")
    except SealError:
        return
    assert model_bytes(model) == bytes(content)


def of_many_classes(kind: str, count: int) -> Any:
    """Return a model that fits together, of more classes than any outcome has."""
    labels, zeros = np.arange(float(count)), np.zeros((count, 1))
    one = FeatureColumns.numeric(1)
    if kind == "bayes":
        return BayesModel("text", ("red",), zeros, zeros[:, 0], labels)
    if kind == "linear":
        return LinearModel(one, zeros[:1, 0], zeros[:1, 0], np.ones(1), zeros, zeros[:, 0], labels)
    if kind == "trees":
        return TreeModel(
            one, np.zeros(1), trees.Sum.SHARES, np.array([-1], np.int32), np.zeros(0, np.int32),
            np.zeros(0), np.zeros((0, 2), np.int32), zeros.T, zeros[:, 0], labels,
        )  # fmt: skip
    return AdditiveModel(
        columns=one, notations=(None,), counts=np.zeros(1, np.int32), knots=np.zeros(0),
        heights=np.zeros((count, 0)), absent=zeros, weights=np.zeros((count, 0)),
        intercept=zeros[:, 0], classes_=labels,
    )  # fmt: skip


@pytest.mark.parametrize("kind", ["additive", "linear", "trees", "bayes"])
@pytest.mark.parametrize(
    "outcome",
    [OUTCOME, Outcome(column="y", classes=("0", "1", "2")), Outcome(column="y", range=("0", "1"))],
    ids=["binary", "multiclass", "regression"],
)
def test_a_model_of_a_million_classes_is_refused_before_it_predicts(
    kind: str, outcome: Outcome
) -> None:
    stored = load_model(model_bytes(of_many_classes(kind, 20_000)), "a model")
    table = pd.DataFrame({"text": ["red"] * 300}) if kind == "bayes" else np.zeros((300, 1))
    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match="the model has 20,000 classes"):
            predict(binary(stored), table, outcome)
        assert tracemalloc.get_traced_memory()[1] < 2**20
    finally:
        tracemalloc.stop()


class Answers:
    """A model of somebody else, which answers anything."""

    def __init__(self, classes: Any, answer: Any) -> None:
        self.classes_, self._answer = classes, answer

    def predict_proba(self, x: Any) -> Any:
        return np.broadcast_to(self._answer, (len(x), *np.shape(self._answer)))


@pytest.mark.parametrize(
    ("classes", "answer"),
    [
        ([0.0, 2.0], [0.5, 0.5]), ([-1.0, 1.0], [0.5, 0.5]), ([1.0, 1.0], [0.5, 0.5]),
        ([0.0, 0.5], [0.5, 0.5]), ([], []), ([[0.0, 1.0]], [0.5, 0.5]), (["a", "b"], [0.5, 0.5]),
        ([0.0, 1.0], [0.5]), ([0.0, 1.0], [0.2, 0.3, 0.5]), ([0.0, 1.0], 0.5), ([0.0], [1.0]),
    ],
)  # fmt: skip
def test_a_model_of_other_classes_predicts_nothing(classes: Any, answer: Any) -> None:
    with pytest.raises(ValueError, match=r"class|shape|1 is not in list"):
        predict(binary(Answers(classes, answer)), np.zeros((4, 1)), OUTCOME)


def test_a_forged_tree_of_a_text_without_categories_predicts_what_its_leaf_says() -> None:
    none, node = np.zeros(0), np.zeros(0, np.int32)
    tree = TreeModel(
        FeatureColumns(("t",), ((),)), none, trees.Sum.SHARES, np.array([-1], np.int32), node, none,
        node.reshape(0, 2), np.array([[0.25, 0.75]]), np.zeros(2), np.array([0.0, 1.0]),
    )  # fmt: skip
    rows = pd.DataFrame({"t": ["a", "b"]}, dtype=object)
    np.testing.assert_array_equal(tree.predict_proba(rows), [[0.25, 0.75]] * 2)


def test_records_of_wide_trees_are_coded_some_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    model, table = fitted("balanced_boosting")
    whole = model.predict_proba(table)
    monkeypatch.setattr(trees, "CODES", 7)
    np.testing.assert_array_equal(model.predict_proba(table), whole)
    known = tuple(sorted(f"text {k}" for k in range(20_000)))
    wide = TreeModel(
        FeatureColumns(("t",), (known,)), np.zeros(0), trees.Sum.SHARES, np.array([0], np.int32),
        np.array([19_999], np.int32), np.array([0.5]), np.array([[-1, -2]], np.int32),
        np.array([[0.25, 0.75], [0.5, 0.5]]), np.zeros(2), np.array([0.0, 1.0]),
    )  # fmt: skip
    monkeypatch.setattr(trees, "CODES", 10 * 20_000)
    rows = pd.DataFrame({"t": [known[-1], *known[:1999]]}, dtype=object)
    tracemalloc.start()
    try:
        shares = wide.predict_proba(rows)
        assert tracemalloc.get_traced_memory()[1] < 2**25  # 160 MB, were all coded at once
    finally:
        tracemalloc.stop()
    np.testing.assert_array_equal(shares, [[0.5, 0.5], *[[0.25, 0.75]] * 1999])
