"""What an audit shows besides counts and bounds: means, references, lineage, privacy, times."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

import proxyguard as pg
from proxyguard.audit.folder import RELEASES
from proxyguard.documents.ledger import Amended, Certified, Corrected, Deviated, Opened, Overlap
from proxyguard.documents.registry import Facts, ResolvedRequirement
from proxyguard.documents.releases import ReleaseManifest
from reproduction.audits.analyse import (
    Bounds,
    Run,
    certified_bounds,
    corrected_bounds,
    measured,
    other_configurations,
    simultaneous_upper,
)
from reproduction.audits.experiments import TAIWAN_POLICIES, read
from reproduction.audits.kept import KEPT, manifest_of, recipes_of
from reproduction.audits.published import Published
from reproduction.audits.tables import Row, marked, say, share, table

FIRST = "taiwan-pilot"  # the audit whose parts the published lineage is about
ROLES = ("training", "validation", "target")
DEVICE, PROCESSOR = "device", "processor"
"""Facts of a draw in releases.json, where its generator says them."""
SHOWN = ("proxyguard", "python", "numpy", "scipy", "scikit-learn", "torch")
"""What a part of the document says that it was made with, where its certificate knows it."""


def means(audit: pg.Audit, published: Published) -> str:
    """Return the published means of requirements beside ours."""
    if not published.means:
        return ""
    (group,) = published.rows
    estimates = measured(audit, group, "estimate")
    spans = any(one.span for one in published.means.values())
    upper = estimates if spans else simultaneous_upper(audit, group)
    rows = []
    for name, one in published.means.items():
        digits = len(one.mean.split(".")[1])
        own = estimates[name]
        here = f"{own.min():.{digits}f} to {own.max():.{digits}f}"
        here = here if spans else f"{upper[name].max():.4f}"
        rows.append((name, one.mean, f"{own.mean():.4f}", one.span or one.upper, here))
    what = "range of releases" if spans else "largest upper bound"
    beside = ", and the largest upper bound of a release, all of them simultaneous"
    columns = ("requirement", "published mean", "mean here", f"published {what}", f"{what} here")
    return say("means", beside="" if spans else beside) + table(columns, rows)


def references(run: Run, published: Published) -> str:
    """Return the risks of the source and of policies that learn nothing."""
    if not published.references:
        return ""
    audit = run.paper
    registry = audit.folder.registry(audit.journal())
    facts = registry.members[registry.declaration.members[0].name].facts
    assert isinstance(facts, Facts)  # of an audit with a procedure
    policies = {"source": facts.risks, **facts.references}
    absolute = [part.name for part in registry.declaration.requirement if part.form == "absolute"]
    (group,) = published.rows
    on_target = {"source": _source_risks(audit, group, absolute), **read(run, TAIWAN_POLICIES)}
    rows = []
    for policy, theirs in published.references.items():
        own = [f"{float(policies[policy][name]):.3f}" for name in absolute]
        target = [f"{x:.3f}" for x in on_target[policy]]
        rows.append((policy, ", ".join(theirs), ", ".join(target), ", ".join(own)))
    columns = ("policy", "published, on the target", "here, on the target", "here, on validation")
    risks = say("references", absolute=", ".join(absolute)) + table(columns, rows)
    limits = {one.part.name: float(one.limit.value) for one in _requirements(run.paper)}
    printed = {policy: [float(x) for x in own] for policy, own in published.references.items()}
    broken = [
        (policy, *(broken_limits(side, policy, absolute, limits) for side in (printed, on_target)))
        for policy in published.references
    ]
    heads = ("policy", "limits it breaks, published risks", "limits it breaks, risks here")
    return risks + "\n" + say("trivial") + table(heads, broken)


def broken_limits(
    risks: Mapping[str, Sequence[float]],
    policy: str,
    absolute: Sequence[str],
    limits: Mapping[str, float],
) -> str:
    """Return which limits a policy's risks are above, absolute ones and those beside the source.

    >>> limits = {"Brier risk": 0.18, "Brier transfer": 0.04}
    >>> risks = {"source": [0.135], "constant": [0.25], "prevalence": [0.172]}
    >>> broken_limits(risks, "constant", ["Brier risk"], limits)
    'Brier risk, Brier transfer'
    >>> broken_limits(risks, "prevalence", ["Brier risk"], limits)
    'none'
    """
    own, source = risks[policy], risks["source"]
    regrets = [name.replace(" risk", " transfer") for name in absolute]
    reached = [
        *zip(absolute, own, strict=True),
        *zip(regrets, (a - b for a, b in zip(own, source, strict=True)), strict=True),
    ]
    return ", ".join(name for name, risk in reached if risk > limits[name]) or "none"


def _requirements(audit: pg.Audit) -> Sequence[ResolvedRequirement]:
    registry = audit.folder.registry(audit.journal())
    return registry.members[registry.declaration.members[0].name].requirements


def _source_risks(audit: pg.Audit, group: str, absolute: list[str]) -> list[float]:
    """Return the source's risks on the target: a release's risk less its regret."""
    first = measured(audit, group, "estimate").iloc[0]
    return [
        float(first[name]) - float(first[name.replace(" risk", " transfer")]) for name in absolute
    ]


def withdrawn(run: Run, published: Published) -> str:
    """Return a withdrawn analysis, its deviation and its correction."""
    if run.original is None:
        return ""
    ledger = run.original.journal().ledger
    name = run.original.certificate().name
    (deviation,), (correction,) = ledger.find(Deviated), ledger.find(Corrected)
    before, after = certified_bounds(run.original), corrected_bounds(run.original)
    others = other_configurations(run.original, published)
    rows = []
    for mechanism, row in published.rows.items():
        theirs = (published.original or {}).get(mechanism)
        rows.append(
            (marked(mechanism, others), "" if theirs is None else f"{theirs[1]:g}",
             _decided(before[mechanism]), _decided(after[mechanism]),
             "" if row.named is None else f"{row.named:g}")
        )  # fmt: skip
    columns = ("mechanism", "published original", "original certificate here",
               "corrective certificate here", "published correction")  # fmt: skip
    words = say(
        "withdrawn", name=name, deviation=deviation.body.reason, correction=correction.body.reason
    )
    return words + say("correction") + table(columns, rows)


def _decided(one: Bounds) -> str:
    return f"{bound(one)}: {one.decision}"


def bound(one: Bounds) -> str:
    """Return a count with its lower bound, and its upper one where it says something."""
    upper = "" if one.upper >= 1.0 else f", at most {one.upper:.4f}"
    return f"{share((one.count, one.releases))}, at least {one.lower:.4f}{upper}"


def privacy(audit: pg.Audit) -> str:
    """Return the privacy statements of the certificate."""
    found = audit.certificate().predicate.privacy or {}
    return "\n".join(
        say("privacy", mechanism=mechanism) + "".join(f"- {line}\n" for line in lines)
        for mechanism, lines in found.items()
    )


def history(run: Run, published: Published) -> str:
    """Return amendments, and how many target records earlier audits had met."""
    amended = [
        say("amended", reason=entry.body.reason)
        for entry in run.paper.journal().ledger.find(Amended)
    ]
    rows = [row for audit in run.certified for row in _met(audit)]
    if rows:
        amended.append(
            say("lineage")
            + table(
                ("target of", "records were in", "of", "records", "other twins", "by coincidence"),
                rows,
            )
        )
    if published.lineage:
        amended.append(_published_lineage(run, published))
    return "\n".join(amended)


def _published_lineage(run: Run, published: Published) -> str:
    """Return the paper's lineage table beside what the lineage store says."""
    audits = {audit.folder.path.name: audit for audit in (*run.sealed_only, run.paper)}
    rows = []
    for name, theirs in published.lineage.items():
        found = {one.role: one.shared for one in _overlaps(audits[name]) if one.audit == FIRST}
        rows += [
            (name, f"{role} of {FIRST}", count, found.get(role, 0))
            for role, count in zip(ROLES, theirs, strict=True)
        ]
    columns = ("target of", "records were in", "published", "here")
    return say("published_lineage") + table(columns, rows)


def _overlaps(audit: pg.Audit) -> Sequence[Overlap]:
    """Return how the target met other audits: as its opening recorded it, or as it is known."""
    journal = audit.journal()
    for opened in journal.ledger.find(Opened):
        return opened.body.lineage
    return audit.home.lineage.overlaps(journal.ledger.sealed.audit, {})


def _met(audit: pg.Audit) -> list[tuple[str, str, str, int, int, str]]:
    """Return what a target shares with each part of each other audit, candidates together.

    Parts that share no record and have no more twins than coincidence gives are left out.
    """
    found: dict[tuple[str, str], list[Overlap]] = {}
    for one in _overlaps(audit):
        if not one.same_audit:
            found.setdefault((one.role, one.audit), []).append(one)
    name = audit.certificate().name
    rows = []
    for (role, other), parts in found.items():
        shared = sum(one.shared for one in parts)
        twins = sum(one.twins - one.shared for one in parts)
        expected = sum(float(one.expected_twins) for one in parts)
        if shared or any(one.excess for one in parts):
            rows.append((name, role, other, shared, twins, f"{expected:.1f}" if twins else ""))
    return rows


def times(name: str, run: Run) -> Row:
    """Return how long an audit took from its seal to its certificate, and where draws were made."""
    clock = (_seconds(audit) for audit in (run.paper, run.ours, run.original))
    kept = (draw_seconds(audit.certificate().name) for audit in run.certified)
    words = ", ".join(f"{one:.0f}" for one in kept if one is not None)
    return name, *clock, computed_on(run), words


def draw_seconds(name: str) -> float | None:
    """Return the seconds of processor time that the kept draws of an audit took, if it has any."""
    found = [manifest_of(KEPT / recipe.folder) for recipe in recipes_of(name)]
    made = [draw.seconds for manifest in found if manifest is not None for draw in manifest.draws]
    return sum(made) if made else None


def computed_on(run: Run) -> str:
    """Return the processors that draws say they were computed on, where they say one."""
    told: dict[str, None] = {}
    for audit in run.certified:
        manifest = audit.folder.document(ReleaseManifest, RELEASES)
        for groups in manifest.members.values():
            for group in groups.values():
                for draw in group.draws:
                    facts = getattr(draw, "computed", None) or {}
                    if DEVICE in facts:
                        told[f"{facts.get(PROCESSOR, '')} ({facts[DEVICE]})".strip()] = None
    return ", ".join(told)


def made_with(run: Run) -> str:
    """Return the versions that made an audit, as its certificate says them, and its processor."""
    software = run.paper.certificate().predicate.software
    versions = ", ".join(f"{name} {software[name]}" for name in SHOWN if name in software)
    on = computed_on(run)
    return versions + (f"; draws computed on {on}" if on else "")


def _seconds(audit: pg.Audit | None) -> str:
    if audit is None:
        return ""
    ledger = audit.journal().ledger
    begin, end = (
        datetime.fromisoformat(body.time)
        for body in (ledger.sealed, ledger.find(Certified)[0].body)
    )
    return f"{(end - begin).total_seconds():.0f}"
