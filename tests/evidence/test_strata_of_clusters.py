"""Strata that are sampled by whole clusters (theory section 1)."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import proxyguard as pg
from proxyguard.exact.mean import bentkus_pvalue, hoeffding_pvalue

LOSS = pg.Requirement(name="loss", low=0, high=1, limit=0.3)
RNG = np.random.default_rng(4)
SIZES = RNG.integers(1, 7, size=30)
LABELS = np.repeat(np.arange(30), SIZES)
STRATUM = np.where(np.arange(30) < 20, "north", "south")
STRATA = STRATUM[LABELS]
VALUES = RNG.random((3, LABELS.size)) * 0.4
MEANS = np.stack([VALUES[:, c == LABELS].mean(axis=1) for c in range(30)], axis=1)
UNEQUAL = {"north": "1/2", "south": "1/2"}
EQUAL = {"north": "2/3", "south": "1/3"}


def design(weights: dict[str, str], **rule: Any) -> pg.StratifiedClusters:
    return pg.StratifiedClusters(
        sizes={"north": 20, "south": 10}, weights=weights, clusters=pg.Clustered(**rule)
    )


def evidence(how: pg.StratifiedClusters, test: str, **given: Any) -> Any:
    columns = {"strata": STRATA, "clusters": LABELS} | given
    losses = pg.LossArray(VALUES[:, :, None], pg.Records(**columns))
    return pg.certify(
        losses, [LOSS], design=how, reliability_target=0.5, seed=1, test=test
    ).evidence


def test_cluster_means_are_the_records_of_the_strata() -> None:
    found = evidence(design(UNEQUAL), "hoeffding")
    mean = 0.5 * MEANS[:, :20].mean(axis=1) + 0.5 * MEANS[:, 20:].mean(axis=1)
    size = float(1 / (Fraction(1, 4) / 20 + Fraction(1, 4) / 10))
    np.testing.assert_allclose(found.estimates[:, 0], mean, rtol=1e-12)
    np.testing.assert_allclose(found.pvalues[:, 0], hoeffding_pvalue(mean, size, 0.3), rtol=1e-9)
    assert found.n_records == (30,)
    proportional = evidence(design(EQUAL), "bentkus")
    plain = bentkus_pvalue(MEANS.mean(axis=1), 30, 0.3)
    np.testing.assert_allclose(proportional.pvalues[:, 0], plain, rtol=1e-9)
    # As the same cluster means, given as records of strata.
    alone = pg.certify(
        pg.LossArray(MEANS[:, :, None], pg.Records(strata=STRATUM)), [LOSS],
        design=pg.Stratified(sizes={"north": 20, "south": 10}, weights=UNEQUAL),
        reliability_target=0.5, seed=1, test="betting_fixed",
    ).evidence  # fmt: skip
    found = evidence(design(UNEQUAL), "betting_fixed")
    np.testing.assert_allclose(found.pvalues, alone.pvalues, rtol=1e-9)


@pytest.mark.parametrize("weights", [EQUAL, UNEQUAL], ids=["proportional", "weighted"])
def test_records_that_weigh_alike_have_the_mean_over_records(weights: dict[str, str]) -> None:
    found = evidence(design(weights, weighting="record", max_size=8), "hoeffding")
    share = np.where(STRATUM == "north", float(Fraction(weights["north"])) / 20,
                     float(Fraction(weights["south"])) / 10)  # fmt: skip
    mean = (share * SIZES * MEANS).sum(axis=1) / (share * SIZES).sum()
    np.testing.assert_allclose(found.estimates[:, 0], mean, rtol=0, atol=1e-12)


def test_the_order_of_records_and_chunks_changes_nothing() -> None:
    turn = RNG.permutation(LABELS.size)
    turned = pg.LossArray(
        VALUES[:, turn, None], pg.Records(strata=STRATA[turn], clusters=LABELS[turn])
    )
    halves = [np.flatnonzero(LABELS < 11), np.flatnonzero(LABELS >= 11)]
    stream = pg.LossStream(
        chunks=[
            pg.LossArray(
                VALUES[:, rows, None], pg.Records(strata=STRATA[rows], clusters=LABELS[rows])
            )
            for rows in halves
        ],
        n_releases=3, n_records=LABELS.size, n_requirements=1,
    )  # fmt: skip
    whole = evidence(design(UNEQUAL), "hoeffding").pvalues
    for losses in (turned, stream):
        other = pg.certify(
            losses, [LOSS], design=design(UNEQUAL), reliability_target=0.5, seed=1, test="hoeffding"
        ).evidence
        np.testing.assert_allclose(other.pvalues, whole, rtol=1e-12)


def test_labels_that_do_not_fit_are_refused() -> None:
    how = design(UNEQUAL)
    with pytest.raises(pg.LossMismatch, match="a cluster has records of two strata"):
        evidence(how, "hoeffding", strata=np.where(np.arange(LABELS.size) % 2, "north", "south"))
    with pytest.raises(pg.LossMismatch, match="registered with sizes"):
        evidence(how, "hoeffding", strata=np.where(LABELS < 19, "north", "south"))
    with pytest.raises(pg.LossMismatch, match=r"needs records\.clusters"):
        evidence(how, "hoeffding", clusters=None)
    with pytest.raises(pg.LossMismatch, match=r"Declare design=StratifiedClusters"):
        pg.certify(
            pg.LossArray(VALUES[:, :, None], pg.Records(strata=STRATA, clusters=LABELS)), [LOSS],
            design=pg.Clustered(), reliability_target=0.5,
        )  # fmt: skip


def test_what_no_theorem_covers_is_refused() -> None:
    two = pg.Requirement(name="loss", low=0, high=1, limit=0.3, two_valued=True)
    for test, words in (("binomial", "a cluster mean is not two-valued"), ("betting", "iid")):
        (reason,) = pg.supports([two], design=design(EQUAL), reliability_target=0.5, test=test)
        assert words in reason
