"""The two-axis block certificate (Theorem 13)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from proxyguard.errors import LossMismatch
from proxyguard.exact.contamination import block_radius
from proxyguard.modes.bound import ReliabilityBound, rescale
from proxyguard.modes.evidence import Evidence
from proxyguard.registry.budget import Budget
from proxyguard.registry.scores import block_ceiling, block_witnesses


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockEvidence:
    """Hard or ramped scores of every release on every block of the target."""

    n_releases: int
    n_blocks: int
    block_size: int
    mean_witness: float
    kappa: float  # kappa_m


def score_by_block(evidence: Evidence, *, block_size: int) -> BlockEvidence:
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


def certify_block(evidence: BlockEvidence, budget: Budget) -> ReliabilityBound:
    """Lower-bound reliability by the mean witness over releases and target blocks.

    Guarantee
    ---------
    Paper Theorem 13: with probability at least ``1 - alpha`` the bound does not exceed
    the reliability, for iid targets split by a partition that was frozen beforehand.
    """
    radius = block_radius(evidence.n_releases, evidence.n_blocks, alpha=float(budget["alpha"]))
    return ReliabilityBound(
        value=rescale(max(0.0, evidence.mean_witness - radius), evidence.kappa),
        budget=budget,
        rests_on="Theorem 13",
        steps=(
            ("mean witness", evidence.mean_witness),
            ("releases", evidence.n_releases),
            ("blocks", evidence.n_blocks),
            ("radius r_{R,B}", radius),
            ("kappa_m", evidence.kappa),
        ),
    )
