"""Laws and decisions that the count studies share, a whole block of repetitions at once.

A release with exact binomial p-values for one tolerance has the p-value of its largest
count, so one draw from the law of that count replaces one binomial a requirement. The laws
are exactly the same. Every decision compares counts with bars: a release is recognized when
its count lies below one, so how many counts lie below each of a few bars says all.

Arrays of counts have the releases first: the rows of a block are then added up in one stride.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from math import prod
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from proxyguard.exact.binomial import lower_tail, upper_tail
from proxyguard.exact.sharp import default_threshold, sharp_pvalue

Array = NDArray[np.float64]
Counts = NDArray[np.int64]
Integers = NDArray[np.integer[Any]]
"""Counts in the narrowest type that holds them."""

UNRELIABLE = 0.6
VIOLATION = f"violation at reliability {UNRELIABLE:.2f}"
"""The metric of how often mechanisms below the target are shown to be."""

GUIDE_BITS = 16
UNDECIDED = 255
"""Code of a guide's entry that lies across a step of the distribution function."""


@cache
def _cdf(n: int, risk: float) -> Array:
    k = np.arange(n, dtype=np.float64)
    return np.append(special.betaincc(k + 1.0, n - k, risk), 1.0)


@cache
def largest_count_law(n: int, risks: tuple[float, ...]) -> Array:
    """Return the distribution function of the largest of independent binomial counts."""
    return np.asarray(np.prod([_cdf(n, risk) for risk in risks], axis=0))


def largest_counts(
    rng: np.random.Generator, n: int, risks: tuple[float, ...], shape: tuple[int, ...]
) -> Counts:
    """Draw the largest of independent counts, one for each release."""
    return np.searchsorted(largest_count_law(n, risks), rng.random(shape), side="left")


@dataclass(frozen=True, slots=True, eq=False)
class CodeLaw:
    """A law on few codes, ready to be drawn from 16 random bits where those decide.

    The unit interval is cut into 2^16 equal pieces. A piece inside one step of the
    distribution function has its code in the guide; for the few others, further bits say
    where in the piece the uniform lies. So this is inversion of a uniform, exactly.
    """

    cdf: Array
    guide: NDArray[np.uint8]

    @classmethod
    def of(cls, cdf: Array) -> CodeLaw:
        """Return the law with this distribution function over codes 0, 1, ..."""
        if cdf.size > UNDECIDED or cdf[-1] != 1.0:
            raise ValueError(f"need at most {UNDECIDED} codes that sum to 1, got {cdf.size} codes")
        pieces = 2**GUIDE_BITS
        steps = cdf * pieces  # a power of two, so no digit is lost
        first = np.searchsorted(steps, np.arange(pieces), side="right")
        last = np.searchsorted(steps, np.arange(1, pieces + 1), side="left")
        return cls(cdf, np.where(first == last, first, UNDECIDED).astype(np.uint8))

    def draw(self, rng: np.random.Generator, shape: tuple[int, ...]) -> NDArray[np.uint8]:
        """Draw independent codes."""
        size = int(np.prod(shape))
        words = rng.integers(0, 2**64, -(-size // 4), dtype=np.uint64)
        pieces = words.view(np.uint16)[:size]
        codes = self.guide.take(pieces)
        unclear = np.flatnonzero(codes == UNDECIDED)
        uniforms = (pieces[unclear] + rng.random(unclear.size)) / 2**GUIDE_BITS
        codes[unclear] = np.searchsorted(self.cdf, uniforms, side="left")
        return codes.reshape(shape)


@cache
def pvalue_table(n: int, tolerance: float) -> Array:
    """Return ``P(Bin(n, tolerance) <= k)`` for every count ``k``."""
    return lower_tail(np.arange(n + 1), n, tolerance)


@cache
def mixed_law(
    n: int, tolerance: float, eta: float, risks: tuple[tuple[float, ...], tuple[float, ...]]
) -> CodeLaw:
    """Return the law of a release's largest count and validity, valid with chance ``eta``.

    ``risks`` are those of a valid and of an invalid release. Counts whose p-value is 1 share
    one code, the largest; invalid releases have the codes after those of valid ones.
    """
    top = _top(n, tolerance)
    good, bad = (np.append(largest_count_law(n, one)[:top], 1.0) for one in risks)
    cdf = np.concatenate((eta * good, eta + (1.0 - eta) * bad))
    cdf[-1] = 1.0  # eta + (1 - eta) may be an ulp below
    return CodeLaw.of(cdf)


@cache
def unlabelled_law(
    n: int, tolerance: float, eta: float, risks: tuple[tuple[float, ...], tuple[float, ...]]
) -> CodeLaw:
    """Return the law of `mixed_law` for methods that never ask which releases are valid."""
    good, bad = (largest_count_law(n, one)[: _top(n, tolerance)] for one in risks)
    return CodeLaw.of(np.append(eta * good + (1.0 - eta) * bad, 1.0))


def _top(n: int, tolerance: float) -> int:
    """Return the least count whose p-value is 1: no method tells larger ones apart."""
    return bar(pvalue_table(n, tolerance), np.nextafter(1.0, 0.0))


def labelled(
    codes: NDArray[np.uint8], n: int, tolerance: float
) -> tuple[NDArray[np.uint8], NDArray[np.bool_]]:
    """Return the counts and the validity that codes of `mixed_law` stand for."""
    codes_each = np.uint8(_top(n, tolerance) + 1)
    valid = codes < codes_each
    return codes - codes_each * ~valid, valid


def bar(table: Array, level: float) -> int:
    """Return the least count whose p-value is above the level: counts below it pass."""
    return int(np.searchsorted(table, level, side="right"))


def below(counts: Integers, bars: ArrayLike, axis: int | tuple[int, ...] = 0) -> Integers:
    """Return how many counts lie below a bar, or below the bar of each row."""
    passes = counts < np.asarray(bars, dtype=counts.dtype)
    most = _family(counts, axis)
    # The narrowest integers that hold the sum: bytes are added many at a time.
    return np.asarray(passes.view(np.uint8).sum(axis=axis, dtype=np.min_scalar_type(most)))


def _family(counts: Integers, axis: int | tuple[int, ...]) -> int:
    """Return the number of counts along some axes."""
    return prod(counts.shape[a] for a in ((axis,) if isinstance(axis, int) else axis))


def _steps(table: Array, releases: int, alpha: float) -> NDArray[np.intp]:
    """Return the bar of each of Holm's steps, nondecreasing."""
    return np.searchsorted(table, alpha / np.arange(releases, 0, -1), side="right")


def holm_bars(
    counts: Integers, table: Array, alpha: float, axis: int | tuple[int, ...] = 0
) -> Integers:
    """Return the bar below which Holm recognizes all counts of a family, and none above.

    Holm's levels rise, so releases with one count pass together. All counts below a bar have
    been recognized when it is reached; their number says which step, and so which bar,
    is next.
    """
    steps = _steps(table, _family(counts, axis), alpha)
    following = np.append(steps, steps[-1]).astype(counts.dtype)
    bars = following[below(counts, int(steps[0]), axis)]
    for reached in range(int(steps[0]) + 1, int(steps[-1])):
        bars = np.where(bars >= reached, following[below(counts, reached, axis)], bars)
    return bars


def holm_count(counts: Integers, table: Array, alpha: float) -> Integers:
    """Return how many releases of each row Holm recognizes."""
    return below(counts, holm_bars(counts, table, alpha))


def simes_count(counts: Integers, table: Array, alpha: float) -> Integers:
    """Return the tail-Simes count of each row (paper Eqs. (15)-(16)).

    Step ``k`` passes when for some count ``v`` the number ``C`` of counts up to ``v`` makes
    ``p(v) <= (C - k) alpha/(R - k)``; for one ``v`` these are the first steps, as many as a
    table by ``C`` says. Integers that Bonferroni recognizes need not be told apart, nor
    those above ``alpha``.
    """
    releases = len(counts)
    steps = _steps(table, releases, alpha)
    found = np.zeros(counts.shape[1:], dtype=np.min_scalar_type(releases))
    for reached in range(max(1, int(steps[0])), int(steps[-1]) + 1):
        passed = _simes_steps(float(table[reached - 1]), releases, alpha)
        np.maximum(found, passed[below(counts, reached)], out=found)
    return found


@cache
def _simes_steps(pvalue: float, releases: int, alpha: float) -> Integers:
    """Return how many of the first steps ``C`` p-values up to ``pvalue`` pass, for every ``C``."""
    number = np.arange(releases + 1)[:, None]
    k = np.arange(releases)
    passes = pvalue <= alpha / (releases - k) * (number - k)
    leading = np.logical_and.accumulate(passes, axis=1).sum(axis=1)
    return np.asarray(leading, dtype=np.min_scalar_type(releases))


def fisher_count(counts: Integers, table: Array, alpha: float) -> Integers:
    """Return the tail-Fisher count of each row."""
    releases = len(counts)
    logs = -np.log(np.maximum(table, np.finfo(np.float64).tiny))
    limits = special.gammainccinv(np.arange(1.0, releases + 1.0), alpha)
    tail = np.zeros(counts.shape[1:])
    passed = np.zeros(counts.shape[1:], dtype=np.min_scalar_type(releases))
    # From the shortest tail to the longest: steps passed since the last failure are the first.
    for one, limit in zip(_sorted(counts)[::-1], limits, strict=True):
        tail += logs[one]
        passed += 1
        passed *= tail >= limit
    return passed


def _sorted(counts: Integers) -> Integers:
    """Return the counts of each row in order, releases first; short words sort fastest."""
    rows = np.ascontiguousarray(np.moveaxis(counts, 0, -1), dtype=np.int32)
    rows.sort(axis=-1)
    return np.ascontiguousarray(np.moveaxis(rows, -1, 0), dtype=counts.dtype)


@cache
def reliability_pvalues(releases: int, target: float) -> Array:
    """Return ``P(Bin(R, eta_0) >= V)`` for every count ``V`` (paper Eq. (9))."""
    return upper_tail(np.arange(releases + 1), releases, target)


@cache
def sharp_pvalues(releases: int, target: float, threshold: float) -> Array:
    """Return the sharp p-value for every number of favorable scores."""
    return sharp_pvalue(np.arange(releases + 1), releases, target=target, kappa=threshold)


@cache
def sharp_threshold(releases: int, target: float, alpha: float) -> float:
    """Return the default threshold ``t`` of the sharp certificate, 0 if none can validate."""
    return default_threshold(releases, target=target, alpha=alpha) or 0.0


def validated_mechanisms(counts: Integers, pvalues: Array, alpha: float) -> Integers:
    """Return how many mechanisms (first axis) Holm validates in each repetition.

    ``pvalues`` belong to the counts 0..R of recognized or favorable releases and fall as the
    count grows: in the number of other releases this is Holm over counts once more.
    """
    releases = pvalues.size - 1
    others = (releases - counts).astype(np.min_scalar_type(releases + 1))
    return holm_count(others, pvalues[::-1], alpha)


def validated(pvalues: Array, alpha: float) -> NDArray[np.bool_]:
    """Return which mechanisms Holm validates in each row (last axis: mechanisms)."""
    mechanisms = pvalues.shape[-1]
    order = np.argsort(pvalues, axis=-1, kind="stable")
    levels = alpha / np.arange(mechanisms, 0, -1)
    passes = np.take_along_axis(pvalues, order, axis=-1) <= levels
    rejected = np.zeros(pvalues.shape, dtype=bool)
    np.put_along_axis(rejected, order, np.logical_and.accumulate(passes, axis=-1), axis=-1)
    return rejected


def any_of(decisions: NDArray[np.bool_]) -> Array:
    """Return 1 for every repetition in which something was decided."""
    return np.asarray(decisions.any(axis=tuple(range(1, decisions.ndim))), dtype=np.float64)


def share_of(decisions: NDArray[np.bool_], axes: Sequence[int] = (1,)) -> Array:
    """Return the share of decisions in every repetition."""
    return np.asarray(decisions.mean(axis=tuple(axes)))
