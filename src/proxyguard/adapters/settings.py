"""Options of a generator as declared, checked: whole numbers, and numbers written as text."""

from __future__ import annotations

import math
from fractions import Fraction

from proxyguard.errors import RegistryError
from proxyguard.registry.fields import number


def whole(value: object, name: str, least: int = 1) -> int:
    """Return a whole number of at least ``least``."""
    # To Python true is an int, and would be 1 row or 1 bin.
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise RegistryError(f"{name} is a whole number of at least {least}, got {value!r}")
    return value


def exact(
    value: object, name: str, *, above: int | None = None, most: int | None = None
) -> Fraction:
    """Return a number exactly as it is written; a float is what its shortest digits say.

    Parameters
    ----------
    value
        The option as declared: text, a number or a fraction.
    name
        The option, as the error names it.
    above, most
        What it has to exceed, and what it may not exceed.

    Raises
    ------
    RegistryError
        If it is no number, or out of these limits.
    """
    found = None
    try:
        if isinstance(value, float):  # a float of NumPy is one, and is written otherwise
            found = Fraction(repr(float(value)))
        elif isinstance(value, str | int | Fraction) and not isinstance(value, bool):
            found = Fraction(value)
    except (ValueError, ZeroDivisionError):
        found = None
    too_low = found is not None and above is not None and found <= above
    too_high = found is not None and most is not None and found > most
    if found is None or too_low or too_high:
        limits = ([] if above is None else [f"above {above}"]) + (
            [] if most is None else [f"at most {most}"]
        )
        words = f"a number {' and '.join(limits)}".rstrip()
        raise RegistryError(f'{name} is {words}, such as "1" or "0.1", got {value!r}')
    return found


def decimal(value: object, name: str, *, low: float = 0.0, high: float = math.inf) -> float:
    """Return a number from ``low`` to ``high``, given as one or written as text."""
    found = math.nan
    if isinstance(value, str):
        try:
            found = number(value)
        except (ValueError, ZeroDivisionError, OverflowError):
            found = math.nan
    elif isinstance(value, int | float) and not isinstance(value, bool):
        found = float(value)
    # NaN compares with nothing, so that what could not be read is refused here too.
    if not (low <= found <= high and math.isfinite(found)):
        limits = f"from {low:g} to {high:g}" if math.isfinite(high) else f"of at least {low:g}"
        raise RegistryError(f'{name} is a number {limits}, such as "0.5", got {value!r}')
    return found


def positive_decimal(value: object, name: str) -> float:
    """Return a number above 0, given as one or written as text."""
    found = decimal(value, name)
    if found == 0.0:
        raise RegistryError(f"{name} is a number above 0, got {value!r}")
    return found
