"""Resolve the registered rules: limits, slacks, roles and queries from recorded facts.

Nothing here reads data: `register` and `verify` get the same numbers from the same facts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from proxyguard.documents.registry import (
    Facts,
    ResolvedNumber,
    ResolvedQuery,
    ResolvedRequirement,
)
from proxyguard.errors import RegistryError
from proxyguard.losses.measure import Measure, measure_loss
from proxyguard.losses.query import expand
from proxyguard.registry.declaration import Declaration, Member
from proxyguard.registry.fields import number
from proxyguard.registry.parts import (
    ClaimPart,
    PilotRule,
    RequirementPart,
    SlackRule,
    SourceRule,
)
from proxyguard.registry.rules import (
    Resolved,
    choose_roles,
    cutoff_from_pilot,
    limit_from_source,
    slack_from_plan,
)


def resolve_limits(
    member: Member, facts: Facts, claim: ClaimPart, n_records: int
) -> tuple[ResolvedRequirement, ...]:
    """Return every requirement of a member with its limit, its slack and its queries."""
    resolved = []
    limits = {part.name: _limit(part, facts) for part in member.requirement}
    for part in member.requirement:
        limit = limits[part.name]
        slack = _slack(part, limits, member, claim, n_records)
        queries = [] if part.query is None else expand(part.name, part.query, facts.domains)
        resolved.append(
            ResolvedRequirement(
                part=part,
                limit=_record(limit),
                slack=None if slack is None else _record(slack),
                queries=tuple(ResolvedQuery.of(query.to_dict(), part.name) for query in queries),
            )
        )
    return tuple(resolved)


def planned_records(member: Member, records: int) -> int:
    """Return how many target records will be scored, of so many that are sealed."""
    draw = member.target.draw
    return draw.size if draw is not None else records


def provisional_measure(part: RequirementPart, member: Member, limit: str | None = None) -> Measure:
    """Return a measure for its loss alone: without slack, and with any limit if none is given."""
    assert member.target.predicted is not None  # a loss has an outcome
    low, high = (number(part.low or "0"), number(part.high or "1"))
    bare = part.model_copy(update={"ramp": None, "slack": None})
    return measure_loss(
        bare,
        limit=limit or repr((low + high) / 2.0),
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
    share = number(part.slack.target_share or claim.target_share or "0.5")
    alike = [part]
    if part.slack.common:
        alike = [
            other
            for other in member.requirement
            if isinstance(other.slack, SlackRule) and other.slack.common
        ]
    return slack_from_plan(
        part.slack.smallest_of,
        [provisional_measure(one, member, limits[one.name].value).requirement for one in alike],
        n_records=n_records,
        alpha_target=number(claim.alpha) * share / (len(member.mechanism) or 1),
        allowance=part.slack.allowance,
    )


def resolve_roles(
    declaration: Declaration, requirements: Sequence[ResolvedRequirement], facts: Facts
) -> dict[str, str]:
    """Return which pilot plays which role, by the registered rule."""
    if declaration.roles is None:
        return {}
    against = {}
    for requirement in requirements:
        limit = number(requirement.limit.value)
        if declaration.roles.against == "cutoff" and requirement.slack is not None:
            limit -= number(requirement.slack.value)
        against[requirement.part.name] = limit
    margins = {
        name: [
            min(against[r] - float(value) for r, value in means.items())
            for means in facts.pilots[name].means.values()
        ]
        for name in declaration.roles.pilots
    }
    roles = declaration.roles
    return choose_roles(margins, moderate=number(roles.moderate), among=roles.among)


def _record(value: Resolved) -> ResolvedNumber:
    return ResolvedNumber(value=value.value, rule=value.rule, inputs=dict(value.inputs))
