"""A messy table is audited with TabDDPM, on a CPU, and a draw of it is drawn again alone."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="needs the extra torch: make test-torch")

from audit.conftest import audit_in
from audit.test_fitted import DECLARATION, write_messy

MECHANISM = """\
[[mechanism]]
name = "diffusion"
generator = "tabddpm"
draws = 5
seeds = { first = 100 }

[mechanism.options]
outcome = "label"
train_rows = 200
steps = 60
times = 12
hidden = [32]
embedding = 16
learning_rate = "0.01"
average = "0.9"
device = "cpu"
together = 3

[claim]
"""


def test_a_messy_table_is_audited_with_tabddpm(tmp_path: Path) -> None:
    write_messy(tmp_path / "data" / "table.csv")
    audit = audit_in(tmp_path)
    audit.folder.path.mkdir()
    head, _, rest = DECLARATION.partition("[[mechanism]]")
    claim = rest.partition("[claim]\n")[2]
    (audit.folder.path / "audit.toml").write_text(head + MECHANISM + claim)
    audit.seal()
    audit.register()
    audit.draw()
    audit.open()
    frozen = json.loads(audit.folder.read("releases.json"))["members"]["target"]
    draws = frozen["diffusion"]["draws"]
    assert len(draws) == 5
    assert all("error" not in record for record in draws), draws
    assert {record["computed"]["device"] for record in draws} == {"cpu"}
    assert {record["computed"]["together"] for record in draws} <= {"1", "2", "3"}
    # Drawn again by itself, a release that was trained in company has the same content.
    checked = audit.verify(redraw=2)
    assert checked.good, checked.findings
