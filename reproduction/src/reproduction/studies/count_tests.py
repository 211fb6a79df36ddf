"""The component tests that are functions of a count, by the names of the studies' tables."""

from __future__ import annotations

from proxyguard.plan.two_valued import count_pvalues as pvalues_of
from proxyguard.registry.test import ComponentTest
from reproduction.studies.counts import Array

COUNT_TESTS = {
    "binomial": ComponentTest.BINOMIAL,
    "bentkus": ComponentTest.BENTKUS,
    "chernoff": ComponentTest.CHERNOFF,
    "empirical Bernstein": ComponentTest.EMPIRICAL_BERNSTEIN,
    "hoeffding": ComponentTest.HOEFFDING,
}
OTHER_TESTS = tuple(test for test in COUNT_TESTS if test != "binomial")
"""The tests that the paper's count studies did not use."""


def count_pvalues(test: str, n: int, tolerance: float) -> Array:
    """Return the p-value of every count."""
    table = pvalues_of(COUNT_TESTS[test], n, tolerance)
    assert table is not None  # each of them is a function of the count
    return table
