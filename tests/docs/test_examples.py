"""The examples run as they stand, and come to the verdicts that their pages promise."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

import proxyguard as pg

EXAMPLES = Path(__file__).parents[2] / "examples"
VERDICTS = {
    "hospital": {"copula": "validated"},
    "generator": {"class-wise normal": "validated"},
    "losses": {"elsewhere": "validated"},
    "aggregates": {
        "target/last year": "validated", "target/model": "validated",
        "target/survey of cities": "violation",
    },
    "exposure": {"copied rows": "violation", "copula": "validated"},
}  # fmt: skip

pytestmark = pytest.mark.whole  # each is a whole audit


@pytest.fixture
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Put this interpreter first, as an activated environment does."""
    monkeypatch.setenv(
        "PATH", os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    )
    monkeypatch.delenv("PROXYGUARD_DATA", raising=False)


def test_every_folder_with_a_script_is_tried() -> None:
    assert {path.parent.name for path in EXAMPLES.glob("*/run.sh")} == set(VERDICTS)


@pytest.mark.parametrize("name", VERDICTS)
def test_an_example_runs_and_decides(name: str, environment: None, tmp_path: Path) -> None:
    folder = tmp_path / name
    shutil.copytree(EXAMPLES / name, folder, ignore=shutil.ignore_patterns("build"))
    run = subprocess.run(
        ["bash", "run.sh"], cwd=folder, capture_output=True, text=True, timeout=300
    )
    assert run.returncode == 0, run.stdout + run.stderr
    audit = folder / "build" / "audit"
    assert (audit / "report.html").exists()
    certificate = pg.Audit(audit, home=tmp_path / "home").certificate()
    assert {v.mechanism: v.decision.value for v in certificate.verdicts} == VERDICTS[name]


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("notebooks/*.ipynb")), ids=lambda p: p.stem)
def test_a_notebook_runs_from_top_to_bottom(
    path: Path, environment: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PROXYGUARD_HOME", str(tmp_path / ".home"))
    notebook = nbformat.read(path, as_version=4)
    assert all(not cell.get("outputs") for cell in notebook.cells)  # they would go stale
    client = NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(tmp_path)}})
    ran = client.execute()
    shown = [output for cell in ran.cells for output in cell.get("outputs", [])]
    said = json.dumps(shown)
    assert "With 95 % confidence" in said
    assert "No guarantee remains" not in said
