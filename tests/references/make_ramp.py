"""Ramp quantities: mean Chernoff bound, sensitivity, radius, smooth p-value.

`kappa`: (1/h) times the integral over t in [c - h, c] of exp(-n d(u(t), v)), where
u(t) = (t - a)/(b - a), v = (tau - a)/(b - a) and d is the Bernoulli relative
entropy.
`radius`: rho = min(1, (1/n) sum_j (b_j - a_j)/h_j), and rho sqrt((n/2) log(1/alpha)).
`smooth_p_value`: the integral over x >= 0 of
g(min(1, kappa + rho sqrt(n x / 2))) exp(-x), where
g(b) = P(Bin(R, 1 - (1 - eta0)(1 - b)) >= N).
Integrals by adaptive quadrature with breakpoints; x = z^2 removes the square root.

Run: python tests/references/make_ramp.py
"""

from __future__ import annotations

from typing import Any

from _common import bernoulli_kl, digits, exact, upper_tail, write
from mpmath import mp, mpf

KAPPA = [
    ("0", "1", "0.8", "0.75", "0.6", 200), ("0", "1", "0.8", "0.8", "0.5", 200),
    ("0", "1", "0.75", "0.5", "0.5", 50), ("0", "1", "0.05", "0.04", "0.03", 1000),
    ("1", "5", "4", "3.8", "1.5", 120), ("-1", "1", "0.2", "0.1", "0.4", 500),
    ("0", "100", "90", "88", "10", 10000), ("0", "1", "0.5", "0.49", "0.1", 2),
    ("0", "1", "0.9", "0.7", "0.05", 1000), ("0", "1", "0.6", "0.599", "0.3", 100000),
]  # fmt: skip
RADIUS = [
    ([("0", "1", "0.6")], 200, "0.05"),
    ([("0", "1", "0.5"), ("1", "5", "1.5")], 120, "0.025"),
    ([("0", "1", "0.1"), ("0", "1", "0.05"), ("-1", "1", "0.4")], 1000, "1e-6"),
    ([("0", "100", "10")], 10000, "0.5"),
    ([("0", "1", "0.01")], 50, "0.05"),
]
SMOOTH = [
    (30, 30, "0.8", "0.01", "0.01", 200), (30, 27, "0.5", "0.001", "0.02", 100),
    (100, 95, "0.8", "0.005", "0.0083", 200), (100, 60, "0.5", "0", "0.001", 1000),
    (250, 246, "0.95", "0.02", "0.002", 1000), (5, 4, "0.29", "0.05", "0.3", 50),
    (100, 99, "0.9", "0.005", "0", 200),
]  # fmt: skip


def kappa(a: mpf, b: mpf, tau: mpf, c: mpf, h: mpf, n: int) -> mpf:
    """Return the mean of the Chernoff bound over the ramp."""
    v = (tau - a) / (b - a)
    assert a <= c - h and c <= tau < b
    cuts = [c - h] + [c - h / mpf(2) ** i for i in range(1, 25)] + [c]

    def log_bound(t: mpf) -> mpf:
        return -n * bernoulli_kl((t - a) / (b - a), v)

    top = log_bound(c)  # the integrand is scaled to a maximum of 1
    value, error = mp.quad(lambda t: mp.exp(log_bound(t) - top), cuts, error=True)
    assert error < mpf("1e-25") * value, error
    return mp.exp(top) * value / h


def smooth(draws: int, favourable: int, eta0: mpf, k: mpf, rho: mpf, n: int) -> mpf:
    """Return the smooth p-value; beyond b = 1 the integral has a closed form."""

    def g(b: mpf) -> mpf:
        return upper_tail(draws, favourable, 1 - (1 - eta0) * (1 - b))

    if rho == 0:
        return g(k)
    step = rho * mp.sqrt(mpf(n) / 2)
    end = (1 - k) / step
    panels = int(2 * end) + 2
    cuts = [end * i / panels for i in range(panels + 1)]
    value, error = mp.quad(lambda z: g(k + step * z) * 2 * z * mp.exp(-z * z), cuts, error=True)
    assert error < mpf("1e-25") * value, error
    return value + mp.exp(-end * end)


def main() -> None:
    """Write ramp.json."""
    rows: list[dict[str, Any]] = []
    for a, b, tau, c, h, n in KAPPA:
        value = kappa(exact(a), exact(b), exact(tau), exact(c), exact(h), n)
        row: dict[str, Any] = {"kind": "kappa", "a": a, "b": b, "tau": tau, "c": c}
        rows.append(row | {"h": h, "n": n, "value": digits(value)})
    for parts, n, alpha in RADIUS:
        ranges = [(exact(b) - exact(a)) / exact(h) for a, b, h in parts]
        rho = min(mpf(1), mp.fsum(ranges) / n)
        value = rho * mp.sqrt(mpf(n) / 2 * mp.log(1 / exact(alpha)))
        row = {"kind": "radius", "a": [part[0] for part in parts]}
        row |= {"b": [part[1] for part in parts], "h": [part[2] for part in parts]}
        row |= {"n": n, "alpha": alpha, "rho": digits(rho)}
        rows.append(row | {"value": digits(value)})
    for draws, favourable, eta0, k, rho_text, n in SMOOTH:
        value = smooth(draws, favourable, exact(eta0), exact(k), exact(rho_text), n)
        row = {"kind": "smooth_p_value", "R": draws, "N": favourable, "eta0": eta0}
        row |= {"kappa": k, "rho": rho_text, "n": n}
        rows.append(row | {"value": digits(value)})
    write("ramp", rows)


if __name__ == "__main__":
    main()
