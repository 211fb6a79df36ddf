"""The report of an audit's folder, rebuilt from its record."""

from __future__ import annotations

from typing import Any

from proxyguard.audit.envelope import open_envelope
from proxyguard.audit.folder import CERTIFICATE, EVIDENCE, REPORTS, AuditFolder
from proxyguard.errors import StageError
from proxyguard.report.content import Report, build_report
from proxyguard.report.html import to_html
from proxyguard.report.markdown import to_markdown
from proxyguard.seal.journal import Journal
from proxyguard.seal.ledger import Stage


def report_of(folder: AuditFolder, journal: Journal) -> Report:
    """Return the report of a certified audit."""
    if not journal.ledger.has(Stage.CERTIFIED):
        raise StageError("there is no certificate yet; run proxyguard open")
    value, signer = open_envelope((folder / CERTIFICATE).read_bytes())
    evidence: dict[str, Any] = folder.read_json(EVIDENCE)
    return build_report(
        value["predicate"],
        evidence,
        folder.registry(journal).value,
        [entry.to_dict() for entry in journal.ledger.entries],
        signer=signer,
    )


def report_bytes(folder: AuditFolder, journal: Journal) -> dict[str, bytes]:
    """Return the report's files; the same audit gives the same bytes."""
    report = report_of(folder, journal)
    return dict(zip(REPORTS, (to_markdown(report).encode(), to_html(report).encode()), strict=True))


def write_report(folder: AuditFolder, journal: Journal) -> list[str]:
    """Write the report beside the certificate and return the names of its files."""
    for name, content in report_bytes(folder, journal).items():
        folder.write(name, content)
    return list(REPORTS)
