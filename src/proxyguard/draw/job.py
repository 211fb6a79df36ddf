"""What drawing processes are asked: jobs and, of each, some seeds, a line of JSON each.

A job says all that its processes need to know, and what they may and may not read. It comes from
the command (`line_of`) and is whole; what is answered to it, which is anybody's word, is in
`messages`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue, TypeAdapter

from proxyguard.documents.registry import Origin, RegisteredProcedure
from proxyguard.draw.catalog import TORCH, code_path, extra_of
from proxyguard.draw.confine import Needs, texts_in
from proxyguard.registry.parts import Procedure
from proxyguard.registry.target import Outcome
from proxyguard.tables.files import Schema


@dataclass(frozen=True, slots=True, kw_only=True)
class Survey:
    """Whose files are looked at; without a schema their digests alone."""

    seeds: tuple[int, ...]
    schema: Schema | None = None


class Message(BaseModel):
    """A record with these keys, of these types, and no others."""

    # Strict, or true would be read as seed 1 and "7" as seed 7: the seed that is compared with what
    # was asked for must be the one that was written.
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class Job(Message):
    """What every job says: whose it is, and what its processes may and may not read.

    Attributes
    ----------
    name
        The mechanism, pilot, stand-in or member that errors name.
    forbidden
        Files and folders that no draw may read: keys, ledger, scores, the target.
    allow
        Patterns that the mechanism registered to be read besides code.
    reads, lists
        Files that may be read, and folders of which the names may be.
    """

    name: str
    forbidden: tuple[str, ...] = ()
    allow: tuple[str, ...] = ()
    reads: tuple[str, ...] = ()
    lists: tuple[str, ...] = ()

    @property
    def what(self) -> str:
        """What code of others it loads, in words."""
        return self.name

    def needs(self) -> Needs:
        """Return what the process of this job's code is held to."""
        return Needs(forbidden=self.forbidden, reads=self.reads, lists=self.lists, allow=self.allow)


class FitJob(Job):
    """How a member's procedure is fitted on a release, whatever made it.

    Attributes
    ----------
    source, validation
        The files of the training part and, where there is one, of the validation part.
    source_rows
        How many rows the training part has, of which a draw may name its members.
    schema_of_releases
        What a release holds.
    procedure, outcome, features
        What is fitted, what it predicts and from which columns; nothing where nothing is.
    learner
        The procedure as it was registered, which is compared with what is loaded.
    """

    source: str
    source_rows: int = 0
    validation: str | None = None
    schema_of_releases: Schema
    procedure: Procedure | None = None
    outcome: Outcome | None = None
    features: tuple[str, ...] = ()
    learner: RegisteredProcedure | None = None

    @property
    def library(self) -> tuple[str, ...]:
        """The pipelines that are fitted, by name or import path."""
        return () if self.procedure is None else self.procedure.library

    @property
    def development(self) -> tuple[str, ...]:
        """The files of the development part."""
        return (self.source,) if self.validation is None else (self.source, self.validation)

    def fit_needs(self) -> Needs:
        """Return what fits are held to: the development part, and the procedure's code.

        Neither the generator's code nor what it reads. A procedure of others may need the
        devices that the mechanism registers.
        """
        return Needs(
            forbidden=self.forbidden, reads=self.development, allow=self.allow, code=self.library
        )


class RegisteredGenerator(Message):
    """What the registry says of a generator, which is compared with what is loaded."""

    describe: dict[str, JsonValue]
    origin: Origin


class DrawJob(FitJob):
    """One mechanism, pilot or stand-in: what is drawn, and how its releases are fitted.

    Attributes
    ----------
    generator, options
        The generator, by name or import path, and what it is made with.
    root
        The folder that the paths in its options start from.
    prepare_seed
        The seed of what is done once, before any draw.
    keeps
        Folders where a preparation is kept that cannot be made again.
    registered
        What the registry says of the generator; nothing of a pilot or a stand-in.
    many
        How many seeds are drawn at once.
    may_ignore_seed
        Whether a draw that leaves its seed alone is a release all the same.
    coins
        Whether a coin for each row decides which of them a draw is prepared on.
    """

    asks: Literal["draw"] = "draw"
    generator: str
    options: dict[str, JsonValue] = Field(default_factory=dict)
    root: str
    prepare_seed: int = 0
    keeps: tuple[str, ...] = ()
    registered: RegisteredGenerator | None = None
    many: int = 1
    may_ignore_seed: bool = False
    coins: bool = False

    @property
    def predictions(self) -> bool:
        """Whether its releases are predictions that were made elsewhere."""
        return self.schema_of_releases.predictions

    @property
    def neural(self) -> bool:
        """Whether it is a generator of ours that trains networks."""
        return extra_of(self.generator) == TORCH

    @property
    def gpu(self) -> bool:
        """Whether its draws may be computed on a GPU, which we then let them reach."""
        return self.neural and self.options.get("device") != "cpu"

    def needs(self) -> Needs:
        """Return what draws are held to."""
        return Needs(
            forbidden=self.forbidden,
            reads=(*self.development, *self.reads),
            lists=self.lists,
            keeps=self.keeps,
            allow=self.allow,
            # Any text among the options may be an import path, as the function of a `callable` is.
            code=(code_path(self.generator), *self.library, *texts_in(self.options)),
            gpu=self.gpu,
        )


class DescribeJob(Job):
    """What a generator is asked about itself; it does not see the development part."""

    asks: Literal["describe"] = "describe"
    generator: str
    options: dict[str, JsonValue]
    root: str
    survey: Survey | None = None

    @property
    def what(self) -> str:
        """The generator."""
        return self.generator

    def needs(self) -> Needs:
        """Return what its process is held to."""
        return Needs(
            forbidden=self.forbidden,
            reads=self.reads,
            lists=self.lists,
            allow=self.allow,
            code=(code_path(self.generator), *texts_in(self.options)),
        )


class LoadJob(Job):
    """Import paths that are tried: procedures and losses of others."""

    asks: Literal["load"] = "load"
    names: tuple[str, ...]

    @property
    def what(self) -> str:
        """The import paths."""
        return ", ".join(self.names)

    def needs(self) -> Needs:
        """Return what its process is held to."""
        return Needs(forbidden=self.forbidden, reads=(), code=self.names)


class Request(Message):
    """Seeds of the job before it that are to be drawn, each in this many seconds."""

    asks: Literal["seeds"] = "seeds"
    seeds: tuple[int, ...]
    timeout: float | None


# A job that asks something and draws nothing.
AskJob = DescribeJob | LoadJob
AnyJob = DrawJob | DescribeJob | LoadJob
_LINE: TypeAdapter[AnyJob | Request] = TypeAdapter(
    Annotated[AnyJob | Request, Field(discriminator="asks")]
)


def line_of(message: AnyJob | Request) -> bytes:
    """Return a job, or a request, as a line."""
    return message.model_dump_json().encode() + b"\n"


def read_line(line: bytes) -> AnyJob | Request:
    """Return the job or the request that a line says; it comes from the command, and is whole."""
    return _LINE.validate_json(line)
