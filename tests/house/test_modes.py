"""A mode is asked, never enumerated: what depends on it stands in its own file."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import proxyguard
from proxyguard.modes.catalog import MODES, mode_names

ROOT = Path(proxyguard.__file__).parent
CLASSES = {kind.__name__ for kind in MODES}
OUTSIDE = [p for p in sorted(ROOT.rglob("*.py")) if p.relative_to(ROOT).parts[0] != "modes"]


def enumerations(source: str) -> Iterator[str]:
    """Yield every place at which a file tells modes apart by itself."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("proxyguard.modes"):
            named = CLASSES & {alias.name for alias in node.names}
            if named:
                yield f"line {node.lineno}: imports {sorted(named)}"
        elif isinstance(node, ast.Compare) and _about_a_mode(node.left, *node.comparators):
            yield f"line {node.lineno}: compares a mode with {sorted(_names(node))}"
        elif isinstance(node, ast.Dict):
            keys = {name for key in node.keys if key is not None for name in _names(key)}
            if len(keys) > 1:
                yield f"line {node.lineno}: maps {sorted(keys)}"
        elif isinstance(node, ast.Match) and _is_mode(node.subject) and _names(node):
            yield f"line {node.lineno}: matches {sorted(_names(node))}"


def _about_a_mode(*sides: ast.expr) -> bool:
    return any(map(_is_mode, sides)) and any(map(_names, sides))


def _is_mode(node: ast.expr) -> bool:
    """Whether an expression is something's mode, by its name."""
    name = node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")
    return name in ("mode", "kind")


def _names(node: ast.AST) -> set[str]:
    """Return the names of modes among the texts and classes in a part of a file."""
    known = set(mode_names())
    found = {n.value for n in ast.walk(node) if isinstance(n, ast.Constant) and n.value in known}
    return found | {n.id for n in ast.walk(node) if isinstance(n, ast.Name) and n.id in CLASSES}


@pytest.mark.parametrize("path", OUTSIDE, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_no_file_outside_the_modes_tells_them_apart(path: Path) -> None:
    assert list(enumerations(path.read_text(encoding="utf-8"))) == []


@pytest.mark.parametrize(
    "line",
    [
        'if claim.mode == "named": pass',
        'if claim.mode == "sequential": pass',
        'if way.mode in ("smooth", "block"): pass',
        'if "hybrid" != mode: pass',
        "if way.kind is Direct: pass",
        'NEEDS = {"named": 1, "direct": 2}',
        "NEEDS = {Named: 1, Direct: 2}",
        "from proxyguard.modes.count import Count",
        'match claim.mode:\n    case "count": pass',
    ],
)
def test_an_enumeration_is_noticed_in_every_spelling(line: str) -> None:
    assert list(enumerations(line))


@pytest.mark.parametrize(
    "line",
    [
        'if level == "releases": pass',
        'ROW = {"releases": 40, "records": 500}',
        "from proxyguard.modes.claim import Claim",
        "if claim.counts_valid: pass",
        "if claim.after_opening: pass",
    ],
)
def test_a_question_to_the_mode_is_none(line: str) -> None:
    assert not list(enumerations(line))


def test_every_mode_has_a_file_of_its_own_name_and_none_has_two() -> None:
    homes = [kind.__module__ for kind in MODES]
    assert homes == [f"proxyguard.modes.{kind.mode}" for kind in MODES]
