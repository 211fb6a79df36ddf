"""Every form of losses means one thing, and gives the certificate of the plain array."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.feather as feather
import pytest

import proxyguard as pg
from proxyguard.losses.given import check_bounds, read_loss_file
from proxyguard.losses.read import LossArray, as_losses
from proxyguard.registry.parts import RequirementPart

R, N = 6, 40
LOSSES = (np.random.default_rng(1).random((R, N, 2)) < 0.05).astype(float)
ONE = LOSSES[:, :, :1]
ERROR = pg.Requirement(name="error", low=0, high=1, limit=0.3)
BRIER = pg.Requirement(name="brier", low=0, high=1, limit=0.4)
NAMES = [f"seed {r}" for r in range(R)]


class Foreign:
    """A DataFrame of another library, which gives itself by Arrow's interchange alone."""

    def __init__(self, frame: pd.DataFrame) -> None:
        self._table = pa.Table.from_pandas(frame, preserve_index=False)
        self.columns = list(frame.columns)

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return self._table.__arrow_c_stream__(requested_schema)


def long(losses: np.ndarray = LOSSES, names: tuple[str, ...] = ("error", "brier")) -> pd.DataFrame:
    keys = pd.MultiIndex.from_product([NAMES, range(N)], names=["release", "record"])
    frame = pd.DataFrame(losses.reshape(R * N, -1), index=keys, columns=list(names))
    return frame.reset_index()


def wide() -> pd.DataFrame:
    return pd.DataFrame(ONE[:, :, 0].T, columns=NAMES)


def polars(frame: pd.DataFrame) -> Any:
    return pytest.importorskip("polars").from_arrow(pa.Table.from_pandas(frame))


def as_npy(frame: Path) -> Path:
    np.save(frame / "losses.npy", ONE[:, :, 0])
    return frame / "losses.npy"


def as_npz(folder: Path) -> Path:
    names = {"releases": NAMES, "requirements": ["error"]}
    np.savez(folder / "losses.npz", losses=ONE, **names)  # type: ignore[arg-type]
    return folder / "losses.npz"


def as_csv(folder: Path) -> str:
    wide().to_csv(folder / "losses.csv", index=False)
    return str(folder / "losses.csv")


def as_feather(folder: Path) -> Path:
    feather.write_feather(long()[["release", "record", "error"]], folder / "losses.feather")
    return folder / "losses.feather"


FORMS = {
    "2-D": lambda _: ONE[:, :, 0],
    "lists": lambda _: ONE[:, :, 0].tolist(),
    "long": lambda _: long()[["release", "record", "error"]],
    "shuffled": lambda _: long()[["error", "record", "release"]],
    "wide": lambda _: wide(),
    "wide with records": lambda _: wide().assign(record=range(N)),
    "another library, long": lambda _: Foreign(long()[["release", "record", "error"]]),
    "another library, wide": lambda _: Foreign(wide()),
    "polars": lambda _: polars(wide()),
    "Arrow": lambda _: pa.Table.from_pandas(wide(), preserve_index=False),
    "npy": as_npy,
    "npz": as_npz,
    "csv": as_csv,
    "feather": as_feather,
}


@pytest.mark.parametrize("form", FORMS)
def test_a_form_gives_the_certificate_of_the_plain_array(form: str, tmp_path: Path) -> None:
    expected = pg.certify(ONE, [ERROR], reliability_target=0.1, seed=3)
    given = pg.certify(FORMS[form](tmp_path), [ERROR], reliability_target=0.1, seed=3)
    assert given.decision is expected.decision
    assert given.reliability_lower == expected.reliability_lower
    named = pg.certify_releases({"m": pg.NamedReleases(FORMS[form](tmp_path), [ERROR])}, seed=3)
    assert len(named.validated) == len(
        pg.certify_releases({"m": pg.NamedReleases(ONE, [ERROR])}, seed=3).validated
    )


def test_requirements_of_a_long_table_are_found_by_name_in_whatever_order() -> None:
    expected = pg.certify(LOSSES, [ERROR, BRIER], reliability_target=0.1, seed=3)
    for columns in (["error", "brier"], ["brier", "error"]):
        frame = long()[["release", "record", *columns]].sample(frac=1.0, random_state=1)
        frame = frame.sort_values(["release", "record"], kind="stable")
        given = pg.certify(frame, [ERROR, BRIER], reliability_target=0.1, seed=3)
        assert given.reliability_lower == expected.reliability_lower


def test_a_two_axis_array_is_one_requirement_also_in_a_loss_array() -> None:
    assert pg.LossArray(ONE[:, :, 0]).shape == (R, N, 1)


@pytest.mark.parametrize(
    ("losses", "requirements", "words"),
    [
        (LOSSES[:, :, 0], 2, r"shape \(6, 40\), .* of one requirement; expected for 2"),
        (LOSSES[0, :, 0], 1, r"\(releases, records\) of one requirement; found is \(40,\)"),
        (LOSSES[None], 1, r"found is \(1, 6, 40, 2\)"),
        (wide(), 2, "for 2 requirements; expected is a long table"),
        (wide().assign(release="a"), 1, "expected is a long table"),
        (wide().rename(columns={"seed 0": "error"}), 1, "expected is a long table"),
        (wide().assign(ward="A"), 1, r"columns \['ward'\] hold no numbers"),
        (wide()[[]], 1, "no column of losses"),
        (long().iloc[1:], 2, "239 rows, expected one for each of 6 releases and 40 records"),
        (pd.concat([long().iloc[1:], long().iloc[-1:]]), 2, "two rows for one release and record"),
        (long(), 1, r"about \['error', 'brier'\], declared are \['error'\]"),
        ("nowhere.npy", 1, "no losses at nowhere.npy"),
    ],
)
def test_what_could_mean_two_things_is_refused_with_what_is_expected(
    losses: Any, requirements: int, words: str
) -> None:
    with pytest.raises(pg.ProxyGuardError, match=words):
        pg.certify(losses, [ERROR, BRIER][:requirements], reliability_target=0.1)


def test_a_table_has_names_that_an_array_would_lose() -> None:
    for table in (wide(), Foreign(wide())):
        with pytest.raises(pg.LossMismatch, match="give it to certify as it is"):
            pg.LossArray(table)  # type: ignore[arg-type]


def test_objects_in_a_file_are_never_loaded(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.array([{}], dtype=object), allow_pickle=True)
    with pytest.raises(pg.LossMismatch, match="holds no plain arrays"):
        pg.certify(tmp_path / "x.npy", [ERROR], reliability_target=0.1)  # type: ignore[call-overload]


def test_records_may_be_columns_of_any_library() -> None:
    ids = pa.chunked_array([[f"r{k}" for k in range(N)]])
    given = pg.certify(ONE, [ERROR], records=pg.Records(ids=ids), reliability_target=0.1, seed=3)
    plain = pg.certify(ONE, [ERROR], reliability_target=0.1, seed=3)
    assert given.reliability_lower == plain.reliability_lower
    with pytest.raises(pg.LossMismatch, match="ids"):
        pg.certify(ONE, [ERROR], records=pg.Records(ids=ids[1:]), reliability_target=0.1)


@pytest.mark.parametrize("form", ["npy", "npz", "csv", "feather"])
def test_a_file_of_an_audit_has_the_same_forms(form: str, tmp_path: Path) -> None:
    given = read_loss_file(Path(FORMS[form](tmp_path)), None, ["error"])
    np.testing.assert_array_equal(given.values, ONE)
    assert given.requirements == ("error",)
    assert given.releases == (tuple(map(str, range(R))) if form == "npy" else tuple(NAMES))


def test_labels_of_records_come_with_a_table_and_not_with_an_array(tmp_path: Path) -> None:
    labelled = wide().assign(ward=[f"w{k % 3}" for k in range(N)])
    labelled.to_csv(tmp_path / "wide.csv", index=False)
    frame = long().assign(ward=[f"w{k % 3}" for k in range(N)] * R)
    frame.to_parquet(tmp_path / "long.parquet", index=False)
    for name, names in (("wide.csv", ["error"]), ("long.parquet", ["error", "brier"])):
        given = read_loss_file(tmp_path / name, "ward", names)
        assert given.labels == [f"w{k % 3}" for k in range(N)]
    with pytest.raises(pg.TableError, match="write an npz file with both"):
        read_loss_file(as_npy(tmp_path), "ward", ["error"])


@pytest.mark.parametrize(
    ("column", "first", "same"), [("ward", "w1", " w1"), ("persons", "2.5", "2.50")]
)
def test_a_record_has_one_label_whatever_the_release(
    tmp_path: Path, column: str, first: str, same: str
) -> None:
    frame = long().assign(**{column: first})
    frame.loc[3 * N + 7, column] = same
    frame.to_csv(tmp_path / "long.csv", index=False)
    assert len(read_loss_file(tmp_path / "long.csv", column, ["error", "brier"]).labels or ()) == N
    frame.loc[3 * N + 7, column] = "7.75"
    frame.to_csv(tmp_path / "long.csv", index=False)
    with pytest.raises(pg.TableError, match=rf"long.csv, row {3 * N + 8}: '{column}' is an") as no:
        read_loss_file(tmp_path / "long.csv", column, ["error", "brier"])
    assert "7.75" not in str(no.value)


@pytest.mark.parametrize("form", ["wide", "long"])
def test_a_blank_cell_is_a_missing_loss_and_another_text_is_named_by_its_place(
    tmp_path: Path, form: str
) -> None:
    frame = (wide() if form == "wide" else long(ONE, ("error",))).astype(object)
    row, column = (5, "seed 2") if form == "wide" else (2 * N + 5, "error")
    frame.loc[row, column] = None
    frame.to_csv(tmp_path / "losses.csv", index=False)
    given = read_loss_file(tmp_path / "losses.csv", None, ["error"])
    assert np.argwhere(np.isnan(given.values)).tolist() == [[2, 5, 0]]
    part = RequirementPart(name="error", loss="brier", form="absolute", limit="0.3")
    with pytest.raises(
        pg.TableError, match=r'2, record 5 .* no number.*missing_outcomes = "worst"'
    ):
        check_bounds(given, [part])
    check_bounds(given, [part], gaps=True)
    asked: Any = {"reliability_target": 0.1, "seed": 3}
    worst = pg.Requirement(name="error", low=0, high=1, limit=0.3, missing="worst")
    path: Any = tmp_path / "losses.csv"
    assert pg.certify(path, [worst], **asked).evidence.columns[0].missing.tolist()[2] == 1
    with pytest.raises(pg.LossOutOfBounds, match='declare missing="worst"'):
        pg.certify(path, [ERROR], **asked)
    frame.loc[row, column] = "0,25"
    frame.to_csv(tmp_path / "losses.csv", index=False)
    with pytest.raises(pg.LossMismatch, match=f"column '{column}', row {row + 1} is no num") as no:
        pg.certify(path, [ERROR], **asked)
    assert "0,25" not in str(no.value)


def test_labels_beside_a_table_are_matched_by_id_whatever_the_order_of_its_rows() -> None:
    ids, order = [f"P{i}" for i in range(N)], np.random.default_rng(5).permutation(N)
    weights = np.where(np.arange(N) < 10, 6.0, 0.5)
    frame = long(ONE, ("error",)).assign(record=lambda table: [ids[i] for i in table["record"]])
    moved = pg.Records(ids=[ids[i] for i in order], weights=weights[order])
    for rows in (frame, frame.sample(frac=1, random_state=1)):
        for records, values in (
            (pg.Records(ids=ids, weights=weights), ONE),
            (moved, ONE[:, order]),
        ):
            same = as_losses(rows, records, ["error"])
            assert isinstance(same, LossArray)
            assert same.releases is not None
            first = [same.releases.index(name) for name in NAMES]
            np.testing.assert_array_equal(same.values[first], values)


@pytest.mark.parametrize(
    ("known", "words"),
    [
        ({"ids": [f"no {i}" for i in range(N)]}, f"{N} of records.ids have no losses"),
        ({"ids": range(N - 1)}, "1 of the losses are not in records.ids"),
        ({}, "records has no ids"),
    ],
)
def test_labels_of_other_records_are_refused(known: dict[str, Any], words: str) -> None:
    records = pg.Records(strata=["a"] * len(known.get("ids", range(N))), **known)
    with pytest.raises(pg.LossMismatch, match=words):
        as_losses(long(ONE, ("error",)), records, ["error"])


def test_records_without_labels_need_no_ids() -> None:
    same = as_losses(long(ONE, ("error",)), pg.Records(random_order=True), ["error"])
    assert isinstance(same, LossArray)
    np.testing.assert_array_equal(same.values, ONE)
