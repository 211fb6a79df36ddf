"""A page shows the requirements nearest to their limits where there are thousands."""

from __future__ import annotations

from typing import Any

import numpy as np

from proxyguard.documents.evidence import Derived, GroupEvidence
from proxyguard.report import html as picker
from proxyguard.report.evidence import left_out, nearest_limits


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
