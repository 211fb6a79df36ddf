"""The published German table follows from UCI's file.

Expected counts: the published extract's purposes 337/280/181/97/59/22/12/12, its outcome's limit
181.464 with 300 positives, and 56.2 % agreement with UCI's bad.
"""

from __future__ import annotations

import os

import numpy as np
import pytest

from reproduction.datasets import german, load

pytestmark = [
    pytest.mark.reproduction,
    pytest.mark.skipif(
        "PROXYGUARD_DATA" not in os.environ,
        reason="PROXYGUARD_DATA names no folder with the data sets",
    ),
]


def test_purposes_have_the_published_counts() -> None:
    table = german.published_table(load.german())
    counts = [int(table[f"purpose_{name}"].sum()) for name in german.PURPOSES]
    assert counts == [337, 280, 181, 97, 59, 22, 12, 12]


def test_the_published_outcome_is_a_large_amount_a_month_and_not_ucis() -> None:
    raw = load.german()
    monthly = raw["amount"] / raw["duration"]
    outcome = german.published_outcome(raw)
    assert monthly.quantile(0.7) == pytest.approx(181.464, abs=5e-4)
    assert outcome.sum() == 300
    bad = german.uci_table(raw)[german.OUTCOME]
    assert bad.sum() == 300
    assert float(np.mean(outcome == bad)) == pytest.approx(0.562)


def test_there_are_35_features_and_nobody_is_missing() -> None:
    table = german.published_table(load.german())
    assert table.shape == (1000, 36)
    assert not table.isna().any().any()
    missing = [name for name in table.columns if name.endswith("_missing")]
    assert len(missing) == 5
    assert not table[missing].any().any()
    for group in ("sex", "housing", "purpose", "employees", "tier"):
        indicators = [name for name in table.columns if name.startswith(f"{group}_")]
        assert (table[indicators].sum(axis=1) == 1.0).all()


def test_features_are_those_of_the_first_applicant() -> None:
    # A11 6 A34 A43 1169 A65 A75 4 A93 A101 4 A121 67 A143 A152 2 A173 1 A192 A201 1 (german.data)
    first = german.published_table(load.german()).iloc[0]
    expected = {
        "age": 67, "job": 2, "savings": 0, "checking": 1, "age_over_22": 45, "age_from_50": 1,
        "has_checking": 1, "has_savings": 0, "sex_male": 1, "housing_own": 1,
        "purpose_radio/TV": 1, "tier_2": 1, "age_by_job": 67 / 3, "money": 1, "class": 1,
    }  # fmt: skip
    assert {name: first[name] for name in expected} == expected


def test_ucis_table_has_its_20_columns() -> None:
    raw = load.german()
    table = german.uci_table(raw)
    assert len(raw.columns) == 21
    assert {name.split("_A")[0] for name in table.columns} == set(raw.columns)
    codes = [name for name in table.columns if "_A" in name]
    assert (table[codes].sum(axis=1) == 13.0).all()
