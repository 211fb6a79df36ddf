"""Multiple testing on small inputs, by full enumeration in exact rationals.

All kinds use the closure over the nonempty subsets I of {0, ..., R-1}:
`holm`: i is rejected if min_{j in I} p_j <= alpha/|I| for every I containing i;
`simes_count`: h is the largest |I| whose Simes test does not reject, that is
    p_(j) > j alpha/|I| for all j (p sorted within I); value = R - h;
`e_count`: m_star is the largest |I| with mean of E over I < 1/alpha;
    value = R - m_star;
`e_subset`: for a set S, value is the maximum of |I & S| over the I with
    mean of E over I < 1/alpha (0 if there is none).
Indices start at 0; values are JSON integers or, for `holm`, a list of indices.

Run: python tests/references/make_multiplicity.py
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from itertools import combinations
from random import Random
from typing import Any

from _common import write

P_POOL = (
    "0 1/1000 1/400 1/160 1/140 1/120 1/100 1/80 1/60 1/50 1/40 3/100 1/30 1/25 1/20 "
    "3/50 1/10 1/5 1/2 1"
).split()
E_POOL = "0 0 1/2 1 1 3/2 5 10 15 19 20 20 21 25 40 60 100 100 1000 1000000".split()
P_CASES = [
    (["1/20"], "1/20"), (["51/1000"], "1/20"), (["0", "0", "0"], "1/20"),
    (["1", "1", "1", "1"], "1/20"), (["1/40", "1/20"], "1/20"),
    (["1/40", "1/40"], "1/20"), (["3/100", "3/100", "3/100"], "1/20"),
    (["1/60", "1/40", "1/20"], "1/20"), (["1/20", "1/40", "1/60"], "1/20"),
    (["1/30", "1/60", "1/20", "1/20"], "1/10"),
]  # fmt: skip
E_CASES = [
    (["20"], "1/20"), (["19"], "1/20"), (["0", "0", "0"], "1/20"),
    (["40", "0"], "1/20"), (["39", "0"], "1/20"), (["20", "20", "20"], "1/20"),
    (["60", "0", "0"], "1/20"), (["1000000", "0", "1", "1/2"], "1/20"),
    (["10", "30", "20", "20"], "1/20"), (["100", "100", "100", "1", "1", "1"], "1/50"),
]  # fmt: skip


def subsets(count: int) -> Iterator[tuple[int, ...]]:
    """Yield the nonempty subsets of range(count)."""
    for size in range(1, count + 1):
        yield from combinations(range(count), size)


def simes_rejects(p: list[Fraction], alpha: Fraction) -> bool:
    """Return whether the Simes test rejects the intersection of all of p."""
    return any(x <= j * alpha / len(p) for j, x in enumerate(sorted(p), start=1))


def open_sets(e: list[Fraction], alpha: Fraction) -> list[tuple[int, ...]]:
    """Return the subsets whose mean e-value stays below 1/alpha."""
    return [s for s in subsets(len(e)) if sum(e[i] for i in s) / len(s) < 1 / alpha]


def holm(p: list[Fraction], alpha: Fraction) -> list[int]:
    """Return the hypotheses rejected by the closure of the Bonferroni tests."""
    kept: set[int] = set()
    for s in subsets(len(p)):
        if min(p[i] for i in s) > alpha / len(s):
            kept.update(s)
    return [i for i in range(len(p)) if i not in kept]


def simes_h(p: list[Fraction], alpha: Fraction) -> int:
    """Return the size of the largest subset that the Simes test does not reject."""
    kept = [s for s in subsets(len(p)) if not simes_rejects([p[i] for i in s], alpha)]
    return max((len(s) for s in kept), default=0)


def drawn(pool: list[str], rng: Random, count: int) -> list[tuple[list[str], str]]:
    """Return reproducible inputs of 2 to 8 values, with ties."""
    cases: list[tuple[list[str], str]] = []
    for _ in range(count):
        size = 2 + int(rng.random() * 7)
        values = [pool[int(rng.random() * len(pool))] for _ in range(size)]
        cases.append((values, ("1/20", "1/10", "1/40")[int(rng.random() * 3)]))
    return cases


def main() -> None:
    """Write multiplicity.json."""
    rng = Random(20240)
    rows: list[dict[str, Any]] = []
    p_cases = P_CASES + drawn(P_POOL, rng, 10)
    for p, alpha in p_cases:
        rejected = holm([Fraction(x) for x in p], Fraction(alpha))
        rows.append({"kind": "holm", "p": p, "alpha": alpha, "value": rejected})
    for p, alpha in p_cases:
        h = simes_h([Fraction(x) for x in p], Fraction(alpha))
        row: dict[str, Any] = {"kind": "simes_count", "p": p, "alpha": alpha, "h": h}
        rows.append(row | {"value": len(p) - h})
    for e, alpha in E_CASES + drawn(E_POOL, rng, 10):
        sets = open_sets([Fraction(x) for x in e], Fraction(alpha))
        m_star = max((len(s) for s in sets), default=0)
        row = {"kind": "e_count", "e": e, "alpha": alpha, "m_star": m_star}
        rows.append(row | {"value": len(e) - m_star})
    for e, alpha in E_CASES + drawn(E_POOL, rng, 20):
        sets = open_sets([Fraction(x) for x in e], Fraction(alpha))
        for share in (0.4, 0.7):
            chosen = [i for i in range(len(e)) if rng.random() < share] or [0]
            value = max((len(set(s) & set(chosen)) for s in sets), default=0)
            row = {"kind": "e_subset", "e": e, "alpha": alpha, "S": chosen}
            rows.append(row | {"value": value})
    write("multiplicity", rows, "Python fractions, exact, full enumeration")


if __name__ == "__main__":
    main()
