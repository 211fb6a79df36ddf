"""How a bound is built, step by step, against the target it must pass."""

from __future__ import annotations

from proxyguard.certificate.wording import at_least, at_most, percent
from proxyguard.report.parts import Waterfall
from proxyguard.report.pictures.picture import (
    WIDTH,
    Line,
    Mark,
    Picture,
    Rect,
    Text,
    centred,
    shorten,
    text_width,
)
from proxyguard.report.pictures.scale import Scale


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
