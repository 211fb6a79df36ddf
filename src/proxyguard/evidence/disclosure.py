"""Statistics that are given away, rounded so that what is claimed from them only gets weaker.

A registered disclosure (`digits`) rounds every statistic of the target before anything is derived
from it: means and counts up for validation and down for violation, variances up, log capitals
down, block means up. P-values and requirement limits are then rounded once more, up and outwards.

Guarantee
---------
Every p-value is nondecreasing in what is rounded up and nonincreasing in what is rounded down, and
every score, count, capital and bound is monotone in p-values, means and capitals. So a decision on
rounded statistics is made only where the same losses, not rounded, would have made it too, with
the same uniforms, and each theorem holds as it stands. The bounded differences of a ramp score are
those of the score that was not rounded, which dominates.
"""

from __future__ import annotations

from dataclasses import fields, replace

import numpy as np
from numpy.typing import NDArray

from proxyguard.errors import UnsupportedDesign
from proxyguard.exact.rounding import (
    count_variance,
    round_count_down,
    round_count_up,
    round_down,
    round_up,
)
from proxyguard.losses.cell import Column, share_column

Array = NDArray[np.float64]
Counts = NDArray[np.int64]


def publish(column: Column, digits: int) -> Column:
    """Return the statistics as they may be given away; publishing twice changes nothing.

    Sizes are published as they are: a test cannot do without them. So are a release's answers,
    which are no statistic of the target.
    """
    if column.size_share is not None:
        raise UnsupportedDesign(
            "the mean over records of clusters is a ratio of two target means, which no rounding "
            "of both weakens; register no disclosure with it"
        )
    count, count_low = _counts(column.count, column.violation_count, column.n, digits)
    if column.answer is not None and count is not None:
        return share_column(column.n, count, column.answer, count_low)
    indicators, indicators_low = _counts(
        column.indicators, column.violation_indicators, column.n, digits
    )
    variance = column.variance
    if variance is not None:
        # A two-valued loss has the variance that its count says: rounded alone it would say more.
        variance = (
            round_up(variance, digits)
            if count is None or count_low is None
            else count_variance(column.n, count, count_low)
        )
    return replace(
        column,
        mean=np.minimum(1.0, round_up(column.mean, digits)),
        mean_low=round_down(column.violation_mean, digits),
        variance=variance,
        count=count,
        count_low=count_low,
        indicators=indicators,
        indicators_low=indicators_low,
        log_peak=_down(column.log_peak, digits),
        log_final=_down(column.log_final, digits),
        log_evalue=_down(column.log_evalue, digits),
        block_means=(
            None
            if column.block_means is None
            else np.minimum(1.0, round_up(column.block_means, digits))
        ),
    )


def is_published(column: Column, digits: int) -> bool:
    """Whether statistics are rounded, and up and down are roundings of one and the same number.

    Without the second half a record could carry a mean for validation and another for violation.
    """
    if _differ(column, publish(column, digits)):
        return False
    step = 1.5 * 10.0**-digits  # neighbouring multiples are one step apart, others two
    apart = column.mean - column.violation_mean
    counts = (
        (column.count, column.violation_count),
        (column.indicators, column.violation_indicators),
    )
    return bool(np.all((apart >= 0.0) & (apart < step))) and all(
        _neighbours(high, low, column.n, digits)
        for high, low in counts
        if high is not None and low is not None
    )


def _neighbours(high: Counts, low: Counts, n: int, digits: int) -> bool:
    """Whether one count can be rounded up to ``high`` and down to ``low``."""
    grid = 10**digits
    steps = -(-high * grid // max(n, 1)) - low * grid // max(n, 1)
    return bool(np.all((high >= low) & (steps <= 1)))


def _differ(column: Column, other: Column) -> bool:
    for field in fields(Column):
        first, second = getattr(column, field.name), getattr(other, field.name)
        if (first is None) != (second is None) or not np.array_equal(first, second):
            return True
    return False


def _counts(
    count: Counts | None, low: Counts | None, n: int, digits: int
) -> tuple[Counts | None, Counts | None]:
    if count is None or low is None:
        return None, None
    return round_count_up(count, n, digits), round_count_down(low, n, digits)


def _down(logs: Array | None, digits: int) -> Array | None:
    return None if logs is None else round_down(logs, digits)
