"""Two-sided Wilson score interval with z = 1.959964.

The limits are the two roots x of (k/n - x)^2 = z^2 x (1 - x) / n, with z the double
nearest to 1.959964.

Run: python tests/references/make_wilson.py
"""

from __future__ import annotations

from typing import Any

from _common import digits, exact, write
from mpmath import mp, mpf

Z = "1.959964"
CASES = [
    (2173, 5000), (154, 5000), (118, 5000), (0, 5000), (5000, 5000), (0, 1), (1, 1),
    (1, 2), (3, 10), (10, 10), (45, 50), (199, 200), (246, 250), (1, 100000),
    (50000, 100000),
]  # fmt: skip


def interval(k: int, n: int, z: mpf) -> tuple[mpf, mpf]:
    """Return the lower and the upper limit; the edges 0 and 1 are exact."""
    share = mpf(k) / n
    scale = 1 + z**2 / n
    centre = (share + z**2 / (2 * n)) / scale
    half = z * mp.sqrt(share * (1 - share) / n + z**2 / (4 * mpf(n) ** 2)) / scale
    return mpf(0) if k == 0 else centre - half, mpf(1) if k == n else centre + half


def main() -> None:
    """Write wilson.json."""
    rows: list[dict[str, Any]] = []
    for k, n in CASES:
        lower, upper = interval(k, n, exact(Z))
        for kind, value in (("lower", lower), ("upper", upper)):
            row: dict[str, Any] = {"kind": kind, "k": k, "n": n, "z": Z}
            rows.append(row | {"value": digits(value)})
    write("wilson", rows)


if __name__ == "__main__":
    main()
