"""Mistakes are answered in words that a person has read, and no answer shows a target record."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from cli.mistakes import DIGITS, GOLDEN, MARK, Walk, entries, walking
from cli.mistakes_made import MISTAKES

INTERNAL = (
    r"__\w+__", r"Traceback", r"\bErrno\b", r"\bpydantic\b", r"Input should be",
    r"function-after", r"constrained-", r"<[\w.]+ object", r"\b(got|is|found|has) None\b",
    r"(?<!mygen)(?<!broken)\.py, line", r"codec can't", r"a fault of ours",
)  # fmt: skip
"""What stands in no message: names of libraries and of Python, and places in our code."""


@pytest.fixture(scope="module")
def walk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Walk]:
    """The walk, with a good audit at every step."""
    with walking(tmp_path_factory.mktemp("mistakes")) as made:
        yield made


@pytest.fixture(scope="module")
def told(walk: Walk) -> list[str]:
    """What is told of every mistake."""
    return entries(walk)


def test_every_mistake_is_told_in_the_words_that_a_person_has_read(told: list[str]) -> None:
    found, golden = "\n".join(told), GOLDEN.read_text(encoding="utf-8")
    changed = "\n".join(difflib.unified_diff(golden.splitlines(), found.splitlines(), n=3))
    assert found == golden, f"read this, and keep it by tests/cli/mistakes.py:\n{changed}"


def test_there_are_150_mistakes_each_another() -> None:
    names = [(mistake.did, mistake.typed, mistake.call) for mistake in MISTAKES]
    assert len(set(names)) == len(names) >= 150


@pytest.mark.parametrize("pattern", INTERNAL)
def test_no_message_shows_internals(told: list[str], pattern: str) -> None:
    said = [re.sub(r"^(>>>|\$|\[\d+\]).*$", "", entry, flags=re.M) for entry in told]
    shown = [entry for entry, words in zip(told, said, strict=True) if re.search(pattern, words)]
    assert shown == []


def test_what_check_lets_pass_no_later_step_refuses(walk: Walk, told: list[str]) -> None:
    assert len(told) == len(MISTAKES)
    # Nor is there one that is said to be known later and is met by no step.
    assert walk.untold == []


def test_no_message_shows_a_value_of_a_target_record(walk: Walk, told: list[str]) -> None:
    shown = [entry for entry in told if MARK in entry or DIGITS in entry]
    assert shown == []
    # They stand in every table, so that a message could have shown them.
    tables = [path.read_text(errors="replace") for path in walk.root.glob("*/patients.csv")]
    assert sum(MARK in text and DIGITS in text for text in tables) > 200


def test_no_file_of_an_audit_shows_a_value_of_a_target_record(walk: Walk, told: list[str]) -> None:
    folders = [path.parent for path in walk.root.glob("*/*/audit.toml")]
    assert len(folders) >= len(told)
    held = [
        str(path.relative_to(walk.root))
        for folder in folders
        for path in folder.rglob("*")
        if path.is_file() and path.name != "audit.toml" and _shows(path)  # what its author wrote
    ]
    assert held == []


def _shows(path: Path) -> bool:
    content = path.read_bytes()
    return MARK.encode() in content or DIGITS.encode() in content
