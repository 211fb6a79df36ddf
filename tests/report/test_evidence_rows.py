"""A page shows the requirements nearest to their limits where there are thousands."""

from __future__ import annotations

from dataclasses import replace
from math import ceil
from typing import Any

import numpy as np

import proxyguard as pg
from proxyguard.documents.evidence import Derived, GroupEvidence
from proxyguard.report import html as picker
from proxyguard.report.evidence import by_room, left_out, nearest_limits, requirement_table
from proxyguard.report.sources import sources_of


def group_of(requirements: int, releases: int = 3, **changes: Any) -> GroupEvidence:
    """Estimates that come closer to the limit .5 with each requirement."""
    estimates = np.tile(np.linspace(0.05, 0.55, requirements), (releases, 1))
    derived = {
        "estimates": estimates.tolist(),
        "pvalues": np.minimum(1.0, 2 * estimates).tolist(),
        "violation_pvalues": (1.0 - estimates).tolist(),
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


def test_room_is_measured_by_p_values_and_a_release_that_fails_in_all_tells_nothing() -> None:
    failed = [[1.0, 1.0, 1.0]]
    pvalues, violations = [[0.01, 0.2, 0.01], *failed], [[0.9, 0.7, 0.6], [0.0, 0.0, 0.0]]
    group = group_of(3, pvalues=pvalues, violation_pvalues=violations)
    assert by_room(group) == [1, 0, 2]
    # Of p-values that are 1 alike, those of violations tell.
    group = group_of(3, pvalues=[[1.0, 0.3, 1.0]], violation_pvalues=[[0.4, 0.9, 0.01]])
    assert by_room(group) == [2, 0, 1]


def test_a_list_of_releases_has_the_columns_that_are_asked_for() -> None:
    units = ["", "", "", "", " kg"]
    columns, rows = picker._estimates(group_of(5), nearest_limits(group_of(5), 2), units)
    assert columns == ["release", "cell 3 (limit 0.5)", "cell 4 (limit 0.5 kg)"]
    assert [len(row) for row in rows] == [3, 3, 3]


def test_a_table_of_requirements_says_each_thing_in_a_column_of_its_own() -> None:
    losses = np.random.default_rng(1).random((3, 1200, 1))
    limit = pg.Requirement(name="risk", low=0.0, high=1.0, limit=0.6)
    sources = sources_of(
        pg.certify(losses, [limit], reliability_target=0.5, seed=1, test="hoeffding")
    )
    (name,) = sources.groups
    told = sources.told[name]
    shown = requirement_table(sources, name)
    assert shown.columns == (
        "requirement", "limit", "records", "least estimate", "mean", "largest",
        "estimates below the limit", "shown below the limit", "limit that all would meet", "test",
    )  # fmt: skip
    (row,) = shown.rows
    assert row[2] == "1,200"
    assert row[6:9] == ("3 of 3", "3 of 3", f"{ceil(1e4 * told.upper.max()) / 1e4:.4f}")
    # A limit that a double alone tells from the registered one.
    near = {name: told._replace(upper=np.full((3, 1), 0.6 - 2e-16))}
    (row,) = requirement_table(replace(sources, told=near), name).rows
    assert row[8] == "just below 0.6"
