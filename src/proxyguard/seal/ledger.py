"""An append-only, hash-chained record of an audit's steps, in order; no I/O here.

Rules
 * the target is sealed first, once
 * development is recorded after that and before registration, any number of times
 * the claim is registered once
 * it may be amended after that, and only before the target is opened; an amendment names
   the declaration it supersedes
 * a fixed audit draws all its releases once, before the target is opened; a sequential
   one draws and scores in turn after it, each draw committed before its score
 * the target is opened once
 * the certificate is recorded once, and a fixed audit certifies what it opened
 * deviations are recorded after opening, corrective certificates after certification;
   they add to the record and replace nothing
 * each entry carries the digest of the entry before it

A chain does not protect its own last entry, so the head must be signed or published.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from proxyguard.errors import DigestMismatch, SealError, StageError
from proxyguard.seal.canonical import canonical_bytes, digest

FORMAT = 1
ORIGIN = "0" * 64
"""What the first entry names as the entry before it."""


class Stage(Enum):
    """A step of the audit."""

    SEALED = "sealed"
    DEVELOPED = "developed"
    REGISTERED = "registered"
    AMENDED = "amended"
    DRAWN = "drawn"
    OPENED = "opened"
    SCORED = "scored"
    CERTIFIED = "certified"
    DEVIATED = "deviated"
    CORRECTED = "corrected"


class Path(Enum):
    """Whether all releases are drawn before the target is opened."""

    FIXED = "fixed"
    SEQUENTIAL = "sequential"


ONCE = frozenset({Stage.SEALED, Stage.REGISTERED, Stage.OPENED, Stage.CERTIFIED})


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One recorded step: what happened, and the digest of the entry before it."""

    index: int
    stage: Stage
    body: Mapping[str, Any]
    previous: str

    def to_dict(self) -> dict[str, Any]:
        """Return the entry as it is stored and digested."""
        return {
            "format": FORMAT,
            "index": self.index,
            "stage": self.stage.value,
            "body": dict(self.body),
            "previous": self.previous,
        }

    @classmethod
    def from_dict(cls, value: Mapping[str, Any]) -> Entry:
        """Read an entry; another format or an unknown key is refused, never guessed at."""
        if not isinstance(value, Mapping):
            raise SealError(f"a ledger entry is a mapping, found a {type(value).__name__}")
        if value.get("format") != FORMAT:
            raise SealError(
                f"ledger entry of format {value.get('format')!r}; this version reads {FORMAT}"
            )
        expected = {"format", "index", "stage", "body", "previous"}
        if set(value) != expected:
            raise SealError(f"a ledger entry has keys {sorted(expected)}, found {sorted(value)}")
        if not isinstance(value["index"], int) or not isinstance(value["body"], Mapping):
            raise SealError("a ledger entry needs a whole number as index and a mapping as body")
        try:
            stage = Stage(value["stage"])
        except ValueError:
            raise SealError(f"unknown step {value['stage']!r} in the ledger") from None
        return cls(
            index=value["index"],
            stage=stage,
            body=value["body"],
            previous=str(value["previous"]),
        )

    @property
    def digest(self) -> str:
        """The digest that the next entry names."""
        return digest(self.to_dict())

    def to_bytes(self) -> bytes:
        """Return the canonical bytes, one line of a ledger file without its line end."""
        return canonical_bytes(self.to_dict())


class Ledger:
    """The audit's steps so far; appending checks the rules above."""

    def __init__(self, entries: Iterable[Entry] = ()) -> None:
        self._entries: list[Entry] = []
        for entry in entries:
            self._admit(entry)

    @property
    def entries(self) -> tuple[Entry, ...]:
        """The recorded steps, first to last."""
        return tuple(self._entries)

    @property
    def head(self) -> str:
        """The digest of the last entry, to be signed or published."""
        return self._entries[-1].digest if self._entries else ORIGIN

    def find(self, stage: Stage) -> tuple[Entry, ...]:
        """Return the entries of one step, in order."""
        return tuple(entry for entry in self._entries if entry.stage is stage)

    def has(self, stage: Stage) -> bool:
        """Return whether a step was recorded."""
        return bool(self.find(stage))

    @property
    def path(self) -> Path:
        """Fixed unless the registration said otherwise."""
        registered = self.find(Stage.REGISTERED)
        return Path(registered[0].body.get("path", "fixed")) if registered else Path.FIXED

    @property
    def declaration(self) -> str | None:
        """The digest of the declaration in force: registered, or the last amendment's."""
        steps = [e for e in self._entries if e.stage in (Stage.REGISTERED, Stage.AMENDED)]
        return str(steps[-1].body["declaration"]) if steps else None

    def append(self, stage: Stage, body: Mapping[str, Any]) -> Entry:
        """Record the next step and return its entry."""
        entry = Entry(index=len(self._entries), stage=stage, body=dict(body), previous=self.head)
        self._admit(entry)
        return entry

    def _admit(self, entry: Entry) -> None:
        if entry.index != len(self._entries):
            raise StageError(f"entry {entry.index} stands where {len(self._entries)} belongs")
        if entry.previous != self.head:
            raise DigestMismatch(
                f"the entry before number {entry.index}", sealed=entry.previous, found=self.head
            )
        objection = self._objection(entry)
        if objection:
            raise StageError(f"{entry.stage.value}: {objection}")
        canonical_bytes(entry.to_dict())  # what cannot be sealed is refused before it is recorded
        self._entries.append(entry)

    def _objection(self, entry: Entry) -> str | None:
        """Return why this entry may not come next, or nothing."""
        stage, has = entry.stage, self.has
        if stage in ONCE and has(stage):
            return "recorded already, and it is recorded once"
        if stage is Stage.SEALED:
            return None
        if not has(Stage.SEALED):
            return "the target must be sealed first"
        if stage is Stage.DEVELOPED:
            return "development ends with registration" if has(Stage.REGISTERED) else None
        if stage is Stage.REGISTERED:
            return _missing(entry.body, "declaration")
        if not has(Stage.REGISTERED):
            return "the claim must be registered first"
        if stage is Stage.AMENDED:
            return self._amendment_objection(entry)
        if stage is Stage.DRAWN:
            return self._draw_objection(entry)
        if stage is Stage.OPENED:
            fixed = self.path is Path.FIXED
            return "all releases must be drawn first" if fixed and not has(Stage.DRAWN) else None
        if not has(Stage.OPENED):
            return "the target has not been opened"
        if stage is Stage.SCORED:
            return self._score_objection(entry)
        if stage is Stage.CERTIFIED:
            waiting = self.path is Path.SEQUENTIAL and self._entries[-1].stage is Stage.DRAWN
            return "a committed draw has not been scored" if waiting else None
        if stage is Stage.CORRECTED and not has(Stage.CERTIFIED):
            return "there is no certificate to correct"
        return None

    def _amendment_objection(self, entry: Entry) -> str | None:
        if self.has(Stage.OPENED):
            return "the target has been opened; record a deviation instead"
        if entry.body.get("supersedes") != self.declaration:
            return f"it must name the declaration it supersedes, {self.declaration}"
        return _missing(entry.body, "declaration")

    def _draw_objection(self, entry: Entry) -> str | None:
        if self.has(Stage.CERTIFIED):
            return "the audit is certified"
        if self.path is Path.FIXED:
            return "recorded already, and it is recorded once" if self.has(Stage.DRAWN) else None
        if not self.has(Stage.OPENED):
            return "a sequential audit draws after the target is opened"
        if self._entries[-1].stage is Stage.DRAWN:
            return "the draw before it has not been scored"
        return _missing(entry.body, "release")

    def _score_objection(self, entry: Entry) -> str | None:
        if self.path is Path.FIXED:
            return "a fixed audit scores all releases when it is opened"
        last = self._entries[-1]
        if last.stage is not Stage.DRAWN or entry.body.get("release") != last.body["release"]:
            return "it must score the draw committed just before it"
        return None


def _missing(body: Mapping[str, Any], key: str) -> str | None:
    return None if isinstance(body.get(key), str) else f"it must name its {key} by digest"
