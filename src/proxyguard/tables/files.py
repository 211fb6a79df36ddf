"""Tables as files and as bytes: read by position, written, sent between processes, digested.

`RawTable` takes rows by position before anything in them is read: a text table is split into
lines, and lines are set aside by their number; only then is either part parsed. What a column
holds is learned from the development part alone, and the target's records are kept as text until
they are scored. `table_bytes` and `read_table_bytes` are the Parquet files of an audit folder.
`Schema` is how every step reads a release, and how one travels from the process that drew it.
`content_digest` is one digest for one multiset of records, the same on every machine: for finding
duplicates.

A file may come from anybody: what it claims to hold is compared with the limits below before
memory is taken for it.
"""

from __future__ import annotations

import codecs
import csv
import gzip
import hashlib
import io
import json
import zlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, NonNegativeInt, ValidationError

from proxyguard.errors import BrokenTable, TableError
from proxyguard.registry.numbers import canonical_value
from proxyguard.registry.target import DeclaredColumns, TableReading
from proxyguard.seal.storage import open_plain, read_whole
from proxyguard.tables.columns import (
    NUMBERS,
    Series,
    as_text,
    as_texts,
    doubles_in,
    have_value,
    is_number,
    typed,
)
from proxyguard.tables.ipc import SUFFIXES, ipc_table

if TYPE_CHECKING:
    import pandas as pd


Positions = NDArray[np.int64]
# Cells of a table, 400 MB as doubles: what a file of a megabyte must not exceed unseen.
CELLS = 50_000_000
# Columns of a table: each is an object of its own, and a line of a megabyte names very many.
COLUMNS = 2**14
# Bytes of a table's file, of its text, and of a Parquet file's columns, unpacked.
TEXT = 2**31
# Lines of a text table: each is an object, and a compressed megabyte holds a thousand million.
LINES = 2**24
# Rows that are unpacked at once.
BATCH = 2**16
# Columns that a message names.
SHOWN = 20
# Bytes of text that are unpacked at once.
BLOCK = 2**20
# What may stand between the values of a release, whose makers need not know the declared one.
SEPARATORS = ",;\t|"


class RawTable:
    """The rows of a table file, by position, before any value is parsed.

    Parameters
    ----------
    path
        The file: ``.parquet``; ``.arrow``, ``.ipc`` or ``.feather``; or text, which ``.gz`` may
        compress.
    reading
        Separator, header and missing values of a text table, as declared.
    content
        Its bytes, where they were read already: what is digested and what is parsed are then the
        same bytes, whatever happens to the file in between.
    own_separator
        Whether the first line tells the separator, as in a release, and the declared one counts
        only where that has none of `SEPARATORS`.

    Attributes
    ----------
    separator
        What stands between the values.
    recoded
        Whether the text was no UTF-8 and was read as Windows-1252.

    Raises
    ------
    TableError
        The file is none of these, is larger than a table may be, has two columns of one name, or
        a row with more or fewer values than columns.
    """

    def __init__(
        self, path: Path, reading: TableReading, content: bytes | None = None, *,
        own_separator: bool = False,
    ) -> None:  # fmt: skip
        self._path, self._reading = path, reading
        self.recoded = False
        self._arrow: pa.Table | None = None
        self._lines: list[bytes] = []
        self._header: list[str] = []
        content = read_file(path) if content is None else content
        if path.suffix == ".parquet" or path.suffix in SUFFIXES:
            read = _arrow if path.suffix == ".parquet" else _ipc
            self._arrow = read(content, path.name)
            self._header = list(self._arrow.column_names)
        else:
            text = _text_of(content, path)
            decoded = _as_utf8(text, path)
            self.recoded = decoded is not text
            if own_separator:
                separator = _separator_of(decoded, reading.separator)
                self._reading = reading.model_copy(update={"separator": separator})
            self._read_lines(decoded)
        self.separator = self._reading.separator
        if len(set(self._header)) < len(self._header):
            twice = next(n for k, n in enumerate(self._header) if n in self._header[:k])
            raise TableError(f"{path.name} has two columns of one name: {twice!r}; rename one")

    def _read_lines(self, content: bytes) -> None:
        # Counted before they are made: each line is an object, and few bytes hold very many.
        ends = content.count(b"\n") + content.count(b"\r") - content.count(b"\r\n")
        if ends > LINES:
            raise _too_many_lines(self._path, ends)
        lines = content.splitlines()
        while lines and not lines[-1]:
            lines.pop()
        above = 0
        if self._reading.header:
            start = next((k for k, line in enumerate(lines) if line.strip()), None)
            if start is None:
                raise TableError(
                    f"{self._path.name} is empty; a table has a line with the names of its columns"
                )
            fields = _fields(lines[start], self._reading, f"{self._path.name}, line {start + 1}")
            self._header = [name.strip() for name in fields]
            above = start + 1
        else:
            self._header = list(self._reading.columns)
        _check_cells(len(lines) - above, len(self._header), self._path.name)
        blanks = b"" if self._reading.separator.isspace() else b" \t"
        for number, line in enumerate(lines[above:], start=above + 1):
            # Of one column an empty line is a missing value.
            if len(self._header) == 1 or line.strip(blanks or b"\n"):
                self._check_line(number, line)
                self._lines.append(line)

    def _check_line(self, number: int, line: bytes) -> None:
        """Refuse a row with more or fewer values than there are columns; none is dropped."""
        count = line.count(self._reading.separator.encode()) + 1
        if b'"' in line:
            if line.count(b'"') % 2:
                raise TableError(
                    f"{self._path.name}, line {number} has a quoted field that goes on in the next "
                    "line; rows are set aside by line, so convert the table to Parquet"
                )
            count = len(_fields(line, self._reading, f"{self._path.name}, line {number}"))
        if count != len(self._header):
            raise TableError(
                f"{self._path.name}, line {number} has {count} values, and there are "
                f"{len(self._header)} columns; {self._remedy()}"
            )

    def _remedy(self) -> str:
        """Say how a line may come to other values: by its separator, or by a wrong one."""
        read = self._reading.separator
        if len(self._header) == 1:
            others = {s: self._header[0].count(s) for s in SEPARATORS if s != read}
            likely = max(others, key=lambda sign: others[sign])
            if others[likely]:
                return (
                    f"the table was read with {read!r} between values, and its first line has "
                    f'{likely!r}: write read = {{ separator = "{toml_sign(likely)}" }} under '
                    "[target]"
                )
        return (
            f"mend the line, and quote a value that has the separator in it; it was read with "
            f"{read!r} between values, and separator says otherwise"
        )

    @property
    def columns(self) -> list[str]:
        """The names of the columns, in the file's order."""
        return list(self._header)

    def __len__(self) -> int:
        return len(self._lines) if self._arrow is None else self._arrow.num_rows

    def column(self, name: str) -> list[str]:
        """Return one column as text, and nothing else of the table.

        Raises
        ------
        TableError
            There is no such column.
        """
        if name not in self._header:
            raise TableError(
                f"{self._path.name} has no column {name!r}; it has {_some(self._header)}"
            )
        if self._arrow is not None:
            # Numbers as they are stored: a frame would make doubles of whole numbers with gaps.
            kind = self._arrow.schema.field(name).type
            if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind):
                return [as_text(number) for number in self._arrow.column(name).to_pylist()]
            frame = to_frame(self._arrow.select([name]), self._path.name)
        else:
            frame = _parse(self._lines, self._reading, self._header, only=name)
        return [str(text) for text in frame[name]]

    def take(self, positions: Positions | None = None) -> pd.DataFrame:
        """Return these rows, or all: text as it stands in the file, or a Parquet file's types.

        The index has their rows in the file, by which messages name them.
        """
        if self._arrow is not None:
            chosen = self._arrow if positions is None else self._arrow.take(pa.array(positions))
            frame = to_frame(chosen, self._path.name)
        else:
            lines = self._lines if positions is None else [self._lines[i] for i in positions]
            frame = _parse(lines, self._reading, self._header)
        return frame if positions is None else frame.set_axis(positions)


def read_file(path: Path) -> bytes:
    """Return the bytes of a table's file.

    Raises
    ------
    TableError
        There is none, it is no plain file, it is larger than `TEXT`, or it cannot be read.
    """
    try:
        with open_plain(path, most=TEXT) as file:
            return read_whole(file)
    except FileNotFoundError:
        raise TableError(f"there is no table at {path}") from None
    except OSError as error:
        raise TableError(f"{path.name} could not be read: {error.strerror or error}") from error
    except ValueError as error:  # a folder, a device, or a name that no file can have
        if path.is_dir():
            raise TableError(f"{path.name} is a folder, expected a table; name a file") from None
        raise TableError(f"{path.name!r} is no name of a file: {error}") from error


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
    if content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        raise TableError(
            f"{path.name} is UTF-16 text; save the table as UTF-8 (in a spreadsheet: CSV UTF-8)"
        )
    if b"\0" in content[:BLOCK]:
        raise TableError(
            f"{path.name} is no text table; save it as CSV or as Parquet, and name that file"
        )
    return content.removeprefix(codecs.BOM_UTF8)


def toml_sign(separator: str) -> str:
    """Return a separator as a text of TOML has it."""
    return separator.replace("\t", "\\t")


def _separator_of(text: bytes, declared: str) -> str:
    """Return what stands between the values of a text table, by its first line."""
    start = len(text) - len(text.lstrip())
    head = text[start : start + BLOCK].splitlines()[:1]
    counts = {sign: head[0].count(sign.encode()) if head else 0 for sign in SEPARATORS}
    likely = max(counts, key=lambda sign: counts[sign])  # of equals the first
    return likely if counts[likely] else declared


def separator_of(path: Path) -> str:
    """Return what stands between the values of a table, by its first line; "," of no text."""
    if path.suffix == ".parquet" or path.suffix in SUFFIXES:
        return ","
    return _separator_of(_text_of(read_file(path), path), ",")


def _as_utf8(text: bytes, path: Path) -> bytes:
    """Return a text as UTF-8: the very bytes where they are that, else what Windows-1252 says.

    The whole file is the one or the other, and nothing else is looked at: every step of an audit,
    and whoever verifies it, reads the same.
    """
    try:
        text.isascii() or text.decode("utf-8")
    except UnicodeDecodeError:
        pass
    else:
        return text
    try:
        return text.decode("cp1252").encode("utf-8")
    except UnicodeDecodeError:
        raise TableError(
            f"{path.name} is neither UTF-8 nor Windows-1252 text; save the table as UTF-8 (in a "
            "spreadsheet: CSV UTF-8)"
        ) from None


def text_is_recoded(path: Path) -> bool:
    """Return whether a file is a text table that is no UTF-8."""
    if path.suffix == ".parquet" or path.suffix in SUFFIXES or not path.name.endswith(_TEXTS):
        return False
    text = _text_of(read_file(path), path)
    return _as_utf8(text, path) is not text


_TEXTS = (".csv", ".tsv", ".txt", ".gz")


def recoded_note(name: str) -> str:
    """Return what is said of a table whose text was no UTF-8."""
    return (
        f"{name} is no UTF-8 text and is read as Windows-1252 (Latin-1), wherever it is read; if "
        "letters look wrong, save it as UTF-8"
    )


def _unpacked(content: bytes, path: Path) -> bytes:
    """Return the text of a compressed file, up to a byte too many; lines are counted on the way."""
    text, newlines, returns = io.BytesIO(), 0, 0
    with gzip.open(io.BytesIO(content)) as file:
        while text.tell() <= TEXT and (block := file.read(min(BLOCK, TEXT + 1 - text.tell()))):
            newlines += block.count(b"\n")
            returns += block.count(b"\r")
            if max(newlines, returns) > LINES:  # a line may end in both, so not their sum
                raise _too_many_lines(path, max(newlines, returns))
            text.write(block)
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
        with pq.ParquetFile(pa.BufferReader(content)) as file:
            facts = file.metadata
            rows, width = facts.num_rows, facts.num_columns
            schema = file.schema_arrow
        _check_cells(rows, max(1, width), name)
        nested = [entry.name for entry in schema if pa.types.is_nested(entry.type)]
        if nested:
            raise TableError(f"{name}: column {nested[0]!r} holds lists or tables, and no values")
        # Values of a fixed width are coded in the file, and never here.
        fixed = sum(map(_fixed_width, schema.types)) * rows
        if fixed > TEXT:
            raise TableError(f"{name} has {fixed:,} bytes, unpacked, expected at most {TEXT:,}")
        texts = [entry.name for entry in schema if entry.type in _TEXT_TYPES]
        batches, held = [], 0
        coded = pq.ParquetFile(pa.BufferReader(content), metadata=facts, read_dictionary=texts)
        with coded as file:
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
        raise TableError(
            f"{name} is no whole Parquet file; write it again, or name it .csv if it is text"
        ) from error


def _ipc(content: bytes, name: str) -> pa.Table:
    """Return a table of Arrow's own format, of the sizes and types that a table here may have."""
    table = ipc_table(content, name, most=TEXT)
    _check_cells(table.num_rows, max(1, table.num_columns), name)
    nested = [entry.name for entry in table.schema if pa.types.is_nested(entry.type)]
    if nested:
        raise TableError(f"{name}: column {nested[0]!r} holds lists or tables, and no values")
    try:
        table.validate(full=True)  # offsets and codes are written by whoever made the file
    except pa.ArrowException as error:
        raise TableError(f"{name} is no whole Arrow or Feather file: {error}") from error
    return table


def _check_cells(rows: int, width: int, name: str) -> None:
    """Refuse a table of more columns or cells than a table here has, before any is made."""
    for count, noun, most in ((width, "columns", COLUMNS), (rows * width, "cells", CELLS)):
        if count > most:
            raise TableError(f"{name} has {count:,} {noun}; a table here has at most {most:,}")


def _some(names: Sequence[str]) -> str:
    """Return names for a message, which no file may make long."""
    shown = [name if len(name) <= 80 else f"{name[:77]}..." for name in names[:SHOWN]]
    return f"{shown} and {len(names) - SHOWN:,} more" if len(names) > SHOWN else f"{shown}"


def _fixed_width(kind: pa.DataType) -> int:
    """Return the bytes of a value whose width its type says, where that is any number of them."""
    if isinstance(kind, pa.BaseExtensionType):
        kind = kind.storage_type
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    return kind.byte_width if pa.types.is_fixed_size_binary(kind) else 0


# Types of values that may be of any length.
_TEXT_TYPES = (pa.string(), pa.large_string(), pa.string_view(),
               pa.binary(), pa.large_binary(), pa.binary_view())  # fmt: skip


def _fields(line: bytes, reading: TableReading, where: str) -> list[str]:
    """Return the values of one line, quotes undone."""
    text = line.decode("utf-8")
    try:
        (fields,) = csv.reader([text], delimiter=reading.separator, skipinitialspace=True)
    except csv.Error:  # its words may repeat the line
        raise TableError(f"{where} is no line of values; write the table as Parquet") from None
    return fields


def _parse(
    lines: Sequence[bytes], reading: TableReading, header: list[str], only: str | None = None
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
    except (ValueError, pd.errors.ParserError):  # whose words may repeat a value
        raise TableError("the table has rows that are no rows of its columns") from None
    before = b" " + reading.separator.encode()
    if any(before in line or line.endswith(b" ") for line in lines):
        for name in frame.columns:
            frame[name] = frame[name].map(str.strip).astype(object)
    return frame


def is_table(table: object) -> bool:
    """Return whether something is a DataFrame of pandas or polars, or a table of Arrow."""
    return hasattr(table, "iloc") or hasattr(table, "__arrow_c_stream__")


def as_frame(table: object, name: str = "the table") -> pd.DataFrame:
    """Return a DataFrame of pandas as it is; of polars, or a table of Arrow, as one of pandas.

    Parameters
    ----------
    table
        The table; any that gives itself by Arrow's interchange, ``__arrow_c_stream__``.
    name
        What an error calls it.

    Raises
    ------
    TableError
        It is no table, or holds what no column may hold.
    """
    import pandas as pd

    if isinstance(table, pd.DataFrame):
        return table
    if not hasattr(table, "__arrow_c_stream__"):
        raise TableError(
            f"{name} is a {type(table).__name__}; expected is a DataFrame of pandas or polars, or "
            "a table of Arrow"
        )
    try:
        given = pa.table(table)
    except (pa.ArrowException, ValueError, TypeError) as error:  # a column alone is no table
        raise TableError(f"{name} is no table of named columns: {error}") from error
    return to_frame(given, name)


def to_frame(table: pa.Table, name: str = "the table") -> pd.DataFrame:
    """Return an Arrow table as a frame whose text is plain text objects.

    Parameters
    ----------
    table
        The table, of any types that a column may hold.
    name
        What an error calls it.

    Raises
    ------
    TableError
        A value cannot be read, or is of a kind that no column may hold.
    """
    try:
        frame: pd.DataFrame = table.to_pandas(ignore_metadata=True, use_threads=False)
    except MemoryError:
        raise  # which says nothing about the table
    except (pa.ArrowException, ValueError, OverflowError, LookupError) as error:
        # Bytes that are no text, a year beyond 9999, a time zone that there is not.
        # Without its words, which may repeat the value.
        raise TableError(
            f"{name} holds a value that cannot be read: bytes that are no text, a year beyond "
            "9999, or a time in a zone that there is not"
        ) from error
    for column, kind in zip(frame.columns, frame.dtypes, strict=True):
        if kind.kind not in NUMBERS:
            frame[column] = as_texts(frame[column])
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


# Types of numbers that a Parquet file has too.
_STORED = [np.dtype(code) for code in "?bhilqBHILQefd"]


def table_bytes(frame: pd.DataFrame) -> bytes:
    """Return a frame as Parquet, the same bytes for the same values.

    Raises
    ------
    TableError
        It has more cells than a table here may have.
    """
    if frame.size > CELLS:  # nobody could read it back
        raise TableError(f"a table of {frame.size:,} cells; a table here has at most {CELLS:,}")
    sink = io.BytesIO()
    pq.write_table(to_arrow(frame), sink, compression="zstd")
    return sink.getvalue()


def read_table_bytes(content: bytes, name: str) -> pd.DataFrame:
    """Return the frame that `table_bytes` wrote.

    Parameters
    ----------
    content
        The Parquet file.
    name
        What an error calls it: its path in the folder.

    Raises
    ------
    BrokenTable
        The bytes are no whole Parquet file of a table that may be here.
    """
    try:
        return to_frame(_arrow(content, name), name)
    except TableError as error:
        raise BrokenTable(str(error)) from error


def read_table(
    path: Path, reading: TableReading, content: bytes | None = None, *, own_separator: bool = False
) -> pd.DataFrame:
    """Return a whole table file as text or as the types of a Parquet file; see `RawTable`."""
    return RawTable(path, reading, content, own_separator=own_separator).take()


_ODD = np.uint64(0x9E3779B97F4A7C15)
_MIX = np.uint64(0xBF58476D1CE4E5B9)
_SHIFT = np.uint64(29)
_DOUBLES, _CODES = np.dtype("<f8"), np.dtype("<i4")


class _Head(BaseModel):
    """The line before a table that is sent from one process to another."""

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid")

    columns: list[str]
    rows: NonNegativeInt
    texts: dict[str, list[str]]  # the different texts of each column of text


@dataclass(frozen=True, slots=True, kw_only=True)
class Schema:
    """The columns that a release has, and what each of them holds.

    Whatever encoding a table came in, as a file or as stored bytes, its records are those that
    this reads: no column more, a number as the double that it is.
    """

    kinds: Mapping[str, str]  # column -> "number" or "text"
    missing: tuple[str, ...] = ()  # texts that stand for a missing value
    columns: DeclaredColumns = field(default_factory=dict)  # how they are declared to be read
    predictions: bool = False  # of target records, made elsewhere; kinds are then not looked at
    labelled: str | None = None  # the outcome, without which a row is no record of a release

    @classmethod
    def of_releases(
        cls,
        kinds: Mapping[str, str] | Iterable[tuple[str, str]],
        missing: Iterable[str],
        columns: DeclaredColumns | None = None,
        *,
        generator: str | None = None,
        lacks: Collection[str] = (),
        labelled: str | None = None,
    ) -> Schema:
        """Return what a generator's releases hold, of the columns that the table has.

        Drawing, checking and verifying ask here, so that none of them reads a release otherwise.

        Parameters
        ----------
        kinds : mapping or pairs
            The columns of the table with their kinds, as they were sealed.
        missing : iterable of str
            Texts that stand for a missing value.
        columns : mapping, optional
            How columns are declared to be read.
        generator : str, optional
            The generator's name; stored predictions are no records of the table.
        lacks : collection of str
            Columns that releases need not have.
        labelled : str, optional
            The outcome, where rows that lack it are left out.
        """
        return cls(
            kinds={name: kind for name, kind in dict(kinds).items() if name not in lacks},
            missing=tuple(missing),
            columns=columns or {},
            predictions=generator == "predictions",
            labelled=labelled,
        )

    def records(self, frame: pd.DataFrame) -> pd.DataFrame:
        """Return the records of a table; an error where it has not the columns."""
        kinds = self.kinds
        if self.predictions:
            kinds = {str(c): "number" for c in frame.columns if is_prediction(str(c))}
        elif self.labelled in frame.columns:
            known = have_value(frame[self.labelled], self.missing)
            # By their rows in the table, which errors name.
            frame = frame if known.all() else frame[known]
        return typed(frame, dict(kinds), self.missing, self.columns, release=True)

    def unlabelled(self, frame: pd.DataFrame) -> int:
        """Return how many rows `records` leaves out because they lack the outcome."""
        if self.predictions or self.labelled not in frame.columns:
            return 0
        return int((~have_value(frame[self.labelled], self.missing)).sum())

    def content(self, frame: pd.DataFrame) -> str:
        """Return the digest of a table's records."""
        return content_digest(self.records(frame))

    def sent(self, records: pd.DataFrame) -> bytes:
        """Return the records of a table as they leave the process that drew them.

        A line of JSON says the columns, the rows, and the different texts of each column of
        text; then come the columns, doubles or the numbers of texts.
        """
        import pandas as pd

        texts: dict[str, list[str]] = {}
        body = []
        for name in records.columns:
            values = records[name]
            if values.dtype.kind == "f":
                body.append(values.to_numpy(dtype=_DOUBLES).tobytes())
            else:
                codes, distinct = pd.factorize(values.to_numpy(dtype=object))
                texts[name] = list(distinct)
                body.append(codes.astype(_CODES).tobytes())
        head = _Head(columns=list(records.columns), rows=len(records), texts=texts)
        return b"".join([json.dumps(head.model_dump()).encode(), b"\n", *body])

    def received(self, content: bytes) -> pd.DataFrame:
        """Return the records that `sent` wrote, wherever they come from.

        Whoever wrote them may be a generator that says what it likes: columns, kinds and sizes
        are compared before anything is made.
        """
        import pandas as pd

        line, _, body = content.partition(b"\n")
        try:
            head = _Head.model_validate_json(line)
        except ValidationError:
            raise TableError(f"the release was sent as {line[:80]!r}, which is no table") from None
        names, rows, texts = head.columns, head.rows, head.texts
        kinds = dict(self.kinds)
        if self.predictions:
            kinds = {name: "number" for name in names if is_prediction(name)}
        expected = {name for name, kind in kinds.items() if kind == "text"}
        if names != list(kinds) or set(texts) != expected:
            raise TableError(
                f"the release was sent with the columns {names[:20]}, of which "
                f"{sorted(texts)[:20]} hold text; expected were {list(kinds)[:20]} and "
                f"{sorted(expected)[:20]}"
            )
        sizes = [rows * (_CODES if name in texts else _DOUBLES).itemsize for name in names]
        if rows * len(names) > CELLS or sum(sizes) != len(body):
            raise TableError(
                f"the release was sent as {rows:,} rows of {len(names)} columns, and {len(body):,} "
                f"bytes came; a table here has at most {CELLS:,} cells"
            )
        columns: dict[str, Series | NDArray[np.float64]] = {}
        start = 0
        for name, size in zip(names, sizes, strict=True):
            if name in texts:
                codes = np.frombuffer(body, _CODES, rows, start)
                if rows and not 0 <= codes.min() <= codes.max() < len(texts[name]):
                    raise TableError(f"column {name!r} was sent with a text that it does not have")
                distinct = np.empty(len(texts[name]), dtype=object)
                distinct[:] = texts[name]
                columns[name] = pd.Series(distinct[codes], dtype=object)
            else:
                columns[name] = np.frombuffer(body, _DOUBLES, rows, start).astype(np.float64)
            start += size
        return pd.DataFrame(columns, columns=names)


def is_prediction(column: str) -> bool:
    """Return whether a column is one of those that stored predictions have."""
    return column in ("position", "prediction") or column.startswith("class ")


def content_digest(frame: pd.DataFrame) -> str:
    """Return a digest of a table's records, whatever their order and that of the columns.

    Equal records always give equal digests, so a copy cannot hide; a chance collision of
    its 64-bit row sums could only raise a false alarm.
    """
    total = np.zeros(len(frame), dtype=np.uint64)
    doubles = doubles_in(frame)
    names = sorted(str(column) for column in frame.columns)
    for name in names:
        bits = _number_bits(doubles[name]) if name in doubles else _bits(frame[name])
        total = _mixed(total * _ODD + bits)
    rows = np.sort(total).astype("<u8").tobytes()
    return hashlib.sha256("\x1f".join(names).encode() + b"\x00" + rows).hexdigest()


def _bits(values: Series) -> NDArray[np.uint64]:
    """Return 64 bits a value: the double itself, or a digest of the text."""
    if is_number(values):
        return _number_bits(np.asarray(values.to_numpy(dtype=np.float64), dtype=np.float64))
    import pandas as pd

    codes, distinct = pd.factorize(as_texts(values), use_na_sentinel=False)
    # By their value: a label written "1.0" in one copy and "1" in the other is one label.
    digests = [
        hashlib.blake2b(canonical_value(str(text)).encode(), digest_size=8).digest()
        for text in distinct
    ]
    return np.frombuffer(b"".join(digests), dtype="<u8").astype(np.uint64)[codes]


def _number_bits(numbers: NDArray[np.float64]) -> NDArray[np.uint64]:
    numbers = numbers + 0.0  # no negative zero
    numbers[np.isnan(numbers)] = np.nan  # one of the many NaNs
    return _mixed(numbers.view(np.uint64))


def _mixed(values: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Spread every bit over the word (the finaliser of SplitMix64, once)."""
    values = (values ^ (values >> _SHIFT)) * _MIX
    return values ^ (values >> _SHIFT)
