"""Queries of tables: cells by value, means within their range, each column read once."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from proxyguard.errors import TableError
from proxyguard.losses import query
from proxyguard.losses.query import BoundedQuery, CodedRecords


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


def test_a_column_that_is_not_there_and_a_release_without_records_are_errors() -> None:
    with pytest.raises(TableError, match=r"'age' is missing; the records have \['site'"):
        BoundedQuery("share", 0.0, 1.0, cell=(("age", "1"),)).values(CodedRecords(frame()))
    with pytest.raises(TableError, match="the release has no record"):
        BoundedQuery("share", 0.0, 1.0, cell=(("site", "a"),)).answer(CodedRecords(frame()[:0]))


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
