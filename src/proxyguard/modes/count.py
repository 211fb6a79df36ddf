"""How many of these releases are valid, for all of them and for any subset (theory section 3)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from proxyguard.errors import RegistryError, UnsupportedDesign
from proxyguard.exact.binomial import clopper_pearson_upper, lower_tail
from proxyguard.exact.evalues import (
    Number,
    e_bh,
    largest_invalid_count,
    mixture_evalues,
    subset_invalid_count,
)
from proxyguard.modes.bound import ReliabilityBound, from_count
from proxyguard.modes.evidence import Evidence
from proxyguard.registry.budget import Budget

LARGEST = 600.0
"""Cap on a log e-value: exp(600) is far above any 1/alpha, and a cap only weakens."""


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


def calibrated_evalues(evidence: Evidence, *, thresholds: Sequence[Fraction]) -> list[Fraction]:
    """Return the mixture calibrator of the release p-values, exact.

    Guarantee
    ---------
    Mean at most 1 over the target whenever the release is invalid.
    """
    return mixture_evalues(evidence.release_pvalues, thresholds=thresholds)


def violation_evalues(evidence: Evidence, *, thresholds: Sequence[Fraction]) -> list[Fraction]:
    """Return e-values against validity: mean at most 1 whenever the release is valid."""
    return mixture_evalues(evidence.release_violation_pvalues, thresholds=thresholds)


def capital_evalues(evidence: Evidence) -> list[float]:
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
            raise UnsupportedDesign(
                f"{test.value} has no betting capital: register thresholds for the e-value count, "
                "or use betting or betting_fixed"
            )
        logs.append(log[0])
    least = np.minimum(np.min(logs, axis=0), LARGEST)
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
    n_releases = len(evalues)
    valid = largest_invalid_count(evalues, alpha=budget["beta_Z"])
    return ReliabilityBound(
        value=float(clopper_pearson_upper(valid, n_releases, alpha=float(budget["beta_Q"]))),
        budget=budget,
        rests_on="theory section 4, e-value form",
        steps=(("valid releases at most (e-value count)", valid), ("releases", n_releases)),
        pvalue=float(lower_tail(valid, n_releases, reliability_target)),
        outer="beta_Q",
    )
