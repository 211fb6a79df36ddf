"""Figures that the paper prints in its text, beside ours: p-values, steps of bounds, AUC, times.

Then what all audits together say: whether direct mode alone decides any of them, what their claims
are about, and what status the paper and our certificates give each experiment.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from importlib.resources import files
from typing import Any

import numpy as np
from pydantic import ConfigDict, TypeAdapter
from pydantic.dataclasses import dataclass

import proxyguard as pg
from proxyguard.documents.certificate import ClaimStatusRecord
from proxyguard.documents.ledger import Amended, Certified, Frozen, Registered
from reproduction.audits.analyse import (
    NOT_REGISTERED,
    Bounds,
    Run,
    analyse,
    measured,
    with_widest_ramp,
)
from reproduction.audits.published import AUDITS, DIRECT, NAMED, Published
from reproduction.audits.tables import ORDER, Row, Rows, say, table
from reproduction.studies.catalog import STUDIES

VALIDATED, _, VIOLATION = ORDER
SMOOTH = {"mode": "smooth", "bound": "paper"}
MOST_CLAUSES = 2
"""Reasons of a status that the table shows; the certificate has all of them."""


def outer(run: Run, published: Published) -> str:
    """Return the p-values of outer tests that were printed, beside ours."""
    printed = {name: row for name, row in published.rows.items() if row.pvalue}
    if not printed:
        return ""
    found = analyse(run.paper, published.claims[NAMED])
    rows = [
        (name, row.pvalue, _same_digits(_outer_pvalue(found[name], row.verdict), row.pvalue))
        for name, row in printed.items()
    ]
    return say("outer") + table(("mechanism", "published p", "p here"), rows)


def _outer_pvalue(bounds: Bounds, verdict: str) -> float:
    """Return the p-value of the outer test in the direction that the paper decided."""
    lower, upper = bounds.pvalues
    p = upper if verdict == VIOLATION else lower
    assert p is not None  # named mode has a test of the count in either direction
    return p


def _same_digits(here: float, published: str) -> str:
    """Return a number with as many digits as the published one has.

    >>> _same_digits(0.0012379400392853, "0.00124")
    '0.00124'
    >>> _same_digits(1.0737e-21, "1.07e-21")
    '1.07e-21'
    """
    mantissa, _, exponent = published.partition("e")
    digits = len(mantissa.partition(".")[2])
    return f"{here:.{digits}{'e' if exponent else 'f'}}"


def steps(run: Run, published: Published) -> str:
    """Return the numbers on the way to the direct bound that were printed, beside ours."""
    if not published.steps:
        return ""

    def with_published_limit(requirement: pg.Requirement) -> pg.Requirement:
        return replace(requirement, limit=float(published.limits[requirement.name]))

    claim = published.claims[DIRECT]
    here = analyse(run.paper, claim)
    as_printed = analyse(run.paper, claim, changed=with_published_limit)
    both = (here, as_printed)
    rows = [
        (name, label, theirs, *(_same_digits(one[name].steps[label], theirs) for one in both))
        for name in here
        for label, theirs in published.steps.items()
    ]
    columns = ("mechanism", "number", "published", "here", "here, with the published limits")
    return say("steps") + table(columns, rows)


def ranking(run: Run, published: Published) -> str:
    """Return the AUC of source and releases that was printed, beside ours, or their difference."""
    if published.auc is None and not published.auc_change:
        return ""
    diagnostics = run.paper.certificate().predicate.diagnostics
    assert diagnostics is not None  # of a fixed audit
    (source,) = (diagnostics.source_auc or {}).values()
    releases = [x for own in (diagnostics.auc or {}).values() for x in own.values()]
    mean = float(np.mean([x for x in releases if x is not None]))
    assert source is not None  # both classes are among the target's records
    of, whose = published.auc or ("", ""), f"mean of {len(releases)} releases"
    figures = ("source", of[0], source), (whose, of[1], mean), (
        f"{whose}, less the source's", published.auc_change, mean - source
    )  # fmt: skip
    rows = [
        (who, theirs, _same_digits(own, theirs or "0.000")) for who, theirs, own in figures
        if theirs or who == "source" or not published.auc
    ]  # fmt: skip
    return say("ranking") + table(("AUC on the target", "published", "here"), rows)


def source_model(run: Run, published: Published) -> str:
    """Return what was printed of the source besides its AUC, beside ours."""
    if not published.source:
        return ""
    audit = run.paper
    registry = audit.folder.registry(audit.journal())
    learned = registry.members[registry.declaration.members[0].name].facts.source
    assert learned is not None  # of an audit with a procedure
    (group,) = published.rows
    first = measured(audit, group, "estimate").iloc[0]
    here = {"threshold": float(learned.threshold or "nan")}
    for name in published.source:
        if name != "threshold":  # a release's risk less its regret
            here[name] = float(first[name]) - float(first[name.replace(" risk", " transfer")])
    rows = [
        (name, theirs, _same_digits(here[name], theirs))
        for name, theirs in published.source.items()
    ]
    return say("source") + table(("of the source", "published", "here"), rows)


def smooth(run: Run, published: Published) -> str:
    """Return the smooth certificate of the same evidence, with the widest ramps there are."""
    if not published.smooth:
        return ""
    # The budget and the tests are those of the direct analysis: its score alone is another.
    kept = {name: published.claims[DIRECT][name] for name in ("target_share", "family", "test")}
    found = analyse(run.paper, {**SMOOTH, **kept}, changed=with_widest_ramp)
    rows = [
        (name, f"{bounds.steps['mean ramp score']:.4f}", f"{bounds.steps['kappa_h']:.2g}",
         f"{bounds.steps['radius r_h']:.3f}", f"{bounds.lower:.4f}")
        for name, bounds in found.items()
    ]  # fmt: skip
    columns = ("mechanism", "mean ramp score", "kappa_h", "radius r_h", "at least")
    return say("smooth", mark=NOT_REGISTERED, published=published.smooth) + table(columns, rows)


def published_times(name: str, run: Run) -> Rows:
    """Return the seconds that the paper prints, beside those of our drawing and opening."""
    theirs = AUDITS[name].times
    if theirs is None:
        return ()
    here = (str(_drawing(run.paper)), str(_opening(run.paper)))
    return ((name, theirs.draws, here[0], theirs.target, here[1]),)


def _drawing(audit: pg.Audit) -> int:
    """Return the seconds from the last registration to the frozen releases."""
    ledger = audit.journal().ledger
    registered = [entry.body.time for entry in (*ledger.find(Registered), *ledger.find(Amended))]
    return _seconds(max(registered), _frozen(audit))


def _opening(audit: pg.Audit) -> int:
    """Return the seconds from the frozen releases to the certificate."""
    (certified,) = audit.journal().ledger.find(Certified)
    return _seconds(_frozen(audit), certified.body.time)


def _frozen(audit: pg.Audit) -> str:
    (drawn,) = audit.journal().ledger.find(Frozen)
    return drawn.body.time


def _seconds(begin: str, end: str) -> int:
    between = datetime.fromisoformat(end) - datetime.fromisoformat(begin)
    return round(between.total_seconds())


def both_modes(name: str, run: Run) -> tuple[BothModes, ...]:
    """Return what both modes decide about each mechanism of an audit.

    With the paper's settings where it has both modes, and with our defaults for all mechanisms.
    """
    published = AUDITS[name]
    return (
        *_both_modes(name, "paper's settings", run.paper, published.claims),
        *_both_modes(name, "our defaults", run.ours, DEFAULTS),
    )


def direct_only(pairs: Sequence[BothModes]) -> str:
    """Return which mechanisms direct mode validates and named mode does not."""
    alone = [pair for pair in pairs if pair.direct == VALIDATED != pair.named]
    shown = [pair for pair in pairs if pair.direct != pair.named]
    words = say(
        "direct_only",
        compared=len(pairs),
        mark=NOT_REGISTERED,
        alone="; ".join(f"{one.audit}, {one.mechanism}, {one.settings}" for one in alone) or "none",
        differing="Where they differ:" if shown else "Both modes decide alike every time.",
    )
    if not shown:
        return words
    rows = [(one.audit, one.mechanism, one.settings, one.named, one.direct) for one in shown]
    columns = ("audit", "mechanism", "settings", "named mode", "direct mode")
    return words + "\n" + table(columns, rows)


DEFAULTS: Mapping[str, Mapping[str, str]] = {NAMED: {"mode": NAMED}, DIRECT: {"mode": DIRECT}}


@dataclass(frozen=True, slots=True, kw_only=True)
class BothModes:
    """What the two modes decide about one mechanism, from the same evidence."""

    audit: str
    mechanism: str
    settings: str
    named: str
    direct: str


def _both_modes(
    name: str, settings: str, audit: pg.Audit | None, claims: Mapping[str, Mapping[str, Any]]
) -> Iterator[BothModes]:
    if audit is None or not {NAMED, DIRECT} <= set(claims) or not AUDITS[name].rows:
        return
    named, direct = (analyse(audit, claims[mode]) for mode in (NAMED, DIRECT))
    for mechanism, bounds in named.items():
        yield BothModes(
            audit=name, mechanism=mechanism, settings=settings, named=bounds.decision,
            direct=direct[mechanism].decision,
        )  # fmt: skip


def about(name: str, run: Run) -> Rows:
    """Return what a certificate says its claim is about: what is redrawn, and what is not."""
    if AUDITS[name].verdicts or AUDITS[name].tallies:
        return ()  # named releases: nothing is averaged over
    predicate = run.paper.certificate().predicate
    alike: dict[tuple[str, str], list[str]] = {}
    for mechanism, redrawn in predicate.redraws.items():
        key = ("; ".join(redrawn), "; ".join(predicate.conditional_on[mechanism]))
        alike.setdefault(key, []).append(mechanism)
    means = "; ".join(dict.fromkeys(predicate.estimand.values()))
    return tuple(
        (name, ", ".join(mechanisms), redrawn, fixed, means)
        for (redrawn, fixed), mechanisms in alike.items()
    )


@dataclass(frozen=True, slots=True, kw_only=True, config=ConfigDict(extra="forbid"))
class Experiment:
    """A row of the paper's table of claims, and what answers to it here."""

    name: str
    evidence: str
    lineage: str
    registered: str
    guarantee: str
    studies: tuple[str, ...] = ()
    audits: tuple[str, ...] = ()
    elsewhere: str = ""  # where it is, if neither a study nor an audit


def read_experiments() -> tuple[Experiment, ...]:
    """Return the rows of claims.toml, in the paper's order."""
    text = files("reproduction.audits").joinpath("claims.toml").read_text(encoding="utf-8")
    rows = tomllib.loads(text)["experiment"]
    return TypeAdapter(tuple[Experiment, ...]).validate_python(rows)


def claim_status(statuses: Mapping[str, Row]) -> str:
    """Return the paper's table of claims, each row beside what our certificates say."""
    rows: list[tuple[str, ...]] = []
    for one in read_experiments():
        printed = (one.evidence, one.lineage, one.registered, one.guarantee)
        rows.append((one.name, "published", *printed))
        rows += [("", here, *cells) for here, cells in _here(one, statuses)]
    columns = ("experiment", "", "evidence", "target lineage", "registered", "guarantee")
    return say("claim_status") + table(columns, rows)


def _here(one: Experiment, statuses: Mapping[str, Row]) -> Iterator[tuple[str, Row]]:
    if one.studies:
        own = [STUDIES[name] for name in one.studies]
        seeds = ", ".join(str(study.seed) for study in own)
        links = ", ".join(f"[{study.name}](reproduction.md#{study.name})" for study in own)
        yield links, ("simulation", f"drawn anew (seeds {seeds})",
                      "the paper's settings; methods of ours are marked",
                      "yes: the law is known, and every error is held to its budget")  # fmt: skip
    for name in one.audits:
        yield f"`{name}`", statuses.get(name, ("not run here", "", "", ""))
    if one.elsewhere:
        yield one.elsewhere, ("described, nothing is certified", "", "", "no")


def shortened(status: ClaimStatusRecord) -> tuple[str, ...]:
    """Return the four columns of a certificate's status, long lists of reasons cut."""
    return tuple(
        _first_clauses(text)
        for text in (status.evidence, status.lineage, status.registered, status.guarantee)
    )


def _first_clauses(text: str) -> str:
    """Return the first reasons of a list, each once, and how many more there are.

    >>> _first_clauses("no: it says: a; b; a; b; c; d")
    'no: it says: a; b; and 2 more'
    """
    clauses: list[str] = []
    for clause in text.split("; "):
        if not any(clause in earlier for earlier in clauses):
            clauses.append(clause)
    more = len(clauses) - MOST_CLAUSES
    cut = "; ".join(clauses[:MOST_CLAUSES])
    return f"{cut}; and {more} more" if more > 0 else cut
