"""A report as Markdown."""

from __future__ import annotations

import re

from proxyguard.report.content import Report, Table


def to_markdown(report: Report) -> str:
    """Return the report; text written by users cannot become markup."""
    lines = [f"# {_plain(report.name)}", "", _plain(report.purpose), ""]
    for verdict in report.verdicts:
        lines += [
            f"## {verdict.decision}: {_plain(verdict.name)}",
            "",
            f"**{_plain(verdict.sentence)}**",
            "",
            *(f"- {_plain(line)}" for line in verdict.lines),
            "",
        ]
    lines += [f"**Guarantee: {_plain(report.guarantee)}.** *{_plain(report.attestation)}.*", ""]
    lines += ["## What this is about", ""]
    lines += [f"- {_plain(line)}" for line in report.about]
    lines += ["", "## Not claimed", "", *(f"- {_plain(line)}" for line in report.not_claimed), ""]
    if report.notes:
        lines += ["## Notes", "", *(f"- {_plain(note)}" for note in report.notes), ""]
    for table in report.tables:
        lines += _table(table)
    lines += ["## Check this", "", f"    {report.verify}", ""]
    return "\n".join(lines)


def _table(table: Table) -> list[str]:
    lines = [f"## {_plain(table.title)}", ""]
    lines.append("| " + " | ".join(_plain(column) for column in table.columns) + " |")
    lines.append("|" + "---|" * len(table.columns))
    lines += ["| " + " | ".join(_plain(cell) for cell in row) + " |" for row in table.rows]
    return [*lines, "", *([table.note, ""] if table.note else [])]


def _plain(text: str) -> str:
    """Return text with every character that Markdown or HTML reads escaped, on one line."""
    return re.sub(r"([\\`*_{}\[\]<>()#|!&])", r"\\\1", " ".join(str(text).split()))
