"""What an audit that draws after opening says, and whether its record supports it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from proxyguard.audit.agree import agree
from proxyguard.audit.decide import DrawCounts, failures_of
from proxyguard.audit.folder import AuditFolder
from proxyguard.audit.grant import release_set
from proxyguard.audit.limits import planned_records
from proxyguard.audit.manifest import (
    check_content,
    check_declared,
    check_files,
    repeats,
    schema_of,
)
from proxyguard.audit.measures import design_of, measures_of
from proxyguard.audit.open import frame_of
from proxyguard.audit.register import sequential_plan
from proxyguard.audit.score_shares import check_answers
from proxyguard.audit.stated import redrawn
from proxyguard.audit.target import check_seed, round_seed
from proxyguard.certificate.sequential import SequentialAudit, SequentialPlan
from proxyguard.certificate.wording import not_claimed
from proxyguard.documents.evidence import Evidence, GroupEvidence, Score, SequentialEvidence
from proxyguard.documents.grant import GrantStatement
from proxyguard.documents.ledger import Committed, Favored, Judged
from proxyguard.documents.registry import Registry
from proxyguard.documents.releases import MadeDraw
from proxyguard.errors import SealError
from proxyguard.evidence.record import (
    Sizes,
    check_counts,
    derived_record,
    evidence_record,
    read_evidence,
)
from proxyguard.evidence.releases import evidence_of
from proxyguard.exact.multiplicity import spending_level
from proxyguard.losses.cell import Column, Reading, join_columns
from proxyguard.modes.catalog import NO_MECHANISM
from proxyguard.modes.claim import Claim
from proxyguard.registry.fields import number
from proxyguard.seal.journal import Journal
from proxyguard.seal.ledger import Entry


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
    design = design_of(member)
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
