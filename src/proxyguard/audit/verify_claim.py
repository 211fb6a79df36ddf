"""Verify a registered claim: steps 3 to 9 of `verify`.

Whatever an author could have written otherwise is derived again from what they could not: limits
from the declaration and development, the seed from the seal, evidence from its statistics,
verdicts from the evidence, the report from all of it. Numbers are compared within what another
machine's arithmetic explains, and everything else exactly.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from pydantic import JsonValue

from proxyguard.audit.apart import Describe, References, Risks, ask, rescore_apart
from proxyguard.audit.attacks import MemberAttacks, check_found
from proxyguard.audit.decide import (
    EXCLUDED,
    NOT_CERTIFIED,
    Group,
    corrected_registry,
    correction_of,
    group_readings,
    groups_of,
    predicate_of,
    subjects_of,
)
from proxyguard.audit.development import (
    NOTHING_LEARNED,
    MemberDevelopment,
    check_facts,
    loss_measures,
    reference_policies,
    source_risks,
)
from proxyguard.audit.figures import GroupFigures, check_figures
from proxyguard.audit.folder import (
    CERTIFICATE,
    CORRECTION,
    DECLARATION,
    EVIDENCE,
    GRANT,
    RELEASES,
    REPORTS,
    AuditFolder,
    open_envelope,
    registry_name,
    snapshot_name,
)
from proxyguard.audit.grant import read_grant, release_set
from proxyguard.audit.home import default_home
from proxyguard.audit.manifest import check_manifest
from proxyguard.audit.outcome import report_bytes
from proxyguard.audit.register import check_excluded, drawn_part, void_exclusions
from proxyguard.audit.rules import planned_records, resolve_limits, resolve_roles, schedule_of
from proxyguard.audit.score import check_answers, check_record
from proxyguard.audit.sequential import (
    OneByOne,
    check_sequential,
    committed_records,
    recorded_scores,
)
from proxyguard.audit.stated import (
    SelfDescription,
    doubts,
    other_code,
    reading_place,
    rests_on_development,
)
from proxyguard.audit.target import check_seed
from proxyguard.audit.verify import RegisteredAudit, Scope, Verification, agree
from proxyguard.documents.canonical import digest
from proxyguard.documents.certificate import Correction, Statement
from proxyguard.documents.evidence import (
    Diagnostics,
    Evidence,
    ExposureFigures,
    FixedEvidence,
    GroupEvidence,
)
from proxyguard.documents.ledger import (
    Amended,
    Certified,
    Corrected,
    DesignText,
    Developed,
    Frozen,
    GrantStatement,
    Opened,
)
from proxyguard.documents.registry import DrawnMechanism, Facts, GivenMechanism, Registry
from proxyguard.documents.releases import AnyDraw, ReleaseManifest
from proxyguard.draw.catalog import installed_version
from proxyguard.errors import SealError, UntrustedCode, Withheld
from proxyguard.evidence.record import Sizes
from proxyguard.exposure.named import Apart
from proxyguard.losses.measure import Measure
from proxyguard.registry.declaration import Declaration, Member, read_declaration
from proxyguard.registry.parts import MechanismPart
from proxyguard.registry.requirement import NONMEMBERS
from proxyguard.report.record import lost_guarantee
from proxyguard.seal.journal import Journal
from proxyguard.seal.ledger import Schedule, Stage

if TYPE_CHECKING:
    from proxyguard.audit.open import Opener

Recomputed = TypeVar("Recomputed")

LEARNERS = "scikit-learn"


def verify_claim(
    result: Verification, folder: AuditFolder, journal: Journal, opener: Opener | None, scope: Scope
) -> None:
    """Check what was registered, drawn, granted, scored, decided and reported.

    Parameters
    ----------
    result
        What steps 1 and 2 found; all that is found here is added.
    folder, journal
        The folder and its ledger, whose documents have their form.
    opener
        Who has the target's key, for computing the losses again; none without.
    scope
        What the verifier asks for and will run.
    """
    # First, because all that follows is compared with the registry.
    check = partial(_check_registry, result, folder, journal)
    registry = result.step("registry", "declaration: sealed and registered as it reads", check)
    if registry is None:
        return
    if result.withheld:
        claims = "; ".join(rests_on_development(registry.declaration))
        result.not_checked.insert(1, f"what rests on it, the author's word alone: {claims}")
    audit = RegisteredAudit(
        folder=folder, journal=journal, registry=registry, scope=scope, result=result
    )
    _verify_statements(audit)
    _verify_risks(audit)
    ledger = journal.ledger
    # What is drawn after the opening stands in the ledger itself, entry by entry.
    if ledger.has(Stage.DRAWN) and ledger.schedule is not Schedule.SEQUENTIAL:
        manifest = partial(check_manifest, folder, registry, journal)
        result.step(RELEASES, "releases: the registered seeds, each once", manifest)
    if scope.redraw and not ledger.has(Stage.DRAWN):
        result.not_checked.append("redraw: nothing is drawn yet")
    elif scope.redraw and result.withheld:
        result.not_checked.append("redraw: releases are drawn from development, which is not here")
    elif scope.redraw and result.good:  # of releases that hold so far
        from proxyguard.audit.redraw import redraw  # it needs all that draws need

        redraw(audit)
    opened = ledger.has(Stage.OPENED)
    grant: GrantStatement | None = None
    # Before the opening there may be a grant; one that lies there must be one for this folder.
    if ledger.sealed.steward is not None if opened else folder.has(GRANT):
        signed = partial(read_grant, folder, journal)
        grant = result.step(GRANT, "grant: the steward's signature", signed)
    if not opened or not ledger.has(Stage.CERTIFIED) or not result.good:
        return  # what is derived from changed files says nothing
    _verify_certified(audit, grant, opener)


def _verify_certified(
    audit: RegisteredAudit, grant: GrantStatement | None, opener: Opener | None
) -> None:
    """Derive and decide anew all that was certified; with the target's key, from the losses on."""
    folder, journal, registry, result = audit.folder, audit.journal, audit.registry, audit.result
    evidence = folder.document(Evidence, EVIDENCE)
    corrected = journal.ledger.has(Stage.CORRECTED)
    if journal.ledger.schedule is Schedule.SEQUENTIAL:
        scores = partial(check_sequential, folder, journal, registry, evidence)
        result.step(EVIDENCE, "evidence: scores derived anew from the statistics", scores)
    else:
        bounds = partial(_check_evidence, audit, evidence)
        result.step(EVIDENCE, "evidence: p-values and bounds derived anew", bounds)
    attacked = _what_is_found_again(registry)
    if attacked is not None:
        shares = partial(_check_exposures, audit, registry, evidence)
        result.step(EVIDENCE, f"exposure: {attacked}", shares)
    if not result.good:
        return  # nor does what is decided from evidence that does not hold
    certificate = partial(_check_certificate, audit, evidence, grant)
    result.step(CERTIFICATE, "certificate: signature, subjects, decided anew", certificate)
    if corrected:
        result.step(CORRECTION, "correction: decided anew", partial(_check_correction, audit))
        if attacked is not None:
            shares = partial(_check_corrected_exposures, audit)
            result.step(CORRECTION, f"correction: {attacked}", shares)
    # After the rest: the report is built from all of it.
    if len(result.absent) < len(REPORTS) and result.good:
        report = partial(_check_report, folder, journal)
        result.step("report", "report: built anew, byte by byte", report)
    # Also where certificate or report were found wrong: losses are compared with evidence alone.
    if opener is not None:
        losses = partial(_check_losses, audit, opener, registry, evidence)
        result.step(EVIDENCE, "losses: computed again from the target", losses)
    if opener is not None and corrected:
        losses = partial(_check_corrected, audit, opener)
        result.step(CORRECTION, "correction: losses computed again from the target", losses)


def _check_corrected(audit: RegisteredAudit, opener: Opener) -> None:
    """See the same of the statistics under the corrected design."""
    corrected, evidence, design = _correction(audit)
    _check_losses(audit, opener, corrected, evidence, design)


def _correction(audit: RegisteredAudit) -> tuple[Registry, FixedEvidence, DesignText]:
    """Return the claim under the corrected design, the evidence of it, and the design."""
    design = audit.journal.ledger.find(Corrected)[0].body.design
    evidence = audit.folder.document(Correction, CORRECTION).evidence
    return corrected_registry(audit.registry, design, audit.journal), evidence, design


def _check_losses(
    audit: RegisteredAudit,
    opener: Opener,
    registry: Registry,
    evidence: Evidence,
    design: DesignText | None = None,
) -> None:
    """See that whoever has the target's key finds the same statistics.

    ``design`` is the corrected one, where ``registry`` is a correction's.
    """
    again = _ours_or_apart(
        audit,
        here=lambda: opener.rescore(audit.journal, registry),
        apart=lambda: rescore_apart(
            opener, audit.journal, registry, design, timeout=audit.scope.timeout
        ),
    )
    agree(evidence.to_dict(), again.to_dict(), "the evidence")


def _ours_or_apart(
    audit: RegisteredAudit, *, here: Callable[[], Recomputed], apart: Callable[[], Recomputed]
) -> Recomputed:
    """Return what our own code finds; what needs other code is run apart, if that was asked for."""
    try:
        return here()  # `verify` lets nothing but our own code run in this process
    except UntrustedCode as error:
        _check_declared(error, audit.registry)
        if audit.result.withheld:
            raise Withheld(f"{audit.result.withheld[0]} is not here") from error
        if not audit.scope.run_named_code:
            raise UntrustedCode(
                f"{error}. Run it with --run-named-code, in a process without keys, or name types "
                "that you trust with --trust TYPE",
                names=error.names,
            ) from error
    return apart()


def _check_declared(error: UntrustedCode, registry: Registry) -> None:
    """Raise where a stored model has types that its author could not have opened either."""
    procedures = [m.procedure for m in registry.declaration.members if m.procedure is not None]
    if any(":" in name for procedure in procedures for name in procedure.library):
        return  # which types an import path stands for is known to whoever imports it
    declared = {name for procedure in procedures for name in procedure.trusted}
    beyond = [name for name in error.names if ":" not in name and name not in declared]
    if beyond:
        raise SealError(f"{error}; its own declaration does not name {beyond} either") from error


def _verify_statements(audit: RegisteredAudit) -> None:
    """Let generators, procedures and sealed files say again what the record says of them."""

    def asked(generator: str, options: dict[str, JsonValue]) -> SelfDescription:
        job = Describe(generator=generator, options=options)
        described = ask(audit.folder, job, timeout=audit.scope.timeout)
        (then, *_) = (
            registered.origin
            for member in audit.registry.members.values()
            for registered in member.mechanisms.values()
            if isinstance(registered, DrawnMechanism) and registered.generator == generator
        )
        audit.result.moved[generator] = other_code(then, described.origin)
        return described

    def check() -> None:
        describe = asked if audit.scope.run_named_code else None
        broken: list[str] = []
        for doubt in doubts(audit.folder, audit.registry, audit.journal.ledger.sealed, describe):
            # One by one: what was not checked stays told where a later question fails.
            (broken if doubt.broken else audit.result.not_checked).append(doubt.problem)
        if broken:
            raise SealError("; ".join(broken))

    name = "statements: of generators, procedures and sealed files on themselves"
    audit.result.step("registry", name, check)


def _verify_risks(audit: RegisteredAudit) -> None:
    """Compute the validation losses of the source and of reference policies again."""
    result = audit.result
    made, here = audit.registry.software.get(LEARNERS), installed_version(LEARNERS)
    for member in audit.registry.declaration.members:
        if member.procedure is None:
            continue
        # No model is asked: the versions of the author's own statement are no way around this.
        references = partial(_check_references, audit, member)
        result.step("registry", f"references: policies of {member.name} on validation", references)
        name = f"risks: the source of {member.name} on validation"
        # The version is the author's word. A false one leaves this unchecked, which the exit code
        # says, and never makes it hold.
        if made != here:
            result.not_checked.append(f"{name}: made with scikit-learn {made}, here is {here}")
        else:
            result.step("registry", name, partial(_check_risks, audit, member))


def _check_risks(audit: RegisteredAudit, member: Member) -> None:
    """See that the source's validation risks, on which limits rest, are those of its model."""
    job, scope = Risks(member=member.name), audit.scope
    again = _ours_or_apart(
        audit,
        here=lambda: source_risks(
            audit.development(member), audit.registry.members[member.name], scope.types
        ),
        apart=lambda: ask(audit.folder, job, timeout=scope.timeout),
    )
    recorded = {name: float(risk) for name, risk in _facts_of(audit, member).risks.items()}
    agree(recorded, again, f"{member.name}, validation risks")


def _check_references(audit: RegisteredAudit, member: Member) -> None:
    """See that the losses of reference policies are those of the validation part."""
    job = References(member=member.name)
    again = _ours_or_apart(
        audit,
        here=lambda: reference_policies(audit.development(member), loss_measures(member)),
        apart=lambda: ask(audit.folder, job, timeout=audit.scope.timeout),
    )
    recorded = {
        policy: {name: float(loss) for name, loss in losses.items()}
        for policy, losses in _facts_of(audit, member).references.items()
    }
    agree(recorded, again, f"{member.name}, reference policies")


def _facts_of(audit: RegisteredAudit, member: Member) -> Facts:
    """Return what development learned of a member, which an audit of given losses has not."""
    facts = audit.registry.members[member.name].facts
    if not isinstance(facts, Facts):
        raise SealError(f"{member.name}: no facts of development are registered")
    return facts


def _check_registry(result: Verification, folder: AuditFolder, journal: Journal) -> Registry:
    """See that each registry follows from its declaration's text, the seal and development."""
    ledger = journal.ledger
    before: Registry | None = None
    # Superseded ones too: releases may have been drawn for an earlier registry.
    for index, entry in enumerate(ledger.claims):
        name = registry_name(index)
        registry = folder.document(Registry, name)
        if registry.digest != entry.body.declaration:
            raise SealError(f"{name} is not the one that was recorded")
        text = folder.text(snapshot_name(index))
        _check_resolved(result, folder, registry, read_declaration(text), journal, name)
        # By their order in the ledger and not by clock, which is the author's own.
        drawn = any(e.index < entry.index for e in ledger.find(Frozen))
        if before is not None and drawn and drawn_part(registry) != drawn_part(before):
            raise SealError(f"{name} changes what the releases, drawn before it, depend on")
        if before is None and registry.excluded is not None:
            # Draws that fail can be seen at once: taking some out takes an amendment, which says
            # when and why, and which costs the guarantee where the draws were there to look at.
            raise SealError(f"{name} excludes draws, which takes an amendment with a reason")
        if before is not None:
            # An exclusion that an amendment silently dropped would bring back draws that were seen.
            void = void_exclusions(before, registry)
            if isinstance(entry.body, Amended) and entry.body.void != void:
                raise SealError(f"{name}: the ledger names other exclusions that it made void")
            check_excluded(registry)
        before = registry
    # The file that people read must be the one in force, not only its snapshot.
    if folder.text(DECLARATION) != text:
        raise SealError(f"{DECLARATION} is not the declaration that is in force")
    registry = folder.registry(journal)
    if schedule_of(registry.declaration) is not ledger.schedule:
        raise SealError("the ledger's path is not that of the registered claim")
    # A claim or releases that were exchanged after the opening could be chosen by the outcome.
    for opening in ledger.find(Opened):
        if opening.body.registry != registry.digest:
            raise SealError("the target was opened for another registry")
        if opening.body.releases != release_set(journal):
            raise SealError("the target was opened for other releases")
    return registry


def _check_resolved(
    result: Verification, folder: AuditFolder, registry: Registry, declared: Declaration,
    journal: Journal, name: str,
) -> None:  # fmt: skip
    """See that a registry is what its declaration and the facts of development resolve to."""
    sealed = journal.ledger.sealed
    if registry.declaration != declared:
        raise SealError(f"{name} is about another declaration than its text")
    # Otherwise a claim could move to a target, or a division, that was chosen after the seal.
    if digest(declared.sealed_part()) != sealed.declaration:
        raise SealError("target or development differ from what was sealed")
    names = {m.name for m in declared.members}
    if set(registry.members) != names:
        raise SealError(f"{name} has other members than its declaration")
    if set(sealed.members) != names:
        raise SealError(
            f"sealed were targets of {sorted(sealed.members)}, {name} has other members"
        )
    first = name == registry_name(0)
    developed = journal.ledger.find(Developed)
    if not developed or set(developed[-1].body.members) != names:
        raise SealError(f"the ledger records no development of the members of {name}")
    for member in declared.members:
        resolved, target = registry.members[member.name], sealed.members[member.name]
        if resolved.commitment != target.commitment:
            raise SealError(f"the registry is about another sealed target for {member.name!r}")
        facts = resolved.facts
        recorded = developed[-1].body.members[member.name]
        if first and facts != recorded:
            raise SealError(f"{name} rests on other facts than development recorded")
        # An amendment develops anew, and no entry records its facts: all are derived here.
        development = MemberDevelopment(reading_place(folder), member, target)
        try:
            check_facts(development, declared, facts, name)
        except Withheld as error:  # all else of the registry is seen without it
            result.not_checked.append(f"{name}, what {member.name} learned there: {error}")
        if resolved.source != facts.source:
            raise SealError(f"{name} has another source procedure than development recorded")
        n = planned_records(member, target.records)
        learned = facts if isinstance(facts, Facts) else NOTHING_LEARNED
        # Exactly, not within 1e-9: whoever may move a limit's last digit may move it past a mean.
        if resolved.requirements != resolve_limits(member, learned, declared.claim, n):
            raise SealError(f"{name}: limits do not follow from the declaration and its facts")
        drawn = ({m.name for m in member.mechanism}, {r.name for r in member.release})
        if (set(resolved.mechanisms), set(resolved.stand_ins)) != drawn:
            raise SealError(f"{name}: {member.name} has other mechanisms or releases than declared")
        if set(resolved.losses) != set(member.measuring_code):
            raise SealError(
                f"{name}: {member.name} has the code of other losses or attacks than are named"
            )
        roles = resolve_roles(declared, resolved.requirements, learned)
        for mechanism in member.mechanism:
            _check_mechanism(resolved.mechanisms[mechanism.name], mechanism, declared, roles, name)


def _check_mechanism(
    registered: DrawnMechanism | GivenMechanism,
    mechanism: MechanismPart,
    declared: Declaration,
    roles: Mapping[str, str],
    name: str,
) -> None:
    """See that a mechanism is registered with the generator, files and pilot that rules give it."""
    drawn_as = declared.drawn_as(mechanism, roles.get(mechanism.role or ""))
    generator, options = drawn_as.generator, drawn_as.options
    if registered.generator != generator or registered.options != options:
        raise SealError(f"{name}: {mechanism.name!r} has another generator than was declared")
    if isinstance(registered, DrawnMechanism) and registered.delivered:
        # Without digests that were registered, the files could be chosen after the claim.
        listed = {file.seed for file in registered.files or ()}
        if not listed >= set(mechanism.seed_list):
            raise SealError(f"{name}: {mechanism.name!r} registers no file for some of its seeds")
    # By the rule alone: an author who picks the pilot of a role picks what the claim is about.
    if registered.pilot != roles.get(mechanism.role or ""):
        raise SealError(
            f"{name}: {mechanism.name!r} was given to pilot {registered.pilot!r} by no rule"
        )


def _check_evidence(audit: RegisteredAudit, evidence: Evidence) -> None:
    """See that fixed evidence is such, labels what decides nothing, and follows from the record."""
    if not isinstance(evidence, FixedEvidence):
        raise SealError("the evidence is of an audit that draws after opening, and this is none")
    for name, extra in evidence.excluded.items():
        # Shown beside the claim, and under another label a reader would take them for part of it.
        if extra.label != EXCLUDED:
            raise SealError(f"the excluded draws of {name} are labelled {extra.label!r}")
    _check_statistics(audit, audit.registry, evidence, "the evidence")


def _check_statistics(
    audit: RegisteredAudit, registry: Registry, evidence: FixedEvidence, what: str
) -> None:
    """See that evidence is about these releases, and that it follows from its own statistics."""
    folder, journal = audit.folder, audit.journal
    if evidence.registry != registry.digest or evidence.releases != release_set(journal):
        raise SealError(f"{what} is about another registry or other releases")
    manifest = folder.document(ReleaseManifest, RELEASES)
    check_derived(registry, manifest, journal, evidence)
    # Answers stand in the stored releases: a share's limit moves with its answer, so that an
    # invented one would decide, and a failure with good statistics would count as a success.
    for group in groups_of(registry, manifest):
        check_answers(folder, group.measures, group.draws, evidence.groups[group.name])


def _what_is_found_again(registry: Registry) -> str | None:
    """Return what is seen of exposure without the target's key; nothing where it is not claimed.

    Shares of members are on record where the limit is on a difference of two shares. Elsewhere they
    are in the losses of target records, and it is seen that the attack can be made.
    """
    kinds = {
        part.exposure
        for member in registry.declaration.members
        for part in member.exposures
        if part.exposure is not None
    }
    if not kinds:
        return None
    recorded = {kind.is_difference for kind in kinds}
    if recorded == {False}:
        return "attacks made again; no share of members decides that is on record"
    where = " where it is on record" if False in recorded else ""
    return f"what attacks find among members, found again{where}"


class _Recorded(NamedTuple):
    """Statistics of releases that are on record, with the releases."""

    group: Group
    draws: Sequence[AnyDraw]
    statistics: GroupEvidence
    described: bool  # whether the record also describes what attacks find in them

    def measures(self, *, named: bool) -> dict[int, Measure]:
        """Return what is measured by attacks of others, or by ours, with its place."""
        return {
            j: measure
            for j, measure in enumerate(self.group.measures)
            if measure.exposure is not None and measure.exposure.settings.by_path is named
        }


def _recorded(
    audit: RegisteredAudit, registry: Registry, evidence: Evidence
) -> Iterator[_Recorded]:
    """Yield all statistics on record: as registered, under other limits, of excluded draws."""
    if isinstance(evidence, FixedEvidence):
        groups = groups_of(registry, audit.folder.document(ReleaseManifest, RELEASES))
        for group, ways in group_readings(registry, groups, int(evidence.seed)):
            for each in ways:
                yield _Recorded(group, each.draws, each.of(evidence), described=each.registered)
        return
    # Draw by draw: of an audit that draws after opening nothing is described.
    rule = OneByOne.of(registry)
    draws = committed_records(audit.folder, registry, audit.journal)
    for draw, score in zip(draws, recorded_scores(audit.journal), strict=True):
        group = Group(
            member=rule.member, name=draw.label, draws=(draw,), excluded=(),
            measures=rule.measures,
        )  # fmt: skip
        yield _Recorded(group, (draw,), score.statistics, described=False)


def _check_exposures(audit: RegisteredAudit, registry: Registry, evidence: Evidence) -> None:
    """Attack every stored release again, and see that members are found as the record says.

    ``registry`` is the claim in force, or a correction's.
    """
    recorded = list(_recorded(audit, registry, evidence))
    for each in recorded:
        _check_nonmembers(audit, each.group, each.statistics)
    descriptions: dict[str, ExposureFigures] = {}
    if isinstance(evidence, FixedEvidence):
        descriptions.update(evidence.diagnostics.exposure or {})
    # Our own attacks first: what code of others would say is left unchecked where it is not run.
    _attack_again(audit, recorded, descriptions, registry.declaration.digits, named=False)
    if descriptions:
        raise SealError(
            f"{sorted(descriptions)}: the record describes what no attack of ours is on"
        )
    _attack_again(audit, recorded, descriptions, registry.declaration.digits, named=True)


def _attack_again(
    audit: RegisteredAudit, recorded: Sequence[_Recorded],
    descriptions: dict[str, ExposureFigures], digits: int | None, *, named: bool,
) -> None:  # fmt: skip
    """Compare attacks of others, or ours, with the record; a description is taken out with ours."""
    attacks: dict[str, MemberAttacks] = {}  # by member, whose groups share what was learned
    for each in recorded:
        about, group = each.measures(named=named), each.group
        if not about:
            continue
        name = group.member.name
        if name not in attacks:
            attacks[name] = _member_attacks(audit, group.member, list(about.values()))
        again = partial(
            check_found, attacks[name], list(about), each.draws, each.statistics, digits
        )
        if named or not each.described:
            again()
            continue
        figures = GroupFigures(attacks[name], each.draws)
        again(figures.describe)
        check_figures(figures, descriptions.pop(group.name, None), group.name)


def _member_attacks(
    audit: RegisteredAudit, member: Member, about: Sequence[Measure]
) -> MemberAttacks:
    """Return the attacks on a member, where code of others sees neither keys nor this folder."""
    # The home of whoever verifies has keys, of other audits too.
    secret = (str(default_home()), str(audit.folder.path))
    hidden = Apart(forbidden=secret, timeout=audit.scope.timeout)
    return MemberAttacks(
        audit.development(member), about, hidden if audit.scope.run_named_code else None
    )


def _check_corrected_exposures(audit: RegisteredAudit) -> None:
    """See the same of the statistics under the corrected design."""
    corrected, evidence, _ = _correction(audit)
    _check_exposures(audit, corrected, evidence)


def _check_nonmembers(audit: RegisteredAudit, group: Group, statistics: GroupEvidence) -> None:
    """See that all target records count but for the copies of members that sealing counted."""
    member, sealed = group.member, audit.journal.ledger.sealed.members[group.member.name]
    # Of a part of the sealed records nobody knows how many of the copies are in it.
    if member.target.draw is not None or audit.registry.declaration.claim.stream:
        return
    left = sealed.records - (sealed.copies or 0)
    for measure, column in zip(group.measures, statistics.columns, strict=True):
        if measure.requirement.group == NONMEMBERS and column.n != left:
            raise SealError(
                f"{measure.requirement.name}: {column.n} records were counted; {sealed.records} "
                f"were sealed, {sealed.copies} of them copies of members"
            )


def _check_diagnostics(
    registry: Registry, groups: Sequence[Group], sizes: Mapping[str, int],
    shown: Diagnostics,
) -> None:  # fmt: skip
    """See that what decides nothing says so, is of these draws, and is what it can be.

    The report shows it beside what was certified, and so a reader may take it for that.
    """
    if shown.label != NOT_CERTIFIED:
        raise SealError(f"the diagnostics are labelled {shown.label!r}")
    drawn = {group.name: {draw.label for draw in group.draws} for group in groups}
    # No rounding covers an AUC, which is about the target too: under a disclosure there is none.
    unrounded = registry.declaration.digits is None
    if (shown.auc is not None, shown.source_auc is not None) != (unrounded, unrounded):
        raise SealError(f"the diagnostics {'lack' if unrounded else 'have'} AUCs")
    for group in groups:
        unscored = shown.unscored.get(group.name, {})
        counts = all(n <= sizes[group.name] for n in unscored.values())
        if not set(unscored) <= drawn[group.name] or not counts:
            raise SealError(f"{group.name}: draws and records without a prediction do not fit")
    if not set(shown.unscored) <= set(drawn):
        raise SealError("the diagnostics are about other mechanisms")
    exposed = {group.name for group in groups if group.member.exposures}
    if not set(shown.exposure or {}) <= exposed:
        raise SealError("the diagnostics have figures of exposure where none was asked for")
    if not unrounded and any(
        attack.alarms is not None or attack.threshold_alarms is not None
        for figures in (shown.exposure or {}).values()
        for attack in figures.attacks
    ):
        raise SealError("the diagnostics have shares of the target that no rounding covers")
    if shown.auc is None or shown.source_auc is None:
        return
    if {name: set(by_draw) for name, by_draw in shown.auc.items()} != drawn:
        raise SealError("the diagnostics have AUCs of other draws")
    if set(shown.source_auc) != set(drawn):
        raise SealError("the diagnostics have AUCs of other sources")
    for group in groups:
        outcome = group.member.target.predicted
        binary = outcome is not None and outcome.kind == "binary"
        for area in (*shown.auc[group.name].values(), shown.source_auc[group.name]):
            if area is not None and not (binary and 0.0 <= area <= 1.0):
                where = "lies in [0, 1]" if binary else "is of a binary outcome alone"
                raise SealError(f"the diagnostics have an AUC of {area!r}, which {where}")


def check_derived(
    registry: Registry,
    manifest: ReleaseManifest,
    journal: Journal,
    evidence: FixedEvidence,
) -> None:
    """See that every derived number of the evidence follows from its statistics."""
    # Before anything is read with it: a seed of the author's choice could be tried until it suits.
    check_seed(journal, evidence)
    groups = groups_of(registry, manifest)
    _check_parts(registry, groups, evidence)
    sealed = journal.ledger.sealed.members
    records: dict[str, int] = {}
    # By member, for all groups: one target has one number of records in a subgroup.
    sizes: dict[str, Sizes] = {member.name: {} for member in registry.declaration.members}
    for group, ways in group_readings(registry, groups, int(evidence.seed)):
        n = planned_records(group.member, sealed[group.member.name].records)
        records[group.name] = n
        for each in ways:
            check_record(
                each.of(evidence), each.reading, each.names, "the evidence",
                n=n, sizes=sizes[group.member.name],
            )  # fmt: skip
    _check_diagnostics(registry, groups, records, evidence.diagnostics)


def _check_parts(registry: Registry, groups: Sequence[Group], evidence: FixedEvidence) -> None:
    """See that the evidence speaks of every group and of nothing else.

    The certificate names what the evidence names: an excluded draw that never was would be told
    as one.
    """
    names = {group.name for group in groups}
    if set(evidence.groups) != names:
        raise SealError("the evidence is about other mechanisms")
    left_out = {group.name for group in groups if group.excluded}
    if set(evidence.excluded) != left_out:
        raise SealError(
            f"the evidence has excluded draws of {sorted(evidence.excluded)}, amendments "
            f"excluded draws of {sorted(left_out)}"
        )
    declared = {spec.name: names for spec in registry.declaration.secondary}
    if {spec: set(by_group) for spec, by_group in evidence.secondary.items()} != declared:
        raise SealError("the evidence is about other secondary specifications")


def _check_certificate(
    audit: RegisteredAudit, evidence: Evidence, grant: GrantStatement | None
) -> None:
    """Decide anew, and see that the certificate says that and nothing else."""
    folder, journal, registry, result = audit.folder, audit.journal, audit.registry, audit.result
    recorded, signer = open_envelope(folder.read(CERTIFICATE))
    # Whoever has another key could sign a statement of their own and leave the ledger as it is.
    if signer != journal.ledger.find(Certified)[0].signer:
        raise SealError("the certificate was signed by another key than the ledger")
    # Coins that were guessed are counted on development alone; the rest is decided anew without it.
    guessed = None
    if result.withheld and any(member.epsilons for member in registry.declaration.members):
        guessed = recorded.predicate.epsilon or ()
        result.not_checked.append("epsilon: how often coins were guessed right; its rows are away")
    predicate = predicate_of(folder, journal, registry, evidence, grant, guessed=guessed)
    expected = Statement.about(subjects_of(journal, registry, folder.sha256(EVIDENCE)), predicate)
    # The sentences too, which are all that most readers take from it.
    agree(recorded.to_dict(), expected.to_dict(), "the certificate")
    result.decisions = {verdict.mechanism: verdict.decision for verdict in predicate.verdicts}
    result.lost = lost_guarantee(predicate.claim_status, journal.ledger.entries)
    result.attestation = predicate.attestation.words
    result.stated = [stated.about for stated in predicate.stated_not_checked]


def _check_correction(audit: RegisteredAudit) -> None:
    """See that the corrective certificate is one, and follows from its own evidence.

    Its test and all it says follow from the registration and its design, so that nobody can
    have tried several after the opening; the ledger admits one.
    """
    folder, registry = audit.folder, audit.registry
    (entry,) = audit.journal.ledger.find(Corrected)
    correction = folder.document(Correction, CORRECTION)
    if correction.digest != entry.body.correction or set(entry.body.files) != {CORRECTION}:
        raise SealError(f"{CORRECTION} is not the one that was recorded")
    design, evidence = entry.body.design, correction.evidence
    corrected = corrected_registry(registry, design, audit.journal)
    _check_statistics(audit, corrected, evidence, CORRECTION)
    again = correction_of(folder, registry, corrected, design, entry.body.reason, evidence)
    agree(correction.to_dict(), again.to_dict(), CORRECTION)
    if entry.body.decisions != again.decisions:
        raise SealError("the ledger has other decisions than the correction")


def _check_report(folder: AuditFolder, journal: Journal) -> None:
    """Build the report again: most people read it alone, and a word changed there is a lie told."""
    for name, content in report_bytes(folder, journal).items():
        if not folder.has(name):
            continue  # a report can be written at any time; one that is there must be this one
        if folder.read(name) != content:
            raise SealError(f"{name} is not the report of this audit; write it anew with report")
