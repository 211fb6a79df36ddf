"""What sections of docs/audits.md show besides audits: repeats of the stand-ins, roles by rule."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from analyse import Run
from published import Published
from spread import CHOSEN, FIGURES, REPEATS
from tables import table
from text_roles import RULES

import proxyguard as pg
from proxyguard.audit.folder import EVIDENCE

SPREAD, TEXT_ROLES = "spread.json", "text-roles.json"  # in the work folder
MODEL_ORDER = (CHOSEN, "logistic", "boosting")
SAME = 1e-9  # figures that differ by less have nothing random in them
RULE_WORDS = {
    "likely": "among pilots with a positive 10 % quantile",
    "all": "among all pilots",
}


def figures(run: Run, published: Published) -> str:
    """Return every published figure of named releases beside ours, by model."""
    if not published.figures:
        return ""
    audits = {CHOSEN: run.paper, **{_model(audit): audit for audit in run.variants}}
    own = {model: figures_of(audit, published) for model, audit in audits.items()}
    rows = [
        (release, figure, theirs, *(f"{own[model][release][k]:.3f}" for model in audits))
        for release, several in published.figures.items()
        for k, (figure, theirs) in enumerate(zip(FIGURES, several, strict=True))
    ]
    columns = ("release", "figure", "published", *(_words(model) for model in audits))
    return "Proxy less source on the target; AUC decides nothing:\n\n" + table(columns, rows)


def _model(audit: pg.Audit) -> str:
    return str(audit.certificate()["name"]).rpartition("-")[2]


def _words(model: str) -> str:
    return "the cheaper model" if model == CHOSEN else f"{model} alone"


def figures_of(audit: pg.Audit, published: Published) -> dict[str, tuple[float, float, float]]:
    """Return the difference in AUC, the Brier regret and the cost regret of each release."""
    groups = audit.folder.read_json(EVIDENCE)["groups"]
    auc = audit.certificate()["diagnostics"]
    found = {}
    for release in published.figures:
        relation, name = release.split("/")
        means = dict(
            zip(groups[relation]["requirements"], groups[relation]["derived"]["estimates"][0],
                strict=True)
        )  # fmt: skip
        found[release] = (
            auc["auc"][relation][name] - auc["source_auc"][relation],
            float(means["Brier transfer"]),
            float(means["Cost5x transfer"]),
        )
    return found


def repeats(run: Run, published: Published) -> str:
    """Return where the published figures lie among those of other divisions and seeds."""
    if not published.figures:
        return ""
    found = _read(run, SPREAD)
    rows = []
    for release, several in published.figures.items():
        relation = release.split("/")[0]
        values = {model: np.array(own) for model, own in found[relation].items()}
        for k, (figure, theirs) in enumerate(zip(FIGURES, several, strict=True)):
            cells = [_cell(values[model][:, k], float(theirs)) for model in MODEL_ORDER]
            rows.append((release, figure, theirs, *cells))
    columns = ("release", "figure", "published", *(_words(model) for model in MODEL_ORDER))
    counts = ", ".join(f"{one} {count}" for one, count in REPEATS.items())
    return (
        "Which rows the paper trained and chose on is not printed. `python audits/spread.py` "
        f"divides them anew (times: {counts}; Bank Marketing is divided by date, and only the seed "
        "of boosted trees changes). Mean of the figure over repeats, its standard deviation, and "
        "p: how rare a figure as far out as the published one is among them, on either side.\n\n"
        + table(columns, rows)
    )


def _cell(values: Any, published: float) -> str:
    if np.ptp(values) < SAME:
        return f"{values.mean():.3f} (always)"
    spread = float(values.std(ddof=1))
    return f"{values.mean():.3f} ({spread:.3f}), p = {rank_pvalue(values, published):.2g}"


def rank_pvalue(values: Sequence[float], seen: float) -> float:
    """Return the two-sided p-value of a value's rank among others that are exchangeable with it.

    >>> rank_pvalue([1.0, 2.0, 3.0], 2.5)
    1.0
    >>> rank_pvalue([1.0, 2.0, 3.0], 9.0)
    0.5
    """
    others = np.asarray(values, dtype=np.float64)
    tail = min(int(np.sum(others <= seen)), int(np.sum(others >= seen))) + 1
    return min(1.0, 2.0 * tail / (others.size + 1))


def roles_by_rule(run: Run, name: str, registered: str) -> str:
    """Return which configurations each rule chooses from the paper's pilots, drawn again."""
    if name != "text-unigram":
        return ""
    found: Mapping[str, Any] = _read(run, TEXT_ROLES)
    rows = [
        (RULE_WORDS[rule] + (", as registered" if rule == registered else ""),
         _ties(how), *(found[how][rule][role] for role in ("high", "moderate", "degraded")))
        for rule in RULES
        for how in found
    ]  # fmt: skip
    return (
        "The paper says of its rule for text no more than that it is deterministic and looks at "
        "margins. `python audits/text_roles.py` draws its pilots again in its order, with each set "
        "of words that the tie in the vocabulary leaves open (see below). Only the rule without a "
        "filter gives the published 02, 06 and 09, and that with the words that give the published "
        "limits; it is the one that the declarations register. (One that asks for a positive "
        "median would choose the same from these pilots.) An audit draws in another order, so that "
        "its own choice, above, may be another one than that of the same words below.\n\n"
        + table(("moderate role", "tied words", "high", "moderate", "degraded"), rows)
    )


def _ties(how: str) -> str:
    words = {"AVX2": "AVX2, with the published limits", "alphabet": "the alphabet, as here"}
    return words.get(how, how)


def _read(run: Run, name: str) -> Any:
    return json.loads((run.paper.folder.path.parent / name).read_text("utf-8"))
