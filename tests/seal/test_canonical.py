"""One value has one sequence of bytes, and what has none is refused."""

from __future__ import annotations

import json
from fractions import Fraction
from typing import Any

import pytest
import rfc8785
from hypothesis import given
from hypothesis import strategies as st

from proxyguard.documents.canonical import (
    MOST_EXACT,
    canonical_bytes,
    digest,
    is_written,
    read_plainly,
)
from proxyguard.errors import SealError

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-MOST_EXACT, MOST_EXACT)
    | st.text(st.characters(exclude_categories=("Cs",)), max_size=8)
    | st.floats(allow_nan=False, allow_infinity=False).filter(
        lambda x: not MOST_EXACT < abs(x) < 1e21  # refused, see below
    ),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text("abcé", max_size=3), inner),
    max_leaves=12,
)


def test_the_bytes_are_those_of_the_standard() -> None:
    # RFC 8785, section 3.2.2: the sample object and its canonical form.
    sample = {
        "numbers": [333333333.33333329, 1e30, 4.50, 2e-3, 0.000000000000000000000000001],
        "string": "\u20ac$\u000f\u000aA'\u0042\u0022\u005c\\\"\u002f",
        "literals": [None, True, False],
    }
    expected = (
        '{"literals":[null,true,false],"numbers":[333333333.3333333,1e+30,4.5,0.002,1e-27],'
        '"string":"\u20ac$\\u000f\\nA\'B\\"\\\\\\\\\\"/"}'
    )
    assert canonical_bytes(sample) == expected.encode()


@given(VALUES)
def test_reading_the_bytes_back_gives_the_same_bytes(value: Any) -> None:
    written = canonical_bytes(value)
    assert canonical_bytes(json.loads(written)) == written


NUMBERS = st.floats(allow_nan=False, allow_infinity=False).filter(
    lambda x: not MOST_EXACT < abs(x) < 1e21
) | st.floats(-2.0, 2.0)


TEXTS = st.text(st.characters(exclude_categories=("Cs",)), max_size=4)


@given(VALUES | st.lists(NUMBERS), st.dictionaries(TEXTS, TEXTS))
def test_the_bytes_are_those_of_the_reference_implementation(
    value: Any, texts: dict[str, str]
) -> None:
    assert canonical_bytes([value, texts]) == rfc8785.dumps([value, texts])


SPELLINGS: tuple[dict[str, Any], ...] = (
    {"separators": (",", ":"), "ensure_ascii": False, "sort_keys": True},
    {"separators": (",", ":"), "ensure_ascii": False},
    {"separators": (",", ":"), "sort_keys": True},
    {"sort_keys": True},
)


@given(VALUES, st.dictionaries(TEXTS, VALUES))
def test_what_is_read_plainly_is_canonical_however_it_was_spelt(
    value: Any, more: dict[str, Any]
) -> None:
    for options in SPELLINGS:
        content = json.dumps([value, more, 1e-5], **options).encode("utf-8")
        for spelt in (content, content.replace(b"1e-05", b"7")):
            try:
                read = read_plainly(spelt)
            except ValueError:
                continue
            assert canonical_bytes(read) == spelt
            assert is_written(read, spelt)


@pytest.mark.parametrize(
    "content",
    [
        b"1.0", b"1e1", b"-0", b"NaN", b"Infinity", b"9007199254740992", b"9007199254740993", b" 1",
        b"1\n", b'{"a":1,"a":1}', b'{"b":1,"a":1}', b'"\\u0061"', b'"\\ud800"', b"\xff",
        '{"\ue000":1,"\U00010000":1}'.encode(),
    ],
)  # fmt: skip
def test_no_other_spelling_is_read_plainly(content: bytes) -> None:
    assert read_plainly(b'{"a":[1,"\xc3\xa9",null,true]}') == {"a": [1, "é", None, True]}
    with pytest.raises(ValueError, match=r"."):
        read_plainly(content)


@pytest.mark.parametrize(
    ("value", "other"), [({"a": 1.0}, {"a": 1.5}), ({"a": 1}, {"a": True}), ({"a": "1"}, {"a": 1})]
)
def test_bytes_are_those_of_one_value(value: Any, other: Any) -> None:
    assert is_written(value, canonical_bytes(value))
    assert not is_written(other, canonical_bytes(value))


@given(st.dictionaries(st.text("abc", max_size=3), st.integers(0, 9), min_size=2))
def test_key_order_does_not_matter(value: dict[str, int]) -> None:
    assert digest(dict(reversed(value.items()))) == digest(value)


def test_a_digest_is_sha256_in_hexadecimal() -> None:
    # sha256 of the two bytes "{}": openssl dgst -sha256.
    assert digest({}) == "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"


@pytest.mark.parametrize(
    ("value", "named"),
    [
        ({"a": float("nan")}, "value.a is nan"),
        ([float("inf")], r"value\[0\] is inf"),
        ({1: "a"}, "key 1"),
        ({"a": {"b": Fraction(1, 2)}}, "value.a.b is a Fraction"),
        ({"a": b"raw"}, "value.a is a bytes"),
        ({"n": 2**53}, "too large"),
        ({"n": 2.0**53}, "too large"),
        ("\ud800", "cannot be sealed"),
    ],
)
def test_what_has_no_canonical_form_is_refused_by_place(value: Any, named: str) -> None:
    with pytest.raises(SealError, match=named):
        canonical_bytes(value)
