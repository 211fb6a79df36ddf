"""A messy table is audited with the generators that need nothing but the package."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from audit.conftest import audit_in

DECLARATION = """\
format = 1
name = "messy"
purpose = "Do stand-ins of a messy table carry over?"

[target]
table = "table.csv"
reserve = { rows = 250, seed = 11 }
outcome = "label"
positive = "yes"
read = { missing = ["?"] }

[development]
validation = { fraction = "0.25", stratify = true, seed = 12 }

[procedure]
library = ["balanced_logistic"]
choose = { loss = "cost", false_negative = "2", thresholds = 51 }

[[requirement]]
name = "Brier transfer"
loss = "brier"
form = "relative"
limit = "0.20"

[[mechanism]]
name = "copula"
generator = "copula"
draws = 5
seeds = { first = 100 }
options = { train_rows = 200, condition = { column = "label", equal = true } }

[[mechanism]]
name = "network"
generator = "bayesian_network"
draws = 5
seeds = { first = 200 }
options = { bootstrap = true, bins = 8 }

[claim]
reliability_target = "0.3"
"""


def write_messy(path: Path, rows: int = 700) -> None:
    """Write gaps, whole numbers, a constant, an empty column, rare and missing text."""
    rng = np.random.default_rng(1)
    x = rng.normal(size=rows)
    income = pd.Series(np.exp(x).round(3)).astype(object)
    income[rng.random(rows) < 0.1] = "?"
    table = pd.DataFrame(
        {
            "income": income,
            "age": np.rint(40 + 10 * rng.normal(size=rows)).astype(int),
            "town": rng.choice(["north", "south", ""], rows, p=[0.6, 0.38, 0.02]),
            "same": 3,
            "member": x > 0.5,
            "label": np.where(x + 0.6 * rng.normal(size=rows) > 0, "yes", "no"),
        }
    )
    table.loc[5, "town"] = "island"
    path.parent.mkdir(parents=True)
    table.to_csv(path, index=False)


@pytest.mark.parametrize(
    "processes", ["this one", pytest.param("confined", marks=pytest.mark.whole)]
)
def test_a_messy_table_is_audited_with_a_copula_and_a_network(
    tmp_path: Path, request: pytest.FixtureRequest, processes: str
) -> None:
    if processes == "this one":
        request.getfixturevalue("draws_here")
    write_messy(tmp_path / "data" / "table.csv")
    audit = audit_in(tmp_path)
    audit.folder.path.mkdir()
    (audit.folder.path / "audit.toml").write_text(DECLARATION)
    audit.seal()
    audit.register()
    audit.draw()
    audit.open()
    frozen = json.loads(audit.folder.read("releases.json"))["members"]["target"]
    for name in ("copula", "network"):
        draws = frozen[name]["draws"]
        assert len(draws) == 5
        assert all("error" not in record for record in draws), draws
    verdicts = audit.certificate().to_dict()["verdicts"]
    assert {v["mechanism"] for v in verdicts} == {"copula", "network"}
    checked = audit.verify(redraw=1 if processes == "confined" else 0)
    assert checked.good, checked.findings
