"""Ask the opened target how often the attacks on frozen releases are right about nonmembers.

`ExposureScorer` sends the target by, chunk by chunk, and keeps counts and the statistics of losses
of what `attacks` made of every release. No score of a target record outlives its chunk, and none
is written.

Reads stored releases, the development part and the opened target; writes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from proxyguard.audit.attacks import Attacked, MemberAttacks
from proxyguard.audit.home import one_thread
from proxyguard.audit.score import (
    RecordsRead,
    at_once,
    chunks_of,
    countable,
    in_memory,
    needs_whole,
    only,
)
from proxyguard.audit.target import Chunk, TargetRecords
from proxyguard.documents.releases import AnyDraw, DrawnRelease
from proxyguard.exact.rounding import Array
from proxyguard.exposure.representation import Rows
from proxyguard.exposure.statistics import ThresholdCounter
from proxyguard.losses.cell import Column, Reading, join_columns, share_column
from proxyguard.losses.read import LossArray, LossReader, LossStream
from proxyguard.registry.design import Sampling

# Shown the attacks on a release, the scores of some records, and by measure which of these count.
Watch = Callable[[Attacked, Mapping[str, Array], Sequence[NDArray[np.bool_]]], None]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Exposed:
    """The statistics of requirements about exposure, by reading, and what could not be scored."""

    columns: tuple[tuple[Column, ...], ...]
    unscored: dict[str, int]


@dataclass(slots=True, kw_only=True, eq=False)
class _Counts:
    """What is counted of one group of releases while the target goes by."""

    sizes: dict[int, int]  # by counted measure: records that count
    unflagged: dict[tuple[int, int], int]  # by release and measure with one threshold
    counters: dict[tuple[int, int], ThresholdCounter]  # by release and measure at all thresholds
    unscored: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ExposureScorer:
    """Everything that scoring the exposures of one member's releases needs.

    Attributes
    ----------
    attacks
        The attacks, and the open rows that they are made from.
    target
        The records that tell how often attacks are right about nonmembers.
    progress
        Told what is done, of how many.
    watch
        Shown the scores of every chunk of records, where somebody counts them for a description.
    """

    attacks: MemberAttacks
    target: TargetRecords
    progress: Callable[[str, int, int], None]
    watch: Watch | None = None

    def score(
        self, mechanism: str, draws: Sequence[AnyDraw], readings: Sequence[Reading]
    ) -> Exposed:
        """Return the statistics of every draw under every reading.

        Parameters
        ----------
        mechanism
            What progress is told of.
        draws
            The releases; of a failed one every loss is its upper bound.
        readings
            Readings of the requirements about exposure alone: as registered, and under other
            limits.

        Raises
        ------
        LossMismatch
            Where the target has other records than were sealed, or than its design has.
        SealError
            Where a stored release is not what its record says.
        """
        measures = self.attacks.measures
        counted = countable(measures, readings)
        blocks: list[list[list[Column]]] = [[[] for _ in measures] for _ in readings]
        unscored: dict[str, int] = {}
        done = 0
        with one_thread():
            for group in self._groups(draws, readings, len(measures) - len(counted)):
                columns, without = self._pass(group, readings, counted)
                for of_reading, whole in zip(blocks, columns, strict=True):
                    for j, column in enumerate(whole):
                        of_reading[j].append(column)
                unscored |= without
                done += len(group)
                group.clear()  # attacks on all releases together would not fit
                self.progress(f"attacking {mechanism}", done, len(draws))
        return Exposed(
            columns=tuple(tuple(_joined(each) for each in whole) for whole in blocks),
            unscored=unscored,
        )

    def _groups(
        self, draws: Sequence[AnyDraw], readings: Sequence[Reading], by_record: int
    ) -> Iterator[list[Attacked]]:
        """Yield attacked releases that fit into memory together, with the losses of a chunk."""
        most = at_once(self.target, by_record, dense=needs_whole(readings))
        whole = None
        if self.attacks.named:
            # Their scores of all records are kept, and so of one release at a time.
            whole, most = Rows(self.target.whole().frame, self.attacks.representation), 1
        attacked = (self.attacks.on(draw, whole) for draw in draws)
        return in_memory(((each, self._bytes(each)) for each in attacked), most)

    def _bytes(self, attacked: Attacked) -> int:
        # Points of a release in several forms, and a few numbers for each member and measure.
        if not isinstance(attacked.draw, DrawnRelease):
            return 0
        points = 64 * attacked.draw.rows * self.attacks.representation.dimension
        return points + sum(48 * found.census.size for found in attacked.found.values())

    def _pass(
        self, group: Sequence[Attacked], readings: Sequence[Reading], counted: Sequence[int]
    ) -> tuple[list[list[Column]], dict[str, int]]:
        """Read the target once for a group of attacked releases."""
        measures, design = self.attacks.measures, readings[0].design
        rest = [j for j in range(len(measures)) if j not in counted]
        some = [only(reading, rest) for reading in readings]
        names = [attacked.draw.label for attacked in group]
        dense = bool(self.attacks.named) or (bool(rest) and needs_whole(some))
        tally = _counting(group, counted)
        declared = LossStream(
            chunks=(), n_releases=len(group), n_records=self.target.n_records,
            n_requirements=max(1, len(rest)), random_order=True, releases=names,
        )  # fmt: skip
        readers: list[LossReader] = []
        read = RecordsRead()
        for chunk in chunks_of(self.target, len(group) * len(rest), dense=dense):
            inside = self.attacks.inside(chunk.frame)
            losses = self._score(chunk, group, inside, counted, rest, tally)
            read.add(chunk)
            if not rest:
                continue
            records = replace(chunk.records, groups={**chunk.records.groups, **inside})
            array = LossArray(losses, records, names)
            if not readers:
                readers = [LossReader(array if dense else declared, each) for each in some]
            for reader in readers:
                reader.add(array)
        read.check(self.target, design)
        by_record = [reader.finish().columns for reader in readers]
        columns: list[list[Column]] = []
        for k, reading in enumerate(readings):
            whole = dict(zip(rest, by_record[k], strict=True)) if rest else {}
            whole |= {j: _counted_column(j, group, reading, tally) for j in counted}
            columns.append(
                [replace(whole[j], unmeasured=_unmeasured(group, j)) for j in range(len(measures))]
            )
        return columns, tally.unscored

    def _score(
        self,
        chunk: Chunk,
        group: Sequence[Attacked],
        inside: Mapping[str, NDArray[np.bool_]],
        counted: Sequence[int],
        rest: Sequence[int],
        tally: _Counts,
    ) -> Array:
        """Count what is counted of some records, and return the losses of the rest, (R, m, J)."""
        m, measures = len(chunk.positions), self.attacks.measures
        losses = np.empty((len(group), m, len(rest)))
        rows = Rows(chunk.frame, self.attacks.representation)
        every = np.ones(m, dtype=bool)
        masks = [inside.get(str(measure.requirement.group), every) for measure in measures]
        for j in counted:
            tally.sizes[j] += int(masks[j].sum())
        for r, attacked in enumerate(group):
            scores, without = attacked.scores(rows)
            if len(attacked.found) < len(measures) and not attacked.draw.failed:
                without = m  # an attack that could not be fitted scores no record
            if without:
                label = attacked.draw.label
                tally.unscored[label] = tally.unscored.get(label, 0) + without
            if self.watch is not None and attacked.found:
                self.watch(attacked, scores, masks)
            for j in counted:
                found = attacked.found.get(j)
                if found is None:
                    continue
                fresh = scores[found.question.attack][masks[j]]
                if (r, j) in tally.counters:
                    tally.counters[r, j].add(fresh)
                else:
                    tally.unflagged[r, j] += found.unflagged(fresh)
            for k, j in enumerate(rest):
                found = attacked.found.get(j)
                losses[r, :, k] = (
                    measures[j].requirement.high
                    if found is None
                    else found.losses(scores[found.question.attack])
                )
        return losses


def _counting(group: Sequence[Attacked], counted: Sequence[int]) -> _Counts:
    """Return counts of which no record was seen yet."""
    counters, unflagged = {}, {}
    for r, attacked in enumerate(group):
        for j in counted:
            found = attacked.found.get(j)
            if found is not None and found.threshold is None:
                counters[r, j] = ThresholdCounter(found.census)
            elif found is not None:
                unflagged[r, j] = 0
    return _Counts(sizes=dict.fromkeys(counted, 0), unflagged=unflagged, counters=counters)


def _unmeasured(group: Sequence[Attacked], j: int) -> NDArray[np.bool_]:
    """Return the releases that the attack of a measure could not be made on.

    A failed draw is none of them: it is no release, and counts as the worst by definition.
    """
    return np.array([j not in each.found and not each.draw.failed for each in group], dtype=bool)


def _joined(columns: Sequence[Column]) -> Column:
    """Return blocks of releases as one; nothing is said of measuring where all were measured."""
    whole = join_columns(columns)
    assert whole.unmeasured is not None  # of every block
    return whole if whole.unmeasured.any() else replace(whole, unmeasured=None)


def _counted_column(j: int, group: Sequence[Attacked], reading: Reading, tally: _Counts) -> Column:
    """Return the counts of one requirement; all records count against a release without any."""
    requirement, n = reading.requirements[j], tally.sizes[j]
    count, count_low = (np.full(len(group), n, dtype=np.int64) for _ in range(2))
    answer, answer_low = (np.zeros(len(group)) for _ in range(2))
    for r, attacked in enumerate(group):
        found = attacked.found.get(j)
        if found is None:
            continue
        if (r, j) in tally.counters:
            worst = tally.counters[r, j].worst(
                requirement.limit,
                requirement.thresholds,
                identical=reading.design.sampling is Sampling.IID,
            )
            count[r], answer[r] = worst.count, worst.answer
            count_low[r], answer_low[r] = worst.count_low, worst.answer_low
        else:
            count[r] = count_low[r] = tally.unflagged[r, j]
            answer[r], answer_low[r] = found.answer, found.answer_low
    return share_column(
        n,
        count,
        answer,
        count_low if requirement.thresholds > 1 else None,
        answer_low if requirement.two_directions else None,
    )
