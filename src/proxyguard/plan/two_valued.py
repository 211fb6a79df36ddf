"""The component tests of a two-valued loss: a p-value for every count of errors.

With a loss of 0 or 1 the mean and the variance follow from the count, so that each test is a
table, and a release passes when its count lies below a bar. Betting reads the order too, and
the randomized binomial test is the binomial one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from proxyguard.exact import mean as exact_mean
from proxyguard.exact.binomial import lower_tail
from proxyguard.exact.contamination import most_at_cutoff, slack_score
from proxyguard.exact.rounding import (
    count_variance,
    round_count_down,
    round_count_up,
    round_pvalue,
    round_up,
)
from proxyguard.registry.test import ComponentTest

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class _Counts:
    """The statistics of every count of errors out of ``n``, as they decide."""

    n: int
    count: NDArray[np.int64]
    low: NDArray[np.int64]  # the count that is rounded down
    mean: Array

    @classmethod
    def out_of(cls, n: int, digits: int | None) -> _Counts:
        """Return the statistics of counts 0 to n, rounded where a disclosure is registered."""
        count = low = np.arange(n + 1)
        mean = count / n
        if digits is not None:
            count, low = round_count_up(count, n, digits), round_count_down(count, n, digits)
            mean = np.minimum(1.0, round_up(mean, digits))
        return cls(n, count, low, mean)

    @property
    def variance(self) -> Array:
        """The Bessel variance of losses of 0 and 1; the largest one where counts are rounded."""
        return count_variance(self.n, self.count, self.low)


def _binomial(of: _Counts, v: float) -> Array:
    return lower_tail(of.count, of.n, v)


_TABLES: Mapping[ComponentTest, Callable[[_Counts, float], Array]] = {
    ComponentTest.BINOMIAL: _binomial,
    ComponentTest.RANDOMIZED_BINOMIAL: _binomial,
    ComponentTest.BENTKUS: lambda of, v: exact_mean.bentkus_pvalue(of.mean, of.n, v),
    ComponentTest.CHERNOFF: lambda of, v: exact_mean.chernoff_pvalue(of.mean, of.n, v),
    ComponentTest.EMPIRICAL_BERNSTEIN: lambda of, v: exact_mean.empirical_bernstein_pvalue(
        of.mean, of.variance, of.n, v
    ),
    ComponentTest.HOEFFDING: lambda of, v: exact_mean.hoeffding_pvalue(of.mean, of.n, v),
}


@cache
def count_pvalues(test: ComponentTest, n: int, v: float, digits: int | None = None) -> Array | None:
    """Return the p-value of every count, ``None`` for a test that is no function of it.

    With ``digits`` statistics and p-values are rounded as a registered disclosure rounds them. A
    count whose share lies on the grid may then have a smaller variance than the count before it;
    its p-value is held up to that one's, so that no power is promised that is not there.
    """
    if test not in _TABLES or n < test.least_records:
        return None
    table = _TABLES[test](_Counts.out_of(n, digits), v)
    if digits is not None:
        return np.maximum.accumulate(round_pvalue(table, digits))
    if np.any(np.diff(table) < 0.0):
        raise ValueError(f"{test.value} does not rise with the count for n {n}, limit {v}")
    return table


def most_accepted(cutoff: float, n: int, digits: int | None) -> int:
    """Return the largest count whose mean, as it decides, keeps its cutoff; -1 if none does."""
    if digits is None:
        return most_at_cutoff(cutoff, n)
    kept = slack_score(_Counts.out_of(n, digits).mean[:, None], np.array([cutoff]))
    return int(np.count_nonzero(kept)) - 1
