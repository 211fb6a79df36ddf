"""Marks that the figures share: one look for each family of methods, and four kinds of panel.

The paper's methods are grey and blue, ours orange, invalid diagnostics red and dotted or
hatched, the oracle dashed black. A black ring or tick is a published figure. Every kind of
panel takes rows and draws those that are there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from proxyguard import ProxyGuardError
from reproduction.studies.rows import Row
from reproduction.studies.study import Status

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Rows = Sequence[Row]
NOTE = "Black rings and ticks: published figures. Thin lines: 95 % Monte Carlo limits."
GREY, LIGHT_GREY, BLUE, LIGHT_BLUE, STEEL, NAVY = (
    "#66717E", "#A9B2BC", "#2B6CB0", "#8FB8DE", "#5C8FA8", "#163B66",
)  # fmt: skip
ORANGE, AMBER, RED, BLACK, INK, FAINT = (
    "#E36A00", "#F2A65E", "#A3213B", "#111111", "#2F3640", "#D9DDE2",
)  # fmt: skip

PAPER_COLOURS = {
    "direct": BLUE,
    "direct, .9/.1": BLUE,
    "direct, .5/.5": LIGHT_BLUE,
    "fixed, direct": BLUE,
    "hybrid": LIGHT_BLUE,
    "collective": STEEL,
    "tail-Simes": STEEL,
    "tail-Fisher": NAVY,
    "Bonferroni": LIGHT_GREY,
    "simple random": LIGHT_GREY,
    "hard + Markov": LIGHT_GREY,
    "ramp + Markov": LIGHT_BLUE,
    "ramp + concentration": BLUE,
}
TEST_MARKERS = {
    "t = .01": "X",
    "randomized": "D",
    "binomial": "o",
    "bentkus": "s",
    "betting": "^",
    "Bernstein": "v",
    "slack": "P",
}

RC: dict[str, Any] = {
    "axes.axisbelow": True,
    "axes.edgecolor": INK,
    "axes.grid": True,
    "axes.grid.axis": "y",
    "axes.labelcolor": INK,
    "axes.labelsize": 9,
    "axes.linewidth": 0.7,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlelocation": "left",
    "axes.titlesize": 9.5,
    "figure.dpi": 100,
    "figure.facecolor": "white",
    "font.family": "DejaVu Sans",  # comes with matplotlib, so every machine has it
    "font.size": 9,
    "grid.color": FAINT,
    "grid.linewidth": 0.6,
    "hatch.linewidth": 0.7,
    "lines.linewidth": 1.5,
    "svg.fonttype": "path",
    "svg.hashsalt": "proxyguard",
    "text.color": INK,
    "xtick.color": INK,
    "xtick.labelsize": 8.5,
    "ytick.color": INK,
    "ytick.labelsize": 8.5,
}


def has_matplotlib() -> bool:
    """Whether the figures' one dependency is installed."""
    return find_spec("matplotlib") is not None


def need_matplotlib() -> None:
    """Raise a clear error where the figures' one dependency is not installed."""
    if not has_matplotlib():
        raise ProxyGuardError(
            'figures need matplotlib; install it with pip install "proxyguard[plots]"'
        )


@contextmanager
def style() -> Iterator[None]:
    """Hold matplotlib to the look of these figures, whatever a user's settings are."""
    need_matplotlib()
    import matplotlib as mpl

    with mpl.rc_context():
        mpl.rcdefaults()
        mpl.rcParams.update(RC)  # type: ignore[arg-type] # its keys are a list of literals
        yield


def sheet(
    rows: int, columns: int, title: str, *, height: float, note: str = ""
) -> tuple[Figure, list[list[Axes]]]:
    """Return an empty figure 1000 pixels wide, and its panels row by row."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10.0, height), layout="constrained")
    figure.suptitle(title, x=0.008, ha="left", fontsize=12, fontweight="bold")
    if note:
        figure.supxlabel(note, x=0.008, ha="left", fontsize=8, color=GREY)
    panels = figure.subplots(rows, columns, squeeze=False)
    return figure, [list(line) for line in panels]


def save(figure: Figure, place: Path) -> None:
    """Write a figure whose bytes depend on its marks alone."""
    place.parent.mkdir(parents=True, exist_ok=True)
    kind = place.suffix.removeprefix(".")
    figure.savefig(
        place,
        format=kind,
        metadata={"Date": None, "Creator": None} if kind == "svg" else {"Software": None},
    )


@dataclass(frozen=True, slots=True)
class Look:
    """How one method is drawn."""

    colour: str
    marker: str
    line: str = "-"
    hatch: str = ""
    filled: bool = True


def look(method: str, status: str) -> Look:
    """Return the look of a method, the same in every figure."""
    if status == Status.INVALID.value:
        return Look(RED, "x", ":", "////")
    if status == Status.ORACLE.value:
        return Look(BLACK, "", "--", filled=False)
    if status == Status.OURS.value:
        marker = next((m for word, m in TEST_MARKERS.items() if word in method), "o")
        line = "-." if "futility" in method or "t = .01" in method else "-"
        return Look(ORANGE if "sharp" in method else AMBER, marker, line)
    return Look(PAPER_COLOURS.get(method, GREY), "o")


def limits(row: Row) -> tuple[float, float]:
    """Return 95 % Monte Carlo limits: Wilson's for a rate, normal ones for another mean.

    A computed value has no Monte Carlo error, and its limits are itself.
    """
    if row.standard_error is None:
        return row.value, row.value
    if row.wilson is not None:
        return row.wilson
    return row.value - 1.96 * row.standard_error, row.value + 1.96 * row.standard_error


def of(rows: Rows, metric: str | None = None, **cell: Any) -> list[Row]:
    """Return the rows of one metric whose cells have these values."""
    return [
        row
        for row in rows
        if (metric is None or row.metric == metric)
        and all(row.cell.get(name) == value for name, value in cell.items())
    ]


def values_of(rows: Rows, name: str) -> list[Any]:
    """Return the different values of one cell parameter, sorted."""
    return sorted({row.cell[name] for row in rows if name in row.cell})


def methods_of(rows: Rows) -> dict[str, str]:
    """Return the methods with their statuses, in the order of the rows."""
    return {row.method: row.status for row in rows}


def by(name: str) -> Callable[[Row], float]:
    """Return what reads one cell parameter off a row."""
    return lambda row: float(row.cell[name])


def curves(ax: Axes, rows: Rows, x: Callable[[Row], float], *, labels: float | None = None) -> None:
    """Draw one line a method; ``labels`` names them at the right, that far apart at least."""
    ends = []
    for method, status in methods_of(rows).items():
        own = sorted((row for row in rows if row.method == method), key=x)
        shape = look(method, status)
        at, value = [x(row) for row in own], [row.value for row in own]
        low, high = zip(*(limits(row) for row in own), strict=True)
        ax.vlines(at, low, high, color=shape.colour, linewidth=1.0, alpha=0.6)
        ax.plot(
            at, value, shape.line, color=shape.colour, marker=shape.marker or None,
            markersize=4.5, label=method, clip_on=False, zorder=3,
        )  # fmt: skip
        printed = [(x(row), row.published) for row in own if row.published is not None]
        if printed:
            ax.plot(
                *zip(*printed, strict=True), "o", markersize=8.5, markerfacecolor="none",
                color=BLACK, markeredgewidth=0.8, label="published", clip_on=False, zorder=4,
            )  # fmt: skip
        ends.append((method, at[-1], value[-1], shape.colour))
    if labels is not None:
        _name_ends(ax, ends, labels)


def _name_ends(ax: Axes, ends: Sequence[tuple[str, float, float, str]], gap: float) -> None:
    """Write each name beside the end of its line, moved apart where lines meet."""
    if not ends:
        return
    ax.get_ylim()  # settles the limits before positions are read
    to_axes = ax.transData + ax.transAxes.inverted()
    placed = [to_axes.transform((x, y)) for _, x, y, _ in ends]
    for (name, x, y, colour), height in zip(ends, spread([p[1] for p in placed], gap), strict=True):
        ax.annotate(
            name, xy=(x, y), xycoords="data", xytext=(1.07, height), textcoords="axes fraction",
            color=colour, va="center", fontsize=8.5, annotation_clip=False,
            arrowprops={"arrowstyle": "-", "color": colour, "linewidth": 0.5, "shrinkB": 3,
                        "alpha": 0.6, "relpos": (0.0, 0.5)},
        )  # fmt: skip


def spread(heights: Sequence[float], gap: float) -> list[float]:
    """Return heights at least a gap apart, in the same order, near the given ones.

    Neighbours that are too close are joined into a block around their mean.

    >>> [round(h, 3) for h in spread([0.5, 0.5, 0.9], 0.1)]
    [0.45, 0.55, 0.9]
    """
    order = sorted(range(len(heights)), key=lambda i: (heights[i], i))
    blocks: list[list[int]] = []

    def bottom(block: Sequence[int]) -> float:
        middle = float(np.mean([heights[i] for i in block])) - gap * (len(block) - 1) / 2
        return min(max(0.0, middle), max(0.0, 1.0 - gap * (len(block) - 1)))

    for i in order:
        blocks.append([i])
        while len(blocks) > 1 and bottom(blocks[-1]) < bottom(blocks[-2]) + gap * len(blocks[-2]):
            last = blocks.pop()
            blocks[-1] += last
    found = {i: bottom(block) + gap * k for block in blocks for k, i in enumerate(block)}
    return [found[i] for i in range(len(heights))]


def bars(
    ax: Axes, rows: Rows, methods: Mapping[str, str], *, names: bool, room: float | None = None
) -> None:
    """Draw one horizontal bar a method, its value beside it, a tick where a figure was printed.

    ``room`` is the largest value that the axis has to show.
    """
    own = {row.method: row for row in rows}
    if room is None:
        room = max(max(limits(row)[1], row.published or 0.0) for row in rows)
    for place, (method, status) in enumerate(methods.items()):
        row = own.get(method)
        if row is None:
            continue
        shape = look(method, status)
        low, high = limits(row)
        pale = shape.hatch or not shape.filled
        ax.barh(
            place, row.value, height=0.66, color="white" if pale else shape.colour,
            edgecolor=shape.colour, hatch=shape.hatch, linewidth=0.9, label=method,
            linestyle=shape.line if not shape.filled else "-",
        )  # fmt: skip
        ax.hlines(place, low, high, color=INK, linewidth=0.9)
        if row.published is not None:
            ax.vlines(
                row.published, place - 0.42, place + 0.42, color=BLACK, linewidth=1.6,
                label="published", zorder=4,
            )  # fmt: skip
        ax.text(
            max(high, row.value, row.published or 0.0) + 0.02 * room, place, number(row.value),
            va="center", fontsize=8, zorder=5,
            bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.6},
        )  # fmt: skip
    name_methods(ax, methods, names=names)
    ax.set_xlim(0.0, 1.2 * room)
    ax.grid(axis="x")
    ax.grid(visible=False, axis="y")


def name_methods(ax: Axes, methods: Mapping[str, str], *, names: bool) -> None:
    """Give each method a line of the panel, from the top down, named at the left or not."""
    ax.set_yticks(range(len(methods)), list(methods) if names else [""] * len(methods))
    for text, (method, status) in zip(ax.get_yticklabels(), methods.items(), strict=True):
        text.set_color(_readable(look(method, status).colour))
    ax.tick_params(axis="y", length=0)
    ax.spines["left"].set_visible(False)
    ax.set_ylim(len(methods) - 0.05, -0.6)  # the budget is named under the last line


def _readable(colour: str) -> str:
    """Return a colour dark enough for text."""
    return {LIGHT_GREY: GREY, LIGHT_BLUE: BLUE, AMBER: "#B86A14", ORANGE: "#C25900"}.get(
        colour, colour
    )


def dots(
    ax: Axes,
    rows: Rows,
    methods: Mapping[str, str],
    *,
    filled: Callable[[Row], bool] = lambda row: True,
) -> None:
    """Draw one line of dots a method, hollow where ``filled`` says so."""
    for place, (method, status) in enumerate(methods.items()):
        shape = look(method, status)
        own = [row for row in rows if row.method == method]
        shift = dict(zip(range(len(own)), np.linspace(-0.14, 0.14, len(own)), strict=True))
        for k, row in enumerate(own):
            at = place + (shift[k] if len(own) > 1 else 0.0)
            low, high = limits(row)
            ax.hlines(at, low, high, color=shape.colour, linewidth=1.0, alpha=0.6)
            ax.plot(
                row.value, at, marker=shape.marker or "d", color=shape.colour, markersize=6,
                markerfacecolor=shape.colour if filled(row) else "white", linestyle="none",
                label=method, clip_on=False, zorder=3,
            )  # fmt: skip
            if row.published is not None:
                ax.plot(
                    row.published, at, "o", markersize=10, markerfacecolor="none", color=BLACK,
                    markeredgewidth=0.8, label="published", clip_on=False, zorder=4,
                )  # fmt: skip
    ax.grid(axis="x")
    ax.grid(visible=False, axis="y")


def heat(
    ax: Axes,
    values: Mapping[tuple[Any, Any], float],
    *,
    colours: tuple[str, str],
    across: Sequence[Any],
    down: Sequence[Any],
    middle: float = 0.0,
    reach: float = 1.0,
    write: Callable[[float], str] | None = None,
) -> None:
    """Draw numbers within ``reach`` of ``middle`` as a map, each written into its field.

    Below the middle the first colour deepens, above it the second. By default they are
    differences between -1 and 1, written with their signs.
    """
    from matplotlib.colors import LinearSegmentedColormap, Normalize

    shades = LinearSegmentedColormap.from_list("difference", (colours[0], "#FFFFFF", colours[1]))
    field = np.array([[values.get((y, x), np.nan) for x in across] for y in down])
    scale = Normalize(middle - reach, middle + reach)
    ax.pcolormesh(field, cmap=shades, norm=scale, edgecolors=FAINT, linewidth=0.8)
    for i, line in enumerate(field):
        for k, value in enumerate(line):
            if np.isnan(value):
                continue
            red, green, blue, _ = shades(float(scale(value)))
            dark = 0.299 * red + 0.587 * green + 0.114 * blue < 0.56
            ax.text(
                k + 0.5, i + 0.5, (write or signed)(float(value)), ha="center", va="center",
                fontsize=8.5,
                color="white" if dark else INK,
            )  # fmt: skip
    ax.set_xticks(np.arange(len(across)) + 0.5, [str(x) for x in across])
    ax.set_yticks(np.arange(len(down)) + 0.5, [str(y) for y in down])
    ax.tick_params(length=0)
    ax.grid(visible=False)
    for side in ax.spines.values():
        side.set_visible(False)


def rates(ax: Axes, metric: str, *, root: bool = False, top: float = 1.0) -> None:
    """Make the vertical axis one of rates up to ``top``; ``root`` opens the small ones."""
    ticks = [0.0, 0.25, 0.5, 0.75, 1.0]
    if root:
        ax.set_yscale("function", functions=(lambda v: np.sqrt(np.maximum(v, 0.0)), np.square))
        ticks = [0.0, 0.01, 0.05, 0.2, 0.5, 1.0]
    elif top < 0.2:
        ticks = [0.0, 0.025, 0.05, 0.075, 0.1]
    shown = [tick for tick in ticks if tick <= top]
    ax.set_yticks(shown, [f"{tick:g}" for tick in shown])
    ax.set_ylim(0.0, top)
    ax.set_ylabel(metric)


def share_axis(ax: Axes, name: str) -> None:
    """Make the horizontal axis one of rates."""
    ax.set_xlim(-0.02, 1.02)
    ax.set_xticks([0.0, 0.25, 0.5, 0.75, 1.0], ["0", "0.25", "0.5", "0.75", "1"])
    ax.set_xlabel(name)


def ticks(ax: Axes, values: Sequence[Any]) -> None:
    """Put ticks where the rows are, and nowhere else."""
    ax.set_xticks([float(v) for v in values], [f"{v:g}" for v in values])
    ax.set_xticks([], minor=True)


def budget(ax: Axes, level: float, *, upright: bool = False, name: str = "") -> None:
    """Draw the error budget as a thin line."""
    line = ax.axvline if upright else ax.axhline
    line(level, color=RED, linewidth=0.9, linestyle=(0, (6, 2)), label="budget", zorder=1)
    if name:
        where = (level, 0.02) if upright else (0.02, level)
        ax.annotate(
            name, xy=where,
            xycoords=("data", "axes fraction") if upright else ("axes fraction", "data"),
            xytext=(3, 2), textcoords="offset points", fontsize=8, color=RED,
        )  # fmt: skip


def number(value: float) -> str:
    """Return a value as it stands beside a mark.

    >>> number(0.0), number(1.0), number(0.6424), number(0.00053)
    ('0', '1', '0.642', '0.0005')
    """
    if value in (0.0, 1.0):
        return f"{value:.0f}"
    return f"{value:.4f}" if abs(value) < 0.01 else f"{value:.3f}"


def signed(value: float) -> str:
    """Return a difference with its sign, a plain 0 where nothing is left after rounding.

    >>> signed(0.5167), signed(-0.004), signed(-0.25)
    ('+0.52', '0', '-0.25')
    """
    text = f"{value:+.2f}"
    return "0" if text[1:] == "0.00" else text
