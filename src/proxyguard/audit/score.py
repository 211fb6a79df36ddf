"""Score every frozen release on the opened target, in one pass over its records.

Losses exist for one chunk of records at a time and are never written down; what stays are the
statistics that the registered tests may look at. A share is scored by counting: its loss is 0 or
1 less the release's answer, so its mean and its variance follow from one count, and thousands of
cells are counted table by table without forming the loss of a single record.

Reads stored releases, models and the opened target; writes nothing. `check_record` and
`check_answers` compare what is on record with its own statistics and with the stored releases, for
`verify`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, TypeVar

import numpy as np
from numpy.typing import NDArray

from proxyguard.audit.development import load_fitted
from proxyguard.audit.folder import AuditFolder
from proxyguard.audit.home import one_thread
from proxyguard.audit.manifest import PredictionsByRecord, ProbabilityHistograms, stored_predictions
from proxyguard.audit.target import Chunk, TargetRecords
from proxyguard.audit.verify import WITHIN, agree
from proxyguard.documents.evidence import ColumnRecord, GroupEvidence
from proxyguard.documents.registry import SourceModel
from proxyguard.documents.releases import AnyDraw, DrawnRelease, GivenRelease
from proxyguard.draw.protocol import Fitted, features, predict
from proxyguard.errors import LossMismatch, SealError
from proxyguard.evidence.record import Sizes, check_counts, derived_record, read_evidence
from proxyguard.evidence.releases import ReleaseEvidence
from proxyguard.exact.rounding import Array
from proxyguard.losses.cell import Column, Reading, join_columns, share_column, unit_ends
from proxyguard.losses.measure import Measure, Predicted
from proxyguard.losses.query import BoundedQuery, CodedRecords, Workload
from proxyguard.losses.read import LossArray, LossReader, LossStream
from proxyguard.losses.records import check_ids, check_size, check_strata, stratum_counts
from proxyguard.models.features import Features
from proxyguard.registry.declaration import Member
from proxyguard.registry.design import Design, Sampling, Stratified, clusters_of, sees_losses
from proxyguard.registry.requirement import Form
from proxyguard.registry.target import Outcome

if TYPE_CHECKING:
    import pandas as pd

    from proxyguard.audit.exposure import ExposureScorer

Sized = TypeVar("Sized")
# Bytes of stored models that are held in memory at once.
HELD = 1 << 28
# Losses computed at once: 32 MB of doubles.
CELLS = 1 << 22


def countable(measures: Sequence[Measure], readings: Sequence[Reading]) -> list[int]:
    """Return which measures every reading can read from counts alone.

    Tests that look at single records cannot, nor can blocks, weights and clusters, whose
    statistics are of sums over records.

    Parameters
    ----------
    measures
        What is measured of every release.
    readings
        The registered reading, and those under other limits.
    """
    return [
        j
        for j, measure in enumerate(measures)
        if measure.requirement.indicator and all(reads_counts(reading, j) for reading in readings)
    ]


def reads_counts(reading: Reading, j: int) -> bool:
    """Return whether a reading reads a share from counts alone."""
    return not (
        reading.tests[j].needs_records
        or reading.block_size is not None
        or reading.design.sampling is Sampling.WEIGHTED
        or not sees_losses(reading.design)
    )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Asked:
    """The shares that are asked of one subgroup, of the target and of every release alike."""

    cell: tuple[tuple[str, str], ...]  # what the group's records have; nothing: all records
    workload: Workload
    measures: dict[int, int]  # the indices of the measures, and of their shares in the workload

    def answers(self, coded: CodedRecords | None) -> Array:
        """Return a release's own shares; NaN where it has no record of the group.

        A failed draw, which is no table, has no record of any.
        """
        nothing = np.full(len(self.workload), np.nan)
        if coded is None:
            return nothing
        inside = coded.inside(self.cell)
        size = int(inside.sum())
        return np.asarray(self.workload.counts(coded, inside) / size) if size else nothing


def _asked(measures: Sequence[Measure], chosen: Sequence[int]) -> list[_Asked]:
    """Return the shares of some measures, group by group, each share once for its two sides."""
    groups: dict[tuple[tuple[str, str], ...], dict[int, BoundedQuery]] = {}
    for j in chosen:
        query = measures[j].query
        assert query is not None  # an indicator is of a query
        groups.setdefault(measures[j].group, {})[j] = query
    asked = []
    for cell, queries in groups.items():
        shares = {query.name: query for query in queries.values()}
        index = {name: k for k, name in enumerate(shares)}
        asked.append(
            _Asked(
                cell=cell,
                workload=Workload(list(shares.values())),
                measures={j: index[query.name] for j, query in queries.items()},
            )
        )
    return asked


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ShareScorer:
    """Everything that counting the shares of one mechanism's releases needs.

    Attributes
    ----------
    folder
        Where stored releases are read.
    target
        The records that are counted, once for all releases.
    measures
        Shares alone: each an indicator of a cell, within a subgroup.
    design
        Of the target, whose sizes the records must have.
    progress
        Told what is done, of how many.
    """

    folder: AuditFolder
    target: TargetRecords
    measures: Sequence[Measure]
    design: Design
    progress: Callable[[str, int, int], None]

    def columns(self, mechanism: str, draws: Sequence[AnyDraw]) -> list[Column]:
        """Return the statistics of every measure over all draws."""
        asked = _asked(self.measures, range(len(self.measures)))
        answers = [np.empty((len(draws), len(group.workload))) for group in asked]
        for r, draw in enumerate(draws):
            coded = _coded(self.folder, draw)
            for shares, group in zip(answers, asked, strict=True):
                shares[r] = group.answers(coded)
            self.progress(f"scoring {mechanism}", r + 1, len(draws))
        columns: dict[int, Column] = {}
        for group, (n, counts), shares in zip(asked, self._counted(asked), answers, strict=True):
            for j, k in group.measures.items():
                above = self.measures[j].sign > 0.0
                columns[j] = _column(n, int(counts[k]), shares[:, k], above)
        return [columns[j] for j in range(len(self.measures))]

    def _counted(self, asked: Sequence[_Asked]) -> list[tuple[int, NDArray[np.int64]]]:
        """Return, by subgroup, how many target records there are and how many in each cell."""
        # One pass for all subgroups and releases: the target is decrypted once.
        sizes = [0] * len(asked)
        counts = [np.zeros(len(group.workload), dtype=np.int64) for group in asked]
        records = RecordsRead()
        for chunk in self.target.chunks():
            coded = CodedRecords(chunk.frame)
            for k, group in enumerate(asked):
                inside = coded.inside(group.cell)
                counts[k] += group.workload.counts(coded, inside)
                sizes[k] += int(inside.sum())
            records.add(chunk)
        records.check(self.target, self.design)
        return list(zip(sizes, counts, strict=True))


@dataclass(frozen=True, slots=True, eq=False)
class RecordsRead:
    """Which records of a target were read while they are counted and no reader sees them.

    Attributes
    ----------
    ids, strata
        Their positions, chunk by chunk, and how many of each stratum there were.
    """

    ids: list[NDArray[np.int64]] = field(default_factory=list)
    strata: Counter[str] = field(default_factory=Counter)

    def add(self, chunk: Chunk) -> None:
        """Note the records of a chunk."""
        self.ids.append(chunk.positions)
        labels = chunk.records.column("strata")
        if labels is not None:
            self.strata.update(stratum_counts(labels))

    def check(self, target: TargetRecords, design: Design) -> None:
        """Raise unless these are the records that were sealed, as the design has them.

        Raises
        ------
        LossMismatch
            Where there are others, or one of them twice.
        """
        ids = np.concatenate(self.ids)
        _check_seen(ids.size, target)
        check_size(ids.size, design)
        check_ids(ids, design)
        if isinstance(design, Stratified):
            check_strata(self.strata, design)


def _check_seen(seen: int, target: TargetRecords) -> None:
    if seen != target.n_records:
        raise LossMismatch(f"the target has {seen} records, sealed were {target.n_records}")


def _coded(folder: AuditFolder, draw: AnyDraw) -> CodedRecords | None:
    """Return the records of a stored release; nothing of a draw that gave none."""
    if not isinstance(draw, DrawnRelease):
        return None
    return CodedRecords(folder.stored_table(draw.release, draw.label))


def answers_on(shares: Array, above: NDArray[np.bool_] | bool) -> Array:
    """Return what releases answer on a side; 0 where there is no answer, as of a failed draw."""
    answer = np.where(above, shares, 1.0 - shares)
    return np.where(np.isnan(shares), 0.0, answer)


def _column(n: int, inside: int, shares: Array, above: bool) -> Column:
    """Return the statistics of one side of one share, on the unit scale of ``[-1, 1]``.

    The side "target below release" asks for the records outside the cell. A draw without
    an answer has every loss at its upper bound: all records count, and its answer is 0.
    """
    count = np.where(np.isnan(shares), n, inside if above else n - inside)
    return share_column(n, count.astype(np.int64), answers_on(shares, above))


@dataclass(slots=True, kw_only=True, eq=False)
class Release:
    """One frozen release: what it needs to be scored, loaded when its turn comes.

    Attributes
    ----------
    name
        What it is called.
    draw
        Its record.
    fitted, table
        The model that was fitted to it, or predictions that were made elsewhere.
    answers
        By query, its own answer over the query's group; None where it has none.
    lacks
        Features that its procedure never saw.
    """

    name: str
    draw: AnyDraw
    fitted: Fitted | None = None
    answers: dict[str, float | None] = field(default_factory=dict)
    table: PredictionsByRecord | None = None
    lacks: tuple[str, ...] = ()

    @property
    def failed(self) -> bool:
        """Whether the draw failed or is of no record, so that every loss is its upper bound."""
        return self.draw.failed

    @property
    def held(self) -> str | None:
        """The stored object that is in memory while the release is scored."""
        if not isinstance(self.draw, DrawnRelease):
            return None
        return self.draw.model or (self.draw.release if self.draw.predictions else None)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Scored:
    """The statistics of one mechanism under each reading, and diagnostics a release.

    Attributes
    ----------
    columns
        By reading, the statistics of every measure.
    auc, source_auc
        Area under the curve of each release, and of the source; of a binary outcome.
    unscored
        By release, records without a usable prediction: their losses are the worst.
    """

    columns: tuple[tuple[Column, ...], ...]
    auc: dict[str, float | None]
    source_auc: float | None = None
    unscored: dict[str, int]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Tally:
    """What is noted beside the losses while records go by; it decides nothing."""

    auc: dict[str, ProbabilityHistograms]  # by release
    source: ProbabilityHistograms
    unscored: dict[str, int] = field(default_factory=dict)

    @classmethod
    def of(cls, releases: Sequence[Release]) -> _Tally:
        """Return one of releases of which no record was seen yet."""
        return cls(
            auc={release.name: ProbabilityHistograms.empty() for release in releases},
            source=ProbabilityHistograms.empty(),
        )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Scorer:
    """Everything that scoring one member's mechanisms has in common.

    Attributes
    ----------
    folder
        Where stored releases and models are read.
    member
        The source and the target that releases belong to.
    measures
        What is measured of every release.
    target
        The records that releases are scored on.
    features
        The columns that predict.
    source
        The source's model, or the address of its predictions, which were made elsewhere.
    trusted
        The types that stored models may have beside our own.
    progress
        Told what is done, of how many.
    on_chunk
        Told what was predicted for every chunk of records, where somebody keeps it.
    exposures
        What attacks releases, of measures about exposure.
    """

    folder: AuditFolder
    member: Member
    measures: Sequence[Measure]
    target: TargetRecords
    features: Sequence[str]
    source: SourceModel | str | None
    trusted: Sequence[str]
    progress: Callable[[str, int, int], None] = lambda what, done, total: None
    on_chunk: Callable[[Chunk, Predicted | None, dict[str, Predicted]], None] | None = None
    exposures: ExposureScorer | None = None

    def score(
        self, mechanism: str, draws: Sequence[AnyDraw], readings: Sequence[Reading]
    ) -> Scored:
        """Return the statistics of every draw under every reading; shares by counting alone.

        Parameters
        ----------
        mechanism
            What progress is told of.
        draws
            The releases; of a failed one every loss is its upper bound.
        readings
            The registered reading, and others of the same losses under other limits.

        Raises
        ------
        LossMismatch
            Where the target has other records than were sealed, or than its design has.
        SealError
            Where a stored release or model is not what its record says.
        """
        exposed = [j for j, measure in enumerate(self.measures) if measure.exposure is not None]
        if exposed:
            assert self.exposures is not None  # whoever makes a scorer gives it where it is needed
            scored = self._others(exposed, mechanism, draws, readings)
            attacked = self.exposures.score(mechanism, draws, [only(r, exposed) for r in readings])
            names = scored.unscored.keys() | attacked.unscored.keys()
            return replace(
                _merged(scored, exposed, attacked.columns),
                unscored={
                    name: max(scored.unscored.get(name, 0), attacked.unscored.get(name, 0))
                    for name in sorted(names)
                },
            )
        shares = countable(self.measures, readings)
        if not shares:
            return self._by_record(mechanism, draws, readings)
        counting = ShareScorer(
            folder=self.folder,
            target=self.target,
            measures=[self.measures[j] for j in shares],
            design=readings[0].design,
            progress=self.progress,
        )
        counted = counting.columns(mechanism, draws)
        scored = self._others(shares, mechanism, draws, readings)
        return _merged(scored, shares, [counted] * len(readings))

    def _others(
        self, chosen: Sequence[int], mechanism: str, draws: Sequence[AnyDraw],
        readings: Sequence[Reading],
    ) -> Scored:  # fmt: skip
        """Return the statistics of all measures but these, which are scored in another way."""
        rest = [j for j in range(len(self.measures)) if j not in chosen]
        if not rest:
            auc: dict[str, float | None] = dict.fromkeys(draw.label for draw in draws)
            return Scored(columns=((),) * len(readings), auc=auc, unscored={})
        others = replace(self, measures=[self.measures[j] for j in rest], exposures=None)
        return others.score(mechanism, draws, [only(r, rest) for r in readings])

    def _by_record(
        self, mechanism: str, draws: Sequence[AnyDraw], readings: Sequence[Reading]
    ) -> Scored:
        """Return the statistics of losses, which are formed record by record."""
        lacks = {r.name: r.lacks for r in self.member.release}
        releases = [
            Release(name=draw.label, draw=draw, lacks=lacks.get(draw.label, ())) for draw in draws
        ]
        source = self._source()
        by_reading: list[list[tuple[Column, ...]]] = [[] for _ in readings]
        auc: dict[str, float | None] = {}
        unscored: dict[str, int] = {}
        source_auc, done = None, 0
        with one_thread():
            for group in self._groups(releases, dense=needs_whole(readings)):
                for release in group:
                    self._load(release)
                tally = _Tally.of(group)
                columns = self._pass(group, source, readings, tally)
                for passes, column in zip(by_reading, columns, strict=True):
                    passes.append(column)
                auc |= {name: seen.auc() for name, seen in tally.auc.items()}
                unscored |= tally.unscored
                source_auc = tally.source.auc()
                done += len(group)
                self.progress(f"scoring {mechanism}", done, len(releases))
                for release in group:  # models of all releases together would not fit
                    release.fitted = release.table = None
        joined = tuple(
            tuple(join_columns(list(columns)) for columns in zip(*passes, strict=True))
            for passes in by_reading
        )
        return Scored(columns=joined, auc=auc, source_auc=source_auc, unscored=unscored)

    def _groups(self, releases: Sequence[Release], *, dense: bool) -> Iterator[list[Release]]:
        """Yield releases whose models and losses fit into memory together."""
        most = at_once(self.target, len(self.measures), dense=dense)
        return in_memory(((release, self._bytes(release)) for release in releases), most)

    def _bytes(self, release: Release) -> int:
        # Counted four times: what is built from a file is larger than the file.
        held_as = release.held
        return 0 if held_as is None else 4 * self.folder.store.path(held_as).stat().st_size

    def _load(self, release: Release) -> None:
        draw = release.draw
        if not isinstance(draw, DrawnRelease) or draw.failed:
            return
        if draw.model is not None:
            release.fitted = load_fitted(self.folder, draw.model, draw, self.trusted)
        queries = {m.query.name: m for m in reversed(self.measures) if m.query is not None}
        if draw.model is None or queries:
            frame = self.folder.stored_table(draw.release, release.name)
            coded = CodedRecords(frame)
            release.answers = {name: measure.answer(coded) for name, measure in queries.items()}
            if draw.predictions:
                release.table = stored_predictions(frame, release.name)

    def _source(self) -> Fitted | PredictionsByRecord | None:
        if self.source is None:
            return None
        if isinstance(self.source, str):
            frame = self.folder.stored_table(self.source, "the source's predictions")
            return stored_predictions(frame, "source")
        return load_fitted(self.folder, self.source.model, self.source, self.trusted)

    def _pass(
        self,
        group: Sequence[Release],
        source: Fitted | PredictionsByRecord | None,
        readings: Sequence[Reading],
        tally: _Tally,
    ) -> list[tuple[Column, ...]]:
        """Read the target once for a group of releases."""
        names = [r.name for r in group]
        dense = needs_whole(readings)
        declared: LossArray | LossStream = LossStream(
            chunks=(), n_releases=len(group), n_records=self.target.n_records,
            n_requirements=len(self.measures), random_order=True, releases=names,
        )  # fmt: skip
        readers: list[LossReader] = []
        ends = [_ends(measure, group) for measure in self.measures]
        seen = 0
        for chunk in chunks_of(self.target, len(group) * len(self.measures), dense=dense):
            losses = LossArray(self._losses(chunk, group, source, tally), chunk.records, names)
            # A stream's length is declared before its records come; a design that needs all of
            # them at once gets them at once.
            if not readers:
                readers = [LossReader(losses if dense else declared, r, ends) for r in readings]
            for reader in readers:
                reader.add(losses)
            seen += len(chunk.positions)
        _check_seen(seen, self.target)
        return [reader.finish().columns for reader in readers]

    def _losses(
        self,
        chunk: Chunk,
        group: Sequence[Release],
        source: Fitted | PredictionsByRecord | None,
        tally: _Tally,
    ) -> Array:
        """Return the losses of a group on some records, (R, m, J)."""
        losses = np.empty((len(group), len(chunk.positions), len(self.measures)))
        shared = None
        if self._outcome is not None and any(m.loss is not None for m in self.measures):
            shared = Features(features(chunk.frame, self.features))
        paired = self._predicted(source, shared, chunk, tally.source)
        coded = CodedRecords(chunk.frame)
        asked = {m.query.name: m.query.values(coded) for m in self.measures if m.query is not None}
        predictions = {}
        for r, release in enumerate(group):
            if chunk.given is not None:
                assert isinstance(release.draw, GivenRelease)  # checked with the manifest
                losses[r] = chunk.given[release.draw.column]
                continue
            if release.failed:
                # A failed draw stays in the denominator, with every loss at its upper bound.
                losses[r] = [m.requirement.high for m in self.measures]
                continue
            known = shared
            if known is not None and release.lacks:
                names = [name for name in self.features if name not in release.lacks]
                known = Features(features(chunk.frame, names))
            predictor = release.fitted or release.table
            predicted = self._predicted(predictor, known, chunk, tally.auc[release.name])
            if predicted is not None:
                predictions[release.name] = predicted
            missing = 0
            for j, measure in enumerate(self.measures):
                if measure.query is not None:
                    name = measure.query.name
                    losses[r, :, j] = measure.of_query_values(asked[name], release.answers[name])
                else:
                    assert predicted is not None  # a loss has predictions
                    assert chunk.y is not None
                    filled = _fill(losses[r, :, j], measure, chunk.y, predicted, paired)
                    missing = max(missing, filled)
            if missing:
                tally.unscored[release.name] = tally.unscored.get(release.name, 0) + missing
        if self.on_chunk is not None:
            self.on_chunk(chunk, paired, predictions)
        return losses

    @property
    def _outcome(self) -> Outcome | None:
        return self.member.target.predicted

    def _predicted(
        self,
        predictor: Fitted | PredictionsByRecord | None,
        x: Features | None,
        chunk: Chunk,
        seen: ProbabilityHistograms,
    ) -> Predicted | None:
        """Return predictions, NaN for records that the procedure cannot predict; note them."""
        outcome = self._outcome
        if predictor is None or outcome is None:
            return None
        if isinstance(predictor, PredictionsByRecord):
            predicted = Predicted(values=predictor.at(chunk.positions))
        elif x is None:
            return None  # queries alone are asked, and no loss
        else:
            predicted = Predicted(
                values=_predictions(predictor, x, outcome), threshold=predictor.threshold
            )
        if outcome.kind == "binary":
            assert chunk.y is not None  # a binary outcome was read
            known = np.isfinite(chunk.y)
            seen.add(chunk.y[known], predicted.values[known])
        return predicted


def _ends(measure: Measure, releases: Sequence[Release]) -> Array | None:
    """Return between which losses each release's lie, (2, R); nothing but of answers to a query."""
    if measure.query is None:
        return None
    name = measure.query.name
    # A failed draw answers nothing.
    return np.array([measure.ends(release.answers.get(name)) for release in releases]).T


def _merged(scored: Scored, chosen: Sequence[int], columns: Sequence[Sequence[Column]]) -> Scored:
    """Return all measures in their registered places, whichever way each was scored."""
    every = range(len(chosen) + len(scored.columns[0]))
    rest = [j for j in every if j not in chosen]
    merged = [
        dict(zip(rest, others, strict=True)) | dict(zip(chosen, these, strict=True))
        for others, these in zip(scored.columns, columns, strict=True)
    ]
    return replace(scored, columns=tuple(tuple(by[j] for j in every) for by in merged))


def in_memory(sized: Iterable[tuple[Sized, int]], most: int) -> Iterator[list[Sized]]:
    """Yield what fits into memory together, each with its bytes: at most so many at once."""
    group: list[Sized] = []
    held = 0
    for item, size in sized:
        if group and (held + size > HELD or len(group) >= most):
            yield group
            group, held = [], 0
        group.append(item)
        held += size
    yield group


def at_once(target: TargetRecords, by_record: int, *, dense: bool) -> int:
    """Return of how many releases, with so many losses each, a chunk's fit into `CELLS`."""
    rows = target.n_records if dense else 256
    return max(1, CELLS // max(1, by_record * rows))


def chunks_of(target: TargetRecords, by_record: int, *, dense: bool) -> Iterator[Chunk]:
    """Yield a target's records, as many at once as have so many losses each in `CELLS`.

    Where ``dense``, all of them in one.
    """
    if dense:
        yield target.whole()
        return
    rows = max(1, CELLS // max(1, by_record))
    for chunk in target.chunks():
        for start in range(0, len(chunk.positions), rows):
            yield chunk.rows(start, start + rows)


def only(reading: Reading, chosen: Sequence[int]) -> Reading:
    """Return a reading of some of the requirements."""
    return replace(
        reading,
        requirements=tuple(reading.requirements[j] for j in chosen),
        tests=tuple(reading.tests[j] for j in chosen),
    )


def _predictions(fitted: Fitted, x: Features, outcome: Outcome) -> Array:
    """Return predictions; where some cannot be made, NaN for those records alone."""
    try:
        return predict(fitted, x, outcome)
    except (ValueError, TypeError, ArithmeticError):
        # After the opening nothing may stop the audit: one record at a time, so that a
        # record's loss depends on nothing but that record.
        classes = (len(outcome.classes or ()),) if outcome.kind == "multiclass" else ()
        values = np.full((len(x), *classes), np.nan)
    for i in range(len(x)):
        try:
            values[i] = predict(fitted, _row(x.table, i), outcome)[0]
        except (ValueError, TypeError, ArithmeticError):
            continue  # stays NaN, which counts as the worst loss
    return values


def _row(table: pd.DataFrame | Array, i: int) -> pd.DataFrame | Array:
    return table[i : i + 1] if isinstance(table, np.ndarray) else table.iloc[i : i + 1]


def _fill(
    out: Array, measure: Measure, y: Array, release: Predicted, source: Predicted | None
) -> int:
    """Put the losses of all records in place; return how many had no usable prediction.

    Without a prediction the loss is its upper bound, a function of the record like any
    other, and on the safe side. Without an outcome it is missing.
    """
    predicted = _finite(release.values)
    if source is not None and measure.requirement.form is Form.RELATIVE:
        predicted &= _finite(source.values)
    usable = predicted & _finite(y)
    if usable.all():
        out[:] = measure.of_predictions(y, release, source)
        return 0
    out[:] = np.where(predicted, np.nan, measure.requirement.high)
    if usable.any():
        kept = replace(release, values=release.values[usable])
        paired = None if source is None else replace(source, values=source.values[usable])
        out[usable] = measure.of_predictions(y[usable], kept, paired)
    return int((~predicted).sum())


def _finite(values: Array) -> NDArray[np.bool_]:
    finite = np.isfinite(values)
    return np.asarray(finite if finite.ndim == 1 else finite.all(axis=1))


def needs_whole(readings: Sequence[Reading]) -> bool:
    """Return whether a test needs to know all records that count before it reads one."""
    return any(
        clusters_of(reading.design) is not None
        or any(
            test.order_dependent and requirement.group is not None
            for requirement, test in zip(reading.requirements, reading.tests, strict=True)
        )
        for reading in readings
    )


def check_record(
    record: GroupEvidence, reading: Reading, releases: Sequence[str], what: str, *,
    n: int, sizes: Sizes | None,
) -> ReleaseEvidence:  # fmt: skip
    """Return evidence derived anew from its statistics; raise unless the record says the same.

    Parameters
    ----------
    record
        The evidence of some releases, as it is recorded.
    reading
        How their losses are read.
    releases
        What they are called, in order.
    what
        What an error calls the record.
    n, sizes
        How many records there are, and how many of each subgroup others have counted.

    Raises
    ------
    SealError
        Where it is of other releases, does not follow, or follows from statistics that no losses
        can have.
    """
    # In this order: statistics are matched to draws by position.
    if list(record.releases) != list(releases):
        raise SealError(
            f"{what} is about {list(record.releases[:3])}..., not {list(releases[:3])}..."
        )
    derived = read_evidence(record, reading)
    again = derived_record(derived).to_dict()
    agree(record.derived.to_dict(), again, f"{what}, derived values")
    # What follows from statistics that no losses can have follows all the same.
    check_counts(record, reading, n, sizes)
    return derived


def check_answers(
    folder: AuditFolder,
    measures: Sequence[Measure],
    draws: Sequence[AnyDraw],
    evidence: GroupEvidence,
) -> None:
    """Raise unless the answers on record are those of the stored releases; needs no target.

    A draw that failed, and a release that cannot answer a query, have the worst loss on every
    record. An author who wrote better statistics for them would turn a failure into a success.

    Raises
    ------
    SealError
        Where an answer is another one, or a failure has better statistics than the worst.
    """
    columns = evidence.columns
    queries = [j for j, measure in enumerate(measures) if measure.query is not None]
    asked = _asked(measures, [j for j in queries if columns[j].answer is not None])
    for r, draw in enumerate(draws):
        coded = _coded(folder, draw) if queries and not draw.failed else None
        _check_ends(coded, measures, evidence, r)
        for group in asked:
            sides = list(group.measures)
            above = np.array([measures[j].sign > 0.0 for j in sides])
            expected = answers_on(group.answers(coded)[list(group.measures.values())], above)
            stated = np.array([(columns[j].answer or ())[r] for j in sides], dtype=np.float64)
            # Negated, so that a NaN on record is wrong and not silently close.
            wrong = np.flatnonzero(~(np.abs(stated - expected) <= WITHIN))
            if wrong.size:
                name = measures[sides[wrong[0]]].requirement.name
                raise SealError(
                    f"{name}: release {evidence.releases[r]} answers {expected[wrong[0]]:.6g}, "
                    f"and {stated[wrong[0]]:.6g} is on record"
                )
        for j in range(len(measures)) if draw.failed else _silent(coded, measures, queries):
            unmeasured = (columns[j].unmeasured or ())[r : r + 1] == (True,)
            # A failure counts in both directions; what could not be measured in neither.
            if unmeasured or not is_worst(columns[j], float(evidence.derived.pvalues[r][j]), r):
                raise SealError(
                    f"{measures[j].requirement.name}: release {evidence.releases[r]} failed or "
                    "has nothing to answer with, which counts as the worst loss on every record; "
                    "better statistics are on record"
                )


def _check_ends(
    coded: CodedRecords | None, measures: Sequence[Measure], evidence: GroupEvidence, r: int
) -> None:
    """Raise unless the ends of a release's losses on record are those of its own answers."""
    answers: dict[str, float | None] = {}
    for j, measure in enumerate(measures):
        ends, query = evidence.columns[j].ends, measure.query
        if ends is None or query is None:
            continue
        if query.name not in answers:
            answers[query.name] = None if coded is None else measure.answer(coded)
        declared = np.array(measure.ends(answers[query.name]))[:, None]
        expected = unit_ends(declared, measure.requirement)[:, 0]
        stated = np.array([float(side[r]) for side in ends])
        if not np.all(np.abs(stated - expected) <= WITHIN):
            raise SealError(
                f"{measure.requirement.name}: the losses of release {evidence.releases[r]} lie "
                f"between {expected[0]:.6g} and {expected[1]:.6g} of their range by its own "
                f"answer, and {stated[0]:.6g} and {stated[1]:.6g} are on record"
            )


def _silent(
    coded: CodedRecords | None, measures: Sequence[Measure], queries: Sequence[int]
) -> list[int]:
    """Return the queries to which a release has no answer; one look for each group and column."""
    known: dict[tuple[object, tuple[str, ...]], bool] = {}
    silent = []
    for j in queries:
        query, group = measures[j].query, measures[j].group
        assert query is not None  # selected by the caller
        assert coded is not None  # a drawn release that is asked
        key = (group, query.averaged)
        if key not in known:
            known[key] = measures[j].answer(coded) is None
        if known[key]:
            silent.append(j)
    return silent


def is_worst(column: ColumnRecord, pvalue: float, r: int) -> bool:
    """Return whether a release's statistics are those of losses at their upper bound."""
    if column.n == 0:
        return True  # no record of the target counts, and nothing is shown
    means = [column.mean[r], *(() if column.block_means is None else column.block_means[r])]
    if column.size_share is not None:
        means = []  # clusters by their size: the mean is of the excess, which the p-value shows
    capitals = (column.log_peak, column.log_final, column.log_evalue)
    logs = [capital[0][r] for capital in capitals if capital is not None]
    # A failure has every loss at its worst in both directions, and none of them is missing.
    if column.missing is not None and column.missing[r] != 0:
        return False
    if column.mean_low is not None and column.size_share is None:
        means.append(column.mean_low[r])
    # Up to arithmetic: what is better by more than that was not computed from a failure.
    return (
        pvalue >= 1.0 - WITHIN
        and all(float(mean) >= 1.0 - WITHIN for mean in means)
        and all(float(log) <= WITHIN for log in logs)
    )
