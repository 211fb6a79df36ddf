"""How many releases score favorably, and how often an invalid one could (Eqs. 10-11)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from proxyguard.evidence.component import effective_size
from proxyguard.evidence.releases import ReleaseEvidence
from proxyguard.exact import contamination
from proxyguard.losses.cell import Column
from proxyguard.registry.claim import Bound
from proxyguard.registry.design import Sampling
from proxyguard.registry.requirement import Requirement
from proxyguard.registry.scores import slack_scores
from proxyguard.registry.test import ComponentTest


@dataclass(frozen=True, slots=True, kw_only=True)
class DirectEvidence:
    """Favorable scores and the ceiling ``kappa`` that belongs to the very same score."""

    favorable: int
    n_releases: int
    kappa: float
    score: str  # what a favorable score is, in words


def score_by_pvalue(evidence: ReleaseEvidence, *, threshold: float) -> DirectEvidence:
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


def _threshold_ceiling(evidence: ReleaseEvidence, threshold: float) -> float:
    counted = (ComponentTest.BINOMIAL, ComponentTest.RANDOMIZED_BINOMIAL)
    fixed = all(r.group is None and not r.indicator for r in evidence.requirements)
    if not fixed or any(test not in counted for test in evidence.tests):
        return threshold
    return max(
        contamination.threshold_ceiling(threshold, two_valued=(n, r.unit_limit))
        for n, r in zip(evidence.n_records, evidence.requirements, strict=True)
    )


def score_violations(evidence: ReleaseEvidence, *, threshold: float) -> DirectEvidence:
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


def score_by_slack(evidence: ReleaseEvidence, *, bound: Bound) -> DirectEvidence:
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
    column: Column, requirement: Requirement, evidence: ReleaseEvidence, bound: Bound
) -> float:
    """Return the ceiling of one requirement's slack score."""
    design = evidence.reading.design
    cutoff, v = requirement.unit_cutoff, requirement.unit_limit
    if design.sampling is Sampling.WEIGHTED:
        return contamination.stratified_ceiling(cutoff, v, effective_size(column, design))
    return contamination.slack_ceiling(
        cutoff,
        v,
        column.n,
        paper=bound is Bound.PAPER,
        two_valued=requirement.two_valued and column.count is not None,
        identical=design.sampling is Sampling.IID,
    )
