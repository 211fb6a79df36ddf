"""One digest for one multiset of records, the same on every machine: for finding duplicates."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from proxyguard.errors import TableError
from proxyguard.registry.value import canonical_value
from proxyguard.tables.columns import as_texts, is_number, typed
from proxyguard.tables.files import CELLS

if TYPE_CHECKING:
    import pandas as pd

_ODD = np.uint64(0x9E3779B97F4A7C15)
_MIX = np.uint64(0xBF58476D1CE4E5B9)
_SHIFT = np.uint64(29)
_DOUBLES, _CODES = np.dtype("<f8"), np.dtype("<i4")


@dataclass(frozen=True, slots=True, kw_only=True)
class Schema:
    """The columns that a release has, and what each of them holds.

    Whatever encoding a table came in, as a file or as stored bytes, its records are those that
    this reads: no column more, a number as the double that it is.
    """

    kinds: Mapping[str, str]  # column -> "number" or "text"
    missing: tuple[str, ...] = ()  # texts that stand for a missing number
    predictions: bool = False  # of target records, made elsewhere; kinds are then not looked at

    @classmethod
    def of_releases(
        cls,
        kinds: Mapping[str, str] | Iterable[tuple[str, str]],
        missing: Iterable[str],
        *,
        generator: str | None = None,
        lacks: Collection[str] = (),
    ) -> Schema:
        """Return what a generator's releases hold, of the columns that the table has.

        Drawing, checking and verifying ask here, so that none of them reads a release otherwise.

        Parameters
        ----------
        kinds : mapping or pairs
            The columns of the table with their kinds, as they were sealed.
        missing : iterable of str
            Texts that stand for a missing number.
        generator : str, optional
            The generator's name; stored predictions are no records of the table.
        lacks : collection of str
            Columns that a named release was made without.
        """
        return cls(
            kinds={name: kind for name, kind in dict(kinds).items() if name not in lacks},
            missing=tuple(missing),
            predictions=generator == "predictions",
        )

    def records(self, frame: pd.DataFrame) -> pd.DataFrame:
        """Return the records of a table; an error where it has not the columns."""
        kinds = self.kinds
        if self.predictions:
            kinds = {str(c): "number" for c in frame.columns if is_prediction(str(c))}
        return typed(frame, dict(kinds), self.missing)

    def content(self, frame: pd.DataFrame) -> str:
        """Return the digest of a table's records."""
        return content_digest(self.records(frame))

    def sent(self, frame: pd.DataFrame) -> bytes:
        """Return a table's records as they leave the process that drew them.

        A line of JSON says the columns, the rows, and the different texts of each column of
        text; then come the columns, doubles or the numbers of texts.
        """
        import pandas as pd

        records = self.records(frame)
        texts: dict[str, list[str]] = {}
        body = []
        for name in records.columns:
            values = records[name]
            if values.dtype.kind == "f":
                body.append(values.to_numpy(dtype=_DOUBLES).tobytes())
            else:
                codes, distinct = pd.factorize(values.to_numpy(dtype=object))
                texts[name] = list(distinct)
                body.append(codes.astype(_CODES).tobytes())
        head = {"columns": list(records.columns), "rows": len(records), "texts": texts}
        return b"".join([json.dumps(head).encode(), b"\n", *body])

    def received(self, content: bytes) -> pd.DataFrame:
        """Return the records that `sent` wrote, wherever they come from.

        Whoever wrote them may be a generator that says what it likes: columns, kinds and sizes
        are compared before anything is made.
        """
        import pandas as pd

        line, _, body = content.partition(b"\n")
        names, rows, texts = _read_head(line)
        kinds = dict(self.kinds)
        if self.predictions:
            kinds = {name: "number" for name in names if is_prediction(name)}
        expected = {name for name, kind in kinds.items() if kind == "text"}
        if names != list(kinds) or set(texts) != expected:
            raise TableError(
                f"the release was sent with the columns {names[:20]}, of which "
                f"{sorted(texts)[:20]} hold text; expected were {list(kinds)[:20]} and "
                f"{sorted(expected)[:20]}"
            )
        sizes = [rows * (_CODES if name in texts else _DOUBLES).itemsize for name in names]
        if rows * len(names) > CELLS or sum(sizes) != len(body):
            raise TableError(
                f"the release was sent as {rows:,} rows of {len(names)} columns, and {len(body):,} "
                f"bytes came; a table here has at most {CELLS:,} cells"
            )
        columns: dict[str, Any] = {}
        start = 0
        for name, size in zip(names, sizes, strict=True):
            if name in texts:
                codes = np.frombuffer(body, _CODES, rows, start)
                if rows and not 0 <= codes.min() <= codes.max() < len(texts[name]):
                    raise TableError(f"column {name!r} was sent with a text that it does not have")
                distinct = np.empty(len(texts[name]), dtype=object)
                distinct[:] = texts[name]
                columns[name] = pd.Series(distinct[codes], dtype=object)
            else:
                columns[name] = np.frombuffer(body, _DOUBLES, rows, start).astype(np.float64)
            start += size
        return pd.DataFrame(columns, columns=names)


def _read_head(line: bytes) -> tuple[list[str], int, dict[str, list[str]]]:
    """Return the columns, the rows and the texts that a table was sent with."""
    try:
        head = json.loads(line)
        names, rows, texts = head["columns"], head["rows"], head["texts"]
        plain = (
            all(type(name) is str for name in names)
            and type(rows) is int
            and rows >= 0
            and all(type(text) is str for distinct in texts.values() for text in distinct)
        )
    except (ValueError, RecursionError, LookupError, TypeError, AttributeError):
        plain = False
    if not plain:
        raise TableError(f"the release was sent as {line[:80]!r}, which is no table")
    return list(names), rows, {name: list(distinct) for name, distinct in texts.items()}


def is_prediction(column: str) -> bool:
    """Return whether a column is one of those that stored predictions have."""
    return column in ("position", "prediction") or column.startswith("class ")


def content_digest(frame: pd.DataFrame) -> str:
    """Return a digest of a table's records, whatever their order and that of the columns.

    Equal records always give equal digests, so a copy cannot hide; a chance collision of
    its 64-bit row sums could only raise a false alarm.
    """
    total = np.zeros(len(frame), dtype=np.uint64)
    for name in sorted(str(column) for column in frame.columns):
        total = _mixed(total * _ODD + _column(frame[name]))
    names = "\x1f".join(sorted(str(column) for column in frame.columns))
    rows = np.sort(total).astype("<u8").tobytes()
    return hashlib.sha256(names.encode() + b"\x00" + rows).hexdigest()


def _column(values: Any) -> NDArray[np.uint64]:
    """Return 64 bits a value: the double itself, or a digest of the text."""
    if is_number(values):
        numbers = values.to_numpy(dtype=np.float64) + 0.0  # no negative zero
        numbers[np.isnan(numbers)] = np.nan  # one of the many NaNs
        return _mixed(numbers.view(np.uint64))
    import pandas as pd

    codes, distinct = pd.factorize(as_texts(values), use_na_sentinel=False)
    # By their value: a label written "1.0" in one copy and "1" in the other is one label.
    digests = [
        hashlib.blake2b(canonical_value(str(v)).encode(), digest_size=8).digest() for v in distinct
    ]
    return np.frombuffer(b"".join(digests), dtype="<u8").astype(np.uint64)[codes]


def _mixed(values: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Spread every bit over the word (the finaliser of SplitMix64, once)."""
    values = (values ^ (values >> _SHIFT)) * _MIX
    return values ^ (values >> _SHIFT)
