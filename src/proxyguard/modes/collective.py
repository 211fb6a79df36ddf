"""Collective validation on independent batches (Theorem 9, Proposition 10)."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

from proxyguard.exact.multiplicity import Dependence, tail_fisher_count, tail_simes_count
from proxyguard.modes.claim import Levels, Tests, choice, word
from proxyguard.modes.evidence import MechanismEvidence, ReliabilityBound, from_count
from proxyguard.modes.violation import HolmViolations
from proxyguard.registry import budget as budgets
from proxyguard.registry.budget import Budget
from proxyguard.registry.design import Design
from proxyguard.registry.test import Requirements


def certify_collective(
    evidence: MechanismEvidence,
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
    count = count_of(evidence.release_pvalues, alpha=float(budget.release), dependence=dependence)
    return from_count(
        count,
        evidence.n_releases,
        budget,
        reliability_target=reliability_target,
        outer="alpha_M",
        label=f"valid releases at least (tail-{combination.capitalize()})",
        rests_on="Theorem 9, Eqs. (15)-(16)",
    )


@dataclass(frozen=True, kw_only=True)
class Collective(HolmViolations):
    """Valid releases are counted together, each scored on records of its own."""

    mode: ClassVar[str] = "collective"
    own_batches: ClassVar[bool] = True

    dependence: Dependence = choice(Dependence, Dependence.ARBITRARY)
    combination: str = word("simes", "fisher")

    def lower_budget(self) -> Budget:
        """Return ``alpha_R + alpha_M = alpha``."""
        return budgets.named_budget(self.alpha, release_share=self.release_share)

    def betting_level(self, lower: Budget, threshold: Fraction, n_releases: int) -> float:
        """Return the level of the combined p-value."""
        return float(lower.release)

    def objections(self, design: Design, requirements: Requirements, tests: Tests) -> list[str]:
        """Return what Theorem 9 does not cover."""
        if self.dependence is Dependence.ARBITRARY:
            return [
                "collective mode needs release p-values stated to be independent or PRDS, which "
                "means a separate batch of target records for each release (Theorem 9)"
            ]
        if self.combination == "fisher" and self.dependence is Dependence.PRDS:
            return ["tail-Fisher needs independent release p-values; PRDS is not enough"]
        return []

    def stated(self) -> dict[str, str | None]:
        """Return the mode and the stated dependence."""
        return {**super().stated(), "dependence": self.dependence.value}

    def assertions(self) -> list[str]:
        """Return the stated dependence as a sentence."""
        words = {Dependence.INDEPENDENT: "independent", Dependence.PRDS: "PRDS"}
        return [
            f"release p-values are {words[self.dependence]}, each release having its own batch of "
            "target records"
        ]

    def lower_bound(self, evidence: MechanismEvidence, levels: Levels) -> ReliabilityBound:
        """Return the bound of Theorem 9."""
        return certify_collective(
            evidence,
            levels.lower,
            reliability_target=self.target,
            dependence=self.dependence,
            combination=self.combination,
        )
