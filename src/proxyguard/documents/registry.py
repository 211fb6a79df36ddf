"""`registry/N.json`: the declaration with everything that its rules resolved to."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, JsonValue, PlainSerializer, Tag

from proxyguard.documents.document import Count, Digest, Document, Format, NumberText, Whole
from proxyguard.registry.declaration import Declaration
from proxyguard.registry.parts import Procedure, RequirementPart

Declared = Annotated[Declaration, PlainSerializer(lambda declaration: declaration.to_dict())]
"""A declaration, written as it is sealed: parts that were added later only where declared."""


class Origin(Document):
    """The code that a name leads to."""

    path: str = Field(description="Import path, module:attribute.")
    version: str = Field(description="Version of the package that the module belongs to.")
    code: dict[str, Digest] = Field(description="Digests of the text, by module.")
    also: dict[str, str] | None = Field(
        default=None, description="Versions of further modules that it says it calls."
    )


class SourceModel(Document):
    """The procedure as it was fitted to the source."""

    model: Digest = Field(description="Where the fitted procedure lies in the store.")
    selected: str = Field(description="Which pipeline of the library was chosen.")
    threshold: NumberText | None = Field(description="The decision threshold that was chosen.")
    temperature: NumberText | None = Field(description="The temperature that calibrates.")
    seed: Whole = Field(description="The seed of the fit.")


class PilotFacts(Document):
    """What the draws of a pilot did on validation data."""

    generator: str = Field(description="The pilot's generator.")
    options: dict[str, JsonValue] = Field(description="The options of the generator.")
    allowed: dict[str, Digest] | None = Field(
        default=None, description="Digests of the files that its draws were allowed to read."
    )
    means: dict[str, dict[str, NumberText]] = Field(
        description="Mean losses on validation data, by seed and requirement."
    )


class Facts(Document):
    """What was learned on development data, and all that rules are resolved from."""

    source: SourceModel | None = Field(description="The source procedure, if there is one.")
    risks: dict[str, NumberText] = Field(
        description="The source's mean losses on validation data, by requirement."
    )
    references: dict[str, dict[str, NumberText]] = Field(
        description="Mean losses of policies that learn nothing, by policy and requirement."
    )
    pilots: dict[str, PilotFacts] = Field(description="The pilots by name.")
    domains: dict[str, tuple[str, ...]] = Field(
        description="The values in training of the text columns that marginals are over."
    )


class NoFacts(Document):
    """Of losses that were given nothing is learned."""

    @property
    def source(self) -> None:
        """Nothing: there is no source procedure."""


def _facts_kind(value: Any) -> str:
    return "none" if value == {} or isinstance(value, NoFacts) else "some"


MemberFacts = Annotated[
    Annotated[Facts, Tag("some")] | Annotated[NoFacts, Tag("none")], Discriminator(_facts_kind)
]


class ResolvedNumber(Document):
    """A number with the rule that gave it."""

    value: str = Field(description="The number, as text.")
    rule: str = Field(description="The rule, in words.")
    inputs: dict[str, str] = Field(description="What went into the rule.")


class ResolvedQuery(Document):
    """One query of a workload."""

    name: str = Field(description="The name of the requirement that it becomes.")
    low: NumberText = Field(description="The least value of a record.")
    high: NumberText = Field(description="The greatest value of a record.")
    column: str | None = Field(description="The column whose mean is asked for, if it is a mean.")
    cell: tuple[tuple[str, str], ...] = Field(
        description="Columns and values, if it is the share of the records that have them."
    )


class ResolvedRequirement(Document):
    """A requirement with its limit, its slack and its queries."""

    part: RequirementPart = Field(description="The requirement as declared.")
    limit: ResolvedNumber = Field(description="The limit.")
    slack: ResolvedNumber | None = Field(description="The slack, where there is one.")
    queries: tuple[ResolvedQuery, ...] = Field(description="The queries of a workload.")


class ReleaseFile(Document):
    """A file that a draw reads, as it was when it was registered."""

    name: str = Field(description="Its name, with the folder that the declaration names.")
    seed: Whole | None = Field(description="The draw that it is; nothing if it stands beside them.")
    sha256: Digest | None = Field(description="Digest of its bytes; nothing if it was unreadable.")
    content: Digest | None = Field(description="Digest of its records; nothing if it has none.")
    problem: str | None = Field(description="Why it is no release, if it is none.")


class StandIn(Document):
    """The file of a named release."""

    files: tuple[ReleaseFile, ...] = Field(description="The one file.")


class DrawnMechanism(Document):
    """A mechanism as it was registered: its generator, options, description and code."""

    generator: str = Field(description="Its generator: one of ours, or an import path.")
    options: dict[str, JsonValue] = Field(description="The options of the generator.")
    pilot: str | None = Field(description="The pilot that was given its role, if it has one.")
    describe: dict[str, JsonValue] = Field(description="What the generator says of itself.")
    origin: Origin = Field(description="The generator's code.")
    batch: Count = Field(description="How many seeds are drawn at once.")
    allowed: dict[str, Digest] | None = Field(
        default=None, description="Digests of the files that its draws may read besides code."
    )
    files: tuple[ReleaseFile, ...] | None = Field(
        default=None, description="The files that its draws read, of delivered releases."
    )
    privacy: tuple[str, ...] | None = Field(
        default=None, description="What its releases cost in privacy, in words."
    )


class NoOrigin(Document):
    """Of given losses no code is known."""


class GivenMechanism(Document):
    """A mechanism of which the losses were given."""

    generator: Literal["losses"] = Field(description="That the losses were given.")
    options: dict[str, JsonValue] = Field(max_length=0, description="Nothing.")
    pilot: None = Field(description="Nothing: it has no role.")
    describe: dict[str, JsonValue] = Field(max_length=0, description="Nothing.")
    origin: NoOrigin = Field(description="Nothing.")


def _mechanism_kind(value: Any) -> str:
    generator = value.get("generator") if isinstance(value, dict) else value.generator
    return "given" if generator == "losses" else "drawn"


RegisteredMechanism = Annotated[
    Annotated[DrawnMechanism, Tag("drawn")] | Annotated[GivenMechanism, Tag("given")],
    Discriminator(_mechanism_kind),
]


class RegisteredProcedure(Document):
    """The learning procedure: its settings and its code."""

    procedure: Procedure = Field(description="The procedure as declared.")
    pipelines: dict[str, Origin] = Field(description="The code of each pipeline of its library.")
    features: tuple[str, ...] = Field(description="The columns that predict.")


class RegisteredMember(Document):
    """What was resolved for one target and its source."""

    requirements: tuple[ResolvedRequirement, ...] = Field(description="The requirements.")
    mechanisms: dict[str, RegisteredMechanism] = Field(description="The mechanisms by name.")
    stand_ins: dict[str, StandIn] = Field(description="The named releases and their files.")
    losses: dict[str, Origin] = Field(description="The code of losses named by import path.")
    procedure: RegisteredProcedure | None = Field(description="The learning procedure, if any.")
    features: tuple[str, ...] = Field(description="The columns that predict.")
    source: SourceModel | None = Field(description="The source procedure, if any.")
    facts: MemberFacts = Field(description="What was learned on development data.")
    commitment: Digest = Field(description="The sealed target that it is about.")

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

    mechanism: str = Field(description="The mechanism.")
    seed: Whole = Field(description="The seed of the draw.")


class Registry(Document):
    """A registered declaration, or an amended one, with all that its rules resolved to."""

    format: Format = Field(description="The format of this document.")
    declaration: Declared = Field(description="The declaration, defaults included.")
    members: dict[str, RegisteredMember] = Field(description="What was resolved, by member.")
    software: dict[str, str] = Field(description="Versions that the registry was made with.")
    excluded: tuple[ExcludedDraw, ...] | None = Field(
        default=None, description="Of an amendment: the draws that the claim leaves out."
    )

    @property
    def left_out(self) -> frozenset[tuple[str, int]]:
        """The draws that an amendment took out of the claim, by mechanism and seed."""
        return frozenset((draw.mechanism, draw.seed) for draw in self.excluded or ())
