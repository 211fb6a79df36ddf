"""The certificate's file: an in-toto statement in a signed DSSE envelope.

Any DSSE reader can check the signature; the statement's subjects are the digests of what
the certificate is about.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Mapping
from typing import Any

from proxyguard.documents.certificate import Envelope, Statement
from proxyguard.errors import SealError
from proxyguard.seal.canonical import canonical_bytes
from proxyguard.seal.keys import SigningKey, signed_by

PAYLOAD_TYPE = "application/vnd.in-toto+json"
STATEMENT_TYPE = "https://in-toto.io/Statement/v1"
PREDICATE_TYPE = "urn:proxyguard:certificate:1"


def statement(subjects: Mapping[str, str], predicate: Mapping[str, Any]) -> dict[str, Any]:
    """Return an in-toto statement about these digests."""
    return {
        "_type": STATEMENT_TYPE,
        "subject": [{"name": n, "digest": {"sha256": d}} for n, d in sorted(subjects.items())],
        "predicateType": PREDICATE_TYPE,
        "predicate": dict(predicate),
    }


def sign_statement(value: Mapping[str, Any], key: SigningKey) -> bytes:
    """Return the envelope's bytes; the same statement and key give the same ones."""
    payload = canonical_bytes(value)
    signature = bytes.fromhex(key.sign(preauthenticate(payload)))
    return canonical_bytes(
        {
            "payloadType": PAYLOAD_TYPE,
            "payload": b64encode(payload).decode(),
            "signatures": [{"keyid": key.public, "sig": b64encode(signature).decode()}],
        }
    )


def open_envelope(content: bytes) -> tuple[dict[str, Any], str]:
    """Return the statement and its signer, after checking form and signature."""
    envelope = Envelope.read(content, "the certificate")
    (signature,) = envelope.signatures
    if not signed_by(
        signature.keyid, b64decode(signature.sig).hex(), preauthenticate(envelope.content)
    ):
        raise SealError("the certificate's signature does not fit its content")
    return Statement.read(envelope.content, "the certificate").to_dict(), signature.keyid


def preauthenticate(payload: bytes) -> bytes:
    """Return what DSSE signs: type and payload with their lengths (PAE, DSSE v1)."""
    kind = PAYLOAD_TYPE.encode()
    return b"DSSEv1 %d %s %d %s" % (len(kind), kind, len(payload), payload)
