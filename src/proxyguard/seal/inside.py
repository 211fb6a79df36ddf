"""Every file of an audit's folder is opened here, for the folder may come from anybody.

Files of the data folders are opened here too, by `open_plain`: the last two rules hold for them.

Rules
 * a name is relative and made of names: no absolute path, no ``..``
 * no part of it is a link, so that nothing outside the folder stands for a file of it
 * a file is a plain file: FIFOs, devices and sockets are never waited for, folders never read
 * a file is no larger, JSON no deeper and no folder fuller than audits make them

What breaks a rule is a `SealError` that names the file, before anything of it is in memory.
Want of memory, of rights or of file handles says nothing about the folder and is raised as it is.
"""

from __future__ import annotations

import errno
import hashlib
import os
import re
import stat
from collections.abc import Iterator
from contextlib import suppress
from io import BufferedReader
from pathlib import Path

from proxyguard.errors import SealError, TableError

LARGEST = 8 * 2**30
"""Bytes of any file; a sealed target is read chunk by chunk, and may be larger than memory."""
OBJECT = 2**30
"""Bytes of a stored table or model, which is read as a whole."""
WEIGHTS = 2**40
"""Bytes of a file that draws may read besides tables, which is digested and never held."""
DOCUMENT = 256 * 2**20
"""Bytes of a manifest, a registry, evidence."""
FILES = 250_000
"""Files of a folder; a draw has three."""
DEPTH = 32
"""Folders within folders."""
LINK = "a link"
_ADDRESS = re.compile("[0-9a-f]{64}")
_OURS = frozenset(
    (errno.ENOMEM, errno.EMFILE, errno.ENFILE, errno.EACCES, errno.EPERM, errno.EIO, errno.ESTALE)
)
"""What an open fails with for a reason that lies on this machine and not in the folder."""


def is_address(value: object) -> bool:
    """Return whether a value is a SHA-256 as we write it; as a path another could lead anywhere."""
    return isinstance(value, str) and _ADDRESS.fullmatch(value) is not None


def ours_to_mend(error: OSError) -> bool:
    """Return whether an error is about this machine, and says nothing about the folder."""
    return error.errno in _OURS


def open_inside(folder: Path, name: str, *, most: int = LARGEST) -> BufferedReader:
    """Open a plain file of the folder; a missing one is a `FileNotFoundError`."""
    parts = check_name(name)
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        for k, part in enumerate(parts):
            last = k == len(parts) - 1
            # Without waiting: a FIFO has no writer. Without following: a link leads out.
            flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY
            within = os.open(part, flags if last else flags | os.O_DIRECTORY, dir_fd=handle)
            os.close(handle)
            handle = within
        fault = fault_of(handle, most)
        if fault is not None:
            raise SealError(f"{name} {fault}; no audit writes that, it was put there")
        file = os.fdopen(handle, "rb")
    except OSError as error:
        os.close(handle)
        if isinstance(error, FileNotFoundError) or ours_to_mend(error):
            raise
        raise SealError(f"{name} is {_what_failed(error)}; it was put there") from error
    except SealError:
        os.close(handle)
        raise
    return file


def open_plain(path: Path, *, most: int) -> BufferedReader:
    """Open a plain file of this machine's own, a data file or release, where links may be followed.

    What is none, or is too large, is a `TableError`; a FIFO is never waited for.
    """
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY)
    fault = fault_of(handle, most)
    if fault is not None:
        os.close(handle)
        raise TableError(f"{path.name} {fault}; put a plain file of at most that size there")
    return os.fdopen(handle, "rb")


def fault_of(handle: int, most: int) -> str | None:
    """Say why an open file is not read: it is no plain file, or it has more bytes than allowed."""
    facts = os.fstat(handle)
    if not stat.S_ISREG(facts.st_mode):
        return f"is {_kind(facts.st_mode)}, expected a file of at most {most:,} bytes"
    if facts.st_size > most:
        return f"has {facts.st_size:,} bytes, expected at most {most:,}"
    return None


def read_inside(folder: Path, name: str, *, most: int = DOCUMENT) -> bytes:
    """Return the bytes of a plain file of the folder."""
    with open_inside(folder, name, most=most) as file:
        return read_whole(file)


def read_whole(file: BufferedReader) -> bytes:
    """Return the bytes of an open file that it has now, and no more, should it grow."""
    return file.read(os.fstat(file.fileno()).st_size)  # a read takes the memory that it asks for


def sha256_plain(path: Path) -> str:
    """Return the digest of a plain file of this machine's own, read piece by piece."""
    with open_plain(path, most=WEIGHTS) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def make_parents_inside(folder: Path, name: str) -> None:
    """Make the folders that a file of the folder lies in; none of them may be a link.

    A link that came with the folder would let a write end outside, under a name that is ours.
    """
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        for part in check_name(name)[:-1]:
            with suppress(FileExistsError):
                os.mkdir(part, dir_fd=handle)
            flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_DIRECTORY
            within = os.open(part, flags, dir_fd=handle)
            os.close(handle)
            handle = within
    except OSError as error:
        # With O_DIRECTORY a link is told as no folder.
        if error.errno not in (errno.ELOOP, errno.ENOTDIR):
            raise
        raise SealError(
            f"{name} would be written below a link, or below something that is no folder; remove "
            "it, an audit's folder holds its own files"
        ) from error
    finally:
        os.close(handle)


def sha256_inside(folder: Path, name: str) -> str:
    """Return the digest of a plain file of the folder."""
    with open_inside(folder, name) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def check_name(name: str) -> list[str]:
    """Return the parts of a file's name; one that could lead out of the folder is refused."""
    parts = name.split("/")
    odd = any(part in ("", ".", "..") or "\0" in part or len(part) > 255 for part in parts)
    if odd or len(parts) > DEPTH:
        raise SealError(f"{_short(name)} is no name of a file in an audit's folder")
    return parts


def entries_inside(folder: Path) -> Iterator[tuple[str, str | None]]:
    """Yield every entry below a folder: its name, and what it is where it is no plain file.

    Links are named and not followed.
    """
    count = 0
    waiting = [""]
    while waiting:
        prefix = waiting.pop()
        below: list[str] = []
        with os.scandir(folder / prefix if prefix else folder) as entries:
            for entry in entries:
                count += 1
                name = f"{prefix}{entry.name}"
                if count > FILES:
                    raise SealError(
                        f"{folder.name} holds more than {FILES:,} files, {_short(name)} among "
                        "them; no audit does"
                    )
                try:
                    mode = entry.stat(follow_symlinks=False).st_mode
                except FileNotFoundError:  # another process has just removed it
                    continue
                if stat.S_ISDIR(mode):
                    if name.count("/") + 1 >= DEPTH:
                        raise SealError(f"{_short(name)} lies deeper than an audit's folders")
                    below.append(f"{name}/")
                else:
                    yield name, None if stat.S_ISREG(mode) else _kind(mode)
        waiting += sorted(below, reverse=True)


def _kind(mode: int) -> str:
    kinds = {
        stat.S_IFLNK: LINK, stat.S_IFIFO: "a FIFO", stat.S_IFSOCK: "a socket",
        stat.S_IFCHR: "a device", stat.S_IFBLK: "a device", stat.S_IFDIR: "a folder",
    }  # fmt: skip
    return kinds.get(stat.S_IFMT(mode), "something odd")


def _what_failed(error: OSError) -> str:
    if error.errno == errno.ELOOP:
        return LINK
    if error.errno == errno.ENOTDIR:
        return "below a link, or below something that is no folder"
    if error.errno == errno.ENXIO:
        return "a socket or a device"
    return f"nothing that can be opened ({error.strerror})"


def _short(name: str) -> str:
    return name if len(name) <= 120 else f"{name[:117]}..."
