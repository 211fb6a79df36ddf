"""Where an audit stands: the steps on record, the verdicts, and the command that comes next.

It is asked for often and while nothing is certified, so it loads neither tables nor the report.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from time import time
from typing import TYPE_CHECKING

from pydantic import BaseModel, ConfigDict, ValidationError

from proxyguard.audit.folder import (
    CERTIFICATE,
    DECLARATION,
    EVIDENCE,
    GRANT,
    PENDING,
    AuditFolder,
    withheld_files,
)
from proxyguard.documents.canonical import Plain
from proxyguard.documents.ledger import Committed, Deviated, Sealed
from proxyguard.documents.registry import Registry
from proxyguard.errors import SealError
from proxyguard.modes.evidence import Decision
from proxyguard.progress import duration, left_words
from proxyguard.seal.journal import Journal
from proxyguard.seal.ledger import Schedule, Stage

if TYPE_CHECKING:
    from proxyguard.report.sources import Sources


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedStep:
    """One entry of the ledger."""

    index: int
    stage: str
    time: str
    digest: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StandingVerdict:
    """A verdict as the report has it: interval, what binds, what would settle it."""

    mechanism: str
    decision: Decision
    sentence: str
    target: float | None
    lower: float | None
    upper: float | None
    certified: bool  # whether the bounds are, or the decision alone
    together: str  # how sure both ends of the interval are
    warning: str  # that no guarantee remains, and why
    binding: str
    advice: str


# The file beside draws that wait which says whose they are. Without a dot in its name: what has one
# is counted as a draw that was begun.
DRAWING = "drawing"
# The file of what draws stopped at the last time.
STOPPED = "stopped"
# Bytes of that file at the most.
MARK = 2**16
# Seconds without a new draw after which no time left is told, or five draws at the pace so far.
STILL = 60.0


class Drawing(BaseModel):
    """Whose draws wait in a folder, and since when they are drawn; only `status` reads it."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    registry: str
    member: str
    mechanism: str
    had: int
    """How many draws waited when drawing was begun, or taken up again."""
    began: float
    """When that was, as the clock of this machine has it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawTally:
    """How many draws of a mechanism are finished, while others are still to come."""

    member: str
    mechanism: str
    finished: int
    registered: int
    had: int  # finished before drawing was last begun
    seconds: float  # from that beginning to the last finished draw
    last: float | None  # seconds since then

    @property
    def words(self) -> str:
        """The counts, the time left at the pace so far, and when the last draw was finished."""
        pace = self.seconds / max(1, self.finished - self.had)
        going = self.last is not None and self.last <= max(STILL, 5 * pace)
        # Where nothing was drawn for long, nobody draws: a time left would be made up.
        had = self.had if going else self.finished
        words = left_words(self.finished, self.registered, had, self.seconds)
        ago = "" if self.last is None else f"; the last was finished {duration(self.last)} ago"
        return f"{self.mechanism}: {words}{ago if self.finished < self.registered else ''}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """The steps that are recorded and the next command."""

    name: str | None
    steps: tuple[RecordedStep, ...]
    next: str
    head: str
    signer: str | None
    required: tuple[str, ...] = ()  # of a release, requirement by requirement
    conditions: tuple[str, ...] = ()  # what is stated of releases that were made elsewhere
    lineage: str = ""  # where the target was met before, where that matters
    verdicts: tuple[StandingVerdict, ...] = ()
    guarantee: str | None = None  # of the certificate, with what was admitted later
    attestation: str | None = None
    holder: str | None = None  # who holds the target's key, until it is certified
    deviations: tuple[str, ...] = ()
    no_grant: str | None = None  # why the file in a grant's place is none for this folder
    withheld: tuple[str, ...] = ()  # files of development that are not here
    draws: tuple[DrawTally, ...] = ()  # of an audit whose draws are under way
    stopped: str | None = None  # at what they stopped the last time
    stream: bool = False  # whether candidates are submitted one by one

    def next_words(self, folder: Path) -> str:
        """Return the command that comes next as it is typed, and whose it is."""
        if self.next == GRANT_NEXT:
            return f"Next, by the steward: proxyguard grant {folder} --key KEY"
        if self.stream and self.next == "open":
            return (
                f"Next: proxyguard draw {folder} --candidate FILE, or, to end the stream: "
                f"proxyguard open {folder} --finish"
            )
        return f"Next: proxyguard {self.next} {folder}"

    def to_dict(self) -> dict[str, Plain]:
        """Return plain values, ready for JSON."""
        return asdict(self)


GRANT_NEXT = "grant (by the steward)"


def status_of(folder: AuditFolder) -> Status:
    """Say where an audit stands: what its ledger records, and once certified the verdicts.

    Raises
    ------
    SealError
        Where a certified folder holds other files than its ledger vouches for.
    """
    with folder.step():
        journal = folder.journal()
        ledger = journal.ledger
        sealed = ledger.find(Sealed)
        no_grant = _why_no_grant(folder, journal)
        registry = _registry(folder, journal)
        status = Status(
            name=sealed[0].body.name if sealed else None,
            steps=tuple(
                RecordedStep(
                    index=entry.index,
                    stage=entry.stage.value,
                    time=entry.body.time,
                    digest=entry.digest,
                )
                for entry in ledger.entries
            ),
            next=_next(folder, journal, granted=folder.has(GRANT) and no_grant is None),
            head=ledger.head,
            signer=journal.signer,
            deviations=tuple(entry.body.reason for entry in ledger.find(Deviated)),
            no_grant=no_grant,
            withheld=tuple(withheld_files(folder, journal)),
            holder=_holder(sealed[0].body) if sealed else None,
            draws=tuple(_draw_counts(folder, registry, journal)),
            stopped=_stopped(folder, journal),
            stream=registry is not None and registry.declaration.claim.stream,
        )
        # Where these two were lost the steps are told all the same; `verify` names what is missing.
        if not ledger.has(Stage.CERTIFIED) or not (
            folder.has(CERTIFICATE) and folder.has(EVIDENCE)
        ):
            return status
        # Loaded here: the report takes longer to import than the steps to be told.
        from proxyguard.audit.outcome import audit_sources
        from proxyguard.report.record import conditions_of, guarantee_of, lineage_of

        sources = audit_sources(folder, journal)
        return replace(
            status,
            required=sources.required,
            conditions=conditions_of(sources),
            lineage=lineage_of(sources),
            verdicts=tuple(_standing(sources)),
            # With the ledger: deviations that were recorded after the certificate are said too.
            guarantee=guarantee_of(sources.status, sources.ledger),
            attestation=sources.attestation,
            holder=None,
        )


def _holder(sealed: Sealed) -> str:
    """Return who holds the target's key, and who signs."""
    signer = f"{sealed.author[:16]}..."
    if sealed.steward is not None:
        return f"steward {sealed.steward[:16]}... holds the target's key; {signer} signs"
    who = "a steward by their own word" if sealed.by_steward else "the author"
    return f"{who}, {signer}, holds the target's key and signs"


def _why_no_grant(folder: AuditFolder, journal: Journal) -> str | None:
    """Return why a `grant.json` before the opening is no grant for this folder; none if it is."""
    ledger = journal.ledger
    if not folder.has(GRANT) or not ledger.has(Stage.SEALED) or ledger.has(Stage.OPENED):
        return None  # nothing to doubt, or recorded, and checked by `verify`
    from proxyguard.audit.grant import why_void  # it reads tables, which status mostly does not

    return why_void(folder, journal)


def _standing(sources: Sources) -> Iterator[StandingVerdict]:
    """Yield the verdicts as the report has them, of which nothing else is built."""
    from proxyguard.report.content import verdicts_of
    from proxyguard.report.evidence import bindings_of

    advice = {advised.mechanism: advised.sentence for advised in sources.advice}
    for verdict in verdicts_of(sources, bindings_of(sources)):
        yield StandingVerdict(
            mechanism=verdict.name,
            decision=Decision(verdict.decision.lower()),
            sentence=verdict.sentence,
            target=verdict.target,
            lower=verdict.lower,
            upper=verdict.upper,
            certified=verdict.certified,
            together=verdict.together,
            warning=verdict.warning,
            binding=verdict.binding,
            advice=advice.get(verdict.name, ""),
        )


def _next(folder: AuditFolder, journal: Journal, *, granted: bool) -> str:
    """Return the command that comes next."""
    ledger = journal.ledger
    if not folder.has(DECLARATION):
        return "init"
    if not ledger.has(Stage.SEALED):
        return "seal"
    if not ledger.has(Stage.REGISTERED):
        return "register"
    fixed = ledger.schedule is Schedule.FIXED
    if fixed and not ledger.has(Stage.DRAWN):
        return "draw"
    # Before open: without the steward's key there is nothing that the author could open.
    steward = ledger.sealed.steward
    if steward is not None and not granted:
        return GRANT_NEXT
    return "verify" if ledger.has(Stage.CERTIFIED) else "open"


def _stopped(folder: AuditFolder, journal: Journal) -> str | None:
    """Return what draws stopped at the last time; nothing once they are frozen."""
    name = f"{PENDING}/{STOPPED}"
    if journal.ledger.has(Stage.DRAWN) or not folder.has(name):
        return None
    try:
        return folder.read(name, most=MARK).decode("utf-8", "replace")
    except SealError:  # put there: it tells nothing
        return None


def _registry(folder: AuditFolder, journal: Journal) -> Registry | None:
    """Return the claim of an audit that is not certified; nothing where it cannot be read."""
    ledger = journal.ledger
    if not ledger.has(Stage.REGISTERED) or ledger.has(Stage.CERTIFIED):
        return None
    try:
        return folder.registry(journal)
    except SealError:  # the steps are told all the same; `verify` says what is broken
        return None


def _draw_counts(
    folder: AuditFolder, registry: Registry | None, journal: Journal
) -> Iterator[DrawTally]:
    """Yield how many draws of each mechanism are finished, where some are still to come.

    What is not frozen yet nothing vouches for: files are counted by the registered seeds, and who
    drew them is asked of nobody else.
    """
    if registry is None:
        return
    if journal.ledger.schedule is Schedule.SEQUENTIAL:
        yield from _sequential_counts(registry, journal)
        return
    if journal.ledger.has(Stage.DRAWN):
        return
    begun = dict(_begun(folder, registry))
    for member in registry.declaration.members:
        for mechanism in member.mechanism if member.target.losses is None else ():
            seeds = mechanism.seed_list
            if (member.name, mechanism.name) not in begun:
                yield DrawTally(
                    member=member.name, mechanism=mechanism.name, finished=0,
                    registered=len(seeds), had=0, seconds=0.0, last=None,
                )  # fmt: skip
                continue
            waiting, drawing = begun[member.name, mechanism.name]
            written = (_written(waiting / f"{seed}.json") for seed in seeds)
            times = [at for at in written if at is not None]
            newest = max(times, default=drawing.began)
            yield DrawTally(
                member=member.name, mechanism=mechanism.name, finished=len(times),
                registered=len(seeds), had=drawing.had, seconds=max(0.0, newest - drawing.began),
                last=max(0.0, time() - newest) if times else None,
            )  # fmt: skip


def _written(path: Path) -> float | None:
    """Return when a draw was kept; None where it is not there yet, or was just frozen."""
    try:
        return path.stat().st_mtime
    except OSError:
        return None


def _sequential_counts(registry: Registry, journal: Journal) -> Iterator[DrawTally]:
    """Yield how many draws were made after the opening; a stream has no number of them."""
    if registry.declaration.claim.stream:
        return
    member = registry.declaration.members[0]
    mechanism = member.mechanism[0]
    made = len(journal.ledger.find(Committed))
    yield DrawTally(
        member=member.name, mechanism=mechanism.name, finished=made,
        registered=len(mechanism.seed_list), had=made, seconds=0.0, last=None,
    )  # fmt: skip


def _begun(
    folder: AuditFolder, registry: Registry
) -> Iterator[tuple[tuple[str, str], tuple[Path, Drawing]]]:
    """Yield the folders of draws that wait for the registry in force, by what they are draws of."""
    for path in (folder / PENDING).glob(f"*/{DRAWING}"):
        try:
            drawing = Drawing.model_validate_json(
                folder.read(path.relative_to(folder.path).as_posix(), most=MARK)
            )
        # Of another version, put there, or just frozen: it counts nothing.
        except (OSError, SealError, ValidationError):
            continue
        if drawing.registry == registry.digest:
            yield (drawing.member, drawing.mechanism), (path.parent, drawing)


def kept_words(folder: AuditFolder) -> str:
    """Say what a command that was interrupted leaves: recorded steps and finished draws."""
    ledger = folder.journal().ledger
    steps = ", ".join(dict.fromkeys(entry.stage.value for entry in ledger.entries))
    parts = [f"recorded and kept: {steps}" if steps else "nothing was recorded yet"]
    drawing = ledger.schedule is Schedule.FIXED and not ledger.has(Stage.DRAWN)
    if ledger.has(Stage.REGISTERED) and drawing:
        # Without `.ended` and `.dropped`, which remember draws that were not kept.
        finished = sum(1 for _ in (folder / PENDING).glob("*/*.json"))
        parts.append(f"{finished} finished draws are kept" if finished else "no draw had finished")
    # The entry is on the disk before any key is used: after a kill the records may have been seen.
    if ledger.has(Stage.OPENED) and not ledger.has(Stage.CERTIFIED):
        parts.append("the target counts as opened")
    return "; ".join(parts)
