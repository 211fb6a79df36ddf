"""The reproduction rests on what users have, and on a list of exceptions that may only shrink."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import proxyguard as pg
import reproduction

ROOT = Path(reproduction.__file__).parent

# Modules that anybody may import, with the reason; of the top level, the names of `__all__`.
PUBLIC = {
    "proxyguard.exact": "the exact core knows nothing of audits and is read beside the paper",
    "proxyguard.exposure": "whoever has a release and its members may attack it, without an audit",
    "proxyguard.documents": "whoever has a folder may read its documents by their types",
    "proxyguard.modes": "a mode decides; studies decide through it, as users do",
    "proxyguard.cli.main": "both command lines end alike: one message and one code an error",
    "proxyguard.cli.show": "an option that both have is one option, and print escapes in one place",
}

# What the reproduction still takes from inside the product. Nothing may be added; a name that is
# no longer used must go from here.
PRIVATE = {
    # Audits: rows of the paper's tables that no registered claim has, from sealed evidence.
    "audit.decide": {"groups_of", "readings_of"},
    "audit.draw": {"pending_folder", "tasks"},
    "audit.folder": {"CERTIFICATE", "CORRECTION", "EVIDENCE", "RELEASES"},
    "certificate.mechanism": {"certify_evidence", "reading_of"},
    "evidence.record": {"read_evidence"},
    "evidence.releases": {"evidence_of"},
    # Audits: pilots and models drawn again in the paper's order.
    "adapters.library": {"Library", "best_threshold", "last_fifth", "split_table"},
    "adapters.text": {"UnigramText"},
    "draw.protocol": {"Fitted", "Seed", "features", "outcomes", "predict"},
    "registry.declaration": {"read_declaration"},
    "registry.parts": {"Choose", "Procedure", "Seeds"},
    "registry.requirement": {"choose_roles"},
    "registry.target": {"Outcome", "StratifiedDesign"},
    # Attacks: single releases by the names and settings of a declaration, without an audit.
    "draw.catalog": {"load_generator"},
    "registry.exposure": {"AttackPart"},
    # Data sets: tables with the very values that an audit will read.
    "tables.files": {"table_bytes", "to_frame"},
    # Studies: levels and powers of single plans.
    "draw.processes": {"end_with_parent"},
    "plan.search": {"conditional_power", "exact_power"},
    "plan.targets": {"Targets"},
    "registry.budget": {
        "Budget", "count_violation_budget", "direct_budget", "family_shares", "named_budget",
        "sharp_budget", "violation_budget",
    },
    "registry.test": {"Bound"},
}  # fmt: skip


def private_imports(source: str) -> set[tuple[str, str]]:
    """Return (module, name) of every import from the product that is not public."""
    private = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            private |= {(a.name, "") for a in node.names if a.name.startswith("proxyguard.")}
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("proxyguard"):
            module = str(node.module)
            for alias in node.names:
                if not _is_public(module, alias.name):
                    private.add((module.removeprefix("proxyguard."), alias.name))
    return private


def _is_public(module: str, name: str) -> bool:
    if name.startswith("_"):
        return False
    if module == "proxyguard":
        return name in pg.__all__
    # `from proxyguard.cli import show` names a module.
    names = (module, f"{module}.{name}")
    return any(one == public or one.startswith(f"{public}.") for one in names for public in PUBLIC)


def test_the_reproduction_imports_public_names_and_the_listed_others() -> None:
    imported: dict[str, set[str]] = {}
    for path in ROOT.rglob("*.py"):
        for module, name in private_imports(path.read_text("utf-8")):
            imported.setdefault(module, set()).add(name)
    assert imported == PRIVATE


@pytest.mark.parametrize(
    ("line", "private"),
    [
        ("from proxyguard import certify", set()),
        ("from proxyguard.exact.sharp import sharp_pvalue", set()),
        ("from proxyguard.cli import show", set()),
        ("from proxyguard import audit", {("proxyguard", "audit")}),
        ("from proxyguard.exact.sharp import _hidden", {("exact.sharp", "_hidden")}),
        ("from proxyguard.seal.crypto import Key", {("seal.crypto", "Key")}),
        ("def f():\n    import proxyguard.seal.crypto", {("proxyguard.seal.crypto", "")}),
    ],
)
def test_a_private_import_is_noticed_in_every_spelling(
    line: str, private: set[tuple[str, str]]
) -> None:
    assert private_imports(line) == private
