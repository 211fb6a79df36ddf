"""Releases made of the source's own rows: resampled, changed row by row, or by a user's function.

Rows drawn with replacement are the simplest stand-in, and a positive control. Noise, coarsening
and masking keep the rows of the source in their order, with some values changed: no private
release, for whoever knows a row finds it again. The paper names a screen of 10 % noise, quartile
coarsening and 20 % masking, and no further details; what is chosen here beyond that stands in each
``describe()``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, cast

import numpy as np
from numpy.typing import NDArray

from proxyguard.adapters.settings import exact, truth, whole
from proxyguard.draw.catalog import imports_of_text, load_callable, load_text
from proxyguard.draw.protocol import Called, Generator, Seed
from proxyguard.errors import RegistryError, TableError
from proxyguard.exact.rounding import Array

if TYPE_CHECKING:
    import pandas as pd

    from proxyguard.tables.columns import Series


class RowBootstrap:
    """As many rows as the source has, or ``rows`` of them, drawn with replacement."""

    def __init__(self, rows: int | None = None) -> None:
        self._rows = None if rows is None else whole(rows, "bootstrap: rows")
        self._source: pd.DataFrame | None = None

    def describe(self) -> Mapping[str, object]:
        """Return the settings."""
        return {"mechanism": "rows of the source with replacement", "rows": self._rows}

    def prepare(self, source: pd.DataFrame, rng: np.random.Generator) -> None:
        """Keep the source."""
        self._source = source

    def draw(self, seed: Seed) -> pd.DataFrame:
        """Return one bootstrap table."""
        assert self._source is not None  # prepare comes first
        n = len(self._source)
        chosen = seed.rng("rows of the release").integers(0, n, size=self._rows or n)
        return self._source.iloc[chosen].reset_index(drop=True)


class _Function:
    """``function(source, rng, **options)`` returns one release."""

    code: tuple[str, ...] = ()

    def __init__(self, path: str, function: Called, options: Mapping[str, object]) -> None:
        self._path, self._function, self._options = path, function, dict(options)
        self._source: pd.DataFrame | None = None

    def describe(self) -> Mapping[str, object]:
        """Return the function's path and options."""
        return {"function": self._path, "options": self._options}

    def prepare(self, source: pd.DataFrame, rng: np.random.Generator) -> None:
        """Keep the source."""
        self._source = source

    def draw(self, seed: Seed) -> pd.DataFrame:
        """Call the function with a fresh random stream."""
        import pandas as pd

        assert self._source is not None  # prepare comes first
        rng = seed.rng(f"everything that {self._path} draws")
        # A copy: a function may change the table that it gets, and whoever draws twice in one
        # process starts from the same source.
        table = self._function(self._source.copy(), rng, **self._options)
        if not isinstance(table, pd.DataFrame):
            raise TypeError(f"{self._path} returned a {type(table).__name__}, expected a DataFrame")
        return table


class Callable(_Function):
    """A function that an import path names: ``function(source, rng, **options)``."""

    def __init__(self, function: str, **options: object) -> None:
        super().__init__(function, load_callable(function), options)
        # Registered beside this class: releases change with the text of the function.
        self.code = (function,)


def code(text: str, name: str, settings: Mapping[str, object] | None = None) -> Generator:
    """Return the generator that a text defines, as `proxyguard.code_of` writes it.

    Parameters
    ----------
    text
        A module that defines it: sealed with the declaration, and all that draws are made from.
    name
        Its class, or the function that is called for each release.
    settings
        What the class is made with, or the function called.
    """
    if not isinstance(text, str) or not isinstance(name, str):
        raise RegistryError("code takes the text of a module, and the name that it defines")
    given = dict(settings or {})
    defined = load_text(text, name)
    if not isinstance(defined, type):
        made: Generator = _Function(name, defined, given)
    else:
        try:
            made = cast("Generator", defined(**given))
        except TypeError as error:
            raise RegistryError(f"{name} does not take the settings {given}: {error}") from None
    try:
        # Registered beside the text: releases change with what it imports as well.
        also = (*getattr(made, "code", ()), *imports_of_text(text))
        setattr(made, "code", also)  # noqa: B010 - a generator may have it, and need not
    except AttributeError:
        raise RegistryError(
            f"{name} takes no attribute code, by which what it imports is registered; leave "
            "__slots__ out"
        ) from None
    return made


def _names(names: object, option: str, where: str) -> tuple[str, ...]:
    """Return a list of column names as a tuple, or say that it is none."""
    if isinstance(names, str) or not isinstance(names, Sequence):
        raise RegistryError(f"{where}: {option} is a list of column names, got {names!r}")
    if not all(isinstance(name, str) for name in names) or len(set(names)) < len(names):
        raise RegistryError(f"{where}: {option} lists each column name once, got {list(names)}")
    return tuple(names)


class _Transform:
    """What the transformations share: the source, and which of its columns they change."""

    where = "transformation"
    numbers_only = True

    def __init__(self, keep: Sequence[str], columns: Sequence[str] | None) -> None:
        self._keep = _names(keep, "keep", self.where)
        self._columns = None if columns is None else _names(columns, "columns", self.where)
        both = sorted(set(self._keep) & set(self._columns or ()))
        if both:
            raise RegistryError(f"{self.where}: {both} are both to be kept and to be changed")
        self._source: pd.DataFrame | None = None
        self._changed: tuple[str, ...] = ()

    def _settings(self, mechanism: str, details: str, **settings: object) -> dict[str, object]:
        """Return what ``describe`` gives: the options, and the details that we chose."""
        return {
            "mechanism": mechanism,
            **settings,
            "keep": list(self._keep),
            "columns": None if self._columns is None else list(self._columns),
            "rows": "those of the source, in its order",
            "chosen here": details,
        }

    def _take(self, source: pd.DataFrame) -> None:
        """Keep the source, and find the columns to change."""
        named = [*self._keep, *(self._columns or ())]
        absent = [name for name in named if name not in source.columns]
        if absent:
            raise RegistryError(
                f"{self.where}: the source has no columns {absent}; it has {list(source.columns)}"
            )
        free = [str(name) for name in source.columns if name not in self._keep]
        # Tables are read with every number as a float; a column of another kind holds text.
        numbers = [name for name in free if source[name].dtype.kind == "f"]
        wrong = sorted(set(self._columns or ()) - set(numbers))
        if self.numbers_only and wrong:
            raise RegistryError(f"{self.where}: {wrong} hold text, and only numbers can be changed")
        possible = numbers if self.numbers_only else free
        wanted = possible if self._columns is None else self._columns
        self._changed = tuple(name for name in possible if name in wanted)
        if not self._changed or not len(source):
            what = "numbers" if self.numbers_only else "columns"
            raise TableError(
                f"{self.where}: there are no {what} to change in {len(source)} rows of "
                f"{list(source.columns)}, of which {list(self._keep)} are kept"
            )
        self._source = source

    def _copy(self) -> pd.DataFrame:
        """Return a copy of the source whose rows count from 0."""
        assert self._source is not None  # prepare comes first
        return self._source.reset_index(drop=True)


class Noise(_Transform):
    """Normal noise on numbers: ``share`` times the standard deviation in the source.

    ``keep`` lists the columns to leave alone, the outcome first of all; ``columns`` those to
    change, if not all others that hold numbers. With ``whole`` a column that holds whole
    numbers only in the source does so in the release.
    """

    where = "noise"

    def __init__(
        self,
        *,
        keep: Sequence[str],
        share: str | float = "0.1",
        columns: Sequence[str] | None = None,
        whole: bool = False,
    ) -> None:
        super().__init__(keep, columns)
        self._whole = truth(whole, "noise: whole")
        self._share = exact(share, f"{self.where}: share", above=0)
        self._scales: Array = np.empty(0)
        self._rounded: NDArray[np.bool_] = np.empty(0, dtype=bool)
        self._values: Array = np.empty((0, 0))

    def describe(self) -> Mapping[str, object]:
        """Return the settings."""
        return self._settings(
            "normal noise on numbers",
            "independent noise in every cell; its standard deviation is the share times that of "
            "the column (divisor n, missing values left out); nothing is clipped to the range of "
            "the source, missing values stay missing, text is left alone",
            share=str(self._share),
            whole=self._whole,
        )

    def prepare(self, source: pd.DataFrame, rng: np.random.Generator) -> None:
        """Take the source and the standard deviations of its columns."""
        self._take(source)
        self._values = source[list(self._changed)].to_numpy(dtype=np.float64)
        names = [name for name in self._changed if not source[name].count()]
        if names:
            raise TableError(f"noise: {names} have no values; list them in keep")
        self._scales = float(self._share) * np.nanstd(self._values, axis=0)
        whole = np.isnan(self._values) | (self._values == np.rint(self._values))
        self._rounded = whole.all(axis=0) & self._whole

    def draw(self, seed: Seed) -> pd.DataFrame:
        """Return the source with fresh noise."""
        release = self._copy()
        # Missing cells take a number too: the noise of a cell does not depend on which others are
        # missing.
        values = seed.rng("noise in the numbers").standard_normal(self._values.shape)
        values *= self._scales
        values += self._values
        values[:, self._rounded] = np.rint(values[:, self._rounded])
        for name, column in zip(self._changed, values.T, strict=True):
            release[name] = column
        return release


class Coarsen(_Transform):
    """Each number replaced by the median of its quantile bin, quartiles unless said otherwise.

    Bins and medians are learned from the source alone. Nothing is random: declare
    ``deterministic = true``, for all draws are the same release.
    """

    where = "coarsen"

    def __init__(
        self, *, keep: Sequence[str], bins: int = 4, columns: Sequence[str] | None = None
    ) -> None:
        super().__init__(keep, columns)
        self._bins = whole(bins, "coarsen: bins")

    def describe(self) -> Mapping[str, object]:
        """Return the settings."""
        return self._settings(
            "numbers replaced by the median of their quantile bin",
            "bins end at equispaced quantiles of the source (interpolated linearly, missing values "
            "left out), and a value at an end belongs to the bin below it; a bin's median is that "
            "of its values in the source; missing values stay missing, text is left alone",
            bins=self._bins,
        )

    def prepare(self, source: pd.DataFrame, rng: np.random.Generator) -> None:
        """Coarsen the source, once for all draws."""
        self._take(source)
        coarse = self._copy()
        for name in self._changed:
            coarse[name] = coarsened(coarse[name].to_numpy(dtype=np.float64), self._bins)
        self._source = coarse

    def draw(self, seed: Seed) -> pd.DataFrame:
        """Return the coarsened source."""
        # The record of a draw says what took the seed: of this one, that nothing is redrawn.
        seed.take("nothing: coarsening has no randomness")
        return self._copy()


def coarsened(values: Array, bins: int) -> Array:
    """Return each value's bin median; NaN stays NaN.

    >>> coarsened(np.array([1.0, 2.0, 3.0, 10.0, np.nan]), 2).tolist()
    [1.5, 1.5, 6.5, 6.5, nan]
    """
    known = values[~np.isnan(values)]
    result = values.copy()
    if not known.size:
        return result
    ends = np.quantile(known, np.arange(1, bins) / bins)
    place = np.searchsorted(ends, known, side="left")
    medians = [np.median(known[place == k]) if (place == k).any() else np.nan for k in range(bins)]
    result[~np.isnan(values)] = np.array(medians)[place]
    return result


class Mask(_Transform):
    """A share of the cells of each feature replaced by its median or most frequent value."""

    where = "mask"
    numbers_only = False

    def __init__(
        self,
        *,
        keep: Sequence[str],
        share: str | float = "0.2",
        columns: Sequence[str] | None = None,
    ) -> None:
        super().__init__(keep, columns)
        self._share = exact(share, f"{self.where}: share", above=0, most=1)
        self._cells = 0
        self._usual: dict[str, float | str] = {}

    def describe(self) -> Mapping[str, object]:
        """Return the settings."""
        return self._settings(
            "cells replaced by the usual value of their column",
            "the share of the rows, rounded to a whole number, drawn without replacement for each "
            "column by itself; a number is replaced by the median of the source (missing values "
            "left out), text by its most frequent value, the first in sorted order among equals",
            share=str(self._share),
        )

    def prepare(self, source: pd.DataFrame, rng: np.random.Generator) -> None:
        """Take the source and the usual value of each column."""
        self._take(source)
        self._cells = round(self._share * len(source))
        if not self._cells:
            raise RegistryError(
                f"mask: a share of {self._share} of {len(source)} rows is no cell; raise the share"
            )
        self._usual = {name: _usual(source[name]) for name in self._changed}

    def draw(self, seed: Seed) -> pd.DataFrame:
        """Return the source with fresh cells masked."""
        release, rng = self._copy(), seed.rng("masked cells")
        for name in self._changed:
            values = release[name].to_numpy(copy=True)
            values[rng.choice(len(values), size=self._cells, replace=False)] = self._usual[name]
            release[name] = _like(release[name], values)
        return release


def _like(column: Series, values: NDArray[np.object_]) -> Series:
    """Return values as a column of the same kind; text does not become another type of text."""
    import pandas as pd

    return pd.Series(values, dtype=column.dtype)


def _usual(column: Series) -> float | str:
    """Return the median of numbers, or the most frequent text."""
    if column.dtype.kind == "f":
        return float(column.astype(np.float64).median())
    counts = column.map(str).value_counts()
    # Not the first of the counts: among equals that is a matter of the order of the rows.
    return str(min(counts.index[counts == counts.max()]))
