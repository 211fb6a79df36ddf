"""A generator: normal columns by class, fitted anew to rows drawn again by every draw."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd


class ClasswiseNormal:
    """Numbers drawn by class from normal laws with the class's own covariance."""

    def __init__(self, outcome: str, rows: int = 1200) -> None:
        self.outcome, self.rows = outcome, rows

    def describe(self) -> Mapping[str, object]:
        """Return the settings that are sealed."""
        return {"mechanism": "class-wise normal", "outcome": self.outcome, "rows": self.rows}

    def prepare(self, source: pd.DataFrame, rng: np.random.Generator) -> None:
        """Keep the source; every draw fits again."""
        self._source = source

    def draw(self, seed) -> pd.DataFrame:
        """Return one release, from this seed alone."""
        rng = seed.rng("rows of the fit, and the sample")
        fitted = self._source.sample(len(self._source), replace=True, random_state=rng)
        tables = []
        for label, rows in fitted.groupby(self.outcome):
            numbers = rows.drop(columns=self.outcome)
            size = round(self.rows * len(rows) / len(fitted))
            drawn = rng.multivariate_normal(numbers.mean(), numbers.cov(), size)
            table = pd.DataFrame(drawn, columns=numbers.columns)
            tables.append(table.assign(**{self.outcome: label}))
        return pd.concat(tables, ignore_index=True)[list(self._source.columns)]
