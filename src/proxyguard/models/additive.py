"""The model of the learner `default`: a curve for every number and a weight for every text, added.

It reads any table of the columns it was fitted on. A number, or a text that is one in the notation
of its column, adds the height of a curve; any other text adds its weight where it was frequent in
the fit, and nothing where it was not; what is missing has a weight of its own.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from proxyguard.documents.canonical import Plain
from proxyguard.errors import SealError
from proxyguard.exact.rounding import Array
from proxyguard.models.features import FeatureColumns, Features, FeatureTable
from proxyguard.models.learned import probabilities
from proxyguard.models.npy import Content, SmallIntegers, Stored, check_classes
from proxyguard.tables.notation import KNOWN

# The text of a missing value, a category of every column of text.
MISSING = ""


@dataclass(frozen=True, slots=True, eq=False)
class AdditiveModel(Stored):
    """A fitted sum of curves and weights: a logistic regression, or a regression.

    Two classes have one line, more have one each, and so has a number that is predicted.

    Parameters
    ----------
    columns
        What is read of a table.
    notations
        How each column writes numbers, by its name in `KNOWN`; nothing for a column of numbers
        and for one of texts that are none.
    counts
        ``(columns,)``, how many knots the curve of each column has; 0 where it has none.
    knots
        The knots of all curves, column by column, increasing in each.
    heights
        ``(lines, knots)``; between knots a curve is straight, beyond the last ones it is level.
    absent
        ``(lines, numbers)``, what a missing number adds.
    weights
        ``(lines, categories)``, feature by feature.
    intercept
        ``(lines,)``.
    classes_
        The classes, as whole numbers in order; empty where a number is predicted.
    """

    columns: FeatureColumns
    notations: tuple[str | None, ...]
    counts: SmallIntegers
    knots: Array
    heights: Array
    absent: Array
    weights: Array
    intercept: Array
    classes_: Array

    kind = "additive"
    integers = ("counts",)
    arrays = (*integers, "knots", "heights", "absent", "weights", "intercept", "classes_")

    def __post_init__(self) -> None:
        if self.classes_.size:
            check_classes(self.classes_)
        columns, lines = self.columns, self.classes_.size if self.classes_.size > 2 else 1
        width, known = len(columns.categories), self.knots.size
        self.check_shapes(classes_=(self.classes_.size,), counts=(width,), intercept=(lines,))
        self.check_shapes(knots=(known,), heights=(lines, known))
        self.check_shapes(absent=(lines, len(columns.numbers)), weights=(lines, columns.n_codes))
        if len(self.notations) != width or np.any(self.counts < 0) or self.counts.sum() != known:
            raise SealError("there is not one notation and one curve for each feature")
        texts = set(columns.texts)
        if any(name is not None and k not in texts for k, name in enumerate(self.notations)):
            raise SealError("a column of numbers has a notation, which texts have")
        for k, curve in enumerate(self._curves()):
            if np.any(~np.isfinite(curve)) or np.any(np.diff(curve) <= 0.0):
                raise SealError("the knots of a curve do not increase")
            if curve.size and k in texts and self.notations[k] is None:
                raise SealError("a column of texts that are no numbers has a curve")

    def _curves(self) -> list[Array]:
        return np.split(self.knots, np.cumsum(self.counts)[:-1])

    def predict_proba(self, table: FeatureTable) -> Array:
        """Return the probability of every class, ``(n, classes)``.

        Raises
        ------
        ValueError
            If the table has other columns, or a number is predicted and no class.
        """
        if not self.classes_.size:
            raise ValueError("the model was fitted to a number, and has no classes")
        return probabilities(self._scores(table).T)

    def predict(self, table: FeatureTable) -> Array:
        """Return the predicted number of every record, or its most likely class.

        Raises
        ------
        ValueError
            If the table has other columns.
        """
        if self.classes_.size:
            return np.asarray(self.classes_[self.predict_proba(table).argmax(axis=1)])
        return np.asarray(self._scores(table)[0])

    def _scores(self, table: FeatureTable) -> Array:
        """Return the score of every line, ``(lines, n)``."""
        features = Features.of(table)
        self.columns.check(features)
        scores = np.tile(self.intercept[:, None], (1, len(features)))
        numbers = iter(self.absent.T)
        starts = np.cumsum(self.counts) - self.counts
        weight = 0
        for k, curve in enumerate(self._curves()):
            heights = self.heights[:, starts[k] : starts[k] + curve.size]
            known = self.columns.categories[k]
            if known is None:
                scores += _along(curve, heights, features.number(k), next(numbers))
            else:
                scores += self._of_texts(
                    features, k, curve, heights, self.weights[:, weight : weight + len(known)]
                )
                weight += len(known)
        if not np.isfinite(scores).all():
            raise ValueError("the sum of its curves and weights is more than a double holds")
        return scores

    def _of_texts(
        self, features: Features, k: int, curve: Array, heights: Array, weights: Array
    ) -> Array:
        """Return what the texts of a column add, each different one worked out once."""
        category, codes = self.columns.coded(features, k)
        nothing = np.zeros((len(weights), 1))
        added = np.append(weights, nothing, axis=1).take(category, axis=1)
        notation = self.notations[k]
        if curve.size and notation is not None:
            read = features.written(k, KNOWN[notation])
            numeric = ~np.isnan(read)
            added[:, numeric] = _along(curve, heights, read[numeric], nothing[:, 0])
        return added.take(codes, axis=1)

    def words(self) -> dict[str, Plain]:
        """Return its columns and their notations as plain values."""
        return {**self.columns.to_words(), "notations": self.notations}

    @classmethod
    def from_words(cls, content: Content) -> dict[str, object]:
        """Return its columns and their notations."""
        notations = content.word("notations")
        if not isinstance(notations, list) or any(
            name is not None and (not isinstance(name, str) or name not in KNOWN)
            for name in notations
        ):
            raise SealError(f"notations must be a list of names among {', '.join(KNOWN)}")
        return {"columns": FeatureColumns.of(content), "notations": tuple(notations)}


def _along(curve: Array, heights: Array, numbers: Array, absent: Array) -> Array:
    """Return the height of every line's curve at numbers, and what a missing one adds."""
    added = np.zeros((len(heights), numbers.size))
    for line, height in zip(added, heights, strict=True):
        if curve.size:
            line[:] = np.interp(numbers, curve, height)
    added[:, np.isnan(numbers)] = absent[:, None]
    return added
