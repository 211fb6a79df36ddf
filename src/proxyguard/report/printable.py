"""Text of users, shown where it could act: apart, for the command line loads nothing else."""

from __future__ import annotations


def printable(text: str, *, keep: str = "") -> str:
    """Return text in which nothing steers a terminal or turns the direction of writing."""
    whole = str(text)
    if whole.isprintable():  # nearly every cell of a large report
        return whole
    return "".join(
        c if c.isprintable() or c in keep else c.encode("unicode_escape").decode() for c in whole
    )
