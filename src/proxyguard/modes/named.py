"""Named-release mechanism inference (Theorem 5)."""

from __future__ import annotations

from proxyguard.exact.multiplicity import holm
from proxyguard.modes.bound import ReliabilityBound, from_count
from proxyguard.modes.evidence import Evidence
from proxyguard.registry.budget import Budget


def certify_named(
    evidence: Evidence, budget: Budget, *, reliability_target: float
) -> ReliabilityBound:
    """Lower-bound reliability by the number of individually recognized releases.

    Guarantee
    ---------
    Paper Theorem 5 through Eqs. (8)-(9). Outside probability ``alpha_R`` every recognized
    release is valid; then, outside ``alpha_M``, the bound does not exceed the reliability.
    Releases may share the target in any way.
    """
    recognized = int(holm(evidence.release_pvalues, alpha=float(budget["alpha_R"])).sum())
    return from_count(
        recognized,
        evidence.n_releases,
        budget,
        reliability_target=reliability_target,
        outer="alpha_M",
        label="recognized releases (Holm)",
        rests_on="Theorem 5, Eqs. (8)-(9)",
    )
