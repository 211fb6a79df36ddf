"""Every release of every group as a table, and what a page needs to bound a choice of them."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from proxyguard.certificate.wording import confidence
from proxyguard.report.content import Sources
from proxyguard.report.evidence import groups_in
from proxyguard.report.pictures.gather import group_names
from proxyguard.report.pictures.scale import decimals, evalue_words, plain


def release_lists(sources: Sources) -> list[dict[str, Any]]:
    """Return a list of releases for each group, with the picker's data where it is registered."""
    picks = sources.predicate.get("picks") or {"mechanisms": {}}
    groups = groups_in(sources.evidence)
    found = []
    for index, name in enumerate(group_names(sources), start=1):
        group = groups[name]
        columns, rows = _estimates(group)
        chosen = picks["mechanisms"].get(name)
        data = None
        if chosen is not None:
            evalues = _evalues(group, chosen)
            data = _data(group, chosen, evalues, str(picks["alpha"]))
            unit = Fraction(chosen["unit"])
            columns.append("e-value (at most R/alpha)")
            for row, evalue in zip(rows, evalues, strict=True):
                row.append(evalue_words(float(int(evalue) * unit)))
        found.append({"index": index, "name": name, "columns": columns, "rows": rows, "data": data})
    return found


def _estimates(group: Mapping[str, Any]) -> tuple[list[str], list[list[str]]]:
    """Return the columns and rows of estimates, each with the digits that its limit asks for."""
    limits = [float(limit) for limit in group["limits"]]
    columns = ["release"]
    for requirement, limit in zip(group["requirements"], limits, strict=True):
        columns.append(f"{requirement} (limit {plain(limit)})")
    digits = [decimals(limit) for limit in limits]
    estimates = group["derived"]["estimates"]
    rows = [
        [str(release), *(f"{float(v):.{d}f}" for v, d in zip(values, digits, strict=True))]
        for release, values in zip(group["releases"], estimates, strict=True)
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
