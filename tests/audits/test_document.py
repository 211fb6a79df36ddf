"""What docs/audits.md and a run say beside their numbers."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import details
import document
import experiments
import numpy as np
import pytest
import reproduce
from analyse import Comparison

ROOT = Path(__file__).parents[2]


def comparison(**changes: Any) -> Comparison:
    return Comparison(**{"audit": "a", "mechanism": "m", "what": "favorable",
                         "published": (31, 250), "here": (42, 250), **changes})  # fmt: skip


def test_a_count_that_was_not_printed_is_marked() -> None:
    printed, inferred = comparison(), comparison(inferred=True)
    lines = document._counts([printed, inferred], {printed: 1.0, inferred: 1.0}).splitlines()
    assert "| 31 of 250 | 42 of 250 |" in lines[2]
    assert "| 31 of 250 (from the bound) | 42 of 250 |" in lines[3]


def test_verdicts_of_three_releases_could_never_differ() -> None:
    # 1 of 20 ways to divide six releases by three puts all favorable ones on either side.
    worst = comparison(published=(0, 3), here=(3, 3))
    assert worst.pvalue == pytest.approx(0.1)


def test_another_choice_of_pilots_names_what_the_rule_compares_and_a_cause() -> None:
    rng = np.random.default_rng(1)
    margins = {"07": rng.normal(size=12), "08": rng.normal(size=12), "09": rng.normal(9, 1, 12)}
    near = document._other_role("degraded", margins, ("07", "08"), "", "likely")
    ends = [f"{np.quantile(margins[one], 0.9):.4f}" for one in ("07", "08")]
    assert f"The rule compares 90 % quantiles ({ends[0]} against {ends[1]})" in near
    assert "the test shown is one of location" in near
    assert "Cause not found" not in near
    assert "Cause not found." in document._other_role("high", margins, ("07", "09"), "", "likely")
    told = document._other_role("high", margins, ("07", "09"), "The rule is another one.", "likely")
    assert told.endswith("The rule is another one.\n")


def test_the_rank_of_a_published_figure_gives_its_pvalue() -> None:
    others = np.arange(99.0)
    # Among 100 exchangeable figures the one in the middle is no surprise, the last one is 2 %.
    assert experiments.rank_pvalue(others, 49.5) == 1.0
    assert experiments.rank_pvalue(others, 200.0) == pytest.approx(2 / 100)
    assert experiments.rank_pvalue(others, -1.0) == pytest.approx(2 / 100)
    assert experiments._cell(np.full(5, 0.25), 0.1) == "0.250 (always)"  # nothing random in it


def test_lineage_shows_twins_where_they_are_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    def met(audit: str, **changes: Any) -> dict[str, Any]:
        return {"audit": audit, "role": "target", "same_audit": False, "same_table": False,
                "shared": 0, "twins": 0, "expected_twins": "0.0", **changes}  # fmt: skip

    found = [
        met("the same table", same_table=True, shared=7, twins=7),
        met("recoded", twins=1000),
        met("by chance", twins=3),
        met("itself", same_audit=True, twins=1000),
    ]
    monkeypatch.setattr(details, "_overlaps", lambda audit: found)
    audit: Any = SimpleNamespace(certificate=lambda: {"name": "a"})
    assert details._met(audit) == [
        ("a", "target", "the same table", 7, 0, ""),
        ("a", "target", "recoded", 0, 1000, "0.0"),
    ]


def test_a_run_prints_the_papers_table_beside_ours(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr("sys.argv", ["reproduce.py", "magic-bootstrap", "--work", str(tmp_path),
                                     "--out", str(tmp_path / "audits.md")])  # fmt: skip
    monkeypatch.setattr(reproduce, "run_all", lambda name, work, draws: f"run of {name}")
    monkeypatch.setattr(reproduce, "section", lambda name, run: f"## table of the {run}")
    monkeypatch.setattr(reproduce, "document", lambda runs, draws: "")
    monkeypatch.setattr(reproduce, "finished", lambda work, draws: {})
    reproduce.main()
    shown = capsys.readouterr().out
    assert shown.startswith("== magic-bootstrap\n## table of the run of magic-bootstrap\n")


def test_without_data_the_checks_end_before_they_begin(tmp_path: Path) -> None:
    (tmp_path / "repository" / ".ci").mkdir(parents=True)
    script = tmp_path / "repository" / ".ci" / "run"
    script.write_bytes((ROOT / ".ci" / "run").read_bytes())
    clean = {name: value for name, value in os.environ.items() if name != "PROXYGUARD_DATA"}
    for given in ({}, {"PROXYGUARD_DATA": str(tmp_path / "missing")}):
        found = subprocess.run(
            ["bash", str(script)], env={**clean, **given}, capture_output=True, text=True
        )
        assert found.returncode == 1
        assert "Set PROXYGUARD_DATA to a folder" in found.stderr
        assert "== make" not in found.stdout
