"""Keys of people: Ed25519 to sign, X25519 to receive; made once, kept outside the folder.

Both come from one secret, so that a person has one file to keep. The public identity is
the two public keys, one after the other.
"""

from __future__ import annotations

from pathlib import Path

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from proxyguard.errors import KeyExists, KeyMissing, SealError
from proxyguard.seal.entropy import random_bytes
from proxyguard.seal.storage import read_private, write_once


class SigningKey:
    """A private key; its public half names the signer."""

    def __init__(self, private: Ed25519PrivateKey) -> None:
        self._private = private

    @classmethod
    def create(cls) -> SigningKey:
        """Make a new key from the operating system's randomness."""
        return cls(Ed25519PrivateKey.from_private_bytes(random_bytes(32)))

    @classmethod
    def load(cls, path: Path) -> SigningKey:
        """Read a key written by `save`."""
        try:
            key = serialization.load_pem_private_key(read_private(path), password=None)
        except FileNotFoundError:
            raise KeyMissing(f"there is no key at {path}; name the key made at init") from None
        except (ValueError, TypeError) as error:
            raise KeyMissing(f"{path} is no private key that this version reads") from error
        if not isinstance(key, Ed25519PrivateKey):
            raise SealError(f"{path} is a {type(key).__name__}, expected an Ed25519 key")
        return cls(key)

    def save(self, path: Path) -> None:
        """Write the key, readable by its owner alone; an existing file is never replaced."""
        content = self._private.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
        try:
            write_once(path, content)
        except FileExistsError:
            raise KeyExists(f"{path} exists; a key is never replaced") from None

    @property
    def public(self) -> str:
        """The public key in hexadecimal: who signed."""
        return self._private.public_key().public_bytes_raw().hex()

    @property
    def exchange(self) -> X25519PrivateKey:
        """The key with which this person receives secrets, derived from the signing key."""
        secret = HKDF(hashes.SHA256(), 32, salt=None, info=b"proxyguard exchange key").derive(
            self._private.private_bytes_raw()
        )
        return X25519PrivateKey.from_private_bytes(secret)

    @property
    def identity(self) -> str:
        """Both public halves, in hexadecimal: who signs, and whom to send secrets to."""
        return self.public + self.exchange.public_key().public_bytes_raw().hex()

    def sign(self, message: bytes) -> str:
        """Return the signature in hexadecimal; the same message gives the same one."""
        return self._private.sign(message).hex()


def signed_by(public: str, signature: str, message: bytes) -> bool:
    """Return whether ``signature`` is this key's signature of the message."""
    try:
        holder, sealed = bytes.fromhex(public), bytes.fromhex(signature)
        if (holder.hex(), sealed.hex()) != (public, signature):
            return False  # capitals and blanks read alike, and would be a changed byte
        Ed25519PublicKey.from_public_bytes(holder).verify(sealed, message)
    except (ValueError, InvalidSignature):
        return False
    return True
