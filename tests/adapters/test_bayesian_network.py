"""The Bayesian network: the structure that was planted is found, and its law is sampled."""

from __future__ import annotations

from itertools import combinations, product
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chi2, kstest
from sklearn.metrics import mutual_info_score

from proxyguard.adapters import bayesian_network
from proxyguard.adapters.bayesian_network import MOST_CELLS, BayesianNetwork, _Counting
from proxyguard.draw.protocol import Seed
from proxyguard.errors import RegistryError


def text(values: Any) -> pd.Series:
    return pd.Series(np.asarray(values, dtype=object), dtype=object)


def prepared(source: pd.DataFrame, **options: Any) -> BayesianNetwork:
    generator = BayesianNetwork(**options)
    generator.prepare(source, np.random.default_rng(0))
    return generator


def structure(source: pd.DataFrame, **options: Any) -> dict[str, set[str]]:
    """The parents of each column by name, in the order of sampling."""
    fit = prepared(source, **options)._once
    assert fit is not None
    names = list(source.columns)
    return {names[k]: {names[p] for p in parents} for k, parents in fit.structure.items()}


def chain(n: int = 4000, seed: int = 1) -> pd.DataFrame:
    """Each column is the one before it, with a tenth of its rows drawn anew."""
    rng = np.random.default_rng(seed)
    columns = [rng.integers(0, 3, n)]
    for _ in range(4):
        anew = rng.random(n) < 0.1
        columns.append(np.where(anew, rng.integers(0, 3, n), columns[-1]))
    return pd.DataFrame(
        {f"c{k}": text(np.array(list("uvw"))[column]) for k, column in enumerate(columns)}
    )


def test_the_chain_that_was_planted_is_found() -> None:
    found = structure(chain()[["c3", "c0", "c4", "c2", "c1"]], degree=1)
    edges = {frozenset((child, parent)) for child, parents in found.items() for parent in parents}
    assert edges == {frozenset((f"c{k}", f"c{k + 1}")) for k in range(4)}
    assert [len(parents) for parents in found.values()] == [0, 1, 1, 1, 1]


@given(st.integers(0, 2**32 - 1))
def test_with_one_parent_no_tree_has_more_information(seed: int) -> None:
    rng = np.random.default_rng(seed)
    base = rng.integers(0, 4, (200, 2))
    values = [(base[:, k % 2] + rng.integers(0, 1 + k, 200)) % 4 for k in range(4)]
    source = pd.DataFrame(
        {f"c{k}": text([f"{v}" for v in column]) for k, column in enumerate(values)}
    )
    counting = _Counting([np.asarray(v, dtype=np.int64) for v in values], [4] * 4)
    information = {
        pair: counting.information(pair[0], (pair[1],)) for pair in combinations(range(4), 2)
    }
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bayesian_network, "NOISE", 0.0)  # every parent that tells anything is taken
        found = structure(source, degree=1)
    told = sum(
        information[tuple(sorted((int(child[1]), int(parent[1]))))]  # type: ignore[index]
        for child, parents in found.items()
        for parent in parents
    )
    trees = [edges for edges in combinations(information, 3) if len(set().union(*edges)) == 4]
    best = max(sum(max(0.0, information[edge]) for edge in edges) for edges in trees)
    assert told == pytest.approx(best, abs=1e-9)


def test_what_two_columns_tell_together_needs_two_parents() -> None:
    rng = np.random.default_rng(2)
    a, b = rng.integers(0, 3, 3000), rng.integers(0, 3, 3000)
    source = pd.DataFrame({"a": a, "b": b, "sum": a + b}).astype(str).astype(object)
    release = prepared(source, rows=5000, degree=2).draw(Seed(1)).astype(int)
    assert (release["a"] + release["b"] == release["sum"]).mean() > 0.98
    loose = prepared(source, rows=5000, degree=1).draw(Seed(1)).astype(int)
    assert (loose["a"] + loose["b"] == loose["sum"]).mean() < 0.7


@pytest.mark.parametrize("degree", [0, 1, 2, 4])
def test_no_column_has_more_parents_or_cells_than_is_declared(degree: int) -> None:
    for child, parents in structure(chain(), degree=degree, max_cells=27).items():
        assert len(parents) <= degree, child
        assert 3 ** (len(parents) + 1) <= 27
    assert all(not parents for parents in structure(chain(), max_cells=8).values())


def test_where_the_best_parent_has_too_many_categories_another_is_taken() -> None:
    rng = np.random.default_rng(3)
    code = rng.integers(0, 60, 5000)
    source = pd.DataFrame(
        {
            "many": text([f"m{k}" for k in code]),
            "copy": text([f"k{k}" for k in code]),
            "half": text(np.where(code < 30, "low", "high")),
        }
    )
    assert structure(source, max_cells=200)["half"] | structure(source, max_cells=200)["copy"]
    assert all(len(p) <= 1 for p in structure(source, max_cells=200).values())


@pytest.mark.parametrize(("bins", "most"), [(4, 12), (16, 6)])
def test_columns_that_are_independent_hardly_ever_have_parents(bins: int, most: int) -> None:
    rng = np.random.default_rng(4)
    parents = 0
    for _ in range(30):
        source = pd.DataFrame({f"x{k}": rng.normal(size=3000) for k in range(5)})
        parents += sum(len(p) for p in structure(source, degree=3, bins=bins).values())
    # Of 300 pairs a chi-squared number lies three standard deviations above its mean in one of a
    # hundred with 9 degrees of freedom, in one of three hundred with 225; the statistic of counts
    # is a little larger. Bounds of a chance below one in a thousand.
    assert parents <= most


@pytest.mark.parametrize("rows", [300, 3000])
def test_a_weak_dependence_is_a_parent_where_there_are_rows_enough(rows: int) -> None:
    z = np.random.default_rng(4).multivariate_normal([0, 0], [[1, 0.4], [0.4, 1]], size=rows)
    parents = structure(pd.DataFrame(z, columns=["a", "b"]), bins=6)
    assert sum(len(p) for p in parents.values()) == 1


def test_the_bias_that_is_taken_off_is_that_of_independent_columns() -> None:
    rng = np.random.default_rng(5)
    told = []
    for _ in range(300):
        x, y = rng.integers(0, 5, 400), rng.integers(0, 4, 400)
        told.append(_Counting([x, y], [5, 4]).information(0, (1,)))
    # Twice 400 times the information of 12 degrees of freedom: a standard deviation of
    # sqrt(24) / 800 a pair, and 17 times less of the mean.
    assert abs(np.mean(told)) < 5 * np.sqrt(24) / 800 / np.sqrt(300)
    assert mutual_info_score(x, y) > 0.0  # which is never below 0


@given(st.integers(0, 2**32 - 1), st.integers(1, 6), st.integers(1, 6))
def test_information_is_that_of_the_counts_less_its_bias(seed: int, r: int, c: int) -> None:
    rng = np.random.default_rng(seed)
    x, y = rng.integers(0, r, 50), rng.integers(0, c, 50)
    counting = _Counting([x, y], [r, c])
    bias = (len(set(x)) - 1) * (len(set(y)) - 1) / 100
    assert counting.information(0, (1,)) == pytest.approx(mutual_info_score(x, y) - bias, abs=1e-12)
    assert counting.information(1, (0,)) == pytest.approx(counting.information(0, (1,)), abs=1e-12)


def test_every_cell_of_parents_and_child_is_as_often_as_in_the_source() -> None:
    source = chain(1000)[["c0", "c1"]]
    release = prepared(source, rows=100_000, pseudocount="0").draw(Seed(20261116))
    shares = source.value_counts(normalize=True)
    counts = release.value_counts().reindex(shares.index, fill_value=0)
    assert counts.sum() == 100_000  # and no combination that the source has not
    statistic = float(((counts - 100_000 * shares) ** 2 / (100_000 * shares)).sum())
    assert statistic < chi2.isf(1e-6, len(shares) - 1)


def test_the_pseudocount_is_rows_of_the_column_s_own_shares() -> None:
    source = pd.DataFrame({"a": text(["u"] * 30 + ["v"] * 10), "b": text(["x"] * 30 + ["y"] * 10)})
    release = prepared(source, rows=200_000, pseudocount="10").draw(Seed(1))
    by_parent = pd.crosstab(release["a"], release["b"], normalize="index")
    if structure(source)["b"]:  # b is sampled given a
        expected = [[37.5 / 40, 2.5 / 40], [7.5 / 20, 12.5 / 20]]
        assert np.allclose(by_parent, expected, atol=0.01)
    else:
        by_parent = pd.crosstab(release["b"], release["a"], normalize="index")
        assert np.allclose(by_parent, [[37.5 / 40, 2.5 / 40], [7.5 / 20, 12.5 / 20]], atol=0.01)


@pytest.mark.parametrize("pseudocount", ["0", "1"])
def test_parents_that_no_training_row_has_give_the_column_s_own_shares(pseudocount: str) -> None:
    # Three columns of which no row has (u, u), sampled given columns that are nearly independent.
    generator = prepared(chain(300), degree=3, pseudocount=pseudocount)
    fit = generator._once
    assert fit is not None
    for step in fit.chances:
        size = generator._nodes[step.node].size
        sums = step.sums.reshape(-1, size)
        assert np.isfinite(sums).all()
        np.testing.assert_array_equal(sums[:, -1], np.arange(1, len(sums) + 1))
        assert (np.diff(sums, axis=1) >= 0).all()


def test_numbers_keep_their_law_and_dependence_up_to_their_bins() -> None:
    rng = np.random.default_rng(5)
    x = np.exp(rng.normal(size=5000))
    source = pd.DataFrame({"x": x, "y": np.log(x) + 0.3 * rng.normal(size=5000)})
    release = prepared(source, rows=50_000, bins=24).draw(Seed(1))
    for name in source:
        assert kstest(release[name], source[name]).statistic < 0.02
    ranks, source_ranks = release.rank(), source.rank()
    assert ranks["x"].corr(ranks["y"]) == pytest.approx(
        source_ranks["x"].corr(source_ranks["y"]), abs=0.02
    )


def test_within_a_bin_numbers_are_training_ones_or_anywhere() -> None:
    source = pd.DataFrame({"x": [0.0, 1.0, 5.0, 9.0, 9.5, 20.0]})
    empirical = prepared(source, rows=300, bins=2).draw(Seed(1))["x"]
    assert empirical.isin(source["x"]).all()
    uniform = prepared(source, rows=300, bins=2, within="uniform").draw(Seed(1))["x"]
    assert not uniform.isin(source["x"]).any()
    # Between 5 and 9 lies no bin: the lower one ends with its largest number.
    assert (uniform.between(0.0, 5.0) | uniform.between(9.0, 20.0)).all()


def test_registered_edges_are_where_bins_end() -> None:
    source = pd.DataFrame({"x": np.arange(100.0), "y": np.arange(100.0)})
    generator = prepared(source, edges={"x": ["10", 50, "500"]}, bins=4)
    assert generator._nodes[0].edges.tolist() == [10.0, 50.0]  # beyond 500 there is nothing
    assert generator._nodes[1].edges.tolist() == [25.0, 50.0, 75.0]
    assert generator.describe()["edges"] == {"x": ["10.0", "50.0", "500.0"]}


def test_a_number_that_half_of_the_rows_have_is_a_bin() -> None:
    x = np.concatenate([np.zeros(500), np.linspace(1, 2, 500)])
    release = prepared(pd.DataFrame({"x": x}), rows=20_000, bins=8).draw(Seed(1))
    # Five standard deviations.
    assert abs((release["x"] == 0).mean() - 0.5) < 5 * np.sqrt(0.25 / 20_000)


def test_missing_numbers_depend_on_other_columns_as_in_the_source() -> None:
    rng = np.random.default_rng(6)
    group = rng.random(4000) < 0.5
    x = np.where(group & (rng.random(4000) < 0.6), np.nan, rng.normal(size=4000))
    source = pd.DataFrame({"x": x, "g": text(np.where(group, "a", "b"))})
    for within, options in product(("empirical", "uniform"), ({}, {"bootstrap": True})):
        release = prepared(source, rows=10_000, within=within, **options).draw(Seed(1))
        shares = release["x"].isna().groupby(release["g"]).mean()
        assert abs(shares["a"] - 0.6) < 0.06
        assert shares["b"] < 0.02


def test_a_category_without_training_rows_is_never_sampled() -> None:
    source = pd.DataFrame({"a": text(["u"] * 99 + ["rare"]), "x": np.arange(100.0)})
    generator = prepared(source, train_rows=30, rows=2000, pseudocount="50")
    for seed in range(6):
        drawn = Seed(seed)
        release = generator.draw(drawn)
        assert drawn.members is not None
        assert ("rare" in set(release["a"])) == (99 in drawn.members)


def test_the_column_of_a_condition_is_the_root() -> None:
    for name in chain():
        found = structure(chain(), condition={"column": name, "equal": True})
        assert next(iter(found)) == name
        assert found[name] == set()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"degree": -1}, "degree is a whole number of at least 0"),
        ({"bins": 0}, "bins is a whole number of at least 1"),
        ({"within": "normal"}, 'within is "empirical" or "uniform", got'),
        ({"pseudocount": "-1"}, "pseudocount is a number of at least 0"),
        ({"max_cells": 0}, "max_cells is a whole number"),
        ({"max_cells": MOST_CELLS + 1}, "max_cells is at most 1,000,000, got 1,000,001"),
        ({"edges": ["x"]}, "edges gives numbers by column"),
        ({"edges": {"x": "1"}}, "edges of 'x' is a list of numbers"),
        ({"edges": {"x": ["2", "1"]}}, "edges of 'x' are numbers in rising order"),
        ({"edges": {"x": ["one"]}}, "an edge of 'x' is a number"),
    ],
)
def test_options_that_mean_nothing_are_refused(options: dict[str, Any], words: str) -> None:
    with pytest.raises(RegistryError, match=words):
        BayesianNetwork(**options)


def test_edges_of_a_column_that_holds_no_numbers_are_refused() -> None:
    with pytest.raises(RegistryError, match=r"edges names \['c0', 'z'\], which are no columns of"):
        prepared(chain(50), edges={"c0": [1], "z": [1]})
