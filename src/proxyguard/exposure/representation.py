"""The one space in which all attacks measure: rows of mixed columns as points.

Everything is learned from reference rows alone: what stands for a missing value, the scale of a
number, which categories there are, the directions of a principal component analysis. A row of the
target changes nothing here, so a point is a function of its row.

It is that function to the last bit, alone or among others, in any order: rows are encoded by
operations on single elements and sums in a fixed order. A matrix product would not do, since BLAS
adds up otherwise for one row than for many, and a score at a threshold would then depend on which
other rows were scored with it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, TypeVar

import numpy as np
from numpy.typing import NDArray

from proxyguard.errors import TableError, UnsupportedDesign
from proxyguard.exact.rounding import Array
from proxyguard.tables.columns import Series, as_texts, coded, is_number

if TYPE_CHECKING:
    import pandas as pd


Kept = TypeVar("Kept")

# Scales that a number may lie from its mean: beyond, squares of distances would overflow.
FARTHEST = 1e6
# Categories of a column that are told apart, the most frequent ones; others are unknown.
MOST_CATEGORIES = 50
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}(?:[ T]\d{2}:\d{2}(?::\d{2}(?:\.\d+)?)?)?Z?", re.ASCII)


@dataclass(frozen=True, slots=True, eq=False)
class NumberColumn:
    """A number, or a date as days: missing ones filled in, then shifted and scaled."""

    name: str
    fill: float  # the median
    center: float
    scale: float
    width: float  # from the smallest to the largest reference value; 1 where there is one value
    dated: bool = False

    @classmethod
    def fit(cls, name: str, numbers: Array, *, dated: bool = False) -> NumberColumn:
        """Return what reference values say; a column of one value keeps its unit."""
        known = numbers[np.isfinite(numbers)]
        if known.size == 0:
            return cls(name, 0.0, 0.0, 1.0, 1.0, dated)
        fill = float(np.median(known))
        filled = np.where(np.isnan(numbers), fill, np.clip(numbers, known.min(), known.max()))
        # By a power of two, which is exact: the squares of the largest doubles would overflow.
        unit = math.ldexp(0.5, math.frexp(float(np.abs(known).max()))[1])
        shares = filled / unit
        center, scale = float(shares.mean()), float(shares.std())
        width = float(known.max() / unit - known.min() / unit)
        # A column of one value has a deviation of rounding errors.
        if width == 0.0 or scale <= 1e-14 * abs(center):
            return cls(name, fill, float(known[0]), 1.0, 1.0, dated)
        return cls(
            name, fill, center * unit, _positive(scale * unit), _positive(width * unit), dated
        )

    def read(self, frame: pd.DataFrame) -> Array:
        """Return the numbers of these rows; missing ones are NaN.

        Raises
        ------
        TableError
            The column is missing, or holds text that is no number.
        """
        column = _column(frame, self.name)
        if self.dated:
            return _days(as_texts(column))
        if is_number(column):
            return np.asarray(column, dtype=np.float64)
        if column.isna().all():
            return np.full(len(column), np.nan)
        numbers = _as_numbers(column)
        if numbers is None:
            raise TableError(
                f"column {self.name!r} holds numbers in the reference rows, and here text; read "
                "all tables of an audit by the kinds of its development part"
            )
        return numbers

    def encoded(self, frame: pd.DataFrame) -> Array:
        """Return the numbers in scales from their mean, nothing missing and nothing infinite."""
        return self.in_units(frame, self.scale)

    def in_units(self, frame: pd.DataFrame, unit: float) -> Array:
        """Return the numbers in these units from their mean, missing ones filled in."""
        numbers = self.read(frame)
        filled = np.where(np.isnan(numbers), self.fill, numbers)
        with np.errstate(over="ignore"):
            return np.clip((filled - self.center) / unit, -FARTHEST, FARTHEST)


@dataclass(frozen=True, slots=True, eq=False)
class TextColumn:
    """A category: a missing one is the most frequent, one that the reference lacks is none."""

    name: str
    fill: str
    categories: tuple[str, ...]

    @classmethod
    def fit(cls, name: str, texts: Series) -> TextColumn:
        """Return the categories of reference values, the most frequent ones first."""
        counts = texts[texts != ""].value_counts()
        # By text where counts are equal: value_counts orders those as they came.
        known = sorted(counts.items(), key=lambda item: (-item[1], str(item[0])))
        categories = tuple(str(text) for text, _ in known[:MOST_CATEGORIES])
        return cls(name, categories[0] if categories else "", categories)

    def read(self, frame: pd.DataFrame) -> NDArray[np.object_]:
        """Return the texts of these rows; a missing one is empty.

        Raises
        ------
        TableError
            The column is missing, or holds what no column may hold.
        """
        return as_texts(_column(frame, self.name)).to_numpy(dtype=object)

    def filled(self, frame: pd.DataFrame) -> NDArray[np.object_]:
        """Return the texts of these rows, a missing one filled in."""
        texts = self.read(frame)
        return np.where(texts == "", self.fill, texts)

    def codes(self, frame: pd.DataFrame) -> NDArray[np.intp]:
        """Return the number of each row's category, -1 for an unknown one."""
        return self.numbered(frame, {text: k for k, text in enumerate(self.categories)})

    def numbered(self, frame: pd.DataFrame, numbers: Mapping[str, int]) -> NDArray[np.intp]:
        """Return the number of each row's text, filled in; -1 where it has none."""
        return coded(self.filled(frame), lambda text: numbers.get(str(text), -1))


def fit_column(reference: pd.DataFrame, name: str) -> NumberColumn | TextColumn:
    """Return what reference rows say of one column.

    Raises
    ------
    TableError
        The column is missing, or holds what no column may hold.
    """
    column = _column(reference, name)
    if is_number(column):
        return NumberColumn.fit(name, np.asarray(column, dtype=np.float64))
    numbers, texts = _as_numbers(column), as_texts(column)
    if numbers is not None:
        return NumberColumn.fit(name, numbers)
    if _is_dated(texts):
        return NumberColumn.fit(name, _days(texts), dated=True)
    return TextColumn.fit(name, texts)


@dataclass(frozen=True, slots=True, eq=False)
class Representation:
    """How rows become points: scaled numbers and one coordinate a category, or their components.

    Attributes
    ----------
    numbers, texts
        The columns that are read.
    mean, axes
        ``(width,)`` and ``(width, components)`` of the principal components; nothing where points
        are the encoded columns themselves.
    """

    numbers: tuple[NumberColumn, ...]
    texts: tuple[TextColumn, ...]
    mean: Array | None = None
    axes: Array | None = None

    @classmethod
    def fit(
        cls,
        reference: pd.DataFrame,
        columns: Sequence[str] | None = None,
        components: int | None = None,
    ) -> Representation:
        """Return the representation that reference rows give.

        Parameters
        ----------
        reference
            Rows that no release was made from, at least 2.
        columns
            Which columns are read; all of them by default. A column of text that holds nothing but
            dates, such as 2024-05-31 or 2024-05-31 12:00, is a number of days.
        components
            How many principal components to keep, by a full singular value decomposition; never
            more than there are coordinates, or one less than reference rows. By default points are
            not projected.

        Raises
        ------
        TableError
            A column is missing, or holds what no column may hold.
        UnsupportedDesign
            There are fewer than 2 reference rows, or no column has a known value.
        """
        if len(reference) < 2:
            raise UnsupportedDesign(
                f"{len(reference)} reference rows were given, and a representation is learned from "
                "at least 2; give reference a larger share"
            )
        numbers: list[NumberColumn] = []
        texts: list[TextColumn] = []
        for name in map(str, reference.columns) if columns is None else columns:
            column = fit_column(reference, name)
            if isinstance(column, NumberColumn):
                numbers.append(column)
            else:
                texts.append(column)
        plain = cls(tuple(numbers), tuple(texts))
        if plain.width == 0:
            raise UnsupportedDesign(
                "no column of the reference rows has a known value, so that there is nothing in "
                "which rows could be near each other; name other columns"
            )
        return plain if components is None else plain._projected(reference, components)

    @property
    def names(self) -> tuple[str, ...]:
        """The columns that are read."""
        return (*(column.name for column in self.numbers), *(text.name for text in self.texts))

    @property
    def width(self) -> int:
        """The number of coordinates before any projection."""
        return len(self.numbers) + sum(len(column.categories) for column in self.texts)

    @property
    def dimension(self) -> int:
        """The number of coordinates of a point."""
        return self.width if self.axes is None else self.axes.shape[1]

    def _projected(self, reference: pd.DataFrame, components: int) -> Representation:
        points = self.points(reference)
        mean = points.mean(axis=0)
        count = min(components, self.width, len(reference) - 1)
        # The full decomposition: a randomised one would give other axes where singular values are
        # near each other, and attacks that are isotropic see which ones.
        _, _, axes = np.linalg.svd(points - mean, full_matrices=False)
        axes = axes[:count]
        largest = np.argmax(np.abs(axes), axis=1)
        axes = axes * np.sign(axes[np.arange(count), largest])[:, None]
        return Representation(self.numbers, self.texts, mean, np.ascontiguousarray(axes.T))

    def points(self, frame: pd.DataFrame) -> Array:
        """Return the point of each row, ``(n, dimension)``.

        Raises
        ------
        TableError
            A column is missing, or a number is none.
        """
        if self.axes is None or self.mean is None:
            points = np.zeros((len(frame), self.width))
            for k, column in enumerate(self.numbers):
                points[:, k] = column.encoded(frame)
            start = len(self.numbers)
            for text in self.texts:
                codes = text.codes(frame)
                known = np.flatnonzero(codes >= 0)
                points[known, start + codes[known]] = 1.0
                start += len(text.categories)
            return points
        # Column by column, so that every point is the same sum in the same order; a category adds
        # the axes' row of its coordinate.
        points = np.zeros((len(frame), self.dimension))
        for k, column in enumerate(self.numbers):
            points += (column.encoded(frame) - self.mean[k])[:, None] * self.axes[k]
        start = len(self.numbers)
        for text in self.texts:
            end = start + len(text.categories)
            shift = np.zeros(self.dimension)
            for k in range(start, end):
                shift -= self.mean[k] * self.axes[k]
            # The last one is that of a category that is unknown.
            weights = np.vstack([self.axes[start:end] + shift, shift])
            points += weights[text.codes(frame)]
            start = end
        return points


class Rows:
    """Rows of a table as points, encoded once for all releases and attacks.

    Parameters
    ----------
    frame
        The rows; not copied, and not to be changed.
    representation
        How they become points.
    """

    def __init__(self, frame: pd.DataFrame, representation: Representation) -> None:
        self.frame, self.representation = frame, representation
        self._array: Array | None = None
        self._kept: dict[Hashable, object] = {}

    def __len__(self) -> int:
        return len(self.frame)

    @property
    def array(self) -> Array:
        """The points, ``(n, dimension)``."""
        if self._array is None:
            self._array = self.representation.points(self.frame)
        return self._array

    def keep(self, key: Hashable, make: Callable[[], Kept], kind: type[Kept]) -> Kept:
        """Return what was made under this key before, or make it: the same for every release."""
        kept = self._kept.get(key)
        if not isinstance(kept, kind):
            kept = make()
            self._kept[key] = kept
        return kept


def _positive(number: float) -> float:
    """Return the nearest number that can be divided by, also where a product left the doubles."""
    info = np.finfo(np.float64)
    return min(max(number, float(info.tiny)), float(info.max))


def _column(frame: pd.DataFrame, name: str) -> Series:
    if name not in frame.columns:
        raise TableError(
            f"column {name!r} is missing, which the attacks read; the rows have "
            f"{list(frame.columns)}"
        )
    return frame[name]


def _as_numbers(column: Series) -> Array | None:
    """Return a column of objects as numbers; nothing where one of them is text that is none."""
    import pandas as pd

    known = column.notna().to_numpy()
    if not known.any() or any(isinstance(item, str) for item in column[known]):
        return None
    return pd.to_numeric(column, errors="coerce").to_numpy(dtype=np.float64, na_value=np.nan)


def _is_dated(texts: Series) -> bool:
    known = texts[texts != ""].drop_duplicates()
    return (
        len(known) > 0
        and all(_DATE.fullmatch(str(text)) for text in known)
        and bool(np.isfinite(_days(known)).all())
    )


def _days(texts: Series) -> Array:
    """Return dates as days since 1970; NaN for what is none.

    Each text by itself. A parser of whole columns chooses a unit for all of them, in which one
    date with nanoseconds loses every date of another century; and it reads "now" by the clock.
    """
    import pandas as pd

    places, distinct = pd.factorize(texts.to_numpy(dtype=object), use_na_sentinel=False)
    return np.array([_day(str(text)) for text in distinct])[places] if len(texts) else np.empty(0)


def _day(text: str) -> float:
    if _DATE.fullmatch(text) is None:
        return math.nan
    # Digits beyond microseconds are dropped; a fraction may have any number of them.
    whole, _, fraction = text.removesuffix("Z").partition(".")
    try:
        since = datetime.fromisoformat(whole) - datetime(1970, 1, 1)
    except ValueError:  # the 30th of February
        return math.nan
    microseconds = since // timedelta(microseconds=1) + int(f"{fraction:0<6.6}")
    return microseconds / 86_400e6
