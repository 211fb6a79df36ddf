"""Picking releases after looking holds at its budget, over all mechanisms and choices at once."""

from __future__ import annotations

from fractions import Fraction
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from proxyguard.certificate.picks import picks_record, read_picks
from proxyguard.exact.evalues import largest_invalid_count
from proxyguard.registry.parts import Picks

pytestmark = pytest.mark.guarantee

ALPHA, RELEASES, MECHANISMS, TRIALS = 0.2, 12, 3, 3000
# One threshold at the local level makes the bound exact: the law below attains the budget.
BUDGETS = {"at the boundary": Picks(alpha="0.2", thresholds=("1/15",)),
           "default": Picks(alpha="0.2")}  # fmt: skip


def simulate(rng: np.random.Generator) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return (valid, p-values) of each mechanism; all invalid releases of one share their luck."""
    found = []
    for _ in range(MECHANISMS):
        valid = np.arange(RELEASES) < RELEASES // 3
        pvalues = np.where(valid, 1e-9, rng.random())
        found.append((valid, pvalues))
    return found


def evidence(pvalues: np.ndarray) -> Any:
    names = tuple(str(r) for r in range(pvalues.size))
    return SimpleNamespace(releases=names, n_releases=len(names), release_pvalues=pvalues)


def misled(found: list[tuple[np.ndarray, np.ndarray]], picks: Picks, **wrong: Any) -> bool:
    """Whether some choice that flatters the releases gets a count above the truth."""
    groups = {str(i): evidence(p) for i, (_, p) in enumerate(found)}
    counts = read_picks(picks_record(picks, groups, counted=False, **wrong))
    for i, (valid, pvalues) in enumerate(found):
        for chosen in (~valid, np.ones(RELEASES, dtype=bool), pvalues < ALPHA):
            names = np.flatnonzero(chosen).astype(str)
            if counts[str(i)].of(names) > np.sum(valid & chosen):
                return True
    return False


@pytest.mark.parametrize("name", BUDGETS)
def test_every_choice_in_every_mechanism_at_once(
    name: str, within_budget: Any, repeat: Any
) -> None:
    trials = repeat(TRIALS)
    rng = np.random.default_rng(611)
    errors = sum(misled(simulate(rng), BUDGETS[name]) for _ in range(trials))
    assert within_budget(errors, trials, ALPHA)
    if name == "at the boundary":
        assert errors > 0.8 * ALPHA * trials  # 1 - (1 - .2/3)^3 = .187 by independence


def test_twin_every_mechanism_at_the_whole_budget(beyond_doubt: Any, repeat: Any) -> None:
    # The local share dropped: each mechanism at .2 instead of .2/3, 1 - .8^3 = .488 in all.
    trials = repeat(TRIALS)
    rng = np.random.default_rng(612)
    whole = Picks(alpha="0.2", thresholds=("0.2",))
    errors = 0
    for _ in range(trials):
        errors += any(misled([one], whole) for one in simulate(rng))
    assert beyond_doubt(errors, trials, ALPHA)


def test_twin_without_the_releases_outside(beyond_doubt: Any, repeat: Any) -> None:
    # The outside sum dropped: the chosen ones judged as if there were no others. Single
    # releases with p-values of their own then mislead as often as the luckiest of them does.
    trials = repeat(TRIALS)
    rng = np.random.default_rng(613)
    alpha = Fraction(1, 5)
    with_outside = without = 0
    for _ in range(trials):
        pvalues = rng.random(RELEASES)  # all invalid
        record = picks_record(
            Picks(alpha="0.2", thresholds=("0.1", "0.01")), {"0": evidence(pvalues)},
            counted=False,
        )  # fmt: skip
        count = read_picks(record)["0"]
        best = str(int(np.argmin(pvalues)))
        with_outside += count.of([best]) > 0
        own = count.evalues[int(best)]
        without += 1 - largest_invalid_count([own], alpha=alpha) > 0
    assert beyond_doubt(without, trials, ALPHA)
    assert with_outside <= ALPHA * trials
