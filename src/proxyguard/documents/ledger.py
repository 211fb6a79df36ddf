"""What each entry of the ledger says: one type for the body of every step."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, JsonValue, model_validator

from proxyguard.documents.document import (
    Count,
    Digest,
    Document,
    Files,
    Hex,
    Identity,
    NumberText,
    OneDecimal,
    PublicKey,
)
from proxyguard.documents.evidence import GroupEvidence
from proxyguard.documents.registry import ExcludedDraw, MemberFacts
from proxyguard.documents.releases import DrawnRelease, FailedDraw
from proxyguard.modes.decision import Decision

Stage = Literal[
    "sealed", "developed", "registered", "amended", "drawn", "opened", "scored", "certified",
    "deviated", "corrected", "rotated",
]  # fmt: skip
"""A step of the audit."""
DesignText = str | dict[str, JsonValue]
"""A sampling design as a declaration writes it: a name, or a table."""
Decided = Annotated[Decision, Field(strict=False)]
"""A decision, or its word."""
FILES = "The files that this step wrote, with the digest of their bytes."
TIME = "When, by the author's clock."


class OverlapRecord(Document):
    """How the records of a target met one set of records in an earlier or the same audit."""

    audit: str = Field(description="The name of the other audit.")
    member: str = Field(description="The member of this audit whose target it is.")
    role: str = Field(description="What the other records were: target, training, validation.")
    same_table: bool = Field(description="Whether both come from the same table.")
    records: Count = Field(description="Records of the other set.")
    shared: Count = Field(description="The very records of this target among them.")
    twins: Count = Field(description="Records of this target with the values of one of them.")
    expected_twins: OneDecimal = Field(description="About how many coincidence explains.")
    excess: bool = Field(description="Whether there are more than that.")
    columns: str = Field(description="Over which columns twins agree.")
    same_audit: bool = Field(description="Whether the other set is of this audit.")
    opened: bool = Field(description="Whether the other target had been opened.")
    reused: bool = Field(description="Whether records of this target shaped something before.")


class SealedMember(Document):
    """One sealed target, and the development part beside it."""

    index: Count = Field(description="Number of the target, which names its files.")
    records: Count = Field(description="Records that were sealed.")
    commitment: Digest = Field(description="Digest of salt and records, which binds both.")
    nonce_digest: Digest = Field(description="Digest of the nonce that is revealed at opening.")
    kinds: tuple[tuple[str, str], ...] = Field(description="Columns and their kinds, in order.")
    negative: str | None = Field(description="The other label of a binary outcome.")
    estimand: str = Field(description="What means are means over, in words.")
    development: dict[Literal["training", "validation"], Count] = Field(
        description="Records of the development part, by role."
    )
    expected_twins: dict[str, OneDecimal] = Field(
        description="Twins that coincidence explains, by role."
    )
    releases: tuple[str, ...] | None = Field(
        default=None, description="Of given losses: the releases of their file."
    )
    requirements: tuple[str, ...] | None = Field(
        default=None, description="Of given losses: the requirements of their file."
    )

    @property
    def file_names(self) -> tuple[str, ...]:
        """The files that sealing wrote for it."""
        parts = (f"development/{self.index}.{role}.parquet" for role in self.development)
        return (f"target/{self.index}.sealed", *parts)

    @model_validator(mode="after")
    def _whole(self) -> SealedMember:
        if (self.releases is None) != (self.requirements is None):
            raise ValueError("given losses have names of releases and of requirements")
        return self


class Sealed(Document):
    """The targets were set aside and encrypted."""

    # It names a key file in the home of whoever opens: another text could lead anywhere.
    audit: str = Field(pattern="^[0-9a-f]{32}$", description="Number of the audit, at random.")
    name: str = Field(description="The audit's name.")
    declaration: Digest = Field(description="Digest of the declared targets and development.")
    members: dict[str, SealedMember] = Field(min_length=1, description="The targets by name.")
    lineage: tuple[OverlapRecord, ...] = Field(description="Where the records were met before.")
    files: Files = Field(description=FILES)
    author: Identity = Field(description="Who seals, and signs.")
    steward: Identity | None = Field(description="Who grants the opening, if somebody does.")
    time: str = Field(description=TIME)
    software: dict[str, str] = Field(description="Versions that sealed.")

    @model_validator(mode="after")
    def _vouches(self) -> Sealed:
        for name, member in self.members.items():
            for file in member.file_names:
                if file not in self.files:
                    raise ValueError(f"target {name[:80]!r}: nothing vouches for {file}")
        return self


class Developed(Document):
    """The source was fitted, and pilots were drawn, on development data."""

    members: dict[str, MemberFacts] = Field(description="The facts, by member.")
    files: Files = Field(description=FILES)
    time: str = Field(description=TIME)


class Registered(Document):
    """The claim was frozen."""

    declaration: Digest = Field(description="Digest of the registry.")
    path: Literal["fixed", "sequential"] = Field(
        description="Whether all releases are drawn before the opening."
    )
    lineage: tuple[OverlapRecord, ...] = Field(description="Where the records were met before.")
    files: Files = Field(description=FILES)
    time: str = Field(description=TIME)


class Amended(Document):
    """The claim was changed before the opening."""

    declaration: Digest = Field(description="Digest of the registry that is in force now.")
    supersedes: Digest = Field(description="Digest of the one before.")
    reason: str = Field(description="Why.")
    void: tuple[ExcludedDraw, ...] = Field(
        description="Exclusions of earlier amendments that this one does not repeat."
    )
    pending: Count = Field(description="Draws that waited then, and could be looked at.")
    files: Files = Field(description=FILES)
    time: str = Field(description=TIME)


class RepeatedDraw(Document):
    """A draw that was dropped and made again."""

    mechanism: str = Field(description="The mechanism.")
    seed: Count = Field(description="The seed of the draw.")
    same: bool = Field(description="Whether it came out the same.")


class Frozen(Document):
    """All releases of a fixed audit were drawn and frozen."""

    releases: Digest = Field(description="Digest of the manifest of releases.")
    registry: Digest = Field(description="The registry that they were drawn for.")
    again: tuple[RepeatedDraw, ...] = Field(description="Draws that were made again.")
    files: Files = Field(description=FILES)
    time: str = Field(description=TIME)


class Committed(Document):
    """One release was drawn after the opening, and is fixed before its score exists."""

    release: Digest = Field(description="Digest of the record.")
    record: Annotated[DrawnRelease | FailedDraw, Field(discriminator="status")] = Field(
        description="What was drawn."
    )
    files: Files = Field(description=FILES)
    time: str = Field(description=TIME)


class Opened(Document):
    """The target is opened: recorded before its key is used."""

    registry: Digest = Field(description="The registry that it is opened for.")
    releases: Digest = Field(description="The releases that it is opened for.")
    lineage: tuple[OverlapRecord, ...] = Field(description="Where the records were met before.")
    seal_known: bool = Field(description="Whether the lineage store knew this audit's own seal.")
    grant: Digest | None = Field(description="Digest of the grant, if there is a steward.")
    files: Files = Field(description=FILES)
    time: str = Field(description=TIME)


class Favored(Document):
    """A committed draw of a sequential audit was scored."""

    release: Digest = Field(description="Digest of the committed record.")
    favorable: bool = Field(description="Whether its score counts for the mechanism.")
    statistics: GroupEvidence = Field(description="Its statistics.")
    time: str = Field(description=TIME)


class Judged(Document):
    """A candidate of a stream was judged on its own batch of target records."""

    release: Digest = Field(description="Digest of the committed record.")
    round: Annotated[int, Field(ge=1)] = Field(description="Number of the round.")
    decision: Literal["validated", "unresolved"] = Field(description="What was decided.")
    level: NumberText = Field(description="The error level of the round.")
    statistics: GroupEvidence = Field(description="Its statistics.")
    time: str = Field(description=TIME)


class Certified(Document):
    """The certificate was signed."""

    files: Files = Field(description=FILES)
    time: str = Field(description=TIME)


class Deviated(Document):
    """Something was not done as registered."""

    reason: str = Field(description="What happened.")
    design: DesignText | None = Field(
        default=None, description="The design of a second correction that was asked for."
    )
    time: str = Field(description=TIME)


class Corrected(Document):
    """The corrective certificate was made, under another sampling design."""

    reason: str = Field(description="Why.")
    design: DesignText = Field(description="The sampling design that it turned out to be.")
    decisions: dict[str, Decided] = Field(description="What it says of each mechanism.")
    correction: Digest = Field(description="Digest of the corrective certificate.")
    files: Files = Field(description=FILES)
    time: str = Field(description=TIME)


class Rotated(Document):
    """The key in force handed over to another one."""

    successor: Identity = Field(description="Who signs from now on.")
    consent: Hex = Field(description="The successor's signature of the ledger's head.")
    time: str = Field(description=TIME)


Body = (
    Sealed
    | Developed
    | Registered
    | Amended
    | Frozen
    | Committed
    | Opened
    | Favored
    | Judged
    | Certified
    | Deviated
    | Corrected
    | Rotated
)


_TELLS = {"drawn": "record", "scored": "round"}
_BODIES: dict[str, tuple[type[Body], ...]] = {
    "sealed": (Sealed,),
    "developed": (Developed,),
    "registered": (Registered,),
    "amended": (Amended,),
    "drawn": (Frozen, Committed),
    "opened": (Opened,),
    "scored": (Favored, Judged),
    "certified": (Certified,),
    "deviated": (Deviated,),
    "corrected": (Corrected,),
    "rotated": (Rotated,),
}


def body_type(stage: str, body: object) -> type[Body]:
    """Return the type of an entry's body: by its step, and by what two forms of a step differ in.

    What lacks both has the first form, which then says what is missing.
    """
    first, *other = _BODIES[stage]
    if other and isinstance(body, dict) and _TELLS[stage] in body:
        return other[0]
    return first


class LedgerEntry(Document):
    """One recorded step, as a line of the ledger holds it; the body has a type by its step."""

    format: Literal[2] = Field(description="The format of this document.")
    index: Count = Field(description="Number of the entry, from 0.")
    stage: Stage = Field(description="The step.")
    signer: PublicKey = Field(description="The key that signs it.")
    body: dict[str, JsonValue] = Field(description="What the step says.")
    previous: Digest = Field(description="Digest of the entry before it.")


class SignedEntry(Document):
    """A line of `ledger.jsonl`."""

    entry: LedgerEntry = Field(description="The entry.")
    signature: Hex = Field(description="Signature of the entry's canonical bytes.")
