"""Figures of the studies that the paper lacks."""

from __future__ import annotations

from textwrap import fill
from typing import TYPE_CHECKING

from reproduction.studies.plotting import (
    NOTE,
    Rows,
    budget,
    by,
    curves,
    dots,
    limits,
    look,
    methods_of,
    name_methods,
    of,
    rates,
    share_axis,
    sheet,
    ticks,
    values_of,
)
from reproduction.studies.study import Status

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def component_tests(rows: Rows) -> Figure:
    """Return how often each test passes a release inside its limit, and one at it."""
    methods = methods_of(rows)
    laws = list(dict.fromkeys(row.cell["law"] for row in rows))
    lines = -(-len(laws) // 3)
    figure, panels = sheet(
        lines, 3, "1,000 records: how often each test passes a release (p at most 0.01)",
        height=1.0 + lines * (0.75 + 0.2 * len(methods)),
        note=f"Filled: mean inside the limit. Hollow: mean at the limit, an error. {NOTE}",
    )  # fmt: skip
    axes = [ax for line in panels for ax in line]
    for ax, law in zip(axes, laws, strict=False):
        dots(ax, of(rows, law=law), methods, filled=lambda row: row.metric == "power")
        name_methods(ax, methods, names=ax in [line[0] for line in panels])
        share_axis(ax, "")
        ax.set_title(law)
        budget(ax, 0.01, upright=True)
    for ax in axes[len(laws) :]:
        ax.set_axis_off()
    return figure


def sharp_counts(rows: Rows) -> Figure:
    """Return the share of favorable scores that validates, by releases and ceiling."""
    own = [row for row in of(rows, "needed") if row.cell["kappa"] != "default"]
    cells = list(dict.fromkeys((row.cell["R"], row.cell["kappa"]) for row in own))
    figure, panels = sheet(
        1, 1, "Favorable scores needed to validate reliability 0.80 at error 0.05",
        height=1.6 + 0.34 * len(cells),
        note="In the grey band: no number of favorable scores is enough.",
    )  # fmt: skip
    ax = panels[0][0]
    ax.axvspan(1.004, 1.03, color="#ECEFF2", zorder=0)
    for place, (method, status) in enumerate(methods_of(own).items()):
        shape = look(method, status)
        for row in (row for row in own if row.method == method):
            possible = row.value <= row.cell["R"]
            ax.plot(
                row.value / row.cell["R"] if possible else 1.009 + 0.005 * place,
                cells.index((row.cell["R"], row.cell["kappa"])),
                linestyle="none", marker=shape.marker or "|", markersize=7 if shape.marker else 13,
                markeredgewidth=1.2, color=shape.colour, label=method, zorder=3,
            )  # fmt: skip
    ax.set_yticks(range(len(cells)), [f"R = {R}, ceiling {kappa:g}" for R, kappa in cells])
    ax.set_ylim(len(cells) - 0.4, -0.6)
    ax.set_xlim(0.8, 1.03)
    ax.set_xlabel("favorable scores, as a share of the releases")
    ax.grid(axis="x")
    _legend(ax)
    return figure


def sharp_rates(rows: Rows) -> Figure:
    """Return how often each method validates, by design."""
    cells = list(dict.fromkeys((r.cell["R"], r.cell["n"], r.cell["eta"]) for r in rows))
    figure, panels = sheet(
        1, 1, "Validation rates at registered thresholds (target 0.80, error 0.05)",
        height=1.6 + 0.34 * len(cells), note="At reliability 0.80 a validation is an error.",
    )  # fmt: skip
    ax = panels[0][0]
    for method, status in methods_of(rows).items():
        shape = look(method, status)
        own = [row for row in rows if row.method == method]
        ax.plot(
            [row.value for row in own],
            [cells.index((row.cell["R"], row.cell["n"], row.cell["eta"])) for row in own],
            linestyle="none", marker=shape.marker or "|", markersize=7 if shape.marker else 13,
            markeredgewidth=1.2, color=shape.colour, label=method, zorder=3,
        )  # fmt: skip
    ax.set_yticks(range(len(cells)), [f"R = {R}, n = {n}, eta {eta:g}" for R, n, eta in cells])
    ax.set_ylim(len(cells) - 0.4, -0.6)
    share_axis(ax, "validation rate")
    ax.grid(axis="x")
    _legend(ax)
    return figure


def labels_needed(rows: Rows) -> Figure:
    """Return the fewest target records that reach 80 % power, by law and method."""
    own = of(rows, "labels")
    methods = methods_of(own)
    laws = list(dict.fromkeys(row.cell["family"] for row in own))
    figure, panels = sheet(
        1, len(laws), "Target records needed for 80 % power (1,000 releases, reliability 0.95)",
        height=1.6 + 0.32 * len(methods),
    )  # fmt: skip
    for column, (ax, law) in enumerate(zip(panels[0], laws, strict=True)):
        line = of(own, family=law)
        ax.set_xscale("log")
        dots(ax, line, methods)
        name_methods(ax, methods, names=column == 0)
        for row in line:
            ax.annotate(f"{row.value:,.0f}", (row.value, list(methods).index(row.method)), (8, 0),
                        textcoords="offset points", va="center", fontsize=8)  # fmt: skip
        ax.set_title(fill(law, 30), fontsize=8.5)
        ax.set_xlim(min(r.value for r in own) / 1.6, max(r.value for r in own) * 5)
        low, high = ax.get_xlim()
        ticks(ax, [n for n in (100, 1000, 10000) if low <= n <= high])
        ax.set_xlabel("records")
    return figure


def sequential_draws(rows: Rows) -> Figure:
    """Return expected draws and the chance to validate against the rate of favorable scores."""
    figure, panels = sheet(
        1, 2, "Draws of a sequential audit with a look every 25 (at most 1,000)", height=4.2,
        note="Computed, not simulated. Black rings: figures printed in docs/theory.md.",
    )  # fmt: skip
    etas = values_of(rows, "eta")
    for ax, metric in zip(panels[0], ("expected draws", "validated"), strict=True):
        if metric == "validated":
            rates(ax, "chance to validate")
        else:
            ax.set_ylim(0, 1000)
            ax.set_ylabel(metric)
        curves(ax, of(rows, metric), lambda r: float(etas.index(r.cell["eta"])), labels=0.07)
        ax.set_xticks(range(len(etas)), [f"{eta:g}" for eta in etas])
        ax.set_xlabel("rate of favorable scores (target 0.80)")
    return figure


def violation(rows: Rows) -> Figure:
    """Return how often a violation is declared against reliability, by records and releases."""
    sizes, releases = values_of(rows, "n"), values_of(rows, "R")
    figure, panels = sheet(
        len(sizes), len(releases), "How often unreliability is proved (target 0.80)",
        height=1.0 + 2.6 * len(sizes), note=f"At reliability 0.80 each is an error. {NOTE}",
    )  # fmt: skip
    for line, n in enumerate(sizes):
        for column, R in enumerate(releases):
            ax = panels[line][column]
            own = of(rows, "violation", n=n, R=R)
            rates(ax, "violation" if column == 0 else "", root=True)
            ticks(ax, values_of(rows, "reliability"))
            curves(ax, own, by("reliability"), labels=0.09 if column == len(releases) - 1 else None)
            ax.set_title(f"n = {n}, R = {R}")
            budget(ax, 0.05, name="budget" if column == 0 else "")
            if line == len(sizes) - 1:
                ax.set_xlabel("reliability")
    return figure


def exposure(rows: Rows) -> Figure:
    """Return how often each test decides, against the records, by the true advantage."""
    claims = (("one threshold", "power"), ("violation", "violation"))
    advantages = [values_of(of(rows, metric, claim=claim), "advantage") for claim, metric in claims]
    figure, panels = sheet(
        2, max(1, *map(len, advantages)), "Is an advantage below or above 0.05? The exact count "
        "and the paper's pairs", height=6.6,
        note="False alarms 0.05. Above: validated. Below: violation shown. Thin lines: 95 % Monte "
        "Carlo limits.",
    )  # fmt: skip
    for line, (claim, metric) in enumerate(claims):
        for column, advantage in enumerate(advantages[line]):
            ax = panels[line][column]
            own = of(rows, metric, claim=claim, advantage=advantage)
            rates(ax, metric if column == 0 else "")
            ax.set_xscale("log")
            ticks(ax, [n for n in (54, 100, 250, 500, 2000) if n in values_of(own, "n")])
            curves(ax, own, by("n"), labels=0.09 if column == len(advantages[line]) - 1 else None)
            ax.set_title(f"advantage {advantage:g}")
            if line == 1:
                ax.set_xlabel("records")
    return figure


def worst_case(rows: Rows) -> Figure:
    """Return the error rate of every certificate at its least favorable case."""
    methods = dict(sorted(methods_of(rows).items(), key=lambda item: item[1] == Status.OURS.value))
    figure, panels = sheet(
        1, 1, "Every certificate at its least favorable case", height=1.5 + 0.3 * len(methods),
        note="One mark for each number of records and releases and each limit. Thin lines: 95 % "
        "Monte Carlo limits.",
    )  # fmt: skip
    ax = panels[0][0]
    dots(ax, rows, methods)
    name_methods(ax, methods, names=True)
    ax.set_xlim(-0.001, 1.05 * max([0.06, *(limits(row)[1] for row in rows)]))
    ax.set_xlabel("error rate")
    budget(ax, 0.05, upright=True, name="budget")
    return figure


def _legend(ax: Axes) -> None:
    """Name the methods in one line under the panel, where marks are too close for labels."""
    marks = {name: mark for mark, name in zip(*ax.get_legend_handles_labels(), strict=True)}
    ax.legend(
        list(marks.values()), list(marks), loc="upper center", bbox_to_anchor=(0.45, -0.17),
        ncols=6, frameon=False, fontsize=8.5, handletextpad=0.3, columnspacing=1.6,
    )  # fmt: skip
