"""Theorem 12: ramp scores, with the published, the rescaled and the sharp bound."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import proxyguard as pg
from proxyguard.exact.contamination import ramp_ceiling, ramp_sensitivity
from proxyguard.modes.claim import Claim
from proxyguard.modes.planning import AuditPlan, planned
from proxyguard.modes.smooth import (
    Pilots,
    SmoothEvidence,
    best_ramps,
    certify_ramp_markov,
    certify_smooth,
    certify_smooth_rescaled,
    certify_smooth_sharp,
    ramps_tried,
)
from proxyguard.registry.budget import direct_budget, sharp_budget

pytestmark = pytest.mark.guarantee

ALPHA, TARGET = 0.05, 0.8
SPLIT, WHOLE = direct_budget("0.05"), sharp_budget("0.05")


FORMS = {
    "paper": lambda evidence: certify_smooth(evidence, SPLIT),
    "rescaled": lambda evidence: certify_smooth_rescaled(evidence, SPLIT),
    "markov": lambda evidence: certify_ramp_markov(evidence, SPLIT),
    "sharp": lambda evidence: certify_smooth_sharp(evidence, WHOLE, reliability_target=TARGET),
}


def simulate(
    rng: np.random.Generator, n_releases: int, n: int, limit: float, slack: float, ramp: float
) -> dict[str, float]:
    """Return the ramp evidence at reliability ``TARGET``: valid scores are 1, invalid shared.

    All invalid releases have the same errors on the shared target, with mean at the limit.
    """
    valid = rng.binomial(n_releases, TARGET)
    cutoff = limit - slack
    score = float(np.clip((cutoff - rng.binomial(n, limit) / n) / ramp, 0, 1))
    return {
        "n_releases": n_releases,
        "n_records": n,
        "mean_score": (valid + (n_releases - valid) * score) / n_releases,
        "rounded": int(valid + rng.binomial(n_releases - valid, score)),
    }


# (R, n, limit, slack, ramp). Many draws, so that only contamination is left, with bounds that
# say something; the paper's study, where they are nearly vacuous at the target (B14); and so
# many records that only the draws are left, where the sharp form spends most of its budget.
CONTAMINATED = (100_000, 2000, 0.5, 0.001, 0.3)
DESIGNS = {
    "contaminated": (CONTAMINATED, 60),
    "paper": ((500, 200, 0.8, 0.05, 0.6), 1000),
    "many records": ((450, 10**8, 0.8, 0.05, 0.6), 1500),
}


@pytest.mark.parametrize("name", DESIGNS)
def test_reliability_at_the_target(name, within_budget, repeat):
    design, whole = DESIGNS[name]
    trials = repeat(whole)
    n, limit, slack, ramp = design[1:]
    rng = np.random.default_rng(1201)
    ceilings = {
        "kappa": ramp_ceiling(limit - slack, ramp, limit, n),
        "sensitivity": ramp_sensitivity(np.array([ramp]), n),
    }
    errors = dict.fromkeys(FORMS, 0)
    cache: dict[tuple[str, float], bool] = {}  # a form reads one number of the evidence
    for _ in range(trials):
        evidence = SmoothEvidence(**simulate(rng, *design), **ceilings)
        for form, certificate in FORMS.items():
            key = (form, evidence.rounded if form == "sharp" else evidence.mean_score)
            if key not in cache:
                cache[key] = certificate(evidence).value > TARGET
            errors[form] += cache[key]
    for count in errors.values():
        assert within_budget(count, trials, ALPHA)
    if name == "many records":
        assert errors["sharp"] > 0.5 * ALPHA * trials


@pytest.mark.parametrize("form", FORMS)
def test_twin_without_radius_and_ceiling(form, beyond_doubt):
    trials = 80
    rng = np.random.default_rng(1202)
    errors = 0
    for _ in range(trials):
        evidence = SmoothEvidence(**simulate(rng, *CONTAMINATED), kappa=0.0, sensitivity=0.0)
        errors += FORMS[form](evidence).value > TARGET
    assert beyond_doubt(errors, trials, ALPHA)


@pytest.mark.parametrize("bound", ["paper", "rescaled", "sharp"])
def test_certify_on_losses(bound, within_budget, repeat):
    # Studies B14 at the target: every invalid release has risk .8, every valid one .1.
    loss = pg.Requirement(
        name="loss", low=0, high=1, limit=0.8, slack=0.05, ramp=0.6, two_valued=True
    )
    rng = np.random.default_rng(1203)
    trials = repeat(60)
    errors = 0
    for trial in range(trials):
        risk = np.where(rng.random(300) < TARGET, 0.1, 0.8)
        found = pg.certify(
            rng.random((200, 1)) <= risk[:, None, None], [loss], mode="smooth", bound=bound,
            reliability_target=TARGET, alpha=ALPHA, beta=None, seed=trial,
        )  # fmt: skip
        errors += found.decision is pg.Decision.VALIDATED
    assert within_budget(errors, trials, ALPHA)


# Widths from development. The worst that the theorem allows: of every invalid release the share
# `kappa_h + rho_h sqrt(n E/2)` scores, with E exponential, and valid ones always do. The theorem
# knows this law width by width and nothing of the widths together: here each has an E of its own.
FALLS = pg.Requirement(name="loss", low=0, high=1, limit=0.5, slack=0.02, two_valued=True)
PLAN = AuditPlan(
    claim=planned(Claim.of({"mode": "smooth", "reliability_target": "0.8", "alpha": "0.05"})),
    n=20_000, releases=450,
)  # fmt: skip


def falsely_validates(
    rng: np.random.Generator, evidence: SmoothEvidence, valid: int,
    verdicts: dict[tuple[float, int], bool],
) -> bool:  # fmt: skip
    """Return whether the sharp bound exceeds a reliability that is just ``TARGET``."""
    n = evidence.n_records
    share = min(1.0, evidence.kappa + evidence.sensitivity * np.sqrt(n * rng.exponential() / 2))
    count = int(valid + rng.binomial(evidence.n_releases - valid, share))
    key = (evidence.kappa, count)
    if key not in verdicts:
        scored = replace(evidence, rounded=count)
        verdicts[key] = PLAN.claim.exceeds(scored, WHOLE, TARGET)
    return verdicts[key]


def test_widths_from_pilots_keep_the_level(within_budget, repeat):
    rng, trials = np.random.default_rng(1204), repeat(4000)
    errors, verdicts = 0, {}
    for trial in range(trials):
        if trial % 100 == 0:  # other pilots, and so now and then another width
            means = np.where(rng.random(20) < 0.9, rng.normal(0.3, 0.05, 20), 0.5)
            pilots = Pilots(means=means[:, None], chances=np.full(20, 1 / 20))
            chosen = best_ramps(PLAN, (FALLS,), pilots)
        errors += falsely_validates(rng, chosen.scores, rng.binomial(450, TARGET), verdicts)
    assert within_budget(errors, trials, ALPHA)
    assert errors > 0.3 * ALPHA * trials  # the level is spent


@pytest.mark.parametrize("bound", ["paper", "sharp"])
def test_certify_on_losses_with_widths_from_pilots(bound, within_budget, repeat):
    # At the target as above; every audit has pilots of its own, and so a width of its own.
    loss = pg.Requirement(name="loss", low=0, high=1, limit=0.8, slack=0.05, two_valued=True)
    rng, widths, errors, trials = np.random.default_rng(1206), set(), 0, repeat(60)

    def losses(draws: int) -> np.ndarray:
        risk = np.where(rng.random(draws) < TARGET, rng.uniform(0.1, 0.6, draws), 0.8)
        return rng.random((200, 1)) <= risk[:, None, None]

    for trial in range(trials):
        chosen = pg.choose_ramps(
            pg.pilot_law(losses(12).astype(float), [loss]), n=200, releases=300,
            reliability_target=TARGET, bound=bound,
        )  # fmt: skip
        widths.add(chosen[0].ramp)
        found = pg.certify(
            losses(300), chosen, mode="smooth", bound=bound, reliability_target=TARGET, alpha=ALPHA,
            beta=None, seed=trial,
        )  # fmt: skip
        errors += found.decision is pg.Decision.VALIDATED
    assert len(widths) > 3
    assert within_budget(errors, trials, ALPHA)


def test_twin_whose_width_is_chosen_on_the_scored_target(beyond_doubt, repeat):
    rng, trials = np.random.default_rng(1205), repeat(1000)
    pilots = Pilots(means=np.full((20, 1), 0.3), chances=np.full(20, 1 / 20))
    tried = ramps_tried(PLAN, (FALLS,), pilots)
    verdicts: dict[tuple[float, int], bool] = {}
    errors = 0
    for _ in range(trials):
        valid = rng.binomial(450, TARGET)
        errors += any(falsely_validates(rng, one.scores, valid, verdicts) for one in tried)
    assert beyond_doubt(errors, trials, ALPHA)
