"""Our methods on mechanisms are the core's certificates, keep their error, and are as exact."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

from proxyguard.exact.binomial import clopper_pearson_lower, upper_tail
from proxyguard.exact.sharp import default_violation_threshold, sharp_lower
from reproduction.studies import mechanism_modes, mechanisms
from reproduction.studies.catalog import STUDIES
from reproduction.studies.count_tests import COUNT_TESTS, count_pvalues
from reproduction.studies.counts import VIOLATION
from reproduction.studies.mechanism_modes import OURS
from reproduction.studies.rows import Row
from reproduction.studies.run import run_study

STUDIES_OF_MECHANISMS = ("mechanism-calibration", "near-boundary", "error-split", "collective-grid")


@pytest.fixture(scope="module")
def rows() -> list[Row]:
    """Our methods in a few cells of each study."""
    return [
        row
        for name in STUDIES_OF_MECHANISMS
        for row in run_study(
            STUDIES[name], repetitions=2000, methods=OURS,
            cells=range(0, len(STUDIES[name].cells), 1 + len(STUDIES[name].cells) // 8),
        )
    ]  # fmt: skip


@pytest.mark.guarantee
def test_our_errors_stay_within_their_budget(rows: list[Row]) -> None:
    wrong = [row for row in rows if row.metric in ("false validation", "false violation")]
    assert {row.method for row in wrong} == set(OURS)
    for row in wrong:
        # The exact lower limit of the error rate, one in a thousand, does not exceed .05.
        count = round(row.value * row.repetitions)
        assert clopper_pearson_lower(count, row.repetitions, alpha=0.001) <= 0.05, row


def test_the_sharp_certificate_validates_no_less_than_the_count(rows: list[Row]) -> None:
    # Theory sections 2 and 3: sharp >= CP_lower(K_LB) for one threshold, on every repetition.
    power = {
        (row.study, str(row.cell), row.method): row.value for row in rows if row.metric == "power"
    }
    pairs = [
        (value, power[study, cell, "count, binomial"])
        for (study, cell, method), value in power.items()
        if method == "sharp, binomial"
    ]
    assert pairs
    assert all(sharp >= count for sharp, count in pairs)
    assert any(sharp > count > 0.0 for sharp, count in pairs)


@pytest.mark.parametrize("test", [test for test in COUNT_TESTS if test != "binomial"])
def test_no_mode_gains_from_a_weaker_test(rows: list[Row], test: str) -> None:
    # For two-valued losses every other p-value is at least the exact binomial one.
    for n in (100, 500):
        assert np.all(count_pvalues(test, n, 0.1) >= count_pvalues("binomial", n, 0.1) - 1e-12)
    values = {(row.study, str(row.cell), row.method, row.metric): row.value for row in rows}
    compared = 0
    for (study, cell, method, metric), value in values.items():
        mode, _, own = method.partition(", ")
        exact = values.get((study, cell, f"{mode}, binomial", metric))
        if own == test and metric == "power" and exact is not None:
            compared += 1
            assert value <= exact
    assert compared > 20


def test_tables_are_the_formulas_of_the_component_tests() -> None:
    # Written out for 7 errors in 40 records against .3; studies A1 and A5, Hoeffding 1963.
    n, k, v = 40, 7, 0.3
    mean = k / n
    root, width = np.sqrt(2 * k * (n - k) / (n * (n - 1)) / n), 7 / (3 * (n - 1))
    x = (-root + np.sqrt(root**2 + 4 * width * (v - mean))) / (2 * width)
    divergence = mean * np.log(mean / v) + (1 - mean) * np.log((1 - mean) / (1 - v))
    expected = {
        "binomial": binom.cdf(k, n, v),
        # Bentkus 2004: the least of E(h - S)+ / (h - k), S binomial, over whole numbers h.
        "bentkus": min(
            sum((h - i) * binom.pmf(i, n, v) for i in range(h)) / (h - k) for h in range(k + 1, n)
        ),
        "chernoff": np.exp(-n * divergence),
        "empirical Bernstein": min(1.0, 2 * np.exp(-(x**2))),
        "hoeffding": np.exp(-2 * n * (v - mean) ** 2),
    }
    assert set(expected) == set(COUNT_TESTS)
    for test, value in expected.items():
        assert count_pvalues(test, n, v)[k] == pytest.approx(value, rel=1e-6), test


@pytest.mark.parametrize(("n", "releases"), [(100, 25), (500, 50), (1000, 100)])
def test_violation_is_that_of_the_certificate(n: int, releases: int) -> None:
    beta = 0.05 / 5
    bars = mechanism_modes.violation_bars(n, releases, 0.1, 0.8, beta)
    assert bars is not None
    least, enough = bars
    threshold = default_violation_threshold(releases, target=0.8, beta=beta)
    assert threshold is not None
    # Theory section 4: q = min(1, J min_j q_j) with J = 3, and q_j falls as the count grows.
    assert 3.0 * upper_tail(least, n, 0.1) <= threshold < 3.0 * upper_tail(least - 1, n, 0.1)
    uppers = [
        1.0 - sharp_lower(count, releases, kappa=threshold, alpha=beta)
        for count in (enough - 1, enough)
    ]
    assert uppers[1] < 0.8 <= uppers[0] + 1e-9


def test_unreliable_mechanisms_are_said_to_violate() -> None:
    # A block of which every release has a count far above the limit.
    counts = np.full((50, 5, 3), 80, dtype=np.uint8)
    assert mechanism_modes.violations(counts, 500).tolist() == [5, 5, 5]
    assert mechanism_modes.violations(np.full_like(counts, 50), 500).tolist() == [0, 0, 0]


def test_too_few_releases_decide_nothing() -> None:
    # .8^10 > .01 and .2^2 > .01: neither direction can decide with so few releases.
    counts = np.zeros((10, 5, 4), dtype=np.uint8)
    assert mechanism_modes.sharp(counts, "binomial", 500).tolist() == [0] * 4
    assert mechanism_modes.counted(counts, "binomial", 500).tolist() == [0] * 4
    assert (
        mechanism_modes.violations(np.full((2, 5, 4), 200, dtype=np.uint8), 500).tolist() == [0] * 4
    )


def test_exact_rates_are_binomial_tails() -> None:
    cell: dict[str, Any] = dict(STUDIES["near-boundary"].cells[3])
    exact = mechanisms.exact_near_boundary(cell)
    # Reference: the definition, with scipy's binomial law. The binomial test of 200 releases at
    # .025/5 needs the least V with P(Bin(200, .8) >= V) <= .005.
    enough = next(v for v in range(201) if binom.sf(v - 1, 200, 0.8) <= 0.005)
    oracle = 1.0 - binom.cdf(enough - 1, 200, 0.8) ** 5
    assert exact["oracle", "false validation"] == pytest.approx(oracle, rel=1e-9)
    # studies.md, traps: the exact false validation of this row is .0180.
    assert round(oracle, 4) == 0.0180
    largest = max(k for k in range(501) if binom.cdf(k, 500, 0.1) <= 0.025)
    wrong = 0.2 * binom.cdf(largest, 500, 0.12) * binom.cdf(largest, 500, 0.02) ** 2
    expected = 1.0 - (1.0 - wrong) ** 1000
    assert exact["uncorrected", "any false label"] == pytest.approx(expected, rel=1e-9)


def test_fewer_than_the_least_release_never_validate() -> None:
    # .8^10 > .05/5, so no outcome of 10 releases validates and the exact rate is 0.
    cell = {"n": 500, "R": 10, "safe": 0.02, "bad": 0.12, "eta": 0.98, "share": 0.5}
    assert mechanisms.exact_calibration(cell)["oracle", "false validation"] == 0.0


@pytest.mark.parametrize("bad", [0.12, 0.16, 0.25])
def test_unreliable_mechanisms_are_shown_to_be_as_often_as_a_sum_says(bad: float) -> None:
    # At the paper's risk of .12 against .10 no violation shows; farther out it must.
    cell = {**STUDIES["mechanism-calibration"].cells[-1], "n": 500, "R": 75, "bad": bad}
    wanted = frozenset({"sharp violation"})
    sums = mechanisms.calibrate(cell, np.random.default_rng(3), 2000, wanted)
    exact = mechanism_modes.exact_ours(cell)["sharp violation", VIOLATION]
    assert {0.12: exact < 1e-6, 0.16: 0.2 < exact < 0.8, 0.25: exact > 0.9}[bad]
    # Five independent mechanisms a repetition.
    error = max((exact * (1 - exact) / 10_000) ** 0.5, 1e-4)
    assert abs(sums["sharp violation", VIOLATION].mean - exact) < 5 * error
    # The same at the target, where a violation is false: the twin that must stay low.
    assert sums["sharp violation", "false violation"].mean < 0.07
