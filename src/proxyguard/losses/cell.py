"""Running statistics of one requirement for a block of releases.

`Reading` says how losses are read, `Units` and `Clusters` which records of a chunk count for a
requirement and what one unit of inference is, `Cell` adds them up, and a `Column` is what is left:
all that tests may look at. Sums are exact, so that neither chunks nor machines change a decision.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import fsum
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from proxyguard.errors import LossMismatch
from proxyguard.exact.betting import ROOM, STAKES, BettingCapital, FixedCapital
from proxyguard.exact.rounding import Array, count_variance
from proxyguard.exact.sums import ExactSums, run_sums
from proxyguard.losses.records import AnyArray, record_weights
from proxyguard.registry.design import (
    Clustered,
    Design,
    Sampling,
    Stratified,
    WeightedClusters,
    sees_losses,
    tests_excess,
)
from proxyguard.registry.requirement import Requirement
from proxyguard.registry.test import ComponentTest

Scalar = TypeVar("Scalar", bound="np.generic[object]")


@dataclass(frozen=True, slots=True)
class Units:
    """The records of a chunk that count for one requirement."""

    positions: NDArray[np.intp] | None
    """Of the records, in the order in which they are read; nothing: all, as given."""
    weights: Array | None
    """Of each unit, in the order in which units are read, where strata have weights."""
    clusters: Clusters | None
    """How records become units, where those are clusters."""
    shares: Array | None
    """What each unit weighs, in the order in which units are read, as a share of the most."""
    blocks: NDArray[np.int64] | None
    """The block of each record of the chunk, -1 for none (Theorem 13)."""

    def size(self, n: int) -> int:
        """Return how many units a chunk of ``n`` records has."""
        if self.clusters is not None:
            return self.clusters.sizes.size
        return n if self.positions is None else self.positions.size

    def select(self, values: NDArray[Scalar]) -> NDArray[Scalar]:
        """Return the values of the records that count, in the order in which they are read."""
        return values if self.positions is None else values[self.positions]


@dataclass(frozen=True, slots=True)
class Clusters:
    """Whole clusters, one after the other, and how their means become one value each."""

    order: NDArray[np.intp]
    """Positions of the records, cluster by cluster."""
    starts: NDArray[np.intp]
    """Where each cluster starts in that order."""
    sizes: Array
    """Records of each cluster."""
    weights: Array | None = None
    """Of each record, in that order, where records have some: as a share of its cluster's."""
    totals: Array | None = None
    """What the records of each cluster weigh together, where they do."""

    @classmethod
    def of(
        cls, labels: AnyArray, design: Clustered, shuffle: bool, seed: int,
        weights: Array | None = None,
    ) -> Clusters:  # fmt: skip
        """Return the clusters of a chunk; ``weights`` are those of its records.

        Raises
        ------
        LossMismatch
            A cluster has more records, or weighs more, than was registered.
        """
        _, first, cluster = np.unique(labels, return_index=True, return_inverse=True)
        # Clusters in the order in which they first appear, or in a random one.
        rank = np.argsort(np.argsort(first))
        if shuffle:
            rank = random_order(first.size, seed)
        cluster = rank[cluster]
        order = np.argsort(cluster, kind="stable")
        sizes = np.bincount(cluster)
        if design.max_size is not None and sizes.max() > design.max_size:
            raise LossMismatch(
                f"a cluster has {sizes.max()} records, the registered max_size is {design.max_size}"
            )
        starts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
        clusters = cls(order, starts, sizes.astype(np.float64))
        if weights is None or not isinstance(design, WeightedClusters):
            return clusters
        weights = weights[order]
        # Rounded once: ten weights of a tenth are no more than 1.
        totals = np.array([fsum(part) for part in np.split(weights, starts[1:])])
        heavy = np.flatnonzero(totals > float(design.max_weight))
        if heavy.size:
            raise LossMismatch(
                f"records.weights: the cluster of record {order[starts[heavy[0]]]} weighs more "
                f"than the registered max_weight {float(design.max_weight):g}; register the most "
                "that a cluster of the sampling could weigh, whatever the sample holds"
            )
        within = np.repeat(np.where(totals > 0.0, totals, 1.0), sizes)
        return replace(clusters, weights=weights / within, totals=totals)

    def shares(self, design: Clustered) -> Array | None:
        """Return what each cluster weighs as a share of the most that one could; else nothing."""
        # By the registered bound and not the largest one seen, which the records would choose.
        if isinstance(design, WeightedClusters) and self.totals is not None:
            return self.totals / float(design.max_weight)
        return None if design.weighting == "cluster" else self.sizes / (design.max_size or 1)

    def label(self, strata: AnyArray) -> AnyArray:
        """Return the stratum of each cluster.

        Raises
        ------
        LossMismatch
            A cluster has records in two strata.
        """
        ordered = strata[self.order]
        first = ordered[self.starts]
        if not np.array_equal(np.repeat(first, self.sizes.astype(np.int64)), ordered):
            raise LossMismatch(
                "a cluster has records of two strata; clusters are sampled within a stratum, so "
                "name those of different strata differently"
            )
        return first

    def reduce(self, u: Array) -> Array:
        """Return the mean of each cluster from losses on the unit scale, in `order`."""
        if self.weights is not None:
            return np.clip(run_sums(u * self.weights, self.starts), 0.0, 1.0)
        return np.clip(run_sums(u, self.starts) / self.sizes, 0.0, 1.0)


# Keeps our streams apart from ``default_rng(seed)``, which a caller may have used.
_STREAM = 0x70726F78


def generator(seed: int, *purpose: int) -> np.random.Generator:
    """Return the random stream of one purpose: order 0, uniforms 1, blocks 2, ramps 3."""
    return np.random.default_rng([_STREAM, seed, *purpose])


def random_order(n: int, seed: int) -> NDArray[np.intp]:
    """Return the permutation in which order-dependent tests read the records."""
    return generator(seed, 0).permutation(n)


# Statistics of a column that violation may read others of, under these names with ``_low``.
TWICE = ("mean", "variance", "count", "answer", "indicators")
# Records bet on at once, so that the workspace of a tile stays in cache.
BETS = 2048


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """How the losses are read: registered before the first value is seen."""

    requirements: tuple[Requirement, ...]
    """The requirements, in the order of the last axis."""
    design: Design
    """How the target was sampled."""
    tests: tuple[ComponentTest, ...]
    """The test of each requirement."""
    level: float
    """``t`` of the betting stakes, validation direction."""
    violation_level: float
    """The same of the violation direction."""
    seed: int = 0
    """Of the random order, the uniforms and the blocks."""
    stakes: tuple[float, ...] = STAKES
    """Of the betting test whose stakes are fixed."""
    block_size: int | None = None
    """``m`` of Theorem 13."""
    digits: int | None = None
    """Of a registered disclosure: all statistics are rounded to them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """The statistics of one requirement over all releases, on the unit scale.

    A mean or a count speaks for a release when it is small and against it when it is large.
    Rounded ones are therefore kept twice: up, for validation, under their own names, and down,
    for violation, under ``*_low``; `evidence.releases` rounds. ``None`` means not rounded.
    """

    n: int  # records, or clusters, that count for this requirement
    mean: Array  # (R,) weighted where the design has weights
    variance: Array | None  # (R,) Bessel; None when moments came without it
    count: NDArray[np.int64] | None = None  # (R,) losses at the upper bound, if two-valued
    answer: Array | None = None  # (R,) of a share: what the release says, and count is of ones
    ends: Array | None = None  # (2, R) between which each release's losses lie, where told
    indicators: NDArray[np.int64] | None = None  # (R,) of randomized_binomial
    size_share: float | None = None  # mean share of the largest weight, where units weigh
    log_peak: Array | None = None  # (2, R) of betting
    log_final: Array | None = None  # (2, R) of betting: log e-values
    log_evalue: Array | None = None  # (2, R) of betting_fixed
    block_means: Array | None = None  # (R, B)
    mean_low: Array | None = None  # (R,)
    count_low: NDArray[np.int64] | None = None  # (R,)
    answer_low: Array | None = None  # (R,) where violation looks at another threshold, or limit
    unmeasured: NDArray[np.bool_] | None = None  # (R,) releases of which nothing could be measured
    indicators_low: NDArray[np.int64] | None = None  # (R,)
    variance_low: Array | None = None  # (R,) where missing losses are filled by direction
    missing: NDArray[np.int64] | None = None  # (R,) losses that were filled

    @property
    def against(self) -> Column:
        """The statistics that speak against a release, each under its own name.

        Those that are kept twice are those of violation: a mean rounded down, for one.
        """
        kept = {name: getattr(self, f"{name}_low") for name in TWICE}
        return replace(self, **{name: low for name, low in kept.items() if low is not None})


def unit_ends(ends: Array, requirement: Requirement) -> Array:
    """Return the ends of each release's losses on the unit scale, the limit between them.

    Parameters
    ----------
    ends
        The least and the greatest loss that each release can have, (2, R), on the registered scale:
        functions of what was frozen before the target was read.
    requirement
        Whose bounds are those of all releases.
    """
    low, high = (ends - requirement.low) / requirement.width
    v = requirement.unit_limit
    return np.stack(
        [np.clip(np.minimum(low, v - ROOM), 0.0, 1.0), np.clip(np.maximum(high, v + ROOM), 0, 1)]
    )


def share_column(
    n: int,
    count: NDArray[np.int64],
    answer: Array,
    count_low: NDArray[np.int64] | None = None,
    answer_low: Array | None = None,
) -> Column:
    """Return the statistics of a share, all of which follow from its counts and answers.

    The loss of a record is 0 or 1 less the release's answer, here on the unit scale of
    ``[-1, 1]``. What speaks against a release may be another count, rounded the other way or of
    another threshold, and another answer.
    """
    low = count if count_low is None else count_low
    against = answer if answer_low is None else answer_low
    same = count_low is None and answer_low is None
    return Column(
        n=n,
        mean=_share_mean(n, count, answer),
        variance=count_variance(n, count, low) / 4.0,
        count=count,
        answer=answer,
        mean_low=None if same else _share_mean(n, low, against),
        count_low=count_low,
        answer_low=answer_low,
    )


def _share_mean(n: int, count: NDArray[np.int64], answer: Array) -> Array:
    mean = (count / max(n, 1) - answer + 1.0) / 2.0 if n else np.zeros(answer.size)
    return np.clip(mean, 0.0, 1.0)


class Cell:
    """Running statistics of one requirement for a block of releases."""

    def __init__(
        self, reading: Reading, j: int, columns: int, n: int, n_blocks: int,
        ends: Array | None = None,
    ) -> None:  # fmt: skip
        self._requirement = reading.requirements[j]
        self._test = reading.tests[j]
        self._n = 0
        self._sum = ExactSums(columns)
        self._square = np.zeros(columns)
        self._weights = _distinct_weights(reading.design)
        self._weighted = ExactSums(columns, self._weights.size)
        self._size_sum = 0.0
        self._weighs = tests_excess(reading.design)
        self._counts = self._requirement.two_valued and sees_losses(reading.design)
        self._count = np.zeros(columns, dtype=np.int64)
        self._indicators = np.zeros(columns, dtype=np.int64)
        self._block_sums = ExactSums(columns, n_blocks) if n_blocks else None
        self._block_size = reading.block_size or 1
        self._betting: BettingCapital | None = None
        self._fixed: FixedCapital | None = None
        v = self._requirement.unit_limit
        self._ends = ends
        if self._test is ComponentTest.BETTING and n > 0:
            self._betting = BettingCapital(
                columns=columns,
                n=n,
                v=v,
                level=reading.level,
                violation_level=reading.violation_level,
                ends=ends,
            )
        if self._test is ComponentTest.BETTING_FIXED:
            self._fixed = FixedCapital(
                columns=columns,
                v=v,
                # Of the design, not of the records: stakes are bounded before the first is read.
                largest_weight=float(self._weights[-1]) if self._weights.size else 1.0,
                stakes=reading.stakes,
                ends=ends,
            )

    def add(self, tile: Array, unit: Units, uniforms: Array | None) -> None:
        """Add the losses of some records, releases x records, on their registered scale."""
        requirement = self._requirement
        if self._counts:
            # Before it is rescaled: on the registered scale a loss at the bound equals it exactly.
            self._count += np.count_nonzero(tile == requirement.high, axis=1)
        if requirement.low != 0.0 or requirement.width != 1.0:
            tile = tile - requirement.low
            tile /= requirement.width
        if unit.clusters is not None:
            tile = unit.clusters.reduce(tile)
        if unit.shares is not None:
            # Y = (w/w_max)(u - v) against 0, put back on [0, 1]: theory section 1.
            shares = unit.shares if unit.weights is None else unit.shares * unit.weights
            self._size_sum += float(shares.sum())
            v = requirement.unit_limit
            tile = np.clip(v + unit.shares * (tile - v), 0.0, 1.0)
        if self._ends is not None:
            # Between both ends is the limit, and so is every mean of a unit, but for rounding.
            tile = np.clip(tile, self._ends[0][:, None], self._ends[1][:, None])
        self._merge(tile)
        weights = unit.weights
        if weights is not None:
            # Records of one weight are summed before they are weighted: no product is rounded.
            self._weighted.add_by_slot(tile, np.searchsorted(self._weights, weights))
        if uniforms is not None:
            # By position: a subgroup has the uniforms of its own records, in the order of reading.
            drawn = uniforms if unit.clusters is not None else unit.select(uniforms)
            shown = tile
            if self._ends is not None:
                low, high = self._ends[0][:, None], self._ends[1][:, None]
                shown = (tile - low) / (high - low)
            # Strictly: a uniform of [0, 1) is below u with probability u, at 0 and at 1 too.
            self._indicators += np.count_nonzero(drawn < shown, axis=1)
        if self._betting is not None:
            for start in range(0, tile.shape[1], BETS):
                self._betting.update(tile[:, start : start + BETS])
        if self._fixed is not None:
            self._fixed.update(tile, np.ones(tile.shape[1]) if weights is None else weights)
        if self._block_sums is not None and unit.blocks is not None:
            blocks = unit.select(unit.blocks)
            inside = np.flatnonzero(blocks >= 0)
            self._block_sums.add_by_slot(tile[:, inside], blocks[inside])

    def _merge(self, tile: Array) -> None:
        """Merge a tile's sum and squares into the running ones (Chan, Golub, LeVeque).

        The sum is exact, because a mean on its cutoff is decided by it; squares enter
        p-values only, which have a guard and no ties.
        """
        m, before = tile.shape[1], self._n
        total = self._sum.totals()[:, 0]
        added = self._sum.add(tile)
        centred = tile - (added / m)[:, None]
        self._square += np.einsum("ij,ij->i", centred, centred)
        if before:
            gap = added / m - total / before
            self._square += gap**2 * (before * m / (before + m))
        self._n += m

    def column(self) -> Column:
        """Return what is left of all records added; nothing is divided by their number if none."""
        n, nothing = self._n, self._n == 0
        betting = None if nothing else self._betting
        fixed = None if nothing else self._fixed
        return Column(
            n=n,
            mean=np.clip(self._mean(), 0.0, 1.0),
            variance=self._square / max(n - 1, 1),
            count=self._count if self._counts else None,
            ends=self._ends,
            indicators=(
                self._indicators if self._test is ComponentTest.RANDOMIZED_BINOMIAL else None
            ),
            size_share=self._mean_share(n) if self._weighs and n else None,
            log_peak=None if betting is None else betting.log_peak(),
            log_final=None if betting is None else betting.log_final(),
            log_evalue=None if fixed is None else fixed.log_evalue(),
            block_means=(
                None if self._block_sums is None else self._block_sums.totals() / self._block_size
            ),
        )

    def _mean_share(self, n: int) -> float:
        # Weights of strata sum to 1 over all units; rounded, they may do so by a last digit more.
        return min(1.0, self._size_sum if self._weights.size else self._size_sum / n)

    def _mean(self) -> Array:
        if self._weights.size:
            # Largest weight last, one term after the other: the same sum on every machine.
            terms = self._weighted.totals() * self._weights
            return np.asarray(np.cumsum(terms, axis=1)[:, -1])
        return self._sum.totals()[:, 0] / max(self._n, 1)


def _distinct_weights(design: Design) -> Array:
    """Return the different record weights of a design with weights, increasing; else none."""
    if not isinstance(design, Stratified) or design.sampling is not Sampling.WEIGHTED:
        return np.empty(0)
    return np.unique(list(record_weights(design).values()))


def join_fills(high: Column, low: Column, missing: NDArray[np.int64]) -> Column:
    """Return statistics that decide for validity by ``high`` and for a violation by ``low``.

    Missing losses were filled with their upper bound in the first and their lower one in the
    second. One fill for both would speak for the claim of one direction.
    """

    def logs(first: Array | None, second: Array | None) -> Array | None:
        return None if first is None or second is None else np.stack([first[0], second[1]])

    return replace(
        high,
        mean_low=low.mean,
        count_low=low.count,
        variance_low=low.variance,
        indicators_low=low.indicators,
        missing=missing,
        log_peak=logs(high.log_peak, low.log_peak),
        log_final=logs(high.log_final, low.log_final),
        log_evalue=logs(high.log_evalue, low.log_evalue),
    )


def join_columns(columns: Sequence[Column]) -> Column:
    """Return the statistics of one requirement over blocks of releases, one after the other."""
    first = columns[0]
    # Whose first axis is no release.
    by_direction = ("log_peak", "log_final", "log_evalue", "ends")
    joined = {}
    for name in Column.__dataclass_fields__:
        blocks = [getattr(column, name) for column in columns]
        if name == "unmeasured" and any(block is not None for block in blocks):
            # Of a block that says nothing every release was measured.
            blocks = [
                np.zeros(column.mean.size, dtype=bool) if block is None else block
                for column, block in zip(columns, blocks, strict=True)
            ]
        if name in ("n", "size_share", "mean") or any(block is None for block in blocks):
            continue  # the same in every block, joined below, or not computed
        joined[name] = np.concatenate(blocks, axis=1 if name in by_direction else 0)
    return Column(
        n=first.n,
        mean=np.concatenate([column.mean for column in columns]),
        size_share=first.size_share,
        **{"variance": None, **joined},
    )
