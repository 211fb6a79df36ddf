"""Options of a generator as declared, checked: whole numbers, and numbers written as text."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from fractions import Fraction
from typing import ClassVar, Protocol, Self, TypeVar, cast, runtime_checkable

from proxyguard.errors import RegistryError
from proxyguard.registry import numbers

Parsed = TypeVar("Parsed")
Word = TypeVar("Word", bound=str)
_CHECK = "check"


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
    try:
        found = numbers.exact(value, name)
    except RegistryError:
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
    try:
        found = numbers.real(value, name)
    except RegistryError:
        found = math.nan
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


def truth(given: object, name: str) -> bool:
    """Return what is declared as true or false."""
    if not isinstance(given, bool):
        raise RegistryError(f"{name} is true or false, got {given!r}")
    return given


def pair(given: object, words: str) -> Sequence[object]:
    """Return a list of two; an error begins with the words, which say what the two are."""
    if isinstance(given, str) or not isinstance(given, Sequence) or len(given) != 2:
        raise RegistryError(f"{words}; got {given!r}")
    return given


def widths(given: object, name: str) -> tuple[int, ...]:
    """Return the widths of hidden layers, at least one."""
    if isinstance(given, str) or not isinstance(given, Sequence) or not given:
        raise RegistryError(f"{name} is a list of widths, such as [128, 128], got {given!r}")
    return tuple(whole(width, f"{name}[{k}]") for k, width in enumerate(given))


def one_of(*choices: Word) -> Callable[[object, str], Word]:
    """Return the check of an option that is one of these texts."""

    def check(given: object, name: str) -> Word:
        for choice in choices:
            if given == choice:
                return choice
        *first, last = (f'"{choice}"' for choice in choices)
        raise RegistryError(f"{name} is {', '.join(first)} or {last}, got {given!r}")

    return check


def optional(check: Callable[[object, str], Parsed]) -> Callable[[object, str], Parsed | None]:
    """Return the check of an option that may be nothing, and else passes this one."""
    return lambda given, name: None if given is None else check(given, name)


def option(default: Parsed, check: Callable[[object, str], Parsed]) -> Parsed:
    """Return a field of `Options`: what it is where nothing is declared, and how it is checked."""
    metadata = {_CHECK: check}
    if isinstance(default, dict):  # else all that nothing is declared for would share it
        return cast("Parsed", field(default_factory=default.copy, metadata=metadata))
    return field(default=default, metadata=metadata)


@dataclass(frozen=True, slots=True)
class Options:
    """Options as they are declared, under the names of the fields; each of them is an `option`."""

    @classmethod
    def of(cls, declared: Mapping[str, object], where: str) -> Self:
        """Return what is declared of these options, checked; the others are what they are.

        Raises
        ------
        RegistryError
            If one of them means nothing; it begins with ``where``.
        """
        return cls(
            **{
                each.name: each.metadata[_CHECK](declared[each.name], f"{where}: {each.name}")
                for each in fields(cls)
                if each.name in declared
            }
        )

    def describe(self) -> dict[str, object]:
        """Return every option as it is sealed: numbers that are not whole as text."""
        return {each.name: _written(getattr(self, each.name)) for each in fields(self)}


@dataclass(frozen=True, slots=True)
class Mechanism(Options):
    """What is chosen about a mechanism, and what all of its kind have in common."""

    name: ClassVar[str]
    """As it is declared, and as errors begin."""
    mechanism: ClassVar[str]
    """What it is, as it is described."""
    fixed: ClassVar[Mapping[str, str]]
    """What nobody chooses, as it is described."""


@runtime_checkable
class _Described(Protocol):
    def describe(self) -> object: ...


def _written(chosen: object) -> object:
    if isinstance(chosen, _Described):
        return chosen.describe()
    if isinstance(chosen, Mapping):
        return {name: _written(item) for name, item in chosen.items()}
    if isinstance(chosen, tuple):
        return [_written(item) for item in chosen]
    return repr(chosen) if isinstance(chosen, float) else chosen
