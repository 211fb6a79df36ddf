"""Worker processes, one compute thread each, and what to do when one of them dies."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from queue import Empty, Queue
from typing import Any

from proxyguard.draw.answers import (
    MOST,
    Answer,
    Confined,
    Killed,
    Loaded,
    Ready,
    Told,
    drawn_answers,
    readiness,
    receive,
)
from proxyguard.draw.confine import HardLinks
from proxyguard.draw.processes import end_family
from proxyguard.errors import DrawError, RegistryError, UnansweredDraw
from proxyguard.printable import write_line
from proxyguard.seal.journal import NAME

THREADS = (
    "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
)  # fmt: skip
PATIENCE = 300.0
"""Seconds in which a generator that is asked about itself has answered: its libraries are large."""
TOLD = 1 << 26
"""Bytes of what it may say."""
GRACE = 60.0
"""Seconds more than four times its limit that a batch may take, on a busy machine."""
PRINTED = 1 << 20
"""Bytes that are shown of what one worker prints."""
SHOWN_WITHIN = 2.0
"""Seconds in which the last of it is shown; where nothing ends descendants, one may hold it."""
Keep = Callable[[dict[str, Any], bytes, bytes], None]
Check = Callable[[], None]
"""Raises where something that draws depend on has changed."""


def nothing_registered() -> None:
    """Stand for the check of draws that depend on nothing that could change."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Draws:
    """The seeds of one job, and who gets each result."""

    job: Mapping[str, Any]
    seeds: Sequence[int]
    keep: Keep
    check: Check = nothing_registered


_Batch = tuple[Draws, list[int]]


def draw_all(
    job: Mapping[str, Any],
    seeds: Sequence[int],
    *,
    module: str,
    workers: int,
    timeout: float | None,
    keep: Keep,
    check: Check,
) -> None:
    """Draw every seed and hand each result to ``keep``."""
    draws = Draws(job=job, seeds=seeds, keep=keep, check=check)
    draw_groups([draws], module=module, workers=workers, timeout=timeout)


def draw_groups(
    groups: Sequence[Draws], *, module: str, workers: int, timeout: float | None
) -> None:
    """Draw the seeds of several jobs, one job after the other, in the same processes.

    ``keep`` runs in this process, one result at a time, so that one writer owns the store. A
    group's ``check`` runs before and after each of its batches, in the thread of the worker that
    draws it: what is kept was drawn between two looks that saw nothing changed.
    """
    todo: Queue[_Batch] = Queue()
    for group in groups:
        many = int(group.job.get("many", 1))
        for i in range(0, len(group.seeds), many):
            todo.put((group, list(group.seeds[i : i + many])))
    if todo.empty():
        return
    done: Queue[tuple[Keep, Answer] | Exception | None] = Queue()
    n = max(1, min(workers, todo.qsize()))
    crew = _Crew()
    threads = [
        threading.Thread(target=_drive, args=(module, timeout, todo, done, crew), daemon=True)
        for _ in range(n)
    ]
    running = 0
    try:
        for thread in threads:
            thread.start()
            running += 1
        while running:
            item = done.get()
            if item is None:
                running -= 1
            elif isinstance(item, Exception):
                raise item
            else:
                keep, answer = item
                keep(*answer)
    except BaseException:  # an interruption too: nobody waits for the other draws any more
        crew.end()
        raise
    finally:
        for thread in threads:
            if thread.ident is not None:  # it was started
                thread.join()


def asked(
    job: Mapping[str, Any],
    *,
    module: str,
    kind: type[Told] | type[Loaded],
    limit: float | None = None,
) -> Any:
    """Return what a process says that is held as draws are, and is asked one thing.

    The code in it may end, hang or write whatever it likes: each is an error of ours, and after
    ``limit`` seconds (``PATIENCE``) the process is ended with all that it started.
    """
    seconds = PATIENCE if limit is None else limit
    crew = _Crew()
    watch = threading.Timer(seconds, crew.end)
    watch.daemon = True
    watch.start()
    try:
        with _process(crew, module) as process:
            _give(process, job)
            confined: Confined = _expect(process, job, Confined, RegistryError)
            HardLinks(job["forbidden"], confined.read).check()
            return _expect(process, job, kind, RegistryError, TOLD)
    except _Ended:
        how = f"gave no answer in {seconds:g} s" if crew.stopped else "ended without an answer"
        raise DrawError(
            f"{job['name']}: the process in which {job['what']} is loaded, to be asked about "
            f"itself, {how}; mend what it does when it is imported, made and described"
        ) from None
    finally:
        watch.cancel()


class _Crew:
    """The workers of one drawing, so that whoever stops it can end them all."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._workers: list[subprocess.Popen[bytes]] = []
        self.stopped = False

    def start(self, module: str) -> subprocess.Popen[bytes]:
        """Start a worker, the leader of a session of its own, which has no terminal.

        What a terminal sends to the command must not reach it by another way: the command
        ends its workers itself. And nothing may go the other way: whoever holds the terminal of
        its session can type into it (TIOCSTI), and the user's shell would run that.
        """
        environment = {
            **os.environ, **dict.fromkeys(THREADS, "1"), "PYTHONPATH": import_path(),
        }  # fmt: skip
        with self._lock:
            if self.stopped:
                raise DrawError("drawing was stopped")
            worker = subprocess.Popen(
                # -P: the folder in which somebody stands is no place to import from. A numpy.py
                # in an audit folder would otherwise be the numpy of every draw.
                [sys.executable, "-P", "-m", module, str(os.getpid())],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=environment,
                start_new_session=True,
            )
            self._workers.append(worker)
        return worker

    def end(self) -> None:
        """Start no more, and end every worker with all that it started."""
        with self._lock:
            self.stopped = True
            workers = list(self._workers)
        for worker in workers:
            end_family(worker)


class _Relay(threading.Thread):
    """Shows what a worker's processes print; a generator chose it, so none of it may act."""

    def __init__(self, worker: subprocess.Popen[bytes]) -> None:
        super().__init__(daemon=True)
        assert worker.stderr is not None  # a pipe
        # Whoever waits for the worker would close it under this thread, which alone reads it.
        self._said, worker.stderr = worker.stderr, None

    def run(self) -> None:
        """Show lines until nobody can print any more; what is too much is taken and not shown."""
        shown = 0
        with self._said as said:
            while line := said.readline(PRINTED):
                if shown < PRINTED:
                    # Whoever reads the command's errors may have gone. Draws that print must not
                    # fail for it: it is no property of theirs.
                    with suppress(OSError, ValueError):
                        for text in line.decode("utf-8", "backslashreplace").splitlines():
                            write_line(text, sys.stderr, indent="| ")
                        if shown + len(line) >= PRINTED:
                            write_line("(draws print more, which is not shown)", sys.stderr)
                shown += len(line)


def _drive(
    module: str,
    timeout: float | None,
    todo: Queue[_Batch],
    done: Queue[tuple[Keep, Answer] | Exception | None],
    crew: _Crew,
) -> None:
    """Feed one worker until nothing is left to do."""
    serving: _Serving | None = None
    try:
        with _process(crew, module) as process:
            while not crew.stopped:
                try:
                    group, seeds = todo.get_nowait()
                except Empty:
                    break
                if serving is None or group is not serving.group:
                    serving = _prepare(process, group)
                # Here and not in the worker, where the generator's code could say otherwise.
                serving.links.check()
                group.check()
                answers = list(_ask(process, group.job, seeds, timeout))
                group.check()  # a file may have changed after the look before, and was read then
                for record, release, model in answers:
                    done.put((group.keep, ({**record, **serving.stated}, release, model)))
    except Exception as error:
        done.put(error)
    finally:
        done.put(None)


def import_path(without: Path | None = None) -> str:
    """Return where a child imports from: where this process does, and never from an audit folder.

    The empty entry is the current folder, put there by an interpreter without a script. It is
    left out where it is an audit folder or lies in one; so is everything in ``without``.
    """
    found = []
    for entry in sys.path:
        place = Path(entry or os.curdir).resolve()
        inside = without is not None and place.is_relative_to(without.resolve())
        if inside or (not entry and _in_an_audit(place)):
            continue
        found.append(str(place))
    return os.pathsep.join(found)


def _in_an_audit(place: Path) -> bool:
    return any((folder / NAME).exists() for folder in (place, *place.parents))


@contextmanager
def _process(crew: _Crew, module: str) -> Iterator[subprocess.Popen[bytes]]:
    with crew.start(module) as process:
        assert process.stdin is not None  # a pipe
        relay = _Relay(process)
        relay.start()
        try:
            yield process
        except BaseException:
            end_family(process)
            raise
        finally:
            process.stdin.close()
    relay.join(SHOWN_WITHIN)  # what was printed stands before what the command says of it


@dataclass(frozen=True, slots=True, kw_only=True)
class _Serving:
    """The job that a worker is ready for."""

    group: Draws
    stated: Mapping[str, Any]  # what is true of all its draws
    links: HardLinks


def _prepare(process: subprocess.Popen[bytes], group: Draws) -> _Serving:
    """Give a worker its job; return what is true of all its draws."""
    _give(process, group.job)
    confined: Confined = _expect(process, group.job, Confined)
    ready: Ready = _expect(process, group.job, Ready)
    return _Serving(
        group=group,
        stated={"guard": confined.guard, **ready.prepared.model_dump(exclude_unset=True)},
        links=HardLinks(group.job["forbidden"], confined.read),
    )


def _give(process: subprocess.Popen[bytes], job: Mapping[str, Any]) -> None:
    assert process.stdin is not None  # a pipe
    try:
        process.stdin.write(json.dumps(dict(job)).encode() + b"\n")
        process.stdin.flush()
    except BrokenPipeError:
        raise _Ended from None


def _expect(
    process: subprocess.Popen[bytes],
    job: Mapping[str, Any],
    kind: type[Confined] | type[Ready] | type[Told] | type[Loaded],
    refusal: type[DrawError] | type[RegistryError] = DrawError,
    most: int = MOST,
) -> Any:
    """Return the next answer of a worker that prepares, which is of this kind or says why not."""
    assert process.stdout is not None  # a pipe
    content = receive(process.stdout, most)
    if content is None:
        raise _Ended
    return readiness(content, job, kind, refusal)


class _Ended(DrawError):
    """A process gave no answer before its first request."""

    def __init__(self) -> None:
        super().__init__("a drawing process ended before it was ready; run draw again")


def _ask(
    process: subprocess.Popen[bytes],
    job: Mapping[str, Any],
    seeds: list[int],
    timeout: float | None,
) -> Iterator[Answer]:
    assert process.stdin is not None
    assert process.stdout is not None
    limit = None if timeout is None else timeout * len(seeds)  # of all, each taking its time
    try:
        process.stdin.write(json.dumps({"seeds": seeds, "timeout": timeout}).encode() + b"\n")
        process.stdin.flush()
    except BrokenPipeError:
        raise _killed(seeds, None) from None
    with _watched(process, limit) as late:
        content = receive(process.stdout)
    if late.is_set():
        raise UnansweredDraw(
            seeds[0],
            f"{job['name']}: the process that draws seed {seeds[0]} neither answered nor ended "
            f"what took more than {limit:g} s; it stands still, or its code stopped it. It was "
            "ended, and what was drawn before is kept: read the generator's code",
        )
    if content is None:
        raise _killed(seeds, None)
    for answer in drawn_answers(content, job, seeds):
        if isinstance(answer, Killed):
            raise _killed(seeds, answer.signal)
        yield answer


@contextmanager
def _watched(process: subprocess.Popen[bytes], limit: float | None) -> Iterator[threading.Event]:
    """End a worker that does not end its own draws in time; say whether it was.

    The process that a generator prepared itself in ends its draws. Code that ran there can have
    left a thread or a process that stops it, and then nobody else would.
    """
    late = threading.Event()
    if limit is None:
        yield late
        return

    def end() -> None:
        late.set()
        end_family(process)

    # Draws of a batch are tried again one by one, and fits have the same time once more.
    watch = threading.Timer(4 * limit + GRACE, end)
    watch.daemon = True
    watch.start()
    try:
        yield late
    finally:
        watch.cancel()


def _killed(seeds: list[int], number: int | None) -> UnansweredDraw:
    how = "ended" if number is None else f"was killed by signal {number}"
    some = f"seed {seeds[0]}" + (f" or one of the {len(seeds) - 1} after it" * (len(seeds) > 1))
    return UnansweredDraw(
        seeds[0],
        f"the process that drew {some} {how}, for want of memory or by somebody's hand; "
        "what was drawn is kept, run draw again. If it happens each time, use fewer workers or "
        "a machine with more memory: other seeds, registered after this, cost the guarantee",
    )
