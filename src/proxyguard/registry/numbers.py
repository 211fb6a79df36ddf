"""How numbers, choices, flags and paths of a caller are read: one way for every public call.

Numbers of numpy, fractions, decimals and decimal text come in; what is none is a
`RegistryError` that names the argument and the value seen, never another exception later.

The second half says when two written values are the same value (`canonical_value`,
`canonical_label`), and when two names are one to the eye (`alike_names`).
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from itertools import pairwise
from math import inf
from numbers import Integral, Real
from os import PathLike, fspath
from os.path import commonprefix
from pathlib import Path
from typing import TypeGuard, TypeVar
from unicodedata import category, name, normalize
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from proxyguard.errors import RegistryError

Level = Fraction | Decimal | float | int | str
AnEnum = TypeVar("AnEnum", bound=Enum)

# Records that a target can have: as many as tables have lines.
MOST_RECORDS = 1 << 24
# Draws of one mechanism; each is a release that is stored and scored.
MOST_DRAWS = 100_000
# Records of a pool, which is counted and never held.
MOST_POOL = 10**12
# Audits that a plan simulates.
MOST_REPETITIONS = 10**6
# The smallest level, share or threshold that is taken.
#
# A level is divided further: by shares of a family, of a mode and of a direction, by releases and
# by requirements. Four such factors of at least this size leave a double that is still above 0, so
# no level that a claim fixes can vanish after the target was opened.
LEAST = Fraction(1, 10**50)

_EXPONENT = re.compile(r"[eE][+-]?0*([0-9_]+)")


def exact(given: object, name: str = "a level") -> Fraction:
    """Read a number as it was written: ``Fraction(1, 20)`` for ``0.05`` or ``"0.05"``.

    Parameters
    ----------
    given
        A number of Python or numpy, or its text.
    name
        What errors call it.

    Raises
    ------
    RegistryError
        If it is no number, or one that no double holds.

    Examples
    --------
    >>> exact(0.05)
    Fraction(1, 20)
    """
    try:
        text = _text(given)
        # A huge exponent would take all memory before it could be refused.
        if any(len(digits) > 3 for digits in _EXPONENT.findall(text)):
            raise OverflowError("the exponent is too large")
        read = Fraction(text)
        float(read)  # beyond doubles is beyond what can be computed with
    except (ValueError, TypeError, ZeroDivisionError, OverflowError) as error:
        raise RegistryError(f"{name} must be a number, got {given!r}") from error
    return read


def _text(given: object) -> str:
    """Return a number as it is written: 0.1 is a tenth, and no double near it."""
    if isinstance(given, bool | np.bool_):
        raise TypeError("a truth value is no number")
    if isinstance(given, Integral):
        return str(int(given))
    if isinstance(given, str | float | np.floating | Decimal | Fraction):
        return str(given)
    raise TypeError(f"{type(given).__name__} is no number")


def real(given: object, name: str, *, low: float | None = None, high: float | None = None) -> float:
    """Read a number as the nearest double, in ``[low, high]`` where these are given."""
    number = float(exact(given, name))
    if (low is not None and number < low) or (high is not None and number > high):
        wanted = f"at least {low:g}" if high is None else f"in [{low:g}, {high:g}]"
        raise RegistryError(f"{name} must be {wanted}, got {given!r}")
    return number


def share(given: object, name: str) -> Fraction:
    """Read a number strictly between 0 and 1, as a double too: levels are computed with.

    Raises
    ------
    RegistryError
        If it is none, or so near an end that a level made from it could vanish after the opening.
    """
    number = exact(given, name)
    if not 0 < number < 1:
        raise RegistryError(f"{name} must lie in (0, 1), got {given!r}")
    if number < LEAST or float(number) == 1.0:
        raise RegistryError(
            f"{name} must lie in (0, 1) by more than computing can lose: at least "
            f"{float(LEAST):g} and below 1 as a double, got {_shortened(given)}"
        )
    return number


def _shortened(given: object) -> str:
    """Return a number for a message; hundreds of digits say no more than its ends."""
    text = str(given)
    return text if len(text) <= 40 else f"{text[:24]}...{text[-8:]} ({len(text)} characters)"


def reals(values: object, name: str) -> tuple[float, ...]:
    """Read a list of numbers."""
    return tuple(real(given, f"{name}[{i}]") for i, given in enumerate(listed(values, name)))


def listed(values: object, name: str) -> list[object]:
    """Return the members of a list; text, mappings and single values are none."""
    if isinstance(values, str | bytes | Mapping | Enum) or not isinstance(values, Iterable):
        raise RegistryError(f"{name} must be a list, got {values!r}")
    if isinstance(values, np.ndarray) and values.ndim != 1:
        raise RegistryError(f"{name} must be a list, got an array of shape {values.shape}")
    return list(values)


def is_whole(given: object) -> TypeGuard[Integral]:
    """Return whether a value is a whole number, numpy's included and truth values not."""
    return isinstance(given, Integral) and not isinstance(given, bool)


def whole(given: object, name: str, *, least: int = 1, most: int | None = None) -> int:
    """Read a whole number; 2.0 is none, because a size is counted and not measured."""
    if not is_whole(given) or int(given) < least:
        raise RegistryError(f"{name} must be a whole number of at least {least}, got {given!r}")
    number = int(given)
    if most is not None and number > most:
        raise RegistryError(f"{name} must be at most {most:,}, got {_shortened(number)}")
    return number


def flag(given: object, name: str) -> bool:
    """Read True or False; ``"no"`` is neither, and would count as True."""
    if not isinstance(given, bool | np.bool_):
        raise RegistryError(f"{name} is True or False, got {given!r}")
    return bool(given)


def member(kind: type[AnEnum], given: object, name: str) -> AnEnum:
    """Read one of a closed choice, by its name or as itself."""
    if isinstance(given, kind):
        return given
    try:
        return kind(given)
    except (ValueError, TypeError):
        options = ", ".join(repr(option.value) for option in kind)
        raise RegistryError(f"{name} is one of {options}; got {given!r}") from None


def members(kind: type[AnEnum], values: object, name: str) -> tuple[AnEnum, ...]:
    """Read several of a closed choice, each once."""
    read = tuple(member(kind, given, name) for given in listed(values, name))
    if not read or len(set(read)) < len(read):
        raise RegistryError(f"{name} names one or more, each once, got {values!r}")
    return read


def look_numbers(looks: object) -> tuple[int, ...]:
    """Read the numbers of draws at which scores may be looked at: whole and increasing."""
    read = tuple(whole(look, "looks", most=MOST_DRAWS) for look in listed(looks, "looks"))
    if not read or any(a >= b for a, b in pairwise(read)):
        raise RegistryError(f"looks must be increasing numbers of draws, got {looks!r}")
    return read


def real_array(values: object, name: str) -> NDArray[np.float64]:
    """Read an array of numbers; a mask, ragged rows and text are refused."""
    if isinstance(values, np.ma.MaskedArray):
        raise RegistryError(f"{name} are a masked array, whose mask would be lost")
    try:
        array = np.asarray(values)
    except ValueError as error:
        raise RegistryError(f"{name} are no rectangular array") from error
    if array.dtype.kind not in "fiub":
        raise RegistryError(f"{name} must be real numbers, got {array.dtype} values")
    return array.astype(np.float64)


def path(given: object, name: str) -> Path:
    """Read a path, as text or as a path object."""
    if not isinstance(given, str | PathLike) or not isinstance(fspath(given), str):
        raise RegistryError(f"{name} is a path, got {given!r}")
    return Path(given)


def callback(given: object, name: str) -> None:
    """Refuse what cannot be called, before the work that it would interrupt."""
    if not callable(given):
        raise RegistryError(f"{name} is a function, got {given!r}")


def as_seed(seed: object) -> int:
    """Return the seed given, or one from the operating system."""
    if seed is None:
        # Of the operating system: a seed that could be guessed could be aimed at.
        return secrets.randbits(63)
    if isinstance(seed, Integral) and seed < 0:
        raise RegistryError(f"a seed cannot be negative, got {seed!r}")
    if not is_whole(seed):
        raise RegistryError(f"a seed is a whole number, got {seed!r}")
    return whole(seed, "seed", least=0)


_NO_NUMBERS = ("nan", "inf", "-inf", "+inf", "infinity", "-infinity")
_WHOLE = re.compile(r"(?P<sign>[+-]?)(?P<digits>[0-9]+)(\.0*)?")
_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")


def fold(text: str) -> str:
    """Return a text in small letters, without the blanks around it.

    >>> fold(" Yes")
    'yes'
    """
    return text.strip().casefold()


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


# How numpy, pandas and decimals write a value that is none.
_MISSING = ("nan", "snan", "nat", "<na>")


def is_written_number(text: str) -> bool:
    """Return whether a text is a number as people write it, whatever they put for the point.

    >>> is_written_number("-1,5"), is_written_number("age")
    (True, False)
    """
    return _NUMBER.fullmatch(text.strip().replace(",", ".")) is not None


def canonical_label(given: object) -> str:
    """Return a record's label as the sealed tables would read it; ``""`` where it is missing.

    A label is text, bytes, a number, a truth value or a UUID. Anything else is a `TypeError`:
    how it is written as text may change with the program that wrote it (a timestamp), or with
    every run (an object without a text of its own), and one record would pass for two.

    >>> [canonical_label(label) for label in (1, "1.0", b"1", "r1 ", None, float("nan"))]
    ['1', '1', '1', 'r1', '', '']
    """
    if isinstance(given, bytes):
        given = given.decode("utf-8")
    if isinstance(given, str):
        return canonical_value(given)
    if given is None or str(given).lower() in _MISSING:
        return ""
    if isinstance(given, bool | np.bool_ | UUID):
        return str(given)
    if isinstance(given, Integral):
        return str(int(given))
    if isinstance(given, Fraction):
        return str(given)
    if isinstance(given, Decimal):
        return canonical_value(str(given))
    if isinstance(given, Real):
        return canonical_value(repr(float(given)))
    raise TypeError(
        f"a label is text, a number, a truth value or a UUID, got {given!r} of type "
        f"{type(given).__name__}; write it as text"
    )


# Scripts that are written within one word, and look like no other.
_EAST_ASIAN = frozenset({"CJK", "HIRAGANA", "KATAKANA", "HANGUL", "BOPOMOFO", "IDEOGRAPHIC"})
# Letters and marks that show nothing, besides controls of format and selectors of variants.
_UNSEEN = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0")


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
