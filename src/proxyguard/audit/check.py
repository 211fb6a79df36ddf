"""Can this audit succeed as declared? Asked before anything irreversible.

`check` reads the declaration, its files, the ledger and, once the target is sealed, the
development part; it writes nothing but the source's model. It divides the table as `seal` will,
lets generators describe themselves as `register` will, and asks for the same reasons: what it
finds are the errors that the later steps would end in.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

from proxyguard.audit.development import MemberDevelopment, Workplace, develop, reference_policies
from proxyguard.audit.folder import DECLARATION
from proxyguard.audit.home import Home
from proxyguard.audit.jobs import loading_problems, release_schema
from proxyguard.audit.manifest import same_files
from proxyguard.audit.members import MemberCounts
from proxyguard.audit.plan import MANY, declared_records, obstacles
from proxyguard.audit.register import claim_reasons, random_objection
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
    read_development,
)
from proxyguard.documents.registry import ReleaseFile, ResolvedNumber, ResolvedRequirement
from proxyguard.draw.catalog import PROCEDURES, find_pipeline, procedure_path
from proxyguard.draw.job import Survey
from proxyguard.errors import ProxyGuardError, TableError, TargetReused
from proxyguard.losses.measure import Measure, read_loss_file
from proxyguard.losses.query import CodedRecords
from proxyguard.registry.declaration import Member
from proxyguard.registry.parts import MechanismPart, SlackRule
from proxyguard.registry.requirement import Form, Requirement
from proxyguard.seal.fingerprint import TablePrints
from proxyguard.seal.ledger import Stage
from proxyguard.seal.storage import random_bytes
from proxyguard.tables.files import RawTable
from proxyguard.tables.profile import TableProfile, profile_of

if TYPE_CHECKING:
    import pandas as pd


@dataclass(slots=True, kw_only=True)
class Check:
    """What stands in the way, and what a reader should know."""

    problems: list[str] = field(default_factory=list)
    """What a later step would stop at."""
    warnings: list[str] = field(default_factory=list)
    """What the author may not want."""
    facts: list[str] = field(default_factory=list)
    """What was looked at and is well."""
    profiles: dict[str, TableProfile] = field(default_factory=dict)
    """The columns of each development part."""

    @property
    def good(self) -> bool:
        """Whether nothing stands in the way."""
        return not self.problems

    def to_dict(self) -> dict[str, object]:
        """Return plain values."""
        return {
            "good": self.good,
            "problems": self.problems,
            "warnings": self.warnings,
            "facts": self.facts,
            "profiles": {name: profile.to_dict() for name, profile in self.profiles.items()},
        }


def check(workplace: Workplace) -> Check:
    """Read the declaration, find its files and generators, and judge its limits.

    Parameters
    ----------
    workplace
        What the command works with.

    Returns
    -------
    Check
        Every problem at once, not the first alone.

    Raises
    ------
    RegistryError
        The declaration itself cannot be read, or nothing can be learned on development data.
    """
    return _Checker(workplace).run()


class _Checker:
    """One check: what it reads, and what it has to say so far."""

    def __init__(self, workplace: Workplace) -> None:
        self.workplace = workplace
        self.declaration = workplace.folder.declaration()
        self.journal = workplace.folder.journal()
        self.ledger = self.journal.ledger
        self.result = Check()

    def run(self) -> Check:
        """Look at all there is to look at, in the order of the audit."""
        result, declaration = self.result, self.declaration
        result.facts.append(f"{DECLARATION} reads well: {declaration.name}")
        for member in declaration.members:
            self._check_files(member)
            self._check_mechanisms(member)
            self._check_procedure(member)
            result.facts.append(f"means are over {member.target.estimand}")
            if member.target.prior_use is None and len(declaration.members) == 1:
                result.facts.append(
                    "the records are declared never to have been analysed; else set "
                    "target.prior_use"
                )
        if self.ledger.has(Stage.SEALED):
            for member in declaration.members:
                self._check_sealed(member)
        else:
            result.facts.append(
                "limits and reference policies are judged once the target is sealed"
            )
            for member in declaration.members:
                self._check_claim_before_sealing(member)
            # To divide a table that lacks a file or a column would end in what is told already.
            for member in declaration.members if result.good else ():
                self._check_disclosure(member)
        self._check_lineage()
        return result

    @contextmanager
    def _noting(self) -> Iterator[None]:
        """Note an error as a problem and go on, so that all problems are told at once.

        Errors of this package alone: any other is a fault of ours, and not of the declaration.
        """
        try:
            yield
        except ProxyGuardError as error:
            self.result.problems.append(str(error))

    # ---- files and code that the declaration names

    def _check_files(self, member: Member) -> None:
        """Find every file that the declaration names, and every column of the table."""
        target, data = member.target, self.workplace.data
        for name in [*member.tables, *(release.file for release in member.release)]:
            with self._noting():
                data.find(name)
        source = target.table or member.development.table
        if source is None or target.losses is not None or self.result.problems:
            return
        with self._noting():
            check_columns(member, RawTable(data.find(source), target.read).columns)

    def _check_procedure(self, member: Member) -> None:
        """Load what the declaration names, so that a misspelt name is heard before sealing."""
        names = [] if member.procedure is None else list(member.procedure.library)
        losses = list(member.measuring_code)
        paths = []
        for name in [*names, *losses]:
            with self._noting():
                path = name if name in losses else procedure_path(name)
                if path in PROCEDURES.values():
                    find_pipeline(name)
                else:
                    paths.append(path)
        with self._noting():
            # Code of others is imported in a process that is held as draws are, never here.
            self.result.problems += loading_problems(
                self.workplace, member, list(dict.fromkeys(paths))
            )

    def _check_mechanisms(self, member: Member) -> None:
        """Let every generator describe itself, and look at every file that a draw will be.

        All files that are no releases or are copies are named at once.
        """
        kinds = self._release_kinds(member)
        for mechanism in member.mechanism:
            if mechanism.generator in (None, "losses"):
                continue
            # `register` refuses this; said here, it costs an edit and no sealed target.
            objection = random_objection(mechanism, mechanism.generator)
            if objection is not None:
                self.result.problems.append(objection)
            survey = None
            if kinds is not None:
                schema = release_schema(member, kinds, mechanism.generator)
                survey = Survey(seeds=mechanism.seed_list, schema=schema)
            try:
                described = self.workplace.descriptions.of(
                    self.workplace, member, mechanism, survey
                )
            except ProxyGuardError as error:
                words, name = str(error), f"{mechanism.name}: "
                self.result.problems.append(words if words.startswith(name) else name + words)
                continue
            if described.files is not None:
                self._check_release_files(
                    mechanism, [file.registered() for file in described.files]
                )

    def _check_release_files(
        self, mechanism: MechanismPart, releases: Sequence[ReleaseFile]
    ) -> None:
        """Say which files are no releases, or hold the records of another."""
        result, stops = self.result, mechanism.on_failure == "stop"
        for file in releases:
            if file.problem is not None:
                counts = 'on_failure = "stop"' if stops else "its draw counts as failed"
                words = f"{mechanism.name}, seed {file.seed}: {file.problem}; {counts}"
                (result.problems if stops else result.warnings).append(words)
        problems = [file.problem for file in releases if file.seed is not None]
        # Whatever on_failure says: `draw` stops where every draw of a mechanism failed.
        if problems and None not in problems:
            result.problems.append(f"{mechanism.name}: no file of it is a release")
        if mechanism.deterministic:
            return
        for first, second in same_files(releases, self._excluded(mechanism)):
            result.problems.append(
                f"{mechanism.name}: {first.name} and {second.name} hold the same records, "
                f"and draw will stop there; remove one of them, or exclude {mechanism.name}:"
                f"{second.seed} with an amendment once it is registered"
            )

    def _release_kinds(self, member: Member) -> dict[str, str] | None:
        """Return what the columns of a release hold; before sealing every column is read as text.

        Nothing where losses are given, or where the table is not there, which is said elsewhere.
        """
        target = member.target
        if target.losses is not None:
            return None
        if self.ledger.has(Stage.SEALED):
            return self.ledger.sealed.members[member.name].kind_of
        try:
            path = self.workplace.data.find(str(member.development.table or target.table))
            return dict.fromkeys(RawTable(path, target.read).columns, "text")
        except TableError:
            return None

    def _excluded(self, mechanism: MechanismPart) -> frozenset[int]:
        """Return the seeds of a mechanism that an amendment took out of the claim."""
        if not self.ledger.has(Stage.REGISTERED):
            return frozenset()
        left_out = self.workplace.folder.registry(self.journal).left_out
        return frozenset(seed for name, seed in left_out if name == mechanism.name)

    # ---- before the target is sealed

    def _check_claim_before_sealing(self, member: Member) -> None:
        """Judge the claim where every limit is a plain number already."""
        resolved = []
        for declared in member.requirement:
            limit, slack = declared.limit, declared.slack
            # A rule or a query takes development data, which are divided when the target is sealed.
            if (
                not isinstance(limit, str)
                or isinstance(slack, SlackRule)
                or declared.query is not None
            ):
                return
            resolved.append(
                ResolvedRequirement(
                    part=declared,
                    limit=_as_declared(limit),
                    slack=None if slack is None else _as_declared(slack),
                    queries=(),
                )
            )
        self._judge_claim(member, resolved, declared_records(member))

    def _check_disclosure(self, member: Member) -> None:
        """Divide the table as sealing will, and say what would be given away of the target."""
        target, data, result = member.target, self.workplace.data, self.result
        with self._noting():
            if target.losses is not None:
                given = read_loss_file(
                    data.find(target.losses), target.design_column, member.loss_names
                )
                _, n, means = given.values.shape
            else:
                division = divide(member, data)
                kinds = kinds_of_member(member, division.development)
                self._tell_columns(member, read_development(member, division, kinds))
                means = count_requirements(member, kinds, division.development)
                n = planned_records(member, len(division.target))
                result.warnings += group_warnings(member, division.target)
            result.warnings += mean_warnings(self.declaration, member, requirements=means, n=n)

    # ---- once it is sealed

    def _check_sealed(self, member: Member) -> None:
        """Resolve the limits on development data and try trivial policies against them."""
        result, declaration = self.result, self.declaration
        sealed = self.ledger.sealed.members[member.name]
        if member.target.losses is not None:
            result.warnings += mean_warnings(
                declaration, member, requirements=len(sealed.requirements or ()), n=sealed.records
            )
            return
        development = MemberDevelopment(self.workplace, member, sealed)
        self._tell_columns(member, development.training())
        self._tell_members(MemberCounts.sealed(development))
        facts = develop(development, declaration)
        n = planned_records(member, sealed.records)
        resolved = resolve_limits(member, facts, declaration.claim, n)
        self._judge_claim(member, resolved, n)
        measures = measures_of(member, resolved)
        result.warnings += _absent_groups(development, measures)
        result.warnings += mean_warnings(declaration, member, requirements=len(measures), n=n)
        policies = reference_policies(development, measures)
        for requirement in (measure.requirement for measure in measures):
            name, limit = requirement.name, requirement.limit
            if name not in facts.risks:
                continue
            source = float(facts.risks[name])
            result.facts.append(f"{name}: limit {limit:g}, source {source:.4f} on validation")
            for policy, losses in policies.items():
                loss = losses[name] - (source if requirement.form is Form.RELATIVE else 0.0)
                # Strictly: a release is valid below its limit, and one on it is not.
                if loss < limit:
                    result.warnings.append(
                        f"{name}: the {policy} policy, which learns nothing, has {loss:.4f} on "
                        f"validation data and would meet the limit {limit:g}"
                    )
            if requirement.form is Form.ABSOLUTE and source >= limit:
                result.warnings.append(
                    f"{name}: the source itself has {source:.4f} on validation data, not below "
                    f"the limit {limit:g}"
                )

    def _check_lineage(self) -> None:
        """Say what opening will say of the target's records: seen before, or in development."""
        declaration, home = self.declaration, Home(Path(self.workplace.home))
        if all(member.target.losses is not None for member in declaration.members):
            return
        try:
            if self.ledger.has(Stage.SEALED):
                overlaps = check_lineage(self.workplace.folder, self.journal, home)
                if not knows_seal(self.journal, home):
                    self.result.warnings.append(
                        "the lineage store of this home does not know this audit's seal: restore "
                        "it, or the certificate says: guarantee no"
                    )
            else:
                store = home.known_lineage
                # Without a store a key of this one comparison: check makes no home.
                table = partial(TablePrints, key=random_bytes(32)) if store is None else store.table
                ready = [
                    prepare_member(member, self.workplace.data, table)
                    for member in declaration.members
                ]
                for prepared in ready:
                    self._tell_members(prepared.counts)
                known = [] if store is None else store.known()
                overlaps = overlaps_of("", declaration, ready, known)
                refuse_leaks(declaration, overlaps)
        except (TableError, TargetReused) as error:
            if str(error) not in self.result.problems:  # a file that is missing was named already
                self.result.problems.append(str(error))
            return
        self.result.facts.append(lineage_words(overlaps))
        self.result.warnings += lineage_warnings(declaration, overlaps)

    def _tell_columns(self, member: Member, records: pd.DataFrame) -> None:
        """Say what each column is, of the development part alone: the target is not profiled."""
        target = member.target
        roles = dict.fromkeys(member.excluded, "excluded")
        roles |= dict.fromkeys(target.design_columns, "the design")
        roles[str(target.outcome)] = "predicted"
        profile = profile_of(records, member.columns, roles=roles)
        self.result.profiles[member.name] = profile
        self.result.facts.append(f"{member.name}: development has {profile.words()}")
        self.result.warnings += [f"{member.name}: {warning}" for warning in profile.warnings]

    def _tell_members(self, counts: MemberCounts | None) -> None:
        """Say whom an exposure is about, and which limits finite members alone would break."""
        if counts is not None:
            self.result.facts.append(counts.words())
            self.result.warnings += counts.warnings()

    # ---- the claim

    def _judge_claim(
        self, member: Member, resolved: Sequence[ResolvedRequirement], n: int | None
    ) -> None:
        """Say why the claim is not covered, or why nothing could validate it."""
        try:
            requirements = [m.requirement for m in measures_of(member, resolved)]
            reasons = claim_reasons(self.declaration, member.target.sampling_design, requirements)
            # How large it has to be is a question about a claim that is covered.
            if not reasons:
                self._check_sizes(member, requirements, n)
        except ProxyGuardError as error:
            reasons = [str(error)]
        self.result.problems += [f"{member.name}: {reason}" for reason in reasons]

    def _check_sizes(
        self, member: Member, requirements: Sequence[Requirement], n: int | None
    ) -> None:
        """Say so where no outcome at all could validate: too few draws or records, or no room.

        A problem if that is so for every mechanism, a warning for one among others.
        """
        plan, result = self.declaration.plan, self.result
        if plan is not None and n is not None and plan.records != n:
            result.warnings.append(
                f"[plan] counts on {plan.records:,} records, the target has {n:,}"
            )
        # Unknown sizes count as plenty: nothing is called hopeless that more records could settle.
        reasons = {
            mechanism.name: obstacles(
                self.declaration.claim, member.target.sampling_design, requirements, n=n or MANY,
                releases=mechanism.draws, mechanisms=len(member.mechanism),
            )
            for mechanism in member.mechanism
        }  # fmt: skip
        hopeless = all(reasons.values())
        for mechanism in member.mechanism:
            (result.problems if hopeless else result.warnings).extend(
                f"{mechanism.name}: this audit cannot succeed, because {why}"
                for why in reasons[mechanism.name]
            )
            if plan is not None and plan.draws != mechanism.draws:
                result.warnings.append(
                    f"{mechanism.name}: [plan] counts on {plan.draws} draws, declared are "
                    f"{mechanism.draws}"
                )


def _as_declared(limit: str) -> ResolvedNumber:
    return ResolvedNumber(value=limit, rule="as declared", inputs={})


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


def template() -> str:
    """Return the declaration that `Audit.init` writes for a person to fill in."""
    return files("proxyguard.audit").joinpath("template.toml").read_text(encoding="utf-8")
