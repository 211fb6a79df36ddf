"""The ledger on disk: one signed line for each step, replaced as a whole file.

A line is the canonical bytes of ``{"entry": ..., "signature": ..., "signer": ...}``. Every
entry is signed, so the head always is, and a kill between a step and its signature cannot
happen.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from proxyguard.errors import KeyMissing, SealError
from proxyguard.seal.canonical import canonical_bytes
from proxyguard.seal.keys import SigningKey, signed_by
from proxyguard.seal.ledger import Entry, Ledger, Stage
from proxyguard.seal.storage import exclusive, write_atomic

NAME = "ledger.jsonl"


class Journal:
    """A ledger and the file it lives in."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / NAME
        content = self._path.read_bytes() if self._path.exists() else b""
        if content and not content.endswith(b"\n"):
            raise SealError(f"{self._path} does not end with a whole line; it was cut or edited")
        self._lines = content.split(b"\n")[:-1]
        records = [_read_line(line, i, self._path) for i, line in enumerate(self._lines)]
        self.ledger = Ledger(entry for entry, _ in records)
        self.signers = tuple(signer for _, signer in records)
        if len(set(self.signers)) > 1:
            raise SealError(f"{self._path} has entries of {len(set(self.signers))} signers")

    @property
    def signer(self) -> str | None:
        """The public key that signed the first entry, and so must sign the rest."""
        return self.signers[0] if self.signers else None

    def check_signer(self, key: SigningKey) -> None:
        """Raise unless this key signed the entries so far."""
        if self.signer is not None and key.public != self.signer:
            raise KeyMissing(
                f"this audit is signed by {self.signer[:16]}..., the key given is "
                f"{key.public[:16]}...; use the key made at init"
            )

    def record(self, stage: Stage, body: Mapping[str, Any], key: SigningKey) -> Entry:
        """Record the next step and return its entry once it is on the disk.

        The caller holds the folder through `writing`. If the write fails, nothing is
        recorded, here or on the disk.
        """
        self.check_signer(key)
        trial = Ledger(self.ledger.entries)
        entry = trial.append(stage, body)
        line = canonical_bytes(
            {
                "entry": entry.to_dict(),
                "signature": key.sign(entry.to_bytes()),
                "signer": key.public,
            }
        )
        lines = [*self._lines, line]
        write_atomic(self._path, b"".join(one + b"\n" for one in lines))
        self._lines, self.ledger = lines, trial
        self.signers = (*self.signers, key.public)
        return entry


@contextmanager
def writing(folder: Path) -> Iterator[Journal]:
    """Hold an audit folder for one writer and give its journal, as it stands on the disk."""
    with exclusive(folder):
        yield Journal(folder)


def _read_line(line: bytes, index: int, path: Path) -> tuple[Entry, str]:
    place = f"{path.name}, line {index + 1}"
    try:
        value = json.loads(line)
    except ValueError:
        raise SealError(f"{place} is no JSON; it was edited") from None
    if not isinstance(value, dict) or set(value) != {"entry", "signature", "signer"}:
        raise SealError(f"{place} is no signed entry of a format that this version reads")
    entry = Entry.from_dict(value["entry"])
    if canonical_bytes(value) != line:
        raise SealError(f"{place} is not in canonical form; it was edited")
    signer, signature = str(value["signer"]), str(value["signature"])
    if not signed_by(signer, signature, entry.to_bytes()):
        raise SealError(f"{place} does not carry a valid signature of {signer[:16]}...")
    return entry, signer
