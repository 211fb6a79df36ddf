"""What would settle an unresolved verdict on a fresh target: a question to the planner.

A plan, and no part of the certificate: it takes this target's estimates for the truth, which
they are not. The law of those estimates and the registered question go to `plan.recommend`, with
what this audit had as the unit of cost; what is said is what it answers.

The plan is found once, when the certificate is made, and recorded beside it; the words are
made from it whenever they are shown, so that no page depends on a simulation.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from proxyguard.documents.certificate import AdvisedSizes, ReportAdvice
from proxyguard.documents.evidence import GroupEvidence
from proxyguard.exact.rounding import Array, at_most
from proxyguard.modes.catalog import planned_mode
from proxyguard.modes.planning import Planned, Way
from proxyguard.plan.law import NEAREST, Law, estimated_law, nearest_requirements
from proxyguard.plan.question import MOST_RECORDS, MOST_RELEASES, Question
from proxyguard.plan.recommend import recommend
from proxyguard.registry.design import Design, clusters_of, tests_excess
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


@dataclass(frozen=True, kw_only=True, eq=False)
class Unsettled:
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
    def reliability(self) -> float:
        """The share that is planned with: of R estimates, shrunk a little towards a half."""
        return (int(self.valid.sum()) + 0.5) / (self.releases + 1.0)


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


def advise(case: Unsettled) -> ReportAdvice:
    """Return the advice for one unresolved mechanism, in words and numbers.

    Parameters
    ----------
    case
        The unresolved mechanism.
    """
    return advice_words(case, find_sizes(case))


def find_sizes(case: Unsettled) -> AdvisedSizes | None:
    """Return the plan that reaches the goal for the least; the slow part."""
    if _no_start(case):
        return None
    near = nearest(case)
    found = recommend(
        law_of(near), question_of(case), seed=case.seed, repetitions=REPETITIONS, effort=EFFORT,
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


def question_of(case: Unsettled) -> Question:
    """Return what the planner is asked: the registered question, both sizes open.

    Cost is counted in what this audit had: ``n'/n + R'/R``.
    """
    reliability_target = case.claim.reliability_target
    assert reliability_target is not None  # a claim about a mechanism
    return Question(
        reliability_target=reliability_target, alpha=case.claim.alpha, mechanisms=case.mechanisms,
        record_cost=1.0 / case.n, release_cost=1.0 / case.releases, power=GOAL,
        most_records=_most_records(case), most_releases=_most_releases(case),
        design=case.design, digits=case.digits,
    )  # fmt: skip


def _most_records(case: Unsettled) -> int:
    return min(max(LARGER * case.n, LEAST_RECORDS), max(case.n, MOST_RECORDS))


def _most_releases(case: Unsettled) -> int:
    return min(max(LARGER * case.releases, LEAST_RELEASES), max(case.releases, MOST_RELEASES))


def advice_words(case: Unsettled, sizes: AdvisedSizes | None) -> ReportAdvice:
    """Return the advice that goes with sizes that were found, or with none; simulates nothing."""
    least = f"It is least certain of {case.binding!r}." if case.binding else ""
    why = _no_start(case)
    if sizes is None and not why:
        why = (
            f"no audit of up to {_most_records(case):,} records and {_most_releases(case):,} draws "
            f"reaches {100 * GOAL:g} % power when this target's estimates are taken for the truth: "
            "they lie too near the limits, or too few releases meet them"
        )
    if sizes is None or why:
        sentence = f"No sizes are advised: {why}. {least} This is no certified statement."
        return _advice(case, sentence, None)
    valid = (
        f"{int(case.valid.sum())} of {case.releases} releases valid, planned with "
        f"{100 * case.reliability:.1f} %"
    )
    unit = "clusters" if clusters_of(case.design) else "records"
    sentence = (
        f"On a fresh target, about {sizes.n:,} {unit} (here {case.n:,}) and {sizes.R:,} draws "
        f"(here {case.releases:,}) would validate with a chance of {sizes.power:.2f} "
        f"({_computed(case, sizes)}), {_how(case, way_of(sizes))}, if this "
        f"target's estimates were the truth: {valid}. {least} "
        "This is a plan, not a certified statement; the estimates are noisy, and this target "
        "cannot be used again."
    )
    return _advice(case, sentence, sizes)


def way_of(sizes: AdvisedSizes) -> Way:
    """Return the kind of audit that recorded sizes are for; what is no such kind raises."""
    return Way(
        kind=planned_mode(sizes.mode), bound=sizes.bound, score=sizes.score,
        test=None if sizes.test is None else ComponentTest(sizes.test),
    )  # fmt: skip


def _advice(case: Unsettled, sentence: str, sizes: AdvisedSizes | None) -> ReportAdvice:
    advised = dict.fromkeys(AdvisedSizes.model_fields) if sizes is None else sizes.to_dict()
    return ReportAdvice(
        mechanism=case.mechanism, binding=case.binding, reliability=case.reliability,
        n_here=case.n, R_here=case.releases, sentence=" ".join(sentence.split()), **advised,
    )  # fmt: skip


def _computed(case: Unsettled, sizes: AdvisedSizes) -> str:
    """Return how the chance was computed: no more is claimed than was simulated."""
    how = "a sum over all outcomes"
    if sizes.targets:
        how = f"simulated on {sizes.targets} targets, Monte Carlo error {sizes.power_error:.2f}"
    every = len(case.requirements)
    if sizes.requirements < every:
        how += f", with the {sizes.requirements} of {every:,} requirements nearest to their limits"
        how += "; all of them leave no more"
    return how


def _how(case: Unsettled, way: Way) -> str:
    """Return how the plan would be registered, and in what it is not this audit."""
    tests = "" if way.tests == "-" else f", tests: {way.tests.replace('_', ' ')}"
    differs = []
    if case.sequential:
        differs.append("decided once after all draws instead of look by look")
    if case.unequal:
        differs.append("equal shares of the error budget")
    return f"planned as {way.label}{tests}" + "".join(f"; with {words}" for words in differs)


def _no_start(case: Unsettled) -> str:
    """Return why no sizes are looked for, or nothing where they are."""
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
    return _too_few(case) if case.reliability <= case.claim.target else ""


def _too_few(case: Unsettled) -> str:
    """Return why a plan has nothing to start from: too few valid releases, or too few at all."""
    valid, target = int(case.valid.sum()), case.claim.target
    met = (
        f"{valid} of {case.releases} releases have all estimates below their limits on this target"
    )
    if valid <= target * case.releases < _valid_unrounded(case):
        return _too_coarse(case)
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


def _valid_unrounded(case: Unsettled) -> int:
    """Return how many releases may be valid by the estimates that a disclosure rounded up."""
    step = 0.0 if case.digits is None else 10.0**-case.digits
    return int(np.all(case.means - step < case.limits, axis=1).sum())


def _too_coarse(case: Unsettled) -> str:
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


def nearest(case: Unsettled) -> Unsettled:
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


def law_of(case: Unsettled) -> Law:
    """Return the law that takes the estimates for the truth: a few kinds of valid release.

    Releases with an estimate above its limit count as invalid ones that never score.
    """
    valid = case.means[case.valid]
    ordered = valid[np.argsort(case.margins.min(axis=1), kind="stable")]
    parts = np.array_split(ordered, min(KINDS, len(ordered)))
    return estimated_law(
        case.requirements, means=np.array([part.mean(axis=0) for part in parts]),
        chances=[case.reliability * len(part) / len(ordered) for part in parts],
        deviations=[float(d) for d in case.deviations],
        origin="estimates of this target taken for the truth",
    )  # fmt: skip
