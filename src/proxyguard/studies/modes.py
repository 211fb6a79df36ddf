"""B12: named, direct and hybrid certificates for three requirements on one shared target.

Losses are functions of a few shared noises, so their sample means and variances follow from
sums over the target: prefix sums of the sorted uniforms in the moderate model, a handful of
moments in the high-signal one. No array of releases x records is made.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from proxyguard.exact.contamination import chernoff_ceiling, markov_allowance
from proxyguard.exact.mean import bentkus_pvalue, empirical_bernstein_pvalue
from proxyguard.studies.counts import Array, Counts, sharp_pvalues, sharp_threshold
from proxyguard.studies.shared_target import lower_limits, oracle_power
from proxyguard.studies.study import (
    Cell,
    Outcome,
    Published,
    Status,
    Study,
    Sums,
    Wanted,
    grid,
    place,
    tally,
)

ALPHA, TARGET = 0.05, 0.8
LIMITS = (0.55, 0.35, 0.40)  # on the unit scale
SMOOTH = 0.02  # continuous share of the moderate loss


@dataclass(frozen=True, slots=True, kw_only=True)
class Design:
    """The registered parameters of one comparison."""

    margin: tuple[float, float]
    jitter: float
    release_share: float  # phi
    target_share: float  # f
    slack: float


MODERATE = Design(
    margin=(0.065, 0.09), jitter=0.005, release_share=0.9, target_share=0.9, slack=0.055
)
HIGH_SIGNAL = Design(
    margin=(0.07, 0.10), jitter=0.008, release_share=0.1, target_share=0.5, slack=0.06
)


def true_means(
    rng: np.random.Generator, design: Design, shape: tuple[int, int], eta: float
) -> tuple[Array, NDArray[np.bool_]]:
    """Return the unit-scale means of every release, (reps, R, 3), and which are valid."""
    valid = rng.random(shape) < eta
    base = rng.uniform(*design.margin, shape)
    jitter = rng.uniform(-design.jitter, design.jitter, (*shape, 3))
    margin = np.maximum(base[..., None] + jitter, 1e-6)
    failed = rng.integers(0, 3, shape)
    excess = rng.uniform(0.001, 0.05, shape)
    np.put_along_axis(
        margin,
        failed[..., None],
        np.where(valid, np.take_along_axis(margin, failed[..., None], -1)[..., 0], -excess)[
            ..., None
        ],
        axis=-1,
    )
    return np.array(LIMITS) - margin, valid


def moderate_moments(rng: np.random.Generator, mean: Array, n: int) -> tuple[Array, Array]:
    """Return sample means and Bessel variances of the smoothed Bernoulli losses."""
    reps = mean.shape[0]
    u = rng.random((reps, n))
    w = rng.random((reps, n, 3))
    order = np.argsort(u, axis=1)
    sorted_u = np.take_along_axis(u, order, axis=1)
    below = np.zeros((reps, n + 1, 3))
    np.cumsum(np.take_along_axis(w, order[..., None], axis=1), axis=1, out=below[:, 1:])
    threshold = (mean - SMOOTH / 2) / (1 - SMOOTH)
    rows = np.arange(reps, dtype=np.float64)[:, None]
    flat = (sorted_u + 2.0 * rows).ravel()
    places = np.searchsorted(flat, (threshold.reshape(reps, -1) + 2.0 * rows).ravel())
    count = (places.reshape(reps, -1) - np.arange(reps)[:, None] * n).reshape(mean.shape)
    inside = np.take_along_axis(below, count, axis=1)  # sum of w where the indicator is 1
    total_w, square_w = w.sum(axis=1), (w * w).sum(axis=1)
    c = SMOOTH
    total = (1 - c) * count + c * total_w[:, None]
    squares = (1 - c) ** 2 * count + 2 * c * (1 - c) * inside + c * c * square_w[:, None]
    average = total / n
    return average, np.maximum(0.0, squares - n * average**2) / (n - 1)


def high_signal_moments(rng: np.random.Generator, mean: Array, n: int) -> tuple[Array, Array]:
    """Return sample means and Bessel variances of the fixed-scale losses."""
    reps = mean.shape[0]
    shared = rng.uniform(-1, 1, (reps, n, 1))
    common = 0.08 * shared + 0.08 * rng.uniform(-1, 1, (reps, n, 3))
    other = 0.04 * rng.uniform(-1, 1, (reps, n, 3))
    coefficient = rng.uniform(-1, 1, mean.shape)
    a, g = common.mean(axis=1), other.mean(axis=1)
    common -= a[:, None]
    other -= g[:, None]
    moments = [
        np.einsum("rij,rij->rj", first, second)[:, None] / (n - 1)
        for first, second in ((common, common), (common, other), (other, other))
    ]
    average = mean + a[:, None] + coefficient * g[:, None]
    return average, moments[0] + 2 * coefficient * moments[1] + coefficient**2 * moments[2]


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawn:
    """Sample means and Bessel variances of a block, (reps, R, 3), and which releases are valid."""

    average: Array
    variance: Array
    valid: NDArray[np.bool_]
    n: int


def compare(drawn: Drawn, design: Design, wanted: Wanted) -> dict[tuple[str, str], Sums]:
    """Return how often each mode validates, from sample means and variances."""
    average, variance, valid, n = drawn.average, drawn.variance, drawn.valid, drawn.n
    releases = average.shape[1]
    pvalues = np.max(
        [
            empirical_bernstein_pvalue(average[..., j], variance[..., j], n, LIMITS[j])
            for j in range(3)
        ],
        axis=0,
    )
    ordered = np.sort(pvalues, axis=1)
    scores = np.all(average <= np.array(LIMITS) - design.slack + 1e-15, axis=-1).sum(axis=1)

    def hybrid() -> Array:
        return np.maximum(
            _named(ordered, design, ALPHA / 2), _direct(scores, releases, n, design, ALPHA / 2)
        )

    threshold = sharp_threshold(releases, TARGET, ALPHA)

    def sharp(favorable: Counts) -> NDArray[np.bool_]:
        return np.asarray(sharp_pvalues(releases, TARGET, threshold)[favorable] <= ALPHA)

    def by_bentkus() -> Counts:
        cutoffs = np.array([_bentkus_cutoff(n, limit, threshold) for limit in LIMITS])
        return np.asarray(np.all(average <= cutoffs, axis=-1).sum(axis=1))

    return tally(
        {
            "named": lambda: {"validated": _named(ordered, design, ALPHA) > TARGET},
            "direct": lambda: {"validated": _direct(scores, releases, n, design, ALPHA) > TARGET},
            "hybrid": lambda: {"validated": hybrid() > TARGET},
            "oracle": lambda: {
                "validated": lower_limits(releases, ALPHA)[valid.sum(axis=1)] > TARGET
            },
            "sharp, bentkus": lambda: {"validated": sharp(by_bentkus())},
            "sharp, empirical Bernstein": lambda: {
                "validated": sharp((pvalues <= threshold).sum(axis=1))
            },
        },
        wanted,
    )


def _named(ordered: Array, design: Design, alpha: float) -> Array:
    releases = ordered.shape[1]
    levels = alpha * design.release_share / np.arange(releases, 0, -1)
    recognized = np.logical_and.accumulate(ordered <= levels, axis=1).sum(axis=1)
    return np.asarray(lower_limits(releases, alpha * (1 - design.release_share))[recognized])


def _direct(scores: Counts, releases: int, n: int, design: Design, alpha: float) -> Array:
    kappa = max(chernoff_ceiling(limit - design.slack, limit, n) for limit in LIMITS)
    allowance = markov_allowance(kappa, alpha * design.target_share)
    limits = lower_limits(releases, alpha * (1 - design.target_share))[scores]
    return np.asarray(np.maximum(0.0, limits - allowance))


@cache
def _bentkus_cutoff(n: int, limit: float, threshold: float) -> float:
    """Return the largest mean whose Bentkus p-value is at most the threshold."""
    low, high = 0.0, limit
    for _ in range(60):
        middle = 0.5 * (low + high)
        if float(bentkus_pvalue(np.array([middle]), n, limit)[0]) <= threshold:
            low = middle
        else:
            high = middle
    return low


def moderate(cell: Cell, rng: np.random.Generator, repetitions: int, wanted: Wanted) -> Outcome:
    """Simulate the comparison under moderate evidence."""
    mean, valid = true_means(rng, MODERATE, (repetitions, cell["R"]), cell["eta"])
    average, variance = moderate_moments(rng, mean, cell["n"])
    drawn = Drawn(average=average, variance=variance, valid=valid, n=cell["n"])
    return compare(drawn, MODERATE, wanted)


def high_signal(cell: Cell, rng: np.random.Generator, repetitions: int, wanted: Wanted) -> Outcome:
    """Simulate the comparison under high-signal evidence."""
    mean, valid = true_means(rng, HIGH_SIGNAL, (repetitions, cell["R"]), cell["eta"])
    average, variance = high_signal_moments(rng, mean, cell["n"])
    drawn = Drawn(average=average, variance=variance, valid=valid, n=cell["n"])
    return compare(drawn, HIGH_SIGNAL, wanted)


def _exact(cell: Cell) -> dict[tuple[str, str], float]:
    return {("oracle", "validated"): oracle_power(cell["R"], cell["eta"])}


_METHODS = {
    "named": Status.REGISTERED,
    "direct": Status.REGISTERED,
    "hybrid": Status.REGISTERED,
    "oracle": Status.ORACLE,
    "sharp, bentkus": Status.OURS,
    "sharp, empirical Bernstein": Status.OURS,
}
_CELLS = grid(R=(30, 100, 250, 1000), n=(500, 1000, 2000), eta=(0.80, 0.90, 0.95))
MODE_COMPARISON = Study(
    name="mode-comparison",
    paper="Table direct_multirequirement, Figure direct_multirequirement_power",
    seed=9931049,
    repetitions=500,
    cells=_CELLS,
    simulate=moderate,
    exact=_exact,
    block=100,
    methods=_METHODS,
    published={
        (place(_CELLS, R=1000, n=1000, eta=eta), method, "validated"): Published(
            value=value, digits=3, repetitions=500
        )
        for eta, three in zip(
            (0.80, 0.90, 0.95),
            ((0.002, 0.0, 0.0), (0.042, 0.564, 0.024), (0.056, 0.642, 0.572)),
            strict=True,
        )
        for method, value in zip(("named", "direct", "hybrid"), three, strict=True)
    },
)
MODE_COMPARISON_HIGH_SIGNAL = Study(
    name="mode-comparison-high-signal",
    paper="Figure direct_multirequirement_power, high signal",
    seed=9914073,
    repetitions=500,
    cells=grid(R=(30, 50, 100, 250, 1000), n=(500, 1000, 2000), eta=(0.80, 0.90, 0.95)),
    simulate=high_signal,
    exact=_exact,
    block=100,
    methods=_METHODS,
    differs="Independent seeds; no figure of this grid is compared, for none was printed.",
)
