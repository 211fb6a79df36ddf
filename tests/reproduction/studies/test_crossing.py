"""Modes against tests: the same cells in every entry, and figures with the tests asked for."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from proxyguard.exact.binomial import clopper_pearson_lower
from proxyguard.modes.catalog import planned_modes
from reproduction.studies import labels_needed, worst_case
from reproduction.studies.catalog import STUDIES
from reproduction.studies.count_tests import COUNT_TESTS, count_pvalues
from reproduction.studies.crossing import MODES, SHARP, cross_table, crossed_power, with_tests
from reproduction.studies.document import is_error
from reproduction.studies.rows import Row
from reproduction.studies.run import run_study
from reproduction.studies.smooth_target import SMOOTH, Means, crossed

CROSSED = {
    "mechanism-calibration": {"named", "sharp", "count"},
    "near-boundary": {"named", "sharp", "count"},
    "error-split": {"named", "sharp", "count"},
    "collective-grid": {"named", "sharp", "count"},
    "shared-target": {"named", "sharp", "count"},
    "false-pass": {"named", "sharp", "count"},
    "smooth-target": {"named", "sharp", "count"},
    "mode-comparison": {"named", "sharp", "count", "hybrid"},
    "mode-comparison-high-signal": {"named", "sharp", "count", "hybrid"},
}


def row(method: str, value: float, **cell: Any) -> Row:
    return Row(
        study="shared-target", cell=cell, method=method, status="ours", metric="validated",
        value=value, standard_error=0.01, wilson=None, upper95=None, repetitions=100,
        published=None, exact=None, p_agree=None,
    )  # fmt: skip


@pytest.mark.parametrize("name", CROSSED)
def test_every_study_of_reliability_crosses_all_modes_with_all_tests(name: str) -> None:
    study = STUDIES[name]
    names = {study.also.get(method, method) for method in study.methods}
    pairs = {tuple(one.split(", ", 1)) for one in names if one.split(", ")[0] in CROSSED[name]}
    means = {"binomial", "bentkus", "chernoff", "empirical Bernstein", "hoeffding"}
    if name.startswith("mode-comparison"):
        means = means - {"binomial"} | {"randomized binomial", "betting"}
    elif name in ("shared-target", "false-pass", "smooth-target"):
        means |= {"betting"}
    assert pairs >= {(mode, test) for mode in CROSSED[name] for test in means}


def test_only_cells_with_every_method_are_averaged() -> None:
    rows = [
        row("named", 0.2, eta=0.9), row("sharp, binomial", 0.6, eta=0.9),
        row("named, bentkus", 0.1, eta=0.9), row("sharp, bentkus", 0.5, eta=0.9),
        # Betting was not run with named mode, so it has no column.
        row("sharp, betting", 0.9, eta=0.9),
        # In this cell one method is missing, and in the next a validation is an error.
        row("named", 1.0, eta=0.95), row("sharp, binomial", 1.0, eta=0.95),
        row("named, bentkus", 1.0, eta=0.95),
        *(row(m, 0.9, eta=0.8) for m in ("named", "named, bentkus")),
        *(row(m, 0.9, eta=0.8) for m in ("sharp, binomial", "sharp, bentkus")),
    ]  # fmt: skip
    cells, means = crossed_power(STUDIES["shared-target"], rows, is_error)
    assert cells == 1
    assert {pair: mean.value for pair, mean in means.items()} == {
        ("named", "binomial"): 0.2, ("sharp", "binomial"): 0.6,
        ("named", "bentkus"): 0.1, ("sharp", "bentkus"): 0.5,
    }  # fmt: skip
    table = cross_table(STUDIES["shared-target"], rows, is_error)
    assert "| named | 20.0 ± 1.0 % | 10.0 ± 1.0 % |" in table
    assert "the one cell" in table


def test_the_modes_that_are_crossed_are_those_of_the_product_that_test() -> None:
    tested = [kind.mode for kind in planned_modes() if kind.tested]
    assert sorted("direct" if mode == SHARP else mode for mode in MODES) == sorted(tested)
    assert worst_case.MODES is MODES
    assert set(labels_needed.FLAGS) == set(MODES) - {"hybrid"}


def test_a_study_without_crossing_has_no_table() -> None:
    rows = run_study(STUDIES["target-reuse"], repetitions=50)
    assert cross_table(STUDIES["target-reuse"], rows, is_error) == ""


def test_a_figure_keeps_the_papers_methods_and_the_tests_it_asks_for() -> None:
    methods = ("named", "direct, slack, sharp", "sharp, binomial", "sharp, bentkus",
               "count, betting", "sharp, binomial, t = .01")  # fmt: skip
    kept = with_tests([row(m, 0.5, eta=0.9) for m in methods], ("binomial",))
    assert [one.method for one in kept] == [
        "named", "direct, slack, sharp", "sharp, binomial", "sharp, binomial, t = .01",
    ]  # fmt: skip


@pytest.mark.parametrize("test", COUNT_TESTS)
def test_two_means_pass_a_test_as_all_their_releases_do(test: str) -> None:
    drawn = Means(np.random.default_rng(3), 0.85, 30, SMOOTH)
    passing = drawn.by_test(test)
    table = count_pvalues(test, SMOOTH.n, SMOOTH.tolerance)
    for i in range(30):
        valid = int(drawn.valid[i])
        counts = np.repeat([int(c[i]) for c in drawn.counts], [valid, 500 - valid])
        ordered = np.sort(table[counts])
        for level in (1e-4, 0.01, 0.3):
            found = passing(np.array([level]), np.array([i]))[0]
            assert found == np.count_nonzero(ordered <= level)
        # Named mode written out: Holm over 500 p-values at .025, and the limit at .025.
        recognized = int(np.logical_and.accumulate(
            ordered <= 0.025 / np.arange(500, 0, -1)
        ).sum())  # fmt: skip
        bound = clopper_pearson_lower(recognized, 500, alpha=0.025)
        methods = crossed(drawn, (30, 500))
        assert bool(np.asarray(methods[f"named, {test}"]()["validated"])[i]) == bool(bound > 0.8)
