"""Running statistics of one requirement for a block of releases."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from proxyguard.exact.betting import STAKES, BettingCapital, FixedCapital
from proxyguard.losses.units import Units
from proxyguard.registry.design import Clustered, Design, Sampling, Stratified
from proxyguard.registry.requirement import Requirement
from proxyguard.registry.test import ComponentTest

Array = NDArray[np.float64]

BETS = 2048
"""Records bet on at once, so that the workspace of a tile stays in cache."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """How the losses are read: registered before the first value is seen."""

    requirements: tuple[Requirement, ...]
    design: Design
    tests: tuple[ComponentTest, ...]
    level: float  # t of the betting stakes, validation direction
    violation_level: float
    seed: int = 0  # of the random order, the uniforms and the blocks
    stakes: tuple[float, ...] = STAKES
    block_size: int | None = None  # m of Theorem 13


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """The statistics of one requirement over all releases, on the unit scale."""

    n: int  # records, or clusters, that count for this requirement
    mean: Array  # (R,) weighted where the design has weights
    variance: Array | None  # (R,) Bessel; None when moments came without it
    count: NDArray[np.int64] | None = None  # (R,) losses at the upper bound, if two-valued
    answer: Array | None = None  # (R,) of a share: what the release says, and count is of ones
    indicators: NDArray[np.int64] | None = None  # (R,) of randomized_binomial
    size_share: float | None = None  # mean of m_c/m_max, for record-weighted clusters
    log_peak: Array | None = None  # (2, R) of betting
    log_final: Array | None = None  # (2, R) of betting: log e-values
    log_evalue: Array | None = None  # (2, R) of betting_fixed
    block_means: Array | None = None  # (R, B)


def share_column(n: int, count: NDArray[np.int64], answer: Array) -> Column:
    """Return the statistics of a share, all of which follow from its counts and answers.

    The loss of a record is 0 or 1 less the release's answer, here on the unit scale of
    ``[-1, 1]``.
    """
    share = count / max(n, 1)
    mean = (share - answer + 1.0) / 2.0 if n else np.zeros(answer.size)
    return Column(
        n=n,
        mean=np.clip(mean, 0.0, 1.0),
        variance=share * (1.0 - share) * n / max(n - 1, 1) / 4.0,
        count=count,
        answer=answer,
    )


class Cell:
    """Running statistics of one requirement for a block of releases."""

    def __init__(self, reading: Reading, j: int, columns: int, n: int, n_blocks: int) -> None:
        self._requirement = reading.requirements[j]
        self._test = reading.tests[j]
        self._n = 0
        self._sum = np.zeros(columns)
        self._square = np.zeros(columns)
        self._weighted: Array | None = None
        self._size_sum = 0.0
        self._counts = self._requirement.two_valued and not isinstance(reading.design, Clustered)
        self._count = np.zeros(columns, dtype=np.int64)
        self._indicators = np.zeros(columns, dtype=np.int64)
        self._block_sums = np.zeros((columns, n_blocks)) if n_blocks else None
        self._block_size = reading.block_size or 1
        self._betting: BettingCapital | None = None
        self._fixed: FixedCapital | None = None
        v = self._requirement.unit_limit
        if self._test is ComponentTest.BETTING and n > 0:
            self._betting = BettingCapital(
                columns=columns,
                n=n,
                v=v,
                level=reading.level,
                violation_level=reading.violation_level,
            )
        if self._test is ComponentTest.BETTING_FIXED:
            largest = 1.0
            if reading.design.sampling is Sampling.WEIGHTED:
                assert isinstance(reading.design, Stratified)  # the only weighted design
                largest = float(
                    max(
                        reading.design.weights[g] / reading.design.sizes[g]
                        for g in reading.design.sizes
                    )
                )
            self._fixed = FixedCapital(
                columns=columns, v=v, largest_weight=largest, stakes=reading.stakes
            )

    def add(self, tile: Array, unit: Units, uniforms: Array | None) -> None:
        requirement = self._requirement
        if self._counts:
            self._count += np.count_nonzero(tile == requirement.high, axis=1)
        if requirement.low != 0.0 or requirement.width != 1.0:
            tile = tile - requirement.low
            tile /= requirement.width
        if unit.clusters is not None:
            tile = unit.clusters.reduce(tile)
            if unit.clusters.shares is not None:
                self._size_sum += float(unit.clusters.shares.sum())
        self._merge(tile)
        weights = None if unit.weights is None else unit.select(unit.weights)
        if weights is not None:
            part = tile @ weights
            self._weighted = part if self._weighted is None else self._weighted + part
        if uniforms is not None:
            drawn = uniforms if unit.clusters is not None else unit.select(uniforms)
            self._indicators += np.count_nonzero(drawn < tile, axis=1)
        if self._betting is not None:
            for start in range(0, tile.shape[1], BETS):
                self._betting.update(tile[:, start : start + BETS])
        if self._fixed is not None:
            self._fixed.update(tile, np.ones(tile.shape[1]) if weights is None else weights)
        if self._block_sums is not None and unit.blocks is not None:
            blocks = unit.select(unit.blocks)
            inside = np.flatnonzero(blocks >= 0)
            order = inside[np.argsort(blocks[inside], kind="stable")]
            if order.size:
                labels, starts = np.unique(blocks[order], return_index=True)
                self._block_sums[:, labels] += np.add.reduceat(tile[:, order], starts, axis=1)

    def _merge(self, tile: Array) -> None:
        """Merge a tile's sum and squares into the running ones (Chan, Golub, LeVeque).

        The sum is kept rather than the mean: for whole-number losses it is exact, and a
        mean on its cutoff is decided by that.
        """
        m, before = tile.shape[1], self._n
        part = tile.sum(axis=1)
        centred = tile - (part / m)[:, None]
        self._square += np.einsum("ij,ij->i", centred, centred)
        if before:
            gap = part / m - self._sum / before
            self._square += gap**2 * (before * m / (before + m))
        self._sum += part
        self._n += m

    def column(self) -> Column:
        n, nothing = self._n, self._n == 0
        betting = None if nothing else self._betting
        fixed = None if nothing else self._fixed
        return Column(
            n=n,
            mean=np.clip(
                self._sum / max(n, 1) if self._weighted is None else self._weighted, 0.0, 1.0
            ),
            variance=self._square / max(n - 1, 1),
            count=self._count if self._counts else None,
            indicators=(
                self._indicators if self._test is ComponentTest.RANDOMIZED_BINOMIAL else None
            ),
            size_share=self._size_sum / n if self._size_sum else None,
            log_peak=None if betting is None else betting.log_peak(),
            log_final=None if betting is None else betting.log_final(),
            log_evalue=None if fixed is None else fixed.log_evalue(),
            block_means=None if self._block_sums is None else self._block_sums / self._block_size,
        )


def join_columns(parts: Sequence[Column]) -> Column:
    def stack(name: str) -> Any:
        values = [getattr(part, name) for part in parts]
        if any(value is None for value in values):
            return None
        axis = 1 if name in ("log_peak", "log_final", "log_evalue") else 0
        return np.concatenate(values, axis=axis)

    alike = ("n", "size_share")
    names = [name for name in Column.__dataclass_fields__ if name not in alike]
    stacked = {name: stack(name) for name in names}
    return Column(n=parts[0].n, size_share=parts[0].size_share, **stacked)
