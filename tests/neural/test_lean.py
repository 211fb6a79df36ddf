"""Networks train where there are torch and numpy and nothing else of what the package may use."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest

import proxyguard

ROOT = Path(proxyguard.__file__).parent
BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
ALONE = {"numpy", "torch"}
# What one of them compares with where it is installed, inside a function; it says so.
BESIDE = {"bench_neural.py": {"sklearn", "neural"}}


def _file_of(module: str) -> Path | None:
    """Return the file of a module of ours, if a name is one."""
    path = ROOT.parent / module.replace(".", "/")
    found = [one for one in (path.with_suffix(".py"), path / "__init__.py") if one.exists()]
    return found[0] if found else None


def _named(path: Path) -> set[str]:
    """Return the modules that a file imports, wherever in it, but for types alone.

    Of the files that begin the package, what is imported when they are: their functions load the
    command line and reports, which no network asks for.
    """
    names: set[str] = set()
    waiting: list[ast.AST] = [ast.parse(path.read_text("utf-8"))]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            continue
        if isinstance(node, ast.FunctionDef) and path.parent == ROOT:
            continue
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            module = str(node.module)
            names |= {module} | {f"{module}.{alias.name}" for alias in node.names}
        waiting += ast.iter_child_nodes(node)
    return names


def needed(start: Path) -> set[str]:
    """Return the packages of others that a file needs, by itself and by what it imports of ours."""
    waiting, seen, others = [start], {start}, set()
    while waiting:
        for name in _named(waiting.pop()):
            words = name.split(".")
            if words[0] != "proxyguard":
                others.add(words[0])
                continue
            for k in range(1, len(words) + 1):  # a package runs before what lies in it
                file = _file_of(".".join(words[:k]))
                if file is not None and file not in seen:
                    seen.add(file)
                    waiting.append(file)
    return others - set(sys.stdlib_module_names)


STARTS = [
    *sorted((ROOT / "neural").glob("*.py")),
    *(BENCHMARKS / name for name in ("bench_neural.py", "bench_ctgan.py", "bench_diffusion.py")),
]


@pytest.mark.parametrize("path", STARTS, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_networks_and_their_benchmarks_need_torch_and_numpy_alone(path: Path) -> None:
    assert needed(path) <= ALONE | BESIDE.get(path.name, set())


def test_what_is_not_needed_would_be_seen() -> None:
    assert {"pandas", "pydantic", "scipy"} <= needed(ROOT / "draw" / "protocol.py")
