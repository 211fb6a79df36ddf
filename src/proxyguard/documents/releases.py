"""What was drawn: the record of every draw, and `releases.json`, which freezes them all.

A draw gave a release, failed, or was given as losses; one that was dropped before the opening and
made again keeps what it was. The rules about draws (which failed, what it is called, when two came
out the same) are properties of these types and stand nowhere else.
"""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import Field

from proxyguard.documents.document import Amount, Digest, Document, Format, NumberText
from proxyguard.registry.fields import SeedNumber

_GUARD = re.compile(r"landlock ABI [1-9][0-9]*|audit hook")


def is_guard(text: object) -> bool:
    """Return whether this is what a draw can record about what it was held by."""
    return isinstance(text, str) and _GUARD.fullmatch(text) is not None


class Draw(Document):
    """What is recorded of every draw: its seed, and how it is called."""

    seed: SeedNumber
    """The registered seed of the draw; of a stream, its round."""
    name: str | None = None
    """What the draw is called, where it is not called by its seed."""

    @property
    def label(self) -> str:
        """What the draw is called in evidence, verdicts and reports."""
        return str(self.seed) if self.name is None else self.name

    @property
    def failed(self) -> bool:
        """Whether there is no release, or one of no record: every loss is its upper bound."""
        return False


class _Made(Draw):
    """What a drawing process records of a draw, whether it gave a release or not."""

    guard: str
    """What held the process: the kernel's Landlock, or a hook."""
    files: dict[str, Digest | None] | None = None
    """The files that the draw read, with the digest of their bytes; nothing if unreadable."""
    prepared_from: dict[str, Digest] | None = None
    """The files that the preparation of all draws rests on."""
    computed: dict[str, str] | None = None
    """How the generator says it was computed: a device, a version, the draws of its batch."""
    format: Format | None = None
    """The format of a draw that waits; none in the ledger."""


class DroppedRelease(_Made):
    """A draw that gave a release."""

    status: Literal["drawn"]
    """That it gave a release."""
    rows: Amount
    """Records of the release."""
    content: Digest
    """Digest of what the release holds, in any encoding."""
    stages: tuple[str, ...]
    """What took the seed, in order: what is redrawn."""
    selected: str | None
    """Which pipeline of the procedure was chosen."""
    threshold: NumberText | None
    """The decision threshold that was chosen."""
    temperature: NumberText | None
    """The temperature that calibrates."""
    predictions: Literal[True] | None = None
    """That the release holds predictions, made elsewhere."""
    prepared_at_random: bool
    """Whether the preparation used its own seed."""
    release: Digest
    """Where the release lies in the store."""
    model: Digest | None
    """Where the fitted procedure lies in the store."""
    members: Digest | None = None
    """Where the store says which rows of the source it was trained on; nothing means all."""
    unlabelled: Amount | None = None
    """Rows without an outcome, where it had any: they were left out of it, or of the model alone
    where such records count at their worst."""

    @property
    def failed(self) -> bool:
        """Whether the release is of no record, so that every loss is its upper bound."""
        return self.rows == 0

    @property
    def objects(self) -> tuple[str, ...]:
        """What the store holds of it."""
        stored = (self.release, self.model, self.members)
        return tuple(address for address in stored if address is not None)


class DroppedFailure(_Made):
    """A draw that gave no release: every loss of it counts as its upper bound."""

    status: Literal["failed", "timeout"]
    """Whether it failed or was too slow."""
    error: str
    """Why there is no release, in words."""
    prepared_at_random: bool | None = None
    """Whether the preparation used its own seed, where it got so far."""

    @property
    def failed(self) -> bool:
        """That there is no release: every loss counts as its upper bound."""
        return True

    @property
    def objects(self) -> tuple[str, ...]:
        """What the store holds of it: nothing."""
        return ()


# A draw that was made, dropped before the opening, and made again.
Dropped = Annotated[DroppedRelease | DroppedFailure, Field(discriminator="status")]


class DrawnRelease(DroppedRelease):
    """A draw that gave a release, and what its seed gave before."""

    again: tuple[Dropped, ...] | None = None
    """What the draws of this seed were that were dropped before, first to last."""

    def without_release(self, error: str) -> FailedDraw:
        """Return the draw as one that failed, because what it gave is no release."""
        # By name, so that whatever a failure records comes along: where it was made and from what
        # is as true as before.
        kept = type(self).model_fields.keys() & FailedDraw.model_fields.keys()
        return FailedDraw.model_validate(
            {name: getattr(self, name) for name in kept} | {"status": "failed", "error": error}
        )


class FailedDraw(DroppedFailure):
    """A draw that gave no release, and what its seed gave before."""

    again: tuple[Dropped, ...] | None = None
    """What the draws of this seed were that were dropped before, first to last."""


class GivenRelease(Draw):
    """A release whose losses were computed elsewhere: a name, and its place in their file."""

    status: Literal["given"]
    """That its losses were given."""
    name: str
    """Its name in the file of losses."""
    column: Amount
    """Its place among the releases of that file."""


# A draw that was made here.
MadeDraw = DrawnRelease | FailedDraw
AnyDraw = DrawnRelease | FailedDraw | GivenRelease
DrawRecord = Annotated[AnyDraw, Field(discriminator="status")]


def read_draw(plain: object, name: str) -> MadeDraw:
    """Return a draw that was made here, from plain values.

    Raises
    ------
    DocumentError
        If they are neither a release nor a failure in its form.
    """
    failed = isinstance(plain, dict) and plain.get("status") in ("failed", "timeout")
    return (FailedDraw if failed else DrawnRelease).of(plain, name)


# What a verdict can depend on of a draw: one that differs in any of it came out otherwise.
# Guard, format and how it was computed are not in it: where a draw was made says nothing of what
# came out.
_OUTCOME = (
    "status", "content", "rows", "model", "selected", "threshold", "temperature", "stages", "files",
    "prepared_at_random", "prepared_from", "members",
)  # fmt: skip


def same_outcome(first: Draw, second: Draw) -> bool:
    """Return whether two draws of a seed came out the same, in all that a verdict depends on."""
    return all(getattr(first, key, None) == getattr(second, key, None) for key in _OUTCOME)


class RepeatedDraw(Document):
    """A draw that was dropped and made again."""

    mechanism: str
    """The mechanism."""
    seed: SeedNumber
    """The seed of the draw."""
    same: bool
    """Whether it came out the same."""


class DrawGroup(Document):
    """The draws of one mechanism, or the one of a named release."""

    draws: tuple[DrawRecord, ...]
    """One record for each seed, in order."""


class ReleaseManifest(Document):
    """`releases.json`: every frozen release of a fixed audit."""

    format: Format
    """The format of this document."""
    registry: Digest
    """The registry that the releases were drawn for."""
    members: dict[str, dict[str, DrawGroup]]
    """The draws by member, and by mechanism or named release."""
    sources: dict[str, Digest]
    """By member, the source's predictions in the store, where they were given."""

    def draws(self, member: str, name: str) -> tuple[AnyDraw, ...]:
        """Return the draws of a mechanism, or the one of a named release, if there are any."""
        group = self.members.get(member, {}).get(name)
        return () if group is None else group.draws

    @property
    def again(self) -> tuple[RepeatedDraw, ...]:
        """The draws that were dropped and made again, and whether they came out the same."""
        return tuple(
            RepeatedDraw(
                mechanism=name,
                seed=draw.seed,
                same=all(same_outcome(dropped, draw) for dropped in draw.again),
            )
            for _, mechanisms in sorted(self.members.items())  # as a file has them
            for name, group in sorted(mechanisms.items())
            for draw in group.draws
            if not isinstance(draw, GivenRelease) and draw.again is not None
        )

    @property
    def objects(self) -> tuple[str, ...]:
        """Everything in the store that it refers to; what dropped draws were stays to be seen."""
        addresses = list(self.sources.values())
        for mechanisms in self.members.values():
            for group in mechanisms.values():
                for draw in group.draws:
                    if not isinstance(draw, GivenRelease):
                        addresses += draw.objects
                        addresses += [
                            name for dropped in draw.again or () for name in dropped.objects
                        ]
        return tuple(addresses)
