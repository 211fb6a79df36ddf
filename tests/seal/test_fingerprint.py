"""A record is its values: not its file, its place in it, or the type of a column."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from itertools import combinations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxyguard.seal.fingerprint import (
    SIZE,
    RecordSet,
    TablePrints,
    _distinct,
    canonical_value,
    expected_twins,
    fingerprints,
    identify,
)

KEY = bytes(range(32))
VALUES = st.sampled_from(["1", "2", "a", "b", "", "1.5"])
ROWS = st.lists(st.tuples(VALUES, VALUES), min_size=1, max_size=8)


def frame_of(rows: list[tuple[str, str]]) -> pd.DataFrame:
    return pd.DataFrame(rows, columns=["x", "y"], dtype=object)


def prints_of(*values: object) -> np.ndarray:
    """Return the fingerprints of records of one column."""
    return fingerprints(pd.DataFrame({"x": pd.Series(values, dtype=object)}), KEY)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("1", "1.0"), ("1", " 1e0"), ("1", "01"), ("1", "+1"), ("100", "1e2"), ("0", "-0.0"),
        ("0", "0e7"), ("0.1", "1e-1"), ("0.1", "0.10000000000000001"), ("1e-7", "0.0000001"),
        ("x", " x "), ("NaN", "nan"), ("-5", "-5.000"), ("inf", "Inf"),
    ],
)  # fmt: skip
def test_two_ways_to_write_a_value_are_one_value(one: str, other: str) -> None:
    assert canonical_value(one) == canonical_value(other)
    assert prints_of(one)[0] == prints_of(other)[0]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("1", "-1"), ("1", "10"), ("1", ""), ("", "0"), ("x", "X"), ("a b", "ab"), ("1", "1x"),
        ("0.1", "0.1000000000000001"), ("9007199254740992", "9007199254740993"), ("nan", ""),
    ],
)  # fmt: skip
def test_two_values_stay_two(one: str, other: str) -> None:
    assert canonical_value(one) != canonical_value(other)
    assert prints_of(one)[0] != prints_of(other)[0]


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_double_reads_alike_however_many_digits_were_written(value: float) -> None:
    # 17 significant digits identify a double (IEEE 754, 5.12.2).
    assert canonical_value(f"{value:.17e}") == canonical_value(repr(value))


@given(st.text(max_size=12).filter(lambda text: not any(c in text for c in "eE_")))
def test_reading_a_value_twice_changes_nothing(text: str) -> None:
    assert canonical_value(canonical_value(text)) == canonical_value(text)


@given(ROWS, st.randoms(use_true_random=False))
def test_a_record_keeps_its_fingerprint_through_a_shuffle_and_another_column_order(
    rows: list[tuple[str, str]], random: object
) -> None:
    frame = frame_of(rows)
    order = list(range(len(rows)))
    random.shuffle(order)  # type: ignore[attr-defined]
    again = frame.iloc[order][["y", "x"]]
    np.testing.assert_array_equal(fingerprints(again, KEY), fingerprints(frame, KEY)[order])


@given(ROWS)
def test_records_have_one_fingerprint_exactly_if_their_values_are_equal(
    rows: list[tuple[str, str]],
) -> None:
    prints = fingerprints(frame_of(rows), KEY)
    for i, j in combinations(range(len(rows)), 2):
        assert (prints[i] == prints[j]) == (rows[i] == rows[j])


def test_the_type_of_a_column_does_not_matter() -> None:
    text = pd.DataFrame({"n": ["1", "2", ""], "t": ["a", "", "c"]}, dtype=object)
    whole = pd.DataFrame({"n": [1.0, 2.0, np.nan], "t": pd.Series(["a", None, "c"], dtype="str")})
    kinds = pd.DataFrame({"n": ["1.0", " 2e0", ""], "t": pd.Categorical(["a", None, "c"])})
    assert len(set(fingerprints(text, KEY).tolist())) == 3
    for other in (whole, kinds):
        np.testing.assert_array_equal(fingerprints(other, KEY), fingerprints(text, KEY))


def test_the_name_of_a_column_and_the_column_of_a_value_matter() -> None:
    one = fingerprints(pd.DataFrame({"x": ["1"], "y": ["2"]}), KEY)
    others = [pd.DataFrame({"x": ["2"], "y": ["1"]}), pd.DataFrame({"x": ["1"], "z": ["2"]})]
    for other in others:
        assert fingerprints(other, KEY)[0] != one[0]


def test_another_key_gives_other_fingerprints_throughout() -> None:
    frame = frame_of([(str(i), "a") for i in range(50)])
    mine, theirs = fingerprints(frame, KEY), fingerprints(frame, KEY[::-1])
    assert not set(mine.tolist()) & set(theirs.tolist())
    assert mine.dtype == np.dtype(f"V{SIZE}")


def test_a_table_without_records_has_no_fingerprints_and_an_identity() -> None:
    empty = fingerprints(frame_of([]), KEY)
    assert empty.size == 0
    identity, occurrences = identify(empty, ["x", "y"])
    assert occurrences.size == 0
    assert identity != identify(empty, ["x", "z"])[0]


@given(ROWS, st.randoms(use_true_random=False))
def test_the_identity_of_a_table_is_that_of_its_records_in_any_order(
    rows: list[tuple[str, str]], random: object
) -> None:
    identity, _ = identify(fingerprints(frame_of(rows), KEY), ["x", "y"])
    shuffled = list(rows)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    again, _ = identify(fingerprints(frame_of(shuffled)[["y", "x"]], KEY), ["y", "x"])
    assert again == identity
    for other in (rows[1:], [*rows, rows[0]], [("c", "c"), *rows[1:]]):
        assert identify(fingerprints(frame_of(other), KEY), ["x", "y"])[0] != identity


@given(ROWS)
def test_equal_records_are_numbered_in_the_order_of_the_table(
    rows: list[tuple[str, str]],
) -> None:
    _, occurrences = identify(fingerprints(frame_of(rows), KEY), ["x", "y"])
    assert occurrences.tolist() == [rows[:i].count(row) for i, row in enumerate(rows)]


def record_set(frame: pd.DataFrame, chosen: list[int]) -> RecordSet:
    return TablePrints(frame, KEY).records(chosen)


def test_shared_records_are_those_of_one_table_and_twins_those_of_equal_values() -> None:
    frame = frame_of([("1", "a"), ("1", "a"), ("2", "b"), ("3", "c")])
    first, second = record_set(frame, [0, 2]), record_set(frame, [1, 2, 3])
    assert (len(first), len(second)) == (2, 3)
    # Rows 0 and 1 are equal and two records: row 2 alone is in both sets.
    assert first.shared_with(second) == second.shared_with(first) == 1
    assert first.twins_in(second) == 2
    assert second.twins_in(first) == 2
    longer = record_set(frame_of([("1", "a"), ("2", "b"), ("9", "z")]), [0, 1, 2])
    assert first.shared_with(longer) == 0
    assert first.twins_in(longer) == 2


@pytest.mark.parametrize("table", ["aaabbcd", "aaaaaaa", "abcdefg", "aabbccd", "aab", "a"])
def test_expected_twins_are_the_mean_over_all_ways_to_reserve(table: str) -> None:
    prints = prints_of(*table)
    for reserved in range(1, len(table) + 1):
        counts = []
        for chosen in combinations(range(len(table)), reserved):
            outside = {table[i] for i in range(len(table)) if i not in chosen}
            counts.append(sum(table[i] in outside for i in chosen))
        exact = Fraction(sum(counts), len(counts))
        assert expected_twins(prints, reserved) == pytest.approx(float(exact), rel=1e-12, abs=1e-12)


@pytest.mark.parametrize("table", ["aaabbc", "aaaaa", "abcde", "aab"])
def test_expected_twins_among_some_of_the_rest_are_the_mean_over_all_ways_to_take_them(
    table: str,
) -> None:
    prints = prints_of(*table)
    places = range(len(table))
    for reserved in range(1, len(table) + 1):
        for others in range(len(table) - reserved + 1):
            counts = []
            for chosen in combinations(places, reserved):
                rest = [i for i in places if i not in chosen]
                for taken in combinations(rest, others):
                    values = {table[i] for i in taken}
                    counts.append(sum(table[i] in values for i in chosen))
            exact = Fraction(sum(counts), len(counts))
            found = expected_twins(prints, reserved, others)
            assert found == pytest.approx(float(exact), rel=1e-12, abs=1e-12)
        everything = expected_twins(prints, reserved, len(table) - reserved)
        assert everything == expected_twins(prints, reserved)


def test_expected_twins_of_a_larger_table_agree_with_drawing_it() -> None:
    rng = np.random.default_rng(20260819)
    table = rng.integers(0, 150, size=300)
    reserved, draws = 90, 4000
    counts = Counter(table.tolist())
    assert max(counts.values()) >= 4  # values of several multiplicities take part
    found = np.empty(draws)
    for k in range(draws):
        chosen = rng.permutation(300) < reserved
        found[k] = np.isin(table[chosen], table[~chosen]).sum()
    error = found.std(ddof=1) / np.sqrt(draws)
    expected = expected_twins(prints_of(*table.tolist()), reserved)
    # Five standard errors: a right value fails once in two million seeds.
    assert abs(found.mean() - expected) < 5 * error


def test_nothing_reserved_has_no_twins() -> None:
    assert expected_twins(prints_of("a", "a"), 0) == 0.0


@given(st.lists(st.integers(0, 40), max_size=12), st.integers(0, 400))
def test_different_numbers_are_counted_alike_however_many_there_could_be(
    codes: list[int], more: int
) -> None:
    assert _distinct(np.array(codes, dtype=np.int64), 41 + more) == len(set(codes))
