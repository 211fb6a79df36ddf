"""A file of encrypted records that is read chunk by chunk and committed to by one digest.

The first line is a header in canonical form; then come the chunks, each four bytes of
length and its ciphertext. Chunk 0 holds the salt, which nobody knows before the file is
opened, so that the commitment cannot be tried against guesses of the records.
"""

from __future__ import annotations

import hashlib
import io
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from proxyguard.documents.document import FORMAT
from proxyguard.documents.ledger import SealedHeader
from proxyguard.errors import DigestMismatch, SealError
from proxyguard.registry.numbers import MOST_RECORDS
from proxyguard.seal.crypto import Holder, decrypt, encrypt, unwrap_any
from proxyguard.seal.storage import open_inside, random_bytes
from proxyguard.tables.ipc import is_compressed

# Bytes of a header: wraps for some hundred holders.
HEADER = 2**20
# Records a chunk: what a pass over the target holds in memory at once.
ROWS = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class SealedTable:
    """What sealing made: the file's bytes, the commitment to publish, and the secret key."""

    content: bytes
    commitment: str
    key: bytes
    salt: bytes

    @property
    def nonce_digest(self) -> str:
        """What is published of the nonce, so that nobody can bring another one later."""
        return hashlib.sha256(nonce_of(self.salt)).hexdigest()


def nonce_of(salt: bytes) -> bytes:
    """Return the part of the salt that is revealed at opening, for the seed of all randomness.

    The salt itself stays secret: with it, the commitment could be tried against guesses of the
    records. One is not found from the other.
    """
    return hashlib.sha256(b"proxyguard nonce" + salt).digest()


def seal_table(
    table: pa.Table, holders: Sequence[Holder], *, salt: bytes | None = None, rows: int = ROWS
) -> SealedTable:
    """Encrypt a table, in the order of its rows, for these holders.

    Parameters
    ----------
    table
        The records: numbers, texts and truth values.
    holders
        Who can open it, each alone.
    salt
        Of a trial, 32 bytes that follow from its seed; else nobody can guess them.
    rows
        Records a chunk.

    Returns
    -------
    SealedTable
        The bytes, the commitment, and the key and salt, which whoever seals must forget.
    """
    # A fresh key for every file: the number of a chunk is then a nonce that is used once.
    key, salt = random_bytes(32), random_bytes(32) if salt is None else salt
    plain = [salt, *_chunks(table, rows)]
    header = SealedHeader(
        format=FORMAT,
        rows=table.num_rows,
        chunks=len(plain),
        wraps=tuple(holder.wrap(key) for holder in holders),
    ).to_bytes()
    sink = io.BytesIO()
    sink.write(header + b"\n")
    for index, chunk in enumerate(plain):
        cipher = encrypt(key, index, chunk, _about(header))
        sink.write(len(cipher).to_bytes(4, "big") + cipher)
    return SealedTable(content=sink.getvalue(), commitment=_commitment(plain), key=key, salt=salt)


class SealedFile:
    """A sealed file on disk; nothing in it is readable before a key is given.

    Parameters
    ----------
    path
        The file, in an audit's folder.
    most
        Records that its header may promise; ``None`` for no limit.

    Raises
    ------
    SealError
        If there is none, or its first line is no header.
    """

    def __init__(self, path: Path, *, most: int | None = MOST_RECORDS) -> None:
        self._path = path
        try:
            with open_inside(path.parent, path.name) as file:
                line = file.readline(HEADER)
        except FileNotFoundError:
            raise SealError(f"the sealed file {path.name} is missing") from None
        if not line.endswith(b"\n"):
            raise SealError(f"{path.name} has no header that this version reads; it was cut")
        self._header = line[:-1]
        self.header = SealedHeader.read(self._header, path.name)
        # Arrays are made from this number before a record is read.
        if most is not None and self.rows > most:
            raise SealError(f"{path.name} says that it has {self.rows:,} records; at most {most:,}")

    @property
    def rows(self) -> int:
        """The number of records."""
        return self.header.rows

    def unwrap(self, holder: Holder) -> bytes:
        """Return the data key for its holder."""
        return unwrap_any(self.header.wraps, holder)

    def salt(self, key: bytes) -> bytes:
        """Return the salt."""
        return next(self._plain(key))

    def tables(self, key: bytes) -> Iterator[pa.Table]:
        """Decrypt and yield the records, chunk by chunk.

        Who encrypted them is no reason to trust them: a chunk takes no more memory than its bytes,
        and all of them hold as many records as the header says.

        Raises
        ------
        SealError
            If the key is another one, a byte was changed, or the records are more or fewer.
        """
        chunks = self._plain(key)
        next(chunks)
        rows = 0
        for index, chunk in enumerate(chunks, start=1):
            table = _unpack(chunk, f"chunk {index} of {self._path.name}")
            rows += table.num_rows
            if rows > self.rows:
                break
            yield table
        if rows != self.rows:
            raise SealError(
                f"the header of {self._path.name} promises {self.rows} records, and its chunks "
                f"hold {'more' if rows > self.rows else rows}; whoever sealed it wrote that"
            )

    def check(self, key: bytes, commitment: str) -> None:
        """Raise unless the decrypted content is the one that was committed to."""
        decrypted = _commitment(self._plain(key))
        if decrypted != commitment:
            raise DigestMismatch(self._path.name, sealed=commitment, found=decrypted)

    def check_shape(self, *, least: int = 1) -> None:
        """Raise unless the chunks are as many as the header's records fill; no key is needed."""
        rows, chunks = self.rows, self.header.chunks
        if rows < least or chunks != 1 + -(-rows // ROWS):
            raise SealError(
                f"{self._path.name} says that it has {rows} records in {chunks} chunks, which "
                f"hold {ROWS} each after the first"
            )
        with open_inside(self._path.parent, self._path.name) as file:
            size = os.fstat(file.fileno()).st_size
            file.readline()
            # Before counting them: a header may name more chunks than anybody can wait for.
            for _ in range(chunks if 4 * chunks <= size else 0):
                file.seek(int.from_bytes(file.read(4), "big"), 1)
            if file.tell() != size:
                raise SealError(f"{self._path.name} does not end with its last chunk")

    def _plain(self, key: bytes) -> Iterator[bytes]:
        with open_inside(self._path.parent, self._path.name) as file:
            file.readline()
            for index in range(self.header.chunks):
                size = int.from_bytes(file.read(4), "big")
                cipher = file.read(size)
                if len(cipher) != size:
                    raise SealError(f"{self._path.name} ends within a chunk; it was cut")
                yield decrypt(key, index, cipher, _about(self._header), self._path.name)
            if file.read(1):
                raise SealError(f"{self._path.name} goes on after its last chunk; it was edited")


def _chunks(table: pa.Table, rows: int) -> Iterator[bytes]:
    for start in range(0, table.num_rows, rows):
        sink = io.BytesIO()
        chunk = table.slice(start, rows).combine_chunks()
        with pa.ipc.new_stream(sink, chunk.schema) as writer:
            writer.write_table(chunk)
        yield sink.getvalue()


def _unpack(chunk: bytes, name: str) -> pa.Table:
    """Return a chunk's records as views of its own bytes.

    What is compressed, coded by a dictionary or of another type than sealing writes is refused
    before it is unpacked: five thousand bytes can hold twenty million numbers.
    """
    try:
        messages = list(pa.ipc.MessageReader.open_stream(chunk))
        if [message.type for message in messages] != ["schema", "record batch"]:
            raise SealError(f"{name} is not one plain batch of records; sealing writes one")
        if is_compressed(messages[1]):
            raise SealError(f"{name} is compressed; sealing writes records as they are")
        schema = pa.ipc.read_schema(messages[0])
        odd = [field.name for field in schema if not _is_plain(field.type)]
        if odd:
            raise SealError(f"{name}: column {odd[0][:80]!r} holds neither numbers nor text")
        batch = pa.ipc.read_record_batch(messages[1], schema)
        # Many columns may all point to the same bytes, each of which would be unpacked.
        if batch.num_rows > ROWS or batch.nbytes > len(chunk):
            raise SealError(
                f"{name} unpacks to {batch.num_rows:,} records of {batch.nbytes:,} bytes; a chunk "
                f"holds at most {ROWS:,}, and no more than its own {len(chunk):,} bytes"
            )
        batch.validate(full=True)
        return pa.Table.from_batches([batch])
    except MemoryError:
        raise  # which says nothing about the file
    except (pa.ArrowException, OSError, ValueError) as error:
        raise SealError(f"{name} holds no records that this version reads: {error}") from error


def _is_plain(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_integer(kind)
        or pa.types.is_floating(kind)
        or pa.types.is_boolean(kind)
        or pa.types.is_string(kind)
        or pa.types.is_fixed_size_binary(kind)
    )


def _commitment(plain: Iterable[bytes]) -> str:
    """Return one digest of the salt and all chunks, in order."""
    # Of their digests and not of their bytes: bytes could be moved from one chunk to the next.
    total = hashlib.sha256()
    for chunk in plain:
        total.update(hashlib.sha256(chunk).digest())
    return total.hexdigest()


def _about(header: bytes) -> bytes:
    """Return what every chunk is bound to: under another header none of them decrypts."""
    return hashlib.sha256(header).digest()
