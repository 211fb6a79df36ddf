"""Smooth shared-target concentration: published, rescaled and sharp (Theorem 12)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from proxyguard.exact.contamination import markov_allowance, ramp_radius
from proxyguard.exact.mean import kl_mean_lower
from proxyguard.exact.rounding import weaken_lower
from proxyguard.exact.sharp import smooth_lower, smooth_pvalue
from proxyguard.modes.bound import ReliabilityBound, rescale
from proxyguard.modes.evidence import Evidence
from proxyguard.registry.budget import Budget
from proxyguard.registry.scores import ramp_ceiling, ramp_scores, ramp_sensitivity


@dataclass(frozen=True, slots=True, kw_only=True)
class SmoothEvidence:
    """Ramp scores ``S_h`` of all releases, reduced to what the certificates use."""

    n_releases: int
    n_records: int
    mean_score: float
    rounded: int  # scores rounded to 0/1 by one uniform each: Bin(R, pi_h) given the target
    kappa: float  # kappa_h, Eq. (18)
    sensitivity: float  # rho_h, Eq. (19)


def score_by_ramp(evidence: Evidence) -> SmoothEvidence:
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
    return SmoothEvidence(
        n_releases=evidence.n_releases,
        n_records=n,
        mean_score=float(scores.mean()),
        rounded=int(np.count_nonzero(evidence.uniforms < scores)),
        kappa=ramp_ceiling(requirements, n),
        sensitivity=ramp_sensitivity(requirements, n),
    )


def certify_smooth(evidence: SmoothEvidence, budget: Budget) -> ReliabilityBound:
    """Lower-bound reliability by the mean ramp score minus an additive allowance.

    Guarantee
    ---------
    Paper Theorem 12 through Eqs. (14), (18) and (19): covers with probability at least
    ``1 - alpha_Q - alpha_Z`` for iid targets.
    """
    score_rate, allowance, steps = _parts(evidence, budget)
    return ReliabilityBound(
        value=float(weaken_lower(max(0.0, score_rate - allowance))),
        budget=budget,
        rests_on="Theorem 12, Eq. (14)",
        steps=steps,
    )


def certify_smooth_rescaled(evidence: SmoothEvidence, budget: Budget) -> ReliabilityBound:
    """Lower-bound reliability, charging the allowance to invalid releases only.

    Guarantee
    ---------
    Theory section 2: the mean ramp score of invalid releases has bounded differences
    ``rho_h``, so it is at most ``c = kappa_h + r_h`` outside ``alpha_Z``, and ``[(pi_h -
    c)/(1 - c)]_+`` covers like Theorem 12.
    """
    score_rate, allowance, steps = _parts(evidence, budget)
    return ReliabilityBound(
        value=rescale(score_rate, allowance),
        budget=budget,
        rests_on="theory section 2, rescaled smooth bound",
        steps=steps,
    )


def certify_ramp_markov(evidence: SmoothEvidence, budget: Budget) -> ReliabilityBound:
    """Lower-bound reliability by the mean ramp score under Markov's allowance, rescaled.

    Guarantee
    ---------
    Theory section 2: as `certify_smooth_rescaled`, with ``c = kappa_h/alpha_Z``, the
    expectation-only allowance that Theorem 12 is compared with.
    """
    score_rate, _, steps = _parts(evidence, budget)
    allowance = markov_allowance(evidence.kappa, float(budget["alpha_Z"]))
    return ReliabilityBound(
        value=rescale(score_rate, allowance),
        budget=budget,
        rests_on="theory section 2, ramp score under Markov",
        steps=(*steps[:4], ("allowance kappa_h/alpha_Z", allowance)),
    )


def certify_smooth_sharp(
    evidence: SmoothEvidence, budget: Budget, *, reliability_target: float
) -> ReliabilityBound:
    """Lower-bound reliability from rounded ramp scores, with no split of the budget.

    Guarantee
    ---------
    Theory section 2, "Smooth, sharp": covers with probability at least ``1 - alpha`` over
    target, draws and the rounding uniforms, for iid targets.
    """
    return ReliabilityBound(
        value=smooth_lower(
            evidence.rounded,
            evidence.n_releases,
            kappa=evidence.kappa,
            sensitivity=evidence.sensitivity,
            n_records=evidence.n_records,
            alpha=float(budget["alpha"]),
        ),
        budget=budget,
        rests_on="theory section 2, sharp smooth p-value",
        steps=(
            ("ramp scores rounded to 1", evidence.rounded),
            ("releases", evidence.n_releases),
            ("kappa_h", evidence.kappa),
            ("rho_h", evidence.sensitivity),
        ),
        pvalue=smooth_pvalue(
            evidence.rounded,
            evidence.n_releases,
            target=reliability_target,
            kappa=evidence.kappa,
            sensitivity=evidence.sensitivity,
            n_records=evidence.n_records,
        ),
        outer="alpha",
    )


def _parts(
    evidence: SmoothEvidence, budget: Budget
) -> tuple[float, float, tuple[tuple[str, float], ...]]:
    score_rate = float(
        kl_mean_lower(evidence.mean_score, evidence.n_releases, alpha=float(budget["alpha_Q"]))
    )
    radius = ramp_radius(evidence.sensitivity, evidence.n_records, alpha=float(budget["alpha_Z"]))
    allowance = min(1.0, evidence.kappa + radius)
    steps = (
        ("mean ramp score", evidence.mean_score),
        ("releases", evidence.n_releases),
        ("score mean at least", score_rate),
        ("kappa_h", evidence.kappa),
        ("radius r_h", radius),
    )
    return score_rate, allowance, steps
