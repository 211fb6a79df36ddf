"""From sums to rows: estimates with their Monte Carlo limits, beside what was published."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil, erfc, floor, sqrt
from typing import Any

import numpy as np
from scipy.stats import binomtest, fisher_exact

from proxyguard.exact.binomial import clopper_pearson_upper, wilson_interval
from proxyguard.exact.multiplicity import holm_adjusted
from reproduction.studies.study import Cell, Outcome, Published, Study, Sums

LEVEL = 0.05
"""Familywise level at which published figures are said to differ."""

PLANTED = 0.03
"""An error of a rate that the comparison is asked to report."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One estimate of one method in one cell."""

    study: str
    cell: Cell
    method: str
    status: str
    metric: str
    value: float
    standard_error: float | None  # None: computed, not simulated
    wilson: tuple[float, float] | None
    upper95: float | None
    repetitions: int
    published: float | None
    exact: float | None
    p_agree: float | None

    def to_dict(self) -> dict[str, Any]:
        """Return plain values."""
        return {
            "study": self.study,
            "cell": dict(self.cell),
            "method": self.method,
            "status": self.status,
            "metric": self.metric,
            "value": self.value,
            "standard_error": self.standard_error,
            "wilson": None if self.wilson is None else list(self.wilson),
            "upper95": self.upper95,
            "repetitions": self.repetitions,
            "published": self.published,
            "exact": self.exact,
            "p_agree": self.p_agree,
        }


def rows_of(study: Study, index: int, outcome: Outcome) -> list[Row]:
    """Return the rows of one cell."""
    cell = study.cells[index]
    known = {} if study.exact is None else study.exact(cell)
    rows = []
    for (method, metric), sums in outcome.items():
        printed = study.published.get((index, method, metric))
        exact = known.get((method, metric))
        rows.append(
            Row(
                study=study.name,
                cell=cell,
                method=method,
                status=study.methods[method].value,
                metric=metric,
                value=sums.mean,
                standard_error=sums.standard_error if sums.n > 1 else None,
                wilson=wilson_interval(round(sums.total), sums.n) if sums.binary else None,
                upper95=_upper95(sums) if sums.binary else None,
                repetitions=sums.n,
                published=None if printed is None else printed.value,
                exact=exact,
                p_agree=(
                    None
                    if printed is None or (printed.repetitions is not None and sums.n < 2)
                    else p_agree(sums, printed, exact)
                ),
            )
        )
    return rows


def _upper95(sums: Sums) -> float:
    """Return the exact one-sided 95 % limit of a rate."""
    return float(clopper_pearson_upper(round(sums.total), sums.n, alpha=0.05))


def p_agree(sums: Sums, printed: Published, exact: float | None) -> float:
    """Return the chance of a difference as large if ours and the published run share one law.

    A printed figure stands for every count that rounds to it; the most favorable one is
    compared. Where a sum gives the exact rate, the published count and ours are both tested
    against that, which sees smaller errors than comparing two runs.
    """
    half = 0.5 * 10.0**-printed.digits * (1 + 1e-9)
    if printed.repetitions is None:
        return 1.0 if abs(sums.mean - printed.value) <= half else 0.0
    m = printed.repetitions
    rate = sums.binary and printed.standard_error is None
    if rate and exact is not None:
        theirs = max(
            float(binomtest(k, m, exact).pvalue) for k in _counts(printed, m, half, m * exact)
        )
        ours = float(binomtest(round(sums.total), sums.n, exact).pvalue)
        return min(1.0, 2.0 * min(theirs, ours))
    if rate:
        k = round(sums.total)
        return max(
            float(fisher_exact(np.array([[k, sums.n - k], [c, m - c]])).pvalue)
            for c in _counts(printed, m, half, m * k / sums.n)
        )
    gap = max(0.0, abs(sums.mean - printed.value) - half)
    error = sums.standard_error
    other = printed.standard_error or error * sqrt(sums.n / m)
    total = sqrt(error**2 + other**2)
    return 1.0 if gap == 0.0 else float(erfc(gap / (total or 1e-300) / sqrt(2.0)))


def error_shows(printed: Published, repetitions: int, exact: float | None, family: int) -> bool:
    """Whether an estimate three points off, up or down, differs at Holm's first step.

    An error that would leave [0, 1] is not asked about.
    """
    off = [printed.value + error for error in (-PLANTED, PLANTED)]
    counts = [round(value * repetitions) for value in off if 0.0 <= value <= 1.0]
    return all(
        p_agree(Sums(repetitions, count, count), printed, exact) * family <= LEVEL
        for count in counts
    )


def _counts(printed: Published, m: int, half: float, near: float) -> Sequence[int]:
    """Return the counts that a printed rate may stand for: its ends, and those nearest to one."""
    low = min(m, max(0, ceil((printed.value - half) * m - 1e-9)))
    high = min(m, max(low, floor((printed.value + half) * m + 1e-9)))
    inside = [min(max(count, low), high) for count in (floor(near), ceil(near))]
    return sorted({low, high, *inside})


@dataclass(frozen=True, slots=True, kw_only=True)
class Agreement:
    """Which published figures a run agrees with, by Holm over all of them."""

    compared: int
    differ: tuple[Row, ...]

    @property
    def good(self) -> bool:
        """Whether no published figure differs."""
        return not self.differ

    @property
    def sentence(self) -> str:
        """The verdict in words."""
        if self.compared == 0:
            return "Nothing was published to compare with."
        if self.good:
            return f"All {self.compared} published figures agree (Holm at {LEVEL:g})."
        names = "; ".join(f"{r.study}, {r.method}, {r.metric}" for r in self.differ)
        return f"{len(self.differ)} of {self.compared} published figures differ: {names}."


def agreement(rows: Sequence[Row], level: float = LEVEL) -> Agreement:
    """Return the verdict over all published figures of a run."""
    compared = [row for row in rows if row.p_agree is not None]
    if not compared:
        return Agreement(compared=0, differ=())
    adjusted = holm_adjusted(np.array([row.p_agree for row in compared], dtype=np.float64))
    differ = tuple(r for r, a in zip(compared, adjusted, strict=True) if a <= level)
    return Agreement(compared=len(compared), differ=differ)


def merge(first: Mapping[Any, Sums], second: Mapping[Any, Sums]) -> dict[Any, Sums]:
    """Return the sums of two blocks of repetitions."""
    if set(first) != set(second):
        raise ValueError("two blocks of one cell have other methods or metrics")
    return {key: first[key] + second[key] for key in first}
