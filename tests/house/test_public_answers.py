"""What public names give back says what it is: no table of anything by its key."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator

import pytest

import proxyguard as pg
from proxyguard.audit import audit as status
from proxyguard.audit import outcome

OPEN = re.compile(r"\b(?:dict|Mapping|MutableMapping)\[str, Any\]")
"""A table that may hold anything: whoever has one must read the code to know its keys."""
SHOWN = [getattr(pg, name) for name in pg.__all__] + [
    value
    for module in (outcome, status)
    for value in vars(module).values()
    if inspect.isclass(value) and value.__module__ == module.__name__
]


def answers(public: object) -> Iterator[tuple[str, str]]:
    """Yield every public function and method, with what it says that it returns."""
    if inspect.isfunction(public):
        yield public.__qualname__, str(public.__annotations__.get("return", ""))
    if not inspect.isclass(public):
        return
    for name, member in vars(public).items():
        read = member.fget if isinstance(member, property) else getattr(member, "__func__", member)
        if not name.startswith("_") and inspect.isfunction(read):
            yield f"{public.__name__}.{name}", str(read.__annotations__.get("return", ""))


@pytest.mark.parametrize("public", SHOWN, ids=lambda public: getattr(public, "__name__", "?"))
def test_no_public_name_gives_back_a_table_of_anything(public: object) -> None:
    given = [f"{name} -> {kind}" for name, kind in answers(public) if OPEN.search(kind)]
    assert not given


def test_such_a_table_would_be_seen() -> None:
    class Planted:
        def seal(self) -> "dict[str, Any] | None": ...  # noqa: F821, UP037
        @property
        def body(self) -> "Mapping[str, Any]": ...  # noqa: F821, UP037
        @classmethod
        def of(cls) -> "dict[str, int]": ...  # noqa: UP037

    kinds = dict(answers(Planted))
    assert [name for name, kind in kinds.items() if OPEN.search(kind)] == [
        "Planted.seal",
        "Planted.body",
    ]
    assert "Planted.of" in kinds
