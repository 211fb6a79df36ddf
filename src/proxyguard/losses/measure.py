"""From registered requirements to the losses of one release on some target records.

Losses of a prediction on one record, each with the bounds it keeps (paper, prediction losses).

Every loss maps outcomes and predictions of many records to values in ``[low, high]``; a
relative requirement subtracts the source's values from the release's (Eq. (1)), which lie
in ``[low - high, high - low]``. A prediction that leaves its own domain is refused here,
so that no loss can leave its bounds.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import log
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from proxyguard.draw.catalog import load_attribute
from proxyguard.errors import LossMismatch, RegistryError
from proxyguard.losses.query import BoundedQuery, CodedRecords
from proxyguard.registry.fields import number
from proxyguard.registry.parts import Choose, RequirementPart
from proxyguard.registry.requirement import Form, Requirement, check_range
from proxyguard.registry.target import Outcome

Array = NDArray[np.float64]
# Probabilities below this count as this in a log loss, as in the paper.
FLOOR = 1e-6


@dataclass(frozen=True, slots=True)
class Loss:
    """A bounded loss: its name, its range, and whether it takes only the two ends."""

    name: str
    high: float
    two_valued: bool
    values: Callable[[ArrayLike, ArrayLike], Array]
    low: float = 0.0

    def __post_init__(self) -> None:
        # A difference of two such losses has a range around 0, which would hide where they lie.
        check_range(self.name, self.low, self.high)

    def __call__(self, outcome: ArrayLike, prediction: ArrayLike) -> Array:
        """Return the loss of every record."""
        return self.values(outcome, prediction)

    def regret(self, outcome: ArrayLike, release: ArrayLike, source: ArrayLike) -> Array:
        """Return the paired difference of Eq. (1), release minus source."""
        return self(outcome, release) - self(outcome, source)


def binary_error(threshold: float = 0.5) -> Loss:
    """Return ``1{(p >= threshold) != y}``: a probability on the threshold is positive."""
    _inside("threshold", threshold, 0.0, 1.0)

    def values(outcome: ArrayLike, prediction: ArrayLike) -> Array:
        y, p = _binary(outcome, prediction)
        return np.where((p >= threshold) != (y > 0.5), 1.0, 0.0)

    return Loss("error", 1.0, True, values)


def brier() -> Loss:
    """Return ``(p - y)^2``."""

    def values(outcome: ArrayLike, prediction: ArrayLike) -> Array:
        y, p = _binary(outcome, prediction)
        return (p - y) ** 2

    return Loss("brier", 1.0, False, values)


def log_loss() -> Loss:
    """Return the clipped log loss divided by ``-log(1e-6)``, in [0, 1]."""

    def values(outcome: ArrayLike, prediction: ArrayLike) -> Array:
        y, p = _binary(outcome, prediction)
        return _scaled_log(np.where(y > 0.5, p, 1.0 - p))

    return Loss("log", 1.0, False, values)


def decision_cost(*, false_negative: float, threshold: float) -> Loss:
    """Return ``(c 1{missed} + 1{false alarm})/max(c, 1)``, ``c`` the cost of a missed positive."""
    if not 0.0 < false_negative < np.inf:
        raise RegistryError(f"the cost of a missed positive must be positive, got {false_negative}")
    _inside("threshold", threshold, 0.0, 1.0)
    scale = max(false_negative, 1.0)

    def values(outcome: ArrayLike, prediction: ArrayLike) -> Array:
        y, p = _binary(outcome, prediction)
        missed, alarm = (y > 0.5) & (p < threshold), (y < 0.5) & (p >= threshold)
        return missed * (false_negative / scale) + alarm * (1.0 / scale)

    return Loss("cost", 1.0, false_negative == 1.0, values)


def multiclass_error() -> Loss:
    """Return whether the most probable class, the first on ties, is not the outcome."""

    def values(outcome: ArrayLike, prediction: ArrayLike) -> Array:
        y, p = _classes(outcome, prediction)
        return np.where(np.argmax(p, axis=1) != y, 1.0, 0.0)

    return Loss("multiclass error", 1.0, True, values)


def multiclass_brier() -> Loss:
    """Return half the squared distance between the probabilities and the outcome, in [0, 1]."""

    def values(outcome: ArrayLike, prediction: ArrayLike) -> Array:
        y, p = _classes(outcome, prediction)
        right = p[np.arange(y.size), y]
        half = 0.5 * ((p**2).sum(axis=1) - 2.0 * right + 1.0)
        return np.asarray(np.clip(half, 0.0, 1.0))  # rounding alone can leave [0, 1]

    return Loss("multiclass brier", 1.0, False, values)


def multiclass_log() -> Loss:
    """Return the clipped log loss of the outcome's probability, divided by ``-log(1e-6)``."""

    def values(outcome: ArrayLike, prediction: ArrayLike) -> Array:
        y, p = _classes(outcome, prediction)
        return _scaled_log(p[np.arange(y.size), y])

    return Loss("multiclass log", 1.0, False, values)


def squared_error(*, low: float, high: float) -> Loss:
    """Return ``((prediction - y)/(high - low))^2`` for outcomes in a registered range."""
    return _regression_loss("squared", low, high, lambda gap: gap**2)


def absolute_error(*, low: float, high: float) -> Loss:
    """Return ``|prediction - y|/(high - low)`` for outcomes in a registered range."""
    return _regression_loss("absolute", low, high, np.abs)


def pinball(*, low: float, high: float, quantile: float) -> Loss:
    """Return the pinball loss of a quantile, scaled by the registered range."""
    _inside("quantile", quantile, 0.0, 1.0)
    return _regression_loss(
        "pinball",
        low,
        high,
        lambda gap: np.where(gap < 0.0, -gap * quantile, gap * (1.0 - quantile)),
    )


def _regression_loss(name: str, low: float, high: float, shape: Callable[[Array], Array]) -> Loss:
    check_range(name, low, high)

    def values(outcome: ArrayLike, prediction: ArrayLike) -> Array:
        y = _column("outcome", outcome, low, high)
        p = _column("prediction", prediction, low, high)
        _same_length(y, p)
        scaled = shape((p - y) / (high - low))
        return np.asarray(np.clip(scaled, 0.0, 1.0))  # rounding alone can leave [0, 1]

    return Loss(name, 1.0, False, values)


def _scaled_log(probability: Array) -> Array:
    clipped = np.clip(probability, FLOOR, 1.0 - FLOOR)
    return np.clip(np.log(clipped) / log(FLOOR), 0.0, 1.0)


def _binary(outcome: ArrayLike, prediction: ArrayLike) -> tuple[Array, Array]:
    y = _column("outcome", outcome, 0.0, 1.0)
    if not np.all((y == 0.0) | (y == 1.0)):
        raise LossMismatch("outcomes of a binary loss are 0 and 1")
    p = _column("probability", prediction, 0.0, 1.0)
    _same_length(y, p)
    return y, p


def _classes(outcome: ArrayLike, prediction: ArrayLike) -> tuple[NDArray[np.intp], Array]:
    p = np.asarray(prediction, dtype=np.float64)
    if p.ndim != 2 or p.shape[1] < 2:
        raise LossMismatch(f"probabilities are records x classes, got shape {p.shape}")
    if not np.all((p >= 0.0) & (p <= 1.0)) or not np.allclose(p.sum(axis=1), 1.0, atol=1e-6):
        raise LossMismatch(
            "probabilities of the classes lie in [0, 1] and sum to 1 in every record"
        )
    y = _column("outcome", outcome, 0.0, p.shape[1] - 1.0)
    if not np.all(y == np.floor(y)):
        raise LossMismatch("outcomes of a multiclass loss are class numbers from 0")
    _same_length(y, p)
    return y.astype(np.intp), p


def _column(name: str, values: ArrayLike, low: float, high: float) -> Array:
    column = np.asarray(values, dtype=np.float64)
    if column.ndim != 1:
        raise LossMismatch(f"{name} has shape {column.shape}, expected one value a record")
    wrong = np.flatnonzero(~((column >= low) & (column <= high)))
    if wrong.size:
        raise LossMismatch(
            f"{name} of record {wrong[0]} is {column[wrong[0]]}, registered range "
            f"[{low:g}, {high:g}]"
        )
    return column


def _same_length(first: Array, second: Array) -> None:
    if first.shape[0] != second.shape[0]:
        raise LossMismatch(f"{first.shape[0]} outcomes for {second.shape[0]} predictions")


def _inside(name: str, value: float, low: float, high: float) -> None:
    if not low <= value <= high:
        raise RegistryError(f"{name} must lie in [{low:g}, {high:g}], got {value}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Predicted:
    """Predictions of one procedure on some records, and its own decision threshold."""

    values: Array
    threshold: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Measure:
    """One requirement and how its losses are computed."""

    requirement: Requirement
    part: str = ""  # the declared requirement that it belongs to
    loss: Callable[[float | None], Loss] | None = None  # from a decision threshold
    query: BoundedQuery | None = None
    sign: float = 1.0  # of a query: target minus release, or the reverse
    group: tuple[tuple[str, str], ...] = ()  # column and value: only records with them count

    def inside(self, records: CodedRecords) -> NDArray[np.bool_] | None:
        """Return which records count: of the target, of a release, of development alike."""
        return records.inside(self.group) if self.group else None

    def answer(self, release: CodedRecords) -> float | None:
        """Return what a release answers over its own records of the group; none if it cannot."""
        assert self.query is not None  # a loss has no answer
        return self.query.answer(release, self.inside(release))

    def of_predictions(self, y: ArrayLike, release: Predicted, source: Predicted | None) -> Array:
        """Return the losses of a release, paired with the source's where the form is relative."""
        assert self.loss is not None  # a query has none
        values = self.loss(release.threshold)(y, release.values)
        if self.requirement.form is not Form.RELATIVE:
            return values
        if source is None:
            raise LossMismatch(
                f"{self.requirement.name}: a relative requirement needs the source's predictions"
            )
        return values - self.loss(source.threshold)(y, source.values)

    def of_query_values(self, values: Array, answer: float | None) -> Array:
        """Return one side of the difference, from the query's values.

        A release that does not answer has every loss at its upper bound, as a failed draw has.
        """
        if answer is None:
            return np.full(values.shape, self.requirement.high)
        return self.sign * (values - answer)


def measure_loss(
    part: RequirementPart, *, limit: str, slack: str | None, outcome: Outcome, choose: Choose | None
) -> Measure:
    """Return the measure of a relative or absolute requirement with its limit resolved."""
    loss = _loss(part, outcome, choose)
    sample = loss(0.5)
    low, high = sample.low, sample.high
    if part.form == "relative":
        low, high = low - high, high - low
    return Measure(
        requirement=Requirement(
            name=part.name,
            low=low,
            high=high,
            limit=number(limit),
            form=Form(part.form),
            two_valued=sample.two_valued and part.form == "absolute",
            slack=None if slack is None else number(slack),
            ramp=None if part.ramp is None else number(part.ramp),
            group=None if part.group is None else group_name(part.group),
        ),
        part=part.name,
        loss=loss,
        group=tuple((part.group or {}).items()),
    )


def measure_query(
    part: RequirementPart, query: BoundedQuery, *, limit: str, slack: str | None
) -> tuple[Measure, Measure]:
    """Return the two one-sided requirements of one query."""
    width = query.high - query.low
    sides = []
    for sign, side in ((1.0, "target above release"), (-1.0, "target below release")):
        requirement = Requirement(
            name=f"{query.name} ({side})",
            low=-width,
            high=width,
            limit=number(limit),
            form=Form.QUERY,
            indicator=bool(query.cell),
            slack=None if slack is None else number(slack),
            ramp=None if part.ramp is None else number(part.ramp),
            group=None if part.group is None else group_name(part.group),
        )
        sides.append(
            Measure(
                requirement=requirement,
                part=part.name,
                query=query,
                sign=sign,
                group=tuple((part.group or {}).items()),
            )
        )
    return sides[0], sides[1]


def group_name(group: Mapping[str, str]) -> str:
    """Return a subgroup's name: what its records have in common.

    Two groups have two names: a text that reads like a list of columns is quoted.
    """
    return ", ".join(f"{_quoted(column)} = {_quoted(value)}" for column, value in group.items())


def _quoted(text: str) -> str:
    plain = not any(mark in text for mark in (",", "=", '"'))
    return text if plain else json.dumps(text, ensure_ascii=False)


def _loss(
    part: RequirementPart, outcome: Outcome, choose: Choose | None
) -> Callable[[float | None], Loss]:
    """Return how the loss is made from a procedure's own decision threshold."""
    name = part.loss or ""
    if ":" in name:
        return _custom(part)
    if outcome.kind == "regression":
        return _regression(part, outcome)
    if outcome.kind == "multiclass":
        makers: dict[str, Callable[[], Loss]] = {
            "error": multiclass_error,
            "brier": multiclass_brier,
            "log": multiclass_log,
        }
        if name not in makers:
            raise _unknown(part, makers, "several classes")
        return lambda _: makers[name]()
    if name == "brier":
        return lambda _: brier()
    if name == "log":
        return lambda _: log_loss()
    if name == "error":
        return lambda own: binary_error(_threshold(part, own, choose, 0.5))
    if name == "cost":
        cost = part.false_negative or (choose.false_negative if choose else None)
        if cost is None:
            raise RegistryError(f"{part.name}: a cost needs false_negative, here or in choose")
        return lambda own: decision_cost(
            false_negative=number(cost), threshold=_threshold(part, own, choose, None)
        )
    raise _unknown(part, ("error", "brier", "log", "cost"), "a binary outcome")


def _threshold(
    part: RequirementPart, own: float | None, choose: Choose | None, default: float | None
) -> float:
    if part.threshold is not None:
        return number(part.threshold)
    if choose is not None and own is not None:
        return own
    if default is None:
        raise RegistryError(f"{part.name}: a cost needs a threshold, here or from procedure.choose")
    return default


def _regression(part: RequirementPart, outcome: Outcome) -> Callable[[float | None], Loss]:
    low, high = (number(end) for end in outcome.range or ("0", "1"))
    if part.loss == "squared":
        return lambda _: squared_error(low=low, high=high)
    if part.loss == "absolute":
        return lambda _: absolute_error(low=low, high=high)
    if part.loss == "pinball":
        if part.quantile is None:
            raise RegistryError(f"{part.name}: a pinball loss needs its quantile")
        quantile = number(part.quantile)
        return lambda _: pinball(low=low, high=high, quantile=quantile)
    raise _unknown(part, ("squared", "absolute", "pinball"), "a number")


def _custom(part: RequirementPart) -> Callable[[float | None], Loss]:
    low, high = number(str(part.low)), number(str(part.high))

    def values(outcome: ArrayLike, predicted: ArrayLike) -> Array:
        # Loaded where losses are computed: verifying a stranger's folder must not run its code.
        function = load_attribute(str(part.loss))
        found = np.asarray(function(outcome, predicted), dtype=np.float64)
        if found.shape != (np.asarray(outcome).shape[0],):
            raise LossMismatch(
                f"{part.name}: {part.loss} returned shape {found.shape}, expected one value a "
                "record"
            )
        return found

    return lambda _: Loss(str(part.loss), high, part.two_valued, values, low)


def _unknown(
    part: RequirementPart, known: Sequence[str] | Mapping[str, Any], kind: str
) -> Exception:
    return RegistryError(
        f"{part.name}: there is no loss {part.loss!r} for {kind}; there are {sorted(known)}, or "
        "your own by import path, module:function"
    )
