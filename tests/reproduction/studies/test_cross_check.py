"""What a study decides from sums, the package decides from losses, in every repetition."""

from __future__ import annotations

import numpy as np
import pytest
from typer.testing import CliRunner

from reproduction.cli.main import app
from reproduction.studies import calibration, certified_mechanisms, cross_check
from reproduction.studies.catalog import STUDIES
from reproduction.studies.cross_check import CHECKS, LEAST, NOT_CERTIFIED, Checked
from reproduction.studies.mechanism_modes import OURS
from reproduction.studies.study import Status

FEW = 6  # repetitions of a cell in the ordinary tests
SLOW = ("near-boundary",)
TURNS = len(OURS)  # where our methods take turns, each has one of these


def repetitions(name: str) -> int:
    """Return how many repetitions of a cell are enough for every method."""
    return TURNS if name in certified_mechanisms.CHECKS else FEW


def some_cells(name: str) -> list[int]:
    """Return the first cell of a study, and its last where that is quick."""
    return sorted({0} if name in SLOW else {0, len(STUDIES[name].cells) - 1})


def differing(found: list[Checked]) -> list[Checked]:
    return [one for one in found if one.differ]


@pytest.fixture(scope="module")
def few() -> dict[str, list[Checked]]:
    return {
        name: cross_check.cross_check(
            [STUDIES[name]], repetitions=repetitions(name), cells=some_cells(name)
        )
        for name in CHECKS
    }


@pytest.mark.parametrize("name", CHECKS)
def test_some_repetitions_are_decided_alike(name: str, few: dict[str, list[Checked]]) -> None:
    assert few[name]
    assert not differing(few[name])
    assert max(one.repetitions for one in few[name]) == repetitions(name)


@pytest.mark.whole
@pytest.mark.parametrize("name", CHECKS)
def test_two_hundred_repetitions_of_every_cell_are_decided_alike(name: str) -> None:
    found = cross_check.cross_check([STUDIES[name]], repetitions=LEAST)
    assert {one.cell for one in found} == set(range(len(STUDIES[name].cells)))
    assert max(one.repetitions for one in found) >= 200
    registered = [
        method
        for method, status in STUDIES[name].methods.items()
        if status is Status.REGISTERED and method not in NOT_CERTIFIED.get(name, {})
    ]
    assert {one.repetitions for one in found if one.method in registered} == {LEAST}
    assert not differing(found)


@pytest.mark.parametrize("name", CHECKS)
def test_every_method_is_decided_again_or_has_its_reason(
    name: str, few: dict[str, list[Checked]]
) -> None:
    checked = {one.method for one in few[name]}
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
