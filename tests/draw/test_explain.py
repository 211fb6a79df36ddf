"""Why a draw failed, in words that a report can print."""

from __future__ import annotations

import pytest

from proxyguard.documents.canonical import canonical_bytes
from proxyguard.draw.messages import WORDS, Failed, error_words, packed, unpacked


@pytest.mark.parametrize(
    ("message", "shown"),
    [
        ("no file /home/someone/data/rows.csv here", "no file rows.csv here"),
        ("'/home/some one/my data/rows.csv'", "'rows.csv'"),
        ("see https://example.org/a/b, 1/2 of it", "see https://example.org/a/b, 1/2 of it"),
        ("(/tmp/a/b:3)", "(b:3)"),
    ],
)
def test_folders_are_left_out(message: str, shown: str) -> None:
    try:
        raise ValueError(message)
    except ValueError as error:
        words = error_words(error)
    assert words.startswith(f"ValueError: {shown} (in test_explain.py, line ")


def test_a_missing_file_is_named_without_its_folders() -> None:
    try:
        open("/no/such folder/rows.csv").close()
    except OSError as error:
        words = error_words(error)
    assert "'rows.csv'" in words
    assert "/no" not in words


@pytest.mark.parametrize("words", ["odd \ud800 sign", "A" * 3_000_000, "\udcff" * 10_000])
def test_what_a_draw_says_is_text_that_can_be_sealed_and_no_longer_than_a_page(words: str) -> None:
    told = packed(Failed.model_construct(seed=1, status="failed", error=words, files={}))
    ((said, _, _),) = unpacked(told)
    error = said.model_dump()["error"]
    assert canonical_bytes(error)
    assert len(error) <= WORDS
    assert error[:4] == words.encode("ascii", "backslashreplace").decode()[:4]


def test_a_long_error_is_cut_where_it_arises_and_says_so() -> None:
    try:
        raise ValueError("A" * 3_000_000)
    except ValueError as error:
        words = error_words(error)
    assert len(words) < WORDS
    assert words.endswith(")")
    assert "(in test_explain.py, line" in words
    assert "3,000,012 characters" in words
