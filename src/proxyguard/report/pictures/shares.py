"""Bars that share a whole: which requirement binds, how releases scored, who pays for what."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from proxyguard.report.pictures.picture import WIDTH, Mark, Picture, Rect, Text, shorten, text_width
from proxyguard.report.pictures.scale import count

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
