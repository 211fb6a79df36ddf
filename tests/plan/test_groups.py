"""Requirements about subgroups: how many records they have is random, and finding them costs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import binom

import proxyguard as pg
from proxyguard.errors import RegistryError, UnsupportedDesign
from proxyguard.modes.claim import Claim
from proxyguard.modes.planning import AuditPlan
from proxyguard.plan.law import Law, assumed_law, pilot_law
from proxyguard.plan.question import Question, ways
from proxyguard.plan.recommend import recommend
from proxyguard.plan.report import PlanReport
from proxyguard.plan.search import exact_power, power
from proxyguard.registry.test import ComponentTest

RARE = pg.Requirement(name="rare", low=0, high=1, limit=0.3, two_valued=True, group="old")
EVERY = pg.Requirement(name="every", low=0, high=1, limit=0.3, two_valued=True)
CLAIM = {"reliability_target": "0.8", "threshold": "0.01"}


def plan_of(n: int, releases: int = 40, test: str = "binomial") -> AuditPlan:
    return AuditPlan(claim=Claim.of({**CLAIM, "test": test}), n=n, releases=releases)


def law_of(share: float) -> Law:
    return assumed_law([RARE], margins=[0.12], reliability=0.95, shares=[share])


@pytest.mark.parametrize("test", ["binomial", "bentkus", "betting"])
def test_power_is_the_mean_over_the_number_of_records_in_the_group(test: str) -> None:
    law, n, share = law_of(0.1), 900, 0.1
    found = power(law, plan_of(n, test=test), repetitions=600, seed=5)
    whole = assumed_law([EVERY], margins=[0.12], reliability=0.95)
    # Given its number the group is a target of so many records: the chance of each, by itself.
    expected, steps = 0.0, range(45, 145, 10)
    for size in steps:
        chance = float(binom.cdf(size + 5, n, share) - binom.cdf(size - 5, n, share))
        given = plan_of(size, test=test)
        # An audit of a group charges the threshold itself: the count's gaps differ with its size.
        charged = power(replace(whole, requirements=(replace(EVERY, group="old"),)), given,
                        repetitions=200, seed=size)  # fmt: skip
        expected += chance * charged.value
    assert abs(found.value - expected) < 4 * found.standard_error + 0.03
    assert 0.2 < expected < 0.95


def test_audits_with_a_group_of_random_size_validate_as_often_as_planned() -> None:
    law, n, audits = law_of(0.1), 700, 150
    found = power(law, plan_of(n), repetitions=2000)
    rng = np.random.default_rng(8)
    hits = 0
    for _ in range(audits):
        kinds = rng.choice(law.releases.size, size=40, p=law.releases)
        records = rng.choice(law.records[0].size, size=n, p=law.records[0])
        assert law.counting is not None
        certificate = pg.certify(
            law.losses[0][np.ix_(kinds, records)][:, :, None],
            [RARE],
            test="binomial",
            **CLAIM,
            records=pg.Records(groups={"old": law.counting[0][records]}),
        )
        hits += certificate.decision is pg.Decision.VALIDATED
    # Two binomial shares: one seed in 15,000.
    spread = (found.value * (1 - found.value) / audits) ** 0.5 + found.standard_error
    assert abs(hits / audits - found.value) < 4 * spread
    assert 0.1 < found.value < 0.9


def test_a_law_with_a_subgroup_has_the_means_of_its_own_records() -> None:
    losses = np.zeros((2, 4, 2))
    losses[:, :, 0] = [[0.1, 0.3, 0.9, 0.9], [0.2, 0.4, 0.9, 0.9]]
    losses[:, :, 1] = 0.25
    counting = np.array([[True, True], [True, True], [False, True], [False, True]])
    law = pilot_law(losses, [replace(RARE, two_valued=False), EVERY], counting=counting)
    np.testing.assert_allclose(law.means, [[0.2, 0.25], [0.3, 0.25]])
    np.testing.assert_allclose(law.shares, [0.5, 1.0])
    assert law.labelled == 1.0
    # A shift moves both means and leaves the group as large as it was.
    moved = law.shifted(0.02)
    np.testing.assert_allclose(moved.shares, [0.5, 1.0])
    assert moved.means[0, 1] > 0.25
    assert exact_power(law, plan_of(100)) is None
    with pytest.raises(RegistryError, match="no record of the law counts for it"):
        pilot_law(losses, [RARE, EVERY], counting=np.array([[False, True]] * 4))


def test_only_what_covers_a_group_of_random_size_is_on_offer() -> None:
    question = Question(reliability_target="0.8", n=300, releases=60)
    offered = ways(question, [RARE])
    assert offered
    assert all(way.tests != "-" for way in offered)
    assert any(way.tests == "-" for way in ways(question, [EVERY]))
    strata = replace(question, design=pg.Independent())
    with pytest.raises(UnsupportedDesign, match="make it a stratum"):
        recommend(law_of(0.1), strata)


def test_screening_a_rare_group_is_counted_and_said() -> None:
    question = Question(
        reliability_target="0.8", n=25_000, releases=60, modes=("direct",), screening_cost=0.1,
        tests=(ComponentTest.BINOMIAL,), release_cost=0.0,
    )  # fmt: skip
    found = recommend(law_of(0.02), question, repetitions=100)
    # Every record is screened, and one of fifty labelled.
    assert found.chosen.cost == pytest.approx(0.1 * 25_000 + 0.02 * 25_000)
    words = str(PlanReport(found=found))
    assert "0.02 of the records; about 500 of the 25,000, at least 464 with a chance" in words
    # Paper, appendix K: 500 eligible rare records mean about 25,000 screened.
    assert "a stratum of 500 such records means about 25,000 screened, 26,848" in words
    assert "a stratum of 500 such records means about 25,000 screened, 26,848" in found.to_html()


def test_chances_of_many_records_never_sum_to_more_than_all_of_them() -> None:
    # A thousand times 0.001 is a last digit above 1.
    losses = np.full((3, 1000, 2), 0.1)
    counting = np.ones((1000, 2), dtype=bool)
    counting[::5, 1] = False
    law = pilot_law(losses, [EVERY, RARE], counting=counting)
    assert law.records[0].sum() > 1.0
    assert Question(reliability_target="0.8", n=500).about(law).labelled == 1.0
