"""The losses, and one pass over them: check every value, keep only what tests may look at.

Losses are a dense array (`LossArray`), a stream of chunks (`LossStream`), separate batches
(`LossBatches`) or moments (`Moments`). `read_losses` gives one `Column` a requirement; nothing
that it returns, and nothing that certificates see, holds the loss of a single record.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from os import PathLike

import numpy as np
from numpy.typing import ArrayLike, NDArray

from proxyguard.errors import LossMismatch, LossOutOfBounds, UnsupportedDesign
from proxyguard.exact.rounding import Array
from proxyguard.extras import need
from proxyguard.losses.cell import (
    Cell,
    Clusters,
    Column,
    Reading,
    Units,
    generator,
    join_columns,
    join_fills,
    random_order,
    unit_ends,
)
from proxyguard.losses.records import (
    AnyArray,
    Records,
    check_ids,
    check_labels,
    check_size,
    check_strata,
    stratum_counts,
    stratum_weights,
    weight_shares,
)
from proxyguard.registry.design import (
    Clustered,
    Design,
    Sampling,
    Stratified,
    Weighted,
    clusters_of,
)
from proxyguard.registry.numbers import is_whole
from proxyguard.registry.test import ComponentTest

# Larger numbers of records are no doubles: nothing could be divided by them exactly.
EXACT = 2**53


@dataclass(frozen=True, eq=False)
class LossArray:
    """Per-record quantities, releases x records x requirements, and their records.

    Values are never copied whole, clipped or repaired. A draw that failed is an invalid
    release: give it a row with every loss at its upper bound, so that it stays in the
    denominator.

    Parameters
    ----------
    values
        The losses, with three axes: releases, records, requirements; or with two, releases
        and records, of one requirement.
    records
        What is known of the records, in the order of the second axis.
    releases
        Names of the releases; numbered unless given.

    Raises
    ------
    LossMismatch
        Where the values are no real numbers or have another shape.

    Examples
    --------
    >>> LossArray(np.zeros((2, 5, 1)), releases=["spring", "autumn"]).shape
    (2, 5, 1)
    """

    values: AnyArray  # (R, n, J)
    records: Records = field(default_factory=Records)
    releases: Sequence[str] | None = None

    def __post_init__(self) -> None:
        values = with_axes(as_array(self.values))
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

    Parameters
    ----------
    chunks
        Each an array (releases, some records, requirements), or a `LossArray` that brings the
        records' own columns.
    n_releases, n_records, n_requirements
        The sizes of all chunks together, declared here and checked at the end.
    random_order
        States that the records stand in an order drawn at random when the target was sealed,
        which tests that read them one after the other rely on.
    releases
        Names of the releases; numbered unless given.

    Raises
    ------
    LossMismatch
        Where a size is none, and, while it is read, where the chunks have other sizes.

    Examples
    --------
    >>> halves = (np.zeros((3, 50, 1)) for _ in range(2))
    >>> LossStream(chunks=halves, n_releases=3, n_records=100, n_requirements=1).shape
    (3, 100, 1)
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
            # At the first one too many: a stream may have no end.
            if seen > self.n_records:
                raise LossMismatch(f"declared {self.n_records} records, the chunks have more")
            yield block
        if seen != self.n_records:
            raise LossMismatch(f"declared {self.n_records} records, the chunks have {seen}")


@dataclass(frozen=True, eq=False, kw_only=True)
class Moments:
    """Sample means and Bessel variances with the number of records they came from.

    The number travels with the moments and nothing else states it, so nobody can pair
    them with a larger sample. All are on the registered scales of their requirements.

    Parameters
    ----------
    n
        Records of each requirement, or one number for all.
    mean
        Releases x requirements.
    variance
        Of the same shape, with ``n - 1`` in the denominator; empirical Bernstein needs it.
    releases
        Names of the releases; numbered unless given.

    Raises
    ------
    LossMismatch
        Where shapes disagree, or a variance is negative.

    Examples
    --------
    >>> Moments(n=200, mean=[[0.04], [0.06]], variance=[[0.01], [0.02]]).shape
    (2, 200, 1)
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
        whole = n.dtype.kind in "iu" and n.ndim <= 1
        sizes = [int(size) for size in n.astype(object).ravel()] if whole else [-1]
        if min(sizes, default=0) < 0 or max(sizes, default=0) > EXACT:
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

    Parameters
    ----------
    batches
        One `LossArray` of a single release for each batch.

    Raises
    ------
    LossMismatch
        Where a batch has several releases, or two batches share a record or a cluster.

    Examples
    --------
    >>> one, other = (LossArray(np.zeros((1, n, 1))) for n in (30, 50))
    >>> LossBatches([one, other]).shape
    (2, 30, 1)
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


def as_losses(
    losses: ArrayLike | Losses,
    records: Records | None = None,
    names: Sequence[str] = (),
    releases: Sequence[str] | None = None,
) -> Losses:
    """Return losses as one of the four types.

    Parameters
    ----------
    losses
        One of them; or an array, a DataFrame or a file, in the forms of `losses.given`.
    records
        What is known of the records, where the losses do not bring it.
    names
        The requirements, in the order of the last axis.
    releases
        Names of the releases, where the losses do not bring them.
    """
    if isinstance(losses, LossArray | LossStream | LossBatches | Moments):
        if records is not None:
            raise LossMismatch("give the records with the losses or beside them, not both")
        if releases is not None:
            raise LossMismatch(_NAMED_TWICE)
        return losses
    if isinstance(losses, str | PathLike) or _is_table(losses):
        # Here and not above: arrays need neither pandas nor Arrow.
        need("losses as a DataFrame or a file")
        from proxyguard.losses.given import loose_losses

        given = loose_losses(losses, names)
        if given.releases is not None and releases is not None:
            raise LossMismatch(_NAMED_TWICE)
        releases = given.releases or releases
        if records is None:
            return LossArray(given.values, Records(ids=given.records), releases)
        return LossArray(given.in_order_of(records).values, records, releases)
    values = as_array(losses)
    if values.ndim == 2 and len(names) > 1:
        raise LossMismatch(
            f"losses have shape {values.shape}, which is releases x records of one requirement; "
            f"expected for {len(names)} is (releases, records, {len(names)})"
        )
    return LossArray(values, Records() if records is None else records, releases)


_NAMED_TWICE = (
    "these losses bring the names of their releases; leave out names, which are for plain arrays"
)


def _is_table(losses: object) -> bool:
    """Return whether losses are a DataFrame of whatever library, or a table of Arrow."""
    return hasattr(losses, "iloc") or hasattr(losses, "__arrow_c_stream__")


def as_array(values: object) -> AnyArray:
    """Return values as a plain array; a mask or ragged rows are refused, never dropped."""
    if isinstance(values, np.ma.MaskedArray):
        raise LossMismatch(
            "losses are a masked array, whose mask would be lost: a record that failed has the "
            "loss at its upper bound, one that does not count belongs outside a subgroup"
        )
    if _is_table(values) and hasattr(values, "columns"):
        raise LossMismatch(
            "losses in a DataFrame have names, which an array would lose: give it to certify as it "
            "is, or an array of releases x records x requirements"
        )
    try:
        return np.asarray(values)
    except ValueError as error:
        raise LossMismatch(
            "losses are no rectangular array: every release has one row of values a record"
        ) from error


def with_axes(values: AnyArray, n_requirements: int = 0, where: str = "losses") -> AnyArray:
    """Return an array with three axes; one with two is releases x records of one requirement.

    Parameters
    ----------
    values
        The array.
    n_requirements
        How many requirements there are; 0 where that is not known.
    where
        What an error calls it.

    Raises
    ------
    LossMismatch
        It has other axes or no release, or two and several requirements are declared.
    """
    expected = "(releases, records, requirements), or (releases, records) of one requirement"
    whole = values[:, :, None] if values.ndim == 2 and n_requirements <= 1 else values
    if whole.ndim != 3 or whole.shape[0] < 1:
        shape = f"{where} must be an array of shape {expected}; found is {values.shape}"
        many = values.ndim == 2 and n_requirements > 1
        several = f", and there are {n_requirements} requirements" if many else ""
        raise LossMismatch(shape + several)
    return whole


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
    texts = tuple(names)
    wrong = [name for name in texts if not isinstance(name, str) or not name.strip()]
    if wrong:
        raise LossMismatch(f"release names are texts that are not empty, got {wrong[0]!r}")
    twice = [name for name, count in Counter(texts).items() if count > 1]
    if len(texts) != n_releases or twice:
        again = f"; {twice[0]!r} stands there twice" if twice else ""
        raise LossMismatch(
            f"need {n_releases} different release names, one for each row of the losses, got "
            f"{len(texts)}{again}"
        )
    return texts


# Values handled at once: half a megabyte, so that a tile and its workspace stay in cache.
TILE = 1 << 16


@dataclass(frozen=True, slots=True)
class Pass:
    """What one pass over the losses leaves behind."""

    columns: tuple[Column, ...]
    ids: AnyArray | None  # of the records, where they were given


def read_losses(losses: Losses, reading: Reading) -> Pass:
    """Return one `Column` a requirement, after checking every loss that counts.

    A value outside its bounds, a NaN, or any mismatch of shapes, sizes, strata or record
    ids is an error that names its place; nothing is clipped, dropped or repaired.
    """
    if losses.shape[2] != len(reading.requirements):
        raise LossMismatch(
            f"the losses have {losses.shape[2]} requirements, {len(reading.requirements)} are "
            "registered"
        )
    if isinstance(losses, Moments):
        return Pass(_from_moments(losses, reading), None)
    if isinstance(losses, LossBatches):
        raise UnsupportedDesign("separate batches are read one by one")
    check_size(losses.shape[1], reading.design)
    if isinstance(losses, LossStream):
        _check_stream(losses, reading)
    reader = LossReader(losses, reading)
    for chunk in [losses] if isinstance(losses, LossArray) else losses:
        reader.add(chunk)
    return reader.finish()


def check_records(losses: Losses, design: Design) -> None:
    """Refuse losses whose records do not fit the design, before any loss is read.

    Chunks of a stream bring their records with them and are asked as each comes.
    """
    batches = losses.batches if isinstance(losses, LossBatches) else [losses]
    for batch in batches:
        if isinstance(batch, LossArray):
            check_labels(batch.records, design)


def _check_stream(stream: LossStream, reading: Reading) -> None:
    """Refuse order-dependent tests on chunks that cannot serve them, before any is read."""
    for requirement, test in zip(reading.requirements, reading.tests, strict=True):
        if not test.order_dependent:
            continue
        if not stream.random_order:
            raise UnsupportedDesign(
                f"{test.value} reads the records one after the other, and a sorted table would "
                "validate anything: state random_order=True if the chunks come in an order that "
                "was drawn at random when the target was sealed, or choose another test"
            )
        if requirement.group is not None or clusters_of(reading.design) is not None:
            raise UnsupportedDesign(
                f"{test.value} needs to know in advance how many records or clusters count for "
                f"{requirement.name!r}, which chunks do not tell: pass an array, or choose "
                "another test"
            )


class LossReader:
    """State of a pass: one `Cell` for each block of releases and requirement.

    `read_losses` makes one; a caller who reads the same chunks under several limits at
    once makes several and feeds them all.
    """

    def __init__(
        self, losses: LossArray | LossStream, reading: Reading,
        ends: Sequence[Array | None] | None = None,
    ) -> None:  # fmt: skip
        """Begin a pass.

        Parameters
        ----------
        losses
            The first chunk, or what all of them amount to.
        reading
            How they are read.
        ends
            By requirement, the least and the greatest loss of each release, (2, R), where these
            are known to be within the requirement's bounds before a record is read.
        """
        self._reading = reading
        self._ends = [
            None if each is None else unit_ends(each, requirement)
            for each, requirement in zip(
                ends or [None] * len(reading.requirements), reading.requirements, strict=True
            )
        ]
        self._names = losses.releases or ()
        self._n = losses.shape[1]
        self._dense = isinstance(losses, LossArray)
        # Shared by all releases: uniforms belong to positions of the target (theory section 1).
        self._rng = {
            j: generator(reading.seed, 1, j)
            for j, test in enumerate(reading.tests)
            if test is ComponentTest.RANDOMIZED_BINOMIAL
        }
        self._blocks = _partition(self._n, reading)
        self._cells: dict[tuple[int, int, float], Cell] = {}
        self._gaps: dict[tuple[int, int], NDArray[np.int64]] = {}
        self._width = 0
        self._seen = 0
        self._ids: list[AnyArray] = []
        self._clusters: set[str] = set()
        self._strata: dict[str, int] = {}

    def add(self, chunk: LossArray) -> None:
        """Read the next records."""
        reading, (n_releases, m, _) = self._reading, chunk.shape
        if m == 0:
            return
        self._width = self._width or max(1, TILE // m)
        check_labels(chunk.records, reading.design)
        ids = chunk.records.column("ids")
        if ids is not None:
            self._ids.append(ids)
        if clusters_of(reading.design) is not None:
            self._whole_clusters(set(chunk.records.texts("clusters")))
        units = [self._units(j, chunk) for j in range(len(reading.requirements))]
        # One uniform a unit, drawn in order: independent of how records fall into chunks.
        uniforms = {
            j: rng.random(m if units[j].clusters is None else units[j].size(m))
            for j, rng in self._rng.items()
        }
        for start in range(0, n_releases, self._width):
            releases = slice(start, min(start + self._width, n_releases))
            for j, unit in enumerate(units):
                raw = chunk.values[releases, :, j]
                tile = np.ascontiguousarray(
                    raw if unit.positions is None else raw.take(unit.positions, axis=1),
                    dtype=np.float64,
                )
                for fill, filled in self._fills(tile, start, j):
                    cell = self._cell(start, j, fill, releases.stop - start, unit)
                    if tile.size:
                        self._check(filled, j, start, unit, ids)
                        cell.add(filled, unit, uniforms.get(j))
        self._seen += m

    def _fills(self, tile: Array, start: int, j: int) -> Iterator[tuple[float, Array]]:
        """Yield the losses as they decide: once, or with missing ones at either bound."""
        requirement = self._reading.requirements[j]
        if not requirement.fills_missing:
            yield requirement.high, tile
            return
        gaps = np.isnan(tile)
        counted = np.count_nonzero(gaps, axis=1)
        self._gaps[start, j] = counted + self._gaps.get((start, j), 0)
        for fill in (requirement.high, requirement.low):
            yield fill, np.where(gaps, fill, tile)

    def _whole_clusters(self, labels: set[str]) -> None:
        split = labels & self._clusters
        if split:
            raise LossMismatch(
                f"cluster {min(split)} is spread over two chunks; a chunk must hold whole clusters"
            )
        self._clusters |= labels

    def _units(self, j: int, chunk: LossArray) -> Units:
        """Say which records of a chunk count for requirement ``j``, and as what."""
        reading, m = self._reading, chunk.shape[1]
        requirement = reading.requirements[j]
        order_matters = reading.tests[j].order_dependent and self._dense
        shuffle = order_matters and not chunk.records.random_order
        order = random_order(m, reading.seed) if shuffle else None
        weights, clusters, shares = None, None, None
        strata, rule = chunk.records.column("strata"), clusters_of(reading.design)
        labels, weighed = chunk.records.column("clusters"), chunk.records.column("weights")
        if rule is not None and labels is not None:
            # A random order of records is none of clusters: large ones come first.
            each = None if weighed is None else weighed.astype(np.float64)
            clusters = Clusters.of(labels, rule, order_matters, reading.seed, each)
            order, shares = clusters.order, clusters.shares(rule)
            strata = None if strata is None else clusters.label(strata)
        if isinstance(reading.design, Stratified) and strata is not None:
            # Once for a chunk: every requirement sees the same records.
            if j == 0:
                for stratum, count in stratum_counts(strata).items():
                    self._strata[stratum] = self._strata.get(stratum, 0) + count
            if reading.design.sampling is Sampling.WEIGHTED:
                weights = stratum_weights(strata, reading.design)
        if isinstance(reading.design, Weighted) and weighed is not None:
            shares = weight_shares(weighed, reading.design, self._seen)
        if requirement.group is not None:
            member = chunk.records.group(requirement.group)
            order = np.flatnonzero(member) if order is None else order[member[order]]
        blocks = self._blocks
        if blocks is not None:
            blocks = blocks[self._seen : self._seen + m]
        if clusters is None and order is not None:
            weights, shares = (None if x is None else x[order] for x in (weights, shares))
        return Units(order, weights, clusters, shares, blocks)

    def _cell(self, start: int, j: int, fill: float, columns: int, unit: Units) -> Cell:
        key = (start, j, fill)
        if key not in self._cells:
            n = unit.size(self._n) if self._dense else self._n
            n_blocks = 0 if self._blocks is None else int(self._blocks.max()) + 1
            ends = self._ends[j]
            inside = None if ends is None else ends[:, start : start + columns]
            self._cells[key] = Cell(self._reading, j, columns, n, n_blocks, inside)
        return self._cells[key]

    def _check(self, tile: Array, j: int, start: int, unit: Units, ids: AnyArray | None) -> None:
        requirement = self._reading.requirements[j]
        # A NaN makes both comparisons false, and so reaches the branch that names it.
        if tile.min() >= requirement.low and tile.max() <= requirement.high:
            if not requirement.two_valued:
                return
            wrong = (tile != requirement.low) & (tile != requirement.high)
            promised = f"one of {requirement.low!r} and {requirement.high!r}"
            remedy = "drop two_valued from the declaration or mend the loss"
        else:
            wrong = ~((tile >= requirement.low) & (tile <= requirement.high))
            promised = f"a value in [{requirement.low!r}, {requirement.high!r}]"
            remedy = "mend or rescale the loss: values are never clipped"
            if np.isnan(tile).any():
                remedy = 'mend it, or declare missing="worst", which counts it at its bounds'
        if not wrong.any():
            return
        r, i = (int(k) for k in np.argwhere(wrong)[0])
        position = i if unit.positions is None else int(unit.positions[i])
        raise LossOutOfBounds(
            requirement=requirement.name,
            release=self._names[start + r],
            record=self._seen + position if ids is None else ids.tolist()[position],
            value=float(tile[r, i]),
            promised=promised,
            remedy=remedy,
        )

    def finish(self) -> Pass:
        """Return the statistics of all records read."""
        ids = None
        if self._ids:
            ids = np.concatenate(self._ids)
            if ids.size != self._n:
                raise LossMismatch(f"{ids.size} record ids for {self._n} records")
            check_ids(ids, self._reading.design)
        if isinstance(self._reading.design, Stratified):
            check_strata(self._strata, self._reading.design)
        starts = sorted({start for start, *_ in self._cells})
        columns = tuple(
            join_columns([self._column(start, j) for start in starts])
            for j in range(len(self._reading.requirements))
        )
        return Pass(columns, ids)

    def _column(self, start: int, j: int) -> Column:
        """Return the statistics of some releases; of two fills where losses may be missing."""
        requirement = self._reading.requirements[j]
        high = self._cells[start, j, requirement.high].column()
        if not requirement.fills_missing:
            return high
        low = self._cells[start, j, requirement.low].column()
        return join_fills(high, low, self._gaps[start, j])


def _partition(n: int, reading: Reading) -> NDArray[np.int64] | None:
    """Return each record's block (Theorem 13), -1 for the remainder that fills none."""
    if reading.block_size is None:
        return None
    n_blocks = n // reading.block_size
    if n_blocks < 1:
        raise LossMismatch(f"no block of {reading.block_size} records fits into {n}")
    chosen = generator(reading.seed, 2).permutation(n)[: n_blocks * reading.block_size]
    blocks = np.full(n, -1, dtype=np.int64)
    blocks[chosen] = np.repeat(np.arange(n_blocks), reading.block_size)
    return blocks


def _from_moments(moments: Moments, reading: Reading) -> tuple[Column, ...]:
    lacking = sorted({t.value for t in reading.tests if t.needs_records})
    if lacking:
        raise UnsupportedDesign(
            f"{', '.join(lacking)} reads single records, which moments do not have; choose "
            "empirical_bernstein, hoeffding, chernoff, bentkus or binomial"
        )
    if isinstance(reading.design, Stratified | Clustered | Weighted):
        raise UnsupportedDesign(
            "moments carry no strata, clusters or weights, and the design is "
            f"{type(reading.design).__name__}"
        )
    if any(requirement.fills_missing for requirement in reading.requirements):
        raise UnsupportedDesign(
            "moments do not say which losses were missing: give the losses, with NaN where one is"
        )
    if reading.block_size is not None:
        raise UnsupportedDesign("block mode reads single records, which moments do not have")
    return tuple(_moment_columns(moments, reading))


def _moment_columns(moments: Moments, reading: Reading) -> Iterator[Column]:
    means = np.asarray(moments.mean)
    for j, (requirement, test) in enumerate(zip(reading.requirements, reading.tests, strict=True)):
        n = int(np.asarray(moments.n)[j])
        if requirement.is_far:
            raise LossMismatch(
                f"{requirement.name}: a mean in [{requirement.low:g}, {requirement.high:g}] has "
                "lost digits that decide; shift the loss so that its range starts near 0"
            )
        check_size(max(n, 1), reading.design)
        mean = means[:, j]
        wrong = np.flatnonzero(~((mean >= requirement.low) & (mean <= requirement.high)))
        if wrong.size:
            raise LossOutOfBounds(
                requirement=requirement.name,
                release=(moments.releases or ())[wrong[0]],
                record="mean",
                value=float(mean[wrong[0]]),
                promised=f"a mean in [{requirement.low!r}, {requirement.high!r}]",
                remedy="mend the moments: values are never clipped",
            )
        unit = (mean - requirement.low) / requirement.width
        variance = None
        if moments.variance is not None:
            variance = np.asarray(moments.variance)[:, j] / requirement.width**2
            # A variance above that of two points at the bounds has another n behind it.
            most = unit * (1.0 - unit) * n / max(n - 1, 1)
            if np.any(variance > most * (1.0 + 1e-9) + 1e-12):
                raise LossMismatch(
                    f"{requirement.name}: a variance exceeds what {n} values in the registered "
                    "bounds with that mean can have"
                )
        elif test is ComponentTest.EMPIRICAL_BERNSTEIN:
            raise LossMismatch("empirical_bernstein needs variances, and the moments have none")
        count = None
        if requirement.two_valued:
            count = np.rint(unit * n).astype(np.int64)
            if np.any(np.abs(unit * n - count) > 1e-6):
                raise LossMismatch(
                    f"{requirement.name}: declared two_valued, but a mean is no whole number of "
                    f"losses out of {n}"
                )
        yield Column(n=n, mean=unit, variance=variance, count=count)
