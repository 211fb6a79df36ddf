"""Weights inside clusters, and inside strata: what is tested, and what is asked for (theory 1)."""

from __future__ import annotations

import dataclasses
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import proxyguard as pg
from proxyguard.evidence.record import check_counts, evidence_record
from proxyguard.exact.mean import bentkus_pvalue, hoeffding_pvalue

LOSS = pg.Requirement(name="loss", low=0, high=1, limit=0.3)
RNG = np.random.default_rng(8)
LABELS = np.repeat(np.arange(30), RNG.integers(1, 7, 30))
STRATA = np.where(LABELS < 20, "north", "south")
WEIGHTS = RNG.choice([0.0, 0.5, 2.5], size=LABELS.size)
VALUES = RNG.random((3, LABELS.size)) * 0.5
DESIGN = pg.WeightedClusters(max_weight=18, origin="design")


def evidence(design: Any, test: str, rows: Any = slice(None), **given: Any) -> Any:
    columns = {"clusters": LABELS, "weights": WEIGHTS} | given
    records = pg.Records(**{k: v[rows] for k, v in columns.items()}, random_order=True)
    return pg.certify(
        pg.LossArray(VALUES[:, rows, None], records), [LOSS], design=design,
        reliability_target=0.5, seed=1, test=test,
    ).evidence  # fmt: skip


def by_hand() -> np.ndarray:
    """Y = v + the sum over a cluster of (w/W)(u - v), in fractions."""
    v = Fraction(3, 10)
    rows = [
        [
            v + sum(Fraction(w) / 18 * (Fraction(u) - v)
                    for w, u, c in zip(WEIGHTS.tolist(), row, LABELS.tolist(), strict=True)
                    if c == cluster)
            for cluster in range(30)
        ]
        for row in VALUES.tolist()
    ]  # fmt: skip
    return np.array([[float(y) for y in row] for row in rows])


def test_a_cluster_counts_by_the_excess_of_its_persons() -> None:
    y = by_hand()
    for test, reference in (("hoeffding", hoeffding_pvalue), ("bentkus", bentkus_pvalue)):
        found = evidence(DESIGN, test)
        np.testing.assert_allclose(found.pvalues[:, 0], reference(y.mean(axis=1), 30, 0.3))
        np.testing.assert_allclose(
            found.violation_pvalues[:, 0], reference(1 - y.mean(axis=1), 30, 0.7)
        )
    ratio = (WEIGHTS * VALUES).sum(axis=1) / WEIGHTS.sum()
    np.testing.assert_allclose(found.estimates[:, 0], ratio, rtol=0, atol=1e-12)
    check_counts(evidence_record(found), found.reading, LABELS.size)


def test_the_order_of_records_and_chunks_changes_nothing() -> None:
    whole = evidence(DESIGN, "bentkus")
    np.testing.assert_array_equal(
        evidence(DESIGN, "bentkus", RNG.permutation(LABELS.size)).pvalues, whole.pvalues
    )
    cut = int(np.searchsorted(LABELS, 11))
    chunks = [
        pg.LossArray(
            VALUES[:, rows, None], pg.Records(clusters=LABELS[rows], weights=WEIGHTS[rows])
        )
        for rows in (slice(0, cut), slice(cut, None))
    ]
    stream = pg.LossStream(chunks=chunks, n_releases=3, n_records=LABELS.size, n_requirements=1)
    found = pg.certify(
        stream, [LOSS], design=DESIGN, reliability_target=0.5, seed=1, test="bentkus"
    ).evidence
    np.testing.assert_array_equal(found.pvalues, whole.pvalues)


def test_records_that_are_clusters_of_their_own_are_weighted_records() -> None:
    single: Any = {"clusters": np.arange(LABELS.size)}
    own = evidence(pg.WeightedClusters(max_weight="2.5", origin="design"), "bentkus", **single)
    losses = pg.LossArray(VALUES[:, :, None], pg.Records(weights=WEIGHTS))
    plain = pg.certify(
        losses, [LOSS], design=pg.Weighted(max_weight="2.5", origin="design"),
        reliability_target=0.5, seed=1, test="bentkus",
    ).evidence  # fmt: skip
    np.testing.assert_allclose(own.pvalues, plain.pvalues, rtol=1e-12)


def test_equal_weights_are_records_that_weigh_alike() -> None:
    ones = np.ones(LABELS.size)
    found = evidence(pg.WeightedClusters(max_weight=6, origin="design"), "betting", weights=ones)
    losses = pg.LossArray(VALUES[:, :, None], pg.Records(clusters=LABELS, random_order=True))
    plain = pg.certify(
        losses, [LOSS], design=pg.Clustered(weighting="record", max_size=6),
        reliability_target=0.5, seed=1, test="betting",
    ).evidence  # fmt: skip
    np.testing.assert_allclose(found.pvalues, plain.pvalues, rtol=1e-9)


@pytest.mark.parametrize(
    "shares", [{"north": "2/3", "south": "1/3"}, {"north": "0.1", "south": "0.9"}]
)
def test_strata_may_have_weights_within(shares: dict[str, str]) -> None:
    design = pg.StratifiedClusters(
        sizes={"north": 20, "south": 10}, weights=shares,
        clusters=pg.WeightedClusters(max_weight=18, origin="within strata"),
    )  # fmt: skip
    found = evidence(design, "hoeffding", strata=STRATA)
    omega = {g: float(Fraction(shares[g])) / n for g, n in (("north", 20), ("south", 10))}
    each = np.array([omega[g] for g in STRATA.tolist()]) * WEIGHTS
    ratio = (VALUES * each).sum(axis=1) / each.sum()
    np.testing.assert_allclose(found.estimates[:, 0], ratio, rtol=0, atol=1e-12)
    y = by_hand()
    mean = omega["north"] * y[:, :20].sum(axis=1) + omega["south"] * y[:, 20:].sum(axis=1)
    size = 1 / (20 * omega["north"] ** 2 + 10 * omega["south"] ** 2)
    np.testing.assert_allclose(found.pvalues[:, 0], hoeffding_pvalue(mean, size, 0.3), rtol=1e-9)
    check_counts(evidence_record(found), found.reading, LABELS.size)


def test_a_cluster_that_weighs_more_than_registered_is_named_and_not_shown() -> None:
    heavy = WEIGHTS.copy()
    heavy[LABELS == 7] = 9.25
    first = int(np.flatnonzero(LABELS == 7)[0])
    with pytest.raises(pg.LossMismatch, match=f"cluster of record {first} weighs more than") as no:
        evidence(pg.WeightedClusters(max_weight=9, origin="design"), "bentkus", weights=heavy)
    assert "9.25" not in str(no.value)
    # Ten times a tenth is no more than 1.
    tenth: Any = {"weights": np.full(LABELS.size, 0.1), "clusters": np.arange(LABELS.size) // 10}
    evidence(pg.WeightedClusters(max_weight=1, origin="design"), "bentkus", **tenth)


@pytest.mark.parametrize("labels", range(1, 8))
def test_the_design_that_a_refusal_names_takes_these_labels(labels: int) -> None:
    """One step: whatever labels there are, the first design that is named uses all of them."""
    known = {"strata": STRATA, "clusters": LABELS, "weights": WEIGHTS}
    given = {name: known[name] for k, name in enumerate(known) if labels >> k & 1}
    losses = VALUES[:, :, None]
    with pytest.raises(pg.LossMismatch, match=r"Declare design=") as refused:
        pg.certify(losses, [LOSS], records=pg.Records(**given), reliability_target=0.5)
    named = str(refused.value).split("Declare design=")[1].split(", or leave")[0]
    if ", and as records.clusters" in named:
        given["clusters"] = np.arange(LABELS.size)
    units = LABELS.size if given.get("clusters") is not LABELS else 30
    sizes = {"north": 20, "south": 10} if units == 30 else {
        site: int(np.count_nonzero(site == STRATA)) for site in ("north", "south")
    }  # fmt: skip
    text = named.split(", and as records.clusters")[0]
    text = text.replace("sizes=...", f"sizes={sizes!r}").replace("max_weight=...", "max_weight=18")
    text = text.replace("sampled=...", f"sampled={sizes!r}").replace("weights=...", "weights={}")
    text = text.replace("weights={}", f"weights={sizes!r}")
    names = {k: getattr(pg, k) for k in dir(pg) if k[0].isupper()}
    design = eval(text, names)  # the message of our own, as a person would type it
    certificate = pg.certify(
        losses, [LOSS], design=design, records=pg.Records(**given), reliability_target=0.5, seed=1
    )
    assert certificate.evidence.n_records == (units,)


def test_whom_means_are_about_is_said() -> None:
    text = str(pg.certify(
        pg.LossArray(VALUES[:, :, None], pg.Records(clusters=LABELS, weights=WEIGHTS)), [LOSS],
        design=DESIGN, reliability_target=0.5, seed=1,
    ))  # fmt: skip
    assert "in clusters whose records weigh at most 18 together" in text
    strata = pg.StratifiedClusters(
        sizes={"north": 20, "south": 10}, weights={"north": "1/2", "south": "1/2"},
        clusters=pg.Clustered(weighting="record", max_size=6),
    )  # fmt: skip
    text = str(pg.certify(
        pg.LossArray(VALUES[:, :, None], pg.Records(clusters=LABELS, strata=STRATA)), [LOSS],
        design=strata, reliability_target=0.5, seed=1,
    ))  # fmt: skip
    assert "shares of all clusters" in text


def test_weights_that_count_persons_go_with_what_the_survey_sampled() -> None:
    """Of 9,000 and 1,000 persons 500 each are sampled: the mean per person is 0.095."""
    strata, x = np.repeat(["big", "small"], 500), np.tile(np.arange(20.0) < 1, 50)
    x = np.where(strata == "small", np.tile([0.0, 1.0], 500), x)
    records = pg.Records(
        strata=strata, clusters=np.arange(1000), weights=np.where(strata == "big", 18.0, 2.0)
    )
    survey = {"big": 500, "small": 500}

    def certified(origin: str, **counting: Any) -> Any:
        return pg.certify(
            pg.LossArray(np.tile(x, (2, 1))[:, :, None], records), [LOSS], seed=1,
            reliability_target=0.5, design=pg.StratifiedClusters(
                sizes=survey, clusters=pg.WeightedClusters(max_weight=18, origin=origin),
                **counting,
            ),
        )  # fmt: skip

    certificate = certified("design", sampled=survey)
    assert float(certificate.evidence.estimates[0, 0]) == pytest.approx(0.095)
    assert "clusters that the whole survey sampled, as its author states" in str(certificate)
    assert "shares of all clusters" not in str(certificate)
    # With the population's shares every stratum would count twice: .048 could be validated.
    shares = {"big": Fraction(9, 10), "small": Fraction(1, 10)}
    for old in (shares, {"big": "1/2", "small": "1/2"}):
        with pytest.raises(pg.RegistryError, match=r"sampled = \{ big = \.\.\., small = \.\.\. \}"):
            certified("design", weights=old)
    within = certified("within strata", weights=shares)
    assert "each weight times the registered weight of its stratum" in str(within)
    twice = within.evidence.estimates[0, 0]
    assert float(twice) == pytest.approx((0.9 * 18 * 0.05 + 0.1 * 2 * 0.5) / 16.4)


def test_a_pilot_of_one_stratum_leaves_the_estimate_where_it_is() -> None:
    """The survey sampled 500 of either stratum, and the pilot took 400 of the small one."""
    strata = np.repeat(["big", "small"], [500, 100])
    x = np.where(strata == "big", np.arange(600) % 20 < 1, np.arange(600) % 2 < 1).astype(float)
    records = pg.Records(
        strata=strata, clusters=np.arange(600), weights=np.where(strata == "big", 18.0, 2.0)
    )
    design = pg.StratifiedClusters(
        sizes={"big": 500, "small": 100}, sampled={"big": 500, "small": 500},
        clusters=pg.WeightedClusters(max_weight=18, origin="design"),
    )  # fmt: skip
    found = pg.certify(
        pg.LossArray(np.tile(x, (2, 1))[:, :, None], records), [LOSS], seed=1,
        reliability_target=0.5, design=design,
    ).evidence  # fmt: skip
    assert float(found.estimates[0, 0]) == pytest.approx(0.095)
    assert found.tests[0].value == "betting_fixed"
    check_counts(evidence_record(found), found.reading, 600)


PERSONS = pg.WeightedClusters(max_weight=18, origin="design")


@pytest.mark.parametrize(
    ("counting", "words"),
    [
        ({"sampled": {"a": 5}}, r"sampled names \['a'\]"),
        ({"sampled": {"a": 5, "b": 3}}, r"at least the target's: b 3 \(target 4\)"),
        ({"sampled": {"a": 5, "b": 5.5}}, r"whole numbers .*: b 5\.5"),
        ({"sampled": 5}, "sampled maps strata to numbers"),
        ({"sampled": {"a": 5, "b": 5}, "weights": {"a": "0.6", "b": "0.4"}}, "leave weights out"),
        ({"sampled": {"a": 5, "b": 5}, "weights": {"a": 1, "b": 1}, "clusters": pg.Clustered()},
         "leave sampled out"),
        ({"sampled": {"a": 5, "b": 5}, "weights": {"a": 1, "b": 1},
          "clusters": pg.WeightedClusters(max_weight=1, origin="within strata")},
         "leave sampled out"),
    ],
)  # fmt: skip
def test_what_the_survey_sampled_is_one_fact(counting: dict[str, Any], words: str) -> None:
    with pytest.raises(pg.RegistryError, match=words):
        pg.StratifiedClusters(**{"sizes": {"a": 5, "b": 4}, "clusters": PERSONS} | counting)


def test_a_design_may_be_made_again_from_its_own_fields() -> None:
    design = pg.StratifiedClusters(
        sizes={"a": 5, "b": 4}, sampled={"a": 5, "b": 10}, clusters=PERSONS
    )
    assert dataclasses.replace(design, sizes={"a": 2, "b": 2}).weights["b"] == Fraction(2, 3)


def test_weights_within_strata_are_beside_strata() -> None:
    with pytest.raises(pg.RegistryError, match='beside strata: write origin = "design"'):
        evidence(pg.WeightedClusters(max_weight=18, origin="within strata"), "bentkus")


@pytest.mark.parametrize("bad", [{"max_weight": 0}, {"origin": "calibrated"}, {"max_size": 0}])
def test_a_declaration_that_is_none_is_refused(bad: dict[str, Any]) -> None:
    with pytest.raises(pg.RegistryError):
        pg.WeightedClusters(**{"max_weight": 2, "origin": "design"} | bad)
