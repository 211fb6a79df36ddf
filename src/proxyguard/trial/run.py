"""`try_out`: from a table and what stands in for it to a `Trial`.

The rows are taken apart, the defaults are declared, and `Audit` does the steps in a folder that is
thrown away. What it measured is read from its record and told in the words of `demands`. The
lineage store of the home remembers the records that were looked at: they are fresh no more.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, cast

import numpy as np

from proxyguard.audit.audit import Audit
from proxyguard.audit.code import CodeText
from proxyguard.audit.folder import RELEASES
from proxyguard.audit.home import Home, default_home, one_thread, software_versions
from proxyguard.audit.open import Opener
from proxyguard.audit.outcome import FrozenReleases
from proxyguard.audit.seal import Keeper, seal
from proxyguard.certificate.wording import counted
from proxyguard.documents.ledger import Overlap
from proxyguard.documents.releases import DrawnRelease, ReleaseManifest
from proxyguard.draw.protocol import Generator, Seed
from proxyguard.errors import DrawError, ProxyGuardError, RegistryError, TableError, UnreadValue
from proxyguard.printable import did_you_mean, some, toml, toml_key
from proxyguard.registry.numbers import (
    MOST_DRAWS,
    callback,
    canonical_value,
    flag,
    listed,
    path,
    share,
    whole,
)
from proxyguard.registry.target import ColumnPart, DeclaredColumns
from proxyguard.seal.fingerprint import OPEN, TablePrints, least_met
from proxyguard.seal.lineage import find_overlaps
from proxyguard.tables.columns import (
    Series,
    as_labels,
    as_texts,
    have_value,
    kinds_of,
    notation_of,
    read_as_declared,
    typed,
    with_dates,
)
from proxyguard.tables.files import content_digest, read_table_bytes, table_bytes
from proxyguard.tables.profile import (
    PREDICTED,
    TableProfile,
    has_codes,
    names_persons,
    profile_of,
    repeats_as_id,
)
from proxyguard.trial.asked import (
    AskedSettings,
    StandIns,
    read_columns,
    read_kind,
    read_mapping,
    read_positive,
    refuse_idle,
)
from proxyguard.trial.demands import (
    FILES,
    Gain,
    GuessedOutcome,
    LaterTitles,
    Trialled,
    TriedGenerator,
    decimal,
    declaration_text,
    default_demands,
    guess_outcome,
    later_declaration,
    later_folder,
    moved_columns,
    quoted,
)
from proxyguard.trial.rows import (
    DOUBT,
    MISSING,
    TrialRows,
    UnreadNumbers,
    apart,
    csv_bytes,
    read_as,
    read_releases,
    read_source,
    readable_columns,
    set_aside,
    with_reference,
    without_outcome,
    without_unread,
)
from proxyguard.trial.seen import SeenRecord, gains_of
from proxyguard.trial.trial import FRESH_ROWS, OTHER_ROWS, Trial, TrialColumn, refuse_other

if TYPE_CHECKING:
    import pandas as pd

    from proxyguard.plan.search import Progress

# The learner that sources and releases are compared by.
LEARNER = "default"
MADE_FROM, HOLDOUT = "made-from", "the holdout"
# Releases that are drawn, unless told.
DRAWS = 40
# The share of a release's column outside the table's range above which it is told.
MOST_OUTSIDE = 0.9
# Rows that are kept are enough for an audit if they are so many of those that judge.
ENOUGH_KEPT = 0.75
# Where the audit that is thrown away has its rows.
TRAINING, JUDGING = "training-rows.parquet", "judging-rows.parquet"


def try_out(
    real: object,
    releases: object = None,
    *,
    outcome: str | None = None,
    generator: object = None,
    made_from: object = None,
    holdout: object = None,
    kind: str | None = None,
    positive: object = None,
    limits: Mapping[str, object] | None = None,
    exclude: Sequence[str] = (),
    columns: Mapping[str, object] | None = None,
    independent: bool = False,
    reliability: str | float | None = None,
    draws: int | None = None,
    options: Mapping[str, object] | None = None,
    exposure: bool = False,
    keep: int = 0,
    seed: int = 0,
    workers: int | None = None,
    home: Path | str | None = None,
    out: Path | str | None = None,
    progress: Progress | None = None,
    tell: Callable[[str], None] | None = None,
) -> Trial:
    """Try what stands in for a table, without registering anything: a page in one call.

    What is given is used up: an audit needs records that no trial has looked at, which ``keep``
    sets aside.

    Parameters
    ----------
    real
        The real table: a path (CSV, Parquet, Feather), a frame of pandas or polars, an Arrow table.
    releases
        What stands in for it: a table, a folder, a list or a mapping of tables, or what yields
        them; or a generator.
    outcome
        The column that is predicted; without one, shares and means are compared.
    generator
        In place of releases: a name of ours, ``package:Class``, a class, or an object with
        ``prepare`` and ``draw``. It is given the rows that train, and no row that judges. Several,
        in a list or by name, are compared under one error for all.
    made_from
        Of releases that were made elsewhere: the rows that they were made from. The rest of the
        table judges.
    holdout
        Rows that whoever made the releases never saw: they judge.
    kind
        ``binary``, ``multiclass`` or ``regression``, where the outcome is taken for another.
    positive
        The label of a yes, of a binary outcome.
    limits
        Limits other than the defaults, by name: ``{"error": 0.03}``.
    exclude
        Columns to leave out.
    columns
        How columns are read, as ``[columns]`` of `audit.toml` has it: ``{"crp": {"missing":
        ["k.A."]}}``. Of the others it is seen from their values, and the page says how.
    independent
        That several releases are independent draws of one generator: the claim is then about what
        makes them, and rests on that.
    reliability
        Of a claim about what makes releases: the share of them that must be exceeded; 0.8 unless
        given.
    draws
        How many releases a generator draws; 40 unless given.
    options
        Of a generator; of several by their names: ``{"tvae": {"epochs": 50}}``.
    exposure
        Also attack the releases. Refused where it is not known who is in their rows and who not.
    keep
        So many of the rows that may judge are set aside for an audit before anything is looked at:
        of the holdout, else of the rows of the table that nothing was made from; about half of
        them. `Trial.save` writes them as ``kept/fresh.csv``.
    seed
        Of the rows that are set aside, and of the draws.
    workers
        Processes that draw and fit at once.
    home
        Where the lineage store lies, which remembers that these records were looked at; the user's
        own unless given.
    out
        Where the trial will be saved: other rows that were kept there before stop it at once.
    progress
        Called with what is done, how much of it, and of how much.
    tell
        Called before the work with what it will cost: rows that are kept, or taken for attacks.

    Returns
    -------
    Trial
        Sentences, figures, a page, and the declaration of the same audit. All of it is exploratory;
        without ``made_from``, ``holdout`` or a generator nothing is decided.

    Raises
    ------
    RegistryError
        Where an argument is none, or the outcome cannot be predicted.
    TableError
        Where tables cannot be read, lack a column, or too few rows are left to judge.
    DrawError
        Where no release can be made or used.

    Examples
    --------
    >>> import numpy as np, pandas as pd
    >>> def table(seed):
    ...     x = np.random.default_rng(seed).normal(size=(300, 2))
    ...     return pd.DataFrame({"a": x[:, 0], "b": x[:, 1]})
    >>> page = try_out(table(1), [table(2), table(3)], holdout=table(4), limits={"means": 0.2})
    >>> [requirement.name for requirement in page.requirements]
    ['one-way shares', 'two-way shares', 'means']
    >>> page.heading[0]
    'Exploratory: nothing was registered before the data were seen.'
    """
    if outcome is not None and not isinstance(outcome, str):
        raise RegistryError(f"outcome names a column, got {outcome!r}")
    declared = read_columns(read_mapping(columns, "columns"))
    left_out = [name for name, part in declared.items() if part.exclude]
    settings = AskedSettings(
        kind=None if kind is None else read_kind(kind, outcome),
        positive=read_positive(positive, outcome),
        limits=read_mapping(limits, "limits"),
        exclude=tuple(dict.fromkeys([*map(str, listed(exclude, "exclude")), *left_out])),
        columns=declared,
        independent=flag(independent, "independent"),
        reliability=decimal(
            float(share("0.8" if reliability is None else reliability, "reliability"))
        ),
        draws=whole(DRAWS if draws is None else draws, "draws", most=MOST_DRAWS),
        options=read_mapping(options, "options"),
        exposure=flag(exposure, "exposure"),
        keep=whole(keep, "keep", least=0),
        seed=whole(seed, "seed", least=0),
        workers=None if workers is None else whole(workers, "workers"),
    )
    for called, name in ((progress, "progress"), (tell, "tell")):
        if called is not None:
            callback(called, name)
    place = None if out is None else path(out, "out")
    if isinstance(releases, Iterator):
        releases = list(releases)  # asked for their names, and then read
    instead = StandIns.of(releases, generator, settings.options)
    refuse_idle(
        bool(instead.generators), independent=settings.independent, draws=draws,
        reliability=reliability,
    )  # fmt: skip
    recoded: list[str] = []
    table = read_source(real, "the real table", recoded)
    for name in [*settings.exclude, *settings.columns, *([] if outcome is None else [outcome])]:
        if name not in table.columns:
            raise TableError(
                f"there is no column {name!r}{did_you_mean(name, table.columns)}; the table has "
                f"{quoted(table.columns)}"
            )
    if outcome is not None and outcome in settings.exclude:
        raise RegistryError(
            f"{outcome!r} is the outcome, so it cannot be left out as well; take it out of "
            "exclude, or predict another column"
        )
    of_maker = None if made_from is None else read_source(made_from, MADE_FROM, recoded)
    unseen = None if holdout is None else read_source(holdout, HOLDOUT, recoded)
    origin = LaterTitles.of(real, releases, made_from, instead.sources.values())
    known = [
        (origin.title, table), (_title(made_from, MADE_FROM), of_maker),
        (_title(holdout, HOLDOUT), unseen),
    ]  # fmt: skip
    kept: dict[str, bytes] = {}
    fresh: pd.DataFrame | None = None
    if settings.keep:
        aside = set_aside(
            settings.keep, table, of_maker, unseen, columns=settings.columns,
            drawn_here=bool(instead.generators), seed=settings.seed,
        )  # fmt: skip
        table, unseen = aside.table, aside.holdout
        kept[FRESH_ROWS] = csv_bytes(aside.fresh, origin.separator)
        if aside.from_table:
            kept[OTHER_ROWS] = csv_bytes(table, origin.separator)
            origin = replace(origin, table=OTHER_ROWS)
            known.append((OTHER_ROWS, table))
        origin = replace(origin, fresh=FRESH_ROWS)
        if place is not None:
            for name, content in kept.items():
                refuse_other(place / name, content)
        fresh = aside.fresh
    looked_at = [frame for frame in (table, of_maker, unseen) if frame is not None]
    store = Home(default_home() if home is None else path(home, "home"))
    store.check_lineage()
    used = [] if fresh is None else _used_before(store, fresh)
    if fresh is not None:
        recoded.append(
            f"{len(fresh):,} rows were kept back as {FRESH_ROWS}, not looked at in this trial"
            if used
            else f"{len(fresh):,} rows were kept back, not looked at here and not remembered: "
            f"they are {FRESH_ROWS}, for the audit that follows"
        )
    origin = replace(origin, seen=_digests(known))
    again = _tried_before(store, table)
    used += [] if unseen is None else _looked_before(store, unseen)
    columns, notes, lines = readable_columns(
        [frame.drop(columns=[n for n in settings.exclude if n in frame]) for frame in looked_at],
        settings.columns, outcome,
    )  # fmt: skip
    if tell is not None:
        # Before anything stops the trial, so that all that is to be typed is told at once.
        for note in notes:
            if note.startswith(DOUBT):
                tell(note)
    usable, made, held = (
        None if frame is None
        else _with_outcome(_read(frame, columns, what), what, outcome, columns, notes)
        for what, frame in (("the table", table), (MADE_FROM, of_maker), (HOLDOUT, unseen))
    )  # fmt: skip
    assert usable is not None
    rows = apart(
        usable, made_from=made, holdout=held, drawn_here=bool(instead.generators),
        seed=settings.seed,
    )  # fmt: skip
    if settings.exposure:
        rows = with_reference(rows, settings.seed)
    if tell is not None and holdout is not None and not kept:
        tell(
            f"all {len(rows.target):,} rows of the holdout are used up by this trial, and an audit "
            "needs others: --keep N sets N of them aside first, not looked at"
        )
    if tell is not None and fresh is not None and len(fresh) < len(rows.target) * ENOUGH_KEPT:
        tell(
            f"{len(fresh):,} rows are kept and {len(rows.target):,} judge: an audit on so few may "
            "not show what is seen here; --keep about as many as judge"
        )
    if tell is not None:
        before = (*recoded[-1:], *used) if kept else ()
        for line in (*before, *(rows.notes if settings.exposure else ())):
            tell(line)
    with TemporaryDirectory(prefix="proxyguard-try-") as work:
        trying = _Trying(
            work=Path(work), rows=rows, instead=instead, outcome=outcome, settings=settings,
            columns=columns, lines=lines,
            written={
                str(text) for frame in looked_at if outcome for text in as_texts(frame[outcome])
            },
            notes=[*rows.notes, *recoded, *notes],
            exclude=list(settings.exclude), weaker=used, fresh=fresh,
            progress=progress or (lambda what, done, total: None),
            remember=lambda: _remember(store, origin, looked_at),
        )  # fmt: skip
        trial = trying.run(origin)
    trial = replace(trial, kept=kept, again=again, home=store, root=origin.root)
    source = real if made_from is None else made_from
    if isinstance(source, str | Path) or origin.table in kept:
        return trial
    filed = {origin.table: table_bytes(table if of_maker is None else of_maker), **trial.tables}
    return replace(trial, tables=filed)


def _title(source: object, what: str) -> str:
    return Path(source).name if isinstance(source, str | Path) else what


def _digests(tables: Sequence[tuple[str, pd.DataFrame | None]]) -> dict[str, str]:
    """Return digests of whole tables, by which an audit of another home refuses them.

    Not of a coarse table: where most records are alike, its few counts could be guessed from one.
    """
    prints = [(name, TablePrints(frame, OPEN)) for name, frame in tables if frame is not None]
    return {name: p.identity for name, p in prints if 2 * np.unique(p.prints).size > len(p)}


def _remember(home: Home, origin: LaterTitles, tables: Sequence[pd.DataFrame]) -> None:
    """Let the lineage store of a home know which records a trial has looked at."""
    store = home.lineage
    for table in tables:
        prints = store.table(table)
        # Under what the table is: the same one, tried again, is the same memory.
        audit = f"trial {prints.identity}"
        store.remember(audit, origin.title, {("trial", "trial"): prints.records()})
        store.confirm(audit)


def _used_before(home: Home, fresh: pd.DataFrame) -> list[str]:
    """Say of rows that are kept for an audit where this home saw them before."""
    most = _most_used(home, fresh)
    if most is None:
        return []
    return [
        f"{_met_words(most, len(fresh))} rows that were kept are no fresh "
        f"ones: the {most.role} of {most.audit!r} has used them, and an audit on them has no "
        "guarantee. One table keeps the same rows by the same --keep and --seed, each time; else "
        "give rows that nothing has used."
    ]


def _looked_before(home: Home, holdout: pd.DataFrame) -> list[str]:
    """Say of a holdout where this home saw its rows before."""
    most = _most_used(home, holdout)
    if most is None:
        return []
    return [
        f"{_met_words(most, len(holdout))} rows of the holdout were looked "
        f"at before, by the {most.role} of {most.audit!r}: what was chosen after that look, "
        "releases, columns or limits, is not judged by fresh rows here."
    ]


def _met_words(met: Overlap, rows: int) -> str:
    """Say how many rows were met; of those that were written anew since not all are known."""
    count = min(rows, max(met.shared, met.twins))
    return f"{'' if count in (rows, met.shared) else 'at least '}{count:,} of the {rows:,}"


def _tried_before(home: Home, table: pd.DataFrame) -> bool:
    """Return whether a trial of this home had the same table."""
    store = home.known_lineage
    if store is None:
        return False
    audit = f"trial {store.table(table).identity}"
    return any(known.audit == audit for known in store.known())


def _most_used(home: Home, frame: pd.DataFrame) -> Overlap | None:
    """Return where this home saw the most rows of a table before; nothing where it saw none."""
    store = home.known_lineage
    if store is None:
        return None
    records = store.table(frame).records()
    met: list[Overlap] = []
    for known in store.known():
        for one in find_overlaps("", "", {("trial", "target"): records}, [known], {}):
            if one.reused:
                # Where most are met as they stand, a view would only add what agrees by chance.
                few = 2 * max(one.shared, one.twins) < len(frame)
                least = least_met(records.views, known.records.views) if few else 0
                met.append(one.model_copy(update={"twins": max(one.twins, least)}))
    return max(met, key=lambda one: max(one.shared, one.twins), default=None)


def _read(frame: pd.DataFrame, columns: DeclaredColumns, what: str) -> pd.DataFrame:
    try:
        return read_as(frame, columns)
    except UnreadValue as error:
        raise TableError(
            f"{what}: column {error.column!r} {error.holds}, and row {error.row + 1} has none; "
            "columns says otherwise"
        ) from None


def _with_outcome(
    frame: pd.DataFrame, what: str, outcome: str | None, columns: DeclaredColumns, notes: list[str]
) -> pd.DataFrame:
    if outcome is not None and outcome not in frame.columns:
        raise TableError(f"{what} has no column {outcome!r}; it has {quoted(frame.columns)}")
    kept = without_outcome(frame, outcome, columns)
    if not len(kept):
        raise TableError(
            f"no row of {what} has a value of {outcome!r}: there is nothing to predict; name "
            "another outcome, or leave it out to compare shares and means"
        )
    if len(kept) < len(frame):
        notes.append(
            f"{len(frame) - len(kept):,} of {len(frame):,} rows of {what} have no {outcome!r} and "
            "were left out"
        )
    return kept


@dataclass(slots=True, kw_only=True)
class _Trying:
    """One trial at work: its folder, its rows, and what there is to say of them so far."""

    work: Path
    rows: TrialRows
    instead: StandIns
    outcome: str | None
    settings: AskedSettings
    columns: DeclaredColumns
    lines: Mapping[str, str]
    """What to write to have numbers read that stay text, of all real rows."""
    written: Collection[str]
    """The texts of the outcome, as the real rows have them."""
    notes: list[str]
    exclude: list[str]
    progress: Progress
    remember: Callable[[], None]
    """Called before the first figure: an error until then has used no record up."""
    guessed: GuessedOutcome | None = None
    """What is predicted, once it is known."""
    weaker: list[str] = field(default_factory=list)
    """Why less is asked than there could be; said above everything."""
    unread: list[str] = field(default_factory=list)
    """Columns of releases that can hardly be read; said first of all."""
    unusable: dict[str, str] = field(default_factory=dict)
    """Releases that nothing can be learned from, and why."""
    codes: dict[str, frozenset[str | float]] = field(default_factory=dict)
    """Columns of which most values differ, with these: an id, if releases have none of them."""
    fresh: pd.DataFrame | None = None
    """Rows that are kept for an audit, of which nothing but ids is looked at."""
    persons: list[str] = field(default_factory=list)
    """Columns that look like the id of a person who has several rows."""

    @property
    def data(self) -> Path:
        """Where tables lie that the declaration names."""
        return self.work / "data"

    def run(self, origin: LaterTitles) -> Trial:
        """Declare the defaults, do the audit, and say what was seen."""
        settings, rows = self.settings, self.rows
        if self.outcome is not None:
            self.guessed = guess_outcome(
                rows.development, self.outcome, judging=rows.target, kind=settings.kind,
                positive=self._positive, part=self.columns.get(self.outcome), written=self.written,
            )  # fmt: skip
            self.notes.append(self.guessed.words)
        self._leave_ids_out()
        lacking = [c for c in rows.development.columns if c not in rows.target.columns]
        self._leave_out({str(c): "the rows that judge" for c in lacking if c not in self.exclude})
        names, generators = self._write_stand_ins()
        shares = self._write_rows()
        columns, kinds = self._columns(), self._kinds
        if self.guessed is not None and not set(kinds) - {self.outcome}:
            raise RegistryError(
                f"there is no column to predict {self.outcome!r} from"
                + (f"; left out are {quoted(self.exclude)}" if self.exclude else "")
            )
        dates = {column.name for column in columns if column.kind == "date"}
        moved = self._moved(kinds, dates)
        asked = {name: kind for name, kind in kinds.items() if name not in moved}
        demands, unasked, missed = default_demands(
            rows.development,
            asked,
            self.guessed,
            settings.limits,
            records=len(rows.target),
            exposure=settings.exposure,
            columns=self.columns,
            judging=rows.target,
            gains=self._gains(kinds),
        )
        self.notes += unasked
        if moved:
            unasked.append(
                f"no share or mean of {quoted(moved)}: most rows that judge lie elsewhere"
            )
        self._say_missed(missed)
        releases = () if generators else names[FILES]
        trial = Trialled(
            name="trial", outcome=self.guessed, demands=demands, exclude=self.exclude,
            columns={n: self._declared(n) for n in self.columns if n not in self.exclude},
            gaps=self.columns.get(self.outcome or "", ColumnPart()).missing,
            generators=generators, releases=releases, reliability=settings.reliability,
            exposure=settings.exposure, shares=shares, learner=LEARNER, seed=settings.seed,
        )  # fmt: skip
        audit = Audit(
            self.work / "audit", home=self.work / "home", data=[self.data],
            workers=settings.workers, progress=_outer_progress(self.progress, names),
        )  # fmt: skip
        numbers = [f"{k:05d}" for k in range(len(releases))]
        with _as_the_user_calls_it(names):
            audit.init(
                declaration_text(
                    # These columns are not even written.
                    replace(trial, exclude=(), releases=numbers),
                    target=[f'file = "{JUDGING}"', 'coincidence = "see the notes of the trial"'],
                    table=TRAINING, first=settings.seed,
                    files=[f"{FILES}/{number}.parquet" for number in numbers],
                )
            )  # fmt: skip
            # `Audit.seal` takes no seed. What is decided here repeats, and claims nothing.
            seal(audit.folder, audit.home, audit.place.data, Keeper(), software_versions(),
                 settings.seed)  # fmt: skip
            audit.register()
            audit.draw()
            self.remember()
            # One reading of every file, as `Audit.open` has it.
            with audit.folder.step():
                Opener(audit.place, audit.home, report=False).open()
                seen = SeenRecord.of(audit, names, len(rows.target))
                strange = [*self._strange(audit, kinds, dates, releases)]
                idle = seen.lenient(
                    demands,
                    *(typed(table, kinds, MISSING) for table in (rows.development, rows.target)),
                )  # fmt: skip
        if len(idle) < len(demands):  # an audit of nothing there is not
            idle = {
                name: f"{why} The audit that follows leaves it out." for name, why in idle.items()
            }
        strange += idle.values()
        unseen = rows.standing.unseen
        # Of files it is known already which cannot be used, and why, in better words.
        failures = () if self.unusable else seen.failures()
        promises = {demand.name: seen.promises(demand) for demand in demands}
        return Trial(
            name=origin.title,
            standing=rows.standing,
            requirements=tuple(seen.requirement(d, decided=unseen) for d in demands),
            judged=seen.verdicts(self.unusable if releases else {}) if unseen else (),
            conclusions=seen.conclusions(self.unusable if releases else {}) if unseen else (),
            columns=columns,
            notes=(
                *self.notes,
                *(self._unusable_lines() if generators else ()),
                *(_in_outer_words(line, names) for line in failures),
            ),
            unusable=self.unusable,
            declaration=later_declaration(
                trial,
                origin,
                len(rows.target),
                promises,
                [origin.name_of(k, self.instead.sources[name]) for k, name in enumerate(releases)],
                self.persons,
                idle if len(idle) < len(demands) else (),
                unasked,
            ),
            tables=self._unfiled(origin, trial),
            power=seen.power(
                rows.standing, settings.seed, settings.keep or len(rows.target), demands
            ),
            n_records=len(rows.target),
            unread=tuple(self.unread),
            weaker=(*self.weaker, *strange),
        )

    def _gains(self, kinds: Mapping[str, str]) -> dict[str, Gain]:
        """Return what the model of the real rows gains, as the rows that train tell."""
        if self.guessed is None:
            return {}
        rows = typed(self.rows.development, kinds, MISSING)[list(kinds)]
        with one_thread():
            return gains_of(rows, self.guessed.declared, LEARNER, seed=self.settings.seed)

    @property
    def _positive(self) -> str | None:
        """The label of a yes, as labels are read."""
        said, part = self.settings.positive, self.columns.get(self.outcome or "")
        if said is None or part is None:
            return said
        return str(read_as_declared(np.array([said], dtype=object), part)[0])

    def _leave_out(self, lacking: Mapping[str, str]) -> None:
        """Leave columns out that something does not have, and say so above everything."""
        self.exclude += lacking
        rows = self.rows.development
        plain = [c for c in lacking if c in rows and rows[c].nunique(dropna=False) < 2]
        self.notes += [
            f"{column!r} has one value alone and is left out; {lacking[column]} does not have it"
            for column in plain
        ]
        self.weaker += [
            f"Nothing is asked of {column!r}, of whatever release, and no model uses it: "
            f"{who} does not have it."
            for column, who in lacking.items()
            if column not in plain
        ]

    def _moved(self, kinds: Mapping[str, str], dates: Collection[str]) -> list[str]:
        """Return the columns that tell how the target moved, and say that no share is asked."""
        free = {name: kind for name, kind in kinds.items() if name != self.outcome}
        moved = moved_columns(self.rows.development, self.rows.target, free, dates)
        if moved:
            told = "; ".join(f"{c.name!r} ({c.share:.0%}: {c.words})" for c in moved)
            self.weaker.append(
                "No share or mean is asked where most rows that judge lie outside what the table "
                f"has: {told}. That says how the target moved, and nothing of releases. "
                f"{_excluding([c.name for c in moved])} leaves it out of the models, too."
            )
        return [column.name for column in moved]

    def _say_missed(self, missed: Mapping[str, float]) -> None:
        """Say in which columns even releases that are true to the table miss a limit of shares."""
        if missed:
            told = some([f"{name!r} by {100 * by:.3g} points" for name, by in missed.items()])
            self.weaker.append(
                f"The table itself misses the limit of shares on the rows that judge: {told}. "
                "Releases that are true to the table miss it, too. "
                f"{_excluding(list(missed))} asks nothing of it."
            )

    @property
    def _kinds(self) -> dict[str, str]:
        """What every column holds that is not left out."""
        return {name: kind for name, kind in self._all_kinds.items() if name not in self.exclude}

    @property
    def _all_kinds(self) -> dict[str, str]:
        text = [self.guessed.column] if self.guessed is not None and self.guessed.labels else []
        return kinds_of(self.rows.development, MISSING, text, self.columns)

    def _declared(self, column: str) -> ColumnPart:
        """Return how a column is declared; what stands for a missing outcome is declared of all."""
        part = self.columns[column]
        return part.model_copy(update={"missing": ()}) if column == self.outcome else part

    def _leave_ids_out(self) -> None:
        """Leave out what looks like an id; an audit would ask first, and a first look says so."""
        read = self._typed(*self.rows.beside)
        profile = self._profile(*self.rows.beside)
        free = [c for c in profile.columns if c.name not in (self.outcome, *self.exclude)]
        ids = [c.name for c in free if c.kind == "id-like"]
        undeclared = [c.name for c in free if c.name not in ids and not self._declares(c.name)]
        again = [name for name in undeclared if repeats_as_id(name, read[name])]
        self.codes = {
            name: frozenset(read[name].dropna())
            for name in undeclared if name not in again and has_codes(read[name])
        }  # fmt: skip
        self._say_persons(
            [c.name for c in profile.columns if c.name in {*ids, *again, *self.exclude}
             and names_persons(c.name, read[c.name], c.kind, excluded=True)]
        )  # fmt: skip
        self._say_ids(ids + again)
        self.persons = again
        if again:
            rows = len(read)
            self.notes.append(
                f"{again[0]!r} repeats, with {read[again[0]].nunique():,} values in {rows:,} rows: "
                "rows of one person depend on each other, and count here as if they did not; the "
                f"audit can say design = {{ by = {toml(again[0])} }}"
            )

    def _say_persons(self, ids: Sequence[str]) -> None:
        """Say how many rows that judge, or were kept, are of somebody whom other rows know."""
        for name in ids:
            trains, judges, kept = (
                as_labels(frame[name][have_value(frame[name], MISSING)])
                if frame is not None and name in frame.columns else []
                for frame in (self.rows.development, self.rows.target, self.fresh)
            )  # fmt: skip
            known = {*trains}
            met = sum(one in known for one in judges)
            known |= {*judges}
            again = sum(one in known for one in kept)
            if met:
                self.weaker.append(
                    f"{met:,} of {len(judges):,} rows that judge have a {name!r} of rows that "
                    "train: models may know the person, and nobody new is like that"
                )
            if again:
                self.weaker.append(
                    f"{again:,} of {len(kept):,} rows that were kept have a {name!r} of rows that "
                    f"train or judge here: leave these persons out of {FRESH_ROWS} before the audit"
                )

    def _declares(self, column: str) -> bool:
        """Return whether the user says what a column holds: it is left out of nothing then."""
        part = self.settings.columns.get(column)
        return part is not None and part.kind is not None

    def _say_ids(self, ids: Sequence[str], why: str = "") -> None:
        """Leave columns out as ids, and say how to keep them."""
        if ids:
            self.exclude += ids
            self.notes.append(
                f"left out, because they look like ids{why}: {', '.join(ids)}; --column "
                f'\'{toml_key(ids[0])} = {{ kind = "category" }}\', or with "number", keeps one. '
                "The audit that follows has them under exclude"
            )

    def _typed(self, *beside: pd.DataFrame) -> pd.DataFrame:
        import pandas as pd

        rows = pd.concat([self.rows.development, *beside], ignore_index=True)
        return typed(rows, self._all_kinds, MISSING, self.columns)

    def _profile(self, *beside: pd.DataFrame) -> TableProfile:
        read = self._typed(*beside)
        roles = dict.fromkeys(self.exclude, "left out")
        roles |= {self.outcome: PREDICTED} if self.outcome else {}
        return profile_of(read, self.columns, roles=roles)

    def _columns(self) -> tuple[TrialColumn, ...]:
        """Return what every column is taken for, and what is done with it."""
        roles = {*self.exclude, self.outcome}
        return tuple(
            TrialColumn(
                name=column.name, kind=column.kind, missing=f"{column.missing:.1%}",
                span=column.range_words, use=column.use,
                otherwise=(
                    "" if column.name in roles
                    else self.lines.get(column.name, column.otherwise)
                ),
            )
            for column in self._profile().columns
        )  # fmt: skip

    def _write_rows(self) -> tuple[str, str]:
        """Write the rows that judge and those that train; return the shares of an exposure.

        An audit takes its reference rows out of the development rows at random, by a seed. Here it
        is known which they are, so they are put where that seed takes them.
        """
        rows = self.rows
        self.data.mkdir(exist_ok=True)
        target = rows.target
        if self.guessed is not None and self.guessed.declared.range is not None:
            low, high = map(float, self.guessed.declared.range)
            outcomes = typed(target, {self.guessed.column: "number"}, MISSING, self.columns)
            beyond = int((~outcomes[self.guessed.column].between(low, high)).sum())
            if beyond:
                self.notes.append(f"{beyond:,} records that judge have an outcome beyond the range")
        left_out = [name for name in self.exclude if name in target.columns]
        (self.data / JUDGING).write_bytes(table_bytes(target.drop(columns=left_out)))
        development, reference = rows.development, rows.reference
        shares = ("1", "0")
        if reference is not None:
            import pandas as pd

            reference = reference[[c for c in development.columns if c in reference.columns]]
            k, n = len(reference), len(reference) + len(development)
            order = np.random.default_rng(self.settings.seed).permutation(n)
            places = np.concatenate([np.sort(order[k:]), np.sort(order[:k])])
            both = pd.concat([development, reference], ignore_index=True)
            development = both.iloc[np.argsort(places)].reset_index(drop=True)
            shares = (f"{n - k}/{n}", f"{k}/{n}")
        kept = development.drop(columns=[n for n in self.exclude if n in development.columns])
        (self.data / TRAINING).write_bytes(table_bytes(kept))
        return shares

    def _write_stand_ins(self) -> tuple[dict[str, tuple[str, ...]], list[TriedGenerator]]:
        """Write every release beside the rows, but those that are drawn by name.

        Returns
        -------
        tuple
            What releases are called, by what makes them, and what makes them; nothing of the latter
            where the claim is about named releases.
        """
        draws, sources = self.settings.draws, self.instead.sources
        if sources:
            problems: list[str] = []
            tables = read_releases(
                sources, lambda done: self.progress("reading releases", done, len(sources)),
                self.notes, problems,
            )  # fmt: skip
            joint = self.settings.independent and len(sources) > 1 and self.rows.standing.unseen
            names = self._write_releases(tables, FILES, problems, keep=joint)
            made = TriedGenerator(name=FILES, options={"folder": FILES}, draws=len(names))
            return {FILES: names}, [made] if joint else []
        self.notes.append(
            "fresh releases are further draws from the same rows that train after the same "
            "preparation; of other rows or another preparation nothing is said"
        )
        names_of, generators = {}, []
        for k, (name, generator) in enumerate(self.instead.generators.items()):
            if isinstance(generator, str | CodeText):
                first = self.settings.seed + k * draws
                seeds = range(first, first + draws)
                names_of[name] = tuple(map(str, seeds))
                generators.append(
                    TriedGenerator(
                        name=name, generator=generator, options=self.instead.options[name],
                        draws=draws,
                    )
                )  # fmt: skip
                continue
            folder = FILES if len(self.instead.generators) == 1 else f"{FILES}-{k + 1}"
            tables = self._drawn(cast("Generator", generator), self.instead.untold[name])
            names_of[name] = self._write_releases(tables, folder, [], keep=True)
            called = FILES if len(self.instead.generators) == 1 else name
            names_of[called] = names_of.pop(name)
            generators.append(TriedGenerator(name=called, options={"folder": folder}, draws=draws))
        return names_of, generators

    def _write_releases(
        self, tables: Iterator[tuple[str, pd.DataFrame]], folder: str, problems: list[str], *,
        keep: bool,
    ) -> tuple[str, ...]:  # fmt: skip
        """Write releases into a folder, and return what those are called that were written.

        One that cannot be used is written only if it is to be kept: as a draw that failed. What
        the user has to mend is told of all of them at once, by whoever yields them.
        """
        (self.data / folder).mkdir(parents=True)
        kinds, names, unlabelled = self._kinds, list[str](), 0
        lacking: dict[str, str] = {}
        contents: dict[str, str] = {}
        gaps: dict[str, dict[str, UnreadNumbers]] = {}
        for name, frame in tables:
            if self.settings.independent:
                alike = contents.setdefault(content_digest(frame), name)
                if alike != name:
                    problems.append(
                        f"{alike} and {name} hold the same records, and independent draws would "
                        "not; leave one of them out, or do not call the releases independent"
                    )
            if self.outcome is not None and self.outcome not in frame.columns:
                problems.append(
                    f"{name} has no column {self.outcome!r}; it has {quoted(frame.columns)}"
                )
                continue
            held = {column: kind for column, kind in kinds.items() if column in frame.columns}
            labelled, unread = without_unread(
                without_outcome(frame, self.outcome, self.columns), held, self.columns
            )
            for column, values in unread.items():
                gaps.setdefault(column, {})[name] = values
            # A number may have been unreadable.
            labelled = without_outcome(labelled, self.outcome, self.columns)
            unlabelled += len(frame) - len(labelled)
            release = typed(labelled, held, MISSING, self.columns, release=True)
            for column in [*self.codes]:
                if column in release and not _renumbered(release[column], self.codes[column]):
                    del self.codes[column]
            why = self._why_unusable(release)
            if why:
                self.unusable[name] = why
                if not keep:
                    continue
            for column in kinds:
                if column not in frame.columns:
                    lacking.setdefault(column, name)
            (self.data / folder / f"{len(names):05d}.parquet").write_bytes(table_bytes(release))
            names.append(name)
        if unlabelled:
            self.notes.append(f"{unlabelled:,} rows of releases have no {self.outcome!r}: left out")
        if problems:  # of draws; those of files are told where they are read
            raise DrawError(f"draw {problems[0]}")
        if not set(names) - set(self.unusable):
            raise DrawError("no release can be used:\n" + "\n".join(self._unusable_lines()))
        self._leave_out(lacking)
        new = [column for column in self.codes if column not in self.exclude]
        self._say_ids(new, ", of which releases have others")
        for column, found in gaps.items():
            if column not in self.exclude:
                self._say_unread(column, found)
        return tuple(names)

    def _say_unread(self, column: str, found: Mapping[str, UnreadNumbers]) -> None:
        """Say which releases have values that cannot be read: above all where most are such."""
        (name, first), *others = found.items()
        more = f", and values of {counted(len(others), 'more release')}" if others else ""
        many = "those releases" if others else "that release"
        self.notes.append(
            f"{name}: {counted(first.count, 'value')} of {column!r} cannot be read{more}, which "
            f"counts as missing; an audit would refuse {many}"
        )
        most = [values for values in found.values() if values.most]
        if most:
            part = self.columns.get(column)
            notation = notation_of(part) if part else None
            self.unread.append(
                f"{column!r} cannot be read in {counted(len(most), 'release')}: most of its values "
                f"are written like {most[0].like!r:.60}, and the table has "
                f"{notation or 'plain numbers'}. They count as missing, so all that follows is "
                "about releases without them. Have these releases written as the table is, or as "
                "plain numbers such as 1234.5 and 2024-01-31."
            )

    def _unfiled(self, origin: LaterTitles, trial: Trialled) -> dict[str, bytes]:
        """Return the releases that no file holds, by the names that an audit looks for."""
        wanted: dict[str, Path] = {}
        for k, name in enumerate(trial.releases or self.instead.sources):
            if not isinstance(self.instead.sources[name], str | Path):
                release = self.data / FILES / f"{k:05d}.parquet"
                wanted[origin.name_of(k, None)] = release
        for made in trial.generators if self.instead.generators else ():
            folder = self.data / str(made.options.get("folder"))
            for j, drawn in enumerate(sorted(folder.glob("*.parquet"))):
                wanted[f"{later_folder(made, origin)}/{j + 1:04d}.parquet"] = drawn
        return {name: path.read_bytes() for name, path in wanted.items()}

    def _strange(
        self, audit: Audit, kinds: dict[str, str], dates: set[str], releases: Sequence[str]
    ) -> Iterator[str]:
        """Say which columns of the first release of each maker are nothing like the table's."""
        from pandas.api.types import is_numeric_dtype

        source = typed(self.rows.development, kinds, MISSING, self.columns)
        frozen = FrozenReleases(manifest=audit.folder.document(ReleaseManifest, RELEASES))
        met: dict[tuple[str, str], list[str]] = {}
        for made in frozen.mechanisms:
            first = next((draw for draw in made.draws if isinstance(draw, DrawnRelease)), None)
            if first is None:
                continue
            release = read_table_bytes(audit.folder.store.get(first.release), made.mechanism)
            for column in kinds:
                drawn, real = release[column].dropna(), source[column].dropna()
                numbers = is_numeric_dtype(drawn) and is_numeric_dtype(real)
                if real.nunique() > 1 and drawn.nunique() == 1:
                    how = "one value alone"
                elif numbers and 1.0 - drawn.between(real.min(), real.max()).mean() > MOST_OUTSIDE:
                    how = "nearly no value within the range of the table"
                else:
                    continue
                day = (
                    "; a release has dates as datetimes, as the table writes them, or as days "
                    "since 1970-01-01"
                )
                if releases:  # one mechanism each, by its number
                    met.setdefault((column, how), []).append(releases[int(made.mechanism)])
                    continue
                yield (
                    f"{made.mechanism}: {column!r} has {how} in its first release"
                    f"{day if column in dates else ''}"
                )
        alike: dict[tuple[str, str], list[str]] = {}
        for (column, how), called in met.items():
            alike.setdefault((how, some(called)), []).append(column)
        for (how, where), names in alike.items():
            verb = "has" if len(names) == 1 else "have"
            yield (
                f"{quoted(names)} {verb} {how} in {where}: what is asked of it fails there, and "
                f"{_excluding(names)} asks nothing of it"
            )

    def _unusable_lines(self) -> Iterator[str]:
        yield from (f"{name} cannot be used: {why}" for name, why in self.unusable.items())

    def _why_unusable(self, release: pd.DataFrame) -> str:
        """Return why no model can be learned from a release; nothing where one can."""
        outcome = self.guessed
        if outcome is None or not outcome.labels:
            return "" if len(release) else f"no row of it has {self.outcome!r}"
        labels = set(as_texts(release[outcome.column]).map(canonical_value))
        strange = sorted(labels - set(outcome.labels))
        if strange:
            return f"{outcome.column!r} is {quoted(strange)} in some rows, which the table has not"
        return "" if len(labels) > 1 else f"{outcome.column!r} has one value alone"

    def _drawn(self, generator: Generator, untold: str) -> Iterator[tuple[str, pd.DataFrame]]:
        """Yield the draws of an object of the caller's, made in this process."""
        first, draws = self.settings.seed, self.settings.draws
        self.notes.append(
            "the generator is an object of yours, so it drew in your own process: that it kept "
            "nothing of the rows that judge from before, reads no file that has them, and made no "
            "release depend on another, is your word; the audit that follows is of files that it "
            f"drew, because no other process can make it: {untold}"
        )
        # As a generator by name gets it: numbers as numbers, and no column that is left out.
        source = typed(self.rows.development, self._kinds, MISSING, self.columns)
        generator.prepare(with_dates(source, self.columns), np.random.default_rng(first))
        for k in range(draws):
            frame = generator.draw(Seed(first + k))
            self.progress("drawing releases", k + 1, draws)
            yield str(first + k), read_source(frame, f"draw {first + k}")


def _excluding(names: Sequence[str]) -> str:
    """Return what to type to leave columns out."""
    return " ".join(f"--exclude {shlex.quote(name)}" for name in names)


def _renumbered(values: Series, codes: Collection[str | float]) -> bool:
    """Return whether a release has codes of its own, and not one of the table's.

    Of numbers it must have counted them: a release whose measures are wrong has others, too.
    """
    known = values[values.notna() & (values != "")]
    if not has_codes(known) or known.isin(list(codes)).any():
        return False
    numbers = values.dtype.kind == "f"
    return not numbers or float(known.max()) - float(known.min()) < 2 * len(known)


_INNER = re.compile(rf"(?:{FILES}(?:-\d+)?/)?(\d{{5}})\.parquet|\b(\d{{5}})\b(?=, seed)")


def _in_outer_words(text: str, names: Mapping[str, Sequence[str]]) -> str:
    """Return a message of the audit that is thrown away, with the names that the user knows."""
    called = names.get(FILES, ())

    def release(match: re.Match[str]) -> str:
        place = int(match[1] or match[2])
        return called[place] if place < len(called) else match[0]

    text = text.replace(TRAINING, "the rows that train").replace(JUDGING, "the rows that judge")
    # What a declaration would say and a trial has not.
    text = _NO_RANDOMNESS.sub("f it has no randomness, give its one release as a table", text)
    return _INNER.sub(release, _INNER_MEMBER.sub("", text))


_INNER_MEMBER = re.compile(r"^trial/(?=.{1,200}: seeds \d)")
_NO_RANDOMNESS = re.compile(
    r"f the mechanism has no randomness, declare deterministic = true"
    r"(; to leave one of them out: proxyguard amend --reason WHY --exclude \S+)?"
)


def _outer_progress(progress: Progress, names: Mapping[str, Sequence[str]]) -> Progress:
    """Return progress that calls releases as the user does."""
    called = {f"{k:05d}": name for k, name in enumerate(names.get(FILES, ()))}
    return lambda what, done, total: progress(called.get(what, what), done, total)


@contextmanager
def _as_the_user_calls_it(names: Mapping[str, Sequence[str]]) -> Iterator[None]:
    try:
        yield
    except ProxyGuardError as error:
        error.args = (_in_outer_words(str(error), names),)
        raise
