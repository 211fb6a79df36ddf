"""Prepared tables hold the loaded values, as the same bytes each time, ready for an audit."""

from __future__ import annotations

import hashlib
import math
import os
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from proxyguard.errors import TableError
from proxyguard.registry.target import TableReading
from proxyguard.tables.columns import kinds_of, typed
from proxyguard.tables.files import RawTable
from reproduction.datasets import load
from reproduction.datasets.prepare import csv_bytes, prepare

DATA = os.environ.get("PROXYGUARD_DATA")
needs_data = pytest.mark.skipif(
    DATA is None or not (Path(DATA) / "online_shoppers").exists(),
    reason="PROXYGUARD_DATA does not name a folder with the data sets",
)


def as_an_audit_reads(path: Path) -> pd.DataFrame:
    raw = RawTable(path, TableReading())
    frame = raw.take(np.arange(len(raw)))
    missing = TableReading().missing
    return typed(frame, kinds_of(frame, missing, ()), missing)


@pytest.mark.reduced(cases=3)
@needs_data
@pytest.mark.parametrize("name", ["shoppers", "german", "heart", "adult", "taiwan", "newsgroups"])
def test_an_audit_reads_exactly_the_loaded_values(name: str, tmp_path: Path) -> None:
    tables = prepare(name, tmp_path)
    assert [one.path.stem for one in tables] == list(load.TABLES[name])
    for one in tables:
        frame = load.TABLES[name][one.path.stem]()
        pd.testing.assert_frame_equal(as_an_audit_reads(one.path), frame, check_exact=True)
        assert (one.rows, one.columns) == (len(frame), tuple(frame.columns))
        assert one.sha256 == hashlib.sha256(one.path.read_bytes()).hexdigest()


@needs_data
@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_the_same_data_give_the_same_bytes(form: str, tmp_path: Path) -> None:
    first, second = (prepare("german", tmp_path / where, form=form) for where in ("a", "b"))
    assert [one.sha256 for one in first] == [one.sha256 for one in second]
    assert first[0].path.suffix == f".{form}"


def test_numbers_are_written_shortest_and_come_back_the_same() -> None:
    values = [0.1, 1 / 3, 1e-300, 1e22, -2.5, 5e-324, math.pi, math.nan]
    frame = pd.DataFrame({"whole": [0.0, -3.0, 2.0**53, 7, 7, 7, 7, 7], "part": values})
    frame["text"] = pd.Series(["x y", "?", "", "é", "a", "b", "c", "d"], dtype=object)
    header, *rows = csv_bytes(frame).decode().splitlines()
    assert header == "whole,part,text"
    fields = [row.split(",") for row in rows]
    assert [row[0] for row in fields[:3]] == ["0", "-3", "9007199254740992"]
    assert [float(row[1]) for row in fields[:-1]] == values[:-1]
    assert fields[0] == ["0", "0.1", "x y"]
    assert fields[-1][1] == ""
    assert b"\r" not in csv_bytes(frame)


@pytest.mark.parametrize("bad", ["a,b", 'a"b', "a\nb"])
def test_text_that_a_line_cannot_hold_is_an_error_and_not_a_broken_table(bad: str) -> None:
    frame = pd.DataFrame({"text": pd.Series([bad], dtype=object)})
    with pytest.raises(TableError, match="write it as Parquet"):
        csv_bytes(frame)


def test_a_file_is_given_only_where_one_is_needed(tmp_path: Path) -> None:
    with pytest.raises(TableError, match="has files of its own, verified by digest"):
        prepare("magic", tmp_path, file=tmp_path / "mine")
    with pytest.raises(TableError, match="tables are written as"):
        prepare("magic", tmp_path, form="xlsx")
    with pytest.raises(TableError, match=r"compas: .*mine could not be read"):
        prepare("compas", tmp_path, file=tmp_path / "mine")
    assert list(tmp_path.iterdir()) == []
