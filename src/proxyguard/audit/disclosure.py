"""What the published statistics of an audit would give away of its target, said beforehand.

Every release has a mean of every requirement over the same records. To somebody who knows the
features and the releases, which are in the folder, each mean is one linear equation in the labels;
with as many equations as records they have one solution. `docs/threat-model.md` has the figures.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from proxyguard.losses.measure import group_name
from proxyguard.losses.query import CodedRecords, codings
from proxyguard.registry.declaration import Declaration, Member
from proxyguard.registry.parts import RequirementPart

if TYPE_CHECKING:
    import pandas as pd

EQUATIONS = 4
"""Warn from a quarter as many published means as there are records."""
FEW = 10
"""Warn of groups with fewer records: a mean over nine of them is close to nine labels."""


def releases_of(member: Member) -> int:
    """Return how many releases are scored on a member's target, where the declaration says so."""
    return sum(m.draws for m in member.mechanism) + len(member.release)


def mean_warnings(
    declaration: Declaration, member: Member, *, requirements: int, n: int
) -> list[str]:
    """Return what to know where many means are published of few records."""
    found = []
    releases, digits = releases_of(member), declaration.digits
    if releases * requirements * EQUATIONS >= n:
        remedy = (
            "register fewer releases or requirements, more records, or disclosure = { digits = 3 }"
            if digits is None
            else f"rounding to {digits} digits makes that harder and guarantees nothing"
        )
        found.append(
            f"{member.name}: {releases} releases x {requirements} requirements publish "
            f"{releases * requirements:,} means of {n:,} records; somebody who knows the features "
            f"may solve for the outcomes: {remedy}"
        )
    if digits is not None and 10**digits >= n:
        coarse = max((d for d in range(1, digits) if 10**d < n), default=None)
        remedy = "no digits do" if coarse is None else f"{coarse} digits or fewer do"
        found.append(
            f"{member.name}: rounding to {digits} digits changes no count out of {n:,} records; "
            f"{remedy}"
        )
    return found


def group_warnings(member: Member, target: pd.DataFrame) -> list[str]:
    """Return which subgroups have so few records that a mean over them tells outcomes.

    Said to whoever seals, and not written down: sizes of groups are facts about the target.
    """
    records, found = CodedRecords(target), []
    groups = {
        group_name(part.group): part.group for part in member.requirement if part.group is not None
    }
    for name, group in groups.items():
        size = int(records.inside(group.items()).sum())
        if size < FEW:
            found.append(
                f"{member.name}: the group {name!r} has {size} records in the target; means over "
                f"fewer than {FEW} tell much of single outcomes, and little can be shown with them"
            )
    return found


def count_requirements(member: Member, kinds: Mapping[str, str], training: pd.DataFrame) -> int:
    """Return how many means a release will have: two for every cell that a query stands for."""
    return sum(_means(part, kinds, training) for part in member.requirement)


def _means(part: RequirementPart, kinds: Mapping[str, str], training: pd.DataFrame) -> int:
    query = part.query
    if query is None:
        return 1
    labels = {name: len(coding.labels) for name, coding in codings(query).items()}
    cells = 0
    for columns in query.tables:
        size = 1
        for name in columns:
            if name not in labels:
                known = name in training.columns and kinds.get(name) == "text"
                labels[name] = len(CodedRecords(training).codes(name)[1]) if known else 1
            size *= labels[name]
        cells += size
    return 2 * max(1, cells)
