"""Adaptive candidate streams: a fresh batch each round, reuse refused (Proposition 19)."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import pytest

import proxyguard as pg

HIT = pg.Requirement(name="hit", low=0, high=1, limit=0.2, two_valued=True)
BRIER = pg.Requirement(name="Brier", low=0, high=1, limit=0.2)


def batch(start: int, rate: float = 0.05, n: int = 200) -> tuple[Any, pg.Records]:
    rng = np.random.default_rng(start)
    return (rng.random((n, 1)) < rate).astype(float), pg.Records(ids=np.arange(start, start + n))


def test_rounds_spend_the_papers_levels() -> None:
    stream = pg.CandidateStream([HIT], alpha="0.05", seed=1)
    for number in range(1, 4):
        verdict = stream.submit(*batch(1000 * number))
        assert verdict.number == number
        assert verdict.level == pytest.approx(6 * 0.05 / (np.pi**2 * number**2), rel=1e-9)
        assert verdict.decision is pg.Decision.VALIDATED
        assert verdict.rests_on == "Proposition 19"
    assert [r.number for r in stream.rounds] == [1, 2, 3]


def test_the_levels_of_all_rounds_stay_within_alpha() -> None:
    # sum of 1/t^2 over 500 rounds is within .002 of pi^2/6, its limit.
    stream = pg.CandidateStream([HIT], alpha="0.05", seed=1)
    levels = [stream.submit(*batch(10 * k, n=5)).level for k in range(500)]
    assert 0.0499 < sum(levels) < 0.05


def test_a_bad_candidate_is_unresolved_and_never_a_violation() -> None:
    stream = pg.CandidateStream([HIT], seed=1)
    assert stream.submit(*batch(0, rate=0.6)).decision is pg.Decision.UNRESOLVED


def test_a_record_that_comes_back_is_refused_and_the_state_is_kept() -> None:
    stream = pg.CandidateStream([HIT], seed=1)
    stream.submit(*batch(0))
    with pytest.raises(pg.TargetReused, match="earlier round, 1 of them, for example record 199"):
        stream.submit(*batch(199))
    assert len(stream.rounds) == 1
    # Nothing of the refused batch was consumed: its fresh records are still fresh.
    verdict = stream.submit(*batch(200))
    assert verdict.number == 2
    with pytest.raises(pg.TargetReused):
        stream.submit(*batch(300))


def test_losses_in_error_leave_the_stream_as_it_was() -> None:
    stream = pg.CandidateStream([HIT], seed=1)
    losses, records = batch(0)
    wrong = losses.copy()
    wrong[17] = 0.5
    with pytest.raises(pg.LossOutOfBounds, match="record 17 "):
        stream.submit(wrong, records)
    with pytest.raises(pg.LossMismatch, match=r"records\.ids"):
        stream.submit(losses, pg.Records())
    with pytest.raises(pg.LossMismatch, match="one candidate a round"):
        stream.submit(np.zeros((2, 200, 1)), records)
    with pytest.raises(pg.LossMismatch, match="occurs 2 times"):
        stream.submit(losses, pg.Records(ids=np.arange(200) % 199))
    with pytest.raises(pg.LossMismatch, match="requirements"):
        stream.submit(np.zeros((200, 2)), records)
    assert stream.rounds == ()
    assert stream.submit(losses, records).number == 1


def test_a_target_with_replacement_may_repeat_within_a_round_only() -> None:
    stream = pg.CandidateStream([HIT], design=pg.Iid(with_replacement=True), seed=1)
    losses, _ = batch(0)
    assert stream.submit(losses, pg.Records(ids=np.arange(200) % 150)).number == 1
    with pytest.raises(pg.TargetReused):
        stream.submit(losses, pg.Records(ids=np.arange(149, 349)))


def test_a_cluster_that_comes_back_is_refused_even_with_fresh_records() -> None:
    def part(ids: int, clusters: int) -> tuple[Any, pg.Records]:
        labels = np.repeat(np.arange(clusters, clusters + 40), 5)
        return np.zeros((200, 1)), pg.Records(ids=np.arange(ids, ids + 200), clusters=labels)

    stream = pg.CandidateStream([BRIER], design=pg.Clustered(), seed=1)
    stream.submit(*part(0, 0))
    with pytest.raises(pg.TargetReused, match="for example cluster 39"):
        stream.submit(*part(1000, 39))
    # A record and a cluster may have one label: they are not the same thing.
    assert stream.submit(*part(1000, 40)).number == 2
    # A stream of single records has no use for clusters, and must not look as if it had.
    plain = pg.CandidateStream([BRIER], seed=1)
    with pytest.raises(pg.LossMismatch, match=r"design=Clustered\(\)"):
        plain.submit(*part(0, 0))
    assert plain.rounds == ()


SPELLINGS = [
    (1, "1"), (1, "1.0"), ("1", "1.0"), (1, 1.0), ("r1 ", "r1"), (b"r1", "r1"), (1, "01"),
    (np.int32(1), "1"), (Decimal("1.00"), "1e0"), (Fraction(3), "3"), (10**17, "1" + "0" * 17),
]  # fmt: skip


@pytest.mark.parametrize(("first", "second"), SPELLINGS, ids=str)
@pytest.mark.parametrize("cast", [list, lambda ids: np.array(ids, dtype=object)])
def test_a_record_under_another_spelling_of_its_id_is_refused(
    first: Any, second: Any, cast: Any
) -> None:
    for known, offered in ((first, second), (second, first)):
        stream = pg.CandidateStream([HIT], seed=1)
        stream.submit(np.zeros((2, 1)), pg.Records(ids=cast([known, "a"])))
        with pytest.raises(pg.TargetReused, match="1 of them"):
            stream.submit(np.zeros((2, 1)), pg.Records(ids=cast([offered, "b"])))
        assert stream.submit(np.zeros((1, 1)), pg.Records(ids=["c"])).number == 2


@pytest.mark.parametrize(
    "missing",
    [None, float("nan"), np.float32("nan"), np.datetime64("NaT"), pd.NA, pd.NaT, "", "  "],
)
def test_a_record_without_an_id_is_fresh_to_nobody(missing: Any) -> None:
    stream = pg.CandidateStream([HIT], seed=1)
    for ids in (["a", missing], [missing, missing], np.array(["a", missing], dtype=object)):
        with pytest.raises(pg.LossMismatch, match=r"records\.ids: record . has no label"):
            stream.submit(np.zeros((2, 1)), pg.Records(ids=ids))
    with pytest.raises(pg.LossMismatch, match="has no label"):
        pg.Records(ids=np.array([1.0, np.nan]))
    with pytest.raises(pg.LossMismatch, match="has no label"):
        pg.Records(ids=pd.Series([1, None], dtype="Int64"))
    assert stream.rounds == ()


def test_batches_drawn_without_replacement_from_one_pool_are_no_stream() -> None:
    with pytest.raises(pg.UnsupportedDesign, match="independent batch"):
        pg.CandidateStream([HIT], design=pg.WithoutReplacement(pool=10_000))


def test_a_stream_refuses_what_it_does_not_cover_at_its_making() -> None:
    weighted = pg.Stratified(sizes={"a": 1, "b": 3}, weights={"a": "1/2", "b": "1/2"})
    with pytest.raises(pg.UnsupportedDesign, match="betting is valid"):
        pg.CandidateStream([BRIER], design=weighted, test="betting")
    with pytest.raises(pg.UnsupportedDesign, match="two_valued"):
        pg.CandidateStream([BRIER], test="binomial")


def test_the_same_seed_judges_alike() -> None:
    losses, records = batch(0)
    p = [
        pg.CandidateStream([BRIER], seed=seed).submit(losses, records).pvalue for seed in (3, 3, 4)
    ]
    assert p[0] == p[1]
    assert p[0] != p[2]


@pytest.mark.guarantee
def test_spending_the_first_level_in_every_round_would_break_the_budget() -> None:
    # Twelve candidates on their limit; a run errs if any of them is ever validated.
    rng = np.random.default_rng(61)
    level = 6 * 0.05 / np.pi**2
    ever, flat = 0, 0
    for run in range(60):
        stream = pg.CandidateStream([HIT], alpha="0.05", seed=run)
        verdicts = []
        for k in range(12):
            ids = np.arange(100) + 100 * k
            verdicts.append(stream.submit((rng.random((100, 1)) < 0.2), pg.Records(ids=ids)))
        ever += any(v.decision is pg.Decision.VALIDATED for v in verdicts)
        flat += any(v.pvalue <= level for v in verdicts)
    assert ever <= 10  # Bin(60, .05) exceeds 10 with probability 2e-4
    assert flat >= 12  # far above .05 * 60
