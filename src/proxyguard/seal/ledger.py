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
 * deviations are recorded after opening and decide nothing; one corrective certificate may be
   recorded after certification; they add to the record and replace nothing
 * each entry carries the digest of the entry before it
 * each entry names the key that signs it: the author's, whose identity the seal records, until
   a rotation, itself signed by the key before, names the next one

The signer is part of the entry, so whoever signs the same steps with a key of their own has
another head, which no grant and no published head fits. A chain does not protect its own last
entry, so the head must be signed or published.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from proxyguard.errors import DigestMismatch, SealError, StageError
from proxyguard.seal.canonical import canonical_bytes, digest
from proxyguard.seal.keys import identity_problem

FORMAT = 2
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
    ROTATED = "rotated"


class Path(Enum):
    """Whether all releases are drawn before the target is opened."""

    FIXED = "fixed"
    SEQUENTIAL = "sequential"


ONCE = frozenset({Stage.SEALED, Stage.REGISTERED, Stage.OPENED, Stage.CERTIFIED})
NOTES = frozenset({Stage.DEVIATED, Stage.ROTATED})
"""Steps that may stand between a committed draw and its score."""
_IDENTITY = re.compile("[0-9a-f]{128}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One recorded step: what happened, who signs it, and the digest of the entry before it."""

    index: int
    stage: Stage
    signer: str
    body: Mapping[str, Any]
    previous: str

    def to_dict(self) -> dict[str, Any]:
        """Return the entry as it is stored and digested."""
        return {
            "format": FORMAT,
            "index": self.index,
            "stage": self.stage.value,
            "signer": self.signer,
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
        expected = {"format", "index", "stage", "signer", "body", "previous"}
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
            signer=str(value["signer"]),
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
        # Kept as entries come: a ledger of a hundred thousand is not walked for each of them.
        self._entries: list[Entry] = []
        self._stages: dict[Stage, list[Entry]] = {stage: [] for stage in Stage}
        self._authors: list[str] = []  # in force after each entry
        self._known: set[str] = set()  # every key that was in force
        self._head = ORIGIN
        self._last: Entry | None = None  # that is no note
        for entry in entries:
            self._admit(entry)

    @property
    def entries(self) -> tuple[Entry, ...]:
        """The recorded steps, first to last."""
        return tuple(self._entries)

    @property
    def head(self) -> str:
        """The digest of the last entry, to be signed or published."""
        return self._head

    def find(self, stage: Stage) -> tuple[Entry, ...]:
        """Return the entries of one step, in order."""
        return tuple(self._stages[stage])

    def has(self, stage: Stage) -> bool:
        """Return whether a step was recorded."""
        return bool(self._stages[stage])

    @property
    def path(self) -> Path:
        """Fixed unless the registration said otherwise."""
        registered = self._stages[Stage.REGISTERED]
        return Path(registered[0].body.get("path", "fixed")) if registered else Path.FIXED

    @property
    def declaration(self) -> str | None:
        """The digest of the declaration in force: registered, or the last amendment's."""
        steps = self._stages[Stage.AMENDED] or self._stages[Stage.REGISTERED]
        return str(steps[-1].body["declaration"]) if steps else None

    @property
    def author(self) -> str | None:
        """The identity in force: the sealing author's, or the last rotation's successor."""
        return self.author_after(len(self._entries) - 1)

    def author_after(self, index: int) -> str | None:
        """Return the identity in force once the entry of this number was recorded."""
        return self._authors[index] if 0 <= index < len(self._authors) else None

    @property
    def signer(self) -> str | None:
        """The public key that the next entry must be signed with; none before the first."""
        return None if self.author is None else self.author[:64]

    @property
    def waiting(self) -> Entry | None:
        """The committed draw of a sequential audit that has no score yet."""
        last = self._last
        drawn = last is not None and last.stage is Stage.DRAWN and self.path is Path.SEQUENTIAL
        return last if drawn else None

    def append(self, stage: Stage, body: Mapping[str, Any], signer: str) -> Entry:
        """Record the next step and return its entry."""
        entry = Entry(
            index=len(self._entries),
            stage=stage,
            signer=signer,
            body=dict(body),
            previous=self.head,
        )
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
        self._stages[entry.stage].append(entry)
        self._head = entry.digest
        heir = {Stage.SEALED: "author", Stage.ROTATED: "successor"}.get(entry.stage)
        self._authors.append(self._authors[-1] if heir is None else str(entry.body[heir]))
        self._known.add(self._authors[-1][:64])
        if entry.stage not in NOTES:
            self._last = entry

    def _objection(self, entry: Entry) -> str | None:
        """Return why this entry may not come next, or nothing."""
        stage, has = entry.stage, self.has
        if stage in ONCE and has(stage):
            return "recorded already, and it is recorded once"
        if stage is Stage.SEALED:
            return _author_objection(entry)
        if not has(Stage.SEALED):
            return "the target must be sealed first"
        if entry.signer != self.signer:
            return (
                f"it is signed by {entry.signer[:16]}..., and the key in force is "
                f"{str(self.signer)[:16]}..., which has not handed over to it"
            )
        if stage is Stage.ROTATED:
            return _rotation_objection(entry, self._known)
        if stage is Stage.DEVELOPED:
            return "development ends with registration" if has(Stage.REGISTERED) else None
        if stage is Stage.REGISTERED:
            if entry.body.get("path", "fixed") not in [path.value for path in Path]:
                return f"there is no path {entry.body['path']!r}"
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
            return "a committed draw has not been scored" if self.waiting else None
        if stage is Stage.DEVIATED:
            more = sorted(set(entry.body) - {"reason", "design", "time"})
            return (
                f"a deviation says what happened and decides nothing, got {more}" if more else None
            )
        if stage is Stage.CORRECTED and not has(Stage.CERTIFIED):
            return "there is no certificate to correct"
        if stage is Stage.CORRECTED and has(Stage.CORRECTED):
            return "there is one correction already; another decides nothing and is a deviation"
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
        if self.waiting is not None:
            return "the draw before it has not been scored"
        return _missing(entry.body, "release")

    def _score_objection(self, entry: Entry) -> str | None:
        if self.path is Path.FIXED:
            return "a fixed audit scores all releases when it is opened"
        draw = self.waiting
        if draw is None or entry.body.get("release") != draw.body["release"]:
            return "it must score the draw committed just before it"
        return None


def _missing(body: Mapping[str, Any], key: str) -> str | None:
    return None if isinstance(body.get(key), str) else f"it must name its {key} by digest"


def _author_objection(entry: Entry) -> str | None:
    """Return why the seal's author is not who signs it, or nothing."""
    author = entry.body.get("author")
    if not isinstance(author, str) or _IDENTITY.fullmatch(author) is None:
        return "it must name its author by identity, 128 hexadecimal digits"
    if author[:64] != entry.signer:
        return f"its author is {author[:16]}..., and it is signed by {entry.signer[:16]}..."
    return _nobody(author)


def _rotation_objection(entry: Entry, known: set[str]) -> str | None:
    """Return why a key may not hand over as this entry says, or nothing."""
    successor = entry.body.get("successor")
    if not isinstance(successor, str) or _IDENTITY.fullmatch(successor) is None:
        return "it must name its successor by identity, 128 hexadecimal digits"
    # A key that was given up may have been given up because somebody else has it.
    if successor[:64] in known:
        return "its successor has signed here before"
    return _nobody(successor)


def _nobody(identity: str) -> str | None:
    """Return why an identity is no person's: for such a key anybody signs and reads."""
    problem = identity_problem(identity)
    return None if problem is None else f"{identity[:16]}... is nobody's identity: {problem}"
