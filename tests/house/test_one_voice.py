"""The command line writes in one place, which escapes what it writes."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import proxyguard
import reproduction

ROOT = Path(proxyguard.__file__).parent
PAPER = Path(reproduction.__file__).parent
WRITERS = {"print", "echo", "secho", "Console", "pprint", ".write", ".writelines"}
ALLOWED = {("show.py", "give"), ("show.py", "_write"), ("show.py", "bars")}


def written(source: str) -> set[tuple[str, str]]:
    """Return (function, writer) for every call in a file that writes to a terminal itself."""
    calls = set()
    for function in ast.walk(ast.parse(source)):
        if not isinstance(function, ast.FunctionDef):
            continue
        for node in ast.walk(function):
            if not isinstance(node, ast.Call):
                continue
            called = node.func
            method = isinstance(called, ast.Attribute)
            name = called.attr if method else getattr(called, "id", "")
            if name in WRITERS or (method and f".{name}" in WRITERS):
                calls.add((function.name, name))
    return calls


COMMANDS = sorted([*(ROOT / "cli").glob("*.py"), *(PAPER / "cli").glob("*.py")])


@pytest.mark.parametrize("path", COMMANDS, ids=lambda path: f"{path.parts[-3]}-{path.name}")
def test_only_the_functions_that_escape_write(path: Path) -> None:
    others = {call for call in written(path.read_text()) if (path.name, call[0]) not in ALLOWED}
    assert not others, f"{path.name} writes by itself: {others}; use show.say or show.give"


def test_nothing_below_the_command_line_prints() -> None:
    layers = [path for path in ROOT.rglob("*.py") if path.parent.name != "cli"]
    layers += (PAPER / "datasets").glob("*.py")
    printing = {
        (path.name, function)
        for path in layers
        for function, name in written(path.read_text())
        if name in ("print", "echo", "secho")
    }
    # The one function that escapes, which the command line and the pool of draws write through.
    assert printing == {("printable.py", "write_line")}


def test_a_bare_print_is_noticed() -> None:
    assert written("def f(x):\n    print(x)") == {("f", "print")}
    assert written("def f(x):\n    sys.stdout.write(x)") == {("f", "write")}
