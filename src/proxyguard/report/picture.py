"""What a picture is made of, how its marks look, and how it is drawn: as SVG or by matplotlib.

A mark says what it is (``kind``), not what it looks like; `LOOKS` says that, once for the page
and for matplotlib, in the roles of two palettes. Coordinates are CSS pixels from the upper left
corner. `to_svg` gives inline SVG with classes for looks, one text alternative, no script and no
style; `to_figure` draws the same marks with matplotlib.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from math import ceil, floor, log10
from typing import TYPE_CHECKING, Literal

from proxyguard.extras import need
from proxyguard.printable import printable

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.patches import Patch

Anchor = Literal["start", "middle", "end"]
Point = tuple[float, float]
# Pictures are as wide as a phone's text, so that their words keep their size everywhere.
WIDTH = 360.0
# CSS pixels in an inch; a point is 4/3 of one.
PIXELS = 96.0


@dataclass(frozen=True, slots=True)
class Line:
    """A straight stroke.

    Attributes
    ----------
    x1, y1, x2, y2
        Where it begins and ends.
    kind
        What it is; a key of `LOOKS`.
    """

    x1: float
    y1: float
    x2: float
    y2: float
    kind: str


@dataclass(frozen=True, slots=True)
class Rect:
    """A box.

    Attributes
    ----------
    x, y, width, height
        Its upper left corner, and how far it goes from there.
    kind
        What it is; a key of `LOOKS`.
    tip
        Words for those who point at it.
    """

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

    points: tuple[Point, ...]
    kind: str
    closed: bool = False


@dataclass(frozen=True, slots=True)
class Writing:
    """Words at a baseline."""

    x: float
    y: float
    text: str
    kind: str = "label"
    anchor: Anchor = "start"
    size: float = 12.0


Mark = Line | Rect | Circle | Stroke | Writing


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
    """Return about how wide a text is; rather too wide than too narrow.

    Parameters
    ----------
    text
        One line.
    size
        Of the letters, in pixels.

    Notes
    -----
    No font is asked: readers have other ones than we do.
    """
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
    """Return a text that fits, its middle replaced by an ellipsis where it would not.

    Names that are cut are told apart by either end: what they are of, and which side or cell.

    Examples
    --------
    >>> shorten("a requirement with a long name", 80.0)
    'a re…name'
    """
    plain = " ".join(text.split())
    if text_width(plain, size) <= width:
        return plain
    head, tail = plain[: len(plain) // 2], plain[len(plain) // 2 :]
    # Letters are dropped one by one: their widths differ.
    while head and text_width(f"{head}…{tail}", size) > width:
        head, tail = (head, tail[1:]) if len(tail) > len(head) else (head[:-1], tail)
    return f"{head.rstrip()}…{tail.lstrip()}"


def centred(x: float, text: str, kind: str, y: float, *, size: float = 12.0) -> Writing:
    """Return a text centred on ``x``, moved so that it stays within the picture."""
    half = text_width(text, size) / 2.0
    if x - half < 0.0:
        return Writing(0.0, y, text, kind, "start", size)
    if x + half > WIDTH:
        return Writing(WIDTH, y, text, kind, "end", size)
    return Writing(x, y, text, kind, "middle", size)


@dataclass(frozen=True, slots=True)
class Scale:
    """A straight line from values to pixels.

    Examples
    --------
    >>> at = Scale(0.0, 1.0, 10.0, 110.0)
    >>> at(0.5), at(2.0)
    (60.0, 110.0)
    """

    low: float
    high: float
    start: float
    end: float

    def __call__(self, number: float) -> float:
        """Return the pixel of a number, held within the ends."""
        share = (number - self.low) / (self.high - self.low)
        return self.start + min(1.0, max(0.0, share)) * (self.end - self.start)


def ticks(low: float, high: float, about: int = 4) -> list[float]:
    """Return round values between two ends.

    Examples
    --------
    >>> ticks(0.0, 1.0)
    [0.0, 0.25, 0.5, 0.75, 1.0]
    """
    step = 10.0 ** floor(log10((high - low) / about))
    for factor in (1.0, 2.0, 2.5, 5.0, 10.0):
        if (high - low) / (step * factor) <= about:
            step *= factor
            break
    # An end that is a round value belongs to the scale, whatever its last digit is.
    first, last = ceil(low / step - 1e-9), floor(high / step + 1e-9)
    return [round(k * step, 12) + 0.0 for k in range(first, last + 1)]


def plain(number: float) -> str:
    """Return a number with at most four significant digits.

    Examples
    --------
    >>> plain(0.123456)
    '0.1235'
    """
    return f"{number:.4g}"


def decimals(limit: float) -> int:
    """Return how many decimals estimates near a limit are written with: four digits of it.

    Examples
    --------
    >>> decimals(0.3), decimals(0.003), decimals(20.0)
    (4, 6, 2)
    """
    return 4 if limit == 0.0 else min(9, max(1, 3 - floor(log10(abs(limit)))))


def evalue_words(evalue: float) -> str:
    """Return an e-value for a table.

    Examples
    --------
    >>> evalue_words(1234.5), evalue_words(0.25)
    ('1,234', '0.25')
    """
    return f"{evalue:,.0f}" if evalue >= 100.0 else plain(evalue)


def count(number: int, noun: str) -> str:
    """Return a count with its noun: 1 release, 1,000 releases.

    Examples
    --------
    >>> count(1, "draw"), count(1000, "draw")
    ('1 draw', '1,000 draws')
    """
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def framed(
    title: str, says: str, marks: Sequence[Mark], height: float, heading: str = ""
) -> Picture:
    """Return a picture as wide as all are, under a heading that it may have."""
    size = 13.0 if text_width(heading, 14.0) <= WIDTH else 11.0
    first, rest = "", " ".join(heading.split())
    if text_width(rest, size + 1.0) > WIDTH:  # two lines, in the place that one has otherwise
        blanks = [k for k, sign in enumerate(rest[:-2]) if sign == " "]  # no arrow stands alone
        fits = [k for k in blanks if text_width(rest[:k], size + 1.0) <= WIDTH]
        first, rest = rest[: fits[-1]] if fits else "", rest[fits[-1] + 1 :] if fits else rest
    words = shorten(rest, WIDTH, size + 1.0)
    top = [Writing(0.0, 8.0, first, "strong", size=size)] if first else []
    top += [Writing(0.0, 20.0 if first else 14.0, words, "strong", size=size)] if heading else []
    return Picture(width=WIDTH, height=height, title=title, says=says, marks=(*top, *marks))


def labelled(
    y: float, label: str, words: str, *, indent: float = 0.0, kind: str = "quiet"
) -> list[Mark]:
    """Return a label at the left, cut short for the words that stand at the right."""
    room = WIDTH - indent - text_width(words, 12.0) - 12.0
    return [
        Writing(indent, y, shorten(label, room), "label"),
        Writing(WIDTH, y, words, kind, "end"),
    ]


def stack(pieces: Sequence[tuple[float, str]], whole: float) -> list[Mark]:
    """Return pieces of a whole side by side, as parts of the picture's width."""
    marks: list[Mark] = []
    x = 0.0
    for size, kind in pieces:
        # A group without releases has no whole to be a share of.
        width = WIDTH * size / whole if whole else 0.0
        if width > 0:
            gap = 1.0 if width > 3.0 else 0.0  # neighbours of one colour stay apart
            marks.append(Rect(x, 26.0, max(width - gap, 0.5), 18.0, kind))
        x += width
    return marks


def legend(rows: Sequence[tuple[str, str, str]]) -> tuple[list[Mark], float]:
    """Return the legend of a stack, from (kind, label, words), and where it ends."""
    marks: list[Mark] = []
    y = 66.0
    for kind, label, words in rows:
        marks += [Rect(0.0, y - 9.0, 10.0, 10.0, kind), *labelled(y, label, words, indent=16.0)]
        y += 20.0
    return marks, y


def thinned(points: Sequence[Point], most: int) -> tuple[Point, ...]:
    """Return at most so many of the points, the first and the last among them."""
    last = len(points) - 1
    if last < most:
        return tuple(points)
    return tuple(points[r] for r in sorted({round(k * last / (most - 1)) for k in range(most)}))


# The colours of each role: in light, and in dark.
_COLOURS = {
    "paper": ("#ffffff", "#15171b"),
    "wash": ("#f5f5f2", "#1e2127"),
    "ink": ("#1d2024", "#e9eaec"),
    "muted": ("#565c64", "#a9afb8"),
    "line": ("#cfd3d8", "#40454d"),
    "accent": ("#1f4e79", "#93c0f2"),
    "good": ("#1a6b45", "#74d3a4"),
    "open": ("#855800", "#e8b955"),
    "bad": ("#a3241c", "#ff9d93"),
}
PALETTES = {
    scheme: {role: pair[index] for role, pair in _COLOURS.items()}
    for index, scheme in enumerate(("light", "dark"))
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
    "unscored": Look(fill="paper", stroke="accent", width=1.4),
    "above": Look(stroke="bad", width=1.8),
    "curve": Look(stroke="accent", width=2.0),
    "others": Look(stroke="open", width=2.0, dash=(6.0, 3.0)),
    "baseline": Look(stroke="muted", width=1.8, dash=(1.5, 2.5)),
    "point": Look(fill="paper", stroke="ink", width=2.0),
    "spread": Look(fill="accent", opacity=0.3),
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
    """Return the CSS of one look; what paints nothing says so, for SVG fills by default."""
    rules = [
        (f"fill: {_role(look.fill)};", True),
        (f"stroke: {_role(look.stroke)};", True),
        (f"stroke-width: {look.width:g};", bool(look.stroke)),
        (f"stroke-dasharray: {' '.join(f'{d:g}' for d in look.dash)};", bool(look.dash)),
        (f"fill-opacity: {look.opacity:g};", look.opacity < 1.0),
        (f"font-weight: {look.weight};", look.weight != 400),
        ("stroke: var(--pg-paper); stroke-width: 4; paint-order: stroke;", look.halo),
    ]
    return " ".join(rule for rule, wanted in rules if wanted)


def _role(role: str) -> str:
    return f"var(--pg-{role})" if role else "none"


def to_svg(picture: Picture) -> str:
    """Return the picture for a page; its words are escaped.

    Parameters
    ----------
    picture
        What is drawn; its words are the text alternative.

    Notes
    -----
    The looks come from the page's style: an element has a class and no style of its own, which the
    page's policy would refuse.
    """
    label = _words(f"{picture.title}. {picture.says}")
    size = f'width="{_n(picture.width)}" height="{_n(picture.height)}"'
    return _svg(
        picture, f'class="pg-picture" role="img" {_box(picture)} {size} aria-label="{label}"'
    )


def to_icon(picture: Picture) -> str:
    """Return a picture that stands beside the word it repeats, and is not read out."""
    return _svg(picture, f'class="pg-icon" aria-hidden="true" focusable="false" {_box(picture)}')


def _svg(picture: Picture, attributes: str) -> str:
    return f"<svg {attributes}>{''.join(_element(mark) for mark in picture.marks)}</svg>"


def _box(picture: Picture) -> str:
    return f'viewBox="0 0 {_n(picture.width)} {_n(picture.height)}"'


def _element(mark: Mark) -> str:
    """Return one mark as an element."""
    match mark:
        case Line(x1, y1, x2, y2, kind):
            return _tag("line", kind, x1=x1, y1=y1, x2=x2, y2=y2)
        case Rect(x, y, width, height, kind, tip):
            return _tag("rect", kind, tip, x=x, y=y, width=width, height=height)
        case Circle(x, y, r, kind, tip):
            return _tag("circle", kind, tip, cx=x, cy=y, r=r)
        case Stroke(points, kind, closed):
            line = "L".join(f"{_n(x)} {_n(y)}" for x, y in points)
            return f'<path class="pg-{kind}" d="M{line}{"Z" if closed else ""}"/>'
        case Writing(x, y, text, kind, anchor, size):
            place = f'x="{_n(x)}" y="{_n(y)}" font-size="{_n(size)}"'
            place += "" if anchor == "start" else f' text-anchor="{anchor}"'
            return f'<text class="pg-{kind}" {place}>{_words(text)}</text>'


def _tag(name: str, kind: str, tip: str = "", **numbers: float) -> str:
    """Return an element with its numbers, and a title where there is a tip."""
    start = f'<{name} class="pg-{kind}" ' + " ".join(f'{k}="{_n(n)}"' for k, n in numbers.items())
    return f"{start}><title>{_words(tip)}</title></{name}>" if tip else f"{start}/>"


def _words(text: str) -> str:
    """Return text that cannot become markup, nor turn or hide writing."""
    return escape(printable(text))


def _n(number: float) -> str:
    """Return a coordinate in tenths, so that every machine writes the same digits."""
    tenths = round(number * 10)
    return str(tenths // 10) if tenths % 10 == 0 else f"{tenths / 10:.1f}"


def to_figure(picture: Picture, *, scheme: str = "light") -> Figure:
    """Return the picture as a matplotlib figure of the same size.

    Parameters
    ----------
    picture
        What is drawn.
    scheme
        ``"light"`` or ``"dark"``.

    Raises
    ------
    MissingExtra
        Where matplotlib is not installed; the [plots] extra brings it.
    """
    need("a figure", ["matplotlib"], "plots")
    from matplotlib.figure import Figure

    palette = PALETTES[scheme]
    size = (picture.width / PIXELS, picture.height / PIXELS)
    figure = Figure(figsize=size, dpi=PIXELS, facecolor=palette["paper"])
    axes = figure.add_axes((0.0, 0.0, 1.0, 1.0))
    axes.set_xlim(0.0, picture.width)
    # Downwards, as on the page.
    axes.set_ylim(picture.height, 0.0)
    axes.axis("off")
    for order, mark in enumerate(picture.marks):
        _draw(axes, mark, palette, order)
    return figure


def _draw(axes: Axes, mark: Mark, palette: dict[str, str], order: int) -> None:
    """Draw one mark over those before it."""
    from matplotlib import patches
    from matplotlib.colors import to_rgba

    look = LOOKS[mark.kind]
    shape: Patch
    match mark:
        case Writing():
            _write(axes, mark, palette, order)
            return
        case Line(x1, y1, x2, y2):
            _stroke(axes, ((x1, y1), (x2, y2)), look, palette, order)
            return
        case Stroke(points, closed=False):
            _stroke(axes, points, look, palette, order)
            return
        case Rect(x, y, width, height):
            shape = patches.Rectangle((x, y), width, height)
        case Circle(x, y, r):
            shape = patches.Circle((x, y), r)
        case Stroke(points):
            shape = patches.Polygon(list(points), closed=True)
    shape.set(
        facecolor=to_rgba(palette[look.fill], look.opacity) if look.fill else "none",
        edgecolor=palette[look.stroke] if look.stroke else "none",
        linewidth=look.width * 0.75, zorder=order,
    )  # fmt: skip
    axes.add_patch(shape)


def _stroke(
    axes: Axes, points: tuple[Point, ...], look: Look, palette: dict[str, str], order: int
) -> None:
    """Draw a line through points; dashes are in widths of the line, as matplotlib counts them."""
    xs, ys = zip(*points, strict=True)
    axes.plot(
        xs, ys, zorder=order, linewidth=look.width * 0.75, solid_capstyle="butt",
        color=palette[look.stroke] if look.stroke else "none",
        linestyle=(0, tuple(d / look.width for d in look.dash)) if look.dash else "-",
    )  # fmt: skip


def _write(axes: Axes, mark: Writing, palette: dict[str, str], order: int) -> None:
    """Write words at their baseline."""
    from matplotlib import patheffects

    look = LOOKS[mark.kind]
    side = {"start": "left", "middle": "center", "end": "right"}[mark.anchor]
    # A dollar sign in a user's name must stay one, and not start a formula.
    shown = axes.text(
        mark.x, mark.y, mark.text.replace("$", r"\$"), fontsize=mark.size * 0.75,
        ha=side, va="baseline", color=palette[look.fill], family="DejaVu Sans",
        weight=look.weight, zorder=order,
    )  # fmt: skip
    if look.halo:
        paper = palette["paper"]
        shown.set_path_effects([patheffects.withStroke(linewidth=4.0 * 0.75, foreground=paper)])
