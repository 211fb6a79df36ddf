"""The learner `default`: takes any table as it is, for classes and for numbers.

Every column is made one of two things, or both. What is a number, or a text that writes one or a
date, gets a curve, straight between quantiles and level beyond them. Every other text that is
frequent enough gets a weight. What is missing has a weight too. So ids, free text and constant
columns do no harm, a category that training did not have adds nothing, and no number is too large.
The curves and weights are those of a logistic regression, or of a ridge regression where a number
is predicted.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve
from sklearn.linear_model import LogisticRegression

from proxyguard.draw.protocol import Inputs, Seed
from proxyguard.exact.rounding import Array
from proxyguard.models.features import FeatureColumns, Features
from proxyguard.models.learned import MISSING, AdditiveModel
from proxyguard.tables.notation import KNOWN, recognised

if TYPE_CHECKING:
    from proxyguard.registry.target import Outcome

# Straight pieces of a curve, at most; fewer where there are many columns.
PIECES = 16
# Pieces of all curves together, as long as each has one.
WIDTH = 400
# Texts of a column that have a weight, at most: the most frequent ones.
TEXTS = 30
# Records that a text with a weight has, at least.
FREQUENT = 5
# Numbers beyond this are as far as a number goes: differences of knots stay finite.
FAR = 1e150


class _Encoded(NamedTuple):
    """What one column adds to the design: its curve's pieces, then its texts or what is missing."""

    knots: Array
    categories: tuple[str, ...] | None
    notation: str | None
    pieces: Array  # (n, knots - 1), centred: the mean number adds nothing, as a missing one
    means: Array
    texts: Array  # (n, categories), or (n, 1) for missing numbers


@dataclass(frozen=True)
class Additive:
    """An unfitted additive model.

    Parameters
    ----------
    classes
        Whether classes are predicted, or a number.
    as_written
        Columns of text that hold no numbers and no dates, whatever they look like.
    """

    classes: bool
    as_written: frozenset[str] = frozenset()

    def fit(self, x: Inputs, y: Array) -> AdditiveModel:
        """Return the fitted model.

        Raises
        ------
        ValueError
            If there is no column to predict from, or an outcome is not finite.
        """
        features = Features.of(x)
        width = features.table.shape[1]
        if width == 0:
            raise ValueError("there is no column to predict from")
        pieces, names = max(1, min(PIECES, WIDTH // width)), features.names or ("",) * width
        encoded = [
            _encode(features, k, pieces, recognise=name not in self.as_written)
            for k, name in enumerate(names)
        ]
        blocks = [block for column in encoded for block in (column.pieces, column.texts)]
        # Of a table of constants nothing is left: the column of zeros has no weight.
        design = np.concatenate([*blocks, np.zeros((len(features), 1))], axis=1)
        if self.classes:
            model = LogisticRegression(max_iter=2000).fit(design, y)
            lines, intercept = model.coef_, model.intercept_
            classes = np.asarray(model.classes_, dtype=np.float64)
        else:
            lines, intercept = _ridge(design, y)
            classes = np.empty(0)
        return _model(features, encoded, lines, np.array(intercept, dtype=np.float64), classes)


def _encode(features: Features, k: int, pieces: int, *, recognise: bool) -> _Encoded:
    """Return what a column adds to the design."""
    frame = features.frame
    if frame is None or frame.dtypes.iloc[k].kind in "fiub":
        numbers = np.clip(features.number(k), -FAR, FAR)
        gaps = np.isnan(numbers)
        knots, steps, means = _curve(numbers, ~gaps, pieces)
        return _Encoded(knots, None, None, steps, means, gaps[:, None].astype(np.float64))
    texts, codes = features.codes(k)
    counts = np.bincount(codes, minlength=len(texts))
    held = [j for j, text in enumerate(texts) if text]
    notation = None
    if held and recognise:
        notation = recognised([texts[j] or "" for j in held], counts[held].tolist())
    read = np.full(len(texts), np.nan)
    if notation is not None:
        read = np.clip(features.written(k, KNOWN[notation]), -FAR, FAR)
    knots, steps, means = _curve(read[codes], ~np.isnan(read[codes]), pieces)
    plain = [j for j in held if np.isnan(read[j]) and counts[j] >= FREQUENT]
    plain.sort(key=lambda j: (-counts[j], texts[j]))
    categories = tuple(sorted({MISSING, *(texts[j] or "" for j in plain[:TEXTS])}))
    place = {text: number for number, text in enumerate(categories)}
    number = np.array([-1 if text is None else place.get(text, -1) for text in texts])[codes]
    onehot = (number[:, None] == np.arange(len(categories))).astype(np.float64)
    return _Encoded(knots, categories, notation, steps, means, onehot)


def _curve(numbers: Array, known: NDArray[np.bool_], pieces: int) -> tuple[Array, Array, Array]:
    """Return knots, how far each record is along each piece, and the means of that."""
    seen = numbers[known]
    levels = np.unique(seen)
    if levels.size > pieces + 1:
        # Of the records, and of what is left where most of them have one number.
        ends = np.linspace(0.0, 1.0, pieces // 2 + 1)
        levels = np.unique([*np.quantile(seen, ends), *np.quantile(levels, ends)])
    # Knots closer than that would make a piece steeper than a double.
    apart = np.diff(levels, prepend=-np.inf) > 1e-9 * np.ptp(levels) if levels.size else levels > 0
    knots = levels[apart]
    if knots.size < 2:
        return np.empty(0), np.empty((numbers.size, 0)), np.empty(0)
    steps = np.clip((numbers[:, None] - knots[:-1]) / np.diff(knots), 0.0, 1.0)
    means = steps[known].mean(axis=0)
    return knots, np.where(known[:, None], steps - means, 0.0), means


def _ridge(design: Array, y: Array) -> tuple[Array, Array]:
    """Return one line of coefficients and its intercept, for outcomes of any unit."""
    mean, scale = float(np.mean(y)), float(np.std(y)) or 1.0
    centre = design.mean(axis=0)
    centred = design - centre
    gram = centred.T @ centred
    gram.flat[:: len(gram) + 1] += 1.0
    w = scale * solve(gram, centred.T @ ((y - mean) / scale), assume_a="pos")
    return w[None, :], np.array([mean - centre @ w])


def _model(
    features: Features,
    encoded: list[_Encoded],
    lines: Array,
    intercept: Array,
    classes: Array,
) -> AdditiveModel:
    """Return the model of these coefficients, which stand in the order of the design."""
    heights, absent, weights = ([np.empty((len(lines), 0))] for _ in range(3))
    ends = accumulate((c.pieces.shape[1] + c.texts.shape[1] for c in encoded), initial=0)
    for start, column in zip(ends, encoded, strict=False):
        middle = start + column.pieces.shape[1]
        slopes, others = lines[:, start:middle], lines[:, middle : middle + column.texts.shape[1]]
        if column.knots.size:
            climbed = np.concatenate([np.zeros((len(lines), 1)), slopes.cumsum(axis=1)], axis=1)
            heights.append(climbed - (slopes @ column.means)[:, None])
        (absent if column.categories is None else weights).append(others)
    return AdditiveModel(
        columns=FeatureColumns(features.names, tuple(column.categories for column in encoded)),
        notations=tuple(column.notation for column in encoded),
        counts=np.array([column.knots.size for column in encoded], dtype=np.int32),
        knots=np.concatenate([column.knots for column in encoded]),
        heights=np.concatenate(heights, axis=1),
        absent=np.concatenate(absent, axis=1),
        weights=np.concatenate(weights, axis=1),
        intercept=intercept,
        classes_=classes,
    )


class AnyTable:
    """The procedure ``default``: one learner for classes, another for numbers."""

    __name__ = "default"  # it stands where the other procedures are functions

    def for_outcome(
        self, outcome: Outcome, as_written: Collection[str]
    ) -> Callable[[Seed], Additive]:
        """Return the maker of estimators for an outcome; they take no seed."""
        fixed = Additive(outcome.kind != "regression", frozenset(as_written))
        return lambda seed: fixed

    def __call__(self, seed: Seed) -> Additive:
        """Return the unfitted learner of classes."""
        return Additive(classes=True)


default = AnyTable()
