"""The figures of `counts` move towards their goals and never back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest

from house.counts import PRODUCT, Counts, count_files, count_source

SAMPLE = '''"""One line."""

# A comment of its own line.
from typing import Any, Literal


class Draw:
    """A draw.

    Its record.
    """

    seed: int
    """Its seed."""


def read(document: dict[str, Any], kind: Literal["x"]) -> int:
    """Read it."""
    found = document["seed"]  # a comment beside code
    return found + document.get("rows", 0) + document[0]
'''


@dataclass(frozen=True)
class Figure:
    """One figure: how it is read, where it stands, and where it should stand."""

    name: str
    read: Callable[[Counts], float]
    present: float
    goal: float

    @property
    def rises(self) -> bool:
        """Whether more is better."""
        return self.goal > self.present

    def went_back(self, counts: Counts) -> bool:
        """Say whether the figure is on the wrong side of where it stood, and of its goal."""
        figure = self.read(counts)
        worst = min(self.present, self.goal) if self.rises else max(self.present, self.goal)
        return figure < worst if self.rises else figure > worst


FIGURES = [
    Figure("files", lambda c: c.files, 219, 140),
    Figure("lines of code", lambda c: c.code, 52_950, 20_000),
    Figure("docstring lines, %", lambda c: 100 * c.docstring_share, 17.9, 18),
    Figure("comment lines, %", lambda c: 100 * c.comment_share, 1.9, 2),
    Figure("accesses by text in 1,000 lines", lambda c: c.keys_per_thousand, 2, 2),
    Figure("bindings that say nothing, %", lambda c: 100 * c.filler_share, 1.6, 1.6),
    Figure("uses of Any outside documents", lambda c: c.untyped, 0, 0),
]


def test_a_file_is_counted_line_by_line() -> None:
    counts = count_source(SAMPLE)
    assert counts.lines == 20
    assert counts.docstrings == 1 + 4 + 1 + 1
    assert counts.comments == 1
    assert counts.code == 1 + 1 + 1 + 3


def test_keys_are_constant_texts_and_types_are_no_keys() -> None:
    counts = count_source(SAMPLE)
    assert counts.keys == 2
    assert counts.untyped == 1
    assert count_source(SAMPLE, at_door=True).untyped == 0


def test_names_are_counted_where_they_are_bound() -> None:
    counts = count_source(SAMPLE)
    assert (counts.bindings, counts.filler) == (4, 1)


def test_counts_of_files_add_up() -> None:
    twice = count_source(SAMPLE) + count_source(SAMPLE)
    assert (twice.files, twice.keys, twice.lines) == (2, 4, 40)


@pytest.mark.parametrize(
    ("present", "goal", "better", "worse"), [(10.0, 4.0, 9.0, 10.1), (1.0, 2.0, 1.1, 0.9)]
)
def test_a_figure_may_move_one_way(
    present: float, goal: float, better: float, worse: float
) -> None:
    for reading, back in ((better, False), (worse, True), (goal, False)):
        figure = Figure("planted", lambda _, reading=reading: reading, present, goal)
        assert figure.went_back(Counts()) is back


@pytest.fixture(scope="module")
def product() -> Counts:
    return sum(count_files(PRODUCT).values(), Counts())


@pytest.mark.parametrize("figure", FIGURES, ids=lambda figure: figure.name)
def test_no_figure_of_the_product_goes_back(figure: Figure, product: Counts) -> None:
    assert not figure.went_back(product), (
        f"{figure.name}: {figure.read(product):g}, was {figure.present:g}, goal {figure.goal:g}; "
        "see python tests/house/counts.py"
    )
