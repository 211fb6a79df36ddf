"""Component p-values and requirement bounds from the statistics of one pass.

`component_pvalues` decides: one p-value a release and requirement, each way, by the registered
test. `requirement_bounds` and `estimated_means` are for reading and never decide. All of it takes
statistics on the unit scale, of which the side that weakens a claim was rounded: the mean for
validation up, the mean for violation down (`evidence.releases`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from proxyguard.errors import LossMismatch
from proxyguard.exact import mean as exact_mean
from proxyguard.exact.rounding import (
    at_most,
    pvalue_from_log,
    round_down,
    round_up,
)
from proxyguard.losses.cell import Column
from proxyguard.registry.design import Design, Sampling, Stratified
from proxyguard.registry.requirement import Requirement
from proxyguard.registry.test import ComponentTest

Array = NDArray[np.float64]
Pair = tuple[Array, Array]  # validation, violation
Size = TypeVar("Size", int, float)  # an effective size need not be whole


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
    if column.n < test.least_records:
        return np.ones(column.mean.size), np.ones(column.mean.size)
    # Each release has an answer, and so a limit, of its own: the tests below have one for all.
    if requirement.indicator and test is ComponentTest.BINOMIAL:
        validation, violation = _share(column, requirement.limit, design)
    else:
        validation, violation = _PVALUES[test](column, requirement.unit_limit, design)
    # The union bound: over the thresholds that a violation is looked for at, and over the event
    # that a sample of members misleads (theory section 6, E2 and E7).
    error = requirement.member_error
    return (
        _corrected(validation, 1, error),
        _corrected(violation, requirement.thresholds, error),
    )


def _corrected(pvalues: Array, tests: int, error: float) -> Array:
    """Return p-values times a number of tests plus an error, rounded up and at most 1."""
    if tests == 1 and error == 0.0:
        return pvalues
    return np.minimum(1.0, np.nextafter(pvalues * tests + error, np.inf))


def _share(column: Column, limit: float, design: Design) -> Pair:
    """Return the exact p-values of a share against each release's own ``answer + limit``.

    A release is frozen before the target is read, so its answer is a constant of the test.
    Where answer and limit exceed 1 no share can, and the validation null is empty.
    """
    against = column.violation_answer
    if column.answer is None or against is None or column.count is None:
        raise LossMismatch(
            "the binomial test of a share needs counts and answers, and these statistics have none"
        )
    # The limit is a sum in doubles, which `share_pvalue` takes a guard to its weaker side.
    v, n = column.answer + limit, column.n
    identical = design.sampling is Sampling.IID
    low = column.count if column.violation_count is None else column.violation_count
    return (
        exact_mean.share_pvalue(column.count, n, v, identical=identical),
        exact_mean.share_pvalue(n - low, n, 1.0 - (against + limit), identical=identical),
    )


def _empirical_bernstein(column: Column, v: float, design: Design) -> Pair:
    if column.variance is None:
        raise LossMismatch("empirical_bernstein needs variances, and the moments have none")
    variance, n = column.variance, column.n
    return (
        exact_mean.empirical_bernstein_pvalue(column.mean, variance, n, v),
        exact_mean.empirical_bernstein_pvalue(1.0 - column.violation_mean, variance, n, 1.0 - v),
    )


def _hoeffding(column: Column, v: float, design: Design) -> Pair:
    return _both_ways(exact_mean.hoeffding_pvalue, column, effective_size(column, design), v)


def _chernoff(column: Column, v: float, design: Design) -> Pair:
    return _both_ways(exact_mean.chernoff_pvalue, column, column.n, v)


def _bentkus(column: Column, v: float, design: Design) -> Pair:
    return _both_ways(exact_mean.bentkus_pvalue, column, column.n, v)


def _both_ways(
    pvalue: Callable[[Array, Size, float], Array], column: Column, n: Size, v: float
) -> Pair:
    """Return the p-values of a mean and of the mean reflected at 1/2, each on its weaker side."""
    return pvalue(column.mean, n, v), pvalue(1.0 - column.violation_mean, n, 1.0 - v)


def _binomial(column: Column, v: float, design: Design) -> Pair:
    return _counted(column.count, column.violation_count, column.n, v, design)


def _randomized_binomial(column: Column, v: float, design: Design) -> Pair:
    return _counted(column.indicators, column.violation_indicators, column.n, v, design)


def _counted(
    count: NDArray[np.int64] | None,
    low: NDArray[np.int64] | None,
    n: int,
    v: float,
    design: Design,
) -> Pair:
    if count is None or low is None:
        raise LossMismatch("a binomial test needs counts, and these statistics have none")
    identical = design.sampling is Sampling.IID
    return (
        exact_mean.binomial_pvalue(count, n, v, identical=identical),
        exact_mean.binomial_pvalue(n - low, n, 1.0 - v, identical=identical),
    )


def _betting(column: Column, v: float, design: Design) -> Pair:
    return _from_log_capital(column.log_peak)


def _betting_fixed(column: Column, v: float, design: Design) -> Pair:
    return _from_log_capital(column.log_evalue)


def _from_log_capital(log_capital: Array | None) -> Pair:
    if log_capital is None:
        raise LossMismatch("a betting test needs single records, and these statistics have none")
    # One over the capital: by Ville's inequality of its peak, by Markov's of an e-value.
    validation, violation = pvalue_from_log(-log_capital)
    return validation, violation


_PVALUES: dict[ComponentTest, Callable[[Column, float, Design], Pair]] = {
    ComponentTest.EMPIRICAL_BERNSTEIN: _empirical_bernstein,
    ComponentTest.HOEFFDING: _hoeffding,
    ComponentTest.CHERNOFF: _chernoff,
    ComponentTest.BENTKUS: _bentkus,
    ComponentTest.BINOMIAL: _binomial,
    ComponentTest.RANDOMIZED_BINOMIAL: _randomized_binomial,
    ComponentTest.BETTING: _betting,
    ComponentTest.BETTING_FIXED: _betting_fixed,
}


def effective_size(column: Column, design: Design) -> float:
    """Return the sample size that Hoeffding's exponent sees.

    Weighted strata count for less than their records, ``1 / sum_g(w_g^2/n_g)``; every other
    design counts each record, or each cluster, once.
    """
    return float(design.effective_size) if isinstance(design, Stratified) else float(column.n)


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
        upper, lower, name = limits(column, requirement, design, delta)
        low = 1.0 - lower
        if digits is not None:
            low, upper = round_down(low, digits), np.minimum(1.0, round_up(upper, digits))
        lows.append(requirement.from_unit(low))
        highs.append(requirement.from_unit(upper))
        names.append(name)
    return np.stack(lows, axis=1), np.stack(highs, axis=1), tuple(names)


def estimated_means(column: Column, requirement: Requirement) -> Array:
    """Return the estimate of each release's mean on the registered scale.

    Record-weighted clusters were tested through ``v + (m_c/m_max)(mean_c - v)``; the mean
    over records is the mass of their losses over the mass of their sizes. A mean on its limit is
    that very limit, so that no reader counts it as below.
    """
    mean, v = column.mean, requirement.unit_limit
    if column.size_share is not None:
        mean = np.clip(_mass(column, requirement) / column.size_share, 0.0, 1.0)
    on = at_most(mean, v) & at_most(v, mean)
    return np.where(on, requirement.limit, requirement.from_unit(mean))


def _mass(column: Column, requirement: Requirement) -> Array:
    """Return the mean over clusters of ``(m_c/m_max) mean_c``."""
    share = column.size_share or 0.0
    return np.clip(column.mean - requirement.unit_limit * (1.0 - share), 0.0, share)


def _ratio_limits(
    column: Column, requirement: Requirement, design: Design, delta: float
) -> tuple[Array, Array, str]:
    """Limits of a ratio of two means over clusters, half of ``delta`` for each of them."""
    half, n, share = delta / 2.0, column.n, column.size_share or 0.0
    mass = _mass(column, requirement)
    mass_high = exact_mean.chernoff_upper(mass, n, delta=half)
    mass_low = 1.0 - exact_mean.chernoff_upper(1.0 - mass, n, delta=half)
    share_high = exact_mean.chernoff_upper(share, n, delta=half)
    share_low = 1.0 - exact_mean.chernoff_upper(1.0 - share, n, delta=half)
    # A share that may be 0 says nothing: the quotient is then huge, and 1 is the upper limit.
    upper = np.minimum(1.0, mass_high / np.maximum(share_low, 1e-300))
    return upper, 1.0 - mass_low / share_high, "chernoff, ratio"


def _limits(
    column: Column, requirement: Requirement, design: Design, delta: float
) -> tuple[Array, Array, str]:
    """Return the upper limit of the mean, that of the reflected mean, and the test's name."""
    mean, low, n = column.mean, column.violation_mean, column.n
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
    if design.sampling is Sampling.IID and column.variance is not None:
        variance = column.variance
        return (
            exact_mean.empirical_bernstein_upper(mean, variance, n, delta=delta),
            exact_mean.empirical_bernstein_upper(1.0 - low, variance, n, delta=delta),
            "empirical_bernstein",
        )
    return (
        exact_mean.chernoff_upper(mean, n, delta=delta),
        exact_mean.chernoff_upper(1.0 - low, n, delta=delta),
        "chernoff",
    )
