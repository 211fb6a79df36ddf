"""Chernoff tail bounds and the limits obtained by inverting them.

With d the Bernoulli relative entropy: the bound log exp(-n d(m, v)) for m < v;
the upper limit, v > m with n d(m, v) = log(1/delta) (1 for m = 1); and the lower
limit, q < m with n d(m, q) = log(1/delta) (0 for m = 0).  Limits by bisection.

Run: python tests/references/make_chernoff.py
"""

from __future__ import annotations

from typing import Any

from _common import bernoulli_kl, bisect, digits, exact, write
from mpmath import mp, mpf

BOUNDS = [
    (1, "0", "0.5"), (1, "0.25", "0.5"), (2, "0.1", "0.9"), (10, "0", "0.05"),
    (10, "0.3", "0.31"), (10, "0.7", "0.95"), (30, "0.5", "0.8"), (50, "0.02", "0.1"),
    (50, "0.9", "0.99"), (100, "0", "0.3"), (100, "0.19", "0.2"), (200, "0.75", "0.8"),
    (200, "0.15", "0.8"), (250, "0.6", "0.71"), (250, "1e-6", "0.05"),
    (1000, "0.5", "0.5000001"), (1000, "0.1", "0.5"), (1000, "0", "0.5"),
    (1000, "0.2", "0.9"), (1000, "0", "0.999"), (5000, "0.4", "0.45"),
    (5000, "0.0308", "0.05"), (10000, "0.5", "0.6"), (10000, "0.999", "0.9999"),
    (10000, "0", "0.067"), (100000, "0.05", "0.06"), (100000, "0.3", "0.9"),
    (1000000, "0.5", "0.501"), (1000000, "0.1", "0.5"), (1000000, "0", "1e-9"),
    (1000000, "0", "0.99"),
]  # fmt: skip
LIMITS = [
    (1, "0", "0.05"), (1, "0.5", "0.05"), (1, "1", "0.05"), (2, "0.25", "0.1"),
    (5, "0.9", "0.01"), (10, "0", "1e-6"), (10, "0.3", "0.5"), (10, "0.3", "0.05"),
    (10, "1", "0.01"), (30, "0.75", "0.001"), (50, "0.02", "0.05"),
    (50, "0.98", "0.05"), (100, "0.5", "1e-12"), (100, "0.001", "1e-3"),
    (100, "0.999", "1e-3"), (200, "0.1234", "0.025"), (200, "0", "0.05"),
    (250, "0.6", "1e-100"), (250, "0.7", "0.0125"), (1000, "0.5", "0.05"),
    (1000, "0.01", "1e-9"), (1000, "0.95", "1e-300"), (1000000, "1e-5", "0.05"),
    (5000, "0.4346", "0.025"), (5000, "0.0308", "0.025"), (10000, "0.8", "0.999"),
    (100000, "0.3", "0.05"), (100000, "1", "1e-12"), (1000000, "0", "0.05"),
    (1000000, "0.5", "1e-6"), (1000000, "0.999999", "0.01"),
]  # fmt: skip


def limit_row(kind: str, n: int, m: str, delta: str) -> dict[str, Any]:
    """Return one limit; the edges 0 and 1 are returned where nothing lies beyond."""
    centre = exact(m)
    budget = -mp.log(exact(delta))
    if kind == "upper_limit":
        value = mpf(1)
        if centre < 1:
            value = bisect(lambda v: n * bernoulli_kl(centre, v) < budget, centre, 1)
    else:
        value = mpf(0)
        if centre > 0:
            value = bisect(lambda q: n * bernoulli_kl(centre, q) > budget, 0, centre)
    return {"kind": kind, "n": n, "m": m, "delta": delta, "value": digits(value)}


def main() -> None:
    """Write chernoff.json."""
    rows: list[dict[str, Any]] = []
    for n, m, v in BOUNDS:
        value = -n * bernoulli_kl(exact(m), exact(v))
        row: dict[str, Any] = {"kind": "log_bound", "n": n, "m": m, "v": v}
        rows.append(row | {"value": digits(value)})
    rows += [limit_row("upper_limit", *case) for case in LIMITS]
    rows += [limit_row("lower_limit", *case) for case in LIMITS]
    write("chernoff", rows)


if __name__ == "__main__":
    main()
