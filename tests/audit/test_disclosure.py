"""A registered disclosure: warned of beforehand, rounded everywhere, verified by a stranger."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from proxyguard.audit.audit import Audit
from proxyguard.audit.seal import mean_warnings, rounding_warnings, written_limits
from proxyguard.cli.main import app
from proxyguard.errors import RegistryError, UnsupportedDesign
from proxyguard.registry.declaration import read_declaration
from proxyguard.seal.ledger import Stage

DECLARATION = """\
format = 1
name = "rounded"
purpose = "Is what is given away rounded?"
{disclosure}

[target]
table = "table.csv"
reserve = {{ rows = {rows}, seed = 11 }}
outcome = "label"
positive = "yes"
exclude = ["site", "ward"]
{design}

[procedure]
library = ["fixed_logistic"]

[[requirement]]
name = "risk"
loss = "brier"
form = "absolute"
limit = "0.30"

[[requirement]]
name = "error"
loss = "error"
form = "absolute"
limit = "0.45"
{group}

[[mechanism]]
name = "bootstrap"
generator = "bootstrap"
draws = {draws}
seeds = {{ first = 100 }}
"""
CLAIM = """
[[secondary]]
name = "strict"
limits = { risk = "0.20" }

[claim]
reliability_target = "0.3"
alpha = "0.1"

[picks]
alpha = "0.05"
"""
SEQUENTIAL = """
[claim]
mode = "sequential"
reliability_target = "0.3"
threshold = "0.01"
looks = [3, 6]
"""
ROUNDED = "disclosure = { digits = 2 }"


@pytest.fixture(autouse=True)
def _draws_here(monkeypatch: pytest.MonkeyPatch, draw_here: Callable[..., None]) -> None:
    for module in ("draw", "sequential"):
        monkeypatch.setattr(f"proxyguard.audit.{module}.draw_all", draw_here)


def declared(root: Path, *, claim: str = CLAIM, rows: int = 200, draws: int = 6,
             disclosure: str = ROUNDED, design: str = "", group: str = "") -> Audit:  # fmt: skip
    rng = np.random.default_rng(1)
    x = rng.normal(size=(500, 2)).round(4)
    signal = x[:, 0] + 0.5 * x[:, 1] + 0.7 * rng.normal(size=500)
    site = np.where(np.arange(500) % 100 == 0, "far", "near")
    ward = np.arange(500) // 5
    frame = pd.DataFrame({
        "first": x[:, 0], "second": x[:, 1], "site": site, "ward": [f"w{k}" for k in ward],
        "label": np.where(signal > 0, "yes", "no"),
    })  # fmt: skip
    (root / "data").mkdir(parents=True)
    frame.to_csv(root / "data" / "table.csv", index=False)
    audit = Audit(root / "audit", home=root / "home", data=[root / "data"], workers=1)
    text = DECLARATION.format(
        disclosure=disclosure, rows=rows, draws=draws, design=design, group=group
    )
    audit.init(text + claim)
    return audit


def verified(audit: Audit) -> None:
    for with_target in (False, True):
        found = audit.verify(with_target=with_target)
        assert found.good, found.findings


def columns_of(value: Any) -> Iterator[dict[str, Any]]:
    """Every column of statistics, wherever in a document it stands."""
    if isinstance(value, dict):
        if "columns" in value and "derived" in value:
            yield from value["columns"]
        for part in value.values():
            yield from columns_of(part)
    elif isinstance(value, list):
        for part in value:
            yield from columns_of(part)


def assert_rounded(value: Any, digits: int) -> None:
    seen = 0
    for column in columns_of(value):
        for name, values in column.items():
            if name in ("mean", "mean_low", "log_peak", "log_final", "block_means"):
                flat = np.ravel(np.array(values, dtype=float))
                np.testing.assert_array_equal(flat, np.round(flat, digits))
                seen += flat.size
    assert seen > 0


def plain_texts(folder: Path) -> str:
    """All that a reader of the folder sees as text: evidence, certificate, reports, ledger."""
    texts = [
        p for p in folder.rglob("*") if p.suffix in (".json", ".jsonl", ".csv", ".html", ".md")
    ]
    assert texts
    return "\n".join(p.read_text(encoding="utf-8") for p in texts)


def test_everything_published_is_rounded_and_a_stranger_decides_the_same(tmp_path: Path) -> None:
    plain = declared(tmp_path / "plain", disclosure="")
    plain.run()
    exact = json.loads(plain.folder.read("evidence.json"))
    audit = declared(tmp_path / "rounded")
    audit.seal()
    audit.register()
    audit.draw()
    audit.amend("one draw is taken out before any outcome", [("bootstrap", 103)])
    predicate = audit.open().to_dict()
    assert predicate is not None
    verified(audit)
    evidence = json.loads(audit.folder.read("evidence.json"))
    assert_rounded(evidence, 2)
    assert set(evidence["excluded"]) == {"bootstrap"}
    assert set(evidence["secondary"]) == {"strict"}
    # An AUC has no side that weakens a claim, so none is given away.
    assert set(evidence["diagnostics"]) == {"label", "unscored"}
    assert "auc" in exact["diagnostics"]
    assert predicate["disclosure"]["digits"] == 2
    page = audit.folder.read("report.html").decode()
    assert "Every statistic is rounded to 2 digits, against the claim.</p>" in page
    seen = plain_texts(audit.folder.path)
    assert "rounding is no privacy guarantee" in seen
    # The target is the same table part, so the exact statistics of the other audit are its own.
    own = exact["groups"]["bootstrap"]
    # The variance of the two-valued loss follows from its rounded count.
    finer = [x for column in own["columns"] for x in column["mean"]] + own["columns"][0]["variance"]
    finer += [x for row in own["derived"]["estimates"] for x in row]
    finer += list(exact["diagnostics"]["auc"]["bootstrap"].values())
    finer = [x for x in finer if round(x, 4) != x]
    assert len(finer) > 20
    assert not [x for x in finer if f"{x:.6f}"[2:] in seen]


def test_statistics_finer_than_registered_are_found(tmp_path: Path, forge: Any) -> None:
    audit = declared(tmp_path)
    audit.run()

    def finer(evidence: dict[str, Any]) -> None:
        evidence["groups"]["bootstrap"]["columns"][0]["mean"][0] -= 0.004

    forge.edit_json(audit, "evidence.json", finer)
    forge.rewrite(audit)
    assert "rounded" in forge.found_by(audit)


def test_a_sequential_audit_scores_and_records_rounded_statistics(tmp_path: Path) -> None:
    audit = declared(tmp_path, claim=SEQUENTIAL)
    audit.run()
    verified(audit)
    scores = [e.body.to_dict()["statistics"] for e in audit.journal().ledger.find(Stage.SCORED)]
    assert scores
    assert_rounded([json.loads(json.dumps(one)) for one in scores], 2)


def test_a_correction_is_rounded_too(tmp_path: Path, set_apart: Callable[..., None]) -> None:
    audit = declared(tmp_path)
    set_apart(audit)
    audit.run()
    audit.correct("the records are a sample from a pool", {"pool": 700})
    verified(audit)
    assert_rounded(json.loads(audit.folder.read("corrections/0.json")), 2)


SHARES = """\
format = 1
name = "shares"
purpose = "Are counts of shares rounded?"
disclosure = { digits = 1 }

[target]
table = "table.csv"
reserve = { rows = 200, seed = 11 }

[[requirement]]
name = "far"
form = "query"
query = { marginals = [["site"], ["label"]] }
limit = "0.3"

[[mechanism]]
name = "bootstrap"
generator = "bootstrap"
draws = 4
seeds = { first = 100 }

[claim]
reliability_target = "0.2"
alpha = "0.2"
"""


def test_the_counts_of_shares_are_rounded_and_verified(tmp_path: Path) -> None:
    audit = declared(tmp_path)
    (audit.folder / "audit.toml").write_text(SHARES)
    audit.run()
    verified(audit)
    for column in columns_of(json.loads(audit.folder.read("evidence.json"))):
        assert all(count % 20 == 0 for count in (*column["count"], *column["count_low"]))


def test_rounded_figures_are_not_counted_against_a_limit(tmp_path: Path) -> None:
    audit = declared(tmp_path)
    (audit.folder / "audit.toml").write_text(SHARES.replace('"0.3"', '"0.05"'))
    said = [line for line in audit.check().warnings if "rounds against the claim" in line]
    assert len(said) == 1
    # Of 200 records three digits tell every count: neither they nor fewer are proposed.
    assert said[0].endswith(
        "3 digits are the fewest that are fine enough for the limits, and round counts of more "
        "than 1,000 records: so many records, wider limits, or no disclosure"
    )
    audit.run()
    assert [line for line in audit.check().warnings if "rounds against the claim" in line] == said
    page = audit.folder.read("report.html").decode()
    assert "estimates below the limit" not in page
    assert "estimates, rounded up, and the limit" in page
    assert "pg-above" not in page.partition("</style>")[2]
    assert "in steps of 0.1 of" in page
    assert "Of cells: numbers are split at the declared bins" in page
    assert "have all estimates below their limits" not in page


def test_few_records_and_many_releases_are_warned_of_by_check_and_seal(tmp_path: Path) -> None:
    audit = declared(tmp_path, rows=120, draws=80, disclosure="")
    said = [line for line in audit.check().warnings if "solve for the outcomes" in line]
    assert len(said) == 1
    assert "80 releases x 2 requirements publish 160 means of 120 records" in said[0]
    assert "disclosure = { digits = 2 } before the first table" in said[0]
    arguments = ["seal", str(audit.folder.path), "--home", str(tmp_path / "home"),
                 "--data", str(tmp_path / "data")]  # fmt: skip
    shown = CliRunner().invoke(app, arguments)
    assert shown.exit_code == 0, shown.output
    assert "160 means of 120 records" in " ".join(shown.output.split())
    again = [line for line in audit.check().warnings if "solve for the outcomes" in line]
    assert again == said


@pytest.mark.parametrize(("draws", "warned"), [(24, False), (25, True)])
def test_the_warning_begins_at_a_quarter_of_the_records(
    tmp_path: Path, draws: int, warned: bool
) -> None:
    audit = declared(tmp_path, rows=200, draws=draws, disclosure="")
    assert any("solve" in line for line in audit.check().warnings) is warned
    assert any("solve" in line for line in audit.seal().warnings) is warned


def test_a_group_of_few_records_is_warned_of_and_its_size_is_not_written_down(
    tmp_path: Path,
) -> None:
    audit = declared(tmp_path, group='group = { site = "far" }')
    (said,) = [line for line in audit.check().warnings if "site = far" in line]
    assert "fewer than 10" in said
    assert said in audit.seal().warnings
    assert "site = far" not in (audit.folder / "ledger.jsonl").read_text()
    large = declared(tmp_path / "large", group='group = { site = "near" }')
    assert not [line for line in large.check().warnings if "site = near" in line]


def test_digits_that_change_no_count_are_said_to(tmp_path: Path) -> None:
    audit = declared(tmp_path, disclosure="disclosure = { digits = 3 }")
    assert "target: rounding to 3 digits changes no count out of 200 records; 2 digits do" in (
        audit.check().warnings
    )


def test_what_cannot_be_rounded_soundly_is_refused_before_anything_is_sealed(
    tmp_path: Path,
) -> None:
    audit = declared(
        tmp_path,
        design='design = { by = "ward", weighting = "record", max_size = 5 }',
    )
    text = (audit.folder / "audit.toml").read_text()
    (audit.folder / "audit.toml").write_text(
        text.replace(
            "reserve = { rows = 200, seed = 11 }", "reserve = { clusters = 40, seed = 11 }"
        )
    )
    assert any("ratio of two target means" in line for line in audit.check().problems)
    audit.seal()
    with pytest.raises(UnsupportedDesign, match="ratio of two target means"):
        audit.register()


@pytest.mark.parametrize("digits", ["0", "7", '"3"', "2.5", "true"])
def test_digits_are_a_whole_number_from_one_to_six(tmp_path: Path, digits: str) -> None:
    text = (declared(tmp_path).folder / "audit.toml").read_text()
    with pytest.raises(RegistryError, match=r"\[disclosure\] digits"):
        read_declaration(text.replace("digits = 2", f"digits = {digits}"))


def proposals(n: int, limit: str, digits: int | None, design: str = "") -> list[int | None]:
    """Return the digits that are proposed where these are declared, None for no disclosure."""
    disclosure = "" if digits is None else f"disclosure = {{ digits = {digits} }}"
    text = DECLARATION.format(disclosure=disclosure, rows=n, draws=n, design=design, group="")
    declaration = read_declaration(text.replace('"0.30"', f'"{limit}"') + CLAIM)
    (member,) = declaration.members
    limits = written_limits(member)
    said = mean_warnings(declaration, member, requirements=2, n=n, limits=[*limits.values()])
    said += rounding_warnings(member, digits, limits, n)
    found: list[int | None] = [
        int(words) for line in said
        for words in re.findall(r"digits = (\d) (?:\}|is fine)|; (\d) digits do", line)
        for words in words if words
    ]  # fmt: skip
    return found + [None for line in said if "no disclosure" in line]


@pytest.mark.parametrize("n", [9, 60, 200, 999, 1001, 20_000])
@pytest.mark.parametrize("limit", ["0.30", "0.09", "0.009", "0.0009", "0.0000001"])
def test_no_advice_about_digits_leads_back_to_where_it_came_from(n: int, limit: str) -> None:
    leads = {digits: proposals(n, limit, digits) for digits in (None, *range(1, 7))}
    at: set[int | None] = set(leads)
    for _ in leads:  # from anywhere, as many steps as there are settings
        at = {following for digits in at for following in leads[digits]}
    assert not at, leads
    # Whoever is told to leave it out is not told to put it back.
    assert leads[None] == [] or not any(None in told for told in leads.values())


def test_no_disclosure_is_proposed_that_register_would_refuse() -> None:
    assert proposals(200, "0.30", None) == [2]
    weighted = 'design = { weight = "ward", max_weight = "9", origin = "design" }'
    assert proposals(200, "0.30", None, weighted) == []
    assert proposals(200, "0.30", None, 'missing_outcomes = "worst"') == []
