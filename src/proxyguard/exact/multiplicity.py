"""Corrections for looking at many requirements, releases, mechanisms and rounds.

Intersection-union (paper Eqs. 6-7), Holm (Eq. 8), tail-Simes (Eqs. 15-16), tail-Fisher,
and the spending rule of Proposition 19.
"""

from __future__ import annotations

from enum import Enum

import numpy as np
from numpy.typing import ArrayLike, NDArray

from proxyguard.exact import checks
from proxyguard.exact.rounding import TINY, Array, weaken_lower, weaken_pvalue
from proxyguard.exact.special import special


class Dependence(Enum):
    """What is known about release p-values beyond super-uniformity.

    ``INDEPENDENT`` and ``PRDS`` mean that releases were scored on separate batches of
    target records. One shared target gives ``ARBITRARY``, always.
    """

    ARBITRARY = "arbitrary"
    PRDS = "prds"
    INDEPENDENT = "independent"


def intersection_union(pvalues: ArrayLike) -> Array:
    """Return the release p-value ``max_j p_j`` over the last axis (paper Eqs. (6), (7))."""
    return np.asarray(checks.pvalues(pvalues).max(axis=-1))


def bonferroni(pvalues: ArrayLike, *, alpha: float) -> NDArray[np.bool_]:
    """Return which p-values are at most ``alpha / m``."""
    p = checks.pvalues(pvalues)
    return p <= checks.level(alpha) / p.size


def holm(pvalues: ArrayLike, *, alpha: float) -> NDArray[np.bool_]:
    """Return which hypotheses Holm's step-down procedure rejects (paper Eq. (8)).

    Guarantee
    ---------
    Rejects a true null with probability at most ``alpha`` under any dependence.
    """
    p = checks.pvalues(pvalues)
    order = np.argsort(p, kind="stable")
    passes = p[order] <= _holm_levels(p.size, alpha)
    rejected = np.zeros(p.size, dtype=bool)
    rejected[order[np.logical_and.accumulate(passes)]] = True
    return rejected


def holm_level(pvalues: ArrayLike, *, alpha: float) -> float:
    """Return the level at which `holm` stops: it rejects exactly the p-values at or below it.

    >>> holm_level([0.01, 0.04, 0.03], alpha=0.05), holm_level([0.01, 0.02], alpha=0.05)
    (0.025, 0.05)
    """
    rejected = int(holm(pvalues, alpha=alpha).sum())
    levels = _holm_levels(np.size(pvalues), alpha)
    return float(levels[min(rejected, levels.size - 1)])


def holm_adjusted(pvalues: ArrayLike) -> Array:
    """Return Holm-adjusted p-values, for reading; `holm` decides.

    >>> holm_adjusted([0.01, 0.04, 0.03]).round(2).tolist()
    [0.03, 0.06, 0.06]
    """
    p = checks.pvalues(pvalues)
    order = np.argsort(p, kind="stable")
    adjusted = np.empty(p.size)
    adjusted[order] = np.minimum(1.0, np.maximum.accumulate(p[order] * np.arange(p.size, 0, -1)))
    return adjusted


def tail_simes_count(pvalues: ArrayLike, *, alpha: float, dependence: Dependence) -> int:
    """Return the simultaneous lower count of valid releases (paper Eqs. (15)-(16)).

    Guarantee
    ---------
    Paper Theorem 9: exceeds the number of false nulls with probability at most
    ``alpha`` when the null p-values are independent or PRDS. Never below the Holm count
    (Proposition 10).
    """
    if dependence not in (Dependence.INDEPENDENT, Dependence.PRDS):
        raise ValueError(
            "tail-Simes needs independent or PRDS release p-values, which means a separate "
            f"batch of target records for each release; dependence was stated as {dependence.value}"
        )
    p = np.sort(checks.pvalues(pvalues))
    # Eq. (15) at k is at most alpha when some p_(j) <= (j-k+1) alpha/(R-k+1); the term
    # j = k is Holm's own comparison, so Proposition 10 holds to the last bit.
    rank = np.arange(1.0, p.size + 1.0)
    for k, level in enumerate(_holm_levels(p.size, alpha)):
        if not (p[k:] <= level * rank[: p.size - k]).any():
            return k
    return p.size


def tail_fisher_count(pvalues: ArrayLike, *, alpha: float, dependence: Dependence) -> int:
    """Return the lower count of valid releases by Fisher's combination of the tail.

    Guarantee
    ---------
    As `tail_simes_count`, but only for independent null p-values.
    """
    if dependence is not Dependence.INDEPENDENT:
        raise ValueError(
            "tail-Fisher needs independent release p-values (separate batches); "
            f"dependence was stated as {dependence.value}"
        )
    checks.level(alpha)
    p = np.maximum(np.sort(checks.pvalues(pvalues)), TINY)
    statistic = -2.0 * np.cumsum(np.log(p)[::-1])[::-1]
    # The chi-square tail with 2k degrees of freedom is a gamma tail with k.
    values = weaken_pvalue(special.gammaincc(np.arange(p.size, 0, -1), 0.5 * statistic))
    return int(np.count_nonzero(np.maximum.accumulate(values) <= alpha))


def spending_level(round_number: int, *, alpha: float) -> float:
    """Return ``6 alpha / (pi^2 t^2)``, the level of round ``t`` (paper Proposition 19).

    The levels of all rounds sum to ``alpha``.
    """
    if round_number < 1:
        raise ValueError(f"rounds are counted from 1, got {round_number}")
    return float(weaken_lower(6.0 * checks.level(alpha) / (np.pi**2 * round_number**2)))


def _holm_levels(m: int, alpha: float) -> Array:
    """Return Holm's levels ``alpha/m, alpha/(m-1), ..., alpha``."""
    return checks.level(alpha) / np.arange(m, 0, -1)
