"""A content-addressed store: a file's name is the digest of its bytes, so it is written once."""

from __future__ import annotations

import hashlib
from pathlib import Path

from proxyguard.errors import DigestMismatch, SealError
from proxyguard.seal.storage import LEFTOVER, OBJECT, is_address, read_inside, write_inside


class Store:
    """Objects under ``store/``, by SHA-256."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._root = folder / "store"

    def path(self, address: str) -> Path:
        """Return where an object lies; what is no address of ours could lead anywhere."""
        if not is_address(address):
            raise SealError(f"{str(address)[:80]!r} is no address of a stored object")
        return self._root / address[:2] / address

    def name(self, address: str) -> str:
        """Return the name of an object's file in the audit's folder."""
        return self.path(address).relative_to(self._folder).as_posix()

    def put(self, content: bytes) -> str:
        """Keep these bytes and return their address; what is there already is left alone."""
        address = hashlib.sha256(content).hexdigest()
        place = self.path(address)
        if not place.exists():
            write_inside(self._folder, self.name(address), content)
        return address

    def get(self, address: str) -> bytes:
        """Return the bytes of an address, after checking that they are still those."""
        place = self.path(address)
        try:
            content = read_inside(self._folder, self.name(address), most=OBJECT)
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
