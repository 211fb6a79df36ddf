"""Rows become points by what reference rows say, one by one or together."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proxyguard.errors import TableError, UnsupportedDesign
from proxyguard.exposure.representation import (
    FARTHEST,
    MOST_CATEGORIES,
    Representation,
    Rows,
)


def mixed(n: int, seed: int) -> pd.DataFrame:
    """Return a table as people have them."""
    rng = np.random.default_rng(seed)
    number = rng.normal(40.0, 10.0, n)
    number[rng.random(n) < 0.1] = np.nan
    job = rng.choice(np.array(["cook", "clerk", "driver", None], dtype=object), n)
    days = pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 900, n), unit="D")
    return pd.DataFrame(
        {
            "age": number,
            "job": pd.Series(job, dtype=object),
            "member": rng.random(n) < 0.5,
            "since": pd.Series(days.strftime("%Y-%m-%d").to_numpy(dtype=object), dtype=object),
            "country": pd.Series(["here"] * n, dtype=object),
            "one": np.ones(n),
        }
    )


def test_numbers_are_scaled_and_categories_are_coordinates() -> None:
    reference = pd.DataFrame({"a": [1.0, 3.0, np.nan, 2.0], "b": ["x", "y", "", "x"]})
    points = Representation.fit(reference).points(
        pd.DataFrame({"a": [np.nan, 3.0], "b": ["", "never seen"]})
    )
    a = (3.0 - 2.0) / np.std([1.0, 3.0, 2.0, 2.0])
    np.testing.assert_allclose(points, [[0.0, 1.0, 0.0], [a, 0.0, 0.0]])


def test_dates_are_days_and_keep_their_order() -> None:
    frame = mixed(100, 1)
    fitted = Representation.fit(frame, ["since"])
    assert fitted.dimension == 1
    order = np.argsort(fitted.points(frame)[:, 0], kind="stable")
    assert frame["since"].iloc[order].is_monotonic_increasing


@pytest.mark.parametrize("text", ["1600-01-01", "2300-05-05", "now", "today", "2021-03-04 05:06"])
def test_the_point_of_a_date_depends_on_no_other_row_and_on_no_clock(text: str) -> None:
    fitted = Representation.fit(pd.DataFrame({"when": ["2020-01-01", "2022-01-01", "2021-06-01"]}))
    alone = fitted.points(pd.DataFrame({"when": [text]}))
    # Nanoseconds in one row once made pandas read all rows in a unit that ends in 2262.
    for other in ("2024-01-01 00:00:00.123456789", "9999-12-31", "soon", ""):
        together = fitted.points(pd.DataFrame({"when": [text, other]}))
        np.testing.assert_array_equal(together[:1], alone)
    np.testing.assert_array_equal(fitted.points(pd.DataFrame({"when": [text]})), alone)


def test_a_date_that_is_none_is_filled_in_like_a_missing_one() -> None:
    frame = pd.DataFrame({"since": ["2020-01-01", "2020-01-03", "2020-01-09"]})
    fitted = Representation.fit(frame)
    points = fitted.points(pd.DataFrame({"since": ["2020-01-03", "", "2020-02-31"]}))
    assert points[0] == points[1] == points[2]


@pytest.mark.parametrize("components", [None, 1, 3, 10])
@given(st.integers(0, 2**32 - 1), st.integers(1, 7))
@settings(max_examples=20, deadline=None)
def test_a_point_is_the_same_alone_or_among_others(
    components: int | None, seed: int, size: int
) -> None:
    fitted = Representation.fit(mixed(60, 1), None, components)
    frame = mixed(40, 2)
    whole = fitted.points(frame)
    chosen = np.random.default_rng(seed).permutation(40)[:size]
    assert fitted.points(frame.iloc[chosen]).tobytes() == whole[chosen].tobytes()


def test_components_are_those_of_the_covariance() -> None:
    frame, rows = mixed(200, 3), mixed(30, 4)
    plain, fitted = Representation.fit(frame), Representation.fit(frame, None, 4)
    encoded = plain.points(frame)
    values, vectors = np.linalg.eigh(np.cov(encoded, rowvar=False))
    expected = (plain.points(rows) - encoded.mean(axis=0)) @ vectors[:, np.argsort(-values)[:4]]
    np.testing.assert_allclose(np.abs(fitted.points(rows)), np.abs(expected), atol=1e-9)


def test_there_are_no_more_components_than_rows_allow() -> None:
    assert Representation.fit(mixed(4, 5), None, 10).dimension == 3
    assert Representation.fit(mixed(50, 5), ["age", "one"], 10).dimension == 2


@pytest.mark.parametrize("far", [np.inf, -np.inf, 1e308, -1e300])
def test_no_number_is_infinite(far: float) -> None:
    fitted = Representation.fit(mixed(50, 6), ["age", "one"])
    points = fitted.points(pd.DataFrame({"age": [far], "one": [far]}))
    assert np.all(np.abs(points) == FARTHEST)


@pytest.mark.parametrize(
    "values", [[1e308, -1e308, 0.0], [np.inf, 1.0, 2.0], [np.nan] * 3, [5e-324, 0.0, 0.0]]
)
def test_a_reference_column_of_any_numbers_gives_finite_points(values: list[float]) -> None:
    frame = pd.DataFrame({"x": values, "y": [0.0, 1.0, 2.0]})
    assert np.isfinite(Representation.fit(frame).points(frame)).all()


def test_a_column_without_any_value_is_no_coordinate() -> None:
    frame = pd.DataFrame({"a": ["", None, ""], "b": [1.0, 2.0, 3.0]})
    assert Representation.fit(frame).dimension == 1
    with pytest.raises(UnsupportedDesign, match="no column"):
        Representation.fit(frame, ["a"])


def test_numbers_among_objects_are_numbers_and_text_in_their_place_is_refused() -> None:
    frame = pd.DataFrame({"a": pd.Series([1, None, 2.5], dtype=object)})
    fitted = Representation.fit(frame)
    assert len(fitted.numbers) == 1
    nothing = fitted.points(pd.DataFrame({"a": pd.Series([None, None], dtype=object)}))
    np.testing.assert_array_equal(nothing, fitted.points(pd.DataFrame({"a": [1.75, 1.75]})))
    with pytest.raises(TableError, match="holds numbers in the reference rows"):
        fitted.points(pd.DataFrame({"a": ["many"]}))


def test_a_missing_column_is_named() -> None:
    fitted = Representation.fit(mixed(20, 7))
    with pytest.raises(TableError, match="'job' is missing"):
        fitted.points(mixed(5, 8).drop(columns="job"))
    with pytest.raises(UnsupportedDesign, match="1 reference rows"):
        Representation.fit(mixed(1, 9))


def test_no_column_has_more_coordinates_than_can_be_told_apart() -> None:
    names = pd.Series([f"name {k % 300}" for k in range(900)] + ["frequent"] * 9, dtype=object)
    fitted = Representation.fit(pd.DataFrame({"name": names}))
    assert fitted.dimension == MOST_CATEGORIES
    assert fitted.texts[0].categories[0] == "frequent"
    rare = fitted.points(pd.DataFrame({"name": ["name 299"]}))
    assert not rare.any()  # as one that was never seen


def test_the_target_changes_nothing_that_was_learned() -> None:
    # A row far from all others would move a mean, a scale or an axis that it had a part in.
    fitted = Representation.fit(mixed(50, 10), None, 3)
    near = mixed(20, 11)
    far = pd.concat([near, near.assign(age=1e9, job="astronaut")], ignore_index=True)
    assert fitted.points(far)[:20].tobytes() == fitted.points(near).tobytes()


def test_rows_are_encoded_once() -> None:
    rows = Rows(mixed(20, 12), Representation.fit(mixed(20, 13)))
    assert rows.array is rows.array
    made: list[int] = []
    for _ in range(2):
        assert rows.keep("five", lambda: made.append(1) or 5, int) == 5
    assert len(made) == 1
