"""The target of a neural audit as a file of its own, which is how its design was lost.

Whoever is given such a file cannot see that the numbers of either class were fixed in advance;
the original analysis took its records for an iid sample. The rows are those of the audit with
fixed class strata: each class is permuted by the registered seed and dealt out, class 0 first.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from proxyguard.registry.declaration import read_declaration
from proxyguard.registry.target import StratifiedDesign
from reproduction.audits.arrange import divided
from reproduction.datasets import load
from reproduction.datasets.prepare import csv_bytes
from reproduction.files import write_atomic

FRACTION = 0.5  # of the rows outside the target: planning


def write_blocks(declaration: Path, name: str, folder: Path) -> None:
    """Write target and development of the audit declared there, unless they are there."""
    places = [folder / f"{name}-{role}.csv" for role in ("target", "development")]
    if all(place.exists() for place in places):
        return
    (member,) = read_declaration(declaration.read_text("utf-8")).members
    reserve, design, blocks = member.target.reserve, member.target.design, member.development.blocks
    if reserve is None or blocks is None or not isinstance(design, StratifiedDesign):
        raise ValueError(f"{declaration} declares no blocks of fixed strata")
    (loader,) = load.TABLES[name].values()
    table = loader()
    rng = np.random.default_rng(reserve.seed)
    dealt: tuple[list[int], list[int], list[int]] = ([], [], [])
    for stratum in design.sizes:
        rows = rng.permutation(np.flatnonzero(table[design.by].to_numpy() == float(stratum)))
        sizes = (blocks.training[stratum], blocks.validation[stratum], design.sizes[stratum])
        begin = 0
        for part, size in zip(dealt, sizes, strict=True):
            part += np.sort(rows[begin : begin + size]).tolist()
            begin += size
    training, validation, target = (np.array(part) for part in dealt)
    order = divided(training, validation, fraction=FRACTION, seed=reserve.seed)
    for place, chosen in zip(places, (rng.permutation(target), order), strict=True):
        write_atomic(place, csv_bytes(table.iloc[chosen]))
