"""A plan has one power, wherever it is told, and is said to be out of reach only where it is."""

from __future__ import annotations

import re
import tomllib
from dataclasses import replace

import pytest

from proxyguard.plan import recommend as recommending
from proxyguard.plan import search as searching
from proxyguard.plan.law import Law, assumed_law
from proxyguard.plan.question import Question
from proxyguard.plan.recommend import Recommendation, recommend
from proxyguard.plan.report import PlanReport
from proxyguard.plan.search import Option, Power
from proxyguard.plan.stress import stress
from proxyguard.registry.requirement import Requirement
from proxyguard.report.notebook import plan_tables

PAIR = [Requirement(name=name, low=-1, high=1, limit=0.1) for name in ("error", "Brier")]


def law_of(margin: float = 0.06, deviation: float = 0.3) -> Law:
    return assumed_law(
        PAIR, margins=[margin] * 2, deviations=[deviation] * 2, reliability=0.95, spread=0.2
    )


@pytest.fixture(scope="module")
def fixed() -> Recommendation:
    """A plan whose power has to be simulated, at sizes that are given."""
    question = Question(reliability_target="0.8", n=700, releases=90, modes=["direct"])
    return recommend(law_of(), question, effort=3e5, repetitions=300)


def test_every_place_tells_the_same_power(fixed: Recommendation) -> None:
    made = PlanReport(found=fixed, stress=tuple(stress(fixed, repetitions=50)))
    power, way = fixed.chosen.power, fixed.chosen.way
    assert not power.exact
    text = str(made)
    assert text.split("\n")[2].endswith(f": {power.words}")
    row = re.search(rf"{re.escape(way.label)} +{way.tests} +(\S+) ", text)
    sizes = re.search(r"     700     90 +790 +(\S+) ", text)
    as_planned = re.search(r"0\.950 +x 1 +(\S+) ", text)
    assert row
    assert sizes
    assert as_planned
    told = {
        power.shown, row[1], sizes[1], as_planned[1],
        tomllib.loads(made.to_toml())["plan"]["power"],
        *re.findall(r"chance (0\.\d+) \(Monte", made.to_html()),
    }  # fmt: skip
    assert told == {power.shown}
    words = [cell for table in plan_tables(made) for line in table.rows for cell in line]
    assert words.count(power.words) == 3  # the plan, its way, its size
    plain = made.to_dict()["alternatives"]
    assert power.to_dict() in [one["power"] for one in plain]


def test_a_bet_that_reaches_where_no_other_test_does_is_searched_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(searching, "TUNING", 0)  # of so little effort nothing else would be left
    # A variance this small is of no use to the others at a thousand records, and bets are too dear
    # to be simulated there at this effort: they need a third of them.
    question = Question(
        reliability_target="0.8", power=0.9, most_records=1000, most_releases=200, modes=["direct"]
    )
    found = recommend(law_of(0.02, 0.1), question, effort=1.2e5, compare=False)
    assert found.reaches
    assert found.chosen.way.tests == "betting"
    assert found.chosen.plan.n < 800


@pytest.mark.parametrize("effort", [6e6, 1e4])
def test_out_of_reach_is_said_only_where_every_test_was_tried(effort: float) -> None:
    question = Question(
        reliability_target="0.8", power=0.9, most_records=200, most_releases=60, modes=["direct"]
    )
    found = recommend(law_of(0.02, 0.3), question, effort=effort, compare=False, repetitions=100)
    assert not found.reaches
    assert found.complete == (effort > 1e6)
    said = str(PlanReport(found=found))
    assert ("no affordable size reaches it" in said) == found.complete
    assert ("Not every test was tried at every size" in said) == (not found.complete)


def test_the_last_correction_of_the_records_counts(
    monkeypatch: pytest.MonkeyPatch, fixed: Recommendation
) -> None:
    powers = iter([0.80, 0.85, 0.88, 0.93])

    def afresh(law: Law, option: Option, seed: int, limits: object) -> Option:
        return replace(
            option, power=Power(value=next(powers), standard_error=0.01, repetitions=300)
        )

    monkeypatch.setattr(recommending, "_afresh", afresh)
    question = Question(reliability_target="0.8", power=0.9, most_records=20_000)
    found = recommending._enough(law_of(), question, fixed.chosen, 1, (300, 1e5))
    assert found.power.value == 0.93
    assert found.plan.n > 700
