"""``proxyguard try`` and the way on: what is typed and read, and the code that it ends with."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from conformance.typed import proxyguard
from proxyguard.cli.show import Exit
from trial.tables import people


@pytest.fixture
def work(tmp_path: Path) -> Path:
    """A folder with a table, a holdout, a good release and a bad one."""
    people(700, 1).to_csv(tmp_path / "patients.csv", index=False)
    people(600, 2).to_csv(tmp_path / "test.csv", index=False)
    for name, noise in (("good", 0.0), ("bad", 0.45)):
        (tmp_path / name).mkdir()
        people(700, 5, noise=noise).to_csv(tmp_path / name / "s.csv", index=False)
    return tmp_path


LIMITS = ("--limit", "two-way shares=0.3", "--exclude", "stage", "--exclude", "cost")


def test_good_releases_end_with_0_bad_ones_with_4_and_the_way_on_begins_an_audit(
    work: Path,
) -> None:
    told = ("--outcome", "ill", "--holdout", "test.csv", *LIMITS)
    good = proxyguard(work, "try", "patients.csv", "good", *told)
    assert good.returncode == Exit.DONE, good.stderr
    lines = good.stdout.splitlines()
    assert lines[0] == "Exploratory: nothing was registered before the data were seen."
    assert lines[1].startswith("Records are taken as drawn independently")
    assert lines[3].startswith("Validated")
    assert "Page: try-out/page.html" in lines
    assert any(line.split()[:2] == ["age", "number"] for line in lines)
    bad = proxyguard(work, "try", "patients.csv", "bad", "--out", "worse", "--json", *told)
    assert bad.returncode == Exit.VIOLATION, bad.stderr
    said = json.loads(bad.stdout)
    assert said["decisions"] == {"s.csv": "violation"}
    assert said["page"] == "worse/page.html"
    begun = proxyguard(work, "init", "my-audit", "--from", "try-out")
    assert begun.returncode == Exit.DONE, begun.stderr
    declared = (work / "my-audit" / "audit.toml").read_text()
    assert declared == (work / "try-out" / "audit.toml").read_text()
    # With records that nobody has looked at beside it, nothing stands in the way.
    people(600, 7).to_csv(work / "fresh.csv", index=False)
    checked = proxyguard(work, "check", "my-audit")
    assert checked.returncode == Exit.DONE, checked.stdout + checked.stderr


def test_without_an_answer_nothing_is_decided_and_the_code_is_0(work: Path) -> None:
    done = proxyguard(work, "try", "patients.csv", "bad", "--outcome", "ill")
    assert done.returncode == Exit.DONE, done.stderr
    assert done.stdout.startswith("The releases may have seen these very records")
    refused = proxyguard(work, "try", "patients.csv", "bad", "--exposure")
    assert refused.returncode == Exit.ERROR
    assert "every leak would pass" in refused.stderr
    assert (
        proxyguard(work, "try", "patients.csv", "bad", "--limit", "error").returncode == Exit.USAGE
    )


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
    done = proxyguard(work, "try", "patients.csv", "--generator", "mine:Again", "--draws", "12",
                 "--reliability", "0.5", "--json", *LIMITS)  # fmt: skip
    assert done.returncode in (Exit.DONE, Exit.UNRESOLVED), done.stderr
    said = json.loads(done.stdout)
    assert said["records that judge"] == "set aside before anything was drawn"
    assert 'generator = "mine:Again"' in said["declaration"]
