"""How a bound is built: for every mode the steps add up to the registered bound."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.stats import beta

import proxyguard as pg
from proxyguard.documents.certificate import ReportWaterfall, SequentialVerdict
from proxyguard.report.content import build_report
from proxyguard.report.sources import sources_of

RISK = pg.Requirement(name="risk", low=0, high=1, limit=0.3, slack=0.05, ramp=0.05)
MODES: dict[str, dict[str, Any]] = {
    "named": {"mode": "named"},
    "direct, paper": {"mode": "direct", "bound": "paper"},
    "direct, rescaled": {"mode": "direct", "bound": "rescaled"},
    "direct, sharp": {"mode": "direct"},
    "direct, sharp slack": {"mode": "direct", "score": "slack"},
    "hybrid": {"mode": "hybrid"},
    "hybrid, paper": {"mode": "hybrid", "bound": "paper"},
    "smooth, paper": {"mode": "smooth", "bound": "paper"},
    "smooth, rescaled": {"mode": "smooth", "bound": "rescaled"},
    "smooth, sharp": {"mode": "smooth"},
    "block": {"mode": "block", "block_size": 100},
    "count": {"mode": "count"},
}


def losses(mean: float, releases: int = 60, n: int = 1500) -> Any:
    rng = np.random.default_rng(31)
    values = rng.beta(4 * mean, 4 * (1 - mean), size=(releases, n, 1))
    values[: releases // 10] = 0.9  # some releases are bad
    return values


def waterfalls(certificate: Any) -> dict[str, ReportWaterfall]:
    report = build_report(sources_of(certificate))
    return {one.side: one for one in report.verdicts[0].waterfalls}


@pytest.mark.parametrize("mean", [0.2, 0.5])
@pytest.mark.parametrize("mode", MODES)
def test_the_steps_add_up_to_the_bound(mode: str, mean: float) -> None:
    certificate = pg.certify(losses(mean), [RISK], reliability_target=0.6, seed=1, **MODES[mode])
    found = waterfalls(certificate)
    bounds = {"lower": certificate.lower, "upper": certificate.upper}
    assert set(found) == {"lower", "upper"}
    for side, one in found.items():
        bound = bounds[side]
        assert bound is not None
        assert one.steps[-1].after == bound.value
        total = 0.0
        for step in one.steps:
            total += step.change
            assert total == pytest.approx(step.after, abs=1e-12)
        direction = -1 if side == "lower" else 1
        assert all(direction * step.change >= 0 for step in one.steps[1:])


def test_a_collective_certificate_too() -> None:
    rng = np.random.default_rng(2)
    batches = pg.LossBatches(
        [pg.LossArray(rng.beta(0.8, 3.2, size=(1, 200, 1))) for _ in range(30)]
    )
    certificate = pg.certify(
        batches, [RISK], reliability_target=0.6, mode="collective", dependence="independent",
        seed=1,
    )  # fmt: skip
    lower = waterfalls(certificate)["lower"]
    assert lower.steps[-1].after == certificate.lower.value
    assert "taken out in the count" in lower.steps[-1].label


def test_the_sharp_bound_lies_between_count_and_oracle() -> None:
    certificate = pg.certify(losses(0.2), [RISK], reliability_target=0.6, seed=1)
    first, draws, last = waterfalls(certificate)["lower"].steps
    favorable = int(certificate.lower.steps[0][1])
    assert first.after == favorable / 60
    # Without contamination the sharp bound is Clopper-Pearson's; scipy's quantile here.
    oracle = beta.ppf(0.05, favorable, 60 - favorable + 1)
    assert draws.after == pytest.approx(oracle, abs=1e-9)
    assert last.change < -0.001  # kappa > 0 costs something


def test_the_paper_bound_takes_the_allowance_last() -> None:
    certificate = pg.certify(
        losses(0.2), [RISK], reliability_target=0.6, mode="direct", bound="paper", seed=1
    )
    steps = dict(certificate.lower.steps)
    *_, last = waterfalls(certificate)["lower"].steps
    assert last.change == pytest.approx(-steps["allowance kappa/alpha_Z"], abs=1e-9)


def test_a_hybrid_shows_the_component_that_gave_the_bound() -> None:
    certificate = pg.certify(losses(0.2), [RISK], reliability_target=0.6, mode="hybrid", seed=1)
    steps = dict(certificate.lower.steps)
    label = waterfalls(certificate)["lower"].steps[0].label
    direct = steps["direct bound"] > steps["named bound"]
    assert label.startswith("favorable scores" if direct else "recognized releases")


def test_a_sequential_audit_has_no_count_that_its_bound_is_made_of() -> None:
    from proxyguard.report.content import build_verdict

    plan = pg.SequentialPlan(looks=(20, 40), reliability_target=0.8, kappa=0.01)
    audit = pg.SequentialAudit(plan)
    audit.add([True] * 40)
    recorded = SequentialVerdict.of({**audit.to_dict(), "mechanism": "m"}, "the audit")
    verdict = build_verdict(recorded)
    assert (verdict.waterfalls, verdict.lower, verdict.upper) == ((), 0.8, None)
