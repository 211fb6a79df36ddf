"""Time-uniform lower limit for a Bernoulli probability.

For S successes in n trials, M(p) = B(1+S, 1+n-S) (1 - I_p(1+S, 1+n-S)) / (1 - p)
divided by p^S (1-p)^(n-S): a uniform mixture over (p, 1) against p.  The limit is
the point of (0, S/(n+1)] at which M falls below 1/alpha; it is S/(n+1) if M is
still at least 1/alpha there, and 0 for S = 0.  M decreases on that interval, so
bisection applies.  The code uses B(1+S, 1+n-S) = 1/((n+1) C(n, S)) and
1 - I_p(1+S, 1+n-S) = P(Bin(n+1, p) <= S).

Run: python tests/references/make_sequence.py
"""

from __future__ import annotations

from typing import Any

from _common import bisect, choose, digits, exact, lower_tail, write
from mpmath import mpf

CASES = [
    (0, 20, "0.05"), (1, 1, "0.05"), (1, 10, "0.05"), (5, 5, "0.7"), (9, 10, "0.05"),
    (10, 10, "0.001"), (25, 50, "0.025"), (49, 50, "0.05"), (190, 200, "0.05"),
    (200, 200, "1e-6"), (246, 250, "0.0125"), (500, 1000, "0.05"),
    (999, 1000, "0.05"), (9300, 10000, "1e-9"), (50, 100, "0.9"),
]  # fmt: skip


def mixture_ratio(p: mpf, successes: int, n: int) -> mpf:
    """Return M(p)."""
    area = lower_tail(n + 1, successes, p) / ((n + 1) * choose(n, successes))
    return area / (1 - p) / (p**successes * (1 - p) ** (n - successes))


def limit(successes: int, n: int, alpha: mpf) -> mpf:
    """Return the lower limit."""
    top = mpf(successes) / (n + 1)
    if successes == 0 or mixture_ratio(top, successes, n) >= 1 / alpha:
        return top
    return bisect(lambda p: mixture_ratio(p, successes, n) >= 1 / alpha, mpf(0), top)


def main() -> None:
    """Write sequence.json."""
    rows: list[dict[str, Any]] = []
    for successes, n, alpha in CASES:
        row: dict[str, Any] = {"kind": "lower_limit", "S": successes, "n": n}
        row["alpha"] = alpha
        rows.append(row | {"value": digits(limit(successes, n, exact(alpha)))})
    write("sequence", rows)


if __name__ == "__main__":
    main()
