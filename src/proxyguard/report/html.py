"""A report as one HTML page, as a notebook cell, and as Markdown.

The page makes no request, is under a strict policy, and reads without script and on paper. Text
written by users reaches it through autoescape, and the picker's data through a JSON element in
which no character can end it; in Markdown every character that it could act by is escaped.

Templates read the documents themselves, verdicts and tables, and draw pictures by a filter; what a
page has besides is a frozen view. First what every page is rendered by, then the views, the pages,
and Markdown.
"""

from __future__ import annotations

import json
import re
from base64 import b64encode
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from hashlib import sha256
from importlib.resources import files
from typing import TYPE_CHECKING

from proxyguard.certificate.wording import confidence
from proxyguard.documents.canonical import Plain
from proxyguard.documents.certificate import PickGroup, Report, ReportTable, ReportVerdict
from proxyguard.documents.evidence import GroupEvidence
from proxyguard.printable import printable
from proxyguard.report import picture as look
from proxyguard.report.charts import (
    DECISIONS,
    beside,
    budget_pictures,
    decision_pictures,
    drawn_requirements,
    interval_of,
    look_of,
    requirement_pictures,
    verdict_icon,
    waterfalls_of,
)
from proxyguard.report.compare import Comparison
from proxyguard.report.evidence import left_out, nearest_limits, rounded_words
from proxyguard.report.exposure import MOST_ATTACKS, exposure_pictures, figures_of
from proxyguard.report.glossary import Term, terms
from proxyguard.report.picture import Picture, evalue_words, plain, to_icon, to_svg
from proxyguard.report.record import draws_of, selected
from proxyguard.report.sources import Sources

if TYPE_CHECKING:
    from jinja2 import Environment
    from markupsafe import Markup

# Letters of a word that a narrow column may break.
LONG = 28
NUMBER = re.compile(r"[-+]?[\d,.]+(e[-+]?\d+)?( %)?")
# Requirements that a list of releases has room for.
MOST_COLUMNS = 40
# Up to so many verdicts each has a card; more are counted, and listed in a table.
CARDS = 12
# Verdicts that a table of Markdown has room for.
MOST_LISTED = 50
# Letters before a colon that are set in bold.
MOST_BOLD = 40
# Sections that are tables alone, in their order.
TABLE_SECTIONS = (
    ("draws", "Draws"),
    ("plan", "Plan and outcome"),
    ("sequential", "The sequential path"),
    ("privacy", "Privacy"),
    ("provenance", "Provenance"),
)
# Tables that stand elsewhere on the page than in a section of their own name.
_BUDGET, _UNCERTIFIED = "budget", "uncertified"
_ELSEWHERE = {"not certified": _UNCERTIFIED, "picks": "evidence"}


def render_page(
    template: str, scripts: Sequence[str] = ("page.js",), styles: Sequence[str] = (), /,
    **views: object,
) -> str:  # fmt: skip
    """Return a page under a policy that allows its own style and script, and nothing else.

    Parameters
    ----------
    template
        The name of a page among the templates.
    scripts, styles
        Files of the templates: the page's script, in this order, and what its style has more than
        every page's.
    views
        What the template shows, by the names that it uses.

    Notes
    -----
    The policy names the hashes of the page's own style and script: what a name or a reason could
    bring along is never run.
    """
    css = "\n".join([page_css(), *map(_asset, styles)])
    script = "\n".join(map(_asset, scripts))
    policy = (
        f"default-src 'none'; style-src '{_hash(css)}'; script-src '{_hash(script)}'; "
        "base-uri 'none'; form-action 'none'"
    )
    page = environment().get_template(template)
    return page.render(css=_markup(css), script=_markup(script), policy=policy, **views)


# Where a page explains nothing: in what can be pressed already, in headings, code and pictures.
_PASSED = ("a", "button", "caption", "code", "h1", "h2", "h3", "h4", "label", "noscript", "pre",
           "script", "style", "summary", "svg", "thead")  # fmt: skip
# A flag of a command with a short value, which a line may not end within.
_FLAG = re.compile(
    r"(?<![\w-])--"
    r"(?:(?:limit|exclude) (?:&#39;[^&<]{1,24}&#39;|[^\s&<]{1,24}(?<![.,;:)]))|[a-z][a-z-]*)"
)
_TOKENS = re.compile(r"<!--.*?-->|<[^>]*>|[^<]+", re.DOTALL)


def explained(page: Markup | str) -> str:
    """Return a page in which the first occurrence of each term can be pressed for its meaning.

    Parameters
    ----------
    page
        The whole page. What lies in its ``main`` is looked at; the explanations are put at its end.

    Notes
    -----
    A button opens its explanation by the platform's own popover: with a pointer, a finger or a key,
    without any script. Nothing that a user wrote can become markup: words are only wrapped.
    """
    before, opening, rest = str(page).partition("<main")
    inside, closing, after = rest.rpartition("</main>")
    forms = {form.lower(): term for term in terms() for form in term.forms}
    words = re.compile(
        rf"(?<![\w&;'./-])(?:{'|'.join(sorted(map(re.escape, forms), key=len, reverse=True))})"
        r"(?![\w'/-]|\.\w| like\b)",  # what "looks like" something is no look at draws
        re.IGNORECASE,
    )  # fmt: skip
    told: dict[str, Term] = {}
    skipped: list[str] = []
    tokens = _TOKENS.findall(f"{opening}{inside}")
    for i, token in enumerate(tokens):
        if token.startswith("<"):
            _step(token, skipped)
            continue
        if not skipped and len(told) < len(forms):
            tokens[i] = words.sub(lambda met: _marked(met[0], forms[met[0].lower()], told), token)
        if skipped in ([], ["code"]):
            tokens[i] = _FLAG.sub(r'<span class="pg-flag">\g<0></span>', tokens[i])
    meanings = "".join(
        f'<div popover class="pg-meaning" id="term-{term.anchor}"><p><strong>{term.name}</strong>: '
        f"{term.text}</p></div>\n"
        for term in told.values()
    )
    return f"{before}{''.join(tokens)}{meanings}{closing}{after}"


def _step(tag: str, skipped: list[str]) -> None:
    """Remember in which element nothing is explained; its own kind may be nested in it."""
    name = re.match(r"</?\s*([a-zA-Z0-9]+)", tag)
    if name is None:
        return
    kind, ends = name[1].lower(), tag.startswith("</")
    if tag.endswith("/>") or kind not in (skipped[:1] or _PASSED):
        return
    if ends:
        del skipped[-1:]
    else:
        skipped.append(kind)


def _marked(words: str, term: Term, told: dict[str, Term]) -> str:
    """Return a term's first occurrence as a button that opens its meaning, others as they are."""
    if term.name in told:
        return words
    told[term.name] = term
    return (
        f'<button type="button" class="pg-term" popovertarget="term-{term.anchor}">{words}</button>'
    )


@cache
def environment() -> Environment:
    """Return where the templates are compiled: escaping always, and no undefined name."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    compiled = Environment(
        autoescape=True,
        undefined=StrictUndefined,
        loader=PackageLoader("proxyguard.report"),
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_visible,
    )
    compiled.filters |= {
        "column_kinds": column_kinds,
        "svg": lambda picture: _markup(to_svg(picture)),
        "sign": lambda decision: _markup(to_icon(verdict_icon(decision))),
        "look": look_of,
        "interval": interval_of,
        "waterfalls": waterfalls_of,
        "unbroken": lambda words: words.replace(" %", "\N{NO-BREAK SPACE}%"),
        "led": _led,
        # Between sentences, and in no number, name or abbreviation of ours.
        "sentences": lambda words: re.split(r"(?<=[.?!]) (?=[A-Z])", words),
    }
    return compiled


def _lead(words: str) -> tuple[str, str]:
    """Return what is set in bold of a line, and the rest of it.

    That is what stands before its first colon, where that is short, or a single word: a paragraph
    that is all in bold is read by nobody.
    """
    lead, colon, rest = words.partition(": ")
    short = len(lead) <= MOST_BOLD if colon else " " not in words
    return (lead, colon + rest) if short else ("", words)


def _led(words: str) -> Markup:
    """Return a line with its lead in bold."""
    from markupsafe import Markup

    lead, rest = map(_visible, _lead(words))
    return Markup("<strong>{}</strong>{}" if lead else "{}{}").format(lead, rest)


def _visible(shown: object) -> object:
    """Return text without controls that turn or hide writing; what was made as markup stays."""
    if isinstance(shown, str) and not hasattr(shown, "__html__"):
        return printable(shown, keep="\n\t\N{NO-BREAK SPACE}")
    return shown


def _markup(text: str) -> Markup:
    """Return text that a template takes as it is: our own, and never a user's."""
    from markupsafe import Markup

    return Markup(text)


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


def column_kinds(table: ReportTable) -> list[Markup]:
    """Return the class of every column: numbers end at one line, long words may be broken.

    Returns
    -------
    list of Markup
        The attribute of each column, empty where it needs none.
    """
    kinds = []
    for column in range(len(table.columns)):
        cells = [row[column] for row in table.rows]
        kind = ""
        if all(NUMBER.fullmatch(cell) for cell in cells):
            kind = ' class="pg-number"'
        elif any(len(word) > LONG for cell in cells for word in cell.split()):
            kind = ' class="pg-long"'
        kinds.append(_markup(kind))
    return kinds


def data_markup(plain_values: object) -> Markup:
    """Return plain values as a script element holds them.

    Parameters
    ----------
    plain_values
        What a page's script reads.
    """
    return _markup(safe_json(plain_values))


def safe_json(plain_values: object) -> str:
    """Return JSON that a script element can hold: no character of it can end the element.

    >>> safe_json("</script>")
    '"\\\\u003c/script\\\\u003e"'
    """
    text = json.dumps(plain_values, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    # The last two end a line in scripts, and not in JSON.
    for letter in "<>&\u2028\u2029":
        text = text.replace(letter, f"\\u{ord(letter):04x}")
    return text


@cache
def _asset(name: str) -> str:
    """Return a file of the templates as it is."""
    return files("proxyguard.report").joinpath("templates", name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    """Return how a policy names a script or a style."""
    return "sha256-" + b64encode(sha256(text.encode()).digest()).decode()


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupView:
    """The pictures and the requirement table of one group of releases."""

    name: str
    requirements: list[Picture]
    total: int  # of them, drawn or not
    decision: list[Picture]
    lines: tuple[str, ...]
    tables: list[ReportTable]


@dataclass(frozen=True, slots=True, kw_only=True)
class ExposureView:
    """What the page shows of one group's attacks."""

    name: str
    verdict: ReportVerdict | None
    pictures: list[Picture]
    note: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseList:
    """Every release of one group, and what a page needs to bound a choice of them."""

    index: int
    name: str
    columns: list[str]
    rows: list[list[str]]
    data: Markup | None  # for the page's script, where a budget is registered
    note: str


def _said(verdicts: Sequence[ReportVerdict]) -> list[tuple[str, str]]:
    """Return what each decision says, where it is the same of all verdicts that have it.

    Of a hundred named releases one sentence in a hundred cells would hide which they are about.
    """
    said = dict.fromkeys((verdict.decision, verdict.sentence) for verdict in verdicts)
    return [*said] if len(said) == len({verdict.decision for verdict in verdicts}) else []


def release_lists(sources: Sources) -> list[ReleaseList]:
    """Return a list of releases for each group, with the picker's data where it is registered.

    Returns
    -------
    list of ReleaseList
        In the order of the verdicts. Where no budget for picks was registered there is no data, so
        that the page makes no claim about any choice.
    """
    lists, draws = [], draws_of(sources)
    for index, name in enumerate(sources.group_names, start=1):
        group = sources.groups[name]
        places = nearest_limits(group, MOST_COLUMNS)
        columns, rows = _estimates(group, places, sources.units(name))
        files = _files(sources, name)
        if files:
            columns.insert(1, "file")
            for row in rows:
                row.insert(1, files.get(row[0].rpartition("/")[2], ""))
        models = selected(draws.get(name, ()))
        if len(set(models.values())) > 1:
            columns.append("model chosen")
            for row, release in zip(rows, group.releases, strict=True):
                row.append(models.get(release.rpartition("/")[2], ""))
        data = None
        if sources.picks is not None and name in sources.picks.mechanisms:
            chosen = sources.picks.mechanisms[name]
            # E-values are found by release: their order need not be that of the rows.
            by_release = dict(zip(chosen.releases, chosen.evalues, strict=True))
            evalues = [by_release[release] for release in group.releases]
            data = data_markup(_data(group, chosen, evalues, sources.picks.alpha))
            columns.append("e-value (at most R/alpha)")
            for row, evalue in zip(rows, evalues, strict=True):
                row.append(evalue_words(float(int(evalue) * Fraction(chosen.unit))))
        note = left_out(group, len(places)).strip()
        lists.append(
            ReleaseList(index=index, name=name, columns=columns, rows=rows, data=data, note=note)
        )
    return lists


def _files(sources: Sources, name: str) -> dict[str, str]:
    """Return the files of a mechanism whose releases were made elsewhere, by the draws' seeds."""
    made = [member.drawn(name) for member in sources.members.values()]
    if len(made) != 1 or made[0] is None:  # of several members a seed is no one file
        return {}
    return {str(file.seed): file.name for file in made[0].files or () if file.seed is not None}


def _estimates(
    group: GroupEvidence, places: Sequence[int], units: Sequence[str]
) -> tuple[list[str], list[list[str]]]:
    """Return the columns and rows of estimates, each with the digits that its limit asks for."""
    limits = {j: float(group.limits[j]) for j in places}
    columns = [
        f"{group.requirements[j]} (limit {plain(limit)}{units[j]})" for j, limit in limits.items()
    ]
    rows = [
        [release, *(beside(float(estimates[j]), limit) for j, limit in limits.items())]
        for release, estimates in zip(group.releases, group.derived.estimates, strict=True)
    ]
    return ["release", *columns], rows


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
            # Nine digits choose as well as seventeen, and keep a page of many releases small.
            [float(f"{float(estimate):.9g}") for estimate in row]
            for row in group.derived.estimates
        ],
    }


def to_html(report: Report, sources: Sources) -> str:
    """Return the page, with the pictures and the picker of what the report was built from.

    Parameters
    ----------
    report
        What `build_report` made of these sources.
    sources
        What it was made of.
    """
    groups = [_group(name, report, sources) for name in sources.group_names]
    inside = {table.title for group in groups for table in group.tables}
    tables: dict[str, list[ReportTable]] = {}
    for table in report.tables:
        section = _ELSEWHERE.get(table.section, table.section)
        # The table of the budgets stands beside their pictures.
        section = _BUDGET if table.title == "Error budget" else section
        # What a group shows is not shown again.
        if table.title not in inside:
            tables.setdefault(section, []).append(table)
    evidence, budget = tables.get("evidence", []), tables.get(_BUDGET, [])
    uncertified = tables.get(_UNCERTIFIED, [])
    described = figures_of(sources) if report.exposure else {}
    exposed = [_exposure(name, report, sources) for name in described]
    pickers, picks = release_lists(sources), sources.picks
    sections = [(name, words, tables[name]) for name, words in TABLE_SECTIONS if name in tables]
    budgets = budget_pictures(sources)
    present = [
        ("verdict", "Verdict", True),
        ("resolve", "What would resolve it", bool(report.advice)),
        ("evidence", "Evidence", bool(groups or evidence)),
        ("exposure", "Exposure", bool(report.exposure)),
        ("budget", "Error budget", bool(budgets or budget)),
        ("picks", "Choose releases" if picks else "All releases", bool(pickers)),
        *((name, words, True) for name, words, _ in sections),
        ("uncertified", "Not certified", bool(uncertified)),
        ("check", "Check this page", True),
    ]
    page = render_page(
        "page.html.j2",
        report=report,
        verdicts=report.verdicts,
        decisions=DECISIONS if len(report.verdicts) > CARDS else (),
        said=_said(report.verdicts),
        status=sources.status,
        contents=[(name, words) for name, words, there in present if there],
        groups=groups,
        evidence=evidence,
        rounded=rounded_words(sources),
        exposed=exposed,
        exposure_tables=tables.get("exposure", []),
        budget=budget,
        uncertified=uncertified,
        budgets=budgets,
        pickers=pickers,
        picks=picks,
        sections=sections,
    )
    return explained(page)


def _group(name: str, report: Report, sources: Sources) -> GroupView:
    """Return what the page shows of one group of releases."""
    group = sources.groups[name]
    drawn = drawn_requirements(report, group, name)
    return GroupView(
        name=name,
        requirements=requirement_pictures(sources, name, drawn),
        total=len(group.requirements),
        decision=decision_pictures(report, sources, name),
        lines=next((v.lines for v in report.verdicts if v.name == name), ()),
        tables=[
            table
            for table in report.tables
            if table.title in (f"Answers: {name}", f"Requirements: {name}")
        ],
    )


def _exposure(name: str, report: Report, sources: Sources) -> ExposureView:
    """Return what the page shows of the attacks on one group."""
    figures = figures_of(sources)[name]
    undrawn = len(figures.attacks) - MOST_ATTACKS
    note = f"Described are the first {len(figures.releases)} releases that there are. " + (
        f"{undrawn} more attacks are in the table." if undrawn > 0 else ""
    )
    return ExposureView(
        name=name,
        verdict=next((v for v in report.verdicts if v.name == name), None),
        pictures=exposure_pictures(sources, name),
        note=note.strip(),
    )


def comparison_page(comparison: Comparison) -> str:
    """Return several audits side by side, after what their comparison does not say.

    Parameters
    ----------
    comparison
        What `compare` gave.
    """
    return explained(render_page("compare.html.j2", comparison=comparison))


def fragment(verdicts: Sequence[ReportVerdict], tables: Sequence[ReportTable]) -> str:
    """Return verdicts and tables for a notebook: self-contained, with the page's looks.

    Parameters
    ----------
    verdicts
        Verdicts, each with its card and how its bounds were built.
    tables
        Tables; those without rows are left out.

    Notes
    -----
    It has its style with it and no script: a notebook shows it without trusting it.
    """
    return environment().get_template("fragment.html.j2").render(
        css=_markup(fragment_css()),
        verdicts=verdicts,
        tables=[table for table in tables if table.rows],
    )  # fmt: skip


def to_markdown(report: Report) -> str:
    """Return the report; text written by users cannot become markup.

    Parameters
    ----------
    report
        What `build_report` gave.
    """
    lines = [f"# {_escaped(report.name)}", "", _escaped(report.purpose), ""]
    if len(report.verdicts) <= CARDS:
        for verdict in report.verdicts:
            lines += _verdict_lines(verdict)
    else:
        lines += _many_verdicts(report.verdicts)
    lines += ["## What was required of a release", "", *_bullets(report.required), ""]
    lines += [f"Guarantee: {_led_markdown(report.guarantee)}.", ""]
    lines += [f"Attestation: {_escaped(report.attestation)}.", ""]
    lines += [f"**On condition:** {_escaped(condition)}.\n" for condition in report.conditions]
    if report.about:
        lines += ["## What this is about", "", *_bullets(report.about)]
    if report.advice:
        advice = [f"{advised.mechanism}: {advised.sentence}" for advised in report.advice]
        lines += ["", "## What would resolve it", "", *_bullets(advice)]
    lines += ["", "## Not claimed", "", *_bullets(report.not_claimed), ""]
    if report.exposure:
        lines += ["## Exposure", "", *_bullets(report.exposure), ""]
    if report.notes:
        lines += ["## Notes", "", *_bullets(report.notes), ""]
    for table in report.tables:
        lines += _table(table)
    lines += ["## Check this", "", f"    {report.verify}", ""]
    return "\n".join(lines)


def _verdict_lines(verdict: ReportVerdict) -> list[str]:
    """Return one verdict under its heading."""
    return [
        f"## {verdict.decision}: {_escaped(verdict.name)}",
        "",
        *([_led_markdown(verdict.warning), ""] if verdict.warning else []),
        _escaped(verdict.sentence),
        "",
        *_bullets(verdict.lines),
        *_bullets([verdict.together] if verdict.together else []),
        *_bullets([f"binding requirement: {verdict.binding}"] if verdict.binding else []),
        "",
    ]


def _many_verdicts(verdicts: Sequence[ReportVerdict]) -> list[str]:
    """Return how many verdicts there are of each kind, and the first of them as a table."""
    counts = Counter(verdict.decision for verdict in verdicts)
    listed = ", ".join(f"{n:,} {decision.lower()}" for decision, n in counts.items())
    more = len(verdicts) - MOST_LISTED
    first = ReportTable(
        title=f"{len(verdicts):,} verdicts: {listed}",
        columns=("about", "verdict", "binding requirement"),
        rows=tuple((v.name, v.decision.lower(), v.binding) for v in verdicts[:MOST_LISTED]),
        note=f"{more:,} more are in report.csv." if more > 0 else "",
        section="evidence",
    )
    # A reason is about the whole audit, and stands once.
    warning = verdicts[0].warning
    return [*([_led_markdown(warning), ""] if warning else []), *_table(first)]


def _led_markdown(words: str) -> str:
    """Return a line with its lead in bold."""
    lead, rest = map(_escaped, _lead(words))
    return f"**{lead}**{rest}" if lead else rest


def comparison_markdown(comparison: Comparison) -> str:
    """Return several audits side by side; the warning comes first."""
    lines = [f"# {_escaped(comparison.title)}", ""]
    lines += [f"> {_escaped(line)}\n>" for line in comparison.warning]
    lines += [""]
    for audit, verdict in comparison.verdicts:
        lines += [
            f"## {_escaped(audit)}: {verdict.decision}: {_escaped(verdict.name)}",
            "",
            *([_escaped(verdict.warning), ""] if verdict.warning else []),
            _escaped(verdict.sentence),
            "",
        ]
    for table in (comparison.settings, *comparison.tables, comparison.check):
        lines += _table(table)
    return "\n".join(lines)


def _bullets(lines: Sequence[str]) -> list[str]:
    """Return lines as a list."""
    return [f"- {_escaped(line)}" for line in lines]


def _table(table: ReportTable) -> list[str]:
    """Return a table of Markdown under its heading."""
    head, *rows = (
        f"| {' | '.join(_escaped(cell) for cell in row)} |" for row in (table.columns, *table.rows)
    )
    note = [_escaped(table.note), ""] if table.note else []
    rule = "|" + "---|" * len(table.columns)
    return [f"## {_escaped(table.title)}", "", head, rule, *rows, "", *note]


def _escaped(text: str) -> str:
    """Return text with every character that Markdown or HTML reads escaped, on one line."""
    visible = printable(" ".join(str(text).split()))
    return re.sub(r"([\\`*_{}\[\]<>()#|!&~$])", r"\\\1", visible)
