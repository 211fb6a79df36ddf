"""What one pass over the target says about each release of a mechanism.

`gather_evidence` reads losses once, `evidence_of` turns their statistics into `ReleaseEvidence`:
p-values both ways, estimates and bounds. Before that `publish` rounds what is given away, so that
what is claimed from it only gets weaker.

A registered disclosure (`digits`) rounds every statistic of the target before anything is derived
from it: means and counts up for validation and down for violation, variances up, log capitals
down, block means up. P-values are then rounded up once more.

Guarantee
---------
Every p-value is nondecreasing in what is rounded up and nonincreasing in what is rounded down, and
every score, count, capital and bound is monotone in p-values, means and capitals. So a decision on
rounded statistics is made only where the same losses, not rounded, would have made it too, with
the same uniforms, and each theorem holds as it stands. The bounded differences of a ramp score are
those of the score that was not rounded, which dominates.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from math import ceil, log10
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from proxyguard.errors import UnsupportedDesign
from proxyguard.evidence.component import component_pvalues, estimated_means, least_limits
from proxyguard.exact.multiplicity import intersection_union
from proxyguard.exact.rounding import (
    Array,
    count_variance,
    round_count_down,
    round_count_up,
    round_down,
    round_pvalue,
    round_up,
)
from proxyguard.losses.cell import Column, Reading, generator, join_columns, share_column
from proxyguard.losses.read import LossArray, LossBatches, Losses, read_losses
from proxyguard.registry.requirement import Requirement
from proxyguard.registry.test import ComponentTest

CountArray = NDArray[np.int64]


class Limits(NamedTuple):
    """What means were shown to exceed, and to stay below, by the tests that decided.

    ``upper`` is at most the registered limit exactly where a p-value is at most ``level``, and
    ``lower`` at least that limit where the p-value of a violation is at most ``violation_level``:
    the tests are turned around, and say nothing more. Not a number where nothing says it.
    """

    level: float | None
    violation_level: float | None
    lower: Array  # (R, J) on registered scales
    upper: Array


def _few_digits(means: Array, requirement: Requirement) -> Array:
    """Return means that were rounded on the unit scale without what the way back adds.

    0.01 comes back as 0.010000000000000009, and whoever rounds that up shows 0.01001. It is shown
    and decides nothing.
    """
    largest = max(abs(requirement.low), abs(requirement.high))
    return np.asarray(np.round(means, 13 - ceil(log10(largest))))


def publish(column: Column, digits: int) -> Column:
    """Return the statistics as they may be given away; publishing twice changes nothing.

    Parameters
    ----------
    column
        The statistics of one requirement.
    digits
        Decimal digits of the unit scale that are kept.

    Raises
    ------
    UnsupportedDesign
        If a mean is a ratio of two target means: no rounding of both only weakens a claim.

    Notes
    -----
    Sizes are published as they are: a test cannot do without them. So are a release's answers,
    which are no statistic of the target, unless the target chooses among them.
    """
    if column.missing is not None:
        raise UnsupportedDesign(
            "missing losses are filled by direction, and statistics of two fills are not rounded "
            "together; register no disclosure with them"
        )
    if column.size_share is not None:
        raise UnsupportedDesign(
            "a mean over records of clusters, or over weights, is a ratio of two target means, "
            "which no rounding of both weakens; register no disclosure with it"
        )
    against = column.against
    count, count_low = _counts(column.count, against.count, column.n, digits)
    if column.answer is not None and count is not None:
        answer, answer_low = column.answer, column.answer_low
        if answer_low is not None:
            # At which threshold a count is worst the target says, and so which answer is given.
            answer = round_down(answer, digits)
            answer_low = np.minimum(1.0, round_up(answer_low, digits))
        shares = share_column(column.n, count, answer, count_low, answer_low)
        return replace(shares, unmeasured=column.unmeasured)
    indicators, indicators_low = _counts(column.indicators, against.indicators, column.n, digits)
    variance = column.variance
    if variance is not None:
        # A two-valued loss has the variance that its count says: rounded alone it would say more.
        variance = (
            round_up(variance, digits)
            if count is None or count_low is None
            else count_variance(column.n, count, count_low)
        )
    # Up is against a release where validity is claimed, down where a violation is.
    return replace(
        column,
        mean=np.minimum(1.0, round_up(column.mean, digits)),
        mean_low=round_down(against.mean, digits),
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


def is_published(column: Column, digits: int, thresholds: int = 1) -> bool:
    """Whether statistics are rounded, and up and down are roundings of one and the same number.

    Without the second half a record could carry a mean for validation and another for violation.
    Only at several ``thresholds`` does each direction have a count of its own; limits of a share
    of sampled members make two answers, and so two means, of one count.
    """
    if _differ(column, publish(column, digits)):
        return False
    against = column.against
    if column.answer_low is None:
        step = 1.5 * 10.0**-digits  # neighbouring multiples are one step apart, others two
        apart = column.mean - against.mean
        if not np.all((apart >= 0.0) & (apart < step)):
            return False
    elif thresholds > 1:
        return True
    counts = (column.count, against.count), (column.indicators, against.indicators)
    return all(
        _neighbours(high, low, column.n, digits)
        for high, low in counts
        if high is not None and low is not None
    )


def _neighbours(high: CountArray, low: CountArray, n: int, digits: int) -> bool:
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
    count: CountArray | None, low: CountArray | None, n: int, digits: int
) -> tuple[CountArray | None, CountArray | None]:
    if count is None or low is None:
        return None, None
    return round_count_up(count, n, digits), round_count_down(low, n, digits)


def _down(logs: Array | None, digits: int) -> Array | None:
    # Both directions down: less capital is less evidence, for a claim and against it.
    return None if logs is None else round_down(logs, digits)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ReleaseEvidence:
    """P-values in both directions, and estimates, of R releases and J requirements."""

    releases: tuple[str, ...]
    requirements: tuple[Requirement, ...]
    tests: tuple[ComponentTest, ...]
    reading: Reading
    n_records: tuple[int, ...]  # (J,) records, or clusters, that count
    columns: tuple[Column, ...]
    ids: NDArray[np.generic[object]] | None  # of the records, where they were given
    pvalues: Array  # (R, J) of mu >= tau
    violation_pvalues: Array  # (R, J) of mu <= tau
    estimates: Array  # (R, J) on registered scales

    @property
    def n_releases(self) -> int:
        """``R``."""
        return len(self.releases)

    @property
    def n_requirements(self) -> int:
        """``J``."""
        return len(self.requirements)

    @property
    def release_pvalues(self) -> Array:
        """``p_r = max_j p_{r,j}``, raw, never adjusted (Eq. (7))."""
        return intersection_union(self.pvalues)

    @property
    def release_violation_pvalues(self) -> Array:
        """``q_r = min(1, J min_j q_{r,j})``: Bonferroni over requirements (theory section 4)."""
        least = self.violation_pvalues.min(axis=1)
        return np.asarray(np.minimum(1.0, self.n_requirements * least))

    @property
    def uniforms(self) -> Array:
        """One uniform a release, of the target's own seed: they round ramp scores to 0 or 1."""
        return generator(self.reading.seed, 3).random(self.n_releases)

    @property
    def binding(self) -> NDArray[np.intp]:
        """The requirement with the largest p-value in each release."""
        return np.asarray(np.argmax(self.pvalues, axis=1))

    def limits(self, level: float | None, violation_level: float | None) -> Limits:
        """Return the tests turned around, at the levels at which they told releases apart."""
        lower, upper = np.full((2, *self.pvalues.shape), np.nan)
        for j, column in enumerate(self.columns):  # of separate batches there are none
            r = self.requirements[j]
            ask = partial(least_limits, column, r, self.tests[j], self.reading.design)
            most, least = ask(level=level), ask(level=violation_level, violation=True)
            if column.unmeasured is not None:
                most, least = np.where(column.unmeasured, np.nan, (most, least))
            # Guards widen limits, and rounding p-values: neither may let the two disagree.
            met = self.pvalues[:, j] <= (level or 0.0)
            above = self.violation_pvalues[:, j] <= (violation_level or 0.0)
            beyond, short = np.nextafter(r.limit, (np.inf, -np.inf))
            upper[:, j] = np.where(met, np.minimum(most, r.limit), np.maximum(most, beyond))
            lower[:, j] = np.where(above, np.maximum(least, r.limit), np.minimum(least, short))
        return Limits(level, violation_level, lower, upper)


def gather_evidence(losses: Losses, reading: Reading) -> ReleaseEvidence:
    """Read the losses once and return the evidence of every release.

    Parameters
    ----------
    losses
        One array for all releases, or a batch of records for each.
    reading
        What was registered, before the first loss is seen.

    Raises
    ------
    LossError
        If the losses are not what was declared.
    """
    if isinstance(losses, LossBatches):
        # Another seed for each: batches share no record, and their uniforms no randomness.
        parts = [
            gather_evidence(
                LossArray(batch.values, batch.records, (name,)),
                replace(reading, seed=reading.seed + r),
            )
            for r, (name, batch) in enumerate(zip(losses.releases, losses.batches, strict=True))
        ]
        return _join(parts, losses.releases, reading)
    read = read_losses(losses, reading)
    return evidence_of(
        read.columns,
        reading,
        releases=tuple(losses.releases or ()),
        ids=read.ids,
    )


def evidence_of(
    columns: tuple[Column, ...],
    reading: Reading,
    *,
    releases: tuple[str, ...],
    ids: NDArray[np.generic[object]] | None = None,
) -> ReleaseEvidence:
    """Return the evidence that the statistics of one pass amount to.

    Where the reading has digits, all of it follows from the rounded statistics, and nothing
    finer leaves this function.

    Parameters
    ----------
    columns
        The statistics, by requirement.
    reading
        What was registered.
    releases
        The names of the releases.
    ids
        Of the records, where they were given.
    """
    digits = reading.digits
    if digits is not None:
        columns = tuple(publish(column, digits) for column in columns)
    shape = (len(releases), len(columns))
    pvalues, violation_pvalues, estimates = (np.empty(shape) for _ in range(3))
    for alike in _alike(columns, reading):
        # Every statistic is a function of one release's numbers: requirements with one limit
        # are read as if each were more releases of the first.
        column = join_columns([columns[j] for j in alike])
        requirement, test = reading.requirements[alike[0]], reading.tests[alike[0]]
        pair = component_pvalues(column, requirement, test, reading.design)
        if digits is not None:
            pair = (round_pvalue(pair[0], digits), round_pvalue(pair[1], digits))
        mean = estimated_means(column, requirement)
        if digits is not None:
            mean = _few_digits(mean, requirement)
        for whole, joined in zip(
            (pvalues, violation_pvalues, estimates), (*pair, mean), strict=True
        ):
            whole[:, alike] = joined.reshape(len(alike), -1).T
    return ReleaseEvidence(
        releases=releases,
        requirements=reading.requirements,
        tests=reading.tests,
        reading=reading,
        n_records=tuple(column.n for column in columns),
        columns=columns,
        ids=ids,
        pvalues=pvalues,
        violation_pvalues=violation_pvalues,
        estimates=estimates,
    )


def _alike(columns: tuple[Column, ...], reading: Reading) -> list[list[int]]:
    """Return the requirements by what their p-values and bounds depend on besides statistics."""
    alike: dict[tuple[object, ...], list[int]] = {}
    for j, (column, r, test) in enumerate(
        zip(columns, reading.requirements, reading.tests, strict=True)
    ):
        missing = tuple(getattr(column, field.name) is None for field in fields(Column))
        losses = (r.low, r.high, r.limit, r.two_valued, r.indicator, r.thresholds, r.member_error)
        key = (column.n, column.size_share, missing, test, losses)
        alike.setdefault(key, []).append(j)
    return list(alike.values())


def _join(
    parts: Sequence[ReleaseEvidence], releases: tuple[str, ...], reading: Reading
) -> ReleaseEvidence:
    """Return the evidence of releases that were scored on separate batches."""
    return replace(
        parts[0],
        releases=releases,
        reading=reading,
        n_records=tuple(min(sizes) for sizes in zip(*(p.n_records for p in parts), strict=True)),
        columns=(),  # no statistic and no record is common to separate batches
        ids=None,
        pvalues=np.concatenate([p.pvalues for p in parts]),
        violation_pvalues=np.concatenate([p.violation_pvalues for p in parts]),
        estimates=np.concatenate([p.estimates for p in parts]),
    )
