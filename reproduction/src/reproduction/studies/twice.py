"""A method decided twice: by its study, and by the package from the losses themselves."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

import proxyguard as pg
from reproduction.studies.study import Array, Cell, Methods, Metrics

Losses = NDArray[Any]
"""Releases x records x requirements."""


@dataclass(frozen=True, slots=True, eq=False)
class Twice:
    """One metric of one method: by the study, and by the package; one value a repetition."""

    method: str
    metric: str
    fast: Array
    public: Array

    @property
    def differ(self) -> int:
        """Repetitions in which the two are not the same."""
        return int(np.count_nonzero(self.fast != self.public))


Check = Callable[[Cell, np.random.Generator, int], Iterator[Twice]]
"""From a cell to its methods, each decided twice in so many repetitions."""


def twice(fast: Methods, public: Mapping[str, Metrics]) -> Iterator[Twice]:
    """Yield every metric that the package has too, beside what the study's method gives."""
    for method, metrics in public.items():
        by_study = fast[method]()
        for metric, values in metrics.items():
            yield Twice(
                method, metric, np.asarray(by_study[metric], dtype=np.float64),
                np.asarray(values, dtype=np.float64),
            )  # fmt: skip


class Asked:
    """What the package decided, repetition by repetition, of the methods it was asked for."""

    def __init__(self) -> None:
        self._values: dict[str, dict[str, dict[int, float]]] = {}

    def put(self, row: int, method: str, metrics: Mapping[str, float]) -> None:
        """Keep the metrics of one method in one repetition."""
        for metric, value in metrics.items():
            self._values.setdefault(method, {}).setdefault(metric, {})[row] = float(value)

    def beside(self, fast: Methods) -> Iterator[Twice]:
        """Yield every metric beside the study's, in the repetitions that were asked about."""
        for method, metrics in self._values.items():
            by_study = fast[method]()
            for metric, values in metrics.items():
                rows = np.array(list(values))
                yield Twice(
                    method, metric, np.asarray(by_study[metric], dtype=np.float64)[rows],
                    np.array(list(values.values())),
                )  # fmt: skip


def in_turn(papers: Sequence[str], ours: Sequence[str], row: int, *, every: bool) -> list[str]:
    """Return the methods of one repetition: all of the paper's, or one, and one of ours.

    Each call of the package reads all losses, so on large grids the paper's take turns as well.
    """
    own = [ours[row % len(ours)]] if ours else []
    return [*(papers if every else [papers[row % len(papers)]]), *own]


def two_valued(limit: float, requirements: int, **more: Any) -> list[pg.Requirement]:
    """Return requirements on losses of 0 and 1, all with one limit."""
    return [
        pg.Requirement(name=f"loss {j}", low=0, high=1, limit=limit, two_valued=True, **more)
        for j in range(requirements)
    ]


def drawn(
    rng: np.random.Generator, risks: Sequence[float], shape: tuple[int, int]
) -> NDArray[np.bool_]:
    """Return losses of 0 and 1, releases x records x requirements, each with its own risk."""
    return rng.random((*shape, len(risks))) < np.asarray(risks)


def largest(losses: Losses) -> NDArray[np.int64]:
    """Return the largest count of each release over its requirements."""
    return np.asarray(np.count_nonzero(losses, axis=1).max(axis=-1), dtype=np.int64)
