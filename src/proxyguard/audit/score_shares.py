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
from proxyguard.errors import LossMismatch, SealError
from proxyguard.losses.cell import Column, Reading, share_column
from proxyguard.losses.measure import Measure
from proxyguard.losses.query import BoundedQuery, CodedRecords, Workload
from proxyguard.losses.records import check_ids, check_size, check_strata, stratum_counts
from proxyguard.registry.design import Clustered, Design, Sampling, Stratified
from proxyguard.seal.table import read_table_bytes

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
class ShareScorer:
    """Everything that counting the shares of one mechanism's releases needs."""

    folder: AuditFolder
    target: OpenTarget
    measures: Sequence[Measure]
    design: Design
    progress: Callable[[str, int, int], None]

    def columns(self, mechanism: str, draws: Sequence[Mapping[str, Any]]) -> list[Column]:
        """Return the statistics of every measure over all draws."""
        sides = [(_query(m), m.sign > 0.0, m.requirement.group) for m in self.measures]
        queries = list({query.name: query for query, _, _ in sides}.values())
        place = {query.name: k for k, query in enumerate(queries)}
        workload = Workload(queries)
        answers = np.zeros((len(draws), len(queries)))
        failed = np.zeros(len(draws), dtype=bool)
        for r, record in enumerate(draws):
            own = _answers(self.folder, record, workload)
            failed[r] = own is None
            answers[r] = 0.0 if own is None else own
            self.progress(f"scoring {mechanism}", r + 1, len(draws))
        found = self._counted(workload, {group for _, _, group in sides})
        return [
            _column(found[group], place[query.name], answers[:, place[query.name]], failed, above)
            for query, above, group in sides
        ]

    def _counted(
        self, workload: Workload, groups: set[str | None]
    ) -> dict[str | None, tuple[int, Whole]]:
        """Return, by subgroup, how many target records there are and how many in each cell."""
        sizes = dict.fromkeys(groups, 0)
        counts = {group: np.zeros(len(workload), dtype=np.int64) for group in groups}
        strata: dict[Any, int] = {}
        ids: list[NDArray[Any]] = []
        for chunk in self.target.chunks():
            m, records = len(chunk.positions), chunk.records
            coded = CodedRecords(chunk.frame)
            for group in groups:
                inside = None if group is None else records.group(group)
                counts[group] += workload.counts(coded, inside)
                sizes[group] += m if inside is None else int(inside.sum())
            labels = records.column("strata")
            for label, size in {} if labels is None else stratum_counts(labels).items():
                strata[label] = strata.get(label, 0) + size
            ids.append(chunk.positions)
        self._check(np.concatenate(ids), strata)
        return {group: (sizes[group], counts[group]) for group in groups}

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
    draws: Sequence[Mapping[str, Any]],
    evidence: Mapping[str, Any],
) -> None:
    """Raise unless the answers on record are those of the stored releases; needs no target."""
    columns = evidence["columns"]
    shares = [
        j
        for j, (measure, column) in enumerate(zip(measures, columns, strict=True))
        if measure.requirement.indicator and "answer" in column
    ]
    if not shares:
        return
    workload = Workload([_query(measures[j]) for j in shares])
    above = np.array([measures[j].sign > 0.0 for j in shares])
    for r, draw in enumerate(draws):
        own = _answers(folder, draw, workload)
        expected = np.zeros(len(shares)) if own is None else np.where(above, own, 1.0 - own)
        found = np.array([columns[j]["answer"][r] for j in shares], dtype=np.float64)
        wrong = np.flatnonzero(~(np.abs(found - expected) <= CLOSE))
        if wrong.size:
            name = measures[shares[wrong[0]]].requirement.name
            raise SealError(
                f"{name}: release {evidence['releases'][r]} answers {expected[wrong[0]]:.6g}, and "
                f"{found[wrong[0]]:.6g} is on record"
            )


def _answers(folder: AuditFolder, record: Mapping[str, Any], workload: Workload) -> Array | None:
    """Return a release's own shares; none for a failed draw and one without records."""
    if record["status"] != "drawn":
        return None
    name = str(record.get("name", record["seed"]))
    frame = read_table_bytes(folder.store.get(record["release"]), name)
    if len(frame) == 0:
        return None
    return np.asarray(workload.counts(CodedRecords(frame)) / len(frame))


def _query(measure: Measure) -> BoundedQuery:
    assert measure.query is not None  # an indicator is of a query
    return measure.query


def _column(
    counted: tuple[int, Whole], k: int, answers: Array, failed: NDArray[np.bool_], above: bool
) -> Column:
    """Return the statistics of one side of one share, on the unit scale of ``[-1, 1]``.

    The side "target below release" asks for the records outside the cell. A draw without
    answers has every loss at its upper bound: all records count, and its answer is 0.
    """
    n, ones = counted[0], int(counted[1][k])
    own = ones if above else n - ones
    count = np.where(failed, n, own)
    answer = np.where(failed, 0.0, answers if above else 1.0 - answers)
    return share_column(n, count.astype(np.int64), answer)
