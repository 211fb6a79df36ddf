"""One figure a study, drawn from rows alone: of a run, or read back from its files."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reproduction.studies import own_figures, planning_figures
from reproduction.studies.crossing import with_tests
from reproduction.studies.plotting import (
    BLUE,
    GREY,
    NOTE,
    ORANGE,
    Rows,
    bars,
    budget,
    by,
    curves,
    dots,
    heat,
    look,
    methods_of,
    name_methods,
    of,
    rates,
    save,
    share_axis,
    sheet,
    style,
    ticks,
    values_of,
)
from reproduction.studies.rows import Row
from reproduction.studies.study import Status
from reproduction.studies.whole_grid import about_grid

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LEVEL = 0.05
MAIN_TESTS = ("binomial", "bentkus", "betting")
"""The tests that a figure with a bar a method has room for; the tables have all."""


def read_rows(places: Iterable[Path]) -> list[Row]:
    """Return the rows of files that ``write_rows`` wrote."""
    found = []
    for place in places:
        for line in place.read_text(encoding="utf-8").splitlines():
            plain = json.loads(line)
            plain["wilson"] = _tuple(plain["wilson"])
            plain["cell"] = {name: _tuple(value) for name, value in plain["cell"].items()}
            found.append(Row(**plain))
    return found


def _tuple(value: Any) -> Any:
    """Return a list as the tuple that it was before it became JSON."""
    return tuple(value) if isinstance(value, list) else value


def draw(name: str, rows: Rows) -> Figure:
    """Return the figure of one study."""
    with style():
        return FIGURES[name]([row for row in rows if row.study == name and not about_grid(row)])


def write_figures(folder: Path, rows: Rows) -> list[Path]:
    """Write the figure of every study that has rows and a figure; return the files."""
    written = []
    for name in dict.fromkeys(row.study for row in rows):
        if name in FIGURES:
            figure = draw(name, rows)
            written.append(folder / f"{name}.svg")
            with style():
                save(figure, written[-1])
    return written


def calibration(rows: Rows) -> Figure:
    """Return false acceptance and power against the level and against the audit size."""
    figure, panels = sheet(
        2, 2, "Twenty candidates: a false acceptance, and power", height=6.2, note=NOTE
    )
    columns: tuple[tuple[str, str, dict[str, Any]], ...] = (
        ("alpha", "level (n = 500)", {"n": 500}),
        ("n", "records (level 0.05)", {"alpha": LEVEL}),
    )
    for column, (name, title, held) in enumerate(columns):
        cells = of(rows, **held)
        for line, metric in enumerate(("false acceptance", "power")):
            ax = panels[line][column]
            ax.set_xscale("log")
            ticks(ax, values_of(cells, name))
            rates(ax, metric, root=line == 0)
            curves(ax, of(cells, metric), by(name), labels=0.085 if column else None)
        panels[1][column].set_xlabel(title)
    levels = values_of(rows, "alpha")
    panels[0][0].plot(levels, levels, color=look("", Status.INVALID.value).colour, linewidth=0.9,
                      linestyle=(0, (6, 2)), label="budget")  # fmt: skip
    budget(panels[0][1], LEVEL, name="budget")
    return figure


def target_reuse(rows: Rows) -> Figure:
    """Return false validation with a used and with a sealed target."""
    figure = _bar_panels(
        rows, "The best of twenty invalid candidates, judged on used and on sealed records",
        [(of(rows, "false validation"), None)],
    )  # fmt: skip
    figure.axes[0].set_xlabel("false validation")
    budget(figure.axes[0], LEVEL, upright=True, name="budget")
    return figure


def held_out_regrets(rows: Rows) -> Figure:
    """Return false validation and power of every law, for both audit sizes."""
    methods = methods_of(rows)
    laws, sizes = list(dict.fromkeys(r.cell["law"] for r in rows)), values_of(rows, "n")
    figure, panels = sheet(
        2, len(laws), "Regrets that no binomial describes: a false validation, and power",
        height=1.6 + 0.52 * len(methods),
        note=f"Filled: n = {sizes[-1]}; hollow: n = {sizes[0]}. {NOTE}",
    )  # fmt: skip
    for line, metric in enumerate(("false validation", "power")):
        for column, law in enumerate(laws):
            ax = panels[line][column]
            dots(ax, of(rows, metric, law=law), methods, filled=lambda r: r.cell["n"] == sizes[-1])
            name_methods(ax, methods, names=column == 0)
            share_axis(ax, metric)
            ax.set_title({"rare": "rare subgroup", "correlated": "correlated candidates"}.get(
                law, law) if line == 0 else "")  # fmt: skip
            if line == 0:
                budget(ax, LEVEL, upright=True)
    return figure


def rare_group(rows: Rows) -> Figure:
    """Return false validation and power when the rare group's size is random, or fixed."""
    return _metric_curves(
        rows, "A group of 2 %: taken as it comes, or sampled on purpose", "n", "records", top=0.1
    )


def mechanism_calibration(rows: Rows) -> Figure:
    """Return false validation and power against the number of releases, by audit size."""
    rows = with_tests(rows, ("binomial",))
    sizes = values_of(rows, "n")
    figure, panels = sheet(
        2, len(sizes), "Five mechanisms: a false validation at the target, and power above it",
        height=7.0, note=NOTE,
    )  # fmt: skip
    for column, n in enumerate(sizes):
        for line, metric in enumerate(("false validation", "power")):
            ax = panels[line][column]
            rates(ax, metric if column == 0 else "", root=line == 0)
            ticks(ax, values_of(rows, "R"))
            curves(
                ax,
                of(rows, metric, n=n),
                by("R"),
                labels=0.075 if column == len(sizes) - 1 else None,
            )
        panels[0][column].set_title(f"n = {n}")
        budget(panels[0][column], LEVEL, name="budget" if column == 0 else "")
        panels[1][column].set_xlabel("releases a mechanism")
    return figure


def adaptive_stream(rows: Rows) -> Figure:
    """Return false validation over rounds, and power in a round."""
    figure, panels = sheet(
        1, 2, "Candidates one after the other: a fixed level, and a spent one", height=3.6,
        note=NOTE,
    )  # fmt: skip
    for ax, prefix in zip(panels[0], ("false validation by round", "power in round"), strict=True):
        own = [row for row in rows if row.metric.startswith(prefix)]
        rates(ax, prefix.rsplit(" ", 2)[0], root=prefix.startswith("false"))
        rounds = sorted({_last_number(row) for row in own})
        ticks(ax, [int(r) for r in rounds])
        curves(ax, own, _last_number, labels=0.09)
        ax.set_xlabel("round" if prefix.startswith("power") else "rounds so far")
    budget(panels[0][0], LEVEL, name="budget")
    return figure


def near_boundary(rows: Rows) -> Figure:
    """Return false release labels and false validation against the risk of a bad release."""
    rows = with_tests(rows, ("binomial",))
    metrics = [m for m in ("any false label", "false validation", "power") if of(rows, m)]
    risks = values_of(rows, "bad")
    figure, panels = sheet(
        1, len(metrics), "Bad releases near the limit of 0.10", height=4.0, note=NOTE
    )
    for ax, metric in zip(panels[0], metrics, strict=True):
        rates(
            ax, metric, root=metric == "any false label",
            top=_top(of(rows, metric), 0.06) if metric == "false validation" else 1.0,
        )  # fmt: skip
        curves(ax, of(rows, metric), lambda r: float(risks.index(r.cell["bad"])), labels=0.075)
        ax.set_xticks(range(len(risks)), [f"{risk:.3f}" for risk in risks])
        ax.set_xlabel("risk of a bad release")
    for ax in panels[0][:2]:
        budget(ax, LEVEL, name="budget")
    return figure


def error_split(rows: Rows) -> Figure:
    """Return false validation and power against the share of the budget for releases."""
    return _metric_curves(
        with_tests(rows, ("binomial",)),
        "How the error budget is split between releases and draws",
        "share",
        "share of the budget spent on releases",
        top=0.06,
    )


def collective_grid(rows: Rows) -> Figure:
    """Return gains in power over Holm at reliability .95, a map for each safe risk."""
    own = of(rows, "power", eta=0.95)
    ours = [m for m, s in methods_of(own).items() if m == "sharp, binomial"]
    papers = [m for m, s in methods_of(own).items() if s != Status.OURS.value]
    lines: list[tuple[str, str, list[str], tuple[str, str]]] = [
        ("tail-Simes minus Holm", "tail-Simes", ["Holm"], (GREY, BLUE)),
        *(("sharp minus Holm", m, ["Holm"], (GREY, ORANGE)) for m in ours),
        *(("sharp minus the paper's best", m, papers, (BLUE, ORANGE)) for m in ours),
    ]
    return _difference_maps(
        own, "Gain in power at reliability 0.95 (target 0.80), own records for every release",
        [line for line in lines if {line[1], *line[2]} <= set(methods_of(own))],
        columns="safe", naming=lambda value: f"risk of a good release {value:g} (limit 0.10)",
    )  # fmt: skip


def shared_target(rows: Rows) -> Figure:
    """Return how often each method validates, by reliability."""
    return _by_reliability(
        with_tests(of(rows, "validated"), MAIN_TESTS),
        "One shared target: how often each certificate validates",
    )


def mode_comparison(rows: Rows) -> Figure:
    """Return differences in power over audit sizes and releases, by reliability."""
    own = of(rows, "validated")
    papers: list[str] = [m for m in ("named", "direct", "hybrid") if m in methods_of(own)]
    lines: list[tuple[str, str, list[str], tuple[str, str]]] = [
        ("direct minus named", "direct", ["named"], (GREY, BLUE))
    ]
    for test in ("empirical Bernstein", "bentkus", "randomized binomial"):
        name = f"sharp, {test},\nminus the paper's best"
        lines.append((name, f"sharp, {test}", papers, (BLUE, ORANGE)))
    kind = "high-signal" if rows[0].study.endswith("high-signal") else "moderate"
    return _difference_maps(
        own, f"Three requirements, {kind} evidence: differences in how often they validate",
        [line for line in lines if {line[1], *line[2]} <= set(methods_of(own))],
        columns="eta", naming=_reliability,
    )  # fmt: skip


def false_pass(rows: Rows) -> Figure:
    """Return how often each bound lies above the target, and its mean."""
    rows = [row for row in with_tests(rows, MAIN_TESTS) if row.metric != "violation"]
    figure = _bar_panels(
        rows, "At reliability 0.80 exactly: what the allowance for lucky targets is for",
        [(of(rows, "validated"), None), (of(rows, "mean bound"), 1.0)],
    )  # fmt: skip
    first, second = figure.axes
    first.set_xlabel("validated (each is an error)")
    second.set_xlabel("mean bound")
    budget(first, LEVEL, upright=True, name="budget")
    budget(second, 0.8, upright=True, name="target")
    return figure


def smooth_target(rows: Rows) -> Figure:
    """Return how often each certificate validates, by reliability."""
    return _by_reliability(
        with_tests(of(rows, "validated"), MAIN_TESTS),
        "Ramp scores on 200 records: how often each certificate validates",
    )


def _last_number(row: Row) -> float:
    """Return the number that ends a metric's name."""
    return float(row.metric.rsplit(" ", 1)[1])


def _reliability(eta: float) -> str:
    return f"reliability {eta:.2f}" + ("\n(each is an error)" if eta <= 0.8 else "")


def _top(rows: Rows, usual: float) -> float:
    """Return the usual end of an axis of error rates, or a larger one that every row needs."""
    return min(1.0, max([usual, *(1.1 * max(row.value, row.published or 0.0) for row in rows)]))


def _metric_curves(rows: Rows, title: str, name: str, axis: str, *, top: float) -> Figure:
    """Return false validation (up to ``top``) and power against one cell parameter."""
    figure, panels = sheet(1, 2, title, height=3.6, note=NOTE)
    for ax, metric in zip(panels[0], ("false validation", "power"), strict=True):
        rates(ax, metric, top=1.0 if metric == "power" else _top(of(rows, metric), top))
        ticks(ax, values_of(rows, name))
        curves(ax, of(rows, metric), by(name), labels=0.09)
        ax.set_xlabel(axis)
    budget(panels[0][0], LEVEL, name="budget")
    return figure


def _bar_panels(rows: Rows, title: str, panels: Sequence[tuple[Rows, float | None]]) -> Figure:
    """Return panels of bars beside each other, each with its rows and largest value."""
    methods = methods_of(rows)
    figure, axes = sheet(1, len(panels), title, height=1.5 + 0.3 * len(methods), note=NOTE)
    for column, (ax, (own, room)) in enumerate(zip(axes[0], panels, strict=True)):
        bars(ax, own, methods, names=column == 0, room=room)
    return figure


def _by_reliability(rows: Rows, title: str) -> Figure:
    """Return a panel of bars for each reliability, with the budget where validation is an error."""
    etas = values_of(rows, "eta")
    figure = _bar_panels(rows, title, [(of(rows, eta=eta), 1.0) for eta in etas])
    for ax, eta in zip(figure.axes, etas, strict=True):
        ax.set_title(_reliability(eta))
        ax.set_xlabel("validated")
        ax.set_xticks([0.0, 0.5, 1.0], ["0", "0.5", "1"])
        if eta <= 0.8:
            budget(ax, LEVEL, upright=True, name="budget")
    return figure


def _difference_maps(
    rows: Rows,
    title: str,
    lines: Sequence[tuple[str, str, Sequence[str], tuple[str, str]]],
    *,
    columns: str,
    naming: Callable[[Any], str],
) -> Figure:
    """Return maps over records and releases: one method minus the best of others."""
    values = values_of(rows, columns)
    across, down = values_of(rows, "R"), values_of(rows, "n")
    figure, panels = sheet(
        len(lines), len(values), title, height=1.0 + len(lines) * (0.9 + 0.32 * len(down)),
        note="Orange: the sharp certificate is ahead. Blue and grey: the method of the paper that "
        "has this colour elsewhere is.",
    )  # fmt: skip
    for line, (name, method, others, colours) in enumerate(lines):
        for column, value in enumerate(values):
            ax = panels[line][column]
            own = of(rows, **{columns: value})
            heat(ax, differences(own, method, others), colours=colours, across=across, down=down)
            if line == 0:
                ax.set_title(naming(value))
            if line == len(lines) - 1:
                ax.set_xlabel("releases")
            if column == 0:
                ax.set_ylabel("records")
                ax.annotate(name, (0.0, 0.5), (-48, 0), xycoords="axes fraction",
                            textcoords="offset points", rotation=90, ha="right", va="center",
                            fontweight="bold", fontsize=8, multialignment="center")  # fmt: skip
    return figure


def differences(rows: Rows, method: str, others: Sequence[str]) -> dict[tuple[Any, Any], float]:
    """Return one method's value minus the largest of others, by records and releases."""
    found: dict[tuple[Any, Any], float] = {}
    by: dict[tuple[Any, Any], dict[str, float]] = {}
    for row in rows:
        by.setdefault((row.cell["n"], row.cell["R"]), {})[row.method] = row.value
    for place, values in by.items():
        if method in values and all(other in values for other in others):
            found[place] = values[method] - max(values[other] for other in others)
    return found


FIGURES: Mapping[str, Callable[[Rows], Figure]] = {
    "calibration": calibration,
    "target-reuse": target_reuse,
    "held-out-regrets": held_out_regrets,
    "rare-group": rare_group,
    "mechanism-calibration": mechanism_calibration,
    "adaptive-stream": adaptive_stream,
    "release-planning": planning_figures.release_planning,
    "near-boundary": near_boundary,
    "error-split": error_split,
    "collective-grid": collective_grid,
    "shared-target": shared_target,
    "mode-comparison": mode_comparison,
    "mode-comparison-high-signal": mode_comparison,
    "false-pass": false_pass,
    "smooth-target": smooth_target,
    "cost-plan": planning_figures.cost_plan,
    "mode-phase": planning_figures.cost_plan,
    "cost-plan-sensitivity": planning_figures.cost_plan_sensitivity,
    "component-tests": own_figures.component_tests,
    "sharp-counts": own_figures.sharp_counts,
    "sharp-rates": own_figures.sharp_rates,
    "labels-needed": own_figures.labels_needed,
    "sequential-draws": own_figures.sequential_draws,
    "violation-direct-holm": own_figures.violation,
    "exposure": own_figures.exposure,
    "worst-case": own_figures.worst_case,
}
"""The figure of each study that has one."""
