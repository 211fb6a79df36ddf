"""Every study agrees with what was published, and a seeded mistake in it is reported."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import binomtest

from reproduction.studies import shared_target, violation
from reproduction.studies.catalog import STUDIES
from reproduction.studies.paper_planner import PaperGrid
from reproduction.studies.report import table, write_rows
from reproduction.studies.rows import Row, agreement, p_agree
from reproduction.studies.run import run_study
from reproduction.studies.study import Published, Status, Study, Sums, grid, place

REDUCED = {
    "held-out-regrets": 400,
    "near-boundary": 1000,
    "collective-grid": 300,
    "mode-comparison-high-signal": 300,
    "component-tests": 1000,
    "exposure": 500,
    "labels-needed": 40,
    "violation-direct-holm": 400,
    "worst-case": 500,
}


PLANS = {"cost-plan", "mode-phase", "cost-plan-sensitivity"}
PAPERS = {"cost-plan-sensitivity"}
"""Where our method is a search for each of many plans; it has tests of its own."""


def methods_of(study: Study) -> tuple[str, ...] | None:
    """The paper's methods of a study whose own are slow, else all."""
    return study.published_methods() if study.name in PAPERS else None


def shown_cells(study: Study) -> list[int]:
    """The cells that something was published about, or a few."""
    return sorted({index for index, _, _ in study.published}) or [0, 7, len(study.cells) - 1]


def far_from_exact(rows: list[Row]) -> list[Row]:
    """The rates that an exact sum makes a one-in-a-million event."""
    return [
        row
        for row in rows
        if row.exact is not None
        and row.wilson is not None
        and binomtest(round(row.value * row.repetitions), row.repetitions, row.exact).pvalue < 1e-6
    ]


@pytest.mark.reproduction
@pytest.mark.reduced(cases=4)
@pytest.mark.parametrize("name", STUDIES)
def test_published_figures_agree(name: str) -> None:
    study = STUDIES[name]
    reduced = min(study.repetitions, REDUCED.get(name, 2000))
    rows = run_study(
        study, repetitions=reduced, cells=shown_cells(study), methods=methods_of(study)
    )
    verdict = agreement(rows)
    assert verdict.compared == len(study.published)
    assert verdict.good, verdict.sentence
    assert far_from_exact(rows) == []


def test_rows_do_not_depend_on_the_number_of_processes() -> None:
    study = STUDIES["calibration"]
    alone = run_study(study, repetitions=1100, cells=(0, 5))
    together = run_study(study, repetitions=1100, cells=(0, 5), jobs=2)
    assert [r.to_dict() for r in alone] == [r.to_dict() for r in together]


def test_a_cell_runs_alone_as_it_does_among_others() -> None:
    study = STUDIES["rare-group"]
    whole = run_study(study, repetitions=600)
    alone = run_study(study, repetitions=600, cells=(1,))
    assert [r for r in whole if r.cell == study.cells[1]] == alone


def wrong(name: str, value: object) -> Callable[[pytest.MonkeyPatch], None]:
    """Return what puts another value under a name of a study's module."""
    return lambda monkeypatch: monkeypatch.setattr(f"reproduction.studies.{name}", value)


MISTAKES = {
    "calibration": wrong("calibration.INVALID", (0.105, 0.02, 0.02)),
    "target-reuse": wrong("calibration.CANDIDATES", 10),
    "held-out-regrets": wrong("held_out.TOLERANCE", 0.03),
    "rare-group": wrong("searches.ALPHA", 0.1),
    "mechanism-calibration": wrong("mechanisms.TARGET", 0.85),
    "adaptive-stream": wrong("searches.ALPHA", 0.075),
    "release-planning": wrong("searches.least_releases_named", lambda **_: 18),
    "near-boundary": wrong("mechanisms.ALPHA", 0.1),
    "error-split": wrong("mechanisms.H", 4),
    "collective-grid": wrong("mechanisms.ALPHA", 0.1),
    "shared-target": wrong("shared_target.TARGET", 0.85),
    "false-pass": wrong("shared_target.TARGET", 0.78),
    "smooth-target": wrong("smooth_target.TARGET", 0.82),
    "mode-comparison": wrong("modes.TARGET", 0.85),
    "mode-comparison-high-signal": wrong("modes.TARGET", 0.85),
    "cost-plan": wrong("costs.GRID", PaperGrid(alpha=0.1)),
    "mode-phase": wrong("costs.GRID", PaperGrid(records=(500, 1000, 2000))),
    "shared-target-pilot": wrong(
        "shared_target.draw_shared",
        lambda rng, eta, shape, n, draw=shared_target.draw_shared: draw(rng, eta - 0.1, shape, n),
    ),
    "mode-comparison-pilot": wrong("modes.TARGET", 0.85),
    "mode-comparison-high-signal-pilot": wrong("modes.TARGET", 0.85),
    "false-pass-pilot": wrong("shared_target.TARGET", 0.85),
    "smooth-target-pilot": wrong("pilots.TARGET", 0.82),
    "component-tests": wrong("component_power.LEVEL", 0.05),
    "exposure": wrong("exposure.FALSE_ALARMS", 0.06),
    "sharp-counts": wrong("sharp_tables.ALPHA", 0.06),
    "sharp-rates": wrong("sharp_rates.TARGET", 0.9),
    "labels-needed": wrong("labels_needed.ALPHA", 0.001),
    "sequential-draws": wrong("sequential_draws.KAPPA", 0.02),
    "violation-direct-holm": wrong(
        "violation.draw_risks",
        lambda rng, eta, shape, draw=violation.draw_risks: draw(rng, 1 - eta, shape),
    ),
    "worst-case": wrong("worst_case.RELIABILITY", 0.87),
    "cost-plan-sensitivity": wrong("costs.ERRORS", (-0.10, 0.0, 0.10)),
}


@pytest.mark.reduced(cases=4)
@pytest.mark.parametrize("name", STUDIES)
def test_a_seeded_mistake_is_reported(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    study = STUDIES[name]
    few = {
        "repetitions": min(study.repetitions, 60), "cells": shown_cells(study),
        "methods": methods_of(study),
    }  # fmt: skip
    right = [row.value for row in run_study(study, **few)]
    MISTAKES[name](monkeypatch)
    # The mistake reaches what is simulated, not only what it is compared with.
    assert [row.value for row in run_study(study, **few)] != right
    reduced = min(study.repetitions, REDUCED.get(name, 4000))
    rows = run_study(
        study, repetitions=reduced, cells=shown_cells(study), methods=methods_of(study)
    )
    assert not agreement(rows).good or far_from_exact(rows)


def test_a_printed_figure_stands_for_what_rounds_to_it() -> None:
    printed = Published(value=0.997, digits=3, repetitions=5000)
    assert p_agree(Sums(5000, 4987, 4987), printed, None) == 1.0
    assert p_agree(Sums(5000, 4900, 4900), printed, None) < 1e-10
    computed = Published(value=17, digits=0)
    assert p_agree(Sums(1, 17.0, 289.0), computed, None) == 1.0
    assert p_agree(Sums(1, 18.0, 324.0), computed, None) == 0.0


def test_sums_add_up_to_those_of_all_values() -> None:
    values = np.random.default_rng(3).random(100)
    whole, parts = Sums.of(values), Sums.of(values[:30]) + Sums.of(values[30:])
    assert parts.mean == pytest.approx(values.mean(), rel=1e-14)
    assert whole.standard_error == pytest.approx(values.std(ddof=1) / 10, rel=1e-12)
    assert parts.standard_error == pytest.approx(whole.standard_error, rel=1e-12)
    assert Sums.of([True, False]).binary
    assert not Sums.of([0.5]).binary


def test_rows_are_json_that_any_reader_takes(tmp_path: Path) -> None:
    rows = run_study(STUDIES["release-planning"]) + run_study(
        STUDIES["target-reuse"], repetitions=9
    )
    (first, second) = write_rows(tmp_path, rows)

    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is no JSON")

    lines = [*first.read_text().splitlines(), *second.read_text().splitlines()]
    read = [json.loads(line, parse_constant=refuse) for line in lines]
    assert [one["value"] for one in read] == [row.value for row in rows]
    assert "release-planning: eta_0 0.8, H 1" in table(rows)


def test_cells_are_named_by_their_values() -> None:
    cells = grid(n=(1, 2), R=(3, 4))
    assert place(cells, n=2, R=3) == 2
    with pytest.raises(ValueError, match="2 cells have"):
        place(cells, n=2)


def test_every_method_has_a_status_and_every_published_figure_a_row() -> None:
    for study in STUDIES.values():
        assert all(isinstance(status, Status) for status in study.methods.values())
        for index, method, _ in study.published:
            assert 0 <= index < len(study.cells)
            assert method in study.methods


@pytest.mark.reduced(cases=4)
@pytest.mark.parametrize("name", STUDIES)
def test_the_papers_rows_are_the_same_with_ours_and_without(name: str) -> None:
    study = STUDIES[name]
    reduced, cells = min(study.repetitions, 40), shown_cells(study)[:2]
    both = run_study(study, repetitions=reduced, cells=cells)
    alone = run_study(study, repetitions=reduced, cells=cells, methods=study.published_methods())
    assert {row.method for row in alone} <= set(study.published_methods())
    beside = [r for r in both if r.method in study.published_methods()]
    # Plans are judged by their power only beside ours; every other figure is there both times.
    judged = {"power", "mean loss of power", "largest loss of power"} if name in PLANS else set()
    assert [r for r in beside if r.metric not in judged] == alone
