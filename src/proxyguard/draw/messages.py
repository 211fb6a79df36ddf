"""What drawing processes answer to a job.

An answer is a message of a stated length (`send`, `receive`) that holds records, each with the
bytes of a release and of a model (`packed`, `unpacked`).

The code of a generator runs in the process that answers, and can write there whatever it
likes: of its releases it may say anything, of seeds that nobody asked for nothing. So nothing is
taken from an answer that is not a record of the kind that was asked for.

Why a draw gave no release (`failure`) is said in words: what its code raised, where, and what it
was refused.
"""

from __future__ import annotations

import base64
import json
import os
import re
import traceback
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import IO, Annotated, Literal, NamedTuple, TypeVar

from pydantic import BeforeValidator, Field, NonNegativeInt, ValidationError

from proxyguard.documents.document import NumberText
from proxyguard.documents.registry import ReleaseFile
from proxyguard.documents.releases import is_guard
from proxyguard.draw.job import DrawJob, Job, Message
from proxyguard.draw.protocol import FACT, FACTS, STAGES, coin_bits, members_in
from proxyguard.errors import DrawError, ProxyGuardError, RegistryError, UntrustedCode

# Bytes of one message, the releases and models of one batch.
MOST = 1 << 34
# Characters of what a draw says in words; a report prints them.
WORDS = 2000
# Bytes before a message that say how long it is.
LENGTH = 8
_STEP = 1 << 20


def in_words(text: str, most: int = WORDS) -> str:
    """Return text that can be sealed and printed: Unicode, and no longer than ``most``.

    A lone half of a sign (a file's name that is no UTF-8, a text made by hand) is written by
    number.
    """
    # Cut before anything else: the words are a generator's, and may be a gigabyte.
    plain = text[:most].encode("utf-8", "backslashreplace").decode()
    if len(text) <= most and len(plain) <= most:
        return plain
    note = f"... (cut, of {len(text):,} characters)"
    return plain[: most - len(note)] + note


def _plain_words(text: object) -> object:
    return in_words(text) if isinstance(text, str) else text


def _short_words(text: object) -> object:
    return in_words(text, FACT) if isinstance(text, str) else text


Words = Annotated[str, BeforeValidator(_plain_words)]
# Of a draw and of the procedure after it.
Stages = Annotated[list[Words], Field(max_length=2 * STAGES)]
Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
# The files that a draw read, with the digest of their bytes; nothing where reading failed.
ReadFiles = dict[Words, Sha256 | None]


# Which rows of the source a draw was trained on, one bit a row, in hexadecimal digits.
Bits = Annotated[str, Field(pattern=r"^([0-9a-f]{2})+$")]

Fact = Annotated[str, BeforeValidator(_short_words), Field(min_length=1)]
# How a draw was computed, in its generator's words: what may change its bits.
Computed = Annotated[dict[Fact, Fact], Field(max_length=FACTS)]


class Held(Message):
    """What holds a job, told before any code of its generator runs."""

    status: Literal["confined"] = "confined"
    guard: str
    read: list[str]


class Prepared(Message):
    """What is true of all draws of a job."""

    prepared_at_random: bool
    prepared_from: dict[Words, Sha256] = Field(default_factory=dict)


class Ready(Message):
    """The generator is prepared."""

    status: Literal["ready"] = "ready"
    prepared: Prepared


class DeliveredFile(Message):
    """A file that a draw reads, as it is now: what a generator that is asked says of it.

    Attributes
    ----------
    name
        Its name, with the folder that the declaration names.
    seed
        The draw that it is; nothing for one that stands beside the draws.
    sha256
        Digest of its bytes; nothing where it could not be read.
    content
        Digest of its records; nothing where it is no release, or that was not asked.
    problem
        Why it is no release.
    """

    name: Words
    seed: int | None
    sha256: Sha256 | None
    content: Sha256 | None = None
    problem: Words | None = None

    def registered(self) -> ReleaseFile:
        """Return it as it is registered."""
        return ReleaseFile(**dict(self))


class Told(Message):
    """What a generator says of itself, asked where it does not draw."""

    status: Literal["told"] = "told"
    describe: dict[str, object]
    batch: Annotated[int, Field(ge=1)]
    code: list[Words]
    files: list[DeliveredFile] | None


class Loaded(Message):
    """Which of the names that were to be loaded could not be, and why."""

    status: Literal["loaded"] = "loaded"
    problems: list[Words]


class Unready(Message):
    """Why no draw can be made."""

    status: Literal["unready"] = "unready"
    error: Words


class Killed(Message):
    """Somebody, or the kernel for want of memory, ended the process of a whole batch."""

    status: Literal["killed"] = "killed"
    signal: int


class Refused(Message):
    """Why the process that fits takes nothing of what the generator's process answered."""

    status: Literal["refused"] = "refused"
    error: Words


class _OfTable(Message):
    """What is said of a seed that gave a table.

    Attributes
    ----------
    seed
        The registered seed.
    stages
        What took the seed: in the draw, and once something is fitted in the fit.
    files
        The files that the draw says it read, with the digests of their bytes.
    members
        Which rows of the source the draw says it was trained on; nothing where all are.
    computed
        How the draw says it was computed: a device, a version, the draws of its batch.
    unlabelled
        How many rows were left out, of the release or of the fit, because they lack the outcome.
    """

    seed: int
    stages: Stages
    files: ReadFiles = Field(default_factory=dict)
    members: Bits | None = None
    computed: Computed = Field(default_factory=dict)
    unlabelled: NonNegativeInt = 0


class Made(_OfTable):
    """A table as a generator's process gives it, and what it says of the seed."""

    status: Literal["made"] = "made"


class FittedRelease(_OfTable):
    """A release, and what was chosen in fitting the procedure on it.

    Attributes
    ----------
    rows, content
        How many records the release has, and the digest of them.
    selected
        Which pipeline was chosen; nothing where nothing is fitted.
    threshold, temperature
        What was chosen with it, as text of which every digit counts.
    predictions
        Whether the release holds predictions that were made elsewhere.
    """

    status: Literal["drawn"] = "drawn"
    rows: Annotated[int, Field(gt=0)]
    content: Sha256
    selected: str | None
    threshold: str | None
    temperature: str | None
    predictions: bool = False

    @property
    def member_bits(self) -> bytes:
        """The bits that name its members; none where all rows are."""
        return bytes.fromhex(self.members or "")


class Failed(Message):
    """A draw that gave no release.

    Attributes
    ----------
    seed
        The registered seed.
    status
        Whether it failed by itself, or its time was up.
    error
        Why, in words that reach the report.
    files
        The files that it read before it failed; nothing for one that could not be read.
    computed
        How it was computed, where it came so far as to say it.
    """

    seed: int
    status: Literal["failed", "timeout"] = "failed"
    error: Words
    files: ReadFiles = Field(default_factory=dict)
    computed: Computed = Field(default_factory=dict)


class Answer(NamedTuple):
    """What is said of one draw, with the bytes of its release and of its model."""

    said: FittedRelease | Failed
    release: bytes = b""
    model: bytes = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawResult:
    """One answer of the pool, with what is true of all draws of its job.

    Attributes
    ----------
    said
        What the process that fits says of the draw.
    release, model
        The bytes of the release and of the fitted procedure; empty where there is none.
    guard
        What held the generator's process, as it was told before any of its code ran.
    prepared
        What the generator did once, before any draw.
    """

    said: FittedRelease | Failed
    release: bytes
    model: bytes
    guard: str
    prepared: Prepared


def _decoded(value: object) -> object:
    return base64.b64decode(value, validate=True) if isinstance(value, str) else value


Encoded = Annotated[bytes, BeforeValidator(_decoded), Field(min_length=1)]


class MadeAgain(Made):
    """A registered seed that a verifier had drawn again, with its table."""

    prepared_at_random: bool
    table: Encoded


class FittedAgain(FittedRelease):
    """A procedure that a verifier had fitted again on a release, with its model."""

    selected: str
    threshold: NumberText | None
    temperature: NumberText | None
    model: Encoded


class SourceAgain(Message):
    """A procedure that a verifier had fitted again on the training part, with its model."""

    status: Literal["fitted"]
    selected: str
    threshold: NumberText | None
    temperature: NumberText | None
    model: Encoded


class NotAgain(Message):
    """Why something was not made again."""

    status: Literal["failed"]
    error: Words


Repeated = TypeVar("Repeated", MadeAgain, FittedAgain, SourceAgain)


def said_again(
    value: object, kind: type[Repeated], what: str, seed: int | None = None
) -> Repeated | NotAgain:
    """Return what a child says that made something again, of this seed where there is one.

    Code that a folder names ran in the child: what is not whole confirms nothing, or a model
    that was left out of the answer would be no other model.

    Parameters
    ----------
    value
        What the child wrote, read as JSON.
    kind
        What it was asked to make again.
    what
        The words that an error begins with.
    seed
        The seed that it was asked for; nothing for the source.

    Raises
    ------
    UntrustedCode
        If it is no whole answer, or one for another seed.
    """
    failed = isinstance(value, dict) and value.get("status") == "failed"
    try:
        said = (NotAgain if failed else kind).model_validate(value)
    except ValidationError as error:
        raise UntrustedCode(
            f"{what}: it answered nothing that could be compared (wrong or missing: "
            f"{_wrong(error)})",
        ) from None
    if isinstance(said, MadeAgain | FittedAgain) and said.seed != seed:
        raise UntrustedCode(f"{what}: asked for seed {seed}, it answered {said.seed}")
    return said


Said = Held | Ready | Unready | Killed | Refused | Made | FittedRelease | Failed | Told | Loaded
_SAID: dict[str, type[Said]] = {
    "confined": Held, "ready": Ready, "unready": Unready, "killed": Killed, "refused": Refused,
    "made": Made, "drawn": FittedRelease, "failed": Failed, "timeout": Failed, "told": Told,
    "loaded": Loaded,
}  # fmt: skip


# Nothing here is pickled: to read a pickle is to run what whoever wrote it likes.
def packed(said: Said, release: bytes = b"", model: bytes = b"") -> bytes:
    """Return one record with its release and its model."""
    # No warnings: what `sources.answer` made without validation is judged by whoever reads it.
    head = {**said.model_dump(warnings=False), "sizes": (len(release), len(model))}
    return json.dumps(head).encode() + b"\n" + release + model


def send(out: IO[bytes], content: bytes) -> None:
    """Write one message."""
    out.write(len(content).to_bytes(LENGTH, "big"))
    out.write(content)
    out.flush()


def receive(source: IO[bytes], most: int = MOST) -> bytes | None:
    """Read one message; nothing where whoever should write it has ended.

    Raises
    ------
    DrawError
        If it is longer than ``most`` bytes.
    """
    # The length comes first and is bounded: a generator that writes without end fills no memory.
    head = _exactly(source, LENGTH)
    if head is None:
        return None
    size = int.from_bytes(head, "big")
    if size > most:
        raise _strange(f"a message of {size} bytes, where {most} are allowed")
    return _exactly(source, size)


def _exactly(source: IO[bytes], size: int) -> bytes | None:
    """Read so many bytes; nothing where there are fewer."""
    content = bytearray()
    while len(content) < size:
        # Step by step: a length that somebody states must not reserve that much memory.
        part = source.read(min(size - len(content), _STEP))
        if not part:
            return None
        content += part
    return bytes(content)


def unpacked(content: bytes) -> Iterator[tuple[Said, bytes, bytes]]:
    """Yield the records of one message, each with its release and its model."""
    start = 0
    while start < len(content):
        end = content.find(b"\n", start)
        if end < 0:
            raise _strange("a record without an end")
        said, sizes = _record(content[start:end])
        first = end + 1 + sizes[0]
        start = first + sizes[1]
        # A slice past the end is short and no error: a release that was cut off would pass for a
        # whole one.
        if start > len(content):
            raise _strange(f"{sizes[0]} and {sizes[1]} bytes, which did not come")
        yield said, content[end + 1 : first], content[first:start]


def _record(line: bytes) -> tuple[Said, tuple[int, int]]:
    try:
        fields = json.loads(line)
    # A line of a hundred thousand open brackets is easily written; json answers it with a
    # RecursionError.
    except (ValueError, RecursionError):
        raise _strange(f"{line[:80]!r}, which is no record") from None
    if not isinstance(fields, dict):
        raise _strange(f"{line[:80]!r}, which is no record")
    sizes = fields.pop("sizes", None)
    # By type and not isinstance: to Python true is an int, and would be a size of 1.
    if not isinstance(sizes, list) or [type(size) for size in sizes] != [int, int]:
        raise _strange("a record without the sizes of its release and its model")
    if min(sizes) < 0:
        raise _strange(f"the sizes {sizes}")
    status = fields.get("status")
    kind = _SAID.get(status) if isinstance(status, str) else None
    if kind is None:
        raise _strange(f"the status {str(status)[:80]!r}")
    try:
        said = kind.model_validate(fields)
    except ValidationError as error:
        raise _strange(f"a record of status {status} with a wrong {_wrong(error)}") from None
    return said, (sizes[0], sizes[1])


def _wrong(error: ValidationError) -> str:
    """Return the fields that an answer has not, or has otherwise."""
    # Names of fields that nobody asked for are the generator's words: they are cut as those are.
    where = {".".join(str(key) for key in problem["loc"])[:80] for problem in error.errors()}
    return ", ".join(sorted(where))[:WORDS]


Wanted = TypeVar("Wanted", Held, Ready, Told, Loaded)


def readiness(
    content: bytes, job: Job, kind: type[Wanted],
    refusal: type[DrawError] | type[RegistryError] = DrawError,
) -> Wanted:  # fmt: skip
    """Return the only record of a message, which is of this kind.

    Where the record says why there is none of this kind, a ``refusal`` is raised.
    """
    records = [said for said, _, _ in unpacked(content)]
    if len(records) == 1 and isinstance(records[0], Unready):
        raise refusal(f"{job.name}: {records[0].error}")
    if len(records) != 1 or not isinstance(records[0], kind):
        raise _strange(f"something else than that it is {kind.__name__.lower()}", job)
    said = records[0]
    if isinstance(said, Held) and not is_guard(said.guard):
        raise _strange(f"that it is held by {said.guard[:80]!r}", job)
    return said


def made_answers(
    content: bytes, job: Job, seeds: Sequence[int]
) -> Iterator[tuple[Made | Failed | Killed, bytes]]:
    """Yield what a generator's process says of each of these seeds, and the table it gave."""
    for said, table, model in _answers(content, job, seeds, Made):
        if model:
            raise _strange("a model, which it is not asked for", job)
        yield said, table


def drawn_answers(content: bytes, job: DrawJob, seeds: Sequence[int]) -> Iterator[Answer | Killed]:
    """Yield one answer for each of these seeds, or that their process was killed."""
    for said, release, model in _answers(content, job, seeds, FittedRelease):
        if isinstance(said, Killed):
            yield said
            return
        if isinstance(said, FittedRelease):
            _check_drawn(said, job)
        yield Answer(said, release, model)


Good = TypeVar("Good", Made, FittedRelease)


def _answers(
    content: bytes, job: Job, seeds: Sequence[int], kind: type[Good]
) -> Iterator[tuple[Good | Failed | Killed, bytes, bytes]]:
    """Yield one record of this kind, or a failure, for each seed, or that they were killed."""
    waiting = set(seeds)
    for said, release, model in unpacked(content):
        if isinstance(said, Refused):
            raise DrawError(said.error)
        # A worker says this instead of answers. After one, it is somebody else who says it.
        if isinstance(said, Killed) and waiting == set(seeds):
            yield said, b"", b""
            return
        if not isinstance(said, kind | Failed):
            raise _strange("something else than a draw", job)
        # A second answer for one seed ends here too: of two releases somebody could choose.
        if said.seed not in waiting:
            raise _strange(f"a draw of seed {said.seed}, which was not to be drawn", job)
        waiting.remove(said.seed)
        if isinstance(said, Failed) and (release or model):
            raise _strange(f"a release of seed {said.seed}, which failed", job)
        yield said, release, model
    # A failed draw counts as one. A seed that is left out would be a draw that vanished.
    if waiting:
        raise _strange(f"nothing of {len(waiting)} seeds, the first of them {min(waiting)}", job)


def _check_drawn(said: FittedRelease, job: DrawJob) -> None:
    """Refuse predictions where records are to be drawn, and the reverse; and strange members."""
    if said.predictions != job.predictions:
        raise _strange(
            f"{'predictions' if said.predictions else 'records'} of seed {said.seed}, where the "
            "other are registered",
            job,
        )
    # The file's digest is all that ties predictions to what was registered for this seed.
    if said.predictions and len(said.files) != 1:
        raise _strange(f"predictions of seed {said.seed} from no file, or from several", job)
    if said.members is not None:
        try:
            members_in(said.member_bits, job.source_rows)
        except DrawError as error:
            raise _strange(f"of seed {said.seed} that {error}", job) from None
    # Tossed again here, where no code of the generator runs.
    if job.coins and said.member_bits != coin_bits(said.seed, job.source_rows):
        raise _strange(f"other members of seed {said.seed} than its coins give", job)


def _strange(what: str, job: Job | None = None) -> DrawError:
    name = "" if job is None else f"{job.name}: "
    return DrawError(
        f"{name}a drawing process answered {what}; an honest generator leaves the answers to the "
        "process that it runs in. Nothing of this answer is kept: read the generator's code, mend "
        "it and draw again"
    )


def failure(
    seed: int, files: ReadFiles, error: BaseException, computed: Mapping[str, str] | None = None
) -> Failed:
    """Return the record of a draw that gave no release; of a file, which one it was."""
    words = error_words(error)
    for name in files:
        if Path(name).name not in words:
            words = f"{name}: {words}"
    return Failed(seed=seed, error=words, files=dict(files), computed=dict(computed or {}))


def error_words(error: BaseException) -> str:
    """Return one line about an error; a user's own also says where it arose.

    It reaches the report, which is no place for the folders of whoever drew.
    """
    if isinstance(error, ProxyGuardError):
        return in_words(_without_folders(str(error)))
    # Shorter than what is taken, which has room for the place and the advice after it.
    words = in_words(_without_folders(f"{type(error).__name__}: {_said_by(error)}"), WORDS // 2)
    told = f"{words}{where(error)}"
    if isinstance(error, SystemExit):
        told = f"it called sys.exit: {told}; a generator returns a table or raises"
    refused = _refused_path(error)
    if refused is not None:
        told += (
            "; a draw may not read what is neither code nor development data, nor write outside "
            f"its temporary folder. {refused} was refused: if it is a device, an interpreter or a "
            f"model that the draws need, register it with allow = [{json.dumps(refused)}] in the "
            "mechanism's table"
        )
    return told


def _said_by(error: BaseException) -> str:
    """Return an error's own words; whoever raised it also made what turns it into text."""
    try:
        return str(error)
    except BaseException as again:
        return f"(no words: its __str__ raised {type(again).__name__})"


def where(error: BaseException) -> str:
    """Say where an error arose, without a look at the source: the name may be that of a FIFO."""
    places = [(frame.f_code.co_filename, line) for frame, line in _frames(error)]
    if not places:
        return ""
    file, line = places[-1]
    return f" (in {in_words(Path(file).name, 200)}, line {line})"


def _frames(error: BaseException) -> Iterator[tuple[FrameType, int]]:
    return traceback.walk_tb(error.__traceback__)


SHARED_MEMORY = "/dev/shm"
# A chain of causes is made by the generator's code, and may lead back to itself.
_CAUSES = 10
# Modules of multiprocessing whose locks and memory lie in /dev/shm, which their errors hide.
_SHARED = ("synchronize.py", "shared_memory.py", "heap.py")


def _refused_path(error: BaseException) -> str | None:
    """Return what a draw was refused, also where its code wrapped the refusal in another error.

    A path in the user's home is written with a tilde, which ``allow`` reads: the words reach the
    report.
    """
    cause: BaseException | None = error
    for _ in range(_CAUSES):
        if cause is None:
            break
        if _in_shared_memory(cause):
            return SHARED_MEMORY
        if isinstance(cause, PermissionError):
            if not isinstance(cause.filename, str):
                return "PATH"
            path, home = os.path.abspath(cause.filename), os.path.expanduser("~")
            return f"~{path[len(home) :]}" if path.startswith(home + os.sep) else path
        cause = cause.__cause__ or cause.__context__
    return None


def _in_shared_memory(error: BaseException) -> bool:
    """Return whether it was shared memory that was refused, as its users in Python say it."""
    if not isinstance(error, PermissionError):
        words = _said_by(error)
        return "shared memory" in words and "Permission denied" in words
    files = [Path(frame.f_code.co_filename) for frame, _ in _frames(error)]
    return any(file.parent.name == "multiprocessing" and file.name in _SHARED for file in files)


_QUOTED = re.compile(r"""(['"])/(?:[^'"/]+/)*([^'"/]+)/?\1""")
_BARE = re.compile(r"""(?<![\w.:/'"])/(?:[^\s'":,;()/]+/)+([^\s'":,;()/]+)""")


def _without_folders(text: str) -> str:
    """Return text in which every absolute path is its last part alone."""
    return _BARE.sub(r"\1", _QUOTED.sub(r"\1\2\1", text))
