"""Forests and boosted trees: the leaves that a record reaches, added up."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, softmax

from proxyguard.errors import SealError
from proxyguard.models.features import Columns, Features, Table
from proxyguard.models.npy import Array, Content, Integers, Plain, Stored, check_classes

DEEPEST = 1000
"""The most questions on the way to a leaf; a forged tree could otherwise ask for hours."""


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

    columns: Columns
    fill: Array
    total: Sum
    roots: Integers
    feature: Integers
    threshold: Array
    children: Integers
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
        after = (self.children < 0) | (self.children > np.arange(inner)[:, None])
        if not after.all():
            raise SealError("a child stands before its parent, so that a way down has no end")
        for nodes in (self.roots, self.children):
            if np.any((nodes >= inner) | (nodes < -len(self.leaves))):
                raise SealError("a tree leads to a node or a leaf that is not there")

    def predict_proba(self, table: Table) -> Array:
        """Return the probability of every class, ``(n, classes)``.

        Raises
        ------
        ValueError
            If the table has other columns, or a number is missing or infinite.
        """
        features = Features.of(table)
        self.columns.check(features)
        walk = _Walk(self, self._encoded(features))
        total = np.zeros((len(features), self.start.size)) + self.start
        for root in self.roots.tolist():
            total += self.leaves.take(walk.reached(root), axis=0)
        if self.total is Sum.SHARES:
            return total / self.roots.size
        if self.classes_.size > 2:
            return np.asarray(softmax(total, axis=1))
        positive = expit(total[:, 0])
        return np.stack([1.0 - positive, positive], axis=1)

    def _encoded(self, features: Features) -> NDArray[np.floating]:
        kind = np.float32 if self.total is Sum.SHARES else np.float64
        parts = []
        for place in self.columns.texts:
            known = self.columns.categories[place] or ()
            numbers = {text: k for k, text in enumerate(known)}
            distinct, codes = features.codes(place)
            rows = np.zeros((len(distinct), len(known)), dtype=kind)
            for row, text in enumerate(distinct):
                if text is not None and text in numbers:
                    rows[row, numbers[text]] = 1.0
            parts.append(rows[codes])
        if self.columns.numbers:
            parts.append(self.columns.filled(features, self.fill).astype(kind))
        return np.concatenate(parts, axis=1)

    def words(self) -> dict[str, Plain]:
        """Return its columns and what the leaves add up to."""
        return {**self.columns.to_words(), "total": self.total.value}

    @classmethod
    def from_words(cls, content: Content) -> dict[str, object]:
        """Return its columns and what the leaves add up to."""
        total = content.word("total")
        if total not in list(Sum):
            raise SealError(f"its trees add up to {str(total)[:40]!r}, expected {[*Sum]}")
        return {"columns": Columns.of(content), "total": Sum(str(total))}


class _Walk:
    """The ways of some records down the trees, all records of a question at once.

    Everything is looked up by one number in one flat array, which is most of the time it takes.
    """

    def __init__(self, model: TreeModel, encoded: NDArray[np.floating]) -> None:
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
