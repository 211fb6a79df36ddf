"""Outcomes are the declared ones or an error that names the row, and predictions follow them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxyguard.draw.protocol import Fitted, features, negative_label, outcomes, predict, temper
from proxyguard.errors import TableError
from proxyguard.registry.target import Outcome

BINARY = Outcome(column="y", positive="yes")
CLASSES = Outcome(column="y", classes=("low", "2", "high"))
NUMBER = Outcome(column="y", range=("-1", "2.5"))


class Fixed:
    """An estimator that answers what it was given."""

    def __init__(self, answer: Any, classes: Any = (0.0, 1.0)) -> None:
        self._answer, self.classes_ = np.asarray(answer), np.asarray(classes)

    def predict_proba(self, x: Any) -> Any:
        return self._answer

    def predict(self, x: Any) -> Any:
        return self._answer


@pytest.mark.parametrize(
    ("values", "positive"),
    [
        (["yes", "no", " yes "], "yes"),
        (["1", "0", "1.0"], "1"),
        ([1.0, 0.0, 1.0], "1"),
        ([1, 0, 1], 1),
        ([True, False, True], True),
        (["1", "0", " 1e0"], 1),
    ],
)
def test_the_positive_value_is_1_however_it_is_written(
    values: list[Any], positive: str | int | bool
) -> None:
    outcome = Outcome(column="y", positive=positive)
    np.testing.assert_array_equal(outcomes(values, outcome, "target"), [1.0, 0.0, 1.0])
    np.testing.assert_array_equal(
        outcomes(pd.Series(values, index=[5, 6, 7]), outcome, "target"), [1.0, 0.0, 1.0]
    )


def test_an_empty_binary_outcome_is_named_by_place_and_row() -> None:
    for nothing in ("", None, float("nan"), "  "):
        with pytest.raises(
            TableError,
            match="target, row 2: 'y' is missing; give it one, or write missing_outcomes",
        ):
            outcomes(["yes", nothing, "no"], BINARY, "target")


@pytest.mark.parametrize("values", [["yes", "no", "maybe"], ["no", "maybe"]])
def test_a_binary_outcome_has_the_positive_value_and_one_other(values: list[str]) -> None:
    with pytest.raises(
        TableError, match=r"development: 'y' .*and one other; found [23] values: \"maybe\", \"no\""
    ):
        outcomes(values, BINARY, "development")


@pytest.mark.parametrize(
    ("values", "outcome"), [(["yes", "no", "zqx"], BINARY), (["low", "zqx"], CLASSES)]
)
def test_no_value_of_a_target_is_repeated(values: list[str], outcome: Outcome) -> None:
    with pytest.raises(TableError) as shown:
        outcomes(values, outcome, "development")
    assert "zqx" in str(shown.value)
    with pytest.raises(TableError) as hidden:
        outcomes(values, outcome, "target", secret=True)
    assert "zqx" not in str(hidden.value)


def test_a_binary_outcome_may_have_one_value_alone() -> None:
    np.testing.assert_array_equal(outcomes(["no", "no"], BINARY, "target"), [0.0, 0.0])
    np.testing.assert_array_equal(outcomes(["yes"], BINARY, "target"), [1.0])


def test_classes_are_numbered_as_declared() -> None:
    found = outcomes(["high", "2.0", "low", "2"], CLASSES, "target")
    np.testing.assert_array_equal(found, [2.0, 1.0, 0.0, 1.0])


@pytest.mark.parametrize("wrong", ["other", "", None, "LOW", "3"])
def test_a_class_that_was_not_declared_is_named_by_row(wrong: str | None) -> None:
    what = "not as declared, one of the classes" if wrong else "missing"
    with pytest.raises(TableError, match=f"target, row 3: 'y' is {what}"):
        outcomes(["low", "high", wrong], CLASSES, "target")


def test_a_number_outside_its_range_is_named_by_row_or_clipped_where_declared() -> None:
    outcome = Outcome(column="y", range=("0", "10"))
    with pytest.raises(TableError, match=r"target, row 2: 'y' is not as.*clip") as caught:
        outcomes(["3", "12.5"], outcome, "target", secret=True)
    assert "12.5" not in str(caught.value)
    clipped = outcome.model_copy(update={"clip": True})
    assert outcomes(["3", "12.5", "-1"], clipped, "target").tolist() == [3.0, 10.0, 0.0]
    for text in ("", "much", "nan", "inf"):  # nothing that is no number has a nearer end
        with pytest.raises(TableError, match="row 2"):
            outcomes(["3", text], clipped, "target")


def test_a_missing_outcome_is_nan_where_it_may_be() -> None:
    outcome = Outcome(column="y", positive="yes", missing=("?",))
    found = outcomes(["yes", "?", "no", ""], outcome, "target", secret=True)
    np.testing.assert_array_equal(found, [1.0, np.nan, 0.0, np.nan])
    with pytest.raises(TableError, match="row 4"):
        outcomes(["yes", "?", "yes", ""], outcome, "the release")
    # A label that was not declared is no missing one.
    ring = Outcome(column="y", classes=("a", "b"), missing=("?",))
    with pytest.raises(TableError, match="row 2"):
        outcomes(["?", "c"], ring, "target", secret=True)


def test_no_outcomes_are_an_empty_array() -> None:
    for outcome in (BINARY, CLASSES):
        assert outcomes([], outcome, "target").shape == (0,)


def test_the_negative_label_is_the_other_one_of_two() -> None:
    assert negative_label(["yes", "no", "no "], BINARY) == "no"
    assert negative_label([1.0, 0.0], Outcome(column="y", positive=1)) == "0"
    assert negative_label(["yes", "yes"], BINARY) is None
    assert negative_label(["yes", "no", "maybe"], BINARY) is None


def test_features_of_numbers_are_an_array_in_the_declared_order() -> None:
    frame = pd.DataFrame({"a": [1, 2], "b": [0.5, np.nan], "c": [True, False], "y": ["x", "z"]})
    found = features(frame, ["c", "b", "a"])
    assert isinstance(found, np.ndarray)
    assert found.dtype == np.float64
    np.testing.assert_array_equal(found, [[1.0, 0.5, 1.0], [0.0, np.nan, 2.0]])


def test_features_with_a_text_among_them_stay_a_frame() -> None:
    frame = pd.DataFrame({"a": [1, 2], "t": pd.Series(["u", "v"], dtype=object)})
    found = features(frame, ["t", "a"])
    assert list(found.columns) == ["t", "a"]
    assert found["t"].tolist() == ["u", "v"]


def test_missing_feature_columns_are_all_named() -> None:
    with pytest.raises(TableError, match=r"columns \['b', 'c'\] are missing; found \['a'\]"):
        features(pd.DataFrame({"a": [1]}), ["b", "a", "c"])


@pytest.mark.parametrize(("classes", "column"), [((0.0, 1.0), 1), ((1.0, 0.0), 0)])
def test_a_binary_prediction_is_the_probability_of_the_class_1(
    classes: tuple[float, ...], column: int
) -> None:
    answer = np.array([[0.1, 0.9], [0.5, 0.5]])
    fitted = Fitted(estimator=Fixed(answer, classes), selected="fixed")
    np.testing.assert_array_equal(predict(fitted, np.zeros((2, 1)), BINARY), answer[:, column])


def test_a_temperature_changes_a_binary_prediction() -> None:
    answer = np.array([[0.2, 0.8], [0.5, 0.5]])
    fitted = Fitted(estimator=Fixed(answer), selected="fixed", temperature=2.0)
    # logit(0.8) = ln 4, half of it is ln 2, and 1 / (1 + 1/2) = 2/3.
    np.testing.assert_allclose(predict(fitted, np.zeros((2, 1)), BINARY), [2 / 3, 0.5], rtol=1e-15)


def test_a_class_that_a_release_never_had_is_predicted_with_probability_0() -> None:
    fitted = Fitted(estimator=Fixed([[0.25, 0.75]], (0.0, 2.0)), selected="fixed")
    np.testing.assert_array_equal(predict(fitted, np.zeros((1, 1)), CLASSES), [[0.25, 0.0, 0.75]])


def test_a_predicted_number_is_held_to_the_declared_range() -> None:
    fitted = Fitted(estimator=Fixed([-7.0, -1.0, 0.3, 2.6], ()), selected="fixed")
    np.testing.assert_array_equal(predict(fitted, np.zeros((4, 1)), NUMBER), [-1.0, -1.0, 0.3, 2.5])


@given(st.floats(0.001, 0.999), st.floats(0.05, 20.0))
def test_tempering_divides_the_logit_and_can_be_undone(p: float, temperature: float) -> None:
    one = np.array([p])
    tempered = temper(one, temperature)
    assert 0.0 <= tempered[0] <= 1.0
    assert (tempered[0] - 0.5) * (p - 0.5) >= 0.0  # no decision at one half changes
    if 1e-9 < tempered[0] < 1.0 - 1e-9:  # else digits are lost on the way
        logit = np.log(tempered[0]) - np.log1p(-tempered[0])
        assert logit * temperature == pytest.approx(np.log(p) - np.log1p(-p), abs=1e-5)


def test_tempering_at_1_changes_nothing_and_the_ends_stay_inside() -> None:
    p = np.array([0.0, 0.25, 0.5, 1.0])
    found = temper(p, 1.0)
    np.testing.assert_allclose(found, p, rtol=1e-12, atol=2e-12)
    assert found[0] > 0.0  # a logit of 0 would be infinite
    assert found[-1] < 1.0
