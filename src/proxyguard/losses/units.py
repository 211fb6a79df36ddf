"""Which records count for a requirement, and what one unit of inference is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from proxyguard.errors import LossMismatch
from proxyguard.exact.sums import run_sums
from proxyguard.registry.design import Clustered
from proxyguard.registry.requirement import Requirement

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Units:
    """The records of a chunk that count for one requirement."""

    positions: NDArray[np.intp] | None  # None: all, in the order given
    weights: Array | None
    clusters: Clusters | None
    blocks: NDArray[np.int64] | None

    def size(self, n: int) -> int:
        if self.clusters is not None:
            return self.clusters.sizes.size
        return n if self.positions is None else self.positions.size

    def select(self, values: NDArray[Any]) -> NDArray[Any]:
        return values if self.positions is None else values[self.positions]


@dataclass(frozen=True, slots=True)
class Clusters:
    """Whole clusters, one after the other, and how their means become one value each."""

    order: NDArray[np.intp]
    starts: NDArray[np.intp]
    sizes: Array
    shares: Array | None  # m_c/m_max for record-weighted claims
    limit: float

    @classmethod
    def of(
        cls,
        labels: NDArray[Any],
        design: Clustered,
        requirement: Requirement,
        shuffle: bool,
        seed: int,
    ) -> Clusters:
        _, first, place = np.unique(labels, return_index=True, return_inverse=True)
        # Clusters in the order in which they first appear, or in a random one.
        rank = np.argsort(np.argsort(first))
        if shuffle:
            rank = random_order(first.size, seed)
        place = rank[place]
        order = np.argsort(place, kind="stable")
        sizes = np.bincount(place)
        if design.max_size is not None and sizes.max() > design.max_size:
            raise LossMismatch(
                f"a cluster has {sizes.max()} records, the registered max_size is {design.max_size}"
            )
        shares = None if design.weighting == "cluster" else sizes / (design.max_size or 1)
        starts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
        return cls(order, starts, sizes.astype(np.float64), shares, requirement.unit_limit)

    def reduce(self, u: Array) -> Array:
        means = np.clip(run_sums(u, self.starts) / self.sizes, 0.0, 1.0)
        if self.shares is None:
            return means
        # Y_c = (m_c/m_max)(mean_c - tau) against 0, put back on [0, 1]: theory section 1.
        return np.clip(self.limit + self.shares * (means - self.limit), 0.0, 1.0)


_STREAM = 0x70726F78
"""Keeps our streams apart from ``default_rng(seed)``, which a caller may have used."""


def generator(seed: int, *purpose: int) -> np.random.Generator:
    """Return the random stream of one purpose: order 0, uniforms 1, blocks 2, ramps 3."""
    return np.random.default_rng([_STREAM, seed, *purpose])


def random_order(n: int, seed: int) -> NDArray[np.intp]:
    """Return the permutation in which order-dependent tests read the records."""
    return generator(seed, 0).permutation(n)
