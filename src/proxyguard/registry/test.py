"""The component tests by name, their p-values, and the scores of releases.

`ComponentTest` says which designs and losses each test covers. A name never changes its meaning; a
different test is a new name. `pvalues` is the one way from the statistics of a sample to a test's
p-values, for audits and plans alike. Then come the slack, ramp and block scores of registered
requirements and what an invalid release can reach of them, and the words of a claim that several
modes share: bound, score, family.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum
from typing import NoReturn

import numpy as np
from numpy.typing import NDArray

from proxyguard.errors import LossMismatch
from proxyguard.exact import contamination
from proxyguard.exact import mean as exact_mean
from proxyguard.exact.rounding import Array, Integers, pvalue_from_log
from proxyguard.registry.design import Design, Sampling, Stratified, clusters_of, sees_losses
from proxyguard.registry.requirement import Requirement

_ANY = frozenset(Sampling)
_UNWEIGHTED = frozenset({Sampling.IID, Sampling.INDEPENDENT})
_IID = frozenset({Sampling.IID})


class ComponentTest(Enum):
    """A registered choice of p-value for one bounded mean (theory section 1)."""

    EMPIRICAL_BERNSTEIN = "empirical_bernstein"
    HOEFFDING = "hoeffding"
    CHERNOFF = "chernoff"
    BENTKUS = "bentkus"
    BINOMIAL = "binomial"
    RANDOMIZED_BINOMIAL = "randomized_binomial"
    BETTING = "betting"
    BETTING_FIXED = "betting_fixed"

    @property
    def samplings(self) -> frozenset[Sampling]:
        """The kinds of sampling under which the p-value is super-uniform."""
        return _SAMPLINGS[self]

    @property
    def order_dependent(self) -> bool:
        """Whether the records must be in random order."""
        return self is ComponentTest.BETTING

    @property
    def needs_records(self) -> bool:
        """Whether moments do not suffice."""
        return self.bets or self is ComponentTest.RANDOMIZED_BINOMIAL

    @property
    def bets(self) -> bool:
        """Whether its p-value is one over a capital that bets on the records make."""
        return self in (ComponentTest.BETTING, ComponentTest.BETTING_FIXED)

    @property
    def rises(self) -> bool:
        """Whether its p-value never falls as the loss of one record rises (theory section 1)."""
        return self not in (ComponentTest.EMPIRICAL_BERNSTEIN, ComponentTest.BETTING)

    @property
    def least_records(self) -> int:
        """The smallest sample for which the test can be below 1."""
        return 2 if self is ComponentTest.EMPIRICAL_BERNSTEIN else 1

    def objections(self, design: Design, requirement: Requirement) -> list[str]:
        """Return why this test does not cover a requirement on this design; empty if it does.

        Asked before any data is read.
        """
        objections = []
        if design.sampling not in self.samplings:
            names = " or ".join(sorted(s.value for s in self.samplings))
            nearest = (
                ComponentTest.BETTING_FIXED if self.bets else default_test(design, requirement)
            )
            objections.append(
                f"{self.value} is valid for {names} sampling, and the design is "
                f"{type(design).__name__} ({design.sampling.value}); {nearest.value} covers it"
            )
        if self is ComponentTest.BINOMIAL and not (requirement.two_valued or requirement.indicator):
            objections.append(
                f"binomial needs losses declared two_valued, and {requirement.name!r} is not"
            )
        if self is ComponentTest.BINOMIAL and not sees_losses(design):
            what = "weighted loss" if clusters_of(design) is None else "cluster mean"
            objections.append(
                f"binomial needs records that count alike; a {what} is not two-valued; "
                f"{default_test(design, requirement).value} covers it"
            )
        if self is not ComponentTest.BINOMIAL and requirement.two_directions:
            objections.append(
                f"{requirement.name!r} looks at two numbers, one for validation and one for "
                f"violation, which are counted: it takes the binomial test, not {self.value}"
            )
        return objections


# Under which sampling each p-value is super-uniform: theory section 1.
_SAMPLINGS = {
    ComponentTest.EMPIRICAL_BERNSTEIN: _IID,
    ComponentTest.HOEFFDING: _ANY,
    ComponentTest.CHERNOFF: _UNWEIGHTED,
    ComponentTest.BENTKUS: _UNWEIGHTED,
    ComponentTest.BINOMIAL: _UNWEIGHTED,
    ComponentTest.RANDOMIZED_BINOMIAL: _UNWEIGHTED,
    ComponentTest.BETTING: _IID,
    ComponentTest.BETTING_FIXED: _ANY,
}


class Statistics:
    """What tests of ``mean >= v`` read of ``n`` records, on the unit scale, as it decides.

    Whoever has statistics overrides what there is of them: a test asks for its own alone, so that
    nothing is computed for another, and one that asks for what there is not is refused.
    """

    def __init__(self, n: int, limits: float | Array) -> None:
        self.n, self.limits = n, limits  # one limit, or one a release

    @property
    def v(self) -> float:
        """The limit, where it is one for all releases."""
        return float(np.asarray(self.limits))

    @property
    def identical(self) -> bool:
        """Whether the records are identically distributed."""
        return True

    @property
    def effective_size(self) -> float:
        """The number of records that Hoeffding's exponent sees."""
        return float(self.n)

    @property
    def mean(self) -> Array:
        """The means, which have the shape of the p-values."""
        raise NotImplementedError

    @property
    def variance(self) -> Array:
        """The Bessel variances."""
        _lacking("empirical_bernstein needs variances, and the moments have none")

    @property
    def count(self) -> Integers:
        """How many losses of 0 or 1 are 1."""
        _lacking("a binomial test needs counts, and these statistics have none")

    @property
    def indicators(self) -> Integers:
        """How many records lie below their own uniform number."""
        _lacking("a binomial test needs counts, and these statistics have none")

    @property
    def log_peak(self) -> Array:
        """The largest log capital of bets that follow the records."""
        _lacking("a betting test needs single records, and these statistics have none")

    @property
    def log_evalue(self) -> Array:
        """The log capital of fixed stakes."""
        _lacking("a betting test needs single records, and these statistics have none")


def _lacking(words: str) -> NoReturn:
    raise LossMismatch(words)


_PVALUES: dict[ComponentTest, Callable[[Statistics], Array]] = {
    ComponentTest.EMPIRICAL_BERNSTEIN: lambda of: exact_mean.empirical_bernstein_pvalue(
        of.mean, of.variance, of.n, of.limits
    ),
    ComponentTest.HOEFFDING: lambda of: exact_mean.hoeffding_pvalue(
        of.mean, of.effective_size, of.limits
    ),
    ComponentTest.CHERNOFF: lambda of: exact_mean.chernoff_pvalue(of.mean, of.n, of.limits),
    ComponentTest.BENTKUS: lambda of: _bentkus(of),
    ComponentTest.BINOMIAL: lambda of: exact_mean.binomial_pvalue(
        of.count, of.n, of.limits, identical=of.identical
    ),
    ComponentTest.RANDOMIZED_BINOMIAL: lambda of: exact_mean.binomial_pvalue(
        of.indicators, of.n, of.limits, identical=of.identical
    ),
    # One over the capital: by Ville's inequality of its peak, by Markov's of an e-value.
    ComponentTest.BETTING: lambda of: pvalue_from_log(-of.log_peak),
    ComponentTest.BETTING_FIXED: lambda of: pvalue_from_log(-of.log_evalue),
}


def _bentkus(of: Statistics) -> Array:
    """Return Bentkus p-values, whose tables have one limit each."""
    limits = np.asarray(of.limits)
    if limits.ndim == 0:
        return exact_mean.bentkus_pvalue(of.mean, of.n, float(limits))
    result = np.empty(limits.shape)
    for v in np.unique(limits):
        result[limits == v] = exact_mean.bentkus_pvalue(of.mean[limits == v], of.n, float(v))
    return result


def pvalues(test: ComponentTest, statistics: Statistics) -> Array:
    """Return the p-values of ``mean >= v`` by a test; 1 of fewer records than it needs.

    Raises
    ------
    ValueError
        If the test has no p-value here: that of another would be taken for it.
    LossMismatch
        If it needs statistics that there are none of.
    """
    if test not in _PVALUES:
        raise ValueError(f"{test} has no p-value: a test is put into the table of registry/test.py")
    if statistics.n < test.least_records:
        return np.ones(np.shape(statistics.mean))
    return _PVALUES[test](statistics)


# The same tests turned around. A bet's capital is known at the one limit that it was made against.
_UPPERS: dict[ComponentTest, Callable[[Statistics, float], Array]] = {
    ComponentTest.EMPIRICAL_BERNSTEIN: lambda of, delta: exact_mean.empirical_bernstein_upper(
        of.mean, of.variance, of.n, delta=delta
    ),
    ComponentTest.HOEFFDING: lambda of, delta: exact_mean.hoeffding_upper(
        of.mean, of.effective_size, delta=delta
    ),
    ComponentTest.CHERNOFF: lambda of, delta: exact_mean.chernoff_upper(of.mean, of.n, delta=delta),
    ComponentTest.BENTKUS: lambda of, delta: exact_mean.bentkus_upper(of.mean, of.n, delta=delta),
    ComponentTest.BINOMIAL: lambda of, delta: exact_mean.binomial_upper(
        of.count, of.n, delta=delta, identical=of.identical
    ),
    ComponentTest.RANDOMIZED_BINOMIAL: lambda of, delta: exact_mean.binomial_upper(
        of.indicators, of.n, delta=delta, identical=of.identical
    ),
}


def upper_limits(test: ComponentTest, statistics: Statistics, delta: float) -> Array | None:
    """Return the least limits whose p-value is at most ``delta``; None where nothing says them."""
    if test not in _UPPERS or statistics.n < test.least_records:
        return None
    return _UPPERS[test](statistics, delta)


def default_test(design: Design, requirement: Requirement) -> ComponentTest:
    """Return the default test: it follows from what was declared, never from the values.

    >>> from proxyguard.registry.design import Iid
    >>> default_test(Iid(), Requirement(name="Brier", low=0, high=1, limit=0.2)).value
    'betting'
    """
    # From what was declared alone: a test that the losses choose would have to pay for the choice.
    if design.sampling is Sampling.WEIGHTED:
        return ComponentTest.BETTING_FIXED
    counted = requirement.two_valued or requirement.indicator
    if counted and sees_losses(design):
        return ComponentTest.BINOMIAL
    if design.sampling is Sampling.IID:
        return ComponentTest.BETTING
    # Proportional strata of records keep what the published audits registered by default.
    in_strata = isinstance(design, Stratified) and sees_losses(design)
    return ComponentTest.BENTKUS if in_strata else ComponentTest.BETTING_FIXED


Requirements = Sequence[Requirement]


def slack_scores(requirements: Requirements, means: Array) -> NDArray[np.bool_]:
    """Return which sample means, last axis the requirements, all keep their cutoffs (Eq. (10))."""
    return contamination.slack_score(means, _cutoffs(requirements))


def ramp_scores(requirements: Requirements, means: Array) -> Array:
    """Return the ramp scores of sample means, whose last axis is the requirements (Eq. (18))."""
    return contamination.ramp_score(means, _cutoffs(requirements), _ramps(requirements))


def ramp_ceiling(requirements: Requirements, n: int) -> float:
    """Return ``kappa_h``: the mean ramp score that an invalid release can have, at most."""
    return max(
        contamination.ramp_ceiling(r.unit_cutoff, r.unit_ramp, r.unit_limit, n)
        for r in requirements
    )


def ramp_sensitivity(requirements: Requirements, n: int) -> float:
    """Return ``rho_h``: how far one record can move a ramp score."""
    return contamination.ramp_sensitivity(_ramps(requirements), n)


def block_witnesses(requirements: Requirements, means: Array) -> Array:
    """Return the scores of block means: ramped where every ramp is registered, else hard."""
    if _ramped(requirements):
        return ramp_scores(requirements, means)
    return slack_scores(requirements, means).astype(np.float64)


def block_ceiling(requirements: Requirements, size: int) -> float:
    """Return ``kappa_m``: the mean score that an invalid release can have on a block."""
    if _ramped(requirements):
        return ramp_ceiling(requirements, size)
    return max(
        contamination.chernoff_ceiling(r.unit_cutoff, r.unit_limit, size) for r in requirements
    )


def _cutoffs(requirements: Requirements) -> Array:
    return np.array([r.unit_cutoff for r in requirements])


def _ramps(requirements: Requirements) -> Array:
    return np.array([r.unit_ramp for r in requirements])


def _ramped(requirements: Requirements) -> bool:
    return all(r.ramp is not None for r in requirements)


class Bound(Enum):
    """How contamination by invalid releases is accounted for."""

    PAPER = "paper"  # as published
    RESCALED = "rescaled"  # only invalid releases contaminate
    SHARP = "sharp"  # no split between draws and target


class Score(Enum):
    """What makes a release score favorably."""

    PVALUE = "pvalue"  # its p-value is at most the threshold
    SLACK = "slack"  # every mean is at most its cutoff, Eq. (10)


class Family(Enum):
    """What is certified for several mechanisms at once."""

    DECISIONS = "decisions"  # familywise decisions, by Holm
    BOUNDS = "bounds"  # simultaneous bounds, at local levels that sum to the budget
