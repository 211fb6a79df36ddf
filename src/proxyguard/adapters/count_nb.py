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

from proxyguard.adapters.vocabulary import most_frequent
from proxyguard.draw.protocol import Seed
from proxyguard.errors import DrawError
from proxyguard.models.bayes import BayesModel
from proxyguard.models.features import words_of

Array = NDArray[np.float64]
MAX_FEATURES, MIN_DF = 500, 2


class VocabularyBayes:
    """Naive Bayes on the counts of a vocabulary that is not learned from the table."""

    def __init__(self, terms: Sequence[str], column: str) -> None:
        self._terms, self._column = tuple(terms), column
        self._numbers = {term: k for k, term in enumerate(terms)}

    def fit(self, x: Any, y: Any) -> BayesModel:
        """Return the fitted model."""
        classes, sizes, counts = self.counts(x, y)
        # As scikit-learn has it: one occurrence more of every term, logarithms subtracted.
        smoothed = counts + 1.0
        return BayesModel(
            column=self._column,
            terms=self._terms,
            term_logs=np.log(smoothed) - np.log(smoothed.sum(axis=1, keepdims=True)),
            class_logs=np.log(sizes) - np.log(sizes.sum()),
            classes_=classes,
        )

    def counts(self, x: Any, y: Any) -> tuple[Array, Array, Array]:
        """Return the classes, how many texts each has, and how often each term occurs in it."""
        classes, place = np.unique(np.asarray(y, dtype=np.float64), return_inverse=True)
        texts = _only_column(x).to_numpy(dtype=object)
        counts = np.stack([self._count(texts[place == k]) for k in range(classes.size)])
        return classes, np.bincount(place).astype(np.float64), counts

    def _count(self, texts: Iterable[str]) -> Array:
        """Return how often each term occurs in all texts together.

        No word reaches over white space, so every stretch between white space has the words
        it has in its text, and those that occur often are looked at once.
        """
        counts = np.zeros(len(self._numbers))
        for stretch, times in _stretches(texts):
            place = self._numbers.get(stretch)
            if place is not None:
                counts[place] += times
                continue
            for token in words_of(stretch):
                place = self._numbers.get(token)
                if place is not None:
                    counts[place] += times
        return counts


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
