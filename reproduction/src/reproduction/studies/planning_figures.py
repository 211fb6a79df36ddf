"""The figures of the planning studies: B7, C1 to C3."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from reproduction.studies.costs import OURS, PAPERS, SHARP
from reproduction.studies.plotting import (
    BLUE,
    GREY,
    ORANGE,
    Rows,
    by,
    curves,
    methods_of,
    of,
    sheet,
    ticks,
    values_of,
)
from reproduction.studies.rows import Row
from reproduction.studies.study import Status

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def release_planning(rows: Rows) -> Figure:
    """Return the least number of releases that can validate, named and sharp."""
    figure, panels = sheet(1, 1, "The fewest releases that can validate at all", height=3.4)
    ax = panels[0][0]
    for target in values_of(rows, "eta_0"):
        for method, status in methods_of(rows).items():
            own = sorted(
                (r for r in of(rows, eta_0=target) if r.method == method), key=lambda r: r.cell["H"]
            )
            at, value = [r.cell["H"] for r in own], [r.value for r in own]
            ours = status == Status.OURS.value
            colour = ORANGE if ours else BLUE if target > 0.85 else GREY
            ax.plot(at, value, "-o", color=colour, label=f"{method}, {target:g}")
            for x, y in zip(at, value, strict=True):
                ax.annotate(f"{y:g}", (x, y), (0, -13 if ours else 6), color=colour,
                            textcoords="offset points", ha="center")  # fmt: skip
            ax.annotate(f"{method}, target {target:g}", (at[-1], value[-1]), (14, -3),
                        color=colour, textcoords="offset points")  # fmt: skip
    ticks(ax, values_of(rows, "H"))
    ax.set_ylim(0, None)
    ax.margins(y=0.15)
    ax.set_xlabel("mechanisms")
    ax.set_ylabel("releases of each")
    return figure


def cost_plan(rows: Rows) -> Figure:
    """Return the projected bound of the chosen plan, and its cost and power, by release cost."""
    named = values_of(rows, "named")
    figure, panels = sheet(
        1 + len(named), 1, "The chosen plan by the cost of a release",
        height=3.6 + 3.0 * len(named),
        note="Beside the paper's marks: chosen mode, records x releases. Black rings: published "
        "figures. Below: what a plan costs; beside each mark, how often it validates .8.",
    )  # fmt: skip
    _projections(panels[0][0], rows)
    for ax, rate in zip((line[0] for line in panels[1:]), named, strict=True):
        _costs(ax, of(rows, named=rate), rate)
    panels[-1][0].set_xlabel("cost of a release, in target records (budget 10,000)")
    return figure


def _projections(ax: Axes, rows: Rows) -> None:
    """Draw the bounds that the paper's planner projects, with its bound and with the sharp one."""
    ax.set_xscale("log")
    ax.margins(x=0.12)
    ax.set_ylim(0.72, 1.0)
    lines = []
    for named in values_of(rows, "named"):
        for method in methods_of(rows):
            own = [row for row in of(rows, named=named) if row.method == method]
            bounds = of(own, "projected bound")
            lines += [replace(row, method=f"{method}, named rate {named:g}") for row in bounds]
            if method == PAPERS:
                for row in bounds:
                    at = of(own, ratio=row.cell["ratio"])
                    _name_plan(ax, row, {r.metric: r.value for r in at})
    curves(ax, lines, by("ratio"), labels=0.06)
    ticks(ax, values_of(rows, "ratio"))
    ax.set_ylabel("projected bound")


def _costs(ax: Axes, rows: Rows, named: float) -> None:
    """Draw what the paper's plan and ours cost, and write beside it how often each validates.

    The plans with the sharp bound cost what the paper's do and would only cover them.
    """
    own = [row for row in rows if row.method != SHARP]
    costs = {(r.method, r.cell["ratio"]): r.value for r in of(own, "cost")}
    ax.set_xscale("log")
    ax.set_yscale("log")
    ax.margins(x=0.12, y=0.25)
    curves(ax, of(own, "cost"), by("ratio"), labels=0.12)
    for row in of(own, "power"):
        ratio = row.cell["ratio"]
        ours = row.status == Status.OURS.value
        dearest = costs[row.method, ratio] == max(c for (_, at), c in costs.items() if at == ratio)
        ax.annotate(f"{100 * row.value:.0f} %", (ratio, costs[row.method, ratio]),
                    (0, 7 if dearest else -13), color=ORANGE if ours else GREY,
                    textcoords="offset points", ha="center", fontsize=8)  # fmt: skip
    ticks(ax, values_of(rows, "ratio"))
    ax.set_ylabel("cost of the plan")
    ax.set_title(f"named rate {named:g}")


def _name_plan(ax: Axes, row: Row, chosen: Mapping[str, float]) -> None:
    """Write a plan beside its mark, direct ones below and named ones above, off the lines."""
    direct, steep = bool(chosen["direct"]), row.cell["ratio"] >= 10
    ax.annotate(
        f"{'direct' if direct else 'named'}, {chosen['n']:g} x {chosen['R']:g}",
        (row.cell["ratio"], row.value), (0, -7 if direct else 7), textcoords="offset points",
        ha="center" if not steep else ("right" if direct else "left"),
        va="top" if direct else "bottom", fontsize=8, color=BLUE if direct else GREY,
    )  # fmt: skip


def cost_plan_sensitivity(rows: Rows) -> Figure:
    """Return mode switches and regret of wrong pilot rates against the cost of a release."""
    shown = ("mode switches", "mean regret", "largest regret", "largest loss of power")
    figure, panels = sheet(
        1, 4, "Pilot rates wrong by up to 0.10 either way: what the planner loses", height=3.2,
        note="Black rings: published figures.",
    )  # fmt: skip
    for ax, metric in zip(panels[0], shown, strict=True):
        own = of(rows, metric)
        ax.set_xscale("log")
        ticks(ax, values_of(rows, "ratio"))
        ax.margins(x=0.12)
        curves(ax, own, by("ratio"), labels=0.1 if metric == shown[-1] else None)
        ax.set_ylim(0.0, 1.25 * max((r.value for r in own), default=1.0) or 1.0)
        ax.set_title("mode switches, %" if metric == "mode switches" else metric)
        ax.set_xlabel("cost of a release")
        for row in own:
            ours = row.status == Status.OURS.value
            above = ours == (metric == "largest regret") or row.method == OURS
            place = (row.cell["ratio"], row.value)
            words = "0" if row.value < 5e-4 else f"{row.value:.2g}"
            ax.annotate(words, place, (0, 8 if above else -13),
                        color=ORANGE if ours else GREY, textcoords="offset points",
                        ha="center", fontsize=7)  # fmt: skip
    return figure
