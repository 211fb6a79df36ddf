"""Checks that the functions of `exact/` share, each with the value it saw."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray


def level(value: float, name: str = "alpha") -> float:
    """Return an error level as it is, or say that it is none."""
    if not 0.0 < value < 1.0:
        raise ValueError(f"{name} must lie in (0, 1), got {value}")
    return value


def pvalues(values: ArrayLike) -> NDArray[np.float64]:
    """Return p-values as an array, or name the first that is none."""
    p = np.asarray(values, dtype=np.float64)
    if p.size == 0:
        raise ValueError("need at least one p-value, got none")
    outside = p[~((p >= 0.0) & (p <= 1.0))]
    if outside.size:
        raise ValueError(f"p-values must lie in [0, 1], got {outside[0]}")
    return p


def counts(
    successes: ArrayLike, trials: ArrayLike
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return counts and trials as arrays of whole numbers, ``0 <= count <= trials``."""
    k, n = np.asarray(successes, dtype=np.float64), np.asarray(trials, dtype=np.float64)
    if not np.all((n >= 1) & (n == np.floor(n))):
        raise ValueError(f"trials must be whole numbers of at least 1, got {n}")
    if not np.all((k == np.floor(k)) & (k >= 0) & (k <= n)):
        raise ValueError(f"counts must be whole numbers in [0, trials], got {k} of {n}")
    return k, n


def unit_records(values: ArrayLike) -> NDArray[np.float64]:
    """Return records on the unit scale as rows, or name the first outside [0, 1]."""
    u = np.atleast_2d(np.asarray(values, dtype=np.float64))
    outside = u[~((u >= 0.0) & (u <= 1.0))]
    if outside.size:
        raise ValueError(f"records must lie in [0, 1] on the unit scale, got {outside[0]}")
    return u
