"""Where the parts of an audit lie, and which bytes each recorded step vouches for."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from proxyguard.documents.document import parse_canonical
from proxyguard.draw.store import Store
from proxyguard.errors import DigestMismatch, RegistryError, SealError, StageError
from proxyguard.seal.canonical import canonical_bytes, digest
from proxyguard.seal.inside import (
    DOCUMENT,
    check_name,
    open_inside,
    read_inside,
    sha256_inside,
)
from proxyguard.seal.journal import Journal
from proxyguard.seal.ledger import Entry, Stage
from proxyguard.seal.ledger import Path as LedgerPath
from proxyguard.seal.storage import write_inside

if TYPE_CHECKING:
    import pandas as pd

    from proxyguard.registry.declaration import Declaration
    from proxyguard.seal.sealed_file import SealedFile

FORMAT = 1
DECLARATION = "audit.toml"
RELEASES = "releases.json"
EVIDENCE = "evidence.json"
CERTIFICATE = "certificate.json"
ADVICE = "advice.json"
GRANT = "grant.json"
RECORDS = "records.sealed"
CORRECTION = "corrections/0.json"
PENDING = "draws"
"""Where finished draws wait until all are."""
REPORTS = ("report.md", "report.html", "report.json", "report.csv")


class AuditFolder:
    """One audit on disk."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.store = Store(path)

    def __truediv__(self, name: str) -> Path:
        return self.path / name

    def declaration(self) -> Declaration:
        """Read `audit.toml` as it stands now."""
        # Here and not above: status and log need the folder, and no declaration.
        from proxyguard.registry.declaration import read_declaration

        return read_declaration(self.declaration_text())

    def declaration_text(self) -> str:
        """Return the text of `audit.toml`."""
        try:
            return read_inside(self.path, DECLARATION).decode("utf-8")
        except FileNotFoundError:
            raise RegistryError(
                f"there is no {DECLARATION} in {self.path}; proxyguard init writes one"
            ) from None
        except UnicodeDecodeError as error:
            raise RegistryError(f"{DECLARATION} is no UTF-8 text: {error}") from error

    def journal(self) -> Journal:
        """Read the ledger as it stands now."""
        if not self.path.is_dir():
            raise RegistryError(f"there is no audit folder at {self.path}")
        return Journal(self.path)

    def has(self, name: str) -> bool:
        """Return whether something of this name is here, be it a file or not."""
        return os.path.lexists(self / name)

    def read(self, name: str, *, most: int = DOCUMENT) -> bytes:
        """Return the bytes of a file, which must be a plain one of this folder."""
        try:
            return read_inside(self.path, name, most=most)
        except FileNotFoundError:
            raise SealError(f"{name} is missing from {self.path}") from None

    def text(self, name: str) -> str:
        """Return the text of a file."""
        try:
            return self.read(name).decode("utf-8")
        except UnicodeDecodeError as error:
            raise SealError(f"{name} is no UTF-8 text: {error}") from error

    def stored_table(self, address: str, what: str) -> pd.DataFrame:
        """Return a stored table; an error names its file beside what it is."""
        from proxyguard.tables.files import read_table_bytes

        return read_table_bytes(self.store.get(address), f"{what} ({self.store.name(address)})")

    def sealed_target(self, sealed: Mapping[str, Any]) -> SealedFile:
        """Return the encrypted records of a member, by what the ledger says of it."""
        # Here and not above: status and log read no tables.
        from proxyguard.seal.sealed_file import SealedFile

        index = sealed["index"]
        if type(index) is not int or index < 0:
            raise SealError(f"a sealed target has a number, the ledger has {str(index)[:80]!r}")
        name = f"target/{index}.sealed"
        with suppress(FileNotFoundError):  # which SealedFile says in its own words
            open_inside(self.path, name).close()
        return SealedFile(self / name)

    def write_json(self, name: str, value: Any) -> str:
        """Write a value in canonical form and return the digest of its bytes."""
        content = canonical_bytes(value)
        if not self.has(name) or self.read(name) != content:
            write_inside(self.path, name, content)
        return hashlib.sha256(content).hexdigest()

    def read_json(self, name: str) -> Any:
        """Read a value whose file must be in canonical form and of a format known here."""
        value = parse_canonical(self.read(name), name)
        if not isinstance(value, dict) or value.get("format") != FORMAT:
            found = value.get("format") if isinstance(value, dict) else None
            raise SealError(f"{name} has format {found!r}; this version reads {FORMAT}")
        return value

    def write(self, name: str, content: bytes) -> str:
        """Write a file and return the digest of its bytes."""
        write_inside(self.path, name, content)
        return hashlib.sha256(content).hexdigest()

    def sha256(self, name: str) -> str:
        """Return the digest of a file's bytes as they are now."""
        try:
            return sha256_inside(self.path, name)
        except FileNotFoundError:
            raise SealError(f"{name} is missing from {self.path}") from None

    def check_files(self, files: dict[str, str]) -> None:
        """Raise unless every file still has the bytes that were recorded."""
        for name, recorded in files.items():
            found = self.sha256(name)
            if found != recorded:
                raise DigestMismatch(name, sealed=recorded, found=found)

    def registry(self, journal: Journal) -> Registry:
        """Return the registry in force: registered, or the last amendment's."""
        steps = [
            *journal.ledger.find(Stage.REGISTERED),
            *journal.ledger.find(Stage.AMENDED),
        ]
        if not steps:
            raise StageError("nothing is registered yet; run proxyguard register")
        name = registry_name(len(steps) - 1)
        value = self.read_json(name)
        if digest(value) != journal.ledger.declaration:
            raise DigestMismatch(name, sealed=str(journal.ledger.declaration), found=digest(value))
        return Registry(value)


class Registry:
    """A registered declaration with everything that its rules resolved to."""

    def __init__(self, value: dict[str, Any]) -> None:
        self.value = value
        from proxyguard.registry.declaration import as_declaration

        self.declaration = as_declaration(value["declaration"])

    @property
    def digest(self) -> str:
        """The digest that the ledger names."""
        return digest(self.value)

    @property
    def excluded(self) -> set[tuple[str, int]]:
        """The draws that an amendment took out of the claim, by mechanism and seed."""
        return {(one["mechanism"], one["seed"]) for one in self.value.get("excluded", [])}

    def member(self, name: str) -> dict[str, Any]:
        """Return what was resolved for one member."""
        found: dict[str, Any] = self.value["members"][name]
        return found


def registry_name(index: int) -> str:
    """Return the file of the registration, or of an amendment."""
    return f"registry/{index}.json"


def snapshot_name(index: int) -> str:
    """Return the file that keeps the declaration's text as it was registered."""
    return f"registry/{index}.toml"


@dataclass(frozen=True, slots=True)
class Written:
    """The files that a step writes: those that it always does, and those that it may."""

    always: frozenset[str] = frozenset()
    perhaps: frozenset[str] = frozenset()

    def problem(self, listed: Iterable[str]) -> str | None:
        """Return what a step says of its files that no such step could say, or nothing."""
        names = set(listed)
        for name in sorted(names - self.always - self.perhaps):
            return f"it vouches for {name}, which this step does not write"
        for name in sorted(self.always - names):
            return f"it does not vouch for {name}, which this step writes"
        return None


_DEVELOPMENT = re.compile(
    r"target/[0-9]+\.sealed|development/[0-9]+\.(training|validation)\.parquet"
)


def _written(entry: Entry, path: LedgerPath, amendments: int) -> Written:
    """Return which files a step writes: a page of the author's own is none of them.

    Objects of the store are named by their digest, so that a name vouches for its bytes alone.
    """
    listed = entry.body.get("files", {})
    stage = entry.stage
    stored = frozenset(n for n, address in listed.items() if n == f"store/{address[:2]}/{address}")
    if stage is Stage.SEALED:
        return Written(perhaps=frozenset(n for n in listed if _DEVELOPMENT.fullmatch(n)))
    if stage is Stage.DEVELOPED or (stage is Stage.DRAWN and path is LedgerPath.SEQUENTIAL):
        return Written(perhaps=stored)
    if stage in (Stage.REGISTERED, Stage.AMENDED):
        names = (registry_name(amendments), snapshot_name(amendments), DECLARATION)
        return Written(frozenset(names))
    if stage is Stage.OPENED:
        return Written(frozenset() if entry.body.get("grant") is None else frozenset({GRANT}))
    if stage is Stage.CERTIFIED:
        return Written(frozenset({EVIDENCE, CERTIFICATE}), frozenset({ADVICE, RECORDS}))
    always = {Stage.DRAWN: RELEASES, Stage.CORRECTED: CORRECTION}.get(stage)
    return Written(frozenset() if always is None else frozenset({always}))


def recorded_files(entries: tuple[Entry, ...]) -> dict[str, str]:
    """Return the files that the ledger vouches for; a later step replaces an earlier one."""
    registered = next((e.body for e in entries if e.stage is Stage.REGISTERED), {})
    path = LedgerPath(registered.get("path", "fixed"))
    files: dict[str, str] = {}
    amendments = 0
    for entry in entries:
        listed = entry.body.get("files", {})
        for name in listed:
            check_name(name)  # a ledger that vouches for /etc/passwd vouches for nothing here
        amendments += entry.stage is Stage.AMENDED
        problem = _written(entry, path, amendments).problem(listed)
        if problem is None and entry.stage is Stage.OPENED:
            granted = entry.body.get("grant")
            if granted != listed.get(GRANT):
                problem = f"it was opened with the grant {granted!r:.20}, and lists another"
        if problem is not None:
            raise SealError(f"entry {entry.index} of the ledger, {entry.stage.value}: {problem}")
        files.update(listed)
    return files
