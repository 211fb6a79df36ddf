"""Small tables of people, with a law that every test knows, and a record of what was tried."""

from __future__ import annotations

import numpy as np
import pandas as pd


def people(rows: int, seed: int, *, noise: float = 0.0) -> pd.DataFrame:
    """Return records with two numbers, a text, a yes or no, a class and a number to predict.

    ``noise`` is the share of rows whose label is turned: what a bad release has.
    """
    rng = np.random.default_rng(seed)
    age = rng.integers(20, 90, size=rows)
    dose = rng.normal(10.0, 3.0, size=rows).round(2)
    site = rng.choice(["north", "south", "west"], size=rows, p=[0.5, 0.3, 0.2])
    ill = rng.random(rows) < 1.0 / (1.0 + np.exp(-(age - 55) / 6.0))
    ill ^= rng.random(rows) < noise
    stage = np.where(ill, np.where(age > 70, "late", "early"), "none")
    cost = (age * 2.0 + dose + rng.normal(0.0, 4.0, size=rows)).round(1)
    return pd.DataFrame(
        {"age": age, "dose": dose, "site": site, "ill": np.where(ill, "yes", "no"),
         "stage": stage, "cost": cost}
    )  # fmt: skip


def messy(rows: int, seed: int) -> pd.DataFrame:
    """Return records as a hospital has them: ids, gaps, dates, a constant, thousands, free text."""
    rng = np.random.default_rng(seed)
    table = people(rows, seed).drop(columns=["stage", "cost"])
    table["patient"] = [f"P{seed}-{k:06d}" for k in range(rows)]
    days = rng.integers(0, 900, size=rows).astype("timedelta64[D]")
    table["admitted"] = np.datetime_as_string(np.datetime64("2021-01-01") + days)
    table["income"] = [f"{number:,}" for number in rng.integers(9_000, 90_000, size=rows)]
    table["country"] = "DE"
    table["remark"] = [f"seen by {rng.integers(1e6)}, to come again" for _ in range(rows)]
    table["dose"] = table["dose"].astype(object).where(rng.random(rows) > 0.2, "?")
    table["smokes"] = pd.Series(rng.choice([True, False], size=rows)).where(rng.random(rows) > 0.1)
    return table
