"""The arrow registry -> ... -> report points one way."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import proxyguard

ROOT = Path(proxyguard.__file__).parent
ORDER = [
    "errors", "pages", "exact", "registry", "plan", "seal", "draw", "losses",
    "evidence", "certificate", "report", "datasets", "adapters", "audit", "studies", "cli",
]  # fmt: skip

FILES = [path for path in sorted(ROOT.rglob("*.py")) if path.parent != ROOT]


def imported_layers(source: str) -> set[str]:
    """Return what lies under ``proxyguard.`` in the imports of one file.

    ``from proxyguard import x`` counts as ``x``, wherever in the file it stands.
    """
    modules = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            modules += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"line {node.lineno}: imports name the package in full"
            prefix = node.module or ""
            modules += [f"{prefix}.{alias.name}" for alias in node.names]
    return {module.split(".")[1] for module in modules if module.startswith("proxyguard.")}


def reaches_forward(layer: str, source: str) -> set[str]:
    """Return the imports that ``layer`` may not have; a name outside the order is one of them."""
    return imported_layers(source) - set(ORDER[: ORDER.index(layer) + 1])


@pytest.mark.parametrize("folder", sorted({p.relative_to(ROOT).parts[0] for p in FILES}))
def test_every_folder_is_a_layer(folder: str) -> None:
    assert folder in ORDER


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.relative_to(ROOT).as_posix())
def test_a_layer_imports_only_itself_and_what_lies_before_it(path: Path) -> None:
    layer = path.relative_to(ROOT).parts[0]
    later = reaches_forward(layer, path.read_text(encoding="utf-8"))
    assert not later, f"{layer} reaches forward into {sorted(later)}"


def test_the_errors_import_no_layer() -> None:
    source = (ROOT / "errors.py").read_text(encoding="utf-8")
    assert not imported_layers(source)


@pytest.mark.parametrize(
    "line",
    [
        "from proxyguard.report.html import page",
        "from proxyguard import report",
        "import proxyguard.report",
        "def f():\n    from proxyguard import Certificate",
    ],
)
def test_a_forward_import_is_noticed_in_every_spelling(line: str) -> None:
    assert reaches_forward("exact", line)
    assert not reaches_forward("exact", "from proxyguard.errors import LossOutOfBounds")
