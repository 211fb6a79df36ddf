"""Families of processes: how they are started, spoken to and ended; none outlives its command.

A pool starts one process, which imports and forks workers; a worker forks two processes for each
job, and these one for each batch of draws, in which a generator may start processes of its own.
On Linux the kernel tells every member of this chain when the member above it has died, and gives
orphans to the nearest ancestor that adopts them; elsewhere a process group is all there is.

A process for code that is not ours (`started`, `answer_once`) is a fresh interpreter and not a
fork, which would have keys in its memory, with an environment of its own and so much time as
whoever asks gives it. A process between the two, in which none of the code runs, ends whatever it
started and left.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import os
import select
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from types import FrameType
from typing import IO, NamedTuple, Protocol

from proxyguard.errors import UntrustedCode
from proxyguard.seal.journal import NAME

LINUX = sys.platform.startswith("linux")
# Seconds in which a worker that is told to end should have ended its family, on a busy machine.
PATIENCE = 20.0
# Seconds after which a process that says nothing is looked at again.
LOOK = 0.25
# Bytes that say how long what follows is.
LENGTH = 8
_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36


@functools.cache
def libc() -> ctypes.CDLL:
    """Return the C library, for calls that Python does not have."""
    return ctypes.CDLL(None, use_errno=True)


def prctl(option: int, value: int) -> None:
    """Set one attribute of this process; raise where the kernel refuses it."""
    # Whole words: ctypes passes a plain number as half of one, and the kernel refuses some options
    # whose unused arguments are not 0.
    if libc().prctl(option, ctypes.c_ulong(value), *[ctypes.c_ulong(0)] * 3) != 0:
        error = ctypes.get_errno()
        raise OSError(error, f"prctl({option}, {value}): {os.strerror(error)}")


def prctl_value(option: int) -> int:
    """Return one attribute of this process; raise where the kernel refuses it."""
    value: int = libc().prctl(option, *[ctypes.c_ulong(0)] * 4)
    if value < 0:
        error = ctypes.get_errno()
        raise OSError(error, f"prctl({option}): {os.strerror(error)}")
    return value


def end_with_parent(parent: int, number: signal.Signals) -> None:
    """Let this signal come when the parent dies, and end at once where it is dead already.

    Without it a parent that is killed, which can tidy up nothing, leaves its children at work.
    """
    if LINUX:
        prctl(_PR_SET_PDEATHSIG, number)
    # Only after the request for the signal: in the other order a parent that dies between the two
    # would be seen by neither.
    if os.getppid() != parent:
        os._exit(128 + signal.SIGKILL)


def adopt_orphans() -> None:
    """Become the parent of descendants that lose theirs, also of those in other groups."""
    if LINUX:
        prctl(_PR_SET_CHILD_SUBREAPER, 1)


def start_fork(parent: int) -> None:
    """Tie a fork to the life of its parent; what the parent does when told to end is not for it."""
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    # Neither of the two is inherited: the kernel clears the signal in a fork, and whoever adopts
    # orphans does so for itself alone.
    end_with_parent(parent, signal.SIGKILL)
    adopt_orphans()


def children() -> set[int]:
    """Return the processes whose parent is this one; where the system tells nothing, none."""
    try:  # most often there are none, and asking that costs nothing
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return set()
    if not LINUX:
        return set()
    return {int(name) for name in os.listdir("/proc") if name.isdigit() and _is_child(name)}


def _is_child(name: str) -> bool:
    try:
        with open(f"/proc/{name}/stat", "rb") as file:
            # The command's name may hold blanks and brackets, and the process itself can choose it.
            after_command = file.read().rpartition(b")")[2].split()
    except OSError:
        return False  # it has ended
    return int(after_command[1]) == os.getpid()


def end_children(*, but: frozenset[int] = frozenset()) -> None:
    """Kill and reap every descendant, except children that ``but`` names.

    Whoever adopts orphans becomes the parent of what its dead children leave, so this goes on
    until nothing is left; a process that starts others while it is ended is ended with them.
    """
    while rest := children() - but:
        # All are killed before one is waited for: meanwhile the others would go on forking.
        for child in rest:
            with contextlib.suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)
        for child in rest:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(child, 0)


class Forked(NamedTuple):
    """How a process ended that was forked to make something."""

    made: bytes | None  # nothing where it did not tell all of it
    late: bool
    status: int  # as the kernel has it


def in_a_fork(make: Callable[[], bytes], timeout: float | None = None) -> Forked:
    """Return what a child makes that has the state of this process and leaves nothing in it.

    Whatever it started ends with it. It is not waited for after it has told all, nor is what it
    left behind, which may hold its pipe open.
    """
    read, write = os.pipe()
    before = frozenset(children())  # what stood here before, and may stay
    parent = os.getpid()
    child = os.fork()
    if child == 0:
        try:
            start_fork(parent)
            os.close(read)
            content = make()
            with os.fdopen(write, "wb") as out:
                # With its length: what a kill cuts off must not pass for a short answer.
                out.write(len(content).to_bytes(LENGTH, "big"))
                out.write(content)
        except MemoryError:  # whether this is raised or the kernel kills it is chance
            try:
                traceback.print_exc()
            finally:
                os.kill(os.getpid(), signal.SIGKILL)
        except BaseException:  # a fork must not run on as its parent
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    os.close(write)
    made, late = _collect(read, child, timeout)
    if made is not None or late:
        os.kill(child, signal.SIGKILL)
    # What it started becomes a child of this process when it is dead, and can be ended then.
    _, status = os.waitpid(child, 0)
    end_children(but=before)  # a process that it leaves could tell the next one something
    return Forked(made, late, status)


def _collect(read: int, child: int, timeout: float | None) -> tuple[bytes | None, bool]:
    """Return the message that a child wrote, if it is whole, and whether time ran out first."""
    end = None if timeout is None else time.monotonic() + timeout
    content = bytearray()
    closed = False
    with os.fdopen(read, "rb", buffering=0) as pipe:
        while True:
            if len(content) >= LENGTH:
                size = LENGTH + int.from_bytes(content[:LENGTH], "big")
                if len(content) >= size:
                    return bytes(content[LENGTH:size]), False
            if end is not None and time.monotonic() >= end:
                return None, True
            step = LOOK if end is None else min(LOOK, max(0.0, end - time.monotonic()))
            # Asked before the pipe is: all that a child wrote before its end is in the pipe by
            # then.
            gone = has_ended(child)
            if closed:  # it told too little, and may go on for as long as it has time
                if gone:
                    return None, False
                time.sleep(min(step, 0.01))
                continue
            ready, _, _ = select.select([pipe], [], [], 0.0 if gone else step)
            if ready:
                part = pipe.read(1 << 20)
                closed = not part
                content += part
            elif gone:  # what it left behind holds the pipe open
                return None, False


def has_ended(child: int) -> bool:
    """Return whether a child has ended; it is not reaped."""
    return os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def leave_only(kept: Sequence[int]) -> None:
    """Let every other descriptor of this process lead nowhere.

    They are not closed: a file object that still has one of these numbers would later close, or
    write to, whatever got the number next.
    """
    _lead_nowhere(number for number in _descriptors() if number not in kept)


def leave_pipes(pipes: Sequence[int]) -> None:
    """Let these pipes, under whatever number code has copied them to, lead nowhere."""
    known = {_identity(number) for number in pipes}
    _lead_nowhere(number for number in _descriptors() if _identity(number) in known)


def _descriptors() -> list[int]:
    return sorted(int(name) for name in os.listdir("/dev/fd"))


def _identity(number: int) -> tuple[int, int] | None:
    try:
        facts = os.fstat(number)
    except OSError:
        return None  # the folder that was being listed
    return facts.st_dev, facts.st_ino


def _lead_nowhere(numbers: Iterable[int]) -> None:
    chosen = list(numbers)
    nothing = os.open(os.devnull, os.O_RDWR)
    for number in chosen:
        if number != nothing:
            os.dup2(nothing, number, inheritable=number == 0)
    if nothing not in chosen:
        os.close(nothing)


def end_family(worker: subprocess.Popen[bytes]) -> None:
    """Tell a process, the leader of its own group, to end with all it started; wait until it has.

    It is given time, because it alone knows descendants that left the group. Then the group is
    killed, before the leader is reaped: until then nobody else can have its number. That goes for
    a leader too that was killed by what it started: the others of its group are still there.
    """
    if worker.returncode is None:
        end_leaders([worker.pid], PATIENCE)
    worker.wait()


def end_leaders(leaders: Collection[int], patience: float) -> None:
    """Tell children that lead groups to end, and kill the groups of those that take too long.

    They are not reaped. One that somebody else has reaped is left alone: its number may be
    another process's by now.
    """
    for leader in leaders:
        with contextlib.suppress(ChildProcessError):
            if not has_ended(leader):
                os.kill(leader, signal.SIGTERM)
    end = time.monotonic() + patience
    for leader in leaders:
        with contextlib.suppress(ChildProcessError, ProcessLookupError, PermissionError):
            while time.monotonic() < end and not has_ended(leader):
                time.sleep(0.01)
            has_ended(leader)  # raises where it was reaped
            os.killpg(leader, signal.SIGKILL)


def import_path(without: Path | None = None) -> str:
    """Return where a child imports from: where this process does, and never from an audit folder.

    The empty entry is the current folder, put there by an interpreter without a script. It is
    left out where it is an audit folder or lies in one; so is everything in ``without``.
    """
    folders = []
    for entry in sys.path:
        folder = Path(entry or os.curdir).resolve()
        inside = without is not None and folder.is_relative_to(without.resolve())
        if inside or (not entry and _in_an_audit(folder)):
            continue
        folders.append(str(folder))
    return os.pathsep.join(folders)


def _in_an_audit(folder: Path) -> bool:
    return any((outer / NAME).exists() for outer in (folder, *folder.parents))


THREADS = (
    "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
)  # fmt: skip
# What the child keeps of the environment: nothing that could hold a secret or lead to one.
#
# The last four choose the kernels of sums and products: without them a draw that is made again here
# could differ in its last bit from the one that was made here.
KEPT = (
    "PATH", "LANG", "LANGUAGE", "LC_ALL", "LC_CTYPE", "TZ", "LD_LIBRARY_PATH",
    "OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE", "MKL_CBWR", "NPY_DISABLE_CPU_FEATURES",
)  # fmt: skip
_GET_DUMPABLE, _DUMPABLE = 3, 4  # PR_GET_DUMPABLE, PR_SET_DUMPABLE


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
            with contextlib.suppress(
                BlockingIOError
            ):  # room for some bytes, and not for as many as these
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
            )


@contextlib.contextmanager
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


@contextlib.contextmanager
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
