"""One name is one thing: no two classes, functions or shared constants are called alike."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

import pytest

import proxyguard

PRODUCT = Path(proxyguard.__file__).parent

# Functions that still share a name, each with the reason. A name that is one thing again is taken
# out of here; a further one is renamed, or the one is imported from the other.
ALIKE_FUNCTIONS = {
    "at_least": "a bound in words, and the binomial tail",
    "at_most": "a bound in words, and means against cutoffs (paper Eq. (10))",
    "bytes_of_draw": "one for each kind of network, by which its module is called",
    "decimal": "a setting that is read, and a number that is written into a declaration",
    "draw": "the step of an audit, and the picture of a plan",
    "draw_tables": "one for each kind of network, by which its module is called",
    "exact": "a setting that is read, and a level that is read",
    "level": "an error level that is checked, and the field of a claim that holds one",
    "nearest": "a name, a level of a column, and a case of advice",
    "needs": "columns that a design needs, and limits that an audit needs",
    "percent": "a registered share, written as it is, and an estimate in tenths of points",
    "pvalues": "numbers that are checked, and those of a component test",
    "ramp_ceiling": "of all requirements, and of one as paper Eq. (18) has it",
    "ramp_sensitivity": "of all requirements, and of one as paper Eq. (19) has it",
    "sample": "one for each kind of network, whose streams differ",
    "slack_ceiling": "of a requirement, and of the numbers that it comes down to",
    "train": "one for each kind of network, whose losses differ",
    "whole": "a setting that is read, and a size that is read",
}
ALIKE_CONSTANTS = {
    "MISSING": "the text of a missing value in a model, and those of any table",
}


def named_types(source: str) -> list[str]:
    """Return the classes of a file, and the aliases and type variables that it binds."""
    tree = ast.parse(source)
    names = [node.name for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
    return names + [name for name in bound_names(tree) if name[0].isupper() and not name.isupper()]


def public_functions(source: str) -> list[str]:
    """Return the functions that a file gives to others; overloads are one."""
    names = [node.name for node in ast.parse(source).body if isinstance(node, ast.FunctionDef)]
    return list(dict.fromkeys(name for name in names if not name.startswith("_")))


def constants(source: str) -> list[str]:
    """Return the constants that a file binds."""
    return [name for name in bound_names(ast.parse(source)) if name.isupper() and name[0] != "_"]


def bound_names(tree: ast.Module) -> list[str]:
    """Return the names that are bound at the top, and for type checkers alone."""
    inner = [node.body for node in tree.body if isinstance(node, ast.If)]
    names = []
    for node in [*tree.body, *(statement for body in inner for statement in body)]:
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        names += [target.id for target in targets if isinstance(target, ast.Name)]
    return names


def imported_names(source: str) -> set[tuple[str, str]]:
    """Return what a file imports from others of the product: their files, and the names."""
    return {
        (f"{'/'.join(node.module.split('.')[1:])}.py", alias.name)
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("proxyguard.")
        for alias in node.names
    }


def alike(
    files: dict[str, str], names: Callable[[str], list[str]] = named_types
) -> dict[str, list[str]]:
    """Return the names that stand for two things, with the files that bind them."""
    where: dict[str, list[str]] = defaultdict(list)
    for file, source in files.items():
        for name in names(source):
            where[name].append(file)
    return {name: places for name, places in where.items() if len(places) > 1}


def alike_functions(files: dict[str, str]) -> dict[str, list[str]]:
    """Return the public functions of one name; a verb of the command line is called as its step."""
    inside = {file: source for file, source in files.items() if not file.startswith("cli/")}
    return alike(inside, public_functions)


def alike_constants(files: dict[str, str]) -> dict[str, list[str]]:
    """Return the constants of one name that other files import from two places.

    One that stays in its file is read there, beside what it is for.
    """
    imported = set().union(*map(imported_names, files.values()))
    shared = {
        name: [file for file in places if (file, name) in imported]
        for name, places in alike(files, constants).items()
    }
    return {name: places for name, places in shared.items() if len(places) > 1}


@pytest.fixture(scope="module")
def product() -> dict[str, str]:
    files = {
        path.relative_to(PRODUCT).as_posix(): path.read_text("utf-8")
        for path in sorted(PRODUCT.rglob("*.py"))
    }
    assert len(files) > 100
    return files


def test_no_two_classes_or_aliases_of_the_product_have_one_name(product: dict[str, str]) -> None:
    assert not alike(product), "rename the less central of each, or import the one from the other"


def test_functions_that_share_a_name_are_those_that_have_a_reason(product: dict[str, str]) -> None:
    assert sorted(alike_functions(product)) == sorted(ALIKE_FUNCTIONS)


def test_constants_that_share_a_name_are_those_that_have_a_reason(product: dict[str, str]) -> None:
    assert sorted(alike_constants(product)) == sorted(ALIKE_CONSTANTS)


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


def test_functions_and_constants_that_stand_for_two_things_would_be_seen() -> None:
    files = {
        "plan/law.py": "def share() -> int: ...\ndef _own() -> int: ...\nMOST = 3\nFEW = 1\n",
        "draw/pool.py": "def share() -> int: ...\ndef _own() -> int: ...\nMOST: int = 4\nFEW = 2\n",
        "cli/steps.py": "from proxyguard.plan.law import MOST\ndef share() -> int: ...\n",
        "audit/draw.py": "from proxyguard.draw.pool import FEW, MOST\n",
    }
    assert alike_functions(files) == {"share": ["plan/law.py", "draw/pool.py"]}
    assert alike_constants(files) == {"MOST": ["plan/law.py", "draw/pool.py"]}
