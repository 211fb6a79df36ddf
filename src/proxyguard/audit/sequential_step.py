"""One release of an audit that draws after opening: committed first, then scored."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from proxyguard.adapters.files import NAMED
from proxyguard.audit.decide import Group
from proxyguard.audit.draw import (
    Task,
    changes_of,
    check_while_drawing,
    job_of,
    made_draw,
    mechanism_task,
    put_objects,
)
from proxyguard.audit.jobs import WORKER
from proxyguard.audit.manifest import check_declared, repeats
from proxyguard.audit.measures import measures_of
from proxyguard.audit.open import Opener
from proxyguard.audit.outcome import JudgedCandidate
from proxyguard.audit.resolve import MemberDevelopment
from proxyguard.audit.score import slice_chunk
from proxyguard.audit.sequential_claim import committed_records, reading_for
from proxyguard.audit.target import OpeningSeed, OpenTarget, round_seed
from proxyguard.documents.ledger import Committed, Favored, Judged
from proxyguard.documents.registry import Registry
from proxyguard.documents.releases import DrawnRelease, FailedDraw, MadeDraw
from proxyguard.draw.pool import draw_all
from proxyguard.draw.sources import changed_reading, refuse_changes
from proxyguard.errors import DrawError, LossMismatch
from proxyguard.evidence.record import evidence_record
from proxyguard.evidence.releases import ReleaseEvidence, evidence_of
from proxyguard.exact.multiplicity import spending_level
from proxyguard.losses.cell import Reading
from proxyguard.modes.decision import Decision
from proxyguard.registry.declaration import Member
from proxyguard.registry.fields import number
from proxyguard.seal.entropy import now
from proxyguard.seal.journal import Journal
from proxyguard.seal.keys import SigningKey


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
            module=WORKER,
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
