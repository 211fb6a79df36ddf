"""The text generator and its learner: words of each class, and one vocabulary for all releases."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_matrix
from scipy.stats import binom, chi2
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.naive_bayes import MultinomialNB

from conformance.generator import GeneratorConformance
from proxyguard.adapters.library import Library
from proxyguard.adapters.text import STAGE, UnigramText, VocabularyBayes, _LookUp, count_nb
from proxyguard.adapters.worker import make_learner
from proxyguard.draw.catalog import load_generator
from proxyguard.draw.job import FitJob
from proxyguard.draw.protocol import Seed, predict
from proxyguard.errors import DrawError, RegistryError
from proxyguard.models.stored import load_model, model_bytes
from proxyguard.registry.parts import Procedure
from proxyguard.registry.target import Outcome
from proxyguard.tables.files import Schema, table_bytes

OUTCOME = Outcome(column="group", positive="space")
OPTIONS: dict[str, Any] = {"outcome": "group", "positive": "space", "text": "body", "rows": 40}

HOCKEY = (
    "The goalie saved a puck, and the GOALIE smiled.",
    "A puck! A puck! My kingdom for a puck",
    "ice\nice\tice hockey-goalie",
)
SPACE = ("orbit of the moon; orbit of the shuttle", "Shuttle, shuttle: moon", "moon ice orbit 1969")


def source() -> pd.DataFrame:
    texts = [*HOCKEY, *SPACE] * 2
    groups = (["hockey"] * 3 + ["space"] * 3) * 2
    return pd.DataFrame(
        {"body": pd.Series(texts, dtype=object), "group": pd.Series(groups, dtype=object)}
    )


def prepared(**options: Any) -> UnigramText:
    generator = UnigramText(**{**OPTIONS, **options})
    generator.prepare(source(), np.random.default_rng(0))
    return generator


class TestUnigramText(GeneratorConformance):
    stage = STAGE

    def make(self) -> UnigramText:
        return load_generator("text", OPTIONS)  # type: ignore[no-any-return]

    def source(self) -> pd.DataFrame:
        return source()


class TestWarmTextWithFlips(TestUnigramText):
    def make(self) -> UnigramText:
        options = {**OPTIONS, "temperature": "1.35", "flip": "0.2"}
        return load_generator("text", options)  # type: ignore[no-any-return]


def shares(label: str, smoothing: float = 0.5, temperature: float = 1.0) -> dict[str, float]:
    """The word shares of a class, with the words of its documents counted by scikit-learn."""
    table = source()
    vectorizer = CountVectorizer(max_features=500, min_df=2, stop_words="english").fit(
        table["body"]
    )
    counts = vectorizer.transform(table["body"][table["group"] == label]).sum(axis=0)
    raised = (np.asarray(counts).ravel() + smoothing) ** (1.0 / temperature)
    names = vectorizer.get_feature_names_out()
    return dict(zip(names, raised / raised.sum(), strict=True))


@pytest.mark.parametrize("temperature", ["1", "1.35"])
@pytest.mark.parametrize("label", ["hockey", "space"])
def test_words_are_drawn_with_the_shares_of_their_class(label: str, temperature: str) -> None:
    release = prepared(rows=2000, temperature=temperature).draw(Seed(20260819))
    words = Counter(" ".join(release["body"][release["group"] == label]).split())
    expected = shares(label, temperature=float(temperature))
    assert set(words) <= set(expected)
    total = sum(words.values())
    distance = sum(
        (words[word] - total * share) ** 2 / (total * share) for word, share in expected.items()
    )
    # Pearson's statistic passes this limit once in a million times.
    assert distance < chi2.isf(1e-6, len(expected) - 1)
    other = shares("space" if label == "hockey" else "hockey", temperature=float(temperature))
    wrong = sum((words[w] - total * s) ** 2 / (total * s) for w, s in other.items())
    assert wrong > 10 * chi2.isf(1e-6, len(expected) - 1)  # the check has teeth


def test_document_lengths_are_those_of_the_class_clipped() -> None:
    release = prepared(rows=400, shortest=3, longest=4).draw(Seed(5))
    lengths = release["body"].str.split().map(len)
    # Counted by hand, in words of the vocabulary: the hockey documents have 5, 4 and 5, and
    # those of space 4, 3 and 4.
    assert set(lengths[release["group"] == "hockey"]) == {4}
    assert set(lengths[release["group"] == "space"]) == {3, 4}


def test_classes_are_equal_in_number_and_in_random_order() -> None:
    release = prepared(rows=41).draw(Seed(5))
    assert release["group"].value_counts().to_dict() == {"space": 21, "hockey": 20}
    assert 0 < (release["group"][:20] == "space").sum() < 20
    assert list(release.columns) == ["body", "group"]
    assert list(release.index) == list(range(41))


def test_labels_are_flipped_as_often_as_declared_and_words_stay() -> None:
    release = prepared(rows=2000, flip="0.15").draw(Seed(20260819))
    # goalie and puck are words of hockey, moon and orbit of space: a majority names the class.
    home = release["body"].map(
        lambda t: (
            sum(w in ("goalie", "puck") for w in t.split())
            > sum(w in ("moon", "orbit", "shuttle") for w in t.split())
        )
    )
    wrong = int((home != (release["group"] == "hockey")).sum())
    never = prepared(rows=2000).draw(Seed(20260819))
    home = never["body"].map(
        lambda t: (
            sum(w in ("goalie", "puck") for w in t.split())
            > sum(w in ("moon", "orbit", "shuttle") for w in t.split())
        )
    )
    blurred = float((home != (never["group"] == "hockey")).mean())  # by the words alone
    rate = 0.15 * (1.0 - blurred) + 0.85 * blurred
    assert binom.sf(wrong - 1, 2000, rate) > 1e-6
    assert binom.cdf(wrong, 2000, rate) > 1e-6
    assert binom.sf(wrong - 1, 2000, blurred) < 1e-6  # it would notice that none is flipped


def test_a_number_finds_its_word_as_a_binary_search_does() -> None:
    rng = np.random.default_rng(1)
    p = rng.dirichlet(np.full(300, 0.2))
    ends = np.cumsum(p)
    ends[-1] = 1.0
    inside = np.concatenate([rng.random(20_000), ends[:-1], np.nextafter(ends, 0.0), [0.0]])
    numbers = inside[inside < 1.0]
    np.testing.assert_array_equal(_LookUp(p)(numbers), np.searchsorted(ends, numbers, "right"))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rows": 1}, "rows is a whole number of at least 2"),
        ({"temperature": "0"}, "temperature is a number above 0"),
        ({"flip": "1.2"}, "flip is a number from 0 to 1"),
        ({"max_features": 0}, "max_features is a whole number"),
        ({"min_df": "2"}, "min_df is a whole number"),
        ({"stop_words": "german"}, 'stop_words is "english"'),
        ({"lowercase": "yes"}, "lowercase is true or false"),
        ({"smoothing": 0}, "smoothing is a number above 0"),
        ({"shortest": 20, "longest": 10}, "longest is a whole number of at least 20"),
    ],
)
def test_an_option_that_means_nothing_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(RegistryError, match=message):
        UnigramText(**{**OPTIONS, **options})


def test_a_source_without_the_columns_or_without_words_is_refused() -> None:
    rng = np.random.default_rng(0)
    with pytest.raises(RegistryError, match=r"columns 'body' and 'group' and no other"):
        UnigramText(**OPTIONS).prepare(source().assign(more=1.0), rng)
    with pytest.raises(RegistryError, match="gives no vocabulary"):
        UnigramText(**OPTIONS).prepare(source().assign(body="the of"), rng)


def library(**declared: Any) -> Library:
    return Library(Procedure(library=("count_nb",), **declared), OUTCOME, ("body",))


def by_scikit_learn(training: pd.DataFrame, release: pd.DataFrame, fresh: pd.Series[Any]) -> Any:
    """Probabilities of space: vocabulary from one table, word counts of each document of another"""
    vectorizer = CountVectorizer(max_features=500, min_df=2, stop_words="english")
    vectorizer.fit(training["body"])
    y = (release["group"] == "space").astype(float)
    model = MultinomialNB(alpha=1.0).fit(csr_matrix(vectorizer.transform(release["body"])), y)
    return model.predict_proba(vectorizer.transform(fresh))[:, 1]


RELEASE = pd.DataFrame(
    {
        "body": pd.Series(
            ["Puck-puck goalie; rocket rocket rocket", "ORBIT\u00a0moon\u2003rocket ice",
             "", "moonlight moon's goalie"],
            dtype=object,
        ),
        "group": pd.Series(["hockey", "space", "space", "hockey"], dtype=object),
    }
)  # fmt: skip


def test_a_prepared_learner_counts_the_words_of_the_training_part() -> None:
    fresh = pd.DataFrame({"body": pd.Series(["puck ice moon", "rocket", "Goalie!"], dtype=object)})
    learner = library()
    learner.prepare(source())
    fitted = learner.fit(RELEASE, None, Seed(1))
    ours = predict(fitted, fresh, OUTCOME)
    np.testing.assert_array_equal(ours, by_scikit_learn(source(), RELEASE, fresh["body"]))
    # rocket is in two documents of the release and in none of the training part.
    assert "rocket" not in fitted.estimator.terms
    unprepared = library().fit(RELEASE, None, Seed(1))
    assert "rocket" in unprepared.estimator.terms
    np.testing.assert_array_equal(
        predict(unprepared, fresh, OUTCOME), by_scikit_learn(RELEASE, RELEASE, fresh["body"])
    )


def test_the_source_is_fitted_with_the_vocabulary_that_the_drawing_process_prepares(
    tmp_path: Path,
) -> None:
    (tmp_path / "source.parquet").write_bytes(table_bytes(source()))
    job = FitJob(
        name="text",
        procedure=Procedure.model_validate({"library": ["count_nb"]}),
        outcome=OUTCOME,
        features=("body",),
        source=str(tmp_path / "source.parquet"),
        schema_of_releases=Schema(kinds={}),
    )
    drawing = make_learner(job)
    assert drawing is not None
    of_release = drawing.fit(RELEASE, None, Seed(1)).estimator
    of_source = library().fit(source(), None, Seed(0)).estimator
    assert of_release.terms == of_source.terms


def test_the_vocabulary_is_learned_before_a_part_of_the_table_is_set_aside() -> None:
    table = pd.concat([source()] * 3, ignore_index=True)
    rare = table.assign(body=[f"{t} word{k // 2}" for k, t in enumerate(table["body"])])
    learner = library(validation="release", choose={"thresholds": 11})
    words = learner.fit(rare, None, Seed(1)).estimator.terms
    # Every word0 ... word17 is in two documents; of 36, seven are set aside.
    assert {f"word{k}" for k in range(18)} <= set(words)


def test_a_procedure_without_preparation_is_prepared_by_nothing() -> None:
    assert library().prepares
    assert not Library(Procedure(library=("logistic",)), OUTCOME, ("body",)).prepares
    with pytest.raises(DrawError, match="needs the training part"):
        count_nb(Seed(1))


def test_other_features_than_one_text_are_refused_with_a_remedy() -> None:
    with pytest.raises(DrawError, match=r"\['body', 'group'\]: exclude the others"):
        count_nb.prepare(source())
    with pytest.raises(DrawError, match="2 numbers: exclude the others"):
        count_nb.prepare(np.zeros((3, 2)))
    with pytest.raises(DrawError, match="gives no vocabulary"):
        count_nb.prepare(source()[["body"]].assign(body="the"))


def test_what_is_stored_is_the_same_bytes_each_time() -> None:
    maker = count_nb.prepare(source()[["body"]])
    x, y = RELEASE[["body"]], np.array([0.0, 1.0, 1.0, 0.0])
    content = model_bytes(maker(Seed(1)).fit(x, y))
    again = load_model(content, "a model")
    fitted = maker(Seed(2)).fit(x, y)
    np.testing.assert_array_equal(again.predict_proba(x), fitted.predict_proba(x))
    assert model_bytes(maker(Seed(3)).fit(x, y)) == content


def test_real_text_is_counted_as_scikit_learn_counts_it() -> None:
    rng = np.random.default_rng(3)
    alphabet = list("abAB 01_-.,'\n\t\u00a0\u2003\u03a3\u0130\u00e9\u4e2d\x1c")
    texts = ["".join(rng.choice(alphabet, 60)) for _ in range(300)]
    vectorizer = CountVectorizer(max_features=200, min_df=2).fit(texts)
    terms = list(vectorizer.get_feature_names_out())
    table = pd.DataFrame({"body": pd.Series(texts, dtype=object)})
    y = rng.integers(0, 3, 300)
    learner = VocabularyBayes(terms, "body")
    ours = learner.fit(table, y)
    theirs = MultinomialNB(alpha=1.0).fit(vectorizer.transform(texts), y)
    np.testing.assert_array_equal(learner.counts(table, y)[2], theirs.feature_count_)
    np.testing.assert_array_equal(ours.term_logs, theirs.feature_log_prob_)
    np.testing.assert_array_equal(ours.class_logs, theirs.class_log_prior_)
    assert theirs.feature_count_.sum() > 1000
