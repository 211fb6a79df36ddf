"""Exposure counts on record: two directions where they are asked for, and nowhere else."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from proxyguard.documents.evidence import GroupEvidence
from proxyguard.errors import SealError
from proxyguard.evidence.component import component_pvalues
from proxyguard.evidence.record import check_counts, derived_record, evidence_record, read_evidence
from proxyguard.evidence.releases import ReleaseEvidence, evidence_of
from proxyguard.losses.cell import Reading, join_columns, share_column
from proxyguard.registry.design import Iid, Stratified
from proxyguard.registry.requirement import Form, Requirement
from proxyguard.registry.test import ComponentTest

BINOMIAL = ComponentTest.BINOMIAL


def exposure(**choices: Any) -> Requirement:
    return Requirement(
        name="told apart", low=-1, high=1, limit=0.1, form=Form.EXPOSURE, indicator=True,
        **{"thresholds": 20, **choices},
    )  # fmt: skip


def reading(requirement: Requirement, digits: int | None = None) -> Reading:
    return Reading(
        requirements=(requirement,), design=Iid(), tests=(BINOMIAL,), level=0.05,
        violation_level=0.05, digits=digits,
    )  # fmt: skip


def gathered(requirement: Requirement, digits: int | None = None) -> ReleaseEvidence:
    column = share_column(
        200,
        np.array([120, 31, 200]),
        np.array([0.6, 0.15, 0.0]),
        np.array([80, 177, 200]) if requirement.thresholds > 1 else None,
        np.array([0.4, 0.25, 0.0]) if requirement.two_directions else None,
    )
    return evidence_of((column,), reading(requirement, digits), releases=("a", "b", "c"))


def recorded(requirement: Requirement, digits: int | None = None) -> GroupEvidence:
    return evidence_record(gathered(requirement, digits))


@pytest.mark.parametrize("digits", [None, 2])
def test_counts_of_two_thresholds_are_read_back_as_they_were_written(digits: int | None) -> None:
    record, asked = recorded(exposure(), digits), reading(exposure(), digits)
    again = read_evidence(record, asked)
    check_counts(record, asked, 200)
    assert derived_record(again) == record.derived
    # The second release is violated at its other threshold, and by no count of the first.
    assert again.violation_pvalues[1, 0] < 1e-6 < 0.9 < again.violation_pvalues[0, 0]


@pytest.mark.parametrize(
    ("requirement", "drop"),
    [(exposure(thresholds=1), ()), (exposure(), ("answer_low",))],
    ids=["one direction", "two directions"],
)
def test_answers_of_another_number_of_directions_are_found(
    requirement: Requirement, drop: tuple[str, ...]
) -> None:
    written = recorded(exposure()).to_dict()
    for name in drop:
        del written["columns"][0][name]
    with pytest.raises(SealError, match="directions are on record"):
        read_evidence(GroupEvidence.of(written, "forged"), reading(requirement))


def test_a_sample_of_members_gives_one_count_and_two_answers() -> None:
    sampled = exposure(thresholds=1, member_error=0.001)
    written = recorded(sampled).to_dict()
    assert read_evidence(GroupEvidence.of(written, "sampled"), reading(sampled))
    written["columns"][0]["count_low"] = written["columns"][0]["count"]
    with pytest.raises(SealError, match="rounded"):
        read_evidence(GroupEvidence.of(written, "forged"), reading(sampled))


@pytest.mark.parametrize("name", ["answer", "answer_low"])
def test_an_answer_that_its_mean_does_not_follow_from_is_found(name: str) -> None:
    written = recorded(exposure()).to_dict()
    written["columns"][0][name][0] = 0.9
    with pytest.raises(SealError, match="does not follow"):
        check_counts(GroupEvidence.of(written, "forged"), reading(exposure()), 200)


def test_attacks_on_two_releases_flag_other_records_and_a_query_of_them_does_not() -> None:
    record = recorded(exposure())
    check_counts(record, reading(exposure()), 200)
    written = recorded(exposure(thresholds=1))
    query = Requirement(name="told apart", low=-1, high=1, limit=0.1, indicator=True)
    with pytest.raises(SealError, match="the same target has"):
        check_counts(written, reading(query), 200)


def test_a_threshold_that_the_target_chose_tells_of_its_own_limit_alone() -> None:
    for thresholds, known in ((2, False), (1, True)):
        told = gathered(exposure(thresholds=thresholds)).limits(0.01, 0.01)
        assert np.all(np.isfinite([told.lower, told.upper]) == known)


def test_two_directions_are_counted_and_no_other_test_has_them() -> None:
    assert BINOMIAL.objections(Iid(), exposure()) == []
    assert "it takes the binomial test" in ComponentTest.BETTING.objections(Iid(), exposure())[0]
    weighted = Stratified(sizes={"a": 5, "b": 5}, weights={"a": "0.9", "b": "0.1"})
    assert all(test.objections(weighted, exposure()) for test in ComponentTest)


def test_releases_that_could_not_be_attacked_stay_so_among_others() -> None:
    measured = share_column(240, np.array([200]), np.array([0.5]))
    unmeasured = replace(
        share_column(240, np.array([240]), np.array([0.0])), unmeasured=np.array([True])
    )
    joined = join_columns([measured, unmeasured])
    assert joined.unmeasured is not None
    assert joined.unmeasured.tolist() == [False, True]
    validation, violation = component_pvalues(joined, exposure(thresholds=1), BINOMIAL, Iid())
    assert (validation[1], violation[1]) == (1.0, 1.0)
    assert violation[0] < 0.01
