"""Every write of an audit goes through here: whole files, at once or not at all.

A file is written beside its place, flushed to the disk, and renamed over it; the folder is
flushed after that. A kill at any instant leaves the old bytes or the new ones. Leftovers of
a killed write have names that say so and are removed by the next writer.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from proxyguard.errors import Busy, DiskError

LEFTOVER = ".part"
"""Suffix of a file that is being written."""


def write_flushed(path: Path, content: bytes, *, private: bool) -> None:
    """Write a file through to the disk, readable by its owner alone if it is private."""
    mode = 0o600 if private else 0o666
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
    with os.fdopen(handle, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def write_atomic(path: Path, content: bytes, *, private: bool = False) -> None:
    """Put ``content`` at ``path``, so that a reader sees the old file or the new one.

    A ``private`` file is readable by its owner alone from the first byte on.
    """
    part = path.with_name(path.name + LEFTOVER)
    try:
        write_flushed(part, content, private=private)
        os.replace(part, path)
        sync_folder(path.parent)
    except OSError as error:
        raise DiskError(
            f"{path} could not be written ({error.strerror or error}); nothing was changed, "
            "mend the disk and run the step again"
        ) from error


def sync_folder(folder: Path) -> None:
    """Flush a folder's own entries, so that a rename survives a power cut."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def sweep(folder: Path) -> None:
    """Remove what killed writes left behind; the caller holds the folder's lock."""
    for part in folder.rglob(f"*{LEFTOVER}"):
        part.unlink()


@contextmanager
def exclusive(folder: Path) -> Iterator[None]:
    """Hold a folder for one writer; a second one is told so at once.

    The lock lies on the folder itself, so no lock file can be left over or forged.
    """
    handle = os.open(folder, os.O_RDONLY)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise Busy(
                f"another process is working on {folder}; wait for it and run the step again"
            ) from None
        sweep(folder)
        yield
    finally:
        os.close(handle)
