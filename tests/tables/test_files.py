"""Rows are set aside by position before anything in them is read, and nothing is guessed."""

from __future__ import annotations

import csv
import gzip
import io
import os
import tracemalloc
from datetime import date, time, timedelta
from decimal import Decimal
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxyguard.errors import TableError
from proxyguard.registry.target import ColumnPart, TableReading
from proxyguard.tables import files
from proxyguard.tables.columns import as_text, as_texts, kinds_of, typed
from proxyguard.tables.files import (
    RawTable,
    content_digest,
    read_table,
    read_table_bytes,
    table_bytes,
    text_is_recoded,
)

PLAIN = TableReading()
MISSING = ("", "NA")
# A vertical tab and U+2028 end a line for Python's text, and not for the bytes of a table.
CELLS = st.text('ab09.-é,;" \x0b\u2028', max_size=6).map(str.strip)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One folder for all examples of a property, each of which overwrites its file."""
    return tmp_path_factory.mktemp("tables")


def put(folder: Path, content: str | bytes, name: str = "table.csv") -> Path:
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def text_frame(**columns: list[str]) -> pd.DataFrame:
    return pd.DataFrame(columns, dtype=object)


@given(st.lists(st.tuples(CELLS, CELLS), min_size=1, max_size=6), st.data())
def test_rows_are_taken_by_position_with_every_value_as_it_was_written(
    folder: Path, rows: list[tuple[str, str]], data: st.DataObject
) -> None:
    sink = io.StringIO()
    csv.writer(sink, quoting=csv.QUOTE_ALL).writerows([("x", "y"), *rows])
    raw = RawTable(put(folder, sink.getvalue()), PLAIN)
    positions = data.draw(st.lists(st.integers(0, len(rows) - 1), max_size=6))
    taken = raw.take(np.array(positions, dtype=np.int64))
    assert len(raw) == len(rows)
    assert list(taken.columns) == ["x", "y"]
    assert [tuple(row) for row in taken.to_numpy().tolist()] == [rows[i] for i in positions]
    assert raw.column("y") == [y for _, y in rows]


def test_a_row_that_is_not_taken_is_not_parsed(tmp_path: Path) -> None:
    raw = RawTable(put(tmp_path, "x,y\n1,2\n\x01,4\n5,6\n"), PLAIN)
    assert raw.take(np.array([0, 2])).to_numpy().tolist() == [["1", "2"], ["5", "6"]]
    assert raw.column("y") == ["2", "4", "6"]


def test_text_that_is_no_utf8_is_windows_1252_the_whole_file(tmp_path: Path) -> None:
    words = "ort;größe\nMünchen;1\nOst • West;2 €\n"
    read = TableReading(separator=";")
    raw = RawTable(put(tmp_path, words.encode("cp1252")), read)
    plain = RawTable(put(tmp_path, words, "plain.csv"), read)
    assert raw.recoded
    assert not plain.recoded
    frames = [table.take(np.arange(2)) for table in (raw, plain)]
    pd.testing.assert_frame_equal(*frames)
    assert content_digest(frames[0]) == content_digest(frames[1])
    packed = put(tmp_path, gzip.compress(words.encode("cp1252")), "t.csv.gz")
    assert text_is_recoded(packed)
    assert RawTable(packed, read).column("ort") == ["München", "Ost • West"]
    # A byte that Windows-1252 does not have.
    with pytest.raises(TableError, match="neither UTF-8 nor Windows-1252 text; save the table as"):
        RawTable(put(tmp_path, b"x,y\n1,2\n\x81,4\n"), PLAIN)
    with pytest.raises(TableError, match="is UTF-16 text; save the table as UTF-8"):
        RawTable(put(tmp_path, words.encode("utf-16")), PLAIN)


@pytest.mark.parametrize("sign", [",", ";", "\t", "|"])
def test_a_release_is_read_by_the_separator_of_its_own_first_line(
    tmp_path: Path, sign: str
) -> None:
    path = put(tmp_path, f"a{sign}b\n1{sign}2\n")
    other = TableReading(separator=":")
    raw = RawTable(path, other, own_separator=True)
    assert (raw.columns, raw.separator) == (["a", "b"], sign)
    # Where the first line has none of them the declared one stands.
    assert RawTable(put(tmp_path, "a:b\n1:2\n"), other, own_separator=True).columns == ["a", "b"]


def test_lines_of_other_lengths_may_come_of_another_separator(tmp_path: Path) -> None:
    path = put(tmp_path, "a,b\n1;2,3\n")
    with pytest.raises(TableError, match=r"its first line has ',': write read = \{ sep"):
        RawTable(path, TableReading(separator=";"))
    with pytest.raises(TableError, match=r"mend the line.*separator says otherwise"):
        RawTable(put(tmp_path, "a,b\n1,2,3\n"), PLAIN)


def test_a_column_that_is_not_there_is_named_with_those_that_are(tmp_path: Path) -> None:
    raw = RawTable(put(tmp_path, "x,y\n1,2\n"), PLAIN)
    with pytest.raises(TableError, match=r"no column 'z'; it has \['x', 'y'\]"):
        raw.column("z")


def test_a_compressed_table_reads_like_the_plain_one(tmp_path: Path) -> None:
    content = b"x,y\n1,2\n3,4\n"
    plain = read_table(put(tmp_path, content), PLAIN)
    packed = read_table(put(tmp_path, gzip.compress(content), "table.csv.gz"), PLAIN)
    pd.testing.assert_frame_equal(packed, plain)


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_every_kind_of_line_ending_and_blank_lines_read_alike(tmp_path: Path, end: str) -> None:
    content = end.join(["", "x,y", "", "1,2", "   ", "3,4"])
    frame = read_table(put(tmp_path, content), PLAIN)
    assert frame.to_numpy().tolist() == [["1", "2"], ["3", "4"]]


def test_without_a_header_the_first_line_is_a_record(tmp_path: Path) -> None:
    reading = TableReading(header=False, columns=("x", "y"), separator=";")
    raw = RawTable(put(tmp_path, "1,5;2\n3;4\n"), reading)
    assert raw.columns == ["x", "y"]
    assert raw.take(np.arange(2)).to_numpy().tolist() == [["1,5", "2"], ["3", "4"]]


def test_a_table_of_a_header_alone_has_no_rows(tmp_path: Path) -> None:
    raw = RawTable(put(tmp_path, "x,y\n"), PLAIN)
    assert len(raw) == 0
    assert list(raw.take(np.arange(0)).columns) == ["x", "y"]
    assert raw.column("x") == []


def test_an_empty_file_has_no_header(tmp_path: Path) -> None:
    with pytest.raises(TableError, match=r"table\.csv is empty"):
        RawTable(put(tmp_path, "\n\n"), PLAIN)


def test_a_quoted_field_that_spans_lines_is_refused_with_its_line(tmp_path: Path) -> None:
    with pytest.raises(TableError, match="line 3 has a quoted field"):
        RawTable(put(tmp_path, 'x,y\n1,"a, ""b"""\n2,"a\nb"\n'), PLAIN)


def test_a_row_with_too_many_values_is_refused(tmp_path: Path) -> None:
    path = put(tmp_path, "x,y\n1,2\n3,4,5\n")
    with pytest.raises(TableError, match="line 3 has 3 values, and there are 2 columns"):
        read_table(path, PLAIN)


@pytest.mark.parametrize("header", ["x,x", 'x,"x"'])
def test_two_columns_of_one_name_are_refused(tmp_path: Path, header: str) -> None:
    with pytest.raises(TableError, match="two columns of one name"):
        RawTable(put(tmp_path, f"{header}\n1,2\n"), PLAIN)


def test_two_columns_of_one_name_in_parquet_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "table.parquet"
    pq.write_table(pa.table([pa.array([1]), pa.array([2])], names=["x", "x"]), path)
    with pytest.raises(TableError):
        RawTable(path, PLAIN)


@pytest.mark.parametrize("name", ["none.csv", "none.csv.gz", "none.parquet"])
def test_a_table_that_is_not_there_is_named(tmp_path: Path, name: str) -> None:
    with pytest.raises(TableError, match=f"no table at .*{name}"):
        RawTable(tmp_path / name, PLAIN)


def test_a_compressed_table_cut_short_anywhere_is_refused(tmp_path: Path) -> None:
    whole = gzip.compress(b"x,y\n" + b"1,2\n3,4\n" * 20)
    for size in range(len(whole)):
        with pytest.raises(TableError):
            read_table(put(tmp_path, whole[:size], "table.csv.gz"), PLAIN)


def test_a_parquet_file_cut_short_anywhere_is_refused(tmp_path: Path) -> None:
    whole = table_bytes(pd.DataFrame({"x": [1.0, 2.0], "y": ["a", "b"]}))
    assert len(read_table_bytes(whole, "whole")) == 2
    for size in range(0, len(whole), 5):
        path = put(tmp_path, whole[:size], "table.parquet")
        with pytest.raises(TableError, match=r"table\.parquet is no whole Parquet file"):
            RawTable(path, PLAIN)
        with pytest.raises(TableError, match="the source is no whole Parquet file"):
            read_table_bytes(whole[:size], "the source")


def test_parquet_keeps_its_types_and_gives_columns_as_text(tmp_path: Path) -> None:
    path = tmp_path / "table.parquet"
    columns = {
        "whole": pa.array([1, 2, None]),
        "real": pa.array([0.5, 2.0, None]),
        "word": pa.array(["a", None, "c"]),
        "yes": pa.array([True, False, True]),
    }
    pq.write_table(pa.table(columns), path)
    raw = RawTable(path, PLAIN)
    assert {name: raw.column(name) for name in raw.columns} == {
        "whole": ["1", "2", ""],
        "real": ["0.5", "2", ""],
        "word": ["a", "", "c"],
        "yes": ["True", "False", "True"],
    }
    frame = raw.take(np.array([1, 0]))
    assert [frame[name].dtype.kind for name in frame.columns] == ["i", "f", "O", "b"]
    assert frame.to_numpy().tolist() == [[2, 2.0, "", False], [1, 0.5, "a", True]]
    assert np.isnan(raw.take(np.array([2]))["whole"].to_numpy()).all()


@given(
    st.lists(
        st.tuples(
            st.floats(allow_subnormal=True), st.integers(-(2**63), 2**63 - 1), CELLS, st.booleans()
        ),
        max_size=6,
    )
)
def test_a_stored_frame_comes_back_equal_and_is_stored_as_the_same_bytes(
    rows: list[tuple[float, int, str, bool]],
) -> None:
    frame = pd.DataFrame(
        {
            "real": np.array([row[0] for row in rows], dtype=np.float64),
            "whole": np.array([row[1] for row in rows], dtype=np.int64),
            "word": pd.Series([row[2] for row in rows], dtype=object),
            "yes": np.array([row[3] for row in rows], dtype=bool),
        }
    )
    content = table_bytes(frame)
    again = read_table_bytes(content, "again")
    pd.testing.assert_frame_equal(again, frame, check_exact=True)
    assert table_bytes(again) == content
    assert table_bytes(frame.set_axis(range(7, 7 + len(rows)))) == content


def test_another_value_or_order_gives_other_bytes() -> None:
    frame = pd.DataFrame({"x": [1.0, 2.0], "y": ["a", "b"]})
    others = [frame.iloc[::-1], frame[["y", "x"]], frame.assign(x=[1.0, 3.0]), frame.iloc[:1]]
    assert table_bytes(frame) not in [table_bytes(other) for other in others]


@given(st.lists(st.floats(allow_nan=False), min_size=1, max_size=8))
def test_numbers_written_in_full_are_read_as_the_numbers_they_were(values: list[float]) -> None:
    frame = text_frame(x=[repr(value) for value in values])
    assert typed(frame, {"x": "number"}, MISSING)["x"].tolist() == values


@pytest.mark.parametrize("release", [False, True])
def test_missing_values_are_no_numbers_and_in_text_what_is_declared_of_it(release: bool) -> None:
    frame = text_frame(x=["1", "", "NA"], y=["a", "-", "NA"], country=["DE", "", "NA"])
    kinds, declared = {"x": "number", "y": "text", "country": "text"}, {
        "y": ColumnPart(missing=("-",)), "country": ColumnPart(kind="category")
    }  # fmt: skip
    found = typed(frame, kinds, MISSING, declared, release=release)
    np.testing.assert_array_equal(found["x"].to_numpy(), [1.0, np.nan, np.nan])
    assert found["y"].tolist() == ["a", "", "NA"]  # "NA" may be a country
    assert found["country"].tolist() == ["DE", "", "NA"]


def test_a_folded_text_for_a_gap_has_one_spelling() -> None:
    frame = text_frame(x=["NA", "na", " Na", "Yes", "yes ", "K.A."])
    declared = {"x": ColumnPart(fold_case=True, missing=("k.a.",))}
    found = typed(frame, {"x": "text"}, MISSING, declared)["x"].tolist()
    assert found == ["NA", "NA", "NA", "yes", "yes", ""]


@pytest.mark.parametrize("release", [False, True])
def test_texts_that_are_declared_the_same_are_one_value(release: bool) -> None:
    frame = text_frame(crp=["0,6", "<0,6", "-", "12,5"], y=["J ", "ja", "nej", "NA"])
    frame["count"] = [0.0, 1.0, 2.0, np.nan]
    declared = {
        "crp": ColumnPart(kind="number", decimal=",", missing=("-",), same={"<0,6": "0,3"}),
        "y": ColumnPart(fold_case=True, same={"j": "ja"}),
        "count": ColumnPart(same={"0": "0.5"}),
    }
    kinds = kinds_of(frame, MISSING, [], declared)
    assert kinds == {"crp": "number", "y": "text", "count": "number"}
    found = typed(frame, kinds, MISSING, declared, release=release)
    np.testing.assert_array_equal(found["crp"], [0.6, 0.3, np.nan, 12.5])
    assert found["y"].tolist() == ["ja", "ja", "nej", "NA"]
    np.testing.assert_array_equal(found["count"], [0.5, 1.0, 2.0, np.nan])
    # Without a kind what it holds is seen from what its texts are read as.
    alone = {"x": ColumnPart(same={"<5": "2.5"})}
    assert kinds_of(text_frame(x=["7", "<5"]), MISSING, [], alone) == {"x": "number"}


@pytest.mark.parametrize("wrong", ["five", "1,5", "0x10", "1_000", "NA ", "nan", "1 2", "True"])
def test_a_text_among_numbers_is_named_by_row_and_column(wrong: str) -> None:
    frame = text_frame(other=["a", "b", "c"], size=["1", "NA", wrong])
    with pytest.raises(TableError, match="column 'size' holds numbers, and row 3 has none") as no:
        typed(frame, {"other": "text", "size": "number"}, MISSING)
    assert repr(wrong) not in str(no.value)  # it may be a value of a record that nobody may see


def test_the_first_of_several_wrong_values_is_named() -> None:
    with pytest.raises(TableError, match="row 2 and 1 more have none"):
        typed(text_frame(x=["1", "a", "b"]), {"x": "number"}, MISSING)


def test_typing_keeps_the_declared_columns_in_their_order_and_misses_none() -> None:
    frame = text_frame(a=["1"], b=["2"], c=["3"])
    assert list(typed(frame, {"c": "number", "a": "text"}, MISSING).columns) == ["c", "a"]
    with pytest.raises(TableError, match=r"column 'd' is missing; the records have \['a', 'b'"):
        typed(frame, {"d": "number"}, MISSING)


def test_typed_columns_stay_as_they_are_and_become_floats_or_text() -> None:
    frame = pd.DataFrame({"n": [1, 2], "t": [1.0, 2.5], "b": [True, False]})
    found = typed(frame, {"n": "number", "t": "text", "b": "number"}, MISSING)
    assert found["n"].tolist() == [1.0, 2.0]
    assert found["n"].dtype == np.float64
    assert found["t"].tolist() == ["1", "2.5"]
    assert found["b"].tolist() == [1.0, 0.0]


@given(st.lists(st.floats(), min_size=1, max_size=6))
def test_doubles_and_the_same_numbers_in_objects_are_the_same_records(values: list[float]) -> None:
    kinds = {"b": "number", "word": "text", "a": "number"}
    doubles = pd.DataFrame({"a": values, "b": values[::-1], "word": "x"}, index=[7] * len(values))
    one_by_one = doubles.astype(object)
    records = typed(doubles, kinds, [])
    pd.testing.assert_frame_equal(records, typed(one_by_one, kinds, []))
    assert np.array_equal(records["a"].to_numpy().view("u8"), np.array(values).view("u8"))
    long = records.astype({"a": np.longdouble, "b": np.longdouble})
    assert files.content_digest(records) == files.content_digest(long)


def test_records_are_a_copy_and_none_without_columns() -> None:
    frame = pd.DataFrame({"a": [1.0, 2.0], "b": [3.0, 4.0]})
    records = typed(frame, {"a": "number"}, [])
    records.loc[0, "a"] = 9.0
    assert frame["a"].tolist() == [1.0, 2.0]
    assert typed(frame, {}, []).shape == (0, 0)


def test_a_column_holds_text_if_one_known_value_is_no_number_or_its_role_says_so() -> None:
    frame = text_frame(
        number=["1", "NA", "2e3"], word=["1", "", "x"], role=["1", "2", "3"], blank=["", "NA", ""]
    ).assign(real=[0.5, np.nan, 2.0])
    assert kinds_of(frame, MISSING, ["role"]) == {
        "number": "number",
        "word": "text",
        "role": "text",
        "blank": "number",
        "real": "number",
    }


@given(st.integers(-(2**53) + 1, 2**53 - 1))
def test_a_whole_number_reads_alike_whether_it_was_a_float_or_not(number: int) -> None:
    assert as_text(float(number)) == as_text(np.int64(number)) == as_text(number) == str(number)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, ""), (float("nan"), ""), (np.float64("nan"), ""), (True, "True"),
        (np.False_, "False"), (0.1, "0.1"), (2.0**53, "9007199254740992.0"), (-0.0, "0"),
        (float("inf"), "inf"), ("1.0", "1.0"),
    ],
)  # fmt: skip
def test_a_value_has_one_text(value: object, text: str) -> None:
    assert as_text(value) == text


def test_a_column_reads_as_text_value_by_value_whatever_holds_it() -> None:
    mixed = pd.Series([1, 1.0, True, "1", None, float("nan"), 2.5], dtype=object)
    assert as_texts(mixed).tolist() == ["1", "1", "True", "1", "", "", "2.5"]
    for dtype in (object, "category", "str"):
        column = pd.Series(["b", None, "a", "b"]).astype(dtype)
        assert as_texts(column).tolist() == ["b", "", "a", "b"]
        assert as_texts(column.dropna()).tolist() == ["b", "a", "b"]
    numbers = pd.Series([2.0, None, 2.5], dtype="category")
    assert as_texts(numbers).tolist() == ["2", "", "2.5"]


DAY = "2020-02-01"
REFUSED = {
    "complex": (pd.Series([1 + 2j, 2 + 0j]), "its real and its imaginary part"),
    "complex objects": (pd.Series([1, 2 + 1j], dtype=object), "its real and its imaginary part"),
    "Period": (pd.Series(pd.period_range(DAY, periods=2, freq="M")), r"\.dt\.to_timestamp"),
    "Interval": (pd.Series(pd.interval_range(0, 2)), "its two ends"),
    "Timedelta": (pd.Series(pd.to_timedelta([1, 2], "D")), "its seconds"),
    "Timedelta objects": (pd.Series([timedelta(1), None], dtype=object), "its seconds"),
    "bytes": (pd.Series([b"1", b"2"]), "decoding"),
    "list": (pd.Series([[1], [2]]), "numbers or text"),
}


@pytest.mark.parametrize("what", list(REFUSED))
@pytest.mark.parametrize("category", [False, True], ids=["values", "categories"])
def test_what_no_column_may_hold_is_refused_by_name_with_what_to_convert_it_to(
    what: str, category: bool
) -> None:
    values, remedy = REFUSED[what]
    if category and what not in ("list", "complex"):  # which are no categories
        values = values.astype("category")
    frame = pd.DataFrame({"when": values})
    match = f"column 'when' holds {what.split()[0]} values, .*convert it to .*{remedy}"
    with pytest.raises(TableError, match=match):
        kinds_of(frame, MISSING, [])
    with pytest.raises(TableError, match=match):
        kinds_of(frame, MISSING, ["when"])
    for kind in ("number", "text"):
        with pytest.raises(TableError, match=match):
            typed(frame, {"when": kind}, MISSING)
    with pytest.raises(TableError, match=match):
        table_bytes(frame)


@pytest.mark.parametrize(
    "dates",
    [
        pd.Series(pd.to_datetime([DAY, None])),
        pd.Series(pd.to_datetime([DAY, None])).dt.tz_localize("UTC"),
        pd.Series(pd.to_datetime([DAY, None])).astype("category"),
        pd.Series([date(2020, 2, 1), None], dtype=object),
        pd.Series([pd.Timestamp(DAY), None], dtype=object),
        pd.Series([time(20, 2), None], dtype=object),
    ],
    ids=["datetime", "zone", "category", "date", "objects", "time"],
)
def test_dates_and_times_are_text_and_no_numbers(dates: pd.Series) -> None:
    frame = pd.DataFrame({"when": dates})
    assert kinds_of(frame, MISSING, []) == {"when": "text"}
    written = typed(frame, {"when": "text"}, MISSING)["when"].tolist()
    assert (written[0][:2], written[1]) == ("20", "")
    with pytest.raises(TableError, match="column 'when' holds numbers, and row 1 has none"):
        typed(frame, {"when": "number"}, MISSING)


@pytest.mark.parametrize(
    "numbers",
    [
        pd.Series([1, None], dtype="Int64"), pd.Series([True, None], dtype="boolean"),
        pd.Series([1.0, None], dtype=np.longdouble), pd.Series([1.0, None], dtype=np.float16),
        pd.Series([1.0, None], dtype=pd.SparseDtype(float)), pd.Series([1, None], dtype="category"),
        pd.Series([Decimal(1), None], dtype=object), pd.Series(["1", pd.NA], dtype="string"),
    ],
    ids=lambda values: str(values.dtype),
)  # fmt: skip
def test_numbers_are_numbers_or_text_whatever_type_holds_them(numbers: pd.Series) -> None:
    frame = pd.DataFrame({"x": numbers})
    assert kinds_of(frame, MISSING, []) == {"x": "number"}
    np.testing.assert_array_equal(typed(frame, {"x": "number"}, MISSING)["x"], [1.0, np.nan])
    assert typed(frame, {"x": "text"}, MISSING)["x"].tolist()[1] == ""
    again = read_table_bytes(table_bytes(frame), "again")
    np.testing.assert_array_equal(typed(again, {"x": "number"}, MISSING)["x"], [1.0, np.nan])


@pytest.mark.parametrize(
    ("values", "kind"),
    [(pa.array([1, 2], pa.duration("s")), "Timedelta"), (pa.array([b"a", b"b"]), "bytes")],
    ids=["duration", "binary"],
)
def test_a_parquet_column_of_durations_or_bytes_is_refused_however_it_is_read(
    tmp_path: Path, values: pa.Array, kind: str
) -> None:
    path = tmp_path / "table.parquet"
    pq.write_table(pa.table({"x": [1, 2], "t": values}), path)
    raw = RawTable(path, PLAIN)
    for read in (lambda: raw.take(np.arange(2)), lambda: raw.column("t")):
        with pytest.raises(TableError, match=f"column 't' holds {kind} values"):
            read()
    assert raw.column("x") == ["1", "2"]


def test_records_with_two_columns_of_one_name_are_refused() -> None:
    frame = pd.DataFrame([[1.0, 2.0]], columns=["x", "x"])
    with pytest.raises(TableError, match="two columns of one name: 'x'"):
        typed(frame, {"x": "number"}, MISSING)


@pytest.mark.parametrize("name", ["table.csv", "table.csv.gz", "table.parquet"])
def test_a_pipe_or_a_folder_in_the_place_of_a_table_is_named_and_never_waited_for(
    tmp_path: Path, name: str
) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / name).mkdir()
    os.mkfifo(tmp_path / name)
    with pytest.raises(TableError, match=f"{name} is a FIFO, expected a file of at most"):
        RawTable(tmp_path / name, PLAIN)
    with pytest.raises(TableError, match=f"{name} is a folder, expected a table"):
        RawTable(tmp_path / "folder" / name, PLAIN)


@pytest.mark.parametrize("name", ["table.csv", "table.csv.gz", "table.parquet"])
def test_a_file_larger_than_a_table_may_be_is_refused_before_it_is_read(
    tmp_path: Path, name: str
) -> None:
    path = put(tmp_path, "x,y\n1,2\n", name)
    os.truncate(path, 40 * 2**30)  # sparse, it takes no room on the disk
    with pytest.raises(TableError, match=f"{name} has 42,949,672,960 bytes, expected at most"):
        RawTable(path, PLAIN)


def test_a_link_to_a_table_reads_like_the_table(tmp_path: Path) -> None:
    (tmp_path / "link.csv").symlink_to(put(tmp_path, "x,y\n1,2\n"))
    assert len(RawTable(tmp_path / "link.csv", PLAIN)) == 1


@pytest.mark.parametrize("end", [b"\n", b"\r", b"\r\n"])
@pytest.mark.parametrize("name", ["table.csv", "table.csv.gz"])
def test_lines_are_counted_before_they_are_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, end: bytes
) -> None:
    monkeypatch.setattr(files, "LINES", 100)
    monkeypatch.setattr(files, "BLOCK", 7)
    for lines, most in ((b"x,y" + end) + (b"1,2" + end) * 99, True), (b"x,y" + end * 101, False):
        content = gzip.compress(lines) if name.endswith(".gz") else lines
        path = put(tmp_path, content, name)
        if most:
            assert len(RawTable(path, PLAIN)) == 99
        else:
            with pytest.raises(TableError, match=f"{name} has 101 lines or more.*at most 100"):
                RawTable(path, PLAIN)


def test_a_small_compressed_file_of_endless_lines_stops_at_the_largest_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "LINES", 2**16)
    path = put(tmp_path, gzip.compress(b"x,y\n" + b"\n" * 2**25), "table.csv.gz")
    tracemalloc.start()
    try:
        with pytest.raises(TableError, match=r"table.csv.gz has .* lines or more"):
            RawTable(path, PLAIN)
        assert tracemalloc.get_traced_memory()[1] < 2**24
    finally:
        tracemalloc.stop()


def test_cells_of_a_text_table_have_the_limit_of_a_parquet_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "CELLS", 6)
    assert len(RawTable(put(tmp_path, "x,y\n" + "1,2\n" * 3), PLAIN)) == 3
    with pytest.raises(TableError, match=r"table.csv has 8 cells; a table here has at most 6"):
        RawTable(put(tmp_path, "x,y\n" + "1,2\n" * 4), PLAIN)


@pytest.mark.parametrize("line", [b'1,"' + b"x" * 200_000 + b'"', b'"' + b"y" * 200_000 + b'",1'])
def test_a_line_that_cannot_be_split_is_named_with_its_file(folder: Path, line: bytes) -> None:
    with pytest.raises(TableError, match=r"^table\.csv, line 2 is no "):
        RawTable(put(folder, b"x,y\n" + line + b"\n"), PLAIN)


def test_a_header_that_cannot_be_split_is_named_with_its_file(folder: Path) -> None:
    with pytest.raises(TableError, match=r"^table\.csv, line 1 is no "):
        RawTable(put(folder, b"x," + b"y" * 200_000 + b"\n1,2\n"), PLAIN)


def test_columns_are_counted_before_they_are_made(folder: Path) -> None:
    wide = ",".join(f"c{k}" for k in range(files.COLUMNS + 1))
    with pytest.raises(TableError, match=r"table\.csv has 16,385 columns"):
        RawTable(put(folder, f"{wide}\n"), PLAIN)
    sink = io.BytesIO()
    pq.write_table(pa.table({name: [1] for name in wide.split(",")}), sink)
    with pytest.raises(TableError, match=r"it has 16,385 columns"):
        read_table_bytes(sink.getvalue(), "it")


def test_no_file_makes_a_message_long(folder: Path) -> None:
    names = ["x"] * 10_000 + ["y" * 10_000]
    with pytest.raises(TableError, match="two columns of one name") as caught:
        RawTable(put(folder, ",".join(names)), PLAIN)
    assert len(str(caught.value)) < 2000
    with pytest.raises(TableError, match="has no column 'z'") as caught:
        RawTable(put(folder, ",".join([*map(str, range(9999)), "y" * 9999])), PLAIN).column("z")
    assert len(str(caught.value)) < 2000


@pytest.mark.parametrize(
    "values",
    [
        pa.array([2**31 - 1], pa.date32()),
        pa.array([1], pa.timestamp("us", tz="No/Where")),
        pa.array([b"\xff\xfe"], pa.binary()).view(pa.string()),
    ],
    ids=["a year beyond 9999", "a zone that there is not", "bytes that are no text"],
)
def test_a_value_that_cannot_be_read_is_a_fault_of_its_file(folder: Path, values: pa.Array) -> None:
    path = folder / "odd.parquet"
    pq.write_table(pa.table({"x": values}), path)
    with pytest.raises(TableError, match=r"^odd\.parquet holds a value that cannot be read"):
        read_table(path, PLAIN)
    with pytest.raises(TableError, match=r"^it holds a value that cannot be read"):
        read_table_bytes(path.read_bytes(), "it")


@pytest.mark.reduced(cases=1)
@pytest.mark.parametrize("kind", [pa.binary(2**20), pa.large_binary(), pa.binary()], ids=str)
def test_values_of_a_megabyte_that_a_file_has_once_are_not_made_for_every_row(
    kind: pa.DataType,
) -> None:
    rows = 4096  # 4 GiB of a file of some kilobytes
    sink = io.BytesIO()
    value = pa.array([b"x" * 2**20], kind)
    few = pa.table({"x": pa.DictionaryArray.from_arrays(pa.array([0] * 64, pa.int32()), value)})
    with pq.ParquetWriter(sink, pa.schema({"x": kind}), compression="zstd") as out:
        for _ in range(rows // 64):
            out.write_table(few.cast(pa.schema({"x": kind})))
    before = pa.default_memory_pool().max_memory()
    with pytest.raises(TableError, match=r"bytes"):
        read_table_bytes(sink.getvalue(), "it")
    assert pa.default_memory_pool().max_memory() - before < 2**28


@pytest.mark.parametrize("separator", ['"', "\n", "\r", "\0", "é", "\x1b"])
def test_a_separator_that_splits_otherwise_than_it_is_counted_is_refused(separator: str) -> None:
    with pytest.raises(ValueError, match="separator"):
        TableReading(separator=separator)


def test_a_name_that_no_file_can_have_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TableError, match="no name of a file"):
        read_table(tmp_path / "a\0b.csv", PLAIN)


@pytest.mark.parametrize(
    ("odd", "words"),
    [
        (Decimal("sNaN"), "column 'a' holds a signalling NaN"),
        (10**400, "column 'a' holds a number that no double holds, in row 1"),
        (-(10**5000), "column 'a' holds a number that no double holds, in row 1"),
        (Decimal("1e400"), "column 'a' holds a number that no double holds"),
        (Decimal("-1e999999"), "column 'a' holds a number that no double holds"),
        (np.longdouble("1e400"), "column 'a' holds a number that no double holds"),
    ],
    ids=["sNaN", "400 digits", "5000 digits", "decimal", "huge decimal", "long double"],
)
def test_numbers_that_nothing_can_be_computed_with_are_refused(odd: object, words: str) -> None:
    for values in ([odd, 1.5], [odd, "x"], [odd]):
        frame = pd.DataFrame({"a": pd.Series(values, dtype=object)})
        for kind in ("number", "text"):
            with pytest.raises(TableError, match=words):
                typed(frame, {"a": kind}, MISSING)
        with pytest.raises(TableError, match=words):
            kinds_of(frame, MISSING, [])


def test_a_column_of_long_doubles_is_no_column_of_infinities() -> None:
    frame = pd.DataFrame({"a": np.array(["1", "-1e400"], dtype=np.longdouble)})
    with pytest.raises(TableError, match="a number that no double holds, in row 2"):
        typed(frame, {"a": "number"}, MISSING)
    kept = pd.DataFrame({"a": np.array([1.5, np.inf, np.nan], dtype=np.longdouble)})
    assert typed(kept, {"a": "number"}, MISSING)["a"].tolist()[:2] == [1.5, np.inf]


@pytest.mark.parametrize("text", ["1e400", "-1e400", "9" * 400, "1" + "0" * 308 + "e9"])
def test_digits_beyond_every_double_are_no_number_and_never_infinite(text: str) -> None:
    frame = pd.DataFrame({"a": ["1.5", text]})
    assert kinds_of(frame, MISSING, []) == {"a": "text"}
    with pytest.raises(TableError, match="row 2 has none that can be read"):
        typed(frame, {"a": "number"}, MISSING)
    assert typed(frame, {"a": "text"}, MISSING)["a"].tolist() == ["1.5", text]
    for word in ("inf", "-Infinity"):  # says that it is infinite, which is judged elsewhere
        said = pd.DataFrame({"a": ["1.5", word]})
        assert kinds_of(said, MISSING, []) == {"a": "number"}
        assert np.isinf(typed(said, {"a": "number"}, MISSING)["a"].iloc[1])


def test_columns_that_no_one_name_leads_to_are_refused() -> None:
    levels = pd.MultiIndex.from_tuples([("a", "b"), ("a", "c")])
    for columns, words in [
        (levels, "names of 2 levels, such as"),
        (["a", "a"], "two columns of one name: 'a'"),
        (["1", 1], "two columns of one name: '1'"),
    ]:
        frame = pd.DataFrame([["x", 2.0]], columns=columns)
        with pytest.raises(TableError, match=words):
            kinds_of(frame, MISSING, [])
        with pytest.raises(TableError, match=words):
            typed(frame, {"a": "text"}, MISSING)
