"""A report as plain values: everything that its page says, for programs."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from proxyguard.documents.document import FORMAT
from proxyguard.report.content import Report, Sources
from proxyguard.report.rows import COLUMNS, evidence_rows
from proxyguard.seal.canonical import canonical_bytes


def to_json(report: Report, sources: Sources) -> bytes:
    """Return the canonical bytes of a report's values."""
    return canonical_bytes(report_values(report, sources))


def report_values(report: Report, sources: Sources) -> dict[str, Any]:
    """Return the report, the certificate behind it, and the evidence row by row."""
    return {
        "format": FORMAT,
        **asdict(report),
        "certificate": sources.predicate,
        "subjects": dict(sources.subjects),
        "signer": sources.signer,
        "head": sources.head,
        "rows": {
            "columns": list(COLUMNS),
            "values": [[row[name] for name in COLUMNS] for row in evidence_rows(sources)],
        },
    }
