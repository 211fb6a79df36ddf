"""The three decisions."""

from __future__ import annotations

from enum import StrEnum


class Decision(StrEnum):
    """What the audit says; failure to validate is not evidence of a violation.

    A text too, so that it is written into documents and printed as its word.

    >>> print(Decision.VALIDATED)
    validated
    """

    VALIDATED = "validated"
    UNRESOLVED = "unresolved"
    VIOLATION = "violation"
