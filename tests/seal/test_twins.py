"""Twins are judged by what independent samples could have in common, and by nothing else."""

from __future__ import annotations

from collections.abc import Callable
from math import comb

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binom

from proxyguard.seal.fingerprint import KEPT, LEVEL, Meeting, TablePrints, meet, view_of

KEY = bytes(range(32))
Make = Callable[[np.random.Generator, int], pd.DataFrame]


def met(target: pd.DataFrame, other: pd.DataFrame) -> Meeting:
    return meet(TablePrints(target, KEY).records().views, TablePrints(other, KEY).records().views)


def few_categories(rng: np.random.Generator, n: int) -> pd.DataFrame:
    """Return records of which most have a twin, as in Adult without its numbers."""
    shares = [0.7, 0.2, 0.1]
    return pd.DataFrame({f"c{j}": rng.choice(["a", "b", "c"], n, p=shares) for j in range(6)})


def binary(rng: np.random.Generator, n: int) -> pd.DataFrame:
    return pd.DataFrame({f"b{j}": rng.integers(0, 2, n) for j in range(12)})


def numbered(rng: np.random.Generator, n: int) -> pd.DataFrame:
    """Return records that are numbered from 1, as in every other table."""
    return pd.DataFrame({"id": np.arange(1, n + 1), "y": rng.integers(0, 2, n)})


def labelled(rng: np.random.Generator, n: int) -> pd.DataFrame:
    number = rng.permutation(2 * n)[:n]
    return pd.DataFrame({"id": [f"P-{i:06}" for i in number], "y": rng.integers(0, 2, n)})


def panel(rng: np.random.Generator, n: int) -> pd.DataFrame:
    """Return sales of shops by day: shop and day never repeat, and come again in every table."""
    shops, days = (grid.ravel() for grid in np.meshgrid(np.arange(20), np.arange(n // 20)))
    return pd.DataFrame(
        {"shop": shops, "region": shops // 5, "kind": shops % 3, "day": days,
         "sales": rng.normal(size=shops.size).round(3)}
    )  # fmt: skip


def without_repeats(rng: np.random.Generator, n: int) -> pd.DataFrame:
    return few_categories(rng, n).drop_duplicates()


def skewed(rng: np.random.Generator, n: int) -> pd.DataFrame:
    """Return records with many rare values and a few frequent ones."""
    value = np.floor(rng.pareto(0.7, n) * 10)
    return pd.DataFrame({"x": value, "y": value % 7, "z": rng.integers(0, 2, n)})


POPULATIONS: list[Make] = [
    few_categories, binary, numbered, labelled, panel, without_repeats, skewed,
]  # fmt: skip


@pytest.mark.guarantee
@pytest.mark.parametrize("make", POPULATIONS)
def test_independent_samples_are_not_taken_for_the_same_records(make: Make) -> None:
    rng = np.random.default_rng(20260819)
    for target, other in ((300, 300), (200, 2000)):
        for _ in range(8):
            meeting = met(make(rng, target), make(rng, other))
            assert meeting.twins > 0 or make is panel  # there is something to judge
            assert not meeting.excess


@pytest.mark.guarantee
@pytest.mark.parametrize("make", [numbered, labelled, panel, without_repeats])
def test_without_the_chance_of_few_values_they_would_be(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("proxyguard.seal.fingerprint._Chance.of", lambda self, columns: 0.0)
    rng = np.random.default_rng(20260819)
    assert met(make(rng, 600), make(rng, 600)).excess


@pytest.mark.guarantee
@pytest.mark.parametrize("make", [few_categories, binary, skewed])
def test_without_the_repeats_on_either_side_they_would_be(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("proxyguard.seal.fingerprint._Chance.of", lambda self, columns: 0.0)
    monkeypatch.setattr("proxyguard.seal.fingerprint._more_than_repeats", lambda a, b, level: True)
    rng = np.random.default_rng(20260819)
    assert met(make(rng, 600), make(rng, 600)).excess


@pytest.mark.parametrize("make", POPULATIONS)
def test_the_same_records_are_found_in_all_but_the_poorest_tables(make: Make) -> None:
    rng = np.random.default_rng(20260819)
    other = make(rng, 600)
    meeting = met(other.iloc[1:].sample(frac=1.0, random_state=1), other)
    assert meeting.twins == len(other) - 1
    # Records with few values are seldom alone: a copy of the table looks like a sample of it.
    assert meeting.excess == (make not in (few_categories, without_repeats))


def test_samples_of_different_populations_are_not_taken_for_the_same_records() -> None:
    rng = np.random.default_rng(20260819)
    for _ in range(10):
        # A target that is more varied, or less, than what it is compared with.
        wide, narrow = rng.integers(0, 4000, 400), rng.integers(0, 50, 400)
        for target, other in ((wide, narrow), (narrow, wide)):
            frames = [pd.DataFrame({"x": v + 0.5, "y": v % 3}) for v in (target, other)]
            assert not met(*frames).excess


@pytest.mark.parametrize("copies", [1, 2, 5, 40])
@pytest.mark.parametrize("padding", [0, 3000])
def test_repeating_development_rows_does_not_hide_a_copied_target(
    copies: int, padding: int
) -> None:
    rng = np.random.default_rng(8)
    target = pd.DataFrame(rng.normal(size=(40, 3)), columns=list("xyz")).round(2)
    development = pd.concat([*[target] * copies, *[target.iloc[:1]] * padding])
    assert met(target, development).excess
    assert met(pd.concat([target, *[target.iloc[:1]] * padding]), development).excess


def test_a_small_leak_is_found_beside_many_natural_repeats() -> None:
    # 400 development records stand twice by nature and 300 of 30,000 are the target's: that is
    # less than half of what is repeated, and no target record is repeated in the target.
    rng = np.random.default_rng(8)
    rows = pd.DataFrame(rng.normal(size=(30_000, 3)), columns=list("xyz"))
    development = pd.concat([rows, rows.iloc[1000:1400]])
    assert met(rows.iloc[:300], development).excess
    fresh = pd.DataFrame(rng.normal(size=(300, 3)), columns=list("xyz"))
    assert not met(fresh, development).excess


def test_no_split_of_a_value_is_likelier_than_its_bound() -> None:
    chances = np.linspace(0.0, 1.0, 2001)
    for c in range(2, 9):
        for b in range(1, c):
            most = comb(c, b) * (b / c) ** b * (1 - b / c) ** (c - b)
            assert binom.pmf(b, c, chances).max() <= most * (1 + 1e-12)
            if b == 1:
                assert most <= 0.5


def test_a_copy_is_found_from_22_records_on() -> None:
    # 2^-22 < 1e-6/4 <= 2^-21: whole records get half of the level, and singles half of that.
    assert 2.0**-22 < LEVEL / 4 <= 2.0**-21
    for n, found in ((21, False), (22, True)):
        view = view_of(np.arange(1, n + 1, dtype=np.uint64), chance=0.0, words="")
        assert meet([view], [view]).excess == found


def test_a_wide_table_keeps_a_share_of_its_views_and_is_still_found() -> None:
    rng = np.random.default_rng(8)
    n, d = 20_000, 40
    frame = pd.DataFrame(rng.normal(size=(n, d)), columns=[f"x{j}" for j in range(d)])
    records = TablePrints(frame, KEY).records()
    assert max(view.thin for view in records.views) == 2  # 1.6 million fingerprints
    assert sum(view.values.size for view in records.views if view.thin > 1) < 1.1 * KEPT
    again = frame.iloc[:3000].assign(new=1.0 / (1.0 + np.arange(3000)))
    meeting = met(again, frame)
    assert meeting.excess
    assert meeting.twins == pytest.approx(3000, rel=0.1)


def test_two_columns_more_are_found_by_half_of_the_columns() -> None:
    rng = np.random.default_rng(8)
    frame = pd.DataFrame(rng.normal(size=(200, 12)), columns=[f"x{j}" for j in range(12)])
    again = frame.assign(first=rng.normal(size=200), second=rng.normal(size=200))
    meeting = met(again, frame)
    assert (meeting.excess, meeting.twins) == (True, 200)
    assert meeting.columns == "half of the columns"


def test_sets_without_records_or_views_do_not_meet() -> None:
    empty = pd.DataFrame({"x": [], "y": []})
    full = pd.DataFrame({"x": ["1"], "y": ["a"]})
    for target, other in ((empty, full), (full, empty), (empty, empty)):
        assert met(target, other) == Meeting(
            twins=0, expected=0.0, excess=False, columns="all columns"
        )
    assert meet((), ()).twins == 0
