"""What each design states, and that weights are exact."""

from __future__ import annotations

from fractions import Fraction

import pytest

from proxyguard.errors import RegistryError
from proxyguard.registry.design import (
    Clustered,
    Iid,
    Independent,
    Sampling,
    Stratified,
    Weighted,
    WithoutReplacement,
)


@pytest.mark.parametrize(
    "weights",
    [
        {"a": "1/3", "b": "2/3"},
        {"a": Fraction(1, 3), "b": Fraction(2, 3)},
        {"a": "0.1", "b": "0.9"},
        {"a": 0.1, "b": 0.9},
    ],
    ids=str,
)
def test_weights_that_sum_to_exactly_one_are_accepted(weights: dict[str, object]) -> None:
    design = Stratified(sizes={"a": 10, "b": 20}, weights=weights)  # type: ignore[arg-type]
    assert sum(design.weights.values()) == 1
    assert all(isinstance(w, Fraction) for w in design.weights.values())


@pytest.mark.parametrize(
    "weights",
    [
        {"a": "0.333", "b": "0.666"},
        {"a": 0.3333333333333333, "b": 0.6666666666666666},
        {"a": "0.5", "b": "0.5000000000000000001"},
        {"a": "0", "b": "1"},
        {"a": "-1/2", "b": "3/2"},
    ],
    ids=str,
)
def test_weights_that_do_not_are_refused(weights: dict[str, object]) -> None:
    with pytest.raises(RegistryError, match="sum to exactly 1"):
        Stratified(sizes={"a": 10, "b": 20}, weights=weights)  # type: ignore[arg-type]


def test_counts_of_the_population_are_weights() -> None:
    counts = {"a": 3_000_001, "b": 999_999}
    design = Stratified(sizes={"a": 10, "b": 20}, weights=counts)  # type: ignore[arg-type]
    assert design.weights == {"a": Fraction(3_000_001, 4_000_000), "b": Fraction(999_999, 4000000)}


def test_published_shares_that_are_rounded_are_told_by_their_sum() -> None:
    # Five digits each, of an agency's table of regions.
    shares = {"N": "0.30175", "E": "0.24826", "S": "0.21919", "W": "0.18077", "I": "0.05002"}
    with pytest.raises(RegistryError, match=r"and sum to 0\.99999; give .* as whole numbers") as no:
        Stratified(sizes=dict.fromkeys(shares, 5), weights=shares)  # type: ignore[arg-type]
    assert "1207" not in str(no.value)  # no fraction that nobody wrote


def test_every_stratum_needs_a_size_and_a_weight() -> None:
    with pytest.raises(RegistryError, match="must name every stratum"):
        Stratified(sizes={"a": 10}, weights={"a": "1/2", "b": "1/2"})
    with pytest.raises(RegistryError, match="at least 1"):
        Stratified(sizes={"a": 10, "b": 0}, weights={"a": "1/2", "b": "1/2"})


def test_proportional_weights_are_recognized_exactly() -> None:
    third = Stratified(sizes={"a": 100, "b": 200}, weights={"a": "1/3", "b": "2/3"})
    assert third.proportional
    assert third.sampling is Sampling.INDEPENDENT
    assert third.n_records == 300
    near = Stratified(sizes={"a": 100, "b": 200}, weights={"a": "0.3333", "b": "0.6667"})
    assert not near.proportional
    assert near.sampling is Sampling.WEIGHTED


def test_the_effective_size_is_the_papers_and_at_most_the_records() -> None:
    # 1/(w_a^2/n_a + w_b^2/n_b) of Eq. (17), by hand.
    design = Stratified(sizes={"a": 100, "b": 300}, weights={"a": "1/2", "b": "1/2"})
    assert design.effective_size == 1 / (Fraction(1, 400) + Fraction(1, 1200)) == 300
    proportional = Stratified(sizes={"a": 100, "b": 300}, weights={"a": "1/4", "b": "3/4"})
    assert proportional.effective_size == 400


def test_the_kind_of_sampling_follows_from_the_design() -> None:
    assert Iid().sampling is Iid(with_replacement=True).sampling is Sampling.IID
    assert Independent().sampling is WithoutReplacement(pool=5).sampling is Sampling.INDEPENDENT
    assert Clustered().sampling is Sampling.IID


def test_a_pool_needs_a_record() -> None:
    with pytest.raises(RegistryError, match="pool"):
        WithoutReplacement(pool=0)


def test_a_record_weighted_claim_over_clusters_needs_the_largest_size() -> None:
    assert Clustered(weighting="record", max_size=3).max_size == 3
    for size in (None, 0, -1):
        with pytest.raises(RegistryError, match="max_size"):
            Clustered(weighting="record", max_size=size)
    with pytest.raises(RegistryError, match="weighting"):
        Clustered(weighting="cluster-mean")


@pytest.mark.parametrize("bound", ["12.5", 12.5, Fraction(25, 2)], ids=str)
def test_the_largest_weight_is_exact(bound: Fraction) -> None:
    design = Weighted(max_weight=bound, origin="design")
    assert design.max_weight == Fraction(25, 2)
    assert design.sampling is Sampling.IID


def test_weights_that_depend_on_the_sample_are_refused_with_what_is_covered() -> None:
    with pytest.raises(RegistryError, match=r"calibrated on the sample.*strata whose weights"):
        Weighted(max_weight=Fraction(3), origin="calibrated")
