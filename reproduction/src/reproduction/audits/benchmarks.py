"""The tables of the audits of known generators, in the parts that the paper's rules give.

Rice is permuted and dealt out: source, planning, and a population from which the target's records
are drawn with replacement, all from one stream. Spambase keeps the first twelve features of its
schema. Heart, German and Taiwan are held out class by class, 60/20/20, from the seeds of each
study. The paper winsorised Heart and Taiwan at quantiles of all rows; here they are those of the
training rows, so that no number of a target is used.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from reproduction.audits.arrange import Rows, divided, reserved
from reproduction.audits.taiwan import FRACTION, published_parts
from reproduction.audits.taiwan import OUTCOME as TAIWAN_OUTCOME
from reproduction.datasets import german, load
from reproduction.datasets.prepare import csv_bytes
from reproduction.datasets.taiwan import winsor_limits, winsorised
from reproduction.files import write_atomic

if TYPE_CHECKING:
    import pandas as pd

RICE_SEED = 2026080301
RICE_SOURCE, RICE_PLANNING, RICE_TARGET = 500, 1000, 2000
RICE_FRACTION = 2 / 3  # of source and planning rows: planning
SPAMBASE_FEATURES = 12
BASES = {"aim": 3407, "tabddpm": 2026}
"""The first seed of each study over Heart, German and Taiwan."""
SPLIT_STEP = 101


@dataclass(frozen=True, slots=True, kw_only=True)
class Benchmark:
    """One table: how it is loaded, and its place among the paper's tables, which gives seeds."""

    title: str
    load: Callable[[], pd.DataFrame]
    outcome: str
    index: int
    winsorised: bool

    def seed(self, study: str) -> int:
        """Return the seed of a study's division."""
        return BASES[study] + SPLIT_STEP * self.index

    def positions(self, table: pd.DataFrame, study: str) -> tuple[Rows, Rows, Rows]:
        """Return the rows of training, validation and target in a study."""
        classes = table[self.outcome].to_numpy().astype(np.int64)
        return published_parts(classes, self.seed(study))

    def parts(self, study: str) -> tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame]:
        """Return training, validation and target of a study; limits are those of training."""
        table = self.load()
        chosen = self.positions(table, study)
        table = self._limited(table, chosen[0])
        training, validation, target = (table.iloc[rows].reset_index(drop=True) for rows in chosen)
        return training, validation, target

    def arranged(self, study: str) -> pd.DataFrame:
        """Return the table in an order in which an audit's own division gives these parts."""
        table = self.load()
        training, validation, target = self.positions(table, study)
        seed = self.seed(study)
        rest = divided(training, validation, fraction=FRACTION, seed=seed + 1)
        return self._limited(table, training).iloc[reserved(target, rest, seed=seed)]

    def _limited(self, table: pd.DataFrame, training: Rows) -> pd.DataFrame:
        if not self.winsorised:
            return table
        return winsorised(table, winsor_limits(table.iloc[training], outcome=self.outcome))


BENCHMARKS: Mapping[str, Benchmark] = {
    "heart": Benchmark(
        title="Heart", load=load.statlog_heart, outcome="class", index=0, winsorised=True
    ),
    "german": Benchmark(
        title="German, published outcome", load=lambda: german.published_table(load.german()),
        outcome=german.OUTCOME, index=1, winsorised=False,
    ),
    "german-uci": Benchmark(
        title="German, UCI", load=lambda: german.uci_table(load.german()),
        outcome=german.OUTCOME, index=1, winsorised=False,
    ),
    "taiwan": Benchmark(
        title="Taiwan", load=load.taiwan_features, outcome=TAIWAN_OUTCOME, index=2, winsorised=True
    ),
}  # fmt: skip


def rice_parts(rows: int) -> tuple[Rows, Rows, Rows]:
    """Return the rows of source, planning and audit target of Rice, from one stream."""
    rng = np.random.default_rng(RICE_SEED)
    order = rng.permutation(rows)
    end = RICE_SOURCE + RICE_PLANNING
    population = order[end:]
    target = population[rng.integers(0, population.size, RICE_TARGET)]
    return order[:RICE_SOURCE], order[RICE_SOURCE:end], target


def write_rice(folder: Path) -> None:
    """Write development and target of Rice, unless they are there."""
    paths = [folder / f"rice-{role}.csv" for role in ("development", "target")]
    if all(path.exists() for path in paths):
        return
    table = load.rice()
    source, planning, target = rice_parts(len(table))
    order = divided(source, planning, fraction=RICE_FRACTION, seed=RICE_SEED)
    for path, rows in zip(paths, (order, target), strict=True):
        write_atomic(path, csv_bytes(table.iloc[rows]))


def write_spambase(folder: Path) -> None:
    """Write the first features of Spambase and its outcome, unless they are there."""
    path = folder / "spambase-prefix.csv"
    if not path.exists():
        table = load.spambase()
        kept = [*table.columns[:SPAMBASE_FEATURES], "spam"]
        write_atomic(path, csv_bytes(table[kept]))


def write_benchmark(name: str, folder: Path) -> None:
    """Write one arranged table a study, unless they are there."""
    for study in BASES:
        path = folder / f"{name}-{study}.csv"
        if not path.exists():
            write_atomic(path, csv_bytes(BENCHMARKS[name].arranged(study)))
