"""A public key names a person: points for which anybody signs or reads are refused."""

from __future__ import annotations

from itertools import product

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from hypothesis import given
from hypothesis import strategies as st

from proxyguard.audit.seal import check_steward
from proxyguard.documents.ledger import Body, read_body
from proxyguard.errors import DocumentError, RegistryError, SealError, StageError
from proxyguard.seal.crypto import (
    Recipient,
    SigningKey,
    exchange_problem,
    identity_problem,
    signed_by,
    signing_problem,
)
from proxyguard.seal.ledger import Ledger, Stage

PRIME = 2**255 - 19
CURVE = -121665 * pow(121666, -1, PRIME) % PRIME
ANNA, BERTA = SigningKey.create(), SigningKey.create()
NOBODY = bytes([1] + [0] * 31).hex()
"""The neutral element: R = neutral and S = 0 is a signature of it under every message."""
FORGED = NOBODY + "00" * 32
# RFC 7748, section 6.1, asks for a look at an all-zero secret; these give one (and their twins
# that are written a prime higher).
SMALL_EXCHANGE = [
    0,
    1,
    PRIME - 1,
    325606250916557431795983626356110631294008115727848805560023387167927233504,
    39382357235489614581723060781553021112529911719440698176882885853963445705823,
]

Point = tuple[int, int]


def seal_of(author: str) -> Body:
    """Return what the least seal of an author says."""
    member = {
        "index": 0, "records": 3, "commitment": "0" * 64, "nonce_digest": "0" * 64, "kinds": [],
        "negative": None, "estimand": "the mean", "development": {}, "expected_twins": {},
    }  # fmt: skip
    body = {
        "audit": "0" * 32, "name": "small", "declaration": "0" * 64, "lineage": [],
        "steward": None, "author": author, "software": {}, "files": {"target/0.sealed": "0" * 64},
        "members": {"target": member}, "time": "now",
    }  # fmt: skip
    return read_body(Stage.SEALED, body, "the seal")


def add(p: Point, q: Point) -> Point:
    """Add two points of the curve, by the formulas of RFC 8032 (section 5.1.4), affine."""
    (a, b), (c, d) = p, q
    cross = CURVE * a * b * c * d % PRIME
    x = (a * d + b * c) * pow(1 + cross, -1, PRIME) % PRIME
    y = (b * d + a * c) * pow(1 - cross, -1, PRIME) % PRIME
    return x, y


def small_points() -> set[Point]:
    """Return the eight points of small order, as the multiples of one of order 8."""
    # A point of order 8 doubles to y = 0, that is to x^2 = -y^2 and d y^4 + 2 y^2 - 1 = 0.
    root = next(r for r in roots(1 + CURVE) if roots((r - 1) * pow(CURVE, -1, PRIME) % PRIME))
    y = roots((root - 1) * pow(CURVE, -1, PRIME) % PRIME)[0]
    x = roots(-y * y % PRIME)[0]
    points, here = set(), (0, 1)
    for _ in range(8):
        points.add(here)
        here = add(here, (x, y))
    assert here == (0, 1)
    assert len(points) == 8
    return points


def roots(value: int) -> list[int]:
    """Return the square roots modulo the prime, which is 5 modulo 8."""
    value %= PRIME
    root = pow(value, (PRIME + 3) // 8, PRIME)
    for candidate in (root, root * pow(2, (PRIME - 1) // 4, PRIME) % PRIME):
        if candidate * candidate % PRIME == value:
            return [candidate, PRIME - candidate]
    return []


def encoded(y: int, sign: int) -> bytes:
    return (y | sign << 255).to_bytes(32, "little")


def test_a_key_for_which_anybody_signs_is_nobodys() -> None:
    # The library takes this for a signature: that is what has to be refused here.
    Ed25519PublicKey.from_public_bytes(bytes.fromhex(NOBODY)).verify(bytes.fromhex(FORGED), b"any")
    assert not signed_by(NOBODY, FORGED, b"any")
    assert signed_by(ANNA.public, ANNA.sign(b"any"), b"any")


def test_every_point_of_small_order_is_refused_in_every_spelling() -> None:
    heights = {y for _, y in small_points()}
    assert len(heights) == 5
    for y, sign in product(heights, (0, 1)):
        assert "small order" in str(signing_problem(encoded(y, sign)))
    for y, sign in product(range(19), (0, 1)):
        assert "canonical form" in str(signing_problem(encoded(PRIME + y, sign)))


@given(st.binary(min_size=32, max_size=32))
def test_a_key_that_was_made_is_never_refused(secret: bytes) -> None:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    key = SigningKey(Ed25519PrivateKey.from_private_bytes(secret))
    assert identity_problem(key.identity) is None


@pytest.mark.parametrize("u", SMALL_EXCHANGE)
def test_an_exchange_key_whose_secrets_everybody_knows_is_refused(u: int) -> None:
    public = u.to_bytes(32, "little")
    assert "small order" in str(exchange_problem(public))
    with pytest.raises(SealError, match=r"is no X25519 public key: .* small order"):
        Recipient(public.hex()).wrap(bytes(32))


@pytest.mark.parametrize("more", [PRIME + 9, 9 | 1 << 255])
def test_an_exchange_key_has_one_spelling(more: int) -> None:
    with pytest.raises(SealError, match="canonical form"):
        Recipient(more.to_bytes(32, "little").hex()).wrap(bytes(32))


@pytest.mark.parametrize(
    "identity",
    [NOBODY + ANNA.identity[64:], ANNA.identity[:64] + "00" * 32, ANNA.identity.upper(), "7"],
    ids=["a signer of small order", "an exchange key of small order", "capitals", "too short"],
)
def test_nobody_is_author_successor_or_steward(identity: str) -> None:
    assert identity_problem(identity) is not None
    with pytest.raises((StageError, DocumentError), match=r"identity|author: "):
        Ledger().append(seal_of(identity), identity[:64])
    ledger = Ledger()
    ledger.append(seal_of(BERTA.identity), BERTA.public)
    rotation = {"successor": identity, "consent": "00", "time": "now"}
    with pytest.raises((StageError, DocumentError), match=r"identity|successor: "):
        ledger.append(read_body(Stage.ROTATED, rotation, "the rotation"), BERTA.public)
    with pytest.raises(RegistryError, match="no steward's identity"):
        check_steward(identity, BERTA.identity)
