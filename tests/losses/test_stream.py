"""Chunks over records say the same as the whole array, and memory does not grow with them."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import proxyguard as pg

ERROR = pg.Requirement(name="error", low=0, high=1, limit=0.2, two_valued=True)
COST = pg.Requirement(name="cost", low=-1, high=1, limit=0.1)
SLACK = pg.Requirement(name="cost", low=-1, high=1, limit=0.1, slack=0.05, ramp=0.1)
TESTS = [
    "empirical_bernstein", "hoeffding", "chernoff", "bentkus", "binomial",
    "randomized_binomial", "betting", "betting_fixed",
]  # fmt: skip
STRATA = pg.Stratified(sizes={"a": 300, "b": 200}, weights={"a": "0.2", "b": "0.8"})
N = 500


def losses() -> NDArray[np.float64]:
    rng = np.random.default_rng(11)
    error = (rng.random((12, N)) < np.linspace(0.05, 0.4, 12)[:, None]).astype(float)
    cost = rng.uniform(-1, 1, (12, N)) * 0.8 + np.linspace(-0.2, 0.2, 12)[:, None]
    return np.stack([error, cost], axis=2)


def chunks(values: NDArray[np.float64], sizes: list[int], **columns: Any) -> Iterator[pg.LossArray]:
    start = 0
    for size in sizes:
        part = slice(start, start + size)
        own = {name: column[part] for name, column in columns.items() if name != "groups"}
        if "groups" in columns:
            own["groups"] = {name: mask[part] for name, mask in columns["groups"].items()}
        yield pg.LossArray(values[:, part], pg.Records(**own))
        start += size


def stream(values: NDArray[np.float64], sizes: list[int], **columns: Any) -> pg.LossStream:
    return pg.LossStream(
        chunks=chunks(values, sizes, **columns),
        n_releases=values.shape[0],
        n_records=values.shape[1],
        n_requirements=values.shape[2],
        random_order=True,
    )


def certify(given: Any, *requirements: pg.Requirement, **choices: Any) -> pg.Certificate:
    choices = {"reliability_target": 0.8, "seed": 7} | choices
    return pg.certify(given, requirements or [ERROR, COST], **choices)


SIZES = {
    "one": [N],
    "each": [1] * N,
    "uneven": [1, 0, 250, 3, 200, 46],
    "late": [2, 498],
}


def assert_same(streamed: pg.Certificate, dense: pg.Certificate) -> None:
    for name in ("pvalues", "violation_pvalues", "estimates"):
        np.testing.assert_allclose(
            getattr(streamed.evidence, name), getattr(dense.evidence, name), rtol=1e-9, atol=1e-13
        )
    assert streamed.evidence.n_records == dense.evidence.n_records
    assert streamed.decision is dense.decision
    assert streamed.reliability_lower == dense.reliability_lower
    assert streamed.reliability_upper == dense.reliability_upper


@pytest.mark.parametrize("sizes", SIZES.values(), ids=SIZES)
@pytest.mark.parametrize("test", TESTS)
def test_chunks_give_what_the_array_gives(test: str, sizes: list[int]) -> None:
    values = losses()
    chosen = {"error": test, "cost": test if test != "binomial" else "bentkus"}
    dense = certify(values, records=pg.Records(random_order=True), test=chosen)
    assert_same(certify(stream(values, sizes), test=chosen), dense)
    assert np.unique(dense.evidence.pvalues).size > 6


def test_the_statistics_themselves_agree() -> None:
    values = losses()
    dense = certify(values, test="empirical_bernstein").evidence.columns
    streamed = certify(stream(values, SIZES["uneven"]), test="empirical_bernstein").evidence.columns
    for j, (a, b) in enumerate(zip(streamed, dense, strict=True)):
        unit = values[:, :, j] if j == 0 else (values[:, :, j] + 1) / 2
        np.testing.assert_allclose(a.mean, unit.mean(axis=1), rtol=1e-13)
        np.testing.assert_allclose(b.mean, a.mean, rtol=1e-13)
        assert a.variance is not None
        assert b.variance is not None
        np.testing.assert_allclose(a.variance, unit.var(axis=1, ddof=1), rtol=1e-11)
        np.testing.assert_allclose(b.variance, a.variance, rtol=1e-11)


@pytest.mark.parametrize("sizes", [SIZES["one"], SIZES["uneven"]], ids=["one", "uneven"])
@pytest.mark.parametrize("test", ["hoeffding", "betting_fixed"])
def test_chunks_bring_their_strata(test: str, sizes: list[int]) -> None:
    values = losses()
    labels = np.random.default_rng(3).permutation(["a"] * 300 + ["b"] * 200)
    dense = certify(values, records=pg.Records(strata=labels), design=STRATA, test=test)
    assert_same(certify(stream(values, sizes, strata=labels), design=STRATA, test=test), dense)


@pytest.mark.parametrize("test", ["empirical_bernstein", "bentkus", "binomial"])
def test_chunks_bring_their_subgroups(test: str) -> None:
    values = losses()[:, :, :1]
    mask = np.random.default_rng(4).random(N) < 0.3
    group = pg.Requirement(name="g", low=0, high=1, limit=0.2, two_valued=True, group="g")
    dense = certify(values, group, records=pg.Records(groups={"g": mask}), test=test)
    assert dense.evidence.n_records == (mask.sum(),)
    assert_same(
        certify(stream(values, SIZES["uneven"], groups={"g": mask}), group, test=test), dense
    )


@pytest.mark.parametrize("weighting", ["cluster", "record"])
@pytest.mark.parametrize("test", ["empirical_bernstein", "bentkus", "betting_fixed"])
def test_chunks_bring_whole_clusters(test: str, weighting: str) -> None:
    values = losses()
    labels = np.repeat(np.arange(50), 10)
    design = pg.Clustered(weighting=weighting, max_size=20)
    dense = certify(values, records=pg.Records(clusters=labels), design=design, test=test)
    given = stream(values, [10, 240, 250], clusters=labels)
    assert_same(certify(given, design=design, test=test), dense)


@pytest.mark.parametrize(
    ("choices"),
    [
        {"mode": "smooth"},
        {"mode": "block", "block_size": 20},
        {"mode": "direct", "score": "slack"},
        {"mode": "count", "calibrator": "capital"},
    ],
    ids=str,
)
def test_every_score_can_be_streamed(choices: dict[str, Any]) -> None:
    values = losses()[:, :, 1:]
    dense = certify(values, SLACK, records=pg.Records(random_order=True), **choices)
    streamed = certify(stream(values, SIZES["uneven"]), SLACK, **choices)
    assert streamed.lower.value == pytest.approx(dense.lower.value, rel=1e-9)
    for (label, a), (_, b) in zip(streamed.lower.steps, dense.lower.steps, strict=True):
        assert a == pytest.approx(b, rel=1e-9), label


def test_betting_refuses_chunks_whose_order_is_not_stated_random() -> None:
    values = losses()

    def unordered() -> pg.LossStream:
        # Chunks that are each in random order do not make the stream one.
        halves = (values[:, :250], values[:, 250:])
        parts = [pg.LossArray(half, pg.Records(random_order=True)) for half in halves]
        return pg.LossStream(chunks=parts, n_releases=12, n_records=N, n_requirements=2)

    with pytest.raises(pg.UnsupportedDesign, match="random_order=True"):
        certify(unordered(), test="betting")
    with pytest.raises(pg.UnsupportedDesign, match="random_order=True"):
        certify(unordered())  # the default tests are binomial and betting
    assert certify(unordered(), test="bentkus").evidence.n_records == (N, N)


def test_a_stream_is_refused_for_betting_where_its_size_is_not_known() -> None:
    mask = np.random.default_rng(4).random(N) < 0.3
    group = pg.Requirement(name="g", low=-1, high=1, limit=0.2, group="g")
    with pytest.raises(pg.UnsupportedDesign, match="in advance how many records"):
        certify(stream(losses()[:, :, 1:], [N], groups={"g": mask}), group, test="betting")


@pytest.mark.parametrize("declared", [N - 1, N + 1, 1])
def test_too_many_or_too_few_records_are_refused(declared: int) -> None:
    values = losses()
    for test in ("bentkus", "betting"):
        given = pg.LossStream(
            chunks=chunks(values, SIZES["uneven"]),
            n_releases=12,
            n_records=declared,
            n_requirements=2,
            random_order=True,
        )
        with pytest.raises(pg.LossMismatch, match=f"declared {declared} records"):
            certify(given, test=test)


def test_a_stream_is_read_once() -> None:
    given = stream(losses(), [N])
    certify(given, test="bentkus")
    with pytest.raises(pg.LossMismatch, match=f"declared {N} records, the chunks have 0"):
        certify(given, test="bentkus")


@pytest.mark.parametrize("shape", [(11, 5, 2), (12, 5, 1)], ids=str)
def test_a_chunk_of_another_shape_is_refused_by_its_number(shape: tuple[int, ...]) -> None:
    given = pg.LossStream(
        chunks=[losses()[:, :10], np.zeros(shape)], n_releases=12, n_records=15, n_requirements=2
    )
    with pytest.raises(pg.LossMismatch, match="chunk 1 has"):
        certify(given, test="bentkus")


def test_a_cluster_split_over_chunks_is_refused() -> None:
    labels = np.repeat(np.arange(50), 10)
    given = stream(losses(), [255, 245], clusters=labels)
    with pytest.raises(pg.LossMismatch, match="cluster 25 is spread over two chunks"):
        certify(given, design=pg.Clustered(), test="bentkus")


def test_ids_must_come_with_every_chunk_or_none() -> None:
    values = losses()

    def some() -> Iterator[pg.LossArray]:
        yield pg.LossArray(values[:, :100], pg.Records(ids=np.arange(100)))
        yield pg.LossArray(values[:, 100:])

    given = pg.LossStream(chunks=some(), n_releases=12, n_records=N, n_requirements=2)
    with pytest.raises(pg.LossMismatch, match="100 record ids for 500 records"):
        certify(given, test="bentkus")


def test_streaming_memory_does_not_grow_with_the_records() -> None:
    n, size, releases = 200_000, 2_000, 20
    requirements = [
        pg.Requirement(name="error", low=0, high=1, limit=0.2, two_valued=True),
        pg.Requirement(name="Brier", low=0, high=1, limit=0.2),
        pg.Requirement(name="cost", low=0, high=1, limit=0.2),
    ]
    rng = np.random.default_rng(9)
    one = rng.random((releases, size, 3)) * 0.3
    one[:, :, 0] = one[:, :, 0] < 0.03

    def parts() -> Iterator[NDArray[np.float64]]:
        for _ in range(n // size):
            yield one.copy()

    given = pg.LossStream(
        chunks=parts(), n_releases=releases, n_records=n, n_requirements=3, random_order=True
    )
    tests = {"error": "binomial", "Brier": "betting", "cost": "empirical_bernstein"}
    tracemalloc.start()
    try:
        certificate = certify(given, *requirements, test=tests)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert certificate.evidence.n_records == (n, n, n)
    whole = n * releases * 3 * 8
    assert peak < whole / 6, f"{peak / 2**20:.1f} MiB of {whole / 2**20:.1f}"
