"""The paper's audits with fewer draws, from their declarations to their verdicts.

Published figures and their sources are in audits/published.toml. Limits that follow from the source
alone, or from all pilots, come out as published; counts of fewer draws are compared with the
published ones by Fisher's test, and fail only where two samples of one law would differ so once in
ten thousand times.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

import proxyguard as pg
from proxyguard.seal.ledger import Stage
from reproduction.audits.analyse import (
    Bounds,
    Run,
    analyse,
    bounds_of,
    certified_bounds,
    compare,
    corrected_bounds,
)
from reproduction.audits.details import withdrawn
from reproduction.audits.experiments import figures_of
from reproduction.audits.published import AUDITS, DIRECT, NAMED
from reproduction.audits.reproduce import HERE, correct, prepare_data, share_draws, with_draws

pytestmark = [
    pytest.mark.reproduction,
    pytest.mark.skipif(
        "PROXYGUARD_DATA" not in os.environ,
        reason="PROXYGUARD_DATA names no folder with the data sets",
    ),
]


def begin(work: Path, name: str, draws: int, pilots: int | None = None) -> pg.Audit:
    prepare_data(name.removesuffix("-ours").removesuffix("-original"), work / "data")
    audit = pg.Audit(work / name, home=work / "home", data=[work / "data"])
    text = (HERE / name / "audit.toml").read_text(encoding="utf-8")
    audit.init(with_draws(text, draws, pilots))
    audit.seal()
    audit.register()
    return audit


def finish(audit: pg.Audit) -> dict[str, Bounds]:
    audit.draw()
    certificate = audit.open().to_dict()
    assert certificate is not None
    assert audit.verify().good
    return {v["mechanism"]: bounds_of(v) for v in certificate["verdicts"]}


def resolved(audit: pg.Audit) -> dict[str, Any]:
    found: dict[str, Any] = audit.folder.registry(audit.journal()).members["target"].to_dict()
    return found


def limits(audit: pg.Audit) -> dict[str, float]:
    return {r["part"]["name"]: float(r["limit"]["value"]) for r in resolved(audit)["requirements"]}


def agree(name: str, audit: pg.Audit) -> None:
    found = compare(name, Run(paper=audit, ours=audit), AUDITS[name])
    assert found
    for one in found:
        assert one.pvalue > 1e-4, one


@pytest.fixture(scope="module")
def shoppers(tmp_path_factory: pytest.TempPathFactory) -> pg.Audit:
    audit = begin(tmp_path_factory.mktemp("shoppers"), "shoppers-neural", draws=40, pilots=6)
    finish(audit)
    return audit


@pytest.mark.whole
def test_shoppers_limits_roles_and_counts_are_the_published_ones(shoppers: pg.Audit) -> None:
    name, audit = "shoppers-neural", shoppers
    published = {key: float(value) for key, value in AUDITS[name].limits.items()}
    assert limits(audit) == pytest.approx(published, abs=5.1e-6)  # printed with five digits
    assert {r["slack"]["value"] for r in resolved(audit)["requirements"]} == {"0.055"}
    roles = {key: one["pilot"] for key, one in resolved(audit)["mechanisms"].items()}
    assert {key: roles[key] for key in ("high", "moderate")} == {"high": "01", "moderate": "02"}
    found = certified_bounds(audit)
    assert found["high"].decision == found["moderate"].decision == "unresolved"
    assert found["degraded"].count == 0
    agree(name, audit)
    # What was registered, read from the evidence once more.
    assert analyse(audit, AUDITS[name].claims[NAMED]) == found


@pytest.mark.whole
def test_an_iid_analysis_of_fixed_strata_is_a_deviation_and_is_corrected(
    shoppers: pg.Audit,
) -> None:
    name = "shoppers-neural-original"
    original = begin(shoppers.folder.path.parent, name, draws=40, pilots=6)
    # The target is a file of its own, so nothing stops the false design ...
    assert resolved(original)["requirements"] == resolved(shoppers)["requirements"]
    share_draws(shoppers, original)
    iid = finish(original)
    assert (
        original.certificate().to_dict()["verdicts"][0]["design"]
        != (shoppers.certificate().to_dict()["verdicts"][0]["design"])
    )
    # ... empirical Bernstein recognizes less than Chernoff's test, as it did in the paper ...
    assert iid["high"].count < certified_bounds(shoppers)["high"].count
    correct(original, shoppers)
    # ... and the correction is what registering the strata with their default tests would have
    # given; Chernoff's, which the paper took, cannot be chosen after the opening.
    by_default = {**AUDITS["shoppers-neural"].claims[NAMED], "test": None}
    assert corrected_bounds(original) == analyse(shoppers, by_default)
    assert certified_bounds(original) == iid
    assert original.verify().good
    text = withdrawn(Run(paper=shoppers, ours=shoppers, original=original), AUDITS[
        "shoppers-neural"])  # fmt: skip
    assert "takes the default tests of such strata" in text


@pytest.mark.whole
def test_mushroom_has_the_published_limits_and_every_score_is_favorable(tmp_path: Path) -> None:
    name = "mushroom-categorical"
    audit = begin(tmp_path, name, draws=8)
    published = {key: float(value) for key, value in AUDITS[name].limits.items()}
    assert limits(audit) == pytest.approx(published, abs=1e-9)
    # The published threshold of the source is .11, chosen on the validation part.
    assert float(resolved(audit)["facts"]["source"]["threshold"]) == pytest.approx(0.11, abs=1e-9)
    (found,) = finish(audit).values()
    assert (found.count, found.releases) == (8, 8)
    agree(name, audit)
    named = analyse(audit, AUDITS[name].claims[NAMED])["noisy histograms"]
    assert named.count == 8
    assert named.lower == pytest.approx(0.025 ** (1 / 8), rel=1e-9)


@pytest.mark.whole
def test_text_is_amended_before_opening_and_separates_its_roles(tmp_path: Path) -> None:
    name = "text-unigram"
    audit = begin(tmp_path, name, draws=8, pilots=2)
    amendment = AUDITS[name].amend
    assert amendment is not None
    before, after, reason = amendment
    place = audit.folder.path / "audit.toml"
    place.write_text(place.read_text(encoding="utf-8").replace(before, after), encoding="utf-8")
    audit.amend(reason)
    # Two limits to the last printed digit. The Brier limit was printed as .078884; with ties in
    # the vocabulary broken by the alphabet it is .078608 (test_text_vocabulary.py).
    published = {key: float(value) for key, value in AUDITS[name].limits.items()}
    assert limits(audit) == pytest.approx({**published, "Brier": 0.078608}, abs=5.1e-7)
    found = finish(audit)
    assert len(audit.journal().ledger.find(Stage.AMENDED)) == 1
    assert found["high"].count == found["high"].releases == 8
    # With all favorable it would be 8; published are 31 of 250, so 8 of 8 has a chance below 1e-7.
    assert found["degraded"].count < found["degraded"].releases
    agree(name, audit)
    assert set(audit.certificate().to_dict()["secondary"]) == {"strict", "permissive"}
    direct = analyse(audit, AUDITS[name].claims[DIRECT])
    assert direct == found


@pytest.mark.whole
def test_stand_ins_have_the_published_verdicts_and_ours_use_the_same_draws(tmp_path: Path) -> None:
    paper = begin(tmp_path, "stand-ins", draws=1)
    ours = begin(tmp_path, "stand-ins-ours", draws=1)
    paper.draw()
    share_draws(paper, ours)
    drawn = {audit: audit.draw().manifest.members for audit in (paper, ours)}
    assert drawn[paper] == drawn[ours]
    decided = {}
    for audit in (paper, ours):
        certificate = audit.open().to_dict()
        assert certificate is not None
        assert audit.verify().good
        decided[audit] = {v["mechanism"]: v["decision"] for v in certificate["verdicts"]}
    assert decided[paper] == AUDITS["stand-ins"].verdicts
    # Source and proxy choose for themselves: Adult's source by trees, its proxy by a regression.
    registry = paper.folder.registry(paper.journal())
    chosen = {
        one.name: registry.members[one.name].to_dict()["facts"]["source"]["selected"]
        for one in registry.declaration.members
    }
    assert chosen == {"Bank Marketing": "balanced_boosting", "Heart Disease": "balanced_logistic",
                      "Adult": "balanced_boosting"}  # fmt: skip
    (proxy,) = drawn[paper]["Adult"]["reduced schema"].draws
    assert proxy.selected == "balanced_logistic"
    # Published to three digits. Other divisions and seeds move a figure by the deviations that
    # audits/spread.py found: .013, .012 and .014 for Bank Marketing, .034, .043 and .120 for
    # Heart Disease, .003, .003 and .002 for Adult. Three of them are allowed.
    spread = {"Bank Marketing/2009": (0.013, 0.012, 0.014),
              "Heart Disease/Hungarian": (0.034, 0.043, 0.120),
              "Adult/reduced schema": (0.003, 0.003, 0.002)}  # fmt: skip
    found = figures_of(paper, AUDITS["stand-ins"])
    for release, theirs in AUDITS["stand-ins"].figures.items():
        for own, published, deviation in zip(found[release], theirs, spread[release], strict=True):
            assert own == pytest.approx(float(published), abs=3 * deviation)
    assert decided[ours]["Bank Marketing/2009"] == "validated"
    assert decided[ours]["Adult/reduced schema"] == "violation"
