"""The block-wise decisions are the core's own, and drawn laws are the declared ones."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom, chi2_contingency, chisquare, ks_2samp

from proxyguard.exact.binomial import clopper_pearson_lower
from proxyguard.exact.multiplicity import (
    Dependence,
    holm,
    tail_fisher_count,
    tail_simes_count,
)
from proxyguard.modes.count import least_counted
from proxyguard.registry.budget import direct_budget
from reproduction.studies import counts

N, TOLERANCE = 60, 0.1
ROWS = st.lists(st.integers(0, 25), min_size=1, max_size=30)
RISKS = ((0.02, 0.02, 0.02), (0.12, 0.02, 0.02))


@given(ROWS, st.floats(0.001, 0.3), st.sampled_from((np.uint8, np.int64)))
def test_recognized_releases_are_those_of_the_core(
    row: list[int], alpha: float, kind: type
) -> None:
    table = counts.pvalue_table(N, TOLERANCE)
    block = np.array([row, row[::-1]], dtype=kind).T
    p = table[np.array(row)]
    # The core compares with levels moved by 1e-12 towards caution; grids of counts cannot see it.
    expected = {
        counts.holm_count: int(holm(p, alpha=alpha).sum()),
        counts.simes_count: tail_simes_count(p, alpha=alpha, dependence=Dependence.INDEPENDENT),
        counts.fisher_count: tail_fisher_count(p, alpha=alpha, dependence=Dependence.INDEPENDENT),
    }
    for recognize, count in expected.items():
        assert recognize(block, table, alpha).tolist() == [count, count]


@pytest.mark.parametrize("risk", [0.03, 0.06])
def test_recognized_releases_are_those_of_the_core_in_large_families(risk: float) -> None:
    rng = np.random.default_rng(5)
    table = counts.pvalue_table(500, TOLERANCE)
    block = np.where(rng.random((200, 40)) < 0.9, rng.binomial(500, risk, (200, 40)),
                     rng.binomial(500, 0.12, (200, 40))).astype(np.uint8)  # fmt: skip
    for column in range(block.shape[1]):
        p = table[block[:, column]]
        one = block[:, column : column + 1]
        assert counts.holm_count(one, table, 0.01) == holm(p, alpha=0.01).sum()
        for recognize, core in (
            (counts.simes_count, tail_simes_count), (counts.fisher_count, tail_fisher_count),
        ):  # fmt: skip
            expected = core(p, alpha=0.01, dependence=Dependence.INDEPENDENT)
            assert recognize(one, table, 0.01) == expected


@given(
    st.lists(st.lists(st.integers(0, 25), min_size=3, max_size=3), min_size=1, max_size=12),
    st.floats(0.001, 0.3),
)
def test_one_family_may_span_mechanisms(rows: list[list[int]], alpha: float) -> None:
    table = counts.pvalue_table(N, TOLERANCE)
    block = np.array(rows, dtype=np.uint8)[:, :, None]  # releases, mechanisms, one repetition
    bars = counts.holm_bars(block, table, alpha, (0, 1))
    expected = holm(table[block].ravel(), alpha=alpha)
    assert (block < bars).ravel().tolist() == expected.tolist()


@given(st.lists(st.integers(0, 40), min_size=1, max_size=9), st.floats(0.001, 0.5))
def test_validated_mechanisms_are_those_of_holm_by_count(row: list[int], alpha: float) -> None:
    table = counts.reliability_pvalues(40, 0.8)
    expected = int(holm(table[row], alpha=alpha).sum())
    assert counts.validated_mechanisms(np.array(row)[:, None], table, alpha) == [expected]


@given(st.lists(st.floats(0.0, 1.0), min_size=1, max_size=9), st.floats(0.001, 0.5))
def test_validated_mechanisms_are_those_of_holm(pvalues: list[float], alpha: float) -> None:
    row = np.array([pvalues])
    assert counts.validated(row, alpha)[0].tolist() == holm(pvalues, alpha=alpha).tolist()


def test_the_largest_count_has_the_product_law() -> None:
    # Reference: scipy.stats.binom.cdf, an independent implementation of the binomial law.
    law = counts.largest_count_law(200, (0.1, 0.02, 0.05))
    k = np.arange(201)
    expected = binom.cdf(k, 200, 0.1) * binom.cdf(k, 200, 0.02) * binom.cdf(k, 200, 0.05)
    np.testing.assert_allclose(law, expected, rtol=1e-11, atol=1e-300)


def test_drawn_largest_counts_follow_it() -> None:
    rng = np.random.default_rng(1)
    drawn = counts.largest_counts(rng, 200, (0.1, 0.02, 0.05), (20_000,))
    plain = rng.binomial(200, (0.1, 0.02, 0.05), (20_000, 3)).max(axis=1)
    assert ks_2samp(drawn, plain).pvalue > 1e-4


class Scripted:
    """A generator that gives every piece of the guide once, then known uniforms."""

    def __init__(self, uniforms: np.ndarray) -> None:
        self.uniforms, self.asked = uniforms, 0

    def integers(self, low: int, high: int, size: int, dtype: type) -> np.ndarray:
        assert (low, high, size) == (0, 2**64, 2**14)
        return np.arange(2**16, dtype=np.uint16).view(dtype)

    def random(self, size: int) -> np.ndarray:
        self.asked = size
        return self.uniforms[:size]


def test_the_guide_is_inversion_of_a_uniform() -> None:
    law = counts.mixed_law(500, TOLERANCE, 0.8, RISKS)
    rng = np.random.default_rng(2)
    script = Scripted(rng.random(1000))
    codes = law.draw(script, (2**16,))
    unclear = np.flatnonzero(law.guide == counts.UNDECIDED)
    assert script.asked == unclear.size
    assert 0 < unclear.size < 200
    within = rng.random(2**16)  # wherever in its piece the uniform lies, unless that matters
    within[unclear] = script.uniforms[: unclear.size]
    expected = np.searchsorted(law.cdf, (np.arange(2**16) + within) / 2**16, side="left")
    assert codes.tolist() == expected.tolist()


def test_a_law_with_too_many_codes_is_refused() -> None:
    with pytest.raises(ValueError, match="at most 255 codes"):
        counts.CodeLaw.of(np.linspace(0.0, 1.0, 256))
    with pytest.raises(ValueError, match="sum to 1"):
        counts.CodeLaw.of(np.array([0.5, 0.9]))


@pytest.mark.parametrize("eta", [0.8, 0.98])
def test_mixed_counts_are_those_of_binomials_and_coins(eta: float) -> None:
    # Reference: the declared law itself, one coin a release and one binomial a requirement.
    rng = np.random.default_rng(3)
    size, n = 200_000, 500
    drawn, labels = counts.labelled(
        counts.mixed_law(n, TOLERANCE, eta, RISKS).draw(rng, (size,)), n, TOLERANCE
    )
    coins = rng.random(size) < eta
    plain = rng.binomial(n, np.where(coins[:, None], *RISKS)).max(axis=1)
    ours = np.bincount(drawn + 1000 * labels, minlength=2000)
    theirs = np.bincount(np.minimum(plain, drawn.max()) + 1000 * coins, minlength=2000)
    seen = ours + theirs >= 20
    assert seen.sum() > 40
    pairs = np.array([ours[seen], theirs[seen]])
    assert chi2_contingency(pairs).pvalue > 1e-4
    blind = counts.unlabelled_law(n, TOLERANCE, eta, RISKS).draw(rng, (size,))
    ours = np.bincount(blind, minlength=256)
    expected = np.diff(counts.unlabelled_law(n, TOLERANCE, eta, RISKS).cdf, prepend=0.0) * size
    often = expected >= 10
    rest = [ours[: expected.size][~often].sum()], [expected[~often].sum()]
    assert chisquare([*ours[: expected.size][often], *rest[0]],
                     [*expected[often], *rest[1]]).pvalue > 1e-4  # fmt: skip
    mixture = sum(
        share * np.diff(counts.largest_count_law(n, risks), prepend=0.0)
        for share, risks in zip((eta, 1 - eta), RISKS, strict=True)
    )
    np.testing.assert_allclose(expected[:-1], size * mixture[: expected.size - 1], atol=1e-8)


def test_counts_above_every_decision_share_a_code() -> None:
    table = counts.pvalue_table(500, TOLERANCE)
    top = counts.unlabelled_law(500, TOLERANCE, 0.8, RISKS).cdf.size - 1
    assert table[top] == 1.0
    assert table[top - 1] < 1.0


@pytest.mark.parametrize(("releases", "threshold"), [(50, 0.003), (100, 0.004), (25, 0.003)])
def test_the_count_validates_from_its_least_score_on(releases: int, threshold: float) -> None:
    alpha_target, alpha_draws = Fraction(9, 1000), Fraction(1, 1000)
    budget = direct_budget(alpha_target + alpha_draws, target_share=Fraction(9, 10))
    least = least_counted(budget, Fraction(threshold), releases, target=0.8)

    def validates(scores: int) -> bool:
        # Theory section 3: m* is the largest m <= R with (m - (R - N)) alpha_Z < m t.
        t = Fraction(threshold)
        most = max(
            m for m in range(releases + 1)
            if m == 0 or (m - (releases - scores)) * alpha_target < m * t
        )  # fmt: skip
        lower = clopper_pearson_lower(releases - most, releases, alpha=float(alpha_draws))
        return bool(lower > 0.8)

    assert [validates(n) for n in range(releases + 1)] == [n >= least for n in range(releases + 1)]
    # .8^25 > .001: no count of 25 releases can validate.
    assert (least > releases) == (releases == 25)
