"""Time the core against one plain mean-and-variance pass over the same array, in one run.

Prints ratios, not verdicts: run it on a quiet machine (``make bench``).
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable

import numpy as np

import proxyguard as pg

R, N, J = 1000, 4000, 3
REQUIREMENTS = [pg.Requirement(name=f"loss {j}", low=0, high=1, limit=0.55) for j in range(J)]
CLAIM = {"reliability_target": "0.8", "alpha": "0.05", "seed": 1}


def best(action: Callable[[], object], times: int = 5) -> float:
    """Return the least CPU time of several runs; one thread, so CPU time is the work done."""
    spent = []
    for _ in range(times):
        start = time.process_time()
        action()
        spent.append(time.process_time() - start)
    return min(spent)


def main() -> None:
    """Print the ratios for an array in memory, the certificates alone, and the import."""
    losses = np.random.default_rng(0).random((R, N, J))
    print(f"float64 losses in memory, R = {R}, n = {N}, J = {J}")
    plain = best(lambda: (losses.mean(axis=1), losses.var(axis=1, ddof=1)))
    print(f"  one mean and var pass           {plain * 1e3:8.1f} ms   ratio 1.00")
    cases = {
        "named, empirical_bernstein (1.5)": {"mode": "named", "test": "empirical_bernstein"},
        "direct sharp, betting (3)": {"mode": "direct", "test": "betting"},
        "direct sharp, bentkus": {"mode": "direct", "test": "bentkus"},
        "direct sharp, betting_fixed": {"mode": "direct", "test": "betting_fixed"},
        "direct sharp, randomized_binomial": {"mode": "direct", "test": "randomized_binomial"},
    }
    for name, choices in cases.items():
        spent = best(lambda c=choices: pg.certify(losses, REQUIREMENTS, **CLAIM, **c), 3)
        print(f"  {name:<33} {spent * 1e3:6.1f} ms   ratio {spent / plain:.2f}")
    print(f"from moments to a certificate, R = {R} (10 ms)")
    for name, spent in certificates(losses).items():
        print(f"  {name:<33} {spent * 1e3:6.2f} ms")
    code = "import time; t = time.process_time(); import proxyguard; print(time.process_time() - t)"
    spent = min(
        float(subprocess.run([sys.executable, "-c", code], check=True, capture_output=True).stdout)
        for _ in range(3)
    )
    print(f"import proxyguard                   {spent:6.2f} s CPU (0.5)")


def certificates(losses: np.ndarray) -> dict[str, float]:
    """Return the time from moments to each certificate that moments allow."""
    moments = pg.Moments(n=N, mean=losses.mean(axis=1), variance=losses.var(axis=1, ddof=1))
    slack = [
        pg.Requirement(name=f"loss {j}", low=0, high=1, limit=0.6, slack=0.05, ramp=0.2)
        for j in range(J)
    ]
    eb = {"test": "empirical_bernstein"}
    cases: dict[str, tuple[list[pg.Requirement], dict[str, object]]] = {
        "named": (REQUIREMENTS, {"mode": "named", **eb}),
        "direct paper": (REQUIREMENTS, {"mode": "direct", "bound": "paper", **eb}),
        "direct rescaled": (REQUIREMENTS, {"mode": "direct", "bound": "rescaled", **eb}),
        "direct sharp": (REQUIREMENTS, {"mode": "direct", **eb}),
        "direct sharp, bentkus": (REQUIREMENTS, {"mode": "direct", "test": "bentkus"}),
        "direct sharp, slack score": (slack, {"mode": "direct", "score": "slack", **eb}),
        "hybrid": (REQUIREMENTS, {"mode": "hybrid", **eb}),
        "e-value count": (REQUIREMENTS, {"mode": "count", **eb}),
        "collective": (REQUIREMENTS, {"mode": "collective", "dependence": "independent", **eb}),
        "smooth paper": (slack, {"mode": "smooth", "bound": "paper", **eb}),
        "smooth sharp": (slack, {"mode": "smooth", **eb}),
    }
    return {
        name: best(lambda r=reqs, c=choices: pg.certify(moments, r, **CLAIM, **c))
        for name, (reqs, choices) in cases.items()
    }


if __name__ == "__main__":
    main()
