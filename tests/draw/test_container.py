"""One content is one file, and a file that is anything else is refused with a reason."""

from __future__ import annotations

import hashlib
import json
import struct
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from proxyguard.draw.container import MAGIC, Parts, parts_bytes, read_parts
from proxyguard.errors import SealError

SMALL = Parts("kind", {"n": 1}, {"a": np.array([1.5, -0.0]), "b": np.array([[np.inf]])})
DOUBLES = arrays.arrays(
    np.float64, arrays.array_shapes(min_dims=1, max_dims=2, max_side=4), elements=st.floats()
)
VALUES = st.dictionaries(
    st.text(),
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
        | st.text(st.characters()),
        lambda inner: st.lists(inner, max_size=3),
        max_leaves=5,
    ),
    max_size=3,
)  # fmt: skip


def assembled(header: bytes, body: bytes = b"", *, length: int | None = None) -> bytes:
    """Return a file whose digest is right, whatever it holds."""
    size = len(header) if length is None else length
    content = MAGIC + size.to_bytes(8, "little") + header + body
    return content + hashlib.sha256(content).digest()


def header(**changes: Any) -> bytes:
    """Return a header of one array of one double, with some fields replaced."""
    value = {"kind": "kind", "values": {}, "arrays": [["a", "<f8", [1]]], **changes}
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


def test_a_file_is_the_documented_bytes() -> None:
    text = b'{"arrays":[["a","<f8",[2]],["b","<f8",[1,1]]],"kind":"kind","values":{"n":1}}'
    content = b"proxyguard model 1\n" + bytes([len(text)]) + bytes(7) + text
    content += struct.pack("<3d", 1.5, -0.0, float("inf"))
    assert parts_bytes(SMALL) == content + hashlib.sha256(content).digest()


@given(st.text(), VALUES, st.dictionaries(st.text(), DOUBLES, max_size=3))
def test_what_is_read_is_what_was_written(
    kind: str, values: dict[str, Any], held: dict[str, Any]
) -> None:
    content = parts_bytes(Parts(kind, values, held))
    again = read_parts(content)
    assert (again.kind, again.values) == (kind, values)
    assert list(again.arrays) == list(held)
    for name, array in held.items():
        assert again.arrays[name].shape == array.shape
        assert again.arrays[name].tobytes() == array.tobytes()  # NaNs and zeros by their bits
    assert parts_bytes(again) == content


def test_arrays_can_be_written_to() -> None:
    read_parts(parts_bytes(SMALL)).arrays["a"][0] = 2.0


def test_an_array_is_stored_row_by_row_whatever_its_order_in_memory() -> None:
    rows = np.arange(6.0).reshape(2, 3)
    turned = Parts("kind", {}, {"a": np.asfortranarray(rows)})
    assert parts_bytes(turned) == parts_bytes(Parts("kind", {}, {"a": rows}))


def test_every_changed_byte_is_noticed() -> None:
    content = parts_bytes(SMALL)
    for place in range(len(content)):
        for bit in (1, 128):
            changed = bytearray(content)
            changed[place] ^= bit
            with pytest.raises(SealError):
                read_parts(bytes(changed))


def test_a_file_cut_short_or_made_longer_is_refused() -> None:
    content = parts_bytes(SMALL)
    for size in range(len(content)):
        with pytest.raises(SealError):
            read_parts(content[:size])
    with pytest.raises(SealError, match="digest"):
        read_parts(content + b"\x00")


@given(st.data())
def test_a_changed_file_with_its_digest_put_right_is_refused_or_is_the_file_of_what_is_read(
    data: st.DataObject,
) -> None:
    content = bytearray(parts_bytes(SMALL)[:-32])
    for _ in range(data.draw(st.integers(1, 3))):
        place = data.draw(st.integers(len(MAGIC), len(content) - 1))
        content[place] = data.draw(st.integers(0, 255))
    whole = bytes(content) + hashlib.sha256(content).digest()
    try:
        again = read_parts(whole)
    except SealError:
        return
    assert parts_bytes(again) == whole


@given(st.binary(max_size=200))
def test_bytes_at_random_are_no_header(text: bytes) -> None:
    with pytest.raises(SealError):
        read_parts(assembled(text))


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (assembled(header(), bytes(8), length=2**63), "longer than the file"),
        (assembled(header(arrays=[["a", "<f8", [2**62]]]), bytes(8)), "do not fill the file"),
        (assembled(header(arrays=[["a", "<f8", [2**40, 2**40]]]), bytes(8)), "do not fill"),
        (assembled(header(arrays=[["a", "<f8", [10**4000]]]), bytes(8)), "do not fill"),
        (assembled(header(), bytes(16)), "do not fill the file"),
        (assembled(header()), "do not fill the file"),
        (assembled(header(arrays=[["a", "<f8", [0]]])), "has shape"),
        (assembled(header(arrays=[["a", "<f8", [0, 2**62]]])), "has shape"),
        (assembled(header(arrays=[["a", "<f8", [-1]]]), bytes(8)), "has shape"),
        (assembled(header(arrays=[["a", "<f8", [True]]]), bytes(8)), "has shape"),
        (assembled(header(arrays=[["a", "<f8", [1.0]]]), bytes(8)), "has shape"),
        (assembled(header(arrays=[["a", "<f8", []]]), bytes(8)), "has shape"),
        (assembled(header(arrays=[["a", "<f8", [1, 1, 1]]]), bytes(8)), "has shape"),
        (assembled(header(arrays=[["a", "|O", [1]]]), bytes(8)), "of type '|O'"),
        (assembled(header(arrays=[["a", ">f8", [1]]]), bytes(8)), "of type '>f8'"),
        (assembled(header(arrays=[["a", {}, [1]]]), bytes(8)), "of type {}"),
        (assembled(header(arrays=[["a", "<f8"]]), bytes(8)), "describes an array as"),
        (assembled(header(arrays=[[1, "<f8", [1]]]), bytes(8)), "describes an array as"),
        (assembled(header(arrays=2 * [["a", "<f8", [1]]]), bytes(16)), "two of its arrays"),
        (assembled(header(arrays={}), b""), "no list"),
        (assembled(header(kind=["kind"]), bytes(8)), "kind is no text"),
        (assembled(header(values=[]), bytes(8)), "its values no table"),
        (assembled(header(more=1), bytes(8)), "and nothing else"),
        (assembled(b"[]"), "and nothing else"),
        (assembled(b" " + header(), bytes(8)), "the one way"),
        (assembled(header().replace(b":", b": "), bytes(8)), "the one way"),
        (assembled(header()[:-1] + b',"values":{}}', bytes(8)), "the one way"),
        (assembled(header(values={"n": float("nan")}), bytes(8)), "no JSON"),
        (assembled(b"[" * 200_000), "no JSON"),
        (assembled(b'{"kind":' + b"9" * 5000 + b"}"), "no JSON"),
        (assembled(b"\xff\xfe"), "no JSON"),
        (assembled(b""), "no JSON"),
    ],
)  # fmt: skip
def test_a_hostile_header_is_refused_with_its_reason(content: bytes, reason: str) -> None:
    with pytest.raises(SealError) as refusal:
        read_parts(content)
    assert reason in str(refusal.value)
    assert len(str(refusal.value)) < 400
