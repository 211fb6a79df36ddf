"""The processes that draw and fit: they know the source and the seeds, and nothing of the target.

One process imports what all need and forks workers (`fork_workers`). A worker reads a job from its
pipe, then requests for its seeds, then perhaps another job, and answers each with one message
(`draw.messages`). For each job it forks two processes. One loads the generator and gives tables; it
has two pipes, its requests and its answers. The other fits: it gets these tables and never loads a
generator, which could replace any function of its own process, the training of models among them.
So a draw gives a table and what it says of its seed, and no more; which records these are, whether
they are a release, and which model is learned from them is found out from the bytes, where none of
its code runs.

Every batch of draws runs in a fork of a process that has drawn nothing before, so that no draw can
leave anything behind for the next; but for the few generators of ours that leave nothing anyway.

::

    command           `draw.pool`: knows keys and target
      | |
      | +-- socket: three pipes for each worker --> template   `fork_workers`: imports once
      |                                                |
      |                                               fork, one for each thread of a step
      |                                                v
      +-- jobs, then requests, a line each --------> worker    `serve`: held by nothing, runs no
      <---- answers, a message each ---------------    |        code of others
                                                       |
                            fork, two for each job: `_JobProcesses`
                          +----------------------------+---------------+
                          v                                            v
      requests -------> draws  `_serve_draws`      requests -------> fits  `serve_fits`
                          |    loads the generator                     |   never loads it
                          |                                            |
                          +------ tables, what it says of them ------->+-- answers --> worker
                          |                                            |
                       a fork for each batch: `Forks`, `draw.processes.in_a_fork`, which ends it
                       with all that it started

Where nothing can be forked `draw.spawned` starts processes in their place.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import select
import signal
import socket
import tempfile
import time
import traceback
import uuid
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from types import FrameType
from typing import IO, Literal, NamedTuple

from proxyguard.draw.catalog import is_ours, leaves_nothing
from proxyguard.draw.confine import Confined, confine, confine_draw
from proxyguard.draw.drawing import Fitter, Worker, tables
from proxyguard.draw.job import AnyJob, DrawJob, FitJob, Request, read_line
from proxyguard.draw.messages import (
    Answer,
    Failed,
    Held,
    Killed,
    Made,
    Ready,
    Refused,
    Unready,
    error_words,
    failure,
    made_answers,
    packed,
    receive,
    send,
)
from proxyguard.draw.processes import (
    LOOK,
    PATIENCE,
    Forked,
    adopt_orphans,
    end_children,
    end_leaders,
    end_with_parent,
    has_ended,
    in_a_fork,
    leave_only,
    leave_pipes,
    start_fork,
)
from proxyguard.draw.protocol import Learner
from proxyguard.draw.sources import answer
from proxyguard.errors import DrawError

# Loads the procedure of a job, where it has one.
MakeLearner = Callable[[FitJob], Learner | None]


class Forks(NamedTuple):
    """Forks of a process that code of others was loaded in, each as if it were the first."""

    confined: Confined
    scratch: str
    pipes: Sequence[int]  # which are not theirs: they could answer for the forks after them
    who: str  # whose code it is

    def told(
        self, make: Callable[[Sequence[int]], bytes], seeds: Sequence[int], seconds: float | None
    ) -> bytes:
        """Return what a fork makes of these seeds, each of which may take these seconds.

        Where it ended itself, or time was up, there is one fork for each seed: one seed at which
        code ends its process, or hangs, must not fail the others of its batch.
        """
        whole = None if seconds is None else seconds * len(seeds)
        forks = [(seeds, self._fork(make, seeds, whole))]
        if len(seeds) > 1 and (forks[0][1].late or _ended_itself(forks[0][1])):
            forks = [([seed], self._fork(make, [seed], seconds)) for seed in seeds]
        # Not a failure, which is counted: whoever can kill a process would choose which draws fail.
        for _, forked in forks:
            if forked.made is None and not forked.late and os.WIFSIGNALED(forked.status):
                return packed(Killed(signal=os.WTERMSIG(forked.status)))
        return b"".join(
            self._without_answer(these, forked, seconds) if forked.made is None else forked.made
            for these, forked in forks
        )

    def _fork(
        self, make: Callable[[Sequence[int]], bytes], seeds: Sequence[int], timeout: float | None
    ) -> Forked:
        folder = tempfile.mkdtemp(dir=self.scratch)

        def confined() -> bytes:
            leave_pipes(self.pipes)
            confine_draw(self.confined, folder)
            return make(seeds)

        forked = in_a_fork(confined, timeout)
        remove(folder)
        return forked

    def _without_answer(self, seeds: Sequence[int], forked: Forked, seconds: float | None) -> bytes:
        words = (
            f"more than {seconds:g} s"
            if forked.late
            else f"{self.who} ended its process (exit code {os.WEXITSTATUS(forked.status)}) before "
            "it gave anything; its code should return, or raise an error, and not end the process"
        )
        status: Literal["timeout", "failed"] = "timeout" if forked.late else "failed"
        return b"".join(packed(Failed(seed=seed, status=status, error=words)) for seed in seeds)


class Here:
    """Draws or fits in this very process, where none can be forked: it is ended after them."""

    def told(
        self, make: Callable[[Sequence[int]], bytes], seeds: Sequence[int], seconds: float | None
    ) -> bytes:
        """Return what is made of these seeds; whoever started this process sees to the time."""
        return make(seeds)


def _ended_itself(forked: Forked) -> bool:
    return forked.made is None and not forked.late and os.WIFEXITED(forked.status)


# Never through a link: a generator could leave one that leads to the user's files, and the
# process that tidies up after a job is not confined.
_FOLDER = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_NOFOLLOW", 0)
# Folders within folders that are gone into; each takes a file handle and a call.
DEEP = 64


def remove(scratch: str) -> None:
    """Remove what draws left; a generator may have made something that cannot be removed.

    Or folders within folders, so deep that going into them takes more calls and file handles than
    a process has: what lies deeper is moved up first.
    """
    with contextlib.suppress(OSError):
        top = os.open(scratch, _FOLDER)
        try:
            while _empty(top, top, 0):
                continue
        finally:
            os.close(top)
        os.rmdir(scratch)


def _empty(folder: int, top: int, depth: int) -> int:
    """Remove what a folder holds; return how many folders were too deep and now lie in ``top``."""
    moved = 0
    with os.scandir(folder) as entries:
        names = {entry.name: entry.is_dir(follow_symlinks=False) for entry in entries}
    for name, is_folder in names.items():
        with contextlib.suppress(OSError):  # it cannot be removed, and so stays
            if not is_folder:
                os.unlink(name, dir_fd=folder)
            elif depth == DEEP:
                os.rename(name, uuid.uuid4().hex, src_dir_fd=folder, dst_dir_fd=top)
                moved += 1
            else:
                within = os.open(name, _FOLDER, dir_fd=folder)
                try:
                    moved += _empty(within, top, depth + 1)
                finally:
                    os.close(within)
                os.rmdir(name, dir_fd=folder)
    return moved


def serve_fits(
    job: DrawJob,
    make_learner: MakeLearner,
    pipes: tuple[IO[bytes], IO[bytes], IO[bytes]],
    scratch: str,
    *,
    forks: bool = True,
) -> None:
    """Answer the requests of one job with what the draws of its generator's process give.

    ``pipes`` are the requests, which that process gets too, its answers, and the answers of this
    one. Its first two, that it is held and that it is ready, are passed on unread.
    """
    requests, said, answers = pipes
    try:
        # Before the procedure is loaded: to import code of others is to run it.
        confined = confine(job.fit_needs(), scratch)
        ends = [pipe.fileno() for pipe in pipes]
        where = Forks(confined, scratch, ends, "the procedure") if forks else Here()
        fits = _Fits(job, make_learner(job), where)
        for _ in range(2):
            content = receive(said)
            if content is None:
                return
            send(answers, content)
    except BaseException as error:  # a procedure may call sys.exit
        send(answers, packed(Unready(error=error_words(error))))
        return
    for request in _requests(requests):
        try:
            content = receive(said)
            if content is None:
                return
            # Not what is left of the draws' time: a draw that hung would take that of all fits.
            answered = fits.answer(content, request.seeds, request.timeout)
        except DrawError as error:
            answered = packed(Refused(error=str(error)))
        send(answers, answered)


def _requests(lines: IO[bytes]) -> Iterator[Request]:
    """Yield the requests of one job, whose line was read where its processes were forked."""
    for line in lines:
        request = read_line(line)
        assert isinstance(request, Request)  # only the command writes there
        yield request


class _Fits:
    """The fits of one job."""

    def __init__(self, job: FitJob, learner: Learner | None, forks: Forks | Here) -> None:
        self._job, self._forks = job, forks
        self._fitter = Fitter(job, learner)
        self._ours = all(is_ours(name, "procedure") for name in job.library)

    def answer(self, content: bytes, seeds: Sequence[int], seconds: float | None) -> bytes:
        """Return the answer to one request.

        A fork for each batch costs more than a fit. Code of others gets one, in which it can leave
        nothing for the next fit, and so does what may have to be ended because time is up.
        """
        drawn = {}
        for said, table in made_answers(content, self._job, seeds):
            if isinstance(said, Killed):
                return packed(said)
            drawn[said.seed] = said, table

        def fitted(these: Sequence[int]) -> bytes:
            return b"".join(packed(*self._one(*drawn[seed])) for seed in these)

        if self._ours and seconds is None:
            return fitted(seeds)
        return self._forks.told(fitted, seeds, seconds)

    def _one(self, said: Made | Failed, table: bytes) -> Answer:
        if isinstance(said, Failed):
            return Answer(said)
        try:
            return self._fitter.fit(said, table)
        except MemoryError:
            raise  # want of memory here says nothing about the mechanism: nothing is answered
        except BaseException as error:  # a procedure may call sys.exit
            return Answer(failure(said.seed, said.files, error, said.computed))


def fork_workers(parent: int, make_learner: MakeLearner) -> None:
    """Fork a worker for each three pipes that come through the standard input, until it ends.

    They are its requests, its answers and what its processes print. This process has imported
    what every worker needs, and no code but ours runs in it; it ends with ``parent``.
    """
    end_with_parent(parent, signal.SIGTERM)
    adopt_orphans()  # of a worker that was killed
    workers: list[int] = []
    signal.signal(signal.SIGTERM, partial(_end_workers, workers))
    with socket.socket(fileno=os.dup(0)) as orders:
        while len(pipes := socket.recv_fds(orders, 1, 3)[1]) == 3:
            workers[:] = [worker for worker in workers if not _reaped(worker)]
            workers.append(_forked_worker(make_learner, *pipes))
            for pipe in pipes:
                os.close(pipe)
    end_leaders(workers, PATIENCE / 2)
    end_children()


def _reaped(worker: int) -> bool:
    return os.waitpid(worker, os.WNOHANG)[0] == worker


def _end_workers(workers: Sequence[int], number: int, frame: FrameType | None) -> None:
    """End every worker, and then this process, before whoever asked for it runs out of patience."""
    end_leaders(workers, PATIENCE / 2)
    end_children()
    os._exit(128 + number)


def _forked_worker(make_learner: MakeLearner, requests: int, answers: int, prints: int) -> int:
    """Return a fork of this process that serves these pipes, in a session of its own."""
    template = os.getpid()
    child = os.fork()
    if child == 0:
        try:
            # Before the session: what the template does when told to end would end its siblings.
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            os.setsid()
            end_with_parent(template, signal.SIGTERM)
            for number in (1, 2):  # what a generator prints goes to the error stream
                os.dup2(prints, number)
            leave_only((1, 2, requests, answers))
            with os.fdopen(requests, "rb") as asked, os.fdopen(answers, "wb") as told:
                serve(make_learner, asked, told)
        except BaseException:  # it must not run on as its parent; the missing answer is refused
            traceback.print_exc()
        finally:
            os._exit(0)
    return child


def serve(make_learner: MakeLearner, requests: IO[bytes], answers: IO[bytes]) -> None:
    """Serve one job after the other until the input ends, each in processes of its own.

    What is slow, loading the libraries, is done once for all jobs; what a job prepares is
    seen by no other. No code of a generator runs in this process, which nothing confines, and
    what a job's processes say is passed on and not read: the input alone says what is done next.
    """
    adopt_orphans()
    scratch = tempfile.mkdtemp(prefix="proxyguard-draw-")
    signal.signal(signal.SIGTERM, partial(_end_with_family, scratch))
    job: _JobProcesses | None = None
    try:
        for line in requests:
            message = read_line(line)
            if isinstance(message, Request):
                if job is None or not job.draw(line, answers):
                    break
                continue
            # The next job may be somebody else's: it meets neither processes nor files of this one.
            if job is not None:
                job.end()
                remove(scratch)
                os.mkdir(scratch, mode=0o700)
            job = _JobProcesses(message, make_learner, scratch)
            if not job.prepare(answers):
                break
    except BrokenPipeError:
        pass  # nobody waits for the answers any more, or the job has ended, which its end tells
    finally:
        if job is not None:
            job.end()
        remove(scratch)


# Seconds between the end of a process's pipes and its own, on a busy machine.
_MOMENT = 2.0


class _JobProcesses:
    """The two processes of one job: one draws, and tells the other, which fits and answers.

    Both are forked from a process that has loaded no generator, and only one of them loads it.
    """

    def __init__(self, job: AnyJob, make_learner: MakeLearner, scratch: str) -> None:
        fits, draws = os.path.join(scratch, "fits"), os.path.join(scratch, "draws")
        os.mkdir(fits, mode=0o700)
        os.mkdir(draws, mode=0o700)
        # Each process gets the ends that it needs: a generator that could write to `tell` would
        # answer for the process that fits.
        said, say = os.pipe()
        to_fit, ask_fit = os.pipe()
        told, tell = os.pipe()
        to_draw, ask_draw = os.pipe()

        def fit() -> None:
            assert isinstance(job, DrawJob)  # no other is fitted on
            with (
                os.fdopen(to_fit, "rb") as requests,
                os.fdopen(said, "rb") as made,
                os.fdopen(tell, "wb") as answers,
            ):
                serve_fits(job, make_learner, (requests, made, answers), fits)

        # A job that asks something of a generator has nothing to fit.
        asks = not isinstance(job, DrawJob)
        out = tell if asks else say

        def draw() -> None:
            with os.fdopen(to_draw, "rb") as requests, os.fdopen(out, "wb") as answers:
                _serve_draws(job, requests, answers, draws)

        self._fits = None if asks else _forked(fit, (to_fit, said, tell))
        self._draws = _forked(draw, (to_draw, out))
        # With a copy of their ends this process would never see that one of them has ended.
        for number in (said, say, to_fit, tell, to_draw):
            os.close(number)
        self._requests = [os.fdopen(ask_fit, "wb"), os.fdopen(ask_draw, "wb")]
        self._answers = os.fdopen(told, "rb", buffering=0)

    def prepare(self, answers: IO[bytes]) -> bool:
        """Pass on that draws are confined and that they are ready; say whether both came."""
        # Two messages: what holds the job, told before its code runs, and that it is prepared.
        for _ in range(2):
            content = self._answer()
            if content is None:
                send(answers, packed(Unready(error=self._how_it_ended())))
                return False
            send(answers, content)
        return True

    def draw(self, request: bytes, answers: IO[bytes]) -> bool:
        """Pass a request on, and then its answer; say whether one came."""
        for pipe in self._requests:
            pipe.write(request)
            pipe.flush()
        content = self._answer()
        if content is not None:
            send(answers, content)
        return content is not None

    def _answer(self) -> bytes | None:
        """Return the next answer, or nothing where none will come."""
        while not select.select([self._answers], [], [], LOOK)[0]:
            if has_ended(self._draws):  # and left a process that holds its pipe open
                end_children(but=frozenset(filter(None, (self._draws, self._fits))))
        return receive(self._answers)

    def _how_it_ended(self) -> str:
        """Say how the process of the generator ended, which has prepared nothing."""
        end = time.monotonic() + _MOMENT  # its pipes close before it has ended
        while not has_ended(self._draws) and time.monotonic() < end:
            time.sleep(0.01)
        if not has_ended(self._draws):
            return "the process that fits ended before anything was drawn; run draw again"
        _, status = os.waitpid(self._draws, 0)
        if os.WIFSIGNALED(status):
            return (
                f"the generator's process was killed by signal {os.WTERMSIG(status)} while it was "
                "loaded or prepared, for want of memory or by somebody's hand; run draw again"
            )
        return (
            f"the generator ended its process (exit code {os.WEXITSTATUS(status)}) while it was "
            "loaded or prepared; its code should return, or raise an error, and not end the process"
        )

    def end(self) -> None:
        """End it and all that it started; it has nothing to finish, and may not want to."""
        for pipe in self._requests:
            with contextlib.suppress(BrokenPipeError):  # a request that it did not take
                pipe.close()
        self._answers.close()
        end_children()


def _forked(run: Callable[[], None], pipes: Sequence[int]) -> int:
    """Return a fork of this process that runs this, and has these pipes and no other."""
    parent = os.getpid()
    child = os.fork()
    if child == 0:
        start_fork(parent)
        try:
            leave_only((1, 2, *pipes))
            run()
        except BrokenPipeError:
            pass  # nobody waits for the answer any more
        except BaseException:  # it must not run on as its parent; the missing answer is refused
            traceback.print_exc()
        finally:
            os._exit(0)
    return child


def _end_with_family(scratch: str, number: int, frame: FrameType | None) -> None:
    """End everything that was started from here, and then this process.

    It comes from the pool, or from the kernel when the pool's process was killed. No
    generator runs in this process, so none can have replaced this.
    """
    end_children()
    remove(scratch)
    if os.getpgrp() == os.getpid():
        os.killpg(0, signal.SIGKILL)  # this process, and what is left where none is adopted
    os._exit(128 + number)


def serve_spawned(draws: bool, make_learner: MakeLearner) -> None:
    """Serve one job in a process that was started for it, where none can be forked.

    Its input is the job and then the requests; of a process that fits also what the draws gave,
    each after the request that it answers.
    """
    source = os.fdopen(os.dup(0), "rb")
    answers = os.fdopen(os.dup(1), "wb")
    # What a generator reads or prints is not between the command and this process.
    with open(os.devnull, "rb") as nothing:
        os.dup2(nothing.fileno(), 0)
    os.dup2(2, 1)
    job = read_line(source.readline())
    scratch = tempfile.gettempdir()  # made for this process, and removed when it has ended
    if draws:
        assert not isinstance(job, Request)  # a job comes first
        _serve_draws(job, source, answers, scratch, forks=False)
    else:
        assert isinstance(job, DrawJob)  # no other is fitted on
        serve_fits(job, make_learner, (source, source, answers), scratch, forks=False)


def _serve_draws(
    job: AnyJob, requests: IO[bytes], answers: IO[bytes], scratch: str, *, forks: bool = True
) -> None:
    """Answer the requests of one job with tables."""
    try:
        confined = confine(job.needs(), scratch)
        # Told before any code of a generator runs in this process, so that none can say it.
        send(answers, packed(Held(guard=confined.guard, read=list(confined.reach.read))))
        importlib.invalidate_caches()  # a module may be younger than what was read before the fork
        if not isinstance(job, DrawJob):
            send(answers, packed(answer(job)))
            return
        worker = Worker(job)
    except BaseException as error:  # a generator may call sys.exit
        send(answers, packed(Unready(error=error_words(error))))
        return
    send(answers, packed(Ready(prepared=worker.prepared)))
    ends = (requests.fileno(), answers.fileno())
    where = Forks(confined, scratch, ends, "the generator") if forks else Here()
    # A fork costs several times what one of our plain draws does. All other code gets one, and so
    # does what may have to be ended because time is up.
    plain = leaves_nothing(job.generator)
    for request in _requests(requests):
        if plain and request.timeout is None:
            send(answers, tables(worker, request.seeds))
        else:
            send(answers, where.told(partial(tables, worker), request.seeds, request.timeout))
