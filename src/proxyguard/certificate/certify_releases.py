"""One call from losses to verdicts on named releases (Theorem 4)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Unpack

from proxyguard.certificate import wording
from proxyguard.certificate.certify import AnyLosses, naming, reading_of
from proxyguard.certificate.mechanism import evidence_frame
from proxyguard.certificate.releases import ReleaseVerdict, decide_releases
from proxyguard.errors import RegistryError
from proxyguard.evidence.releases import ReleaseEvidence, gather_evidence
from proxyguard.losses.array import as_losses
from proxyguard.losses.read import check_records
from proxyguard.losses.records import Records
from proxyguard.modes.catalog import NO_MECHANISM, Choices, about_mechanism
from proxyguard.modes.claim import Claim
from proxyguard.modes.decision import Decision
from proxyguard.pages import fragment_of, page_of
from proxyguard.registry.design import Design, Iid, as_design
from proxyguard.registry.numbers import as_seed
from proxyguard.registry.requirement import Requirement, as_requirements

if TYPE_CHECKING:
    import pandas as pd

    from proxyguard.documents.canonical import Plain


@dataclass(frozen=True, slots=True, eq=False)
class Member:
    """One member of a family of named releases, with its own target and requirements."""

    losses: AnyLosses
    requirements: Sequence[Requirement]
    design: Design = field(default_factory=Iid)
    records: Records | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ReleaseCertificate:
    """Verdicts on named releases: no mechanism, no reliability (Theorem 4)."""

    verdicts: tuple[ReleaseVerdict, ...]
    claim: Claim
    evidence: Mapping[str, ReleaseEvidence]
    seed: int
    seed_given: bool
    basis: str = wording.ASSERTED

    @property
    def validated(self) -> tuple[str, ...]:
        """The validated releases, as ``member/release``."""
        return tuple(v.name for v in self.verdicts if v.decision is Decision.VALIDATED)

    @property
    def requirements(self) -> tuple[Requirement, ...]:
        """The different requirements of the family, in order of appearance."""
        seen = {r: None for e in self.evidence.values() for r in e.requirements}
        return tuple(seen)

    def __str__(self) -> str:
        return wording.releases_text(self)

    def to_html(self) -> str:
        """Return the certificate as a page of its own, which asks for nothing from outside."""
        return page_of(self)

    def _repr_html_(self) -> str:
        return fragment_of(self)

    def to_dict(self) -> dict[str, Plain]:
        """Return the verdicts as plain values, ready for JSON."""
        return {
            "mode": self.claim.mode,
            "alpha": str(self.claim.alpha),
            "beta": None if self.claim.beta is None else str(self.claim.beta),
            "rests_on": "Theorem 4",
            "seed": self.seed,
            "seed_given_by_caller": self.seed_given,
            "basis": self.basis,
            "verdicts": [verdict.to_dict() for verdict in self.verdicts],
            "not_claimed": list(wording.not_claimed(self.requirements)),
        }

    def to_frame(self) -> pd.DataFrame:
        """Return the evidence of the family, one row a release and requirement."""
        import pandas as pd

        frames = [evidence_frame(name, e) for name, e in self.evidence.items()]
        return pd.concat(frames, ignore_index=True)


def certify_releases(
    members: Mapping[str, Member],
    *,
    seed: int | None = None,
    **choices: Unpack[Choices],
) -> ReleaseCertificate:
    """Certify named releases under one Holm family, each member on its own target.

    Guarantee
    ---------
    Paper Theorem 4: with probability at least ``1 - alpha`` every validated release meets
    all its requirements on its registered target, under any dependence.
    """
    mode = choices.setdefault("mode", NO_MECHANISM)
    if about_mechanism(mode):
        raise RegistryError(f"named releases have no mode {mode!r}; use certify")
    claim = Claim.of(choices)
    _check_members(members)
    given, seed = seed is not None, as_seed(seed)
    losses, readings = {}, {}
    for name, member in members.items():
        with naming(name):
            losses[name] = as_losses(member.losses, member.records)
            check_records(losses[name], as_design(member.design))
    n_releases = sum(one.shape[0] for one in losses.values())
    for name, member in members.items():
        requirements, design = as_requirements(member.requirements), as_design(member.design)
        claim.require_support(design, requirements)
        levels = claim.levels(n_releases=n_releases, n_requirements=len(requirements))
        readings[name] = reading_of(claim, requirements, design, levels, seed), levels.bounds
    evidence = {}
    for name, (reading, bounds_level) in readings.items():
        with naming(name):
            evidence[name] = gather_evidence(losses[name], reading, bounds_level=bounds_level)
    return certify_release_evidence(claim, evidence, seed=seed, seed_given=given)


def certify_release_evidence(
    claim: Claim,
    evidence: Mapping[str, ReleaseEvidence],
    *,
    seed: int,
    seed_given: bool = True,
    basis: str = wording.ASSERTED,
) -> ReleaseCertificate:
    """Certify named releases from evidence alone.

    Guarantee
    ---------
    Paper Theorem 4, as in `certify_releases`.
    """
    verdicts = decide_releases(evidence, alpha=claim.lower_budget(), beta=claim.upper_budget())
    return ReleaseCertificate(
        verdicts=verdicts,
        claim=claim,
        evidence=evidence,
        seed=seed,
        seed_given=seed_given,
        basis=basis,
    )


def _check_members(members: Any) -> None:
    if not isinstance(members, Mapping) or not members:
        raise RegistryError("a family maps names to members, and needs at least one")
    for name, one in members.items():
        if not isinstance(name, str) or not name or not isinstance(one, Member):
            raise RegistryError(f"{name!r} must be a name and its value a Member(losses, ...)")
