"""What a planner asks a mode: which ways to audit there are, what they need, how they fare.

A plan is a claim with its sizes. The chance that it validates is computed given a simulated
target, or drawn where the draws themselves must be. What an audit needs at the least is
necessary: where it fails, no outcome at all can validate.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from decimal import ROUND_DOWN, Context
from enum import Enum
from fractions import Fraction
from functools import lru_cache
from math import ceil, log
from typing import ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from proxyguard.errors import RegistryError
from proxyguard.exact.betting import ROOM, BettingCapital, FixedCapital
from proxyguard.exact.binomial import clopper_pearson_lower, upper_tail
from proxyguard.exact.mean import log_chernoff
from proxyguard.exact.rounding import GUARD, Array, Integers, bracket_switch
from proxyguard.exact.sharp import critical_count, default_threshold, largest_threshold
from proxyguard.modes.claim import Claim, Levels, MechanismClaim
from proxyguard.plan.law import Law
from proxyguard.plan.targets import Targets, count_pvalues
from proxyguard.registry.design import Design, Iid, Sampling, Stratified
from proxyguard.registry.numbers import Level
from proxyguard.registry.requirement import Form, Requirement
from proxyguard.registry.test import ComponentTest, Requirements, Statistics, pvalues

Rng = np.random.Generator
Choice = Fraction | int | Enum
Decider = Callable[[NDArray[np.int64]], NDArray[np.bool_]]

# How often the kinds of release are drawn for one target, where a sum does not do.
REDRAWS = 4

SHARES = ("0.5", "0.8", "0.9", "0.95")
# Shares of the error that are tried.
TARGET_SHARES = ("0.5", "0.8", "0.9")
# Slacks that are tried, as shares of the margin.
SLACKS = (0.3, 0.45, 0.6, 0.75, 0.9)


class Asked(Protocol):
    """What of a question the modes read."""

    @property
    def reliability_target(self) -> Level:
        """``eta_0`` as it was written."""

    @property
    def alpha(self) -> Level:
        """The error of the family."""

    @property
    def mechanisms(self) -> int:
        """How many mechanisms share the error."""

    @property
    def target(self) -> float:
        """``eta_0``."""

    @property
    def level(self) -> float:
        """The error of one mechanism."""

    @property
    def design(self) -> Design:
        """How the target is sampled."""

    @property
    def iid(self) -> bool:
        """Whether the records are iid."""

    @property
    def digits(self) -> int | None:
        """Of a disclosure."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditNeeds:
    """What one claim needs, beside what it has."""

    least_count: int | None = None  # favorable scores or recognized releases; None: none suffices
    least_releases: int | None = None
    least_records: int | None = None  # None: not known without a search, or not limiting
    largest_threshold: float | None = None  # of a p-value score
    obstacles: tuple[str, ...]  # why no outcome can validate; empty if some can


@dataclass(frozen=True, slots=True, kw_only=True)
class RampCost:
    """What ramps of one share of the releases' distances to their cutoffs cost at a plan's size."""

    share: str
    ramps: tuple[float, ...]  # one a requirement
    score: float  # the mean ramp score under the law
    kappa: float
    sensitivity: float
    bound: float  # on the reliability, if the draws have this mean score
    records: int | None  # the fewest with which it would validate; None: no number does


class Planned(MechanismClaim, ABC):
    """A claim whose chance of validation can be predicted."""

    tested: ClassVar[bool] = True  # whether releases pass by tests: slack scores and ramps do not
    recognizes: ClassVar[bool] = False  # whether it says which releases are valid

    @classmethod
    def ways(cls, question: Asked, tests: Sequence[ComponentTest | None]) -> list[Way]:
        """Return the ways to audit in this mode that a planner compares: by default each test."""
        return [Way(kind=cls, test=test) for test in tests]

    @classmethod
    @abstractmethod
    def settings(cls, way: Way, question: Asked, law: Law, n: int, releases: int) -> Settings:
        """Yield the plans of one way at one size, with the requirements' slacks and ramps."""

    @classmethod
    def searched(cls, way: Way) -> bool:
        """Return whether sizes are searched for with this way, or only judged with it."""
        return False

    @classmethod
    def aim(cls, question: Asked, releases: int) -> float | None:
        """Return the level at which betting aims while sizes are searched for."""
        return default_threshold(releases, target=question.target, alpha=question.level)

    @abstractmethod
    def registered(self) -> dict[str, Choice]:
        """Return the choices that a plan in this mode writes down, beside target and error."""

    @abstractmethod
    def least_count(
        self, plan: AuditPlan, requirements: Requirements, levels: Levels
    ) -> int | None:
        """Return the least count that validates out of R, ``R + 1`` if none does.

        It is of favorable scores or recognized releases; None where no count decides.
        """

    @abstractmethod
    def needs(self, plan: AuditPlan, requirements: Requirements, levels: Levels) -> AuditNeeds:
        """Return the necessary limits of one audit, and why it cannot succeed if it cannot."""

    def chance(self, targets: Targets, plan: AuditPlan, levels: Levels, rng: Rng) -> Array:
        """Return the chance of validation given each target, over the draws.

        Where a count of favorable scores decides, it is binomial given the target.
        """
        least = self.least_count(plan, targets.law.every, levels)
        assert least is not None  # a mode without a count has a chance of its own
        return tail(
            least, plan.releases, lambda: targets.rates(self.scores(targets, plan, levels)), targets
        )

    def scores(self, targets: Targets, plan: AuditPlan, levels: Levels) -> NDArray[np.bool_]:
        """Return which kinds of release score favorably on each target, (repetitions, A)."""
        tests = plan.tests(targets.law.every)
        pvalues = targets.release_pvalues(tests, level=levels.betting)
        return np.asarray(pvalues <= float(levels.threshold))

    def ramp_costs(
        self, plan: AuditPlan, requirements: Requirements, law: Law
    ) -> tuple[RampCost, ...]:
        """Return what ramps of every width that is tried cost; nothing where scores have none."""
        return ()

    def most_errors(self, plan: AuditPlan, requirement: Requirement, levels: Levels) -> int | None:
        """Return the most errors with which a release scores under one two-valued requirement.

        -1 if none does; None where the score is no function of the errors.
        """
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditPlan:
    """One way to audit: a claim with its sizes; ``mechanisms`` share the error budgets.

    ``digits`` are those of a registered disclosure, by which statistics are rounded before they
    decide: a plan that left them out would promise power that the audit does not have.
    """

    claim: Planned
    n: int
    releases: int
    mechanisms: int = 1
    design: Design = field(default_factory=Iid)
    digits: int | None = None

    def levels(self, requirements: Requirements) -> Levels:
        """Return the local levels that the claim fixes."""
        return self.claim.levels(
            n_releases=self.releases,
            n_requirements=len(requirements),
            share=Fraction(1, self.mechanisms),
        )

    @property
    def strata(self) -> Stratified | None:
        """The strata at the size of this plan, where they weigh otherwise than their sizes do."""
        return weighted_strata(self.design, self.n)

    def tests(self, requirements: Requirements) -> tuple[ComponentTest, ...]:
        """Return the component test of each requirement."""
        return self.claim.tests(self.design, requirements)


Setting = tuple[AuditPlan, tuple[Requirement, ...]]
Settings = Iterator[Setting]


def planned(claim: Claim) -> Planned:
    """Return the claim if it is one that can be planned; an error otherwise."""
    if not isinstance(claim, Planned):
        raise RegistryError(f"mode {claim.mode} has no sealed audit to plan")
    return claim


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """One kind of audit: its mode, bound and score, and how its releases are tested."""

    kind: type[Planned]
    bound: str = ""  # "", "paper", "rescaled" or "sharp"
    score: str = ""  # "", "pvalue" or "slack"
    test: ComponentTest | None = None  # None: by declaration
    ordered: bool = True  # whether the design has records in an order, which some defaults read

    @property
    def mode(self) -> str:
        """The name of the mode."""
        return self.kind.mode

    @property
    def split(self) -> bool:
        """Whether the bound divides its error between draws and target."""
        return self.bound in ("paper", "rescaled")

    @property
    def label(self) -> str:
        """The way in words."""
        parts = [self.mode, self.bound, "slack score" if self.score == "slack" else ""]
        return ", ".join(part for part in parts if part)

    @property
    def tests(self) -> str:
        """The tests in words."""
        if self.score == "slack" or not self.kind.tested:
            return "-"
        return "by declaration" if self.test is None else self.test.value

    @property
    def reads_records(self) -> bool:
        """Whether records are read one by one, which takes as long as there are records.

        Fixed stakes multiply over records in any order, so that counts of their kinds do.
        """
        if self.tests == "-" or self.test is None:
            return self.tests != "-" and self.ordered
        return self.test.needs_records and self.test is not ComponentTest.BETTING_FIXED

    def plan(self, question: Asked, n: int, releases: int, **choices: str | int) -> AuditPlan:
        """Return the plan of this way at one size, with further choices of its mode."""
        level = (question.reliability_target, question.alpha)
        return AuditPlan(
            claim=_planned_claim(self, *level, tuple(choices.items())),
            n=n,
            releases=releases,
            mechanisms=question.mechanisms,
            design=question.design,
            digits=question.digits,
        )


@lru_cache(maxsize=4096)
def _planned_claim(
    way: Way, reliability_target: Level, alpha: Level, tuned: tuple[tuple[str, str | int], ...]
) -> Planned:
    """Return the claim of a way; a search asks for the same settings at every number of records."""
    choices: dict[str, object] = {
        "mode": way.mode, "reliability_target": reliability_target, "alpha": alpha,
        "test": way.test, **dict(tuned),
    }  # fmt: skip
    if way.bound:
        choices["bound"] = way.bound
    if way.score:
        choices["score"] = way.score
    return planned(Claim.of(choices))


# Bounds that are compared, ours first.
BOUNDS = ("sharp", "rescaled", "paper")


# Counts that validate.


@lru_cache(maxsize=512)
def lower_limits(releases: int, alpha: float) -> Array:
    """Return the Clopper-Pearson lower limit of every count out of R."""
    return clopper_pearson_lower(np.arange(releases + 1), releases, alpha=alpha)


def least_recognized(releases: int, *, target: float, alpha: float) -> int:
    """Return the least count with ``CP_lower > target``, ``R + 1`` if there is none."""
    # The right side, because a limit that equals the target does not validate.
    return int(np.searchsorted(lower_limits(releases, alpha), target, side="right"))


def least_mean_score(releases: int, rate: float, *, alpha: float) -> float:
    """Return the least mean of R scores whose Bernoulli-KL limit exceeds ``rate``; 2 if none."""
    # Perfect scores have the limit alpha^(1/R): a rate that is not below it is out of reach.
    if rate >= 1.0 or alpha ** (1.0 / releases) <= rate:
        return 2.0
    # The limit of a mean m exceeds the rate exactly when R d_B(m, rate) > log(1/alpha).
    _, first = bracket_switch(
        lambda m: log_chernoff(1.0 - m, releases, 1.0 - rate) < log(alpha),
        np.asarray(rate),
        np.asarray(1.0),
    )
    return float(first)


def tail(least: int, releases: int, rates: Callable[[], Array], targets: Targets) -> Array:
    """Return the chance of at least so many favorable scores; none where R do not suffice."""
    if least > releases:
        return np.zeros(targets.repetitions)
    return at_least(least, releases, rates())


def at_least(least: int, releases: int, rates: Array) -> Array:
    """Return the binomial tail; 0 at a rate of 0, where the guarded tail is merely tiny."""
    return np.where(rates > 0.0, upper_tail(least, releases, np.minimum(rates, 1.0)), 0.0)


def drawn(targets: Targets, plan: AuditPlan, decide: Decider, rng: Rng) -> Array:
    """Return the share of redraws that validate, where the draws themselves must be drawn.

    ``decide`` says whether each target validates, from how often each kind was drawn on it.
    """
    # Kinds of release are drawn rather than releases: draws of one kind share their p-value.
    chances = targets.releases
    # Beside them invalid releases that never score.
    rest = np.maximum(0.0, 1.0 - chances.sum(axis=1, keepdims=True))
    kinds = np.hstack([chances, rest]) / (chances.sum(axis=1, keepdims=True) + rest)
    counts = rng.multinomial(plan.releases, kinds, size=(REDRAWS, targets.repetitions))
    return np.asarray(np.mean([decide(one[:, :-1]) for one in counts], axis=0), dtype=np.float64)


def most_errors_tested(plan: AuditPlan, requirement: Requirement, levels: Levels) -> int | None:
    """Return the most errors at which a two-valued requirement's test passes the threshold."""
    test = plan.tests((requirement,))[0]
    table = count_pvalues(test, plan.n, requirement.unit_limit, plan.digits)
    if table is None:
        return None
    # P-values rise with the errors, which `count_pvalues` sees to; a tie passes, as in the audit.
    return int(np.searchsorted(table, float(levels.threshold), side="right")) - 1


# What an audit needs, whatever its releases score.


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
    # Rounded towards fewer draws: a need must not rule out a number that can validate.
    return ceil(log((alpha - kappa) / (1.0 - kappa)) / log(target) * (1.0 - GUARD))


def oracle_releases(*, target: float, alpha: float) -> int:
    """Return the fewest draws that could validate, if every release were known to be valid."""
    least = least_releases_sharp(target=target, alpha=alpha)
    assert least is not None  # nothing contaminates
    return least


class _Best(Statistics):
    """Every loss at its lower bound, for one release."""

    def __init__(
        self, n: int, v: float, *, level: float = 1.0, strata: Stratified | None = None
    ) -> None:
        super().__init__(n, v)
        self._level, self._strata = level, strata

    @property
    def effective_size(self) -> float:
        return float(self.n if self._strata is None else self._strata.effective_size)

    @property
    def mean(self) -> Array:
        return np.zeros(1)

    @property
    def variance(self) -> Array:
        return np.zeros(1)

    @property
    def count(self) -> Integers:
        return np.zeros(1, dtype=np.int64)

    @property
    def indicators(self) -> Integers:
        return self.count

    @property
    def log_peak(self) -> Array:
        capital = BettingCapital(
            columns=1, n=self.n, v=self.v, level=self._level, violation_level=self._level
        )
        capital.update(np.zeros((1, self.n)))
        return np.asarray(capital.log_peak()[0])

    @property
    def log_evalue(self) -> Array:
        omega = np.full(self.n, 1.0 / self.n)
        if self._strata is not None:
            sizes = self._strata.sizes
            weights = [float(self._strata.weights[g] / sizes[g]) for g in sizes]
            omega = np.repeat(weights, list(sizes.values()))
        capital = FixedCapital(columns=1, v=self.v, largest_weight=float(omega.max()))
        capital.update(np.zeros((1, self.n)), omega)
        return np.asarray(capital.log_evalue()[0])


def best_weighted_pvalue(test: ComponentTest, design: Stratified, v: float) -> float:
    """Return the smallest p-value on strata with these weights: every loss at its lower bound."""
    # A test of unweighted records has a p-value here too, and it is none (theory section 1).
    if Sampling.WEIGHTED not in test.samplings:
        raise ValueError(f"{test.value} does not cover strata with weights of their own")
    return float(pvalues(test, _Best(sum(design.sizes.values()), v, strata=design))[0])


def best_pvalue(test: ComponentTest, n: int, v: float, *, level: float) -> float:
    """Return the smallest p-value that ``n`` records can give: every loss at its lower bound."""
    return float(pvalues(test, _Best(n, v, level=level))[0])


def least_records_for(test: ComponentTest, v: float, *, level: float, most: int = 10**6) -> int:
    """Return the least ``n`` at which a test can reach a p-value of ``level``.

    ``most + 1`` if not even so many records do.
    """
    return least_size(lambda n: best_pvalue(test, n, v, level=level) <= level, 1, most)


def least_size(holds: Callable[[int], bool], low: int, high: int) -> int:
    """Return the least whole number at which a condition that stays true holds."""
    n = low
    while n <= high and not holds(n):
        low, n = n, 2 * n
    # Doubling may step over the end: the end itself is asked before nothing is said to do.
    if n > high and not holds(high):
        return high + 1
    high = min(n, high)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high if not holds(low) else low


def weighted_strata(design: Design, n: int) -> Stratified | None:
    """Return the strata of ``n`` records, where they weigh otherwise than their sizes do."""
    # Weights are of the population and sizes of one declared target: at another size the strata
    # have the same proportions, and only so does more of them tell more.
    if not isinstance(design, Stratified) or design.proportional:
        return None
    return design.of_size(n)


def records_for(requirements: Requirements, plan: AuditPlan, level: float) -> int:
    """Return the records that every requirement's test needs to reach a level at best.

    Weighted strata keep their proportions.
    """
    pairs = list(zip(plan.tests(requirements), requirements, strict=True))
    if plan.strata is not None:

        def reached(n: int) -> bool:
            strata = weighted_strata(plan.design, n)
            assert strata is not None  # a design weighs at every size
            return all(best_weighted_pvalue(t, strata, best_limit(r)) <= level for t, r in pairs)

        return least_size(reached, len(plan.strata.sizes), 10**6)
    # A release p-value is the largest over requirements (Eq. (6)): the hardest one decides.
    # Of a share the answer of a release may lie so high that one record does.
    return max(
        1 if r.indicator and test is ComponentTest.BINOMIAL
        else least_records_for(test, best_limit(r), level=level)
        for test, r in pairs
    )  # fmt: skip


def best_limit(requirement: Requirement) -> float:
    """Return the highest limit, on the unit scale, that a release could be tested at."""
    v = requirement.unit_limit
    if requirement.form is not Form.QUERY:
        return v
    # The answer to a query may leave losses no further up than just above the limit: on one side,
    # for of a mean the limits of both sides sum to 1 + 2 (2 v - 1), each on its own range.
    highest = v / min(1.0, v + ROOM)
    return min(highest, 2.0 * v - 0.5) if requirement.limit > 0.0 else highest


def few_draws(releases: int, least: int, target: float, alpha: float) -> tuple[str, ...]:
    """Return the obstacle of too few draws, if there is one."""
    if releases >= least:
        return ()
    return (
        f"{releases} draws cannot validate a reliability above {target:g} at error {alpha:.3g}, "
        f"even if every release is valid: at least {least} are needed",
    )


def few_records(n: int, least: int, what: str) -> tuple[str, ...]:
    """Return the obstacle of too few records to reach ``what``, if there is one."""
    if n >= least:
        return ()
    more = f"at least {least:,} are needed" if least > n + 1 else "more are needed"
    return (
        f"{n:,} target records cannot reach {what}, even if every loss is at its lower bound: "
        f"{more}",
    )


# Settings that are worth trying.


@lru_cache(maxsize=1024)
def thresholds(releases: int, target: float, alpha: float) -> tuple[str, ...]:
    """Return the score thresholds worth trying, as decimals that can be registered.

    The critical count is a step function of ``t`` and the largest ``t`` with a given count
    dominates, so one threshold a count is enough; counts run from the oracle's upwards, around
    the default rule's.
    """
    default = default_threshold(releases, target=target, alpha=alpha)
    if default is None:
        return ()
    oracle = int(critical_count(releases, target=target, kappa=0.0, alpha=alpha))
    step = releases * (1.0 - target) / 10.0
    # Far above the oracle's count where records are few: there a lenient score is worth more.
    steps = (0.0, 0.125, 0.25, 0.5, 1.0, 1.5, 2.5, 4.0, 6.0)
    wanted = {oracle + ceil(step * share) for share in steps}
    found = [default] + [
        largest_threshold(count, releases, target=target, alpha=alpha)
        for count in sorted(wanted)
        if count <= releases
    ]
    return tuple(dict.fromkeys(decimal_down(t) for t in found if t > 1e-12))


def decimal_down(value: float, digits: int = 4) -> str:
    """Return a positive number as a decimal of so many significant digits, rounded down.

    >>> decimal_down(0.0157499), decimal_down(0.2)
    ('0.01574', '0.2')
    """
    # Down: a threshold a little above the largest that validates would validate nothing.
    rounded = Context(prec=digits, rounding=ROUND_DOWN).create_decimal(repr(value))
    return f"{rounded.normalize():f}"


def with_slacks(law: Law, slack: float) -> tuple[Requirement, ...]:
    """Return the requirements with slacks as a share of what there is room for."""
    return tuple(
        replace(requirement, slack=float(decimal_down(slack * float(margin))), ramp=None)
        for requirement, margin in zip(law.requirements, law.margins, strict=True)
    )


def slack_settings(law: Law) -> Iterator[tuple[Requirement, ...]]:
    """Yield the requirements with the slacks that are worth trying."""
    for slack in SLACKS:
        try:
            tight = with_slacks(law, slack)
        except RegistryError:  # a cutoff below the loss's lower bound: no such setting
            continue
        yield tight
