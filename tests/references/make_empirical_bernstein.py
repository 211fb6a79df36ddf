"""Empirical Bernstein limit and the p-value obtained by inverting it.

U(delta) = m + sqrt(2 V log(2/delta) / n) + 7 log(2/delta) / (3 (n - 1)) on an
interval of length 1, with m the mean and V the sample variance.  The p-value is
inf{delta in (0, 1): U(delta) < v}, or 1 if there is none, by bisection on
log(delta).

Run: python tests/references/make_empirical_bernstein.py
"""

from __future__ import annotations

from typing import Any

from _common import bisect, digits, exact, write
from mpmath import mp, mpf

LIMITS = [
    (2, "0.5", "0.125", "0.05"), (2, "0", "0", "0.9"), (10, "0.3", "0.04", "0.05"),
    (50, "0.1", "0", "0.01"), (100, "0.75", "0.1", "0.05"),
    (200, "0.42", "0.25", "1e-6"), (1000, "0.05", "0.01", "0.05"),
    (1000, "0.9", "0.002", "1e-12"), (10000, "0.5", "0.08", "0.025"),
    (1000000, "0.3", "0.2", "1e-300"),
]  # fmt: skip
P_VALUES = [
    (2, "0", "0", "1"), (2, "0.5", "0.125", "0.9"), (10, "0.1", "0.01", "0.5"),
    (10, "0", "0", "0.9"), (50, "0.1", "0", "0.5"), (50, "0.4", "0.06", "0.3"),
    (50, "0.4", "0.06", "0.8"), (100, "0.2", "0.03", "0.8"),
    (100, "0.75", "0.1", "0.8"), (200, "0.15", "0.05", "0.8"),
    (200, "0.15", "0", "0.8"), (200, "0.75", "0.001", "0.8"),
    (1000, "0.05", "0.01", "0.1"), (1000, "0.5", "0.25", "0.6"),
    (1000, "0.1", "0.002", "0.9"), (1457, "0.05", "0.005", "0.99"),
    (2000, "0.1", "0.01", "0.9"), (2000, "0.2", "0.05", "0.95"),
    (10000, "0.5", "0.08", "0.52"), (10000, "0.1", "0.01", "0.2685"),
    (10000, "0.1", "0.01", "0.9"), (100000, "0.3", "0.2", "0.3499"),
    (1000000, "0.3", "0.2", "0.3005"),
]  # fmt: skip


def limit(n: int, m: mpf, variance: mpf, delta: mpf) -> mpf:
    """Return U(delta)."""
    level = mp.log(2 / delta)
    return m + mp.sqrt(2 * variance * level / n) + 7 * level / (3 * (n - 1))


def log_p_value(n: int, m: mpf, variance: mpf, v: mpf) -> mpf:
    """Return the logarithm of the p-value."""
    if limit(n, m, variance, mpf(1)) >= v:
        return mpf(0)
    low = mpf(-(10**8))
    assert limit(n, m, variance, mp.exp(low)) >= v
    return bisect(lambda x: limit(n, m, variance, mp.exp(x)) >= v, low, mpf(0))


def main() -> None:
    """Write empirical_bernstein.json."""
    rows: list[dict[str, Any]] = []
    for n, m, variance, delta in LIMITS:
        value = limit(n, exact(m), exact(variance), exact(delta))
        row: dict[str, Any] = {"kind": "limit", "n": n, "m": m, "variance": variance}
        rows.append(row | {"delta": delta, "value": digits(value)})
    for n, m, variance, v in P_VALUES:
        log_p = log_p_value(n, exact(m), exact(variance), exact(v))
        row = {"kind": "p_value", "n": n, "m": m, "variance": variance, "v": v}
        rows.append(row | {"value": digits(mp.exp(log_p)), "log_value": digits(log_p)})
    write("empirical_bernstein", rows)


if __name__ == "__main__":
    main()
