"""When two written values are the same value."""

from __future__ import annotations

import re
from decimal import Decimal
from fractions import Fraction
from math import inf
from numbers import Integral, Real
from uuid import UUID

import numpy as np

_NO_NUMBERS = ("nan", "inf", "-inf", "+inf", "infinity", "-infinity")
_WHOLE = re.compile(r"(?P<sign>[+-]?)(?P<digits>[0-9]+)(\.0*)?")
_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")


def canonical_value(text: str) -> str:
    """Return a value so that ``1``, ``1.0`` and ``01`` read alike, and blanks do not count.

    >>> canonical_value("1.0"), canonical_value(" 1e0 "), canonical_value("x ")
    ('1', '1', 'x')
    """
    text = text.strip()
    whole = _WHOLE.fullmatch(text)
    if whole is not None:  # by its digits: an id may have more of them than a double keeps
        digits = whole["digits"].lstrip("0") or "0"
        return f"-{digits}" if whole["sign"] == "-" and digits != "0" else digits
    try:
        number = float(text) if _NUMBER.fullmatch(text) else inf
    except OverflowError:
        number = inf
    if number in (inf, -inf):
        return text.lower() if text.lower() in _NO_NUMBERS else text
    if number.is_integer():
        return str(int(number))
    return repr(number)  # a double that was written with 17 digits is the one it was read from


_MISSING = ("nan", "snan", "nat", "<na>")
"""How numpy, pandas and decimals write a value that is none."""


def canonical_label(value: object) -> str:
    """Return a record's label as the sealed tables would read it; ``""`` where it is missing.

    A label is text, bytes, a number, a truth value or a UUID. Anything else is a `TypeError`:
    how it is written as text may change with the program that wrote it (a timestamp), or with
    every run (an object without a text of its own), and one record would pass for two.

    >>> [canonical_label(label) for label in (1, "1.0", b"1", "r1 ", None, float("nan"))]
    ['1', '1', '1', 'r1', '', '']
    """
    if isinstance(value, bytes):
        value = value.decode("utf-8")
    if isinstance(value, str):
        return canonical_value(value)
    if value is None or str(value).lower() in _MISSING:
        return ""
    if isinstance(value, bool | np.bool_ | UUID):
        return str(value)
    if isinstance(value, Integral):
        return str(int(value))
    if isinstance(value, Fraction):
        return str(value)
    if isinstance(value, Decimal):
        return canonical_value(str(value))
    if isinstance(value, Real):
        return canonical_value(repr(float(value)))
    raise TypeError(
        f"a label is text, a number, a truth value or a UUID, got {value!r} of type "
        f"{type(value).__name__}; write it as text"
    )
