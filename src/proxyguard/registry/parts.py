"""What a declaration says besides its target: procedure, requirements, mechanisms, claim."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, StrictInt, StrictStr, model_validator

from proxyguard.exact.multiplicity import Dependence
from proxyguard.registry.claim import Bound, Claim, Family, Mode, Score
from proxyguard.registry.design import Clustered, Design
from proxyguard.registry.fields import (
    Count,
    Decimal,
    DeclarationPart,
    FilePath,
    Name,
    Seed,
    Share,
    Text,
)
from proxyguard.registry.query import Query
from proxyguard.registry.test import ComponentTest


class Validation(DeclarationPart):
    """The part of development that chooses models and thresholds."""

    fraction: Share
    stratify: bool = True
    seed: Seed


class Blocks(DeclarationPart):
    """How many rows of every stratum train and how many choose; the others stay unused.

    The rows of a stratum are shuffled by the reserve's seed, stratum after stratum in the
    order of the design, and dealt out: training, validation, target.
    """

    training: dict[Name, Count] = Field(min_length=1)
    validation: dict[Name, Count] = Field(default_factory=dict)


class Development(DeclarationPart):
    """How the rows outside the target are used."""

    table: FilePath | None = None  # where the target is a file or a population of its own
    validation: Validation | None = None
    blocks: Blocks | None = None  # of a stratified target

    @model_validator(mode="after")
    def _divided_once(self) -> Development:
        if self.blocks is not None and (self.validation is not None or self.table is not None):
            raise ValueError("blocks divide the target's own table: leave table and validation out")
        return self

    @property
    def chooses(self) -> bool:
        """Whether some rows are set aside to choose on."""
        return self.validation is not None or bool(self.blocks and self.blocks.validation)


class Choose(DeclarationPart):
    """How the procedure picks its decision threshold on validation data."""

    loss: Literal["cost", "error"] = "cost"
    false_negative: Decimal = "1"
    thresholds: Count = 501


class Procedure(DeclarationPart):
    """The learning procedure: fit, calibrate, choose a decision threshold.

    ``validation`` says whose records choose model and threshold for a release: those of
    development, a random fifth of the release itself, or the last fifth of it (for tables in
    the order of dates).
    """

    library: tuple[Name, ...] = Field(min_length=1)
    options: dict[Name, Any] = Field(default_factory=dict)  # of an estimator by import path
    trusted: tuple[Name, ...] = ()  # further types that its stored form may contain
    calibrate: Literal["none", "temperature"] = "none"
    choose: Choose | None = None
    validation: Literal["development", "release", "end of release"] = "development"
    seed: Seed = 0  # of the source's own fit
    references: tuple[Literal["constant", "prevalence"], ...] = ("constant", "prevalence")


class SourceRule(DeclarationPart):
    """A limit from the source's validation risk, resolved and recorded at registration."""

    source_validation_plus: Decimal
    round_up: Decimal | None = None
    at_most: Decimal | None = None


class PilotRule(DeclarationPart):
    """A limit from the largest mean among pilot releases on validation data.

    The cutoff is that mean plus a margin, rounded up; the limit is the cutoff plus the
    requirement's slack, rounded up again.
    """

    pilot_largest_plus: Decimal
    pilot: Name
    round_up: Decimal


class SlackRule(DeclarationPart):
    """The smallest slack of a grid whose planned allowance is small enough.

    ``common`` asks for one slack that is enough for every requirement with such a rule;
    ``target_share`` is the share of the error that the allowance is planned with, where the
    claim itself has none.
    """

    smallest_of: tuple[Decimal, ...] = Field(min_length=1)
    allowance: Decimal
    common: bool = False
    target_share: Share | None = None


class RequirementPart(DeclarationPart):
    """One promise about one bounded loss, or about a workload of queries."""

    name: Name
    loss: Name | None = None
    form: Literal["relative", "absolute", "query"]
    limit: Decimal | SourceRule | PilotRule
    slack: Decimal | SlackRule | None = None
    ramp: Decimal | None = None
    group: dict[Name, StrictStr] | None = None  # only records with these values count
    query: Query | None = None
    threshold: Decimal | None = None  # of a decision; None: the procedure's own
    false_negative: Decimal | None = None  # of a cost; None: the procedure's own
    quantile: Share | None = None  # of a pinball loss
    low: Decimal | None = None  # of a loss by import path
    high: Decimal | None = None
    two_valued: bool = False

    @model_validator(mode="after")
    def _one_subject(self) -> RequirementPart:
        if (self.form == "query") != (self.query is not None) or (self.form == "query") == (
            self.loss is not None
        ):
            raise ValueError(
                "a relative or absolute requirement names a loss, a query requirement a query"
            )
        if self.form == "query" and not isinstance(self.limit, str):
            raise ValueError("the limit of a query is a number")
        custom = self.loss is not None and ":" in self.loss
        if (self.low is None) != (self.high is None) or (custom and self.low is None):
            raise ValueError("a loss by import path, module:function, declares low and high")
        if isinstance(self.limit, PilotRule) and not isinstance(self.slack, str):
            raise ValueError("a limit from pilots is a cutoff plus a slack: give the slack")
        if self.group is not None and not self.group:
            raise ValueError("a group is of records with some value, and none is named")
        return self

    @property
    def release_columns(self) -> frozenset[str]:
        """The columns that every release must have: a query is asked of its own group."""
        return frozenset() if self.query is None else self.query.columns | set(self.group or ())


class Seeds(DeclarationPart):
    """Consecutive seeds, one a draw."""

    first: Seed


class Drawn(DeclarationPart):
    """What pilots and mechanisms have in common: a generator and the seeds of its draws."""

    name: Name
    generator: Name | None = None
    draws: Count
    seeds: Seeds | tuple[Seed, ...]
    prepare_seed: Seed = 0  # of what is done once, before any draw
    options: dict[Name, Any] = Field(default_factory=dict)
    allow: tuple[Name, ...] = ()  # what draws may read besides code: devices, interpreters, models

    @model_validator(mode="after")
    def _whole_paths(self) -> Drawn:
        for path in self.allow:
            if not path.startswith(("/", "~/")) or path.strip("/~*") == "" or ".." in path:
                raise ValueError(f"allow names whole paths, such as /dev/nvidia*; {path!r} is none")
        return self

    @model_validator(mode="after")
    def _one_seed_a_draw(self) -> Drawn:
        if isinstance(self.seeds, Seeds) and self.seeds.first + self.draws > 2**32:
            raise ValueError("the seeds run past 2^32, which not every library takes")
        if isinstance(self.seeds, tuple):
            if len(self.seeds) != self.draws:
                raise ValueError(f"{self.draws} draws need as many seeds, got {len(self.seeds)}")
            if len(set(self.seeds)) != len(self.seeds):
                raise ValueError("every draw needs a seed of its own; a seed is repeated")
        return self

    @property
    def seed_list(self) -> tuple[int, ...]:
        """The seed of each draw, in order."""
        if isinstance(self.seeds, tuple):
            return self.seeds
        return tuple(range(self.seeds.first, self.seeds.first + self.draws))


class Pilot(Drawn):
    """Releases drawn before registration and judged on validation data, for rules to use."""

    @model_validator(mode="after")
    def _generated(self) -> Pilot:
        if self.generator is None:
            raise ValueError("a pilot needs a generator")
        return self


class MechanismPart(Drawn):
    """A random release mechanism and how often it is drawn.

    Its generator is named here, or is that of the pilot which a role rule chose.
    """

    role: Literal["high", "moderate", "degraded"] | None = None
    on_failure: Literal["worst_loss", "stop"] = "worst_loss"
    timeout: Count | None = None  # seconds
    deterministic: bool = False

    @model_validator(mode="after")
    def _one_generator(self) -> MechanismPart:
        if (self.generator is None) == (self.role is None):
            raise ValueError("a mechanism needs a generator, or the role of a pilot")
        if self.role is not None and (self.options or self.allow):
            raise ValueError("options and allow of a role are those of its pilot")
        return self


class Roles(DeclarationPart):
    """Which pilots play high, moderate and degraded, by the rule of `choose_roles`."""

    pilots: tuple[Name, ...] = Field(min_length=3)
    moderate: Decimal  # the margin that the moderate role should come closest to
    against: Literal["limit", "cutoff"] = "limit"
    among: Literal["likely", "all"] = "likely"  # which pilots the moderate role may fall to


class ReleasePart(DeclarationPart):
    """A named stand-in: one table that exists already."""

    name: Name
    file: FilePath
    lacks: tuple[Name, ...] = ()  # features of the source that this table does not have


class Disclosure(DeclarationPart):
    """How finely statistics of the target are given away.

    Every one is rounded to so many decimal digits of its unit scale, to the side that weakens
    the claim, before anything is decided. This is no privacy guarantee.
    """

    digits: Annotated[StrictInt, Field(ge=1, le=6)]

    def objections(self, design: Design) -> list[str]:
        """Return why statistics of this design cannot be rounded soundly; empty if they can."""
        if isinstance(design, Clustered) and design.weighting == "record":
            return [
                "disclosure rounds a mean to the side that weakens the claim, and the mean over "
                "records of clusters is a ratio of two target means, which has no such side: "
                'leave disclosure out, or weight clusters alike (weighting = "cluster")'
            ]
        return []


class Secondary(DeclarationPart):
    """Other limits on the same losses, reported beside the certificate; they never decide."""

    name: Name
    limits: dict[Name, Decimal] = Field(min_length=1)


class PlanPart(DeclarationPart):
    """What was planned and expected, as `proxyguard plan` wrote it; it never decides."""

    records: Count
    draws: Count
    power: Decimal  # predicted chance of validation
    reliability: Decimal  # assumed share of valid releases
    margins: dict[Name, Decimal] = Field(default_factory=dict)
    origin: Text
    cost: Decimal | None = None
    seed: Seed = 0


class ClaimPart(DeclarationPart):
    """What is claimed and at which error levels."""

    level: Literal["mechanism", "releases"] = "mechanism"
    mode: Mode | Literal["sequential", "stream"] | None = None
    bound: Bound | None = None
    score: Score | None = None
    test: ComponentTest | dict[Name, ComponentTest] | None = None
    threshold: Share | None = None
    violation_threshold: Share | None = None
    reliability_target: Share | None = None
    alpha: Share = "0.05"
    beta: Share | None = "0.05"
    release_share: Share | None = None
    target_share: Share | None = None
    named_share: Share | None = None
    family: Family | None = None
    shares: dict[Name, Share] | None = None
    dependence: Dependence | None = None
    calibrator: Literal["threshold", "capital"] | None = None
    thresholds: tuple[Share, ...] | None = None
    block_size: Count | None = None
    bounds_level: Share | None = None
    pooled_violations: bool | None = None
    looks: tuple[Count, ...] | None = None  # of a sequential audit
    levels: tuple[Share, ...] | None = None
    futility: bool | None = None
    batch: Count | None = None  # target records a round of a stream

    @model_validator(mode="after")
    def _reliability(self) -> ClaimPart:
        about_mechanism = self.level == "mechanism"
        if about_mechanism != (self.reliability_target is not None):
            raise ValueError(
                "a claim about a mechanism needs reliability_target, and a claim about named "
                f"releases has none; level is {self.level!r}, reliability_target "
                f"{self.reliability_target!r}"
            )
        return self

    @model_validator(mode="after")
    def _own_path(self) -> ClaimPart:
        if self.level == "releases" and self.mode not in (None, Mode.RELEASES, "stream"):
            raise ValueError(f"named releases have no mode {self.mode!r}")
        if self.level == "mechanism" and self.mode in (Mode.RELEASES, "stream"):
            raise ValueError(f'mode {self.mode!r} is about named releases: set level = "releases"')
        if self.mode is Mode.COLLECTIVE:
            raise ValueError(
                "collective mode needs a target of its own for every release; a sealed audit has "
                "one shared target"
            )
        sequential = self.mode == "sequential"
        if sequential != (self.looks is not None) or (sequential and self.threshold is None):
            raise ValueError(
                "a sequential audit registers its looks and the threshold of its score, and "
                "nothing else has looks"
            )
        if not sequential and (self.levels is not None or self.futility is not None):
            raise ValueError("levels and futility belong to a sequential audit")
        if (self.mode == "stream") != (self.batch is not None):
            raise ValueError("a stream registers its batch, target records a round")
        return self

    @property
    def after_opening(self) -> bool:
        """Whether draws and scores follow each other after the target is opened."""
        return self.mode in ("sequential", "stream")

    def to_claim(self) -> Claim:
        """Return the registered choices of a fixed audit; what was left out has its default."""
        if self.after_opening:
            raise ValueError(f"mode {self.mode!r} has a plan of its own")
        values = {
            name: value
            for name, value in self
            if value is not None
            and name not in ("level", "mode", "looks", "levels", "futility", "batch")
        }
        values["beta"] = self.beta
        if self.level == "releases":
            values["mode"] = Mode.RELEASES
        else:
            values["mode"] = Mode.DIRECT if self.mode is None else self.mode
        return Claim.of(values)  # type: ignore[arg-type]  # checked at the door there
