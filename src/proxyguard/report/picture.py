"""What a picture is made of: lines, boxes, discs, paths and words, each with a meaning.

A mark says what it is (``kind``), not what it looks like; `look` says that, once for the page
and for matplotlib. Coordinates are CSS pixels from the upper left corner.

From values to pixels, and from numbers to words that claim no more than they should.

How each kind of mark looks: roles of a palette, in light and dark, for page and matplotlib.
"""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from math import ceil, floor, log10
from typing import TYPE_CHECKING, Any, Literal

from proxyguard.errors import ProxyGuardError
from proxyguard.printable import printable

if TYPE_CHECKING:
    from matplotlib.figure import Figure

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
class Stroke:
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


Mark = Line | Rect | Circle | Stroke | Text


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


def to_svg(picture: Picture) -> str:
    """Return the picture for a page; its words are escaped."""
    size = f'width="{_n(picture.width)}" height="{_n(picture.height)}"'
    box = f'viewBox="0 0 {_n(picture.width)} {_n(picture.height)}"'
    label = _words(f"{picture.title}. {picture.says}")
    body = "".join(_mark(mark) for mark in picture.marks)
    return f'<svg class="pg-picture" role="img" {box} {size} aria-label="{label}">{body}</svg>'


def to_icon(picture: Picture) -> str:
    """Return a picture that stands beside the word it repeats, and is not read out."""
    box = f'viewBox="0 0 {_n(picture.width)} {_n(picture.height)}"'
    body = "".join(_mark(mark) for mark in picture.marks)
    return f'<svg class="pg-icon" aria-hidden="true" focusable="false" {box}>{body}</svg>'


def _mark(mark: Mark) -> str:
    name = f'class="pg-{mark.kind}"'
    if isinstance(mark, Line):
        ends = f'x1="{_n(mark.x1)}" y1="{_n(mark.y1)}" x2="{_n(mark.x2)}" y2="{_n(mark.y2)}"'
        return f"<line {name} {ends}/>"
    if isinstance(mark, Rect):
        box = f'x="{_n(mark.x)}" y="{_n(mark.y)}"'
        size = f'width="{_n(mark.width)}" height="{_n(mark.height)}"'
        return _with_tip("rect", f"{name} {box} {size}", mark.tip)
    if isinstance(mark, Circle):
        place = f'cx="{_n(mark.x)}" cy="{_n(mark.y)}" r="{_n(mark.r)}"'
        return _with_tip("circle", f"{name} {place}", mark.tip)
    if isinstance(mark, Stroke):
        points = "L".join(f"{_n(x)} {_n(y)}" for x, y in mark.points)
        return f'<path {name} d="M{points}{"Z" if mark.closed else ""}"/>'
    return _text(mark, name)


def _text(mark: Text, name: str) -> str:
    anchor = "" if mark.anchor == "start" else f' text-anchor="{mark.anchor}"'
    place = f'x="{_n(mark.x)}" y="{_n(mark.y)}" font-size="{_n(mark.size)}"'
    return f"<text {name} {place}{anchor}>{_words(mark.text)}</text>"


def _with_tip(element: str, attributes: str, tip: str) -> str:
    if not tip:
        return f"<{element} {attributes}/>"
    return f"<{element} {attributes}><title>{_words(tip)}</title></{element}>"


def _words(text: str) -> str:
    """Return text that cannot become markup, nor turn or hide writing."""
    return escape(printable(text))


def _n(value: float) -> str:
    """Return a coordinate in tenths, so that every machine writes the same digits."""
    tenths = round(value * 10)
    return str(tenths // 10) if tenths % 10 == 0 else f"{tenths / 10:.1f}"


PIXELS = 96.0
"""CSS pixels in an inch; a point is 4/3 of one."""


def to_figure(picture: Picture, *, scheme: str = "light") -> Figure:
    """Return the picture as a figure of the same size; needs the [plots] extra."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ProxyGuardError(
            'a figure needs matplotlib: pip install "proxyguard[plots]"'
        ) from error
    palette = PALETTES[scheme]
    size = (picture.width / PIXELS, picture.height / PIXELS)
    figure = Figure(figsize=size, dpi=PIXELS, facecolor=palette["paper"])
    axes = figure.add_axes((0.0, 0.0, 1.0, 1.0))
    axes.set_xlim(0.0, picture.width)
    axes.set_ylim(picture.height, 0.0)
    axes.axis("off")
    for order, mark in enumerate(picture.marks):
        _draw(axes, mark, LOOKS[mark.kind], palette, order)
    return figure


def _draw(axes: Any, mark: Mark, look: Look, palette: dict[str, str], order: int) -> None:
    from matplotlib import patches

    if isinstance(mark, Text):
        _write(axes, mark, look, palette, order)
        return
    paint = _filled(look, palette) | {"zorder": order}
    if isinstance(mark, Line):
        axes.plot([mark.x1, mark.x2], [mark.y1, mark.y2], **_stroke(look, palette), zorder=order)
    elif isinstance(mark, Rect):
        axes.add_patch(patches.Rectangle((mark.x, mark.y), mark.width, mark.height, **paint))
    elif isinstance(mark, Circle):
        axes.add_patch(patches.Circle((mark.x, mark.y), mark.r, **paint))
    elif isinstance(mark, Stroke) and mark.closed:
        axes.add_patch(patches.Polygon(list(mark.points), closed=True, **paint))
    else:
        xs, ys = zip(*mark.points, strict=True)
        axes.plot(xs, ys, **_stroke(look, palette), zorder=order)


def _write(axes: Any, mark: Text, look: Look, palette: dict[str, str], order: int) -> None:
    from matplotlib import patheffects

    side = {"start": "left", "middle": "center", "end": "right"}[mark.anchor]
    # A dollar sign in a user's name must stay one, and not start a formula.
    shown = axes.text(
        mark.x, mark.y, mark.text.replace("$", r"\$"), fontsize=mark.size * 0.75,
        ha=side, va="baseline", color=palette[look.fill], family="DejaVu Sans",
        weight=look.weight, zorder=order,
    )  # fmt: skip
    if look.halo:
        width = 4.0 * 0.75
        shown.set_path_effects(
            [patheffects.withStroke(linewidth=width, foreground=palette["paper"])]
        )


def _stroke(look: Look, palette: dict[str, str]) -> dict[str, Any]:
    style: Any = (0, tuple(d / look.width for d in look.dash)) if look.dash else "-"
    return {
        "color": palette[look.stroke] if look.stroke else "none",
        "linewidth": look.width * 0.75,
        "linestyle": style,
        "solid_capstyle": "butt",
    }


def _filled(look: Look, palette: dict[str, str]) -> dict[str, Any]:
    from matplotlib.colors import to_rgba

    fill = to_rgba(palette[look.fill], look.opacity) if look.fill else "none"
    edge = palette[look.stroke] if look.stroke else "none"
    return {"facecolor": fill, "edgecolor": edge, "linewidth": look.width * 0.75}
