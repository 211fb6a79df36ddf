"""Tests of a bounded mean by betting (theory section 1; Waudby-Smith and Ramdas 2024).

A gambler who believes the mean is below ``v`` stakes a share of the capital on every
record; under ``mean >= v`` the capital cannot be expected to grow, so a large capital is
evidence. `BettingCapital` adapts its stakes to the records already seen and therefore
needs them in random order; `FixedCapital` uses registered stakes, and order does not
matter. Both take records in tiles, so that memory does not depend on their number.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from proxyguard.exact import checks
from proxyguard.exact.rounding import GUARD, Array, bracket_switch, pvalue_from_log, weaken_upper
from proxyguard.exact.special import special

# ``c``: the largest share of the capital that one record can lose.
TRUNCATION = 0.9

# Default registered grid of `FixedCapital`, as fractions of the largest admissible stake.
STAKES = tuple(float(f) for f in TRUNCATION * np.geomspace(1.0 / 64.0, 1.0, 16))


# How far a limit is from the ends of a column's numbers at the least: a bet that could not lose
# would have no bound.
ROOM = 1e-3


class BettingCapital:
    """Log capital of the predictable plug-in bet, in both directions, one bet a column.

    ``lambda_i = min(sqrt(2 log(1/t) / (n s2_{i-1})), c/(1 - v))`` with the running mean
    and variance of theory section 1. The violation direction bets on ``1 - u`` against
    ``1 - v``; its running variance is the same number, so both share one pass. Where the numbers
    of a column lie in a narrower range than [0, 1], its ``ends``, all of this is meant on that.

    Guarantee
    ---------
    Under ``mean >= v`` and iid records in random order, the capital is a nonnegative
    supermartingale from 1, so ``1/max_i K_i`` is super-uniform (Ville) and ``K_n`` is an
    e-value; likewise the other direction under ``mean <= v``.
    """

    def __init__(
        self, *, columns: int, n: int, v: ArrayLike, level: float, violation_level: float | None,
        ends: Array | None = None,
    ) -> None:  # fmt: skip
        if n < 1:
            raise ValueError(f"betting needs at least one record, got n = {n}")
        checks.level(level, "level")
        if violation_level is not None:
            checks.level(violation_level, "violation_level")
        self._n = n
        self._seen = 0
        self._v = np.asarray(v, dtype=np.float64)
        if not np.all((self._v > 0.0) & (self._v < 1.0)):
            raise ValueError(f"limits must lie in (0, 1) on the unit scale, got {self._v}")
        if self._v.ndim:  # one limit a column
            self._v = self._v[:, None]
        self._stake = float(np.sqrt(-2.0 * np.log(level) / n))
        # None: the other direction is not bet on, which a simulation does not ask for.
        self._violation_stake = (
            None if violation_level is None else float(np.sqrt(-2.0 * np.log(violation_level) / n))
        )
        low, high = _ends(ends, self._v)
        self._caps = TRUNCATION / (high - self._v), TRUNCATION / (self._v - low)
        # One pseudo-observation, in the middle of the range.
        self._sum = np.full((columns, 1), (low + high) / 2.0)
        self._square = np.full((columns, 1), ((high - low) / 2.0) ** 2)
        self._error = _log_error(n) * _largest_stake(ends, self._caps)
        self._final = np.zeros((2, columns))
        self._peak = np.zeros((2, columns))

    def update(self, u: Array) -> None:
        """Bet on the next records, ``u`` of shape (columns, records), within the ends."""
        m = u.shape[1]
        if self._seen + m > self._n:
            raise ValueError(f"declared {self._n} records, got at least {self._seen + m}")
        if m == 0:
            return
        share = 1.0 / (self._seen + np.arange(1.0, m + 2.0))  # 1/i for i = seen+1 .. seen+m+1
        work = np.cumsum(u, axis=1)
        work += self._sum
        self._sum = work[:, -1:].copy()
        work *= share[1:]  # the running mean m_i
        np.subtract(u, work, out=work)
        work *= work
        total = np.cumsum(work, axis=1)
        total += self._square
        rate = np.empty_like(total)
        rate[:, :1] = self._square
        rate[:, 1:] = total[:, :-1]
        self._square = total[:, -1:].copy()
        rate *= share[:-1]  # s2_{i-1} for the record i at hand
        np.sqrt(rate, out=rate)
        np.divide(1.0, rate, out=rate)
        gain = np.subtract(self._v, u, out=work)
        stake = np.multiply(rate, self._stake, out=total)
        np.minimum(stake, self._caps[0], out=stake)
        self._bet(0, stake, gain)
        if self._violation_stake is not None:
            # The other direction gains what this one loses: the same bet with negative stakes.
            rate *= -self._violation_stake
            np.maximum(rate, -self._caps[1], out=rate)
            self._bet(1, rate, gain)
        self._seen += m

    def _bet(self, direction: int, stake: Array, gain: Array) -> None:
        stake *= gain
        np.log1p(stake, out=stake)
        np.cumsum(stake, axis=1, out=stake)
        start = self._final[direction]
        np.maximum(self._peak[direction], start + stake.max(axis=1), out=self._peak[direction])
        self._final[direction] = start + stake[:, -1]

    def log_peak(self) -> Array:
        """Return ``log max_i K_i``, never overstated: (2, columns), validation first."""
        self._require_all()
        return np.maximum(0.0, self._peak - self._error)

    def log_final(self) -> Array:
        """Return ``log K_n``, an e-value's logarithm, never overstated: (2, columns)."""
        self._require_all()
        return self._final - self._error

    def pvalues(self) -> Array:
        """Return ``min(1, 1/max_i K_i)``: (2, columns), validation first."""
        return pvalue_from_log(-self.log_peak())

    def _require_all(self) -> None:
        if self._seen != self._n:
            raise ValueError(f"declared {self._n} records, got {self._seen}")


class FixedCapital:
    """Log capital of registered stakes, averaged over a grid, in both directions.

    A record in stratum ``g`` has weight ``omega = w_g/n_g``. With fractions ``f`` of the
    largest stake, ``E = mean over f of prod_s (1 + f (omega_s/max omega)(v - u_s)/(1 - v))``. A
    stake must leave something whatever the record: where the numbers of a column end below 1, at
    ``high``, it may be as large as ``1/(high - v)``.

    Guarantee
    ---------
    ``E`` is an e-value and ``min(1, 1/E)`` super-uniform under ``mean >= v``, for registered
    strata with any weights, independent records, with or without replacement (theory
    section 1: Maclaurin's inequality within strata, then ``1 + x <= e^x``).
    """

    def __init__(
        self, *, columns: int, v: float, largest_weight: float, stakes: Sequence[float] = STAKES,
        ends: Array | None = None,
    ) -> None:  # fmt: skip
        if not stakes or not all(0.0 < f < 1.0 for f in stakes):
            raise ValueError(f"stakes must lie in (0, 1), got {tuple(stakes)}")
        if not 0.0 < v < 1.0:
            raise ValueError(f"limits must lie in (0, 1) on the unit scale, got {v}")
        if largest_weight <= 0.0:
            raise ValueError(f"weights must be positive, got {largest_weight}")
        self._seen, self._v, self._largest = 0, v, largest_weight
        self._stakes = tuple(stakes)
        low, high = _ends(ends, np.asarray(v))
        self._caps = 1.0 / (high - v), -1.0 / (v - low)
        self._scale = _largest_stake(ends, self._caps)
        self._log = np.zeros((2, columns, len(stakes)))

    def update(self, u: Array, weights: Array) -> None:
        """Bet on the next records: ``u`` (columns, records), ``weights`` (records,)."""
        if np.any(weights > self._largest * (1.0 + GUARD)) or np.any(weights <= 0.0):
            raise ValueError(
                f"record weights must lie in (0, {self._largest}], got {weights.min()} to "
                f"{weights.max()}"
            )
        gain = (self._v - u) * np.minimum(weights / self._largest, 1.0)
        bet = np.empty_like(gain)
        for direction, cap in enumerate(self._caps):
            for g, fraction in enumerate(self._stakes):
                np.multiply(gain, fraction * cap, out=bet)
                np.log1p(bet, out=bet)
                self._log[direction, :, g] += bet.sum(axis=1)
        self._seen += u.shape[1]

    def log_evalue(self) -> Array:
        """Return ``log E``, never overstated: (2, columns), validation first."""
        average = special.logsumexp(self._log, axis=2) - np.log(len(self._stakes))
        return np.asarray(average) - _log_error(self._seen) * self._scale

    def pvalues(self) -> Array:
        """Return ``min(1, 1/E)``: (2, columns), validation first."""
        return pvalue_from_log(-self.log_evalue())


def betting_pvalue(u: ArrayLike, v: ArrayLike, *, level: float) -> Array:
    """Return the betting p-value of ``mean >= v`` for each row of ``u`` (columns, records)."""
    u = checks.unit_records(u)
    capital = BettingCapital(
        columns=u.shape[0], n=u.shape[1], v=v, level=level, violation_level=level
    )
    capital.update(u)
    validation: Array = capital.pvalues()[0]
    return validation


def betting_upper(u: ArrayLike, *, level: float, delta: float) -> Array:
    """Return the least limit whose betting p-value is at most ``delta``, rounded up.

    The capital grows with ``v`` record by record, so bisection is exact. For the lower
    limit of the mean take ``1 - betting_upper(1 - u, ...)``.
    """
    u = checks.unit_records(u)
    checks.level(delta, "delta")
    return _invert(u, lambda v: betting_pvalue(u, v, level=level) <= delta)


def betting_fixed_pvalue(
    u: ArrayLike, v: float, weights: ArrayLike | None = None, *, stakes: Sequence[float] = STAKES
) -> Array:
    """Return the fixed-stake p-value of a weighted ``mean >= v`` for each row of ``u``."""
    u = checks.unit_records(u)
    n = u.shape[1]
    omega = np.full(n, 1.0 / n) if weights is None else np.asarray(weights, dtype=np.float64)
    capital = FixedCapital(
        columns=u.shape[0], v=v, largest_weight=float(omega.max()), stakes=stakes
    )
    capital.update(u, omega)
    validation: Array = capital.pvalues()[0]
    return validation


def betting_fixed_upper(
    u: ArrayLike,
    weights: ArrayLike | None = None,
    *,
    delta: float,
    stakes: Sequence[float] = STAKES,
) -> Array:
    """Return the least limit whose fixed-stake p-value is at most ``delta``, rounded up."""
    u = checks.unit_records(u)

    checks.level(delta, "delta")

    def holds(v: Array) -> NDArray[np.bool_]:
        rows = [
            betting_fixed_pvalue(row, float(limit), weights, stakes=stakes)[0]
            for row, limit in zip(u, v, strict=True)
        ]
        return np.asarray(rows) <= delta

    return _invert(u, holds)


def _invert(u: Array, holds: Callable[[Array], NDArray[np.bool_]]) -> Array:
    rows = u.shape[0]
    _, first = bracket_switch(holds, np.zeros(rows), np.ones(rows))
    return weaken_upper(first)


def _ends(ends: Array | None, v: Array) -> tuple[Array, Array]:
    """Return the least and the greatest number that each column can have, as bets see them."""
    if ends is None:
        return np.asarray(0.0), np.asarray(1.0)
    low, high = ends[0][:, None], ends[1][:, None]
    if not np.all((low >= 0.0) & (low < v) & (v < high) & (high <= 1.0)):
        raise ValueError(f"limits must lie between the ends of [0, 1], got {v} in {ends}")
    return low, high


def _largest_stake(ends: Array | None, caps: tuple[Array, Array]) -> Array:
    """Return by how much more than on [0, 1] a rounded number may move a bet, by column."""
    if ends is None:
        return np.asarray(1.0)
    return np.maximum(1.0, np.maximum(*(np.abs(cap[:, 0]) for cap in caps)))


def _log_error(n: int) -> float:
    return GUARD + 4.0 * n * float(np.finfo(np.float64).eps)
