"""What would settle an unresolved verdict: sizes that reach their power when they are simulated."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from functools import cached_property
from math import sqrt
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

import proxyguard as pg
from proxyguard.documents.certificate import AdvisedSizes, ReportAdvice
from proxyguard.errors import DocumentError
from proxyguard.evidence.record import evidence_record
from proxyguard.exact.betting import BettingCapital
from proxyguard.modes.claim import Claim
from proxyguard.modes.planning import AuditPlan
from proxyguard.plan.law import Law
from proxyguard.plan.recommend import CORRECTIONS, Recommendation, recommend
from proxyguard.plan.report import PlanReport
from proxyguard.plan.search import DEAREST, EVALUATIONS
from proxyguard.plan.targets import Targets
from proxyguard.report.advice import (
    EFFORT,
    NEAREST,
    REPETITIONS,
    Unsettled,
    UnsettledRelease,
    advice_words,
    advise,
    find_sizes,
    law_of,
    nearest,
    unit_deviations,
    unit_means,
)

RISK = pg.Requirement(name="risk", low=0, high=1, limit=0.3)
COST = pg.Requirement(name="cost", low=-1, high=1, limit=0.1)


def unsettled(**changes: Any) -> Unsettled:
    """Return a mechanism whose releases lie a little below their limits, one of 40 above."""
    rng = np.random.default_rng(5)
    means = np.stack([rng.normal(0.265, 0.01, 40), rng.normal(0.45, 0.005, 40)], axis=1)
    means[0] = 0.5
    values: dict[str, Any] = {
        "mechanism": "m", "claim": Claim.of({"reliability_target": 0.8}), "design": pg.Iid(),
        "requirements": (RISK, COST), "means": means, "deviations": np.array([0.15, 0.05]),
        "n": 500, "mechanisms": 1, "binding": "risk", "seed": 7,
    }  # fmt: skip
    return Unsettled(**(values | changes))


def test_a_workload_is_planned_with_the_requirements_nearest_to_their_limits() -> None:
    rng = np.random.default_rng(6)
    many = tuple(replace(COST, name=f"cell {j}") for j in range(NEAREST + 50))
    means = rng.uniform(0.2, 0.3, size=(8, len(many)))  # the limit is .55 on the unit scale
    means[3, :10] = 0.54
    means[4, -1] = 0.6  # an invalid release, by a requirement that is far for the others
    case = unsettled(requirements=many, means=means, deviations=np.full(len(many), 0.1))
    near = nearest(case)
    assert len(near.requirements) == NEAREST
    assert {f"cell {j}" for j in range(10)} <= {r.name for r in near.requirements}
    assert near.valid.tolist() == case.valid.tolist() == [True] * 4 + [False] + [True] * 3
    few = unsettled()
    assert nearest(few) is few


def planned(case: Unsettled) -> Recommendation:
    """Return what the planner recommends where this target's estimates are the truth."""
    return recommend(
        law_of(nearest(case)), case.question, seed=case.seed, repetitions=REPETITIONS,
        effort=EFFORT, compare=False,
    )  # fmt: skip


@pytest.fixture(scope="module")
def recommended() -> Recommendation:
    """Return the plan for `unsettled`."""
    return planned(unsettled())


@pytest.fixture(scope="module")
def advised() -> ReportAdvice:
    """Return the advice for `unsettled`."""
    return advise(unsettled())


def test_advice_and_plan_say_the_same_numbers(
    recommended: Recommendation, advised: ReportAdvice
) -> None:
    said = advised
    plan, power = recommended.chosen.plan, recommended.chosen.power
    assert (said.n, said.R) == (plan.n, plan.releases)
    assert (said.power, said.power_error) == pytest.approx(
        (power.value, power.standard_error), abs=5e-5
    )
    words = str(PlanReport(found=recommended))
    assert words.startswith(f"Target records: {said.n:,}\nDraws: {said.R:,}\n")
    assert f"{recommended.chosen.way.label}; tests: {recommended.chosen.way.tests}" in words
    assert f"planned as {recommended.chosen.way.label}, tests: " in said.sentence
    assert f"about {said.n:,} records" in said.sentence


def test_the_planner_is_asked_what_was_registered() -> None:
    claim = Claim.of({"reliability_target": "0.75", "alpha": "0.02", "mode": "named"})
    case = unsettled(claim=claim, mechanisms=3, digits=3, design=pg.Independent())
    question = case.question
    assert (question.reliability_target, question.alpha) == (Fraction(3, 4), Fraction(1, 50))
    assert (question.mechanisms, question.digits, question.power) == (3, 3, 0.8)
    assert question.design == pg.Independent()
    # The unit of cost is this audit: as many records again cost what as many draws again do.
    assert question.cost(500, 0) == question.cost(0, 40) == 1.0
    assert "named" in question.modes


def simulate(law: Law, plan: AuditPlan, trials: int) -> float:
    """Return how often an audit validates: losses drawn, certified from scratch."""
    n, releases = plan.n, plan.releases
    rng = np.random.default_rng(8)
    kinds = law.releases.size
    chances = np.append(law.releases, 1.0 - law.releases.sum())
    validated = 0
    for trial in range(trials):
        drawn = rng.choice(kinds + 1, size=releases, p=chances / chances.sum())
        values = np.ones((releases, n, len(law.requirements)))
        for j, requirement in enumerate(law.requirements):
            records = rng.choice(law.records[j].size, size=n, p=law.records[j])
            table = np.vstack([law.losses[j], np.ones(law.records[j].size)])
            unit = table[drawn][:, records]
            values[:, :, j] = requirement.low + requirement.width * unit
        found = pg.certify(
            values, list(law.requirements), seed=trial, **{**plan.claim.choices(), "beta": None}
        )
        validated += found.decision is pg.Decision.VALIDATED
    return validated / trials


def test_the_advised_plan_reaches_its_power_when_it_is_run(recommended: Recommendation) -> None:
    chosen, trials = recommended.chosen, 120
    assert 0.8 <= chosen.power.value <= 0.9
    rate = simulate(recommended.law, chosen.plan, trials)
    own = chosen.power.value * (1 - chosen.power.value) / trials
    assert abs(rate - chosen.power.value) <= 3 * sqrt(chosen.power.standard_error**2 + own)
    assert rate >= 0.8 - 3 * sqrt(0.16 / trials)


def test_half_of_the_advised_records_would_not_do(recommended: Recommendation) -> None:
    # The advice is no more than needed by much: the same draws with half the records fail.
    plan = recommended.chosen.plan
    assert simulate(recommended.law, replace(plan, n=plan.n // 2), 60) < 0.7


def test_it_says_what_it_is(advised: ReportAdvice) -> None:
    first = advised
    for words in ("not a certified statement", "estimates are noisy", "fresh target", "'risk'"):
        assert words in first.sentence
    assert f"{first.n:,} records (here 500)" in first.sentence
    assert f"{first.R:,} draws (here 40)" in first.sentence


def test_estimates_above_the_limits_get_no_sizes() -> None:
    case = unsettled()
    means = case.means.copy()
    means[:12, 0] = 0.31  # 27 of 40 stay below, and more than .8 are required
    found = advise(replace(case, means=means))
    assert (found.n, found.R, found.power) == (None, None, None)
    assert "28 of 40 releases have all estimates below" in found.sentence
    assert "no size of audit validates" in found.sentence


@pytest.mark.parametrize(("n", "words"), [
    (1500, "a fresh audit with disclosure = { digits = 3 } may count more"),
    (500, "with more than 1,000 records and disclosure = { digits = 3 } may count more: of fewer"),
])  # fmt: skip
def test_rounding_that_hides_good_releases_is_told_with_digits_that_check_lets_stand(
    n: int, words: str
) -> None:
    case = unsettled(n=n, digits=2)
    means = np.tile([0.299, 0.45], (40, 1))
    rounded = np.ceil(means * 100) / 100  # on the limit of .3
    assert words in advise(replace(case, means=rounded)).sentence
    # Far above the limit it is not the rounding that is in the way.
    far = advise(replace(case, means=np.tile([0.35, 0.45], (40, 1)))).sentence
    assert "0 of 40 releases have all estimates below their limits" in far


def test_a_single_good_release_is_too_few_to_plan_from() -> None:
    case = unsettled()
    found = advise(replace(case, means=case.means[1:2]))
    assert found.n is None
    assert "1 of 1 releases have all estimates below" in found.sentence
    assert "too few releases to plan for a reliability above 0.8" in found.sentence


def test_margins_too_thin_for_any_target_are_told() -> None:
    case = unsettled()
    means = np.tile([0.29999, 0.45], (40, 1))
    found = advise(replace(case, means=means))
    assert found.n is None
    assert "up to 5,000 records and 500 draws" in found.sentence


def test_subgroups_are_left_alone() -> None:
    found = advise(unsettled(requirements=(replace(RISK, group="women"), COST)))
    assert found.n is None
    assert "subgroups" in found.sentence


def test_means_and_deviations_are_read_from_evidence() -> None:
    rng = np.random.default_rng(1)
    values = np.stack([rng.random((5, 300)), rng.random((5, 300)) - 0.5], axis=2)
    certificate = pg.certify(values, [RISK, COST], reliability_target=0.8, seed=1)
    record = evidence_record(certificate.evidence)
    means = unit_means(record, (RISK, COST))
    assert means == pytest.approx(
        np.stack([values[:, :, 0].mean(axis=1), (values[:, :, 1].mean(axis=1) + 1) / 2], axis=1)
    )
    # A uniform law on [0, 1] has deviation 1/sqrt(12); the second is spread over half the scale.
    assert unit_deviations(record) == pytest.approx([0.2887, 0.1443], rel=0.05)


def test_more_mechanisms_ask_for_more(advised: ReportAdvice) -> None:
    alone, five = advised, advise(unsettled(mechanisms=5))
    assert five.n / alone.n + five.R / alone.R > 2.0


def test_words_come_from_recorded_sizes_and_nothing_is_simulated(
    advised: ReportAdvice, monkeypatch: pytest.MonkeyPatch
) -> None:
    case, whole = unsettled(), advised
    monkeypatch.setattr("proxyguard.report.advice.recommend", None)  # would raise if called
    recorded = {key: getattr(whole, key) for key in AdvisedSizes.model_fields}
    sizes = AdvisedSizes.of(recorded, "advice.json")
    assert advice_words(case, sizes) == whole
    assert "39 of 40 releases valid, planned with 96.3 %" in whole.sentence  # 39.5 / 41
    for key in ("n", "mode", "bound", "score", "test"):
        with pytest.raises((ValueError, DocumentError), match="use this mechanism"):
            advice_words(case, AdvisedSizes.of({**recorded, key: "use this mechanism"}, "advice"))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({}, "It is planned as direct, sharp, tests: empirical bernstein; the chance is"),
        ({"sequential": True}, "; with decided once after all draws instead of look by look; the"),
        ({"unequal": True}, "; with equal shares of the error budget; the"),
    ],
    ids=["same", "sequential", "shares"],
)
def test_what_differs_from_the_registered_audit_is_said(
    changes: dict[str, Any], words: str
) -> None:
    sizes = AdvisedSizes(
        n=600, R=40, power=0.84, power_error=0.02, targets=400, requirements=2, mode="direct",
        bound="sharp", score="pvalue", test="empirical_bernstein",
    )  # fmt: skip
    sentence = advice_words(unsettled(**changes), sizes).sentence
    assert words in sentence


def crowded(requirements: int, n: int) -> Unsettled:
    """Return a mechanism with many requirements that are all equally near to their limits."""
    means = np.random.default_rng(6).normal(0.265, 0.01, (40, requirements)).clip(max=0.29)
    means[0] = 0.5
    return unsettled(
        requirements=tuple(replace(RISK, name=f"cell {j}") for j in range(requirements)),
        means=means, deviations=np.full(requirements, 0.1), n=n,
    )  # fmt: skip


@pytest.mark.reduced(cases=2)
@pytest.mark.parametrize(
    "case",
    [unsettled(), crowded(10, 8_000), crowded(2_000, 5_000), crowded(3, 1_000_000)],
    ids=["few", "ten", "thousands of requirements", "a million records"],
)
def test_sizes_are_advised_within_a_bounded_effort(
    case: Unsettled, monkeypatch: pytest.MonkeyPatch
) -> None:
    spent = {"bets": 0, "counts": 0}
    update, counts = BettingCapital.update, Targets.counts.func

    def bet(capital: BettingCapital, losses: Any) -> None:
        spent["bets"] += losses.size
        update(capital, losses)

    def count(targets: Targets) -> Any:
        drawn = counts(targets)
        spent["counts"] += sum(kinds.size for kinds in drawn)
        return drawn

    counted = cached_property(count)
    counted.__set_name__(Targets, "counts")
    monkeypatch.setattr(BettingCapital, "update", bet)
    monkeypatch.setattr(Targets, "counts", counted)
    assert find_sizes(case) is not None
    # The search and its last evaluation, then the plan and its corrections at ten times each.
    most = EFFORT * (EVALUATIONS + 4 * DEAREST + 10 * (CORRECTIONS + 2))
    assert 0 < spent["bets"] + 2 * spent["counts"] < most


def test_the_advice_says_how_its_chance_was_computed() -> None:
    few = advise(unsettled())
    assert f"simulated on {few.targets} targets, Monte Carlo error 0.0" in few.sentence
    assert "nearest" not in few.sentence
    case = crowded(40, 500)
    many = advise(case)
    said = f"with the {NEAREST} of 40 requirements nearest to their limits; all of them leave no"
    assert said in many.sentence
    exact = replace(RISK, two_valued=True)
    alone = advise(unsettled(requirements=(exact,), means=unsettled().means[:, :1],
                             deviations=np.array([0.44])))  # fmt: skip
    assert (alone.targets, alone.power_error) == (0, 0.0)
    assert "; the chance is a sum over all outcomes. " in alone.sentence


SHARE = pg.Requirement(name="share", low=0, high=1, limit=0.1, two_valued=True)


def unsettled_release(**changes: Any) -> UnsettledRelease:
    """Return a named release whose share lies a little below its limit, one of five."""
    values: dict[str, Any] = {
        "mechanism": "target/spring", "claim": Claim.of({"mode": "releases"}), "design": pg.Iid(),
        "requirements": (SHARE,), "means": np.array([[0.08]]), "deviations": np.array([0.27]),
        "n": 400, "binding": "share", "estimates": np.array([0.08]),
        "pvalues": np.array([0.11]), "family": 5, "unresolved": 2,
    }  # fmt: skip
    return UnsettledRelease(**(values | changes))


def test_the_records_advised_for_a_named_release_show_it_at_what_holm_asks_first() -> None:
    said = advise(unsettled_release())
    assert said.n is not None
    assert said.R == 1

    def chance(n: int) -> float:
        """Return how often the exact binomial test of ``n`` records is at most alpha / 5."""
        counts = np.arange(n + 1)
        shown = binom.cdf(counts, n, 0.1) <= 0.05 / 5
        return float(binom.pmf(counts, n, 0.08) @ shown)

    assert chance(said.n) == pytest.approx(said.power, abs=2e-3)
    assert 0.8 <= chance(said.n) < 0.86
    assert chance(said.n // 2) < 0.8
    for words in (
        "'share' lies 0.02 below its limit of 0.1, and 400 records tell differences of about 0.031",
        "(p-value 0.11)", "Holm asks 0.01 of the first of 5 releases",
        f"about {said.n:,} records (here 400)", "tested by binomial", "not a certified statement",
    ):  # fmt: skip
        assert words in said.sentence
    alone = advise(unsettled_release(family=1))
    assert alone.n is not None
    assert alone.n < said.n
    many = advise(unsettled_release(family=5000, n=5000))  # a level below what one draw may lose
    assert many.n is not None
    assert many.n > said.n


@pytest.mark.parametrize(("changes", "words"), [
    ({"means": np.array([[0.12]]), "estimates": np.array([0.12])},
     "lies 0.02 above its limit of 0.1"),
    ({"means": np.array([[0.12]]), "estimates": np.array([0.12])},
     "no number of records validates it, if that is near the truth"),
    ({"means": np.array([[0.0999]])}, "no target of up to 5,000 records shows it"),
    ({"design": pg.Weighted(max_weight=9, origin="design")}, "units weigh alike"),
    ({"requirements": (replace(SHARE, group="women"),)}, "subgroups"),
    ({"unresolved": 20}, "It is one of the 8 nearest of 20 unresolved releases."),
])  # fmt: skip
def test_what_is_in_the_way_of_a_named_release_is_told_without_sizes_too(
    changes: dict[str, Any], words: str
) -> None:
    said = advise(unsettled_release(**changes))
    assert words in said.sentence
    assert "Holm asks 0.01 of the first of 5 releases" in said.sentence
    assert (said.n is None) is ("nearest" not in words)


def test_of_many_requirements_those_furthest_from_being_shown_are_told() -> None:
    names = ("shown", "a", "b", "c", "d")
    case = unsettled_release(
        requirements=tuple(replace(SHARE, name=name) for name in names),
        means=np.full((1, 5), 0.08), deviations=np.full(5, 0.27), estimates=np.full(5, 0.08),
        pvalues=np.array([0.001, 0.2, 0.4, 0.3, 0.1]),
    )  # fmt: skip
    sentence = advice_words(case, None).sentence
    told = [name for name in names if f"of '{name}' lies" in sentence]
    assert told == ["a", "b", "c"]
    assert sentence.index("'b'") < sentence.index("'c'") < sentence.index("'a'")
    assert "; and 1 more. Holm" in sentence
