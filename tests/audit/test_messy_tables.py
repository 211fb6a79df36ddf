"""A table as people have them is audited as it is, from its declaration to `verify`."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from audit.conftest import audit_in
from conformance.messy import labelled
from conftest import Effort
from proxyguard.errors import RegistryError, UnreadValue

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
