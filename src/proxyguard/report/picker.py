"""Every release of every group as a table, and what a page needs to bound a choice of them."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from proxyguard.certificate.wording import confidence
from proxyguard.documents.canonical import Plain
from proxyguard.documents.certificate import PickGroup
from proxyguard.documents.evidence import GroupEvidence
from proxyguard.report.evidence import left_out, nearest_limits
from proxyguard.report.pictures.scale import decimals, evalue_words, plain
from proxyguard.report.sources import Sources

MOST_COLUMNS = 40
"""Requirements that a list of releases has room for."""


def release_lists(sources: Sources) -> list[dict[str, Any]]:
    """Return a list of releases for each group, with the picker's data where it is registered."""
    found = []
    for index, name in enumerate(sources.group_names, start=1):
        group = sources.groups[name]
        places = nearest_limits(group, MOST_COLUMNS)
        columns, rows = _estimates(group, places)
        chosen = None if sources.picks is None else sources.picks.mechanisms.get(name)
        data = None
        if sources.picks is not None and chosen is not None:
            evalues = _evalues(group, chosen)
            data = _data(group, chosen, evalues, sources.picks.alpha)
            unit = Fraction(chosen.unit)
            columns.append("e-value (at most R/alpha)")
            for row, evalue in zip(rows, evalues, strict=True):
                row.append(evalue_words(float(int(evalue) * unit)))
        found.append(
            {
                "index": index, "name": name, "columns": columns, "rows": rows, "data": data,
                "note": left_out(group, len(places)).strip(),
            }
        )  # fmt: skip
    return found


def _estimates(group: GroupEvidence, places: Sequence[int]) -> tuple[list[str], list[list[str]]]:
    """Return the columns and rows of estimates, each with the digits that its limit asks for."""
    limits = {j: float(group.limits[j]) for j in places}
    columns = ["release"]
    for j, limit in limits.items():
        columns.append(f"{group.requirements[j]} (limit {plain(limit)})")
    digits = {j: decimals(limit) for j, limit in limits.items()}
    rows = [
        [release, *(f"{float(estimates[j]):.{digits[j]}f}" for j in places)]
        for release, estimates in zip(group.releases, group.derived.estimates, strict=True)
    ]
    return columns, rows


def _evalues(group: GroupEvidence, chosen: PickGroup) -> list[str]:
    """Return the recorded e-values in the order of the rows."""
    by_release = dict(zip(chosen.releases, chosen.evalues, strict=True))
    return [by_release[release] for release in group.releases]


def _data(
    group: GroupEvidence, chosen: PickGroup, evalues: list[str], alpha: str
) -> dict[str, Plain]:
    """Return what the page computes a choice from, and what a choice can be made by."""
    return {
        "alpha": list(chosen.alpha),
        "unit": chosen.unit,
        "evalues": evalues,
        "sure": confidence(Fraction(alpha)),
        "names": list(group.releases),
        "requirements": list(group.requirements),
        "limits": [float(limit) for limit in group.limits],
        "estimates": [
            [float(f"{float(estimate):.9g}") for estimate in row] for row in group.derived.estimates
        ],
    }
