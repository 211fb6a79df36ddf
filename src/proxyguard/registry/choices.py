"""The words of a claim that several modes share: bound, score, family."""

from __future__ import annotations

from enum import Enum


class Bound(Enum):
    """How contamination by invalid releases is accounted for."""

    PAPER = "paper"  # as published
    RESCALED = "rescaled"  # only invalid releases contaminate
    SHARP = "sharp"  # no split between draws and target


class Score(Enum):
    """What makes a release score favorably."""

    PVALUE = "pvalue"  # its p-value is at most the threshold
    SLACK = "slack"  # every mean is at most its cutoff, Eq. (10)


class Family(Enum):
    """What is certified for several mechanisms at once."""

    DECISIONS = "decisions"  # familywise decisions, by Holm
    BOUNDS = "bounds"  # simultaneous bounds, at local levels that sum to the budget
