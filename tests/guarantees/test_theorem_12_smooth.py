"""Theorem 12: ramp scores, with the published, the rescaled and the sharp bound."""

from __future__ import annotations

import numpy as np
import pytest

import proxyguard as pg
from proxyguard.exact.contamination import ramp_ceiling, ramp_sensitivity
from proxyguard.modes.smooth import (
    SmoothEvidence,
    certify_ramp_markov,
    certify_smooth,
    certify_smooth_rescaled,
    certify_smooth_sharp,
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
