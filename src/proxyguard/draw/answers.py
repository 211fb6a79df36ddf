"""What a drawing process says, and how it is read where it is not believed.

The code of a generator runs in the process that answers, and can write there whatever it
likes: of its releases it may say anything, of seeds that nobody asked for nothing. So each
answer to a request is one message of a stated length, and nothing is taken from it that is not
a record of the kind that was asked for.
"""

from __future__ import annotations

import base64
import json
import os
import re
import traceback
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import FrameType
from typing import IO, Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from proxyguard.documents.document import NumberText
from proxyguard.draw.confine import is_guard
from proxyguard.draw.protocol import STAGES
from proxyguard.errors import DrawError, ProxyGuardError, RegistryError, UntrustedCode

Answer = tuple[dict[str, Any], bytes, bytes]
MOST = 1 << 34
"""Bytes of one message, the releases and models of one batch."""
WORDS = 2000
"""Characters of what a draw says in words; a report prints them."""
LENGTH = 8
"""Bytes before a message that say how long it is."""
_STEP = 1 << 20


def in_words(text: str, most: int = WORDS) -> str:
    """Return text that can be sealed and printed: Unicode, and no longer than ``most``.

    A lone half of a sign (a file's name that is no UTF-8, a text made by hand) is written by
    number.
    """
    plain = text[:most].encode("utf-8", "backslashreplace").decode()
    if len(text) <= most and len(plain) <= most:
        return plain
    note = f"... (cut, of {len(text):,} characters)"
    return plain[: most - len(note)] + note


def explain(error: BaseException) -> str:
    """Return one line about an error; a user's own also says where it arose.

    It reaches the report, which is no place for the folders of whoever drew.
    """
    if isinstance(error, ProxyGuardError):
        return in_words(_without_folders(str(error)))
    # Shorter than what is taken, which has room for the place and the advice after it.
    words = in_words(_without_folders(f"{type(error).__name__}: {_said_by(error)}"), WORDS // 2)
    told = f"{words}{_where(error)}"
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


def _where(error: BaseException) -> str:
    """Say where an error arose, without a look at the source: the name may be that of a FIFO."""
    places = [(frame.f_code.co_filename, line) for frame, line in _frames(error)]
    if not places:
        return ""
    file, line = places[-1]
    return f" (in {in_words(Path(file).name, 200)}, line {line})"


def _frames(error: BaseException) -> Iterator[tuple[FrameType, int]]:
    return traceback.walk_tb(error.__traceback__)


SHARED_MEMORY = "/dev/shm"
_CAUSES = 10
_SHARED = ("synchronize.py", "shared_memory.py", "heap.py")
"""Modules of multiprocessing whose locks and memory lie in /dev/shm, which their errors hide."""


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


Words = Annotated[str, BeforeValidator(lambda v: in_words(v) if isinstance(v, str) else v)]


Stages = Annotated[list[Words], Field(max_length=2 * STAGES)]
"""Of a draw and of the procedure after it."""


Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


class _Said(BaseModel):
    """A record with these keys, of these types, and no others."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class Confined(_Said):
    """What holds a job, told before any code of its generator runs."""

    status: Literal["confined"]
    guard: str
    read: list[str]


class Prepared(_Said):
    """What is true of all draws of a job."""

    prepared_at_random: bool
    prepared_from: dict[Words, Sha256] = Field(default_factory=dict)


class Ready(_Said):
    """The generator is prepared."""

    status: Literal["ready"]
    prepared: Prepared


class Surveyed(_Said):
    """A file that a generator says its draws read."""

    name: Words
    seed: int | None
    sha256: Sha256 | None
    content: Sha256 | None = None
    problem: Words | None = None


class Told(_Said):
    """What a generator says of itself, asked where it does not draw."""

    status: Literal["told"]
    describe: dict[str, Any]
    batch: Annotated[int, Field(ge=1)]
    code: list[Words]
    files: list[Surveyed] | None


class Loaded(_Said):
    """Which of the names that were to be loaded could not be, and why."""

    status: Literal["loaded"]
    problems: list[Words]


class Unready(_Said):
    """Why no draw can be made."""

    status: Literal["unready"]
    error: Words


class Killed(_Said):
    """Somebody, or the kernel for want of memory, ended the process of a whole batch."""

    status: Literal["killed"]
    signal: int


class Refused(_Said):
    """Why the process that fits takes nothing of what the generator's process answered."""

    status: Literal["refused"]
    error: Words


class Made(_Said):
    """A table as a generator's process gives it, and what it says of the seed."""

    seed: int
    status: Literal["made"]
    stages: Stages
    files: dict[Words, Sha256 | None] = Field(default_factory=dict)


class Drawn(_Said):
    """A release, and what was chosen in fitting the procedure on it."""

    seed: int
    status: Literal["drawn"]
    rows: Annotated[int, Field(gt=0)]
    content: Sha256
    stages: Stages
    files: dict[Words, Sha256 | None] = Field(default_factory=dict)
    selected: str | None
    threshold: str | None
    temperature: str | None
    predictions: bool = False


class Failed(_Said):
    """A draw that gave no release."""

    seed: int
    status: Literal["failed", "timeout"]
    error: Words
    files: dict[Words, Sha256 | None] = Field(default_factory=dict)


def _decoded(value: object) -> object:
    return base64.b64decode(value, validate=True) if isinstance(value, str) else value


Encoded = Annotated[bytes, BeforeValidator(_decoded), Field(min_length=1)]


class MadeAgain(Made):
    """A registered seed that a verifier had drawn again, with its table."""

    prepared_at_random: bool
    table: Encoded


class FittedAgain(Drawn):
    """A procedure that a verifier had fitted again on a release, with its model."""

    selected: str
    threshold: NumberText | None
    temperature: NumberText | None
    model: Encoded


class SourceAgain(_Said):
    """A procedure that a verifier had fitted again on the training part, with its model."""

    status: Literal["fitted"]
    selected: str
    threshold: NumberText | None
    temperature: NumberText | None
    model: Encoded


class NotAgain(_Said):
    """Why something was not made again."""

    status: Literal["failed"]
    error: Words


Again = TypeVar("Again", MadeAgain, FittedAgain, SourceAgain)


def said_again(
    value: object, kind: type[Again], what: str, seed: int | None = None
) -> Again | NotAgain:
    """Return what a child says that made something again, of this seed where there is one.

    Code that a folder names ran in the child: what is not whole confirms nothing, or a model
    that was left out of the answer would be no other model.
    """
    failed = isinstance(value, dict) and value.get("status") == "failed"
    try:
        said = (NotAgain if failed else kind).model_validate(value)
    except ValidationError as error:
        parts = sorted({".".join(str(key) for key in e["loc"])[:80] for e in error.errors()})
        raise UntrustedCode(
            f"{what}: it answered nothing that could be compared (wrong or missing: "
            f"{', '.join(parts)[:WORDS]})",
            names=(),
        ) from None
    if isinstance(said, MadeAgain | FittedAgain) and said.seed != seed:
        raise UntrustedCode(f"{what}: asked for seed {seed}, it answered {said.seed}", names=())
    return said


_SAID: dict[str, type[_Said]] = {
    "confined": Confined, "ready": Ready, "unready": Unready, "killed": Killed,
    "refused": Refused, "made": Made, "drawn": Drawn, "failed": Failed, "timeout": Failed,
    "told": Told, "loaded": Loaded,
}  # fmt: skip


def packed(record: Mapping[str, Any], release: bytes = b"", model: bytes = b"") -> bytes:
    """Return one record with its release and its model."""
    head = json.dumps({**record, "sizes": [len(release), len(model)]})
    return head.encode() + b"\n" + release + model


def send(out: IO[bytes], content: bytes) -> None:
    """Write one message."""
    out.write(len(content).to_bytes(LENGTH, "big"))
    out.write(content)
    out.flush()


def receive(source: IO[bytes], most: int = MOST) -> bytes | None:
    """Read one message; nothing where whoever should write it has ended."""
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
        part = source.read(min(size - len(content), _STEP))
        if not part:
            return None
        content += part
    return bytes(content)


def unpacked(content: bytes) -> Iterator[tuple[_Said, bytes, bytes]]:
    """Yield the records of one message, each with its release and its model."""
    start = 0
    while start < len(content):
        end = content.find(b"\n", start)
        if end < 0:
            raise _strange("a record without an end")
        said, sizes = _record(content[start:end])
        first = end + 1 + sizes[0]
        start = first + sizes[1]
        if start > len(content):
            raise _strange(f"{sizes[0]} and {sizes[1]} bytes, which did not come")
        yield said, content[end + 1 : first], content[first:start]


def _record(line: bytes) -> tuple[_Said, tuple[int, int]]:
    try:
        fields = json.loads(line)
    except (ValueError, RecursionError):
        raise _strange(f"{line[:80]!r}, which is no record") from None
    if not isinstance(fields, dict):
        raise _strange(f"{line[:80]!r}, which is no record")
    sizes = fields.pop("sizes", None)
    if not isinstance(sizes, list) or [type(size) for size in sizes] != [int, int]:
        raise _strange("a record without the sizes of its release and its model")
    if min(sizes) < 0:
        raise _strange(f"the sizes {sizes}")
    status = fields.get("status")
    kind = _SAID.get(status) if isinstance(status, str) else None
    if kind is None:
        raise _strange(f"the status {str(status)[:80]!r}")
    try:
        return kind.model_validate(fields), (sizes[0], sizes[1])
    except ValidationError as error:
        parts = sorted({".".join(str(part) for part in one["loc"])[:80] for one in error.errors()})
        raise _strange(f"a record of status {status} with a wrong {', '.join(parts)}") from None


def readiness(
    content: bytes, job: Mapping[str, Any], kind: type[_Said],
    refusal: type[DrawError] | type[RegistryError] = DrawError,
) -> Any:  # fmt: skip
    """Return the only record of a message, which is of this kind.

    Where the record says why there is none of this kind, a ``refusal`` is raised.
    """
    records = [said for said, _, _ in unpacked(content)]
    if len(records) == 1 and isinstance(records[0], Unready):
        raise refusal(f"{job['name']}: {records[0].error}")
    if len(records) != 1 or not isinstance(records[0], kind):
        raise _strange(f"something else than that it is {kind.__name__.lower()}", job)
    said = records[0]
    if isinstance(said, Confined) and not is_guard(said.guard):
        raise _strange(f"that it is held by {said.guard[:80]!r}", job)
    return said


def made_answers(
    content: bytes, job: Mapping[str, Any], seeds: Sequence[int]
) -> Iterator[tuple[Made | Failed | Killed, bytes]]:
    """Yield what a generator's process says of each of these seeds, and the table it gave."""
    for said, table, model in _answers(content, job, seeds, Made | Failed):
        if model:
            raise _strange("a model, which it is not asked for", job)
        yield said, table


def drawn_answers(
    content: bytes, job: Mapping[str, Any], seeds: Sequence[int]
) -> Iterator[Answer | Killed]:
    """Yield one answer for each of these seeds, or that their process was killed."""
    for said, release, model in _answers(content, job, seeds, Drawn | Failed):
        if isinstance(said, Killed):
            yield said
            return
        if isinstance(said, Drawn):
            _check_drawn(said, job)
        yield said.model_dump(exclude_unset=True), release, model


def _answers(
    content: bytes, job: Mapping[str, Any], seeds: Sequence[int], kinds: Any
) -> Iterator[tuple[Any, bytes, bytes]]:
    """Yield one record of these kinds for each of these seeds, or that they were killed."""
    waiting = set(seeds)
    for said, release, model in unpacked(content):
        if isinstance(said, Refused):
            raise DrawError(said.error)
        if isinstance(said, Killed) and waiting == set(seeds):
            yield said, b"", b""
            return
        if not isinstance(said, kinds):
            raise _strange("something else than a draw", job)
        if said.seed not in waiting:
            raise _strange(f"a draw of seed {said.seed}, which was not to be drawn", job)
        waiting.remove(said.seed)
        if isinstance(said, Failed) and (release or model):
            raise _strange(f"a release of seed {said.seed}, which failed", job)
        yield said, release, model
    if waiting:
        raise _strange(f"nothing of {len(waiting)} seeds, the first of them {min(waiting)}", job)


def _check_drawn(said: Drawn, job: Mapping[str, Any]) -> None:
    """Refuse predictions where records are to be drawn, and records where predictions are."""
    if said.predictions != bool(job["predictions"]):
        raise _strange(
            f"{'predictions' if said.predictions else 'records'} of seed {said.seed}, where the "
            "other are registered",
            job,
        )
    if said.predictions and len(said.files) != 1:
        raise _strange(f"predictions of seed {said.seed} from no file, or from several", job)


def _strange(what: str, job: Mapping[str, Any] | None = None) -> DrawError:
    name = "" if job is None else f"{job['name']}: "
    return DrawError(
        f"{name}a drawing process answered {what}; an honest generator leaves the answers to the "
        "process that it runs in. Nothing of this answer is kept: read the generator's code, mend "
        "it and draw again"
    )
