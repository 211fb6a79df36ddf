"""A bound on reliability, and the two steps that several modes build one with."""

from __future__ import annotations

from dataclasses import dataclass

from proxyguard.exact.binomial import clopper_pearson_lower, upper_tail
from proxyguard.exact.rounding import weaken_lower
from proxyguard.registry.budget import Budget


@dataclass(frozen=True, slots=True, kw_only=True)
class ReliabilityBound:
    """A one-sided confidence bound on the chance that a fresh release is valid.

    ``steps`` are the numbers it was built from, in order, for a reader to follow.
    ``pvalue`` tests the registered target; ``outer`` names the part of the budget at
    which Holm compares it across a family of mechanisms.
    """

    value: float
    budget: Budget  # this mechanism's own
    rests_on: str
    steps: tuple[tuple[str, float], ...]
    pvalue: float | None = None
    outer: str | None = None


def from_count(
    count: int,
    n_releases: int,
    budget: Budget,
    *,
    reliability_target: float,
    outer: str,
    label: str,
    rests_on: str,
) -> ReliabilityBound:
    """Turn a lower count of valid releases into a bound: the outer binomial step, Eq. (9)."""
    return ReliabilityBound(
        value=float(clopper_pearson_lower(count, n_releases, alpha=float(budget[outer]))),
        budget=budget,
        rests_on=rests_on,
        steps=((label, count), ("releases", n_releases)),
        pvalue=float(upper_tail(count, n_releases, reliability_target)),
        outer=outer,
    )


def rescale(score_rate: float, allowance: float) -> float:
    """Return ``[(pi - c)/(1 - c)]_+``, 0 when the allowance ``c`` reaches 1."""
    if allowance >= 1.0:
        return 0.0
    return float(weaken_lower(max(0.0, score_rate - allowance) / (1.0 - allowance)))
