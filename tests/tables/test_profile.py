"""A profile says of every column what it is, and what to type to have it otherwise."""

from __future__ import annotations

import tomllib

import numpy as np
import pandas as pd
import pytest

from conformance.messy import labelled
from proxyguard.registry.target import ColumnPart
from proxyguard.tables.profile import TableProfile, profile_of, profile_table
from proxyguard.trial.rows import readable_columns

KINDS = {
    "id": "id-like", "admitted": "date", "amount": "number", "ward": "category", "lab": "number",
    "constant": "constant", "one": "constant", "empty": "empty", "blank": "empty",
    "size": "number", "mixed": "category", "note": "text", "y": "number",
}  # fmt: skip


@pytest.fixture(scope="module")
def messy() -> TableProfile:
    return profile_table(labelled(300, 1), roles={"y": "is predicted"})


def test_each_column_is_what_it_looks_like(messy: TableProfile) -> None:
    assert {column.name: column.kind for column in messy.columns} == KINDS
    assert messy.words().startswith("300 records of 13 columns: 1 id-like, 1 date, 4 number")
    assert messy.to_frame().set_index("name").loc["y", "use"] == "is predicted"


def test_ranges_and_gaps_are_those_of_the_table(messy: TableProfile) -> None:
    frame = labelled(300, 1)
    by_name = {column.name: column for column in messy.columns}
    days = pd.to_datetime(frame["admitted"], format="%d.%m.%Y")
    assert by_name["admitted"].low == str(days.min())[:10]
    assert by_name["admitted"].high == str(days.max())[:10]
    amounts = frame["amount"].str.replace(",", "").astype(float)
    assert by_name["amount"].range_words == f"{amounts.min():,.6g} to {amounts.max():,.6g}"
    assert by_name["lab"].missing == pytest.approx(frame["lab"].isna().mean())
    assert by_name["blank"].missing == by_name["empty"].missing == 1.0
    assert by_name["ward"].range_words == f"{frame['ward'].nunique()} values"


def test_what_is_to_be_typed_is_toml_that_a_declaration_takes(messy: TableProfile) -> None:
    for column in messy.columns:
        ((name, part),) = tomllib.loads(column.otherwise).items()
        assert name == column.name
        ColumnPart.model_validate(part)
    declared = tomllib.loads("\n".join(column.otherwise for column in messy.columns))
    parts = {
        name: ColumnPart.model_validate(part)
        for name, part in declared.items()
        if name in ("admitted", "amount")
    }
    again = {c.name: c for c in profile_table(labelled(300, 1), parts).columns}
    before = {c.name: c for c in messy.columns}
    for name in parts:
        assert (again[name].kind, again[name].low, again[name].high) == (
            before[name].kind, before[name].low, before[name].high,
        )  # fmt: skip
    assert "used as a number" in again["admitted"].use


def test_words_for_gaps_in_text_are_missing_as_declared_and_others_are_told() -> None:
    frame = pd.DataFrame({"smoker": ["yes", "no", "n/a", "-"] * 5})
    (column,) = profile_table(frame, missing=["", "n/a"]).columns
    assert (column.missing, column.levels) == (0.0, 4)
    assert column.use == 'used as 4 categories, "n/a" or "-" among them'
    assert column.otherwise == 'smoker = { missing = ["n/a", "-"] }'
    (column,) = profile_table(frame, {"smoker": ColumnPart(missing=("-", "n/a"))}).columns
    assert (column.missing, column.levels) == (0.5, 2)
    assert column.use == 'used as 2 categories; "-" or "n/a" is a missing value'


def test_an_id_is_proposed_for_exclusion_and_a_measurement_is_not() -> None:
    rng = np.random.default_rng(1)
    frame = pd.DataFrame(
        {
            "patient no": rng.permutation(10**6)[:50],
            "row": range(50),
            "cents": rng.permutation(10**6)[:50],
            "weight": rng.normal(size=50),
            "code": [f"x{k}" for k in range(50)],
            "patNr": rng.permutation(10**6)[:50],
            "grid": rng.permutation(10**6)[:50],
        }
    )
    profile = profile_table(frame)
    ids = [c.name for c in profile.columns if c.kind == "id-like"]
    assert ids == ["patient no", "row", "code", "patNr"]
    assert 'under [columns]: "patient no" = { exclude = true }' in profile.warnings[0]
    assert len(profile.warnings) == 4
    excluded = profile_table(frame, roles=dict.fromkeys(frame, "excluded"))
    assert excluded.warnings == []
    assert all(c.kind != "id-like" for c in profile_table(frame.head(10)).columns)


def test_days_that_cannot_be_told_from_months_are_a_warning() -> None:
    frame = pd.DataFrame({"day": [f"0{k % 9 + 1}/0{k % 8 + 1}/2024" for k in range(60)]})
    (warning,) = profile_table(frame).warnings
    assert "like 31/01/2024 or like 01/31/2024" in warning
    assert warning.endswith('day = { kind = "date", format = "%d/%m/%Y" }')


def test_words_for_gaps_among_numbers_are_proposed_as_missing_values() -> None:
    numbers = [f"{k / 3:.1f}" for k in range(90)]
    frame = pd.DataFrame(
        {
            "crp": numbers[:60] + ["k.A."] * 20 + ["-"] * 10,
            "strange": numbers[:80] + ["<5"] * 10,
            "ward": (["A", "B", "unknown"] * 30),
        }
    )
    crp, strange, ward = profile_table(frame).columns
    assert (crp.kind, crp.gaps) == ("number", ("k.A.", "-"))
    assert crp.warning is not None
    assert '33.3% of the records "k.A." or "-", most likely for a missing value' in crp.warning
    assert crp.warning.endswith('crp = { kind = "number", missing = ["k.A.", "-"] }')
    assert crp.proposed == ColumnPart(kind="number", missing=("k.A.", "-"))
    again = profile_table(frame, {"crp": crp.proposed}).columns[0]
    assert again.missing == pytest.approx(1 / 3)
    assert '"k.A." or "-" is a missing value' in again.use
    # What no declaration could read is not proposed, and a category may be called unknown.
    assert strange.proposed is None
    assert "10 records whose text is none" in str(strange.warning)
    assert (ward.kind, ward.proposed, ward.warning) == ("category", None, None)


def test_nothing_is_said_of_no_records() -> None:
    empty = profile_of(pd.DataFrame({"x": pd.Series([], dtype=float)}))
    assert (empty.rows, empty.columns[0].kind) == (0, "empty")


def test_values_beyond_what_is_measured_are_numbers_and_none_is_missing() -> None:
    values = [f"{k},5" for k in range(60)] * 4
    texts = {
        "crp": [*values, *["<0,6"] * 30, *["-"] * 10],  # most are numbers as they stand
        "troponin": [*["<5"] * 60, *["ej taget"] * 40, *[str(k) for k in range(5, 185)]],
        "stage": ["0", "1", "2", "3", "4", "5+", ">5"] * 40,  # codes
    }
    profile = profile_table(pd.DataFrame({name: said[:280] for name, said in texts.items()}))
    crp, troponin, stage = profile.columns
    said = tomllib.loads(crp.otherwise)["crp"]
    assert said["same"] == {"<0,6": "0,3"}
    assert said["missing"] == ["-"]
    assert "'<0,6' are values beyond what is measured, and none is missing" in str(crp.warning)
    assert troponin.kind == "category"
    assert (
        "holds numbers like 1234.5 in most records, and in 35.7% of them other texts, such as"
        in (str(troponin.warning))
    )
    said = tomllib.loads(troponin.otherwise)["troponin"]
    assert said == {"kind": "number", "missing": ["ej taget"], "same": {"<5": "2.5"}}
    (again,) = profile_table(
        pd.DataFrame({"troponin": texts["troponin"]}), {"troponin": ColumnPart(**said)}
    ).columns
    assert (again.kind, again.low) == ("number", "2.5")
    assert stage.warning is None


def written(unit: str, numbers: list[str], *, gaps: int = 0) -> list[str]:
    return [unit.format(number) for number in numbers] + ["n/a"] * gaps


WHOLE = [f"{k * k:,}" for k in range(20, 80)]


@pytest.mark.parametrize(
    ("texts", "line", "like"),
    [
        (written("${}", WHOLE), {"thousands": ",", "unit": "$"}, "$1,234.5"),
        (written("($ {})", WHOLE, gaps=5),
         {"thousands": ",", "unit": "$", "missing": ["n/a"]}, "$1,234.5"),
        # A point before three digits: of money it is more than a thousand, and of shares it is not.
        (written("€ {}", [n.replace(",", ".") for n in WHOLE]),
         {"thousands": ".", "decimal": ",", "unit": "€"}, "€1.234,5"),
        (written("{} kr", [n.replace(",", "\u00a0") for n in WHOLE]),
         {"thousands": " ", "decimal": ",", "unit": "kr"}, "1 234,5 kr"),
        (written("CHF {}", [n.replace(",", "'") for n in WHOLE]),
         {"thousands": "'", "unit": "CHF"}, "1'234.5 CHF"),
        (written("{}%", [f"{k / 7:.3f}" for k in range(60)]), {"unit": "%"}, "1234.5 %"),
    ],
)  # fmt: skip
def test_amounts_of_one_unit_are_proposed_as_numbers(
    texts: list[str], line: dict[str, object], like: str
) -> None:
    frame = pd.DataFrame({"cost": texts})
    (column,) = profile_table(frame).columns
    assert (column.kind, column.like) == ("number", like)
    assert "kept as text, every amount a category of its own, until it is declared" in column.use
    assert tomllib.loads(column.otherwise) == {"cost": {"kind": "number", **line}}
    assert column.warning is not None
    assert column.warning.endswith(column.otherwise)
    assert column.proposed == ColumnPart.model_validate({"kind": "number", **line})
    again = profile_table(frame, {"cost": column.proposed}).columns[0]
    assert (again.kind, again.low, again.high) == ("number", column.low, column.high)
    proposed, notes, _ = readable_columns([frame], {})
    assert proposed == {"cost": column.proposed}
    assert f"cost like {like}" in notes[0]
    assert len(notes) == 1


def test_some_numbers_may_lack_the_unit_and_it_is_said_how_many() -> None:
    frame = pd.DataFrame({"rate": ["12 %", "7.5 %", "0.12", "9 %"] * 20})
    (column,) = profile_table(frame).columns
    assert "amounts in '%', 25.0% without it" in str(column.warning)
    assert "rate like 1234.5 %, 25.0% of them without %" in readable_columns([frame], {})[1][0]


@pytest.mark.parametrize("others", [[], ["waived", "later"] * 10])
def test_amounts_of_several_units_stay_text_and_it_is_said(others: list[str]) -> None:
    amounts = [f"{'$€'[k % 3 == 0]}{k * k}" for k in range(60)]
    frame = pd.DataFrame({"cost": amounts + others})
    (column,) = profile_table(frame).columns
    assert column.proposed is None
    assert column.units == ("$", "€")
    assert "has amounts in '$' and '€'" in str(column.warning)
    assert "it stays text until they are all in one" in str(column.warning)
    proposed, notes, _ = readable_columns([frame], {})
    assert proposed == {}
    assert "has amounts in '$' and '€'" in notes[0]
