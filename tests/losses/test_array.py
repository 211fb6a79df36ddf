"""The types that hold losses: shapes, dtypes, names, and moments with their n."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import proxyguard as pg

ERROR = pg.Requirement(name="error", low=0, high=1, limit=0.2, two_valued=True)
BRIER = pg.Requirement(name="Brier", low=0, high=1, limit=0.2)


def certify(losses: Any, *requirements: pg.Requirement, **choices: Any) -> pg.Certificate:
    choices = {"reliability_target": 0.8, "seed": 5} | choices
    return pg.certify(losses, requirements or [BRIER], **choices)


def test_bool_int_and_float_losses_mean_the_same() -> None:
    hits = np.random.default_rng(1).random((30, 400, 1)) < 0.1
    for test in ("binomial", "betting", "bentkus", "betting_fixed"):
        seen = [
            certify(hits.astype(kind), ERROR, test=test).evidence.pvalues
            for kind in (np.bool_, np.int8, np.uint16, np.int64, np.float32, np.float64)
        ]
        for other in seen[1:]:
            np.testing.assert_array_equal(seen[0], other)


def test_float32_losses_are_the_doubles_they_stand_for() -> None:
    losses = np.random.default_rng(2).beta(2, 8, (20, 300, 1)).astype(np.float32)
    for test in ("empirical_bernstein", "betting", "bentkus"):
        single = certify(losses, test=test).evidence
        double = certify(losses.astype(np.float64), test=test).evidence
        np.testing.assert_array_equal(single.pvalues, double.pvalues)
        np.testing.assert_array_equal(single.violation_pvalues, double.violation_pvalues)


def test_the_losses_given_are_left_as_they_were() -> None:
    relative = pg.Requirement(name="relative", low=-1, high=1, limit=0.1)
    losses = np.random.default_rng(3).uniform(-0.5, 0.3, (5, 50, 1))
    before = losses.copy()
    losses.setflags(write=False)
    certify(losses, relative)
    np.testing.assert_array_equal(losses, before)


def test_nested_lists_and_strided_views_are_arrays_too() -> None:
    losses = np.random.default_rng(4).random((6, 40, 2)) * 0.2
    whole = certify(losses[:, :, :1]).evidence.pvalues
    np.testing.assert_array_equal(certify(losses[:, :, :1].tolist()).evidence.pvalues, whole)
    fortran = np.asfortranarray(losses)[:, :, :1]
    np.testing.assert_array_equal(certify(fortran).evidence.pvalues, whole)


MASKED = np.ma.masked_array(np.zeros((2, 9, 1)), mask=np.arange(18).reshape(2, 9, 1) == 4)


@pytest.mark.parametrize(
    "make",
    [
        lambda: certify(MASKED),
        lambda: pg.LossArray(MASKED),
        lambda: pg.Moments(n=9, mean=MASKED[:, 0]),
        lambda: pg.Moments(n=9, mean=np.zeros((2, 1)), variance=MASKED[:, 0]),
        lambda: certify(
            pg.LossStream(
                chunks=[MASKED], n_releases=2, n_records=9, n_requirements=1, random_order=True
            )
        ),
    ],
    ids=["certify", "array", "mean", "variance", "chunk"],
)
def test_a_mask_is_refused_and_not_lost(make: Callable[[], Any]) -> None:
    with pytest.raises(pg.LossMismatch, match="masked array"):
        make()


def test_ragged_rows_are_a_mismatch() -> None:
    ragged = [[[0.1], [0.1]], [[0.1]]]
    with pytest.raises(pg.LossMismatch, match="no rectangular array"):
        certify(ragged)
    with pytest.raises(pg.LossMismatch, match="no rectangular array"):
        pg.Moments(n=2, mean=[[0.1], [0.1, 0.2]])


@pytest.mark.parametrize("shape", [(), (5,), (1, 2, 3, 4), (0, 5, 1)], ids=str)
def test_another_shape_is_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(pg.LossMismatch, match=r"shape \("):
        pg.LossArray(np.zeros(shape))


@pytest.mark.parametrize(
    "values", [np.zeros((1, 2, 1), dtype=complex), np.array([[["a"]]])], ids=["complex", "text"]
)
def test_what_is_not_a_real_number_is_refused(values: Any) -> None:
    with pytest.raises(pg.LossMismatch, match="real numbers"):
        pg.LossArray(values)


def test_no_record_at_all_is_refused() -> None:
    with pytest.raises(pg.LossMismatch, match="no record"):
        certify(np.zeros((3, 0, 1)))


def test_another_number_of_requirements_is_refused() -> None:
    for losses in (np.zeros((3, 4, 2)), pg.Moments(n=4, mean=np.zeros((3, 2)))):
        with pytest.raises(pg.LossMismatch, match="2 requirements, 1 are registered"):
            certify(losses, test="bentkus")


def test_release_names_must_be_different_and_enough() -> None:
    names = certify(pg.LossArray(np.zeros((2, 9, 1)), releases=["x", "y"])).evidence.releases
    assert names == ("x", "y")
    for wrong in (["x"], ["x", "x"], ["x", "y", "z"]):
        with pytest.raises(pg.LossMismatch, match="different release names"):
            pg.LossArray(np.zeros((2, 9, 1)), releases=wrong)


def test_records_are_given_once() -> None:
    losses = pg.LossArray(np.zeros((2, 9, 1)))
    with pytest.raises(pg.LossMismatch, match="not both"):
        pg.certify(losses, [BRIER], records=pg.Records(), reliability_target=0.8)


@pytest.mark.parametrize(
    ("test", "requirement"),
    [
        ("empirical_bernstein", BRIER),
        ("hoeffding", BRIER),
        ("chernoff", BRIER),
        ("bentkus", BRIER),
        ("binomial", ERROR),
        ("empirical_bernstein", pg.Requirement(name="relative", low=-2, high=3, limit=0.4)),
        ("bentkus", pg.Requirement(name="relative", low=-2, high=3, limit=0.4)),
    ],
)
def test_moments_give_what_their_array_gives(test: str, requirement: pg.Requirement) -> None:
    rng = np.random.default_rng(6)
    values = rng.random((25, 500, 1)) * 0.3
    if requirement.two_valued:
        values = (values < 0.05).astype(float)
    values = requirement.from_unit(values)
    moments = pg.Moments(
        n=500, mean=values.mean(axis=1), variance=values.var(axis=1, ddof=1), releases=None
    )
    a, b = (certify(x, requirement, test=test) for x in (values, moments))
    np.testing.assert_allclose(b.evidence.pvalues, a.evidence.pvalues, rtol=1e-9)
    np.testing.assert_allclose(
        b.evidence.violation_pvalues, a.evidence.violation_pvalues, rtol=1e-9
    )
    np.testing.assert_allclose(b.evidence.estimates, a.evidence.estimates, rtol=1e-12)
    told = (each.evidence.limits(0.01, 0.01) for each in (a, b))
    np.testing.assert_allclose(*(each.upper for each in told), rtol=1e-9)
    assert b.reliability_lower == pytest.approx(a.reliability_lower, rel=1e-9)


@pytest.mark.parametrize("test", ["betting", "betting_fixed", "randomized_binomial"])
def test_moments_are_refused_where_single_records_are_needed(test: str) -> None:
    with pytest.raises(pg.UnsupportedDesign, match="reads single records"):
        certify(pg.Moments(n=5, mean=[[0.1]], variance=[[0.0]]), test=test)


def test_moments_do_not_carry_strata_clusters_or_blocks() -> None:
    moments = pg.Moments(n=5, mean=[[0.1]])
    halves = pg.Stratified(sizes={"a": 2, "b": 3}, weights={"a": "2/5", "b": "3/5"})
    for design in (halves, pg.Clustered(), pg.Weighted(max_weight=2, origin="design")):
        with pytest.raises(pg.UnsupportedDesign, match="no strata, clusters or weights"):
            certify(moments, design=design, test="bentkus")
    slack = pg.Requirement(name="Brier", low=0, high=1, limit=0.2, slack=0.1)
    with pytest.raises(pg.UnsupportedDesign, match="block mode"):
        certify(moments, slack, test="bentkus", mode="block", block_size=2)


def test_empirical_bernstein_needs_the_variances() -> None:
    with pytest.raises(pg.LossMismatch, match="needs variances"):
        certify(pg.Moments(n=5, mean=[[0.1]]), test="empirical_bernstein")


@pytest.mark.parametrize("n", [5.0, "5", [[5]], -1], ids=str)
def test_n_is_a_whole_number_for_each_requirement(n: Any) -> None:
    with pytest.raises(pg.LossMismatch, match="whole numbers"):
        pg.Moments(n=n, mean=[[0.1]])


def test_a_variance_that_its_n_cannot_have_is_refused() -> None:
    # Ten values in [0, 1], five at each bound: the largest variance with this mean.
    most = np.array([0.0] * 5 + [1.0] * 5).var(ddof=1)
    exact = pg.Moments(n=10, mean=[[0.5]], variance=[[most]])
    assert certify(exact, test="empirical_bernstein").evidence.n_records == (10,)
    larger = pg.Moments(n=1000, mean=[[0.5]], variance=[[most]])
    with pytest.raises(pg.LossMismatch, match="1000 values in the registered bounds"):
        certify(larger, test="empirical_bernstein")
    for wrong in (-0.1, np.nan, np.inf):
        with pytest.raises(pg.LossMismatch, match="varianc"):
            certify(pg.Moments(n=10, mean=[[0.5]], variance=[[wrong]]), test="empirical_bernstein")


def test_a_two_valued_mean_must_be_a_whole_number_out_of_its_n() -> None:
    assert certify(pg.Moments(n=10, mean=[[0.3]]), ERROR).evidence.n_records == (10,)
    with pytest.raises(pg.LossMismatch, match="no whole number of losses out of 7"):
        certify(pg.Moments(n=7, mean=[[0.3]]), ERROR)


@pytest.mark.parametrize("mean", [-0.01, 1.01, np.nan, np.inf])
def test_a_mean_out_of_bounds_is_named(mean: float) -> None:
    moments = pg.Moments(n=10, mean=[[0.1], [mean]], releases=["first", "second"])
    with pytest.raises(pg.LossOutOfBounds, match="Brier: release second, record mean") as caught:
        certify(moments, test="bentkus")
    assert (caught.value.requirement, caught.value.release) == ("Brier", "second")
    np.testing.assert_equal(caught.value.value, mean)


def test_nobody_can_pass_another_n_beside_the_moments() -> None:
    # n travels inside: neither certify nor a chunk has a place to state it.
    moments = pg.Moments(n=10, mean=[[0.1]])
    with pytest.raises(pg.RegistryError, match="unknown choices: n;"):
        certify(moments, test="bentkus", n=1000)
    with pytest.raises(AttributeError):
        moments.n = 1000  # type: ignore[misc]
    with pytest.raises(pg.LossMismatch, match="not both"):
        certify(moments, test="bentkus", records=pg.Records(ids=np.arange(1000)))
    assert certify(moments, test="bentkus").evidence.n_records == (10,)


def test_moments_from_an_impossible_pool_are_refused() -> None:
    with pytest.raises(pg.LossMismatch, match="pool of 9"):
        certify(
            pg.Moments(n=10, mean=[[0.1]]), design=pg.WithoutReplacement(pool=9), test="bentkus"
        )


def test_separate_batches_hold_one_release_each_and_share_no_record() -> None:
    one = np.zeros((1, 4, 1))
    first = pg.LossArray(one, pg.Records(ids=[1, 2, 3, 4]))
    with pytest.raises(pg.LossMismatch, match="record 3 is in batch 0 and in batch 1"):
        pg.LossBatches([first, pg.LossArray(one, pg.Records(ids=[5, 6, 3, 7]))])
    with pytest.raises(pg.LossMismatch, match="one release"):
        pg.LossBatches([pg.LossArray(np.zeros((2, 4, 1)))])
    with pytest.raises(pg.LossMismatch, match="same requirements"):
        pg.LossBatches([first, pg.LossArray(np.zeros((1, 4, 2)))])
    with pytest.raises(pg.LossMismatch, match="one release"):
        pg.LossBatches([])
    small = pg.LossArray(np.zeros((1, 2, 1)), pg.Records(ids=[8, 9]))
    batches = pg.LossBatches([first, small])
    assert batches.shape == (2, 2, 1)
    assert batches.releases == ("0", "1")


@pytest.mark.parametrize("column", ["ids", "clusters"])
def test_separate_batches_share_no_label_and_give_it_all_or_none(column: str) -> None:
    def batch(labels: Any) -> pg.LossArray:
        return pg.LossArray(np.zeros((1, 4, 1)), pg.Records(**{column: labels}))

    first, second = batch([1, 2, 3, 4]), batch([5, 6, 7, 8])
    assert pg.LossBatches([first, second]).shape == (2, 4, 1)
    with pytest.raises(pg.LossMismatch, match="4 is in batch 0 and in batch 1"):
        pg.LossBatches([first, batch([4, 5, 6, 7])])
    for some in ([first, batch(None)], [batch(None), first]):
        with pytest.raises(pg.LossMismatch, match=f"records.{column} with every batch or with"):
            pg.LossBatches(some)
