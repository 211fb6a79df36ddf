"""One name is one thing: no two classes, and no two aliases, of the product are called alike."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

import proxyguard

PRODUCT = Path(proxyguard.__file__).parent


def named_types(source: str) -> list[str]:
    """Return the classes of a file, and the aliases and type variables that it binds."""
    tree = ast.parse(source)
    names = [node.name for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
    # At the top, and where names are bound for type checkers alone.
    inner = [node.body for node in tree.body if isinstance(node, ast.If)]
    for node in [*tree.body, *(statement for body in inner for statement in body)]:
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        bound = [target.id for target in targets if isinstance(target, ast.Name)]
        names += [name for name in bound if name[0].isupper() and not name.isupper()]
    return names


def alike(files: dict[str, str]) -> dict[str, list[str]]:
    """Return the names that stand for two things, with the files that bind them."""
    where: dict[str, list[str]] = defaultdict(list)
    for file, source in files.items():
        for name in named_types(source):
            where[name].append(file)
    return {name: places for name, places in where.items() if len(places) > 1}


def test_no_two_classes_or_aliases_of_the_product_have_one_name() -> None:
    files = {
        path.relative_to(PRODUCT).as_posix(): path.read_text("utf-8")
        for path in sorted(PRODUCT.rglob("*.py"))
    }
    assert len(files) > 100
    assert not alike(files), "rename the less central of each, or import the one from the other"


def test_a_name_that_stands_for_two_things_would_be_seen() -> None:
    files = {
        "modes/count.py": "class Count:\n    class Inner: ...\n",
        "documents/document.py": "Count = int\nMOST = 3\nrows: dict[str, int] = {}\n",
        "draw/protocol.py": "if TYPE_CHECKING:\n    Column = list\n    MOST = 4\n",
        "losses/cell.py": "class Column: ...\nclass Inner: ...\nText = str\n",
    }
    assert alike(files) == {
        "Count": ["modes/count.py", "documents/document.py"],
        "Column": ["draw/protocol.py", "losses/cell.py"],
        "Inner": ["modes/count.py", "losses/cell.py"],
    }
