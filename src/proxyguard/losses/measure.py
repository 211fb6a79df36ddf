"""From registered requirements to the losses of one release on some target records."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from proxyguard.draw.catalog import load_attribute
from proxyguard.errors import LossMismatch, RegistryError
from proxyguard.losses import prediction
from proxyguard.losses.prediction import Loss
from proxyguard.losses.query import BoundedQuery, CodedRecords
from proxyguard.registry.fields import number
from proxyguard.registry.parts import Choose, RequirementPart
from proxyguard.registry.requirement import Form, Requirement
from proxyguard.registry.target import Outcome

Array = NDArray[np.float64]


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
            "error": prediction.multiclass_error,
            "brier": prediction.multiclass_brier,
            "log": prediction.multiclass_log,
        }
        if name not in makers:
            raise _unknown(part, makers, "several classes")
        return lambda _: makers[name]()
    if name == "brier":
        return lambda _: prediction.brier()
    if name == "log":
        return lambda _: prediction.log_loss()
    if name == "error":
        return lambda own: prediction.binary_error(_threshold(part, own, choose, 0.5))
    if name == "cost":
        cost = part.false_negative or (choose.false_negative if choose else None)
        if cost is None:
            raise RegistryError(f"{part.name}: a cost needs false_negative, here or in choose")
        return lambda own: prediction.decision_cost(
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
        return lambda _: prediction.squared_error(low=low, high=high)
    if part.loss == "absolute":
        return lambda _: prediction.absolute_error(low=low, high=high)
    if part.loss == "pinball":
        if part.quantile is None:
            raise RegistryError(f"{part.name}: a pinball loss needs its quantile")
        quantile = number(part.quantile)
        return lambda _: prediction.pinball(low=low, high=high, quantile=quantile)
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
