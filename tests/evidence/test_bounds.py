"""The limits that belong to a decision: the registered test turned around, at its own level."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import beta, binom

import proxyguard as pg
from proxyguard.errors import UnsupportedDesign
from proxyguard.evidence.releases import ReleaseEvidence
from proxyguard.exact.mean import bentkus_pvalue
from proxyguard.registry.test import ComponentTest

REQUIREMENTS = [
    pg.Requirement(name="error", low=0, high=1, limit=0.2, two_valued=True, slack=0.05, ramp=0.05),
    pg.Requirement(name="cost", low=-1, high=3, limit=0.1, slack=0.05, ramp=0.2),
]
R, N = 25, 600
STRATA = np.repeat(["a", "b"], [400, 200])
DESIGNS: dict[str, dict[str, Any]] = {
    "iid": {},
    "pool": {"design": pg.WithoutReplacement(pool=5000)},
    "strata": {
        "design": pg.Stratified(sizes={"a": 400, "b": 200}, weights={"a": "0.3", "b": "0.7"}),
        "records": pg.Records(strata=STRATA),
    },
}


def losses(low: float = 0.02, high: float = 0.3) -> NDArray[np.float64]:
    rng = np.random.default_rng(31)
    error = (rng.random((R, N)) < np.linspace(low, high, R)[:, None]).astype(float)
    cost = np.clip(rng.beta(2, 5, (R, N)) * 2.0 - np.linspace(0.8, 0.3, R)[:, None], -1, 3)
    return np.stack([error, cost], axis=2)


def certify(given: Any = None, **choices: Any) -> pg.Certificate:
    choices = {"reliability_target": 0.5, "seed": 2} | choices
    if given is None:
        given = losses()
        if choices.get("mode") == "collective":
            given = pg.LossBatches([pg.LossArray(one[None]) for one in given])
    return pg.certify(given, REQUIREMENTS, **choices)


def assert_they_agree(evidence: ReleaseEvidence, level: float, violation_level: float) -> None:
    """See that limits lie on the side of the registered one on which the p-values decide."""
    told = evidence.limits(level, violation_level)
    limits = np.array([requirement.limit for requirement in evidence.requirements])
    known = np.isfinite(told.upper)
    np.testing.assert_array_equal(known, np.isfinite(told.lower))
    met, exceeded = evidence.pvalues <= level, evidence.violation_pvalues <= violation_level
    np.testing.assert_array_equal((told.upper <= limits)[known], met[known])
    np.testing.assert_array_equal((told.lower >= limits)[known], exceeded[known])
    # Its own statistics are the reason, and not the comparison alone.
    tolerance = 1e-9
    assert np.all((told.upper >= evidence.estimates - tolerance)[known])
    assert np.all((told.lower <= evidence.estimates + tolerance)[known])


@pytest.mark.parametrize("digits", [None, 3])
@pytest.mark.parametrize("design", DESIGNS)
@pytest.mark.parametrize("test", list(ComponentTest), ids=lambda test: str(test.value))
def test_limits_cross_exactly_where_the_test_decides(
    test: ComponentTest, design: str, digits: int | None
) -> None:
    tests = {"error": test.value, "cost": test.value}
    if test is ComponentTest.BINOMIAL:
        tests["cost"] = "hoeffding"
    try:
        evidence = certify(test=tests, **DESIGNS[design]).evidence
    except UnsupportedDesign:
        pytest.skip("no theorem covers it")
    if digits is not None:
        evidence = evidence_with(evidence, digits)
    known = np.isfinite(evidence.limits(0.01, 0.01).upper)
    assert np.all(known == (not test.bets))
    levels = [0.05, 1e-4, *np.clip(evidence.pvalues[[3, 9, 14], [0, 1, 0]], 1e-200, 0.99)]
    for level in levels:  # at a p-value too: what equals its level is decided
        assert_they_agree(evidence, float(level), 0.02)


def evidence_with(evidence: ReleaseEvidence, digits: int) -> ReleaseEvidence:
    """Return the same evidence with its statistics rounded, as a disclosure has them."""
    from dataclasses import replace

    from proxyguard.evidence.releases import evidence_of

    reading = replace(evidence.reading, digits=digits)
    return evidence_of(evidence.columns, reading, releases=evidence.releases)


def test_limits_of_a_count_are_those_of_clopper_and_pearson() -> None:
    evidence = certify(test={"error": "binomial", "cost": "bentkus"}).evidence
    told = evidence.limits(0.003, 0.02)
    ones = losses()[:, :, 0].sum(axis=1)
    np.testing.assert_allclose(told.upper[:, 0], beta.ppf(1 - 0.003, ones + 1, N - ones), rtol=1e-9)
    np.testing.assert_allclose(told.lower[:, 0], beta.ppf(0.02, ones, N - ones + 1), rtol=1e-9)
    # Of Bentkus' test the p-value passes the level there, and not a little below.
    mean = (losses()[:, :, 1].mean(axis=1) + 1) / 4
    for r in (0, 7, 20):
        v = (told.upper[r, 1] + 1) / 4
        assert bentkus_pvalue(mean[r], N, v + 1e-9) <= 0.003 < bentkus_pvalue(mean[r], N, v - 1e-6)


def test_limits_of_a_share_are_measured_from_the_release_s_own_answer() -> None:
    from proxyguard.evidence.releases import evidence_of
    from proxyguard.losses.cell import Reading, share_column

    count, answer = np.array([60, 130]), np.array([0.28, 0.3])
    cell = pg.Requirement(name="cell", low=-1, high=1, limit=0.1, indicator=True)
    reading = Reading(
        requirements=(cell,), design=pg.Iid(), tests=(ComponentTest.BINOMIAL,), level=0.05,
        violation_level=0.05,
    )  # fmt: skip
    evidence = evidence_of((share_column(200, count, answer),), reading, releases=("a", "b"))
    told = evidence.limits(0.01, 0.01)
    share = answer + told.upper[:, 0]
    np.testing.assert_allclose(binom.cdf(count, 200, share), 0.01, rtol=1e-6)
    assert told.upper[0, 0] < 0.11 < 0.2 < told.lower[1, 0]
    assert_they_agree(evidence, 0.01, 0.01)


def test_named_releases_are_told_apart_at_the_level_at_which_holm_stops() -> None:
    family = {
        "one": pg.NamedReleases(losses(), REQUIREMENTS),
        "two": pg.NamedReleases(losses(0.14, 0.18)[:, :, :1], REQUIREMENTS[:1]),
    }
    made = pg.certify_releases(family, seed=1, alpha="0.2", test="bentkus")
    frame = made.to_frame()
    by_release = frame.groupby(["mechanism", "release"], sort=False)
    met = by_release.apply(lambda rows: bool((rows["upper"] <= rows["limit"]).all()))
    broken = by_release.apply(lambda rows: bool((rows["lower"] >= rows["limit"]).any()))
    decisions = [verdict.decision.value for verdict in made.verdicts]
    assert [d == "validated" for d in decisions] == met.tolist()
    assert [d == "violation" for d in decisions] == broken.tolist()
    assert min(decisions.count(d) for d in ("validated", "unresolved", "violation")) > 0
    # At Holm's first level some of the validated would not have been.
    first = made.evidence["two"].limits(0.2 / (2 * R), None)
    assert np.count_nonzero(first.upper <= 0.2) < met[R:].sum()
    assert by_release["decision"].first().tolist() == decisions
    adjusted = by_release["adjusted_pvalue"].first()
    assert [p <= 0.2 for p in adjusted] == met.tolist()


@pytest.mark.parametrize(
    ("choices", "told"),
    [
        ({}, True),
        ({"bound": "paper", "threshold": "0.001"}, True),
        ({"mode": "named"}, True),
        ({"score": "slack"}, False),
        ({"mode": "hybrid"}, False),
        ({"mode": "smooth"}, False),
        ({"mode": "block", "block_size": 60}, False),
        ({"mode": "count"}, False),
        ({"mode": "collective", "dependence": "independent"}, False),
    ],
    ids=str,
)
def test_limits_are_shown_where_p_values_tell_single_releases_apart(
    choices: dict[str, Any], told: bool
) -> None:
    certificate = certify(test="empirical_bernstein", **choices)
    frame = certificate.to_frame()
    assert bool(frame["upper"].notna().all()) is told
    assert bool(frame["upper"].isna().all()) is not told
    if told:
        met = (frame["upper"] <= frame["limit"]).to_numpy().reshape(R, 2).all(axis=1)
        assert int(met.sum()) == certificate.lower.steps[0][1]
