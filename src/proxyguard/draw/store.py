"""A content-addressed store: a file's name is the digest of its bytes, so it is written once."""

from __future__ import annotations

import hashlib
from pathlib import Path

from proxyguard.errors import DigestMismatch, SealError
from proxyguard.seal.storage import LEFTOVER, write_atomic


class Store:
    """Objects under ``store/``, by SHA-256."""

    def __init__(self, folder: Path) -> None:
        self._root = folder / "store"

    def path(self, address: str) -> Path:
        """Return where an object lies."""
        return self._root / address[:2] / address

    def put(self, content: bytes) -> str:
        """Keep these bytes and return their address; what is there already is left alone."""
        address = hashlib.sha256(content).hexdigest()
        place = self.path(address)
        if not place.exists():
            place.parent.mkdir(parents=True, exist_ok=True)
            write_atomic(place, content)
        return address

    def get(self, address: str) -> bytes:
        """Return the bytes of an address, after checking that they are still those."""
        place = self.path(address)
        try:
            content = place.read_bytes()
        except FileNotFoundError:
            raise SealError(f"the stored object {address[:16]}... is missing: {place}") from None
        found = hashlib.sha256(content).hexdigest()
        if found != address:
            raise DigestMismatch(f"store/{address[:2]}/{address}", sealed=address, found=found)
        return content

    def addresses(self) -> set[str]:
        """Return the addresses of all objects."""
        return {
            place.name
            for place in self._root.glob("*/*")
            if place.is_file() and not place.name.endswith(LEFTOVER)
        }
