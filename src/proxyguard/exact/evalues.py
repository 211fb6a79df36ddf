"""Counts of valid releases from e-values (theory section 3).

Release ``r`` has an e-value ``E_r >= 0`` with mean at most 1 over the target whenever the
release is invalid. Large values speak for validity; dependence is arbitrary.

Sums are compared in exact integer arithmetic: a tie such as ``threshold(alpha/R)``, which
must reproduce the Bonferroni count, would otherwise be decided by rounding.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction
from itertools import accumulate
from math import inf, lcm

import numpy as np
from numpy.typing import ArrayLike, NDArray

from proxyguard.exact import checks

Number = float | Fraction


def mixture_evalues(pvalues: ArrayLike, *, thresholds: Sequence[Fraction]) -> list[Fraction]:
    """Return ``E = mean over t of 1{p <= t}/t``, the mixture calibrator; exact.

    One threshold gives the ``threshold(t)`` calibrator.

    >>> mixture_evalues([0.001, 0.2], thresholds=[Fraction(1, 100)])
    [Fraction(100, 1), Fraction(0, 1)]
    """
    if not thresholds or not all(0 < t <= 1 for t in thresholds):
        raise ValueError(f"thresholds must lie in (0, 1], got {tuple(thresholds)}")
    cuts = sorted(thresholds)
    # The double next to t may lie an ulp above it; p-values carry a far larger guard.
    # A p-value in (t_{i-1}, t_i] meets the thresholds from t_i on.
    value = [*accumulate((1 / t for t in reversed(cuts)), initial=Fraction(0))][::-1]
    place = np.searchsorted([float(t) for t in cuts], np.asarray(pvalues, dtype=np.float64))
    shares = [one / len(cuts) for one in value]
    return [shares[i] for i in place.ravel()]


def largest_invalid_count(evalues: Iterable[Number], *, alpha: Fraction) -> int:
    """Return ``m*``: the most releases that can be invalid.

    ``m* = max{m : (E_(1) + ... + E_(m))/m < 1/alpha}``, 0 if none.

    Guarantee
    ---------
    Theory section 3: given the releases, more than ``m*`` of them are invalid with
    probability at most ``alpha`` over the target, under any dependence.
    """
    return _most_below_zero(_excesses(evalues, alpha), 0)


def subset_invalid_count(
    evalues: Iterable[Number], subset: Iterable[bool], *, alpha: Fraction
) -> int:
    """Return ``k*(S)``: the most releases of a subset, chosen after looking, that can be invalid.

    The largest ``k`` for which the ``k`` smallest ``E_r - 1/alpha`` inside the subset and
    all negative ones outside sum to less than 0.

    Guarantee
    ---------
    Theory section 3: outside one event of probability ``alpha``, at most ``k*(S)``
    releases of ``S`` are invalid, for all subsets at once (closed testing with mean
    e-values).
    """
    excesses = _excesses(evalues, alpha)
    chosen = [bool(inside) for inside in subset]
    if len(chosen) != len(excesses):
        raise ValueError(f"subset marks {len(chosen)} releases, there are {len(excesses)}")
    outside = sum(
        int(x) for x, inside in zip(excesses, chosen, strict=True) if not inside and x < 0
    )
    inner = [x for x, inside in zip(excesses, chosen, strict=True) if inside]
    return _most_below_zero(inner, outside)


def e_bh(evalues: ArrayLike, *, alpha: float) -> NDArray[np.bool_]:
    """Return the e-BH list of releases (Wang and Ramdas 2022).

    Guarantee
    ---------
    The expected share of invalid releases in the list is at most ``alpha`` (a false
    discovery rate), under any dependence. It is not a confidence statement about any
    one release and never feeds a certificate.
    """
    e = np.asarray(evalues, dtype=np.float64)
    if e.size == 0 or not np.all(e >= 0.0):
        raise ValueError(f"need at least one e-value, all of them nonnegative, got {e}")
    checks.level(alpha)
    order = np.argsort(-e, kind="stable")
    enough = e[order] >= e.size / (alpha * np.arange(1, e.size + 1))
    chosen = np.zeros(e.size, dtype=bool)
    if np.any(enough):
        chosen[order[: int(np.flatnonzero(enough)[-1]) + 1]] = True
    return chosen


def _excesses(evalues: Iterable[Number], alpha: Fraction) -> list[int | float]:
    """Return ``E_r - 1/alpha``, all multiplied by one common positive integer."""
    checks.level(float(alpha))
    values = list(evalues)
    wrong = [value for value in values if not value >= 0]
    if wrong:
        raise ValueError(f"e-values must be nonnegative numbers, got {wrong[0]}")
    ratios = [(1, 0) if value == inf else value.as_integer_ratio() for value in values]
    scale = lcm(*({denominator for _, denominator in ratios} - {0}))
    bar = alpha.denominator * scale
    return [
        alpha.numerator * numerator * (scale // denominator) - bar if denominator else inf
        for numerator, denominator in ratios
    ]


def _most_below_zero(excesses: list[int | float], start: int) -> int:
    sums = accumulate(sorted(excesses), initial=start)
    return max((k for k, total in enumerate(sums) if total < 0 and k > 0), default=0)
