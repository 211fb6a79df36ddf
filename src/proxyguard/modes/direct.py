"""Direct shared-target inference: published (Theorem 6), rescaled and sharp (theory section 2).

Counts releases that score favorably, and charges for how often an invalid one could (Eqs. 10-11).
"""

from __future__ import annotations

import numpy as np

from proxyguard.exact import contamination
from proxyguard.exact.binomial import clopper_pearson_lower
from proxyguard.exact.contamination import markov_allowance
from proxyguard.exact.rounding import weaken_lower
from proxyguard.exact.sharp import sharp_lower, sharp_pvalue
from proxyguard.modes.bound import ReliabilityBound, rescale
from proxyguard.modes.evidence import Column, DirectEvidence, Evidence
from proxyguard.registry.budget import Budget
from proxyguard.registry.claim import Bound
from proxyguard.registry.design import Sampling, Stratified
from proxyguard.registry.requirement import Requirement
from proxyguard.registry.scores import slack_scores
from proxyguard.registry.test import ComponentTest


def score_by_pvalue(evidence: Evidence, *, threshold: float) -> DirectEvidence:
    """Score a release favorably when ``p_r <= t`` (theory section 2).

    Guarantee
    ---------
    An invalid release scores with probability at most ``kappa``, by super-uniformity:
    ``kappa = t``, or the largest attainable p-value not above ``t`` where every test is a
    binomial one on a sample of fixed size.
    """
    return DirectEvidence(
        favorable=int(np.count_nonzero(evidence.release_pvalues <= threshold)),
        n_releases=evidence.n_releases,
        kappa=_threshold_ceiling(evidence, threshold),
        score=f"release p-value <= {threshold:.6g}",
    )


def _threshold_ceiling(evidence: Evidence, threshold: float) -> float:
    counted = (ComponentTest.BINOMIAL, ComponentTest.RANDOMIZED_BINOMIAL)
    fixed = all(r.group is None and not r.indicator for r in evidence.requirements)
    if not fixed or any(test not in counted for test in evidence.tests):
        return threshold
    return max(
        contamination.threshold_ceiling(threshold, two_valued=(n, r.unit_limit))
        for n, r in zip(evidence.n_records, evidence.requirements, strict=True)
    )


def score_by_slack(evidence: Evidence, *, bound: Bound) -> DirectEvidence:
    """Score a release favorably when every mean is at most its cutoff (Eq. (10)).

    The ceiling is Eq. (11) for the paper's bound and the Bentkus or exact binomial one,
    never larger, for the others; Eq. (17) for strata with other weights.
    """
    columns, requirements = evidence.columns, evidence.requirements
    if min(evidence.n_records) == 0:
        return DirectEvidence(
            favorable=0, n_releases=evidence.n_releases, kappa=1.0, score="no record counts"
        )
    means = np.stack([column.mean for column in columns], axis=1)
    return DirectEvidence(
        favorable=int(np.count_nonzero(slack_scores(requirements, means))),
        n_releases=evidence.n_releases,
        kappa=max(
            slack_ceiling(column, requirement, evidence, bound)
            for column, requirement in zip(columns, requirements, strict=True)
        ),
        score="every mean <= limit - slack",
    )


def slack_ceiling(
    column: Column, requirement: Requirement, evidence: Evidence, bound: Bound
) -> float:
    """Return the ceiling of one requirement's slack score."""
    design = evidence.reading.design
    cutoff, v = requirement.unit_cutoff, requirement.unit_limit
    if isinstance(design, Stratified) and not design.proportional:
        return contamination.stratified_ceiling(cutoff, v, float(design.effective_size))
    return contamination.slack_ceiling(
        cutoff,
        v,
        column.n,
        paper=bound is Bound.PAPER,
        two_valued=requirement.two_valued and column.count is not None,
        identical=design.sampling is Sampling.IID,
    )


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
