"""Named, sharp and counting certificates of mechanisms, each with every component test.

Releases have batches of their own. Modes and tests are crossed: every mode reads the same
counts through the same tables, so neither is credited with the other's gain.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fractions import Fraction
from functools import cache, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binom

from proxyguard.exact.binomial import upper_tail
from proxyguard.exact.sharp import default_violation_threshold
from proxyguard.modes.count import least_counted
from proxyguard.registry.budget import direct_budget
from reproduction.studies.count_tests import COUNT_TESTS, OTHER_TESTS, count_pvalues
from reproduction.studies.counts import (
    UNRELIABLE,
    VIOLATION,
    Array,
    Integers,
    bar,
    below,
    largest_count_law,
    sharp_pvalues,
    sharp_threshold,
    validated_mechanisms,
)
from reproduction.studies.study import Cell, Metrics, Status

H, TOLERANCE, TARGET, ALPHA = 5, 0.10, 0.8, 0.05
REQUIREMENTS = 3
COUNT_SHARE = Fraction(9, 10)
"""Share of the e-value count's error that pays for the target; draws have the rest."""
COUNT_THRESHOLD = Fraction(2, 9) * COUNT_SHARE * Fraction(str(ALPHA)) / H
"""The calibrator's threshold: theory section 3 takes .01 of .045, two ninths of ``alpha_Z``."""

Decide = Callable[[NDArray[Any]], Integers]
"""From the releases of mechanisms, (releases, mechanisms, repetitions), to how many validate."""
OURS: Mapping[str, Status] = {
    **{f"named, {test}": Status.OURS for test in OTHER_TESTS},
    **{f"sharp, {test}": Status.OURS for test in COUNT_TESTS},
    **{f"count, {test}": Status.OURS for test in COUNT_TESTS},
    "sharp violation": Status.OURS,
}


def both(blocks: Mapping[str, NDArray[Any]], decide: Decide) -> Metrics:
    """Return false validation of boundary mechanisms and power for valid ones."""
    return {
        "false validation": decide(blocks["boundary"]) > 0,
        "power": decide(blocks["valid"]) / H,
    }


def our_methods(
    blocks: Mapping[str, Integers],
    n: int,
    named: Callable[[Array], Metrics],
    unreliable: Callable[[], Integers],
) -> dict[str, Callable[[], Metrics]]:
    """Return every mode with every test; ``named`` evaluates named mode for a table.

    ``unreliable`` draws the counts of mechanisms that are less reliable than the target.
    """
    tables = {test: count_pvalues(test, n, TOLERANCE) for test in COUNT_TESTS}
    found: dict[str, Callable[[], Metrics]] = {
        f"named, {test}": partial(named, tables[test]) for test in OTHER_TESTS
    }
    for mode, certify in (("sharp", sharp), ("count", counted)):
        for test in tables:
            found[f"{mode}, {test}"] = partial(both, blocks, partial(certify, test=test, n=n))
    found["sharp violation"] = lambda: {
        # At the target a violation is as likely as it ever is where there is none.
        "false violation": violations(blocks["boundary"], n) > 0,
        VIOLATION: violations(unreliable(), n) / H,
    }
    return found


def sharp_rule(test: str, n: int, releases: int) -> tuple[int, Array] | None:
    """Return the bar of a favorable count and the p-value of every score, if any can validate.

    The ceiling of exact binomial p-values is the largest attainable one; of others it is ``t``.
    """
    threshold = sharp_threshold(releases, TARGET, ALPHA / H)
    if threshold == 0.0:
        return None
    table = count_pvalues(test, n, TOLERANCE)
    least = bar(table, threshold)
    attained = float(table[least - 1]) if least > 0 else 0.0
    kappa = attained if test == "binomial" else threshold
    return least, sharp_pvalues(releases, TARGET, kappa)


def sharp(counts: Integers, test: str, n: int) -> Integers:
    """Return how many mechanisms the sharp certificate validates, Holm over the mechanisms."""
    rule = sharp_rule(test, n, len(counts))
    if rule is None:
        return np.zeros(counts.shape[-1], dtype=np.int64)
    least, pvalues = rule
    return validated_mechanisms(below(counts, least), pvalues, ALPHA)


def counted(counts: Integers, test: str, n: int) -> Integers:
    """Return how many mechanisms the e-value count validates, at local levels ``alpha/H``."""
    releases = len(counts)
    scores = below(counts, bar(count_pvalues(test, n, TOLERANCE), float(COUNT_THRESHOLD)))
    return np.asarray(np.count_nonzero(scores >= _least_counted(releases), axis=0))


def _least_counted(releases: int) -> int:
    """Return the least number of scores that the e-value count validates."""
    budget = direct_budget(Fraction(str(ALPHA)) / H, target_share=COUNT_SHARE)
    return least_counted(budget, COUNT_THRESHOLD, releases, target=TARGET)


@cache
def violation_bars(
    n: int, releases: int, tolerance: float, target: float, beta: float
) -> tuple[int, int] | None:
    """Return the least violating count, and how many of them show unreliability, if any can.

    Theory section 4: a release violates when ``J`` times the least violation p-value is at most
    ``t``, and that p-value belongs to the largest count.
    """
    threshold = default_violation_threshold(releases, target=target, beta=beta)
    if threshold is None:
        return None
    violating = upper_tail(np.arange(n + 1), n, tolerance) <= threshold / REQUIREMENTS
    shows = sharp_pvalues(releases, 1.0 - target, threshold) <= beta
    return int(np.argmax(violating)), int(np.argmax(shows))


def violations(counts: Integers, n: int) -> Integers:
    """Return how many mechanisms the sharp violation certificate says are unreliable.

    Each spends ``beta/H``.
    """
    bars = violation_bars(n, len(counts), TOLERANCE, TARGET, ALPHA / H)
    if bars is None:
        return np.zeros(counts.shape[-1], dtype=np.int64)
    least, enough = bars
    violating = len(counts) - below(counts, least).astype(np.int64)
    return np.asarray(np.count_nonzero(violating >= enough, axis=0))


def risks(cell: Cell) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return the risks of a valid release's requirements, and of an invalid one's."""
    safe = cell["safe"]
    return (safe, safe, safe), (cell["bad"], safe, safe)


def pass_rate(cell: Cell, eta: float, least: int) -> float:
    """Return the chance that the largest count of a release lies below a bar."""
    good, bad = (largest_count_law(cell["n"], one) for one in risks(cell))
    return float(eta * good[least - 1] + (1.0 - eta) * bad[least - 1]) if least > 0 else 0.0


def exact_any(releases: int, rate: float, least: int) -> float:
    """Return the chance that one of ``H`` independent mechanisms reaches a count."""
    one = float(binom.sf(least - 1, releases, rate))
    return -float(np.expm1(H * np.log1p(-one))) if one < 1.0 else 1.0


def least_passing(pvalues: Array, level: float) -> int:
    """Return the least count whose p-value is at most a level, one too many if there is none."""
    passes = pvalues <= level
    return int(np.argmax(passes)) if passes.any() else pvalues.size


def exact_ours(cell: Cell) -> dict[tuple[str, str], float]:
    """Return the exact rates of our methods: each is a binomial tail of one score."""
    n, releases = cell["n"], cell["R"]
    found, enough = {}, _least_counted(releases)
    for test in COUNT_TESTS:
        rule = sharp_rule(test, n, releases)
        wrong = 0.0
        if rule is not None:
            rate = pass_rate(cell, TARGET, rule[0])
            wrong = exact_any(releases, rate, least_passing(rule[1], ALPHA / H))
        found[f"sharp, {test}", "false validation"] = wrong
        least = bar(count_pvalues(test, n, TOLERANCE), float(COUNT_THRESHOLD))
        boundary, valid = (pass_rate(cell, eta, least) for eta in (TARGET, cell["eta"]))
        found[f"count, {test}", "false validation"] = exact_any(releases, boundary, enough)
        # The count decides each mechanism by itself, the sharp certificate by Holm.
        found[f"count, {test}", "power"] = float(binom.sf(enough - 1, releases, valid))
    bars = violation_bars(n, releases, TOLERANCE, TARGET, ALPHA / H)
    found["sharp violation", "false violation"] = (
        0.0
        if bars is None
        else exact_any(releases, 1.0 - pass_rate(cell, TARGET, bars[0]), bars[1])
    )
    found["sharp violation", VIOLATION] = (
        0.0
        if bars is None
        else float(binom.sf(bars[1] - 1, releases, 1.0 - pass_rate(cell, UNRELIABLE, bars[0])))
    )
    return found
