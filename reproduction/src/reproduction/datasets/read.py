"""From the bytes of a text table to a typed table; a value of another kind is an error."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.csv

from proxyguard import TableError
from proxyguard.tables.files import to_frame
from reproduction.datasets.domains import Domains

if TYPE_CHECKING:
    import pandas as pd


def read(
    name: str,
    raw: bytes,
    columns: Sequence[str],
    registered: Domains | None = None,
    *,
    separator: str = ",",
    header: bool = False,
    outside: str | None = None,
) -> pd.DataFrame:
    """Return text as a table; columns with a domain are text, and all others are numbers."""
    registered = registered or {}
    kinds = {c: pa.string() if c in registered else pa.float64() for c in columns}
    try:
        table = pa.csv.read_csv(
            io.BytesIO(raw),
            read_options=pa.csv.ReadOptions(
                use_threads=False, column_names=None if header else list(columns)
            ),
            parse_options=pa.csv.ParseOptions(delimiter=separator),
            convert_options=pa.csv.ConvertOptions(
                column_types=kinds, null_values=["", "?", "NA"], strings_can_be_null=False
            ),
        )
    except pa.ArrowException as error:
        raise TableError(f"{name} is no table of its columns: {error}") from error
    if table.column_names != list(columns):
        raise TableError(f"{name}: expected {list(columns)}, found {table.column_names}")
    return _registered(name, to_frame(table), registered, outside)


def _registered(
    name: str, frame: pd.DataFrame, registered: Domains, outside: str | None
) -> pd.DataFrame:
    """Return the table; text outside its domain becomes ``outside``, or is an error."""
    for column, domain in registered.items():
        strange = ~frame[column].isin(domain)
        if outside is not None and outside in domain:
            frame[column] = frame[column].mask(strange, outside).astype(object)
        elif strange.any():
            row = int(np.flatnonzero(strange)[0])
            raise TableError(
                f"{name}, row {row}: {column!r} is {frame[column].iloc[row]!r}, and its "
                f"registered domain is {list(domain)}"
            )
    return frame


def read_given(
    name: str,
    raw: bytes,
    columns: Sequence[str],
    registered: Domains,
    missing: Sequence[str] = (),
) -> pd.DataFrame:
    """Return columns of a file that the user brought; of two with one name, the first."""
    import pandas as pd

    picked = _picked(name, raw, columns)
    frame = pd.DataFrame(
        {
            column: pd.Series(
                values if column in registered else _numbers(name, column, values, missing),
                dtype=object if column in registered else np.float64,
            )
            for column, values in picked.items()
        }
    )
    return _registered(name, frame, registered, None)


def _picked(name: str, raw: bytes, columns: Sequence[str]) -> dict[str, list[str]]:
    """Return the text of some columns of a CSV file with a header."""
    try:
        header, *rows = csv.reader(io.StringIO(raw.decode("utf-8-sig"), newline=""), strict=True)
    except (ValueError, csv.Error) as error:
        raise TableError(f"{name}: the file is no CSV table in UTF-8: {error}") from error
    absent = [column for column in columns if column not in header]
    if absent:
        raise TableError(f"{name}: the file has no columns {absent}; it has {header[:12]}")
    for number, row in enumerate(rows):
        if len(row) != len(header):
            raise TableError(
                f"{name}, row {number} has {len(row)} values, and there are {len(header)} columns"
            )
    places = {column: header.index(column) for column in columns}
    return {column: [row[place] for row in rows] for column, place in places.items()}


def _numbers(name: str, column: str, values: Iterable[str], missing: Sequence[str]) -> list[float]:
    found = []
    for row, value in enumerate(values):
        try:
            number = np.nan if value in missing else float(value)
        except ValueError:
            number = np.inf
        if np.isinf(number) or (np.isnan(number) and value not in missing):
            raise TableError(f"{name}, row {row}: {column!r} holds numbers, found {value!r}")
        found.append(number)
    return found
