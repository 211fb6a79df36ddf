"""Our planner beside the paper's: the law they share, their power, and a hopeful pilot."""

from __future__ import annotations

import pytest
from scipy.stats import binom

from proxyguard.plan.search import Search
from reproduction.studies.catalog import STUDIES
from reproduction.studies.costs import GRID, OURS, PAPERS, TRUTH, law_of, our_plan, registered
from reproduction.studies.run import run_study


@pytest.mark.parametrize("rates", [(0.95, 0.80), (0.85, 0.70), (0.85, 0.90), (1.0, 0.9)])
def test_a_pilot_of_the_law_would_recognize_the_named_share(rates: tuple[float, float]) -> None:
    direct, named = rates
    law = law_of(direct, named)
    assert law.reliability == pytest.approx(max(rates))
    # scipy's own binomial law: 500 records, Holm's first step .025/30.
    most = int(binom.ppf(0.025 / 30, 500, 0.3))
    most -= binom.cdf(most, 500, 0.3) > 0.025 / 30
    risk = float(law.means[law.valid][0, 0])
    share = min(named / max(rates), 0.995)
    assert binom.cdf(most, 500, risk) == pytest.approx(share, rel=1e-9)


@pytest.mark.whole
def test_our_plan_reaches_its_power_for_less_than_the_papers_plan_costs() -> None:
    for ratio in (1.0, 100.0):
        law = law_of(**TRUTH)
        ours = our_plan(ratio, **TRUTH, wanted=0.95)
        theirs = registered(GRID.choose(ratio, TRUTH), GRID, ratio)
        assert ours.audit.claim.mode == "direct"
        assert ours.powers(law).mean() >= 0.95
        assert ours.cost < theirs.cost <= GRID.budget


def test_the_papers_plan_is_the_audit_it_projects() -> None:
    # 30 draws at ratio 100: by its own bound 29 of 30 favorable scores validate .8, 28 do not,
    # and a valid release nearly always scores on 5,000 records: P(Bin(30, .95) >= 29).
    plan = registered(GRID.choose(100.0, TRUTH), GRID, 100.0)
    assert (plan.audit.n, plan.audit.releases) == (5000, 30)
    assert plan.powers(law_of(**TRUTH)).mean() == pytest.approx(binom.sf(28, 30, 0.95), abs=1e-3)


@pytest.mark.whole
def test_a_pilot_that_hoped_too_much_costs_us_little() -> None:
    rows = run_study(STUDIES["cost-plan-sensitivity"], cells=(2,))  # ratio 1
    lost = {r.method: r for r in rows if r.metric == "largest loss of power"}
    assert lost[OURS].value < 0.02 < 0.5 < lost[PAPERS].value
    # The paper's worst plan is a named one, whose power is simulated and says so.
    assert lost[PAPERS].repetitions == 2000
    error = lost[PAPERS].standard_error
    assert error is not None
    assert 0.003 < error < 0.012
    assert lost[OURS].standard_error is None


def test_without_doubt_a_hopeful_pilot_calls_for_too_few_draws(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    hopeful = {"direct": 1.0, "named": 0.8}
    doubting = our_plan(1.0, **hopeful, wanted=None)
    monkeypatch.setattr(Search, "_doubted", lambda search, option: 0.0)
    trusting = our_plan.__wrapped__(1.0, **hopeful, wanted=None)
    law = law_of(**TRUTH)
    assert trusting.powers(law).mean() < 0.8 < 0.99 < doubting.powers(law).mean()


def test_a_threshold_is_not_tuned_to_a_pilot_that_saw_no_invalid_release() -> None:
    # A release costs 100 records: among thresholds alike, one that asks nearly all releases to
    # score would lose .7 of the power at the true reliability of .95.
    law = law_of(**TRUTH)
    best = our_plan(100.0, **TRUTH, wanted=None).powers(law).mean()
    hopeful = our_plan(100.0, 1.0, 0.9, None).powers(law).mean()
    assert best - hopeful < 0.03
