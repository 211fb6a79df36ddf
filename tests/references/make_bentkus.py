"""Bentkus-type p-value for a bounded mean, and the limit obtained by inverting it.

p(s; n, v) = min(1, min over integers h > s of sum_{k < h} F(k) / (h - s)), where F
is the distribution function of Bin(n, v) and s the observed sum.  Every integer h
from floor(s) + 1 to n + 5 is tried.  The upper limit is the v in [s/n, 1] with
p = delta, by bisection.

Run: python tests/references/make_bentkus.py
"""

from __future__ import annotations

from typing import Any

from _common import bisect, choose, digits, exact, write
from mpmath import mp, mpf

P_VALUES = [
    (2, "0.5", "0"), (2, "0.5", "0.5"), (2, "0.9", "1"), (2, "0.3", "0.37"),
    (2, "0.3", "2"), (3, "0.5", "0"), (3, "0.7", "1.5"), (3, "0.9", "0.123"),
    (3, "0.2", "1"), (3, "0.95", "2"), (10, "0.05", "0"), (10, "0.5", "2"),
    (10, "0.5", "2.5"), (10, "0.8", "3.217"), (10, "0.8", "7.9"), (10, "0.3", "3.5"),
    (10, "0.999", "1.25"), (50, "0.1", "0"), (50, "0.1", "2.5"), (50, "0.5", "12"),
    (50, "0.5", "24.9"), (50, "0.9", "31.4159"), (50, "0.9", "0.5"),
    (50, "0.99", "10"), (200, "0.05", "3.5"), (200, "0.05", "9.99"),
    (200, "0.5", "61.803"), (200, "0.8", "150"), (200, "0.8", "155.5"),
    (200, "0.8", "30"), (200, "0.95", "20.25"), (200, "0.75", "0"),
    (1000, "0.02", "7.7"), (1000, "0.3", "250"), (1000, "0.5", "499.5"),
    (1000, "0.5", "400.125"), (1000, "0.5", "100"), (1000, "0.7", "300.3"),
    (1000, "0.9", "862.5"), (1000, "0.9", "0"), (1000, "0.9", "1000"),
]  # fmt: skip
LIMITS = [
    (2, "0", "0.05"), (2, "1.5", "0.1"), (3, "0.75", "0.01"), (10, "3", "0.05"),
    (10, "3.217", "1e-6"), (50, "12.5", "0.025"), (50, "0", "1e-9"),
    (50, "49.5", "0.05"), (200, "150", "0.05"), (200, "61.803", "1e-12"),
    (200, "9.99", "0.5"),
]  # fmt: skip


def p_value(n: int, v: mpf, s: mpf) -> tuple[mpf, int]:
    """Return the p-value and the h that attains the minimum (0 if capped at 1)."""
    best, best_h = mpf(1), 0
    cdf, area = mpf(0), mpf(0)
    for h in range(1, n + 6):
        k = h - 1
        if k < n:
            cdf += choose(n, k) * v**k * (1 - v) ** (n - k)
        else:
            cdf = mpf(1)
        area += cdf
        if h > s and area / (h - s) < best:
            best, best_h = area / (h - s), h
    return best, best_h


def main() -> None:
    """Write bentkus.json."""
    rows: list[dict[str, Any]] = []
    for n, v, s in P_VALUES:
        value, h = p_value(n, exact(v), exact(s))
        row: dict[str, Any] = {"kind": "p_value", "n": n, "v": v, "s": s, "h": h}
        rows.append(row | {"value": digits(value), "log_value": digits(mp.log(value))})
    for n, s, delta in LIMITS:
        x, d = exact(s), exact(delta)
        limit = bisect(lambda v, n=n, x=x, d=d: p_value(n, v, x)[0] > d, x / n, 1, 30)
        row = {"kind": "upper_limit", "n": n, "s": s, "delta": delta}
        rows.append(row | {"value": digits(limit)})
    write("bentkus", rows)


if __name__ == "__main__":
    main()
