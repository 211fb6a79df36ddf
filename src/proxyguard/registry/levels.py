"""From a claim to the numbers it fixes before any loss is read."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from proxyguard.exact.sharp import default_threshold, default_violation_threshold
from proxyguard.registry import budget as budgets
from proxyguard.registry.budget import Budget
from proxyguard.registry.claim import COUNTED, Bound, Claim, Mode


@dataclass(frozen=True, slots=True, kw_only=True)
class Levels:
    """Local budgets and thresholds of one mechanism."""

    lower: Budget
    direct: Budget | None  # the hybrid's second component
    upper: Budget | None
    threshold: Fraction  # t of the validation score
    violation_threshold: Fraction
    betting: float  # the level at which betting stakes aim
    betting_violation: float
    bounds: float  # of the requirement bounds, each way
    share: Fraction  # of the family budgets
    notes: tuple[str, ...] = ()


def lower_budget(claim: Claim) -> Budget:
    """Return the family budget of the validation direction."""
    if claim.mode is Mode.RELEASES:
        return budgets.release_budget(claim.alpha)
    if claim.mode is Mode.HYBRID:
        return budgets.named_budget(
            claim.alpha * claim.named_share, release_share=claim.release_share
        )
    if claim.mode in COUNTED:
        return budgets.named_budget(claim.alpha, release_share=claim.release_share)
    if claim.mode is Mode.BLOCK:
        return budgets.sharp_budget(claim.alpha)
    if claim.mode is Mode.COUNT:
        return budgets.direct_budget(claim.alpha, target_share=claim.target_share)
    return direct_component(claim, claim.alpha)


def direct_component(claim: Claim, alpha: Fraction) -> Budget:
    """Return the budget of a direct or smooth bound at total error ``alpha``."""
    if claim.bound is Bound.SHARP:
        return budgets.sharp_budget(alpha)
    return budgets.direct_budget(alpha, target_share=claim.target_share)


def upper_budget(claim: Claim) -> Budget | None:
    """Return the family budget of the violation direction."""
    if claim.beta is None:
        return None
    if claim.mode is Mode.RELEASES:
        return budgets.direct_violation_budget(claim.beta)
    if claim.mode in COUNTED:
        return budgets.violation_budget(claim.beta, release_share=claim.release_share)
    if claim.mode is Mode.COUNT:
        return budgets.count_violation_budget(claim.beta, target_share=claim.target_share)
    return budgets.direct_violation_budget(claim.beta)


def local_levels(
    claim: Claim, *, n_releases: int, n_requirements: int, share: Fraction = Fraction(1)
) -> Levels:
    """Return the levels of one mechanism with ``share`` of the family budgets."""
    lower = lower_budget(claim).scaled(share)
    family_upper = upper_budget(claim)
    upper = None if family_upper is None else family_upper.scaled(share)
    direct = None
    if claim.mode is Mode.HYBRID:
        direct = direct_component(claim, claim.alpha * (1 - claim.named_share)).scaled(share)
    threshold, notes = _threshold(claim, direct or lower, n_releases)
    violation = _violation_threshold(claim, upper, n_releases)
    betting = float(threshold)
    betting_violation = float(violation) / n_requirements
    if claim.mode in (Mode.NAMED, Mode.COLLECTIVE):
        size = n_releases if claim.mode is Mode.NAMED else 1
        betting = float(lower["alpha_R"]) / size
    if claim.mode is Mode.RELEASES:
        betting = float(lower.total) / n_releases
    if upper is not None and (claim.mode in COUNTED or claim.mode is Mode.RELEASES):
        inner = upper["beta_R"] if claim.mode in COUNTED else upper.total
        betting_violation = float(inner) / (n_releases * n_requirements)
    if claim.mode is Mode.COUNT and claim.calibrator == "capital":
        betting = float(lower["alpha_Z"])
    reading = lower["alpha_R"] if claim.mode in COUNTED else lower.total
    return Levels(
        lower=lower,
        direct=direct,
        upper=upper,
        threshold=threshold,
        violation_threshold=violation,
        betting=betting,
        betting_violation=betting_violation,
        bounds=float(
            reading / (2 * n_releases * n_requirements)
            if claim.bounds_level is None
            else claim.bounds_level
        ),
        share=share,
        notes=notes,
    )


def _threshold(claim: Claim, local: Budget, n_releases: int) -> tuple[Fraction, tuple[str, ...]]:
    """Return the score level ``t``: registered, or by the default rule of the bound."""
    if claim.threshold is not None:
        return claim.threshold, ()
    if claim.mode is Mode.COUNT:
        # The count loses a share alpha_Z/(alpha_Z - t) - 1 of what is not recognized.
        return max(claim.thresholds, default=local["alpha_Z"] / 5), ()
    if claim.mode not in (Mode.DIRECT, Mode.HYBRID) or claim.reliability_target is None:
        return local.total, ()
    if claim.bound is not Bound.SHARP:
        # Spends a quarter of the room above the target on the allowance t/alpha_Z.
        return local["alpha_Z"] * (1 - claim.reliability_target) / 4, ()
    chosen = default_threshold(n_releases, target=claim.target, alpha=float(local.total))
    if chosen is not None:
        return Fraction(chosen), ()
    return local.total / 10, (
        f"{n_releases} release(s) cannot validate a reliability above {claim.target:g} at error "
        f"{float(local.total):g}, whatever they score; an audit on a fresh target needs more",
    )


def _violation_threshold(claim: Claim, local: Budget | None, n_releases: int) -> Fraction:
    """Return the level ``t`` of the violation score, by the same rules with the roles swapped."""
    if claim.violation_threshold is not None:
        return claim.violation_threshold
    if local is None or claim.mode in COUNTED or claim.reliability_target is None:
        return claim.alpha  # named modes and named releases correct by Holm instead
    if claim.mode is Mode.COUNT:
        return local["beta_Z"] / 5
    chosen = default_violation_threshold(
        n_releases, target=float(claim.reliability_target), beta=float(local.total)
    )
    return local.total / 10 if chosen is None else Fraction(chosen)
