"""Evidence of unreliability: named violations (Theorem 8), violating scores (theory section 4)."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from proxyguard.exact.binomial import clopper_pearson_upper, lower_tail
from proxyguard.exact.multiplicity import holm
from proxyguard.exact.rounding import weaken_upper
from proxyguard.exact.sharp import sharp_lower, sharp_pvalue
from proxyguard.modes.bound import ReliabilityBound
from proxyguard.modes.evidence import Array, DirectEvidence, Evidence
from proxyguard.registry.budget import Budget


def pooled_violations(
    pvalues: Mapping[str, Array], *, level: float
) -> dict[str, NDArray[np.bool_]]:
    """Return the violations that one Holm family over all releases and requirements detects."""
    rejected = holm(np.concatenate([p.ravel() for p in pvalues.values()]), alpha=level)
    found, place = {}, 0
    for member, p in pvalues.items():
        found[member] = rejected[place : place + p.size].reshape(p.shape)
        place += p.size
    return found


def certify_violation(
    violated: NDArray[np.bool_], budget: Budget, *, reliability_target: float
) -> ReliabilityBound:
    """Upper-bound reliability by the releases with a detected violation, ``violated`` (R, J).

    Guarantee
    ---------
    Paper Theorem 8: outside probability ``beta_R`` no detected violation is false; then,
    outside ``beta_M``, the bound is at least the reliability. ``violated`` must come from
    Holm at ``beta_R`` over the registered release-requirement family.
    """
    n_releases = violated.shape[0]
    detected = int(np.count_nonzero(violated.any(axis=1)))
    left = n_releases - detected
    return ReliabilityBound(
        value=float(clopper_pearson_upper(left, n_releases, alpha=float(budget["beta_M"]))),
        budget=budget,
        rests_on="Theorem 8",
        steps=(("releases with a detected violation", detected), ("releases", n_releases)),
        pvalue=float(lower_tail(left, n_releases, reliability_target)),
        outer="beta_M",
    )


def score_violations(evidence: Evidence, *, threshold: float) -> DirectEvidence:
    """Score a release as violating when ``q_r <= t`` (theory section 4).

    Guarantee
    ---------
    A valid release scores with probability at most ``kappa = t``.
    """
    return DirectEvidence(
        favorable=int(np.count_nonzero(evidence.release_violation_pvalues <= threshold)),
        n_releases=evidence.n_releases,
        kappa=threshold,
        score=f"release violation p-value <= {threshold:.6g}",
    )


def certify_direct_violation(
    evidence: DirectEvidence, budget: Budget, *, reliability_target: float
) -> ReliabilityBound:
    """Upper-bound reliability from releases that score as violating.

    Guarantee
    ---------
    Theory section 4: a valid release scores with probability at most ``t``, so ``U = 1 -
    L_sharp(W; R, kappa = t, beta)`` is at least the reliability with probability at least
    ``1 - beta``.
    """
    beta = float(budget["beta"])
    lower = sharp_lower(evidence.favorable, evidence.n_releases, kappa=evidence.kappa, alpha=beta)
    return ReliabilityBound(
        value=float(weaken_upper(1.0 - lower)),
        budget=budget,
        rests_on="theory section 4, direct violation",
        steps=(
            (f"violating scores ({evidence.score})", evidence.favorable),
            ("releases", evidence.n_releases),
            ("kappa", evidence.kappa),
        ),
        pvalue=float(
            sharp_pvalue(
                evidence.favorable,
                evidence.n_releases,
                target=1.0 - reliability_target,
                kappa=evidence.kappa,
            )
        ),
        outer="beta",
    )
