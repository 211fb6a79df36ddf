"""Figures that describe a release beside its members and others; none of them decides anything.

The rows of one release share one training table, so that counts over them are no independent trials
and no test over them is valid. They are a census: reported as they are, with that warning.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from proxyguard.exact.rounding import Array
from proxyguard.exposure.geometry import Neighbors
from proxyguard.exposure.representation import Rows
from proxyguard.seal.fingerprint import canonical_value
from proxyguard.tables.columns import as_texts, coded, is_number

if TYPE_CHECKING:
    import pandas as pd


# Distance up to which a row counts as identical, in units of the representation.
IDENTICAL = 1e-6
LEVELS = (0.0, 0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 1.0)
# Keeps this stream apart from those of the attacks.
_STREAM = 0x62617365


class Copies:
    """The rows that releases were made from, to be looked up by all their values.

    Values are equal as those of records are everywhere: numbers by value, a missing one to a
    missing one, everything else by its canonical text.

    Parameters
    ----------
    members
        The rows.
    """

    def __init__(self, members: pd.DataFrame) -> None:
        self._names = [str(name) for name in members.columns]
        self._texts: dict[str, dict[str, int]] = {}
        for name in self._names:
            if not is_number(members[name]):
                texts = map(canonical_value, as_texts(members[name]).unique())
                self._texts[name] = {text: k for k, text in enumerate(dict.fromkeys(texts))}
        self._keys = self._keys_of(members)
        self._known = set(self._keys)

    def _keys_of(self, frame: pd.DataFrame) -> list[bytes | None]:
        """Return a key of each row; nothing where a text of it is no member's."""
        keyed = np.empty((len(frame), len(self._names)))
        unknown = np.zeros(len(frame), dtype=bool)
        for k, name in enumerate(self._names):
            known = self._texts.get(name)
            if known is None:
                keyed[:, k] = np.asarray(frame[name], dtype=np.float64)
                keyed[np.isnan(keyed[:, k]), k] = np.nan  # one NaN of the many that there are
                keyed[keyed[:, k] == 0.0, k] = 0.0  # and not -0.0
            else:
                keyed[:, k] = coded(as_texts(frame[name]), partial(_number, known))
                unknown |= keyed[:, k] < 0.0
        return [None if lost else row.tobytes() for row, lost in zip(keyed, unknown, strict=True)]

    def among(self, release: pd.DataFrame) -> NDArray[np.bool_]:
        """Return which rows of a release equal a member's in every column.

        Raises
        ------
        KeyError
            A column is missing.

        Examples
        --------
        >>> import pandas as pd
        >>> members = pd.DataFrame({"age": [40.0, 51.0], "job": ["clerk", "smith"]})
        >>> records = pd.DataFrame({"job": ["smith", "smith"], "age": [51, 40]})
        >>> Copies(members).among(records).tolist()
        [True, False]
        """
        keys = self._keys_of(release)
        return np.array([key is not None and key in self._known for key in keys], dtype=np.bool_)

    def released(self, release: pd.DataFrame) -> NDArray[np.bool_]:
        """Return which members a release has a copy of."""
        keys = set(self._keys_of(release))
        return np.array([key in keys for key in self._keys], dtype=np.bool_)


def _number(known: dict[str, int], text: object) -> int:
    return known.get(canonical_value(str(text)), -1)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ReleaseDescription:
    """What a release has of its members, and of rows that it was not made from.

    Attributes
    ----------
    rows
        Rows of the release.
    copies
        Rows of the release that equal a member's in every column.
    copied_members
        Members that the release has a copy of.
    identical_members, identical_others
        Shares of the release's rows within `IDENTICAL` of a member, and of another row.
    member_distances, other_distances
        Quantiles at `LEVELS` of the distances of members, and of others, to the release.
    """

    rows: int
    copies: int
    copied_members: int
    identical_members: float
    identical_others: float
    member_distances: tuple[float, ...]
    other_distances: tuple[float, ...]


def describe_release(
    release: Rows, members: Rows, others: Rows, copies: Copies | None = None
) -> ReleaseDescription:
    """Return the figures of one release.

    Parameters
    ----------
    release, members
        The release, and the rows that it was made from.
    others
        Rows that it was not made from, and that are open: calibration rows.
    copies
        The members as they are looked up, where several releases have the same.
    """
    known = Copies(members.frame) if copies is None else copies
    names = list(members.frame.columns)
    synthetic = Neighbors(release.array)
    return ReleaseDescription(
        rows=len(release),
        copies=int(known.among(release.frame[names]).sum()),
        copied_members=int(known.released(release.frame[names]).sum()),
        identical_members=_identical(release, members),
        identical_others=_identical(release, others),
        member_distances=_curve(synthetic, members),
        other_distances=_curve(synthetic, others),
    )


def _identical(release: Rows, rows: Rows) -> float:
    points = rows.keep("neighbors", lambda: Neighbors(rows.array), Neighbors)
    return float(np.mean(points.nearest(release.array, 1)[0][:, 0] <= IDENTICAL))


def _curve(synthetic: Neighbors, rows: Rows) -> tuple[float, ...]:
    distances = synthetic.nearest(rows.array, 1)[0][:, 0]
    return tuple(np.quantile(distances, LEVELS).tolist())


def random_release(reference: pd.DataFrame, rows: int, seed: int) -> pd.DataFrame:
    """Return a release that knows nobody: every column drawn by itself from reference rows.

    What an attack says of it is a naive baseline, to be shown beside what it says of releases.

    Parameters
    ----------
    reference
        Rows that no release was made from.
    rows
        How many rows to draw.
    seed
        The attacker's.
    """
    import pandas as pd

    rng = np.random.default_rng([_STREAM, seed])
    drawn = {
        name: reference[name].iloc[rng.integers(0, len(reference), rows)].reset_index(drop=True)
        for name in reference.columns
    }
    return pd.DataFrame(drawn)


def auc(members: Array, others: Array) -> float:
    """Return how often a member outscores another row, ties counted half.

    Examples
    --------
    >>> auc(np.array([2.0, 3.0]), np.array([1.0, 2.0]))
    0.875
    """
    ordered = np.sort(others)
    below = np.searchsorted(ordered, members, side="left")
    upto = np.searchsorted(ordered, members, side="right")
    return float((below + upto).sum() / (2.0 * len(members) * len(others)))


def found_at(members: Array, others: Array, rates: Sequence[float]) -> tuple[float, ...]:
    """Return the share of members that is flagged where so many others are.

    A row is flagged from the score on that is the quantile ``1 - rate`` of the others' scores, the
    next higher one between two of them.
    """
    thresholds = np.quantile(others, [1.0 - rate for rate in rates], method="higher")
    return tuple(float(np.mean(members >= threshold)) for threshold in thresholds)
