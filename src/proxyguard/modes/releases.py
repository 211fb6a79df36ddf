"""Named releases, and no mechanism that made them (Theorem 4)."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

from proxyguard.modes.claim import Claim
from proxyguard.registry import budget as budgets
from proxyguard.registry.budget import Budget


@dataclass(frozen=True, kw_only=True)
class Releases(Claim):
    """The claim that every validated release meets its requirements.

    It is decided over the whole family by `certificate.releases.decide_releases`.
    """

    mode: ClassVar[str] = "releases"

    def lower_budget(self) -> Budget:
        """Return the undivided budget of Theorem 4."""
        return budgets.release_budget(self.alpha)

    def violation_budget(self, beta: Fraction) -> Budget:
        """Return the undivided budget of the violations, Holm over releases and requirements."""
        return budgets.direct_violation_budget(beta)

    def betting_level(self, lower: Budget, threshold: Fraction, n_releases: int) -> float:
        """Return Holm's first level."""
        return float(lower.total) / n_releases

    def betting_violation_level(
        self, upper: Budget | None, threshold: Fraction, n_releases: int, n_requirements: int
    ) -> float:
        """Return Holm's first level over releases and requirements."""
        if upper is None:
            return super().betting_violation_level(upper, threshold, n_releases, n_requirements)
        return float(upper.total) / (n_releases * n_requirements)
