"""Bounded queries of a table: a mean, a share, the cells of marginals.

A released table answers with its own mean of the query; the requirement is that the
target's mean lies within the limit of that answer, which is two one-sided requirements. A
column of marginals may be coded by registered bins or groups, on either side alike. Where a
requirement is about a subgroup, both means are over it: the target's over the target's
records of the group, the release's over its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise, product
from math import prod
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from proxyguard.documents.registry import ResolvedQuery
from proxyguard.errors import RegistryError, TableError
from proxyguard.exact.rounding import Array
from proxyguard.registry.fields import OTHERS, Query, number
from proxyguard.registry.numbers import canonical_value
from proxyguard.registry.requirement import check_range
from proxyguard.tables.columns import as_texts

if TYPE_CHECKING:
    import pandas as pd

    from proxyguard.tables.columns import Series

# Queries of one workload; more are refused before anything is drawn.
MOST = 20_000


@dataclass(frozen=True, slots=True)
class Coding:
    """How the values of a column are told apart: by ends between numbers, or groups of texts."""

    ends: tuple[str, ...] = ()
    groups: tuple[tuple[str, tuple[str, ...]], ...] = ()  # by name

    @property
    def labels(self) -> tuple[str, ...]:
        """The names of the cells, which hold every value there is; missing numbers are in none."""
        if not self.ends:
            return (*(canonical_value(name) for name, _ in self.groups), OTHERS)
        inner = (f"{a} to under {b}" for a, b in pairwise(self.ends))
        return (f"under {self.ends[0]}", *inner, f"{self.ends[-1]} and over")

    def codes(self, column: Series) -> NDArray[np.intp]:
        """Return the number of each value's label, -1 for a missing number."""
        import pandas as pd

        if self.ends:
            values = np.asarray(column, dtype=np.float64)
            # A number on an end is in the cell above it, as "a to under b" says.
            places = np.searchsorted([number(end) for end in self.ends], values, side="right")
            return np.where(np.isnan(values), -1, places)
        known = {canonical_value(v): k for k, (_, texts) in enumerate(self.groups) for v in texts}
        places, distinct = pd.factorize(as_texts(column), use_na_sentinel=False)
        others = len(self.groups)
        numbers = [known.get(canonical_value(str(v)), others) for v in distinct]
        return np.array(numbers, dtype=np.intp)[np.asarray(places)]


def codings(query: Query) -> dict[str, Coding]:
    """Return the registered codings by column."""
    groups = query.groups or {}
    return {
        **{name: Coding(ends=ends) for name, ends in (query.bins or {}).items()},
        # Sorted: a sealed mapping has no order.
        **{name: Coding(groups=tuple(sorted(texts.items()))) for name, texts in groups.items()},
    }


@dataclass(frozen=True, slots=True)
class BoundedQuery:
    """A function of one record with values in ``[low, high]``."""

    name: str
    low: float
    high: float
    column: str | None = None  # of a mean
    cell: tuple[tuple[str, str], ...] = ()  # of a share: column and value, or its coding's label
    coding: Mapping[str, Coding] = field(default_factory=dict)  # by column, where it has one

    def __post_init__(self) -> None:
        # Its requirement is about a difference, whose range around 0 hides where the values lie.
        check_range(self.name, self.low, self.high)

    def values(self, records: CodedRecords) -> Array:
        """Return the query's value for every record."""
        if self.column is not None:
            numbers = np.asarray(records.column(self.column), dtype=np.float64)
            if np.isnan(numbers).any():
                raise TableError(f"{self.name}: column {self.column!r} has missing values")
            # Part of the query: a release's answer is a mean of values that are cut alike.
            return np.clip(numbers, self.low, self.high)
        return records.inside(self.cell, self.coding).astype(np.float64)

    def answer(
        self, release: CodedRecords, inside: NDArray[np.bool_] | None = None
    ) -> float | None:
        """Return the release's own answer: the mean over its records, of those ``inside``.

        None where it has none of them, or a number among them is missing: it does not answer,
        which fails the requirement. An error here would stop an audit that is opened already.
        """
        chosen = np.ones(len(release), dtype=bool) if inside is None else inside
        if not chosen.any():
            return None
        if self.column is None:
            return float(np.mean(self.values(release)[chosen]))
        numbers = np.asarray(release.column(self.column), dtype=np.float64)[chosen]
        if np.isnan(numbers).any():
            return None
        return float(np.mean(np.clip(numbers, self.low, self.high)))

    def recorded(self) -> ResolvedQuery:
        """Return what the registry has of it: all but the codings, which the declaration has."""
        return ResolvedQuery(
            name=self.name,
            low=repr(self.low),
            high=repr(self.high),
            column=self.column,
            cell=self.cell,
        )

    @classmethod
    def of(cls, recorded: ResolvedQuery, coding: Mapping[str, Coding]) -> BoundedQuery:
        """Return a registered query, with the codings of the declared one."""
        low, high = float(recorded.low), float(recorded.high)
        return cls(recorded.name, low, high, recorded.column, recorded.cell, coding)


class CodedRecords:
    """Records whose columns are read once each, however many cells ask for them."""

    def __init__(self, frame: pd.DataFrame) -> None:
        self._frame = frame
        self._coded: dict[tuple[str, Coding | None], tuple[NDArray[np.intp], dict[str, int]]] = {}

    def __len__(self) -> int:
        return len(self._frame)

    def column(self, name: str) -> Series:
        """Return a column; one that is not there is an error."""
        if name not in self._frame.columns:
            raise TableError(
                f"column {name!r} is missing; the records have {list(self._frame.columns)}"
            )
        return self._frame[name]

    def inside(
        self, cell: Iterable[tuple[str, str]], coding: Mapping[str, Coding] | None = None
    ) -> NDArray[np.bool_]:
        """Return which records have the value of each of these columns, numbers by value."""
        inside = np.ones(len(self), dtype=bool)
        for name, wanted in cell:
            codes, labels = self.codes(name, (coding or {}).get(name))
            inside &= codes == labels.get(canonical_value(wanted), -2)  # no code: -1 is missing
        return inside

    def codes(
        self, name: str, coding: Coding | None = None
    ) -> tuple[NDArray[np.intp], dict[str, int]]:
        """Return the number of each record's label, and the numbers by label.

        The labels are those of the coding, or the values that there are, in canonical form.
        """
        if (name, coding) not in self._coded:
            self._coded[name, coding] = (
                _by_value(self.column(name))
                if coding is None
                else (coding.codes(self.column(name)), _numbered(coding.labels))
            )
        return self._coded[name, coding]


def _by_value(column: Series) -> tuple[NDArray[np.intp], dict[str, int]]:
    """Return a column's values as numbers; values that read alike have one number."""
    import pandas as pd

    places, distinct = pd.factorize(as_texts(column), use_na_sentinel=False)
    read = [canonical_value(str(value)) for value in distinct]
    labels = _numbered(dict.fromkeys(read))
    return np.array([labels[value] for value in read], dtype=np.intp)[np.asarray(places)], labels


def _numbered(labels: Iterable[str]) -> dict[str, int]:
    return {label: k for k, label in enumerate(labels)}


Columns = tuple[tuple[str, Coding | None], ...]


@dataclass(frozen=True, slots=True, eq=False)
class _Table:
    """Cells over the same columns, numbered by the labels that are asked for.

    What the records have besides has no number, so that no release and no target can make the
    table larger than the registered cells.
    """

    columns: Columns
    labels: tuple[dict[str, int], ...]  # of each column: the numbers of the labels asked for
    queries: list[int]
    places: NDArray[np.intp]  # of the queries, among all combinations of the labels

    def counts(self, records: CodedRecords, inside: NDArray[np.bool_] | None) -> NDArray[np.int64]:
        """Return how many records each cell holds, of those ``inside`` if that is given."""
        known = np.ones(len(records), dtype=bool) if inside is None else inside.copy()
        joint = np.zeros(len(records), dtype=np.intp)
        for (name, coding), asked in zip(self.columns, self.labels, strict=True):
            codes, there = records.codes(name, coding)
            # One place more, at the end: the code of a missing number is -1.
            numbers = np.full(len(there) + 1, -1, dtype=np.intp)
            for label, k in asked.items():
                if label in there:
                    numbers[there[label]] = k
            asked_codes = numbers[codes]
            known &= asked_codes >= 0
            joint = joint * len(asked) + asked_codes
        return np.bincount(joint[known], minlength=prod(map(len, self.labels)))[self.places]


def _tables(columns: Columns, cells: Mapping[int, tuple[str, ...]]) -> list[_Table]:
    """Return the table of these cells; one for each cell where not all combinations are asked."""
    labels = tuple(
        _numbered(dict.fromkeys(values[c] for values in cells.values()))
        for c in range(len(columns))
    )
    # A few cells of columns with many labels would make a table far larger than they are.
    if len(cells) > 1 and prod(map(len, labels)) > len(cells):
        return [table for k, values in cells.items() for table in _tables(columns, {k: values})]
    places: NDArray[np.intp] = np.zeros(len(cells), dtype=np.intp)
    for c, asked in enumerate(labels):
        codes = np.array([asked[values[c]] for values in cells.values()], dtype=np.intp)
        places = places * len(asked) + codes
    return [_Table(columns, labels, list(cells), places)]


class Workload:
    """Cells that are counted table by table: one pass over the records for each table."""

    def __init__(self, queries: Sequence[BoundedQuery]) -> None:
        self._size = len(queries)
        by_columns: dict[Columns, dict[int, tuple[str, ...]]] = {}
        for k, query in enumerate(queries):
            columns = tuple((name, query.coding.get(name)) for name, _ in query.cell)
            values = tuple(canonical_value(value) for _, value in query.cell)
            by_columns.setdefault(columns, {})[k] = values
        self._tables = [
            table for columns, cells in by_columns.items() for table in _tables(columns, cells)
        ]

    def __len__(self) -> int:
        return self._size

    def counts(
        self, records: CodedRecords, inside: NDArray[np.bool_] | None = None
    ) -> NDArray[np.int64]:
        """Return how many records each cell holds, of those ``inside`` if that is given."""
        counts = np.zeros(self._size, dtype=np.int64)
        for table in self._tables:
            counts[table.queries] = table.counts(records, inside)
        return counts


def expand(name: str, query: Query, domains: Mapping[str, Sequence[str]]) -> list[BoundedQuery]:
    """Return the bounded queries that a declared one stands for.

    The cells of marginals run over the labels of a column's coding, or else over the values
    that development has; records of the target with other values are in none of them.
    """
    if query.mean is not None and query.range is not None:
        low, high = (number(end) for end in query.range)
        return [BoundedQuery(name, low, high, column=query.mean)]
    if query.share is not None:
        cell = tuple(query.share.items())
        return [BoundedQuery(name, 0.0, 1.0, cell=cell)]
    coding = codings(query)
    labels = {**domains, **{column: coded.labels for column, coded in coding.items()}}
    return list(_cells(name, query.tables, labels, coding))


def _cells(
    name: str,
    tables: Sequence[Sequence[str]],
    labels: Mapping[str, Sequence[str]],
    coding: Mapping[str, Coding],
) -> Iterator[BoundedQuery]:
    count = 0
    for columns in tables:
        unknown = [c for c in columns if c not in labels]
        if unknown:
            raise RegistryError(
                f"{name}: marginals over {unknown}, which are no text columns; register bins of "
                "numbers"
            )
        for values in product(*(labels[c] for c in columns)):
            count += 1
            # While they are made: all combinations of some columns are more than memory holds.
            if count > MOST:
                raise RegistryError(f"{name}: more than {MOST} cells; register fewer marginals")
            cell = tuple(zip(columns, values, strict=True))
            label = ", ".join(f"{c} = {v}" for c, v in cell)
            yield BoundedQuery(f"{name}: {label}", 0.0, 1.0, cell=cell, coding=coding)
