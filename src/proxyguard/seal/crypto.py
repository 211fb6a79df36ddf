"""Encryption of sealed records: AES-256-GCM under a fresh key, itself wrapped for its holder.

The holder is a key file, a passphrase, or a person's X25519 public key, so that the
authors of an audit need not be able to open its target alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from cryptography.hazmat.primitives.kdf.scrypt import Scrypt

from proxyguard.errors import KeyMissing, SealError
from proxyguard.seal.entropy import random_bytes
from proxyguard.seal.keys import exchange_problem

SCRYPT = {"n": 2**15, "r": 8, "p": 1}
_ABOUT = b"proxyguard target key"


class Holder(Protocol):
    """Who can unwrap a data key."""

    def wrap(self, data_key: bytes) -> dict[str, Any]:
        """Return the data key as only this holder can read it."""

    def unwrap(self, wrapped: Mapping[str, Any]) -> bytes | None:
        """Return the data key, or nothing where it was wrapped for somebody else."""


@dataclass(frozen=True, slots=True)
class KeyFile:
    """A 256-bit secret in a file that its holder keeps."""

    secret: bytes

    def __post_init__(self) -> None:
        if len(self.secret) != 32:
            raise KeyMissing(f"a key has 32 bytes, this one {len(self.secret)}")

    def wrap(self, data_key: bytes) -> dict[str, Any]:
        """Wrap under the secret."""
        return {"kind": "key", **_seal_key(self.secret, data_key)}

    def unwrap(self, wrapped: Mapping[str, Any]) -> bytes | None:
        """Unwrap with the secret."""
        return _open_key(self.secret, wrapped) if wrapped["kind"] == "key" else None


@dataclass(frozen=True, slots=True)
class Passphrase:
    """Words that a person remembers, stretched by scrypt."""

    words: str

    def wrap(self, data_key: bytes) -> dict[str, Any]:
        """Wrap under the stretched words."""
        salt = random_bytes(16)
        return {
            "kind": "passphrase",
            "salt": salt.hex(),
            **SCRYPT,
            **_seal_key(self._stretch(salt), data_key),
        }

    def unwrap(self, wrapped: Mapping[str, Any]) -> bytes | None:
        """Unwrap with the stretched words."""
        if wrapped["kind"] != "passphrase" or {k: wrapped[k] for k in SCRYPT} != SCRYPT:
            return None
        return _open_key(self._stretch(bytes.fromhex(wrapped["salt"])), wrapped)

    def _stretch(self, salt: bytes) -> bytes:
        return Scrypt(salt=salt, length=32, **SCRYPT).derive(self.words.encode())


@dataclass(frozen=True, slots=True)
class Recipient:
    """A person's X25519 public key: can wrap for them, and not unwrap."""

    public: str

    def wrap(self, data_key: bytes) -> dict[str, Any]:
        """Wrap for the person, with a key agreed upon once."""
        once = X25519PrivateKey.from_private_bytes(random_bytes(32))
        shared = once.exchange(_public(self.public))
        return {
            "kind": "person",
            "public": self.public,
            "once": once.public_key().public_bytes_raw().hex(),
            **_seal_key(_derive(shared), data_key),
        }

    def unwrap(self, wrapped: Mapping[str, Any]) -> bytes | None:
        """Return nothing: a public key opens nothing."""
        return None


@dataclass(frozen=True, slots=True)
class Person:
    """A person's X25519 private key."""

    private: X25519PrivateKey

    def wrap(self, data_key: bytes) -> dict[str, Any]:
        """Wrap for oneself."""
        return Recipient(self._public).wrap(data_key)

    def unwrap(self, wrapped: Mapping[str, Any]) -> bytes | None:
        """Unwrap what was wrapped for this person."""
        if wrapped["kind"] != "person" or wrapped["public"] != self._public:
            return None
        return _open_key(_derive(self.private.exchange(_public(wrapped["once"]))), wrapped)

    @property
    def _public(self) -> str:
        return self.private.public_key().public_bytes_raw().hex()


def unwrap_any(wraps: Sequence[Mapping[str, Any]], holder: Holder) -> bytes:
    """Return the data key if one of the wraps is for this holder; else say whom it was for."""
    for wrapped in wraps:
        try:
            key = holder.unwrap(wrapped)
        except (KeyError, ValueError, TypeError) as error:
            raise SealError(f"a wrapped key is not in its form; it was edited: {error}") from error
        if key is not None:
            return key
    kinds = ", ".join(sorted({str(w["kind"]) for w in wraps}))
    raise KeyMissing(
        f"this key does not open the target, which was sealed for another holder ({kinds}); "
        "name the right key, and nothing is lost"
    )


def encrypt(key: bytes, index: int, plain: bytes, about: bytes) -> bytes:
    """Encrypt one chunk; the key is used for one file only, so its number is a safe nonce."""
    return AESGCM(key).encrypt(index.to_bytes(12, "big"), plain, about)


def decrypt(key: bytes, index: int, cipher: bytes, about: bytes, name: str) -> bytes:
    """Decrypt one chunk; bytes that were changed are an error that names the file."""
    try:
        return AESGCM(key).decrypt(index.to_bytes(12, "big"), cipher, about)
    except InvalidTag:
        raise SealError(
            f"{name} does not decrypt: its bytes were changed, or the key is another one"
        ) from None


def _seal_key(secret: bytes, data_key: bytes) -> dict[str, str]:
    nonce = random_bytes(12)
    return {
        "nonce": nonce.hex(),
        "wrapped": AESGCM(secret).encrypt(nonce, data_key, _ABOUT).hex(),
    }


def _open_key(secret: bytes, wrapped: Mapping[str, Any]) -> bytes | None:
    try:
        nonce, cipher = bytes.fromhex(wrapped["nonce"]), bytes.fromhex(wrapped["wrapped"])
        return AESGCM(secret).decrypt(nonce, cipher, _ABOUT)
    except InvalidTag:
        return None


def _derive(shared: bytes) -> bytes:
    return HKDF(hashes.SHA256(), 32, salt=None, info=_ABOUT).derive(shared)


def _public(text: str) -> X25519PublicKey:
    """Return a public key with which a secret can be shared; capitals and blanks are no form."""
    try:
        content = bytes.fromhex(text)
        problem = exchange_problem(content) if content.hex() == text else "its digits were edited"
    except ValueError:
        problem = "it is not written in hexadecimal digits"
    if problem is not None:
        raise SealError(f"{text[:16]}... is no X25519 public key: {problem}")
    return X25519PublicKey.from_public_bytes(content)
