"""Named-release mechanism inference (Theorem 5)."""

from __future__ import annotations

from proxyguard.certificate.decision import ReliabilityBound
from proxyguard.evidence.releases import ReleaseEvidence
from proxyguard.exact.binomial import clopper_pearson_lower, upper_tail
from proxyguard.exact.multiplicity import holm
from proxyguard.registry.budget import Budget


def certify_named(
    evidence: ReleaseEvidence, budget: Budget, *, reliability_target: float
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


def from_count(
    count: int,
    n_releases: int,
    budget: Budget,
    *,
    reliability_target: float,
    outer: str,
    label: str,
    rests_on: str,
) -> ReliabilityBound:
    """Turn a lower count of valid releases into a bound: the outer binomial step, Eq. (9)."""
    return ReliabilityBound(
        value=float(clopper_pearson_lower(count, n_releases, alpha=float(budget[outer]))),
        budget=budget,
        rests_on=rests_on,
        steps=((label, count), ("releases", n_releases)),
        pvalue=float(upper_tail(count, n_releases, reliability_target)),
        outer=outer,
    )
