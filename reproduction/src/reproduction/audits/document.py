"""docs/audits.md: the paper's tables, its settings here, and our defaults, side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from scipy.stats import mannwhitneyu

import proxyguard as pg
from proxyguard.documents.certificate import SecondaryBounds
from proxyguard.documents.registry import Facts
from proxyguard.exact.multiplicity import holm_adjusted
from reproduction.audits.analyse import (
    NOT_REGISTERED,
    Comparison,
    Run,
    analyse,
    bounds_of,
    compare,
    other_configurations,
    registered_mode,
    tallied,
    tallies_of,
    tally_pvalue,
    verdicts_of,
)
from reproduction.audits.beside import (
    about,
    claim_status,
    direct_only,
    outer,
    published_times,
    ranking,
    smooth,
    steps,
)
from reproduction.audits.details import bound, history, means, privacy, references, times, withdrawn
from reproduction.audits.experiments import (
    degraded_by_order,
    figures,
    otherwise,
    repeats,
    roles_by_rule,
)
from reproduction.audits.generators import (
    component_violations,
    kept_draws,
    other_workload,
    single_class,
)
from reproduction.audits.published import AUDITS, DIRECT, NAMED, Published
from reproduction.audits.tables import marked, say, share, table, tally
from reproduction.audits.workload import workload

__all__ = ["Run", "document", "section"]

LEVEL = 0.05


def document(runs: Mapping[str, Run], draws: int | None) -> str:
    """Return the whole document for the audits that are finished."""
    found = {name: _compared(name, run) for name, run in runs.items()}
    adjusted = _adjusted([one for several in found.values() for one in several])
    parts = [say("introduction", mark=NOT_REGISTERED), _summary(adjusted), _overview(runs)]
    if draws is not None:
        parts.append(say("shortened", draws=draws))
    left = [name for name in AUDITS if name not in runs]
    if left:
        words = {name: "needs files of the user's own" for name in left if AUDITS[name].joins}
        parts.append(say("not_run", names=", ".join(marked(name, words) for name in left)))
    for name, run in runs.items():
        parts.append(_section(name, run, AUDITS[name], adjusted))
    parts += [
        direct_only(runs),
        about(runs),
        claim_status(runs),
        times(runs),
        published_times(runs),
    ]
    return "\n".join(parts)


def section(name: str, run: Run) -> str:
    """Return one audit's part of the document; its counts are a family of their own here."""
    published = AUDITS[name]
    return _section(name, run, published, _adjusted(_compared(name, run)))


def _compared(name: str, run: Run) -> list[Comparison]:
    published = AUDITS[name]
    besides = (single_class, component_violations)
    return [
        *compare(name, run, published),
        *(c for more in besides for c in more(name, run, published)),
    ]


def _adjusted(found: Sequence[Comparison]) -> dict[Comparison, float]:
    """Return the p-values of these comparisons, adjusted together by Holm's procedure."""
    if not found:
        return {}
    holm = holm_adjusted(np.array([one.pvalue for one in found])).tolist()
    return dict(zip(found, holm, strict=True))


def _summary(adjusted: Mapping[Comparison, float]) -> str:
    differ = [one for one, p in adjusted.items() if p <= LEVEL]
    names = "; ".join(f"{one.audit}, {one.mechanism}, {one.what}" for one in differ)
    return say(
        "summary",
        compared=len(adjusted),
        others=sum(bool(one.other) for one in adjusted),
        level=LEVEL,
        differing=names or "none",
    )


def _overview(runs: Mapping[str, Run]) -> str:
    """Return the verdicts of all audits in one table."""
    rows = []
    for name, run in runs.items():
        published = AUDITS[name]
        theirs = {k: row.verdict for k, row in published.rows.items()} or published.verdicts
        if published.tallies:
            continue
        here, ours = verdicts_of(run.paper), verdicts_of(run.ours)
        others = other_configurations(run.paper, published)
        rows += [
            (name, marked(one, others), theirs.get(one, ""), here[one], ours[one]) for one in here
        ]
    columns = (
        "audit",
        "mechanism or release",
        "published",
        "paper's settings here",
        "our defaults",
    )
    return say("overview") + table(columns, rows)


def _section(
    name: str,
    run: Run,
    published: Published,
    adjusted: Mapping[Comparison, float],
) -> str:
    paper, ours = run.paper, run.ours
    folders = [f"`audits/{audit.folder.path.name}`" for audit in (*run.sealed_only, *run.certified)]
    parts = [
        say("section", title=published.title, name=name, folders=", ".join(folders)),
        _limits(paper, published),
        _roles(paper, published),
        roles_by_rule(run, name, _among(paper)),
        degraded_by_order(run, name, _pilot_margins(paper)) if published.roles else "",
        _counts([one for one in adjusted if one.audit == name], adjusted),
    ]
    if published.rows:
        parts.append(_bounds(paper, ours, published))
        parts += [outer(run, published), steps(run, published), smooth(run, published)]
    elif published.tallies:
        parts.append(_tallies(run, published))
    elif published.verdicts:
        parts.append(_releases(run, published))
    else:
        parts.append(_mechanisms(paper, ours, published))
        parts.append(workload(paper))  # both audits have the same draws
    parts += [other_workload(run, published), kept_draws(run)]
    parts += [figures(run, published), repeats(run, published), otherwise(run, published)]
    parts += [means(paper, published), ranking(run, published), _secondary(paper)]
    parts.append(references(run, published))
    parts += [withdrawn(run, published), privacy(paper), history(run, published)]
    parts += [f"{note}\n" for note in published.notes]
    return "\n".join(part for part in parts if part)


def _limits(audit: pg.Audit, published: Published) -> str:
    registry = audit.folder.registry(audit.journal())
    if not published.limits:
        return ""
    resolved = registry.members[registry.declaration.members[0].name].requirements
    rows = [
        (one.part.name, published.limits[one.part.name], f"{float(one.limit.value):.6g}",
         "" if one.slack is None else one.slack.value)
        for one in resolved if one.part.name in published.limits
    ]  # fmt: skip
    return table(("requirement", "published limit", "limit here", "slack here"), rows)


def _roles(audit: pg.Audit, published: Published) -> str:
    if not published.roles:
        return ""
    registry = audit.folder.registry(audit.journal())
    member = registry.members[registry.declaration.members[0].name]
    rows = [
        (role, theirs, str(member.mechanisms[role].pilot))
        for role, theirs in published.roles.items()
    ]
    words = table(("role", "published configuration", "configuration here"), rows)
    margins = _pilot_margins(audit)
    for role, theirs, here in rows:
        if theirs != here:
            cause = published.causes.get(role, "")
            words += "\n" + _other_role(role, margins, (theirs, here), cause, _among(audit))
    return words


def _among(audit: pg.Audit) -> str:
    """Return among which pilots the registered rule looks for the moderate role."""
    declared = audit.folder.registry(audit.journal()).declaration.roles
    return "" if declared is None else declared.among


RULES = {
    "high": (0, "10 % quantiles"),
    "moderate": (1, "medians"),
    "degraded": (2, "90 % quantiles"),
}
"""What the rule of `choose_roles` compares for a role: one of three quantiles, and in words."""


def _other_role(
    role: str, margins: Mapping[str, Any], chosen: tuple[str, str], cause: str, among: str
) -> str:
    """Return how near two configurations are: the published one, and the one of the pilots."""
    p = mannwhitneyu(*(margins[one] for one in chosen)).pvalue
    ends = {one: np.quantile(margins[one], (0.1, 0.5, 0.9)) for one in chosen}
    quantiles = "; ".join(
        f"{one}: " + ", ".join(f"{value:.4f}" for value in values) for one, values in ends.items()
    )
    which, rule = RULES[role]
    if role == "moderate" and among == "likely":
        rule += ", of configurations with a positive 10 % quantile"
    theirs, here = (f"{values[which]:.4f}" for values in ends.values())
    if not cause:
        cause = say("within_chance") if p > LEVEL else "Cause not found."
    return say(
        "other_role", role=role, pilots=len(margins[chosen[1]]), quantiles=quantiles, rule=rule,
        theirs=theirs, here=here, p=p, cause=cause,
    )  # fmt: skip


def _pilot_margins(audit: pg.Audit) -> dict[str, Any]:
    """Return the smallest margin of every pilot release, by configuration."""
    registry = audit.folder.registry(audit.journal())
    declared = registry.declaration.roles
    member = registry.members[registry.declaration.members[0].name]
    assert isinstance(member.facts, Facts)  # of an audit with pilots
    against = "limit" if declared is None else declared.against
    ends = {
        one.part.name: float(one.limit.value)
        - (float(one.slack.value) if against == "cutoff" and one.slack is not None else 0.0)
        for one in member.requirements
    }
    return {
        pilot: np.array(
            [min(ends[name] - float(mean) for name, mean in one.items())
             for one in facts.means.values()]
        )
        for pilot, facts in member.facts.pilots.items()
    }  # fmt: skip


def _counts(own: Sequence[Comparison], adjusted: Mapping[Comparison, float]) -> str:
    if not own:
        return ""
    rows = [
        (marked(one.mechanism, {one.mechanism: one.other}), one.what,
         share(one.published) + (" (from the bound)" if one.inferred else ""), share(one.here),
         f"{one.pvalue:.3g}", f"{adjusted[one]:.3g}")
        for one in own
    ]  # fmt: skip
    words = table(("mechanism", "count", "published", "here", "p", "Holm"), rows)
    if any(adjusted[one] <= LEVEL for one in own):
        words += say("unexplained")
    return words


def _bounds(paper: pg.Audit, ours: pg.Audit, published: Published) -> str:
    mode = registered_mode(paper)
    others = other_configurations(paper, published)
    blocks = []
    for analysis, choices in published.claims.items():
        found = analyse(paper, choices)
        label = "as registered" if analysis == mode else NOT_REGISTERED
        rows = [
            (marked(mechanism, others), *_published_bounds(row, analysis),
             bound(found[mechanism]), found[mechanism].decision)
            for mechanism, row in published.rows.items()
        ]  # fmt: skip
        heading = say("papers_settings", analysis=analysis, label=label)
        columns = ("mechanism", "published lower", "published upper", "here", "verdict here")
        blocks.append(heading + table(columns, rows))
    blocks.append(_defaults(ours, published))
    return "\n".join(blocks)


def _defaults(audit: pg.Audit, published: Published) -> str:
    """Return what our defaults say.

    Several mechanisms are certified as decisions, by Holm's procedure. The bounds beside them
    are at each mechanism's share of the error, so they would hold together had they been
    registered so.
    """
    rows = []
    theirs = {name: row.verdict for name, row in published.rows.items()}
    others = other_configurations(audit, published)
    for verdict in audit.certificate().verdicts:
        one, mechanism = bounds_of(verdict.to_dict()), verdict.mechanism
        low, high = one.local
        rows.append(
            (marked(mechanism, others), theirs.get(mechanism, ""),
             share((one.count, one.releases)), f"{low:.4f} to {high:.4f}", one.decision)
        )  # fmt: skip
    label = "bounds" if len(rows) == 1 else f"bounds ({NOT_REGISTERED})"
    columns = ("mechanism", "published verdict", "favorable", label, "verdict")
    return say("defaults") + table(columns, rows)


def _published_bounds(row: Any, analysis: str) -> tuple[str, str]:
    lower = {NAMED: row.named, DIRECT: row.direct}.get(analysis)
    upper = row.upper if analysis == NAMED else None
    return ("" if lower is None else f"{lower:g}", "" if upper is None else f"{upper:g}")


def _mechanisms(paper: pg.Audit, ours: pg.Audit, published: Published) -> str:
    rows = []
    for verdict in paper.certificate().verdicts:
        one = bounds_of(verdict.to_dict())
        low, high = one.local
        rows.append((verdict.mechanism, share((one.count, one.releases)),
                     f"{low:.4f} to {high:.4f}", one.decision))  # fmt: skip
    columns = ("mechanism", "recognized", f"bounds ({NOT_REGISTERED})", "verdict")
    return say("papers_tests") + table(columns, rows) + "\n" + _defaults(ours, published)


def _releases(run: Run, published: Published) -> str:
    """Return the verdicts of named releases."""
    here, ours = verdicts_of(run.paper), verdicts_of(run.ours)
    rows = [(name, theirs, here[name], ours[name]) for name, theirs in published.verdicts.items()]
    return table(("release", "published", "paper's settings here", "our defaults"), rows)


def _tallies(run: Run, published: Published) -> str:
    """Return how many releases of each table have which verdict."""
    here, ours = tallies_of(run.paper), tallies_of(run.ours)
    rows = [
        (name, tally(theirs), tally(here[name]),
         f"{tally_pvalue([(tallied(theirs), tallied(here[name]))]):.3g}", tally(ours[name]))
        for name, theirs in published.tallies.items()
    ]  # fmt: skip
    return table(("table", "published", "paper's settings here", "p", "our defaults"), rows)


def _secondary(audit: pg.Audit) -> str:
    registry = audit.folder.registry(audit.journal())
    limits = {
        spec.name: ", ".join(f"{name} {limit}" for name, limit in spec.limits.items())
        for spec in registry.declaration.secondary
    }
    rows = [
        (name, limits[name], mechanism, f"{result.lower:.4f}", result.decision.value)
        for name, spec in audit.certificate().predicate.secondary.items()
        for mechanism, result in spec.results.items()
        if isinstance(result, SecondaryBounds)
    ]
    if not rows:
        return ""
    return say("secondary") + table(
        ("specification", "limits", "mechanism", "lower bound", "would be"), rows
    )
