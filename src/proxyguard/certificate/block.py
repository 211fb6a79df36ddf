"""The two-axis block certificate (Theorem 13)."""

from __future__ import annotations

from proxyguard.certificate.decision import ReliabilityBound
from proxyguard.certificate.direct import rescale
from proxyguard.evidence.smooth import BlockEvidence
from proxyguard.exact.contamination import block_radius
from proxyguard.registry.budget import Budget


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
