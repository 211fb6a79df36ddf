"""Binomial tails and one-sided Clopper-Pearson limits.

Tails are direct sums of the probabilities.  The lower limit is the p with
P(Bin(n, p) >= k) = alpha (0 for k = 0), the upper limit the p with
P(Bin(n, p) <= k) = alpha (1 for k = n); both are found by bisection.

Run: python tests/references/make_binomial.py
"""

from __future__ import annotations

from typing import Any

from _common import bisect, digits, exact, lower_tail, upper_tail, write
from mpmath import mp, mpf

LOWER = [
    (1, 0, "0.5"), (1, 0, "1e-9"), (10, 3, "0.3"), (10, 0, "0.9"), (10, 10, "0.4"),
    (50, 10, "0.5"), (200, 3, "0.05"), (200, 199, "0.9"), (250, 245, "0.99"),
    (1000, 400, "0.5"), (1000, 0, "0.5"), (1000, 0, "0.9"), (1000, 10, "0.7"),
    (5000, 2173, "0.5"), (100000, 49000, "0.5"), (100000, 30000, "0.5"),
    (100000, 0, "0.001"), (100000, 5, "0.0001"), (100000, 99999, "0.9999"),
    (100000, 99000, "0.999999"),
]  # fmt: skip
UPPER = [
    (1, 1, "0.3"), (2, 1, "0.5"), (3, 2, "0.01"), (10, 7, "0.3"), (10, 0, "0.2"),
    (30, 30, "0.8"), (100, 95, "0.8"), (250, 250, "0.29"), (1000, 999, "0.29"),
    (1000, 1000, "0.29"), (1000, 900, "0.5"), (1000, 420, "0.5"),
    (5000, 154, "0.02"), (5000, 118, "0.025"), (100000, 51000, "0.5"),
    (100000, 60000, "0.3"), (100000, 100000, "0.5"), (100000, 1, "1e-9"),
    (100000, 99990, "0.9999"), (100000, 200, "0.001"),
]  # fmt: skip
LIMITS = [
    (1, 0, "0.05"), (1, 1, "0.05"), (1, 1, "1e-12"), (2, 1, "0.5"), (10, 3, "0.05"),
    (10, 9, "1e-6"), (50, 0, "0.01"), (50, 50, "0.01"), (50, 25, "1e-12"),
    (200, 190, "0.025"), (200, 1, "1e-9"), (250, 249, "0.05"), (250, 246, "0.001"),
    (1000, 999, "0.05"), (1000, 500, "1e-12"), (5000, 2173, "0.025"),
    (5000, 154, "0.0125"), (5000, 118, "1e-4"), (100000, 0, "0.5"),
    (100000, 1, "1e-12"), (100000, 50000, "0.05"), (100000, 99999, "1e-6"),
]  # fmt: skip


def tail_row(kind: str, n: int, k: int, p: str) -> dict[str, Any]:
    """Return one tail; its logarithm uses the complement when the tail is large."""
    x = exact(p)
    if kind == "lower_tail":
        value, rest = lower_tail(n, k, x), upper_tail(n, k + 1, x)
    else:
        value, rest = upper_tail(n, k, x), lower_tail(n, k - 1, x) if k else mpf(0)
    log_value = mp.log1p(-rest) if value > 0.5 else mp.log(value)
    row: dict[str, Any] = {"kind": kind, "n": n, "k": k, "p": p}
    return row | {"value": digits(value), "log_value": digits(log_value)}


def limit_row(kind: str, n: int, k: int, alpha: str) -> dict[str, Any]:
    """Return one Clopper-Pearson limit."""
    a = exact(alpha)
    if kind == "lower_limit":
        value = (
            mpf(0) if k == 0
            else bisect(lambda p: upper_tail(n, k, p) < a, mpf(0), mpf(1))
        )  # fmt: skip
    else:
        value = (
            mpf(1) if k == n
            else bisect(lambda p: lower_tail(n, k, p) > a, mpf(0), mpf(1))
        )  # fmt: skip
    return {"kind": kind, "n": n, "k": k, "alpha": alpha, "value": digits(value)}


def main() -> None:
    """Write binomial.json."""
    rows = [tail_row("lower_tail", *case) for case in LOWER]
    rows += [tail_row("upper_tail", *case) for case in UPPER]
    rows += [limit_row("lower_limit", *case) for case in LIMITS]
    rows += [limit_row("upper_limit", *case) for case in LIMITS]
    write("binomial", rows)


if __name__ == "__main__":
    main()
