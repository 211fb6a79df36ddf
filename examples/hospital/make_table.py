"""Make up a table of patients, with the faults that tables have."""

import numpy as np
import pandas as pd

rng = np.random.default_rng(11)
n = 2400
age = rng.normal(58, 14, n).round()
ward = rng.choice(["cardiology", "surgery", "general"], n, p=[0.2, 0.3, 0.5])
pressure = (110 + 0.4 * age + rng.normal(0, 12, n)).round().astype(int)
risk = 1 / (1 + np.exp(-(age - 62) / 9 - (ward == "cardiology")))
days = pd.to_timedelta(rng.integers(0, 365, n), unit="D")
table = pd.DataFrame(
    {
        "patient": [f"P{k:05d}" for k in range(n)],
        "admitted": (pd.Timestamp("2024-01-01") + days).strftime("%Y-%m-%d"),
        "age": age,
        "ward": ward,
        "pressure": np.where(rng.random(n) < 0.1, "", pressure),
        "readmitted": np.where(rng.random(n) < risk, "yes", "no"),
    }
)
table.to_csv("patients.csv", index=False)
