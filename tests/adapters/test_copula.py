"""The copula: latent correlations are found again, whatever the columns, and sampled exactly."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray
from scipy.integrate import quad
from scipy.stats import kstest, multivariate_normal, norm, spearmanr

from proxyguard.adapters.copula import (
    FEW,
    FLOOR,
    TERMS,
    Copula,
    _interval_means,
    _margin_of,
    _repaired,
    hermite_coefficients,
)
from proxyguard.draw.protocol import Seed
from proxyguard.errors import RegistryError


def prepared(source: pd.DataFrame, **options: Any) -> Copula:
    generator = Copula(**options)
    generator.prepare(source, np.random.default_rng(0))
    return generator


def latent(rho: float, n: int, seed: int = 7) -> NDArray[Any]:
    rng = np.random.default_rng(seed)
    return rng.multivariate_normal([0, 0], [[1, rho], [rho, 1]], size=n)


def cut(values: NDArray[Any], *shares: float, labels: str = "abcdefgh") -> pd.Series:
    """Categories whose shares are these, in the order of the labels, and the rest."""
    ends = norm.ppf(np.cumsum(shares))
    return pd.Series(np.array(list(labels), dtype=object)[np.searchsorted(ends, values)])


KINDS = {
    "skewed": lambda z: np.exp(z),
    "zeros": lambda z: np.maximum(z, 0.5),
    "counts": lambda z: np.rint(2 * z),
    "even": lambda z: cut(z, 0.5),
    "rare": lambda z: cut(z, 0.95),
    "nominal": lambda z: cut(z, 0.2, 0.3, 0.1, 0.3, labels="qzmbx"),
}


@pytest.mark.parametrize("rho", [-0.8, 0.0, 0.5])
@pytest.mark.parametrize("first", KINDS)
@pytest.mark.parametrize("second", ["skewed", "even", "nominal"])
def test_the_latent_correlation_is_found_through_any_two_columns(
    first: str, second: str, rho: float
) -> None:
    z = latent(rho, 20_000)
    source = pd.DataFrame({"a": KINDS[first](z[:, 0]), "b": KINDS[second](z[:, 1])})
    fit = prepared(source)._once
    assert fit is not None
    # By dependence, nominal categories may be ordered either way.
    estimated, expected = fit.correlations[0, 1], rho
    if "nominal" in (first, second):
        estimated, expected = abs(estimated), abs(expected)
    # The standard deviation of a correlation of two halves of 20,000 rows is about .011.
    assert abs(estimated - expected) < 0.06


def test_without_the_correction_categories_would_be_tied_too_loosely() -> None:
    z = latent(0.8, 20_000)
    source = pd.DataFrame({"a": cut(z[:, 0], 0.5), "b": cut(z[:, 1], 0.9)})
    fit = prepared(source)._once
    assert fit is not None
    plain = np.corrcoef((source["a"] == "b").astype(float), (source["b"] == "b").astype(float))
    assert plain[0, 1] < 0.4
    assert abs(fit.correlations[0, 1] - 0.8) < 0.04


@pytest.mark.parametrize("shares", [(0.5, 0.5), (0.05, 0.25, 0.7), (0.0, 0.4, 0.0, 0.6, 0.0)])
def test_hermite_coefficients_are_integrals_of_the_score_function(
    shares: tuple[float, ...],
) -> None:
    margin = _margin_of(1000 * np.array(shares), np.arange(len(shares)), np.empty(0))
    means = _interval_means(margin)
    ends = [-np.inf, *norm.ppf(np.minimum(np.cumsum(shares)[:-1], 1.0)), np.inf]

    def polynomial(z: float, degree: int) -> float:
        """Normalised, by the textbook series and no recursion."""
        series = np.polynomial.hermite_e.hermeval(z, [0.0] * degree + [1.0])
        return float(series / np.sqrt(float(np.prod(np.arange(1.0, degree + 1)))))

    coefficients = hermite_coefficients(margin)
    assert coefficients.size == TERMS
    for degree in (1, 2, 3, 7):
        integral = sum(
            mean * quad(lambda z, d=degree: polynomial(z, d) * norm.pdf(z), low, high)[0]
            for mean, (low, high) in zip(means, pairwise(ends), strict=True)
            if low < high
        )
        assert coefficients[degree - 1] == pytest.approx(integral, abs=1e-7)


def test_the_series_is_the_mean_product_of_two_columns_of_categories() -> None:
    shares, rho = np.array([0.2, 0.5, 0.3]), 0.6
    margin = _margin_of(1000 * shares, np.arange(3), np.empty(0))
    coefficients = hermite_coefficients(margin)
    series = float(np.sum(coefficients**2 * rho ** np.arange(1, TERMS + 1)))
    # Cell by cell from scipy's bivariate normal distribution.
    ends = np.array([-9.0, *norm.ppf([0.2, 0.7]), 9.0])
    joint = multivariate_normal([0, 0], [[1, rho], [rho, 1]])
    below = np.array([[joint.cdf([a, b]) for b in ends] for a in ends])
    cells = np.diff(np.diff(below, axis=0), axis=1)
    means = _interval_means(margin)
    assert series == pytest.approx(float(means @ cells @ means), abs=1e-5)


def test_margins_and_dependence_of_a_large_release_are_those_of_the_source() -> None:
    z = latent(0.7, 5000)
    source = pd.DataFrame({"a": np.exp(z[:, 0]), "b": z[:, 1] ** 3, "c": cut(z[:, 0], 0.3)})
    release = prepared(source, rows=50_000).draw(Seed(1))
    for name in ("a", "b"):
        # Both are samples: of 5,000 and 50,000, about .019 apart at one in twenty.
        assert kstest(release[name], source[name]).statistic < 0.03
    assert spearmanr(release["a"], release["b"]).statistic == pytest.approx(
        spearmanr(source["a"], source["b"]).statistic, abs=0.03
    )
    for name in ("a", "b"):
        by_category = source.groupby("c")[name].median()
        assert np.allclose(release.groupby("c")[name].median(), by_category, atol=0.25)


def test_interpolated_numbers_lie_between_training_ones_and_empirical_ones_are_these() -> None:
    source = pd.DataFrame({"x": [0.0, 1.0, 10.0, 10.5]})
    between = prepared(source, rows=500).draw(Seed(1))["x"]
    assert not between.isin(source["x"]).all()
    assert between.between(0.0, 10.5).all()
    assert (
        prepared(source, rows=500, margins="empirical").draw(Seed(1))["x"].isin(source["x"]).all()
    )


def test_an_empirical_margin_has_every_training_number_alike() -> None:
    source = pd.DataFrame({"x": [0.0, 1.0, 10.0, 10.5]})
    release = prepared(source, rows=40_000, margins="empirical").draw(Seed(3))
    counts = release["x"].value_counts()
    # Chi-squared with 3 degrees of freedom exceeds 30.66 once in a million (scipy's isf).
    assert float(((counts - 10_000.0) ** 2 / 10_000.0).sum()) < 30.66


@pytest.mark.parametrize("value", ["a", "b", "c"])
def test_a_condition_is_the_conditional_law_and_not_a_filter(value: str) -> None:
    z = latent(0.8, 4000)
    source = pd.DataFrame({"x": z[:, 0], "y": np.exp(z[:, 1]), "t": cut(z[:, 0], 0.2, 0.7)})
    free = prepared(source, rows=200_000).draw(Seed(1))
    kept = free[free["t"] == value]
    given = prepared(source, rows=20_000, condition={"column": "t", "value": value}).draw(Seed(2))
    assert len(given) == 20_000
    for name in ("x", "y"):
        # One in a million: 2.7 sqrt(1/20,000 + 1/n), with n at least 20,000 here.
        assert kstest(given[name], kept[name]).statistic < 0.028


def test_categories_lie_on_the_line_as_they_depend_on_other_columns() -> None:
    z = latent(0.9, 3000)
    source = pd.DataFrame({"x": z[:, 0], "t": cut(z[:, 1], 0.25, 0.25, 0.25, labels="mbzk")})
    by_dependence = prepared(source, rows=20_000).draw(Seed(1))
    by_label = prepared(source, rows=20_000, ordering="labels").draw(Seed(1))
    truth = source.groupby("t")["x"].mean()
    near = by_dependence.groupby("t")["x"].mean()
    assert np.allclose(near, truth, atol=0.12)
    assert not np.allclose(by_label.groupby("t")["x"].mean(), truth, atol=0.5)


def test_correlations_that_are_none_are_mended_and_others_left_alone() -> None:
    good = np.array([[1.0, 0.5], [0.5, 1.0]])
    assert _repaired(good) is good
    # Each pair is possible, the three together are not.
    bad = np.array([[1.0, 0.9, -0.9], [0.9, 1.0, 0.9], [-0.9, 0.9, 1.0]])
    mended = _repaired(bad)
    assert np.linalg.eigvalsh(mended)[0] > 0.1 * FLOOR
    np.testing.assert_array_equal(np.diag(mended), 1.0)
    np.linalg.cholesky(mended)


def test_pairs_that_contradict_each_other_are_drawn_all_the_same() -> None:
    # Pairwise complete rows: each pair is seen in other rows, and three signs cannot all hold.
    n = 300
    z = np.random.default_rng(5).normal(size=n)
    source = pd.DataFrame(np.full((n, 3), np.nan), columns=list("abc"))
    source.loc[:99, "a"], source.loc[:99, "b"] = z[:100], z[:100]
    source.loc[100:199, "b"], source.loc[100:199, "c"] = z[100:200], z[100:200]
    source.loc[200:, "a"], source.loc[200:, "c"] = z[200:], -z[200:]
    release = prepared(source, rows=1000).draw(Seed(1))
    assert release.shape == (1000, 3)


def test_rows_with_a_missing_number_do_not_loosen_its_correlations() -> None:
    z = latent(0.8, 20_000)
    source = pd.DataFrame({"a": z[:, 0], "b": z[:, 1]})
    source.loc[np.random.default_rng(1).random(20_000) < 0.6, "a"] = np.nan
    generator = prepared(source)
    assert generator._once is not None
    order = [(column.slot.kind, column.slot.index) for column in generator._columns]
    assert order == [("number", 0), ("code", 0), ("number", 1)]
    assert abs(generator._once.correlations[0, 2] - 0.8) < 0.02
    assert abs(generator._once.correlations[0, 1]) < 1e-6  # nothing tells how these depend


def test_columns_that_are_missing_together_are_so_in_the_release() -> None:
    z = latent(0.0, 2000)
    source = pd.DataFrame({"a": z[:, 0], "b": z[:, 1]})
    source.loc[:599, ["a", "b"]] = np.nan
    release = prepared(source, rows=20_000).draw(Seed(1))
    apart = (release["a"].isna() != release["b"].isna()).mean()
    assert apart < 0.001
    assert abs(release["a"].isna().mean() - 0.3) < 0.02


def test_a_copy_of_a_column_stays_one() -> None:
    x = np.random.default_rng(1).normal(size=2000)
    source = pd.DataFrame({"x": x, "copy": 2 * x, "t": cut(x, 0.5), "u": cut(x, 0.5)})
    release = prepared(source, rows=5000).draw(Seed(1))
    assert np.allclose(release["copy"], 2 * release["x"], atol=0.02)
    assert (release["t"] != release["u"]).mean() < 0.002


def test_many_different_values_take_the_first_term_alone() -> None:
    counts = np.ones(FEW + 1)
    coefficients = hermite_coefficients(_margin_of(counts, np.arange(FEW + 1), np.empty(0)))
    assert 0.98 < coefficients[0] < 1.0
    assert not coefficients[1:].any()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"margins": "normal"}, 'copula: margins is "interpolated" or "empirical", got'),
        ({"ordering": "random"}, 'copula: ordering is "dependence" or "labels", got'),
        ({"rows": 0}, "copula: rows is a whole number"),
    ],
)
def test_options_that_mean_nothing_are_refused(options: dict[str, Any], words: str) -> None:
    with pytest.raises(RegistryError, match=words):
        Copula(**options)


def test_constant_columns_have_no_correlation_and_leave_the_others_theirs() -> None:
    z = latent(0.7, 2000)
    source = pd.DataFrame({"a": z[:, 0], "b": z[:, 1]})
    alone = prepared(source)._once
    constant = source.assign(same=1.0, only="x", more=2.0)
    beside = prepared(constant)._once
    assert alone is not None
    assert beside is not None
    np.testing.assert_array_equal(beside.correlations[:2, :2], alone.correlations)
    np.testing.assert_array_equal(beside.correlations[2:, :2], 0.0)
