"""The map of the code names what there is, and every folder."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path
from typing import get_args

import pytest

import proxyguard
import reproduction
from house.test_layers import LAWS, OPTIONS, ORDER
from proxyguard.documents.ledger import Body

ROOT = Path(__file__).parents[2]
PRODUCT = Path(proxyguard.__file__).parent
MAP = (ROOT / "docs" / "architecture.md").read_text("utf-8")
PICTURE = (ROOT / "docs" / "architecture.svg").read_text("utf-8")
FOLDERS = sorted(path.name for path in PRODUCT.iterdir() if (path / "__init__.py").exists())

NAMED = re.findall(r"`((?:[a-z]+/)?[a-z_]+\.py)`: ((?:`[\w.]+`(?:, )?)+)", MAP)
DEFINITIONS = [
    (file, name) for file, names in NAMED for name in re.findall(r"`([\w.]+)`", names)
    if not name.endswith(".py")
]  # fmt: skip


@cache
def defined(file: str) -> frozenset[str]:
    """Return what a file of the product defines; methods and fields behind their class."""
    names: set[str] = set()
    for node in ast.parse((PRODUCT / file).read_text("utf-8")).body:
        names |= _bound(node)
        if isinstance(node, ast.ClassDef):
            names |= {f"{node.name}.{name}" for inner in node.body for name in _bound(inner)}
    return frozenset(names)


def _bound(node: ast.stmt) -> set[str]:
    if isinstance(node, ast.ClassDef | ast.FunctionDef):
        return {node.name}
    targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
    return {target.id for target in targets if isinstance(target, ast.Name)}


@pytest.mark.parametrize(("file", "name"), DEFINITIONS, ids=lambda part: str(part))
def test_a_name_of_the_map_is_defined_where_it_says(file: str, name: str) -> None:
    assert name in defined(file)


def test_every_file_that_is_named_exists() -> None:
    files = set(re.findall(r"`([a-z]+/[a-z_]+\.py)`", MAP + PICTURE))
    files |= set(re.findall(r">([a-z]+/[a-z_]+\.py)<", PICTURE))
    assert len(files) > 40
    missing = [file for file in files if not (PRODUCT / file).exists()]
    assert not missing


@pytest.mark.parametrize("folder", FOLDERS)
def test_every_folder_is_on_the_map_and_in_the_picture(folder: str) -> None:
    assert f"| `{folder}/` |" in MAP
    assert f">{folder}</text>" in PICTURE


def test_the_folders_stand_in_the_order_of_the_layers() -> None:
    # Of registry most lies before modes, of plan and seal a file each: the map shows folders.
    whole = [name for name in ORDER if name not in (*LAWS, *OPTIONS, "seal.storage")]
    layers = dict.fromkeys(name.split(".")[0] for name in whole)
    order = [name for name in layers if name in FOLDERS]
    assert re.findall(r"^\| `([a-z]+)/` \|", MAP, flags=re.MULTILINE) == order
    assert [name for name in re.findall(r">([a-z]+)</text>", PICTURE) if name in FOLDERS][
        : len(order)
    ] == order


def test_every_entry_of_the_ledger_that_a_step_writes_is_named() -> None:
    bodies = {body.__name__ for body in get_args(Body)}
    steps = MAP[MAP.index("## The steps") : MAP.index("## Where a number")]
    assert {"Sealed", "Rotated"} <= bodies
    assert bodies <= set(re.findall(r"`(\w+)`", steps))
    for entry in re.findall(r'class="entry">([^<]+)<', PICTURE):
        assert set(entry.split(", ")) <= bodies


def test_the_files_of_an_audit_are_called_so() -> None:
    source = (PRODUCT / "audit" / "folder.py").read_text("utf-8")
    for name in ("audit.toml", "releases.json", "evidence.json", "certificate.json", "grant.json",
                 "advice.json", "corrections/0.json"):  # fmt: skip
        assert f"`{name}`" in MAP
        assert f'"{name}"' in source


def test_the_reproduction_has_the_parts_that_are_named() -> None:
    (names,) = re.findall(r"`reproduction/`: (.*?), in this order", MAP)
    assert re.findall(r"`(\w+)`", names) == ["datasets", "studies", "audits", "paper", "cli"]
    package = Path(reproduction.__file__).parent
    assert all((package / name).is_dir() for name in re.findall(r"`(\w+)`", names))


def test_a_name_that_is_not_there_would_be_seen() -> None:
    assert "certify_sharp" in defined("modes/direct.py")
    assert "Direct.lower_bound" in defined("modes/direct.py")
    assert "certify_dull" not in defined("modes/direct.py")
