"""The four models that a fit of this package ends in: how each is stored, and how it predicts.

Naive Bayes counts how often the terms of a fixed vocabulary occur in one column of text; logistic
regression adds scaled numbers and coded texts, one line a class; forests and boosted trees add up
the leaves that a record reaches. The model of the learner `default` reads any table of the columns
it was fitted on: a number, or a text that is one in the notation of its column, adds the height of
a curve; any other text adds its weight where it was frequent in the fit, and nothing where it was
not; what is missing has a weight of its own.

A model that was read is checked before it predicts: its arrays fit together, whoever wrote them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, softmax

from proxyguard.documents.canonical import Plain
from proxyguard.errors import SealError
from proxyguard.exact.rounding import Array
from proxyguard.models.features import FeatureColumns, Features, FeatureTable
from proxyguard.models.npy import Content, SmallIntegers, Stored, check_classes, checked_texts
from proxyguard.tables.notation import KNOWN


@dataclass(frozen=True, slots=True, eq=False)
class BayesModel(Stored):
    """Fitted multinomial naive Bayes.

    Parameters
    ----------
    column
        The name of the text column, the only feature.
    terms
        The words that are counted, in lower case.
    term_logs
        ``(classes, terms)``, the logarithm of each term's share of a class.
    class_logs
        ``(classes,)``, the logarithm of each class's share.
    classes_
        The classes, as whole numbers in order.
    """

    column: str
    terms: tuple[str, ...]
    term_logs: Array
    class_logs: Array
    classes_: Array

    kind = "bayes"
    arrays = ("term_logs", "class_logs", "classes_")

    def __post_init__(self) -> None:
        check_classes(self.classes_)
        count = self.classes_.size
        self.check_shapes(term_logs=(count, len(self.terms)), class_logs=(count,))
        if not (np.isfinite(self.term_logs).all() and np.isfinite(self.class_logs).all()):
            raise SealError("a logarithm of a share is not finite")

    def predict_proba(self, table: FeatureTable) -> Array:
        """Return the probability of every class, ``(n, classes)``; each different text's once.

        Raises
        ------
        ValueError
            If the table is another column or more of them, or a text is missing.
        """
        features = Features.of(table)
        if features.names != (self.column,):
            raise ValueError(
                f"the feature names are {features.names}, and the model was fitted on one column "
                f"of text, {self.column!r}"
            )
        counts = features.counts(0, self.terms)
        joint = (counts @ self.term_logs.T + self.class_logs).T.copy()
        # log(sum(exp(joint))) for each text, exact where one class is far more likely.
        *others, largest = np.sort(joint, axis=0)
        rest = np.log1p(np.exp(others - largest).sum(axis=0))
        _, codes = features.codes(0)
        return np.asarray(np.exp(joint - (rest + largest))).take(codes, axis=1).T

    def words(self) -> dict[str, Plain]:
        """Return its texts."""
        return {"column": self.column, "terms": self.terms}

    @classmethod
    def from_words(cls, content: Content) -> dict[str, object]:
        """Return its texts."""
        (column,) = checked_texts([content.word("column")], "column")
        return {"column": column, "terms": checked_texts(content.word("terms"), "terms")}


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

    columns: FeatureColumns
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

    def predict_proba(self, table: FeatureTable) -> Array:
        """Return the probability of every class, ``(n, classes)``.

        Raises
        ------
        ValueError
            If the table has other columns, or a number is missing, infinite, or so once it is
            scaled.
        """
        features = Features.of(table)
        self.columns.check(features)
        return probabilities(self._scores(features).T)

    def _scores(self, features: Features) -> Array:
        """Return the score of every line, ``(lines, n)``, in scikit-learn's order of addition."""
        if not self.columns.texts:
            return (self._scaled(features) @ self.coefficients.T + self.intercept).T
        scores = np.zeros((self.intercept.size, len(features)))
        # The last weight, 0, is that of a text that is no category.
        weights = np.append(self.coefficients, np.zeros((len(scores), 1)), axis=1)
        start = 0
        # Text by text and then the numbers, as scikit-learn adds them: sums in another order differ
        # in their last digit, and a release is compared by its predictions.
        for position in self.columns.texts:
            numbers, codes = self.columns.coded(features, position)
            which = np.where(numbers < 0, -1, start + numbers)
            start += len(self.columns.categories[position] or ())
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
        return {"columns": FeatureColumns.of(content)}


# Codes of records that are held at once: 128 MB of doubles.
CODES = 1 << 24
# The most questions on the way to a leaf; a forged tree could otherwise ask for hours.
DEEPEST = 1000


class Sum(StrEnum):
    """What the sum over all trees is."""

    SHARES = "shares"  # of the classes, of each tree; their mean is the forest's
    LOGITS = "logits"  # one for two classes, else one a class


@dataclass(frozen=True, slots=True, eq=False)
class TreeModel(Stored):
    """A fitted forest, or fitted boosted trees.

    The inner nodes of all trees stand in one sequence, and so do all leaves. A child of an
    inner node is an inner node after it, by number, or the leaf ``k`` as ``-1 - k``; so there
    is an end to every way down.

    Parameters
    ----------
    columns
        What is read of a table.
    fill
        One for every number; NaN where a missing number is refused.
    total
        What the leaves add up to.
    roots
        ``(trees,)``, where each tree begins: an inner node or a leaf.
    feature, threshold
        ``(inner nodes,)``; a record goes to the second child where its encoded feature is above
        the threshold. The features of a forest are rounded to 32 bits first, as in its fit.
    children
        ``(inner nodes, 2)``.
    leaves
        ``(leaves, shares or logits)``.
    start
        What the sum begins with, one for each share or logit.
    classes_
        The classes, as whole numbers in order.
    """

    columns: FeatureColumns
    fill: Array
    total: Sum
    roots: SmallIntegers
    feature: SmallIntegers
    threshold: Array
    children: SmallIntegers
    leaves: Array
    start: Array
    classes_: Array

    kind = "trees"
    integers = ("roots", "feature", "children")
    arrays = ("fill", "threshold", "leaves", "start", "classes_", *integers)

    def __post_init__(self) -> None:
        check_classes(self.classes_)
        width = self.classes_.size
        if self.total is Sum.LOGITS and width == 2:
            width = 1
        inner, numbers = self.feature.size, len(self.columns.numbers)
        self.check_shapes(fill=(numbers,), roots=(self.roots.size,), feature=(inner,))
        self.check_shapes(threshold=(inner,), children=(inner, 2), start=(width,))
        self.check_shapes(leaves=(len(self.leaves), width))
        if self.roots.size == 0:
            raise SealError("there is no tree")
        features = self.columns.n_codes + numbers
        if np.any((self.feature < 0) | (self.feature >= features)):
            raise SealError(f"a tree asks for a feature that is none of the {features}")
        # A forged tree with a way back up would be walked for ever.
        after = (self.children < 0) | (self.children > np.arange(inner)[:, None])
        if not after.all():
            raise SealError("a child stands before its parent, so that a way down has no end")
        for nodes in (self.roots, self.children):
            if np.any((nodes >= inner) | (nodes < -len(self.leaves))):
                raise SealError("a tree leads to a node or a leaf that is not there")

    def predict_proba(self, table: FeatureTable) -> Array:
        """Return the probability of every class, ``(n, classes)``.

        Raises
        ------
        ValueError
            If the table has other columns, or a number is missing or infinite.
        """
        features = Features.of(table)
        self.columns.check(features)
        total = np.zeros((len(features), self.start.size)) + self.start
        done = 0
        for encoded in self._encoded(features):
            walk, part = _Walk(self, encoded), slice(done, done + len(encoded))
            for root in self.roots.tolist():
                total[part] += self.leaves.take(walk.reached(root), axis=0)
            done = part.stop
        if self.total is Sum.SHARES:
            return total / self.roots.size
        return probabilities(total)

    def _encoded(self, features: Features) -> Iterator[NDArray[np.float32 | np.float64]]:
        """Yield the encoded records, so many at once that a forged width takes no more memory."""
        # A forest was fitted to 32 bits: a number between two of them is on another side of a
        # threshold when it is not rounded first.
        kind = np.float32 if self.total is Sum.SHARES else np.float64
        columns, width = self.columns, self.columns.n_codes + len(self.columns.numbers)
        texts = [(k, *columns.coded(features, k)) for k in columns.texts]
        numbers = columns.filled(features, self.fill).astype(kind) if columns.numbers else None
        rows = max(1, CODES // max(1, width))
        for first in range(0, len(features), rows):
            part = slice(first, first + rows)
            encoded = np.zeros((min(rows, len(features) - first), width), kind)
            start = 0
            for position, categories, codes in texts:
                which = categories.take(codes[part])
                known = np.flatnonzero(which >= 0)
                encoded[known, start + which[known]] = 1.0
                start += len(columns.categories[position] or ())
            if numbers is not None:
                encoded[:, start:] = numbers[part]
            yield encoded

    def words(self) -> dict[str, Plain]:
        """Return its columns and what the leaves add up to."""
        return {**self.columns.to_words(), "total": self.total.value}

    @classmethod
    def from_words(cls, content: Content) -> dict[str, object]:
        """Return its columns and what the leaves add up to."""
        total = content.word("total")
        if total not in list(Sum):
            raise SealError(f"its trees add up to {str(total)[:40]!r}, expected {[*Sum]}")
        return {"columns": FeatureColumns.of(content), "total": Sum(str(total))}


def probabilities(scores: Array) -> Array:
    """Return the probability of every class from ``(n, lines)``; one line is for two classes."""
    if scores.shape[1] > 1:
        return np.asarray(softmax(scores, axis=1))
    positive = expit(scores[:, 0])
    return np.stack([1.0 - positive, positive], axis=1)


class _Walk:
    """The ways of some records down the trees, all records of a question at once.

    Everything is looked up by one number in one flat array, which is most of the time it takes.
    """

    def __init__(self, model: TreeModel, encoded: NDArray[np.float32 | np.float64]) -> None:
        self._count = len(encoded)
        self._values = np.ascontiguousarray(encoded.T).ravel()
        self._starts = model.feature.astype(np.intp) * self._count
        self._thresholds = model.threshold
        self._children = model.children.ravel().astype(np.intp)

    def reached(self, root: int) -> NDArray[np.intp]:
        """Return the leaf of one tree that every record comes to."""
        nodes = np.full(self._count, root, dtype=np.intp)
        waiting = np.arange(self._count) if root >= 0 else np.empty(0, dtype=np.intp)
        at = nodes
        for _ in range(DEEPEST):
            if waiting.size == 0:
                return -1 - nodes
            asked = self._values.take(self._starts.take(at) + waiting)
            at = self._children.take(2 * at + (asked > self._thresholds.take(at)))
            nodes[waiting] = at
            inner = at >= 0
            at, waiting = at[inner], waiting[inner]
        raise ValueError(f"a tree asks more than {DEEPEST} questions; no fit of ours does")


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
