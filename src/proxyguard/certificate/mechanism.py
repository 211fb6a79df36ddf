"""The certificate of one mechanism, and of a family of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from proxyguard.certificate import wording
from proxyguard.evidence.releases import ReleaseEvidence
from proxyguard.exact.multiplicity import holm, holm_adjusted
from proxyguard.extras import need
from proxyguard.modes.claim import MechanismClaim
from proxyguard.modes.count import ValidCount
from proxyguard.modes.evidence import Decision, ReliabilityBound
from proxyguard.printable import ShownAsPage
from proxyguard.registry.budget import Budget
from proxyguard.registry.test import Family

if TYPE_CHECKING:
    import pandas as pd

    from proxyguard.documents.canonical import Plain


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Certificate(ShownAsPage):
    """The verdict on one mechanism, with all that a reader needs to follow it.

    `certify` makes it. ``reliability_lower`` and ``reliability_upper`` are one-sided bounds with
    separate budgets. In a family certified for decisions they are ``eta_0`` where the decision
    says so and trivial elsewhere, because nothing more is certified there.

    Attributes
    ----------
    mechanism
        Its name.
    decision
        Validated, unresolved or violation.
    claim
        What was claimed, and at which levels.
    evidence
        All that the decision looked at: statistics and p-values of every release.
    lower, upper
        The bounds of the two directions with the counts and budgets behind them; no ``upper``
        where there is no violation direction.
    n_mechanisms
        How many mechanisms share the budgets.
    certified
        Whether the bounds are certified, or the decisions alone.
    adjusted_pvalue
        Holm's over the family, where that decided.
    count
        How many of any releases that one picks are valid, where the mode says so.
    seed_given
        Whether the caller gave the seed.
    notes
        What there is to say about levels and thresholds.
    basis
        Who stands for the order of choices and losses.

    Examples
    --------
    >>> from proxyguard import Requirement, certify
    >>> error = Requirement(name="error", low=0, high=1, limit=0.10, two_valued=True)
    >>> certificate = certify(np.zeros((40, 300, 1)), [error], reliability_target=0.8)
    >>> print(certificate.sentence)
    With 95 % confidence, at least 91.8 % of future releases of this mechanism meet the requirement
    'error' on the registered target.
    """

    mechanism: str
    decision: Decision
    claim: MechanismClaim
    evidence: ReleaseEvidence
    lower: ReliabilityBound
    upper: ReliabilityBound | None
    n_mechanisms: int = 1
    certified: Family = Family.BOUNDS
    adjusted_pvalue: float | None = None  # Holm over the family, where that decided
    count: ValidCount | None = None
    seed_given: bool = True
    notes: tuple[str, ...] = ()
    basis: str = wording.ASSERTED

    @property
    def reliability_target(self) -> float:
        """``eta_0``."""
        return self.claim.target

    @property
    def certifies_bounds(self) -> bool:
        """Whether the bounds themselves are certified, not only the decision."""
        return self.certified is Family.BOUNDS

    @property
    def reliability_lower(self) -> float:
        """A lower confidence bound on the chance that a fresh release is valid."""
        if self.certifies_bounds:
            return self.lower.value
        return self.reliability_target if self.decision is Decision.VALIDATED else 0.0

    @property
    def reliability_upper(self) -> float:
        """An upper confidence bound on the chance that a fresh release is valid."""
        if self.upper is None:
            return 1.0
        if self.certifies_bounds:
            return self.upper.value
        return self.reliability_target if self.decision is Decision.VIOLATION else 1.0

    @property
    def joint_coverage(self) -> Fraction:
        """The level at which the lower and the upper bound hold together, by a union bound."""
        beta = self.claim.beta if self.upper is not None else None
        return 1 - self.claim.alpha - (beta or 0)

    @property
    def sentence(self) -> str:
        """The verdict as a sentence for a person who has to decide."""
        return wording.mechanism_sentence(self)

    def __str__(self) -> str:
        return wording.mechanism_text(self)

    def to_dict(self) -> dict[str, Plain]:
        """Return the certificate as plain values, ready for JSON."""
        return {
            "mechanism": self.mechanism,
            "decision": self.decision.value,
            "sentence": self.sentence,
            "reliability_target": self.reliability_target,
            "reliability_lower": self.reliability_lower,
            "reliability_upper": self.reliability_upper,
            "joint_coverage": float(self.joint_coverage) if self.certifies_bounds else None,
            "certified": self.certified.value,
            "adjusted_pvalue": self.adjusted_pvalue,
            "adjusted_pvalue_level": self.lower.outer if self.adjusted_pvalue is not None else None,
            **self.claim.stated(),
            "tests": {
                r.name: t.value
                for r, t in zip(self.evidence.requirements, self.evidence.tests, strict=True)
            },
            "n_releases": self.evidence.n_releases,
            "n_records": {
                r.name: n
                for r, n in zip(self.evidence.requirements, self.evidence.n_records, strict=True)
            },
            "lower": _bound_dict(self.lower),
            "upper": None if self.upper is None else _bound_dict(self.upper),
            "design": repr(self.evidence.reading.design),
            "seed": self.evidence.reading.seed,
            "seed_given_by_caller": self.seed_given,
            "basis": self.basis,
            "not_claimed": list(wording.not_claimed(self.evidence.requirements)),
            "notes": list(self.notes),
        }

    def to_frame(self) -> pd.DataFrame:
        """Return one row for each release and requirement: estimate, bounds, p-values."""
        return evidence_frame(self.mechanism, self.evidence)


@dataclass(frozen=True, slots=True, eq=False)
class FamilyCertificate(ShownAsPage, Mapping[str, Certificate]):
    """Certificates of several mechanisms under one registered family budget.

    `certify` makes it of a mapping; it is one itself, of names to certificates.

    Attributes
    ----------
    members
        The certificate of each mechanism.

    Examples
    --------
    >>> from proxyguard import Requirement, certify
    >>> error = Requirement(name="error", low=0, high=1, limit=0.10, two_valued=True)
    >>> losses = {"good": np.zeros((60, 300, 1)), "bad": np.ones((60, 300, 1))}
    >>> family = certify(losses, [error], reliability_target=0.8)
    >>> {name: str(decision) for name, decision in family.decisions.items()}
    {'good': 'validated', 'bad': 'violation'}
    """

    members: Mapping[str, Certificate]

    def __getitem__(self, name: str) -> Certificate:
        return self.members[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.members)

    def __len__(self) -> int:
        return len(self.members)

    @property
    def decisions(self) -> dict[str, Decision]:
        """The decision on each mechanism."""
        return {name: certificate.decision for name, certificate in self.items()}

    def __str__(self) -> str:
        return wording.family_text(self)

    def to_dict(self) -> dict[str, Plain]:
        """Return every certificate as plain values, ready for JSON."""
        return {name: certificate.to_dict() for name, certificate in self.items()}

    def to_frame(self) -> pd.DataFrame:
        """Return the evidence of all mechanisms, one row a release and requirement."""
        need("to_frame()", ["pandas"])
        import pandas as pd

        return pd.concat([c.to_frame() for c in self.values()], ignore_index=True)


def decide(
    certificates: Mapping[str, Certificate], *, outer: Budget, outer_violation: Budget | None
) -> dict[str, Certificate]:
    """Return the certificates with their decisions, for one mechanism or a family.

    Simultaneous bounds decide by crossing the target: ``L > eta_0`` or ``U < eta_0``,
    strictly. Familywise decisions come from Holm over the mechanisms' p-values, each
    direction at its own family budget. Bounds without a p-value hold simultaneously as
    they are, at their local levels, and decide as bounds.
    """
    # Strictly above: a bound that equals the target has not shown that more is reliable.
    lowers = [certificate.lower for certificate in certificates.values()]
    uppers = [c.upper for c in certificates.values() if c.upper is not None]
    wanted = next(iter(certificates.values())).claim.family
    # One claim makes all bounds of a family, so that all of them have a p-value or none has.
    by_holm = len(lowers) > 1 and wanted is Family.DECISIONS and lowers[0].outer is not None
    adjusted: list[float | None] = [None] * len(lowers)
    if by_holm:
        above, adjusted = _holm(lowers, outer)
        below = _holm(uppers, outer_violation)[0] if outer_violation else [False] * len(lowers)
    else:
        above = [c.lower.value > c.reliability_target for c in certificates.values()]
        below = [
            c.upper is not None and c.upper.value < c.reliability_target
            for c in certificates.values()
        ]
    decided = {}
    for i, (name, certificate) in enumerate(certificates.items()):
        notes = list(certificate.notes)
        upper = certificate.upper
        crossed = upper is not None and certificate.lower.value > upper.value
        # Crossed bounds show that one of them is wrong, and not which. Where Holm decides the
        # bounds are not certified, and their crossing decides nothing.
        conflict = (above[i] and below[i]) or (crossed and not by_holm)
        if conflict:
            notes.append(wording.CONFLICT)
        if len(lowers) > 1 and wanted is Family.DECISIONS and not by_holm:
            notes.append(wording.BOUNDS_INSTEAD)
        decided[name] = replace(
            certificate,
            decision=Decision.UNRESOLVED if conflict else _decision(above[i], below[i]),
            adjusted_pvalue=adjusted[i],
            n_mechanisms=len(lowers),
            certified=Family.DECISIONS if by_holm else Family.BOUNDS,
            notes=tuple(notes),
        )
    return decided


def _holm(bounds: list[ReliabilityBound], family: Budget) -> tuple[list[bool], list[float | None]]:
    """Return Holm's rejections at the family's outer level, and adjusted p-values."""
    outer = bounds[0].outer
    assert outer is not None  # the caller checked that the bounds have p-values
    pvalues = np.array([bound.pvalue for bound in bounds], dtype=np.float64)
    # The family's level, undivided: Holm itself pays for the number of mechanisms. What was spent
    # before there was a p-value, alpha_R or alpha_Z, was divided among them.
    rejected = holm(pvalues, alpha=float(family[outer]))
    return [bool(r) for r in rejected], [float(a) for a in holm_adjusted(pvalues)]


def _decision(above: bool, below: bool) -> Decision:
    if above == below:
        return Decision.UNRESOLVED
    return Decision.VALIDATED if above else Decision.VIOLATION


def evidence_frame(mechanism: str, evidence: ReleaseEvidence) -> pd.DataFrame:
    """Return the evidence as a table, one row for each release and requirement."""
    need("to_frame()", ["pandas"])
    import pandas as pd

    n_releases, n_requirements = evidence.pvalues.shape
    repeat = np.repeat(np.arange(n_releases), n_requirements)
    tile = np.tile(np.arange(n_requirements), n_releases)
    requirements = evidence.requirements
    return pd.DataFrame(
        {
            "mechanism": mechanism,
            "release": [evidence.releases[r] for r in repeat],
            "requirement": [requirements[j].name for j in tile],
            "n": [evidence.n_records[j] for j in tile],
            "estimate": evidence.estimates.ravel(),
            "lower": evidence.lower.ravel(),
            "upper": evidence.upper.ravel(),
            "limit": [requirements[j].limit for j in tile],
            "pvalue": evidence.pvalues.ravel(),
            "violation_pvalue": evidence.violation_pvalues.ravel(),
            "test": [evidence.tests[j].value for j in tile],
        }
    )


def _bound_dict(bound: ReliabilityBound) -> dict[str, Plain]:
    return {
        "value": bound.value,
        "rests_on": bound.rests_on,
        "pvalue": bound.pvalue,
        "steps": [{"label": label, "value": value} for label, value in bound.steps],
        "budget": bound.budget.to_list(),
    }
