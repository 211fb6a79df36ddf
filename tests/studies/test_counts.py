"""The block-wise decisions are the core's own, and drawn laws are the declared ones."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom, ks_2samp

from proxyguard.exact.multiplicity import (
    Dependence,
    holm,
    tail_fisher_count,
    tail_simes_count,
)
from proxyguard.studies import counts

N, TOLERANCE = 60, 0.1
ROWS = st.lists(st.integers(0, 25), min_size=1, max_size=30)


@given(ROWS, st.floats(0.001, 0.3))
def test_recognized_releases_are_those_of_the_core(row: list[int], alpha: float) -> None:
    table = counts.pvalue_table(N, TOLERANCE)
    block = np.array([row, row[::-1]])
    p = table[np.array(row)]
    # The core compares with levels moved by 1e-12 towards caution; grids of counts cannot see it.
    expected = {
        counts.holm_recognized: int(holm(p, alpha=alpha).sum()),
        counts.simes_recognized: tail_simes_count(
            p, alpha=alpha, dependence=Dependence.INDEPENDENT
        ),
        counts.fisher_recognized: tail_fisher_count(
            p, alpha=alpha, dependence=Dependence.INDEPENDENT
        ),
    }
    for recognize, count in expected.items():
        assert recognize(block, table, alpha).tolist() == [count, count]


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
    valid = np.repeat([True, False], 10_000)
    mixed = counts.mixed_counts(rng, 200, valid, ((0.02,), (0.1,)))
    assert mixed[:10_000].mean() == pytest.approx(4.0, abs=0.1)
    assert mixed[10_000:].mean() == pytest.approx(20.0, abs=0.3)
