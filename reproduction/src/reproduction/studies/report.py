"""Rows of studies as text and as files."""

from __future__ import annotations

import json
from collections.abc import Sequence
from html import escape
from pathlib import Path

from reproduction.studies.rows import Row

COLUMNS = ["cell", "method", "metric", "value", "error", "published", "exact", "p", "status"]


class Rows(list[Row]):
    """Rows of a study; a notebook shows them as tables."""

    def _repr_html_(self) -> str:
        import pandas as pd  # here and not above: processes that simulate need no tables

        return "".join(
            f"<h4>{escape(study)}</h4>"
            + pd.DataFrame(
                [_cells(row) for row in self if row.study == study], columns=COLUMNS
            ).to_html(index=False)
            for study in dict.fromkeys(row.study for row in self)
        )


def _cells(row: Row) -> tuple[str, ...]:
    """Return a row as text; what it has not is left empty."""
    numbers = (row.standard_error, row.published, row.exact, row.p_agree)
    error, published, exact, agree = ("" if x is None else f"{x:.4g}" for x in numbers)
    cell = ", ".join(f"{k} {v}" for k, v in row.cell.items() if not isinstance(v, tuple))
    value = f"{row.value:.4f}"
    return cell, row.method, row.metric, value, error, published, exact, agree, row.status


def table(rows: Sequence[Row]) -> str:
    """Return the rows as a table, one block a study and cell."""
    lines: list[str] = []
    before: tuple[str, str] | None = None
    for row in rows:
        cell = ", ".join(f"{k} {v}" for k, v in row.cell.items() if not isinstance(v, tuple))
        if (row.study, cell) != before:
            lines += ["", f"{row.study}: {cell}"]
            before = (row.study, cell)
        published = "" if row.published is None else f"  published {row.published:g}"
        error = "" if row.standard_error is None else f" ({row.standard_error:.4f})"
        exact = "" if row.exact is None else f"  exact {row.exact:.4f}"
        agree = "" if row.p_agree is None else f"  p {row.p_agree:.3f}"
        lines.append(
            f"  {row.method:<24} {row.metric:<28} {row.value:9.4f}{error}"
            f"{published}{exact}{agree}  [{row.status}]"
        )
    return "\n".join(lines)


def write_rows(folder: Path, rows: Sequence[Row]) -> list[Path]:
    """Write one file of rows a study, one JSON object a line."""
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for study in dict.fromkeys(row.study for row in rows):
        place = folder / f"{study}.jsonl"
        own = [json.dumps(row.to_dict(), sort_keys=True) for row in rows if row.study == study]
        place.write_text("\n".join(own) + "\n", encoding="utf-8")
        written.append(place)
    return written
