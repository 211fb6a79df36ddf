"""All releases of one mechanism against one requirement's limit."""

from __future__ import annotations

from collections.abc import Sequence

from proxyguard.report.pictures.picture import (
    WIDTH,
    Circle,
    Line,
    Mark,
    Path,
    Picture,
    Rect,
    Text,
    shorten,
)
from proxyguard.report.pictures.scale import Scale, count, plain, ticks

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
        Path(top + bottom[::-1], "band", closed=True),
        Path(bottom, "bounds"),
        Path(top, "bounds"),
        Path(middle, "curve"),
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
