"""Drawing where nothing can be forked: a process is started for each batch, and one that fits.

What a fork gives for nothing, a process that has prepared and drawn nothing yet, costs a start and
a preparation here. The rules are those of `draw.worker`: the process that loads a generator gives
tables, another one fits and never loads it, and only generators of ours that leave nothing draw
twice in one process. Nothing ends what a generator itself has started and left.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Sequence
from contextlib import suppress
from typing import IO, Literal

from proxyguard.draw.catalog import is_ours, leaves_nothing
from proxyguard.draw.job import AnyJob, DrawJob, Job, Request, line_of
from proxyguard.draw.messages import MOST, Failed, Wanted, packed, readiness, receive, send
from proxyguard.draw.pool import WORKER, Ended, Relay, drawing_environment, ended_after
from proxyguard.errors import DrawError, RegistryError

# Seconds in which a process ends that has nothing to read any more.
ENDS_WITHIN = 10.0


class SpawnedWorker:
    """What `draw.pool` feeds in the place of a forked worker, with the same calls."""

    def __init__(self) -> None:
        self._job: AnyJob | None = None
        self._draws: _Process | None = None
        self._fits: _Process | None = None
        self._told: list[bytes] = []  # how the first process for the job said that it is ready
        self._request: Request | None = None
        self._lock = threading.Lock()
        self._stopped = False

    def give(self, job: AnyJob) -> None:
        """Give it a job, for which its processes are started."""
        self._close()
        self._job, self._told = job, []
        self._draws = self._start("draws")
        self._fits = self._start("fits") if isinstance(job, DrawJob) else None

    def expect(
        self, job: Job, kind: type[Wanted],
        refusal: type[DrawError] | type[RegistryError] = DrawError, most: int = MOST,
    ) -> Wanted:  # fmt: skip
        """Return its next answer while it prepares, which is of this kind or says why not."""
        assert self._draws is not None  # a job was given
        content = self._draws.receive(most)
        if content is not None:
            self._told.append(content)
            content = content if self._fits is None else self._fits.pass_on(content)
        if content is None:
            raise Ended
        return readiness(content, job, kind, refusal)

    def tell(self, message: Request) -> None:
        """Take a request."""
        self._request = message

    def answer(self) -> bytes | None:
        """Return the answer to the request; nothing where a process has ended."""
        request = self._request
        assert request is not None  # it was told
        if request.timeout is None:
            return self._drawn(request.seeds, None)
        # One by one: a seed that takes too long must not fail the others of its batch.
        parts = [self._drawn([seed], request.timeout) for seed in request.seeds]
        return None if None in parts else b"".join(filter(None, parts))

    def _drawn(self, seeds: Sequence[int], seconds: float | None) -> bytes | None:
        """Return what is made of these seeds, in processes that have drawn nothing before."""
        job = self._job
        assert isinstance(job, DrawJob)  # no other is drawn from
        timed = seconds is not None
        draws, fits = self._fresh(job, timed)
        request = line_of(Request(seeds=tuple(seeds), timeout=None))
        draws.write(request)
        made = draws.receive(MOST, seconds)
        if made is None:
            if not draws.late:
                return None
            made = _timed_out(seeds, seconds)
        fits.write(request)
        fitted = fits.pass_on(made, seconds)
        return _timed_out(seeds, seconds) if fitted is None and fits.late else fitted

    def _fresh(self, job: DrawJob, timed: bool) -> tuple[_Process, _Process]:
        """Return processes for a batch; those of the one before only where it left nothing."""
        draws, fits = self._draws, self._fits
        assert draws is not None  # a job was given
        assert fits is not None
        ours = all(is_ours(name, "procedure") for name in job.library)
        if draws.used and (timed or not leaves_nothing(job.generator)):
            draws.close()
            self._draws = draws = self._start("draws")
            again = [draws.receive(MOST) for _ in self._told]
            # The last says how it was prepared: what two processes prepare is one mechanism.
            if again[-1:] != self._told[-1:]:
                raise DrawError(
                    f"{job.name}: prepared anew for the next batch, it was not prepared as before; "
                    "its preparation must follow from its source and its random stream"
                )
        if fits.used and (timed or not ours):
            fits.close()
            self._fits = fits = self._start("fits")
            for content in self._told:
                fits.pass_on(content)
        draws.used = fits.used = True
        return draws, fits

    def _start(self, role: Literal["draws", "fits"]) -> _Process:
        with self._lock:
            if self._stopped:
                raise DrawError("drawing was stopped")
            process = _Process(role)
        assert self._job is not None  # a job was given
        process.write(line_of(self._job))
        return process

    def close(self) -> None:
        """Let it end, and wait until it has and what it printed was shown."""
        self._close()

    def _close(self) -> None:
        for process in (self._draws, self._fits):
            if process is not None:
                process.close()
        self._draws = self._fits = None

    def end(self) -> None:
        """End its processes, whatever they do, and start none any more."""
        with self._lock:
            self._stopped = True
            for process in (self._draws, self._fits):
                if process is not None:
                    process.kill()


def _timed_out(seeds: Sequence[int], seconds: float | None) -> bytes:
    words = f"more than {seconds:g} s"
    return b"".join(packed(Failed(seed=seed, status="timeout", error=words)) for seed in seeds)


class _Process:
    """One process that draws or fits, with a scratch folder of its own."""

    def __init__(self, role: Literal["draws", "fits"]) -> None:
        self.used = self.late = False
        self._scratch = tempfile.mkdtemp(prefix="proxyguard-draw-")
        scratch = dict.fromkeys(("TMPDIR", "TMP", "TEMP"), self._scratch)
        self._process = subprocess.Popen(
            # -P: the folder in which somebody stands is no place to import from.
            [sys.executable, "-P", "-m", WORKER, role],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**drawing_environment(), **scratch},
        )
        assert self._process.stdin is not None  # all three are pipes
        assert self._process.stdout is not None
        assert self._process.stderr is not None
        self._input: IO[bytes] = self._process.stdin
        self._output: IO[bytes] = self._process.stdout
        self._relay = Relay(self._process.stderr)
        self._relay.start()

    def write(self, content: bytes) -> None:
        """Write to it; that it has ended its missing answer will say."""
        with suppress(BrokenPipeError, OSError):
            self._input.write(content)
            self._input.flush()

    def receive(self, most: int, seconds: float | None = None) -> bytes | None:
        """Return its next message; nothing where it ended, or was ended for being late."""
        with ended_after(seconds, self.kill) as late:
            content = receive(self._output, most)
        self.late = content is None and late.is_set()
        return content

    def pass_on(self, content: bytes, seconds: float | None = None) -> bytes | None:
        """Give it a message, and return its own."""
        with suppress(BrokenPipeError, OSError):  # it may have said why it cannot go on
            send(self._input, content)
        return self.receive(MOST, seconds)

    def kill(self) -> None:
        """End it."""
        with suppress(ProcessLookupError, PermissionError):
            self._process.kill()

    def close(self) -> None:
        """Let it end, or end it; show what it printed and remove what it left."""
        with suppress(BrokenPipeError, OSError):
            self._input.close()
        try:
            self._process.wait(ENDS_WITHIN)
        except subprocess.TimeoutExpired:
            self.kill()
            self._process.wait()
        self._output.close()
        self._relay.join(ENDS_WITHIN)
        shutil.rmtree(self._scratch, ignore_errors=True)
