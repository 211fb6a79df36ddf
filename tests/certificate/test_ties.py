"""One tie for each convention of studies.md E1."""

from __future__ import annotations

from fractions import Fraction
from itertools import permutations
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.stats import binom

import proxyguard as pg
from proxyguard.certificate import sequential as stream_module
from proxyguard.exact.contamination import most_at_cutoff
from proxyguard.registry.test import slack_scores

HIT = pg.Requirement(name="hit", low=0, high=1, limit=0.2, two_valued=True, slack=0.042)
LOSS = pg.Requirement(name="loss", low=0, high=1, limit=0.2, slack=0.042)
VALIDATED = pg.Decision.VALIDATED
UNRESOLVED = pg.Decision.UNRESOLVED
VIOLATION = pg.Decision.VIOLATION


def below(x: float) -> Fraction:
    """The next double below, exactly."""
    return Fraction(float(np.nextafter(x, 0.0)))


def counts(*hits: int, n: int = 1000) -> NDArray[np.float64]:
    """Releases with so many losses of 1 out of n, spread over the records."""
    values = np.zeros((len(hits), n, 1))
    for r, k in enumerate(hits):
        values[r, np.random.default_rng(r).choice(n, k, replace=False)] = 1.0
    return values


def certify(losses: Any, requirement: pg.Requirement = HIT, **choices: Any) -> pg.Certificate:
    choices = {"reliability_target": 0.8, "seed": 4} | choices
    return pg.certify(losses, [requirement], **choices)


def steps(certificate: pg.Certificate) -> dict[str, float]:
    return {label.split(" (")[0]: value for label, value in certificate.lower.steps}


@pytest.mark.parametrize(
    "test",
    ["empirical_bernstein", "hoeffding", "chernoff", "bentkus", "betting", "betting_fixed"],
)
@pytest.mark.parametrize(
    ("low", "high", "limit"), [(0, 1, 0.2), (-1, 1, 0.02), (-0.3, 0.9, 0.1)], ids=str
)
def test_a_mean_on_its_limit_is_not_valid_and_no_violation(
    test: str, low: float, high: float, limit: float
) -> None:
    on = pg.Requirement(name="on", low=low, high=high, limit=limit)
    evidence = certify(np.full((3, 1000, 1), limit), on, test=test).evidence
    # One ulp of rounding in 1,000 bets: far from any level, and 1 for the moment tests.
    least = 1.0 if not test.startswith("betting") else 1.0 - 1e-9
    assert np.all(evidence.pvalues >= least)
    assert np.all(evidence.violation_pvalues >= least)


@pytest.mark.parametrize("test", ["empirical_bernstein", "hoeffding", "chernoff", "bentkus"])
def test_two_hundred_of_a_thousand_are_not_below_a_fifth(test: str) -> None:
    evidence = certify(counts(199, 200, 201), test=test, design=pg.Iid()).evidence
    assert evidence.pvalues[1, 0] == evidence.pvalues[2, 0] == 1.0
    assert evidence.violation_pvalues[0, 0] == evidence.violation_pvalues[1, 0] == 1.0
    if test in ("hoeffding", "chernoff"):  # the others need more than one record's difference
        assert evidence.pvalues[0, 0] < 1.0


def test_exact_counts_on_the_limit_validate_nothing() -> None:
    certificate = certify(counts(*[200] * 50), test="binomial")
    assert np.all(certificate.evidence.pvalues > 0.5)
    assert certificate.decision is UNRESOLVED
    assert certificate.reliability_lower == 0.0


@pytest.mark.parametrize(
    ("n", "on", "requirement"),
    [
        (1000, 158, HIT),
        (1000, 158, LOSS),
        (500, 79, HIT),
        # 0.3 - 0.1 and 0.24 - 0.082 fall below 0.2 and 0.158 in doubles.
        (10, 2, pg.Requirement(name="d", low=0, high=1, limit=0.3, slack=0.1)),
        (1000, 158, pg.Requirement(name="d", low=0, high=1, limit=0.24, slack=0.082)),
    ],
    ids=lambda x: getattr(x, "name", str(x)),
)
@pytest.mark.parametrize("form", ["array", "stream", "moments"])
def test_a_mean_on_its_cutoff_scores_favorably(
    form: str, n: int, on: int, requirement: pg.Requirement
) -> None:
    values = counts(on - 1, on, on + 1, n=n)
    given: Any = values
    if form == "stream":
        parts = [values[:, i : i + 7] for i in range(0, n, 7)]
        given = pg.LossStream(chunks=parts, n_releases=3, n_records=n, n_requirements=1)
    if form == "moments":
        given = pg.Moments(n=n, mean=values.mean(axis=1))
    certificate = certify(given, requirement, score="slack", test="bentkus")
    assert steps(certificate)["favorable scores"] == 2


@pytest.mark.parametrize("value", [1.0, 0.5])
def test_a_mean_on_its_cutoff_scores_on_a_scale_from_minus_one(value: float) -> None:
    # 158 losses of 1 (or 316 of one half) and zeros: the mean over [-1, 1] is the cutoff.
    wide = pg.Requirement(name="wide", low=-1, high=1, limit=0.2, slack=0.042)
    values = np.zeros((2, 1000, 1))
    values[:, : round(158 / value)] = value
    values[1, -1] = 0.001
    assert steps(certify(values, wide, score="slack"))["favorable scores"] == 1


def test_the_ceiling_counts_the_tie() -> None:
    # scipy's binomial distribution function at the tie itself, not one below it.
    certificate = certify(counts(158), score="slack")
    assert steps(certificate)["kappa"] == pytest.approx(binom.cdf(158, 1000, 0.2), rel=1e-9)


def test_a_pvalue_on_the_threshold_scores_favorably() -> None:
    values = counts(*range(120, 200, 4))
    pvalues = certify(values).evidence.release_pvalues
    for r in (3, 8, 15):
        t = float(pvalues[r])
        on, under = (
            steps(certify(values, threshold=x))["favorable scores"] for x in (Fraction(t), below(t))
        )
        assert (on, under) == (r + 1, r)


def test_a_violation_pvalue_on_the_threshold_scores_too() -> None:
    values = counts(*range(200, 280, 4))
    t = float(certify(values).evidence.release_violation_pvalues[-5])
    seen = []
    for x in (Fraction(t), below(t)):
        upper = certify(values, violation_threshold=x).upper
        assert upper is not None
        seen.append(upper.steps[0][1])
    assert seen == [5, 4]


def test_holm_rejects_a_pvalue_on_its_level() -> None:
    # Powers of two divide exactly: alpha/2 is the p-value itself.
    two = pg.NamedReleases(counts(150, 150), [HIT])
    p = pg.certify_releases({"t": two}).verdicts[0].pvalue
    assert 0.0 < p < 0.01
    on = pg.certify_releases({"t": two}, alpha=Fraction(2 * p))
    assert on.validated == ("t/0", "t/1")
    assert pg.certify_releases({"t": two}, alpha=2 * below(p)).validated == ()


def test_holm_over_violations_rejects_on_its_level_too() -> None:
    two = pg.NamedReleases(counts(260, 260), [HIT])
    q = float(pg.certify_releases({"t": two}).evidence["t"].violation_pvalues[0, 0])
    for beta, decision in ((2 * Fraction(q), VIOLATION), (2 * below(q), UNRESOLVED)):
        verdicts = pg.certify_releases({"t": two}, beta=beta).verdicts
        assert [v.decision for v in verdicts] == [decision] * 2


def test_holm_over_mechanisms_rejects_on_its_level() -> None:
    family = {"a": counts(*[150] * 20), "b": counts(*[150] * 20)}
    choices: dict[str, Any] = {"reliability_target": 0.8, "threshold": "0.001", "beta": None}
    p = pg.certify(family, [HIT], **choices)["a"].lower.pvalue
    assert p is not None
    assert p < 0.02
    on = pg.certify(family, [HIT], alpha=2 * Fraction(p), **choices)
    assert set(on.decisions.values()) == {VALIDATED}
    assert on["a"].adjusted_pvalue == 2 * p
    under = pg.certify(family, [HIT], alpha=2 * below(p), **choices)
    assert set(under.decisions.values()) == {UNRESOLVED}


def test_a_round_of_the_stream_validates_on_its_level(monkeypatch: pytest.MonkeyPatch) -> None:
    def judge(level: float | None) -> Any:
        if level is not None:
            monkeypatch.setattr(stream_module, "spending_level", lambda number, *, alpha: level)
        stream = pg.CandidateStream([HIT], seed=1)
        return stream.submit(counts(160)[0], pg.Records(ids=np.arange(1000)))

    p = judge(None).pvalue
    assert judge(p).decision is VALIDATED
    assert judge(float(np.nextafter(p, 0.0))).decision is UNRESOLVED


@pytest.mark.parametrize(
    "choices",
    [
        {"threshold": "0.001"},
        {"threshold": "0.001", "bound": "paper"},
        {"threshold": "0.001", "bound": "rescaled"},
        {"score": "slack"},
        {"mode": "named"},
        {"mode": "count", "threshold": "0.001"},
    ],
    ids=str,
)
def test_validated_means_a_bound_strictly_above_the_target(choices: dict[str, Any]) -> None:
    values = counts(*[130] * 60)
    bound = certify(values, **choices).reliability_lower
    assert 0.5 < bound < 1.0
    on = certify(values, **(choices | {"reliability_target": Fraction(bound)}))
    assert on.reliability_lower == on.reliability_target == bound
    assert on.decision is UNRESOLVED
    under = certify(values, **(choices | {"reliability_target": below(bound)}))
    assert under.decision is VALIDATED


@pytest.mark.parametrize(
    "choices",
    [
        {"violation_threshold": "0.001"},
        {"mode": "named"},
        {"mode": "count", "violation_threshold": "0.001"},
    ],
    ids=str,
)
def test_a_violation_means_a_bound_strictly_below_the_target(choices: dict[str, Any]) -> None:
    values = counts(*[300] * 60)
    bound = certify(values, **choices).reliability_upper
    assert 0.0 < bound < 0.5
    on = certify(values, **(choices | {"reliability_target": Fraction(bound)}))
    assert on.reliability_upper == on.reliability_target == bound
    assert on.decision is UNRESOLVED
    above = Fraction(float(np.nextafter(bound, 1.0)))
    over = certify(values, **(choices | {"reliability_target": above}))
    assert over.decision is VIOLATION


@pytest.mark.parametrize(
    "test", ["empirical_bernstein", "binomial", "betting", "bentkus", "betting_fixed"]
)
def test_a_failed_draw_stays_in_the_denominator(test: str) -> None:
    good = counts(*[100] * 40)
    failed = np.concatenate([good, np.full((2, 1000, 1), HIT.high)])
    with_failures = certify(failed, test=test, threshold="0.001")
    without = certify(good, test=test, threshold="0.001")
    assert np.all(with_failures.evidence.pvalues[-2:] == 1.0)
    seen = steps(with_failures)
    assert (seen["favorable scores"], seen["releases"]) == (40, 42)
    assert with_failures.reliability_lower < without.reliability_lower
    named = certify(failed, test=test, mode="named")
    assert named.lower.steps == (("recognized releases (Holm)", 40), ("releases", 42))


def test_a_failed_relative_draw_has_its_regret_at_the_upper_bound() -> None:
    relative = pg.Requirement(name="regret", low=-1, high=1, limit=0.05, form="relative")
    values = np.concatenate([np.full((9, 300, 1), -0.1), np.full((1, 300, 1), relative.high)])
    evidence = certify(values, relative).evidence
    assert evidence.pvalues[-1, 0] == 1.0
    assert evidence.estimates[-1, 0] == 1.0
    assert evidence.n_releases == 10


def test_a_failed_draw_has_pvalue_one_under_empirical_bernstein() -> None:
    evidence = pg.certify(
        np.ones((2, 50, 1)), [LOSS], test="empirical_bernstein", reliability_target=0.5
    ).evidence
    assert np.all(evidence.pvalues == 1.0)


def test_a_mean_on_its_cutoff_scores_in_proportional_strata() -> None:
    values = np.zeros((3, 1000, 1))
    for r, k in enumerate((157, 158, 159)):
        values[r, np.random.default_rng(r).choice(1000, k, replace=False)] = 1.0
    certificate = pg.certify(
        values,
        [HIT],
        score="slack",
        design=pg.Stratified(sizes={"a": 700, "b": 300}, weights={"a": "0.7", "b": "0.3"}),
        records=pg.Records(strata=np.repeat(["a", "b"], [700, 300])),
        reliability_target=0.8,
    )
    assert certificate.lower.steps[0][1] == 2


TIES = {  # values whose mean is the cutoff, as they are written
    "tenths": ([0.1, 0.2, 0.3], 0.2),
    "thirds": ([1 / 3, 2 / 3, 0.0, 1.0], 0.5),
    "hundredths": ([0.07, 0.13, 0.29, 0.31], 0.2),
    "signed": ([-0.7, 0.1, 0.2, 0.8], 0.1),
    "sevenths": ([k / 7 for k in range(7)], 3 / 7),
}


def favorable(given: Any, requirement: pg.Requirement, **choices: Any) -> float:
    choices = {"score": "slack", "test": "bentkus"} | choices
    return steps(certify(given, requirement, **choices))["favorable scores"]


def on_cutoff(cutoff: float, low: float) -> pg.Requirement:
    return pg.Requirement(name="tie", low=low, high=1, limit=cutoff + 0.125, slack=0.125)


def in_chunks(values: NDArray[np.float64], size: int) -> pg.LossStream:
    parts = [values[:, i : i + size] for i in range(0, values.shape[1], size)]
    return pg.LossStream(
        chunks=parts, n_releases=len(values), n_records=values.shape[1], n_requirements=1
    )


@pytest.mark.parametrize(("terms", "cutoff"), TIES.values(), ids=TIES)
def test_a_tie_is_included_in_every_order_of_the_records(terms: list[float], cutoff: float) -> None:
    low = -1 if min(terms) < 0 else 0
    orders = np.array(list(permutations(terms))[:5040])[:, :, None]
    assert favorable(orders, on_cutoff(cutoff, low)) == len(orders)
    above = orders.copy()
    above[:, 0] += 1e-9
    assert favorable(above[above[:, 0, 0] <= 1.0], on_cutoff(cutoff, low)) == 0


@settings(max_examples=25, deadline=None)
@given(
    st.sampled_from(sorted(TIES)), st.integers(1, 400), st.integers(1, 50), st.integers(0, 2**32)
)
def test_a_tie_is_included_however_the_records_fall_into_chunks(
    kind: str, copies: int, size: int, seed: int
) -> None:
    terms, cutoff = TIES[kind]
    rng = np.random.default_rng(seed)
    values = np.stack([rng.permutation(np.tile(terms, copies)) for _ in range(4)])[:, :, None]
    requirement = on_cutoff(cutoff, -1 if min(terms) < 0 else 0)
    assert favorable(values, requirement) == 4
    assert favorable(in_chunks(values, size), requirement) == 4


@pytest.mark.parametrize("size", [29, 977, 99_999])
def test_a_hundred_thousand_thirds_are_on_their_cutoff_in_any_chunks(size: int) -> None:
    rng = np.random.default_rng(5)
    values = rng.permutation(np.tile([0.1, 0.2, 0.3], 33_333))[None, :, None]
    assert favorable(in_chunks(values, size), on_cutoff(0.2, 0)) == 1


def test_order_and_chunks_do_not_change_a_bit_of_a_mean() -> None:
    rng = np.random.default_rng(6)
    values = rng.random((3, 700, 1))
    first = certify(values, LOSS).evidence.estimates
    for size in (1, 13, 700):
        shuffled = values[:, rng.permutation(700)]
        again = certify(in_chunks(shuffled, size), LOSS, test="bentkus").evidence.estimates
        np.testing.assert_array_equal(again, first)


@pytest.mark.parametrize("seed", range(5))
def test_a_tie_is_included_in_strata_with_other_weights(seed: int) -> None:
    # 0.3 * 0.1 + 0.7 * mean(.1, .2, .3) = 0.17
    rng = np.random.default_rng(seed)
    values = np.concatenate([np.full(90, 0.1), np.tile([0.1, 0.2, 0.3], 300)])
    strata = np.repeat(["a", "b"], [90, 900])
    order = rng.permutation(990)
    certificate = pg.certify(
        values[order][None, :, None],
        [on_cutoff(0.17, 0)],
        score="slack",
        design=pg.Stratified(sizes={"a": 90, "b": 900}, weights={"a": "0.3", "b": "0.7"}),
        records=pg.Records(strata=strata[order]),
        reliability_target=0.8,
    )
    assert certificate.lower.steps[0][1] == 1


def test_a_tie_is_included_over_clusters() -> None:
    rng = np.random.default_rng(2)
    values = np.stack([np.tile(rng.permutation([0.1, 0.2, 0.3]), 30) for _ in range(12)])
    certificate = pg.certify(
        values[:, :, None],
        [on_cutoff(0.2, 0)],
        score="slack",
        design=pg.Clustered(),
        records=pg.Records(clusters=np.repeat(np.arange(30), 3)),
        reliability_target=0.8,
    )
    assert certificate.lower.steps[0][1] == 12


def test_a_tie_of_a_mean_computed_elsewhere_is_included() -> None:
    values = np.array(list(permutations([0.1, 0.2, 0.3])))
    means = np.array([[sum(row) / 3] for row in values.tolist()])
    assert len({float(mean) for mean in means[:, 0]}) > 1  # the order has left its mark
    assert favorable(pg.Moments(n=3, mean=means), on_cutoff(0.2, 0)) == 6


def test_blocks_on_their_cutoff_witness_in_every_order() -> None:
    values = np.array(list(permutations([0.1, 0.2, 0.3])))[:, :, None]
    certificate = certify(
        values, on_cutoff(0.2, 0), mode="block", block_size=3, beta=None, alpha="0.4"
    )
    assert steps(certificate)["mean witness"] == 1.0


def test_the_planner_scores_a_tie_as_the_certificate_does() -> None:
    assert [most_at_cutoff(0.2, n) for n in (3, 5, 10, 1000)] == [0, 1, 2, 200]
    requirement = on_cutoff(0.2, 0)
    orders = np.array(list(permutations([0.1, 0.2, 0.3])))
    means = orders.cumsum(axis=1)[:, -1:] / 3
    assert slack_scores([requirement], means).all()


@pytest.mark.parametrize("low", [-64, -1, 0, 3, 63])
def test_a_tie_is_included_wherever_a_range_with_a_slack_may_lie(low: int) -> None:
    tie = pg.Requirement(name="tie", low=low, high=low + 1, limit=low + 0.375, slack=0.175)
    values = np.array(list(permutations([low + 0.1, low + 0.2, low + 0.3])))[:, :, None]
    assert favorable(values, tie) == 6
    assert favorable(np.tile(values, (1, 400, 1)), tie) == 6
    assert favorable(values + 1e-9, tie) == 0


def test_a_slack_is_refused_where_doubles_cannot_tell_a_tie() -> None:
    with pytest.raises(pg.RegistryError, match="cannot be told from one above"):
        pg.Requirement(name="far", low=1000, high=1001, limit=1000.3, slack=0.1)


@pytest.mark.parametrize(("terms", "limit"), TIES.values(), ids=TIES)
def test_an_estimate_on_its_limit_is_that_limit_in_every_order(
    terms: list[float], limit: float
) -> None:
    low = -1 if min(terms) < 0 else 0
    on = pg.Requirement(name="tie", low=low, high=1, limit=limit)
    orders = np.array(list(permutations(terms))[:720])[:, :, None]
    estimates = certify(orders, on, test="bentkus").evidence.estimates
    assert np.all(estimates == limit)  # a reader who counts estimates below the limit finds none
