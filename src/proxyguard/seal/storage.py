"""The files of an audit: every one is opened, written and locked here.

Reading comes first. A folder may come from anybody, so that every file of it is opened by these
rules; files of the data folders are opened by `open_plain`, and the last two hold for them.

Rules
 * a name is relative and made of names: no absolute path, no ``..``
 * no part of it is a link, so that nothing outside the folder stands for a file of it
 * a file is a plain file: FIFOs, devices and sockets are never waited for, folders never read
 * a file is no larger, JSON no deeper and no folder fuller than audits make them

What breaks a rule is a `SealError` that names the file, before anything of it is in memory.
Want of memory, of rights or of file handles says nothing about the folder and is raised as it is.

Then writing. A file is written beside its place, flushed to the disk, and renamed over it; the
folder is flushed after that. A kill at any instant leaves the old bytes or the new ones. Leftovers
of a killed write have names that say so and are removed by the next writer. What is secret (keys,
the lineage store) lies in a folder of its owner's and in files that nobody else may read, from
their first byte on; what stood open is closed before it is read.

Between the two stand the operating system's randomness and clock, where a test can hold them still.

Windows opens no folders, and has neither modes nor `flock`. There a path is looked at step by step
and the opened file compared with what was looked at, a lock is a file of the user's own temporary
folder, and who can read a file of a home is the system's to say (`docs/platforms.md`).
"""

from __future__ import annotations

import errno
import hashlib
import os
import re
import secrets
import stat
import tempfile
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from importlib import import_module
from io import BufferedReader
from pathlib import Path

from proxyguard.errors import Busy, DiskError, SealError, StoodOpen, TableError, Unprotected

# Bytes of any file; a sealed target is read chunk by chunk, and may be larger than memory.
LARGEST = 8 * 2**30
# Bytes of a stored table or model, which is read as a whole.
OBJECT = 2**30
# Bytes of a file that draws may read besides tables, which is digested and never held.
WEIGHTS = 2**40
# Bytes of a manifest, a registry, evidence.
DOCUMENT = 256 * 2**20
# Files of a folder; a draw has three.
FILES = 250_000
# Folders within folders.
DEPTH = 32
LINK = "a link"
_ADDRESS = re.compile("[0-9a-f]{64}")
# What an open fails with for a reason that lies on this machine and not in the folder.
_OURS = frozenset(
    (errno.ENOMEM, errno.EMFILE, errno.ENFILE, errno.EACCES, errno.EPERM, errno.EIO, errno.ESTALE)
)


def opens_folders() -> bool:
    """Return whether folders can be opened here, and files by an open folder."""
    return hasattr(os, "O_DIRECTORY") and os.open in os.supports_dir_fd


def has_modes() -> bool:
    """Return whether files have an owner and modes here by which they can be closed to others."""
    return hasattr(os, "geteuid") and hasattr(os, "fchmod")


def _flags(*names: str) -> int:
    """Return flags of an open, as far as this system has them."""
    whole = 0
    for name in (*names, "O_BINARY", "O_NOINHERIT"):  # the last two are Windows's alone
        whole |= getattr(os, name, 0)
    return whole


def is_address(text: object) -> bool:
    """Return whether this is a SHA-256 as we write it; as a path another could lead anywhere."""
    return isinstance(text, str) and _ADDRESS.fullmatch(text) is not None


def ours_to_mend(error: OSError) -> bool:
    """Return whether an error is about this machine, and says nothing about the folder."""
    return error.errno in _OURS


def open_inside(folder: Path, name: str, *, most: int = LARGEST) -> BufferedReader:
    """Open a plain file of the folder.

    Parameters
    ----------
    folder
        The audit's folder, which this machine's user named.
    name
        The file's name within it, which may come from anybody.
    most
        Bytes that it may have.

    Raises
    ------
    FileNotFoundError
        If there is none.
    SealError
        If the name leads out of the folder, a link or another odd thing stands there, or the file
        is larger: whoever made the folder put it there.
    """
    steps = check_name(name)
    if not opens_folders():
        return _open_by_path(folder, steps, name, most)
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        for number, step in enumerate(steps, start=1):
            # Without waiting: a FIFO has no writer. Without following: a link leads out. Folder by
            # folder: what is checked by its whole path can be swapped before it is opened by it.
            flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY
            if number < len(steps):
                flags |= os.O_DIRECTORY
            within = os.open(step, flags, dir_fd=handle)
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


def _open_by_path(folder: Path, steps: Sequence[str], name: str, most: int) -> BufferedReader:
    """Open a plain file of the folder where no folder can be opened.

    Every step is looked at, and the file that was opened must be the one that was looked at. A
    folder on the way that is swapped for a link just then, and back, is not noticed.
    """
    path = folder
    facts = os.lstat(folder)
    for number, step in enumerate(steps, start=1):
        path = path / step
        facts = os.lstat(path)
        if _is_link(facts):
            raise SealError(f"{name} is {LINK}; it was put there")
        if number < len(steps) and not stat.S_ISDIR(facts.st_mode):
            raise SealError(f"{name} is below something that is no folder; it was put there")
    if not stat.S_ISREG(facts.st_mode):
        raise SealError(f"{name} is {_kind(facts.st_mode)}; no audit writes that, it was put there")
    handle = os.open(path, os.O_RDONLY | _flags("O_NOFOLLOW", "O_NONBLOCK", "O_NOCTTY"))
    opened = os.fstat(handle)
    if (opened.st_dev, opened.st_ino) != (facts.st_dev, facts.st_ino):
        os.close(handle)
        raise SealError(f"{name} was changed while it was opened; run the step again")
    fault = fault_of(handle, most)
    if fault is not None:
        os.close(handle)
        raise SealError(f"{name} {fault}; no audit writes that, it was put there")
    return os.fdopen(handle, "rb")


def _is_link(facts: os.stat_result) -> bool:
    """Return whether this leads elsewhere: a link, or what Windows has in its place."""
    reparse = getattr(stat, "FILE_ATTRIBUTE_REPARSE_POINT", 0)
    return stat.S_ISLNK(facts.st_mode) or bool(getattr(facts, "st_file_attributes", 0) & reparse)


def open_plain(path: Path, *, most: int) -> BufferedReader:
    """Open a plain file of this machine's own, a data file or release, where links may be followed.

    What is none, or is too large, is a `TableError`; a FIFO is never waited for.
    """
    handle = os.open(path, os.O_RDONLY | _flags("O_NONBLOCK", "O_NOCTTY"))
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
    if not opens_folders():
        _make_parents_by_path(folder, name)
        return
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        for step in check_name(name)[:-1]:
            with suppress(FileExistsError):
                os.mkdir(step, dir_fd=handle)
            flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_DIRECTORY
            within = os.open(step, flags, dir_fd=handle)
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


def _make_parents_by_path(folder: Path, name: str) -> None:
    path = folder
    for step in check_name(name)[:-1]:
        path = path / step
        with suppress(FileExistsError):
            os.mkdir(path)
        facts = os.lstat(path)
        if _is_link(facts) or not stat.S_ISDIR(facts.st_mode):
            raise SealError(
                f"{name} would be written below a link, or below something that is no folder; "
                "remove it, an audit's folder holds its own files"
            )


class FolderFiles:
    """The files of an audit's folder, as one step sees them: each is read and hashed once.

    Within a `step` the bytes that were hashed are the bytes that are used: a forger who puts
    another file in a checked one's place between two reads changes nothing that the step sees.
    Outside a step nothing is remembered.

    Parameters
    ----------
    folder
        The audit's folder.
    room
        Bytes that a step holds in memory. A file beyond them is read again for every use, and
        hashed each time: what has not the digest that the step saw first is refused.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     file = Path(folder) / "evidence.json"
    ...     _ = file.write_bytes(b"checked")
    ...     files = FolderFiles(Path(folder))
    ...     with files.step():
    ...         digest = files.sha256("evidence.json")
    ...         _ = file.write_bytes(b"swapped")
    ...         files.read("evidence.json")
    b'checked'
    """

    def __init__(self, folder: Path, *, room: int = DOCUMENT) -> None:
        self.folder = folder
        self._room = room
        self._steps = 0
        self._held: dict[str, bytes] = {}
        self._digests: dict[str, str] = {}

    @contextmanager
    def step(self) -> Iterator[None]:
        """Remember every file from its first read on, until the outermost step ends.

        A step that writes begins after it has locked the folder: what another writer did
        before is then read, and nobody else writes while it lasts.
        """
        room = self._room
        self._steps += 1
        try:
            yield
        finally:
            self._steps -= 1
            if not self._steps:
                self._held.clear()
                self._digests.clear()
                self._room = room

    @property
    def in_step(self) -> bool:
        """Whether files are remembered now."""
        return self._steps > 0

    def read(self, name: str, *, most: int = DOCUMENT) -> bytes:
        """Return the bytes of a plain file; a missing one is a `FileNotFoundError`."""
        if name in self._held:
            return self._held[name]
        content = read_inside(self.folder, name, most=most)
        if self._steps and not self._hold(name, content):
            # Its digest is all that is remembered of it, and binds this use and all others.
            self._see(name, hashlib.sha256(content).hexdigest())
        return content

    def sha256(self, name: str) -> str:
        """Return the digest of a file, which is that of the bytes that `read` gives."""
        if name in self._held or name in self._digests:
            return self.digest_of(name, self._held.get(name, b""))
        with open_inside(self.folder, name) as file:
            if self._steps and os.fstat(file.fileno()).st_size <= self._room:
                content = read_whole(file)
                self._hold(name, content)
                return self.digest_of(name, content)
            # What is too large to be held, a sealed target above all, is hashed piece by piece.
            return self._see(name, hashlib.file_digest(file, "sha256").hexdigest())

    def digest_of(self, name: str, content: bytes) -> str:
        """Return the digest of what `read` gave, computed where this step has not done so."""
        known = self._digests.get(name)
        return self._see(name, hashlib.sha256(content).hexdigest()) if known is None else known

    def write(self, name: str, content: bytes, digest: str | None = None) -> str:
        """Put a file into the folder and return its digest, which a caller may know already."""
        write_inside(self.folder, name, content)
        self._room += len(self._held.pop(name, b""))
        self._digests.pop(name, None)
        if self._steps:
            self._hold(name, content)
        return self._see(name, digest or hashlib.sha256(content).hexdigest())

    def _hold(self, name: str, content: bytes) -> bool:
        """Keep the bytes of a file for this step, if there is room."""
        if len(content) > self._room:
            return False
        self._room -= len(content)
        self._held[name] = content
        return True

    def _see(self, name: str, digest: str) -> str:
        """Return the digest of a file; within a step it is the one that was seen first."""
        if self._steps and self._digests.setdefault(name, digest) != digest:
            raise SealError(f"{name} was changed while it was read; run the step again")
        return digest


def check_name(name: str) -> list[str]:
    """Return the folders of a file's name, and its last name; what could lead out is refused."""
    steps = name.split("/")
    odd = any(
        step in ("", ".", "..") or any(c in step for c in FORBIDDEN) or len(step) > 255
        for step in steps
    )
    if odd or len(steps) > DEPTH:
        raise SealError(f"{_short(name)} is no name of a file in an audit's folder")
    return steps


def entries_inside(folder: Path) -> Iterator[tuple[str, str | None]]:
    """Yield every entry below a folder: its name, and what it is where it is no plain file.

    Links are named and not followed: one to a folder above would be walked for ever.

    Raises
    ------
    SealError
        If there are more files, or deeper folders, than an audit makes.
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


def random_bytes(size: int) -> bytes:
    """Return bytes nobody can guess: salts, keys, nonces."""
    return secrets.token_bytes(size)


def now() -> str:
    """Return the time in UTC, to the second, as RFC 3339 writes it."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


# In no name of a file; on Windows the last two lead to other folders, drives and streams.
FORBIDDEN = "\0\\:" if os.name == "nt" else "\0"
# Suffix of a file that is being written.
LEFTOVER = ".part"
# Bytes of a key's file.
SECRET = 2**16


def write_flushed(path: Path, content: bytes, *, private: bool) -> None:
    """Write a file through to the disk, readable by its owner alone if it is private."""
    mode = 0o600 if private else 0o666
    # A folder from elsewhere may hold a link of this name, which would be written through.
    if not hasattr(os, "O_NOFOLLOW") and path.is_symlink():
        path.unlink()
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | _flags("O_NOFOLLOW")
    handle = os.open(path, flags, mode)
    with os.fdopen(handle, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def write_atomic(path: Path, content: bytes, *, private: bool = False) -> None:
    """Put ``content`` at ``path``, so that a reader sees the old file or the new one.

    Parameters
    ----------
    path
        Where; its folder is there.
    content
        All bytes of the file.
    private
        Whether it is readable by its owner alone, from the first byte on.

    Raises
    ------
    DiskError
        If the disk is full or refuses; the old file is still there.
    """
    beside = path.with_name(path.name + LEFTOVER)
    try:
        # Flushed before it is renamed: after a power cut a name may otherwise lead to no bytes.
        write_flushed(beside, content, private=private)
        os.replace(beside, path)
        sync_folder(path.parent)
    except OSError as error:
        raise DiskError(
            f"{path} could not be written ({error.strerror or error}); nothing was changed, "
            "mend the disk and run the step again"
        ) from error


def write_once(path: Path, content: bytes) -> None:
    """Put a private file at ``path``; where there is one already, `FileExistsError`."""
    # A name that nobody else can have chosen: two processes may make the same key at once.
    beside = path.with_name(f"{path.name}.{random_bytes(8).hex()}{LEFTOVER}")
    try:
        write_atomic(beside, content, private=True)
        os.link(beside, path)  # whole or not at all, and never over another file
    finally:
        beside.unlink(missing_ok=True)
    sync_folder(path.parent)


def private_folder(path: Path, known: Sequence[str] = ()) -> None:
    """Make a folder that only its owner can enter, or close one that stood open.

    Parameters
    ----------
    path
        The folder, made with its parents where it is not there.
    known
        The beginnings of the names that belong there: an open folder that holds anything else,
        /tmp for one, serves others too and is refused rather than closed to them.

    Raises
    ------
    Unprotected
        If it is a link, another user's, or serves others too.
    DiskError
        If it cannot be made or entered.

    Warns
    -----
    StoodOpen
        If it was open and is closed now: what others read before, they still know.
    """
    try:
        path.mkdir(parents=True, exist_ok=True, mode=0o700)
        if not (opens_folders() and has_modes()):
            _refuse_linked_home(path)
            return
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


def _refuse_linked_home(path: Path) -> None:
    """Refuse a folder of keys that a link leads to; who may enter it, this system says itself."""
    if _is_link(os.lstat(path)):
        raise Unprotected(
            f"{path} is a link to {path.resolve()}; keys are kept in a folder, name that one"
        )


def read_private(path: Path) -> bytes:
    """Return the bytes of a secret file, after it was closed to everybody else.

    Raises
    ------
    FileNotFoundError
        If there is none.
    Unprotected
        If it is no plain file of a key's size, cannot be read, or cannot be closed.
    """
    try:
        handle = os.open(path, os.O_RDONLY | _flags("O_NONBLOCK"))
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
        # By the handle and not by the path, which may lead elsewhere by now.
        _close_file(path, handle)
        return os.read(handle, SECRET)
    finally:
        os.close(handle)


def private_file(path: Path) -> None:
    """Make an empty file that only its owner can read, or close one that stood open."""
    handle = os.open(path, os.O_RDONLY | os.O_CREAT | _flags("O_NOFOLLOW", "O_NONBLOCK"), 0o600)
    try:
        _close_file(path, handle)
    finally:
        os.close(handle)


def _close_file(path: Path, handle: int) -> None:
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        raise Unprotected(f"{path} is no plain file; a secret is kept in one")
    mode = os.fstat(handle).st_mode
    if has_modes() and mode & 0o077:
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
    if not opens_folders():
        return  # the file system's own journal is all there is
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def sweep(folder: Path) -> None:
    """Remove what killed writes left behind; the caller holds the folder's lock.

    Without it a write of another process that is still going on would lose its file.
    """
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
    """Hold a folder for one writer, and clear away what a killed one left.

    The lock lies on the folder itself, so no lock file can be left over or forged; the kernel
    lets go of it when the process ends, however it ends.

    Raises
    ------
    Busy
        If another process holds it; nobody is waited for.
    SealError
        If a link lies in the folder, which a later write could follow out of it.
    """
    handle = _lock_handle(folder)
    try:
        try:
            _lock(handle)
        except (BlockingIOError, PermissionError):
            raise Busy(
                f"another process is working on {folder}; wait for it and run the step again"
            ) from None
        sweep(folder)
        _refuse_links(folder)
        yield
    finally:
        os.close(handle)


def _lock_handle(folder: Path) -> int:
    """Open what the lock of a folder lies on: the folder, or a file that stands for it."""
    if opens_folders():
        return os.open(folder, os.O_RDONLY)
    os.lstat(folder)  # a folder that is missing is told as one
    # Not in the folder, which is given to others and holds nothing that no step vouches for.
    stands_for = hashlib.sha256(str(folder.resolve()).encode()).hexdigest()[:32]
    path = Path(tempfile.gettempdir()) / f"proxyguard-{stands_for}.lock"
    return os.open(path, os.O_RDWR | os.O_CREAT | _flags("O_NOFOLLOW"), 0o600)


def _lock(handle: int) -> None:
    """Lock an open file until it is closed; raise where another process holds it."""
    try:
        fcntl = import_module("fcntl")
    except ImportError:
        windows = import_module("msvcrt")
        windows.locking(handle, windows.LK_NBLCK, 1)
        return
    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
