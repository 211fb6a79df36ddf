"""Where an audit stands: the steps on record, the verdicts, and the command that comes next.

It is asked for often and while nothing is certified, so it loads neither tables nor the report.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING

from proxyguard.audit.folder import CERTIFICATE, DECLARATION, EVIDENCE, GRANT, PENDING, AuditFolder
from proxyguard.documents.canonical import Plain
from proxyguard.documents.ledger import Deviated, Sealed
from proxyguard.errors import SealError
from proxyguard.modes.evidence import Decision
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """The steps that are recorded and the next command."""

    name: str | None
    steps: tuple[RecordedStep, ...]
    next: str
    head: str
    signer: str | None
    verdicts: tuple[StandingVerdict, ...] = ()
    guarantee: str | None = None  # of the certificate, with what was admitted later
    attestation: str | None = None
    deviations: tuple[str, ...] = ()
    no_grant: str | None = None  # why the file in a grant's place is none for this folder

    def to_dict(self) -> dict[str, Plain]:
        """Return plain values, ready for JSON."""
        return asdict(self)


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
        )
        # Where these two were lost the steps are told all the same; `verify` names what is missing.
        if not ledger.has(Stage.CERTIFIED) or not (
            folder.has(CERTIFICATE) and folder.has(EVIDENCE)
        ):
            return status
        # Loaded here: the report takes longer to import than the steps to be told.
        from proxyguard.audit.outcome import sources_of
        from proxyguard.report.record import guarantee_of

        sources = sources_of(folder, journal)
        return replace(
            status,
            verdicts=tuple(_standing(sources)),
            # With the ledger: deviations that were recorded after the certificate are said too.
            guarantee=guarantee_of(sources.status, sources.ledger),
            attestation=sources.attestation,
        )


def _why_no_grant(folder: AuditFolder, journal: Journal) -> str | None:
    """Return why a `grant.json` before the opening is no grant for this folder; none if it is.

    Anybody can put a file there, or leave the grant of another folder or of an earlier claim.
    """
    ledger = journal.ledger
    if not folder.has(GRANT) or not ledger.has(Stage.SEALED) or ledger.has(Stage.OPENED):
        return None  # nothing to doubt, or recorded, and checked by `verify`
    from proxyguard.audit.grant import read_grant  # it reads tables, which status mostly does not

    try:
        read_grant(folder, journal)
    except SealError as error:
        return str(error)
    return None


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
        return "grant (by the steward)"
    return "verify" if ledger.has(Stage.CERTIFIED) else "open"


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
