"""The exact test of a share: each release has its own answer, and so its own limit."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom

from proxyguard.errors import LossMismatch
from proxyguard.evidence.component import component_pvalues
from proxyguard.evidence.direct import score_by_pvalue
from proxyguard.evidence.releases import evidence_of
from proxyguard.losses.cell import Column, Reading
from proxyguard.registry.claim import Claim
from proxyguard.registry.design import Clustered, Iid
from proxyguard.registry.requirement import Form, Requirement
from proxyguard.registry.test import ComponentTest, default_test

BINOMIAL = ComponentTest.BINOMIAL


def share(limit: float = 0.03, name: str = "share") -> Requirement:
    return Requirement(name=name, low=-1, high=1, limit=limit, form=Form.QUERY, indicator=True)


def column(count: list[int], n: int, answer: list[float]) -> Column:
    counts, answers = np.array(count), np.array(answer)
    mean = (counts / n - answers + 1.0) / 2.0
    variance = counts / n * (1 - counts / n) * n / (n - 1) / 4.0
    return Column(n=n, mean=mean, variance=variance, count=counts, answer=answers)


def test_a_share_is_tested_exactly_unless_records_come_in_clusters() -> None:
    assert default_test(Iid(), share()) is BINOMIAL
    assert BINOMIAL.objections(Iid(), share()) == []
    clustered = Clustered(weighting="cluster")
    assert default_test(clustered, share()) is not BINOMIAL


def test_the_pvalues_are_binomial_tails_at_the_answer_plus_the_limit() -> None:
    own = column([200, 260, 300], 1000, [0.2, 0.25, 0.25])
    validation, violation = component_pvalues(own, share(), BINOMIAL, Iid())
    limits = np.array([0.23, 0.28, 0.28])
    counts = np.array([200, 260, 300])
    # scipy.stats.binom, its tails at answer + limit; the guards move them by less than 1e-9.
    np.testing.assert_allclose(validation, binom.cdf(counts, 1000, limits), rtol=1e-9)
    np.testing.assert_allclose(violation, binom.sf(counts - 1, 1000, limits), rtol=1e-9)
    assert np.all(validation >= binom.cdf(counts, 1000, limits))


@given(
    st.integers(1, 60),
    st.floats(0.0, 1.0),
    st.floats(0.001, 0.5),
    st.floats(0.001, 0.5),
)
def test_an_invalid_share_is_rarely_called_valid(
    n: int, answer: float, limit: float, alpha: float
) -> None:
    truth = answer + limit  # exactly at the limit, which is not valid
    counts = np.arange(n + 1)
    own = column([*counts.tolist()], max(n, 2), [answer] * (n + 1)) if n > 1 else Column(
        n=1, mean=np.zeros(2), variance=np.zeros(2), count=counts, answer=np.full(2, answer)
    )  # fmt: skip
    validation, violation = component_pvalues(own, share(limit), BINOMIAL, Iid())
    if truth > 1.0:
        assert np.all(violation == 1.0)  # no share is that large: every release is valid
        return
    chances = binom.pmf(counts, n, truth)
    assert chances[validation <= alpha].sum() <= alpha * (1 + 1e-9)
    assert chances[violation <= alpha].sum() <= alpha * (1 + 1e-9)


def test_an_answer_that_no_share_can_exceed_by_the_limit_is_valid_for_certain() -> None:
    # Nobody is in a cell that the release answers with 0.01: outside it are all, and 0.99 + 0.03
    # is more than 1.
    own = column([1000, 1000], 1000, [0.99, 0.96])
    validation, violation = component_pvalues(own, share(), BINOMIAL, Iid())
    assert validation[0] < 1e-300
    assert violation[0] == 1.0
    assert validation[1] == 1.0  # 0.96 + 0.03 = 0.99, and every record is there


def test_statistics_without_counts_are_refused() -> None:
    bare = Column(n=10, mean=np.array([0.5]), variance=np.array([0.1]))
    with pytest.raises(LossMismatch, match="needs counts and answers"):
        component_pvalues(bare, share(), BINOMIAL, Iid())


def test_evidence_of_many_requirements_is_that_of_each() -> None:
    rng = np.random.default_rng(20261115)
    requirements = [share(name=f"cell {j}") for j in range(5)] + [share(0.1, "wide")]
    requirements.append(Requirement(name="risk", low=0, high=1, limit=0.3))
    answers = rng.uniform(0.1, 0.6, size=(6, 4))
    columns = [column(rng.integers(20, 120, size=4).tolist(), 200, row.tolist()) for row in answers]
    columns.append(Column(n=150, mean=rng.random(4), variance=rng.random(4) / 9))
    tests = (BINOMIAL,) * 5 + (ComponentTest.EMPIRICAL_BERNSTEIN,) * 2

    def read(chosen: list[int]) -> Reading:
        return Reading(
            requirements=tuple(requirements[j] for j in chosen), design=Iid(),
            tests=tuple(tests[j] for j in chosen), level=0.01, violation_level=0.01,
        )  # fmt: skip

    names = ("a", "b", "c", "d")
    whole = evidence_of(tuple(columns), read([*range(7)]), releases=names, bounds_level=0.001)
    for j in range(7):
        one = evidence_of((columns[j],), read([j]), releases=names, bounds_level=0.001)
        for what in ("pvalues", "violation_pvalues", "estimates", "lower", "upper"):
            np.testing.assert_array_equal(getattr(whole, what)[:, j], getattr(one, what)[:, 0])
        assert whole.bounds_tests[j] == one.bounds_tests[0]


def test_the_score_of_shares_has_no_ceiling_below_its_threshold() -> None:
    # A binomial test with one limit attains few p-values; the limits of shares differ by release.
    reading = Reading(
        requirements=(share(),), design=Iid(), tests=(BINOMIAL,), level=0.01, violation_level=0.01
    )
    own = evidence_of((column([2], 20, [0.2]),), reading, releases=("a",), bounds_level=0.001)
    assert score_by_pvalue(own, threshold=0.01).kappa == 0.01


def test_modes_that_need_single_records_do_not_count_shares() -> None:
    block = Claim.of({"reliability_target": "0.8", "alpha": "0.05", "mode": "block",
                      "block_size": 100})  # fmt: skip
    assert block.tests(Iid(), [share()]) == (ComponentTest.BETTING,)
    named = Claim.of({"reliability_target": "0.8", "alpha": "0.05", "mode": "block",
                      "block_size": 100, "test": "binomial"})  # fmt: skip
    assert any("binomial has no blocks of" in reason for reason in named.supports(Iid(), [share()]))
