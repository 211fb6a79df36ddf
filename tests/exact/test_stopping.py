"""When a sequential audit stops: against every score sequence, the crossing chance, and draws."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proxyguard.certificate.sequential import SequentialAudit
from proxyguard.exact.sequential import (
    Boundary,
    crossing_paths,
    crossing_probability,
    sharp_boundary,
    stopping,
)
from proxyguard.modes.evidence import Decision
from proxyguard.modes.sequential import SequentialPlan

Array = np.ndarray


def boundary_of(looks: list[int], counts: list[int]) -> Boundary:
    return Boundary(np.array(looks), np.array(counts), 0.05, 0.05)


def ends(scores: Array, boundary: Boundary, *, futility: bool) -> tuple[int, bool]:
    """Return the draws after which one sequence of scores stops, and whether it crossed."""
    looks, counts = boundary.looks.tolist(), boundary.counts.tolist()
    sums = np.cumsum(scores)
    for i, (look, count) in enumerate(zip(looks, counts, strict=True)):
        have = int(sums[look - 1])
        if have >= count:
            return look, True
        later = zip(looks[i + 1 :], counts[i + 1 :], strict=True)
        if futility and not any(have + (b - look) >= c for b, c in later):
            return look, False
    return looks[-1], False


@settings(max_examples=25)
@given(st.sets(st.integers(1, 9), min_size=1, max_size=5), st.booleans(), st.data())
def test_the_law_of_draws_agrees_with_all_score_sequences(
    looks: set[int], futility: bool, data: st.DataObject
) -> None:
    grid = sorted(looks)
    boundary = boundary_of(grid, [data.draw(st.integers(0, look + 1)) for look in grid])
    rates = np.array([0.0, 0.3, 0.85, 1.0])
    crossing, draws = np.zeros((rates.size, len(grid))), np.zeros(rates.size)
    for scores in product([0, 1], repeat=grid[-1]):
        stop, crossed = ends(np.array(scores), boundary, futility=futility)
        chance = rates ** sum(scores) * (1 - rates) ** (grid[-1] - sum(scores))
        draws += chance * stop
        if crossed:
            crossing[:, grid.index(stop)] += chance
    found = stopping(boundary, rates, futility=futility)
    # Sums of at most 512 products of doubles.
    np.testing.assert_allclose(found.crossing, crossing, rtol=1e-12, atol=1e-15)
    np.testing.assert_allclose(found.expected_draws, draws, rtol=1e-12, atol=0.0)
    np.testing.assert_allclose(found.validation, crossing.sum(axis=1), rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("kappa", [0.0, 0.003, 0.01])
def test_validation_is_the_crossing_chance_with_and_without_futility(kappa: float) -> None:
    boundary = sharp_boundary(range(20, 301, 20), target=0.8, kappa=kappa, alpha=0.05)
    assert boundary is not None
    rates = np.array([0.0, 0.5, 0.8, 0.86, 0.9, 0.95, 1.0])
    paths = crossing_paths(boundary.looks, boundary.counts)
    expected = crossing_probability(paths, rates)
    for futility in (True, False):
        found = stopping(boundary, rates, futility=futility)
        # Counted paths add logarithms of size 200, each rounded.
        np.testing.assert_allclose(found.validation, expected, rtol=1e-10, atol=1e-15)
    # Monotone in the score rate: crossing is an increasing event (theory section 5).
    assert np.all(np.diff(expected) > -1e-15)


def test_futility_saves_draws_and_never_a_validation() -> None:
    boundary = sharp_boundary(range(25, 201, 25), target=0.8, kappa=0.01, alpha=0.05)
    assert boundary is not None
    rates = np.array([0.5, 0.8, 0.9])
    with_rule, without = (stopping(boundary, rates, futility=f) for f in (True, False))
    np.testing.assert_allclose(with_rule.validation, without.validation, rtol=1e-12)
    assert not without.futile.any()
    assert np.all(with_rule.expected_draws < without.expected_draws)
    # At a score rate of one half the audit is over long before its last look.
    assert with_rule.expected_draws[0] < 100 < without.expected_draws[0]
    total = with_rule.crossing.sum(axis=1) + with_rule.futile.sum(axis=1)
    assert np.all(total <= 1.0 + 1e-12)


@pytest.mark.parametrize("futility", [True, False])
def test_sequential_audits_stop_when_the_law_says(futility: bool) -> None:
    looks = tuple(range(15, 121, 15))
    plan = SequentialPlan(
        looks=looks, reliability_target=0.8, kappa=0.005, futility=futility
    )  # fmt: skip
    boundary = sharp_boundary(looks, target=0.8, kappa=0.005, alpha=0.05)
    assert boundary is not None
    rng = np.random.default_rng(20260821)
    rate, audits = 0.9, 400
    draws, validated = np.zeros(audits), np.zeros(audits, dtype=bool)
    for one in range(audits):
        audit = SequentialAudit(plan)
        scores = rng.random(looks[-1]) < rate
        seen = 0
        for look in looks:
            audit.add(scores[seen:look])
            seen = look
            if audit.finished:
                break
        draws[one], validated[one] = seen, audit.decision is Decision.VALIDATED
    found = stopping(boundary, rate, futility=futility)
    error = draws.std(ddof=1) / audits**0.5
    # 4 standard errors: one seed in 15,000 fails.
    assert abs(draws.mean() - float(found.expected_draws[0])) < 4 * error
    chance = float(found.validation[0])
    assert abs(validated.mean() - chance) < 4 * (chance * (1 - chance) / audits) ** 0.5
    assert 0.3 < chance < 0.95  # else the comparison says little


def test_expected_draws_are_those_of_theory_section_5() -> None:
    boundary = sharp_boundary(range(25, 1001, 25), target=0.8, kappa=0.01, alpha=0.05)
    assert boundary is not None
    found = stopping(boundary, [0.90, 0.95], futility=True).expected_draws
    # Theory section 5: 108 and 51 draws on average. The schedule of looks behind them is not
    # written down there; looks every 25 come within 10 %.
    assert found.tolist() == pytest.approx([108.0, 51.0], rel=0.10)


@pytest.mark.parametrize("rate", [-0.1, 1.1, np.nan])
def test_a_score_rate_outside_its_range_is_refused(rate: float) -> None:
    with pytest.raises(ValueError, match="score rates"):
        stopping(boundary_of([5], [4]), rate)
