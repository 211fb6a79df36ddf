"""A plan for more requirements than a search takes is judged on all of them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from conftest import Effort
from proxyguard.exact.mean import share_pvalue
from proxyguard.exact.sharp import sharp_pvalue
from proxyguard.modes.planning import AuditPlan
from proxyguard.plan.law import Law, Others, nearest_requirements, pilot_law
from proxyguard.plan.question import Question
from proxyguard.plan.recommend import FINE, recommend
from proxyguard.plan.report import PlanReport
from proxyguard.registry.requirement import Form, Requirement
from proxyguard.registry.test import ComponentTest
from proxyguard.report.plan_page import plan_page

COLUMNS, RECORDS, PILOTS, LIMIT = 40, 2000, 12, 0.12
RNG = np.random.default_rng(3)
TABLE = RNG.random((RECORDS, COLUMNS)) < 0.5
SIDES = np.hstack([TABLE, ~TABLE]).astype(float)  # records x both sides of each column's share
SHARES = RNG.binomial(RECORDS, 0.5, (PILOTS, COLUMNS)) / RECORDS
ANSWERS = np.hstack([SHARES, 1.0 - SHARES])
SIDE = [
    Requirement(
        name=f"side {j}", low=-1, high=1, limit=LIMIT, form=Form.QUERY, indicator=True
    )
    for j in range(2 * COLUMNS)
]  # fmt: skip


def losses(j: int) -> np.ndarray:
    return SIDES[:, j] - ANSWERS[:, [j]]


def alone(j: int, kinds: np.ndarray) -> Law:
    answers = ANSWERS[kinds][:, [j]]
    return pilot_law(losses(j)[kinds][:, :, None], [SIDE[j]], reliability=1, answers=answers)


def workload(*, counted: bool = True) -> Law:
    """Return the law of the ten nearest sides, the others beside them."""
    below = np.stack([LIMIT - losses(j).mean(axis=1) for j in range(2 * COLUMNS)], axis=1)
    kept = nearest_requirements(below)
    rest = [j for j in range(2 * COLUMNS) if j not in kept]
    law = pilot_law(
        np.stack([losses(j) for j in kept], axis=2), [SIDE[j] for j in kept], reliability=1,
        answers=ANSWERS[:, kept], truth=True,
    )  # fmt: skip
    others = Others(
        requirements=tuple(SIDE[j] for j in rest), answers=ANSWERS[:, rest],
        alone=lambda place, kinds: alone(rest[place], kinds),
        inside=lambda place: SIDES[:, rest[place]] if counted else None, kinds=np.arange(PILOTS),
    )  # fmt: skip
    return replace(law, others=others)


def audited(plan: AuditPlan, repetitions: int = 600) -> float:
    """Return how often the planned audit of all sides validates, record by record."""
    rng = np.random.default_rng(8)
    threshold = float(plan.claim.registered()["threshold"])  # type: ignore[arg-type]
    validated = 0
    for _ in range(repetitions):
        counts = SIDES[rng.integers(RECORDS, size=plan.n)].sum(axis=0)
        scored = np.all(share_pvalue(counts, plan.n, ANSWERS + LIMIT) <= threshold, axis=1)
        favorable = int(scored[rng.integers(PILOTS, size=plan.releases)].sum())
        pvalue = sharp_pvalue(favorable, plan.releases, target=0.8, kappa=threshold)
        validated += bool(pvalue <= 0.05)
    return validated / repetitions


EXACT = (ComponentTest.BINOMIAL,)  # what is recommended among all tests, and quick
ASKED = Question(reliability_target="0.8", n=400, releases=60, modes=("direct",), tests=EXACT)


def test_the_chance_of_a_plan_is_that_of_its_audit_of_all_requirements(effort: Effort) -> None:
    law = workload()
    simulated = effort.times(whole=FINE, reduced=500)
    found = recommend(law, ASKED, repetitions=simulated, seed=1, compare=False)
    truth, error = audited(found.chosen.plan), found.chosen.power.standard_error
    apart = 4.0 * np.hypot(error, np.sqrt(truth * (1.0 - truth) / 600))
    assert abs(found.chosen.power.value - truth) < apart
    # The nearest alone promise what the audit does not have.
    near = recommend(law.alone, ASKED, repetitions=simulated, seed=1, compare=False)
    assert near.chosen.plan.n == found.chosen.plan.n
    assert near.chosen.power.value > truth + 2.0 * apart
    said = str(PlanReport(found=found))
    assert f"that with all {2 * COLUMNS} requirements" in said
    assert f": {found.chosen.power.shown}" in found.summary[2]
    assert f'"power":{found.chosen.power.value:.3f}'.rstrip("0") in plan_page(found)


def test_a_wanted_chance_is_searched_for_with_all_requirements(effort: Effort) -> None:
    law = workload()
    asked = replace(ASKED, n=None, power=0.8)
    simulated = effort.times(whole=FINE, reduced=500)
    found, near = (
        recommend(one, asked, repetitions=simulated, seed=1, compare=False)
        for one in (law, law.alone)
    )
    assert found.reaches
    assert found.chosen.plan.n > near.chosen.plan.n
    assert audited(found.chosen.plan) > 0.8 - 0.06 > audited(near.chosen.plan)
    few = replace(asked, most_records=near.chosen.plan.n)
    short = recommend(law, few, repetitions=simulated, seed=1, compare=False)
    assert "no size that was tried with all 80 requirements reaches it" in str(short)


def test_a_chance_that_all_requirements_were_not_simulated_for_is_the_most() -> None:
    question = replace(ASKED, tests=(ComponentTest.HOEFFDING,), n=4000)
    # Read one by one, they take a matrix for each: more than some seconds at so little effort.
    found = recommend(workload(counted=False), question, repetitions=60, effort=1e3, compare=False)
    assert found.summary[2].split(": ")[1].startswith("at most ")
    assert "All 80 requirements leave no more chance" in str(PlanReport(found=found))


def test_a_share_is_judged_alike_as_a_count_and_by_its_losses() -> None:
    one, other = (
        recommend(workload(counted=way), ASKED, repetitions=300, seed=1, compare=False)
        for way in (True, False)
    )
    assert one.chosen.power == other.chosen.power
