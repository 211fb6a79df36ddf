"""Collective validation on independent batches (Theorem 9, Proposition 10)."""

from __future__ import annotations

from proxyguard.exact.multiplicity import Dependence, tail_fisher_count, tail_simes_count
from proxyguard.modes.bound import ReliabilityBound, from_count
from proxyguard.modes.evidence import Evidence
from proxyguard.registry.budget import Budget


def certify_collective(
    evidence: Evidence,
    budget: Budget,
    *,
    reliability_target: float,
    dependence: Dependence,
    combination: str = "simes",
) -> ReliabilityBound:
    """Lower-bound reliability by a partial-conjunction count of valid releases.

    Guarantee
    ---------
    Paper Theorem 9 through Eqs. (15)-(16): as Theorem 5, when release p-values are
    independent or PRDS, which means that each release was scored on its own batch of
    target records. Never below the named count at the same level (Proposition 10) for
    tail-Simes.
    """
    count_of = {"simes": tail_simes_count, "fisher": tail_fisher_count}[combination]
    count = count_of(
        evidence.release_pvalues, alpha=float(budget["alpha_R"]), dependence=dependence
    )
    return from_count(
        count,
        evidence.n_releases,
        budget,
        reliability_target=reliability_target,
        outer="alpha_M",
        label=f"valid releases at least (tail-{combination.capitalize()})",
        rests_on="Theorem 9, Eqs. (15)-(16)",
    )
