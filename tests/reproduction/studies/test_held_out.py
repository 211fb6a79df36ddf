"""Moments are drawn from the law of the records, and tabled betas from the beta law."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from proxyguard.exact.binomial import clopper_pearson_lower
from reproduction.studies import held_out
from reproduction.studies.beta import CELLS, PIECES, beta_law
from reproduction.studies.catalog import STUDIES
from reproduction.studies.run import run_study

ROWS, N = 1500, 60


@pytest.mark.parametrize(("a", "b"), [(8.595, 9.405), (9.09, 8.91), (1.5, 40.0)])
def test_tabled_betas_have_the_beta_law(a: float, b: float) -> None:
    law = beta_law(a, b)
    draws = law.draw(np.random.default_rng(1), (300, 1000)).ravel()
    # Reference: scipy's beta distribution function.
    assert stats.kstest(draws, stats.beta(a, b).cdf).pvalue > 1e-4
    # Inside a cell the density is uneven; the table must not flatten it.
    fine = np.floor(draws * CELLS * 4).astype(int)
    expected = np.diff(stats.beta(a, b).cdf(np.arange(4 * CELLS + 1) / (4 * CELLS))) * draws.size
    seen = np.bincount(fine, minlength=4 * CELLS)
    often = expected > 20
    statistic = ((seen - expected)[often] ** 2 / expected[often]).sum()
    assert stats.chi2.sf(statistic, often.sum()) > 1e-4


def test_what_the_rectangles_leave_over_is_the_density_less_them() -> None:
    law = beta_law(8.595, 9.405)
    share = np.count_nonzero(law.guide == CELLS) / PIECES
    assert 0.0 < share < 0.02
    draws = law.draw_left_over(np.random.default_rng(2), 100_000)
    edges = np.arange(CELLS + 1) / CELLS
    below = np.concatenate(([0.0], np.cumsum(law.floor / CELLS)))

    def left_over(x: np.ndarray) -> np.ndarray:
        inside = np.interp(x, edges, below)  # the rectangles' own distribution function
        return (stats.beta(law.a, law.b).cdf(x) - inside) / share

    assert stats.kstest(draws, left_over).pvalue > 1e-4


def test_a_density_without_a_peak_is_refused() -> None:
    with pytest.raises(ValueError, match="one peak"):
        beta_law(1.0, 3.0)


def moments_of(u: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return u.mean(axis=-1), u.var(axis=-1, ddof=1)


def assert_one_law(family: held_out.Family, valid: bool) -> None:
    """Compare what moments and records say of every requirement, and of pairs of candidates."""
    drawn = family.moments(np.random.default_rng(3), ROWS, N, valid)
    plain = moments_of(family.records(np.random.default_rng(4), ROWS, N, valid))
    for ours, theirs in zip(drawn, plain, strict=True):
        for j in range(held_out.REQUIREMENTS):
            assert stats.ks_2samp(ours[:, 0, j], theirs[:, 0, j]).pvalue > 1e-4
        for summary in (lambda x: x[:, 0, 0] + x[:, 1, 0], lambda x: x[:, 0, 0] + x[:, 0, 1]):
            assert stats.ks_2samp(summary(ours), summary(theirs)).pvalue > 1e-4
    ours, theirs = ((mean + 4.0 * variance)[:, 0, 0] for mean, variance in (drawn, plain))
    assert stats.ks_2samp(ours, theirs).pvalue > 1e-4


@pytest.mark.parametrize("valid", [True, False])
@pytest.mark.parametrize("law", held_out.FAMILIES)
def test_moments_are_those_of_the_records(law: str, valid: bool) -> None:
    assert_one_law(held_out.FAMILIES[law], valid)


def test_clipped_rare_records_are_clipped_in_the_moments(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(held_out, "RARE_MEAN", 1.1)  # most of them lie beyond 1
    assert_one_law(held_out.FAMILIES["rare"], True)


def test_clipped_correlated_records_are_clipped_in_the_moments(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(held_out, "SHARED_SPREAD", 0.6)  # one record in ten lies beyond 1
    assert_one_law(held_out.FAMILIES["correlated"], False)


def test_clipping_too_little_would_be_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(held_out, "SHARED_SPREAD", 0.6)
    monkeypatch.setattr(held_out, "NEAR", 10.0)
    with pytest.raises(AssertionError):
        assert_one_law(held_out.FAMILIES["correlated"], False)


@pytest.mark.guarantee
def test_tests_that_read_records_keep_their_error_and_gain_power() -> None:
    study = STUDIES["held-out-regrets"]
    methods = ("Holm, empirical Bernstein", "Holm, randomized binomial", "Holm, betting")
    rows = run_study(study, repetitions=1000, cells=(0, 2, 4), methods=methods)
    for row in rows:
        # One repetition in five where records are read.
        assert row.repetitions == (1000 if "Bernstein" in row.method else 200)
        if row.metric == "false validation":
            count = round(row.value * row.repetitions)
            assert clopper_pearson_lower(count, row.repetitions, alpha=0.001) <= 0.05
    power = {(row.cell["law"], row.method): row.value for row in rows if row.metric == "power"}
    for law in ("beta", "correlated"):
        assert power[law, "Holm, betting"] > power[law, "Holm, empirical Bernstein"] + 0.3


def test_candidates_on_the_same_records_share_their_uniforms() -> None:
    u = np.full((1, held_out.CANDIDATES, held_out.REQUIREMENTS, 500), 0.4)
    for law, family in held_out.FAMILIES.items():
        p = held_out._randomized_binomial(np.random.default_rng(5), family, u)
        assert bool(np.all(p == p[:, :1])) == (law == "correlated")
