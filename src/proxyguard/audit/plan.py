"""Plan an audit from its own declaration: pilots on development data, sizes, obstacles.

`declared_question` and `pilot_laws` give the planner its question and its laws, `obstacles` tells
`check` why no outcome could validate, `privacy_notes` what the draws would cost. Read are the
declaration, the ledger and the development part; nothing is written but the source's model.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypedDict, Unpack

import numpy as np
from numpy.typing import NDArray

from proxyguard.adapters.privacy import privacy_lines, privacy_of
from proxyguard.audit.development import (
    MemberDevelopment,
    ValidationPart,
    Workplace,
    develop,
    load_fitted,
    pilot_losses,
)
from proxyguard.audit.register import privacy_key
from proxyguard.audit.rules import measures_of, planned_records, resolve_limits, resolve_roles
from proxyguard.errors import RegistryError, StageError
from proxyguard.losses.measure import Measure
from proxyguard.modes.planning import AuditPlan, planned
from proxyguard.plan.law import Law, cautious, pilot_law
from proxyguard.plan.question import Question
from proxyguard.plan.recommend import needs
from proxyguard.registry.declaration import Declaration, Member
from proxyguard.registry.design import Clustered, Design, Stratified, StratifiedClusters
from proxyguard.registry.parts import ClaimPart, Drawn, MechanismPart, RampRule, Seeds
from proxyguard.registry.requirement import Requirement
from proxyguard.seal.ledger import Stage

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
        The declaration is about releases, has no procedure, or has these seeds itself.
    """
    declaration = workplace.folder.declaration()
    ledger = workplace.folder.journal().ledger
    if not ledger.has(Stage.SEALED):
        raise StageError(
            "planned: pilots are drawn from the development part, which sealing writes; run "
            "proxyguard seal first, or plan from assumed margins"
        )
    if declaration.candidate or declaration.claim.level != "mechanism":
        raise RegistryError("a plan is about mechanisms; this declaration names releases")
    (member,) = declaration.members
    sealed = ledger.sealed.members[member.name]
    development = MemberDevelopment(workplace, member, sealed)
    facts = develop(development, declaration)
    if facts.source is None:
        raise RegistryError("pilots need a [procedure]; plan from assumed margins instead")
    records = planned_records(member, sealed.records)
    limits = resolve_limits(member, facts, declaration.claim, records)
    measures = measures_of(member, limits)
    _check_plannable(measures)
    # The declaration's own list: an author loads here what their own procedure stored.
    trusted = () if member.procedure is None else member.procedure.trusted
    source = load_fitted(workplace.folder, facts.source.model, facts.source, trusted)
    roles = resolve_roles(declaration, limits, facts)
    pilots = [_pilot(m, roles, declaration, draws, first_seed) for m in member.mechanism]
    losses = pilot_losses(development, pilots, measures, source)
    requirements = [m.requirement for m in measures]
    validation = ValidationPart.of(development)
    assert validation is not None  # pilots were just judged on it
    counting = np.stack([validation.counting(m) for m in measures], axis=1)
    laws = {}
    # In the order of seeds: the order in which draws came back is no part of a law.
    for name, by_seed in losses.items():
        releases = [
            _of_every_record(by_name, requirements, counting)
            for _, by_name in sorted(by_seed.items())
        ]
        law = pilot_law(
            np.stack(releases), requirements, reliability=reliability, counting=counting
        )
        # Twenty valid pilots of twenty do not make every release valid: the plan is then larger.
        laws[name] = law if reliability is not None else cautious(law)
    return laws


def _of_every_record(
    losses: Mapping[str, NDArray[np.float64]], requirements: Sequence[Requirement],
    counting: NDArray[np.bool_],
) -> NDArray[np.float64]:  # fmt: skip
    """Return losses of all records, (n, J); those that do not count have the least there is."""
    filled = np.tile([r.low for r in requirements], (len(counting), 1))
    for j, requirement in enumerate(requirements):
        filled[counting[:, j], j] = losses[requirement.name]
    return filled


def privacy_notes(workplace: Workplace) -> dict[str, list[str]]:
    """Return, for every private mechanism, what its releases would cost if all were given out.

    Of several members, by member and mechanism.
    """
    members = workplace.folder.declaration().members
    notes = {
        privacy_key(member, mechanism.name, members): _privacy_note(workplace, member, mechanism)
        for member in members
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


def _check_plannable(measures: Sequence[Measure]) -> None:
    """Refuse requirements that pilot losses tell nothing of."""
    if any(m.exposure is not None for m in measures):
        raise RegistryError(
            "pilots judge losses, and attacks on them are not simulated; leave the requirements "
            "about exposure out to plan the others, or plan from assumed margins instead"
        )
    if any(m.loss is None for m in measures):
        raise RegistryError("pilots judge losses, not queries; plan from assumed margins instead")


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
    registered = {
        seed for member in declaration.members for m in member.mechanism for seed in m.seed_list
    }
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
        raise RegistryError("a plan is about mechanisms; this declaration names releases")
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
    ledger = workplace.folder.journal().ledger
    if ledger.has(Stage.SEALED):
        return planned_records(member, ledger.sealed.members[member.name].records)
    declared = declared_records(member)
    if declared is None:
        raise StageError("planned: how many records the target has is known once it is sealed")
    return declared


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
