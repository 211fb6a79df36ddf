"""The names that users may rely on, and what importing them costs."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import proxyguard as pg
from proxyguard import errors
from proxyguard.extras import AUDIT

ROOT = Path(pg.__file__).parent.parent

ERRORS = [
    name
    for name, kind in vars(errors).items()
    if isinstance(kind, type) and kind.__module__ == errors.__name__
]


def test_the_public_names_are_those_that_a_type_checker_finds() -> None:
    tree = ast.parse(Path(pg.__file__).with_suffix(".pyi").read_text("utf-8"))
    imports = [node for node in tree.body if isinstance(node, ast.ImportFrom)]
    # `x as x` is how a stub says that a name is meant for others; any other form hides it.
    assert all(alias.name == alias.asname for node in imports for alias in node.names)
    where = {alias.name: str(node.module) for node in imports for alias in node.names}
    assert pg.__all__ == sorted(where)
    for name, module in where.items():
        assert getattr(pg, name) is getattr(import_module(module), name)
    assert {"Audit", "SealedCertificate", "certify", "recommend"} <= set(where)


def test_every_public_name_is_ours() -> None:
    for name in pg.__all__:
        assert getattr(pg, name).__module__.startswith("proxyguard."), name
        assert name in dir(pg)


@pytest.mark.parametrize("name", ERRORS)
def test_every_error_that_is_raised_on_purpose_can_be_caught_by_its_public_name(name: str) -> None:
    # Whoever catches `pg.StageError` must not have to know in which module it lives.
    assert getattr(pg, name) is getattr(errors, name)
    assert issubclass(getattr(pg, name), pg.ProxyGuardError)


def test_importing_the_package_does_not_import_what_only_some_need() -> None:
    heavy = {*AUDIT, "matplotlib", "IPython"}
    code = f"import sys, proxyguard; print(*sorted({heavy!r} & set(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment(), capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == []


def test_importing_the_package_takes_less_than_half_a_second_of_processor_time() -> None:
    # A busy machine slows single runs; one quick run shows that the work is that small.
    spent = []
    for _ in range(6):
        spent.append(import_seconds())
        if spent[-1] < 0.5:
            return
    pytest.fail(f"every run took half a second or more: {spent}")


def import_seconds() -> float:
    """User and system time of a fresh interpreter that imports the package."""
    code = "import time, proxyguard; print(time.process_time())"
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment(), capture_output=True, text=True, check=True
    )
    return float(done.stdout)


def environment() -> dict[str, str]:
    # A child does not inherit sys.path, and warnings of this run are not its own.
    return {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}


def test_every_warning_of_ours_stands_with_the_errors() -> None:
    source = Path(pg.__file__).parent
    classes = {
        (file.name, node.name)
        for file in source.rglob("*.py")
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.ClassDef)
        and any(ast.unparse(base).endswith("Warning") for base in node.bases)
    }
    assert classes == {("errors.py", name) for name in ("NoFork", "StoodOpen", "VoidGrant")}
