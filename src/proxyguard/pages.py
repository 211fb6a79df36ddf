"""How a certificate or a plan shows itself as a page, without knowing who draws it.

They come before reports in the order of the layers and may not import them. The package
says here what draws, and it is loaded when something is shown.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol


class Drawer(Protocol):
    """What turns a value into HTML."""

    def fragment_of(self, value: object) -> str:
        """Return a piece of HTML for a notebook."""

    def page_of(self, value: object) -> str:
        """Return a whole page."""


_loaders: list[Callable[[], Drawer]] = []


def drawn_by(load: Callable[[], Drawer]) -> None:
    """Say what draws; ``load`` is called when something is shown."""
    _loaders[:] = [load]


def fragment_of(value: object) -> str:
    """Return a value as a notebook shows it."""
    return _loaders[0]().fragment_of(value)


def page_of(value: object) -> str:
    """Return a value as a whole page, which needs nothing else and asks for nothing."""
    return _loaders[0]().page_of(value)
