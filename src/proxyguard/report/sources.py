"""What a report is built from: the documents of a sealed audit, or a certificate in memory.

Both give the same type. What a certificate in memory does not have, a ledger, a registry, draws
on record, is nothing here, and its page says nothing of it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import singledispatch
from typing import Any

from proxyguard.certificate import wording
from proxyguard.certificate.certify_releases import ReleaseCertificate
from proxyguard.certificate.mechanism import Certificate, FamilyCertificate
from proxyguard.documents.certificate import (
    ClaimStatusRecord,
    Failure,
    MechanismVerdict,
    PicksRecord,
    Predicate,
    ReleaseFamily,
    ReleaseVerdict,
    VerdictRecord,
)
from proxyguard.documents.evidence import GroupEvidence
from proxyguard.documents.ledger import LedgerBody
from proxyguard.documents.registry import Registry
from proxyguard.documents.releases import ReleaseManifest
from proxyguard.evidence.record import evidence_record
from proxyguard.seal.ledger import Entry

IN_MEMORY = ClaimStatusRecord(
    evidence="losses given by the caller",
    lineage="not known here",
    registered="no",
    guarantee="as far as what the caller asserts is so",
)
"""What there is to say of a claim that nothing was registered or sealed for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Levels:
    """The error levels that a claim spends, exactly."""

    alpha: Fraction
    beta: Fraction | None
    pooled: bool = False  # whether all mechanisms spend the releases' part of beta together


@dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    """A certificate with its evidence, and of a sealed audit the record around it."""

    name: str
    purpose: str
    attestation: str
    status: ClaimStatusRecord
    verdicts: tuple[VerdictRecord, ...]
    not_claimed: tuple[str, ...]
    groups: Mapping[str, GroupEvidence]
    levels: Levels
    family: ReleaseFamily | None = None
    predicate: Predicate | None = None
    registry: Registry | None = None
    manifest: ReleaseManifest | None = None  # none where draws follow the opening
    ledger: Sequence[Entry[LedgerBody]] = ()
    signer: str = ""
    subjects: Mapping[str, str] = field(default_factory=dict)
    head: str = ""  # digest of the ledger's last entry
    advice: Sequence[Mapping[str, Any]] = ()

    @property
    def picks(self) -> PicksRecord | None:
        """The e-values for choosing releases after looking, if a budget was registered."""
        return None if self.predicate is None else self.predicate.picks

    @property
    def failed(self) -> Mapping[str, tuple[Failure, ...]]:
        """The draws that gave no release, by mechanism."""
        return {} if self.predicate is None else self.predicate.failed

    @property
    def group_names(self) -> list[str]:
        """Under which names releases were read together, in the order of the verdicts."""
        return self.in_order(self.groups)

    @property
    def limits(self) -> list[tuple[str, str]]:
        """Every requirement with its limit, as registered or as given."""
        if self.registry is None:
            return [
                pair
                for group in self.groups.values()
                for pair in zip(group.requirements, group.limits, strict=True)
            ]
        return [
            (resolved.part.name, resolved.limit.value)
            for member in self.registry.members.values()
            for resolved in member.requirements
        ]

    def in_order(self, names: Sequence[str] | Mapping[str, object]) -> list[str]:
        """Return names in the order of the verdicts; JSON sorts them, people do not."""
        order = [verdict.mechanism for verdict in self.verdicts]
        return sorted(names, key=lambda name: (order.index(name) if name in order else -1, name))

    def verdict(self, mechanism: str) -> VerdictRecord | None:
        """Return the verdict on a mechanism, if there is one on all of it."""
        return next((one for one in self.verdicts if one.mechanism == mechanism), None)

    def rules(self, group: str) -> dict[str, str]:
        """Return the rule that each limit of a group came from, by declared requirement."""
        if self.registry is None:
            return dict.fromkeys(self.groups[group].requirements, "as given")
        members = self.registry.members
        member = members[group] if group in members else next(iter(members.values()))
        return {resolved.part.name: resolved.limit.rule for resolved in member.requirements}


@singledispatch
def sources_of(value: object) -> Sources:
    """Return what a page of a certificate in memory is built from."""
    raise TypeError(f"{type(value).__name__} has no page of its own")


@sources_of.register
def _(value: Certificate) -> Sources:
    return _mechanisms({value.mechanism: value})


@sources_of.register
def _(value: FamilyCertificate) -> Sources:
    return _mechanisms(value)


@sources_of.register
def _(value: ReleaseCertificate) -> Sources:
    claim = value.claim
    family = value.to_dict()
    del family["verdicts"]
    verdicts = tuple(
        ReleaseVerdict.model_validate(
            {
                **(said := verdict.to_dict()),
                "mechanism": verdict.name,
                "sentence": wording.release_sentence(said, alpha=claim.alpha, beta=claim.beta),
            },
            strict=False,
        )
        for verdict in value.verdicts
    )
    return Sources(
        name="Named releases",
        purpose=_PURPOSE,
        attestation=wording.ASSERTED,
        status=IN_MEMORY,
        verdicts=verdicts,
        not_claimed=wording.not_claimed(value.requirements),
        groups={name: evidence_record(evidence) for name, evidence in value.evidence.items()},
        levels=Levels(alpha=claim.alpha, beta=claim.beta),
        family=ReleaseFamily.model_validate(family, strict=False),
    )


_PURPOSE = "Certified from losses in memory."


def _mechanisms(family: Mapping[str, Certificate]) -> Sources:
    first = next(iter(family.values()))
    return Sources(
        name=first.mechanism if len(family) == 1 else "Family of mechanisms",
        purpose=_PURPOSE,
        attestation=wording.ASSERTED,
        status=IN_MEMORY,
        verdicts=tuple(
            # Release p-values, adjusted for reading, are written beside a sealed verdict alone.
            MechanismVerdict.model_validate(
                {**certificate.to_dict(), "adjusted_release_pvalues": {}}, strict=False
            )
            for certificate in family.values()
        ),
        not_claimed=wording.not_claimed(first.evidence.requirements),
        groups={name: evidence_record(one.evidence) for name, one in family.items()},
        levels=Levels(
            alpha=first.claim.alpha,
            beta=first.claim.beta,
            pooled=bool(first.claim.choices().get("pooled_violations")),
        ),
    )
