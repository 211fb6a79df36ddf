"""The MAGIC bootstrap audit, from its declaration to the published verdict.

Published (paper, sealed MAGIC audit): 30 of 30 releases validated, lower bound .884,
p = .00124; source forest with validation risks .09079, .02170, .05790 and threshold .222;
limits .141, .072, .108. Our run differs from theirs in nothing but library versions.
"""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from proxyguard.audit.audit import Audit
from proxyguard.audit.draw import pending_folder, tasks
from proxyguard.seal.canonical import canonical_bytes

ROOT = Path(__file__).parents[2] / "audits"
DATA = os.environ.get("PROXYGUARD_DATA")

pytestmark = [
    pytest.mark.reproduction,
    pytest.mark.skipif(
        DATA is None or not (Path(DATA) / "magic" / "magic04.data.gz").exists(),
        reason="PROXYGUARD_DATA does not name a folder with magic/magic04.data.gz",
    ),
]


def start(folder: Path, name: str) -> Audit:
    audit = Audit(folder / name, home=folder / "home", data=[Path(str(DATA))])
    audit.init((ROOT / name / "audit.toml").read_text(encoding="utf-8"))
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


def test_all_thirty_releases_validate_with_the_published_bound(paper: Audit) -> None:
    (verdict,) = paper.certificate()["verdicts"]
    assert verdict["decision"] == "validated"
    assert verdict["lower"]["steps"][0] == {"label": "recognized releases (Holm)", "value": 30}
    assert verdict["reliability_lower"] == pytest.approx(0.884, abs=5e-4)
    assert verdict["lower"]["pvalue"] == pytest.approx(0.00124, abs=5e-6)


def test_the_source_and_the_frozen_limits_are_the_published_ones(paper: Audit) -> None:
    facts = paper.journal().ledger.entries[1].body["members"]["target"]
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
    status = paper.certificate()["claim_status"]
    assert status["guarantee"].startswith("no: the declaration says: a public table")
    found = paper.verify()
    assert found.good, found.findings
    assert found.unknown == []


def test_our_defaults_give_a_higher_bound_on_the_same_draws(paper: Audit) -> None:
    # Procedure, mechanism and seeds are the same, so are the releases: an interrupted draw
    # with all of them on disk goes on from there, and the four minutes are spent once.
    ours = start(paper.folder.path.parent, "magic-bootstrap-ours")
    shutil.copytree(paper.folder / "store", ours.folder / "store", dirs_exist_ok=True)
    releases = json.loads((paper.folder / "releases.json").read_text())
    journal = ours.journal()
    (task,) = tasks(ours.place, ours.folder.registry(journal), journal)
    pending = pending_folder(ours.folder, task)
    pending.mkdir(parents=True)
    for draw in releases["members"]["target"]["row bootstrap"]["draws"]:
        (pending / f"{draw['seed']}.json").write_bytes(canonical_bytes(draw))
    ours.draw()
    certificate = ours.open()
    assert certificate is not None
    (verdict,) = certificate["verdicts"]
    assert verdict["decision"] == "validated"
    # Sharp with 30 favorable scores of 30: no split between draws and target, .05^(1/30) = .905.
    assert 0.884 < verdict["reliability_lower"] <= 0.05 ** (1 / 30)
    assert "was opened" not in certificate["claim_status"]["lineage"]
    assert (
        "5706 target records were in target of 'magic-bootstrap'"
        in (certificate["claim_status"]["lineage"])
    )
    assert ours.verify().good
