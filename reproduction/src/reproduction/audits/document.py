"""docs/audits.md: the paper's tables, its settings here, and our defaults, side by side.

Every audit has a part of it, which is kept beside the declarations when the audit was run, with
what it was run by: the document is made of all parts, so that whoever runs one audit, or lacks what
another needs, loses nothing of the others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import TypeAdapter
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
    BothModes,
    about,
    both_modes,
    claim_status,
    direct_only,
    outer,
    published_times,
    ranking,
    shortened,
    smooth,
    source_model,
    steps,
)
from reproduction.audits.details import (
    bound,
    history,
    made_with,
    means,
    privacy,
    references,
    times,
    withdrawn,
)
from reproduction.audits.experiments import (
    degraded_by_order,
    figures,
    other_seeds,
    otherwise,
    repeats,
    roles_by_rule,
)
from reproduction.audits.generators import (
    component_violations,
    kept_draws,
    not_drawn,
    other_workload,
    single_class,
)
from reproduction.audits.kept import recipes_of
from reproduction.audits.published import AUDITS, DIRECT, NAMED, Published
from reproduction.audits.tables import Row, Rows, marked, say, share, table, tally
from reproduction.audits.workload import workload
from reproduction.files import write_atomic

__all__ = ["PARTS", "Part", "Run", "document", "kept_parts", "part_of", "section", "write_part"]

LEVEL = 0.05
PARTS = Path(__file__).parent / "parts"
"""Where the parts of whole runs are kept."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """What the document says of one audit, but for words that no run changes."""

    made: str
    """Versions and processor, as the certificate says them; empty where a run did not keep them."""
    folders: tuple[str, ...]
    """The audits that were run, and those of which the target was sealed for it."""
    comparisons: tuple[Comparison, ...]
    """The counts that are compared; p-values are adjusted over the whole document."""
    verdicts: Rows
    above: str
    """What its section has above the table of counts."""
    below: str
    """What it has below."""
    modes: tuple[BothModes, ...]
    about: Rows
    status: Row
    times: Row
    published_times: Rows


_PART = TypeAdapter(Part)


def part_of(name: str, run: Run) -> Part:
    """Return the part of an audit that is finished."""
    published = AUDITS[name]
    return Part(
        made=made_with(run),
        folders=tuple(audit.folder.path.name for audit in (*run.sealed_only, *run.certified)),
        comparisons=tuple(_compared(name, run)),
        verdicts=_verdicts(name, run),
        above=_above(name, run, published),
        below=_below(run, published),
        modes=both_modes(name, run),
        about=about(name, run),
        status=shortened(run.paper.certificate().predicate.claim_status),
        times=times(name, run),
        published_times=published_times(name, run),
    )


def write_part(folder: Path, name: str, part: Part) -> None:
    """Keep the part of an audit."""
    folder.mkdir(parents=True, exist_ok=True)
    write_atomic(folder / f"{name}.json", _PART.dump_json(part, indent=1) + b"\n")


def kept_parts(folder: Path) -> dict[str, Part]:
    """Return the parts that are kept, in the order of the audits."""
    paths = {name: folder / f"{name}.json" for name in AUDITS}
    return {
        name: _PART.validate_json(path.read_bytes())
        for name, path in paths.items()
        if path.exists()
    }


def document(parts: Mapping[str, Part], draws: int | None) -> str:
    """Return the whole document of these parts."""
    adjusted = _adjusted([one for part in parts.values() for one in part.comparisons])
    blocks = [say("introduction", mark=NOT_REGISTERED), _summary(adjusted), _overview(parts)]
    if draws is not None:
        blocks.append(say("shortened", draws=draws))
    left = [name for name in AUDITS if name not in parts]
    if left:
        words = {name: _why_left(name) for name in left}
        blocks.append(say("not_run", names=", ".join(marked(name, words) for name in left)))
    blocks += [_section(name, part, adjusted) for name, part in parts.items()]
    return "\n".join([*blocks, *_over_all(parts)])


def _why_left(name: str) -> str:
    """Return why an audit may not have been run: files, draws or a package that it needs."""
    published = AUDITS[name]
    if published.joins:
        return "needs files of the user's own"
    lacking = not_drawn(name)
    if lacking:
        return lacking
    return f"needs {published.needs}" if published.needs else ""


def _over_all(parts: Mapping[str, Part]) -> list[str]:
    """Return the sections that are about all audits together."""
    own = parts.values()
    subjects = ("audit", "mechanisms", "every draw redraws", "conditional on", "means are over")
    clock = ("audit", "paper's settings", "our defaults", "original analysis",
             "draws computed on", "CPU seconds of kept draws")  # fmt: skip
    theirs = ("audit", "published draws", "draws here", "published target", "target here")
    printed = [row for part in own for row in part.published_times]
    return [
        direct_only([pair for part in own for pair in part.modes]),
        say("about") + table(subjects, [row for part in own for row in part.about]),
        claim_status({name: part.status for name, part in parts.items()}),
        say("times") + table(clock, [part.times for part in own]),
        *([say("published_times") + table(theirs, printed)] if printed else []),
    ]


def section(name: str, part: Part) -> str:
    """Return one audit's section of the document; its counts are a family of their own here."""
    return _section(name, part, _adjusted(part.comparisons))


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


def _verdicts(name: str, run: Run) -> Rows:
    """Return an audit's rows of the table of all verdicts; a screen has a table of its own."""
    published = AUDITS[name]
    if published.tallies:
        return ()
    theirs = {k: row.verdict for k, row in published.rows.items()} or published.verdicts
    here, ours = verdicts_of(run.paper), {} if run.ours is None else verdicts_of(run.ours)
    others = other_configurations(run.paper, published)
    return tuple(
        (name, marked(one, others), theirs.get(one, ""), here[one], ours.get(one, ""))
        for one in here
    )


def _overview(parts: Mapping[str, Part]) -> str:
    """Return the verdicts of all audits in one table."""
    rows = [row for part in parts.values() for row in part.verdicts]
    columns = (
        "audit",
        "mechanism or release",
        "published",
        "paper's settings here",
        "our defaults",
    )
    return say("overview") + table(columns, rows)


def _section(name: str, part: Part, adjusted: Mapping[Comparison, float]) -> str:
    published = AUDITS[name]
    run = [folder for folder in part.folders if folder not in published.sealed_only]
    sealed = "".join(f"seals `audits/{folder}` and " for folder in published.sealed_only)
    folders = ", ".join(f"`audits/{folder}`" for folder in run)
    blocks = [
        say("section", title=published.title, name=name, sealed=sealed, folders=folders),
        part.above,
        _counts(part.comparisons, adjusted),
        part.below,
        *(f"{note}\n" for note in published.notes),
        say("made", made=part.made) if part.made else "",
    ]
    return "\n".join(block for block in blocks if block)


def _above(name: str, run: Run, published: Published) -> str:
    paper = run.paper
    blocks = [
        _limits(paper, published),
        _roles(paper, published),
        roles_by_rule(run, name, _among(paper)),
        degraded_by_order(run, name, _pilot_margins(paper)) if published.roles else "",
    ]
    return "\n".join(block for block in blocks if block)


def _below(run: Run, published: Published) -> str:
    paper, ours = run.paper, run.ours
    parts: list[str] = []
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
    parts.append(other_seeds(published))
    parts += [means(paper, published), ranking(run, published), source_model(run, published)]
    parts += [_secondary(paper)]
    parts.append(references(run, published))
    parts += [withdrawn(run, published), privacy(paper), history(run, published)]
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


def _bounds(paper: pg.Audit, ours: pg.Audit | None, published: Published) -> str:
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
    return "\n".join(block for block in blocks if block)


def _defaults(audit: pg.Audit | None, published: Published) -> str:
    """Return what our defaults say, if they were run.

    Several mechanisms are certified as decisions, by Holm's procedure. The bounds beside them
    are at each mechanism's share of the error, so they would hold together had they been
    registered so.
    """
    if audit is None:
        return ""
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
    return say(_how_drawn(audit)) + table(columns, rows)


def _how_drawn(audit: pg.Audit) -> str:
    """Return which paragraph says what our defaults share with the paper's settings."""
    if recipes_of(audit.certificate().name):
        return "defaults_redrawn"
    return "defaults_more" if audit.certificate().name == "rice-tvae-ours" else "defaults"


def _published_bounds(row: Any, analysis: str) -> tuple[str, str]:
    lower = {NAMED: row.named, DIRECT: row.direct}.get(analysis)
    upper = row.upper if analysis == NAMED else None
    return ("" if lower is None else f"{lower:g}", "" if upper is None else f"{upper:g}")


def _mechanisms(paper: pg.Audit, ours: pg.Audit | None, published: Published) -> str:
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
    here, ours = verdicts_of(run.paper), {} if run.ours is None else verdicts_of(run.ours)
    rows = [
        (name, theirs, here[name], ours.get(name, ""))
        for name, theirs in published.verdicts.items()
    ]
    return table(("release", "published", "paper's settings here", "our defaults"), rows)


def _tallies(run: Run, published: Published) -> str:
    """Return how many releases of each table have which verdict."""
    here, ours = tallies_of(run.paper), {} if run.ours is None else tallies_of(run.ours)
    rows = [
        (name, tally(theirs), tally(here[name]),
         f"{tally_pvalue([(tallied(theirs), tallied(here[name]))]):.3g}", tally(ours.get(name, {})))
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
