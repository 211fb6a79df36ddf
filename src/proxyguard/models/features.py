"""What models read of a table, worked out once for all models that predict the same records.

Models fitted to many releases read the same target. What costs time there is the same for all
of them: looking for missing numbers, coding texts, counting words.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array

from proxyguard.documents.canonical import Plain
from proxyguard.errors import SealError
from proxyguard.exact.rounding import Array
from proxyguard.models.npy import Content, checked_texts
from proxyguard.tables.notation import Notation

if TYPE_CHECKING:
    import pandas as pd

TermCounts: TypeAlias = "csr_array[np.float64, tuple[int, int]]"
FeatureTable: TypeAlias = "Features | pd.DataFrame | ArrayLike"
# A word: what scikit-learn's vectorizers, which the vocabulary is learned with, take for one.
_TOKEN = re.compile(r"(?u)\b\w\w+\b")


def words_of(text: str) -> list[str]:
    """Return the words of a text, in lower case.

    >>> words_of("A puck! The GOALIE's puck")
    ['puck', 'the', 'goalie', 'puck']
    """
    return _TOKEN.findall(text.lower())


class Features:
    """The features of some records: numbers as one array, or a frame with texts.

    Parameters
    ----------
    table
        An array of numbers, one row a record, or a frame. It is not copied and must not change.
    """

    def __init__(self, table: pd.DataFrame | ArrayLike) -> None:
        is_frame = hasattr(table, "iloc")
        self.frame: pd.DataFrame | None = table if is_frame else None  # type: ignore[assignment]  # a frame has iloc, an array has not
        self.array: Array | None = None if is_frame else np.asarray(table, dtype=np.float64)
        self.names = None if self.frame is None else tuple(map(str, self.frame.columns))
        self._numbers: dict[tuple[int, ...], tuple[Array, bool]] = {}
        self._codes: dict[int, tuple[list[str | None], NDArray[np.intp]]] = {}
        self._written: dict[tuple[int, Notation], Array] = {}
        self._counts: tuple[int, tuple[str, ...], TermCounts] | None = None

    @classmethod
    def of(cls, table: FeatureTable) -> Features:
        """Return a table as records; records as they are."""
        return table if isinstance(table, Features) else cls(table)

    @property
    def table(self) -> pd.DataFrame | Array:
        """The table itself, for models of others."""
        table = self.array if self.frame is None else self.frame
        assert table is not None  # one of the two is there
        return table

    def __len__(self) -> int:
        return len(self.table)

    def numbers(self, positions: tuple[int, ...]) -> tuple[Array, bool]:
        """Return these columns as an array, and whether every number in it is finite."""
        if positions not in self._numbers:
            if self.frame is None:
                assert self.array is not None  # the other kind of table
                array = self.array  # a table of numbers alone is read whole
            else:
                array = self.frame.iloc[:, list(positions)].to_numpy(dtype=np.float64)
            self._numbers[positions] = array, bool(np.isfinite(array).all())
        return self._numbers[positions]

    def number(self, position: int) -> Array:
        """Return one column of numbers as it is, missing and infinite ones too."""
        return self.numbers((position,))[0][:, 0] if self.array is None else self.array[:, position]

    def codes(self, position: int) -> tuple[list[str | None], NDArray[np.intp]]:
        """Return the different texts of a column, nothing for what is none, and each record's."""
        if position not in self._codes:
            import pandas as pd

            assert self.frame is not None  # texts are in frames
            cells = self.frame.iloc[:, position].to_numpy(dtype=object)
            codes, distinct = pd.factorize(cells, use_na_sentinel=False)
            texts = [text if isinstance(text, str) else None for text in distinct]
            self._codes[position] = texts, np.asarray(codes)
        return self._codes[position]

    def written(self, position: int, notation: Notation) -> Array:
        """Return the number that each different text of a column is in a notation, or NaN."""
        if (position, notation) not in self._written:
            texts, _ = self.codes(position)
            self._written[position, notation] = notation.numbers([text or "" for text in texts])
        return self._written[position, notation]

    def counts(self, position: int, terms: tuple[str, ...]) -> TermCounts:
        """Return how often each term occurs in each different text of a column.

        Models of one procedure share their terms, so the counts of the last ones are kept.
        """
        if self._counts is None or self._counts[:2] != (position, terms):
            texts, _ = self.codes(position)
            known = [text for text in texts if text is not None]
            if len(known) < len(texts):
                raise ValueError("a text is missing or is none; words are counted in texts alone")
            self._counts = position, terms, _counted(known, terms)
        return self._counts[2]


def _counted(texts: Sequence[str], terms: tuple[str, ...]) -> TermCounts:
    numbers = {term: k for k, term in enumerate(terms)}
    columns: list[int] = []
    times: list[float] = []
    ends = [0]
    for text in texts:
        words = Counter(words_of(text))
        known = sorted((numbers[word], count) for word, count in words.items() if word in numbers)
        columns += [number for number, _ in known]
        times += [float(count) for _, count in known]
        ends.append(len(columns))
    return csr_array(
        (np.array(times), np.array(columns, dtype=np.int32), np.array(ends, dtype=np.int32)),
        shape=(len(texts), len(terms)),
    )


@dataclass(frozen=True)
class FeatureColumns:
    """The columns that a model reads, in the order of the table.

    Encoded they are one column for each category of a text, then the numbers. A value that is
    no category, or no text, is unknown and is in none of its columns.
    """

    names: tuple[str, ...] | None  # nothing for a table of numbers alone, known by its width
    categories: tuple[tuple[str, ...] | None, ...]  # nothing for a number

    def __post_init__(self) -> None:
        if not self.categories:
            raise SealError("a model reads at least one column")
        if self.names is None and any(known is not None for known in self.categories):
            raise SealError("texts are read from columns with names, and there are none")
        if self.names is not None and len(self.names) != len(self.categories):
            raise SealError("there is not one list of categories for each feature")

    @classmethod
    def numeric(cls, width: int) -> FeatureColumns:
        """Return the columns of an array of numbers."""
        return cls(None, (None,) * width)

    @cached_property
    def texts(self) -> tuple[int, ...]:
        """Where in the table the texts stand."""
        return tuple(k for k, known in enumerate(self.categories) if known is not None)

    @cached_property
    def numbers(self) -> tuple[int, ...]:
        """Where in the table the numbers stand."""
        return tuple(k for k, known in enumerate(self.categories) if known is None)

    @cached_property
    def n_codes(self) -> int:
        """The number of categories of all texts together."""
        return sum(len(known) for known in self.categories if known is not None)

    def check(self, features: Features) -> None:
        """Refuse a table of other columns."""
        if self.names != features.names:
            raise ValueError(
                f"the feature names are {features.names}, and the model was fitted on {self.names}"
            )
        if features.array is not None and features.array.shape[1:] != (len(self.categories),):
            raise ValueError(
                f"the table has shape {features.array.shape}, and the model reads "
                f"{len(self.categories)} features"
            )

    def coded(self, features: Features, position: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Return the category of each different text of a column, and each record's text.

        A text that is no category, and what is no text, has the category -1.
        """
        known = {text: number for number, text in enumerate(self.categories[position] or ())}
        texts, codes = features.codes(position)
        numbers = [-1 if text is None else known.get(text, -1) for text in texts]
        return np.array(numbers, dtype=np.intp), codes

    def filled(self, features: Features, fill: Array) -> Array:
        """Return the numbers, with the ones to fill in where they are missing.

        The array is shared by all models where nothing is missing: do not write to it.
        """
        array, finite = features.numbers(self.numbers)
        if finite:
            return array
        array = np.where(np.isnan(array), fill, array)  # NaN in `fill` leaves a gap a gap
        if not np.isfinite(array).all():
            raise ValueError(
                "the table contains NaN or infinity where the model was given no number to fill in"
            )
        return array

    def to_words(self) -> dict[str, Plain]:
        """Return plain values for the file of a model."""
        return {"features": self.names, "categories": self.categories}

    @classmethod
    def of(cls, content: Content) -> FeatureColumns:
        """Return the columns that a file names; refuse texts twice and categories out of order."""
        features, categories = content.word("features"), content.word("categories")
        if not isinstance(categories, list):
            raise SealError("there is not one list of categories for each feature")
        known = tuple(
            None if texts is None else checked_texts(texts, "categories") for texts in categories
        )
        if any(list(texts) != sorted(texts) for texts in known if texts is not None):
            raise SealError("the categories of a feature are not in order")
        return cls(None if features is None else checked_texts(features, "features"), known)
