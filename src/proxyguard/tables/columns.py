"""What a column holds: numbers or text, whatever types its values came in."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, time, timedelta
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, Any

import numpy as np

from proxyguard.errors import TableError

if TYPE_CHECKING:
    import pandas as pd


def typed(frame: pd.DataFrame, kinds: dict[str, str], missing: Sequence[str]) -> pd.DataFrame:
    """Return a frame of text with its numbers as numbers; a value of another kind is an error."""
    import pandas as pd

    columns: dict[str, Any] = {}
    _check_names(frame)
    for name, kind in kinds.items():
        if name not in frame.columns:
            raise TableError(f"column {name!r} is missing; the records have {list(frame.columns)}")
        values = frame[name]
        if kind == "text":
            columns[name] = as_texts(values)
        elif is_number(values):
            columns[name] = values.astype(np.float64)
        else:
            values = held(values)
            blank = values.isin(list(missing)) | values.isna()
            numbers = pd.to_numeric(values.where(~blank, "nan"), errors="coerce")
            wrong = np.flatnonzero(numbers.isna().to_numpy() & ~blank.to_numpy())
            if wrong.size:
                raise TableError(
                    f"column {name!r} holds numbers, and row {wrong[0]} has "
                    f"{values.iloc[wrong[0]]!r}; mend it or list it in read.missing"
                )
            columns[name] = numbers.astype(np.float64)
    return pd.DataFrame(columns)


def _check_names(frame: pd.DataFrame) -> None:
    """Refuse columns that no one name leads to."""
    if frame.columns.nlevels > 1:
        raise TableError(
            f"the columns have names of {frame.columns.nlevels} levels, such as "
            f"{frame.columns[0]!r}; give each column one name, a text"
        )
    names = frame.columns.map(str)  # kinds are kept by the text: 1 and "1" are one name there
    if not names.is_unique:
        twice = names[names.duplicated()].tolist()
        raise TableError(f"the records have two columns of one name: {twice[0]!r}; rename one")


def kinds_of(frame: pd.DataFrame, missing: Sequence[str], text: Sequence[str]) -> dict[str, str]:
    """Return whether each column holds numbers or text; ``text`` names those that do by role."""
    import pandas as pd

    kinds = {}
    _check_names(frame)
    for name in frame.columns:
        if is_number(frame[name]) and name not in text:
            kinds[str(name)] = "number"
            continue
        values = held(frame[name])
        if name in text:
            kinds[str(name)] = "text"
        else:
            known = values[~(values.isin(list(missing)) | values.isna())]
            numbers = pd.to_numeric(known, errors="coerce")
            kinds[str(name)] = "text" if bool(numbers.isna().any()) else "number"
    return kinds


PLAIN = (str, bool, np.bool_, int, np.integer, float, np.floating, Decimal)
"""What stands in a column as it is; dates and times of day stand there as their text."""
BEYOND = 2**1024 - 2**970
"""The least whole number that rounds to no double."""
CONVERT = {
    "complex": "its real and its imaginary part, two columns of numbers",
    "Timedelta": "a number, such as its seconds (.dt.total_seconds())",
    "Period": "text (.astype(str)) or the date at which it starts (.dt.to_timestamp())",
    "Interval": "text (.astype(str)) or its two ends, two columns of numbers",
    "bytes": "text, by decoding them",
}
"""What to make of the values that no column may hold."""


def is_number(values: pd.Series[Any]) -> bool:
    """Return whether a column is one of numbers by its type; text that reads as numbers is not."""
    return values.dtype.kind in "fiub"


def held(values: pd.Series[Any]) -> pd.Series[Any]:
    """Return a column as numbers, text and missing values, which is all that a column may hold.

    Dates and times are text. Of anything else pandas would make some number or text of its own:
    of a complex number its real part, of a month how many there were since 1970.

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
        objects: pd.Series[Any] = values.astype(object).where(values.notna(), None)
    except InvalidOperation:  # a signalling NaN, of which nobody may ask whether it is missing
        raise TableError(
            f"column {str(values.name)!r} holds a signalling NaN, Decimal('sNaN'); a missing "
            "value is None or NaN"
        ) from None
    for value in objects:
        if value is not None and not isinstance(value, (*PLAIN, date, time)):
            raise _not_held(str(values.name), value)
        if isinstance(value, int) and abs(value) >= BEYOND:
            raise TableError(
                f"column {str(values.name)!r} holds a whole number of {value.bit_length():,} bits, "
                "which no double holds; store it as text, or in another unit"
            )
    return objects.map(lambda value: as_text(value) if isinstance(value, date | time) else value)


def _not_held(name: str, value: object) -> TableError:
    kind = type(value).__name__
    if isinstance(value, complex | np.complexfloating):
        kind = "complex"
    elif isinstance(value, timedelta):
        kind = "Timedelta"
    return TableError(
        f"column {name!r} holds {kind} values, such as {str(value)[:80]!r}; a column may hold "
        "numbers, text, truth values, dates and times, and missing values: convert it to "
        f"{CONVERT.get(kind, 'numbers or text')}"
    )


def as_text(value: object) -> str:
    """Return a value as text; whole numbers read alike whether they were floats or not."""
    if value is None or value != value:  # NaN and NaT are no values
        return ""
    if isinstance(value, bool | np.bool_):
        return "True" if value else "False"
    if isinstance(value, float | np.floating):
        number = float(value)
        return str(int(number)) if number.is_integer() and abs(number) < 2**53 else repr(number)
    return str(value)


def as_texts(values: pd.Series[Any]) -> pd.Series[Any]:
    """Return a column as plain text objects; what is text already is not looked at one by one."""
    import pandas as pd

    if isinstance(values.dtype, pd.CategoricalDtype):
        labels = held(pd.Series(values.cat.categories.to_numpy(), name=values.name))
        texts = np.array([*(as_text(label) for label in labels), ""], dtype=object)
        return pd.Series(texts[values.cat.codes.to_numpy()], index=values.index, dtype=object)
    # Numbers and truth values that are equal would read alike by any shortcut: "1" and "True".
    text = pd.api.types.infer_dtype(values, skipna=False) == "string"
    if text and not values.isna().any():
        return values.astype(object)
    values = held(values)
    if not isinstance(values.dtype, np.dtype):  # their missing value has no truth value
        values = values.astype(object).where(values.notna(), None)
    return values.map(as_text).astype(object)
