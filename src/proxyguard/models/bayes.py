"""Naive Bayes: how often the terms of a fixed vocabulary occur in one column of text."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from proxyguard.errors import SealError
from proxyguard.models.features import Features, Table
from proxyguard.models.npy import Array, Content, Plain, Stored, check_classes, checked_texts


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

    def predict_proba(self, table: Table) -> Array:
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
