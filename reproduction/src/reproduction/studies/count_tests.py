"""The component tests that are functions of a count, by the names of the studies' tables.

With losses of 0 and 1 the mean and the variance follow from the count, so that each test is a
table of p-values, one for every count.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from proxyguard.plan import targets
from proxyguard.registry.test import ComponentTest
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


@cache
def count_pvalues(test: str, n: int, tolerance: float) -> Array:
    """Return the p-value of every count, by the table that plans are made with."""
    table = targets.count_pvalues(ComponentTest(COUNT_TESTS[test]), n, tolerance)
    assert table is not None  # each of these is a function of the count, of two records or more
    return table
