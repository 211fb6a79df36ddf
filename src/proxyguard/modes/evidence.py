"""What goes into a mode and what comes out of it: statistics in, a bound and a decision out.

`proxyguard.evidence` gathers the statistics: p-values, counts and means, never a loss array. The
protocols here say what of them a mode reads, so that a mode can be written, planned and tested
before there is a single loss. `ReliabilityBound` is what every mode returns, with the two steps
that several modes build one with, and `Decision` has the three things an audit can say.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from proxyguard.exact.binomial import (
    clopper_pearson_lower,
    clopper_pearson_upper,
    lower_tail,
    upper_tail,
)
from proxyguard.exact.rounding import Array, weaken_lower
from proxyguard.registry.budget import Budget
from proxyguard.registry.design import Design
from proxyguard.registry.requirement import Requirement
from proxyguard.registry.test import ComponentTest


class ColumnStatistics(Protocol):
    """The statistics of one requirement over all releases, on the unit scale."""

    @property
    def n(self) -> int:
        """Records, or clusters, that count for this requirement."""

    @property
    def mean(self) -> Array:
        """The mean of each release."""

    @property
    def count(self) -> NDArray[np.int64] | None:
        """Losses at the upper bound, where they are two-valued."""

    @property
    def log_final(self) -> Array | None:
        """Log capital of betting, both directions."""

    @property
    def log_evalue(self) -> Array | None:
        """Log capital of betting with fixed stakes, both directions."""

    @property
    def block_means(self) -> Array | None:
        """The mean of each release on each block of records."""


class LossReading(Protocol):
    """How the losses were read."""

    @property
    def design(self) -> Design:
        """How the target was sampled."""

    @property
    def block_size(self) -> int | None:
        """Records of a block, where the mode has blocks."""


class MechanismEvidence(Protocol):
    """P-values in both directions and statistics of R releases and J requirements."""

    @property
    def releases(self) -> tuple[str, ...]:
        """The names of the releases."""

    @property
    def requirements(self) -> tuple[Requirement, ...]:
        """What was tested."""

    @property
    def tests(self) -> tuple[ComponentTest, ...]:
        """By which tests."""

    @property
    def reading(self) -> LossReading:
        """How the losses were read."""

    @property
    def n_records(self) -> tuple[int, ...]:
        """Records, or clusters, that count, a requirement."""

    @property
    def columns(self) -> Sequence[ColumnStatistics]:
        """The statistics of each requirement."""

    @property
    def n_releases(self) -> int:
        """``R``."""

    @property
    def n_requirements(self) -> int:
        """``J``."""

    @property
    def violation_pvalues(self) -> Array:
        """P-values of ``mu <= tau``, (R, J)."""

    @property
    def release_pvalues(self) -> Array:
        """``p_r``, raw, never adjusted (Eq. (7))."""

    @property
    def release_violation_pvalues(self) -> Array:
        """``q_r``: Bonferroni over requirements (theory section 4)."""

    @property
    def uniforms(self) -> Array:
        """One uniform a release, of the target's own seed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DirectEvidence:
    """Favorable scores and the ceiling ``kappa`` that belongs to the very same score."""

    favorable: int
    n_releases: int
    kappa: float
    score: str  # what a favorable score is, in words
    level: float | None = None  # of a score by p-values: that of each requirement's test


@dataclass(frozen=True, slots=True, kw_only=True)
class ReliabilityBound:
    """A one-sided confidence bound on the chance that a fresh release is valid.

    ``steps`` are the numbers it was built from, in order, for a reader to follow.
    ``pvalue`` tests the registered target; ``outer`` names the part of the budget at
    which Holm compares it across a family of mechanisms. ``level`` is that of each requirement's
    test where p-values tell single releases apart; there is none where they do not.
    """

    value: float
    budget: Budget  # this mechanism's own
    rests_on: str
    steps: tuple[tuple[str, float], ...]
    pvalue: float | None = None
    outer: str | None = None
    level: float | None = None


def from_count(
    count: int,
    n_releases: int,
    budget: Budget,
    *,
    reliability_target: float,
    outer: str,
    label: str,
    rests_on: str,
    level: float | None = None,
) -> ReliabilityBound:
    """Turn a lower count of valid releases into a bound: the outer binomial step, Eq. (9)."""
    return ReliabilityBound(
        # The limit rises with the count, so that valid releases which were missed only lower it.
        value=float(clopper_pearson_lower(count, n_releases, alpha=float(budget[outer]))),
        budget=budget,
        rests_on=rests_on,
        steps=((label, count), ("releases", n_releases)),
        pvalue=float(upper_tail(count, n_releases, reliability_target)),
        outer=outer,
        level=level,
    )


def from_most(
    valid: int,
    n_releases: int,
    budget: Budget,
    *,
    reliability_target: float,
    outer: str,
    step: tuple[str, int],
    rests_on: str,
    level: float | None = None,
) -> ReliabilityBound:
    """Turn an upper count of valid releases into a bound from above, the outer step reflected."""
    return ReliabilityBound(
        # The limit rises with the count, so that invalid releases which were missed only raise it.
        value=float(clopper_pearson_upper(valid, n_releases, alpha=float(budget[outer]))),
        budget=budget,
        rests_on=rests_on,
        steps=(step, ("releases", n_releases)),
        pvalue=float(lower_tail(valid, n_releases, reliability_target)),
        outer=outer,
        level=level,
    )


def rescale(score_rate: float, allowance: float) -> float:
    """Return ``[(pi - c)/(1 - c)]_+``, 0 when the allowance ``c`` reaches 1."""
    # Every favorable score may then be a false one: nothing is left to claim.
    if allowance >= 1.0:
        return 0.0
    return float(weaken_lower(max(0.0, score_rate - allowance) / (1.0 - allowance)))


class Decision(StrEnum):
    """What the audit says; failure to validate is not evidence of a violation.

    A text too, so that it is written into documents and printed as its word.

    Attributes
    ----------
    VALIDATED
        The claim holds, with the registered confidence.
    UNRESOLVED
        Neither is shown: an answer, and no error.
    VIOLATION
        The claim fails, with the confidence of the violation direction.

    Examples
    --------
    >>> print(Decision.VALIDATED)
    validated
    """

    VALIDATED = "validated"
    UNRESOLVED = "unresolved"
    VIOLATION = "violation"
