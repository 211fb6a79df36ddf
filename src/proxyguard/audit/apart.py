"""Code that a folder names, run in a process that has no key and no home.

Whoever verifies a stranger's folder runs such code only if they ask for it, and then here: a
fresh interpreter (not a fork, which would have the keys in its memory) with an environment of
its own, an empty home and a scratch folder, held to a list of what it may read (`draw.confine`),
on which stand neither keys nor the verdict that it is to confirm. The parent decrypts the target
and passes its records through a pipe; statistics come back. The code sees the records, and what
it answers is as good as the code. It has so much time as the verifier gives it, and a process
between the two, in which none of it runs, ends whatever it started and left.
"""

from __future__ import annotations

import base64
import json
import os
import select
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from types import FrameType
from typing import IO, Any, Protocol

import pyarrow as pa

from proxyguard.adapters.worker import make_learner
from proxyguard.audit.decide import corrected_registry
from proxyguard.audit.development import (
    FitChoices,
    MemberDevelopment,
    Workplace,
    fit_training,
    load_fitted,
    loss_measures,
    reference_policies,
    validation_risks,
)
from proxyguard.audit.draw import Task, tasks
from proxyguard.audit.folder import (
    CERTIFICATE,
    EVIDENCE,
    RELEASES,
    REPORTS,
    AuditFolder,
)
from proxyguard.audit.home import DataFolders, Home, default_home
from proxyguard.audit.jobs import fit_job
from proxyguard.audit.open import Opener
from proxyguard.audit.register import describe_mechanism
from proxyguard.audit.rules import measures_of
from proxyguard.audit.target import OpenTarget
from proxyguard.documents.ledger import SealedMember
from proxyguard.documents.registry import Registry
from proxyguard.draw.catalog import load_generator
from proxyguard.draw.confine import Needs, confine
from proxyguard.draw.messages import (
    FittedAgain,
    Made,
    MadeAgain,
    NotAgain,
    SourceAgain,
    said_again,
)
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
from proxyguard.draw.protocol import Seed
from proxyguard.draw.worker import Fitter, Worker
from proxyguard.errors import SealError, UntrustedCode
from proxyguard.models.stored import model_bytes
from proxyguard.registry.declaration import Member
from proxyguard.seal.journal import NAME, Journal

KEPT = ("PATH", "LANG", "LANGUAGE", "LC_ALL", "LC_CTYPE", "TZ", "LD_LIBRARY_PATH")
"""What the child keeps of the environment: nothing that could hold a secret or lead to one."""
MOST = 1 << 28
"""Bytes that the child may answer; statistics are far fewer."""
_GET_DUMPABLE, _DUMPABLE = 3, 4  # PR_GET_DUMPABLE, PR_SET_DUMPABLE
_LENGTH = 8


class Sink(Protocol):
    """What records are sent through."""

    def write(self, content: Any, /) -> int:
        """Write all of it."""


def rescore_apart(
    opener: Opener,
    journal: Journal,
    registry: Registry,
    design: Mapping[str, Any] | str | None = None,
    *,
    timeout: float,
) -> dict[str, Any]:
    """Compute the evidence again with the code that the folder names; a correction's by design."""
    targets = opener.unlocked(journal, registry)

    def send(out: Sink) -> None:
        for member in registry.declaration.members:
            send_target(targets[member.name], out)

    job = {"task": "evidence", "design": design}
    found: dict[str, Any] = run_apart(opener.folder, job, opener.secrets(), send, timeout=timeout)
    return found


def risks_apart(folder: AuditFolder, member: Member, *, timeout: float) -> dict[str, float]:
    """Compute the source's validation risks with the code that the folder names."""
    job = {"task": "risks", "member": member.name}
    found: dict[str, float] = run_apart(folder, job, (), timeout=timeout)
    return found


def references_apart(
    folder: AuditFolder, member: Member, *, timeout: float
) -> dict[str, dict[str, float]]:
    """Compute the losses of reference policies with the code that the folder names."""
    job = {"task": "references", "member": member.name}
    found: dict[str, dict[str, float]] = run_apart(folder, job, (), timeout=timeout)
    return found


def describe_apart(
    folder: AuditFolder, generator: str, options: Mapping[str, Any], *, timeout: float
) -> dict[str, Any]:
    """Ask a generator that the folder names to describe itself."""
    job = {"task": "describe", "generator": generator, "options": dict(options)}
    found: dict[str, Any] = run_apart(folder, job, (), timeout=timeout)
    if not isinstance(found, dict) or set(found) != {"describe", "origin", "batch"}:
        raise UntrustedCode(f"{generator} did not describe itself", names=())
    return found


def redraw_apart(
    folder: AuditFolder,
    member: str,
    mechanism: str,
    seed: int,
    data: Sequence[Path],
    *,
    timeout: float,
) -> MadeAgain | NotAgain:
    """Draw one registered seed again; return what is said of it, with the table."""
    job = {
        "task": "redraw",
        "member": member,
        "mechanism": mechanism,
        "seed": seed,
        "data": [str(path.resolve()) for path in data],
    }
    # What was stored would tell a generator what it is expected to draw.
    hidden = (folder / "store", folder / RELEASES)
    answer = run_apart(folder, job, hidden, timeout=timeout)
    return said_again(answer, MadeAgain, f"{mechanism}, seed {seed}, to be drawn again", seed)


def refit_apart(
    folder: AuditFolder,
    member: str,
    made: Made,
    release: bytes,
    *,
    timeout: float,
) -> FittedAgain | NotAgain:
    """Fit a member's procedure on a release; return the draw's record, with the model.

    The generator is not loaded in this child, which could replace the fit by another.
    """
    job = {"task": "refit", "member": member, "made": made.model_dump()}

    def send(out: Sink) -> None:
        out.write(len(release).to_bytes(_LENGTH, "big"))
        out.write(release)

    # What was stored would tell a procedure of others which model is expected.
    hidden = (folder / "store", folder / RELEASES)
    answer = run_apart(folder, job, hidden, send, timeout=timeout)
    what = f"{member}, seed {made.seed}, to be fitted again"
    return said_again(answer, FittedAgain, what, made.seed)


def source_apart(folder: AuditFolder, member: Member, *, timeout: float) -> SourceAgain | NotAgain:
    """Fit a member's procedure on the training part; return choices, with the model."""
    job = {"task": "source", "member": member.name}
    # The registry holds the choices that are expected, and is read before the procedure is loaded.
    hidden = (folder / "store", folder / RELEASES, folder / "registry")
    answer = run_apart(folder, job, hidden, timeout=timeout)
    return said_again(answer, SourceAgain, f"the source of {member.name}, to be fitted again")


def run_apart(
    folder: AuditFolder,
    job: Mapping[str, Any],
    secrets: Sequence[Path],
    send: Callable[[Sink], None] = lambda out: None,
    *,
    timeout: float,
) -> Any:
    """Start the child, give it its job and return its answer.

    What goes wrong in the named code is no fault of the record: it raises `UntrustedCode`, as
    if the code had not been run, and so does code that has not answered after ``timeout``
    seconds. A record that the child finds broken raises `SealError`. Whatever the code started
    is ended before this returns, also what left its group.
    """
    hidden = [default_home(), *secrets, *_verdicts(folder)]
    whole = {
        **job,
        "folder": str(folder.path.resolve()),
        "forbidden": [str(path.absolute()) for path in hidden],
    }
    with (
        TemporaryDirectory(prefix="proxyguard-") as scratch,
        _unreadable_memory(),
        subprocess.Popen(
            # -P: neither the folder nor the scratch folder is a place to import from.
            [sys.executable, "-P", "-m", "proxyguard.audit.apart", str(os.getpid())],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,  # it could write escapes to the verifier's terminal
            cwd=scratch,
            env=_environment(scratch, folder.path),
            start_new_session=True,
            bufsize=0,
        ) as process,
    ):
        line = _Line(process, timeout)
        try:
            with suppress(BrokenPipeError):  # it ended early, which the missing answer says
                line.write(json.dumps(whole).encode() + b"\n")
                send(line)
                line.close()
            # Its length comes first: a process that the code left behind may hold the pipe open.
            size = int.from_bytes(line.read(_LENGTH), "big")
            content = line.read(size) if size <= MOST else b""
        finally:
            end_family(process)
    return _answer(content)


class _Line:
    """The two pipes to the child, which has until a time to take its job and answer.

    Code that neither reads nor answers would otherwise hold the verifier at either end of it.
    """

    def __init__(self, process: subprocess.Popen[bytes], timeout: float) -> None:
        assert process.stdin is not None  # both are pipes
        assert process.stdout is not None
        self._job, self._answer = process.stdin, process.stdout
        self._timeout = timeout
        self._end = time.monotonic() + timeout
        os.set_blocking(self._job.fileno(), False)

    def write(self, content: Any, /) -> int:
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


def _answer(content: bytes) -> Any:
    try:
        answer = json.loads(content)
    except (ValueError, RecursionError):
        answer = None
    if not isinstance(answer, dict):
        raise UntrustedCode("code that the folder names ended without an answer", names=())
    if "value" in answer:
        return answer["value"]
    if answer.get("broken"):
        raise SealError(str(answer.get("error")))
    raise UntrustedCode(f"it could not be run here: {answer.get('error')}", names=())


def _verdicts(folder: AuditFolder) -> list[Path]:
    """Return what would tell the code which answer is wanted, and the sealed target."""
    names = (NAME, EVIDENCE, CERTIFICATE, *REPORTS, "target")
    return [folder / name for name in names]


def _environment(scratch: str, folder: Path) -> dict[str, str]:
    kept = {name: os.environ[name] for name in KEPT if name in os.environ}
    return {
        **kept,
        **dict.fromkeys(THREADS, "1"),
        **dict.fromkeys(("HOME", "TMPDIR", "XDG_DATA_HOME", "XDG_CACHE_HOME"), scratch),
        "PYTHONPATH": import_path(without=folder),
        "PYTHONSAFEPATH": "1",  # also for interpreters that the code starts itself
        "PYTHONDONTWRITEBYTECODE": "1",
    }


@contextmanager
def _unreadable_memory() -> Iterator[None]:
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


def send_target(target: OpenTarget, out: Sink) -> None:
    """Write an open target's records, chunk by chunk."""
    head = {"rows": target.rows, "salt": target.salt.hex()}
    out.write(json.dumps(head).encode() + b"\n")
    for table in target.stored():
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table)
        content = sink.getvalue()
        out.write(content.size.to_bytes(_LENGTH, "big"))
        out.write(content)
    out.write(bytes(_LENGTH))


def receive_target(member: Member, sealed: SealedMember, source: IO[bytes]) -> OpenTarget:
    """Read what `send_target` wrote."""
    head = json.loads(source.readline())
    tables = []
    while size := int.from_bytes(source.read(_LENGTH), "big"):
        with pa.ipc.open_stream(source.read(size)) as reader:
            tables.append(reader.read_all())
    return OpenTarget.received(
        member, sealed, rows=head["rows"], salt=bytes.fromhex(head["salt"]), tables=tables
    )


class _Job:
    """One job of the child: the folder as it was read before any other code was loaded."""

    def __init__(self, job: Mapping[str, Any], source: IO[bytes]) -> None:
        self._job = job
        self._folder = AuditFolder(Path(job["folder"]))
        self._journal = self._folder.journal()
        self._registry = self._folder.registry(self._journal)
        if job.get("design") is not None:  # before targets are read, which have the design's column
            self._registry = corrected_registry(self._registry, job["design"], self._journal)
        self._sealed = self._journal.ledger.sealed.members
        self._place = Workplace(
            folder=self._folder,
            data=DataFolders((Path.home(),)),  # the scratch folder, in which nothing is
            home=str(job["forbidden"][0]),
        )
        self._task = self._find_task() if job["task"] == "redraw" else None
        self._release = b""
        if job["task"] == "refit":
            self._release = source.read(int.from_bytes(source.read(_LENGTH), "big"))
        self._targets: dict[str, OpenTarget] = {}
        if job["task"] == "evidence":
            self._targets = {
                member.name: receive_target(member, self._sealed[member.name], source)
                for member in self._registry.declaration.members
            }

    def _find_task(self) -> Task:
        """Return the mechanism that is drawn again, as whoever drew it first had it."""
        roots = tuple(Path(path) for path in self._job["data"])
        place = replace(self._place, data=DataFolders((*roots, Path.home())))
        wanted = (self._job["member"], self._job["mechanism"])
        return next(
            task
            for task in tasks(place, self._registry, self._journal)
            if (task.member, task.mechanism) == wanted
        )

    def needs(self) -> Needs:
        """Return what the named code may see: the folder without keys, target and verdict."""
        forbidden = tuple(self._job["forbidden"])
        if self._task is not None:
            # What the folder registered to be allowed is its author's wish, not the verifier's.
            own = self._task.job.needs()
            return replace(own, forbidden=(*forbidden, *own.forbidden), allow=(), keeps=())
        hidden = {os.path.realpath(path) for path in forbidden}
        # A rule follows links: one in a stranger's folder could name any file of the verifier's.
        parts = [path for path in self._folder.path.iterdir() if not path.is_symlink()]
        named = [
            name
            for member in self._registry.declaration.members
            for name in (
                *(member.procedure.library if member.procedure else ()),
                *(part.loss or "" for part in member.requirement),
                *(mechanism.generator or "" for mechanism in member.mechanism),
            )
        ]
        return Needs(
            forbidden=forbidden,
            reads=tuple(str(path) for path in parts if os.path.realpath(path) not in hidden),
            lists=(str(self._folder.path),),
            code=tuple(named),
        )

    def run(self) -> Any:
        """Return the answer."""
        return {
            "evidence": self._evidence,
            "risks": self._risks,
            "references": self._references,
            "describe": self._describe,
            "redraw": self._redraw,
            "refit": self._refit,
            "source": self._source,
        }[self._job["task"]]()

    def _redraw(self) -> dict[str, Any]:
        assert self._task is not None  # of this job there is one
        # Code of another version may well give the same release: that is what is asked here.
        job = self._task.job.model_copy(update={"registered": None, "learner": None})
        worker = Worker(job)
        try:
            made, table = worker.draw(Seed(self._job["seed"]))
        except MemoryError:  # here, and not what happened then
            raise
        except Exception as error:  # of a generator: a failed draw, as it was then
            return {"status": "failed", "error": f"{type(error).__name__}: {error}"}
        return {
            **made.model_dump(),
            "prepared_at_random": worker.prepared.prepared_at_random,
            "table": base64.b64encode(table).decode(),
        }

    def _refit(self) -> dict[str, Any]:
        member = self._member()
        development = MemberDevelopment(self._place, member, self._sealed[member.name])
        job = fit_job(development)
        fitter = Fitter(job, make_learner(job))
        try:
            made = Made.model_validate(self._job["made"])
            again = fitter.refit(made, self._release)
        except MemoryError:
            raise
        except Exception as error:  # of a procedure: a failed draw, as it was then
            return {"status": "failed", "error": f"{type(error).__name__}: {error}"}
        return {**again.said.model_dump(), "model": base64.b64encode(again.model).decode()}

    def _source(self) -> dict[str, Any]:
        member = self._member()
        development = MemberDevelopment(self._place, member, self._sealed[member.name])
        try:
            fitted = fit_training(development)
        except Exception as error:  # of a procedure, in whose code anything can go wrong
            return {"status": "failed", "error": f"{type(error).__name__}: {error}"}
        assert fitted is not None  # members without a procedure have no such job
        model = base64.b64encode(model_bytes(fitted.estimator)).decode()
        return {"status": "fitted", **asdict(FitChoices.around(fitted)), "model": model}

    def _describe(self) -> dict[str, Any]:
        made = load_generator(self._job["generator"], self._job["options"])
        return describe_mechanism(made, self._job["generator"])

    def _evidence(self) -> dict[str, Any]:
        # The list of types is the declaration's own here: that is what was asked for.
        opener = Opener(self._place, Home(Path.home()), targets=self._targets)
        return opener.rescore(self._journal, self._registry).to_dict()

    def _member(self) -> Member:
        name = str(self._job["member"])
        return next(m for m in self._registry.declaration.members if m.name == name)

    def _risks(self) -> dict[str, float]:
        member = self._member()
        return source_risks(self._place, self._registry, member, self._sealed[member.name], None)

    def _references(self) -> dict[str, dict[str, float]]:
        member = self._member()
        development = MemberDevelopment(self._place, member, self._sealed[member.name])
        return reference_policies(development, loss_measures(member))


def source_risks(
    place: Workplace,
    registry: Registry,
    member: Member,
    sealed: SealedMember,
    trusted: Sequence[str] | None,
) -> dict[str, float]:
    """Return the validation risks of a member's stored source procedure."""
    resolved = registry.members[member.name]
    development = MemberDevelopment(place, member, sealed)
    if trusted is None:
        learner = development.learner()
        trusted = () if learner is None else learner.trusted()
    source = resolved.source
    if source is None:
        raise SealError(f"{member.name}: no source procedure is registered")
    fitted = load_fitted(place.folder, source.model, source, trusted)
    return validation_risks(development, measures_of(member, resolved.requirements), fitted)


def main() -> None:
    """Let a fork do one job, and end all that it started when it ends or this is told to.

    The named code runs in the fork alone, so that it cannot have replaced what ends it; what it
    starts in other groups or sessions becomes a child of this process when its parent dies.
    """
    end_with_parent(int(sys.argv[1]), signal.SIGTERM)
    adopt_orphans()
    signal.signal(signal.SIGTERM, _end_all)
    watch = os.getpid()
    worker = os.fork()
    if worker == 0:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        end_with_parent(watch, signal.SIGKILL)
        try:
            _do_job()
        finally:
            os._exit(1)  # a fork must not run on as its parent
    leave_only((2,))  # the pipes are the fork's: the answers end when it and its family have
    os.waitpid(worker, 0)
    _end_all(signal.SIGTERM, None)


def _end_all(number: int, frame: FrameType | None) -> None:
    """End everything that was started from here, and then this process."""
    end_children()
    os._exit(128 + number)


def _do_job() -> None:
    """Do one job; what the named code prints goes nowhere."""
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    whole = json.loads(sys.stdin.buffer.readline())
    answer: dict[str, Any]
    try:
        job = _Job(whole, sys.stdin.buffer)
        confine(job.needs(), str(Path.home()))  # from here on other code than ours may be loaded
        answer = {"value": job.run()}
    except Exception as error:  # whatever named code raises is told, and decides nothing
        where = traceback.extract_tb(error.__traceback__)[-1]
        text = f"{type(error).__name__}: {error} ({Path(where.filename).name}, {where.lineno})"
        answer = {"error": text[:2000], "broken": isinstance(error, SealError)}
    content = json.dumps(answer).encode()
    answers.write(len(content).to_bytes(_LENGTH, "big") + content)
    answers.flush()
    os._exit(0)  # no thread or exit handler of the named code outlives its answer


if __name__ == "__main__":
    main()
