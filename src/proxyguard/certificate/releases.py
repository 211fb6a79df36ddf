"""Named releases without any mechanism (Theorem 4) and their violations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from proxyguard.evidence.releases import ReleaseEvidence
from proxyguard.exact.multiplicity import holm, holm_adjusted
from proxyguard.modes.decision import Decision
from proxyguard.modes.violation import pooled_violations
from proxyguard.registry.budget import Budget

if TYPE_CHECKING:
    from proxyguard.documents.canonical import Plain

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseVerdict:
    """The decision on one named release, with its Holm-adjusted p-values for reading."""

    member: str
    release: str
    decision: Decision
    pvalue: float
    adjusted: float
    binding: str  # the requirement with the largest p-value
    violated: tuple[str, ...]  # requirements detected above their limit

    @property
    def name(self) -> str:
        """What the release is called beside those of other members."""
        return f"{self.member}/{self.release}"

    def to_dict(self) -> dict[str, Plain]:
        """Return plain values, ready for JSON."""
        return {
            "member": self.member,
            "release": self.release,
            "decision": self.decision.value,
            "pvalue": self.pvalue,
            "adjusted": self.adjusted,
            "binding": self.binding,
            "violated": list(self.violated),
        }


def decide_releases(
    family: Mapping[str, ReleaseEvidence], *, alpha: Budget, beta: Budget | None
) -> tuple[ReleaseVerdict, ...]:
    """Validate named releases of one registered family, whatever targets they were audited on.

    Members may have their own source, target, requirements and number of records: one
    Holm family covers them all.

    Guarantee
    ---------
    Paper Theorem 4: with probability at least ``1 - alpha`` no validated release is
    invalid, under any dependence between requirements and releases. Separately, with
    probability at least ``1 - beta``, no requirement is called violated that is met: Holm
    over every release and requirement of the family.
    """
    pvalues = np.concatenate([evidence.release_pvalues for evidence in family.values()])
    recognized = holm(pvalues, alpha=float(alpha.total))
    adjusted = holm_adjusted(pvalues)
    violated = _violations(family, beta)
    verdicts, place = [], 0
    for member, evidence in family.items():
        for r, release in enumerate(evidence.releases):
            names = tuple(
                requirement.name
                for j, requirement in enumerate(evidence.requirements)
                if violated[member][r, j]
            )
            verdicts.append(
                ReleaseVerdict(
                    member=member,
                    release=release,
                    decision=_decision(bool(recognized[place]), bool(names)),
                    pvalue=float(pvalues[place]),
                    adjusted=float(adjusted[place]),
                    binding=evidence.requirements[int(evidence.binding[r])].name,
                    violated=names,
                )
            )
            place += 1
    return tuple(verdicts)


def _violations(
    family: Mapping[str, ReleaseEvidence], beta: Budget | None
) -> dict[str, NDArray[np.bool_]]:
    if beta is None:
        return {m: np.zeros(e.violation_pvalues.shape, dtype=bool) for m, e in family.items()}
    return pooled_violations(
        {m: e.violation_pvalues for m, e in family.items()}, level=float(beta.total)
    )


def _decision(validated: bool, violated: bool) -> Decision:
    # Both at once can only be an error of one direction or the other.
    if validated == violated:
        return Decision.UNRESOLVED
    return Decision.VALIDATED if validated else Decision.VIOLATION
