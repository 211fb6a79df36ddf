"""What was drawn: the record of every draw, and `releases.json`, which freezes them all."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from proxyguard.documents.document import Count, Digest, Document, NumberText

Seed = Count


class _Made(Document):
    """What a drawing process records of a draw, whether it gave a release or not."""

    seed: Seed = Field(description="The registered seed of the draw; of a stream, its round.")
    guard: str = Field(description="What held the process: the kernel's Landlock, or a hook.")
    files: dict[str, Digest] | None = Field(
        default=None, description="The files that the draw read, with the digest of their bytes."
    )
    prepared_from: dict[str, Digest] | None = Field(
        default=None, description="The files that the preparation of all draws rests on."
    )
    name: str | None = Field(
        default=None,
        description="In an audit that draws after opening: mechanism or file, and the seed.",
    )
    format: Literal[1] | None = Field(
        default=None, description="The format of a draw that waits; none in the ledger."
    )


class DroppedRelease(_Made):
    """A draw that gave a release."""

    status: Literal["drawn"] = Field(description="That it gave a release.")
    rows: Count = Field(description="Records of the release.")
    content: Digest = Field(description="Digest of what the release holds, in any encoding.")
    stages: tuple[str, ...] = Field(description="What took the seed, in order: what is redrawn.")
    selected: str | None = Field(description="Which pipeline of the procedure was chosen.")
    threshold: NumberText | None = Field(description="The decision threshold that was chosen.")
    temperature: NumberText | None = Field(description="The temperature that calibrates.")
    predictions: Literal[True] | None = Field(
        default=None, description="That the release holds predictions, made elsewhere."
    )
    prepared_at_random: bool = Field(description="Whether the preparation used its own seed.")
    release: Digest = Field(description="Where the release lies in the store.")
    model: Digest | None = Field(description="Where the fitted procedure lies in the store.")


class DroppedFailure(_Made):
    """A draw that gave no release: every loss of it counts as its upper bound."""

    status: Literal["failed", "timeout"] = Field(description="Whether it failed or was too slow.")
    error: str = Field(description="Why there is no release, in words.")
    prepared_at_random: bool | None = Field(
        default=None, description="Whether the preparation used its own seed, where it got so far."
    )


Dropped = Annotated[DroppedRelease | DroppedFailure, Field(discriminator="status")]
"""A draw that was made, dropped before the opening, and made again."""
AGAIN = "What the draws of this seed were that were dropped before, first to last."


class DrawnRelease(DroppedRelease):
    """A draw that gave a release, and what its seed gave before."""

    again: tuple[Dropped, ...] | None = Field(default=None, description=AGAIN)


class FailedDraw(DroppedFailure):
    """A draw that gave no release, and what its seed gave before."""

    again: tuple[Dropped, ...] | None = Field(default=None, description=AGAIN)


class GivenRelease(Document):
    """A release whose losses were computed elsewhere: a name, and its place in their file."""

    status: Literal["given"] = Field(description="That its losses were given.")
    seed: Seed = Field(description="The registered seed that stands for it.")
    name: str = Field(description="Its name in the file of losses.")
    column: Count = Field(description="Its place among the releases of that file.")


DrawRecord = Annotated[DrawnRelease | FailedDraw | GivenRelease, Field(discriminator="status")]


class Draws(Document):
    """The draws of one mechanism, or the one of a named release."""

    draws: tuple[DrawRecord, ...] = Field(description="One record for each seed, in order.")


class ReleaseManifest(Document):
    """`releases.json`: every frozen release of a fixed audit."""

    format: Literal[1] = Field(description="The format of this document.")
    registry: Digest = Field(description="The registry that the releases were drawn for.")
    members: dict[str, dict[str, Draws]] = Field(
        description="The draws by member, and by mechanism or named release."
    )
    sources: dict[str, Digest] = Field(
        description="By member, the source's predictions in the store, where they were given."
    )
