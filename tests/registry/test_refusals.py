"""Choices that cannot be honoured are refused before any loss is read."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from decimal import Decimal
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


ZEROS = np.zeros((3, 40, 1))


def certify(losses: Any = ZEROS, requirements: Any = (LOSS,), **choices: Any) -> Any:
    return pg.certify(losses, requirements, **({"reliability_target": 0.8} | choices))


# What is of the wrong type, and the error and words that say so.
WRONG_TYPES: dict[str, tuple[Callable[[], Any], Any, str]] = {
    "one requirement": (lambda: certify(requirements=LOSS), pg.RegistryError, "list of Req"),
    "names of requirements": (lambda: certify(requirements=["loss"]), pg.RegistryError, "list of"),
    "design by name": (lambda: certify(design="iid"), pg.RegistryError, "got 'iid'"),
    "design class": (lambda: certify(design=pg.Iid), pg.RegistryError, "design is one of"),
    "negative seed": (lambda: certify(seed=-1), pg.RegistryError, "negative"),
    "negative numpy seed": (lambda: certify(seed=np.int64(-1)), pg.RegistryError, "negative"),
    "seed in between": (lambda: certify(seed=1.5), pg.RegistryError, "whole number"),
    "text seed": (lambda: certify(seed="1"), pg.RegistryError, "whole number"),
    "numbered mechanism": (lambda: certify({1: ZEROS}), pg.RegistryError, "names of mech"),
    "nameless mechanism": (lambda: certify({"": ZEROS}), pg.RegistryError, "names of mech"),
    "text limit": (
        lambda: pg.Requirement(name="x", low=0, high=1, limit="0.1"),  # type: ignore[arg-type]
        pg.RegistryError,
        "x: limit must be a number",
    ),
    "text pool": (
        lambda: pg.WithoutReplacement(pool="a"),  # type: ignore[arg-type]
        pg.RegistryError,
        "pool",
    ),
    "text weight": (
        lambda: pg.Stratified(sizes={"a": 1}, weights={"a": "x"}),  # type: ignore[dict-item]
        pg.RegistryError,
        "number, got 'x'",
    ),
    "one stake": (lambda: certify(stakes=0.5), pg.RegistryError, "stakes must be a list"),
    "text stake": (
        lambda: certify(stakes=["a"]),
        pg.RegistryError,
        r"stakes\[0\] must be a number",
    ),
    "one of thresholds": (
        lambda: certify(mode="count", thresholds=0.1),
        pg.RegistryError,
        "thresholds must be a list",
    ),
    "float block": (lambda: certify(mode="block", block_size=2.0), pg.RegistryError, "block_size"),
    "true block": (lambda: certify(mode="block", block_size=True), pg.RegistryError, "block_size"),
    "infinite alpha": (lambda: certify(alpha=Decimal("inf")), pg.RegistryError, "number"),
    "no alpha": (lambda: certify(alpha=None), pg.RegistryError, "number"),
    "list of members": (
        lambda: pg.certify_releases([pg.NamedReleases(ZEROS, [LOSS])]),  # type: ignore[arg-type]
        pg.RegistryError,
        "names to members",
    ),
    "losses as member": (
        lambda: pg.certify_releases({"a": ZEROS}),  # type: ignore[dict-item]
        pg.RegistryError,
        "'a' must be a name",
    ),
    "mode of releases": (
        lambda: pg.certify_releases({"a": pg.NamedReleases(ZEROS, [LOSS])}, mode="named"),
        pg.RegistryError,
        "no mode 'named'",
    ),
    **{
        f"stream of {size!r}": (
            lambda size=size: pg.LossStream(
                chunks=[], n_releases=1, n_records=size, n_requirements=1
            ),
            pg.LossMismatch,
            "n_records must be a whole number",
        )
        for size in (0, 2.0, "3", True, None)
    },
    "missing id": (
        lambda: certify(records=pg.Records(ids=[None, *map(str, range(39))])),
        pg.LossMismatch,
        "records.ids: record 0 has no label",
    ),
}


@pytest.mark.parametrize("case", WRONG_TYPES)
def test_a_value_of_another_type_is_refused_in_words(case: str) -> None:
    call, error, said = WRONG_TYPES[case]
    with pytest.raises(error, match=said):
        call()


def test_a_numpy_seed_is_a_seed() -> None:
    made = certify(seed=np.int64(7)).to_dict()
    assert json.loads(json.dumps(made)) == made == certify(seed=7).to_dict()
    assert made["seed"] == 7
