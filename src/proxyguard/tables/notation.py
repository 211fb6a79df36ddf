"""How texts write numbers and dates, "1,234.5", "$12", "31.01.2024", and what number each is.

A `Notation` reads texts and is never guessed where a decision rests on it: `recognised` proposes
one for a column, which a learner may use inside its own fit and a person may declare.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from proxyguard.exact.rounding import Array

if TYPE_CHECKING:
    import pandas as pd

# Dates from the year down, with or without a time: "2024-01-31", "2024-01-31 14:05".
ISO = "ISO8601"
# A column is in a notation if at least this share of what it holds is.
MOST = 0.8
# Different texts of a column that a notation is recognised from: the most frequent ones.
LOOKED_AT = 5_000
# Blanks and apostrophes that printed tables have between thousands, beside those of a keyboard.
_TYPED = str.maketrans({"\u00a0": " ", "\u2009": " ", "\u202f": " ", "\u2019": "'"})
# What is taken for a unit that nobody declared: of money and shares alone, for "E11" is a code.
_UNITS = (
    r"(?:US|AU|CA|NZ|HK|[ACRS])?\$|[£¥€₩₪₫₴₹₺₽¢%‰]|kr\.?|SFr\.?|Fr\.|Rs\.?|zł|Kč|Ft|AUD|BRL|CAD|CHF"
    r"|CNY|CZK|DKK|EUR|GBP|HKD|HUF|ILS|INR|ISK|JPY|KRW|MXN|NOK|NZD|PLN|RON|RUB|SEK|SGD|THB|TRY|UAH"
    r"|USD|ZAR"
)


@dataclass(frozen=True)
class Notation:
    """How a column writes numbers, or dates where it has a format for them.

    A number is itself. A date is its days since 1970-01-01, with the time of day as a fraction;
    a time of day alone is a fraction of a day.

    Parameters
    ----------
    thousands
        What stands between groups of three digits; nothing where they are not grouped.
    decimal
        What stands before the decimals.
    date
        The format of dates, as `datetime.strptime` has it, or ``ISO8601``; nothing for numbers.
    unit
        What may stand before or after a number, such as "$": it changes nothing, "12 %" is 12. A
        number in parentheses is negative then, as in accounts.
    """

    thousands: str = ""
    decimal: str = "."
    date: str = ""
    unit: str = ""

    def __str__(self) -> str:
        if self.date:
            return f"dates as {'2024-01-31' if self.date == ISO else self.date!r}"
        between = f" with {self.thousands!r} between thousands" if self.thousands else ""
        unit = f" in {self.unit!r}" if self.unit else ""
        return f"numbers{unit}{between}, {self.decimal!r} before decimals"

    @property
    def has_days(self) -> bool:
        """Whether it is of dates, and not of numbers or of times of day alone."""
        return _OF_DAYS.search(self.date) is not None

    def numbers(self, texts: Sequence[str]) -> Array:
        """Return the number of each text; NaN where a text is none in this notation."""
        if not texts:
            return np.empty(0)
        return self._days(texts) if self.date else np.array([self._number(t) for t in texts])

    def _number(self, text: str) -> float:
        text = text.translate(_TYPED).strip()
        if self.unit:
            text = in_unit(text, re.escape(self.unit)).number
        if self._digits.fullmatch(text) is None:
            return np.nan
        plain = text.replace(self.thousands, "") if self.thousands else text
        number = float(plain.replace(self.decimal, "."))
        return number if np.isfinite(number) else np.nan  # more digits than a double holds

    @cached_property
    def _digits(self) -> re.Pattern[str]:
        groups = rf"\d{{1,3}}(?:{re.escape(self.thousands)}\d{{3}})+|" if self.thousands else ""
        point = re.escape(self.decimal)
        return re.compile(
            rf"[+-]?(?:(?:{groups}\d+)(?:{point}\d*)?|{point}\d+)(?:[eE][+-]?\d+)?", re.ASCII
        )

    def _days(self, texts: Sequence[str]) -> Array:
        import pandas as pd

        stripped = pd.Series([text.strip() for text in texts], dtype=object)
        if self.date == ISO:
            # pandas takes a year, or digits without a sign between them, for a date as well.
            stripped = stripped.where(stripped.str.match(_ISO_DAY), "")
        times = pd.to_datetime(stripped, format=self.date, errors="coerce", utc=True)
        return np.asarray(_days_since_1970(times, dated=self.has_days))


_ISO_DAY = re.compile(r"\d{4}-\d{2}(-\d{2}([T ]|$)|$)")


_OF_DAYS = re.compile(rf"{ISO}|%[YymdjUW]")


def _days_since_1970(times: pd.Series[pd.Timestamp], *, dated: bool) -> pd.Series[float]:
    import pandas as pd

    # A time of day alone is read as one of the year 1900.
    start = pd.Timestamp("1970-01-01" if dated else "1900-01-01", tz="UTC")
    return (times - start) / pd.Timedelta(days=1)


_DAYS = {
    "2024/01/31": "%Y/%m/%d",
    "31.01.2024": "%d.%m.%Y",
    "31/01/2024": "%d/%m/%Y",
    "01/31/2024": "%m/%d/%Y",
    "31-01-2024": "%d-%m-%Y",
}
_TIMES = {"": "", " 14:05": " %H:%M", " 14:05:59": " %H:%M:%S"}
# The notations that are recognised, each called by an example of it; of equals the first.
KNOWN: dict[str, Notation] = {
    "1234.5": Notation(),
    "1,234.5": Notation(thousands=","),
    "1.234,5": Notation(thousands=".", decimal=","),
    "1 234,5": Notation(thousands=" ", decimal=","),
    "1'234.5": Notation(thousands="'"),
    "2024-01-31": Notation(date=ISO),
    **{
        day + time: Notation(date=_DAYS[day] + _TIMES[time]) for day in _DAYS for time in _TIMES
    },
    "14:05": Notation(date="%H:%M"),
    "14:05:59": Notation(date="%H:%M:%S"),
}  # fmt: skip


_GAPS = frozenset(
    (
        "na", "nan", "nd", "nv", "null", "none", "nil", "ka", "keineangabe", "unbekannt",
        "nichtbekannt", "fehlt", "fehlend", "leer", "unknown", "notknown", "missing", "empty",
        "notavailable", "notapplicable", "inconnu", "inconnue", "manquant", "desconocido",
        "sconosciuto", "onbekend",
    )
)  # fmt: skip
_MARKS = re.compile(r"[\W_]+")


def reads_as_gap(text: str) -> bool:
    """Return whether a text among numbers most likely stands for a missing one.

    Only there: a category may well be called "unknown", and a country "NA".

    >>> [reads_as_gap(text) for text in ("k.A.", "n/a", "-", "Unknown", "<5", "Halle")]
    [True, True, True, True, False, False]
    """
    letters = _MARKS.sub("", text.casefold())
    return letters in _GAPS or (not letters and bool(text.strip()))


_BEYOND = re.compile(r"\s*([<>\u2264\u2265])=?\s*(.*)", re.DOTALL)


def beyond(text: str) -> tuple[str, str] | None:
    """Return the sign and the number of a value beyond what is measured; nothing of another text.

    >>> beyond("<0,6"), beyond("> 90"), beyond("k.A.")
    (('<', '0,6'), ('>', '90'), None)
    """
    met = _BEYOND.fullmatch(text)
    return None if met is None else ("<" if met[1] in "<\u2264" else ">", met[2].strip())


class InUnit(NamedTuple):
    """A number as people write it, taken apart; a text that is none has no unit and is itself."""

    unit: str
    number: str


@cache
def _amounts(units: str) -> re.Pattern[str]:
    minus, unit = r"([(+\-\u2212]?) ?", rf"({units})? ?"
    number = r"([\d.,](?:[\d., 'e+-]*[\d.,])?) ?"
    return re.compile(rf"{minus}{unit}{minus}{number}(\)?) ?{unit}(\)?)", re.ASCII | re.IGNORECASE)


def in_unit(text: str, units: str = _UNITS) -> InUnit:
    """Return the unit of an amount and the number beside it, one in parentheses as a negative one.

    Parameters
    ----------
    text
        The text.
    units
        A regular expression of what a unit may be.

    Examples
    --------
    >>> [in_unit(text).number for text in ("$1,200.50", "($5.00)", "-$5", "1.234,50 kr", "5 kg")]
    ['1,200.50', '-5.00', '-5', '1.234,50', '5 kg']
    """
    met = _amounts(units).fullmatch(" ".join(text.split()))
    if met is None:
        return InUnit("", text)
    sign, before, second, number, inner, after, outer = (group or "" for group in met.groups())
    sign, closed = sign + second, inner + outer
    if len(sign) > 1 or (sign == "(") != (closed == ")") or (before and after):
        return InUnit("", text)
    return InUnit(before or after, ("" if sign in ("", "+") else "-") + number)


def units_of(texts: Sequence[str], counts: Sequence[int]) -> dict[str, int]:
    """Return how many amounts of a column have each unit, where at least half of what it holds has
    one; the most frequent first.

    Examples
    --------
    >>> units_of(["$5", "$1,200", "9"], [3, 1, 1]), units_of(["12 %", "a", "b"], [1, 1, 1])
    ({'$': 4}, {})
    """
    # Most columns have none, which the first of their texts tell.
    if not any(in_unit(text.translate(_TYPED)).unit for text in texts[:100]):
        return {}
    having: dict[str, int] = {}
    spelt: dict[str, str] = {}
    for text, count in zip(texts, counts, strict=True):
        if unit := in_unit(text.translate(_TYPED)).unit:
            unit = spelt.setdefault(unit.casefold(), unit)
            having[unit] = having.get(unit, 0) + count
    if 2 * sum(having.values()) < sum(counts):
        return {}
    return dict(sorted(having.items(), key=lambda item: -item[1]))


def readings(
    texts: Sequence[str], counts: Sequence[int], *, least: float = MOST
) -> dict[str, float]:
    """Return the share of what a column holds that each known notation reads, where it is enough.

    Parameters
    ----------
    texts
        The different texts of the column, without the empty one.
    counts
        How often each occurs.
    least
        The share that is enough.
    """
    weights = np.asarray(counts, dtype=np.float64)
    order = np.argsort(-weights, kind="stable")[:LOOKED_AT]
    sample, weights = [texts[k] for k in order], weights[order]
    # What has no digit is in no notation, and most columns of text have none.
    if not any(any(sign.isdigit() for sign in text) for text in sample[:100]):
        return {}
    shares = {}
    for name, notation in KNOWN.items():
        # A look at the most frequent ones spares most notations the rest.
        few = min(50, len(sample))
        if np.isnan(notation.numbers(sample[:few])).all():
            continue
        share = float(weights[~np.isnan(notation.numbers(sample))].sum() / weights.sum())
        if share >= least:
            shares[name] = share
    return shares


def recognised(texts: Sequence[str], counts: Sequence[int]) -> str | None:
    """Return the notation that reads most of what a column holds; nothing where none does.

    Examples
    --------
    >>> recognised(["1,200", "980", "17,300.5"], [1, 1, 1])
    '1,234.5'
    >>> recognised(["31.01.2024", "02.11.2023"], [4, 2])
    '31.01.2024'
    >>> recognised(["Leipzig", "Halle"], [10, 3])
    """
    shares = readings(texts, counts)
    return max(shares, key=lambda name: shares[name]) if shares else None
