"""Direct shared-target inference with the published bound (Theorem 6) and rescaled."""

from __future__ import annotations

from proxyguard.certificate.decision import ReliabilityBound
from proxyguard.evidence.direct import DirectEvidence
from proxyguard.exact.binomial import clopper_pearson_lower
from proxyguard.exact.contamination import markov_allowance
from proxyguard.exact.rounding import weaken_lower
from proxyguard.registry.budget import Budget


def certify_direct(evidence: DirectEvidence, budget: Budget) -> ReliabilityBound:
    """Lower-bound reliability by the favorable-score rate minus a false-pass allowance.

    Guarantee
    ---------
    Paper Theorem 6 through Eqs. (12)-(13). With probability at least ``1 - alpha_Q -
    alpha_Z`` over the target and the draws, the bound does not exceed the reliability.

    Rests on Assumption 1 (the target was sealed first), on independent draws, and on
    ``kappa`` having been computed for the very score that was counted.

    Notes
    -----
    The allowance ``kappa / alpha_Z`` is Markov's inequality, as published (Proposition
    7). The rescaled and sharp certificates never fall below this one.
    """
    score_rate, allowance = _parts(evidence, budget)
    return ReliabilityBound(
        value=float(weaken_lower(max(0.0, score_rate - allowance))),
        budget=budget,
        rests_on="Theorem 6, Eq. (13)",
        steps=_steps(evidence, score_rate, allowance),
    )


def certify_rescaled(evidence: DirectEvidence, budget: Budget) -> ReliabilityBound:
    """Lower-bound reliability, charging contamination to invalid releases only.

    Guarantee
    ---------
    Theory section 2: ``pi(Z) <= eta + (1 - eta) B(Z)`` and ``B <= c = kappa/alpha_Z``
    outside ``alpha_Z``, so ``[(pi - c)/(1 - c)]_+`` covers like Theorem 6 and is never
    below it.
    """
    score_rate, allowance = _parts(evidence, budget)
    return ReliabilityBound(
        value=rescale(score_rate, allowance),
        budget=budget,
        rests_on="theory section 2, rescaled bound",
        steps=_steps(evidence, score_rate, allowance),
    )


def rescale(score_rate: float, allowance: float) -> float:
    """Return ``[(pi - c)/(1 - c)]_+``, 0 when the allowance ``c`` reaches 1."""
    if allowance >= 1.0:
        return 0.0
    return float(weaken_lower(max(0.0, score_rate - allowance) / (1.0 - allowance)))


def _parts(evidence: DirectEvidence, budget: Budget) -> tuple[float, float]:
    score_rate = clopper_pearson_lower(
        evidence.favorable, evidence.n_releases, alpha=float(budget["alpha_Q"])
    )
    return float(score_rate), markov_allowance(evidence.kappa, float(budget["alpha_Z"]))


def _steps(
    evidence: DirectEvidence, score_rate: float, allowance: float
) -> tuple[tuple[str, float], ...]:
    return (
        (f"favorable scores ({evidence.score})", evidence.favorable),
        ("releases", evidence.n_releases),
        ("score rate at least", score_rate),
        ("kappa", evidence.kappa),
        ("allowance kappa/alpha_Z", allowance),
    )
