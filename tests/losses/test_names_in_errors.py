"""Errors name records, releases and mechanisms of any type."""

from __future__ import annotations

import numpy as np
import pytest

import proxyguard as pg

LOSS = pg.Requirement(name="loss", low=0, high=1, limit=0.2, slack=0.042)


def test_ids_and_strata_of_any_type_can_be_named() -> None:
    values = np.full((1, 4, 1), 0.1)
    strata = np.array(["a", "a", "b", "b"], dtype=object)  # a pandas column
    design = pg.Stratified(sizes={"a": 2, "b": 2}, weights={"a": "1/4", "b": "3/4"})
    pg.certify(
        values, [LOSS], design=design, records=pg.Records(strata=strata), reliability_target=0.8
    )


def test_an_object_id_is_named_in_the_error() -> None:
    values = np.full((1, 4, 1), 0.1)
    values[0, 2] = 7.0
    ids = np.array(["p", "q", "r", "s"], dtype=object)
    with pytest.raises(pg.LossOutOfBounds, match="record r "):
        pg.certify(values, [LOSS], records=pg.Records(ids=ids), reliability_target=0.8)


def test_a_value_in_a_separate_batch_names_its_release() -> None:
    batches = [pg.LossArray(np.full((1, 9, 1), 0.1)) for _ in range(3)]
    batches[2].values[0, 4, 0] = 2.0
    with pytest.raises(pg.LossOutOfBounds, match="release 2, record 4"):
        pg.certify(
            pg.LossBatches(batches), [LOSS], mode="collective", dependence="independent",
            reliability_target=0.8,
        )  # fmt: skip


def test_sizes_for_another_number_of_requirements_are_a_mismatch() -> None:
    with pytest.raises(pg.LossMismatch):
        pg.Moments(n=[5, 6], mean=[[0.1]])


def test_the_error_names_the_mechanism_of_a_family() -> None:
    bad = np.zeros((3, 20, 1))
    bad[1, 2] = 3.0
    with pytest.raises(pg.LossOutOfBounds, match="second"):
        pg.certify({"first": np.zeros((3, 20, 1)), "second": bad}, [LOSS], reliability_target=0.8)


def test_a_mismatch_names_its_mechanism_or_member() -> None:
    good, wide = np.zeros((3, 20, 1)), np.zeros((3, 20, 2))
    with pytest.raises(pg.LossMismatch, match=r"^second: .*2 requirements, 1 are registered"):
        pg.certify({"first": good, "second": wide}, [LOSS], reliability_target=0.8)
    with pytest.raises(pg.LossMismatch, match=r"^second: .*2 requirements, 1 are registered"):
        pg.certify_releases(
            {"first": pg.NamedReleases(good, [LOSS]), "second": pg.NamedReleases(wide, [LOSS])}
        )
    with pytest.raises(pg.LossMismatch, match=r"^the losses have 2 requirements"):
        pg.certify(wide, [LOSS], reliability_target=0.8)
