"""Necessary and sufficient sizes: Propositions 14, 17 and 18, Theorem 15."""

from __future__ import annotations

from math import exp, log, sqrt

import numpy as np
import pytest
from scipy.stats import binom

from proxyguard.exact import contamination, planning
from proxyguard.exact.binomial import clopper_pearson_lower
from proxyguard.exact.mean import hoeffding_pvalue, log_chernoff


def divergence(cutoff: float, limit: float) -> float:
    return float(-log_chernoff(cutoff, 1, limit))


@pytest.mark.parametrize(
    ("target", "family", "releases"),
    # Paper table "All-recognized releases needed", at alpha_M = .025.
    [(0.8, 1, 17), (0.8, 5, 24), (0.8, 9, 27), (0.9, 1, 36), (0.9, 5, 51), (0.9, 9, 56)],
)
def test_named_release_counts_are_those_of_the_paper(
    target: float, family: int, releases: int
) -> None:
    found = planning.least_releases_named(target=target, alpha_mechanism=0.025, n_mechanisms=family)
    assert found == releases
    # One release fewer cannot pass Holm's first threshold even if all are recognized.
    assert target**found <= 0.025 / family < target ** (found - 1)


@pytest.mark.parametrize("slack", [0.01, 0.03, 0.055])
@pytest.mark.parametrize("target", [0.5, 0.8, 0.95])
def test_the_least_number_of_records_is_the_first_that_leaves_room(
    slack: float, target: float
) -> None:
    d = divergence(0.3 - slack, 0.3)
    n = planning.least_records(d, target=target, alpha_target=0.045)
    assert exp(-n * d) / 0.045 < 1 - target <= exp(-(n - 1) * d) / 0.045


@pytest.mark.parametrize("kappa", [0.0, 0.001, 0.005])
def test_the_least_number_of_releases_is_the_first_that_can_validate(kappa: float) -> None:
    found = planning.least_releases_direct(kappa, target=0.8, budget=(0.005, 0.045))
    assert found is not None
    allowance = kappa / 0.045
    # Best case: every release scores, so the limit is alpha_Q^(1/R).
    assert clopper_pearson_lower(found, found, alpha=0.005) - allowance > 0.8
    assert clopper_pearson_lower(found - 1, found - 1, alpha=0.005) - allowance <= 0.8


def test_contamination_that_leaves_no_room_makes_every_number_of_releases_too_small() -> None:
    assert planning.least_releases_direct(0.02, target=0.8, budget=(0.025, 0.025)) is None


def test_a_sufficient_named_size_recognizes_every_release_with_the_promised_chance() -> None:
    margin, n_releases, n_requirements, alpha, beta = 0.1, 20, 2, 0.025, 0.1
    n = planning.sufficient_records_named(
        margin=margin, width=1.0, alpha=alpha, beta=beta,
        n_releases=n_releases, n_requirements=n_requirements,
    )  # fmt: skip
    # Means exactly at the margin; a count passes when its Hoeffding p-value is alpha/R.
    counts = np.arange(n + 1)
    passes = hoeffding_pvalue(counts / n, n, 0.5) <= alpha / n_releases
    missed = 1 - binom.pmf(counts, n, 0.5 - margin)[passes].sum()
    assert n_releases * n_requirements * missed <= beta
    need = max(log(n_releases / alpha), log(n_releases * n_requirements / beta))
    assert 0 <= n - 2 / margin**2 * need < 1


def test_the_direct_shortfall_has_the_five_terms_of_equation_20() -> None:
    shortfall = planning.direct_shortfall(
        n_records=1000, n_releases=250, n_requirements=3, margin=0.08, slack=0.04, width=1.0,
        budget=(0.005, 0.045), failure=(0.1, 0.2),
    )  # fmt: skip
    expected = (
        3 * exp(-2 * 1000 * 0.04**2) / 0.2
        + sqrt(log(1 / 0.1) / 500)
        + sqrt(log(1 / 0.005) / 500)
        + exp(-2 * 1000 * 0.04**2) / 0.045
    )
    assert shortfall == pytest.approx(expected, rel=1e-12)


def test_the_direct_bound_keeps_within_its_shortfall_as_often_as_promised() -> None:
    # One requirement, all releases valid at the margin, losses shared by all releases:
    # the score of every release is then one indicator of the target.
    n, n_releases, margin, slack, limit = 400, 100, 0.1, 0.05, 0.3
    budget, failure = (0.025, 0.025), (0.1, 0.1)
    shortfall = planning.direct_shortfall(
        n_records=n, n_releases=n_releases, n_requirements=1, margin=margin, slack=slack,
        width=1.0, budget=budget, failure=failure,
    )  # fmt: skip
    kappa = contamination.chernoff_ceiling(limit - slack, limit, n)
    bound = (
        float(clopper_pearson_lower(n_releases, n_releases, alpha=budget[0])) - kappa / budget[1]
    )
    scored = binom.cdf(np.floor(n * (limit - slack)), n, limit - margin)
    assert bound >= 1 - shortfall
    assert 1 - scored <= sum(failure)


@pytest.mark.parametrize(
    "call",
    [
        lambda: planning.least_records(0.0, target=0.8, alpha_target=0.05),
        lambda: planning.sufficient_records_named(
            margin=0.0, width=1, alpha=0.05, beta=0.1, n_releases=1, n_requirements=1
        ),
        lambda: planning.direct_shortfall(
            n_records=10,
            n_releases=10,
            n_requirements=1,
            margin=0.1,
            slack=0.1,
            width=1,
            budget=(0.025, 0.025),
            failure=(0.1, 0.1),
        ),
    ],
)
def test_a_margin_that_is_none_is_refused(call: object) -> None:
    with pytest.raises(ValueError, match="got 0"):
        call()  # type: ignore[operator]


@pytest.mark.parametrize("prevalence", [0.02, 0.3, 1.0])
@pytest.mark.parametrize("eligible", [1, 40, 500])
def test_screened_records_are_the_fewest_that_meet_the_eligible_ones_so_surely(
    eligible: int, prevalence: float
) -> None:
    mean, certain = planning.records_to_screen(eligible, prevalence, certainty=0.95)
    assert mean == np.ceil(round(eligible / prevalence, 6))
    assert binom.sf(eligible - 1, certain, prevalence) >= 0.95 - 1e-12
    assert certain == eligible or binom.sf(eligible - 1, certain - 1, prevalence) < 0.95 + 1e-12


def test_the_rare_group_of_the_paper_needs_the_records_that_it_says() -> None:
    # App. K: at prevalence .02, 500 eligible records mean roughly 25,000 screened ones.
    mean, certain = planning.records_to_screen(500, 0.02, certainty=0.95)
    assert mean == 25_000 < certain


@pytest.mark.parametrize("given", [(0, 0.1, 0.9), (5, 0.0, 0.9), (5, 1.1, 0.9), (5, 0.1, 1.0)])
def test_screening_for_nothing_or_with_no_chance_is_refused(
    given: tuple[int, float, float],
) -> None:
    eligible, prevalence, certainty = given
    with pytest.raises(ValueError, match="a prevalence in"):
        planning.records_to_screen(eligible, prevalence, certainty=certainty)
