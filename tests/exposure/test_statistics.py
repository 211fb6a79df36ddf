"""Counts of scores: shares of members, thresholds, and what a stream of nonmembers leaves."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxyguard.errors import LossMismatch
from proxyguard.exact.exposure import (
    advantage_pvalues,
    everywhere_pvalue,
    everywhere_violation_pvalue,
)
from proxyguard.exposure.statistics import (
    Census,
    ThresholdCounter,
    auc_losses,
    flag_losses,
    flags,
    higher_quantile,
    member_sample,
    registered_threshold,
    sampled_share,
)
from proxyguard.registry.exposure import ThresholdRule

# Few distinct scores, so that ties are the rule; infinite ones are scores too.
SCORES = st.lists(
    st.sampled_from([-np.inf, -1.5, 0.0, 0.1, 0.3, 2.0, np.inf]), min_size=1, max_size=30
)


@given(SCORES, st.floats(-3, 3))
def test_a_share_is_that_of_the_members_at_or_above_the_threshold(
    members: list[float], c: float
) -> None:
    census = Census(members)
    assert census.share(c) == sum(s >= c for s in members) / len(members)
    assert census.shares.tolist() == [
        sum(s >= t for s in members) / len(members) for t in sorted(set(members))
    ]


@given(SCORES, st.fractions(0, 1, max_denominator=40).filter(bool))
def test_the_threshold_for_a_share_is_the_largest_that_flags_it(
    members: list[float], share: Fraction
) -> None:
    c = Census(members).threshold_for(share)
    reached = [t for t in members if Fraction(sum(s >= t for s in members), len(members)) >= share]
    assert c == max(reached)


def test_a_share_on_the_border_is_compared_as_a_fraction() -> None:
    # 3/10 of ten members: in doubles .1 + .1 + .1 exceeds .3.
    assert Census(np.arange(10.0)).threshold_for("0.3") == 7.0
    assert Census(np.arange(10.0)).threshold_for(0.3) == 7.0


@given(SCORES, SCORES)
def test_the_losses_of_the_auc_count_members_above_and_half_of_ties(
    members: list[float], others: list[float]
) -> None:
    losses = auc_losses(Census(members), others)
    expected = [
        sum(1.0 if m > z else 0.5 if m == z else 0.0 for m in members) / len(members)
        for z in others
    ]
    assert losses.tolist() == expected


@given(SCORES, SCORES, st.sampled_from([0.05, 0.1, 0.4]), st.integers(1, 12))
def test_a_counter_finds_the_pvalues_of_all_thresholds_in_any_chunks(
    members: list[float], others: list[float], limit: float, number: int
) -> None:
    census = Census(members)
    counter = ThresholdCounter(census)
    for chunk in np.array_split(np.array(others), 3):
        counter.add(chunk)
    n = len(others)
    flagged = [sum(z >= c for z in others) for c in census.thresholds]
    assert counter.n == n
    assert counter.flagged.tolist() == flagged
    worst = counter.worst(limit, number)
    p, _ = advantage_pvalues(n - worst.count, n, 1.0 - worst.answer, limit)
    assert p == pytest.approx(everywhere_pvalue(flagged, n, census.shares, limit), rel=1e-9)
    _, q = advantage_pvalues(n - worst.count_low, n, 1.0 - worst.answer_low, limit)
    chosen = [
        max(c for c in members if sum(m >= c for m in members) * number >= k * len(members))
        for k in range(1, number + 1)
    ]
    at = [sum(z >= c for z in others) for c in chosen]
    violation = everywhere_violation_pvalue(at, n, census.share(chosen), limit)
    assert min(1.0, number * float(q)) == pytest.approx(float(violation), rel=1e-9)


def test_a_counter_without_nonmembers_says_nothing() -> None:
    worst = ThresholdCounter(Census([0.0, 1.0])).worst(0.1, 4)
    assert (worst.count, worst.count_low) == (0, 0)


def test_strata_are_mixed_by_their_registered_weights() -> None:
    scores, strata = [5.0, 4.0, 3.0, 2.0, 1.0], np.array(["a", "a", "b", "b", "b"])
    census = Census(scores, strata, {"a": Fraction("0.1"), "b": Fraction("0.9")})
    assert census.share(4.0) == pytest.approx(0.1)
    assert census.share(3.0) == pytest.approx(0.1 + 0.3)
    assert census.share(1.0) == 1.0
    assert census.threshold_for("0.1") == 4.0
    assert census.threshold_for("0.4") == 3.0
    assert census.threshold_for("0.400001") == 2.0
    assert census.above([3.0]).tolist() == pytest.approx([0.1 + 0.9 / 6])
    # Members in the target's proportions need no weights.
    plain = Census(scores, strata, {"a": Fraction(2, 5), "b": Fraction(3, 5)})
    assert plain.shares == pytest.approx(Census(scores).shares, rel=1e-15)


@pytest.mark.parametrize(
    ("strata", "weights", "words"),
    [
        (["a", "a"], {"a": Fraction(1), "b": Fraction(0)}, "without a member: \\['b'\\]"),
        (["a", "c"], {"a": Fraction(1)}, "without a weight: \\['c'\\]"),
        (["a"], {"a": Fraction(1)}, "2 members have 1 strata"),
        (["a", "a"], None, "registered weights"),
    ],
)
def test_strata_that_do_not_fit_the_members_are_refused(
    strata: list[str], weights: dict[str, Fraction] | None, words: str
) -> None:
    with pytest.raises(LossMismatch, match=words):
        Census([0.0, 1.0], np.array(strata), weights)


@given(SCORES, st.fractions(0, 1, max_denominator=100))
def test_a_quantile_is_the_score_at_its_place_rounded_up(scores: list[float], q: Fraction) -> None:
    place = q * (len(scores) - 1)
    assert higher_quantile(scores, q) == sorted(scores)[-(-place.numerator // place.denominator)]


@pytest.mark.parametrize("n", [1, 2, 27, 54, 100, 250, 999])
def test_a_quantile_is_numpys_higher_one(n: int) -> None:
    scores = np.random.default_rng(n).normal(size=n)
    assert higher_quantile(scores, "0.95") == np.quantile(scores, 0.95, method="higher")


def test_a_decimal_quantile_on_a_score_is_that_score() -> None:
    # 0.35 * 20 = 7 exactly; in doubles it is the next number below.
    assert higher_quantile(np.arange(21.0), "0.35") == 7.0


def test_a_rule_reads_the_records_that_it_names() -> None:
    rule = {"quantile": "0.5"}
    assert registered_threshold(ThresholdRule.model_validate(rule), [1.0, 2.0, 3.0], [7.0]) == 2.0
    assert (
        registered_threshold(ThresholdRule.model_validate(rule | {"of": "members"}), [1.0], [7.0])
        == 7.0
    )


def test_a_record_at_the_threshold_is_flagged_and_losses_average_to_the_advantage() -> None:
    flagged = flags([0.1, 0.5, 0.9], 0.5)
    assert flagged.tolist() == [False, True, True]
    losses = flag_losses(flagged, 0.8)
    assert losses.mean() == pytest.approx(0.8 - 2 / 3)
    assert losses.min() >= -1.0
    assert losses.max() <= 1.0


def test_scores_that_are_no_numbers_are_refused() -> None:
    nothing = float("nan")
    for call in (
        lambda: Census([0.0, nothing]),
        lambda: Census([]),
        lambda: ThresholdCounter(Census([0.0])).add([nothing]),
        lambda: flags([nothing], 0.0),
        lambda: auc_losses(Census([0.0]), [nothing]),
        lambda: higher_quantile([nothing], 0.5),
        lambda: higher_quantile([], 0.5),
        lambda: higher_quantile([1.0], 1.5),
        lambda: Census([0.0]).threshold_for(0),
        lambda: Census([0.0]).registered(0),
        lambda: member_sample(10, 11, 0),
        lambda: member_sample(10, 0, 0),
    ):
        with pytest.raises(LossMismatch):
            call()


def test_a_sample_of_members_is_simple_and_comes_from_its_seed() -> None:
    sample = member_sample(1000, 50, 7)
    assert sample.tolist() == member_sample(1000, 50, 7).tolist()
    assert sample.tolist() != member_sample(1000, 50, 8).tolist()
    assert np.unique(sample).size == 50
    assert member_sample(30, 30, 1).tolist() == list(range(30))
    # Every member has its chance: 400 samples of 5 of 20 hold each 100 times, give or take 9.
    held = np.bincount(np.concatenate([member_sample(20, 5, s) for s in range(400)]), minlength=20)
    assert np.abs(held - 100).max() < 45


def test_a_sampled_share_has_limits_on_either_side_of_it() -> None:
    flagged = np.arange(200) < 20
    limits = sampled_share(flagged, 10_000, error=0.001)
    assert 0.03 < limits.lower < 0.1 < limits.upper < 0.2
    whole = sampled_share(flagged, 200, error=0.001)
    assert whole.lower == whole.upper == 0.1
