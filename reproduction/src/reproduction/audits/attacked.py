"""The tables of the paper's attack study (App. V), their parts, and releases of ours on them.

Members are the training rows, reference the validation rows and nonmembers the audit rows of the
60/20/20 division that the paper's TabDDPM releases have. All columns are used, the outcome among
them, as numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from proxyguard.draw.catalog import load_generator
from proxyguard.draw.protocol import Seed
from reproduction.audits.benchmarks import BASES, BENCHMARKS
from reproduction.audits.kept import KEPT, path_of, recipes_of, release_table

if TYPE_CHECKING:
    import pandas as pd

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


TABLES = BENCHMARKS


def pools_of(table: str, study: str = "tabddpm") -> Pools:
    """Return members, reference and nonmembers of a table in a study's division."""
    benchmark = TABLES[table]
    members, reference, nonmembers = benchmark.parts(study)
    return Pools(
        members=members, reference=reference, nonmembers=nonmembers, outcome=benchmark.outcome,
        seed=BASES[study] + benchmark.index,
    )  # fmt: skip


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
    """A mechanism whose release on a table is attacked, in the division of a study."""

    release: Callable[[str, Pools], pd.DataFrame]
    study: str = "tabddpm"
    made: Callable[[str], bool] = lambda table: True
    """Whether there is a release on a table, or can be one."""
    needs: str | None = None  # the package without which it makes none


def _generated(name: str, options: Callable[[Pools], Options]) -> Callable[..., pd.DataFrame]:
    """Return what makes one release by a generator's name in a declaration and its options."""

    def release(table: str, pools: Pools) -> pd.DataFrame:
        generator = load_generator(name, options(pools))
        generator.prepare(pools.members, np.random.default_rng(pools.seed))
        return generator.draw(Seed(pools.seed))

    return release


def _kept_path(table: str, epsilon: int) -> Path:
    """Return where the first of the kept AIM releases of a table lies."""
    (recipe,) = (r for r in recipes_of(f"aim-{table}") if r.folder == f"aim-{table}-{epsilon}")
    return path_of(KEPT / recipe.folder, 0, recipe.seeds[0])


def _aim(epsilon: int) -> Mechanism:
    return Mechanism(
        lambda table, pools: release_table(_kept_path(table, epsilon)), study="aim",
        made=lambda table: table in PUBLISHED_TABLES and _kept_path(table, epsilon).exists(),
    )  # fmt: skip


TABDDPM: Mapping[str, object] = {"categories": "as numbers", "clip": "none"}
"""Options of the published TabDDPM that are not the defaults."""
PUBLISHED_TABLES = ("heart", "german", "taiwan")
MECHANISMS: Mapping[str, Mechanism] = {
    **{f"AIM, {epsilon}": _aim(epsilon) for epsilon in (1, 5, 10)},
    "TabDDPM": Mechanism(
        _generated("tabddpm", lambda pools: {**TABDDPM, "outcome": pools.outcome}),
        made=lambda table: table in PUBLISHED_TABLES,
        needs="torch",
    ),
    "bootstrap": Mechanism(_generated("bootstrap", lambda pools: {})),
    "noise": Mechanism(_generated("noise", lambda pools: {"keep": [pools.outcome]})),
    "denoising": Mechanism(_generated("denoising", _denoising)),
    "histograms, 10": Mechanism(_generated("categorical", lambda p: _histograms(p, "10"))),
    "histograms, 1": Mechanism(_generated("categorical", lambda p: _histograms(p, "1"))),
}
"""Those of the paper, then others; a number is the epsilon."""


def attacked() -> list[tuple[str, str]]:
    """Return the tables and mechanisms of which the page tells the attacks."""
    return [(t, name) for t in TABLES for name, chosen in MECHANISMS.items() if chosen.made(t)]


def attackable() -> list[tuple[str, str]]:
    """Return those of which there is a release, or can be one here."""
    needed = {name: chosen.needs for name, chosen in MECHANISMS.items()}
    here = {name for name, needs in needed.items() if needs is None or find_spec(needs)}
    return [(table, name) for table, name in attacked() if name in here]


def release_of(table: str, mechanism: str, pools: Pools) -> pd.DataFrame:
    """Return one release of a mechanism, trained on the members."""
    drawn = MECHANISMS[mechanism].release(table, pools)
    return drawn[list(pools.members.columns)].astype(np.float64)
