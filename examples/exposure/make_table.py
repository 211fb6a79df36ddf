"""Make up a table of customers, each of whom is rare enough to be recognized."""

import numpy as np
import pandas as pd

rng = np.random.default_rng(5)
n = 2400
columns = rng.normal(size=(n, 6)) @ rng.normal(size=(6, 6))
table = pd.DataFrame(columns.round(4), columns=[f"x{k}" for k in range(6)])
table["back"] = np.where(columns[:, 0] + rng.normal(size=n) > 0, "yes", "no")
table.to_csv("customers.csv", index=False)
