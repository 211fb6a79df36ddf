"""The path of a sequential audit: favorable scores so far against the registered boundary."""

from __future__ import annotations

from collections.abc import Sequence

from proxyguard.report.pictures.picture import WIDTH, Circle, Line, Mark, Path, Picture, Text
from proxyguard.report.pictures.scale import Scale, count, ticks
from proxyguard.report.pictures.verdict import WORDS, sign

LEFT, RIGHT, TOP, BOTTOM = 40.0, WIDTH - 14.0, 48.0, 196.0
POINTS = 240
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
    across, up = Scale(0.0, last, LEFT, RIGHT), Scale(0.0, last, BOTTOM, TOP)
    whole = [value for value in ticks(0.0, last) if value == int(value)]
    marks: list[Mark] = [
        Text(0.0, 14.0, "Favorable scores, draw by draw", "strong", size=13.0),
        *(Line(LEFT, up(v), RIGHT, up(v), "grid") for v in whole),
        *(Text(LEFT - 6.0, up(v) + 4.0, f"{v:,.0f}", "quiet", "end", 11.0) for v in whole),
        *(Text(across(v), BOTTOM + 16.0, f"{v:,.0f}", "quiet", "middle", 11.0)
          for v in whole if across(v) < RIGHT - 50.0),
        Text(RIGHT, BOTTOM + 16.0, "draws", "quiet", "end", 11.0),
    ]  # fmt: skip
    near = [(across(look), up(least)) for look, least in boundary if least <= look <= last]
    marks += _boundary(near)
    if len(totals) > 1:
        path = [(across(n), up(total)) for n, total in enumerate(totals)]
        marks.append(Path(_thin(path), "path"))
    marks += sign(decision, across(len(scores)), up(totals[-1]), 8.0)
    crossed = "The boundary was crossed." if decision == "validated" else "It was not crossed."
    says = (
        f"{WORDS[decision]} after {count(len(scores), 'draw')} of at most {largest:,}: "
        f"{totals[-1]:,} favorable. {crossed if boundary else ''}"
    )
    return Picture(
        width=WIDTH, height=BOTTOM + 26.0, title="The sequential path", says=says.strip(),
        marks=tuple(marks),
    )  # fmt: skip


def _boundary(points: Sequence[tuple[float, float]]) -> list[Mark]:
    """Return the counts that validate: a dashed line, with a ring at each of few looks."""
    if not points:
        return []
    words = "dashed: the count that validates at each look"
    marks: list[Mark] = [Text(0.0, 31.0, words, "quiet")]
    if len(points) > 1:
        marks.append(Path(_thin(points), "boundary"))
    if len(points) <= LOOKS:
        marks += [Circle(x, y, 3.5, "look") for x, y in points]
    return marks


def _thin(points: Sequence[tuple[float, float]]) -> tuple[tuple[float, float], ...]:
    """Return at most `POINTS` of the points, the first and the last among them."""
    if len(points) <= POINTS:
        return tuple(points)
    last = len(points) - 1
    ranks = sorted({round(k * last / (POINTS - 1)) for k in range(POINTS)})
    return tuple(points[r] for r in ranks)
