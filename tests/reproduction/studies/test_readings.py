"""The words of readings.toml name studies, methods and rules that there are."""

from __future__ import annotations

import string
import tomllib
from importlib.resources import files
from typing import Any

import pytest

from reproduction.studies.catalog import STUDIES
from reproduction.studies.readings import READINGS, RULES
from reproduction.studies.rows import Row

WORDS = tomllib.loads(files("reproduction.studies").joinpath("readings.toml").read_text("utf-8"))
SHARED = WORDS.pop("shared")
ENTRIES = [(name, entry) for name, table in WORDS.items() for entry in table.get("see", [])]
SENTENCES = [(name, entry) for name, entry in ENTRIES if "say" in entry]


def row(study: str, method: str, metric: str, cell: dict[str, Any], rate: float) -> Row:
    return Row(
        study=study, cell=cell, method=method, status="ours", metric=metric, value=rate,
        standard_error=0.01, wilson=None, upper95=None, repetitions=100, published=None, exact=None,
        p_agree=None,
    )  # fmt: skip


def test_every_study_has_its_words_and_no_other_has() -> None:
    assert set(WORDS) == set(STUDIES) == set(READINGS)
    for table in WORDS.values():
        assert set(table) <= {"asks", "beware", "ours", "see"}
        assert table.get("ours", "two-valued") in SHARED


def test_every_rule_is_known_and_every_known_rule_is_used() -> None:
    assert {entry["rule"] for _, entry in ENTRIES if "rule" in entry} == set(RULES)


@pytest.mark.parametrize(("name", "entry"), SENTENCES)
def test_a_sentence_takes_each_rate_from_a_row_of_its_study(
    name: str, entry: dict[str, Any]
) -> None:
    assert set(entry) <= {"say", "at", "rows"}
    fields = {field for _, field, _, _ in string.Formatter().parse(entry["say"]) if field}
    assert fields == set(entry["rows"])
    rows = []
    for k, (method, metric, *own) in enumerate(entry["rows"].values()):
        assert method in STUDIES[name].methods
        wanted = {**entry.get("at", {}), **(own[0] if own else {})}
        cell = next(c for c in STUDIES[name].cells if wanted.items() <= dict(c).items())
        rows.append(row(name, method, metric, dict(cell), (k + 1) / 1000))
    said = " ".join(READINGS[name].see(rows))
    for k in range(len(rows)):
        assert f"{(k + 1) / 10:.1f} %" in said
    # Without one of its rows nothing is said.
    assert entry["say"][:30] in said
    assert entry["say"][:30] not in " ".join(READINGS[name].see(rows[1:]))
