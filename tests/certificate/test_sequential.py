"""Sequential audits: order of the draws, looks, futility, and the boundary itself."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import proxyguard as pg
from proxyguard.errors import RegistryError
from proxyguard.exact.sequential import bernoulli_lower, sharp_boundary
from proxyguard.registry.test import Bound

LOOKS = (20, 40, 60, 80)
VALIDATED, UNRESOLVED = pg.Decision.VALIDATED, pg.Decision.UNRESOLVED


def plan(**changes: Any) -> pg.SequentialPlan:
    values: dict[str, Any] = {"looks": LOOKS, "reliability_target": 0.8, "kappa": 0.005}
    return pg.SequentialPlan(**(values | changes))


def boundary() -> dict[int, int]:
    made = sharp_boundary(LOOKS, target=0.8, kappa=0.005, alpha=0.05)
    assert made is not None
    return dict(zip(made.looks.tolist(), made.counts.tolist(), strict=True))


def scores(favorable: int, draws: int) -> np.ndarray[Any, Any]:
    """The unfavorable draws first."""
    return np.arange(draws) >= draws - favorable


@pytest.mark.parametrize("look", [40, 60, 80])
def test_a_count_on_the_boundary_validates_and_one_below_does_not(look: int) -> None:
    count = boundary()[look]
    assert count <= look
    on, under = pg.SequentialAudit(plan()), pg.SequentialAudit(plan())
    assert on.add(scores(count, look)) is VALIDATED
    assert under.add(scores(count - 1, look)) is UNRESOLVED
    assert on.reliability_lower == 0.8
    assert under.reliability_lower == 0.0


def test_counts_between_the_looks_do_not_decide() -> None:
    count = boundary()[40]
    assert boundary()[20] == 20
    assert count < 39
    draws = np.zeros(45, dtype=bool)
    draws[1 : count + 1] = True  # the count of look 40 is reached before it
    audit = pg.SequentialAudit(plan())
    for k in range(39):
        assert audit.add(bool(draws[k])) is UNRESOLVED, k
    assert audit.favorable == count
    assert audit.add(bool(draws[39])) is VALIDATED  # the same count, now at a look
    assert audit.draws == 40
    # Later failures do not take it back.
    assert audit.add(draws[40:]) is VALIDATED


def test_the_order_of_the_draws_matters_and_the_batching_does_not() -> None:
    count = boundary()[40]
    late = np.concatenate([scores(count, 40), np.zeros(20, dtype=bool)])
    first = pg.SequentialAudit(plan())
    first.add(late)
    one_by_one = pg.SequentialAudit(plan())
    for score in late:
        one_by_one.add(bool(score))
    assert first.decision is one_by_one.decision is VALIDATED
    other = pg.SequentialAudit(plan())
    assert other.add(late[::-1].copy()) is UNRESOLVED


def test_draws_beyond_the_registered_number_are_refused() -> None:
    audit = pg.SequentialAudit(plan())
    audit.add(np.zeros(79, dtype=bool))
    with pytest.raises(RegistryError, match="at most 80 draws were registered, got 81"):
        audit.add(np.ones(2, dtype=bool))
    assert audit.draws == 79
    audit.add(True)
    assert audit.finished
    with pytest.raises(RegistryError, match="at most 80"):
        audit.add(True)


@pytest.mark.parametrize("wrong", [1, 0.0, [0, 1], ["yes"]], ids=str)
def test_a_score_is_a_boolean(wrong: Any) -> None:
    audit = pg.SequentialAudit(plan())
    with pytest.raises(RegistryError, match="booleans"):
        audit.add(wrong)
    assert audit.draws == 0


def test_futility_stops_when_no_look_can_cross_any_more() -> None:
    most = max(look - count for look, count in boundary().items())
    audit = pg.SequentialAudit(plan())
    audit.add(np.zeros(most, dtype=bool))
    assert not audit.finished  # all remaining draws favorable would still cross
    audit.add(False)
    assert audit.finished
    assert audit.decision is UNRESOLVED
    patient = pg.SequentialAudit(plan(futility=False))
    patient.add(np.zeros(most + 1, dtype=bool))
    assert not patient.finished


def test_an_audit_that_is_not_futile_can_still_validate() -> None:
    most = max(look - count for look, count in boundary().items())
    audit = pg.SequentialAudit(plan())
    audit.add(np.zeros(most, dtype=bool))
    assert audit.add(np.ones(80 - most, dtype=bool)) is VALIDATED


def test_an_audit_that_can_never_cross_is_futile_from_the_start() -> None:
    audit = pg.SequentialAudit(plan(looks=(5, 10)))  # .8^10 > .05
    assert audit.finished
    assert audit.decision is UNRESOLVED


def test_higher_levels_are_reported_only_when_all_below_are_crossed() -> None:
    audit = pg.SequentialAudit(plan(levels=(0.85, 0.9, 0.99)))
    seen = []
    for _ in LOOKS:
        audit.add(np.ones(20, dtype=bool))
        seen.append(audit.reliability_lower)
    assert seen == sorted(seen)
    assert seen[-1] == 0.9
    assert audit.decision is VALIDATED


def test_the_rescaled_form_is_a_confidence_sequence() -> None:
    made = plan(bound=Bound.RESCALED, target_share=Fraction(9, 10))
    assert [p.symbol for p in made.budget.parts] == ["alpha_Q", "alpha_Z"]
    audit = pg.SequentialAudit(made)
    assert audit.reliability_lower == 0.0
    audit.add(scores(78, 80))
    allowance = 0.005 / 0.045
    counts = np.cumsum(scores(78, 80))[np.array(LOOKS) - 1]
    rate = bernoulli_lower(counts, LOOKS, alpha=0.005).max()
    assert audit.reliability_lower == pytest.approx((rate - allowance) / (1 - allowance), rel=1e-9)
    assert (audit.decision is VALIDATED) == (audit.reliability_lower > 0.8)


def test_the_rescaled_form_validates_strictly_above_its_target() -> None:
    audit = pg.SequentialAudit(plan(bound=Bound.RESCALED, kappa=0.0))
    audit.add(np.ones(80, dtype=bool))
    bound = audit.reliability_lower
    for target, decision in ((bound, UNRESOLVED), (float(np.nextafter(bound, 0)), VALIDATED)):
        again = pg.SequentialAudit(plan(bound=Bound.RESCALED, kappa=0.0, reliability_target=target))
        assert again.add(np.ones(80, dtype=bool)) is decision


@pytest.mark.parametrize(
    "changes",
    [
        {"looks": ()},
        {"looks": (20, 20)},
        {"looks": (40, 20)},
        {"looks": (0, 20)},
        {"reliability_target": 0.0},
        {"reliability_target": 1.0},
        {"kappa": 1.0},
        {"kappa": -0.1},
        {"levels": (0.7,)},
        {"levels": (0.9, 0.85)},
        {"levels": (1.0,)},
        {"bound": Bound.PAPER},
        {"bound": "paper"},
        {"bound": "sharpest"},
    ],
    ids=str,
)
def test_a_plan_that_cannot_be_honoured_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(RegistryError):
        plan(**changes)


def test_the_undivided_budget_belongs_to_the_sharp_form() -> None:
    assert plan().budget.total == Fraction(1, 20)
    assert [p.symbol for p in plan().budget.parts] == ["alpha"]
    assert pg.SequentialAudit(plan()).rests_on == "theory section 5, sharp form"


HIT = pg.Requirement(name="hit", low=0, high=1, limit=0.2, two_valued=True)
LOSS = pg.Requirement(name="loss", low=0, high=1, limit=0.2)


def draws(n_releases: int, n: int = 300, seed: int = 1) -> np.ndarray[Any, Any]:
    return np.random.default_rng(seed).random((n_releases, n, 1)) < 0.13


@pytest.mark.parametrize("test", ["betting", "randomized_binomial", "bentkus"])
def test_the_score_is_the_release_pvalue_against_its_threshold(test: str) -> None:
    values = draws(40)
    score = pg.FavorableScore([LOSS], threshold="0.01", test=test, seed=8)
    whole = pg.certify(values, [LOSS], reliability_target=0.8, threshold="0.01", test=test, seed=8)
    expected = whole.evidence.release_pvalues <= 0.01
    assert 0 < expected.sum() < 40
    np.testing.assert_array_equal(score(values), expected)
    # One at a time, the order of the records and the uniforms stay what they were.
    np.testing.assert_array_equal([score(values[r : r + 1])[0] for r in range(40)], expected)


def test_scores_feed_the_audit() -> None:
    score = pg.FavorableScore([HIT], threshold="0.005", seed=8)
    audit = pg.SequentialAudit(plan())
    assert audit.add(score(np.zeros((40, 300, 1)))) is VALIDATED


def test_a_release_scored_on_other_records_is_refused() -> None:
    score = pg.FavorableScore([HIT], threshold="0.01", seed=8)
    score(pg.LossArray(draws(3), pg.Records(ids=np.arange(300))))
    with pytest.raises(pg.LossMismatch, match="other records"):
        score(draws(1, n=299))
    with pytest.raises(pg.LossMismatch, match="other records"):
        score(pg.LossArray(draws(1), pg.Records(ids=np.arange(1, 301))))
    assert score(pg.LossArray(draws(2), pg.Records(ids=np.arange(300)))).shape == (2,)


def test_a_score_that_no_theorem_covers_is_refused_at_its_making() -> None:
    with pytest.raises(pg.UnsupportedDesign, match="two_valued"):
        pg.FavorableScore([LOSS], threshold="0.01", test="binomial")


@pytest.mark.parametrize("first", [[], [None, None]], ids=["at once", "later"])
def test_once_ids_were_given_every_release_shows_the_same(first: list[None]) -> None:
    score = pg.FavorableScore([HIT], threshold="0.01", seed=8)
    zeros = np.zeros((1, 30, 1))

    def scored(ids: Any) -> Any:
        return score(pg.LossArray(zeros, pg.Records(ids=ids)))

    for ids in (*first, np.arange(30), np.arange(30)):
        assert scored(ids).shape == (1,)
    for other in (None, np.arange(1, 31), np.arange(30)[::-1]):
        with pytest.raises(pg.LossMismatch, match="other records"):
            scored(other)
    assert scored(np.arange(30)).shape == (1,)


def test_a_score_tells_its_threshold_and_seed() -> None:
    score = pg.FavorableScore([HIT], threshold="1/100", seed=8)
    assert (score.threshold, score.seed) == (0.01, 8)
    fresh = pg.FavorableScore([HIT], threshold="1/100")
    assert fresh.seed != pg.FavorableScore([HIT], threshold="1/100").seed


@pytest.mark.parametrize("threshold", [0, 1, "-0.1", 1.5, "small"], ids=repr)
def test_the_threshold_of_a_score_lies_in_the_unit_interval(threshold: Any) -> None:
    with pytest.raises(RegistryError):
        pg.FavorableScore([HIT], threshold=threshold)


def test_an_audit_refuses_a_score_above_the_ceiling_of_its_plan() -> None:
    for threshold in ("0.005", "0.001"):
        pg.SequentialAudit(plan(kappa=0.005), pg.FavorableScore([HIT], threshold=threshold))
    with pytest.raises(RegistryError, match=r"kappa of 0\.005, and this score has 0\.0051"):
        pg.SequentialAudit(plan(kappa=0.005), pg.FavorableScore([HIT], threshold="0.0051"))


def test_an_audit_with_a_score_reads_losses_itself() -> None:
    values, scored = draws(40), pg.FavorableScore([HIT], threshold="0.005", seed=8)
    audit = pg.SequentialAudit(plan(), pg.FavorableScore([HIT], threshold="0.005", seed=8))
    by_hand = pg.SequentialAudit(plan())
    for part in (values[:25], values[25:]):
        assert audit.add_losses(part) is by_hand.add(scored(part))
    assert (audit.draws, audit.favorable) == (40, by_hand.favorable)
    assert 0 < audit.favorable < 40
    with pytest.raises(RegistryError, match="no score"):
        by_hand.add_losses(values)


def test_the_bound_of_a_plan_may_be_written_as_a_string() -> None:
    assert plan(bound="sharp") == plan()
    assert plan(bound="rescaled") == plan(bound=Bound.RESCALED)


def test_scores_come_in_one_row() -> None:
    plan = pg.SequentialPlan(looks=(20, 40), reliability_target=0.8, kappa=0.005)
    with pytest.raises(pg.RegistryError):
        pg.SequentialAudit(plan).add(np.ones((2, 2), dtype=bool))


@pytest.mark.parametrize("changes", [{"alpha": Fraction(2)}, {"target_share": Fraction(1)}])
def test_levels_of_a_plan_are_checked_at_the_door(changes: dict[str, Any]) -> None:
    with pytest.raises(pg.RegistryError):
        pg.SequentialPlan(looks=(20, 40), reliability_target=0.8, kappa=0.005, **changes)
