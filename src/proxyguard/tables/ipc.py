"""Arrow's own files, as R's `arrow` and `feather` write them: what they claim, before it is made.

Version 2 of Feather is Arrow's IPC file, and an IPC stream is the same without its frame. Each
buffer of a compressed one says by itself how large it becomes, so all of them are asked before the
first is unpacked. Version 1 is not compressed: it is no larger than its file.
"""

from __future__ import annotations

import struct
import warnings
from collections.abc import Iterator

import pyarrow as pa
from pyarrow import feather

from proxyguard.errors import TableError

MAGIC, FIRST = b"ARROW1\x00\x00", b"FEA1"
SUFFIXES = (".arrow", ".feather", ".ipc")


def ipc_table(content: bytes, name: str, *, most: int) -> pa.Table:
    """Return the table of an Arrow IPC file or stream, or of a Feather file.

    Parameters
    ----------
    content
        The file.
    name
        What an error calls it.
    most
        Bytes that it may have, unpacked.

    Raises
    ------
    TableError
        It is none, is cut short, or is larger.
    """
    try:
        if content.startswith(FIRST):
            with warnings.catch_warnings():  # pyarrow says that this format is an old one
                warnings.simplefilter("ignore", DeprecationWarning)
                return feather.read_table(pa.BufferReader(content), memory_map=False)
        body = pa.py_buffer(content)
        # The file is the stream between two magic words; read so, it needs no footer.
        stream = body[len(MAGIC) :] if content.startswith(MAGIC) else body
        claimed = sum(_claims(stream))
        if claimed > most:
            raise TableError(f"{name} has {claimed:,} bytes, unpacked, expected at most {most:,}")
        with pa.ipc.open_stream(stream) as reader:
            return reader.read_all()
    except MemoryError:
        raise  # which says nothing about the table
    except (OSError, pa.ArrowException, struct.error, ValueError) as error:
        raise TableError(f"{name} is no whole Arrow or Feather file: {error}") from error


def _claims(stream: pa.Buffer) -> Iterator[int]:
    """Yield how many bytes each buffer of a stream becomes."""
    for message in pa.ipc.MessageReader.open_stream(stream):
        if message.body is None or message.type == "schema":
            continue
        body = memoryview(message.body)
        batch = _batch(message)
        compressed = batch.has(_COMPRESSION)
        for offset, length in batch.pairs(_BUFFERS):
            if not 0 <= offset <= offset + length <= len(body):
                raise ValueError("a buffer lies outside its message")
            size = length
            if compressed and length >= 8:
                (unpacked,) = struct.unpack_from("<q", body, offset)
                size = length if unpacked == -1 else unpacked
            if size < 0:
                raise ValueError(f"a buffer of {size} bytes")
            yield size


def is_compressed(message: pa.Message) -> bool:
    """Return whether a batch of records says so; pyarrow tells it only by unpacking them.

    Raises
    ------
    ValueError
        It has no header, or one that ends too early.
    """
    try:
        return _batch(message).has(_COMPRESSION)
    except struct.error as error:
        raise ValueError(f"a header is cut: {error}") from error


# The number of a field in its table, by Arrow's Message.fbs.
_HEADER, _DATA, _BUFFERS, _COMPRESSION = 2, 1, 2, 3


def _batch(message: pa.Message) -> _Flat:
    """Return what a message says of its batch of records."""
    header = _Flat.root(bytes(message.metadata)).table(_HEADER)
    return header.table(_DATA) if message.type == "dictionary" else header


class _Flat:
    """A table of the format FlatBuffers, of which Arrow's messages are made."""

    def __init__(self, data: bytes, at: int) -> None:
        self._data, self._at = data, at
        self._fields = at - struct.unpack_from("<i", data, at)[0]

    @classmethod
    def root(cls, data: bytes) -> _Flat:
        """Return the outermost table."""
        return cls(data, struct.unpack_from("<I", data, 0)[0])

    def _place(self, field: int) -> int:
        size: int = struct.unpack_from("<H", self._data, self._fields)[0]
        slot = 4 + 2 * field
        if slot + 2 > size:
            return 0
        offset: int = struct.unpack_from("<H", self._data, self._fields + slot)[0]
        return self._at + offset if offset else 0

    def has(self, field: int) -> bool:
        """Return whether a field is there."""
        return self._place(field) > 0

    def _target(self, field: int) -> int:
        at = self._place(field)
        if not at:
            raise ValueError("a message lacks a part")
        return at + int(struct.unpack_from("<I", self._data, at)[0])

    def table(self, field: int) -> _Flat:
        """Return a field that is a table."""
        return _Flat(self._data, self._target(field))

    def pairs(self, field: int) -> Iterator[tuple[int, int]]:
        """Yield the structures of a field, two whole numbers each."""
        at = self._target(field)
        (count,) = struct.unpack_from("<I", self._data, at)
        for k in range(count):
            offset, length = struct.unpack_from("<qq", self._data, at + 4 + 16 * k)
            yield offset, length
