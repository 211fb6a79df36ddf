"""The chance that an audit validates, under a law of releases and records.

Given the target, favorable scores of R draws are binomial, so only the target is simulated
and the rest is a sum. Where one two-valued requirement orders all releases, the target has a
sum of its own and nothing is simulated. Counts after Holm, and means of ramp scores, draw
the kinds of release as well. What decides, and how, the mode of the claim says.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from proxyguard.exact.binomial import lower_tail
from proxyguard.modes.planning import AuditPlan, at_least
from proxyguard.plan.law import Law
from proxyguard.plan.targets import Targets

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Power:
    """A predicted chance of validation; ``standard_error`` is 0 where a sum gave it."""

    value: float
    standard_error: float
    repetitions: int  # 0: exact

    @property
    def exact(self) -> bool:
        """Whether nothing was simulated."""
        return self.repetitions == 0

    def to_dict(self) -> dict[str, Any]:
        """Return plain values."""
        return {
            "value": self.value,
            "standard_error": self.standard_error,
            "repetitions": self.repetitions,
            "exact": self.exact,
        }


def power(law: Law, audit: AuditPlan, *, repetitions: int = 1000, seed: int = 0) -> Power:
    """Return the chance that an audit validates: exact where a sum gives it, else simulated."""
    exact = exact_power(law, audit)
    if exact is not None:
        return Power(value=exact, standard_error=0.0, repetitions=0)
    targets = Targets(law, audit.n, repetitions=repetitions, seed=seed, digits=audit.digits)
    return power_on(targets, audit, seed=seed)


def power_on(targets: Targets, audit: AuditPlan, *, seed: int = 0) -> Power:
    """Return the chance that an audit validates, over targets that were simulated already."""
    chance = conditional_power(targets, audit, seed=seed)
    # One target more that fails and one that validates: what was not seen is not impossible.
    error = float(np.append(chance, [0.0, 1.0]).std(ddof=1) / np.sqrt(chance.size))
    return Power(value=float(chance.mean()), standard_error=error, repetitions=chance.size)


def score_rates(targets: Targets, audit: AuditPlan) -> Array:
    """Return ``pi(Z)`` of every target: the chance that a fresh draw scores favorably on it."""
    levels = audit.levels(targets.law.requirements)
    return np.asarray(audit.claim.scores(targets, audit, levels) @ targets.law.releases)


def conditional_power(targets: Targets, audit: AuditPlan, *, seed: int = 0) -> Array:
    """Return the chance of validation given each target, over the draws."""
    if targets.digits != audit.digits:
        raise ValueError(f"targets read with {targets.digits} digits, a plan with {audit.digits}")
    rng = np.random.default_rng([seed, audit.n, audit.releases])
    return audit.claim.chance(targets, audit, audit.levels(targets.law.requirements), rng)


def exact_power(law: Law, audit: AuditPlan) -> float | None:
    """Return the power as a sum where one two-valued requirement orders all releases.

    A release with risk ``r`` then scores exactly when at most ``c`` records are lost at
    ``r``, and a release with a smaller risk loses no more. With risks sorted, the score rate
    takes one value between any two of them, and the chance of each is a difference of two
    binomial tails. ``None`` where this does not apply.
    """
    found = exact_score_rates(law, audit)
    if found is None:
        return None
    rates, chance = found
    least = audit.claim.least_count(audit, law.requirements, audit.levels(law.requirements))
    if least is None:
        return None
    if least > audit.releases:
        return 0.0
    return float(np.clip(chance @ at_least(least, audit.releases, rates), 0.0, 1.0))


def exact_score_rates(law: Law, audit: AuditPlan) -> tuple[Array, Array] | None:
    """Return the values that ``pi(Z)`` takes over targets and their chances, where a sum does."""
    if not _nested(law):
        return None
    levels = audit.levels(law.requirements)
    accepted = audit.claim.most_errors(audit, law.requirements[0], levels)
    if accepted is None:
        return None
    if accepted < 0:
        return np.zeros(1), np.ones(1)
    risks = law.means[:, 0]
    order = np.argsort(risks)
    scores = lower_tail(np.full(risks.size, accepted), audit.n, risks[order])
    rates = np.concatenate([[0.0], np.cumsum(law.releases[order])])
    # Kinds up to the i-th score and the next does not.
    chance = np.concatenate([[1.0], scores]) - np.concatenate([scores, [0.0]])
    return rates, chance


def _nested(law: Law) -> bool:
    """Whether there is one two-valued requirement, lost on records that contain each other."""
    if len(law.requirements) != 1 or not law.requirements[0].two_valued:
        return False
    table = law.losses[0][np.argsort(law.means[:, 0])]
    return bool(np.all((table == 0.0) | (table == 1.0)) and np.all(np.diff(table, axis=0) >= 0.0))
