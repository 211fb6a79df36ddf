"""What is drawn never contradicts what was decided, whatever mode, test and number decided it."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import proxyguard as pg
from proxyguard.certificate.wording import at_least, at_most, rounded
from proxyguard.report.charts import (
    interval_of,
    release_picture,
    requirement_pictures,
    waterfalls_of,
)
from proxyguard.report.content import build_report
from proxyguard.report.picture import Circle, Line, Rect
from proxyguard.report.sources import range_words, scores_of, sources_of
from report.test_waterfall import MODES, RISK

TESTS = ("empirical_bernstein", "hoeffding", "chernoff", "bentkus", "randomized_binomial",
         "betting", "betting_fixed")  # fmt: skip
TARGET = 0.6


def losses(mean: float, releases: int = 40, n: int = 400) -> Any:
    rng = np.random.default_rng(7)
    values = rng.beta(4 * mean, 4 * (1 - mean), size=(releases, n, 1))
    # Releases from far below the limit to above it, so that some lie on either side of each rule.
    return np.clip(values + np.linspace(-0.05, 0.12, releases)[:, None, None], 0.0, 1.0)


def families(**choices: Any) -> Any:
    made = {"good": losses(0.12), "middling": losses(0.24), "bad": losses(0.5)}
    return pg.certify(made, [RISK], reliability_target=TARGET, seed=1, **choices)


def ends(picture: Any) -> tuple[float, float]:
    """Return the ends of a drawn interval, as shares."""
    bar = next(m for m in picture.marks if isinstance(m, Rect) and m.height == 10.0)
    scale = next(m for m in picture.marks if isinstance(m, Line) and m.kind == "axis")
    width = scale.x2 - scale.x1
    return (bar.x - scale.x1) / width, (bar.x + bar.width - scale.x1) / width


@pytest.mark.parametrize("family", ["bounds", "decisions"])
@pytest.mark.parametrize("choices", [
    *MODES.values(), *({"test": test} for test in TESTS),
], ids=str)  # fmt: skip
def test_no_interval_and_no_mark_contradicts_the_decision(
    choices: dict[str, Any], family: str
) -> None:
    sources = sources_of(families(family=family, **choices))
    report = build_report(sources)
    for verdict in report.verdicts:
        picture = interval_of(verdict)
        if verdict.decision != "UNRESOLVED":
            assert picture is not None
        if picture is not None:
            low, high = ends(picture)
            held = {"VALIDATED": low >= TARGET - 1e-9, "VIOLATION": high <= TARGET + 1e-9}
            assert held.get(verdict.decision, low <= TARGET + 1e-9 and high >= TARGET - 1e-9)
        for built in verdict.waterfalls if waterfalls_of(verdict) else ():
            above = built.steps[-1].after > TARGET
            assert above == (verdict.decision == "VALIDATED") or built.side == "upper"
            assert above or built.side == "lower" or verdict.decision == "VIOLATION"
        (drawn,) = requirement_pictures(sources, verdict.name, [0])
        group, scores = sources.groups[verdict.name], scores_of(verdict.name, sources)
        below = [float(row[0]) < RISK.limit for row in group.derived.estimates]
        discs = sum(isinstance(m, Circle) and m.kind == "estimate" for m in drawn.marks)
        assert discs == sum(below if None in scores else map(bool, scores))
        # A favorable release lies below its limit, or its mark would stand on the wrong side.
        assert all(b for b, score in zip(below, scores, strict=True) if score)
        assert not any(m.kind in ("whisker", "band") for m in drawn.marks)


def test_bounds_for_reading_that_lie_across_the_target_are_not_drawn() -> None:
    found = [
        verdict
        for choices in MODES.values()
        for verdict in build_report(sources_of(families(family="decisions", **choices))).verdicts
        if not verdict.certified
    ]
    assert {verdict.decision for verdict in found} == {"VALIDATED", "UNRESOLVED", "VIOLATION"}
    for verdict in found:
        assert (interval_of(verdict) is None) == (verdict.decision == "UNRESOLVED")
        assert waterfalls_of(verdict) == []


def test_a_release_above_its_limit_has_no_disc() -> None:
    """What the test above would see, were a release marked by anything but its score."""
    picture = release_picture("e", 0.5, ["a"], [0.6], [0])
    assert not any(isinstance(m, Circle) for m in picture.marks)


SHARES = st.floats(0.0, 1.0)
TARGETS = st.fractions(0, 1, max_denominator=1000)


def shown(words: str) -> Fraction:
    return Fraction(words.removesuffix(" %")) / 100


@given(SHARES, TARGETS)
def test_numbers_that_are_compared_read_apart_and_claim_no_more(share: float, target: Any) -> None:
    exact = Fraction(repr(share))
    low, high = shown(at_least(share, target)), shown(at_most(share, target))
    assert low <= exact <= high
    for printed in (low, high):
        assert exact == target or (printed > target if exact > target else printed < target)


@given(TARGETS.filter(lambda target: 0 < target < 1), st.integers(1, 300))
def test_a_bound_barely_above_its_target_is_printed_above_it(target: Fraction, steps: int) -> None:
    share = float(np.nextafter(float(target), 1.0) + steps * 2.0**-50)
    if Fraction(repr(share)) > target and share < 1.0:
        assert shown(at_least(share, target)) > target
        words = range_words(share, 1.0, decision="validated", target=share - 2.0**-40)
        assert words.startswith("at least")


@given(st.floats(-1e6, 1e6), st.floats(-1e6, 1e6), st.integers(0, 6), st.booleans())
def test_any_two_numbers_read_apart(number: float, other: float, digits: int, up: bool) -> None:
    printed = Fraction(rounded(number, digits, up=up, than=other))
    exact, beside = Fraction(repr(number)), Fraction(repr(other))
    assert printed >= exact if up else printed <= exact
    assert exact == beside or (printed > beside if exact > beside else printed < beside)


def test_without_more_digits_ninety_percent_would_be_more_than_ninety() -> None:
    assert at_least(0.90003) == "90.0 %"
    assert at_least(0.90003, Fraction(9, 10)) == "90.003 %"
    assert at_most(0.79996, Fraction(4, 5)) == "79.996 %"
