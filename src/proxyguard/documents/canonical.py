"""One sequence of bytes for one value, on every machine (RFC 8785).

The digest covers the value, not the file, so line endings, indentation and key order
cannot break a seal, and NaN cannot enter one. Numbers that decide are written as decimal
strings, so that ``1`` and ``1.0`` cannot differ.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from json.encoder import encode_basestring
from math import inf
from typing import Any, TypeAlias

import rfc8785

from proxyguard.errors import SealError

# What JSON can hold.
Plain: TypeAlias = "Mapping[str, Plain] | Sequence[Plain] | str | float | bool | None"

_NAMES = {None: "null", True: "true", False: "false"}
# Largest whole number that every JSON reader keeps exactly.
MOST_EXACT = 2**53 - 1


def canonical_bytes(value: Any) -> bytes:
    """Return the RFC 8785 bytes of a value made of mappings, lists, text and plain numbers.

    >>> canonical_bytes({"b": 1, "a": "0.05"})
    b'{"a":"0.05","b":1}'
    """
    try:
        return _written(value).encode("utf-8")
    except (TypeError, UnicodeEncodeError):
        return _checked(value)


def digest(value: Any) -> str:
    """Return the SHA-256 of the canonical bytes, in hexadecimal."""
    return hashlib.sha256(canonical_bytes(value)).hexdigest()


def _written(value: Any) -> str:
    """Return the text of a value of built-in types, as rfc8785 has it, and faster.

    A `TypeError` says that it takes the slower way: another type, a number that JSON lacks.
    Python writes a double as RFC 8785 has it, but for whole numbers and for exponents of one
    digit, which have a zero in Python or are written out.
    """
    kind = type(value)
    if kind is float:
        text = repr(value)
        digits, _, exponent = text.partition("e")
        if digits.endswith(".0") and abs(value) <= MOST_EXACT:
            return str(int(value))
        if value == value and abs(value) <= MOST_EXACT and (not exponent or int(exponent) < -9):
            return text
        if abs(value) <= MOST_EXACT or 1e21 <= abs(value) < inf:
            return rfc8785.dumps(value).decode()
    if kind is str:
        return encode_basestring(value)
    if kind is int and abs(value) <= MOST_EXACT:
        return str(value)
    if kind is list or kind is tuple:
        return f"[{','.join([_written(item) for item in value])}]"
    if kind is dict and all(type(key) is str for key in value):
        keys = sorted(value, key=lambda key: key.encode("utf-16be"))
        return f"{{{','.join([f'{encode_basestring(k)}:{_written(value[k])}' for k in keys])}}}"
    if value is None or kind is bool:
        return _NAMES[value]
    raise TypeError(kind.__name__)


def _checked(value: Any) -> bytes:
    """Return the bytes of a value, or name the place of what cannot be sealed."""
    try:
        return rfc8785.dumps(_plain(value, "value"))
    except rfc8785.CanonicalizationError as error:
        raise SealError(f"this value cannot be sealed: {error}") from error


def _text(value: str, place: str) -> str:
    """Return a text that UTF-8 can write; a lone half of a sign, which it cannot, is named."""
    try:
        value.encode("utf-8")
    except UnicodeEncodeError as error:
        raise SealError(
            f"{place} holds {value[error.start : error.end]!r}, which is no Unicode text and "
            "cannot be sealed"
        ) from None
    return value


def _plain(value: Any, place: str) -> Any:
    """Return the value with mappings and sequences as dicts and lists, or say what is none."""
    if isinstance(value, str):
        return _text(value, place)
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int):
        if abs(value) > MOST_EXACT:
            raise SealError(f"{place} is {value}, too large a number for JSON: write it as text")
        return value
    if isinstance(value, float):
        if value != value or value in (float("inf"), float("-inf")):
            raise SealError(f"{place} is {value}, which is no number and cannot be sealed")
        if MOST_EXACT < abs(value) < 1e21:  # written as digits, and read back as a whole number
            raise SealError(f"{place} is {value}, too large a number for JSON: write it as text")
        return value
    if isinstance(value, Mapping):
        wrong = [key for key in value if not isinstance(key, str)]
        if wrong:
            raise SealError(f"{place} has a key {wrong[0]!r} that is no text")
        return {_text(k, place): _plain(item, f"{place}.{k}") for k, item in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, bytes):
        return [_plain(item, f"{place}[{i}]") for i, item in enumerate(value)]
    raise SealError(
        f"{place} is a {type(value).__name__}, which cannot be sealed: use mappings, lists, text "
        "and plain numbers"
    )
