"""Open the target once, score, certify from the evidence, sign; and correct, once.

One workflow for both schedules: the opening is recorded before a key is used (`record_opening`),
releases are scored by one `Scorer`, and what follows is concluded by one function
(`Opener._conclude`). A fixed audit scores all releases at once; one that draws after opening
commits and scores them one by one (`sequential`).

Reads the registry, the releases and, with the key, the target; writes `evidence.json`,
`certificate.json`, `advice.json`, the report, on request `records.sealed`, and later
`corrections/0.json`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa

from proxyguard.audit.attacks import MemberAttacks
from proxyguard.audit.decide import (
    EXCLUDED,
    NOT_CERTIFIED,
    Group,
    GroupReading,
    corrected_registry,
    correction_of,
    group_readings,
    groups_of,
    predicate_of,
    sequential_audit,
    subjects_of,
)
from proxyguard.audit.development import MemberDevelopment, Workplace
from proxyguard.audit.exposure import ExposureScorer
from proxyguard.audit.figures import GroupFigures
from proxyguard.audit.folder import (
    ADVICE,
    CERTIFICATE,
    CORRECTION,
    EVIDENCE,
    GRANT,
    RECORDS,
    RELEASES,
    AuditFolder,
    check_folder,
    open_envelope,
    sign_statement,
)
from proxyguard.audit.grant import granted_key, read_grant, release_set
from proxyguard.audit.home import Home, load_key_file
from proxyguard.audit.manifest import check_manifest
from proxyguard.audit.outcome import (
    CorrectiveCertificate,
    JudgedCandidate,
    advice_record,
    write_report,
)
from proxyguard.audit.reserve import check_lineage, knows_seal
from proxyguard.audit.score import Scored, Scorer
from proxyguard.audit.sequential import OneByOne, Step, recorded_scores, refuse_broken_files
from proxyguard.audit.target import Chunk, OpeningSeed, OpenTarget, TargetRecords
from proxyguard.audit.verify import refuse_unsound
from proxyguard.documents.certificate import Correction, Statement
from proxyguard.documents.document import FORMAT
from proxyguard.documents.evidence import (
    Diagnostics,
    Evidence,
    ExcludedEvidence,
    FixedEvidence,
    GroupEvidence,
)
from proxyguard.documents.ledger import (
    Certified,
    Corrected,
    DesignText,
    Deviated,
    GrantStatement,
    Opened,
)
from proxyguard.documents.registry import Registry, SourceModel
from proxyguard.documents.releases import ReleaseManifest
from proxyguard.draw.catalog import path_origin
from proxyguard.draw.sources import changed_origin, refuse_changes
from proxyguard.errors import RegistryError, SealError, StageError
from proxyguard.evidence.record import evidence_record
from proxyguard.evidence.releases import evidence_of
from proxyguard.exact.rounding import round_count_up
from proxyguard.exposure.named import Apart
from proxyguard.losses.measure import Predicted
from proxyguard.modes.evidence import Decision
from proxyguard.registry.declaration import Member
from proxyguard.seal.crypto import Holder, Passphrase, Person, Recipient, SigningKey
from proxyguard.seal.journal import Journal, writing
from proxyguard.seal.ledger import Schedule, Stage
from proxyguard.seal.sealed_file import seal_table
from proxyguard.seal.storage import now


class RecordWriter:
    """Collects positions, outcomes, predictions and thresholds as they are scored.

    They are written on request alone, and only encrypted: they say of single records what the
    evidence does not.
    """

    def __init__(self) -> None:
        self._tables: list[pa.Table] = []

    def attach(self, scorer: Scorer, mechanism: str) -> Scorer:
        """Return the scorer, now also telling what it predicts."""

        def keep(chunk: Chunk, source: Predicted | None, releases: dict[str, Predicted]) -> None:
            for name, predicted in releases.items():
                self._tables.append(_table(chunk, source, mechanism, name, predicted))

        return replace(scorer, on_chunk=keep)

    def sealed(self, holder: Holder) -> bytes:
        """Return all records, encrypted for their holder."""
        table = pa.concat_tables(self._tables) if self._tables else pa.table({"position": []})
        return seal_table(table, [holder]).content


def _table(
    chunk: Chunk, source: Predicted | None, mechanism: str, release: str, predicted: Predicted
) -> pa.Table:
    n = len(chunk.positions)
    missing = np.full(n, np.nan)
    threshold = np.nan if predicted.threshold is None else predicted.threshold
    return pa.table(
        {
            "mechanism": pa.array([mechanism] * n),
            "release": pa.array([release] * n),
            "position": pa.array(chunk.positions),
            "outcome": pa.array(missing if chunk.y is None else chunk.y),
            "source": pa.array((missing if source is None else source.values).tolist()),
            "prediction": pa.array(predicted.values.tolist()),
            "threshold": pa.array(np.full(n, threshold)),
        }
    )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _GroupScores:
    """What scoring one group gave."""

    group: Group
    scored: Scored  # of the draws that count
    n_records: int
    figures: GroupFigures | None  # what describes its releases, where exposures are asked for


@dataclass(frozen=True, slots=True, kw_only=True)
class _Opening:
    """A recorded opening: the claim that the target is opened for, and who signs."""

    journal: Journal
    registry: Registry
    author: SigningKey | None  # nobody where scores are computed again
    grant: GrantStatement | None


class Opener:
    """One opening of one audit: the keys it may use and what they unlock.

    Parameters
    ----------
    place, home
        The folder with what its steps may use, and where this person's keys lie.
    key_file, passphrase, steward_key
        What unlocks the target; without any, the key that sealing left in ``home``.
    write_records
        Whether to write the scored records, encrypted, beside the certificate.
    trusted
        The types that stored models may have, of whoever verifies; the author has a declaration.
    targets
        Targets that were decrypted elsewhere, where there is no key here.
    run_named_code
        Of whoever verifies: whether attacks of others are run, in processes of their own.
    report
        Whether to search for what would resolve it and to write the report; a trial reads the
        record itself, in a fraction of the time.
    """

    def __init__(
        self,
        place: Workplace,
        home: Home,
        *,
        key_file: Path | None = None,
        passphrase: str | None = None,
        steward_key: Path | None = None,
        write_records: bool = False,
        trusted: Sequence[str] | None = None,
        targets: Mapping[str, OpenTarget] | None = None,
        run_named_code: bool = False,
        report: bool = True,
    ) -> None:
        self.place, self.home = place, home
        self._report = report
        self.folder: AuditFolder = place.folder
        self._key_file, self._passphrase = key_file, passphrase
        self._steward_key = steward_key
        self._write_records = write_records
        self._trusted = trusted
        self._runs_attacks = trusted is None or run_named_code
        self._targets = targets or {}
        self._unwrapped: dict[str, bytes] = {}

    def open(self, most: int | None = None) -> bool:
        """Open the target, score and certify; say whether the audit is decided.

        Done again, a fixed audit is scored again, and must give what was certified. An audit
        that draws after opening goes on where it stopped; ``most`` stops it after so many further
        draws, for those who want to look in between, and nothing is certified then.

        Raises
        ------
        StageError
            Where releases are still to be drawn, or candidates are submitted one by one.
        SealError
            Where the folder does not hold, or scoring again gives other evidence.
        """
        author = self.home.signing_key()
        with writing(self.folder.path) as journal:
            registry = self.folder.registry(journal)
            if journal.ledger.schedule is Schedule.SEQUENTIAL:
                return self._draw_and_score(journal, registry, author, most)
            if not journal.ledger.has(Stage.DRAWN):
                raise StageError("opened: all releases must be drawn first, run proxyguard draw")
            check_folder(self.folder, journal)
            check_manifest(self.folder, registry, journal)
            opening = self._record_opening(journal, registry, author)
            self._conclude(opening, author, self._evidence(opening))
            return True

    def _draw_and_score(
        self, journal: Journal, registry: Registry, author: SigningKey, most: int | None
    ) -> bool:
        """Commit and score draw after draw, until the boundary is crossed or ``most`` are made."""
        if registry.declaration.claim.stream:
            raise StageError("this audit takes candidates one by one; use draw --candidate")
        check_folder(self.folder, journal)
        if journal.ledger.has(Stage.CERTIFIED):
            return True
        if not journal.ledger.has(Stage.OPENED):
            refuse_broken_files(registry)  # nothing can be amended once it is opened
        opening = self._record_opening(journal, registry, author)
        step = self._step(opening)
        step.finish_waiting()
        audit = sequential_audit(registry, journal)
        seeds = step.rule.member.mechanism[0].seed_list
        last = len(seeds) if most is None else audit.draws + most
        while not audit.finished and audit.draws < last:
            # The digest is in the ledger before the score exists: a kill in between leaves a
            # draw that waits, and is scored first when the audit goes on.
            score, _ = step.score(step.commit(seeds[audit.draws]))
            audit.add(score.passed)
            self.place.progress("sequential draws", audit.draws, len(seeds))
        if audit.finished:
            self._conclude(opening, author, step.evidence(recorded_scores(journal)))
        return audit.finished

    def submit(self, candidate: Path) -> JudgedCandidate:
        """Judge the next candidate of a stream on its own batch of target records.

        Parameters
        ----------
        candidate
            The file of its table, which is frozen and committed before it is scored.

        Raises
        ------
        RegistryError
            Where the audit is no stream.
        LossMismatch
            Where no records are left for a further round; nothing is committed then.
        DrawError
            Where the file is no release, or the same as an earlier one.
        """
        author = self.home.signing_key()
        with writing(self.folder.path) as journal:
            registry = self.folder.registry(journal)
            _require_stream(registry)
            check_folder(self.folder, journal)
            opening = self._record_opening(journal, registry, author)
            step = self._step(opening)
            step.finish_waiting()
            step.next_records()  # a candidate that no records are left for is not committed
            draw = step.commit_file(candidate)
            score, evidence = step.score(draw)
            return JudgedCandidate(
                candidate=draw.label,
                number=step.scores,
                decision=Decision.VALIDATED if score.passed else Decision.UNRESOLVED,
                pvalue=float(evidence.release_pvalues[0]),
                level=evidence.reading.level,
            )

    def close(self) -> None:
        """End a stream and certify its rounds; a stream that has ended stays as it is.

        Raises
        ------
        StageError
            Where no candidate was judged.
        """
        author = self.home.signing_key()
        with writing(self.folder.path) as journal:
            registry = self.folder.registry(journal)
            _require_stream(registry)
            if journal.ledger.has(Stage.CERTIFIED):
                return
            if not journal.ledger.has(Stage.SCORED):
                raise StageError("no candidate was judged yet; there is nothing to certify")
            opening = self._record_opening(journal, registry, author)
            step = self._step(opening)
            step.finish_waiting()
            self._conclude(opening, author, step.evidence(recorded_scores(journal)))

    def _record_opening(self, journal: Journal, registry: Registry, author: SigningKey) -> _Opening:
        """Record that the target is opened, before any key is used; once."""
        _refuse_changed_losses(registry)
        journal.check_signer(author)  # before the target is claimed, which cannot be undone
        grant = read_grant(self.folder, journal)
        if grant is None:
            self._holder(journal)  # a key that is not here is missed before anything is recorded
        claim = partial(self._claim_target, journal, registry)
        if not journal.ledger.has(Stage.OPENED):
            refuse_unsound(self.folder, "not opened")
            overlaps = check_lineage(self.folder, journal, self.home)
            granted = None if grant is None else self.folder.sha256(GRANT)
            opened = Opened(
                registry=registry.digest,
                releases=release_set(journal),
                lineage=tuple(overlaps),
                seal_known=knows_seal(journal, self.home),
                grant=granted,
                files={} if granted is None else {GRANT: granted},
                time=now(),
            )
            # In the lineage store before the ledger: after a kill in between the target counts
            # as opened for this claim, and for no other.
            claim()
            journal.record(opened, author)
        # Also where the ledger records it already: a folder that was set back, or is opened with
        # another home, must not get a second claim.
        claim()
        return _Opening(journal=journal, registry=registry, author=author, grant=grant)

    def _claim_target(self, journal: Journal, registry: Registry) -> None:
        sealed = journal.ledger.sealed
        for member in sealed.members.values():
            self.home.lineage.open(
                member.commitment,
                audit=sealed.audit,
                registry=registry.digest,
                releases=release_set(journal),
            )

    def _holder(self, journal: Journal) -> Holder:
        if self._passphrase is not None:
            return Passphrase(self._passphrase)
        path = self._key_file or self.home.target_key_path(journal.ledger.sealed.audit)
        return load_key_file(path)

    def target(self, journal: Journal, member: Member, grant: GrantStatement | None) -> OpenTarget:
        """Return a member's target, decrypted; only an opened audit gets here.

        Parameters
        ----------
        journal
            The ledger, which must record the opening.
        member
            Whose target it is.
        grant
            The steward's statement, which holds the key where the target was sealed for one.

        Raises
        ------
        StageError
            Where the opening is not recorded.
        SealError
            Where the file is not what was committed to, or the key does not open it.
        """
        if not journal.ledger.has(Stage.OPENED):
            raise StageError("the target has not been opened")
        if member.name in self._targets:
            return self._targets[member.name]
        sealed = journal.ledger.sealed.members[member.name]
        if member.name not in self._unwrapped:
            file = self.folder.sealed_target(sealed)
            # A steward who verifies has a key of their own; whoever was granted the opening
            # opens with the grant's, and everybody else with the one that sealing left.
            if self._steward_key is not None:
                steward = Person(SigningKey.load(self._steward_key).exchange)
                self._unwrapped[member.name] = file.unwrap(steward)
            elif grant is not None:
                # Of the author at the time of the grant, who may have handed over since.
                author = self.home.key_of(grant.author)
                self._unwrapped[member.name] = granted_key(grant, member.name, author)
            else:
                self._unwrapped[member.name] = file.unwrap(self._holder(journal))
        return OpenTarget(self.folder, member, sealed, self._unwrapped[member.name])

    def scorer(
        self,
        opening: _Opening,
        group: Group,
        target: TargetRecords,
        sources: Mapping[str, str] | None = None,
    ) -> Scorer:
        """Return what scores a group's releases; ``sources`` are predictions made elsewhere."""
        resolved = opening.registry.members[group.member.name]
        sealed = opening.journal.ledger.sealed.members[group.member.name]
        development = MemberDevelopment(self.place, group.member, sealed)
        exposures = None
        if group.member.exposures:
            about = [measure for measure in group.measures if measure.exposure is not None]
            exposures = ExposureScorer(
                attacks=MemberAttacks(
                    development,
                    about,
                    Apart(forbidden=self._hidden()) if self._runs_attacks else None,
                ),
                target=target,
                progress=self.place.progress,
            )
        source: SourceModel | str | None = (sources or {}).get(group.member.name)
        return Scorer(
            folder=self.folder,
            member=group.member,
            measures=group.measures,
            target=target,
            features=resolved.features,
            source=resolved.source if source is None else source,
            trusted=development.trusted(self._trusted),
            progress=self.place.progress,
            exposures=exposures,
        )

    def _evidence(self, opening: _Opening) -> FixedEvidence:
        """Score every group of a fixed audit and return all evidence."""
        journal, registry, grant = opening.journal, opening.registry, opening.grant
        declaration = registry.declaration
        manifest = self.folder.document(ReleaseManifest, RELEASES)
        # All of them before the first is scored: the seed rests on the nonce of every target.
        targets = {m.name: self.target(journal, m, grant) for m in declaration.members}
        seed = OpeningSeed.of(journal, {name: target.nonce for name, target in targets.items()})
        # Once certified, the recorded bytes stand: encrypting again would give other ones.
        wanted = self._write_records and not journal.ledger.has(Stage.CERTIFIED)
        writer = RecordWriter() if wanted else None
        scores: list[_GroupScores] = []
        made: dict[GroupReading, GroupEvidence] = {}
        for group, ways in group_readings(registry, groups_of(registry, manifest), seed.value):
            target = targets[group.member.name]
            scorer = self.scorer(opening, group, target, manifest.sources)
            if writer is not None:
                scorer = writer.attach(scorer, group.name)
            figures = None
            if scorer.exposures is not None:
                figures = GroupFigures(scorer.exposures.attacks, group.draws)
                watched = replace(scorer.exposures, watch=figures.see)
                scorer = replace(scorer, exposures=watched)
            counted = [each for each in ways if not each.excluded]
            scored = scorer.score(group.name, group.draws, [each.reading for each in counted])
            made |= _evidence_by_reading(counted, scored)
            n = target.n_records
            scores.append(_GroupScores(group=group, scored=scored, n_records=n, figures=figures))
            for each in ways[len(counted) :]:
                extra = scorer.score(f"{group.name}, excluded", each.draws, [each.reading])
                made |= _evidence_by_reading([each], extra)
        if writer is not None:
            self.folder.write(RECORDS, writer.sealed(self._records_holder(journal, grant)))
        return FixedEvidence(
            format=FORMAT,
            registry=registry.digest,
            releases=release_set(journal),
            seed=seed.text,
            nonces=seed.nonces,
            groups={each.group.name: made[each] for each in made if each.registered},
            excluded={
                each.group.name: ExcludedEvidence(label=EXCLUDED, **dict(made[each]))
                for each in made
                if each.excluded
            },
            secondary={
                spec.name: {p.group.name: made[p] for p in made if p.specification == spec.name}
                for spec in declaration.secondary
            },
            diagnostics=_diagnostics(scores, declaration.digits),
        )

    def _step(self, opening: _Opening) -> Step:
        """Return what commits and scores one release after the other on the opened target."""
        rule = OneByOne.of(opening.registry)
        return Step(
            place=self.place,
            journal=opening.journal,
            rule=rule,
            target=self.target(opening.journal, rule.member, opening.grant),
            scorer=partial(self.scorer, opening),
            author=opening.author,
        )

    def rescore(self, journal: Journal, registry: Registry) -> Evidence:
        """Compute the evidence again from an opened target, for verifying and correcting.

        Parameters
        ----------
        journal
            The ledger; nothing is recorded.
        registry
            The claim in force, or the same with a corrected design.
        """
        grant = read_grant(self.folder, journal)
        opening = _Opening(journal=journal, registry=registry, author=None, grant=grant)
        self._write_records = False
        if journal.ledger.schedule is Schedule.FIXED:
            return self._evidence(opening)
        step = self._step(opening)
        return step.evidence(step.rescore())

    def unlocked(self, journal: Journal, registry: Registry) -> dict[str, OpenTarget]:
        """Return the targets of an opened audit by member, for verifying."""
        grant = read_grant(self.folder, journal)
        return {m.name: self.target(journal, m, grant) for m in registry.declaration.members}

    def _hidden(self) -> tuple[str, ...]:
        """Return what attacks of others may not read: keys, and the folder with the target."""
        return tuple(str(path) for path in (*self.secrets(), self.folder.path))

    def secrets(self) -> list[Path]:
        """Return where the keys lie that this opening may use."""
        given = [path for path in (self._key_file, self._steward_key) if path is not None]
        return [self.home.root, *given]

    def _records_holder(self, journal: Journal, grant: GrantStatement | None) -> Holder:
        # For whom the target was sealed: who could not read it alone must not read this either.
        steward = journal.ledger.sealed.steward
        if grant is None or steward is None:
            return self._holder(journal)
        return Recipient(steward[64:])

    def _conclude(self, opening: _Opening, author: SigningKey, evidence: Evidence) -> None:
        """Write and record the certificate, or see that the recorded one is the same; report."""
        journal, registry = opening.journal, opening.registry
        predicate = predicate_of(self.folder, journal, registry, evidence, opening.grant)
        name = evidence.digest
        statement = Statement.about(subjects_of(journal, registry, name), predicate)
        certified = journal.ledger.find(Certified)
        if certified:
            recorded, _ = open_envelope(self.folder.read(CERTIFICATE))
            # The statement and not the envelope: the author may have handed over to another key.
            same = recorded.to_bytes() == statement.to_bytes()
            if certified[0].body.files[EVIDENCE] != name or not same:
                raise SealError(
                    "scoring again gave other evidence than was certified; the recorded "
                    "certificate stands, and this machine or its libraries differ from those "
                    "that made it"
                )
        else:
            content = sign_statement(statement.to_bytes(), author)
            # The files first and the entry last: a kill in between leaves files that no entry
            # vouches for, and opening again writes the same ones.
            files = {
                EVIDENCE: self.folder.put(EVIDENCE, evidence),
                CERTIFICATE: self.folder.write(CERTIFICATE, content),
            }
            # Searched once and recorded: a report that is built anew must not search again.
            advice = advice_record(registry, predicate, evidence) if self._report else None
            if advice is not None:
                files[ADVICE] = self.folder.put(ADVICE, advice)
            if isinstance(evidence, FixedEvidence) and self.folder.has(RECORDS):
                files[RECORDS] = self.folder.sha256(RECORDS)
            journal.record(Certified(files=files, time=now()), author)
        if self._report:
            write_report(self.folder, journal)

    def correct(self, reason: str, design: DesignText) -> CorrectiveCertificate:
        """Score again under a changed sampling design and record the result as the correction.

        Whoever has opened the target knows what each test and each design would say. So there is
        one correction, for a design that turned out to be another one; everything else about it
        follows from the registration, and it has no confidence level of its own. Where there is
        one already, the wish for another is recorded as a deviation, nothing is scored, and what
        is returned has no verdict; the same design gives the recorded one.

        Raises
        ------
        StageError
            Where nothing is certified yet, or the audit draws after opening.
        RegistryError
            Where there is no reason, or the design is the registered one.
        """
        if not reason.strip():
            raise RegistryError("a correction says why; give a reason")
        with writing(self.folder.path) as journal:
            if not journal.ledger.has(Stage.CERTIFIED):
                raise StageError("corrected: there is no certificate to correct")
            registry = self.folder.registry(journal)
            corrected = corrected_registry(registry, design, journal)
            # The registered certificate stays: a correction is written beside it, once.
            before = journal.ledger.find(Corrected)
            if before and before[0].body.design == design:
                return CorrectiveCertificate(document=self.folder.document(Correction, CORRECTION))
            if before:
                again = f"a second correction was asked for and decides nothing: {reason}"
                deviated = Deviated(reason=again, design=design, time=now())
                journal.record(deviated, self.home.signing_key())
                return CorrectiveCertificate(document=None, deviation=again, design=design)
            evidence = self.rescore(journal, corrected)
            assert isinstance(evidence, FixedEvidence)  # other audits have no correction
            correction = correction_of(self.folder, registry, corrected, design, reason, evidence)
            entry = Corrected(
                reason=reason,
                design=design,
                decisions=correction.decisions,
                correction=correction.digest,
                files={CORRECTION: self.folder.put(CORRECTION, correction)},
                time=now(),
            )
            journal.record(entry, self.home.signing_key())
        return CorrectiveCertificate(document=correction)


def deviate(folder: AuditFolder, home: Home, reason: str) -> None:
    """Record, after the opening, that something was not done as registered.

    Raises
    ------
    RegistryError
        Where no reason is given.
    StageError
        Where the target has not been opened: until then the claim can be amended.
    """
    if not reason.strip():
        raise RegistryError("a deviation says what happened; give a reason")
    with writing(folder.path) as journal:
        journal.record(Deviated(reason=reason, time=now()), home.signing_key())


def _evidence_by_reading(
    ways: Sequence[GroupReading], scored: Scored
) -> dict[GroupReading, GroupEvidence]:
    """Return the evidence of losses that were read in several ways in one pass."""
    return {
        each: evidence_record(evidence_of(columns, each.reading, releases=each.names))
        for each, columns in zip(ways, scored.columns, strict=True)
    }


def _diagnostics(scores: Sequence[_GroupScores], digits: int | None) -> Diagnostics:
    """Return what decides nothing. An AUC has no side that weakens a claim, and is not rounded."""
    unscored = {
        each.group.name: {
            name: count
            if digits is None
            else int(round_count_up(np.int64(count), each.n_records, digits))
            for name, count in each.scored.unscored.items()
        }
        for each in scores
        if each.scored.unscored
    }
    auc = {each.group.name: each.scored.auc for each in scores}
    source_auc = {each.group.name: each.scored.source_auc for each in scores}
    # A share of nonmembers has no such side either.
    described = {
        each.group.name: each.figures.document(target=digits is None)
        for each in scores
        if each.figures is not None
    }
    exposure = {name: figures for name, figures in described.items() if figures is not None}
    return Diagnostics(
        label=NOT_CERTIFIED,
        unscored=unscored,
        auc=auc if digits is None else None,
        source_auc=source_auc if digits is None else None,
        exposure=exposure or None,
    )


def _refuse_changed_losses(registry: Registry) -> None:
    """Stop where a loss or attack by import path is not the code that was registered."""
    for member in registry.declaration.members:
        for path, registered in registry.members[member.name].losses.items():
            refuse_changes(
                f"the code of {path}", list(changed_origin(registered, path_origin(path)))
            )


def _require_stream(registry: Registry) -> None:
    if not registry.declaration.claim.stream:
        raise RegistryError('candidates are submitted to an audit with claim.mode = "stream"')
