"""The declaration of an audit, `audit.toml`: what is claimed, before anything is drawn.

Frozen models that refuse a key they do not know: in a pre-registration a misspelt key that
is ignored changes the claim. Numbers that matter are decimal strings, so that they mean
what they read and are sealed as they were written.
"""

from __future__ import annotations

import tomllib
from fractions import Fraction
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    StrictInt,
    StrictStr,
    ValidationError,
    model_validator,
)

from proxyguard.errors import RegistryError
from proxyguard.exact.multiplicity import Dependence
from proxyguard.registry.claim import Bound, Family, Mode, Score
from proxyguard.registry.test import ComponentTest

FORMAT = 1


def _decimal(text: str) -> str:
    try:
        Fraction(text)
    except (ValueError, ZeroDivisionError):
        raise ValueError(
            f'expected a number written as text, such as "0.05", got {text!r}'
        ) from None
    return text


def _share(text: str) -> str:
    if not 0 < Fraction(_decimal(text)) < 1:
        raise ValueError(f'expected a number between 0 and 1, such as "0.05", got {text!r}')
    return text


Decimal = Annotated[StrictStr, AfterValidator(_decimal)]
Share = Annotated[StrictStr, AfterValidator(_share)]
Name = Annotated[StrictStr, Field(min_length=1, max_length=200)]
Count = Annotated[StrictInt, Field(ge=1)]
Seed = Annotated[StrictInt, Field(ge=0, lt=2**53)]


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Reserve(_Part):
    """Rows of one table set aside by a registered seed, before any outcome is parsed."""

    rows: Count
    seed: Seed


class PopulationDraw(_Part):
    """Records drawn from a sealed population."""

    size: Count
    replace: bool
    seed: Seed


class StratifiedDesign(_Part):
    """Fixed stratum sizes with registered weights (Proposition 11)."""

    by: Name
    sizes: dict[Name, Count]
    weights: dict[Name, Share]

    @model_validator(mode="after")
    def _agree(self) -> StratifiedDesign:
        if set(self.sizes) != set(self.weights):
            raise ValueError("sizes and weights must name the same strata")
        if sum(Fraction(w) for w in self.weights.values()) != 1:
            raise ValueError("weights must sum to exactly 1")
        return self


class ClusteredDesign(_Part):
    """Clusters of dependent records, and whether clusters or records weigh alike."""

    by: Name
    weighting: Literal["cluster", "record"] = "cluster"
    max_size: Count | None = None


class WithoutReplacementDesign(_Part):
    """A simple random sample from a pool disjoint from development."""

    pool: Count


class Target(_Part):
    """The records that decide, sealed before anything else; one source of three."""

    table: Name | None = None  # with reserve
    reserve: Reserve | None = None
    file: Name | None = None  # a target kept apart from the start
    population: Name | None = None  # with draw
    draw: PopulationDraw | None = None
    design: Literal["iid"] | StratifiedDesign | ClusteredDesign | WithoutReplacementDesign = "iid"
    outcome: Name | None = None
    positive: StrictStr | StrictInt | None = None

    @model_validator(mode="after")
    def _one_source(self) -> Target:
        given = {
            "table and reserve": (self.table, self.reserve),
            "file": (self.file,),
            "population and draw": (self.population, self.draw),
        }
        named = [name for name, parts in given.items() if any(p is not None for p in parts)]
        whole = [name for name, parts in given.items() if all(p is not None for p in parts)]
        if len(named) != 1 or named != whole:
            raise ValueError(
                f"name one source of target records ({', or '.join(given)}), got "
                f"{' and '.join(named) or 'none'}"
            )
        return self


class Validation(_Part):
    """The part of development that chooses models and thresholds."""

    fraction: Share
    stratify: bool = True
    seed: Seed


class Development(_Part):
    """How the rows outside the target are used."""

    validation: Validation


class Choose(_Part):
    """How the procedure picks its decision threshold on validation data."""

    loss: Name
    false_negative: Decimal = "1"
    thresholds: Annotated[StrictInt, Field(ge=2)] = 501


class Procedure(_Part):
    """The learning procedure: fit, calibrate, choose a decision threshold."""

    library: tuple[Name, ...] = Field(min_length=1)
    calibrate: Literal["none", "temperature"] = "none"
    choose: Choose | None = None


class LimitRule(_Part):
    """A limit from the source's validation risk, resolved and recorded at registration."""

    source_validation_plus: Decimal
    round_up: Decimal | None = None
    at_most: Decimal | None = None


class RequirementPart(_Part):
    """One promise about one bounded loss."""

    name: Name
    loss: Name
    form: Literal["relative", "absolute", "query"]
    limit: Decimal | LimitRule
    slack: Decimal | None = None
    ramp: Decimal | None = None
    group: Name | None = None


class Seeds(_Part):
    """Consecutive seeds, one a draw."""

    first: Seed


class MechanismPart(_Part):
    """A random release mechanism and how often it is drawn."""

    name: Name
    generator: Name
    draws: Count
    seeds: Seeds | tuple[Seed, ...]
    on_failure: Literal["worst_loss", "stop"] = "worst_loss"
    deterministic: bool = False
    options: dict[Name, Any] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _one_seed_a_draw(self) -> MechanismPart:
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


class ClaimPart(_Part):
    """What is claimed and at which error levels."""

    level: Literal["mechanism", "releases"] = "mechanism"
    mode: Mode = Mode.DIRECT
    bound: Bound = Bound.SHARP
    score: Score = Score.PVALUE
    test: ComponentTest | dict[Name, ComponentTest] | None = None
    threshold: Share | None = None
    violation_threshold: Share | None = None
    reliability: Share | None = None
    alpha: Share = "0.05"
    beta: Share | None = "0.05"
    release_share: Share = "0.5"
    target_share: Share = "0.5"
    named_share: Share = "0.5"
    family: Family = Family.DECISIONS
    dependence: Dependence = Dependence.ARBITRARY
    block_size: Count | None = None

    @model_validator(mode="after")
    def _reliability(self) -> ClaimPart:
        about_mechanism = self.level == "mechanism"
        if about_mechanism != (self.reliability is not None):
            raise ValueError(
                "a claim about a mechanism needs reliability, and a claim about named releases "
                f"has none; level is {self.level!r}, reliability {self.reliability!r}"
            )
        return self


class Declaration(_Part):
    """A whole `audit.toml`."""

    format: Literal[1]
    name: Name
    purpose: Name
    target: Target
    development: Development | None = None
    procedure: Procedure | None = None
    requirement: tuple[RequirementPart, ...] = Field(min_length=1)
    mechanism: tuple[MechanismPart, ...] = ()
    claim: ClaimPart

    @model_validator(mode="after")
    def _consistent(self) -> Declaration:
        for kind, names in (
            ("requirement", [r.name for r in self.requirement]),
            ("mechanism", [m.name for m in self.mechanism]),
        ):
            if len(set(names)) < len(names):
                raise ValueError(f"{kind} names must differ, got {names}")
        if self.claim.level == "mechanism" and not self.mechanism:
            raise ValueError("a claim about a mechanism needs at least one [[mechanism]]")
        used: dict[int, str] = {}
        for mechanism in self.mechanism:
            for seed in mechanism.seed_list:
                if used.setdefault(seed, mechanism.name) != mechanism.name:
                    raise ValueError(
                        f"seed {seed} is registered for {used[seed]!r} and for "
                        f"{mechanism.name!r}; every draw needs a seed of its own"
                    )
        return self

    def to_dict(self) -> dict[str, Any]:
        """Return the declaration as plain values, defaults included, ready to be sealed."""
        return self.model_dump(mode="json")


def read_declaration(text: str) -> Declaration:
    """Read `audit.toml`; an error names every key, what was expected and what was found."""
    try:
        value = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise RegistryError(f"the declaration is no TOML: {error}") from error
    if value.get("format") != FORMAT:
        raise RegistryError(
            f"format: this version reads format = {FORMAT}, found {value.get('format')!r}"
        )
    try:
        return Declaration.model_validate(value)
    except ValidationError as error:
        raise RegistryError(_explain(error)) from None


def declaration_schema() -> dict[str, Any]:
    """Return the JSON Schema of `audit.toml`, for editors."""
    return Declaration.model_json_schema()


def _explain(error: ValidationError) -> str:
    """Return one line a problem: the key, what was expected, what was found."""
    problems = error.errors()
    places = {problem["loc"] for problem in problems}
    lines = []
    for problem in problems:
        place = problem["loc"]
        if any(len(other) > len(place) and other[: len(place)] == place for other in places):
            continue  # a list counts as too short when its items failed: say only why they did
        key = ".".join(str(part) for part in place) or "the declaration"
        if problem["type"] == "extra_forbidden":
            lines.append(f"{key}: unknown key; a key that is ignored would change the claim")
        elif problem["type"] == "missing":
            lines.append(f"{key}: missing")
        elif problem["type"] == "value_error":
            lines.append(f"{key}: {problem['msg'].removeprefix('Value error, ')}")
        else:
            found = problem["input"]
            scalar = isinstance(found, str | int | float | bool)
            lines.append(f"{key}: {problem['msg']}{f', found {found!r}' if scalar else ''}")
    return "the declaration cannot be honoured:\n" + "\n".join(f"  {line}" for line in lines)
