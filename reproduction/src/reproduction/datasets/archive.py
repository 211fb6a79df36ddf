"""What lies inside an archive, read by exact name into memory.

No member is written under the name that it has in its archive, so a name such as
``../../.profile`` can do nothing, and no more is read than was allowed.
"""

from __future__ import annotations

import gzip
import io
import lzma
import tarfile
import zipfile
import zlib
from collections.abc import Sequence
from typing import Protocol

from proxyguard import TableError

MOST = 2**29
"""Bytes that a download or anything inside it may have; the largest known file has 75 MB."""

_BROKEN = (
    OSError,  # gzip's errors and tar's short reads are of this kind
    EOFError,
    RuntimeError,  # zip members with a password
    NotImplementedError,  # zip members in a compression that Python does not read
    zlib.error,
    lzma.LZMAError,
    zipfile.BadZipFile,
    tarfile.TarError,
)


class Stream(Protocol):
    """What bytes are read from."""

    def read(self, size: int, /) -> bytes:
        """Return up to ``size`` bytes."""


def unpack(content: bytes, members: Sequence[str] = (), most: int = MOST) -> bytes:
    """Return what lies at a path of members, archive in archive, all compression undone."""
    try:
        found = _decompressed(content, most)
        for name in members:
            found = _decompressed(_member(found, name, most), most)
    except _BROKEN as error:
        raise TableError(f"the archive is broken: {error!r}; fetch it again") from error
    return found


def _decompressed(content: bytes, most: int) -> bytes:
    if content.startswith(b"\x1f\x8b"):
        with gzip.GzipFile(fileobj=io.BytesIO(content)) as stream:
            return read_at_most(stream, most, "compressed content")
    if content.startswith(b"\xfd7zXZ\x00"):
        with lzma.LZMAFile(io.BytesIO(content)) as stream:
            return read_at_most(stream, most, "compressed content")
    return content


def _member(content: bytes, name: str, most: int) -> bytes:
    if content.startswith(b"PK"):
        return _zip_member(content, name, most)
    if content[257:262] == b"ustar":
        return _tar_member(content, name, most)
    raise TableError(
        f"expected an archive with {name!r} in it, found {len(content)} bytes that are neither "
        "zip nor tar; the address may answer with a page instead of the file"
    )


def _zip_member(content: bytes, name: str, most: int) -> bytes:
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        if name not in archive.namelist():
            raise _absent(name, archive.namelist())
        with archive.open(name) as stream:
            return read_at_most(stream, most, name)


def _tar_member(content: bytes, name: str, most: int) -> bytes:
    with tarfile.open(fileobj=io.BytesIO(content), mode="r:") as archive:
        if name not in archive.getnames():
            raise _absent(name, archive.getnames())
        stream = archive.extractfile(name) if archive.getmember(name).isreg() else None
        if stream is None:
            raise TableError(f"{name!r} is no plain file in its archive; it is not read")
        return read_at_most(stream, most, name)


def read_at_most(stream: Stream, most: int, what: str) -> bytes:
    """Return all that a stream gives; one that gives more than ``most`` bytes is refused."""
    found = stream.read(most + 1)
    if len(found) > most:
        raise TableError(f"{what} has more than the {most} bytes that are allowed; it is not read")
    return found


def _absent(name: str, names: Sequence[str]) -> TableError:
    shown = ", ".join(repr(one) for one in sorted(names)[:8])
    return TableError(
        f"expected {name!r} in the archive, found {shown or 'nothing'}; the official archive may "
        "have changed"
    )
