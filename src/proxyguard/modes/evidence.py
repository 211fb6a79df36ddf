"""What a mode may look at: p-values, counts and means, never a loss array.

`proxyguard.evidence` gathers it. The types here say what of it a mode reads, so that a mode
can be written, planned and tested before there is a single loss.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from proxyguard.registry.design import Design
from proxyguard.registry.requirement import Requirement
from proxyguard.registry.test import ComponentTest

Array = NDArray[np.float64]


class Column(Protocol):
    """The statistics of one requirement over all releases, on the unit scale."""

    @property
    def n(self) -> int:
        """Records, or clusters, that count for this requirement."""

    @property
    def mean(self) -> Array:
        """The mean of each release."""

    @property
    def count(self) -> NDArray[np.int64] | None:
        """Losses at the upper bound, where they are two-valued."""

    @property
    def log_final(self) -> Array | None:
        """Log capital of betting, both directions."""

    @property
    def log_evalue(self) -> Array | None:
        """Log capital of betting with fixed stakes, both directions."""

    @property
    def block_means(self) -> Array | None:
        """The mean of each release on each block of records."""


class Reading(Protocol):
    """How the losses were read."""

    @property
    def design(self) -> Design:
        """How the target was sampled."""

    @property
    def block_size(self) -> int | None:
        """Records of a block, where the mode has blocks."""


class Evidence(Protocol):
    """P-values in both directions and statistics of R releases and J requirements."""

    @property
    def releases(self) -> tuple[str, ...]:
        """The names of the releases."""

    @property
    def requirements(self) -> tuple[Requirement, ...]:
        """What was tested."""

    @property
    def tests(self) -> tuple[ComponentTest, ...]:
        """By which tests."""

    @property
    def reading(self) -> Reading:
        """How the losses were read."""

    @property
    def n_records(self) -> tuple[int, ...]:
        """Records, or clusters, that count, a requirement."""

    @property
    def columns(self) -> Sequence[Column]:
        """The statistics of each requirement."""

    @property
    def n_releases(self) -> int:
        """``R``."""

    @property
    def n_requirements(self) -> int:
        """``J``."""

    @property
    def violation_pvalues(self) -> Array:
        """P-values of ``mu <= tau``, (R, J)."""

    @property
    def release_pvalues(self) -> Array:
        """``p_r``, raw, never adjusted (Eq. (7))."""

    @property
    def release_violation_pvalues(self) -> Array:
        """``q_r``: Bonferroni over requirements (theory section 4)."""

    @property
    def uniforms(self) -> Array:
        """One uniform a release, of the target's own seed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DirectEvidence:
    """Favorable scores and the ceiling ``kappa`` that belongs to the very same score."""

    favorable: int
    n_releases: int
    kappa: float
    score: str  # what a favorable score is, in words
