"""The ledger on disk: one signed line for each step, replaced as a whole file.

A line is the canonical bytes of ``{"entry": ..., "signature": ...}``; the entry names its signer.
Every entry is signed, so the head always is, and a kill between a step and its signature cannot
happen.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from proxyguard.documents.canonical import canonical_bytes
from proxyguard.documents.ledger import LedgerBody, Rotated, SignedEntry
from proxyguard.errors import KeyMissing, SealError, StageError
from proxyguard.seal.crypto import SigningKey, signed_by
from proxyguard.seal.ledger import Entry, Ledger, StepBody
from proxyguard.seal.storage import exclusive, read_inside, write_atomic

NAME = "ledger.jsonl"
# Bytes of a ledger: some ten thousand draws and scores, with their statistics.
LARGEST_LEDGER = 64 * 2**20


class Journal:
    """A ledger and the file it lives in.

    Parameters
    ----------
    folder
        The audit's folder; without a file there the ledger is empty.

    Attributes
    ----------
    ledger
        The steps that were read, each with a valid signature of the key in force.

    Raises
    ------
    SealError
        If the file was cut or edited, a signature does not hold, or a step breaks the rules.
    """

    def __init__(self, folder: Path) -> None:
        self._path = folder / NAME
        try:
            content = read_inside(folder, NAME, most=LARGEST_LEDGER)
        except FileNotFoundError:
            content = b""
        # The file is replaced as a whole, so that no kill leaves half a line: somebody cut it.
        if content and not content.endswith(b"\n"):
            raise SealError(f"{self._path} does not end with a whole line; it was cut or edited")
        self._lines = content.split(b"\n")[:-1]
        entries = [_read_line(line, i, self._path) for i, line in enumerate(self._lines)]
        try:
            self.ledger = Ledger(entries)
        except StageError as error:  # not a step too early: a record that breaks its own rules
            raise SealError(str(error)) from error

    @property
    def signer(self) -> str | None:
        """The public key in force: the last entry's, or the one it hands over to."""
        return self.ledger.signer

    @property
    def signers(self) -> tuple[str, ...]:
        """Every key that has signed or may sign next, first to last."""
        keys = [entry.signer for entry in self.ledger.entries]
        return tuple(dict.fromkeys(keys if self.signer is None else [*keys, self.signer]))

    def check_signer(self, key: SigningKey) -> None:
        """Raise unless this key is the one in force."""
        if self.signer is not None and key.public != self.signer:
            raise KeyMissing(
                f"this audit is signed by {self.signer[:16]}..., the key given is "
                f"{key.public[:16]}...; use the key made at init, or hand over to this one with "
                "proxyguard rotate-key"
            )

    def record(self, body: StepBody, key: SigningKey) -> Entry[StepBody]:
        """Record the next step and return its entry once it is on the disk.

        The caller holds the folder through `writing`. If the write fails, nothing is
        recorded, here or on the disk.

        Parameters
        ----------
        body
            What the step says.
        key
            The key in force, which signs it.

        Raises
        ------
        KeyMissing
            If the key is another one.
        StageError
            If this step may not come next.
        DiskError
            If it could not be written.
        """
        self.check_signer(key)
        # On a copy: where the disk refuses, this ledger must not have the entry either.
        trial = Ledger(self.ledger.entries)
        entry = trial.append(body, key.public)
        line = canonical_bytes({"entry": entry.to_dict(), "signature": key.sign(entry.content)})
        lines = [*self._lines, line]
        write_atomic(self._path, b"".join(recorded + b"\n" for recorded in lines))
        self._lines, self.ledger = lines, trial
        return entry

    def rotate(self, key: SigningKey, successor: SigningKey, time: str) -> Entry[Rotated]:
        """Hand over from the key in force to another one, which consents by its signature."""
        consent = successor.sign(_consent(self.ledger.head, successor.identity))
        return self.record(Rotated(successor=successor.identity, consent=consent, time=time), key)


@contextmanager
def writing(folder: Path) -> Iterator[Journal]:
    """Hold an audit folder for one writer and give its journal, as it stands on the disk."""
    with exclusive(folder):
        yield Journal(folder)


def _consent(head: str, successor: str) -> bytes:
    """Return what a successor signs: nobody is made an author without their own key."""
    return canonical_bytes({"rotation after": head, "successor": successor})


def _read_line(line: bytes, index: int, path: Path) -> Entry[LedgerBody]:
    where = f"{path.name}, line {index + 1}"
    signed = SignedEntry.read(line, where)
    entry = Entry.of(signed.entry)
    if not signed_by(entry.signer, signed.signature, entry.content):
        raise SealError(f"{where} does not carry a valid signature of {entry.signer[:16]}...")
    if isinstance(entry.body, Rotated):
        successor = entry.body.successor
        if not signed_by(successor[:64], entry.body.consent, _consent(entry.previous, successor)):
            raise SealError(f"{where} hands over to {successor[:16]}..., who has not consented")
    return entry
