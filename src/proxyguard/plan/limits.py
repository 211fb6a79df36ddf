"""What an audit needs at the least, whatever its releases score: the sharp counterparts.

The paper's own limits (Propositions 14, 17 and 18, Theorem 15) are in `exact.planning`.
Everything here is necessary: where it fails, no outcome at all can validate.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import ceil, floor, log
from typing import Any

import numpy as np

from proxyguard.exact import contamination
from proxyguard.exact.betting import betting_fixed_pvalue, betting_pvalue
from proxyguard.exact.mean import (
    bentkus_pvalue,
    binomial_pvalue,
    chernoff_pvalue,
    empirical_bernstein_pvalue,
    hoeffding_pvalue,
    log_chernoff,
)
from proxyguard.exact.planning import (
    direct_shortfall,
    least_records,
    least_releases_direct,
    least_releases_named,
    sufficient_records_named,
)
from proxyguard.exact.rounding import GUARD
from proxyguard.exact.sharp import largest_threshold
from proxyguard.plan import counts
from proxyguard.plan.power import AuditPlan
from proxyguard.registry.claim import Bound, Claim, Mode, Score
from proxyguard.registry.design import Stratified
from proxyguard.registry.levels import Levels
from proxyguard.registry.requirement import Requirement
from proxyguard.registry.scores import block_ceiling, ramp_ceiling, ramp_sensitivity
from proxyguard.registry.test import ComponentTest

Requirements = Sequence[Requirement]


def least_releases_sharp(*, target: float, alpha: float, kappa: float = 0.0) -> int | None:
    """Return the least ``R`` at which the sharp certificate can validate, ``None`` if none can.

    ``p_sharp`` of R favorable scores out of R is ``kappa + (1 - kappa) eta_0^R`` (theory
    section 2). ``kappa = 0`` is the oracle's need, which no certificate can undercut.

    >>> least_releases_sharp(target=0.8, alpha=0.05), least_releases_sharp(
    ...     target=0.8, alpha=0.05, kappa=0.05)
    (14, None)
    """
    if kappa >= alpha:
        return None
    return ceil(log((alpha - kappa) / (1.0 - kappa)) / log(target) * (1.0 - GUARD))


def largest_useful_threshold(releases: int, *, target: float, alpha: float) -> float:
    """Return the largest ``t`` at which R favorable scores out of R validate; 0 if none does.

    ``(alpha - eta_0^R)/(1 - eta_0^R)``, theory section 2, "Choosing t".

    >>> round(largest_useful_threshold(30, target=0.8, alpha=0.05), 4)
    0.0488
    """
    return largest_threshold(releases, releases, target=target, alpha=alpha)


def best_weighted_pvalue(test: ComponentTest, design: Stratified, v: float) -> float:
    """Return the smallest p-value on strata with these weights: every loss at its lower bound."""
    if test is ComponentTest.HOEFFDING:
        return float(hoeffding_pvalue(0.0, float(design.effective_size), v))
    weights = [float(design.weights[g] / design.sizes[g]) for g in design.sizes]
    omega = np.repeat(weights, list(design.sizes.values()))
    return float(betting_fixed_pvalue(np.zeros((1, omega.size)), v, omega)[0])


def best_pvalue(test: ComponentTest, n: int, v: float, *, level: float) -> float:
    """Return the smallest p-value that ``n`` records can give: every loss at its lower bound."""
    if n < test.least_records:
        return 1.0
    if test is ComponentTest.EMPIRICAL_BERNSTEIN:
        return float(empirical_bernstein_pvalue(0.0, 0.0, n, v))
    if test is ComponentTest.HOEFFDING:
        return float(hoeffding_pvalue(0.0, n, v))
    if test is ComponentTest.CHERNOFF:
        return float(chernoff_pvalue(0.0, n, v))
    if test is ComponentTest.BENTKUS:
        return float(bentkus_pvalue(0.0, n, v))
    if test in (ComponentTest.BINOMIAL, ComponentTest.RANDOMIZED_BINOMIAL):
        return float(binomial_pvalue(0, n, v))
    best = np.zeros((1, n))
    if test is ComponentTest.BETTING_FIXED:
        return float(betting_fixed_pvalue(best, v)[0])
    return float(betting_pvalue(best, v, level=level)[0])


def least_records_for(test: ComponentTest, v: float, *, level: float, most: int = 10**6) -> int:
    """Return the least ``n`` at which a test can reach a p-value of ``level``.

    ``most + 1`` if not even so many records do.
    """
    return _least(lambda n: best_pvalue(test, n, v, level=level) <= level, 1, most)


def least_records_slack(
    claim: Claim, levels: Levels, requirements: Requirements, releases: int
) -> int:
    """Return the least ``n`` at which the registered slacks leave room above the target."""

    def room(n: int) -> bool:
        kappa = counts.score_ceiling(claim, levels, requirements, (), n)
        budget = levels.direct or levels.lower
        return counts.least_favorable(claim, budget, kappa, releases) <= releases

    return _least(room, 1, 10**6)


def _least(holds: Callable[[int], bool], low: int, high: int) -> int:
    """Return the least whole number at which a condition that stays true holds."""
    n = low
    while n <= high and not holds(n):
        low, n = n, 2 * n
    if n > high and not holds(high):
        return high + 1
    high = min(n, high)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high if not holds(low) else low


@dataclass(frozen=True, slots=True, kw_only=True)
class Needs:
    """What one claim needs, beside what it has."""

    least_count: int | None  # favorable scores or recognized releases; None: none suffices
    least_releases: int | None
    least_records: int | None  # None: not known without a search, or not limiting
    largest_threshold: float | None  # of a p-value score
    obstacles: tuple[str, ...]  # why no outcome can validate; empty if some can

    def to_dict(self) -> dict[str, Any]:
        """Return plain values."""
        return {
            "least_count": self.least_count,
            "least_releases": self.least_releases,
            "least_records": self.least_records,
            "largest_threshold": self.largest_threshold,
            "obstacles": list(self.obstacles),
        }


def needs(requirements: Requirements, audit: AuditPlan) -> Needs:
    """Return the necessary limits of one audit, and why it cannot succeed if it cannot."""
    claim, levels = audit.claim, audit.levels(requirements)
    if claim.mode is Mode.NAMED:
        return _named_needs(requirements, audit, levels)
    if claim.mode is Mode.DIRECT:
        return _direct_needs(requirements, audit, levels)
    if claim.mode is Mode.COUNT:
        return _count_needs(requirements, audit, levels)
    if claim.mode is Mode.SMOOTH:
        return _smooth_needs(requirements, audit, levels)
    if claim.mode is Mode.BLOCK:
        return _block_needs(requirements, audit, levels)
    if claim.mode is not Mode.HYBRID:
        raise ValueError(f"mode {claim.mode.value} has no sealed audit to plan")
    return _either(
        _named_needs(requirements, audit, levels),
        _direct_needs(requirements, audit, levels),
    )


def _either(first: Needs, second: Needs) -> Needs:
    """A hybrid fails only where both of its components do."""
    fails = (*first.obstacles, *second.obstacles) if first.obstacles and second.obstacles else ()
    return Needs(
        least_count=None, least_releases=None, least_records=None,
        largest_threshold=second.largest_threshold, obstacles=fails,
    )  # fmt: skip


def _named_needs(requirements: Requirements, audit: AuditPlan, levels: Levels) -> Needs:
    claim, releases = audit.claim, audit.releases
    alpha, outer = float(levels.lower["alpha_R"]), float(levels.lower["alpha_M"])
    count = counts.least_recognized(releases, target=claim.target, alpha=outer)
    least = least_releases_named(target=claim.target, alpha_mechanism=outer)
    first = alpha / releases  # Holm's first step
    records = _records_for(requirements, audit, first)
    return Needs(
        least_count=count if count <= releases else None,
        least_releases=least,
        least_records=records,
        largest_threshold=None,
        obstacles=(
            *_few_draws(releases, least, claim.target, outer),
            *_few_records(audit.n, records, f"Holm's first level {first:.2g}"),
        ),
    )


def _direct_needs(requirements: Requirements, audit: AuditPlan, levels: Levels) -> Needs:
    claim, releases = audit.claim, audit.releases
    budget = levels.direct or levels.lower
    alpha, target = float(budget.total), claim.target
    tests = audit.tests(requirements)
    weighted = _weighted(audit)
    if weighted is not None and claim.score is Score.SLACK:
        size = float(weighted.effective_size)
        kappa = max(
            contamination.stratified_ceiling(r.unit_cutoff, r.unit_limit, size)
            for r in requirements
        )
    else:
        kappa = counts.score_ceiling(claim, levels, requirements, tests, audit.n)
    count = counts.least_favorable(claim, budget, kappa, releases)
    oracle = least_releases_sharp(target=target, alpha=alpha)
    assert oracle is not None  # kappa is 0
    if claim.bound is Bound.SHARP:
        least = least_releases_sharp(target=target, alpha=alpha, kappa=kappa)
    else:
        least = least_releases_direct(
            kappa if claim.bound is Bound.PAPER else kappa * (1.0 - target),
            target=target,
            budget=(float(budget["alpha_Q"]), float(budget["alpha_Z"])),
        )
    obstacles = list(_few_draws(releases, oracle, target, alpha))
    threshold = None
    if claim.score is Score.SLACK:
        records = None
        if not obstacles and weighted is None:
            records = least_records_slack(claim, levels, requirements, releases)
        if count > releases and not obstacles:
            more = "more records" if records is None else f"at least {records:,} records"
            obstacles.append(
                f"the registered slacks let an invalid release score with probability "
                f"{kappa:.2g} on {audit.n:,} records, and not even {releases} favorable scores "
                f"out of {releases} would then validate; {more}, larger slacks or the p-value "
                "score are needed"
            )
    else:
        t = float(levels.threshold)
        if claim.bound is Bound.SHARP and not obstacles:
            threshold = largest_useful_threshold(releases, target=target, alpha=alpha)
        records = _records_for(requirements, audit, t)
        if count > releases and not obstacles:
            useful = "" if threshold is None else f"; at most {threshold:.4g} can work"
            obstacles.append(
                f"the score's threshold {t:.4g} leaves no room: not even {releases} favorable "
                f"scores out of {releases} would validate{useful}"
            )
        obstacles += _few_records(audit.n, records, f"the score's threshold {t:.2g}")
    return Needs(
        least_count=count if count <= releases else None,
        least_releases=least,
        least_records=records,
        largest_threshold=threshold,
        obstacles=tuple(obstacles),
    )


def _count_needs(requirements: Requirements, audit: AuditPlan, levels: Levels) -> Needs:
    claim, releases = audit.claim, audit.releases
    alpha_draws = float(levels.lower["alpha_Q"])
    count = counts.least_counted(levels.lower, levels.threshold, releases, target=claim.target)
    least = least_releases_named(target=claim.target, alpha_mechanism=alpha_draws)
    obstacles = list(_few_draws(releases, least, claim.target, alpha_draws))
    t = float(levels.threshold)
    if claim.calibrator == "capital" or len(claim.thresholds) > 1:
        # Capital and mixtures have no single threshold that could be out of reach.
        return Needs(
            least_count=None, least_releases=least, least_records=None, largest_threshold=None,
            obstacles=tuple(obstacles),
        )  # fmt: skip
    if count > releases and not obstacles:
        obstacles.append(f"the threshold {t:.3g} is not below alpha_Z, so no count follows")
    records = _records_for(requirements, audit, t)
    obstacles += _few_records(audit.n, records, f"the threshold {t:.2g}")
    return Needs(
        least_count=count if count <= releases else None, least_releases=least,
        least_records=records, largest_threshold=float(levels.lower["alpha_Z"]),
        obstacles=tuple(obstacles),
    )  # fmt: skip


def _smooth_needs(requirements: Requirements, audit: AuditPlan, levels: Levels) -> Needs:
    claim, releases, n = audit.claim, audit.releases, audit.n
    target = claim.target
    kappa = ramp_ceiling(requirements, n)
    sensitivity = ramp_sensitivity(requirements, n)
    alpha = float(levels.lower.total)
    least = least_releases_sharp(target=target, alpha=alpha)
    assert least is not None  # kappa is 0
    obstacles = list(_few_draws(releases, least, target, alpha))
    count: int | None = None
    if claim.bound is Bound.SHARP:
        count = counts.least_smooth(
            releases, n, target=target, kappa=kappa, sensitivity=sensitivity, alpha=alpha
        )
        fails = count > releases
    else:
        allowance = kappa + contamination.ramp_radius(
            sensitivity, n, alpha=float(levels.lower["alpha_Z"])
        )
        rate = target + allowance * (1.0 if claim.bound is Bound.PAPER else 1.0 - target)
        fails = allowance >= 1.0 or counts.least_mean_score(
            releases, rate, alpha=float(levels.lower["alpha_Q"])
        ) > 1.0  # fmt: skip
    if fails and not obstacles:
        obstacles.append(
            f"the ramps are too steep or the slacks too small for {n:,} records: perfect scores "
            f"of all {releases} releases would not validate (kappa_h {kappa:.2g}, rho_h "
            f"{sensitivity:.2g})"
        )
    return Needs(
        least_count=None if fails else count, least_releases=least, least_records=None,
        largest_threshold=None, obstacles=tuple(obstacles),
    )  # fmt: skip


def _block_needs(requirements: Requirements, audit: AuditPlan, levels: Levels) -> Needs:
    claim, releases = audit.claim, audit.releases
    size = claim.block_size
    assert size is not None  # a claim in block mode has one
    blocks = audit.n // size
    kappa = block_ceiling(requirements, size)
    alpha, target = float(levels.lower.total), claim.target
    room = (1.0 - kappa) * (1.0 - target)
    # sqrt((1/R + 1/B) log(1/alpha)/2) < room, with as many blocks as there could be.
    least = floor(-log(alpha) / (2.0 * room**2)) + 1 if room > 0.0 else None
    radius = contamination.block_radius(releases, blocks, alpha=alpha) if blocks else 1.0
    obstacles = []
    if blocks == 0 or radius >= room:
        obstacles.append(
            f"{releases} releases and {blocks} blocks of {size} records leave a radius of "
            f"{radius:.3g} (Theorem 13), and only {room:.3g} lies between the target and 1"
        )
    return Needs(
        least_count=None, least_releases=least, least_records=None, largest_threshold=None,
        obstacles=tuple(obstacles),
    )  # fmt: skip


def _weighted(audit: AuditPlan) -> Stratified | None:
    """Return the design where strata weigh otherwise than their sizes do."""
    design = audit.design
    return design if isinstance(design, Stratified) and not design.proportional else None


def _reached(requirements: Requirements, audit: AuditPlan, level: float) -> bool:
    """Whether strata with registered weights can reach a level at best."""
    weighted = _weighted(audit)
    assert weighted is not None  # the caller asked
    return all(
        best_weighted_pvalue(test, weighted, r.unit_limit) <= level
        for test, r in zip(audit.tests(requirements), requirements, strict=True)
    )


def _records_for(requirements: Requirements, audit: AuditPlan, level: float) -> int:
    """Return the records that every requirement's test needs to reach a level at best.

    Weighted strata have the sizes that they have: their own number, or one more if it fails.
    """
    if _weighted(audit) is not None:
        return audit.n if _reached(requirements, audit, level) else audit.n + 1
    return max(
        least_records_for(test, r.unit_limit, level=level)
        for test, r in zip(audit.tests(requirements), requirements, strict=True)
    )


def _few_draws(releases: int, least: int, target: float, alpha: float) -> tuple[str, ...]:
    if releases >= least:
        return ()
    return (
        f"{releases} draws cannot validate a reliability above {target:g} at error {alpha:.3g}, "
        f"even if every release is valid: at least {least} are needed",
    )


def _few_records(n: int, least: int, what: str) -> tuple[str, ...]:
    if n >= least:
        return ()
    more = f"at least {least:,} are needed" if least > n + 1 else "more are needed"
    return (
        f"{n:,} target records cannot reach {what}, even if every loss is at its lower bound: "
        f"{more}",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class PaperLimits:
    """What the paper's own statements say about one size."""

    least_records: int | None  # Proposition 14, for registered slacks
    least_releases: int  # Proposition 18
    sufficient_records: int | None  # Proposition 17; None: some margin is not positive
    direct_shortfall: float | None  # Theorem 15, at half the margin as slack

    def to_dict(self) -> dict[str, Any]:
        """Return plain values."""
        return {
            "proposition_14_least_records": self.least_records,
            "proposition_18_least_releases": self.least_releases,
            "proposition_17_sufficient_records": self.sufficient_records,
            "theorem_15_direct_shortfall": self.direct_shortfall,
        }


def paper_limits(
    requirements: Requirements, margins: Sequence[float], audit: AuditPlan, *, failure: float = 0.1
) -> PaperLimits:
    """Return the paper's necessary and sufficient sizes, budgets split in halves.

    ``failure`` is the chance that a sufficient size falls short nevertheless.
    """
    alpha = float(audit.claim.alpha) / audit.mechanisms
    target = audit.claim.target
    margin, width = min(margins), max(r.width for r in requirements)
    least = None
    if all(r.slack is not None for r in requirements):
        divergence = min(-float(log_chernoff(r.unit_cutoff, 1, r.unit_limit)) for r in requirements)
        least = least_records(divergence, target=target, alpha_target=alpha / 2)
    positive = margin > 0.0
    return PaperLimits(
        least_records=least,
        least_releases=least_releases_named(target=target, alpha_mechanism=alpha / 2),
        sufficient_records=sufficient_records_named(
            margin=margin, width=width, alpha=alpha / 2, beta=failure,
            n_releases=audit.releases, n_requirements=len(requirements),
        ) if positive else None,
        direct_shortfall=direct_shortfall(
            n_records=audit.n, n_releases=audit.releases, n_requirements=len(requirements),
            margin=margin, slack=margin / 2, width=width, budget=(alpha / 2, alpha / 2),
            failure=(failure / 2, failure / 2),
        ) if positive else None,
    )  # fmt: skip
