"""When two written values are the same value, and when two names are one to the eye."""

from __future__ import annotations

import re
from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction
from math import inf
from numbers import Integral, Real
from os.path import commonprefix
from unicodedata import category, name, normalize
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


_EAST_ASIAN = frozenset({"CJK", "HIRAGANA", "KATAKANA", "HANGUL", "BOPOMOFO", "IDEOGRAPHIC"})
"""Scripts that are written within one word, and look like no other."""
_UNSEEN = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0")
"""Letters and marks that show nothing, besides controls of format and selectors of variants."""


def alike_names(names: Sequence[str]) -> str | None:
    """Return in words which two of several different names a reader would take for one.

    Names that differ in case, in forms of one letter (NFKC), in blanks or in signs that nothing
    shows; and names that differ only where one has a letter of another script, if that letter
    stands in a word of the other's script. Names wholly in one script are never doubted by it.

    >>> alike_names(["Brier risk", "brier risk"])
    "'Brier risk' and 'brier risk' look alike: letter 1 is U+0062 LATIN SMALL LETTER B; rename one"
    >>> alike_names(["Brier risk", "Brier transfer"])
    """
    shown = {given: _shown(given) for given in names}
    seen: dict[str, str] = {}
    for given in names:
        first = seen.setdefault(shown[given], given)
        if first != given:
            return _difference(first, given)
    for imitation in (given for given in names if _mixes_scripts(shown[given])):
        for given in names:
            if given != imitation and _differ_in_script(shown[given], shown[imitation]):
                return _difference(given, imitation)
    return None


def _shown(text: str) -> str:
    """Return a name as a reader remembers it: case, blanks and what shows nothing left out."""
    plain = normalize("NFKC", normalize("NFKC", text).casefold())
    seen = (c for c in plain if category(c) not in ("Cf", "Cc") and c not in _UNSEEN)
    kept = "".join(c for c in seen if not name(c, "").startswith("VARIATION SELECTOR"))
    return " ".join(kept.split())


def _script(letter: str) -> str | None:
    """Return the script of a letter, the first word of its name; none of other signs."""
    if not category(letter).startswith("L"):
        return None
    script = re.split("[ -]", name(letter, "UNNAMED"))[0]
    return "EAST ASIAN" if script in _EAST_ASIAN else script


def _mixes_scripts(text: str) -> bool:
    words = re.split(r"[\W\d_]+", text)
    return any(len({_script(letter) for letter in word} - {None}) > 1 for word in words)


def _differ_in_script(first: str, second: str) -> bool:
    """Return whether two names differ in letters of different scripts alone."""
    return len(first) == len(second) and all(
        a == b or (_script(a) is not None and _script(b) is not None and _script(a) != _script(b))
        for a, b in zip(first, second, strict=True)
    )


def _difference(first: str, second: str) -> str:
    """Say where two names differ first, by the code point that the second has there."""
    shared = len(commonprefix([first, second]))  # noqa: RUF071  # of letters, which is wanted
    letter = second[shared] if shared < len(second) else first[shared]
    return (
        f"{first!r} and {second!r} look alike: letter {shared + 1} is U+{ord(letter):04X} "
        f"{name(letter, 'without a name')}; rename one"
    )
