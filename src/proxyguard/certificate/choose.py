"""Which certificate a registered mode stands for, from evidence to bounds."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from proxyguard.evidence.releases import ReleaseEvidence
from proxyguard.modes.block import certify_block, score_by_block
from proxyguard.modes.bound import ReliabilityBound
from proxyguard.modes.collective import certify_collective
from proxyguard.modes.count import (
    ValidCount,
    calibrated_evalues,
    capital_evalues,
    certify_count,
    certify_count_violation,
    violation_evalues,
)
from proxyguard.modes.direct import (
    certify_direct,
    certify_rescaled,
    certify_sharp,
    score_by_pvalue,
    score_by_slack,
)
from proxyguard.modes.evidence import DirectEvidence
from proxyguard.modes.hybrid import certify_hybrid
from proxyguard.modes.named import certify_named
from proxyguard.modes.smooth import (
    certify_smooth,
    certify_smooth_rescaled,
    certify_smooth_sharp,
    score_by_ramp,
)
from proxyguard.modes.violation import (
    certify_direct_violation,
    certify_violation,
    pooled_violations,
    score_violations,
)
from proxyguard.registry.budget import Budget
from proxyguard.registry.claim import COUNTED, Bound, Claim, Mode, Score
from proxyguard.registry.levels import Levels, upper_budget

Audit = tuple[ReleaseEvidence, Levels]


def lower_bound(
    claim: Claim, evidence: ReleaseEvidence, levels: Levels
) -> tuple[ReliabilityBound, ValidCount | None]:
    """Return the lower bound of the registered mode, and the count of valid releases it made."""
    target, budget = claim.target, levels.lower
    if claim.mode is Mode.NAMED:
        return certify_named(evidence, budget, reliability_target=target), None
    if claim.mode is Mode.COLLECTIVE:
        return certify_collective(
            evidence,
            budget,
            reliability_target=target,
            dependence=claim.dependence,
            combination=claim.combination,
        ), None
    if claim.mode is Mode.DIRECT:
        return _direct_bound(claim, evidence, levels, budget), None
    if claim.mode is Mode.HYBRID:
        named = certify_named(evidence, budget, reliability_target=target)
        assert levels.direct is not None  # the hybrid has a direct budget
        direct = _direct_bound(claim, evidence, levels, levels.direct)
        return certify_hybrid(named, direct, alpha=claim.alpha * levels.share), None
    if claim.mode is Mode.SMOOTH:
        return _smooth_bound(claim, evidence, levels), None
    if claim.mode is Mode.BLOCK:
        size = evidence.reading.block_size
        assert size is not None  # a claim in block mode has one
        return certify_block(score_by_block(evidence, block_size=size), budget), None
    count = _valid_count(claim, evidence, levels)
    return certify_count(count, budget, reliability_target=target), count


def _direct_bound(
    claim: Claim, evidence: ReleaseEvidence, levels: Levels, budget: Budget
) -> ReliabilityBound:
    scores = _scores(claim, evidence, levels)
    if claim.bound is Bound.SHARP:
        return certify_sharp(scores, budget, reliability_target=claim.target)
    bound: Callable[..., ReliabilityBound] = (
        certify_direct if claim.bound is Bound.PAPER else certify_rescaled
    )
    return bound(scores, budget)


def _scores(claim: Claim, evidence: ReleaseEvidence, levels: Levels) -> DirectEvidence:
    if claim.score is Score.SLACK:
        return score_by_slack(evidence, bound=claim.bound)
    return score_by_pvalue(evidence, threshold=float(levels.threshold))


def _smooth_bound(claim: Claim, evidence: ReleaseEvidence, levels: Levels) -> ReliabilityBound:
    scores = score_by_ramp(evidence)
    if claim.bound is Bound.SHARP:
        return certify_smooth_sharp(scores, levels.lower, reliability_target=claim.target)
    if claim.bound is Bound.RESCALED:
        return certify_smooth_rescaled(scores, levels.lower)
    return certify_smooth(scores, levels.lower)


def _valid_count(claim: Claim, evidence: ReleaseEvidence, levels: Levels) -> ValidCount:
    evalues: Sequence[float | Fraction]
    if claim.calibrator == "capital":
        evalues = capital_evalues(evidence)
    else:
        thresholds = claim.thresholds or (levels.threshold,)
        evalues = calibrated_evalues(evidence, thresholds=thresholds)
    return ValidCount(releases=evidence.releases, evalues=evalues, alpha=levels.lower["alpha_Z"])


def upper_bounds(claim: Claim, audits: Mapping[str, Audit]) -> dict[str, ReliabilityBound | None]:
    """Return the violation bound of each mechanism: Holm where releases are named, else direct."""
    if claim.beta is None:
        return dict.fromkeys(audits)
    target = claim.target
    if claim.mode in COUNTED:
        found = _holm_violations(claim, audits)
        return {
            name: certify_violation(violated, budget, reliability_target=target)
            for name, (violated, budget) in found.items()
        }
    if claim.mode is Mode.COUNT:
        return {
            name: certify_count_violation(
                violation_evalues(evidence, thresholds=(levels.violation_threshold,)),
                _upper(levels),
                reliability_target=target,
            )
            for name, (evidence, levels) in audits.items()
        }
    return {
        name: certify_direct_violation(
            score_violations(evidence, threshold=float(levels.violation_threshold)),
            _upper(levels),
            reliability_target=target,
        )
        for name, (evidence, levels) in audits.items()
    }


def _holm_violations(
    claim: Claim, audits: Mapping[str, Audit]
) -> dict[str, tuple[NDArray[np.bool_], Budget]]:
    """Return the detected violations of each mechanism, and the budget that paid for them."""
    pvalues = {name: evidence.violation_pvalues for name, (evidence, _) in audits.items()}
    if not claim.pooled_violations:
        # Within one mechanism at its local level, a union bound over mechanisms.
        return {
            name: (
                pooled_violations({name: pvalues[name]}, level=float(_upper(levels)["beta_R"]))[
                    name
                ],
                _upper(levels),
            )
            for name, (_, levels) in audits.items()
        }
    family = upper_budget(claim)
    assert family is not None  # the caller checked beta
    violated = pooled_violations(pvalues, level=float(family["beta_R"]))
    # One Holm family spends beta_R on all mechanisms together; only beta_M is divided.
    return {
        name: (violated[name], _upper(levels).replaced("beta_R", family["beta_R"]))
        for name, (_, levels) in audits.items()
    }


def _upper(levels: Levels) -> Budget:
    assert levels.upper is not None  # set whenever the claim has a violation direction
    return levels.upper
