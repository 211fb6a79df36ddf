"""The three decisions."""

from __future__ import annotations

from enum import Enum


class Decision(Enum):
    """What the audit says; failure to validate is not evidence of a violation."""

    VALIDATED = "validated"
    UNRESOLVED = "unresolved"
    VIOLATION = "violation"
