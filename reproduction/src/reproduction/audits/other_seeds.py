"""How far TabDDPM releases of other seeds lie from their source: is a published one unusual?

    python -m reproduction.audits.other_seeds [--draws N] [--jobs N] [--out FILE] [TABLE ...]

The paper has one TabDDPM release a table, and figures of single releases say nothing about the
mechanism until it is known how much they move with the seed. Here the release of the declaration
is drawn again beside releases of other seeds, all from the same training rows; the paper's
procedure is fitted to each, and its risks are compared with those of the source on the same target
rows. Every model of the library is kept beside the one with the least validation cost, as the
paper does not print which one its figures are of.

The figures are kept in `draws/tabddpm-seeds.json`: Taiwan's draws take minutes each on a CPU and
seconds on a GPU.
"""

from __future__ import annotations

import argparse
import multiprocessing
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from pydantic import ConfigDict, TypeAdapter
from pydantic.dataclasses import dataclass
from sklearn.metrics import roc_auc_score
from threadpoolctl import threadpool_limits

from proxyguard import DrawError
from proxyguard.adapters.library import Library
from proxyguard.draw.catalog import load_generator
from proxyguard.draw.protocol import Fitted, Seed, features, outcomes, predict
from proxyguard.registry.parts import Choose, Procedure
from proxyguard.registry.target import Outcome
from reproduction.audits.benchmarks import BENCHMARKS
from reproduction.audits.kept import KEPT
from reproduction.files import write_atomic

if TYPE_CHECKING:
    import pandas as pd

PATH = KEPT / "tabddpm-seeds.json"
DRAWS = {"heart": 100, "german": 100, "taiwan": 24}
POSITIVE = {"heart": "2", "german": "1", "taiwan": "1"}
DECLARED = {"heart": 2026, "german": 2027, "taiwan": 2028}
"""The seeds of the declared releases, which come first."""
OTHERS = 10_000
"""The first of the other seeds."""
FIGURES = ("AUC", "Brier", "Cost5x")


@dataclass(frozen=True, slots=True, kw_only=True, config=ConfigDict(extra="forbid"))
class Risks:
    """What one model does on the target."""

    auc: float
    brier: float
    cost: float
    validation: float
    """Its cost on the validation rows, by which a model is chosen."""

    @property
    def figures(self) -> tuple[float, float, float]:
        """In the order of `FIGURES`."""
        return self.auc, self.brier, self.cost


ByModel = Mapping[str, Risks]


@dataclass(frozen=True, slots=True, kw_only=True, config=ConfigDict(extra="forbid"))
class TableSeeds:
    """The risks of one table's source and of its releases, by model."""

    source: ByModel
    releases: Mapping[int, ByModel | None]
    """By seed; nothing where the draw failed or had one class only."""
    computed: Mapping[str, str]
    """Device, processor and versions of the draws."""

    def differences(self, model: str | None = None) -> np.ndarray:
        """Return release less source, a row a release: of one model, or of each side's cheapest."""
        least = model or cheapest(self.source)
        source = np.array(self.source[least].figures)
        rows = [
            np.array(risks[model or cheapest(risks)].figures) - source
            for risks in self.releases.values()
            if risks is not None
        ]
        return np.array(rows)


KeptSeeds = Mapping[str, TableSeeds]
KEPT_SEEDS = TypeAdapter(dict[str, TableSeeds])


def cheapest(risks: ByModel) -> str:
    """Return the model that the library would keep; ties go to the first in the alphabet."""
    return min(sorted(risks), key=lambda name: risks[name].validation)


def kept_seeds(path: Path = PATH) -> dict[str, TableSeeds]:
    """Return the figures that are kept, by table."""
    return KEPT_SEEDS.validate_json(path.read_bytes())


def releases_of(
    training: pd.DataFrame, outcome: str, seeds: Sequence[int]
) -> tuple[list[pd.DataFrame | DrawError], dict[str, str]]:
    """Return one release a seed, and what computed them."""
    options = {"outcome": outcome, "categories": "as numbers", "clip": "none"}
    generator: Any = load_generator("tabddpm", {**options, "together": 100, "memory": 60_000})
    generator.prepare(training, np.random.default_rng(0))
    drawn = [Seed(seed) for seed in seeds]
    tables = list(generator.draw_many(drawn))
    return tables, {name: str(fact) for name, fact in drawn[0].facts.items()}


def risks_of(
    name: str, validation: pd.DataFrame, target: pd.DataFrame, table: pd.DataFrame, seed: int,
    *, source: bool = False,
) -> dict[str, Risks] | None:  # fmt: skip
    """Return what every model of the library does on the target; nothing for one class only."""
    column = BENCHMARKS[name].outcome
    outcome = Outcome(column=column, positive=POSITIVE[name])
    names = [str(known) for known in target.columns if known != column]
    results: dict[str, Risks] = {}
    with threadpool_limits(1):
        for model in ("logistic", "forest", "boosting"):
            choose = Choose(loss="cost", false_negative="5", thresholds=501)
            library = Library(Procedure(library=(model,), choose=choose), outcome, names)
            try:
                fitted = library.fit(table, validation, Seed(seed), source=source)
            except DrawError:
                return None
            results[model] = _risks(fitted, target, outcome, names)
    return results


def _risks(fitted: Fitted, target: pd.DataFrame, outcome: Outcome, names: list[str]) -> Risks:
    y = outcomes(target[outcome.column], outcome, "target")
    p = predict(fitted, features(target, names), outcome)
    assert fitted.threshold is not None  # a rule for thresholds is declared
    said = p >= fitted.threshold
    cost = ((y > 0.5) & ~said) + ((y < 0.5) & said) / 5.0
    return Risks(
        auc=float(roc_auc_score(y, p)), brier=float(np.mean((p - y) ** 2)),
        cost=float(np.mean(cost)), validation=float(str(fitted.notes["loss"])),
    )  # fmt: skip


def table_seeds(name: str, draws: int, jobs: int) -> TableSeeds:
    """Draw and judge the declared release of a table, and those of other seeds."""
    training, validation, target = BENCHMARKS[name].parts("tabddpm")
    seeds = [DECLARED[name], *(OTHERS + k for k in range(draws - 1))]
    tables, computed = releases_of(training, BENCHMARKS[name].outcome, seeds)
    source_seed = BENCHMARKS[name].seed("tabddpm")
    source = risks_of(name, validation, target, training, source_seed, source=True)
    assert source is not None  # the training rows have both classes
    judge = partial(risks_of, name, validation, target)
    whole = [(k, table) for k, table in enumerate(tables) if not isinstance(table, DrawError)]
    context = multiprocessing.get_context("spawn")  # a fork would not have the GPU's threads
    with ProcessPoolExecutor(jobs, context) as processes:
        judged = processes.map(judge, [table for _, table in whole], [seeds[k] for k, _ in whole])
        known = dict(zip([k for k, _ in whole], judged, strict=True))
    releases = {seed: known.get(k) for k, seed in enumerate(seeds)}
    return TableSeeds(source=source, releases=releases, computed=computed)


def main() -> None:
    """Draw what is not kept, keep its figures, and print how far releases lie from their source."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("tables", nargs="*", metavar="TABLE", help=", ".join(DRAWS))
    parser.add_argument("--draws", type=int, help="so many releases of each table")
    parser.add_argument("--jobs", type=int, default=1, help="so many fits at once (1)")
    parser.add_argument("--out", type=Path, default=PATH)
    given = parser.parse_args()
    unknown = sorted(set(given.tables) - set(DRAWS))
    if unknown:
        parser.error(f"there is no table {unknown}; there are {', '.join(DRAWS)}")
    kept = kept_seeds(given.out) if given.out.exists() else {}
    for name in given.tables or DRAWS:
        draws = given.draws or DRAWS[name]
        if name not in kept or len(kept[name].releases) < draws:
            kept[name] = table_seeds(name, draws, given.jobs)
            write_atomic(given.out, KEPT_SEEDS.dump_json(kept, indent=1) + b"\n")
        rows = kept[name].differences()
        for figure, values in zip(FIGURES, rows.T, strict=True):
            print(
                f"{name}, {len(rows)} releases, {figure}: mean {values.mean():+.3f}, "
                f"sd {values.std(ddof=1):.3f}, {values.min():+.3f} to {values.max():+.3f}; "
                f"seed of the declaration {values[0]:+.3f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
