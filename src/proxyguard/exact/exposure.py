"""What a release gives away about its members, from counts (theory section 6).

Members are a census: the share ``T(c)`` of them that an attack flags at the threshold ``c`` is a
number. Nonmembers are ``n`` fresh records, of which ``K(c)`` are flagged, each with the unknown
chance ``phi(c)``; the advantage of the attack is ``T(c) - phi(c)``. Many flagged nonmembers speak
for the release, few speak against it.
"""

from __future__ import annotations

from functools import lru_cache
from math import exp, log, log1p

import numpy as np
from numpy.typing import ArrayLike

from proxyguard.exact import checks
from proxyguard.exact.binomial import clopper_pearson_lower, upper_tail
from proxyguard.exact.mean import share_pvalue
from proxyguard.exact.rounding import GUARD, MEAN_GUARD, TINY, Array, bracket_switch, weaken_pvalue

# Members of a sample whose law is summed term by term.
LARGEST_SAMPLE = 5_000_000


def advantage_pvalues(
    flagged: ArrayLike,
    n: ArrayLike,
    share: ArrayLike,
    limit: ArrayLike,
    *,
    identical: bool = True,
) -> tuple[Array, Array]:
    """Return the p-values of ``adv(c) >= limit`` and of ``adv(c) <= limit`` at one threshold (E1).

    ``P(Bin(n, T - limit) >= K)`` for validation and ``P(Bin(n, T - limit) <= K)`` for violation:
    the test of a share whose cell is "not flagged" and whose answer is ``1 - T``.

    Parameters
    ----------
    flagged
        Nonmembers that the attack flags, ``K(c)``.
    n
        Nonmembers.
    share
        Share of all members that the attack flags, ``T(c)``.
    limit
        The ceiling of the advantage.
    identical
        Whether nonmembers are iid, as in `exact.mean.binomial_pvalue`.

    Returns
    -------
    tuple of arrays
        For validation and for violation.

    Guarantee
    ---------
    Each is super-uniform under its null when the threshold, the share and the scores do not
    depend on the nonmembers (theory section 6, E1).

    Examples
    --------
    Of 1,000 records 5 % are flagged, as of the members; a ceiling of .03 is far away.

    >>> validation, violation = advantage_pvalues(50, 1000, 0.05, 0.03)
    >>> float(validation.round(9)), float(violation.round(3))
    (8e-09, 1.0)
    """
    flagged, n, share, limit = (np.asarray(x, dtype=np.float64) for x in (flagged, n, share, limit))
    if not np.all((share >= 0.0) & (share <= 1.0)):
        raise ValueError(f"shares of members lie in [0, 1], got {share}")
    # Written as `evidence.component` adds answer and limit, so that both have the same bits.
    unflagged = (1.0 - share) + limit
    return (
        share_pvalue(n - flagged, n, unflagged, identical=identical),
        share_pvalue(flagged, n, 1.0 - unflagged, identical=identical),
    )


def everywhere_pvalue(flagged: ArrayLike, n: ArrayLike, share: ArrayLike, limit: float) -> Array:
    """Return the p-value that some threshold has an advantage of ``limit`` or more (E2).

    The largest p-value of `advantage_pvalues` over the last axis, which has all distinct scores of
    members. No correction is due: the threshold that breaks the claim is among them.

    Guarantee
    ---------
    Super-uniform when some threshold, a member's score or not, has ``adv >= limit``; the scores
    do not depend on the nonmembers (theory section 6, E2).
    """
    validation, _ = advantage_pvalues(flagged, n, share, limit)
    return np.asarray(validation.max(axis=-1))


def everywhere_violation_pvalue(
    flagged: ArrayLike, n: ArrayLike, share: ArrayLike, limit: float
) -> Array:
    """Return the p-value that no threshold has an advantage above ``limit`` (E2).

    ``min(1, m min q)`` over the last axis, which has the ``m`` registered thresholds: they are
    chosen by members alone, and each of them is paid for.

    Guarantee
    ---------
    Super-uniform when every threshold has ``adv <= limit`` (theory section 6, E2).
    """
    _, violation = advantage_pvalues(flagged, n, share, limit)
    return weaken_pvalue(violation.shape[-1] * violation.min(axis=-1))


def tpr_pvalues(flagged: ArrayLike, n: ArrayLike, fpr: float) -> tuple[Array, Array]:
    """Return the p-values that ``t`` of the members are found at ``fpr``, and that fewer are (E3).

    ``P(Bin(n, fpr) >= K)`` and ``P(Bin(n, fpr) <= K)``, with ``K`` the nonmembers that score at
    least ``c_t``, the largest threshold that flags a share ``t`` of the members.

    Guarantee
    ---------
    Each is super-uniform under its null; ``c_t`` depends on members alone (theory section 6, E3).
    """
    flagged, n = np.asarray(flagged, dtype=np.float64), np.asarray(n, dtype=np.float64)
    checks.level(fpr, "fpr")
    return share_pvalue(n - flagged, n, 1.0 - fpr), share_pvalue(flagged, n, fpr)


def hypergeometric_upper(count: int, sample: int, members: int, *, alpha: float) -> int:
    """Return an upper limit of how many of all members are flagged, from a sample of them (E7).

    The largest number ``M`` with ``P(H <= count) > alpha``, ``H`` the flagged members in a simple
    random sample when ``M`` of all of them are.

    Parameters
    ----------
    count, sample
        Flagged members of the sample, and its size.
    members
        All members, of which the sample was drawn without replacement.
    alpha
        The error level.

    Guarantee
    ---------
    Falls below the true number with probability at most ``alpha`` over the sample.

    Examples
    --------
    >>> hypergeometric_upper(5, 100, 1000, alpha=0.05)
    99
    """
    checks.level(alpha)
    if not 0 <= count <= sample <= members or not 1 <= sample <= LARGEST_SAMPLE:
        raise ValueError(
            f"need 0 <= count <= sample <= members and a sample of 1 to {LARGEST_SAMPLE:,}, got "
            f"{count} of {sample} of {members}"
        )
    # At `count` the tail is 1; beyond `members - sample + count` the sample is impossible.
    low, high = count, members - (sample - count)
    while low < high:
        middle = (low + high + 1) // 2
        # Stated with its error on top, a tail that might be above the level counts as above it.
        if _sampled_tail(count, sample, members, middle) > alpha:
            low = middle
        else:
            high = middle - 1
    return low


def hypergeometric_lower(count: int, sample: int, members: int, *, alpha: float) -> int:
    """Return a lower limit of how many of all members are flagged (E7).

    Guarantee
    ---------
    Exceeds the true number with probability at most ``alpha`` over the sample.
    """
    return members - hypergeometric_upper(sample - count, sample, members, alpha=alpha)


@lru_cache(maxsize=4096)
def _sampled_tail(count: int, sample: int, members: int, flagged: int) -> float:
    """Return ``P(H <= count)`` for ``flagged`` of the members, never understated.

    Built from the ratios of neighbouring probabilities and the fact that they sum to one.
    """
    least, most = max(0, sample - (members - flagged)), min(sample, flagged)
    if count >= most:
        return 1.0
    wide = np.longdouble  # 64-bit mantissa where the machine has one; the error follows it
    h = np.arange(least, most, dtype=wide)
    ratio = (flagged - h) * (sample - h) / ((h + 1) * (members - flagged - sample + h + 1))
    log_mass = np.concatenate([np.zeros(1, dtype=wide), np.cumsum(np.log(ratio))])
    size = float(np.abs(log_mass).max()) + 1.0
    mass = np.exp(log_mass - log_mass.max())
    tail = float(mass[: count - least + 1].sum() / mass.sum()) if count >= least else 0.0
    # Each of the steps of the running sum may err by a last place of its largest size.
    error = 8.0 * (h.size + 16) * size * float(np.finfo(wide).eps)
    return min(1.0, tail * (1.0 + error + GUARD) + TINY)


def epsilon_pvalue(
    right: int, guesses: int, epsilon: float, *, delta: float = 0.0, coins: int = 0
) -> float:
    """Return the p-value that the mechanism is ``(epsilon, delta)``-private (E8).

    Each of ``coins`` registered rows entered training by a fair coin of its own. An attack guesses
    ``guesses`` of them and abstains from the others; ``right`` guesses are right. With
    ``B ~ Bin(guesses, e^epsilon/(1 + e^epsilon))`` and ``w = right`` the p-value is
    ``P(B >= w) + 2 delta coins max_i P(w > B >= w - i)/i`` (Steinke, Nasr and Jagielski 2023).

    Parameters
    ----------
    right, guesses
        Right guesses, and all that were made.
    epsilon, delta
        What the mechanism is said to satisfy.
    coins
        Rows that a coin put in or left out; only used with ``delta > 0``.

    Guarantee
    ---------
    Super-uniform for a mechanism that satisfies it, over coins and mechanism, when guesses depend
    on the coins through the release alone. It refutes a claimed epsilon and never proves one.

    Examples
    --------
    >>> round(epsilon_pvalue(80, 100, 1.0), 4)
    0.0716
    """
    if not (0 <= right <= guesses and guesses >= 1):
        raise ValueError(f"need 0 <= right <= guesses, at least one, got {right} of {guesses}")
    if not (0.0 <= epsilon < np.inf and 0.0 <= delta < 1.0):
        raise ValueError(f"need epsilon >= 0 and 0 <= delta < 1, got {epsilon} and {delta}")
    if delta > 0.0 and coins < guesses:
        raise ValueError(f"with delta > 0, say how many coins there were; got {coins}")
    # Of the two forms, the one that never forms 1 - q for a large epsilon by subtraction.
    rate = min(1.0, 1.0 / (1.0 + exp(-epsilon)) + MEAN_GUARD)
    return _guessing_pvalue(right, guesses, rate, 2.0 * delta * coins)


def _guessing_pvalue(right: int, guesses: int, rate: float, weight: float) -> float:
    tail = float(upper_tail(right, guesses, rate))
    if weight == 0.0 or right == 0:
        return tail
    # P(w > B >= w - i) as a difference of tails, i = 1..w; both are stated a guard too high, so
    # that the difference is raised by the guard of the one that is taken off.
    lower = upper_tail(np.arange(right - 1, -1, -1), guesses, rate)
    slack = 2.0 * (GUARD + 4.0 * guesses * np.finfo(np.float64).eps)
    between = lower - tail * (1.0 - slack)
    largest = float((between / np.arange(1.0, right + 1.0)).max())
    return float(weaken_pvalue(min(1.0, tail + weight * largest)))


def epsilon_lower(
    right: int, guesses: int, *, alpha: float, delta: float = 0.0, coins: int = 0
) -> float:
    """Return the lower limit of epsilon that right guesses prove, 0 where they prove none (E8).

    Without ``delta`` it is ``logit(CP_L(right, guesses, alpha))``.

    Guarantee
    ---------
    Exceeds every ``epsilon`` for which the mechanism is ``(epsilon, delta)``-private with
    probability at most ``alpha``; the assumptions are those of `epsilon_pvalue`.

    Notes
    -----
    `epsilon_pvalue` rises with ``epsilon`` when ``2 delta coins <= 1``: it is then the largest of
    ``(1 - c) P(B >= w) + c P(B >= w - i)``, ``c = 2 delta coins/i``, each of which rises. Beyond
    that, where ``delta`` alone allows one row in two to be published, the limit is 0.

    Examples
    --------
    >>> round(epsilon_lower(90, 100, alpha=0.05), 3)
    1.631
    """
    checks.level(alpha)
    epsilon_pvalue(right, guesses, 0.0, delta=delta, coins=coins)  # says what is no such count
    weight = 2.0 * delta * coins
    if weight == 0.0:
        rate = float(clopper_pearson_lower(right, guesses, alpha=alpha))
    elif weight > 1.0 or _guessing_pvalue(right, guesses, 0.5, weight) > alpha:
        return 0.0
    else:
        # `last` is the largest rate that was seen to be refuted.
        last, _ = bracket_switch(
            lambda q: np.asarray(_guessing_pvalue(right, guesses, float(q), weight) > alpha),
            np.asarray(0.5),
            np.asarray(1.0),
        )
        rate = float(last)
    rate -= MEAN_GUARD
    return max(0.0, (log(rate) - log1p(-rate)) * (1.0 - GUARD)) if rate > 0.5 else 0.0
