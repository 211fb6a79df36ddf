"""From a registry and written evidence to the certificate, and nothing else is looked at.

`open` and `verify` both go through here, so that what is verified is what was decided.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from proxyguard.audit.rules import measures_of
from proxyguard.audit.stated import Redrawn, redrawn
from proxyguard.certificate.certify import certify_evidence, reading_of
from proxyguard.certificate.picks import picks_record
from proxyguard.certificate.releases import certify_release_evidence
from proxyguard.certificate.wording import not_claimed, release_sentence
from proxyguard.documents.evidence import FixedEvidence
from proxyguard.documents.registry import Registry
from proxyguard.documents.releases import AnyDraw, FailedDraw, ReleaseManifest
from proxyguard.evidence.record import read_evidence
from proxyguard.evidence.releases import ReleaseEvidence
from proxyguard.exact.multiplicity import holm_adjusted
from proxyguard.losses.cell import Reading
from proxyguard.losses.measure import Measure
from proxyguard.modes.claim import Claim, Levels, MechanismClaim
from proxyguard.registry.budget import family_shares
from proxyguard.registry.declaration import Member
from proxyguard.registry.fields import number
from proxyguard.registry.requirement import Requirement

EXCLUDED = "descriptive: excluded by an amendment before any outcome"
NOT_CERTIFIED = "not certified: computed on the same target, decides nothing"


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """The releases that are read together: those of a mechanism, or the named ones of a member."""

    member: Member
    name: str  # the mechanism, or the member for named releases
    draws: tuple[AnyDraw, ...]
    excluded: tuple[AnyDraw, ...]
    measures: tuple[Measure, ...]

    @property
    def requirements(self) -> tuple[Requirement, ...]:
        """The registered requirements, queries expanded."""
        return tuple(m.requirement for m in self.measures)


def groups_of(registry: Registry, manifest: ReleaseManifest) -> list[Group]:
    """Return the groups of a fixed audit, in the registered order."""
    out = registry.left_out
    named = registry.declaration.claim.level == "releases"
    groups = []
    for member in registry.declaration.members:
        measures = tuple(measures_of(member, registry.members[member.name].requirements))
        kept: dict[str, list[AnyDraw]] = {}
        dropped: dict[str, list[AnyDraw]] = {}
        declared = [*(m.name for m in member.mechanism), *(r.name for r in member.release)]
        for mechanism in declared:  # in the declared order, which canonical JSON does not keep
            for draw in manifest.draws(member.name, mechanism):
                side = dropped if (mechanism, draw.seed) in out else kept
                if named:
                    called = draw.model_copy(update={"name": _label(member, mechanism, draw)})
                    side.setdefault(member.name, []).append(called)
                else:
                    side.setdefault(mechanism, []).append(draw)
        names = [member.name] if named else [m.name for m in member.mechanism]
        groups += [
            Group(
                member=member,
                name=name,
                draws=tuple(kept.get(name, ())),
                excluded=tuple(dropped.get(name, ())),
                measures=measures,
            )
            for name in names
        ]
    return groups


def _label(member: Member, mechanism: str, draw: AnyDraw) -> str:
    """Return the name of a named release: its own, or its mechanism's with the seed."""
    if mechanism in {r.name for r in member.release}:
        return mechanism
    return f"{mechanism}/{draw.label}"


def readings_of(
    registry: Registry, groups: Sequence[Group], seed: int
) -> dict[str, tuple[Reading, Levels]]:
    """Return how each group's losses are read, and at which levels: all fixed by registration."""
    claim = registry.declaration.claim.to_claim()
    total = sum(len(group.draws) for group in groups)
    shares = None
    if isinstance(claim, MechanismClaim):
        shares = family_shares([g.name for g in groups], claim.shares)
    found = {}
    for group in groups:
        n_requirements = len(group.requirements)
        levels = (
            claim.levels(n_releases=total, n_requirements=n_requirements)
            if shares is None
            else claim.levels(
                n_releases=len(group.draws),
                n_requirements=n_requirements,
                share=shares[group.name],
            )
        )
        reading = reading_of(
            claim, group.requirements, group.member.target.sampling_design, levels, seed
        )
        digits = registry.declaration.digits
        found[group.name] = (replace(reading, digits=digits), levels)
    return found


def secondary_readings(registry: Registry, group: Group, reading: Reading) -> dict[str, Reading]:
    """Return the readings under the limits of secondary specifications."""
    found = {}
    for spec in registry.declaration.secondary:
        limited = tuple(
            replace(m.requirement, limit=number(spec.limits[m.part]))
            if m.part in spec.limits
            else m.requirement
            for m in group.measures
        )
        found[spec.name] = replace(reading, requirements=limited)
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawCounts:
    """What became of the draws of a mechanism.

    A failed draw is used, with every loss at its upper bound; an excluded one is not.
    """

    registered: int
    delivered: int
    failed: int
    excluded: int
    used: int

    @classmethod
    def of(cls, registered: int, draws: Sequence[AnyDraw], excluded: int) -> DrawCounts:
        """Count a mechanism's draws, excluded ones among them."""
        failed = sum(isinstance(draw, FailedDraw) for draw in draws)
        return cls(
            registered=registered,
            delivered=len(draws) - failed,
            failed=failed,
            excluded=excluded,
            used=len(draws) - excluded,
        )

    def to_dict(self) -> dict[str, int]:
        """Return plain values."""
        return asdict(self)


def draw_counts(registry: Registry, manifest: ReleaseManifest) -> dict[str, dict[str, int]]:
    """Return what became of the draws of every mechanism."""
    several = len(manifest.members) > 1
    counts = {}
    for member in registry.declaration.members:
        for mechanism in member.mechanism:
            draws = manifest.draws(member.name, mechanism.name)
            out = sum((mechanism.name, draw.seed) in registry.left_out for draw in draws)
            name = f"{member.name}/{mechanism.name}" if several else mechanism.name
            counts[name] = DrawCounts.of(mechanism.draws, draws, out).to_dict()
    return counts


def decide(
    registry: Registry, manifest: ReleaseManifest, evidence: FixedEvidence, basis: str
) -> dict[str, Any]:
    """Return the certified decisions of a fixed audit, and what is reported beside them."""
    groups = groups_of(registry, manifest)
    readings = readings_of(registry, groups, int(evidence.seed))
    read = {
        group.name: read_evidence(evidence.groups[group.name], readings[group.name][0])
        for group in groups
    }
    claim = registry.declaration.claim.to_claim()
    if isinstance(claim, MechanismClaim):
        found = _decide_mechanisms(claim, groups, readings, read, basis)
    else:
        found = _decide_releases(claim, read, int(evidence.seed), basis)
    picks = registry.declaration.picks
    if picks is not None:
        shares = registry.declaration.claim.shares
        found["picks"] = picks_record(picks, read, counted=claim.counts_valid, shares=shares)
    stages = _redrawn(registry, manifest)
    return {
        **found,
        "redraws": {name: list(one.redraws) for name, one in stages.items()},
        "conditional_on": {name: list(one.conditional_on) for name, one in stages.items()},
        "draws": draw_counts(registry, manifest),
        "failed": {g.name: failures_of(g.draws) for g in groups if failures_of(g.draws)},
        "secondary": {
            spec.name: _secondary(registry, spec.name, groups, readings, evidence)
            for spec in registry.declaration.secondary
        },
    }


def _decide_mechanisms(
    claim: MechanismClaim,
    groups: Sequence[Group],
    readings: Mapping[str, tuple[Reading, Levels]],
    read: Mapping[str, ReleaseEvidence],
    basis: str,
) -> dict[str, Any]:
    audits = {g.name: (read[g.name], readings[g.name][1]) for g in groups}
    family = certify_evidence(claim, audits, basis=basis)
    return {
        "verdicts": [
            {**certificate.to_dict(), "adjusted_release_pvalues": _adjusted(certificate.evidence)}
            for certificate in family.values()
        ],
        "text": str(family),
    }


def _decide_releases(
    claim: Claim, read: Mapping[str, ReleaseEvidence], seed: int, basis: str
) -> dict[str, Any]:
    certificate = certify_release_evidence(claim, read, seed=seed, basis=basis)
    family = certificate.to_dict()
    del family["verdicts"]
    return {
        "verdicts": [
            {
                **verdict.to_dict(),
                "mechanism": verdict.name,
                "sentence": release_sentence(verdict.to_dict(), alpha=claim.alpha, beta=claim.beta),
            }
            for verdict in certificate.verdicts
        ],
        "family": family,
        "text": str(certificate),
    }


def _adjusted(evidence: ReleaseEvidence) -> dict[str, float]:
    """Return Holm-adjusted release p-values, for reading."""
    adjusted = holm_adjusted(evidence.release_pvalues)
    return dict(zip(evidence.releases, (float(a) for a in adjusted), strict=True))


def _secondary(
    registry: Registry,
    name: str,
    groups: Sequence[Group],
    readings: Mapping[str, tuple[Reading, Levels]],
    evidence: FixedEvidence,
) -> dict[str, Any]:
    """Return the same claim under a secondary specification's limits; it never decides."""
    claim = registry.declaration.claim.to_claim()
    read, audits = {}, {}
    for group in groups:
        reading, levels = readings[group.name]
        other = secondary_readings(registry, group, reading)[name]
        read[group.name] = read_evidence(evidence.secondary[name][group.name], other)
        audits[group.name] = (read[group.name], levels)
    found: dict[str, dict[str, Any]]
    if not isinstance(claim, MechanismClaim):
        verdicts = certify_release_evidence(claim, read, seed=int(evidence.seed)).verdicts
        found = {verdict.name: {"decision": verdict.decision.value} for verdict in verdicts}
    else:
        family = certify_evidence(claim, audits)
        found = {
            mechanism: {
                "decision": c.decision.value,
                "lower": c.lower.value,
                "upper": None if c.upper is None else c.upper.value,
            }
            for mechanism, c in family.items()
        }
    limits = next(s.limits for s in registry.declaration.secondary if s.name == name)
    return {"label": NOT_CERTIFIED, "limits": dict(limits), "results": found}


def _redrawn(registry: Registry, manifest: ReleaseManifest) -> dict[str, Redrawn]:
    """Return what is redrawn, by mechanism; of several members, by member and mechanism."""
    members = registry.declaration.members
    return {
        f"{member.name}/{name}" if len(members) > 1 else name: redrawn(
            member, name, group.draws, registry.members[member.name].drawn(name)
        )
        for member in members
        for name, group in manifest.members.get(member.name, {}).items()
    }


def failures_of(draws: Sequence[AnyDraw]) -> list[dict[str, Any]]:
    """Return the draws that gave no release, with why."""
    return [
        {"seed": draw.seed, "status": draw.status, "error": draw.error}
        for draw in draws
        if isinstance(draw, FailedDraw)
    ]


def all_not_claimed(groups: Sequence[Group]) -> list[str]:
    """Return what the certificate does not establish."""
    requirements = [r for group in groups for r in group.requirements]
    return list(not_claimed(requirements))
