"""Attacks that succeed or not: a secret is guessed, or two halves of a record are linked.

Rows are compared column by column: numbers by their difference in units of the reference's range,
categories by whether they are equal. Among rows of the release at one distance the first counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from proxyguard.exact.rounding import Array
from proxyguard.exposure.geometry import Indices, blocks, smallest
from proxyguard.exposure.membership import FOREST, LEAF, TREES, Ground, View
from proxyguard.exposure.representation import (
    MOST_CATEGORIES,
    NumberColumn,
    Representation,
    TextColumn,
    fit_column,
)

if TYPE_CHECKING:
    import pandas as pd


class MixedRows:
    """The rows of a release, among which the nearest are looked for on some columns.

    Parameters
    ----------
    reference
        Rows that say what a range is, and what stands for a missing value.
    release
        The rows.
    names
        The columns.
    """

    def __init__(
        self, reference: pd.DataFrame, release: pd.DataFrame, names: Sequence[str]
    ) -> None:
        columns = [fit_column(reference, name) for name in names]
        self._numbers = [column for column in columns if isinstance(column, NumberColumn)]
        self._texts = [column for column in columns if isinstance(column, TextColumn)]
        self._known: list[dict[str, int]] = []
        for column in self._texts:
            distinct = dict.fromkeys(column.filled(release).tolist())
            self._known.append({str(text): k for k, text in enumerate(distinct)})
        self._size = len(release)
        self._release = self._encoded(release)

    def _encoded(self, frame: pd.DataFrame) -> tuple[list[Array], list[Indices]]:
        numbers = [column.in_units(frame, column.width) for column in self._numbers]
        codes = [
            column.numbered(frame, known)
            for column, known in zip(self._texts, self._known, strict=True)
        ]
        return numbers, codes

    def nearest(self, frame: pd.DataFrame, count: int) -> Indices:
        """Return which rows of the release are nearest to each row, ``(n, count)`` or fewer."""
        numbers, codes = self._encoded(frame)
        synthetic, synthetic_codes = self._release
        indices = np.empty((len(frame), min(count, self._size)), dtype=np.intp)
        for block in blocks(len(frame), self._size):
            distances = np.zeros((block.stop - block.start, self._size))
            for values, theirs in zip(numbers, synthetic, strict=True):
                distances += np.abs(values[block, None] - theirs)
            for labels, their_labels in zip(codes, synthetic_codes, strict=True):
                # A text that no row of the release has is -1, and equal to none of them.
                distances += labels[block, None] != their_labels
            indices[block] = smallest(distances, indices.shape[1])
        return indices


@dataclass(frozen=True, slots=True, eq=False)
class Secret:
    """The column that is guessed, and when a guess is right.

    A number is guessed where it lies within the tolerance of the guess, as a share of the guess;
    a category where it is equal. What is missing, in the record or in the guess, is not guessed.
    """

    column: NumberColumn | TextColumn
    known_columns: tuple[str, ...]
    tolerance: float

    @classmethod
    def of(
        cls, reference: pd.DataFrame, name: str, known: Sequence[str], tolerance: float
    ) -> Secret:
        """Return it, as reference rows say what the column holds."""
        return cls(fit_column(reference, name), tuple(known), tolerance)

    def read(self, frame: pd.DataFrame) -> Array | NDArray[np.object_]:
        """Return the values of these rows."""
        return self.column.read(frame)

    def known(self, frame: pd.DataFrame) -> NDArray[np.bool_]:
        """Return where a value is there."""
        if isinstance(self.column, NumberColumn):
            return np.isfinite(self.column.read(frame))
        return np.asarray(self.column.read(frame) != "", dtype=np.bool_)

    def right(self, frame: pd.DataFrame, guesses: Array | NDArray[np.object_]) -> Array:
        """Return 1 for each row that is guessed, else 0."""
        known = self.known(frame)
        if isinstance(self.column, TextColumn):
            return np.asarray(known & (self.read(frame) == guesses), dtype=np.float64)
        truth, numbers = self.column.read(frame), np.asarray(guesses, dtype=np.float64)
        known &= np.isfinite(numbers)
        with np.errstate(invalid="ignore", over="ignore"):
            near = np.abs(numbers - truth) <= self.tolerance * np.abs(numbers)
        return (known & near).astype(np.float64)


class NearestSecret:
    """Attribute inference by the nearest row of the release on the known columns.

    Parameters
    ----------
    ground
        The release and the reference.
    secret
        The column to guess, and what the attacker knows.
    """

    neighbors = 0

    def __init__(self, ground: Ground, secret: Secret) -> None:
        reference, release = ground.reference.frame, ground.release.frame
        self._secret = secret
        self._rows = MixedRows(reference, release, secret.known_columns)
        self._values = self._secret.read(release)

    def score(self, view: View) -> Array:
        """Return 1 for each row whose secret is guessed, else 0."""
        frame = view.rows.frame
        return self._secret.right(frame, self._values[self._rows.nearest(frame, 1)[:, 0]])


class _Forest(Protocol):
    def predict(self, points: Array, /) -> Array | Indices: ...


class ModelSecret:
    """Attribute inference by a random forest that learned the secret from the release.

    Parameters
    ----------
    ground
        The release and the reference.
    secret
        The column to guess, and what the attacker knows. Without a tolerance the forest chooses
        among the most frequent values of the release.
    """

    neighbors = 0

    def __init__(self, ground: Ground, secret: Secret) -> None:
        from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

        reference, release = ground.reference.frame, ground.release.frame
        self._secret = secret
        self._representation = Representation.fit(reference, secret.known_columns)
        self._values: list[str] | list[float] | None = None
        self._forest: _Forest | None = None
        rows = np.flatnonzero(self._secret.known(release))
        settings = {
            "n_estimators": TREES,
            "min_samples_leaf": LEAF,
            "random_state": int(ground.generator(FOREST).integers(0, 2**31)),
        }
        if rows.size == 0:
            return  # a release without any secret tells none
        points = self._representation.points(release.iloc[rows])
        values = self._secret.read(release)[rows]
        if isinstance(secret.column, NumberColumn) and secret.tolerance > 0.0:
            self._forest = RandomForestRegressor(**settings).fit(points, values)
            return
        distinct, codes, counts = np.unique(values, return_inverse=True, return_counts=True)
        # A forest keeps a number for each value in every leaf: that of a name or an address is
        # guessed by nobody.
        frequent = np.argsort(-counts, kind="stable")[:MOST_CATEGORIES]
        kept = np.isin(codes, frequent)
        self._values = distinct.tolist()
        self._forest = RandomForestClassifier(**settings).fit(points[kept], codes[kept])

    def score(self, view: View) -> Array:
        """Return 1 for each row whose secret is guessed, else 0."""
        frame = view.rows.frame
        if self._forest is None:
            return np.zeros(len(frame))
        guesses = self._forest.predict(self._representation.points(frame))
        if self._values is not None:
            values = np.array(self._values, dtype=object)
            return self._secret.right(frame, values[np.asarray(guesses, dtype=np.intp)])
        return self._secret.right(frame, np.asarray(guesses, dtype=np.float64))


class Linkability:
    """Whether the same row of the release is among the nearest by either of two sets of columns.

    Parameters
    ----------
    ground
        The release and the reference.
    sides
        Two sets of columns, which have none in common.
    count
        How many rows are near.
    """

    neighbors = 0

    def __init__(self, ground: Ground, sides: Sequence[Sequence[str]], count: int) -> None:
        reference, release = ground.reference.frame, ground.release.frame
        self._first, self._second = (MixedRows(reference, release, names) for names in sides)
        self._count = count

    def score(self, view: View) -> Array:
        """Return 1 for each row that is linked, else 0."""
        frame = view.rows.frame
        first = self._first.nearest(frame, self._count)
        second = self._second.nearest(frame, self._count)
        linked = np.zeros(len(frame), dtype=bool)
        for k in range(second.shape[1]):
            linked |= (first == second[:, k, None]).any(axis=1)
        return linked.astype(np.float64)
