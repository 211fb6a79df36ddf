"""Reference values: mpmath at 50 digits, exact rationals, and R (see tests/references)."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

FOLDER = Path(__file__).resolve().parents[1] / "references"


@pytest.fixture(scope="session")
def reference() -> Callable[[str, str], list[dict[str, Any]]]:
    """Return ``rows(topic, kind)``; numbers in a row are decimal strings."""

    def rows(topic: str, kind: str) -> list[dict[str, Any]]:
        table = json.loads((FOLDER / f"{topic}.json").read_text(encoding="utf-8"))["rows"]
        found = [row for row in table if row["kind"] == kind]
        assert found, f"no {kind} in {topic}.json"
        return found

    return rows
