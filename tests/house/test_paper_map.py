"""PAPER.md names every statement of the paper, and only code and tests that exist."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest

import proxyguard
import reproduction

ROOT = Path(__file__).parents[2]
SOURCES = [
    path
    for package in (proxyguard, reproduction)
    for path in sorted(Path(str(package.__file__)).parent.rglob("*.py"))
]
ROWS = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in (ROOT / "PAPER.md").read_text(encoding="utf-8").splitlines()
    if line.startswith("| ") and not line.startswith("| Cited as")
]
CITED = [row[0] for row in ROWS]

# One shared counter for assumption, definitions, theorems and propositions.
STATEMENTS = {
    "Assumption": [1],
    "Definition": [2, 3],
    "Theorem": [4, 5, 6, 8, 9, 12, 13, 15],
    "Proposition": [7, 10, 11, 14, 16, 17, 18, 19],
}


def test_every_statement_and_equation_of_the_paper_has_one_row() -> None:
    expected = [f"{kind} {n}" for kind, numbers in STATEMENTS.items() for n in numbers]
    expected += [f"Eq. ({n})" for n in range(1, 22)]
    expected += [f"theory section {n}" for n in range(1, 7)]
    assert sorted(CITED) == sorted(expected)


@pytest.mark.parametrize("row", ROWS, ids=CITED)
def test_a_row_names_code_and_a_test_that_exist(row: list[str]) -> None:
    _, _, code, test = row
    module, name = code.strip("`").rsplit(".", 1)
    assert hasattr(importlib.import_module(f"proxyguard.{module}"), name)
    assert (ROOT / test.strip("`")).is_file()


def citations(text: str) -> set[str]:
    """Return the statements that a text cites, ranges and lists spelt out."""
    found = set()
    for kind, numbers in re.findall(
        r"(Theorem|Proposition|Definition|Assumption)s? (\d+(?:(?:, | and )\d+)*)", text
    ):
        found |= {f"{kind} {n}" for n in re.findall(r"\d+", numbers)}
    for numbers in re.findall(r"Eqs?\. ((?:\(?\d+\)?(?:-|, | and )?)+)", text):
        span = [int(n) for n in re.findall(r"\d+", numbers)]
        whole = range(span[0], span[-1] + 1) if "-" in numbers else span
        found |= {f"Eq. ({n})" for n in whole}
    found |= {f"theory section {n}" for n in re.findall(r"theory section (\d+)", text, flags=re.I)}
    return found


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.as_posix().rpartition("/src/")[2])
def test_the_source_cites_only_numbers_that_the_map_has(path: Path) -> None:
    unknown = citations(path.read_text(encoding="utf-8")) - set(CITED)
    assert not unknown


def test_a_wrong_number_would_be_noticed() -> None:
    assert citations("Theorem 7 and Eqs. (15)-(16), Theorems 12 and 13") == {
        "Theorem 7", "Eq. (15)", "Eq. (16)", "Theorem 12", "Theorem 13",
    }  # fmt: skip
    assert "Theorem 7" not in CITED
