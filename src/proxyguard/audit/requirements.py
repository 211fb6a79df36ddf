"""Resolve the registered rules: limits, slacks, roles and queries from recorded facts.

Nothing here reads data: `register` and `verify` get the same numbers from the same facts.

Losses that were computed elsewhere, in any language: npz, or Parquet in long form.

What a registry says is measured: requirements with their losses, and the sampling design.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from proxyguard.documents.registry import Facts, ResolvedNumber, ResolvedQuery, ResolvedRequirement
from proxyguard.errors import RegistryError, TableError
from proxyguard.losses.measure import Measure, measure_loss, measure_query
from proxyguard.losses.query import BoundedQuery, codings, expand
from proxyguard.registry.declaration import Declaration, Member
from proxyguard.registry.design import Design
from proxyguard.registry.fields import number
from proxyguard.registry.parts import ClaimPart, PilotRule, RequirementPart, SlackRule, SourceRule
from proxyguard.registry.requirement import (
    Form,
    Requirement,
    Resolved,
    choose_roles,
    cutoff_from_pilot,
    limit_from_source,
    slack_from_plan,
)
from proxyguard.registry.target import Reading
from proxyguard.tables.columns import as_text
from proxyguard.tables.files import read_table


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


@dataclass(frozen=True, slots=True, eq=False)
class GivenLosses:
    """An array of losses with its names."""

    values: NDArray[np.float64]  # (R, n, J)
    releases: tuple[str, ...]
    requirements: tuple[str, ...]
    labels: list[str] | None  # strata or clusters, one a record


def read_loss_file(path: Path, design_column: str | None) -> GivenLosses:
    """Read a loss array.

    An npz file has ``losses`` (releases x records x requirements), ``releases`` and
    ``requirements`` (their names), and a column for strata or clusters where the design
    has them. A Parquet file has one row for each release and record, with the columns
    ``release`` and ``record``, and one column for each requirement.
    """
    if path.suffix == ".npz":
        return _from_npz(path, design_column)
    return _from_parquet(path, design_column)


def given_bounds(part: RequirementPart) -> tuple[float, float]:
    """Return the declared bounds: by default [0, 1], and [-1, 1] of a difference."""
    if part.low is not None and part.high is not None:
        return number(part.low), number(part.high)
    return (-1.0, 1.0) if part.form == "relative" else (0.0, 1.0)


def check_bounds(given: GivenLosses, requirements: Sequence[RequirementPart]) -> None:
    """Refuse losses outside their declared bounds, before they are sealed."""
    names = [part.name for part in requirements]
    if list(given.requirements) != names:
        raise TableError(f"the losses are about {list(given.requirements)}, declared are {names}")
    for j, part in enumerate(requirements):
        low, high = given_bounds(part)
        column = given.values[:, :, j]
        wrong = np.argwhere(~((column >= low) & (column <= high)))
        if wrong.size:
            r, i = (int(k) for k in wrong[0])
            raise TableError(
                f"{part.name}: release {given.releases[r]}, record {i} has {column[r, i]}, "
                f"declared bounds [{low:g}, {high:g}]"
            )


def _from_npz(path: Path, design_column: str | None) -> GivenLosses:
    try:
        with np.load(path, allow_pickle=False) as content:
            held = {name: content[name] for name in content.files}
    except (OSError, ValueError, EOFError) as error:
        raise TableError(f"{path.name} is no npz file without objects: {error}") from error
    needed = ["losses", "releases", "requirements", *([design_column] if design_column else [])]
    missing = [name for name in needed if name not in held]
    if missing:
        raise TableError(f"{path.name} lacks the arrays {missing}; it has {sorted(held)}")
    values = np.asarray(held["losses"], dtype=np.float64)
    releases = tuple(str(r) for r in held["releases"].tolist())
    requirements = tuple(str(r) for r in held["requirements"].tolist())
    if values.ndim != 3 or (values.shape[0], values.shape[2]) != (
        len(releases),
        len(requirements),
    ):
        raise TableError(
            f"{path.name}: losses have shape {values.shape}, named are {len(releases)} releases "
            f"and {len(requirements)} requirements"
        )
    labels = None
    if design_column is not None:
        labels = [as_text(v) for v in held[design_column].tolist()]
        if len(labels) != values.shape[1]:
            raise TableError(
                f"{path.name}: {design_column!r} has {len(labels)} labels for {values.shape[1]} "
                "records"
            )
    return GivenLosses(values, releases, requirements, labels)


def _from_parquet(path: Path, design_column: str | None) -> GivenLosses:
    frame: Any = read_table(path, Reading())
    extra = [design_column] if design_column else []
    missing = [c for c in ("release", "record", *extra) if c not in frame.columns]
    if missing:
        raise TableError(f"{path.name} lacks the columns {missing}; it has {list(frame.columns)}")
    requirements = [c for c in frame.columns if c not in ("release", "record", *extra)]
    releases = list(dict.fromkeys(frame["release"].map(as_text)))
    records = list(dict.fromkeys(frame["record"].map(as_text)))
    if len(frame) != len(releases) * len(records):
        raise TableError(
            f"{path.name} has {len(frame)} rows, expected one for each of {len(releases)} releases "
            f"and {len(records)} records"
        )
    ordered = frame.assign(
        release=frame["release"].map(as_text), record=frame["record"].map(as_text)
    ).set_index(["release", "record"])
    if not ordered.index.is_unique:
        raise TableError(f"{path.name} has two rows for one release and record")
    whole = ordered.reindex([(release, record) for release in releases for record in records])
    values = whole[requirements].to_numpy(dtype=np.float64)
    labels = None
    if design_column is not None:
        labels = [as_text(v) for v in whole[design_column].to_numpy()[: len(records)]]
    return GivenLosses(
        values.reshape(len(releases), len(records), len(requirements)),
        tuple(releases),
        tuple(str(r) for r in requirements),
        labels,
    )


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
