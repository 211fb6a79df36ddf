"""Families of processes: none outlives the command that it works for.

A pool starts one process, which imports and forks workers; a worker forks two processes for each
job, and these one for each batch of draws, in which a generator may start processes of its own.
On Linux the kernel tells every member of this chain when the member above it has died, and gives
orphans to the nearest ancestor that adopts them; elsewhere a process group is all there is.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import os
import select
import signal
import sys
import time
import traceback
from collections.abc import Callable, Collection, Iterable, Sequence
from subprocess import Popen
from typing import NamedTuple

LINUX = sys.platform.startswith("linux")
# Seconds in which a worker that is told to end should have ended its family, on a busy machine.
PATIENCE = 20.0
# Seconds after which a process that says nothing is looked at again.
LOOK = 0.25
_LENGTH = 8
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
                out.write(len(content).to_bytes(_LENGTH, "big"))
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
            if len(content) >= _LENGTH:
                size = _LENGTH + int.from_bytes(content[:_LENGTH], "big")
                if len(content) >= size:
                    return bytes(content[_LENGTH:size]), False
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


def end_family(worker: Popen[bytes]) -> None:
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
