"""The certificate's file: an in-toto statement in a signed DSSE envelope.

Any DSSE reader can check the signature; the statement's subjects are the digests of what
the certificate is about.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from typing import Any

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
            "payload": base64.b64encode(payload).decode(),
            "signatures": [{"keyid": key.public, "sig": base64.b64encode(signature).decode()}],
        }
    )


def open_envelope(content: bytes) -> tuple[dict[str, Any], str]:
    """Return the statement and its signer, after checking form and signature."""
    try:
        envelope = json.loads(content)
        payload = base64.b64decode(envelope["payload"], validate=True)
        (signature,) = envelope["signatures"]
        signer, given = signature["keyid"], base64.b64decode(signature["sig"], validate=True)
        value = json.loads(payload)
        again = canonical_bytes(envelope), canonical_bytes(value)
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise SealError(f"the certificate is no DSSE envelope: {error}") from error
    if envelope.get("payloadType") != PAYLOAD_TYPE:
        raise SealError(f"the certificate's payload is {envelope.get('payloadType')!r}")
    spelt = [base64.b64encode(part).decode() for part in (payload, given)]
    if spelt != [envelope["payload"], signature["sig"]]:
        raise SealError("the certificate's base64 is not in canonical form; it was edited")
    if again != (content, payload):
        raise SealError("the certificate is not in canonical form; it was edited")
    if not signed_by(signer, given.hex(), preauthenticate(payload)):
        raise SealError("the certificate's signature does not fit its content")
    if value.get("_type") != STATEMENT_TYPE or value.get("predicateType") != PREDICATE_TYPE:
        raise SealError(f"the certificate is of another type: {value.get('predicateType')!r}")
    return value, signer


def preauthenticate(payload: bytes) -> bytes:
    """Return what DSSE signs: type and payload with their lengths (PAE, DSSE v1)."""
    kind = PAYLOAD_TYPE.encode()
    return b"DSSEv1 %d %s %d %s" % (len(kind), kind, len(payload), payload)
