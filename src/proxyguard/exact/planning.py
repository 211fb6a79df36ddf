"""What an audit needs at the least, and what suffices, before anything is drawn.

Necessary limits: Propositions 14 and 18. Sufficient sizes: Proposition 17 and Theorem 15.
Necessary limits are rounded towards "impossible" only when the inequality truly fails. Last, what a
rare group costs before a label is read (the paper's App. K).
"""

from __future__ import annotations

from math import ceil, exp, floor, log, sqrt

from proxyguard.exact.binomial import lower_tail
from proxyguard.exact.rounding import GUARD


def least_records(divergence: float, *, target: float, alpha_target: float) -> int:
    """Return the least ``n`` at which direct validation is possible (Proposition 14).

    ``divergence`` is ``min_j d_B(cutoff_j, limit_j)``; fewer records leave a false-pass
    allowance of ``1 - eta_0`` or more even if every release scores.
    """
    if divergence <= 0.0:
        raise ValueError(f"the divergence must be positive, got {divergence}")
    return _above(-log(alpha_target * (1.0 - target)) / divergence)


def least_releases_direct(
    kappa: float, *, target: float, budget: tuple[float, float]
) -> int | None:
    """Return the least ``R`` at which direct validation is possible (Proposition 14).

    ``budget`` is ``(alpha_Q, alpha_Z)``; ``None`` when contamination leaves no room.
    """
    alpha_draws, alpha_target = budget
    room = target + kappa / alpha_target
    return None if room >= 1.0 else _above(log(alpha_draws) / log(room))


def least_releases_named(*, target: float, alpha_mechanism: float, n_mechanisms: int = 1) -> int:
    """Return the least ``R`` at which Holm's first threshold can pass (Proposition 18).

    >>> [least_releases_named(target=0.8, alpha_mechanism=0.025, n_mechanisms=h) for h in (1, 5, 9)]
    [17, 24, 27]
    """
    return ceil(log(alpha_mechanism / n_mechanisms) / log(target) * (1.0 - GUARD))


def sufficient_records_named(
    *, margin: float, width: float, alpha: float, beta: float, n_releases: int, n_requirements: int
) -> int:
    """Return an ``n`` at which Holm recognizes every valid release (Proposition 17, Eq. (21)).

    All of them, with probability at least ``1 - beta``, by Hoeffding tests when every
    mean lies at least ``margin`` below its limit and no range exceeds ``width``.
    """
    if margin <= 0.0:
        raise ValueError(f"the margin must be positive, got {margin}")
    need = max(log(n_releases / alpha), log(n_releases * n_requirements / beta))
    return ceil(2.0 * width**2 / margin**2 * need * (1.0 - GUARD))


def direct_shortfall(
    *,
    n_records: int,
    n_releases: int,
    n_requirements: int,
    margin: float,
    slack: float,
    width: float,
    budget: tuple[float, float],
    failure: tuple[float, float],
) -> float:
    """Return how far the direct bound may fall below the reliability (Theorem 15, Eq. (20)).

    ``budget`` is ``(alpha_Q, alpha_Z)`` and ``failure`` ``(delta_Q, delta_Z)``: outside
    probability ``delta_Q + delta_Z`` the shortfall is no larger, when every valid release
    lies ``margin`` below its limits. Only the terms with ``n_releases`` shrink with it.
    """
    if not 0.0 < slack < margin:
        raise ValueError(f"need 0 < slack < margin, got {slack} and {margin}")
    (alpha_draws, alpha_target), (delta_draws, delta_target) = budget, failure
    missed = n_requirements * exp(-2.0 * n_records * (margin - slack) ** 2 / width**2)
    passed = exp(-2.0 * n_records * slack**2 / width**2)
    draws = sqrt(-log(delta_draws) / (2 * n_releases)) + sqrt(-log(alpha_draws) / (2 * n_releases))
    return missed / delta_target + draws + passed / alpha_target


def records_to_screen(eligible: int, prevalence: float, *, certainty: float) -> tuple[int, int]:
    """Return how many records are screened until so many eligible ones are met.

    The first number is the mean, rounded up; with the second the chance to meet them all is at
    least ``certainty``. Audits of a rare group pay for these, and not for their labels alone.

    >>> records_to_screen(500, 0.02, certainty=0.95)
    (25000, 26848)
    """
    if not (eligible >= 1 and 0.0 < prevalence <= 1.0 and 0.0 < certainty < 1.0):
        raise ValueError(
            "need at least one eligible record, a prevalence in (0, 1] and a certainty in (0, 1), "
            f"got {eligible}, {prevalence} and {certainty}"
        )
    mean = ceil(eligible / prevalence * (1.0 - GUARD))

    def suffices(n: int) -> bool:
        # The tail of failing is never understated, so that rounding can only ask for more.
        return float(lower_tail(eligible - 1, n, prevalence)) <= 1.0 - certainty

    high = max(mean, eligible)
    while not suffices(high):
        high *= 2
    low = eligible - 1  # so few cannot do
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if suffices(middle) else (middle, high)
    return mean, high


def _above(bound: float) -> int:
    """Return the least whole number strictly above ``bound``."""
    return floor(bound) + 1
