"""A report as Markdown."""

from __future__ import annotations

import re

from proxyguard.report.compare import Comparison
from proxyguard.report.content import Report, Table
from proxyguard.report.printable import printable


def to_markdown(report: Report) -> str:
    """Return the report; text written by users cannot become markup."""
    lines = [f"# {_plain(report.name)}", "", _plain(report.purpose), ""]
    for verdict in report.verdicts:
        lines += [
            f"## {verdict.decision}: {_plain(verdict.name)}",
            "",
            *([f"**{_plain(verdict.warning)}**", ""] if verdict.warning else []),
            f"**{_plain(verdict.sentence)}**",
            "",
            *(f"- {_plain(line)}" for line in verdict.lines),
            *([f"- {_plain(verdict.together)}"] if verdict.together else []),
            *([f"- binding requirement: {_plain(verdict.binding)}"] if verdict.binding else []),
            "",
        ]
    lines += [f"**Guarantee: {_plain(report.guarantee)}.** *{_plain(report.attestation)}.*", ""]
    lines += ["## What this is about", ""]
    lines += [f"- {_plain(line)}" for line in report.about]
    if report.advice:
        lines += ["", "## What would resolve it", ""]
        lines += [f"- {_plain(one['mechanism'])}: {_plain(one['sentence'])}"
                  for one in report.advice]  # fmt: skip
    lines += ["", "## Not claimed", "", *(f"- {_plain(line)}" for line in report.not_claimed), ""]
    if report.notes:
        lines += ["## Notes", "", *(f"- {_plain(note)}" for note in report.notes), ""]
    for table in report.tables:
        lines += _table(table)
    lines += ["## Check this", "", f"    {report.verify}", ""]
    return "\n".join(lines)


def comparison_markdown(comparison: Comparison) -> str:
    """Return several audits side by side; the warning comes first."""
    lines = [f"# {_plain(comparison.title)}", ""]
    lines += [f"> {_plain(line)}\n>" for line in comparison.warning]
    lines.append("")
    for audit, verdict in comparison.verdicts:
        lines += [
            f"## {_plain(audit)}: {verdict.decision}: {_plain(verdict.name)}",
            "",
            *([_plain(verdict.warning), ""] if verdict.warning else []),
            _plain(verdict.sentence),
            "",
        ]
    for table in (*comparison.tables, comparison.check):
        lines += _table(table)
    return "\n".join(lines)


def _table(table: Table) -> list[str]:
    lines = [f"## {_plain(table.title)}", ""]
    lines.append("| " + " | ".join(_plain(column) for column in table.columns) + " |")
    lines.append("|" + "---|" * len(table.columns))
    lines += ["| " + " | ".join(_plain(cell) for cell in row) + " |" for row in table.rows]
    return [*lines, "", *([_plain(table.note), ""] if table.note else [])]


def _plain(text: str) -> str:
    """Return text with every character that Markdown or HTML reads escaped, on one line."""
    visible = printable(" ".join(str(text).split()))
    return re.sub(r"([\\`*_{}\[\]<>()#|!&~$])", r"\\\1", visible)
