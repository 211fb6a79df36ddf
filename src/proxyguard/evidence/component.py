"""Component p-values, and the limits that they belong to, from the statistics of one pass.

`component_pvalues` decides: one p-value a release and requirement, each way, by the registered
test. `least_limits` turns the same test around, and `estimated_means` is for reading. All of it
takes statistics on the unit scale, of which the side that weakens a claim was rounded: the mean for
validation up, the mean for violation down (`evidence.releases`).

Where a release's own answer tells between which ends its losses lie, tests and limits are those of
losses on that range, with the limit that is there (theory section 1, *Ranges of answers*): capitals
were, and the rest is put on it here.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np

from proxyguard.errors import LossMismatch
from proxyguard.exact import mean as exact_mean
from proxyguard.exact.rounding import Array, Integers, at_most
from proxyguard.losses.cell import Column, unit_ends
from proxyguard.registry.design import Design, Sampling, Stratified
from proxyguard.registry.requirement import Form, Requirement
from proxyguard.registry.test import ComponentTest, Statistics, pvalues, upper_limits

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


def least_limits(
    column: Column,
    requirement: Requirement,
    test: ComponentTest,
    design: Design,
    *,
    level: float | None,
    violation: bool = False,
) -> Array:
    """Return the least limit that each release would have met by its test at ``level``.

    Of violations it is the greatest limit that the release would have been shown to exceed. Not a
    number where there is no level, or statistics do not say: a bet knows its capital at the one
    limit that it was made against, what is tested of unequal units depends on the limit, and an
    exposure looks at another number for each direction.

    Parameters
    ----------
    column, requirement, test, design
        As `component_pvalues` takes them.
    level
        The level at which the test decided.
    violation
        Which direction.
    """
    unknown = np.full(column.mean.shape, np.nan)
    if level is None or requirement.two_directions or column.size_share is not None:
        return unknown
    if requirement.indicator and test is ComponentTest.BINOMIAL and column.n:
        return _share_limits(column, design, level, violation=violation)
    ranged, v = on_own_range(column, requirement)
    limits = upper_limits(test, _Side(ranged, v, design, violation=violation), level)
    if limits is None:
        return unknown
    limits = 1.0 - limits if violation else limits
    if ranged.ends is not None:
        # On their own range they were; outwards by what rounding may lose on the way back.
        low, high = ranged.ends
        limits = low + limits * (high - low) + (-RANGE_GUARD if violation else RANGE_GUARD)
    return requirement.from_unit(np.clip(limits, 0.0, 1.0))


def _share_limits(column: Column, design: Design, level: float, *, violation: bool) -> Array:
    """Return by how much a share may differ from each release's own answer."""
    against = column.against
    assert column.answer is not None  # `component_pvalues` refused it otherwise
    assert column.count is not None
    assert against.answer is not None
    assert against.count is not None
    identical = design.sampling is Sampling.IID
    upper = partial(exact_mean.binomial_upper, n=column.n, delta=level, identical=identical)
    if violation:
        return 1.0 - upper(column.n - against.count) - against.answer
    return np.asarray(upper(column.count) - column.answer)


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
