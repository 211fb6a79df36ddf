"""Where an audit stands, and what comes next."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from proxyguard.audit.folder import CERTIFICATE, DECLARATION, GRANT, AuditFolder
from proxyguard.seal.ledger import Path as LedgerPath
from proxyguard.seal.ledger import Stage


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """The steps that are recorded and the next command."""

    name: str | None
    steps: tuple[dict[str, Any], ...]
    next: str
    head: str
    signer: str | None
    verdicts: tuple[dict[str, str], ...]

    def to_dict(self) -> dict[str, Any]:
        """Return plain values."""
        return {
            "name": self.name,
            "steps": list(self.steps),
            "next": self.next,
            "head": self.head,
            "signer": self.signer,
            "verdicts": list(self.verdicts),
        }


def status_of(folder: AuditFolder) -> Status:
    """Read the ledger and say where the audit stands."""
    journal = folder.journal()
    ledger = journal.ledger
    sealed = ledger.find(Stage.SEALED)
    verdicts: tuple[dict[str, str], ...] = ()
    if ledger.has(Stage.CERTIFIED) and (folder / CERTIFICATE).exists():
        from proxyguard.audit.envelope import open_envelope

        predicate = open_envelope((folder / CERTIFICATE).read_bytes())[0]["predicate"]
        verdicts = tuple(
            {"mechanism": v["mechanism"], "decision": v["decision"], "sentence": v["sentence"]}
            for v in predicate["verdicts"]
        )
    return Status(
        name=str(sealed[0].body["name"]) if sealed else None,
        steps=tuple(
            {
                "index": entry.index,
                "stage": entry.stage.value,
                "time": entry.body.get("time"),
                "digest": entry.digest,
            }
            for entry in ledger.entries
        ),
        next=_next(folder, journal),
        head=ledger.head,
        signer=journal.signer,
        verdicts=verdicts,
    )


def _next(folder: AuditFolder, journal: Any) -> str:
    ledger = journal.ledger
    if not (folder / DECLARATION).exists():
        return "init"
    if not ledger.has(Stage.SEALED):
        return "seal"
    if not ledger.has(Stage.REGISTERED):
        return "register"
    fixed = ledger.path is LedgerPath.FIXED
    if fixed and not ledger.has(Stage.DRAWN):
        return "draw"
    steward = ledger.find(Stage.SEALED)[0].body["steward"]
    if steward is not None and not (folder / GRANT).exists():
        return "grant (by the steward)"
    return "verify" if ledger.has(Stage.CERTIFIED) else "open"
