"""The arrow registry -> ... -> report points one way, and from the product none leads out."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import proxyguard
import reproduction

ROOT = Path(proxyguard.__file__).parent
# A folder is a layer. Where a part of one lies further left than the folder, its modules are
# named: a mode is made of requirements, designs and budgets, and is planned under a law of
# losses; a declaration and a planner are made of modes.
CLAIMED = [
    f"registry.{name}" for name in (
        "numbers", "requirement", "design", "test", "budget",
    )
]  # fmt: skip
LAWS = ["plan.law", "plan.targets"]
# Tables are opened by the function that opens every file, `seal.storage`. Networks are trained by
# the options that their generators take.
OPTIONS = ["adapters.settings", "adapters.networks"]
ORDER = [
    "errors", "extras", "printable", "progress", "exact", *CLAIMED, *LAWS, "modes", "registry",
    "documents", "plan", "seal.storage", "tables", "models", "seal", "draw", "losses",
    "exposure", "evidence", "certificate", "report", *OPTIONS, "neural", "adapters",
    "audit", "trial", "cli",
]  # fmt: skip

FILES = [path for path in sorted(ROOT.rglob("*.py")) if path.parent != ROOT]

# The imports that point forward, each inside a function: a certificate or a plan that is shown
# loads what draws it as a page, and the console script loads the command line, where the extra
# that they need is installed.
LATER = {"printable": {"report"}, "extras": {"cli"}}

# The second package: the paper's reproduction, which rests on the product.
PAPER_ROOT = Path(reproduction.__file__).parent
PAPER_ORDER = ["files", "datasets", "studies", "audits", "paper", "cli"]
PAPER_FILES = [path for path in sorted(PAPER_ROOT.rglob("*.py")) if path.parent != PAPER_ROOT]


def layer_of(module: str) -> str:
    """Return the layer of a module, written without ``proxyguard.``: its folder, or itself."""
    name = ".".join(module.split(".")[:2])
    return name if name in ORDER else name.split(".")[0]


def imported(source: str) -> list[str]:
    """Return the full name of everything that a file imports, wherever in it that stands."""
    modules: list[str] = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            modules += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"line {node.lineno}: imports name the package in full"
            prefix = node.module or ""
            modules += [f"{prefix}.{alias.name}" for alias in node.names]
    return modules


def imported_layers(source: str) -> set[str]:
    """Return the layers under ``proxyguard.`` in the imports of one file.

    ``from proxyguard import x`` counts as ``x``.
    """
    return {
        layer_of(module.removeprefix("proxyguard."))
        for module in imported(source)
        if module.startswith("proxyguard.")
    }


def reaches_forward(layer: str, source: str) -> set[str]:
    """Return the imports that ``layer`` may not have; a name outside the order is one of them."""
    return imported_layers(source) - set(ORDER[: ORDER.index(layer) + 1])


@pytest.mark.parametrize("folder", sorted({p.relative_to(ROOT).parts[0] for p in FILES}))
def test_every_folder_is_a_layer(folder: str) -> None:
    assert folder in ORDER


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.relative_to(ROOT).as_posix())
def test_a_layer_imports_only_itself_and_what_lies_before_it(path: Path) -> None:
    layer = layer_of(".".join(path.relative_to(ROOT).with_suffix("").parts))
    later = reaches_forward(layer, path.read_text(encoding="utf-8"))
    assert not later, f"{layer} reaches forward into {sorted(later)}"


@pytest.mark.parametrize("path", PAPER_FILES, ids=lambda p: p.relative_to(PAPER_ROOT).as_posix())
def test_the_reproduction_has_layers_of_its_own(path: Path) -> None:
    place = PAPER_ORDER.index(path.relative_to(PAPER_ROOT).parts[0])
    names = [name for name in imported(path.read_text("utf-8")) if name[:13] == "reproduction."]
    later = {name.split(".")[1] for name in names} - set(PAPER_ORDER[: place + 1])
    assert not later, f"{PAPER_ORDER[place]} reaches forward into {sorted(later)}"


def test_the_product_does_not_know_the_reproduction() -> None:
    knowing = [
        path.relative_to(ROOT).as_posix()
        for path in ROOT.rglob("*.py")
        if any(name.split(".")[0] == "reproduction" for name in imported(path.read_text("utf-8")))
    ]
    assert not knowing
    assert imported("import reproduction") == ["reproduction"]  # it would be seen


@pytest.mark.parametrize("layer", sorted(p.stem for p in ROOT.glob("*.py") if p.stem != "__init__"))
def test_a_layer_of_one_file_reaches_forward_only_where_it_is_said(layer: str) -> None:
    source = (ROOT / f"{layer}.py").read_text(encoding="utf-8")
    assert reaches_forward(layer, source) == LATER.get(layer, set())
    loaded = [ast.unparse(node) for node in ast.parse(source).body
              if isinstance(node, ast.Import | ast.ImportFrom)]  # fmt: skip
    assert not reaches_forward(layer, "\n".join(loaded))  # not when it is loaded itself


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


def test_a_part_of_a_folder_that_lies_further_left_may_not_import_the_rest_of_it() -> None:
    assert reaches_forward("registry.budget", "from proxyguard.registry.parts import ClaimPart")
    assert reaches_forward("registry.budget", "from proxyguard.modes.evidence import rescale")
    assert not reaches_forward("modes", "from proxyguard.registry.budget import Budget")
    assert reaches_forward("modes", "from proxyguard.registry.parts import ClaimPart")
    assert {name.split(".")[1] for name in CLAIMED} <= {
        p.stem for p in (ROOT / "registry").iterdir()
    }
