"""The report of a sealed audit: its files, its picks, its comparison, and forgeries of them."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from proxyguard.audit.audit import Audit
from proxyguard.audit.folder import ADVICE, REPORTS
from proxyguard.audit.outcome import write_comparison
from proxyguard.cli.main import app
from proxyguard.errors import RegistryError, SealError
from proxyguard.seal.ledger import Stage

pytestmark = pytest.mark.usefixtures("module_draws_here")

At = Callable[[str], Audit]


@pytest.fixture(scope="module")
def picked(stages: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The small audit with a budget for choosing releases, certified."""
    root = tmp_path_factory.mktemp("picked") / "audit"
    shutil.copytree(stages / "sealed", root)
    audit = Audit(root / "audit", home=root / "home", data=[root / "data"], workers=1)
    place = audit.folder / "audit.toml"
    text = place.read_text().replace('reliability_target = "0.6"', 'reliability_target = "0.95"')
    place.write_text(text + '\n[picks]\nalpha = "0.1"\n')
    audit.register()
    audit.draw()
    audit.open()
    return root


@pytest.fixture
def chosen(picked: Path, tmp_path: Path) -> Audit:
    """A copy of it."""
    root = tmp_path / "copy"
    shutil.copytree(picked, root)
    return Audit(root / "audit", home=root / "home", data=[root / "data"], workers=1)


def test_every_file_is_written_and_rebuilt_byte_for_byte(chosen: Audit) -> None:
    before = {name: (chosen.folder / name).read_bytes() for name in REPORTS}
    assert set(before) == {"report.md", "report.html", "report.json", "report.csv"}
    chosen.report()
    assert {name: (chosen.folder / name).read_bytes() for name in REPORTS} == before
    assert chosen.verify().good


@pytest.mark.parametrize("name", REPORTS)
def test_a_changed_report_is_found(chosen: Audit, name: str) -> None:
    place = chosen.folder / name
    place.write_bytes(place.read_bytes().replace(b"UNRESOLVED", b"VALIDATED") + b" ")
    (finding,) = chosen.verify().findings
    assert f"{name} is not the report of this audit" in finding.problem


def test_picks_are_recorded_and_count_as_the_page_does(chosen: Audit) -> None:
    counts = chosen.picks()
    count = counts["bootstrap"]
    assert count.releases == tuple(str(seed) for seed in range(100, 108))
    assert count.of(count.releases) == count.at_least
    assert count.of([]) == 0
    assert chosen.certificate().to_dict()["picks"]["alpha"] == "0.1"
    report = json.loads((chosen.folder / "report.json").read_bytes())
    (table,) = [one for one in report["tables"] if one["section"] == "picks"]
    assert table["rows"][0][2] == str(count.at_least)
    assert report["picks"].startswith("With 90 % confidence, for every choice")


def test_no_budget_no_picks(at: At) -> None:
    audit = at("certified")
    assert audit.certificate().predicate.picks is None
    with pytest.raises(RegistryError, match="no budget was registered"):
        audit.picks()


def test_forged_evalues_are_found(chosen: Audit, forge: Any) -> None:
    def lie(predicate: dict[str, Any]) -> None:
        own = predicate["picks"]["mechanisms"]["bootstrap"]
        own["evalues"] = [str(int(e) + 1000) for e in own["evalues"]]

    forge.certificate(chosen, predicate=lie)
    assert "certificate" in forge.found_by(chosen)


def test_an_unresolved_audit_gets_advice_and_status_tells_the_same(chosen: Audit) -> None:
    report = json.loads((chosen.folder / "report.json").read_bytes())
    (advice,) = report["advice"]
    assert advice["mechanism"] == "bootstrap"
    (verdict,) = chosen.status().verdicts
    assert verdict.decision == "unresolved"
    assert verdict.advice == advice["sentence"]
    assert verdict.binding == advice["binding"] != ""
    shown = CliRunner().invoke(app, ["status", str(chosen.folder.path)])
    assert shown.exit_code == 0
    assert "? UNRESOLVED: bootstrap" in shown.output
    assert "required: more than 95 %" in shown.output
    assert f"Binding requirement: {verdict.binding}" in shown.output
    assert f"What next: {advice['sentence']}" in shown.output


def test_a_resolved_audit_gets_none(at: At) -> None:
    audit = at("certified")
    (verdict,) = audit.status().verdicts
    assert verdict.decision == "validated"
    assert verdict.advice == ""


def test_two_audits_are_compared_on_one_page(chosen: Audit, at: At, tmp_path: Path) -> None:
    folders = [at("certified").folder.path, chosen.folder.path]
    for ending in ("html", "md", "json"):
        out = tmp_path / f"both.{ending}"
        assert write_comparison(folders, out).read_bytes()
        first = out.read_bytes()
        write_comparison(folders, out)
        assert out.read_bytes() == first
    done = CliRunner().invoke(app, ["report", *map(str, folders), "--out", str(tmp_path / "c.md")])
    assert done.exit_code == 0, done.output
    text = (tmp_path / "c.md").read_text()
    assert "no error budget here has paid for" in text
    assert "same sealed target" in text  # both were registered on one seal
    with pytest.raises(RegistryError, match="ends in none of them"):
        write_comparison(folders, tmp_path / "both.pdf")


def test_the_command_line_names_the_files(chosen: Audit, tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["report", str(chosen.folder.path), "--json"])
    assert done.exit_code == 0, done.output
    files = json.loads(done.output)["files"]
    assert [Path(one).name for one in files] == list(REPORTS)
    refused = CliRunner().invoke(
        app, ["report", str(chosen.folder.path), "--out", str(tmp_path / "x.html")]
    )
    assert refused.exit_code == 2


def test_the_advice_is_recorded_and_never_searched_for_again(
    chosen: Audit, monkeypatch: pytest.MonkeyPatch
) -> None:
    (done,) = chosen.journal().ledger.find(Stage.CERTIFIED)
    assert ADVICE in done.body.to_dict()["files"]
    before = {name: (chosen.folder / name).read_bytes() for name in REPORTS}
    monkeypatch.setattr("proxyguard.report.advice.recommend", None)  # would raise if it were called
    monkeypatch.setattr("proxyguard.audit.outcome.advise", None)
    assert chosen.status().verdicts[0].advice
    chosen.report()
    assert {name: (chosen.folder / name).read_bytes() for name in REPORTS} == before
    assert chosen.verify().good


def test_a_changed_advice_is_found(chosen: Audit) -> None:
    place = chosen.folder / ADVICE
    place.write_bytes(place.read_bytes().replace(b"null", b"{}") + b" ")
    assert any(finding.place == ADVICE for finding in chosen.verify().findings)


def test_no_report_is_written_of_a_changed_folder(chosen: Audit, tmp_path: Path, at: At) -> None:
    place = chosen.folder / "evidence.json"
    place.write_bytes(place.read_bytes().replace(b"0.1", b"0.0", 1))
    with pytest.raises(SealError, match=r"evidence.json: was changed"):
        chosen.report()
    done = CliRunner().invoke(app, ["report", str(chosen.folder.path)])
    assert done.exit_code != 0
    with pytest.raises(SealError, match="was changed"):
        write_comparison([at("certified").folder.path, chosen.folder.path], tmp_path / "c.md")


def test_a_comparison_says_nothing_of_where_folders_lie(
    chosen: Audit, at: At, tmp_path: Path
) -> None:
    folders = [at("certified").folder.path, chosen.folder.path]
    for ending in ("html", "md", "json"):
        text = write_comparison(folders, tmp_path / f"both.{ending}").read_text()
        assert str(folders[0].parent) not in text
        assert str(folders[1].parent) not in text
    with pytest.raises(RegistryError, match="are one audit"):
        write_comparison([folders[0], folders[0]], tmp_path / "twice.md")


def test_status_tells_what_remains_of_the_guarantee(at: At) -> None:
    audit = at("certified")
    assert audit.status().deviations == ()
    assert audit.status().verdicts[0].warning == ""
    assert audit.status().verdicts[0].certified is True
    audit.deviate("the draws were made twice")
    found = audit.status()
    assert found.deviations == ("the draws were made twice",)
    assert "deviations were recorded later" in str(found.guarantee)
    assert found.verdicts[0].warning.startswith("No guarantee remains: deviation recorded later")
    certificate = audit.certificate()
    for said in (certificate.verdicts[0].sentence, str(certificate), repr(certificate)):
        assert said.startswith("No guarantee remains")
    shown = CliRunner().invoke(app, ["status", str(audit.folder.path)]).output
    required = found.required[0]
    assert required.startswith("The Brier score of a model trained on a release m")
    for words in ("No guarantee remains", "Guarantee: ", "Attestation: ", required[:40],
                  "Deviation: the draws were made twice"):  # fmt: skip
        assert words in shown


def test_the_pictures_of_a_report_are_figures(chosen: Audit) -> None:
    pytest.importorskip("matplotlib")
    found = chosen.figures()
    assert set(found) == {"verdicts", "bootstrap", "error budget"}
    assert all(figure.axes for figures in found.values() for figure in figures)
