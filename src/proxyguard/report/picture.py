"""What a picture is made of: lines, boxes, discs, paths and words, each with a meaning.

A mark says what it is (``kind``), not what it looks like; `look` says that, once for the page
and for matplotlib. Coordinates are CSS pixels from the upper left corner.

From values to pixels, and from numbers to words that claim no more than they should.

How each kind of mark looks: roles of a palette, in light and dark, for page and matplotlib.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, floor, log10
from typing import Literal

Anchor = Literal["start", "middle", "end"]
WIDTH = 360.0
"""Pictures are as wide as a phone's text, so that their words keep their size everywhere."""


@dataclass(frozen=True, slots=True)
class Line:
    """A straight stroke."""

    x1: float
    y1: float
    x2: float
    y2: float
    kind: str


@dataclass(frozen=True, slots=True)
class Rect:
    """A box."""

    x: float
    y: float
    width: float
    height: float
    kind: str
    tip: str = ""


@dataclass(frozen=True, slots=True)
class Circle:
    """A disc or a ring."""

    x: float
    y: float
    r: float
    kind: str
    tip: str = ""


@dataclass(frozen=True, slots=True)
class Path:
    """A line through points, or the area within them when ``closed``."""

    points: tuple[tuple[float, float], ...]
    kind: str
    closed: bool = False


@dataclass(frozen=True, slots=True)
class Text:
    """Words at a baseline."""

    x: float
    y: float
    text: str
    kind: str = "label"
    anchor: Anchor = "start"
    size: float = 12.0


Mark = Line | Rect | Circle | Path | Text


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """Marks on a canvas, with the words that say what they show."""

    width: float
    height: float
    title: str
    says: str  # the text alternative: what a reader would take from looking
    marks: tuple[Mark, ...]


_NARROW, _WIDE = set("iljtfrI.,:;|'!()[]{} -"), set("mwMW%@—…")


def text_width(text: str, size: float) -> float:
    """Return about how wide a text is; rather too wide than too narrow."""
    ems = 0.0
    for letter in text:
        if letter in _NARROW:
            ems += 0.4
        elif letter in _WIDE or ord(letter) > 0x2E80:  # ideographs fill their square
            ems += 1.0
        else:
            ems += 0.7 if letter.isupper() else 0.64
    return ems * size


def shorten(text: str, width: float, size: float = 12.0) -> str:
    """Return a text that fits, its end replaced by an ellipsis where it would not."""
    plain = " ".join(text.split())
    if text_width(plain, size) <= width:
        return plain
    while plain and text_width(plain + "…", size) > width:
        plain = plain[:-1]
    return plain.rstrip() + "…"


def centred(x: float, text: str, kind: str, y: float, *, size: float = 12.0,
            low: float = 0.0, high: float = WIDTH) -> Text:  # fmt: skip
    """Return a text centred on ``x``, moved so that it stays between ``low`` and ``high``."""
    half = text_width(text, size) / 2.0
    if x - half < low:
        return Text(low, y, text, kind, "start", size)
    if x + half > high:
        return Text(high, y, text, kind, "end", size)
    return Text(x, y, text, kind, "middle", size)


@dataclass(frozen=True, slots=True)
class Scale:
    """A straight line from values to pixels."""

    low: float
    high: float
    start: float
    end: float

    def __call__(self, value: float) -> float:
        """Return the pixel of a value, held within the ends."""
        share = (value - self.low) / (self.high - self.low)
        return self.start + min(1.0, max(0.0, share)) * (self.end - self.start)


def ticks(low: float, high: float, about: int = 4) -> list[float]:
    """Return round values between two ends."""
    step = 10.0 ** floor(log10((high - low) / about))
    for factor in (1.0, 2.0, 2.5, 5.0, 10.0):
        if (high - low) / (step * factor) <= about:
            step *= factor
            break
    first, last = ceil(low / step - 1e-9), floor(high / step + 1e-9)
    return [round(k * step, 12) + 0.0 for k in range(first, last + 1)]


def plain(value: float) -> str:
    """Return a number with at most four significant digits."""
    return f"{value:.4g}"


def decimals(limit: float) -> int:
    """Return how many decimals estimates near a limit are written with: four digits of it."""
    return 4 if limit == 0.0 else min(9, max(1, 3 - floor(log10(abs(limit)))))


def evalue_words(evalue: float) -> str:
    """Return an e-value for a table."""
    return f"{evalue:,.0f}" if evalue >= 100.0 else plain(evalue)


def count(number: int, noun: str) -> str:
    """Return a count with its noun: 1 release, 1,000 releases."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


PALETTES: dict[str, dict[str, str]] = {
    "light": {
        "paper": "#ffffff",
        "wash": "#f5f5f2",
        "ink": "#1d2024",
        "muted": "#565c64",
        "line": "#cfd3d8",
        "accent": "#1f4e79",
        "good": "#1a6b45",
        "open": "#855800",
        "bad": "#a3241c",
    },
    "dark": {
        "paper": "#15171b",
        "wash": "#1e2127",
        "ink": "#e9eaec",
        "muted": "#a9afb8",
        "line": "#40454d",
        "accent": "#93c0f2",
        "good": "#74d3a4",
        "open": "#e8b955",
        "bad": "#ff9d93",
    },
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """Fill and stroke by role; an empty role paints nothing."""

    fill: str = ""
    stroke: str = ""
    width: float = 1.0
    dash: tuple[float, ...] = ()
    opacity: float = 1.0  # of the fill
    weight: int = 400  # of words
    halo: bool = False  # words that may lie over marks


LOOKS: dict[str, Look] = {
    "axis": Look(stroke="muted"),
    "grid": Look(stroke="line"),
    "label": Look(fill="ink"),
    "strong": Look(fill="ink", weight=600),
    "quiet": Look(fill="muted"),
    "over": Look(fill="ink", weight=600, halo=True),
    "target": Look(stroke="ink", width=1.6, dash=(5.0, 3.0)),
    "limit": Look(stroke="ink", width=1.6, dash=(5.0, 3.0)),
    "estimate": Look(fill="accent"),
    "above": Look(stroke="bad", width=1.8),
    "whisker": Look(stroke="accent", width=1.1),
    "curve": Look(stroke="accent", width=2.0),
    "bounds": Look(stroke="accent", width=1.1, dash=(3.0, 2.0)),
    "band": Look(fill="accent", opacity=0.16),
    "bar": Look(fill="accent"),
    "bar-2": Look(fill="accent", opacity=0.62),
    "bar-3": Look(fill="accent", opacity=0.34),
    "rest": Look(fill="wash", stroke="line"),
    "loss": Look(fill="muted", opacity=0.55),
    "path": Look(stroke="accent", width=2.0),
    "boundary": Look(stroke="good", width=1.6, dash=(5.0, 3.0)),
    "look": Look(fill="paper", stroke="good", width=1.6),
    "validated": Look(fill="good"),
    "unresolved": Look(fill="open"),
    "violation": Look(fill="bad"),
    "validated-reading": Look(stroke="good", width=1.4, dash=(3.0, 2.0)),
    "unresolved-reading": Look(stroke="open", width=1.4, dash=(3.0, 2.0)),
    "violation-reading": Look(stroke="bad", width=1.4, dash=(3.0, 2.0)),
    "unresolved-ring": Look(fill="paper", stroke="open", width=2.0),
    "sign": Look(stroke="paper", width=2.2),
    "hover": Look(fill="paper", opacity=0.0),
}


def variables(scheme: str) -> str:
    """Return a palette as CSS custom properties."""
    return " ".join(f"--pg-{role}: {colour};" for role, colour in PALETTES[scheme].items())


def css() -> str:
    """Return the rules that give every kind of mark its look."""
    return "\n".join(f".pg-{kind} {{ {_rule(look)} }}" for kind, look in LOOKS.items())


def _rule(look: Look) -> str:
    parts = [f"fill: {_paint(look.fill)};", f"stroke: {_paint(look.stroke)};"]
    if look.stroke:
        parts.append(f"stroke-width: {look.width:g};")
    if look.dash:
        parts.append(f"stroke-dasharray: {' '.join(f'{d:g}' for d in look.dash)};")
    if look.opacity < 1.0:
        parts.append(f"fill-opacity: {look.opacity:g};")
    if look.weight != 400:
        parts.append(f"font-weight: {look.weight};")
    if look.halo:
        parts.append("stroke: var(--pg-paper); stroke-width: 4; paint-order: stroke;")
    return " ".join(parts)


def _paint(role: str) -> str:
    return f"var(--pg-{role})" if role else "none"
