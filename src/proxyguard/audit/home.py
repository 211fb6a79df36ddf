"""What lies outside every audit folder: keys, the lineage store, data files, and the machine.

A step gets its keys from a `Home`, the files that a declaration names from `DataFolders`, and
the versions that it records from `software_versions`; `examine` says whether a machine is fit.

A home is secret. The folder is its owner's alone, and so is every file in it: whoever has
the store and its key can try values until a target record is recovered.
"""

from __future__ import annotations

import json
import os
import platform
import sys
import tempfile
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from time import time
from typing import TYPE_CHECKING

from proxyguard.audit.folder import AuditFolder
from proxyguard.draw.catalog import extra_of, installed_version
from proxyguard.draw.confine import guard_here
from proxyguard.draw.pool import SPAWNS, can_fork
from proxyguard.errors import KeyExists, KeyMissing, ProxyGuardError, StageError, TableError
from proxyguard.seal.crypto import KeyFile, SigningKey
from proxyguard.seal.journal import writing
from proxyguard.seal.lineage import LineageStore
from proxyguard.seal.storage import (
    LEFTOVER,
    exclusive,
    now,
    private_folder,
    random_bytes,
    read_private,
    sweep,
    sync_folder,
    write_atomic,
)

if TYPE_CHECKING:
    from threadpoolctl import ThreadpoolController

    from proxyguard.documents.canonical import Plain

# Beginnings of the names in a home.
KNOWN = ("signing.", "lineage.", "targets", "retired", "data")


def default_home() -> Path:
    """Return ``$PROXYGUARD_HOME``, or the user's data folder."""
    given = os.environ.get("PROXYGUARD_HOME")
    if given:
        return Path(given)
    data = os.environ.get("XDG_DATA_HOME")
    return (Path(data) if data else Path.home() / ".local" / "share") / "proxyguard"


def processors() -> int:
    """Return how many processors this process may use, where the system tells."""
    allowed = getattr(os, "sched_getaffinity", None)
    return len(allowed(0)) if allowed is not None else os.cpu_count() or 1


@dataclass(frozen=True, slots=True)
class Home:
    """A person's keys and memory."""

    root: Path

    @property
    def signing_path(self) -> Path:
        """Where the signing key lies."""
        return self.root / "signing.pem"

    def make_signing_key(self) -> SigningKey:
        """Return the signing key, made the first time."""
        private_folder(self.root, KNOWN)
        if not self.signing_path.exists():
            with suppress(KeyExists):  # another init was quicker; its key serves as well
                SigningKey.create().save(self.signing_path)
        for leftover in self.root.glob(f"*{LEFTOVER}"):
            with suppress(FileNotFoundError):  # another init has just tidied up
                if time() - leftover.stat().st_mtime > 60.0:  # of a killed init, not one at work
                    leftover.unlink()
        return self.signing_key()

    def signing_key(self) -> SigningKey:
        """Return the signing key."""
        if self.root.exists():
            private_folder(self.root, KNOWN)
        return SigningKey.load(self.signing_path)

    @property
    def next_path(self) -> Path:
        """Where a key lies that a rotation is handing over to."""
        return self.root / "signing.next.pem"

    def key_of(self, identity: str) -> SigningKey:
        """Return the key of an identity: the present one, or one that was rotated out."""
        for path in (self.signing_path, self.next_path, self._retired(identity[:64])):
            if path.exists():
                key = SigningKey.load(path)
                if key.identity == identity:
                    return key
        raise KeyMissing(
            f"this needs the private key of {identity[:16]}..., which is not in {self.root}; "
            "restore it there (a rotated one lies in retired/), nothing is lost"
        )

    def retire(self) -> None:
        """Let the next key take the present one's place, which is kept for what it can open.

        After a kill between the two moves the old key lies in both places, and this goes on.
        """
        old = self._retired(self.signing_key().public)
        private_folder(old.parent)
        with suppress(FileExistsError):
            os.link(self.signing_path, old)
        # Before its first name goes: a power cut between the two must not lose the old key.
        sync_folder(old.parent)
        os.replace(self.next_path, self.signing_path)
        sync_folder(self.root)

    def _retired(self, public: str) -> Path:
        return self.root / "retired" / f"{public}.pem"

    @property
    def lineage(self) -> LineageStore:
        """The store that remembers records between audits."""
        private_folder(self.root, KNOWN)
        return LineageStore(self.lineage_path)

    @property
    def known_lineage(self) -> LineageStore | None:
        """The store, where there is one already; none is made."""
        return self.lineage if self.lineage_path.exists() else None

    def check_lineage(self) -> None:
        """Find before long work that the store could not be used after it; none is made."""
        private_folder(self.root, KNOWN)
        _ = self.known_lineage

    @property
    def lineage_path(self) -> Path:
        """Where that store lies."""
        return self.root / "lineage.sqlite"

    def remember_data(self, folder: Path, roots: Iterable[Path]) -> None:
        """Remember for a folder where the tables lie that its declaration names.

        Here and not in the declaration, which anybody may have written and everybody may read.
        """
        path = self._data_path(folder)
        private_folder(self.root, KNOWN)
        private_folder(path.parent)
        write_atomic(path, json.dumps([os.path.abspath(r) for r in roots]).encode(), private=True)

    def data_of(self, folder: Path) -> tuple[Path, ...]:
        """Return where the tables of a folder's declaration lie, as far as this home remembers."""
        path = self._data_path(folder)
        return tuple(map(Path, json.loads(path.read_bytes()))) if path.exists() else ()

    def _data_path(self, folder: Path) -> Path:
        return self.root / "data" / sha256(os.fsencode(os.path.abspath(folder))).hexdigest()

    def target_key_path(self, audit: str) -> Path:
        """Where the key file of an audit's targets lies."""
        return self.root / "targets" / f"{audit}.key"

    def make_target_key(self, audit: str) -> KeyFile:
        """Make the key file of an audit's targets; one that is there is used again."""
        path = self.target_key_path(audit)
        if not path.exists():
            private_folder(self.root, KNOWN)
            private_folder(path.parent)
            sweep(path.parent)
            write_atomic(path, random_bytes(32).hex().encode() + b"\n", private=True)
        return load_key_file(path)


def load_key_file(path: Path) -> KeyFile:
    """Read a key file: 64 hexadecimal digits."""
    try:
        secret = bytes.fromhex(read_private(path).decode().strip())
    except FileNotFoundError:
        raise KeyMissing(
            f"there is no key at {path}; name the key that the target was sealed for"
        ) from None
    except (ValueError, UnicodeDecodeError) as error:
        raise KeyMissing(f"{path} is no key file of 64 hexadecimal digits") from error
    if len(secret) != 32:
        raise KeyMissing(f"{path} is no key file of 64 hexadecimal digits")
    return KeyFile(secret)


@dataclass(frozen=True, slots=True, kw_only=True)
class Handover:
    """From which identity to which one an audit was handed over."""

    before: str
    after: str

    def to_dict(self) -> dict[str, str]:
        """Return plain values, ready for JSON."""
        return {"from": self.before, "to": self.after}


def rotate_key(folder: AuditFolder, home: Home) -> Handover:
    """Hand an audit over from the key that signs it to a new one; both are in this home.

    The first audit makes the new key, which is the home's own from then on; the others of this
    home are handed over to the same one. A kill leaves the audit with the old key or the new
    one, and a second run goes on from there.
    """
    with writing(folder.path) as journal:
        if journal.ledger.author is None:
            raise StageError("rotated: nothing is signed yet; run proxyguard seal")
        before = journal.ledger.author
        old, present = home.key_of(before), home.signing_key()
        if home.next_path.exists() and old.public == SigningKey.load(home.next_path).public:
            home.retire()  # the run before was killed after it had recorded this rotation
            return Handover(before=present.identity, after=before)
        new = present
        if old.public == present.public:
            if not home.next_path.exists():
                SigningKey.create().save(home.next_path)
            new = SigningKey.load(home.next_path)
        journal.rotate(old, new, now())
        if old.public == present.public:
            home.retire()
    return Handover(before=before, after=new.identity)


@dataclass(frozen=True, slots=True)
class DataFolders:
    """The folders that declared paths may start from, first match wins."""

    roots: tuple[Path, ...]

    @classmethod
    def of(cls, audit: Path, given: Sequence[Path] = ()) -> DataFolders:
        """Return those given, then ``$PROXYGUARD_DATA``, then the folder that the audit lies in."""
        named = os.environ.get("PROXYGUARD_DATA")
        return cls((*given, *([Path(named)] if named else []), audit.resolve().parent))

    def find(self, name: str) -> Path:
        """Return the file or folder of a declared path, also where only ``name.gz`` exists."""
        for root in self.roots:
            for path in (root / name, root / f"{name}.gz"):
                if path.exists():
                    return path
        looked = ", ".join(str(root) for root in self.roots)
        raise TableError(
            f"there is no {name!r} in {looked}; put it there, or name its folder with --data or "
            "PROXYGUARD_DATA"
        )

    def spellings(self, name: str) -> list[Path]:
        """Return every file that a declared path could stand for, compressed or not."""
        plain = name.removesuffix(".gz")
        paths = (root / text for root in self.roots for text in (plain, f"{plain}.gz"))
        return [path for path in paths if path.exists()]

    def root_of(self, name: str) -> Path:
        """Return the folder that a declared path starts from."""
        for root in self.roots:
            if (root / name).exists():
                return root
        return self.roots[0]


PACKAGES = ("proxyguard", "numpy", "scipy", "pandas", "pyarrow", "scikit-learn", "skops")
NOT_A_PACKAGE = "not installed as a package"


def software_versions() -> dict[str, str]:
    """Return the versions that an audit is made with, and the arithmetic of this processor."""
    here = {"python": platform.python_version(), "platform": sys.platform}
    return here | {"arithmetic": _arithmetic()} | _versions(PACKAGES)


def _arithmetic() -> str:
    """Return which kernels compute here: on other ones a sum may differ in its last bit.

    An honest draw, made again on another processor, then has another content and is no lie.
    """
    import numpy as np

    kernels = {
        f"{library.internal_api} {getattr(library, 'architecture', '')}".strip()
        for library in _threaded(len(sys.modules)).lib_controllers
        if library.user_api == "blas"
    }
    config = np.show_config(mode="dicts")
    found = config["SIMD Extensions"]["found"] if config else []
    return ", ".join([platform.machine(), *sorted(kernels), *found])


def one_thread() -> AbstractContextManager[object]:
    """Hold every library to one thread for a while: sums in another order are other numbers."""
    limit: AbstractContextManager[object] = _threaded(len(sys.modules)).limit(limits=1)
    return limit


@lru_cache(maxsize=1)
def _threaded(modules: int) -> ThreadpoolController:
    """Return the libraries with threads of their own; looked for anew once more was imported."""
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


def extra_versions(generators: Iterable[str]) -> dict[str, str]:
    """Return the versions of what generators of ours need beside that, and nobody else."""
    extras = [extra_of(name) for name in generators]
    return _versions(name for extra in extras if extra is not None for name in extra.modules)


def _versions(distributions: Iterable[str]) -> dict[str, str]:
    return {name: installed_version(name) or NOT_A_PACKAGE for name in distributions}


@dataclass(frozen=True, slots=True, kw_only=True)
class Fitness:
    """Facts about a machine, and what would stand in an audit's way."""

    facts: dict[str, str]
    problems: tuple[str, ...]

    def to_dict(self) -> dict[str, Plain]:
        """Return plain values, ready for JSON."""
        return {"facts": dict(self.facts), "problems": list(self.problems)}


def examine(home: Path | None) -> Fitness:
    """Return what this machine has, for an audit.

    Parameters
    ----------
    home
        Where keys lie; the user's own unless given.
    """
    person = Home(default_home() if home is None else home)
    facts = {f"version of {name}": version for name, version in software_versions().items()}
    facts |= {
        "home": str(person.root),
        "processors": str(processors()),
        "draws are held by": guard_here(),
        "draws are made in": "forked processes" if can_fork() else SPAWNS,
    }
    problems = []
    try:
        there = person.signing_path.exists()
        key = person.signing_key().public if there else "none yet; init makes one"
        facts |= {"signing key": key}
    except ProxyGuardError as error:
        problems.append(str(error))
    try:
        _ = person.lineage
        facts |= {"lineage store": "readable"}
    except (ProxyGuardError, OSError) as error:
        problems.append(f"the lineage store cannot be used: {error}")
    try:
        # Tried and not asked: a disk that cannot lock a file says so when one is locked.
        with tempfile.TemporaryDirectory() as folder, exclusive(Path(folder)):
            write_atomic(Path(folder) / "try", b"try")
        facts |= {"disk": "files can be locked, flushed and replaced"}
    except (ProxyGuardError, OSError) as error:
        problems.append(f"files cannot be locked or replaced safely: {error}")
    return Fitness(facts=facts, problems=tuple(problems))
