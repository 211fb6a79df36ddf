"""Sharp p-value under contamination, and the lower limit obtained by inverting it.

With R draws, N of them favourable, g(b) = P(Bin(R, 1 - (1 - eta0)(1 - b)) >= N).
The p-value is the least concave majorant of g on [0, 1], evaluated at kappa.  As g
is first convex and then concave, the majorant at kappa is the larger of g(kappa)
and the highest chord from (0, g(0)) through a point b >= kappa.  The best b is
found on a grid followed by a golden-section search.  The lower limit is
sup{eta0 in [0, 1]: p-value <= alpha}, or 0 if there is none, by bisection.

Run: python tests/references/make_sharp.py
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from _common import bisect, digits, exact, upper_tail, write
from mpmath import mp, mpf

P_VALUES = [
    (1, 0, "0.5", "0.01"), (1, 1, "0.29", "0"), (1, 1, "0.5", "0.3"),
    (2, 1, "0.8", "0.05"), (2, 2, "0.29", "0.05"), (2, 2, "0.9", "1e-6"),
    (5, 0, "0.9", "0.3"), (5, 1, "0.29", "0.02"), (5, 3, "0.29", "0.01"),
    (5, 4, "0.5", "0.3"), (5, 5, "0.5", "0.001"), (5, 5, "0.95", "0.02"),
    (30, 3, "0.29", "0.05"), (30, 20, "0.29", "0.005"), (30, 25, "0.5", "0.02"),
    (30, 29, "0.8", "0.05"), (30, 30, "0.8", "0"), (30, 30, "0.9", "0.01"),
    (100, 60, "0.5", "0.001"), (100, 60, "0.5", "0.3"), (100, 95, "0.8", "0"),
    (100, 95, "0.8", "0.02"), (100, 99, "0.9", "0.005"), (100, 100, "0.29", "1e-6"),
    (100, 100, "0.95", "0.05"), (250, 100, "0.29", "0.01"), (250, 100, "0.5", "0.05"),
    (250, 215, "0.8", "0.01"), (250, 240, "0.9", "0.02"), (250, 246, "0.95", "0.005"),
    (250, 249, "0.29", "0.3"), (250, 249, "0.95", "0.001"), (250, 250, "0.9", "0.02"),
    (1000, 350, "0.29", "0.02"), (1000, 560, "0.5", "0.001"),
    (1000, 900, "0.8", "0.05"), (1000, 930, "0.9", "0.005"),
    (1000, 930, "0.9", "1e-6"), (1000, 999, "0.29", "0.024"),
    (1000, 999, "0.95", "0.01"), (1000, 1000, "0.29", "0"),
    (1000, 1000, "0.5", "1e-6"), (1000, 1000, "0.95", "0.02"),
    (1000, 999, "0.29", "0"),
]  # fmt: skip
LIMITS = [
    (0, 5, "0.01", "0.05"), (1, 1, "0", "0.05"), (1, 1, "0.02", "0.05"),
    (1, 1, "0.05", "0.01"), (2, 2, "0.01", "0.1"), (1, 2, "0.001", "0.05"),
    (5, 5, "0.001", "0.05"), (4, 5, "0.02", "0.05"), (30, 30, "0.01", "0.05"),
    (27, 30, "0.005", "0.025"), (10, 30, "0.02", "0.05"), (30, 30, "0.3", "0.5"),
    (100, 100, "1e-6", "1e-4"), (95, 100, "0.01", "0.05"), (60, 100, "0", "0.01"),
    (250, 250, "0.02", "0.05"), (246, 250, "0.005", "0.0125"),
    (240, 250, "0.02", "0.025"), (1000, 1000, "0.02", "0.05"),
    (999, 1000, "0.024", "0.05"), (930, 1000, "0.001", "0.05"),
    (250, 250, "0.06", "0.05"),
]  # fmt: skip


def highest(f: Callable[[mpf], mpf], low: mpf, points: int, width: mpf) -> mpf:
    """Return the maximum of a unimodal f on [low, 1]: grid, then golden section."""
    grid = [low + (1 - low) * i / points for i in range(points + 1)]
    values = [f(b) for b in grid]
    best = max(values)
    at = values.index(best)
    left, right = grid[max(at - 1, 0)], grid[min(at + 1, points)]
    ratio = (mp.sqrt(5) - 1) / 2
    x, y = right - ratio * (right - left), left + ratio * (right - left)
    fx, fy = f(x), f(y)
    while right - left > width:
        best = max(best, fx, fy)
        if fx < fy:
            left, x, fx = x, y, fy
            y = left + ratio * (right - left)
            fy = f(y)
        else:
            right, y, fy = y, x, fx
            x = right - ratio * (right - left)
            fx = f(x)
    return max(best, fx, fy)


def p_sharp(draws: int, favourable: int, eta0: mpf, kappa: mpf, points: int, width: mpf) -> mpf:
    """Return the concave majorant of g at kappa."""

    def g(b: mpf) -> mpf:
        return upper_tail(draws, favourable, 1 - (1 - eta0) * (1 - b))

    if favourable == 0 or kappa == 0:
        return g(kappa)
    start = g(mpf(0))
    slope = highest(lambda b: (g(b) - start) / b, kappa, points, width)
    return max(g(kappa), start + kappa * slope)


def main() -> None:
    """Write sharp.json."""
    rows: list[dict[str, Any]] = []
    for draws, favourable, eta0, kappa in P_VALUES:
        p = p_sharp(draws, favourable, exact(eta0), exact(kappa), 200, mpf("1e-24"))
        row: dict[str, Any] = {"kind": "p_value", "R": draws, "N": favourable}
        row |= {"eta0": eta0, "kappa": kappa}
        rows.append(row | {"value": digits(p), "log_value": digits(mp.log(p))})
    for favourable, draws, kappa, alpha in LIMITS:
        k, a = exact(kappa), exact(alpha)

        def passes(eta0: mpf, r: int = draws, n: int = favourable) -> bool:
            return p_sharp(r, n, eta0, k, 40, mpf("1e-18")) <= a  # noqa: B023

        value = bisect(passes, mpf(0), mpf(1), 26) if passes(mpf(0)) else mpf(0)
        row = {"kind": "lower_limit", "R": draws, "N": favourable, "kappa": kappa}
        rows.append(row | {"alpha": alpha, "value": digits(value)})
    write("sharp", rows)


if __name__ == "__main__":
    main()
