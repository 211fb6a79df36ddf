"""Decisions of the fast path made again by what users call, on the losses themselves.

Studies never form losses where sums decide: they draw counts, ranks or moments and compare them
with bars. Here every loss of a repetition is drawn, the study's own methods decide from its sums,
`pg.certify` or `pg.certify_releases` decides from the array, and both must agree in every
repetition. So the figures of the paper vouch for the package and not for the studies alone.

A method that is no certificate (an oracle, a rule without a guarantee) and one that draws at
random inside cannot be asked of the package; `NOT_CERTIFIED` says which and why.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import partial
from zlib import crc32

import numpy as np

from reproduction.studies import catalog, certified_mechanisms, certified_targets
from reproduction.studies import certified_releases as releases
from reproduction.studies.run import Progress
from reproduction.studies.study import Cell, Study
from reproduction.studies.twice import Check, Twice

LEAST = 200
"""Repetitions of a cell that are decided again, at the least."""
SEED = 20261116


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """What a cell of a study came to, by method and metric."""

    study: str
    cell: int
    method: str
    metric: str
    repetitions: int
    differ: int


def cross_check(
    studies: Sequence[Study],
    *,
    repetitions: int = LEAST,
    seed: int = SEED,
    cells: Sequence[int] | None = None,
    pool: Executor | None = None,
    progress: Progress | None = None,
) -> list[Checked]:
    """Return how often the studies and the package decide differently; they never should.

    Parameters
    ----------
    studies
        Those of `checked_studies`, or some of them.
    repetitions
        Of each cell.
    seed
        Of the losses; every cell has a stream of its own.
    cells
        Indices of the cells, all unless given.
    pool
        Processes that cells are checked in, made by `workers`.
    progress
        Is told what is checked, and how much of it is done.
    """
    tasks = [
        (study.name, index, repetitions, seed)
        for study in studies
        for index in (range(len(study.cells)) if cells is None else cells)
    ]
    found: list[Checked] = []
    for done, one in enumerate((map if pool is None else pool.map)(_check_cell, tasks), start=1):
        found += one
        if progress is not None:
            progress("decided again by the package", done, len(tasks))
    return found


def _check_cell(task: tuple[str, int, int, int]) -> list[Checked]:
    name, index, repetitions, seed = task
    rng = np.random.default_rng([seed, crc32(name.encode()), index])
    return [
        Checked(
            study=name,
            cell=index,
            method=both.method,
            metric=both.metric,
            repetitions=both.fast.size,
            differ=both.differ,
        )
        for both in CHECKS[name](catalog.STUDIES[name].cells[index], rng, repetitions)
    ]


DIAGNOSTIC = "a rule without a guarantee, which the package does not offer"
ORACLE = "knows which releases are valid"
RANDOMIZED = "decides by uniforms, and the package draws its own"
UNOFFERED = "the package bounds ramp scores by concentration alone"
_COMPARISON = {
    "oracle": ORACLE,
    **{
        f"{mode}, randomized binomial": RANDOMIZED for mode in ("named", "sharp", "count", "hybrid")
    },
    "count, betting": certified_targets.TUNED,
    "hybrid, betting": certified_targets.TUNED,
}
NOT_CERTIFIED: Mapping[str, Mapping[str, str]] = {
    "calibration": {"point threshold": DIAGNOSTIC},
    "held-out-regrets": {"point threshold": DIAGNOSTIC, "Holm, randomized binomial": RANDOMIZED},
    "adaptive-stream": {"fixed": DIAGNOSTIC},
    "mechanism-calibration": {
        **dict.fromkeys(("plug-in", "point rule + binomial", "per-release IUT"), DIAGNOSTIC),
        "oracle": ORACLE,
    },
    "error-split": {"oracle": ORACLE},
    "near-boundary": {"uncorrected": DIAGNOSTIC, "oracle": ORACLE},
    "shared-target-pilot": {"oracle": ORACLE},
    "shared-target": {"oracle": ORACLE, "count, betting": certified_targets.TUNED},
    "mode-comparison": _COMPARISON,
    "mode-comparison-high-signal": _COMPARISON,
    "false-pass-pilot": {"score only": DIAGNOSTIC, "oracle": ORACLE},
    "false-pass": {
        "score only": DIAGNOSTIC,
        "oracle": ORACLE,
        "count, betting": certified_targets.TUNED,
    },
    "smooth-target": {
        "oracle": ORACLE,
        "count, betting": certified_targets.TUNED,
        "ramp + Markov": UNOFFERED,
        "ramp + Markov, rescaled": UNOFFERED,
        "ramp, sharp": RANDOMIZED,
    },
    "component-tests": {"randomized_binomial": RANDOMIZED},
    "sharp-rates": {"oracle": ORACLE, "sharp, randomized binomial": RANDOMIZED},
    "violation-direct-holm": {"oracle": ORACLE},
}
"""Methods that are not decided again, by study, with the reason."""


def _check_target(
    name: str, cell: Cell, rng: np.random.Generator, repetitions: int
) -> Iterator[Twice]:
    make = certified_targets.CHECKS[name]
    return make(catalog.STUDIES[name], NOT_CERTIFIED[name])(cell, rng, repetitions)


CHECKS: Mapping[str, Check] = {
    "calibration": releases.check_calibration,
    "target-reuse": releases.check_reuse,
    "held-out-regrets": releases.check_held_out,
    "rare-group": releases.check_rare_group,
    "adaptive-stream": releases.check_adaptive,
    "component-tests": releases.check_components,
    "exposure": releases.check_exposure,
    **certified_mechanisms.CHECKS,
    **{name: partial(_check_target, name) for name in certified_targets.CHECKS},
}


def verdict(found: Sequence[Checked]) -> str:
    """Return in a sentence how the comparison came out."""
    results, differ = sum(one.repetitions for one in found), sum(one.differ for one in found)
    studies = len({one.study for one in found})
    return (
        f"{results:,} results of {studies} {'study' if studies == 1 else 'studies'} were decided "
        f"again by the package on the losses themselves; {differ:,} differ."
    )


def checked_studies() -> list[Study]:
    """Return the studies whose decisions are made again, in the paper's order."""
    return [study for study in catalog.STUDIES.values() if study.name in CHECKS]
