"""What lies outside every audit folder: keys and the lineage store."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from time import time

from proxyguard.errors import KeyExists, KeyMissing
from proxyguard.seal.crypto import KeyFile
from proxyguard.seal.entropy import random_bytes
from proxyguard.seal.keys import SigningKey
from proxyguard.seal.lineage import LineageStore
from proxyguard.seal.storage import LEFTOVER, sweep, write_atomic


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
        self.root.mkdir(parents=True, exist_ok=True)
        if not self.signing_path.exists():
            with suppress(KeyExists):  # another init was quicker; its key serves as well
                SigningKey.create().save(self.signing_path)
        for part in self.root.glob(f"{self.signing_path.name}.*{LEFTOVER}"):
            with suppress(FileNotFoundError):  # another init has just tidied up
                if time() - part.stat().st_mtime > 60.0:  # of a killed init, not of one at work
                    part.unlink()
        return self.signing_key()

    def signing_key(self) -> SigningKey:
        """Return the signing key."""
        return SigningKey.load(self.signing_path)

    @property
    def lineage(self) -> LineageStore:
        """The store that remembers records between audits."""
        return LineageStore(self.root / "lineage.sqlite")

    def target_key_path(self, audit: str) -> Path:
        """Where the key file of an audit's targets lies."""
        return self.root / "targets" / f"{audit}.key"

    def make_target_key(self, audit: str) -> KeyFile:
        """Make the key file of an audit's targets; one that is there is used again."""
        path = self.target_key_path(audit)
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            sweep(path.parent)
            write_atomic(path, random_bytes(32).hex().encode() + b"\n", private=True)
        return load_key_file(path)


def load_key_file(path: Path) -> KeyFile:
    """Read a key file: 64 hexadecimal digits."""
    try:
        secret = bytes.fromhex(path.read_text().strip())
    except FileNotFoundError:
        raise KeyMissing(
            f"there is no key at {path}; name the key that the target was sealed for"
        ) from None
    except (ValueError, UnicodeDecodeError) as error:
        raise KeyMissing(f"{path} is no key file of 64 hexadecimal digits") from error
    if len(secret) != 32:
        raise KeyMissing(f"{path} is no key file of 64 hexadecimal digits")
    return KeyFile(secret)
