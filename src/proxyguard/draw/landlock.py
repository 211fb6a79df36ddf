"""Landlock, the Linux kernel's allow list of files, through its three system calls.

A process that restricts itself, and all that it starts, opens what a rule names and nothing
else, whatever code asks: Python, native libraries, other programs. It cannot take that back.
What is not a way to a file's content (its size, whether it exists) is not restricted.
"""

from __future__ import annotations

import ctypes
import errno
import os
import stat
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, IntFlag

from proxyguard.draw.processes import LINUX, libc, prctl

_CREATE, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446  # the same numbers on every architecture
_VERSION_FLAG, _PATH_BENEATH, _PR_SET_NO_NEW_PRIVS = 1, 1, 38
_ABSENT = (errno.ENOSYS, errno.EOPNOTSUPP, errno.EPERM)
"""Not in this kernel; switched off at its start; kept from this container."""
_SCOPES = 0b11  # no abstract sockets and no signals to processes outside


class Access(IntFlag):
    """What can be done with files (``LANDLOCK_ACCESS_FS_*``)."""

    EXECUTE = 1 << 0
    WRITE_FILE = 1 << 1
    READ_FILE = 1 << 2
    READ_DIR = 1 << 3
    REMOVE_DIR = 1 << 4
    REMOVE_FILE = 1 << 5
    MAKE_CHAR = 1 << 6
    MAKE_DIR = 1 << 7
    MAKE_REG = 1 << 8
    MAKE_SOCK = 1 << 9
    MAKE_FIFO = 1 << 10
    MAKE_BLOCK = 1 << 11
    MAKE_SYM = 1 << 12
    REFER = 1 << 13  # link and rename from one folder to another; since version 2
    TRUNCATE = 1 << 14  # since version 3
    IOCTL_DEV = 1 << 15  # since version 5


_READ = Access.EXECUTE | Access.READ_FILE | Access.READ_DIR
_ALL = Access((1 << 16) - 1)
_ON_A_FILE = (
    Access.EXECUTE | Access.WRITE_FILE | Access.READ_FILE | Access.TRUNCATE | Access.IOCTL_DEV
)


class Use(Enum):
    """What a rule allows with a path and everything beneath it."""

    LIST = Access.READ_DIR
    READ = _READ
    CHANGE = _ALL


@dataclass(frozen=True, slots=True)
class Rule:
    """A path, and what is allowed with it; one that does not exist allows nothing."""

    path: str
    use: Use


def _call(number: int, *arguments: object) -> int:
    """Make a system call; the one function that the kernel is reached through."""
    result: int = libc().syscall(ctypes.c_long(number), *arguments)
    if result < 0:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))
    return result


def version() -> int:
    """Return the version of the kernel's interface, 0 where it has none."""
    if not LINUX:
        return 0
    try:
        return _call(_CREATE, None, ctypes.c_size_t(0), ctypes.c_uint32(_VERSION_FLAG))
    except OSError as error:
        if error.errno in _ABSENT:
            return 0
        raise


def restrict(rules: Sequence[Rule]) -> None:
    """Allow this process, from here on, what these rules name and nothing else."""
    _restrict(rules, _ALL, scoped=_SCOPES)


def restrict_changes(paths: Sequence[str]) -> None:
    """Allow this process, from here on, to change what is beneath these paths alone.

    Nor may it signal processes outside: it could stop the one that ends it when its time is up.
    """
    rules = [Rule(path, Use.CHANGE) for path in paths]
    _restrict(rules, _ALL & ~_READ & ~Access.IOCTL_DEV, scoped=_SCOPES)


def _restrict(rules: Sequence[Rule], handled: Access, *, scoped: int = 0) -> None:
    known = version()
    handled &= _known_to(known)
    # Filters take effect for what starts later only if nothing that starts can gain rights.
    prctl(_PR_SET_NO_NEW_PRIVS, 1)
    attributes = struct.pack("=Q", handled)
    if known >= 6:
        attributes = struct.pack("=QQQ", handled, 0, scoped)
    ruleset = _call(_CREATE, attributes, ctypes.c_size_t(len(attributes)), ctypes.c_uint32(0))
    try:
        for rule in rules:
            _add(ruleset, rule, handled)
        _call(_RESTRICT_SELF, ctypes.c_int(ruleset), ctypes.c_uint32(0))
    finally:
        os.close(ruleset)


def _known_to(known: int) -> Access:
    """Return the accesses that a version of the interface knows; others it would refuse."""
    later = {Access.REFER: 2, Access.TRUNCATE: 3, Access.IOCTL_DEV: 5}
    return _ALL & ~Access(sum(access for access, since in later.items() if known < since))


def _add(ruleset: int, rule: Rule, handled: Access) -> None:
    try:
        handle = os.open(rule.path, os.O_PATH | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return  # nothing is there, or nothing that could be read anyway
    try:
        allowed = rule.use.value & handled
        if not stat.S_ISDIR(os.fstat(handle).st_mode):
            allowed &= _ON_A_FILE
        if allowed:
            attributes = struct.pack("=Qi", allowed, handle)
            _call(_ADD_RULE, ctypes.c_int(ruleset), ctypes.c_int(_PATH_BENEATH), attributes,
                  ctypes.c_uint32(0))  # fmt: skip
    finally:
        os.close(handle)
