"""What makes two records the same: their values, whatever the file, its order or its types.

A record's fingerprint is keyed, so that a store of fingerprints tells nothing about records
to whoever lacks the key. A table's identity is that of its multiset of records.
"""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import dataclass
from math import lgamma
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from proxyguard.registry.value import canonical_value as canonical_value  # and from here
from proxyguard.seal.table import as_text

if TYPE_CHECKING:
    import pandas as pd

SIZE = 16
"""Bytes of a fingerprint: enough that no two of a billion records collide by chance."""

Prints = NDArray[np.bytes_]


def fingerprints(frame: pd.DataFrame, key: bytes) -> Prints:
    """Return the keyed fingerprint of every record; columns are taken by name."""
    import pandas as pd

    names = sorted(str(name) for name in frame.columns)
    head = hashlib.blake2b("\x1f".join(names).encode(), digest_size=SIZE).digest()
    blocks = []
    for name in names:
        codes, values = pd.factorize(frame[name].map(as_text), use_na_sentinel=False)
        digests = np.frombuffer(
            b"".join(
                hashlib.blake2b(canonical_value(str(v)).encode(), digest_size=SIZE).digest()
                for v in values
            ),
            dtype=f"S{SIZE}",
        )
        # Through integers: a bytes array drops trailing zeros, which a digest may have.
        table = digests.view(np.uint8).reshape(-1, SIZE) if values.size else np.zeros((0, SIZE))
        blocks.append(np.asarray(table, dtype=np.uint8)[codes])
    rows = np.ascontiguousarray(np.concatenate(blocks, axis=1))
    out = b"".join(hmac.digest(key, head + row.tobytes(), "sha256")[:SIZE] for row in rows)
    return np.frombuffer(out, dtype=f"V{SIZE}")


@dataclass(frozen=True, slots=True, eq=False)
class RecordSet:
    """Records of one table in one role: fingerprints and occurrences within the table."""

    table: str  # identity of the table
    prints: Prints  # (n,)
    occurrences: NDArray[np.int64]  # (n,) 0 for the first record of these values, and so on

    def __len__(self) -> int:
        return int(self.prints.size)

    def shared_with(self, other: RecordSet) -> int:
        """Return how many of these records are records of ``other``: same table, same record."""
        if self.table != other.table:
            return 0
        theirs = set(zip(other.prints.tolist(), other.occurrences.tolist(), strict=True))
        mine = zip(self.prints.tolist(), self.occurrences.tolist(), strict=True)
        return sum(record in theirs for record in mine)

    def twins_in(self, other: RecordSet) -> int:
        """Return how many of these records have the values of some record of ``other``."""
        return int(np.isin(self.prints, other.prints).sum())

    def twinned(self) -> float:
        """Return the share of these records with a twin among themselves."""
        _, counts = np.unique(self.prints, return_counts=True)
        return float(counts[counts > 1].sum() / max(1, len(self)))


def identify(prints: Prints, columns: list[str]) -> tuple[str, NDArray[np.int64]]:
    """Return the identity of a table and each record's occurrence within it."""
    order = np.argsort(prints, kind="stable")
    ordered = prints[order]
    total = hashlib.sha256("\x1f".join(sorted(columns)).encode())
    total.update(ordered.tobytes())
    fresh = np.ones(prints.size, dtype=bool)
    fresh[1:] = ordered[1:] != ordered[:-1]
    starts = np.maximum.accumulate(np.where(fresh, np.arange(prints.size), 0))
    occurrences = np.empty(prints.size, dtype=np.int64)
    occurrences[order] = np.arange(prints.size) - starts
    return total.hexdigest(), occurrences


def expected_twins(prints: Prints, reserved: int, others: int | None = None) -> float:
    """Return how many reserved records have a twin among ``others`` by coincidence alone.

    ``reserved`` of the table's records are drawn at random without replacement, and then
    ``others`` of the rest (all of it, if nothing is said). A reserved record whose values
    occur ``c`` times has no twin there if none of its ``c - 1`` twins was taken, which has
    chance ``C(N-1-m, c-1)/C(N-1, c-1)`` for ``m`` others.
    """
    total = int(prints.size)
    m = total - reserved if others is None else others
    _, counts = np.unique(prints, return_counts=True)
    sizes, times = np.unique(counts, return_counts=True)
    expected = 0.0
    for c, k in zip(sizes.tolist(), times.tolist(), strict=True):
        alone = 0.0
        if c - 1 <= total - 1 - m:
            alone = np.exp(_log_choose(total - 1 - m, c - 1) - _log_choose(total - 1, c - 1))
        expected += k * c * (1.0 - alone)
    return float(expected * reserved / total)


def _log_choose(n: int, k: int) -> float:
    return lgamma(n + 1) - lgamma(k + 1) - lgamma(n - k + 1)
