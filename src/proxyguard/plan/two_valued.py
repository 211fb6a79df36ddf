"""The component tests of a two-valued loss: a p-value for every count of errors.

With a loss of 0 or 1 the mean and the variance follow from the count, so that each test is a
table, and a release passes when its count lies below a bar. Betting reads the order too, and
the randomized binomial test is the binomial one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache

import numpy as np
from numpy.typing import NDArray

from proxyguard.exact import mean as exact_mean
from proxyguard.exact.binomial import lower_tail
from proxyguard.registry.test import ComponentTest

Array = NDArray[np.float64]


def _binomial(n: int, v: float) -> Array:
    return lower_tail(np.arange(n + 1), n, v)


def _bernstein(n: int, v: float) -> Array:
    k = np.arange(n + 1)
    variance = k * (n - k) / (n * (n - 1.0))
    return exact_mean.empirical_bernstein_pvalue(k / n, variance, n, v)


_TABLES: Mapping[ComponentTest, Callable[[int, float], Array]] = {
    ComponentTest.BINOMIAL: _binomial,
    ComponentTest.RANDOMIZED_BINOMIAL: _binomial,
    ComponentTest.BENTKUS: lambda n, v: exact_mean.bentkus_pvalue(np.arange(n + 1) / n, n, v),
    ComponentTest.CHERNOFF: lambda n, v: exact_mean.chernoff_pvalue(np.arange(n + 1) / n, n, v),
    ComponentTest.EMPIRICAL_BERNSTEIN: _bernstein,
    ComponentTest.HOEFFDING: lambda n, v: exact_mean.hoeffding_pvalue(np.arange(n + 1) / n, n, v),
}


@cache
def count_pvalues(test: ComponentTest, n: int, v: float) -> Array | None:
    """Return the p-value of every count, ``None`` for a test that is no function of it."""
    if test not in _TABLES or n < test.least_records:
        return None
    table = _TABLES[test](n, v)
    if np.any(np.diff(table) < 0.0):
        raise ValueError(f"{test.value} does not rise with the count for n {n}, limit {v}")
    return table
