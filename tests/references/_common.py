"""Helpers shared by the reference generators: exact inputs, tails, bisection, output.

Everything here uses the standard library and mpmath only, at 50 significant
digits.  Floating-point inputs are written as decimal strings and enter the
computation as the exact value of the nearest binary double.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from math import comb
from pathlib import Path
from typing import Any

import mpmath
from mpmath import mp, mpf

mp.dps = 50
SOURCE = f"mpmath {mpmath.__version__}, 50 digits"


def exact(text: str) -> mpf:
    """Return the exact value of the double nearest to the decimal string."""
    return mpf(float(text))


def digits(x: mpf) -> str:
    """Write a number with 20 significant digits."""
    return mp.nstr(x, 20)


def write(topic: str, rows: list[dict[str, Any]], source: str = SOURCE) -> None:
    """Write `<topic>.json` beside this file, one row per line."""
    head = {"source": source, "command": f"python tests/references/make_{topic}.py"}
    lines = ",\n".join("    " + json.dumps(row) for row in rows)
    top = ",\n".join(f"  {json.dumps(k)}: {json.dumps(x)}" for k, x in head.items())
    path = Path(__file__).resolve().parent / f"{topic}.json"
    path.write_text(f'{{\n{top},\n  "rows": [\n{lines}\n  ]\n}}\n', encoding="utf-8")
    print(f"{path.name}: {len(rows)} rows")


def bisect(below: Callable[[mpf], bool], low: mpf, high: mpf, digits_kept: int = 40) -> mpf:
    """Return the point of [low, high] at which `below` turns from true to false."""
    low, high = mpf(low), mpf(high)
    tolerance = mpf(10) ** -digits_kept
    while high - low > tolerance * max(abs(low), abs(high)):
        middle = (low + high) / 2
        if below(middle):
            low = middle
        else:
            high = middle
    return (low + high) / 2


@cache
def choose(n: int, k: int) -> mpf:
    """Return the binomial coefficient, rounded once from the exact integer."""
    return mpf(comb(n, k))


def upper_tail(n: int, k: int, p: mpf) -> mpf:
    """Return P(Bin(n, p) >= k) as a direct sum of positive terms from k upwards."""
    if k <= 0 or (p == 1 and k <= n):
        return mpf(1)
    if k > n or p == 0:
        return mpf(0)
    term = choose(n, k) * p**k * (1 - p) ** (n - k)
    total = term
    odds = p / (1 - p)
    negligible = mpf(10) ** -60
    for j in range(k, n):
        term = term * odds * (n - j) / (j + 1)
        total += term
        if j > n * p and term < negligible * total:
            break
    return total


def lower_tail(n: int, k: int, p: mpf) -> mpf:
    """Return P(Bin(n, p) <= k) by counting failures."""
    return upper_tail(n, n - k, 1 - p)


def bernoulli_kl(m: mpf, v: mpf) -> mpf:
    """Return d(m, v), the relative entropy of Bernoulli(m) from Bernoulli(v)."""
    first = mpf(0) if m == 0 else m * mp.log(m / v)
    second = mpf(0) if m == 1 else (1 - m) * mp.log((1 - m) / (1 - v))
    return first + second
