"""Where the parts of an audit lie, and which bytes each recorded step vouches for."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from proxyguard.draw.store import Store
from proxyguard.errors import DigestMismatch, RegistryError, SealError, StageError
from proxyguard.seal.canonical import canonical_bytes, digest
from proxyguard.seal.journal import Journal
from proxyguard.seal.ledger import Entry, Stage
from proxyguard.seal.storage import write_atomic

if TYPE_CHECKING:
    from proxyguard.registry.declaration import Declaration

FORMAT = 1
DECLARATION = "audit.toml"
RELEASES = "releases.json"
EVIDENCE = "evidence.json"
CERTIFICATE = "certificate.json"
ADVICE = "advice.json"
GRANT = "grant.json"
RECORDS = "records.sealed"
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
            return (self / DECLARATION).read_text(encoding="utf-8")
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

    def write_json(self, name: str, value: Any) -> str:
        """Write a value in canonical form and return the digest of its bytes."""
        content = canonical_bytes(value)
        place = self / name
        place.parent.mkdir(parents=True, exist_ok=True)
        if not place.exists() or place.read_bytes() != content:
            write_atomic(place, content)
        return hashlib.sha256(content).hexdigest()

    def read_json(self, name: str) -> Any:
        """Read a value whose file must be in canonical form and of a format known here."""
        try:
            content = (self / name).read_bytes()
            value = json.loads(content)
        except FileNotFoundError:
            raise SealError(f"{name} is missing from {self.path}") from None
        except ValueError:
            raise SealError(f"{name} is no JSON; it was edited") from None
        if canonical_bytes(value) != content:
            raise SealError(f"{name} is not in canonical form; it was edited")
        if not isinstance(value, dict) or value.get("format") != FORMAT:
            found = value.get("format") if isinstance(value, dict) else None
            raise SealError(f"{name} has format {found!r}; this version reads {FORMAT}")
        return value

    def write(self, name: str, content: bytes) -> str:
        """Write a file and return the digest of its bytes."""
        place = self / name
        place.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(place, content)
        return hashlib.sha256(content).hexdigest()

    def sha256(self, name: str) -> str:
        """Return the digest of a file's bytes as they are now."""
        try:
            with open(self / name, "rb") as file:
                return hashlib.file_digest(file, "sha256").hexdigest()
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


def recorded_files(entries: tuple[Entry, ...]) -> dict[str, str]:
    """Return the files that the ledger vouches for; a later step replaces an earlier one."""
    files: dict[str, str] = {}
    for entry in entries:
        files.update(entry.body.get("files", {}))
    return files
