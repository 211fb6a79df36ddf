"""How many of these releases are valid, for all of them and for any subset (theory section 3)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np

from proxyguard.errors import RegistryError, UnsupportedDesign
from proxyguard.exact.evalues import (
    Number,
    e_bh,
    largest_invalid_count,
    mixture_evalues,
    subset_invalid_count,
)
from proxyguard.exact.planning import least_releases_named
from proxyguard.modes import planning
from proxyguard.modes.claim import Levels, Tests, level, optional_level, read_by, word
from proxyguard.modes.evidence import MechanismEvidence, ReliabilityBound, from_count, from_most
from proxyguard.modes.planning import Asked, AuditNeeds, AuditPlan, Choice, Planned, Settings, Way
from proxyguard.modes.violation import ScoredViolations
from proxyguard.plan.law import Law
from proxyguard.registry import budget as budgets
from proxyguard.registry.budget import Budget
from proxyguard.registry.design import Design
from proxyguard.registry.numbers import listed, share
from proxyguard.registry.requirement import Requirement
from proxyguard.registry.test import ComponentTest, Requirements

# Cap on a log e-value: exp(600) is far above any 1/alpha, and a cap only weakens.
LARGEST = 600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ValidCount:
    """A lower count of valid releases among those at hand, from their e-values."""

    releases: tuple[str, ...]
    evalues: Sequence[Number]
    alpha: Fraction  # alpha_Z

    @property
    def at_least(self) -> int:
        """``K_LB = R - m*``: so many of the releases are valid, outside ``alpha_Z``."""
        return len(self.releases) - largest_invalid_count(self.evalues, alpha=self.alpha)

    def of(self, subset: Iterable[str]) -> int:
        """Return how many releases of a subset are valid at the least.

        Guarantee
        ---------
        Theory section 3: outside one event of probability ``alpha_Z``, for all subsets at
        once, however they were chosen.
        """
        # A release that is named twice is one: counted twice it would make two valid ones.
        chosen = set(subset)
        unknown = chosen - set(self.releases)
        if unknown:
            raise RegistryError(f"no release is named {min(unknown, key=str)!r}")
        marks = [name in chosen for name in self.releases]
        return len(chosen) - subset_invalid_count(self.evalues, marks, alpha=self.alpha)

    def discovery_list(self, *, rate: float) -> FalseDiscoveryList:
        """Return the e-BH list at a false discovery rate, labelled as what it is."""
        chosen = e_bh([float(e) for e in self.evalues], alpha=rate)
        names = tuple(name for name, one in zip(self.releases, chosen, strict=True) if one)
        return FalseDiscoveryList(releases=names, rate=rate)


@dataclass(frozen=True, slots=True, kw_only=True)
class FalseDiscoveryList:
    """Releases picked so that few of them are invalid on average: not a certificate."""

    releases: tuple[str, ...]
    rate: float
    label: str = (
        "false discovery rate list (e-BH): on average over targets at most this share of the "
        "listed releases is invalid; no statement about any one release or about this list"
    )


def calibrated_evalues(
    evidence: MechanismEvidence, *, thresholds: Sequence[Fraction]
) -> list[Fraction]:
    """Return the mixture calibrator of the release p-values, exact.

    Guarantee
    ---------
    Mean at most 1 over the target whenever the release is invalid.
    """
    return mixture_evalues(evidence.release_pvalues, thresholds=thresholds)


def violation_evalues(
    evidence: MechanismEvidence, *, thresholds: Sequence[Fraction]
) -> list[Fraction]:
    """Return e-values against validity: mean at most 1 whenever the release is valid."""
    return mixture_evalues(evidence.release_violation_pvalues, thresholds=thresholds)


def _no_capital(test: ComponentTest) -> str:
    return (
        f"{test.value} has no betting capital: register thresholds for the e-value count, or use "
        "betting or betting_fixed"
    )


def capital_evalues(evidence: MechanismEvidence) -> list[float]:
    """Return the betting capital of each release, the least over its requirements.

    Guarantee
    ---------
    An invalid release fails some requirement, whose capital has mean at most 1; the
    minimum is no larger.
    """
    logs = []
    for column, test in zip(evidence.columns, evidence.tests, strict=True):
        log = column.log_final if column.log_final is not None else column.log_evalue
        if log is None:
            raise UnsupportedDesign(_no_capital(test))
        logs.append(log[0])
    # The least over requirements: an invalid release fails one of them, whichever it is, and
    # only the capital against that one is bounded.
    least = np.minimum(np.min(logs, axis=0), LARGEST)
    # A capital that underflows becomes 0, which is less evidence and never more.
    with np.errstate(under="ignore"):
        return [float(value) for value in np.exp(least)]


def certify_count(
    count: ValidCount, budget: Budget, *, reliability_target: float
) -> ReliabilityBound:
    """Lower-bound reliability by the e-value count of valid releases.

    Guarantee
    ---------
    Theory section 3: ``CP_lower(K_LB; R, alpha_Q)`` does not exceed the reliability with
    probability at least ``1 - alpha_Z - alpha_Q``, under any dependence.
    """
    return from_count(
        count.at_least,
        len(count.releases),
        budget,
        reliability_target=reliability_target,
        outer="alpha_Q",
        label="valid releases at least (e-value count)",
        rests_on="theory section 3, e-value count",
    )


def certify_count_violation(
    evalues: Sequence[Number], budget: Budget, *, reliability_target: float
) -> ReliabilityBound:
    """Upper-bound reliability by e-values against validity (theory section 4).

    Guarantee
    ---------
    At most ``m*`` releases are valid outside ``beta_Z``; ``CP_upper(m*; R, beta_Q)`` is at
    least the reliability with probability at least ``1 - beta_Z - beta_Q``.
    """
    # Roles are exchanged: these e-values have mean at most 1 for valid releases, so the same m*
    # says how many of them are valid at the most.
    valid = largest_invalid_count(evalues, alpha=budget.target)
    return from_most(
        valid,
        len(evalues),
        budget,
        reliability_target=reliability_target,
        outer="beta_Q",
        step=("valid releases at most (e-value count)", valid),
        rests_on="theory section 4, e-value form",
    )


def least_counted(budget: Budget, threshold: Fraction, releases: int, *, target: float) -> int:
    """Return the least favorable count that validates by the e-value count ``threshold(t)``.

    ``K_LB = R - m*`` with ``m*`` the largest ``m <= R`` with ``(m - (R - N)) alpha_Z < m t``.
    """
    alpha = budget.target
    valid = planning.least_recognized(releases, target=target, alpha=float(budget.draws))
    # Scores of less than 1/alpha_Z show nothing, even if every release has one. At 1/alpha_Z
    # itself all of them do, and `most` is 0.
    if threshold > alpha or valid > releases:
        return releases + 1
    # m* <= R - valid exactly when (R - N) alpha/(alpha - t) <= R - valid + 1.
    most = (releases - valid + 1) * (alpha - threshold) / alpha
    # `most` is an exact fraction, so that a tie falls as in the certificate. A release that does
    # not score has e-value 0: K_LB is never above the count of those that do.
    return max(valid, releases - int(most))


def _read_thresholds(value: object, name: str) -> tuple[Fraction, ...]:
    return tuple(share(t, name) for t in listed(value, name))


@dataclass(frozen=True, kw_only=True)
class Count(ScoredViolations, Planned):
    """Valid releases are counted by their e-values, under any dependence."""

    mode: ClassVar[str] = "count"
    counts_valid: ClassVar[bool] = True

    threshold: Fraction | None = optional_level()  # t of the calibrator; None: the default rule
    target_share: Fraction = level("1/2")  # alpha_Z / alpha
    calibrator: str = word("threshold", "capital")
    thresholds: tuple[Fraction, ...] = read_by(_read_thresholds, ())  # of a mixture

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.thresholds and self.threshold is not None:
            raise RegistryError("give threshold or thresholds, not both")

    @property
    def capital(self) -> bool:
        """Whether e-values are betting capital, instead of calibrated p-values."""
        return self.calibrator == "capital"

    @property
    def reads_records(self) -> bool:
        """Whether the evidence is made of single records: betting capital is."""
        return self.capital

    def objections(self, design: Design, requirements: Requirements, tests: Tests) -> list[str]:
        """Return which tests have no capital, where that is what is counted with."""
        return [_no_capital(test) for test in tests if self.capital and not test.bets]

    def lower_budget(self) -> Budget:
        """Return ``alpha_Q + alpha_Z = alpha``."""
        return budgets.direct_budget(self.alpha, target_share=self.target_share)

    def violation_budget(self, beta: Fraction) -> Budget:
        """Return ``beta_Q + beta_Z = beta``."""
        return budgets.count_violation_budget(beta, target_share=self.target_share)

    def score_threshold(self, local: Budget, n_releases: int) -> tuple[Fraction, tuple[str, ...]]:
        """Return the registered level, the largest of a mixture, or a fifth of ``alpha_Z``."""
        if self.threshold is not None:
            return self.threshold, ()
        # The count loses a share alpha_Z/(alpha_Z - t) - 1 of what is not recognized.
        return max(self.thresholds, default=local.target / 5), ()

    def default_violation_level(self, local: Budget, n_releases: int) -> Fraction:
        """Return a fifth of ``beta_Z``."""
        return local.target / 5

    def betting_level(self, lower: Budget, threshold: Fraction, n_releases: int) -> float:
        """Return the threshold, or ``alpha_Z`` where the capital itself is counted with."""
        return float(lower.target if self.capital else threshold)

    def valid_count(self, evidence: MechanismEvidence, levels: Levels) -> ValidCount:
        """Return the count of valid releases, for all of them and for any subset."""
        evalues: Sequence[float | Fraction]
        if self.capital:
            evalues = capital_evalues(evidence)
        else:
            thresholds = self.thresholds or (levels.threshold,)
            evalues = calibrated_evalues(evidence, thresholds=thresholds)
        return ValidCount(releases=evidence.releases, evalues=evalues, alpha=levels.lower.target)

    def lower_bound(self, evidence: MechanismEvidence, levels: Levels) -> ReliabilityBound:
        """Return the bound from the e-value count."""
        count = self.valid_count(evidence, levels)
        return certify_count(count, levels.lower, reliability_target=self.target)

    def upper_bound(self, evidence: MechanismEvidence, levels: Levels) -> ReliabilityBound:
        """Return the bound from e-values against validity."""
        evalues = violation_evalues(evidence, thresholds=(levels.violation_threshold,))
        return certify_count_violation(evalues, levels.violation, reliability_target=self.target)

    @classmethod
    def settings(cls, way: Way, question: Asked, law: Law, n: int, releases: int) -> Settings:
        """Yield several shares of the error for the target."""
        for part in planning.TARGET_SHARES:
            yield way.plan(question, n, releases, target_share=part), law.requirements

    def registered(self) -> dict[str, Choice]:
        """Return the share of the target, and the threshold where one is registered."""
        found: dict[str, Choice] = {}
        if self.threshold is not None:
            found["threshold"] = self.threshold
        return {**found, "target_share": self.target_share}

    def least_count(self, plan: AuditPlan, requirements: Requirements, levels: Levels) -> int:
        """Return the least number of p-values at most the threshold that validates."""
        return least_counted(levels.lower, levels.threshold, plan.releases, target=self.target)

    def needs(self, plan: AuditPlan, requirements: Requirements, levels: Levels) -> AuditNeeds:
        """Return what one threshold needs; capital and mixtures have none out of reach."""
        releases, alpha_draws = plan.releases, float(levels.lower.draws)
        count = self.least_count(plan, requirements, levels)
        least = least_releases_named(target=self.target, alpha_mechanism=alpha_draws)
        obstacles = list(planning.few_draws(releases, least, self.target, alpha_draws))
        if self.capital or len(self.thresholds) > 1:
            return AuditNeeds(
                least_releases=least,
                obstacles=tuple(obstacles),
            )
        t = float(levels.threshold)
        if count > releases and not obstacles:
            obstacles.append(f"the threshold {t:.3g} is above alpha_Z, so no count follows")
        records = planning.records_for(requirements, plan, t)
        obstacles += planning.few_records(plan.n, records, f"the threshold {t:.2g}")
        return AuditNeeds(
            least_count=count if count <= releases else None,
            least_releases=least,
            least_records=records,
            largest_threshold=float(levels.lower.target),
            obstacles=tuple(obstacles),
        )

    def most_errors(self, plan: AuditPlan, requirement: Requirement, levels: Levels) -> int | None:
        """Return the most errors with which a release's p-value passes."""
        return planning.most_errors_tested(plan, requirement, levels)
