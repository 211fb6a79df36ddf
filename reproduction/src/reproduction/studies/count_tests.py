"""The component tests that are functions of a count, by the names of the studies' tables.

With losses of 0 and 1 the mean and the variance follow from the count, so that each test is a
table of p-values, one for every count.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache

import numpy as np

from proxyguard.exact.binomial import lower_tail
from proxyguard.exact.mean import (
    bentkus_pvalue,
    chernoff_pvalue,
    empirical_bernstein_pvalue,
    hoeffding_pvalue,
)
from proxyguard.exact.rounding import count_variance
from reproduction.studies.counts import Array

COUNT_TESTS: Mapping[str, str] = {
    "binomial": "binomial",
    "bentkus": "bentkus",
    "chernoff": "chernoff",
    "empirical Bernstein": "empirical_bernstein",
    "hoeffding": "hoeffding",
}
"""From the name in a table to the name in the package."""
OTHER_TESTS = tuple(test for test in COUNT_TESTS if test != "binomial")
"""The tests that the paper's count studies did not use."""

_TABLES: Mapping[str, Callable[[int, float], Array]] = {
    "binomial": lambda n, limit: lower_tail(np.arange(n + 1), n, limit),
    "bentkus": lambda n, limit: bentkus_pvalue(np.arange(n + 1) / n, n, limit),
    "chernoff": lambda n, limit: chernoff_pvalue(np.arange(n + 1) / n, n, limit),
    "empirical Bernstein": lambda n, limit: empirical_bernstein_pvalue(
        np.arange(n + 1) / n, count_variance(n, np.arange(n + 1), np.arange(n + 1)), n, limit
    ),
    "hoeffding": lambda n, limit: hoeffding_pvalue(np.arange(n + 1) / n, n, limit),
}


@cache
def count_pvalues(test: str, n: int, tolerance: float) -> Array:
    """Return the p-value of every count."""
    table = _TABLES[test](n, tolerance)
    if np.any(np.diff(table) < 0.0):  # studies compare counts with a bar
        raise ValueError(f"{test} does not rise with the count for n {n}, limit {tolerance}")
    return table
