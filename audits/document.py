"""docs/audits.md: the paper's tables, its settings here, and our defaults, side by side."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import Any

import numpy as np
from analyse import (
    NOT_REGISTERED,
    Bounds,
    Comparison,
    analyse,
    bounds_of,
    compare,
    registered_mode,
)
from published import AUDITS, DIRECT, NAMED, Published

import proxyguard as pg
from proxyguard.exact.multiplicity import holm_adjusted
from proxyguard.seal.ledger import Stage

LEVEL = 0.05
Pairs = Mapping[str, tuple[pg.Audit, pg.Audit]]

INTRODUCTION = """# The paper's real-data audits

Written by `python audits/reproduce.py`; the declarations are in `audits/`. Every audit ran twice on
the same draws, sealed and registered each time: with the paper's settings, and with our defaults.
The seeds are the published ones, the random streams behind them are not, so counts agree as two
samples do and not digit by digit. All tables are public and were audited before: every certificate
says that no prospective guarantee remains.

A published count is compared with ours by Fisher's two-sided test, adjusted by Holm's procedure
over all counts in this document. Bounds follow from counts exactly and are not tested again.
"""


def document(pairs: Pairs, draws: int | None) -> str:
    """Return the whole document for the audits that are finished."""
    found = {name: compare(name, paper, AUDITS[name]) for name, (paper, _) in pairs.items()}
    flat = [one for several in found.values() for one in several]
    adjusted = dict(
        zip(flat, holm_adjusted(np.array([one.pvalue for one in flat])).tolist(), strict=True)
    )
    parts = [INTRODUCTION, _summary(adjusted)]
    if draws is not None:
        parts.append(f"This run was shortened to at most {draws} draws a mechanism.\n")
    left = [name for name in AUDITS if name not in pairs]
    if left:
        parts.append(f"Not run here: {', '.join(left)}.\n")
    for name, (paper, ours) in pairs.items():
        parts.append(_section(name, paper, ours, AUDITS[name], adjusted))
    return "\n".join(parts)


def _summary(adjusted: Mapping[Comparison, float]) -> str:
    differ = [one for one, p in adjusted.items() if p <= LEVEL]
    words = (
        "; ".join(f"{one.audit}, {one.mechanism}, {one.what}" for one in differ)
        if differ
        else "none"
    )
    return f"{len(adjusted)} counts compared; those that differ at {LEVEL:g}: {words}.\n"


def _section(
    name: str,
    paper: pg.Audit,
    ours: pg.Audit,
    published: Published,
    adjusted: Mapping[Comparison, float],
) -> str:
    parts = [
        f"## {published.title}\n",
        f"`python audits/reproduce.py {name}` runs `audits/{name}` and `audits/{name}-ours`.\n",
        _limits(paper, published),
        _roles(paper, published),
        _counts([one for one in adjusted if one.audit == name], adjusted),
    ]
    if published.rows:
        parts.append(_bounds(paper, ours, published))
    elif paper.certificate()["level"] == "releases":
        parts.append(_releases(paper, ours, published))
    else:
        parts.append(_mechanisms(paper, ours))
    parts += [_secondary(paper), _references(paper), _history(paper, ours)]
    parts += [f"{note}\n" for note in published.notes]
    return "\n".join(part for part in parts if part)


def _limits(audit: pg.Audit, published: Published) -> str:
    registry = audit.folder.registry(audit.journal())
    if len(registry.declaration.members) > 1 or not published.limits:
        return ""
    resolved = registry.member(registry.declaration.members[0].name)["requirements"]
    rows = [
        (one["part"]["name"], published.limits[one["part"]["name"]],
         f"{float(one['limit']['value']):.6g}",
         "" if one["slack"] is None else one["slack"]["value"])
        for one in resolved if one["part"]["name"] in published.limits
    ]  # fmt: skip
    return _table(("requirement", "published limit", "limit here", "slack"), rows)


def _roles(audit: pg.Audit, published: Published) -> str:
    if not published.roles:
        return ""
    registry = audit.folder.registry(audit.journal())
    mechanisms = registry.member(registry.declaration.members[0].name)["mechanisms"]
    rows = [(role, theirs, mechanisms[role]["pilot"]) for role, theirs in published.roles.items()]
    words = _table(("role", "published configuration", "configuration here"), rows)
    other = [role for role, theirs, here in rows if theirs != here]
    if other:
        words += (
            f"\nThe pilots chose another configuration for {', '.join(other)}: counts of that role "
            "are of another mechanism than the published ones.\n"
        )
    return words


def _counts(own: Sequence[Comparison], adjusted: Mapping[Comparison, float]) -> str:
    if not own:
        return ""
    rows = [
        (one.mechanism, one.what, _share(one.published), _share(one.here),
         f"{one.pvalue:.3g}", f"{adjusted[one]:.3g}")
        for one in own
    ]  # fmt: skip
    words = _table(("mechanism", "count", "published", "here", "p", "Holm"), rows)
    if any(adjusted[one] <= LEVEL for one in own):
        words += "\nWhere a count differs and no reason is given below: cause not found.\n"
    return words


def _bounds(paper: pg.Audit, ours: pg.Audit, published: Published) -> str:
    mode = registered_mode(paper)
    blocks = []
    for analysis, choices in published.claims.items():
        found = analyse(paper, choices)
        label = "as registered" if analysis == mode else NOT_REGISTERED
        rows = [
            (mechanism, *_published_bounds(row, analysis), _bound(found[mechanism]),
             found[mechanism].decision)
            for mechanism, row in published.rows.items()
        ]  # fmt: skip
        heading = f"Paper's settings, {analysis} ({label}):\n\n"
        columns = ("mechanism", "published lower", "published upper", "here", "verdict here")
        blocks.append(heading + _table(columns, rows))
    blocks.append(_defaults(ours, {name: row.verdict for name, row in published.rows.items()}))
    return "\n".join(blocks)


def _defaults(audit: pg.Audit, published: Mapping[str, str]) -> str:
    """Return what our defaults say.

    Several mechanisms are certified as decisions, by Holm's procedure. The bounds beside them
    are at each mechanism's share of the error, so they would hold together had they been
    registered so.
    """
    rows = []
    for verdict in audit.certificate()["verdicts"]:
        one = bounds_of(verdict)
        low, high = one.local
        rows.append(
            (verdict["mechanism"], published.get(verdict["mechanism"], ""),
             f"{one.count} of {one.releases}", f"{low:.4f} to {high:.4f}", one.decision)
        )  # fmt: skip
    label = "bounds" if len(rows) == 1 else f"bounds ({NOT_REGISTERED})"
    columns = ("mechanism", "published verdict", "favorable", label, "verdict")
    return "Our defaults, registered, on the same draws:\n\n" + _table(columns, rows)


def _published_bounds(row: Any, analysis: str) -> tuple[str, str]:
    lower = {NAMED: row.named, DIRECT: row.direct}.get(analysis)
    upper = row.upper if analysis == NAMED else None
    return ("" if lower is None else f"{lower:g}", "" if upper is None else f"{upper:g}")


def _bound(one: Bounds) -> str:
    upper = "" if one.upper >= 1.0 else f", at most {one.upper:.4f}"
    return f"{one.count} of {one.releases}, at least {one.lower:.4f}{upper}"


def _mechanisms(paper: pg.Audit, ours: pg.Audit) -> str:
    rows = []
    for verdict in paper.certificate()["verdicts"]:
        one = bounds_of(verdict)
        low, high = one.local
        rows.append((verdict["mechanism"], f"{one.count} of {one.releases}",
                     f"{low:.4f} to {high:.4f}", one.decision))  # fmt: skip
    columns = ("mechanism", "recognized", f"bounds ({NOT_REGISTERED})", "verdict")
    return "Paper's settings:\n\n" + _table(columns, rows) + "\n" + _defaults(ours, {})


def _releases(paper: pg.Audit, ours: pg.Audit, published: Published) -> str:
    """Return the verdicts of named releases, or how many of each a table has."""
    several = not any("/" in name for name in published.verdicts)
    found = [_verdicts(audit, several) for audit in (paper, ours)]
    rows = [
        (name, theirs, found[0].get(name, ""), found[1].get(name, ""))
        for name, theirs in published.verdicts.items()
    ]
    return _table(("release", "published", "paper's settings here", "our defaults"), rows)


def _verdicts(audit: pg.Audit, several: bool) -> dict[str, str]:
    verdicts = audit.certificate()["verdicts"]
    if not several:
        return {v["mechanism"]: v["decision"] for v in verdicts}
    return {
        member: _tally(v["decision"] for v in own)
        for member, own in groupby(verdicts, key=lambda v: v["member"])
    }


def _tally(decisions: Iterable[str]) -> str:
    counts = Counter(decisions)
    order = ("validated", "unresolved", "violation")
    return ", ".join(f"{counts[one]} {one}" for one in order if counts[one])


def _secondary(audit: pg.Audit) -> str:
    rows = [
        (name, mechanism, f"{one['lower']:.4f}", one["decision"])
        for name, spec in audit.certificate()["secondary"].items()
        for mechanism, one in spec["results"].items()
    ]
    if not rows:
        return ""
    return "Secondary limits, which decide nothing:\n\n" + _table(
        ("specification", "mechanism", "lower bound", "would be"), rows
    )


def _references(audit: pg.Audit) -> str:
    """Return the validation risks of the source and of policies that learn nothing."""
    registry = audit.folder.registry(audit.journal())
    if len(registry.declaration.members) > 1:
        return ""
    facts = registry.member(registry.declaration.members[0].name)["facts"]
    if not facts["references"] or registry.declaration.pilot:
        return ""
    names = [part.name for part in registry.declaration.requirement if part.form == "absolute"]
    policies = {"source": facts["risks"], **facts["references"]}
    rows = [
        (policy, *(f"{float(risks[name]):.3f}" for name in names))
        for policy, risks in policies.items()
    ]
    if not names:
        return ""
    return "Validation risks beside policies that learn nothing:\n\n" + _table(
        ("policy", *names), rows
    )


def _history(paper: pg.Audit, ours: pg.Audit) -> str:
    """Return amendments, and how many target records earlier audits had met."""
    amended = [
        f"Amended before opening: {entry.body['reason']}.\n"
        for entry in paper.journal().ledger.find(Stage.AMENDED)
    ]
    rows = [row for audit in (paper, ours) for row in _lineage(audit)]
    if not rows:
        return "\n".join(amended)
    words = "Lineage: target records that earlier audits of this work folder had met.\n\n"
    table = _table(("target of", "records were in", "of", "records"), rows)
    return "\n".join([*amended, words + table])


def _lineage(audit: pg.Audit) -> list[tuple[str, str, str, int]]:
    """Return the records shared with each part of each other audit, candidates together."""
    opened = audit.journal().ledger.find(Stage.OPENED)[0].body["lineage"]
    shared: Counter[tuple[str, str]] = Counter()
    for one in opened:
        if not one["same_audit"]:
            shared[one["role"], one["audit"]] += one["shared"]
    name = audit.certificate()["name"]
    return [(name, role, other, n) for (role, other), n in shared.items() if n]


def _share(counted: tuple[int, int]) -> str:
    return f"{counted[0]} of {counted[1]}"


def _table(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    lines = [columns, ["---"] * len(columns), *rows]
    return "".join("| " + " | ".join(str(cell) for cell in line) + " |\n" for line in lines)
