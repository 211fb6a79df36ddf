"""Audits that draw after opening: one committed release after the other, each then scored.

A draw's digest is in the ledger before its score exists, and the process that draws sees
neither scores nor target. A *sequential* audit draws one mechanism by its registered seeds
until its boundary is crossed (theory section 5); a *stream* takes candidates from outside,
each judged on a fresh batch of target records (Proposition 19).

What an audit that draws after opening says, and whether its record supports it.

One release of an audit that draws after opening: committed first, then scored.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from proxyguard.adapters.files import NAMED
from proxyguard.audit.decide import DrawCounts, Group, failures_of
from proxyguard.audit.development import MemberDevelopment
from proxyguard.audit.draw import (
    Task,
    changes_of,
    check_while_drawing,
    job_of,
    made_draw,
    mechanism_task,
    put_objects,
    refuse_files,
    seeds_apart,
)
from proxyguard.audit.folder import (
    ADVICE,
    CERTIFICATE,
    EVIDENCE,
    AuditFolder,
    check_folder,
    sign_statement,
    statement,
)
from proxyguard.audit.grant import read_grant, release_set
from proxyguard.audit.manifest import check_content, check_declared, check_files, repeats, schema_of
from proxyguard.audit.open import Opener, frame_of, subjects_of
from proxyguard.audit.outcome import JudgedCandidate, advice_record, write_report
from proxyguard.audit.register import sequential_plan
from proxyguard.audit.rules import measures_of, planned_records
from proxyguard.audit.score import agree, check_answers, slice_chunk
from proxyguard.audit.stated import redrawn
from proxyguard.audit.target import OpeningSeed, OpenTarget, check_seed, round_seed
from proxyguard.certificate.sequential import SequentialAudit, SequentialPlan
from proxyguard.certificate.wording import not_claimed
from proxyguard.documents.certificate import Predicate
from proxyguard.documents.document import FORMAT
from proxyguard.documents.evidence import Evidence, GroupEvidence, Score, SequentialEvidence
from proxyguard.documents.ledger import Certified, Committed, Favored, GrantStatement, Judged
from proxyguard.documents.registry import Registry
from proxyguard.documents.releases import DrawnRelease, FailedDraw, MadeDraw
from proxyguard.draw.pool import draw_all
from proxyguard.draw.sources import changed_reading, refuse_changes
from proxyguard.errors import DrawError, LossMismatch, RegistryError, SealError, StageError
from proxyguard.evidence.record import (
    Sizes,
    check_counts,
    derived_record,
    evidence_record,
    read_evidence,
)
from proxyguard.evidence.releases import ReleaseEvidence, evidence_of
from proxyguard.exact.multiplicity import spending_level
from proxyguard.losses.cell import Column, Reading, join_columns
from proxyguard.modes.catalog import NO_MECHANISM
from proxyguard.modes.claim import Claim
from proxyguard.modes.evidence import Decision
from proxyguard.registry.declaration import Member
from proxyguard.registry.fields import number
from proxyguard.seal.crypto import SigningKey
from proxyguard.seal.journal import Journal, writing
from proxyguard.seal.ledger import Entry, Stage
from proxyguard.seal.storage import now


def scores_in(journal: Journal) -> tuple[Entry[Favored] | Entry[Judged], ...]:
    """Return the recorded scores: of a sequential audit, or the rounds of a stream."""
    return (*journal.ledger.find(Favored), *journal.ledger.find(Judged))


def recorded_scores(journal: Journal) -> tuple[Score, ...]:
    """Return the scores that the ledger records, as the evidence has them."""
    return tuple(
        Score(release=entry.body.release, statistics=entry.body.statistics)
        for entry in scores_in(journal)
    )


def plan_of(registry: Registry) -> SequentialPlan:
    """Return the registered plan of a sequential audit."""
    return sequential_plan(registry.declaration.claim)


def reading_for(registry: Registry, seed: int, level: float) -> Reading:
    """Return how one release is read: at the registered threshold, or a round's level."""
    member = registry.declaration.members[0]
    measures = measures_of(member, registry.members[member.name].requirements)
    requirements = tuple(m.requirement for m in measures)
    design = member.target.sampling_design
    claim = Claim.of({"mode": NO_MECHANISM, "beta": None, "test": registry.declaration.claim.test})
    return Reading(
        requirements=requirements,
        design=design,
        tests=claim.tests(design, requirements),
        level=level,
        violation_level=level,
        seed=seed,
        digits=registry.declaration.digits,
    )


def level_and_seed(registry: Registry, seed: int, count: int, release: str) -> tuple[float, int]:
    """Return at which level a release was read, and with which seed."""
    claim = registry.declaration.claim
    if claim.mode == "stream":
        level = spending_level(count, alpha=number(claim.alpha))
        return level, round_seed(seed, release)
    return number(str(claim.threshold)), seed


def together(registry: Registry, seed: int, scores: Sequence[Score]) -> dict[str, GroupEvidence]:
    """Return the statistics of all scored releases together, for the report."""
    if not scores or registry.declaration.claim.mode != "sequential":
        return {}
    level = number(str(registry.declaration.claim.threshold))
    reading = reading_for(registry, seed, level)
    parts = [read_evidence(score.statistics, reading) for score in scores]
    columns: Sequence[Column] = [
        join_columns([part.columns[j] for part in parts]) for j in range(len(reading.requirements))
    ]
    whole = evidence_of(
        tuple(columns), reading,
        releases=tuple(part.releases[0] for part in parts), bounds_level=level,
    )  # fmt: skip
    return {registry.declaration.members[0].mechanism[0].name: evidence_record(whole)}


def check_sequential(
    folder: AuditFolder, journal: Journal, registry: Registry, evidence: Evidence
) -> None:
    """Raise unless every recorded score follows from its statistics and the ledger's order."""
    entries = scores_in(journal)
    if not isinstance(evidence, SequentialEvidence):
        raise SealError("the evidence is of a fixed audit, and this one draws after opening")
    scores = recorded_scores(journal)
    if evidence.scores != scores or evidence.registry != registry.digest:
        raise SealError("the evidence is about other releases or another registry than the ledger")
    if evidence.releases != release_set(journal):
        raise SealError("the evidence is about other releases than the ledger")
    check_seed(journal, evidence)
    seed = int(evidence.seed)
    recorded = {name: group.to_dict() for name, group in evidence.groups.items()}
    again = {name: group.to_dict() for name, group in together(registry, seed, scores).items()}
    agree(recorded, again, "the statistics of all releases")
    _check_committed(folder, registry, journal)
    member = registry.declaration.members[0]
    sealed = journal.ledger.sealed.members[member.name]
    n = registry.declaration.claim.batch or planned_records(member, sealed.records)
    records = planned_records(member, sealed.records)
    stream = registry.declaration.claim.mode == "stream"
    if stream and n * len(entries) > records:
        raise SealError(
            f"{len(entries)} rounds of {n} fresh records take {n * len(entries)}, and {records} "
            "were sealed: a record was used twice"
        )
    sizes: Sizes = {}
    measures = measures_of(member, registry.members[member.name].requirements)
    drawn = [e.body.record for e in journal.ledger.find(Committed)]
    for count, (entry, draw) in enumerate(zip(entries, drawn, strict=True), start=1):
        score = entry.body
        level, own_seed = level_and_seed(registry, seed, count, score.release)
        if list(score.statistics.releases) != [draw.label]:
            raise SealError(f"score {count} is of {score.statistics.releases}, not of {draw.label}")
        if score.statistics.bounds_level != repr(level):
            raise SealError(f"score {count} has bounds at another level than the registered one")
        reading = reading_for(registry, own_seed, level)
        derived = read_evidence(score.statistics, reading)
        stated, follows = score.statistics.derived, derived_record(derived)
        agree(stated.to_dict(), follows.to_dict(), f"score {count}")
        check_answers(folder, measures, [draw], score.statistics)
        # Each round of a stream has records, and so subgroups, of its own.
        check_counts(score.statistics, reading, n, None if stream else sizes)
        if isinstance(score, Judged) is not stream:
            raise SealError(f"score {count} is not of the kind that this claim asks for")
        if isinstance(score, Judged) and score.level != repr(level):
            raise SealError(f"round {count} was judged at another level than the registered one")
        if isinstance(score, Judged) and score.round != count:
            raise SealError(f"round {count} is recorded as another one")
        below = bool(derived.release_pvalues[0] <= level)
        if score.passed != below:
            raise SealError(f"score {count} does not follow from its statistics")


def committed_records(folder: AuditFolder, registry: Registry, journal: Journal) -> list[MadeDraw]:
    """Return the committed releases, after comparing each with its stored bytes."""
    member = registry.declaration.members[0]
    sealed = journal.ledger.sealed.members[member.name]
    name = member.mechanism[0].name if member.mechanism else ""
    schema = schema_of(registry, member, name, sealed)
    records: list[MadeDraw] = []
    for entry in journal.ledger.find(Committed):
        draw = entry.body.record
        if draw.digest != entry.body.release:
            raise SealError(f"{draw.label}: the committed digest is of another release")
        check_content(folder, draw.label, draw, schema)
        records.append(draw)
    return records


def _check_committed(folder: AuditFolder, registry: Registry, journal: Journal) -> None:
    """See that the committed releases are the registered draws, in order, and no copies."""
    records = committed_records(folder, registry, journal)
    member = registry.declaration.members[0]
    if registry.declaration.claim.mode == "sequential":
        check_files(registry, member, member.mechanism[0].name, records)
        seeds = list(member.mechanism[0].seed_list)
        if [draw.seed for draw in records] != seeds[: len(records)]:
            raise SealError("the draws do not have the registered seeds in their order")
        _check_names(records, member.mechanism[0].name)
        if member.mechanism[0].deterministic:
            name = member.mechanism[0].name
            generator = registry.members[member.name].mechanisms[name].generator
            check_declared(generator, records, f"{member.name}/{name}")
            return
    else:
        if [draw.seed for draw in records] != list(range(1, len(records) + 1)):
            raise SealError("the candidates are not numbered as they came")
        _check_names(records, None)
    for what, first, second in repeats(records):
        raise SealError(f"the committed releases {first} and {second} have the same {what}")


def _check_names(records: Sequence[MadeDraw], mechanism: str | None) -> None:
    """See that draws have their mechanism's name, candidates one of a file, and all their number.

    It is what a verdict calls them.
    """
    for draw in records:
        file, _, number = str(draw.name).rpartition("/")
        if not file or number != str(draw.seed) or mechanism not in (None, file):
            raise SealError(
                f"the committed release of seed {draw.seed} is named {draw.name!r}, and draws are "
                "named by mechanism or file and seed"
            )


def sequential_predicate(
    folder: AuditFolder,
    journal: Journal,
    registry: Registry,
    evidence: Evidence,
    grant: GrantStatement | None,
) -> dict[str, Any]:
    """Return what the certificate of a sequential audit or a stream says."""
    declaration = registry.declaration
    member = declaration.members[0]
    measures = measures_of(member, registry.members[member.name].requirements)
    verdicts = (
        [_stream_verdict(entry.body) for entry in journal.ledger.find(Judged)]
        if declaration.claim.mode == "stream"
        else [_sequential_verdict(registry, journal.ledger.find(Favored))]
    )
    records = [e.body.record for e in journal.ledger.find(Committed)]
    name = verdicts[0]["mechanism"] if len(verdicts) == 1 else "every candidate"
    stages = redrawn(member, name, records, registry.members[member.name].drawn(name))
    return {
        **frame_of(journal, registry, grant),
        "level": declaration.claim.level,
        "verdicts": verdicts,
        "redraws": {name: list(stages.redraws)},
        "conditional_on": {name: list(stages.conditional_on)},
        "not_claimed": list(not_claimed([m.requirement for m in measures])),
        "draws": {
            name: DrawCounts.of(
                member.mechanism[0].draws if member.mechanism else len(records), records, 0
            ).to_dict()
        },
        "failed": {name: failed} if (failed := failures_of(records)) else {},
        "secondary": {},
    }


def _sequential_verdict(registry: Registry, entries: Sequence[Entry[Favored]]) -> dict[str, Any]:
    audit = SequentialAudit(plan_of(registry))
    for entry in entries:
        audit.add(entry.body.favorable)
    name = registry.declaration.members[0].mechanism[0].name
    return {**audit.to_dict(), "mechanism": name, "basis": "every draw committed before its score"}


def _stream_verdict(judged: Judged) -> dict[str, Any]:
    return {
        "mechanism": judged.statistics.releases[0],
        "round": judged.round,
        "decision": judged.decision,
        "level": judged.level,
        "rests_on": "Proposition 19",
        "sentence": (
            "This candidate meets its requirements on the registered target, with the confidence "
            "of the whole stream."
            if judged.passed
            else "The round does not settle whether this candidate meets its requirements. That is "
            "not evidence of a violation."
        ),
    }


class Step:
    """Commit one release, then score it."""

    def __init__(
        self,
        opener: Opener,
        journal: Journal,
        registry: Registry,
        member: Member,
        target: OpenTarget,
        author: SigningKey | None,
    ) -> None:
        self._opener, self.journal, self._registry = opener, journal, registry
        self._member, self._target, self._author = member, target, author
        self._folder = opener.folder
        self.seed = OpeningSeed.of(journal, {member.name: target.nonce})
        self._committed: list[MadeDraw] | None = None

    def commit(self, seed: int) -> MadeDraw:
        """Draw one seed in a process that sees no score, and record its digest."""
        task = mechanism_task(self._development(), self._registry, self._member.mechanism[0])
        return self._draw(task, seed)

    def commit_file(self, path: Path) -> DrawnRelease:
        """Freeze a candidate's table and record its digest."""
        count = len(self.journal.ledger.find(Committed)) + 1
        options = {
            "path": str(path.resolve()),
            "read": self._member.target.read.model_dump(mode="json"),
        }
        learner = self._registry.members[self._member.name].procedure
        task = Task(
            member=self._member.name,
            mechanism=path.name,
            job=job_of(self._development(), NAMED, options, path.name, 0, learner=learner),
            registered=None,  # a candidate comes after registration
            seeds=(count,),
            timeout=None,
            stop_on_failure=False,  # it is recorded, so that a second try is another candidate
            apart=frozenset(),
        )
        draw = self._draw(task, count)
        if isinstance(draw, FailedDraw):
            raise DrawError(f"{path.name}: {draw.error}")
        return draw

    def _development(self) -> MemberDevelopment:
        sealed = self.journal.ledger.sealed.members[self._member.name]
        return MemberDevelopment(self._opener.place, self._member, sealed)

    def _draw(self, task: Task, seed: int) -> MadeDraw:
        place, name = self._opener.place, task.mechanism
        refuse_changes(name, changes_of(place, self._registry, task, [seed]))
        kept: list[MadeDraw] = []

        def keep(record: dict[str, Any], release: bytes, model: bytes) -> None:
            called = f"{name}/{seed}"
            made = made_draw({**record, "name": called}, release, model, called)
            if isinstance(made, DrawnRelease):
                put_objects(self._folder, release, model)
            kept.append(made)

        draw_all(
            task.job,
            [seed],
            pool=place.pool,
            workers=1,
            timeout=task.timeout,
            keep=keep,
            check=check_while_drawing(place, self._registry, task),
        )
        (draw,) = kept
        if task.registered is not None:
            refuse_changes(f"{name}, seed {seed}", list(changed_reading(task.files, draw)))
        self._refuse_copies(draw)
        if isinstance(draw, FailedDraw) and task.stop_on_failure:
            raise DrawError(f"{name}, seed {seed}: {draw.error}")
        files = {self._folder.store.name(address): address for address in draw.objects}
        committed = Committed(release=draw.digest, record=draw, files=files, time=now())
        self.journal.record(committed, self._signer())
        return draw

    def _signer(self) -> SigningKey:
        assert self._author is not None  # only rescoring goes without, and it records nothing
        return self._author

    def _refuse_copies(self, draw: MadeDraw) -> None:
        if self._committed is None:  # read once: what was committed before this process began
            self._committed = committed_records(self._folder, self._registry, self.journal)
        names = {earlier.seed: earlier.label for earlier in self._committed}
        self._committed.append(draw)
        if self._member.mechanism and self._member.mechanism[0].deterministic:
            name = self._member.mechanism[0].name
            registered = self._registry.members[self._member.name].mechanisms[name]
            check_declared(registered.generator, self._committed, name)
            return
        for what, first, _ in repeats(self._committed):
            raise DrawError(
                f"{draw.label} is the same release as {names[first]}, by its {what}; does the "
                "generator use its seed?"
            )

    def score(self, draw: MadeDraw, index: int) -> bool:
        """Score a committed draw on the whole target, record it, and say if it is favorable."""
        threshold = number(str(self._registry.declaration.claim.threshold))
        reading = reading_for(self._registry, self.seed.value, threshold)
        evidence = self.read(draw, reading, self._target)
        favorable = bool(evidence.release_pvalues[0] <= threshold)
        scored = Favored(
            release=draw.digest,
            favorable=favorable,
            statistics=evidence_record(evidence),
            time=now(),
        )
        self.journal.record(scored, self._signer())
        return favorable

    def judge(self, draw: MadeDraw) -> JudgedCandidate:
        """Judge a committed candidate on the next batch, record the round, and return it."""
        claim = self._registry.declaration.claim
        count = len(self.journal.ledger.find(Judged)) + 1
        level = spending_level(count, alpha=number(claim.alpha))
        reading = reading_for(self._registry, round_seed(self.seed.value, draw.digest), level)
        evidence = self.read(draw, reading, self.next_batch())
        pvalue = float(evidence.release_pvalues[0])
        judged = Judged(
            release=draw.digest,
            round=count,
            decision="validated" if pvalue <= level else "unresolved",
            level=repr(level),
            statistics=evidence_record(evidence),
            time=now(),
        )
        self.journal.record(judged, self._signer())
        return JudgedCandidate(
            candidate=draw.label,
            number=count,
            decision=Decision(judged.decision),
            pvalue=pvalue,
            level=level,
        )

    def next_batch(self) -> Batch:
        """Return the records of the next round; an error where none are left."""
        rounds = len(self.journal.ledger.find(Judged))
        return Batch(self._target, int(self._registry.declaration.claim.batch or 1), rounds)

    def read(self, draw: MadeDraw, reading: Reading, target: Any) -> ReleaseEvidence:
        """Return the evidence of one release on the target, or on a batch of it."""
        measures = measures_of(self._member, self._registry.members[self._member.name].requirements)
        group = Group(
            member=self._member, name=draw.label, draws=(draw,), excluded=(),
            measures=tuple(measures),
        )  # fmt: skip
        scorer = self._opener.scorer(self._registry, group, target, {})
        scored = scorer.score(draw.label, [draw], [reading])
        return evidence_of(
            scored.columns[0], reading, releases=(draw.label,), bounds_level=reading.level
        )


class Batch:
    """Some records of the target in sealed order: those of one round, which no other sees."""

    def __init__(self, target: OpenTarget, size: int, index: int) -> None:
        self._target, self._start, self._size = target, index * size, size
        if self._start + size > target.n_records:
            raise LossMismatch(
                f"round {index + 1} needs {size} fresh records, and {target.n_records} were sealed "
                "in all; the stream is over"
            )
        self.n_records = size

    def chunks(self) -> Any:
        """Yield the batch's records."""
        seen = 0
        for chunk in self._target.chunks():
            first, last = self._start - seen, self._start + self._size - seen
            seen += len(chunk.positions)
            if last > 0 and first < len(chunk.positions):
                yield slice_chunk(chunk, max(0, first), min(last, len(chunk.positions)))

    def whole(self) -> Any:
        """Return the batch's records at once."""
        whole = self._target.whole()
        return slice_chunk(whole, self._start, self._start + self._size)


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
