"""A system without what POSIX has: put before anything is imported, in a process of its own.

What Windows lacks is taken from `os` and `signal`, modules that it lacks cannot be imported,
folders cannot be opened, and `msvcrt` stands in with its locks. Child processes do the same: this
is run by their interpreter too (``sitecustomize``). It is no Windows: paths, quoting and rights are
those of the machine that it runs on.
"""

from __future__ import annotations

import os
import signal
import sys
from types import ModuleType

POSIX_OS = (
    "fork", "forkpty", "waitid", "WNOHANG", "WNOWAIT", "WEXITED", "P_ALL", "P_PID", "WIFSIGNALED",
    "WTERMSIG", "WIFEXITED", "WEXITSTATUS", "setsid", "getpgrp", "getpgid", "killpg", "geteuid",
    "getuid",
    "getgid", "fchmod", "fchown", "chown", "mkfifo", "mknod", "O_NOFOLLOW", "O_DIRECTORY",
    "O_NONBLOCK", "O_NOCTTY", "O_CLOEXEC", "O_PATH", "pread", "pwrite", "sched_getaffinity",
    "register_at_fork", "statvfs", "set_blocking", "openpty", "ttyname", "getloadavg",
)  # fmt: skip
POSIX_SIGNALS = (
    "SIGHUP", "SIGKILL", "SIGCHLD", "SIGUSR1", "SIGALRM", "SIGPIPE", "pthread_kill", "setitimer",
    "pthread_sigmask", "alarm", "siginterrupt",
)  # fmt: skip
POSIX_MODULES = ("fcntl", "resource", "pwd", "grp", "termios", "tty", "pty", "syslog")


def _locks() -> ModuleType:
    import fcntl

    windows = ModuleType("msvcrt")
    windows.LK_NBLCK = 2  # type: ignore[attr-defined]

    def locking(handle: int, mode: int, size: int) -> None:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:  # as Windows says it
            raise PermissionError(13, "Permission denied") from error

    windows.locking = locking  # type: ignore[attr-defined]
    return windows


def become() -> None:
    """Take all of it away from this process."""
    # These belong to Python's own library here, which has its Windows half there.
    import asyncio  # noqa: F401
    import multiprocessing.context
    import multiprocessing.util  # noqa: F401
    import random  # noqa: F401
    import shutil  # noqa: F401
    import socket
    import sqlite3  # noqa: F401
    import subprocess
    import tempfile  # noqa: F401
    import threading  # noqa: F401

    locks = _locks()
    open_file = os.open

    def open_no_folder(
        path: str, flags: int, mode: int = 0o777, *, dir_fd: int | None = None
    ) -> int:
        if dir_fd is not None:
            raise NotImplementedError("dir_fd unavailable on this platform")
        if os.path.isdir(path):
            raise PermissionError(13, "Permission denied", str(path))
        return open_file(path, flags, mode)

    for name in POSIX_OS:
        # The library's own half of POSIX keeps working: it took these names when it was loaded.
        if name not in ("waitid", "WNOHANG", "WIFSIGNALED", "WTERMSIG", "WIFEXITED", "WEXITSTATUS"):
            os.__dict__.pop(name, None)
    for name in POSIX_SIGNALS:
        signal.__dict__.pop(name, None)
    for name in ("send_fds", "recv_fds"):
        socket.__dict__.pop(name, None)
    for name in POSIX_MODULES:
        sys.modules[name] = None  # type: ignore[assignment]
    sys.modules["msvcrt"] = locks
    os.open = open_no_folder
    os.supports_dir_fd.clear()

    def kill(process: subprocess.Popen[bytes]) -> None:
        if process.poll() is None:
            os.kill(process.pid, 9)

    subprocess.Popen.kill = kill  # type: ignore[method-assign]
    import proxyguard.draw.processes

    proxyguard.draw.processes.LINUX = False  # neither Landlock nor prctl


if __name__ == "sitecustomize":
    become()
