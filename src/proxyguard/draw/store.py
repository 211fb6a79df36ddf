"""A content-addressed store: a file's name is the digest of its bytes, so it is written once."""

from __future__ import annotations

import hashlib
from pathlib import Path

from proxyguard.errors import DigestMismatch, SealError
from proxyguard.seal.storage import LEFTOVER, OBJECT, FolderFiles, is_address


class Store:
    """Objects under ``store/``, by SHA-256."""

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
        place = self.path(address)
        if not place.exists():
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
            place.name
            for place in self._root.glob("*/*")
            if place.is_file() and not place.name.endswith(LEFTOVER)
        }
