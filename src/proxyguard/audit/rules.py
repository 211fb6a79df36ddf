"""What the registered rules make of recorded facts: limits, slacks, ramps, roles and measures.

Nothing here reads data: `register` and `verify` get the same numbers from the same facts. A
`Measure` is a requirement with its loss or its query, ready to be computed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from proxyguard.documents.registry import Facts, Registry, ResolvedNumber, ResolvedRequirement
from proxyguard.errors import RegistryError
from proxyguard.losses.given import given_bounds
from proxyguard.losses.measure import (
    Measure,
    measure_exposure,
    measure_loss,
    measure_query,
    requirement_of,
)
from proxyguard.losses.query import BoundedQuery, codings, expand
from proxyguard.modes.planning import AuditPlan, decimal_down, planned
from proxyguard.modes.smooth import Pilots, best_ramps
from proxyguard.registry.declaration import Declaration, Member
from proxyguard.registry.fields import number
from proxyguard.registry.parts import (
    ClaimPart,
    PilotRule,
    RampRule,
    RequirementPart,
    SlackRule,
    SourceRule,
)
from proxyguard.registry.requirement import (
    MODEL,
    PREDICTIONS,
    LossWords,
    Resolved,
    between,
    choose_roles,
    cutoff_from_pilot,
    limit_from_source,
    own_unit,
    required,
    slack_from_plan,
)
from proxyguard.seal.ledger import Schedule


def resolve_limits(
    member: Member, facts: Facts, claim: ClaimPart, n_records: int
) -> tuple[ResolvedRequirement, ...]:
    """Return every requirement of a member with its limit, its slack, its ramp and its queries.

    Parameters
    ----------
    member
        The declared member.
    facts
        What was learned on development data, as it is recorded.
    claim
        The declared claim, whose error a slack is planned with.
    n_records
        How many target records will be scored.

    Raises
    ------
    RegistryError
        A rule has no facts to follow from, or gives no limit.
    """
    limits = {declared.name: _limit(declared, facts) for declared in member.requirement}
    slacks = {
        declared.name: _slack(declared, limits, member, claim, n_records)
        for declared in member.requirement
    }
    ramps = _ramps(member, facts, claim, limits, slacks, n_records)
    resolved = []
    for declared in member.requirement:
        slack, ramp = slacks[declared.name], ramps.get(declared.name)
        queries = () if declared.query is None else expand(
            declared.name, declared.query, facts.domains, facts.moments
        )  # fmt: skip
        resolved.append(
            ResolvedRequirement(
                part=declared,
                limit=_record(limits[declared.name]),
                slack=None if slack is None else _record(slack),
                ramp=None if ramp is None else _record(ramp),
                queries=tuple(query.recorded() for query in queries),
            )
        )
    return tuple(resolved)


def planned_records(member: Member, records: int) -> int:
    """Return how many target records will be scored, of so many that are sealed."""
    draw = member.target.draw
    return draw.size if draw is not None else records


def schedule_of(declaration: Declaration) -> Schedule:
    """Return whether all releases are drawn before the target is opened."""
    return Schedule.SEQUENTIAL if declaration.claim.after_opening else Schedule.FIXED


def provisional_measure(part: RequirementPart, member: Member, limit: str | None = None) -> Measure:
    """Return a measure for its loss alone: without slack, and with any limit if none is given."""
    assert member.target.predicted is not None  # a loss has an outcome
    bare = part.model_copy(update={"ramp": None, "slack": None})
    return measure_loss(
        bare,
        limit=limit,
        slack=None,
        outcome=member.target.predicted,
        choose=None if member.procedure is None else member.procedure.choose,
    )


def _limit(part: RequirementPart, facts: Facts) -> Resolved:
    if isinstance(part.limit, SourceRule):
        if part.name not in facts.risks:
            raise RegistryError(
                f"{part.name}: its limit is the source's validation risk plus a margin, and "
                f"development.validation has no record of the group {part.group}; give the limit "
                "as a number"
            )
        return limit_from_source(
            facts.risks[part.name],
            plus=part.limit.source_validation_plus,
            step=part.limit.round_up,
            at_most=part.limit.at_most,
        )
    if isinstance(part.limit, PilotRule):
        means = [float(m[part.name]) for m in facts.pilots[part.limit.pilot].means.values()]
        # The slack lies on top: the pilots are to pass the cutoff, which is the limit less slack.
        cutoff = cutoff_from_pilot(
            repr(max(means)), margin=part.limit.pilot_largest_plus, step=part.limit.round_up
        )
        total = limit_from_source(cutoff.value, plus=str(part.slack), step=part.limit.round_up)
        return Resolved(
            value=total.value,
            rule=f"{cutoff.rule}; plus the slack, rounded up",
            inputs={**cutoff.inputs, "slack": str(part.slack)},
        )
    return Resolved(value=part.limit, rule="as declared", inputs={})


def _slack(
    part: RequirementPart, limits: Mapping[str, Resolved], member: Member, claim: ClaimPart,
    n_records: int,
) -> Resolved | None:  # fmt: skip
    if not isinstance(part.slack, SlackRule):
        if part.slack is None:
            return None
        return Resolved(value=part.slack, rule="as declared", inputs={})
    # Planned with the target's share of the error, which the mechanisms divide among them.
    share = number(part.slack.target_share or claim.target_share or "0.5")
    alike = [part]
    if part.slack.common:
        rules = [(other, other.slack) for other in member.requirement]
        alike = [other for other, rule in rules if isinstance(rule, SlackRule) and rule.common]
    return slack_from_plan(
        part.slack.smallest_of,
        [provisional_measure(like, member, limits[like.name].value).requirement for like in alike],
        n_records=n_records,
        alpha_target=number(claim.alpha) * share / (len(member.mechanism) or 1),
        allowance=part.slack.allowance,
    )


def _ramps(
    member: Member, facts: Facts, claim: ClaimPart, limits: Mapping[str, Resolved],
    slacks: Mapping[str, Resolved | None], n_records: int,
) -> dict[str, Resolved]:  # fmt: skip
    """Return the ramps that are chosen on development; nothing where no rule asks for any."""
    rules = {p.name: p.ramp for p in member.requirement if isinstance(p.ramp, RampRule)}
    if not rules:
        return {}
    (pilot,) = {rule.pilot for rule in rules.values()}  # checked in the declaration
    if pilot not in facts.pilots:
        raise RegistryError(
            f"ramps are chosen by pilot {pilot!r}, and none was judged: it takes a [procedure]"
        )
    requirements = []
    for part in member.requirement:
        bare = provisional_measure(part, member, limits[part.name].value).requirement
        slack = slacks[part.name]
        requirements.append(
            replace(
                bare,
                slack=None if slack is None else number(slack.value),
                ramp=number(part.ramp) if isinstance(part.ramp, str) else None,
            )
        )
    means = [
        [(float(judged[r.name]) - r.low) / r.width for r in requirements]
        for judged in facts.pilots[pilot].means.values()
    ]
    # One mechanism's part of the error, and the fewest draws: every one of the family has as many.
    plan = AuditPlan(
        claim=planned(claim.to_claim()), n=n_records, mechanisms=len(member.mechanism),
        releases=min(mechanism.draws for mechanism in member.mechanism),
    )  # fmt: skip
    pilots = Pilots(means=np.array(means), chances=np.full(len(means), 1.0 / len(means)))
    chosen = best_ramps(plan, requirements, pilots)
    inputs = {
        "pilot": pilot, "share": chosen.share, "n_records": str(plan.n),
        "draws": str(plan.releases), "mechanisms": str(plan.mechanisms),
    }  # fmt: skip
    return {
        r.name: Resolved(
            value=decimal_down(r.ramp or 0.0),
            rule="share of the pilots' distance to the cutoff with the largest predicted bound",
            inputs=inputs,
        )
        for r in chosen.requirements
        if r.name in rules
    }


def resolve_roles(
    declaration: Declaration, requirements: Sequence[ResolvedRequirement], facts: Facts
) -> dict[str, str]:
    """Return which pilot plays which role, by the registered rule.

    Parameters
    ----------
    declaration
        The declaration, whose ``roles`` are the rule.
    requirements
        The resolved requirements, against whose limits or cutoffs margins are taken.
    facts
        The recorded means of the pilots.

    Returns
    -------
    dict
        The pilot of each role; nothing where no roles are declared.
    """
    roles = declaration.roles
    if roles is None:
        return {}
    against = {}
    for requirement in requirements:
        limit = number(requirement.limit.value)
        if roles.against == "cutoff" and requirement.slack is not None:
            limit -= number(requirement.slack.value)
        against[requirement.part.name] = limit
    margins = {
        pilot: [
            min(against[name] - float(mean) for name, mean in means.items())
            for means in facts.pilots[pilot].means.values()
        ]
        for pilot in roles.pilots
    }
    return choose_roles(margins, moderate=number(roles.moderate), among=roles.among)


def gap_warnings(member: Member, gaps: float) -> list[str]:
    """Return which limits missing outcomes eat, were as many of the target's as of development's.

    Parameters
    ----------
    member
        The declared member, whose limits may be rules still.
    gaps
        The share of the development rows that have no outcome.
    """
    warnings = []
    counted = gaps > 0.0 and member.target.missing_outcomes == "worst"
    for part in member.requirement if counted else ():
        if part.loss is None or not isinstance(part.limit, str):
            continue
        requirement = provisional_measure(part, member, part.limit).requirement
        lost = gaps * requirement.high
        if 4.0 * lost >= requirement.limit:
            warnings.append(
                f"{part.name}: {gaps:.1%} of the development rows have no "
                f"{member.target.outcome!r}; as many target records at their worst put about "
                f"{lost:.3g}{requirement.unit} on the mean of every release, of a limit of "
                f"{requirement.limit:g}{requirement.unit}"
            )
    return warnings


def _record(resolved: Resolved) -> ResolvedNumber:
    return ResolvedNumber(value=resolved.value, rule=resolved.rule, inputs=dict(resolved.inputs))


def measures_of(member: Member, resolved: Sequence[ResolvedRequirement]) -> list[Measure]:
    """Return the measures of a member from its registered requirements, queries expanded."""
    measures: list[Measure] = []
    choose = None if member.procedure is None else member.procedure.choose
    delivered = {m.generator for m in member.mechanism} == {"predictions"}
    for requirement in resolved:
        declared, limit = requirement.part, requirement.limit.value
        if requirement.ramp is not None:
            declared = declared.model_copy(update={"ramp": requirement.ramp.value})
        slack = None if requirement.slack is None else requirement.slack.value
        if declared.exposure is not None:
            measures += measure_exposure(declared, member.attacking, member.target.sampling_design)
        elif declared.query is not None:
            coding = codings(declared.query)
            for query in requirement.queries:
                bounded = BoundedQuery.of(query, coding)
                measures += measure_query(
                    declared, bounded, limit=limit, slack=slack, gaps=_gaps(member)
                )
        elif member.target.losses is not None:
            measures.append(_given(declared, limit, slack, member.target.missing_outcomes))
        else:
            assert member.target.predicted is not None  # checked in the declaration
            measures.append(
                measure_loss(
                    declared, limit=limit, slack=slack, outcome=member.target.predicted,
                    choose=choose, whose=PREDICTIONS if delivered else MODEL,
                )
            )  # fmt: skip
    return measures


def _gaps(member: Member) -> str | None:
    """Return the outcome, where records that lack it count."""
    return member.target.outcome if member.target.missing_outcomes == "worst" else None


def measures_in(registry: Registry, member: Member) -> list[Measure]:
    """Return what is measured for the registered requirements of a member."""
    return measures_of(member, registry.members[member.name].requirements)


def required_by(registry: Registry) -> tuple[str, ...]:
    """Return what a registered claim requires, a sentence for each requirement.

    Parameters
    ----------
    registry
        The claim; where its targets ask for different things, each sentence says whose it is.
    """
    said: dict[str, list[str]] = {}
    for member in registry.declaration.members:
        resolved = registry.members[member.name].requirements
        # All cells of a workload make one promise, and there may be thousands of them.
        first = [r.model_copy(update={"queries": r.queries[:1]}) for r in resolved]
        requirements = [measure.requirement for measure in measures_of(member, first)]
        for words in required(requirements, member.target.sampling_design.over):
            said.setdefault(words, []).append(member.name)
    whole = len(registry.members)
    return tuple(
        words if len(names) == whole else f"Of {', '.join(names)}: {words}"
        for words, names in said.items()
    )


def _given(part: RequirementPart, limit: str, slack: str | None, missing: str) -> Measure:
    """Return the requirement of a loss that was computed elsewhere, with declared bounds."""
    low, high = given_bounds(part)
    requirement = requirement_of(
        part, low, high, limit=limit, slack=slack, two_valued=part.two_valued, missing=missing,
        quantity=LossWords(
            words=f"mean of {part.loss or part.name!r}, a loss that was computed elsewhere,",
            unit=own_unit(part.own_unit, low, high) if part.unit else between(low, high),
            whose="a release", own=part.own_unit,
        ),
    )  # fmt: skip
    return Measure(part=part.name, requirement=requirement)
