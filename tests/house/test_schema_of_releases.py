"""What a release holds is decided in one place, for drawing, checking and verifying alike."""

from __future__ import annotations

import ast
from pathlib import Path

import proxyguard
from proxyguard.tables.files import Schema

ROOT = Path(proxyguard.__file__).parent


def makers(source: str) -> int:
    """Return how often a file makes a `Schema` by its fields."""
    calls = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call)]
    return sum(isinstance(call.func, ast.Name) and call.func.id == "Schema" for call in calls)


def test_a_schema_is_made_by_its_constructor_alone() -> None:
    assert makers("Schema(kinds={})") == 1
    making = {path.name for path in ROOT.rglob("*.py") if makers(path.read_text())}
    assert not making, f"{sorted(making)} make a Schema by hand; use Schema.of_releases"


def test_a_schema_leaves_out_what_a_release_lacks_and_knows_stored_predictions() -> None:
    kinds = [("x", "number"), ("y", "text")]  # pairs, as they are sealed
    assert Schema.of_releases(kinds, ["NA"], lacks=["x"]) == Schema(
        kinds={"y": "text"}, missing=("NA",)
    )
    assert Schema.of_releases(dict(kinds), [], generator="predictions").predictions
    assert not Schema.of_releases(dict(kinds), [], generator="bootstrap").predictions
