"""Input of the wrong kind is refused in our own words, wherever it comes in."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import proxyguard as pg

LOSS = pg.Requirement(name="loss", low=0, high=1, limit=0.2)
ZEROS = np.zeros((2, 10, 1))
IDS = pg.Records(ids=np.arange(10))
MASKED = np.ma.masked_array(ZEROS, mask=ZEROS < 1)


def certify(losses: Any, **choices: Any) -> Any:
    return pg.certify(losses, [LOSS], reliability_target=0.8, seed=1, **choices)


@pytest.mark.parametrize(
    ("call", "named"),
    [
        (lambda: pg.FavorableScore([LOSS], threshold=0.01)(MASKED), "masked"),
        (lambda: pg.CandidateStream([LOSS]).submit(MASKED[0], IDS), "masked"),
        (lambda: pg.CandidateStream([LOSS]).submit([[1], [1, 2]], IDS), "rectangular"),
        (lambda: pg.CandidateStream([LOSS]).submit(ZEROS[0], None), "needs Records"),
        (lambda: pg.Records(clusters=["a", None]), "clusters: record 1 has no label"),
        (lambda: certify({"a": ZEROS, "b": ZEROS[0, 0]}), "^b: losses must be"),
        (lambda: certify({"a": ZEROS, "b": ZEROS}, shares=3), "shares map names"),
        (lambda: pg.Stratified(sizes={"a": 1}, weights=[1]), "weights map strata"),
        (lambda: pg.Stratified(sizes={"a": "x"}, weights={"a": 1}), "whole number"),
        (lambda: pg.Stratified(sizes={"a": 1.5}, weights={"a": 1}), "whole number"),
        (lambda: pg.Clustered(weighting="record", max_size="a"), "whole number"),
        (lambda: pg.LossBatches([ZEROS]), "each batch scores one release"),
        (lambda: pg.Moments(n=3, mean=[["a"]]), "real numbers"),
        (lambda: pg.Requirement(name=3, low=0, high=1, limit=0.2), "needs a name, got 3"),
        (lambda: pg.Requirement(name="a", low=0, high=1, limit=1j), "must be a number"),
        (lambda: pg.certify_releases({"": pg.NamedReleases(ZEROS, [LOSS])}), "must be a name"),
    ],
)
def test_what_is_of_the_wrong_kind_is_refused_by_name(call: Callable[[], Any], named: str) -> None:
    with pytest.raises(pg.ProxyGuardError, match=named):
        call()


def test_whole_numbers_of_numpy_are_whole_numbers() -> None:
    assert pg.WithoutReplacement(pool=np.int64(5)).pool == 5
    assert pg.Clustered(weighting="record", max_size=np.int32(7)).max_size == 7


def test_a_member_without_a_design_is_iid() -> None:
    member = pg.NamedReleases(np.zeros((1, 400, 1)), [LOSS], design=None)
    assert pg.certify_releases({"a": member}, seed=1).validated == ("a/0",)


@pytest.mark.parametrize("alpha", ["1e-10", "4e-10", "7e-10"])
def test_tiny_levels_can_be_printed(alpha: str) -> None:
    many = np.zeros((200, 400, 1))
    text = str(certify(many, alpha=alpha))
    assert "With 99.9999999" in text
    assert "100 %" not in text.split("Evidence")[0]


def test_a_mean_far_from_zero_is_refused_where_its_records_are_not() -> None:
    far = pg.Requirement(name="far", low=1e6, high=1e6 + 1, limit=1e6 + 0.2)
    records = np.full((2, 500, 1), 1e6)
    choices: dict[str, Any] = {"reliability_target": 0.5, "test": "hoeffding", "seed": 1}
    assert np.all(pg.certify(records, [far], **choices).evidence.estimates == 1e6)
    with pytest.raises(pg.LossMismatch, match="starts near 0"):
        pg.certify(pg.Moments(n=500, mean=records.mean(axis=1)), [far], **choices)
