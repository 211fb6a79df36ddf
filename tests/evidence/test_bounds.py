"""The simultaneous requirement bounds (studies.md E2): their formula, and they never decide."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.special import rel_entr

import proxyguard as pg

REQUIREMENTS = [
    pg.Requirement(name="error", low=0, high=1, limit=0.2, two_valued=True, slack=0.05, ramp=0.05),
    pg.Requirement(name="cost", low=-1, high=3, limit=0.1, slack=0.05, ramp=0.2),
]
R, N, J = 25, 600, 2


def losses() -> NDArray[np.float64]:
    rng = np.random.default_rng(31)
    error = (rng.random((R, N)) < np.linspace(0.02, 0.19, R)[:, None]).astype(float)
    cost = rng.beta(2, 5, (R, N)) * 2.0 - 0.6
    return np.stack([error, cost], axis=2)


def certify(given: Any = None, **choices: Any) -> pg.Certificate:
    choices = {"reliability_target": 0.5, "seed": 2} | choices
    if given is None:
        given = losses()
        if choices.get("mode") == "collective":
            given = pg.LossBatches([pg.LossArray(one[None]) for one in given])
    return pg.certify(given, REQUIREMENTS, **choices)


@pytest.mark.parametrize(
    ("choices", "delta"),
    [
        ({}, 0.05 / (2 * R * J)),
        ({"alpha": "0.1"}, 0.1 / (2 * R * J)),
        ({"bound": "paper"}, 0.05 / (2 * R * J)),
        ({"mode": "named"}, 0.025 / (2 * R * J)),
        ({"mode": "named", "release_share": "0.2"}, 0.01 / (2 * R * J)),
        ({"bounds_level": "0.001"}, 0.001),
    ],
    ids=str,
)
def test_iid_bounds_are_empirical_bernstein_at_the_registered_level(
    choices: dict[str, Any], delta: float
) -> None:
    evidence = certify(**choices).evidence
    assert evidence.bounds_level == pytest.approx(delta, rel=1e-12)
    assert evidence.bounds_tests == ("empirical_bernstein",) * 2
    values = losses()
    for j, requirement in enumerate(REQUIREMENTS):
        # Maurer and Pontil's inequality on the registered scale, paper Eq. (4).
        x, width = values[:, :, j], requirement.high - requirement.low
        log_term = np.log(2 / delta)
        radius = np.sqrt(2 * x.var(axis=1, ddof=1) * log_term / N)
        radius += 7 * width * log_term / (3 * (N - 1))
        np.testing.assert_allclose(
            evidence.upper[:, j], np.minimum(requirement.high, x.mean(axis=1) + radius), rtol=1e-9
        )
        np.testing.assert_allclose(
            evidence.lower[:, j],
            np.maximum(requirement.low, x.mean(axis=1) - radius),
            rtol=1e-9,
            atol=1e-9,
        )
        np.testing.assert_allclose(evidence.estimates[:, j], x.mean(axis=1), rtol=1e-12)


def test_the_published_level_of_the_magic_tables() -> None:
    # studies.md E2: alpha_R/(2 R J) = .025/360 with 60 releases and three requirements.
    three = [*REQUIREMENTS, pg.Requirement(name="third", low=0, high=1, limit=0.5)]
    certificate = pg.certify(
        np.zeros((60, 20, 3)), three, mode="named", reliability_target=0.8, test="bentkus"
    )
    assert certificate.evidence.bounds_level == pytest.approx(0.025 / 360, rel=1e-12)


def test_bounds_for_strata_with_other_weights_are_weighted_hoeffding() -> None:
    labels = np.repeat(["a", "b"], [400, 200])
    design = pg.Stratified(sizes={"a": 400, "b": 200}, weights={"a": "0.3", "b": "0.7"})
    evidence = certify(design=design, records=pg.Records(strata=labels)).evidence
    assert evidence.bounds_tests == ("hoeffding",) * 2
    weights = np.where(labels == "a", 0.3 / 400, 0.7 / 200)
    size = 1 / (0.3**2 / 400 + 0.7**2 / 200)
    for j, requirement in enumerate(REQUIREMENTS):
        mean = losses()[:, :, j] @ weights
        radius = 4.0 if requirement.name == "cost" else 1.0
        radius *= np.sqrt(np.log(2 * R * J / 0.05) / (2 * size))
        np.testing.assert_allclose(evidence.estimates[:, j], mean, rtol=1e-12)
        np.testing.assert_allclose(
            evidence.upper[:, j], np.minimum(requirement.high, mean + radius), rtol=1e-9
        )


@pytest.mark.parametrize(
    "given", [pg.Moments(n=N, mean=losses().mean(axis=1)), None], ids=["no variance", "pool"]
)
def test_other_bounds_invert_the_bernoulli_divergence(given: Any) -> None:
    design = pg.WithoutReplacement(pool=5000) if given is None else pg.Iid()
    evidence = certify(given, design=design, test="bentkus").evidence
    assert evidence.bounds_tests == ("chernoff",) * 2
    budget = np.log(2 * R * J / 0.05) / N
    for j, requirement in enumerate(REQUIREMENTS):
        width = requirement.high - requirement.low
        m = (losses()[:, :, j].mean(axis=1) - requirement.low) / width
        for limit in (evidence.lower[:, j], evidence.upper[:, j]):
            v = (limit - requirement.low) / width
            divergence = rel_entr(m, v) + rel_entr(1 - m, 1 - v)
            np.testing.assert_allclose(divergence, budget, rtol=1e-6)
    assert np.all(evidence.lower < evidence.estimates)
    assert np.all(evidence.estimates < evidence.upper)


def test_a_family_shares_the_level_of_its_bounds() -> None:
    family = certify({"a": losses(), "b": losses()})
    assert family["a"].evidence.bounds_level == pytest.approx(0.05 / 2 / (2 * R * J), rel=1e-12)


CHOICES: list[dict[str, Any]] = [
    {},
    {"bound": "paper", "threshold": "0.001"},
    {"score": "slack"},
    {"mode": "named"},
    {"mode": "hybrid"},
    {"mode": "smooth"},
    {"mode": "block", "block_size": 60},
    {"mode": "count"},
    {"mode": "collective", "dependence": "independent"},
    {"reliability_target": "0.99"},
]


@pytest.mark.parametrize("choices", CHOICES, ids=str)
def test_the_bounds_never_decide(choices: dict[str, Any]) -> None:
    base = certify(**choices)
    for level in ("0.3", "1e-9"):
        other = certify(bounds_level=level, **choices)
        assert not np.array_equal(other.evidence.upper, base.evidence.upper)
        assert other.decision is base.decision
        assert other.lower == base.lower
        assert other.upper == base.upper
        np.testing.assert_array_equal(other.evidence.pvalues, base.evidence.pvalues)


def test_the_decisions_compared_above_are_not_all_the_same() -> None:
    assert len({certify(**choices).decision for choices in CHOICES}) > 1


def test_bounds_on_named_releases_do_not_decide_either() -> None:
    member = {"table": pg.NamedReleases(losses(), REQUIREMENTS)}
    base = pg.certify_releases(member, seed=1)
    other = pg.certify_releases(member, seed=1, bounds_level="0.4")
    assert base.verdicts == other.verdicts
    assert 0 < len(base.validated) < R
    assert base.evidence["table"].bounds_level == pytest.approx(0.05 / (2 * R * J), rel=1e-12)


def test_the_bounds_hold_simultaneously() -> None:
    # At alpha, over R releases, J requirements and both directions at once.
    rng = np.random.default_rng(32)
    one = [pg.Requirement(name="x", low=0, high=1, limit=0.2)]
    missed = 0
    for _ in range(100):
        evidence = pg.certify(
            rng.beta(1, 9, (10, 50, 1)), one, reliability_target=0.5, alpha="0.2", test="bentkus"
        ).evidence
        missed += bool(np.any((evidence.upper < 0.1) | (evidence.lower > 0.1)))
    assert missed <= 20
