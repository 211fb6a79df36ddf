"""The MAGIC bootstrap audit with 5 of its 30 draws, from its declaration to a certificate.

Published (paper, sealed MAGIC audit): 30 of 30 releases recognized; source forest with
validation risks .09079, .02170, .05790 and threshold .222; limits .141, .072, .108. Five
draws cannot validate a reliability of .8, so the verdict here is that nothing is settled;
audits/reproduce.py draws all thirty.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from proxyguard.audit.audit import Audit
from reproduction import audits
from reproduction.audits.reproduce import share_draws, with_draws

DRAWS = 5
ROOT = Path(audits.__file__).parent
DATA = os.environ.get("PROXYGUARD_DATA")

pytestmark = [
    pytest.mark.reproduction,
    pytest.mark.whole,
    pytest.mark.skipif(
        DATA is None or not (Path(DATA) / "magic" / "magic04.data.gz").exists(),
        reason="PROXYGUARD_DATA does not name a folder with magic/magic04.data.gz",
    ),
]


def start(folder: Path, name: str) -> Audit:
    audit = Audit(folder / name, home=folder / "home", data=[Path(str(DATA))])
    audit.init(with_draws((ROOT / name / "audit.toml").read_text(encoding="utf-8"), DRAWS))
    audit.seal()
    audit.register()
    return audit


@pytest.fixture(scope="module")
def paper(tmp_path_factory: pytest.TempPathFactory) -> Audit:
    audit = start(tmp_path_factory.mktemp("magic"), "magic-bootstrap")
    audit.draw()
    audit.open()
    return audit


def limits(audit: Audit) -> dict[str, str]:
    registry: dict[str, Any] = json.loads((audit.folder / "registry/0.json").read_text())
    return {
        one["part"]["name"]: one["limit"]["value"]
        for one in registry["members"]["target"]["requirements"]
    }


def test_every_release_is_recognized_as_all_thirty_were(paper: Audit) -> None:
    (verdict,) = paper.certificate().to_dict()["verdicts"]
    assert verdict["lower"]["steps"][0] == {"label": "recognized releases (Holm)", "value": DRAWS}
    assert verdict["reliability_lower"] == pytest.approx(0.025 ** (1 / DRAWS), rel=1e-9)
    assert verdict["decision"] == "unresolved"


def test_the_source_and_the_frozen_limits_are_the_published_ones(paper: Audit) -> None:
    facts = paper.journal().ledger.entries[1].body.to_dict()["members"]["target"]
    risks = {name: float(value) for name, value in facts["risks"].items()}
    assert facts["source"]["selected"] == "forest"
    assert float(facts["source"]["threshold"]) == pytest.approx(0.222, abs=1e-12)
    assert risks["Brier risk"] == pytest.approx(0.09079, abs=5e-6)
    assert risks["log-loss risk"] == pytest.approx(0.02170, abs=5e-6)
    assert risks["Cost5x risk"] == pytest.approx(0.05790, abs=5e-6)
    assert limits(paper) == {
        "Brier transfer": "0.04", "log-loss transfer": "0.04", "Cost5x transfer": "0.04",
        "Brier risk": "0.141", "log-loss risk": "0.072", "Cost5x risk": "0.108",
    }  # fmt: skip


def test_the_certificate_says_what_guarantee_remains_and_a_stranger_can_check(paper: Audit) -> None:
    status = paper.certificate().to_dict()["claim_status"]
    assert status["guarantee"].startswith("no: the declaration says: a public table")
    found = paper.verify()
    assert found.good, found.findings
    assert found.unknown == []


def test_our_defaults_give_a_higher_bound_on_the_same_draws(paper: Audit) -> None:
    # Procedure, mechanism and seeds are the same, and so are the releases.
    ours = start(paper.folder.path.parent, "magic-bootstrap-ours")
    share_draws(paper, ours)
    ours.draw()
    certificate = ours.open().to_dict()
    assert certificate is not None
    (verdict,) = certificate["verdicts"]
    # Sharp with every score favorable: no split between draws and target.
    assert 0.025 ** (1 / DRAWS) < verdict["reliability_lower"] <= 0.05 ** (1 / DRAWS)
    assert "was opened" not in certificate["claim_status"]["lineage"]
    assert (
        "5706 target records were in target of 'magic-bootstrap'"
        in (certificate["claim_status"]["lineage"])
    )
    assert ours.verify().good
