"""What would settle an unresolved verdict on a fresh target, from the planner.

A plan, and no part of the certificate: it takes this target's estimates for the truth, which
they are not. Sizes come from a normal approximation and are then judged by simulating the
audit itself, with the registered tests; what is said is what that simulation gave.

The sizes are found once, when the certificate is made, and recorded beside it; the words are
made from them whenever they are shown, so that no page depends on a simulation.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from math import ceil, log, log10, sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from proxyguard.exact.binomial import upper_tail
from proxyguard.exact.rounding import at_most
from proxyguard.exact.sharp import critical_count
from proxyguard.modes.planning import AuditPlan, Planned, least_releases_sharp, planned
from proxyguard.plan.law import Law, estimated_law
from proxyguard.plan.power import Power, power
from proxyguard.plan.question import geometric
from proxyguard.registry.choices import Score
from proxyguard.registry.design import Clustered, Design
from proxyguard.registry.requirement import Requirement
from proxyguard.registry.test import ComponentTest

Array = NDArray[np.float64]

GOAL = 0.8
"""The power that an advised plan reaches."""

DIGITS = 4
"""Digits of a simulated power that every machine agrees on."""

KINDS = 12
"""Kinds of valid release: equally many each, from the least margin upwards."""

NEAREST = 100
"""Requirements that sizes are planned with, the ones nearest to their limits."""

FAR = 5.0
"""Standard errors from a cutoff beyond which a release scores always, or never."""

MOST_RECORDS, MOST_RELEASES = 50_000, 2_000
"""Sizes beyond which nothing is advised."""

EFFORT = 2e6
"""Losses that are bet on in one simulation, a fifth of a second, where so few targets do."""

COARSE, FINE = 60, 240
"""Targets that are simulated at the least, to find a size and to settle it."""

BUMPS, TRIED, CUTS = 8, 3, 6
"""How often records are added where the simulation fell short, how many sizes are tried, and
how many sizes are judged to settle one."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Unsettled:
    """One unresolved mechanism: its registered claim and what the target said of it."""

    mechanism: str
    claim: Planned
    design: Design
    requirements: tuple[Requirement, ...]
    means: Array  # (R, J), unit scale; failed draws have 1 everywhere
    deviations: Array  # (J,), unit scale
    n: int
    mechanisms: int
    binding: str
    seed: int = 0
    sequential: bool = False  # planned as one look at all draws
    unequal: bool = False  # mechanisms had other than equal shares of the budget
    digits: int | None = None  # of a registered disclosure, which another audit would have too

    @property
    def releases(self) -> int:
        """``R``."""
        return len(self.means)

    @property
    def valid(self) -> NDArray[np.bool_]:
        """Which releases have all their estimates below the limits."""
        limits = np.array([r.unit_limit for r in self.requirements])
        return np.asarray(~np.any(at_most(limits, self.means), axis=1))  # on a limit is not below

    @property
    def reliability(self) -> float:
        """The share that is planned with: of R estimates, shrunk a little towards a half."""
        return (int(self.valid.sum()) + 0.5) / (self.releases + 1.0)


def unit_means(group: Mapping[str, Any], requirements: Sequence[Requirement]) -> Array:
    """Return the estimates of recorded evidence on the unit scale, (R, J)."""
    estimates = np.array(group["derived"]["estimates"], dtype=np.float64)
    low = np.array([r.low for r in requirements])
    width = np.array([r.width for r in requirements])
    return np.asarray(np.clip((estimates - low) / width, 0.0, 1.0))


def unit_deviations(group: Mapping[str, Any]) -> Array:
    """Return the usual standard deviation of a loss on the unit scale, (J,).

    Without variances, that of a two-valued loss with the same mean, which is the largest.
    """
    found = []
    for column in group["columns"]:
        mean = np.array(column["mean"], dtype=np.float64)
        variance = column.get("variance")
        values = mean * (1.0 - mean) if variance is None else np.array(variance, dtype=np.float64)
        found.append(float(np.sqrt(np.median(values))))
    return np.array(found)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """An audit that would probably validate, and the power that it reached when simulated."""

    n: int
    R: int
    power: float
    power_error: float

    def to_dict(self) -> dict[str, Any]:
        """Return plain values."""
        return asdict(self)

    @classmethod
    def of(cls, value: Mapping[str, Any]) -> Sizes:
        """Return recorded sizes; what is no number raises."""
        return cls(
            n=int(value["n"]),
            R=int(value["R"]),
            power=float(value["power"]),
            power_error=float(value["power_error"]),
        )


def advise(case: Unsettled) -> dict[str, Any]:
    """Return the advice for one unresolved mechanism, in words and numbers."""
    return advice_words(case, find_sizes(case))


def find_sizes(case: Unsettled) -> Sizes | None:
    """Return sizes that reach the goal when they are simulated; the slow part."""
    if _no_start(case):
        return None
    near = nearest(case)
    found = _search(near, law_of(near))
    if found is None:
        return None
    plan, reached = found
    return Sizes(
        n=plan.n,
        R=plan.releases,
        power=round(reached.value, DIGITS),
        power_error=round(reached.standard_error, DIGITS),
    )


def advice_words(case: Unsettled, sizes: Sizes | None) -> dict[str, Any]:
    """Return the advice that goes with sizes that were found, or with none; simulates nothing."""
    least = f"It is least certain of {case.binding!r}." if case.binding else ""
    why = _no_start(case)
    if why:
        return _silent(case, least, why)
    if sizes is None:
        return _silent(
            case, least,
            f"no audit of up to {MOST_RECORDS:,} records and {MOST_RELEASES:,} draws reaches "
            f"{100 * GOAL:g} % power when this target's estimates are taken for the truth: they "
            "lie too near the limits, or too few releases meet them",
        )  # fmt: skip
    valid = (
        f"{int(case.valid.sum())} of {case.releases} releases valid, planned with "
        f"{100 * case.reliability:.1f} %"
    )
    unit = "clusters" if isinstance(case.design, Clustered) else "records"
    sentence = (
        f"On a fresh target, about {sizes.n:,} {unit} (here {case.n:,}) and {sizes.R:,} draws "
        f"(here {case.releases:,}) would validate with a chance of {sizes.power:.2f} (simulated, "
        f"Monte Carlo error {sizes.power_error:.2f}), {_same(case)}, if this "
        f"target's estimates were the truth: {valid}. {least} "
        "This is a plan, not a certified statement; the estimates are noisy, and this target "
        "cannot be used again."
    )
    return {**_base(case), "sentence": " ".join(sentence.split()), **sizes.to_dict()}


def _same(case: Unsettled) -> str:
    """Return in what the planned audit is the registered one, and in what it is not."""
    differs = []
    if case.sequential:
        differs.append("decided once after all draws instead of look by look")
    chosen = case.claim.choices()
    if chosen.get("threshold") is not None or chosen.get("violation_threshold") is not None:
        differs.append("the threshold chosen anew for the number of draws")
    if case.unequal:
        differs.append("equal shares of the error budget")
    if not differs:
        return "by the same tests and mode"
    return f"by the same tests, but with {', '.join(differs)}"


def _no_start(case: Unsettled) -> str:
    """Return why no sizes are looked for, or nothing where they are."""
    if any(r.group is not None for r in case.requirements):
        return "the planner does not model requirements on subgroups"
    return _too_few(case) if case.reliability <= case.claim.target else ""


def _too_few(case: Unsettled) -> str:
    """Return why a plan has nothing to start from: too few valid releases, or too few at all."""
    valid, target = int(case.valid.sum()), case.claim.target
    met = (
        f"{valid} of {case.releases} releases have all estimates below their limits on this target"
    )
    if valid > target * case.releases:
        return (
            f"{met}, too few releases to plan for a reliability above {target:.4g}: so many could "
            "meet their limits by chance; a fresh audit would start with more draws"
        )
    return (
        f"{met}, which is not more than the required {target:.4g}: if that is near the truth, no "
        "size of audit validates this mechanism; a better one, or other limits registered for a "
        "fresh target, would be needed"
    )


def _base(case: Unsettled) -> dict[str, Any]:
    return {
        "mechanism": case.mechanism,
        "binding": case.binding,
        "reliability": case.reliability,
        "n_here": case.n,
        "R_here": case.releases,
    }


def _silent(case: Unsettled, least: str, why: str) -> dict[str, Any]:
    sentence = f"No sizes are advised: {why}. {least} This is no certified statement."
    nothing = dict.fromkeys(("n", "R", "power", "power_error"))
    return {**_base(case), "sentence": " ".join(sentence.split()), **nothing}


def nearest(case: Unsettled) -> Unsettled:
    """Return the case with the requirements that valid releases come nearest to missing.

    A workload has thousands, most of them far from their limits: to plan with all takes minutes,
    and taken for independent they would look worse than they are.
    """
    if len(case.requirements) <= NEAREST or isinstance(case.claim.test, Mapping):
        return case
    limits = np.array([r.unit_limit for r in case.requirements])
    margins = (limits - case.means[case.valid]) / np.maximum(case.deviations, 1e-9)
    kept = np.sort(np.argsort(margins.min(axis=0), kind="stable")[:NEAREST])
    return replace(
        case,
        requirements=tuple(case.requirements[j] for j in kept),
        # Releases that miss another requirement stay invalid.
        means=np.where(case.valid[:, None], case.means[:, kept], 1.0),
        deviations=case.deviations[kept],
    )


def law_of(case: Unsettled) -> Law:
    """Return the law that takes the estimates for the truth: a few kinds of valid release.

    Releases with an estimate above its limit count as invalid ones that never score.
    """
    valid = case.means[case.valid]
    limits = np.array([r.unit_limit for r in case.requirements])
    worst = np.min((limits - valid) / np.maximum(case.deviations, 1e-9), axis=1)
    ordered = valid[np.argsort(worst, kind="stable")]
    parts = np.array_split(ordered, min(KINDS, len(ordered)))
    return estimated_law(
        case.requirements, means=np.array([part.mean(axis=0) for part in parts]),
        chances=[case.reliability * len(part) / len(ordered) for part in parts],
        deviations=[float(d) for d in case.deviations],
        origin="estimates of this target taken for the truth",
    )  # fmt: skip


def plan_of(case: Unsettled, n: int, releases: int) -> AuditPlan:
    """Return the registered claim at other sizes; a threshold is chosen anew for its draws."""
    claim = planned(case.claim.with_default_thresholds())
    return AuditPlan(
        claim=claim, n=n, releases=releases, mechanisms=case.mechanisms, design=case.design,
        digits=case.digits,
    )  # fmt: skip


def _search(case: Unsettled, law: Law) -> tuple[AuditPlan, Power] | None:
    """Return the first of the cheapest sizes that reaches the goal when it is simulated."""
    for n, releases in list(_sizes(case, law))[:TRIED]:
        failed = 0
        for _ in range(BUMPS):
            plan = plan_of(case, n, releases)
            if _enough(_simulated(case, law, plan, COARSE)):
                found = _settled(case, law, plan, failed)
                if found is not None:
                    return found
                break
            failed = n
            n = _round_up(1.15 * n)
            if n > MOST_RECORDS:
                break
    return None


def _enough(reached: Power) -> bool:
    """Return whether the goal is reached, by more than the simulation's error."""
    return reached.value - reached.standard_error >= GOAL


def _settled(
    case: Unsettled, law: Law, plan: AuditPlan, failed: int
) -> tuple[AuditPlan, Power] | None:
    """Return about the fewest records that reach the goal, from a size that seemed to.

    Judged on more targets than the search, whose luck would otherwise pick the size.
    """
    n, best = plan.n, None
    for _ in range(CUTS):
        tried = plan_of(case, n, plan.releases)
        reached = _simulated(case, law, tried, FINE)
        if _enough(reached):
            best = (tried, reached)
        else:
            failed = n
        if best is None:
            n = _round_up(1.15 * n)
            if n > MOST_RECORDS:
                break
            continue
        least = best[0].n
        n = _round_up(least / 1.5) if failed == 0 else _round_up(sqrt(failed * least))
        if not failed < n < least:
            break
    return best


def _sizes(case: Unsettled, law: Law) -> Iterator[tuple[int, int]]:
    """Yield sizes by the normal approximation, the cheapest first.

    Cost is counted in what this audit had: ``n'/n + R'/R``.
    """
    level = float(case.claim.alpha) / case.mechanisms
    least = least_releases_sharp(target=case.claim.target, alpha=level) or MOST_RELEASES
    most = max(MOST_RELEASES, case.releases)
    grid = {_round_up(r) for r in geometric(min(least, most), most, 12)} | {case.releases}
    found = []
    for releases in sorted(grid):
        n = _least_records(case, law, releases)
        if n is not None:
            found.append((n / case.n + releases / case.releases, n, releases))
    yield from ((n, releases) for _, n, releases in sorted(found))


def _least_records(case: Unsettled, law: Law, releases: int) -> int | None:
    """Return how many records the approximation asks for beside so many draws."""
    plan = plan_of(case, 1000, releases)
    levels = plan.levels(law.requirements)
    needed = int(
        critical_count(
            releases, target=case.claim.target,
            kappa=float(levels.threshold) if case.claim.mode == "direct" else 0.0,
            alpha=float(levels.lower.total),
        )
    )  # fmt: skip
    goal = GOAL + 0.05
    if needed > releases or float(upper_tail(needed, releases, law.reliability)) < goal:
        return None
    level = levels.betting if case.claim.mode == "named" else float(levels.threshold)
    tests = plan.tests(law.requirements)
    noise = np.random.default_rng(case.seed).standard_normal((400, len(law.requirements)))
    low, high = 1, 1
    while _approximate(case, law, tests, level, high, releases, needed, noise) < goal:
        low, high = high, 2 * high
        if high > MOST_RECORDS:
            return None
    while high > 1.03 * low + 1:
        middle = round(sqrt(low * high))
        enough = _approximate(case, law, tests, level, middle, releases, needed, noise) >= goal
        low, high = (low, middle) if enough else (middle, high)
    return _round_up(high)


def _approximate(
    case: Unsettled, law: Law, tests: Sequence[ComponentTest], level: float, n: int,
    releases: int, needed: int, noise: Array,
) -> float:  # fmt: skip
    """Return the power if sample means were normal and common to all kinds of release."""
    means = law.means
    cutoffs = np.array(
        [_cutoff(case, r, t, float(d), level, n)
         for r, t, d in zip(law.requirements, tests, case.deviations, strict=True)]
    )  # fmt: skip
    spread = np.minimum(case.deviations, np.sqrt(means * (1.0 - means)))
    sample = means[None] + noise[:, None, :] * spread[None] / sqrt(n)
    rates = np.all(sample <= cutoffs, axis=2) @ law.releases
    tails = np.where(rates > 0.0, upper_tail(needed, releases, np.maximum(rates, 1e-12)), 0.0)
    return float(tails.mean())


def _cutoff(
    case: Unsettled, requirement: Requirement, test: ComponentTest, deviation: float,
    level: float, n: int,
) -> float:  # fmt: skip
    """Return about where a sample mean must lie for its release to score."""
    slack = not case.claim.tested or getattr(case.claim, "score", None) is Score.SLACK
    if slack and requirement.slack is not None:
        return requirement.unit_cutoff
    v, size = requirement.unit_limit, -2.0 * log(level) / n
    if test is ComponentTest.HOEFFDING:
        return v - sqrt(size / 4.0)
    adapts = (
        ComponentTest.EMPIRICAL_BERNSTEIN, ComponentTest.BETTING, ComponentTest.BETTING_FIXED,
    )  # fmt: skip
    variance = deviation**2 if test in adapts else v * (1.0 - v)
    extra = 1.2 * size if test is ComponentTest.EMPIRICAL_BERNSTEIN else 0.0
    return v - sqrt(variance * size) - extra


def _simulated(case: Unsettled, law: Law, plan: AuditPlan, least: int) -> Power:
    """Return the power of a plan, on as many simulated targets as the effort allows."""
    law = _needed(case, law, plan)
    losses = law.releases.size * len(law.requirements) * plan.n
    repetitions = int(max(least, min(400, EFFORT / losses)))
    return power(law, plan, repetitions=repetitions, seed=case.seed)


def _needed(case: Unsettled, law: Law, plan: AuditPlan) -> Law:
    """Return the law without what cannot change a score, which changes nothing but the time.

    Requirements that no kind comes near to missing go; kinds that always score become one;
    kinds that never score are left to the rest, which never does.
    """
    levels, tests = plan.levels(law.requirements), plan.tests(law.requirements)
    level = min(levels.betting, float(levels.threshold))
    cutoffs = np.array(
        [_cutoff(case, r, t, float(d), level, plan.n)
         for r, t, d in zip(law.requirements, tests, case.deviations, strict=True)]
    )  # fmt: skip
    room = (cutoffs - law.means) * sqrt(plan.n) / np.maximum(case.deviations, 1e-9)
    kinds = np.flatnonzero(np.all(room > -FAR, axis=1))
    sure = np.flatnonzero(np.all(room > FAR, axis=1))
    kept = [j for j in range(len(tests)) if np.any(room[kinds, j] <= FAR)]
    if not kept or kinds.size == 0 or isinstance(plan.claim.test, Mapping):
        return law
    one = sure[:1]
    rows = np.concatenate([one, np.setdiff1d(kinds, sure)])
    chances = law.releases[rows].copy()
    if one.size:
        chances[0] = law.releases[sure].sum()
    return replace(
        law,
        requirements=tuple(law.requirements[j] for j in kept),
        losses=tuple(law.losses[j][rows] for j in kept),
        records=tuple(law.records[j] for j in kept),
        releases=chances,
    )


def _round_up(value: float) -> int:
    """Return a whole number with two leading digits, no smaller: sizes are no exact science."""
    whole = ceil(value)
    if whole < 100:
        return whole
    step: int = 10 ** (int(log10(whole)) - 1)
    return step * ceil(whole / step)
