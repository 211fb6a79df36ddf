"""When two written values are the same value."""

from __future__ import annotations

import re
from math import inf

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
