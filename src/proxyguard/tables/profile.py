"""What each column of a table is: its kind, gaps and range, what is done with it, what to write.

`profile_of` looks at records that were read by their kinds, of the development part or of a table
that nothing is sealed of; the target is never profiled. Nothing is changed by it: a column that
looks like an id is proposed for exclusion, in the words of `audit.toml`, and used until a person
says otherwise.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np

from proxyguard.exact.rounding import Array
from proxyguard.printable import some, toml, toml_key
from proxyguard.registry.numbers import fold
from proxyguard.registry.target import ColumnPart, DeclaredColumns, TableReading
from proxyguard.tables.columns import Series, kinds_of, typed
from proxyguard.tables.files import as_frame
from proxyguard.tables.notation import (
    ISO,
    KNOWN,
    Notation,
    beyond,
    in_unit,
    readings,
    reads_as_gap,
    units_of,
)

if TYPE_CHECKING:
    import pandas as pd


ColumnKind = Literal["number", "date", "category", "text", "id-like", "constant", "empty"]
# The role of the outcome, in words.
PREDICTED = "predicted"
# Records of which fewer tell nothing about ids.
FEW = 20
# An id is another one for at least this share of the records.
DISTINCT = 0.95
# Whole numbers of which a column has so many different ones may be codes.
CODES = 10
# A category of which more than this share is numbers holds numbers, most likely.
SOME = 0.5
# Texts among numbers that a line names as missing, at most.
MOST_GAPS = 40
# Texts with blanks are free text if they are longer on average, or all different.
LONG = 30
_CALLED_ID = re.compile(  # "id", "patient no", "PatientID" as "patNr", and "Patientnr"
    r"(^|[^A-Za-z]|(?<=[a-z])(?=[A-Z]))(?i:id|ids|key|uuid|guid|index|nr|no|number)$"
    r"|(?i:nr|nummer|(patient|person|subject|case|record|visit|customer|account)id)$"
)
# An index is called so, and a measure such as the body mass index: one that repeats is no id.
_INDEX = re.compile("index$", re.IGNORECASE)
# A number or code that repeats is a person's, and no measure, where so many values differ.
MOSTLY_DISTINCT = 0.5
# Whole numbers that were counted fill so much of their range; drawn ones repeat more by then.
COUNTED = 0.95
# A short form of a label is at most so long, and at most so frequent beside the whole.
SHORT, RARE = 3, 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnProfile:
    """One column, in plain words.

    Attributes
    ----------
    name
        The column.
    kind
        What it looks like, or what it is declared to be.
    missing
        The share of records without a value.
    levels
        How many different values it has.
    low, high
        The ends of a number's or a date's range, as text; nothing of other kinds.
    use
        What will be done with it.
    otherwise
        What to write under ``[columns]`` of ``audit.toml`` to have it otherwise.
    warning
        What its author should look at, with the line to type; nothing where all is plain.
    notation
        Of text in which every value reads as a number or a date but those of ``gaps``: an example
        of how they are written.
    gaps
        Texts in it that most likely stand for a missing value.
    alike
        Texts in it that differ from another one in small and capital letters alone.
    among
        Of a category most of whose texts are numbers: an example of how they are written.
    units
        What stands beside the amounts of a column of text, such as "$"; of several units the most
        frequent first, and the column stays text.
    unmarked
        The share of records whose number stands without the unit that others have.
    """

    name: str
    kind: ColumnKind
    missing: float
    levels: int
    low: str | None
    high: str | None
    use: str
    otherwise: str
    warning: str | None = None
    notation: str = ""
    gaps: tuple[str, ...] = ()
    alike: tuple[str, ...] = ()
    among: str = ""
    units: tuple[str, ...] = ()
    unmarked: float = 0.0

    @property
    def proposed(self) -> ColumnPart | None:
        """How to declare a column of text that reads as numbers or dates; nothing of others."""
        return _part(_known(self.notation, self.units), self.gaps) if self.notation else None

    @property
    def like(self) -> str:
        """An example of how its numbers or dates are written, with their unit."""
        return _like(self.notation, self.units)

    @property
    def range_words(self) -> str:
        """Its range, or how many values it has."""
        if self.low is not None and self.low != self.high:
            return f"{self.low} to {self.high}"
        return f"{self.levels:,} value{'' if self.levels == 1 else 's'}"


@dataclass(frozen=True, slots=True, kw_only=True)
class TableProfile:
    """The columns of some records, in the order of the table."""

    rows: int
    columns: tuple[ColumnProfile, ...]

    @property
    def warnings(self) -> list[str]:
        """What the author should look at."""
        return [column.warning for column in self.columns if column.warning is not None]

    def words(self) -> str:
        """Return how many columns of each kind there are, in one line."""
        kinds = [column.kind for column in self.columns]
        counts = ", ".join(f"{kinds.count(kind)} {kind}" for kind in dict.fromkeys(kinds))
        return f"{self.rows:,} records of {len(kinds)} columns: {counts}"

    def to_frame(self) -> pd.DataFrame:
        """Return one row a column."""
        import pandas as pd

        return pd.DataFrame([asdict(column) for column in self.columns])

    def to_dict(self) -> dict[str, object]:
        """Return plain values."""
        return {"rows": self.rows, "columns": [asdict(column) for column in self.columns]}


def profile_table(
    table: object,
    columns: DeclaredColumns | None = None,
    *,
    missing: Sequence[str] | None = None,
    roles: Mapping[str, str] | None = None,
) -> TableProfile:
    """Profile a table as it came, such as a file that was just read.

    Parameters
    ----------
    table
        A DataFrame of pandas or polars, or a table of Arrow, in whatever types.
    columns
        How columns are declared to be read.
    missing
        Texts that stand for a missing value; those of ``target.read`` unless told.
    roles
        What columns are that are no features, in words: {"ill": "is predicted"}.

    Examples
    --------
    >>> import pandas as pd
    >>> table = pd.DataFrame({"day": ["31.01.2024", "02.11.2023"], "ward": ["A", "B"]})
    >>> first, second = profile_table(table).columns
    >>> first.kind, first.low, first.high, first.otherwise
    ('date', '2023-11-02', '2024-01-31', 'day = { kind = "date", format = "%d.%m.%Y" }')
    >>> second.kind, second.range_words
    ('category', '2 values')
    """
    gaps = TableReading().missing if missing is None else missing
    frame = as_frame(table)
    kinds = kinds_of(frame, gaps, [], columns)
    return profile_of(typed(frame, kinds, gaps, columns), columns, roles=roles)


def profile_of(
    records: pd.DataFrame,
    columns: DeclaredColumns | None = None,
    *,
    roles: Mapping[str, str] | None = None,
) -> TableProfile:
    """Profile records whose columns were read as numbers and text.

    Parameters
    ----------
    records
        Records as `typed` returns them.
    columns
        How columns are declared to be read.
    roles
        What columns are that are no features, in words.
    """
    profiles = [
        _profile(records[name], (columns or {}).get(name), (roles or {}).get(name))
        for name in records.columns
    ]
    return TableProfile(rows=len(records), columns=tuple(profiles))


class _Facts(NamedTuple):
    """What is known of a column before anything is said about it."""

    kind: ColumnKind
    levels: int
    missing: float
    ends: tuple[float, float] | None = None
    notations: tuple[str, ...] = ()  # that read its texts as well as one another, the best first
    gaps: tuple[str, ...] = ()  # texts among these that most likely stand for a missing value
    gapped: float = 0.0  # share of the records that hold one of them
    strange: int = 0  # records whose text is neither
    strangers: tuple[str, ...] = ()  # their texts
    wordy: float = 0.0  # share of the records whose text is no number and no date
    alike: tuple[str, ...] = ()  # texts that differ from another in small and capital letters alone
    labels: tuple[str, ...] = ()  # the texts of a category
    among: str = ""  # of a category: the notation that reads most of its texts
    units: tuple[str, ...] = ()  # what stands beside the numbers of its texts
    unmarked: float = 0.0  # share of the records whose number has no unit, beside others that have


def _profile(values: Series, part: ColumnPart | None, role: str | None) -> ColumnProfile:
    name = str(values.name)
    declared = part if part is not None and part.kind is not None else None
    if values.dtype.kind == "f":
        facts = _of_numbers(name, np.asarray(values, dtype=np.float64), declared)
    else:
        facts = _of_texts(name, values, declared)
    low, high = (None, None) if facts.ends is None else (_shown(end, facts) for end in facts.ends)
    key = toml_key(name)
    use, otherwise, warning = _words(facts, declared, () if part is None else part.missing)
    if part is not None and part.missing:
        use = f"{use}; {' or '.join(map(toml, part.missing))} is a missing value"
    if role is not None:
        use = role if role != PREDICTED or not facts.labels else f"{role}: {some(facts.labels, 6)}"
        warning = warning if role == PREDICTED and facts.alike else None
    return ColumnProfile(
        name=name, kind=facts.kind, missing=facts.missing, levels=facts.levels, low=low, high=high,
        use=use, otherwise=f"{key} = {{ {otherwise} }}",
        warning=None if warning is None else
        f"column {name!r} {warning}; write under [columns]: {key} = {{ {otherwise} }}",
        notation=facts.notations[0] if facts.notations and not facts.strange else "",
        gaps=facts.gaps, alike=facts.alike, among=facts.among, units=facts.units,
        unmarked=facts.unmarked,
    )  # fmt: skip


def _of_numbers(name: str, numbers: Array, declared: ColumnPart | None) -> _Facts:
    known = numbers[~np.isnan(numbers)]
    missing = 1.0 - known.size / max(1, numbers.size)
    levels = np.unique(known)
    if levels.size < 2:
        return _Facts("constant" if levels.size else "empty", levels.size, missing)
    ends = float(levels[0]), float(levels[-1])
    if declared is not None:
        return _Facts("date" if declared.kind == "date" else "number", levels.size, missing, ends)
    finite = bool(np.isfinite(levels).all())
    whole = finite and bool(np.all(levels == np.floor(levels)))
    counted = whole and ends[1] - ends[0] < 2 * known.size
    alike = _mostly_distinct(levels.size, known.size) and (
        (whole and _CALLED_ID.search(name) is not None) or counted
    )
    return _Facts("id-like" if alike else "number", levels.size, missing, ends)


def repeated_id(name: str, values: Series) -> bool:
    """Return whether a column is called an id, and several records have one: stays of a person.

    >>> import pandas as pd
    >>> repeated_id("PatNr", pd.Series([f"P{k // 2}" for k in range(60)]))
    True
    """
    levels, known = values.nunique(), int(values.notna().sum())
    return _CALLED_ID.search(name) is not None and max(FEW, 0.2 * known) <= levels < known


def names_persons(name: str, values: Series, kind: ColumnKind, *, excluded: bool) -> bool:
    """Return whether a column seems to say whom each record is of, be they there once or again.

    Parameters
    ----------
    name, values
        The column.
    kind
        What its profile says that it is.
    excluded
        Whether nobody is to learn from it, as from codes of persons under any name.
    """
    if _INDEX.search(name) is not None:
        return False
    known = values[values.notna() & (values != "")]
    if values.dtype.kind == "f" and known.is_unique and _counted(known):
        return False  # the number of a row, which every table has
    called = _CALLED_ID.search(name) and known.nunique() >= max(FEW, 0.2 * len(known))
    codes = excluded and kind == "category" and has_codes(values)
    return bool(called) or codes or kind == "id-like"


def repeats_as_id(name: str, values: Series) -> bool:
    """Return whether several records have one id: it is called one, or its numbers were counted.

    >>> import pandas as pd
    >>> repeats_as_id("who", pd.Series([float(k % 90) for k in range(100)]))
    True
    >>> repeats_as_id("age", pd.Series([float(k * k % 90) for k in range(100)]))
    False
    """
    known = values[values.notna() & (values != "")]
    levels, numbers = known.nunique(), values.dtype.kind == "f"
    if len(known) < FEW or not MOSTLY_DISTINCT * len(known) <= levels < len(known):
        return False
    if numbers and not bool((np.isfinite(known) & (known == np.floor(known))).all()):
        return False
    if repeated_id(name, known) and _INDEX.search(name) is None:
        return numbers or not bool(known.str.contains(" ").any())
    return numbers and _counted(known)


def _counted(known: Series) -> bool:
    """Return whether whole numbers fill their range, as those do that were counted."""
    span = float(known.max()) - float(known.min()) + 1.0
    return len(known) > 0 and known.nunique() >= COUNTED * span


def has_codes(values: Series) -> bool:
    """Return whether a column has whole numbers or texts without blanks that mostly differ.

    Examples
    --------
    >>> import pandas as pd
    >>> has_codes(pd.Series([f"P{k}" for k in range(60)]))
    True
    >>> has_codes(pd.Series([k / 7 for k in range(60)]))
    False
    """
    known = values[values.notna() & (values != "")]
    if len(known) < FEW or known.nunique() < MOSTLY_DISTINCT * len(known):
        return False
    if values.dtype.kind == "f":
        return bool((np.isfinite(known) & (known == np.floor(known))).all())
    return not bool(known.str.contains(" ").any())


def look_alikes(counts: Mapping[str, int]) -> dict[str, str]:
    """Return labels that are most likely another spelling of one, by the more frequent one.

    Such are those that differ in capitals, accents, blanks, points and hyphens alone, and short
    forms that are rare beside the whole.

    Parameters
    ----------
    counts
        How often each label occurs.

    Examples
    --------
    >>> look_alikes({"ja": 900, "j": 30, "nej": 4000, "n": 150})
    {'j': 'ja', 'n': 'nej'}
    >>> look_alikes({"A": 400, "AB": 50, "stage 1": 20, "stage 11": 30})
    {}
    """
    by_count = sorted(counts, key=lambda text: (-counts[text], text))
    whole: dict[str, str] = {}
    for text in by_count:
        if any(map(str.isalpha, text)):
            whole.setdefault(_plain(text), text)
    same = {t: whole[_plain(t)] for t in by_count if whole.get(_plain(t), t) != t}
    for text in by_count:
        short = _plain(text)
        if text in same or not short.isalpha() or len(short) > SHORT:
            continue
        longer = [other for plain, other in whole.items() if plain != short
                  and plain.isalpha() and plain.startswith(short)]  # fmt: skip
        if len(longer) == 1 and counts[text] <= RARE * counts[longer[0]]:
            same[text] = longer[0]
    read = {text: same.get(other, other) for text, other in same.items()}
    return {text: read[text] for text in sorted(read)}


_BETWEEN = re.compile(r"[\s_]|(?<!\d)\.|\.(?!\d)|(?<=\w)-(?=\w)")


def _plain(text: str) -> str:
    """Return a label without capitals, accents, and what stands between its letters."""
    letters = unicodedata.normalize("NFKD", text)
    letters = "".join(sign for sign in letters if not unicodedata.combining(sign))
    return _BETWEEN.sub("", letters.casefold())


def _mostly_distinct(levels: int, records: int) -> bool:
    return records >= FEW and levels >= DISTINCT * records


def _of_texts(name: str, values: Series, declared: ColumnPart | None) -> _Facts:
    counts = values[values != ""].value_counts()
    texts, rows = [str(text) for text in counts.index], int(counts.sum())
    missing = 1.0 - rows / max(1, len(values))
    if len(texts) < 2:
        return _Facts("constant" if texts else "empty", len(texts), missing)
    if declared is None:
        facts = _of_notation(counts, len(values), missing)
        if facts is not None:
            return facts
    blanks = sum(" " in text.strip() for text in texts) / len(texts)
    length = sum(map(len, texts)) / len(texts)
    if declared is None and _mostly_distinct(len(texts), rows) and blanks < 0.5:
        return _Facts("id-like", len(texts), missing)
    free = blanks >= 0.5 and (length > LONG or _mostly_distinct(len(texts), rows))
    if free:
        return _Facts("text", len(texts), missing)
    spelt = Counter(map(fold, texts))
    alike = tuple(sorted((t for t in texts if spelt[fold(t)] > 1), key=lambda t: (fold(t), t)))
    labels = tuple(map(repr, sorted(texts)))
    if declared is not None:
        return _Facts("category", len(texts), missing, alike=alike, labels=labels)
    gaps = tuple(t for t in texts if reads_as_gap(t))
    often = {t: int(n) for t, n in zip(texts, counts, strict=True) if t not in gaps}
    among, strange, units = _numbers_among(list(often), list(often.values()))
    return _Facts(
        "category", len(texts), missing, gaps=gaps, alike=alike, labels=labels, among=among,
        strangers=strange, wordy=sum(often[t] for t in strange) / len(values), units=units,
    )  # fmt: skip


def _of_notation(counts: pd.Series[int], rows: int, missing: float) -> _Facts | None:
    """Return the facts of texts that most are numbers or dates; nothing of others."""
    texts = [str(text) for text in counts.index]
    known_texts = counts[[not reads_as_gap(text) for text in texts]]
    read = [str(text) for text in known_texts.index]
    units = units_of(read, known_texts.tolist())
    bare = [in_unit(text).number for text in read] if units else read
    shares = readings(bare, known_texts.tolist()) if len(read) > 1 else {}
    best = max(shares.values(), default=0.0)
    notations = _ordered([n for n in shares if shares[n] == best], bare, [*units])
    if not notations:
        return None
    if len(units) > 1:
        return _Facts("text", len(texts), missing, units=tuple(units))
    numbers = _known(notations[0], [*units]).numbers(read)
    known, held = numbers[~np.isnan(numbers)], known_texts.to_numpy()
    return _Facts(
        "date" if KNOWN[notations[0]].date else "number",
        len(texts), missing, (float(known.min()), float(known.max())), notations,
        gaps=tuple(text for text in texts if reads_as_gap(text)),
        gapped=int(counts.sum() - held.sum()) / max(1, rows),
        strange=int(held[np.isnan(numbers)].sum()),
        wordy=int(counts.sum() - held[~np.isnan(numbers)].sum()) / rows,
        strangers=tuple(t for t, n in zip(read, numbers, strict=True) if np.isnan(n)),
        units=tuple(units),
        unmarked=(int(held[~np.isnan(numbers)].sum()) - sum(units.values())) / rows if units else 0,
    )  # fmt: skip


def _ordered(names: Sequence[str], bare: Sequence[str], units: Sequence[str]) -> tuple[str, ...]:
    """Return notations that read as much of a column, the likeliest first.

    Three digits after a point may be thousands or decimals: "€ 1.234" is more than a thousand, and
    "1.234 %" is not.
    """
    order = sorted(names, key=list(KNOWN).index)
    if units:
        small = -1 if units[0] not in ("%", "‰") else 1
        order.sort(key=lambda name: small * float(np.nansum(np.abs(KNOWN[name].numbers(bare)))))
    return tuple(order)


def _known(name: str, units: Sequence[str]) -> Notation:
    """Return a notation by its name, of numbers with a unit where they have one."""
    return replace(KNOWN[name], unit="".join(units[:1]))


def _like(name: str, units: Sequence[str]) -> str:
    """Return an example of a notation, with the unit where most people write it."""
    unit = "".join(units[:1])
    if not unit:
        return name
    first = not unit.isalpha() and not unit.endswith((".", "%", "‰"))
    return f"{unit}{name}" if first else f"{name} {unit}"


def _numbers_among(
    texts: Sequence[str], counts: Sequence[int]
) -> tuple[str, tuple[str, ...], tuple[str, ...]]:
    """Return the notation of most texts, values beyond what is measured too, the texts that are
    none, and units; nothing where most are none, or so few differ that they may be codes."""
    bare = [(beyond(text) or ("", text))[1] for text in texts]
    units = tuple(units_of(bare, counts))
    bare = [in_unit(text).number for text in bare] if units else bare
    shares = readings(bare, counts, least=SOME) if bare else {}
    if not shares or len(units) > 1:
        return "", (), units
    best = max(shares.values())
    name = _ordered([n for n in shares if shares[n] == best], bare, units)[0]
    if KNOWN[name].date or int(np.isfinite(KNOWN[name].numbers(bare)).sum()) <= CODES:
        return "", (), ()
    numbers = _known(name, units).numbers(texts)
    return name, tuple(t for t, n in zip(texts, numbers, strict=True) if np.isnan(n)), units


def _shown(end: float, facts: _Facts) -> str:
    """Return the end of a range: a date, a time of day, or a number."""
    notation = KNOWN[facts.notations[0]] if facts.notations else None
    if facts.kind == "date" and not (notation is not None and notation.date.startswith("%H")):
        try:
            return str(np.datetime64(0, "s") + np.timedelta64(round(end * 86400), "s"))[:10]
        except (OverflowError, ValueError):  # a day that no calendar has
            return f"day {end:g}"
    return f"{end:,.6g}" if abs(end) < 1e15 else f"{end:.6g}"


def _beyond_as_numbers(notation: Notation, texts: Iterable[str]) -> dict[str, str]:
    """Return values beyond what is measured, and numbers for them: half of "<5", 90 for ">90"."""
    read: dict[str, str] = {}
    if notation.date:
        return read
    for text in texts:
        sign, bare = beyond(text) or ("", "")
        number = float(notation.numbers([bare])[0]) if bare else np.nan
        if np.isfinite(number):
            plain = np.format_float_positional(number / 2 if sign == "<" else number, trim="-")
            read[text.strip()] = plain.replace(".", notation.decimal)
    return read


def _part(
    notation: Notation, gaps: tuple[str, ...], same: Mapping[str, str] | None = None
) -> ColumnPart:
    if notation.date:
        form = None if notation.date == ISO else notation.date
        return ColumnPart(kind="date", format=form, missing=gaps)
    written = {"kind": "number", "thousands": notation.thousands or None, "missing": gaps,
               "unit": notation.unit or None, "same": same or {}}  # fmt: skip
    if notation.decimal != ".":
        written["decimal"] = notation.decimal
    return ColumnPart.model_validate(written)


def column_toml(part: ColumnPart) -> str:
    """Return how a column is declared, as the table of one line that `audit.toml` has.

    >>> print(column_toml(ColumnPart(kind="number", decimal=",", missing=("k.A.",))))
    { kind = "number", decimal = ",", missing = ["k.A."] }
    """
    return toml({key: said for key, said in part if said != getattr(ColumnPart(), key)})


def _reading(notation: Notation, facts: _Facts, missing: tuple[str, ...]) -> tuple[str, str]:
    """Return the line that reads texts as numbers, and what it takes values beyond a limit for."""
    same = _beyond_as_numbers(notation, facts.strangers)
    # Every text that is no number, since one alone would have the line refused.
    gaps = [*missing, *facts.gaps, *(text for text in facts.strangers if text.strip() not in same)]
    part = _part(notation, tuple(dict.fromkeys(gaps)), same)
    line = column_toml(part)[2:-2] if len(gaps) + len(same) <= MOST_GAPS else "exclude = true"
    if not same:
        return line, ""
    return line, (
        f"; {some(list(map(repr, same)), 3)} are values beyond what is measured, and none is "
        "missing: the line reads half of a lower limit, and an upper one as it is"
    )


def _words(
    facts: _Facts, declared: ColumnPart | None, missing: tuple[str, ...]
) -> tuple[str, str, str | None]:
    """Return what is done with a column, what to write to have it otherwise, and a warning."""
    if facts.kind in ("empty", "constant"):
        what = "has no value" if facts.kind == "empty" else "has one value alone"
        return f"{what}, so nothing is learned from it", "exclude = true", None
    if facts.kind == "id-like":
        return (
            "used until it is excluded; it looks like an id",
            "exclude = true",
            f"looks like an id: {facts.levels:,} different values. It tells a learner nothing, and "
            "a release that repeats it names the records",
        )
    if len(facts.units) > 1:
        units = " and ".join(map(repr, facts.units[:4]))
        return f"kept as text: its amounts are in {units}", "exclude = true", (
            f"has amounts in {units}, and nothing in it tells what one is in the other: it stays "
            "text until they are all in one"
        )  # fmt: skip
    if facts.notations:
        first, *others = (_known(n, facts.units) for n in facts.notations)
        like = _like(facts.notations[0], facts.units)
        use = (
            f"kept as text, every amount a category of its own, until it is declared; like {like}"
            if facts.units
            else f"kept as text; the learner default reads it as a {facts.kind} like {like}, "
            "generators and other learners take every text for a category"
        ) + (f"; {facts.wordy:.1%} of the records have no {facts.kind}" if facts.wordy else "")
        line, limits = _reading(first, facts, missing)
        if first.date and any(other.date for other in others):
            return use, line, (
                f"holds dates like {' or like '.join(facts.notations)}: nothing in it tells which"
            )  # fmt: skip
        if facts.strange:
            return use, line, (
                f"holds {facts.kind}s, but for {facts.strange:,} records whose text is none: mend "
                f"them, or name their texts as missing{limits}"
            )  # fmt: skip
        if facts.gaps:
            return use, line, (
                f"holds {facts.kind}s, and for {facts.gapped:.1%} of the records "
                f"{' or '.join(map(toml, facts.gaps))}, most likely for a missing value"
            )  # fmt: skip
        if facts.units:
            bare = f", {facts.unmarked:.1%} without it" if facts.unmarked else ""
            return use, line, (
                f"holds amounts in {facts.units[0]!r}{bare}, which are read as numbers like {like} "
                "once it is declared"
            )  # fmt: skip
        return use, line, None
    if facts.kind == "date":
        return "used as a number, its days since 1970-01-01", 'kind = "category"', None
    if facts.kind == "number":
        codes = facts.levels <= CODES
        use = "used as a number"
        return (f"{use}; whole numbers may be codes" if codes and declared is None else use,
                'kind = "category"', None)  # fmt: skip
    if facts.kind == "text":
        return "kept as text; few learners read free text", "exclude = true", None
    if facts.alike:
        return f"used as {facts.levels:,} categories", "fold_case = true", (
            f"has {some(list(map(repr, facts.alike)), 4)}, which count as different values though "
            "they differ in capital letters alone"
        )  # fmt: skip
    if facts.among:
        line, limits = _reading(_known(facts.among, facts.units), facts, missing)
        like = _like(facts.among, facts.units)
        return f"used as {facts.levels:,} categories, most of them numbers", line, (
            f"holds numbers like {like} in most records, and in {facts.wordy:.1%} of them "
            f"other texts, such as {some(list(map(repr, facts.strangers)), 3)}: every number is a "
            f"category of its own{limits}"
        )  # fmt: skip
    if facts.gaps:
        words = " or ".join(map(toml, facts.gaps))
        line = column_toml(ColumnPart(missing=(*missing, *facts.gaps)))
        return f"used as {facts.levels:,} categories, {words} among them", line[2:-2], None
    return f"used as {facts.levels:,} categories", "exclude = true", None
