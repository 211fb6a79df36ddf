"""The worst case: every certificate keeps its budget there, and a mistake in one is seen."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import proxyguard as pg
from conformance.error_rates import beyond, far_from_exact
from proxyguard.exact.evalues import largest_invalid_count
from proxyguard.exact.multiplicity import holm
from reproduction.studies import worst_case, worst_rules
from reproduction.studies.rows import Row
from reproduction.studies.run import run_study
from reproduction.studies.worst_rules import ALPHA, Audit

BETTING = {f"{mode}, betting" for mode in worst_case.MODES} | {"count by capital"}
COLLECTIVE = {"collective, tail-Simes", "collective, tail-Fisher"}


@pytest.fixture(scope="module")
def rows(effort: Any) -> list[Row]:
    return run_study(worst_case.WORST_CASE, repetitions=effort.times(whole=600, reduced=200))


def test_every_certificate_keeps_its_budget(rows: list[Row]) -> None:
    assert {row.method for row in rows} == set(worst_case.WORST_CASE.methods)
    assert beyond(rows, ALPHA) == []
    assert far_from_exact(rows) == []


def test_what_the_two_numbers_decide_has_an_exact_rate(rows: list[Row]) -> None:
    assert {row.method for row in rows if row.exact is None} == BETTING | COLLECTIVE
    exact = {
        method: max(r.exact for r in rows if r.method == method and r.exact is not None)
        for method in {row.method for row in rows} - BETTING - COLLECTIVE
    }
    assert max(exact.values()) <= ALPHA
    # A case that says nothing would keep any budget: the sharp forms spend most of it.
    assert all(
        exact[method] > 0.9 * ALPHA
        for method in ("sharp, binomial", "direct, slack, sharp", "sequential, sharp")
    )


SHIPPED: dict[str, dict[str, Any]] = {
    "direct": {"mode": "direct", "bound": "paper", "score": "slack", "target_share": "0.9"},
    "direct, slack, rescaled": {
        "mode": "direct", "bound": "rescaled", "score": "slack", "target_share": "0.9",
    },
    "direct, slack, sharp": {"mode": "direct", "score": "slack"},
    "hybrid": {
        "mode": "hybrid", "bound": "paper", "score": "slack", "test": "binomial",
        "target_share": "0.9",
    },
    "sharp, binomial": {"mode": "direct", "test": "binomial"},
    "sharp, chernoff": {"mode": "direct", "test": "chernoff"},
    "sharp, hoeffding": {"mode": "direct", "test": "hoeffding"},
    "named, empirical Bernstein": {"mode": "named", "test": "empirical_bernstein"},
    "named, bentkus": {"mode": "named", "test": "bentkus"},
    "hybrid, bentkus": {"mode": "hybrid", "test": "bentkus"},
    "count, binomial": {
        "mode": "count", "test": "binomial", "threshold": "0.01", "target_share": "0.9",
    },
    "count by mixture": {
        "mode": "count", "test": "binomial", "thresholds": ("0.001", "0.01"),
        "target_share": "0.9",
    },
    "smooth, rescaled": {"mode": "smooth", "bound": "rescaled"},
}  # fmt: skip


@pytest.mark.parametrize("method", SHIPPED)
def test_decisions_are_those_of_certify(method: str) -> None:
    # Reference: the package's own certificate from the losses, on both sides of the first
    # number of valid releases that validates while an invalid one errs as often as expected.
    audit = Audit(250, 1000, 0.2)
    usual = 200
    counts = np.arange(audit.releases + 1)
    decisions = worst_rules.rules(audit)[method](counts, np.full(counts.size, usual))
    slack, ramp = (
        (0.02, 0.16) if method.startswith("smooth") else (audit.limit - audit.cutoff, None)
    )
    error = pg.Requirement(
        name="error", low=0, high=1, limit=audit.limit, two_valued=True, slack=slack, ramp=ramp
    )
    first = int(np.argmax(decisions))
    assert 0 < first < audit.releases
    for valid in (first - 1, first):
        losses = np.zeros((audit.releases, audit.n, 1))
        losses[valid:, :usual] = 1.0
        found = pg.certify(
            losses, [error], reliability_target=0.8, alpha="0.05", beta=None, seed=1,
            **SHIPPED[method],
        )  # fmt: skip
        assert (found.decision is pg.Decision.VALIDATED) == decisions[valid]


def test_ours_pay_the_exact_ceiling_of_a_slack_score(monkeypatch: pytest.MonkeyPatch) -> None:
    audit = Audit(1000, 200, 0.2)
    usual = np.full(audit.releases + 1, 40)
    counts = np.arange(audit.releases + 1)

    def needed(bound: str) -> int:
        rule = worst_rules.slack_rule(audit, worst_rules.Bound(bound), ALPHA)
        return int(np.argmax(rule(counts, usual)))

    ours = needed("rescaled")
    monkeypatch.setattr(worst_rules, "binomial_ceiling", worst_rules.chernoff_ceiling)
    assert ours < needed("rescaled")  # the paper's ceiling would ask for more


@pytest.fixture
def fresh_rules() -> Iterator[None]:
    """Decisions made anew inside a test, and again after it."""
    worst_rules.rules.cache_clear()
    yield
    worst_rules.rules.cache_clear()


@pytest.mark.usefixtures("fresh_rules")
def test_a_dropped_ceiling_breaks_the_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worst_rules, "threshold_ceiling", lambda *_, **__: 0.0)
    rates = worst_case.exact_rates({"R": 250, "n": 1000, "limit": 0.2})
    assert rates["sharp, binomial", "false validation"] > 1.2 * ALPHA


@pytest.mark.usefixtures("fresh_rules")
def test_a_wrong_total_error_breaks_the_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worst_rules, "ALPHA", 0.1)
    rates = worst_case.exact_rates({"R": 250, "n": 200, "limit": 0.2})
    for method in ("sharp, binomial", "direct, slack, sharp"):
        assert rates[method, "false validation"] > 1.1 * 0.05


def test_a_boundary_without_its_ceiling_breaks_the_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    worst_case.boundary_of.cache_clear()
    monkeypatch.setattr(worst_case, "threshold_ceiling", lambda *_, **__: 0.0)
    rate = worst_case.sequential_rate(Audit(250, 200, 0.2), "sharp")
    worst_case.boundary_of.cache_clear()
    assert rate > ALPHA


def test_a_law_above_the_target_is_far_from_exact(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worst_case, "RELIABILITY", 0.87)
    rows = run_study(worst_case.WORST_CASE, repetitions=500, cells=(6,))
    assert {method for method, *_ in far_from_exact(rows)} >= {
        "sharp, binomial",
        "sequential, sharp",
    }
    assert beyond(rows, ALPHA) != []


def test_holm_of_two_groups_is_that_of_the_core() -> None:
    rng = np.random.default_rng(6)
    for _ in range(300):
        sizes = rng.integers(0, 12, 2)
        if sizes.sum() == 0:
            continue
        first, second = np.sort(rng.uniform(0, 0.02, 2))
        expected = holm(np.repeat([first, second], sizes), alpha=0.05).sum()
        found = worst_rules.holm_of_two(first, sizes[0], second, sizes[1], 0.05)
        assert found == expected


def test_the_count_of_two_groups_is_that_of_the_core() -> None:
    rng = np.random.default_rng(7)
    for _ in range(500):
        sizes = rng.integers(0, 12, 2)
        if sizes.sum() == 0:
            continue
        bad, good = np.sort(rng.choice([0.0, 3.0, 19.0, 21.0, 40.0, 900.0], 2) + rng.random(2))
        evalues = np.repeat([good, bad], sizes)
        expected = largest_invalid_count(evalues.tolist(), alpha=Fraction(1, 20))
        found = worst_case.most_invalid_of_two(good, sizes[0], np.float64(bad), sizes[1], 0.05)
        assert found == expected
