"""Losses keep their bounds, agree with hand values, and refuse predictions off their domain."""

from __future__ import annotations

from math import log
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxyguard.errors import LossMismatch, RegistryError
from proxyguard.losses import measure as losses

UNIT = st.floats(0.0, 1.0)
BINARY = [
    losses.binary_error(),
    losses.brier(),
    losses.log_loss(),
    losses.decision_cost(false_negative=5, threshold=0.5),
    losses.decision_cost(false_negative=0.2, threshold=0.5),
]


@pytest.mark.parametrize(
    ("loss", "outcome", "probability", "expected"),
    [
        (losses.binary_error(), 1, 0.5, 0.0),  # a probability on the threshold is positive
        (losses.binary_error(), 0, 0.5, 1.0),
        (losses.binary_error(0.2), 1, 0.19, 1.0),
        (losses.brier(), 1, 0.75, 0.0625),
        (losses.brier(), 0, 0.75, 0.5625),
        # -log(1e-6) = 13.8155...; the paper divides by it.
        (losses.log_loss(), 1, 0.5, log(2) / 13.815510557964274),
        (losses.log_loss(), 1, 0.0, 1.0),
        (losses.log_loss(), 0, 1.0, 1.0),
        (losses.decision_cost(false_negative=5, threshold=1 / 6), 1, 0.1, 1.0),
        (losses.decision_cost(false_negative=5, threshold=1 / 6), 0, 0.9, 0.2),
        (losses.decision_cost(false_negative=5, threshold=1 / 6), 1, 0.9, 0.0),
        (losses.decision_cost(false_negative=0.25, threshold=0.5), 1, 0.1, 0.25),
        (losses.decision_cost(false_negative=0.25, threshold=0.5), 0, 0.9, 1.0),
    ],
)
def test_binary_losses_agree_with_hand_values(
    loss: losses.Loss, outcome: int, probability: float, expected: float
) -> None:
    assert loss([outcome], [probability])[0] == pytest.approx(expected, rel=1e-12, abs=0.0)


def test_clipping_costs_the_log_loss_of_a_sure_and_right_prediction() -> None:
    # log(1 - 1e-6)/log(1e-6): the other end of the clip.
    assert losses.log_loss()([1], [1.0])[0] == pytest.approx(7.2382e-8, rel=1e-4)


@pytest.mark.parametrize("loss", BINARY, ids=lambda loss: loss.name)
@given(st.lists(st.tuples(st.integers(0, 1), UNIT, UNIT), min_size=1, max_size=20))
def test_binary_losses_keep_their_bounds(
    loss: losses.Loss, records: list[tuple[int, float, float]]
) -> None:
    outcome, release, source = (np.array(column) for column in zip(*records, strict=True))
    values = loss(outcome, release)
    assert np.all((values >= loss.low) & (values <= loss.high))
    regret = loss(outcome, release) - loss(outcome, source)
    assert np.all(np.abs(regret) <= loss.high - loss.low)
    np.testing.assert_array_equal(loss(outcome, release) - loss(outcome, release), 0.0)
    if loss.two_valued:
        assert set(values) <= {loss.low, loss.high}


@given(st.lists(st.floats(0.01, 1.0), min_size=2, max_size=5), st.data())
def test_multiclass_losses_keep_their_bounds(weights: list[float], data: Any) -> None:
    p = np.array(weights) / sum(weights)
    y = data.draw(st.integers(0, len(weights) - 1))
    for loss in (losses.multiclass_error(), losses.multiclass_brier(), losses.multiclass_log()):
        value = loss([y], p[None])[0]
        assert loss.low <= value <= loss.high


def test_multiclass_losses_agree_with_hand_values() -> None:
    p = np.array([[0.5, 0.5, 0.0], [0.2, 0.3, 0.5]])
    y = [1, 2]
    assert losses.multiclass_error()(y, p).tolist() == [1.0, 0.0]  # ties go to the first class
    # Half of (.25 + .25) and half of (.04 + .09 + .25).
    np.testing.assert_allclose(losses.multiclass_brier()(y, p), [0.25, 0.19], rtol=1e-12)
    np.testing.assert_allclose(
        losses.multiclass_log()(y, p), log(2) / 13.815510557964274, rtol=1e-12
    )
    wrong = np.array([[1.0, 0.0]])
    assert losses.multiclass_brier()([1], wrong)[0] == 1.0


def test_two_classes_give_the_binary_losses() -> None:
    p = np.linspace(0.0, 1.0, 11)
    both = np.stack([1.0 - p, p], axis=1)
    y = np.arange(11) % 2
    np.testing.assert_allclose(losses.multiclass_brier()(y, both), losses.brier()(y, p), atol=1e-15)
    np.testing.assert_allclose(
        losses.multiclass_log()(y, both), losses.log_loss()(y, p), atol=1e-15
    )


@pytest.mark.parametrize(
    ("loss", "expected"),
    [
        (losses.squared_error(low=-2, high=2), [0.0625, 1.0]),
        (losses.absolute_error(low=-2, high=2), [0.25, 1.0]),
        # Under by 1 of 4 at the 90 % quantile, over by 4 of 4.
        (losses.pinball(low=-2, high=2, quantile=0.9), [0.225, 0.1]),
    ],
    ids=lambda x: getattr(x, "name", ""),
)
def test_regression_losses_are_scaled_by_the_registered_range(
    loss: losses.Loss, expected: list[float]
) -> None:
    np.testing.assert_allclose(loss([1.0, -2.0], [0.0, 2.0]), expected, rtol=1e-12)


@pytest.mark.parametrize(
    ("loss", "expected", "high"),
    [
        (losses.squared_error(low=-2, high=2, unit="kg"), [1.0, 16.0], 16.0),
        (losses.absolute_error(low=-2, high=2, unit="kg"), [1.0, 4.0], 4.0),
        (losses.pinball(low=-2, high=2, quantile=0.9, unit="kg"), [0.9, 0.4], 4.0),
    ],
    ids=lambda x: getattr(x, "name", ""),
)
def test_regression_losses_in_their_own_unit_are_divided_by_nothing(
    loss: losses.Loss, expected: list[float], high: float
) -> None:
    np.testing.assert_allclose(loss([1.0, -2.0], [0.0, 2.0]), expected, rtol=1e-12)
    assert (loss.low, loss.high) == (0.0, high)


@pytest.mark.parametrize(
    ("call", "named"),
    [
        (lambda: losses.brier()([1], [1.1]), "probability of record 0 is outside"),
        (lambda: losses.brier()([1, 0], [0.5, np.nan]), "probability of record 1 is missing"),
        (lambda: losses.brier()([0.5], [0.5]), "are 0 and 1"),
        (lambda: losses.brier()([1, 0], [0.5]), "2 outcomes for 1 predictions"),
        (lambda: losses.brier()([[1]], [0.5]), "expected one value a record"),
        (lambda: losses.multiclass_log()([2], [[0.5, 0.5]]), "outcome of record 0 is outside"),
        (lambda: losses.multiclass_log()([0], [[0.5, 0.4]]), "sum to 1"),
        (lambda: losses.multiclass_log()([0], [0.5, 0.5]), "records x classes"),
        (lambda: losses.multiclass_log()([0.5], [[0.5, 0.5]]), "class numbers"),
        (lambda: losses.squared_error(low=0, high=1)([0.5], [1.5]), "registered range"),
    ],
)
def test_a_prediction_off_its_domain_is_refused_by_record(call: Any, named: str) -> None:
    with pytest.raises(LossMismatch, match=named):
        call()


@pytest.mark.parametrize(
    "call",
    [
        lambda: losses.binary_error(1.5),
        lambda: losses.decision_cost(false_negative=0, threshold=0.5),
        lambda: losses.squared_error(low=1, high=1),
        lambda: losses.pinball(low=0, high=1, quantile=2),
        # Their width is infinite, or doubles there are eighths apart: every loss would be 0.
        lambda: losses.squared_error(low=-1.7e308, high=1.7e308),
        lambda: losses.absolute_error(low=1e15, high=1e15 + 1),
        lambda: losses.pinball(low=-1e15 - 1, high=-1e15, quantile=0.5),
        lambda: losses.Loss("mine", 1e15 + 1, False, np.subtract, 1e15),
    ],
)
def test_a_loss_that_cannot_be_is_refused(call: Any) -> None:
    with pytest.raises(RegistryError):
        call()
