"""Where an audit stands, and what comes next."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from proxyguard.audit.folder import (
    CERTIFICATE,
    DECLARATION,
    EVIDENCE,
    GRANT,
    PENDING,
    AuditFolder,
)
from proxyguard.documents.ledger import Deviated, Sealed
from proxyguard.errors import SealError
from proxyguard.modes.decision import Decision
from proxyguard.seal.journal import Journal
from proxyguard.seal.ledger import Schedule, Stage

if TYPE_CHECKING:
    from proxyguard.documents.canonical import Plain
    from proxyguard.report.content import Report


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
    """Read the ledger and say where the audit stands."""
    journal = folder.journal()
    ledger = journal.ledger
    sealed = ledger.find(Sealed)
    report: Report | None = None
    if ledger.has(Stage.CERTIFIED) and all(folder.has(n) for n in (CERTIFICATE, EVIDENCE)):
        from proxyguard.audit.report import report_of

        report = report_of(folder, journal)
    no_grant = _why_no_grant(folder, journal)
    return Status(
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
        verdicts=() if report is None else _verdicts(report),
        guarantee=None if report is None else report.guarantee,
        attestation=None if report is None else report.attestation,
        deviations=tuple(entry.body.reason for entry in ledger.find(Deviated)),
        no_grant=no_grant,
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


def _verdicts(report: Report) -> tuple[StandingVerdict, ...]:
    advice = {one["mechanism"]: one["sentence"] for one in report.advice}
    return tuple(
        StandingVerdict(
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
        for verdict in report.verdicts
    )


def _next(folder: AuditFolder, journal: Journal, *, granted: bool) -> str:
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
        finished = sum(1 for _ in (folder / PENDING).glob("*/*.json"))
        parts.append(f"{finished} finished draws are kept" if finished else "no draw had finished")
    if ledger.has(Stage.OPENED) and not ledger.has(Stage.CERTIFIED):
        parts.append("the target counts as opened")
    return "; ".join(parts)
