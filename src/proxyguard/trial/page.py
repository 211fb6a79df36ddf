"""The page of a trial, its fragment for a notebook, and the declaration that a page carries."""

from __future__ import annotations

from html.parser import HTMLParser
from io import TextIOWrapper
from pathlib import Path
from typing import TYPE_CHECKING

from proxyguard.audit.folder import DECLARATION
from proxyguard.errors import RegistryError
from proxyguard.report.charts import compared_picture, interval_picture, release_picture
from proxyguard.report.html import environment, explained, fragment_css, render_page
from proxyguard.report.picture import Picture
from proxyguard.report.sources import table
from proxyguard.seal.storage import DOCUMENT, open_plain
from proxyguard.trial.demands import number_words
from proxyguard.trial.trial import SeenRequirement, Trial

if TYPE_CHECKING:
    from proxyguard.documents.certificate import ReportTable

CONTENTS = (
    ("seen", "What was seen"), ("releases", "Every release"), ("columns", "Every column"),
    ("notes", "What was guessed"), ("way", "The way on"),
)  # fmt: skip
# Where a page carries its declaration.
DECLARED = "audit-toml"


def trial_page(trial: Trial) -> str:
    """Return the page of a trial, which asks for nothing from outside."""
    return explained(render_page("trial.html.j2", **_views(trial), contents=CONTENTS))


def trial_fragment(trial: Trial) -> str:
    """Return a trial for a notebook: with its style, without a script."""
    from markupsafe import Markup

    fragment = environment().get_template("trial_fragment.html.j2")
    return fragment.render(css=Markup(fragment_css()), **_views(trial))


def _views(trial: Trial) -> dict[str, object]:
    return {
        "trial": trial,
        "interval": _interval(trial),
        "several": len(set(trial.requirements[0].makers)) > 1,
        "records": f"{trial.n_records:,} records judge, {trial.standing.value}.",
        "pictures": [_picture(requirement) for requirement in trial.requirements],
        "releases": _release_table(trial),
        "columns": table(
            "Every column",
            ("column", "taken for", "missing", "what it holds", "what was done",
             "under [columns] to have it otherwise"),
            [(c.name, c.kind, c.missing, c.span, c.use, c.otherwise) for c in trial.columns],
            "--exclude COLUMN leaves a column out; a line of the last column goes after --column, "
            "and into audit.toml.",
        ),
    }  # fmt: skip


def _picture(requirement: SeenRequirement) -> Picture:
    """Return the picture of a requirement: of several makers on one axis."""
    unit = f" ({requirement.unit.strip()})" if requirement.unit else ""
    releases, estimates = requirement.releases, requirement.estimates
    makers: dict[str, list[tuple[str, float]]] = {}
    for maker, release, estimate in zip(requirement.makers, releases, estimates, strict=True):
        makers.setdefault(maker, []).append((release, estimate))
    name, limit = f"{requirement.name}{unit}", requirement.limit
    if len(makers) > 1:
        return compared_picture(name, limit, makers)
    return release_picture(name, limit, releases, estimates, [None] * len(releases))


def _interval(trial: Trial) -> Picture | None:
    """Return the interval that decided of one generator, if one did."""
    if trial.reliability is None or trial.judged[0].lower is None:
        return None
    (verdict,) = trial.judged
    lower, _, asked = trial.reliability
    return interval_picture(verdict.decision.value, lower, verdict.upper, asked)


def _release_table(trial: Trial) -> ReportTable:
    """Return every release with its figures, and of named ones what was decided."""
    requirements = trial.requirements
    first = requirements[0]
    named = any(verdict.asked is None for verdict in trial.judged)
    made = len(set(first.makers)) > 1
    heads = [
        *(["made by"] if made else []), "release", *(["decision"] if named else []),
        *(f"{r.name} (limit {number_words(r.limit, r.unit)})" for r in requirements),
    ]  # fmt: skip
    rows = [
        (
            *([maker] if made else []), name,
            *([trial.decisions[name].value] if named else []),
            *(number_words(requirement.estimates[k]) for requirement in requirements),
        )
        for k, (maker, name) in enumerate(zip(first.makers, first.releases, strict=True))
    ]  # fmt: skip
    # A draw that failed has its row already; a named release that did was not judged.
    lost = [name for name in trial.unusable if name not in first.releases]
    rows += [
        (name, *(["violation"] if named else []), *("cannot be used" for _ in requirements))
        for name in lost
    ]
    return table("Releases", tuple(heads), rows)


class _Declared(HTMLParser):
    """Reads the one element of a page that carries its declaration."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.text: list[str] = []
        self._inside = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._inside |= tag == "pre" and ("id", DECLARED) in attrs

    def handle_endtag(self, tag: str) -> None:
        self._inside &= tag != "pre"

    def handle_data(self, data: str) -> None:
        if self._inside:
            self.text.append(data)


def declaration_in(path: Path) -> str:
    """Return the text of `audit.toml` that a file, a trial's page or a trial's folder has.

    Raises
    ------
    RegistryError
        There is none, or it cannot be read.
    """
    file = path / DECLARATION if path.is_dir() else path
    try:
        with open_plain(file, most=DOCUMENT) as opened, TextIOWrapper(opened, "utf-8") as reading:
            text = reading.read()
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is no UTF-8 text"
        raise RegistryError(f"{file} cannot be read: {why}") from error
    if file.suffix != ".html":
        return text
    page = _Declared()
    page.feed(text)
    if not page.text:
        raise RegistryError(f"{file} is no page of proxyguard try: it carries no declaration")
    return "".join(page.text)
