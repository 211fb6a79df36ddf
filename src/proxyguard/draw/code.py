"""The text of the code that a draw runs, as digests by module.

The version of an installed package stands for its modules other than the one that is named.
Code that lies elsewhere, loose files or a checkout, may change under one version. So it is
followed wherever its imports lead: a helper beside a generator's module changes releases as
the module itself does.

Nothing is imported to find it, not even the package that a module lies in: whoever asks for a
digest would run what is to be digested.
"""

from __future__ import annotations

import ast
import hashlib
import os
import sys
import sysconfig
from collections.abc import Mapping, Sequence
from functools import cache, lru_cache
from importlib.machinery import ModuleSpec
from importlib.metadata import PackageNotFoundError, packages_distributions, version
from importlib.util import resolve_name
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
    except (PackageNotFoundError, ValueError):  # none of this name; nothing that is a name
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
        if spec is not None and "." in name:
            waiting.append(name.rpartition(".")[0])  # importing a module runs its packages first
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
    """Return where a module would be imported from.

    Unlike `importlib.util.find_spec`, which imports the packages that a dotted name leads
    through, this looks into their folders.
    """
    folders: Sequence[str] | None = None
    spec: ModuleSpec | None = None
    known = ""
    for word in name.split("."):
        known = f"{known}.{word}" if known else word
        if not word.isidentifier() or (spec is not None and folders is None):
            return None  # no name, or a module of something that is no package
        spec = _spec_in(known, folders)
        if spec is None:
            return None
        folders = _folders(spec)
    return spec


def _spec_in(name: str, folders: Sequence[str] | None) -> ModuleSpec | None:
    """Return what Python's finders find in these folders, or on the whole import path."""
    for finder in sys.meta_path:
        try:
            spec = finder.find_spec(name, folders)
        except (ImportError, ValueError, AttributeError):
            continue
        except KeyError:  # a package without __init__ in a package that is not imported
            return _plain_package(name, folders or ())
        if spec is not None:
            return spec
    return None


def _plain_package(name: str, folders: Sequence[str]) -> ModuleSpec:
    last = name.rpartition(".")[2]
    spec = ModuleSpec(name, None, is_package=True)
    spec.submodule_search_locations = [
        path for path in (os.path.join(folder, last) for folder in folders) if os.path.isdir(path)
    ]
    return spec


def _folders(spec: ModuleSpec) -> list[str] | None:
    locations = spec.submodule_search_locations
    return None if locations is None else list(locations)


@lru_cache(maxsize=256)
def _imports(content: bytes, package: str) -> tuple[str, ...]:
    """Return what a module's text imports, wherever in it; names that may be modules too."""
    try:
        tree = ast.parse(content)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
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
