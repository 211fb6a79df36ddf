"""From the record of an audit to what its certificate says; nothing else is looked at.

`open` writes what `predicate_of` gives and `verify` asks it again, so that what is verified is
what was decided. The record is the registry, the releases (of a fixed audit `releases.json`, of
one that draws after opening the ledger) and `evidence.json`; the target is never read here. In
order: how releases are read, what follows for each schedule, what the certificate says around it,
and what a corrected sampling design says.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile

from proxyguard.audit.development import MemberDevelopment, own_members
from proxyguard.audit.folder import RELEASES, AuditFolder
from proxyguard.audit.grant import granted_again, release_set
from proxyguard.audit.register import check_claim, check_sizes
from proxyguard.audit.reserve import claim_status
from proxyguard.audit.rules import measures_in
from proxyguard.audit.stated import reading_place, redrawn, stated_not_checked
from proxyguard.certificate.mechanism import ReadingLevels, certify_evidence, reading_of
from proxyguard.certificate.picks import picks_record
from proxyguard.certificate.releases import ReleaseCertificate, certify_release_evidence
from proxyguard.certificate.sequential import SequentialAudit
from proxyguard.certificate.wording import corrective_sentence, exposure_meaning, not_claimed
from proxyguard.documents.certificate import (
    Attestation,
    CorrectedReleaseVerdict,
    Correction,
    Decisions,
    DisclosureRecord,
    DrawCountsRecord,
    EpsilonRecord,
    Failure,
    MechanismVerdict,
    PicksRecord,
    Predicate,
    ReleaseFamily,
    ReleaseVerdict,
    RoundVerdict,
    SecondaryBounds,
    SecondaryDecision,
    SecondaryRecord,
    SequentialVerdict,
    VerdictRecord,
)
from proxyguard.documents.document import FORMAT
from proxyguard.documents.evidence import Evidence, FixedEvidence, GroupEvidence
from proxyguard.documents.ledger import (
    Committed,
    DesignText,
    Favored,
    GrantStatement,
    Judged,
    Opened,
    Sealed,
)
from proxyguard.documents.registry import Registry
from proxyguard.documents.releases import AnyDraw, DrawnRelease, FailedDraw, ReleaseManifest
from proxyguard.errors import RegistryError, StageError, UnsupportedDesign
from proxyguard.evidence.record import read_evidence
from proxyguard.evidence.releases import Limits, ReleaseEvidence
from proxyguard.exact.multiplicity import holm_adjusted
from proxyguard.losses.cell import Reading
from proxyguard.losses.measure import Measure
from proxyguard.modes.claim import Claim, Levels, MechanismClaim
from proxyguard.modes.evidence import Decision
from proxyguard.registry.budget import family_shares
from proxyguard.registry.declaration import Declaration, Member
from proxyguard.registry.design import Design, Iid, Sampling
from proxyguard.registry.fields import number
from proxyguard.registry.requirement import Requirement
from proxyguard.registry.target import StratifiedDesign
from proxyguard.report.sources import mechanism_verdict, release_family, release_verdicts
from proxyguard.seal.journal import Journal
from proxyguard.seal.ledger import Ledger, Schedule, Stage

EXCLUDED = "descriptive: excluded by an amendment before any outcome"
NOT_CERTIFIED = "not certified: computed on the same target, decides nothing"
CORRECTED = (
    "a corrective certificate under a corrected sampling design, chosen after the target was "
    "opened; it has no confidence level of its own and does not replace the registered one"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """The releases that are read together: those of a mechanism, or the named ones of a member.

    Attributes
    ----------
    member
        The source and the target that the releases belong to.
    name
        The mechanism, or the member for named releases.
    draws, excluded
        The releases that the claim counts, and those that an amendment left out.
    measures
        What is measured of every release: one for each requirement, queries expanded.
    """

    member: Member
    name: str
    draws: tuple[AnyDraw, ...]
    excluded: tuple[AnyDraw, ...]
    measures: tuple[Measure, ...]

    @property
    def requirements(self) -> tuple[Requirement, ...]:
        """The registered requirements, queries expanded."""
        return tuple(m.requirement for m in self.measures)


def groups_of(registry: Registry, manifest: ReleaseManifest) -> list[Group]:
    """Return the groups of a fixed audit, in the registered order.

    Parameters
    ----------
    registry
        The claim in force; what its amendments exclude is kept apart from what counts.
    manifest
        The frozen releases.
    """
    named = registry.declaration.claim.level == "releases"
    groups = []
    for member in registry.declaration.members:
        measures = tuple(measures_in(registry, member))
        kept: dict[str, list[AnyDraw]] = {}
        dropped: dict[str, list[AnyDraw]] = {}
        declared = [*(m.name for m in member.mechanism), *(r.name for r in member.release)]
        for mechanism in declared:  # in the declared order, which canonical JSON does not keep
            for draw in manifest.draws(member.name, mechanism):
                side = dropped if (mechanism, draw.seed) in registry.left_out else kept
                if named:
                    # One group of several mechanisms: a seed alone does not tell them apart.
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
    """Return how each group's losses are read, and at which levels: all fixed by registration.

    Parameters
    ----------
    registry
        The claim in force.
    groups
        All groups of the audit: how many there are decides what each may spend.
    seed
        Of the opening, for uniforms, blocks and orders.

    Returns
    -------
    dict
        By group, the reading of its losses and the levels of its bounds.
    """
    # Named releases are one Holm family, whatever their member: each is read at the level of all.
    # Mechanisms share the error by the registered shares, and count their own releases.
    claim = registry.declaration.claim.to_claim()
    total = sum(len(group.draws) for group in groups)
    shares = None
    if isinstance(claim, MechanismClaim):
        shares = family_shares([g.name for g in groups], claim.shares)
    readings = {}
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
        readings[group.name] = (replace(reading, digits=digits), levels)
    return readings


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class GroupReading:
    """Some releases of a group, and how their losses are read: a part of fixed evidence.

    Attributes
    ----------
    group, draws
        Whose releases they are, and which.
    reading, levels
        How their losses are read, and the levels of their bounds.
    specification
        The secondary specification whose limits they are read under.
    excluded
        Whether they are those that an amendment left out.
    """

    group: Group
    draws: tuple[AnyDraw, ...]
    reading: Reading
    levels: Levels
    specification: str | None = None
    excluded: bool = False

    @property
    def registered(self) -> bool:
        """Whether the claim is decided by it."""
        return self.specification is None and not self.excluded

    @property
    def names(self) -> tuple[str, ...]:
        """What its releases are called."""
        return tuple(draw.label for draw in self.draws)

    def of(self, evidence: FixedEvidence) -> GroupEvidence:
        """Return what the evidence says of it."""
        if self.excluded:
            return evidence.excluded[self.group.name]
        spec = self.specification
        return (evidence.groups if spec is None else evidence.secondary[spec])[self.group.name]


def group_readings(
    registry: Registry, groups: Sequence[Group], seed: int
) -> list[tuple[Group, list[GroupReading]]]:
    """Return how fixed evidence is read, by group: as registered first.

    Whoever scores, verifies or decides asks here; each part of the evidence is read in one way.
    """
    readings = readings_of(registry, groups, seed)
    by_group = []
    for group in groups:
        reading, levels = readings[group.name]
        ways = [GroupReading(group=group, draws=group.draws, reading=reading, levels=levels)]
        for spec in registry.declaration.secondary:
            limits = tuple(
                replace(m.requirement, limit=number(spec.limits[m.part]))
                if m.part in spec.limits
                else m.requirement
                for m in group.measures
            )
            other = replace(reading, requirements=limits)
            ways.append(replace(ways[0], reading=other, specification=spec.name))
        if group.excluded:
            ways.append(replace(ways[0], draws=group.excluded, excluded=True))
        by_group.append((group, ways))
    return by_group


@dataclass(frozen=True, slots=True, kw_only=True)
class _Record:
    """A fixed audit as it lies there, of which all evidence is derived anew."""

    claim: Claim
    groups: Sequence[tuple[Group, list[GroupReading]]]
    evidence: FixedEvidence

    @classmethod
    def of(cls, registry: Registry, manifest: ReleaseManifest, evidence: FixedEvidence) -> _Record:
        groups = group_readings(registry, groups_of(registry, manifest), int(evidence.seed))
        claim = registry.declaration.claim.to_claim()
        return cls(claim=claim, groups=groups, evidence=evidence)

    def read(self, specification: str | None = None) -> dict[str, tuple[ReleaseEvidence, Levels]]:
        """Return the evidence of every group with its levels, as registered or under a secondary.

        From statistics of their own: those of betting tests depend on the limits.
        """
        return {
            group.name: (read_evidence(each.of(self.evidence), each.reading), each.levels)
            for group, ways in self.groups
            for each in ways
            if each.specification == specification and not each.excluded
        }

    def named(
        self, read: Mapping[str, tuple[ReleaseEvidence, Levels]], basis: str = ""
    ) -> ReleaseCertificate:
        """Return what is decided of named releases."""
        evidence = {name: released for name, (released, _) in read.items()}
        seed = int(self.evidence.seed)
        return certify_release_evidence(self.claim, evidence, seed=seed, basis=basis)


def decide_fixed(
    registry: Registry, manifest: ReleaseManifest, evidence: FixedEvidence, basis: str
) -> Decisions:
    """Return the decisions of a fixed audit, and what is reported beside them.

    Parameters
    ----------
    registry, manifest, evidence
        The record, whose form has been checked.
    basis
        On what the certificate rests besides the statistics, in words.

    Raises
    ------
    SealError
        Where the evidence is about other requirements, limits or tests than were registered.
    """
    record = _Record.of(registry, manifest, evidence)
    verdicts, family, text = _verdicts(record, basis)
    declaration, members = registry.declaration, registry.declaration.members
    # From the manifest and not from the groups: what a claim is conditional on holds for excluded
    # draws too.
    stages = {
        declaration.told_as(member.name, name): redrawn(
            member, name, group.draws, registry.members[member.name].drawn(name)
        )
        for member in members
        for name, group in manifest.members.get(member.name, {}).items()
    }
    return Decisions(
        verdicts=verdicts,
        text=text,
        family=family,
        redraws={name: stage.redraws for name, stage in stages.items()},
        conditional_on={name: stage.conditional_on for name, stage in stages.items()},
        draws={
            declaration.told_as(member.name, mechanism.name): _draw_counts(
                mechanism.draws,
                (draws := manifest.draws(member.name, mechanism.name)),
                sum((mechanism.name, draw.seed) in registry.left_out for draw in draws),
            )
            for member in members
            for mechanism in member.mechanism
        },
        failed=_failures({group.name: group.draws for group, _ in record.groups}),
        secondary={
            spec.name: SecondaryRecord(
                label=NOT_CERTIFIED,
                limits=dict(spec.limits),
                results=_secondary(record, spec.name),
            )
            for spec in declaration.secondary
        },
    )


def fixed_limits(
    registry: Registry, manifest: ReleaseManifest, evidence: FixedEvidence, decided: Decisions
) -> dict[str, Limits]:
    """Return what each group's tests showed its means to exceed and to stay below.

    Parameters
    ----------
    registry, manifest, evidence
        The record, whose form has been checked.
    decided
        What was decided of it, with the levels at which single releases were told apart.
    """
    family = decided.family
    levels: dict[str, ReadingLevels] = {
        verdict.mechanism: (
            verdict.lower.level, None if verdict.upper is None else verdict.upper.level
        )
        for verdict in decided.verdicts
        if isinstance(verdict, MechanismVerdict)
    }  # fmt: skip
    return {
        name: read.limits(
            *(levels[name] if family is None else (family.level, family.violation_level))
        )
        for name, (read, _) in _Record.of(registry, manifest, evidence).read().items()
    }


def _verdicts(
    record: _Record, basis: str
) -> tuple[tuple[MechanismVerdict | ReleaseVerdict, ...], ReleaseFamily | None, str]:
    """Return the verdicts, what those on named releases have in common, and all in words."""
    claim, read = record.claim, record.read()
    if isinstance(claim, MechanismClaim):
        family = certify_evidence(claim, read, basis=basis)
        verdicts = tuple(mechanism_verdict(c, _adjusted(c.evidence)) for c in family.values())
        return verdicts, None, str(family)
    certificate = record.named(read, basis)
    return release_verdicts(certificate), release_family(certificate), str(certificate)


def _adjusted(evidence: ReleaseEvidence) -> dict[str, float]:
    """Return Holm-adjusted release p-values, for reading."""
    adjusted = holm_adjusted(evidence.release_pvalues)
    return dict(zip(evidence.releases, (float(a) for a in adjusted), strict=True))


def _secondary(
    record: _Record, specification: str
) -> dict[str, SecondaryBounds | SecondaryDecision]:
    """Return what the claim would say under a secondary specification; it never decides."""
    read, claim = record.read(specification), record.claim
    if isinstance(claim, MechanismClaim):
        return {
            mechanism: SecondaryBounds(
                decision=certificate.decision,
                lower=certificate.lower.value,
                upper=None if certificate.upper is None else certificate.upper.value,
            )
            for mechanism, certificate in certify_evidence(claim, read).items()
        }
    verdicts = record.named(read).verdicts
    return {verdict.name: SecondaryDecision(decision=verdict.decision) for verdict in verdicts}


def _draw_counts(registered: int, draws: Sequence[AnyDraw], excluded: int) -> DrawCountsRecord:
    """Return what became of a mechanism's draws, excluded ones among them.

    A failed draw is used, with every loss at its upper bound; an excluded one is not.
    """
    failed = sum(isinstance(draw, FailedDraw) for draw in draws)
    return DrawCountsRecord(
        registered=registered,
        delivered=len(draws) - failed,
        failed=failed,
        excluded=excluded,
        used=len(draws) - excluded,
    )


def _failures(groups: Mapping[str, Sequence[AnyDraw]]) -> dict[str, tuple[Failure, ...]]:
    """Return the draws that gave no release, with why, of every group that has some."""
    failures = {
        name: tuple(
            Failure(seed=draw.seed, status=draw.status, error=draw.error)
            for draw in draws
            if isinstance(draw, FailedDraw)
        )
        for name, draws in groups.items()
    }
    return {name: failed for name, failed in failures.items() if failed}


def decide_later(journal: Journal, registry: Registry) -> Decisions:
    """Return what an audit that draws after opening decides: its scores are in the ledger.

    `sequential.check_sequential` has compared those scores with the evidence before anybody relies
    on this.
    """
    (member,), ledger = registry.declaration.members, journal.ledger
    verdicts: tuple[SequentialVerdict | RoundVerdict, ...] = tuple(
        _round_verdict(entry.body, _meaning(registry)) for entry in ledger.find(Judged)
    )
    if registry.declaration.claim.sequential:
        verdicts = (_sequential_verdict(registry, journal),)
    records = [entry.body.record for entry in ledger.find(Committed)]
    name = verdicts[0].mechanism if len(verdicts) == 1 else "every candidate"
    stages = redrawn(member, name, records, registry.members[member.name].drawn(name))
    # Nobody registers how many candidates a stream gets: those that came are all.
    registered = member.mechanism[0].draws if member.mechanism else len(records)
    return Decisions(
        verdicts=verdicts,
        redraws={name: stages.redraws},
        conditional_on={name: stages.conditional_on},
        draws={name: _draw_counts(registered, records, 0)},
        failed=_failures({name: records}),
        secondary={},
    )


def sequential_audit(registry: Registry, journal: Journal) -> SequentialAudit:
    """Return where a sequential audit stands: its plan, with every score that is recorded.

    Parameters
    ----------
    registry
        The claim in force, which has looks and a threshold.
    journal
        The ledger, with one entry for each score.
    """
    audit = SequentialAudit(registry.declaration.claim.sequential_plan())
    for entry in journal.ledger.find(Favored):
        audit.add(entry.body.favorable)
    return audit


def _meaning(registry: Registry) -> str:
    """Return what the one member's requirements about exposure promise, in a sentence."""
    (member,) = registry.declaration.members
    return exposure_meaning([measure.requirement for measure in measures_in(registry, member)])


def _sequential_verdict(registry: Registry, journal: Journal) -> SequentialVerdict:
    audit = sequential_audit(registry, journal)
    said = {
        **audit.to_dict(),
        "sentence": audit.sentence + _meaning(registry),
        "mechanism": registry.declaration.members[0].mechanism[0].name,
        "basis": "every draw committed before its score",
    }
    return SequentialVerdict.model_validate(said, strict=False)


def _round_verdict(judged: Judged, meaning: str) -> RoundVerdict:
    return RoundVerdict(
        mechanism=judged.statistics.releases[0],
        round=judged.round,
        decision=Decision(judged.decision),
        level=judged.level,
        rests_on="Proposition 19",
        sentence=(
            "This candidate meets its requirements on the registered target, with the confidence "
            "of the whole stream."
            if judged.passed
            else "The round does not settle whether this candidate meets its requirements. That is "
            "not evidence of a violation."
        )
        + meaning,
    )


def predicate_of(
    folder: AuditFolder,
    journal: Journal,
    registry: Registry,
    evidence: Evidence,
    grant: GrantStatement | None,
    guessed: tuple[EpsilonRecord, ...] | None = None,
) -> Predicate:
    """Return what the certificate says, from the record alone, whatever the schedule is.

    Parameters
    ----------
    folder
        The audit's folder, from which a fixed audit's releases are read.
    journal
        Its ledger; entries after the certificate change nothing.
    registry, evidence
        The claim in force, and the statistics that decide it.
    grant
        The steward's statement, where the target was sealed for one.
    guessed
        What became of claimed privacy parameters, where the rows that tell it are not here.

    Raises
    ------
    SealError
        Where the evidence is not of the registered requirements, or the manifest has no form.
    """
    diagnostics, excluded, picks, epsilon, manifest = None, None, None, None, None
    if isinstance(evidence, FixedEvidence):
        manifest = folder.document(ReleaseManifest, RELEASES)
        decided = decide_fixed(
            registry, manifest, evidence, _basis(registry, journal.ledger.sealed, grant)
        )
        diagnostics = evidence.diagnostics
        excluded = {name: left_out.releases for name, left_out in evidence.excluded.items()}
        picks = _picks(registry, manifest, evidence)
        epsilon = guessed
        if guessed is None:
            epsilon = _epsilon(folder, journal, registry, manifest)
    else:
        decided = decide_later(journal, registry)
    declaration = registry.declaration
    status = claim_status(declaration, until_certified(journal), granted_again(grant))
    # The opening and not the head: entries that come later must not change what was signed.
    (opened,) = journal.ledger.find(Opened)
    return Predicate(
        **dict(decided),
        name=declaration.name,
        purpose=declaration.purpose,
        level=declaration.claim.level,
        estimand={m.name: _estimand(m, journal, folder, manifest) for m in declaration.members},
        claim_status=status,
        attestation=attestation(journal.ledger.sealed, grant),
        ledger=opened.digest,
        software=registry.software,
        stated_not_checked=stated_not_checked(registry),
        not_claimed=not_claimed(
            [m.requirement for member in declaration.members for m in measures_in(registry, member)]
        ),
        privacy=registry.privacy or None,
        disclosure=None if declaration.digits is None else _disclosure(declaration.digits),
        diagnostics=diagnostics,
        excluded=excluded,
        picks=picks,
        epsilon=epsilon,
    )


def _unlabelled_words(member: Member, manifest: ReleaseManifest) -> str:
    """Say of how many releases rows without an outcome were left out, and how large a part."""
    groups = manifest.members.get(member.name, {}).values()
    drawn = [draw for group in groups for draw in group.draws if isinstance(draw, DrawnRelease)]
    dropped = member.target.missing_outcomes == "leave out"
    parts = [(n, draw.rows + n * dropped) for draw in drawn if (n := draw.unlabelled)]
    if not parts:
        return ""
    what = "were left out" if dropped else "taught no model"
    most, rows = max(parts, key=lambda part: part[0] / part[1])
    return (
        f"; of {len(parts):,} of {len(drawn):,} releases, rows without an outcome {what}, up to "
        f"{most:,} of {rows:,}"
    )


def _estimand(
    member: Member, journal: Journal, folder: AuditFolder, manifest: ReleaseManifest | None
) -> str:
    """Return what means are over, and of exposures, whom they leave out and what nobody looked at.

    ``manifest`` has the draws of a fixed audit.
    """
    sealed = journal.ledger.sealed.members[member.name]
    known = member.target.estimand
    if sealed.unlabelled is not None:
        known += f"; {sealed.unlabelled:,} records without one were left out"
    # Neither test covers another sampling, so that none there rests on it.
    iid = member.target.sampling_design.sampling is Sampling.IID
    if member.target.missing_outcomes == "worst" and iid:
        what = "a loss" if member.target.losses is not None else "an outcome"
        known += (
            f"; betting and empirical_bernstein hold where {what} is missing by its record alone"
        )
    if manifest is not None:
        known += _unlabelled_words(member, manifest)
    if sealed.copies is None:
        return known
    rows = sealed.development["training"]
    # A draw that names one row as its members is judged by that row: a reader sees how many.
    own = ", or those of them that a draw named as its own,"
    if manifest is not None:
        groups = manifest.members.get(member.name, {}).values()
        masks = [own_members(folder, draw, rows) for group in groups for draw in group.draws]
        named = [int(mask.sum()) for mask in masks if mask is not None]
        own = ""
        if named:
            own = f", of whom {len(named):,} draws named {min(named):,} to {max(named):,} alone,"
    words = (
        f"{known}; exposure tells {rows:,} members{own} from others, and "
        f"{sealed.copies:,} of {sealed.records:,} target records, which have the values of a "
        "member, are left out of it"
    )
    if isinstance(member.target.design, StratifiedDesign):
        words += "; members are weighted by the registered strata too"
    # No stored release has such a column; what its maker gives to others may, with all names in it.
    if member.excluded:
        columns = ", ".join(map(repr, member.excluded))
        words += (
            f"; what a release gives away in {columns} is seen by no attack, and tells no record "
            "from a member here"
        )
    return words


def subjects_of(journal: Journal, registry: Registry, evidence: str) -> dict[str, str]:
    """Return the digests that the certificate is about, by name.

    Parameters
    ----------
    journal
        The ledger, which names the sealed targets and the releases.
    registry
        The claim in force.
    evidence
        The digest of the evidence.
    """
    sealed = journal.ledger.sealed
    targets = {f"target:{name}": m.commitment for name, m in sealed.members.items()}
    return {
        "registry": registry.digest,
        "releases": release_set(journal),
        "evidence": evidence,
        **targets,
    }


def _picks(
    registry: Registry, manifest: ReleaseManifest, evidence: FixedEvidence
) -> PicksRecord | None:
    """Return how many of any releases that a reader picks are valid, if that was registered."""
    declaration = registry.declaration
    if declaration.picks is None:
        return None
    record = _Record.of(registry, manifest, evidence)
    return picks_record(
        declaration.picks,
        {name: released for name, (released, _) in record.read().items()},
        counted=record.claim.counts_valid,
        shares=declaration.claim.shares,
    )


def _epsilon(
    folder: AuditFolder, journal: Journal, registry: Registry, manifest: ReleaseManifest
) -> tuple[EpsilonRecord, ...] | None:
    """Return what became of claimed privacy parameters, if some were declared."""
    members = [m for m in registry.declaration.members if m.epsilons]
    if not members:
        return None
    # Here: an audit without such a claim loads no attack.
    from proxyguard.audit.attacks import epsilon_records

    place, sealed = reading_place(folder), journal.ledger.sealed.members
    return epsilon_records([MemberDevelopment(place, m, sealed[m.name]) for m in members], manifest)


def _disclosure(digits: int) -> DisclosureRecord:
    """Return what a certificate says of rounded statistics."""
    return DisclosureRecord(
        digits=digits,
        words=f"every statistic of the target is rounded to {digits} digits, to the side that "
        "weakens the claim, and all decisions are taken on the rounded values; rounding is no "
        "privacy guarantee",
    )


def until_certified(journal: Journal) -> Ledger:
    """Return the ledger as the certificate saw it: later entries add and do not change it.

    A deviation that is recorded afterwards costs the guarantee in the report; the signed words of
    the certificate stay what they were, and verify finds them again.
    """
    entries = journal.ledger.entries
    return Ledger(takewhile(lambda entry: entry.stage is not Stage.CERTIFIED, entries))


def attestation(sealed: Sealed, grant: GrantStatement | None) -> Attestation:
    """Return who stands behind the opening: who held the target's key, and who signed.

    Parameters
    ----------
    sealed
        The seal, which names both.
    grant
        The steward's statement, where the target was sealed for one.
    """
    signer = f"{sealed.author[:16]}..."
    if grant is None:
        held = "held the target's key, opened it and signed; no second party granted the opening"
        who, steward = f"the author, {signer},", None
        if sealed.by_steward:
            # That author and steward are two people the folder cannot show, nor of a grant.
            who, steward = f"a steward by their own word, {signer},", sealed.author
        return Attestation(
            kind="self-attested", words=f"self-attested: {who} {held}", steward=steward
        )
    again = granted_again(grant)
    return Attestation(
        kind="granted",
        words=f"opening granted by steward {grant.steward[:16]}..., who held the target's key, for "
        f"this registry and these releases; signed by the author, {signer}"
        + (f"; {again}" if again else ""),
        steward=grant.steward,
        grant=grant.head,
    )


def _basis(registry: Registry, sealed: Sealed, grant: GrantStatement | None) -> str:
    """Return the basis of a fixed audit's certificate in one sentence."""
    return (
        f"registered (digest {registry.digest[:16]}...) and all releases frozen before the sealed "
        f"target was opened; {attestation(sealed, grant).words}"
    )


def correction_of(
    folder: AuditFolder,
    registry: Registry,
    corrected: Registry,
    design: DesignText,
    reason: str,
    evidence: FixedEvidence,
) -> Correction:
    """Return the corrective certificate that follows from its evidence; verify makes it anew.

    Parameters
    ----------
    folder
        The audit's folder, from which the frozen releases are read.
    registry, corrected
        The registered claim, and the same with the changed design.
    design
        The changed design as it was written, which the correction repeats.
    reason
        Why it was made.
    evidence
        The statistics under the changed design.
    """
    # Without picks: a budget for choosing releases after looking was registered for the
    # registered design.
    manifest = folder.document(ReleaseManifest, RELEASES)
    decided = decide_fixed(corrected, manifest, evidence, CORRECTED)
    verdicts = tuple(_corrective(verdict) for verdict in decided.verdicts)
    text = "\n".join(f"{verdict.mechanism}: {verdict.sentence}" for verdict in verdicts)
    return Correction(
        **dict(decided.model_copy(update={"verdicts": verdicts, "text": text})),
        format=FORMAT,
        reason=reason,
        design=design,
        label=CORRECTED,
        corrects=registry.digest,
        evidence=evidence,
    )


def _corrective(verdict: VerdictRecord) -> VerdictRecord:
    """Return a verdict without a level: whoever chose the design knew what each would give."""
    subject = "release" if isinstance(verdict, ReleaseVerdict) else "mechanism"
    sentence = corrective_sentence(verdict.decision, subject)
    if isinstance(verdict, ReleaseVerdict):
        said = {**dict(verdict), "sentence": sentence}
        return CorrectedReleaseVerdict(**said, joint_coverage=None)
    return verdict.model_copy(update={"sentence": sentence, "joint_coverage": None})


def corrected_registry(registry: Registry, design: DesignText, journal: Journal) -> Registry:
    """Return the registry with the changed design; raise where that is no correction.

    The test stays the registered one where that covers the changed design, and is the default
    for it otherwise: after the opening nobody may choose among tests.

    Raises
    ------
    StageError
        Where the audit draws after opening.
    RegistryError
        Where the design is the registered one, or each candidate has a design of its own.
    UnsupportedDesign
        Where the claim is not covered on the design.
    """
    if journal.ledger.schedule is Schedule.SEQUENTIAL:
        raise StageError("corrected: audits that draw after opening have no correction here")
    declaration = registry.declaration.redesigned(design)
    corrected = registry.model_copy(update={"declaration": declaration})
    if _designs(corrected.declaration) == _designs(registry.declaration):
        raise RegistryError(
            "a correction is for a sampling design that turned out to be another one, and this is "
            "the registered design: that is not a correction"
        )
    (member,) = corrected.declaration.members
    requirements = [measure.requirement for measure in measures_in(corrected, member)]
    if not declaration.claim.to_claim().covers(member.target.sampling_design, requirements):
        declaration = registry.declaration.redesigned(design, default_test=True)
        corrected = registry.model_copy(update={"declaration": declaration})
    sealed = journal.ledger.sealed.members[member.name]
    # As `members.MemberCounts.require` says before the seal: copies counted as others would speak
    # for every release.
    if sealed.copies and not isinstance(member.target.sampling_design, Iid):
        raise UnsupportedDesign(
            f"{sealed.copies:,} target records have the values of a member and are left out of "
            "exposure, which is covered for iid records alone: there is no correction of this "
            "claim for another design"
        )
    check_sizes(member, sealed.records)
    check_claim(corrected.declaration, requirements, member.name)
    return corrected


def _designs(declaration: Declaration) -> list[tuple[Design, tuple[str, ...]]]:
    """Return the designs as the tests see them, with the columns that tell units apart."""
    return [(m.target.sampling_design, m.target.design_columns) for m in declaration.members]
