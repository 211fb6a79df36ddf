"""The losses themselves: a dense array, a stream of chunks, separate batches, or moments."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from proxyguard.errors import LossMismatch
from proxyguard.losses.records import Records
from proxyguard.registry.numbers import is_whole

Array = NDArray[np.float64]
MOST_RECORDS = 2**53
"""Larger numbers of records are no doubles."""


@dataclass(frozen=True, eq=False)
class LossArray:
    """Per-record quantities, releases x records x requirements, and their records.

    Values are never copied whole, clipped or repaired. A draw that failed is an invalid
    release: give it a row with every loss at its upper bound, so that it stays in the
    denominator.
    """

    values: NDArray[Any]  # (R, n, J)
    records: Records = field(default_factory=Records)
    releases: Sequence[str] | None = None

    def __post_init__(self) -> None:
        values = as_array(self.values)
        if values.ndim != 3 or values.shape[0] < 1:
            raise LossMismatch(
                "losses must be an array of releases x records x requirements (for one "
                f"requirement, a last axis of length 1), got shape {values.shape}"
            )
        if values.dtype.kind not in "fiub":
            raise LossMismatch(f"losses must be real numbers, got dtype {values.dtype}")
        if not isinstance(self.records, Records):
            raise LossMismatch(f"records of losses are Records(...), got {self.records!r}")
        self.records.check_length(values.shape[1])
        object.__setattr__(self, "values", values)
        object.__setattr__(self, "releases", release_names(self.releases, values.shape[0]))

    @property
    def shape(self) -> tuple[int, int, int]:
        """``(R, n, J)``."""
        n_releases, n_records, n_requirements = self.values.shape
        return n_releases, n_records, n_requirements


@dataclass(frozen=True, eq=False, kw_only=True)
class LossStream:
    """Losses in chunks over records, read once; memory does not depend on their number.

    Each chunk is an array (releases, some records, requirements) or a `LossArray` that
    brings the records' own columns. The total number of records is declared here and
    checked at the end.
    """

    chunks: Iterable[ArrayLike | LossArray]
    n_releases: int
    n_records: int
    n_requirements: int
    random_order: bool = False
    releases: Sequence[str] | None = None

    def __post_init__(self) -> None:
        for name in ("n_releases", "n_records", "n_requirements"):
            size = getattr(self, name)
            if not is_whole(size) or size < 1:
                raise LossMismatch(f"{name} must be a whole number of at least 1, got {size!r}")
            object.__setattr__(self, name, int(size))
        if not isinstance(self.chunks, Iterable) or isinstance(self.chunks, str | bytes):
            raise LossMismatch(f"chunks are arrays one after the other, got {self.chunks!r}")
        if not isinstance(self.random_order, bool | np.bool_):
            raise LossMismatch(f"random_order is True or False, got {self.random_order!r}")
        object.__setattr__(self, "releases", release_names(self.releases, self.n_releases))

    @property
    def shape(self) -> tuple[int, int, int]:
        """``(R, n, J)`` as declared."""
        return self.n_releases, self.n_records, self.n_requirements

    def __iter__(self) -> Iterator[LossArray]:
        seen = 0
        for index, chunk in enumerate(self.chunks):
            block = chunk if isinstance(chunk, LossArray) else LossArray(as_array(chunk))
            n_releases, n, n_requirements = block.shape
            if (n_releases, n_requirements) != (self.n_releases, self.n_requirements):
                raise LossMismatch(
                    f"chunk {index} has {n_releases} releases and {n_requirements} requirements, "
                    f"declared were {self.n_releases} and {self.n_requirements}"
                )
            seen += n
            if seen > self.n_records:
                raise LossMismatch(f"declared {self.n_records} records, the chunks have more")
            yield block
        if seen != self.n_records:
            raise LossMismatch(f"declared {self.n_records} records, the chunks have {seen}")


@dataclass(frozen=True, eq=False, kw_only=True)
class Moments:
    """Sample means and Bessel variances with the number of records they came from.

    The number travels with the moments and nothing else states it, so nobody can pair
    them with a larger sample. ``n`` is per requirement; all values on registered scales.
    """

    n: ArrayLike  # (J,) or one number
    mean: ArrayLike  # (R, J)
    variance: ArrayLike | None = None  # (R, J); empirical Bernstein needs it
    releases: Sequence[str] | None = None

    def __post_init__(self) -> None:
        mean = _numbers(self.mean, "means")
        if mean.ndim != 2 or mean.size == 0:
            raise LossMismatch(f"means must be releases x requirements, got shape {mean.shape}")
        n = as_array(self.n)
        if n.dtype.kind not in "iu" or n.ndim > 1 or np.any(n < 0) or np.any(n > MOST_RECORDS):
            raise LossMismatch(f"n must be whole numbers of records, got {self.n!r}")
        if n.ndim == 1 and n.shape != mean.shape[1:]:
            raise LossMismatch(f"{n.size} sample sizes for {mean.shape[1]} requirements")
        object.__setattr__(self, "mean", mean)
        object.__setattr__(self, "n", np.broadcast_to(n, mean.shape[1:]).astype(np.int64))
        if self.variance is not None:
            variance = _numbers(self.variance, "variances")
            if variance.shape != mean.shape:
                raise LossMismatch(f"variances have shape {variance.shape}, means {mean.shape}")
            wrong = variance[~(variance >= 0.0)]
            if wrong.size:
                raise LossMismatch(f"variances must be nonnegative, got {wrong[0]}")
            object.__setattr__(self, "variance", variance)
        object.__setattr__(self, "releases", release_names(self.releases, mean.shape[0]))

    @property
    def shape(self) -> tuple[int, int, int]:
        """``(R, n, J)``, ``n`` the largest sample among the requirements."""
        mean = np.asarray(self.mean)
        return mean.shape[0], int(np.max(np.asarray(self.n))), mean.shape[1]


@dataclass(frozen=True, eq=False)
class LossBatches:
    """Releases scored on separate batches of target records, one array a release.

    Batches may differ in size and share no record. This is what independence between
    release p-values means (paper Theorem 9).
    """

    batches: Sequence[LossArray]

    def __post_init__(self) -> None:
        batches = tuple(self.batches) if isinstance(self.batches, Iterable) else ()
        if not batches or any(not isinstance(b, LossArray) or b.shape[0] != 1 for b in batches):
            raise LossMismatch("each batch scores one release: shape (1, records, requirements)")
        if len({b.shape[2] for b in batches}) > 1:
            raise LossMismatch("every batch must have the same requirements")
        _share_nothing(batches, "ids", "record")
        _share_nothing(batches, "clusters", "cluster")
        object.__setattr__(self, "batches", batches)

    @property
    def releases(self) -> tuple[str, ...]:
        """The releases' names, numbered where they are not all different."""
        names = [str((batch.releases or ("0",))[0]) for batch in self.batches]
        return release_names(names if len(set(names)) == len(names) else None, len(names))

    @property
    def shape(self) -> tuple[int, int, int]:
        """``(R, n, J)``, ``n`` the smallest batch."""
        return len(self.batches), min(b.shape[1] for b in self.batches), self.batches[0].shape[2]


def _share_nothing(batches: Sequence[LossArray], column: str, noun: str) -> None:
    """Refuse batches that have a record, or a cluster of dependent records, in common."""
    given = [batch.records.column(column) is not None for batch in batches]
    if any(given) and not all(given):
        raise LossMismatch(f"give records.{column} with every batch or with none")
    seen: dict[str, int] = {}
    for index, batch in enumerate(batches):
        for label in set(batch.records.texts(column)):
            if label in seen:
                raise LossMismatch(
                    f"{noun} {label} is in batch {seen[label]} and in batch {index}; separate "
                    f"batches share no {noun}"
                )
            seen[label] = index


Losses = LossArray | LossStream | LossBatches | Moments


def as_losses(losses: ArrayLike | Losses, records: Records | None = None) -> Losses:
    """Return losses as one of the four types; ``records`` describe a plain array."""
    if isinstance(losses, LossArray | LossStream | LossBatches | Moments):
        if records is not None:
            raise LossMismatch("give the records with the losses or beside them, not both")
        return losses
    return LossArray(as_array(losses), Records() if records is None else records)


def as_array(values: object) -> NDArray[Any]:
    """Return values as a plain array; a mask or ragged rows are refused, never dropped."""
    if isinstance(values, np.ma.MaskedArray):
        raise LossMismatch(
            "losses are a masked array, whose mask would be lost: a record that failed has the "
            "loss at its upper bound, one that does not count belongs outside a subgroup"
        )
    try:
        return np.asarray(values)
    except ValueError as error:
        raise LossMismatch(f"losses are no rectangular array: {error}") from None


def _numbers(values: object, name: str) -> Array:
    array = as_array(values)
    if array.dtype.kind not in "fiub":
        raise LossMismatch(f"{name} must be real numbers, got dtype {array.dtype}")
    return array.astype(np.float64)


def release_names(names: Sequence[str] | None, n_releases: int) -> tuple[str, ...]:
    """Return the releases' names, ``0, 1, ...`` where none are given."""
    if names is None:
        return tuple(str(r) for r in range(n_releases))
    if isinstance(names, str) or not isinstance(names, Iterable):
        raise LossMismatch(f"release names are a list, got {names!r}")
    texts = tuple(str(name) for name in names)
    if len(texts) != n_releases or len(set(texts)) != n_releases:
        raise LossMismatch(f"need {n_releases} different release names, got {len(set(texts))}")
    return texts
