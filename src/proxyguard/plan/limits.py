"""What an audit needs at the least, whatever its releases score: ours and the paper's limits.

The paper's own limits (Propositions 14, 17 and 18, Theorem 15) are in `exact.planning`, ours in
the modes. Everything here is necessary: where it fails, no outcome at all can validate.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from proxyguard.exact.mean import log_chernoff
from proxyguard.exact.planning import (
    direct_shortfall,
    least_records,
    least_releases_named,
    sufficient_records_named,
)
from proxyguard.modes.claim import Requirements
from proxyguard.modes.planning import AuditPlan, Needs


def needs(requirements: Requirements, audit: AuditPlan) -> Needs:
    """Return the necessary limits of one audit, and why it cannot succeed if it cannot."""
    return audit.claim.needs(audit, requirements, audit.levels(requirements))


@dataclass(frozen=True, slots=True, kw_only=True)
class PaperLimits:
    """What the paper's own statements say about one size."""

    least_records: int | None  # Proposition 14, for registered slacks
    least_releases: int  # Proposition 18
    sufficient_records: int | None  # Proposition 17; None: some margin is not positive
    direct_shortfall: float | None  # Theorem 15, at half the margin as slack

    def to_dict(self) -> dict[str, Any]:
        """Return plain values."""
        return {
            "proposition_14_least_records": self.least_records,
            "proposition_18_least_releases": self.least_releases,
            "proposition_17_sufficient_records": self.sufficient_records,
            "theorem_15_direct_shortfall": self.direct_shortfall,
        }


def paper_limits(
    requirements: Requirements, margins: Sequence[float], audit: AuditPlan, *, failure: float = 0.1
) -> PaperLimits:
    """Return the paper's necessary and sufficient sizes, budgets split in halves.

    ``failure`` is the chance that a sufficient size falls short nevertheless.
    """
    alpha = float(audit.claim.alpha) / audit.mechanisms
    target = audit.claim.target
    margin, width = min(margins), max(r.width for r in requirements)
    least = None
    if all(r.slack is not None for r in requirements):
        divergence = min(-float(log_chernoff(r.unit_cutoff, 1, r.unit_limit)) for r in requirements)
        least = least_records(divergence, target=target, alpha_target=alpha / 2)
    positive = margin > 0.0
    return PaperLimits(
        least_records=least,
        least_releases=least_releases_named(target=target, alpha_mechanism=alpha / 2),
        sufficient_records=sufficient_records_named(
            margin=margin, width=width, alpha=alpha / 2, beta=failure,
            n_releases=audit.releases, n_requirements=len(requirements),
        ) if positive else None,
        direct_shortfall=direct_shortfall(
            n_records=audit.n, n_releases=audit.releases, n_requirements=len(requirements),
            margin=margin, slack=margin / 2, width=width, budget=(alpha / 2, alpha / 2),
            failure=(failure / 2, failure / 2),
        ) if positive else None,
    )  # fmt: skip
