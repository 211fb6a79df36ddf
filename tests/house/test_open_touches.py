"""How much of the product whoever changes `open` has to know: the files that one opening runs."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType

import pytest

import proxyguard
from audit.conftest import DECLARATION, audit_in, draw_here_with, write_table

ROOT = Path(proxyguard.__file__).parent
MOST = 82
"""Python files of the product that one opening may run; the goal is 60. It only ever falls."""


def touched(act: Callable[[], object]) -> set[str]:
    """Return the product's Python files of which a function runs while ``act`` does."""
    names: set[str] = set()

    def note(frame: FrameType, event: str, argument: object) -> None:
        # A module's own code runs when it is imported, which is no step of an opening.
        if event == "call" and frame.f_code.co_name != "<module>":
            names.add(frame.f_code.co_filename)

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        act()
    finally:
        sys.setprofile(before)
    return {str(path.relative_to(ROOT)) for path in ROOT.rglob("*.py") if str(path) in names}


@pytest.fixture
def drawn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A small audit whose releases are frozen."""
    draw_here_with(monkeypatch)
    root = tmp_path / "drawn"
    write_table(root / "data" / "table.csv")
    audit = audit_in(root)
    audit.init(DECLARATION)
    audit.seal()
    audit.register()
    audit.draw()
    return root


def test_one_opening_runs_few_files_of_the_product(drawn: Path, tmp_path: Path) -> None:
    # Once before it is measured, so that what is imported late is imported by then.
    for name in ("first", "second"):
        shutil.copytree(drawn, tmp_path / name)
    audit_in(tmp_path / "first").open()
    files = touched(audit_in(tmp_path / "second").open)
    assert {"audit/open.py", "audit/score.py", "seal/journal.py"} <= files
    assert len(files) <= MOST, f"{len(files)} files: {', '.join(sorted(files))}"
