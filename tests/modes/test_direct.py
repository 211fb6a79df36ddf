"""What a plan charges a score is what the certificate will charge it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import proxyguard as pg
from proxyguard.modes.direct import Direct
from proxyguard.modes.planning import AuditPlan

N, R = 90, 12
ERROR = pg.Requirement(name="error", low=0, high=1, limit=0.3, slack=0.12, two_valued=True)
BRIER = pg.Requirement(name="Brier", low=0, high=1, limit=0.3, slack=0.12)
STRATA = {"sizes": {"a": 60, "b": 30}}
LABELS = np.repeat(["a", "b"], [60, 30])

DESIGNS: dict[str, tuple[Any, pg.Records]] = {
    "iid": (pg.Iid(), pg.Records()),
    "independent": (pg.Independent(), pg.Records()),
    "without replacement": (pg.WithoutReplacement(pool=1000), pg.Records()),
    "proportional": (
        pg.Stratified(**STRATA, weights={"a": "2/3", "b": "1/3"}),
        pg.Records(strata=LABELS),
    ),
    "weighted": (
        pg.Stratified(**STRATA, weights={"a": "1/2", "b": "1/2"}),
        pg.Records(strata=LABELS),
    ),
    "clustered": (pg.Clustered(), pg.Records(clusters=np.arange(N))),
}


def charged(
    design: str, requirement: pg.Requirement, choices: dict[str, Any]
) -> tuple[float, float]:
    """Return kappa as a plan has it, and as the certificate of losses has it."""
    declared, records = DESIGNS[design]
    losses = np.random.default_rng(2).random((R, N, 1)) < 0.1
    certificate = pg.certify(
        losses.astype(float), [requirement], design=declared, records=records,
        reliability_target=0.5, seed=1, **choices,
    )  # fmt: skip
    claim = certificate.claim
    assert isinstance(claim, Direct)
    plan = AuditPlan(claim=claim, n=N, releases=R, design=declared)
    return claim.kappa(plan, [requirement], plan.levels([requirement])), dict(
        certificate.lower.steps
    )["kappa"]


@pytest.mark.parametrize("bound", ["sharp", "rescaled", "paper"])
@pytest.mark.parametrize("requirement", [ERROR, BRIER], ids=["two-valued", "bounded"])
@pytest.mark.parametrize("design", DESIGNS)
def test_a_slack_score_costs_the_same_in_plan_and_certificate(
    design: str, requirement: pg.Requirement, bound: str
) -> None:
    planned, certified = charged(design, requirement, {"score": "slack", "bound": bound})
    assert planned == certified


@pytest.mark.parametrize("design", DESIGNS)
def test_a_threshold_costs_the_same_in_plan_and_certificate(design: str) -> None:
    planned, certified = charged(design, ERROR, {"threshold": "0.01"})
    assert planned == certified


def test_the_ceiling_of_iid_records_would_be_too_small_elsewhere() -> None:
    # What a plan charged on every design: less than the certificate of these two does.
    iid, _ = charged("iid", ERROR, {"score": "slack"})
    for design in ("weighted", "clustered"):
        _, certified = charged(design, ERROR, {"score": "slack"})
        assert certified > 1.01 * iid
