"""Plan an audit from its own declaration: pilots on development data, sizes, obstacles.

`declared_question` and `pilot_laws` give the planner its question and its laws, `obstacles` tells
`check` why no outcome could validate, `privacy_notes` what the draws would cost. Read are the
declaration, the ledger and the development part; nothing is written but the source's model.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, TypedDict, Unpack

import numpy as np
from numpy.typing import NDArray

from proxyguard.adapters.privacy import privacy_lines, privacy_of
from proxyguard.audit.development import (
    JudgedPilot,
    MemberDevelopment,
    ValidationPart,
    Workplace,
    develop,
    load_fitted,
    pilot_losses,
)
from proxyguard.audit.rules import measures_of, planned_records, resolve_limits, resolve_roles
from proxyguard.audit.score import answers_on
from proxyguard.errors import RegistryError, StageError
from proxyguard.exact.rounding import Array
from proxyguard.losses.measure import Measure
from proxyguard.modes.planning import (
    AuditPlan,
    planned,
)
from proxyguard.plan.law import (
    NEAREST,
    Law,
    Others,
    drawn_together,
    nearest_requirements,
    pilot_law,
)
from proxyguard.plan.question import Question
from proxyguard.plan.recommend import needs
from proxyguard.registry.declaration import Declaration, Member
from proxyguard.registry.design import (
    Clustered,
    Design,
    Stratified,
    StratifiedClusters,
)
from proxyguard.registry.parts import ClaimPart, Drawn, MechanismPart, RampRule, Seeds
from proxyguard.registry.requirement import Requirement
from proxyguard.seal.ledger import Stage
from proxyguard.tables.columns import as_labels

if TYPE_CHECKING:
    import pandas as pd

ABOUT_MECHANISMS = (
    "pilots and sizes are planned for mechanisms, and this declaration has none: of named releases "
    "audit.forecast tells what they would get, and of a stream of candidates nothing is planned"
)

# Units of a target whose number is not known yet: then only the draws are judged.
MANY = 10**6


def obstacles(
    claim: ClaimPart, design: Design, requirements: Sequence[Requirement], *, n: int,
    releases: int, mechanisms: int, failed: int = 0,
) -> tuple[str, ...]:  # fmt: skip
    """Return why no outcome at all could validate the claim; empty if some could.

    A sequential audit is judged as the fixed one with all of its draws, which needs no more.

    Parameters
    ----------
    claim
        The declared claim.
    design
        How the target is sampled.
    requirements
        The requirements with their limits.
    n, releases, mechanisms
        Target records, draws of one mechanism, and mechanisms that share the error.
    failed
        Of these draws those that failed already, which count as invalid.
    """
    # Named releases and candidates are judged one by one: no number of draws stands in their way.
    if claim.level != "mechanism" or claim.stream:
        return ()
    if isinstance(design, Clustered):
        n = MANY  # clusters, not records, are counted, and their number is not known here
    if isinstance(design, StratifiedClusters):
        n = design.n_records  # as many clusters as were registered
    plan = AuditPlan(
        claim=planned(claim.fixed_claim()), n=n, releases=releases, mechanisms=mechanisms,
        design=design,
    )  # fmt: skip
    limits = needs(tuple(requirements), plan)
    least = plan.claim.least_count(plan, tuple(requirements), plan.levels(tuple(requirements)))
    if limits.obstacles or least is None or releases - failed >= least:
        return limits.obstacles
    return (
        f"{failed} of {releases} draws failed, which count as invalid, and at least {least} have "
        "to be valid; mend the generator, and start an audit with a fresh target or draw again "
        "before they are frozen",
    )


def pilot_laws(
    workplace: Workplace, *, draws: int, first_seed: int, reliability: float | None
) -> dict[str, Law]:
    """Return the law of every mechanism, from pilot draws judged on validation data.

    These draws have seeds of their own: registered releases must not take part in any choice,
    and the pilots that gave a mechanism its role were chosen for their margins.

    Parameters
    ----------
    workplace
        What the command works with.
    draws
        How many pilot draws each mechanism gets.
    first_seed
        The first of their seeds, which are consecutive.
    reliability
        The reliability to plan for; without one, a cautious reading of the pilots.

    Raises
    ------
    StageError
        The target is not sealed, so that there is no development part.
    RegistryError
        The declaration is about releases, requires nothing that pilots can tell of, or has these
        seeds itself.
    """
    declaration = workplace.folder.declaration()
    ledger = workplace.folder.journal().ledger
    if declaration.candidate or declaration.claim.level != "mechanism":
        raise RegistryError(ABOUT_MECHANISMS)
    if not ledger.has(Stage.SEALED):
        raise StageError(_unsealed_words(workplace))
    (member,) = declaration.members
    if member.target.losses is not None:
        raise RegistryError(
            "losses are computed elsewhere here, and those of pilots too: give them to proxyguard "
            "plan --losses FILE, with --require for each requirement"
        )
    sealed = ledger.sealed.members[member.name]
    development = MemberDevelopment(workplace, member, sealed)
    facts = develop(development, declaration)
    trained = any(part.loss is not None for part in member.requirement)
    if facts.source is None and trained:
        raise RegistryError(
            "pilots need a [procedure], which is trained on them; plan from assumed margins instead"
        )
    records = planned_records(member, sealed.records)
    limits = resolve_limits(member, facts, declaration.claim, records)
    measures, left_out = _plannable(measures_of(member, limits))
    # The declaration's own list: an author loads here what their own procedure stored.
    trusted = () if member.procedure is None else member.procedure.trusted
    source = None
    if facts.source is not None:
        source = load_fitted(workplace.folder, facts.source.model, facts.source, trusted)
    roles = resolve_roles(declaration, limits, facts)
    pilots = [_pilot(m, roles, declaration, draws, first_seed) for m in member.mechanism]
    judged = pilot_losses(development, pilots, measures, source)
    validation = ValidationPart.of(development)
    assert validation is not None  # pilots were just judged on it
    laws = {}
    for name, by_seed in judged.items():
        # In the order of seeds: the order in which draws came back is no part of a law.
        table = _PilotTable([one for _, one in sorted(by_seed.items())], measures, validation)
        law = table.law(reliability)
        laws[name] = replace(law, origin=f"{law.origin}{left_out}")
    return laws


def _unsealed_words(workplace: Workplace) -> str:
    """Say what to type before pilots can be drawn, and what that leaves open."""
    return (
        "planned: pilots are drawn from the development part, which sealing writes; type: "
        f"proxyguard seal {workplace.folder.path} (limits, draws and the claim stay open until "
        "register), or plan from assumed margins, without a folder: proxyguard plan --require ..."
    )


def _plannable(measures: Sequence[Measure]) -> tuple[list[Measure], str]:
    """Return what pilots tell of, and in words what is left out.

    Raises
    ------
    RegistryError
        Nothing is left to plan.
    """
    exposed = ", ".join(dict.fromkeys(repr(m.part) for m in measures if m.exposure is not None))
    left = [m for m in measures if m.exposure is None]
    separately = (
        "planned separately: attacks are not simulated, and what they can show follows from the "
        "numbers of members and of target records"
    )
    if not left:
        raise RegistryError(
            f"{exposed}: a requirement about exposure is {separately}; nothing else is required"
        )
    return left, f", without {exposed} about exposure ({separately})" if exposed else ""


class _PilotTable:
    """The pilots of one mechanism on the validation records, requirement by requirement."""

    def __init__(
        self, pilots: Sequence[JudgedPilot], measures: Sequence[Measure], validation: ValidationPart
    ) -> None:
        self._pilots, self._measures, self._validation = pilots, measures, validation
        self._clusters = validation.clusters
        self._counting = [validation.counting(m) for m in measures]
        if self._clusters is not None:  # groups are not covered there
            self._counting = [np.ones(self._clusters.sizes.size, dtype=bool) for _ in measures]
        self._stays, self._luck = 1.0, np.zeros(len(measures))
        self._draw_together()

    def law(self, reliability: float | None) -> Law:
        """Return the law of these pilots under the requirements nearest to their limits."""
        kept, missing = self._nearest()
        measures = [self._measures[j] for j in kept]
        shape = (len(self._pilots), len(self._counting[0]), len(kept))
        losses, answers = np.empty(shape), np.full((shape[0], shape[2]), np.nan)
        for place, j in enumerate(kept):
            # Those that do not count have the least loss there is.
            losses[:, :, place] = self._measures[j].requirement.low
            losses[:, self._counting[j], place] = self._losses(j)
            answers[:, place] = self._answers(j)
        answers[missing] = 0.0
        losses[missing] = [m.requirement.high for m in measures]
        shares = any(m.requirement.indicator for m in measures)
        law = pilot_law(
            losses, [self._required(m) for m in measures], reliability=reliability,
            counting=np.stack([self._counting[j] for j in kept], axis=1),
            answers=np.nan_to_num(answers) if shares else None,
            known_records=[
                shape[1] / (1.0 if m.query is None else max(self._stays, 1e-3)) for m in measures
            ],
        )  # fmt: skip
        if self._clusters is not None:
            law = replace(law, origin=law.origin.replace(" records", " clusters", 1))
        every = len(self._measures)
        if len(kept) == every:
            return law
        return replace(
            law,
            origin=f"{law.origin}, with the {len(kept)} of {every:,} requirements nearest to their "
            "limits (a release that misses another never scores)",
            others=self._others(np.setdiff1d(np.arange(every), kept)),
        )

    def _others(self, places: NDArray[np.intp]) -> Others:
        """Return the requirements that a search leaves out, read from the pilots when asked for."""

        def alone(place: int, kinds: NDArray[np.intp]) -> Law:
            j = int(places[place])
            measure, counting = self._measures[j], self._counting[j]
            losses = np.full((len(kinds), len(counting), 1), measure.requirement.low)
            losses[:, counting, 0] = self._losses(j, kinds)
            answers = np.nan_to_num(self._answers(j)[kinds, None])
            return pilot_law(
                losses, [self._required(measure)], reliability=1, counting=counting[:, None],
                answers=answers if measure.requirement.indicator else None, truth=True,
            )  # fmt: skip

        def inside(place: int) -> Array | None:
            j = int(places[place])
            measure = self._measures[j]
            if measure.query is None or not measure.requirement.indicator:
                return None
            if self._clusters is not None or not self._counting[j].all():
                return None
            values = measure.query.values(self._validation.coded)
            return values if measure.sign > 0.0 else 1.0 - values

        return Others(
            requirements=tuple(self._required(self._measures[j]) for j in places),
            alone=alone, inside=inside, kinds=np.arange(len(self._pilots)),
            answers=np.nan_to_num(np.stack([self._answers(int(j)) for j in places], axis=1)),
        )  # fmt: skip

    def _nearest(self) -> tuple[list[int], NDArray[np.bool_]]:
        """Return which requirements are planned with, and which pilots miss one of the others."""
        every = range(len(self._measures))
        if len(every) <= NEAREST:
            return list(every), np.zeros(len(self._pilots), dtype=bool)
        below = np.empty((len(self._pilots), len(every)))
        deviations = np.empty(below.shape)
        for j in every:
            losses = self._losses(j)
            below[:, j] = self._measures[j].requirement.limit - losses.mean(axis=1)
            deviations[:, j] = losses.std(axis=1)
        valid = np.all(below > 0.0, axis=1)
        if not valid.any():
            valid[:] = True  # nothing is valid: whatever is planned with says so
        kept = nearest_requirements((below / np.maximum(deviations, 1e-9))[valid])
        others = np.setdiff1d(every, kept)
        return [int(j) for j in kept], np.any(below[:, others] <= 0.0, axis=1)

    def _draw_together(self) -> None:
        """Find how far the answers of all pilots are off by the luck of the validation records."""
        asked, shared, noise = [], [], []
        for j, measure in enumerate(self._measures):
            if measure.query is None or not self._counting[j].any():
                continue
            answered = self._answered(measure.query.name)
            if answered.any():
                losses = self._losses(j)[answered] / measure.requirement.width
                asked.append(j)
                shared.append(losses.mean())  # of no difference it is 0
                noise.append(losses.var(axis=1).mean() / losses.shape[1])
        if asked:
            differences = np.array(shared)
            stay, self._stays = drawn_together(differences, float(np.mean(noise)))
            widths = np.array([self._measures[j].requirement.width for j in asked])
            self._luck[asked] = (differences - stay) * widths

    def _losses(self, j: int, kinds: NDArray[np.intp] | None = None) -> Array:
        """Return one requirement's losses, some or all pilots x records that count."""
        measure, inside = self._measures[j], self._counting[j]
        pilots = self._pilots if kinds is None else [self._pilots[kind] for kind in kinds]
        if measure.query is None:
            losses = np.stack([one.losses[measure.requirement.name] for one in pilots])
            return self._per_unit(losses, measure.requirement)
        values = measure.query.values(self._validation.coded)
        if self._clusters is None:
            values = values[inside]
        name = measure.query.name
        losses = np.stack([measure.of_query_values(values, p.answers[name]) for p in pilots])
        answered = self._answered(name)
        answered = answered if kinds is None else answered[kinds]
        requirement = measure.requirement
        if requirement.indicator and self._clusters is None:
            # Each is judged by its own answer, which is a share.
            moved = self._answers(j) - self._said(j)
            losses[answered] -= (moved if kinds is None else moved[kinds])[answered, None]
            return losses
        losses = self._per_unit(losses, requirement)
        losses[answered] = np.clip(
            losses[answered] - self._luck[j], requirement.low, requirement.high
        )
        return losses

    def _per_unit(self, losses: Array, requirement: Requirement) -> Array:
        """Return the losses of units from those of records: of clusters the means."""
        if self._clusters is None:
            return losses
        unit = (losses[:, self._clusters.order] - requirement.low) / requirement.width
        means = requirement.from_unit(self._clusters.reduce(unit))
        return np.clip(means, requirement.low, requirement.high)

    def _required(self, measure: Measure) -> Requirement:
        """Return a requirement as units have it: the mean of a cluster is not two-valued."""
        if self._clusters is None:
            return measure.requirement
        return replace(measure.requirement, two_valued=False)

    def _answered(self, query: str) -> NDArray[np.bool_]:
        """Return which pilots have an answer to a query at all."""
        return np.array([pilot.answers[query] is not None for pilot in self._pilots])

    def _said(self, j: int) -> Array:
        """Return what pilots answer on a side of a share, 0 where they do not; NaN of others."""
        measure = self._measures[j]
        if measure.query is None or not measure.requirement.indicator:
            return np.full(len(self._pilots), np.nan)
        said = [one.answers[measure.query.name] for one in self._pilots]
        shares = np.array([np.nan if share is None else share for share in said])
        return answers_on(shares, above=measure.sign > 0.0)

    def _answers(self, j: int) -> Array:
        """Return the same without the luck of the validation records."""
        said, query = self._said(j), self._measures[j].query
        if query is None:
            return said
        freed = np.clip(said + self._luck[j], 0.0, 1.0)
        return np.asarray(np.where(self._answered(query.name), freed, said))


def privacy_notes(workplace: Workplace) -> dict[str, list[str]]:
    """Return, for every private mechanism, what its releases would cost if all were given out.

    Of several members, by member and mechanism.
    """
    declaration = workplace.folder.declaration()
    notes = {
        declaration.told_as(member.name, mechanism.name): _privacy_note(
            workplace, member, mechanism
        )
        for member in declaration.members
        for mechanism in member.mechanism
        if mechanism.generator != "losses"
    }
    return {name: lines for name, lines in notes.items() if lines}


def _privacy_note(workplace: Workplace, member: Member, mechanism: MechanismPart) -> list[str]:
    """Return the words on one mechanism; where a role is open, those on each pilot it may be."""
    if mechanism.role is None:
        return _stated(workplace, member, mechanism, mechanism.draws)
    notes = {
        pilot.name: _stated(workplace, member, pilot, mechanism.draws)
        for pilot in _possible_pilots(workplace, member, mechanism)
    }
    first = next(iter(notes.values()))
    if all(lines == first for lines in notes.values()):
        return first
    return [
        f"If the role falls to pilot {name}: {line}"
        for name, lines in notes.items()
        # Silence is said: beside the costs of other pilots it would look like none.
        for line in lines or ["It states no privacy."]
    ]


def _possible_pilots(workplace: Workplace, member: Member, mechanism: MechanismPart) -> list[Drawn]:
    """Return the pilot that plays a role, or, before registration, all among which one will."""
    declaration, journal = workplace.folder.declaration(), workplace.folder.journal()
    assert declaration.roles is not None  # there is a mechanism with a role
    names: Sequence[str] = declaration.roles.pilots
    if journal.ledger.has(Stage.REGISTERED):
        resolved = workplace.folder.registry(journal).members[member.name].mechanisms
        played = resolved.get(mechanism.name)
        names = names if played is None else [str(played.pilot)]
    return [pilot for pilot in declaration.pilot if pilot.name in names]


def _stated(workplace: Workplace, member: Member, drawn: Drawn, draws: int) -> list[str]:
    """Return what a generator says of the privacy of so many draws; nothing if it is silent."""
    stated = privacy_of(workplace.descriptions.of(workplace, member, drawn).describe)
    return [] if stated is None else privacy_lines(stated, draws)


def _pilot(
    mechanism: MechanismPart, roles: Mapping[str, str], declaration: Declaration, draws: int,
    first_seed: int,
) -> Drawn:  # fmt: skip
    """Return the pilot draws of a mechanism; of a role, those of the configuration that has it."""
    _check_seeds(declaration, range(first_seed, first_seed + draws))
    drawn_as = declaration.drawn_as(mechanism, roles.get(mechanism.role or ""))
    return Drawn(
        name=mechanism.name, generator=drawn_as.generator, draws=draws,
        # The seed of the registered preparation: a claim is conditional on it, and so is its law.
        seeds=Seeds(first=first_seed), prepare_seed=mechanism.prepare_seed,
        options=drawn_as.options,
    )  # fmt: skip


def _check_seeds(declaration: Declaration, seeds: range) -> None:
    """Refuse seeds of the declaration itself for the draws of a plan."""
    registered = {seed for _, seed in declaration.registered_draws}
    pilots = {seed for pilot in declaration.pilot for seed in pilot.seed_list}
    for taken, why in (
        (registered, "registered releases must not take part in planning"),
        (pilots, "those pilots gave limits or roles, so they are no fresh sample"),
    ):
        if taken & set(seeds):
            raise RegistryError(
                f"pilot seeds {seeds.start} to {seeds.stop - 1} are among the registered ones; "
                f"{why}, choose other seeds"
            )


class OpenChoices(TypedDict, total=False):
    """Keywords of `Question`, any of them."""

    reliability_target: str
    alpha: str
    mechanisms: int
    n: int
    releases: int
    most_records: int
    most_releases: int
    record_cost: float
    release_cost: float
    screening_cost: float
    budget: float
    power: float
    design: Design
    modes: tuple[str, ...]
    digits: int | None


def declared_question(workplace: Workplace, **choices: Unpack[OpenChoices]) -> Question:
    """Return the question that a declaration asks: its target, error, family and sizes.

    Parameters
    ----------
    workplace
        What the command works with.
    **choices
        Keywords of `Question` that replace what was declared.

    Raises
    ------
    RegistryError
        The declaration names releases, or has candidates.
    StageError
        How many records there are is not declared, and nothing is sealed.
    """
    declaration = workplace.folder.declaration()
    claim = declaration.claim
    if claim.reliability_target is None or declaration.candidate:
        raise RegistryError(ABOUT_MECHANISMS)
    (member,) = declaration.members
    searching = "budget" in choices or "power" in choices
    sealed = workplace.folder.journal().ledger.has(Stage.SEALED)
    sizes: OpenChoices = {}
    if sealed or not searching:  # a sealed target has the records that it has
        sizes = {"n": _records(workplace, member)}
    if not searching:
        # The fewest, so that the answer is on the safe side for every mechanism of the family.
        sizes = {**sizes, "releases": min(m.draws for m in member.mechanism)}
    if any(isinstance(part.ramp, RampRule) for part in member.requirement):
        sizes = {**sizes, "modes": (claim.kind.mode,)}  # the one that a rule for ramps is for
    declared: OpenChoices = {
        "reliability_target": claim.reliability_target,
        "alpha": claim.alpha,
        "mechanisms": len(member.mechanism),
        "design": member.target.sampling_design,
        "digits": declaration.digits,
        **sizes,
        **choices,
    }
    return Question(**declared)


def _records(workplace: Workplace, member: Member) -> int:
    ledger, declared = workplace.folder.journal().ledger, declared_records(member)
    if not ledger.has(Stage.SEALED):
        if declared is None:
            raise StageError(_unsealed_words(workplace))
        return declared
    sealed = ledger.sealed.members[member.name]
    records = planned_records(member, sealed.records)
    if member.target.clusters is None:
        return records
    if declared is not None:
        return declared
    return about_clusters(member, records, MemberDevelopment(workplace, member, sealed).training())


def about_clusters(member: Member, records: int, rows: pd.DataFrame) -> int:
    """Return about how many clusters so many records are: as many to each as these rows have."""
    assert member.target.clusters is not None  # the caller asked
    known = len(set(as_labels(rows[member.target.clusters.by])))
    return max(1, round(records * known / len(rows)))


def declared_records(member: Member) -> int | None:
    """Return how many units the tests will see, where the declaration says so."""
    target = member.target
    design = member.target.sampling_design
    if isinstance(design, Stratified):
        return design.n_records
    if target.draw is not None:
        return target.draw.size
    if target.reserve is None:
        return None
    # Clusters are the units of inference, however many records they have.
    return target.reserve.clusters or target.reserve.rows
