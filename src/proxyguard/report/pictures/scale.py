"""From values to pixels, and from numbers to words that claim no more than they should."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, floor, log10


@dataclass(frozen=True, slots=True)
class Scale:
    """A straight line from values to pixels."""

    low: float
    high: float
    start: float
    end: float

    def __call__(self, value: float) -> float:
        """Return the pixel of a value, held within the ends."""
        share = (value - self.low) / (self.high - self.low)
        return self.start + min(1.0, max(0.0, share)) * (self.end - self.start)


def ticks(low: float, high: float, about: int = 4) -> list[float]:
    """Return round values between two ends."""
    step = 10.0 ** floor(log10((high - low) / about))
    for factor in (1.0, 2.0, 2.5, 5.0, 10.0):
        if (high - low) / (step * factor) <= about:
            step *= factor
            break
    first, last = ceil(low / step - 1e-9), floor(high / step + 1e-9)
    return [round(k * step, 12) + 0.0 for k in range(first, last + 1)]


def plain(value: float) -> str:
    """Return a number with at most four significant digits."""
    return f"{value:.4g}"


def decimals(limit: float) -> int:
    """Return how many decimals estimates near a limit are written with: four digits of it."""
    return 4 if limit == 0.0 else min(9, max(1, 3 - floor(log10(abs(limit)))))


def evalue_words(evalue: float) -> str:
    """Return an e-value for a table."""
    return f"{evalue:,.0f}" if evalue >= 100.0 else plain(evalue)


def count(number: int, noun: str) -> str:
    """Return a count with its noun: 1 release, 1,000 releases."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"
