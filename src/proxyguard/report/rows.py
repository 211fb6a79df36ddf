"""Every number behind a report as rows: one a mechanism, release and requirement."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator

from proxyguard.documents.certificate import MechanismVerdict, PickGroup, SequentialVerdict
from proxyguard.report.sources import Sources

Cell = str | float | None
COLUMNS = (
    "mechanism", "release", "requirement", "records", "limit", "estimate", "lower", "upper",
    "pvalue", "violation_pvalue", "test", "release_pvalue", "score", "evalue",
)  # fmt: skip


def to_csv(sources: Sources) -> bytes:
    """Return the rows as CSV (RFC 4180, UTF-8); a cell cannot start a formula."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\r\n")
    writer.writerow(COLUMNS)
    for row in evidence_rows(sources):
        writer.writerow([_cell(cell) for cell in row])
    return text.getvalue().encode()


def evidence_rows(sources: Sources) -> Iterator[tuple[Cell, ...]]:
    """Yield the rows of `COLUMNS` in the order of the verdicts, releases and requirements."""
    picks = {} if sources.picks is None else sources.picks.mechanisms
    for name in sources.group_names:
        group = sources.groups[name]
        derived = group.derived
        whole = [max(float(pvalue) for pvalue in row) for row in derived.pvalues]
        scores = _scores(name, whole, sources)
        for r, release in enumerate(group.releases):
            for j, requirement in enumerate(group.requirements):
                yield (
                    name,
                    release,
                    requirement,
                    group.columns[j].n if group.columns else None,
                    float(group.limits[j]),
                    derived.estimates[r][j],
                    derived.lower[r][j],
                    derived.upper[r][j],
                    derived.pvalues[r][j],
                    derived.violation_pvalues[r][j],
                    group.tests[j],
                    whole[r],
                    scores[r],
                    _evalue(picks.get(name), r),
                )


def _evalue(picks: PickGroup | None, r: int) -> str | None:
    """Return the recorded e-value of a release, exactly: a whole number, or a fraction."""
    if picks is None:
        return None
    denominator = picks.unit.partition("/")[2]
    return picks.evalues[r] if denominator == "1" else f"{picks.evalues[r]}/{denominator}"


def _scores(name: str, pvalues: list[float], sources: Sources) -> list[int | None]:
    """Return which releases scored favorably, where that is a statement about each of them.

    A score by p-value takes the releases with the smallest p-values, and so does Holm; how
    many they are is recorded.
    """
    verdict = sources.verdict(name)
    count: float | None = None
    if isinstance(verdict, SequentialVerdict):
        count = verdict.favorable
    elif isinstance(verdict, MechanismVerdict):
        labels = ("favorable scores (release p-value", "recognized releases (Holm)")
        count = next((s.value for s in verdict.lower.steps if s.label.startswith(labels)), None)
    if count is None:
        return [None] * len(pvalues)
    order = sorted(range(len(pvalues)), key=lambda r: (pvalues[r], r))
    favorable = set(order[: int(count)])
    return [int(r in favorable) for r in range(len(pvalues))]


def _cell(cell: Cell) -> Cell:
    if cell is None:
        return ""
    if isinstance(cell, float):
        return repr(cell)
    if isinstance(cell, str) and cell[:1] in ("=", "+", "-", "@", "\t", "\r"):
        return f"'{cell}"  # a spreadsheet would run it
    return cell
