"""A process that fits: it gets the tables that draws made, and never loads a generator.

A generator can replace any function of its own process, the training of models among them. So a
draw gives a table and what it says of its seed, and no more; which records these are, whether
they are a release, and which model is learned from them is found out here, from the bytes.
"""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
import uuid
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, NamedTuple

from proxyguard.draw.answers import (
    Answer,
    Failed,
    Killed,
    Made,
    explain,
    made_answers,
    packed,
    receive,
    send,
)
from proxyguard.draw.catalog import is_ours
from proxyguard.draw.confine import Confined, confine, confine_draw, fit_needs
from proxyguard.draw.processes import Forked, in_a_fork, leave_pipes
from proxyguard.draw.protocol import Learner, Seed
from proxyguard.draw.sources import changed_procedure, refuse_changes
from proxyguard.errors import DrawError
from proxyguard.models.stored import model_bytes
from proxyguard.tables.content import Schema, content_digest
from proxyguard.tables.files import read_table_bytes, table_bytes

if TYPE_CHECKING:
    import pandas as pd


class Fitter:
    """One procedure, ready to be fitted on releases."""

    def __init__(self, job: Mapping[str, Any], learner: Learner | None) -> None:
        refuse_changes("the procedure", list(changed_procedure(job.get("learner"), learner)))
        self._learner = None if job["predictions"] else learner
        self._schema = Schema.of_releases(job["kinds"], job["missing"], generator=job["generator"])
        self._validation = (
            None
            if job["validation"] is None
            else read_table_bytes(Path(job["validation"]).read_bytes(), "the validation part")
        )

    def fit(self, made: Made, table: bytes) -> Answer:
        """Return the record of one draw and the bytes of its release and of its model."""
        return self._answer(made, self._schema.received(table))

    def refit(self, made: Made, stored: bytes) -> Answer:
        """Return what `fit` returned, from the release that was stored."""
        return self._answer(made, self._schema.records(read_table_bytes(stored, "the release")))

    def _answer(self, made: Made, release: pd.DataFrame) -> Answer:
        if len(release) == 0:
            raise DrawError("the release has no record")  # which answers no query
        seed = Seed(made.seed)
        seed.taken = list(made.stages)
        fitted = None
        if self._learner is not None:
            fitted = self._learner.fit(release, self._validation, seed)
        record = {
            "seed": made.seed,
            "status": "drawn",
            "rows": len(release),
            "content": content_digest(release),
            "stages": list(seed.taken),
            **({"files": dict(made.files)} if made.files else {}),
            "selected": None if fitted is None else fitted.selected,
            "threshold": None if fitted is None else _text(fitted.threshold),
            "temperature": None if fitted is None else _text(fitted.temperature),
            **({"predictions": True} if self._schema.predictions else {}),
        }
        model = b"" if fitted is None else model_bytes(fitted.estimator)
        return record, table_bytes(release), model


def _text(value: float | None) -> str | None:
    return None if value is None else repr(float(value))


def failure(seed: int, files: Mapping[str, str | None], error: BaseException) -> dict[str, Any]:
    """Return the record of a draw that gave no release; of a file, which one it was."""
    words = explain(error)
    for name in files:
        if Path(name).name not in words:
            words = f"{name}: {words}"
    read = {"files": dict(files)} if files else {}
    return {"seed": seed, "status": "failed", "error": words, **read}


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
        for _, forked in forks:
            if forked.made is None and not forked.late and os.WIFSIGNALED(forked.status):
                return packed({"status": "killed", "signal": os.WTERMSIG(forked.status)})
        return b"".join(
            self._without_answer(these, forked, seconds) if forked.made is None else forked.made
            for these, forked in forks
        )

    def _fork(
        self, make: Callable[[Sequence[int]], bytes], seeds: Sequence[int], timeout: float | None
    ) -> Forked:
        own = tempfile.mkdtemp(dir=self.scratch)

        def confined() -> bytes:
            leave_pipes(self.pipes)
            confine_draw(self.confined, own)
            return make(seeds)

        forked = in_a_fork(confined, timeout)
        remove(own)
        return forked

    def _without_answer(self, seeds: Sequence[int], forked: Forked, seconds: float | None) -> bytes:
        status = "timeout" if forked.late else "failed"
        words = (
            f"more than {seconds:g} s"
            if forked.late
            else f"{self.who} ended its process (exit code {os.WEXITSTATUS(forked.status)}) before "
            "it gave anything; its code should return, or raise an error, and not end the process"
        )
        return b"".join(packed({"seed": seed, "status": status, "error": words}) for seed in seeds)


def _ended_itself(forked: Forked) -> bool:
    return forked.made is None and not forked.late and os.WIFEXITED(forked.status)


_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
DEEP = 64
"""Folders within folders that are gone into; each takes a file handle and a call."""


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
    job: Mapping[str, Any],
    make_learner: Any,
    pipes: tuple[IO[bytes], IO[bytes], IO[bytes]],
    scratch: str,
) -> None:
    """Answer the requests of one job with what the draws of its generator's process give.

    ``pipes`` are the requests, which that process gets too, its answers, and the answers of this
    one. Its first two, that it is held and that it is ready, are passed on unread.
    """
    requests, said, answers = pipes
    try:
        confined = confine(fit_needs(job), scratch)
        forks = Forks(confined, scratch, [pipe.fileno() for pipe in pipes], "the procedure")
        fits = _Fits(job, make_learner(job), forks)
        for _ in range(2):
            content = receive(said)
            if content is None:
                return
            send(answers, content)
    except BaseException as error:  # a procedure may call sys.exit
        send(answers, packed({"status": "unready", "error": explain(error)}))
        return
    for line in requests:
        request = json.loads(line)
        try:
            content = receive(said)
            if content is None:
                return
            # Not what is left of the draws' time: a draw that hung would take that of all fits.
            answer = fits.answer(content, request["seeds"], request["timeout"])
        except DrawError as error:
            answer = packed({"status": "refused", "error": str(error)})
        send(answers, answer)


class _Fits:
    """The fits of one job."""

    def __init__(self, job: Mapping[str, Any], learner: Learner | None, forks: Forks) -> None:
        self._job, self._forks = job, forks
        self._fitter = Fitter(job, learner)
        library = (job["procedure"] or {}).get("library", ())
        self._ours = all(is_ours(name, "procedure") for name in library)

    def answer(self, content: bytes, seeds: Sequence[int], seconds: float | None) -> bytes:
        """Return the answer to one request.

        A fork for each batch costs more than a fit. Code of others gets one, in which it can leave
        nothing for the next fit, and so does what may have to be ended because time is up.
        """
        drawn = {}
        for said, table in made_answers(content, self._job, seeds):
            if isinstance(said, Killed):
                return packed(said.model_dump())
            drawn[said.seed] = said, table

        def fitted(these: Sequence[int]) -> bytes:
            return b"".join(packed(*self._one(*drawn[seed])) for seed in these)

        if self._ours and seconds is None:
            return fitted(seeds)
        return self._forks.told(fitted, seeds, seconds)

    def _one(self, said: Made | Failed, table: bytes) -> Answer:
        if isinstance(said, Failed):
            return said.model_dump(exclude_unset=True), b"", b""
        try:
            return self._fitter.fit(said, table)
        except MemoryError:
            raise  # want of memory here says nothing about the mechanism: nothing is answered
        except BaseException as error:  # a procedure may call sys.exit
            return failure(said.seed, said.files, error), b"", b""
