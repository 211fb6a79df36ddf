"""The tables of the paper's attack study (App. V), their parts, and releases of ours on them.

Members are the training rows, reference the validation rows and nonmembers the audit rows of the
60/20/20 division that the paper's TabDDPM releases have. All columns are used, the outcome among
them, as numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from proxyguard.draw.catalog import load_generator
from proxyguard.draw.protocol import Seed
from reproduction.audits.taiwan import OUTCOME as TAIWAN_OUTCOME
from reproduction.audits.taiwan import published_parts
from reproduction.datasets import german, load
from reproduction.datasets.taiwan import winsor_limits, winsorised

if TYPE_CHECKING:
    import pandas as pd

BASE_SEED = 2026
SPLIT_STEP = 101
FEW, BINS = 16, 10
"""A column of at most so many values keeps them in a histogram; others have so many bins."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Pools:
    """The rows of one table that an attack is about."""

    members: pd.DataFrame
    reference: pd.DataFrame
    nonmembers: pd.DataFrame
    outcome: str
    seed: int
    """Of the release."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AttackedTable:
    """One table: how it is loaded, and its place among the paper's tables, which gives seeds."""

    title: str
    load: Callable[[], pd.DataFrame]
    outcome: str
    index: int
    winsorised: bool

    def pools(self) -> Pools:
        """Return members, reference and nonmembers; limits of numbers are those of members."""
        table = self.load()
        classes = table[self.outcome].to_numpy().astype(np.int64)
        parts = published_parts(classes, BASE_SEED + SPLIT_STEP * self.index)
        members, reference, nonmembers = (table.iloc[rows].reset_index(drop=True) for rows in parts)
        if self.winsorised:
            limits = winsor_limits(members, outcome=self.outcome)
            members, reference, nonmembers = (
                winsorised(rows, limits) for rows in (members, reference, nonmembers)
            )
        return Pools(
            members=members, reference=reference, nonmembers=nonmembers, outcome=self.outcome,
            seed=BASE_SEED + self.index,
        )  # fmt: skip


TABLES: Mapping[str, AttackedTable] = {
    "heart": AttackedTable(
        title="Heart", load=load.statlog_heart, outcome="class", index=0, winsorised=True
    ),
    "german": AttackedTable(
        title="German, published outcome", load=lambda: german.published_table(load.german()),
        outcome=german.OUTCOME, index=1, winsorised=False,
    ),
    "german-uci": AttackedTable(
        title="German, UCI", load=lambda: german.uci_table(load.german()),
        outcome=german.OUTCOME, index=1, winsorised=False,
    ),
    "taiwan": AttackedTable(
        title="Taiwan", load=load.taiwan_features, outcome=TAIWAN_OUTCOME, index=2, winsorised=True
    ),
}  # fmt: skip

Options = Mapping[str, object]


def _histograms(pools: Pools, epsilon: str) -> Options:
    """Return the settings of noisy histograms; their domains are learned from members here."""
    steps = {str(name): _steps(pools.members[name].to_numpy()) for name in pools.members.columns}
    return {
        "outcome": pools.outcome, "rows": len(pools.members), "epsilon": epsilon,
        "noise": "seeded", "floor": list(steps), "domains": steps,
    }  # fmt: skip


def _steps(numbers: np.typing.NDArray[np.float64]) -> list[str]:
    """Return what a column's numbers are rounded down to: its values, or the ends of bins."""
    steps = np.unique(numbers)
    if steps.size > FEW:
        steps = np.linspace(steps[0], steps[-1], BINS + 1)[:-1]
    elif (
        steps.size == 1
    ):  # a histogram has two cells at least; the second stays empty but for noise
        steps = np.array([steps[0], steps[0] + 1.0])
    return [repr(float(step)) for step in steps]


def _denoising(pools: Pools) -> Options:
    """Return the second configuration of the paper's light generator."""
    positive = float(pools.members[pools.outcome].max())
    return {
        "outcome": pools.outcome, "positive": int(positive), "rows": len(pools.members),
        "hidden": 32, "train_noise": "0.03", "sample_noise": "0.03", "label_fidelity": "0.95",
        "ridge": "0.003",
    }  # fmt: skip


@dataclass(frozen=True, slots=True)
class Mechanism:
    """A mechanism of ours by its name in a declaration, and its options on a table."""

    generator: str
    options: Callable[[Pools], Options]


MECHANISMS: Mapping[str, Mechanism] = {
    "bootstrap": Mechanism("bootstrap", lambda pools: {}),
    "noise": Mechanism("noise", lambda pools: {"keep": [pools.outcome]}),
    "denoising": Mechanism("denoising", _denoising),
    "histograms, 10": Mechanism("categorical", lambda pools: _histograms(pools, "10")),
    "histograms, 1": Mechanism("categorical", lambda pools: _histograms(pools, "1")),
}
"""Those that can be made now; a number is the epsilon."""


def release_of(pools: Pools, mechanism: str) -> pd.DataFrame:
    """Return one release of a mechanism, trained on the members."""
    chosen = MECHANISMS[mechanism]
    generator = load_generator(chosen.generator, chosen.options(pools))
    generator.prepare(pools.members, np.random.default_rng(pools.seed))
    drawn = generator.draw(Seed(pools.seed))
    return drawn[list(pools.members.columns)].astype(np.float64)
