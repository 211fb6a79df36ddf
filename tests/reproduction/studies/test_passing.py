"""Decisions from counts of passing releases are those of the core."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxyguard.exact.binomial import clopper_pearson_lower
from proxyguard.exact.evalues import largest_invalid_count, mixture_evalues
from proxyguard.exact.mean import bentkus_pvalue
from proxyguard.exact.multiplicity import holm
from proxyguard.modes.planning import least_recognized
from reproduction.studies import passing

PVALUES = st.lists(st.floats(0.0, 0.1), min_size=1, max_size=25)


@given(PVALUES, st.floats(0.001, 0.3), st.data())
def test_holm_by_jumps_recognizes_what_holm_recognizes(
    row: list[float], alpha: float, data: st.DataObject
) -> None:
    needed = data.draw(st.integers(1, len(row) + 1))
    block = np.array([row, row[::-1]])
    expected = int(holm(row, alpha=alpha).sum()) >= needed
    reached = passing.holm_reaches(
        passing.pvalue_passing(block), (2, len(row)), alpha=alpha, needed=needed
    )
    assert reached.tolist() == [expected, expected]


def test_holm_stops_at_the_first_step_that_fails() -> None:
    # Levels .05/3, .05/2, .05: the second step fails although the third would hold.
    count = passing.pvalue_passing(np.array([[0.01, 0.03, 0.04]]))
    reaches = [
        bool(passing.holm_reaches(count, (1, 3), alpha=0.05, needed=k)[0]) for k in (1, 2, 3)
    ]
    assert reaches == [True, False, False]


@given(
    st.integers(0, 40), st.integers(1, 40),
    st.sampled_from([(1, 100, 45, 1000), (1, 50, 1, 20), (1, 1000, 1, 25)]),
)  # fmt: skip
def test_the_most_invalid_count_is_the_cores(
    scores: int, releases: int, parts: tuple[int, int, int, int]
) -> None:
    scores = min(scores, releases)
    t, alpha = Fraction(*parts[:2]), Fraction(*parts[2:])
    pvalues = np.where(np.arange(releases) < scores, 0.0, 1.0)
    expected = largest_invalid_count(mixture_evalues(pvalues, thresholds=[t]), alpha=alpha)
    found = passing.most_invalid(np.array([scores]), releases, threshold=t, alpha=alpha)
    assert found.tolist() == [expected]


@pytest.mark.parametrize("limit", [0.2, 0.35, 0.55])
@pytest.mark.parametrize("level", [1e-6, 0.001, 0.02, 0.2])
def test_bentkus_cutoffs_are_where_the_p_value_crosses_the_level(
    limit: float, level: float
) -> None:
    (cutoff,) = passing.bentkus_cutoffs(300, limit, np.array([level]))
    assert bentkus_pvalue(cutoff - 1e-9, 300, limit) <= level
    assert bentkus_pvalue(cutoff + 1e-9, 300, limit) > level


def test_no_mean_passes_a_level_below_every_p_value() -> None:
    # P(Bin(5, .5) = 0) = 1/32, the least p-value there is.
    assert passing.bentkus_cutoffs(5, 0.5, np.array([0.03]))[0] < 0.0
    assert bentkus_pvalue(0.0, 5, 0.5) > 0.03


def test_the_least_count_is_the_first_whose_limit_is_above_the_target() -> None:
    least = least_recognized(100, target=0.8, alpha=0.05)
    assert least == 87  # theory section 2: oracle labels, 87 of 100
    assert clopper_pearson_lower(least, 100, alpha=0.05) > 0.8
    assert clopper_pearson_lower(least - 1, 100, alpha=0.05) <= 0.8
    assert least_recognized(5, target=0.8, alpha=0.05) == 6  # .05^(1/5) = .549: no count is enough


def test_an_allowance_of_one_leaves_nothing_to_rescale() -> None:
    scores = np.array([0, 100])
    rescaled = passing.rescaled_validates(scores, 100, allowance=1.0, level=0.005, target=0.8)
    assert not rescaled.any()
