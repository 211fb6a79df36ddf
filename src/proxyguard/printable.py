"""How things are shown: text of users where it could act, values in messages, and pages.

Apart from the rest, for the command line loads nothing else.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from html import escape
from typing import TextIO
from unicodedata import east_asian_width

from proxyguard.errors import MissingExtra
from proxyguard.extras import need

# What the lines of a folded line begin with, so that only our own words begin a line.
HANG = "    "
# Letters of what was found that a message repeats.
REPEATED = 60
# Letters of a line that are shown: a reason of a megabyte would scroll the verdict away.
LONGEST = 4000


class Shown:
    """What a notebook shows as HTML: certificates, audits that go on, and plans.

    They come before reports in the order of the layers. This is the one place that reaches
    forward to the report, and only when something is shown (`tests/house/test_layers.py`).
    """

    __slots__ = ()

    def _repr_html_(self) -> str:
        try:
            need("a page")
        except MissingExtra as error:  # a notebook would show a traceback above the answer
            return f"<pre>{escape(str(self))}</pre><p>{escape(str(error))}</p>"
        from proxyguard.report.notebook import fragment_of

        return fragment_of(self)


class ShownAsPage(Shown):
    """What is also a page of its own."""

    __slots__ = ()

    def to_html(self) -> str:
        """Return this as a page of its own, which asks for nothing from outside."""
        need("to_html()")
        from proxyguard.report.notebook import page_of

        return page_of(self)


def printable(text: str, *, keep: str = "") -> str:
    """Return text in which nothing steers a terminal or turns the direction of writing."""
    whole = str(text)
    if whole.isprintable():  # nearly every cell of a large report
        return whole
    return "".join(
        c if c.isprintable() or c in keep else c.encode("unicode_escape").decode() for c in whole
    )


def toml(content: object) -> str:
    """Return a plain value as TOML writes it in a line; nothing in it steers a terminal.

    >>> print(toml({"a b": ["x", "\\x85"], "n": 1}))
    { "a b" = ["x", "\\u0085"], n = 1 }
    """
    if isinstance(content, str):
        # JSON escapes as TOML does, but leaves the controls from U+007F on as they are.
        return "".join(
            sign if sign.isprintable() else f"\\U{ord(sign):08x}" if ord(sign) > 0xFFFF
            else f"\\u{ord(sign):04x}"
            for sign in json.dumps(content, ensure_ascii=False)
        )  # fmt: skip
    if isinstance(content, Mapping):
        inside = (f"{toml_key(str(key))} = {toml(item)}" for key, item in content.items())
        return f"{{ {', '.join(inside)} }}"
    if isinstance(content, Sequence):
        return f"[{', '.join(map(toml, content))}]"
    return json.dumps(content)


def toml_key(name: str) -> str:
    """Return a name as TOML has it before the sign of equality, quoted where it must be."""
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else toml(name)


def write_line(text: str, stream: TextIO, *, indent: str = "", style: str = "") -> None:
    """Write one line that steers nothing, on a terminal folded so that every line is indented."""
    safe = printable(text, keep="\N{NO-BREAK SPACE}")
    encoding = stream.encoding or "utf-8"
    safe = safe.encode(encoding, "backslashreplace").decode(encoding)
    if len(safe) > LONGEST:
        safe = f"{safe[:LONGEST]}... and {len(safe) - LONGEST:,} letters more"
    if not stream.isatty():
        print(f"{indent}{safe}", file=stream)
        return
    width = shutil.get_terminal_size().columns
    for number, line in enumerate(_folded(safe, max(20, width - len(indent) - len(HANG)))):
        shown = f"\033[{style}m{line}\033[0m" if style else line
        print(f"{indent}{HANG if number else ''}{shown}", file=stream)


def _folded(text: str, width: int) -> Iterator[str]:
    """Yield a line in pieces that the terminal does not break itself: it would not indent them."""
    start = used = 0
    for place, letter in enumerate(text):
        cells = _cells(letter)
        if used + cells > width:
            blank = text.rfind(" ", start + width // 2, place)
            end = place if blank < 0 else blank + 1
            yield text[start:end]
            start, used = end, sum(_cells(one) for one in text[end:place])
        used += cells
    yield text[start:]


def _cells(letter: str) -> int:
    """Return how many cells a letter takes at the most; our own bars are drawn in single ones."""
    kind = east_asian_width(letter)
    return 2 if kind in "WF" or (kind == "A" and not "\u2500" <= letter <= "\u257f") else 1


def nearest(written: str, known: Iterable[str]) -> list[str]:
    """Return the known name that a written one was probably meant to be, or nothing.

    >>> nearest("Outcom", ["outcome", "positive"])
    ['outcome']
    """
    by_plain = {name.lower(): name for name in known}
    plain = written.lower()
    # People seldom miss the first letter: without it, only a name that is nearly the same is meant.
    near = [
        name for name in get_close_matches(plain, by_plain, n=3)
        if name[:1] == plain[:1] or name in get_close_matches(plain, [name], cutoff=0.8)
    ]  # fmt: skip
    return [by_plain[name] for name in near[:1]]


def some(names: Sequence[str], most: int = 3) -> str:
    """Return the first names, and how many there are besides.

    >>> some(["a", "b", "c"], 2)
    'a, b and 1 more'
    """
    more = f" and {len(names) - most:,} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def shortly(listed: str) -> str:
    """Return names that stand in one text, the first of them where there are many."""
    names = listed.split(", ")
    return some(names) if len(names) > 4 else listed


def did_you_mean(written: str, known: Iterable[str]) -> str:
    """Return a question for the end of a message, or nothing.

    >>> did_you_mean("bootstap", ["bootstrap", "noise"])
    '; did you mean "bootstrap"?'
    """
    return "".join(f'; did you mean "{name}"?' for name in nearest(written, known))


def found(given: object) -> str:
    """Return a value as a declaration writes it, as far as a message has room for it.

    >>> found(True), found("yes"), found([1]), found(0.5)
    ('true', '"yes"', 'a list', '0.5')
    """
    if isinstance(given, bool):
        return str(given).lower()
    if isinstance(given, str):
        return f'"{given[:REPEATED]}{"..." if len(given) > REPEATED else ""}"'
    if isinstance(given, Mapping):
        return "a table"
    return "a list" if isinstance(given, list | tuple) else str(given)[:REPEATED]
