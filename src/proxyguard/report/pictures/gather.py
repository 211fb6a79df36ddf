"""Which pictures an audit's record has: read from the certificate, the evidence and the ledger."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from proxyguard.documents.certificate import (
    BoundRecord,
    MechanismVerdict,
    SequentialVerdict,
    VerdictRecord,
)
from proxyguard.documents.evidence import GroupEvidence
from proxyguard.documents.ledger import Favored
from proxyguard.report.content import Report, Verdict
from proxyguard.report.evidence import budget_parts
from proxyguard.report.health import look_boundary
from proxyguard.report.pictures.picture import Picture
from proxyguard.report.pictures.releases import release_picture
from proxyguard.report.pictures.sequential import sequential_picture
from proxyguard.report.pictures.shares import binding_picture, budget_picture, score_picture
from proxyguard.report.pictures.verdict import interval_picture
from proxyguard.report.pictures.waterfall import waterfall_picture
from proxyguard.report.sources import Sources

BUDGETS = {
    "validation": "Error budget of the lower bounds",
    "violation": "Error budget of the upper bounds",
    "picks": "Error budget of choosing releases",
}

DRAWN = 12
"""Requirements of one mechanism that have a picture of their own."""
AGAINST = ("violating", "releases with a detected")
"""How the labels of counts begin that speak against the claim."""


def interval_of(verdict: Verdict) -> Picture | None:
    """Return the reliability interval of a verdict about a mechanism."""
    if verdict.target is None or verdict.lower is None:
        return None
    return interval_picture(
        verdict.decision.lower(),
        verdict.lower,
        verdict.upper,
        verdict.target,
        certified=verdict.certified,
        together=verdict.together,
    )


def drawn_requirements(report: Report, group: GroupEvidence, name: str) -> list[int]:
    """Return which requirements have a picture: all, or those that bind most releases."""
    binds: dict[str, int] = {}
    for one in report.bindings:
        if one.mechanism == name:
            binds = dict(one.counts)
    places = range(len(group.requirements))
    order = sorted(places, key=lambda j: -binds.get(group.requirements[j], 0))
    return sorted(order[:DRAWN])


def requirement_pictures(group: GroupEvidence, places: Sequence[int]) -> list[Picture]:
    """Return one picture for each of these requirements: all releases against its limit."""
    derived = group.derived
    return [
        release_picture(
            group.requirements[j],
            float(group.limits[j]),
            group.releases,
            [float(row[j]) for row in derived.estimates],
            [float(row[j]) for row in derived.lower],
            [float(row[j]) for row in derived.upper],
        )
        for j in places
    ]


def pictures_of(report: Report, sources: Sources) -> dict[str, list[Picture]]:
    """Return every picture of a report by what it is about, for `figure.to_figure`."""
    intervals = [interval_of(verdict) for verdict in report.verdicts]
    found = {"verdicts": [one for one in intervals if one is not None]}
    for name in sources.group_names:
        group = sources.groups[name]
        found[name] = [
            *requirement_pictures(group, drawn_requirements(report, group, name)),
            *decision_pictures(report, sources, name),
        ]
    return found | {"error budget": budget_pictures(sources)}


def decision_pictures(report: Report, sources: Sources, name: str) -> list[Picture]:
    """Return the path, the bounds, the scores and what binds, for one group of releases."""
    recorded = sources.verdict(name)
    verdict = next((v for v in report.verdicts if v.name == name), None)
    pictures = _sequential(sources, recorded)
    if verdict is not None:
        pictures += waterfalls_of(verdict)
    pictures += _scores(recorded)
    pictures += [
        binding_picture(one.counts)
        for one in report.bindings
        if one.mechanism == name and len(one.counts) > 1
    ]
    return pictures


def waterfalls_of(verdict: Verdict) -> list[Picture]:
    """Return how the bounds of a verdict were built.

    A bound of 0 or 1 says nothing, and neither would its picture beside another one.
    """
    if verdict.target is None:
        return []
    telling = [one for one in verdict.waterfalls if 0.0 < one.steps[-1].after < 1.0]
    return [waterfall_picture(one, verdict.target) for one in telling or verdict.waterfalls[:1]]


def _scores(verdict: VerdictRecord | None) -> list[Picture]:
    """Return how many releases scored for and against the claim, where both were counted."""
    if not isinstance(verdict, MechanismVerdict):
        return []
    lower, upper = _count(verdict.lower), _count(verdict.upper)
    if lower is None:
        return []
    label, favorable, releases = lower
    against = upper[1] if upper is not None and upper[0].startswith(AGAINST) else None
    return [score_picture(favorable, against, releases, label)]


def _count(bound: BoundRecord | None) -> tuple[str, int, int] | None:
    """Return the label and the count that a bound starts from, and the number of releases."""
    steps = [] if bound is None else [(step.label, step.value) for step in bound.steps]
    values = dict(steps)
    if "releases" not in values or not float(steps[0][1]).is_integer():
        return None
    label, count = steps[0]
    return label.split(" (")[0], int(count), int(values["releases"])


def budget_pictures(sources: Sources) -> list[Picture]:
    """Return the error budgets, each as parts of its whole: those of the table."""
    wholes = {
        "validation": sources.levels.alpha,
        "violation": sources.levels.beta,
        "picks": None if sources.picks is None else Fraction(sources.picks.alpha),
    }
    pictures = []
    for budget, parts in budget_parts(sources).items():
        whole = wholes[budget]
        if parts and whole is not None:
            shares = [(f"{name}: {symbol}", share) for name, symbol, _, share in parts]
            pictures.append(budget_picture(BUDGETS[budget], shares, whole))
    return pictures


def _sequential(sources: Sources, verdict: VerdictRecord | None) -> list[Picture]:
    if not isinstance(verdict, SequentialVerdict) or sources.registry is None:
        return []
    bodies = [entry.body for entry in sources.ledger]
    scores = [body.favorable for body in bodies if isinstance(body, Favored)]
    boundary = look_boundary(sources.registry.declaration.claim)
    largest = verdict.largest_number_of_draws
    return [sequential_picture(verdict.decision.value, scores, boundary, largest)]
