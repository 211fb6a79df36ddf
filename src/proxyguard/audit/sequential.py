"""Audits that draw after opening: one committed release after the other, each then scored.

A draw's digest is in the ledger before its score exists, and the process that draws sees
neither scores nor target. A *sequential* audit draws one mechanism by its registered seeds
until its boundary is crossed (theory section 5); a *stream* takes candidates from outside,
each judged on a fresh batch of target records (Proposition 19).
"""

from __future__ import annotations

from pathlib import Path

from proxyguard.audit.draw import refuse_files, seeds_apart
from proxyguard.audit.envelope import sign_statement, statement
from proxyguard.audit.folder import ADVICE, CERTIFICATE, EVIDENCE
from proxyguard.audit.grant import read_grant, release_set
from proxyguard.audit.integrity import check_folder
from proxyguard.audit.open import Opener, subjects_of
from proxyguard.audit.outcome import JudgedCandidate
from proxyguard.audit.report import advice_record, write_report
from proxyguard.audit.sequential_claim import (
    level_and_seed,
    plan_of,
    reading_for,
    recorded_scores,
    sequential_predicate,
    together,
)
from proxyguard.audit.sequential_step import Batch, Step
from proxyguard.audit.target import OpeningSeed, OpenTarget
from proxyguard.certificate.sequential import SequentialAudit
from proxyguard.documents.certificate import Predicate
from proxyguard.documents.document import FORMAT
from proxyguard.documents.evidence import Evidence, Score, SequentialEvidence
from proxyguard.documents.grant import GrantStatement
from proxyguard.documents.ledger import Certified, Committed, Favored
from proxyguard.documents.registry import Registry
from proxyguard.errors import RegistryError, StageError
from proxyguard.evidence.record import evidence_record
from proxyguard.seal.entropy import now
from proxyguard.seal.journal import Journal, writing
from proxyguard.seal.keys import SigningKey
from proxyguard.seal.ledger import Stage


class SequentialOpener(Opener):
    """An opening after which releases are drawn and scored in turn."""

    def run(self, most: int | None = None) -> bool:
        """Go on drawing and scoring until the audit is decided, then certify; say if it is.

        ``most`` stops after so many further draws, for those who want to look in between;
        nothing is certified then.
        """
        author = self.home.signing_key()
        with writing(self.folder.path) as journal:
            registry = self.folder.registry(journal)
            if registry.declaration.claim.mode != "sequential":
                raise StageError("this audit takes candidates one by one; use draw --candidate")
            check_folder(self.folder, journal)
            if journal.ledger.has(Stage.CERTIFIED):
                return True
            member = registry.declaration.members[0]
            if not journal.ledger.has(Stage.OPENED):
                _refuse_files(registry)  # nothing can be amended once it is opened
            grant = self.record_opening(journal, registry, author)
            target = self.target(journal, member, grant)
            audit = SequentialAudit(plan_of(registry))
            for entry in journal.ledger.find(Favored):
                audit.add(entry.body.favorable)
            step = Step(self, journal, registry, member, target, author)
            self._finish_pending(step, audit)
            seeds = member.mechanism[0].seed_list
            done = 0
            while not audit.finished and (most is None or done < most):
                record = step.commit(seeds[audit.draws])
                audit.add(step.score(record, audit.draws))
                done += 1
                self.place.progress("sequential draws", audit.draws, len(seeds))
            if audit.finished:
                self._conclude(journal, registry, target, author, grant)
            return audit.finished

    def submit(self, candidate: Path) -> JudgedCandidate:
        """Judge the next candidate of a stream on its own batch of target records."""
        author = self.home.signing_key()
        with writing(self.folder.path) as journal:
            registry = self.folder.registry(journal)
            _require_stream(registry)
            check_folder(self.folder, journal)
            grant = self.record_opening(journal, registry, author)
            member = registry.declaration.members[0]
            target = self.target(journal, member, grant)
            step = Step(self, journal, registry, member, target, author)
            waiting = journal.ledger.waiting
            if waiting is not None:  # the round before this one was interrupted
                step.judge(waiting.record)
            step.next_batch()  # a candidate that no records are left for is not committed
            return step.judge(step.commit_file(candidate))

    def close(self) -> None:
        """End a stream and certify its rounds."""
        author = self.home.signing_key()
        with writing(self.folder.path) as journal:
            registry = self.folder.registry(journal)
            _require_stream(registry)
            if journal.ledger.has(Stage.CERTIFIED):
                return
            if not journal.ledger.has(Stage.SCORED):
                raise StageError("no candidate was judged yet; there is nothing to certify")
            grant = self.record_opening(journal, registry, author)
            member = registry.declaration.members[0]
            target = self.target(journal, member, grant)
            step = Step(self, journal, registry, member, target, author)
            waiting = journal.ledger.waiting
            if waiting is not None:
                step.judge(waiting.record)
            self._conclude(journal, registry, target, author, grant)

    def rescore(self, journal: Journal, registry: Registry) -> Evidence:
        """Compute every score again from the opened target, for verifying."""
        grant = read_grant(self.folder, journal)
        member = registry.declaration.members[0]
        target = self.target(journal, member, grant)
        step = Step(self, journal, registry, member, target, None)
        scores: list[Score] = []
        for count, entry in enumerate(journal.ledger.find(Committed), start=1):
            level, seed = level_and_seed(registry, step.seed.value, count, entry.body.release)
            reading = reading_for(registry, seed, level)
            stream = registry.declaration.claim.mode == "stream"
            size = int(registry.declaration.claim.batch or 1)
            where = Batch(target, size, count - 1) if stream else target
            evidence = step.read(entry.body.record, reading, where)
            scores.append(Score(release=entry.body.release, statistics=evidence_record(evidence)))
        return _evidence(journal, registry, step.seed, tuple(scores))

    def _finish_pending(self, step: Step, audit: SequentialAudit) -> None:
        """Score the draw that was committed before the process ended."""
        waiting = step.journal.ledger.waiting
        if waiting is not None:
            audit.add(step.score(waiting.record, audit.draws))

    def _conclude(
        self,
        journal: Journal,
        registry: Registry,
        target: OpenTarget,
        author: SigningKey,
        grant: GrantStatement | None,
    ) -> None:
        seed = OpeningSeed.of(journal, {registry.declaration.members[0].name: target.nonce})
        evidence = _evidence(journal, registry, seed, recorded_scores(journal))
        name = self.folder.put(EVIDENCE, evidence)
        predicate = sequential_predicate(self.folder, journal, registry, evidence, grant)
        content = sign_statement(statement(subjects_of(journal, registry, name), predicate), author)
        files = {EVIDENCE: name, CERTIFICATE: self.folder.write(CERTIFICATE, content)}
        advice = advice_record(registry, Predicate.of(predicate, CERTIFICATE), evidence)
        if advice is not None:
            files[ADVICE] = self.folder.put(ADVICE, advice)
        journal.record(Certified(files=files, time=now()), author)
        write_report(self.folder, journal)


def _evidence(
    journal: Journal, registry: Registry, seed: OpeningSeed, scores: tuple[Score, ...]
) -> SequentialEvidence:
    return SequentialEvidence(
        format=FORMAT,
        registry=registry.digest,
        releases=release_set(journal),
        seed=seed.text,
        nonces=seed.nonces,
        groups=together(registry, seed.value, scores),
        scores=scores,
    )


def _refuse_files(registry: Registry) -> None:
    """Refuse files among the draws that would stop them half-way."""
    member = registry.declaration.members[0]
    mechanism = member.mechanism[0]
    files = registry.members[member.name].files(mechanism.name)
    refuse_files(
        mechanism.name,
        files,
        stops=mechanism.on_failure == "stop",
        apart=seeds_apart(registry, mechanism),
    )


def _require_stream(registry: Registry) -> None:
    if registry.declaration.claim.mode != "stream":
        raise RegistryError('candidates are submitted to an audit with claim.mode = "stream"')
