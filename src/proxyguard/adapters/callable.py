"""A generator from one function of a user's own, named by its import path."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from proxyguard.draw.catalog import load_attribute
from proxyguard.draw.protocol import Seed

if TYPE_CHECKING:
    import pandas as pd


class Callable:
    """``function(source, rng, **options)`` returns one release."""

    def __init__(self, function: str, **options: Any) -> None:
        self._path, self._options = function, options
        self._function = load_attribute(function)
        self.code = (function,)
        self._source: pd.DataFrame | None = None

    def describe(self) -> Mapping[str, Any]:
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
