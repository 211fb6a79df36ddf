"""Every write of an audit goes through here: whole files, at once or not at all.

A file is written beside its place, flushed to the disk, and renamed over it; the folder is
flushed after that. A kill at any instant leaves the old bytes or the new ones. Leftovers of
a killed write have names that say so and are removed by the next writer.

What is secret (keys, the lineage store) lies in a folder of its owner's and in files that
nobody else may read, from their first byte on; what stood open is closed before it is read.
"""

from __future__ import annotations

import fcntl
import os
import stat
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from proxyguard.errors import Busy, DiskError, SealError, StoodOpen, Unprotected
from proxyguard.seal.entropy import random_bytes
from proxyguard.seal.inside import LINK, entries_inside, fault_of, make_parents_inside

LEFTOVER = ".part"
"""Suffix of a file that is being written."""
SECRET = 2**16
"""Bytes of a key's file."""


def write_flushed(path: Path, content: bytes, *, private: bool) -> None:
    """Write a file through to the disk, readable by its owner alone if it is private."""
    mode = 0o600 if private else 0o666
    # A folder from elsewhere may hold a link of this name, which would be written through.
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, mode)
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


def write_once(path: Path, content: bytes) -> None:
    """Put a private file at ``path``; where there is one already, `FileExistsError`."""
    part = path.with_name(f"{path.name}.{random_bytes(8).hex()}{LEFTOVER}")
    try:
        write_atomic(part, content, private=True)
        os.link(part, path)  # whole or not at all, and never over another file
    finally:
        part.unlink(missing_ok=True)
    sync_folder(path.parent)


def private_folder(path: Path, known: Sequence[str] = ()) -> None:
    """Make a folder that only its owner can enter, or close one that stood open.

    ``known`` are the beginnings of the names that belong there: an open folder that holds
    anything else, /tmp for one, serves others too and is refused rather than closed to them.
    """
    try:
        path.mkdir(parents=True, exist_ok=True, mode=0o700)
        # Not through a link: whoever can turn it would choose where the keys lie.
        handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError as error:
        if path.is_symlink():
            raise Unprotected(
                f"{path} is a link to {path.resolve()}; keys are kept in a folder, name that one"
            ) from error
        raise DiskError(
            f"{path} must be a folder that can be entered ({error.strerror or error}); mend it, or "
            "name another one with --home or PROXYGUARD_HOME"
        ) from error
    try:
        mode = _check_owner(path, handle)
        if not mode & 0o077:
            return
        foreign = sorted(
            name for name in os.listdir(handle) if not name.startswith(tuple(known or ("",)))
        )
        if foreign or mode & stat.S_ISVTX:
            raise Unprotected(
                f"{path} can be entered by others and holds other things than keys"
                f"{f' ({foreign[0]!r})' if foreign else ''}; name a folder of its own with --home "
                f"or PROXYGUARD_HOME, or close it: chmod 700 {path}"
            )
        _close(path, handle, 0o700, mode)
    finally:
        os.close(handle)


def read_private(path: Path) -> bytes:
    """Return the bytes of a secret file, after it was closed to everybody else."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise Unprotected(
            f"{path} could not be read ({error.strerror or error}); put the key back as a file"
        ) from error
    try:
        fault = fault_of(handle, SECRET)
        if fault is not None:
            raise Unprotected(f"{path} is no plain file of a key: it {fault}; put the key back")
        _close_file(path, handle)
        return os.read(handle, SECRET)
    finally:
        os.close(handle)


def private_file(path: Path) -> None:
    """Make an empty file that only its owner can read, or close one that stood open."""
    handle = os.open(path, os.O_RDONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK, 0o600)
    try:
        _close_file(path, handle)
    finally:
        os.close(handle)


def _close_file(path: Path, handle: int) -> None:
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        raise Unprotected(f"{path} is no plain file; a secret is kept in one")
    mode = os.fstat(handle).st_mode
    if mode & 0o077:
        _check_owner(path, handle)
        _close(path, handle, 0o600, mode)


def _check_owner(path: Path, handle: int) -> int:
    """Return the mode of what this person owns; what is another's cannot be closed to them."""
    status = os.fstat(handle)
    if status.st_uid != os.geteuid():
        raise Unprotected(
            f"{path} belongs to the user with number {status.st_uid}, who can read it whatever its "
            "mode; copy it to a place of your own with mode 600 (a folder 700) and name that"
        )
    return status.st_mode


def _close(path: Path, handle: int, mode: int, before: int) -> None:
    try:
        os.fchmod(handle, mode)
    except OSError as error:
        raise Unprotected(
            f"{path} can be read by others and could not be closed ({error.strerror or error}); "
            "copy it to a disk that keeps modes"
        ) from error
    warnings.warn(
        f"{path} was open to other users of this machine (mode {stat.S_IMODE(before):o}) and is "
        f"closed now (mode {mode:o}); whoever read it before still knows what it held",
        StoodOpen,
        stacklevel=2,
    )


def sync_folder(folder: Path) -> None:
    """Flush a folder's own entries, so that a rename survives a power cut."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def sweep(folder: Path) -> None:
    """Remove what killed writes left behind; the caller holds the folder's lock."""
    for name, _ in entries_inside(folder):
        if name.endswith(LEFTOVER):
            (folder / name).unlink()


def write_inside(folder: Path, name: str, content: bytes) -> None:
    """Put a file into an audit's folder, and nowhere else."""
    try:
        make_parents_inside(folder, name)
    except OSError as error:
        raise DiskError(
            f"{folder / name} could not be written ({error.strerror or error}); nothing was "
            "changed, mend the disk and run the step again"
        ) from error
    write_atomic(folder / name, content)


def _refuse_links(folder: Path) -> None:
    """Refuse a folder with links before a step is begun whose writes could follow them."""
    for name, kind in entries_inside(folder):
        if kind == LINK:
            raise SealError(
                f"{name} is a link; an audit's folder holds its own files and no links, remove it"
            )


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
        _refuse_links(folder)
        yield
    finally:
        os.close(handle)
