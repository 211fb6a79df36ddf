"""Every number behind a report as rows: one a mechanism, release and requirement."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping
from typing import Any

from proxyguard.report.content import Sources
from proxyguard.report.evidence import groups_in
from proxyguard.report.parts import in_order

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
        writer.writerow([_cell(row[name]) for name in COLUMNS])
    return text.getvalue().encode()


def evidence_rows(sources: Sources) -> Iterator[dict[str, Any]]:
    """Yield the rows in the order of the verdicts, releases and requirements."""
    predicate = sources.predicate
    groups = groups_in(sources.evidence)
    picks = (predicate.get("picks") or {"mechanisms": {}})["mechanisms"]
    for name in in_order(list(groups), predicate):
        group = groups[name]
        derived = group["derived"]
        whole = [max(row) for row in derived["pvalues"]]
        scores = _scores(name, whole, sources)
        for r, release in enumerate(group["releases"]):
            for j, requirement in enumerate(group["requirements"]):
                yield {
                    "mechanism": name,
                    "release": str(release),
                    "requirement": requirement,
                    "records": group["columns"][j]["n"] if group["columns"] else None,
                    "limit": float(group["limits"][j]),
                    "estimate": derived["estimates"][r][j],
                    "lower": derived["lower"][r][j],
                    "upper": derived["upper"][r][j],
                    "pvalue": derived["pvalues"][r][j],
                    "violation_pvalue": derived["violation_pvalues"][r][j],
                    "test": group["tests"][j],
                    "release_pvalue": whole[r],
                    "score": scores[r],
                    "evalue": _evalue(picks.get(name), r),
                }


def _evalue(picks: Mapping[str, Any] | None, r: int) -> str | None:
    """Return the recorded e-value of a release, exactly: a whole number, or a fraction."""
    if picks is None:
        return None
    denominator = str(picks["unit"]).partition("/")[2]
    return picks["evalues"][r] if denominator == "1" else f"{picks['evalues'][r]}/{denominator}"


def _scores(name: str, pvalues: list[float], sources: Sources) -> list[int | None]:
    """Return which releases scored favorably, where that is a statement about each of them.

    A score by p-value takes the releases with the smallest p-values, and so does Holm; how
    many they are is recorded.
    """
    threshold = sources.registry["declaration"]["claim"].get("threshold")
    verdicts = {v["mechanism"]: v for v in sources.predicate["verdicts"]}
    verdict: Mapping[str, Any] = verdicts.get(name, {})
    if "favorable" in verdict and threshold is not None:
        count: float | None = verdict["favorable"]
    else:
        steps = (verdict.get("lower") or {}).get("steps", [])
        labels = ("favorable scores (release p-value", "recognized releases (Holm)")
        count = next((s["value"] for s in steps if s["label"].startswith(labels)), None)
    if count is None:
        return [None] * len(pvalues)
    order = sorted(range(len(pvalues)), key=lambda r: (pvalues[r], r))
    favorable = set(order[: int(count)])
    return [int(r in favorable) for r in range(len(pvalues))]


def _cell(value: Any) -> Any:
    if value is None:
        return ""
    if isinstance(value, float):
        return repr(value)
    if isinstance(value, str) and value[:1] in ("=", "+", "-", "@", "\t", "\r"):
        return f"'{value}"  # a spreadsheet would run it
    return value
