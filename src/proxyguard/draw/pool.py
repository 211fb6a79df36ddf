"""The command's end of drawing: processes for a step, one compute thread each, fed by threads here.

A `DrawingPool` starts one process that imports once, and forks a worker for each thread of a
drawing. A thread gives its worker jobs and seeds, reads the answers, and hands them to the one
thread that keeps them. What is said when a process dies, hangs or answers something else stands
here too.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
import warnings
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from queue import Empty, Queue
from typing import IO, TYPE_CHECKING, TypeVar

from proxyguard.draw.confine import HardLinks, gpu_devices
from proxyguard.draw.job import AnyJob, AskJob, DrawJob, Job, Request, line_of
from proxyguard.draw.messages import (
    MOST,
    DrawResult,
    Held,
    Killed,
    Loaded,
    Prepared,
    Ready,
    Told,
    Wanted,
    drawn_answers,
    readiness,
    receive,
)
from proxyguard.draw.processes import THREADS, end_family, import_path
from proxyguard.errors import DrawError, NoFork, RegistryError, UnansweredDraw
from proxyguard.printable import write_line

if TYPE_CHECKING:
    from proxyguard.draw.spawned import SpawnedWorker

# The module that forks drawing processes.
WORKER = "proxyguard.adapters.worker"
# Seconds in which a generator that is asked about itself has answered: its libraries are large.
PATIENCE = 300.0
# Bytes of what it may say.
TOLD = 1 << 26
# Seconds more than four times its limit that a batch may take, on a busy machine.
GRACE = 60.0
# Networks of a batch where there is no GPU: as many as a CPU trains at once. A larger batch shows
# no progress for longer, and a kill would lose more of it.
KEPT_ON_CPU = 8
# Bytes that are shown of what one worker prints.
PRINTED = 1 << 20
# Seconds in which the process that forked workers ends when all of them have.
ENDS_WITHIN = 20.0
SPAWNS = (
    "this system cannot fork, so every batch of draws is made in a process that is started for it "
    "and prepares the generator anew, which takes longer"
)
# Seconds in which the last of it is shown; where nothing ends descendants, one may hold it.
SHOWN_WITHIN = 2.0
Keep = Callable[[DrawResult], None]
# Raises where something that draws depend on has changed.
BatchCheck = Callable[[], None]


def nothing_registered() -> None:
    """Stand for the check of draws that depend on nothing that could change."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Draws:
    """The seeds of one job, and who gets each result."""

    job: DrawJob
    seeds: Sequence[int]
    keep: Keep
    check: BatchCheck = nothing_registered


_Batch = tuple[Draws, tuple[int, ...]]


def draw_all(
    job: DrawJob,
    seeds: Sequence[int],
    *,
    pool: DrawingPool,
    workers: int,
    timeout: float | None,
    keep: Keep,
    check: BatchCheck,
) -> None:
    """Draw every seed and hand each result to ``keep``.

    Parameters
    ----------
    job
        What is drawn, and how its releases are fitted.
    seeds
        The registered seeds.
    pool
        Where the drawing processes come from.
    workers
        How many of them draw side by side.
    timeout
        Seconds for each draw, and once more for each fit; nothing where a draw may take for ever.
    keep
        Gets each result, in this thread.
    check
        Raises where something that the draws depend on has changed.

    Raises
    ------
    UnansweredDraw
        If a process was killed, ended, or stood still. That is no failed draw, and no seed may be
        exchanged for it.
    DrawError
        If a process answered something else than it was asked for, or what the draws depend on
        has changed.
    """
    draws = Draws(job=job, seeds=seeds, keep=keep, check=check)
    draw_groups([draws], pool=pool, workers=workers, timeout=timeout)


def draw_groups(
    groups: Sequence[Draws], *, pool: DrawingPool, workers: int, timeout: float | None
) -> None:
    """Draw the seeds of several jobs, one job after the other, in the same processes.

    ``keep`` runs in this process, one result at a time, so that one writer owns the store. A
    group's ``check`` runs before and after each of its batches, in the thread of the worker that
    draws it: what is kept was drawn between two looks that saw nothing changed.
    """
    devices = gpu_devices()
    # One worker for a GPU: several would take turns on it, each with a driver of its own.
    if any(group.job.gpu for group in groups) and devices:
        workers = 1
    todo: Queue[_Batch] = Queue()
    for group in groups:
        job = group.job
        slow = job.neural and not (job.gpu and devices)
        most = min(job.many, KEPT_ON_CPU) if slow else job.many
        for seeds in batches(group.seeds, most, workers):
            todo.put((group, seeds))
    if todo.empty():
        return
    pool.open()
    drawing = _Drawing(pool, timeout, todo)
    count = max(1, min(workers, todo.qsize()))
    threads = [threading.Thread(target=drawing.drive, daemon=True) for _ in range(count)]
    running = 0
    try:
        for thread in threads:
            thread.start()
            running += 1
        while running:
            item = drawing.done.get()
            if item is None:
                running -= 1
            elif isinstance(item, Exception):
                raise item
            else:
                keep, result = item
                keep(result)
    except BaseException:  # an interruption too: nobody waits for the other draws any more
        drawing.stopped.set()
        pool.end()
        raise
    finally:
        for thread in threads:
            if thread.ident is not None:  # it was started
                thread.join()


def batches(seeds: Sequence[int], most: int, workers: int) -> list[tuple[int, ...]]:
    """Return seeds in batches of at most so many, as even as the workers need them.

    A full batch for one worker and a rest for another would leave one of them idle.

    Examples
    --------
    >>> [len(batch) for batch in batches(range(60), most=50, workers=2)]
    [30, 30]
    >>> [len(batch) for batch in batches(range(60), most=50, workers=1)]
    [50, 10]
    """
    size = most
    if workers > 1:
        rounds = -(-len(seeds) // (most * workers))
        size = max(1, -(-len(seeds) // max(1, rounds * workers)))
    return [tuple(seeds[i : i + size]) for i in range(0, len(seeds), size)]


Reply = TypeVar("Reply", Told, Loaded)


def asked(
    job: AskJob, *, pool: DrawingPool, kind: type[Reply], limit: float | None = None
) -> Reply:
    """Return what a process says that is held as draws are, and is asked one thing.

    The code in it may end, hang or write whatever it likes: each is an error of ours, and after
    ``limit`` seconds (``PATIENCE``) the process is ended with all that it started.

    Returns
    -------
    Told or Loaded
        Its answer, of the kind that was asked for.

    Raises
    ------
    RegistryError
        If the code says why it cannot answer.
    DrawError
        If the process ended, took too long, or answered something else, or could read what is
        forbidden by a hard link.
    """
    seconds = PATIENCE if limit is None else limit
    with ended_after(seconds, pool.end) as late:
        worker = pool.start(late)
        try:
            worker.give(job)
            held = worker.expect(job, Held, RegistryError)
            HardLinks(job.forbidden, held.read).check()
            return worker.expect(job, kind, RegistryError, TOLD)
        except Ended:
            how = f"gave no answer in {seconds:g} s" if late.is_set() else "ended without an answer"
            raise DrawError(
                f"{job.name}: the process in which {job.what} is loaded, to be asked about "
                f"itself, {how}; mend what it does when it is imported, made and described"
            ) from None
        except BaseException:  # it may still be at work, and nobody waits for it any more
            pool.end()
            raise
        finally:
            worker.close()


@contextmanager
def ended_after(seconds: float | None, end: Callable[[], object]) -> Iterator[threading.Event]:
    """Call ``end`` where what is done here takes more than so many seconds; say whether it did.

    The event is set before ``end`` is called, so that whoever sees what it ended knows why.
    """
    late = threading.Event()
    if seconds is None:
        yield late
        return

    def ring() -> None:
        late.set()
        end()

    watch = threading.Timer(seconds, ring)
    watch.daemon = True
    watch.start()
    try:
        yield late
    finally:
        watch.cancel()


class DrawingPool:
    """Where the drawing processes of one step come from: forks of one that has imported once.

    That process runs no code but ours, and is started when the first worker is wanted. It ends,
    with every worker, when the pool is closed, when nobody has the pool any more, and when this
    process ends.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._template: _Template | None = None
        self._spawned: list[SpawnedWorker] = []

    def __enter__(self) -> DrawingPool:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()

    def close(self) -> None:
        """Let the processes end that have nothing to do any more."""
        with self._lock:
            if self._template is not None:
                self._template.close()
                self._template = None

    def end(self) -> None:
        """End every process, whatever it does; a later worker comes from a new template."""
        with self._lock:
            if self._template is not None:
                self._template.end()
                self._template = None
            for worker in self._spawned:
                worker.end()
            self._spawned.clear()

    def start(self, stopped: threading.Event) -> _Worker | SpawnedWorker:
        """Return a new worker, unless whoever asks was stopped."""
        with self._lock:
            # Under the lock that ends workers: one that starts after they were told to end would
            # be waited for by nobody.
            if stopped.is_set():
                raise DrawError("drawing was stopped")
            if can_fork():
                return self._opened().fork()
            # Loaded here, for few need it; it takes from this module what both kinds share.
            from proxyguard.draw.spawned import SpawnedWorker

            self._spawned.append(SpawnedWorker())
            return self._spawned[-1]

    def open(self) -> None:
        """Start the process that workers are forked from, if there is none.

        In the thread that goes on for as long as workers are wanted: the kernel takes the end of
        the thread that started a process for the end of its parent.
        """
        with self._lock:
            if can_fork():
                self._opened()
            else:
                warnings.warn(f"{SPAWNS}; see docs/platforms.md", NoFork, stacklevel=2)

    def _opened(self) -> _Template:
        if self._template is not None and self._template.ended:
            self._template.close()
            self._template = None
        if self._template is None:
            self._template = _Template()
        return self._template


def can_fork() -> bool:
    """Return whether a process can be forked here, with all that it has prepared."""
    return hasattr(os, "fork")


def drawing_environment() -> dict[str, str]:
    """Return the environment of processes that draw."""
    # One compute thread each: workers run side by side, and a fork takes along only the thread
    # that forks, and every lock that another one held.
    return {**os.environ, **dict.fromkeys(THREADS, "1"), "PYTHONPATH": import_path()}


class _Template:
    """The process that imports once, and forks a worker whenever it is given pipes for one.

    It leads a session of its own, which has no terminal, and so does each worker. What a terminal
    sends to the command must not reach them by another way: the command ends them itself. And
    nothing may go the other way: whoever holds the terminal of its session can type into it
    (TIOCSTI), and the user's shell would run that.
    """

    def __init__(self) -> None:
        ours, theirs = socket.socketpair()
        # Closed here once the child has it: with a copy of that end this process would never see,
        # by a broken pipe, that the template has gone.
        with theirs:
            self._process = subprocess.Popen(
                # -P: the folder in which somebody stands is no place to import from. A numpy.py
                # in an audit folder would otherwise be the numpy of every draw.
                [sys.executable, "-P", "-m", WORKER, str(os.getpid())],
                stdin=theirs.fileno(),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                env=drawing_environment(),
                start_new_session=True,
            )
        assert self._process.stderr is not None  # a pipe
        # Whoever waits for the process would close it under this thread, which alone reads it.
        said, self._process.stderr = self._process.stderr, None
        Relay(said).start()
        self._socket = ours
        self._ending = weakref.finalize(self, _close, ours, self._process)

    def fork(self) -> _Worker:
        """Return a worker that it forks."""
        # Pipes of its own for each worker: where it ends, by whatever hand, they end, which is all
        # that is ever asked of a process that is no child of this one.
        requests, ask = os.pipe()
        answers, answer = os.pipe()
        said, say = os.pipe()
        try:
            socket.send_fds(self._socket, [b"w"], [requests, answer, say])
        except BrokenPipeError:
            pass  # it has ended, which the missing answers will say
        finally:
            # A copy that stays here would keep the pipes open after the worker's end.
            for number in (requests, answer, say):
                os.close(number)
        return _Worker(os.fdopen(ask, "wb"), os.fdopen(answers, "rb"), Relay(os.fdopen(said, "rb")))

    @property
    def ended(self) -> bool:
        """Whether it has ended, by whatever hand."""
        return self._process.poll() is not None

    def close(self) -> None:
        """Let it end."""
        self._ending()

    def end(self) -> None:
        """End it with all that it started."""
        end_family(self._process)
        self._ending()


def _close(ours: socket.socket, process: subprocess.Popen[bytes]) -> None:
    """Tell the process that nobody wants a worker any more, and wait until it has ended."""
    ours.close()
    try:
        process.wait(ENDS_WITHIN)
    except subprocess.TimeoutExpired:  # what a generator started may have stopped it
        end_family(process)


class _Worker:
    """The pipes of one worker: to ask it, to hear it, and what its processes print."""

    def __init__(self, requests: IO[bytes], answers: IO[bytes], relay: Relay) -> None:
        self.requests, self.answers, self._relay = requests, answers, relay
        relay.start()

    def tell(self, message: AnyJob | Request) -> None:
        """Give it a job, or a request; raise `BrokenPipeError` where it has ended."""
        self.requests.write(line_of(message))
        self.requests.flush()

    def give(self, job: AnyJob) -> None:
        """Give it a job."""
        try:
            self.tell(job)
        except BrokenPipeError:
            raise Ended from None

    def expect(
        self,
        job: Job,
        kind: type[Wanted],
        refusal: type[DrawError] | type[RegistryError] = DrawError,
        most: int = MOST,
    ) -> Wanted:
        """Return its next answer while it prepares, which is of this kind or says why not."""
        content = receive(self.answers, most)
        if content is None:
            raise Ended
        return readiness(content, job, kind, refusal)

    def answer(self) -> bytes | None:
        """Return its answer to a request; nothing where it has ended."""
        return receive(self.answers)

    def close(self) -> None:
        """Let it end, and wait until it has and what it printed was shown."""
        with suppress(BrokenPipeError):
            self.requests.close()
        with self.answers:
            while self.answers.read(1 << 20):  # an answer that nobody waits for any more
                continue
        self._relay.join(SHOWN_WITHIN)  # what was printed stands before what the command says of it


class Relay(threading.Thread):
    """Shows what a worker's processes print; a generator chose it, so none of it may act."""

    def __init__(self, said: IO[bytes]) -> None:
        super().__init__(daemon=True)
        self._said = said

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


class _Drawing:
    """What the threads of one drawing share, each of which feeds one worker."""

    def __init__(self, pool: DrawingPool, timeout: float | None, todo: Queue[_Batch]) -> None:
        self._pool, self._timeout, self._todo = pool, timeout, todo
        self.done: Queue[tuple[Keep, DrawResult] | Exception | None] = Queue()
        self.stopped = threading.Event()

    def drive(self) -> None:
        """Feed one worker until nothing is left to do."""
        worker: _Worker | SpawnedWorker | None = None
        try:
            worker = self._pool.start(self.stopped)
            self._feed(worker)
        except Exception as error:
            # Before the worker is waited for: it may stand still until whoever reads this ends it.
            self.done.put(error)
        finally:
            if worker is not None:
                worker.close()
            self.done.put(None)

    def _feed(self, worker: _Worker | SpawnedWorker) -> None:
        serving: _Serving | None = None
        while not self.stopped.is_set():
            try:
                group, seeds = self._todo.get_nowait()
            except Empty:
                break
            if serving is None or group is not serving.group:
                serving = _prepare(worker, group)
            # Here and not in the worker, where the generator's code could say otherwise.
            serving.links.check()
            group.check()
            # The whole batch before any of it is kept: the look after it is about all of them.
            results = list(self._ask(worker, serving, seeds))
            group.check()  # a file may have changed after the look before, and was read then
            for result in results:
                self.done.put((group.keep, result))

    def _ask(
        self, worker: _Worker | SpawnedWorker, serving: _Serving, seeds: tuple[int, ...]
    ) -> Iterator[DrawResult]:
        job = serving.group.job
        timeout = self._timeout
        limit = None if timeout is None else timeout * len(seeds)  # of all, each taking its time
        try:
            worker.tell(Request(seeds=seeds, timeout=timeout))
        except BrokenPipeError:
            raise _killed(seeds, None) from None
        # The process that a generator prepared itself in ends its draws. Code that ran there can
        # have left a thread or a process that stops it, and then nobody else would.
        # Draws of a batch are tried again one by one, and fits have the same time once more.
        patience = None if limit is None else 4 * limit + GRACE
        with ended_after(patience, self._end_all) as late:
            content = worker.answer()
        # Before the missing answer: a worker that was ended for being late looks like one that was
        # killed.
        if late.is_set():
            raise UnansweredDraw(
                seeds[0],
                f"{job.name}: the process that draws seed {seeds[0]} neither answered nor ended "
                f"what took more than {limit:g} s; it stands still, or its code stopped it. It was "
                "ended, and what was drawn before is kept: read the generator's code",
            )
        if content is None:
            raise _killed(seeds, None)
        for answer in drawn_answers(content, job, seeds):
            if isinstance(answer, Killed):
                raise _killed(seeds, answer.signal)
            yield DrawResult(
                said=answer.said,
                release=answer.release,
                model=answer.model,
                guard=serving.guard,
                prepared=serving.prepared,
            )

    def _end_all(self) -> None:
        # First: a thread that starts its worker only now would do so from a new template.
        self.stopped.set()
        self._pool.end()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Serving:
    """The job that a worker is ready for."""

    group: Draws
    guard: str  # these two are true of all its draws
    prepared: Prepared
    links: HardLinks


def _prepare(worker: _Worker | SpawnedWorker, group: Draws) -> _Serving:
    """Give a worker its job; return what is true of all its draws."""
    worker.give(group.job)
    held = worker.expect(group.job, Held)
    ready = worker.expect(group.job, Ready)
    return _Serving(
        group=group,
        guard=held.guard,
        prepared=ready.prepared,
        links=HardLinks(group.job.forbidden, held.read),
    )


class Ended(DrawError):
    """A process gave no answer before its first request."""

    def __init__(self) -> None:
        super().__init__("a drawing process ended before it was ready; run draw again")


def _killed(seeds: tuple[int, ...], number: int | None) -> UnansweredDraw:
    how = "ended" if number is None else f"was killed by signal {number}"
    some = f"seed {seeds[0]}" + (f" or one of the {len(seeds) - 1} after it" * (len(seeds) > 1))
    return UnansweredDraw(
        seeds[0],
        f"the process that drew {some} {how}, for want of memory or by somebody's hand; "
        "what was drawn is kept, run draw again. If it happens each time, use fewer workers or "
        "a machine with more memory: other seeds, registered after this, cost the guarantee",
    )
