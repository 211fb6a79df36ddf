"""Tables as files: rows taken by position before anything in them is read.

A text table is split into lines, and lines are set aside by their number; only then is
either part parsed. What a column holds, a number or text, is learned from the development
part alone, and the target's records are kept as text until they are scored.
"""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import zlib
from collections.abc import Sequence
from datetime import date, time, timedelta
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from proxyguard.errors import BrokenTable, TableError
from proxyguard.registry.target import Reading
from proxyguard.seal.inside import open_plain, read_whole

if TYPE_CHECKING:
    import pandas as pd

Positions = NDArray[np.int64]
CELLS = 50_000_000
"""Cells of a table, 400 MB as doubles: what a file of a megabyte must not exceed unseen."""
TEXT = 2**31
"""Bytes of a table's file, of its text, and of a Parquet file's columns, unpacked."""
LINES = 2**24
"""Lines of a text table: each is an object, and a compressed megabyte holds a thousand million."""
BATCH = 2**16
"""Rows that are unpacked at once."""
BLOCK = 2**20
"""Bytes of text that are unpacked at once."""


class RawTable:
    """The rows of a table file, by position, before any value is parsed.

    ``content`` are its bytes, where they were read already: what is digested and what is parsed
    are then the same bytes, whatever happens to the file in between.
    """

    def __init__(self, path: Path, reading: Reading, content: bytes | None = None) -> None:
        self._path, self._reading = path, reading
        self._arrow: pa.Table | None = None
        self._lines: list[bytes] = []
        self._header: list[str] = []
        content = read_file(path) if content is None else content
        if path.suffix == ".parquet":
            self._arrow = _arrow(content, path.name)
            self._header = list(self._arrow.column_names)
        else:
            self._read_lines(_text_of(content, path))
        if len(set(self._header)) < len(self._header):
            raise TableError(f"{path.name} has two columns of one name: {self._header}")

    def _read_lines(self, content: bytes) -> None:
        lines = self._split(content)
        while lines and not lines[-1]:
            lines.pop()
        above = 0
        if self._reading.header:
            start = next((k for k, line in enumerate(lines) if line.strip()), None)
            if start is None:
                raise TableError(f"{self._path.name} is empty")
            self._header = [name.strip() for name in _fields(lines[start], self._reading)]
            above = start + 1
        else:
            self._header = list(self._reading.columns)
        cells = (len(lines) - above) * len(self._header)
        if cells > CELLS:
            raise TableError(
                f"{self._path.name} has {cells:,} cells; a table here has at most {CELLS:,}"
            )
        blanks = b"" if self._reading.separator.isspace() else b" \t"
        for number, line in enumerate(lines[above:], start=above + 1):
            # Of one column an empty line is a missing value.
            if len(self._header) == 1 or line.strip(blanks or b"\n"):
                self._check_line(number, line)
                self._lines.append(line)

    def _split(self, content: bytes) -> list[bytes]:
        """Return the lines of a text, counted before they are made."""
        ends = content.count(b"\n") + content.count(b"\r") - content.count(b"\r\n")
        if ends > LINES:
            raise _too_many_lines(self._path, ends)
        return content.splitlines()

    def _check_line(self, number: int, line: bytes) -> None:
        """Refuse a row with more or fewer values than there are columns; none is dropped."""
        found = line.count(self._reading.separator.encode()) + 1
        if b'"' in line:
            if line.count(b'"') % 2:
                raise TableError(
                    f"{self._path.name}, line {number} has a quoted field that goes on in the next "
                    "line; rows are set aside by line, so convert the table to Parquet"
                )
            found = len(_fields(line, self._reading))
        if found != len(self._header):
            raise TableError(
                f"{self._path.name}, line {number} has {found} values, and there are "
                f"{len(self._header)} columns"
            )

    @property
    def columns(self) -> list[str]:
        """The names of the columns, in the file's order."""
        return list(self._header)

    def __len__(self) -> int:
        return len(self._lines) if self._arrow is None else self._arrow.num_rows

    def column(self, name: str) -> list[str]:
        """Return one column as text, and nothing else of the table."""
        if name not in self._header:
            raise TableError(f"{self._path.name} has no column {name!r}; it has {self._header}")
        if self._arrow is not None:
            # Numbers as they are stored: a frame would make doubles of whole numbers with gaps.
            if _is_number(self._arrow.schema.field(name).type):
                return [as_text(value) for value in self._arrow.column(name).to_pylist()]
            return [str(value) for value in to_frame(self._arrow.select([name]))[name]]
        frame = _parse(self._lines, self._reading, self._header, only=name)
        return [str(value) for value in frame[name]]

    def take(self, positions: Positions) -> pd.DataFrame:
        """Return these rows: text as it stands in the file, or the types of a Parquet file."""
        if self._arrow is not None:
            return to_frame(self._arrow.take(pa.array(positions)))
        return _parse([self._lines[i] for i in positions], self._reading, self._header)


def read_file(path: Path) -> bytes:
    """Return the bytes of a table's file, which is a plain one and no larger than `TEXT`."""
    try:
        with open_plain(path, most=TEXT) as file:
            return read_whole(file)
    except FileNotFoundError:
        raise TableError(f"there is no table at {path}") from None
    except OSError as error:
        raise TableError(f"{path.name} could not be read: {error.strerror or error}") from error


def _text_of(content: bytes, path: Path) -> bytes:
    try:
        if path.suffix == ".gz":
            content = _unpacked(content, path)
        if len(content) > TEXT:
            raise TableError(
                f"{path.name} has more than {TEXT:,} bytes of text; write the table as Parquet, or "
                "as several"
            )
    except (OSError, EOFError, zlib.error) as error:
        raise TableError(f"{path.name} could not be read: {error}") from error
    return content.removeprefix(codecs.BOM_UTF8)


def _unpacked(content: bytes, path: Path) -> bytes:
    """Return the text of a compressed file, up to a byte too many; lines are counted on the way."""
    text, newlines, returns = io.BytesIO(), 0, 0
    with gzip.open(io.BytesIO(content)) as file:
        while text.tell() <= TEXT and (part := file.read(min(BLOCK, TEXT + 1 - text.tell()))):
            newlines += part.count(b"\n")
            returns += part.count(b"\r")
            if max(newlines, returns) > LINES:  # a line may end in both, so not their sum
                raise _too_many_lines(path, max(newlines, returns))
            text.write(part)
    return text.getvalue()


def _too_many_lines(path: Path, lines: int) -> TableError:
    return TableError(
        f"{path.name} has {lines:,} lines or more, expected at most {LINES:,}; write the table as "
        "Parquet, or as several"
    )


def _arrow(content: bytes, name: str) -> pa.Table:
    """Return a Parquet file as a table, once it is known how much that is.

    Compressed columns take a byte for ten thousand values, and a text that every record repeats
    is stored once. So cells are counted before they are made, text stays coded, and what the
    pages hold is counted as they are read: their sizes are written by whoever made the file.
    """
    try:
        with pq.ParquetFile(io.BytesIO(content)) as file:
            cells = file.metadata.num_rows * max(1, file.metadata.num_columns)
            schema = file.schema_arrow
        nested = [field.name for field in schema if pa.types.is_nested(field.type)]
        if nested:
            raise TableError(f"{name}: column {nested[0]!r} holds lists or tables, and no values")
        if cells > CELLS:
            raise TableError(f"{name} has {cells:,} cells; a table here has at most {CELLS:,}")
        texts = [field.name for field in schema if _is_text(field.type)]
        batches, held = [], 0
        with pq.ParquetFile(io.BytesIO(content), read_dictionary=texts) as file:
            schema = file.schema_arrow
            for batch in file.iter_batches(batch_size=BATCH, use_threads=False):
                held += batch.nbytes
                if held > TEXT:
                    raise TableError(f"{name} has more than {TEXT:,} bytes, unpacked")
                batches.append(batch)
        return pa.Table.from_batches(batches, schema).unify_dictionaries()
    except MemoryError:
        raise  # which says nothing about the table
    except (OSError, pa.ArrowException) as error:
        raise TableError(f"{name} is no whole Parquet file: {error}") from error


def _is_text(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_binary(kind)
    )


def _is_number(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)
    )


def _fields(line: bytes, reading: Reading) -> list[str]:
    """Return the values of one line, quotes undone."""
    try:
        text = line.decode("utf-8")
    except UnicodeDecodeError as error:
        raise TableError(f"the table is no UTF-8 text: {error}") from error
    (fields,) = csv.reader([text], delimiter=reading.separator, skipinitialspace=True)
    return fields


def _parse(
    lines: Sequence[bytes], reading: Reading, header: list[str], only: str | None = None
) -> pd.DataFrame:
    """Return lines as a frame of text, values as they are written, without outer blanks."""
    import pandas as pd

    if not lines:
        return pd.DataFrame({name: pd.Series([], dtype=object) for name in header})
    try:
        frame = pd.read_csv(
            io.BytesIO(b"\n".join(lines) + b"\n"),
            sep=reading.separator,
            header=None,
            names=header,
            usecols=None if only is None else [only],
            dtype=object,
            keep_default_na=False,
            index_col=False,
            skipinitialspace=True,
            skip_blank_lines=False,
            encoding="utf-8",
        )
    except (ValueError, pd.errors.ParserError) as error:
        raise TableError(f"the table has rows that are no rows of its columns: {error}") from error
    before = b" " + reading.separator.encode()
    if any(before in line or line.endswith(b" ") for line in lines):
        for name in frame.columns:
            frame[name] = frame[name].map(str.strip).astype(object)
    return frame


def typed(frame: pd.DataFrame, kinds: dict[str, str], missing: Sequence[str]) -> pd.DataFrame:
    """Return a frame of text with its numbers as numbers; a value of another kind is an error."""
    import pandas as pd

    columns: dict[str, Any] = {}
    if not frame.columns.is_unique:
        twice = frame.columns[frame.columns.duplicated()].tolist()
        raise TableError(f"the records have two columns of one name: {twice[0]!r}; rename one")
    for name, kind in kinds.items():
        if name not in frame.columns:
            raise TableError(f"column {name!r} is missing; the records have {list(frame.columns)}")
        values = frame[name]
        if kind == "text":
            columns[name] = as_texts(values)
        elif is_number(values):
            columns[name] = values.astype(np.float64)
        else:
            values = held(values)
            blank = values.isin(list(missing)) | values.isna()
            numbers = pd.to_numeric(values.where(~blank, "nan"), errors="coerce")
            wrong = np.flatnonzero(numbers.isna().to_numpy() & ~blank.to_numpy())
            if wrong.size:
                raise TableError(
                    f"column {name!r} holds numbers, and row {wrong[0]} has "
                    f"{values.iloc[wrong[0]]!r}; mend it or list it in read.missing"
                )
            columns[name] = numbers.astype(np.float64)
    return pd.DataFrame(columns)


def kinds_of(frame: pd.DataFrame, missing: Sequence[str], text: Sequence[str]) -> dict[str, str]:
    """Return whether each column holds numbers or text; ``text`` names those that do by role."""
    import pandas as pd

    kinds = {}
    for name in frame.columns:
        if is_number(frame[name]) and name not in text:
            kinds[str(name)] = "number"
            continue
        values = held(frame[name])
        if name in text:
            kinds[str(name)] = "text"
        else:
            known = values[~(values.isin(list(missing)) | values.isna())]
            numbers = pd.to_numeric(known, errors="coerce")
            kinds[str(name)] = "text" if bool(numbers.isna().any()) else "number"
    return kinds


PLAIN = (str, bool, np.bool_, int, np.integer, float, np.floating, Decimal)
"""What stands in a column as it is; dates and times of day stand there as their text."""
CONVERT = {
    "complex": "its real and its imaginary part, two columns of numbers",
    "Timedelta": "a number, such as its seconds (.dt.total_seconds())",
    "Period": "text (.astype(str)) or the date at which it starts (.dt.to_timestamp())",
    "Interval": "text (.astype(str)) or its two ends, two columns of numbers",
    "bytes": "text, by decoding them",
}
"""What to make of the values that no column may hold."""


def is_number(values: pd.Series[Any]) -> bool:
    """Return whether a column is one of numbers by its type; text that reads as numbers is not."""
    return values.dtype.kind in "fiub"


def held(values: pd.Series[Any]) -> pd.Series[Any]:
    """Return a column as numbers, text and missing values, which is all that a column may hold.

    Dates and times are text. Of anything else pandas would make some number or text of its own:
    of a complex number its real part, of a month how many there were since 1970.

    Raises
    ------
    TableError
        The column holds something else; the error says what, and what to convert it to.
    """
    import pandas as pd

    if is_number(values):
        return values
    if isinstance(values.dtype, pd.CategoricalDtype):
        labels = held(pd.Series(values.cat.categories.to_numpy(), name=values.name))
        coded = np.array([*labels, None], dtype=object)  # a code of -1 is a missing value
        return pd.Series(coded[values.cat.codes.to_numpy()], index=values.index, name=values.name)
    if pd.api.types.infer_dtype(values, skipna=True) == "string":
        return values
    objects: pd.Series[Any] = values.astype(object).where(values.notna(), None)
    for value in objects:
        if value is not None and not isinstance(value, (*PLAIN, date, time)):
            raise _not_held(str(values.name), value)
    return objects.map(lambda value: as_text(value) if isinstance(value, date | time) else value)


def _not_held(name: str, value: object) -> TableError:
    kind = type(value).__name__
    if isinstance(value, complex | np.complexfloating):
        kind = "complex"
    elif isinstance(value, timedelta):
        kind = "Timedelta"
    return TableError(
        f"column {name!r} holds {kind} values, such as {str(value)[:80]!r}; a column may hold "
        "numbers, text, truth values, dates and times, and missing values: convert it to "
        f"{CONVERT.get(kind, 'numbers or text')}"
    )


def as_text(value: object) -> str:
    """Return a value as text; whole numbers read alike whether they were floats or not."""
    if value is None or value != value:  # NaN and NaT are no values
        return ""
    if isinstance(value, bool | np.bool_):
        return "True" if value else "False"
    if isinstance(value, float | np.floating):
        number = float(value)
        return str(int(number)) if number.is_integer() and abs(number) < 2**53 else repr(number)
    return str(value)


def as_texts(values: pd.Series[Any]) -> pd.Series[Any]:
    """Return a column as plain text objects; what is text already is not looked at one by one."""
    import pandas as pd

    if isinstance(values.dtype, pd.CategoricalDtype):
        labels = held(pd.Series(values.cat.categories.to_numpy(), name=values.name))
        texts = np.array([*(as_text(label) for label in labels), ""], dtype=object)
        return pd.Series(texts[values.cat.codes.to_numpy()], index=values.index, dtype=object)
    # Numbers and truth values that are equal would read alike by any shortcut: "1" and "True".
    text = pd.api.types.infer_dtype(values, skipna=False) == "string"
    if text and not values.isna().any():
        return values.astype(object)
    values = held(values)
    if not isinstance(values.dtype, np.dtype):  # their missing value has no truth value
        values = values.astype(object).where(values.notna(), None)
    return values.map(as_text).astype(object)


def to_frame(table: pa.Table) -> pd.DataFrame:
    """Return an Arrow table as a frame whose text is plain text objects."""
    frame: pd.DataFrame = table.to_pandas(ignore_metadata=True, use_threads=False)
    for name in frame.columns:
        if not is_number(frame[name]):
            frame[name] = as_texts(frame[name])
    return frame


def to_arrow(frame: pd.DataFrame) -> pa.Table:
    """Return a frame of numbers and text as an Arrow table, without a trace of its index."""
    columns: dict[str, pa.Array] = {}
    for name in frame.columns:
        values = frame[name]
        if not is_number(values):
            columns[str(name)] = pa.array(as_texts(values).to_numpy(), type=pa.string())
        elif values.dtype in _STORED:
            columns[str(name)] = pa.array(values.to_numpy())
        else:  # with missing values, or of more digits than are stored
            columns[str(name)] = pa.array(values.to_numpy(dtype=np.float64, na_value=np.nan))
    return pa.table(columns)


_STORED = [np.dtype(code) for code in "?bhilqBHILQefd"]
"""Types of numbers that a Parquet file has too."""


def table_bytes(frame: pd.DataFrame) -> bytes:
    """Return a frame as Parquet, the same bytes for the same values."""
    if frame.size > CELLS:  # nobody could read it back
        raise TableError(f"a table of {frame.size:,} cells; a table here has at most {CELLS:,}")
    sink = io.BytesIO()
    pq.write_table(to_arrow(frame), sink, compression="zstd")
    return sink.getvalue()


def read_table_bytes(content: bytes, name: str) -> pd.DataFrame:
    """Return the frame that `table_bytes` wrote."""
    try:
        return to_frame(_arrow(content, name))
    except MemoryError:
        raise
    except TableError as error:
        raise BrokenTable(str(error)) from error


def read_table(path: Path, reading: Reading, content: bytes | None = None) -> pd.DataFrame:
    """Return a whole table file as text or as the types of a Parquet file."""
    raw = RawTable(path, reading, content)
    return raw.take(np.arange(len(raw)))
