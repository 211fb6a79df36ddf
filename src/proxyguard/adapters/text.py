"""The paper's text generator and text learner, and the words that both count.

`UnigramText` draws documents of independent words, class by class. `count_nb` is naive Bayes with
alpha = 1 on the counts of a vocabulary that is learned once, from the training part; it needs no
more than the counts of each class, so a release is counted class by class and never document by
document. The vocabulary is the most frequent words, the same on every processor.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import ArrayLike, NDArray
from sklearn.feature_extraction.text import CountVectorizer

from proxyguard.adapters.denoising import Labels, read_labels
from proxyguard.adapters.settings import decimal, positive_decimal, truth, whole
from proxyguard.draw.protocol import Inputs, Seed
from proxyguard.errors import DrawError, RegistryError
from proxyguard.exact.rounding import Array
from proxyguard.models.features import TermCounts, words_of
from proxyguard.models.learned import BayesModel

if TYPE_CHECKING:
    import pandas as pd


STAGE = "lengths, words, labels and order of the documents"
# How finely [0, 1) is divided where a uniform number is looked up.
CELLS = 1 << 15


@dataclass(frozen=True, slots=True, kw_only=True)
class Vocabulary:
    """Which words are counted: the arguments of `most_frequent`."""

    max_features: int
    min_df: int
    stop_words: str | None
    lowercase: bool


class UnigramText:
    """Documents whose words are drawn independently, with the word shares of their class.

    The vocabulary, the smoothed word shares of each class and its document lengths (counted
    in words of the vocabulary, clipped) are learned once, and conditioned upon. A draw makes
    half of its documents in each class: lengths from those of the source, then words, then
    labels flipped with the chance ``flip``, then a random order. ``temperature`` above 1
    flattens the word shares. The words of a document stand in the order in which they were
    drawn; their counts are multinomial.
    """

    def __init__(
        self,
        *,
        outcome: str,
        positive: str | int,
        text: str,
        rows: int,
        temperature: str | float = "1",
        flip: str | float = "0",
        max_features: int = 500,
        min_df: int = 2,
        stop_words: str | None = "english",
        lowercase: bool = True,
        smoothing: str | float = "0.5",
        shortest: int = 10,
        longest: int = 150,
    ) -> None:
        self._outcome, self._positive, self._text = outcome, positive, text
        self._rows = whole(rows, "text: rows", least=2)
        self._temperature = positive_decimal(temperature, "text: temperature")
        self._flip = decimal(flip, "text: flip", high=1.0)
        if stop_words not in ("english", None):
            raise RegistryError(f'text: stop_words is "english" or left out, got {stop_words!r}')
        self._vocabulary = Vocabulary(
            max_features=whole(max_features, "text: max_features"),
            min_df=whole(min_df, "text: min_df"),
            stop_words=stop_words,
            lowercase=truth(lowercase, "text: lowercase"),
        )
        self._smoothing = positive_decimal(smoothing, "text: smoothing")
        self._shortest = whole(shortest, "text: shortest")
        self._longest = whole(longest, "text: longest", least=self._shortest)
        self._columns: list[str] = []
        self._labels: Labels | None = None

    def describe(self) -> Mapping[str, object]:
        """Return the settings."""
        return {
            "mechanism": "documents of independent words, class by class",
            "outcome": self._outcome,
            "positive": self._positive,
            "text": self._text,
            "rows": self._rows,
            "temperature": repr(self._temperature),
            "flip": repr(self._flip),
            "vocabulary": asdict(self._vocabulary),
            "smoothing": repr(self._smoothing),
            "shortest": self._shortest,
            "longest": self._longest,
        }

    def prepare(self, source: pd.DataFrame, rng: np.random.Generator) -> None:
        """Learn the vocabulary, and the word shares and document lengths of each class."""
        self._columns = [str(name) for name in source.columns]
        if set(self._columns) != {self._outcome, self._text}:
            raise RegistryError(
                f"text: the source has the columns {self._text!r} and {self._outcome!r} and no "
                f"other; it has {self._columns}"
            )
        labels = read_labels(source, self._outcome, self._positive)
        try:
            words, counts = most_frequent(source[self._text], **asdict(self._vocabulary))
        except ValueError as error:  # no word is in min_df documents
            raise RegistryError(f"text: the source gives no vocabulary: {error}") from error
        self._labels = labels
        self._words = np.array(words, dtype=object)
        of_class = [counts[np.flatnonzero(labels.classes == c)] for c in (0, 1)]
        self._tables = [
            _LookUp(self._shares(np.asarray(part.sum(axis=0)).ravel())) for part in of_class
        ]
        self._lengths: list[NDArray[np.int64]] = [
            np.clip(np.asarray(part.sum(axis=1)).ravel(), self._shortest, self._longest)
            for part in of_class
        ]

    def _shares(self, counts: NDArray[np.int64]) -> Array:
        """Return smoothed word shares at the temperature."""
        smoothed = counts + self._smoothing
        # Divided by the largest first, so that no power underflows everywhere.
        raised = (smoothed / smoothed.max()) ** (1.0 / self._temperature)
        return np.asarray(raised / raised.sum())

    def draw(self, seed: Seed) -> pd.DataFrame:
        """Return one release: as many documents in one class as in the other."""
        import pandas as pd

        assert self._labels is not None  # prepare comes first
        rng = seed.rng(STAGE)
        documents: list[str] = []
        sizes = (self._rows // 2, self._rows - self._rows // 2)
        for lengths, table, size in zip(self._lengths, self._tables, sizes, strict=True):
            drawn = lengths[rng.integers(0, lengths.size, size)]
            words = self._words[table(rng.random(int(drawn.sum())))].tolist()
            ends = np.cumsum(drawn).tolist()
            documents += [" ".join(words[a:b]) for a, b in zip([0, *ends], ends, strict=False)]
        classes = np.repeat([0, 1], sizes)
        if self._flip > 0.0:
            classes = np.where(rng.random(self._rows) < self._flip, 1 - classes, classes)
        # Documents were made class by class: in that order the rows would tell a label that was
        # flipped.
        order = rng.permutation(self._rows)
        written = self._labels.write(classes[order])
        columns = {
            self._outcome: pd.Series(written, dtype=written.dtype),
            self._text: pd.Series(np.array(documents, dtype=object)[order], dtype=object),
        }
        return pd.DataFrame({name: columns[name] for name in self._columns})


class _LookUp:
    """Words by inverting their cumulative shares: exactly a binary search, mostly without one.

    [0, 1) is cut into equal cells. A number whose cell lies inside one word's share is that
    word; the few cells with a boundary inside are searched.
    """

    def __init__(self, shares: Array) -> None:
        self._ends = np.cumsum(shares)
        self._ends[-1] = 1.0  # whatever the rounding, every number below 1 finds a word
        edges = np.arange(CELLS + 1) / CELLS
        first = np.searchsorted(self._ends, edges, side="right")
        self._word = np.where(first[:-1] == first[1:], first[:-1], -1)

    def __call__(self, numbers: Array) -> NDArray[np.int64]:
        """Return the word of each uniform number."""
        # A power of two, so that the product is exact and no number falls into the next cell.
        found = self._word[(numbers * CELLS).astype(np.int64)]
        open_ = np.flatnonzero(found < 0)
        found[open_] = np.searchsorted(self._ends, numbers[open_], side="right")
        return found


def most_frequent(
    texts: Iterable[str],
    *,
    max_features: int,
    min_df: int,
    stop_words: str | None,
    lowercase: bool,
) -> tuple[list[str], TermCounts]:
    """Return the words in order, and how often each occurs in each text, a sparse matrix.

    Of words that occur equally often the first in the alphabet are kept. scikit-learn keeps
    those that NumPy's sort happens to put first, which differs between processors.
    """
    vectorizer = CountVectorizer(min_df=min_df, stop_words=stop_words, lowercase=lowercase)
    counts = vectorizer.fit_transform(texts)
    totals = np.asarray(counts.sum(axis=0)).ravel()
    kept = np.sort(np.argsort(-totals, kind="stable")[:max_features])
    return [str(word) for word in vectorizer.get_feature_names_out()[kept]], counts[:, kept]


MAX_FEATURES, MIN_DF = 500, 2


class VocabularyBayes:
    """Naive Bayes on the counts of a vocabulary that is not learned from the table."""

    def __init__(self, terms: Sequence[str], column: str) -> None:
        self._terms, self._column = tuple(terms), column
        self._numbers = {term: k for k, term in enumerate(terms)}

    def fit(self, x: Inputs, y: ArrayLike) -> BayesModel:
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

    def counts(self, x: Inputs, y: ArrayLike) -> tuple[Array, Array, Array]:
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
            # A stretch that is a term is one word, and need not be taken apart.
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
    # large_string: all texts of a class together may be longer than the 2 GiB of Arrow's string.
    whole = pa.array([" ".join(texts)], type=pa.large_string())
    counts = pc.value_counts(pc.list_flatten(pc.utf8_split_whitespace(whole)))
    yield from zip(counts.field(0).to_pylist(), counts.field(1).to_pylist(), strict=True)


def _only_column(x: Inputs) -> pd.Series[str]:
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

    def prepare(self, x: Inputs) -> Callable[[Seed], VocabularyBayes]:
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
        # The same one for all fits: a fit returns its model and leaves nothing behind in it.
        return lambda seed: fixed

    def __call__(self, seed: Seed) -> VocabularyBayes:
        """Refuse: without the training part there is no vocabulary."""
        raise DrawError("count_nb needs the training part for its vocabulary; prepare it first")


count_nb = CountNaiveBayes()
