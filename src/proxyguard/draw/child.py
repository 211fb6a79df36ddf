"""A process for code that is not ours: how it is started, spoken to and ended.

A fresh interpreter, not a fork, which would have keys in its memory, with an environment of its own
and so much time as whoever asks gives it. A process between the two, in which none of the code
runs, ends whatever it started and left.
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from types import FrameType
from typing import IO, Protocol

from proxyguard.draw.pool import THREADS, import_path
from proxyguard.draw.processes import (
    LINUX,
    adopt_orphans,
    end_children,
    end_family,
    end_with_parent,
    leave_only,
    prctl,
    prctl_value,
)
from proxyguard.errors import UntrustedCode

# What the child keeps of the environment: nothing that could hold a secret or lead to one.
#
# The last four choose the kernels of sums and products: without them a draw that is made again here
# could differ in its last bit from the one that was made here.
KEPT = (
    "PATH", "LANG", "LANGUAGE", "LC_ALL", "LC_CTYPE", "TZ", "LD_LIBRARY_PATH",
    "OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE", "MKL_CBWR", "NPY_DISABLE_CPU_FEATURES",
)  # fmt: skip
_GET_DUMPABLE, _DUMPABLE = 3, 4  # PR_GET_DUMPABLE, PR_SET_DUMPABLE


# Bytes that say how long what follows is.
LENGTH = 8


class Sink(Protocol):
    """What records are sent through."""

    def write(self, content: bytes | memoryview, /) -> int:
        """Write all of it."""


class Readable(Protocol):
    """What records are read from."""

    def read(self, size: int, /) -> bytes:
        """Read so many bytes, or fewer where it ends."""


def put(out: Sink, content: bytes | memoryview) -> None:
    """Write how long something is, and then it."""
    out.write(len(content).to_bytes(LENGTH, "big"))
    out.write(content)


def take(source: Readable) -> bytes:
    """Read what `put` wrote; of ours, since of others any length could be said."""
    return source.read(int.from_bytes(source.read(LENGTH), "big"))


class ChildLine:
    """The two pipes to the child, which has until a time to take its job and answer.

    Code that neither reads nor answers would otherwise hold the verifier at either end of it.
    """

    def __init__(self, process: subprocess.Popen[bytes], timeout: float) -> None:
        assert process.stdin is not None  # both are pipes
        assert process.stdout is not None
        self._job, self._answer = process.stdin, process.stdout
        self._timeout = timeout
        self._end = time.monotonic() + timeout
        # A blocking write of a large chunk would wait beyond the end, in one call.
        os.set_blocking(self._job.fileno(), False)

    def write(self, content: bytes | memoryview, /) -> int:
        """Write all of it, as fast as it is taken."""
        rest = memoryview(content).cast("B")
        size = len(rest)
        while rest:
            self._wait(self._job, select.POLLOUT)
            with suppress(BlockingIOError):  # room for some bytes, and not for as many as these
                rest = rest[os.write(self._job.fileno(), rest) :]
        return size

    def close(self) -> None:
        """Say that the job is complete."""
        self._job.close()

    def read(self, size: int) -> bytes:
        """Return so many bytes, or fewer where the answers end."""
        content = bytearray()
        while len(content) < size:
            self._wait(self._answer, select.POLLIN)
            more = os.read(self._answer.fileno(), min(size - len(content), 1 << 20))
            if not more:
                break
            content += more
        return bytes(content)

    def _wait(self, pipe: IO[bytes], event: int) -> None:
        poll = select.poll()
        poll.register(pipe, event)
        left = self._end - time.monotonic()
        if left <= 0.0 or not poll.poll(left * 1000.0):
            raise UntrustedCode(
                f"code that the folder names did not answer within {self._timeout:g} seconds and "
                "was ended; give it more time with --timeout SECONDS",
                names=(),
            )


@contextmanager
def started(module: str, timeout: float, *, without: Path | None = None) -> Iterator[ChildLine]:
    """Start a module in a process without keys, and end it with all that it has started.

    Parameters
    ----------
    module
        One of ours, which does `answer_once`.
    timeout
        Seconds that it has to take its job and answer.
    without
        A folder of which no module is imported.
    """
    with (
        TemporaryDirectory(prefix="proxyguard-") as scratch,
        unreadable_memory(),
        subprocess.Popen(
            # -P: neither the folder nor the scratch folder is a place to import from.
            [sys.executable, "-P", "-m", module, str(os.getpid())],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,  # it could write escapes to the verifier's terminal
            cwd=scratch,
            env=child_environment(scratch, without=without),
            start_new_session=True,
            bufsize=0,
        ) as process,
    ):
        try:
            yield ChildLine(process, timeout)
        finally:
            # After an answer too: the code could answer and go on.
            end_family(process)


def answer_once(make: Callable[[IO[bytes]], bytes]) -> None:
    """Do the job of a process that was `started`; what the code in it prints goes nowhere."""
    watched(int(sys.argv[1]), partial(_answer, make))


def _answer(make: Callable[[IO[bytes]], bytes]) -> None:
    # The pipe gets another number: what the code prints must not be read as an answer.
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    answers.write(make(sys.stdin.buffer))
    answers.flush()
    os._exit(0)  # no thread or exit handler of the code outlives its answer


def refuse_without_fork(what: str) -> None:
    """Raise where code of others cannot be ended with all that it starts, and so is not run."""
    if not hasattr(os, "fork"):
        raise UntrustedCode(
            f"{what} is not run on a system that cannot fork, where nothing would end what it "
            "starts; run this on Linux or macOS",
            names=(),
        )


def child_environment(scratch: str, *, without: Path | None = None) -> dict[str, str]:
    """Return the child's environment, in which nothing of the verifier's is left to find."""
    kept = {name: os.environ[name] for name in KEPT if name in os.environ}
    return {
        **kept,
        **dict.fromkeys(THREADS, "1"),
        **dict.fromkeys(("HOME", "TMPDIR", "XDG_DATA_HOME", "XDG_CACHE_HOME"), scratch),
        # A module in a stranger's folder could take the name of one of ours.
        "PYTHONPATH": import_path(without=without),
        "PYTHONSAFEPATH": "1",  # also for interpreters that the code starts itself
        "PYTHONDONTWRITEBYTECODE": "1",
    }


@contextmanager
def unreadable_memory() -> Iterator[None]:
    """Keep processes of the same user from reading this one's memory, where the keys are."""
    if not LINUX:
        yield
        return
    before = prctl_value(_GET_DUMPABLE)
    prctl(_DUMPABLE, 0)
    try:
        yield
    finally:
        if before == 1:  # whoever had made it unreadable wants it so, and 2 cannot be set
            prctl(_DUMPABLE, before)


def watched(parent: int, do_job: Callable[[], None]) -> None:
    """Let a fork do one job, and end all that it started when it ends or this is told to.

    The code runs in the fork alone, so that it cannot have replaced what ends it; what it starts in
    other groups or sessions becomes a child of this process when its parent dies.
    """
    # Not killed but told, so that it still ends what the code started.
    end_with_parent(parent, signal.SIGTERM)
    adopt_orphans()
    signal.signal(signal.SIGTERM, _end_all)
    watch = os.getpid()
    worker = os.fork()
    if worker == 0:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        end_with_parent(watch, signal.SIGKILL)
        try:
            do_job()
        finally:
            os._exit(1)  # a fork must not run on as its parent
    leave_only((2,))  # the pipes are the fork's: the answers end when it and its family have
    os.waitpid(worker, 0)
    _end_all(signal.SIGTERM, None)


def _end_all(number: int, frame: FrameType | None) -> None:
    """End everything that was started from here, and then this process."""
    end_children()
    os._exit(128 + number)
