"""The transformation screen on three of its tables, from declaration to verdicts in one family."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pytest

import proxyguard as pg
from reproduction.audits.analyse import tallies_of
from reproduction.audits.published import AUDITS
from reproduction.audits.reproduce import HERE
from reproduction.datasets.prepare import prepare

pytestmark = [
    pytest.mark.reproduction,
    pytest.mark.whole,
    pytest.mark.skipif(
        "PROXYGUARD_DATA" not in os.environ,
        reason="PROXYGUARD_DATA names no folder with the data sets",
    ),
]

# Tables of the screen, what they are prepared from, and the published size of their targets.
TABLES = {
    "Adult Income": ("adult", 6513),
    "Breast Cancer WDBC": ("wdbc", 114),
    "Mammographic Mass": ("mammographic", 193),
}


def shortened(text: str) -> str:
    """Return the declaration with these tables alone."""
    head, *candidates = text.split("[[candidate]]\n")
    last, _, claim = candidates.pop().partition("[claim]\n")
    kept = [one for one in (*candidates, last) if one.split('"')[1] in TABLES]
    return "[[candidate]]\n".join([head, *kept]) + f"[claim]\n{claim}"


@pytest.fixture(scope="module")
def screen(tmp_path_factory: pytest.TempPathFactory) -> pg.Audit:
    work = tmp_path_factory.mktemp("screen")
    for data, _ in TABLES.values():
        prepare(data, work / "data" / data)
    audit = pg.Audit(work / "screen", home=work / "home", data=[work / "data"])
    audit.init(shortened((HERE / "screen" / "audit.toml").read_text(encoding="utf-8")))
    audit.seal()
    audit.register()
    audit.draw()
    assert audit.open() is not None
    assert audit.verify().good
    return audit


def verdicts(audit: pg.Audit) -> dict[str, dict[str, Any]]:
    """Return the verdicts by table and transformation; each was drawn once."""
    return {v["mechanism"].rpartition("/")[0]: v for v in audit.certificate().to_dict()["verdicts"]}


def test_targets_have_the_published_sizes_and_small_ones_resolve_nothing(screen: pg.Audit) -> None:
    groups = screen.certificate().to_dict()["verdicts"]
    assert len(groups) == 3 * len(TABLES)
    sealed = screen.journal().ledger.sealed.members
    assert {name: sealed[name].records for name in TABLES} == {
        name: size for name, (_, size) in TABLES.items()
    }
    found, published = tallies_of(screen), AUDITS["screen"].tallies
    for name in ("Breast Cancer WDBC", "Mammographic Mass"):
        assert dict(found[name]) == dict(published[name]) == {"unresolved": 3}
    assert "violation" not in {v["decision"] for v in groups}  # as the paper says of its screen


def test_without_holm_a_transformation_would_be_validated(
    screen: pg.Audit, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = verdicts(screen)
    # The paper's screen validates one transformation of Adult; noise is the clearest case here.
    assert found["Adult Income/noise"]["decision"] == "validated"
    coarse = found["Adult Income/coarsening"]
    assert coarse["pvalue"] <= 0.05 < coarse["adjusted"]
    assert coarse["decision"] == "unresolved"
    # A program that forgets the correction says something else, and the record then does not
    # verify.
    monkeypatch.setattr(
        "proxyguard.certificate.releases.holm", lambda pvalues, alpha: np.less_equal(pvalues, alpha)
    )
    checked = screen.verify()
    assert not checked.good
