"""What an audit that draws after opening says, and whether its record supports it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from proxyguard.audit.agree import agree
from proxyguard.audit.decide import DrawCounts
from proxyguard.audit.folder import AuditFolder, Registry
from proxyguard.audit.grant import release_set
from proxyguard.audit.limits import planned_records
from proxyguard.audit.manifest import (
    check_declared,
    check_files,
    repeats,
    schema_of,
    with_content,
)
from proxyguard.audit.measures import design_of, measures_of
from proxyguard.audit.open import frame_of
from proxyguard.audit.register import sequential_plan
from proxyguard.audit.score_shares import check_answers
from proxyguard.audit.stated import redrawn
from proxyguard.audit.target import check_seed, round_seed
from proxyguard.certificate.sequential import SequentialAudit, SequentialPlan
from proxyguard.certificate.wording import not_claimed
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
from proxyguard.modes.decision import Decision
from proxyguard.registry.fields import number
from proxyguard.seal.canonical import digest
from proxyguard.seal.journal import Journal
from proxyguard.seal.ledger import Entry, Stage


def plan_of(registry: Registry) -> SequentialPlan:
    """Return the registered plan of a sequential audit."""
    return sequential_plan(registry.declaration.claim)


def reading_for(registry: Registry, seed: int, level: float) -> Reading:
    """Return how one release is read: at the registered threshold, or a round's level."""
    member = registry.declaration.members[0]
    measures = measures_of(member, registry.member(member.name)["requirements"])
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


def level_and_seed(
    registry: Registry, evidence: Mapping[str, Any], count: int, release: str
) -> tuple[float, int]:
    """Return at which level a release was read, and with which seed."""
    claim = registry.declaration.claim
    if claim.mode == "stream":
        level = spending_level(count, alpha=number(claim.alpha))
        return level, round_seed(int(evidence["seed"]), release)
    return number(str(claim.threshold)), int(evidence["seed"])


def together(registry: Registry, evidence: Mapping[str, Any]) -> dict[str, Any]:
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
    check_seed(journal, evidence)
    agree(evidence["groups"], together(registry, evidence), "the statistics of all releases")
    _check_committed(folder, registry, journal)
    member = registry.declaration.members[0]
    sealed = journal.ledger.find(Stage.SEALED)[0].body["members"][member.name]
    n = registry.declaration.claim.batch or planned_records(member, sealed)
    records = planned_records(member, sealed)
    stream = registry.declaration.claim.mode == "stream"
    if stream and n * len(entries) > records:
        raise SealError(
            f"{len(entries)} rounds of {n} fresh records take {n * len(entries)}, and {records} "
            "were sealed: a record was used twice"
        )
    sizes: Sizes = {}
    measures = measures_of(member, registry.member(member.name)["requirements"])
    drawn = [dict(e.body["record"]) for e in journal.ledger.find(Stage.DRAWN)]
    for count, (entry, draw) in enumerate(zip(entries, drawn, strict=True), start=1):
        level, seed = level_and_seed(registry, evidence, count, entry.body["release"])
        reading = reading_for(registry, seed, level)
        again = read_evidence(entry.body["statistics"], reading)
        check_answers(folder, measures, [draw], entry.body["statistics"])
        # Each round of a stream has records, and so subgroups, of its own.
        check_counts(entry.body["statistics"], reading, n, None if stream else sizes)
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


def committed_records(
    folder: AuditFolder, registry: Registry, journal: Journal
) -> list[dict[str, Any]]:
    """Return the committed releases, each with the content that its stored bytes have."""
    member = registry.declaration.members[0]
    sealed = journal.ledger.find(Stage.SEALED)[0].body["members"][member.name]
    name = member.mechanism[0].name if member.mechanism else ""
    schema = schema_of(registry, member, name, sealed)
    records = []
    for entry in journal.ledger.find(Stage.DRAWN):
        record = dict(entry.body["record"])
        if digest(record) != entry.body["release"]:
            raise SealError(f"{record.get('name')}: the committed digest is of another release")
        records.append(with_content(folder, str(record.get("name")), record, schema))
    return records


def _check_committed(folder: AuditFolder, registry: Registry, journal: Journal) -> None:
    """See that the committed releases are the registered draws, in order, and no copies."""
    records = committed_records(folder, registry, journal)
    member = registry.declaration.members[0]
    if registry.declaration.claim.mode == "sequential":
        check_files(registry, member, member.mechanism[0].name, records)
        seeds = list(member.mechanism[0].seed_list)
        if [r["seed"] for r in records] != seeds[: len(records)]:
            raise SealError("the draws do not have the registered seeds in their order")
        if member.mechanism[0].deterministic:
            name = member.mechanism[0].name
            generator = registry.member(member.name)["mechanisms"][name]["generator"]
            check_declared(generator, records, f"{member.name}/{name}")
            return
    for what, first, second in repeats(records):
        raise SealError(f"the committed releases {first} and {second} have the same {what}")


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
    stages = redrawn(
        member, name, records, registry.member(member.name)["mechanisms"].get(name, {})
    )
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
