"""An audit's folder: where its files lie, which bytes the ledger vouches for, and do they hold?

Every step reads and writes through `AuditFolder`. The ledger says by `recorded_files` what each
step wrote; `problems`, `unknown_files` and `odd_entries` compare that with the disk. The
certificate's file is an in-toto statement in a signed DSSE envelope: any DSSE reader can check
the signature, and the statement's subjects are the digests of what the certificate is about.
"""

from __future__ import annotations

import hashlib
import os
import re
from base64 import b64decode, b64encode
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeVar, get_args

from proxyguard.documents.certificate import Envelope, Signature, Statement
from proxyguard.documents.document import Document
from proxyguard.documents.ledger import (
    Amended,
    Certified,
    Committed,
    Developed,
    DevelopmentRole,
    Frozen,
    LedgerBody,
    Opened,
    Registered,
    Sealed,
    SealedMember,
    WritingBody,
)
from proxyguard.documents.registry import Registry
from proxyguard.documents.releases import ReleaseManifest
from proxyguard.errors import DigestMismatch, RegistryError, SealError, StageError, Withheld
from proxyguard.seal.crypto import SigningKey, signed_by
from proxyguard.seal.journal import NAME, Journal
from proxyguard.seal.ledger import Entry, Stage
from proxyguard.seal.storage import (
    DOCUMENT,
    LEFTOVER,
    OBJECT,
    FolderFiles,
    check_name,
    entries_inside,
    is_address,
    open_inside,
)

if TYPE_CHECKING:
    import pandas as pd

    from proxyguard.registry.declaration import Declaration
    from proxyguard.seal.sealed_file import SealedFile
    from proxyguard.tables.files import Schema


Kind = TypeVar("Kind", bound=Document)
DECLARATION = "audit.toml"
RELEASES = "releases.json"
EVIDENCE = "evidence.json"
CERTIFICATE = "certificate.json"
ADVICE = "advice.json"
GRANT = "grant.json"
RECORDS = "records.sealed"
CORRECTION = "corrections/0.json"
# The rows outside the target, in clear, which a steward may withhold.
DEVELOPMENT = "development/"
# Where finished draws wait until all are.
PENDING = "draws"
REPORTS = ("report.md", "report.html", "report.json", "report.csv")


class Store:
    """Objects under ``store/``: a file's name is the digest of its bytes, so it is written once."""

    def __init__(self, files: FolderFiles) -> None:
        self._files = files
        self._root = files.folder / "store"

    def path(self, address: str) -> Path:
        """Return where an object lies; what is no address of ours could lead anywhere."""
        if not is_address(address):
            raise SealError(f"{str(address)[:80]!r} is no address of a stored object")
        return self._root / address[:2] / address

    def name(self, address: str) -> str:
        """Return the name of an object's file in the audit's folder."""
        return self.path(address).relative_to(self._files.folder).as_posix()

    def put(self, content: bytes) -> str:
        """Keep these bytes and return their address; what is there already is left alone."""
        address = hashlib.sha256(content).hexdigest()
        # A link that somebody put there is left alone too: whoever reads the object refuses it.
        if not os.path.lexists(self.path(address)):
            self._files.write(self.name(address), content, address)
        return address

    def get(self, address: str) -> bytes:
        """Return the bytes of an address, after checking that they are still those."""
        name = self.name(address)
        try:
            content = self._files.read(name, most=OBJECT)
        except FileNotFoundError:
            raise SealError(
                f"the stored object {address[:16]}... is missing: {self.path(address)}"
            ) from None
        digest = self._files.digest_of(name, content)
        if digest != address:
            raise DigestMismatch(name, sealed=address, found=digest)
        return content

    def addresses(self) -> set[str]:
        """Return the addresses of all objects."""
        return {
            path.name
            for path in self._root.glob("*/*")
            if path.is_file() and not path.name.endswith(LEFTOVER)
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredRecords:
    """What is compared of a stored release."""

    content: str  # the digest of its records, whatever their order
    rows: int


class AuditFolder:
    """One audit on disk."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._files = FolderFiles(path)
        self._parsed: dict[tuple[type[Document], str], Document] = {}
        self._digested: dict[str, tuple[Schema, StoredRecords]] = {}
        self.store = Store(self._files)

    def __truediv__(self, name: str) -> Path:
        return self.path / name

    @contextmanager
    def step(self) -> Iterator[None]:
        """Read, hash and parse every file once until this ends, however often it is asked for."""
        with self._files.step():
            yield
        # A step within another leaves what was parsed to the rest of it. What was computed from a
        # stored release stays beyond that: it is a few bytes, and goes by the digest of its own.
        if not self._files.in_step:
            self._parsed.clear()

    def declaration(self) -> Declaration:
        """Read `audit.toml` as it stands now."""
        # Here and not above: status and log need the folder, and no declaration.
        from proxyguard.registry.declaration import read_declaration

        return read_declaration(self.declaration_text())

    def declaration_text(self) -> str:
        """Return the text of `audit.toml`."""
        try:
            return self._files.read(DECLARATION).decode("utf-8")
        except FileNotFoundError:
            raise RegistryError(
                f"there is no {DECLARATION} in {self.path}; proxyguard init writes one"
            ) from None
        except NotADirectoryError:
            whose = f", {self.path.parent}" if self.path.name == DECLARATION else ""
            raise RegistryError(f"{self.path} is a file; name the audit's folder{whose}") from None
        except UnicodeDecodeError as error:
            raise RegistryError(f"{DECLARATION} is no UTF-8 text; save it as UTF-8") from error

    def journal(self) -> Journal:
        """Read the ledger as it stands now."""
        if not self.path.is_dir():
            raise RegistryError(
                f"there is no audit folder at {self.path}; proxyguard init makes one"
            )
        return Journal(self.path)

    def has(self, name: str) -> bool:
        """Return whether something of this name is here, be it a file or not."""
        return os.path.lexists(self / name)

    def read(self, name: str, *, most: int = DOCUMENT) -> bytes:
        """Return the bytes of a file, which must be a plain one of this folder."""
        try:
            return self._files.read(name, most=most)
        except FileNotFoundError:
            kind = Withheld if name.startswith(DEVELOPMENT) else SealError
            raise kind(f"{name} is missing from {self.path}") from None

    def text(self, name: str) -> str:
        """Return the text of a file."""
        try:
            return self.read(name).decode("utf-8")
        except UnicodeDecodeError as error:
            raise SealError(f"{name} is no UTF-8 text: {error}") from error

    def begun_draws(self) -> int:
        """Return how many draws were begun whose releases are not frozen, kept or not."""
        return len({(path.parent, path.stem) for path in (self / PENDING).glob("*/*.*")})

    def stored_table(self, address: str, what: str) -> pd.DataFrame:
        """Return a stored table; an error names its file beside what it is."""
        return self._table(self.store.get(address), address, what)

    def _table(self, content: bytes, address: str, what: str) -> pd.DataFrame:
        from proxyguard.tables.files import read_table_bytes

        return read_table_bytes(content, f"{what} ({self.store.name(address)})")

    def stored_records(self, address: str, what: str, schema: Schema) -> StoredRecords:
        """Return which records a stored release holds, and how many; errors as `stored_table`."""
        content = self.store.get(address)  # whether these bytes are here is asked each time
        known = self._digested.get(address)  # by their digest: whatever is written, it is this
        if known is not None and known[0] == schema:
            return known[1]
        frame = self._table(content, address, what)
        records = StoredRecords(content=schema.content(frame), rows=len(frame))
        self._digested[address] = schema, records
        return records

    def sealed_target(self, sealed: SealedMember) -> SealedFile:
        """Return the encrypted records of a member, by what the ledger says of it."""
        # Here and not above: status and log read no tables.
        from proxyguard.seal.sealed_file import SealedFile

        with suppress(FileNotFoundError):  # which SealedFile says in its own words
            open_inside(self.path, sealed.file).close()
        return SealedFile(self / sealed.file)

    def sealed_records(self) -> SealedFile:
        """Return the encrypted predictions that an opening kept, of every record and release."""
        from proxyguard.seal.sealed_file import SealedFile

        return SealedFile(self / RECORDS, most=None)

    def document(self, kind: type[Kind], name: str) -> Kind:
        """Return a document of this folder; one that is not in its form is refused by field."""
        content = self.read(name)
        digest = self._files.digest_of(name, content)
        parsed = self._parsed.get((kind, digest))
        if not isinstance(parsed, kind):
            parsed = kind.read(content, name, known=digest)
            self._parsed[kind, digest] = parsed  # by its digest: whatever is written, it is this
        return parsed

    def put(self, name: str, document: Document) -> str:
        """Write a document and return the digest of its bytes."""
        content = document.to_bytes()
        if not self.has(name) or self.read(name) != content:
            self._files.write(name, content, document.digest)
        return document.digest

    def write(self, name: str, content: bytes) -> str:
        """Write a file and return the digest of its bytes."""
        return self._files.write(name, content)

    def sha256(self, name: str) -> str:
        """Return the digest of a file's bytes as they are now."""
        try:
            return self._files.sha256(name)
        except FileNotFoundError:
            raise SealError(f"{name} is missing from {self.path}") from None

    def check_files(self, files: dict[str, str]) -> None:
        """Raise unless every file still has the bytes that were recorded."""
        for name, recorded in files.items():
            digest = self.sha256(name)
            if digest != recorded:
                raise DigestMismatch(name, sealed=recorded, found=digest)

    def registry(self, journal: Journal) -> Registry:
        """Return the registry in force: registered, or the last amendment's."""
        claims = journal.ledger.claims
        if not claims:
            raise StageError("nothing is registered yet; run proxyguard register")
        name = registry_name(len(claims) - 1)
        registry = self.document(Registry, name)
        if registry.digest != journal.ledger.declaration:
            raise DigestMismatch(
                name, sealed=str(journal.ledger.declaration), found=registry.digest
            )
        return registry


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


_SEALED = (
    rf"target/[0-9]+\.sealed|development/[0-9]+\.({'|'.join(get_args(DevelopmentRole))})\.parquet"
)
_DEVELOPMENT = re.compile(_SEALED)


def _written(body: WritingBody, amendments: int) -> Written:
    """Return which files a step writes: a page of the author's own is none of them.

    Objects of the store are named by their digest, so that a name vouches for its bytes alone.
    """
    listed = body.files
    stored = frozenset(n for n, address in listed.items() if n == f"store/{address[:2]}/{address}")
    if isinstance(body, Sealed):
        return Written(perhaps=frozenset(n for n in listed if _DEVELOPMENT.fullmatch(n)))
    if isinstance(body, Developed | Committed):
        return Written(perhaps=stored)
    if isinstance(body, Registered | Amended):
        names = (registry_name(amendments), snapshot_name(amendments), DECLARATION)
        return Written(frozenset(names))
    if isinstance(body, Opened):
        return Written(frozenset() if body.grant is None else frozenset({GRANT}))
    if isinstance(body, Certified):
        return Written(frozenset({EVIDENCE, CERTIFICATE}), frozenset({ADVICE, RECORDS}))
    return Written(frozenset({RELEASES if isinstance(body, Frozen) else CORRECTION}))


def recorded_files(entries: Iterable[Entry[LedgerBody]]) -> dict[str, str]:
    """Return the files that the ledger vouches for; a later step replaces an earlier one.

    Raises
    ------
    SealError
        Where an entry lists a file that its step does not write, or leaves one out that it does:
        an author could otherwise have the ledger vouch for a page of their own.
    """
    files: dict[str, str] = {}
    amendments = 0
    for entry in entries:
        body = entry.body
        if not isinstance(body, WritingBody):
            continue
        for name in body.files:
            check_name(name)  # a ledger that vouches for /etc/passwd vouches for nothing here
        amendments += isinstance(body, Amended)
        problem = _written(body, amendments).problem(body.files)
        if problem is None and isinstance(body, Opened) and body.grant != body.files.get(GRANT):
            problem = f"it was opened with the grant {body.grant!r:.20}, and lists another"
        if problem is not None:
            raise SealError(f"entry {entry.index} of the ledger, {entry.stage.value}: {problem}")
        files.update(body.files)
    return files


def check_folder(folder: AuditFolder, journal: Journal, *, besides: Collection[str] = ()) -> None:
    """Raise at the first file that is missing or has other bytes than were recorded.

    ``besides`` are files that whoever asks does not need.
    """
    for name, problem in problems(folder, journal):
        if name not in besides:
            raise SealError(f"{name}: {problem}")


def withheld_files(folder: AuditFolder, journal: Journal) -> list[str]:
    """Return the recorded files of development that are not in the folder.

    A steward may withhold these rows from those who get the certificate, and whoever forged what
    follows from them may have removed them: one cannot be told from the other.
    """
    recorded = recorded_files(journal.ledger.entries)
    return sorted(n for n in recorded if n.startswith(DEVELOPMENT) and not folder.has(n))


def problems(folder: AuditFolder, journal: Journal) -> Iterator[tuple[str, str]]:
    """Yield every recorded file that is missing or changed, with what is the matter.

    Within a step this hashes each file once; whoever reads it later gets the bytes hashed here.
    """
    for name, recorded in sorted(vouched_files(folder, journal).items()):
        try:
            if not folder.has(name):
                yield name, "is missing"
            elif (digest := folder.sha256(name)) != recorded:
                changed = f"recorded with digest {recorded[:16]}..., found {digest[:16]}..."
                yield name, f"was changed: {changed}"
        except SealError as error:  # what lies there is no plain file
            yield name, str(error)


def vouched_files(folder: AuditFolder, journal: Journal) -> dict[str, str]:
    """Return every file that the ledger vouches for, directly or through the manifest."""
    files = recorded_files(journal.ledger.entries)
    # A manifest with other bytes than were recorded could vouch for anything.
    listed = RELEASES in files and folder.has(RELEASES)
    if listed and folder.sha256(RELEASES) == files[RELEASES]:
        for address in folder.document(ReleaseManifest, RELEASES).objects:
            files[folder.store.name(address)] = address
    return files


def unknown_files(folder: AuditFolder, journal: Journal) -> list[str]:
    """Return the files that nothing vouches for; an unfinished audit may have some of its own."""
    known = {*vouched_files(folder, journal), NAME}
    ledger = journal.ledger
    certified = ledger.has(Stage.CERTIFIED)
    if not ledger.has(Stage.REGISTERED):
        known.add(DECLARATION)
    elif not ledger.has(Stage.OPENED):
        known.add(GRANT)  # which `verify` then reads; before registration nobody can grant
    if certified:
        known.update(REPORTS)
    drawn = ledger.has(Stage.DRAWN)
    return sorted(
        name
        for name, odd in entries_inside(folder.path)
        # What is no plain file is a problem, whoever vouches for it.
        if odd is None and name not in known and (certified or not _unfinished(name, drawn))
    )


def odd_entries(folder: AuditFolder) -> Iterator[tuple[str, str]]:
    """Yield what is neither a plain file nor a folder: audits write nothing else."""
    for name, odd in entries_inside(folder.path):
        if odd is not None:
            yield name, f"is {odd}, and an audit's folder holds plain files alone"


# What a step writes before its entry vouches for it, by name: a page among them is none.
_UNFINISHED = re.compile(
    r"store/[0-9a-f]{2}/[0-9a-f]{64}|draws/[0-9a-f]{64}/[0-9]+\.(json|dropped|ended)|registry/[0-9]+\.(json|toml)"
    rf"|{_SEALED}|releases\.json"
)


def _unfinished(name: str, drawn: bool) -> bool:
    """Return whether a file belongs to a step that is still going on."""
    return not drawn and _UNFINISHED.fullmatch(name) is not None


PAYLOAD_TYPE: Literal["application/vnd.in-toto+json"] = "application/vnd.in-toto+json"


def sign_statement(payload: bytes, key: SigningKey) -> bytes:
    """Return the envelope of a statement's bytes; the same ones and key give the same envelope."""
    signature = bytes.fromhex(key.sign(preauthenticate(payload)))
    envelope = Envelope(
        payload_type=PAYLOAD_TYPE,
        payload=b64encode(payload).decode(),
        signatures=(Signature(keyid=key.public, sig=b64encode(signature).decode()),),
    )
    return envelope.to_bytes()


def open_envelope(content: bytes) -> tuple[Statement, str]:
    """Return the statement and its signer, after checking form and signature."""
    envelope = Envelope.read(content, "the certificate")
    (signature,) = envelope.signatures
    if not signed_by(
        signature.keyid, b64decode(signature.sig).hex(), preauthenticate(envelope.content)
    ):
        raise SealError("the certificate's signature does not fit its content")
    return Statement.read(envelope.content, "the certificate"), signature.keyid


def preauthenticate(payload: bytes) -> bytes:
    """Return what DSSE signs: type and payload with their lengths (PAE, DSSE v1)."""
    kind = PAYLOAD_TYPE.encode()
    return b"DSSEv1 %d %s %d %s" % (len(kind), kind, len(payload), payload)
