"""R's and polars' Arrow files are tables like others, and no larger than they say."""

from __future__ import annotations

import contextlib
import io
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.feather as feather
import pytest

from proxyguard.errors import TableError
from proxyguard.registry.target import TableReading
from proxyguard.tables import files
from proxyguard.tables.files import RawTable, as_frame, read_table

FRAME = pd.DataFrame({"x": [1.0, np.nan, 3.5], "t": ["a", "\u00e9", ""], "n": [1, 2, 3]})
CODED = pa.table({"t": pa.array(["u", "v", "u"] * 500).dictionary_encode(), "x": np.zeros(1500)})


def stream(table: pa.Table, compression: str | None) -> bytes:
    sink = io.BytesIO()
    options = pa.ipc.IpcWriteOptions(compression=compression)
    with pa.ipc.new_stream(sink, table.schema, options=options) as writer:
        writer.write_table(table)
    return sink.getvalue()


def packed(table: pa.Table, compression: str = "lz4") -> bytes:
    sink = io.BytesIO()
    feather.write_feather(table, sink, compression=compression)
    return sink.getvalue()


def first(table: pa.Table) -> bytes:
    sink = io.BytesIO()
    with warnings.catch_warnings():  # pyarrow may say that it is an old format
        warnings.simplefilter("ignore")
        feather.write_feather(table, sink, version=1)
    return sink.getvalue()


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("t.feather", packed(pa.Table.from_pandas(FRAME))),
        ("t.feather", packed(pa.Table.from_pandas(FRAME), "zstd")),
        ("t.feather", first(pa.Table.from_pandas(FRAME))),
        ("t.arrow", packed(pa.Table.from_pandas(FRAME), "uncompressed")),
        ("t.arrow", stream(pa.Table.from_pandas(FRAME), None)),
        ("t.ipc", stream(pa.Table.from_pandas(FRAME), "zstd")),
    ],
)
def test_a_file_of_arrow_is_read_as_the_table_that_it_is(
    tmp_path: Path, name: str, content: bytes
) -> None:
    (tmp_path / name).write_bytes(content)
    found = read_table(tmp_path / name, TableReading())
    pd.testing.assert_frame_equal(found, FRAME.astype({"t": object}))
    assert RawTable(tmp_path / name, TableReading()).column("n") == ["1", "2", "3"]


def test_a_file_cut_short_or_changed_is_refused_or_the_same_table(tmp_path: Path) -> None:
    whole, path = packed(CODED), tmp_path / "t.feather"
    rng = np.random.default_rng(1)
    for _ in range(150):
        changed = bytearray(whole)
        if rng.random() < 0.5:
            changed = changed[: int(rng.integers(0, len(whole)))]
        else:
            changed[int(rng.integers(0, len(whole)))] = int(rng.integers(0, 256))
        path.write_bytes(bytes(changed))
        with contextlib.suppress(TableError):  # any other error is a fault of ours
            assert read_table(path, TableReading()).shape[1] <= 2


@pytest.mark.parametrize("kind", ["zstd", "lz4"])
def test_a_file_that_unpacks_to_more_than_a_table_has_is_refused_before_it_is_made(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "t.feather"
    path.write_bytes(packed(pa.table({"x": np.zeros(400_000)}), kind))
    assert path.stat().st_size < 100_000
    assert len(read_table(path, TableReading())) == 400_000
    monkeypatch.setattr(files, "TEXT", 1_000_000)
    monkeypatch.setattr(pa.ipc, "open_stream", lambda *_: pytest.fail("it was unpacked"))
    with pytest.raises(TableError, match="has 3,200,000 bytes, unpacked, expected at most"):
        read_table(path, TableReading())


def test_nested_columns_and_other_things_are_no_tables(tmp_path: Path) -> None:
    path = tmp_path / "t.arrow"
    path.write_bytes(packed(pa.table({"x": [[1], [2]]})))
    with pytest.raises(TableError, match="column 'x' holds lists or tables"):
        read_table(path, TableReading())
    path.write_bytes(b"x,y\n1,2\n")
    with pytest.raises(TableError, match="no whole Arrow or Feather file"):
        read_table(path, TableReading())


def test_a_frame_of_any_library_is_one_of_pandas() -> None:
    arrow = pa.table({"when": pa.array(["2024-01-31"]).cast(pa.date32()), "n": [1]})
    frame = as_frame(arrow)
    assert frame.to_dict("list") == {"when": ["2024-01-31"], "n": [1]}
    assert as_frame(FRAME) is FRAME
    with pytest.raises(TableError, match="is a list; expected is a DataFrame of pandas or polars"):
        as_frame([1])
    with pytest.raises(TableError, match="is no table of named columns"):
        as_frame(pa.chunked_array([[1, 2]]))
