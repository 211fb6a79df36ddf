"""Per-record outputs, written only on request and only encrypted."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa

from proxyguard.audit.score import Scorer
from proxyguard.audit.target import Chunk
from proxyguard.losses.measure import Predicted
from proxyguard.seal.crypto import Holder
from proxyguard.seal.sealed_file import seal_table


class RecordWriter:
    """Collects positions, outcomes, predictions and thresholds as they are scored."""

    def __init__(self) -> None:
        self._parts: list[pa.Table] = []

    def attach(self, scorer: Scorer, mechanism: str) -> Scorer:
        """Return the scorer, now also telling what it predicts."""

        def keep(chunk: Chunk, source: Predicted | None, releases: dict[str, Predicted]) -> None:
            for name, predicted in releases.items():
                self._parts.append(_table(chunk, source, mechanism, name, predicted))

        return replace(scorer, on_chunk=keep)

    def sealed(self, holder: Holder) -> bytes:
        """Return all records, encrypted for their holder."""
        table = pa.concat_tables(self._parts) if self._parts else pa.table({"position": []})
        return seal_table(table, [holder]).content


def _table(
    chunk: Chunk, source: Predicted | None, mechanism: str, release: str, predicted: Predicted
) -> pa.Table:
    n = len(chunk.positions)
    missing = np.full(n, np.nan)
    return pa.table(
        {
            "mechanism": pa.array([mechanism] * n),
            "release": pa.array([release] * n),
            "position": pa.array(chunk.positions),
            "outcome": pa.array(missing if chunk.y is None else chunk.y),
            "source": pa.array((missing if source is None else source.values).tolist()),
            "prediction": pa.array(predicted.values.tolist()),
            "threshold": pa.array(
                np.full(n, np.nan if predicted.threshold is None else predicted.threshold)
            ),
        }
    )
