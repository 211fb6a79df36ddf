"""Make up a table of households, and three tables that might be published in its stead."""

import numpy as np
import pandas as pd


def households(rows: int, seed: int, tilt: float = 0.0) -> pd.DataFrame:
    """Return households; ``tilt`` moves persons into the cities."""
    rng = np.random.default_rng(seed)
    region = rng.choice(["city", "town", "country"], rows, p=[0.4 + tilt, 0.35, 0.25 - tilt])
    size = rng.choice(["1", "2", "3+"], rows, p=[0.4, 0.35, 0.25])
    income = rng.gamma(3.0, 900, rows) * np.where(region == "city", 1.15, 1.0)
    return pd.DataFrame({"region": region, "size": size, "income": income.round()})


households(6000, 1).to_csv("households.csv", index=False)
households(5000, 2).to_csv("last-year.csv", index=False)
households(5000, 3).to_csv("model.csv", index=False)
households(5000, 4, tilt=0.15).to_csv("cities-only-survey.csv", index=False)
