"""Audits simulated the long way: releases and records drawn as arrays, certified in public."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import proxyguard as pg
from proxyguard.modes.planning import AuditPlan
from proxyguard.plan.law import Law

Array = np.ndarray
Simulate = Callable[..., float]


def drawn_losses(law: Law, releases: int, n: int, rng: np.random.Generator) -> Array:
    """Return the losses (R, n, J) of fresh releases on fresh records, on the registered scale."""
    # One kind more than the law has: what is left of the chances loses every record.
    chances = np.append(law.releases, max(0.0, 1.0 - law.releases.sum()))
    kinds = rng.choice(chances.size, size=releases, p=chances / chances.sum())
    losses = np.empty((releases, n, len(law.requirements)))
    places = None
    for j, requirement in enumerate(law.requirements):
        if places is None or not law.joint:
            share = law.records[j] / law.records[j].sum()
            places = rng.choice(share.size, size=n, p=share)
        table = np.vstack([law.losses[j], np.ones(law.losses[j].shape[1])])
        losses[:, :, j] = requirement.low + requirement.width * table[np.ix_(kinds, places)]
    return losses


def validated(
    law: Law,
    plan: AuditPlan,
    *,
    audits: int,
    seed: int | list[int],
    draw: Callable[..., Array] = drawn_losses,
) -> float:
    """Return the share of simulated audits that `certify` validates."""
    choices = plan.claim.choices()
    choices["beta"] = None  # the violation direction has a budget of its own
    rng = np.random.default_rng(seed)
    hits, records = 0, None
    if plan.strata is not None:
        sizes = plan.strata.sizes
        records = pg.Records(strata=np.repeat(list(sizes), list(sizes.values())).tolist())
    for one in range(audits):
        losses = draw(law, plan.releases, plan.n, rng)
        found = pg.certify(
            losses, law.requirements, design=plan.design, records=records, seed=one, **choices
        )
        hits += found.decision is pg.Decision.VALIDATED
    return hits / audits


@pytest.fixture(scope="session")
def simulate() -> Simulate:
    """Return ``validated(law, plan, audits=..., seed=...)``."""
    return validated


@pytest.fixture(scope="session")
def draw_losses() -> Callable[..., Array]:
    """Return ``drawn_losses(law, releases, n, rng)``."""
    return drawn_losses
