"""What a named release would get: foretold from the development part by the audit's own tests.

Targets are drawn from development as the design draws them, whole clusters of each stratum, and
read by the registered tests. On them two releases are judged, for every requirement: one that is
exactly right and one that is halfway to its limit (`Distance`). An answer to a query is the
population's own, or off by half of the limit; a model has the very losses of the reference, or is
the reference mixed with what learned nothing until half of the limit is used up. Development is
taken for the population. Of the target no value is read, and its sizes alone are used. It foretells
and decides nothing: a target may be unlike its development part.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import ROUND_UP, Context
from enum import Enum
from functools import cached_property, partial
from math import sqrt
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from proxyguard.audit.development import (
    MemberDevelopment,
    ValidationPart,
    Workplace,
    develop,
    fit_training,
    load_fitted,
    policy_predictions,
    unsealed_facts,
)
from proxyguard.audit.plan import about_clusters, declared_records
from proxyguard.audit.rules import measures_of, planned_records, resolve_limits
from proxyguard.audit.score import answers_on, reads_counts
from proxyguard.audit.seal import PreparedMember, UnsealedDevelopment, prepare_member
from proxyguard.certificate.mechanism import reading_of
from proxyguard.draw.catalog import is_ours
from proxyguard.draw.protocol import outcomes
from proxyguard.errors import LossError, ProxyGuardError, RegistryError
from proxyguard.evidence.releases import evidence_of
from proxyguard.exact.rounding import Array
from proxyguard.losses.cell import (
    Cell,
    Clusters,
    Column,
    Reading,
    Units,
    generator,
    share_column,
    unit_ends,
)
from proxyguard.losses.measure import Measure, Predicted
from proxyguard.losses.query import BoundedQuery, CodedRecords, Workload, codings
from proxyguard.losses.records import record_weights, weight_shares
from proxyguard.modes.planning import best_limit, best_pvalue, best_weighted_pvalue, weighted_strata
from proxyguard.plan.law import NEAREST
from proxyguard.registry.declaration import Declaration, Member
from proxyguard.registry.design import (
    Design,
    Sampling,
    Stratified,
    Weighted,
    clusters_of,
)
from proxyguard.registry.numbers import share
from proxyguard.registry.parts import RampRule, RequirementPart, SlackRule, SourceRule
from proxyguard.registry.requirement import Form, Requirement
from proxyguard.registry.test import ComponentTest
from proxyguard.seal.fingerprint import TablePrints
from proxyguard.seal.ledger import Stage
from proxyguard.seal.storage import random_bytes
from proxyguard.tables.columns import as_labels

if TYPE_CHECKING:
    import pandas as pd

    from proxyguard.documents.canonical import Plain
    from proxyguard.documents.registry import Facts, ResolvedRequirement
    from proxyguard.draw.protocol import Fitted

# The chance that people usually want of a release that is good.
USUAL = 0.8

# Simulated targets: as many as so many losses of one requirement allow, between these two.
LOSSES, FEWEST, MOST = 300_000, 60, 400

# The largest targets that are tried, and the ratio to which sizes and limits are found.
MOST_UNITS, TOLERANCE = 100_000, 1.04

# How many times its limit that of a ratio may be, which has no range.
WIDEST_RATIO = 32.0

# Steps by which a reference is mixed with what learned nothing.
MIXES = 20


class Distance(Enum):
    """How far a release is from what is required, as a share of the limit."""

    NONE = 0.0
    HALF = 0.5

    def words(self, form: Form) -> str:
        """Return what such a release is, under a requirement of one form."""
        if form is Form.QUERY:
            return (
                "a release with exactly the target's answers" if self is Distance.NONE
                else "a release whose answer is off by half of the limit"
            )  # fmt: skip
        if form is Form.RELATIVE:
            return (
                "a model as good as the reference on every record" if self is Distance.NONE
                else "a model worse than the reference by half of the limit"
            )  # fmt: skip
        return (
            "a model as good as the reference is in development" if self is Distance.NONE
            else "a model halfway from the reference's loss in development to the limit"
        )  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Population:
    """Rows of the development part, taken for the population that targets are drawn from."""

    records: CodedRecords
    """The rows."""
    design: Design
    """How targets are drawn from it."""
    each: Array
    """What each record counts in the mean that is claimed."""
    strata: tuple[NDArray[np.intp], ...]
    """The units of each stratum, in the order of the design; one of all where there are none."""
    clusters: Clusters | None
    """How records become units, where those are clusters."""
    shares: Array | None
    """What each unit weighs as a share of the most that it may, where units weigh."""

    @classmethod
    def of(cls, member: Member, rows: pd.DataFrame) -> Population:
        """Return rows as what the design of a member draws from.

        Raises
        ------
        RegistryError
            A stratum has no row, or a unit weighs more than one of the target may.
        """
        target, design = member.target, member.target.sampling_design
        rule, clusters, shares, weights = clusters_of(design), None, None, None
        each, unit_of = np.ones(len(rows)), np.arange(len(rows))
        if target.weight_column is not None:
            weights = each = rows[target.weight_column].to_numpy(dtype=np.float64)
        try:
            if rule is not None:
                labels = np.array(as_labels(rows[target.label_columns[-1]]))
                clusters = Clusters.of(labels, rule, shuffle=False, seed=0, weights=weights)
                shares, sizes = clusters.shares(rule), clusters.sizes.astype(np.intp)
                unit_of[clusters.order] = np.repeat(np.arange(sizes.size), sizes)
                if rule.weighting == "cluster":
                    each = 1.0 / clusters.sizes[unit_of]
            elif isinstance(design, Weighted) and weights is not None:
                shares = weight_shares(weights, design)
        except LossError as error:
            raise RegistryError(f"of the development part: {error}") from None
        strata = [np.unique(unit_of)]
        if isinstance(design, Stratified):
            home = np.array(as_labels(rows[target.label_columns[0]]))
            strata, counted = [], np.zeros(len(rows))
            for stratum, weight in ((name, design.weights[name]) for name in design.sizes):
                strata.append(np.unique(unit_of[home == stratum]))
                if not strata[-1].size:
                    raise RegistryError(f"the development part has nothing of stratum {stratum!r}")
                counted[home == stratum] = float(weight) / strata[-1].size
            each = each * counted
        return cls(
            records=CodedRecords(rows), design=design, each=each, strata=tuple(strata),
            clusters=clusters, shares=shares,
        )  # fmt: skip

    @property
    def share(self) -> float | None:
        """What a unit weighs on average, as a share of the most that it may, where units weigh."""
        if self.shares is None:
            return None
        means = [float(self.shares[units].mean()) for units in self.strata]
        if not isinstance(self.design, Stratified):
            return means[0]
        weights = [float(self.design.weights[name]) for name in self.design.sizes]
        return float(np.dot(weights, means))

    def sized(self, units: int) -> Design:
        """Return the design of a target with so many units, strata in their proportions."""
        return self.design.of_size(units) if isinstance(self.design, Stratified) else self.design

    def counting(self, units: int) -> float | None:
        """Return how many units that count alike a target of so many is worth; none if all do."""
        design, share = self.sized(units), self.share
        alike = float(design.effective_size) if isinstance(design, Stratified) else float(units)
        return None if share is None and round(alike) == units else alike * (share or 1.0)

    def drawn(
        self, units: int, count: int, rng: np.random.Generator, inside: NDArray[np.bool_] | None
    ) -> NDArray[np.intp]:
        """Return the units of so many targets, (targets, units), of those with records inside."""
        design, columns = self.sized(units), []
        sizes = list(design.sizes.values()) if isinstance(design, Stratified) else [units]
        for pool, size in zip(self.strata, sizes, strict=True):
            # Of a group, which is none of strata or clusters, as many as there are on average.
            known = pool if inside is None else pool[inside[pool]]
            if not known.size:
                raise RegistryError("the development part has no record that counts")
            wanted = round(size * known.size / pool.size)
            columns.append(rng.choice(known, (count, wanted)))
        return np.concatenate(columns, axis=1)

    def per_unit(self, losses: Array, requirement: Requirement) -> Array:
        """Return the loss of each unit from those of its records, on the registered scale."""
        if self.clusters is None:
            return losses
        unit = (losses[self.clusters.order] - requirement.low) / requirement.width
        reduced = requirement.from_unit(self.clusters.reduce(unit[None])[0])
        return np.clip(reduced, requirement.low, requirement.high)

    def mean(self, values: Array, inside: NDArray[np.bool_] | None) -> Array:
        """Return the mean that is claimed, of the records inside.

        Raises
        ------
        RegistryError
            None of them counts.
        """
        each = self.each if inside is None else np.where(inside, self.each, 0.0)
        if not each.sum() > 0.0:
            raise RegistryError("the development part has no record that counts")
        return np.asarray(each @ values / each.sum())


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Reference:
    """The fitted reference on rows that judge it, and what learned nothing beside it."""

    rows: ValidationPart
    """The rows, with their outcomes."""
    population: Population
    """The same rows, as targets are drawn from them."""
    predicted: Predicted
    """What the reference says of them."""
    nothing: Array
    """What a policy says that learned from no feature."""
    apart: bool
    """Whether the reference did not learn from these rows."""

    @classmethod
    def of(cls, development: MemberDevelopment, fitted: Fitted) -> Reference:
        """Return a fitted reference, judged on the validation part where there is one."""
        training, validation = development.training(), development.validation()
        judging = training if validation is None else validation
        rows = ValidationPart(development, judging)
        seen = outcomes(training[development.outcome.column], development.outcome, "training")
        return cls(
            rows=rows, population=Population.of(development.member, judging),
            predicted=rows.predicted(fitted),
            nothing=policy_predictions("prevalence", seen, len(judging), development.outcome),
            apart=validation is not None,
        )  # fmt: skip

    def mix_for(self, measure: Measure, goal: float) -> float:
        """Return how much of what learned nothing brings the mean loss to a goal, 1 at the most."""
        low, high = 0.0, 1.0
        for _ in range(MIXES):
            middle = (low + high) / 2.0
            low, high = (low, middle) if self.mean(measure, middle) >= goal else (middle, high)
        return high

    def mean(self, measure: Measure, mix: float) -> float:
        """Return the mean loss of the reference, mixed so far with what learned nothing."""
        inside = measure.inside(self.population.records)
        return float(self.population.mean(self.losses(measure, mix), inside))

    def losses(self, measure: Measure, mix: float) -> Array:
        """Return the losses of the reference, mixed so far with what learned nothing."""
        values = (1.0 - mix) * self.predicted.values + mix * self.nothing
        mixed = Predicted(values=values, threshold=self.predicted.threshold)
        return measure.of_predictions(self.rows.y, mixed, self.predicted)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Supposed:
    """One release under one requirement: the losses of every record of a population."""

    population: Population
    measures: tuple[Measure, ...]
    """Both sides of every query, or one loss."""
    losses: tuple[Array, ...]
    """By measure; of a share the shares' own 0 and 1."""
    answers: tuple[float | None, ...]
    """By measure, what the release says; nothing of losses."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outlook:
    """What is foretold of one release, by one requirement or by all of them at once."""

    name: str
    """The requirement; empty for all of them."""
    distance: Distance
    """How far the release is from what is required."""
    pvalue: float
    """Its p-value, in the middle of all simulated targets."""
    chance: float
    """In which share of them it is small enough for Holm's first step."""
    targets: int
    """How many there were."""
    limit: str | None = None
    """The smallest limit that would do, in two digits; nothing where none does or none is asked."""
    units: int | None = None
    """About the smallest target that would do, likewise."""

    @property
    def chance_words(self) -> str:
        """Its chance; what no target showed is not impossible."""
        if not self.chance:
            return f"on none of {self.targets} simulated targets"
        return f"with a chance of {shown_chance(self.chance)}"

    def to_dict(self) -> dict[str, Plain]:
        """Return plain values."""
        return {
            "requirement": self.name, "release": self.distance.name.lower(),
            "pvalue": self.pvalue, "chance": self.chance, "targets": self.targets,
            "limit_that_would_do": self.limit, "units_that_would_do": self.units,
        }  # fmt: skip


def family_size(declaration: Declaration) -> int:
    """Return how many named releases share the error, those of all members."""
    return sum(
        len(member.release) + sum(drawn.draws for drawn in member.mechanism)
        for member in declaration.members
    )


def named_reading(
    declaration: Declaration, design: Design, requirements: Sequence[Requirement], family: int
) -> Reading:
    """Return how the losses of a release are read that is one of so many."""
    claim = declaration.claim.to_claim()
    if isinstance(claim.test, Mapping):
        claim = replace(claim, test={r.name: claim.test[r.name] for r in requirements})
    levels = claim.levels(n_releases=family, n_requirements=len(requirements))
    reading = reading_of(claim, tuple(requirements), design, levels, seed=1)
    return replace(reading, digits=declaration.digits)


def out_of_reach(
    declaration: Declaration, design: Design, requirements: Sequence[Requirement], units: int,
    family: int,
) -> list[str]:  # fmt: skip
    """Return why no losses at all could meet the hardest requirement on so few units; or nothing.

    Of an exposure other records count, and of a share that is counted one record may do.
    """
    asked = [r for r in requirements if r.form is not Form.EXPOSURE]
    if not asked:
        return []
    reading, strata = (
        named_reading(declaration, design, asked, family),
        weighted_strata(design, units),
    )
    least = {}
    for test, requirement in zip(reading.tests, asked, strict=True):
        if not (requirement.indicator and test is ComponentTest.BINOMIAL):
            v = best_limit(requirement)
            least[requirement.name] = (
                best_pvalue(test, units, v, level=reading.level) if strata is None
                else best_weighted_pvalue(test, strata, v)
            )  # fmt: skip
    hardest = max(least, key=least.__getitem__, default=None)
    if hardest is None or least[hardest] <= reading.level:
        return []
    unit = "records" if clusters_of(design) is None else "clusters"
    return [
        f"{hardest!r}: {holm_words(reading.level, family)}, and {units:,} {unit} of the target "
        f"reach {least[hardest]:.2g}, even if every loss is at its lower bound"
    ]


def holm_words(first: float, family: int) -> str:
    """Return what Holm asks of the first of so many releases, in words."""
    return f"Holm asks {first:.2g} of the first of {family:,} releases"


@dataclass(frozen=True, kw_only=True, eq=False)
class Forecast:
    """What named releases of one member would get on targets like its development part.

    Attributes
    ----------
    declaration, member
        What is declared: the claim is about named releases.
    required
        The requirements that can be foretold, with their limits.
    later
        Why others cannot, by name.
    units
        How many records the target has, or clusters where these are counted.
    counted
        Whether its units were counted; else development's clusters say about how many there are.
    population
        The development part.
    reference
        The fitted reference, where it is known.
    gaps
        The share of records whose outcome is missing and whose losses are at their worst; nothing
        where it is not known.
    releases
        How many releases share the error, where others than the declared ones are asked about.
    """

    declaration: Declaration
    member: Member
    required: tuple[ResolvedRequirement, ...]
    later: Mapping[str, str]
    units: int
    counted: bool
    population: Population
    reference: Reference | None
    gaps: float | None
    releases: int | None = None
    _kept: dict[tuple[object, ...], Array | None] = field(default_factory=dict, repr=False)

    @classmethod
    def of(
        cls, declaration: Declaration, development: MemberDevelopment,
        resolved: Sequence[ResolvedRequirement], *, units: int | None, records: int,
        fitted: Fitted | None, gaps: float | None = None, releases: int | None = None,
    ) -> Forecast:  # fmt: skip
        """Return the forecast of a member's named releases.

        Parameters
        ----------
        declaration
            The claim.
        development
            The development part, sealed or not.
        resolved
            The requirements whose limits are known.
        units
            Of the target; nothing where its clusters were not counted.
        records
            Of the target.
        fitted
            The reference, where there is one and its code may run here.
        gaps, releases
            As attributes of a forecast.

        Raises
        ------
        RegistryError
            Development has nothing of a stratum, or heavier units than the target may have.
        """
        member, training = development.member, development.training()
        validation = development.validation()
        rows = training if validation is None else _joined([training, validation])
        population = Population.of(member, rows)
        counted = units is not None
        if units is None:
            units = about_clusters(member, records, rows)
        forecast = cls(
            declaration=declaration, member=member, required=(), later={}, units=units,
            counted=counted, population=population, gaps=gaps, releases=releases,
            reference=None if fitted is None else Reference.of(development, fitted),
        )  # fmt: skip
        known, later = [], {}
        for required in resolved:
            if required.part.exposure is not None:
                later[required.part.name] = "attacks are not simulated"
                continue
            hardest = _hardest(required, population)
            try:
                if forecast._pvalues([hardest], Distance.NONE, units) is None:
                    later[hardest.part.name] = "no reference was fitted"
                else:
                    known.append(hardest)
            except ProxyGuardError as error:
                later[hardest.part.name] = str(error)
        return replace(forecast, required=tuple(known), later=later)

    @property
    def family(self) -> int:
        """How many releases share the error, those of all members."""
        return self.releases or family_size(self.declaration)

    @cached_property
    def first(self) -> float:
        """What Holm asks of the smallest p-value of the family."""
        levels = self.declaration.claim.to_claim().levels(n_releases=self.family, n_requirements=1)
        return levels.betting

    @property
    def unit(self) -> str:
        """What the target is counted in."""
        return "records" if self.population.clusters is None else "clusters"

    @property
    def heaviest(self) -> float | None:
        """What the heaviest unit of development weighs, where units have weights."""
        clusters, design = self.population.clusters, self.population.design
        if clusters is not None:
            return None if clusters.totals is None else float(clusters.totals.max())
        return float(self.population.each.max()) if isinstance(design, Weighted) else None

    @property
    def basis(self) -> str:
        """What all of it rests on, in words."""
        counting = f"{self.counting_words}; " if self.counting_words else ""
        lacking = self.gaps is None and self.member.target.missing_outcomes == "worst"
        without = ", as if no record lacked its outcome" if lacking else ""
        return (
            f"{counting}{self.holm_words}; what follows is foretold on targets drawn from the "
            f"development part{without}, and proves nothing"
        )

    def out_of_reach(self) -> list[str]:
        """Return why no losses at all could meet the hardest requirement; or nothing."""
        measures = [m for required in self.required for m in self._measures(required, None)]
        requirements = [measure.requirement for measure in measures]
        return out_of_reach(
            self.declaration, self.population.sized(self.units), requirements, self.units,
            self.family,
        )  # fmt: skip

    def lenient(self) -> list[str]:
        """Say of which limits what learned nothing has not even used up a half."""
        said = []
        for required in self.required:
            (measure, *others) = self._measures(required, None)
            if others or self.reference is None or measure.loss is None:
                continue
            real, nothing = (
                self.reference.mean(measure, mix) for mix in (0.0, 1.0)
            )  # fmt: skip
            limit = float(required.limit.value)
            if nothing < real + Distance.HALF.value * (limit - real):
                behind = (
                    f"is {nothing:.2g} behind the reference" if required.part.form == "relative"
                    else f"has {nothing:.2g}"
                )  # fmt: skip
                said.append(
                    f"{required.part.name!r}: a model that learned nothing {behind} in "
                    f"development, nearer than halfway to the limit {limit:g}, which says little."
                )
        return said

    def outlooks(self, wanted: float) -> list[Outlook]:
        """Return what a release that is exactly right would get: one by one, and by all at once."""
        every = [self.outlook([each], Distance.NONE, wanted) for each in self.required]
        outlooks = [outlook for outlook in every if outlook is not None]
        together = self.outlook(self.required, Distance.NONE) if len(outlooks) > 1 else None
        # Where one stands in the way, it is said already.
        if together is not None and all(outlook.chance for outlook in outlooks):
            outlooks.append(together)
        return outlooks

    def words(self, outlook: Outlook, wanted: float) -> str:
        """Return an outlook in words, with what would do where its chance is below the wanted."""
        form = {each.part.name: Form(each.part.form) for each in self.required}
        if not outlook.name:
            return f"such a release would meet all requirements at once {outlook.chance_words}"
        said = f"{outlook.name!r}: {outlook.distance.words(form[outlook.name])}"
        said = f"{said} would be validated {outlook.chance_words}"
        if outlook.chance >= wanted:
            return said
        pvalue = f"at a p-value of about {outlook.pvalue:.2g}"
        return f"{said}, {pvalue}; {self.would_do(outlook, wanted)}"

    def outlook(
        self, required: Sequence[ResolvedRequirement], distance: Distance,
        wanted: float | None = None,
    ) -> Outlook | None:  # fmt: skip
        """Return what is foretold of a release; nothing where there is no telling.

        Parameters
        ----------
        required
            One requirement, or all of them, which a release has to meet at once.
        distance
            How far the release is from what is required, by each of them.
        wanted
            The chance that a limit, of one requirement, and a size are looked for with.
        """
        pvalues = self._pvalues(required, distance, self.units)
        if pvalues is None:
            return None
        single = required[0] if len(required) == 1 else None
        chance = self._chance(pvalues)
        outlook = Outlook(
            name="" if single is None else single.part.name, distance=distance,
            pvalue=float(np.median(pvalues)), chance=chance, targets=pvalues.size,
        )  # fmt: skip
        if wanted is None or chance >= wanted:
            return outlook
        return replace(
            outlook,
            limit=None if single is None else self._enough_limit(single, distance, wanted),
            units=self._enough_units(required, distance, wanted),
        )

    def _chance(self, pvalues: Array) -> float:
        return float(np.mean(pvalues <= self.first))

    @property
    def counting_words(self) -> str:
        """What the target counts as, where its units do not count alike; else nothing."""
        counting, share = self.population.counting(self.units), self.population.share
        if counting is None:
            return ""
        said = f"the target's {self.units:,} {self.unit} count as about {round(counting):,}"
        if share is None:
            return f"{said}, since strata weigh otherwise than their sizes do"
        return f"{said}, since one weighs {100 * share:.2g} % of the registered largest on average"

    @property
    def holm_words(self) -> str:
        """What Holm asks, in words."""
        return holm_words(self.first, self.family)

    def would_do(self, outlook: Outlook, wanted: float) -> str:
        """Return which limit and which size would do, in words."""
        would = []
        if outlook.limit is not None:
            would.append(f"a limit of {with_commas(outlook.limit)}, which claims less")
        if outlook.units is not None:
            would.append(f"about {outlook.units:,} {self.unit}")
        if not would:
            return f"no target of up to {MOST_UNITS:,} {self.unit} would do"
        return f"for {wanted:.0%} it takes {', or '.join(would)}"

    def _enough_units(
        self, required: Sequence[ResolvedRequirement], distance: Distance, wanted: float
    ) -> int | None:
        def enough(units: float) -> bool:
            pvalues = self._pvalues(required, distance, round(units))
            return pvalues is not None and self._chance(pvalues) >= wanted

        units = _least(enough, self.units, max(self.units, MOST_UNITS))
        return None if units is None else int(float(_two_digits(units)))

    def _enough_limit(
        self, required: ResolvedRequirement, distance: Distance, wanted: float
    ) -> str | None:
        def enough(limit: float) -> bool:
            pvalues = self._pvalues([required], distance, self.units, _two_digits(limit))
            return pvalues is not None and self._chance(pvalues) >= wanted

        # A limit beyond half of what there can be claims next to nothing.
        measure = self._measures(required, None)[0]
        declared, most = float(required.limit.value), measure.requirement.high / 2.0
        if measure.query is not None and measure.query.per is not None:
            most = WIDEST_RATIO * declared  # in units of the ratio, which has no largest one
        if not 0.0 < declared < most:
            return None
        limit = _least(enough, declared, most)
        return None if limit is None else _two_digits(limit)

    def _measures(self, required: ResolvedRequirement, limit: str | None) -> list[Measure]:
        if limit is not None:
            changed = required.limit.model_copy(update={"value": limit})
            required = required.model_copy(update={"limit": changed})
        return measures_of(self.member, [required])

    def _pvalues(
        self, required: Sequence[ResolvedRequirement], distance: Distance, units: int,
        limit: str | None = None,
    ) -> Array | None:  # fmt: skip
        """Return the release p-value on every simulated target, of the largest requirement."""
        every = [self._by_requirement(each, distance, units, limit) for each in required]
        known = [pvalues for pvalues in every if pvalues is not None]
        return np.asarray(np.max(known, axis=0)) if len(known) == len(every) else None

    def _by_requirement(
        self, required: ResolvedRequirement, distance: Distance, units: int, limit: str | None
    ) -> Array | None:
        key = (required.part.name, distance, units, limit)
        if key not in self._kept:
            cases = self._cases(required, distance, self._measures(required, limit))
            # Off to one side or to the other: whichever the tests see less clearly.
            sides = [self._on_targets(case, units) for case in cases]
            self._kept[key] = max(
                sides, key=lambda p: (-self._chance(p), float(np.median(p))), default=None
            )
        return self._kept[key]

    def _cases(
        self, required: ResolvedRequirement, distance: Distance, measures: list[Measure]
    ) -> list[Supposed]:
        apart = distance.value * float(required.limit.value)
        if measures[0].query is None:
            case = self._predicted(measures[0], distance, float(required.limit.value))
            return [] if case is None else [case]
        return [self._answered(measures, shift) for shift in ((apart, -apart) if apart else (0.0,))]

    def _answered(self, measures: Sequence[Measure], shift: float) -> Supposed:
        """Return a release whose answers are those of development, off by something."""
        population, losses, answers = self.population, [], []
        for measure in measures:
            query = measure.query
            assert query is not None  # the caller asked
            values = query.values(population.records)
            means = population.mean(values, measure.inside(population.records))
            if query.per is None:
                answer = float(np.clip(means + shift, query.low, query.high))
            elif means[1] > 0.0:
                answer = float(means[0] / means[1]) + shift
            else:
                raise RegistryError("the mean below the line is 0 in development")
            answers.append(answer)
            shown = measure.requirement.indicator and self._counts(measure)
            losses.append(values if shown else measure.of_query_values(values, answer))
        return Supposed(
            population=population, measures=tuple(measures), losses=tuple(losses),
            answers=tuple(answers),
        )  # fmt: skip

    def _predicted(self, measure: Measure, distance: Distance, limit: float) -> Supposed | None:
        """Return a model that is as good as the reference, or worse; nothing without one."""
        population, losses = self.population, np.zeros(len(self.population.records))
        relative = measure.requirement.form is Form.RELATIVE
        if not relative or distance is not Distance.NONE:
            if self.reference is None:
                return None
            population, mix = self.reference.population, 0.0
            if distance is not Distance.NONE:
                real = self.reference.mean(measure, 0.0)
                mix = self.reference.mix_for(measure, real + distance.value * (limit - real))
            losses = self.reference.losses(measure, mix)
        if self.gaps:
            lacking = generator(1, 4).permutation(losses.size)[: round(self.gaps * losses.size)]
            losses = losses.copy()
            losses[lacking] = measure.requirement.high
        return Supposed(
            population=population, measures=(measure,), losses=(losses,), answers=(None,)
        )

    def _counts(self, measure: Measure) -> bool:
        return reads_counts(self._reading([measure], self.units), 0)

    def _reading(self, measures: Sequence[Measure], units: int) -> Reading:
        """Return how a target of so many units would be read."""
        requirements = [measure.requirement for measure in measures]
        design = self.population.sized(units)
        return named_reading(self.declaration, design, requirements, self.family)

    def _on_targets(self, case: Supposed, units: int) -> Array:
        """Return the release p-value of a case on every simulated target."""
        reading = self._reading(case.measures, units)
        targets = int(np.clip(LOSSES / units, FEWEST, MOST))
        rows = int(np.clip(LOSSES / units, 1, targets))
        # Of one seed: requirements are judged on the same targets, which a release has to pass.
        rng, pvalues = np.random.default_rng([1, units]), []
        for start in range(0, targets, rows):
            count = min(rows, targets - start)
            columns = self._columns(case, reading, units, count, rng)
            releases = tuple(map(str, range(count)))
            evidence = evidence_of(columns, reading, releases=releases)
            pvalues.append(evidence.release_pvalues)
        return np.concatenate(pvalues)

    def _columns(
        self, case: Supposed, reading: Reading, units: int, count: int, rng: np.random.Generator
    ) -> tuple[Column, ...]:
        """Return the statistics of a case, one target after the other in the place of releases."""
        population, columns = case.population, []
        groups = {measure.group for measure in case.measures}
        drawn = {
            group: population.drawn(units, count, rng, inside)
            for group in groups
            for inside in [population.records.inside(group) if group else None]
        }
        for j, measure in enumerate(case.measures):
            places, answer, requirement = drawn[measure.group], case.answers[j], measure.requirement
            if answer is not None and requirement.indicator and reads_counts(reading, j):
                above, n = measure.sign > 0.0, places.shape[1]
                ones = np.rint(case.losses[j][places].sum(axis=1)).astype(np.int64)
                answers = answers_on(np.full(count, answer), above)
                columns.append(share_column(n, ones if above else n - ones, answers))
                continue
            columns.append(_column(case, reading, j, places))
        return tuple(columns)


def _joined(parts: Sequence[pd.DataFrame]) -> pd.DataFrame:
    import pandas as pd

    return pd.concat(parts, ignore_index=True)


def _hardest(required: ResolvedRequirement, population: Population) -> ResolvedRequirement:
    """Return a requirement with those of its shares alone that vary most: the nearest to a half."""
    if required.part.query is None or len(required.queries) <= NEAREST:
        return required
    coding = codings(required.part.query)
    cells = Workload([BoundedQuery.of(query, coding) for query in required.queries])
    shares = cells.counts(population.records) / len(population.records)
    nearest = np.sort(np.argsort(np.abs(shares - 0.5), kind="stable")[:NEAREST])
    return required.model_copy(update={"queries": tuple(required.queries[k] for k in nearest)})


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class NamedPlan:
    """What releases of one member would get, and what would do: an answer to ``proxyguard plan``.

    Attributes
    ----------
    forecast
        Of the member.
    wanted
        The chance that limits and sizes were looked for with.
    outlooks
        By requirement, empty for all of them at once: of a release that is exactly right, and of
        one that is halfway to its limit, where there is telling.
    """

    forecast: Forecast
    wanted: float
    outlooks: dict[str, dict[Distance, Outlook]]

    @classmethod
    def of(cls, forecast: Forecast, wanted: float) -> NamedPlan:
        """Look for what would do, by each requirement and by all of them."""
        asked = [[required] for required in forecast.required]
        if len(asked) > 1:
            asked.append(list(forecast.required))
        outlooks: dict[str, dict[Distance, Outlook]] = {}
        for required in asked:
            name = required[0].part.name if len(required) == 1 else ""
            told = {d: forecast.outlook(required, d, wanted) for d in Distance}
            outlooks[name] = {d: outlook for d, outlook in told.items() if outlook is not None}
        return cls(forecast=forecast, wanted=wanted, outlooks=outlooks)

    @property
    def hopeless(self) -> bool:
        """Whether no simulated target would validate even a release that is exactly right."""
        return any(
            told[Distance.NONE].chance == 0.0
            for told in self.outlooks.values()
            if Distance.NONE in told
        )

    def to_dict(self) -> dict[str, Plain]:
        """Return plain values."""
        forecast = self.forecast
        return {
            "units": forecast.units, "unit": forecast.unit,
            "counting_as": forecast.population.counting(forecast.units),
            "releases": forecast.family, "first": forecast.first, "wanted": self.wanted,
            "outlooks": [o.to_dict() for told in self.outlooks.values() for o in told.values()],
            "not_foretold": dict(forecast.later),
        }  # fmt: skip

    def __str__(self) -> str:
        return "\n".join(self.lines())

    def lines(self) -> list[str]:
        """Return the answer as a person reads it."""
        forecast = self.forecast
        target = forecast.counting_words or f"the target has {forecast.units:,} {forecast.unit}"
        lines = [
            f"{forecast.holm_words}; {target}.",
            "",
            "The chance of being validated, on targets drawn from the development part:",
        ]
        head = ("", "limit", *(_HEADS[distance] for distance in Distance))
        lines += _aligned([head, *(self._row(name, _chance) for name in self.outlooks)])
        if any(o.chance < self.wanted for told in self.outlooks.values() for o in told.values()):
            lines += ["", f"For {self.wanted:.0%} it takes:"]
            lines += _aligned([head, *(self._row(name, self._would) for name in self.outlooks)])
            lines += ["A larger limit claims less."]
        lines += [f"{name!r} is not foretold: {why}." for name, why in forecast.later.items()]
        lines += forecast.lenient()
        forms = dict.fromkeys(Form(required.part.form) for required in forecast.required)
        for distance in Distance:
            said = "; ".join(distance.words(form) for form in forms)
            lines.append(f"{_HEADS[distance].capitalize()}: {said}.")
        return [
            *lines,
            "A target may be unlike its development part: this is a plan and proves nothing.",
        ]

    def _row(self, name: str, cell: Callable[[Outlook], str]) -> tuple[str, ...]:
        limits = {r.part.name: with_commas(r.limit.value) for r in self.forecast.required}
        told = self.outlooks[name]
        cells = [cell(told[d]) if d in told else "no telling" for d in Distance]
        return (name or "all at once", limits.get(name, ""), *cells)

    def _would(self, outlook: Outlook) -> str:
        if outlook.chance >= self.wanted:
            return "enough as it is"
        would = [] if outlook.limit is None else [f"limit {with_commas(outlook.limit)}"]
        would += [] if outlook.units is None else [f"{outlook.units:,} {self.forecast.unit}"]
        return " or ".join(would) or f"more than {MOST_UNITS:,} {self.forecast.unit}"


_HEADS = {Distance.NONE: "exactly right", Distance.HALF: "halfway to the limit"}


def _chance(outlook: Outlook) -> str:
    return "none" if not outlook.chance else shown_chance(outlook.chance)


def _aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(map(len, cells)) for cells in zip(*rows, strict=True)]
    return [
        "    " + "  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]


def unsealed_reference(development: MemberDevelopment) -> Fitted | None:
    """Return the fitted reference, where one is declared and all of its code is ours.

    Code of others runs where draws run, and never for a question.
    """
    procedure, outcome = development.member.procedure, development.member.target.predicted
    if procedure is None or outcome is None:
        return None
    if not all(is_ours(name, "procedure") for name in procedure.library):
        return None
    return fit_training(development)


def unsealed_limits(
    declaration: Declaration, development: MemberDevelopment, fitted: Fitted | None, records: int
) -> tuple[ResolvedRequirement, ...]:
    """Return the requirements whose limits are known before the target is sealed.

    Parameters
    ----------
    declaration
        The claim.
    development
        The development part.
    fitted
        The reference, where its code may run before the seal.
    records
        Of the target.
    """
    facts = unsealed_facts(development, fitted)
    known = tuple(part for part in development.member.requirement if _is_known(part, facts))
    member = development.member.model_copy(update={"requirement": known})
    return resolve_limits(member, facts, declaration.claim, records)


def forecast_unsealed(
    declaration: Declaration, place: Workplace, ready: PreparedMember, fitted: Fitted | None,
    releases: int | None = None,
) -> Forecast:  # fmt: skip
    """Return the forecast of a member whose target is not sealed yet: what can be told by then.

    Parameters
    ----------
    declaration
        The claim.
    place
        What the command works with.
    ready
        The member, divided as sealing will.
    fitted
        What `unsealed_reference` gave.
    releases
        As an attribute of a forecast.

    Raises
    ------
    RegistryError
        As `Forecast.of` does, or a limit follows from nothing.
    """
    member, division, development = ready.member, ready.division, UnsealedDevelopment(place, ready)
    assert division is not None  # losses that were given have no development part
    records = planned_records(member, len(division.target))
    units = records
    if member.target.clusters is not None:
        # Of the target the labels of its clusters are read, as sealing does, and no more.
        units = len(set(as_labels(division.target[member.target.clusters.by])))
    return Forecast.of(
        declaration, development, unsealed_limits(declaration, development, fitted, records),
        units=units, records=records, fitted=fitted, releases=releases,
        gaps=division.gaps if member.target.missing_outcomes == "worst" else 0.0,
    )  # fmt: skip


def forecast_sealed(
    declaration: Declaration, development: MemberDevelopment, facts: Facts,
    releases: int | None = None,
) -> Forecast:  # fmt: skip
    """Return the forecast of a member whose target is sealed, from what the folder holds.

    Parameters
    ----------
    declaration
        The claim.
    development
        The development part.
    facts
        What was learned on it, its stored reference among them.
    releases
        As an attribute of a forecast.

    Raises
    ------
    RegistryError
        As `Forecast.of` does, or a limit follows from nothing.
    """
    member, fitted = development.member, None
    records = planned_records(member, development.sealed.records)
    if facts.source is not None:
        # The declaration's own list: an author loads here what their own procedure stored.
        trusted = () if member.procedure is None else member.procedure.trusted
        folder = development.place.folder
        fitted = load_fitted(folder, facts.source.model, facts.source, trusted)
    return Forecast.of(
        declaration, development, resolve_limits(member, facts, declaration.claim, records),
        units=records if member.target.clusters is None else declared_records(member),
        records=records, fitted=fitted, releases=releases,
    )  # fmt: skip


def forecasts(
    place: Workplace, *, alpha: str | None = None, releases: int | None = None,
    records: int | None = None,
) -> dict[str, Forecast]:  # fmt: skip
    """Return the forecast of every member of an audit of named releases, sealed or not.

    Parameters
    ----------
    place
        What the command works with.
    alpha, releases, records
        The error of the family, its releases and the units of a target, where others than the
        declared ones are asked about.

    Raises
    ------
    RegistryError
        Losses were computed elsewhere, or there is nothing to tell from.
    """
    declaration, ledger = place.folder.declaration(), place.folder.journal().ledger
    if alpha is not None:
        claim = declaration.claim.model_copy(update={"alpha": str(share(alpha, "alpha"))})
        declaration = declaration.model_copy(update={"claim": claim})
    told: dict[str, Forecast] = {}
    for member in declaration.members:
        if member.target.losses is not None:
            raise RegistryError(
                f"{member.name}: losses are computed elsewhere here, and nothing foretells them: "
                "plan with proxyguard plan --losses FILE and --require for each requirement"
            )
        if ledger.has(Stage.SEALED):
            development = MemberDevelopment(place, member, ledger.sealed.members[member.name])
            facts = develop(development, declaration)
            forecast = forecast_sealed(declaration, development, facts, releases)
        else:
            # A key of this one comparison: what is planned makes no home.
            prints = partial(TablePrints, key=random_bytes(32))
            ready = prepare_member(member, place.data, prints)
            fitted = unsealed_reference(UnsealedDevelopment(place, ready))
            forecast = forecast_unsealed(declaration, place, ready, fitted, releases)
        told[member.name] = forecast if records is None else replace(forecast, units=records)
    return told


def _is_known(part: RequirementPart, facts: Facts) -> bool:
    """Say whether a limit follows from these facts, and no code of others makes the losses."""
    ruled = isinstance(part.slack, SlackRule) or isinstance(part.ramp, RampRule)
    if ruled or (part.loss is not None and ":" in part.loss):
        return False
    if isinstance(part.limit, SourceRule):
        return part.name in facts.risks
    return isinstance(part.limit, str)


def _column(case: Supposed, reading: Reading, j: int, places: NDArray[np.intp]) -> Column:
    """Return the statistics of one measure, read as the audit reads it."""
    population, requirement = case.population, reading.requirements[j]
    count, n = places.shape
    ends, weights, uniforms = None, None, None
    if case.answers[j] is not None:
        told = np.array(case.measures[j].ends(case.answers[j]))
        ends = np.repeat(unit_ends(told[:, None], requirement), count, axis=1)
    cell, design = Cell(reading, j, count, n, 0, ends), reading.design
    if isinstance(design, Stratified) and design.sampling is Sampling.WEIGHTED:
        omega = record_weights(design)
        weights = np.repeat([omega[name] for name in design.sizes], [*design.sizes.values()])
    if reading.tests[j] is ComponentTest.RANDOMIZED_BINOMIAL:
        uniforms = generator(1, 1, j).random(places.shape)
    shares = None if population.shares is None else population.shares[places]
    losses = population.per_unit(case.losses[j], requirement)
    cell.add(losses[places], Units(None, weights, None, shares, None), uniforms)
    # What a unit weighs on average is summed over one target there, and here over all of them.
    return replace(cell.column(), size_share=population.share)


def _least(enough: Callable[[float], bool], start: float, most: float) -> float | None:
    """Return about the least number that is enough, from one that is not; nothing up to the most.

    What is enough is simulated, so that no finer answer would be one.
    """
    low, high = start, start
    while not enough(high):
        if high >= most:
            return None
        low, high = high, min(most, 2.0 * high)
    while high > low * TOLERANCE:
        middle = sqrt(low * high)
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


def shown_chance(chance: float) -> str:
    """Return a simulated chance in words: what every target shows is not certain."""
    return "over 99%" if chance > 0.99 else f"{chance:.0%}"


def with_commas(number: str) -> str:
    """Return a decimal with its thousands set apart."""
    whole, point, digits = number.partition(".")
    return f"{int(whole):,}{point}{digits}"


def _two_digits(number: float) -> str:
    """Return a positive number as people write it, up from where two digits do not hold it.

    >>> _two_digits(0.1712), _two_digits(19_600.0)
    ('0.18', '20000')
    """
    rounded = Context(prec=2, rounding=ROUND_UP).create_decimal(repr(number))
    return f"{rounded.normalize():f}"
