"""Ramp scores and block witnesses (Theorems 12 and 13)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from proxyguard.errors import LossMismatch
from proxyguard.evidence.releases import ReleaseEvidence
from proxyguard.losses.units import generator
from proxyguard.registry.scores import (
    block_ceiling,
    block_witnesses,
    ramp_ceiling,
    ramp_scores,
    ramp_sensitivity,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SmoothEvidence:
    """Ramp scores ``S_h`` of all releases, reduced to what the certificates use."""

    n_releases: int
    n_records: int
    mean_score: float
    rounded: int  # scores rounded to 0/1 by one uniform each: Bin(R, pi_h) given the target
    kappa: float  # kappa_h, Eq. (18)
    sensitivity: float  # rho_h, Eq. (19)


def score_by_ramp(evidence: ReleaseEvidence, *, seed: int) -> SmoothEvidence:
    """Return the ramp scores' mean and rounded count with their ceilings."""
    requirements, columns = evidence.requirements, evidence.columns
    n = min(evidence.n_records)
    if n == 0:
        return SmoothEvidence(
            n_releases=evidence.n_releases,
            n_records=0,
            mean_score=0.0,
            rounded=0,
            kappa=1.0,
            sensitivity=1.0,
        )
    scores = ramp_scores(requirements, np.stack([column.mean for column in columns], axis=1))
    uniforms = generator(seed, 3).random(evidence.n_releases)
    return SmoothEvidence(
        n_releases=evidence.n_releases,
        n_records=n,
        mean_score=float(scores.mean()),
        rounded=int(np.count_nonzero(uniforms < scores)),
        kappa=ramp_ceiling(requirements, n),
        sensitivity=ramp_sensitivity(requirements, n),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockEvidence:
    """Hard or ramped scores of every release on every block of the target."""

    n_releases: int
    n_blocks: int
    block_size: int
    mean_witness: float
    kappa: float  # kappa_m


def score_by_block(evidence: ReleaseEvidence, *, block_size: int) -> BlockEvidence:
    """Return the mean witness over releases and blocks; ramped where every ramp is registered."""
    requirements = evidence.requirements
    means = [column.block_means for column in evidence.columns]
    if any(mean is None for mean in means):
        raise LossMismatch("block scores need single records, and these statistics have none")
    stacked = np.stack([mean for mean in means if mean is not None], axis=2)  # (R, B, J)
    return BlockEvidence(
        n_releases=evidence.n_releases,
        n_blocks=stacked.shape[1],
        block_size=block_size,
        mean_witness=float(block_witnesses(requirements, stacked).mean()),
        kappa=block_ceiling(requirements, block_size),
    )
