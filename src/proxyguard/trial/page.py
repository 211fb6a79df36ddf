"""The page of a trial, its fragment for a notebook, and the declaration that a page carries."""

from __future__ import annotations

from dataclasses import dataclass
from html.parser import HTMLParser
from pathlib import Path
from typing import TYPE_CHECKING

from proxyguard.audit.folder import DECLARATION
from proxyguard.errors import RegistryError
from proxyguard.modes.evidence import Decision
from proxyguard.report.charts import DECISIONS, interval_picture, release_picture, verdict_icon
from proxyguard.report.html import environment, fragment_css, render_page
from proxyguard.report.picture import to_icon, to_svg
from proxyguard.report.sources import table
from proxyguard.trial.demands import number_words
from proxyguard.trial.trial import SeenRequirement, Trial

if TYPE_CHECKING:
    from markupsafe import Markup

    from proxyguard.documents.certificate import ReportTable

CONTENTS = (
    ("seen", "What was seen"), ("releases", "Every release"), ("columns", "Every column"),
    ("notes", "What was guessed"), ("way", "The way on"),
)  # fmt: skip
DECLARED = "audit-toml"
"""Where a page carries its declaration."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialCard:
    """What a trial decided, as the page shows it."""

    decision: str
    word: str
    icon: Markup
    interval: Markup | None


def trial_page(trial: Trial) -> str:
    """Return the page of a trial, which asks for nothing from outside."""
    return render_page("trial.html.j2", **_views(trial), contents=CONTENTS)


def trial_fragment(trial: Trial) -> str:
    """Return a trial for a notebook: with its style, without a script."""
    from markupsafe import Markup

    fragment = environment().get_template("trial_fragment.html.j2")
    return fragment.render(css=Markup(fragment_css()), **_views(trial))


def _views(trial: Trial) -> dict[str, object]:
    from markupsafe import Markup

    return {
        "trial": trial,
        "card": None if trial.decision is None else _card(trial, trial.decision),
        "records": f"{trial.n_records:,} records judge, {trial.standing.value}."
        + (f" {trial.sure}." if trial.sure else ""),
        "pictures": [
            Markup(
                to_svg(
                    release_picture(
                        f"{requirement.name} ({requirement.unit.strip()})" if requirement.unit
                        else requirement.name,
                        requirement.limit, requirement.releases, requirement.estimates,
                        [None] * len(requirement.releases),
                    )
                )
            )
            for requirement in trial.requirements
        ],
        "releases": _release_table(trial),
        "columns": table(
            "Every column",
            ("column", "taken for", "missing", "what it holds", "what was done"),
            [(c.name, c.kind, c.missing, c.span, c.use) for c in trial.columns],
            "--exclude COLUMN leaves a column out.",
        ),
    }  # fmt: skip


def _card(trial: Trial, decision: Decision) -> TrialCard:
    from markupsafe import Markup

    interval = None
    if trial.reliability is not None:
        lower, upper, asked = trial.reliability
        interval = Markup(to_svg(interval_picture(decision.value, lower, upper, asked)))
    return TrialCard(
        decision=decision.value,
        word=DECISIONS[decision.value],
        icon=Markup(to_icon(verdict_icon(decision.value))),
        interval=interval,
    )


def _release_table(trial: Trial) -> ReportTable:
    """Return every release with its figures, and of named ones what was decided."""
    requirements = trial.requirements
    names = requirements[0].releases
    named = bool(trial.decisions) and trial.reliability is None
    heads = [f"{r.name} (limit {number_words(r.limit, r.unit)})" for r in requirements]
    rows = [
        (name, *((trial.decisions[name].value,) if named else ()),
         *(_cell(requirement, k) for requirement in requirements))
        for k, name in enumerate(names)
    ]  # fmt: skip
    return table("Releases", ("release", *(("decision",) if named else ()), *heads), rows)


def _cell(requirement: SeenRequirement, k: int) -> str:
    estimate = number_words(requirement.estimates[k])
    if requirement.upper is None:
        return estimate
    high = number_words(requirement.upper[k])
    if requirement.lower is None:
        return f"{estimate} (at most {high})"
    return f"{estimate} ({number_words(requirement.lower[k])} to {high})"


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
        text = file.read_text(encoding="utf-8")
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
