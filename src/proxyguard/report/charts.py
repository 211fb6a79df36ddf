"""The verdict's sign, and the reliability interval against its target.

How a bound is built, step by step, against the target it must pass.

The path of a sequential audit: favorable scores so far against the registered boundary.

Bars that share a whole: which requirement binds, how releases scored, who pays for what.

All releases of one mechanism against one requirement's limit.

Which pictures an audit's record has: read from the certificate, the evidence and the ledger.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from proxyguard.certificate.wording import at_least, at_most, percent
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
from proxyguard.report.picture import (
    WIDTH,
    Circle,
    Line,
    Mark,
    Picture,
    Rect,
    Scale,
    Stroke,
    Text,
    centred,
    count,
    plain,
    shorten,
    text_width,
    ticks,
)
from proxyguard.report.record import look_boundary
from proxyguard.report.sources import Sources, Waterfall, range_words

WORDS = {"validated": "Validated", "unresolved": "Unresolved", "violation": "Violation"}


def sign(decision: str, x: float, y: float, r: float) -> list[Mark]:
    """Return a check in a disc, a half-filled ring, or a cross in a square: no colour needed."""
    if decision == "validated":
        check = ((x - 0.45 * r, y), (x - 0.12 * r, y + 0.36 * r), (x + 0.48 * r, y - 0.36 * r))
        return [Circle(x, y, r, "validated"), Stroke(check, "sign")]
    if decision == "violation":
        arm, side = 0.42 * r, 0.92 * r
        return [
            Rect(x - side, y - side, 2 * side, 2 * side, "violation"),
            Line(x - arm, y - arm, x + arm, y + arm, "sign"),
            Line(x - arm, y + arm, x + arm, y - arm, "sign"),
        ]
    ring = r - 1.0
    half = tuple((x + ring * dx, y + ring * dy) for dx, dy in _HALF_CIRCLE)
    return [Circle(x, y, ring, "unresolved-ring"), Stroke(half, "unresolved", closed=True)]


# Eighths of the left half of a circle; trigonometry's last digit differs between machines.
_HALF_CIRCLE = (
    (0.0, 1.0), (-0.195, 0.981), (-0.383, 0.924), (-0.556, 0.831), (-0.707, 0.707),
    (-0.831, 0.556), (-0.924, 0.383), (-0.981, 0.195), (-1.0, 0.0), (-0.981, -0.195),
    (-0.924, -0.383), (-0.831, -0.556), (-0.707, -0.707), (-0.556, -0.831), (-0.383, -0.924),
    (-0.195, -0.981), (0.0, -1.0),
)  # fmt: skip


def verdict_icon(decision: str) -> Picture:
    """Return the sign alone, to stand beside its word."""
    marks = tuple(sign(decision, 12.0, 12.0, 11.0))
    return Picture(width=24, height=24, title=WORDS[decision], says="", marks=marks)


def interval_picture(
    decision: str, lower: float, upper: float | None, target: float, *, certified: bool = True,
    together: str = "",
) -> Picture:  # fmt: skip
    """Return the reliability interval on a scale from 0 to 100 % with the target across it.

    ``certified`` is false where the family's decisions are certified and the bounds are for
    reading; the interval is then an outline. ``together`` says how sure both ends are.
    """
    top = 1.0 if upper is None else upper
    interval = range_words(lower, top, decision=decision, target=target)
    known = f"{interval}{'' if certified else ', for reading'}"
    at = Scale(0.0, 1.0, 14.0, WIDTH - 14.0)
    y = 38.0
    left, right = at(lower), at(max(lower, top))
    kind = decision if certified else f"{decision}-reading"
    marks: list[Mark] = [
        centred((left + right) / 2, known, "strong", 16.0, size=13.0),
        Line(at(0.0), y, at(1.0), y, "axis"),
        *(Line(at(v), y - 4, at(v), y + 4, "axis") for v in (0.0, 0.25, 0.5, 0.75, 1.0)),
        Rect(left, y - 5, max(right - left, 2.0), 10.0, kind),
        Line(at(target), y - 14, at(target), y + 17, "target"),
        *sign(decision, _decisive(decision, left, right), y, 10.0),
    ]
    marks += _scale_words(at, target, y + 32.0)
    says = (
        f"{WORDS[decision]}: the share of valid releases is {interval}"
        f"{'' if certified else ' (bounds for reading, not certified by themselves)'}; "
        f"required is more than {percent(target)}.{f' {together}' if together else ''}"
    )
    return Picture(
        width=WIDTH, height=80, title="Reliability against its target", says=says,
        marks=tuple(marks),
    )  # fmt: skip


def _decisive(decision: str, left: float, right: float) -> float:
    """Return where the sign stands: at the end that decided, or between both."""
    place = {"validated": left, "violation": right}.get(decision, (left + right) / 2)
    return min(WIDTH - 14.0, max(14.0, place))


def _scale_words(at: Scale, target: float, y: float) -> list[Mark]:
    """Return the target's label and those ends of the scale that it leaves room for."""
    label = centred(at(target), f"required: more than {percent(target)}", "strong", y, size=12.0)
    wide = text_width(label.text, label.size)
    shift = {"start": 0.0, "middle": wide / 2, "end": wide}[label.anchor]
    left, right = label.x - shift, label.x - shift + wide
    marks: list[Mark] = [label]
    if left > text_width("0 %", 12.0) + 10.0:
        marks.append(Text(2.0, y, "0 %", "quiet"))
    if right < WIDTH - text_width("100 %", 12.0) - 10.0:
        marks.append(Text(WIDTH - 2.0, y, "100 %", "quiet", "end"))
    return marks


def waterfall_picture(waterfall: Waterfall, target: float) -> Picture:
    """Return the way from the counted share to the bound, one row a step."""
    at = Scale(0.0, 1.0, 0.0, WIDTH)
    upper = waterfall.side == "upper"
    first, *rest = waterfall.steps
    # What speaks against the claim is counted, and what it leaves is drawn.
    counted = f"leaves {at_least(first.after)}" if upper else at_least(first.after)
    rows = [(first.label, counted, 0.0, first.after, "bar-2")]
    for step in rest:
        span = _span(step.after - step.change, step.after)
        # "contamination by ..." says by what in the table; a row of the picture is short.
        rows.append((step.label.split(" by ")[0], _change(step.change), *span, "loss"))
    last = waterfall.steps[-1].after
    word = "at most" if upper else "at least"
    mark = "" if waterfall.certified else ", for reading"
    rows.append(
        (f"bound: {word}{mark}", at_most(last) if upper else at_least(last), 0.0, last, "bar")
    )
    title = "How the upper bound is built" if upper else "How the lower bound is built"
    marks: list[Mark] = [Text(0.0, 14.0, title, "strong", size=13.0)]
    y = 36.0
    for label, words, start, end, kind in rows:
        room = WIDTH - text_width(words, 12.0) - 12.0
        marks += [
            Text(0.0, y, shorten(label, room), "label"),
            Text(WIDTH, y, words, "strong" if kind == "bar" else "quiet", "end"),
            Rect(0.0, y + 6.0, WIDTH, 10.0, "rest"),
            Rect(at(start), y + 6.0, max(at(end) - at(start), 1.0), 10.0, kind),
            Line(at(target), y + 3.0, at(target), y + 19.0, "target"),
        ]
        y += 36.0
    marks.append(centred(at(target), f"required: more than {percent(target)}", "strong", y))
    says = "; ".join(f"{label} {words}" for label, words, *_ in rows)
    return Picture(
        width=WIDTH, height=y + 8.0, title=title,
        says=f"{says}; required is more than {percent(target)}.", marks=tuple(marks),
    )  # fmt: skip


def _span(a: float, b: float) -> tuple[float, float]:
    return min(a, b), max(a, b)


def _change(change: float) -> str:
    """Return a change in tenths of points, with its sign."""
    points = 100.0 * change
    if abs(points) < 0.05:
        return "0 points"
    return f"{points:+.1f} points".replace("-", "\N{MINUS SIGN}")


PATH_LEFT, PATH_RIGHT, PATH_TOP, PATH_BOTTOM = 40.0, WIDTH - 14.0, 48.0, 196.0
PATH_POINTS = 240
LOOKS = 20
"""Up to so many looks each has a mark of its own."""


def sequential_picture(
    decision: str,
    scores: Sequence[bool],
    boundary: Sequence[tuple[int, int]],
    largest: int,
) -> Picture:
    """Return cumulative favorable scores over draws; ``boundary`` is (look, least count)."""
    totals = [0]
    for favorable in scores:
        totals.append(totals[-1] + int(favorable))
    # Up to the look at which the audit ended, or the one it was on its way to.
    next_look = next((look for look, _ in boundary if look >= len(scores)), len(scores))
    last = max(next_look, 2)
    across, up = Scale(0.0, last, PATH_LEFT, PATH_RIGHT), Scale(0.0, last, PATH_BOTTOM, PATH_TOP)
    whole = [value for value in ticks(0.0, last) if value == int(value)]
    marks: list[Mark] = [
        Text(0.0, 14.0, "Favorable scores, draw by draw", "strong", size=13.0),
        *(Line(PATH_LEFT, up(v), PATH_RIGHT, up(v), "grid") for v in whole),
        *(Text(PATH_LEFT - 6.0, up(v) + 4.0, f"{v:,.0f}", "quiet", "end", 11.0) for v in whole),
        *(Text(across(v), PATH_BOTTOM + 16.0, f"{v:,.0f}", "quiet", "middle", 11.0)
          for v in whole if across(v) < PATH_RIGHT - 50.0),
        Text(PATH_RIGHT, PATH_BOTTOM + 16.0, "draws", "quiet", "end", 11.0),
    ]  # fmt: skip
    near = [(across(look), up(least)) for look, least in boundary if least <= look <= last]
    marks += _boundary(near)
    if len(totals) > 1:
        path = [(across(n), up(total)) for n, total in enumerate(totals)]
        marks.append(Stroke(_thin(path), "path"))
    marks += sign(decision, across(len(scores)), up(totals[-1]), 8.0)
    crossed = "The boundary was crossed." if decision == "validated" else "It was not crossed."
    says = (
        f"{WORDS[decision]} after {count(len(scores), 'draw')} of at most {largest:,}: "
        f"{totals[-1]:,} favorable. {crossed if boundary else ''}"
    )
    return Picture(
        width=WIDTH, height=PATH_BOTTOM + 26.0, title="The sequential path", says=says.strip(),
        marks=tuple(marks),
    )  # fmt: skip


def _boundary(points: Sequence[tuple[float, float]]) -> list[Mark]:
    """Return the counts that validate: a dashed line, with a ring at each of few looks."""
    if not points:
        return []
    words = "dashed: the count that validates at each look"
    marks: list[Mark] = [Text(0.0, 31.0, words, "quiet")]
    if len(points) > 1:
        marks.append(Stroke(_thin(points), "boundary"))
    if len(points) <= LOOKS:
        marks += [Circle(x, y, 3.5, "look") for x, y in points]
    return marks


def _thin(points: Sequence[tuple[float, float]]) -> tuple[tuple[float, float], ...]:
    """Return at most `PATH_POINTS` of the points, the first and the last among them."""
    if len(points) <= PATH_POINTS:
        return tuple(points)
    last = len(points) - 1
    ranks = sorted({round(k * last / (PATH_POINTS - 1)) for k in range(PATH_POINTS)})
    return tuple(points[r] for r in ranks)


BARS = ("bar", "bar-2", "bar-3")
MOST = 8
"""Requirements with a bar of their own; the others share the last one."""


def binding_picture(counts: Sequence[tuple[str, int]]) -> Picture:
    """Return a bar for each requirement: for how many releases it is the least certain one."""
    total = sum(number for _, number in counts)
    rows = sorted(counts, key=lambda one: -one[1])
    if len(rows) > MOST:
        rest = rows[MOST - 1 :]
        rows = [*rows[: MOST - 1], (f"{len(rest)} others", sum(c for _, c in rest))]
    marks: list[Mark] = [Text(0.0, 14.0, "Which requirement binds", "strong", size=13.0)]
    y = 36.0
    for name, number in rows:
        words = f"{number:,} of {total:,}"
        room = WIDTH - text_width(words, 12.0) - 12.0
        marks += [
            Text(0.0, y, shorten(name, room), "label"),
            Text(WIDTH, y, words, "quiet", "end"),
            Rect(0.0, y + 6.0, WIDTH, 9.0, "rest"),
            Rect(0.0, y + 6.0, WIDTH * number / total, 9.0, "bar"),
        ]
        y += 34.0
    says = "; ".join(f"{name} for {number:,} of {total:,}" for name, number in rows)
    return Picture(
        width=WIDTH, height=y - 12.0, title="Which requirement binds",
        says=f"The least certain requirement is {says}.", marks=tuple(marks),
    )  # fmt: skip


def score_picture(favorable: int, violating: int | None, releases: int, what: str) -> Picture:
    """Return how the releases scored: for the claim, against it, or neither."""
    parts = [(what, favorable, "validated")]
    if violating is not None:
        parts.append(("violating scores", violating, "violation"))
    neither = max(0, releases - sum(number for _, number, _ in parts))
    parts.append(("neither" if violating is not None else "the others", neither, "rest"))
    marks: list[Mark] = [Text(0.0, 14.0, "Scores", "strong", size=13.0)]
    marks += _stack([(number, kind) for _, number, kind in parts], releases, 26.0)
    y = 66.0
    for label, number, kind in parts:
        marks += _legend(y, kind, label, f"{number:,} of {releases:,}")
        y += 20.0
    says = "; ".join(f"{label}: {number:,}" for label, number, _ in parts)
    return Picture(
        width=WIDTH, height=y - 8.0, title="Score counts",
        says=f"Of {count(releases, 'release')}, {says}.", marks=tuple(marks),
    )  # fmt: skip


def budget_picture(title: str, parts: Sequence[tuple[str, Fraction]], whole: Fraction) -> Picture:
    """Return the parts of an error budget side by side, with the sum they must not exceed."""
    spent = sum((amount for _, amount in parts), Fraction(0))
    scale = max(spent, whole)
    pieces = [(float(amount / scale), BARS[i % len(BARS)]) for i, (_, amount) in enumerate(parts)]
    if spent < scale:
        pieces.append((float((scale - spent) / scale), "rest"))
    marks: list[Mark] = [Text(0.0, 14.0, shorten(title, WIDTH, 14.0), "strong", size=13.0)]
    marks += _stack(pieces, 1.0, 26.0)
    y = 66.0
    for i, (label, amount) in enumerate(parts[:MOST]):
        marks += _legend(y, BARS[i % len(BARS)], label, _amount(amount))
        y += 20.0
    if len(parts) > MOST:
        others = sum((amount for _, amount in parts[MOST:]), Fraction(0))
        marks += _legend(y, "rest", f"{len(parts) - MOST} others", _amount(others))
        y += 20.0
    marks += [
        Text(0.0, y, "sum", "strong"),
        Text(WIDTH, y, f"{_amount(spent)} of {_amount(whole)}", "strong", "end"),
    ]
    listed = "; ".join(f"{label} {_amount(amount)}" for label, amount in parts)
    return Picture(
        width=WIDTH, height=y + 8.0, title=title,
        says=f"{listed}; sum {_amount(spent)} of {_amount(whole)}.", marks=tuple(marks),
    )  # fmt: skip


def _amount(value: Fraction) -> str:
    """Return a budget as it was written: a decimal where one is exact, else a fraction."""
    decimal = f"{float(value):.6g}"
    if Fraction(decimal) == value or value.denominator >= 10**5:
        return decimal
    return f"{value.numerator}/{value.denominator}"


def _stack(parts: Sequence[tuple[float, str]], whole: float, y: float) -> list[Mark]:
    marks: list[Mark] = []
    x = 0.0
    for size, kind in parts:
        width = WIDTH * size / whole if whole else 0.0
        if width > 0:
            gap = 1.0 if width > 3.0 else 0.0  # neighbours of one colour stay apart
            marks.append(Rect(x, y, max(width - gap, 0.5), 18.0, kind))
        x += width
    return marks


def _legend(y: float, kind: str, label: str, words: str) -> list[Mark]:
    room = WIDTH - 16.0 - text_width(words, 12.0) - 12.0
    return [
        Rect(0.0, y - 9.0, 10.0, 10.0, kind),
        Text(16.0, y, shorten(label, room), "label"),
        Text(WIDTH, y, words, "quiet", "end"),
    ]


DOTS = 60
"""Up to so many releases each has a dot and a whisker; more are drawn as curves."""
POINTS = 120
"""Order statistics along a curve; the first and the last are always among them."""

LEFT, RIGHT, TOP, BOTTOM = 50.0, WIDTH - 8.0, 44.0, 196.0
HEIGHT = 222.0


def release_picture(
    requirement: str,
    limit: float,
    releases: Sequence[str],
    estimates: Sequence[float],
    lower: Sequence[float],
    upper: Sequence[float],
) -> Picture:
    """Return every release's estimate and simultaneous bounds, sorted by estimate.

    Few releases are dots with whiskers, many are the curves of their sorted values; both
    have the same axes, so that pictures of different sizes read alike.
    """
    R = len(releases)
    met = sum(e < limit for e in estimates)
    shown = sum(u < limit for u in upper)
    low, high, beyond = _range(limit, estimates, lower, upper)
    at = Scale(low, high, BOTTOM, TOP)
    marks: list[Mark] = [
        Text(0.0, 14.0, shorten(requirement, WIDTH, 14.0), "strong", size=13.0),
        Text(0.0, 31.0, _headline(R, met, shown), "quiet", size=11.0),
        *_axis(at, limit),
    ]
    order = sorted(range(R), key=lambda r: (estimates[r], r))
    if R <= DOTS:
        marks += _dots(at, limit, [(releases[r], estimates[r], lower[r], upper[r]) for r in order])
    else:
        marks += _curves(at, limit, sorted(estimates), sorted(lower), sorted(upper))
    marks.append(Line(LEFT, at(limit), RIGHT, at(limit), "limit"))
    marks.append(Text(LEFT, HEIGHT - 8.0, f"{count(R, 'release')}, sorted", "quiet"))
    if beyond:
        marks.append(Text(RIGHT, HEIGHT - 8.0, f"{beyond} beyond the scale", "quiet", "end"))
    says = (
        f"{met} of {count(R, 'estimate')} are below the limit {plain(limit)}, "
        f"and {shown} of the upper bounds. Estimates lie between {plain(min(estimates))} and "
        f"{plain(max(estimates))}; the largest upper bound is {plain(max(upper))}."
    )
    return Picture(
        width=WIDTH, height=HEIGHT, title=f"{requirement}: all releases against the limit",
        says=says, marks=tuple(marks),
    )  # fmt: skip


def _headline(R: int, met: int, shown: int) -> str:
    return f"below the limit: {met:,} of {count(R, 'estimate')}, {count(shown, 'upper bound')}"


def _range(
    limit: float, estimates: Sequence[float], lower: Sequence[float], upper: Sequence[float]
) -> tuple[float, float, int]:
    """Return the ends of the axis, and how many releases reach beyond its upper end.

    A failed draw counts as the worst loss; one such value must not flatten all others.
    """
    tops = sorted(upper)
    usual = tops[(9 * (len(tops) - 1)) // 10]
    low = min(limit, *lower)
    high = max(limit, tops[-1])
    if tops[-1] - low > 4.0 * (max(usual, limit) - low):
        high = max(usual, limit) + 0.25 * (max(usual, limit) - low)
    if high <= low:
        pad = 0.1 * abs(low) or 0.5
        low, high = low - pad, high + pad
    room = 0.05 * (high - low)
    top = high + room
    return low - room, top, sum(e > top for e in estimates)


def _axis(at: Scale, limit: float) -> list[Mark]:
    marks: list[Mark] = []
    for value in ticks(at.low, at.high):
        marks.append(Line(LEFT, at(value), RIGHT, at(value), "grid"))
        if abs(at(value) - at(limit)) >= 13.0:  # the limit's own number has precedence
            marks.append(Text(LEFT - 6.0, at(value) + 4.0, plain(value), "quiet", "end", 11.0))
    marks.append(Text(LEFT - 6.0, at(limit) + 4.0, plain(limit), "strong", "end", 11.0))
    return marks


def _dots(at: Scale, limit: float, rows: Sequence[tuple[str, float, float, float]]) -> list[Mark]:
    step = (RIGHT - LEFT) / len(rows)
    size = min(4.5, max(2.0, 0.3 * step))
    marks: list[Mark] = []
    for place, (name, estimate, low, high) in enumerate(rows):
        x = LEFT + (place + 0.5) * step
        tip = f"{name}: {plain(estimate)}, bounds {plain(low)} to {plain(high)}"
        marks.append(Line(x, at(low), x, at(high), "whisker"))
        if high <= at.high:
            cap = min(4.0, 0.35 * step)
            marks.append(Line(x - cap, at(high), x + cap, at(high), "whisker"))
        marks += _dot(x, at(estimate), size, estimate >= limit, tip)
    return marks


def _dot(x: float, y: float, r: float, above: bool, tip: str) -> list[Mark]:
    """Return a disc, or a cross where the estimate is not below the limit."""
    if not above:
        return [Circle(x, y, r, "estimate", tip)]
    return [
        Line(x - r, y - r, x + r, y + r, "above"),
        Line(x - r, y + r, x + r, y - r, "above"),
        Rect(x - r, y - r, 2 * r, 2 * r, "hover", tip),
    ]


def _curves(
    at: Scale,
    limit: float,
    estimates: Sequence[float],
    lower: Sequence[float],
    upper: Sequence[float],
) -> list[Mark]:
    R = len(estimates)
    ranks = sorted({round(k * (R - 1) / (POINTS - 1)) for k in range(POINTS)})
    across = Scale(0.0, R - 1.0, LEFT, RIGHT)

    def line(values: Sequence[float]) -> tuple[tuple[float, float], ...]:
        return tuple((across(r), at(values[r])) for r in ranks)

    top, bottom, middle = line(upper), line(lower), line(estimates)
    marks: list[Mark] = [
        Stroke(top + bottom[::-1], "band", closed=True),
        Stroke(bottom, "bounds"),
        Stroke(top, "bounds"),
        Stroke(middle, "curve"),
    ]
    above = sum(e >= limit for e in estimates)
    if 0 < above < R:
        x = across(R - above - 0.5)
        marks.append(Line(x, at(limit) - 6.0, x, BOTTOM, "axis"))
        if x > (LEFT + RIGHT) / 2:
            words = f"{R - above:,} below"
            marks.append(Text(x - 6.0, BOTTOM - 6.0, words, "over", "end", 11.0))
        else:
            marks.append(Text(x + 6.0, BOTTOM - 6.0, f"{above:,} above", "over", size=11.0))
    return marks


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
