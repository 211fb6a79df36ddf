"""A report as one HTML page: no request, strict policy, readable without script and on paper.

Text written by users reaches the page through autoescape, and the picker's data through a
JSON element in which no character can end it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from proxyguard.report.compare import Comparison
from proxyguard.report.content import Report, Table, Verdict
from proxyguard.report.evidence import bounds_words
from proxyguard.report.picker import release_lists
from proxyguard.report.pictures.gather import (
    budget_pictures,
    decision_pictures,
    drawn_requirements,
    interval_of,
    requirement_pictures,
    waterfalls_of,
)
from proxyguard.report.pictures.picture import Picture
from proxyguard.report.pictures.svg import to_icon, to_svg
from proxyguard.report.pictures.verdict import WORDS, verdict_icon
from proxyguard.report.rendering import render_fragment, render_page, safe_json
from proxyguard.report.sources import Sources

if TYPE_CHECKING:
    from markupsafe import Markup

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
