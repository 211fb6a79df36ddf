"""The pictures of a report, each a function from numbers to marks.

The reliability interval and its sign, how a bound is built, the path of a sequential audit, bars
(which requirement binds, how releases scored, who spends an error budget), and all releases against
one limit. Last, which pictures an audit's record has: they are read from the certificate, the
evidence and the ledger. Every picture says in words what it shows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from itertools import accumulate

from proxyguard.certificate.wording import at_least, at_most, percent, rounded
from proxyguard.documents.certificate import (
    BoundRecord,
    MechanismVerdict,
    Report,
    ReportVerdict,
    ReportWaterfall,
    SequentialVerdict,
    VerdictRecord,
)
from proxyguard.documents.evidence import GroupEvidence
from proxyguard.documents.ledger import Favored
from proxyguard.losses.measure import SIDES
from proxyguard.report.evidence import budget_parts, by_room
from proxyguard.report.exposure import exposure_pictures, figures_of
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
    decimals,
    framed,
    labelled,
    legend,
    plain,
    shorten,
    stack,
    text_width,
    thinned,
    ticks,
)
from proxyguard.report.record import look_boundary
from proxyguard.report.sources import Sources, range_words, rounding_digits, scores_of

DECISIONS = {"validated": "Validated", "unresolved": "Unresolved", "violation": "Violation"}


def sign(decision: str, x: float, y: float, r: float) -> list[Mark]:
    """Return a check in a disc, a half-filled ring, or a cross in a square: no colour needed.

    Parameters
    ----------
    decision
        ``"validated"``, ``"unresolved"`` or ``"violation"``.
    x, y
        Its centre.
    r
        Half its width.
    """
    if decision == "validated":
        check = ((x - 0.45 * r, y), (x - 0.12 * r, y + 0.36 * r), (x + 0.48 * r, y - 0.36 * r))
        return [Circle(x, y, r, "validated"), Stroke(check, "sign")]
    if decision == "violation":
        arm, side = 0.42 * r, 0.92 * r
        return [
            Rect(x - side, y - side, 2 * side, 2 * side, "violation"),
            *_cross(x, y, arm, "sign"),
        ]
    ring = r - 1.0
    half = tuple((x + ring * dx, y + ring * dy) for dx, dy in _HALF_CIRCLE)
    return [Circle(x, y, ring, "unresolved-ring"), Stroke(half, "unresolved", closed=True)]


def _cross(x: float, y: float, arm: float, kind: str) -> list[Mark]:
    """Return two strokes that cross at a point."""
    return [
        Line(x - arm, y - arm, x + arm, y + arm, kind),
        Line(x - arm, y + arm, x + arm, y - arm, kind),
    ]


# Eighths of the left half of a circle; trigonometry's last digit differs between machines.
_HALF_CIRCLE = (
    (0.0, 1.0), (-0.195, 0.981), (-0.383, 0.924), (-0.556, 0.831), (-0.707, 0.707),
    (-0.831, 0.556), (-0.924, 0.383), (-0.981, 0.195), (-1.0, 0.0), (-0.981, -0.195),
    (-0.924, -0.383), (-0.831, -0.556), (-0.707, -0.707), (-0.556, -0.831), (-0.383, -0.924),
    (-0.195, -0.981), (0.0, -1.0),
)  # fmt: skip


def verdict_icon(decision: str) -> Picture:
    """Return the sign alone, to stand beside its word.

    It has no words of its own: the page hides it from those who listen.
    """
    marks = tuple(sign(decision, 12.0, 12.0, 11.0))
    return Picture(width=24, height=24, title=DECISIONS[decision], says="", marks=marks)


def interval_picture(
    decision: str, lower: float, upper: float | None, target: float, *, together: str = ""
) -> Picture:
    """Return the reliability interval on a scale from 0 to 100 % with the target across it.

    Parameters
    ----------
    decision
        ``"validated"``, ``"unresolved"`` or ``"violation"``.
    lower, upper
        The ends of the interval; without an upper bound it ends at 100 %.
    target
        The reliability that must be exceeded.
    together
        How sure both ends are.
    """
    top = 1.0 if upper is None else upper
    interval = range_words(lower, top, decision=decision, target=target)
    at = Scale(0.0, 1.0, 14.0, WIDTH - 14.0)
    y = 38.0
    left, right = at(lower), at(max(lower, top))
    # The sign stands at the end that decided, or between both.
    decisive = {"validated": left, "violation": right}.get(decision, (left + right) / 2)
    marks: list[Mark] = [
        centred((left + right) / 2, interval, "strong", 16.0, size=13.0),
        Line(at(0.0), y, at(1.0), y, "axis"),
        *(Line(at(v), y - 4, at(v), y + 4, "axis") for v in (0.0, 0.25, 0.5, 0.75, 1.0)),
        Rect(left, y - 5, max(right - left, 2.0), 10.0, decision),
        Line(at(target), y - 14, at(target), y + 17, "target"),
        *sign(decision, min(WIDTH - 14.0, max(14.0, decisive)), y, 10.0),
        *_scale_words(at, target, y + 32.0),
    ]  # fmt: skip
    says = (
        f"{DECISIONS[decision]}: the share of valid releases is {interval}; "
        f"required is more than {percent(target)}.{f' {together}' if together else ''}"
    )
    return framed("Reliability against its target", says, marks, 80)


def _scale_words(at: Scale, target: float, y: float) -> list[Mark]:
    """Return the target's label and those ends of the scale that it leaves room for."""
    label = centred(at(target), f"required: more than {percent(target)}", "strong", y, size=12.0)
    wide = text_width(label.text, label.size)
    # The label stands in the middle of its target, or at an end that it would pass.
    left = label.x - {"start": 0.0, "middle": wide / 2, "end": wide}[label.anchor]
    marks: list[Mark] = [label]
    if left > text_width("0 %", 12.0) + 10.0:
        marks.append(Writing(2.0, y, "0 %", "quiet"))
    if left + wide < WIDTH - text_width("100 %", 12.0) - 10.0:
        marks.append(Writing(WIDTH - 2.0, y, "100 %", "quiet", "end"))
    return marks


def waterfall_picture(waterfall: ReportWaterfall, target: float) -> Picture:
    """Return the way from the counted share to the bound, one row a step.

    Parameters
    ----------
    waterfall
        The steps, which end at the bound.
    target
        The reliability that must be exceeded; a dashed line across every row.
    """
    at = Scale(0.0, 1.0, 0.0, WIDTH)
    upper = waterfall.side == "upper"
    first, *rest = waterfall.steps
    last = waterfall.steps[-1].after
    # What speaks against the claim is counted, and what it leaves is drawn.
    counted = f"{'leaves ' if upper else ''}{at_least(first.after)}"
    rows = [(first.label, counted, 0.0, first.after, "bar-2")]
    for step in rest:
        low, high = sorted((step.after - step.change, step.after))
        # "contamination by ..." says by what in the table; a row of the picture is short.
        rows.append((step.label.split(" by ")[0], _change(step.change), low, high, "loss"))
    words = at_most(last, target) if upper else at_least(last, target)
    rows.append((f"bound: {'at most' if upper else 'at least'}", words, 0.0, last, "bar"))
    marks: list[Mark] = []
    y = 36.0
    for label, words, start, end, kind in rows:
        marks += [
            *labelled(y, label, words, kind="strong" if kind == "bar" else "quiet"),
            Rect(0.0, y + 6.0, WIDTH, 10.0, "rest"),
            Rect(at(start), y + 6.0, max(at(end) - at(start), 1.0), 10.0, kind),
            Line(at(target), y + 3.0, at(target), y + 19.0, "target"),
        ]
        y += 36.0
    marks.append(centred(at(target), f"required: more than {percent(target)}", "strong", y))
    listed = "; ".join(f"{label} {words}" for label, words, *_ in rows)
    says = f"{listed}; required is more than {percent(target)}."
    title = f"How the {waterfall.side} bound is built"
    return framed(title, says, marks, y + 8.0, heading=title)


def _change(change: float) -> str:
    """Return a change in tenths of points, with its sign."""
    points = 100.0 * change
    if abs(points) < 0.05:
        return "0 points"
    return f"{points:+.1f} points".replace("-", "\N{MINUS SIGN}")


PATH_LEFT, PATH_RIGHT, PATH_TOP, PATH_BOTTOM = 40.0, WIDTH - 14.0, 48.0, 196.0
PATH_POINTS = 240
# Up to so many looks each has a mark of its own.
MARKED_LOOKS = 20


def sequential_picture(
    decision: str, scores: Sequence[bool], boundary: Sequence[tuple[int, int]], largest: int
) -> Picture:
    """Return cumulative favorable scores over draws, against the boundary.

    Parameters
    ----------
    decision
        What was decided.
    scores
        Whether each draw scored favorably, in their order.
    boundary
        (look, least count that validates) of every registered look, if they are known.
    largest
        Draws that were registered.
    """
    totals = list(accumulate(map(int, scores), initial=0))
    # Up to the look at which the audit ended, or the one it was on its way to.
    next_look = next((look for look, _ in boundary if look >= len(scores)), len(scores))
    # One draw alone would leave the scale without a width.
    last = max(next_look, 2)
    across, up = Scale(0.0, last, PATH_LEFT, PATH_RIGHT), Scale(0.0, last, PATH_BOTTOM, PATH_TOP)
    whole = [tick for tick in ticks(0.0, last) if tick == int(tick)]
    near = [(across(look), up(least)) for look, least in boundary if least <= look <= last]
    marks: list[Mark] = [
        *(Line(PATH_LEFT, up(v), PATH_RIGHT, up(v), "grid") for v in whole),
        *(Writing(PATH_LEFT - 6.0, up(v) + 4.0, f"{v:,.0f}", "quiet", "end", 11.0) for v in whole),
        *(Writing(across(v), PATH_BOTTOM + 16.0, f"{v:,.0f}", "quiet", "middle", 11.0)
          for v in whole if across(v) < PATH_RIGHT - 50.0),
        Writing(PATH_RIGHT, PATH_BOTTOM + 16.0, "draws", "quiet", "end", 11.0),
        *_boundary_marks(near),
    ]  # fmt: skip
    # A path has two points at the least.
    if scores:
        path = [(across(n), up(total)) for n, total in enumerate(totals)]
        marks.append(Stroke(thinned(path, PATH_POINTS), "path"))
    marks += sign(decision, across(len(scores)), up(totals[-1]), 8.0)
    crossed = "The boundary was crossed." if decision == "validated" else "It was not crossed."
    says = (
        f"{DECISIONS[decision]} after {count(len(scores), 'draw')} of at most {largest:,}: "
        f"{totals[-1]:,} favorable. {crossed if boundary else ''}"
    )
    heading = "Favorable scores, draw by draw"
    return framed("The sequential path", says.strip(), marks, PATH_BOTTOM + 26.0, heading)


def _boundary_marks(points: Sequence[Point]) -> list[Mark]:
    """Return the counts that validate: a dashed line, with a ring at each of few looks."""
    if not points:
        return []
    words = "dashed: the count that validates at each look"
    marks: list[Mark] = [Writing(0.0, 31.0, words, "quiet")]
    if len(points) > 1:
        marks.append(Stroke(thinned(points, PATH_POINTS), "boundary"))
    if len(points) <= MARKED_LOOKS:
        marks += [Circle(x, y, 3.5, "look") for x, y in points]
    return marks


BARS = ("bar", "bar-2", "bar-3")
# Requirements with a bar of their own; the others share the last one.
MOST_BARS = 8


def binding_picture(counts: Sequence[tuple[str, int]]) -> Picture:
    """Return a bar for each requirement: for how many releases it is the least certain one.

    Parameters
    ----------
    counts
        (requirement, releases that it binds); the requirements beyond the largest few share a bar.
    """
    total = sum(number for _, number in counts)
    rows = sorted(counts, key=lambda pair: -pair[1])
    if len(rows) > MOST_BARS:
        rest = rows[MOST_BARS - 1 :]
        rows = [*rows[: MOST_BARS - 1], (f"{len(rest)} others", sum(number for _, number in rest))]
    marks: list[Mark] = []
    y = 36.0
    for name, number in rows:
        marks += [
            *labelled(y, name, f"{number:,} of {total:,}"),
            Rect(0.0, y + 6.0, WIDTH, 9.0, "rest"),
            Rect(0.0, y + 6.0, WIDTH * number / total, 9.0, "bar"),
        ]
        y += 34.0
    listed = "; ".join(f"{name} for {number:,} of {total:,}" for name, number in rows)
    says, title = f"The least certain requirement is {listed}.", "Which requirement binds"
    return framed(title, says, marks, y - 12.0, heading=title)


def score_picture(favorable: int, violating: int | None, releases: int, what: str) -> Picture:
    """Return how the releases scored: for the claim, against it, or neither.

    Parameters
    ----------
    favorable
        Releases that scored for the claim.
    violating
        Releases that scored against it, where that was counted.
    releases
        All releases.
    what
        What the favorable count is called.
    """
    scored = [(what, favorable, "validated")]
    if violating is not None:
        scored.append(("violating scores", violating, "violation"))
    neither = max(0, releases - sum(number for _, number, _ in scored))
    scored.append(("neither" if violating is not None else "the others", neither, "rest"))
    keys, y = legend([(kind, label, f"{n:,} of {releases:,}") for label, n, kind in scored])
    marks = [*stack([(number, kind) for _, number, kind in scored], releases), *keys]
    listed = "; ".join(f"{label}: {number:,}" for label, number, _ in scored)
    says = f"Of {count(releases, 'release')}, {listed}."
    return framed("Score counts", says, marks, y - 8.0, heading="Scores")


def budget_picture(title: str, parts: Sequence[tuple[str, Fraction]], whole: Fraction) -> Picture:
    """Return the parts of an error budget side by side, with the sum they must not exceed.

    Parameters
    ----------
    title
        What the budget is for.
    parts
        Who spends how much.
    whole
        What all may spend; a rest that nobody spends is drawn empty.
    """
    spent = sum((share for _, share in parts), Fraction(0))
    scale = max(spent, whole)
    kinds = [BARS[i % len(BARS)] for i in range(len(parts))]
    pieces = [(float(s / scale), kind) for (_, s), kind in zip(parts, kinds, strict=True)]
    if spent < scale:
        pieces.append((float((scale - spent) / scale), "rest"))
    rows = [(kind, label, _amount(s)) for (label, s), kind in zip(parts, kinds, strict=True)]
    if len(parts) > MOST_BARS:
        others = sum((share for _, share in parts[MOST_BARS:]), Fraction(0))
        rows = [*rows[:MOST_BARS], ("rest", f"{len(parts) - MOST_BARS} others", _amount(others))]
    keys, y = legend(rows)
    total = f"{_amount(spent)} of {_amount(whole)}"
    marks = [
        *stack(pieces, 1.0),
        *keys,
        Writing(0.0, y, "sum", "strong"),
        Writing(WIDTH, y, total, "strong", "end"),
    ]
    listed = "; ".join(f"{label} {_amount(share)}" for label, share in parts)
    return framed(title, f"{listed}; sum {total}.", marks, y + 8.0, heading=title)


def _amount(share: Fraction) -> str:
    """Return a budget as it was written: a decimal where one is exact, else a fraction."""
    decimal = f"{float(share):.6g}"
    if Fraction(decimal) == share or share.denominator >= 10**5:
        return decimal
    return f"{share.numerator}/{share.denominator}"


# Up to so many releases each has a mark; more are drawn as a curve.
DOTS = 60
# Order statistics along a curve; the first and the last are always among them.
POINTS = 120

LEFT, RIGHT, TOP, BOTTOM = 50.0, WIDTH - 8.0, 44.0, 196.0
HEIGHT = 222.0


def release_picture(
    requirement: str,
    limit: float,
    releases: Sequence[str],
    estimates: Sequence[float],
    scores: Sequence[int | None],
    unit: str = "",
    digits: int | None = None,
) -> Picture:
    """Return every release's estimate, sorted, with how it scored.

    Few releases have a mark each, many are the curve of their sorted values; both have the same
    axes, so that pictures of different sizes read alike. No interval is drawn: one of another test
    or level than the score's could cross the limit where the release scored favorably.

    Parameters
    ----------
    requirement, limit
        Whose limit the releases are shown against.
    releases
        Their names.
    estimates
        The mean loss of each.
    scores
        1 for a release that scored favorably, over all requirements, 0 for another; None where
        releases have no score of their own.
    unit
        What stands behind limit and estimates, such as " kg".
    digits
        What a disclosure rounded the estimates to, against the release: then none is counted or
        crossed out as above the limit, which it may be below.
    """
    R = len(releases)
    met = sum(estimate < limit for estimate in estimates)
    favorable = "" if None in scores else f", {sum(map(bool, scores)):,} favorable"
    low, high = _range(limit, estimates)
    beyond = sum(estimate > high for estimate in estimates)
    at = Scale(low, high, BOTTOM, TOP)
    named = f" of {plain(limit)}{unit}" if unit else ""
    below = f"{met:,} of {count(R, 'estimate')} below the limit{named}{favorable}"
    if digits is not None:
        below = f"{count(R, 'estimate')}, rounded up, and the limit{named}{favorable}"
    marks: list[Mark] = [Writing(0.0, 31.0, below, "quiet", size=11.0), *_axis(at, limit)]
    order = sorted(range(R), key=lambda r: (estimates[r], r))
    if R <= DOTS:
        marks += _dots(
            at, limit, [(releases[r], estimates[r], scores[r]) for r in order], digits is None
        )
    else:
        marks += _curve(at, limit, sorted(estimates), digits is None)
    marks.append(Line(LEFT, at(limit), RIGHT, at(limit), "limit"))
    ends = releases[0]
    if R > 1:
        ends = f"releases by estimate, {releases[order[0]]} to {releases[order[-1]]}"
    over = f"{beyond} beyond the scale" if beyond else ""
    room = RIGHT - LEFT - (text_width(over, 12.0) + 12.0 if beyond else 0.0)
    words = shorten(ends, room)
    marks.append(Writing(LEFT, HEIGHT - 8.0, words, "quiet"))
    if beyond:
        marks.append(Writing(RIGHT, HEIGHT - 8.0, over, "quiet", "end"))
    told = f"{met} of {count(R, 'estimate')} are below the limit {plain(limit)}{unit}{favorable}"
    says = (
        f"{told if digits is None else below}. "
        f"Estimates lie between {beside(min(estimates), limit)} and "
        f"{beside(max(estimates), limit)}{unit}."
    )
    title = f"{requirement}: all releases against the limit"
    return framed(title, says, marks, HEIGHT, heading=_heading(requirement))


def compared_picture(
    requirement: str, limit: float, makers: Mapping[str, Sequence[tuple[str, float]]]
) -> Picture:
    """Return the estimates of several makers beside each other: one axis, and one limit for all.

    Parameters
    ----------
    requirement, limit
        Whose limit the releases are shown against.
    makers
        By what made them: each release with its estimate.
    """
    every = [estimate for releases in makers.values() for _, estimate in releases]
    low, high = _range(limit, every)
    at = Scale(low, high, BOTTOM, TOP)
    step = (RIGHT - LEFT) / len(makers)
    marks, told = _axis(at, limit), []
    for k, (maker, releases) in enumerate(makers.items()):
        left, right = LEFT + k * step + 4.0, LEFT + (k + 1) * step - 4.0
        rows = sorted(((name, e, None) for name, e in releases), key=lambda row: (row[1], row[0]))
        if len(rows) <= DOTS:
            marks += _dots(at, limit, rows, exact=True, ends=(left, right))
        else:
            across = Scale(0.0, len(rows) - 1.0, left, right)
            line = [(across(r), at(estimate)) for r, (_, estimate, _) in enumerate(rows)]
            marks.append(Stroke(thinned(line, POINTS), "curve"))
        met = sum(estimate < limit for _, estimate in releases)
        beyond = sum(estimate > high for _, estimate in releases)
        said = f"{met:,} of {len(rows):,} below" + (f", {beyond:,} off scale" if beyond else "")
        for y, words in ((31.0, said), (HEIGHT - 8.0, maker)):
            shown = shorten(words, step - 6.0, 11.0)
            marks.append(Writing((left + right) / 2, y, shown, "quiet", "middle", 11.0))
        if k:
            marks.append(Line(left - 4.0, TOP - 8.0, left - 4.0, BOTTOM, "axis"))
        ends = f"{beside(rows[0][1], limit)} to {beside(rows[-1][1], limit)}"
        told.append(f"{maker}: {said} the limit {plain(limit)}, {ends}.")
    marks.append(Line(LEFT, at(limit), RIGHT, at(limit), "limit"))
    title = f"{requirement}: all releases of each against the limit"
    return framed(title, " ".join(told), marks, HEIGHT, heading=_heading(requirement))


def _heading(requirement: str) -> str:
    """Return a requirement as a heading: of a query its cell and its side, which tell it apart."""
    for words, arrow in zip(SIDES, (" ↑", " ↓"), strict=True):
        if requirement.endswith(words):
            query = requirement.removesuffix(words)
            return (query.partition(": ")[2] or query) + arrow
    return requirement


def beside(estimate: float, limit: float) -> str:
    """Return an estimate with the digits that its limit asks for, and that tell the two apart."""
    return rounded(estimate, decimals(limit), up=True, than=limit)


def _range(limit: float, estimates: Sequence[float]) -> tuple[float, float]:
    """Return the ends of the axis, with a little room beyond both.

    A failed draw counts as the worst loss; one such value must not flatten all others.
    """
    tops = sorted(estimates)
    # Nine of ten estimates lie no higher, where the limit does not.
    usual = max(limit, tops[(9 * (len(tops) - 1)) // 10])
    low = min(limit, tops[0])
    high = max(limit, tops[-1])
    if tops[-1] - low > 4.0 * (usual - low):
        high = usual + 0.25 * (usual - low)
    if high <= low:
        pad = 0.1 * abs(low) or 0.5
        low, high = low - pad, high + pad
    room = 0.05 * (high - low)
    return low - room, high + room


def _axis(at: Scale, limit: float) -> list[Mark]:
    """Return the grid with its numbers, and the limit's own, which has precedence."""
    marks: list[Mark] = []
    for tick in ticks(at.low, at.high):
        marks.append(Line(LEFT, at(tick), RIGHT, at(tick), "grid"))
        if abs(at(tick) - at(limit)) >= 13.0:
            marks.append(Writing(LEFT - 6.0, at(tick) + 4.0, plain(tick), "quiet", "end", 11.0))
    marks.append(Writing(LEFT - 6.0, at(limit) + 4.0, plain(limit), "strong", "end", 11.0))
    return marks


SCORED = {1: ", scored favorably", 0: ", did not score favorably", None: ""}


def _dots(
    at: Scale, limit: float, rows: Sequence[tuple[str, float, int | None]], exact: bool,
    ends: tuple[float, float] = (LEFT, RIGHT),
) -> list[Mark]:  # fmt: skip
    """Return a disc for each release, a ring without a favorable score, a cross above the limit.

    Of estimates that are not exact none is a cross.
    """
    step = (ends[1] - ends[0]) / len(rows)
    r = min(4.5, max(2.0, 0.3 * step))
    marks: list[Mark] = []
    for index, (name, estimate, score) in enumerate(rows):
        x, y = ends[0] + (index + 0.5) * step, at(estimate)
        tip = f"{name}: {beside(estimate, limit)}{SCORED[score]}"
        below = estimate < limit or not exact
        if score or (score is None and below):
            marks.append(Circle(x, y, r, "estimate", tip))
        elif below:
            marks.append(Circle(x, y, r - 0.5, "unscored", tip))
        else:
            # Strokes are too thin to point at: an unseen box over them has the words.
            marks += [*_cross(x, y, r, "above"), Rect(x - r, y - r, 2 * r, 2 * r, "hover", tip)]
    return marks


def _curve(at: Scale, limit: float, estimates: Sequence[float], exact: bool) -> list[Mark]:
    """Return sorted values as a curve, and how many of them lie above the limit."""
    R = len(estimates)
    across = Scale(0.0, R - 1.0, LEFT, RIGHT)
    path = thinned([(across(r), at(number)) for r, number in enumerate(estimates)], POINTS)
    marks: list[Mark] = [Stroke(path, "curve")]
    above = sum(estimate >= limit for estimate in estimates)
    # Words stand on the side that has more room.
    if exact and 0 < above < R:
        x = across(R - above - 0.5)
        marks.append(Line(x, at(limit) - 6.0, x, BOTTOM, "axis"))
        if x > (LEFT + RIGHT) / 2:
            words = f"{R - above:,} below"
            marks.append(Writing(x - 6.0, BOTTOM - 6.0, words, "over", "end", 11.0))
        else:
            marks.append(Writing(x + 6.0, BOTTOM - 6.0, f"{above:,} above", "over", size=11.0))
    return marks


BUDGETS = {
    "validation": "Error budget of the lower bounds",
    "violation": "Error budget of the upper bounds",
    "picks": "Error budget of choosing releases",
}
# Requirements of one mechanism that have a picture of their own.
MOST_DRAWN = 12
# How the labels of counts begin that speak against the claim.
AGAINST = ("violating", "releases with a detected")


def pictures_of(report: Report, sources: Sources) -> dict[str, list[Picture]]:
    """Return every picture of a report by what it is about, for `picture.to_figure`.

    Returns
    -------
    dict of str to list of Picture
        Under ``verdicts``, the name of each group, ``exposure:`` before it, and ``error budget``.
    """
    intervals = [interval_of(verdict) for verdict in report.verdicts]
    groups = {
        name: [
            *requirement_pictures(sources, name, drawn_requirements(report, group, name)),
            *decision_pictures(report, sources, name),
        ]
        for name in sources.group_names
        for group in (sources.groups[name],)
    }
    drawn = [picture for picture in intervals if picture is not None]
    exposed = {
        f"exposure: {name}": exposure_pictures(sources, name) for name in figures_of(sources)
    }
    return {"verdicts": drawn, **groups, **exposed, "error budget": budget_pictures(sources)}


def interval_of(verdict: ReportVerdict) -> Picture | None:
    """Return the interval that the decision on a mechanism rests on, or none.

    Where a family's decisions are certified that is all above the target, or all below it: bounds
    for reading may lie on the other side. Nothing is drawn of bounds that contradict each other,
    nor of a decision that settles nothing.
    """
    if verdict.target is None or verdict.lower is None:
        return None
    crossed = verdict.upper is not None and verdict.lower > verdict.upper
    if crossed or (not verdict.certified and verdict.decision == "UNRESOLVED"):
        return None
    return interval_picture(
        look_of(verdict), verdict.lower, verdict.upper, verdict.target,
        together=verdict.together,
    )  # fmt: skip


def look_of(verdict: ReportVerdict) -> str:
    """Return the decision that a verdict is drawn as: without a guarantee nothing is settled."""
    return "unresolved" if verdict.warning else verdict.decision.lower()


def drawn_requirements(report: Report, group: GroupEvidence, name: str) -> list[int]:
    """Return which requirements have a picture: all, or those that bind most releases.

    Among those that bind as many, of many none, the ones with the least room below their limits.

    Returns
    -------
    list of int
        Places in the order of the evidence.
    """
    binds = next((dict(b.counts) for b in report.bindings if b.mechanism == name), {})
    order = sorted(by_room(group), key=lambda j: -binds.get(group.requirements[j], 0))
    return sorted(order[:MOST_DRAWN])


def requirement_pictures(sources: Sources, name: str, places: Sequence[int]) -> list[Picture]:
    """Return one picture for each of these requirements: all releases against its limit."""
    group, units = sources.groups[name], sources.units(name)
    scores = scores_of(name, sources)
    return [
        release_picture(
            group.requirements[j], float(group.limits[j]), group.releases,
            [float(row[j]) for row in group.derived.estimates], scores, units[j],
            rounding_digits(sources),
        )
        for j in places
    ]  # fmt: skip


def decision_pictures(report: Report, sources: Sources, name: str) -> list[Picture]:
    """Return the path, the bounds, the scores and what binds, for one group of releases.

    Parameters
    ----------
    report
        The report.
    sources
        What it was built from.
    name
        The group; a picture that its record has nothing for is left out.
    """
    recorded = sources.verdict(name)
    return [
        *_sequential(sources, recorded),
        *(built for v in report.verdicts if v.name == name for built in waterfalls_of(v)),
        *_scores(recorded),
        *(binding_picture(binding.counts) for binding in report.bindings
          if binding.mechanism == name and len(binding.counts) > 1),
    ]  # fmt: skip


def _sequential(sources: Sources, verdict: VerdictRecord | None) -> list[Picture]:
    """Return the path of a sequential audit, if it is one and its claim is on record."""
    if not isinstance(verdict, SequentialVerdict) or sources.registry is None:
        return []
    scores = [body.favorable for body in sources.bodies if isinstance(body, Favored)]
    boundary = look_boundary(sources.registry.declaration.claim)
    largest = verdict.largest_number_of_draws
    return [sequential_picture(verdict.decision.value, scores, boundary, largest)]


def waterfalls_of(verdict: ReportVerdict) -> list[Picture]:
    """Return how the bounds of a verdict were built, where they decided.

    A bound of 0 or 1 says nothing, and neither would its picture beside another one.
    """
    if verdict.target is None or not verdict.certified:
        return []
    telling = [built for built in verdict.waterfalls if 0.0 < built.steps[-1].after < 1.0]
    return [waterfall_picture(w, verdict.target) for w in telling or verdict.waterfalls[:1]]


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
    steps = () if bound is None else bound.steps
    # A mean of scores is no count, and has no picture of counts.
    releases = next((step.value for step in steps if step.label == "releases"), None)
    if releases is None or not float(steps[0].value).is_integer():
        return None
    return steps[0].label.split(" (")[0], int(steps[0].value), int(releases)


def budget_pictures(sources: Sources) -> list[Picture]:
    """Return the error budgets, each as parts of its whole: those of the table."""
    picks = None if sources.picks is None else Fraction(sources.picks.alpha)
    wholes = {"validation": sources.levels.alpha, "violation": sources.levels.beta, "picks": picks}
    pictures = []
    for budget, spent in budget_parts(sources).items():
        whole = wholes[budget]
        if spent and whole is not None:
            shares = [(f"{part.mechanism}: {part.symbol}", part.share) for part in spent]
            pictures.append(budget_picture(BUDGETS[budget], shares, whole))
    return pictures
