"""One call: every mode and bound, against the certificate's own formula."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import beta

import proxyguard as pg
from proxyguard.certificate import wording
from proxyguard.evidence.releases import ReleaseEvidence
from proxyguard.exact.multiplicity import Dependence, holm
from proxyguard.exact.sharp import default_threshold, sharp_lower
from proxyguard.modes.block import certify_block, score_by_block
from proxyguard.modes.collective import certify_collective
from proxyguard.modes.count import (
    ValidCount,
    calibrated_evalues,
    capital_evalues,
    certify_count,
    certify_count_violation,
    violation_evalues,
)
from proxyguard.modes.direct import (
    certify_direct,
    certify_rescaled,
    certify_sharp,
    score_by_pvalue,
    score_by_slack,
)
from proxyguard.modes.evidence import ReliabilityBound
from proxyguard.modes.hybrid import certify_hybrid
from proxyguard.modes.named import certify_named
from proxyguard.modes.smooth import (
    certify_smooth,
    certify_smooth_rescaled,
    certify_smooth_sharp,
    score_by_ramp,
)
from proxyguard.modes.violation import certify_direct_violation, certify_violation, score_violations
from proxyguard.registry import budget as budgets
from proxyguard.registry.test import Bound

ERROR = pg.Requirement(
    name="error", low=0, high=1, limit=0.2, two_valued=True, slack=0.08, ramp=0.04
)
COST = pg.Requirement(name="cost", low=-1, high=1, limit=0.1, slack=0.08, ramp=0.04)
REQUIREMENTS = [ERROR, COST]
R, N = 60, 800
DIRECT, NAMED = budgets.direct_budget("0.05"), budgets.named_budget("0.05")
SHARP = budgets.sharp_budget("0.05")
HALF = Fraction(1, 40)


def losses(rate: float = 0.06, seed: int = 41) -> NDArray[np.float64]:
    """Sixty releases, four of which fail badly."""
    rng = np.random.default_rng(seed)
    rates = np.where(np.arange(R) < 4, 0.5, rate)[:, None]
    error = (rng.random((R, N)) < rates).astype(float)
    cost = np.clip(rng.normal(rates - 0.1, 0.2, (R, N)), -1, 1)
    return np.stack([error, cost], axis=2)


def batches() -> pg.LossBatches:
    """The same releases, each said to have its own records."""
    return pg.LossBatches([pg.LossArray(one[None]) for one in losses()])


def certify(given: Any = None, **choices: Any) -> pg.Certificate:
    choices = {"reliability_target": 0.8, "seed": 6} | choices
    if given is None:
        given = batches() if choices.get("mode") == "collective" else losses()
    return pg.certify(given, REQUIREMENTS, **choices)


def smooth(evidence: ReleaseEvidence) -> Any:
    return score_by_ramp(evidence)


def count(evalues: Any, alpha: Fraction = HALF) -> ValidCount:
    return ValidCount(releases=tuple(map(str, range(R))), evalues=evalues, alpha=alpha)


T = 0.002
# The choices of a caller, and the bound by hand from the evidence they gave.
BY_HAND: list[tuple[dict[str, Any], Any]] = [
    (
        {"threshold": T},
        lambda e: certify_sharp(score_by_pvalue(e, threshold=T), SHARP, reliability_target=0.8),
    ),
    (
        {},
        lambda e: certify_sharp(
            score_by_pvalue(e, threshold=default_threshold(R, target=0.8, alpha=0.05) or 0),
            SHARP,
            reliability_target=0.8,
        ),
    ),
    (
        {"bound": "rescaled", "threshold": T},
        lambda e: certify_rescaled(score_by_pvalue(e, threshold=T), DIRECT),
    ),
    (
        {"bound": "paper", "threshold": T, "target_share": "0.9"},
        lambda e: certify_direct(
            score_by_pvalue(e, threshold=T), budgets.direct_budget("0.05", target_share="0.9")
        ),
    ),
    (
        {"score": "slack"},
        lambda e: certify_sharp(
            score_by_slack(e, bound=Bound.SHARP), SHARP, reliability_target=0.8
        ),
    ),
    (
        {"score": "slack", "bound": "rescaled"},
        lambda e: certify_rescaled(score_by_slack(e, bound=Bound.RESCALED), DIRECT),
    ),
    (
        {"score": "slack", "bound": "paper"},
        lambda e: certify_direct(score_by_slack(e, bound=Bound.PAPER), DIRECT),
    ),
    ({"mode": "named"}, lambda e: certify_named(e, NAMED, reliability_target=0.8)),
    (
        {"mode": "hybrid", "threshold": T},
        lambda e: certify_hybrid(
            certify_named(e, budgets.named_budget("0.025"), reliability_target=0.8),
            certify_sharp(
                score_by_pvalue(e, threshold=T),
                budgets.sharp_budget("0.025"),
                reliability_target=0.8,
            ),
            alpha="0.05",
        ),
    ),
    (
        {"mode": "hybrid", "bound": "paper", "threshold": T, "named_share": "0.2"},
        lambda e: certify_hybrid(
            certify_named(e, budgets.named_budget("0.01"), reliability_target=0.8),
            certify_direct(score_by_pvalue(e, threshold=T), budgets.direct_budget("0.04")),
            alpha="0.05",
        ),
    ),
    (
        {"mode": "smooth"},
        lambda e: certify_smooth_sharp(smooth(e), SHARP, reliability_target=0.8),
    ),
    (
        {"mode": "smooth", "bound": "rescaled"},
        lambda e: certify_smooth_rescaled(smooth(e), DIRECT),
    ),
    ({"mode": "smooth", "bound": "paper"}, lambda e: certify_smooth(smooth(e), DIRECT)),
    (
        {"mode": "block", "block_size": 40},
        lambda e: certify_block(score_by_block(e, block_size=40), SHARP),
    ),
    (
        {"mode": "collective", "dependence": "prds"},
        lambda e: certify_collective(e, NAMED, reliability_target=0.8, dependence=Dependence.PRDS),
    ),
    (
        {"mode": "collective", "dependence": "independent", "combination": "fisher"},
        lambda e: certify_collective(
            e,
            NAMED,
            reliability_target=0.8,
            dependence=Dependence.INDEPENDENT,
            combination="fisher",
        ),
    ),
    (
        {"mode": "count", "threshold": "0.002"},
        lambda e: certify_count(
            count(calibrated_evalues(e, thresholds=[Fraction(1, 500)])),
            DIRECT,
            reliability_target=0.8,
        ),
    ),
    (
        {"mode": "count", "thresholds": ["0.001", "0.01"]},
        lambda e: certify_count(
            count(calibrated_evalues(e, thresholds=[Fraction(1, 1000), Fraction(1, 100)])),
            DIRECT,
            reliability_target=0.8,
        ),
    ),
    (
        {"mode": "count", "calibrator": "capital", "test": "betting"},
        lambda e: certify_count(count(capital_evalues(e)), DIRECT, reliability_target=0.8),
    ),
]


@pytest.mark.parametrize(("choices", "by_hand"), BY_HAND, ids=[str(c) for c, _ in BY_HAND])
def test_every_mode_gives_what_its_certificate_gives_by_hand(
    choices: dict[str, Any], by_hand: Any
) -> None:
    certificate = certify(**choices)
    expected: ReliabilityBound = by_hand(certificate.evidence)
    assert certificate.lower.value == pytest.approx(expected.value, rel=1e-12)
    assert certificate.lower.rests_on == expected.rests_on
    assert certificate.lower.budget.total == Fraction(1, 20)
    assert [p.symbol for p in certificate.lower.budget.parts] == [
        p.symbol for p in expected.budget.parts
    ]
    assert dict(certificate.lower.steps) == pytest.approx(dict(expected.steps), rel=1e-12)
    assert certificate.reliability_lower == certificate.lower.value
    validated = certificate.lower.value > 0.8
    assert certificate.decision is (pg.Decision.VALIDATED if validated else pg.Decision.UNRESOLVED)


def test_the_modes_compared_above_reach_both_decisions() -> None:
    seen = {certify(**choices).decision for choices, _ in BY_HAND}
    assert seen == {pg.Decision.VALIDATED, pg.Decision.UNRESOLVED}


VIOLATIONS: list[tuple[dict[str, Any], Any]] = [
    (
        {"violation_threshold": T},
        lambda e: certify_direct_violation(
            score_violations(e, threshold=T),
            budgets.direct_violation_budget("0.05"),
            reliability_target=0.8,
        ),
    ),
    (
        {"mode": "named"},
        lambda e: certify_violation(
            holm(e.violation_pvalues.ravel(), alpha=0.025).reshape(R, 2),
            budgets.violation_budget("0.05"),
            reliability_target=0.8,
        ),
    ),
    (
        {"mode": "hybrid", "beta": "0.1"},
        lambda e: certify_violation(
            holm(e.violation_pvalues.ravel(), alpha=0.05).reshape(R, 2),
            budgets.violation_budget("0.1"),
            reliability_target=0.8,
        ),
    ),
    (
        {"mode": "count", "violation_threshold": "0.002"},
        lambda e: certify_count_violation(
            violation_evalues(e, thresholds=[Fraction(1, 500)]),
            budgets.count_violation_budget("0.05"),
            reliability_target=0.8,
        ),
    ),
]


@pytest.mark.parametrize(("choices", "by_hand"), VIOLATIONS, ids=[str(c) for c, _ in VIOLATIONS])
def test_violations_are_bounded_as_by_hand(choices: dict[str, Any], by_hand: Any) -> None:
    certificate = certify(losses(rate=0.3), **choices)
    expected: ReliabilityBound = by_hand(certificate.evidence)
    assert certificate.upper is not None
    assert certificate.upper.value == pytest.approx(expected.value, rel=1e-12)
    assert certificate.upper.rests_on == expected.rests_on
    assert certificate.reliability_upper == certificate.upper.value < 0.8
    assert certificate.decision is pg.Decision.VIOLATION


def test_the_sharp_default_from_the_scores_alone() -> None:
    # No evidence object: the count of small p-values and theory 2's formula.
    certificate = certify(threshold="0.004", test="bentkus")
    favorable = int((certificate.evidence.pvalues.max(axis=1) <= 0.004).sum())
    assert favorable == 56
    assert certificate.reliability_lower == sharp_lower(favorable, R, kappa=0.004, alpha=0.05)
    assert certificate.claim.mode == "direct"
    assert certificate.claim.bound.value == "sharp"


def test_the_named_default_from_the_scores_alone() -> None:
    certificate = certify(mode="named", test="bentkus")
    p = np.sort(certificate.evidence.pvalues.max(axis=1))
    passes = p <= 0.025 / np.arange(R, 0, -1)
    recognized = int(np.logical_and.accumulate(passes).sum())
    assert recognized == 56
    # scipy's beta quantile is the Clopper-Pearson limit.
    assert certificate.reliability_lower == pytest.approx(
        beta.ppf(0.025, recognized, R - recognized + 1), rel=1e-9
    )


def test_sharp_is_at_least_rescaled_at_least_the_papers() -> None:
    for share in ("0.1", "0.5", "0.9"):
        sharp, rescaled, paper = (
            certify(bound=b, threshold=T, target_share=share).reliability_lower
            for b in ("sharp", "rescaled", "paper")
        )
        assert sharp >= rescaled >= paper > 0.4


def test_without_beta_there_is_no_violation_direction() -> None:
    certificate = certify(losses(rate=0.3), beta=None)
    assert certificate.upper is None
    assert certificate.reliability_upper == 1.0
    assert certificate.decision is pg.Decision.UNRESOLVED
    assert certificate.joint_coverage == Fraction(19, 20)


DESIGNS = [
    (pg.Iid(), "betting"),
    (pg.Stratified(sizes={"a": 400, "b": 400}, weights={"a": "1/2", "b": "1/2"}), "bentkus"),
    (pg.Stratified(sizes={"a": 400, "b": 400}, weights={"a": "1/4", "b": "3/4"}), "betting_fixed"),
]


@pytest.mark.parametrize(("design", "test"), DESIGNS, ids=[t for _, t in DESIGNS])
def test_the_default_test_never_follows_from_the_values(design: Any, test: str) -> None:
    # Losses that happen to be 0 and 1, declared bounded only.
    plain = pg.Requirement(name="error", low=0, high=1, limit=0.2)
    values = losses()[:, :, :1]
    assert set(np.unique(values)) == {0.0, 1.0}
    strata = np.repeat(["a", "b"], 400) if isinstance(design, pg.Stratified) else None
    records = pg.Records(strata=strata)
    kwargs: dict[str, Any] = {"design": design, "records": records, "reliability_target": 0.8}
    certificate = pg.certify(values, [plain], **kwargs)
    assert [t.value for t in certificate.evidence.tests] == [test]
    assert certificate.to_dict()["tests"] == {"error": test}
    declared = pg.certify(values, [ERROR], **kwargs)
    two_valued = "betting_fixed" if test == "betting_fixed" else "binomial"
    assert [t.value for t in declared.evidence.tests] == [two_valued]


def test_tests_may_differ_between_requirements() -> None:
    mixed = certify(test={"error": "binomial", "cost": "empirical_bernstein"}).evidence
    alone = certify(test={"error": "bentkus", "cost": "empirical_bernstein"}).evidence
    np.testing.assert_array_equal(mixed.pvalues[:, 1], alone.pvalues[:, 1])
    assert np.any(mixed.pvalues[:, 0] < alone.pvalues[:, 0])


@pytest.mark.parametrize(
    "choices",
    [
        {"test": "betting"},
        {"test": "randomized_binomial"},
        {"mode": "smooth"},
        {"mode": "block", "block_size": 40},
    ],
    ids=str,
)
def test_the_same_seed_gives_the_same_certificate_and_is_recorded(choices: dict[str, Any]) -> None:
    free = certify(**choices, seed=None)
    seed = free.evidence.reading.seed
    assert free.to_dict()["seed"] == seed
    assert f"(seed {seed}, drawn afresh)" in str(free)
    again = certify(**choices, seed=seed)
    # Only who chose the seed differs.
    assert free.to_dict()["seed_given_by_caller"] is False
    assert again.to_dict() == free.to_dict() | {"seed_given_by_caller": True}
    assert str(again) == str(free).replace("drawn afresh", "given by the caller")
    # A seed that is not given is fresh: of two calls not both can have the same.
    assert certify(**choices, seed=None).evidence.reading.seed != seed


@pytest.mark.parametrize("test", ["betting", "randomized_binomial"])
def test_another_seed_is_another_order_or_other_uniforms(test: str) -> None:
    a, b = (certify(test=test, seed=s).evidence.pvalues for s in (1, 2))
    assert not np.array_equal(a, b)


def test_the_uniforms_of_randomized_binomial_are_shared_by_releases_and_mechanisms() -> None:
    one = losses()[:1]
    family = pg.certify(
        {"a": np.repeat(one, 2, axis=0), "b": np.repeat(one, 3, axis=0)},
        REQUIREMENTS,
        test="randomized_binomial",
        reliability_target=0.8,
        seed=5,
    )
    both = np.concatenate([family["a"].evidence.pvalues, family["b"].evidence.pvalues])
    assert np.all(both == both[0])


def test_an_impossible_threshold_is_noted_and_not_hidden() -> None:
    certificate = pg.certify(losses()[4:14], REQUIREMENTS, reliability_target=0.8)
    assert certificate.decision is pg.Decision.UNRESOLVED
    assert "10 release(s) cannot validate" in certificate.notes[0]
    assert "10 release(s) cannot validate" in str(certificate)


def test_separate_batches_belong_to_collective_mode() -> None:
    values = losses()
    given = pg.LossBatches([pg.LossArray(values[r : r + 1, : 700 + r]) for r in range(R)])
    for mode in ("direct", "named", "hybrid", "count"):
        with pytest.raises(pg.UnsupportedDesign, match="separate batches"):
            certify(given, mode=mode)
    certificate = certify(given, mode="collective", dependence="independent", test="bentkus")
    assert certificate.evidence.pvalues.shape == (R, 2)
    for r in (0, 7, 59):
        alone = certify(values[r : r + 1, : 700 + r], test="bentkus", threshold=T).evidence
        np.testing.assert_array_equal(certificate.evidence.pvalues[r], alone.pvalues[0])
    by_hand = certify_collective(
        certificate.evidence, NAMED, reliability_target=0.8, dependence=Dependence.INDEPENDENT
    )
    assert certificate.lower == by_hand
    assert by_hand.steps[0][1] == 56


@pytest.mark.parametrize(
    "shared",
    [
        losses(),
        pg.LossArray(losses(), pg.Records(ids=np.arange(N))),
        pg.LossStream(chunks=[losses()], n_releases=R, n_records=N, n_requirements=2),
    ],
    ids=["array", "array with ids", "stream"],
)
@pytest.mark.parametrize("dependence", ["independent", "prds"])
def test_releases_on_one_shared_target_are_not_independent(shared: Any, dependence: str) -> None:
    with pytest.raises(pg.UnsupportedDesign, match="one shared target"):
        certify(shared, mode="collective", dependence=dependence, test="bentkus")


def test_simes_recognizes_at_least_what_holm_does() -> None:
    moments = pg.Moments(n=N, mean=losses().mean(axis=1))
    named = certify(moments, mode="named", test="bentkus").lower.steps[0][1]
    for dependence in ("prds", "independent"):
        simes = certify(moments, mode="collective", dependence=dependence, test="bentkus")
        assert simes.lower.steps[0][1] >= named > 0


def test_plain_arrays_records_and_typed_losses_agree() -> None:
    ids = np.arange(N)
    a = certify(records=pg.Records(ids=ids))
    b = certify(pg.LossArray(losses(), pg.Records(ids=ids)))
    assert a.to_dict() == b.to_dict()


def test_a_conflict_of_the_two_bounds_is_unresolved_and_says_why() -> None:
    # Rows called random that are not: betting then finds both directions.
    drift = np.ones((R, 1500, 1))
    drift[:, :80] = 0.0
    plain = pg.Requirement(name="x", low=0, high=1, limit=0.5)
    certificate = pg.certify(
        drift, [plain], records=pg.Records(random_order=True), reliability_target=0.5
    )
    assert certificate.lower.value > 0.5 > certificate.reliability_upper
    assert certificate.decision is pg.Decision.UNRESOLVED
    assert wording.CONFLICT in certificate.notes
    assert "the two directions contradict each other" in str(certificate)
    assert wording.CONFLICT not in certify().notes


def test_bounds_that_cross_on_one_side_of_the_target_are_a_conflict_too() -> None:
    # Half the releases drift as above: L is about .95, U about .6, and the target .3.
    drift = np.zeros((R, 1500, 1))
    drift[: R // 2, 80:] = 1.0
    plain = pg.Requirement(name="x", low=0, high=1, limit=0.5)
    certificate = pg.certify(
        drift, [plain], records=pg.Records(random_order=True), reliability_target=0.3
    )
    assert certificate.reliability_lower > certificate.reliability_upper > 0.3
    assert certificate.decision is pg.Decision.UNRESOLVED
    assert certificate.notes == (wording.CONFLICT,)
