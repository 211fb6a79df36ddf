"""The three decisions and the bounds they rest on."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from proxyguard.registry.budget import Budget


class Decision(Enum):
    """What the audit says; failure to validate is not evidence of a violation."""

    VALIDATED = "validated"
    UNRESOLVED = "unresolved"
    VIOLATION = "violation"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReliabilityBound:
    """A one-sided confidence bound on the chance that a fresh release is valid.

    ``steps`` are the numbers it was built from, in order, for a reader to follow.
    ``pvalue`` tests the registered target; ``outer`` names the part of the budget at
    which Holm compares it across a family of mechanisms.
    """

    value: float
    budget: Budget  # this mechanism's own
    rests_on: str
    steps: tuple[tuple[str, float], ...]
    pvalue: float | None = None
    outer: str | None = None
