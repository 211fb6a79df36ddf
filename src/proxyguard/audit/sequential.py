"""Releases that are drawn after opening: each is committed first, then scored.

A draw's digest is in the ledger before its score exists, and the process that draws sees
neither scores nor target. A *sequential* audit draws one mechanism by its registered seeds
until its boundary is crossed (theory section 5); a *stream* takes candidates from outside,
each judged on a fresh batch of target records (Proposition 19).

In order: how the two kinds read a release, the step that commits and scores one, and whether
the record of all of them supports what it says.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from proxyguard.adapters.files import NAMED
from proxyguard.audit.decide import Group
from proxyguard.audit.development import MemberDevelopment, Workplace
from proxyguard.audit.draw import (
    Task,
    changes_of,
    check_while_drawing,
    made_draw,
    mechanism_task,
    put_objects,
    refuse_files,
    seeds_apart,
)
from proxyguard.audit.folder import AuditFolder
from proxyguard.audit.grant import release_set
from proxyguard.audit.jobs import draw_job
from proxyguard.audit.manifest import (
    check_declared,
    check_files,
    check_stored,
    named_options,
    repeats,
)
from proxyguard.audit.rules import measures_in, planned_records
from proxyguard.audit.score import Scorer, check_answers, check_record
from proxyguard.audit.target import (
    Batch,
    OpeningSeed,
    OpenTarget,
    TargetRecords,
    check_seed,
    round_seed,
)
from proxyguard.audit.verify import agree
from proxyguard.documents.document import FORMAT
from proxyguard.documents.evidence import Evidence, GroupEvidence, ScoreRecord, SequentialEvidence
from proxyguard.documents.ledger import Committed, Favored, Judged
from proxyguard.documents.registry import Registry
from proxyguard.documents.releases import DrawnRelease, FailedDraw, MadeDraw
from proxyguard.draw.messages import DrawResult
from proxyguard.draw.pool import draw_all
from proxyguard.draw.sources import changed_reading, refuse_changes
from proxyguard.errors import DrawError, SealError
from proxyguard.evidence.record import Sizes, evidence_record, read_evidence
from proxyguard.evidence.releases import Limits, ReleaseEvidence, evidence_of
from proxyguard.exact.multiplicity import spending_level
from proxyguard.losses.cell import Reading, join_columns
from proxyguard.modes.catalog import NO_MECHANISM
from proxyguard.modes.claim import Claim
from proxyguard.registry.fields import number
from proxyguard.seal.crypto import SigningKey
from proxyguard.seal.journal import Journal
from proxyguard.seal.ledger import Entry
from proxyguard.seal.storage import now


class OneByOne(ABC):
    """How an audit that draws after opening reads each release, as its claim registered it.

    Attributes
    ----------
    registry, claim
        What was registered.
    member
        The one source and target.
    measures
        What is measured of every release.
    """

    def __init__(self, registry: Registry) -> None:
        self.registry = registry
        self.claim = registry.declaration.claim
        (self.member,) = registry.declaration.members
        self.measures = tuple(measures_in(registry, self.member))

    @staticmethod
    def of(registry: Registry) -> DrawsToBoundary | StreamRounds:
        """Return the rule of a registered claim."""
        return (DrawsToBoundary if registry.declaration.claim.sequential else StreamRounds)(
            registry
        )

    @abstractmethod
    def level(self, count: int) -> float:
        """Return the level that the p-value of the ``count``-th release is held to."""

    @abstractmethod
    def seed(self, seed: int, release: str) -> int:
        """Return the seed of a release's randomness, from that of the opening."""

    @abstractmethod
    def records(self, target: OpenTarget, count: int) -> TargetRecords:
        """Return the records that the ``count``-th release is scored on."""

    @abstractmethod
    def scored(self, release: str, count: int, evidence: ReleaseEvidence) -> Favored | Judged:
        """Return what the ledger records of a score."""

    @abstractmethod
    def together(self, seed: int, scores: Sequence[ScoreRecord]) -> dict[str, GroupEvidence]:
        """Return the statistics of all scored releases together, for the report."""

    @abstractmethod
    def check_draws(self, draws: Sequence[MadeDraw]) -> None:
        """Raise unless committed releases are those that the claim asks for, in order."""

    def reading(self, seed: int, count: int, release: str) -> Reading:
        """Return how the ``count``-th release is read: by the registered test, at its level."""
        design, level = self.member.target.sampling_design, self.level(count)
        requirements = tuple(measure.requirement for measure in self.measures)
        # Read as a named release is: what all scores say together is the boundary's matter, or
        # the stream's.
        claim = Claim.of({"mode": NO_MECHANISM, "beta": None, "test": self.claim.test})
        return Reading(
            requirements=requirements,
            design=design,
            tests=claim.tests(design, requirements),
            level=level,
            violation_level=level,
            seed=self.seed(seed, release),
            digits=self.registry.declaration.digits,
        )

    def limits(self, evidence: SequentialEvidence) -> dict[str, Limits]:
        """Return what each group's tests showed its means to stay below, at their levels."""
        told = {}
        for count, (name, group) in enumerate(evidence.by_group.items(), start=1):
            release = evidence.scores[count - 1].release
            reading = self.reading(int(evidence.seed), count, release)
            told[name] = read_evidence(group, reading).limits(reading.level, None)
        return told

    def repeated(self, draws: Sequence[MadeDraw], where: str) -> list[tuple[str, int, int]]:
        """Return what of a release comes twice, with the two seeds.

        A mechanism that is declared deterministic repeats itself, and is only compared with what
        its generator is known for.
        """
        mechanism = self.member.mechanism[0] if self.member.mechanism else None
        if mechanism is None or not mechanism.deterministic:
            return list(repeats(draws))
        registered = self.registry.members[self.member.name].mechanisms[mechanism.name]
        check_declared(registered.generator, draws, where)
        return []


class DrawsToBoundary(OneByOne):
    """Registered draws of one mechanism, all on the whole target, until a boundary is crossed."""

    def level(self, count: int) -> float:
        """Return the registered threshold, which is the same for every draw."""
        return number(str(self.claim.threshold))

    def seed(self, seed: int, release: str) -> int:
        """Return the opening's own seed: orders and uniforms are part of the one target."""
        return seed

    def records(self, target: OpenTarget, count: int) -> TargetRecords:
        """Return the whole target."""
        return target

    def scored(self, release: str, count: int, evidence: ReleaseEvidence) -> Favored:
        """Return whether the score counts for the mechanism."""
        return Favored(
            release=release,
            favorable=bool(evidence.release_pvalues[0] <= self.level(count)),
            statistics=evidence_record(evidence),
            time=now(),
        )

    def together(self, seed: int, scores: Sequence[ScoreRecord]) -> dict[str, GroupEvidence]:
        """Return the statistics of the mechanism: all draws are on the same records."""
        if not scores:
            return {}
        reading = self.reading(seed, 1, scores[0].release)
        each = [read_evidence(score.statistics, reading) for score in scores]
        whole = evidence_of(
            tuple(
                join_columns([evidence.columns[j] for evidence in each])
                for j in range(len(reading.requirements))
            ),
            reading,
            releases=tuple(evidence.releases[0] for evidence in each),
        )
        return {self.member.mechanism[0].name: evidence_record(whole)}

    def check_draws(self, draws: Sequence[MadeDraw]) -> None:
        """Raise unless the draws have the registered seeds in order, and the registered files."""
        mechanism = self.member.mechanism[0]
        check_files(self.registry, self.member, mechanism.name, draws)
        if [draw.seed for draw in draws] != list(mechanism.seed_list)[: len(draws)]:
            raise SealError("the draws do not have the registered seeds in their order")
        _check_names(draws, mechanism.name)


class StreamRounds(OneByOne):
    """Candidates from outside, each judged on records that no other sees."""

    def level(self, count: int) -> float:
        """Return what the stream spends on its ``count``-th round (Proposition 19)."""
        return spending_level(count, alpha=number(self.claim.alpha))

    def seed(self, seed: int, release: str) -> int:
        """Return the seed of a round, by the digest that was committed before it."""
        return round_seed(seed, release)

    def records(self, target: OpenTarget, count: int) -> TargetRecords:
        """Return the round's own batch; an error where no records are left."""
        return Batch(target, int(self.claim.batch or 1), count - 1)

    def scored(self, release: str, count: int, evidence: ReleaseEvidence) -> Judged:
        """Return the verdict of the round."""
        level = self.level(count)
        return Judged(
            release=release,
            round=count,
            decision="validated" if evidence.release_pvalues[0] <= level else "unresolved",
            level=repr(level),
            statistics=evidence_record(evidence),
            time=now(),
        )

    def together(self, seed: int, scores: Sequence[ScoreRecord]) -> dict[str, GroupEvidence]:
        """Return nothing: every candidate was read on records of its own."""
        return {}

    def check_draws(self, draws: Sequence[MadeDraw]) -> None:
        """Raise unless the candidates are numbered as they came."""
        if [draw.seed for draw in draws] != list(range(1, len(draws) + 1)):
            raise SealError("the candidates are not numbered as they came")
        _check_names(draws, None)


@dataclass(slots=True, kw_only=True, eq=False)
class Step:
    """Commit one release, then score it.

    Parameters
    ----------
    place
        The folder, and the processes that draw.
    journal
        The ledger, which is locked and written.
    rule
        How the claim reads each release.
    target
        The opened target; drawing processes get neither it nor its key.
    scorer
        Returns what scores a group of releases on some records.
    author
        Who signs; nobody where scores are computed again and nothing is recorded.
    """

    place: Workplace
    journal: Journal
    rule: OneByOne
    target: OpenTarget
    scorer: Callable[[Group, TargetRecords], Scorer]
    author: SigningKey | None
    _committed: list[MadeDraw] | None = field(default=None, init=False)

    @property
    def seed(self) -> OpeningSeed:
        """The seed of the opening, from which those of all scores follow."""
        return OpeningSeed.of(self.journal, {self.rule.member.name: self.target.nonce})

    def commit(self, seed: int) -> MadeDraw:
        """Draw one seed in a process that sees no score, and record its digest."""
        task = mechanism_task(
            self._development(), self.rule.registry, self.rule.member.mechanism[0]
        )
        return self._draw(task, seed)

    def commit_file(self, path: Path) -> DrawnRelease:
        """Freeze a candidate's table and record its digest."""
        count = len(self.journal.ledger.find(Committed)) + 1
        learner = self.rule.registry.members[self.rule.member.name].procedure
        task = Task(
            member=self.rule.member.name,
            mechanism=path.name,
            job=draw_job(
                self._development(),
                NAMED,
                named_options(path.resolve(), self.rule.member),
                name=path.name,
                learner=learner,
            ),
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
        sealed = self.journal.ledger.sealed.members[self.rule.member.name]
        return MemberDevelopment(self.place, self.rule.member, sealed)

    def _draw(self, task: Task, seed: int) -> MadeDraw:
        place, name = self.place, task.mechanism
        refuse_changes(name, changes_of(place, self.rule.registry, task, [seed]))
        kept: list[MadeDraw] = []

        def keep(result: DrawResult) -> None:
            made = made_draw(result, name=f"{name}/{seed}")
            # In the store before its digest is in the ledger: a kill in between leaves bytes that
            # no entry refers to, and the seed is drawn again.
            if isinstance(made, DrawnRelease):
                put_objects(self.place.folder, result)
            kept.append(made)

        draw_all(
            task.job,
            [seed],
            pool=place.pool,
            workers=1,
            timeout=task.timeout,
            keep=keep,
            check=check_while_drawing(place, self.rule.registry, task),
        )
        (draw,) = kept
        if task.registered is not None:
            refuse_changes(f"{name}, seed {seed}", list(changed_reading(task.files, draw)))
        # Before it is recorded: a copy of an earlier draw is no independent one, and a committed
        # draw cannot be taken back.
        self._refuse_copies(draw)
        if isinstance(draw, FailedDraw) and task.stop_on_failure:
            raise DrawError(f"{name}, seed {seed}: {draw.error}")
        # The entry vouches for what the store holds of it, so that neither can be swapped later.
        files = {self.place.folder.store.name(address): address for address in draw.objects}
        committed = Committed(release=draw.digest, record=draw, files=files, time=now())
        self.journal.record(committed, self._signer())
        return draw

    def _signer(self) -> SigningKey:
        assert self.author is not None  # only rescoring goes without, and it records nothing
        return self.author

    def _refuse_copies(self, draw: MadeDraw) -> None:
        if self._committed is None:  # read once: what was committed before this process began
            self._committed = committed_records(self.place.folder, self.rule.registry, self.journal)
        names = {earlier.seed: earlier.label for earlier in self._committed}
        self._committed.append(draw)
        where = self.rule.member.mechanism[0].name if self.rule.member.mechanism else ""
        for what, first, _ in self.rule.repeated(self._committed, where):
            raise DrawError(
                f"{draw.label} is the same release as {names[first]}, by its {what}; does the "
                "generator use its seed?"
            )

    @property
    def scores(self) -> int:
        """How many releases are scored."""
        return len(scores_in(self.journal))

    def next_records(self) -> TargetRecords:
        """Return the records of the next score; an error where none are left."""
        return self.rule.records(self.target, self.scores + 1)

    def score(self, draw: MadeDraw) -> tuple[Favored | Judged, ReleaseEvidence]:
        """Score a committed draw; return what was recorded of it, and its evidence."""
        count, release = self.scores + 1, draw.digest
        evidence = self._read(draw, count, self.next_records())
        score = self.rule.scored(release, count, evidence)
        self.journal.record(score, self._signer())
        return score, evidence

    def finish_waiting(self) -> None:
        """Score the draw that was committed before a process ended, if there is one."""
        waiting = self.journal.ledger.waiting
        if waiting is not None:
            self.score(waiting.record)

    def rescore(self) -> tuple[ScoreRecord, ...]:
        """Compute every score again, for verifying."""
        return tuple(
            ScoreRecord(
                release=entry.body.release,
                statistics=evidence_record(
                    self._read(entry.body.record, count, self.rule.records(self.target, count))
                ),
            )
            for count, entry in enumerate(self.journal.ledger.find(Committed), start=1)
        )

    def evidence(self, scores: tuple[ScoreRecord, ...]) -> SequentialEvidence:
        """Return the evidence that these scores are."""
        seed = self.seed
        return SequentialEvidence(
            format=FORMAT,
            registry=self.rule.registry.digest,
            releases=release_set(self.journal),
            seed=seed.text,
            nonces=seed.nonces,
            groups=self.rule.together(seed.value, scores),
            scores=scores,
        )

    def _read(self, draw: MadeDraw, count: int, records: TargetRecords) -> ReleaseEvidence:
        """Return the evidence of one release on the target, or on a batch of it."""
        reading = self.rule.reading(self.seed.value, count, draw.digest)
        group = Group(
            member=self.rule.member, name=draw.label, draws=(draw,), excluded=(),
            measures=self.rule.measures,
        )  # fmt: skip
        scored = self.scorer(group, records).score(draw.label, [draw], [reading])
        return evidence_of(scored.columns[0], reading, releases=(draw.label,))


def scores_in(journal: Journal) -> tuple[Entry[Favored] | Entry[Judged], ...]:
    """Return the recorded scores: of a sequential audit, or the rounds of a stream."""
    return (*journal.ledger.find(Favored), *journal.ledger.find(Judged))


def recorded_scores(journal: Journal) -> tuple[ScoreRecord, ...]:
    """Return the scores that the ledger records, as the evidence has them."""
    return tuple(
        ScoreRecord(release=entry.body.release, statistics=entry.body.statistics)
        for entry in scores_in(journal)
    )


def check_sequential(
    folder: AuditFolder, journal: Journal, registry: Registry, evidence: Evidence
) -> None:
    """Raise unless every recorded score follows from its statistics and the ledger's order.

    Parameters
    ----------
    folder, journal
        Where committed releases lie, and the ledger with their scores.
    registry
        The claim in force.
    evidence
        What `evidence.json` says.

    Raises
    ------
    SealError
        Where a release is not the committed one, a score does not follow, or a round of a stream
        was judged on records that an earlier one saw.
    """
    if not isinstance(evidence, SequentialEvidence):
        raise SealError("the evidence is of a fixed audit, and this one draws after opening")
    scores, rule = recorded_scores(journal), OneByOne.of(registry)
    if evidence.scores != scores or evidence.registry != registry.digest:
        raise SealError("the evidence is about other releases or another registry than the ledger")
    if evidence.releases != release_set(journal):
        raise SealError("the evidence is about other releases than the ledger")
    check_seed(journal, evidence)
    seed = int(evidence.seed)
    recorded = {name: group.to_dict() for name, group in evidence.groups.items()}
    again = {name: group.to_dict() for name, group in rule.together(seed, scores).items()}
    agree(recorded, again, "the statistics of all releases")
    draws = committed_records(folder, registry, journal)
    rule.check_draws(draws)
    where = "/".join([rule.member.name, *(m.name for m in rule.member.mechanism)])
    for what, first, second in rule.repeated(draws, where):
        raise SealError(f"the committed releases {first} and {second} have the same {what}")
    _check_scores(folder, journal, rule, seed, draws)


def _check_scores(
    folder: AuditFolder, journal: Journal, rule: OneByOne, seed: int, draws: Sequence[MadeDraw]
) -> None:
    """Raise unless each score is of its draw, on so many records, and follows from both."""
    entries = scores_in(journal)
    records = planned_records(rule.member, journal.ledger.sealed.members[rule.member.name].records)
    stream = isinstance(rule, StreamRounds)
    n = rule.claim.batch or records
    # Rounds take records in sealed order: only a round too many can take one twice.
    if stream and n * len(entries) > records:
        raise SealError(
            f"{len(entries)} rounds of {n} fresh records take {n * len(entries)}, and {records} "
            "were sealed: a record was used twice"
        )
    sizes: Sizes = {}
    for count, (entry, draw) in enumerate(zip(entries, draws, strict=True), start=1):
        score, reading = entry.body, rule.reading(seed, count, entry.body.release)
        derived = check_record(
            score.statistics, reading, [draw.label], f"score {count}",
            # Each round of a stream has records, and so subgroups, of its own.
            n=n, sizes=None if stream else sizes,
        )  # fmt: skip
        check_answers(folder, rule.measures, [draw], score.statistics)
        if isinstance(score, Judged) is not stream:
            raise SealError(f"score {count} is not of the kind that this claim asks for")
        if isinstance(score, Judged) and score.level != repr(reading.level):
            raise SealError(f"round {count} was judged at another level than the registered one")
        if isinstance(score, Judged) and score.round != count:
            raise SealError(f"round {count} is recorded as another one")
        if score.passed != bool(derived.release_pvalues[0] <= reading.level):
            raise SealError(f"score {count} does not follow from its statistics")


def committed_records(folder: AuditFolder, registry: Registry, journal: Journal) -> list[MadeDraw]:
    """Return the committed releases, after comparing each with its stored bytes.

    Raises
    ------
    SealError
        Where an entry's digest is of another release, or the store holds other bytes.
    """
    member = registry.declaration.members[0]
    sealed = journal.ledger.sealed.members[member.name]
    name = member.mechanism[0].name if member.mechanism else ""
    draws = []
    for entry in journal.ledger.find(Committed):
        draw = entry.body.record
        if draw.digest != entry.body.release:
            raise SealError(f"{draw.label}: the committed digest is of another release")
        draws.append((draw.label, draw))
    return check_stored(folder, registry, member, name, draws, sealed)


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


def refuse_broken_files(registry: Registry) -> None:
    """Refuse files among the draws of a sequential audit that would stop them half-way.

    Raises
    ------
    DrawError
        Before the opening, after which the claim could no longer be amended.
    """
    (member,) = registry.declaration.members
    (mechanism,) = member.mechanism
    refuse_files(
        mechanism.name,
        registry.members[member.name].files(mechanism.name),
        stops=mechanism.on_failure == "stop",
        apart=seeds_apart(registry, mechanism),
    )
