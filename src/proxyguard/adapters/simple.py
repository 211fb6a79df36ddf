"""Rows of the source drawn with replacement: the simplest stand-in, and a positive control.

A generator from one function of a user's own, named by its import path.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from proxyguard.draw.catalog import load_callable
from proxyguard.draw.protocol import Seed
from proxyguard.errors import RegistryError

if TYPE_CHECKING:
    import pandas as pd


class RowBootstrap:
    """As many rows as the source has, or ``rows`` of them, drawn with replacement."""

    def __init__(self, rows: int | None = None) -> None:
        if rows is not None and (isinstance(rows, bool) or not isinstance(rows, int) or rows < 1):
            raise RegistryError(f"bootstrap: rows is a whole number of at least 1, got {rows!r}")
        self._rows = rows
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


class Callable:
    """``function(source, rng, **options)`` returns one release."""

    def __init__(self, function: str, **options: object) -> None:
        self._path, self._options = function, options
        self._function = load_callable(function)
        self.code = (function,)
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
        table = self._function(self._source.copy(), rng, **self._options)
        if not isinstance(table, pd.DataFrame):
            raise TypeError(f"{self._path} returned a {type(table).__name__}, expected a DataFrame")
        return table
