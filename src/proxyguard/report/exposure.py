"""The exposure of members in a report: attacks as pictures, copies and distances as tables.

What was certified is said by the verdicts; all figures here describe the first releases of a group,
come from the recorded diagnostics and decide nothing. A picture of an attack has the share of
members that it flags over the share of others, with the line that the requirement draws.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite

from proxyguard.documents.certificate import ReportTable
from proxyguard.documents.evidence import AttackFigures, ExposureFigures, JsonNumber
from proxyguard.documents.ledger import Sealed
from proxyguard.registry.exposure import THRESHOLDS, ExposureKind
from proxyguard.registry.parts import RequirementPart
from proxyguard.registry.target import StratifiedDesign
from proxyguard.report.picture import (
    WIDTH,
    Circle,
    Line,
    Mark,
    Picture,
    Point,
    Rect,
    Scale,
    Stroke,
    Writing,
    centred,
    count,
    framed,
    labelled,
    plain,
    ticks,
)
from proxyguard.report.record import lost_guarantee
from proxyguard.report.sources import Sources, table

LEFT, RIGHT, TOP = 44.0, WIDTH - 10.0, 78.0
BOTTOM = TOP + RIGHT - LEFT
# Attacks of one group that have pictures; the table has all.
MOST_ATTACKS = 6
NOT_SHOWN = "not shown"
NOT_VALID = (
    "Tests over synthetic rows are not valid: the rows of a release share one training table. "
    "Copies, identical rows and distances are a census of these releases, and no certificate."
)


def percent(share: float) -> str:
    """Return an estimated share in tenths of points."""
    return f"{100 * share:.1f} %"


def figures_of(sources: Sources) -> dict[str, ExposureFigures]:
    """Return what is on record of every group's exposure, in the order of the verdicts."""
    predicate = sources.predicate
    diagnostics = None if predicate is None else predicate.diagnostics
    shown = {} if diagnostics is None else diagnostics.exposure or {}
    return {name: shown[name] for name in sources.in_order(shown)}


def _part(sources: Sources, attack: AttackFigures) -> RequirementPart | None:
    """Return the requirement that an attack was declared in: with several, it is named behind."""
    parts = sources.exposures
    before = attack.requirement.removesuffix(f": {attack.attack}")
    return parts.get(attack.requirement) or parts.get(before)


def exposure_words(sources: Sources) -> tuple[str, ...]:
    """Return what the section says before its pictures: who counts, and what is not claimed."""
    lines = []
    for body in sources.bodies:
        if isinstance(body, Sealed):
            for name, member in body.members.items():
                if member.copies is not None:
                    whose = f"{name}: " if len(body.members) > 1 else ""
                    lines.append(
                        f"{whose}{member.copies:,} of {member.records:,} target records equal a "
                        "member in all that attacks see. They are no nonmembers and were left out."
                    )
    if any(
        attack.open_alarms is None
        for figures in figures_of(sources).values()
        for attack in figures.attacks
    ):
        lines.append(
            "Without calibration rows there are neither score curves of others nor a comparison "
            "with a release that knows nobody: attacks know the reference rows. Calibration rows "
            "(development.calibration) would show them."
        )
    targets = [declared.target for declared in sources.declared]
    if any(t is not None and isinstance(t.design, StratifiedDesign) for t in targets):
        lines.append(
            "Where something is decided, members are weighted by the registered strata, as target "
            "records are. The shares and curves here are unweighted."
        )
    return (
        *lines,
        "Not claimed: that anybody is safe, or that the data are anonymous. The claim is about "
        "these members, these attacks and releases like these; another attack may find more.",
        "Members are a sample too: without any leak the largest difference over all thresholds is "
        "about 0.6 to 0.9 divided by the square root of the number of members.",
    )


def attack_table(sources: Sources) -> ReportTable:
    """Return the largest gap of every attack, with that of a release that knows nobody."""
    rows = []
    for name, figures in figures_of(sources).items():
        for attack in figures.attacks:
            declared = _part(sources, attack)
            rows.append((
                name, attack.requirement, attack.attack,
                "" if declared is None or declared.exposure is None else declared.exposure.value,
                "" if declared is None else str(declared.limit),
                *_gap_cells(attack.hits, _others(attack)),
                _gap_cells(attack.baseline_hits, attack.baseline_alarms)[-1],
                _whose(attack, "target"),
            ))  # fmt: skip
    return table(
        "What attacks tell",
        ("mechanism", "requirement", "attack", "required of it", "limit", "members flagged",
         "others flagged", "difference", "with a release that knows nobody", "others are"),
        rows,
        f"At that of {THRESHOLDS} thresholds, which members choose, where members and others "
        "differ most, as means over the releases described. A release that knows nobody draws "
        "every column by itself from reference rows.",
        "exposure",
    )  # fmt: skip


def _others(attack: AttackFigures) -> Sequence[JsonNumber] | None:
    """Return the shares of others that are flagged; nothing where none are on record."""
    return attack.open_alarms if attack.alarms is None else attack.alarms


def _whose(attack: AttackFigures, target: str) -> str:
    """Return whose shares these are."""
    if attack.alarms is not None:
        return target
    return NOT_SHOWN if attack.open_alarms is None else "calibration rows"


def _gap_cells(
    hits: Sequence[JsonNumber], alarms: Sequence[JsonNumber] | None
) -> tuple[str, str, str]:
    """Return both shares and their difference, where they differ most."""
    if alarms is None:
        return NOT_SHOWN, NOT_SHOWN, NOT_SHOWN
    hit, alarm = _widest(hits, alarms)
    return f"{hit:.3f}", f"{alarm:.3f}", f"{hit - alarm:+.3f}"


def copy_table(sources: Sources) -> ReportTable:
    """Return copies, identical rows and distances of every group, with the warning."""
    rows = []
    for name, figures in figures_of(sources).items():
        half = list(figures.levels).index(0.5)
        rows.append((
            name, str(len(figures.releases)), f"{figures.copies:,} of {figures.rows:,}",
            percent(figures.copied_members), percent(figures.identical_members),
            percent(figures.identical_others), plain(float(figures.member_distances[half])),
            plain(float(figures.other_distances[half])), figures.open_rows,
        ))  # fmt: skip
    return table(
        "Copies and distances",
        ("mechanism", "releases described", "rows that copy a member", "members with a copy",
         "rows identical to a member", "rows identical to another row",
         "median distance of members", "median distance of others", "others are"),
        rows, NOT_VALID, "exposure",
    )  # fmt: skip


def _widest(hits: Sequence[JsonNumber], alarms: Sequence[JsonNumber]) -> tuple[float, float]:
    """Return both shares where they differ most."""
    pairs = [(float(t), float(f)) for t, f in zip(hits, alarms, strict=True)]
    return max(pairs, key=lambda pair: pair[0] - pair[1])


def exposure_pictures(sources: Sources, name: str) -> list[Picture]:
    """Return the pictures of one group: every attack and its scores, then distances."""
    figures = figures_of(sources)[name]
    verdict = sources.verdict(name)
    # Where no guarantee remains nothing is certified, whatever the verdict says.
    certified = (
        verdict is not None
        and verdict.decision.value == "validated"
        and not lost_guarantee(sources.status, sources.ledger)
    )
    pictures: list[Picture] = []
    drawn: list[tuple[str, Sequence[JsonNumber]]] = []
    for attack in figures.attacks[:MOST_ATTACKS]:
        declared = _part(sources, attack)
        if len(attack.hits) == 1:
            pictures.append(success_picture(attack, declared))
            continue
        if _others(attack) is not None:
            pictures.append(attack_picture(attack, declared, figures, certified=certified))
        # Scores do not depend on what is asked of them, unless it is asked of a group.
        scores = (attack.attack, attack.member_scores)
        if scores in drawn:
            continue
        drawn.append(scores)
        pictures.append(
            curve_picture(
                f"{attack.attack}: scores", figures, attack.member_scores, attack.open_scores,
                "score; higher is taken for a member",
            )
        )  # fmt: skip
    pictures.append(
        curve_picture(
            "Distance to the release", figures, figures.member_distances,
            figures.other_distances, "distance to the nearest row of a release",
        )
    )  # fmt: skip
    return pictures


def attack_picture(
    attack: AttackFigures, declared: RequirementPart | None, figures: ExposureFigures, *,
    certified: bool,
) -> Picture:  # fmt: skip
    """Return the share of members that an attack flags over that of others.

    Parameters
    ----------
    attack
        Its shares, which has some of others.
    declared
        The requirement, which draws a line or a corner; nothing where it is not on record.
    figures
        What the shares are means of.
    certified
        Whether the claim was validated: the region is then shaded.
    """
    x, y = Scale(0.0, 1.0, LEFT, RIGHT), Scale(0.0, 1.0, BOTTOM, TOP)
    others, whose = _others(attack), _whose(attack, "the target's others")
    assert others is not None  # as the caller saw

    def path(alarms: Sequence[JsonNumber], hits: Sequence[JsonNumber]) -> tuple[Point, ...]:
        pairs = [(0.0, 0.0), *((float(f), float(t)) for f, t in zip(alarms, hits, strict=True))]
        return tuple((x(f), y(t)) for f, t in pairs)

    ring: list[Mark] = []
    if attack.threshold_hits is not None and attack.threshold_alarms is not None:
        tip = (
            f"at the registered threshold: {percent(attack.threshold_hits)} of members, "
            f"{percent(attack.threshold_alarms)} of others"
        )
        ring = [Circle(x(attack.threshold_alarms), y(attack.threshold_hits), 5.0, "point", tip)]
    point = "where the ring is" if ring else "at one threshold"
    region, words = _region(declared, x, y, point=point, certified=certified)
    marks: list[Mark] = [*region, *_grid(x, y)]
    if attack.alarms_least is not None and attack.alarms_most is not None:
        near, far = path(attack.alarms_least, attack.hits), path(attack.alarms_most, attack.hits)
        marks.append(Stroke(near + far[::-1], "spread", closed=True))
    known = "no calibration rows for a release that knows nobody"
    nobody = ""
    if attack.baseline_alarms is not None:
        marks.append(Stroke(path(attack.baseline_alarms, attack.baseline_hits), "baseline"))
        base = _widest(attack.baseline_hits, attack.baseline_alarms)
        nobody = f"; with a release that knows nobody {100 * (base[0] - base[1]):+.1f} points"
        known = "dotted: a release that knows nobody"
    marks += [
        Stroke(path(others, attack.hits), "curve"),
        *ring,
        Writing(0.0, 31.0, f"solid: {count(len(figures.releases), 'release')}, mean and range",
                "quiet", size=11.0),
        Writing(0.0, 46.0, known, "quiet", size=11.0),
        Writing(0.0, 61.0, words, "quiet", size=11.0),
        Writing(RIGHT, BOTTOM + 31.0, f"flagged of {whose}", "quiet", "end", 11.0),
        Writing(LEFT + 6.0, TOP + 14.0, "flagged of members", "over", size=11.0),
    ]  # fmt: skip
    hits, alarms = _widest(attack.hits, others)
    says = (
        f"Where they differ most, of {len(attack.hits)} thresholds, {percent(hits)} of the "
        f"members and {percent(alarms)} of {whose} are flagged, "
        f"{100 * (hits - alarms):+.1f} points{nobody}. {words[:1].upper()}{words[1:]}."
    )
    title = f"{attack.requirement}: members against others"
    return framed(title, says, marks, BOTTOM + 40.0, heading=attack.requirement)


def _region(
    declared: RequirementPart | None, x: Scale, y: Scale, *, point: str, certified: bool
) -> tuple[list[Mark], str]:
    """Return where a requirement wants the curve to be, and how it is said.

    ``point`` says where a requirement at one threshold is met.
    """
    if declared is None or declared.exposure is None:
        return [], "no requirement is on record"
    limit = float(str(declared.limit))
    said = "certified" if certified else "required"
    if declared.exposure in (ExposureKind.ADVANTAGE, ExposureKind.EVERYWHERE):
        line = Line(x(0.0), y(limit), x(1.0 - limit), y(1.0), "limit")
        corners = ((0.0, 0.0), (0.0, limit), (1.0 - limit, 1.0), (1.0, 1.0), (1.0, 0.0))
        shade = Stroke(tuple((x(f), y(t)) for f, t in corners), "band", closed=True)
        # At one threshold the claim is about one point, and the band would say more.
        everywhere = declared.exposure is ExposureKind.EVERYWHERE
        where = "" if everywhere else f" {point}"
        words = f"{said}: under the dashed line{where} ({plain(100 * limit)} points)"
        return [*([shade] if certified and everywhere else []), line], words
    if declared.exposure is ExposureKind.TPR and declared.fpr is not None:
        fpr = float(declared.fpr)
        corner = ((0.0, limit), (fpr, limit), (fpr, 1.0))
        words = f"{said}: never inside the dashed corner"
        return [Stroke(tuple((x(f), y(t)) for f, t in corner), "limit")], words
    return [], f"{said}: area under the curve below {plain(limit)}"


def _grid(x: Scale, y: Scale) -> list[Mark]:
    """Return a square of shares, and its diagonal, on which an attack tells nothing."""
    marks: list[Mark] = []
    for share in (0.0, 0.25, 0.5, 0.75, 1.0):
        label = f"{100 * share:.0f} %"
        marks += [
            Line(x(share), TOP, x(share), BOTTOM, "grid"),
            Line(LEFT, y(share), RIGHT, y(share), "grid"),
            Writing(LEFT - 6.0, y(share) + 4.0, label, "quiet", "end", 11.0),
            centred(x(share), label, "quiet", BOTTOM + 16.0, size=11.0),
        ]
    return [*marks, Line(LEFT, BOTTOM, RIGHT, TOP, "axis")]


def curve_picture(
    title: str, figures: ExposureFigures, members: Sequence[JsonNumber],
    others: Sequence[JsonNumber] | None, unit: str,
) -> Picture:  # fmt: skip
    """Return how a number of members and of open rows is spread: the share at or below it.

    Parameters
    ----------
    title
        The picture's heading.
    figures
        Whose levels the quantiles have.
    members, others
        The quantiles of both; of others there may be none.
    unit
        What the number is.
    """
    levels = [float(level) for level in figures.levels]
    both = [
        [float(q) for q in quantiles] for quantiles in (members, others) if quantiles is not None
    ]
    # The outer hundredths of heavy tails would flatten everything between them.
    inner = [q for quantiles in both for q in quantiles[1:-1] if isfinite(q)]
    low, high = (min(inner), max(inner)) if inner else (0.0, 1.0)
    if high <= low:
        low, high = low - 0.5, high + 0.5
    top, bottom = 62.0, 196.0
    x, y = Scale(low, high, LEFT, RIGHT), Scale(0.0, 1.0, bottom, top)
    marks: list[Mark] = []
    for share in (0.0, 0.5, 1.0):
        marks += [
            Line(LEFT, y(share), RIGHT, y(share), "grid"),
            Writing(LEFT - 6.0, y(share) + 4.0, f"{100 * share:.0f} %", "quiet", "end", 11.0),
        ]
    marks += [
        centred(x(tick), plain(tick), "quiet", bottom + 16.0, size=11.0)
        for tick in ticks(low, high)
    ]
    # Members come first, and nobody may come after them.
    for quantiles, kind in zip(both, ("curve", "others"), strict=False):
        points = [
            (x(q), y(level)) for q, level in zip(quantiles, levels, strict=True) if isfinite(q)
        ]
        if len(points) > 1:
            marks.append(Stroke(tuple(points), kind))
    marks += [
        Writing(0.0, 31.0, "solid: members", "quiet", size=11.0),
        Writing(RIGHT, bottom + 31.0, unit, "quiet", "end", 11.0),
    ]
    half = levels.index(0.5)
    says = (
        f"Share of rows at or below a number ({unit}). The median of members is "
        f"{plain(both[0][half])}"
    )
    second = "no calibration rows, whose curve would stand here"
    if others is not None:
        second = f"dashed: {figures.open_rows} rows, which are no members"
        says += f", that of {figures.open_rows} rows {plain(both[1][half])}"
    marks.append(Writing(0.0, 46.0, second, "quiet", size=11.0))
    return framed(title, f"{says}.", marks, bottom + 40.0, heading=title)


def success_picture(attack: AttackFigures, declared: RequirementPart | None) -> Picture:
    """Return how often an attack that succeeds or not does so, for members and for others.

    Parameters
    ----------
    attack
        Its shares.
    declared
        The requirement, where it is on record.
    """
    others = _others(attack)
    rows = [
        ("members", float(attack.hits[0]), "bar"),
        *([] if others is None else [(_whose(attack, "others"), float(others[0]), "bar-2")]),
        ("members, by a release that knows nobody", float(attack.baseline_hits[0]), "loss"),
    ]
    marks: list[Mark] = []
    y = 36.0
    for label, share, kind in rows:
        marks += [
            *labelled(y, label, percent(share)),
            Rect(0.0, y + 6.0, WIDTH, 9.0, "rest"),
            Rect(0.0, y + 6.0, max(WIDTH * share, 1.0), 9.0, kind),
        ]
        y += 34.0
    limit = (
        ""
        if declared is None
        else f"; allowed: less than {plain(100 * float(str(declared.limit)))}"
    )
    told = (
        "no others are on record"
        if others is None
        else f"{100 * (float(attack.hits[0]) - float(others[0])):+.1f} points for members"
    )
    gap = f"{told}{limit}"
    marks.append(Writing(0.0, y, gap, "quiet"))
    listed = "; ".join(f"{label} {percent(share)}" for label, share, _ in rows)
    title = f"{attack.requirement}: how often it is right"
    return framed(title, f"{listed}. {gap}.", marks, y + 8.0, heading=attack.requirement)
