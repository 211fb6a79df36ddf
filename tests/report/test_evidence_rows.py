"""A page shows the requirements nearest to their limits where there are thousands."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

import proxyguard as pg
from proxyguard.documents.evidence import Derived, GroupEvidence
from proxyguard.report import html as picker
from proxyguard.report.evidence import left_out, nearest_limits, requirement_table
from proxyguard.report.sources import sources_of


def group_of(requirements: int, releases: int = 3, **changes: Any) -> GroupEvidence:
    """Upper bounds that come closer to the limit .5 with each requirement."""
    upper = np.tile(np.linspace(0.1, 0.6, requirements), (releases, 1))
    derived = {
        "estimates": (upper - 0.05).tolist(),
        "lower": (upper - 0.1).tolist(),
        "upper": upper.tolist(),
    }
    return GroupEvidence.model_construct(
        requirements=[f"cell {j}" for j in range(requirements)],
        limits=["0.5"] * requirements,
        releases=[str(r) for r in range(releases)],
        derived=Derived.model_construct(**{**derived, **changes}),
    )


def test_few_requirements_are_all_shown_in_their_order() -> None:
    group = group_of(12)
    assert nearest_limits(group, 12) == list(range(12))
    assert left_out(group, 12) == ""


def test_of_many_those_with_the_least_room_are_shown_and_the_rest_is_named() -> None:
    group = group_of(300)
    assert nearest_limits(group, 4) == [296, 297, 298, 299]
    words = left_out(group, 4)
    assert "the 4 of 300 requirements" in words
    assert "report.csv" in words


def test_room_is_measured_against_the_width_of_the_bounds() -> None:
    # The second lies .35 below its limit as the first .4, but its bounds are ten times as wide.
    group = group_of(3, upper=[[0.10, 0.15, 0.05]], lower=[[0.00, -0.85, -0.05]])
    assert nearest_limits(group, 1) == [1]


def test_a_list_of_releases_has_the_columns_that_are_asked_for() -> None:
    units = ["", "", "", "", " kg"]
    columns, rows = picker._estimates(group_of(5), nearest_limits(group_of(5), 2), units)
    assert columns == ["release", "cell 3 (limit 0.5)", "cell 4 (limit 0.5 kg)"]
    assert [len(row) for row in rows] == [3, 3, 3]


def test_a_table_of_requirements_says_each_thing_in_a_column_of_its_own() -> None:
    losses = np.random.default_rng(1).random((3, 1200, 1))
    limit = pg.Requirement(name="risk", low=0.0, high=1.0, limit=0.6)
    sources = sources_of(pg.certify(losses, [limit], reliability_target=0.5, seed=1))
    ((name, group),) = sources.groups.items()
    # One upper bound that a double alone tells from the limit, one on it, one above it.
    derived = group.derived.model_copy(update={"upper": ((0.6 - 2e-16,), (0.6,), (0.7,))})
    near = {name: group.model_copy(update={"derived": derived})}
    shown = requirement_table(replace(sources, groups=near), name)
    assert shown.columns == (
        "requirement", "limit", "records", "least estimate", "mean", "largest",
        "largest upper bound, simultaneous for all",
        "estimates below the limit", "upper bounds below it", "test",
    )  # fmt: skip
    (row,) = shown.rows
    assert row[2] == "1,200"
    assert row[6:9] == ("0.7000", "3 of 3", "1 of 3")
    only = derived.model_copy(update={"upper": ((0.6 - 2e-16,),) * 3})
    alone = {name: group.model_copy(update={"derived": only})}
    (row,) = requirement_table(replace(sources, groups=alone), name).rows
    assert row[6] == "just below 0.6"
