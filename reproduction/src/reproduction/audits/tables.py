"""Tables in Markdown, and how their cells are written."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

ORDER = ("validated", "unresolved", "violation")


def table(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """Return a table in Markdown."""
    lines = [columns, ["---"] * len(columns), *rows]
    return "".join("| " + " | ".join(str(cell) for cell in line) + " |\n" for line in lines)


def share(counted: tuple[int, int]) -> str:
    """Return a count and what it is out of."""
    return f"{counted[0]} of {counted[1]}"


def marked(mechanism: str, others: Mapping[str, str]) -> str:
    """Return a mechanism's name, with what is to be said of it in brackets.

    >>> marked("high", {"high": "configuration 01 here, 02 published"})
    'high (configuration 01 here, 02 published)'
    """
    words = others.get(mechanism, "")
    return f"{mechanism} ({words})" if words else mechanism


def tally(counts: Mapping[str, int]) -> str:
    """Return how many there are of each verdict, in words."""
    return ", ".join(f"{counts[one]} {one}" for one in ORDER if counts.get(one))
