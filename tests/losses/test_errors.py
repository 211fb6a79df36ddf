"""A value or a label that is not what was declared is an error that names its place."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import proxyguard as pg

ERROR = pg.Requirement(name="error", low=0, high=1, limit=0.2, two_valued=True)
COST = pg.Requirement(name="cost", low=-0.5, high=0.25, limit=0.1)
NAMES = ["seed1", "seed2", "seed3"]
N = 300

Make = Callable[..., pg.LossArray | pg.LossStream]


def good() -> NDArray[np.float64]:
    rng = np.random.default_rng(21)
    return np.stack(
        [(rng.random((3, N)) < 0.1).astype(float), rng.uniform(-0.5, 0.25, (3, N))], axis=2
    )


def as_array(values: NDArray[np.float64], **columns: Any) -> pg.LossArray:
    return pg.LossArray(values, pg.Records(**columns), releases=NAMES)


def as_stream(values: NDArray[np.float64], **columns: Any) -> pg.LossStream:
    def parts() -> Iterator[pg.LossArray]:
        for start in range(0, values.shape[1], 70):
            part = slice(start, start + 70)
            own = {name: column[part] for name, column in columns.items()}
            yield pg.LossArray(values[:, part], pg.Records(**own))

    return pg.LossStream(
        chunks=parts(),
        n_releases=values.shape[0],
        n_records=values.shape[1],
        n_requirements=values.shape[2],
        random_order=True,
        releases=NAMES,
    )


def certify(losses: Any, **choices: Any) -> pg.Certificate:
    choices = {"reliability_target": 0.8, "seed": 3} | choices
    return pg.certify(losses, [ERROR, COST], **choices)


both = pytest.mark.parametrize("make", [as_array, as_stream])


@both
@pytest.mark.parametrize("tests", [None, "randomized_binomial", "empirical_bernstein"])
@pytest.mark.parametrize("place", [(0, 0), (1, 69), (1, 70), (2, 211), (2, N - 1)], ids=str)
@pytest.mark.parametrize(
    ("j", "value", "promised"),
    [
        (0, 1.5, "[0, 1]"),
        (0, -1e-300, "[0, 1]"),
        (0, np.nan, "[0, 1]"),
        (0, 0.5, "one of 0 and 1"),
        (1, 0.25000000000000006, "[-0.5, 0.25]"),
        (1, -0.6, "[-0.5, 0.25]"),
        (1, np.nan, "[-0.5, 0.25]"),
        (1, np.inf, "[-0.5, 0.25]"),
        (1, -np.inf, "[-0.5, 0.25]"),
    ],
)
def test_a_value_that_was_not_promised_is_named(
    make: Make, tests: str | None, place: tuple[int, int], j: int, value: float, promised: str
) -> None:
    values, (release, record) = good(), place
    values[release, record, j] = value
    with pytest.raises(pg.LossOutOfBounds) as caught:
        certify(make(values), test=tests)
    error = caught.value
    name = ("error", "cost")[j]
    assert (error.requirement, error.release, error.record) == (name, NAMES[release], record)
    np.testing.assert_equal(error.value, value)
    assert promised in error.promised
    said = str(error)
    for fact in (name, f"release {NAMES[release]}", f"record {record}", promised):
        assert fact in said
    # A loss may tell the outcome of its record, so the message has not its value.
    assert ("no number" if np.isnan(value) else "another value") in said
    assert repr(value) not in said.replace(promised, "")
    assert isinstance(error, ValueError)


@both
def test_the_record_is_named_by_its_id_where_it_has_one(make: Make) -> None:
    values, ids = good(), np.array([f"patient-{i}" for i in range(N)])
    values[1, 250, 1] = 0.3
    with pytest.raises(pg.LossOutOfBounds, match="release seed2, record patient-250 ") as caught:
        certify(make(values, ids=ids))
    assert caught.value.record == "patient-250"


@both
def test_a_bound_itself_is_inside(make: Make) -> None:
    values = good()
    values[0, 0, 1], values[0, 1, 1] = -0.5, 0.25
    assert certify(make(values)).evidence.n_records == (N, N)


def test_float32_cannot_hide_a_value_beyond_its_bound() -> None:
    narrow = pg.Requirement(name="cost", low=0, high=0.1, limit=0.05)
    values = np.zeros((2, 5, 1), dtype=np.float32)
    values[1, 4] = 0.1  # 0.100000001490116 as a double
    with pytest.raises(pg.LossOutOfBounds, match=re.escape("[0, 0.1]")):
        pg.certify(values, [narrow], reliability_target=0.8)


def test_a_value_that_does_not_count_for_its_subgroup_may_be_missing() -> None:
    group = pg.Requirement(name="g", low=0, high=1, limit=0.2, group="g")
    values = np.full((2, 60, 1), 0.1)
    mask = np.arange(60) >= 10
    values[:, :10] = np.nan
    records = pg.Records(groups={"g": mask})
    assert pg.certify(
        values, [group], records=records, reliability_target=0.8
    ).evidence.n_records == (50,)
    values[1, 33] = np.nan
    with pytest.raises(pg.LossOutOfBounds, match="release 1, record 33 has no number, promised"):
        pg.certify(values, [group], records=records, reliability_target=0.8)


@both
def test_repeated_ids_are_refused_wherever_they_stand(make: Make) -> None:
    ids = np.arange(N)
    ids[290] = 17  # in another chunk
    with pytest.raises(pg.LossMismatch, match=r"17.*occurs 2 times"):
        certify(make(good(), ids=ids))
    for design in (pg.Independent(), pg.WithoutReplacement(pool=1000)):
        with pytest.raises(pg.LossMismatch, match="with_replacement"):
            certify(make(good(), ids=ids), design=design, test="hoeffding")
    legal = certify(make(good(), ids=ids), design=pg.Iid(with_replacement=True))
    assert legal.evidence.n_records == (N, N)


@pytest.mark.parametrize("column", ["ids", "strata", "clusters"])
def test_a_column_of_another_length_is_refused(column: str) -> None:
    labels = np.array(["a"] * (N - 1))
    design = {
        "ids": pg.Iid(),
        "strata": pg.Stratified(sizes={"a": N}, weights={"a": 1}),
        "clusters": pg.Clustered(),
    }[column]
    with pytest.raises(pg.LossMismatch, match=f"records.{column} has shape"):
        certify(as_array(good(), **{column: labels}), design=design, test="hoeffding")


@pytest.mark.parametrize(
    ("design", "column"),
    [
        (pg.Stratified(sizes={"a": N}, weights={"a": 1}), "strata"),
        (pg.Clustered(), "clusters"),
    ],
)
def test_a_design_without_its_labels_is_refused(design: Any, column: str) -> None:
    for losses in (as_array(good()), as_stream(good())):
        with pytest.raises(pg.LossMismatch, match=f"needs records.{column}"):
            certify(losses, design=design, test="hoeffding")


@both
def test_strata_sizes_other_than_registered_are_refused(make: Make) -> None:
    design = pg.Stratified(sizes={"a": 100, "b": 200}, weights={"a": "0.5", "b": "0.5"})
    right = np.random.default_rng(1).permutation(["a"] * 100 + ["b"] * 200)
    assert certify(make(good(), strata=right), design=design).evidence.n_records == (N, N)
    moved = np.array(["a"] * 101 + ["b"] * 199)
    with pytest.raises(pg.LossMismatch, match=r"'a': 100.*'a': 101"):
        certify(make(good(), strata=moved), design=design)
    strange = np.array(["a"] * 100 + ["b"] * 199 + ["c"])
    with pytest.raises(pg.LossMismatch, match="'c' is not registered"):
        certify(make(good(), strata=strange), design=design)
    more = pg.Stratified(sizes={"a": 100, "b": 201}, weights={"a": "0.5", "b": "0.5"})
    with pytest.raises(pg.LossMismatch, match="registered with 301 records"):
        certify(make(good(), strata=right), design=more)


@both
def test_a_cluster_beyond_the_registered_size_is_refused(make: Make) -> None:
    labels = np.repeat(np.arange(30), 10)
    whole = certify(
        make(good(), clusters=labels),
        design=pg.Clustered(weighting="record", max_size=10),
        test="bentkus",
    )
    assert whole.evidence.n_records == (30, 30)
    with pytest.raises(pg.LossMismatch, match="10 records, the registered max_size is 9"):
        certify(
            make(good(), clusters=labels),
            design=pg.Clustered(weighting="record", max_size=9),
            test="bentkus",
        )


def test_more_records_than_the_pool_are_refused() -> None:
    design = pg.WithoutReplacement(pool=N)
    assert certify(as_array(good()), design=design, test="hoeffding").evidence.n_records[0] == N
    with pytest.raises(pg.LossMismatch, match="cannot come from a pool of 299"):
        certify(as_array(good()), design=pg.WithoutReplacement(pool=N - 1), test="hoeffding")


def test_a_subgroup_that_the_records_do_not_have_is_refused() -> None:
    group = pg.Requirement(name="g", low=0, high=1, limit=0.2, group="women")
    values = np.zeros((2, 5, 1))
    for groups, said in (
        ({"men": np.ones(5, dtype=bool)}, r"'women'; records.groups has \['men'\]"),
        ({"women": np.ones(4, dtype=bool)}, "shape"),
        ({"women": np.ones(5)}, "must be booleans"),
    ):
        with pytest.raises(pg.LossMismatch, match=said):
            pg.certify(values, [group], records=pg.Records(groups=groups), reliability_target=0.8)


def test_a_subgroup_without_a_record_has_pvalue_one() -> None:
    group = pg.Requirement(name="g", low=-1, high=2, limit=0.2, group="g")
    for test in ("betting", "bentkus", "empirical_bernstein", "betting_fixed"):
        evidence = pg.certify(
            np.zeros((4, 50, 1)),
            [group],
            records=pg.Records(groups={"g": np.zeros(50, dtype=bool)}),
            reliability_target=0.8,
            test=test,
        ).evidence
        assert evidence.n_records == (0,)
        assert np.all(evidence.pvalues == 1.0)
        assert np.all(evidence.violation_pvalues == 1.0)
