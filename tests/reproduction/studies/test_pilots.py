"""Pilots: their selection rules, their selections, and mistakes that they report."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from scipy.stats import binomtest, fisher_exact

from reproduction.studies import modes, pilots, shared_target
from reproduction.studies.catalog import STUDIES
from reproduction.studies.pilots import SmoothRates, choose_smooth, tune
from reproduction.studies.rows import Row, agreement
from reproduction.studies.run import run_study
from reproduction.studies.smooth_target import Ramp
from reproduction.studies.study import place

SELECTING = (
    "mode-comparison-pilot",
    "mode-comparison-high-signal-pilot",
    "smooth-target-pilot",
)


def test_the_setting_of_most_power_is_selected() -> None:
    assert tune({(0.1,): 3, (0.5,): 7, (0.9,): 5}) == (0.5,)


def test_ties_go_to_the_smallest_share_and_then_to_the_smallest_slack() -> None:
    assert tune({(0.9,): 7, (0.1,): 7, (0.5,): 6}) == (0.1,)
    # Studies B12: "smallest f then slack".
    tied = {(0.9, 0.05): 7, (0.5, 0.07): 7, (0.5, 0.06): 7, (0.25, 0.05): 6}
    assert tune(tied) == (0.5, 0.06)


GOOD = SmoothRates(boundary=0.0, power=0.9, hard_markov=0.0, ramp_markov=0.0)


@pytest.mark.parametrize(
    ("rates", "eligible"),
    [
        # Studies B14: boundary <= .05, smooth power >= .80 at .99, both Markov powers <= .10.
        (GOOD, True),
        (SmoothRates(boundary=0.05, power=0.80, hard_markov=0.10, ramp_markov=0.10), True),
        (SmoothRates(boundary=0.051, power=0.9, hard_markov=0.0, ramp_markov=0.0), False),
        (SmoothRates(boundary=0.0, power=0.799, hard_markov=0.0, ramp_markov=0.0), False),
        (SmoothRates(boundary=0.0, power=0.9, hard_markov=0.101, ramp_markov=0.0), False),
        (SmoothRates(boundary=0.0, power=0.9, hard_markov=0.0, ramp_markov=0.101), False),
    ],
)
def test_the_rule_of_the_smooth_pilot(rates: SmoothRates, eligible: bool) -> None:
    assert rates.eligible == eligible


def with_power(power: float) -> SmoothRates:
    return SmoothRates(boundary=0.0, power=power, hard_markov=0.0, ramp_markov=0.0)


def test_fewest_releases_then_records_then_most_power_then_the_narrower_ramp() -> None:
    def ramp(releases: int, n: int, width: float) -> Ramp:
        return Ramp(releases=releases, n=n, ramp=width)

    few, many = ramp(500, 400, 0.6), ramp(1000, 100, 0.6)
    assert choose_smooth({many: GOOD, few: GOOD}) == few
    assert choose_smooth({few: GOOD, ramp(500, 200, 0.6): GOOD}) == ramp(500, 200, 0.6)
    strong = {ramp(500, 200, 0.5): with_power(0.85), ramp(500, 200, 0.6): with_power(0.86)}
    assert choose_smooth(strong) == ramp(500, 200, 0.6)
    tied = {ramp(500, 200, 0.6): GOOD, ramp(500, 200, 0.5): GOOD}
    assert choose_smooth(tied) == ramp(500, 200, 0.5)
    assert choose_smooth({few: with_power(0.5)}) is None


@pytest.mark.reproduction
@pytest.mark.parametrize("name", SELECTING)
def test_what_was_registered_is_selected(name: str) -> None:
    # Studies B12, B14: moderate phi .9, f .9, slack .055; high-signal phi .1, f .5, slack .06;
    # smooth R 500, n 200, ramp .6. Near ties are stated in the study's ``differs``.
    rows = run_study(STUDIES[name])
    verdict = agreement(rows)
    assert verdict.compared == 3
    assert verdict.good, verdict.sentence


def test_a_selection_comes_from_all_repetitions_together() -> None:
    study = STUDIES["mode-comparison-pilot"]
    rows = run_study(study, repetitions=120)
    powers: dict[tuple[float, ...], int] = {}
    for phi in pilots.RELEASE_SHARES:
        own = [row for row in rows if row.method == f"named, phi = {phi:g}"]
        assert [row.repetitions for row in own] == [120, 120, 120]
        powers[(phi,)] = sum(round(120 * row.value) for row in own[1:])
    (selected,) = [row for row in rows if row.metric == "selected phi"]
    assert selected.repetitions == 1
    assert (selected.value,) == tune(powers)


def test_a_setting_alone_is_the_setting_among_others() -> None:
    study = STUDIES["mode-comparison-pilot"]
    whole = run_study(study, repetitions=60)
    name = "direct, f = 0.9, slack = 0.055"
    alone = run_study(study, repetitions=60, methods=[name])
    assert alone == [row for row in whole if row.method == name]


@pytest.mark.parametrize(
    ("pilot", "confirmed", "cell"),
    [
        # The paper's rates at the setting that each pilot led to, same law: studies B11, B13.
        ("shared-target-pilot", {"named": 799, "direct": 690}, {"R": 1000, "n": 1000, "eta": 0.9}),
        ("false-pass-pilot", {"score only": 161}, {"R": 250, "n": 1000, "slack": 0.01}),
    ],
)
def test_a_pilot_has_the_rates_of_the_study_it_led_to(
    pilot: str, confirmed: dict[str, int], cell: dict[str, float]
) -> None:
    study = STUDIES[pilot]
    trials = 1000 if pilot == "shared-target-pilot" else 2000
    rows = run_study(study, cells=[place(study.cells, **cell)])
    for method, theirs in confirmed.items():
        (row,) = [r for r in rows if (r.method, r.metric) == (method, "validated")]
        ours = round(row.value * row.repetitions)
        table = [[ours, row.repetitions - ours], [theirs, trials - theirs]]
        assert fisher_exact(table).pvalue > 1e-4


def wrong(module: Any, name: str, value: Any) -> Callable[[pytest.MonkeyPatch], None]:
    return lambda monkeypatch: monkeypatch.setattr(module, name, value)


DRAW_SHARED = shared_target.draw_shared
MISTAKES = {
    "shared-target-pilot": wrong(
        shared_target,
        "draw_shared",
        lambda rng, eta, shape, n: DRAW_SHARED(rng, eta - 0.1, shape, n),
    ),
    "mode-comparison-pilot": wrong(modes, "TARGET", 0.85),
    "mode-comparison-high-signal-pilot": wrong(modes, "TARGET", 0.85),
    "false-pass-pilot": wrong(shared_target, "TARGET", 0.85),
    "smooth-target-pilot": wrong(pilots, "TARGET", 0.82),
}


def far_from_exact(rows: list[Row]) -> bool:
    return any(
        row.exact is not None
        and row.wilson is not None
        and binomtest(round(row.value * row.repetitions), row.repetitions, row.exact).pvalue < 1e-6
        for row in rows
    )


def reported(name: str) -> bool:
    study = STUDIES[name]
    cells = range(len(study.cells)) if study.published else [0, 7, len(study.cells) - 1]
    rows = run_study(study, cells=cells)
    return not agreement(rows).good or far_from_exact(rows)


@pytest.mark.parametrize("name", MISTAKES)
def test_a_seeded_mistake_is_reported(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert not reported(name)
    MISTAKES[name](monkeypatch)
    assert reported(name)


def test_a_selection_that_is_missing_is_seen_to_differ(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pilots, "TARGET", 0.9)  # no setting is eligible there
    rows = run_study(STUDIES["smooth-target-pilot"], repetitions=30)
    selected = {row.metric: row.value for row in rows if row.method == "selected"}
    assert selected == {
        "eligible settings": 0.0, "selected R": 0.0, "selected n": 0.0, "selected ramp": 0.0,
    }  # fmt: skip
    assert len(agreement(rows).differ) == 3
