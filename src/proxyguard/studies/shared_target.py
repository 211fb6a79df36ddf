"""B11, B13, B14: releases that are all scored on one shared target.

Every loss is ``1{U_i < risk}`` for one uniform a record, so a release's count is the rank of
its risk among the sorted uniforms: one sort a repetition, and no array of losses.
"""

from __future__ import annotations

from functools import partial
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from proxyguard.exact.binomial import clopper_pearson_lower, upper_tail
from proxyguard.exact.contamination import (
    chernoff_ceiling,
    markov_allowance,
    ramp_ceiling,
    ramp_radius,
    ramp_sensitivity,
)
from proxyguard.exact.mean import kl_mean_lower
from proxyguard.studies.counts import (
    Array,
    Counts,
    favorable,
    holm_recognized,
    pvalue_table,
    sharp_pvalues,
    sharp_threshold,
)
from proxyguard.studies.study import Cell, Metrics, Outcome, Published, Status, Study, Wanted, tally

ALPHA, TARGET = 0.05, 0.8


def ranks(risks: Array, uniforms: Array, *, side: Literal["left", "right"]) -> Counts:
    """Return, row by row, how many uniforms lie below each risk (or at it, from the right)."""
    rows = np.arange(len(risks), dtype=np.float64)[:, None]
    # Row k is moved to [2k, 2k + 1), so that one search over all rows serves.
    targets = (np.sort(uniforms, axis=1) + 2.0 * rows).ravel()
    found: Counts = np.searchsorted(targets, (risks + 2.0 * rows).ravel(), side=side)
    before = np.arange(len(risks))[:, None] * uniforms.shape[1]
    return np.asarray(found.reshape(risks.shape) - before)


def lower_limits(releases: int, level: float) -> Array:
    """Return the Clopper-Pearson lower limit of every count."""
    return clopper_pearson_lower(np.arange(releases + 1), releases, alpha=level)


def oracle_power(releases: int, eta: float) -> float:
    """Return the exact chance that the oracle's limit lies above the target."""
    least = int(np.searchsorted(lower_limits(releases, ALPHA) > TARGET, True))
    return float(upper_tail(least, releases, eta))


def shared_target(
    cell: Cell, rng: np.random.Generator, repetitions: int, wanted: Wanted
) -> Outcome:
    """Return how often named, direct, oracle and sharp validate (B11)."""
    releases, n, tolerance, cutoff = 1000, 1000, 0.2, 158
    shape = (repetitions, releases)
    valid = rng.random(shape) < cell["eta"]
    risk = np.where(valid, rng.uniform(0.135, 0.145, shape), rng.uniform(0.205, 0.220, shape))
    counts = ranks(risk, rng.random((repetitions, n)), side="left")
    table = pvalue_table(n, tolerance)

    def named() -> Array:
        return lower_limits(releases, 0.025)[holm_recognized(counts, table, 0.025)]

    def direct() -> Array:
        allowance = markov_allowance(chernoff_ceiling(0.158, tolerance, n), 0.045)
        scores = np.count_nonzero(counts <= cutoff, axis=1)
        return np.asarray(lower_limits(releases, 0.005)[scores] - allowance)

    return tally(
        {
            "named": lambda: {"validated": named() > TARGET},
            "direct": lambda: {"validated": direct() > TARGET},
            "oracle": lambda: {
                "validated": lower_limits(releases, ALPHA)[valid.sum(axis=1)] > TARGET
            },
            "sharp, binomial": lambda: {"validated": _sharp(counts, table, releases)},
        },
        wanted,
    )


def _sharp(counts: Counts, table: Array, releases: int) -> NDArray[np.bool_]:
    threshold = sharp_threshold(releases, TARGET, ALPHA)
    scores = favorable(counts, table, threshold)
    return np.asarray(sharp_pvalues(releases, TARGET, threshold)[scores] <= ALPHA)


def false_pass(cell: Cell, rng: np.random.Generator, repetitions: int, wanted: Wanted) -> Outcome:
    """Return what the target-side allowance is for: bounds with it and without it (B13)."""
    releases, n, tolerance, cutoff = 250, 1000, 0.5, 490
    shape = (repetitions, releases)
    valid = rng.random(shape) < TARGET
    risk = np.where(valid, rng.uniform(0.30, 0.40, shape), rng.uniform(0.5005, 0.54, shape))
    counts = ranks(risk, rng.random((repetitions, n)), side="right")
    scored = counts <= cutoff
    score_only = lower_limits(releases, 0.005)[scored.sum(axis=1)]
    allowance = markov_allowance(chernoff_ceiling(0.49, tolerance, n), 0.045)
    direct = np.maximum(0.0, score_only - allowance)
    oracle = lower_limits(releases, ALPHA)[valid.sum(axis=1)]

    def both(bound: Array) -> Metrics:
        return {"validated": bound > TARGET, "mean bound": bound}

    return tally(
        {
            "score only": lambda: {
                **both(score_only), "invalid score mass": (scored & ~valid).mean(axis=1)
            },
            "direct": lambda: both(direct),
            "oracle": lambda: both(oracle),
            "sharp, binomial": lambda: {
                "validated": _sharp(counts, pvalue_table(n, tolerance), releases)
            },
        },
        wanted,
    )  # fmt: skip


def smooth_target(
    cell: Cell, rng: np.random.Generator, repetitions: int, wanted: Wanted
) -> Outcome:
    """Return how often hard, ramp and concentration certificates validate (B14)."""
    releases, n, tolerance, cutoff, ramp, level = 500, 200, 0.8, 0.75, 0.6, 0.025
    valid = (rng.random((repetitions, releases)) < cell["eta"]).sum(axis=1)
    uniforms = rng.random((repetitions, n))
    good, bad = ((uniforms <= risk).mean(axis=1) for risk in (0.1, tolerance))
    kappa = chernoff_ceiling(cutoff, tolerance, n)
    hard_scores = valid * (good <= cutoff) + (releases - valid) * (bad <= cutoff)
    hard = lower_limits(releases, level)[hard_scores] - markov_allowance(kappa, level)
    score = [np.clip((cutoff - mean) / ramp, 0.0, 1.0) for mean in (good, bad)]
    mean_score = (valid * score[0] + (releases - valid) * score[1]) / releases
    rate = kl_mean_lower(mean_score, releases, alpha=level)
    kappa_h = ramp_ceiling(cutoff, ramp, tolerance, n)
    radius = ramp_radius(ramp_sensitivity(np.array([ramp]), n), n, alpha=level)
    ceiling = kappa_h + radius
    bounds = {
        "hard + Markov": hard,
        "ramp + Markov": rate - markov_allowance(kappa_h, level),
        "ramp + concentration": rate - ceiling,
        "ramp + concentration, rescaled": (rate - ceiling) / (1.0 - ceiling),
        "oracle": lower_limits(releases, ALPHA)[valid],
    }
    return tally(
        {name: partial(_validated, bound) for name, bound in bounds.items()},
        wanted,
    )


def _validated(bound: Array) -> Metrics:
    return {"validated": bound > TARGET}


_ETAS = (0.80, 0.90, 0.95)
SHARED_TARGET = Study(
    name="shared-target",
    paper="Table conditional_shared_target",
    seed=7296103,
    repetitions=1000,
    cells=tuple({"eta": eta} for eta in _ETAS),
    simulate=shared_target,
    exact=lambda cell: {("oracle", "validated"): oracle_power(1000, cell["eta"])},
    block=100,
    methods={
        "named": Status.REGISTERED,
        "direct": Status.REGISTERED,
        "oracle": Status.ORACLE,
        "sharp, binomial": Status.OURS,
    },
    published={
        (i, method, "validated"): Published(value=value, digits=3, repetitions=1000)
        for i, three in enumerate(((0.022, 0.0, 0.046), (0.799, 0.690, 1.0), (0.801, 0.892, 1.0)))
        for method, value in zip(("named", "direct", "oracle"), three, strict=True)
    },
)

FALSE_PASS = Study(
    name="false-pass",
    paper="Table false_pass_diagnostic",
    seed=9932801,
    repetitions=2000,
    cells=({"R": 250, "n": 1000},),
    simulate=false_pass,
    exact=lambda cell: {("oracle", "validated"): oracle_power(250, TARGET)},
    block=400,
    methods={
        "score only": Status.INVALID,
        "direct": Status.REGISTERED,
        "oracle": Status.ORACLE,
        "sharp, binomial": Status.OURS,
    },
    published={
        (0, "score only", "validated"): Published(value=0.0805, digits=4, repetitions=2000),
        (0, "direct", "validated"): Published(value=0.0, digits=4, repetitions=2000),
        (0, "oracle", "validated"): Published(value=0.0400, digits=4, repetitions=2000),
        (0, "score only", "mean bound"): Published(value=0.741, digits=3, repetitions=2000),
        (0, "direct", "mean bound"): Published(value=0.0, digits=3, repetitions=2000),
        (0, "oracle", "mean bound"): Published(value=0.754, digits=3, repetitions=2000),
        (0, "score only", "invalid score mass"): Published(
            value=0.01205, digits=5, repetitions=2000
        ),
    },
)

SMOOTH_TARGET = Study(
    name="smooth-target",
    paper="Table smooth_target_concentration",
    seed=8172699,
    repetitions=2000,
    cells=tuple({"eta": eta} for eta in (0.80, 0.95, 0.99)),
    simulate=smooth_target,
    exact=lambda cell: {("oracle", "validated"): oracle_power(500, cell["eta"])},
    methods={
        "hard + Markov": Status.REGISTERED,
        "ramp + Markov": Status.REGISTERED,
        "ramp + concentration": Status.REGISTERED,
        "oracle": Status.ORACLE,
        "ramp + concentration, rescaled": Status.OURS,
    },
    published={
        (i, method, "validated"): Published(value=value, digits=4, repetitions=2000)
        for i, four in enumerate(
            ((0.0, 0.0, 0.0, 0.0425), (0.0, 0.0, 0.0, 1.0), (0.0, 0.0, 0.8645, 1.0))
        )
        for method, value in zip(
            ("hard + Markov", "ramp + Markov", "ramp + concentration", "oracle"), four, strict=True
        )
    },
)
