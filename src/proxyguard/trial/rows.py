"""Tables as people have them, and which of their rows judge the releases.

`read_source` takes a file, a frame of pandas or polars, or an Arrow table. `apart` decides which
rows the source is trained on and which ones judge, from what is known of how the releases were
made. Records are compared by value, each with one other: a table may hold two alike.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from io import StringIO
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from proxyguard.errors import ProxyGuardError, RegistryError, TableError
from proxyguard.printable import some, toml, toml_key
from proxyguard.registry.numbers import fold
from proxyguard.registry.target import ColumnPart, DeclaredColumns, TableReading
from proxyguard.seal.fingerprint import OPEN, TablePrints, fingerprints, identify, meet
from proxyguard.tables.columns import (
    as_text,
    as_texts,
    check_names,
    have_value,
    is_number,
    kinds_of,
    numbers_in,
    typed,
)
from proxyguard.tables.files import RawTable, as_frame, recoded_note, to_arrow, to_frame
from proxyguard.tables.ipc import SUFFIXES as IPC
from proxyguard.tables.profile import profile_of

if TYPE_CHECKING:
    import pandas as pd

TEXTS = (".csv", ".tsv", ".txt")
# Endings of the files of a folder that are taken for releases.
SUFFIXES = (*TEXTS, *(f"{suffix}.gz" for suffix in TEXTS), ".parquet", *IPC)
# Texts that stand for a missing value; the page says so.
MISSING = ("", "NA", "NaN", "nan", "N/A", "n/a", "NULL", "null", "None", "?")
# How a note begins that says what to type of a column whose values are hard to read.
DOUBT = "column "
# Records that judge, at least: with fewer nothing could be told.
FEWEST = 30
# What a column without a name is called.
UNNAMED = "unnamed column"
# Share of the table that is set aside where the releases are made here, or nobody said.
RESERVED = 0.3
# Share of rows that attacks compare with, where nothing else is left for them.
REFERENCE = 0.3


class Standing(Enum):
    """What is known of the records that judge: whether the releases may have seen them."""

    DRAWN_HERE = "set aside before anything was drawn"
    NOT_MADE_FROM = "not among the rows that the releases were made from"
    HELD_OUT = "held out from whoever made the releases"
    UNKNOWN = "which the releases may have seen"

    @property
    def unseen(self) -> bool:
        """Whether the releases can be judged on them; else figures only describe."""
        return self is not Standing.UNKNOWN


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialRows:
    """The rows that train and the rows that judge."""

    standing: Standing
    development: pd.DataFrame
    """What the source is trained on: of known releases, what they were made from."""
    target: pd.DataFrame
    """What judges."""
    reference: pd.DataFrame | None = None
    """What attacks compare with; nothing was made from it."""
    notes: tuple[str, ...] = ()
    """Which rows were left out, and what the user vouches for."""

    @property
    def beside(self) -> list[pd.DataFrame]:
        """The rows of the table that were set aside; of an id, those that train lack numbers."""
        aside = (self.target, self.reference) if self.standing is not Standing.HELD_OUT else ()
        return [rows for rows in aside if rows is not None]


def read_source(source: object, what: str, notes: list[str] | None = None) -> pd.DataFrame:
    """Return a table in whatever form it is given.

    Parameters
    ----------
    source
        A path, a frame of pandas or polars, or an Arrow table.
    what
        What an error calls it.
    notes
        Told how the file was read, where that is not plain.

    Raises
    ------
    TableError
        It is none of these, cannot be read, or has no rows.
    """
    if isinstance(source, str | Path):
        _refuse_no_table(Path(source))
        raw = RawTable(Path(source), TableReading(), own_separator=True)
        frame = raw.take()
        if raw.recoded and notes is not None:
            notes.append(recoded_note(Path(source).name))
    else:
        # As a file of it would be read: dates, and truth values with gaps, are text.
        given = as_frame(source, what)
        check_names(given, what)
        frame = to_frame(to_arrow(given), what)
    if len(frame) == 0:
        raise TableError(f"{what} has no rows")
    # What the index of a DataFrame becomes in a CSV; nobody could declare a column without a name.
    unnamed = [name for name in frame.columns if not str(name).strip()]
    return frame.rename(columns=dict.fromkeys(unnamed, UNNAMED)) if len(unnamed) == 1 else frame


# Endings of files that are no tables here, though text among them would be read as one column.
OTHERS = (".json", ".xlsx", ".xls", ".ods", ".sav", ".dta", ".sas7bdat", ".rds", ".rdata", ".pkl",
          ".pickle", ".zip", ".html", ".xml", ".pdf", ".db", ".sqlite", ".npy", ".npz", ".toml",
          ".py", ".ipynb")  # fmt: skip


def csv_bytes(frame: pd.DataFrame, separator: str) -> bytes:
    """Return a table as CSV, which reads as the very table.

    Raises
    ------
    TableError
        It has values that no line of CSV has.
    """
    texts = {str(name): as_texts(frame[name]) for name in frame.columns}
    text = StringIO()
    writer = csv.writer(text, delimiter=separator, lineterminator="\n")
    writer.writerow(texts)
    writer.writerows(zip(*texts.values(), strict=True))
    content = text.getvalue().encode()
    raw = RawTable(Path("fresh.csv"), TableReading(separator=separator), content)
    again = raw.take()
    for name, values in texts.items():
        if len(again) != len(frame) or list(again[name]) != [str(t).strip() for t in values]:
            raise TableError(
                f"rows of {name!r} cannot be kept as CSV: a value has a line break or a quotation "
                "mark in it; leave the column out of the table, or give the rows as a holdout"
            )
    return content


def _refuse_no_table(path: Path) -> None:
    if path.is_dir():
        raise TableError(f"{path} is a folder, expected a table; name a file")
    if path.suffix.lower() in OTHERS and path.exists():
        raise TableError(
            f"{path.name} is no table that is read here, expected is one of {', '.join(SUFFIXES)}; "
            "save it as CSV or Parquet"
        )


def readable_columns(
    tables: Sequence[pd.DataFrame], declared: DeclaredColumns, outcome: str | None = None
) -> tuple[dict[str, ColumnPart], list[str], dict[str, str]]:
    """Return how columns are read that hold numbers or dates as text, and what to say of it.

    Last come the lines of ``[columns]`` that read the others so, by their names: here, because one
    that names not every text which is no number, of whatever rows, would be refused.

    Parameters
    ----------
    tables
        All real rows there are: what stands for a missing value may be in some of them alone.
    declared
        What the user says of columns, which nothing is guessed of.
    outcome
        What is predicted: labels that differ in capital letters alone are taken as one.
    """
    import pandas as pd

    rows = pd.concat([as_text_columns(table) for table in tables], ignore_index=True)
    settled = {name for name, part in declared.items() if part.kind is not None}
    rows = rows.drop(columns=[name for name in rows.columns if name in settled])
    kinds = kinds_of(rows, MISSING, [], declared)
    kinds = {name: kind for name, kind in kinds.items() if kind == "text"}
    both = profile_of(typed(rows, kinds, MISSING, declared), declared)
    lines = {c.name: c.otherwise for c in both.columns if c.kind in ("number", "date") or c.among}
    profile = replace(both, columns=tuple(c for c in both.columns if c.name not in declared))
    read = {c.name: c.proposed for c in profile.columns if c.kind in ("number", "date")}
    proposed = {name: part for name, part in read.items() if part is not None}
    # Gaps are told with what is proposed; what else there is to say is a doubt.
    notes = [
        c.warning.replace(f"write under [columns]: {c.otherwise}", f"--column {quote(c.otherwise)}")
        for c in profile.columns
        if (c.name in read or c.among or c.units)
        and c.warning
        and not ((c.gaps or c.units) and c.name in proposed)
    ]
    if proposed:
        told = "; ".join(
            f"{c.name} like {c.like}"
            + (f", {c.unmarked:.1%} of them without {c.units[0]}" if c.unmarked else "")
            + (f", with {' or '.join(map(toml, c.gaps))} for a missing value" if c.gaps else "")
            for c in profile.columns
            if c.name in proposed
        )
        line = f'{toml_key(next(iter(proposed)))} = {{ kind = "category" }}'
        notes.insert(0, f"read as numbers or dates, though text: {told}; --column '{line}' says "
                        "otherwise")  # fmt: skip
    alike = {c.name: c for c in profile.columns if c.alike and c.kind == "category"}
    if (
        outcome in alike
        and len({*map(fold, without_outcome(rows, outcome, declared)[outcome])}) > 1
    ):
        spelt = alike.pop(outcome).alike
        proposed[outcome] = ColumnPart(fold_case=True)
        notes.append(
            f"{outcome!r} is written {some(list(map(repr, spelt)), 6)}: capital letters are not "
            f"told apart, here and in the audit that follows (fold_case); --column "
            f"'{toml_key(outcome)} = {{ kind = \"category\" }}' keeps them apart"
        )
    if alike:
        name = next(iter(alike))
        notes.append(
            f"values that differ in capital letters alone count as different in {', '.join(alike)};"
            f" --column '{toml_key(name)} = {{ fold_case = true }}' takes them as one"
        )
    lines = {name: line for name, line in lines.items() if name not in proposed}
    return {**declared, **proposed}, notes, lines


def as_text_columns(table: pd.DataFrame) -> pd.DataFrame:
    """Return the columns of a table that are no numbers by their type."""
    return table[[name for name in table.columns if not is_number(table[name])]]


def read_as(table: pd.DataFrame, columns: DeclaredColumns) -> pd.DataFrame:
    """Return a table whose columns of numbers and dates in text are numbers.

    Raises
    ------
    UnreadValue
        A value of them is none.
    """
    kinds = {
        name: "number"
        for name, part in columns.items()
        if part.holds == "number" and name in table.columns
    }
    alike = [name for name, part in columns.items() if part.fold_case or part.same]
    alike = [name for name in alike if name in table.columns and name not in kinds]
    kinds |= kinds_of(table[alike], MISSING, [], columns)
    return table.assign(**typed(table, kinds, MISSING, columns)) if kinds else table


@dataclass(frozen=True, slots=True, kw_only=True)
class UnreadNumbers:
    """Values of one column of a release that are no numbers as the column is read."""

    count: int
    of: int
    """How many values the column has in this release."""
    like: str
    """One of them, as it is written."""

    @property
    def most(self) -> bool:
        """Whether these are most of what the column has."""
        return 2 * self.count > self.of


def without_unread(
    release: pd.DataFrame, kinds: Mapping[str, str], columns: DeclaredColumns
) -> tuple[pd.DataFrame, dict[str, UnreadNumbers]]:
    """Return a release whose unreadable numbers are missing, and which columns have such ones.

    What is a number is decided as an audit decides it, which refuses a release that has another.

    Parameters
    ----------
    release
        The release.
    kinds
        What each column that is used holds, "number" or "text".
    columns
        How columns are read that hold numbers or dates as text.
    """
    found: dict[str, UnreadNumbers] = {}
    read: dict[str, pd.Series[float]] = {}
    for name, kind in kinds.items():
        if kind != "number" or name not in release or is_number(release[name]):
            continue
        part = columns.get(name)
        read[name], unread = numbers_in(release[name], MISSING, part, release=True)
        if unread.any():
            known = have_value(release[name], (*MISSING, *(part.missing if part else ())))
            found[name] = UnreadNumbers(
                count=int(unread.sum()), of=int(known.sum()),
                like=as_text(release[name].iloc[int(np.argmax(unread))]),
            )  # fmt: skip
    return release.assign(**read), found


def named_sources(releases: object) -> dict[str, object]:
    """Return the releases by name: of a folder, a file, a table, or several of these.

    Raises
    ------
    RegistryError
        There is none, or two have one name.
    """
    if isinstance(releases, str | Path):
        path = Path(releases)
        if not path.is_dir():
            return {path.name: path}
        files = sorted(
            p for p in path.iterdir() if p.is_file() and p.name.lower().endswith(SUFFIXES)
        )
        if not files:
            raise RegistryError(
                f"{path} has no file that could be a release; expected are names that end in "
                f"{', '.join(SUFFIXES)}"
            )
        return {file.name: file for file in files}
    if isinstance(releases, Mapping):
        return {str(name): source for name, source in releases.items()}
    if isinstance(releases, list | tuple):
        names = [
            Path(source).name if isinstance(source, str | Path) else f"release {k}"
            for k, source in enumerate(releases, start=1)
        ]
        if len(set(names)) < len(names):  # r/1.csv and s/1.csv
            names = [f"{k}: {name}" for k, name in enumerate(names, start=1)]
        return dict(zip(names, releases, strict=True))
    return {"release": releases}


def read_releases(
    sources: Mapping[str, object],
    advance: Callable[[int], None],
    notes: list[str],
    problems: list[str],
) -> Iterator[tuple[str, pd.DataFrame]]:
    """Yield every release by name; all that cannot be read are told at once.

    Parameters
    ----------
    sources
        The releases by name.
    advance
        Told how many were read.
    notes
        Told how files were read, where that is not plain.
    problems
        What else is wrong with releases, which whoever takes them adds to.

    Raises
    ------
    TableError
        Some cannot be read.
    """
    other = list[str]()
    for done, (name, source) in enumerate(sources.items(), start=1):
        try:
            recoded: list[str] = []
            yield name, read_source(source, name, recoded)
            other += [name] if recoded else []
        except ProxyGuardError as error:
            problems.append(str(error))
        advance(done)
    if problems:
        raise TableError(
            f"{len(problems)} of {len(sources)} releases cannot be used as they are; mend them or "
            "move them away:\n" + "\n".join(f"  {line}" for line in problems)
        )
    if other:
        more = f" (and {len(other) - 1:,} more of the releases)" if other[1:] else ""
        notes.append(recoded_note(other[0] + more))


def without_outcome(
    frame: pd.DataFrame, outcome: str | None, columns: DeclaredColumns
) -> pd.DataFrame:
    """Return the rows that have an outcome: the others can neither teach nor judge."""
    if outcome is None:
        return frame
    gaps = columns[outcome].missing if outcome in columns else ()
    return _rows(frame, have_value(frame[outcome], (*MISSING, *gaps)))


def apart(
    real: pd.DataFrame,
    *,
    made_from: pd.DataFrame | None = None,
    holdout: pd.DataFrame | None = None,
    drawn_here: bool = False,
    seed: int = 0,
) -> TrialRows:
    """Return which rows train and which judge.

    Parameters
    ----------
    real
        The real table.
    made_from
        The rows that the releases were made from.
    holdout
        Rows that whoever made the releases never saw.
    drawn_here
        Whether the releases are drawn here, from the rows that train alone.
    seed
        Of the rows that are set aside, where nothing else says which.

    Raises
    ------
    RegistryError
        A generator is given rows that it was made from.
    TableError
        Too few rows are left, the tables have no column in common, or the rows that the releases
        were made from are among those that they never saw.
    """
    if drawn_here and made_from is not None:
        raise RegistryError(
            "made-from is for releases that were made elsewhere; a generator is given the rows "
            "that are not set aside: leave made-from out"
        )
    if made_from is not None and holdout is not None:
        return _between(real, made_from, holdout)
    if made_from is not None:
        return _rest(real, made_from)
    if holdout is not None:
        return _held_out(real, holdout, drawn_here)
    standing = Standing.DRAWN_HERE if drawn_here else Standing.UNKNOWN
    judging = round(RESERVED * len(real))
    _enough(judging, f"the table has {len(real):,} rows, of which {RESERVED:.0%} are set aside")
    mask = np.zeros(len(real), dtype=bool)
    mask[np.random.default_rng(seed).permutation(len(real))[:judging]] = True
    note = f"{judging:,} of {len(real):,} rows of the table, chosen at random, judge"
    if drawn_here:
        note += "; the generator was given the others alone"
    return TrialRows(
        standing=standing, development=_rows(real, ~mask), target=_rows(real, mask), notes=(note,)
    )


def _rest(real: pd.DataFrame, made_from: pd.DataFrame) -> TrialRows:
    there = in_common(real, made_from)
    taken, left = int(there.sum()), int((~there).sum())
    _enough(left, f"{taken:,} of {len(real):,} rows of the table are among those made from")
    notes = [
        f"{taken:,} of {len(real):,} rows of the table equal rows that the releases were made from "
        f"and were taken out; the other {left:,} judge"
    ]
    strange = len(made_from) - taken
    if not taken:
        raise TableError(
            f"none of the {len(made_from):,} rows made from is in the table as it is written: "
            "where they are other records, all of the table may judge, which the table as the "
            "holdout says (--holdout TABLE beside --made-from); where they are the same "
            "records, write both alike (dates, decimals, capitals, gaps)"
        )
    if strange:  # one that is written otherwise would judge the very releases made from it
        raise TableError(
            f"{strange:,} of {len(made_from):,} rows made from are not in the table as they are "
            "written, so nobody can say which rows of the table were not made from: write both "
            "alike (dates, decimals, capitals, gaps), or give rows that the maker never saw as the "
            "holdout"
        )
    return TrialRows(
        standing=Standing.NOT_MADE_FROM,
        development=made_from,
        target=_rows(real, ~there),
        notes=tuple(notes),
    )


def _held_out(real: pd.DataFrame, holdout: pd.DataFrame, drawn_here: bool) -> TrialRows:
    _enough(len(holdout), "the holdout")
    maker = "the generator was given none of them" if drawn_here else (
        "that whoever made the releases saw none of them is your word"
    )  # fmt: skip
    notes = [f"the {len(holdout):,} rows of the holdout judge; {maker}"]
    there = in_common(real, holdout)
    shared, met = int(there.sum()), _met(real, holdout)
    # What is left of a table without some of its look-alikes is no sample any more: a source that
    # learned from that would be poor, and any release as good as it.
    if met and shared < len(holdout):
        raise TableError(
            f"{shared:,} of {len(holdout):,} rows of the holdout are in the table too, more than "
            "coincidence explains, and the others are not: give the table without them, or a "
            "holdout that is apart from it"
        )
    if shared == len(holdout) and drawn_here and not met:
        raise TableError(
            "every row of the holdout equals a row of the table, and in a table as coarse as this "
            "that tells nothing: give the table without the rows of the holdout"
        )
    if met:
        notes.append(
            f"{shared:,} rows of the table are those of the holdout and were left out of what the "
            "source is trained on"
        )
        real = _rows(real, ~there)
        _enough(len(real), "the table without the rows of the holdout")
    standing = Standing.DRAWN_HERE if drawn_here else Standing.HELD_OUT
    return TrialRows(standing=standing, development=real, target=holdout, notes=tuple(notes))


def _between(real: pd.DataFrame, made_from: pd.DataFrame, holdout: pd.DataFrame) -> TrialRows:
    _enough(len(holdout), "the holdout")
    shared = int(in_common(made_from, holdout).sum())
    if _met(made_from, holdout):
        raise TableError(
            f"{shared:,} of {len(holdout):,} rows of the holdout are among the rows made from, "
            "more than coincidence explains; the holdout has to be rows that the releases never "
            "saw"
        )
    # Neither seen by the releases nor judging: what attacks may compare with.
    rest = _rows(real, ~in_common(real, made_from))
    rest = _rows(rest, ~in_common(rest, holdout))
    return TrialRows(
        standing=Standing.HELD_OUT,
        development=made_from,
        target=holdout,
        reference=rest,
        notes=(
            f"the {len(holdout):,} rows of the holdout judge, and the source is trained on the "
            f"{len(made_from):,} rows made from; that the releases saw these and none of the "
            "others is your word",
        ),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptRows:
    """Rows that were set aside for an audit, and what is left of the tables without them."""

    fresh: pd.DataFrame
    table: pd.DataFrame
    holdout: pd.DataFrame | None
    from_table: bool
    """Whether the table had them, so that an audit must learn from what is left of it."""


def set_aside(
    count: int,
    table: pd.DataFrame,
    made_from: pd.DataFrame | None,
    holdout: pd.DataFrame | None,
    *,
    columns: DeclaredColumns,
    drawn_here: bool,
    seed: int,
) -> KeptRows:
    """Set rows aside that a trial does not look at and an audit may judge by.

    They come from the rows that may judge: the holdout where there is one, else the rows of the
    table that nothing was made from. Of no row but its being one of these anything is asked.

    Raises
    ------
    RegistryError
        Nobody said which rows the releases were made from.
    TableError
        Fewer rows may judge.
    """
    if not drawn_here and made_from is None and holdout is None:
        raise RegistryError(
            "keep sets rows aside that the releases were not made from, and nobody said which "
            "those are: give --made-from or --holdout, or a generator in place of releases"
        )
    part = table if holdout is None else holdout
    free = np.ones(len(part), dtype=bool)
    tables = [frame for frame in (table, made_from, holdout) if frame is not None]
    declared, *_ = readable_columns(tables, columns)
    read = [read_as(frame, declared) for frame in tables]
    if holdout is None and made_from is not None:
        free = ~in_common(read[0], read[1])
    most = max(0, int(free.sum()) - FEWEST)
    if count > most:
        raise TableError(
            f"keep is {count:,}, and of {int(free.sum()):,} rows that may judge at most {most:,} "
            f"can be kept: the trial needs {FEWEST} itself"
        )
    rng = np.random.default_rng([seed, 1])  # not the stream that takes the trial's own rows apart
    mask = np.zeros(len(part), dtype=bool)
    mask[rng.choice(np.flatnonzero(free), size=count, replace=False)] = True
    if holdout is None:
        return KeptRows(
            fresh=_rows(table, mask), table=_rows(table, ~mask), holdout=None,
            from_table=made_from is None,
        )  # fmt: skip
    met = _met(read[0], read[-1])
    if met:  # the holdout is a part of the table, which would teach what it is judged by
        table = _rows(table, ~in_common(read[0], _rows(read[-1], mask)))
    return KeptRows(
        fresh=_rows(holdout, mask), table=table, holdout=_rows(holdout, ~mask),
        from_table=met and made_from is None,
    )  # fmt: skip


def in_common(frame: pd.DataFrame, other: pd.DataFrame) -> NDArray[np.bool_]:
    """Return which rows of a table are in another one too, each paired with one row there.

    Numbers are compared by value, in the columns that both have.
    """
    names = [name for name in frame.columns if name in set(other.columns)]
    if not names:
        raise TableError(
            f"the tables have no column in common: {list(frame.columns)[:8]} and "
            f"{list(other.columns)[:8]}"
        )
    prints, others = fingerprints(frame[names], OPEN), fingerprints(other[names], OPEN)
    # The second of two equal rows is another record than the first: it takes a second one there.
    numbers = [identify(p, names)[1] for p in (prints, others)]
    _, codes = np.unique(np.concatenate([prints, others]), return_inverse=True)
    most = max(len(frame), len(other)) + 1
    pairs = codes.astype(np.int64) * most + np.concatenate(numbers)
    return np.isin(pairs[: len(frame)], pairs[len(frame) :])


def _met(frame: pd.DataFrame, other: pd.DataFrame) -> bool:
    """Return whether two tables share more records than coincidence explains."""
    names = [name for name in frame.columns if name in set(other.columns)]
    # Which views agree hangs on the key where they are thinned, and a trial repeats by its seed.
    views = [TablePrints(table[names], OPEN).records().views for table in (frame, other)]
    return meet(views[0], views[1]).excess


def _rows(frame: pd.DataFrame, mask: NDArray[np.bool_]) -> pd.DataFrame:
    return frame[mask].reset_index(drop=True)


def _enough(rows: int, what: str) -> None:
    if rows < FEWEST:
        raise TableError(f"{what}: {rows:,} rows would be left, and at least {FEWEST} are needed")


_LACKING = {
    Standing.UNKNOWN: "nobody said which rows the releases were made from",
    Standing.HELD_OUT: "a holdout is known, and not which rows the releases were made from",
}


def with_reference(rows: TrialRows, seed: int) -> TrialRows:
    """Return rows of which some are what attacks compare with; nothing was made from them."""
    rng = np.random.default_rng(seed)
    if rows.standing is Standing.DRAWN_HERE:
        first = rng.permutation(len(rows.development)) < round(REFERENCE * len(rows.development))
        note = (
            f"exposure takes {int(first.sum()):,} of {len(first):,} rows that train for its "
            f"attacks to compare with; the generator is given the other {int((~first).sum()):,}"
        )
        return replace(
            rows,
            development=_rows(rows.development, ~first),
            reference=_rows(rows.development, first),
            notes=(*rows.notes, note),
        )
    if rows.reference is None and rows.standing is not Standing.NOT_MADE_FROM:
        raise RegistryError(
            "attacks ask whether members can be told from others, so both must be known: give "
            f"made-from, or a generator. Here {_LACKING[rows.standing]}; with less, "
            "members would be compared with members, and every leak would pass"
        )
    if rows.reference is not None and len(rows.reference) >= FEWEST:
        return rows
    # Table, made-from and holdout often leave nothing between them.
    first = rng.permutation(len(rows.target)) < round(REFERENCE * len(rows.target))
    _enough(int((~first).sum()), "what exposure leaves of the rows that judge")
    note = (
        f"exposure takes {int(first.sum()):,} of these {len(first):,} rows for its attacks to "
        f"compare with, so {int((~first).sum()):,} judge"
    )
    return replace(
        rows,
        target=_rows(rows.target, ~first),
        reference=_rows(rows.target, first),
        notes=(*rows.notes, note),
    )
