"""A report as plain values: everything that its page says, for programs."""

from __future__ import annotations

from dataclasses import asdict

from proxyguard.documents.canonical import Plain, canonical_bytes
from proxyguard.documents.document import FORMAT
from proxyguard.report.content import Report
from proxyguard.report.rows import COLUMNS, evidence_rows
from proxyguard.report.sources import Sources


def to_json(report: Report, sources: Sources) -> bytes:
    """Return the canonical bytes of a report's values."""
    return canonical_bytes(report_values(report, sources))


def report_values(report: Report, sources: Sources) -> dict[str, Plain]:
    """Return the report, the certificate behind it, and the evidence row by row."""
    return {
        "format": FORMAT,
        **asdict(report),
        "certificate": _certificate(sources),
        "subjects": dict(sources.subjects),
        "signer": sources.signer,
        "head": sources.head,
        "rows": {
            "columns": list(COLUMNS),
            "values": [list(row) for row in evidence_rows(sources)],
        },
    }


def _certificate(sources: Sources) -> Plain:
    """Return what was certified: the signed predicate, or the verdicts that there are."""
    if sources.predicate is not None:
        return sources.predicate.to_dict()
    return {"verdicts": [verdict.to_dict() for verdict in sources.verdicts]}
