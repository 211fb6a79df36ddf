"""What each entry of the ledger says: one type for the body of every step.

The steps stand in the order of an audit; then the line that an entry is, with its signature. Last
comes who may read the target: the header of the sealed file, and the steward's grant.
"""

from __future__ import annotations

from enum import Enum
from typing import Annotated, ClassVar, Literal, get_args

from pydantic import Field, JsonValue, model_validator

from proxyguard.documents.document import (
    Amount,
    Digest,
    Document,
    Files,
    Format,
    Hex,
    Identity,
    NumberText,
    OneDecimal,
    PublicKey,
    Whole,
)
from proxyguard.documents.evidence import GroupEvidence
from proxyguard.documents.registry import ExcludedDraw, MemberFacts
from proxyguard.documents.releases import MadeDraw, RepeatedDraw
from proxyguard.modes.evidence import Decision
from proxyguard.registry.fields import SeedNumber

# What rows beside the target are for: members train, and attacks compare with the last two.
DevelopmentRole = Literal["training", "validation", "reference", "calibration"]
# A sampling design as a declaration writes it: a name, or a table.
DesignText = str | dict[str, JsonValue]
# A sentence: a reason of blanks is none.
Sentence = Annotated[str, Field(pattern=r"\S")]
# A decision, or its word.
Decided = Annotated[Decision, Field(strict=False)]


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


class Schedule(Enum):
    """Whether all releases are drawn before the target is opened."""

    FIXED = "fixed"
    SEQUENTIAL = "sequential"


class LedgerBody(Document):
    """What one entry of the ledger says."""

    stage: ClassVar[Stage]

    time: str
    """When, by the author's clock."""


class WritingBody(LedgerBody):
    """What an entry says whose step writes files."""

    files: Files
    """The files that it wrote, with the digest of their bytes."""


class Overlap(Document):
    """How the records of a target met one set of records in an earlier or the same audit."""

    audit: str
    """The name of the other audit."""
    member: str
    """The member of this audit whose target it is."""
    role: str
    """What the other records were: target, training, validation."""
    same_table: bool
    """Whether both come from the same table."""
    records: Amount
    """Records of the other set."""
    shared: Amount
    """The very records of this target among them."""
    twins: Amount
    """Records of this target with the values of one of them."""
    expected_twins: OneDecimal
    """About how many coincidence explains."""
    excess: bool
    """Whether there are more than that."""
    columns: str
    """Over which columns twins agree."""
    same_audit: bool
    """Whether the other set is of this audit."""
    opened: bool
    """Whether the other target had been opened."""
    reused: bool
    """Whether records of this target shaped something before."""

    @staticmethod
    def reuse(*, role: str, shared: int, excess: bool, same_audit: bool, opened: bool) -> bool:
        """Return whether records of this target shaped something in another audit before.

        Twins beyond coincidence count as the same records: a row less or a column more must
        not make a fresh target of one that was seen.
        """
        return not same_audit and (shared > 0 or excess) and (role != "target" or opened)

    @property
    def leaked(self) -> bool:
        """Whether records of this target are, it seems, in the same audit's development part."""
        return self.same_audit and self.role != "target" and (self.shared > 0 or self.excess)

    # The rule is applied again when an entry is read: an author could write the milder answer.
    @model_validator(mode="after")
    def _follows(self) -> Overlap:
        follows = Overlap.reuse(
            role=self.role, shared=self.shared, excess=self.excess, same_audit=self.same_audit,
            opened=self.opened,
        )  # fmt: skip
        if self.reused is not follows:
            raise ValueError(f"reused is {follows} by what was met, and the contrary is recorded")
        return self


class SealedMember(Document):
    """One sealed target, and the development part beside it."""

    index: Amount
    """Number of the target, which names its files."""
    records: Amount
    """Records that were sealed."""
    commitment: Digest
    """Digest of salt and records, which binds both."""
    nonce_digest: Digest
    """Digest of the nonce that is revealed at opening."""
    kinds: tuple[tuple[str, str], ...]
    """Columns and their kinds, in order."""
    negative: str | None
    """The other label of a binary outcome."""
    estimand: str
    """What means are means over, in words."""
    development: dict[DevelopmentRole, Amount]
    """Records of the development part, by role."""
    expected_twins: dict[str, OneDecimal]
    """Twins that coincidence explains, by role."""
    copies: Amount | None = None
    """Records with the values of a training row, which no exposure is about; where one is asked."""
    unlabelled: Amount | None = None
    """Records that had no outcome and were left out, where the claim is about the others."""
    releases: tuple[str, ...] | None = None
    """Of given losses: the releases of their file."""
    requirements: tuple[str, ...] | None = None
    """Of given losses: the requirements of their file."""

    @property
    def kind_of(self) -> dict[str, str]:
        """The kind of every column, in the order of the table."""
        return dict(self.kinds)

    @property
    def file(self) -> str:
        """The file of its encrypted records."""
        return f"target/{self.index}.sealed"

    @property
    def file_names(self) -> tuple[str, ...]:
        """The files that sealing wrote for it."""
        parts = (f"development/{self.index}.{role}.parquet" for role in self.development)
        return (self.file, *parts)

    @model_validator(mode="after")
    def _whole(self) -> SealedMember:
        if (self.releases is None) != (self.requirements is None):
            raise ValueError("given losses have names of releases and of requirements")
        if self.copies is not None and self.copies > self.records:
            raise ValueError(f"{self.copies} of {self.records} records are copies")
        return self


class Sealed(WritingBody):
    """The targets were set aside and encrypted."""

    stage = Stage.SEALED

    # It names a key file in the home of whoever opens: another text could lead anywhere.
    audit: str = Field(pattern="^[0-9a-f]{32}$")
    """Number of the audit, at random."""
    name: str
    """The audit's name."""
    declaration: Digest
    """Digest of the declared targets and development."""
    members: dict[str, SealedMember] = Field(min_length=1)
    """The targets by name."""
    lineage: tuple[Overlap, ...]
    """Where the records were met before."""
    author: Identity
    """Who seals, and signs."""
    steward: Identity | None
    """Who grants the opening, if somebody does."""
    software: dict[str, str]
    """Versions that sealed."""
    by_steward: bool = False
    """Whether who seals is a steward by their own word, and works for an author who has no key."""
    trial: SeedNumber | None = None
    """Of a trial, the seed that order and uniforms follow from: it has no guarantee. No audit has
    one."""

    @model_validator(mode="after")
    def _vouches(self) -> Sealed:
        # Without its digest here a sealed file could be exchanged for another one.
        for name, member in self.members.items():
            for file in member.file_names:
                if file not in self.files:
                    raise ValueError(f"target {name[:80]!r}: nothing vouches for {file}")
        return self


class Developed(WritingBody):
    """The source was fitted, and pilots were drawn, on development data."""

    stage = Stage.DEVELOPED

    members: dict[str, MemberFacts]
    """The facts, by member."""


class Registered(WritingBody):
    """The claim was frozen."""

    stage = Stage.REGISTERED

    declaration: Digest
    """Digest of the registry."""
    path: Schedule
    """Whether all releases are drawn before the opening."""
    lineage: tuple[Overlap, ...]
    """Where the records were met before."""


class Amended(WritingBody):
    """The claim was changed before the opening."""

    stage = Stage.AMENDED

    declaration: Digest
    """Digest of the registry that is in force now."""
    supersedes: Digest
    """Digest of the one before."""
    reason: Sentence
    """Why."""
    void: tuple[ExcludedDraw, ...]
    """Exclusions of earlier amendments that this one does not repeat."""
    pending: Amount
    """Draws that waited then, and could be looked at."""


class Frozen(WritingBody):
    """All releases of a fixed audit were drawn and frozen."""

    stage = Stage.DRAWN

    releases: Digest
    """Digest of the manifest of releases."""
    registry: Digest
    """The registry that they were drawn for."""
    again: tuple[RepeatedDraw, ...]
    """Draws that were made again."""


class Committed(WritingBody):
    """One release was drawn after the opening, and is fixed before its score exists."""

    # An entry of its own: a draw that was thrown away for its score would be missed by its number.
    stage = Stage.DRAWN

    release: Digest
    """Digest of the record."""
    record: Annotated[MadeDraw, Field(discriminator="status")]
    """What was drawn."""


class Opened(WritingBody):
    """The target is opened: recorded before its key is used."""

    # Before and not after: whoever kills the process once the key was used has opened all the same.
    stage = Stage.OPENED

    registry: Digest
    """The registry that it is opened for."""
    releases: Digest
    """The releases that it is opened for."""
    lineage: tuple[Overlap, ...]
    """Where the records were met before."""
    seal_known: bool
    """Whether the lineage store knew this audit's own seal."""
    grant: Digest | None
    """Digest of the grant, if there is a steward."""


class Favored(LedgerBody):
    """A committed draw of a sequential audit was scored."""

    stage = Stage.SCORED

    release: Digest
    """Digest of the committed record."""
    favorable: bool
    """Whether its score counts for the mechanism."""
    statistics: GroupEvidence
    """Its statistics."""

    @property
    def passed(self) -> bool:
        """Whether its p-value was small enough."""
        return self.favorable


class Judged(LedgerBody):
    """A candidate of a stream was judged on its own batch of target records."""

    stage = Stage.SCORED

    release: Digest
    """Digest of the committed record."""
    round: Annotated[int, Field(ge=1)]
    """Number of the round."""
    decision: Literal["validated", "unresolved"]
    """What was decided."""
    level: NumberText
    """The error level of the round."""
    statistics: GroupEvidence
    """Its statistics."""

    @property
    def passed(self) -> bool:
        """Whether its p-value was small enough."""
        return self.decision == "validated"


class Certified(WritingBody):
    """The certificate was signed."""

    stage = Stage.CERTIFIED


class Deviated(LedgerBody):
    """Something was not done as registered."""

    stage = Stage.DEVIATED

    reason: Sentence
    """What happened."""
    design: DesignText | None = None
    """The design of a second correction that was asked for."""


class Corrected(WritingBody):
    """The corrective certificate was made, under another sampling design."""

    stage = Stage.CORRECTED

    reason: Sentence
    """Why."""
    design: DesignText
    """The sampling design that it turned out to be."""
    decisions: dict[str, Decided]
    """What it says of each mechanism."""
    correction: Digest
    """Digest of the corrective certificate."""


class Rotated(LedgerBody):
    """The key in force handed over to another one."""

    stage = Stage.ROTATED

    successor: Identity
    """Who signs from now on."""
    consent: Hex
    """The successor's signature of the ledger's head."""


Body = (
    Sealed | Developed | Registered | Amended | Frozen | Committed | Opened | Favored | Judged
    | Certified | Deviated | Corrected | Rotated
)  # fmt: skip


def read_body(stage: Stage, body: object, name: str) -> Body:
    """Return what an entry says, by its step and by what two forms of a step differ in.

    What lacks both has the first form, which then says what is missing.
    """
    # A step of two forms has one key that only its second form has.
    first, *other = _BODIES[stage]
    told_apart = bool(other) and isinstance(body, dict) and _TELLS[stage] in body
    return (other[0] if told_apart else first).of(body, name)


_TELLS = {Stage.DRAWN: "record", Stage.SCORED: "round"}
_BODIES: dict[Stage, tuple[type[Body], ...]] = {
    stage: tuple(kind for kind in get_args(Body) if kind.stage is stage) for stage in Stage
}


class LedgerEntry(Document):
    """One recorded step, as a line of the ledger holds it; the body has a type by its step."""

    format: Format
    """The format of this document."""
    index: Amount
    """Number of the entry, from 0."""
    stage: Stage
    """The step."""
    signer: PublicKey
    """The key that signs it."""
    body: dict[str, JsonValue]
    """What the step says."""
    previous: Digest
    """Digest of the entry before it."""


class SignedEntry(Document):
    """A line of `ledger.jsonl`."""

    entry: LedgerEntry
    """The entry."""
    signature: Hex
    """Signature of the entry's canonical bytes."""


class KeyFileWrap(Document):
    """The target's key, wrapped under a secret in a file."""

    kind: Literal["key"]
    """That its holder has a key file."""
    nonce: Hex
    """Nonce of the encryption of the key."""
    wrapped: Hex
    """The target's key, encrypted for its holder."""


class PassphraseWrap(Document):
    """The target's key, wrapped under stretched words."""

    kind: Literal["passphrase"]
    """That its holder remembers words."""
    salt: Hex
    """Salt of scrypt."""
    n: Amount
    """Cost of scrypt."""
    r: Amount
    """Block size of scrypt."""
    p: Amount
    """Parallelism of scrypt."""
    nonce: Hex
    """Nonce of the encryption of the key."""
    wrapped: Hex
    """The target's key, encrypted for its holder."""


class PersonWrap(Document):
    """The target's key, wrapped for a person."""

    kind: Literal["person"]
    """That its holder is a person."""
    public: PublicKey
    """The X25519 key of that person."""
    once: PublicKey
    """The X25519 key that was made for this alone."""
    nonce: Hex
    """Nonce of the encryption of the key."""
    wrapped: Hex
    """The target's key, encrypted for its holder."""


Wrapped = KeyFileWrap | PassphraseWrap | PersonWrap


class SealedHeader(Document):
    """The first line of a sealed file."""

    format: Format
    """The format of this document."""
    rows: Whole
    """Records of the file."""
    chunks: Whole
    """Encrypted chunks, the salt among them."""
    wraps: tuple[Annotated[Wrapped, Field(discriminator="kind")], ...]
    """The key, for each of its holders."""


class GrantedAgain(Document):
    """Why records were granted that the steward had met before."""

    reason: Sentence
    """The steward's reason."""
    met: Annotated[str, Field(min_length=1)]
    """Where the records were met."""


class GrantStatement(Document):
    """What a steward grants: one target, for one registry and one set of releases."""

    format: Format
    """The format of this document."""
    registry: Digest
    """The registry that it is for."""
    releases: Digest
    """The releases that it is for."""
    targets: dict[str, Digest]
    """The sealed targets, by member."""
    head: Digest
    """The ledger's head that the steward looked at."""
    keys: dict[str, PersonWrap]
    """The targets' keys for the author, by member."""
    author: Identity
    """The author in force then."""
    steward: Identity
    """The steward."""
    again: GrantedAgain | None
    """Why, if the records were met before."""
    time: str
    """When, by the steward's clock."""


class Grant(Document):
    """`grant.json`: the statement with the steward's signature."""

    grant: GrantStatement
    """What is granted."""
    signature: Hex
    """The steward's signature of its canonical bytes."""
