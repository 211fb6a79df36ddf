"""A sealed audit of AIM and of one kept fit of MST, from the declaration to the check of it."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from proxyguard.audit.audit import Audit

pytestmark = [
    pytest.mark.aim,
    pytest.mark.skipif(
        find_spec("mbi") is None or find_spec("polars") is None,
        reason="OpenDP's tables need mbi and polars: make test-aim",
    ),
]

DECLARATION = """\
format = 1
name = "aim"
purpose = "May private tables stand in?"

[target]
table = "table.csv"
reserve = { rows = 120, seed = 11 }
outcome = "label"
positive = "yes"

[procedure]
library = ["onehot_logistic"]

[[requirement]]
name = "Brier risk"
loss = "brier"
form = "absolute"
limit = "0.45"

[[mechanism]]
name = "refits"
generator = "aim"
draws = 2
seeds = { first = 200 }
[mechanism.options]
epsilon = "2"
delta = "1e-6"
outcome = "label"
workload = "pairs with the outcome"
rounds = 4
bins = 3
bounds = { x = ["0", "1"] }
categories = { label = ["no", "yes"], colour = ["red", "green", "blue"] }

[[mechanism]]
name = "one fit"
generator = "aim"
draws = 3
seeds = { first = 100 }
prepare_seed = 3
[mechanism.options]
rho = "0.5"
delta = "1e-6"
algorithm = "mst"
fit = "once"
folder = "fits"
sampling = "sample"
bins = 3
bounds = { x = ["0", "1"] }
categories = { label = ["no", "yes"], colour = ["red", "green", "blue"] }

[claim]
reliability_target = "0.05"
"""


def test_refits_and_one_fit_are_drawn_stated_and_checked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "home"))
    rng = np.random.default_rng(0)
    y = rng.random(500) < 0.4
    colour = np.where(rng.random(500) < 0.2 + 0.6 * y, "red", rng.choice(["green", "blue"], 500))
    x = np.clip(rng.normal(0.3 + 0.4 * y, 0.15), 0.0, 1.0).round(3)
    table = pd.DataFrame({"x": x, "colour": colour, "label": np.where(y, "yes", "no")})
    (tmp_path / "data").mkdir()
    table.to_csv(tmp_path / "data" / "table.csv", index=False)
    monkeypatch.setenv("PROXYGUARD_DATA", str(tmp_path / "data"))
    (tmp_path / "audit").mkdir()
    (tmp_path / "audit" / "audit.toml").write_text(DECLARATION)
    audit = Audit(tmp_path / "audit")
    assert audit.check().problems == []
    audit.seal()
    audit.register()
    audit.draw()
    audit.open()
    assert audit.verify().good
    plain = (tmp_path / "audit" / "report.md").read_text().replace("\\", "")
    assert "Each of 2 draws is a private fit of its own (epsilon 2, delta 1e-06" in plain
    assert "by adding up (rho " in plain
    assert "One private fit (epsilon " in plain
    # Of one kept fit releases are drawn again, and of refits the models are fitted again.
    found = audit.verify(redraw=5)
    assert found.good, found.findings
    told = [words.split(", seed")[0] for words in found.checked if ", seed" in words]
    assert sorted(told) == ["redraw: target/one fit"] * 3 + ["refit: target/refits"] * 2
    assert [words for words in found.not_checked if words.startswith("redraw: ")] == [
        "redraw: target/refits: not repeatable: its noise comes from the system and takes no seed"
    ]
    assert sorted(path.name for path in (tmp_path / "data" / "fits").iterdir()) == [
        "source.json", "tables.json",
    ]  # fmt: skip
