"""Bounded queries of a table: a mean, a ratio of two, a correlation, the cells of marginals.

A released table answers with its own mean of the query; the requirement is that the
target's mean lies within the limit of that answer, which is two one-sided requirements. A
column of marginals may be coded by registered bins or groups, on either side alike. Where a
requirement is about a subgroup, both means are over it: the target's over the target's
records of the group, the release's over its own.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise, product
from math import prod
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from proxyguard.documents.registry import ResolvedQuery, ResolvedRange, ResolvedStandard
from proxyguard.errors import RegistryError, TableError
from proxyguard.exact.rounding import Array
from proxyguard.registry.fields import OTHERS, Query, bin_end, number
from proxyguard.registry.numbers import canonical_value
from proxyguard.registry.requirement import WIDEST, check_range
from proxyguard.tables.columns import Series, as_texts, coded

if TYPE_CHECKING:
    import pandas as pd


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
        if self.ends:
            values = np.asarray(column, dtype=np.float64)
            # A number on an end is in the cell above it, as "a to under b" says.
            places = np.searchsorted(
                [float(bin_end(end)) for end in self.ends], values, side="right"
            )
            return np.where(np.isnan(values), -1, places)
        known = {canonical_value(v): k for k, (_, texts) in enumerate(self.groups) for v in texts}
        others = len(self.groups)
        return coded(as_texts(column), lambda text: known.get(canonical_value(str(text)), others))


def codings(query: Query) -> dict[str, Coding]:
    """Return the registered codings by column."""
    groups = query.groups or {}
    return {
        **{name: Coding(ends=ends) for name, ends in (query.bins or {}).items()},
        # Sorted: a sealed mapping has no order.
        **{name: Coding(groups=tuple(sorted(texts.items()))) for name, texts in groups.items()},
    }


@dataclass(frozen=True, slots=True)
class Standard:
    """A column less its centre, divided by its scale: constants that no target has a part in."""

    column: str
    centre: float
    scale: float

    def of(self, numbers: Array) -> Array:
        """Return numbers of the column on the standard scale."""
        # Cut where no range reaches: what is infinite times 0 is no number.
        return np.clip((numbers - self.centre) / self.scale, -WIDEST, WIDEST)


@dataclass(frozen=True, slots=True)
class Denominator:
    """The column whose mean stands below the line of a ratio, cut to a range from 0 on."""

    column: str
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class BoundedQuery:
    """A function of one record with values in ``[low, high]``.

    Of a ratio of two means it is the numerator alone: see `excess` for what is averaged.
    """

    name: str
    low: float
    high: float
    column: str | None = None  # of a mean, or above the line of a ratio
    cell: tuple[tuple[str, str], ...] = ()  # of a share: column and value, or its coding's label
    coding: Mapping[str, Coding] = field(default_factory=dict)  # by column, where it has one
    per: Denominator | None = None  # of a ratio
    product: tuple[Standard, ...] = ()  # of a correlation

    def __post_init__(self) -> None:
        # Its requirement is about a difference, whose range around 0 hides where the values lie.
        check_range(self.name, self.low, self.high)
        if self.per is not None:
            check_range(self.name, self.per.low, self.per.high)

    @property
    def averaged(self) -> tuple[str, ...]:
        """The columns of which numbers are averaged; none of a share."""
        if self.column is None:
            return tuple(factor.column for factor in self.product)
        return (self.column,) if self.per is None else (self.column, self.per.column)

    def values(self, records: CodedRecords) -> Array:
        """Return the query's value for every record; of a ratio, what stands above and below."""
        if self.cell:
            return records.inside(self.cell, self.coding).astype(np.float64)
        numbers = self._numbers(records)
        for column, held in zip(self.averaged, numbers, strict=True):
            if np.isnan(held).any():
                raise TableError(f"{self.name}: column {column!r} has missing values")
        return self._cut(numbers)

    def _numbers(self, records: CodedRecords) -> list[Array]:
        return [np.asarray(records.column(c), dtype=np.float64) for c in self.averaged]

    def _cut(self, numbers: Sequence[Array]) -> Array:
        # Part of the query: a release's answer is a mean of values that are cut alike.
        if self.per is not None:
            above, below = numbers
            return np.stack(
                [
                    np.clip(above, self.low, self.high),
                    np.clip(below, self.per.low, self.per.high),
                ],
                axis=1,
            )
        if self.product:
            first, second = (f.of(held) for f, held in zip(self.product, numbers, strict=True))
            return np.clip(first * second, self.low, self.high)
        return np.clip(numbers[0], self.low, self.high)

    def answer(
        self, release: CodedRecords, inside: NDArray[np.bool_] | None = None
    ) -> float | None:
        """Return the release's own answer: the mean over its records, of those ``inside``.

        None where it has none of them, a number among them is missing, or the mean below the line
        of a ratio is 0: it does not answer, which fails the requirement. An error here would stop
        an audit that is opened already.
        """
        chosen = np.ones(len(release), dtype=bool) if inside is None else inside
        if not chosen.any():
            return None
        if self.cell:
            return float(np.mean(self.values(release)[chosen]))
        numbers = [held[chosen] for held in self._numbers(release)]
        if any(np.isnan(held).any() for held in numbers):
            return None
        means = np.mean(self._cut(numbers), axis=0)
        if self.per is None:
            return float(means)
        above, below = (float(mean) for mean in means)
        # A ratio that doubles do not hold is as good as none.
        return above / below if abs(above) <= WIDEST * below and below > 0.0 else None

    def excess(self, values: Array, answer: float, *, above: bool, limit: float) -> Array:
        """Return one side of what a ratio is tested by, on a scale from -1 to 1.

        ``a - (c + limit) b`` has a mean below 0 where the ratio is not above its answer ``c`` by
        the limit, and ``(c - limit) b - a`` where it is not below; both together say that it is
        defined and within the limit (theory, *Ratios*). Either is divided by the most that it can
        be for this release, which leaves the sign of its mean alone.
        """
        sign, slope, corners = self._corners(answer, above=above, limit=limit)
        # Rounding keeps numbers in their order: no record comes out beyond all four corners.
        most = max(map(abs, corners))
        return np.asarray((sign * values[:, 0] - slope * values[:, 1]) / most)

    def _corners(
        self, answer: float, *, above: bool, limit: float
    ) -> tuple[float, float, list[float]]:
        """Return sign and slope of one side of a ratio, and its value at the ranges' corners."""
        assert self.per is not None  # asked of a ratio
        sign = 1.0 if above else -1.0
        slope = sign * answer + limit
        return sign, slope, [
            sign * a - slope * b
            for a in (self.low, self.high)
            for b in (self.per.low, self.per.high)
        ]  # fmt: skip

    def ends(self, answer: float, *, above: bool, limit: float) -> tuple[float, float]:
        """Return between which numbers what is tested of a record lies, for a release's answer.

        The answer is frozen before the target is read, so that they are constants of the test.
        """
        if self.per is not None:
            _, _, corners = self._corners(answer, above=above, limit=limit)
            most = max(map(abs, corners))
            return min(corners) / most, max(corners) / most
        if above:
            return self.low - answer, self.high - answer
        return -(self.high - answer), -(self.low - answer)

    def answer_of(self, low: float, high: float, limit: float) -> float | None:
        """Return the answer of which `ends`, above, are these; nothing of a ratio that has none.

        What evidence records of a release are the ends.
        """
        if self.per is None:
            return self.low - low
        above, below = (self.low, self.high), (self.per.low, self.per.high)
        # One end is -1 or 1, a corner over itself, and the other one says the slope; which corners
        # of b these are depends on the sign of the slope, so that both are tried.
        for least, most in (below, below[::-1]):
            over, under = above[1] + high * above[0], high * most + least
            if high == 1.0:
                over, under = above[0] - low * above[1], most - low * least
            answer = over / under - limit if under else 0.0
            if np.allclose(
                self.ends(answer, above=True, limit=limit), (low, high), rtol=0.0, atol=1e-9
            ):
                return answer
        return None

    def parts_of(
        self, answer: float, means: tuple[float, float], limit: float
    ) -> tuple[float, float]:
        """Return the means above and below the line of a ratio, from those of its two excesses."""
        first, second = (
            mean * max(map(abs, self._corners(answer, above=side, limit=limit)[2]))
            for mean, side in zip(means, (True, False), strict=True)
        )
        # a - (c + limit) b and (c - limit) b - a add up to -2 limit b.
        below = -(first + second) / (2.0 * limit)
        return first + (answer + limit) * below, below

    def recorded(self) -> ResolvedQuery:
        """Return what the registry has of it: all but the codings, which the declaration has."""
        return ResolvedQuery(
            name=self.name,
            low=repr(self.low),
            high=repr(self.high),
            column=self.column,
            cell=self.cell,
            per=None if self.per is None else ResolvedRange(
                column=self.per.column, low=repr(self.per.low), high=repr(self.per.high)
            ),
            product=tuple(
                ResolvedStandard(column=f.column, centre=repr(f.centre), scale=repr(f.scale))
                for f in self.product
            ),
        )  # fmt: skip

    @classmethod
    def of(cls, recorded: ResolvedQuery, coding: Mapping[str, Coding]) -> BoundedQuery:
        """Return a registered query, with the codings of the declared one."""
        per = recorded.per
        return cls(
            recorded.name,
            float(recorded.low),
            float(recorded.high),
            recorded.column,
            recorded.cell,
            coding,
            None if per is None else Denominator(per.column, float(per.low), float(per.high)),
            tuple(Standard(f.column, float(f.centre), float(f.scale)) for f in recorded.product),
        )


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


def expand(
    name: str,
    query: Query,
    domains: Mapping[str, Sequence[str]],
    moments: Mapping[str, tuple[str, str]],
) -> list[BoundedQuery]:
    """Return the bounded queries that a declared one stands for.

    The cells of marginals run over the labels of a column's coding, or else over the values
    that development has; records of the target with other values are in none of them. A column of
    a correlation without declared constants has the mean and the deviation that training has.
    """
    if query.ratio is not None and query.ranges is not None:
        (low, high), (least, most) = (map(number, query.ranges[c]) for c in query.ratio)
        above, below = query.ratio
        return [BoundedQuery(name, low, high, above, per=Denominator(below, least, most))]
    if query.range is not None:
        low, high = (number(end) for end in query.range)
        if query.correlation is None:
            return [BoundedQuery(name, low, high, column=query.mean)]
        constants = {**moments, **(query.standard or {})}
        for column in query.correlation:
            if column not in constants:
                raise RegistryError(
                    f"{name}: {column!r} does not vary in the training part, so that its deviation "
                    "there is no scale; register its centre and scale, such as standard = "
                    f'{{ {json.dumps(column)} = ["0", "1"] }}'
                )
        factors = tuple(Standard(c, *map(number, constants[c])) for c in query.correlation)
        return [BoundedQuery(name, low, high, product=factors)]
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
