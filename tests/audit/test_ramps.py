"""Ramp widths are chosen on development, frozen before the opening, and found again by verify."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from audit.test_rules import (
    BOOTSTRAP,
    HEAD,
    PROCEDURE,
    RISK,
    TARGET,
    brier_by_hand,
    finish,
    new_audit,
    parts_of,
    pilot,
    put,
    requirement_of,
    sealed_audit,
    table,
)
from conformance.ramps import ramps_by_hand
from proxyguard import Requirement
from proxyguard.audit.audit import Audit
from proxyguard.documents.canonical import digest
from proxyguard.errors import RegistryError, SealError
from proxyguard.modes.claim import Claim
from proxyguard.modes.planning import AuditPlan, planned
from proxyguard.registry.declaration import read_declaration
from proxyguard.seal.ledger import Stage

pytestmark = pytest.mark.usefixtures("draws_here")

Value = dict[str, Any]

RULE = 'slack = "0.01"\nramp = { width = "development", pilot = "small" }\n'
SMOOTH = '\n[claim]\nmode = "smooth"\nreliability_target = "0.3"\n'
DRAWS = BOOTSTRAP.replace("draws = 3", "draws = 12")
LARGE = TARGET.replace("rows = 200", "rows = 3000")
DECLARED = (
    LARGE, PROCEDURE, RISK.replace("{limit}", '"0.20"'), RULE, pilot("small", 60, 500), DRAWS,
    SMOOTH,
)  # fmt: skip


@pytest.fixture
def sealed(tmp_path: Path) -> Audit:
    put(table(3400), tmp_path / "data" / "table.csv")
    return sealed_audit(tmp_path, *DECLARED)


def registered(audit: Audit) -> Audit:
    audit.register()
    return audit


def by_hand(audit: Audit) -> tuple[str, float, list[float]]:
    """Return the share, the width and the pilots' Brier scores, all computed once more."""
    training, validation = parts_of(audit)
    scores = []
    for seed in range(500, 504):
        rows = np.random.default_rng(seed).integers(0, len(training), size=60)
        scores.append(brier_by_hand(training.iloc[rows], validation, seed))
    claim = {"mode": "smooth", "reliability_target": "0.3", "alpha": "0.05"}
    plan = AuditPlan(claim=planned(Claim.of(claim)), n=3000, releases=12)
    brier = Requirement(name="risk", low=0, high=1, limit=0.2, slack=0.01)
    share, (width,) = ramps_by_hand(plan, [(brier, np.array(scores))])
    return share, width, scores


def test_a_width_is_the_one_with_the_largest_bound_that_pilots_predict(sealed: Audit) -> None:
    resolved = requirement_of(registered(sealed).folder.registry(sealed.journal()).to_dict())
    share, width, scores = by_hand(sealed)
    assert share not in ("2", "0.1")  # an end would show that the grid decided
    assert float(resolved["ramp"]["value"]) == pytest.approx(width, rel=1e-3)
    assert resolved["ramp"]["inputs"] == {
        "pilot": "small", "share": share, "n_records": "3000", "draws": "12", "mechanisms": "1",
    }  # fmt: skip
    assert resolved["part"]["ramp"] == {"width": "development", "pilot": "small"}
    facts = sealed.journal().ledger.find(Stage.DEVELOPED)[0].body.to_dict()["members"]["target"]
    means = facts["pilots"]["small"]["means"]
    assert [float(m["risk"]) for m in means.values()] == pytest.approx(scores, abs=1e-12)
    certificate = finish(sealed)
    assert certificate["verdicts"][0]["decision"] in ("validated", "unresolved")
    value = resolved["ramp"]["value"]
    assert f"after a ramp of {value}" in sealed.folder.text("report.md")


def another_width(requirement: Value) -> None:
    requirement["ramp"]["value"] = "0.05"


def no_width(requirement: Value) -> None:
    requirement.pop("ramp")


def another_share(requirement: Value) -> None:
    requirement["ramp"]["inputs"]["share"] = "0.1"


@pytest.mark.parametrize("lie", [another_width, no_width, another_share])
def test_a_forged_width_is_found_and_nothing_is_opened_for_it(
    sealed: Audit, forge: Any, lie: Callable[[Value], None]
) -> None:
    audit = registered(sealed)
    assert audit.verify().good
    forge.registry(audit, lambda value: lie(requirement_of(value)))
    assert "limits do not follow from the declaration and its facts" in forge.found_by(audit)
    with suppress(SealError):  # refused here, or at the latest by the opening
        audit.draw()
    with pytest.raises(SealError):
        audit.open()
    assert not audit.journal().ledger.has(Stage.OPENED)


def test_a_pilot_that_was_not_recorded_so_gives_no_width(sealed: Audit, forge: Any) -> None:
    audit = registered(sealed)

    def lie(facts: Value) -> None:
        facts["pilots"]["small"]["means"]["500"]["risk"] = "0.01"

    forge.registry(audit, lambda value: lie(value["members"]["target"]["facts"]))
    assert "rests on other facts than development recorded" in forge.found_by(audit)
    # Recorded so, other facts have another width.
    forge.rewrite(audit, developed=lambda body: lie(body["members"]["target"]))
    value = forge.edit_json(audit, "registry/0.json", lambda value: None)
    forge.rewrite(audit, registered=lambda body: body.update(declaration=digest(value)))
    assert "limits do not follow from the declaration and its facts" in forge.found_by(audit)


def test_check_resolves_the_width_and_says_nothing_of_it_before_the_seal(tmp_path: Path) -> None:
    put(table(3400), tmp_path / "data" / "table.csv")
    audit = new_audit(tmp_path, *DECLARED)
    assert audit.check().problems == []
    audit.seal()
    assert audit.check().problems == []


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('mode = "smooth"\n', "", 'for mode = "smooth", and the mode is "direct"'),
        ('pilot = "small"', 'pilot = "other"', r"follow one \[\[pilot\]\], got \['other'\]"),
        ('slack = "0.01"\n', "", "give the slack"),
        ('width = "development"', 'width = "target"', 'width.* "development"'),
        ("[[mechanism]]", '[[requirement]]\nname = "error"\nloss = "error"\nform = "absolute"\n'
         'limit = "0.3"\nslack = "0.01"\n\n[[mechanism]]', r"\['error'\] have no ramp"),
        ("[[mechanism]]", '[[requirement]]\nname = "share"\nform = "query"\nlimit = "0.3"\n'
         'query = { share = { label = "yes" } }\nslack = "0.01"\n'
         'ramp = { width = "development", pilot = "small" }\n\n[[mechanism]]',
         "of a query the ramp is a number"),
    ],
)  # fmt: skip
def test_a_rule_that_cannot_be_kept_is_refused(old: str, new: str, words: str) -> None:
    text = HEAD + "".join(DECLARED)
    read_declaration(text)
    assert old in text
    with pytest.raises(RegistryError, match=words):
        read_declaration(text.replace(old, new, 1))
