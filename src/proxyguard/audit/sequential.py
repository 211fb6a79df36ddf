"""Audits that draw after opening: one committed release after the other, each then scored.

A draw's digest is in the ledger before its score exists, and the process that draws sees
neither scores nor target. A *sequential* audit draws one mechanism by its registered seeds
until its boundary is crossed (theory section 5); a *stream* takes candidates from outside,
each judged on a fresh batch of target records (Proposition 19).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from proxyguard.audit.agree import agree
from proxyguard.audit.decide import Group
from proxyguard.audit.draw import job_of, redrawn_stages
from proxyguard.audit.envelope import sign_statement, statement
from proxyguard.audit.folder import CERTIFICATE, EVIDENCE, AuditFolder, Registry
from proxyguard.audit.grant import read_grant, release_set
from proxyguard.audit.integrity import check_folder
from proxyguard.audit.jobs import WORKER
from proxyguard.audit.limits import planned_records
from proxyguard.audit.manifest import check_content
from proxyguard.audit.measures import design_of, measures_of
from proxyguard.audit.open import Opener, frame_of, subjects_of
from proxyguard.audit.register import sequential_plan
from proxyguard.audit.report import write_report
from proxyguard.audit.resolve import MemberDevelopment, Workplace
from proxyguard.audit.score import slice_chunk
from proxyguard.audit.target import OpenTarget
from proxyguard.certificate.decision import Decision
from proxyguard.certificate.sequential import SequentialAudit, SequentialPlan
from proxyguard.certificate.wording import not_claimed
from proxyguard.draw.pool import draw_all
from proxyguard.errors import DrawError, LossMismatch, RegistryError, SealError, StageError
from proxyguard.evidence.record import (
    check_counts,
    derived_record,
    evidence_record,
    read_evidence,
)
from proxyguard.evidence.releases import ReleaseEvidence, evidence_of
from proxyguard.exact.multiplicity import spending_level
from proxyguard.losses.cell import Column, Reading, join_columns
from proxyguard.registry.claim import Claim
from proxyguard.registry.declaration import Member
from proxyguard.registry.fields import number
from proxyguard.seal.canonical import digest
from proxyguard.seal.entropy import now
from proxyguard.seal.journal import Journal, writing
from proxyguard.seal.keys import SigningKey
from proxyguard.seal.ledger import Entry, Stage

COPIES = ("content", "release", "model")
"""What no two independent draws have in common."""


def plan_of(registry: Registry) -> SequentialPlan:
    """Return the registered plan of a sequential audit."""
    return sequential_plan(registry.declaration.claim)


def reading_for(registry: Registry, seed: int, level: float) -> Reading:
    """Return how one release is read: at the registered threshold, or a round's level."""
    member = registry.declaration.members[0]
    measures = measures_of(member, registry.member(member.name)["requirements"])
    requirements = tuple(m.requirement for m in measures)
    design = design_of(member)
    claim = Claim.of({"mode": "releases", "beta": None, "test": registry.declaration.claim.test})
    return Reading(
        requirements=requirements,
        design=design,
        tests=claim.tests(design, requirements),
        level=level,
        violation_level=level,
        seed=seed,
    )


class SequentialOpener(Opener):
    """An opening after which releases are drawn and scored in turn."""

    def run(self, most: int | None = None) -> dict[str, Any] | None:
        """Go on drawing and scoring until the audit is decided, then certify.

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
                return self._certified(journal, registry)
            grant = self.record_opening(journal, registry, author)
            member = registry.declaration.members[0]
            target = self.target(journal, member, author, grant)
            audit = SequentialAudit(plan_of(registry))
            for entry in journal.ledger.find(Stage.SCORED):
                audit.add(bool(entry.body["favorable"]))
            step = _Step(self, journal, registry, member, target, author)
            self._finish_pending(step, audit)
            seeds = member.mechanism[0].seed_list
            done = 0
            while not audit.finished and (most is None or done < most):
                record = step.commit(seeds[audit.draws])
                audit.add(step.score(record, audit.draws))
                done += 1
                self.place.progress("sequential draws", audit.draws, len(seeds))
            if not audit.finished:
                return None
            return self._conclude(journal, registry, target, author, grant)

    def submit(self, candidate: Path) -> dict[str, Any]:
        """Judge the next candidate of a stream on its own batch of target records."""
        author = self.home.signing_key()
        with writing(self.folder.path) as journal:
            registry = self.folder.registry(journal)
            _require_stream(registry)
            check_folder(self.folder, journal)
            grant = self.record_opening(journal, registry, author)
            member = registry.declaration.members[0]
            target = self.target(journal, member, author, grant)
            step = _Step(self, journal, registry, member, target, author)
            waiting = _waiting(journal)
            if waiting is not None:  # the round before this one was interrupted
                step.judge(dict(waiting.body["record"]))
            step.next_batch()  # a candidate that no records are left for is not committed
            return step.judge(step.commit_file(candidate))

    def close(self) -> dict[str, Any]:
        """End a stream and certify its rounds."""
        author = self.home.signing_key()
        with writing(self.folder.path) as journal:
            registry = self.folder.registry(journal)
            _require_stream(registry)
            if journal.ledger.has(Stage.CERTIFIED):
                return self._certified(journal, registry)
            if not journal.ledger.has(Stage.SCORED):
                raise StageError("no candidate was judged yet; there is nothing to certify")
            grant = self.record_opening(journal, registry, author)
            member = registry.declaration.members[0]
            target = self.target(journal, member, author, grant)
            step = _Step(self, journal, registry, member, target, author)
            waiting = _waiting(journal)
            if waiting is not None:
                step.judge(dict(waiting.body["record"]))
            return self._conclude(journal, registry, target, author, grant)

    def rescore(self, journal: Journal, registry: Registry) -> dict[str, Any]:
        """Compute every score again from the opened target, for verifying."""
        grant = read_grant(self.folder, journal)
        author = self.rescoring_author(grant)
        member = registry.declaration.members[0]
        target = self.target(journal, member, author, grant)
        step = _Step(self, journal, registry, member, target, author)
        found: dict[str, Any] = {
            "format": 1,
            "registry": registry.digest,
            "releases": release_set(journal),
            "seed": str(target.seed()),
            "scores": [],
        }
        for count, entry in enumerate(journal.ledger.find(Stage.DRAWN), start=1):
            level, seed = _level_and_seed(registry, found, count)
            reading = reading_for(registry, seed, level)
            stream = registry.declaration.claim.mode == "stream"
            size = int(registry.declaration.claim.batch or 1)
            where = _Batch(target, size, count - 1) if stream else target
            evidence = step.read(dict(entry.body["record"]), reading, where)
            found["scores"].append(
                {"release": entry.body["release"], "statistics": evidence_record(evidence)}
            )
        return {**found, "groups": _groups(registry, found)}

    def _finish_pending(self, step: _Step, audit: SequentialAudit) -> None:
        """Score the draw that was committed before the process ended."""
        waiting = _waiting(step.journal)
        if waiting is not None:
            audit.add(step.score(dict(waiting.body["record"]), audit.draws))

    def _conclude(
        self,
        journal: Journal,
        registry: Registry,
        target: OpenTarget,
        author: SigningKey,
        grant: dict[str, Any] | None,
    ) -> dict[str, Any]:
        evidence = {
            "format": 1,
            "registry": registry.digest,
            "releases": release_set(journal),
            "seed": str(target.seed()),
            "groups": {},
            "scores": [
                {"release": e.body["release"], "statistics": e.body["statistics"]}
                for e in journal.ledger.find(Stage.SCORED)
            ],
        }
        evidence["groups"] = _groups(registry, evidence)
        name = self.folder.write_json(EVIDENCE, evidence)
        predicate = sequential_predicate(self.folder, journal, registry, evidence, grant)
        content = sign_statement(statement(subjects_of(journal, registry, name), predicate), author)
        files = {EVIDENCE: name, CERTIFICATE: self.folder.write(CERTIFICATE, content)}
        journal.record(Stage.CERTIFIED, {"files": files, "time": now()}, author)
        write_report(self.folder, journal)
        return predicate

    def _certified(self, journal: Journal, registry: Registry) -> dict[str, Any]:
        from proxyguard.audit.envelope import open_envelope

        value, _ = open_envelope((self.folder / CERTIFICATE).read_bytes())
        found: dict[str, Any] = value["predicate"]
        return found


class _Step:
    """Commit one release, then score it."""

    def __init__(
        self,
        opener: SequentialOpener,
        journal: Journal,
        registry: Registry,
        member: Member,
        target: OpenTarget,
        author: SigningKey | None,
    ) -> None:
        self._opener, self.journal, self._registry = opener, journal, registry
        self._member, self._target, self._author = member, target, author
        self._folder = opener.folder

    def commit(self, seed: int) -> dict[str, Any]:
        """Draw one seed in a process that sees no score, and record its digest."""
        mechanism = self._member.mechanism[0]
        resolved = self._registry.member(self._member.name)["mechanisms"][mechanism.name]
        return self._draw(resolved["generator"], resolved["options"], mechanism.name, seed,
                          mechanism.prepare_seed, mechanism.timeout)  # fmt: skip

    def commit_file(self, path: Path) -> dict[str, Any]:
        """Freeze a candidate's table and record its digest."""
        count = len(self.journal.ledger.find(Stage.DRAWN)) + 1
        options = {
            "path": str(path.resolve()),
            "read": self._member.target.read.model_dump(mode="json"),
        }
        record = self._draw("proxyguard.adapters.files:NamedFile", options, path.name, count,
                            0, None)  # fmt: skip
        if record["status"] != "drawn":
            raise DrawError(f"{path.name}: {record['error']}")
        return record

    def _draw(
        self, generator: str, options: Mapping[str, Any], name: str, seed: int, prepare: int,
        timeout: int | None,
    ) -> dict[str, Any]:  # fmt: skip
        place: Workplace = self._opener.place
        sealed = self.journal.ledger.find(Stage.SEALED)[0].body["members"][self._member.name]
        development = MemberDevelopment(place, self._member, sealed)
        kept: list[dict[str, Any]] = []

        def keep(record: dict[str, Any], release: bytes, model: bytes) -> None:
            if record["status"] == "drawn":
                record["release"] = self._folder.store.put(release)
                record["model"] = self._folder.store.put(model) if model else None
            record["name"] = f"{name}/{seed}"
            kept.append(record)

        draw_all(
            job_of(development, generator, options, name, prepare), [seed],
            module=WORKER, workers=1, timeout=None if timeout is None else float(timeout),
            keep=keep,
        )  # fmt: skip
        record = kept[0]
        self._refuse_copies(record)
        if record["status"] != "drawn" and self._stops:
            raise DrawError(f"{name}, seed {seed}: {record['error']}")
        files = {
            self._folder.store.path(a).relative_to(self._folder.path).as_posix(): a
            for a in (record.get("release"), record.get("model"))
            if a
        }
        body = {"release": digest(record), "record": record, "files": files, "time": now()}
        self.journal.record(Stage.DRAWN, body, self._signer())
        return record

    def _signer(self) -> SigningKey:
        assert self._author is not None  # only rescoring goes without, and it records nothing
        return self._author

    @property
    def _stops(self) -> bool:
        return bool(self._member.mechanism and self._member.mechanism[0].on_failure == "stop")

    def _refuse_copies(self, record: Mapping[str, Any]) -> None:
        deterministic = bool(self._member.mechanism and self._member.mechanism[0].deterministic)
        for entry in self.journal.ledger.find(Stage.DRAWN):
            before = entry.body["record"]
            same = any(
                record.get(key) is not None and before.get(key) == record[key] for key in COPIES
            )
            if same and not deterministic:
                raise DrawError(
                    f"{record['name']} is the same release as {entry.body['record']['name']}; "
                    "does the generator use its seed?"
                )

    def score(self, record: dict[str, Any], index: int) -> bool:
        """Score a committed draw on the whole target, record it, and say if it is favorable."""
        threshold = number(str(self._registry.declaration.claim.threshold))
        reading = reading_for(self._registry, self._target.seed(), threshold)
        evidence = self.read(record, reading, self._target)
        favorable = bool(evidence.release_pvalues[0] <= threshold)
        self._record_score(record, evidence, {"favorable": favorable})
        return favorable

    def judge(self, record: dict[str, Any]) -> dict[str, Any]:
        """Judge a committed candidate on the next batch, record the round, and return it."""
        claim = self._registry.declaration.claim
        count = len(self.journal.ledger.find(Stage.SCORED)) + 1
        level = spending_level(count, alpha=number(claim.alpha))
        reading = reading_for(self._registry, self._target.seed() + count, level)
        evidence = self.read(record, reading, self.next_batch())
        pvalue = float(evidence.release_pvalues[0])
        decision = Decision.VALIDATED if pvalue <= level else Decision.UNRESOLVED
        found = {"round": count, "decision": decision.value, "level": repr(level)}
        self._record_score(record, evidence, found)
        return {**found, "pvalue": pvalue, "candidate": record["name"]}

    def next_batch(self) -> _Batch:
        """Return the records of the next round; an error where none are left."""
        rounds = len(self.journal.ledger.find(Stage.SCORED))
        return _Batch(self._target, int(self._registry.declaration.claim.batch or 1), rounds)

    def read(self, record: dict[str, Any], reading: Reading, target: Any) -> ReleaseEvidence:
        """Return the evidence of one release on the target, or on a batch of it."""
        measures = measures_of(
            self._member, self._registry.member(self._member.name)["requirements"]
        )
        group = Group(
            member=self._member, name=record["name"], draws=(record,), excluded=(),
            measures=tuple(measures),
        )  # fmt: skip
        scorer = self._opener.scorer(self._registry, group, target, {})
        scored = scorer.score(record["name"], [record], [reading])
        return evidence_of(
            scored.columns[0], reading, releases=(str(record["name"]),), bounds_level=reading.level
        )

    def _record_score(
        self, record: dict[str, Any], evidence: ReleaseEvidence, found: dict[str, Any]
    ) -> None:
        body = {
            "release": digest(record),
            **found,
            "statistics": evidence_record(evidence),
            "time": now(),
        }
        self.journal.record(Stage.SCORED, body, self._signer())


class _Batch:
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


def _require_stream(registry: Registry) -> None:
    if registry.declaration.claim.mode != "stream":
        raise RegistryError('candidates are submitted to an audit with claim.mode = "stream"')


def _waiting(journal: Journal) -> Entry | None:
    """Return the committed draw that has no score yet."""
    last = journal.ledger.entries[-1]
    return last if last.stage is Stage.DRAWN else None


def _groups(registry: Registry, evidence: Mapping[str, Any]) -> dict[str, Any]:
    """Return the statistics of all scored releases together, for the report."""
    scores = evidence["scores"]
    if not scores or registry.declaration.claim.mode != "sequential":
        return {}
    level = number(str(registry.declaration.claim.threshold))
    reading = reading_for(registry, int(evidence["seed"]), level)
    parts = [read_evidence(one["statistics"], reading) for one in scores]
    columns: Sequence[Column] = [
        join_columns([part.columns[j] for part in parts]) for j in range(len(reading.requirements))
    ]
    whole = evidence_of(
        tuple(columns), reading,
        releases=tuple(part.releases[0] for part in parts), bounds_level=level,
    )  # fmt: skip
    return {registry.declaration.members[0].mechanism[0].name: evidence_record(whole)}


def check_sequential(
    folder: AuditFolder, journal: Journal, registry: Registry, evidence: Mapping[str, Any]
) -> None:
    """Raise unless every recorded score follows from its statistics and the ledger's order."""
    entries = journal.ledger.find(Stage.SCORED)
    recorded = [{"release": e.body["release"], "statistics": e.body["statistics"]} for e in entries]
    if evidence["scores"] != recorded or evidence["registry"] != registry.digest:
        raise SealError("the evidence is about other releases or another registry than the ledger")
    if evidence["releases"] != release_set(journal):
        raise SealError("the evidence is about other releases than the ledger")
    agree(evidence["groups"], _groups(registry, evidence), "the statistics of all releases")
    _check_committed(folder, registry, journal)
    member = registry.declaration.members[0]
    sealed = journal.ledger.find(Stage.SEALED)[0].body["members"][member.name]
    n = registry.declaration.claim.batch or planned_records(member, sealed)
    for count, entry in enumerate(entries, start=1):
        level, seed = _level_and_seed(registry, evidence, count)
        reading = reading_for(registry, seed, level)
        again = read_evidence(entry.body["statistics"], reading)
        check_counts(entry.body["statistics"], reading, n)
        if entry.body.get("level", repr(level)) != repr(level):
            raise SealError(f"round {count} was judged at another level than the registered one")
        if entry.body.get("round", count) != count:
            raise SealError(f"round {count} is recorded as another one")
        agree(entry.body["statistics"]["derived"], derived_record(again), f"score {count}")
        below = bool(again.release_pvalues[0] <= level)
        found = (
            entry.body["decision"] == Decision.VALIDATED.value
            if registry.declaration.claim.mode == "stream"
            else entry.body["favorable"]
        )
        if found != below:
            raise SealError(f"score {count} does not follow from its statistics")


def _level_and_seed(
    registry: Registry, evidence: Mapping[str, Any], count: int
) -> tuple[float, int]:
    """Return at which level a release was read, and with which seed."""
    claim = registry.declaration.claim
    if claim.mode == "stream":
        level = spending_level(count, alpha=number(claim.alpha))
        return level, int(evidence["seed"]) + count
    return number(str(claim.threshold)), int(evidence["seed"])


def _check_committed(folder: AuditFolder, registry: Registry, journal: Journal) -> None:
    """See that the committed releases are the registered draws, in order, and no copies."""
    records = []
    for entry in journal.ledger.find(Stage.DRAWN):
        record = dict(entry.body["record"])
        if digest(record) != entry.body["release"]:
            raise SealError(f"{record.get('name')}: the committed digest is of another release")
        check_content(folder, str(record.get("name")), record)
        records.append(record)
    member = registry.declaration.members[0]
    if registry.declaration.claim.mode == "sequential":
        seeds = list(member.mechanism[0].seed_list)
        if [r["seed"] for r in records] != seeds[: len(records)]:
            raise SealError("the draws do not have the registered seeds in their order")
        if member.mechanism[0].deterministic:
            return
    for key in COPIES:
        values = [r[key] for r in records if r.get(key) is not None]
        if len(set(values)) < len(values):
            raise SealError("two committed releases are the same")


def sequential_predicate(
    folder: AuditFolder,
    journal: Journal,
    registry: Registry,
    evidence: Mapping[str, Any],
    grant: dict[str, Any] | None,
) -> dict[str, Any]:
    """Return what the certificate of a sequential audit or a stream says."""
    declaration = registry.declaration
    member = declaration.members[0]
    measures = measures_of(member, registry.member(member.name)["requirements"])
    entries = journal.ledger.find(Stage.SCORED)
    verdicts = (
        [_stream_verdict(entry) for entry in entries]
        if declaration.claim.mode == "stream"
        else [_sequential_verdict(registry, entries)]
    )
    records = [e.body["record"] for e in journal.ledger.find(Stage.DRAWN)]
    name = verdicts[0]["mechanism"] if len(verdicts) == 1 else "every candidate"
    prepare = member.mechanism[0].prepare_seed if member.mechanism else 0
    stages = redrawn_stages(
        {
            "prepare_seed": prepare,
            "procedure": member.procedure,
            "validation": True if member.development.chooses else None,
        },
        [dict(record) for record in records],
    )
    return {
        **frame_of(journal, registry, grant),
        "level": declaration.claim.level,
        "verdicts": verdicts,
        "redraws": {name: stages["redraws"]},
        "conditional_on": {name: stages["conditional_on"]},
        "not_claimed": list(not_claimed([m.requirement for m in measures])),
        "failed": _failures(name, records),
        "secondary": {},
    }


def _failures(name: str, records: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    failed = [
        {"seed": r["seed"], "status": r["status"], "error": r["error"]}
        for r in records
        if r["status"] != "drawn"
    ]
    return {name: failed} if failed else {}


def _sequential_verdict(registry: Registry, entries: Sequence[Entry]) -> dict[str, Any]:
    audit = SequentialAudit(plan_of(registry))
    for entry in entries:
        audit.add(bool(entry.body["favorable"]))
    name = registry.declaration.members[0].mechanism[0].name
    return {**audit.to_dict(), "mechanism": name, "basis": "every draw committed before its score"}


def _stream_verdict(entry: Entry) -> dict[str, Any]:
    body = entry.body
    name = body["statistics"]["releases"][0]
    good = body["decision"] == Decision.VALIDATED.value
    return {
        "mechanism": name,
        "round": body["round"],
        "decision": body["decision"],
        "level": body["level"],
        "rests_on": "Proposition 19",
        "sentence": (
            "This candidate meets its requirements on the registered target, with the confidence "
            "of the whole stream."
            if good
            else "The round does not settle whether this candidate meets its requirements. That is "
            "not evidence of a violation."
        ),
    }
