"""The paper's text learner: word counts of a fixed vocabulary, and naive Bayes with alpha = 1.

The vocabulary is learned once, from the training part. Naive Bayes needs no more than the
counts of each class, so a release is counted class by class and never document by document.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.naive_bayes import MultinomialNB
from sklearn.pipeline import Pipeline, make_pipeline

from proxyguard.adapters.vocabulary import most_frequent
from proxyguard.draw.plain import counter
from proxyguard.draw.protocol import Seed
from proxyguard.errors import DrawError

MAX_FEATURES, MIN_DF = 500, 2


class VocabularyBayes:
    """Naive Bayes on the counts of a vocabulary that is not learned from the table."""

    def __init__(self, terms: Sequence[str], column: str) -> None:
        self._places = {term: k for k, term in enumerate(terms)}
        self._column = column
        self._encoder = counter(terms, column)
        self._tokens = CountVectorizer().build_analyzer()

    def fit(self, x: Any, y: Any) -> Pipeline:
        """Return the fitted pipeline: scikit-learn's vectorizer and naive Bayes."""
        outcomes = np.asarray(y)
        classes, place = np.unique(outcomes, return_inverse=True)
        texts = _only_column(x).to_numpy(dtype=object)
        counts = np.stack([self._count(texts[place == k]) for k in range(classes.size)])
        sizes = np.bincount(place).astype(np.float64)
        return make_pipeline(self._encoder, _bayes(counts, sizes, classes))

    def _count(self, texts: Iterable[str]) -> NDArray[np.float64]:
        """Return how often each term occurs in all texts together.

        No word reaches over white space, so every stretch between white space has the words
        it has in its text, and those that occur often are looked at once.
        """
        counts = np.zeros(len(self._places))
        for stretch, times in _stretches(texts):
            place = self._places.get(stretch)
            if place is not None:
                counts[place] += times
                continue
            for token in self._tokens(stretch):
                place = self._places.get(token)
                if place is not None:
                    counts[place] += times
        return counts


def _bayes(
    counts: NDArray[np.float64], sizes: NDArray[np.float64], classes: NDArray[Any]
) -> MultinomialNB:
    """Return scikit-learn's naive Bayes for these counts of terms and of documents."""
    # Fitted on one document a class, which has all words of the class; only the shares of
    # the classes are then those of as many documents.
    model = MultinomialNB(alpha=1.0).fit(counts, classes)
    model.class_count_ = sizes
    model.class_log_prior_ = np.log(sizes) - np.log(sizes.sum())
    return model


def _stretches(texts: Iterable[str]) -> Iterator[tuple[str, int]]:
    """Yield what stands between white space in the texts, each once, and how often."""
    whole = pa.array([" ".join(texts)], type=pa.large_string())
    counts = pc.value_counts(pc.list_flatten(pc.utf8_split_whitespace(whole)))
    yield from zip(counts.field(0).to_pylist(), counts.field(1).to_pylist(), strict=True)


def _only_column(x: Any) -> Any:
    """Return the one text column of the features."""
    import pandas as pd

    if not isinstance(x, pd.DataFrame) or x.shape[1] != 1:
        found = list(x) if isinstance(x, pd.DataFrame) else f"{x.shape[1]} numbers"
        raise DrawError(
            f"count_nb reads one column of text; the features are {found}: exclude the others"
        )
    return x.iloc[:, 0]


class CountNaiveBayes:
    """The procedure ``count_nb``: prepared on the training part, then made for every fit."""

    __name__ = "count_nb"  # it stands where the other procedures are functions

    def prepare(self, x: Any) -> Callable[[Seed], VocabularyBayes]:
        """Return the maker of estimators with the vocabulary of these texts."""
        texts = _only_column(x)
        try:
            words, _ = most_frequent(
                texts, max_features=MAX_FEATURES, min_df=MIN_DF, stop_words="english",
                lowercase=True,
            )  # fmt: skip
        except ValueError as error:  # no word is in enough documents
            raise DrawError(f"count_nb: the training part gives no vocabulary: {error}") from error
        fixed = VocabularyBayes(words, str(texts.name))
        return lambda seed: fixed

    def __call__(self, seed: Seed) -> VocabularyBayes:
        """Refuse: without the training part there is no vocabulary."""
        raise DrawError("count_nb needs the training part for its vocabulary; prepare it first")


count_nb = CountNaiveBayes()
