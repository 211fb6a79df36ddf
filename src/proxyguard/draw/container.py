"""A small file for the numbers of a model: a header of JSON, doubles, and a digest.

In this order: `MAGIC`; the length of the header, eight bytes, the least first; the header;
the doubles of every array, row by row, the least byte first; the SHA-256 of all that. The
header names a kind, plain values, and each array with its type and shape. It is the only way
to write them, and a header written in any other way is refused: one content is one file.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from proxyguard.errors import SealError

Array = NDArray[np.float64]

MAGIC = b"proxyguard model 1\n"
"""The first bytes; a stored model of skops, a zip archive, begins with other ones."""
DOUBLE = "<f8"
_LENGTH, _DIGEST = 8, 32


@dataclass(frozen=True, slots=True)
class Parts:
    """What a model consists of: its kind, plain values, and arrays of doubles."""

    kind: str
    values: Mapping[str, Any]
    arrays: Mapping[str, Array]


def parts_bytes(parts: Parts) -> bytes:
    """Return the file of these parts."""
    head = _header(
        {
            "kind": parts.kind,
            "values": parts.values,
            "arrays": [[name, DOUBLE, list(a.shape)] for name, a in parts.arrays.items()],
        }
    )
    body = [np.ascontiguousarray(a, dtype=DOUBLE).tobytes() for a in parts.arrays.values()]
    content = b"".join([MAGIC, len(head).to_bytes(_LENGTH, "little"), head, *body])
    return content + hashlib.sha256(content).digest()


def read_parts(content: bytes) -> Parts:
    """Return the parts of a file; one that was changed, cut or written otherwise is refused."""
    start = len(MAGIC) + _LENGTH
    if len(content) < start + _DIGEST or content[: len(MAGIC)] != MAGIC:
        raise SealError("it is cut short or does not begin as a model of ours does")
    end = len(content) - _DIGEST
    if hashlib.sha256(memoryview(content)[:end]).digest() != content[end:]:
        raise SealError("its digest is not that of its content: it was changed or cut short")
    body = start + int.from_bytes(content[len(MAGIC) : start], "little")
    if body > end:
        raise SealError("its header is longer than the file")
    head = _read_header(content[start:body])
    return Parts(head["kind"], head["values"], _read_arrays(head["arrays"], content, body, end))


def _header(value: Mapping[str, Any]) -> bytes:
    """Return the one way in which a header is written."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()


def _read_header(text: bytes) -> dict[str, Any]:
    try:
        value = json.loads(text)
        again = _header(value)
    except (ValueError, RecursionError) as error:
        raise SealError(f"its header is no JSON that can be read: {error}") from None
    if not isinstance(value, dict) or set(value) != {"arrays", "kind", "values"}:
        raise SealError("its header does not have arrays, kind and values, and nothing else")
    if not (
        isinstance(value["kind"], str)
        and isinstance(value["values"], dict)
        and isinstance(value["arrays"], list)
    ):
        raise SealError("its header's kind is no text, its values no table, or its arrays no list")
    if again != text:
        raise SealError("its header is not written in the one way there is")
    return value


def _read_arrays(declared: list[Any], content: bytes, start: int, end: int) -> dict[str, Array]:
    """Return the arrays; their sizes are compared with the file before one is made."""
    shapes: dict[str, tuple[int, ...]] = {}
    for one in declared:
        name, shape = _read_shape(one)
        if name in shapes:
            raise SealError(f"two of its arrays are called {name!r}")
        shapes[name] = shape
    if 8 * sum(math.prod(shape) for shape in shapes.values()) != end - start:
        raise SealError(f"its arrays, of shapes {_short(shapes)}, do not fill the file")
    found = {}
    for name, shape in shapes.items():
        size = math.prod(shape)
        flat = np.frombuffer(content, dtype=DOUBLE, count=size, offset=start)
        found[name] = flat.astype(np.float64).reshape(shape)  # a copy, which may be written to
        start += 8 * size
    return found


def _read_shape(one: Any) -> tuple[str, tuple[int, ...]]:
    if not isinstance(one, list) or len(one) != 3 or not isinstance(one[0], str):
        raise SealError(f"its header describes an array as {_short(one)}")
    name, kind, shape = one
    if kind != DOUBLE:
        raise SealError(f"its array {_short(name)} is of type {_short(kind)}, expected {DOUBLE!r}")
    # Every size at least 1: with a size of 0 among them the others could be anything.
    if not isinstance(shape, list) or not 1 <= len(shape) <= 2:
        raise SealError(f"its array {_short(name)} has shape {_short(shape)}")
    if not all(type(n) is int and n >= 1 for n in shape):
        raise SealError(f"its array {_short(name)} has shape {_short(shape)}")
    return name, tuple(shape)


def _short(value: Any) -> str:
    """Return a value for a message, which a hostile file must not make long."""
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."
