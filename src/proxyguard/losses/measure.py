"""Losses of a prediction, and from registered requirements to the losses of one release.

A `Loss` maps outcomes and predictions of many records to values in ``[low, high]`` (paper,
prediction losses); a relative requirement subtracts the source's values from the release's
(Eq. (1)), which lie in ``[low - high, high - low]``. A prediction that leaves its own domain is
refused here, so that no loss can leave its bounds. A `Measure` is one requirement with its loss
or its query: `measure_loss` and `measure_query` make it from what was declared and resolved.
Losses that were computed elsewhere are read by `losses.given`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from math import log

import numpy as np
from numpy.typing import ArrayLike, NDArray

from proxyguard.draw.catalog import load_callable
from proxyguard.draw.messages import where
from proxyguard.errors import LossError, LossMismatch, RegistryError
from proxyguard.exact.rounding import Array
from proxyguard.losses.query import BoundedQuery, CodedRecords
from proxyguard.printable import did_you_mean, found
from proxyguard.registry.design import Design, Iid
from proxyguard.registry.exposure import (
    THRESHOLDS,
    ExposureKind,
    ExposurePart,
    ExposureQuestion,
    ThresholdRule,
)
from proxyguard.registry.fields import number
from proxyguard.registry.parts import Choose, RequirementPart
from proxyguard.registry.requirement import (
    MODEL,
    NONMEMBERS,
    NUMBER,
    PERCENT,
    Form,
    LossWords,
    Requirement,
    Unit,
    between,
    check_range,
    own_unit,
    promise,
)
from proxyguard.registry.target import Outcome

# Probabilities below this count as this in a log loss, as in the paper.
FLOOR = 1e-6
# Tables of a workload that a sentence names.
MOST_NAMED = 3
# How the two requirements of a query are called beside its name: the sign of a difference says it.
SIDES = (" (target above release)", " (target below release)")


@dataclass(frozen=True, slots=True)
class Loss:
    """A bounded loss of many records at once."""

    name: str
    """What it is called where it is declared."""
    high: float
    """The greatest loss of a record."""
    two_valued: bool
    """Whether it takes only its two ends, so that exact binomial tests hold."""
    values: Callable[[ArrayLike, ArrayLike], Array]
    """From outcomes and predictions to the loss of every record."""
    low: float = 0.0
    """The least loss of a record."""
    words: str = ""
    """What its mean is called; left out, the mean of the loss by its name."""
    unit: Unit | None = None
    """How a person reads its mean; left out, on the scale of its ends."""
    own: str = ""
    """What stands behind its values as they are, where they are in a named unit."""

    def __post_init__(self) -> None:
        # A difference of two such losses has a range around 0, which would hide where they lie.
        check_range(self.name, self.low, self.high)

    def __call__(self, outcome: ArrayLike, prediction: ArrayLike) -> Array:
        """Return the loss of every record."""
        return self.values(outcome, prediction)

    def quantity(self, whose: str) -> LossWords:
        """Return what a requirement on its mean limits, in words.

        Parameters
        ----------
        whose
            Whose predictions they are: `MODEL` or `PREDICTIONS`.
        """
        return LossWords(
            words=self.words or f"mean loss {self.name!r}",
            unit=self.unit or between(self.low, self.high),
            whose=whose,
            own=self.own,
        )


def _binary_loss(
    name: str, shape: Callable[[Array, Array], Array], words: str, unit: Unit | None = None,
    *, two_valued: bool = False,
) -> Loss:  # fmt: skip
    """Return a loss of binary outcomes and probabilities, both checked before they are used."""
    return Loss(
        name, 1.0, two_valued, lambda y, p: shape(*_binary(y, p)), words=words, unit=unit
    )  # fmt: skip


def _class_loss(
    name: str, shape: Callable[[NDArray[np.intp], Array], Array], words: str,
    unit: Unit | None = None, *, two_valued: bool = False,
) -> Loss:  # fmt: skip
    """Return a loss of class numbers and the probabilities of the classes, both checked."""
    return Loss(
        name, 1.0, two_valued, lambda y, p: shape(*_classes(y, p)), words=words, unit=unit
    )  # fmt: skip


def binary_error(threshold: float = 0.5) -> Loss:
    """Return ``1{(p >= threshold) != y}``: a probability on the threshold is positive."""
    _inside("threshold", threshold, 0.0, 1.0)
    return _binary_loss(
        "error", lambda y, p: np.where((p >= threshold) != (y > 0.5), 1.0, 0.0), "error rate",
        PERCENT, two_valued=True,
    )  # fmt: skip


def brier() -> Loss:
    """Return ``(p - y)^2``.

    Examples
    --------
    >>> brier()([1, 0], [0.75, 0.75])
    array([0.0625, 0.5625])
    """
    return _binary_loss("brier", lambda y, p: (p - y) ** 2, "Brier score")


def log_loss() -> Loss:
    """Return the clipped log loss divided by ``-log(1e-6)``, in [0, 1]."""
    return _binary_loss("log", lambda y, p: _scaled_log(np.where(y > 0.5, p, 1.0 - p)), "log loss")


def decision_cost(*, false_negative: float, threshold: float) -> Loss:
    """Return ``(c 1{missed} + 1{false alarm})/max(c, 1)``, ``c`` the cost of a missed positive.

    Parameters
    ----------
    false_negative
        ``c``, in units of a false alarm.
    threshold
        Probabilities from here on are positive decisions.

    Raises
    ------
    RegistryError
        The cost is not positive, or the threshold is no probability.
    """
    if not 0.0 < false_negative < np.inf:
        raise RegistryError(f"the cost of a missed positive must be positive, got {false_negative}")
    _inside("threshold", threshold, 0.0, 1.0)
    scale = max(false_negative, 1.0)

    def costs(y: Array, p: Array) -> Array:
        missed, alarm = (y > 0.5) & (p < threshold), (y < 0.5) & (p >= threshold)
        return missed * (false_negative / scale) + alarm * (1.0 / scale)

    words = f"mean cost of decisions ({false_negative:g} for a missed positive, 1 for a false "
    # Unequal costs make three values, and exact binomial tests hold for two.
    unit = Unit(factor=scale, level=" a record", aside="{} of the largest")
    return _binary_loss(
        "cost", costs, f"{words}alarm)", unit,
        two_valued=false_negative == 1.0,
    )  # fmt: skip


def multiclass_error() -> Loss:
    """Return whether the most probable class, the first on ties, is not the outcome."""
    return _class_loss(
        "multiclass error",
        lambda y, p: np.where(np.argmax(p, axis=1) != y, 1.0, 0.0),
        "error rate",
        PERCENT,
        two_valued=True,
    )


def multiclass_brier() -> Loss:
    """Return half the squared distance between the probabilities and the outcome, in [0, 1]."""

    def halves(y: NDArray[np.intp], p: Array) -> Array:
        right = p[np.arange(y.size), y]
        half = 0.5 * ((p**2).sum(axis=1) - 2.0 * right + 1.0)
        return np.asarray(np.clip(half, 0.0, 1.0))  # rounding alone can leave [0, 1]

    return _class_loss("multiclass brier", halves, "Brier score")


def multiclass_log() -> Loss:
    """Return the clipped log loss of the outcome's probability, divided by ``-log(1e-6)``."""
    return _class_loss(
        "multiclass log",
        lambda y, p: _scaled_log(p[np.arange(y.size), y]),
        "log loss",
    )


def squared_error(*, low: float, high: float, unit: str = "") -> Loss:
    """Return ``((prediction - y)/(high - low))^2`` for outcomes in a registered range.

    In the outcome's own ``unit``, squared, where one is named: then nothing is divided.
    """
    return _regression_loss(
        "squared", low, high, lambda gap: gap**2, "mean squared error", 2, unit=unit
    )


def absolute_error(*, low: float, high: float, unit: str = "") -> Loss:
    """Return ``|prediction - y|/(high - low)`` for outcomes in a registered range.

    In the outcome's own ``unit`` where one is named: then nothing is divided.
    """
    return _regression_loss("absolute", low, high, np.abs, "mean absolute error", unit=unit)


def pinball(*, low: float, high: float, quantile: float, unit: str = "") -> Loss:
    """Return the pinball loss of a quantile, scaled by the registered range.

    In the outcome's own ``unit`` where one is named: then nothing is divided.
    """
    _inside("quantile", quantile, 0.0, 1.0)
    return _regression_loss(
        "pinball",
        low,
        high,
        lambda gap: np.where(gap < 0.0, -gap * quantile, gap * (1.0 - quantile)),
        f"mean pinball loss of the {quantile:g} quantile",
        unit=unit,
    )


def _regression_loss(
    name: str, low: float, high: float, shape: Callable[[Array], Array], words: str,
    power: int = 1, *, unit: str = "",
) -> Loss:  # fmt: skip
    check_range(name, low, high)
    squared = "squared " if power == 2 else ""
    most, own = (high - low) ** power, f"{squared}{unit}" if unit else ""
    # In the outcome's own unit, or its square, with the scale that the limit is registered on.
    shown = own_unit(own, 0.0, most) if own else Unit(
        factor=most,
        level=f" {squared}units of the outcome",
        aside=f"{{}} of the {squared}range {low:.10g} to {high:.10g}",
    )  # fmt: skip
    top, divisor = (most, 1.0) if own else (1.0, high - low)

    def values(outcome: ArrayLike, prediction: ArrayLike) -> Array:
        y = _column("outcome", outcome, low, high)
        p = _column("prediction", prediction, low, high)
        _same_length(y, p)
        # Rounding alone can leave the bounds.
        return np.asarray(np.clip(shape((p - y) / divisor), 0.0, top))

    return Loss(name, top, False, values, words=words, unit=shown, own=own)


def _scaled_log(probability: Array) -> Array:
    clipped = np.clip(probability, FLOOR, 1.0 - FLOOR)
    # Two logarithms of one number may differ in the last place, and pass 1 by that.
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
    # Negated: NaN fails both comparisons and is refused with the rest.
    wrong = np.flatnonzero(~((column >= low) & (column <= high)))
    if wrong.size:
        what = "missing" if np.isnan(column[wrong[0]]) else "outside"
        raise LossMismatch(
            f"{name} of record {wrong[0]} is {what}, registered range [{low:g}, {high:g}]"
        )
    return column


def _same_length(first: Array, second: Array) -> None:
    if first.shape[0] != second.shape[0]:
        raise LossMismatch(f"{first.shape[0]} outcomes for {second.shape[0]} predictions")


def _inside(name: str, value: float, low: float, high: float) -> None:
    if not low <= value <= high:
        raise RegistryError(f"{name} must lie in [{low:g}, {high:g}], got {value}")


# The loss at a procedure's own decision threshold, which is chosen after the loss is declared.
LossMaker = Callable[[float | None], Loss]


@dataclass(frozen=True, slots=True, kw_only=True)
class Predicted:
    """Predictions of one procedure on some records, and its own decision threshold."""

    values: Array
    threshold: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Measure:
    """One requirement and how its losses are computed."""

    requirement: Requirement
    """What is tested: bounds, limit, slack."""
    part: str = ""
    """The declared requirement that it belongs to."""
    loss: LossMaker | None = None
    """The loss at a procedure's decision threshold; nothing of queries and given losses."""
    query: BoundedQuery | None = None
    """The query, of a requirement about answers."""
    sign: float = 1.0
    """Of a query: target minus release, or the reverse."""
    apart: float = 0.0
    """Of a ratio: how far it may be from its answer; a part of what is averaged."""
    exposure: ExposureQuestion | None = None
    """What is asked of an attack, of a requirement about exposure."""
    group: tuple[tuple[str, str], ...] = ()
    """Columns and values: only records that have them count."""

    def inside(self, records: CodedRecords) -> NDArray[np.bool_] | None:
        """Return which records count: of the target, of a release, of development alike."""
        return records.inside(self.group) if self.group else None

    def answer(self, release: CodedRecords) -> float | None:
        """Return what a release answers over its own records of the group; none if it cannot."""
        assert self.query is not None  # a loss has no answer
        return self.query.answer(release, self.inside(release))

    def of_predictions(self, y: ArrayLike, release: Predicted, source: Predicted | None) -> Array:
        """Return the losses of a release, paired with the source's where the form is relative.

        Raises
        ------
        LossMismatch
            A prediction leaves its domain, or a relative requirement has no source.
        """
        assert self.loss is not None  # a query has none
        values = self.loss(release.threshold)(y, release.values)
        if self.requirement.form is not Form.RELATIVE:
            return values
        if source is None:
            raise LossMismatch(
                f"{self.requirement.name}: a relative requirement needs the source's predictions"
            )
        # Each at its own threshold: the choice of it is part of the procedure that is compared.
        return values - self.loss(source.threshold)(y, source.values)

    def of_query_values(self, values: Array, answer: float | None) -> Array:
        """Return one side of the difference, from the query's values.

        A release that does not answer has every loss at its upper bound, as a failed draw has.
        """
        if answer is None:
            return np.full(len(values), self.requirement.high)
        assert self.query is not None  # it has values
        if self.query.per is not None:
            return self.query.excess(values, answer, above=self.sign > 0.0, limit=self.apart)
        return self.sign * (values - answer)

    def ends(self, answer: float | None) -> tuple[float, float]:
        """Return the least and the greatest of these numbers that a record can have.

        Those of a release that does not answer are all the greatest: its bounds are the registered.
        """
        if answer is None or self.query is None:
            return self.requirement.low, self.requirement.high
        return self.query.ends(answer, above=self.sign > 0.0, limit=self.apart)


def measure_loss(
    part: RequirementPart, *, limit: str | None, slack: str | None, outcome: Outcome,
    choose: Choose | None, whose: str = MODEL,
) -> Measure:  # fmt: skip
    """Return the measure of a relative or absolute requirement with its limit resolved.

    Parameters
    ----------
    part
        The requirement as declared.
    limit, slack
        What its rules resolved to; without a limit any one, for the loss alone.
    outcome
        What is predicted.
    choose
        How the procedure chooses its decision threshold, where it does.
    whose
        Whose predictions they are, for what the requirement promises: `MODEL` or `PREDICTIONS`.

    Raises
    ------
    RegistryError
        There is no such loss for this kind of outcome, or it lacks a number.
    """
    loss = loss_of(part, outcome, choose)
    # Bounds depend on no threshold, so that any one shows them.
    sample = loss(0.5)
    low, high = sample.low, sample.high
    if part.form == "relative":
        low, high = low - high, high - low
    # A difference of two errors takes three values.
    two_valued = sample.two_valued and part.form == "absolute"
    return Measure(
        requirement=requirement_of(
            part,
            low,
            high,
            limit=limit or repr((low + high) / 2.0),
            slack=slack,
            two_valued=two_valued,
            quantity=_at_threshold(sample.quantity(whose), part, sample, choose),
            missing="refuse" if outcome.missing is None else "worst",
        ),
        part=part.name,
        loss=loss,
        group=tuple((part.group or {}).items()),
    )


def measure_query(
    part: RequirementPart, query: BoundedQuery, *, limit: str, slack: str | None,
    gaps: str | None = None,
) -> tuple[Measure, Measure]:  # fmt: skip
    """Return the two one-sided requirements of one query, with their limit resolved.

    ``gaps`` is the outcome, where some records lack it and count all the same.
    """
    width = query.high - query.low
    quantity, said, apart = _asked(part, query, gaps), None, 0.0
    if query.per is not None:
        # Its limit is in what is averaged, and that must stay below 0.
        apart = number(limit)
        width, limit, said = 1.0, "0", promise(quantity, Form.QUERY.value, apart)
        quantity = replace(quantity, own="")  # shares of the largest excess are in no unit
    above, below = (
        Measure(
            requirement=requirement_of(
                part, -width, width, limit=limit, slack=slack, name=f"{query.name}{side}",
                form=Form.QUERY, indicator=bool(query.cell), quantity=quantity, promise=said,
            ),
            part=part.name,
            query=query,
            sign=sign,
            apart=apart,
            group=tuple((part.group or {}).items()),
        )
        for sign, side in zip((1.0, -1.0), SIDES, strict=True)
    )  # fmt: skip
    return above, below


def _at_threshold(
    quantity: LossWords, part: RequirementPart, loss: Loss, choose: Choose | None
) -> LossWords:
    """Return a loss of decisions with the threshold that they are made at."""
    if loss.name not in ("error", "cost"):  # of several classes the most probable one is decided
        return quantity
    if isinstance(part.threshold, str):
        at = f"at the decision threshold {part.threshold}"
    elif choose is not None:
        at = "at the decision threshold that each procedure chooses"
    else:
        return quantity
    return replace(quantity, words=f"{quantity.words}, {at},")


def _asked(part: RequirementPart, query: BoundedQuery, gaps: str | None) -> LossWords:
    """Return what a query asks for; all cells of a workload are asked for in one sentence."""
    if query.product:
        factors = " and ".join(
            f"{f.column!r} (less {f.centre:.10g}, divided by {f.scale:.10g})" for f in query.product
        )
        return LossWords(
            words=f"mean product of {factors}, cut to {query.low:.10g} to {query.high:.10g},"
        )
    if query.column is not None:
        words, own = _mean_words(query.column, query.low, query.high), part.own_unit
        if query.per is not None:
            per = query.per
            words += f" divided by the {_mean_words(per.column, per.low, per.high)}"
        return LossWords(words=words, own=own, unit=Unit(level=f" {own}") if own else NUMBER)
    tables = () if part.query is None else part.query.tables
    # Of the records that lack it nobody knows.
    known = gaps in [c for table in tables for c in table] or gaps in dict(query.cell)
    if not tables:
        kept = "known to have" if known else "with"
        return LossWords(
            words=f"share of records {kept} {group_name(dict(query.cell))}", unit=PERCENT
        )
    named = [" x ".join(map(repr, table)) for table in tables[:MOST_NAMED]]
    more = len(tables) - len(named)
    listed = ", ".join(named) + (f" and {more:,} more tables" if more else "")
    return LossWords(
        words=f"share of records {'known to be ' * known}in each cell of {listed}", unit=PERCENT
    )


def _mean_words(column: str, low: float, high: float) -> str:
    return f"mean of {column!r}, its values cut to {low:.10g} to {high:.10g},"


def measure_exposure(
    part: RequirementPart, attacking: ExposurePart, design: Design
) -> tuple[Measure, ...]:
    """Return the requirements of an exposure, one for each of its attacks.

    A release keeps the declared limit where every attack does, so that nothing is corrected for
    their number (theory, *Exposure*: E6).

    Parameters
    ----------
    part
        The requirement as declared.
    attacking
        How attacks see a row, and their settings.
    design
        How the target was sampled. Of iid records those that equal a member's are left out, as
        those outside a group are; on other designs there must be none (`audit.register`).
    """
    assert part.exposure is not None  # selected by the caller
    assert isinstance(part.limit, str)  # checked where it is declared
    names = part.attacks or ()
    ceiling, sample = number(part.limit), attacking.member_sample
    measures = []
    for name in names:
        question = ExposureQuestion(
            kind=part.exposure,
            attack=name,
            settings=attacking.settings(name),
            ceiling=ceiling,
            rule=part.threshold if isinstance(part.threshold, ThresholdRule) else None,
            fpr=None if part.fpr is None else number(part.fpr),
        )
        requirement = requirement_of(
            part,
            -1.0 if question.kind.is_difference else 0.0,
            1.0,
            # Of all thresholds that find so many members, the one with fewest false alarms must
            # still give more of them than allowed: the share that is not flagged stays below.
            limit=str(1 - Fraction(part.fpr)) if part.fpr is not None else part.limit,
            slack=None,
            name=part.name if len(names) == 1 else f"{part.name}: {name}",
            two_valued=question.kind is ExposureKind.TPR,
            indicator=question.kind.is_difference,
            thresholds=THRESHOLDS if question.kind is ExposureKind.EVERYWHERE else 1,
            member_error=0.0 if sample is None else number(sample.error),
            group=nonmembers_name(part.group) if isinstance(design, Iid) else None,
            promise=question.promise,
            # A name of the author's says nothing of what attacks: the kind stands beside it.
            attack=name if name == question.settings.kind else f"{name} ({question.settings.kind})",
        )
        measures.append(
            Measure(
                requirement=requirement, part=part.name, exposure=question,
                group=tuple((part.group or {}).items()),
            )
        )  # fmt: skip
    return tuple(measures)


def requirement_of(
    part: RequirementPart, low: float, high: float, *, limit: str, slack: str | None,
    name: str | None = None, form: Form | None = None, two_valued: bool = False,
    indicator: bool = False, thresholds: int = 1, member_error: float = 0.0,
    group: str | None = None, promise: str | None = None, attack: str | None = None,
    quantity: LossWords | None = None,
    missing: str = "refuse",
) -> Requirement:  # fmt: skip
    """Return a declared requirement with its bounds and with what its rules resolved to."""
    if group is None and part.group is not None:
        group = group_name(part.group)
    return Requirement(
        name=name or part.name,
        low=low,
        high=high,
        limit=number(limit),
        form=form or Form(part.form),
        two_valued=two_valued,
        indicator=indicator,
        thresholds=thresholds,
        member_error=member_error,
        slack=None if slack is None else number(slack),
        # A rule's width is in the part by now: `measures_of` puts it there.
        ramp=number(part.ramp) if isinstance(part.ramp, str) else None,
        group=group,
        promise=promise,
        attack=attack,
        quantity=quantity,
        missing=missing,
    )


def nonmembers_name(group: Mapping[str, str] | None) -> str:
    """Return what the records are called that equal no member's, of all or of a subgroup."""
    return NONMEMBERS if group is None else f"{NONMEMBERS}, of {group_name(group)}"


def group_name(group: Mapping[str, str]) -> str:
    """Return a subgroup's name: what its records have in common.

    Two groups have two names: a text that reads like a list of columns is quoted.

    Examples
    --------
    >>> group_name({"site": "north", "note": "a = b"})
    'site = north, note = "a = b"'
    """
    return ", ".join(f"{_quoted(column)} = {_quoted(label)}" for column, label in group.items())


def _quoted(text: str) -> str:
    plain = not any(mark in text for mark in (",", "=", '"'))
    return text if plain else json.dumps(text, ensure_ascii=False)


def loss_of(part: RequirementPart, outcome: Outcome, choose: Choose | None) -> LossMaker:
    """Return how the loss is made from a procedure's own decision threshold."""
    name = part.loss or ""
    if ":" in name:
        return _custom(part)
    kind, makers = _known_losses(part, outcome, choose)
    if name not in makers:
        raise RegistryError(
            f"{part.name}: there is no loss {found(name)} for {kind}; there are "
            f"{', '.join(sorted(makers))}, or your own by import path, module:function"
            f"{did_you_mean(name, makers)}"
        )
    return makers[name]


def _known_losses(
    part: RequirementPart, outcome: Outcome, choose: Choose | None
) -> tuple[str, dict[str, LossMaker]]:
    """Return what is predicted, in words, and the losses that there are for it, by name."""
    if outcome.kind == "regression":
        low, high = (number(end) for end in outcome.range or ("0", "1"))
        unit = part.unit or ""

        def told(loss: Loss) -> Loss:
            """Say in the requirement what the claim is about: the outcome as it was moved."""
            if not outcome.clip:
                return loss
            moved = f" (outcomes beyond {low:g} to {high:g} moved to its ends)"
            return replace(loss, words=f"{loss.words}{moved}")

        return "a number", {
            "squared": lambda _: told(squared_error(low=low, high=high, unit=unit)),
            "absolute": lambda _: told(absolute_error(low=low, high=high, unit=unit)),
            "pinball": lambda _: told(
                pinball(low=low, high=high, quantile=_quantile(part), unit=unit)
            ),
        }
    if outcome.kind == "multiclass":
        return "several classes", {
            "error": lambda _: multiclass_error(),
            "brier": lambda _: multiclass_brier(),
            "log": lambda _: multiclass_log(),
        }
    return "a binary outcome", {
        "error": lambda chosen: binary_error(_threshold(part, chosen, choose, 0.5)),
        "brier": lambda _: brier(),
        "log": lambda _: log_loss(),
        "cost": lambda chosen: decision_cost(
            false_negative=_false_negative(part, choose),
            threshold=_threshold(part, chosen, choose, None),
        ),
    }


def _quantile(part: RequirementPart) -> float:
    if part.quantile is None:
        raise RegistryError(f"{part.name}: a pinball loss needs its quantile")
    return number(part.quantile)


def _false_negative(part: RequirementPart, choose: Choose | None) -> float:
    cost = part.false_negative or (choose.false_negative if choose else None)
    if cost is None:
        raise RegistryError(f"{part.name}: a cost needs false_negative, here or in choose")
    return number(cost)


def _threshold(
    part: RequirementPart, chosen: float | None, choose: Choose | None, default: float | None
) -> float:
    """Return the declared threshold, or else the procedure's own, or else the default."""
    if isinstance(part.threshold, str):
        return number(part.threshold)
    if choose is not None and chosen is not None:
        return chosen
    if default is None:
        raise RegistryError(f"{part.name}: a cost needs a threshold, here or from procedure.choose")
    return default


def _custom(part: RequirementPart) -> LossMaker:
    low, high = number(str(part.low)), number(str(part.high))

    def values(outcome: ArrayLike, predicted: ArrayLike) -> Array:
        # Loaded where losses are computed: verifying a stranger's folder must not run its code.
        function = load_callable(str(part.loss))
        try:
            returned = function(outcome, predicted)
        except Exception as error:  # the code of others may break in any way
            # Without its words, which may repeat an outcome.
            raise LossError(
                f"{part.name}: {part.loss} raised {type(error).__name__}{where(error)}; mend the "
                "loss, and try it on arrays of your own"
            ) from error
        losses = np.asarray(returned, dtype=np.float64)
        if losses.shape != (np.asarray(outcome).shape[0],):
            raise LossMismatch(
                f"{part.name}: {part.loss} returned shape {losses.shape}, expected "
                f"{np.asarray(outcome).shape}, one value a record"
            )
        return losses

    unit = None if part.unit is None else own_unit(part.unit, low, high)
    return lambda _: Loss(
        str(part.loss), high, part.two_valued, values, low, unit=unit, own=part.own_unit
    )
