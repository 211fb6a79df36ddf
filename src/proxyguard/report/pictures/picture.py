"""What a picture is made of: lines, boxes, discs, paths and words, each with a meaning.

A mark says what it is (``kind``), not what it looks like; `look` says that, once for the page
and for matplotlib. Coordinates are CSS pixels from the upper left corner.
"""

from __future__ import annotations

from dataclasses import dataclass
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
