"""Which tables of a workload of marginals the releases of each mechanism answer, and how well."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

import proxyguard as pg
from reproduction.audits.analyse import measured
from reproduction.audits.tables import say, table

SHOWN = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Marginal:
    """One table of a workload and how far releases are off, cell by cell."""

    columns: tuple[str, ...]
    cells: tuple[str, ...]
    off: NDArray[np.float64]  # (R, cells) absolute difference between release and target
    limit: float

    @property
    def within(self) -> int:
        """How many releases have every cell within the limit, by estimate."""
        return int(np.count_nonzero(np.all(self.off < self.limit, axis=1)))

    @property
    def worst(self) -> tuple[str, float]:
        """The cell that is farthest off on average, and by how much."""
        mean = self.off.mean(axis=0)
        return self.cells[int(mean.argmax())], float(mean.max())


def marginals(audit: pg.Audit, group: str) -> list[Marginal]:
    """Return the tables of an audit whose only requirement is a workload of marginals."""
    registry = audit.folder.registry(audit.journal())
    (resolved,) = registry.members[registry.declaration.members[0].name].requirements
    # Two requirements a query, one of them the other with the sign turned.
    off = np.abs(measured(audit, group, "estimate").to_numpy()[:, ::2])
    places: dict[tuple[str, ...], list[int]] = {}
    for k, query in enumerate(resolved.queries):
        places.setdefault(tuple(column for column, _ in query.cell), []).append(k)
    return [
        Marginal(
            columns=columns,
            cells=tuple(", ".join(v for _, v in resolved.queries[k].cell) for k in own),
            off=off[:, own],
            limit=float(resolved.limit.value),
        )
        for columns, own in places.items()
    ]


def workload(audit: pg.Audit) -> str:
    """Return how many tables each mechanism answers within the limit, and its worst ones."""
    declared = audit.folder.registry(audit.journal()).declaration.members[0].requirement
    if any(part.form != "query" for part in declared):
        return ""  # a mechanism that the paper does not have, and losses of a classifier
    return "\n".join(_mechanism(audit, v.mechanism) for v in audit.certificate().verdicts)


def _mechanism(audit: pg.Audit, group: str) -> str:
    found = marginals(audit, group)
    releases = len(found[0].off)
    largest = np.concatenate([one.off for one in found], axis=1).max(axis=1)
    every = sum(one.within == releases for one in found)
    most = sum(2 * one.within > releases for one in found)
    cells = sum(len(one.cells) for one in found)
    worst = sorted(found, key=lambda one: -one.worst[1])[:SHOWN]
    rows = [
        (" x ".join(one.columns), len(one.cells), one.worst[0], f"{one.worst[1]:.3f}",
         f"{one.within} of {releases}")
        for one in worst
    ]  # fmt: skip
    words = say(
        "workload", group=group, tables=len(found), cells=cells, requirements=2 * cells,
        every=every, limit=found[0].limit, releases=releases, most=most, least=largest.min(),
        largest=largest.max(),
    )  # fmt: skip
    columns = ("table", "cells", "worst cell", "mean difference", "releases within the limit")
    return words + table(columns, rows)
