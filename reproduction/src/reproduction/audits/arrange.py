"""Rows in an order in which an audit's own division gives parts that are known beforehand.

The paper divided its tables by rules that an audit does not have: a permutation by NumPy, or a
stratified holdout that is halved. An audit reserves by NumPy's choice and divides development by
scikit-learn's shuffle, each from a registered seed. So rows are put where these will pick them.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import train_test_split

Rows = NDArray[np.int64]


def divided(training: Rows, validation: Rows, *, fraction: float, seed: int) -> Rows:
    """Return all rows, ordered so that the registered division gives these two parts."""
    n = training.size + validation.size
    first, second = train_test_split(np.arange(n), test_size=fraction, random_state=seed)
    if (len(first), len(second)) != (training.size, validation.size):
        raise ValueError(
            f"a fraction of {fraction} gives parts of {len(first)} and {len(second)} rows, not "
            f"{training.size} and {validation.size}"
        )
    order = np.empty(n, dtype=np.int64)
    order[first], order[second] = training, validation
    return order


def reserved(target: Rows, rest: Rows, *, seed: int) -> Rows:
    """Return all rows, ordered so that the registered reserve is this target."""
    n = target.size + rest.size
    chosen = np.random.default_rng(seed).choice(n, size=target.size, replace=False)
    others = np.ones(n, dtype=bool)
    others[chosen] = False
    order = np.empty(n, dtype=np.int64)
    order[np.sort(chosen)], order[others] = target, rest
    return order
