"""Queries of tables: cells by value, means within their range, each column read once."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxyguard.errors import RegistryError, TableError
from proxyguard.losses import query
from proxyguard.losses.query import BoundedQuery, CodedRecords, Coding, Workload, expand
from proxyguard.registry.fields import OTHERS, Query


def frame() -> pd.DataFrame:
    return pd.DataFrame(
        {
            "site": pd.Series(["a", " a", "b", "b", "b"], dtype=object),
            "code": [1.0, 2.0, 1.0, 1.5, np.nan],
            "written": pd.Series(["1", "1.0", "01", "x", ""], dtype=object),
            "held": pd.Series([True, False, True, True, False]),
        }
    )


@pytest.mark.parametrize(
    ("cell", "expected"),
    [
        ((("site", "a"),), [1, 1, 0, 0, 0]),  # blanks around a value do not count
        ((("code", "1"),), [1, 0, 1, 0, 0]),  # a number reads alike as 1 and as 1.0
        ((("code", "1.50"),), [0, 0, 0, 1, 0]),
        ((("written", "1"),), [1, 1, 1, 0, 0]),
        ((("held", "True"),), [1, 0, 1, 1, 0]),
        ((("site", "b"), ("code", "1")), [0, 0, 1, 0, 0]),
        ((("site", "c"),), [0, 0, 0, 0, 0]),
        ((("code", ""),), [0, 0, 0, 0, 1]),  # a missing value is the empty text
    ],
)
def test_a_cell_holds_the_records_that_read_like_it(
    cell: tuple[tuple[str, str], ...], expected: list[int]
) -> None:
    share = BoundedQuery("share", 0.0, 1.0, cell=cell)
    np.testing.assert_array_equal(share.values(CodedRecords(frame())), expected)
    assert share.answer(CodedRecords(frame())) == sum(expected) / 5


def test_a_categorical_column_reads_as_its_text() -> None:
    table = frame().assign(site=frame()["site"].astype("category"))
    found = BoundedQuery("share", 0.0, 1.0, cell=(("site", "b"),)).values(CodedRecords(table))
    np.testing.assert_array_equal(found, [0, 0, 1, 1, 1])


def test_a_mean_is_clipped_to_its_range_and_refuses_missing_values() -> None:
    mean = BoundedQuery("mean", 0.0, 1.2, column="code")
    assert mean.answer(CodedRecords(frame()[:4])) == (1.0 + 1.2 + 1.0 + 1.2) / 4
    with pytest.raises(TableError, match="'code' has missing values"):
        mean.values(CodedRecords(frame()))


@pytest.mark.parametrize("low", [1e15, -1e15 - 1])
def test_a_mean_over_a_range_that_doubles_cannot_hold_is_refused(low: float) -> None:
    # Differences lie in [-1, 1], which hides that every value is rounded to an eighth.
    with pytest.raises(RegistryError, match=r"0\.125 apart"):
        BoundedQuery("mean", low, low + 1, column="code")


def test_a_column_that_is_not_there_is_an_error() -> None:
    with pytest.raises(TableError, match=r"'age' is missing; the records have \['site'"):
        BoundedQuery("share", 0.0, 1.0, cell=(("age", "1"),)).values(CodedRecords(frame()))


def test_a_release_without_records_or_with_a_gap_in_a_mean_has_no_answer() -> None:
    share = BoundedQuery("share", 0.0, 1.0, cell=(("site", "a"),))
    assert share.answer(CodedRecords(frame()[:0])) is None
    records = CodedRecords(frame())
    assert share.answer(records, np.zeros(5, dtype=bool)) is None
    mean = BoundedQuery("mean", 0.0, 1.2, column="code")
    assert mean.answer(records) is None  # the last number is missing
    assert mean.answer(records, np.arange(5) < 4) == (1.0 + 1.2 + 1.0 + 1.2) / 4


def test_many_cells_read_a_column_once(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []
    real = query.as_texts

    def noted(values: Any) -> Any:
        read.append(str(values.name))
        return real(values)

    monkeypatch.setattr(query, "as_texts", noted)
    records = CodedRecords(frame())
    for site in ("a", "b", "c"):
        for code in ("1", "2"):
            cell = (("site", site), ("code", code))
            BoundedQuery("share", 0.0, 1.0, cell=cell).values(records)
    assert read == ["site", "code"]


AGES = Coding(ends=("25", "40.5"))
SITES = Coding(groups=(("north", ("a", "b")), ("south", ("c",))))


def test_bins_hold_their_lower_end_and_missing_numbers_are_in_none() -> None:
    assert AGES.labels == ("under 25", "25 to under 40.5", "40.5 and over")
    ages = pd.Series([-1.0, 24.999, 25.0, 40.4, 40.5, np.inf, np.nan])
    np.testing.assert_array_equal(AGES.codes(ages), [0, 0, 1, 1, 2, 2, -1])


def test_bins_of_dates_are_named_by_dates() -> None:
    asked = Query.model_validate({"marginals": [["born"]], "bins": {"born": ["1961-01-10"]}})
    cells = expand("w", asked, {}, {})
    assert [c.name for c in cells] == [
        "w: born = under 1961-01-10",
        "w: born = 1961-01-10 and over",
    ]
    days = CodedRecords(pd.DataFrame({"born": [-3279.0, -3278.0, np.nan, 0.0]}))
    np.testing.assert_array_equal([c.values(days) for c in cells], [[1, 0, 0, 0], [0, 1, 0, 1]])


def test_groups_hold_their_values_as_they_read_and_the_others_are_one_cell() -> None:
    assert SITES.labels == ("north", "south", OTHERS)
    sites = pd.Series(["a", " b", "c", "d", ""], dtype=object)
    np.testing.assert_array_equal(SITES.codes(sites), [0, 0, 1, 2, 2])
    np.testing.assert_array_equal(SITES.codes(sites.astype("category")), [0, 0, 1, 2, 2])
    ones = Coding(groups=(("one", ("1",)),))
    np.testing.assert_array_equal(ones.codes(pd.Series([1.0, 2.0])), [0, 1])


def test_the_cells_of_marginals_run_over_bins_groups_and_the_values_of_development() -> None:
    asked = Query.model_validate(
        {
            "marginals": {"columns": ["age", "site", "sex"], "ways": 2},
            "bins": {"age": ["25"]},
            "groups": {"site": {"south": ["c"], "north": ["a", "b"]}},
        }
    )
    assert asked.tables == (("age", "site"), ("age", "sex"), ("site", "sex"))
    cells = expand("w", asked, {"sex": ["f", "m"]}, {})
    assert len(cells) == 2 * 3 + 2 * 2 + 3 * 2
    assert cells[0].name == "w: age = under 25, site = north"
    assert cells[5].cell == (("age", "25 and over"), ("site", OTHERS))
    # A sealed mapping has no order, and what is read back asks the same.
    again = BoundedQuery.of(cells[0].recorded(), query.codings(asked))
    assert again == cells[0]
    with pytest.raises(RegistryError, match=r"\['sex'\], which are no text columns; register bins"):
        expand("w", asked, {}, {})


@given(st.integers(1, 60), st.integers(0, 2**32 - 1))
def test_a_workload_is_counted_as_pandas_tabulates_it(n: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    data = pd.DataFrame(
        {
            "age": rng.choice([10.0, 25.0, 30.0, 40.5, 60.0], n),
            "site": pd.Series(rng.choice(["a", "b", "c", "d"], n), dtype=object),
            "sex": pd.Series(rng.choice(["f", "m"], n), dtype=object),
        }
    )
    inside = rng.random(n) < 0.7
    asked = Query.model_validate(
        {
            "marginals": {"columns": ["age", "site", "sex"]},
            "bins": {"age": list(AGES.ends)},
            "groups": {"site": dict(SITES.groups)},
        }
    )
    cells = expand("w", asked, {"sex": ["f", "m", "x"]}, {})  # a value that nobody has
    by_pandas = pd.DataFrame(
        {
            "age": pd.cut(data["age"], [-np.inf, 25, 40.5, np.inf], right=False,
                          labels=list(AGES.labels)).astype(object),
            "site": data["site"].map({"a": "north", "b": "north", "c": "south", "d": OTHERS}),
            "sex": data["sex"],
        }
    )  # fmt: skip
    for chosen, mask in ((np.ones(n, dtype=bool), None), (inside, inside)):
        found = Workload(cells).counts(CodedRecords(data), mask)
        tables = {}
        for cell, count in zip(cells, found, strict=True):
            (one, first), (two, second) = cell.cell
            if (one, two) not in tables:
                tables[one, two] = pd.crosstab(by_pandas[one][chosen], by_pandas[two][chosen])
            expected = (
                tables[one, two].reindex(index=[first], columns=[second]).fillna(0).to_numpy().sum()
            )
            assert count == expected, cell.name
            assert cell.values(CodedRecords(data))[chosen].sum() == expected


def test_a_missing_number_is_in_no_cell_of_its_table() -> None:
    data = pd.DataFrame({"age": [np.nan, 30.0], "sex": pd.Series(["f", "f"], dtype=object)})
    cells = [
        BoundedQuery("q", 0.0, 1.0, cell=(("sex", "f"), ("age", label)), coding={"age": AGES})
        for label in AGES.labels
    ]
    np.testing.assert_array_equal(Workload(cells).counts(CodedRecords(data)), [0, 1, 0])


def test_values_that_nobody_asked_for_make_no_table_larger() -> None:
    # 20,000 values in each of five columns are 3e21 combinations, more than a whole number holds.
    names = list("abcde")
    data = pd.DataFrame({c: pd.Series([f"{c}{i}" for i in range(20_000)]) for c in names})
    asked = Query.model_validate({"marginals": [names]})
    domains = {c: [f"{c}7", f"{c}11"] for c in names}
    cells = expand("w", asked, domains, {})
    found = dict(
        zip((c.name for c in cells), Workload(cells).counts(CodedRecords(data)), strict=True)
    )
    assert sum(found.values()) == 2  # records 7 and 11; 30 mixed cells are empty
    assert found["w: a = a7, b = b7, c = c7, d = d7, e = e7"] == 1


def test_shares_of_few_combinations_are_counted_each_by_itself() -> None:
    # 300 shares over eight columns: their labels alone have 300 ** 8 = 6.6e19 combinations.
    names = list("abcdefgh")
    data = pd.DataFrame({c: pd.Series([f"{c}{i}" for i in range(300)]) for c in names})
    shares = [
        BoundedQuery(f"q{i}", 0.0, 1.0, cell=tuple((c, f"{c}{i}") for c in names))
        for i in range(300)
    ]
    mixed = BoundedQuery("mixed", 0.0, 1.0, cell=tuple((c, f"{c}{k}") for k, c in enumerate(names)))
    found = Workload([*shares, mixed]).counts(CodedRecords(data))
    np.testing.assert_array_equal(found, [1] * 300 + [0])
