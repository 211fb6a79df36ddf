"""The parts that a report is made of, and how its numbers are written."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import ceil, floor, isfinite

from proxyguard.certificate.wording import at_least, at_most, percent

SECTIONS = (
    "evidence", "picks", "not certified", "draws", "plan", "sequential", "privacy", "provenance",
)  # fmt: skip
"""Where a table belongs, in the order of the page."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Rows under a heading."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    note: str = ""
    section: str = "evidence"


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One step on the way from a count to a bound: how far it goes, and where it ends."""

    label: str
    change: float
    after: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Waterfall:
    """How a bound is built: the first step is what was counted, the last ends at the bound."""

    side: str  # "lower" or "upper"
    certified: bool
    steps: tuple[Step, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """One decision with its sentence, and the numbers that a reader asks for first."""

    name: str
    decision: str
    sentence: str
    lines: tuple[str, ...]
    target: float | None = None
    lower: float | None = None
    upper: float | None = None
    certified: bool = True  # whether the bounds are certified, or only the decision
    binding: str = ""  # the requirement that most releases are held up by
    warning: str = ""  # what a reader must know before the sentence: no guarantee remains
    together: str = ""  # how sure both ends of the interval are, each and together
    waterfalls: tuple[Waterfall, ...] = ()


def cut(value: float | str, *, up: bool) -> str:
    """Return a number with four decimals, rounded so that it claims no more."""
    number = float(value)
    if not isfinite(number):
        return str(value)
    return f"{(ceil if up else floor)(number * 10_000) / 10_000:.4f}"


def amount(text: str | Fraction) -> str:
    """Return a budget's amount as a decimal where it is one, else as a fraction beside it.

    >>> amount("1/40"), amount("1/60")
    ('0.025', '1/60 = 0.016667')
    """
    value = Fraction(text)
    decimal = f"{float(value):.6g}"
    return decimal if Fraction(decimal) == value else f"{value} = {float(value):.5g}"


def range_words(lower: float, upper: float, *, decision: str, target: float) -> str:
    """Return the interval in words, each end rounded so that it claims less.

    A decision is about more, or less, than the target: an end that lies on it says so.
    """
    least, most = f"at least {at_least(lower)}", f"at most {at_most(upper)}"
    if lower > upper:
        return f"contradictory: {least}, {most}"
    if lower <= 0.0 and upper >= 1.0:
        return "between 0 % and 100 %"
    if upper >= 1.0:
        strict = decision == "validated" and lower <= target
        return f"more than {percent(target)}" if strict else least
    if lower <= 0.0:
        strict = decision == "violation" and upper >= target
        return f"less than {percent(target)}" if strict else most
    return f"between {at_least(lower)} and {at_most(upper)}"
