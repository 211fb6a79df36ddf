"""The documents of the text audit, arranged so that the registered division is the published one.

The paper permutes the 1,193 training documents by NumPy's generator and takes the first 895 as
source, the others for planning.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from proxyguard.tables.files import table_bytes
from reproduction.audits.arrange import divided
from reproduction.datasets import load
from reproduction.files import write_atomic

SEED = 26081701
SOURCE = 895
FRACTION = 0.2497  # of 1,193 documents: 298 for planning


def write_newsgroups(folder: Path) -> None:
    """Write the arranged training part, unless it is there."""
    place = folder / "newsgroups-arranged.parquet"
    if place.exists():
        return
    table = load.newsgroups("train")
    published = np.random.default_rng(SEED).permutation(len(table))
    order = divided(published[:SOURCE], published[SOURCE:], fraction=FRACTION, seed=SEED)
    write_atomic(place, table_bytes(table.iloc[order].reset_index(drop=True)))
