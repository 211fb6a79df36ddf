"""One model as one file in NumPy's own format: a record of numbers, and a text beside them.

The file is what ``numpy.save`` writes of a single structured value, so ``numpy.load(path,
allow_pickle=False)`` opens it without this package. Each array is a field of doubles or of
32-bit integers; the last field, ``words``, is JSON with the kind of the model and its texts.
Why this format is in `docs/decisions/0015-models-as-npy.md`.
"""

from __future__ import annotations

import ast
import io
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import ClassVar, Self, cast

import numpy as np
from numpy.typing import NDArray

from proxyguard.documents.canonical import Plain
from proxyguard.errors import SealError
from proxyguard.exact.rounding import Array

SmallIntegers = NDArray[np.int32]

# The first bytes; a model of skops, a zip archive, begins with other ones.
MAGIC = b"\x93NUMPY"
DOUBLE, INTEGER = np.dtype("<f8"), np.dtype("<i4")
VERSION = (1, 0)  # of NumPy's format; later ones only allow longer headers
START = MAGIC + bytes(VERSION)
# The most bytes of a header; NumPy's own limit on what it parses.
HEADER = 10_000
WORDS = "words"
# The most values of a text: as many categories, terms and names.
VALUES = 5_000_000
# The most arrays that a model may have; ours have at most seven.
FIELDS = 16


@dataclass(frozen=True, slots=True)
class Content:
    """What the file of a model holds: its kind, its texts and flags, and its arrays."""

    kind: str
    words: Mapping[str, Plain]
    arrays: Mapping[str, Array | SmallIntegers]

    def to_bytes(self) -> bytes:
        """Return the file; one content has one."""
        words = {"kind": self.kind, **self.words}
        text = json.dumps(words, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()
        layout = [(name, _stored(array).str, array.shape) for name, array in self.arrays.items()]
        parts = [
            array.astype(_stored(array), copy=False).tobytes() for array in self.arrays.values()
        ]
        return b"".join([_header((*layout, (WORDS, f"|S{len(text)}"))), *parts, text])

    def word(self, key: str) -> Plain:
        """Return what stands under a name beside the numbers."""
        if key not in self.words:
            raise SealError(f"it does not say its {key}")
        return self.words[key]


class Stored:
    """A dataclass of arrays that knows the content of its file.

    Its fields that are no arrays ``words`` gives as plain values, of which ``from_words`` makes
    them again.

    Attributes
    ----------
    kind
        What its file calls it.
    arrays
        Its fields that are arrays, in the order of the file.
    integers
        Those of them that hold whole numbers; all others hold doubles.
    """

    __slots__ = ()
    kind: ClassVar[str]
    arrays: ClassVar[tuple[str, ...]]
    integers: ClassVar[tuple[str, ...]] = ()

    def words(self) -> dict[str, Plain]:
        """Return the fields that are no arrays as plain values."""
        raise NotImplementedError

    @classmethod
    def from_words(cls, content: Content) -> dict[str, object]:
        """Return the fields that are no arrays."""
        raise NotImplementedError

    def content(self) -> Content:
        """Return what its file holds."""
        arrays = {name: getattr(self, name) for name in self.arrays}
        return Content(self.kind, self.words(), arrays)

    @classmethod
    def of(cls, content: Content) -> Self:
        """Return the model of a file's content, which must fit together."""
        made = cls.from_words(content)
        for name in cls.arrays:
            array, kind = content.arrays.get(name), INTEGER if name in cls.integers else DOUBLE
            if array is None or array.dtype != kind:
                stored = "missing" if array is None else f"of type {array.dtype.str!r}"
                raise SealError(f"its array {name} is {stored}, expected {kind.str!r}")
            made[name] = array
        return cls(**made)

    def check_shapes(self, **shapes: tuple[int, ...]) -> None:
        """Refuse arrays of other shapes than these."""
        for name, shape in shapes.items():
            if getattr(self, name).shape != shape:
                raise SealError(f"{name} has shape {getattr(self, name).shape}, expected {shape}")


def _stored(array: Array | SmallIntegers) -> np.dtype[np.float64] | np.dtype[np.int32]:
    return INTEGER if array.dtype.kind == "i" else DOUBLE


@lru_cache(maxsize=512)  # as `_record_type`, which reads it
def _header(layout: tuple[tuple[object, ...], ...]) -> bytes:
    """Return what NumPy writes before the bytes of a record."""
    sink = io.BytesIO()
    described = {"descr": list(layout), "fortran_order": False, "shape": ()}
    np.lib.format.write_array_header_1_0(sink, described)
    return sink.getvalue()


def read_content(content: bytes) -> Content:
    """Return what a file holds.

    Nothing in it is run, and nothing is made from a size that it states before the size was
    compared with the file.

    Parameters
    ----------
    content
        The bytes of the file, which may come from anybody.

    Returns
    -------
    Content
        The arrays are copies, in the order of the file.

    Raises
    ------
    SealError
        If it is no such file, is cut short or goes on after its end, or has arrays of other
        types than doubles and 32-bit integers.
    """
    # The header is compared with the length of the file first: NumPy would make an array of the
    # size that a header states, whether or not there are bytes for it.
    kind, start = _layout(content)
    names = kind.names or ()
    if names[-1:] != (WORDS,) or len(names) > FIELDS + 1 or kind[WORDS].kind != "S":
        raise SealError(f"its fields are {_short(names)}; the last should be the text {WORDS!r}")
    for name in names[:-1]:
        if kind[name].base not in (DOUBLE, INTEGER):
            raise SealError(f"its array {_short(name)} is of type {_short(kind[name].base.str)}")
    if kind.itemsize != len(content) - start or kind.itemsize == 0:
        raise SealError(
            f"its arrays take {kind.itemsize:,} bytes, and its header is followed by "
            f"{len(content) - start:,}"
        )
    (record,) = np.frombuffer(content, dtype=kind, count=1, offset=start)
    words = _read_words(bytes(record[WORDS]))
    arrays = {name: np.array(record[name], dtype=kind[name].base) for name in names[:-1]}
    return Content(str(words.pop("kind")), words, arrays)


def _layout(content: bytes) -> tuple[np.dtype[np.void], int]:
    """Return the type of the one record that a file holds, and where its bytes begin."""
    start = len(START) + 2
    end = start + int.from_bytes(content[len(START) : start], "little")
    if not content.startswith(START) or end > len(content):
        raise SealError("it is cut short or does not begin as a model of ours does")
    if end - start > HEADER:
        raise SealError(f"its header has {end - start:,} bytes; that of a model has {HEADER:,}")
    return _record_type(content[start:end]), end


@lru_cache(maxsize=512)  # models of one procedure have few headers, and parsing takes longest
def _record_type(header: bytes) -> np.dtype[np.void]:
    """Return the type of the one record that a header describes."""
    try:
        # Parsed here as NumPy does it, which would try headers of Python 2 and warn.
        stated = ast.literal_eval(header.decode("ascii"))
        kind, shape = np.lib.format.descr_to_dtype(stated["descr"]), stated["shape"]
    except Exception as error:  # a forged header may break NumPy's reader in any way
        raise SealError(f"its header cannot be read: {_short(str(error))}") from None
    if shape != () or kind.names is None:
        raise SealError(f"it holds an array of shape {_short(shape)}, expected one record")
    return kind


def read_json(text: bytes) -> Plain:
    """Return the value of a JSON text that a model brings.

    Raises
    ------
    SealError
        If it is none, or holds more values than a model of ours or than memory may take.
    """
    # Counted before they are parsed: three bytes can be a list, which takes 56 in memory.
    if sum(text.count(sign) for sign in (b",", b"[", b"{")) > VALUES:
        raise SealError(f"its text has more than {VALUES:,} values; no model has")
    try:
        return cast(Plain, json.loads(text))
    except (ValueError, RecursionError) as error:
        raise SealError(f"its text is no JSON that can be read: {error}") from None


def _read_words(text: bytes) -> dict[str, Plain]:
    words = read_json(text)
    if not isinstance(words, dict) or not isinstance(words.get("kind"), str):
        raise SealError("its text names no kind of model")
    return words


def checked_texts(values: Plain, what: str) -> tuple[str, ...]:
    """Return a list after checking that it holds texts, at least one and each once."""
    if not isinstance(values, list | tuple) or set(map(type, values)) != {str}:
        raise SealError(f"{what} must be a list of texts")
    texts = tuple(values)
    if len(set(texts)) != len(texts):
        raise SealError(f"{what} has a text twice")
    return texts


def check_classes(classes: Array) -> None:
    """Refuse classes that are not two or more whole numbers in order."""
    labels = classes.ravel().tolist()
    ordered = all(lower < higher for lower, higher in pairwise(labels))
    whole = all(label.is_integer() for label in labels)
    if classes.ndim != 1 or len(labels) < 2 or not ordered or not whole:
        raise SealError(f"classes are {_short(labels)}, expected whole numbers in order")


def _short(stated: object) -> str:
    """Return what a file states for a message, which a hostile file must not make long."""
    text = repr(stated)
    return text if len(text) <= 80 else text[:77] + "..."
