"""Choices that cannot be honoured are refused before any loss is read."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import proxyguard as pg

LOSS = pg.Requirement(name="loss", low=0, high=1, limit=0.2, slack=0.042)


class Untouchable:
    def __iter__(self) -> Iterator[Any]:
        raise AssertionError("the losses were read")


def unread() -> pg.LossStream:
    return pg.LossStream(
        chunks=Untouchable(), n_releases=40, n_records=100, n_requirements=1, random_order=True
    )


def test_blocks_of_clusters_are_refused_or_work() -> None:
    reasons = pg.supports(
        [LOSS], design=pg.Clustered(), mode="block", block_size=2, reliability_target=0.8
    )
    if not reasons:
        certificate = pg.certify(
            np.full((3, 50, 1), 0.1), [LOSS], design=pg.Clustered(), mode="block", block_size=2,
            records=pg.Records(clusters=np.repeat(np.arange(10), 5)), reliability_target=0.8,
        )  # fmt: skip
        assert dict(certificate.lower.steps)["blocks"] == 5


@pytest.mark.parametrize(
    "choices",
    [
        {"mode": "count", "calibrator": "capital", "test": "bentkus"},
        {"test": "betting_fixed", "stakes": [2]},
        {"bounds_level": 3},
        {"bounds_level": 0},
        {"mode": "count", "thresholds": ["0.01", 2]},
    ],
    ids=str,
)
def test_a_choice_that_cannot_be_honoured_is_refused_unread(choices: dict[str, Any]) -> None:
    with pytest.raises((pg.RegistryError, pg.UnsupportedDesign)):
        pg.certify(unread(), [LOSS], reliability_target=0.8, **choices)


@pytest.mark.parametrize(
    ("requirement", "design"),
    [
        (pg.Requirement(name="g", low=0, high=1, limit=0.2, group="g"), pg.Iid()),
        (LOSS, pg.Clustered()),
    ],
    ids=["subgroup", "clusters"],
)
def test_betting_on_a_stream_of_unknown_size_is_refused_unread(
    requirement: pg.Requirement, design: Any
) -> None:
    with pytest.raises(pg.UnsupportedDesign, match="in advance"):
        pg.certify(unread(), [requirement], design=design, reliability_target=0.8)


def test_an_unknown_form_is_a_registry_error_that_lists_the_options() -> None:
    with pytest.raises(pg.RegistryError, match="'absolute'"):
        pg.Requirement(name="e", low=0, high=1, limit=0.2, form="relativ")  # type: ignore[arg-type]
