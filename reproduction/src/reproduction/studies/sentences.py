"""Sentences about rows: a number is taken from a row, and without its row nothing is said."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from reproduction.studies.counts import VIOLATION
from reproduction.studies.rows import Row
from reproduction.studies.study import Status

Rows = Sequence[Row]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """The words of one section."""

    asks: str
    see: Callable[[Rows], Sequence[str]] = lambda rows: ()
    beware: str = ""
    ours: str = ""  # why nothing of ours stands in the tables, where that is so


def pick(rows: Rows, method: str, metric: str, **cell: Any) -> Row | None:
    """Return the one row of a method and metric whose cell has these values, if it is there."""
    found = [
        row
        for row in rows
        if row.method == method
        and row.metric == metric
        and all(row.cell.get(name) == value for name, value in cell.items())
    ]
    return found[0] if len(found) == 1 else None


def say(sentence: str, **found: Row | None) -> list[str]:
    """Return the sentence with rates as percentages, or nothing if a row is not there."""
    if any(row is None for row in found.values()):
        return []
    return [sentence.format(**{k: percent(row.value) for k, row in found.items() if row})]


def percent(rate: float) -> str:
    """Return a rate as a percentage.

    >>> percent(0.0194), percent(1.0), percent(0.00053)
    ('1.9 %', '100 %', '0.05 %')
    """
    if rate in (0.0, 1.0):
        return f"{100 * rate:.0f} %"
    return f"{100 * rate:.2f} %" if rate < 0.001 else f"{100 * rate:.1f} %"


def cell_words(cell: Mapping[str, Any], names: Sequence[str] | None = None) -> str:
    """Return a cell's parameters in words.

    >>> cell_words({"n": 500, "eta": 0.95})
    'n 500, eta 0.95'
    """
    shown = cell if names is None else {name: cell[name] for name in names if name in cell}
    return ", ".join(
        f"{k} {v:g}" if isinstance(v, int | float) else f"{k} {v}"
        for k, v in shown.items()
        if not isinstance(v, tuple | list)
    )


@dataclass(frozen=True, slots=True)
class Gain:
    """One method's value minus that of the paper's best valid method in the same cell."""

    row: Row
    best: Row

    @property
    def size(self) -> float:
        """The difference."""
        return self.row.value - self.best.value

    @property
    def clear(self) -> bool:
        """Whether it is more than two standard errors of a difference of independent runs."""
        errors = (self.row.standard_error or 0.0, self.best.standard_error or 0.0)
        return abs(self.size) > 2.0 * float(np.hypot(*errors))


def gains(rows: Rows, metric: str, ours: str) -> list[Gain]:
    """Return one method's gain over the paper's best valid method in every cell."""
    papers = (Status.REGISTERED.value, Status.POST_HOC.value)
    found = []
    for row in rows:
        if row.method == ours and row.metric == metric:
            theirs = [
                other
                for other in rows
                if other.cell == row.cell and other.metric == metric and other.status in papers
            ]
            if theirs:
                found.append(Gain(row, max(theirs, key=lambda other: other.value)))
    return found


def gain_sentences(
    rows: Rows, metric: str, ours: str, names: Sequence[str], *, above: str = ""
) -> list[str]:
    """Return where one of our methods gains and loses most against the paper's best."""
    found = gains(rows, metric, ours)
    if not found:
        return []
    most, least = max(found, key=lambda g: g.size), min(found, key=lambda g: g.size)
    better = sum(g.clear and g.size > 0 for g in found)
    worse = sum(g.clear and g.size < 0 for g in found)
    sentence = (
        f"`{ours}` against the paper's best valid method of each cell: clearly above in {better} "
        f"and clearly below in {worse} of {len(found)} cells{above} (by two standard errors); "
        f"largest gain {100 * most.size:.1f} points ({cell_words(most.row.cell, names)})"
    )
    if least.size < 0:
        where = cell_words(least.row.cell, names)
        return [f"{sentence}, largest loss {-100 * least.size:.1f} points ({where})."]
    return [f"{sentence}."]


def rarely_shown(rows: Rows) -> list[str]:
    """Return in how many cells no unreliability is shown, where bad releases are barely bad."""
    own = [row for row in rows if row.metric == VIOLATION]
    if not own:
        return []
    never = sum(row.value == 0.0 for row in own)
    bad, largest = max(row.cell["bad"] for row in own), max(row.value for row in own)
    beyond = "" if never == len(own) else f", at most {percent(largest)} in the others"
    return [
        f"`{VIOLATION}` is exactly 0 in {never} of {len(own)} cells{beyond}: an invalid release "
        f"has a risk of at most {bad:g} against a limit of .10, which its records seldom show."
    ]


def asked_at_target(rows: Rows) -> list[str]:
    """Return where the chance to show unreliability is asked: it is the same in other cells."""
    cells = {cell_words(row.cell) for row in rows}
    asked = {cell_words(row.cell) for row in rows if row.metric == VIOLATION}
    if not asked or asked == cells:
        return []
    return [
        f"`{VIOLATION}` is asked in {len(asked)} of {len(cells)} cells, those with eta .80, and "
        "empty elsewhere: its mechanisms have a reliability of their own, whatever the cell's eta."
    ]


def largest_error(rows: Rows, metric: str, *, above: float | None = None) -> list[str]:
    """Return the largest error rate of any valid method, over metrics that begin so."""
    valid = [
        row
        for row in rows
        if row.metric.startswith(metric)
        and row.status not in (Status.INVALID.value, Status.ORACLE.value)
        and (above is None or row.cell["eta"] <= above)
    ]
    if not valid:
        return []
    worst = max(valid, key=lambda row: row.value)
    limits = ""
    if worst.wilson is not None:
        limits = f", 95 % limits {percent(worst.wilson[0])} and {percent(worst.wilson[1])}"
    exact = "" if worst.exact is None else f", exact {percent(worst.exact)}"
    oracle = next(
        (
            row
            for row in rows
            if row.status == Status.ORACLE.value
            and row.cell == worst.cell
            and row.metric == worst.metric
        ),
        None,
    )
    beside = ""
    if oracle is not None:
        known_rate = "" if oracle.exact is None else f", exact {percent(oracle.exact)}"
        beside = f" The oracle on the same draws has {percent(oracle.value)}{known_rate}."
    known = [row.exact for row in valid if row.exact is not None]
    sums = f" The largest of the {len(known)} exact ones is {percent(max(known))}." if known else ""
    return [
        f"The largest of {len(valid)} estimated error rates of valid methods is "
        f"{percent(worst.value)} (`{worst.method}`{limits}{exact}); the budget is 5 %, and the "
        f"largest of so many estimates is likely to lie above its own rate.{beside}{sums}"
    ]
