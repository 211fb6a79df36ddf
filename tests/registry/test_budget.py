"""Budgets carry the paper's names (its error-budget table), add up exactly, cannot overspend."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest

from proxyguard.errors import BudgetOverspent, RegistryError
from proxyguard.registry import budget as budgets
from proxyguard.registry.budget import Budget, Part, family_shares
from proxyguard.registry.numbers import exact

TWENTIETH = Fraction(1, 20)


@pytest.mark.parametrize(
    "written",
    [0.05, "0.05", "1/20", Fraction(1, 20), np.float64(0.05), Decimal("0.05")],
    ids=repr,
)
def test_a_level_is_read_as_it_was_written(written: object) -> None:
    assert exact(written) == TWENTIETH  # type: ignore[arg-type]


@pytest.mark.parametrize("written", ["five percent", None, float("nan"), float("inf"), "1/0", []])
def test_what_is_not_a_number_is_not_a_level(written: object) -> None:
    with pytest.raises(RegistryError, match="level must be a number"):
        exact(written)  # type: ignore[arg-type]


# Symbols and events of the paper's table "Error budgets and the events they control".
@pytest.mark.parametrize(
    ("made", "parts"),
    [
        (
            budgets.named_budget("0.05", release_share="0.4"),
            {
                "alpha_R": ("false recognition among named releases", Fraction(1, 50)),
                "alpha_M": ("false validation among mechanisms", Fraction(3, 100)),
            },
        ),
        (
            budgets.direct_budget("0.05", target_share="0.9"),
            {
                "alpha_Q": ("conditional score-probability coverage", Fraction(1, 200)),
                "alpha_Z": ("shared-target false-pass contamination", Fraction(9, 200)),
            },
        ),
        (
            budgets.violation_budget("0.05"),
            {
                "beta_R": ("false release-level violation", Fraction(1, 40)),
                "beta_M": ("false mechanism-level violation", Fraction(1, 40)),
            },
        ),
        (
            budgets.hybrid_budget(
                budgets.named_budget("0.02"), budgets.sharp_budget("0.03"), alpha="0.05"
            ),
            {
                "alpha_N": ("named component coverage", Fraction(1, 50)),
                "alpha_D": ("direct component coverage", Fraction(3, 100)),
            },
        ),
    ],
    ids=["named", "direct", "violation", "hybrid"],
)
def test_the_parts_have_the_papers_symbols_events_and_exact_amounts(
    made: Budget, parts: dict[str, tuple[str, Fraction]]
) -> None:
    assert {p.symbol: (p.event, p.amount) for p in made.parts} == parts
    assert made.total == TWENTIETH
    assert all(made[symbol] == amount for symbol, (_, amount) in parts.items())
    with pytest.raises(KeyError):
        made["alpha_X"]


@pytest.mark.parametrize(
    ("made", "symbols"),
    [
        (budgets.sharp_budget("0.05"), ["alpha"]),
        (budgets.release_budget("0.05"), ["alpha"]),
        (budgets.direct_violation_budget("0.05"), ["beta"]),
        (budgets.count_violation_budget("0.05"), ["beta_Q", "beta_Z"]),
    ],
)
def test_the_other_budgets_add_up_too(made: Budget, symbols: list[str]) -> None:
    assert [p.symbol for p in made.parts] == symbols
    assert made.total == TWENTIETH


def test_the_default_release_share_is_one_half() -> None:
    made = budgets.named_budget(0.05)
    assert made["alpha_R"] == made["alpha_M"] == Fraction(1, 40)


def test_a_hybrid_may_spend_its_whole_budget_and_not_more() -> None:
    named, direct = budgets.named_budget("0.02"), budgets.direct_budget("0.03")
    assert budgets.hybrid_budget(named, direct, alpha="0.05").total == TWENTIETH
    over = budgets.direct_budget("0.0300000000000000001")
    with pytest.raises(BudgetOverspent, match="alpha_N"):
        budgets.hybrid_budget(named, over, alpha="0.05")


@pytest.mark.parametrize("level", ["1", "1.5", "0.99999999999999999999999"])
def test_a_budget_of_one_or_more_is_overspent(level: str) -> None:
    with pytest.raises(BudgetOverspent):
        budgets.named_budget(level)


@pytest.mark.parametrize("level", [0, -0.05, "1e-400"])
def test_a_part_must_be_positive(level: float) -> None:
    with pytest.raises(RegistryError, match="positive"):
        budgets.sharp_budget(level)


@pytest.mark.parametrize("share", [0, 1, -1, "3/2"])
def test_a_share_of_the_budget_lies_strictly_between_zero_and_one(share: object) -> None:
    with pytest.raises(RegistryError, match=r"\(0, 1\)"):
        budgets.named_budget("0.05", release_share=share)  # type: ignore[arg-type]


def test_scaling_keeps_names_and_is_exact() -> None:
    local = budgets.named_budget("0.05").scaled(Fraction(1, 3))
    assert local.total * 3 == TWENTIETH
    assert [p.symbol for p in local.parts] == ["alpha_R", "alpha_M"]


def test_the_parts_sum_where_doubles_would_not() -> None:
    tenth = Fraction(1, 10)
    made = Budget(tuple(Part(symbol=s, event="x", amount=tenth) for s in "abc"))
    assert made.total == Fraction(3, 10)
    assert 0.1 + 0.1 + 0.1 != 0.3


def test_family_shares_are_equal_unless_registered() -> None:
    shares = family_shares(["a", "b", "c"])
    assert sum(shares.values()) == 1
    assert set(shares.values()) == {Fraction(1, 3)}
    assert family_shares(["a", "b"], {"a": "0.9", "b": 0.1}) == {
        "a": Fraction(9, 10),
        "b": Fraction(1, 10),
    }


def test_a_family_share_that_vanishes_is_refused_and_a_family_of_one_has_all() -> None:
    with pytest.raises(RegistryError, match="the share of 'b' must lie in"):
        family_shares(["a", "b"], {"a": "0.6", "b": "1e-200"})
    assert family_shares(["a"], {"a": 1}) == {"a": 1}


def test_family_shares_cannot_overspend_and_name_every_member() -> None:
    with pytest.raises(BudgetOverspent, match="at most 1"):
        family_shares(["a", "b"], {"a": "0.6", "b": "0.6"})
    with pytest.raises(RegistryError, match="both must agree"):
        family_shares(["a", "b"], {"a": "0.6", "c": "0.4"})
    with pytest.raises(RegistryError, match="both must agree"):
        family_shares(["a", "b"], {"a": "0.6"})
    with pytest.raises(RegistryError, match="positive"):
        family_shares(["a", "b"], {"a": "0", "b": "0.6"})
