"""A mixed table as numbers and codes, and what our generators that learn one have in common.

`read_tabular` turns the source into complete columns of numbers and columns of codes, which is
what a model is fitted to, and `Tabular.table` turns what a model gives back into a release.
`SharedOptions` are the options that every generator here takes: how many rows, which rows of the
source train a draw, labels that are corrupted on purpose, a condition on the release.

What is taken from the whole source, also where a draw is trained on some of its rows: which
categories there are, the range that numbers are kept in, which columns hold whole numbers, and the
number that stands where one is missing. A draw is conditional on these.

A generator without a neural network (`FittedGenerator`) is fitted anew where a draw has training
rows or labels of its own. Otherwise the one fit to the source is made when the generator is
prepared, and a draw is a sample of it: the certificate is then about releases of this fit, and says
nothing about another source or another fit.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Generic, Literal, TypeAlias, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from proxyguard.adapters.settings import (
    Mechanism,
    Options,
    exact,
    one_of,
    option,
    optional,
    truth,
    whole,
)
from proxyguard.draw.protocol import Seed
from proxyguard.errors import DrawError, RegistryError
from proxyguard.exact.rounding import Array
from proxyguard.printable import did_you_mean, some
from proxyguard.registry.numbers import canonical_value
from proxyguard.tables.columns import Series, as_text, as_texts, is_number

if TYPE_CHECKING:
    import pandas as pd


CategoryCodes: TypeAlias = NDArray[np.int64]
# The categories of a column: texts, truth values or numbers.
Categories: TypeAlias = NDArray[np.object_] | NDArray[np.bool_] | Array
Clip = Literal["source", "none"]

_CLIP: Callable[[object, str], Clip] = one_of("source", "none")
# A column of categories has at most so many; one with more is an identifier or free text.
CATEGORIES = 1_000
# Categories that an error names.
SHOWN = 20
TRAINING_ROWS = "which rows of the source are trained on"
CORRUPTION = "which training labels are corrupted"


@dataclass(frozen=True, slots=True)
class Slot:
    """Where a model finds a column: a column of `Tabular.numbers`, or of `Tabular.codes`."""

    kind: Literal["number", "code"]
    index: int


@dataclass(frozen=True, slots=True)
class CodedColumn:
    """How one column of the source is coded; ``None`` for what it has not.

    A column of numbers has ``number``, and with gaps also ``code``, 1 where a number is missing.
    A column of categories has ``code`` and ``labels``. One without any number has none of them.
    """

    name: str
    number: int | None = None
    code: int | None = None
    labels: Categories | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Tabular:
    """A mixed table as complete numbers and category codes, and the way back.

    Attributes
    ----------
    numbers
        ``(n, p)``: columns of numbers. Where one is missing stands the column's median, the lower
        of the two middle ones, so that it is a number that occurs.
    codes
        ``(n, q)``: columns of text and columns declared discrete, in table order, then for each
        column of numbers with gaps one that is 1 where the number is missing. Missing text, and a
        missing number of a discrete column, is a category of its own.
    number_names, code_names
        The columns' names; a column of gaps is named after its numbers.
    sizes
        Categories of each column of codes; 2 for gaps.
    order
        The columns of numbers and codes in table order, gaps directly after their numbers.
    low, high
        ``(p,)``: the source's range of each column of numbers.
    integral
        ``(p,)``: whether the source has whole numbers alone there.
    """

    numbers: Array
    codes: CategoryCodes
    number_names: tuple[str, ...]
    code_names: tuple[str, ...]
    sizes: tuple[int, ...]
    order: tuple[Slot, ...]
    low: Array
    high: Array
    integral: NDArray[np.bool_]
    clip: Clip
    columns: tuple[CodedColumn, ...]
    header: pd.Index[str]
    where: str

    def __len__(self) -> int:
        return len(self.codes)

    def rows(self, positions: CategoryCodes) -> Tabular:
        """Return the table of some rows; categories and ranges stay those of the source."""
        return replace(self, numbers=self.numbers[positions], codes=self.codes[positions])

    def table(self, numbers: ArrayLike, codes: ArrayLike) -> pd.DataFrame:
        """Return a release: the source's columns in their order, gaps where the codes say so.

        Parameters
        ----------
        numbers
            ``(rows, p)``, of any precision. Columns that hold whole numbers in the source are
            rounded, and with ``clip = "source"`` all are kept within the source's range.
        codes
            ``(rows, q)``, whole numbers of any type.

        Raises
        ------
        DrawError
            If a number is not finite, or a code stands for no category: the model failed.
        """
        import pandas as pd

        values = np.array(numbers, dtype=np.float64)  # a copy, which is changed below
        codes = np.asarray(codes, dtype=np.int64)
        self._check(values, codes)
        values[:, self.integral] = np.rint(values[:, self.integral])
        if self.clip == "source":
            np.clip(values, self.low, self.high, out=values)
        release: dict[int, object] = {}
        for k, column in enumerate(self.columns):
            if column.labels is not None:
                decoded = column.labels[codes[:, column.code]]
                release[k] = pd.Series(decoded, dtype=column.labels.dtype)
                continue
            known = np.full(len(codes), np.nan)
            if column.number is not None:
                known = values[:, column.number]
            if column.code is not None:
                known[codes[:, column.code] == 1] = np.nan
            release[k] = known
        table = pd.DataFrame(release)
        table.columns = self.header
        return table

    def _check(self, numbers: Array, codes: CategoryCodes) -> None:
        expected = (len(codes), len(self.number_names)), (len(codes), len(self.code_names))
        if (numbers.shape, codes.shape) != expected or not len(codes):
            raise DrawError(
                f"{self.where}: a release is made of numbers and codes of the shapes {expected}, "
                f"with at least one row, and got {numbers.shape} and {codes.shape}"
            )
        wrong = ~np.isfinite(numbers)
        if wrong.any():
            row, k = (int(i) for i in np.argwhere(wrong)[0])
            raise DrawError(
                f"{self.where}: the model gave {numbers[row, k]} for {self.number_names[k]!r}, "
                f"row {row}; it did not train to finite numbers"
            )
        outside = (codes < 0) | (codes >= np.array(self.sizes, dtype=np.int64))
        if outside.any():
            row, k = (int(i) for i in np.argwhere(outside)[0])
            raise DrawError(
                f"{self.where}: the model gave code {codes[row, k]} for {self.code_names[k]!r}, "
                f"row {row}, which has {self.sizes[k]} categories"
            )

    def code_column(self, name: str, option: str = "condition") -> int:
        """Return which column of codes has the categories of a column of the source.

        Parameters
        ----------
        name
            A column of the source that holds categories.
        option
            The option that names it, for the error.

        Raises
        ------
        RegistryError
            If the source has no such column, or numbers there.
        """
        for column in self.columns:
            if column.name == name and column.labels is not None and column.code is not None:
                return column.code
        if name in (column.name for column in self.columns):
            raise RegistryError(
                f"{self.where}: {option} names {name!r}, which holds numbers; list it in discrete "
                "if they are categories"
            )
        raise RegistryError(
            f"{self.where}: {option} names {name!r}, which the source has not; it has "
            f"{[column.name for column in self.columns]}"
        )

    def code_of(self, name: str, label: object, option: str = "condition") -> int:
        """Return the code of a category, given as a declaration writes it.

        Parameters
        ----------
        name
            A column of the source that holds categories.
        label
            The category: text, or a number or truth value; ``""`` is a missing one.
        option
            The option that names it, for the error.

        Raises
        ------
        RegistryError
            If there is no such column or category; the error names what there is.
        """
        self.code_column(name, option)
        labels = next(column.labels for column in self.columns if column.name == name)
        assert labels is not None  # of a column of categories
        texts = [as_text(known) for known in labels]
        wanted = as_text(label)
        # The spelling first: of the texts "1" and "1.0" both may be there. Then by the number.
        if wanted in texts:
            return texts.index(wanted)
        numbers = [canonical_value(text) for text in texts]
        if canonical_value(wanted) in numbers:
            return numbers.index(canonical_value(wanted))
        raise RegistryError(
            f"{self.where}: {option} names {label!r} of {name!r}, which the source has not; it has "
            f"{some([*map(repr, texts)], SHOWN)}"
        )


def read_tabular(
    source: pd.DataFrame,
    *,
    discrete: Sequence[str] = (),
    clip: Clip = "source",
    where: str = "tabular",
) -> Tabular:
    """Return a table as numbers and codes.

    Parameters
    ----------
    source
        Columns of numbers and text, as an audit reads them; truth values are categories.
    discrete
        Columns of numbers that are categories.
    clip
        Whether the numbers of a release are kept within the source's range.
    where
        The generator's name, as errors begin with it.

    Raises
    ------
    RegistryError
        If there is nothing to learn from, a number is infinite, a column that is declared discrete
        is not there, or one has more categories than `CATEGORIES`.

    Examples
    --------
    >>> import pandas as pd
    >>> source = pd.DataFrame({"age": [41.0, None, 23.0], "sex": ["f", "m", "f"]})
    >>> table = read_tabular(source)
    >>> table.numbers.ravel().tolist(), table.codes.tolist()
    ([41.0, 23.0, 23.0], [[0, 0], [1, 1], [0, 0]])
    >>> table.table(table.numbers, table.codes)
        age sex
    0  41.0   f
    1   NaN   m
    2  23.0   f
    """
    names = [str(name) for name in source.columns]
    absent = [name for name in discrete if name not in names]
    if absent:
        raise RegistryError(
            f"{where}: discrete names {absent}, which the source has not; it has {names}"
        )
    columns: list[CodedColumn] = []
    numbers: list[Array] = []
    codes: list[CategoryCodes] = []
    gaps: dict[int, CategoryCodes] = {}
    for k, name in enumerate(names):
        series = source.iloc[:, k]
        if not is_number(series) or series.dtype.kind == "b" or name in discrete:
            labels, coded = _categories(series, name, where)
            columns.append(CodedColumn(name, code=len(codes), labels=labels))
            codes.append(coded)
            continue
        values = _doubles(series, name, where)
        missing = np.isnan(values)
        # Of a column without any number there is nothing to model.
        columns.append(CodedColumn(name, number=None if missing.all() else len(numbers)))
        if missing.any() and not missing.all():
            gaps[k] = missing.astype(np.int64)
            known = values[~missing]
            values = np.where(missing, np.quantile(known, 0.5, method="lower"), values)
        if not missing.all():
            numbers.append(values)
    for k, flags in gaps.items():
        columns[k] = replace(columns[k], code=len(codes))
        codes.append(flags)
    if not len(source) or not (numbers or codes):
        raise RegistryError(
            f"{where}: there is nothing to learn from {len(source)} rows of the columns {names}; "
            "give a source with at least one row and one column that is not empty"
        )
    return _joined(source, columns, numbers, codes, clip, where)


def _joined(
    source: pd.DataFrame,
    columns: Sequence[CodedColumn],
    numbers: Sequence[Array],
    codes: Sequence[CategoryCodes],
    clip: Clip,
    where: str,
) -> Tabular:
    n = len(source)
    stacked = np.column_stack(numbers) if numbers else np.empty((n, 0))
    slots: list[Slot] = []
    for column in columns:
        if column.number is not None:
            slots.append(Slot("number", column.number))
        if column.code is not None:
            slots.append(Slot("code", column.code))
    coded = sorted((c for c in columns if c.code is not None), key=lambda c: c.code or 0)
    return Tabular(
        numbers=stacked,
        codes=np.column_stack(codes) if codes else np.empty((n, 0), dtype=np.int64),
        number_names=tuple(c.name for c in columns if c.number is not None),
        code_names=tuple(
            c.name if c.labels is not None else f"{c.name} (is missing)" for c in coded
        ),
        sizes=tuple(2 if c.labels is None else len(c.labels) for c in coded),
        order=tuple(slots),
        low=stacked.min(axis=0),
        high=stacked.max(axis=0),
        integral=np.all(stacked == np.rint(stacked), axis=0),
        clip=clip,
        columns=tuple(columns),
        header=source.columns,
        where=where,
    )


def _doubles(series: Series, name: str, where: str) -> Array:
    """Return a column of numbers, NaN where one is missing."""
    values = np.asarray(series.to_numpy(dtype=np.float64, na_value=np.nan), dtype=np.float64)
    infinite = np.flatnonzero(np.isinf(values))
    if infinite.size:
        raise RegistryError(
            f"{where}: {name!r} is {values[infinite[0]]} in row {infinite[0]} of the source; a "
            "model learns from finite numbers: put missing ones there, or a finite limit"
        )
    return values


def _categories(series: Series, name: str, where: str) -> tuple[Categories, CategoryCodes]:
    """Return the different categories in rising order, a missing number last, and their codes."""
    if series.dtype.kind == "b" and isinstance(series.dtype, np.dtype):
        values: Categories = series.to_numpy(dtype=np.bool_)
    elif is_number(series):
        values = _doubles(series, name, where)
    else:
        values = as_texts(series).to_numpy(dtype=object)
    _, first, codes = np.unique(values, return_index=True, return_inverse=True)
    labels = values[first]
    if len(labels) > CATEGORIES:
        raise RegistryError(
            f"{where}: {name!r} has {len(labels):,} categories, and at most {CATEGORIES:,} can be "
            "learned; an identifier or free text has no place in a model: exclude the column, or "
            "join its categories"
        )
    return labels, codes.astype(np.int64)


@dataclass(frozen=True, slots=True, kw_only=True)
class Corruption:
    """Categories of training rows that are made wrong on purpose, in every draw others.

    Attributes
    ----------
    column
        The column of categories.
    share
        The share of the training rows, whose number is rounded to a whole one.
    kind
        "flip": each gets another category of the source, any of them alike; "overwrite": each gets
        ``label``, which some had already.
    label
        The category that "overwrite" puts there.
    """

    column: str
    share: Fraction
    kind: Literal["flip", "overwrite"]
    label: str | int | float | bool | None = None

    def describe(self) -> dict[str, object]:
        """Return the settings."""
        label = {} if self.label is None else {"label": as_text(self.label)}
        return {"column": self.column, "share": str(self.share), "kind": self.kind, **label}


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """What all rows of a release have: one category, or as many rows of each.

    ``label`` is the category, and nothing where every category that the training rows have gets
    as many rows; of an uneven number of rows the first categories get one more.
    """

    column: str
    label: str | int | float | bool | None = None

    def describe(self) -> dict[str, object]:
        """Return the settings."""
        if self.label is None:
            return {"column": self.column, "equal": True}
        return {"column": self.column, "value": as_text(self.label)}


def _names(given: object, name: str) -> tuple[str, ...]:
    if isinstance(given, str) or not isinstance(given, Sequence):
        raise RegistryError(f"{name} is a list of column names, got {given!r}")
    if not all(isinstance(column, str) for column in given):
        raise RegistryError(f"{name} is a list of column names, got {list(given)}")
    return tuple(dict.fromkeys(given))


def _corruption(declared: object, name: str) -> Corruption:
    form = (
        f'{name} is {{column, share, kind = "flip"}}, or {{column, share, kind = "overwrite", '
        f"label}}, got {declared!r}"
    )
    if not isinstance(declared, Mapping):
        raise RegistryError(form)
    rest = dict(declared)
    column, share, kind = (rest.pop(key, None) for key in ("column", "share", "kind"))
    label = rest.pop("label", None)
    known = kind == "flip" and label is None, kind == "overwrite" and _is_label(label)
    if rest or not isinstance(column, str) or not any(known):
        raise RegistryError(form)
    return Corruption(
        column=column,
        share=exact(share, f"{name}.share", above=0, most=1),
        kind="flip" if kind == "flip" else "overwrite",
        label=label if isinstance(label, str | int | float) else None,
    )


def _condition(declared: object, name: str) -> Condition:
    form = f"{name} is {{column, value}} or {{column, equal = true}}, got {declared!r}"
    if not isinstance(declared, Mapping):
        raise RegistryError(form)
    rest = dict(declared)
    column, label, equal = (rest.pop(key, None) for key in ("column", "value", "equal"))
    known = _is_label(label) and equal is None, label is None and equal is True
    if rest or not isinstance(column, str) or not any(known):
        raise RegistryError(form)
    return Condition(column=column, label=label if isinstance(label, str | int | float) else None)


def _is_label(label: object) -> bool:
    return isinstance(label, str | int | float)


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedOptions(Options):
    """The options that all generators that learn a table take alike."""

    rows: int | None = option(None, optional(whole))
    """Rows of a release; nothing for as many as the source has."""
    discrete: tuple[str, ...] = option((), _names)
    """Columns of numbers that are categories."""
    train_rows: int | None = option(None, optional(whole))
    """How many rows of the source train a draw, drawn anew for each; nothing for all."""
    bootstrap: bool = option(False, truth)
    """Whether these are drawn with replacement."""
    corruption: Corruption | None = option(None, optional(_corruption))
    """Training labels that are made wrong."""
    clip: Clip = option("source", _CLIP)
    """Whether numbers of a release are kept within the source's range."""
    condition: Condition | None = option(None, optional(_condition))
    """What the rows of a release have in common."""

    def describe(self) -> dict[str, object]:
        """Return the settings, as a generator's ``describe`` gives them."""
        return {
            **Options.describe(self),
            "of the whole source": "the categories, the ranges of numbers, which columns hold "
            "whole numbers, and the medians that stand for missing ones",
        }

    def read(self, source: pd.DataFrame, where: str = "tabular") -> Tabular:
        """Return the source as numbers and codes; options that it cannot honour are refused.

        Parameters
        ----------
        source
            The source table.
        where
            The generator's name, as errors begin with it.

        Raises
        ------
        RegistryError
            If an option names a column or category that the source has not, or more rows.
        """
        table = read_tabular(source, discrete=self.discrete, clip=self.clip, where=where)
        if self.train_rows is not None and self.train_rows > len(table) and not self.bootstrap:
            raise RegistryError(
                f"{where}: train_rows is {self.train_rows:,}, and the source has "
                f"{len(table):,} rows"
            )
        if self.corruption is not None:
            column, label = self.corruption.column, self.corruption.label
            k = table.code_column(column, "corruption")
            if label is not None:
                table.code_of(column, label, "corruption")
            elif table.sizes[k] < 2:
                raise RegistryError(
                    f"{where}: corruption flips {column!r}, which has one category alone"
                )
        if self.condition is not None:
            table.code_column(self.condition.column)
            if self.condition.label is not None:
                table.code_of(self.condition.column, self.condition.label)
        return table

    @property
    def redraws_training(self) -> bool:
        """Whether a draw's training rows or labels are its own."""
        return self.train_rows is not None or self.bootstrap or self.corruption is not None

    def release_rows(self, table: Tabular) -> int:
        """Return how many rows a release has, given the table of the whole source."""
        return len(table) if self.rows is None else self.rows

    def training(self, table: Tabular, seed: Seed) -> Tabular:
        """Return what one draw is trained on: its rows, its labels corrupted.

        The seed is told which rows these are. Rows and corruption come from one stream in this
        order, ``default_rng(seed)``; whatever else a draw takes from its seed has to come from
        another one, such as `sampling_stream`.
        """
        if not self.redraws_training:
            return table
        rng = np.random.default_rng(int(seed))
        n = len(table)
        wanted = n if self.train_rows is None else self.train_rows
        trained = table
        # All rows without replacement are no choice: that stage is not redrawn.
        if self.bootstrap or wanted < n:
            seed.take(TRAINING_ROWS)
            positions = rng.choice(n, size=wanted, replace=self.bootstrap)
            seed.trained_on(np.unique(positions))
            trained = table.rows(positions)
        if self.corruption is None:
            return trained
        seed.take(CORRUPTION)
        return replace(trained, codes=_corrupted(trained, self.corruption, rng))

    def wanted(self, table: Tabular, trained: Tabular) -> tuple[int, CategoryCodes] | None:
        """Return the column of codes that is conditioned upon, and the code of every row.

        Parameters
        ----------
        table
            The whole source.
        trained
            What the draw is trained on.

        Returns
        -------
        tuple or None
            Nothing where nothing is conditioned upon.

        Raises
        ------
        DrawError
            If no training row of this draw has the category.
        """
        if self.condition is None:
            return None
        k = table.code_column(self.condition.column)
        rows = self.release_rows(table)
        counts = np.bincount(trained.codes[:, k], minlength=table.sizes[k])
        if self.condition.label is None:
            seen = np.flatnonzero(counts)
            return k, seen[np.arange(rows) % seen.size].astype(np.int64)
        code = table.code_of(self.condition.column, self.condition.label)
        if not counts[code]:
            raise DrawError(
                f"{table.where}: no row that this draw is trained on has "
                f"{self.condition.label!r} in {self.condition.column!r}, which all rows of its "
                "release should have; raise train_rows"
            )
        return k, np.full(rows, code, dtype=np.int64)


def _corrupted(trained: Tabular, corruption: Corruption, rng: np.random.Generator) -> CategoryCodes:
    """Return the codes of training rows with the labels of some made wrong."""
    codes = trained.codes.copy()
    k = trained.code_column(corruption.column, "corruption")
    chosen = rng.choice(len(codes), size=round(corruption.share * len(codes)), replace=False)
    if corruption.label is not None:
        codes[chosen, k] = trained.code_of(corruption.column, corruption.label, "corruption")
        return codes
    # A step of 1 to k - 1 around the circle: any other category, each alike.
    steps = rng.integers(1, trained.sizes[k], size=chosen.size)
    codes[chosen, k] = (codes[chosen, k] + steps) % trained.sizes[k]
    return codes


def sampling_stream(seed: Seed, stage: str) -> np.random.Generator:
    """Return a random stream apart from that of `SharedOptions.training`."""
    # The last number keeps it apart from the stream of every plain seed.
    return np.random.default_rng([seed.take(stage), 1])


OptionsOfKind = TypeVar("OptionsOfKind", bound=Mechanism)
FittedModel = TypeVar("FittedModel")

SAMPLING = "rows of the release"
ONCE = "the sampled rows alone, conditional on the one fit to the source"
ANEW = "the training rows or labels of the draw, the fit to them, and the sampled rows"


class CodedGenerator(ABC, Generic[OptionsOfKind]):
    """A generator that learns a table as numbers and codes, with the options of its kind.

    Parameters
    ----------
    options
        Those of its settings and of `SharedOptions`.
    """

    _kind: type[OptionsOfKind]

    def __init__(self, **options: object) -> None:
        name = self._kind.name
        known = sorted(each.name for kind in (self._kind, SharedOptions) for each in fields(kind))
        for declared in options:
            if declared not in known:
                meant = did_you_mean(declared, known) or "."
                raise RegistryError(
                    f"{name}: there is no option {declared!r}{meant} There are {known}"
                )
        self._shared = SharedOptions.of(options, name)
        self._settings = self._kind.of(options, name)
        self._table: Tabular | None = None

    def describe(self) -> dict[str, object]:
        """Return the settings, and what is fixed."""
        chosen = self._settings
        return {
            "mechanism": chosen.mechanism,
            **chosen.describe(),
            **chosen.fixed,
            **self._shared.describe(),
        }

    def check_source(self, source: pd.DataFrame) -> None:
        """Refuse a source that draws could not start from; nothing is fitted."""
        self._coded(source)

    def _coded(self, source: pd.DataFrame) -> Tabular:
        """Return the source as numbers and codes."""
        return self._shared.read(source, self._kind.name)

    @property
    def _prepared(self) -> Tabular:
        assert self._table is not None  # prepare comes first
        return self._table


class FittedGenerator(CodedGenerator[OptionsOfKind], Generic[OptionsOfKind, FittedModel]):
    """A generator that fits a model to numbers and codes, and samples rows of it."""

    _once: FittedModel | None = None

    def describe(self) -> dict[str, object]:
        """Return the settings, and what a draw redraws."""
        return {
            **super().describe(),
            "redrawn": ANEW if self._shared.redraws_training else ONCE,
        }

    def prepare(self, source: pd.DataFrame, rng: np.random.Generator) -> None:
        """Read the source, and fit once where no draw has training rows of its own."""
        self._table = self._coded(source)
        self._read(self._table)
        self._once = None if self._shared.redraws_training else self._fit(self._table)

    def draw(self, seed: Seed) -> pd.DataFrame:
        """Return one release."""
        table = self._prepared
        trained = self._shared.training(table, seed)
        wanted = self._shared.wanted(table, trained)
        model = self._fit(trained) if self._once is None else self._once
        rng = sampling_stream(seed, SAMPLING)
        numbers, codes = self._sample(model, rng, self._shared.release_rows(table), wanted)
        return table.table(numbers, codes)

    def draw_many(self, seeds: Sequence[Seed]) -> list[pd.DataFrame | DrawError]:
        """Return one release a seed, each as `draw` gives it; a draw that fails fails alone.

        Each is computed by itself, in numpy over all of its rows: stacked draws would leave the
        cache and be slower. What this saves is a process for each of them.
        """
        releases: list[pd.DataFrame | DrawError] = []
        for seed in seeds:
            try:
                releases.append(self.draw(seed))
            except DrawError as error:
                releases.append(error)
        return releases

    @abstractmethod
    def _read(self, table: Tabular) -> None:
        """Take from the whole source what all fits share."""

    @abstractmethod
    def _fit(self, trained: Tabular) -> FittedModel:
        """Return the model of these rows."""

    @abstractmethod
    def _sample(
        self,
        model: FittedModel,
        rng: np.random.Generator,
        rows: int,
        wanted: tuple[int, CategoryCodes] | None,
    ) -> tuple[Array, CategoryCodes]:
        """Return so many rows, as numbers and codes; ``wanted`` are the codes of one column."""
