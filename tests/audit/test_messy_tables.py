"""A table as people have them is audited as it is, from its declaration to `verify`."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from audit.conftest import audit_in
from conformance.messy import labelled
from conftest import Effort
from proxyguard.cli.main import app
from proxyguard.errors import RegistryError, UnreadValue
from proxyguard.registry.declaration import read_declaration
from proxyguard.tables.profile import profile_table

OUTCOMES = {
    "binary": ('positive = "1"', "brier"),
    "multiclass": ('classes = ["0", "1", "2"]', "brier"),
    "regression": ('range = ["-50", "50"]', "absolute"),
}
DECLARATION = """\
format = 1
name = "as it is"
purpose = "Does a resampled table stand in for a messy one?"

[target]
table = "table.csv"
reserve = {{ rows = 250, seed = 11 }}
outcome = "y"
{outcome}

[development]
validation = {{ fraction = "0.25", seed = 12 }}

[procedure]
library = ["default"]

[[requirement]]
name = "transfer"
loss = "{loss}"
form = "relative"
limit = "0.3"

[[mechanism]]
name = "bootstrap"
generator = "bootstrap"
draws = 4
seeds = {{ first = 100 }}

[claim]
reliability_target = "0.3"
"""


@pytest.mark.usefixtures("draws_here")
@pytest.mark.parametrize("kind", OUTCOMES)
def test_a_messy_table_is_audited_as_it_is(tmp_path: Path, kind: str, effort: Effort) -> None:
    (tmp_path / "data").mkdir()
    # As a spreadsheet writes it: a byte order mark, quoted commas, lines that end in two signs.
    labelled(700, 5, kind).to_csv(
        tmp_path / "data" / "table.csv", index=False, encoding="utf-8-sig", lineterminator="\r\n"
    )
    outcome, loss = OUTCOMES[kind]
    audit = audit_in(tmp_path)
    audit.init(DECLARATION.format(outcome=outcome, loss=loss))
    assert audit.check().problems == []
    certificate = audit.run().to_dict()
    assert certificate is not None
    (verdict,) = certificate["verdicts"]
    assert verdict["decision"] == "validated"
    assert audit.verify(with_target=True).good
    if effort.whole:
        assert audit.verify(redraw=2).good


DECLARED = """\
[columns]
admitted = { kind = "date", format = "%d.%m.%Y" }
amount = { kind = "number", thousands = "," }
mixed = { kind = "category" }
id = { exclude = true }
note = { exclude = true }
"""


@pytest.mark.usefixtures("draws_here")
def test_declared_columns_are_read_so_everywhere_and_excluded_ones_are_nowhere(
    tmp_path: Path,
) -> None:
    data, table = tmp_path / "data", labelled(700, 5)
    (data / "releases").mkdir(parents=True)
    table.to_csv(data / "table.csv", index=False)
    for k in range(4):  # releases made elsewhere, which never had the excluded columns
        release = labelled(400, 50 + k).drop(columns=["id", "note"])
        release.to_csv(data / "releases" / f"r{k}.csv", index=False)
    audit, text = audit_in(tmp_path), DECLARATION.format(outcome='positive = "1"', loss="brier")
    files = 'generator = "files"\noptions = { folder = "releases", pattern = "*.csv", first = 100 }'
    audit.init(text.replace('generator = "bootstrap"', files) + DECLARED)
    checked = audit.check()
    assert checked.problems == []
    assert not any("looks like an id" in warning for warning in checked.warnings)
    uses = {c.name: c.use for c in checked.profiles["target"].columns}
    assert uses["id"] == "excluded"
    assert "days since 1970" in uses["admitted"]
    certificate = audit.run().to_dict()
    assert certificate is not None
    assert certificate["verdicts"][0]["decision"] == "validated"
    assert audit.verify(with_target=True).good
    training = pd.read_parquet(audit.folder / "development/0.training.parquet")
    assert training["admitted"].between(16436, 19437).all()  # 2015-01-01 to 2023-03-20
    assert training["amount"].dtype == float
    # In clear: what nobody may use is not there, and the report says what is.
    assert {"id", "note"}.isdisjoint(training.columns)
    report = (audit.folder / "report.md").read_text("utf-8")
    assert "Meeting 'transfer' says little: a model that learns nothing" in report
    assert "development/ holds 450 records in clear, with the columns " in report


def test_an_excluded_column_is_written_where_a_requirement_asks_for_it_before_the_seal(
    tmp_path: Path,
) -> None:
    (tmp_path / "data").mkdir()
    labelled(700, 5).to_csv(tmp_path / "data" / "table.csv", index=False)
    text = DECLARATION.format(outcome='positive = "1"', loss="brier")
    text = text.replace('outcome = "y"', 'outcome = "y"\nexclude = ["note", "mixed"]')
    grouped = text.replace('limit = "0.3"', 'limit = "0.3"\ngroup = { mixed = "12" }')
    audit = audit_in(tmp_path)
    audit.init(grouped)
    audit.seal()
    training = pd.read_parquet(audit.folder / "development/0.training.parquet")
    assert "mixed" in training.columns
    assert "note" not in training.columns
    (audit.folder / "audit.toml").write_text(grouped.replace("mixed = ", "note = "), "utf-8")
    with pytest.raises(RegistryError, match="the requirements ask for 'note', excluded when"):
        audit.register()
    with pytest.raises(RegistryError, match="the requirements ask for 'note', excluded when"):
        audit.check()


@pytest.mark.usefixtures("draws_here")
def test_labels_that_differ_in_capital_letters_alone_are_one_where_that_is_declared(
    tmp_path: Path,
) -> None:
    data = tmp_path / "data"
    (data / "releases").mkdir(parents=True)
    rng = np.random.default_rng(7)
    for k, n in enumerate([700, 400, 400, 400, 400]):
        table = labelled(n, 5 + 50 * k)
        spelt = np.where(table["y"] == "1", "yes", "no").astype(object)
        loud = rng.random(n) < 0.2
        spelt[loud] = [f" {text.upper()}" for text in spelt[loud]]
        name = f"releases/r{k}.csv" if k else "table.csv"
        table.assign(y=spelt).to_csv(data / name, index=False)
    text = DECLARATION.format(outcome='positive = "yes"', loss="brier")
    files = 'generator = "files"\noptions = { folder = "releases", pattern = "*.csv", first = 100 }'
    text = text.replace('generator = "bootstrap"', files)
    audit = audit_in(tmp_path)
    audit.init(text)
    checked = audit.check()
    assert any("so it has that value and one other; found 4" in p for p in checked.problems)
    labels = pd.DataFrame({"y": np.char.strip(spelt.astype(str))})
    assert profile_table(labels, roles={"y": "predicted"}).warnings == [
        "column 'y' has 'NO', 'no', 'YES', 'yes', which count as different values though they "
        "differ in capital letters alone; write under [columns]: y = { fold_case = true }"
    ]
    (audit.folder / "audit.toml").write_text(
        text + "[columns]\ny = { fold_case = true }\n", "utf-8"
    )
    assert audit.check().problems == []
    certificate = audit.run()
    assert certificate is not None
    assert audit.verify(with_target=True).good
    training = pd.read_parquet(audit.folder / "development/0.training.parquet")
    assert set(training["y"]) == {"yes", "no"}


@pytest.mark.usefixtures("draws_here")
def test_an_audit_reads_texts_that_are_declared_the_same_as_one_value(tmp_path: Path) -> None:
    data = tmp_path / "data"
    (data / "releases").mkdir(parents=True)
    rng = np.random.default_rng(7)
    for k in range(3):
        table = labelled(400, 5 + 50 * k)
        spelt = np.where(table["y"] == "1", "Ja", "Nej").astype(object)
        short = rng.random(400) < 0.2
        spelt[short] = [text[0] for text in spelt[short]]
        crp = np.where(rng.random(400) < 0.1, "<5", rng.integers(5, 90, 400).astype(str))
        name = f"releases/r{k}.csv" if k else "table.csv"
        table.assign(y=spelt, crp=crp).to_csv(data / name, index=False)
    text = DECLARATION.format(outcome='positive = "Ja"', loss="brier")
    files = 'generator = "files"\noptions = { folder = "releases", pattern = "*.csv", first = 100 }'
    text = text.replace('generator = "bootstrap"', files).replace("draws = 4", "draws = 2")
    audit = audit_in(tmp_path)
    audit.init(
        text
        + '[columns]\ny = { same = { J = "Ja", N = "Nej" } }\ncrp = { same = { "<5" = "2.5" } }\n'
    )
    assert audit.check().problems == []
    audit.run()
    assert audit.verify(with_target=True).good
    training = pd.read_parquet(audit.folder / "development/0.training.parquet")
    assert set(training["y"]) == {"Ja", "Nej"}
    assert training["crp"].dtype == float
    assert training["crp"].min() == 2.5


@pytest.mark.parametrize(
    ("positive", "said", "why"),
    [
        ("J", '{ same = { J = "Ja" } }', "with same 'J' is read as 'Ja'; write that wherever"),
        ("Ja", '{ same = { NA = "Ja" } }', "same reads 'NA', which target.read.missing takes"),
        ("Ja", '{ same = { J = "" } }', "a text that stands for a missing value stands in missing"),
        ("Ja", '{ same = { J = "j", j = "Ja" } }', "say of 'j' twice what it is"),
        ("ja", '{ fold_case = true, same = { J = "ja" } }', "in same 'J' is read as 'j'; write"),
    ],
)
def test_texts_that_are_the_same_are_said_once_and_named_as_they_are_read(
    positive: str, said: str, why: str
) -> None:
    text = DECLARATION.format(outcome=f'positive = "{positive}"', loss="brier")
    with pytest.raises(RegistryError, match=why):
        read_declaration(f"{text}[columns]\ny = {said}\n")


def test_run_registers_no_files_that_check_refuses(tmp_path: Path) -> None:
    (tmp_path / "data" / "releases").mkdir(parents=True)
    labelled(700, 5).to_csv(tmp_path / "data" / "table.csv", index=False)
    text = DECLARATION.format(outcome='positive = "1"', loss="brier")
    files = 'generator = "files"\noptions = { folder = "releases", pattern = "*.csv", first = 100 }'
    audit = audit_in(tmp_path)
    audit.init(text.replace('generator = "bootstrap"', files))
    audit.seal()
    for k in range(4):
        (tmp_path / "data" / "releases" / f"{k}.csv").write_text("a,b\n1,2\n", "utf-8")
    told = CliRunner().invoke(app, ["run", str(audit.folder.path), "--home", str(tmp_path / "home"),
                                    "--data", str(tmp_path / "data")])  # fmt: skip
    assert told.exit_code == 1, told.output
    assert "Nothing was registered." in told.output
    assert audit.status().next == "register"


def test_a_folded_value_is_named_as_it_is_read() -> None:
    text = DECLARATION.format(outcome='positive = "Yes"', loss="brier")
    with pytest.raises(RegistryError, match="with fold_case 'Yes' is read as 'yes'; write"):
        read_declaration(text + "[columns]\ny = { fold_case = true }\n")


@pytest.mark.parametrize(
    ("asked", "column"),
    # Of a text that is read as missing either side has none, however many the target holds.
    [
        ('share = { country = "na" }', "{ fold_case = true }"),
        ('share = { country = "NA" }', '{ missing = ["NA"] }'),
        ('marginals = [["country"]], groups = { country = { south = ["n/a", "x"] } }',
         '{ missing = ["N/A"], fold_case = true }'),
    ],
)  # fmt: skip
def test_no_claim_is_about_a_text_that_is_read_as_missing(asked: str, column: str) -> None:
    text = DECLARATION.format(outcome='positive = "1"', loss="brier")
    query = f'[[requirement]]\nname = "c"\nform = "query"\nquery = {{ {asked} }}\nlimit = "0.1"\n'
    with pytest.raises(RegistryError, match="is asked for, and read as a missing value"):
        read_declaration(f"{text}\n{query}\n[columns]\ncountry = {column}\n")


@pytest.mark.parametrize("part", ["target", "development"])
def test_a_value_that_does_not_read_so_is_named_by_its_row_in_the_file(
    tmp_path: Path, part: str
) -> None:
    (tmp_path / "data").mkdir()
    table = labelled(700, 5)
    reserved = set(np.random.default_rng(11).choice(700, size=250, replace=False).tolist())
    row = next(k for k in range(700) if (k in reserved) is (part == "target"))
    table.loc[row, "admitted"] = "in spring 2016"
    table.to_csv(tmp_path / "data" / "table.csv", index=False)
    audit = audit_in(tmp_path)
    audit.init(DECLARATION.format(outcome='positive = "1"', loss="brier") + DECLARED)
    (problem,) = audit.check().problems
    assert (
        f"column 'admitted' is declared to hold dates as '%d.%m.%Y', and table.csv, row {row + 1}"
        in problem
    )
    assert "spring" not in problem
    with pytest.raises(UnreadValue, match=f"row {row + 1} has none"):
        audit.seal()


def test_an_id_is_proposed_for_exclusion_before_sealing_and_used_until_then(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    labelled(700, 5).to_csv(tmp_path / "data" / "table.csv", index=False)
    audit = audit_in(tmp_path)
    audit.init(DECLARATION.format(outcome='positive = "1"', loss="brier"))
    (warning,) = [w for w in audit.check().warnings if "looks like an id" in w]
    assert warning.endswith("write under [columns]: id = { exclude = true }")
    # Of the development part alone: 700 records less the 250 reserved, less what validates.
    assert audit.check().profiles["target"].rows == 450
