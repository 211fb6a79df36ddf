"""What is required where nobody said it: by the kind of the outcome, with limits in plain words.

`guess_outcome` says what is predicted, `default_demands` what a release must keep, and
`declaration_text` writes both as an `audit.toml`: the one that is tried, and the one of an audit on
records that nobody has looked at.
"""

from __future__ import annotations

import os
import shlex
from collections import Counter
from collections.abc import Collection, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from math import ceil, comb
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np

from proxyguard.audit.code import CodeText
from proxyguard.errors import RegistryError, TableError
from proxyguard.exact.rounding import Array
from proxyguard.printable import printable, some, toml, toml_key
from proxyguard.registry.declaration import read_declaration
from proxyguard.registry.fields import OTHERS, bin_end
from proxyguard.registry.numbers import canonical_value
from proxyguard.registry.target import ColumnPart, DeclaredColumns, Outcome
from proxyguard.tables.columns import Series, as_texts, notation_of, read_as_declared, typed
from proxyguard.tables.files import separator_of
from proxyguard.tables.notation import reads_as_gap
from proxyguard.tables.profile import column_toml, look_alikes, profile_of
from proxyguard.trial.rows import MISSING

if TYPE_CHECKING:
    import pandas as pd

OutcomeKind = Literal["binary", "multiclass", "regression"]
OUTCOME_KINDS: tuple[OutcomeKind, ...] = ("binary", "multiclass", "regression")
# The limits unless others are given: shares, and of numbers shares of their range.
LIMITS = {
    "error": "0.05", "Brier": "0.03", "absolute": "0.05", "squared": "0.01",
    "two-way shares": "0.05", "one-way shares": "0.05", "means": "0.05", "exposure": "0.10",
}  # fmt: skip
# Of a loss the limit is at most this share of what the model of the real rows gains over one that
# always gives the same answer: a release that learned nothing must not keep it.
GAIN_SHARE = 0.5
# A gain can be told where it is so many of its standard errors.
TOLD_GAIN = 3.0
# Different labels of an outcome that is no number, at most.
CLASSES = 20
# Different whole numbers that are taken for classes, at most.
FEW_NUMBERS = 10
# Labels that mean yes in whatever table.
POSITIVE = ("1", "yes", "true", "y", "t", "positive", "pos", "ja", "oui", "si")
# Share of the rows that judge outside what the table has, above which no share is asked.
MOST_MOVED = 0.5
# The demands of shares.
SHARES = ("one-way shares", "two-way shares")
# Cells of all two-way tables, at most: each is a requirement with two sides.
CELLS = 800
# Records that judge, from which on shares are told more finely.
MANY = 2_000
# The limit of shares that fewer records judge.
COARSE_LIMIT = "0.1"
# Share that the most frequent text of a column has at least, for shares to be asked of it.
COMMON = 0.02
# It names no requirement: an author may take any of them out.
PURPOSE = "May releases stand in for the table in what is required of them?"

# The first seed of an audit that follows, or a later one: no draw of it was looked at here.
LATER_SEED = 1000
# The folder of releases, and what that which makes them is called where nobody named it.
FILES = "releases"
# Records that an audit waits for.
AWAITED = "fresh.csv"
# The attacks of an exposure.
ATTACKS = ("dcr", "domias")


@dataclass(frozen=True, slots=True, kw_only=True)
class GuessedOutcome:
    """What is predicted, and how that was guessed."""

    declared: Outcome
    """How a declaration has it."""
    labels: tuple[str, ...] = ()
    """The values of a yes or no, or of classes."""
    words: str
    """What was taken for what, and how to say otherwise."""

    @property
    def column(self) -> str:
        """The column."""
        return self.declared.column

    @property
    def lines(self) -> list[str]:
        """The lines of ``[target]`` that declare it."""
        said = self.declared.model_dump(mode="json", exclude_defaults=True, exclude={"column"})
        return [f"{key} = {toml(what)}" for key, what in {"outcome": self.column, **said}.items()]


def guess_outcome(
    development: pd.DataFrame,
    column: str,
    *,
    judging: pd.DataFrame | None = None,
    kind: OutcomeKind | None,
    positive: str | None = None,
    part: ColumnPart | None = None,
    written: Iterable[str] = (),
) -> GuessedOutcome:
    """Return what an outcome is: a yes or no, one of several classes, or a number.

    Parameters
    ----------
    development
        The rows that train, of which a number has its range.
    column
        The outcome.
    judging
        The rows that judge, whose labels count too: a rare one may be among them alone.
    kind
        What it is, where the user says so.
    positive
        The label of a yes, where the user says so.
    part, written
        How the outcome is declared to be read, and its texts as the tables have them: of these a
        line is proposed that takes some for missing.

    Raises
    ------
    RegistryError
        The outcome cannot be of this kind, or has not this label.
    """
    texts = as_texts(development[column]).map(canonical_value)
    counts = texts.value_counts()
    labels = sorted(counts.index)
    if judging is not None:
        labels = sorted({*labels, *as_texts(judging[column]).map(canonical_value)})
    if len(counts) < 2:
        raise RegistryError(
            f"outcome {column!r} has one value alone, {counts.index[0]!r}, in the rows that train: "
            "there is nothing to predict"
            if len(counts)
            else f"outcome {column!r} has no value at all"
        )
    part = part or ColumnPart()
    texts_written = list(written)
    read = read_as_declared(np.array(texts_written, dtype=object), part)
    spelt = dict(zip(texts_written, map(canonical_value, read), strict=True))

    def where_missing(gaps: Sequence[str]) -> str:
        raw = sorted(text for text, label in spelt.items() if label in gaps)
        line = column_toml(part.model_copy(update={"missing": (*part.missing, *(raw or gaps))}))
        return (
            f"where {' or '.join(map(repr, gaps))} stands for a missing value, say --column "
            f"'{toml_key(column)} = {line}'"
        )

    doubtful = [label for label in labels if reads_as_gap(label)]
    numbers = _as_numbers(labels)
    if part.kind is None and numbers is None:
        both = (
            texts if judging is None else [*texts, *as_texts(judging[column]).map(canonical_value)]
        )
        _refuse_look_alikes(column, Counter(both), part)
    kind = kind or ("binary" if positive is not None else _likely_kind(column, labels, numbers))
    other = "--kind binary, multiclass or regression says otherwise"
    if kind == "regression":
        if numbers is None:
            raise RegistryError(f"outcome {column!r} holds text, so it is no regression; {other}")
        seen = [float(label) for label in counts.index]
        low, high = decimal(min(seen)), decimal(max(seen))
        return GuessedOutcome(
            declared=Outcome(column=column, range=(low, high), clip=True),
            words=f"{column!r} is taken for a number from {float(low):g} to {float(high):g}, the "
            f"range of the rows that train; what lies beyond counts as the end; {other}",
        )
    if kind == "multiclass":
        return GuessedOutcome(
            declared=Outcome(column=column, classes=tuple(labels)), labels=tuple(labels),
            words=f"{column!r} is taken for one of {len(labels)} classes, {quoted(labels, 6)}; "
            f"{other}" + (f"; {where_missing(doubtful)}" if doubtful else ""),
        )  # fmt: skip
    if len(labels) != 2:
        why = "kind is 'binary'" if positive is None else "positive makes a yes or no of it"
        first = [] if positive is None else [canonical_value(positive)]
        two = list(dict.fromkeys([*first, *counts.index]))[:2]
        gaps = doubtful if len(labels) - len(doubtful) == 2 else [x for x in labels if x not in two]
        proposed = f"; {where_missing(gaps)}" if 0 < len(gaps) <= FEW_NUMBERS else ""
        raise RegistryError(
            f"outcome {column!r} has {len(labels)} different values ({quoted(labels, 4)}), and "
            f"{why}, which has two{proposed}; --kind multiclass, without --positive, predicts all "
            "of them"
        )
    if positive is not None:
        said = canonical_value(positive)
        if said not in labels:
            raise RegistryError(
                f"positive is {said!r}, and {column!r} has {' and '.join(map(repr, labels))}"
            )
        words = f"{column!r} is a yes where it is {said!r}, as you said"
    else:
        likely = [label for label in labels if label.casefold() in POSITIVE]
        said = likely[0] if len(likely) == 1 else str(counts.index[-1])
        why = "by its name" if len(likely) == 1 else "the rarer of two"
        words = (
            f"{column!r} is taken for a yes where it is {said!r} ({why}, the other is "
            f"{next(label for label in labels if label != said)!r}); --positive says otherwise"
        )
    return GuessedOutcome(
        declared=Outcome(column=column, positive=said), labels=tuple(labels), words=words
    )


def _refuse_look_alikes(column: str, counts: Mapping[str, int], part: ColumnPart) -> None:
    """Raise where labels are most likely one value in several spellings: they would be classes."""
    alike = look_alikes(counts)
    if not alike or len(counts) - len(alike) < 2:
        return
    told = some([f"{text!r} beside {other!r}" for text, other in alike.items()], 6)
    key = toml_key(column)
    one = column_toml(part.model_copy(update={"same": {**part.same, **alike}}))
    several = column_toml(part.model_copy(update={"kind": "category"}))
    raise RegistryError(
        f"outcome {column!r} has {told}, which look like one value in several spellings and would "
        f"be classes of their own; no record is used up yet. To take them as one say --column "
        f"'{key} = {one}'; to keep them apart --column '{key} = {several}'"
    )


def _as_numbers(labels: Sequence[str]) -> list[float] | None:
    try:
        numbers = [float(label) for label in labels]
    except ValueError:
        return None
    return numbers if np.isfinite(numbers).all() else None


def _likely_kind(
    column: str, labels: Sequence[str], numbers: Sequence[float] | None
) -> OutcomeKind:
    if len(labels) == 2:
        return "binary"
    if numbers is None:
        if len(labels) > CLASSES:
            words = [label for label in labels if _as_numbers([label]) is None]
            if len(words) <= len(labels) // 2:
                raise RegistryError(
                    f"the outcome holds numbers and other texts, such as {quoted(words, 3)}; where "
                    f"these stand for a missing value say --column '{toml_key(column)} = "
                    f'{{ kind = "number", missing = {toml(words)} }}\''
                )
            raise RegistryError(
                f"the outcome has {len(labels)} different texts, too many for classes; name "
                f"another column, or say --kind multiclass"
            )
        return "multiclass"
    whole = all(number == int(number) for number in numbers)
    return "multiclass" if whole and len(numbers) <= FEW_NUMBERS else "regression"


@dataclass(frozen=True, slots=True, kw_only=True)
class Demand:
    """One thing that is required of a release, in plain words and as it is declared."""

    name: str
    """What ``--limit`` calls it."""
    asked: float
    """The limit, as ``--limit`` takes it."""
    limit: float
    """The limit, as it is shown."""
    unit: str
    """What stands behind a shown number."""
    scale: Mapping[str, float]
    """By declared requirement: what a recorded loss is multiplied with to be shown."""
    lines: tuple[str, ...]
    """How it is declared."""
    two_sided: bool = False
    """Whether a deviation to either side counts, so that the larger of the two is shown."""
    why: str = ""
    """Where the limit comes from, if nobody gave it and it is no plain default."""


def number_words(number: float, unit: str = "") -> str:
    """Return a number for people: three significant digits, with its unit."""
    small = np.format_float_positional(number, precision=2, fractional=False, trim="-")
    shown = f"{number:,.0f}" if abs(number) >= 1000 else f"{number:.3g}"
    shown = small if "e" in shown else shown
    return f"{shown}{unit}"


def default_demands(
    development: pd.DataFrame,
    kinds: Mapping[str, str],
    outcome: GuessedOutcome | None,
    limits: Mapping[str, object],
    *,
    records: int,
    exposure: bool,
    columns: DeclaredColumns,
    judging: pd.DataFrame,
    gains: Mapping[str, Gain],
) -> tuple[list[Demand], list[str], dict[str, float]]:
    """Return what is required of a release, what is not asked, and what the table itself misses.

    The last are columns in whose shares the table differs from the rows that judge by a limit, with
    the largest difference: a release that is true to the table misses it there, too.

    Parameters
    ----------
    development
        The rows that train: bins, groups and ranges are theirs.
    kinds
        What each column holds, "number" or "text"; the columns that are asked about.
    outcome
        What is predicted, if anything.
    limits
        Those that the user gave, by name.
    records
        How many records judge: few cannot tell small differences of many shares.
    exposure
        Whether attacks are asked for.
    columns
        How columns are declared to be read: bins of dates have dates between them.
    judging
        The rows that judge.
    gains
        What the model of the real rows gains, by loss.

    Raises
    ------
    RegistryError
        A limit is of nothing that is required, or no number between 0 and 1.
    """
    notes: list[str] = []
    coarse = {} if records >= MANY else {name: COARSE_LIMIT for name in LIMITS if "shares" in name}
    given = {name: _limit(name, {**coarse, **limits}) for name in LIMITS}
    untold = {name: gain for name, gain in gains.items() if name not in limits}
    demands = [] if outcome is None else list(_losses(outcome, given, untold))
    fine = records >= MANY and 9 * comb(len(kinds), 2) <= CELLS
    coded, uncoded = _codings(development, kinds, columns, 3 if fine else 2)
    if uncoded:
        notes.append(
            f"shares are not asked of {quoted(uncoded)}: constant, comments, or texts that hardly "
            "repeat"
        )
    if outcome is None:
        demands += _one_way(coded, given["one-way shares"])
    demands += _two_way(coded, given["two-way shares"], outcome, notes)
    if outcome is None:
        demands += _means(development, kinds, given["means"], notes)
    if exposure:
        demands.append(_exposure(given["exposure"]))
    if not demands:
        raise TableError("no column varies enough to ask anything of it; name an --outcome")
    unknown = sorted(set(limits) - {demand.name for demand in demands})
    if unknown:
        raise RegistryError(
            f"limits has {unknown}, and what is required here is "
            f"{[demand.name for demand in demands]}"
        )
    shares = [given[demand.name] for demand in demands if demand.name in SHARES]
    coarser = [
        demand.name for demand in demands if demand.name in coarse and demand.name not in limits
    ]
    if coarser:
        finer = shlex.quote(f"{coarser[-1]}={LIMITS[coarser[-1]]}")
        notes.append(
            f"the limit of {' and '.join(map(repr, coarser))} is {100 * float(COARSE_LIMIT):g} "
            f"points because fewer than {MANY:,} rows judge, here {records:,}; else it is "
            f"{100 * float(LIMITS[coarser[-1]]):g} (--limit {finer})"
        )
    tables = [typed(table, kinds, MISSING) for table in (development, judging)]
    first, second = ([c.shares(table[c.name]) for c in coded] for table in tables)
    apart = {c.name: float(abs(a - b).max()) for c, a, b in zip(coded, first, second, strict=True)}
    missed = {name: by for name, by in apart.items() if shares and by >= min(shares)}
    return demands, notes, missed


@dataclass(frozen=True, slots=True, kw_only=True)
class MovedColumn:
    """A column of which most rows that judge have what the table has not."""

    name: str
    share: float
    """How many of them."""
    words: str
    """What the table has, and what they have."""


def moved_columns(
    development: pd.DataFrame,
    judging: pd.DataFrame,
    kinds: Mapping[str, str],
    dates: Container[str],
) -> list[MovedColumn]:
    """Return the columns of which most rows that judge lie outside what the table has.

    Their shares tell how the target moved, such as dates of the months that follow, and nothing
    of releases.

    Parameters
    ----------
    development, judging
        The rows that train and those that judge.
    kinds
        What each column holds, "number" or "text".
    dates
        Those of numbers that are days since 1970-01-01.
    """
    moved = []
    tables = [typed(table, kinds, MISSING) for table in (development, judging)]
    for name, kind in kinds.items():
        real, other = (table[name] for table in tables)
        if kind == "number":
            real, other = real.dropna(), other.dropna()
            outside = ~other.between(real.min(), real.max())
            shown = _day if name in dates else number_words
            ends = [
                f"{shown(end.min())} to {shown(end.max())}" for end in (real, other) if len(end)
            ]
        else:
            real, other = real[real != ""], other[other != ""]
            outside = ~other.map(canonical_value).isin(set(real.map(canonical_value)))
            ends = [quoted(end.value_counts().index, 2) for end in (real, other)]
        if len(real) and len(other) and outside.mean() > MOST_MOVED:
            words = f"{ends[0]} in the table, {ends[1]} in the rows that judge"
            moved.append(MovedColumn(name=name, share=float(outside.mean()), words=words))
    return moved


def _limit(name: str, limits: Mapping[str, object]) -> float:
    said = limits.get(name, LIMITS[name])
    try:
        limit = float(str(said))
    except ValueError:
        limit = np.nan
    if not 0.0 < limit < 1.0:
        raise RegistryError(
            f"the limit of {name!r} is a share between 0 and 1, such as {LIMITS[name]}; "
            f"got {said!r}"
        )
    return limit


@dataclass(frozen=True, slots=True, kw_only=True)
class Gain:
    """How much less a model of the real rows loses than one that always gives the same answer."""

    mean: float
    error: float
    """The standard error of the mean."""

    @property
    def told(self) -> bool:
        """Whether the rows that it was estimated on can tell it from none."""
        return self.mean > TOLD_GAIN * self.error


def losses_of(outcome: Outcome) -> dict[str, tuple[str, float, str]]:
    """Return the losses of an outcome by name: as declared, in which scale, and its unit."""
    if outcome.range is None:
        return {"error": ("error", 100.0, " of 100 records"), "Brier": ("brier", 1.0, "")}
    low, high = map(float, outcome.range)
    return {"absolute": ("absolute", high - low, ""), "squared": ("squared", (high - low) ** 2, "")}


def _losses(
    outcome: GuessedOutcome, limits: Mapping[str, float], gains: Mapping[str, Gain]
) -> Iterator[Demand]:
    """Yield the losses of an outcome: of classes in words, of a number in its own unit."""
    for name, (loss, scale, unit) in losses_of(outcome.declared).items():
        limit, why = limits[name], ""
        gain = gains.get(name)
        if gain is not None and not gain.told:
            why = (
                "The limit is the usual one: on the rows that train it cannot be told that the "
                "model of the real rows gains anything over one that always gives the same answer."
            )
        elif gain is not None and GAIN_SHARE * gain.mean < limit:
            limit = float(f"{GAIN_SHARE * gain.mean:.1e}")
            why = (
                "The limit is half of what the model of the real rows gains over one that always "
                f"gives the same answer, {number_words(gain.mean * scale, unit)} on the rows that "
                "train."
            )
        yield Demand(
            name=name, asked=limit, limit=limit * scale, unit=unit, scale={name: scale}, why=why,
            lines=(
                "[[requirement]]", f"name = {toml(name)}", f"loss = {toml(loss)}",
                'form = "relative"            # compared with the model trained on the real rows',
                f"limit = {toml(decimal(limit))}",
            ),
        )  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedColumn:
    """A column as shares are asked of it: bins of a number, or its most frequent texts."""

    name: str
    ends: tuple[str, ...] = ()
    texts: tuple[str, ...] = ()

    @property
    def cells(self) -> int:
        """How many cells its values fall into."""
        return len(self.ends or self.texts) + 1

    def shares(self, values: Series) -> Array:
        """Return the share of each cell; a missing number has a cell of its own."""
        if self.texts:
            place = {text: k for k, text in enumerate(self.texts)}
            cells = [place.get(canonical_value(str(text)), len(self.texts)) for text in values]
        else:
            numbers = np.asarray(values, dtype=np.float64)
            ends = np.array([float(bin_end(end)) for end in self.ends])
            inside = np.searchsorted(ends, numbers, side="right")
            cells = np.where(np.isnan(numbers), self.cells, inside).tolist()
        return np.bincount(cells, minlength=self.cells + 1) / max(1, len(cells))


def _codings(
    development: pd.DataFrame, kinds: Mapping[str, str], columns: DeclaredColumns, cells: int
) -> tuple[list[AskedColumn], list[str]]:
    """Return the columns that shares are asked of, in so many cells, and the other columns."""
    coded, uncoded = [], []
    read = typed(development, kinds, MISSING)
    for name, kind in kinds.items():
        notation = notation_of(columns.get(name, ColumnPart()))
        column = (
            _bins(name, read[name], cells, days=notation is not None and notation.has_days)
            if kind == "number"
            else (_groups(name, read[name], cells))
        )
        if column is None:
            uncoded.append(name)
        else:
            coded.append(column)
    return coded, uncoded


def _bins(name: str, values: pd.Series[float], cells: int, *, days: bool) -> AskedColumn | None:
    """Return a column's bins, or nothing of a constant; between those of dates are whole days."""
    finite = np.asarray(values, dtype=np.float64)
    finite = finite[np.isfinite(finite)]
    distinct = np.unique(finite)
    if distinct.size < 2:
        return None
    # Of so few values every one is a bin; else each bin has as many rows.
    parts = np.arange(1, cells) / cells
    ends = distinct[1:] if distinct.size <= cells else np.quantile(finite, parts)
    written = _day if days else decimal
    texts = list(dict.fromkeys(written(end) for end in ends if end > distinct[0]))
    return AskedColumn(name=name, ends=tuple(texts or [written(distinct[1])]))


def _day(days: float) -> str:
    """Return the first date that begins so many days after 1970-01-01, or later."""
    return str(np.datetime64("1970-01-01", "D") + ceil(days))


def _groups(name: str, values: pd.Series[str], cells: int) -> AskedColumn | None:
    counts = values.map(canonical_value).value_counts()
    if len(counts) < 2 or counts.iloc[0] < COMMON * counts.sum():
        return None
    if profile_of(values.to_frame()).columns[0].kind == "text":  # comments repeat by being empty
        return None
    # All others are a cell too: of two values the share of one says that of the other.
    several = min(cells, len(counts)) - 1
    texts = [str(text) for text in counts.index[:several] if len(str(text)) <= 200]
    return AskedColumn(name=name, texts=tuple(texts)) if texts else None


def _one_way(coded: Sequence[AskedColumn], limit: float) -> list[Demand]:
    return [_shares("one-way shares", limit, [(column,) for column in coded])] if coded else []


def _two_way(
    coded: Sequence[AskedColumn], limit: float, outcome: GuessedOutcome | None, notes: list[str]
) -> list[Demand]:
    pairs = list(combinations(coded, 2))
    if outcome is not None:  # what is predicted matters most where not all fit
        pairs.sort(key=lambda pair: all(column.name != outcome.column for column in pair))
    kept: list[tuple[AskedColumn, ...]] = []
    cells = 0
    for first, second in pairs:
        if cells + first.cells * second.cells <= CELLS:
            kept.append((first, second))
            cells += first.cells * second.cells
    if len(kept) < len(pairs):
        notes.append(
            f"shares are asked of {len(kept):,} of {len(pairs):,} pairs of columns, those with the "
            "outcome first: more would take longer than a first look should"
        )
    return [_shares("two-way shares", limit, kept)] if kept else []


def _group_names(texts: Sequence[str]) -> dict[str, list[str]]:
    """Return a group of its own for each text; none is called what the others are called."""
    names: dict[str, list[str]] = {}
    for text in texts:
        name = text or "(missing)"
        while name == OTHERS or name in names:
            name = f"{name} (text)"
        names[name] = [text]
    return names


def _shares(name: str, limit: float, tables: Sequence[Sequence[AskedColumn]]) -> Demand:
    used = {column.name: column for columns in tables for column in columns}
    bins = {column.name: list(column.ends) for column in used.values() if column.ends}
    groups = {column.name: _group_names(column.texts) for column in used.values() if column.texts}
    lines = [
        "[[requirement]]", f"name = {toml(name)}", 'form = "query"',
        f"limit = {toml(decimal(limit))}", "", "[requirement.query]",
        f"marginals = {_marginals(tables)}",
    ]  # fmt: skip
    if bins:
        lines += ["", "[requirement.query.bins]       # ends between the bins of a number"]
        lines += [f"{toml_key(column)} = {toml(ends)}" for column, ends in bins.items()]
    if groups:
        lines += ["", f"[requirement.query.groups]     # texts by name; the others are {OTHERS!r}"]
        lines += [f"{toml_key(column)} = {toml(texts)}" for column, texts in groups.items()]
    return Demand(
        name=name, asked=limit, limit=100 * limit, unit=" points", scale={name: 100.0},
        lines=tuple(lines), two_sided=True,
    )  # fmt: skip


def _marginals(tables: Sequence[Sequence[AskedColumn]]) -> str:
    """Return tables as a declaration has them: all pairs of some columns in a word."""
    names = [[column.name for column in columns] for columns in tables]
    columns = list(dict.fromkeys(name for pair in names for name in pair))
    everything = {frozenset(pair) for pair in combinations(columns, 2)}
    if len(names) > 1 and {frozenset(pair) for pair in names} == everything:
        return f"{{ columns = {toml(columns)}, ways = 2 }}"
    return toml(names)


def _means(
    development: pd.DataFrame, kinds: Mapping[str, str], limit: float, notes: list[str]
) -> list[Demand]:
    read = typed(development, kinds, MISSING)
    lines: list[str] = []
    scale: dict[str, float] = {}
    gaps = []
    for column in (name for name, kind in kinds.items() if kind == "number"):
        values = np.asarray(read[column], dtype=np.float64)
        if not np.isfinite(values).all():
            gaps.append(column)
            continue
        low, high = float(decimal(values.min())), float(decimal(values.max()))
        if not low < high:
            continue
        name = f"mean of {column}"
        scale[name] = 100.0 / (high - low)
        lines += [
            "[[requirement]]", f"name = {toml(name)}", 'form = "query"',
            f"limit = {toml(decimal(limit * (high - low)))}", "", "[requirement.query]",
            f"mean = {toml(column)}", f"range = {toml([decimal(low), decimal(high)])}", "",
        ]  # fmt: skip
    if gaps:
        notes.append(f"means are not asked of {quoted(gaps)}: values are missing there")
    if not scale:
        return []
    return [
        Demand(
            name="means", asked=limit, limit=100 * limit, unit=" % of the range", scale=scale,
            two_sided=True, lines=tuple(lines[:-1]),
        )
    ]  # fmt: skip


def _exposure(limit: float) -> Demand:
    return Demand(
        name="exposure", asked=limit, limit=100 * limit, unit=" points",
        scale={"exposure": 100.0},
        lines=(
            "[[requirement]]", 'name = "exposure"', 'exposure = "advantage everywhere"',
            f"attacks = {toml(ATTACKS)}", f"limit = {toml(decimal(limit))}",
        ),
    )  # fmt: skip


def quoted(names: Iterable[str], most: int = 8) -> str:
    """Return names for a message: so many of them, and how many more there are."""
    return some([repr(str(name)) for name in names], most)


def decimal(number: float) -> str:
    """Return a number as a declaration has it: six significant digits, without an exponent."""
    return np.format_float_positional(number, precision=6, fractional=False, trim="-")


@dataclass(frozen=True, slots=True, kw_only=True)
class TriedGenerator:
    """What makes releases: a generator by name or text, or a folder of files: its draws."""

    name: str
    """What it is called."""
    generator: str | CodeText = "files"
    options: Mapping[str, object]
    """Those of a text stand in it already."""
    draws: int

    @property
    def by_name(self) -> bool:
        """Whether it draws; else it reads files."""
        return self.generator != "files"


@dataclass(frozen=True, slots=True, kw_only=True)
class Trialled:
    """All that a declaration says, of the trial and of the audit that would follow it alike."""

    name: str
    outcome: GuessedOutcome | None
    demands: Sequence[Demand]
    exclude: Sequence[str] = ()
    columns: DeclaredColumns = field(default_factory=dict)
    """How columns are read, where their values do not say so."""
    gaps: tuple[str, ...] = ()
    """Texts that stand for a missing outcome, besides `MISSING`."""
    generators: Sequence[TriedGenerator] = ()
    """What makes releases; nothing where the claim is about named ones."""
    releases: Sequence[str] = ()
    """Files of named releases."""
    reliability: str
    exposure: bool
    shares: tuple[str, str] = ("0.7", "0.3")
    """Of an exposure: members and reference among the rows that are given."""
    chooses: str = ""
    """Share of the development rows on which `check` tries limits and `plan` judges pilots."""
    learner: str
    seed: int


def declaration_text(
    trial: Trialled, *, target: Sequence[str], table: str, head: Sequence[str] = (),
    first: int, files: Sequence[str], separator: str = ",",
    promises: Mapping[str, Sequence[str]] | None = None, left_out: Sequence[str] = (),
) -> str:  # fmt: skip
    """Return an `audit.toml`.

    Parameters
    ----------
    trial
        What is tried.
    target
        The lines that say where target records come from.
    table
        The source that releases replace.
    head
        What a reader is told first, as comments.
    first
        The first seed of generators that draw.
    files
        Of named releases: their files.
    separator
        What stands between the values of text tables.
    promises
        What each demand requires, in sentences, as comments.
    left_out
        What is not required, as comments.
    """
    lines = [*_comments(head), "format = 1"]
    lines += [f"name = {toml(trial.name)}", f"purpose = {toml(PURPOSE)}", "", "[target]"]
    reading: dict[str, object] = {} if separator == "," else {"separator": separator}
    reading["missing"] = (*MISSING, *(text for text in trial.gaps if text not in MISSING))
    lines += [*target, f"read = {toml(reading)}"]
    lines += [] if trial.outcome is None else trial.outcome.lines
    if trial.exclude:
        lines.append(f"exclude = {toml(trial.exclude)}    # no features, and not asked of")
    if trial.columns:
        lines += ["", "[columns]                      # how columns are read"]
        lines += [f"{toml_key(name)} = {column_toml(part)}" for name, part in trial.columns.items()]
    lines += ["", *_development(trial, table)]
    if trial.outcome is not None:
        lines += [
            "",
            "[procedure]                    # trained on the real rows, and on every release",
        ]
        lines += [f"library = {toml([trial.learner])}", f"seed = {trial.seed}"]
    lines += ["", *_comments(left_out)] if left_out else []
    for demand in trial.demands:
        lines += ["", *_comments((promises or {}).get(demand.name, ())), *demand.lines]
    if trial.exposure:
        lines += ["", "[exposure]", f"seed = {trial.seed}", 'same_law = "divided at random"']
    if not any(made.by_name for made in trial.generators):
        first = 0  # of files it is their place
    for made in trial.generators:
        lines += ["", *_mechanism(made, first)]
        first += made.draws  # no seed is two generators'
    for name, file in zip(trial.releases, files, strict=True):
        lines += ["", "[[release]]", f"name = {toml(name)}", f"file = {toml(file)}"]
    lines += ["", "[claim]"]
    if trial.releases:
        lines.append('level = "releases"             # about these tables, not what made them')
    else:
        lines += ['level = "mechanism"            # about fresh releases of the same kind']
        lines += [f"reliability_target = {toml(trial.reliability)}     # more of them than this"]
    lines += ['alpha = "0.05"', 'beta = "0.05"']
    return "\n".join([*lines, ""])


def _comments(lines: Sequence[str]) -> list[str]:
    # A column or a file may be called what ends a comment.
    return [f"# {printable(line)}".rstrip() for line in lines]


def _development(trial: Trialled, table: str) -> Iterator[str]:
    yield from ("[development]", f"table = {toml(table)}")
    if trial.chooses:
        words = "# on which check tries the limits, and plan its pilots"
        yield f"validation = {toml({'fraction': trial.chooses, 'seed': trial.seed})}    {words}"
    if trial.exposure:
        members, reference = trial.shares
        yield f"members = {toml(members)}           # what releases are made from"
        yield f"reference = {toml(reference)}         # what attacks compare with"
        yield f"split_seed = {trial.seed}"


def _mechanism(made: TriedGenerator, first: int) -> Iterator[str]:
    text = made.generator.toml if isinstance(made.generator, CodeText) else None
    yield from ("[[mechanism]]", f"name = {toml(made.name)}")
    yield text or f"generator = {toml(made.generator)}"
    yield f"draws = {made.draws}"
    yield f"seeds = {{ first = {first} }}"
    options = dict(made.options)
    if not made.by_name and first:
        options["first"] = first
    if options and text is None:
        yield f"options = {toml(options)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class LaterTitles:
    """How an audit that follows would name the table and the releases."""

    title: str
    table: str
    separator: str
    folder: str
    root: Path | None
    """The folder from which files are named; nothing where none was given."""
    fresh: str = AWAITED
    """The records that judge: to be put there, or kept."""
    seen: Mapping[str, str] = field(default_factory=dict)
    """The tables that were looked at, with digests of their records."""

    @classmethod
    def of(
        cls, real: object, releases: object, made_from: object, sources: Iterable[object]
    ) -> LaterTitles:
        titled = Path(real) if isinstance(real, str | Path) else None
        # What the releases were made from is what the source of the audit learns from.
        source = real if made_from is None else made_from
        path = Path(source) if isinstance(source, str | Path) else None
        place = Path(releases) if isinstance(releases, str | Path) else None
        files = [Path(given) for given in (source, *sources) if isinstance(given, str | Path)]
        root = _common_root(files)
        return cls(
            title="your table" if titled is None else titled.name,
            table="table.parquet" if path is None else _way(root, path),
            separator="," if path is None else separator_of(path),
            folder=FILES if place is None or not place.is_dir() else _way(root, place),
            root=root,
        )

    def name_of(self, k: int, release: object) -> str:
        """Return the file that a release is in, or will be written to."""
        if isinstance(release, str | Path):
            return _way(self.root, Path(release))
        return f"{self.folder}/{k + 1:04d}.parquet"


def _common_root(files: Sequence[Path]) -> Path | None:
    """Return the folder that all files lie in: the present one if they do, as they were typed."""
    there = [Path(os.path.abspath(file)) for file in files]
    here = Path.cwd()
    if all(file.is_relative_to(here) for file in there):
        return here if there else None
    try:
        return Path(os.path.commonpath([file.parent for file in there]))
    except ValueError:  # on two drives
        return None


def _way(root: Path | None, file: Path) -> str:
    """Return how a file is named from a folder; a declaration names none above it."""
    return file.name if root is None else Path(os.path.abspath(file)).relative_to(root).as_posix()


def later_declaration(
    trial: Trialled,
    origin: LaterTitles,
    records: int,
    promises: Mapping[str, Sequence[str]],
    files: Sequence[str],
    persons: Sequence[str],
    idle: Collection[str],
    unasked: Sequence[str],
) -> str:
    """Return the declaration of the same audit on records that nobody has looked at.

    Parameters
    ----------
    trial
        What was tried.
    origin
        What its tables are called.
    records
        How many records judged.
    promises
        What each demand requires, in sentences.
    files
        Of named releases: their files.
    persons
        Columns that look like the id of a person who has several rows.
    idle
        The demands that a release which learned nothing keeps, too: they are left out.
    unasked
        What else is not asked, in sentences.
    """
    target = [f"file = {toml(origin.fresh)}    # records that nobody has looked at"]
    if origin.seen:
        target += [
            "# Tables that the trial looked at, by digests of their records: none is the target",
            f"seen = {toml(origin.seen)}",
        ]
    if trial.outcome is not None:
        target += [
            "# As in the trial, nothing is claimed about records without an outcome:",
            '# "worst" counts them at their worst (no groups by it then), "refuse" stops there.',
            '# With a design below write "refuse" here, and records that all have the outcome.',
            'missing_outcomes = "leave out"',
        ]
    target += [
        "# Records are taken as drawn independently. If they were not, say in one of these how:",
        '# design = { weight = "WEIGHT", max_weight = "10", origin = "design" }',
        f"# design = {{ by = {toml(persons[0] if persons else 'CLUSTER')} }}",
        '# design = { by = "SEX", sizes = { f = 50, m = 40 }, weights = { f = "0.5", m = "0.5" } }',
        "# and of strata of clusters with weights see proxyguard explain survey.",
    ]
    whose = [
        f"The {records:,} records of the trial were seen, so put others into {AWAITED}: new ones,",
        "or rows that a colleague kept back.",
    ]
    if origin.fresh != AWAITED:
        whose = [f"{origin.fresh} has the rows that were kept back before the trial looked."]
    head = [
        "The audit of a trial: the same requirements, learner and claim, on fresh records.",
        "proxyguard init my-audit --from this folder makes it.",
        *whose,
        f"{origin.table} and {origin.folder}/ are looked for in --data, where the trial found",
        "them, and beside the audit.",
    ]
    demands = [demand for demand in trial.demands if demand.name not in idle]
    left_out = [
        f"Left out: {demand.name!r}: a release that learned nothing keeps its limit "
        f"{number_words(demand.limit, demand.unit)}, too."
        for demand in trial.demands
        if demand.name in idle
    ]
    left_out += [f"Not asked: {line}." for line in unasked]
    exposure = trial.exposure and all(made.by_name for made in trial.generators)
    if trial.exposure and not (exposure and trial.generators):
        # Rows of the table that the releases were not made from would count as their members.
        left_out.append(
            "Left out: 'exposure': an audit takes the rows that it gives to generators for "
            "members, and these releases were made elsewhere, from rows that it does not know."
        )
        exposure, demands = False, [d for d in demands if d.name != "exposure"]
    judged = trial.outcome is not None or bool(trial.generators)
    later = replace(
        trial, name="my-audit", exposure=exposure, demands=demands,
        # So that `check` can tell limits that a model which learned nothing keeps, and `plan`
        # what fresh releases are like.
        chooses="0.1" if judged else "",
        shares=("0.6", "0.3") if judged else ("0.7", "0.3"),
        generators=[
            made if made.by_name else replace(made, options={"folder": later_folder(made, origin)})
            for made in trial.generators
        ],
    )  # fmt: skip
    text = declaration_text(
        later, target=target, table=origin.table, head=head,
        first=max(LATER_SEED, trial.seed + sum(made.draws for made in trial.generators)),
        files=files, separator=origin.separator, promises=promises, left_out=left_out,
    )  # fmt: skip
    read_declaration(text)  # what cannot be registered must not be handed on
    return text


def later_folder(made: TriedGenerator, origin: LaterTitles) -> str:
    """Return where the files of an audit that follows are looked for."""
    return origin.folder if made.name == FILES else f"{origin.folder}/{made.name}"
