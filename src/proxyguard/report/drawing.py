"""A picture as inline SVG: classes for looks, one text alternative, no script, no style.

A picture drawn by matplotlib, from the same marks as the page's.
"""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Any

from proxyguard.errors import ProxyGuardError
from proxyguard.printable import printable
from proxyguard.report.picture import (
    LOOKS,
    PALETTES,
    Circle,
    Line,
    Look,
    Mark,
    Path,
    Picture,
    Rect,
    Text,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure


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
    if isinstance(mark, Path):
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
    paint = _paint(look, palette) | {"zorder": order}
    if isinstance(mark, Line):
        axes.plot([mark.x1, mark.x2], [mark.y1, mark.y2], **_stroke(look, palette), zorder=order)
    elif isinstance(mark, Rect):
        axes.add_patch(patches.Rectangle((mark.x, mark.y), mark.width, mark.height, **paint))
    elif isinstance(mark, Circle):
        axes.add_patch(patches.Circle((mark.x, mark.y), mark.r, **paint))
    elif isinstance(mark, Path) and mark.closed:
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


def _paint(look: Look, palette: dict[str, str]) -> dict[str, Any]:
    from matplotlib.colors import to_rgba

    fill = to_rgba(palette[look.fill], look.opacity) if look.fill else "none"
    edge = palette[look.stroke] if look.stroke else "none"
    return {"facecolor": fill, "edgecolor": edge, "linewidth": look.width * 0.75}
