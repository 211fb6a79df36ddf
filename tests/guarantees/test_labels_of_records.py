"""Records that depend on each other: what their labels are for (theory section 1)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import proxyguard as pg

pytestmark = pytest.mark.guarantee

LOSS = pg.Requirement(name="error", low=0, high=1, limit=0.2)
CLUSTERS, SIZE, RELEASES, TRIALS = 40, 25, 30, 150
LABELS = np.repeat(np.arange(CLUSTERS), SIZE)
CHOICES: dict[str, Any] = {"reliability_target": 0.8, "alpha": "0.05", "beta": None}


def at_the_limit(rng: np.random.Generator) -> NDArray[np.float64]:
    """Releases that all have mean exactly .2, on records that are alike within a cluster.

    No release is valid, so whatever is validated is false. A cluster is lost or kept as a
    whole, by every release alike.
    """
    lost = np.repeat(rng.random(CLUSTERS) < 0.2, SIZE).astype(float)
    return np.broadcast_to(lost[None, :, None], (RELEASES, CLUSTERS * SIZE, 1))


def false_validations(**choices: Any) -> int:
    rng = np.random.default_rng(20261116)
    return sum(
        pg.certify(at_the_limit(rng), [LOSS], seed=trial, **choices, **CHOICES).decision
        is pg.Decision.VALIDATED
        for trial in range(TRIALS)
    )


def test_declared_clusters_keep_the_budget_and_undeclared_ones_are_refused(
    within_budget: Callable[..., bool],
) -> None:
    records = pg.Records(clusters=LABELS)
    errors = false_validations(records=records, design=pg.Clustered())
    assert within_budget(errors, TRIALS, 0.05)
    with pytest.raises(pg.LossMismatch, match="dependent records would count as independent"):
        false_validations(records=records)


def test_twin_without_the_labels_breaks_the_budget(beyond_doubt: Callable[..., bool]) -> None:
    assert beyond_doubt(false_validations(), TRIALS, 0.05)
