"""What a declaration says besides its target, each table of `audit.toml` as one class.

In the order of an audit: how development is divided, the learning procedure, the requirements and
the rules for their limits, pilots and mechanisms and their seeds, named releases, what is
disclosed and planned, the claim, and the budget for choosing releases after looking, `[picks]`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Annotated, Literal

from pydantic import (
    AfterValidator,
    ConfigDict,
    Field,
    JsonValue,
    StrictInt,
    StrictStr,
    WithJsonSchema,
    model_validator,
)
from pydantic.config import JsonDict

from proxyguard.exact.multiplicity import Dependence
from proxyguard.modes.catalog import DEFAULT, NO_MECHANISM, mode_class, mode_names
from proxyguard.modes.claim import Claim, Mode
from proxyguard.modes.sequential import SequentialPlan
from proxyguard.printable import found
from proxyguard.registry.budget import family_shares
from proxyguard.registry.design import Design, clusters_of, tests_excess
from proxyguard.registry.exposure import ExposureKind, ThresholdRule
from proxyguard.registry.fields import (
    DecimalText,
    DeclarationPart,
    DrawCount,
    FilePath,
    GridSize,
    Name,
    Positive,
    Query,
    SeedNumber,
    Share,
    Text,
    number,
)
from proxyguard.registry.requirement import Requirement, check_range
from proxyguard.registry.test import Bound, ComponentTest, Family, Score


class Validation(DeclarationPart):
    """The part of development that chooses models and thresholds."""

    fraction: Share
    """Share of the development rows that choose."""
    stratify: bool = True
    """Whether each outcome has that share."""
    seed: SeedNumber
    """Seed of the division."""


class Blocks(DeclarationPart):
    """How many rows of every stratum train and how many choose; the others stay unused.

    The rows of a stratum are shuffled by the reserve's seed, stratum after stratum in the
    order of the design, and dealt out: training, validation, target.
    """

    training: dict[Name, Positive] = Field(min_length=1)
    """Rows that train, by stratum."""
    validation: dict[Name, Positive] = Field(default_factory=dict)
    """Rows that choose, by stratum."""


class Development(DeclarationPart):
    """How the rows outside the target are used."""

    table: FilePath | None = None
    """The table, where the target is a file or a population of its own."""
    validation: Validation | None = None
    """The part that chooses models and thresholds."""
    blocks: Blocks | None = None
    """The rows of every stratum, of a stratified target."""
    members: Share | None = None
    """Share of the development rows that train, where others are held out for attacks."""
    reference: Share | None = None
    """Share that attacks compare with; nothing is trained on it."""
    calibration: Share | None = None
    """Share that thresholds of attacks are taken from; nothing is trained on it."""
    split_seed: SeedNumber | None = None
    """Seed of the division into members, reference and calibration."""
    survey: Literal["the target's", "another"] = "the target's"
    """Of strata with design weights: whose survey its table is of; clusters of the target's survey
    are among those that it sampled."""

    LATER = ("survey",)

    @model_validator(mode="after")
    def _divided_once(self) -> Development:
        if self.blocks is not None and (self.validation is not None or self.table is not None):
            raise ValueError("blocks divide the target's own table: leave table and validation out")
        return self

    @model_validator(mode="after")
    def _held_out(self) -> Development:
        held = (self.members, self.reference, self.split_seed)
        if any(key is not None for key in (*held, self.calibration)) and None in held:
            raise ValueError(
                "members, reference and split_seed go together, with calibration where a "
                "threshold is taken from it"
            )
        if self.members is None:
            return self
        if self.blocks is not None:
            raise ValueError("blocks say already which rows train: leave members out")
        chosen = None if self.validation is None else self.validation.fraction
        shares = [text for text in (*held[:2], self.calibration, chosen) if isinstance(text, str)]
        total = sum(map(Fraction, shares))
        # Said in full, so that nobody finds out later which rows were left over.
        if total != 1:
            raise ValueError(
                f"members, reference, calibration and validation.fraction are shares of all "
                f"development rows and sum to 1; {' + '.join(shares)} is {float(total):g}"
            )
        return self

    @property
    def chooses(self) -> bool:
        """Whether some rows are set aside to choose on."""
        return self.validation is not None or bool(self.blocks and self.blocks.validation)


class Choose(DeclarationPart):
    """How the procedure picks its decision threshold on validation data."""

    loss: Literal["cost", "error"] = "cost"
    """The loss that the threshold makes small."""
    false_negative: DecimalText = "1"
    """What a false negative costs, a false positive being 1."""
    thresholds: GridSize = 501
    """How many thresholds are tried."""


class Procedure(DeclarationPart):
    """The learning procedure: fit, calibrate, choose a decision threshold.

    ``validation`` says whose records choose model and threshold for a release: those of
    development, a random fifth of the release itself, or the last fifth of it (for tables in
    the order of dates).
    """

    library: tuple[Name, ...] = Field(min_length=1)
    """Pipelines to choose from: names of ours, or import paths."""
    options: dict[Name, JsonValue] = Field(default_factory=dict)
    """Options of an estimator that is named by import path."""
    trusted: tuple[Name, ...] = ()
    """Further types that its stored form may contain."""
    calibrate: Literal["none", "temperature"] = "none"
    """How predictions are calibrated."""
    choose: Choose | None = None
    """How the decision threshold is chosen."""
    validation: Literal["development", "release", "end of release"] = "development"
    """Whose records choose for a release."""
    seed: SeedNumber = 0
    """Seed of the source's own fit."""
    references: tuple[Literal["constant", "prevalence"], ...] = ("constant", "prevalence")
    """Policies that learn nothing, for comparison."""


class SourceRule(DeclarationPart):
    """A limit from the source's validation risk, resolved and recorded at registration."""

    source_validation_plus: DecimalText
    """What is added to the source's validation risk."""
    round_up: DecimalText | None = None
    """The step to which the sum is rounded up."""
    at_most: DecimalText | None = None
    """The greatest limit."""


class PilotRule(DeclarationPart):
    """A limit from the largest mean among pilot releases on validation data.

    The cutoff is that mean plus a margin, rounded up; the limit is the cutoff plus the
    requirement's slack, rounded up again.
    """

    pilot_largest_plus: DecimalText
    """What is added to the largest mean of the pilot."""
    pilot: Name
    """The pilot."""
    round_up: DecimalText
    """The step to which sums are rounded up."""


class SlackRule(DeclarationPart):
    """The smallest slack of a grid whose planned allowance is small enough.

    ``common`` asks for one slack that is enough for every requirement with such a rule;
    ``target_share`` is the share of the error that the allowance is planned with, where the
    claim itself has none.
    """

    smallest_of: tuple[DecimalText, ...] = Field(min_length=1)
    """The slacks to choose from."""
    allowance: DecimalText
    """The allowance that the slack must come below."""
    common: bool = False
    """Whether one slack is for all requirements with such a rule."""
    target_share: Share | None = None
    """Share of the error that the allowance is planned with."""


class RampRule(DeclarationPart):
    """The ramp with the largest lower bound of the claim, if draws score as those of a pilot.

    Its width is a share of the distance to the cutoff from the middle of the pilot's means below
    it, one of fifteen, which all requirements with this rule have in common. It depends on
    development alone: one that looked at the target, or at the draws that are scored, would
    void the bound (theory section 2).
    """

    width: Literal["development"]
    """That it is chosen on development, and never on the target or on draws that are scored."""
    pilot: Name
    """The pilot, judged on validation data; its seeds are none of a mechanism's."""


def _one_word(text: str) -> str:
    if text != text.strip() or not text.isprintable() or text[0].isdigit():
        raise ValueError(f'a unit is its name alone, such as "kg", got {text!r}')
    return text


# What stands behind a number: it is shown in sentences, tables and pictures.
UnitName = Annotated[StrictStr, Field(min_length=1, max_length=40), AfterValidator(_one_word)]


class RequirementPart(DeclarationPart):
    """One promise about one bounded loss, or about a workload of queries."""

    name: Name
    """Its name."""
    loss: Name | None = None
    """The loss: one of ours, or an import path."""
    form: Literal["relative", "absolute", "query", "exposure"]
    """Relative to the source, absolute, about a query, or about exposure (left out there)."""
    limit: DecimalText | SourceRule | PilotRule
    """The limit, or the rule that gives it."""
    slack: DecimalText | SlackRule | None = None
    """How much stricter the cutoff of a score is, or the rule."""
    ramp: DecimalText | RampRule | None = None
    """Width of the ramp of a smooth score, or the rule, resolved and recorded at registration."""
    group: dict[Name, StrictStr] | None = None
    """Columns and values: only records that have them count."""
    query: Query | None = None
    """What is asked of a released table."""
    exposure: ExposureKind | None = None
    """What is required of the scores of attacks."""
    attacks: tuple[Name, ...] | None = Field(default=None, min_length=1)
    """Of an exposure: the attacks, all of which must stay below the limit."""
    fpr: Share | None = None
    """Of tpr at fpr: the share of false alarms."""
    threshold: DecimalText | ThresholdRule | None = None
    """Of a decision; left out, the procedure's own. Of an advantage: who is flagged."""
    false_negative: DecimalText | None = None
    """Of a cost; left out, the procedure's own."""
    quantile: Share | None = None
    """Of a pinball loss."""
    low: DecimalText | None = None
    """The least loss, of a loss by import path."""
    high: DecimalText | None = None
    """The greatest loss, of a loss by import path."""
    two_valued: bool = False
    """Whether every loss is one of its two bounds."""
    unit: UnitName | None = None
    """Of a loss of numbers: the outcome's unit, such as "kg", in which its limit, slack and ramp
    then are; left out, they are shares of the outcome's range. Of a loss with declared bounds, a
    mean or a ratio: the name of the unit that it is in anyway."""

    LATER = ("unit",)

    @model_validator(mode="before")
    @classmethod
    def _form_of_exposure(cls, given: object) -> object:
        # An exposure has one form: writing it twice would say nothing.
        if isinstance(given, dict) and "exposure" in given and "form" not in given:
            return {**given, "form": "exposure"}
        return given

    @model_validator(mode="after")
    def _exposure(self) -> RequirementPart:
        about = self.form == "exposure"
        if about != (self.exposure is not None) or about != (self.attacks is not None):
            raise ValueError("an exposure names its attacks, and no other requirement has any")
        if not about:
            if self.fpr is not None or isinstance(self.threshold, ThresholdRule):
                raise ValueError("fpr and a threshold by quantile are of exposures")
            return self
        if not isinstance(self.limit, str):
            raise ValueError("the limit of an exposure is a number")
        if not 0 < Fraction(self.limit) < 1:
            raise ValueError(f"the limit of an exposure is between 0 and 1, got {self.limit}")
        if self.slack is not None or self.ramp is not None:
            raise ValueError("an exposure has no slack and no ramp: its releases score by p-value")
        if (self.exposure is ExposureKind.ADVANTAGE) != isinstance(self.threshold, ThresholdRule):
            raise ValueError(
                'exposure = "advantage", and nothing else, has threshold = { quantile = "0.95" }: '
                "from which score on a row is flagged"
            )
        if (self.exposure is ExposureKind.TPR) != (self.fpr is not None):
            raise ValueError('exposure = "tpr at fpr", and nothing else, has fpr')
        names = self.attacks or ()
        if len(set(names)) < len(names):
            raise ValueError(f"attacks are named once each, got {list(names)}")
        return self

    @model_validator(mode="after")
    def _one_subject(self) -> RequirementPart:
        if self.form == "exposure":
            if self.loss is not None or self.query is not None or self.low is not None:
                raise ValueError("an exposure has attacks, and neither loss nor query")
            return self._group_named()
        if (self.form == "query") != (self.query is not None) or (self.form == "query") == (
            self.loss is not None
        ):
            raise ValueError(
                "a relative or absolute requirement names a loss, a query requirement a query"
            )
        if self.form == "query" and not isinstance(self.limit, str):
            raise ValueError("the limit of a query is a number")
        if self.is_ratio:
            self._check_ratio()
        custom = self.loss is not None and ":" in self.loss
        if (self.low is None) != (self.high is None) or (custom and self.low is None):
            raise ValueError("a loss by import path, module:function, declares low and high")
        if isinstance(self.limit, PilotRule) and not isinstance(self.slack, str):
            raise ValueError("a limit from pilots is a cutoff plus a slack: give the slack")
        if isinstance(self.ramp, RampRule) and (self.slack is None or self.query is not None):
            raise ValueError(
                "a ramp from development falls from a cutoff towards pilots, which judge losses: "
                "give the slack; of a query the ramp is a number"
            )
        self._check_unit()
        return self._group_named()

    @property
    def is_ratio(self) -> bool:
        """Whether it is about a ratio of two means, whose limit is a part of what is averaged."""
        return self.query is not None and self.query.ratio is not None

    @property
    def own_unit(self) -> str:
        """What stands behind its numbers as they are registered; nothing where none is named."""
        if self.unit is None:
            return ""
        return f"squared {self.unit}" if self.loss == "squared" else self.unit

    def _check_unit(self) -> None:
        if self.unit is None:
            return
        if self.query is not None and self.query.mean is None and self.query.ratio is None:
            raise ValueError(
                "a share or a correlation has no unit of its own: leave unit out; a mean or a "
                "ratio may have one"
            )
        if isinstance(self.slack, SlackRule):
            raise ValueError(
                "a slack that is chosen from a plan is a share of the range; with a unit give it "
                'as a number in that unit, such as slack = "0.5"'
            )

    def _check_ratio(self) -> None:
        if number(str(self.limit)) <= 0.0:
            raise ValueError(f"the limit of a ratio is above 0, got {self.limit}")
        check_range("the limit of a ratio", 0.0, number(str(self.limit)))
        if self.slack is not None or self.ramp is not None:
            raise ValueError(
                "a ratio has no slack and no ramp, because its limit is no cutoff of a mean: leave "
                "them out, and its releases score by p-value"
            )

    def _group_named(self) -> RequirementPart:
        if self.group is not None and not self.group:
            raise ValueError("a group is of records with some value, and none is named")
        return self

    @property
    def release_columns(self) -> frozenset[str]:
        """The columns that every release must have: a query is asked of its own group."""
        return frozenset() if self.query is None else self.query.columns | set(self.group or ())


class Seeds(DeclarationPart):
    """Consecutive seeds, one a draw."""

    first: SeedNumber
    """The first of consecutive seeds."""


# Generators that hand on files which were made elsewhere.
DELIVERED = ("files", "predictions")
# Those whose releases exist already: a declaration of one needs no seeds.
GIVEN = (*DELIVERED, "losses")


def _seeds_may_be_left_out(schema: JsonDict) -> None:
    """Let an editor take a mechanism of files without seeds."""
    needed = schema["required"]
    assert isinstance(needed, list)  # of names
    schema["required"] = [name for name in needed if name != "seeds"]


class Drawn(DeclarationPart):
    """What pilots and mechanisms have in common: a generator and the seeds of its draws."""

    model_config = ConfigDict(json_schema_extra=_seeds_may_be_left_out)

    name: Name
    """Its name."""
    generator: Name | None = None
    """One of ours, an entry point, or an import path."""
    draws: DrawCount
    """How many releases are drawn."""
    seeds: Seeds | tuple[SeedNumber, ...]
    """The seeds, one a draw; of files, predictions and losses the numbers of the files, from 0."""
    prepare_seed: SeedNumber = 0
    """Seed of what is done once, before any draw."""
    options: dict[Name, JsonValue] = Field(default_factory=dict)
    """Options of the generator."""
    allow: tuple[Name, ...] = ()
    """What draws may read besides code: devices, interpreters, models."""

    @model_validator(mode="before")
    @classmethod
    def _seeds_of_files(cls, given: object) -> object:
        # What exists already is not drawn from seeds: they number the files, from the first.
        if isinstance(given, dict) and given.get("generator") in GIVEN and "seeds" not in given:
            options = given.get("options")
            first = options.get("first", 0) if isinstance(options, dict) else 0
            return {**given, "seeds": {"first": first}}
        return given

    @model_validator(mode="after")
    def _whole_paths(self) -> Drawn:
        # A relative path means another file wherever the draw runs, and a bare star all of them.
        for path in self.allow:
            if not path.startswith(("/", "~/")) or path.strip("/~*") == "" or ".." in path:
                raise ValueError(f"allow names whole paths, such as /dev/nvidia*; {path!r} is none")
        return self

    @model_validator(mode="after")
    def _one_seed_a_draw(self) -> Drawn:
        # A seed that a library cuts to 32 bits could be the seed of another draw.
        if isinstance(self.seeds, Seeds) and self.seeds.first + self.draws > 2**32:
            raise ValueError("the seeds run past 2^32, which not every library takes")
        if isinstance(self.seeds, tuple):
            if len(self.seeds) != self.draws:
                raise ValueError(
                    f"{self.draws} draws need as many seeds, got {len(self.seeds)}; for "
                    "consecutive ones write seeds = { first = 100 }"
                )
            if len(set(self.seeds)) != len(self.seeds):
                twice = next(s for k, s in enumerate(self.seeds) if s in self.seeds[:k])
                raise ValueError(
                    f"every draw needs a seed of its own; a seed is repeated, {found(twice)}"
                )
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
    """The role that a pilot is chosen for."""
    on_failure: Literal["worst_loss", "stop"] = "worst_loss"
    """Whether a failed draw counts with the worst loss, or stops the audit."""
    timeout: Positive | None = None
    """Seconds that a draw may take, and as many again the fit to it."""
    deterministic: bool = False
    """That it has no randomness: every seed gives one release."""
    inclusion: Literal["all", "coins"] = "all"
    """Which training rows a draw gets: all, or each by a coin of its own, drawn from the seed."""

    @model_validator(mode="after")
    def _tossed(self) -> MechanismPart:
        if self.inclusion == "all":
            return self
        if self.generator in (*GIVEN, None):
            raise ValueError(
                'inclusion = "coins" is for a generator that is named here and trained here; '
                f"what {self.generator or 'a role'} gives was made from rows that no coin of ours "
                "chose: leave it out"
            )
        if self.deterministic:
            raise ValueError(
                'with inclusion = "coins" every seed has other rows: leave deterministic out'
            )
        # Our generators name the rows that they draw as members, which coins have named already:
        # every draw would fail. Others are asked when they draw.
        chosen = [option for option in ("train_rows", "bootstrap") if self.options.get(option)]
        if chosen and ":" not in self.generator:
            raise ValueError(
                f'with inclusion = "coins" the coins choose the training rows: leave '
                f"{' and '.join(chosen)} out of the options"
            )
        return self

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
    """The pilots to choose from."""
    moderate: DecimalText
    """The margin that the moderate role should come closest to."""
    against: Literal["limit", "cutoff"] = "limit"
    """Whether margins are to the limit or to the cutoff."""
    among: Literal["likely", "all"] = "likely"
    """Which pilots the moderate role may fall to."""


class ReleasePart(DeclarationPart):
    """A named stand-in: one table that exists already."""

    name: Name
    """Its name."""
    file: FilePath
    """The table."""
    lacks: tuple[Name, ...] = ()
    """Features of the source that this table does not have."""


# The digits of a disclosure, and its steps that there should be below a limit.
DIGITS = range(1, 7)
SMALL_STEPS = 10


class Disclosure(DeclarationPart):
    """How finely statistics of the target are given away.

    Every one is rounded to so many decimal digits of its unit scale, to the side that weakens
    the claim, before anything is decided. This is no privacy guarantee.
    """

    digits: Annotated[StrictInt, Field(ge=DIGITS[0], le=DIGITS[-1])]
    """Decimal digits that every statistic is rounded to."""


def rounding_objections(design: Design, requirements: Sequence[Requirement]) -> list[str]:
    """Return why statistics of a design cannot be rounded soundly; empty if they can.

    Parameters
    ----------
    design
        How the target is sampled.
    requirements
        What is required, of which some may count missing losses at a bound.
    """
    objections = []
    if tests_excess(design):
        clustered = clusters_of(design) is not None
        what = "the mean over records of clusters" if clustered else "a weighted mean"
        other = 'weight clusters alike (weighting = "cluster")' if clustered else "weights"
        objections.append(
            f"disclosure rounds a mean to the side that weakens the claim, and {what} is a "
            "ratio of two target means, which has no such side: leave disclosure out, or "
            f"{other}"
        )
    if any(requirement.fills_missing for requirement in requirements):
        objections.append(
            "disclosure rounds statistics of one set of losses, and missing outcomes are filled by "
            'direction: leave disclosure out, or missing_outcomes = "worst"'
        )
    return objections


def least_digits(requirement: Requirement) -> int:
    """Return the fewest digits whose step is a small part of the room below a limit.

    Where no digits are fine enough, one more than there may be.
    """
    low, limit = requirement.low, requirement.limit
    room = (limit - low if low >= 0.0 else abs(limit)) * (1.0 + 1e-9)
    # Of a share the count is rounded, which lies between 0 and 1.
    step = SMALL_STEPS * (1.0 if requirement.indicator else requirement.width)
    fine = (d for d in DIGITS if not 0.0 < room < step / 10**d)
    return next(fine, DIGITS.stop)


def useful_digits(n: int, requirements: Sequence[Requirement]) -> range:
    """Return the digits that round counts of ``n`` records and are fine enough for these limits.

    Whoever proposes a disclosure, or another one, proposes these alone: with fewer, releases well
    below a limit do not score, and with more a count is told as it is.

    >>> risk = Requirement(name="risk", low=0, high=1, limit=0.1)
    >>> useful_digits(5000, [risk]), useful_digits(60, [risk])
    (range(2, 4), range(2, 2))
    """
    fewest = max(map(least_digits, requirements), default=DIGITS.start)
    return range(fewest, max((d for d in DIGITS if 10**d < n), default=0) + 1)


class Secondary(DeclarationPart):
    """Other limits on the same losses, reported beside the certificate; they never decide."""

    name: Name
    """Its name."""
    limits: dict[Name, DecimalText] = Field(min_length=1)
    """The other limits, by requirement."""


class PlanPart(DeclarationPart):
    """What was planned and expected, as `proxyguard plan` wrote it; it never decides."""

    records: Positive
    """Target records that were planned."""
    draws: DrawCount
    """Draws that were planned."""
    power: DecimalText
    """Predicted chance of validation."""
    reliability: DecimalText
    """Assumed share of valid releases."""
    margins: dict[Name, DecimalText] = Field(default_factory=dict)
    """Assumed margins, by requirement."""
    origin: Text
    """Where the assumptions come from."""
    cost: DecimalText | None = None
    """What the audit was expected to cost."""
    seed: SeedNumber = 0
    """Seed of the planner's simulation."""


def _known_mode(name: str) -> str:
    return mode_class(name).mode


ModeName = Annotated[
    StrictStr,
    AfterValidator(_known_mode),
    WithJsonSchema({"type": "string", "enum": mode_names()}),
]


class ClaimPart(DeclarationPart):
    """What is claimed and at which error levels."""

    level: Literal["mechanism", "releases"] = "mechanism"
    """Whether it is about mechanisms or about named releases."""
    mode: ModeName | None = None
    """The certificate that decides."""
    bound: Bound | None = None
    """Which bound on the reliability."""
    score: Score | None = None
    """How releases are scored."""
    test: ComponentTest | dict[Name, ComponentTest] | None = None
    """The component test, for all requirements or by requirement."""
    threshold: Share | None = None
    """Threshold of a favorable score."""
    violation_threshold: Share | None = None
    """Threshold of a violating score."""
    reliability_target: Share | None = None
    """The reliability that must be exceeded."""
    alpha: Share = "0.05"
    """Error level of validation."""
    beta: Share | None = "0.05"
    """Error level of violation; null claims none."""
    release_share: Share | None = None
    """Share of the error for releases."""
    target_share: Share | None = None
    """Share of the error for the target."""
    named_share: Share | None = None
    """Share of the error for the named part of a hybrid."""
    family: Family | None = None
    """Whether bounds or decisions hold for all mechanisms at once."""
    shares: dict[Name, Share] | None = None
    """Share of the error, by mechanism."""
    dependence: Dependence | None = None
    """What is assumed about the dependence of p-values."""
    calibrator: Literal["threshold", "capital"] | None = None
    """How p-values become e-values."""
    thresholds: tuple[Share, ...] | None = None
    """Thresholds of the calibrator."""
    block_size: Positive | None = None
    """Records of a block."""
    pooled_violations: bool | None = None
    """Whether violations are counted over all releases."""
    looks: tuple[DrawCount, ...] | None = None
    """Of a sequential audit: the draws after which it may stop."""
    levels: tuple[Share, ...] | None = None
    """Of a sequential audit: reliabilities that are bounded besides."""
    futility: bool | None = None
    """Of a sequential audit: whether it stops when it cannot succeed."""
    batch: Positive | None = None
    """Of a stream: target records a round."""

    @model_validator(mode="after")
    def _reliability(self) -> ClaimPart:
        about_mechanism = self.level == "mechanism"
        if about_mechanism != (self.reliability_target is not None):
            raise ValueError(
                "a claim about a mechanism needs reliability_target, such as "
                'reliability_target = "0.9", and a claim about named releases has none; level is '
                f'"{self.level}"'
            )
        return self

    @model_validator(mode="after")
    def _own_path(self) -> ClaimPart:
        if self.mode is not None and self.kind.about != self.level:
            if self.level == "releases":
                raise ValueError(f"named releases have no mode {self.mode!r}")
            raise ValueError(f'mode {self.mode!r} is about named releases: set level = "releases"')
        if self.kind.own_batches:
            raise ValueError(
                f"{self.mode} mode needs a target of its own for every release; a sealed audit has "
                "one shared target"
            )
        if self.sequential != (self.looks is not None) or (
            self.sequential and self.threshold is None
        ):
            raise ValueError(
                'a sequential audit, mode = "sequential", registers its looks and the threshold '
                "of its score, and nothing else has looks"
            )
        if not self.sequential and (self.levels is not None or self.futility is not None):
            raise ValueError("levels and futility belong to a sequential audit")
        if self.stream != (self.batch is not None):
            raise ValueError("a stream registers its batch, target records a round")
        return self

    @property
    def kind(self) -> type[Mode]:
        """The mode that decides, which knows what there is to ask of it."""
        return mode_class(self.mode or (NO_MECHANISM if self.level == "releases" else DEFAULT))

    @property
    def after_opening(self) -> bool:
        """Whether draws and scores follow each other after the target is opened."""
        return self.kind.after_opening

    @property
    def sequential(self) -> bool:
        """Whether one mechanism is drawn and looked at until a look settles it."""
        return self.kind.after_opening and not self.kind.in_rounds

    @property
    def stream(self) -> bool:
        """Whether candidates come from outside, one a round."""
        return self.kind.in_rounds

    def to_claim(self) -> Claim:
        """Return the registered choices of a fixed audit; what was left out has its default."""
        if self.after_opening:
            raise ValueError(f"mode {self.mode!r} has a plan of its own")
        elsewhere = ("level", "mode", "looks", "levels", "futility", "batch")
        chosen = {name: choice for name, choice in self if choice is not None}
        chosen = {name: choice for name, choice in chosen.items() if name not in elsewhere}
        # No beta claims no violation; left out it would be the default level.
        return Claim.of({**chosen, "beta": self.beta, "mode": self.kind.mode})

    def sequential_plan(self) -> SequentialPlan:
        """Return the registered plan of a sequential audit."""
        assert self.looks is not None  # checked above
        assert self.reliability_target is not None
        assert self.threshold is not None
        plan = SequentialPlan(
            looks=self.looks,
            reliability_target=number(self.reliability_target),
            kappa=number(self.threshold),
            alpha=Fraction(self.alpha),
            bound=self.bound or Bound.SHARP,
            levels=tuple(number(level) for level in self.levels or ()),
            futility=self.futility is not False,
        )
        if self.target_share is None:
            return plan
        return replace(plan, target_share=Fraction(self.target_share))

    def fixed_claim(self) -> Claim:
        """Return the claim, or of a sequential audit the fixed one with all of its draws.

        The fixed one needs no more draws and no more records than the sequential one.
        """
        if not self.sequential:
            return self.to_claim()
        fixed = {"mode": DEFAULT, "looks": None, "levels": None, "futility": None}
        return self.model_copy(update=fixed).to_claim()


# Default thresholds as parts of the local level: the first recognizes many releases and each makes
# up for four that are not recognized, the second few, and each makes up for 500.
DEFAULT_PARTS = (10, 1000)


class Picks(DeclarationPart):
    """How many of any releases that a reader picks are valid, with a budget of its own.

    ``thresholds`` are the levels of the mixture calibrator (theory section 3) that turns
    release p-values into e-values; left out, they follow from the local level.
    """

    alpha: Share
    """Its error level, apart from the claim's."""
    thresholds: tuple[Share, ...] | None = Field(default=None, min_length=1)
    """Thresholds of the calibrator; left out, they follow from the level."""

    def levels(
        self, groups: Sequence[str], shares: Mapping[str, str] | None
    ) -> dict[str, Fraction]:
        """Return each group's level; they sum to ``alpha``, so that all groups hold at once."""
        return {
            name: Fraction(self.alpha) * share
            for name, share in family_shares(groups, shares).items()
        }

    def cutoffs(self, level: Fraction) -> tuple[Fraction, ...]:
        """Return the calibrator's thresholds at a local level."""
        if self.thresholds is not None:
            return tuple(Fraction(threshold) for threshold in self.thresholds)
        return tuple(level / divisor for divisor in DEFAULT_PARTS)

    def objections(self, groups: Sequence[str], shares: Mapping[str, str] | None) -> list[str]:
        """Return why no release could ever be counted as valid; empty if some could."""
        # Said at registration: afterwards it could only be found that nothing is ever counted.
        reasons = []
        for name, level in self.levels(groups, shares).items():
            cutoffs = self.cutoffs(level)
            largest = sum((1 / t for t in cutoffs), Fraction(0)) / len(cutoffs)
            if largest < 1 / level:
                reasons.append(
                    f"{name!r}: the largest e-value is {float(largest):.4g} with thresholds "
                    f"{', '.join(self.thresholds or ())}, and at its share {float(level):.4g} of "
                    f"the error it takes {float(1 / level):.4g} to call any release valid; "
                    "register smaller thresholds, or leave them out"
                )
        return reasons
