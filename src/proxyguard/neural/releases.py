"""Training tables of several draws as arrays, and their releases, also those under a condition."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from proxyguard.errors import DrawError

TableNumbers = NDArray[np.float64]
TableCodes = NDArray[np.int64]

# Rows of a release that are sampled in one turn.
SLICE = 20_000
# Turns, each of as many rows as are wanted, in which the wanted categories have to come.
TURNS = 100


@dataclass(frozen=True, slots=True)
class WantedCodes:
    """The category that each row of a release has in one column, by its code."""

    column: int
    codes: TableCodes  # (rows,)


@dataclass(frozen=True, slots=True)
class TrainingTables:
    """What several draws are trained on, and which releases are asked for.

    Attributes
    ----------
    numbers, codes
        ``(draws, n, p)`` and ``(draws, n, q)``.
    sizes
        Categories of each column of codes, in the source.
    rows
        Rows of a release.
    wanted
        For each draw the categories that its rows have, if any are wanted.
    told
        The column of codes that networks are told and do not make themselves, if any.
    """

    numbers: TableNumbers
    codes: TableCodes
    sizes: tuple[int, ...]
    rows: int
    wanted: Sequence[WantedCodes | None]
    told: int | None = None


@dataclass(frozen=True, slots=True)
class SampledTable:
    """One release: ``(rows, p)`` and ``(rows, q)``."""

    numbers: TableNumbers
    codes: TableCodes


@dataclass(frozen=True, slots=True)
class SampledRows:
    """Rows that networks gave: of each draw as many, and whether they are numbers at all."""

    numbers: TableNumbers  # (draws, rows, p)
    codes: TableCodes  # (draws, rows, q)
    finite: NDArray[np.bool_]  # (draws,)


def collect(
    more: Callable[[Sequence[int], int, int], SampledRows], tables: TrainingTables
) -> list[SampledTable | DrawError]:
    """Return the releases of all draws, sampled turn by turn.

    Parameters
    ----------
    more
        Gives new rows: of which draws, how many, in which turn.
    tables
        Says how many rows are wanted, and of which categories.

    Returns
    -------
    list
        For each draw its release; or an error, if the network did not train to finite numbers, or
        gave too few rows of a wanted category in `TURNS` turns.
    """
    results: dict[int, SampledTable | DrawError] = {}
    waiting = {k: _Waiting(tables.rows, wanted) for k, wanted in enumerate(tables.wanted)}
    turn = 0
    while waiting:
        # How many does not depend on the company of a draw, nor on what came before.
        size = min(SLICE, tables.rows)
        draws = sorted(waiting)
        given = more(draws, size, turn)
        turn += 1
        for k, numbers, codes, finite in zip(
            draws, given.numbers, given.codes, given.finite, strict=True
        ):
            if not finite:
                results[k] = DrawError(
                    "the network did not train to finite numbers; register a smaller learning "
                    "rate, or fewer steps"
                )
            elif waiting[k].take(numbers, codes):
                results[k] = waiting[k].release()
            elif turn * size >= TURNS * tables.rows and waiting[k].conditional:
                results[k] = waiting[k].refusal(turn * size)
        waiting = {k: left for k, left in waiting.items() if k not in results}
    return [results[k] for k in range(len(tables.wanted))]


class _Waiting:
    """A release that is not complete."""

    def __init__(self, rows: int, wanted: WantedCodes | None) -> None:
        self._rows, self._wanted = rows, wanted
        codes = np.zeros(rows, dtype=np.int64) if wanted is None else wanted.codes
        # The places of each category, and what came for them.
        self._places = {int(c): np.flatnonzero(codes == c) for c in np.unique(codes)}
        self._numbers: dict[int, list[TableNumbers]] = {c: [] for c in self._places}
        self._codes: dict[int, list[TableCodes]] = {c: [] for c in self._places}
        self._lacking = {c: len(places) for c, places in self._places.items()}

    @property
    def conditional(self) -> bool:
        return self._wanted is not None

    def take(self, numbers: TableNumbers, codes: TableCodes) -> bool:
        """Take what is lacking, and return whether nothing is any more."""
        for c, lacking in self._lacking.items():
            if lacking:
                fits = (
                    slice(None)
                    if self._wanted is None
                    else np.flatnonzero(codes[:, self._wanted.column] == c)
                )
                self._numbers[c].append(numbers[fits][:lacking])
                self._codes[c].append(codes[fits][:lacking])
                self._lacking[c] -= len(self._codes[c][-1])
        return not any(self._lacking.values())

    def release(self) -> SampledTable:
        order = np.concatenate(list(self._places.values()))
        back = np.argsort(order, kind="stable")
        numbers = np.concatenate([piece for c in self._places for piece in self._numbers[c]])
        codes = np.concatenate([piece for c in self._places for piece in self._codes[c]])
        return SampledTable(numbers[back], codes[back])

    def refusal(self, tried: int) -> DrawError:
        lacking = sum(self._lacking.values())
        return DrawError(
            f"of {tried:,} rows that the network gave, too few have the category that "
            f"condition asks for: {lacking:,} of {self._rows:,} rows are lacking; a rarer one than "
            "that takes a generator that is trained under the condition, or other training rows"
        )
