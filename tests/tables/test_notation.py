"""Texts are the numbers and days that they write, in the notation of their column."""

from __future__ import annotations

import numpy as np
import pytest

from proxyguard.tables.notation import ISO, KNOWN, Notation, readings, recognised, units_of

# Days since 1970-01-01, from `date -d ... +%s` of GNU coreutils over 86,400.
WRITTEN = {
    "1234.5": {"1200": 1200.0, "-0.5": -0.5, ".5": 0.5, "1e3": 1000.0},
    "1,234.5": {"1,200": 1200.0, "980": 980.0, "1,234,567.25": 1234567.25},
    "1.234,5": {"1.200": 1200.0, "0,5": 0.5, "12": 12.0},
    "1 234,5": {"1 200": 1200.0, "0,5": 0.5},
    "1'234.5": {"1'200": 1200.0, "0.5": 0.5},
    "2024-01-31": {"2024-01-31": 19753.0, "2023-11": 19662.0, "2024-01-31 12:00": 19753.5},
    "2024/01/31": {"2024/01/31": 19753.0},
    "31.01.2024": {"31.01.2024": 19753.0, "2.11.2023": 19663.0},
    "31.01.2024 14:05": {"31.01.2024 06:00": 19753.25},
    "31/01/2024": {"31/01/2024": 19753.0},
    "01/31/2024": {"01/31/2024": 19753.0},
    "31-01-2024 14:05:59": {"31-01-2024 18:00:00": 19753.75},
    "14:05": {"06:00": 0.25, "18:00": 0.75},
}
NONE = [
    "", "a", "1,23", "12,3456", "2024-13-01", "32.01.2024", "01.01.20244", "1e999", "inf", "nan",
    "\u0661", "0x10", "1_000", "20240131a", "--1", "1 2",
]  # fmt: skip


@pytest.mark.parametrize("name", WRITTEN)
def test_a_notation_reads_what_it_says_and_is_recognised(name: str) -> None:
    texts = WRITTEN[name]
    np.testing.assert_array_equal(KNOWN[name].numbers(list(texts)), list(texts.values()))
    assert recognised(list(texts), [1] * len(texts)) == name


@pytest.mark.parametrize("text", NONE)
def test_what_is_no_number_is_none_and_not_another(text: str) -> None:
    for name in ("1234.5", "2024-01-31", "31.01.2024"):
        assert np.isnan(KNOWN[name].numbers([text])).all(), name
    if text not in ("1,23", "12,3456"):  # decimals after a comma
        assert recognised([text] if text else [], [1] if text else []) is None


def test_the_notation_that_reads_most_is_taken_and_of_equals_the_first() -> None:
    assert recognised(["1/2/2023", "13/2/2023"], [1, 9]) == "31/01/2024"
    assert recognised(["1/2/2023", "2/13/2023"], [1, 9]) == "01/31/2024"
    # Nothing in it says which: a person has to.
    assert set(readings(["1/2/2023", "3/4/2023"], [1, 1])) == {"31/01/2024", "01/31/2024"}
    assert recognised(["1/2/2023"], [1]) == "31/01/2024"


def test_a_column_is_in_no_notation_that_most_of_it_is_not_in() -> None:
    assert recognised(["31.01.2024", "unknown"], [79, 21]) is None
    assert recognised(["31.01.2024", "unknown"], [81, 19]) == "31.01.2024"


def test_a_declared_format_is_read_as_strptime_has_it() -> None:
    np.testing.assert_array_equal(
        Notation(date="%d%m%y").numbers(["310124", "3101240"]), [19753.0, np.nan]
    )
    times = Notation(date=ISO).numbers(["2024-01-31T12:00:00Z", "2024-01-31T12:00:00+02:00"])
    np.testing.assert_allclose(times, [19753.5, 19753.5 - 2 / 24], rtol=1e-15)


DOLLARS = Notation(thousands=",", unit="$")
EUROS = Notation(thousands=".", decimal=",", unit="€")
CROWNS = Notation(thousands=" ", decimal=",", unit="kr")


@pytest.mark.parametrize(
    ("notation", "text", "number"),
    [
        (DOLLARS, "$15,791.78", 15791.78),
        (DOLLARS, "-$5.00", -5.0),
        (DOLLARS, "$-5", -5.0),
        (DOLLARS, "\u2212$5", -5.0),
        (DOLLARS, "($5.00)", -5.0),
        (DOLLARS, "$ (1,200)", -1200.0),
        (DOLLARS, "$.50", 0.5),
        (DOLLARS, "12", 12.0),
        (EUROS, "€ 1.234,50", 1234.5),
        (EUROS, " 1.234,50€", 1234.5),
        (CROWNS, "1 234,50 kr", 1234.5),
        (CROWNS, "KR 1\u00a0234,50", 1234.5),
        (CROWNS, "-12 kr", -12.0),
        (Notation(thousands="'", unit="CHF"), "CHF 1'200", 1200.0),
        (Notation(thousands="'", unit="CHF"), "CHF 1\u2019200", 1200.0),
        (Notation(unit="%"), "12 %", 12.0),
        (Notation(unit="%"), "12.5%", 12.5),
        (Notation(unit="kr."), "kr.500", 500.0),
        (Notation(unit="kg/m2"), "24.5 kg/m2", 24.5),
    ],
)
def test_a_unit_beside_a_number_changes_nothing(
    notation: Notation, text: str, number: float
) -> None:
    assert notation.numbers([text]).tolist() == [number]


@pytest.mark.parametrize(
    "text", ["€5", "$5$", "($5", "$5)", "(-$5)", "--$5", "$", "$5 %", "5 $ 5", "$1,23", "$ x"]
)
def test_what_is_no_amount_in_the_unit_is_none(text: str) -> None:
    assert np.isnan(DOLLARS.numbers([text])).all()


def test_blanks_without_end_are_looked_at_once() -> None:
    assert np.isnan(DOLLARS.numbers(["$1" + 100_000 * " " + "x", "$" + 100_000 * "1 " + "x"])).all()


def test_units_are_known_where_half_of_a_column_has_one() -> None:
    assert units_of(["$5", "€ 7", "9"], [4, 1, 5]) == {"$": 4, "€": 1}
    assert units_of(["EUR 5", "7 eur"], [4, 1]) == {"EUR": 5}
    assert units_of(["$5", "9"], [4, 5]) == {}
    # Codes and measures are no money: a unit of theirs is for a person to declare.
    assert units_of(["E11", "5 kg", "P001"], [1, 1, 1]) == {}
