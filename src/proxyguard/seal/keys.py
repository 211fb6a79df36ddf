"""Keys of people: Ed25519 to sign, X25519 to receive; made once, kept outside the folder.

Both come from one secret, so that a person has one file to keep. The public identity is
the two public keys, one after the other.
"""

from __future__ import annotations

from pathlib import Path

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from proxyguard.errors import KeyExists, KeyMissing, SealError
from proxyguard.seal.entropy import random_bytes
from proxyguard.seal.storage import read_private, write_once

_PRIME = 2**255 - 19
_CURVE = -121665 * pow(121666, -1, _PRIME) % _PRIME
"""The d of Ed25519's curve, -x^2 + y^2 = 1 + d x^2 y^2 (RFC 8032, section 5.1)."""
_PROBE = X25519PrivateKey.from_private_bytes(bytes(range(1, 33)))
"""Any private key: an exchange with a public key of small order fails with each of them."""


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
    """Return whether ``signature`` is this key's signature of the message.

    A key of small order signs nothing: its "signatures" are made by anybody, without a secret.
    """
    try:
        holder, sealed = bytes.fromhex(public), bytes.fromhex(signature)
        if (holder.hex(), sealed.hex()) != (public, signature):
            return False  # capitals and blanks read alike, and would be a changed byte
        if signing_problem(holder) is not None:
            return False
        Ed25519PublicKey.from_public_bytes(holder).verify(sealed, message)
    except (ValueError, InvalidSignature):
        return False
    return True


def identity_problem(identity: str) -> str | None:
    """Return why these digits are nobody's identity, or nothing."""
    try:
        content = bytes.fromhex(identity)
    except ValueError:
        content = b""
    if len(content) != 64 or content.hex() != identity:
        return "an identity is 128 hexadecimal digits"
    return signing_problem(content[:32]) or exchange_problem(content[32:])


def signing_problem(public: bytes) -> str | None:
    """Return why a public Ed25519 key names no signer, or nothing.

    Points of order 1, 2, 4 and 8 have the y that solve y (y^2 - 1) (d y^4 + 2 y^2 - 1) = 0: 0 is
    of order 4, 1 and -1 are of order 1 and 2, and a point whose double has y = 0 has x^2 = -y^2.
    """
    if len(public) != 32:
        return "a public Ed25519 key has 32 bytes"
    height = int.from_bytes(public, "little") & (2**255 - 1)  # the last bit is the sign of x
    if height >= _PRIME:
        return "the signing key is not in canonical form, so that one key would have two names"
    square = height * height % _PRIME
    if height * (square - 1) * (_CURVE * square * square + 2 * square - 1) % _PRIME == 0:
        return "the signing key is of small order, so that anybody can sign for it"
    return None


def exchange_problem(public: bytes) -> str | None:
    """Return why nothing can be kept secret for a public X25519 key, or nothing."""
    if len(public) != 32:
        return "a public X25519 key has 32 bytes"
    if int.from_bytes(public, "little") >= _PRIME:
        return "the exchange key is not in canonical form, so that one key would have two names"
    try:
        _PROBE.exchange(X25519PublicKey.from_public_bytes(public))
    except ValueError:  # the shared secret is zero, whoever exchanges (RFC 7748, section 6.1)
        return "the exchange key is of small order, so that anybody knows what is shared with it"
    return None
