"""From the scores of an attack to the statistics that tests may look at (theory section 6).

An attack scores single records, higher for "member", and flags a record whose score is at least
the threshold. A `Census` has the scores of all members of one release, and with them every share
``T(c)`` as a number; the sealed records are counted against it, and their scores are not kept.
Everything that chooses a threshold reads members and calibration records alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import ceil

import numpy as np
from numpy.typing import ArrayLike, NDArray

from proxyguard.errors import LossMismatch
from proxyguard.exact.exposure import advantage_pvalues, hypergeometric_lower, hypergeometric_upper
from proxyguard.exact.rounding import Array
from proxyguard.registry.exposure import ThresholdRule
from proxyguard.registry.numbers import Level, exact

# Keeps the sample of members apart from ``default_rng(seed)``, which an attack may have used.
_STREAM = 0x6D656D62


@dataclass(frozen=True, slots=True)
class Bracket:
    """A share of members where a sample of them was scored, and with which error (E7)."""

    lower: float
    """The share is lower with probability at most the error: for violation."""
    upper: float
    """The share is higher with probability at most the error: for validation."""


@dataclass(frozen=True, slots=True)
class Worst:
    """The thresholds of one release that decide about all of them (E2)."""

    count: int
    """Nonmembers that are not flagged where the p-value of validation is largest."""
    answer: float
    """Share of members that is not flagged there."""
    count_low: int
    """Nonmembers that are not flagged where, of the registered thresholds, violation is nearest."""
    answer_low: float
    """Share of members that is not flagged there."""


class Census:
    """The scores of all members of one release.

    Parameters
    ----------
    scores
        Of all members, in any order.
    strata, weights
        Where the target is stratified: the stratum of each member, and the registered share of
        each stratum. ``T(c)`` is then the mixture of the strata's shares with these weights.

    Raises
    ------
    LossMismatch
        If there is no member, a score is no number, or strata have no weight or no member.
    """

    def __init__(
        self,
        scores: ArrayLike,
        strata: NDArray[np.str_] | None = None,
        weights: Mapping[str, Fraction] | None = None,
    ) -> None:
        values = _numbers(scores, "members")
        if values.size == 0:
            raise LossMismatch("an exposure claim is about members, and this release has none")
        if (strata is None) != (weights is None):
            raise LossMismatch(
                "strata of members come with their registered weights, or not at all"
            )
        self.size = values.size
        self._parts: list[tuple[Fraction, Array]] = [(Fraction(1), np.sort(values))]
        if strata is not None and weights is not None:
            self._parts = _by_stratum(values, strata, weights)

    @cached_property
    def thresholds(self) -> Array:
        """The distinct scores, increasing: every threshold that tells members apart."""
        return np.unique(np.concatenate([scores for _, scores in self._parts]))

    @property
    def scores(self) -> Array:
        """All scores, in no order that means anything."""
        return np.concatenate([scores for _, scores in self._parts])

    @cached_property
    def shares(self) -> Array:
        """``T(c)`` at every distinct score: decreasing, and 1 at the first."""
        return self.share(self.thresholds)

    def share(self, threshold: ArrayLike) -> Array:
        """Return ``T(c)``, the share of members that score at least ``c``."""
        c = np.asarray(threshold, dtype=np.float64)
        total = np.zeros(c.shape)
        for weight, scores in self._parts:
            flagged = scores.size - np.searchsorted(scores, c, side="left")
            total += float(weight) * (flagged / scores.size)
        # Weights that were rounded may sum to a last place more than 1.
        return np.minimum(total, 1.0)

    def threshold_for(self, share: Level) -> float:
        """Return ``c_t``, the largest threshold that flags at least this share of members (E3).

        Shares are compared as fractions: a last place would move the threshold by a member.
        """
        least = exact(share, "a share of members")
        if not 0 < least <= 1:
            raise LossMismatch(f"a share of members to find lies in (0, 1], got {share}")
        if len(self._parts) == 1:
            scores = self._parts[0][1]
            return float(scores[scores.size - ceil(least * scores.size)])
        low, high = 0, self.thresholds.size - 1  # the first flags everybody
        while low < high:
            middle = (low + high + 1) // 2
            if self._exact_share(float(self.thresholds[middle])) >= least:
                low = middle
            else:
                high = middle - 1
        return float(self.thresholds[low])

    def registered(self, number: int) -> NDArray[np.intp]:
        """Return where the ``number`` registered thresholds of a violation are in `thresholds`.

        The ``k``-th flags a share ``k/number`` of the members. They are functions of the members
        alone, and there are as many as were registered, whatever the ties.
        """
        if number < 1:
            raise LossMismatch(f"a violation needs at least one threshold, got {number}")
        wanted = [self.threshold_for(Fraction(k, number)) for k in range(1, number + 1)]
        return np.searchsorted(self.thresholds, wanted)

    def above(self, scores: ArrayLike) -> Array:
        """Return the share of members above each score, and half of those that equal it (E4)."""
        s = _numbers(scores, "records")
        total = np.zeros(s.shape)
        for weight, members in self._parts:
            higher = members.size - np.searchsorted(members, s, side="right")
            as_high = members.size - np.searchsorted(members, s, side="left")
            # Twice the share is a whole number of members: rounded once, by the division.
            total += float(weight) * ((higher + as_high) / (2 * members.size))
        return np.clip(total, 0.0, 1.0)

    def _exact_share(self, threshold: float) -> Fraction:
        return sum(
            (
                weight * Fraction(int(s.size - np.searchsorted(s, threshold, side="left")), s.size)
                for weight, s in self._parts
            ),
            Fraction(0),
        )


def higher_quantile(scores: ArrayLike, quantile: Level) -> float:
    """Return the ``higher`` empirical quantile: the score at place ``ceil(q (n - 1))`` from 0.

    Given calibration records it is a threshold (E1). The records that an attack was fitted on
    cannot calibrate it: they score as members do.

    Raises
    ------
    LossMismatch
        If there is no score, one is no number, or the quantile is outside [0, 1].
    """
    values = np.sort(_numbers(scores, "calibration records"))
    q = exact(quantile, "a quantile")
    if values.size == 0 or not 0 <= q <= 1:
        raise LossMismatch(
            f"a threshold is a quantile in [0, 1] of at least one score, got {quantile} of "
            f"{values.size}"
        )
    return float(values[ceil(q * (values.size - 1))])


def registered_threshold(
    rule: ThresholdRule, calibration: ArrayLike | None, members: ArrayLike
) -> float:
    """Return the registered threshold from the scores of open records (E1).

    Raises
    ------
    LossMismatch
        If it is of calibration records, and none were set aside.
    """
    whose = calibration if rule.of == "calibration" else members
    if whose is None:
        raise LossMismatch("no calibration rows were set aside, and a threshold needs some")
    return higher_quantile(whose, rule.quantile)


def flags(scores: ArrayLike, threshold: float) -> NDArray[np.bool_]:
    """Return which records are flagged: those that score at least the threshold."""
    return np.asarray(_numbers(scores, "records") >= threshold)


def flag_losses(flagged: NDArray[np.bool_], share: float) -> Array:
    """Return the loss of each nonmember, ``T(c) - 1{flagged}``: its mean is the advantage (E1)."""
    return np.where(flagged, 0.0, 1.0) - (1.0 - share)


def auc_losses(census: Census, scores: ArrayLike) -> Array:
    """Return the loss of each nonmember whose mean is the membership AUC (E4), in [0, 1]."""
    return census.above(scores)


class ThresholdCounter:
    """Counts of flagged nonmembers at every score of a member, from scores that pass by (E2).

    Memory is that of the members' scores, however many records are added.

    Parameters
    ----------
    census
        The members' scores, which are all thresholds there are.
    """

    def __init__(self, census: Census) -> None:
        self._census = census
        self._n = 0
        # By how many thresholds flag it: 0 of them, ..., all of them.
        self._by_reach = np.zeros(census.thresholds.size + 1, dtype=np.int64)

    def add(self, scores: ArrayLike) -> None:
        """Count some nonmembers."""
        values = _numbers(scores, "nonmembers")
        reach = np.searchsorted(self._census.thresholds, values, side="right")
        self._by_reach += np.bincount(reach, minlength=self._by_reach.size)
        self._n += values.size

    @property
    def n(self) -> int:
        """Nonmembers counted so far."""
        return self._n

    @property
    def flagged(self) -> NDArray[np.int64]:
        """``K(c)`` at every distinct score of a member, increasing."""
        return np.asarray(self._n - np.cumsum(self._by_reach)[:-1])

    def worst(self, limit: float, thresholds: int, *, identical: bool = True) -> Worst:
        """Return the thresholds that decide: over all for validation, registered for violation.

        Parameters
        ----------
        limit
            The ceiling of the advantage.
        thresholds
            How many thresholds are registered for violation; its p-value is multiplied by them.
        identical
            Whether nonmembers are iid, as in `exact.mean.binomial_pvalue`.
        """
        census, flagged = self._census, self.flagged
        registered = census.registered(thresholds)
        if self._n == 0:
            return Worst(0, 0.0, 0, 0.0)  # nothing was counted: every p-value is 1
        validation, violation = advantage_pvalues(
            flagged, self._n, census.shares, limit, identical=identical
        )
        # Of p-values that are equal, as at 1, the one that an attacker would choose.
        advantage = census.shares - flagged / self._n
        most = int(np.lexsort((advantage, validation))[-1])
        least = int(registered[np.lexsort((-advantage[registered], violation[registered]))[0]])
        unflagged = self._n - flagged
        return Worst(
            int(unflagged[most]),
            float(1.0 - census.shares[most]),
            int(unflagged[least]),
            float(1.0 - census.shares[least]),
        )


def member_sample(members: int, rows: int, seed: int) -> NDArray[np.intp]:
    """Return the positions of a simple random sample of members, increasing (E7).

    The whole of it is to be used: the first few of sorted positions are no sample.

    Raises
    ------
    LossMismatch
        If the sample is empty or larger than the members.
    """
    if not 1 <= rows <= members:
        raise LossMismatch(f"a sample of members has 1 to {members} rows, got {rows}")
    rng = np.random.default_rng([_STREAM, seed])
    return np.sort(rng.choice(members, size=rows, replace=False, shuffle=False))


def sampled_share(flagged: NDArray[np.bool_], members: int, *, error: float) -> Bracket:
    """Return limits of ``T(c)`` from the flags of a sample of members (E7).

    Parameters
    ----------
    flagged
        Which members of a `member_sample` are flagged, at a threshold that the sample did not
        choose.
    members
        All members.
    error
        ``alpha_1``: each limit fails with at most this probability. Whoever uses one adds it to the
        p-value.
    """
    count, sample = int(np.count_nonzero(flagged)), flagged.size
    upper = hypergeometric_upper(count, sample, members, alpha=error)
    lower = hypergeometric_lower(count, sample, members, alpha=error)
    return Bracket(lower / members, upper / members)


def _numbers(scores: ArrayLike, whose: str) -> Array:
    values = np.asarray(scores, dtype=np.float64)
    if np.isnan(values).any():
        raise LossMismatch(
            f"an attack gives every record a score, and {int(np.isnan(values).sum())} of "
            f"{values.size} {whose} have none (NaN)"
        )
    return values


def _by_stratum(
    scores: Array, strata: NDArray[np.str_], weights: Mapping[str, Fraction]
) -> list[tuple[Fraction, Array]]:
    if strata.shape != scores.shape:
        raise LossMismatch(f"{scores.size} members have {strata.size} strata; each has one")
    unknown = sorted(set(strata.tolist()) - set(weights))
    empty = sorted(set(weights) - set(strata.tolist()))
    if unknown or empty:
        raise LossMismatch(
            "members are weighted by the registered strata of the target; strata without a weight: "
            f"{unknown}, strata without a member: {empty}"
        )
    return [(exact(weights[g]), np.sort(scores[strata == g])) for g in sorted(weights)]
