"""What sections of docs/audits.md show besides audits: repeats of the stand-ins, roles by rule."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

import proxyguard as pg
from reproduction.audits.analyse import Run, measured
from reproduction.audits.cdc_roles import SETS
from reproduction.audits.other_seeds import kept_seeds
from reproduction.audits.published import Published
from reproduction.audits.spread import CHOSEN, FIGURES, OTHERWISE, REPEATS
from reproduction.audits.tables import say, table
from reproduction.audits.text_roles import RULES

# In the work folder:
SPREAD, SPREAD_OTHERWISE = "spread.json", "spread-otherwise.json"
TEXT_ROLES, TEXT_OWN_ROLES = "text-roles.json", "text-own-roles.json"
CDC_ROLES, TAIWAN_POLICIES = "cdc-roles.json", "taiwan-policies.json"
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
    return say("figures") + table(columns, rows)


def _model(audit: pg.Audit) -> str:
    return audit.certificate().name.rpartition("-")[2]


def _words(model: str) -> str:
    return "the cheaper model" if model == CHOSEN else f"{model} alone"


def figures_of(audit: pg.Audit, published: Published) -> dict[str, tuple[float, float, float]]:
    """Return the difference in AUC, the Brier regret and the cost regret of each release."""
    diagnostics = audit.certificate().predicate.diagnostics
    assert diagnostics is not None  # of a fixed audit
    auc, source = diagnostics.auc or {}, diagnostics.source_auc or {}
    found = {}
    for release in published.figures:
        relation, _, name = release.partition("/")  # a drawn release has its seed in its name
        means = measured(audit, relation, "estimate").iloc[0]
        found[release] = (
            _known(auc[relation][name]) - _known(source[relation]),
            float(means["Brier transfer"]),
            float(means["Cost5x transfer"]),
        )
    return found


def _known(auc: float | None) -> float:
    assert auc is not None  # both classes are among the target's records
    return auc


def _repeated(published: Published) -> bool:
    """Return whether the releases with published figures are those that are divided anew."""
    return any(release.split("/")[0] in REPEATS for release in published.figures)


def repeats(run: Run, published: Published) -> str:
    """Return where the published figures lie among those of other divisions and seeds."""
    if not _repeated(published):
        return ""
    found = read(run, SPREAD)
    rows = [
        (release, *cells)
        for release, several in published.figures.items()
        for cells in _repeated_rows(found[release.split("/")[0]], several)
    ]
    columns = ("release", "figure", "published", *(_words(model) for model in MODEL_ORDER))
    counts = ", ".join(f"{one} {count}" for one, count in REPEATS.items())
    return say("repeats", counts=counts) + table(columns, rows)


def other_seeds(published: Published) -> str:
    """Return where the published figures lie among those of releases of other seeds."""
    kept = {name.capitalize(): seeds for name, seeds in kept_seeds().items()}
    rows = [
        (release, figure, theirs, *_seed_cells(kept[relation].differences()[:, k], float(theirs)))
        for release, several in published.figures.items()
        for relation in (release.split("/")[0],)
        if relation in kept
        for k, (figure, theirs) in enumerate(zip(FIGURES, several, strict=True))
    ]
    if not rows:
        return ""
    columns = ("release", "figure", "published", "releases", "mean (deviation)", "least to most",
               "p of the published")  # fmt: skip
    return say("other_seeds") + table(columns, rows)


def _seed_cells(values: Any, published: float) -> tuple[str, ...]:
    return (
        str(values.size),
        f"{values.mean():+.3f} ({values.std(ddof=1):.3f})",
        f"{values.min():+.3f} to {values.max():+.3f}",
        f"{rank_pvalue(values, published):.2g}",
    )


def otherwise(run: Run, published: Published) -> str:
    """Return the same figures under choices that the declarations do not make."""
    if not _repeated(published):
        return ""
    found = read(run, SPREAD_OTHERWISE)
    rows = []
    for choice, (relation, count) in OTHERWISE.items():
        release = next(one for one in published.figures if one.startswith(relation))
        for cells in _repeated_rows(found[choice], published.figures[release]):
            rows.append((f"{release}, {choice} ({count} repeats)", *cells))
    columns = ("release", "figure", "published", *(_words(model) for model in MODEL_ORDER))
    return say("otherwise") + table(columns, rows)


def _repeated_rows(
    own: Mapping[str, Sequence[Sequence[float]]], published: Sequence[str]
) -> Iterator[tuple[str, ...]]:
    """Yield each figure, as published and as its repeats give it with each model."""
    values = {model: np.array(several) for model, several in own.items()}
    for k, (figure, theirs) in enumerate(zip(FIGURES, published, strict=True)):
        cells = [_cell(values[model][:, k], float(theirs)) for model in MODEL_ORDER]
        yield (figure, theirs, *cells)


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
    """Return which configurations each rule chooses from pilots, by draws and words."""
    if name != "text-unigram":
        return ""
    draws = {"the paper's": read(run, TEXT_ROLES), "ours": read(run, TEXT_OWN_ROLES)}
    rows = [
        (RULE_WORDS[rule] + (", as registered" if rule == registered else ""), drawn,
         _ties(how), *(found[how][rule][role] for role in ("high", "moderate", "degraded")))
        for rule in RULES
        for drawn, found in draws.items()
        for how in found
    ]  # fmt: skip
    columns = ("moderate role", "draws", "tied words", "high", "moderate", "degraded")
    return say("roles_by_rule") + table(columns, rows)


def degraded_by_order(run: Run, name: str, margins: Mapping[str, Any]) -> str:
    """Return what decides the degraded role of CDC: its pilots in the paper's order, and more."""
    if name != "cdc-neural":
        return ""
    found = read(run, CDC_ROLES)
    own = {one: float(np.quantile(values, 0.9)) for one, values in margins.items()}
    sides = (found["quantiles"], own)
    chosen = Counter(found["others"])
    rows = [
        (one, *(f"{side[one]:.4f} ({_rank(side, one)})" for side in sides), chosen[one])
        for one in own
    ]
    roles = ", ".join(f"{one} {role}" for role, one in found["roles"].items())
    columns = ("configuration", "paper's order", "here", f"degraded in {SETS} further sets")
    return say("degraded_by_order", roles=roles, sets=SETS) + table(columns, rows)


def _rank(values: Mapping[str, float], one: str) -> int:
    return sorted(values.values()).index(values[one]) + 1


def _ties(how: str) -> str:
    words = {"AVX2": "AVX2, with the published limits", "alphabet": "the alphabet, as here"}
    return words.get(how, how)


def read(run: Run, name: str) -> Any:
    """Return what was stored under this name in the work folder."""
    return json.loads((run.paper.folder.path.parent / name).read_text("utf-8"))
