"""Every release of every group as a table, and what a page needs to bound a choice of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

from proxyguard.certificate.wording import confidence
from proxyguard.report.content import Sources
from proxyguard.report.evidence import groups_in, left_out, nearest_limits
from proxyguard.report.pictures.gather import group_names
from proxyguard.report.pictures.scale import decimals, evalue_words, plain

MOST_COLUMNS = 40
"""Requirements that a list of releases has room for."""


def release_lists(sources: Sources) -> list[dict[str, Any]]:
    """Return a list of releases for each group, with the picker's data where it is registered."""
    picks = sources.predicate.get("picks") or {"mechanisms": {}}
    groups = groups_in(sources.evidence)
    found = []
    for index, name in enumerate(group_names(sources), start=1):
        group = groups[name]
        places = nearest_limits(group, MOST_COLUMNS)
        columns, rows = _estimates(group, places)
        chosen = picks["mechanisms"].get(name)
        data = None
        if chosen is not None:
            evalues = _evalues(group, chosen)
            data = _data(group, chosen, evalues, str(picks["alpha"]))
            unit = Fraction(chosen["unit"])
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


def _estimates(
    group: Mapping[str, Any], places: Sequence[int]
) -> tuple[list[str], list[list[str]]]:
    """Return the columns and rows of estimates, each with the digits that its limit asks for."""
    limits = {j: float(group["limits"][j]) for j in places}
    columns = ["release"]
    for j, limit in limits.items():
        columns.append(f"{group['requirements'][j]} (limit {plain(limit)})")
    digits = {j: decimals(limit) for j, limit in limits.items()}
    rows = [
        [str(release), *(f"{float(values[j]):.{digits[j]}f}" for j in places)]
        for release, values in zip(group["releases"], group["derived"]["estimates"], strict=True)
    ]
    return columns, rows


def _evalues(group: Mapping[str, Any], chosen: Mapping[str, Any]) -> list[str]:
    """Return the recorded e-values in the order of the rows."""
    by_release = dict(zip(map(str, chosen["releases"]), chosen["evalues"], strict=True))
    return [by_release[str(release)] for release in group["releases"]]


def _data(
    group: Mapping[str, Any], chosen: Mapping[str, Any], evalues: list[str], alpha: str
) -> dict[str, Any]:
    """Return what the page computes a choice from, and what a choice can be made by."""
    return {
        "alpha": list(chosen["alpha"]),
        "unit": chosen["unit"],
        "evalues": evalues,
        "sure": confidence(Fraction(alpha)),
        "names": [str(release) for release in group["releases"]],
        "requirements": [str(requirement) for requirement in group["requirements"]],
        "limits": [float(limit) for limit in group["limits"]],
        "estimates": [
            [float(f"{float(value):.9g}") for value in row] for row in group["derived"]["estimates"]
        ],
    }
