"""Survey weights: what is tested, what is shown, and what is refused (theory section 1)."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import proxyguard as pg
from proxyguard.exact.betting import betting_pvalue
from proxyguard.exact.mean import bentkus_pvalue, hoeffding_pvalue

LOSS = pg.Requirement(name="loss", low=-1, high=3, limit=0.2)
DESIGN = pg.Weighted(max_weight="2.5", origin="design")
RNG = np.random.default_rng(3)
WEIGHTS = RNG.choice([0.0, 0.5, 1.0, 2.5], size=200)
VALUES = RNG.uniform(-1.0, 1.0, size=(4, 200))


def evidence(values: Any = VALUES, weights: Any = WEIGHTS, **choices: Any) -> Any:
    choices = {"design": DESIGN, "reliability_target": 0.5, "seed": 1} | choices
    losses = pg.LossArray(values[:, :, None], pg.Records(weights=weights, random_order=True))
    return pg.certify(losses, choices.pop("rules", [LOSS]), **choices).evidence


def by_hand() -> np.ndarray:
    """Y = v + (w/w_max)(u - v) in fractions, for both directions of test."""
    v = Fraction(12, 40)
    shares = [Fraction(w) / Fraction("2.5") for w in WEIGHTS.tolist()]
    rows = [
        [v + s * ((Fraction(x) + 1) / 4 - v) for s, x in zip(shares, row, strict=True)]
        for row in VALUES.tolist()
    ]
    return np.array([[float(y) for y in row] for row in rows])


def test_pvalues_are_those_of_the_weighted_excess() -> None:
    y = by_hand()
    for test, reference in (("hoeffding", hoeffding_pvalue), ("bentkus", bentkus_pvalue)):
        found = evidence(test=test)
        np.testing.assert_allclose(
            found.pvalues[:, 0], reference(y.mean(axis=1), 200, 0.3), rtol=1e-9
        )
        np.testing.assert_allclose(
            found.violation_pvalues[:, 0], reference(1 - y.mean(axis=1), 200, 0.7), rtol=1e-9
        )
    found = evidence(test="betting", threshold="0.05")
    bet = [betting_pvalue(row, 0.3, level=0.05)[0] for row in y]
    np.testing.assert_allclose(found.pvalues[:, 0], bet, rtol=1e-9)


def test_the_estimate_is_the_mean_per_person() -> None:
    found = evidence()
    ratio = (WEIGHTS * VALUES).sum(axis=1) / WEIGHTS.sum()
    np.testing.assert_allclose(found.estimates[:, 0], ratio, rtol=0, atol=1e-12)


def test_equal_weights_of_the_largest_size_change_nothing() -> None:
    plain = pg.certify(
        pg.LossArray(VALUES[:, :, None], pg.Records(random_order=True)), [LOSS],
        reliability_target=0.5, seed=1,
    ).evidence  # fmt: skip
    weighted = evidence(weights=np.full(200, 2.5))
    np.testing.assert_allclose(weighted.pvalues, plain.pvalues, rtol=1e-12)


def test_weights_in_chunks_and_in_another_order_say_the_same() -> None:
    def part(rows: Any) -> pg.LossArray:
        return pg.LossArray(VALUES[:, rows, None], pg.Records(weights=WEIGHTS[rows]))

    stream = pg.LossStream(
        chunks=[part(slice(0, 70)), part(slice(70, 200))],
        n_releases=4, n_records=200, n_requirements=1,
    )  # fmt: skip
    choices: Any = {"design": DESIGN, "reliability_target": 0.5, "seed": 1, "test": "bentkus"}
    streamed = pg.certify(stream, [LOSS], **choices).evidence
    turned = pg.certify(part(RNG.permutation(200)), [LOSS], **choices).evidence
    whole = evidence(test="bentkus")
    np.testing.assert_array_equal(streamed.pvalues, whole.pvalues)
    np.testing.assert_array_equal(turned.pvalues, whole.pvalues)


def test_a_subgroup_has_the_weights_of_its_own_records() -> None:
    member = RNG.random(200) < 0.3
    group = pg.Requirement(name="loss", low=-1, high=3, limit=0.2, group="few")
    losses = pg.LossArray(VALUES[:, :, None], pg.Records(weights=WEIGHTS, groups={"few": member}))
    found = pg.certify(
        losses, [group], design=DESIGN, reliability_target=0.5, seed=1, test="bentkus"
    ).evidence
    own = pg.LossArray(VALUES[:, member, None], pg.Records(weights=WEIGHTS[member]))
    alone = pg.certify(
        own, [LOSS], design=DESIGN, reliability_target=0.5, seed=1, test="bentkus"
    ).evidence
    np.testing.assert_array_equal(found.pvalues, alone.pvalues)


def test_persons_whom_no_record_represents_are_no_evidence() -> None:
    found = evidence(weights=np.zeros(200), test="hoeffding")
    assert np.all(found.pvalues == 1.0)
    assert np.all(found.violation_pvalues == 1.0)
    assert np.all(found.estimates == 0.2)


@pytest.mark.parametrize(
    ("weights", "words"),
    [
        ([1.0, -3.75], "record 1 has a negative weight"),
        ([1.0, None], "record 1 has no finite weight"),
        ([np.inf, 1.0], "record 0 has no finite weight"),
        ([1.0, "heavy"], "must be numbers"),
        ([1.0, 3.75], "record 1 has a weight above the registered max_weight 2.5"),
    ],
)
def test_a_weight_that_is_none_names_its_record_and_not_itself(weights: Any, words: str) -> None:
    with pytest.raises(pg.LossMismatch, match=words) as caught:
        evidence(values=VALUES[:, :2], weights=weights)
    assert "3.75" not in str(caught.value)
    assert "heavy" not in str(caught.value)


def test_weights_and_designs_without_each_other_are_refused() -> None:
    with pytest.raises(pg.LossMismatch, match=r"Declare design=Weighted\(max_weight"):
        evidence(design=pg.Iid())
    with pytest.raises(pg.LossMismatch, match="one number a record"):
        pg.certify(VALUES[:, :, None], [LOSS], design=DESIGN, reliability_target=0.5)


def test_what_is_not_covered_says_what_is() -> None:
    slack = pg.Requirement(name="loss", low=0, high=1, limit=0.2, slack=0.1)
    (reason,) = pg.supports([slack], design=DESIGN, reliability_target=0.8, score="slack")
    # No slack is asked for where none applies.
    assert pg.supports([LOSS], design=DESIGN, reliability_target=0.8, score="slack") == [reason]
    assert "weighted records are tested through their excess" in reason
    with pytest.raises(
        pg.RegistryError, match=r"design=Clustered\(\) .* as many records times max_weight 2\.5"
    ):
        pg.Question(reliability_target="0.8", n=100, design=DESIGN)
    clusters = pg.WeightedClusters(max_weight=65, origin="design")
    told = r'"betting",\), in strata "betting_fixed", and take'
    with pytest.raises(pg.RegistryError, match=told):
        pg.Question(reliability_target="0.8", n=100, design=clusters)
    strata = pg.StratifiedClusters(
        sizes={"a": 5, "b": 5}, sampled={"a": 5, "b": 5}, clusters=clusters
    )
    with pytest.raises(pg.RegistryError, match=r'tests=\("betting_fixed",\)'):
        pg.Question(reliability_target="0.8", n=100, design=strata)


def test_the_certificate_says_whom_its_means_are_about() -> None:
    losses = pg.LossArray(VALUES[:, :, None], pg.Records(weights=WEIGHTS))
    certificate = pg.certify(losses, [LOSS], design=DESIGN, reliability_target=0.5, seed=1)
    assert (
        "means per person represented, each record counting by its design weight of at most 2.5"
        in (str(certificate))
    )
