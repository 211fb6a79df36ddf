"""The exact test of a share: each release has its own answer, and so its own limit."""

from __future__ import annotations

from fractions import Fraction
from math import comb
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom

import proxyguard as pg
from proxyguard.documents.evidence import GroupEvidence
from proxyguard.errors import LossMismatch, SealError
from proxyguard.evidence.component import component_pvalues
from proxyguard.evidence.record import Size, check_counts, evidence_record
from proxyguard.evidence.releases import evidence_of
from proxyguard.losses.cell import Column, Reading
from proxyguard.modes.claim import Claim
from proxyguard.modes.direct import score_by_pvalue
from proxyguard.registry.design import Clustered, Iid, Independent, Stratified
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
    whole = evidence_of(tuple(columns), read([*range(7)]), releases=names)
    for j in range(7):
        one = evidence_of((columns[j],), read([j]), releases=names)
        for what in ("pvalues", "violation_pvalues", "estimates"):
            np.testing.assert_array_equal(getattr(whole, what)[:, j], getattr(one, what)[:, 0])


def test_the_score_of_shares_has_no_ceiling_below_its_threshold() -> None:
    # A binomial test with one limit attains few p-values; the limits of shares differ by release.
    reading = Reading(
        requirements=(share(),), design=Iid(), tests=(BINOMIAL,), level=0.01, violation_level=0.01
    )
    own = evidence_of((column([2], 20, [0.2]),), reading, releases=("a",))
    assert score_by_pvalue(own, threshold=0.01).kappa == 0.01


def test_modes_that_need_single_records_do_not_count_shares() -> None:
    block = Claim.of({"reliability_target": "0.8", "alpha": "0.05", "mode": "block",
                      "block_size": 100})  # fmt: skip
    assert block.tests(Iid(), [share()]) == (ComponentTest.BETTING,)
    named = Claim.of({"reliability_target": "0.8", "alpha": "0.05", "mode": "block",
                      "block_size": 100, "test": "binomial"})  # fmt: skip
    assert any("binomial has no blocks of" in reason for reason in named.supports(Iid(), [share()]))


def test_a_limit_that_doubles_round_up_is_not_taken_for_a_larger_one() -> None:
    # 563/600 + 0.061666666 is 1 - 6.7e-10, and the sum of the two doubles lies above it: at that
    # sum the chance of 16 or fewer of 20 is understated by 3e-7 of it.
    answer, limit = Fraction(563, 600), Fraction("0.061666666")
    v = answer + limit
    assert Fraction(float(answer) + float(limit)) > v
    exact = 1 - sum(comb(20, k) * (1 - v) ** k * v ** (20 - k) for k in range(4))
    own = column([16], 20, [float(answer)])
    validation, _ = component_pvalues(own, share(float(limit)), BINOMIAL, Iid())
    assert exact <= Fraction(float(validation[0])) < exact * Fraction("1.01")


@pytest.mark.parametrize(
    "design",
    [Independent(), Stratified(sizes={"a": 6, "b": 6}, weights={"a": "0.5", "b": "0.5"})],
    ids=["independent", "strata"],
)
def test_shares_of_two_strata_are_rarely_called_valid_at_their_limit(design: Any) -> None:
    # Every count of two binomials of 6 records each, whose average is exactly at the limit.
    counts = np.arange(13)
    rng = np.random.default_rng(20261116)
    rates = np.concatenate([rng.random((300, 2)), rng.random((100, 2)).round(), [[0.75, 0.25]]])
    for one, two in rates:
        truth = (one + two) / 2
        answer = truth * rng.uniform(0.1, 0.9)
        if not 0.0 < truth - answer < 1.0:
            continue
        chances = np.convolve(binom.pmf(np.arange(7), 6, one), binom.pmf(np.arange(7), 6, two))
        own = column(counts.tolist(), 12, [answer] * 13)
        for pvalues in component_pvalues(own, share(truth - answer), BINOMIAL, design):
            for level in np.unique(pvalues):
                assert chances[pvalues <= level].sum() <= level * (1 + 1e-9)


def test_a_binomial_tail_near_its_limit_is_no_pvalue_of_strata() -> None:
    # One stratum with rate 1, one with rate 0: the count is 6 of 12 for certain, at the limit.
    # The binomial tail P(Bin(12, 1/2) <= 6) = 0.613 would be below 1 with certainty.
    own = column([6], 12, [0.3])
    iid, _ = component_pvalues(own, share(0.2), BINOMIAL, Iid())
    strata, violation = component_pvalues(own, share(0.2), BINOMIAL, Independent())
    np.testing.assert_allclose(iid, binom.cdf(6, 12, 0.5), rtol=1e-9)
    assert (strata.tolist(), violation.tolist()) == ([1.0], [1.0])


def together_and_apart(columns: list[Column], requirements: list[Requirement], test: Any) -> None:
    """See that each requirement has the evidence that it has alone."""
    names = tuple(f"r{i}" for i in range(columns[0].mean.size))

    def read(chosen: list[int]) -> Any:
        reading = Reading(
            requirements=tuple(requirements[j] for j in chosen), design=Iid(),
            tests=(test,) * len(chosen), level=0.01, violation_level=0.01,
        )  # fmt: skip
        own = tuple(columns[j] for j in chosen)
        return evidence_of(own, reading, releases=names)

    whole = read([*range(len(columns))])
    for j in range(len(columns)):
        one = read([j])
        for what in ("pvalues", "violation_pvalues", "estimates"):
            np.testing.assert_array_equal(getattr(whole, what)[:, j], getattr(one, what)[:, 0])


def test_shares_with_one_test_and_different_limits_keep_their_own() -> None:
    own = column([60, 70], 200, [0.3, 0.35])
    together_and_apart([own, own], [share(0.03, "a"), share(0.1, "b")], BINOMIAL)


def test_shares_of_different_numbers_of_records_keep_their_own() -> None:
    columns = [column([60, 70], 200, [0.3, 0.35]), column([60, 70], 250, [0.3, 0.35])]
    together_and_apart(columns, [share(0.03, "a"), share(0.03, "b")], BINOMIAL)


def test_clusters_of_different_sizes_keep_their_own() -> None:
    mean = np.array([0.3, 0.4])
    columns = [Column(n=100, mean=mean, variance=mean / 9, size_share=s) for s in (0.5, 0.8)]
    risks = [Requirement(name=name, low=0, high=1, limit=0.5) for name in "ab"]
    together_and_apart(columns, risks, ComponentTest.HOEFFDING)


def test_losses_of_a_share_that_were_computed_elsewhere_are_certified() -> None:
    # They do not say what the release answered: betting reads them, as any bounded mean.
    rng = np.random.default_rng(7)
    losses = (rng.random((20, 1500, 1)) < 0.2) - 0.2
    claim = {"reliability_target": "0.6", "alpha": "0.05"}
    assert pg.supports([share(0.1)], **claim) == []
    found = pg.certify(losses, [share(0.1)], seed=1, **claim)
    assert found.evidence.tests == (ComponentTest.BETTING,)
    assert found.decision is pg.Decision.VALIDATED
    refused = ["binomial needs losses declared two_valued, and 'share' is not"]
    assert pg.supports([share(0.1)], test="binomial", **claim) == refused
    with pytest.raises(pg.UnsupportedDesign, match="binomial needs losses declared two_valued"):
        pg.certify(losses, [share(0.1)], test="binomial", **claim)


RECORDED = Reading(
    requirements=(share(),), design=Iid(), tests=(BINOMIAL,), level=0.01, violation_level=0.01
)


def recorded(**changes: Any) -> GroupEvidence:
    """Return the record of a cell that holds 250 of 1,000 records; the third draw failed."""
    own = column([250, 250, 1000], 1000, [0.2, 0.25, 0.0])
    made = evidence_of((own,), RECORDED, releases=("a", "b", "c"))
    record = evidence_record(made).to_dict()
    record["columns"][0] |= changes
    record["columns"][0] = {k: v for k, v in record["columns"][0].items() if v is not None}
    return GroupEvidence.of(record, "the evidence")


def test_the_record_of_a_share_agrees_with_itself() -> None:
    check_counts(recorded(), RECORDED, 1000)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"answer": [0.3, 0.25, 0.0]}, "mean does not follow from counts and answers"),
        ({"mean": [0.5, 0.5, 1.0]}, "mean does not follow from counts and answers"),
        ({"variance": [0.01, 0.01, 0.0]}, "variance does not follow from counts and answers"),
        ({"count": [240, 250, 1000]}, "the same target has"),
        ({"count": [250, 250, 1001]}, "beyond what there can be"),
        ({"answer": [1.2, 0.25, 0.0]}, "beyond what there can be"),
        ({"answer": [float("nan"), 0.25, 0.0]}, "is nan, which is no number"),
    ],
)  # fmt: skip
def test_a_changed_statistic_of_a_share_is_found(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(SealError, match=message):
        check_counts(recorded(**changes), RECORDED, 1000)


def test_answers_without_their_counts_are_found() -> None:
    with pytest.raises(SealError, match="some are missing"):
        check_counts(recorded(count=None), RECORDED, 1000)


def test_requirements_of_one_name_are_named_and_no_others() -> None:
    asked = [share(name="a"), share(name="b"), share(name="a")]
    claim = Claim.of({"reliability_target": "0.8", "alpha": "0.05"})
    assert claim.supports(Iid(), asked) == [
        "requirement names must differ, and there is more than one of ['a']"
    ]
    assert claim.supports(Iid(), asked[:2]) == []


def test_a_group_that_has_two_sizes_is_found() -> None:
    group = {requirement.group for requirement in RECORDED.requirements}
    check_counts(recorded(), RECORDED, 1000, dict.fromkeys(group, Size(1000, None)))
    with pytest.raises(SealError, match="for another requirement of the same group"):
        check_counts(recorded(), RECORDED, 1000, dict.fromkeys(group, Size(999, None)))
