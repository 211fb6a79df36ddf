"""A part of a chunk of the target has all that is known of its records."""

from __future__ import annotations

from dataclasses import fields

import numpy as np
import pandas as pd

from proxyguard.audit.target import Chunk
from proxyguard.losses.records import Records


def test_some_rows_of_a_chunk_keep_every_column_of_what_is_known() -> None:
    ids, weights = np.arange(5), np.arange(5.0)
    records = Records(
        ids=ids, strata=ids, clusters=ids, weights=weights, groups={"g": ids > 2}, random_order=True
    )
    assert all(getattr(records, field.name) is not None for field in fields(records))
    chunk = Chunk(frame=pd.DataFrame({"x": ids}), positions=ids, y=weights, records=records)
    part = chunk.rows(1, 4).records
    for name in ("ids", "strata", "clusters", "weights"):
        np.testing.assert_array_equal(part.column(name), records.column(name)[1:4])  # type: ignore[index]
    np.testing.assert_array_equal(part.groups["g"], ids[1:4] > 2)
    assert part.random_order
