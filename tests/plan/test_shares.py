"""Shares of records are counted against what each release answers itself, as the audit does."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binom

from proxyguard.modes.claim import Claim
from proxyguard.modes.planning import AuditPlan, records_for
from proxyguard.plan.law import Law, pilot_law
from proxyguard.plan.question import Question, ways
from proxyguard.plan.search import bets_on, power
from proxyguard.plan.targets import Targets
from proxyguard.registry.requirement import Form, Requirement
from proxyguard.registry.test import ComponentTest

LIMIT = 0.1
RELEASES = np.array([0.20, 0.25, 0.28, 0.95])  # what they answer; of the target 0.3 are inside
INSIDE = (np.arange(200) < 60).astype(float)


def side(name: str, group: str | None = None) -> Requirement:
    return Requirement(
        name=name, low=-1, high=1, limit=LIMIT, form=Form.QUERY, indicator=True, group=group
    )


def law_of(*, answered: bool = True, grouped: bool = False) -> Law:
    """Return four releases under both sides of one share."""
    group = "half" if grouped else None
    counting = np.ones((200, 2), dtype=bool)
    if grouped:
        counting[::2] = False
    above = INSIDE[None] - RELEASES[:, None]
    answers = np.stack([RELEASES, 1.0 - RELEASES], axis=1)
    return pilot_law(
        np.stack([above, -above], axis=2), [side("above", group), side("below", group)],
        counting=counting, answers=answers if answered else None, truth=True,
    )  # fmt: skip


@pytest.mark.parametrize("grouped", [False, True])
def test_a_share_is_tested_against_the_answer_of_each_release(grouped: bool) -> None:
    law = law_of(grouped=grouped)
    targets = Targets(law, 300, repetitions=40, seed=3)
    for j, answers in enumerate((RELEASES, 1.0 - RELEASES)):
        inside = INSIDE if j == 0 else 1.0 - INSIDE
        count = targets.counted_kinds[j] @ inside
        sizes = targets.sizes(j)
        found = targets.pvalues(ComponentTest.BINOMIAL, j, level=0.05)
        limits = answers + LIMIT
        expected = binom.cdf(count[:, None], sizes[:, None], np.minimum(limits, 1.0)[None])
        open_ = limits < 1.0
        np.testing.assert_allclose(found[:, open_], expected[:, open_], rtol=1e-9)
        # No share can exceed 1: the null is empty.
        assert np.all(found[:, ~open_] < 1e-200)


def test_what_is_counted_needs_fewer_records_than_the_bets_that_stand_in() -> None:
    claim = Claim.of({"reliability_target": "0.5", "threshold": "0.02", "test": "binomial"})
    found = {}
    for answered in (True, False):
        law = law_of(answered=answered).with_reliability(0.9)
        plan = AuditPlan(claim=claim, n=1200, releases=30)
        found[answered] = power(law, plan, repetitions=300, seed=1).value
    assert found[True] > found[False] + 0.05
    # No answer is above 0.95, so that more than one record is needed; but that is not known here.
    requirements = law_of().requirements
    assert records_for(requirements, plan, 0.02) == 1


def test_a_share_that_is_counted_costs_no_bets() -> None:
    brier = Requirement(name="Brier", low=0, high=1, limit=0.3)
    shares = law_of()
    mixed = pilot_law(
        np.concatenate(
            [2 * np.stack(shares.losses, axis=2) - 1, np.full((4, 200, 1), 0.2)], axis=2
        ),
        [*shares.requirements, brier],
        answers=np.hstack([shares.answers, np.zeros((4, 1))]),
    )
    question = Question(reliability_target="0.5", n=100, releases=30, modes=["direct"])
    (declared,) = [w for w in ways(question, mixed.requirements) if w.tests == "by declaration"]
    # Of three requirements one is bet on: four releases, a hundred records.
    assert bets_on(mixed, 100, declared) == 400


def test_a_shifted_share_stays_a_share() -> None:
    law = law_of().with_margins(0.5)
    assert law.answers is not None
    for j in range(2):
        counted = law.requirements[j].from_unit(law.losses[j]) + law.answers[:, [j]]
        np.testing.assert_allclose(counted, np.round(counted), atol=1e-12)
    # One share of the records moves all requirements: about half of the margin is left.
    left = float(np.min(law.margins)) / float(np.min(law_of().margins))
    assert 0.3 < left < 0.7


def test_thinned_releases_keep_their_answers() -> None:
    law = law_of().thinned(1)
    assert law.answers is not None
    middle = law.requirements[0].from_unit(law.losses[0]) + law.answers[:, [0]]
    np.testing.assert_allclose(middle, np.round(middle), atol=1e-12)
