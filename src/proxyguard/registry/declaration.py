"""The declaration of an audit, `audit.toml`: what is claimed, before anything is drawn.

Frozen models that refuse a key they do not know: in a pre-registration a misspelt key that
is ignored changes the claim. Numbers that matter are decimal strings, so that they mean
what they read and are sealed as they were written.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property

from pydantic import Field, JsonValue, ValidationError, model_validator

from proxyguard.errors import RegistryError
from proxyguard.modes.catalog import ramp_modes
from proxyguard.modes.claim import group_objections
from proxyguard.printable import found
from proxyguard.registry.explain import explain_errors, explain_toml
from proxyguard.registry.exposure import (
    GUESSING,
    EpsilonPart,
    ExposureKind,
    ExposurePart,
    ThresholdRule,
)
from proxyguard.registry.fields import FORMAT, DeclarationPart, Format, Name, Text, number
from proxyguard.registry.numbers import alike_names, fold
from proxyguard.registry.parts import (
    GIVEN,
    ClaimPart,
    Development,
    Disclosure,
    Drawn,
    MechanismPart,
    Picks,
    Pilot,
    PilotRule,
    PlanPart,
    Procedure,
    RampRule,
    ReleasePart,
    RequirementPart,
    Roles,
    Secondary,
)
from proxyguard.registry.target import ColumnPart, StratifiedDesign, Target

# Draws of all mechanisms and pilots of an audit.
MOST_DRAWS_IN_ALL = 1_000_000


class Member(DeclarationPart):
    """One source and one target, and what is drawn and required there."""

    name: Name
    """Its name."""
    target: Target
    """The records that decide."""
    development: Development = Field(default_factory=Development)
    """How the other rows are used."""
    procedure: Procedure | None = None
    """The learning procedure."""
    requirement: tuple[RequirementPart, ...] = Field(min_length=1)
    """What must hold."""
    mechanism: tuple[MechanismPart, ...] = ()
    """The mechanisms."""
    release: tuple[ReleasePart, ...] = ()
    """The named releases."""
    exposure: ExposurePart | None = None
    """How attacks see a row."""
    columns: dict[Name, ColumnPart] = Field(default_factory=dict)
    """How columns are read."""

    @model_validator(mode="after")
    def _consistent(self) -> Member:
        _different("requirement", [r.name for r in self.requirement])
        names = [*(m.name for m in self.mechanism), *(r.name for r in self.release)]
        _different("mechanism or release", names)
        self._check_given_losses()
        self._check_source()
        self._check_predictions()
        self._check_bounds()
        self._check_units()
        self._check_columns()
        self._check_missing()
        self._check_groups()
        self._check_procedure()
        self._check_blocks()
        self._check_survey()
        self._check_exposure()
        self._check_lacking()
        return self

    def _check_given_losses(self) -> None:
        """Where losses were computed elsewhere, nothing else can be: there are no tables."""
        if self.target.losses is None:
            if "losses" in self._generators:
                raise ValueError('generator = "losses" needs target.losses, a file of losses')
            return
        if self.procedure is not None:
            raise ValueError("losses computed elsewhere need no procedure here")
        if any(
            not isinstance(r.limit, str)
            or not isinstance(r.slack, str | None)
            or r.form == "query"
            or r.group is not None
            for r in self.requirement
        ):
            raise ValueError(
                "losses computed elsewhere need plain limits and slacks, no query and no group"
            )
        if self.release or self._generators != {"losses"}:
            raise ValueError('the mechanisms of a loss file have generator = "losses"')

    def _check_source(self) -> None:
        """See that there is one source: a table of its own, or the rows that are not reserved."""
        if self.target.losses is not None:
            return
        if self.target.reserve is None and self.development.table is None:
            raise ValueError("development.table is missing: the source that releases replace")
        if self.target.reserve is not None and self.development.table is not None:
            raise ValueError(
                "rows of the table that are not reserved are the development part; leave table out "
                "of [development]"
            )

    def _check_predictions(self) -> None:
        """See that losses have something to be computed from: predictions, and an outcome."""
        if self.target.losses is not None or all(r.loss is None for r in self.requirement):
            return
        if self.procedure is None and self._generators != {"predictions"}:
            raise ValueError(
                'a loss needs a [procedure] that makes predictions, such as library = ["logistic"]'
            )
        if self.target.outcome is None:
            raise ValueError("a loss needs target.outcome, what is predicted")

    @property
    def _own_losses(self) -> list[RequirementPart]:
        """The requirements about losses of ours, whose bounds and units are known."""
        if self.target.losses is not None:
            return []
        return [r for r in self.requirement if ":" not in (r.loss or "")]

    def _check_bounds(self) -> None:
        for r in self._own_losses:
            if r.low is not None:
                raise ValueError(
                    f"{r.name!r}: the bounds of {r.loss!r} are known; leave low and high out"
                )

    def _check_units(self) -> None:
        """See that a unit stands where an outcome has one, and that no limit lacks it."""
        predicted = self.target.predicted
        numbers = predicted is not None and predicted.kind == "regression"
        for r in self._own_losses:
            if r.loss is None:
                continue
            if r.unit is not None and not numbers:
                raise ValueError(
                    f"{r.name!r}: the loss {r.loss!r} is a share or a score of classes, without a "
                    "unit of its own; leave unit out"
                )
            if numbers and r.unit is None and isinstance(r.limit, str) and number(r.limit) >= 1.0:
                raise ValueError(
                    f"{r.name!r}: a limit is a share of the outcome's range, below 1, got "
                    f'{r.limit}; for a number in the outcome\'s own unit write unit = "kg", or '
                    "whatever it is called, beside it"
                )

    def _check_lacking(self) -> None:
        """Refuse a named release without a column that is compared or weighs."""
        needed = {str(self.target.outcome), *self.target.design_columns} - self._designing
        needed = needed.union(*(r.release_columns for r in self.requirement))
        for release in self.release:
            if needed & set(release.lacks):
                raise ValueError(
                    f"{release.name!r} lacks {sorted(needed & set(release.lacks))}, which every "
                    "table must have"
                )

    def _check_survey(self) -> None:
        """Refuse a word about the survey of development where nothing depends on it."""
        design, development = self.target.design, self.development
        if development.survey == "another" and not (
            isinstance(design, StratifiedDesign) and design.by_sample
            and development.table is not None
        ):  # fmt: skip
            raise ValueError(
                'survey = "another" is of a development table beside a target in strata with '
                "design weights, which have sampled; leave it out"
            )

    def _check_groups(self) -> None:
        """Refuse a group that the design does not cover: after the seal it would be too late."""
        for r in self.requirement:
            reasons = [] if r.group is None else group_objections(self.target.sampling_design)
            if reasons:
                raise ValueError(f"{r.name!r}: {reasons[0]}")

    def _check_blocks(self) -> None:
        blocks, design = self.development.blocks, self.target.design
        if blocks is None:
            return
        if not isinstance(design, StratifiedDesign) or self.target.reserve is None:
            raise ValueError("development.blocks need a stratified target reserved from a table")
        if design.clusters is not None:
            raise ValueError(
                "development.blocks deal out records, and strata that are sampled by clusters are "
                "divided by whole ones: leave blocks out"
            )
        for what in (blocks.training, blocks.validation):
            if what and set(what) != set(design.sizes):
                raise ValueError(
                    f"development.blocks name the strata {sorted(what)}, the design "
                    f"{sorted(design.sizes)}"
                )

    def _check_missing(self) -> None:
        """Refuse what a missing outcome would slip through: it has to count at its worst.

        A share of the outcome is of all records, on both sides, and is said to be of those that are
        known to have the value.
        """
        target = self.target
        if target.missing_outcomes != "worst" or target.outcome is None:
            return
        left_out = (
            ', or write missing_outcomes = "leave out", which claims nothing about such records'
            if target.design == "iid"
            else ""
        )
        for r in self.requirement:
            # Whoever lacks the outcome lacks the group, and would count nowhere.
            asked = set(r.group or ())
            if r.query is not None:
                asked |= r.query.averaged | set(r.query.groups or ())
            if target.outcome in asked:
                raise ValueError(
                    f"{r.name!r} asks for the outcome {target.outcome!r}, of which some may be "
                    'missing: missing_outcomes = "worst" fills losses, and says neither who '
                    "belongs to a group nor what a mean is of; ask for a share of it instead"
                    f"{left_out}"
                )

    def _check_columns(self) -> None:
        target = self.target
        if self.columns and target.losses is not None:
            raise ValueError("losses computed elsewhere have no columns to read; leave them out")
        for name, part in self.columns.items():
            if part.exclude and name in target.exclude:
                raise ValueError(f"{name!r} is excluded twice; leave it out of target.exclude")
            if name == target.outcome and part.missing:
                raise ValueError(
                    f"columns.{name}: texts for a missing outcome stand in target.read.missing, "
                    "which every step reads; leave missing out here"
                )
            if part.exclude and name in (target.outcome, *target.design_columns):
                raise ValueError(f"{name!r} cannot be excluded: it is the outcome or the design")
            labels = name in target.label_columns or (
                name == target.outcome and target.range is None
            )
            if labels and part.holds == "number":
                raise ValueError(
                    f"columns.{name}: its values are labels, as they are written; leave kind out"
                )
            if part.fold_case or part.same:
                self._check_read_alike(name, part)
            self._check_gaps(name, part)
            counted = (target.outcome if target.range is not None else None, target.weight_column)
            if name in counted and part.holds == "text":
                raise ValueError(
                    f"columns.{name}: an outcome with a range, or a weight, is a number; leave "
                    "kind out"
                )

    def _check_read_alike(self, column: str, part: ColumnPart) -> None:
        """Refuse names of values as nobody reads them: folded, or as another one."""
        target, key = self.target, "fold_case" if part.fold_case else "same"
        counted = column == target.outcome and target.range is not None
        if column in target.design_columns or (counted and part.fold_case):
            raise ValueError(
                f"columns.{column}: {key} is of texts that are no strata, clusters or weights; "
                "leave it out"
            )
        gaps = [text for text in part.same if text in self.target.read.missing]
        if gaps:
            raise ValueError(
                f"columns.{column}: same reads {gaps[0]!r}, which target.read.missing takes for a "
                "missing value; take it out of one of them"
            )
        for text in self._values_named(column):
            read = fold(text) if part.fold_case else text
            key = "fold_case" if read != text else "same"
            read = part.same.get(read, read)
            if text != read:
                raise ValueError(
                    f"columns.{column}: with {key} {text!r} is read as {read!r}; write "
                    "that wherever this value is named"
                )

    def _check_gaps(self, column: str, part: ColumnPart) -> None:
        """Refuse a claim about a text that is read as missing: both sides would count none."""
        missing = (*part.missing, *(self.target.read.missing if part.fold_case else ()))
        gaps = {fold(text) if part.fold_case else text for text in missing}
        for text in self._values_named(column):
            if text in gaps:
                raise ValueError(
                    f"columns.{column}: {text!r} is asked for, and read as a missing value; leave "
                    "it out of missing, or fold_case out where target.read.missing has it"
                )

    def _values_named(self, column: str) -> list[str]:
        """Return the values of a column of text that something is claimed about."""
        target, texts = self.target, list[str]()
        if column == target.outcome:
            texts += [str(label) for label in (target.positive, *(target.classes or ())) if label]
        for requirement in self.requirement:
            asked = [requirement.group or {}]
            if requirement.query is not None:
                asked.append(requirement.query.share or {})
                groups = (requirement.query.groups or {}).get(column, {})
                texts += [text for group in groups.values() for text in group]
            texts += [values[column] for values in asked if column in values]
        return texts

    @property
    def loss_names(self) -> tuple[str, ...]:
        """The names of the requirements, in the order of the last axis of given losses."""
        return tuple(requirement.name for requirement in self.requirement)

    @property
    def draws(self) -> int:
        """How many draws its mechanisms have together."""
        return sum(mechanism.draws for mechanism in self.mechanism)

    @property
    def excluded(self) -> tuple[str, ...]:
        """The columns that are excluded, wherever that is said."""
        parts = self.columns.items()
        return (*self.target.exclude, *(name for name, part in parts if part.exclude))

    @property
    def release_seed(self) -> int:
        """The seed by which the procedure is fitted to a named release."""
        return 0 if self.procedure is None else self.procedure.seed

    def draw_called(self, name: str, seed: int) -> str:
        """Return what a message calls a draw; a named release, which nobody drew, by its name."""
        named = {release.name for release in self.release}
        return name if name in named else f"{name}, seed {seed}"

    def features(self, columns: Iterable[str]) -> list[str]:
        """Return the columns that predict: all but the outcome, the design's and excluded ones."""
        other = {self.target.outcome, *self.target.design_columns, *self.excluded}
        return [name for name in columns if name not in other]

    def attacked(self, columns: Iterable[str]) -> list[str]:
        """Return the columns that attacks read: all but excluded ones, clusters and weights.

        A record that equals a member in these is a copy of it: no attack can tell the two apart.
        """
        # Columns that no procedure may use identify records, and a cluster's name does so too.
        target, hidden = self.target, {*self.excluded}
        hidden.update(target.design_columns[isinstance(target.design, StratifiedDesign) :])
        return [name for name in columns if name not in hidden]

    def spared(self, release: str | None = None, *, delivered: bool = False) -> frozenset[str]:
        """Return the columns that releases need not have: excluded ones that nothing asks for.

        Parameters
        ----------
        release
            The name of one release, which may lack further columns.
        delivered
            Whether releases were made elsewhere, as a named one is. These need no strata, clusters
            or weights either: only the target was sampled by them. A generator here may draw by
            those of its source.
        """
        lacks = {part.name: part.lacks for part in self.release}
        target, unused = self.target, {*self.excluded}
        asked = {target.outcome, *target.design_columns}
        if delivered or release in lacks:
            asked -= self._designing
            unused |= self._designing
        for requirement in self.requirement:
            asked |= requirement.release_columns
            for attack in requirement.attacks or ():
                asked |= self.attacking.settings(attack).columns
        return frozenset(unused - asked) | set(lacks.get(release or "", ()))

    @property
    def _designing(self) -> frozenset[str]:
        """The columns that the target's design alone reads: attacks read strata, too."""
        target = self.target
        strata = isinstance(target.design, StratifiedDesign) and bool(self.exposures)
        return frozenset(target.design_columns[strata:])

    @property
    def withheld(self) -> frozenset[str]:
        """The columns that development files do not have: excluded ones that nothing asks for."""
        grouping = {name for r in self.requirement for name in r.group or ()}
        return frozenset(self.spared() & {*self.excluded} - grouping)

    @property
    def exposures(self) -> tuple[RequirementPart, ...]:
        """The requirements about exposure."""
        return tuple(r for r in self.requirement if r.exposure is not None)

    @property
    def epsilons(self) -> tuple[EpsilonPart, ...]:
        """The privacy parameters that are claimed, to be refuted."""
        return () if self.exposure is None else self.exposure.epsilons

    @property
    def measuring_code(self) -> tuple[str, ...]:
        """The losses and attacks that are named by import path, sorted."""
        losses = {r.loss for r in self.requirement if r.loss is not None}
        attacks = {
            self.attacking.settings(name).kind for r in self.exposures for name in r.attacks or ()
        }
        return tuple(sorted(name for name in losses | attacks if ":" in name))

    @property
    def attacking(self) -> ExposurePart:
        """How attacks see a row, as declared or as it is without a word."""
        return self.exposure or ExposurePart()

    def _check_exposure(self) -> None:
        exposures, development = self.exposures, self.development
        epsilons = self.epsilons
        if not exposures and not epsilons:
            if self.exposure is not None or development.members is not None:
                raise ValueError(
                    "[exposure] and development.members are for requirements about exposure, and "
                    "there is none"
                )
            return
        if self.target.losses is not None:
            raise ValueError("losses computed elsewhere say nothing of rows: no exposure from them")
        if development.reference is None:
            raise ValueError(
                "attacks compare with rows that nothing was trained on: give development.members, "
                "development.reference and development.split_seed"
            )
        # A claimed epsilon is about coins, and no record of the target is asked.
        if exposures and self.target.reserve is None and self.attacking.same_law is None:
            raise ValueError(
                "members and target must have one law, or a shift between the tables would count "
                "as exposure; the target has a table of its own: say in exposure.same_law why "
                "they do, or reserve the target from the table of the members"
            )
        # A reason that nothing rests on would read as one that something does.
        if self.attacking.same_law is not None and (
            self.target.reserve is not None or not exposures
        ):
            why = (
                "no requirement is about exposure"
                if not exposures
                else "the target is reserved from the table of the members"
            )
            raise ValueError(
                f"exposure.same_law says why two tables have one law, and {why}; leave it out"
            )
        named = {name for r in exposures for name in r.attacks or ()}
        named |= {epsilon.attack for epsilon in epsilons}
        idle = sorted(set(self.attacking.attack) - named)
        if idle:
            raise ValueError(f"exposure.attack has {idle}, which no requirement names")
        for r in exposures:
            self._check_attacks(r)
        for epsilon in epsilons:
            self._check_epsilon(epsilon)

    def tossed(self, mechanism: str) -> bool:
        """Whether coins decide which rows the draws of a mechanism are trained on."""
        return any(m.name == mechanism and m.inclusion == "coins" for m in self.mechanism)

    def guessed(self, epsilon: EpsilonPart) -> MechanismPart:
        """Return the mechanism that a claimed epsilon is about."""
        about = [m for m in self.mechanism if epsilon.mechanism in (None, m.name)]
        if len(about) != 1:
            raise ValueError(
                f"exposure.epsilon of {epsilon.claimed} is about one mechanism: write mechanism = "
                f"one of {[m.name for m in self.mechanism]}"
            )
        return about[0]

    def _check_epsilon(self, epsilon: EpsilonPart) -> None:
        mechanism = self.guessed(epsilon)
        if mechanism.inclusion != "coins":
            raise ValueError(
                f"exposure.epsilon is tested by who was trained on, which a coin for each row must "
                f'decide: write inclusion = "coins" in the [[mechanism]] {mechanism.name!r}'
            )
        try:
            kind = self.attacking.settings(epsilon.attack).kind
        except ValidationError as error:
            raise ValueError(f"exposure.epsilon: {error.errors()[0]['msg']}") from None
        if kind not in GUESSING:
            raise ValueError(
                f"exposure.epsilon: guesses by {epsilon.attack!r} could know the coins beforehand, "
                f"or are about something else; take one of {', '.join(GUESSING)}"
            )

    def _check_attacks(self, part: RequirementPart) -> None:
        assert part.exposure is not None  # selected by the caller
        wanted = {
            ExposureKind.ATTRIBUTE: "attribute", ExposureKind.LINKABILITY: "linkability"
        }.get(part.exposure, "membership")  # fmt: skip
        for name in part.attacks or ():
            try:
                settings = self.attacking.settings(name)
            except ValidationError as error:
                raise ValueError(f"{part.name!r}: {error.errors()[0]['msg']}") from None
            if settings.asks != wanted:
                raise ValueError(
                    f"{part.name!r} is about {part.exposure.value}, and the attack {name!r} is of "
                    f"{settings.asks}"
                )
        rule, sample = part.threshold, self.attacking.member_sample
        if sample is not None and isinstance(self.target.design, StratifiedDesign):
            # Its limits are for the plain share of a simple random sample.
            raise ValueError(
                f"{part.name!r}: strata of the target weigh the members, and limits from a sample "
                "of members have no weights; leave exposure.member_sample out"
            )
        if isinstance(rule, ThresholdRule) and rule.of == "calibration":
            if self.development.calibration is None:
                raise ValueError(
                    f"{part.name!r} takes its threshold from calibration rows: give "
                    "development.calibration"
                )
        elif sample is not None and not part.exposure.counts_success:
            # The sample's limits are for one threshold that does not depend on it.
            raise ValueError(
                f"{part.name!r}: members are sampled only where success is counted, or at a "
                "threshold from calibration rows; leave exposure.member_sample out"
            )

    @property
    def _generators(self) -> set[str | None]:
        return {m.generator for m in self.mechanism}

    def _check_procedure(self) -> None:
        if self.procedure is None:
            if any(not isinstance(r.limit, str) for r in self.requirement):
                raise ValueError("a limit that is a rule needs a [procedure] to be resolved with")
            compared = any(r.form == "relative" for r in self.requirement)
            for mechanism in self.mechanism:
                if (
                    compared
                    and mechanism.generator == "predictions"
                    and "source" not in mechanism.options
                ):
                    raise ValueError(
                        f"{mechanism.name!r} needs options.source, the source's predictions, for "
                        "relative requirements"
                    )
            return
        needs = (
            len(self.procedure.library) > 1
            or self.procedure.calibrate != "none"
            or self.procedure.choose is not None
            or any(not isinstance(r.limit, str) for r in self.requirement)
        )
        if needs and not self.development.chooses:
            raise ValueError(
                "development.validation is missing: the procedure chooses on it, or a limit is a "
                'rule over it; write validation = { fraction = "0.25", seed = 1 } under '
                "[development]"
            )
        if self.target.predicted is None or self.target.predicted.kind == "binary":
            return
        if self.procedure.choose is not None or self.procedure.calibrate != "none":
            raise ValueError("choose and calibrate are for a binary outcome, target.positive")

    @property
    def tables(self) -> tuple[str, ...]:
        """The files of its target and its development part, by their declared names."""
        table = self.development.table
        return self.target.files if table is None else (*self.target.files, table)


class Candidate(Member):
    """A named stand-in with its own source and target, one of a family."""


class Declaration(DeclarationPart):
    """A whole `audit.toml`."""

    format: Format
    """The format of this file."""
    name: Name
    """The audit's name."""
    purpose: Text
    """What it is to find out."""
    target: Target | None = None
    """The records that decide."""
    development: Development | None = None
    """How the other rows are used."""
    procedure: Procedure | None = None
    """The learning procedure."""
    requirement: tuple[RequirementPart, ...] = ()
    """What must hold."""
    pilot: tuple[Pilot, ...] = ()
    """Releases drawn before registration, for rules to use."""
    roles: Roles | None = None
    """Which pilots play which role."""
    mechanism: tuple[MechanismPart, ...] = ()
    """The mechanisms."""
    release: tuple[ReleasePart, ...] = ()
    """The named releases."""
    exposure: ExposurePart | None = None
    """How attacks see a row."""
    columns: dict[Name, ColumnPart] = Field(default_factory=dict)
    """How columns are read, by name, where that is not seen from the table itself."""
    candidate: tuple[Candidate, ...] = ()
    """Stand-ins with a source and a target of their own."""
    secondary: tuple[Secondary, ...] = ()
    """Other limits, reported beside the certificate."""
    claim: ClaimPart
    """What is claimed, at which error levels."""
    disclosure: Disclosure | None = None
    """How finely statistics are given away."""
    picks: Picks | None = None
    """A budget for choosing releases after looking."""
    plan: PlanPart | None = None
    """What was planned and expected."""

    @model_validator(mode="after")
    def _consistent(self) -> Declaration:
        self._check_sources()
        for kind, names in (
            ("pilot", [p.name for p in self.pilot]),
            ("candidate", [c.name for c in self.candidate]),
            ("secondary", [s.name for s in self.secondary]),
        ):
            _different(kind, names)
        self._check_claim()
        self._check_picks()
        self._check_references()
        self._check_seeds()
        return self

    def _check_sources(self) -> None:
        given = [
            name
            for name in ("target", "development", "procedure", "requirement", "mechanism",
                         "release", "pilot", "roles", "secondary", "exposure", "columns")
            if getattr(self, name)
        ]  # fmt: skip
        if self.candidate and given:
            raise ValueError(f"candidates bring their own parts; leave {', '.join(given)} out")
        if not self.candidate and self.target is None:
            raise ValueError("target is missing: the records that decide")
        # Made here, before anything is sealed: its checks are the declaration's.
        if not self.candidate:
            _ = self.members

    def _check_claim(self) -> None:
        mechanisms = any(m.mechanism for m in self.members)
        releases = any(m.release for m in self.members)
        if self.claim.level == "mechanism" and (not mechanisms or releases):
            raise ValueError(
                "a claim about a mechanism needs at least one [[mechanism]], and named releases "
                "make none"
            )
        if self.claim.level == "mechanism" and self.candidate:
            raise ValueError("candidates with their own targets are named releases")
        if self.claim.level == "releases" and not (mechanisms or releases or self.claim.stream):
            raise ValueError("a claim about releases needs [[release]] or [[mechanism]]")
        if self.claim.stream and (mechanisms or releases or self.candidate):
            raise ValueError("the candidates of a stream come one after the other, at the draw")
        if self.claim.after_opening and any(m.epsilons for m in self.members):
            raise ValueError(
                "exposure.epsilon counts the guesses about all registered draws; in mode "
                f"{self.claim.mode!r} scores decide how many there are. Register a fixed audit"
            )
        if self.claim.sequential and len(self.mechanism) != 1:
            raise ValueError("a sequential audit is about one mechanism")
        if self.claim.sequential and self.claim.looks is not None:
            draws = self.mechanism[0].draws
            if draws != self.claim.looks[-1]:
                raise ValueError(f"the last look is at {self.claim.looks[-1]} draws, not {draws}")

    def _check_picks(self) -> None:
        if self.picks is None:
            return
        if self.claim.after_opening:
            raise ValueError(
                "picks promise a count for every choice of releases, which needs all of them drawn "
                f"before the target is opened; in mode {self.claim.mode!r} the scores decide how "
                "many there are, and such a count would not hold. Leave [picks] out, or register "
                "a fixed audit"
            )
        reasons = self.picks.objections(self.pick_groups, self.claim.shares)
        if reasons:
            raise ValueError(f"picks: {'; '.join(reasons)}")

    @property
    def pick_groups(self) -> tuple[str, ...]:
        """What releases are picked within: a mechanism, or the named releases of a member."""
        if self.claim.level == "releases":
            return tuple(member.name for member in self.members)
        return tuple(mechanism.name for mechanism in self.mechanism)

    def _check_references(self) -> None:
        pilots = {p.name for p in self.pilot}
        for r in self.requirement:
            if isinstance(r.limit, PilotRule) and r.limit.pilot not in pilots:
                raise ValueError(f"requirement {r.name!r} names no [[pilot]]: {r.limit.pilot!r}")
        for requirements in (self.requirement, *(c.requirement for c in self.candidate)):
            self._check_ramps(requirements, pilots)
        if self.roles is not None and not set(self.roles.pilots) <= pilots:
            raise ValueError(f"roles name pilots that are none: {list(self.roles.pilots)}")
        made = {p.name for p in self.pilot if p.generator in GIVEN}
        chosen = sorted(made & set(() if self.roles is None else self.roles.pilots))
        if chosen:
            raise ValueError(
                f"roles name {chosen[0]!r}, whose releases exist already: a mechanism would be "
                "scored on the very releases that it was chosen for; name the folder in it"
            )
        if self.roles is None and any(m.role for m in self.mechanism):
            raise ValueError("a mechanism has a role, and there is no [roles]")
        names = {r.name for r in self.requirement}
        # Which threshold is looked at, or what of a ratio is averaged, follows from the registered
        # limit, and not from another.
        bound = (ExposureKind.EVERYWHERE, ExposureKind.TPR)
        fixed = {r.name for r in self.requirement if r.exposure in bound or r.is_ratio}
        for s in self.secondary:
            if fixed & set(s.limits):
                raise ValueError(
                    f"secondary {s.name!r} has other limits on {sorted(fixed & set(s.limits))}, "
                    "and what is tested there follows from the registered one; register them as "
                    "requirements of their own"
                )
            if not set(s.limits) <= names:
                raise ValueError(
                    f"secondary {s.name!r} limits {sorted(set(s.limits) - names)}, which are no "
                    "requirements"
                )

    def _check_ramps(self, requirements: Sequence[RequirementPart], pilots: set[str]) -> None:
        """See that ramps from development have the one pilot, and the mode, that they are for."""
        named = {r.ramp.pilot for r in requirements if isinstance(r.ramp, RampRule)}
        if not named:
            return
        if len(named) > 1 or not named <= pilots:
            raise ValueError(
                f"ramps from development follow one [[pilot]], got {sorted(named)}; there are "
                f"{sorted(pilots)}"
            )
        if not self.claim.kind.chooses_ramps:
            modes = ", ".join(ramp_modes())
            raise ValueError(
                f'ramps from development are for mode = "{modes}", and the mode is '
                f'"{self.claim.kind.mode}"; write the ramp as a number, or leave it out'
            )
        others = sorted(r.name for r in requirements if r.ramp is None or r.loss is None)
        if others:
            raise ValueError(
                f"a ramp from development weighs the scores of all requirements, and {others} "
                "have no ramp, or no loss that a pilot could be judged by"
            )

    def _check_seeds(self) -> None:
        # Two draws of one seed would be one draw, counted twice.
        used: dict[int, str] = {}
        all_drawn = (*self.pilot, *(m for member in self.members for m in member.mechanism))
        total = sum(drawn.draws for drawn in all_drawn)
        if total > MOST_DRAWS_IN_ALL:
            raise ValueError(
                f"draws: {total:,} in all mechanisms and pilots, and an audit has at most "
                f"{MOST_DRAWS_IN_ALL:,}"
            )
        for drawn in all_drawn:
            # Of files they are numbers, and two folders may both count from 0.
            for seed in () if drawn.generator in GIVEN else drawn.seed_list:
                if used.setdefault(seed, drawn.name) != drawn.name:
                    raise ValueError(
                        f"seed {seed} is registered for {used[seed]!r} and for {drawn.name!r}; "
                        "every draw needs a seed of its own"
                    )

    @cached_property  # a step asks hundreds of times, and a member is checked when it is made
    def members(self) -> tuple[Member, ...]:
        """The sources and targets of this audit: one, unless there are candidates."""
        if self.candidate:
            return self.candidate
        assert self.target is not None  # checked when the declaration was made
        return (
            Member(
                name="target",
                target=self.target,
                development=self.development or Development(),
                procedure=self.procedure,
                requirement=self.requirement,
                mechanism=self.mechanism,
                release=self.release,
                exposure=self.exposure,
                columns=self.columns,
            ),
        )

    @property
    def registered_draws(self) -> frozenset[tuple[str, int]]:
        """Mechanism and seed of every draw of all members."""
        mechanisms = (mechanism for member in self.members for mechanism in member.mechanism)
        return frozenset((m.name, seed) for m in mechanisms for seed in m.seed_list)

    def member(self, name: str) -> Member:
        """Return a source and target by its name."""
        return next(member for member in self.members if member.name == name)

    def told_as(self, member: str, mechanism: str) -> str:
        """Return what a mechanism is called; two members may have one of the same name."""
        return f"{member}/{mechanism}" if len(self.members) > 1 else mechanism

    def drawn_as(self, mechanism: MechanismPart, pilot: str | None) -> Drawn:
        """Return what a mechanism is drawn as: itself, or the pilot that was given its role.

        Generator, options and what draws may read are the pilot's; the seeds are the
        mechanism's own.
        """
        if mechanism.role is None:
            return mechanism
        return next(candidate for candidate in self.pilot if candidate.name == pilot)

    def to_dict(self) -> dict[str, JsonValue]:
        """Return the declaration as plain values, defaults included, ready to be sealed."""
        # A part added to the format appears where it is declared, so that a registry without
        # it keeps its bytes.
        absent = {
            name for name in ("picks", "disclosure", "exposure", "columns")
            if not getattr(self, name)
        }  # fmt: skip
        return self.model_dump(mode="json", exclude=absent)

    @property
    def digits(self) -> int | None:
        """The digits that statistics of the target are rounded to, where some are registered."""
        return None if self.disclosure is None else self.disclosure.digits

    def redesigned(self, design: object, *, default_test: bool = False) -> Declaration:
        """Return the declaration with another sampling design, checked as any declaration is.

        Parameters
        ----------
        design
            The design as `audit.toml` writes it: a name, or a table.
        default_test
            Whether the registered test gives way to the default one for that design.
        """
        if self.target is None:
            raise RegistryError("a family of candidates has a design for each; correct them apart")
        claim = self.claim.model_dump(mode="json") | ({"test": None} if default_test else {})
        target = self.target.model_dump(mode="json") | {"design": design}
        return as_declaration({**self.to_dict(), "claim": claim, "target": target})

    def sealed_part(self) -> dict[str, JsonValue]:
        """Return what the seal fixes: targets, and how development is divided.

        Draws from a sealed population are made when it is opened, so they may be amended.
        Defaults are left out, so that a key added later does not change an old digest.
        """
        return {
            m.name: {
                "target": m.target.model_dump(mode="json", exclude={"draw"}, exclude_defaults=True),
                "development": m.development.model_dump(mode="json", exclude_defaults=True),
                **({"columns": _plain(m.columns)} if m.columns else {}),
            }
            for m in self.members
        }


def _plain(columns: Mapping[str, ColumnPart]) -> dict[str, JsonValue]:
    return {
        name: part.model_dump(mode="json", exclude_defaults=True)
        for name, part in sorted(columns.items())
    }


def read_declaration(text: str) -> Declaration:
    """Read `audit.toml`; an error names every key, what was expected and what was found."""
    try:
        declared = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise RegistryError(explain_toml(error, text)) from None
    except (ValueError, RecursionError) as error:  # numbers of a thousand digits, deep tables
        raise RegistryError(f"the declaration is no TOML: {error}") from error
    return as_declaration(declared, text)


def as_declaration(declared: Mapping[str, object], text: str = "") -> Declaration:
    """Read a declaration from plain values, such as those a registry was sealed with.

    Parameters
    ----------
    declared
        The values.
    text
        The text that they were read from, so that errors can say in which line they are.

    Raises
    ------
    RegistryError
        Naming every key that is missing, unknown or not what it must be, one line each.
    """
    # Of another format every other key may mean something else: no word about those.
    if declared.get("format") != FORMAT:
        given = declared.get("format")
        later = isinstance(given, int) and given > FORMAT
        raise RegistryError(
            f"format: this version reads format = {FORMAT}, found "
            f"{'none' if given is None else found(given)}; "
            + ("a newer version of proxyguard reads that" if later
               else f"write format = {FORMAT} as the first line")
        )  # fmt: skip
    try:
        return Declaration.model_validate(declared)
    except ValidationError as error:
        raise RegistryError(explain_errors(error, Declaration, declared, text)) from None


def declaration_schema() -> dict[str, JsonValue]:
    """Return the JSON Schema of `audit.toml`, for editors."""
    return Declaration.model_json_schema()


def _different(kind: str, names: list[str]) -> None:
    if len(set(names)) < len(names):
        twice = next(name for k, name in enumerate(names) if name in names[:k])
        raise ValueError(f"{kind} names must differ, and two are {found(twice)}")
    alike = alike_names(names)
    if alike is not None:
        raise ValueError(f"{kind} names must differ to the eye too: {alike}")
