"""Ramp and block scores of registered requirements, and what an invalid release can reach."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from proxyguard.exact import contamination
from proxyguard.registry.requirement import Requirement

Array = NDArray[np.float64]
Requirements = Sequence[Requirement]


def slack_scores(requirements: Requirements, means: Array) -> NDArray[np.bool_]:
    """Return which sample means, last axis the requirements, all keep their cutoffs (Eq. (10))."""
    return contamination.slack_score(means, _cutoffs(requirements))


def ramp_scores(requirements: Requirements, means: Array) -> Array:
    """Return the ramp scores of sample means, whose last axis is the requirements (Eq. (18))."""
    return contamination.ramp_score(means, _cutoffs(requirements), _ramps(requirements))


def ramp_ceiling(requirements: Requirements, n: int) -> float:
    """Return ``kappa_h``: the mean ramp score that an invalid release can have, at most."""
    return max(
        contamination.ramp_ceiling(r.unit_cutoff, r.unit_ramp, r.unit_limit, n)
        for r in requirements
    )


def ramp_sensitivity(requirements: Requirements, n: int) -> float:
    """Return ``rho_h``: how far one record can move a ramp score."""
    return contamination.ramp_sensitivity(_ramps(requirements), n)


def block_witnesses(requirements: Requirements, means: Array) -> Array:
    """Return the scores of block means: ramped where every ramp is registered, else hard."""
    if _ramped(requirements):
        return ramp_scores(requirements, means)
    return slack_scores(requirements, means).astype(np.float64)


def block_ceiling(requirements: Requirements, size: int) -> float:
    """Return ``kappa_m``: the mean score that an invalid release can have on a block."""
    if _ramped(requirements):
        return ramp_ceiling(requirements, size)
    return max(
        contamination.chernoff_ceiling(r.unit_cutoff, r.unit_limit, size) for r in requirements
    )


def _cutoffs(requirements: Requirements) -> Array:
    return np.array([r.unit_cutoff for r in requirements])


def _ramps(requirements: Requirements) -> Array:
    return np.array([r.unit_ramp for r in requirements])


def _ramped(requirements: Requirements) -> bool:
    return all(r.ramp is not None for r in requirements)
