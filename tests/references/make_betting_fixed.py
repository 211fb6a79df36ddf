"""Betting p-value with fixed stakes averaged over a grid, for weighted groups.

Record s of group g has the weight omega_s = w_g / n_g, with n_g the number of
records of the group.  For a fraction f, lambda = f / ((1 - v) n max omega);
E is the average over the fractions of prod_s (1 + lambda n omega_s (v - u_s));
p = min(1, 1/E).  The weights are computed from the listed w_g; `omega` repeats
them to 20 digits.

Run: python tests/references/make_betting_fixed.py
"""

from __future__ import annotations

from typing import Any

from _common import digits, exact, write
from mpmath import mp, mpf

TENTHS = [f"0.{i}" for i in range(1, 10)]
COARSE = ["0.25", "0.5", "0.75"]
CASES = [
    (["0"], [0], ["1"], "0.5", ["0.5"]),
    (["0", "1", "0", "0"], [0, 0, 0, 0], ["1"], "0.5", COARSE),
    (["0.1", "0.4", "0.2", "0.9", "0.3", "0"], [0, 0, 1, 1, 1, 1], ["0.5", "0.5"],
     "0.6", TENTHS),
    ([f"0.{i % 5}" for i in range(20)], [i % 2 for i in range(20)], ["0.25", "0.75"],
     "0.8", TENTHS),
    ([f"{(37 * i + 11) % 101 / 100:.2f}" for i in range(30)],
     [0] * 5 + [1] * 10 + [2] * 15, ["0.2", "0.3", "0.5"], "0.7", TENTHS),
    (["0"] * 40, [0] * 10 + [1] * 30, ["0.25", "0.75"], "0.05", TENTHS),
    (["1"] * 12, [0] * 4 + [1] * 8, ["0.5", "0.5"], "0.95", COARSE),
    (["0.05"] * 36 + ["0.6"] * 4, [0] * 20 + [1] * 20, ["0.9", "0.1"], "0.9",
     ["0.05", "0.1", "0.2", "0.4", "0.8", "1"]),
]  # fmt: skip


def e_value(u: list[mpf], omega: list[mpf], v: mpf, fractions: list[mpf]) -> mpf:
    """Return the average capital over the fractions."""
    n = len(u)
    total = mpf(0)
    for f in fractions:
        stake = f / ((1 - v) * n * max(omega))
        factors = [1 + stake * n * w * (v - x) for w, x in zip(omega, u, strict=True)]
        total += mp.fprod(factors)
    return total / len(fractions)


def main() -> None:
    """Write betting_fixed.json."""
    rows: list[dict[str, Any]] = []
    for u, groups, weights, v, fractions in CASES:
        omega = [exact(weights[g]) / groups.count(g) for g in groups]
        values, grid = [exact(x) for x in u], [exact(f) for f in fractions]
        e = e_value(values, omega, exact(v), grid)
        row: dict[str, Any] = {"kind": "p_value", "u": u, "groups": groups}
        row |= {"group_weights": weights, "omega": [digits(w) for w in omega]}
        row |= {"v": v, "fractions": fractions, "log_E": digits(mp.log(e))}
        rows.append(row | {"value": digits(min(mpf(1), 1 / e))})
    write("betting_fixed", rows)


if __name__ == "__main__":
    main()
