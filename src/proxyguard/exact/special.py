"""``scipy.special``, loaded when one of its functions is first called.

It takes longer to import than everything else together, and a command that only reads a
record needs none of it.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from scipy import special
else:

    class _LoadedWhenUsed:
        def __getattr__(self, name: str) -> object:
            function = getattr(import_module("scipy.special"), name)
            setattr(self, name, function)  # found directly from now on
            return function

    special = _LoadedWhenUsed()

__all__ = ["special"]
