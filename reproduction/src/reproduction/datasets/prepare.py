"""The tables that audits read, written as files: the same bytes for the same data."""

from __future__ import annotations

import hashlib
import io
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.csv

from proxyguard import TableError
from proxyguard.tables.files import table_bytes
from reproduction.datasets import load
from reproduction.datasets.catalog import Origin, entry
from reproduction.files import write_atomic

if TYPE_CHECKING:
    import pandas as pd

FORMS = ("csv", "parquet")


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """A table that was written: where, how large, and with which digest."""

    path: Path
    rows: int
    columns: tuple[str, ...]
    sha256: str


def prepare(
    name: str, folder: Path, *, form: str | None = None, file: Path | None = None
) -> tuple[Prepared, ...]:
    """Return the tables of a data set, written into ``folder``.

    ``form`` is csv or parquet; unless it is given, text that may hold line ends is written as
    Parquet and all else as CSV. ``file`` is the user's own, where a data set needs one. A CSV
    depends on its values alone, a Parquet file also on the version of its writer.
    """
    if form not in (None, *FORMS):
        raise TableError(f"tables are written as {FORMS}, got {form!r}")
    loaders = dict(load.TABLES[entry(name).name])
    if file is not None:
        if entry(name).origin is not Origin.USER:
            raise TableError(f"{name} has files of its own, verified by digest; give no file")
        loaders = {table: partial(loader, file) for table, loader in loaders.items()}
    folder.mkdir(parents=True, exist_ok=True)
    return tuple(_write(folder, table, loader(), form) for table, loader in loaders.items())


def _write(folder: Path, table: str, frame: pd.DataFrame, form: str | None) -> Prepared:
    chosen = form or ("parquet" if "text" in frame.columns else "csv")
    content = csv_bytes(frame) if chosen == "csv" else table_bytes(frame)
    place = folder / f"{table}.{chosen}"
    write_atomic(place, content)
    return Prepared(
        path=place,
        rows=len(frame),
        columns=tuple(frame.columns),
        sha256=hashlib.sha256(content).hexdigest(),
    )


def csv_bytes(frame: pd.DataFrame) -> bytes:
    """Return a table as CSV: whole numbers without a point, others shortest, NaN as nothing."""
    columns = {}
    for name in frame.columns:
        values = frame[name].to_numpy()
        if values.dtype.kind == "f" and bool(np.all(values == np.floor(values))):
            values = values.astype(np.int64)
        columns[str(name)] = pa.array(values, from_pandas=True)
    sink = io.BytesIO()
    sink.write((",".join(columns) + "\n").encode())
    options = pa.csv.WriteOptions(include_header=False, quoting_style="none")
    try:
        pa.csv.write_csv(pa.table(columns), sink, options)
    except pa.ArrowException as error:
        raise TableError(
            f"the table has text that a line of CSV cannot hold unquoted: {error}; write it as "
            "Parquet"
        ) from error
    return sink.getvalue()
