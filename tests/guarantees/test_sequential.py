"""Sequential audits (theory section 5): looking at every stage costs no coverage."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import proxyguard as pg
from proxyguard.exact.binomial import clopper_pearson_lower
from proxyguard.exact.contamination import markov_allowance
from proxyguard.exact.sequential import bernoulli_lower, crossing_paths, crossing_probability
from proxyguard.exact.sharp import critical_count
from proxyguard.registry.test import Bound

pytestmark = pytest.mark.guarantee

ALPHA, TARGET, KAPPA = 0.05, 0.8, 0.01
LOOKS = np.arange(20, 401, 20)


def worst_law(counts: np.ndarray, kappa: float = KAPPA) -> tuple[float, float]:
    """Return the two-point law of the shared target that crosses a boundary most often."""
    paths = crossing_paths(LOOKS, counts)
    b = np.linspace(kappa, 1.0, 500)
    none = crossing_probability(paths, TARGET)[0]
    chance = none + kappa / b * (crossing_probability(paths, 1 - (1 - TARGET) * (1 - b)) - none)
    return float(b[np.argmax(chance)]), float(chance.max())


def crossings(seed: int, trials: int, counts: np.ndarray, b: float, kappa: float = KAPPA) -> int:
    """Count paths that reach ``counts`` at some look, at reliability ``TARGET``."""
    rng = np.random.default_rng(seed)
    bad = rng.random(trials) < kappa / b
    rate = np.where(bad, 1 - (1 - TARGET) * (1 - b), TARGET)
    scores = rng.random((trials, LOOKS[-1])) < rate[:, None]
    reached = np.cumsum(scores, axis=1, dtype=np.int32)[:, LOOKS - 1]
    return int((reached >= counts).any(axis=1).sum())


def sharp_plan() -> pg.SequentialPlan:
    return pg.SequentialPlan(looks=tuple(LOOKS.tolist()), reliability_target=TARGET, kappa=KAPPA)


def test_sharp_under_the_worst_law(within_budget):
    trials = 20_000
    (boundary,) = sharp_plan().boundaries
    b, chance = worst_law(boundary.counts)
    errors = crossings(501, trials, boundary.counts, b)
    assert within_budget(errors, trials, ALPHA)
    assert chance <= boundary.size <= ALPHA
    assert errors > 0.6 * ALPHA * trials


def test_twin_the_fixed_sample_count_at_every_look(beyond_doubt):
    trials = 5000
    counts = critical_count(LOOKS, target=TARGET, kappa=KAPPA, alpha=ALPHA)
    b, _ = worst_law(counts)
    assert beyond_doubt(crossings(502, trials, counts, b), trials, ALPHA)


def least_counts(
    lower: Callable[..., np.ndarray], alpha_q: float, allowance: float, looks: np.ndarray = LOOKS
) -> np.ndarray:
    """Return at each look the least count whose rescaled bound lies above the target."""
    needed = TARGET + (1 - TARGET) * allowance
    found = []
    for n in looks:
        counts = np.arange(int(TARGET * n), n + 1)  # fewer lie below the target anyway
        limits = lower(counts, np.full(counts.size, n), alpha=alpha_q)
        found.append(counts[0] + int(np.searchsorted(limits, needed, side="right")))
    return np.array(found)


def test_rescaled_under_the_worst_law(within_budget):
    trials = 20_000
    allowance = markov_allowance(KAPPA, 0.045)
    counts = least_counts(bernoulli_lower, 0.005, allowance)
    b, _ = worst_law(counts)
    assert within_budget(crossings(503, trials, counts, b), trials, ALPHA)
    # The draws alone, with nothing contaminated and nothing allowed for, at all of alpha.
    counts = least_counts(bernoulli_lower, ALPHA, 0.0)
    assert within_budget(crossings(504, trials, counts, 1.0, kappa=0.0), trials, ALPHA)


def test_twin_a_fixed_sample_limit_at_every_look(beyond_doubt):
    trials = 4000
    counts = least_counts(clopper_pearson_lower, ALPHA, 0.0)
    assert beyond_doubt(crossings(505, trials, counts, 1.0, kappa=0.0), trials, ALPHA)


def test_twin_without_the_allowance(beyond_doubt):
    trials, kappa = 4000, 0.04
    counts = least_counts(bernoulli_lower, 0.025, 0.0)
    b, _ = worst_law(counts, kappa)
    assert beyond_doubt(crossings(506, trials, counts, b, kappa), trials, ALPHA)


@pytest.mark.parametrize("bound", [Bound.SHARP, Bound.RESCALED])
def test_an_audit_of_losses(bound, one_record_losses, within_budget, repeat):
    plan = pg.SequentialPlan(
        looks=(40, 80, 120, 160, 200), reliability_target=TARGET, kappa=KAPPA, bound=bound,
        levels=(0.85, 0.9),
    )  # fmt: skip
    rng = np.random.default_rng(507)
    trials = repeat(600 if bound is Bound.SHARP else 40)
    # Limit .9901 on one record: p = .0099 without an error, 1 with one.
    error = pg.Requirement(name="error", low=0, high=1, limit=0.9901, two_valued=True)
    errors = 0
    for trial in range(trials):
        audit = pg.SequentialAudit(plan, pg.FavorableScore([error], threshold=KAPPA, seed=trial))
        losses = one_record_losses(rng, rng.random(200) < TARGET, kappa=0.0099, share=0.4)
        for start in range(0, 200, 40):
            audit.add_losses(losses[start : start + 40])
            if audit.finished:
                break
        errors += audit.reliability_lower > TARGET or audit.decision is pg.Decision.VALIDATED
    assert within_budget(errors, trials, ALPHA)


def draws_needed(counts: np.ndarray, looks: np.ndarray, rate: float) -> float:
    scores = np.random.default_rng(508).random((1000, looks[-1])) < rate
    crossed = np.cumsum(scores, axis=1, dtype=np.int32)[:, looks - 1] >= counts
    stop = np.where(crossed.any(axis=1), looks[crossed.argmax(axis=1)], looks[-1])
    return float(stop.mean())


def test_draws_needed_as_in_theory():
    # Theory section 5, kappa = .01 and at most 1,000 draws: 108 and 51 draws on average at
    # score rates .90 and .95 (its looks are not stated; every 25 draws here).
    looks = np.arange(25, 1001, 25)
    plan = pg.SequentialPlan(looks=tuple(looks.tolist()), reliability_target=TARGET, kappa=KAPPA)
    (boundary,) = plan.boundaries
    assert draws_needed(boundary.counts, looks, 0.90) == pytest.approx(108, rel=0.1)
    assert draws_needed(boundary.counts, looks, 0.95) == pytest.approx(51, rel=0.1)


def test_draws_needed_rescaled_are_no_more_than_in_theory():
    # Theory section 5: 625 and 155 draws for the rescaled form.
    plan = pg.SequentialPlan(
        looks=tuple(range(25, 1001, 25)), reliability_target=TARGET, kappa=KAPPA,
        bound=Bound.RESCALED,
    )  # fmt: skip
    looks = np.array(plan.looks)
    allowance = markov_allowance(KAPPA, float(plan.budget["alpha_Z"]))
    counts = least_counts(bernoulli_lower, float(plan.budget["alpha_Q"]), allowance, looks)
    assert draws_needed(counts, looks, 0.90) < 1.05 * 625
    assert draws_needed(counts, looks, 0.95) < 1.05 * 155
