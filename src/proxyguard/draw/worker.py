"""A process that draws: it knows the source and the seeds, and nothing of the target.

Reads a job from its input, then its requests, then perhaps another job, one line each, and
answers each with one message (`draw.answers`). A job says what its process may read, so only
the process that reads the input starts one: a generator runs in a fork of that process, which
has two pipes, its requests and its answers, and in forks of that fork, which have one. Every
draw runs in a fork of a process that has drawn nothing before, so that no draw can leave
anything behind for the next.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import select
import shutil
import signal
import tempfile
import time
import traceback
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from types import FrameType
from typing import IO, TYPE_CHECKING, Any, NamedTuple

import numpy as np

from proxyguard.draw.answers import WORDS, in_words, packed, pass_on, send
from proxyguard.draw.catalog import load_generator
from proxyguard.draw.confine import Confined, confine, confine_draw, needs_of
from proxyguard.draw.models import model_bytes
from proxyguard.draw.processes import (
    adopt_orphans,
    children,
    end_children,
    leave_only,
    leave_pipes,
    start_fork,
)
from proxyguard.draw.protocol import Fitted, Learner, Seed
from proxyguard.draw.sources import (
    Described,
    answer,
    changed_generator,
    changed_procedure,
    refuse_changes,
)
from proxyguard.errors import DrawError, ProxyGuardError
from proxyguard.tables.content import Schema, content_digest
from proxyguard.tables.files import read_table_bytes, table_bytes

if TYPE_CHECKING:
    import pandas as pd


def drawn_record(seed: Seed, release: pd.DataFrame, fitted: Fitted | None) -> dict[str, Any]:
    """Return what is recorded of a draw besides its bytes."""
    return {
        "seed": int(seed),
        "status": "drawn",
        "rows": len(release),
        "content": content_digest(release),
        "stages": list(seed.taken),
        **_files(seed),
        "selected": None if fitted is None else fitted.selected,
        "threshold": None if fitted is None else _text(fitted.threshold),
        "temperature": None if fitted is None else _text(fitted.temperature),
    }


def _files(seed: Seed) -> dict[str, Any]:
    """Return the digests of the files that a draw read, where it read any."""
    return {"files": dict(seed.files)} if seed.files else {}


def _text(value: float | None) -> str | None:
    return None if value is None else repr(float(value))


class Worker:
    """One generator and one procedure, ready to draw."""

    def __init__(self, job: Mapping[str, Any], learner: Learner | None) -> None:
        self._learner = learner
        self._schema = Schema.of_releases(job["kinds"], job["missing"], generator=job["generator"])
        self._generator = load_generator(job["generator"], job["options"])
        # In this process the code was loaded anew: what it says of itself now is what draws.
        registered = job.get("registered")
        changes = list(changed_procedure(job.get("learner"), learner))
        if registered is not None:
            described = Described.by(job["generator"], self._generator)
            changes += changed_generator(registered, described)
        refuse_changes(job["generator"], changes)
        if hasattr(self._generator, "root"):
            self._generator.root = Path(job["root"])
        source = read_table_bytes(Path(job["source"]).read_bytes(), "the source")
        self._validation = (
            None
            if job["validation"] is None
            else read_table_bytes(Path(job["validation"]).read_bytes(), "the validation part")
        )
        rng = np.random.default_rng(job["prepare_seed"])
        before = repr(rng.bit_generator.state)
        self._generator.prepare(source, rng)
        self.prepared_at_random = repr(rng.bit_generator.state) != before
        self.prepared_from: dict[str, str] = dict(getattr(self._generator, "prepared_from", {}))

    @property
    def prepared(self) -> dict[str, Any]:
        """What is true of all draws of this job."""
        files = {"prepared_from": self.prepared_from} if self.prepared_from else {}
        return {"prepared_at_random": self.prepared_at_random, **files}

    def draw_many(self, seeds: Sequence[Seed]) -> list[Any]:
        """Return the tables of several seeds at once; nothing for each where that fails.

        One bad seed must not fail the others of its batch: they are then drawn one by one.
        """
        if len(seeds) < 2 or not hasattr(self._generator, "draw_many"):
            return [None] * len(seeds)
        try:
            return list(self._generator.draw_many(seeds))
        except Exception:  # whatever it was, the seed that it belongs to raises it again
            return [None] * len(seeds)

    def draw(self, seed: Seed, table: Any = None) -> tuple[dict[str, Any], bytes, bytes]:
        """Return the record of one draw and the bytes of its release and of its model."""
        if table is None:
            table = self._generator.draw(seed)
        if not seed.taken:
            seed.take("the release")  # a generator that uses its seed as a plain number
        release = self._schema.records(table)
        if len(release) == 0:
            raise DrawError("the release has no record")  # which answers no query
        if self._schema.predictions:
            record = {**drawn_record(seed, release, None), "predictions": True}
            return record, table_bytes(release), b""
        fitted = None
        if self._learner is not None:
            fitted = self._learner.fit(release, self._validation, seed)
        model = b"" if fitted is None else model_bytes(fitted.estimator)
        return drawn_record(seed, release, fitted), table_bytes(release), model


def serve(make_learner: Any, requests: IO[bytes], answers: IO[bytes]) -> None:
    """Serve one job after the other until the input ends, each in a process of its own.

    What is slow, loading the libraries, is done once for all jobs; what a job prepares is
    seen by no other. No code of a generator runs in this process, which nothing confines, and
    what a job's process says is passed on and not read: the input alone says what is done next.
    """
    adopt_orphans()
    scratch = tempfile.mkdtemp(prefix="proxyguard-draw-")
    signal.signal(signal.SIGTERM, partial(_end_with_family, scratch))
    job: _JobProcess | None = None
    try:
        for line in requests:
            request = json.loads(line)
            if "seeds" in request:
                if job is None or not job.draw(line, answers):
                    break
                continue
            if job is not None:
                job.end()
                _remove(scratch)
                os.mkdir(scratch, mode=0o700)
            job = _JobProcess(request, make_learner, scratch)
            if not job.prepare(answers):
                break
    except BrokenPipeError:
        pass  # nobody waits for the answers any more, or the job has ended, which its end tells
    finally:
        if job is not None:
            job.end()
        _remove(scratch)


class _JobProcess:
    """The process of one job, held to what the job needs, and the two pipes to it."""

    def __init__(self, job: Mapping[str, Any], make_learner: Any, scratch: str) -> None:
        asked, ask = os.pipe()
        told, tell = os.pipe()
        parent = os.getpid()
        self._child = os.fork()
        if self._child == 0:
            start_fork(parent)
            try:
                leave_only((1, 2, asked, tell))
                with os.fdopen(asked, "rb") as requests, os.fdopen(tell, "wb") as answers:
                    _serve_job(job, make_learner, requests, answers, scratch)
            except BrokenPipeError:
                pass  # nobody waits for the answer any more
            except Exception:  # a fork must not run on as its parent; the missing answer is refused
                traceback.print_exc()
            finally:
                os._exit(0)
        os.close(asked)
        os.close(tell)
        self._requests = os.fdopen(ask, "wb")
        self._answers = os.fdopen(told, "rb")

    def prepare(self, answers: IO[bytes]) -> bool:
        """Pass on that it is confined and that it is ready; say whether both came."""
        return pass_on(self._answers, answers) and pass_on(self._answers, answers)

    def draw(self, request: bytes, answers: IO[bytes]) -> bool:
        """Pass a request on, and then its answer; say whether one came."""
        self._requests.write(request)
        self._requests.flush()
        return pass_on(self._answers, answers)

    def end(self) -> None:
        """End it and all that it started; it has nothing to finish, and may not want to."""
        with contextlib.suppress(BrokenPipeError):  # a request that it did not take
            self._requests.close()
        self._answers.close()
        end_children()


def _end_with_family(scratch: str, number: int, frame: FrameType | None) -> None:
    """End everything that was started from here, and then this process.

    It comes from the pool, or from the kernel when the pool's process was killed. No
    generator runs in this process, so none can have replaced this.
    """
    end_children()
    _remove(scratch)
    if os.getpgrp() == os.getpid():
        os.killpg(0, signal.SIGKILL)  # this process, and what is left where none is adopted
    os._exit(128 + number)


def _remove(scratch: str) -> None:
    """Remove what draws left; a generator may have made something that cannot be removed."""
    shutil.rmtree(scratch, ignore_errors=True)


def _serve_job(
    job: Mapping[str, Any],
    make_learner: Any,
    requests: IO[bytes],
    answers: IO[bytes],
    scratch: str,
) -> None:
    """Answer the requests of one job."""
    try:
        confined = confine(needs_of(job), scratch)
        # Told before any code of a generator runs in this process, so that none can say it.
        told = {"status": "confined", "guard": confined.guard, "read": confined.reach.read}
        send(answers, packed(told))
        if "asks" in job:
            send(answers, packed(answer(job)))
            return
        worker = Worker(job, make_learner(job))
    except Exception as error:
        send(answers, packed({"status": "unready", "error": _explain(error)}))
        return
    send(answers, packed({"status": "ready", "prepared": worker.prepared}))
    pipes = (requests.fileno(), answers.fileno())
    for count, line in enumerate(requests):
        request = json.loads(line)
        own = tempfile.mkdtemp(prefix=f"{count}-", dir=scratch)
        bounds = Bounds(confined, own, pipes)
        send(answers, _in_a_fork(worker, request["seeds"], request["timeout"], bounds))
        _remove(own)


class Bounds(NamedTuple):
    """What holds a draw, the folder that it may write to, and the pipes that are not its own."""

    confined: Confined
    scratch: str
    pipes: tuple[int, int]


def _in_a_fork(
    worker: Worker,
    seeds: list[int],
    timeout: float | None,
    bounds: Bounds,
) -> bytes:
    """Draw in a child that has the prepared state and nothing else; return its answers."""
    read, write = os.pipe()
    before = frozenset(children())  # what the preparation started, and every draw may use
    parent = os.getpid()
    child = os.fork()
    if child == 0:
        start_fork(parent)
        os.close(read)
        status = 0
        with contextlib.suppress(BrokenPipeError), os.fdopen(write, "wb") as out:
            leave_pipes(bounds.pipes)  # in which it could answer for the draws after it
            confine_draw(bounds.confined, bounds.scratch)
            status = _draw_all(worker, seeds, out)
        os._exit(status)
    os.close(write)
    content, late = _collect(read, timeout)
    if late:
        os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    end_children(but=before)  # a process that a draw leaves could tell the next draw something
    if late:
        why = f"more than {timeout:g} s"
        return b"".join(packed({"seed": s, "status": "timeout", "error": why}) for s in seeds)
    if os.WIFSIGNALED(status):
        return packed({"status": "killed", "signal": os.WTERMSIG(status)})
    return content


def _draw_all(worker: Worker, numbers: list[int], out: IO[bytes]) -> int:
    seeds = [Seed(number) for number in numbers]
    for seed, table in zip(seeds, worker.draw_many(seeds), strict=True):
        try:
            record, release, model = worker.draw(seed, table)
        except Exception as error:
            record = _failure(seed, error)
            release = model = b""
        out.write(packed(record, release, model))
    return 0


def _failure(seed: Seed, error: Exception) -> dict[str, Any]:
    """Return the record of a draw that gave no release; of a file, which one it was."""
    words = _explain(error)
    for name in seed.files:
        if Path(name).name not in words:
            words = f"{name}: {words}"
    return {"seed": int(seed), "status": "failed", "error": words, **_files(seed)}


def _collect(read: int, timeout: float | None) -> tuple[bytes, bool]:
    """Return what a child wrote, and whether it ran out of time first."""
    end = None if timeout is None else time.monotonic() + timeout
    parts: list[bytes] = []
    with os.fdopen(read, "rb", buffering=0) as pipe:
        while True:
            left = None if end is None else max(0.0, end - time.monotonic())
            ready, _, _ = select.select([pipe], [], [], left)
            if not ready:
                return b"", True
            part = pipe.read(1 << 20)
            if not part:
                return b"".join(parts), False
            parts.append(part)


def _explain(error: Exception) -> str:
    """Return one line about an error; a user's own also says where it arose.

    It reaches the report, which is no place for the folders of whoever drew.
    """
    if isinstance(error, ProxyGuardError | DrawError):
        return in_words(_without_folders(str(error)))
    where = traceback.extract_tb(error.__traceback__)[-1]
    # Shorter than what is taken, which has room for the place and the advice after it.
    words = in_words(_without_folders(f"{type(error).__name__}: {error}"), WORDS // 2)
    told = f"{words} (in {Path(where.filename).name}, line {where.lineno})"
    if isinstance(error, PermissionError):
        told += (
            "; a draw may not read what is neither code nor development data, nor write outside "
            "its temporary folder: devices, interpreters and models that it needs are registered "
            "with allow = [...]"
        )
    return told


_QUOTED = re.compile(r"""(['"])/(?:[^'"/]+/)*([^'"/]+)/?\1""")
_BARE = re.compile(r"""(?<![\w.:/'"])/(?:[^\s'":,;()/]+/)+([^\s'":,;()/]+)""")


def _without_folders(text: str) -> str:
    """Return text in which every absolute path is its last part alone."""
    return _BARE.sub(r"\1", _QUOTED.sub(r"\1\2\1", text))
