"""Picking releases after looking: the record of e-values and the bound that it stands for."""

from __future__ import annotations

import json
from fractions import Fraction
from itertools import combinations
from math import inf
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxyguard.certificate.picks import picks_record, read_picks
from proxyguard.documents.certificate import PicksRecord
from proxyguard.exact.evalues import mixture_evalues
from proxyguard.modes.count import ValidCount
from proxyguard.registry.parts import Picks


def evidence_of(pvalues: list[float]) -> Any:
    """Return what a record of picks reads of evidence."""
    names = tuple(f"r{i}" for i in range(len(pvalues)))
    return SimpleNamespace(
        releases=names, n_releases=len(names), release_pvalues=np.array(pvalues, dtype=float)
    )


def record_of(picks: Picks, *groups: list[float], counted: bool = False) -> PicksRecord:
    return picks_record(
        picks, {f"m{i}": evidence_of(p) for i, p in enumerate(groups)}, counted=counted
    )


def closed(evalues: list[Any], subset: tuple[int, ...], alpha: Fraction) -> int:
    """Return how many of a subset are valid at the least, by testing every intersection."""
    worst = 0
    for size in range(1, len(evalues) + 1):
        for chosen in combinations(range(len(evalues)), size):
            if sum(evalues[r] for r in chosen) < size / alpha:
                worst = max(worst, len(set(chosen) & set(subset)))
    return len(subset) - worst


PVALUES = st.sampled_from([0.0, 1e-6, 5e-5, 1e-4, 1e-3, 0.005, 0.01, 0.04, 0.05, 0.3, 1.0])


@given(st.lists(PVALUES, min_size=1, max_size=6), st.sampled_from([None, ("0.02", "0.0003")]))
def test_every_subset_agrees_with_brute_force_closed_testing(
    pvalues: list[float], thresholds: tuple[str, ...] | None
) -> None:
    picks = Picks(alpha="0.05", thresholds=thresholds)
    written = json.dumps(record_of(picks, pvalues).to_dict())
    record = PicksRecord.of(json.loads(written), "picks")  # as it is written and read
    count = read_picks(record)["m0"]
    alpha = Fraction(1, 20)
    evalues = mixture_evalues(pvalues, thresholds=picks.cutoffs(alpha))
    for size in range(len(pvalues) + 1):
        for subset in combinations(range(len(pvalues)), size):
            chosen = [count.releases[r] for r in subset]
            assert count.of(chosen) == closed(evalues, subset, alpha)


@given(st.lists(PVALUES, min_size=1, max_size=60), st.data())
def test_all_none_and_a_larger_choice(pvalues: list[float], data: st.DataObject) -> None:
    picks = Picks(alpha="0.05")
    count = read_picks(record_of(picks, pvalues))["m0"]
    exact = ValidCount(
        releases=count.releases, alpha=Fraction(1, 20),
        evalues=mixture_evalues(pvalues, thresholds=picks.cutoffs(Fraction(1, 20))),
    )  # fmt: skip
    assert count.of(count.releases) == count.at_least == exact.at_least
    assert count.of([]) == 0
    small = data.draw(st.sets(st.sampled_from(count.releases)))
    more = small | {data.draw(st.sampled_from(count.releases))}
    assert count.of(small) <= count.of(more) <= count.of(small) + 1


def test_the_cap_loses_nothing() -> None:
    # 3 releases at alpha = 1/2: 1/t = 1000 is capped at R/alpha = 6, as an infinite one is.
    picks = Picks(alpha="0.5", thresholds=("0.001",))
    record = record_of(picks, [0.0, 1.0, 1.0])
    assert record.mechanisms["m0"].evalues == ("6", "0", "0")
    capped = read_picks(record)["m0"]
    endless = ValidCount(releases=capped.releases, evalues=[inf, 0.0, 0.0], alpha=Fraction(1, 2))
    for size in range(4):
        for subset in combinations(capped.releases, size):
            assert capped.of(subset) == endless.of(subset)
    assert capped.of(["r0"]) == 1


def test_ties_are_decided_exactly() -> None:
    # t = alpha/R = 1/300 and one perfect release of three: E = 300 and two zeros have the
    # mean 100 = 1/alpha exactly, which is not below it (Bonferroni's count).
    record = record_of(Picks(alpha="0.01", thresholds=("1/300",)), [1e-9, 1.0, 1.0])
    assert read_picks(record)["m0"].of(["r0"]) == 1
    almost = record_of(Picks(alpha="0.01", thresholds=("0.00334",)), [1e-9, 1.0, 1.0])
    assert read_picks(almost)["m0"].of(["r0"]) == 0


def test_the_levels_of_the_groups_sum_to_the_budget_and_shares_are_kept() -> None:
    record = record_of(Picks(alpha="0.05"), [0.0], [1.0], [0.5])
    levels = [Fraction(*map(int, one.alpha)) for one in record.mechanisms.values()]
    assert levels == [Fraction(1, 60)] * 3
    shared = picks_record(
        Picks(alpha="0.05"), {"a": evidence_of([0.0]), "b": evidence_of([0.0])},
        counted=False, shares={"a": "0.9", "b": "0.1"},
    )  # fmt: skip
    assert shared.mechanisms["a"].alpha == ("9", "200")
    assert shared.mechanisms["b"].alpha == ("1", "200")


def test_an_e_value_count_is_told_that_its_own_budget_pays_too() -> None:
    plain = record_of(Picks(alpha="0.05"), [0.1]).sentence
    counted = record_of(Picks(alpha="0.05"), [0.1], counted=True).sentence
    assert plain.startswith("With 95 % confidence, for every choice of releases")
    assert "alpha_Z" in counted
    assert "alpha_Z" not in plain


@pytest.mark.parametrize(("thresholds", "fine"), [(("0.0166",), True), (("0.017",), False)])
def test_thresholds_under_which_nothing_could_count_are_refused(
    thresholds: tuple[str, ...], fine: bool
) -> None:
    # Three mechanisms at .05: it takes an e-value of 60, and 1/.017 is below that.
    reasons = Picks(alpha="0.05", thresholds=thresholds).objections(["a", "b", "c"], None)
    assert (not reasons) is fine
