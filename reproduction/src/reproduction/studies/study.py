"""What a study is: cells, a law, methods, repetitions, and what was published."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

Cell = Mapping[str, Any]
Array = NDArray[np.float64]
ROUNDING = 1e-13
"""A sum of squares about its mean that is smaller, relatively, is what rounding leaves."""


class Status(Enum):
    """Where a method comes from."""

    REGISTERED = "registered"
    POST_HOC = "post hoc"
    INVALID = "invalid diagnostic"
    ORACLE = "oracle"
    OURS = "ours"


@dataclass(frozen=True, slots=True)
class Sums:
    """What repetitions leave behind of one metric: enough for its mean and standard error."""

    n: int
    total: float
    squares: float

    @classmethod
    def of(cls, values: ArrayLike) -> Sums:
        """Return the sums of one value a repetition."""
        x = np.asarray(values, dtype=np.float64)
        return cls(x.size, float(x.sum()), float((x * x).sum()))

    def __add__(self, other: Sums) -> Sums:
        return Sums(self.n + other.n, self.total + other.total, self.squares + other.squares)

    @property
    def mean(self) -> float:
        """The mean over repetitions."""
        return self.total / self.n

    @property
    def standard_error(self) -> float:
        """The Monte Carlo error: ``sd(ddof=1)/sqrt(n)``, 0 for one value throughout."""
        if self.n < 2:
            return float("nan")
        spread = self.squares - self.total**2 / self.n
        if spread <= ROUNDING * self.squares:
            return 0.0
        return float(np.sqrt(spread / (self.n - 1) / self.n))

    @property
    def binary(self) -> bool:
        """Whether every value was 0 or 1, so that exact limits for a rate apply."""
        return self.total == self.squares and self.total == round(self.total)


Outcome = Mapping[tuple[str, str], Sums]
"""From method and metric to sums."""
Metrics = Mapping[str, ArrayLike]
"""From metric to one value a repetition."""
Methods = Mapping[str, Callable[[], Metrics]]
"""From method to how its metrics are computed, where they are wanted."""
Wanted = frozenset[str]
"""The methods that a run asks for; a law is drawn for no other."""


def tally(methods: Methods, wanted: Wanted) -> dict[tuple[str, str], Sums]:
    """Evaluate the wanted methods, and no other, each to one value a repetition and metric."""
    return {
        (name, metric): Sums.of(values)
        for name, evaluate in methods.items()
        if name in wanted
        for metric, values in evaluate().items()
    }


def computed(value: float, repetitions: int) -> Array:
    """Return a figure that is computed, not simulated: the same value in each repetition."""
    return np.full(repetitions, value)


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """A published figure: its value, the digits it was printed with, and its repetitions."""

    value: float
    digits: int
    repetitions: int | None = None  # None: computed, not simulated
    standard_error: float | None = None  # of a mean that is no rate, where it was printed
    rate: bool = True  # 0 or 1 in each repetition; False for means of bounds, counts or shares

    def __post_init__(self) -> None:
        if self.rate and self.standard_error is not None:
            raise ValueError("the standard error of a rate follows from its repetitions")

    @property
    def simulated_rate(self) -> bool:
        """Whether the figure is a count of repetitions, divided by their number."""
        return self.rate and self.repetitions is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class Study:
    """One simulation or planning table."""

    name: str
    paper: str  # table or figure
    seed: int
    repetitions: int
    cells: tuple[Cell, ...]
    simulate: Callable[[Cell, np.random.Generator, int, Wanted], Outcome]
    methods: Mapping[str, Status]
    published: Mapping[tuple[int, str, str], Published] = field(default_factory=dict)
    exact: Callable[[Cell], Mapping[tuple[str, str], float]] | None = None
    block: int = 500  # repetitions simulated at once
    own: bool = False  # a study that the paper lacks
    also: Mapping[str, str] = field(default_factory=dict)  # "mode, test" of the paper's methods
    cross: bool = True  # whether a mean over cells compares modes and tests fairly
    differs: str = "Independent seeds; statistically equal, never in digits."

    def published_methods(self) -> tuple[str, ...]:
        """The methods that are the paper's own."""
        return tuple(name for name, status in self.methods.items() if status is not Status.OURS)


def grid(**values: Sequence[Any]) -> tuple[dict[str, Any], ...]:
    """Return every combination, the last name running fastest.

    >>> grid(n=(1, 2), R=(3,))
    ({'n': 1, 'R': 3}, {'n': 2, 'R': 3})
    """
    return tuple(dict(zip(values, one, strict=True)) for one in product(*values.values()))


def place(cells: Sequence[Cell], **wanted: Any) -> int:
    """Return the index of the one cell with these values."""
    found = [i for i, c in enumerate(cells) if all(c[k] == v for k, v in wanted.items())]
    if len(found) != 1:
        raise ValueError(f"{len(found)} cells have {wanted}")
    return found[0]
