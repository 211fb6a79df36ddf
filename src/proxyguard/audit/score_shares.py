"""Score shares by counting: how many target records lie in each cell, and what releases say.

A share's loss is 0 or 1 less the release's answer, so its mean and its variance follow from one
count. Thousands of cells are counted table by table, and no loss of a single record is formed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from proxyguard.audit.agree import CLOSE
from proxyguard.audit.folder import AuditFolder
from proxyguard.audit.target import OpenTarget
from proxyguard.documents.evidence import ColumnRecord, GroupEvidence
from proxyguard.documents.releases import AnyDraw, DrawnRelease
from proxyguard.errors import LossMismatch, SealError
from proxyguard.losses.cell import Column, Reading, share_column
from proxyguard.losses.measure import Measure
from proxyguard.losses.query import BoundedQuery, CodedRecords, Workload
from proxyguard.losses.records import check_ids, check_size, check_strata, stratum_counts
from proxyguard.registry.design import Clustered, Design, Sampling, Stratified

Array = NDArray[np.float64]
Whole = NDArray[np.int64]


def countable(measures: Sequence[Measure], readings: Sequence[Reading]) -> list[int]:
    """Return which measures every reading can read from counts alone."""
    return [
        j
        for j, measure in enumerate(measures)
        if measure.requirement.indicator and all(_from_counts(one, j) for one in readings)
    ]


def _from_counts(reading: Reading, j: int) -> bool:
    return not (
        reading.tests[j].needs_records
        or reading.block_size is not None
        or reading.design.sampling is Sampling.WEIGHTED
        or isinstance(reading.design, Clustered)
    )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Asked:
    """The shares that are asked of one subgroup, of the target and of every release alike."""

    cell: tuple[tuple[str, str], ...]  # what the group's records have; nothing: all records
    workload: Workload
    measures: dict[int, int]  # the places of the measures, and of their shares in the workload


def _asked(measures: Sequence[Measure], chosen: Sequence[int] | None = None) -> list[_Asked]:
    """Return the shares of some measures, group by group, each share once for its two sides."""
    groups: dict[tuple[tuple[str, str], ...], tuple[dict[str, BoundedQuery], dict[int, str]]] = {}
    for j in range(len(measures)) if chosen is None else chosen:
        query = measures[j].query
        assert query is not None  # an indicator is of a query
        queries, names = groups.setdefault(measures[j].group, ({}, {}))
        queries[query.name] = query
        names[j] = query.name
    found = []
    for cell, (queries, names) in groups.items():
        place = {name: k for k, name in enumerate(queries)}
        own = {j: place[name] for j, name in names.items()}
        found.append(_Asked(cell=cell, workload=Workload(list(queries.values())), measures=own))
    return found


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ShareScorer:
    """Everything that counting the shares of one mechanism's releases needs."""

    folder: AuditFolder
    target: OpenTarget
    measures: Sequence[Measure]
    design: Design
    progress: Callable[[str, int, int], None]

    def columns(self, mechanism: str, draws: Sequence[AnyDraw]) -> list[Column]:
        """Return the statistics of every measure over all draws."""
        asked = _asked(self.measures)
        answers = [np.empty((len(draws), len(group.workload))) for group in asked]
        for r, draw in enumerate(draws):
            coded = _coded(self.folder, draw) if isinstance(draw, DrawnRelease) else None
            for shares, own in zip(answers, _answers(coded, asked), strict=True):
                shares[r] = own
            self.progress(f"scoring {mechanism}", r + 1, len(draws))
        counted = self._counted(asked)
        found: dict[int, Column] = {}
        for group, target, shares in zip(asked, counted, answers, strict=True):
            for j, cell in group.measures.items():
                found[j] = _column(target, cell, shares[:, cell], self.measures[j].sign > 0.0)
        return [found[j] for j in range(len(self.measures))]

    def _counted(self, asked: Sequence[_Asked]) -> list[tuple[int, Whole]]:
        """Return, by subgroup, how many target records there are and how many in each cell."""
        sizes = [0] * len(asked)
        counts = [np.zeros(len(group.workload), dtype=np.int64) for group in asked]
        strata: dict[Any, int] = {}
        ids: list[NDArray[Any]] = []
        for chunk in self.target.chunks():
            records = chunk.records
            coded = CodedRecords(chunk.frame)
            for k, group in enumerate(asked):
                inside = coded.inside(group.cell)
                counts[k] += group.workload.counts(coded, inside)
                sizes[k] += int(inside.sum())
            labels = records.column("strata")
            for label, size in {} if labels is None else stratum_counts(labels).items():
                strata[label] = strata.get(label, 0) + size
            ids.append(chunk.positions)
        self._check(np.concatenate(ids), strata)
        return list(zip(sizes, counts, strict=True))

    def _check(self, ids: NDArray[Any], strata: Mapping[Any, int]) -> None:
        """See that the records are those that were sealed, as the design has them."""
        if ids.size != self.target.n_records:
            raise LossMismatch(
                f"the target has {ids.size} records, sealed were {self.target.n_records}"
            )
        check_size(ids.size, self.design)
        check_ids(ids, self.design)
        if isinstance(self.design, Stratified):
            check_strata(strata, self.design)


def check_answers(
    folder: AuditFolder,
    measures: Sequence[Measure],
    draws: Sequence[AnyDraw],
    evidence: GroupEvidence,
) -> None:
    """Raise unless the answers on record are those of the stored releases; needs no target.

    A draw that failed, and a release that cannot answer a query, have the worst loss on every
    record. An author who wrote better statistics for them would turn a failure into a success.
    """
    columns = evidence.columns
    queries = [j for j, measure in enumerate(measures) if measure.query is not None]
    shares = [j for j in queries if columns[j].answer is not None]
    asked = _asked(measures, shares)
    for r, draw in enumerate(draws):
        asks = queries and isinstance(draw, DrawnRelease) and not draw.failed
        coded = _coded(folder, draw) if asks and isinstance(draw, DrawnRelease) else None
        for group, own in zip(asked, _answers(coded, asked), strict=True):
            sides = list(group.measures)
            above = np.array([measures[j].sign > 0.0 for j in sides])
            expected = _side(own[list(group.measures.values())], above)
            found = np.array([(columns[j].answer or ())[r] for j in sides], dtype=np.float64)
            wrong = np.flatnonzero(~(np.abs(found - expected) <= CLOSE))
            if wrong.size:
                name = measures[sides[wrong[0]]].requirement.name
                raise SealError(
                    f"{name}: release {evidence.releases[r]} answers {expected[wrong[0]]:.6g}, "
                    f"and {found[wrong[0]]:.6g} is on record"
                )
        for j in range(len(measures)) if draw.failed else _silent(coded, measures, queries):
            if not _is_worst(columns[j], float(evidence.derived.pvalues[r][j]), r):
                raise SealError(
                    f"{measures[j].requirement.name}: release {evidence.releases[r]} failed or "
                    "has nothing to answer with, which counts as the worst loss on every record; "
                    "better statistics are on record"
                )


def _silent(
    coded: CodedRecords | None, measures: Sequence[Measure], queries: Sequence[int]
) -> list[int]:
    """Return the queries to which a release has no answer; one look for each group and column."""
    known: dict[tuple[object, str | None], bool] = {}
    found = []
    for j in queries:
        query, group = measures[j].query, measures[j].group
        assert query is not None  # selected by the caller
        assert coded is not None  # a drawn release that is asked
        key = (group, query.column)
        if key not in known:
            known[key] = measures[j].answer(coded) is None
        if known[key]:
            found.append(j)
    return found


def _is_worst(column: ColumnRecord, pvalue: float, r: int) -> bool:
    """Return whether a release's statistics are those of losses at their upper bound."""
    if column.n == 0:
        return True  # no record of the target counts, and nothing is shown
    means = [column.mean[r], *(() if column.block_means is None else column.block_means[r])]
    if column.size_share is not None:
        means = []  # clusters by their size: the mean is of the excess, which the p-value shows
    capitals = (column.log_peak, column.log_final, column.log_evalue)
    logs = [capital[0][r] for capital in capitals if capital is not None]
    return (
        pvalue >= 1.0 - CLOSE
        and all(float(mean) >= 1.0 - CLOSE for mean in means)
        and all(float(log) <= CLOSE for log in logs)
    )


def _coded(folder: AuditFolder, draw: DrawnRelease) -> CodedRecords:
    return CodedRecords(folder.stored_table(draw.release, draw.label))


def _answers(coded: CodedRecords | None, asked: Sequence[_Asked]) -> list[Array]:
    """Return a release's own shares, group by group; NaN where it has no record of the group.

    A failed draw, which is no table, has no record of any.
    """
    nothing = [np.full(len(group.workload), np.nan) for group in asked]
    if coded is None:
        return nothing
    found = []
    for group, none in zip(asked, nothing, strict=True):
        inside = coded.inside(group.cell)
        size = int(inside.sum())
        counts = group.workload.counts(coded, inside)
        found.append(np.asarray(counts / size) if size else none)
    return found


def _side(shares: Array, above: NDArray[np.bool_] | bool) -> Array:
    """Return what releases answer on a side; 0 where there is no answer, as of a failed draw."""
    answer = np.where(above, shares, 1.0 - shares)
    return np.where(np.isnan(shares), 0.0, answer)


def _column(counted: tuple[int, Whole], k: int, shares: Array, above: bool) -> Column:
    """Return the statistics of one side of one share, on the unit scale of ``[-1, 1]``.

    The side "target below release" asks for the records outside the cell. A draw without
    an answer has every loss at its upper bound: all records count, and its answer is 0.
    """
    n, ones = counted[0], int(counted[1][k])
    count = np.where(np.isnan(shares), n, ones if above else n - ones)
    return share_column(n, count.astype(np.int64), _side(shares, above))
