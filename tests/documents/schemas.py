"""JSON Schemas of every document, and of `audit.toml`, generated from the types.

``python tests/documents/schemas.py docs/schemas`` writes them; a test sees that they are current
and that every field is described.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from proxyguard.documents.certificate import Advice, Correction, Envelope, ReportDocument, Statement
from proxyguard.documents.evidence import FixedEvidence, SequentialEvidence
from proxyguard.documents.ledger import Body, Grant, SealedHeader, SignedEntry
from proxyguard.documents.registry import Registry
from proxyguard.documents.releases import ReleaseManifest
from proxyguard.registry.declaration import Declaration

# The documents by the name of their schema; a file, but for those that say otherwise.
KINDS: dict[str, Any] = {
    "audit": Declaration,  # audit.toml
    "registry": Registry,  # registry/N.json
    "releases": ReleaseManifest,
    "sealed-header": SealedHeader,  # the first line of target/N.sealed
    "grant": Grant,
    "evidence": FixedEvidence | SequentialEvidence,
    "certificate": Envelope,
    "statement": Statement,  # the payload of certificate.json
    "advice": Advice,
    "correction": Correction,  # corrections/0.json
    "report": ReportDocument,
    "ledger": SignedEntry,  # a line of ledger.jsonl
    "ledger-bodies": Body,  # the body of each step in it
}


def schemas() -> dict[str, dict[str, Any]]:
    """Return the JSON Schema of every document, by the name of its file in `docs/schemas`."""
    return {f"{name}.schema.json": TypeAdapter(kind).json_schema() for name, kind in KINDS.items()}


def main(arguments: Sequence[str]) -> None:
    """Write the schemas into a folder."""
    (folder,) = arguments
    Path(folder).mkdir(parents=True, exist_ok=True)
    for name, schema in schemas().items():
        text = json.dumps(schema, indent=2, ensure_ascii=False, sort_keys=True)
        (Path(folder) / name).write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
