"""A picture drawn by matplotlib, from the same marks as the page's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from proxyguard.errors import ProxyGuardError
from proxyguard.report.pictures.look import LOOKS, PALETTES, Look
from proxyguard.report.pictures.picture import Circle, Line, Mark, Path, Picture, Rect, Text

if TYPE_CHECKING:
    from matplotlib.figure import Figure

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
