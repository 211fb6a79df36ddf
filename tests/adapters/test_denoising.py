"""The denoising autoencoder: every draw from its seed, batches bit for bit, the stated laws."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray
from scipy.stats import binom

from conformance.generator import BatchConformance
from proxyguard.adapters import denoising
from proxyguard.adapters.denoising import STAGE, DenoisingAutoencoder
from proxyguard.draw.catalog import load_generator
from proxyguard.draw.protocol import Seed
from proxyguard.errors import RegistryError

OPTIONS: dict[str, Any] = {
    "outcome": "y",
    "positive": "yes",
    "rows": 30,
    "hidden": 5,
    "train_noise": "0.05",
    "sample_noise": "0.05",
    "label_fidelity": "0.9",
    "ridge": "0.01",
}


def source(n: int = 60, seed: int = 4) -> pd.DataFrame:
    """A whole-number column, a rate, a constant; the outcome stands between them."""
    rng = np.random.default_rng(seed)
    yes = np.arange(n) % 3 == 0
    rate = np.concatenate([[0.0, 1.0], rng.random(n - 2)])
    return pd.DataFrame(
        {
            "count": rng.integers(0, 40, n) + 20.0 * yes,
            "y": pd.Series(np.where(yes, "yes", "no"), dtype=object),
            "rate": rate,
            "same": np.full(n, 7.0),
        }
    )


def prepared(table: pd.DataFrame | None = None, **options: Any) -> DenoisingAutoencoder:
    generator = DenoisingAutoencoder(**{**OPTIONS, **options})
    generator.prepare(source() if table is None else table, np.random.default_rng(0))
    return generator


class TestDenoisingAutoencoder(BatchConformance):
    stage = STAGE
    seeds = (11, 12)

    def make(self) -> DenoisingAutoencoder:
        return load_generator("denoising", OPTIONS)  # type: ignore[no-any-return]

    def source(self) -> pd.DataFrame:
        return source()


class TestPublishedRounding(TestDenoisingAutoencoder):
    def make(self) -> DenoisingAutoencoder:
        options = {**OPTIONS, "rounding": "published"}
        return load_generator("denoising", options)  # type: ignore[no-any-return]


@pytest.mark.parametrize(("rows", "hidden", "stacked"), [(30, 5, 1), (999, 33, 1 << 17)])
def test_the_bits_of_a_draw_do_not_depend_on_its_company(
    monkeypatch: pytest.MonkeyPatch, rows: int, hidden: int, stacked: int
) -> None:
    generator = prepared(source(800), rows=rows, hidden=hidden)
    alone = [generator.draw(Seed(s)) for s in range(9)]
    for size in (stacked, 1 << 30):
        monkeypatch.setattr(denoising, "STACKED", size)
        for first in (0, 4):
            many = generator.draw_many([Seed(s) for s in range(first, 9)])
            for one, other in zip(alone[first:], many, strict=True):
                pd.testing.assert_frame_equal(one, other, check_exact=True)


def decoded_by_hand(table: pd.DataFrame, seed: int) -> tuple[NDArray[Any], NDArray[Any]]:
    """One draw with textbook steps: the published order, least squares instead of a solve."""
    names = ["count", "rate", "same"]
    order = np.argsort(table["y"] == "yes", kind="stable")
    x = table[names].to_numpy()[order]
    y = (table["y"] == "yes").to_numpy(dtype=float)[order]
    low, high = x.min(axis=0), x.max(axis=0)
    scaled = (x - low) / np.where(high > low, high - low, 1.0)
    rng = np.random.default_rng(seed)
    noisy = np.clip(scaled + 0.05 * rng.standard_normal((3, y.size)).T, 0.0, 1.0)
    weights = rng.normal(0.0, 1.0 / 2.0, (5, 4))  # 1 / sqrt(p + 1) with p = 3
    bias = rng.uniform(-0.5, 0.5, 5)

    def encode(features: NDArray[Any], labels: NDArray[Any]) -> NDArray[Any]:
        units = np.tanh(np.column_stack([features, labels]) @ weights.T + bias)
        return np.column_stack([units, np.ones(labels.size)])

    # Ridge as least squares with one more row a penalised coefficient.
    penalty = np.sqrt(0.01) * np.eye(6)[:5]
    design = np.vstack([encode(noisy, y), penalty])
    decoder = np.linalg.lstsq(design, np.vstack([scaled, np.zeros((5, 3))]), rcond=None)[0]
    labels = rng.permutation(np.arange(30) % 2)
    matched = rng.random(30) < 0.9
    wanted = np.where(matched, labels, 1 - labels)
    zeros = int((y == 0).sum())
    picked = rng.integers(0, np.where(wanted == 1, y.size - zeros, zeros))
    anchors = scaled[picked + np.where(wanted == 1, zeros, 0)]
    inputs = np.clip(anchors + 0.05 * rng.standard_normal((3, 30)).T, 0.0, 1.0)
    out = np.clip(encode(inputs, labels) @ decoder, 0.0, 1.0)
    return low + out * (high - low), labels


def test_a_draw_is_the_published_computation() -> None:
    release = prepared(rounding="none").draw(Seed(17))
    values, labels = decoded_by_hand(source(), 17)
    np.testing.assert_allclose(release[["count", "rate", "same"]], values, rtol=0, atol=1e-9)
    assert list(release["y"]) == ["yes" if label else "no" for label in labels]


def test_a_release_has_the_columns_labels_and_range_of_the_source() -> None:
    release, table = prepared().draw(Seed(3)), source()
    assert list(release.columns) == list(table.columns)
    assert dict(release.dtypes) == dict(table.dtypes)
    assert release["y"].value_counts().to_dict() == {"yes": 15, "no": 15}
    for name in ("count", "rate", "same"):
        assert release[name].between(table[name].min(), table[name].max()).all()
    assert release["count"].nunique() > 5  # a range is no constant


@pytest.mark.parametrize(
    ("rounding", "whole"),
    [("integer columns", [True, False]), ("published", [True, True]), ("none", [False, False])],
)
def test_rounding_reaches_the_columns_it_names(rounding: str, whole: list[bool]) -> None:
    release = prepared(rounding=rounding).draw(Seed(3))
    assert [bool((release[n] % 1.0 == 0.0).all()) for n in ("count", "rate")] == whole


def test_rows_come_from_their_own_class_as_often_as_the_label_fidelity_says() -> None:
    # With no noise, hardly any ridge and a wide layer the decoder gives the anchor back. Here
    # its value names the source row: odd values are of one class, even ones of the other.
    place = np.arange(200) % 20
    label = np.where(place % 2 == 1, "yes", "no")
    table = pd.DataFrame({"x": 1.0 * place, "y": pd.Series(label, dtype=object)})
    generator = prepared(
        table, rows=2000, hidden=30, train_noise=0, sample_noise=0, ridge="1e-9",
        label_fidelity="0.7", rounding="none",
    )  # fmt: skip
    release = generator.draw(Seed(20260819))
    anchors = np.rint(release["x"])
    assert np.abs(release["x"] - anchors).max() < 0.1
    own = int(((anchors % 2 == 1) == (release["y"] == "yes")).sum())
    # Two tails of the binomial: a wrong fidelity of .6 or .8 lies ten deviations away.
    assert binom.cdf(own, 2000, 0.7) > 1e-6
    assert binom.sf(own - 1, 2000, 0.7) > 1e-6


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rows": 1}, "rows is a whole number of at least 2"),
        ({"hidden": 0}, "hidden is a whole number of at least 1"),
        ({"hidden": True}, "hidden is a whole number"),
        ({"train_noise": "-0.1"}, "train_noise is a number of at least 0"),
        ({"sample_noise": "much"}, "sample_noise is a number"),
        ({"sample_noise": float("inf")}, "sample_noise is a number"),
        ({"label_fidelity": "1.1"}, "label_fidelity is a number from 0 to 1"),
        ({"ridge": "0"}, "ridge is a number above 0"),
        ({"rounding": "all"}, 'rounding is "integer columns"'),
    ],
)
def test_an_option_that_means_nothing_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(RegistryError, match=message):
        DenoisingAutoencoder(**{**OPTIONS, **options})


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (source().drop(columns="y"), "no outcome 'y'"),
        (source().assign(y="yes"), "needs both classes"),
        (source().assign(rate="high"), r"\['rate'\] are text"),
        (source()[["y"]], "there is at least one"),
        (source().assign(rate=np.nan), "missing or infinite"),
    ],
)
def test_a_source_that_cannot_be_encoded_is_refused(table: pd.DataFrame, message: str) -> None:
    with pytest.raises(RegistryError, match=message):
        prepared(table)
