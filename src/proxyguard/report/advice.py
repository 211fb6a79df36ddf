"""What would settle an unresolved verdict on a fresh target: a question to the planner.

A plan, and no part of the certificate: it takes this target's estimates for the truth, which
they are not. The law of those estimates and the registered question go to `plan.recommend`, with
what this audit had as the unit of cost; what is said is what it answers. Of a named release the
question is whether it is shown at what Holm asks first, the level that `check` foretells with.

The plan is found once, when the certificate is made, and recorded beside it; the words are
made from it whenever they are shown, so that no page depends on a simulation.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from math import sqrt
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from proxyguard.documents.certificate import AdvisedSizes, ReportAdvice
from proxyguard.documents.evidence import GroupEvidence
from proxyguard.exact.rounding import Array, at_most
from proxyguard.modes.catalog import planned_mode
from proxyguard.modes.claim import Claim
from proxyguard.modes.planning import Planned, Way
from proxyguard.plan.law import NEAREST, Law, estimated_law, nearest_requirements
from proxyguard.plan.question import (
    MOST_RECORDS,
    MOST_RELEASES,
    Question,
    about_one_release,
)
from proxyguard.plan.recommend import recommend
from proxyguard.registry.design import Design, clusters_of, sees_losses, tests_excess
from proxyguard.registry.parts import DIGITS as DISCLOSED
from proxyguard.registry.parts import least_digits, useful_digits
from proxyguard.registry.requirement import Form, Requirement
from proxyguard.registry.test import ComponentTest

# The power that an advised plan reaches.
GOAL = 0.8

# Digits of a simulated power that every machine agrees on.
DIGITS = 4

# Kinds of valid release: equally many each, from the least margin upwards.
KINDS = 6

# How many times the records and draws of this audit are searched, and how many at the least.
LARGER, LEAST_RECORDS, LEAST_RELEASES = 10, 5_000, 500

# Losses that one evaluation bets on, and targets on which the plan is judged: about a second.
EFFORT, REPETITIONS = 3.5e5, 400

# Named releases that are advised on, the nearest first, and requirements that are told of each.
MOST_ADVISED, MOST_TOLD = 8, 3

NO_PROMISE = (
    "This is a plan, not a certified statement; the estimates are noisy, and this target cannot be "
    "used again."
)


@dataclass(frozen=True, kw_only=True, eq=False)
class AdviceCase(ABC):
    """What an unresolved verdict is about, and what the target said of it."""

    mechanism: str
    claim: Claim
    design: Design
    requirements: tuple[Requirement, ...]
    means: Array  # (R, J), unit scale; failed draws have 1 everywhere
    deviations: Array  # (J,), unit scale
    n: int
    binding: str
    seed: int = 0
    digits: int | None = None  # of a registered disclosure, which another audit would have too

    @property
    def releases(self) -> int:
        """``R``."""
        return len(self.means)

    @cached_property
    def limits(self) -> Array:
        """The limits on the unit scale, (J,); exact numbers, so that thousands take a while."""
        return np.array([r.unit_limit for r in self.requirements])

    @cached_property
    def valid(self) -> NDArray[np.bool_]:
        """Which releases have all their estimates below the limits; on a limit is not below."""
        return np.asarray(~np.any(at_most(self.limits, self.means), axis=1))

    @property
    def margins(self) -> Array:
        """How far each valid release lies below each limit, in deviations of its loss, (V, J)."""
        below = self.limits - self.means[self.valid]
        return np.asarray(below / np.maximum(self.deviations, 1e-9))

    @property
    def unit(self) -> str:
        """What ``n`` counts, also where units weigh so that there is no question to ask."""
        return "records" if clusters_of(self.design) is None else "clusters"

    @property
    def most_records(self) -> int:
        """Records that are searched at the most."""
        return min(max(LARGER * self.n, LEAST_RECORDS), max(self.n, MOST_RECORDS))

    @property
    @abstractmethod
    def reliability(self) -> float:
        """The share of valid releases that is planned with."""

    @property
    @abstractmethod
    def question(self) -> Question:
        """What the planner is asked."""

    @abstractmethod
    def hopeless(self) -> str:
        """Return why no plan can begin with these estimates, or nothing where one can."""

    @abstractmethod
    def sentence(self, sizes: AdvisedSizes | None, why: str) -> str:
        """Return the advice in words: with sizes, or why there are none."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Unsettled(AdviceCase):
    """One unresolved mechanism: its registered claim and what the target said of it.

    Attributes
    ----------
    mechanism, claim, design, requirements
        What was registered.
    means, deviations
        What the target said, on the unit scale of each requirement.
    n, mechanisms
        Records of the target, and mechanisms that share the budget.
    binding
        The requirement that most releases are held up by.
    seed
        Of the planner's simulation; derived from the registry, so that the plan can be found again.
    sequential, unequal, digits
        In what the audit differs from what the planner plans, or what it rounds to.
    """

    claim: Planned
    mechanisms: int
    sequential: bool = False  # planned as one look at all draws
    unequal: bool = False  # mechanisms had other than equal shares of the budget

    @property
    def reliability(self) -> float:
        """The share that is planned with: of R estimates, shrunk a little towards a half."""
        return (int(self.valid.sum()) + 0.5) / (self.releases + 1.0)

    @property
    def question(self) -> Question:
        """The registered question, both sizes open; cost is ``n'/n + R'/R``, what is here."""
        reliability_target = self.claim.reliability_target
        assert reliability_target is not None  # a claim about a mechanism
        return Question(
            reliability_target=reliability_target, alpha=self.claim.alpha,
            mechanisms=self.mechanisms, record_cost=1.0 / self.n, release_cost=1.0 / self.releases,
            power=GOAL, most_records=self.most_records, most_releases=self._most_releases,
            design=self.design, digits=self.digits,
        )  # fmt: skip

    @property
    def _most_releases(self) -> int:
        most = max(LARGER * self.releases, LEAST_RELEASES)
        return min(most, max(self.releases, MOST_RELEASES))

    def hopeless(self) -> str:
        """Return why a plan has nothing to start from: too few valid releases, or too few."""
        target, valid = self.claim.target, int(self.valid.sum())
        if self.reliability > target:
            return ""
        met = (
            f"{valid} of {self.releases} releases have all estimates below their limits on this "
            "target"
        )
        if valid <= target * self.releases < _valid_unrounded(self):
            return _too_coarse(self)
        if valid > target * self.releases:
            return (
                f"{met}, too few releases to plan for a reliability above {target:.4g}: so many "
                "could meet their limits by chance; a fresh audit would start with more draws"
            )
        return (
            f"{met}, which is not more than the required {target:.4g}: if that is near the truth, "
            "no size of audit validates this mechanism; a better one, or other limits registered "
            "for a fresh target, would be needed"
        )

    def sentence(self, sizes: AdvisedSizes | None, why: str) -> str:
        """Return the sizes that would settle the mechanism in words, or why there are none."""
        least = f"It is least certain of {self.binding!r}." if self.binding else ""
        if sizes is None:
            why = why or (
                f"no audit of up to {self.most_records:,} records and {self._most_releases:,} "
                f"draws reaches {100 * GOAL:g} % power when this target's estimates are taken for "
                "the truth: they lie too near the limits, or too few releases meet them"
            )
            return f"No sizes are advised: {why}. {least} This is no certified statement."
        valid = (
            f"{int(self.valid.sum())} of {self.releases} releases valid, planned with "
            f"{100 * self.reliability:.1f} %"
        )
        differs = ""
        if self.sequential:
            differs += "; with decided once after all draws instead of look by look"
        if self.unequal:
            differs += "; with equal shares of the error budget"
        return (
            f"On a fresh target, about {sizes.n:,} {self.unit} (here {self.n:,}) and "
            f"{sizes.R:,} draws (here {self.releases:,}) would validate with a chance of "
            f"{sizes.power:.2f}, if this target's estimates were the truth: {valid}. It is "
            f"{_how(sizes)}{differs}; the chance is {_computed(self, sizes)}. {least} {NO_PROMISE}"
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class UnsettledRelease(AdviceCase):
    """One unresolved named release, of those that are nearest to being validated.

    Attributes
    ----------
    estimates, pvalues
        Of each requirement, (J,), as the evidence has them: estimates on the scale of the loss.
    family, unresolved
        How many releases share the error, and how many of them are unresolved.
    """

    estimates: Array
    pvalues: Array
    family: int
    unresolved: int

    @property
    def reliability(self) -> float:
        """Whether it is valid by its estimates."""
        return float(self.valid[0])

    @property
    def first(self) -> Fraction:
        """What Holm asks of the smallest p-value of the family, as `check` foretells with."""
        return self.claim.lower_budget().total / self.family

    @property
    def question(self) -> Question:
        """Whether a fresh target shows it, by the registered tests, with how many records."""
        return replace(
            about_one_release(self.first), power=GOAL, most_records=self.most_records,
            design=self.design, digits=self.digits,
            tests=tuple(dict.fromkeys(self.claim.tests(self.design, self.requirements))),
        )  # fmt: skip

    def hopeless(self) -> str:
        """Return that an estimate is not below its limit, or nothing where all are."""
        if self.valid[0]:
            return ""
        if _valid_unrounded(self):
            return _too_coarse(self)
        return f"no number of {self.unit} validates it, if that is near the truth"

    def sentence(self, sizes: AdvisedSizes | None, why: str) -> str:
        """Return what stands in the way, by requirement, and how many records would do."""
        said = self._in_the_way()
        if sizes is None:
            why = why or (
                f"no target of up to {self.most_records:,} {self.unit} shows it with a "
                f"chance of {100 * GOAL:g} %, were the estimates the truth"
            )
            return f"{said} No size is advised: {why}. This is no certified statement."
        return (
            f"{said} On a fresh target, about {sizes.n:,} {self.unit} (here {self.n:,}) "
            f"would validate it with a chance of {sizes.power:.2f}, if this target's estimates "
            f"were the truth. It is tested by {way_of(sizes).tests.replace('_', ' ')}; the chance "
            f"is {_computed(self, sizes)}. {NO_PROMISE}"
        )

    def _in_the_way(self) -> str:
        """Say of each requirement that is not shown how near it is: those that are furthest."""
        asked = float(self.first)
        order = np.argsort(-self.pvalues, kind="stable")
        unshown = [int(j) for j in order if self.pvalues[j] > asked]
        lines = [self._of_requirement(j) for j in unshown[:MOST_TOLD]]
        more = f"; and {len(unshown) - MOST_TOLD} more" if len(unshown) > MOST_TOLD else ""
        among = (
            f" It is one of the {MOST_ADVISED} nearest of {self.unresolved} unresolved releases."
            if self.unresolved > MOST_ADVISED else ""
        )  # fmt: skip
        holm = f"Holm asks {asked:.2g} of the first of {self.family} releases"
        said = f"{'; '.join(lines)}{more}. {holm}.{among}"
        return f"{said[0].upper()}{said[1:]}"

    def _of_requirement(self, j: int) -> str:
        requirement, estimate = self.requirements[j], float(self.estimates[j])
        room, unit = requirement.limit - estimate, requirement.unit
        # By the normal law: tests of bounded losses ask for a little more.
        errors = NormalDist().inv_cdf(1.0 - float(self.first))
        resolved = errors * float(self.deviations[j]) * requirement.width / sqrt(self.n)
        side = "below" if room > 0.0 else "above"  # or on it, which is 0 above
        return (
            f"the estimate of {requirement.name!r} lies {abs(room):.2g}{unit} {side} its limit of "
            f"{requirement.limit:g}{unit}, and {self.n:,} {self.unit} tell differences of "
            f"about {resolved:.2g}{unit} (p-value {self.pvalues[j]:.2g})"
        )


def unit_means(group: GroupEvidence, requirements: Sequence[Requirement]) -> Array:
    """Return the estimates of recorded evidence on the unit scale, (R, J).

    Parameters
    ----------
    group
        The recorded evidence.
    requirements
        In the order of its columns.
    """
    # Floating point may carry an estimate past an end of the scale by a last digit, hence the clip.
    estimates = np.array(group.derived.estimates, dtype=np.float64)
    low = np.array([r.low for r in requirements])
    width = np.array([r.width for r in requirements])
    return np.asarray(np.clip((estimates - low) / width, 0.0, 1.0))


def unit_deviations(group: GroupEvidence) -> Array:
    """Return the usual standard deviation of a loss on the unit scale, (J,).

    Without variances, that of a two-valued loss with the same mean, which is the largest.
    """
    found = []
    for column in group.columns:
        mean = np.array(column.mean, dtype=np.float64)
        variance = column.variance
        values = mean * (1.0 - mean) if variance is None else np.array(variance, dtype=np.float64)
        found.append(float(np.sqrt(np.median(values))))
    return np.array(found)


def advise(case: AdviceCase) -> ReportAdvice:
    """Return the advice for one unresolved verdict, in words and numbers.

    Parameters
    ----------
    case
        The unresolved mechanism or named release.
    """
    return advice_words(case, find_sizes(case))


def find_sizes(case: AdviceCase) -> AdvisedSizes | None:
    """Return the plan that reaches the goal for the least; the slow part."""
    if _no_start(case):
        return None
    near = nearest(case)
    found = recommend(
        law_of(near), case.question, seed=case.seed, repetitions=REPETITIONS, effort=EFFORT,
        compare=False,
    )  # fmt: skip
    if not found.reaches:
        return None
    plan, power, way = found.chosen.plan, found.chosen.power, found.chosen.way
    sizes = {
        "n": plan.n, "R": plan.releases, "power": round(power.value, DIGITS),
        "power_error": round(power.standard_error, DIGITS), "targets": power.repetitions,
        "requirements": len(near.requirements), "mode": way.mode, "bound": way.bound,
        "score": way.score, "test": None if way.test is None else way.test.value,
    }  # fmt: skip
    return AdvisedSizes.of(sizes, "the advice")


def advice_words(case: AdviceCase, sizes: AdvisedSizes | None) -> ReportAdvice:
    """Return the advice that goes with sizes that were found, or with none; simulates nothing."""
    why = _no_start(case)
    if why:
        sizes = None
    sentence = case.sentence(sizes, why)
    advised = dict.fromkeys(AdvisedSizes.model_fields) if sizes is None else sizes.to_dict()
    return ReportAdvice(
        mechanism=case.mechanism, binding=case.binding, reliability=case.reliability,
        n_here=case.n, R_here=case.releases, sentence=" ".join(sentence.split()), **advised,
    )  # fmt: skip


def way_of(sizes: AdvisedSizes) -> Way:
    """Return the kind of audit that recorded sizes are for; what is no such kind raises."""
    return Way(
        kind=planned_mode(sizes.mode), bound=sizes.bound, score=sizes.score,
        test=None if sizes.test is None else ComponentTest(sizes.test),
    )  # fmt: skip


def _computed(case: AdviceCase, sizes: AdvisedSizes) -> str:
    """Return how the chance was computed: no more is claimed than was simulated."""
    how = "a sum over all outcomes"
    if sizes.targets:
        how = f"simulated on {sizes.targets} targets, Monte Carlo error {sizes.power_error:.2f}"
    every = len(case.requirements)
    if sizes.requirements < every:
        how += f", with the {sizes.requirements} of {every:,} requirements nearest to their limits"
        how += "; all of them leave no more"
    return how


def _how(sizes: AdvisedSizes) -> str:
    """Return how the plan would be registered."""
    way = way_of(sizes)
    tests = "" if way.tests == "-" else f", tests: {way.tests.replace('_', ' ')}"
    return f"planned as {way.label}{tests}"


def _no_start(case: AdviceCase) -> str:
    """Return why no sizes are looked for, or nothing where they are."""
    if why := case.hopeless():
        return why
    if any(r.form is Form.EXPOSURE for r in case.requirements):
        return (
            "the planner does not model attacks, whose power follows from the numbers of members "
            "and of target records (theory section 6)"
        )
    if any(r.group is not None for r in case.requirements):
        return "the planner does not model requirements on subgroups"
    if any(r.fills_missing for r in case.requirements):
        return "the planner does not model missing losses"
    if tests_excess(case.design):
        return "the planner's units weigh alike, and those of this target do not"
    return ""


def _valid_unrounded(case: AdviceCase) -> int:
    """Return how many releases may be valid by the estimates that a disclosure rounded up."""
    step = 0.0 if case.digits is None else 10.0**-case.digits
    return int(np.all(case.means - step < case.limits, axis=1).sum())


def _too_coarse(case: AdviceCase) -> str:
    """Return which digits may count more, of those that `check` lets stand on so many records."""
    assert case.digits is not None  # of a registered disclosure
    finer = [d for d in useful_digits(case.n, case.requirements) if d > case.digits]
    said = (
        f"by figures rounded to {case.digits} digits, against the claim, too few releases lie "
        "below their limits; a fresh audit with "
    )
    if finer:
        return f"{said}disclosure = {{ digits = {finer[-1]} }} may count more"
    digits = max(case.digits + 1, *map(least_digits, case.requirements))
    if digits not in DISCLOSED:
        return f"{said}limits further from the estimates may count more"
    return (
        f"{said}more than {10**digits:,} records and disclosure = {{ digits = {digits} }} may "
        "count more: of fewer records so many digits tell every count"
    )


def nearest(case: AdviceCase) -> AdviceCase:
    """Return the case with the requirements that valid releases come nearest to missing.

    A workload has thousands, most of them far from their limits: to plan with all takes minutes,
    and taken for independent they would look worse than they are.
    """
    if len(case.requirements) <= NEAREST:
        return case
    kept = nearest_requirements(case.margins)
    return replace(
        case,
        requirements=tuple(case.requirements[j] for j in kept),
        # Releases that miss another requirement stay invalid.
        means=np.where(case.valid[:, None], case.means[:, kept], 1.0),
        deviations=case.deviations[kept],
    )


def law_of(case: AdviceCase) -> Law:
    """Return the law that takes the estimates for the truth: a few kinds of valid release.

    Releases with an estimate above its limit count as invalid ones that never score.
    """
    valid = case.means[case.valid]
    ordered = valid[np.argsort(case.margins.min(axis=1), kind="stable")]
    parts = np.array_split(ordered, min(KINDS, len(ordered)))
    requirements = case.requirements
    if not sees_losses(case.design):  # the estimates are of cluster means, which are no counts
        requirements = tuple(replace(r, two_valued=False) for r in requirements)
    return estimated_law(
        requirements, means=np.array([part.mean(axis=0) for part in parts]),
        chances=[case.reliability * len(part) / len(ordered) for part in parts],
        deviations=[float(d) for d in case.deviations],
        origin="estimates of this target taken for the truth",
    )  # fmt: skip
