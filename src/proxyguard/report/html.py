"""A report as one HTML page: no request, strict policy, readable without script and on paper.

Text written by users reaches the page through autoescape, and the picker's data through a
JSON element in which no character can end it.

What every page is rendered by: templates, styles, the policy, and what may enter a page.

Every release of every group as a table, and what a page needs to bound a choice of them.

A report as Markdown.
"""

from __future__ import annotations

import json
import re
from base64 import b64encode
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from hashlib import sha256
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from proxyguard.certificate.wording import confidence
from proxyguard.documents.canonical import Plain
from proxyguard.documents.certificate import PickGroup
from proxyguard.documents.evidence import GroupEvidence
from proxyguard.printable import printable
from proxyguard.report import picture as look
from proxyguard.report.charts import (
    WORDS,
    budget_pictures,
    decision_pictures,
    drawn_requirements,
    interval_of,
    requirement_pictures,
    verdict_icon,
    waterfalls_of,
)
from proxyguard.report.compare import Comparison
from proxyguard.report.content import Report, Verdict
from proxyguard.report.evidence import bounds_words, left_out, nearest_limits
from proxyguard.report.picture import Picture, decimals, evalue_words, plain, to_icon, to_svg
from proxyguard.report.sources import Sources, Table

if TYPE_CHECKING:
    from jinja2 import Environment
    from markupsafe import Markup

if TYPE_CHECKING:
    from markupsafe import Markup


LONG = 28
"""Letters of a word that a narrow column may break."""
NUMBER = re.compile(r"[-+]?[\d,.]+(e[-+]?\d+)?( %)?")


def render_page(template: str, **values: Any) -> str:
    """Return a page under a policy that allows its own style and script, and nothing else."""
    from markupsafe import Markup

    css, script = page_css(), _asset("page.js")
    policy = (
        f"default-src 'none'; style-src '{_hash(css)}'; script-src '{_hash(script)}'; "
        "base-uri 'none'; form-action 'none'"
    )
    page = environment().get_template(template)
    return page.render(css=Markup(css), script=Markup(script), policy=policy, **values)


def render_fragment(**values: Any) -> str:
    """Return a piece of a page with its own style and no script."""
    from markupsafe import Markup

    return environment().get_template("fragment.html.j2").render(
        css=Markup(fragment_css()), **values
    )  # fmt: skip


@cache
def environment() -> Environment:
    """Return where the templates are compiled: escaping always, and no undefined name."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    found = Environment(
        autoescape=True,
        undefined=StrictUndefined,
        loader=PackageLoader("proxyguard.report"),
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_visible,
    )
    found.filters["column_kinds"] = column_kinds
    return found


def _visible(value: Any) -> Any:
    """Return text without controls that turn or hide writing; what was made as markup stays."""
    from markupsafe import Markup

    plain = isinstance(value, str) and not isinstance(value, Markup)
    return printable(value, keep="\n\t\N{NO-BREAK SPACE}") if plain else value


def page_css() -> str:
    """Return the page's style: the palettes, the looks of marks, the layout."""
    return "\n".join([fragment_css(), _asset("page.css")])


def fragment_css() -> str:
    """Return the style that pages and notebook cells share."""
    return "\n".join(
        [
            f".pg-page, .pg-fragment {{ {look.variables('light')} }}",
            "@media screen and (prefers-color-scheme: dark) {",
            f".pg-page, .pg-fragment {{ {look.variables('dark')} }} }}",
            look.css(),
            _asset("style.css"),
        ]
    )


def column_kinds(table: Table) -> list[Markup]:
    """Return the class of every column: numbers end at one line, long words may be broken."""
    from markupsafe import Markup

    found = []
    for place in range(len(table.columns)):
        cells = [row[place] for row in table.rows]
        kind = ""
        if all(NUMBER.fullmatch(cell) for cell in cells):
            kind = ' class="pg-number"'
        elif any(len(word) > LONG for cell in cells for word in cell.split()):
            kind = ' class="pg-long"'
        found.append(Markup(kind))
    return found


def safe_json(value: Any) -> str:
    """Return JSON that a script element can hold: no character of it can end the element.

    >>> safe_json("</script>")
    '"\\\\u003c/script\\\\u003e"'
    """
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for letter in "<>&\u2028\u2029":
        text = text.replace(letter, f"\\u{ord(letter):04x}")
    return text


@cache
def _asset(name: str) -> str:
    return files("proxyguard.report").joinpath("templates", name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    return "sha256-" + b64encode(sha256(text.encode()).digest()).decode()


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


CARDS = 12
"""Up to so many verdicts each has a card; more are counted, and listed in a table."""

SECTIONS = (
    ("draws", "Draws"),
    ("plan", "Plan and outcome"),
    ("sequential", "The sequential path"),
    ("privacy", "Privacy"),
    ("provenance", "Provenance"),
)
"""Sections that are tables alone, in their order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """A verdict as the page shows it."""

    name: str
    decision: str
    word: str
    sentence: str
    warning: str
    together: str
    icon: Markup
    interval: Markup | None


def to_html(report: Report, sources: Sources) -> str:
    """Return the page, with the pictures and the picker of what the report was built from."""
    cards = [card_of(verdict) for verdict in report.verdicts]
    tables = _by_section(report.tables)
    groups = _groups(report, sources, tables)
    pickers = _pickers(sources)
    picks = sources.picks
    sections = [(name, words, tables[name]) for name, words in SECTIONS if tables.get(name)]
    budgets = _svgs(budget_pictures(sources))
    present = [
        ("verdict", "Verdict", True),
        ("resolve", "What would resolve it", bool(report.advice)),
        ("evidence", "Evidence", bool(groups or tables["evidence"])),
        ("budget", "Error budget", bool(budgets or tables["budget"])),
        ("picks", "Choose releases" if picks else "All releases", bool(pickers)),
        *((name, words, True) for name, words, _ in sections),
        ("uncertified", "Not certified", bool(tables["uncertified"])),
        ("check", "Check this page", True),
    ]
    return render_page(
        "page.html.j2",
        report=report,
        advice=report.advice,
        verdicts=cards,
        tally=_tally(cards) if len(cards) > CARDS else [],
        facts=_facts(sources),
        contents=[(name, words) for name, words, there in present if there],
        groups=groups,
        tables=tables,
        budgets=budgets,
        pickers=pickers,
        picks=picks,
        sections=sections,
    )


def comparison_page(comparison: Comparison) -> str:
    """Return several audits side by side, after what their comparison does not say."""
    audits: dict[str, list[Card]] = {}
    for audit, verdict in comparison.verdicts:
        audits.setdefault(audit, []).append(card_of(verdict))
    return render_page("compare.html.j2", comparison=comparison, cards=list(audits.items()))


def fragment(verdicts: Sequence[Verdict], tables: Sequence[Table]) -> str:
    """Return verdicts and tables for a notebook: self-contained, with the page's looks."""
    return render_fragment(
        cards=[(card_of(verdict), _svgs(waterfalls_of(verdict))) for verdict in verdicts],
        tables=[table for table in tables if table.rows],
    )


def card_of(verdict: Verdict) -> Card:
    """Return a verdict with its sign and its interval."""
    from markupsafe import Markup

    decision = verdict.decision.lower()
    interval = interval_of(verdict)
    return Card(
        name=verdict.name,
        decision=decision,
        word=WORDS[decision],
        sentence=_unbroken(verdict.sentence),
        warning=verdict.warning,
        together=_unbroken(verdict.together),
        icon=Markup(to_icon(verdict_icon(decision))),
        interval=None if interval is None else Markup(to_svg(interval)),
    )


def _unbroken(words: str) -> str:
    """Return words in which no percentage is broken across lines."""
    return words.replace(" %", "\N{NO-BREAK SPACE}%")


def _svgs(pictures: Sequence[Picture]) -> list[Markup]:
    from markupsafe import Markup

    return [Markup(to_svg(picture)) for picture in pictures]


def _tally(cards: Sequence[Card]) -> list[dict[str, Any]]:
    """Return how many verdicts there are of each kind."""
    from markupsafe import Markup

    return [
        {
            "icon": Markup(to_icon(verdict_icon(decision))),
            "word": word,
            "count": sum(card.decision == decision for card in cards),
        }
        for decision, word in WORDS.items()
    ]


def _by_section(tables: Sequence[Table]) -> dict[str, list[Table]]:
    found: dict[str, list[Table]] = {"evidence": [], "budget": [], "uncertified": []}
    for table in tables:
        section = {"not certified": "uncertified"}.get(table.section, table.section)
        if table.title == "Error budget":
            section = "budget"
        if section == "picks":
            section = "evidence"
        found.setdefault(section, []).append(table)
    return found


def _groups(
    report: Report, sources: Sources, tables: dict[str, list[Table]]
) -> list[dict[str, Any]]:
    """Return the pictures and the requirement table of every group of releases."""
    groups = []
    for name in sources.group_names:
        title = f"Requirements: {name}"
        own = [table for table in tables["evidence"] if table.title == title]
        tables["evidence"] = [table for table in tables["evidence"] if table.title != title]
        group = sources.groups[name]
        drawn = drawn_requirements(report, group, name)
        groups.append(
            {
                "name": name,
                "sure": bounds_words(name, group, sources.verdict(name)),
                "requirements": _svgs(requirement_pictures(group, drawn)),
                "decision": _svgs(decision_pictures(report, sources, name)),
                "lines": next((v.lines for v in report.verdicts if v.name == name), ()),
                "tables": own,
            }
        )
    return groups


def _facts(sources: Sources) -> list[tuple[str, str]]:
    return [("Evidence", sources.status.evidence), ("Lineage", sources.status.lineage)]


def _pickers(sources: Sources) -> list[dict[str, Any]]:
    """Return every group's list of releases, its data ready for a script element."""
    from markupsafe import Markup

    return [
        {**one, "data": None if one["data"] is None else Markup(safe_json(one["data"]))}
        for one in release_lists(sources)
    ]


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
        lines += [f"- {_plain(one.mechanism)}: {_plain(one.sentence)}" for one in report.advice]
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
