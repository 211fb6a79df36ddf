"""A budget for choosing releases after looking: the `[picks]` table of a declaration."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction

from pydantic import Field

from proxyguard.registry.budget import family_shares
from proxyguard.registry.fields import DeclarationPart, Share

DEFAULT_PARTS = (10, 1000)
"""Default thresholds as parts of the local level: the first recognizes many releases and each
makes up for four that are not recognized, the second few, and each makes up for 500."""


class Picks(DeclarationPart):
    """How many of any releases that a reader picks are valid, with a budget of its own.

    ``thresholds`` are the levels of the mixture calibrator (theory section 3) that turns
    release p-values into e-values; left out, they follow from the local level.
    """

    alpha: Share = Field(description="Its error level, apart from the claim's.")
    thresholds: tuple[Share, ...] | None = Field(
        default=None,
        min_length=1,
        description="Thresholds of the calibrator; left out, they follow from the level.",
    )

    def levels(
        self, groups: Sequence[str], shares: Mapping[str, str] | None
    ) -> dict[str, Fraction]:
        """Return each group's level; they sum to ``alpha``, so that all groups hold at once."""
        return {
            name: Fraction(self.alpha) * share
            for name, share in family_shares(groups, shares).items()
        }

    def cutoffs(self, level: Fraction) -> tuple[Fraction, ...]:
        """Return the calibrator's thresholds at a local level."""
        if self.thresholds is not None:
            return tuple(Fraction(one) for one in self.thresholds)
        return tuple(level / part for part in DEFAULT_PARTS)

    def objections(self, groups: Sequence[str], shares: Mapping[str, str] | None) -> list[str]:
        """Return why no release could ever be counted as valid; empty if some could."""
        reasons = []
        for name, level in self.levels(groups, shares).items():
            cutoffs = self.cutoffs(level)
            largest = sum((1 / t for t in cutoffs), Fraction(0)) / len(cutoffs)
            if largest < 1 / level:
                reasons.append(
                    f"{name!r}: the largest e-value is {float(largest):.4g} with thresholds "
                    f"{', '.join(self.thresholds or ())}, and at its share {float(level):.4g} of "
                    f"the error it takes {float(1 / level):.4g} to call any release valid; "
                    "register smaller thresholds, or leave them out"
                )
        return reasons
