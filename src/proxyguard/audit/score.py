"""Score every frozen release on the opened target, in one pass over its records.

Losses exist for one chunk of records at a time and are never written down; what stays are
the statistics that the registered tests may look at.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from proxyguard.audit.folder import AuditFolder
from proxyguard.audit.predictions import Diagnostics, StoredPredictions, stored_predictions
from proxyguard.audit.resolve import load_fitted
from proxyguard.audit.score_shares import ShareScorer, countable
from proxyguard.audit.target import Chunk, OpenTarget
from proxyguard.documents.registry import SourceModel
from proxyguard.documents.releases import AnyDraw, DrawnRelease, GivenRelease
from proxyguard.draw.outcome import features, predict
from proxyguard.draw.protocol import Fitted
from proxyguard.errors import LossMismatch
from proxyguard.losses.array import LossArray, LossStream
from proxyguard.losses.cell import Column, Reading, join_columns
from proxyguard.losses.measure import Measure, Predicted
from proxyguard.losses.query import CodedRecords
from proxyguard.losses.read import LossReader
from proxyguard.models.features import Features
from proxyguard.registry.declaration import Member
from proxyguard.registry.design import Clustered
from proxyguard.registry.requirement import Form
from proxyguard.registry.target import Outcome

Array = NDArray[np.float64]

HELD = 1 << 28
"""Bytes of stored models that are held in memory at once."""
CELLS = 1 << 22
"""Losses computed at once: 32 MB of doubles."""


@dataclass(slots=True, kw_only=True, eq=False)
class Release:
    """One frozen release: what it needs to be scored, loaded when its turn comes."""

    name: str
    draw: AnyDraw
    fitted: Fitted | None = None
    answers: dict[str, float | None] = field(default_factory=dict)  # by query, over its group
    table: StoredPredictions | None = None  # made elsewhere
    lacks: tuple[str, ...] = ()  # features that its procedure never saw

    @property
    def failed(self) -> bool:
        """Whether the draw failed or is of no record, so that every loss is its upper bound."""
        return self.draw.failed


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Scored:
    """The statistics of one mechanism under each reading, and diagnostics a release."""

    columns: tuple[tuple[Column, ...], ...]  # one tuple a reading
    auc: dict[str, float | None]
    source_auc: float | None
    unscored: dict[str, int]  # records without a usable prediction: their losses are the worst


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Scorer:
    """Everything that scoring one member's mechanisms has in common."""

    folder: AuditFolder
    member: Member
    measures: Sequence[Measure]
    target: OpenTarget
    features: Sequence[str]
    source: SourceModel | str | None  # fitted here, or predictions in the store
    trusted: Sequence[str]
    progress: Callable[[str, int, int], None] = lambda what, done, total: None
    on_chunk: Callable[[Chunk, Predicted | None, dict[str, Predicted]], None] | None = None

    def score(
        self, mechanism: str, draws: Sequence[AnyDraw], readings: Sequence[Reading]
    ) -> Scored:
        """Return the statistics of every draw under every reading; shares by counting alone."""
        shares = countable(self.measures, readings)
        if not shares:
            return self._by_record(mechanism, draws, readings)
        rest = sorted(set(range(len(self.measures))) - set(shares))
        counted = ShareScorer(
            folder=self.folder,
            target=self.target,
            measures=[self.measures[j] for j in shares],
            design=readings[0].design,
            progress=self.progress,
        ).columns(mechanism, draws)
        names = [draw.label for draw in draws]
        found = Scored(columns=((),) * len(readings), auc=dict.fromkeys(names), source_auc=None,
                       unscored={})  # fmt: skip
        if rest:
            others = replace(self, measures=[self.measures[j] for j in rest])
            found = others._by_record(mechanism, draws, [_part(one, rest) for one in readings])
        columns = []
        for own in found.columns:
            place = {**dict(zip(shares, counted, strict=True)), **dict(zip(rest, own, strict=True))}
            columns.append(tuple(place[j] for j in range(len(self.measures))))
        return replace(found, columns=tuple(columns))

    def _by_record(
        self, mechanism: str, draws: Sequence[AnyDraw], readings: Sequence[Reading]
    ) -> Scored:
        """Return the statistics of losses, which are formed record by record."""
        lacks = {r.name: r.lacks for r in self.member.release}
        releases = [
            Release(name=draw.label, draw=draw, lacks=lacks.get(draw.label, ())) for draw in draws
        ]
        source = self._source()
        parts: list[list[tuple[Column, ...]]] = [[] for _ in readings]
        auc: dict[str, float | None] = {}
        unscored: dict[str, int] = {}
        source_auc, done = None, 0
        with threadpool_limits(1):
            for group in self._groups(releases, dense=_needs_whole(readings)):
                for release in group:
                    self._load(release)
                own = {r.name: Diagnostics.empty() for r in group}
                base = Diagnostics.empty()
                columns = self._pass(group, source, readings, own, base, unscored)
                for part, column in zip(parts, columns, strict=True):
                    part.append(column)
                auc |= {name: one.auc() for name, one in own.items()}
                source_auc = base.auc()
                done += len(group)
                self.progress(f"scoring {mechanism}", done, len(releases))
                for release in group:
                    release.fitted = release.table = None
        joined = tuple(
            tuple(join_columns(list(columns)) for columns in zip(*part, strict=True))
            for part in parts
        )
        return Scored(columns=joined, auc=auc, source_auc=source_auc, unscored=unscored)

    def _groups(self, releases: Sequence[Release], *, dense: bool) -> Iterator[list[Release]]:
        """Yield releases whose models and losses fit into memory together."""
        rows = self.target.n_records if dense else 256
        most = max(1, CELLS // max(1, len(self.measures) * rows))
        group: list[Release] = []
        held = 0
        for release in releases:
            held_as = held_object(release.draw)
            size = 0 if held_as is None else 4 * self.folder.store.path(held_as).stat().st_size
            if group and (held + size > HELD or len(group) >= most):
                yield group
                group, held = [], 0
            group.append(release)
            held += size
        yield group

    def _load(self, release: Release) -> None:
        draw = release.draw
        if not isinstance(draw, DrawnRelease) or draw.failed:
            return
        if draw.model is not None:
            release.fitted = load_fitted(self.folder, draw.model, draw, self.trusted)
        queries = [m for m in self.measures if m.query is not None]
        if draw.model is None or queries:
            frame = self.folder.stored_table(draw.release, release.name)
            coded = CodedRecords(frame)
            for measure in queries:
                assert measure.query is not None  # selected above
                if measure.query.name not in release.answers:
                    release.answers[measure.query.name] = measure.answer(coded)
            if draw.predictions:
                release.table = stored_predictions(frame, release.name)

    def _source(self) -> Fitted | StoredPredictions | None:
        if self.source is None:
            return None
        if isinstance(self.source, str):
            frame = self.folder.stored_table(self.source, "the source's predictions")
            return stored_predictions(frame, "source")
        return load_fitted(self.folder, self.source.model, self.source, self.trusted)

    def _pass(
        self,
        group: Sequence[Release],
        source: Fitted | StoredPredictions | None,
        readings: Sequence[Reading],
        own: Mapping[str, Diagnostics],
        base: Diagnostics,
        unscored: dict[str, int],
    ) -> list[tuple[Column, ...]]:
        """Read the target once for a group of releases."""
        names = [r.name for r in group]
        dense = _needs_whole(readings)
        n, J = self.target.n_records, len(self.measures)
        declared: LossArray | LossStream = LossStream(
            chunks=(), n_releases=len(group), n_records=n, n_requirements=J,
            random_order=True, releases=names,
        )  # fmt: skip
        readers: list[LossReader] = []
        seen = 0
        for chunk in self._chunks(dense, len(group)):
            losses = LossArray(
                self._losses(chunk, group, source, own, base, unscored), chunk.records, names
            )
            if not readers:
                readers = [LossReader(losses if dense else declared, r) for r in readings]
            for reader in readers:
                reader.add(losses)
            seen += len(chunk.positions)
        if seen != n:
            raise LossMismatch(f"the target has {seen} records, sealed were {n}")
        return [reader.finish().columns for reader in readers]

    def _chunks(self, dense: bool, n_releases: int) -> Iterator[Chunk]:
        if dense:
            yield self.target.whole()
            return
        rows = max(1, CELLS // max(1, n_releases * len(self.measures)))
        for chunk in self.target.chunks():
            for start in range(0, len(chunk.positions), rows):
                yield slice_chunk(chunk, start, start + rows)

    def _losses(
        self,
        chunk: Chunk,
        group: Sequence[Release],
        source: Fitted | StoredPredictions | None,
        own: Mapping[str, Diagnostics],
        base: Diagnostics,
        unscored: dict[str, int],
    ) -> Array:
        """Return the losses of a group on some records, (R, m, J)."""
        m = len(chunk.positions)
        values = np.empty((len(group), m, len(self.measures)))
        outcome = self.member.target.predicted
        x = None
        if outcome is not None and any(m_.loss is not None for m_ in self.measures):
            x = features(chunk.frame, self.features)
        shared = None if x is None else Features(x)
        paired = self._predicted(source, shared, chunk, outcome)
        if paired is not None and outcome is not None and outcome.kind == "binary":
            assert chunk.y is not None  # a binary outcome was read
            base.add(chunk.y, paired.values)
        coded = CodedRecords(chunk.frame)
        asked = {
            m_.query.name: m_.query.values(coded) for m_ in self.measures if m_.query is not None
        }
        predictions = {}
        for r, release in enumerate(group):
            if chunk.given is not None:
                assert isinstance(release.draw, GivenRelease)  # checked with the manifest
                values[r] = chunk.given[release.draw.column]
                continue
            if release.failed:
                values[r] = [m_.requirement.high for m_ in self.measures]
                continue
            known = shared
            if known is not None and release.lacks:
                names = [name for name in self.features if name not in release.lacks]
                known = Features(features(chunk.frame, names))
            predicted = self._predicted(release.fitted or release.table, known, chunk, outcome)
            if predicted is not None and outcome is not None and outcome.kind == "binary":
                assert chunk.y is not None  # a binary outcome was read
                own[release.name].add(chunk.y, predicted.values)
            if predicted is not None:
                predictions[release.name] = predicted
            missing = 0
            for j, measure in enumerate(self.measures):
                if measure.query is not None:
                    name = measure.query.name
                    values[r, :, j] = measure.of_query_values(asked[name], release.answers[name])
                else:
                    assert predicted is not None  # a loss has predictions
                    assert chunk.y is not None
                    missing = max(
                        missing, _fill(values[r, :, j], measure, chunk.y, predicted, paired)
                    )
            if missing:
                unscored[release.name] = unscored.get(release.name, 0) + missing
        if self.on_chunk is not None:
            self.on_chunk(chunk, paired, predictions)
        return values

    def _predicted(
        self,
        who: Fitted | StoredPredictions | None,
        x: Features | None,
        chunk: Chunk,
        outcome: Outcome | None,
    ) -> Predicted | None:
        """Return predictions, NaN for records that the procedure cannot predict."""
        if who is None or outcome is None:
            return None
        if isinstance(who, StoredPredictions):
            return Predicted(values=who.at(chunk.positions))
        if x is None:
            return None  # queries alone are asked, and no loss
        try:
            values = predict(who, x, outcome)
        except (ValueError, TypeError, ArithmeticError):
            # After the opening nothing may stop the audit: one record at a time, so that a
            # record's loss depends on nothing but that record.
            values = _one_by_one(who, x.table, outcome, len(chunk.positions))
        return Predicted(values=values, threshold=who.threshold)


def _part(reading: Reading, chosen: Sequence[int]) -> Reading:
    """Return a reading of some of the requirements."""
    return replace(
        reading,
        requirements=tuple(reading.requirements[j] for j in chosen),
        tests=tuple(reading.tests[j] for j in chosen),
    )


def _one_by_one(fitted: Fitted, x: Any, outcome: Outcome, n: int) -> Array:
    shape = (n, len(outcome.classes or ())) if outcome.kind == "multiclass" else (n,)
    values = np.full(shape, np.nan)
    for i in range(n):
        row = x.iloc[i : i + 1] if hasattr(x, "iloc") else x[i : i + 1]
        try:
            values[i] = predict(fitted, row, outcome)[0]
        except (ValueError, TypeError, ArithmeticError):
            continue  # stays NaN, which counts as the worst loss
    return values


def _fill(
    out: Array, measure: Measure, y: Array, release: Predicted, source: Predicted | None
) -> int:
    """Put the losses of all records in place; return how many had no usable prediction.

    Without a prediction the loss is its upper bound, a function of the record like any
    other, and on the safe side.
    """
    usable = _finite(release.values)
    if source is not None and measure.requirement.form is Form.RELATIVE:
        usable &= _finite(source.values)
    if usable.all():
        out[:] = measure.of_predictions(y, release, source)
        return 0
    out[:] = measure.requirement.high
    if usable.any():
        part = replace(release, values=release.values[usable])
        paired = None if source is None else replace(source, values=source.values[usable])
        out[usable] = measure.of_predictions(y[usable], part, paired)
    return int((~usable).sum())


def _finite(values: Array) -> NDArray[np.bool_]:
    finite = np.isfinite(values)
    return np.asarray(finite if finite.ndim == 1 else finite.all(axis=1))


def held_object(draw: AnyDraw) -> str | None:
    """Return the stored object that is held while a release is scored."""
    if not isinstance(draw, DrawnRelease):
        return None
    return draw.model or (draw.release if draw.predictions else None)


def slice_chunk(chunk: Chunk, start: int, stop: int) -> Chunk:
    """Return some records of a chunk."""
    if start == 0 and stop >= len(chunk.positions):
        return chunk
    part = slice(start, stop)
    records = chunk.records
    column = {
        name: None if getattr(records, name) is None else np.asarray(getattr(records, name))[part]
        for name in ("ids", "strata", "clusters")
    }
    groups = {name: np.asarray(mask)[part] for name, mask in records.groups.items()}
    return Chunk(
        frame=chunk.frame.iloc[part],
        positions=chunk.positions[part],
        y=None if chunk.y is None else chunk.y[part],
        records=type(records)(groups=groups, random_order=records.random_order, **column),
        given=None if chunk.given is None else chunk.given[:, part],
    )


def _needs_whole(readings: Sequence[Reading]) -> bool:
    """Return whether a test needs to know all records that count before it reads one."""
    return any(
        isinstance(reading.design, Clustered)
        or any(
            test.order_dependent and requirement.group is not None
            for requirement, test in zip(reading.requirements, reading.tests, strict=True)
        )
        for reading in readings
    )
