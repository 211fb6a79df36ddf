"""Keys: who signs an audit's steps, and who can read what it seals.

Keys of people come first: Ed25519 to sign, X25519 to receive. Both are made from one secret, so
that a person has one file to keep, outside the folder; the public identity is the two public
keys, one after the other.

Then the encryption of sealed records: AES-256-GCM under a fresh key, itself wrapped for its
holder. The holder is a key file, a passphrase, or a person's X25519 public key, so that the
authors of an audit need not be able to open its target alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from cryptography.exceptions import InvalidSignature, InvalidTag
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from cryptography.hazmat.primitives.kdf.scrypt import Scrypt

from proxyguard.documents.ledger import KeyFileWrap, PassphraseWrap, PersonWrap, Wrapped
from proxyguard.errors import KeyExists, KeyMissing, SealError
from proxyguard.seal.storage import random_bytes, read_private, write_once

_PRIME = 2**255 - 19
# The d of Ed25519's curve, -x^2 + y^2 = 1 + d x^2 y^2 (RFC 8032, section 5.1).
_CURVE = -121665 * pow(121666, -1, _PRIME) % _PRIME
# Any private key: an exchange with a public key of small order fails with each of them.
_PROBE = X25519PrivateKey.from_private_bytes(bytes(range(1, 33)))


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


@dataclass(frozen=True, slots=True)
class ScryptCost:
    """What it costs to try one passphrase (RFC 7914)."""

    n: int  # a power of two: rounds, and memory of 128 r n bytes
    r: int  # block size
    p: int  # rounds one after the other


# 32 MiB of memory for every guess of the words.
SCRYPT = ScryptCost(n=2**15, r=8, p=1)
_ABOUT = b"proxyguard target key"


class Holder(Protocol):
    """Who can unwrap a data key."""

    def wrap(self, data_key: bytes) -> Wrapped:
        """Return the data key as only this holder can read it."""

    def unwrap(self, wrapped: Wrapped) -> bytes | None:
        """Return the data key, or nothing where it was wrapped for somebody else."""


@dataclass(frozen=True, slots=True)
class KeyFile:
    """A 256-bit secret in a file that its holder keeps."""

    secret: bytes

    def __post_init__(self) -> None:
        if len(self.secret) != 32:
            raise KeyMissing(f"a key has 32 bytes, this one {len(self.secret)}")

    def wrap(self, data_key: bytes) -> KeyFileWrap:
        """Wrap under the secret."""
        nonce, wrapped = _seal_key(self.secret, data_key)
        return KeyFileWrap(kind="key", nonce=nonce, wrapped=wrapped)

    def unwrap(self, wrapped: Wrapped) -> bytes | None:
        """Unwrap with the secret."""
        return _open_key(self.secret, wrapped) if isinstance(wrapped, KeyFileWrap) else None


@dataclass(frozen=True, slots=True)
class Passphrase:
    """Words that a person remembers, stretched by scrypt."""

    words: str

    def wrap(self, data_key: bytes) -> PassphraseWrap:
        """Wrap under the stretched words."""
        salt = random_bytes(16)
        nonce, wrapped = _seal_key(self._stretch(salt), data_key)
        return PassphraseWrap(
            kind="passphrase", salt=salt.hex(), n=SCRYPT.n, r=SCRYPT.r, p=SCRYPT.p,
            nonce=nonce, wrapped=wrapped,
        )  # fmt: skip

    def unwrap(self, wrapped: Wrapped) -> bytes | None:
        """Unwrap with the stretched words."""
        if not isinstance(wrapped, PassphraseWrap):
            return None
        # The header states the cost, and it may come from anybody: a high one would keep this
        # machine busy for days, and none that we wrote has a lower one.
        if ScryptCost(wrapped.n, wrapped.r, wrapped.p) != SCRYPT:
            return None
        return _open_key(self._stretch(bytes.fromhex(wrapped.salt)), wrapped)

    def _stretch(self, salt: bytes) -> bytes:
        cost = Scrypt(salt=salt, length=32, n=SCRYPT.n, r=SCRYPT.r, p=SCRYPT.p)
        return cost.derive(self.words.encode())


@dataclass(frozen=True, slots=True)
class Recipient:
    """A person's X25519 public key: can wrap for them, and not unwrap."""

    public: str

    def wrap(self, data_key: bytes) -> PersonWrap:
        """Wrap for the person, with a key agreed upon once."""
        once = X25519PrivateKey.from_private_bytes(random_bytes(32))
        shared = once.exchange(_public(self.public))
        nonce, wrapped = _seal_key(_derive(shared), data_key)
        return PersonWrap(
            kind="person",
            public=self.public,
            once=once.public_key().public_bytes_raw().hex(),
            nonce=nonce,
            wrapped=wrapped,
        )

    def unwrap(self, wrapped: Wrapped) -> bytes | None:
        """Return nothing: a public key opens nothing."""
        return None


@dataclass(frozen=True, slots=True)
class Person:
    """A person's X25519 private key."""

    private: X25519PrivateKey

    def wrap(self, data_key: bytes) -> PersonWrap:
        """Wrap for oneself."""
        return Recipient(self._public).wrap(data_key)

    def unwrap(self, wrapped: Wrapped) -> bytes | None:
        """Unwrap what was wrapped for this person."""
        if not isinstance(wrapped, PersonWrap) or wrapped.public != self._public:
            return None
        return _open_key(_derive(self.private.exchange(_public(wrapped.once))), wrapped)

    @property
    def _public(self) -> str:
        return self.private.public_key().public_bytes_raw().hex()


def unwrap_any(wraps: Sequence[Wrapped], holder: Holder) -> bytes:
    """Return the data key if one of the wraps is for this holder; else say whom it was for.

    Raises
    ------
    KeyMissing
        Where none is: the key is another one, and nothing was lost.
    SealError
        Where a wrap was edited into something that no wrapping writes.
    """
    for wrapped in wraps:
        try:
            key = holder.unwrap(wrapped)
        except ValueError as error:  # a nonce or a salt of a length that its cipher refuses
            raise SealError(f"a wrapped key is not in its form; it was edited: {error}") from error
        if key is not None:
            return key
    kinds = ", ".join(sorted({wrapped.kind for wrapped in wraps}))
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


def _seal_key(secret: bytes, data_key: bytes) -> tuple[str, str]:
    """Return a fresh nonce and the data key encrypted with it, in hexadecimal digits."""
    nonce = random_bytes(12)
    return nonce.hex(), AESGCM(secret).encrypt(nonce, data_key, _ABOUT).hex()


def _open_key(secret: bytes, wrapped: Wrapped) -> bytes | None:
    """Return the data key, or nothing where another secret wrapped it or a byte was changed."""
    try:
        return AESGCM(secret).decrypt(
            bytes.fromhex(wrapped.nonce), bytes.fromhex(wrapped.wrapped), _ABOUT
        )
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
