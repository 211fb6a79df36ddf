"""A table as people have them is audited as it is, from its declaration to `verify`."""

from __future__ import annotations

from pathlib import Path

import pytest

from audit.conftest import audit_in
from conformance.messy import labelled
from conftest import Effort

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
