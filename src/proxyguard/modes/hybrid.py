"""The preregistered hybrid of named and direct inference (Proposition 16)."""

from __future__ import annotations

from proxyguard.modes.bound import ReliabilityBound
from proxyguard.registry.budget import hybrid_budget
from proxyguard.registry.numbers import Level


def certify_hybrid(
    named: ReliabilityBound, direct: ReliabilityBound, *, alpha: Level
) -> ReliabilityBound:
    """Return the larger of two lower bounds whose budgets were split beforehand.

    Guarantee
    ---------
    Paper Proposition 16: covers with probability at least ``1 - alpha_N - alpha_D``. The
    larger of two bounds at full budget would choose the mode after looking, and does not.
    """
    larger = max(named, direct, key=lambda bound: bound.value)
    return ReliabilityBound(
        value=larger.value,
        budget=hybrid_budget(named.budget, direct.budget, alpha=alpha),
        rests_on=f"Proposition 16 ({named.rests_on}; {direct.rests_on})",
        steps=(
            ("named bound", named.value),
            *((f"named: {label}", value) for label, value in named.steps),
            ("direct bound", direct.value),
            *((f"direct: {label}", value) for label, value in direct.steps),
        ),
    )
