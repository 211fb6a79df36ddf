"""What an audit needs at the least: each limit against the certificates it is about."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict
from fractions import Fraction
from itertools import product
from math import ceil, log, log1p
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom

import proxyguard as pg
from proxyguard import Requirement
from proxyguard.exact import planning
from proxyguard.exact.sharp import critical_count, default_threshold, sharp_lower, sharp_pvalue
from proxyguard.losses.records import Records
from proxyguard.modes.claim import Claim
from proxyguard.modes.direct import largest_useful_threshold
from proxyguard.modes.planning import (
    AuditPlan,
    best_pvalue,
    best_weighted_pvalue,
    least_records_for,
    least_releases_sharp,
)
from proxyguard.plan.law import assumed_law
from proxyguard.plan.recommend import needs, paper_limits
from proxyguard.plan.report import PlanReport, screening_lines
from proxyguard.plan.targets import Targets
from proxyguard.registry.design import Design, Iid, Sampling, Stratified, WithoutReplacement
from proxyguard.registry.test import ComponentTest

TESTS = tuple(ComponentTest)


def requirement_of(test: ComponentTest | str | None, limit: float, **changes: Any) -> Requirement:
    two_valued = test in (ComponentTest.BINOMIAL, "binomial")
    return Requirement(name="loss", low=-1, high=1, limit=limit, two_valued=two_valued, **changes)


def plan_of(n: int, releases: int, *, mechanisms: int = 1, **choices: Any) -> AuditPlan:
    design = choices.pop("design", Iid())
    return AuditPlan(
        claim=Claim.of(choices), n=n, releases=releases, mechanisms=mechanisms, design=design
    )


@pytest.mark.parametrize("test", TESTS)
@pytest.mark.parametrize(("n", "limit"), [(2, 0.0), (30, -0.4), (200, 0.2)])
def test_the_best_pvalue_is_that_of_losses_at_their_lower_bound(
    test: ComponentTest, n: int, limit: float
) -> None:
    level = 0.004
    found = pg.certify(
        np.full((20, n, 1), -1.0), [requirement_of(test, limit)], reliability_target=0.8,
        test=test, threshold=str(level), seed=1,
    )  # fmt: skip
    expected = float(found.evidence.release_pvalues[0])
    best = best_pvalue(test, n, (limit + 1) / 2, level=level)
    # The same functions on the same values; sums of n equal terms may be ordered differently.
    assert best == pytest.approx(expected, rel=1e-9, abs=0.0)


@pytest.mark.parametrize("test", TESTS)
@pytest.mark.parametrize("v", [0.05, 0.3, 0.9])
@pytest.mark.parametrize("level", [0.05, 0.0007])
def test_the_least_records_reach_the_level_and_one_fewer_does_not(
    test: ComponentTest, v: float, level: float
) -> None:
    n = least_records_for(test, v, level=level)
    assert best_pvalue(test, n, v, level=level) <= level
    assert n == 1 or best_pvalue(test, n - 1, v, level=level) > level
    if test is ComponentTest.BINOMIAL:  # (1 - v)^n <= level
        assert n == ceil(log(level) / log1p(-v))


def test_more_records_than_there_are_is_said_as_one_more() -> None:
    assert least_records_for(ComponentTest.HOEFFDING, 0.001, level=1e-6, most=1000) == 1001


@given(st.integers(2, 400), st.sampled_from([0.3, 0.8, 0.95]), st.sampled_from([0.05, 0.01]))
def test_the_largest_useful_threshold_has_its_closed_form(
    releases: int, target: float, alpha: float
) -> None:
    found = largest_useful_threshold(releases, target=target, alpha=alpha)
    oracle = target**releases
    if oracle >= alpha:
        assert found == 0.0
        return
    # Theory section 2, "Choosing t"; rounded down by 1e-5 of alpha.
    closed = (alpha - oracle) / (1 - oracle)
    assert closed - 1.1e-5 * alpha <= found < closed
    assert float(sharp_pvalue(releases, releases, target=target, kappa=found)) <= alpha
    # A larger one cannot validate R favorable scores out of R.
    assert float(sharp_pvalue(releases, releases, target=target, kappa=closed * 1.000001)) > alpha


def test_a_threshold_of_one_percent_never_validates_five_mechanisms() -> None:
    # Theory section 2: "a fixed t = .01 can never validate five mechanisms at .05/5".
    for releases in (21, 100, 1000, 10**6):
        assert largest_useful_threshold(releases, target=0.8, alpha=0.05 / 5) < 0.01
        plan = plan_of(
            10**6, releases, mechanisms=5, reliability_target="0.8", threshold="0.01"
        )  # fmt: skip
        (why,) = needs([requirement_of(None, 0.0)], plan).obstacles
        assert "leaves no room" in why
    perfect = {name: np.full((300, 400, 1), -1.0) for name in "abcde"}
    choices: dict[str, Any] = {"reliability_target": 0.8, "seed": 1}
    for threshold, decision in (("0.01", pg.Decision.UNRESOLVED), ("0.009", pg.Decision.VALIDATED)):
        family = pg.certify(
            perfect, [requirement_of(None, 0.0)], threshold=threshold, family="bounds", **choices
        )
        assert {family[name].decision for name in "abcde"} == {decision}


def test_the_least_draws_of_the_sharp_certificate_are_the_least() -> None:
    for target, alpha, kappa in product((0.3, 0.8, 0.95), (0.05, 0.01), (0.0, 0.001, 0.009)):
        least = least_releases_sharp(target=target, alpha=alpha, kappa=kappa)
        assert least is not None
        passes = [
            float(sharp_pvalue(r, r, target=target, kappa=kappa)) <= alpha
            for r in (least - 1, least)
            if r > 0
        ]
        assert passes[-1]
        assert not any(passes[:-1])
    assert least_releases_sharp(target=0.8, alpha=0.05, kappa=0.05) is None
    # .8^13 = .0550 and .8^14 = .0440: no certificate does with fewer.
    assert least_releases_sharp(target=0.8, alpha=0.05) == 14


@pytest.mark.parametrize("releases", [14, 15, 30, 60, 100])
def test_the_critical_count_of_the_default_threshold_validates(releases: int) -> None:
    # At R = 30 theory section 2 has t = .0055, and 28 favorable scores of 30.
    t = default_threshold(releases, target=0.8, alpha=0.05)
    assert t is not None
    count = int(critical_count(releases, target=0.8, kappa=t, alpha=0.05))
    losses = np.full((releases, 300, 1), 1.0)
    losses[:count] = -1.0
    found = pg.certify(losses, [requirement_of(None, 0.0)], reliability_target=0.8, seed=1)
    assert found.lower.pvalue <= 0.05
    assert found.decision is pg.Decision.VALIDATED


def test_the_critical_count_clears_its_bound_over_many_designs() -> None:
    for target, alpha, releases in product((0.5, 0.8, 0.9), (0.05, 0.01), range(45, 301, 15)):
        t = default_threshold(releases, target=target, alpha=alpha)
        assert t is not None
        count = int(critical_count(releases, target=target, kappa=t, alpha=alpha))
        # Of thresholds that are not rounded off, one in eight misses its own target by 1e-12.
        assert sharp_lower(count, releases, kappa=t, alpha=alpha) > target
        assert sharp_lower(count - 1, releases, kappa=t, alpha=alpha) <= target


CLAIMS: list[dict[str, Any]] = [
    *({"mode": "direct", "threshold": "0.004", "test": test.value} for test in TESTS),
    *({"mode": "named", "test": test.value} for test in TESTS),
    *({"mode": "count", "test": test.value} for test in TESTS),
    {"mode": "hybrid", "threshold": "0.004", "test": "bentkus"},
    {"mode": "hybrid", "threshold": "0.024"},
    {"mode": "hybrid", "score": "slack", "named_share": "0.9"},
    {"mode": "hybrid", "bound": "paper", "threshold": "0.001"},
    {"mode": "hybrid", "bound": "rescaled", "threshold": "0.002"},
    {"threshold": "0.03"},
    {"threshold": "0.045"},
    {"score": "slack"},
    *(
        {"bound": bound, "target_share": share, **more}
        for bound, share, more in product(
            ("rescaled", "paper"), ("0.5", "0.9"),
            ({}, {"threshold": "0.002"}, {"score": "slack"}, {"mode": "smooth"}),
        )
    ),
    {"mode": "smooth"},
    {"mode": "block", "block_size": 5},
    {"mode": "block", "block_size": 12},
    {"mode": "named", "release_share": "0.1"},
    {"mode": "named", "release_share": "0.9"},
    {"mode": "count", "threshold": "0.0001"},
    {"mode": "count", "threshold": "0.03"},
]  # fmt: skip


def perfect_cases(claim: dict[str, Any]) -> Iterator[tuple[AuditPlan, Requirement]]:
    """Yield sizes, limits and targets at which this claim is judged on perfect losses."""
    sizes = ((13, 300), (14, 60), (17, 30), (30, 12), (40, 100), (70, 500))
    for (releases, n), share, target in product(sizes, (0.1, 0.4), ("0.3", "0.8")):
        design: Design = WithoutReplacement(pool=10**5) if releases == 40 else Iid()
        requirement = requirement_of(
            claim.get("test"), round(2 * share - 1, 6), slack=0.8 * share, ramp=0.8 * share
        )
        choices = {"reliability_target": target, **claim}
        if pg.supports([requirement], design=design, **choices):
            continue
        # Every second size with a family of three.
        mechanisms = 3 if releases in (17, 70) else 1
        yield plan_of(n, releases, mechanisms=mechanisms, design=design, **choices), requirement


@pytest.mark.reduced(cases=9)
@pytest.mark.parametrize("claim", CLAIMS, ids=lambda c: " ".join(map(str, c.values())))
def test_obstacles_are_found_exactly_where_perfect_losses_do_not_validate(
    claim: dict[str, Any],
) -> None:
    judged = set()
    for plan, requirement in perfect_cases(claim):
        losses = np.full((plan.releases, plan.n, 1), -1.0)
        # Of three mechanisms two are hopeless: Holm's first step decides on the other.
        family = {str(h): losses if h == 0 else -losses for h in range(plan.mechanisms)}
        found = pg.certify(
            family, [requirement], design=plan.design, seed=1, beta=None,
            reliability_target=plan.claim.reliability_target, **claim,
        )["0"]  # fmt: skip
        validates = found.decision is pg.Decision.VALIDATED
        obstacles = needs([requirement], plan).obstacles
        assert validates == (not obstacles), (plan, obstacles, found.reliability_lower)
        judged.add(validates)
    if claim not in ({"threshold": "0.045"}, {"mode": "count", "threshold": "0.03"}):
        assert judged == {True, False}  # both happen over these sizes


@pytest.mark.parametrize("claim", [{"test": "hoeffding", "threshold": "0.004"}, {"score": "slack"}])
def test_weighted_strata_are_judged_by_their_weights(claim: dict[str, Any]) -> None:
    design = Stratified(sizes={"a": 4, "b": 36}, weights={"a": "0.9", "b": "0.1"})
    requirement = Requirement(name="loss", low=0, high=1, limit=0.4, slack=0.2)
    found = pg.certify(
        np.zeros((40, 40, 1)), [requirement], design=design, seed=1, beta=None,
        records=Records(strata=["a"] * 4 + ["b"] * 36), reliability_target=0.8, **claim,
    )  # fmt: skip
    assert found.decision is pg.Decision.UNRESOLVED
    assert needs([requirement], plan_of(40, 40, design=design, reliability_target="0.8", **claim)
                 ).obstacles  # fmt: skip


def test_needs_say_how_many_draws_records_and_favorable_scores() -> None:
    requirement = Requirement(name="loss", low=0, high=1, limit=0.3, two_valued=True)
    found = needs([requirement], plan_of(5, 13, reliability_target="0.8", threshold="0.004"))
    assert len(found.obstacles) == 2
    assert "at least 14 are needed" in found.obstacles[0]  # .8^14 < .05
    assert "at least 16 are needed" in found.obstacles[1]  # .7^15 = .0047, .7^16 = .0033
    assert found.least_records == 16
    assert found.least_count is None
    good = needs([requirement], plan_of(300, 100, reliability_target="0.8", threshold="0.01"))
    assert good.obstacles == ()
    # Theory section 2's table: 88 of 100 at kappa .01; the attained level is a little below.
    attained = max(p for p in binom.cdf(np.arange(301), 300, 0.3) if p <= 0.01)
    assert good.least_count == int(critical_count(100, target=0.8, kappa=attained, alpha=0.05))
    assert good.least_count in (87, 88)
    # (alpha - eta_0^R)/(1 - eta_0^R), rounded down by 1e-5 of alpha.
    assert good.largest_threshold == pytest.approx(0.05, rel=2e-5)
    assert set(asdict(good)) == {
        "least_count", "least_releases", "least_records", "largest_threshold", "obstacles",
    }  # fmt: skip


def divergence(a: float, b: float) -> float:
    return a * log(a / b) + (1 - a) * log((1 - a) / (1 - b))


@pytest.mark.parametrize("mechanisms", [1, 5])
def test_the_papers_limits_are_its_own_statements(mechanisms: int) -> None:
    requirements = [
        Requirement(name="first", low=0, high=1, limit=0.3, slack=0.05),
        Requirement(name="second", low=-1, high=1, limit=0.1, slack=0.12),
    ]
    margins, half = [0.08, 0.2], 0.025 / mechanisms
    plan = plan_of(800, 120, mechanisms=mechanisms, reliability_target="0.8")
    found = paper_limits(requirements, margins, plan, failure=0.1)
    # Proposition 14: unit cutoffs .25 against .3 and .49 against .55.
    smallest = min(divergence(0.25, 0.3), divergence(0.49, 0.55))
    assert found.least_records == planning.least_records(smallest, target=0.8, alpha_target=half)
    # Proposition 18: ceil(log(.025/H)/log(.8)) is 17 for one mechanism, 24 for five (studies B7).
    assert found.least_releases == {1: 17, 5: 24}[mechanisms]
    # Proposition 17 on the unit scale, where all widths are 1: margins of .08 and .1.
    assert found.sufficient_records == planning.sufficient_records_named(
        margin=0.08, width=1.0, alpha=half, beta=0.1, n_releases=120, n_requirements=2
    )
    assert found.sufficient_records == ceil(2 / 0.08**2 * max(log(120 / half), log(240 / 0.1)))
    # Theorem 15 at half the margin as slack.
    assert found.direct_shortfall == pytest.approx(
        planning.direct_shortfall(
            n_records=800, n_releases=120, n_requirements=2, margin=0.08, slack=0.04, width=1.0,
            budget=(half, half), failure=(0.05, 0.05),
        ),
        rel=1e-12,
    )  # fmt: skip
    # The same margins and ranges in another unit, one requirement in kg: nothing changes.
    heavy = Requirement(name="second", low=-50, high=50, limit=5, slack=6)
    assert paper_limits([requirements[0], heavy], [0.08, 10.0], plan) == found
    assert list(found.to_dict()) == [
        "proposition_14_least_records", "proposition_18_least_releases",
        "proposition_17_sufficient_records", "theorem_15_direct_shortfall",
    ]  # fmt: skip


def test_without_slacks_or_margins_the_paper_has_less_to_say() -> None:
    plan = plan_of(800, 120, reliability_target="0.8")
    found = paper_limits([requirement_of(None, 0.0)], [-0.01], plan)
    assert found.least_records is None
    assert found.sufficient_records is None
    assert found.direct_shortfall is None
    assert found.least_releases == 17


def test_proposition_14_is_necessary_for_the_papers_direct_bound() -> None:
    requirement = Requirement(name="loss", low=0, high=1, limit=0.3, slack=0.05)
    least = paper_limits(
        [requirement], [0.1], plan_of(1, 1, reliability_target="0.8")
    ).least_records
    assert least is not None
    choices = {"score": "slack", "bound": "paper", "reliability_target": "0.8"}
    for n, possible in ((least - 1, False), (least, True)):
        obstacles = needs([requirement], plan_of(n, 10**5, **choices)).obstacles
        assert (not obstacles) == possible, (n, obstacles)


def test_a_level_shared_by_mechanisms_is_the_first_step_of_holm() -> None:
    requirement = requirement_of(None, 0.0)
    plan = plan_of(400, 20, mechanisms=5, reliability_target="0.8")
    (why,) = needs([requirement], plan).obstacles
    # log(.01)/log(.8) = 20.6.
    assert "at error 0.01" in why
    assert "at least 21 are needed" in why
    assert plan.levels([requirement]).share == Fraction(1, 5)


@pytest.mark.parametrize("bound", ["paper", "rescaled", "sharp"])
def test_a_hybrid_with_slack_scores_is_judged_by_its_direct_part(bound: str) -> None:
    requirement = Requirement(name="loss", low=0, high=1, limit=0.4, slack=0.1)
    few, many = (
        needs(
            [requirement],
            plan_of(n, 60, mode="hybrid", bound=bound, score="slack", reliability_target="0.8"),
        )
        for n in (5, 2000)
    )
    assert few.obstacles
    assert not many.obstacles


@pytest.mark.parametrize(
    ("n", "claim"),
    [
        (500, {"thresholds": ["0.001", "0.03"]}),
        (20, {"calibrator": "capital", "test": "betting"}),
    ],
)
def test_a_count_without_one_threshold_is_not_called_hopeless(
    n: int, claim: dict[str, Any]
) -> None:
    requirement = Requirement(name="loss", low=0, high=1, limit=0.2)
    wanted = {"mode": "count", "reliability_target": 0.8, **claim}
    found = pg.certify(np.zeros((60, n, 1)), [requirement], seed=1, **wanted)
    assert found.decision is pg.Decision.VALIDATED
    plan = plan_of(n, 60, **{**wanted, "reliability_target": "0.8"})
    assert not needs([requirement], plan).obstacles


class Unknown:
    """A test that is in no table."""

    value, least_records, samplings, bets = "unknown", 1, frozenset(Sampling), False


def test_a_test_without_a_pvalue_is_refused_and_not_taken_for_betting() -> None:
    unknown: Any = Unknown()
    strata = Stratified(sizes={"a": 20, "b": 10}, weights={"a": "1/2", "b": "1/2"})
    law = assumed_law([requirement_of(None, 0.2)], margins=[0.1], reliability=0.9, spread=0.3)
    targets = Targets(law, 30, repetitions=3, seed=1)
    asked: list[Callable[[], object]] = [
        lambda: best_pvalue(unknown, 30, 0.5, level=0.05),
        lambda: best_weighted_pvalue(unknown, strata, 0.5),
        lambda: targets.pvalues(unknown, 0, level=0.05),
    ]
    for ask in asked:
        with pytest.raises(ValueError, match="has no p-value"):
            ask()
    # One that is known has none on strata with weights that it does not cover.
    with pytest.raises(ValueError, match="chernoff does not cover strata with weights"):
        best_weighted_pvalue(ComponentTest.CHERNOFF, strata, 0.5)


def test_a_plan_says_what_it_takes_to_find_a_rare_stratum() -> None:
    rare = pg.Stratified(sizes={"rare": 500, "rest": 500}, weights={"rare": "0.02", "rest": "0.98"})
    error = [pg.Requirement(name="error", low=0, high=1, limit=0.2)]
    law = pg.assumed_law(error, margins=[0.1], reliability=0.99)
    question = pg.Question(
        reliability_target="0.8", n=1000, releases=60, design=rare, modes=("direct",),
        tests=(ComponentTest.HOEFFDING,),
    )  # fmt: skip
    said = str(PlanReport(found=pg.recommend(law, question)))
    assert "To find 500 records of stratum 'rare' about 25,000 are screened" in said
    # In proportion nothing is looked for, and an iid target has no strata.
    alike = pg.Stratified(sizes={"a": 300, "b": 700}, weights={"a": "0.3", "b": "0.7"})
    assert screening_lines(alike) == screening_lines(pg.Iid()) == []
