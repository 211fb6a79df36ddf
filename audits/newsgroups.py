"""The documents of the text audit, arranged so that the registered division is the published one.

The paper permutes the 1,193 training documents by NumPy's generator and takes the first 895 as
source, the others for planning. An audit divides by scikit-learn's generator. So the rows are put
in an order in which that division, by the registered seed and fraction, gives the published parts.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from sklearn.model_selection import train_test_split

from proxyguard.datasets import load
from proxyguard.seal.storage import write_atomic
from proxyguard.seal.table import table_bytes

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
    first, second = train_test_split(np.arange(len(table)), test_size=FRACTION, random_state=SEED)
    if len(first) != SOURCE:
        raise ValueError(f"expected a source of {SOURCE} documents, got {len(first)}")
    order = np.empty(len(table), dtype=np.int64)
    order[first], order[second] = published[:SOURCE], published[SOURCE:]
    write_atomic(place, table_bytes(table.iloc[order].reset_index(drop=True)))
