"""Can this audit succeed as declared? Asked before anything irreversible.

`check` reads the declaration, its files, the ledger and, once the target is sealed, the
development part; it writes nothing but the source's model. It divides the table as `seal` will,
lets generators describe themselves as `register` will, and asks for the same reasons: what it
finds are the errors that the later steps would end in, what no outcome could mend, and what would
cost the guarantee. All of it is told at once. Before that, `begun` says of a declaration that
somebody else wrote what it wants to be put where, and whose code it runs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from importlib.resources import files
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Literal

import numpy as np

from proxyguard.adapters.files import FOLDER, Delivery, declared_files
from proxyguard.adapters.privacy import privacy_of
from proxyguard.audit.development import (
    NOTHING_LEARNED,
    MemberDevelopment,
    Workplace,
    develop,
    moments_of,
    reference_policies,
    standardised_columns,
    validation_risks,
)
from proxyguard.audit.folder import DECLARATION, RELEASES
from proxyguard.audit.forecast import (
    USUAL,
    Forecast,
    Outlook,
    family_size,
    forecast_sealed,
    forecast_unsealed,
    out_of_reach,
    unsealed_limits,
    unsealed_reference,
)
from proxyguard.audit.home import DataFolders, Home
from proxyguard.audit.jobs import (
    check_machine,
    check_source,
    folder_of,
    generator_fields,
    loading_problems,
    root_for,
)
from proxyguard.audit.manifest import Fault, faults_of, named_delivery, release_schema, same_files
from proxyguard.audit.members import MemberCounts
from proxyguard.audit.plan import MANY, declared_records, obstacles
from proxyguard.audit.register import (
    check_given,
    check_queries,
    check_secondary,
    claim_reasons,
    random_objection,
)
from proxyguard.audit.reserve import (
    Division,
    check_lineage,
    guarantee_reasons,
    knows_seal,
    lineage_warnings,
    lineage_words,
    refuse_leaks,
)
from proxyguard.audit.rules import (
    gap_warnings,
    measures_of,
    planned_records,
    provisional_measure,
    resolve_limits,
)
from proxyguard.audit.seal import (
    PreparedMember,
    UnsealedDevelopment,
    count_requirements,
    group_warnings,
    mean_warnings,
    overlaps_of,
    prepare_member,
    rounding_warnings,
    sealed_anew,
    survey_warnings,
    written_limits,
)
from proxyguard.documents.registry import ResolvedRequirement
from proxyguard.documents.releases import GivenRelease, ReleaseManifest
from proxyguard.draw.catalog import PROCEDURES, find_pipeline, is_built_in, is_ours, procedure_path
from proxyguard.draw.job import DrawJob, Survey
from proxyguard.draw.messages import DeliveredFile, DrawResult, Failed
from proxyguard.draw.pool import (
    DrawingPool,
    can_fork,
    draw_all,
    ended_after,
    nothing_registered,
)
from proxyguard.draw.protocol import Fitted, outcomes
from proxyguard.errors import DrawError, ProxyGuardError, RegistryError, TableError, TargetReused
from proxyguard.losses.given import check_bounds, read_loss_file
from proxyguard.losses.measure import Measure
from proxyguard.losses.query import CodedRecords, expand
from proxyguard.printable import some, toml
from proxyguard.registry.declaration import Declaration, Member
from proxyguard.registry.design import clusters_of
from proxyguard.registry.parts import DELIVERED, MechanismPart, RampRule, SlackRule
from proxyguard.registry.requirement import Form, Requirement
from proxyguard.seal.fingerprint import TablePrints
from proxyguard.seal.ledger import Stage
from proxyguard.seal.storage import random_bytes
from proxyguard.tables.columns import as_labels, have_value
from proxyguard.tables.files import RawTable, recoded_note, table_bytes, text_is_recoded
from proxyguard.tables.profile import PREDICTED, TableProfile, names_persons, profile_of

if TYPE_CHECKING:
    import pandas as pd


@dataclass(slots=True, kw_only=True)
class Check:
    """What stands in the way, and what a reader should know."""

    problems: list[str] = field(default_factory=list)
    """What a later step would stop at."""
    hopeless: list[str] = field(default_factory=list)
    """Why no outcome at all could validate the claim; every step would run."""
    unlikely: list[str] = field(default_factory=list)
    """Why nothing would be validated, as far as the development part can foretell it."""
    warnings: list[str] = field(default_factory=list)
    """What the author may not want."""
    facts: list[str] = field(default_factory=list)
    """What was looked at and is well."""
    profiles: dict[str, TableProfile] = field(default_factory=dict)
    """The columns of each development part."""
    guaranteed: bool = True
    """Whether the certificate could carry a guarantee, whatever is found."""

    @property
    def good(self) -> bool:
        """Whether nothing stands in the way."""
        return self.possible and not self.unlikely

    @property
    def possible(self) -> bool:
        """Whether every step would run and some outcome validate, however unlikely it is."""
        # A forecast is no proof: a target may be unlike its development part, so that whoever
        # knows better may go on; what no outcome at all could validate nobody needs to open.
        return not self.problems and not self.hopeless

    def to_dict(self) -> dict[str, object]:
        """Return plain values."""
        return {
            "good": self.good,
            "problems": self.problems,
            "cannot_succeed": self.hopeless,
            "unlikely": self.unlikely,
            "warnings": self.warnings,
            "facts": self.facts,
            "guaranteed": self.guaranteed,
            "profiles": {name: profile.to_dict() for name, profile in self.profiles.items()},
        }


def check(workplace: Workplace, *, draw: bool = True) -> Check:
    """Read the declaration, find its files and generators, and judge its limits.

    Parameters
    ----------
    workplace
        What the command works with.
    draw
        Draw one seed of every generator that is not ours twice, to compare the releases.

    Returns
    -------
    Check
        Every problem at once, not the first alone.

    Raises
    ------
    RegistryError
        The declaration itself cannot be read, or nothing can be learned on development data.
    """
    return _Checker(workplace, draw=draw).run()


class _Checker:
    """One check: what it reads, and what it has to say so far."""

    def __init__(self, workplace: Workplace, *, draw: bool) -> None:
        self.workplace, self.draw = workplace, draw
        self.declaration = workplace.folder.declaration()
        self.journal = workplace.folder.journal()
        self.ledger = self.journal.ledger
        self.result = Check()
        self.ready: dict[str, PreparedMember] = {}
        self.sizes: dict[str, TargetSizes] = {}
        self.fitted: dict[str, Fitted] = {}

    def run(self) -> Check:
        """Look at all there is to look at, in the order of the audit."""
        result, declaration = self.result, self.declaration
        result.facts.append(f"{DECLARATION} reads well: {declaration.name}")
        for member in declaration.members:
            self._check_files(member)
            self._check_division(member)
            self._check_named(member)
            self._check_mechanisms(member)
            self._check_procedure(member)
            self._check_learner(member)
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
            for member in declaration.members:
                self._check_claim_before_sealing(member)
                with self._noting(member.name):
                    self._check_limits_before_sealing(member)
            # Of a table that cannot be divided it is told already why.
            for member in declaration.members:
                self._check_disclosure(member)
        self._check_lineage()
        self._check_guarantee()
        # One fault may be met in several places; it is told once.
        told_in = (result.problems, result.hopeless, result.unlikely, result.warnings, result.facts)
        for told in told_in:
            told[:] = dict.fromkeys(told)
        return result

    @contextmanager
    def _noting(self, of: str = "") -> Iterator[None]:
        """Note an error as a problem and go on, so that all problems are told at once.

        Errors of this package alone: any other is a fault of ours, and not of the declaration.
        """
        try:
            yield
        except ProxyGuardError as error:
            words = str(error)
            known = not of or words.startswith(f"{of}: ")
            self.result.problems.append(words if known else f"{of}: {words}")

    # ---- files and code that the declaration names

    def _check_files(self, member: Member) -> None:
        """Find every table that the declaration names."""
        data = self.workplace.data
        # Of a sealed audit no table is read again: whoever makes releases has none.
        for name in () if self.ledger.has(Stage.SEALED) else member.tables:
            with self._noting():
                if text_is_recoded(data.find(name)):
                    self.result.warnings.append(recoded_note(name))

    def _check_named(self, member: Member) -> None:
        """Read every named release as its draw will, and tell of all what would stop it."""
        if self.ledger.has(Stage.DRAWN):
            return  # they are frozen, whatever became of the files
        kinds = self._release_kinds(member) or {}
        looked, weighted = _Looked(), []
        for done, release in enumerate(member.release, start=1):
            with self._noting():
                delivery = named_delivery(self.workplace.data, member, release, kinds)
                self._look_at(member, delivery, looked)
                weighted += [release.name] * (member.target.weight_column in delivery.columns)
            self.workplace.progress("reading releases", done, len(member.release))
        self._tell_looked(member, looked)
        self.result.problems += self._faults_told(looked.faults)
        if weighted and any(part.query is not None for part in member.requirement):
            self.result.warnings.append(
                f"{some(weighted)}: each record counts once in a release's answers, also where a "
                f"column {member.target.weight_column!r} is there; sample a weighted release by "
                "its weights first, or compare its weighted answers in Python with certify_releases"
            )

    def _look_at(self, member: Member, delivery: Delivery, looked: _Looked) -> None:
        """Note what is wrong with a file, and what should be known of it."""
        name, outcome = delivery.file.name, member.target.predicted
        known = self.ledger.has(Stage.SEALED) or member.name in self.ready
        looked.files.append(delivery.file)
        looked.faults += faults_of(delivery, member, self._release_kinds(member) if known else None)
        if delivery.recoded:
            self.result.warnings.append(recoded_note(name))
        records = delivery.records
        if records is not None and outcome is not None:
            count = int(have_value(records[outcome.column], member.target.read.missing).sum())
            if 2 * count < delivery.rows and member.target.missing_outcomes != "refuse":
                looked.sparse.append(f"{name} ({count:,} of {delivery.rows:,} have it)")

    def _tell_looked(self, member: Member, looked: _Looked) -> None:
        """Warn of releases whose rows mostly have no outcome."""
        if looked.sparse and member.procedure is not None:
            left_out = member.target.missing_outcomes == "leave out"
            what = "releases" if left_out else "what models learn"
            self.result.warnings.append(
                f"{some(looked.sparse)}: most rows have no {member.target.outcome!r} and are left "
                f"out of {what}"
            )

    def _faults_told(self, faults: Sequence[Fault], mechanism: str = "") -> list[str]:
        """Return what is wrong with files, what is the same in several of them once."""
        alike: dict[str, list[Fault]] = {}
        for fault in faults:
            alike.setdefault(fault.alike, []).append(fault)
        told = []
        for first, *others in alike.values():
            where = f"{mechanism}, seed {first.file.seed}: " if mechanism else ""
            same = "; ".join(fault.place for fault in others[:FILES])
            same += f" and {len(others) - FILES:,} more" if len(others) > FILES else ""
            told.append(where + first.words + (f"; the same of {same}" if same else ""))
            if first.remedy:
                sealed = f"mend it, or {sealed_anew(self.workplace.folder)}"
                told[-1] += f"; {sealed if self.ledger.has(Stage.SEALED) else first.remedy}"
        return told

    def _check_division(self, member: Member) -> None:
        """Divide the table as sealing will, until it is sealed; one that cannot be is told here."""
        if self.ledger.has(Stage.SEALED):
            return
        target, data = member.target, self.workplace.data
        try:
            if target.losses is not None:
                path = data.find(target.losses)
                given = read_loss_file(path, target.design_column, member.loss_names)
                check_bounds(
                    given, member.requirement, gaps=member.target.missing_outcomes == "worst"
                )
                check_given(member, given.requirements, given.releases)
                _, records, means = given.values.shape
                self.sizes[member.name] = TargetSizes(records=records, means=means)
                return
            store = Home(Path(self.workplace.home)).known_lineage
            # Without a store a key of this one comparison: check makes no home.
            prints = partial(TablePrints, key=random_bytes(32)) if store is None else store.table
            ready = prepare_member(member, data, prints)
            assert ready.division is not None  # no losses are given
            check_queries(member, ready.kinds)
            _check_standards(member, ready)
            self.ready[member.name] = ready
            self.result.warnings += survey_warnings(member, ready.division)
            if ready.division.unlabelled:
                self.result.facts.append(
                    f"{ready.division.unlabelled:,} target records have no {target.outcome!r} and "
                    "are left out; nothing is claimed about them"
                )
            self.sizes[member.name] = TargetSizes(
                records=planned_records(member, len(ready.division.target)),
                means=count_requirements(member, ready.kinds, ready.division.development),
            )
        except ProxyGuardError as error:
            self.result.problems.append(str(error))
            if target.reserve is not None and str(target.outcome) not in str(error):
                self._check_undivided(member, str(target.table))

    def _tell_persons(self, member: Member, ready: PreparedMember) -> None:
        """Warn where persons come twice, or stand on both sides of the division; ids are counted.

        Of the target the ids are read, as sealing reads the labels of clusters, and no more.
        """
        division, target = ready.division, member.target
        assert division is not None  # no losses are given
        assert ready.development is not None
        excluded = {*member.excluded}
        for column in self.result.profiles[member.name].columns:
            name = column.name
            texts = ready.development[name]
            free = name not in {target.outcome, *target.design_columns}
            if not free or not names_persons(name, texts, column.kind, excluded=name in excluded):
                continue
            ids, judged = (
                Counter(as_labels(known[have_value(known, target.read.missing)]))
                for known in (division.development[name], division.target[name])
            )
            both = sum(count for one, count in judged.items() if one in ids)
            again, twice = (sum(known.values()) - len(known) for known in (ids, judged))
            words = (
                f"{member.name}: {name!r} looks like an id: {again:,} records repeat one in "
                f"development, {twice:,} in the target, and {both:,} of the target have one that "
                "development has"
            )
            if not twice and not both and (not again or target.reserve is None):
                self.result.facts.append(words)
                continue
            remedy = _apart(member, name, len(ids), division, twice=twice, both=both)
            self.result.warnings.append(
                f"{words}: records of one person are not independent, and on both sides "
                f"development tells of the target; {remedy}"
            )

    def _check_undivided(self, member: Member, name: str) -> None:
        """See of a table that cannot be divided that its outcome is as declared: no next check."""
        target = member.target
        if target.predicted is None:
            return
        with self._noting():
            raw = RawTable(self.workplace.data.find(name), target.read)
            labels = np.array(raw.column(target.predicted.column))
            if target.labelled is not None:
                labels = labels[have_value(labels, target.read.missing)]
            if labels.size:
                outcomes(labels, target.predicted, name, secret=True)  # the target's are among them

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

    def _check_learner(self, member: Member) -> None:
        """Fit the declared procedure once, as `register` will, where its code is all of ours.

        Once the target is sealed its development part is learned from anyway.
        """
        ready = self.ready.get(member.name)
        if ready is None or ready.division is None:
            return
        with self._noting():
            fitted = unsealed_reference(UnsealedDevelopment(self.workplace, ready))
            if fitted is not None:
                self.fitted[member.name] = fitted

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
            survey, files = None, mechanism.generator == "files"
            if kinds is not None and not files:
                schema = release_schema(member, kinds, mechanism.generator)
                survey = Survey(seeds=mechanism.seed_list, schema=schema)
            with self._noting(mechanism.name):
                check_machine(mechanism)
            with self._noting(mechanism.name):
                described = self.workplace.descriptions.of(
                    self.workplace, member, mechanism, survey
                )
                self._check_source(member, mechanism)
                self._draw_twice(member, mechanism, described.describe)
                looked = _Looked()
                if kinds is not None and files:
                    self._look_at_folder(member, mechanism, kinds, looked)
                for file in described.files or ():
                    looked.add(file)
                self._check_release_files(member, mechanism, looked)

    def _draw_twice(
        self, member: Member, mechanism: MechanismPart, describe: Mapping[str, object]
    ) -> None:
        """Draw one seed of code of others twice: what a seed does not decide nobody draws again."""
        ready, generator = self.ready.get(member.name), str(mechanism.generator)
        private = privacy_of(describe)
        unseeded = private is not None and not private.seeded
        if not self.draw or ready is None or is_built_in(generator) or unseeded or not can_fork():
            return
        training = ready.parts["training"]
        tried = drawn_twice(self.workplace, member, mechanism, training, ready.kinds)
        name = mechanism.name
        if tried.end == "same":
            self.result.facts.append(f"{name}: one seed drawn twice gives the same release")
        elif tried.end == "slow":
            self.result.facts.append(
                f"{name}: not drawn to see whether a seed gives the same release twice: that takes "
                f"more than {LIMIT:g} seconds"
            )
        elif tried.end == "failed":
            stops = mechanism.on_failure == "stop"
            words = f"{name}: a draw that was tried on the training rows failed: {tried.why}"
            (self.result.problems if stops else self.result.warnings).append(words)
        else:
            self.result.warnings.append(
                f"{name}: one seed drawn twice gives two releases, so something else than the seed "
                'decides, and nobody can draw them again: take all randomness from seed.rng("...")'
            )

    def _check_source(self, member: Member, mechanism: MechanismPart) -> None:
        """See that draws of ours could start from the training part."""
        if self.ledger.has(Stage.SEALED):
            sealed = self.ledger.sealed.members[member.name]
            training = MemberDevelopment(self.workplace, member, sealed).training()
            check_source(member, mechanism, training)
        elif member.name in self.ready:
            check_source(member, mechanism, self.ready[member.name].parts["training"])

    def _look_at_folder(
        self, member: Member, mechanism: MechanismPart, kinds: Mapping[str, str], looked: _Looked
    ) -> None:
        """Read every file of a folder once, as its draw will."""
        seeds = mechanism.seed_list
        schema = release_schema(member, kinds, mechanism.generator)
        deliveries = folder_of(self.workplace, mechanism).deliveries(seeds, schema)
        for done, delivery in enumerate(deliveries, start=1):
            self._look_at(member, delivery, looked)
            self.workplace.progress(f"reading {mechanism.name}", done, len(seeds))
        self._check_left_over(mechanism, len(seeds))
        self._tell_looked(member, looked)

    def _check_release_files(
        self, member: Member, mechanism: MechanismPart, looked: _Looked
    ) -> None:
        """Say which files are no releases, or hold the records of another."""
        result, name = self.result, mechanism.name
        bad = {fault.file.name for fault in looked.faults}
        drawn = [file for file in looked.files if file.seed is not None]
        if drawn and bad >= {file.name for file in drawn}:
            # Whatever on_failure says: `draw` stops where every draw of a mechanism failed.
            result.problems.append(f"{name}: no file of it is a release")
        stops = mechanism.on_failure == "stop"
        counts = 'on_failure = "stop"' if stops else "its draw counts as failed"
        usual = Counter(Path(file.name).suffix for file in drawn).most_common(1)
        faults = [
            fault if Path(fault.file.name).suffix == usual[0][0]
            # A note or a list that lies among the releases would be drawn as one of them.
            else replace(
                fault, alike=fault.file.name, words=f"{fault.words}; if it is no release, "
                f'add pattern = "*{usual[0][0]}" to the options',
            )
            for fault in looked.faults
        ]  # fmt: skip
        told = [f"{words}; {counts}" for words in self._faults_told(faults, name)]
        (result.problems if stops else result.warnings).extend(told)
        if mechanism.deterministic:
            return
        registered = [file.registered() for file in looked.files]
        for first, second in same_files(registered, self._excluded(mechanism)):
            result.problems.append(
                f"{name}: {first.name} and {second.name} hold the same records, "
                "and draw will stop there; remove one of them, or leave its draw out once it is "
                f"registered: proxyguard amend {self.workplace.folder.path} --reason WHY "
                f"--exclude {name}:{second.seed}"
            )

    def _check_left_over(self, mechanism: MechanismPart, drawn: int) -> None:
        """Say which files of the folder no seed stands for: to leave some out is a choice."""
        root = root_for(self.workplace, mechanism.options)
        files, _ = declared_files(str(mechanism.generator), mechanism.options, root)
        if len(files) > drawn:
            self.result.warnings.append(
                f"{mechanism.name}: the folder has {len(files)} files, and {drawn} of them are "
                f"drawn, in the order of their names; to take all write draws = {len(files)}"
            )

    def _release_kinds(self, member: Member) -> dict[str, str] | None:
        """Return what the columns of a release hold, as the development part tells.

        Nothing where losses are given, or where the table is not there, which is said elsewhere.
        """
        target = member.target
        if target.losses is not None:
            return None
        if self.ledger.has(Stage.SEALED):
            return self.ledger.sealed.members[member.name].kind_of
        if member.name in self.ready:
            return self.ready[member.name].kinds
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
        # A rule or a query takes development data, which are divided when the target is sealed.
        if any(
            not isinstance(part.limit, str)
            or isinstance(part.slack, SlackRule)
            or isinstance(part.ramp, RampRule)
            or part.query is not None
            for part in member.requirement
        ):
            return
        sizes = self.sizes.get(member.name)
        n = declared_records(member) if sizes is None else sizes.records
        resolved = resolve_limits(member, NOTHING_LEARNED, self.declaration.claim, n or 0)
        self._judge_claim(member, resolved, n)

    def _check_limits_before_sealing(self, member: Member) -> None:
        """Judge limits that are plain numbers on the rows that sealing will keep in development.

        Of learners and losses of others it is done once the target is sealed: their code does not
        run in this process before.
        """
        if self.result.problems:  # what is to be mended is told already, in its own words
            return
        ready, judged = self.ready.get(member.name), set[str]()
        if ready is not None and ready.division is not None:
            development = UnsealedDevelopment(self.workplace, ready)
            fitted = self.fitted.get(member.name)
            if fitted is not None and "validation" in ready.parts and not member.measuring_code:
                measures = [
                    provisional_measure(part, member, part.limit)
                    for part in member.requirement
                    if part.loss is not None and isinstance(part.limit, str)
                ]
                risks = validation_risks(development, measures, fitted)
                self._judge_policies(development, measures, risks)
                judged |= {measure.part for measure in measures}
            records = planned_records(member, len(ready.division.target))
            resolved = unsealed_limits(self.declaration, development, fitted, records)
            design = member.target.sampling_design
            requirements = [measure.requirement for measure in measures_of(member, resolved)]
            # Queries and rules too, that register would refuse once the target is sealed.
            # Where only losses of others are asked for, none is known yet.
            reasons = requirements and claim_reasons(self.declaration, design, requirements)
            if reasons:
                self.result.problems += [f"{member.name}: {reason}" for reason in reasons]
                return
            if self._is_foretold(member):
                forecast = self._foretell(
                    member, lambda: forecast_unsealed(
                        self.declaration, self.workplace, ready, fitted
                    )
                )  # fmt: skip
                judged |= set() if forecast is None else {r.part.name for r in forecast.required}
        if judged != {part.name for part in member.requirement}:
            self.result.facts.append("other limits are judged once the target is sealed")

    # ---- what named releases would get

    def _is_foretold(self, member: Member) -> bool:
        """Say whether a claim is about named releases, which are still to be judged."""
        named = member.release or member.mechanism
        return bool(
            self.declaration.claim.level == "releases" and named
            and not self.declaration.claim.stream and not self.ledger.has(Stage.OPENED)
        )  # fmt: skip

    def _foretell(self, member: Member, make: Callable[[], Forecast]) -> Forecast | None:
        """Say of every requirement what a release that is exactly right would get."""
        result, name = self.result, member.name
        try:
            forecast = make()
        except RegistryError as error:
            result.facts.append(f"{name}: nothing is foretold of releases: {error}")
            return None
        result.facts.append(f"{name}: {forecast.basis}")
        result.facts += [f"{name}: {which!r} is not foretold: {why}"
                         for which, why in forecast.later.items()]  # fmt: skip
        if forecast.counted:
            result.hopeless += [f"{name}: {why}" for why in forecast.out_of_reach()]
        outlooks = forecast.outlooks(USUAL)
        for outlook in outlooks:
            self._tell_outlook(name, forecast, outlook)
        if all(outlook.chance >= USUAL for outlook in outlooks):
            return forecast
        result.warnings.append(
            f"{name}: proxyguard plan {self.workplace.folder.path} says what would do for all "
            "requirements at once, and what a release halfway to its limits would get"
        )
        if forecast.heaviest is not None:
            result.warnings.append(
                f"{name}: a smaller max_weight counts more of the target: development's heaviest "
                f"{forecast.unit[:-1]} weighs {forecast.heaviest:.4g}"
            )
        return forecast

    def _tell_outlook(self, name: str, forecast: Forecast, outlook: Outlook) -> None:
        said = f"{name}: {forecast.words(outlook, USUAL)}"
        if outlook.chance >= USUAL:
            self.result.facts.append(said)
        else:
            (self.result.warnings if outlook.chance else self.result.unlikely).append(said)

    def _check_disclosure(self, member: Member) -> None:
        """Say what would be given away of the target."""
        sizes, result = self.sizes.get(member.name), self.result
        limits = written_limits(member)
        n = None if sizes is None else sizes.records
        result.warnings += rounding_warnings(member, self.declaration.digits, limits, n)
        if sizes is None:
            return
        with self._noting():
            ready = self.ready.get(member.name)
            if ready is not None and ready.division is not None:
                assert ready.development is not None  # as long as there is a division
                self._tell_columns(member, ready.development)
                self._tell_persons(member, ready)
                result.warnings += group_warnings(member, ready.division.target)
                result.warnings += gap_warnings(member, ready.division.gaps)
            result.warnings += mean_warnings(
                self.declaration, member, requirements=sizes.means, n=sizes.records,
                limits=[*limits.values()],
            )  # fmt: skip

    # ---- once it is sealed

    def _check_sealed(self, member: Member) -> None:
        """Resolve the limits on development data and try trivial policies against them."""
        result, declaration = self.result, self.declaration
        sealed = self.ledger.sealed.members[member.name]
        if member.target.losses is not None:
            result.warnings += mean_warnings(
                declaration, member, requirements=len(sealed.requirements or ()), n=sealed.records,
                limits=[],
            )  # fmt: skip
            return
        development = MemberDevelopment(self.workplace, member, sealed)
        check_queries(member, development.kinds)
        self._tell_columns(member, development.training())
        self._tell_members(MemberCounts.sealed(development))
        facts = develop(development, declaration)
        n = planned_records(member, sealed.records)
        resolved = resolve_limits(member, facts, declaration.claim, n)
        self._judge_claim(member, resolved, n)
        measures = measures_of(member, resolved)
        result.warnings += _absent_groups(development, measures)
        result.warnings += mean_warnings(
            declaration, member, requirements=len(measures), n=n,
            limits=[measure.requirement for measure in measures],
        )  # fmt: skip
        limits = {m.part or m.requirement.name: m.requirement for m in measures}
        result.warnings += rounding_warnings(member, declaration.digits, limits, n)
        self._judge_policies(
            development, measures, {name: float(risk) for name, risk in facts.risks.items()}
        )
        if not self._is_foretold(member) or result.problems:
            return
        self._foretell(
            member, lambda: forecast_sealed(self.declaration, development, facts)
        )  # fmt: skip

    def _judge_policies(
        self, development: MemberDevelopment, measures: Sequence[Measure],
        risks: Mapping[str, float],
    ) -> None:  # fmt: skip
        """Try the source, and policies that learn nothing, against limits on validation data."""
        result = self.result
        policies = reference_policies(development, measures)
        for requirement in (measure.requirement for measure in measures):
            name, limit = requirement.name, requirement.limit
            if name not in risks:
                continue
            source = risks[name]
            unit = requirement.unit
            result.facts.append(
                f"{name}: limit {limit:g}{unit}, source {source:.4f}{unit} on validation"
            )
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
        # Of a table that cannot be read it is told already why.
        given = [m.name for m in declaration.members if m.target.losses is None]
        if not given or (not self.ledger.has(Stage.SEALED) and set(given) != set(self.ready)):
            return
        try:
            if self.ledger.has(Stage.SEALED):
                overlaps = check_lineage(self.workplace.folder, self.journal, home)
                if not knows_seal(self.journal, home):
                    self._lose_guarantee(
                        ["the lineage store of this home does not know this audit's seal: restore "
                         "it, or the certificate says: guarantee no. Where another home sealed it "
                         "the audit goes on in that folder; making releases needs no table"]
                    )  # fmt: skip
            else:
                store = home.known_lineage
                ready = list(self.ready.values())
                for prepared in ready:
                    self._tell_members(prepared.counts)
                known = [] if store is None else store.known()
                overlaps = overlaps_of("", declaration, ready, known)
                refuse_leaks(declaration, overlaps)
        except (TableError, TargetReused) as error:
            if str(error) not in self.result.problems:  # a file that is missing was named already
                self.result.problems.append(str(error))
            return
        # Records that another audit has sealed, too: whichever opens them first, the other loses.
        others = [o for o in overlaps if o.shared and o.role == "target" and not o.same_audit]
        words = lineage_words(overlaps, declaration.name)
        if others and not any(o.opened for o in others):
            words += ": whichever folder is opened first has the guarantee, and no other"
        (self.result.warnings if others else self.result.facts).append(words)
        self._lose_guarantee(lineage_warnings(declaration, overlaps))

    def _lose_guarantee(self, warnings: Sequence[str]) -> None:
        self.result.warnings += warnings
        self.result.guaranteed &= not warnings

    def _tell_columns(self, member: Member, records: pd.DataFrame) -> None:
        """Say what each column is, of the development part alone: the target is not profiled."""
        target = member.target
        roles = dict.fromkeys(member.excluded, "excluded")
        roles |= dict.fromkeys(target.design_columns, "the design")
        roles[str(target.outcome)] = PREDICTED
        profile = profile_of(records, member.columns, roles=roles)
        self.result.profiles[member.name] = profile
        self.result.facts.append(f"{member.name}: development has {profile.words()}")
        self.result.warnings += [f"{member.name}: {warning}" for warning in profile.warnings]

    def _check_guarantee(self) -> None:
        """Say what the certificate will say of its guarantee, whatever is found."""
        reasons = guarantee_reasons(self.declaration, self.ledger)
        self._lose_guarantee(
            [f"the certificate will say: guarantee no: {reason}" for reason in reasons]
        )

    def _tell_members(self, counts: MemberCounts | None) -> None:
        """Say whom an exposure is about, and which limits finite members alone would break."""
        if counts is not None:
            self.result.facts.append(counts.words())
            self.result.warnings += counts.warnings()

    # ---- the claim

    def _failed(self, member: Member, mechanism: MechanismPart) -> int:
        """Return how many frozen draws of a mechanism failed, of those that count."""
        if not self.ledger.has(Stage.DRAWN) or self.declaration.claim.after_opening:
            return 0
        manifest = self.workplace.folder.document(ReleaseManifest, RELEASES)
        excluded = self._excluded(mechanism)
        return sum(
            draw.failed
            for draw in manifest.draws(member.name, mechanism.name)
            if not isinstance(draw, GivenRelease) and draw.seed not in excluded
        )

    def _judge_claim(
        self, member: Member, resolved: Sequence[ResolvedRequirement], n: int | None
    ) -> None:
        """Say why the claim is not covered, or why nothing could validate it."""
        try:
            measures = measures_of(member, resolved)
            requirements = [measure.requirement for measure in measures]
            reasons = claim_reasons(self.declaration, member.target.sampling_design, requirements)
            for spec in self.declaration.secondary:
                check_secondary(spec, measures)
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

        The audit cannot succeed if that is so for every mechanism; it is a warning for one among
        others.
        """
        plan, result = self.declaration.plan, self.result
        if plan is not None and n is not None and plan.records != n:
            result.warnings.append(
                f"[plan] counts on {plan.records:,} records, the target has {n:,}"
            )
        design, claim = member.target.sampling_design, self.declaration.claim
        if claim.level == "releases" and not claim.stream and n is not None:
            # How many clusters there are the forecast counts, where it can.
            units = n if clusters_of(design) is None else declared_records(member)
            family = family_size(self.declaration)
            result.hopeless += [
                f"{member.name}: {why}"
                for why in out_of_reach(
                    self.declaration, design, requirements, units or MANY, family
                )
            ]
        # Unknown sizes count as plenty: nothing is called hopeless that more records could settle.
        reasons = {
            mechanism.name: obstacles(
                self.declaration.claim, member.target.sampling_design, requirements, n=n or MANY,
                releases=mechanism.draws - len(self._excluded(mechanism)),
                mechanisms=len(member.mechanism), failed=self._failed(member, mechanism),
            )
            for mechanism in member.mechanism
        }  # fmt: skip
        hopeless = all(reasons.values())
        for mechanism in member.mechanism:
            if hopeless:
                result.hopeless += [f"{mechanism.name}: {why}" for why in reasons[mechanism.name]]
            else:
                result.warnings += [
                    f"{mechanism.name} cannot be validated, because {why}"
                    for why in reasons[mechanism.name]
                ]
            if plan is not None and plan.draws != mechanism.draws:
                result.warnings.append(
                    f"{mechanism.name}: [plan] counts on {plan.draws} draws, declared are "
                    f"{mechanism.draws}"
                )


@dataclass(slots=True)
class _Looked:
    """Files that stand for releases, and what is wrong with them."""

    files: list[DeliveredFile] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)
    sparse: list[str] = field(default_factory=list)

    def add(self, file: DeliveredFile) -> None:
        """Add a file that a generator looked at itself."""
        self.files.append(file)
        if file.problem is not None:
            self.faults.append(Fault.of(file, file.problem))


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetSizes:
    """How large a target will be, and how much is published of it."""

    records: int
    """Records that tests will see."""
    means: int
    """Means of the target that each release will publish."""


def _apart(
    member: Member, name: str, ids: int, division: Division, *, twice: int, both: int
) -> str:
    """Return what to do where records have the same id, so that a claim may rest on them."""
    target, repeats = member.target, "leave the repeats out of the tables"
    design = f"write under [target] design = {{ by = {toml(name)} }}"
    if target.reserve is not None:
        persons = round(ids * len(division.target) / len(division.development))
        design += f", reserve = {{ clusters = {persons}, seed = {target.reserve.seed} }}"
    if target.missing_outcomes == "leave out":
        design += ', missing_outcomes = "refuse"'
    if target.reserve is None and both:
        repeats = f"leave the records of these persons out of {toml(target.files[0])}"
        return f"{repeats}, and {design}" if twice and target.design == "iid" else repeats
    return f"{repeats}, or {design}" if target.design == "iid" else repeats


def _check_standards(member: Member, ready: PreparedMember) -> None:
    """See that the columns of correlations vary where their deviation is the scale."""
    moments = moments_of(ready.parts["training"], standardised_columns(member, ready.kinds))
    for requirement in member.requirement:
        if requirement.query is not None and requirement.query.correlation is not None:
            expand(requirement.name, requirement.query, {}, moments)


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


# Files that a message names.
FILES = 20
# Seconds that either process may take; what needs longer is not tried.
LIMIT = 20.0


@dataclass(frozen=True, slots=True)
class TwoDraws:
    """What two draws of one seed showed."""

    end: Literal["same", "other", "failed", "slow"]
    why: str = ""


def drawn_twice(
    place: Workplace, member: Member, mechanism: MechanismPart, training: pd.DataFrame,
    kinds: Mapping[str, str],
) -> TwoDraws:  # fmt: skip
    """Draw one seed in two processes and compare the releases: is a release what its seed gives?

    A draw that something beside its seed decides (numpy's own generator, a clock, the order of a
    set) passes every step, and nobody can draw it again. So a seed that is none of the declared
    ones is drawn from the training part, in two processes that share nothing, and no release is
    kept.

    Parameters
    ----------
    place
        What the command works with.
    member, mechanism
        What is drawn; its generator is code of others.
    training
        The rows that draws are made from.
    kinds
        What each column holds.
    """
    generator = str(mechanism.generator)
    declared = {seed for m in member.mechanism for seed in m.seed_list}
    seed = next(seed for seed in count(2**31 - 1, -1) if seed not in declared)
    contents = []
    with TemporaryDirectory(prefix="proxyguard-") as folder:
        source = Path(folder) / "training.parquet"
        source.write_bytes(table_bytes(training))
        job = DrawJob(
            **generator_fields(place, member, generator, mechanism.options),
            name=mechanism.name, source=str(source), source_rows=len(training),
            schema_of_releases=release_schema(member, kinds, generator),
            allow=tuple(mechanism.allow),
            prepare_seed=mechanism.prepare_seed, may_ignore_seed=mechanism.deterministic,
            coins=mechanism.inclusion == "coins",
        )  # fmt: skip
        # Not forks of one process: what it made at random once, both would have alike.
        with DrawingPool() as other:
            for pool in (place.pool, other):
                result = _drawn(job, seed, pool)
                if isinstance(result, TwoDraws):
                    return result
                contents.append(result)
    return TwoDraws("same" if contents[0] == contents[1] else "other")


def _drawn(job: DrawJob, seed: int, pool: DrawingPool) -> str | TwoDraws:
    """Return the digest of one draw's records, or how it ended without."""
    results: list[DrawResult] = []
    with ended_after(LIMIT, pool.end) as late:
        try:
            draw_all(job, [seed], pool=pool, workers=1, timeout=LIMIT, keep=results.append,
                     check=nothing_registered)  # fmt: skip
        except (DrawError, RegistryError) as error:
            return TwoDraws("slow") if late.is_set() else TwoDraws("failed", str(error))
    said = results[0].said
    if isinstance(said, Failed):
        return TwoDraws("slow" if said.status == "timeout" else "failed", said.error)
    return said.content


def template() -> str:
    """Return the declaration that `Audit.init` writes for a person to fill in."""
    return files("proxyguard.audit").joinpath("template.toml").read_text(encoding="utf-8")


@dataclass(frozen=True, slots=True, kw_only=True)
class Begun:
    """What has to be done before the first step of an audit that was declared elsewhere."""

    missing: tuple[str, ...]
    """Tables and folders that are not there, each with what it has to be."""
    named: tuple[str, ...]
    """Code of others that steps will run, by what names it."""
    carried: tuple[tuple[str, str], ...]
    """Code of others that the declaration itself holds, by the mechanism that is made of it."""


def begun(
    declaration: Declaration, data: DataFolders, beside: Path, *, sealed: bool = False
) -> Begun:
    """Return what a declaration wants.

    Parameters
    ----------
    declaration
        What was begun with.
    data
        Where its tables are looked for.
    beside
        The folder that the audit's folder lies in, as it was typed.
    sealed
        Whether the tables are in the folder already, so that only releases may be wanting.
    """
    missing: list[str] = []
    for member in declaration.members:
        for name, what in (*(() if sealed else _tables(member)), *_releases(member)):
            try:
                data.find(name)
            except TableError:
                missing.append(f"{beside / name}: {what}")
    drawn = [*(m for member in declaration.members for m in member.mechanism), *declaration.pilot]
    carried, named = {}, []
    for part in drawn:
        if part.generator == "code":
            carried[part.name] = str(part.options.get("text", ""))
        elif part.generator == "callable":
            named.append(str(part.options.get("function", "")))
        elif part.generator not in (None, "losses") and not is_ours(part.generator):
            named.append(part.generator)
    for member in declaration.members:
        library = () if member.procedure is None else member.procedure.library
        named += [name for name in library if not is_ours(name, "procedure")]
        named += member.measuring_code
    return Begun(
        missing=tuple(dict.fromkeys(missing)),
        named=tuple(dict.fromkeys(named)),
        carried=tuple(carried.items()),
    )


def _tables(member: Member) -> Iterator[tuple[str, str]]:
    """Yield the tables that a member names, and what each has to be."""
    target = member.target
    for name in target.files:
        whole = name == target.table
        yield name, (
            "the real table" if whole
            else "losses that were computed elsewhere" if name == target.losses
            else "records that nobody has looked at, the target"
        )  # fmt: skip
    if member.development.table is not None:
        yield member.development.table, "the real rows that releases stand in for"


def _releases(member: Member) -> Iterator[tuple[str, str]]:
    """Yield the releases that a member names, and folders of them."""
    for release in member.release:
        yield release.file, "a release"
    for mechanism in member.mechanism:
        folder = mechanism.options.get(FOLDER)
        if mechanism.generator in DELIVERED and isinstance(folder, str):
            yield folder, "the folder of the releases"
