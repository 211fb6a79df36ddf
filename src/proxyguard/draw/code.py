"""The text of the code that a draw runs, as digests by module.

The version of an installed package stands for its modules other than the one that is named.
Code that lies elsewhere, loose files or a checkout, may change under one version. So it is
followed wherever its imports lead: a helper beside a generator's module changes releases as
the module itself does.
"""

from __future__ import annotations

import ast
import hashlib
import sys
import sysconfig
from collections.abc import Mapping
from functools import cache, lru_cache
from importlib.machinery import ModuleSpec
from importlib.metadata import PackageNotFoundError, packages_distributions, version
from importlib.util import find_spec, resolve_name
from pathlib import Path

OURS = __name__.split(".", maxsplit=1)[0]


def package_version(module: str) -> str:
    """Return the version of the distribution that a module belongs to."""
    package = module.split(".", maxsplit=1)[0]
    # A package that is installed from its checkout lists no files of its own.
    names = _distributions().get(package) or [package]
    return installed_version(names[0]) or "not packaged"


def installed_version(distribution: str) -> str | None:
    """Return the version of a distribution that is installed here, or nothing."""
    try:
        return version(distribution)
    except PackageNotFoundError:
        return None


def code_digests(module: str) -> dict[str, str]:
    """Return the digest of a module's file, and of the files that it imports and may change.

    A module without a file, such as one that is built into Python, has no text to register.
    """
    digests: dict[str, str] = {}
    waiting = [module]
    while waiting:
        name = waiting.pop()
        spec = None if name in digests else _spec(name)
        if spec is None or spec.origin is None or not Path(spec.origin).is_file():
            continue  # known already, or no module: a name that is imported from one
        if name != module and _installed(name, spec.origin):
            continue
        content = Path(spec.origin).read_bytes()
        digests[name] = hashlib.sha256(content).hexdigest()
        if spec.origin.endswith(".py") and not _installed(name, spec.origin):
            package = name if spec.submodule_search_locations is not None else spec.parent or ""
            waiting += _imports(content, package)
    return dict(sorted(digests.items()))


def _installed(name: str, path: str) -> bool:
    """Return whether a version stands for a module: Python's, ours, or an installed package's."""
    package = name.split(".", maxsplit=1)[0]
    if package == OURS or package in sys.stdlib_module_names:
        return True
    folders = {sysconfig.get_path(kind) for kind in ("purelib", "platlib", "stdlib")}
    return any(Path(path).is_relative_to(folder) for folder in folders)


def _spec(name: str) -> ModuleSpec | None:
    try:
        return find_spec(name)
    except (ImportError, ValueError, AttributeError):
        return None


@lru_cache(maxsize=256)
def _imports(content: bytes, package: str) -> tuple[str, ...]:
    """Return what a module's text imports, wherever in it; names that may be modules too."""
    try:
        tree = ast.parse(content)
    except (SyntaxError, ValueError):
        return ()  # it cannot be loaded either, which says so itself
    names: list[str] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = "." * node.level + (node.module or "")
            try:
                whole = resolve_name(base, package) if node.level else base
            except ImportError:
                continue  # a relative import beyond the package, which cannot be loaded either
            names += [whole, *(f"{whole}.{alias.name}" for alias in node.names)]
    return tuple(dict.fromkeys(names))


@cache
def _distributions() -> Mapping[str, list[str]]:
    return packages_distributions()  # reads every installed package: once is enough
