"""Figures that describe a release are those of counting by hand."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from proxyguard.exposure.attacks import AttackSuite
from proxyguard.exposure.descriptive import (
    LEVELS,
    Copies,
    auc,
    describe_release,
    found_at,
    random_release,
)
from proxyguard.exposure.representation import Representation, Rows
from proxyguard.registry.exposure import AttackPart


def people(n: int, seed: int) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    age = np.round(rng.normal(45.0, 15.0, n), 2)
    age[rng.random(n) < 0.1] = np.nan
    job = rng.choice(np.array(["cook", "clerk", "driver", None], dtype=object), n)
    return pd.DataFrame(
        {"age": age, "job": pd.Series(job, dtype=object), "pay": rng.normal(size=n)}
    )


def test_copies_are_rows_that_agree_in_every_column() -> None:
    members = pd.DataFrame({"a": [1.0, np.nan, 0.0, 2.0], "b": ["x", None, "y", "z"]})
    release = pd.DataFrame(
        {"a": [1.0, 1.0, np.nan, -0.0, 2.0, 2.0], "b": ["x", "y", "", "y", "new", "z"]}
    )
    copies = Copies(members)
    assert copies.among(release).tolist() == [True, False, True, True, False, True]
    assert copies.released(release).tolist() == [True, True, True, True]
    assert copies.released(release.iloc[:2]).tolist() == [True, False, False, False]


def test_a_bootstrap_is_all_copies_and_a_random_release_hardly_one() -> None:
    members, others, reference = people(300, 1), people(200, 2), people(250, 3)
    fitted = Representation.fit(reference)
    rng = np.random.default_rng(4)
    chosen = rng.integers(0, 300, 300)
    rows = [Rows(frame, fitted) for frame in (members.iloc[chosen], members, others)]
    drawn = describe_release(*rows)
    assert (drawn.rows, drawn.copies) == (300, 300)
    assert drawn.copied_members == len(set(chosen.tolist()))
    assert (drawn.identical_members, drawn.identical_others) == (1.0, 0.0)
    assert drawn.member_distances[LEVELS.index(0.5)] == 0.0 < drawn.other_distances[0]
    release = Rows(random_release(reference, 300, 5), fitted)
    baseline = describe_release(release, *rows[1:])
    assert (baseline.copies, baseline.copied_members) == (0, 0)
    assert baseline.identical_members == 0.0 < baseline.member_distances[0]


def test_distance_curves_are_quantiles_of_the_smallest_distances() -> None:
    release, members, others = (
        pd.DataFrame(np.random.default_rng(k).normal(size=(40, 3))).add_prefix("x")
        for k in range(3)
    )
    fitted = Representation.fit(others)
    drawn = describe_release(*(Rows(frame, fitted) for frame in (release, members, others)))
    s, m = fitted.points(release), fitted.points(members)
    nearest = [min(float(np.linalg.norm(x - y)) for y in s) for x in m]
    np.testing.assert_allclose(drawn.member_distances, np.quantile(nearest, LEVELS))


def test_a_random_release_keeps_columns_and_loses_their_dependence() -> None:
    rng = np.random.default_rng(7)
    x = rng.normal(size=2000)
    reference = pd.DataFrame({"x": x, "y": x, "t": np.where(x > 0, "up", "down")})
    drawn = random_release(reference, 3000, 8)
    assert list(drawn.columns) == ["x", "y", "t"]
    assert len(drawn) == 3000
    assert set(drawn["x"]) <= set(x)
    assert abs(np.corrcoef(drawn["x"], drawn["y"])[0, 1]) < 0.1
    assert drawn.equals(random_release(reference, 3000, 8))
    assert not drawn.equals(random_release(reference, 3000, 9))


def test_attacks_see_a_bootstrap_and_not_a_random_release() -> None:
    members, others, reference = people(300, 1), people(300, 2), people(250, 3)
    fitted = Representation.fit(reference)
    attacks = {kind: AttackPart(kind=kind) for kind in ("dcr", "calibrated dcr")}
    known = [Rows(frame, fitted) for frame in (reference, members, others)]
    areas = {}
    for name, frame in (
        ("bootstrap", members.sample(300, replace=True, random_state=1)),
        ("random", random_release(reference, 300, 2)),
    ):
        suite = AttackSuite.fit(attacks, Rows(frame, fitted), known[0], known[1], 5)
        inside, outside = suite.scores(known[1]), suite.scores(known[2])
        areas[name] = [auc(inside[attack], outside[attack]) for attack in attacks]
    assert min(areas["bootstrap"]) > 0.75
    assert max(abs(area - 0.5) for area in areas["random"]) < 0.1


def test_the_auc_counts_pairs_and_half_of_ties() -> None:
    rng = np.random.default_rng(3)
    members, others = (rng.integers(0, 6, n).astype(float) for n in (30, 40))
    pairs = [(a > b) + 0.5 * (a == b) for a in members for b in others]
    assert auc(members, others) == pytest.approx(np.mean(pairs))


def test_the_share_found_is_at_a_score_of_the_others() -> None:
    others = np.arange(100.0)
    assert found_at(np.array([98.0, 99.0, 100.0, 0.0]), others, (0.0, 0.01, 1.0)) == (
        0.5, 0.5, 1.0,
    )  # fmt: skip
