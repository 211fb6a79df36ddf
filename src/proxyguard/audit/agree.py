"""Do two plain values say the same, but for what another machine's arithmetic may do?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import isclose
from typing import Any

from proxyguard.errors import SealError

CLOSE = 1e-9
"""Relative difference that another machine's arithmetic may make in a derived number."""


def agree(first: Any, second: Any, where: str) -> None:
    """Raise where two plain values differ by more than arithmetic explains."""
    for place in _differences(first, second, where):
        raise SealError(f"{place} does not follow from the record")


def _differences(first: Any, second: Any, where: str) -> Iterator[str]:
    if isinstance(first, Mapping) and isinstance(second, Mapping):
        if set(first) != set(second):
            yield where
            return
        for key in first:
            yield from _differences(first[key], second[key], f"{where}, {key}")
    elif isinstance(first, list | tuple) and isinstance(second, list | tuple):
        if len(first) != len(second):
            yield where
            return
        for i, (a, b) in enumerate(zip(first, second, strict=True)):
            yield from _differences(a, b, f"{where}, {i}")
    elif _is_number(first) and _is_number(second):
        if not isclose(first, second, rel_tol=CLOSE, abs_tol=1e-300):
            yield where
    elif first != second:
        yield where


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
