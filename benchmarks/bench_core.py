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


def best(*actions: Callable[[], object], times: int = 5) -> list[float]:
    """Return the least CPU time of each action over several rounds.

    The actions take turns, so that a change of the processor's clock meets all of them;
    there is one thread, so CPU time is the work done.
    """
    spent: list[list[float]] = [[] for _ in actions]
    for _ in range(times):
        for action, times_spent in zip(actions, spent, strict=True):
            start = time.process_time()
            action()
            times_spent.append(time.process_time() - start)
    return [min(one) for one in spent]


def main() -> None:
    """Print the ratios for an array in memory, the certificates alone, and the import."""
    losses = np.random.default_rng(0).random((R, N, J))
    cases = {
        "one mean and var pass": None,
        "named, empirical_bernstein (1.5)": {"mode": "named", "test": "empirical_bernstein"},
        "direct sharp, betting (3)": {"mode": "direct", "test": "betting"},
        "direct sharp, bentkus": {"mode": "direct", "test": "bentkus"},
        "direct sharp, betting_fixed": {"mode": "direct", "test": "betting_fixed"},
        "direct sharp, randomized_binomial": {"mode": "direct", "test": "randomized_binomial"},
    }
    actions = [
        (lambda: (losses.mean(axis=1), losses.var(axis=1, ddof=1)))
        if choices is None
        else (lambda c=choices: pg.certify(losses, REQUIREMENTS, **CLAIM, **c))
        for choices in cases.values()
    ]
    # Alone, the plain pass finds its workspace already mapped; that is the harder rival.
    alone = best(actions[0])[0]
    spent = best(*actions)
    spent[0] = min(spent[0], alone)
    print(f"float64 losses in memory, R = {R}, n = {N}, J = {J}; limits in brackets")
    for name, seconds in zip(cases, spent, strict=True):
        print(f"  {name:<33} {seconds * 1e3:8.1f} ms   ratio {seconds / spent[0]:.2f}")
    print(f"from moments to a certificate, R = {R} (10 ms)")
    for name, seconds in certificates(losses).items():
        print(f"  {name:<33} {seconds * 1e3:8.2f} ms")
    code = "import time; t = time.process_time(); import proxyguard; print(time.process_time() - t)"
    seconds = min(
        float(subprocess.run([sys.executable, "-c", code], check=True, capture_output=True).stdout)
        for _ in range(3)
    )
    print(f"import proxyguard                     {seconds:8.2f} s CPU (0.5)")


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
    actions = [
        lambda r=reqs, c=choices: pg.certify(moments, r, **CLAIM, **c)
        for reqs, choices in cases.values()
    ]
    return dict(zip(cases, best(*actions), strict=True))


if __name__ == "__main__":
    main()
