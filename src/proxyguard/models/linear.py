"""Logistic regression: scaled numbers and coded texts, one line a class."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import expit, softmax

from proxyguard.models.features import Columns, Features, Table
from proxyguard.models.npy import Array, Content, Plain, Stored, check_classes


@dataclass(frozen=True, slots=True, eq=False)
class LinearModel(Stored):
    """A fitted logistic regression.

    Numbers are filled in where they are missing, shifted by ``mean`` and divided by ``scale``.
    Each text adds the coefficient of its category, an unknown one nothing. Two classes have
    one line, more have one each.

    Parameters
    ----------
    columns
        What is read of a table.
    fill, mean, scale
        One of each for every number; NaN in ``fill`` where a missing number is refused.
    coefficients
        ``(lines, width)``: those of the categories, feature by feature, then those of numbers.
    intercept
        ``(lines,)``.
    classes_
        The classes, as whole numbers in order, with scikit-learn's name for them.
    """

    columns: Columns
    fill: Array
    mean: Array
    scale: Array
    coefficients: Array
    intercept: Array
    classes_: Array

    kind = "linear"
    arrays = ("fill", "mean", "scale", "coefficients", "intercept", "classes_")

    def __post_init__(self) -> None:
        check_classes(self.classes_)
        lines = 1 if self.classes_.size == 2 else self.classes_.size
        count = len(self.columns.numbers)
        self.check_shapes(fill=(count,), mean=(count,), scale=(count,), intercept=(lines,))
        self.check_shapes(coefficients=(lines, self.columns.n_codes + count))

    def predict_proba(self, table: Table) -> Array:
        """Return the probability of every class, ``(n, classes)``.

        Raises
        ------
        ValueError
            If the table has other columns, or a number is missing, infinite, or so once it is
            scaled.
        """
        features = Features.of(table)
        self.columns.check(features)
        scores = self._scores(features)
        if self.classes_.size > 2:
            return np.asarray(softmax(scores.T, axis=1))
        positive = expit(scores[0])
        return np.stack([1.0 - positive, positive], axis=1)

    def _scores(self, features: Features) -> Array:
        """Return the score of every line, ``(lines, n)``, in scikit-learn's order of addition."""
        if not self.columns.texts:
            return (self._scaled(features) @ self.coefficients.T + self.intercept).T
        scores = np.zeros((self.intercept.size, len(features)))
        # The last weight, 0, is that of a text that is no category.
        weights = np.append(self.coefficients, np.zeros((len(scores), 1)), axis=1)
        start = 0
        for place in self.columns.texts:
            known = self.columns.categories[place] or ()
            numbers: dict[str | None, int] = dict(
                zip(known, range(start, start + len(known)), strict=True)
            )
            start += len(known)
            distinct, codes = features.codes(place)
            which = [numbers.get(text, -1) for text in distinct]
            for line, weight in zip(scores, weights, strict=True):
                line += weight.take(which).take(codes)
        if self.columns.numbers:
            scores += (self._scaled(features) @ self.coefficients[:, start:].T).T
        scores += self.intercept[:, None]
        return scores

    def _scaled(self, features: Features) -> Array:
        scaled = self.columns.filled(features, self.fill).copy(order="K")
        with np.errstate(over="ignore"):
            scaled -= self.mean
            scaled /= self.scale
        if not np.isfinite(scaled).all():
            raise ValueError("a number is infinity once it is scaled as in training")
        return scaled

    def words(self) -> dict[str, Plain]:
        """Return its columns as plain values."""
        return self.columns.to_words()

    @classmethod
    def from_words(cls, content: Content) -> dict[str, object]:
        """Return its columns."""
        return {"columns": Columns.of(content)}
