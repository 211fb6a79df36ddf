"""One sequence of bytes for one value, on every machine (RFC 8785).

The digest covers the value, not the file, so line endings, indentation and key order
cannot break a seal, and NaN cannot enter one. Numbers that decide are written as decimal
strings, so that ``1`` and ``1.0`` cannot differ.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from json import JSONDecoder, JSONEncoder
from json.encoder import encode_basestring
from math import inf
from typing import Any, NoReturn, TypeAlias

import rfc8785

from proxyguard.errors import SealError

# What JSON can hold.
Plain: TypeAlias = "Mapping[str, Plain] | Sequence[Plain] | str | float | bool | None"

_NAMES = {None: "null", True: "true", False: "false"}
# Largest whole number that every JSON reader keeps exactly.
MOST_EXACT = 2**53 - 1


def _whole(digits: str) -> int:
    """Return a whole number that Python and RFC 8785 write alike."""
    if abs(number := int(digits)) > MOST_EXACT:
        raise ValueError(digits)
    return number


def _refused(text: str) -> NoReturn:
    raise ValueError(text)


# Python's own JSON is several times faster, and is RFC 8785 where there are no doubles, no whole
# numbers beyond the exact ones and no signs beyond the first plane, by which keys are ordered.
_PYTHONS = JSONEncoder(
    check_circular=False, ensure_ascii=False, allow_nan=False, sort_keys=True, separators=(",", ":")
).encode
_PLAINLY = JSONDecoder(parse_float=_refused, parse_int=_whole, parse_constant=_refused).decode
_BEYOND = re.compile("[\U00010000-\U0010ffff]")


def canonical_bytes(plain: Any) -> bytes:
    """Return the RFC 8785 bytes of a value made of mappings, lists, text and plain numbers.

    Parameters
    ----------
    plain
        The value. Numbers that decide are in it as text.

    Raises
    ------
    SealError
        Naming what in it has no form that every reader reads alike: NaN, infinity, a whole number
        beyond 2^53, a key that is no text, half a sign.

    Examples
    --------
    >>> canonical_bytes({"b": 1, "a": "0.05"})
    b'{"a":"0.05","b":1}'
    """
    try:
        return _written(plain).encode("utf-8")
    except (TypeError, UnicodeEncodeError):
        return _checked(plain)


def digest(plain: Any) -> str:
    """Return the SHA-256 of the canonical bytes, in hexadecimal."""
    return hashlib.sha256(canonical_bytes(plain)).hexdigest()


def read_plainly(content: bytes) -> Any:
    """Return the value that canonical bytes hold; a `ValueError` where they must be looked at.

    Where this gives a value the bytes are canonical. Where it does not they may be: they hold a
    double, say.
    """
    text = content.decode("utf-8")
    plain = _PLAINLY(text)
    if _PYTHONS(plain) != text or _BEYOND.search(text):
        raise ValueError("not plainly canonical")
    return plain


def is_written(plain: Any, content: bytes) -> bool:
    """Return whether bytes that are canonical are those of a value whose keys are all text."""
    try:
        # Alike here, they are the form of one value, whatever is in it.
        if _PYTHONS(plain).encode("utf-8") == content:
            return True
    except ValueError:  # NaN, half a sign
        pass
    return canonical_bytes(plain) == content


def _by_utf_16(key: str) -> bytes:
    """Order keys as RFC 8785 has it: Python orders signs beyond the first plane otherwise."""
    return key.encode("utf-16be")


def _written(plain: Any) -> str:
    """Return the text of a value of built-in types, as rfc8785 has it, and faster.

    A `TypeError` says that it takes the slower way: another type, a number that JSON lacks.
    Python writes a double as RFC 8785 has it, but for whole numbers and for exponents of one
    digit, which have a zero in Python or are written out.
    """
    kind = type(plain)
    if kind is str:
        return encode_basestring(plain)
    if kind is dict:
        keys = sorted(plain, key=None if "".join(plain).isascii() else _by_utf_16)
        return f"{{{','.join([f'{encode_basestring(k)}:{_written(plain[k])}' for k in keys])}}}"
    if kind is list or kind is tuple:
        return f"[{','.join([_written(item) for item in plain])}]"
    if kind is int and abs(plain) <= MOST_EXACT:
        return str(plain)
    if kind is float:
        text = repr(plain)
        digits, _, exponent = text.partition("e")
        if digits.endswith(".0") and abs(plain) <= MOST_EXACT:
            return str(int(plain))
        if plain == plain and abs(plain) <= MOST_EXACT and (not exponent or int(exponent) < -9):
            return text
        if abs(plain) <= MOST_EXACT or 1e21 <= abs(plain) < inf:
            return rfc8785.dumps(plain).decode()
    if plain is None or kind is bool:
        return _NAMES[plain]
    raise TypeError(kind.__name__)


def _checked(plain: Any) -> bytes:
    """Return the bytes of a value, or name the place of what cannot be sealed."""
    try:
        return rfc8785.dumps(_plain(plain, "value"))
    except rfc8785.CanonicalizationError as error:
        raise SealError(f"this value cannot be sealed: {error}") from error


def _text(text: str, where: str) -> str:
    """Return a text that UTF-8 can write; a lone half of a sign, which it cannot, is named."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise SealError(
            f"{where} holds {text[error.start : error.end]!r}, which is no Unicode text and "
            "cannot be sealed"
        ) from None
    return text


def _plain(plain: Any, where: str) -> Any:
    """Return the value with mappings and sequences as dicts and lists, or say what is none."""
    if isinstance(plain, str):
        return _text(plain, where)
    if plain is None or isinstance(plain, bool):
        return plain
    if isinstance(plain, int):
        if abs(plain) > MOST_EXACT:
            raise SealError(f"{where} is {plain}, too large a number for JSON: write it as text")
        return plain
    if isinstance(plain, float):
        if plain != plain or plain in (float("inf"), float("-inf")):
            raise SealError(f"{where} is {plain}, which is no number and cannot be sealed")
        if MOST_EXACT < abs(plain) < 1e21:  # written as digits, and read back as a whole number
            raise SealError(f"{where} is {plain}, too large a number for JSON: write it as text")
        return plain
    if isinstance(plain, Mapping):
        wrong = [key for key in plain if not isinstance(key, str)]
        if wrong:
            raise SealError(f"{where} has a key {wrong[0]!r} that is no text")
        return {_text(k, where): _plain(item, f"{where}.{k}") for k, item in plain.items()}
    if isinstance(plain, Sequence) and not isinstance(plain, bytes):
        return [_plain(item, f"{where}[{i}]") for i, item in enumerate(plain)]
    raise SealError(
        f"{where} is a {type(plain).__name__}, which cannot be sealed: use mappings, lists, text "
        "and plain numbers"
    )
