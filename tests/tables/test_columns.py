"""A column is read as it is declared, wherever it came from, or the row is named."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from proxyguard.errors import TableError, UnreadValue
from proxyguard.registry.declaration import read_declaration
from proxyguard.registry.numbers import canonical_value
from proxyguard.registry.target import ColumnPart
from proxyguard.tables.columns import as_labels, kinds_of, typed, with_dates

MISSING = ("", "NA")
DATE = ColumnPart(kind="date", format="%d.%m.%Y")
GERMAN = ColumnPart(kind="number", thousands=".", decimal=",", missing=("k.A.",))
EUROS = ColumnPart(kind="number", thousands=".", decimal=",", unit="€")


def read(part: ColumnPart, values: list[object]) -> list[object]:
    frame = pd.DataFrame({"x": pd.Series(values)})
    columns = {"x": part}
    return list(typed(frame, kinds_of(frame, MISSING, [], columns), MISSING, columns)["x"])


@pytest.mark.parametrize(
    ("part", "values", "expected"),
    [
        (DATE, ["31.01.2024", "", "NA"], [19753.0, np.nan, np.nan]),
        (DATE, [19753.0, np.nan], [19753.0, np.nan]),  # a release drawn from days
        (DATE, [pd.Timestamp("2024-01-31 12:00"), pd.NaT], [19753.5, np.nan]),
        (ColumnPart(kind="date"), ["2024-01-31"], [19753.0]),
        (GERMAN, ["1.234,5", "7", "k.A.", ""], [1234.5, 7.0, np.nan, np.nan]),
        (GERMAN, [1234.5, 7.0], [1234.5, 7.0]),
        (ColumnPart(kind="number", thousands=","), ["1,200", "3"], [1200.0, 3.0]),
        (ColumnPart(kind="number"), ["inf", "3"], [np.inf, 3.0]),
        (ColumnPart(missing=("-99",)), [-99, 4], [np.nan, 4.0]),
        (ColumnPart(missing=("-99",)), ["-99", "4"], [np.nan, 4.0]),
        (ColumnPart(missing=("?",)), ["?", "4"], [np.nan, 4.0]),
        (ColumnPart(missing=("?",)), ["?", "a"], ["", "a"]),
        (ColumnPart(kind="category"), ["04109", "10115"], ["04109", "10115"]),
        (ColumnPart(kind="category", missing=("9",)), [9, 1], ["", "1"]),
        (ColumnPart(kind="text"), [1.0, 2.5], ["1", "2.5"]),
    ],
)
def test_a_column_is_read_as_declared(
    part: ColumnPart, values: list[object], expected: list[object]
) -> None:
    pd.testing.assert_series_equal(pd.Series(read(part, values)), pd.Series(expected))


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (["606.6", "9793.72", "42", ""], [606.6, 9793.72, 42.0, np.nan]),
        (["1.234", "42"], [1234.0, 42.0]),  # as declared, wherever that reads all of it
    ],
)
def test_a_release_may_have_plain_numbers_where_the_table_is_declared_otherwise(
    values: list[object], expected: list[float]
) -> None:
    frame, columns = pd.DataFrame({"x": pd.Series(values)}), {"x": GERMAN}
    read_so = typed(frame, {"x": "number"}, MISSING, columns, release=True)
    pd.testing.assert_series_equal(read_so["x"], pd.Series(expected, name="x"))


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (["606.6", "9793.72"], [606.6, 9793.72]),
        (["€606.6", "9793.72"], [606.6, 9793.72]),
        (["1.234,5 €", "€ 12"], [1234.5, 12.0]),
        (["1.234,5", "12"], [1234.5, 12.0]),
    ],
)
def test_a_release_may_leave_out_the_unit(values: list[object], expected: list[float]) -> None:
    frame, columns = pd.DataFrame({"x": pd.Series(values)}), {"x": EUROS}
    read_so = typed(frame, {"x": "number"}, MISSING, columns, release=True)
    assert read_so["x"].tolist() == expected
    with pytest.raises(UnreadValue, match="declared to hold numbers in '€' with"):
        typed(frame.assign(x="$5"), {"x": "number"}, MISSING, columns, release=True)


@pytest.mark.parametrize("days", [["7477.0", "-3278", ""], ["21.06.1990", "10.01.1961", ""]])
def test_a_release_may_have_the_days_of_development_for_dates(days: list[str]) -> None:
    frame, columns = pd.DataFrame({"x": days}), {"x": ColumnPart(kind="date", format="%d.%m.%Y")}
    read_so = typed(frame, {"x": "number"}, MISSING, columns, release=True)
    assert read_so["x"].tolist()[:2] == [7476.0 + days[0].startswith("7"), -3278.0]


@pytest.mark.parametrize("values", [["606.6", "1.234"], ["606.6", "1,5"], ["606.6", "x"]])
def test_a_release_of_which_a_text_has_two_meanings_is_not_read(values: list[object]) -> None:
    frame, columns = pd.DataFrame({"x": pd.Series(values)}), {"x": GERMAN}
    with pytest.raises(UnreadValue):
        typed(frame, {"x": "number"}, MISSING, columns, release=True)


def test_the_table_itself_is_read_as_declared_alone() -> None:
    with pytest.raises(UnreadValue):
        read(GERMAN, ["606.6", "9793.72"])


@pytest.mark.parametrize(
    ("part", "values", "row", "words"),
    [
        (DATE, ["31.01.2024", "2024-01-31"], 1, "dates as '%d.%m.%Y'"),
        (DATE, ["31.02.2024"], 0, "change columns.x in audit.toml"),
        (GERMAN, ["1.234,5", "1,234.5"], 1, "'.' between thousands, ',' before decimals"),
        (ColumnPart(kind="number"), ["1", "secret"], 1, "under [columns], x = { missing"),
    ],
)
def test_what_does_not_read_so_is_named_by_its_row_and_not_shown(
    part: ColumnPart, values: list[object], row: int, words: str
) -> None:
    with pytest.raises(UnreadValue) as no:
        read(part, values)
    assert (no.value.column, no.value.row) == ("x", row)
    assert f"row {row + 1} has none" in str(no.value)
    assert words in str(no.value)
    assert str(values[row]) not in str(no.value)
    assert f"table.csv, row {row + 1} has none" in str(no.value.within("table.csv"))


def test_all_columns_that_cannot_be_read_are_named_at_once_by_their_rows_in_the_table() -> None:
    frame = pd.DataFrame({"a": ["1", "x", "y"], "b": ["1", "2", "3"], "c": ["u", "2", "3"]})
    with pytest.raises(UnreadValue) as no:
        typed(frame.set_axis([4, 7, 9]), dict.fromkeys("abc", "number"), ())
    assert "column 'a' holds numbers, and row 8 and 1 more have none" in str(no.value)
    assert "; the same of 'c', row 5; mend" in str(no.value)
    assert "'b'" not in str(no.value)


@pytest.mark.parametrize(
    ("part", "words"),
    [
        ({"thousands": ","}, 'write kind = "number"'),
        ({"kind": "date", "decimal": ","}, 'write kind = "number"'),
        ({"kind": "number", "format": "%Y"}, 'write kind = "date"'),
        ({"kind": "number", "thousands": "."}, "write decimal too"),
        ({"kind": "number", "thousands": ",", "decimal": ","}, "are both ','"),
        ({"kind": "date", "format": "dd.mm.yyyy"}, 'as "%d.%m.%Y"'),
        ({"kind": "integer"}, "kind"),
        ({"exlcude": True}, "exlcude"),
    ],
)
def test_a_part_that_contradicts_itself_is_refused(part: dict[str, object], words: str) -> None:
    with pytest.raises(ValidationError, match=words.replace("%", ".")):
        ColumnPart.model_validate(part)


HEAD = """\
format = 1
name = "columns"
purpose = "Are they read?"
[target]
table = "table.csv"
reserve = { rows = 10, seed = 1 }
outcome = "y"
positive = "1"
exclude = ["id"]
[procedure]
library = ["default"]
[[requirement]]
name = "error"
loss = "error"
form = "absolute"
limit = "0.2"
[[mechanism]]
name = "m"
generator = "bootstrap"
draws = 2
seeds = { first = 1 }
[claim]
reliability_target = "0.1"
[columns]
"""


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("id = { exclude = true }", "excluded twice"),
        ("y = { exclude = true }", "it is the outcome or the design"),
        ('y = { kind = "number" }', "its values are labels"),
    ],
)
def test_a_declaration_whose_columns_contradict_it_is_refused(line: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        read_declaration(HEAD + line)


def test_what_columns_say_is_sealed_and_left_out_where_nothing_is_said() -> None:
    plain, declared = read_declaration(HEAD), read_declaration(HEAD + 'x = { kind = "date" }')
    assert "columns" not in plain.to_dict()
    assert "columns" not in dict(plain.sealed_part()["target"])  # type: ignore[arg-type]
    assert plain.sealed_part() != declared.sealed_part()
    (member,) = declared.members
    assert member.excluded == ("id",)
    assert member.spared() == {"id"}


def test_a_plain_error_of_a_table_is_not_one_of_a_value() -> None:
    with pytest.raises(TableError, match="is missing") as no:
        typed(pd.DataFrame({"a": [1]}), {"b": "number"}, MISSING)
    assert not isinstance(no.value, UnreadValue)


@given(st.text() | st.booleans() | st.integers() | st.floats(allow_nan=False))
def test_a_label_is_its_text_by_value(label: object) -> None:
    assert as_labels([label]) == [canonical_value(str(label))]


def test_a_label_that_is_missing_is_no_text() -> None:
    assert as_labels([None, float("nan"), pd.NaT, " "]) == ["", "", "", ""]


MOMENTS = [
    "1970-01-01", "2024-02-29 23:59:59.999999", "1880-07-04 00:00:00.000001", "",
    "2058-12-31 12:00:00.123456",
]  # fmt: skip


def test_dates_come_back_as_the_days_that_they_were() -> None:
    part = {"day": ColumnPart(kind="date"), "hour": ColumnPart(kind="date", format="%H:%M")}
    frame = pd.DataFrame({"day": MOMENTS, "hour": "06:00", "x": 1.0})
    kinds = {"day": "number", "hour": "number", "x": "number"}
    days = typed(frame, kinds, MISSING, part)
    dated = with_dates(days, part)
    assert dated["day"].dtype == "datetime64[ns]"
    assert dated["day"].tolist()[0] == pd.Timestamp("1970-01-01")
    assert pd.isna(dated["day"].iloc[3])
    assert dated["hour"].tolist() == [0.25] * len(MOMENTS)  # a time of day is no date
    for drawn in (dated, dated.astype({"day": object}), days):
        again = typed(drawn, kinds, MISSING, {"day": part["day"]}, release=True)
        pd.testing.assert_frame_equal(again, days)
    # A year that nanoseconds do not have.
    far = with_dates(pd.DataFrame({"day": [2932896.0]}), part)["day"]
    assert str(far.iloc[0]) == "9999-12-31 00:00:00"
