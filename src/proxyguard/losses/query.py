"""Bounded queries of a table: a mean, a share, the cells of marginals.

A released table answers with its own mean of the query; the requirement is that the
target's mean lies within the limit of that answer, which is two one-sided requirements.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from proxyguard.errors import RegistryError, TableError
from proxyguard.registry.fields import number
from proxyguard.registry.parts import Query
from proxyguard.seal.fingerprint import canonical_value
from proxyguard.seal.table import as_texts

if TYPE_CHECKING:
    import pandas as pd

Array = NDArray[np.float64]
MOST = 20_000
"""Queries of one workload; more are refused before anything is drawn."""


@dataclass(frozen=True, slots=True)
class BoundedQuery:
    """A function of one record with values in ``[low, high]``."""

    name: str
    low: float
    high: float
    column: str | None = None  # of a mean
    cell: tuple[tuple[str, str], ...] = ()  # of a share: column and value

    def values(self, records: CodedRecords) -> Array:
        """Return the query's value for every record."""
        if self.column is not None:
            numbers = np.asarray(records.column(self.column), dtype=np.float64)
            if np.isnan(numbers).any():
                raise TableError(f"{self.name}: column {self.column!r} has missing values")
            return np.clip(numbers, self.low, self.high)
        return records.inside(self.cell).astype(np.float64)

    def answer(self, release: CodedRecords) -> float:
        """Return the release's own answer: the mean over its records."""
        if len(release) == 0:
            raise TableError(f"{self.name}: the release has no record")
        return float(np.mean(self.values(release)))

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for the registry."""
        return {
            "name": self.name,
            "low": repr(self.low),
            "high": repr(self.high),
            "column": self.column,
            "cell": [list(pair) for pair in self.cell],
        }

    @classmethod
    def from_dict(cls, value: Mapping[str, Any]) -> BoundedQuery:
        """Read a query back."""
        return cls(
            str(value["name"]),
            float(value["low"]),
            float(value["high"]),
            value["column"],
            tuple((str(c), str(v)) for c, v in value["cell"]),
        )


class CodedRecords:
    """Records whose columns are read once each, however many cells ask for them."""

    def __init__(self, frame: pd.DataFrame) -> None:
        self._frame = frame
        self._coded: dict[str, tuple[NDArray[np.intp], NDArray[np.object_]]] = {}

    def __len__(self) -> int:
        return len(self._frame)

    def column(self, name: str) -> Any:
        """Return a column; one that is not there is an error."""
        if name not in self._frame.columns:
            raise TableError(
                f"column {name!r} is missing; the records have {list(self._frame.columns)}"
            )
        return self._frame[name]

    def inside(self, cell: Iterable[tuple[str, str]]) -> NDArray[np.bool_]:
        """Return which records have the value of each of these columns, numbers by value."""
        found = np.ones(len(self), dtype=bool)
        for name, wanted in cell:
            codes, distinct = self._codes(name)
            found &= (distinct == canonical_value(wanted))[codes]
        return found

    def _codes(self, name: str) -> tuple[NDArray[np.intp], NDArray[np.object_]]:
        """Return the number of each record's value, and the values in canonical form."""
        if name not in self._coded:
            import pandas as pd

            codes, distinct = pd.factorize(as_texts(self.column(name)), use_na_sentinel=False)
            read = np.array([canonical_value(str(value)) for value in distinct], dtype=object)
            self._coded[name] = np.asarray(codes), read
        return self._coded[name]


def expand(name: str, query: Query, domains: Mapping[str, Sequence[str]]) -> list[BoundedQuery]:
    """Return the bounded queries that a declared one stands for.

    The cells of marginals run over the values that development has; records of the target
    with other values are in none of them.
    """
    if query.mean is not None and query.range is not None:
        low, high = (number(end) for end in query.range)
        return [BoundedQuery(name, low, high, column=query.mean)]
    if query.share is not None:
        cell = tuple(query.share.items())
        return [BoundedQuery(name, 0.0, 1.0, cell=cell)]
    return list(_cells(name, query.marginals or (), domains))


def _cells(
    name: str, marginals: Sequence[Sequence[str]], domains: Mapping[str, Sequence[str]]
) -> Iterator[BoundedQuery]:
    count = 0
    for columns in marginals:
        unknown = [c for c in columns if c not in domains]
        if unknown:
            raise RegistryError(f"{name}: marginals over {unknown}, which are no text columns")
        for values in product(*(domains[c] for c in columns)):
            count += 1
            if count > MOST:
                raise RegistryError(f"{name}: more than {MOST} cells; register fewer marginals")
            cell = tuple(zip(columns, values, strict=True))
            label = ", ".join(f"{c} = {v}" for c, v in cell)
            yield BoundedQuery(f"{name}: {label}", 0.0, 1.0, cell=cell)
