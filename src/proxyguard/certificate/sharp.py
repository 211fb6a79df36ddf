"""The sharp direct certificate and its violation twin (theory sections 2 and 4)."""

from __future__ import annotations

from proxyguard.certificate.decision import ReliabilityBound
from proxyguard.evidence.direct import DirectEvidence
from proxyguard.exact.rounding import weaken_upper
from proxyguard.exact.sharp import sharp_lower, sharp_pvalue
from proxyguard.registry.budget import Budget


def certify_sharp(
    evidence: DirectEvidence, budget: Budget, *, reliability_target: float
) -> ReliabilityBound:
    """Lower-bound reliability from favorable scores, with no split of the error budget.

    Guarantee
    ---------
    Theory section 2: with probability at least ``1 - alpha`` over the target and the
    draws, the bound does not exceed the reliability, whatever dependence the shared
    target creates. Never below the rescaled or the paper's bound, at any split.

    Rests on iid draws that are jointly independent of the target, one fixed score for all
    releases, and ``kappa`` for that very score.
    """
    alpha = float(budget["alpha"])
    return ReliabilityBound(
        value=sharp_lower(
            evidence.favorable, evidence.n_releases, kappa=evidence.kappa, alpha=alpha
        ),
        budget=budget,
        rests_on="theory section 2, sharp p-value",
        steps=(
            (f"favorable scores ({evidence.score})", evidence.favorable),
            ("releases", evidence.n_releases),
            ("kappa", evidence.kappa),
        ),
        pvalue=float(
            sharp_pvalue(
                evidence.favorable,
                evidence.n_releases,
                target=reliability_target,
                kappa=evidence.kappa,
            )
        ),
        outer="alpha",
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
