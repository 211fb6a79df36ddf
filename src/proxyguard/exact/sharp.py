"""The sharp direct certificate's p-value, limit and threshold rule (theory section 2).

``g(b) = P(Bin(R, 1 - (1 - eta_0)(1 - b)) >= N)`` is the chance of at least ``N`` favorable
scores when a share ``b`` of the invalid releases scores favorably on the target at hand.
That share is random with mean at most ``kappa``; the worst law puts it on two points, and
the chance under it is the least concave majorant of ``g`` at ``kappa``.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache
from math import ceil, isfinite, log

import numpy as np
from numpy.typing import ArrayLike

from proxyguard.exact import checks
from proxyguard.exact.binomial import clopper_pearson_lower, upper_tail
from proxyguard.exact.rounding import GUARD, Array, Integers, weaken_lower, weaken_pvalue
from proxyguard.exact.special import special

# Most steps towards the chord's touching point; about seven are taken, fewer only weaken.
CHORD_STEPS = 60


def score_tail(
    favorable: ArrayLike, n_releases: ArrayLike, *, target: ArrayLike, b: ArrayLike
) -> Array:
    """Return ``g(b)`` for ``N`` favorable scores out of ``R`` at reliability ``target``."""
    k, n = np.asarray(favorable, dtype=np.float64), np.asarray(n_releases, dtype=np.float64)
    # (1 - eta_0)(1 - b) is the failure rate; the complement form keeps its digits.
    fail = (1.0 - np.asarray(target)) * (1.0 - np.asarray(b))
    with np.errstate(under="ignore"):
        return np.where(k > 0, special.betaincc(n - k + 1.0, np.maximum(k, 1.0), fail), 1.0)


def sharp_pvalue(
    favorable: ArrayLike, n_releases: ArrayLike, *, target: ArrayLike, kappa: ArrayLike
) -> Array:
    """Return ``p_sharp(N; eta_0)``, the p-value of "reliability is at most ``target``".

    Guarantee
    ---------
    Theory section 2: super-uniform whenever ``eta <= target``, at every number of
    releases and records, whatever dependence the shared target creates; and no smaller
    p-value that is nonincreasing in ``N`` follows from ``E B <= kappa`` alone.

    >>> float(sharp_pvalue(999, 1000, target=0.29, kappa=0.024).round(4))
    0.024
    """
    k, n, eta, kap = np.broadcast_arrays(
        *checks.counts(favorable, n_releases),
        np.asarray(target, dtype=np.float64),
        np.asarray(kappa, dtype=np.float64),
    )
    if not np.all((eta >= 0.0) & (eta <= 1.0) & (kap >= 0.0) & (kap <= 1.0)):
        raise ValueError(f"target and kappa must lie in [0, 1], got {eta} and {kap}")
    base = score_tail(k, n, target=eta, b=0.0)
    trivial = (k == 0) | (kap >= 1.0) | (eta >= 1.0)
    if not np.any(kap > 0.0):
        return np.where(trivial, 1.0, weaken_pvalue(base))
    chord = base + kap * _chord_slope(k, n, eta, kap, base)
    envelope = np.maximum(score_tail(k, n, target=eta, b=kap), chord)
    return np.where(trivial, 1.0, weaken_pvalue(np.where(kap > 0.0, envelope, base)))


def _chord_slope(k: Array, n: Array, eta: Array, kappa: Array, base: Array) -> Array:
    """Return an upper bound of ``sup_{b >= kappa} (g(b) - g(0))/b``, tight to about 1e-10.

    ``g`` is convex, then concave, along ``b``; the supremum lies in the concave part at
    the root of ``b g'(b) = g(b) - g(0)``: Newton's method, held inside a bracket.
    """
    inner = np.clip(k, 1.0, np.maximum(n - 1.0, 1.0))
    wins, fails, miss = inner - 1.0, n - inner, np.maximum(1.0 - eta, 1e-300)
    log_scale = np.log(miss) - special.betaln(inner, fails + 1.0)

    # Start beyond the inflection, never at kappa alone: g and g' may both underflow there.
    inflection = (wins / np.maximum(n - 1.0, 1.0) - eta) / miss
    low = np.clip(np.maximum(kappa, inflection), 1e-12, 1.0 - 1e-15)
    high = np.ones_like(low)
    point = 0.5 * (low + high)
    with np.errstate(all="ignore"):
        for _ in range(CHORD_STEPS):
            fail = np.maximum(miss * (1.0 - point), 1e-300)
            tail = special.betaincc(fails + 1.0, inner, fail)
            slope = np.exp(log_scale + wins * np.log1p(-fail) + fails * np.log(fail))  # g'
            bend = miss * (wins / (1.0 - fail) - fails / fail)  # g''/g'
            excess = point * slope - (tail - base)
            low = np.where(excess > 0.0, point, low)
            high = np.where(excess > 0.0, high, point)
            newton = point - excess / (point * slope * bend)
            inside = (newton > low) & (newton < high)
            following = np.where(inside, newton, 0.5 * (low + high))
            if np.all(np.abs(following - point) < 1e-12):
                break
            point = following
    # g lies below its tangent at the point throughout its concave part, so there
    # (g(b) - g(0))/b is at most g' + (g - g(0) - point g')/b: take the larger end. This
    # holds at any point; a better one makes it tighter.
    offset = tail * (1.0 + GUARD) - base - point * slope
    bound = slope * (1.0 + GUARD) + np.maximum(offset / low, offset / high)
    # At N = R the tail is convex throughout: the chord ends at b = 1, where g = 1.
    return np.where(k >= n, 1.0 - base, np.maximum(bound, 0.0))


def smooth_pvalue(
    favorable: int,
    n_releases: int,
    *,
    target: float,
    kappa: float,
    sensitivity: float,
    n_records: int,
    atoms: int = 1000,
) -> float:
    """Return the sharp p-value of ramp scores rounded to 0/1 (theory section 2, "Ramp scores").

    ``integral of g(min(1, kappa_h + rho_h sqrt(n x/2))) e^{-x} dx``, bounded from above.

    Guarantee
    ---------
    Super-uniform whenever ``eta <= target`` for iid targets: by McDiarmid the share of
    invalid releases that score is stochastically at most the law integrated here.
    """
    checks.counts(favorable, n_releases)
    # Each slice of x takes the value at its right end, the tail beyond takes 1.
    edges = np.linspace(0.0, 25.0, atoms + 1)
    mass = -np.diff(np.exp(-edges))
    share = np.minimum(1.0, kappa + sensitivity * np.sqrt(0.5 * n_records * edges[1:]))
    inside = float(mass @ score_tail(favorable, n_releases, target=target, b=share))
    return float(weaken_pvalue(inside + np.exp(-edges[-1])))


def sharp_lower(favorable: int, n_releases: int, *, kappa: float, alpha: float) -> float:
    """Return ``L_sharp = sup{eta_0 : p_sharp(N; eta_0) <= alpha}``, rounded down.

    Guarantee
    ---------
    Theory section 2: exceeds the reliability with probability at most ``alpha``, with no
    split between draws and target. Never below the rescaled or the paper's bound.

    >>> round(sharp_lower(30, 30, kappa=0.005, alpha=0.05), 3)
    0.902
    """
    checks.level(alpha)
    checks.counts(favorable, n_releases)
    if favorable == n_releases and 0.0 <= kappa < alpha:
        # p_sharp = g(0) + kappa (1 - g(0)) with g(0) = eta^R.
        return float(weaken_lower(((alpha - kappa) / (1.0 - kappa)) ** (1.0 / n_releases)))
    return largest_rejected(
        lambda eta: float(sharp_pvalue(favorable, n_releases, target=eta, kappa=kappa)),
        alpha=alpha,
        guess=_oracle_lower(favorable, n_releases, alpha),
    )


def _oracle_lower(favorable: int, n_releases: int, alpha: float) -> float:
    """Return where the bound would lie without contamination: never below the sharp one."""
    return float(clopper_pearson_lower(favorable, n_releases, alpha=alpha))


def smooth_lower(
    favorable: int,
    n_releases: int,
    *,
    kappa: float,
    sensitivity: float,
    n_records: int,
    alpha: float,
) -> float:
    """Return the largest reliability that `smooth_pvalue` rejects, rounded down."""
    return largest_rejected(
        lambda eta: smooth_pvalue(
            favorable,
            n_releases,
            target=eta,
            kappa=kappa,
            sensitivity=sensitivity,
            n_records=n_records,
        ),
        alpha=alpha,
        guess=_oracle_lower(favorable, n_releases, alpha),
    )


def largest_rejected(
    pvalue: Callable[[float], float], *, alpha: float, guess: float = 1.0
) -> float:
    """Return ``sup{eta in [0, 1] : pvalue(eta) <= alpha}``, rounded down; 0 if there is none.

    ``pvalue`` is positive, nondecreasing and reaches 1 at ``eta = 1``; ``guess`` is a reliability
    that is probably a little too large. The logarithm of the p-value is nearly straight
    around the root, so false position with halved ends (Illinois) takes few evaluations;
    the bracket's lower end is returned.
    """
    checks.level(alpha)

    def excess(eta: float) -> float:
        return log(pvalue(eta) / alpha)

    low, high = 0.0, 1.0
    below, above = excess(low), -log(alpha)
    if below > 0.0:
        return 0.0
    step = 0.1 * (1.0 - guess) + 1e-9
    for trial in (guess, guess - step, guess - 8.0 * step):
        if low < trial < high:
            value = excess(trial)
            if value <= 0.0:
                low, below = trial, value
                break
            high, above = trial, value
    side = 0
    while high - low > 1e-10:
        # Keep off the ends, so that both of them move.
        share = min(max(below / (below - above), 1e-3), 1.0 - 1e-3)
        middle = low + (high - low) * share
        value = excess(middle)
        if value <= 0.0:
            low, below, above = middle, value, above / (2.0 if side < 0 else 1.0)
            side = -1
        else:
            high, above, below = middle, value, below / (2.0 if side > 0 else 1.0)
            side = 1
    return float(weaken_lower(low))


def critical_count(n_releases: ArrayLike, *, target: float, kappa: float, alpha: float) -> Integers:
    """Return the least count of favorable scores that validates, ``R + 1`` if none does.

    ``kappa = 0`` gives the oracle count, for releases whose validity is known.

    >>> int(critical_count(1000, target=0.8, kappa=0.01, alpha=0.05))
    830
    """
    n = np.asarray(n_releases, dtype=np.int64)
    zero, none, apart = np.zeros_like(n), n + 1, np.full_like(n, np.iinfo(np.int64).max // 2)
    # The p-value is never below g(kappa), which costs a tenth of it: most counts fail by that.
    least = _least_passing(
        lambda k: weaken_pvalue(score_tail(k, n, target=target, b=kappa)), zero, none, apart, alpha
    )
    return _least_passing(
        lambda k: sharp_pvalue(k, n, target=target, kappa=kappa),
        least - 1, none, np.ones_like(n), alpha,
    )  # fmt: skip


def _least_passing(
    pvalue: Callable[[Integers], Array], low: Integers, high: Integers, step: Integers, alpha: float
) -> Integers:
    """Return the least counts above ``low`` with a p-value of at most ``alpha``, else ``high``.

    The p-value falls as the count grows. Steps begin with ``step`` and double, never beyond half
    of what is open: a small one finds soon what is near.
    """
    while np.any(high - low > 1):
        middle = np.minimum(low + step, (low + high) // 2)
        passes = pvalue(middle) <= alpha
        high = np.where(passes, middle, high)
        low = np.where(passes, low, middle)
        step = 2 * np.minimum(step, high)
    return high


@lru_cache(maxsize=4096)
def default_threshold(n_releases: int, *, target: float, alpha: float) -> float | None:
    """Return the default score threshold ``t`` (theory section 2, "Choosing t").

    With ``k_0`` the oracle count, aim at ``k = k_0 + m`` favorable scores, ``m`` the
    largest whole number strictly below ``R (1 - eta_0)/10`` (0 if there is none), and
    take the largest threshold at which ``k`` scores validate. ``None`` when not even
    ``R`` favorable scores can validate.

    >>> [round(default_threshold(r, target=0.8, alpha=0.05), 4) for r in (30, 100, 250, 1000)]
    [0.0055, 0.0157, 0.0194, 0.0151]
    """
    # In decimals: 100 (1 - .8)/10 is 2, not 1.9999999999999996.
    room = 1 - Fraction(str(target))
    return _threshold_above_oracle(n_releases, room, target=target, alpha=alpha)


@lru_cache(maxsize=4096)
def default_violation_threshold(n_releases: int, *, target: float, beta: float) -> float | None:
    """Return the default ``t`` of the violation score against ``eta >= target`` (theory section 4).

    The rule of `default_threshold` with the roles swapped, but with ``m`` below
    ``R min(eta_0, 1 - eta_0)/10``: ``R eta_0/10`` more scores than the oracle needs is more
    than a mechanism slightly below the target has invalid releases. Any ``t`` is valid.

    >>> round(default_violation_threshold(1000, target=0.8, beta=0.05), 4)
    0.004
    """
    share = Fraction(str(target))
    return _threshold_above_oracle(
        n_releases, min(share, 1 - share), target=float(1 - share), alpha=beta
    )


def _threshold_above_oracle(
    n_releases: int, room: Fraction, *, target: float, alpha: float
) -> float | None:
    """Return the largest threshold at which a tenth of the room above the oracle validates."""
    oracle = _oracle_count(n_releases, target, alpha)
    if oracle is None:
        return None
    extra = max(0, ceil(n_releases * room / 10) - 1)
    for count in range(min(n_releases, oracle + extra), n_releases + 1):
        threshold = largest_threshold(count, n_releases, target=target, alpha=alpha)
        if threshold > 0.0:  # the oracle's own count may leave no room at all
            return threshold
    return None


def _oracle_count(n_releases: int, target: float, alpha: float) -> int | None:
    """Return the least count of valid releases that rejects ``eta <= target``, if any does."""

    def rejects(count: int) -> bool:
        return bool(upper_tail(count, n_releases, target) <= alpha)

    # The quantile is real-valued and rounded either way, and none beside a target that vanishes
    # next to 1; it is only where the search begins, and the exact tails decide.
    start = float(special.bdtrik(1.0 - alpha, n_releases, target))
    count = min(n_releases, (int(start) if isfinite(start) else 0) + 1)
    while count <= n_releases and not rejects(count):
        count += 1
    while 1 < count <= n_releases and rejects(count - 1):
        count -= 1
    return count if count <= n_releases else None


def largest_threshold(favorable: int, n_releases: int, *, target: float, alpha: float) -> float:
    """Return ``sup{t : p_sharp(k; R, eta_0, t) <= alpha}``, rounded down; 0 if none.

    In ``kappa`` the envelope is a chord from ``g(0)`` up to its touching point and ``g``
    itself after it, so both inverses have closed forms. Rounded down by 1e-5 of ``alpha``:
    the bound that is compared with ``eta_0`` is rounded down as well, by its search's last
    step, and the count that the threshold is made for must clear it.
    """
    alpha = alpha * (1.0 - 1e-5)
    k, n, eta = (np.asarray(float(x)) for x in (favorable, n_releases, target))
    base = score_tail(k, n, target=eta, b=0.0)
    if favorable < 1 or base >= alpha:
        return 0.0
    threshold = float((alpha - base) / _chord_slope(k, n, eta, np.asarray(0.0), base))
    if favorable < n_releases:
        # The envelope is the larger of chord and curve, so its inverse is the smaller.
        rate = float(special.betaincinv(k, n - k + 1.0, alpha))
        threshold = min(threshold, (rate - target) / (1.0 - target))
    threshold = float(weaken_lower(threshold))
    while sharp_pvalue(k, n, target=eta, kappa=threshold) > alpha:
        threshold *= 1.0 - 1e-10
    return threshold
