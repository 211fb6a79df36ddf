"""The parts of the stand-in audits, made from the prepared tables by the paper's rules.

* Bank Marketing is in the order of dates and names months but no years. The source is everything
  before the first January, the proxy what follows until the second, the target the rest. The last
  fifth of source and proxy chooses: rows of the source are put where the registered division will
  pick them, and those of the proxy stay in the order of dates.
* Heart Disease: Cleveland, Hungarian, and Switzerland with VA Long Beach. What is missing is left
  missing; the procedure fills it with the medians of the rows that it learns from.
* Adult, the training part: a random quarter is the target, of the others two thirds are the
  source and a third is the proxy, which lacks six columns.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

from reproduction.audits.arrange import divided
from reproduction.datasets import load
from reproduction.datasets.prepare import csv_bytes
from reproduction.files import write_atomic

BANK_SEED, BANK_FRACTION = 3407, 0.2  # of the division that the declarations register
ADULT_SEED = 3409
ADULT_LACKS = ("age", "race", "sex", "native-country", "capital-gain", "capital-loss")
SIZES = {"bank": (27_729, 14_862, 2_620), "heart": (303, 294, 323), "adult": (16_280, 8_140, 8_141)}
"""Rows of source, proxy and target; those of Bank Marketing, and the targets, are published."""

Parts = tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame]


def write_stand_ins(folder: Path) -> None:
    """Write source, proxy and target of the three tables; files that are there stay."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, make in (("bank", bank), ("heart", heart), ("adult", adult)):
        places = [folder / f"{name}-{role}.csv" for role in ("source", "proxy", "target")]
        if all(place.exists() for place in places):
            continue
        parts = make()
        found = tuple(len(part) for part in parts)
        if found != SIZES[name]:
            raise ValueError(f"{name}: expected parts of {SIZES[name]} rows, got {found}")
        for place, part in zip(places, parts, strict=True):
            write_atomic(place, csv_bytes(part))


def bank() -> Parts:
    """Return Bank Marketing before, between and after the first and second January."""
    table = load.bank()
    january = (table["month"] == "jan").to_numpy()
    first, second = np.flatnonzero(january & ~np.r_[False, january[:-1]])[:2]
    rows = np.arange(first)
    end = 4 * rows.size // 5
    order = divided(rows[:end], rows[end:], fraction=BANK_FRACTION, seed=BANK_SEED)
    return table.iloc[order], table.iloc[first:second], table.iloc[second:]


def heart() -> Parts:
    """Return Heart Disease by clinic."""
    rest = pd.concat([load.heart("switzerland"), load.heart("va")], ignore_index=True)
    return load.heart("cleveland"), load.heart("hungarian"), rest


def adult(seed: int = ADULT_SEED) -> Parts:
    """Return three disjoint cohorts of Adult, the proxy without the columns it lacks."""
    table = load.adult("train")
    order = np.random.default_rng(seed).permutation(len(table))
    source, proxy, _ = SIZES["adult"]
    parts = np.split(order, [source, source + proxy])
    first, second, third = (table.iloc[np.sort(part)] for part in parts)
    return first, second.drop(columns=list(ADULT_LACKS)), third
