"""Ratios of two means and correlations: what is averaged, and what a mean of it says."""

from __future__ import annotations

import statistics
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxyguard.errors import RegistryError, TableError
from proxyguard.losses.measure import Measure, measure_query
from proxyguard.losses.query import BoundedQuery, CodedRecords, Denominator, Standard, expand
from proxyguard.registry.fields import Query
from proxyguard.registry.parts import RequirementPart

RATIO = {"ratio": ["cost", "days"], "ranges": {"cost": ["0", "100"], "days": ["0", "10"]}}
WIDE = {"correlation": ["cost", "days"], "range": ["-1000", "1000"]}


def asked(query: dict[str, Any], **moments: tuple[str, str]) -> BoundedQuery:
    (expanded,) = expand("q", Query.model_validate(query), {}, moments)
    again = BoundedQuery.of(expanded.recorded(), {})
    assert again == expanded  # what the registry has of it is all of it
    return again


def sides(query: BoundedQuery, limit: str) -> tuple[Measure, Measure]:
    declared = {"name": "q", "form": "query", "limit": limit, "query": RATIO}
    return measure_query(
        RequirementPart.model_validate(declared), query, limit=limit, slack=None
    )  # fmt: skip


def test_the_excess_that_is_averaged_is_in_no_unit() -> None:
    part = RequirementPart.model_validate(
        {"name": "r", "form": "query", "query": RATIO, "limit": "0.4", "unit": "euro"}
    )
    (query,) = expand("r", part.query, {}, {}) if part.query else ()
    for side in measure_query(part, query, limit="0.4", slack=None):
        assert (side.requirement.limit, side.requirement.unit) == (0.0, "")
        assert "less than 0.4 euro" in side.requirement.sentence


def records(cost: list[float], days: list[float]) -> CodedRecords:
    return CodedRecords(pd.DataFrame({"cost": cost, "days": days}))


def test_a_release_answers_with_its_own_ratio_of_numbers_that_are_cut() -> None:
    query = asked(RATIO)
    assert query.answer(records([10, 500, -7], [1, 4, 50])) == (10 + 100 + 0) / (1 + 4 + 10)
    inside = np.array([True, True, False])
    assert query.answer(records([10, 20, 7], [1, 4, 9]), inside) == 30 / 5


@pytest.mark.parametrize(
    ("cost", "days"),
    [([1, 2], [0, 0]), ([1, 2], [-3, 0]), ([1, np.nan], [1, 1]), ([1, 2], [np.nan, 1]),
     ([100, 100], [5e-324, 0]), ([], [])],
    ids=["nothing below", "cut to nothing", "a gap above", "a gap below", "no double", "no rows"],
)  # fmt: skip
def test_a_release_without_a_ratio_has_the_worst_loss_everywhere(
    cost: list[float], days: list[float]
) -> None:
    query = asked(RATIO)
    assert query.answer(records(cost, days)) is None
    values = query.values(records([1, 2, 3], [1, 2, 3]))
    for side in sides(query, "0.5"):
        np.testing.assert_array_equal(side.of_query_values(values, None), [1, 1, 1])


def test_a_gap_in_the_target_names_its_column() -> None:
    with pytest.raises(TableError, match="'days' has missing values"):
        asked(RATIO).values(records([1, 2], [1, np.nan]))


def test_what_a_ratio_averages_is_what_fractions_give() -> None:
    # c = 2, limit 1/2: above 10 - 2.5 * 4 = 0 of at most 100, below 1.5 * 4 - 10 = -4 of 100.
    query = asked(RATIO)
    above, below = sides(query, "0.5")
    values = query.values(records([10, 100, 0, 30], [4, 0, 10, 10]))
    expected = [Fraction(0), Fraction(1), Fraction(-1, 4), Fraction(5, 100)]
    np.testing.assert_allclose(above.of_query_values(values, 2.0), np.array(expected, float), 1e-15)
    expected = [Fraction(-4, 100), Fraction(-1), Fraction(15, 100), Fraction(-15, 100)]
    np.testing.assert_allclose(below.of_query_values(values, 2.0), np.array(expected, float), 1e-15)
    assert [(s.requirement.low, s.requirement.limit, s.requirement.high) for s in (above, below)] \
        == [(-1, 0, 1)] * 2  # fmt: skip


@given(
    rows=st.lists(st.tuples(st.integers(-5, 9), st.integers(0, 4)), min_size=1, max_size=6),
    answer=st.integers(-8, 8),
    limit=st.integers(1, 6),
)
def test_both_means_are_below_0_exactly_where_the_ratio_is_within_the_limit(
    rows: list[tuple[int, int]], answer: int, limit: int
) -> None:
    query = BoundedQuery("q", -5.0, 9.0, "cost", per=Denominator("days", 0.0, 4.0))
    values = query.values(records(*map(list, zip(*rows, strict=True))))
    # The law that has these rows with equal chances: its means are sums over them.
    met = all(
        query.excess(values, answer, above=above, limit=limit).sum() < -1e-6
        for above in (True, False)
    )
    cost, days = (sum(column) for column in zip(*rows, strict=True))
    within = days > 0 and abs(Fraction(cost, days) - answer) < limit if days else False
    assert met == within


@given(
    rows=st.lists(st.tuples(st.integers(-5, 9), st.integers(0, 4)), min_size=1, max_size=6),
    answer=st.floats(-8, 8),
    limit=st.floats(0.1, 6),
    low=st.sampled_from([-5.0, 0.0]),
    least=st.sampled_from([0.0, 0.5]),
)
def test_ends_and_means_of_a_ratio_say_the_answers_that_they_are_of(
    rows: list[tuple[int, int]], answer: float, limit: float, low: float, least: float
) -> None:
    query = BoundedQuery("q", low, 9.0, "cost", per=Denominator("days", least, 4.0))
    told = query.answer_of(*query.ends(answer, above=True, limit=limit), limit)
    assert told == pytest.approx(answer, abs=1e-6)
    values = query.values(records(*map(list, zip(*rows, strict=True))))
    means = [
        float(query.excess(values, answer, above=above, limit=limit).mean())
        for above in (True, False)
    ]
    parts = query.parts_of(answer, (means[0], means[1]), limit)
    assert parts == pytest.approx(values.mean(axis=0).tolist(), abs=1e-9)
    # Ends that no answer has say none.
    assert query.answer_of(-0.1, 0.2, limit) is None


@given(data=st.data())
def test_no_record_leaves_the_scale_whatever_a_release_answers(data: st.DataObject) -> None:
    centre = data.draw(st.sampled_from([0.0, -3.0, 1e3, 1e6]))
    least = data.draw(st.sampled_from([0.0, 0.5, 1e6]))
    width, depth = (data.draw(st.floats(1.0, 1e3)) for _ in range(2))  # 1 of 1e6: hardly held
    below = Denominator("days", least, least + depth)
    query = BoundedQuery("q", centre, centre + width, "cost", per=below)
    cost = data.draw(st.lists(st.floats(-1e7, 1e7), min_size=1, max_size=20))
    days = data.draw(st.lists(st.floats(-1e7, 1e7), min_size=len(cost), max_size=len(cost)))
    ends = [centre, centre + width], [below.high, below.low]  # where the most is
    values = query.values(records(ends[0] + cost, ends[1] + days))
    answer = data.draw(st.floats(-1e100, 1e100))
    limit = data.draw(st.floats(1e-9, 1e100))
    for above in (True, False):
        found = query.excess(values, answer, above=above, limit=limit)
        assert np.abs(found).max() <= 1.0


@pytest.mark.parametrize("seed", range(3))
def test_standardised_by_its_own_moments_it_is_pearsons_coefficient(seed: int) -> None:
    rng = np.random.default_rng(seed)
    cost, days = rng.gamma(2.0, 50.0, 200), rng.normal(4.0, 2.0, 200)
    days += 0.01 * cost
    moments = {
        name: (repr(float(x.mean())), repr(float(x.std())))
        for name, x in (("cost", cost), ("days", days))
    }
    query = asked(WIDE, **moments)
    answer = query.answer(CodedRecords(pd.DataFrame({"cost": cost, "days": days})))
    assert answer == pytest.approx(statistics.correlation(cost, days), rel=1e-12)


def test_by_other_constants_it_moves_with_means_and_deviations_as_the_page_says() -> None:
    rng = np.random.default_rng(4)
    cost, days = rng.gamma(2.0, 50.0, 300), rng.normal(4.0, 2.0, 300)
    days += 0.01 * cost
    query = asked({**WIDE, "standard": {"cost": ["80", "40"], "days": ["3", "5"]}})
    r, gap = statistics.correlation(cost, days), (cost.mean() - 80.0) * (days.mean() - 3.0)
    expected = (r * statistics.pstdev(cost) * statistics.pstdev(days) + gap) / (40.0 * 5.0)
    answer = query.answer(CodedRecords(pd.DataFrame({"cost": cost, "days": days})))
    assert answer == pytest.approx(expected, rel=1e-12)
    # Cutting moves it by no more than the mean of what lies beyond.
    cut = asked({**WIDE, "range": ["-1", "1"],
                 "standard": {"cost": ["80", "40"], "days": ["3", "5"]}})  # fmt: skip
    frame = CodedRecords(pd.DataFrame({"cost": cost, "days": days}))
    beyond = np.abs(query.values(frame)) - 1.0
    assert abs(cut.answer(frame) - expected) <= np.mean(np.maximum(beyond, 0.0)) + 1e-12


def test_it_is_not_where_the_constants_are_others_or_products_are_cut() -> None:
    frame = records([1, 3], [1, 3])
    # (0.5 * 0.25 + 1.5 * 0.75)/2, and with products cut to 1/2 (0.125 + 0.5)/2.
    constants = {"standard": {"cost": ["0", "2"], "days": ["0", "4"]}}
    assert asked({**WIDE, **constants}).answer(frame) == 0.625
    assert asked({**WIDE, **constants, "range": ["-0.5", "0.5"]}).answer(frame) == 0.3125


def test_declared_constants_come_before_those_of_training() -> None:
    query = asked(
        {**WIDE, "standard": {"cost": ["1", "2"]}}, cost=("7.0", "7.0"), days=("5.0", "6.0")
    )
    assert query.product == (Standard("cost", 1.0, 2.0), Standard("days", 5.0, 6.0))


def test_a_column_that_does_not_vary_is_no_scale() -> None:
    with pytest.raises(RegistryError, match=r"'days' does not vary .* standard = { \"days\" = "):
        asked(WIDE, cost=("7.0", "7.0"))


def test_what_is_infinite_is_cut_and_never_no_number() -> None:
    query = asked({**WIDE, "range": ["-4", "4"], "standard": {"cost": ["0", "1"],
                                                             "days": ["2", "1"]}})  # fmt: skip
    frame = records([np.inf, -np.inf, np.inf, 3], [2, 9, -9, 3])
    np.testing.assert_array_equal(query.values(frame), [0, -4, -4, 3])
