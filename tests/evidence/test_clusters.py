"""Clusters are read in a random order, and reported on the scale of their records."""

from __future__ import annotations

import numpy as np
import pytest

import proxyguard as pg
from proxyguard.exact.betting import betting_pvalue

LOSS = pg.Requirement(name="loss", low=0, high=1, limit=0.2, slack=0.042)


def test_labels_that_carry_the_rank_of_the_loss_do_not_order_the_clusters() -> None:
    rng = np.random.default_rng(120)
    false = 0
    for _ in range(200):
        cluster_losses = np.sort(rng.random(200) < 0.2).astype(float)  # labels carry the rank
        order = rng.permutation(200)
        records = pg.Records(clusters=order, random_order=True)
        certificate = pg.certify(
            cluster_losses[order][None, :, None], [LOSS], design=pg.Clustered(), records=records,
            reliability_target=0.5, test="betting", threshold="0.05", seed=1,
        )  # fmt: skip
        false += certificate.lower.steps[0][1] > 0
    assert false <= 30  # Bin(200, .05) exceeds 30 with probability 1e-8


@pytest.mark.guarantee
def test_records_in_random_order_do_not_put_large_clusters_first() -> None:
    # The cluster mean is .5 * 0 + .5 * .62 = .31, above the limit. In a random order of
    # records nearly all large clusters, whose loss is 0, show up before the small ones.
    rng = np.random.default_rng(121)
    limit = pg.Requirement(name="loss", low=0, high=1, limit=0.30)
    labels = np.repeat(np.arange(300), np.repeat([60, 1], 150))
    false = size_biased = 0
    for seed in range(200):
        loss = np.concatenate([np.zeros(150), rng.random(150) < 0.62])
        order = rng.permutation(labels.size)
        certificate = pg.certify(
            loss[labels][order][None, :, None], [limit], design=pg.Clustered(),
            records=pg.Records(clusters=labels[order], random_order=True),
            reliability_target=0.5, test="betting", threshold="0.05", seed=seed,
        )  # fmt: skip
        false += certificate.evidence.release_pvalues[0] <= 0.05
        # The twin takes the clusters as they first appear among the records.
        _, first = np.unique(labels[order], return_index=True)
        appearing = loss[np.argsort(first)]
        size_biased += betting_pvalue(appearing, 0.30, level=0.05)[0] <= 0.05
    assert false <= 24  # Bin(200, .05) exceeds 24 with probability 3e-5
    assert size_biased >= 190


def test_record_weighted_estimates_and_bounds_are_about_the_mean_over_records() -> None:
    values = np.full((1, 500, 1), 0.9)
    evidence = pg.certify(
        values,
        [LOSS],
        design=pg.Clustered(weighting="record", max_size=50),
        records=pg.Records(clusters=np.repeat(np.arange(100), 5)),
        reliability_target=0.8,
    ).evidence
    assert evidence.estimates[0, 0] == pytest.approx(0.9)


def test_units_of_different_sizes_have_no_limits_and_no_warning() -> None:
    # What is tested of them depends on the limit.
    rng = np.random.default_rng(0)
    labels = np.repeat(np.arange(300), rng.integers(1, 6, 300))
    found = pg.certify(
        (rng.random((30, labels.size, 1)) < 0.05).astype(float),
        [LOSS],
        design=pg.Clustered(weighting="record", max_size=400),
        records=pg.Records(clusters=labels),
        reliability_target=0.8,
    ).evidence
    assert np.isnan([*found.limits(0.01, 0.01)[2:]]).all()


def test_clusters_in_chunks_keep_their_uniforms() -> None:
    values = np.random.default_rng(0).random((3, 60, 1)) * 0.4
    labels = np.repeat(np.arange(12), 5)

    def part(rows: slice) -> pg.LossArray:
        return pg.LossArray(values[:, rows], pg.Records(clusters=labels[rows]))

    stream = pg.LossStream(
        chunks=[part(slice(0, 10)), part(slice(10, 60))],
        n_releases=3, n_records=60, n_requirements=1,
    )  # fmt: skip
    dense, streamed = (
        pg.certify(
            x, [LOSS], design=pg.Clustered(), test="randomized_binomial", seed=1,
            reliability_target=0.8,
        ).evidence.pvalues
        for x in (part(slice(0, 60)), stream)
    )  # fmt: skip
    np.testing.assert_array_equal(streamed, dense)
