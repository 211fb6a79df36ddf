"""`registry/N.json`: the declaration with everything that its rules resolved to.

What was learned on development data comes first, then what rules made of it: requirements, files of
releases, mechanisms and the code behind every name. A registry is their sum for all members; an
amendment is a registry again.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, JsonValue, PlainSerializer, Tag

from proxyguard.documents.document import Amount, Digest, Document, Format, NumberText, Whole
from proxyguard.registry.declaration import Declaration
from proxyguard.registry.parts import DELIVERED, Procedure, RequirementPart

# A declaration, written as it is sealed: parts that were added later only where declared.
Declared = Annotated[Declaration, PlainSerializer(lambda declaration: declaration.to_dict())]


class Origin(Document):
    """The code that a name leads to."""

    path: str
    """Import path, module:attribute."""
    version: str
    """Version of the package that the module belongs to."""
    code: dict[str, Digest]
    """Digests of the text, by module."""
    also: dict[str, str] | None = None
    """Versions of further modules that it says it calls."""


class SourceModel(Document):
    """The procedure as it was fitted to the source."""

    model: Digest
    """Where the fitted procedure lies in the store."""
    selected: str
    """Which pipeline of the library was chosen."""
    threshold: NumberText | None
    """The decision threshold that was chosen."""
    temperature: NumberText | None
    """The temperature that calibrates."""
    seed: Whole
    """The seed of the fit."""


class PilotFacts(Document):
    """What the draws of a pilot did on validation data."""

    generator: str
    """The pilot's generator."""
    options: dict[str, JsonValue]
    """The options of the generator."""
    allowed: dict[str, Digest] | None = None
    """Digests of the files that its draws were allowed to read."""
    means: dict[str, dict[str, NumberText]]
    """Mean losses on validation data, by seed and requirement."""


class Facts(Document):
    """What was learned on development data, and all that rules are resolved from."""

    source: SourceModel | None
    """The source procedure, if there is one."""
    risks: dict[str, NumberText]
    """The source's mean losses on validation data, by requirement."""
    references: dict[str, dict[str, NumberText]]
    """Mean losses of policies that learn nothing, by policy and requirement."""
    pilots: dict[str, PilotFacts]
    """The pilots by name."""
    domains: dict[str, tuple[str, ...]]
    """The values in training of the text columns that marginals are over."""
    moments: dict[str, tuple[NumberText, NumberText]] = Field(default_factory=dict)
    """Mean and standard deviation in training of the columns that correlations are of."""


class NoFacts(Document):
    """Of losses that were given nothing is learned."""

    @property
    def source(self) -> None:
        """Nothing: there is no source procedure."""


def _facts_kind(plain: Any) -> str:
    # Facts have keys that are always written, so that an empty table can be nothing else.
    return "none" if plain == {} or isinstance(plain, NoFacts) else "some"


MemberFacts = Annotated[
    Annotated[Facts, Tag("some")] | Annotated[NoFacts, Tag("none")], Discriminator(_facts_kind)
]


class ResolvedNumber(Document):
    """A number with the rule that gave it."""

    value: str
    """The number, as text."""
    rule: str
    """The rule, in words."""
    inputs: dict[str, str]
    """What went into the rule."""


class ResolvedRange(Document):
    """A column below the line of a ratio."""

    column: str
    """The column."""
    low: NumberText
    """The least value of a record."""
    high: NumberText
    """The greatest value of a record."""


class ResolvedStandard(Document):
    """A column of a correlation, with the constants that it is standardised by."""

    column: str
    """The column."""
    centre: NumberText
    """What is subtracted."""
    scale: NumberText
    """What it is then divided by."""


class ResolvedQuery(Document):
    """One query of a workload."""

    name: str
    """The name of the requirement that it becomes."""
    low: NumberText
    """The least value of a record."""
    high: NumberText
    """The greatest value of a record."""
    column: str | None
    """The column whose mean is asked for, if it is a mean or a ratio."""
    cell: tuple[tuple[str, str], ...]
    """Columns and values, if it is the share of the records that have them."""
    per: ResolvedRange | None = None
    """The column whose mean stands below the line, if it is a ratio."""
    product: tuple[ResolvedStandard, ...] = ()
    """The two columns that are multiplied, if it is a correlation."""


class ResolvedRequirement(Document):
    """A requirement with its limit, its slack and its queries."""

    part: RequirementPart
    """The requirement as declared."""
    limit: ResolvedNumber
    """The limit."""
    slack: ResolvedNumber | None
    """The slack, where there is one."""
    ramp: ResolvedNumber | None = None
    """The width of the ramp, where a rule gave it."""
    queries: tuple[ResolvedQuery, ...]
    """The queries of a workload."""


class ReleaseFile(Document):
    """A file that a draw reads, as it was when it was registered."""

    name: str
    """Its name, with the folder that the declaration names."""
    seed: Whole | None
    """The draw that it is; nothing if it stands beside them."""
    sha256: Digest | None
    """Digest of its bytes; nothing if it was unreadable."""
    content: Digest | None
    """Digest of its records; nothing if it has none."""
    problem: str | None
    """Why it is no release, if it is none."""


class StandIn(Document):
    """The file of a named release."""

    files: tuple[ReleaseFile, ...]
    """The one file."""


class DrawnMechanism(Document):
    """A mechanism as it was registered: its generator, options, description and code."""

    generator: str
    """Its generator: one of ours, or an import path."""
    options: dict[str, JsonValue]
    """The options of the generator."""
    pilot: str | None
    """The pilot that was given its role, if it has one."""
    describe: dict[str, JsonValue]
    """What the generator says of itself."""
    origin: Origin
    """The generator's code."""
    batch: Amount
    """How many seeds are drawn at once."""
    allowed: dict[str, Digest] | None = None
    """Digests of the files that its draws may read besides code."""
    files: tuple[ReleaseFile, ...] | None = None
    """The files that its draws read, of delivered releases."""
    privacy: tuple[str, ...] | None = None
    """What its releases cost in privacy, in words."""

    @property
    def delivered(self) -> bool:
        """Whether its releases were made elsewhere, so that no draw knows its own members."""
        return self.generator in DELIVERED


class NoOrigin(Document):
    """Of given losses no code is known."""


class GivenMechanism(Document):
    """A mechanism of which the losses were given."""

    generator: Literal["losses"]
    """That the losses were given."""
    options: dict[str, JsonValue] = Field(max_length=0)
    """Nothing."""
    pilot: None
    """Nothing: it has no role."""
    describe: dict[str, JsonValue] = Field(max_length=0)
    """Nothing."""
    origin: NoOrigin
    """Nothing."""


def _mechanism_kind(plain: Any) -> str:
    # By its generator, which a declaration names: given losses have no code and no options.
    generator = plain.get("generator") if isinstance(plain, dict) else plain.generator
    return "given" if generator == "losses" else "drawn"


RegisteredMechanism = Annotated[
    Annotated[DrawnMechanism, Tag("drawn")] | Annotated[GivenMechanism, Tag("given")],
    Discriminator(_mechanism_kind),
]


class RegisteredProcedure(Document):
    """The learning procedure: its settings and its code."""

    procedure: Procedure
    """The procedure as declared."""
    pipelines: dict[str, Origin]
    """The code of each pipeline of its library."""
    features: tuple[str, ...]
    """The columns that predict."""


class RegisteredMember(Document):
    """What was resolved for one target and its source."""

    requirements: tuple[ResolvedRequirement, ...]
    """The requirements."""
    mechanisms: dict[str, RegisteredMechanism]
    """The mechanisms by name."""
    stand_ins: dict[str, StandIn]
    """The named releases and their files."""
    losses: dict[str, Origin]
    """The code of losses and attacks named by import path."""
    procedure: RegisteredProcedure | None
    """The learning procedure, if any."""
    features: tuple[str, ...]
    """The columns that predict."""
    source: SourceModel | None
    """The source procedure, if any."""
    facts: MemberFacts
    """What was learned on development data."""
    commitment: Digest
    """The sealed target that it is about."""

    def drawn(self, name: str) -> DrawnMechanism | None:
        """Return a mechanism that is drawn here; nothing for another name, or for given losses."""
        mechanism = self.mechanisms.get(name)
        return mechanism if isinstance(mechanism, DrawnMechanism) else None

    def files(self, name: str) -> tuple[ReleaseFile, ...]:
        """Return the registered files of a mechanism's draws, or of a named release."""
        if name in self.stand_ins:
            return self.stand_ins[name].files
        mechanism = self.drawn(name)
        return () if mechanism is None else mechanism.files or ()


class ExcludedDraw(Document):
    """A draw that an amendment took out of the claim."""

    mechanism: str
    """The mechanism."""
    seed: Whole
    """The seed of the draw."""


class Registry(Document):
    """A registered declaration, or an amended one, with all that its rules resolved to."""

    format: Format
    """The format of this document."""
    declaration: Declared
    """The declaration, defaults included."""
    members: dict[str, RegisteredMember]
    """What was resolved, by member."""
    software: dict[str, str]
    """Versions that the registry was made with."""
    excluded: tuple[ExcludedDraw, ...] | None = None
    """Of an amendment: the draws that the claim leaves out."""

    @property
    def left_out(self) -> frozenset[tuple[str, int]]:
        """The draws that an amendment took out of the claim, by mechanism and seed."""
        return frozenset((draw.mechanism, draw.seed) for draw in self.excluded or ())

    @property
    def privacy(self) -> dict[str, tuple[str, ...]]:
        """What mechanisms state of privacy; of several members, by member and mechanism."""
        return {
            self.declaration.told_as(member.name, name): mechanism.privacy
            for member in self.declaration.members
            for name, mechanism in self.members[member.name].mechanisms.items()
            if isinstance(mechanism, DrawnMechanism) and mechanism.privacy is not None
        }
