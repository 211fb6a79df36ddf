"""A file of a model is NumPy's, of one spelling, and a hostile one is refused with its reason."""

from __future__ import annotations

import io
import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from proxyguard.errors import SealError
from proxyguard.models import npy
from proxyguard.models.npy import Content, read_content

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(st.characters()),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
ARRAYS = st.one_of(
    npst.arrays(np.float64, npst.array_shapes(min_dims=1, max_dims=2, min_side=0, max_side=4)),
    npst.arrays(np.int32, npst.array_shapes(min_dims=1, max_dims=2, min_side=0, max_side=4)),
)


@given(
    st.text(max_size=5),
    st.dictionaries(st.text(max_size=5).filter(lambda key: key != "kind"), VALUES, max_size=3),
    st.dictionaries(st.sampled_from(["a", "b", "c"]), ARRAYS, max_size=3),
)
def test_what_is_written_is_read_back(
    kind: str, words: dict[str, Any], arrays: dict[str, Any]
) -> None:
    file = Content(kind, words, arrays).to_bytes()
    again = read_content(file)
    assert (again.kind, again.words) == (kind, words)
    assert list(again.arrays) == list(arrays)
    for name, array in arrays.items():
        found = again.arrays[name]
        assert (found.dtype, found.shape, found.tobytes()) == (
            array.dtype, array.shape, array.tobytes(),
        )  # fmt: skip
        assert found.flags.owndata or found.base.flags.owndata  # and not a view of the file
    assert again.to_bytes() == file


def saved(array: Any, **options: Any) -> bytes:
    sink = io.BytesIO()
    np.save(sink, array, **options)
    return sink.getvalue()


def record(*fields: Any, words: Any = b'{"kind":"k"}') -> np.ndarray:
    made = np.zeros((), dtype=[*fields, ("words", f"S{len(words)}")])
    made["words"] = words
    return made


def headed(header: str, body: bytes = b"") -> bytes:
    """Return a file with a header of any text."""
    text = header.encode("latin1")
    return npy.START + len(text).to_bytes(2, "little") + text + body


FIELD = "('words', '|S12')"


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "cut short"),
        (npy.MAGIC, "cut short"),
        (npy.START, "cut short"),
        (npy.START + b"\xff\xff", "cut short"),
        (saved(np.array([1, None], dtype=object), allow_pickle=True), "expected one record"),
        (saved(np.zeros(3)), "expected one record"),
        (saved(np.zeros(3, dtype=[("words", "S1")])), "of shape (3,), expected one record"),
        (saved(np.zeros((), dtype=[("a", "<f8")])), "its fields are ('a',)"),
        (saved(record(("a", "<f8"), words=b"x")), "no JSON"),
        (saved(record(words=b"[]")), "names no kind"),
        (saved(record(words=b'{"kind":1}')), "names no kind"),
        (saved(record(words=b"[" * 100_000)), "no JSON"),
        (saved(record(words=b'{"kind":' + b"9" * 5000 + b"}")), "no JSON"),
        (saved(record(words=b"[" + b"[]," * 3_000_000 + b"]")), "more than 5,000,000 values"),
        (saved(record(words=b"\xff\xfe")), "no JSON"),
        (saved(np.zeros((), dtype=[("words", "<f8")])), "the last should be the text"),
        (saved(np.zeros((), dtype=[("words", "S5"), ("a", "<f8")])), "the last should be"),
        (saved(record(("a", ">f8"))), "of type '>f8'"),
        (saved(record(("a", "<f4"))), "of type '<f4'"),
        (saved(record(("a", "<i8", (2,)))), "of type '<i8'"),
        (saved(record(("a", "S3"))), "of type '|S3'"),
        (saved(record(("a", [("b", "<f8")]))), "of type"),
        (saved(record(*[(f"a{k}", "<f8") for k in range(40)])), "its fields are"),
        (saved(record(("a", "<f8"))) + b"\0", "is followed by"),
        (saved(record(("a", "<f8")))[:-1], "is followed by"),
        (headed("{'descr': '|O', 'shape': ()}"), "expected one record"),
        (headed(f"{{'descr': [('a', '|O'), {FIELD}], 'shape': ()}}", bytes(20)), "of type '|O'"),
        (headed(f"{{'descr': [('a', '<f8', (10**9,)), {FIELD}], 'shape': ()}}"), "cannot be read"),
        (headed(f"{{'descr': [('a', '<f8', (100000000,)), {FIELD}], 'shape': ()}}"),
         "its arrays take 800,000,012 bytes"),
        (headed(f"{{'descr': [('a', '<f8', (99999999999,)), {FIELD}], 'shape': ()}}"),
         "cannot be read"),
        (headed(f"{{'descr': [{FIELD}], 'shape': ()}}", bytes(11)), "is followed by"),
        (headed("{'descr': [('words', '|S0')], 'shape': ()}"), "its arrays take 0 bytes"),
        (headed("[]"), "cannot be read"),
        (headed("{}"), "cannot be read"),
        (headed("{'descr': [()], 'shape': ()}"), "cannot be read"),
        (headed("{'descr': [('a',)], 'shape': ()}"), "cannot be read"),
        (headed("__import__('os').system('true')"), "cannot be read"),
        (headed("(" * 3000), "cannot be read"),
        (headed("-" * 9000 + "1"), "cannot be read"),
        (headed("\xff"), "cannot be read"),
        (headed(" " * 20_000), "its header has 20,000 bytes"),
    ],
)  # fmt: skip
def test_a_hostile_file_is_refused_with_its_reason(content: bytes, reason: str) -> None:
    with pytest.raises(SealError) as refusal:
        read_content(content)
    assert reason in str(refusal.value)
    assert len(str(refusal.value)) < 400


def test_another_spelling_of_a_file_has_the_same_content_and_other_bytes() -> None:
    # What `load_model` refuses: one model would have many files.
    file = Content("k", {"a": "b"}, {"x": np.ones(2)}).to_bytes()
    record = np.load(io.BytesIO(file))
    loose = saved(record.astype([("x", "<f8", (2,)), ("words", "S40")]))
    for other in (file.replace(b"'shape': (), ", b"'shape':  (),"), loose):
        assert other != file
        again = read_content(other)
        assert (again.kind, again.words) == ("k", {"a": "b"})
        assert again.to_bytes() == file
    assert json.loads(record["words"].item()) == {"a": "b", "kind": "k"}
