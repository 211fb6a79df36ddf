"""A mode that the product does not know: its class and the one list are all that it takes."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np
import pytest

import proxyguard as pg
from proxyguard.modes import catalog, planning
from proxyguard.modes.claim import Levels, level
from proxyguard.modes.evidence import MechanismEvidence, ReliabilityBound, from_count
from proxyguard.modes.planning import Asked, AuditNeeds, AuditPlan, Choice, Planned, Settings, Way
from proxyguard.modes.violation import HolmViolations
from proxyguard.plan.law import Law
from proxyguard.plan.recommend import recommend
from proxyguard.plan.report import PlanReport
from proxyguard.plan.search import power
from proxyguard.registry.budget import Budget, named_budget
from proxyguard.registry.parts import ClaimPart
from proxyguard.registry.test import Requirements

ERROR = pg.Requirement(name="error", low=0, high=1, limit=0.3, two_valued=True)


@dataclass(frozen=True, kw_only=True)
class Bonferroni(HolmViolations, Planned):
    """Named inference with Bonferroni's one level in the place of Holm's steps."""

    mode: ClassVar[str] = "bonferroni"

    strictness: Fraction = level("1/2")  # a keyword that no other mode has

    def lower_budget(self) -> Budget:
        return named_budget(self.alpha, release_share=self.release_share)

    def score_threshold(self, local: Budget, n_releases: int) -> tuple[Fraction, tuple[str, ...]]:
        return local["alpha_R"] * self.strictness / n_releases, ()

    def lower_bound(self, evidence: MechanismEvidence, levels: Levels) -> ReliabilityBound:
        count = int(np.count_nonzero(evidence.release_pvalues <= float(levels.threshold)))
        return from_count(
            count, evidence.n_releases, levels.lower, reliability_target=self.target,
            outer="alpha_M", label="recognized releases (Bonferroni)", rests_on="a toy",
        )  # fmt: skip

    @classmethod
    def settings(cls, way: Way, question: Asked, law: Law, n: int, releases: int) -> Settings:
        yield way.plan(question, n, releases, strictness="0.9"), law.requirements

    def registered(self) -> dict[str, Choice]:
        return {"strictness": self.strictness}

    def least_count(self, plan: AuditPlan, requirements: Requirements, levels: Levels) -> int:
        outer = float(levels.lower["alpha_M"])
        return planning.least_recognized(plan.releases, target=self.target, alpha=outer)

    def needs(self, plan: AuditPlan, requirements: Requirements, levels: Levels) -> AuditNeeds:
        records = planning.records_for(requirements, plan, float(levels.threshold))
        return AuditNeeds(
            least_count=self.least_count(plan, requirements, levels), least_records=records,
            obstacles=planning.few_records(plan.n, records, "Bonferroni's level"),
        )  # fmt: skip


@pytest.fixture(autouse=True)
def listed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Put the mode on the list."""
    monkeypatch.setattr(catalog, "MODES", (*catalog.MODES, Bonferroni))


def losses(seed: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).random((40, 300, 1)) < 0.18


def test_certify_takes_it_by_its_name_and_decides_by_its_bound() -> None:
    choices = {"reliability_target": 0.6, "seed": 1}
    toy = pg.certify(losses(), [ERROR], mode="bonferroni", strictness="0.9", **choices)  # type: ignore[call-overload]
    named = pg.certify(losses(), [ERROR], mode="named", **choices)
    assert toy.decision is pg.Decision.VALIDATED
    assert 0.6 < toy.reliability_lower <= named.reliability_lower
    assert toy.to_dict()["mode"] == "bonferroni"
    assert toy.lower.steps[0][0] == "recognized releases (Bonferroni)"
    family = pg.certify({"a": losses(1), "b": losses(2)}, [ERROR], mode="bonferroni", **choices)
    assert set(family.decisions.values()) == {pg.Decision.VALIDATED}


def test_its_keyword_is_its_own() -> None:
    (reason,) = pg.supports([ERROR], reliability_target=0.8, strictness="0.9")  # type: ignore[call-arg]
    assert "mode direct does not use strictness" in reason
    assert pg.supports([ERROR], reliability_target=0.8, mode="bonferroni") == []
    with pytest.raises(pg.RegistryError, match="strictness must lie in"):
        pg.Claim.of({"mode": "bonferroni", "reliability_target": 0.8, "strictness": 2})


def test_plan_compares_recommends_and_writes_it() -> None:
    law = pg.assumed_law([ERROR], margins=[0.1], reliability=0.95)
    everything = pg.Question(reliability_target="0.7", n=250, releases=60, tests=("binomial",))  # type: ignore[arg-type]
    assert "bonferroni" in {o.way.mode for o in recommend(law, everything).alternatives}
    alone = pg.Question(
        reliability_target="0.7", releases=60, power=0.8, most_records=4000, modes=("bonferroni",),
        tests=("binomial",),  # type: ignore[arg-type]
    )  # fmt: skip
    found = recommend(law, alone, repetitions=200)
    assert found.chosen.plan.claim.mode == "bonferroni"
    assert found.reaches
    report = PlanReport(found=found)
    assert 'mode = "bonferroni"\ntest = "binomial"\nstrictness = "0.9"' in report.to_toml()
    assert "strictness 0.9" in str(report)


def test_its_predicted_power_is_that_of_its_audits() -> None:
    law = pg.assumed_law([ERROR], margins=[0.1], reliability=0.95)
    claim = pg.Claim.of({"mode": "bonferroni", "reliability_target": "0.7", "beta": None})
    plan = AuditPlan(claim=planning.planned(claim), n=260, releases=40)
    predicted = power(law, plan, repetitions=800).value
    assert 0.2 < predicted < 0.9
    rng, trials, hits = np.random.default_rng(3), 120, 0
    for _ in range(trials):
        risks = np.where(rng.random(40) < 0.95, 0.2, 0.3)
        drawn = rng.random(260)[None, :, None] < risks[:, None, None]  # records shared, nested
        decided = pg.certify(drawn, [ERROR], seed=1, **claim.choices())  # type: ignore[call-overload]
        hits += decided.decision is pg.Decision.VALIDATED
    assert abs(hits / trials - predicted) < 3.5 * np.sqrt(predicted * (1 - predicted) / trials)


def test_a_declaration_may_name_it() -> None:
    part = ClaimPart.model_validate({"mode": "bonferroni", "reliability_target": "0.8"})
    assert part.to_claim() == pg.Claim.of({"mode": "bonferroni", "reliability_target": "0.8"})
