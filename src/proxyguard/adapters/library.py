"""The paper's learning procedure: fit a library of pipelines, calibrate, choose one."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Protocol, cast, runtime_checkable

import numpy as np

from proxyguard.documents.registry import RegisteredProcedure
from proxyguard.draw.catalog import LEARNERS, find_pipeline, load_callable, origin
from proxyguard.draw.protocol import Fitted, Inputs, Seed, features, outcomes, predict, temper
from proxyguard.errors import DrawError
from proxyguard.exact.rounding import Array
from proxyguard.registry.fields import number
from proxyguard.registry.parts import Procedure
from proxyguard.registry.target import DeclaredColumns, Outcome

if TYPE_CHECKING:
    import pandas as pd


# The note by which a pipeline is chosen: its validation loss.
LOSS = "loss"


class Unfitted(Protocol):
    """An estimator, ours or scikit-learn's, before it is fitted."""

    def fit(self, x: Inputs, y: Array, /) -> object:
        """Return what was fitted; nothing, or itself, where it fits itself."""


MakeEstimator = Callable[[Seed], Unfitted]


@runtime_checkable
class PreparedPipeline(Protocol):
    """A pipeline that learns from the training part what the fits of all releases share."""

    def prepare(self, x: Inputs, /) -> MakeEstimator:
        """Return what makes its estimators."""


@runtime_checkable
class OfOutcome(Protocol):
    """A pipeline that is another one for classes than for numbers."""

    def for_outcome(self, outcome: Outcome, as_written: Collection[str], /) -> MakeEstimator:
        """Return what makes its estimators; texts of some columns are never numbers."""


class Library:
    """Fit every pipeline, set its threshold on validation data, keep the cheapest.

    Ties go to the name that comes first in the alphabet. Without a rule for thresholds the
    pipeline with the least validation Brier score, or squared error, is kept.

    A pipeline of ours may have ``prepare(x)``, which learns from the features of the training
    part what the fits of all releases share (a vocabulary, say) and returns the function that
    makes its estimators. Where `prepare` was not called, each fit prepares from its own table:
    so does the source's fit, whose table is the training part.

    Parameters
    ----------
    declared
        The declared procedure: its library, and what is chosen how.
    outcome
        What is predicted.
    names
        The columns that it is predicted from.
    columns
        How columns are declared to be read.
    """

    def __init__(
        self,
        declared: Procedure,
        outcome: Outcome,
        names: Sequence[str],
        columns: DeclaredColumns | None = None,
    ) -> None:
        self._declared, self._outcome, self._features = declared, outcome, tuple(names)
        texts = (name for name, part in (columns or {}).items() if part.holds == "text")
        self._as_written = frozenset(texts)
        self._makers: Mapping[str, MakeEstimator] | None = None

    def describe(self) -> RegisteredProcedure:
        """Return the settings and where each pipeline comes from."""
        return RegisteredProcedure(
            procedure=self._declared,
            pipelines={name: origin(name, "procedure") for name in self._declared.library},
            features=self._features,
        )

    @property
    def prepares(self) -> bool:
        """Whether a pipeline learns something from the training part that all fits share."""
        return any(isinstance(pipeline, PreparedPipeline) for pipeline in self._ours.values())

    def prepare(self, training: pd.DataFrame) -> None:
        """Learn from the training part, once, what the fits of all releases share."""
        self._makers = self._prepared_on(training)

    @cached_property
    def _ours(self) -> dict[str, object]:
        """Our pipelines by name; looking a name up reads every installed package."""
        return {name: find_pipeline(name) for name in self._declared.library if ":" not in name}

    def _prepared_on(self, training: pd.DataFrame) -> dict[str, MakeEstimator]:
        """Return what makes an estimator of each of our pipelines, prepared on this table."""
        makers: dict[str, MakeEstimator] = {
            name: cast("MakeEstimator", pipeline) for name, pipeline in self._ours.items()
        }
        for name, pipeline in self._ours.items():
            if isinstance(pipeline, OfOutcome):
                makers[name] = pipeline.for_outcome(self._outcome, self._as_written)
        if self.prepares:
            x = features(training, self._features)
            for name, pipeline in self._ours.items():
                if isinstance(pipeline, PreparedPipeline):
                    makers[name] = pipeline.prepare(x)
        return makers

    def fit(
        self,
        table: pd.DataFrame,
        validation: pd.DataFrame | None,
        seed: Seed,
        *,
        source: bool = False,
    ) -> Fitted:
        """Return the chosen pipeline, fitted on the table.

        Parameters
        ----------
        table
            A release, or the training part.
        validation
            The validation part of development, where there is one.
        seed
            The seed of the draw, which also notes what the fits take it for.
        source
            Whether the table is the training part. The source has the validation part of
            development; only a release may be declared to set records of its own aside.

        Raises
        ------
        DrawError
            If the table has one class only, cannot be divided, or a pipeline cannot be made,
            cannot be fitted or gives no probabilities.
        TableError
            If an outcome is not as declared, or a feature is missing.
        """
        # Here and not above: verifying a certificate needs this file and no scikit-learn.
        from proxyguard.adapters.pipelines import make_estimator

        makers = self._prepared_on(table) if self._makers is None else self._makers
        if self._declared.validation != "development" and self._chooses and not source:
            table, validation = self._divide(table, seed)
        x, y = self.taken(table, "training" if source else "the release")
        fitted = []
        for name in sorted(self._declared.library):
            try:
                estimator = (
                    makers[name](seed)
                    if name in makers
                    else make_estimator(name, self._declared.options, seed)
                )
            except TypeError as error:
                raise DrawError(f"pipeline {name!r} does not take its options: {error}") from error
            try:
                model = estimator.fit(x, y)
            except (ValueError, TypeError) as error:
                raise DrawError(f"pipeline {name!r} cannot be fitted: {_why(error, x)}") from error
            # Ours return a model of plain numbers, which is stored and read without trust in any
            # code; an estimator of scikit-learn fits itself.
            chosen = estimator if model is None else model
            if self._outcome.kind != "regression" and not hasattr(chosen, "predict_proba"):
                raise DrawError(f"pipeline {name!r} gives no probabilities (predict_proba)")
            fitted.append(self._settle(name, chosen, validation))
        # min keeps the first of equals, and the pipelines were fitted in the order of the alphabet.
        return min(fitted, key=lambda procedure: procedure.notes.get(LOSS, 0.0))

    def taken(self, table: pd.DataFrame, what: str = "the release") -> tuple[Inputs, Array]:
        """Return what is learned from, and what is; a table that cannot be is refused by it."""
        y = outcomes(table[self._outcome.column], self._outcome, what)
        if self._outcome.kind != "regression" and np.all(y == y[:1]):
            raise DrawError(f"{what} has one class only, so nothing can be learned from it")
        x = features(table, self._features)
        for name in self._declared.library:
            check_takes(name, x, self._features, self._outcome)
        return x, y

    def trusted(self) -> Sequence[str]:
        """Return the types of estimators that the declaration itself names."""
        kinds = [load_callable(name) for name in self._declared.library if ":" in name]
        named = [f"{kind.__module__}.{kind.__qualname__}" for kind in kinds]
        return [*named, *self._declared.trusted]

    @property
    def _chooses(self) -> bool:
        declared = self._declared
        several = len(declared.library) > 1
        return several or declared.choose is not None or declared.calibrate != "none"

    def _divide(self, table: pd.DataFrame, seed: Seed) -> tuple[pd.DataFrame, pd.DataFrame]:
        """Set a fifth of the release aside to choose on: class by class, or its end."""
        if self._declared.validation == "end of release":
            return last_fifth(table)
        y = outcomes(table[self._outcome.column], self._outcome, "the release")
        classes = y if self._outcome.kind != "regression" else None
        return split_table(table, classes, 0.2, seed.take("validation part of the release"))

    def _settle(self, name: str, estimator: object, validation: pd.DataFrame | None) -> Fitted:
        """Calibrate and choose the threshold of one fitted pipeline."""
        plain = Fitted(estimator=estimator, selected=name)
        if not self._chooses or validation is None:
            return plain
        y = outcomes(validation[self._outcome.column], self._outcome, "validation")
        p = predict(plain, features(validation, self._features), self._outcome)
        temperature = None
        if self._declared.calibrate == "temperature":
            temperature = best_temperature(y, p)
            p = temper(p, temperature)
        choose = self._declared.choose
        if choose is None:
            return replace(plain, temperature=temperature, notes={LOSS: _distance(y, p)})
        weight = number(choose.false_negative) if choose.loss == "cost" else 1.0
        threshold, loss = best_threshold(y, p, weight, choose.thresholds)
        return replace(plain, threshold=threshold, temperature=temperature, notes={LOSS: loss})


def _why(error: Exception, x: Inputs) -> str:
    """Return why a pipeline was not fitted, and which of ours would be, in one line.

    Where it is plain that columns hold what it does not take, they are named; libraries would
    rather name a value.
    """
    # Features are an array where all of them are numbers.
    plain = isinstance(x, np.ndarray) and bool(np.isfinite(x).all())
    if plain:
        return " ".join(str(error).split())
    # Without the words of a library, which may repeat a value.
    return f"some features hold text, missing or infinite values; {ANY}"


# What to write where a learner cannot be fitted.
ANY = 'write library = ["default"], which takes any table'


def check_takes(name: str, x: Inputs, columns: Sequence[str], outcome: Outcome) -> None:
    """Refuse what a learner of ours does not take, by column; of others nothing is known.

    Raises
    ------
    DrawError
        It says the column and what to write instead.
    """
    takes = LEARNERS.get(name)
    if takes is None:
        return
    if outcome.kind not in takes.outcomes:
        kinds = {"regression": "a number", "multiclass": "one of several classes"}
        raise DrawError(
            f"the learner {name!r} does not predict {kinds[outcome.kind]}, which "
            f"{outcome.column!r} is; {ANY}"
        )
    for k, column in enumerate(columns):
        values = x[:, k] if isinstance(x, np.ndarray) else x.iloc[:, k].to_numpy()
        text = values.dtype.kind not in "fiub"
        if text and not takes.text:
            remedy = f"exclude it, or {ANY}"
            what = "text"
        elif not text and not takes.numbers:
            remedy, what = f'say [columns] kind = "category", or {ANY}', "numbers"
        elif not text and not takes.missing and bool(np.isnan(values).any()):
            remedy, what = f"mend it, or {ANY}", "missing values"
        elif not text and not takes.infinite and bool(np.isinf(values).any()):
            remedy, what = f"mend it, or {ANY}", "infinite values"
        else:
            continue
        raise DrawError(
            f"column {column!r} has {what}, which the learner {name!r} does not take; {remedy}"
        )


def best_threshold(y: Array, p: Array, weight: float, count: int) -> tuple[float, float]:
    """Return the first of equispaced thresholds with the least cost, and that mean cost.

    The cost is ``weight`` for a missed positive and 1 for a false alarm, divided by the
    larger of them.

    Parameters
    ----------
    y
        Outcomes, 0 or 1.
    p
        Probabilities of 1.
    weight
        The cost of a missed positive.
    count
        How many thresholds there are from 0 to 1, both among them.

    Examples
    --------
    >>> best_threshold(np.array([0.0, 1.0]), np.array([0.2, 0.6]), 5.0, 11)
    (0.30000000000000004, 0.0)
    """
    grid = np.linspace(0.0, 1.0, count)
    positive, negative = np.sort(p[y > 0.5]), np.sort(p[y < 0.5])
    # A score at the threshold is called positive: both counts are of scores below it.
    missed = np.searchsorted(positive, grid, side="left")
    alarms = negative.size - np.searchsorted(negative, grid, side="left")
    costs = weight * missed + alarms
    best = int(np.argmin(costs))
    return float(grid[best]), float(costs[best]) / (max(weight, 1.0) * y.size)


def best_temperature(y: Array, p: Array) -> float:
    """Return the temperature with the least log loss."""
    from scipy.optimize import minimize_scalar

    def loss(log_temperature: float) -> float:
        q = np.clip(temper(p, float(np.exp(log_temperature))), 1e-12, 1.0 - 1e-12)
        return float(-np.mean(np.where(y > 0.5, np.log(q), np.log1p(-q))))

    # Bounded: where scores separate the classes, the loss falls for ever as the temperature does.
    least = minimize_scalar(loss, bounds=(-4.0, 4.0), method="bounded")
    return float(np.exp(least.x))


def split_table(
    table: pd.DataFrame, classes: Array | None, fraction: float, seed: int
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return two parts of a table, the second with this share of every class.

    Parameters
    ----------
    table
        The table; its rows are shuffled.
    classes
        What is to be divided evenly; nothing where every row is alike.
    fraction
        The share of the second part.
    seed
        What the division is made from.

    Raises
    ------
    DrawError
        If a class has too few rows to be in both parts.
    """
    from sklearn.model_selection import train_test_split

    try:
        # scikit-learn takes 32 bits of a seed.
        first, second = train_test_split(
            table, test_size=fraction, random_state=seed % 2**32, stratify=classes
        )
    except ValueError as error:
        raise DrawError(f"the table cannot be divided: {error}") from error
    return first.reset_index(drop=True), second.reset_index(drop=True)


def last_fifth(table: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return a table in two parts, the second with the last fifth of its rows, rounded up."""
    end = 4 * len(table) // 5
    if end == 0:
        raise DrawError(f"a release of {len(table)} rows has no last fifth to choose on")
    return table.iloc[:end].reset_index(drop=True), table.iloc[end:].reset_index(drop=True)


def _distance(y: Array, p: Array) -> float:
    """Return the Brier score or the squared error, for choosing among pipelines."""
    if p.ndim == 1:
        return float(np.mean((p - y) ** 2))
    hit = np.zeros_like(p)
    hit[np.arange(y.size), y.astype(int)] = 1.0
    return float(np.mean(((p - hit) ** 2).sum(axis=1)) / 2.0)
