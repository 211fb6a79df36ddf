"""Figures about whole grids, and how large an error the comparison can see."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from scipy.stats import fisher_exact

from reproduction.studies.catalog import STUDIES
from reproduction.studies.document import detectable
from reproduction.studies.rows import PLANTED, Row, agreement, error_shows, rows_of
from reproduction.studies.run import run_study
from reproduction.studies.study import Published, Sums
from reproduction.studies.whole_grid import (
    FIGURES,
    CellsWithSign,
    LargestRate,
    about_grid,
    grid_rows,
)

LARGEST = LargestRate(
    studies=("grid",), cells=4, methods=("a", "b"), metric="wrong",
    published=Published(value=0.05, digits=3, repetitions=500),
)  # fmt: skip
TIES = CellsWithSign(
    studies=("grid",), cells=10, method="a", metric="gain", words="ties", sign=0,
    published=Published(value=4, digits=0, repetitions=500),
)  # fmt: skip


def row(method: str, metric: str, cell: int, value: float, repetitions: int = 500) -> Row:
    return Row(
        study="grid", cell={"k": cell}, method=method, status="registered", metric=metric,
        value=value, standard_error=0.0, wilson=None, upper95=None, repetitions=repetitions,
        published=None, exact=None, p_agree=None,
    )  # fmt: skip


def grid_of(rates: Mapping[tuple[str, int], float]) -> list[Row]:
    return [row(method, "wrong", cell, rate) for (method, cell), rate in rates.items()]


def test_the_largest_rate_is_compared_by_exact_tests_of_two_counts() -> None:
    rates = dict.fromkeys(product("ab", range(4)), 0.01) | {("b", 2): 0.084}
    found = LARGEST.row(grid_of(rates))
    assert found is not None
    assert found.value == 0.084
    assert about_grid(found)
    # Fisher's test by scipy: 42 of 500 against 25, the count that .050 stands for; the other
    # rates are too small to matter. Eight rates, two sides.
    table = np.array([[42, 458], [25, 475]])
    above = fisher_exact(table, alternative="greater").pvalue
    below = fisher_exact(table, alternative="less").pvalue
    assert above * 8 < below
    assert found.p_agree == pytest.approx(min(1.0, 16 * above), rel=1e-9)
    assert found.cell["over"] == "4 cells of grid"


def test_a_grid_far_above_or_far_below_the_printed_maximum_differs() -> None:
    low = dict.fromkeys(product("ab", range(4)), 0.0)
    high = {**low, ("a", 0): 0.15}
    near = {**low, ("a", 0): 0.046}
    for rates, differs in ((low, True), (high, True), (near, False)):
        found = LARGEST.row(grid_of(rates))
        assert found is not None
        assert (agreement([found]).differ != ()) == differs
        least, most = (float(word) for word in found.cell["agrees"].split(" to "))
        assert (least <= found.value <= most) == (not differs)


@pytest.mark.parametrize("longer", [1, 10])
def test_the_largest_rate_agrees_as_often_as_it_should(longer: int) -> None:
    # Both runs follow one law; the chance to differ at level .05 must not exceed it, also where
    # ours is longer and its maximum less inflated. Without Bonferroni it does exceed it then.
    rng = np.random.default_rng(4)
    runs, rates = 1000, np.full(200, 0.045)
    differ = bare = 0
    for _ in range(runs):
        theirs, ours = rng.binomial(500, rates).max(), rng.binomial(500 * longer, rates).max()
        printed = replace(LARGEST.published, value=round(theirs / 500, 3))
        figure = replace(LARGEST, published=printed)
        corrected, single = (figure.p_agree(ours, 500 * longer, k) for k in (200, 1))
        differ += float(corrected) <= 0.05
        bare += float(single) <= 0.05
    assert differ <= runs * 0.05
    assert longer == 1 or bare > runs * 0.08


def test_cells_that_tie_are_counted_and_compared_as_fair_coins() -> None:
    gains = [0.0, 0.0, -0.1, 0.1, 0.0, -0.2, -0.3, 0.0, 0.0, -0.01]
    rows = [row("a", "gain", k, gain) for k, gain in enumerate(gains)]
    found = TIES.row(rows)
    assert found is not None
    assert found.value == 5.0
    assert found.p_agree == 1.0
    # Ten ties against four: six of six coins at least, 2/2^6, or 8 heads of 10 and so on;
    # the likeliest is eight or more of ten: 2 (45 + 10 + 1)/2^10.
    assert TIES.p_agree(10) == pytest.approx(2 * 56 / 1024)
    fewer = TIES.row([replace(one, repetitions=20) for one in rows])
    assert fewer is not None
    assert fewer.p_agree is None


def test_a_grid_with_a_missing_cell_has_no_figure() -> None:
    rates = dict.fromkeys(product("ab", range(4)), 0.01)
    assert LARGEST.row(grid_of(rates)[1:]) is None
    assert TIES.row([row("a", "gain", k, 0.0) for k in range(9)]) is None
    assert grid_rows([]) == []


@pytest.mark.parametrize("figure", FIGURES)
def test_every_figure_is_about_all_cells_of_its_studies(figure: LargestRate) -> None:
    assert not set(figure.studies) - set(STUDIES)
    at_most = getattr(figure, "at_most", 1.0)
    cells = [c for name in figure.studies for c in STUDIES[name].cells if c["eta"] <= at_most]
    assert figure.cells == len(cells)


@pytest.fixture(scope="module")
def published_rows() -> list[Row]:
    """Rows of all studies that say exactly what was published."""
    found = []
    for study in STUDIES.values():
        for (index, method, metric), printed in study.published.items():
            n = study.repetitions
            # A rate is 0 or 1 a repetition; any other figure the same value in every one.
            total = printed.value * n
            squares = printed.value**2 * n
            if printed.simulated_rate:
                total = squares = round(total)
            found += rows_of(study, index, {(method, metric): Sums(n, total, squares)})
    return found


def planted(one: Row, error: float) -> list[Row]:
    """A row again, with an error of its estimate."""
    study = STUDIES[one.study]
    count = round((one.value + error) * one.repetitions)
    outcome = {(one.method, one.metric): Sums(one.repetitions, count, count)}
    return rows_of(study, study.cells.index(one.cell), outcome)


def test_a_planted_three_point_error_is_reported_exactly_where_the_page_says(
    published_rows: list[Row],
) -> None:
    rows = published_rows
    assert agreement(rows).good
    shown = hidden = 0
    for place, one in enumerate(rows):
        study = STUDIES[one.study]
        key = (study.cells.index(one.cell), one.method, one.metric)
        printed = study.published[key]
        if not printed.simulated_rate:
            continue
        inside = [e for e in (-PLANTED, PLANTED) if 0.0 <= one.value + e <= 1.0]
        wrong = [planted(one, error) for error in inside]
        # Through Holm over all figures, of which all others agree perfectly.
        reported = [
            agreement([*rows[:place], *new, *rows[place + 1 :]]).differ == tuple(new)
            for new in wrong
        ]
        assert all(reported) == error_shows(printed, one.repetitions, one.exact, len(rows)), one
        shown, hidden = shown + all(reported), hidden + (not all(reported))
    # Rates printed from 5,000 runs and more show it, those from 500 hardly.
    assert shown > 80
    assert hidden > 10


@pytest.mark.parametrize(
    ("name", "method", "metric"),
    [
        ("target-reuse", "sealed", "false validation"),
        ("calibration", "Holm", "false acceptance"),
        ("rare-group", "simple random", "power"),
    ],
)
def test_a_method_that_errs_by_three_points_is_reported_among_all_figures(
    name: str, method: str, metric: str, published_rows: list[Row]
) -> None:
    study = STUDIES[name]
    others = [row for row in published_rows if row.study != name]
    cells = sorted({index for index, _, _ in study.published})
    right = run_study(study, cells=cells)
    assert agreement([*others, *right]).good
    wrong = [
        planted(row, PLANTED)[0]
        if (row.method, row.metric) == (method, metric) and row.published is not None
        else row
        for row in right
    ]
    differ = agreement([*others, *wrong]).differ
    assert differ
    assert {(row.study, row.method, row.metric) for row in differ} == {(name, method, metric)}


def test_the_page_counts_the_rates_in_which_the_error_shows(published_rows: list[Row]) -> None:
    rows = published_rows
    study = STUDIES["target-reuse"]
    own = [one for one in rows if one.study == study.name]
    # An estimate .03 above the printed .4346 is .024 above the exact .4406: 3.4 errors of 5,000
    # runs, too few for a family of some 300. The other two show.
    assert detectable(study, own, len(rows)) == (3, 2)
    # 500 runs: .03 is 1.4 errors of a printed rate of one half, and cannot show.
    comparison = STUDIES["mode-comparison"]
    own = [one for one in rows if one.study == comparison.name]
    rates, shows = detectable(comparison, own, len(rows))
    assert 0 < shows < rates == 9
