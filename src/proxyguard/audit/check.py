"""Can this audit succeed as declared? Asked before anything irreversible."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import Any

from proxyguard.audit.development import MemberDevelopment, Workplace, develop, reference_policies
from proxyguard.audit.folder import DECLARATION
from proxyguard.audit.home import Home
from proxyguard.audit.jobs import loading_problems
from proxyguard.audit.manifest import same_files
from proxyguard.audit.plan import MANY, declared_records, obstacles
from proxyguard.audit.register import claim_reasons
from proxyguard.audit.reserve import (
    check_columns,
    check_lineage,
    divide,
    knows_seal,
    lineage_warnings,
    lineage_words,
    refuse_leaks,
)
from proxyguard.audit.rules import measures_of, planned_records, resolve_limits
from proxyguard.audit.seal import (
    count_requirements,
    group_warnings,
    kinds_of_member,
    mean_warnings,
    overlaps_of,
    prepare_member,
    read_loss_file,
)
from proxyguard.documents.registry import ReleaseFile, ResolvedNumber, ResolvedRequirement
from proxyguard.draw.catalog import PROCEDURES, find_pipeline, is_random, procedure_path
from proxyguard.draw.sources import Survey
from proxyguard.errors import ProxyGuardError, TableError, TargetReused
from proxyguard.losses.measure import Measure
from proxyguard.losses.query import CodedRecords
from proxyguard.registry.declaration import Declaration, Member
from proxyguard.registry.parts import SlackRule
from proxyguard.registry.requirement import Form, Requirement
from proxyguard.seal.fingerprint import TablePrints
from proxyguard.seal.ledger import Stage
from proxyguard.seal.storage import random_bytes
from proxyguard.tables.files import RawTable, Schema


@dataclass(slots=True, kw_only=True)
class Check:
    """What stands in the way, and what a reader should know."""

    problems: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    facts: list[str] = field(default_factory=list)

    @property
    def good(self) -> bool:
        """Whether nothing stands in the way."""
        return not self.problems

    def to_dict(self) -> dict[str, Any]:
        """Return plain values."""
        return {
            "good": self.good,
            "problems": self.problems,
            "warnings": self.warnings,
            "facts": self.facts,
        }


def check(place: Workplace) -> Check:
    """Read the declaration, find its files and generators, and judge its limits."""
    result = Check()
    declaration = place.folder.declaration()
    result.facts.append(f"{DECLARATION} reads well: {declaration.name}")
    for member in declaration.members:
        _check_files(result, place, member)
        _check_mechanisms(result, place, member)
        _check_procedure(result, place, member)
        result.facts.append(f"means are over {member.target.estimand}")
        if member.target.prior_use is None and len(declaration.members) == 1:
            result.facts.append(
                "the records are declared never to have been analysed; else set target.prior_use"
            )
    ledger = place.folder.journal().ledger
    if ledger.has(Stage.SEALED):
        sealed = ledger.sealed.members
        for member in declaration.members:
            if member.target.losses is None:
                development = MemberDevelopment(place, member, sealed[member.name])
                _check_limits(result, declaration, development)
            else:
                own = sealed[member.name]
                result.warnings += mean_warnings(
                    declaration, member, requirements=len(own.requirements or ()), n=own.records
                )
    else:
        result.facts.append("limits and reference policies are judged once the target is sealed")
        _check_claim_before_sealing(result, declaration)
        for member in declaration.members if result.good else ():
            _check_disclosure(result, declaration, member, place)
    _check_lineage(result, place, declaration)
    return result


def _check_disclosure(
    result: Check, declaration: Declaration, member: Member, place: Workplace
) -> None:
    """Divide the table as sealing will, and say what the audit would give away of the target."""
    target = member.target
    try:
        if target.losses is not None:
            _, n, means = read_loss_file(
                place.data.find(target.losses), target.design_column
            ).values.shape
        else:
            parts = divide(member, place.data)
            kinds = kinds_of_member(member, parts.development)
            means = count_requirements(member, kinds, parts.development)
            n = planned_records(member, len(parts.target))
            result.warnings += group_warnings(member, parts.target)
    except ProxyGuardError as error:
        result.problems.append(str(error))
        return
    result.warnings += mean_warnings(declaration, member, requirements=means, n=n)


def _check_lineage(result: Check, place: Workplace, declaration: Declaration) -> None:
    """Say what opening will say of the target's records: seen before, or in development."""
    home = Home(Path(place.home))
    journal = place.folder.journal()
    if all(m.target.losses is not None for m in declaration.members):
        return
    try:
        if journal.ledger.has(Stage.SEALED):
            overlaps = check_lineage(place.folder, journal, home)
            if not knows_seal(journal, home):
                result.warnings.append(
                    "the lineage store of this home does not know this audit's seal: restore it, "
                    "or the certificate says: guarantee no"
                )
        else:
            store = home.known_lineage
            key = random_bytes(32)  # without a store, for this one comparison
            ready = [
                prepare_member(
                    member,
                    place.data,
                    partial(TablePrints, key=key) if store is None else store.table,
                )
                for member in declaration.members
            ]
            known = [] if store is None else store.known()
            overlaps = overlaps_of("", declaration, ready, known)
            refuse_leaks(declaration, overlaps)
    except (TableError, TargetReused) as error:
        if str(error) not in result.problems:  # a file that is missing was named already
            result.problems.append(str(error))
        return
    result.facts.append(lineage_words(overlaps))
    result.warnings += lineage_warnings(declaration, overlaps)


def _check_files(result: Check, place: Workplace, member: Member) -> None:
    target = member.target
    names = [target.table, target.file, target.population, target.losses, member.development.table,
             *(release.file for release in member.release)]  # fmt: skip
    for name in names:
        if name is not None:
            try:
                place.data.find(name)
            except TableError as error:
                result.problems.append(str(error))
    source = target.table or member.development.table
    if source is None or target.losses is not None or result.problems:
        return
    try:
        check_columns(member, RawTable(place.data.find(source), target.read).columns)
    except TableError as error:
        result.problems.append(str(error))


def _check_procedure(result: Check, place: Workplace, member: Member) -> None:
    """Load what the declaration names, so that a misspelt name is heard before sealing."""
    names = [] if member.procedure is None else list(member.procedure.library)
    losses = [part.loss for part in member.requirement if part.loss and ":" in part.loss]
    paths = []
    for name in [*names, *losses]:
        try:
            path = name if name in losses else procedure_path(name)
            if path in PROCEDURES.values():
                find_pipeline(name)
            else:
                paths.append(path)
        except ProxyGuardError as error:
            result.problems.append(str(error))
    try:
        result.problems += loading_problems(place, member, list(dict.fromkeys(paths)))
    except ProxyGuardError as error:
        result.problems.append(str(error))


def _check_mechanisms(result: Check, place: Workplace, member: Member) -> None:
    """Let every generator describe itself, and look at every file that a draw will be.

    All files that are no releases or are copies are named at once.
    """
    kinds = _release_kinds(place, member)
    apart = _excluded(place)
    for mechanism in member.mechanism:
        if mechanism.generator in (None, "losses"):
            continue
        if mechanism.deterministic and is_random(str(mechanism.generator)):
            result.problems.append(
                f"{mechanism.name}: {mechanism.generator} takes its seed and is random, so that it "
                "cannot be declared with deterministic = true; take that out"
            )
        survey = None
        if kinds is not None:
            schema = Schema.of_releases(
                kinds, member.target.read.missing, generator=mechanism.generator
            )
            survey = Survey(seeds=mechanism.seed_list, schema=schema)
        try:
            described = place.descriptions.of(place, member, mechanism, survey)
        except ProxyGuardError as error:
            words = str(error)
            known = words.startswith(f"{mechanism.name}: ")
            result.problems.append(words if known else f"{mechanism.name}: {words}")
            continue
        if described.files is None:
            continue
        releases = [ReleaseFile(**file.to_dict()) for file in described.files]
        stops = mechanism.on_failure == "stop"
        for file in releases:
            if file.problem is not None:
                counts = 'on_failure = "stop"' if stops else "its draw counts as failed"
                words = f"{mechanism.name}, seed {file.seed}: {file.problem}; {counts}"
                (result.problems if stops else result.warnings).append(words)
        problems = [file.problem for file in releases if file.seed is not None]
        if problems and None not in problems:
            result.problems.append(f"{mechanism.name}: no file of it is a release")
        if mechanism.deterministic:
            continue
        out = frozenset(seed for name, seed in apart if name == mechanism.name)
        for first, second in same_files(releases, out):
            result.problems.append(
                f"{mechanism.name}: {first.name} and {second.name} hold the same records, "
                f"and draw will stop there; remove one of them, or exclude {mechanism.name}:"
                f"{second.seed} with an amendment once it is registered"
            )


def _release_kinds(place: Workplace, member: Member) -> dict[str, str] | None:
    """Return what the columns of a release hold; before sealing every column is read as text.

    Nothing where losses are given, or where the table is not there, which is said elsewhere.
    """
    target = member.target
    ledger = place.folder.journal().ledger
    if target.losses is not None:
        return None
    if ledger.has(Stage.SEALED):
        return ledger.sealed.members[member.name].kind_of
    try:
        path = place.data.find(str(member.development.table or target.table))
        return dict.fromkeys(RawTable(path, target.read).columns, "text")
    except TableError:
        return None


def _excluded(place: Workplace) -> frozenset[tuple[str, int]]:
    journal = place.folder.journal()
    if not journal.ledger.has(Stage.REGISTERED):
        return frozenset()
    return place.folder.registry(journal).left_out


def _check_sizes(
    result: Check, declaration: Declaration, member: Member, requirements: list[Requirement],
    n: int | None,
) -> None:  # fmt: skip
    """Say so where no outcome at all could validate: too few draws or records, or no room.

    A problem if that is so for every mechanism, a warning for one among others.
    """
    plan = declaration.plan
    if plan is not None and n is not None and plan.records != n:
        result.warnings.append(f"[plan] counts on {plan.records:,} records, the target has {n:,}")
    found = {
        mechanism.name: obstacles(
            declaration.claim, member.target.sampling_design, requirements, n=n or MANY,
            releases=mechanism.draws, mechanisms=len(member.mechanism),
        )
        for mechanism in member.mechanism
    }  # fmt: skip
    hopeless = all(found.values())
    for mechanism in member.mechanism:
        said = [f"{mechanism.name}: this audit cannot succeed, because {why}"
                for why in found[mechanism.name]]  # fmt: skip
        (result.problems if hopeless else result.warnings).extend(said)
        if plan is not None and plan.draws != mechanism.draws:
            result.warnings.append(
                f"{mechanism.name}: [plan] counts on {plan.draws} draws, declared are "
                f"{mechanism.draws}"
            )


def _check_claim_before_sealing(result: Check, declaration: Declaration) -> None:
    """Judge the claim where every limit is a plain number already."""
    for member in declaration.members:
        if any(
            not isinstance(r.limit, str) or isinstance(r.slack, SlackRule) or r.query is not None
            for r in member.requirement
        ):
            continue
        resolved = [
            ResolvedRequirement(
                part=part,
                limit=ResolvedNumber(value=str(part.limit), rule="as declared", inputs={}),
                slack=(
                    ResolvedNumber(value=part.slack, rule="as declared", inputs={})
                    if isinstance(part.slack, str)
                    else None
                ),
                queries=(),
            )
            for part in member.requirement
        ]
        _judge_claim(result, declaration, member, resolved, declared_records(member))


def _judge_claim(
    result: Check, declaration: Declaration, member: Member,
    resolved: Sequence[ResolvedRequirement], n: int | None,
) -> None:  # fmt: skip
    try:
        requirements = [m.requirement for m in measures_of(member, resolved)]
        reasons = claim_reasons(declaration, member.target.sampling_design, requirements)
        if not reasons:
            _check_sizes(result, declaration, member, requirements, n)
    except ProxyGuardError as error:
        reasons = [str(error)]
    result.problems += [f"{member.name}: {reason}" for reason in reasons]


def _absent_groups(development: MemberDevelopment, measures: Sequence[Measure]) -> list[str]:
    """Return what to say of queries about a group that the source of all releases has not."""
    asked = [m for m in measures if m.query is not None and m.group]
    if not asked:
        return []
    training = CodedRecords(development.training())
    absent = {m.part: m.requirement.group for m in asked if not training.inside(m.group).any()}
    return [
        f"{name}: the training part has no record with {group}, so a release that has none "
        "either fails this requirement"
        for name, group in absent.items()
    ]


def _check_limits(result: Check, declaration: Declaration, development: MemberDevelopment) -> None:
    """Resolve the limits on development data and try trivial policies against them."""
    member = development.member
    facts = develop(development, declaration)
    n = planned_records(member, development.sealed.records)
    resolved = resolve_limits(member, facts, declaration.claim, n)
    _judge_claim(result, declaration, member, resolved, n)
    measures = measures_of(member, resolved)
    result.warnings += _absent_groups(development, measures)
    result.warnings += mean_warnings(declaration, member, requirements=len(measures), n=n)
    policies = reference_policies(development, measures)
    for measure in measures:
        requirement = measure.requirement
        if requirement.name not in facts.risks:
            continue
        source = float(facts.risks[requirement.name])
        result.facts.append(
            f"{requirement.name}: limit {requirement.limit:g}, source {source:.4f} on validation"
        )
        for policy, losses in policies.items():
            loss = losses[requirement.name]
            if requirement.form is Form.RELATIVE:
                loss -= source
            if loss < requirement.limit:
                result.warnings.append(
                    f"{requirement.name}: the {policy} policy, which learns nothing, has "
                    f"{loss:.4f} on validation data and would meet the limit {requirement.limit:g}"
                )
        if requirement.form is Form.ABSOLUTE and source >= requirement.limit:
            result.warnings.append(
                f"{requirement.name}: the source itself has {source:.4f} on validation data, not "
                f"below the limit {requirement.limit:g}"
            )


def template() -> str:
    """Return the declaration that `Audit.init` writes for a person to fill in."""
    return files("proxyguard.audit").joinpath("template.toml").read_text(encoding="utf-8")
