"""Why a draw failed, in words that a report can print."""

from __future__ import annotations

import pytest

from proxyguard.draw.worker import _explain


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
        words = _explain(error)
    assert words.startswith(f"ValueError: {shown} (in test_explain.py, line ")


def test_a_missing_file_is_named_without_its_folders() -> None:
    try:
        open("/no/such folder/rows.csv").close()
    except OSError as error:
        words = _explain(error)
    assert "'rows.csv'" in words
    assert "/no" not in words
