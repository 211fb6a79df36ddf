"""What a plan says first: no more than a person reads, and nothing that the whole does not say."""

from __future__ import annotations

import numpy as np
import pytest

from proxyguard.plan.law import Law, assumed_law, pilot_law
from proxyguard.plan.question import Question
from proxyguard.plan.recommend import Recommendation, recommend
from proxyguard.plan.report import PlanReport
from proxyguard.plan.stress import default_looks, forecast
from proxyguard.registry.requirement import Requirement

ERROR = Requirement(name="error", low=0, high=1, limit=0.1, two_valued=True)
OLD = Requirement(name="old", low=0, high=1, limit=0.2, two_valued=True, group="over 90")
BRIER = Requirement(name="Brier", low=0, high=1, limit=0.2)
MOST_LINES = 18


def reported(law: Law, question: Question) -> PlanReport:
    found = recommend(law, question, repetitions=100)
    plan = found.chosen.plan
    looks = default_looks(plan.releases, question.least_releases)
    sequential = forecast(found.judged, plan, looks) if plan.claim.sequential else None
    return PlanReport(found=found, sequential=sequential)


@pytest.fixture(scope="module")
def searched() -> PlanReport:
    law = assumed_law([ERROR], margins=[0.03], reliability=0.95)
    return reported(law, Question(reliability_target="0.8", power=0.9, tests=("binomial",)))


def test_a_plan_is_told_in_few_lines_its_answer_first(searched: PlanReport) -> None:
    lines = searched.brief().split("\n")
    assert len(lines) <= MOST_LINES < len(str(searched).split("\n"))
    assert tuple(lines[:3]) == searched.found.summary
    assert any(line.startswith(f"Cost {searched.found.chosen.cost:,.10g}; ") for line in lines)


def test_other_plans_are_what_they_are_called(searched: PlanReport) -> None:
    found = searched.found
    told = {
        line.strip().partition(":")[0]: line
        for line in searched.brief().partition("Other plans, and their chance:\n")[2].split("\n")
    }
    assert {"surer", "cheaper", "drawn one after the other"} <= set(told)
    for words, line in told.items():
        same = [o for o in found.sizes if f" {o.plan.n:,} records, {o.plan.releases:,} " in line]
        if words in ("surer", "cheaper", "fewer draws"):
            (option,) = same
            assert line.endswith(f"cost {option.cost:,.10g}: {option.power.words}")
            surer = option.power.value > found.chosen.power.value
            assert surer or option.cost < found.chosen.cost or words == "fewer draws"
    (named,) = (line for words, line in told.items() if words.startswith("named mode"))
    best = max(o.power.value for o in found.alternatives if o.way.mode == "named")
    assert f": {best:.3f} (" in named


def hard() -> Law:
    """Return pilots on few records, some of which are invalid."""
    rng = np.random.default_rng(2)
    error = (rng.random((20, 60)) < np.linspace(0.02, 0.11, 20)[:, None]).astype(float)
    return pilot_law(error[:, :, None], [ERROR], reliability=0.9)


@pytest.mark.parametrize(
    ("law", "question"),
    [
        (
            assumed_law(
                [BRIER, OLD], margins=[0.06, 0.08], reliability=0.95, deviations=[0.1, None],
                shares=[1, 0.2],
            ),
            Question(reliability_target="0.8", n=1500, releases=60, tests=("bentkus",)),
        ),
        (hard(), Question(reliability_target="0.8", n=900, releases=60, digits=2)),
    ],
)  # fmt: skip
def test_groups_pilots_and_digits_leave_it_short(law: Law, question: Question) -> None:
    made = reported(law, question)
    said = made.brief()
    assert len(said.split("\n")) <= MOST_LINES
    assert ("over 90: about 300 of the 1,500 records" in said) == (law.counting is not None)
    # All the records are no group, whatever their chances sum to.
    assert "None" not in said + str(made)


def test_an_audit_that_cannot_succeed_says_why_alone() -> None:
    law = assumed_law([ERROR], margins=[0.03], reliability=0.95)
    found: Recommendation = recommend(law, Question(reliability_target="0.8", n=500, releases=13))
    made = PlanReport(found=found)
    assert made.brief() == str(made)
    assert "This audit cannot succeed" in made.brief()
