"""What docs/audits.md and a run say beside their numbers."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from scipy.stats import fisher_exact

from reproduction.audits import details, document, experiments, reproduce
from reproduction.audits.analyse import Comparison, Tally, other_configurations, tally_pvalue
from reproduction.audits.published import AUDITS
from reproduction.audits.tables import WORDS

ROOT = Path(__file__).parents[3]


def comparison(**changes: Any) -> Comparison:
    return Comparison(**{"audit": "a", "mechanism": "m", "what": "favorable",
                         "published": (31, 250), "here": (42, 250), **changes})  # fmt: skip


def part(name: str, **changes: Any) -> document.Part:
    """Return what an audit would say that has one count and nothing else."""
    empty: dict[str, Any] = {
        "made": "", "folders": (name,), "comparisons": (comparison(audit=name),), "verdicts": (),
        "above": "", "below": "", "modes": (), "about": (), "status": ("", "", "", ""),
        "times": (name, "1", "2", "", "", ""), "published_times": (),
    }  # fmt: skip
    return document.Part(**{**empty, **changes})


def test_a_count_that_was_not_printed_is_marked() -> None:
    printed, inferred = comparison(), comparison(inferred=True)
    lines = document._counts([printed, inferred], {printed: 1.0, inferred: 1.0}).splitlines()
    assert "| 31 of 250 | 42 of 250 |" in lines[2]
    assert "| 31 of 250 (from the bound) | 42 of 250 |" in lines[3]


def test_a_count_of_another_configuration_is_marked_and_counted() -> None:
    same, other = comparison(), comparison(other="configuration 01 here, 02 published")
    lines = document._counts([same, other], {same: 1.0, other: 1.0}).splitlines()
    assert lines[2].startswith("| m | favorable |")
    assert lines[3].startswith("| m (configuration 01 here, 02 published) | favorable |")
    summary = document._summary({same: 1.0, other: 1.0})
    assert summary.startswith("2 counts compared, 1 of them of another configuration")


def test_a_role_that_fell_to_another_pilot_names_both() -> None:
    pilots = {"high": "01", "moderate": "06", "degraded": "09"}
    played = {role: SimpleNamespace(pilot=pilot) for role, pilot in pilots.items()}
    member = SimpleNamespace(mechanisms=played)
    declaration = SimpleNamespace(members=[SimpleNamespace(name="m")])
    registry = SimpleNamespace(declaration=declaration, members={"m": member})
    folder = SimpleNamespace(registry=lambda journal: registry)
    audit: Any = SimpleNamespace(folder=folder, journal=lambda: None)
    # Published: 02, 06 and 09 (audits/published.toml).
    found = other_configurations(audit, AUDITS["text-unigram"])
    assert found == {"high": "configuration 01 here, 02 published"}
    assert other_configurations(audit, AUDITS["magic-bootstrap"]) == {}


def test_verdicts_of_one_table_could_never_differ_but_those_of_two_can() -> None:
    # 1 of 20 ways to divide six releases by three puts all validated ones on either side.
    worst: tuple[Tally, Tally] = ((0, 3, 0), (3, 0, 0))
    assert tally_pvalue([worst]) == pytest.approx(0.1)
    # In two tables each, 1 of 400 ways and its mirror image.
    assert tally_pvalue([worst, worst]) == pytest.approx(2 / 400)
    # One table each way: the sums are equal, and no outcome is likelier.
    assert tally_pvalue([worst, ((3, 0, 0), (0, 3, 0))]) == 1.0
    both = comparison(published=(0, 6), here=(6, 6), tallies=(worst, worst))
    assert both.pvalue == pytest.approx(2 / 400)


def test_verdicts_of_three_kinds_are_compared_by_counting_divisions() -> None:
    # Of the six ways to draw two of (2, 1, 1), one gives (2, 0, 0) and one (0, 1, 1); the others,
    # (1, 1, 0) and (1, 0, 1), come in two ways each.
    assert tally_pvalue([((2, 0, 0), (0, 1, 1))]) == pytest.approx(2 / 6)
    assert tally_pvalue([((1, 1, 0), (1, 0, 1))]) == 1.0


@pytest.mark.parametrize("theirs", [(4, 20, 0), (1, 23, 0), (12, 12, 0)])
@pytest.mark.parametrize("here", [(5, 19, 0), (15, 9, 0)])
def test_two_kinds_in_one_table_give_fishers_test(theirs: Tally, here: Tally) -> None:
    assert tally_pvalue([(theirs, here)]) == pytest.approx(
        fisher_exact([theirs[:2], here[:2]]).pvalue
    )


def run_with(folder: Path, name: str, found: Any) -> Any:
    """Return a run in whose work folder this was stored."""
    (folder / name).write_text(json.dumps(found), encoding="utf-8")
    return SimpleNamespace(paper=SimpleNamespace(folder=SimpleNamespace(path=folder / "audit")))


def test_the_degraded_role_is_shown_in_both_orders_with_ranks(tmp_path: Path) -> None:
    found = {"roles": {"high": "01", "moderate": "06", "degraded": "07"},
             "quantiles": {"07": -0.08, "08": -0.07}, "others": ["08", "07", "08"]}  # fmt: skip
    run = run_with(tmp_path, experiments.CDC_ROLES, found)
    margins = {"07": np.full(12, -0.04), "08": np.full(12, -0.09)}
    shown = experiments.degraded_by_order(run, "cdc-neural", margins)
    assert "They then choose 01 high, 06 moderate, 07 degraded." in shown
    assert "| 07 | -0.0800 (1) | -0.0400 (2) | 1 |" in shown
    assert "| 08 | -0.0700 (2) | -0.0900 (1) | 2 |" in shown
    assert experiments.degraded_by_order(run, "covertype-neural", margins) == ""


def test_other_choices_for_the_stand_ins_are_shown_beside_the_published_figures(
    tmp_path: Path,
) -> None:
    own = {model: [[0.08, -0.1, -0.3]] * 3 for model in experiments.MODEL_ORDER}
    found = dict.fromkeys(experiments.OTHERWISE, own)
    run = run_with(tmp_path, experiments.SPREAD_OTHERWISE, found)
    lines = experiments.otherwise(run, AUDITS["stand-ins"]).splitlines()
    assert len(lines) == 2 + 2 + 6  # words, head, three figures of two choices
    # Published: AUC -.030 (audits/published.toml).
    cells = " | ".join(["0.080 (always)"] * 3)
    assert lines[4].startswith("| Bank Marketing/2009, a random fifth to choose on")
    assert lines[4].endswith(f"| AUC | -0.030 | {cells} |")


def test_writing_the_document_writes_what_it_shows_besides_audits(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("sys.argv", ["reproduce.py", "--write", "--work", str(tmp_path),
                                     "--out", str(tmp_path / "audits.md"),
                                     "--parts", str(tmp_path / "parts")])  # fmt: skip
    written: list[str] = []
    monkeypatch.setattr(reproduce, "write_experiments", lambda name, work: written.append(name))
    monkeypatch.setattr(reproduce, "finished", lambda work, draws: {"cdc-neural": None})
    monkeypatch.setattr(reproduce, "part_of", lambda name, run: part("cdc-neural"))
    reproduce.main()
    assert written == ["cdc-neural"]
    assert "## CDC diabetes" in (tmp_path / "audits.md").read_text("utf-8")


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
    def met(audit: str, **changes: Any) -> SimpleNamespace:
        return SimpleNamespace(**{
            "audit": audit, "role": "target", "same_audit": False, "same_table": False,
            "shared": 0, "twins": 0, "expected_twins": "0.0", "excess": False, **changes,
        })  # fmt: skip

    found = [
        met("the same table", same_table=True, shared=7, twins=7),
        met("recoded", twins=1000, excess=True),
        met("by chance", twins=3),
        met("itself", same_audit=True, twins=1000),
    ]
    monkeypatch.setattr(details, "_overlaps", lambda audit: found)
    audit: Any = SimpleNamespace(certificate=lambda: SimpleNamespace(name="a"))
    assert details._met(audit) == [
        ("a", "target", "the same table", 7, 0, ""),
        ("a", "target", "recoded", 0, 1000, "0.0"),
    ]


def test_a_run_prints_the_papers_table_beside_ours(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr("sys.argv", ["reproduce.py", "magic-bootstrap", "--work", str(tmp_path),
                                     "--out", str(tmp_path / "audits.md"),
                                     "--parts", str(tmp_path / "parts")])  # fmt: skip
    monkeypatch.setattr(reproduce, "run_all", lambda name, work, draws: None)
    monkeypatch.setattr(reproduce, "part_of", lambda name, run: part(name))
    reproduce.main()
    shown = capsys.readouterr().out
    assert shown.startswith("== magic-bootstrap\n## MAGIC, row bootstrap\n")
    assert "| m | favorable | 31 of 250 | 42 of 250 |" in shown


def test_what_is_not_run_keeps_the_part_that_an_earlier_run_gave_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    # As `make audits` does without torch: Rice is left out, and its section used to be lost.
    parts = tmp_path / "parts"
    first = part("rice-tvae", made="torch 2.13.0; draws computed on a GPU")
    document.write_part(parts, "rice-tvae", first)
    assert document.kept_parts(parts) == {"rice-tvae": first}  # as it was written
    monkeypatch.setattr("sys.argv", ["reproduce.py", "--work", str(tmp_path),
                                     "--out", str(tmp_path / "audits.md"),
                                     "--parts", str(parts)])  # fmt: skip
    names = ("magic-bootstrap", "rice-tvae", "aim-taiwan", "tabddpm")
    monkeypatch.setattr(reproduce, "names", lambda: names)
    monkeypatch.setattr(reproduce, "find_spec", lambda name: None)  # neither torch nor mbi
    monkeypatch.setattr("reproduction.audits.generators.KEPT", tmp_path)  # and no draws are kept
    monkeypatch.setattr(reproduce, "run_all", lambda name, work, draws: None)
    monkeypatch.setattr(reproduce, "part_of", lambda name, run: part(name))
    reproduce.main()
    page = (tmp_path / "audits.md").read_text("utf-8")
    titles = re.findall("^## (.*)$", page, flags=re.MULTILINE)
    assert titles[:2] == ["MAGIC, row bootstrap", "Rice, TVAE"]
    assert page.count("| m | favorable | 31 of 250 | 42 of 250 |") == 2
    assert page.startswith("# The paper's real-data audits")
    assert "2 counts compared" in page
    assert "Made with torch 2.13.0; draws computed on a GPU." in page
    # What has never been run is named, with what it needs.
    assert "aim-taiwan (0 of its 15 draws are made)" in page
    assert "tabddpm (needs torch)" in page


def test_an_audit_that_was_only_sealed_is_not_said_to_be_run() -> None:
    one = part("taiwan-bootstrap", folders=("taiwan-aim", "taiwan-bootstrap"))
    said = document.section("taiwan-bootstrap", one)
    assert "seals `audits/taiwan-aim` and runs `audits/taiwan-bootstrap`." in said


def test_a_shortened_run_leaves_the_parts_of_whole_ones_alone(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(reproduce, "PARTS", tmp_path / "parts")
    monkeypatch.setattr("sys.argv", ["reproduce.py", "magic-bootstrap", "--draws", "3",
                                     "--work", str(tmp_path / "work")])  # fmt: skip
    monkeypatch.setattr(reproduce, "run_all", lambda name, work, draws: None)
    monkeypatch.setattr(reproduce, "part_of", lambda name, run: part(name))
    reproduce.main()
    assert not (tmp_path / "parts").exists()
    page = (tmp_path / "work" / "shortened-3" / "audits.md").read_text("utf-8")
    assert "shortened to at most 3 draws a mechanism" in page


def test_the_page_is_made_of_the_parts_that_are_kept() -> None:
    page = (ROOT / "docs" / "audits.md").read_text("utf-8")
    assert page == document.document(document.kept_parts(document.PARTS), None)


def test_times_name_the_processor_of_draws_and_the_seconds_of_kept_ones(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    on_gpu = {"device": "cuda", "processor": "NVIDIA H200", "torch": "2.13.0"}
    draws = [SimpleNamespace(computed=on_gpu)] * 2 + [SimpleNamespace(computed=None)]
    members = {"target": {"TVAE": SimpleNamespace(draws=draws)}}

    def named(name: str) -> Any:
        folder = SimpleNamespace(document=lambda kind, path: SimpleNamespace(members=members))
        return SimpleNamespace(folder=folder, certificate=lambda: SimpleNamespace(name=name))

    run: Any = SimpleNamespace(
        paper=named("spambase-aim"), ours=None, original=None, certified=[named("spambase-aim")]
    )
    assert details.computed_on(run) == "NVIDIA H200 (cuda)"
    monkeypatch.setattr(details, "_seconds", lambda audit: "" if audit is None else "7")
    row = details.times("spambase-aim", run)
    kept_seconds = details.draw_seconds("spambase-aim")
    assert kept_seconds is not None
    assert row == ("spambase-aim", "7", "", "", "NVIDIA H200 (cuda)", f"{kept_seconds:.0f}")
    assert details.draw_seconds("magic-bootstrap") is None  # it draws for itself


def test_single_releases_need_nothing_of_the_stand_ins(tmp_path: Path) -> None:
    run: Any = SimpleNamespace(
        paper=SimpleNamespace(folder=SimpleNamespace(path=tmp_path / "tabddpm"))
    )
    assert experiments.repeats(run, AUDITS["tabddpm"]) == ""
    assert experiments.otherwise(run, AUDITS["tabddpm"]) == ""


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


UNSEEN = {"shortened", "not_run", "unexplained", "within_chance", "correction", "ours_not_drawn"}
"""Paragraphs that a whole run whose counts agree does not have, and one of the next run."""


@pytest.mark.parametrize("name", sorted(set(WORDS) - UNSEEN))
def test_every_paragraph_stands_on_the_page_that_a_whole_run_wrote(name: str) -> None:
    page = (ROOT / "docs" / "audits.md").read_text("utf-8")
    fixed = re.split(r"\{\w+(?::[^}]*)?\}", WORDS[name].strip("\n"))
    assert re.search(".*?".join(map(re.escape, fixed)), page, flags=re.DOTALL)
