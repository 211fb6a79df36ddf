"""What a registry says is measured: requirements with their losses, and the sampling design."""

from __future__ import annotations

from collections.abc import Sequence

from proxyguard.audit.loss_file import given_bounds
from proxyguard.documents.registry import ResolvedRequirement
from proxyguard.losses.measure import Measure, measure_loss, measure_query
from proxyguard.losses.query import BoundedQuery, codings
from proxyguard.registry.declaration import Member
from proxyguard.registry.design import Design
from proxyguard.registry.fields import number
from proxyguard.registry.parts import RequirementPart
from proxyguard.registry.requirement import Form, Requirement


def measures_of(member: Member, resolved: Sequence[ResolvedRequirement]) -> list[Measure]:
    """Return the measures of a member from its registered requirements, queries expanded."""
    found: list[Measure] = []
    choose = None if member.procedure is None else member.procedure.choose
    for requirement in resolved:
        part, limit = requirement.part, requirement.limit.value
        slack = None if requirement.slack is None else requirement.slack.value
        if part.query is not None:
            coding = codings(part.query)
            for query in requirement.queries:
                bounded = BoundedQuery(
                    query.name, float(query.low), float(query.high), query.column, query.cell,
                    coding,
                )  # fmt: skip
                found += measure_query(part, bounded, limit=limit, slack=slack)
        elif member.target.losses is not None:
            found.append(_given(part, limit, slack))
        else:
            assert member.target.predicted is not None  # checked in the declaration
            found.append(
                measure_loss(
                    part, limit=limit, slack=slack, outcome=member.target.predicted, choose=choose
                )
            )
    return found


def _given(part: RequirementPart, limit: str, slack: str | None) -> Measure:
    """Return the requirement of a loss that was computed elsewhere, with declared bounds."""
    low, high = given_bounds(part)
    return Measure(
        part=part.name,
        requirement=Requirement(
            name=part.name,
            low=low,
            high=high,
            limit=number(limit),
            form=Form(part.form),
            two_valued=part.two_valued,
            slack=None if slack is None else number(slack),
            ramp=None if part.ramp is None else number(part.ramp),
        ),
    )


def design_of(member: Member) -> Design:
    """Return the design that component tests rely on, strata named as the records name them."""
    return member.target.sampling_design
