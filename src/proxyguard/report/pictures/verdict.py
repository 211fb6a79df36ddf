"""The verdict's sign, and the reliability interval against its target."""

from __future__ import annotations

from proxyguard.certificate.wording import percent
from proxyguard.report.parts import range_words
from proxyguard.report.pictures.picture import (
    WIDTH,
    Circle,
    Line,
    Mark,
    Path,
    Picture,
    Rect,
    Text,
    centred,
    text_width,
)
from proxyguard.report.pictures.scale import Scale

WORDS = {"validated": "Validated", "unresolved": "Unresolved", "violation": "Violation"}


def sign(decision: str, x: float, y: float, r: float) -> list[Mark]:
    """Return a check in a disc, a half-filled ring, or a cross in a square: no colour needed."""
    if decision == "validated":
        check = ((x - 0.45 * r, y), (x - 0.12 * r, y + 0.36 * r), (x + 0.48 * r, y - 0.36 * r))
        return [Circle(x, y, r, "validated"), Path(check, "sign")]
    if decision == "violation":
        arm, side = 0.42 * r, 0.92 * r
        return [
            Rect(x - side, y - side, 2 * side, 2 * side, "violation"),
            Line(x - arm, y - arm, x + arm, y + arm, "sign"),
            Line(x - arm, y + arm, x + arm, y - arm, "sign"),
        ]
    ring = r - 1.0
    half = tuple((x + ring * dx, y + ring * dy) for dx, dy in _HALF_CIRCLE)
    return [Circle(x, y, ring, "unresolved-ring"), Path(half, "unresolved", closed=True)]


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
