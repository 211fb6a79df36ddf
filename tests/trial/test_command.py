"""``proxyguard try`` and the way on: what is typed and read, and the code that it ends with."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import proxyguard as pg
from conformance import warm
from proxyguard.cli.show import Exit
from trial.tables import people

ROOT = Path(pg.__file__).parent.parent


@pytest.fixture
def work(tmp_path: Path) -> Path:
    """A folder with a table, a holdout, a good release and a bad one."""
    people(700, 1).to_csv(tmp_path / "patients.csv", index=False)
    people(600, 2).to_csv(tmp_path / "test.csv", index=False)
    for name, noise in (("good", 0.0), ("bad", 0.45)):
        (tmp_path / name).mkdir()
        people(700, 5, noise=noise).to_csv(tmp_path / name / "s.csv", index=False)
    return tmp_path


def typed(work: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Type a command in a folder."""
    command = [sys.executable, "-m", "proxyguard.cli.main", *words]
    environment = {
        **os.environ, "PYTHONPATH": str(ROOT), "PROXYGUARD_HOME": str(work / "home"),
        "OMP_NUM_THREADS": "1",
    }  # fmt: skip
    return warm.run(command, cwd=work, env=environment, capture_output=True, text=True)


LIMITS = ("--limit", "two-way shares=0.3", "--exclude", "stage", "--exclude", "cost")


def test_good_releases_end_with_0_bad_ones_with_4_and_the_way_on_begins_an_audit(
    work: Path,
) -> None:
    good = typed(work, "try", "patients.csv", "good", "--outcome", "ill", "--holdout", "test.csv",
                 *LIMITS)  # fmt: skip
    assert good.returncode == Exit.DONE, good.stderr
    lines = good.stdout.splitlines()
    assert lines[0] == "Exploratory: nothing was registered before the data were seen."
    assert lines[2].startswith("Validated")
    assert "Page: try-out/page.html" in lines
    assert any(line.split()[:2] == ["age", "number"] for line in lines)
    bad = typed(work, "try", "patients.csv", "bad", "--outcome", "ill", "--holdout", "test.csv",
                "--out", "worse", "--json", *LIMITS)  # fmt: skip
    assert bad.returncode == Exit.VIOLATION, bad.stderr
    said = json.loads(bad.stdout)
    assert said["decisions"] == {"s.csv": "violation"}
    assert said["page"] == "worse/page.html"
    begun = typed(work, "init", "my-audit", "--from", "try-out")
    assert begun.returncode == Exit.DONE, begun.stderr
    declared = (work / "my-audit" / "audit.toml").read_text()
    assert declared == (work / "try-out" / "audit.toml").read_text()
    # With records that nobody has looked at beside it, nothing stands in the way.
    people(600, 7).to_csv(work / "fresh.csv", index=False)
    checked = typed(work, "check", "my-audit")
    assert checked.returncode == Exit.DONE, checked.stdout + checked.stderr


def test_without_an_answer_nothing_is_decided_and_the_code_is_0(work: Path) -> None:
    done = typed(work, "try", "patients.csv", "bad", "--outcome", "ill")
    assert done.returncode == Exit.DONE, done.stderr
    assert done.stdout.startswith("The releases may have seen these very records")
    refused = typed(work, "try", "patients.csv", "bad", "--exposure")
    assert refused.returncode == Exit.ERROR
    assert "every leak would pass" in refused.stderr
    assert typed(work, "try", "patients.csv", "bad", "--limit", "error").returncode == Exit.USAGE


@pytest.mark.whole
def test_a_class_of_the_users_own_is_found_where_they_stand(work: Path) -> None:
    (work / "mine.py").write_text(
        "class Again:\n"
        "    def describe(self):\n        return {'mechanism': 'rows again'}\n"
        "    def prepare(self, source, rng):\n        self.source = source\n"
        "    def draw(self, seed):\n"
        "        rows = seed.rng('rows').integers(len(self.source), size=len(self.source))\n"
        "        return self.source.iloc[rows].reset_index(drop=True)\n"
    )
    done = typed(work, "try", "patients.csv", "--generator", "mine:Again", "--draws", "12",
                 "--reliability", "0.5", "--json", *LIMITS)  # fmt: skip
    assert done.returncode in (Exit.DONE, Exit.UNRESOLVED), done.stderr
    said = json.loads(done.stdout)
    assert said["records that judge"] == "set aside before anything was drawn"
    assert 'generator = "mine:Again"' in said["declaration"]
