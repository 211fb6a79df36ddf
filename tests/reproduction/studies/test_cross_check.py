"""What a study decides from sums, the package decides from losses, in every repetition."""

from __future__ import annotations

import functools
from collections.abc import Callable

import numpy as np
import pytest
from typer.testing import CliRunner

from reproduction.cli.main import app
from reproduction.studies import calibration, certified_mechanisms, certified_targets, cross_check
from reproduction.studies.catalog import STUDIES
from reproduction.studies.cross_check import CHECKS, LEAST, NOT_CERTIFIED, Checked
from reproduction.studies.study import Status, place

FEW = 6  # repetitions of a cell in the ordinary tests
MOST = 3  # cells that are checked with all repetitions
TURNS = 21  # where our methods take turns, each has one of these
CELLS = {  # one that is quick and has every method, else the first and the last
    "near-boundary": [0],
    "collective-grid": [0],
    "shared-target": [1],
    "shared-target-pilot": [0],
    "false-pass-pilot": [0],
    "mode-comparison": [place(STUDIES["mode-comparison"].cells, R=100, n=1000, eta=0.95)],
    "mode-comparison-high-signal": [
        place(STUDIES["mode-comparison-high-signal"].cells, R=100, n=1000, eta=0.90)
    ],
    "smooth-target": [4],
    "component-tests": [0, 6],
    "exposure": [
        place(STUDIES["exposure"].cells, claim=claim, n=n, advantage=advantage, ceiling=ceiling)
        for claim, n, advantage, ceiling in (
            ("one threshold", 54, 0.0, 0.05),
            ("one threshold", 250, 0.02, 0.05),
            ("violation", 100, 0.15, 0.05),
            ("every threshold", 250, 0.0, 0.10),
            ("every threshold", 500, 0.10, 0.10),
            ("the paper's design", 27, 0.0, 0.05),
        )
    ],
    "sharp-rates": [7],
    "violation-direct-holm": [2, 13],
}


Few = Callable[[str], list[Checked]]


def repetitions(name: str) -> int:
    """Return how many repetitions of a cell are enough for every method."""
    turns = {**certified_mechanisms.CHECKS, **certified_targets.CHECKS}
    return TURNS if name in turns else FEW


def some_cells(name: str) -> list[int]:
    """Return the cells of a study that the ordinary tests check."""
    return CELLS.get(name, sorted({0, len(STUDIES[name].cells) - 1}))


def differing(found: list[Checked]) -> list[Checked]:
    return [one for one in found if one.differ]


def papers_repetitions(found: list[Checked], cell: int) -> int:
    """Return in how many repetitions of a cell a method of the paper was decided again."""
    methods = STUDIES[found[0].study].methods
    asked = {one.method: one.repetitions for one in found if one.cell == cell}
    return sum(n for name, n in asked.items() if methods[name] is not Status.OURS)


@pytest.fixture(scope="module")
def few() -> Few:
    """Some repetitions of a study, decided again once for all tests that ask for them."""

    @functools.cache
    def checked(name: str) -> list[Checked]:
        return cross_check.cross_check(
            [STUDIES[name]], repetitions=repetitions(name), cells=some_cells(name)
        )

    return checked


@pytest.mark.reduced(cases=4)
@pytest.mark.parametrize("name", CHECKS)
def test_some_repetitions_are_decided_alike(name: str, few: Few) -> None:
    assert few(name)
    assert not differing(few(name))
    assert all(papers_repetitions(few(name), k) >= repetitions(name) for k in some_cells(name))


@pytest.mark.whole
@pytest.mark.parametrize("name", CHECKS)
def test_two_hundred_repetitions_of_a_cell_are_decided_alike(name: str) -> None:
    # A few cells of the grids, which `make reproduce` checks whole: that takes minutes.
    study = STUDIES[name]
    cells = np.random.default_rng(20261116).permutation(len(study.cells))[:MOST].tolist()
    found = cross_check.cross_check([study], repetitions=LEAST, cells=cells)
    assert not differing(found)
    assert all(papers_repetitions(found, cell) >= 200 for cell in cells)


@pytest.mark.reduced(cases=7)
@pytest.mark.parametrize("name", CHECKS)
def test_every_method_is_decided_again_or_has_its_reason(name: str, few: Few) -> None:
    checked = {one.method for one in few(name)}
    excused = set(NOT_CERTIFIED.get(name, {}))
    assert checked | excused == set(STUDIES[name].methods)
    assert not checked & excused


def test_a_study_that_decides_at_another_level_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = calibration.holm_count
    monkeypatch.setattr(
        calibration, "holm_count", lambda counts, table, alpha: honest(counts, table, alpha / 20)
    )
    found = cross_check.cross_check([STUDIES["calibration"]], repetitions=20, cells=[5])
    assert {one.method for one in differing(found)} == {"Holm"}


def test_a_package_that_decides_at_another_target_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(certified_mechanisms, "TARGET", 0.95)
    study = STUDIES["mechanism-calibration"]
    found = cross_check.cross_check([study], repetitions=TURNS, cells=[10])
    assert {"two-level", "collective"} <= {one.method for one in differing(found)}


@pytest.mark.parametrize("name", ["shared-target", "smooth-target", "mode-comparison"])
def test_a_package_that_decides_at_another_level_is_seen(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(certified_targets, "ALPHA", 1e-9)
    found = cross_check.cross_check([STUDIES[name]], repetitions=TURNS, cells=CELLS[name])
    assert len({one.method for one in differing(found)}) >= 3


def test_every_study_with_losses_is_checked() -> None:
    # The others compute, or select settings for one of those that are checked.
    without = {
        "release-planning", "cost-plan", "mode-phase", "cost-plan-sensitivity", "sharp-counts",
        "labels-needed", "sequential-draws", "worst-case", "mode-comparison-pilot",
        "mode-comparison-high-signal-pilot",
        "smooth-target-pilot",
    }  # fmt: skip
    assert set(STUDIES) - set(CHECKS) == without


def test_a_cell_is_checked_on_the_same_losses_whatever_else_is_checked() -> None:
    study = STUDIES["target-reuse"]
    alone = cross_check.cross_check([study], repetitions=5)
    beside = cross_check.cross_check([STUDIES["rare-group"], study], repetitions=5, cells=[0])
    assert [one for one in beside if one.study == "target-reuse"] == alone


def test_the_command_says_what_differs_and_ends_with_an_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    arguments = ["study", "check", "target-reuse", "--repetitions", "4"]
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 0, done.output
    assert "12 results of 1 study were decided again" in done.output
    assert "0 differ" in done.output
    monkeypatch.setattr(calibration, "pvalue_table", lambda n, limit: np.zeros(n + 1))
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 1
    assert "target-reuse, cell 0, sealed: false validation differs in 4 of 4" in done.output
    assert CliRunner().invoke(app, ["study", "check", "ouija"]).exit_code == 2
