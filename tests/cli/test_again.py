"""Seeds that are given to --again."""

from __future__ import annotations

import pytest
import typer

from proxyguard.cli.steps import _seeds


def test_lists_and_ranges_of_seeds_are_read_with_the_name_of_their_mechanism() -> None:
    assert _seeds("103,105-107") == [(None, seed) for seed in (103, 105, 106, 107)]
    assert _seeds("m:1:7-7") == [("m:1", 7)]


@pytest.mark.parametrize("text", ["107-105", "5,107-106"])
def test_a_range_that_runs_backwards_is_refused_and_not_taken_for_no_seed(text: str) -> None:
    with pytest.raises(typer.BadParameter, match="give the smaller number first"):
        _seeds(text)


@pytest.mark.parametrize("last", [10**5, 10**6, 9 * 10**9])
def test_a_range_that_no_audit_has_is_refused_before_it_fills_the_memory(last: int) -> None:
    with pytest.raises(typer.BadParameter, match="at most 100000 seeds"):
        _seeds(f"0-{last}")


@pytest.mark.parametrize(
    "text", ["", "a", "1-b", "-3", "5-", "1,,2", "0-1000000000000", "9" * 5000, "²"]
)
def test_what_is_no_list_of_seeds_is_refused(text: str) -> None:
    with pytest.raises(typer.BadParameter, match="is no list of seeds"):
        _seeds(text)
