"""Evidence of unreliability: direct against Holm and the e-value count (theory section 4).

One Bernoulli requirement on one shared target: release ``r`` errs on record ``i`` when
``U_i < risk_r``. It errs on ``m`` records or more exactly when its risk lies above the ``m``-th
smallest uniform, so every decision compares risks with order statistics.
"""

from __future__ import annotations

from bisect import bisect_left
from fractions import Fraction
from functools import cache

import numpy as np
from numpy.typing import NDArray

from proxyguard.exact.binomial import clopper_pearson_upper, lower_tail, upper_tail
from proxyguard.exact.evalues import mixture_evalues
from proxyguard.exact.sharp import critical_count, default_violation_threshold
from proxyguard.modes.count import certify_count_violation
from proxyguard.modes.violation import certify_violation
from proxyguard.registry.budget import count_violation_budget, violation_budget
from reproduction.studies.counts import Array
from reproduction.studies.labels_needed import over_order_statistic, uniform_cdf
from reproduction.studies.study import (
    Cell,
    Methods,
    Metrics,
    Outcome,
    Status,
    Study,
    Wanted,
    grid,
    tally,
)

TARGET, UNRELIABLE, BETA, TOLERANCE = 0.8, 0.2, 0.05, 0.2
VALID_RISKS, INVALID_RISKS = (0.135, 0.145), (0.24, 0.28)
HOLM, COUNT = violation_budget("0.05"), count_violation_budget("0.05", target_share="0.9")
COUNT_THRESHOLD = Fraction(1, 100)


@cache
def violation_pvalues(n: int, limit: float) -> Array:
    """Return ``P(Bin(n, limit) >= k)`` for every number ``k`` of errors."""
    return upper_tail(np.arange(n + 1), n, limit)


def least_errors(n: int, limit: float, level: float) -> int:
    """Return the least number of errors whose violation p-value is at most the level."""
    return int(np.count_nonzero(violation_pvalues(n, limit) > level))


@cache
def direct_rule(releases: int, threshold: float | None = None) -> tuple[float, int]:
    """Return the threshold of the violation score, by default, and the scores that suffice."""
    if threshold is None:
        threshold = default_violation_threshold(releases, target=TARGET, beta=BETA)
    if threshold is None:
        raise ValueError(f"{releases} releases cannot show a reliability below {TARGET:g}")
    needed = critical_count(releases, target=UNRELIABLE, kappa=threshold, alpha=BETA)
    return threshold, int(needed)


@cache
def count_needed(releases: int) -> int:
    """Return how many violating scores suffice by the e-value count."""

    def shown(scores: int) -> bool:
        evalues = mixture_evalues(np.arange(releases) >= scores, thresholds=[COUNT_THRESHOLD])
        return certify_count_violation(evalues, COUNT, reliability_target=TARGET).value < TARGET

    return bisect_left(range(releases + 1), True, key=shown)


@cache
def holm_needed(releases: int) -> int:
    """Return how many detected releases suffice in the paper's Theorem 8."""

    def shown(detected: int) -> bool:
        violated = (np.arange(releases) < detected)[:, None]
        return certify_violation(violated, HOLM, reliability_target=TARGET).value < TARGET

    return bisect_left(range(releases + 1), True, key=shown)


def draw_risks(
    rng: np.random.Generator, reliability: float, shape: tuple[int, int]
) -> tuple[NDArray[np.bool_], Array]:
    """Return which releases are valid, and their true risks."""
    valid = rng.random(shape) < reliability
    low = np.where(valid, VALID_RISKS[0], INVALID_RISKS[0])
    width = np.where(valid, np.ptp(VALID_RISKS), np.ptp(INVALID_RISKS))
    return valid, low + width * rng.random(shape)


def violations(cell: Cell, rng: np.random.Generator, repetitions: int, wanted: Wanted) -> Outcome:
    """Return how often a mechanism is called unreliable."""
    valid, risks = draw_risks(rng, cell["reliability"], (repetitions, cell["R"]))
    return tally(shown(valid, risks, rng.random((repetitions, cell["n"]))), wanted)


def shown(valid: NDArray[np.bool_], risks: Array, uniforms: Array) -> Methods:
    """Return which repetitions each method calls unreliable, from risks beside the uniforms."""
    (repetitions, releases), n = risks.shape, uniforms.shape[1]
    places = np.sort(uniforms, axis=1)  # U_(1), U_(2), ...

    def scores(level: float) -> NDArray[np.int64]:
        errors = least_errors(n, TOLERANCE, level)
        if errors > n:
            return np.zeros(repetitions, dtype=np.int64)
        return np.asarray(np.count_nonzero(risks > places[:, errors - 1 : errors], axis=1))

    def by_holm() -> Metrics:
        levels = float(HOLM["beta_R"]) / np.arange(releases, 0, -1)
        errors = np.array([least_errors(n, TOLERANCE, level) for level in levels])
        # The largest risk has the smallest p-value; no risk reaches a place beyond the last.
        bars = np.append(places, np.ones((repetitions, 1)), axis=1)[:, errors - 1]
        passes = np.sort(risks, axis=1)[:, ::-1] > bars
        detected = np.logical_and.accumulate(passes, axis=1).sum(axis=1)
        return {"violation": detected >= holm_needed(releases)}

    def by_direct(rule: tuple[float, int]) -> Metrics:
        threshold, needed = rule
        return {"violation": scores(threshold) >= needed}

    def by_oracle() -> Metrics:
        upper = clopper_pearson_upper(np.arange(releases + 1), releases, alpha=BETA)
        return {"violation": upper[valid.sum(axis=1)] < TARGET}

    return {
        "Holm, binomial": by_holm,
        "oracle": by_oracle,
        "direct sharp, binomial": lambda: by_direct(direct_rule(releases)),
        "direct sharp, t = .01": lambda: by_direct(direct_rule(releases, 0.01)),
        "count, binomial": lambda: {
            "violation": scores(float(COUNT_THRESHOLD)) >= count_needed(releases)
        },
    }


def exact_rates(cell: Cell) -> dict[tuple[str, str], float]:
    """Return the exact rates of the methods that count scores at one level."""
    releases, n, reliability = cell["R"], cell["n"], cell["reliability"]

    def rate(level: float, needed: int) -> float:
        def reached(place: Array) -> Array:
            above = [1 - uniform_cdf(place, ends) for ends in (VALID_RISKS, INVALID_RISKS)]
            score = reliability * above[0] + (1 - reliability) * above[1]
            return upper_tail(needed, releases, np.clip(score, 0.0, 1.0))

        errors = least_errors(n, TOLERANCE, level)
        return over_order_statistic(reached, n, errors) if errors <= n else 0.0

    upper = clopper_pearson_upper(np.arange(releases + 1), releases, alpha=BETA)
    most_valid = int(np.count_nonzero(upper < TARGET)) - 1
    return {
        ("direct sharp, binomial", "violation"): rate(*direct_rule(releases)),
        ("direct sharp, t = .01", "violation"): rate(*direct_rule(releases, 0.01)),
        ("count, binomial", "violation"): rate(float(COUNT_THRESHOLD), count_needed(releases)),
        ("oracle", "violation"): (
            float(lower_tail(most_valid, releases, reliability)) if most_valid >= 0 else 0.0
        ),
    }


VIOLATION_DIRECT_HOLM = Study(
    name="violation-direct-holm",
    own=True,
    paper="theory section 4",
    seed=8203,
    repetitions=2000,
    cells=grid(reliability=(0.2, 0.4, 0.6, 0.7, 0.8), R=(30, 100, 1000), n=(500, 1000)),
    simulate=violations,
    exact=exact_rates,
    block=250,
    methods={
        "Holm, binomial": Status.REGISTERED,
        "oracle": Status.ORACLE,
        "direct sharp, binomial": Status.OURS,  # at the default threshold
        "direct sharp, t = .01": Status.OURS,
        "count, binomial": Status.OURS,
    },
    differs="Ours; below .8 the rate is power, at .8 it is the error.",
)
