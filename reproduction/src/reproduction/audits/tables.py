"""Tables in Markdown, how their cells are written, and the words of words.toml between them."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping, Sequence
from importlib.resources import files
from typing import Any

Row = tuple[str, ...]
Rows = tuple[Row, ...]
ORDER = ("validated", "unresolved", "violation")
WORDS: Mapping[str, str] = tomllib.loads(
    files("reproduction.audits").joinpath("words.toml").read_text(encoding="utf-8")
)


def say(paragraph: str, **filled: object) -> str:
    """Return a paragraph of words.toml with what stands in its braces.

    >>> say("shortened", draws=3)
    'This run was shortened to at most 3 draws a mechanism.\\n'
    """
    return WORDS[paragraph].format(**filled)


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
