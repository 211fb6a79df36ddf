"""What a column holds: numbers or text, whatever types its values came in.

A frame may come from a file, from a generator of somebody else, or from a caller of the library.
`kinds_of` learns from the development part which columns hold numbers, and `typed` reads every
other table of the audit by that: target, releases and records that verify is given. Nothing is
read or written here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import date, time, timedelta
from decimal import Decimal, InvalidOperation
from math import inf
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from numpy.typing import NDArray

from proxyguard.errors import TableError, UnreadValue
from proxyguard.printable import toml_key
from proxyguard.registry.numbers import canonical_value, fold
from proxyguard.registry.target import ColumnPart, DeclaredColumns
from proxyguard.tables.notation import ISO, Notation

if TYPE_CHECKING:
    import pandas as pd

# A column that may hold anything; what it may hold here are numbers and text.
Series: TypeAlias = "pd.Series[str | float]"

# What stands in a column as it is; dates and times of day stand there as their text.
PLAIN = (str, bool, np.bool_, int, np.integer, float, np.floating, Decimal)
# The kinds of types, as numpy names them, whose columns hold numbers.
NUMBERS = "fiub"
# What to make of the values that no column may hold.
CONVERT = {
    "complex": "its real and its imaginary part, two columns of numbers",
    "Timedelta": "a number, such as its seconds (.dt.total_seconds())",
    "Period": "text (.astype(str)) or the date at which it starts (.dt.to_timestamp())",
    "Interval": "text (.astype(str)) or its two ends, two columns of numbers",
    "bytes": "text, by decoding them",
}


def typed(
    frame: pd.DataFrame,
    kinds: Mapping[str, str],
    missing: Sequence[str],
    columns: DeclaredColumns | None = None,
    *,
    release: bool = False,
) -> pd.DataFrame:
    """Return the columns that are asked for, with numbers as doubles and the rest as text.

    Parameters
    ----------
    frame
        The records, in whatever types they came.
    kinds
        Which columns to return, and whether each holds a "number" or "text".
    missing
        Texts that stand for a missing value.
    columns
        How columns are declared to be read, where that is not seen from their values.
    release
        Whether it is a release, which other software than the table's may have written: its plain
        numbers, and dates from the year down, are read where the table's are declared otherwise.

    Returns
    -------
    pd.DataFrame
        These columns in this order, and no others.

    Raises
    ------
    TableError
        A column is missing, two have one name, or a value is of another kind.

    Examples
    --------
    >>> import pandas as pd
    >>> records = pd.DataFrame({"age": ["41", "?"], "sex": ["f", "m"], "id": [1, 2]})
    >>> typed(records, {"sex": "text", "age": "number"}, missing=["?"])
      sex   age
    0   f  41.0
    1   m   NaN
    """
    import pandas as pd

    read: dict[str, Series | pd.Series[float] | NDArray[np.float64]] = {}
    unread: list[UnreadValue] = []
    check_names(frame)
    declared = columns or {}
    doubles = doubles_in(frame)
    there = set(frame.columns)
    for name, kind in kinds.items():
        if name not in there:
            raise TableError(f"column {name!r} is missing; the records have {list(frame.columns)}")
        if name in doubles and kind == "number" and name not in declared:
            read[name] = doubles[name]
        else:
            part = declared.get(name, ColumnPart())
            try:
                read[name] = (
                    _texts(frame[name], part, missing)
                    if kind == "text"
                    else _numbers(frame[name], missing, part, release)
                )
            except UnreadValue as error:  # all columns are told at once
                unread.append(error)
    if unread:
        raise unread[0].within(others=unread[1:])
    # Without columns there are no records, however many rows the frame has.
    return pd.DataFrame(read, index=frame.index if read else None)


def have_value(values: Series | NDArray[np.object_], missing: Iterable[str]) -> NDArray[np.bool_]:
    """Return which values are none of the texts that stand for a missing one.

    Examples
    --------
    >>> import pandas as pd
    >>> have_value(pd.Series(["yes", "", " NA", None]), ["NA"]).tolist()
    [True, False, False, False]
    """
    import pandas as pd

    codes, distinct = pd.factorize(np.asarray(values, dtype=object), use_na_sentinel=False)
    lost = {"", *map(canonical_value, missing)}
    known = np.array([canonical_value(as_text(text)) not in lost for text in distinct], dtype=bool)
    return np.asarray(known[codes])


def coded(
    values: Series | NDArray[np.object_], number: Callable[[object], int]
) -> NDArray[np.int64]:
    """Return the number of each value, each different one asked for it once.

    Examples
    --------
    >>> import pandas as pd
    >>> coded(pd.Series(["no", "yes", "no"]), ["yes", "no"].index).tolist()
    [1, 0, 1]
    """
    import pandas as pd

    places, distinct = pd.factorize(values, use_na_sentinel=False)
    return np.array([number(value) for value in distinct], dtype=np.int64)[np.asarray(places)]


def _texts(values: Series, part: ColumnPart, missing: Sequence[str]) -> Series:
    """Return a column as texts, with the empty one where a text declared for it is a gap."""
    # What the whole table calls missing is a value here, which a share may ask for: "NA" is a
    # country. An outcome that is missing is known by it, so that it has one spelling when folded.
    texts = read_alike(as_texts(values), part)
    if not part.fold_case:
        return texts.where(~texts.isin(list(part.missing)), "")
    spelt = {fold(gap): gap for gap in missing} | {fold(gap): "" for gap in part.missing}
    return texts.map(lambda text: spelt.get(text, text))


def read_alike(texts: Series, part: ColumnPart) -> Series:
    """Return texts with those that are declared to be one value as that value.

    Parameters
    ----------
    texts
        A column as `as_texts` returns it.
    part
        How it is declared to be read: ``fold_case`` and ``same``.
    """
    if part.fold_case:
        texts = texts.map(fold)
    if part.same:
        texts = texts.map(lambda text: part.same.get(text.strip(), text))
    return texts


def read_as_declared(labels: NDArray[np.object_], part: ColumnPart) -> NDArray[np.object_]:
    """Return texts of a file as they are declared to be read.

    >>> part = ColumnPart(same={"J": "Ja"})
    >>> read_as_declared(np.array(["J", "Ja "], dtype=object), part).tolist()
    ['Ja', 'Ja ']
    """
    import pandas as pd

    return read_alike(pd.Series(labels, dtype=object), part).to_numpy(dtype=object)


def _numbers(
    values: Series, missing: Sequence[str], part: ColumnPart, release: bool
) -> pd.Series[float]:
    """Return a column as doubles, its texts read as it is declared."""
    numbers, unread = numbers_in(values, missing, part, release=release)
    if unread.any():
        place = int(np.argmax(unread))
        row = _row(values, place)
        holds, remedy = _how_read(str(values.name), notation_of(part))
        raise UnreadValue(
            str(values.name), row if isinstance(row, int) else place, holds, remedy,
            release=release, more=int(unread.sum()) - 1,
        )  # fmt: skip
    return numbers


def numbers_in(
    values: Series, missing: Sequence[str], part: ColumnPart | None = None, *, release: bool
) -> tuple[pd.Series[float], NDArray[np.bool_]]:
    """Return a column as doubles, and which of its values can be read as no number.

    An audit refuses a table that has one of these; a trial takes them for missing.

    Parameters
    ----------
    values
        The column, of any type that a column may have.
    missing
        Texts that stand for a missing value.
    part
        How it is declared to be read.
    release
        Whether it is that of a release; see `typed`.
    """
    part = part or ColumnPart()
    notation, unread = notation_of(part), np.zeros(len(values), dtype=bool)
    if is_number(values):
        numbers = _doubles(values)
        # In a column of numbers a text is a number too: "0" that is declared to be 0.5.
        texts, others = (
            (notation or Notation()).numbers([*t]) for t in (part.same, part.same.values())
        )
        for text, other in zip(texts, others, strict=True):
            numbers = numbers.where(numbers != text, other)
    else:
        values = read_alike(as_texts(values), part) if part.same else held(values)
        blank = _is_blank(values, [*missing, *part.missing])
        if notation is None:
            numbers = _read_numbers(values.where(~blank, "nan"))
        else:
            numbers = _in_notation(as_texts(values).where(~blank, ""), notation, release)
        unread = numbers.isna().to_numpy() & ~blank.to_numpy()
    if part.missing:
        # A gap that is written as a number, such as -99, stands so in a column of numbers too.
        written = (notation or Notation()).numbers(list(part.missing))
        numbers = numbers.where(~numbers.isin(written[~np.isnan(written)].tolist()))
    return numbers, unread


def _in_notation(texts: Series, notation: Notation, release: bool) -> pd.Series[float]:
    """Return the number of each text in a notation, each different one read once.

    A column of plain numbers or dates is read as such in a release, its dates also as the days
    that development files hold, and dates in the table, whose column of dates by its type has such
    texts: but only where more of it is plain, and where no text of it means another number in the
    declared notation, so that nothing is guessed.
    """
    import pandas as pd

    codes, distinct = pd.factorize(texts.to_numpy(dtype=object))
    known = notation.numbers(list(distinct))
    others = [Notation(date=ISO)] if notation.date else []
    for other in [*others, Notation(unit=notation.unit)] if release else others:
        unread, plain = np.isnan(known), other.numbers(list(distinct))
        both = ~unread & ~np.isnan(plain)
        if np.isnan(plain).sum() < unread.sum() and (known[both] == plain[both]).all():
            known = plain
    return pd.Series(known[codes], index=texts.index, name=texts.name, dtype=np.float64)


def _how_read(name: str, notation: Notation | None) -> tuple[str, str]:
    """Return what a column holds, and what to do about a value that is none of it."""
    key = toml_key(name)
    if notation is not None:
        return f"is declared to hold {notation}", (
            f"mend it, or change columns.{key} in audit.toml: its notation, texts that stand for a "
            'missing value, missing = ["..."], or kind = "category"'
        )
    return "holds numbers", (
        f"mend it, or write in audit.toml, under [columns], {key} = "
        '{ missing = ["..."] } for texts that stand for a missing value, '
        '{ kind = "number", thousands = "," } for another notation, or { kind = "category" }'
    )


def notation_of(part: ColumnPart) -> Notation | None:
    """Return how a declared column writes its numbers or dates, if it says so."""
    if part.kind == "date":
        return Notation(date=part.format or ISO)
    if part.thousands is None and part.decimal is None and part.unit is None:
        return None
    return Notation(
        thousands=part.thousands or "", decimal=part.decimal or ".", unit=part.unit or ""
    )


def with_dates(frame: pd.DataFrame, columns: DeclaredColumns) -> pd.DataFrame:
    """Return a table whose columns of declared dates are datetimes, as code of others has them.

    Parameters
    ----------
    frame
        Records as `typed` returns them: dates are days since 1970-01-01.
    columns
        How columns are declared to be read; a time of day alone stays a number.

    Examples
    --------
    >>> import pandas as pd
    >>> days = pd.DataFrame({"day": [19753.5, None]})
    >>> with_dates(days, {"day": ColumnPart(kind="date")})["day"].tolist()
    [Timestamp('2024-01-31 12:00:00'), NaT]
    """
    import pandas as pd

    read: dict[str, pd.Series[pd.Timestamp]] = {}
    for name, part in columns.items():
        notation = notation_of(part) or Notation()
        if name not in frame or not notation.has_days:
            continue
        days = frame[name].to_numpy(dtype=np.float64)
        # To microseconds: a double that counts days is nearer than that, so that the moment which a
        # table wrote comes back, and a copied row is a copy.
        steps = np.full(len(days), np.datetime64("NaT"), dtype="datetime64[us]")
        steps[np.isfinite(days)] = np.round(days[np.isfinite(days)] * 86_400e6).astype(np.int64)
        times = pd.Series(steps, index=frame.index)
        # Nanoseconds, where a year has them: most packages take the number of a date for these.
        inside = times.dropna().between(pd.Timestamp.min, pd.Timestamp.max).all()
        read[name] = times.astype("datetime64[ns]") if inside else times
    return frame.assign(**read)


def row_name(values: object, place: int) -> str:
    """Return what a message calls a row: its number from 1, as far as its table knows it.

    The row and never the value: whoever reads the message may not be one who may read that.
    """
    row = _row(values, place)
    return f"row {row + 1 if isinstance(row, int) else row}"


def _row(values: object, place: int) -> object:
    """Return the row of its table that a value stands in, from 0; of a named row its name."""
    label = getattr(values, "index", range(place + 1))
    known = label[place] if not callable(label) else place
    return int(known) if isinstance(known, int | np.integer) else known


def doubles_in(frame: pd.DataFrame) -> dict[str, NDArray[np.float64]]:
    """Return the columns that are doubles already, all taken out of the frame at once.

    To ask a frame for one column costs more than to look at all of its values, and most tables
    here have many columns and few records.
    """
    names = [
        name
        for name, kind in zip(frame.columns, frame.dtypes, strict=True)
        if isinstance(kind, np.dtype) and kind == np.float64
    ]
    return dict(zip(names, frame[names].to_numpy(dtype=np.float64).T, strict=True))


def kinds_of(
    frame: pd.DataFrame,
    missing: Sequence[str],
    text: Sequence[str],
    columns: DeclaredColumns | None = None,
) -> dict[str, str]:
    """Return whether each column holds numbers or text.

    Parameters
    ----------
    frame
        The development part: the target is never asked what its columns hold.
    missing
        Texts that stand for a missing value.
    text
        Columns that hold text by their role, such as labels, also where they read as numbers.
    columns
        How columns are declared to be read.

    Returns
    -------
    dict
        "number" or "text" by column, in the order of the table.

    Raises
    ------
    TableError
        Two columns have one name, or a column holds what no column may hold.

    Examples
    --------
    >>> import pandas as pd
    >>> records = pd.DataFrame({"age": ["41", "?"], "zip": ["10115", "04109"]})
    >>> kinds_of(records, missing=["?"], text=["zip"])
    {'age': 'number', 'zip': 'text'}
    """
    kinds: dict[str, str] = {}
    check_names(frame)
    for name, values in frame.items():
        part = (columns or {}).get(str(name), ColumnPart())
        if name in text or part.holds is not None:
            held(values)  # refuses what no column may hold
            kinds[str(name)] = "text" if name in text else part.holds or "text"
        elif is_number(values):
            kinds[str(name)] = "number"
        else:
            values = read_alike(as_texts(values), part) if part.same else held(values)
            numbers = _read_numbers(values[~_is_blank(values, [*missing, *part.missing])])
            kinds[str(name)] = "text" if bool(numbers.isna().any()) else "number"
    return kinds


def check_names(frame: pd.DataFrame, what: str = "the records") -> None:
    """Refuse columns that no one name leads to; ``what`` is how an error calls the table."""
    if frame.columns.nlevels > 1:
        raise TableError(
            f"the columns of {what} have names of {frame.columns.nlevels} levels, such as "
            f"{frame.columns[0]!r}; give each column one name, a text"
        )
    names = [str(name) for name in frame.columns]  # kinds are kept by the text: 1 is "1" there
    if len(set(names)) < len(names):
        twice = next(name for k, name in enumerate(names) if name in names[:k])
        raise TableError(f"{what} with two columns of one name: {twice!r}; rename one")


def _is_blank(values: Series, missing: Sequence[str]) -> pd.Series[bool]:
    """Return which values of a held column are missing, or stand for a missing one."""
    return values.isin(list(missing)) | values.isna()


def _read_numbers(values: Series) -> pd.Series[float]:
    """Return what a held column reads as; NaN where that is no number that a double holds."""
    import pandas as pd

    numbers = pd.to_numeric(values, errors="coerce").astype(np.float64)
    # Digits that read as infinite are a number too large, which is not what "inf" says.
    infinite = np.flatnonzero(np.isinf(numbers.to_numpy())).tolist()
    large = [k for k in infinite if any(sign.isdigit() for sign in str(values.iloc[k]))]
    numbers.iloc[large] = np.nan
    return numbers


def _doubles(values: Series) -> pd.Series[float]:
    """Return a column of numbers as doubles; one that becomes infinite by that is refused."""
    with np.errstate(over="ignore"):  # of numbers with more digits, which are refused below
        doubles = values.astype(np.float64)
    for k in np.flatnonzero(np.isinf(doubles.to_numpy())):
        number = values.iloc[k]
        if not isinstance(number, str) and _is_too_large(number):
            raise _too_large(values, int(k))
    return doubles


def is_number(values: Series) -> bool:
    """Return whether a column is one of numbers by its type; text that reads as numbers is not."""
    return values.dtype.kind in NUMBERS


def held(values: Series) -> Series:
    """Return a column as numbers, text and missing values, which is all that a column may hold.

    Dates and times are text. Of anything else pandas would make some number or text of its own:
    of a complex number its real part, of a month how many there were since 1970.

    Parameters
    ----------
    values
        A column of any type.

    Returns
    -------
    Series
        The column itself where its type says that it holds numbers or text, else objects.

    Raises
    ------
    TableError
        The column holds something else; the error says what, and what to convert it to.
    """
    import pandas as pd

    if is_number(values):
        return values
    if isinstance(values.dtype, pd.CategoricalDtype):
        labels = held(pd.Series(values.cat.categories.to_numpy(), name=values.name))
        coded = np.array([*labels, None], dtype=object)  # a code of -1 is a missing value
        return pd.Series(coded[values.cat.codes.to_numpy()], index=values.index, name=values.name)
    try:
        if pd.api.types.infer_dtype(values, skipna=True) == "string":
            return values
        objects = values.astype(object).where(values.notna(), None)
    except InvalidOperation:  # a signalling NaN, of which nobody may ask whether it is missing
        raise TableError(
            f"column {str(values.name)!r} holds a signalling NaN; a missing value is None or NaN"
        ) from None
    for k, item in enumerate(objects):
        if item is not None and not isinstance(item, (*PLAIN, date, time)):
            raise _not_held(values, k, item)
        if isinstance(item, int | Decimal | np.floating) and _is_too_large(item):
            raise _too_large(values, k)
    return objects.map(lambda item: as_text(item) if isinstance(item, date | time) else item)


def _is_too_large(number: float | Decimal | np.longdouble) -> bool:
    """Return whether a number is finite and the nearest double is not."""
    try:
        return float(number) in (inf, -inf) and number not in (inf, -inf)
    except OverflowError:
        return True


def _too_large(values: Series, place: int) -> TableError:
    return TableError(
        f"column {str(values.name)!r} holds a number that no double holds, in "
        f"{row_name(values, place)}; store it as text, or in another unit"
    )


def _not_held(values: Series, place: int, item: object) -> TableError:
    kind = type(item).__name__
    if isinstance(item, complex | np.complexfloating):
        kind = "complex"
    elif isinstance(item, timedelta):
        kind = "Timedelta"
    return TableError(
        f"column {str(values.name)!r} holds {kind} values, in {row_name(values, place)} first; a "
        "column may hold numbers, text, truth values, dates and times, and missing values: "
        f"convert it to {CONVERT.get(kind, 'numbers or text')}"
    )


def as_text(item: object) -> str:
    """Return a value as text; whole numbers read alike whether they were floats or not.

    Examples
    --------
    >>> [as_text(item) for item in (1, 1.0, 0.5, True, None, float("nan"))]
    ['1', '1', '0.5', 'True', '', '']
    """
    if item is None or item != item:  # NaN and NaT are no values
        return ""
    if isinstance(item, bool | np.bool_):
        return "True" if item else "False"
    if isinstance(item, float | np.floating):
        number = float(item)
        # From 2**53 on not every whole number is a double: its digits would promise too much.
        return str(int(number)) if number.is_integer() and abs(number) < 2**53 else repr(number)
    return str(item)


def as_labels(values: Iterable[object]) -> list[str]:
    """Return strata, clusters or outcomes as they are compared: by value, not by spelling.

    Examples
    --------
    >>> as_labels([1, 1.0, "01", "north ", None])
    ['1', '1', '1', 'north', '']
    """
    return [canonical_value(as_text(label)) for label in values]


def as_texts(values: Series) -> Series:
    """Return a column as plain text objects; what is text already is not looked at one by one.

    Raises
    ------
    TableError
        The column holds what no column may hold; see `held`.
    """
    import pandas as pd

    if isinstance(values.dtype, pd.CategoricalDtype):
        labels = held(pd.Series(values.cat.categories.to_numpy(), name=values.name))
        texts = np.array([*(as_text(label) for label in labels), ""], dtype=object)
        return pd.Series(texts[values.cat.codes.to_numpy()], index=values.index, dtype=object)
    # Numbers and truth values that are equal would read alike by any shortcut: "1" and "True".
    text = pd.api.types.infer_dtype(values, skipna=False) == "string"
    # Of plain objects it looked at every one; a type of text says nothing of missing ones.
    if text and (values.dtype == object or not values.isna().any()):
        return values.astype(object)
    values = held(values)
    if not isinstance(values.dtype, np.dtype):  # their missing value has no truth value
        values = values.astype(object).where(values.notna(), None)
    return values.map(as_text).astype(object)
