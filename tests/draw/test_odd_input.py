"""Broken and odd files are refused with a clear error, or read as what they say."""

from __future__ import annotations

import gzip
import io
import json
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from proxyguard.adapters.library import best_temperature
from proxyguard.adapters.pipelines import make_estimator
from proxyguard.audit.folder import Store
from proxyguard.draw.protocol import Seed, outcomes, temper
from proxyguard.errors import ProxyGuardError, SealError, TableError
from proxyguard.models.stored import load_model, model_bytes
from proxyguard.registry.target import Outcome, TableReading
from proxyguard.seal.crypto import KeyFile, Recipient
from proxyguard.seal.fingerprint import canonical_value
from proxyguard.seal.sealed_file import SealedFile, seal_table
from proxyguard.seal.storage import FolderFiles
from proxyguard.tables.files import RawTable, read_table

HOLDER = KeyFile(bytes(range(32)))


def put(folder: Path, content: bytes, name: str = "table.csv") -> Path:
    path = folder / name
    path.write_bytes(content)
    return path


def test_an_outcome_that_is_a_number_can_be_read() -> None:
    found = outcomes(["-1", "2.5"], Outcome(column="y", range=("-1", "2.5")), "target")
    np.testing.assert_array_equal(found, [-1.0, 2.5])


NUMBER = Outcome(column="y", range=("-1", "2.5"))


def test_numbers_are_themselves_up_to_the_ends_of_their_range() -> None:
    found = outcomes(["-1", "2.5", "1e0", -1, 2.5, 0], NUMBER, "target")
    np.testing.assert_array_equal(found, [-1.0, 2.5, 1.0, -1.0, 2.5, 0.0])


@pytest.mark.parametrize("wrong", ["2.5000001", "-1.01", "nan", "inf", "", "two", None])
def test_a_number_outside_its_range_is_named_by_row(wrong: str | None) -> None:
    what = "not as declared, a number in the range -1 to 2.5" if wrong else "missing"
    with pytest.raises(TableError, match=f"row 2: 'y' is {what}"):
        outcomes(["0", wrong], NUMBER, "target")


def test_our_onehot_pipeline_can_be_loaded_again() -> None:
    x = pd.DataFrame({"a": [0.0, 1.0, 2.0, 3.0], "b": ["u", "v", "u", "v"]})
    model = make_estimator("onehot_logistic", {}, Seed(1)).fit(x, [0.0, 1.0, 0.0, 1.0])
    again = load_model(model_bytes(model), "model", ["scipy.sparse._csr.csr_matrix"])
    np.testing.assert_array_equal(again.predict_proba(x), model.predict_proba(x))


@pytest.mark.parametrize("content", [b"x,y\n1,2\n3\n", b"x,y,z\n1,2,3\n4,5\n"])
def test_a_row_with_too_few_values_is_refused(tmp_path: Path, content: bytes) -> None:
    path = put(tmp_path, content)
    with pytest.raises(TableError, match="values, and there are"):
        read_table(path, TableReading())


@pytest.mark.parametrize("rows", [b"1,2,9\n3,4,9\n", b"1,2,9\n3,4\n"])
@pytest.mark.filterwarnings("ignore")  # as in production, where a warning stops nothing
def test_a_first_row_with_too_many_values_is_refused(tmp_path: Path, rows: bytes) -> None:
    path = put(tmp_path, b"x,y\n" + rows)
    with pytest.raises(TableError):
        read_table(path, TableReading())


@pytest.mark.filterwarnings("ignore")
def test_fewer_names_than_values_are_refused(tmp_path: Path) -> None:
    path = put(tmp_path, b"1,2\n3,4\n")
    with pytest.raises(TableError):
        read_table(path, TableReading(header=False, columns=("x",)))


def test_reading_one_column_refuses_rows_of_another_length(tmp_path: Path) -> None:
    with pytest.raises(TableError, match="line 3 has 3 values"):
        RawTable(put(tmp_path, b"x,y\n1,2\n3,4,5\n"), TableReading()).column("y")


def test_a_compressed_table_with_a_changed_byte_is_refused_or_reads_alike(tmp_path: Path) -> None:
    content = b"x,y\n" + b"1,2\n3,4\n" * 20
    whole = gzip.compress(content)
    honest = read_table(put(tmp_path, whole, "t.csv.gz"), TableReading())
    for place in range(len(whole)):
        changed = bytearray(whole)
        changed[place] ^= 1
        try:
            found = read_table(put(tmp_path, bytes(changed), "t.csv.gz"), TableReading())
        except TableError:
            continue
        pd.testing.assert_frame_equal(found, honest)


def test_every_flipped_byte_of_a_sealed_file_is_noticed(tmp_path: Path) -> None:
    sealed = seal_table(pa.table({"x": ["1", "2", "3"]}), [HOLDER], rows=2)
    path = tmp_path / "target.sealed"
    unseen, other = [], []
    for place in range(len(sealed.content)):
        changed = bytearray(sealed.content)
        changed[place] ^= 1
        path.write_bytes(changed)
        try:
            file = SealedFile(path)
            key = file.unwrap(HOLDER)
            file.check(key, sealed.commitment)
            list(file.tables(key))
            unseen.append(place)
        except ProxyGuardError:
            pass
        except Exception as error:
            other.append((place, repr(error)))
    assert (unseen, other) == ([], [])


@pytest.mark.parametrize("content", [b"[]\n", b"3\n", b'{"format":1}\n'])
def test_a_header_that_is_no_header_of_ours_is_refused(tmp_path: Path, content: bytes) -> None:
    path = put(tmp_path, content, "target.sealed")
    with pytest.raises(SealError):
        SealedFile(path).unwrap(HOLDER)


def test_a_public_key_of_small_order_is_refused_by_name() -> None:
    with pytest.raises(SealError):
        Recipient("00" * 32).wrap(bytes(32))


def test_a_text_that_looks_like_a_huge_power_is_a_value_like_any_other() -> None:
    assert canonical_value("5e1234567") != canonical_value("6e1234567")


def test_long_whole_numbers_stay_two() -> None:
    assert canonical_value("1" * 30 + "2") != canonical_value("1" * 30 + "3")


def test_tempering_a_sure_prediction_does_not_warn() -> None:
    temper(np.array([0.0, 0.5, 1.0]), float(np.exp(-4.0)))


def test_calibrating_predictions_of_0_and_1_does_not_warn() -> None:
    best_temperature(np.array([0.0, 0.0, 1.0, 1.0]), np.array([0.0, 0.1, 0.9, 0.8]))


@pytest.mark.parametrize("value", [[], "x", {}, {"protocol": 2}])
def test_a_schema_that_is_no_schema_is_refused(value: object) -> None:
    sink = io.BytesIO()
    with zipfile.ZipFile(sink, "w") as out:
        out.writestr("schema.json", json.dumps(value))
    with pytest.raises(SealError):
        load_model(sink.getvalue(), "model")


def test_a_stored_model_with_any_byte_flipped_is_refused_or_loads() -> None:
    x = np.arange(8.0).reshape(4, 2)
    content = model_bytes(make_estimator("logistic", {}, Seed(1)).fit(x, [0.0, 1.0, 0.0, 1.0]))
    other = set()
    for place in range(0, len(content), 5):
        changed = bytearray(content)
        changed[place] ^= 1
        try:
            load_model(bytes(changed), "model")
        except SealError:
            pass
        except Exception as error:
            other.add(type(error).__name__)
    assert other == set()


def test_a_model_with_sparse_coefficients_can_be_stored() -> None:
    from sklearn.linear_model import LogisticRegression

    x = np.arange(8.0).reshape(4, 2)
    model = LogisticRegression().fit(x, [0.0, 1.0, 0.0, 1.0]).sparsify()
    again = load_model(model_bytes(model), "model", ["scipy.sparse._csr.csr_matrix"])
    np.testing.assert_array_equal(again.predict_proba(x), model.predict_proba(x))


def test_a_model_that_holds_bytes_can_be_stored() -> None:
    assert load_model(model_bytes({"a": b"xyz"}), "model") == {"a": b"xyz"}


def test_a_missing_time_of_a_parquet_table_is_missing_however_it_is_read(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"t": pa.array([0, None], type=pa.timestamp("s"))}), path)
    raw = RawTable(path, TableReading())
    assert raw.take(np.arange(2))["t"].tolist() == raw.column("t")


def test_a_line_number_is_that_of_the_file(tmp_path: Path) -> None:
    with pytest.raises(TableError, match="line 4 has a quoted field"):
        RawTable(put(tmp_path, b'x,y\n\n\n1,"a\nb"\n'), TableReading())


def test_trailing_blanks_do_not_belong_to_a_value(tmp_path: Path) -> None:
    frame = read_table(put(tmp_path, b"x , y\n 1 , a \n"), TableReading())
    assert (list(frame.columns), frame.to_numpy().tolist()) == (["x", "y"], [["1", "a"]])


def test_a_row_of_missing_values_alone_is_a_row(tmp_path: Path) -> None:
    path = put(tmp_path, b"x\ty\n1\t2\n\t\n3\t4\n")
    assert len(RawTable(path, TableReading(separator="\t"))) == 3


def test_what_a_killed_write_left_is_no_object(tmp_path: Path) -> None:
    store = Store(FolderFiles(tmp_path))
    address = store.put(b"a")
    store.path(address).with_name(address + ".part").write_bytes(b"half")
    assert store.addresses() == {address}
