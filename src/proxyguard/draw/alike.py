"""Whether two estimators are the same in every attribute, bit for bit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

UNLIKE = ("_stop_words_id",)
"""Attributes that hold a memory address, and say nothing about a model."""


def alike(one: Any, two: Any) -> bool:
    """Return whether two values have equal types and contents; what is unknown is never alike."""
    if type(one) is not type(two):
        return False
    if isinstance(one, np.ndarray):
        return _arrays(one, two)
    if isinstance(one, np.generic):
        return bool(one.tobytes() == two.tobytes())
    compare = _COMPARED.get(type(one))
    if compare is not None:
        return compare(one, two)
    if type(one).__module__.startswith("sklearn.") and hasattr(one, "get_params"):
        return _tables(_attributes(one), _attributes(two))
    return False


def _attributes(estimator: Any) -> dict[str, Any]:
    return {name: value for name, value in vars(estimator).items() if name not in UNLIKE}


def _arrays(one: Any, two: Any) -> bool:
    if one.dtype != two.dtype or one.shape != two.shape:
        return False
    if one.dtype == object:
        return _sequences(one.ravel().tolist(), two.ravel().tolist())
    # The order in memory is the order in which numbers are added up.
    order = one.flags.c_contiguous and two.flags.c_contiguous
    return bool(order and one.dtype.names is None and one.tobytes() == two.tobytes())


def _sequences(one: Any, two: Any) -> bool:
    if len(one) != len(two):
        return False
    if all(type(value) is str for value in one) and all(type(value) is str for value in two):
        return bool(one == two)
    return all(alike(a, b) for a, b in zip(one, two, strict=True))


def _tables(one: Any, two: Any) -> bool:
    return one.keys() == two.keys() and all(alike(value, two[key]) for key, value in one.items())


def _vocabularies(one: Any, two: Any) -> bool:
    """Compare tables, and first those of texts and numbers, which are long."""
    plain = {type(value) for table in (one, two) for value in table.values()} <= {int}
    keys = {type(key) for table in (one, two) for key in table} <= {str}
    return bool(one == two) if plain and keys else keys and _tables(one, two)


def _slices(one: Any, two: Any) -> bool:
    return alike((one.start, one.stop, one.step), (two.start, two.stop, two.step))


def _equal(one: Any, two: Any) -> bool:
    return bool(one == two)


_COMPARED: dict[type, Callable[[Any, Any], bool]] = {
    str: _equal, int: _equal, bool: _equal, type(None): _equal, type: _equal,
    float: lambda one, two: repr(one) == repr(two),
    list: _sequences, tuple: _sequences, dict: _vocabularies, slice: _slices,
}  # fmt: skip
