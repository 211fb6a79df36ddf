"""Betting p-value for a bounded mean with a predictable stake.

m_i = (1/2 + sum_{s<=i} u_s) / (i + 1); s2_0 = 1/4 and
s2_i = (1/4 + sum_{s<=i} (u_s - m_s)^2) / (i + 1);
lambda_i = min(sqrt(2 log(1/t) / (n s2_{i-1})), 0.9 / (1 - v));
K_i = prod_{s<=i} (1 + lambda_s (v - u_s)); p = min(1, 1 / max_{i>=1} K_i).
The constant 0.9 is taken as the double nearest to it.

Run: python tests/references/make_betting.py
"""

from __future__ import annotations

from typing import Any

from _common import digits, exact, write
from mpmath import mp, mpf


def generic(n: int, step: int, top: int) -> list[str]:
    """Return n scattered decimals in [0, top/1000], three digits each."""
    return [f"{(step * i * i + 137 * i + 71) % (top + 1) / 1000:.3f}" for i in range(n)]


TWO_VALUED = ["0" if i % 4 else "1" for i in range(40)]
TWO_LEVELS = ["0.2" if i % 3 else "0.9" for i in range(30)]
CASES = [
    (TWO_VALUED, "0.5", "0.05"),
    (TWO_VALUED, "0.2", "0.01"),
    (TWO_LEVELS, "0.8", "0.001"),
    (["0"] * 25, "0.05", "0.05"),
    (["0"] * 40, "0.95", "1e-4"),
    (["1"] * 20, "0.95", "0.05"),
    (["1"] * 10, "0.3", "0.01"),
    (generic(40, 311, 1000), "0.8", "0.05"),
    (generic(40, 311, 400), "0.7", "1e-4"),
    (generic(17, 89, 900), "0.9", "0.0125"),
    (generic(5, 53, 300), "0.6", "0.05"),
    (["0.35"], "0.75", "0.05"),
    (["0.1"] * 20 + ["0.95"] * 20, "0.6", "0.05"),
]


def capital(u: list[mpf], v: mpf, t: mpf) -> list[mpf]:
    """Return K_1, ..., K_n."""
    n = len(u)
    cap = exact("0.9") / (1 - v)
    total, squares, variance = mpf(1) / 2, mpf(1) / 4, mpf(1) / 4
    path: list[mpf] = []
    k = mpf(1)
    for i, x in enumerate(u, start=1):
        stake = min(mp.sqrt(2 * mp.log(1 / t) / (n * variance)), cap)
        k *= 1 + stake * (v - x)
        path.append(k)
        total += x
        squares += (x - total / (i + 1)) ** 2
        variance = squares / (i + 1)
    return path


def main() -> None:
    """Write betting.json."""
    rows: list[dict[str, Any]] = []
    for u, v, t in CASES:
        path = capital([exact(x) for x in u], exact(v), exact(t))
        highest = max(path)
        row: dict[str, Any] = {"kind": "p_value", "u": u, "v": v, "t": t}
        row["log_K_n"] = digits(mp.log(path[-1]))
        row["log_max_K"] = digits(mp.log(highest))
        rows.append(row | {"value": digits(min(mpf(1), 1 / highest))})
    write("betting", rows)


if __name__ == "__main__":
    main()
