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

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from typing import Generic, TypeVar, overload

from pydantic import JsonValue

from proxyguard.documents.canonical import canonical_bytes
from proxyguard.documents.document import FORMAT
from proxyguard.documents.ledger import (
    Amended,
    Committed,
    Corrected,
    Favored,
    Frozen,
    Judged,
    LedgerBody,
    LedgerEntry,
    Opened,
    Registered,
    Rotated,
    Schedule,
    Sealed,
    Stage,
    read_body,
)
from proxyguard.errors import DigestMismatch, StageError
from proxyguard.seal.crypto import identity_problem

__all__ = ["FORMAT", "ORIGIN", "Entry", "Ledger", "Schedule", "Stage"]

# What the first entry names as the entry before it.
ORIGIN = "0" * 64
ONCE = frozenset({Stage.SEALED, Stage.REGISTERED, Stage.OPENED, Stage.CERTIFIED})
# Steps that may stand between a committed draw and its score.
NOTES = frozenset({Stage.DEVIATED, Stage.ROTATED})
SaidBody = TypeVar("SaidBody", bound=LedgerBody, covariant=True)
StepBody = TypeVar("StepBody", bound=LedgerBody)


@dataclass(frozen=True, kw_only=True)
class Entry(Generic[SaidBody]):
    """One recorded step.

    Attributes
    ----------
    index
        Its number, from 0.
    signer
        The public key that signs it.
    body
        What happened.
    previous
        The digest of the entry before it.
    """

    index: int
    signer: str
    body: SaidBody
    previous: str

    @classmethod
    def of(cls, entry: LedgerEntry) -> Entry[LedgerBody]:
        """Return an entry that was read, its body as the type of its step."""
        where = f"entry {entry.index} of the ledger ({entry.stage.value})"
        return Entry(
            index=entry.index,
            signer=entry.signer,
            body=read_body(entry.stage, entry.body, where),
            previous=entry.previous,
        )

    @property
    def stage(self) -> Stage:
        """The step."""
        return self.body.stage

    def to_dict(self) -> dict[str, JsonValue]:
        """Return the entry as it is stored and digested."""
        return {
            "format": FORMAT,
            "index": self.index,
            "stage": self.stage.value,
            "signer": self.signer,
            "body": self.body.to_dict(),
            "previous": self.previous,
        }

    @cached_property
    def content(self) -> bytes:
        """The canonical bytes, which are digested and signed."""
        return canonical_bytes(self.to_dict())

    @cached_property
    def digest(self) -> str:
        """The digest that the next entry names."""
        return sha256(self.content).hexdigest()


class Ledger:
    """The audit's steps so far; appending checks the rules above.

    Parameters
    ----------
    entries
        Steps that were recorded; each is checked as if it were appended.

    Raises
    ------
    StageError
        If a step may not come where it stands.
    DigestMismatch
        If an entry names another one before it than stands there.
    """

    def __init__(self, entries: Iterable[Entry[LedgerBody]] = ()) -> None:
        # Kept as entries come: a ledger of a hundred thousand is not walked for each of them.
        self._entries: list[Entry[LedgerBody]] = []
        self._stages: dict[Stage, list[Entry[LedgerBody]]] = {stage: [] for stage in Stage}
        self._authors: list[str] = []  # in force after each entry
        self._known: set[str] = set()  # every key that was in force
        self._head = ORIGIN
        self._last: Entry[LedgerBody] | None = None  # that is no note
        for entry in entries:
            self._admit(entry)

    @property
    def entries(self) -> tuple[Entry[LedgerBody], ...]:
        """The recorded steps, first to last."""
        return tuple(self._entries)

    @property
    def head(self) -> str:
        """The digest of the last entry, to be signed or published."""
        return self._head

    @overload
    def find(self, kind: Stage) -> tuple[Entry[LedgerBody], ...]: ...
    @overload
    def find(self, kind: type[StepBody]) -> tuple[Entry[StepBody], ...]: ...
    def find(self, kind: Stage | type[StepBody]) -> Sequence[Entry[LedgerBody]]:
        """Return the entries of a step, or those whose body is of a type, in order."""
        if isinstance(kind, Stage):
            return tuple(self._stages[kind])
        return tuple(e for e in self._stages[kind.stage] if isinstance(e.body, kind))

    def has(self, stage: Stage) -> bool:
        """Return whether a step was recorded."""
        return bool(self._stages[stage])

    @property
    def sealed(self) -> Sealed:
        """What the seal says; an error where nothing is sealed."""
        for entry in self.find(Sealed):
            return entry.body
        raise StageError("the target is not sealed")

    @property
    def opened(self) -> Opened:
        """What the opening says; an error where the target was not opened."""
        for entry in self.find(Opened):
            return entry.body
        raise StageError("the target has not been opened")

    @property
    def claims(self) -> tuple[Entry[Registered] | Entry[Amended], ...]:
        """The registration and its amendments, first to last: the last is in force."""
        return (*self.find(Registered), *self.find(Amended))

    @property
    def schedule(self) -> Schedule:
        """Fixed unless the registration said otherwise."""
        registered = self.find(Registered)
        return registered[0].body.path if registered else Schedule.FIXED

    @property
    def declaration(self) -> str | None:
        """The digest of the declaration in force: registered, or the last amendment's."""
        claims = self.claims
        return claims[-1].body.declaration if claims else None

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
    def waiting(self) -> Committed | None:
        """The committed draw of a sequential audit that has no score yet."""
        last = None if self._last is None else self._last.body
        return last if isinstance(last, Committed) else None

    def append(self, body: StepBody, signer: str) -> Entry[StepBody]:
        """Record the next step and return its entry.

        Parameters
        ----------
        body
            What happened.
        signer
            The public key that will sign it.

        Raises
        ------
        StageError
            If this step may not come next, or another key is in force.
        """
        entry = Entry(index=len(self._entries), signer=signer, body=body, previous=self.head)
        self._admit(entry)
        return entry

    def _admit(self, entry: Entry[LedgerBody]) -> None:
        if entry.index != len(self._entries):
            raise StageError(f"entry {entry.index} stands where {len(self._entries)} belongs")
        if entry.previous != self.head:
            raise DigestMismatch(
                f"the entry before number {entry.index}", sealed=entry.previous, found=self.head
            )
        objection = self._objection(entry)
        if objection:
            raise StageError(f"{entry.stage.value}: {objection}")
        self._head = entry.digest  # what cannot be sealed is refused before it is recorded
        self._entries.append(entry)
        self._stages[entry.stage].append(entry)
        body = entry.body
        if isinstance(body, Sealed):
            self._authors.append(body.author)
        elif isinstance(body, Rotated):
            self._authors.append(body.successor)
        else:
            self._authors.append(self._authors[-1])
        self._known.add(self._authors[-1][:64])
        if entry.stage not in NOTES:
            self._last = entry

    def _objection(self, entry: Entry[LedgerBody]) -> str | None:
        """Return why this entry may not come next, or nothing."""
        stage, has, body = entry.stage, self.has, entry.body
        if stage in ONCE and has(stage):
            return "recorded already, and it is recorded once"
        if isinstance(body, Sealed):
            return _author_objection(body, entry.signer)
        if not has(Stage.SEALED):
            return "the target must be sealed first"
        if entry.signer != self.signer:
            return (
                f"it is signed by {entry.signer[:16]}..., and the key in force is "
                f"{str(self.signer)[:16]}..., which has not handed over to it"
            )
        if isinstance(body, Rotated):
            return _rotation_objection(body, self._known)
        if stage is Stage.DEVELOPED:
            return "development ends with registration" if has(Stage.REGISTERED) else None
        if stage is Stage.REGISTERED:
            return None
        if not has(Stage.REGISTERED):
            return "the claim must be registered first"
        if isinstance(body, Amended):
            return self._amendment_objection(body)
        if isinstance(body, Frozen | Committed):
            return self._draw_objection(body)
        if stage is Stage.OPENED:
            fixed = self.schedule is Schedule.FIXED
            return "all releases must be drawn first" if fixed and not has(Stage.DRAWN) else None
        if not has(Stage.OPENED):
            return "the target has not been opened"
        if isinstance(body, Favored | Judged):
            return self._score_objection(body)
        if stage is Stage.CERTIFIED:
            return "a committed draw has not been scored" if self.waiting else None
        if isinstance(body, Corrected) and not has(Stage.CERTIFIED):
            return "there is no certificate to correct"
        if isinstance(body, Corrected) and has(Stage.CORRECTED):
            return "there is one correction already; another decides nothing and is a deviation"
        return None

    def _amendment_objection(self, body: Amended) -> str | None:
        if self.has(Stage.OPENED):
            return "the target has been opened; record a deviation instead"
        if body.supersedes != self.declaration:
            return f"it must name the declaration it supersedes, {self.declaration}"
        return None

    def _draw_objection(self, body: Frozen | Committed) -> str | None:
        if self.has(Stage.CERTIFIED):
            return "the audit is certified"
        if self.schedule is Schedule.FIXED:
            if self.has(Stage.DRAWN):
                return "recorded already, and it is recorded once"
            return None if isinstance(body, Frozen) else "a fixed audit freezes its draws together"
        if not self.has(Stage.OPENED):
            return "a sequential audit draws after the target is opened"
        if self.waiting is not None:
            return "the draw before it has not been scored"
        return None if isinstance(body, Committed) else "it must name its release by digest"

    def _score_objection(self, body: Favored | Judged) -> str | None:
        if self.schedule is Schedule.FIXED:
            return "a fixed audit scores all releases when it is opened"
        if self.waiting is None or body.release != self.waiting.release:
            return "it must score the draw committed just before it"
        return None


def _author_objection(body: Sealed, signer: str) -> str | None:
    """Return why the seal's author is not who signs it, or nothing."""
    if body.author[:64] != signer:
        return f"its author is {body.author[:16]}..., and it is signed by {signer[:16]}..."
    return _nobody(body.author)


def _rotation_objection(body: Rotated, known: set[str]) -> str | None:
    """Return why a key may not hand over as this entry says, or nothing."""
    # A key that was given up may have been given up because somebody else has it.
    if body.successor[:64] in known:
        return "its successor has signed here before"
    return _nobody(body.successor)


def _nobody(identity: str) -> str | None:
    """Return why an identity is no person's: for such a key anybody signs and reads."""
    problem = identity_problem(identity)
    return None if problem is None else f"{identity[:16]}... is nobody's identity: {problem}"
