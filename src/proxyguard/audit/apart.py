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
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import IO, Annotated, ClassVar, Generic, Literal, TypeVar

import pyarrow as pa
from pydantic import BaseModel, ConfigDict, Field, JsonValue, TypeAdapter, ValidationError

from proxyguard.adapters.kept import kept_files
from proxyguard.adapters.worker import make_learner
from proxyguard.audit.decide import corrected_registry
from proxyguard.audit.development import (
    FitChoices,
    MemberDevelopment,
    Workplace,
    fit_training,
    loss_measures,
    reference_policies,
    source_risks,
)
from proxyguard.audit.draw import tasks
from proxyguard.audit.folder import CERTIFICATE, EVIDENCE, RELEASES, REPORTS, AuditFolder
from proxyguard.audit.home import DataFolders, Home, default_home
from proxyguard.audit.jobs import fit_job
from proxyguard.audit.manifest import release_schema
from proxyguard.audit.open import Opener
from proxyguard.audit.stated import SelfDescription
from proxyguard.audit.target import OpenTarget
from proxyguard.documents.evidence import Evidence
from proxyguard.documents.ledger import DesignText, SealedMember
from proxyguard.documents.registry import Registry
from proxyguard.draw.catalog import load_generator
from proxyguard.draw.confine import Needs, confine
from proxyguard.draw.drawing import Fitter, Worker
from proxyguard.draw.job import DrawJob
from proxyguard.draw.messages import FittedAgain, Made, MadeAgain, NotAgain, SourceAgain, said_again
from proxyguard.draw.processes import (
    LENGTH,
    Sink,
    answer_once,
    put,
    refuse_without_fork,
    started,
    take,
)
from proxyguard.draw.protocol import Seed
from proxyguard.draw.sources import Described
from proxyguard.errors import SealError, UntrustedCode
from proxyguard.models.stored import model_bytes
from proxyguard.registry.declaration import Member
from proxyguard.seal.journal import NAME, Journal

# Bytes that the child may answer; statistics are far fewer.
MOST = 1 << 28


Answered = TypeVar("Answered")


@dataclass(frozen=True, slots=True)
class Work:
    """A job that has read all it may know: what its code may see, and what then computes."""

    needs: Needs
    run: Callable[[], object]


def ask(
    folder: AuditFolder,
    job: ApartJob[Answered],
    *,
    timeout: float,
    secrets: Sequence[Path] = (),
    send: Callable[[Sink], None] = lambda out: None,
) -> Answered:
    """Let code that the folder names do a job, in a process without keys.

    Parameters
    ----------
    folder
        The stranger's folder.
    job
        What is asked for.
    timeout
        Seconds that it may take.
    secrets
        Where keys lie, besides the home, that the code must not read.
    send
        Writes what the job reads from the pipe.

    Raises
    ------
    UntrustedCode
        Where the code fails, does not answer in time, or answers nothing that can be compared.
    SealError
        Where the child finds the record broken.
    """
    hidden = [*secrets, *(folder / name for name in job.hides)]
    return job.read(run_apart(folder, job, hidden, send, timeout=timeout))


def rescore_apart(
    opener: Opener,
    journal: Journal,
    registry: Registry,
    design: DesignText | None = None,
    *,
    timeout: float,
) -> Evidence:
    """Compute the evidence again with the code that the folder names; a correction's by design."""
    targets = opener.unlocked(journal, registry)

    def send(out: Sink) -> None:
        for member in registry.declaration.members:
            send_target(targets[member.name], out)

    job = Rescore(design=design)
    return ask(opener.folder, job, timeout=timeout, secrets=opener.secrets(), send=send)


def refit_apart(
    folder: AuditFolder, member: str, made: Made, release: bytes, *, timeout: float
) -> FittedAgain | NotAgain:
    """Fit a member's procedure on a release; return the draw's record, with the model."""

    job = Refit(member=member, made=made)
    return ask(folder, job, timeout=timeout, send=lambda out: put(out, release))


def run_apart(
    folder: AuditFolder,
    job: ApartJob[Answered],
    secrets: Sequence[Path],
    send: Callable[[Sink], None] = lambda out: None,
    *,
    timeout: float,
) -> object:
    """Start the child, give it its job and return what it answers.

    What goes wrong in the named code is no fault of the record: it raises `UntrustedCode`, as
    if the code had not been run, and so does code that has not answered after ``timeout``
    seconds. A record that the child finds broken raises `SealError`. Whatever the code started
    is ended before this returns, also what left its group.
    """
    refuse_without_fork("what is computed again in a process of its own")
    # The home stands first, where `Bench` looks for it.
    hidden = [default_home(), *secrets, *_verdicts(folder)]
    where = _Where(
        folder=str(folder.path.resolve()),
        forbidden=tuple(str(path.absolute()) for path in hidden),
    )
    with started("proxyguard.audit.apart", timeout, without=folder.path) as line:
        with suppress(BrokenPipeError):  # it ended early, which the missing answer says
            for message in (where, job):
                line.write(message.model_dump_json().encode() + b"\n")
            send(line)
            line.close()
        # Its length comes first: a process that the code left behind may hold the pipe open.
        size = int.from_bytes(line.read(LENGTH), "big")
        content = line.read(size) if size <= MOST else b""
    return _answer(content)


class _Answered(BaseModel):
    """What the child says: an answer, or why there is none."""

    answer: JsonValue = None
    error: str | None = None
    broken: bool = False  # as our own code found the record, before any other ran


def _answer(content: bytes) -> object:
    try:
        said = _Answered.model_validate(json.loads(content))
    # Lists that are nested deep enough exhaust the parser, and the code may send such.
    except (ValueError, RecursionError):
        raise UntrustedCode("code that the folder names ended without an answer") from None
    if said.error is None:
        return said.answer
    # Code that lies here gains nothing: it turns what was not checked into a finding.
    if said.broken:
        raise SealError(said.error)
    raise UntrustedCode(f"it could not be run here: {said.error}")


def _verdicts(folder: AuditFolder) -> list[Path]:
    """Return what would tell the code which answer is wanted, and the sealed target.

    A generator that knew the verdict could draw what confirms it.
    """
    names = (NAME, EVIDENCE, CERTIFICATE, *REPORTS, "target")
    return [folder / name for name in names]


def send_target(target: OpenTarget, out: Sink) -> None:
    """Write an open target's records, chunk by chunk."""
    # With the salt, from which the nonce follows: the seed has to come out as it did.
    head = {"rows": target.rows, "salt": target.salt.hex()}
    out.write(json.dumps(head).encode() + b"\n")
    for table in target.stored():
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table)
        content = sink.getvalue()
        put(out, memoryview(content))
    # No chunk has length 0: this ends the member's, and the next one's head can follow.
    out.write(bytes(LENGTH))


def receive_target(member: Member, sealed: SealedMember, source: IO[bytes]) -> OpenTarget:
    """Read what `send_target` wrote."""
    head = json.loads(source.readline())
    tables = []
    while chunk := take(source):
        with pa.ipc.open_stream(chunk) as reader:
            tables.append(reader.read_all())
    return OpenTarget.received(
        member, sealed, rows=head["rows"], salt=bytes.fromhex(head["salt"]), tables=tables
    )


class Bench:
    """The folder as the child reads it, before any other code than ours is loaded.

    Parameters
    ----------
    folder
        The stranger's folder.
    forbidden
        What the named code may not see: the verifier's home first, keys, target and verdict.
    """

    def __init__(self, folder: AuditFolder, forbidden: Sequence[str]) -> None:
        self.folder = folder
        self.forbidden = tuple(forbidden)
        self.journal = folder.journal()
        self.registry = folder.registry(self.journal)
        self.sealed = self.journal.ledger.sealed.members
        # The scratch folder, in which nothing is, stands for the data.
        self.place = Workplace(
            folder=folder, data=DataFolders((Path.home(),)), home=self.forbidden[0]
        )

    def development(self, name: str) -> MemberDevelopment:
        """Return the development part of a member."""
        member = self.registry.declaration.member(name)
        return MemberDevelopment(self.place, member, self.sealed[name])

    def needs(self) -> Needs:
        """Return what the named code may see: the folder without keys, target and verdict."""
        hidden = {os.path.realpath(path) for path in self.forbidden}
        # A rule follows links: one in a stranger's folder could name any file of the verifier's.
        shown = [path for path in self.folder.path.iterdir() if not path.is_symlink()]
        named = [
            name
            for member in self.registry.declaration.members
            for name in (
                *(member.procedure.library if member.procedure else ()),
                *member.measuring_code,
                *(mechanism.generator or "" for mechanism in member.mechanism),
            )
        ]
        return Needs(
            forbidden=self.forbidden,
            reads=tuple(str(path) for path in shown if os.path.realpath(path) not in hidden),
            lists=(str(self.folder.path),),
            code=tuple(named),
        )


# What would tell a generator what it is expected to draw, and a procedure which model to give.
STORED = ("store", RELEASES)


class ApartJob(BaseModel, Generic[Answered]):
    """One thing that named code is asked for: a message to the child, and how it is done there."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    hides: ClassVar[tuple[str, ...]] = ()
    """Names in the folder that would tell the code which answer is expected."""

    def begin(self, bench: Bench, source: IO[bytes]) -> Work:
        """Read, in the child, what the job needs, before any other code than ours is loaded."""
        return Work(bench.needs(), partial(self.run, bench))

    def run(self, bench: Bench) -> object:
        """Return, in the child and confined, the answer as JSON has it."""
        raise NotImplementedError

    def read(self, answer: object) -> Answered:
        """Return, in the parent, what the child answered; what is none is `UntrustedCode`."""
        raise NotImplementedError


class Rescore(ApartJob[Evidence]):
    """Compute the evidence again from the target, whose records the parent sends."""

    task: Literal["evidence"] = "evidence"
    design: DesignText | None = None
    """The sampling design of a correction, whose evidence is asked for."""

    def begin(self, bench: Bench, source: IO[bytes]) -> Work:
        """Read the records, under the design's own column where there is one."""
        registry, sealed = bench.registry, bench.sealed
        if self.design is not None:
            registry = corrected_registry(registry, self.design, bench.journal)
        targets = {
            member.name: receive_target(member, sealed[member.name], source)
            for member in registry.declaration.members
        }
        # The list of types is the declaration's own here: that is what was asked for.
        opener = Opener(bench.place, Home(Path.home()), targets=targets)
        return Work(bench.needs(), lambda: opener.rescore(bench.journal, registry).to_dict())

    def read(self, answer: object) -> Evidence:
        """Return the evidence."""
        return Evidence.of(answer, "the evidence that was computed again")


class Risks(ApartJob[dict[str, float]]):
    """Compute the validation risks of a member's source."""

    task: Literal["risks"] = "risks"
    member: str

    def run(self, bench: Bench) -> object:
        """Load the registered model, of which the declaration may name the types."""
        return source_risks(
            bench.development(self.member), bench.registry.members[self.member], None
        )

    def read(self, answer: object) -> dict[str, float]:
        """Return the risks by loss."""
        return _said(TypeAdapter(dict[str, float]), answer, f"the risks of {self.member}")


class References(ApartJob[dict[str, dict[str, float]]]):
    """Compute the losses of a member's reference policies."""

    task: Literal["references"] = "references"
    member: str

    def run(self, bench: Bench) -> object:
        """Ask the policies on the validation part."""
        development = bench.development(self.member)
        return reference_policies(development, loss_measures(development.member))

    def read(self, answer: object) -> dict[str, dict[str, float]]:
        """Return the losses by policy."""
        kind = TypeAdapter(dict[str, dict[str, float]])
        return _said(kind, answer, f"the reference policies of {self.member}")


class Describe(ApartJob[SelfDescription]):
    """Ask a generator that is not ours to describe itself."""

    task: Literal["describe"] = "describe"
    generator: str
    options: dict[str, JsonValue]

    def run(self, bench: Bench) -> object:
        """Load the generator and ask it."""
        made = load_generator(self.generator, self.options)
        return Described.by(self.generator, made).registered()

    def read(self, answer: object) -> SelfDescription:
        """Return what it says of itself."""
        return _said(TypeAdapter(SelfDescription), answer, f"{self.generator}, describing itself")


class Redraw(ApartJob[MadeAgain | NotAgain]):
    """Draw one registered seed again."""

    task: Literal["redraw"] = "redraw"
    hides: ClassVar[tuple[str, ...]] = STORED
    member: str
    mechanism: str
    seed: int
    data: tuple[str, ...]
    """Where delivered files are."""

    def begin(self, bench: Bench, source: IO[bytes]) -> Work:
        """Find the mechanism as whoever drew it first had it."""
        roots = (*(Path(path) for path in self.data), Path.home())
        place = replace(bench.place, data=DataFolders(roots))
        job = next(
            task.job
            for task in tasks(place, bench.registry, bench.journal)
            if (task.member, task.mechanism) == (self.member, self.mechanism)
        )
        # What the folder registered to be allowed is its author's wish, not the verifier's.
        wanted = job.needs()
        forbidden = (*bench.forbidden, *wanted.forbidden)
        # A private fit that was kept is read and never made: that would cost epsilon again.
        kept = (path for kept_folder in wanted.keeps for path in kept_files(kept_folder))
        reads = (*wanted.reads, *kept)
        needs = replace(wanted, forbidden=forbidden, reads=reads, allow=(), keeps=())
        # Code of another version may well give the same release: that is what is asked here.
        again = job.model_copy(update={"registered": None, "learner": None})
        return Work(needs, partial(self._drawn, again))

    def _drawn(self, job: DrawJob) -> object:
        worker = Worker(job)
        try:
            made, table = worker.draw(Seed(self.seed))
        except MemoryError:  # here, and not what happened then
            raise
        except Exception as error:  # of a generator: a failed draw, as it was then
            return _failure(error)
        return {
            **made.model_dump(),
            "prepared_at_random": worker.prepared.prepared_at_random,
            "table": base64.b64encode(table).decode(),
        }

    def read(self, answer: object) -> MadeAgain | NotAgain:
        """Return what is said of the seed, with the table."""
        what = f"{self.mechanism}, seed {self.seed}, to be drawn again"
        return said_again(answer, MadeAgain, what, self.seed)


class Refit(ApartJob[FittedAgain | NotAgain]):
    """Fit a member's procedure again on a release, whose bytes the parent sends.

    The generator is not loaded in this child, which could replace the fit by another.
    """

    task: Literal["refit"] = "refit"
    hides: ClassVar[tuple[str, ...]] = STORED
    member: str
    made: Made

    def begin(self, bench: Bench, source: IO[bytes]) -> Work:
        """Read the release."""
        release = take(source)
        development = bench.development(self.member)
        return Work(bench.needs(), lambda: self._fitted(development, release))

    def _fitted(self, development: MemberDevelopment, release: bytes) -> object:
        schema = release_schema(development.member, development.kinds, None)
        job = fit_job(development, schema)
        fitter = Fitter(job, make_learner(job))
        try:
            again = fitter.refit(self.made, release)
        except MemoryError:
            raise
        except Exception as error:  # of a procedure: a failed draw, as it was then
            return _failure(error)
        return {**again.said.model_dump(), "model": base64.b64encode(again.model).decode()}

    def read(self, answer: object) -> FittedAgain | NotAgain:
        """Return the draw's record, with the model."""
        seed = self.made.seed
        return said_again(
            answer, FittedAgain, f"{self.member}, seed {seed}, to be fitted again", seed
        )


class RefitSource(ApartJob[SourceAgain | NotAgain]):
    """Fit a member's procedure again on the training part."""

    task: Literal["source"] = "source"
    # The registry holds the choices that are expected; the child reads it before this is hidden.
    hides: ClassVar[tuple[str, ...]] = (*STORED, "registry")
    member: str

    def run(self, bench: Bench) -> object:
        """Fit it, with the seed of the declaration."""
        try:
            fitted = fit_training(bench.development(self.member))
        except Exception as error:  # of a procedure, in whose code anything can go wrong
            return _failure(error)
        assert fitted is not None  # members without a procedure have no such job
        model = base64.b64encode(model_bytes(fitted.estimator)).decode()
        return {"status": "fitted", **asdict(FitChoices.around(fitted)), "model": model}

    def read(self, answer: object) -> SourceAgain | NotAgain:
        """Return the choices, with the model."""
        return said_again(answer, SourceAgain, f"the source of {self.member}, to be fitted again")


AnyApartJob = Rescore | Risks | References | Describe | Redraw | Refit | RefitSource
_JOBS: TypeAdapter[AnyApartJob] = TypeAdapter(Annotated[AnyApartJob, Field(discriminator="task")])


class _Where(BaseModel):
    """Which folder a job is about, and what the code may not see of this machine."""

    folder: str
    forbidden: tuple[str, ...]


def _failure(error: Exception) -> dict[str, str]:
    return {"status": "failed", "error": f"{type(error).__name__}: {error}"}


def _said(kind: TypeAdapter[Answered], answer: object, what: str) -> Answered:
    """Return an answer of a type; another one says nothing about the record."""
    try:
        return kind.validate_python(answer)
    except ValidationError:
        raise UntrustedCode(f"{what}: it answered nothing that could be compared") from None


def _do_job(source: IO[bytes]) -> bytes:
    """Do one job, in which the named code runs."""
    where = _Where.model_validate_json(source.readline())
    job = _JOBS.validate_json(source.readline())
    try:
        bench = Bench(AuditFolder(Path(where.folder)), where.forbidden)
        work = job.begin(bench, source)
        confine(work.needs, str(Path.home()))  # from here on other code than ours may be loaded
        content = json.dumps({"answer": work.run()})
    except Exception as error:  # whatever named code raises is told, and decides nothing
        line = traceback.extract_tb(error.__traceback__)[-1]
        text = f"{type(error).__name__}: {error} ({Path(line.filename).name}, {line.lineno})"
        # The words are the code's: of any length, and with signs that no encoding has.
        said = text[:2000].encode(errors="replace").decode()
        content = json.dumps({"error": said, "broken": isinstance(error, SealError)})
    return len(content).to_bytes(LENGTH, "big") + content.encode()


if __name__ == "__main__":
    answer_once(_do_job)
