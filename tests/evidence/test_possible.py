"""Statistics on record are ones that losses of such units can have, and a forger has no others."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import proxyguard as pg
from proxyguard.errors import SealError
from proxyguard.evidence.record import check_counts, evidence_record

N = 120
RNG = np.random.default_rng(11)
LABELS = np.repeat(np.arange(24), RNG.multinomial(N - 24, np.ones(24) / 24) + 1)
SITES = np.where(LABELS < 12, "a", "b")
HALVES = {"a": "0.2", "b": "0.8"}
DESIGNS: dict[str, Any] = {
    "iid": pg.Iid(),
    "weights": pg.Weighted(max_weight=4, origin="design"),
    "clusters": pg.Clustered(),
    "clusters by record": pg.Clustered(weighting="record", max_size=40),
    "strata": pg.Stratified(
        sizes={site: np.count_nonzero(site == SITES) for site in "ab"}, weights=HALVES
    ),
    "strata of clusters": pg.StratifiedClusters(
        sizes={"a": 12, "b": 12}, weights=HALVES,
        clusters=pg.Clustered(weighting="record", max_size=40),
    ),
}  # fmt: skip


def records(kind: str, weights: Any = None, groups: Any = None) -> pg.Records:
    given: dict[str, Any] = {"weights": weights} if kind == "weights" else {}
    if "clusters" in kind:
        given["clusters"] = LABELS
    if "strata" in kind:
        given["strata"] = SITES
    return pg.Records(**given, groups=groups or {}, random_order=True)


def evidence(
    kind: str, values: Any, weights: Any, test: str, limit: float = 0.3, **rule: Any
) -> Any:
    asked = pg.Requirement(name="loss", low=0, high=1, limit=limit, **rule)
    losses = pg.LossArray(values[:, :, None], records(kind, weights))
    return pg.certify(
        losses, [asked], design=DESIGNS[kind], reliability_target=0.5, seed=1, test=test
    ).evidence


def check(found: Any, **forged: Any) -> None:
    record = evidence_record(found)
    column = record.columns[0].model_copy(update=forged)
    check_counts(record.model_copy(update={"columns": (column,)}), found.reading, N)


@settings(deadline=None, max_examples=40)
@given(
    st.sampled_from(list(DESIGNS)), st.booleans(), st.booleans(), st.integers(0, 2**32),
    st.sampled_from([0.02, 0.3, 0.9]),
)  # fmt: skip
def test_whatever_losses_there_are_pass(
    kind: str, two_valued: bool, missing: bool, seed: int, limit: float
) -> None:
    rng = np.random.default_rng(seed)
    values = rng.random((3, N)) ** rng.choice([0.1, 1.0, 9.0], size=(3, 1))
    values[0] = rng.choice([0.0, 1.0])
    if two_valued:
        values = np.round(values)
    if missing:
        values[rng.random((3, N)) < rng.random() ** 2] = np.nan
    weights = rng.choice([0.0, 0.5, 4.0], size=N, p=rng.dirichlet(np.ones(3)))
    rule: dict[str, Any] = {"missing": "worst"} if missing else {}
    tests = ["hoeffding", "betting_fixed"]
    if "strata" not in kind:
        tests += ["empirical_bernstein", "betting"]
    for test in tests:
        check(evidence(kind, values, weights, test, limit, two_valued=two_valued, **rule))


VALUES = np.round(RNG.random((3, N)) ** 2, 3)
ONES = (RNG.random((3, N)) < 0.2).astype(float)
LIGHT = np.where(np.arange(N) < 20, 4.0, 0.25)


@pytest.mark.parametrize(
    ("kind", "forged", "words"),
    [
        # Light records cannot be far from the limit, whatever their losses.
        ("weights", {"mean": [0.0, 0.1, 0.1]}, "a mean is not between 0.2"),
        ("weights", {"mean": [0.2, 0.2, 1.0]}, "a mean is not between 0.2"),
        ("weights", {"size_share": 1.5}, "cannot weigh 1.5 each"),
        ("clusters by record", {"size_share": 0.9}, "cannot weigh 0.9 each"),
        ("clusters by record", {"mean": [0.1, 0.1, 0.1]}, "a mean is not between 0.26"),
        ("strata of clusters", {"mean": [0.05, 0.1, 0.1]}, "a mean is not between 0.2"),
        ("strata of clusters", {"size_share": 0.9}, "cannot weigh 0.9 each"),
        ("weights", {"variance": [0.2, 0.2, 0.2]}, "have another variance"),
        ("iid", {"mean": [0.01] * 3, "variance": [0.2] * 3}, "have another variance"),
    ],
)
def test_a_statistic_that_such_units_do_not_have_is_found(
    kind: str, forged: dict[str, Any], words: str
) -> None:
    with pytest.raises(SealError, match=words):
        check(evidence(kind, VALUES, LIGHT, "hoeffding"), **forged)


@pytest.mark.parametrize("kind", ["iid", "weights"])
def test_losses_of_two_values_have_no_smaller_variance(kind: str) -> None:
    # The forger's gain: empirical Bernstein rests on the variance alone as soon as it is small.
    found = evidence(kind, ONES, LIGHT, "empirical_bernstein", two_valued=True)
    check(found)
    with pytest.raises(SealError, match="have another variance"):
        check(found, variance=[0.001] * 3)


def test_a_mean_is_that_of_its_count() -> None:
    found = evidence("iid", ONES, LIGHT, "hoeffding", two_valued=True)
    with pytest.raises(SealError, match="not that of so many losses"):
        check(found, mean=[0.01, 0.01, 0.01], variance=None)


@pytest.mark.parametrize("test", ["betting", "betting_fixed"])
@pytest.mark.parametrize("kind", ["weights", "strata"])
def test_a_capital_is_no_more_than_such_losses_let_a_bet_gain(kind: str, test: str) -> None:
    if kind == "strata" and test == "betting":
        pytest.skip("betting does not cover these strata")
    what = "log_peak" if test == "betting" else "log_evalue"
    found = evidence(kind, np.zeros((3, N)), LIGHT, test)
    honest = np.array(getattr(found.columns[0], what))[0]
    # All losses are 0: a bet of all that there is gains log(1 + w v/(1 - v)) of each record.
    if kind == "weights":
        shares = LIGHT / 4.0
    else:
        design = DESIGNS["strata"]
        omega = {site: float(design.weights[site]) / design.sizes[site] for site in "ab"}
        shares = np.array([omega[site] for site in SITES]) / max(omega.values())
    most = np.log1p(shares * 0.3 / 0.7).sum()
    assert np.all(honest < most)
    flat = N * np.log1p(shares.mean() * 0.3 / 0.7)  # of all weights with this mean
    for capital, passes in ((most, True), (flat, True), (flat * 1.001, False)):
        forged = {what: [[capital] * 3, [-9.0] * 3]}
        if passes:
            check(found, **forged)
        else:
            with pytest.raises(SealError, match="more than any bet gains"):
                check(found, **forged)


def test_subgroups_and_mechanisms_have_one_sample_of_weights() -> None:
    member = np.arange(N) < 20  # those who weigh the most
    rules = [
        pg.Requirement(name="few", low=0, high=1, limit=0.3, group="few"),
        pg.Requirement(name="all", low=0, high=1, limit=0.3),
    ]
    losses = pg.LossArray(
        np.repeat(VALUES[:, :, None], 2, axis=2), records("weights", LIGHT, {"few": member})
    )
    found = pg.certify(
        losses, rules, design=DESIGNS["weights"], reliability_target=0.5, seed=1, test="hoeffding"
    ).evidence
    record = evidence_record(found)
    sizes: Any = {}
    check_counts(record, found.reading, N, sizes)
    assert sizes["few"].share == 1.0
    assert sizes[None].share == pytest.approx(LIGHT.mean() / 4.0)
    for few, every in ((1.0, 0.1), (0.9, 1.0)):
        # Their own means fit, so that only the weights do not go together.
        columns = [
            column.model_copy(update={"size_share": share, "mean": (0.3,) * 3, "variance": None})
            for column, share in zip(record.columns, (few, every), strict=True)
        ]
        with pytest.raises(SealError, match="cannot weigh"):
            check_counts(record.model_copy(update={"columns": tuple(columns)}), found.reading, N)
    # Another mechanism of the same target with other weights.
    alone = evidence("weights", VALUES, np.full(N, 2.0), "hoeffding")
    with pytest.raises(SealError, match=r"cannot weigh 0\.5 each"):
        check_counts(evidence_record(alone), alone.reading, N, sizes)


@pytest.mark.parametrize(
    ("kind", "more", "less"),
    [
        ("iid", 0.04, 0.03), ("weights", 0.04, 0.0), ("clusters", 0.2, -0.01),
        ("clusters by record", 0.005, 0.004), ("strata", 0.08, 0.001),
        ("strata of clusters", 0.01, 0.0001),
    ],
)  # fmt: skip
def test_directions_differ_by_what_missing_records_can_weigh(
    kind: str, more: float, less: float
) -> None:
    values = VALUES.copy()
    values[:, 5:9] = np.nan
    found = evidence(kind, values, np.full(N, 3.9), "hoeffding", missing="worst")
    check(found)
    mean = found.columns[0].mean
    for apart in (more, less):
        low = tuple((mean - apart).tolist())
        with pytest.raises(SealError, match="differ by other than the missing"):
            check(found, mean_low=low, variance=None, variance_low=None)


def test_blocks_are_of_the_losses_of_the_mean() -> None:
    asked = pg.Requirement(name="loss", low=0, high=1, limit=0.5, slack=0.1)
    losses = pg.LossArray(VALUES[:, :, None], records("iid"))
    found = pg.certify(
        losses, [asked], reliability_target=0.5, seed=1, mode="block", block_size=50
    ).evidence
    check(found)
    with pytest.raises(SealError, match="block means are not those"):
        check(found, block_means=((0.0, 0.0),) * 3)
