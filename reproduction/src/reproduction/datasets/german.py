"""German Credit as numbers: the published extract with its own outcome, and UCI's table.

The published table has nine of UCI's columns under other names, in UCI's row order, and an outcome
built from amount and duration: whether amount over duration is at or above its .7 quantile over all
rows. All of it follows from UCI's file.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from reproduction.datasets import domains

if TYPE_CHECKING:
    import pandas as pd

OUTCOME = "class"
QUANTILE = 0.7
"""The paper took it over all rows, audit rows among them; so does its option here."""
PURPOSES: Mapping[str, tuple[str, ...]] = {
    "car": ("A40", "A41"),
    "radio/TV": ("A43",),
    "furniture/equipment": ("A42",),
    "business": ("A49",),
    "education": ("A46", "A48"),
    "repairs": ("A45",),
    "domestic appliances": ("A44",),
    "vacation/others": ("A410",),
}
FEMALE = ("A92", "A95")
SAVINGS = {"A65": 0.0, "A61": 1.0, "A62": 2.0, "A63": 3.0, "A64": 4.0}
CHECKING = {"A14": 0.0, "A11": 1.0, "A12": 2.0, "A13": 3.0}
HOUSING = {"rent": "A151", "own": "A152", "free": "A153"}
EMPLOYEES = {"few": (0.0, 1.0), "some": (2.0,), "many": (3.0,)}
"""Three groups of jobs; which job is in which is not published, and chosen here."""


def published_outcome(raw: pd.DataFrame) -> pd.Series[float]:
    """Return the published outcome, 1 for a large amount a month."""
    monthly = raw["amount"] / raw["duration"]
    large: pd.Series[bool] = monthly >= np.quantile(monthly.to_numpy(), QUANTILE)
    return large.astype(np.float64)


def published_table(raw: pd.DataFrame) -> pd.DataFrame:
    """Return the published 35 features and outcome, from UCI's codes.

    Each group of indicators has a column for a missing value, which no row has.
    """
    age, job = raw["age"], raw["job"].str[-1].astype(np.float64) - 1.0
    savings = raw["savings"].map(SAVINGS).astype(np.float64)
    checking = raw["checking"].map(CHECKING).astype(np.float64)
    sex = {"female": raw["personal"].isin(FEMALE), "male": ~raw["personal"].isin(FEMALE)}
    groups = {
        "sex": sex,
        "housing": {name: raw["housing"] == code for name, code in HOUSING.items()},
        "purpose": {name: raw["purpose"].isin(codes) for name, codes in PURPOSES.items()},
        "employees": {name: job.isin(jobs) for name, jobs in EMPLOYEES.items()},
        "tier": {str(k): job == float(k) for k in range(4)},
    }
    columns: dict[str, pd.Series[float]] = {
        "age": age,
        "job": job,
        "savings": savings,
        "checking": checking,
        "age_over_22": (age - 22.0).clip(lower=0.0),
        "age_from_50": (age >= 50.0).astype(np.float64),
        "has_checking": (checking > 0.0).astype(np.float64),
        "has_savings": (savings > 0.0).astype(np.float64),
    }
    for name, indicators in groups.items():
        for value, chosen in indicators.items():
            columns[f"{name}_{value}"] = chosen.astype(np.float64)
        columns[f"{name}_missing"] = age * 0.0
    columns["age_by_job"] = age / (job + 1.0)
    columns["money"] = savings + checking
    columns[OUTCOME] = published_outcome(raw)
    return _frame(columns)


def uci_table(raw: pd.DataFrame) -> pd.DataFrame:
    """Return UCI's 20 columns, a code as one indicator a category, and UCI's outcome, 1 for bad."""
    columns: dict[str, pd.Series[float]] = {}
    for name in raw.columns.drop(OUTCOME):
        if name not in domains.GERMAN:
            columns[str(name)] = raw[name].astype(np.float64)
            continue
        for code in domains.GERMAN[str(name)]:
            columns[f"{name}_{code}"] = (raw[name] == code).astype(np.float64)
    columns[OUTCOME] = (raw[OUTCOME].astype(np.float64) == 2.0).astype(np.float64)
    return _frame(columns)


def _frame(columns: Mapping[str, pd.Series[float]]) -> pd.DataFrame:
    import pandas as pd

    return pd.DataFrame(dict(columns))
