"""Evidence of unreliability: named violations (Theorem 8), violating scores (theory section 4)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from proxyguard.exact.multiplicity import holm, holm_level
from proxyguard.exact.rounding import Array, weaken_upper
from proxyguard.exact.sharp import default_violation_threshold, sharp_lower, sharp_pvalue
from proxyguard.modes.claim import AtLevels, Levels, MechanismClaim, level, optional_level, read_by
from proxyguard.modes.evidence import DirectEvidence, MechanismEvidence, ReliabilityBound, from_most
from proxyguard.registry import budget as budgets
from proxyguard.registry.budget import Budget
from proxyguard.registry.numbers import flag


def pooled_violations(
    pvalues: Mapping[str, Array], *, level: float
) -> tuple[dict[str, NDArray[np.bool_]], float]:
    """Return the violations that one Holm family over all releases and requirements detects.

    And the level at which it stops: it detects those with a p-value at or below it.
    """
    # One family over everything, not one a member: a second family would be a second budget.
    pooled = np.concatenate([p.ravel() for p in pvalues.values()])
    rejected = holm(pooled, alpha=level)
    ends = np.cumsum([p.size for p in pvalues.values()])
    return {
        member: rejected[end - p.size : end].reshape(p.shape)
        for (member, p), end in zip(pvalues.items(), ends, strict=True)
    }, holm_level(pooled, alpha=level)


def certify_violation(
    violated: NDArray[np.bool_],
    budget: Budget,
    *,
    reliability_target: float,
    level: float | None = None,
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
    return from_most(
        n_releases - detected,  # what was not detected counts as valid
        n_releases,
        budget,
        reliability_target=reliability_target,
        outer="beta_M",
        step=("releases with a detected violation", detected),
        rests_on="Theorem 8",
        level=level,
    )


def score_violations(evidence: MechanismEvidence, *, threshold: float) -> DirectEvidence:
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
        # q_r is J times the least of J p-values (theory section 4).
        level=threshold / evidence.n_requirements,
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
    beta = float(budget.total)
    lower = sharp_lower(evidence.favorable, evidence.n_releases, kappa=evidence.kappa, alpha=beta)
    return ReliabilityBound(
        # `lower` errs downwards and so 1 - `lower` upwards; the subtraction is guarded besides.
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
                # Valid and invalid change places: W shows that 1 - eta exceeds 1 - eta_0.
                target=1.0 - reliability_target,
                kappa=evidence.kappa,
            )
        ),
        outer="beta",
        level=evidence.level,
    )


@dataclass(frozen=True, kw_only=True)
class HolmViolations(MechanismClaim):
    """Releases are named in both directions: violations are detected by Holm (Theorem 8)."""

    release_share: Fraction = level("1/2")  # lambda: alpha_R/alpha and beta_R/beta
    pooled_violations: bool = read_by(flag, True)  # one Holm family over all mechanisms

    def violation_budget(self, beta: Fraction) -> Budget:
        """Return ``beta_R + beta_M = beta``."""
        return budgets.violation_budget(beta, release_share=self.release_share)

    def betting_violation_level(
        self, upper: Budget | None, threshold: Fraction, n_releases: int, n_requirements: int
    ) -> float:
        """Return Holm's first level over releases and requirements."""
        if upper is None:
            return super().betting_violation_level(upper, threshold, n_releases, n_requirements)
        return float(upper.release) / (n_releases * n_requirements)

    def upper_bounds(self, audits: Mapping[str, AtLevels]) -> dict[str, ReliabilityBound | None]:
        """Return the violation bound of each mechanism, from one Holm family or several."""
        family = self.upper_budget()
        if family is None or not self.pooled_violations:
            # Within one mechanism at its local level, a union bound over mechanisms.
            return super().upper_bounds(audits)
        pvalues = {name: evidence.violation_pvalues for name, (evidence, _) in audits.items()}
        violated, stop = pooled_violations(pvalues, level=float(family.release))
        # One Holm family spends beta_R on all mechanisms together; only beta_M is divided.
        return {
            name: certify_violation(
                violated[name],
                levels.violation.replaced("beta_R", family.release),
                reliability_target=self.target,
                level=stop,
            )
            for name, (_, levels) in audits.items()
        }

    def upper_bound(self, evidence: MechanismEvidence, levels: Levels) -> ReliabilityBound:
        """Return the bound of Theorem 8 with a Holm family of this mechanism alone."""
        violated, stop = pooled_violations(
            {"": evidence.violation_pvalues}, level=float(levels.violation.release)
        )
        return certify_violation(
            violated[""], levels.violation, reliability_target=self.target, level=stop
        )


@dataclass(frozen=True, kw_only=True)
class ScoredViolations(MechanismClaim):
    """Releases score as violating, and the scores are counted (theory section 4)."""

    violation_threshold: Fraction | None = optional_level()  # None: the default rule

    def violation_budget(self, beta: Fraction) -> Budget:
        """Return the undivided budget."""
        return budgets.direct_violation_budget(beta)

    def violation_score_threshold(self, local: Budget | None, n_releases: int) -> Fraction:
        """Return the registered level ``t``, or that of the default rule with roles swapped."""
        if self.violation_threshold is not None:
            return self.violation_threshold
        # Nothing is decided without the direction; the level only says where stakes aim.
        if local is None:
            return self.alpha
        return self.default_violation_level(local, n_releases)

    def default_violation_level(self, local: Budget, n_releases: int) -> Fraction:
        """Return the level ``t`` of the default rule."""
        chosen = default_violation_threshold(
            n_releases, target=self.target, beta=float(local.total)
        )
        return local.total / 10 if chosen is None else Fraction(chosen)

    def upper_bound(self, evidence: MechanismEvidence, levels: Levels) -> ReliabilityBound:
        """Return the direct violation bound."""
        scores = score_violations(evidence, threshold=float(levels.violation_threshold))
        return certify_direct_violation(scores, levels.violation, reliability_target=self.target)
