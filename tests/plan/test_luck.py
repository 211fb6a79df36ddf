"""The luck of pilots is taken off: a chance that is promised comes true as often, on average."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest

from conftest import Effort
from proxyguard import Requirement
from proxyguard.errors import RegistryError
from proxyguard.modes.claim import Claim
from proxyguard.modes.planning import AuditPlan, planned
from proxyguard.plan.law import COUNTED, Law, drawn_together, pilot_law
from proxyguard.plan.search import power
from proxyguard.plan.targets import Targets

Array = np.ndarray

ERROR = Requirement(name="error", low=0, high=1, limit=0.3, two_valued=True)
CLAIM = planned(Claim.of({"mode": "direct", "reliability_target": "0.8", "test": "binomial"}))
PLAN = AuditPlan(claim=CLAIM, n=1500, releases=60)


@dataclass(frozen=True)
class Mechanism:
    """Releases whose margins are of a normal law, on records that are hard for all of them."""

    margin: float
    spread: float

    def risks(self, releases: int, rng: np.random.Generator) -> Array:
        drawn = self.margin + self.spread * rng.standard_normal(releases)
        return np.clip(ERROR.limit - drawn, 0.01, 0.9)

    def pilots(self, releases: int, records: int, rng: np.random.Generator) -> Array:
        hard = rng.random((1, records))
        return (hard < self.risks(releases, rng)[:, None]).astype(float)[:, :, None]

    def chance(self, rng: np.random.Generator) -> float:
        """Return how often an audit of this very mechanism validates."""
        risks = np.sort(self.risks(200, rng))
        steps = np.diff(risks, prepend=0.0, append=1.0)
        lost = np.tri(200, 201, dtype=bool).astype(float)
        law = Law(
            requirements=(ERROR,), losses=(lost,), records=(steps,),
            releases=np.full(200, 1 / 200), joint=True, origin="the mechanism itself",
        )  # fmt: skip
        return power(law, PLAN).value


def promises(mechanisms: int, *, truth: bool) -> Array:
    """Return what pilots promise and what comes true, for mechanisms good and bad alike."""
    rng, kept = np.random.default_rng(20261017), []
    for one in range(mechanisms):
        mechanism = Mechanism(rng.uniform(-0.02, 0.12), rng.uniform(0.0, 0.04))
        law = pilot_law(mechanism.pilots(20, 80, rng), [ERROR], truth=truth)
        promised = power(law, PLAN, repetitions=150, seed=one).value if law.valid.any() else 0.0
        kept.append((promised, mechanism.chance(rng)))
    return np.array(kept)


def test_a_chance_that_is_promised_is_kept_on_average(effort: Effort) -> None:
    mechanisms = effort.times(whole=1500, reduced=250)
    told, as_truth = (promises(mechanisms, truth=truth) for truth in (False, True))
    for low, high in ((0.5, 0.75), (0.75, 1.01)):
        promised, true = told[(told[:, 0] >= low) & (told[:, 0] < high)].T
        # Three errors of what comes true, which varies by half at the most.
        assert true.mean() > promised.mean() - 1.5 / np.sqrt(true.size), (low, true.size)
    # Nor are pilots of no use: of mechanisms that mostly validate most are promised to.
    assert np.mean(told[told[:, 1] > 0.95, 0]) > 0.55
    promised, true = as_truth[as_truth[:, 0] >= 0.75].T
    assert true.mean() < promised.mean() - 1.5 / np.sqrt(true.size)


def test_targets_stray_as_far_as_pilots_and_records_do_together() -> None:
    rng = np.random.default_rng(3)
    losses = rng.random((1, 400, 1))
    loss = replace(ERROR, limit=0.9, two_valued=False)
    law = pilot_law(np.repeat(losses, 5, axis=0), [loss])
    spread = Targets(law, 1000, repetitions=4000, seed=1).means[:, 0, 0].std()
    known = COUNTED * 400
    assert spread == pytest.approx(np.sqrt(losses.var() * (1 / 1000 + 1 / known)), rel=0.05)
    known_better = pilot_law(np.repeat(losses, 5, axis=0), [loss], known_records=[4000])
    spread = Targets(known_better, 1000, repetitions=4000, seed=1).means[:, 0, 0].std()
    assert spread == pytest.approx(np.sqrt(losses.var() * (1 / 1000 + 1 / 2000)), rel=0.05)
    with pytest.raises(RegistryError, match="known_records are above 0"):
        pilot_law(losses, [loss], known_records=[0.0])


def test_the_share_of_valid_releases_is_as_unsure_as_so_few_pilots_leave_it() -> None:
    losses = np.zeros((20, 50, 1))
    losses[:2] = 1.0
    law = pilot_law(losses, [ERROR])
    shares = Targets(law, 10, repetitions=20_000, seed=1).releases[:, law.valid].sum(axis=1)
    # Beta(18.5, 2.5)
    assert shares.mean() == pytest.approx(18.5 / 21, abs=0.003)
    assert shares.var() == pytest.approx(18.5 * 2.5 / (21**2 * 22), rel=0.05)
    # A share that was assumed is known.
    assumed = pilot_law(losses, [ERROR], reliability="0.9")
    sure = Targets(assumed, 10, repetitions=50, seed=1).releases[:, assumed.valid].sum(axis=1)
    assert sure == pytest.approx(0.9)


def test_differences_of_many_queries_are_drawn_together_and_few_are_not() -> None:
    rng = np.random.default_rng(2)
    noise = 0.03**2
    lucky = rng.normal(0.0, 0.03, 100)
    both = np.concatenate([lucky, -lucky])
    stay, share = drawn_together(both, noise)
    assert np.mean(stay**2) < 0.05 * np.mean(both**2)
    assert share == pytest.approx(max(0.02, 1 - 0.98 * noise / np.mean(lucky**2)), abs=1e-9)
    # Real differences stay, and of one query or two nothing is taken.
    real = np.concatenate([lucky + 0.3, -lucky - 0.3])
    assert drawn_together(real, noise)[0] == pytest.approx(real, rel=0.02)
    for few in (both[[0, 100]], both[[0, 1, 100, 101]]):
        np.testing.assert_array_equal(drawn_together(few, noise)[0], few)
    assert drawn_together(np.zeros(0), noise)[1] == 1.0
