"""Make up a table of two kinds of leaves."""

import numpy as np
import pandas as pd

rng = np.random.default_rng(21)
n = 2400
kind = rng.choice(["a", "b"], n)
width = rng.normal(np.where(kind == "a", 3.0, 4.2), 0.8)
length = width * 2 + rng.normal(np.where(kind == "a", 0.0, 0.8), 0.5)
table = pd.DataFrame({"width": width.round(3), "length": length.round(3), "kind": kind})
table.to_csv("leaves.csv", index=False)
