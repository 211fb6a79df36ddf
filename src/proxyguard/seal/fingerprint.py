"""What makes two records the same: their values, whatever the file, its order or its types.

The first half of this file asks whether two sets of records meet: `meet` compares their views. The
second makes fingerprints and views of a table, `TablePrints`; `seal.lineage` keeps both.

A record's fingerprint is keyed, so that a store of fingerprints tells nothing about records
to whoever lacks the key. A table's identity is that of its multiset of records.

Every cell has a keyed digest, and a record's fingerprint is that of the sum of its cells'
digests. So one pass over the columns gives the fingerprints over many sets of columns: the
sum less one cell is the record without that column. These *views* are what finds a record
again after a column was added, dropped, renamed or written otherwise.

Are these other records with the same values, or the same records once more?
----------------------------------------------------------------------------
Two sets of records that were sampled independently, from one population or from two, may
have values in common. Two things explain that, and only what neither explains is an excess.

1. *Repeats.* Values that two samples have in common, a sample also has twice. Given that a
   value occurs ``c`` times in both together, the number in the second is binomial with some
   chance that differs from value to value and from population to population. So the chance
   of the split ``(a, b)`` is at most ``C(c, b) (b/c)^b (a/c)^a``, whatever the populations;
   for exactly one in the second at most 1/2. And by Cauchy and Schwarz the values that occur
   once in each are at most ``2 sqrt(A B)`` on average, of which A and B occur twice in one.
2. *Few values.* Shop and day are a key: they never repeat, and come again in every table of
   these shops and days. If columns were independent, ``2 sqrt(P Q)`` pairs across would be
   equal, where P and Q are the equal pairs to be expected within, from how many distinct
   values each column has.

Sampling is taken as Poisson; at a fixed size counts are negatively dependent, which only
makes the tails lighter. A copy is found from about 22 records on, whatever the populations;
duplicates that somebody adds on one side to make it look like chance do not help.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import ceil, comb, expm1, inf, lgamma, sqrt
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from numpy.typing import NDArray

from proxyguard.registry.numbers import canonical_value as canonical_value  # and from here
from proxyguard.tables.columns import as_texts

if TYPE_CHECKING:
    import pandas as pd


# Chance that records that were sampled apart are taken for the same ones, for two sets.
LEVEL = 1e-6
# Values that occur so often in both sets together are judged split by split.
SPLITS = 6
# Pairs of views with the most values in common, which are judged.
TRIED = 12
JOINED = 4_000_000

Values = NDArray[np.uint64]


@dataclass(frozen=True, slots=True, eq=False)
class RecordView:
    """The fingerprints of a set of records over some of their columns, sorted, with counts."""

    values: Values  # (k,) distinct
    counts: NDArray[np.int64]  # (k,)
    size: int  # records
    chance: float  # equal pairs among the records, if columns were independent
    words: str  # over which columns
    thin: int = 1  # of the values, those that this power of two divides are kept

    def thinned(self, thin: int) -> RecordView:
        """Return the view with the values that a larger power of two divides."""
        kept = self.values & np.uint64(thin - 1) == 0
        return RecordView(
            self.values[kept], self.counts[kept], self.size, self.chance, self.words, thin
        )

    def repeated(self) -> float:
        """Return the share of records that have a twin in this set."""
        return float(self.counts[self.counts > 1].sum() / max(1, self.counts.sum()))


def view_of(prints: Values, *, chance: float, words: str, thin: int = 1) -> RecordView:
    """Return the view of records with these fingerprints."""
    kept = prints[prints & np.uint64(thin - 1) == 0]
    values, counts = np.unique(kept, return_counts=True)
    return RecordView(values, counts.astype(np.int64), int(prints.size), chance, words, thin)


@dataclass(frozen=True, slots=True, kw_only=True)
class Meeting:
    """How many records of one set have the values of records of another."""

    twins: int
    expected: float  # about, by coincidence
    excess: bool  # more than coincidence explains
    columns: str  # over which columns they agree


def meet(target: Sequence[RecordView], other: Sequence[RecordView]) -> Meeting:
    """Compare two sets of records over all views.

    Parameters
    ----------
    target
        The views of the records that must be fresh; the first is of the whole record.
    other
        Those of the records that they are compared with.

    Returns
    -------
    Meeting
        Over whole records, or over the view on which most records were met, if coincidence
        explains the first and not the second.

    Guarantee
    ---------
    Two sets that were sampled apart are an excess with a chance of at most `LEVEL`: one half is
    spent on whole records, the other divided by all pairs of views, whichever are looked at.
    """
    if not target or not other:
        return Meeting(twins=0, expected=0.0, excess=False, columns="")
    meeting = compare_records(target[0], other[0], LEVEL / 2.0)
    if meeting.excess:
        return meeting
    level = LEVEL / 2.0 / (len(target) * len(other))
    further = [compare_records(target[i], other[j], level) for i, j in _in_common(target, other)]
    beyond = (view for view in further if view.excess)
    return max(beyond, key=lambda view: view.twins, default=meeting)


def least_met(target: Sequence[RecordView], other: Sequence[RecordView]) -> int:
    """Return how many records two sets have in common at least, over all views.

    As `meet`, where whole records may be few beside those that were written anew: what coincidence
    explains of the records of a view is taken off.
    """
    level = LEVEL / 2.0 / (len(target) * len(other))
    met = [compare_records(target[i], other[j], level) for i, j in _in_common(target, other)]
    counts = [view.twins - ceil(view.expected) for view in met if view.excess]
    return max(0, meet(target, other).twins, *counts)


def compare_records(target: RecordView, other: RecordView, level: float) -> Meeting:
    """Compare two sets of records over one set of columns."""
    thin = max(target.thin, other.thin)
    mine, theirs = target.thinned(thin), other.thinned(thin)
    values = np.union1d(mine.values, theirs.values)
    a, b = _aligned(values, theirs), _aligned(values, mine)
    both = (a > 0) & (b > 0)
    twins = min(target.size, int(b[both].sum()) * thin)
    chance = 2.0 * sqrt(target.chance * other.chance) / thin
    excess = (
        bool(both.any())
        and _poisson_tail(int(both.sum()), chance) < level
        and _more_than_repeats(a, b, level)
    )
    seen = mine.repeated() * max(1.0, other.size / max(1, target.size))
    expected = target.size * min(1.0, seen, theirs.repeated())
    return Meeting(
        twins=twins,
        # So many pairs, dealt out at random, have so many different records of the target.
        expected=max(expected, -target.size * expm1(-chance * thin / max(1, target.size))),
        excess=excess,
        columns=target.words,
    )


def _aligned(values: Values, view: RecordView) -> NDArray[np.int64]:
    counts = np.zeros(values.size, dtype=np.int64)
    counts[np.searchsorted(values, view.values)] = view.counts
    return counts


def _more_than_repeats(a: NDArray[np.int64], b: NDArray[np.int64], level: float) -> bool:
    """Return whether values are split between two sets as no two samples would split them."""
    total = a + b
    several = int((total > 1).sum())
    # Half of the level where a copy shows most often: each record once in the target.
    if _binomial_tail(int(((a > 0) & (b == 1)).sum()), several, 0.5) < level / 2.0:
        return True
    kinds = [(c - k, k) for c in range(2, SPLITS + 1) for k in range(1, c)]
    level /= 2.0 * (len(kinds) + 2)
    if _binomial_tail(int(((b > 0) & (a == 1)).sum()), several, 0.5) < level:
        return True
    for theirs, mine in kinds:
        c = theirs + mine
        most = comb(c, mine) * (mine / c) ** mine * (theirs / c) ** theirs
        count = int(((a == theirs) & (b == mine)).sum())
        if _binomial_tail(count, int((total == c).sum()), most) < level:
            return True
    within = (int(((a == 2) & (b == 0)).sum()), int(((a == 0) & (b == 2)).sum()))
    most = 2.0 * sqrt(_poisson_upper(within[0], level / 3) * _poisson_upper(within[1], level / 3))
    return _poisson_tail(int(((a == 1) & (b == 1)).sum()), most) < level / 3


def _binomial_tail(count: int, trials: int, chance: float) -> float:
    from scipy.stats import binom

    return 1.0 if count <= trials * chance else float(binom.sf(count - 1, trials, chance))


def _poisson_tail(count: int, mean: float) -> float:
    from scipy.stats import poisson

    return 1.0 if count <= mean else float(poisson.sf(count - 1, mean))


def _poisson_upper(count: int, level: float) -> float:
    """Return the mean above which so small a count has less than this chance (Garwood)."""
    from scipy.stats import chi2

    return float(chi2.isf(level, 2 * (count + 1)) / 2.0)


def _in_common(target: Sequence[RecordView], other: Sequence[RecordView]) -> list[tuple[int, int]]:
    """Return the pairs of views that have the most values in common, besides the first two."""
    mine, theirs = _flat(target), _flat(other)
    hits = np.isin(mine[0], theirs[0])
    mine = (mine[0][hits], mine[1][hits])
    for step in range(64):  # records of a few values agree in many views: look at fewer of them
        left = np.searchsorted(theirs[0], mine[0], "left")
        times = np.searchsorted(theirs[0], mine[0], "right") - left
        if int(times.sum()) <= JOINED:
            break
        kept = [values & np.uint64((2 << step) - 1) == 0 for values, _ in (mine, theirs)]
        mine = (mine[0][kept[0]], mine[1][kept[0]])
        theirs = (theirs[0][kept[1]], theirs[1][kept[1]])
    starts = np.repeat(left - np.concatenate([[0], np.cumsum(times)[:-1]]), times)
    partner = theirs[1][starts + np.arange(int(times.sum()))]
    pairs = np.repeat(mine[1], times) * len(other) + partner
    numbers, counts = np.unique(pairs, return_counts=True)
    views = [(int(n) // len(other), int(n) % len(other)) for n in numbers]
    weights = [
        int(count) * max(target[i].thin, other[j].thin)
        for (i, j), count in zip(views, counts, strict=True)
    ]
    order = sorted(range(len(views)), key=lambda k: (-weights[k], views[k]))
    return [views[k] for k in order if views[k] != (0, 0)][:TRIED]


def _flat(views: Sequence[RecordView]) -> tuple[Values, NDArray[np.int64]]:
    """Return all values of all views, sorted, and the view that each belongs to."""
    values = np.concatenate([view.values for view in views])
    labels = np.repeat(np.arange(len(views)), [view.values.size for view in views])
    order = np.argsort(values, kind="stable")
    return values[order], labels[order]


# Bytes of a record's fingerprint: enough that no two of a billion records collide by chance.
SIZE = 16
# Fingerprints that are kept for all views of one set of records without a column together.
KEPT = 2**20
# Groups of columns, by name; the views over any two of them survive two changed columns.
BLOCKS = 4
# Records on which it is judged whether one column says what another one is.
SAMPLE = 2048

Prints = NDArray[np.bytes_]
Lanes = NDArray[np.uint64]  # (n, 2): 16 bytes a row, added without carry between the halves
RowNumbers = NDArray[np.int64]

_NUMBER = re.compile(r"-?[0-9]+(\.[0-9]+)?(e[+-]?[0-9]+)?")  # as `canonical_value` writes them
_PLAIN = r"^-?[0-9]{1,18}(\.[0-9]+)?([eE][+-]?[0-9]{1,2})?$"  # which no double overflows


@dataclass(frozen=True, slots=True)
class _Secrets:
    """The keys of the four steps from a value to a fingerprint."""

    key: bytes

    def derive(self, step: str) -> bytes:
        return hashlib.blake2b(step.encode(), key=self.key, digest_size=32).digest()

    def encrypt(self, step: str, blocks: Lanes) -> Lanes:
        """Return every row's image under a permutation that only the key tells."""
        # ECB is what is wanted here: equal rows must have equal images, one by one.
        cipher = Cipher(algorithms.AES(self.derive(step)), modes.ECB()).encryptor()
        plain = np.ascontiguousarray(blocks).astype("<u8", copy=False).tobytes()
        return np.frombuffer(cipher.update(plain), dtype="<u8").reshape(-1, 2)

    def text(self, step: str, text: str) -> Lanes:
        content = text.encode("utf-8", "surrogatepass")
        digested = hashlib.blake2b(content, key=self.derive(step), digest_size=SIZE).digest()
        return np.frombuffer(digested, dtype="<u8")


@dataclass(frozen=True, slots=True, eq=False)
class _Column:
    """One column: which of its distinct values each record has, and their keyed digests."""

    name: str
    codes: NDArray[np.int64]  # (n,)
    cells: Lanes  # (u, 2), whatever the column is called
    named: Lanes  # (u, 2), of the value in a column of this name
    room: float  # how many values lie in its range, where they are on a grid

    @property
    def distinct(self) -> int:
        return int(self.cells.shape[0])

    @property
    def counter(self) -> bool:
        """Whether it only numbers the records: such a column tells none from another's."""
        return self.distinct == self.codes.size > 1 and self.room <= 2.0 * self.codes.size


class TablePrints:
    """The fingerprints of a table's records, over all columns and over the views.

    Parameters
    ----------
    frame
        The table; columns are taken by name, in any order.
    key
        The secret of the store: without it nobody can try guessed records against it.

    Attributes
    ----------
    prints
        The fingerprint of every record, 16 bytes each.
    identity
        What the table is: the digest of the multiset of its records, and of its columns.
    occurrences
        How many records before it in the table have the same values, for every record.
    """

    def __init__(self, frame: pd.DataFrame, key: bytes) -> None:
        secrets = _Secrets(key)
        self._secrets = secrets
        names = sorted(str(name) for name in frame.columns)
        by_name = {str(name): name for name in frame.columns}
        self._columns = [_column(frame[by_name[name]], name, secrets) for name in names]
        self._telling = _telling(self._columns)
        head = np.tile(secrets.text("columns", "\x1f".join(names)), (len(frame), 1))
        whole = secrets.encrypt(
            "record", head + _sum(self._columns, np.arange(len(frame)), "named")
        )
        self.prints: Prints = np.frombuffer(whole.tobytes(), dtype=f"V{SIZE}")
        self.identity, self.occurrences = identify(self.prints, names)

    def __len__(self) -> int:
        return int(self.prints.size)

    def records(self, rows: RowNumbers | Sequence[int] | None = None) -> RecordSet:
        """Return some of the records, by position, or all of them."""
        at = np.arange(len(self)) if rows is None else np.asarray(rows, dtype=np.int64)
        return RecordSet(
            self.identity, self.prints[at], self.occurrences[at], tuple(self._views(at))
        )

    def _views(self, rows: RowNumbers) -> Iterable[RecordView]:
        # Every record once: copies of one row, added to a seen table, would raise the chance.
        _, first = np.unique(self.prints[rows], return_index=True)
        chance = _Chance(self._columns, rows[np.sort(first)])
        everything = range(len(self._columns))
        yield self._view("named", rows, everything, chance, "all columns")
        telling = self._telling
        thin = _thinning(2 * rows.size * len(telling))
        for how, word in (("named", ""), ("free", ", whatever the columns are called")):
            whole = _sum([self._columns[j] for j in telling], rows, how)
            if how == "free" or len(telling) < len(self._columns):
                yield self._of_sum(whole, chance.of(telling), f"all columns{word}")
            if len(telling) < 2:
                continue
            for j in telling:
                column = self._columns[j]
                cells = column.named if how == "named" else column.cells
                rest = [i for i in telling if i != j]
                yield self._of_sum(
                    whole - cells[column.codes[rows]],
                    chance.of(rest),
                    f"all columns but one{word}",
                    thin,
                )
        yield from self._block_views(rows, chance)

    def _block_views(self, rows: RowNumbers, chance: _Chance) -> Iterable[RecordView]:
        if len(self._telling) < 2 * BLOCKS:
            return
        blocks: list[list[int]] = [[] for _ in range(BLOCKS)]
        for j in self._telling:
            # By the name's digest, so that a column that is added moves no other one.
            blocks[int(self._secrets.text("block", self._columns[j].name)[0]) % BLOCKS].append(j)
        for pair in combinations(blocks, 2):
            chosen = [j for block in pair for j in block]
            if len(chosen) > 1:
                yield self._view("named", rows, chosen, chance, "half of the columns")

    def _view(
        self, how: str, rows: RowNumbers, columns: Sequence[int], chance: _Chance, words: str
    ) -> RecordView:
        total = _sum([self._columns[j] for j in columns], rows, how)
        return self._of_sum(total, chance.of(columns), words)

    def _of_sum(self, total: Lanes, chance: float, words: str, thin: int = 1) -> RecordView:
        prints = self._secrets.encrypt("view", total)[:, 0]
        return view_of(prints, chance=chance, words=words, thin=thin)


# The key where nobody has a secret: of whole tables and of what is compared and written nowhere.
OPEN = bytes(32)


def fingerprints(frame: pd.DataFrame, key: bytes) -> Prints:
    """Return the keyed fingerprint of every record; columns are taken by name."""
    return TablePrints(frame, key).prints


def _sum(columns: Iterable[_Column], rows: RowNumbers, how: str) -> Lanes:
    """Return the sum of some records' cells over some columns, with or without their names."""
    total = np.zeros((rows.size, 2), dtype=np.uint64)
    for column in columns:
        total += (column.named if how == "named" else column.cells)[column.codes[rows]]
    return total


def _column(values: pd.Series[str | float], name: str, secrets: _Secrets) -> _Column:
    import pandas as pd

    numeric = values.dtype.kind in "fiu" and not _beyond_doubles(values)
    codes, distinct = pd.factorize(values if numeric else as_texts(values), use_na_sentinel=False)
    numbers, texts = _canonical(np.asarray(distinct))
    blocks = np.zeros((numbers.size, 2), dtype=np.uint64)
    blocks[:, 0] = (numbers + 0.0).view(np.uint64)  # -0.0 + 0.0 is 0.0
    cells = secrets.encrypt("number", blocks).copy()
    for i, text in texts.items():
        cells[i] = secrets.text("text", text)
    # Spellings of one value, 1 and 1.0, were two distinct values until here.
    _, first, again = np.unique(
        np.frombuffer(cells.tobytes(), dtype=f"V{SIZE}"), return_index=True, return_inverse=True
    )
    cells = cells[first]
    named = secrets.encrypt("named", cells ^ secrets.text("name", name))
    room = _room(numbers, texts, all_differ=first.size == codes.size)
    return _Column(name, again.reshape(-1)[codes], cells, named, room)


def _beyond_doubles(values: pd.Series[str | float]) -> bool:
    """Return whether whole numbers are so large that doubles would merge them."""
    return values.dtype.kind in "iu" and len(values) > 0 and bool((abs(values) >= 2**53).any())


def _canonical(distinct: NDArray[np.generic[object]]) -> tuple[NDArray[np.float64], dict[int, str]]:
    """Return values as numbers, and those that are none as canonical texts by their place."""
    numbers = np.zeros(distinct.size)
    if distinct.dtype.kind in "fiu":
        numbers = distinct.astype(np.float64)
        texts = {int(i): "" for i in np.flatnonzero(np.isnan(numbers))}  # as a text table has it
        texts |= {int(i): canonical_value(repr(float(numbers[i])))
                  for i in np.flatnonzero(np.abs(numbers) >= 2.0**53)}  # fmt: skip
        numbers[list(texts)] = 0.0
        return numbers, texts
    try:
        column = pa.array(distinct, type=pa.string())
    except UnicodeEncodeError:  # half a character, which is in no number
        column = pa.array([text.encode("ascii", "replace") for text in distinct]).cast(pa.string())
    plain = pc.match_substring_regex(column, _PLAIN).to_numpy(zero_copy_only=False)
    numbers[plain] = column.filter(pa.array(plain)).cast(pa.float64()).to_numpy()
    slow = np.flatnonzero(~plain | ~(np.abs(numbers) < 2.0**53)).tolist()
    texts = {}
    for i in slow:
        text = canonical_value(str(distinct[i]))
        number = float(text) if _NUMBER.fullmatch(text) else inf
        if abs(number) < 2.0**53:
            numbers[i] = number
        else:
            numbers[i], texts[i] = 0.0, text
    return numbers, texts


def _room(numbers: NDArray[np.float64], texts: dict[int, str], *, all_differ: bool) -> float:
    """Return how many values the range of a column has room for; infinity where it is no grid.

    Numbers lie on a grid of up to six decimals. Texts do if all differ and they differ in
    their digits alone, as labels of records and dates do.
    """
    known = np.setdiff1d(np.arange(numbers.size), np.array([*texts], dtype=np.int64))
    if not texts or (len(texts) == 1 and "" in texts.values()):
        values = numbers[known]
        for decimals in range(7 if values.size else 0):
            scaled = values * 10.0**decimals
            if np.all(np.abs(scaled - np.round(scaled)) <= 1e-9 * np.maximum(1.0, np.abs(scaled))):
                return float(np.ptp(scaled)) + 1.0
        return inf
    if not all_differ or len(texts) < numbers.size:
        return inf
    if len({re.sub(r"[0-9]+", "#", text) for text in texts.values()}) > 1:
        return inf
    digits = [int(re.sub(r"[^0-9]", "", text)[:300] or "0") for text in texts.values()]
    return float(max(digits) - min(digits)) + 1.0


def _telling(columns: Sequence[_Column]) -> list[int]:
    """Return the columns that tell records apart: no constants, counters or second copies.

    Whoever adds such columns to a table that was seen before changes no view.
    """
    kept, seen = [], set()
    for j, column in enumerate(columns):
        content = hashlib.blake2b(column.cells[column.codes].tobytes(), digest_size=SIZE).digest()
        if column.distinct > 1 and not column.counter and content not in seen:
            kept.append(j)
        seen.add(content)
    return kept


class _Chance:
    """How many pairs of records would be equal if columns were independent of each other.

    A column that another one determines, as a shop its region, is no further evidence.
    """

    def __init__(self, columns: Sequence[_Column], rows: RowNumbers) -> None:
        self._pairs = rows.size * (rows.size - 1) / 2.0
        self._logs = []
        for column in columns:
            counts = np.bincount(column.codes[rows], minlength=1).astype(np.float64)
            equal = float((counts * (counts - 1.0)).sum()) / max(1.0, 2.0 * self._pairs)
            rate = max(equal, 1.0 / column.room)
            self._logs.append(np.log(rate) if rate > 0 else -inf)
        self._by = _determined(columns, rows[:: max(1, rows.size // SAMPLE)])

    def of(self, columns: Sequence[int]) -> float:
        """Return that number for some of the columns."""
        chosen = set(columns)
        total = sum(self._logs[j] for j in chosen if not self._by[j] & chosen)
        return float(self._pairs * np.exp(min(0.0, total)))


def _determined(columns: Sequence[_Column], rows: RowNumbers) -> list[set[int]]:
    """Return, for every column, those that determine it among some records."""
    codes = [np.unique(c.codes[rows], return_inverse=True)[1].reshape(-1) for c in columns]
    sizes = [int(code.max()) + 1 if code.size else 0 for code in codes]
    determining: list[set[int]] = [set() for _ in columns]
    for i, j in combinations(range(len(columns)), 2):
        # Where nearly all values differ they determine everything, which says nothing.
        few, many = (i, j) if (sizes[i], j) < (sizes[j], i) else (j, i)
        if sizes[few] > 1 and 4 * sizes[many] <= rows.size:
            together = _distinct(codes[many] * sizes[few] + codes[few], sizes[many] * sizes[few])
            if together == sizes[many]:
                determining[few].add(many)
    return determining


def _distinct(codes: NDArray[np.int64], room: int) -> int:
    """Return how many different numbers there are among some that lie below ``room``."""
    # A table of many columns asks for every two of them: to count is ten times quicker than to
    # sort, unless most of the numbers that there could be are not there.
    if room <= 8 * codes.size:
        return int(np.count_nonzero(np.bincount(codes)))
    return int(np.unique(codes).size)


def _thinning(prints: int) -> int:
    """Return the power of two that leaves no more than `KEPT` of so many fingerprints."""
    return 1 << max(0, (-(-prints // KEPT) - 1).bit_length())


@dataclass(frozen=True, slots=True, eq=False)
class RecordSet:
    """Records of one table in one role: fingerprints and occurrences within the table."""

    table: str  # identity of the table
    prints: Prints  # (n,)
    occurrences: NDArray[np.int64]  # (n,) 0 for the first record of these values, and so on
    views: tuple[RecordView, ...] = ()

    def __len__(self) -> int:
        return int(self.prints.size)

    def shared_with(self, other: RecordSet) -> int:
        """Return how many of these records are records of ``other``: same table, same record."""
        if self.table != other.table:
            return 0
        theirs = set(zip(other.prints.tolist(), other.occurrences.tolist(), strict=True))
        mine = zip(self.prints.tolist(), self.occurrences.tolist(), strict=True)
        return sum(record in theirs for record in mine)

    def twins_in(self, other: RecordSet) -> int:
        """Return how many of these records have the values of some record of ``other``."""
        return int(np.isin(self.prints, other.prints).sum())


def identify(prints: Prints, columns: list[str]) -> tuple[str, NDArray[np.int64]]:
    """Return the identity of a table and each record's occurrence within it."""
    order = np.argsort(prints, kind="stable")
    ordered = prints[order]
    total = hashlib.sha256("\x1f".join(sorted(columns)).encode())
    total.update(ordered.tobytes())
    fresh = np.ones(prints.size, dtype=bool)
    fresh[1:] = ordered[1:] != ordered[:-1]
    starts = np.maximum.accumulate(np.where(fresh, np.arange(prints.size), 0))
    occurrences = np.empty(prints.size, dtype=np.int64)
    occurrences[order] = np.arange(prints.size) - starts
    return total.hexdigest(), occurrences


def expected_twins(prints: Prints, reserved: int, others: int | None = None) -> float:
    """Return how many reserved records have a twin among ``others`` by coincidence alone.

    ``reserved`` of the table's records are drawn at random without replacement, and then
    ``others`` of the rest (all of it, if nothing is said). A reserved record whose values
    occur ``c`` times has no twin there if none of its ``c - 1`` twins was taken, which has
    chance ``C(N-1-m, c-1)/C(N-1, c-1)`` for ``m`` others.

    >>> prints = np.array([b"a", b"a", b"b"], dtype="V16")  # two records alike, one alone
    >>> round(expected_twins(prints, reserved=1), 3)
    0.667
    """
    total = int(prints.size)
    m = total - reserved if others is None else others
    _, counts = np.unique(prints, return_counts=True)
    sizes, times = np.unique(counts, return_counts=True)
    expected = 0.0
    for c, k in zip(sizes.tolist(), times.tolist(), strict=True):
        alone = 0.0
        if c - 1 <= total - 1 - m:
            alone = np.exp(_log_choose(total - 1 - m, c - 1) - _log_choose(total - 1, c - 1))
        expected += k * c * (1.0 - alone)
    return float(expected * reserved / total)


def _log_choose(n: int, k: int) -> float:
    return lgamma(n + 1) - lgamma(k + 1) - lgamma(n - k + 1)
