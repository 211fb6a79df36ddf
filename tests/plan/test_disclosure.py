"""A plan for an audit with a registered disclosure counts with the statistics that decide."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import proxyguard as pg
from proxyguard import Question, Requirement
from proxyguard.certificate.mechanism import certify_evidence, reading_of
from proxyguard.evidence.releases import ReleaseEvidence, gather_evidence
from proxyguard.losses.read import LossArray
from proxyguard.modes.claim import Claim, Levels
from proxyguard.modes.planning import AuditPlan
from proxyguard.plan.law import Law, assumed_law
from proxyguard.plan.recommend import recommend
from proxyguard.plan.report import PlanReport, surfaces
from proxyguard.plan.search import conditional_power, exact_power, power
from proxyguard.plan.stress import forecast, stress
from proxyguard.plan.targets import Targets, count_pvalues
from proxyguard.registry.test import ComponentTest

BRIER = Requirement(name="Brier", low=0, high=1, limit=0.3, slack=0.05, ramp=0.2)
ERROR = replace(BRIER, name="error", two_valued=True)
MOMENTS = [
    "empirical_bernstein", "hoeffding", "chernoff", "bentkus", "betting_fixed", "binomial",
]  # fmt: skip
DIGITS = 2


def law_of(requirement: Requirement, margin: float = 0.1) -> Law:
    return assumed_law([requirement], margins=[margin], reliability=0.95, spread=0.3)


def plan_of(n: int, releases: int, digits: int | None, **choices: Any) -> AuditPlan:
    claim = Claim.of({"reliability_target": "0.7", **choices})
    return AuditPlan(claim=claim, n=n, releases=releases, digits=digits)


def audited(
    losses: Any, law: Law, plan: AuditPlan, seed: int = 0
) -> tuple[ReleaseEvidence, Levels]:
    """Return the evidence of an audit that has registered the plan's digits."""
    levels = plan.levels(law.requirements)
    reading = reading_of(plan.claim, law.requirements, plan.design, levels, seed)
    reading = replace(reading, digits=plan.digits)
    return gather_evidence(LossArray(losses), reading), levels


@pytest.mark.parametrize("digits", [1, 2, 3])
@pytest.mark.parametrize("test", MOMENTS)
def test_planned_statistics_are_those_that_an_audit_of_the_same_records_decides_on(
    test: str, digits: int
) -> None:
    law = law_of(ERROR if test in ("binomial", "empirical_bernstein") else BRIER)
    plan = plan_of(90, law.releases.size, digits, test=test)
    targets = Targets(law, plan.n, repetitions=4, seed=5, digits=digits)
    found = targets.pvalues(ComponentTest(test), 0, level=0.05)
    for start, places in targets._tiles(0):
        for target, records in enumerate(places, start=start):
            evidence, _ = audited(law.losses[0][:, records][:, :, None], law, plan)
            np.testing.assert_allclose(found[target], evidence.pvalues[:, 0], rtol=1e-9)
            np.testing.assert_allclose(
                targets.means[target, :, 0], evidence.columns[0].mean, rtol=1e-12
            )


@pytest.mark.parametrize("digits", [1, 2, 3])
@pytest.mark.parametrize("n", [37, 90, 1000])
@pytest.mark.parametrize("test", ["binomial", "bentkus", "hoeffding", "empirical_bernstein"])
def test_the_pvalue_of_a_count_is_never_below_that_of_the_audit(
    test: str, n: int, digits: int
) -> None:
    law = law_of(replace(ERROR, limit=0.7, slack=0.1), 0.2)
    counts = np.unique(np.linspace(0, n, 38).astype(int))
    losses = (np.arange(n) < counts[:, None]).astype(float)[:, :, None]
    evidence, _ = audited(losses, law, plan_of(n, len(counts), digits, test=test))
    table = count_pvalues(ComponentTest(test), n, law.requirements[0].unit_limit, digits)
    assert table is not None
    assert np.all(table[counts] >= evidence.pvalues[:, 0] * (1 - 1e-9))
    plain = count_pvalues(ComponentTest(test), n, law.requirements[0].unit_limit)
    assert plain is not None
    assert np.all(table >= plain)


CASES: dict[str, tuple[Law, int, int, dict[str, Any]]] = {
    "binomial": (law_of(ERROR), 160, 1, {}),
    "betting": (law_of(BRIER, 0.07), 150, 1, {"test": "betting"}),
    "slack": (law_of(replace(ERROR, slack=0.056)), 230, 2, {"score": "slack"}),
    "named": (law_of(ERROR), 250, 2, {"mode": "named"}),
    "smooth": (
        law_of(replace(ERROR, limit=0.5, slack=0.1, ramp=0.2), 0.3), 130, 1,
        {"mode": "smooth", "reliability_target": "0.6"},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_planned_power_is_that_of_audits_with_the_disclosure_and_not_of_those_without(
    name: str, draw_losses: Any
) -> None:
    law, n, digits, choices = CASES[name]
    plan = plan_of(n, 40, digits, **choices)
    planned = power(law, plan, repetitions=600, seed=3)
    without = power(law, replace(plan, digits=None), repetitions=600, seed=3)
    rng, audits, hits = np.random.default_rng(7), 60, 0
    for seed in range(audits):
        losses = draw_losses(law, plan.releases, n, rng)
        certificate = certify_evidence(plan.claim, {"m": audited(losses, law, plan, seed)})["m"]
        hits += certificate.decision is pg.Decision.VALIDATED
    spread = np.sqrt(planned.value * (1 - planned.value) / audits + planned.standard_error**2)
    # 3.5 errors of both, and a count of audits that could not be seen to differ by less.
    assert abs(hits / audits - planned.value) < 3.5 * spread + 1 / audits, (planned, hits)
    assert without.value > planned.value + 0.02, (without, planned)


def test_rounding_never_promises_more_on_any_target() -> None:
    for law, n, digits, choices in CASES.values():
        chances = [
            conditional_power(
                Targets(law, n, repetitions=100, seed=2, digits=d), plan_of(n, 40, d, **choices)
            )
            for d in (digits, None)
        ]
        assert np.all(chances[0] <= chances[1] + 1e-12)


def test_targets_and_plan_must_round_alike() -> None:
    law, n, digits, choices = CASES["binomial"]
    with pytest.raises(ValueError, match="targets read with None digits, a plan with 1"):
        conditional_power(
            Targets(law, n, repetitions=10, seed=2), plan_of(n, 40, digits, **choices)
        )


def test_every_number_of_a_plan_counts_the_rounding_and_the_plan_says_so() -> None:
    law = law_of(ERROR)
    choices: dict[str, Any] = {
        "reliability_target": "0.7", "n": 160, "releases": 40, "tests": ("binomial",),
        "modes": ("direct",),
    }  # fmt: skip
    plans = {d: recommend(law, Question(**choices, digits=d), repetitions=400) for d in (None, 1)}
    rounded = plans[1]
    assert {o.plan.digits for o in (rounded.chosen, *rounded.alternatives, *rounded.sizes)} == {1}
    assert rounded.chosen.power.value == exact_power(law, rounded.chosen.plan)
    plain = replace(rounded.chosen.plan, digits=None)
    assert rounded.chosen.power.value < exact_power(law, plain) - 0.02
    assert rounded.chosen.power.value < plans[None].chosen.power.value
    grid: dict[str, Any] = {"reliability_errors": [0.0], "margin_factors": [1.0]}
    assert stress(rounded, **grid)[0].power == pytest.approx(rounded.chosen.power.value)
    draws = [forecast(law, p, range(20, 41)) for p in (rounded.chosen.plan, plain)]
    assert draws[0] is not None
    assert draws[1] is not None
    assert draws[0].validation < draws[1].validation
    text = str(PlanReport(found=rounded))
    assert "rounded to 1 digits before they decide" in text
    assert (
        "# at the top of the file: disclosure = { digits = 1 }"
        in PlanReport(found=rounded).to_toml()
    )
    assert rounded.to_dict()["digits"] == 1
    assert "rounded" not in str(PlanReport(found=plans[None]))
    assert np.mean(surfaces(rounded)[0].power) < np.mean(surfaces(plans[None])[0].power)
