"""Component p-values and requirement bounds from the statistics of one pass.

`component_pvalues` decides: one p-value a release and requirement, each way, by the registered
test. `requirement_bounds` and `estimated_means` are for reading and never decide. All of it takes
statistics on the unit scale, of which the side that weakens a claim was rounded: the mean for
validation up, the mean for violation down (`evidence.releases`).

Where a release's own answer tells between which ends its losses lie, tests and bounds are those of
losses on that range, with the limit that is there (theory section 1, *Ranges of answers*): capitals
were, and the rest is put on it here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from proxyguard.errors import LossMismatch
from proxyguard.exact import mean as exact_mean
from proxyguard.exact.rounding import Array, Integers, at_most, round_down, round_up
from proxyguard.losses.cell import Column, unit_ends
from proxyguard.registry.design import Design, Sampling, Stratified
from proxyguard.registry.requirement import Form, Requirement
from proxyguard.registry.test import ComponentTest, Statistics, pvalues

Pair = tuple[Array, Array]  # validation, violation


def component_pvalues(
    column: Column, requirement: Requirement, test: ComponentTest, design: Design
) -> Pair:
    """Return the p-values of ``mu >= tau`` and of ``mu <= tau`` for every release (Eq. (3)).

    Parameters
    ----------
    column
        The statistics of one requirement over all releases.
    requirement
        The requirement, whose limit is tested.
    test
        The registered test.
    design
        How the records were sampled.

    Returns
    -------
    tuple of arrays
        For validation and for violation, one p-value a release.

    Raises
    ------
    LossMismatch
        If the test needs statistics that these losses came without.

    Guarantee
    ---------
    Each is super-uniform under its null on the designs that `ComponentTest.samplings`
    names (theory section 1). A requirement on which no record counts has p-value 1.
    """
    # Of a share that is counted each release has an answer, and so a limit, of its own.
    if requirement.indicator and test is ComponentTest.BINOMIAL and column.n:
        validation, violation = _share(column, requirement.limit, design)
    else:
        ranged, v = on_own_range(column, requirement)
        validation, violation = (
            pvalues(test, _Side(ranged, v, design, violation=against)) for against in (False, True)
        )
    # The union bound: over the thresholds that a violation is looked for at, and over the event
    # that a sample of members misleads (theory section 6, E2 and E7).
    error = requirement.member_error
    validation = _corrected(validation, 1, error)
    violation = _corrected(violation, requirement.thresholds, error)
    if column.unmeasured is None:
        return validation, violation
    # What could not be measured meets nothing, and is no evidence of a violation either.
    return np.where(column.unmeasured, 1.0, validation), np.where(column.unmeasured, 1.0, violation)


# What a limit may lose on its way to a release's own range, a thousandth wide at the least: it is
# taken so much lower for validation, where the null is larger, and higher for violation.
RANGE_GUARD = 1e-12


def on_own_range(column: Column, requirement: Requirement) -> tuple[Column, float | Array]:
    """Return the means and variances of releases on the range of each, and the limits there.

    Capitals and counts of random indicators were made on that range. Of a share that was counted
    the answer says it: 0 or 1 less that.
    """
    v = requirement.unit_limit
    if column.ends is None and column.answer is not None and requirement.form is Form.QUERY:
        told = np.stack([-column.answer, 1.0 - column.answer])
        column = replace(column, ends=unit_ends(told, requirement))
    if column.ends is None:
        return column, v
    low, high = column.ends
    width = high - low

    def put(mean: Array | None) -> Array | None:
        return None if mean is None else np.clip((mean - low) / width, 0.0, 1.0)

    def shrunk(variance: Array | None) -> Array | None:
        return None if variance is None else variance / width**2

    return replace(
        column, mean=np.clip((column.mean - low) / width, 0.0, 1.0), mean_low=put(column.mean_low),
        variance=shrunk(column.variance), variance_low=shrunk(column.variance_low),
    ), (v - low) / width  # fmt: skip


def _corrected(single: Array, tests: int, error: float) -> Array:
    """Return p-values times a number of tests plus an error, rounded up and at most 1."""
    if tests == 1 and error == 0.0:
        return single
    return np.minimum(1.0, np.nextafter(single * tests + error, np.inf))


def _share(column: Column, limit: float, design: Design) -> Pair:
    """Return the exact p-values of a share against each release's own ``answer + limit``.

    A release is frozen before the target is read, so its answer is a constant of the test.
    Where answer and limit exceed 1 no share can, and the validation null is empty.
    """
    against = column.against
    if (
        column.answer is None
        or against.answer is None
        or column.count is None
        or against.count is None
    ):
        raise LossMismatch(
            "the binomial test of a share needs counts and answers, and these statistics have none"
        )
    # The limit is a sum in doubles, which `share_pvalue` takes a guard to its weaker side.
    high, low, n = column.answer + limit, against.answer + limit, column.n
    identical = design.sampling is Sampling.IID
    return (
        exact_mean.share_pvalue(column.count, n, high, identical=identical),
        exact_mean.share_pvalue(n - against.count, n, 1.0 - low, identical=identical),
    )


class _Side(Statistics):
    """The statistics of a column for validation; for violation, those of the losses reflected."""

    def __init__(
        self, column: Column, v: float | Array, design: Design, *, violation: bool
    ) -> None:
        limits = 1.0 - v if violation else v
        super().__init__(column.n, limits if column.ends is None else limits - RANGE_GUARD)
        self._column = column.against if violation else column
        self._design, self._violation = design, violation

    @property
    def identical(self) -> bool:
        return self._design.sampling is Sampling.IID

    @property
    def effective_size(self) -> float:
        return effective_size(self._column, self._design)

    @property
    def mean(self) -> Array:
        # Each way the mean of its weaker side: rounded up, or rounded down and reflected.
        return 1.0 - self._column.mean if self._violation else self._column.mean

    @property
    def variance(self) -> Array:
        variance = self._column.variance
        return super().variance if variance is None else variance

    @property
    def count(self) -> Integers:
        count = self._column.count
        return super().count if count is None else self._reflected(count)

    @property
    def indicators(self) -> Integers:
        ones = self._column.indicators
        return super().indicators if ones is None else self._reflected(ones)

    def _reflected(self, count: Integers) -> Integers:
        return self.n - count if self._violation else count

    @property
    def log_peak(self) -> Array:
        logs = self._column.log_peak
        return super().log_peak if logs is None else np.asarray(logs[int(self._violation)])

    @property
    def log_evalue(self) -> Array:
        logs = self._column.log_evalue
        return super().log_evalue if logs is None else np.asarray(logs[int(self._violation)])


def effective_size(column: Column, design: Design) -> float:
    """Return the sample size that Hoeffding's exponent sees.

    Weighted strata count for less than their records, ``1 / sum_g(w_g^2/n_g)``; every other
    design counts each record, or each cluster, once.
    """
    return float(design.effective_size) if isinstance(design, Stratified) else float(column.n)


# What stands behind the inequality of upper limits that are all the end of the range.
UNBOUNDED = ", none from above"


def requirement_bounds(
    columns: Sequence[Column],
    requirements: Sequence[Requirement],
    design: Design,
    *,
    delta: float,
    digits: int | None = None,
) -> tuple[Array, Array, tuple[str, ...]]:
    """Return lower and upper limits of every mean, (R, J), at level ``delta`` each way.

    Empirical Bernstein for iid records (the paper's tables), Bernoulli-KL where records
    are not identically distributed or variances are unknown, weighted Hoeffding for other
    strata; the third value names the inequality of each requirement. For reading, never
    for deciding.

    Parameters
    ----------
    columns, requirements
        The statistics, by requirement.
    design
        How the records were sampled.
    delta
        The error level of every single limit.
    digits
        Of a registered disclosure: lower limits are rounded down to them and upper ones up.
    """
    lows, highs, names = [], [], []
    for column, requirement in zip(columns, requirements, strict=True):
        limits = _limits if column.size_share is None else _ratio_limits
        if requirement.two_directions:
            limits = _tested_limits
        upper, lower, name = limits(column, requirement, design, delta)
        low = 1.0 - lower
        if np.all(upper >= 1.0):
            name = f"{name}{UNBOUNDED}"
        ends = on_own_range(column, requirement)[0].ends
        if ends is not None:
            # Means on their own range, put back: outwards by what rounding may lose.
            least, most = ends
            low = np.maximum(0.0, least + low * (most - least) - RANGE_GUARD)
            upper = np.minimum(1.0, least + upper * (most - least) + RANGE_GUARD)
        if digits is not None:
            low, upper = round_down(low, digits), np.minimum(1.0, round_up(upper, digits))
        if column.unmeasured is not None:
            low, upper = (
                np.where(column.unmeasured, 0.0, low),
                np.where(column.unmeasured, 1.0, upper),
            )
        lows.append(requirement.from_unit(low))
        highs.append(requirement.from_unit(upper))
        names.append(name)
    return np.stack(lows, axis=1), np.stack(highs, axis=1), tuple(names)


def estimated_means(column: Column, requirement: Requirement) -> Array:
    """Return the estimate of each release's mean on the registered scale.

    Record-weighted clusters were tested through ``v + (m_c/m_max)(mean_c - v)``; the mean
    over records is the mass of their losses over the mass of their sizes, and that over weights
    likewise. Where nothing weighs, nothing is known, and the limit stands. A mean on its limit is
    that very limit, so that no reader counts it as below. Missing losses are at their upper bound.
    """
    mean, v = column.mean, requirement.unit_limit
    if column.size_share is not None:
        share = column.size_share
        ratio = np.clip(_mass(column, mean, v) / share, 0.0, 1.0) if share else v
        mean = np.broadcast_to(ratio, mean.shape)
    on = at_most(mean, v) & at_most(v, mean)
    return np.where(on, requirement.limit, requirement.from_unit(mean))


def _mass(column: Column, mean: Array, v: float | Array) -> Array:
    """Return the mean over clusters of ``(m_c/m_max) mean_c``, or over records of their like."""
    share = column.size_share or 0.0
    return np.clip(mean - v * (1.0 - share), 0.0, share)


def _ratio_limits(
    column: Column, requirement: Requirement, design: Design, delta: float
) -> tuple[Array, Array, str]:
    """Limits of a ratio of two means over clusters, half of ``delta`` for each of them."""
    column, v = on_own_range(column, requirement)
    half, share = delta / 2.0, column.size_share or 0.0
    weighted = design.sampling is Sampling.WEIGHTED
    upper_limit = partial(
        exact_mean.hoeffding_upper if weighted else exact_mean.chernoff_upper, delta=half
    )
    n = effective_size(column, design) if weighted else column.n
    mass_high = upper_limit(_mass(column, column.mean, v), n)
    mass_low = 1.0 - upper_limit(1.0 - _mass(column, column.against.mean, v), n)
    share_high, share_low = upper_limit(share, n), 1.0 - upper_limit(1.0 - share, n)
    # A share that may be 0 says nothing: the quotient is then huge, and 1 is the upper limit.
    upper = np.minimum(1.0, mass_high / np.maximum(share_low, 1e-300))
    name = "hoeffding" if weighted else "chernoff"
    return upper, 1.0 - mass_low / share_high, f"{name}, ratio"


def _tested_limits(
    column: Column, requirement: Requirement, design: Design, delta: float
) -> tuple[Array, Array, str]:
    """Return the limit that is tested where the test holds at ``delta``, and else the whole range.

    The counts are of a threshold that the target chose, or of a share that was estimated: a limit
    of the mean there would be none of what is claimed. The test is.
    """
    validation, violation = component_pvalues(column, requirement, ComponentTest.BINOMIAL, design)
    v = requirement.unit_limit
    upper = np.where(validation <= delta, v, 1.0)
    return upper, np.where(violation <= delta, 1.0 - v, 1.0), "binomial, at the limit"


def _limits(
    column: Column, requirement: Requirement, design: Design, delta: float
) -> tuple[Array, Array, str]:
    """Return the upper limit of the mean, that of the reflected mean, and the test's name."""
    column, _ = on_own_range(column, requirement)
    against = column.against
    mean, low, n = column.mean, against.mean, column.n
    # Of no record or one nothing is said: all of the unit interval, whatever the test.
    if n < 2:
        return np.ones(mean.size), np.ones(mean.size), "none"
    if design.sampling is Sampling.WEIGHTED:
        size = effective_size(column, design)
        return (
            exact_mean.hoeffding_upper(mean, size, delta=delta),
            exact_mean.hoeffding_upper(1.0 - low, size, delta=delta),
            "hoeffding",
        )
    high_variance, low_variance = column.variance, against.variance
    iid = design.sampling is Sampling.IID
    if iid and high_variance is not None and low_variance is not None:
        return (
            exact_mean.empirical_bernstein_upper(mean, high_variance, n, delta=delta),
            exact_mean.empirical_bernstein_upper(1.0 - low, low_variance, n, delta=delta),
            "empirical_bernstein",
        )
    return (
        exact_mean.chernoff_upper(mean, n, delta=delta),
        exact_mean.chernoff_upper(1.0 - low, n, delta=delta),
        "chernoff",
    )
