"""Bounded queries of a table: a mean, a share, the cells of marginals.

A released table answers with its own mean of the query; the requirement is that the
target's mean lies within the limit of that answer, which is two one-sided requirements.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from proxyguard.errors import RegistryError, TableError
from proxyguard.registry.fields import number
from proxyguard.registry.parts import Query
from proxyguard.seal.fingerprint import canonical_value
from proxyguard.seal.table import as_text

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

    def values(self, frame: pd.DataFrame) -> Array:
        """Return the query's value for every record."""
        if self.column is not None:
            numbers = np.asarray(_column(frame, self.column), dtype=np.float64)
            if np.isnan(numbers).any():
                raise TableError(f"{self.name}: column {self.column!r} has missing values")
            return np.clip(numbers, self.low, self.high)
        inside = np.ones(len(frame), dtype=bool)
        for column, value in self.cell:
            inside &= matches(_column(frame, column), value)
        return inside.astype(np.float64)

    def answer(self, release: pd.DataFrame) -> float:
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


def matches(values: Any, wanted: str) -> NDArray[np.bool_]:
    """Return which values read like ``wanted``, numbers by value."""
    target = canonical_value(wanted)
    import pandas as pd

    codes, distinct = pd.factorize(pd.Series(values).map(as_text), use_na_sentinel=False)
    same = np.array([canonical_value(str(v)) == target for v in distinct], dtype=bool)
    return same[codes] if same.size else np.zeros(len(codes), dtype=bool)


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


def _column(frame: pd.DataFrame, name: str) -> Any:
    if name not in frame.columns:
        raise TableError(f"column {name!r} is missing; the records have {list(frame.columns)}")
    return frame[name]
