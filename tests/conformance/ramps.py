"""The rule for ramp widths once more: by quadrature and root finding, not by the package."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import integrate, optimize, stats

from proxyguard import Requirement
from proxyguard.modes.planning import AuditPlan

Array = NDArray[np.float64]

# As theory section 2 has them, widest first.
SHARES = (2, 1.5, 1.2, 1, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.25, 0.2, 0.15, 0.1)


def divergence(q: float, p: float) -> float:
    """Return the Bernoulli divergence ``d_B(q, p)``."""
    return float(sum(a * np.log(a / b) for a, b in ((q, p), (1 - q, 1 - p)) if a > 0.0))


def predicted(plan: AuditPlan, ramped: list[tuple[Requirement, float]], score: float) -> float:
    """Return the bound of the plan's claim, were its releases to have this mean ramp score."""
    n, releases, bound = plan.n, plan.releases, plan.claim.registered()["bound"].value
    kappa, slope = 0.0, 0.0
    for requirement, width in ramped:
        span = requirement.high - requirement.low
        v, c = ((x - requirement.low) / span for x in (
            requirement.limit, requirement.limit - float(requirement.slack or 0.0)
        ))  # fmt: skip
        h = width / span
        tail = integrate.quad(
            lambda s, c=c, v=v: np.exp(-n * divergence(c - s, v)), 0.0, h, points=[min(h, 0.01)]
        )[0]
        kappa, slope = max(kappa, tail / h), slope + 1.0 / h
    rho = min(1.0, slope / n)

    # With x = y^2 the share is linear in y.
    y = np.linspace(0.0, 5.0, 4001)
    shares = np.minimum(1.0, kappa + rho * np.sqrt(n / 2.0) * y)

    def pvalue(eta: float) -> float:
        count = int(releases * score + 1e-9)
        tail = stats.binom.sf(count - 1, releases, 1.0 - (1.0 - eta) * (1.0 - shares))
        return float(np.trapezoid(tail * 2.0 * y * np.exp(-(y**2)), y))

    if bound == "sharp":
        if pvalue(1e-9) > 0.05:
            return 0.0
        return float(optimize.brentq(lambda eta: pvalue(eta) - 0.05, 1e-9, 1 - 1e-9))
    low = 0.0
    if score > 0.0:
        low = optimize.brentq(
            lambda p: releases * divergence(score, p) - np.log(40.0), 1e-12, min(score, 1 - 1e-12)
        )
    c = kappa + rho * np.sqrt(n / 2.0 * np.log(40.0))
    return max(0.0, low - c) / (1.0 if bound == "paper" or c >= 1.0 else 1.0 - c)


def ramps_by_hand(
    plan: AuditPlan, judged: list[tuple[Requirement, Array]]
) -> tuple[str, list[float]]:
    """Return the best share and its widths: every share tried, the widest of equals taken.

    ``judged`` has each requirement with the pilots' means on its registered scale.
    """
    spans = []
    for requirement, means in judged:
        cutoff = round(requirement.limit - float(requirement.slack or 0.0), 12)
        below = np.sort(means[means < cutoff])
        room = cutoff - requirement.low
        spans.append((requirement, means, cutoff, cutoff - below[(below.size - 1) // 2], room))
    best: tuple[str, list[float], float] = ("", [], -1.0)
    for share in SHARES:
        widths = [min(share * distance, room) for *_, distance, room in spans]
        factors = [
            np.clip((cutoff - means) / width, 0.0, 1.0)
            for (_, means, cutoff, _, _), width in zip(spans, widths, strict=True)
        ]
        ramped = [(r, width) for (r, *_), width in zip(spans, widths, strict=True)]
        bound = predicted(plan, ramped, float(np.mean(np.prod(factors, axis=0))))
        if bound > best[2] + 1e-6:
            best = (f"{share:g}", widths, bound)
    return best[0], best[1]
